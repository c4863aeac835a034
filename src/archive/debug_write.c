/* archive/debug_write.c -- writes the NAME.py.debug_pkl records: a pickle with the distinct lines
 * of the authors' texts and, per row, the origin of a part of NAME.py. Lines are stored once and
 * referred to by index, as in PyTorch. Of a source only the function around a position is kept,
 * since messages show no more of it. Code that was read from an archive is traced back through that
 * archive's own records. */
#include "archive/debug_write.h"

#include "base/excerpt.h"
#include "formats/pickle_write.h"

typedef struct known_file { /* of the archive that the program was loaded from */
  script_row *rows;
  uint32_t n;
} known_file;

struct debug_writer {
  session *s;
  program *p;
  table files; /* code record's name -> known_file */
};

typedef struct record { /* one debug_pkl being written */
  debug_writer *d;
  pickle_writer *w;
  table lines;   /* text -> index + 1 */
  table written; /* source -> memo number + 1 */
} record;

debug_writer *debug_writer_new(session *s, program *p)
{
  debug_writer *d = session_new(s, debug_writer);

  d->s = s;
  d->p = p;
  session_table_init(s, &d->files);
  return d;
}

/* -- The author's text ------------------------------------------------------------------------- */

static source_range archived_range(debug_writer *d, source_range at)
{
  known_file *f = table_get(&d->files, str_of(at.src->name));
  source_range found = {NULL, 0, 0};

  if (!f) {
    f = session_new(d->s, known_file);
    f->n = d->p->origins(d->s, d->p, at.src->name, &f->rows);
    session_table_put(d->s, &d->files, str_of(at.src->name), (void *)((uintptr_t)f));
  }
  uint32_t lo = 0, hi = f->n; /* the last row that begins at or before the place */
  while (lo < hi) {
    uint32_t mid = lo + (hi - lo) / 2;
    if (f->rows[mid].offset <= at.start)
      lo = mid + 1;
    else
      hi = mid;
  }
  return lo ? f->rows[lo - 1].from : found;
}

static source_range author_range(debug_writer *d, source_range at)
{
  return d->p->origins && at.src->name && strncmp(at.src->name, "code/", 5) == 0
           ? archived_range(d, at)
           : at;
}

/* -- Sources ----------------------------------------------------------------------------------- */

static void add_text(record *r, const char *text, size_t n)
{
  const str line = {text, n};

  if (!table_get(&r->lines, line))
    session_table_put(r->d->s, &r->lines, line, (void *)(uintptr_t)(r->lines.n + 1));
}

static size_t line_length(const char *p, const char *end)
{
  const char *newline = memchr(p, '\n', (size_t)(end - p));

  return newline ? (size_t)(newline - p) + 1 : (size_t)(end - p);
}

/* The part of a row's text that messages show: for a large file, a function. */
typedef struct piece {
  const source *src;
  size_t from, to;
} piece;

static piece piece_of(const source_range *at)
{
  piece p = {.src = at->src};

  source_part(at->src, at->start, &p.from, &p.to);
  p.to += p.to < at->src->len && at->src->text[p.to] == '\n';
  if (at->end > p.to) { /* it reaches beyond */
    p.from = 0;
    p.to = at->src->len;
  }
  return p;
}

static void collect(record *r, piece of)
{
  const source *src = of.src;

  for (const char *p = src->text + of.from, *end = src->text + of.to; p < end;
       p += line_length(p, end))
    add_text(r, p, line_length(p, end));
  add_text(r, src->name ? src->name : "", src->name ? strlen(src->name) : 0);
}

static int64_t text_index(const record *r, const char *text, size_t n)
{
  return (int64_t)(uintptr_t)table_get(&r->lines, (str){text, n}) - 1;
}

/* Write (build_intlist([lines]), file, first line). */
static void put_source(record *r, piece of)
{
  const source *src = of.src;
  char *key = session_alloc(r->d->s, sizeof of);
  memcpy(key, &of, sizeof of);
  uintptr_t known = (uintptr_t)table_get(&r->written, (str){key, sizeof of});
  uint32_t line, column;

  if (known) {
    pickle_get_memo(r->w, (uint32_t)(known - 1));
    return;
  }
  pickle_op(r->w, PICKLE_OP_MARK);
  pickle_global(r->w, STR("torch.jit._pickle"), STR("build_intlist"));
  pickle_op(r->w, PICKLE_OP_MARK);
  pickle_op(r->w, PICKLE_OP_EMPTY_LIST);
  pickle_op(r->w, PICKLE_OP_MARK);
  for (const char *p = src->text + of.from, *end = src->text + of.to; p < end;
       p += line_length(p, end))
    pickle_int(r->w, text_index(r, p, line_length(p, end)));
  pickle_op(r->w, PICKLE_OP_APPENDS);
  pickle_op(r->w, PICKLE_OP_TUPLE);
  pickle_op(r->w, PICKLE_OP_REDUCE);
  pickle_int(r->w, text_index(r, src->name ? src->name : "", src->name ? strlen(src->name) : 0));
  source_position(src, (uint32_t)of.from, &line, &column);
  pickle_int(r->w, line);
  pickle_op(r->w, PICKLE_OP_TUPLE);
  session_table_put(r->d->s, &r->written, (str){key, sizeof of},
                    (void *)((uintptr_t)pickle_put(r->w) + 1));
}

static void put_row(record *r, const script_row *row)
{
  const piece of = piece_of(&row->from);

  pickle_op(r->w, PICKLE_OP_MARK);
  pickle_int(r->w, row->offset);
  pickle_op(r->w, PICKLE_OP_MARK);
  put_source(r, of);
  pickle_int(r->w, (int64_t)(row->from.start - of.from));
  pickle_int(r->w, (int64_t)(row->from.end - of.from));
  pickle_op(r->w, PICKLE_OP_TUPLE);
  pickle_int(r->w, 0);
  pickle_op(r->w, PICKLE_OP_TUPLE);
}

/* -- The record -------------------------------------------------------------------------------- */

static void write_record(record *r, const script_row *rows, uint32_t n)
{
  piece last = {0};

  for (uint32_t i = 0; i < n; i++) {
    const piece of = piece_of(&rows[i].from);
    if (memcmp(&of, &last, sizeof of) != 0)
      collect(r, of);
    last = of;
  }
  pickle_op(r->w, PICKLE_OP_MARK);
  pickle_str(r->w, STR("FORMAT_WITH_STRING_TABLE"));
  pickle_op(r->w, PICKLE_OP_MARK);
  for (uint32_t i = 0; i < r->lines.n; i++)
    pickle_str(r->w, r->lines.entries[i].key);
  pickle_op(r->w, PICKLE_OP_TUPLE);
  pickle_op(r->w, PICKLE_OP_MARK);
  for (uint32_t i = 0; i < n; i++)
    put_row(r, &rows[i]);
  pickle_op(r->w, PICKLE_OP_TUPLE);
  pickle_op(r->w, PICKLE_OP_TUPLE);
}

str debug_write(debug_writer *d, const script_row *rows, uint32_t n)
{
  script_row *kept = session_array(d->s, script_row, n + 1);
  record *r = session_new(d->s, record);
  uint32_t n_kept = 0;

  for (uint32_t i = 0; i < n; i++) {
    const source_range from = author_range(d, rows[i].from);
    if (from.src && (n_kept == 0 || memcmp(&kept[n_kept - 1].from, &from, sizeof from) != 0))
      kept[n_kept++] = (script_row){rows[i].offset, from};
  }
  if (n_kept == 0)
    return STR("");
  r->d = d;
  r->w = pickle_writer_new(d->s);
  session_table_init(d->s, &r->lines);
  session_table_init(d->s, &r->written);
  write_record(r, kept, n_kept);
  return pickle_finish(r->w);
}
