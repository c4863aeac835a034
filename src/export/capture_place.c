/* export/capture_place.c -- the lines and modules that nodes of captured programs come from, as
 * metadata: torch.export's letter by letter, since its users read them in error messages.
 *
 * Each node has a place, and one text may have lines for 100,000 of them. What needs a look at a
 * whole text (where its lines begin, whether it is code or frames of a trace, what archived code
 * was printed for) is therefore found out once for each text; a place is then a binary search. */
#include "export/capture_int.h"

#include "base/grow.h"
#include "formats/json.h"
#include "script/print/print.h"

/* What is known of a text. */
typedef struct place_text {
  bool is_code;        /* it has no frames of a trace */
  bool has_rows;       /* whether the next two are set */
  script_row *rows;    /* of archived code: the author's ranges, by offset */
  uint32_t n_rows;
  uint32_t *starts;    /* offsets of the lines; NULL: not needed yet */
  uint32_t n_starts, cap_starts;
} place_text;

static place_text *known_text(capture *c, const source *src)
{
  place_text *t = table_get(&c->places, address_key(src));

  if (!t) {
    t = session_new(c->s, place_text);
    session_table_put(c->s, &c->places, address_key(src), t);
  }
  return t;
}

/* -- Lines of code ----------------------------------------------------------------------------- */

static void find_lines(session *s, place_text *t, const source *src)
{
  const char *end = src->text + src->len;

  for (const char *p = src->text; p; p = p ? p + 1 : NULL) {
    GROW(s, t->starts, t->n_starts, t->cap_starts, 64);
    t->starts[t->n_starts++] = (uint32_t)(p - src->text);
    p = memchr(p, '\n', (size_t)(end - p));
  }
}

/* Append `File "net.py", line 12, in forward` and the line's text. */
static void add_line(session *s, place_text *t, text_buf *out, const source *src, uint32_t offset,
                     const char *in)
{
  uint32_t lo = 0, hi;

  if (!t->starts)
    find_lines(s, t, src);
  for (hi = t->n_starts; lo < hi;) { /* to the first line that begins behind the offset */
    const uint32_t mid = lo + (hi - lo) / 2;
    if (t->starts[mid] <= offset)
      lo = mid + 1;
    else
      hi = mid;
  }
  size_t start = t->starts[lo - 1], end = lo < t->n_starts ? t->starts[lo] - 1 : src->len;
  while (start < end && (src->text[start] == ' ' || src->text[start] == '\t'))
    start++;
  text_printf(out, "%sFile \"%s\", line %u, in %s\n    %.*s", out->len ? "\n  " : "",
              src->name ? src->name : "<string>", src->first_line + lo - 1, in,
              (int)(end - start), src->text + start);
}

/* -- Frames of a trace ------------------------------------------------------------------------- */

/* Append a line of Python's frames as a trace has it, "net.py(12): forward", and the line's text,
 * if `is_wanted`; returns false if it is no such line. */
static bool add_python_frame(text_buf *out, str line, str code, bool is_wanted)
{
  size_t open = line.len, close;

  while (open > 0 && line.p[open - 1] != '(')
    open--;
  for (close = open; close < line.len && line.p[close] >= '0' && line.p[close] <= '9'; close++)
    ;
  if (!open || close == open || close + 3 > line.len || memcmp(line.p + close, "): ", 3) != 0)
    return false;
  if (is_wanted)
    text_printf(out, "%sFile \"%.*s\", line %.*s, in %.*s\n    %.*s", out->len ? "\n  " : "",
                (int)open - 1, line.p, (int)(close - open), line.p + open,
                (int)(line.len - close - 3), line.p + close + 3, (int)code.len, code.p);
  return true;
}

/* Append the frames of a node that was traced, whose text they are, innermost first; returns false
 * if the text is code.  Of a live capture only those are appended that have a line of code
 * ("    y = x + 1" after their frame): torch.export's. */
static bool add_python_frames(text_buf *out, const source *src, bool is_live)
{
  static const char indent[] = "\n    ";
  const bool needs_code = is_live || strstr(src->text, indent) != NULL;
  const size_t n_indent = sizeof indent - 2;
  bool found = false;
  str code = {NULL, 0};
  size_t end = src->len;

  while (end > 0) {
    size_t start = end - 1;
    while (start > 0 && src->text[start - 1] != '\n')
      start--;
    size_t len = end - start;
    len -= len && src->text[end - 1] == '\n';
    if (len >= n_indent && memcmp(src->text + start, indent + 1, n_indent) == 0) {
      code = (str){src->text + start + n_indent, len - n_indent};
    } else {
      found |= add_python_frame(out, (str){src->text + start, len}, code, !needs_code || code.p);
      code = (str){NULL, 0};
    }
    end = start;
  }
  return found;
}

/* -- The author's text of archived code -------------------------------------------------------- */

typedef struct rows_job {
  program *p;
  const char *file;
  script_row *rows; /* new, of the context's memory; their sources are retained */
  uint32_t n;
} rows_job;

static void read_rows(session *s, void *arg)
{
  rows_job *job = arg;
  script_row *found;
  const uint32_t n = job->p->origins(s, job->p, job->file, &found);

  if (!n)
    return;
  job->rows = mem_alloc(s->cx->ctx, n * sizeof *found);
  if (!job->rows)
    session_check(s, call_nomem(s->cx));
  job->n = n; /* last: nothing leaves any more */
  memcpy(job->rows, found, n * sizeof *found);
  for (uint32_t i = 0; i < n; i++)
    if (found[i].from.src)
      source_retain((source *)(uintptr_t)found[i].from.src);
}

typedef struct held_rows {
  context *ctx;
  script_row *rows;
  uint32_t n;
} held_rows;

static void release_rows(void *arg)
{
  held_rows *h = arg;

  for (uint32_t i = 0; i < h->n; i++)
    source_release((source *)(uintptr_t)h->rows[i].from.src);
  mem_free(h->ctx, h->rows, h->n * sizeof *h->rows);
}

/* Find the ranges that a file of archived code was printed for; none if they are damaged: they
 * serve messages only. */
static void find_rows(capture *c, place_text *t, program *p, const source *src)
{
  rows_job job = {.p = p, .file = src->name};
  call_ctx quiet = *c->s->cx;
  held_rows *held = session_new(c->s, held_rows);

  t->has_rows = true;
  quiet.err = NULL;
  held->ctx = quiet.ctx;
  session_defer(c->s, release_rows, held);
  if (!src->name || session_run(&quiet, read_rows, &job) != RUSH_OK)
    return;
  held->rows = t->rows = job.rows;
  held->n = t->n_rows = job.n;
}

static void unref_source(void *src) { source_release(src); }

/* Return where the author wrote what is at a range; its source lives as long as the session. */
static source_range author_range(capture *c, program *p, source_range at)
{
  source_range from;
  source *src;

  if (p->origins) {
    place_text *t = known_text(c, at.src);
    uint32_t lo = 0, hi;
    if (!t->has_rows)
      find_rows(c, t, p, at.src);
    for (hi = t->n_rows; lo < hi;) { /* to the first row behind the place */
      const uint32_t mid = lo + (hi - lo) / 2;
      if (t->rows[mid].offset <= at.start)
        lo = mid + 1;
      else
        hi = mid;
    }
    return lo && t->rows[lo - 1].from.src ? t->rows[lo - 1].from : at;
  }
  if (!p->original || !p->original(c->s->cx, p, &at, &from, &src))
    return at;
  session_defer(c->s, unref_source, src);
  return from;
}

/* -- Where a node comes from ------------------------------------------------------------------- */

static void add_frames(capture *c, text_buf *out, const capture_frame *f)
{
  if (!f)
    return;
  session_enter(c->s);
  add_frames(c, out, f->outer);
  session_leave(c->s);
  const bool is_live = c->options->structure != NULL;
  if (!f->at || !f->at->range.src || f->function->is_builtin)
    return;
  const source_range from = author_range(c, f->function->program, f->at->range);
  place_text *t = known_text(c, from.src);
  if (!t->is_code && add_python_frames(out, from.src, is_live))
    return;
  t->is_code = true;
  add_line(c->s, t, out, from.src, from.start, f->function->name);
}

/* Append "L__self__,,Net;L__self__layer.0@1,layer.0,Linear", outermost first. */
static void add_modules(capture *c, text_buf *out, const capture_module *m)
{
  static const char package[] = "__torch__.";
  const size_t n = sizeof package - 1;

  if (!m)
    return;
  session_enter(c->s);
  add_modules(c, out, m->outer);
  session_leave(c->s);
  text_printf(out, "%sL__self__%s", out->len ? ";" : "", m->path);
  if (m->call)
    text_printf(out, "@%u", m->call);
  text_printf(out, ",%s,%s", m->path,
              strncmp(m->class_name, package, n) == 0 ? m->class_name + n : m->class_name);
}

str capture_metadata(capture *c)
{
  text_buf *out, *part;

  if (c->origin)
    return c->origin->metadata;
  out = session_text(c->s);
  part = session_text(c->s);
  add_frames(c, part, c->frame);
  text_puts(out, "{\"stack_trace\": ");
  json_quote(out, str_of(session_take_text(c->s, part)));
  part = session_text(c->s);
  add_modules(c, part, c->module);
  text_puts(out, ", \"nn_module_stack\": ");
  json_quote(out, str_of(session_take_text(c->s, part)));
  text_putc(out, '}');
  return str_of(capture_text(c, session_take_text(c->s, out)));
}
