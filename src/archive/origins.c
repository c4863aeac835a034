/* archive/origins.c -- where archived code came from: NAME.py.debug_pkl beside NAME.py.
 *
 * A pickle of rows (offset, range, tag), by rising offset: the text of NAME.py from there on was
 * printed for that range of the author's file.  Since PyTorch 1.10 texts are indices into a table
 * of strings:
 *   ("FORMAT_WITH_STRING_TABLE", (strings...), ((offset, ((build_intlist([indices]), file index,
 *   line), start, end), tag)...))
 * and before it the rows contain them.  Read only for messages, so never kept. */
#include "archive/torchscript.h"

#include "formats/pickle.h"
#include "formats/zip.h"

/* One file's rows, while they are read. */
typedef struct reader {
  session *s;
  const pickle *p;
  const pickle_seq *strings; /* NULL: the rows contain the texts */
  table sources;             /* source's tuple -> source *, which the session releases */
} reader;

static str string_at(session *s, const pickle *p, const pickle_seq *strings, const pickle_node *n)
{
  if (!strings)
    return pickle_need_str(s, p, n, "text");
  int64_t i = pickle_need_int(s, p, n, "text index");
  if (i < 0 || i >= strings->n)
    pickle_fail(s, p, n, "string %lld of %u", (long long)i, strings->n);
  return pickle_need_str(s, p, strings->at[i], "text");
}

/* Join the lines of a source to one text. */
static str join(session *s, const pickle *p, const pickle_seq *strings, const pickle_node *n)
{
  if (!strings)
    return pickle_need_str(s, p, n, "source text");
  const pickle_seq *args = pickle_is_call(n, "torch.jit._pickle", "build_intlist")
                               ? pickle_need_tuple(s, p, n->as.object->args, "source lines")
                               : NULL;
  const pickle_seq *lines =
    pickle_need_list(s, p, args && args->n ? args->at[0] : n, "source lines");
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

/* Find the last row that begins at or before the offset. */
static const pickle_node *find_row(session *s, const pickle *p, const pickle_seq *rows,
                                   uint32_t offset)
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

static void unref_source(void *src) { source_release(src); }

static source *make_source(reader *r, const pickle_node *n)
{
  const pickle_seq *from = pickle_need_tuple(r->s, r->p, n, "source");
  str file = STR("");

  if (from->n < 3)
    return NULL;
  str text = join(r->s, r->p, r->strings, from->at[0]);
  if (from->at[1]->kind != PICKLE_NONE)
    file = string_at(r->s, r->p, r->strings, from->at[1]);
  int64_t line = pickle_need_int(r->s, r->p, from->at[2], "line");
  if (text.len == 0 || text.len > UINT32_MAX)
    return NULL;
  const char *name = file.len ? session_printf(r->s, "%.*s", (int)file.len, file.p) : NULL;
  source *src = source_new(r->s->cx->ctx, name, text.p, text.len);
  if (!src)
    session_check(r->s, call_nomem(r->s->cx));
  src->first_line = line > 0 && line < UINT32_MAX ? (uint32_t)line : 1;
  session_defer(r->s, unref_source, src);
  return src;
}

/* Make a source, once for all rows that share it. */
static source *origin_source(reader *r, const pickle_node *n)
{
  source *src = table_get(&r->sources, (str){(const char *)&n->id, sizeof n->id});

  if (src)
    return src;
  src = make_source(r, n);
  if (src && !table_put(&r->sources, (str){(const char *)&n->id, sizeof n->id}, src))
    session_check(r->s, call_nomem(r->s->cx));
  return src;
}

/* Read a range; .src NULL: the row has none. */
static source_range read_range(reader *r, const pickle_node *n)
{
  const source_range none = {NULL, 0, 0};
  const pickle_seq *range = pickle_need_tuple(r->s, r->p, n, "range");

  if (range->n < 3 || range->at[0]->kind != PICKLE_TUPLE)
    return none;
  source *src = origin_source(r, range->at[0]);
  int64_t start = pickle_need_int(r->s, r->p, range->at[1], "start"),
          end = pickle_need_int(r->s, r->p, range->at[2], "end");
  if (!src || start < 0 || end < start || (uint64_t)end > src->len)
    return none;
  return (source_range){src, (uint32_t)start, (uint32_t)end};
}

/* Open the rows of a code record's file; NULL if it has none. */
static const pickle_seq *open_rows(session *s, const zip_archive *zip, const char *record,
                                   reader *r)
{
  const zip_entry *e = zip_find(zip, session_printf(s, "%s.debug_pkl", record));

  if (!e)
    return NULL;
  input in = zip_input(s, zip, e);
  r->s = s;
  r->p = pickle_read_all(s, &in);
  session_table_init(s, &r->sources);
  const pickle_seq *rows = pickle_need_tuple(s, r->p, r->p->root, "source ranges");
  if (rows->n == 3 && rows->at[0]->kind == PICKLE_STR &&
      str_is(rows->at[0]->as.text, "FORMAT_WITH_STRING_TABLE")) {
    r->strings = pickle_need_tuple(s, r->p, rows->at[1], "strings");
    rows = pickle_need_tuple(s, r->p, rows->at[2], "source ranges");
  }
  return rows;
}

uint32_t torchscript_origins(session *s, const zip_archive *zip, const char *record,
                             script_row **out)
{
  reader *r = session_new(s, reader);
  const pickle_seq *rows = open_rows(s, zip, record, r);
  uint32_t n = 0;

  *out = session_array(s, script_row, rows ? rows->n + 1 : 1);
  for (uint32_t i = 0; rows && i < rows->n; i++) {
    const pickle_seq *row = pickle_need_tuple(s, r->p, rows->at[i], "row");
    if (row->n < 2)
      pickle_fail(s, r->p, rows->at[i], "a row of %u fields", row->n);
    int64_t offset = pickle_need_int(s, r->p, row->at[0], "offset");
    if (offset >= 0 && offset <= UINT32_MAX)
      (*out)[n++] = (script_row){(uint32_t)offset, read_range(r, row->at[1])};
  }
  return n;
}

typedef struct lookup {
  const zip_archive *zip;
  const source_range *at;
  source *src; /* found; new */
  source_range range;
} lookup;

static void look_up(session *s, void *arg)
{
  lookup *l = arg;
  reader *r = session_new(s, reader);
  const pickle_seq *rows = open_rows(s, l->zip, l->at->src->name, r);
  const pickle_node *row = rows ? find_row(s, r->p, rows, l->at->start) : NULL;

  if (row)
    l->range = read_range(r, row);
  l->src = (source *)l->range.src; /* kept at the end, where nothing leaves any more */
  if (l->src)
    source_retain(l->src);
}

bool torchscript_original(call_ctx *cx, const zip_archive *z, const source_range *at,
                          source_range *out, source **src)
{
  lookup l = {.zip = z, .at = at};
  call_ctx quiet = *cx; /* errors here must not hide the error that is being reported */

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
