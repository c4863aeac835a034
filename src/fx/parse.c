/* fx/parse.c -- parses what fx_print_graph prints (str(graph) of torch.fx) by recursive descent.
 *
 *     graph():
 *         %x : [num_users=1] = placeholder[target=x]
 *         %pad : [num_users=1] = call_function[target=torch.ops.aten.pad.default](args =
 *     (%x, [1, 1], constant, 0.0), kwargs = {})
 *         return (pad,)
 *
 * Texts stand bare in it, so that the operator's schema has to say what is one: `constant` above is
 * a `str mode`.  Where such a text ends is found by trying: at each ", " the rest is parsed by the
 * schema, the shortest text first; a line may try MOST_TRIES times.  Without a schema (functions,
 * higher-order and custom operators) a word that is nothing else is a text up to the next comma.
 *
 * The text has no graphs inside and says nothing of values; these are not restored.
 *
 * Inside a line parsing returns false rather than leave the session, since another way may fit; the
 * place that was reached farthest is the one that the error tells. */
#include <errno.h>
#include <stdlib.h>

#include "base/grow.h"
#include "fx/graph.h"
#include "ops/call/lookup.h"
#include "tensor/dtype.h"

#define MOST_TRIES 10000 /* of ends of texts, in a line */

typedef struct user_number { /* what a line says of its users */
  const fx_node *node;
  size_t at;
  int64_t n;
} user_number;
typedef struct fx_parser {
  session *s;
  fx_graph *g;
  const char *place;
  str text;
  table nodes;       /* name -> fx_node */
  size_t pos, end;   /* of the part of a line that is being parsed */
  size_t farthest;   /* where parsing failed last */
  const char *expected;
  uint32_t n_tries;
  user_number *users; /* n_users of them */
  uint32_t n_users, cap_users;
} fx_parser;

/* -- Errors and words -------------------------------------------------------------------------- */

_Noreturn static void fail_at(fx_parser *p, size_t at, const char *expected)
{
  uint32_t line = 1;
  size_t start = 0, n = 0;

  for (size_t i = 0; i < at; i++)
    if (p->text.p[i] == '\n') {
      line++;
      start = i + 1;
    }
  while (n < 20 && at + n < p->text.len && (unsigned char)p->text.p[at + n] >= ' ')
    n++;
  session_fail_status(p->s, RUSH_EFORMAT, NULL, NULL, "%s:%u:%zu: expected %s, found '%.*s'",
                      p->place, line, at - start + 1, expected, (int)n, p->text.p + at);
}

/* Note what would have fitted here; returns false. */
static bool miss(fx_parser *p, const char *expected)
{
  if (p->pos >= p->farthest) {
    p->farthest = p->pos;
    p->expected = expected;
  }
  return false;
}

static bool looks_at(const fx_parser *p, const char *word)
{
  const size_t n = strlen(word);

  return p->end - p->pos >= n && memcmp(p->text.p + p->pos, word, n) == 0;
}

static bool consume(fx_parser *p, const char *word)
{
  if (!looks_at(p, word))
    return miss(p, session_printf(p->s, "'%s'", word));
  p->pos += strlen(word);
  return true;
}

static bool is_name_char(char c)
{
  return (c >= 'a' && c <= 'z') || (c >= 'A' && c <= 'Z') || (c >= '0' && c <= '9') || c == '_';
}

static str take_name(fx_parser *p)
{
  const size_t from = p->pos;

  while (p->pos < p->end && is_name_char(p->text.p[p->pos]))
    p->pos++;
  return (str){p->text.p + from, p->pos - from};
}

static const char *keep_name(fx_parser *p, str text)
{
  char *copy = session_alloc_in(p->s, p->g->mem, text.len + 1);

  if (text.len)
    memcpy(copy, text.p, text.len);
  return copy;
}

static fx_arg text_arg(fx_parser *p, fx_kind kind, str text)
{
  return (fx_arg){.kind = kind, .n = (uint32_t)text.len, .as.text = keep_name(p, text)};
}

/* -- Numbers and names of torch ---------------------------------------------------------------- */

static bool is_number_char(char c)
{
  return (c >= '0' && c <= '9') || (c != 0 && strchr("+-.einfaj", c) != NULL);
}

/* Make a complex number of "3j" or "1-3j"; `text` ends with j. */
static bool make_complex(fx_parser *p, char *text, fx_arg *out)
{
  double *c = session_alloc_in(p->s, p->g->mem, 2 * sizeof *c);
  char *end;

  c[1] = strtod(text, &end);
  if (strcmp(end, "j") != 0) {
    c[0] = c[1];
    c[1] = strtod(end, &end);
  }
  *out = (fx_arg){.kind = FX_COMPLEX, .as.complex = c};
  return strcmp(end, "j") == 0;
}

static bool parse_number(fx_parser *p, fx_arg *out)
{
  const size_t from = p->pos;
  const bool is_in_brackets = looks_at(p, "(");
  char text[80], *end = text;
  size_t n = 0;

  for (size_t i = from + is_in_brackets; i < p->end && is_number_char(p->text.p[i]); i++)
    if (n + 1 < sizeof text)
      text[n++] = p->text.p[i];
  text[n] = 0;
  if (!n)
    return miss(p, "a number");
  p->pos = from + is_in_brackets + n;
  if (text[n - 1] == 'j' && make_complex(p, text, out) && (!is_in_brackets || consume(p, ")")))
    return true;
  errno = 0;
  *out = fx_arg_int(strtoll(text, &end, 10));
  if (*end || errno)
    *out = (fx_arg){.kind = FX_FLOAT, .as.f = strtod(text, &end)};
  if (!*end && !is_in_brackets)
    return true;
  p->pos = from;
  return miss(p, "a number");
}

static const char *const formats[] = {"contiguous_format", "preserve_format", "channels_last",
                                      "channels_last_3d"};
static const char *const layouts[] = {"strided",    "sparse_coo", "sparse_csr", "_mkldnn",
                                      "sparse_csc", "sparse_bsr", "sparse_bsc"};

/* Parse torch.float32, torch.strided, torch.channels_last. */
static bool parse_constant(fx_parser *p, fx_arg *out)
{
  const size_t from = p->pos;

  if (!consume(p, "torch."))
    return false;
  const str name = take_name(p);
  for (int i = 0; i < RUSH_N_DTYPES; i++)
    if (dtype_name(i) && str_is(name, dtype_name(i))) {
      *out = (fx_arg){.kind = FX_DTYPE, .as.i = i};
      return true;
    }
  for (int i = 0; i < (int)COUNT_OF(layouts); i++)
    if (str_is(name, layouts[i])) {
      *out = (fx_arg){.kind = FX_LAYOUT, .as.i = i};
      return true;
    }
  for (int i = 0; i < (int)COUNT_OF(formats); i++)
    if (str_is(name, formats[i])) {
      *out = (fx_arg){.kind = FX_MEMORY_FORMAT, .as.i = i};
      return true;
    }
  p->pos = from;
  return miss(p, "a dtype, layout or memory format of torch");
}

/* Parse None, True or False, as whole words. */
static bool parse_word(fx_parser *p, fx_arg *out)
{
  const size_t from = p->pos;
  const str name = take_name(p);

  if (str_is(name, "None"))
    *out = (fx_arg){.kind = FX_NONE};
  else if (str_is(name, "True") || str_is(name, "False"))
    *out = (fx_arg){.kind = FX_BOOL, .as.b = name.len == 4};
  else
    p->pos = from;
  return p->pos > from || miss(p, "None, True or False");
}

static bool parse_node(fx_parser *p, fx_arg *out)
{
  const size_t from = p->pos;
  const str name = take_name(p);
  fx_node *n = table_get(&p->nodes, name);

  *out = fx_arg_node(n);
  if (n)
    return true;
  p->pos = from;
  return miss(p, "a value that is defined above");
}

/* -- Arguments by type ------------------------------------------------------------------------- */

/* What comes behind an argument, and is parsed to find out whether a text ends here. */
typedef struct rest rest;
typedef bool parse_rest(fx_parser *p, rest *r, fx_arg arg);
struct rest {
  parse_rest *parse;
  const schema *sc; /* NULL: none */
  fx_arg *args;     /* of the node: n_args */
  fx_named *kwargs;
  uint32_t n_args, cap_args, n_kwargs, cap_kwargs;
  bool is_operator_next; /* with_effects: argument 1 is an operator */
};

static const type *inner_of(const type *t)
{
  return t && t->kind == TYPE_OPTIONAL ? t->elems[0] : t;
}

static bool is_text_type(const type *t) { return t && t->kind == TYPE_STRING; }

static bool parse_value(fx_parser *p, const type *t, fx_arg *out);

/* Parse items up to the bracket; a tuple of one has a comma behind it. */
static bool parse_items(fx_parser *p, const type *item, fx_kind kind, const char *close,
                        fx_arg *out)
{
  fx_arg *items = NULL;
  uint32_t n = 0, cap = 0;

  while (!looks_at(p, close)) {
    if (n && !consume(p, ", "))
      return false;
    GROW(p->s, items, n, cap, 8);
    if (!parse_value(p, item, &items[n++]))
      return false;
    if (kind == FX_TUPLE && n == 1 && looks_at(p, ",)"))
      p->pos++;
  }
  p->pos += strlen(close);
  fx_arg *kept = session_alloc_in(p->s, p->g->mem, (n + (size_t)1) * sizeof *kept);
  if (n)
    memcpy(kept, items, n * sizeof *kept);
  *out = (fx_arg){.kind = kind, .n = n, .as.items = kept};
  return true;
}

/* Parse a text that ends at the next comma or closing bracket. */
static bool parse_short_text(fx_parser *p, fx_kind kind, fx_arg *out)
{
  const size_t from = p->pos;

  while (p->pos < p->end && !strchr(",)]}", p->text.p[p->pos]))
    p->pos++;
  *out = text_arg(p, kind, (str){p->text.p + from, p->pos - from});
  return p->pos > from || miss(p, "an argument");
}

/* Parse {key: value, ...}, an argument. */
static bool parse_dict(fx_parser *p, fx_arg *out)
{
  fx_named *items = NULL;
  uint32_t n = 0, cap = 0;

  while (!looks_at(p, "}")) {
    if (n && !consume(p, ", "))
      return false;
    GROW(p->s, items, n, cap, 4);
    const size_t from = p->pos;
    while (p->pos < p->end && !strchr(":}", p->text.p[p->pos]))
      p->pos++;
    const str name = {p->text.p + from, p->pos - from};
    items[n].name = str_of(keep_name(p, name));
    if (!consume(p, ": ") || !parse_value(p, NULL, &items[n++].arg))
      return false;
  }
  p->pos++;
  fx_named *kept = session_alloc_in(p->s, p->g->mem, (n + (size_t)1) * sizeof *kept);
  if (n)
    memcpy(kept, items, n * sizeof *kept);
  *out = (fx_arg){.kind = FX_DICT, .n = n, .as.named = kept};
  return true;
}

/* True if an argument can end here. */
static bool is_at_end(const fx_parser *p)
{
  return p->pos == p->end || strchr(",)]}", p->text.p[p->pos]) != NULL;
}

/* Parse a literal, a whole argument. */
static bool parse_literal(fx_parser *p, fx_arg *out)
{
  const size_t from = p->pos;

  if (((looks_at(p, "torch.") && parse_constant(p, out)) || parse_word(p, out) ||
       parse_number(p, out)) &&
      is_at_end(p))
    return true;
  p->pos = from;
  return false;
}

/* Parse a value that is no text, or a text that ends at the next comma. */
static bool parse_value(fx_parser *p, const type *t, fx_arg *out)
{
  const type *inner = inner_of(t);
  const type *item = inner && inner->kind == TYPE_LIST ? inner->elems[0] : NULL;
  bool good;

  session_enter(p->s);
  if (looks_at(p, "%") && p->pos++ < p->end)
    good = parse_node(p, out);
  else if (is_text_type(inner))
    good = parse_short_text(p, FX_STRING, out);
  else if (parse_literal(p, out))
    good = true;
  else if (looks_at(p, "[") && p->pos++ < p->end)
    good = parse_items(p, item, FX_LIST, "]", out);
  else if (looks_at(p, "(") && p->pos++ < p->end)
    good = parse_items(p, item, FX_TUPLE, ")", out);
  else if (looks_at(p, "{") && p->pos++ < p->end)
    good = parse_dict(p, out);
  else
    good = parse_short_text(p, inner && inner->kind == TYPE_DEVICE ? FX_DEVICE : FX_STRING, out);
  session_leave(p->s);
  return good;
}

/* Parse a text of the schema's, and the rest behind it: the shortest text that leaves a rest that
 * can be parsed. */
static bool parse_text(fx_parser *p, rest *r)
{
  const size_t from = p->pos;
  const rest before = *r;

  for (size_t at = from; at <= p->end; at++) {
    if (at < p->end && !(p->text.p[at] == ',' && at + 1 <= p->end))
      continue;
    if (++p->n_tries > MOST_TRIES)
      return miss(p, "fewer ways to read this line");
    *r = before;
    p->pos = at;
    if (r->parse(p, r, text_arg(p, FX_STRING, (str){p->text.p + from, at - from})))
      return true;
  }
  return false;
}

/* Parse an argument of the type, and what comes behind it. */
static bool parse_arg(fx_parser *p, const type *t, rest *r)
{
  const size_t from = p->pos;
  const rest before = *r;
  fx_arg a;

  if (r->is_operator_next) {
    r->is_operator_next = false;
    if (!parse_short_text(p, FX_OPERATOR, &a))
      return false;
    const bool is_higher_order = !memchr(a.as.text, '.', a.n);
    const char *name = session_printf(
      p->s, "torch.ops.%s%s", is_higher_order ? "higher_order." : "", a.as.text);
    return r->parse(p, r, text_arg(p, FX_OPERATOR, str_of(name)));
  }
  if (!is_text_type(inner_of(t)))
    return parse_value(p, t, &a) && r->parse(p, r, a);
  if (parse_word(p, &a) && a.kind == FX_NONE && r->parse(p, r, a))
    return true;
  *r = before;
  p->pos = from;
  return parse_text(p, r);
}

/* -- A call ------------------------------------------------------------------------------------ */

/* Go on behind an argument that was given by position: the next one, or the end. */
static bool parse_positional(fx_parser *p, rest *r, fx_arg arg)
{
  GROW(p->s, r->args, r->n_args, r->cap_args, 8);
  r->args[r->n_args++] = arg;
  if (p->pos == p->end || (r->n_args == 1 && p->end - p->pos == 1 && consume(p, ",")))
    return true;
  if (r->sc && r->n_args >= r->sc->n_args)
    return miss(p, "no more arguments");
  if (!consume(p, ", "))
    return false;
  return parse_arg(p, r->sc ? r->sc->args[r->n_args].type : NULL, r);
}

static bool parse_named(fx_parser *p, rest *r);

static bool parse_keyword(fx_parser *p, rest *r, fx_arg arg)
{
  r->kwargs[r->n_kwargs++].arg = arg;
  return p->pos == p->end || (consume(p, ", ") && parse_named(p, r));
}

static bool parse_named(fx_parser *p, rest *r)
{
  const str name = take_name(p);
  const int at = r->sc ? schema_arg_index(r->sc, name) : -1;

  if (!name.len || !consume(p, ": "))
    return miss(p, "the name of an argument");
  GROW(p->s, r->kwargs, r->n_kwargs, r->cap_kwargs, 4);
  r->kwargs[r->n_kwargs].name = (str){keep_name(p, name), name.len};
  return parse_arg(p, at < 0 ? NULL : r->sc->args[at].type, r);
}

/* Find the last `part` in the text from `from` to `to`; SIZE_MAX: there is none. */
static size_t find_last(const fx_parser *p, const char *part, size_t from, size_t to)
{
  const size_t n = strlen(part);

  for (size_t at = to; at >= from + n; at--)
    if (memcmp(p->text.p + at - n, part, n) == 0)
      return at - n;
  return SIZE_MAX;
}

static void set_arguments(fx_parser *p, fx_node *n, const rest *r)
{
  fx_arg *args = session_alloc_in(p->s, p->g->mem, (r->n_args + (size_t)1) * sizeof *args);
  fx_named *kwargs = session_alloc_in(p->s, p->g->mem, (r->n_kwargs + (size_t)1) * sizeof *kwargs);

  if (r->n_args)
    memcpy(args, r->args, r->n_args * sizeof *args);
  if (r->n_kwargs)
    memcpy(kwargs, r->kwargs, r->n_kwargs * sizeof *kwargs);
  n->args = args;
  n->n_args = r->n_args;
  n->kwargs = kwargs;
  n->n_kwargs = r->n_kwargs;
}

/* Parse "(args = (...), kwargs = {...})" up to `end`. */
static void parse_call(fx_parser *p, fx_node *n, size_t end)
{
  static const char between[] = "), kwargs = {";
  const size_t middle = find_last(p, between, p->pos, end);
  const op *o = session_op_of_target(p->s, str_of(n->target));
  rest r = {.parse = parse_positional, .sc = o ? o->schema : NULL};

  if (middle == SIZE_MAX || end - middle < sizeof between + 1 ||
      memcmp(p->text.p + end - 2, "})", 2) != 0)
    fail_at(p, p->pos, "arguments, as \"(args = (...), kwargs = {...})\"");
  p->n_tries = 0;
  p->farthest = p->pos;
  p->end = middle;
  if (p->pos < p->end &&
      !parse_arg(p, r.sc && r.sc->n_args ? r.sc->args[0].type : NULL, &r))
    fail_at(p, p->farthest, p->expected);
  p->pos = middle + sizeof between - 1;
  p->end = end - 2;
  p->farthest = p->pos;
  r.parse = parse_keyword;
  if (p->pos < p->end && !parse_named(p, &r))
    fail_at(p, p->farthest, p->expected);
  p->pos = end;
  set_arguments(p, n, &r);
}

/* -- What a graph returns, as Python writes it ------------------------------------------------- */

static bool parse_code(fx_parser *p, fx_arg *out);

static bool parse_code_items(fx_parser *p, fx_kind kind, const char *close, fx_arg *out)
{
  fx_arg *items = NULL;
  uint32_t n = 0, cap = 0;

  while (!looks_at(p, close)) {
    if (n && !consume(p, ", "))
      return false;
    GROW(p->s, items, n, cap, 8);
    if (!parse_code(p, &items[n++]))
      return false;
    if (kind == FX_TUPLE && n == 1 && looks_at(p, ",)"))
      p->pos++;
  }
  p->pos++;
  fx_arg *kept = session_alloc_in(p->s, p->g->mem, (n + (size_t)1) * sizeof *kept);
  if (n)
    memcpy(kept, items, n * sizeof *kept);
  *out = (fx_arg){.kind = kind, .n = n, .as.items = kept};
  return true;
}

/* Parse a text in quotes without escapes but \\ and \'. */
static bool parse_quoted(fx_parser *p, fx_arg *out)
{
  const char quote = p->text.p[p->pos++];
  char *text = session_alloc(p->s, p->end - p->pos + 1);
  size_t n = 0;

  while (p->pos < p->end && p->text.p[p->pos] != quote) {
    if (looks_at(p, "\\") && p->end - p->pos > 1 && strchr("\\'\"", p->text.p[p->pos + 1]))
      p->pos++;
    else if (looks_at(p, "\\"))
      return miss(p, "a text without other escapes than of quotes");
    text[n++] = p->text.p[p->pos++];
  }
  if (p->pos++ >= p->end)
    return miss(p, "the end of a text");
  *out = text_arg(p, FX_STRING, (str){text, n});
  return true;
}

static bool parse_code(fx_parser *p, fx_arg *out)
{
  bool good;

  session_enter(p->s);
  if (parse_literal(p, out))
    good = true;
  else if (looks_at(p, "(") && p->pos++ < p->end)
    good = parse_code_items(p, FX_TUPLE, ")", out);
  else if (looks_at(p, "[") && p->pos++ < p->end)
    good = parse_code_items(p, FX_LIST, "]", out);
  else if (looks_at(p, "'") || looks_at(p, "\""))
    good = parse_quoted(p, out);
  else
    good = parse_node(p, out);
  session_leave(p->s);
  return good;
}

static void parse_return(fx_parser *p, size_t end)
{
  fx_arg *args = session_alloc_in(p->s, p->g->mem, sizeof *args);

  p->end = end;
  p->farthest = p->pos;
  if (!parse_code(p, args))
    fail_at(p, p->farthest, p->expected);
  if (p->pos != end)
    fail_at(p, p->pos, "nothing behind what the graph returns");
  fx_node *n = fx_node_new(p->s, p->g, FX_OUTPUT, "output", "output");
  n->args = args;
  n->n_args = 1;
}

/* -- Lines ------------------------------------------------------------------------------------- */

static const char indent[] = "\n    ";

/* Return where the node that begins at `from` ends: before the next one.  Texts may have line
 * breaks in them. */
static size_t end_of_node(const fx_parser *p, size_t from)
{
  const size_t n = sizeof indent - 1;

  for (size_t at = from; at + n < p->text.len; at++) {
    if (memcmp(p->text.p + at, indent, n) != 0)
      continue;
    const char *next = p->text.p + at + n;
    const size_t left = p->text.len - at - n;
    if (*next == '%' || (left > 7 && memcmp(next, "return ", 7) == 0))
      return at;
  }
  return p->text.len;
}

static void need(fx_parser *p, const char *word)
{
  if (!consume(p, word))
    fail_at(p, p->pos, session_printf(p->s, "'%s'", word));
}

static fx_op need_op(fx_parser *p)
{
  static const char *const words[] = {"placeholder[target=", "get_attr[target=",
                                      "call_function[target="};

  for (int i = 0; i < (int)COUNT_OF(words); i++)
    if (looks_at(p, words[i])) {
      p->pos += strlen(words[i]);
      return (fx_op)i;
    }
  fail_at(p, p->pos, "placeholder, get_attr or call_function");
}

/* Parse the target up to `close`; "operator.mul" is _operator.mul. */
static const char *need_target(fx_parser *p, const char *close)
{
  static const char module[] = "operator.";
  const size_t from = p->pos;

  while (p->pos < p->end && !looks_at(p, close))
    p->pos++;
  const str target = {p->text.p + from, p->pos - from};
  need(p, close);
  const bool is_python =
    target.len > sizeof module && memcmp(target.p, module, sizeof module - 1) == 0;
  return keep_name(p, str_of(session_printf(p->s, "%s%.*s", is_python ? "_" : "", (int)target.len,
                                            target.p)));
}

static void parse_line(fx_parser *p, size_t end)
{
  p->end = end;
  need(p, "%");
  const size_t at = p->pos;
  const char *name = keep_name(p, take_name(p));
  if (!*name || table_get(&p->nodes, str_of(name)))
    fail_at(p, at, *name ? "a name that no other value has" : "the name of a value");
  need(p, " : [num_users=");
  user_number users = {.at = p->pos};
  for (; p->pos < p->end && p->text.p[p->pos] >= '0' && p->text.p[p->pos] <= '9'; p->pos++)
    users.n = users.n > INT32_MAX ? users.n : 10 * users.n + p->text.p[p->pos] - '0';
  need(p, "] = ");
  const fx_op op = need_op(p);
  const char *target = need_target(p, op == FX_CALL_FUNCTION ? "](args = (" : "]");
  fx_node *n = fx_node_new(p->s, p->g, op, target, name);
  n->name = name;
  n->at = at;
  users.node = n;
  GROW(p->s, p->users, p->n_users, p->cap_users, 64);
  p->users[p->n_users++] = users;
  if (op == FX_CALL_FUNCTION)
    parse_call(p, n, end);
  else if (p->pos != end)
    fail_at(p, p->pos, "the end of the line");
  session_table_put(p->s, &p->nodes, str_of(name), n);
}

fx_graph *fx_parse_graph(session *s, arena *mem, const char *place, str text)
{
  fx_parser *p = session_new(s, fx_parser);

  while (text.len && text.p[text.len - 1] == '\n')
    text.len--;
  *p = (fx_parser){.s = s, .g = fx_graph_new(s, mem), .place = place, .text = text};
  p->end = text.len;
  session_table_init(s, &p->nodes);
  need(p, "graph():");
  while (!p->g->last || p->g->last->op != FX_OUTPUT) {
    session_poll(s);
    p->end = text.len;
    need(p, indent);
    const size_t end = end_of_node(p, p->pos);
    if (looks_at(p, "return ") && (p->pos += 7))
      parse_return(p, end);
    else
      parse_line(p, end);
  }
  if (p->pos != text.len)
    fail_at(p, p->pos, "nothing behind the return");
  fx_graph_count_users(s, p->g);
  for (uint32_t i = 0; i < p->n_users; i++) /* a value may have been read as a text */
    if (p->users[i].node->n_users != p->users[i].n)
      fail_at(p, p->users[i].at, "the number of users that the value has");
  return p->g;
}
