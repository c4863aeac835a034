/* script/emit/comments.c -- signatures in comments of Python functions.
 *
 * PyTorch finds them by lines of text, not by tokens: one line "# type: (A, B) -> C" anywhere in a
 * function is its signature; several are the types of its parameters, up to a line "# type: (...)
 * -> C".  Texts (CompilationUnit) and archives have the comment only at the body's start, where the
 * parser reads it. */
#include <string.h>

#include "script/emit/emit_int.h"
#include "script/syntax/parser.h"

#define PEP_484   \
  "(See PEP 484 " \
  "https://www.python.org/dev/peps/pep-0484/#suggested-syntax-for-python-2-7-and-straddling-code)"
#define TYPE_COMMENT "# type:"
#define RETURN_LINE "# type: (...) -> "

static str trimmed(str line)
{
  while (line.len && (line.p[0] == ' ' || line.p[0] == '\t'))
    line = (str){line.p + 1, line.len - 1};
  while (line.len && (line.p[line.len - 1] == ' ' || line.p[line.len - 1] == '\t' ||
                      line.p[line.len - 1] == '\r'))
    line.len--;
  return line;
}

static const char *found_in(str line, const char *what)
{
  size_t n = strlen(what);
  for (size_t i = 0; i + n <= line.len; i++)
    if (line.p[i] == what[0] && memcmp(line.p + i, what, n) == 0)
      return line.p + i;
  return NULL;
}

/* True for "# type: ignore" and "# type: ignore[rule]" at the end of a line, which are for other
 * tools. */
static bool is_for_others(str line)
{
  const char *p = found_in(line, "# type: ignore");
  if (!p)
    return false;
  p += strlen("# type: ignore");
  const char *end = line.p + line.len;
  return p == end || (*p == '[' && end[-1] == ']');
}

/* True for "#type:", "#  type :": almost a type comment. */
static bool is_misspelt(str line)
{
  const char *end = line.p + line.len, *p = memchr(line.p, '#', line.len);
  for (; p; p = memchr(p, '#', (size_t)(end - p))) {
    for (p++; p < end && (*p == ' ' || *p == '\t'); p++) {
    }
    if (end - p < 4 || memcmp(p, "type", 4) != 0)
      continue;
    for (p += 4; p < end && (*p == ' ' || *p == '\t'); p++) {
    }
    if (p < end && *p == ':' && !(end - p >= 8 && memcmp(p, ": ignore", 8) == 0))
      return true;
  }
  return false;
}

bool script_has_type_lines(const source *src)
{
  return found_in((str){src->text, src->len}, "type") &&
         (found_in((str){src->text, src->len}, TYPE_COMMENT) ||
          is_misspelt((str){src->text, src->len}));
}

/* The type comments in the lines of a function. */
typedef struct type_lines {
  str first;         /* trimmed */
  str returns;       /* the line with "(...)", or NULL */
  const char *params; /* the types of the lines above it */
  const char *list;  /* all of them, for messages */
  uint32_t n;
  uint32_t wrong;    /* 1 + the number of the first misspelt line, or 0 */
} type_lines;

static void read_line(session *s, type_lines *t, str line, uint32_t number)
{
  if (!memchr(line.p, '#', line.len) || t->returns.p)
    return;
  const char *comment = found_in(line, TYPE_COMMENT);
  if (!comment || is_for_others(trimmed(line))) {
    if (!t->wrong && !comment && is_misspelt(trimmed(line)))
      t->wrong = number + 1;
    return;
  }
  t->list = session_printf(s, "%s%s%.*s", t->list, t->n ? "\n" : "", (int)line.len, line.p);
  t->first = t->n++ ? t->first : trimmed(line);
  if (found_in(line, RETURN_LINE)) {
    t->returns = line;
    return;
  }
  str type = trimmed((str){comment + strlen(TYPE_COMMENT),
                           (size_t)(line.p + line.len - comment) - strlen(TYPE_COMMENT)});
  t->params =
    session_printf(s, "%s%s%.*s", t->params, t->params[0] ? ", " : "", (int)type.len, type.p);
}

static type_lines read_lines(session *s, const char *p, const char *end)
{
  type_lines t = {.list = "", .params = ""};
  for (uint32_t number = 0; p < end; number++) {
    const char *stop = memchr(p, '\n', (size_t)(end - p));
    str line = {p, (size_t)((stop ? stop : end) - p)};
    p = line.p + line.len + 1;
    read_line(s, &t, line, number);
  }
  return t;
}

/* Check that the line of a signature begins with it; for code with a comment the error names the
 * first word. */
static void check_only_line(session *s, str line)
{
  if (line.p[0] == '#')
    return;
  size_t n = 0;
  while (n < line.len && ((line.p[n] | 32) >= 'a' && (line.p[n] | 32) <= 'z'))
    n++;
  bool is_def = n == 3 && memcmp(line.p, "def", 3) == 0;
  session_fail(s, NULL, "expected type comment but found '%s' here:\n%.*s\n%s <--- HERE\n",
               is_def ? "def" : "ident", (int)line.len, line.p, is_def ? "~~~" : "~");
}

/* Return the line of the signature, "# type: (A, B) -> C"; NULL: there is none. */
static const char *signature_of(session *s, const type_lines *t)
{
  if (t->n == 1) {
    check_only_line(s, t->first);
    return session_printf(s, "%.*s", (int)t->first.len, t->first.p);
  }
  if (t->n && !t->returns.p)
    session_fail(s, NULL,
                 "Return type line '# type: (...) -> ...' not found on multiline type "
                 "annotation\nfor type lines:\n%s\n" PEP_484,
                 t->list);
  if (!t->n && t->wrong)
    session_fail(
      s, NULL,
      "The annotation prefix in line %u is probably invalid.\nIt must be '# type:'\nSee PEP 484 "
      "(https://www.python.org/dev/peps/pep-0484/"
      "#suggested-syntax-for-python-2-7-and-straddling-code)\nfor examples",
      t->wrong - 1);
  if (!t->n)
    return NULL;
  const char *result = found_in(t->returns, RETURN_LINE) + strlen(RETURN_LINE);
  str type = trimmed((str){result, (size_t)(t->returns.p + t->returns.len - result)});
  return session_printf(s, TYPE_COMMENT " (%s) -> %.*s", t->params, (int)type.len, type.p);
}

void script_apply_type_lines(session *s, program *p, ast_def *d, bool is_method)
{
  const source *src = d->at.src;
  type_lines t = read_lines(s, src->text + d->at.start, src->text + d->text_end);
  const char *text = signature_of(s, &t);
  if (!text)
    return;
  const source *made = program_add_source(s, p, NULL, text, strlen(text));
  ast_signature sig = parse_signature(
    s, (source_range){made, strlen(TYPE_COMMENT), (uint32_t)made->len}, PARSE_TORCH_WORDS);
  uint32_t first = is_method ? 1 : 0, n = d->n_params < first ? 0 : d->n_params - first;
  source_range at = {src, d->at.start, d->n_params ? d->params[d->n_params - 1].at.end : d->at.end};
  if (sig.params.n != n)
    session_fail(s, &at,
                 "Number of type annotations (%u) did not match the number of %s parameters (%u)",
                 sig.params.n, is_method ? "method" : "function", n);
  for (uint32_t i = 0; i < n; i++)
    d->params[first + i].type = sig.params.items[i];
  d->returns = sig.returns;
}
