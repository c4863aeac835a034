/* archive/origins.c -- where archived code came from: NAME.py.debug_pkl beside NAME.py.
 *
 * A pickle of rows (offset, range, tag), by rising offset: text of NAME.py from there on was printed for
 * that range of the author's file.  Since PyTorch 1.10 texts are indices into a table of strings:
 *   ("FORMAT_WITH_STRING_TABLE", (strings...), ((offset, ((build_intlist([indices]), file index, line), start, end), tag)...))
 * and before it they stand in the rows.  Read only for messages, so never kept. */
#include "archive/torchscript.h"

#include "formats/pickle.h"
#include "formats/zip.h"

typedef struct lookup {
  const zip_archive *zip;
  const source_range *at;
  source *src; /* found; new */
  source_range range;
} lookup;

static str string_at(session *s, const pickle *p, const pickle_seq *strings, const pickle_node *n)
{
  if (!strings)
    return pickle_need_str(s, p, n, "text");
  int64_t i = pickle_need_int(s, p, n, "text index");
  if (i < 0 || i >= strings->n)
    pickle_fail(s, p, n, "string %lld of %u", (long long)i, strings->n);
  return pickle_need_str(s, p, strings->at[i], "text");
}

/* The lines of a source as one text. */
static str join(session *s, const pickle *p, const pickle_seq *strings, const pickle_node *n)
{
  if (!strings)
    return pickle_need_str(s, p, n, "source text");
  const pickle_seq *args = pickle_is_call(n, "torch.jit._pickle", "build_intlist")
                               ? pickle_need_tuple(s, p, n->as.object->args, "source lines")
                               : NULL;
  const pickle_seq *lines = pickle_need_list(s, p, args && args->n ? args->at[0] : n, "source lines");
  size_t len = 0;
  for (uint32_t i = 0; i < lines->n; i++)
    len += string_at(s, p, strings, lines->at[i]).len;
  char *text = session_alloc(s, len + 1);
  len = 0;
  for (uint32_t i = 0; i < lines->n; i++) {
    str line = string_at(s, p, strings, lines->at[i]);
    memcpy(text + len, line.p, line.len);
    len += line.len;
  }
  return (str){text, len};
}

/* The last row that begins at or before the offset. */
static const pickle_node *find_row(session *s, const pickle *p, const pickle_seq *rows, uint32_t offset)
{
  const pickle_node *found = NULL;

  for (uint32_t i = 0; i < rows->n; i++) {
    const pickle_seq *row = pickle_need_tuple(s, p, rows->at[i], "row");
    if (row->n < 2)
      pickle_fail(s, p, rows->at[i], "a row of %u fields", row->n);
    if (pickle_need_int(s, p, row->at[0], "offset") > offset)
      break;
    found = row->at[1];
  }
  return found;
}

static void read_range(session *s, const pickle *p, const pickle_seq *strings, const pickle_node *n, lookup *l)
{
  const pickle_seq *range = pickle_need_tuple(s, p, n, "range");
  if (range->n < 3 || range->at[0]->kind != PICKLE_TUPLE)
    return;
  const pickle_seq *from = pickle_need_tuple(s, p, range->at[0], "source");
  if (from->n < 3)
    return;
  str text = join(s, p, strings, from->at[0]), file = STR("");
  int64_t start = pickle_need_int(s, p, range->at[1], "start"), end = pickle_need_int(s, p, range->at[2], "end");
  if (from->at[1]->kind != PICKLE_NONE)
    file = string_at(s, p, strings, from->at[1]);
  int64_t line = pickle_need_int(s, p, from->at[2], "line");
  if (text.len == 0 || text.len > UINT32_MAX || start < 0 || end < start || (uint64_t)end > text.len)
    return;
  const char *name = file.len ? session_printf(s, "%.*s", (int)file.len, file.p) : NULL;
  l->src = source_new(s->cx->ctx, name, text.p, text.len);
  if (!l->src)
    session_check(s, call_nomem(s->cx));
  l->src->first_line = line > 0 && line < UINT32_MAX ? (uint32_t)line : 1;
  l->range = (source_range){l->src, (uint32_t)start, (uint32_t)end};
}

static void look_up(session *s, void *arg)
{
  lookup *l = arg;
  const zip_entry *e = zip_find(l->zip, session_printf(s, "%s.debug_pkl", l->at->src->name));
  if (!e)
    return;
  input in = zip_input(s, l->zip, e);
  const pickle *p = pickle_read_all(s, &in);
  const pickle_seq *rows = pickle_need_tuple(s, p, p->root, "source ranges"), *strings = NULL;
  if (rows->n == 3 && rows->at[0]->kind == PICKLE_STR && str_is(rows->at[0]->as.text, "FORMAT_WITH_STRING_TABLE")) {
    strings = pickle_need_tuple(s, p, rows->at[1], "strings");
    rows = pickle_need_tuple(s, p, rows->at[2], "source ranges");
  }
  const pickle_node *row = find_row(s, p, rows, l->at->start);
  if (row)
    read_range(s, p, strings, row, l);
}

bool torchscript_original(call_ctx *cx, const zip_archive *z, const source_range *at, source_range *out, source **src)
{
  lookup l = {.zip = z, .at = at};
  call_ctx quiet = *cx; /* what goes wrong here must not hide the error that is being told */

  if (!at->src || !at->src->name)
    return false;
  quiet.err = NULL;
  if (session_run(&quiet, look_up, &l) != RUSH_OK) {
    source_release(l.src);
    return false;
  }
  *src = l.src;
  *out = l.range;
  return l.src != NULL;
}
