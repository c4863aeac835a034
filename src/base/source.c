/* base/source.c -- source texts, positions in them and the excerpts that errors show. Lines and
 * columns are counted when they are needed, O(length), instead of kept in a table, because only
 * errors need them. The layout of excerpts, with tildes and "HERE", is PyTorch's, since its
 * messages are compared. */
#include "base/excerpt.h"

#define CONTEXT_NEWLINES 3 /* two lines before the range and two after it */

/* -- Sources ----------------------------------------------------------------------------------- */

static char *copy_text(context *c, const char *text, size_t len)
{
  char *copy = mem_alloc(c, len + 1);
  if (copy) {
    if (len)
      memcpy(copy, text, len);
    copy[len] = '\0';
  }
  return copy;
}

source *source_new(context *c, const char *name, const char *text, size_t len)
{
  source *s = mem_alloc(c, sizeof *s);
  if (!s)
    return NULL;
  *s = (source){.ctx = c, .len = len, .first_line = 1};
  atomic_init(&s->refs, 1);
  s->text = copy_text(c, text, len);
  s->name = name ? copy_text(c, name, strlen(name)) : NULL;
  if (!s->text || (name && !s->name)) {
    source_release(s);
    return NULL;
  }
  return s;
}

source *source_retain(source *s)
{
  if (s)
    atomic_fetch_add_explicit(&s->refs, 1, memory_order_relaxed);
  return s;
}

void source_release(source *s)
{
  if (!s || atomic_fetch_sub_explicit(&s->refs, 1, memory_order_acq_rel) != 1)
    return;
  if (s->name)
    mem_free(s->ctx, s->name, strlen(s->name) + 1);
  mem_free(s->ctx, s->text, s->len + 1);
  mem_free(s->ctx, s, sizeof *s);
}

void source_position(const source *s, uint32_t offset, uint32_t *line, uint32_t *column)
{
  const char *p = s->text, *at = s->text + (offset < s->len ? offset : s->len);
  uint32_t n = s->first_line;
  for (const char *nl; (nl = memchr(p, '\n', (size_t)(at - p))) != NULL; p = nl + 1)
    n++;
  *line = n;
  *column = (uint32_t)(at - p) + 1;
}

/* -- Excerpts ---------------------------------------------------------------------------------- */

static bool is_space(char ch) { return ch == ' ' || ch == '\t' || ch == '\n' || ch == '\r'; }

/* Return the end of the line: its newline, or the end of the text. */
static size_t line_end(const source *s, size_t i)
{
  while (i < s->len && s->text[i] != '\n')
    i++;
  return i;
}

/* Append tildes under the line [begin, end), for the part of it in [from, to).  Leading spaces and
 * empty ranges get none.  The last line with tildes gets HERE: in PyTorch it is the last if only
 * white space follows up to and beyond the range's end. */
static void add_tildes(text_buf *out, const source *s, size_t begin, size_t end, size_t from,
                       size_t to)
{
  while (from < end && s->text[from] == ' ')
    from++;
  if (from >= end || from >= to)
    return;
  size_t stop = end < to ? end : to;
  for (size_t i = begin; i < from; i++)
    text_putc(out, ' ');
  for (size_t i = from; i < stop; i++)
    text_putc(out, '~');
  size_t next = end;
  while (next < s->len && is_space(s->text[next]))
    next++;
  text_puts(out, to <= end || next > to ? " <--- HERE\n" : "\n");
}

/* Append the lines that the range touches, each with its tildes.  Returns where the text
 * continues. */
static size_t add_lines(text_buf *out, const source *s, size_t begin, size_t start, size_t end)
{
  size_t from = start;
  while (from < end) {
    size_t stop = line_end(s, from);
    text_add(out, s->text + from, stop - from); /* the lines before it are printed already */
    text_putc(out, '\n');
    add_tildes(out, s, begin, stop, from, end);
    from = begin = stop + 1;
  }
  return from;
}

static size_t indentation(const source *s, size_t line)
{
  size_t i = line;
  while (i < s->len && (s->text[i] == ' ' || s->text[i] == '\t'))
    i++;
  return i - line;
}

static bool line_begins(const source *s, size_t line, const char *word)
{
  size_t i = line + indentation(s, line), n = strlen(word);
  return i + n <= s->len && memcmp(s->text + i, word, n) == 0;
}

static bool is_def(const source *s, size_t line)
{
  return line_begins(s, line, "def ") || line_begins(s, line, "async def ");
}

/* True if the line is empty or only a comment. */
static bool is_blank(const source *s, size_t line)
{
  size_t i = line + indentation(s, line);
  return i >= s->len || s->text[i] == '\n' || s->text[i] == '\r' || s->text[i] == '#';
}

static size_t line_before(const source *s, size_t line)
{
  for (line--; line > 0 && s->text[line - 1] != '\n'; line--) {
  }
  return line;
}

/* Find the function around a line, with its decorators, by indentation; the whole text if there is
 * none. */
static void function_around(const source *s, size_t line, size_t *from, size_t *to)
{
  *from = 0;
  *to = s->len;
  while (line_begins(s, line, "@") && line_end(s, line) < s->len)
    line = line_end(s, line) + 1;
  for (size_t def = line, depth = indentation(s, line); !is_def(s, line); line = def) {
    do {
      if (def == 0)
        return;
      def = line_before(s, def);
    } while (is_blank(s, def) || (indentation(s, def) >= depth && !is_def(s, def)));
    depth = indentation(s, def);
  }
  size_t depth = indentation(s, line), end = line_end(s, line);
  *from = line;
  while (*from > 0 && line_begins(s, line_before(s, *from), "@"))
    *from = line_before(s, *from);
  for (*to = end; end < s->len; end = line_end(s, end + 1)) {
    if (is_blank(s, end + 1))
      continue;
    if (indentation(s, end + 1) <= depth &&
        !strchr(")]}", s->text[end + 1 + indentation(s, end + 1)]))
      return;
    *to = line_end(s, end + 1);
  }
}

void source_part(const source *s, uint32_t offset, size_t *from, size_t *to)
{
  size_t line = offset < s->len ? offset : s->len;

  *from = 0;
  *to = s->len;
  while (line > 0 && s->text[line - 1] != '\n')
    line--;
  if (s->by_function)
    function_around(s, line, from, to);
}

void source_excerpt_in(text_buf *out, const source_range *at, const char *function)
{
  const source *s = at->src;
  if (!s || at->start > s->len)
    return;
  if (at->start == 0 && at->end == s->len) { /* a whole text is shown as it is */
    text_add(out, s->text, s->len);
    return;
  }
  size_t before = out->len, start = at->start, end = at->end < s->len ? at->end : s->len;
  end = end < start ? start : end;
  size_t begin = start;
  while (begin > 0 && s->text[begin - 1] != '\n')
    begin--;
  size_t first = begin, last = line_end(s, end), from = 0, to = s->len;
  source_part(s, at->start, &from, &to);
  for (int n = 0; first > from; first--)
    if (s->text[first - 1] == '\n' && ++n >= CONTEXT_NEWLINES)
      break;
  for (int n = 0; last < to; last++)
    if (s->text[last] == '\n' && ++n >= CONTEXT_NEWLINES)
      break;
  if (s->name) {
    uint32_t line, column;
    source_position(s, at->start, &line, &column);
    text_printf(out, "  File \"%s\", line %u", s->name, line);
    if (function && *function)
      text_printf(out, ", in %s", function);
    text_putc(out, '\n');
  }
  text_add(out, s->text + first, start - first);
  size_t rest = add_lines(out, s, begin, start, end);
  if (rest < last) {
    text_add(out, s->text + rest, last - rest);
    if (s->text[last - 1] != '\n')
      text_putc(out, '\n');
  }
  for (size_t i = before; i < out->len; i++) /* a message is a string of C */
    if (out->data[i] == 0)
      out->data[i] = '?';
}

void source_excerpt(text_buf *out, const source_range *at) { source_excerpt_in(out, at, NULL); }
