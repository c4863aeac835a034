/* fx/metadata.c -- what files say of nodes beside the program: the author's place, and notes.  It
 * is kept as JSON and read when somebody asks, since it is half of a file and no run needs it. */
#include "fx/print.h"

#include "formats/json.h"

/* Return the value of a key in an object of strings; empty: there is none. */
static str read_member(session *s, str object, const char *key)
{
  const input in = {"metadata of a node", object};
  str name, found = {0};
  json j;

  json_init(&j, s, &in);
  for (json_begin_object(&j); json_next_key(&j, &name);)
    if (str_is(name, key) && json_peek(&j) == JSON_STRING)
      found = json_string(&j);
    else
      json_skip(&j);
  return found;
}

str fx_node_metadata(session *s, const fx_node *n, const char *key)
{
  return n->metadata.len ? read_member(s, n->metadata, key) : (str){0};
}

/* -- Places ------------------------------------------------------------------------------------ */

static str trim(str t)
{
  while (t.len && strchr(" \t\r\n\f\v", t.p[0]))
    t = (str){t.p + 1, t.len - 1};
  while (t.len && strchr(" \t\r\n\f\v", t.p[t.len - 1]))
    t.len--;
  return t;
}

/* Return the last line of *text, and take it away. */
static str take_last_line(str *text)
{
  size_t at = text->len;

  while (at > 0 && text->p[at - 1] != '\n')
    at--;
  str line = {text->p + at, text->len - at};
  text->len = at ? at - 1 : 0;
  return line;
}

/* Find the last `part` in t; returns its offset, or t.len. */
static size_t find_last(str t, const char *part)
{
  size_t n = strlen(part);

  for (size_t i = t.len + 1; i-- > n;)
    if (memcmp(t.p + i - n, part, n) == 0)
      return i - n;
  return t.len;
}

/* Read `File "net.py", line 12, in forward`. */
static bool read_place(str line, fx_place *out)
{
  static const char begin[] = "File \"", middle[] = "\", line ", end[] = ", in ";
  const size_t n_begin = sizeof begin - 1, n_middle = sizeof middle - 1, n_end = sizeof end - 1;
  size_t at;

  if (line.len <= n_begin || memcmp(line.p, begin, n_begin) != 0)
    return false;
  line = (str){line.p + n_begin, line.len - n_begin};
  at = find_last(line, middle);
  if (at == line.len || at == 0)
    return false;
  out->file = (str){line.p, at};
  line = (str){line.p + at + n_middle, line.len - at - n_middle};
  for (at = 0; at < line.len && line.p[at] >= '0' && line.p[at] <= '9'; at++)
    ;
  out->line = (str){line.p, at};
  line = (str){line.p + at, line.len - at};
  if (at == 0 || line.len <= n_end || memcmp(line.p, end, n_end) != 0)
    return false;
  out->function = (str){line.p + n_end, line.len - n_end};
  return true;
}

bool fx_place_of(str stack_trace, fx_place *out)
{
  str text = trim(stack_trace);
  str code = text.len ? take_last_line(&text) : text;

  while (text.len) {
    str line = trim(take_last_line(&text));
    if (read_place(line, out)) {
      out->code = trim(code);
      return true;
    }
    code = line;
  }
  return false;
}

static bool is_torchs(str file)
{
  static const char folder[] = "/torch/";
  const size_t n = sizeof folder - 1;

  for (size_t i = 0; i + n <= file.len; i++)
    if (memcmp(file.p + i, folder, n) == 0)
      return true;
  return false;
}

bool fx_author_of(str trace, fx_place *out)
{
  fx_place place;

  if (!fx_place_of(trace, out))
    return false;
  for (place = *out; is_torchs(place.file);) {
    trace.len = (size_t)(place.file.p - trace.p) - (sizeof "File \"" - 1); /* what stands before */
    if (!fx_place_of(trace, &place))
      return true;
  }
  *out = place;
  return true;
}

/* -- Annotations ------------------------------------------------------------------------------- */

static void put_python(session *s, text_buf *out, json *j);

static void put_python_items(session *s, text_buf *out, json *j)
{
  bool first = true;
  str key;

  if (json_peek(j) == JSON_ARRAY) {
    text_putc(out, '[');
    for (json_begin_array(j); json_next_item(j); first = false) {
      text_puts(out, first ? "" : ", ");
      put_python(s, out, j);
    }
    text_putc(out, ']');
    return;
  }
  text_putc(out, '{');
  for (json_begin_object(j); json_next_key(j, &key); first = false) {
    text_puts(out, first ? "" : ", ");
    text_quote(out, key.p, key.len);
    text_puts(out, ": ");
    put_python(s, out, j);
  }
  text_putc(out, '}');
}

/* Print the next value as Python's repr of what json.loads returns. */
static void put_python(session *s, text_buf *out, json *j)
{
  char number[FLOAT_REPR_BYTES];
  str text;

  switch (json_peek(j)) {
  case JSON_NULL:
    json_null(j);
    text_puts(out, "None");
    return;
  case JSON_BOOL:
    text_puts(out, json_bool(j) ? "True" : "False");
    return;
  case JSON_INT:
    text = json_raw(j);
    text_add(out, text.p, text.len);
    return;
  case JSON_FLOAT:
    text_add(out, number, float_repr(json_double(j), number));
    return;
  case JSON_STRING:
    text = json_string(j);
    text_quote(out, text.p, text.len);
    return;
  default:
    session_enter(s);
    put_python_items(s, out, j);
    session_leave(s);
  }
}

#define MOST_SHOWN 40 /* letters of a value */

/* Print the value, or if its text is long the begin of that text, in quotes. */
static void put_short(session *s, text_buf *out, json *j)
{
  text_buf *text = session_text(s);
  size_t n = 0, letters = 0;

  if (json_peek(j) == JSON_STRING) {
    str bare = json_string(j);
    for (; n < bare.len && letters < MOST_SHOWN; letters++) {
      size_t step = utf8_check(bare.p + n, bare.len - n);
      n += step ? step : 1;
    }
    const char *shown =
      session_printf(s, "%.*s%s", (int)n, bare.p ? bare.p : "", n < bare.len ? "..." : "");
    text_quote(out, shown, strlen(shown));
    return;
  }
  put_python(s, text, j);
  str whole = str_of(session_take_text(s, text));
  if (whole.len <= MOST_SHOWN)
    text_add(out, whole.p, whole.len);
  else
    text_printf(out, "'%.*s...'", MOST_SHOWN, whole.p);
}

void fx_print_annotation(session *s, text_buf *out, const fx_node *n)
{
  const str custom = fx_node_metadata(s, n, "custom");
  bool first = true;
  str key;
  json j;

  if (!custom.len)
    return;
  const input in = {"annotation of a node", custom};
  json_init(&j, s, &in);
  if (json_peek(&j) != JSON_OBJECT)
    return;
  for (json_begin_object(&j); json_next_key(&j, &key); first = false) {
    text_puts(out, first ? " Annotation: {" : ", ");
    text_quote(out, key.p, key.len);
    text_puts(out, ": ");
    put_short(s, out, &j);
  }
  text_puts(out, first ? "" : "}");
}
