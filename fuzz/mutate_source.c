/* Grammar-aware mutations of TorchScript text for libFuzzer: of lines with their blocks, of token
 * ranges, of whole functions of two inputs.  The sections after the first of an input (fuzz.h) do
 * not change.  A mutation that finds no place does nothing; now and then libFuzzer mutates the
 * bytes. */
#include <ctype.h>
#include <stdbool.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "base/text.h"

size_t LLVMFuzzerMutate(uint8_t *data, size_t n, size_t max);
size_t LLVMFuzzerCustomMutator(uint8_t *data, size_t n, size_t max, unsigned seed);
size_t LLVMFuzzerCustomCrossOver(const uint8_t *a, size_t n_a, const uint8_t *b, size_t n_b,
                                 uint8_t *out, size_t max, unsigned seed);

enum {
  MAX_TOKENS = 20000,
  MAX_LINES = 4000,
  MAX_TEXT = 1 << 17,
  MAX_NEW = 16384,
  MAX_STEPS = 4,
  MAX_NESTED = 60
};

typedef enum token_kind { TOKEN_NAME, TOKEN_NUMBER, TOKEN_STRING, TOKEN_SIGN } token_kind;
typedef struct token {
  uint32_t at, len;
  token_kind kind;
} token;

typedef struct line {       /* not empty */
  uint32_t at, end, indent; /* end: behind the newline */
} line;

typedef struct code { /* a text, taken apart */
  char *p;
  size_t n;
  token *tokens;
  uint32_t n_tokens;
  line *lines;
  uint32_t n_lines;
} code;

typedef struct work {
  uint64_t random;
  code text, other; /* changed; where parts may come from */
  char *fresh;      /* MAX_NEW bytes: what a mutation puts in */
  size_t n_fresh;
} work;

static uint32_t pick(work *w, uint32_t n)
{
  w->random += UINT64_C(0x9E3779B97F4A7C15);
  uint64_t z = w->random;
  z = (z ^ (z >> 30)) * UINT64_C(0xBF58476D1CE4E5B9);
  z = (z ^ (z >> 27)) * UINT64_C(0x94D049BB133111EB);
  return n ? (uint32_t)((z ^ (z >> 31)) % n) : 0;
}

/* -- Taking apart ------------------------------------------------------------------------------ */

static size_t string_end(const char *p, size_t i, size_t n)
{
  char quote = p[i];
  bool is_long = i + 2 < n && p[i + 1] == quote && p[i + 2] == quote;

  for (i += is_long ? 3 : 1; i < n; i++) {
    if (p[i] == '\\')
      i++;
    else if (p[i] == quote && (!is_long || (i + 2 < n && p[i + 1] == quote && p[i + 2] == quote)))
      return i + (is_long ? 3 : 1);
    else if (p[i] == '\n' && !is_long)
      return i;
  }
  return n;
}

static size_t sign_end(const char *p, size_t i, size_t n)
{
  static const char *const signs[] = {"**=", "//=", "<<=", ">>=", "...", "->", "**", "//",
                                      "<<",  ">>",  "==",  "!=",  "<=",  ">=", "+=", "-=",
                                      "*=",  "/=",  "%=",  "&=",  "|=",  "^=", "@=", ":="};
  for (size_t k = 0; k < COUNT_OF(signs); k++)
    if (n - i >= strlen(signs[k]) && memcmp(p + i, signs[k], strlen(signs[k])) == 0)
      return i + strlen(signs[k]);
  return i + 1;
}

static void lex(code *c)
{
  const char *p = c->p;

  c->n_tokens = 0;
  for (size_t i = 0; i < c->n && c->n_tokens < MAX_TOKENS;) {
    size_t start = i;
    token_kind kind = TOKEN_SIGN;
    if (isspace((unsigned char)p[i])) {
      i++;
      continue;
    }
    if (p[i] == '#' && (c->n - i < 7 || memcmp(p + i, "# type:", 7) != 0)) {
      while (i < c->n && p[i] != '\n')
        i++;
      continue;
    }
    if (isalpha((unsigned char)p[i]) || p[i] == '_') {
      for (kind = TOKEN_NAME; i < c->n && (isalnum((unsigned char)p[i]) || p[i] == '_');)
        i++;
    } else if (isdigit((unsigned char)p[i])) {
      for (kind = TOKEN_NUMBER; i < c->n && (isalnum((unsigned char)p[i]) || p[i] == '.');)
        i++;
    } else if (p[i] == '"' || p[i] == '\'') {
      kind = TOKEN_STRING;
      i = string_end(p, i, c->n);
    } else {
      i = sign_end(p, i, c->n);
    }
    if (i > c->n)
      i = c->n;
    c->tokens[c->n_tokens++] = (token){(uint32_t)start, (uint32_t)(i - start), kind};
  }
}

static void take_apart(code *c)
{
  c->n_lines = 0;
  for (size_t i = 0; i < c->n && c->n_lines < MAX_LINES;) {
    size_t start = i, text = i;
    while (i < c->n && c->p[i] != '\n')
      i++;
    i += i < c->n;
    while (text < i && (c->p[text] == ' ' || c->p[text] == '\t'))
      text++;
    if (text < i && c->p[text] != '\n')
      c->lines[c->n_lines++] = (line){(uint32_t)start, (uint32_t)i, (uint32_t)(text - start)};
  }
  lex(c);
}

/* Return the line behind the statement that begins with line i: behind its block. */
static uint32_t statement_end(const code *c, uint32_t i)
{
  uint32_t k = i + 1;
  while (k < c->n_lines && c->lines[k].indent > c->lines[i].indent)
    k++;
  return k;
}

static bool is_sign(const code *c, uint32_t i, const char *sign)
{
  return i < c->n_tokens && c->tokens[i].len == strlen(sign) &&
         memcmp(c->p + c->tokens[i].at, sign, strlen(sign)) == 0;
}

static bool is_one_of(const code *c, uint32_t i, const char *signs)
{
  return i < c->n_tokens && c->tokens[i].len == 1 && strchr(signs, c->p[c->tokens[i].at]);
}

static uint32_t closing(const code *c, uint32_t i)
{
  uint32_t depth = 0;
  for (uint32_t k = i; k < c->n_tokens; k++) {
    if (is_one_of(c, k, "([{"))
      depth++;
    else if (is_one_of(c, k, ")]}") && --depth == 0)
      return k + 1;
  }
  return i + 1;
}

/* Return the end of the expression at token i: an atom with its suffixes, a sign with its
 * operand. */
static uint32_t expression_end(work *w, const code *c, uint32_t i)
{
  if (i >= c->n_tokens)
    return i;
  if (is_one_of(c, i, "-~+*") || is_sign(c, i, "not"))
    return i + 1 < c->n_tokens ? expression_end(w, c, i + 1) : i + 1;
  uint32_t k = is_one_of(c, i, "([{") ? closing(c, i) : i + 1;
  while (k < c->n_tokens && pick(w, 5)) {
    if (is_one_of(c, k, ".") && k + 1 < c->n_tokens)
      k += 2;
    else if (is_one_of(c, k, "(["))
      k = closing(c, k);
    else if (is_one_of(c, k, "+-*/<>%") && pick(w, 2))
      return expression_end(w, c, k + 1);
    else
      break;
  }
  return k;
}

/* -- Putting in -------------------------------------------------------------------------------- */

static void add(work *w, const char *p, size_t n)
{
  if (n > MAX_NEW - w->n_fresh)
    n = MAX_NEW - w->n_fresh;
  memcpy(w->fresh + w->n_fresh, p, n);
  w->n_fresh += n;
}

static void add_text(work *w, const char *text) { add(w, text, strlen(text)); }

/* Replace bytes [at, at + len) of the text by the added ones. */
static void put(work *w, size_t at, size_t len)
{
  code *c = &w->text;

  if (c->n - len + w->n_fresh <= MAX_TEXT) {
    memmove(c->p + at + w->n_fresh, c->p + at + len, c->n - at - len);
    memcpy(c->p + at, w->fresh, w->n_fresh);
    c->n = c->n - len + w->n_fresh;
  }
  w->n_fresh = 0;
}

static uint32_t token_of(work *w, const code *c, token_kind kind)
{
  for (uint32_t i = pick(w, c->n_tokens), k = 0; k < c->n_tokens; k++, i = (i + 1) % c->n_tokens)
    if (c->tokens[i].kind == kind)
      return i;
  return c->n_tokens;
}

static const code *donor(work *w)
{
  return w->other.n_tokens && pick(w, 3) == 0 ? &w->other : &w->text;
}

static void add_name(work *w)
{
  const code *c = donor(w);
  uint32_t i = token_of(w, c, TOKEN_NAME);

  if (i < c->n_tokens)
    add(w, c->p + c->tokens[i].at, c->tokens[i].len);
  else
    add_text(w, "x");
}

static void add_expression(work *w)
{
  const code *c = donor(w);

  if (c->n_tokens == 0) {
    add_text(w, "1");
    return;
  }
  uint32_t i = token_of(w, c, pick(w, 3) ? TOKEN_NAME : (token_kind)pick(w, 4)), k;
  i = i < c->n_tokens ? i : 0;
  k = expression_end(w, c, i);
  k = k > c->n_tokens ? c->n_tokens : k;
  add(w, c->p + c->tokens[i].at, c->tokens[k - 1].at + c->tokens[k - 1].len - c->tokens[i].at);
}

static void add_number(work *w)
{
  static const char *const numbers[] = {"0",
                                        "1",
                                        "-1",
                                        "2",
                                        "7",
                                        "9223372036854775807",
                                        "-9223372036854775808",
                                        "18446744073709551616",
                                        "1e308",
                                        "1e999",
                                        "0.0",
                                        "-0.0",
                                        "1e-320",
                                        "float('nan')",
                                        "float('inf')",
                                        "2147483648",
                                        "1j",
                                        "0x7fffffffffffffff",
                                        "True",
                                        "99999999999999999999999999",
                                        "63",
                                        "64",
                                        "1_000",
                                        "0b101"};
  add_text(w, numbers[pick(w, COUNT_OF(numbers))]);
}

static void add_type(work *w, uint32_t depth)
{
  static const char *const plain[] = {"int",
                                      "float",
                                      "bool",
                                      "str",
                                      "Tensor",
                                      "None",
                                      "Any",
                                      "complex",
                                      "torch.device",
                                      "torch.dtype",
                                      "number",
                                      "List",
                                      "Dict",
                                      "Tuple",
                                      "NoneType",
                                      "torch.Generator",
                                      "Union[int, float]",
                                      "Tuple[()]",
                                      "Optional",
                                      "List[Tensor]",
                                      "torch.Tensor",
                                      "Callable[[int], int]",
                                      "Final[int]"};
  static const char *const around[] = {"List[",       "Optional[",  "Dict[str, ", "Tuple[int, ",
                                       "Union[int, ", "Future[",    "Dict[int, ", "Tuple[",
                                       "list[",       "dict[str, ", "Final["};
  uint32_t which = pick(w, 6);
  if (which == 0) {
    add_name(w);
  } else if (which < 4 || depth > 5) {
    add_text(w, plain[pick(w, COUNT_OF(plain))]);
  } else {
    add_text(w, around[pick(w, COUNT_OF(around))]);
    add_type(w, depth + 1);
    add_text(w, "]");
  }
}

/* clang-format off: it would break the strings.
 * $ a name, @ an expression, # a number, ^ a type, newlines with the statement's indentation, |
 * four spaces. */
static const char *const templates[] = {
  "$ = @\n",
  "$: ^ = @\n",
  "$: ^\n",
  "$, $ = @, @\n",
  "($, $), $ = @\n",
  "*$, $ = @\n",
  "$ += @\n",
  "$[#] = @\n",
  "$[@] **= @\n",
  "$[#:@, ..., None] = @\n",
  "$.$ = @\n",
  "$.$ += @\n",
  "del $[#]\n",
  "del $\n",
  "return @\n",
  "return @, @\n",
  "return\n",
  "pass\n",
  "if @:\n|$ = @\n",
  "if @ is None:\n|return @\nelse:\n|$ = @\n",
  "if $ is not None and @:\n|$ = @\nelif @:\n|return @\n",
  "while @:\n|$ = @\n|if @:\n||break\n|if @:\n||continue\n",
  "while True:\n|break\n",
  "while @ < #:\n|$ += 1\nelse:\n|$ = @\n",
  "for $ in range(#):\n|$ = @\n|if @:\n||return @\n",
  "for $ in @:\n|if @:\n||break\n|$.append(@)\n",
  "for $, ($, $) in enumerate(zip(@, @)):\n|continue\n",
  "for $ in $.items():\n|print($)\n",
  "for _ in range(#, @, #):\n|for $ in (1, 2.0, @):\n||$ = @\n",
  "assert @, @\n",
  "assert isinstance($, ^)\n",
  "raise ValueError(@)\n",
  "raise $(@)\n",
  "with torch.no_grad():\n|$ = @\n|return @\n",
  "with @ as $, @:\n|$ = @\n",
  "print(@, @)\n",
  "$ = [@ for $ in @]\n",
  "$ = [@ for $ in range(#) if @]\n",
  "$ = {@: @ for $ in @}\n",
  "$ = @ if @ else @\n",
  "$ = lambda $: @\n",
  "$ = [@, @]\n",
  "$ = {@: @, 'a': @}\n",
  "$ = (@,)\n",
  "$ = torch.jit.annotate(^, @)\n",
  "$ = torch.jit.fork($, @)\n$ = torch.jit.wait($)\n",
  "$ = f\"{@} {$!r} {@}\"\n",
  "$ = '%s %d' % (@, @)\n",
  "$ = '{}'.format(@)\n",
  "$ = isinstance(@, (^, ^))\n",
  "$ = torch.jit.isinstance(@, ^)\n",
  "$ = hasattr($, 'shape') and @\n",
  "$ = getattr($, '$', @)\n",
  "$ = @ is None or @ is not None\n",
  "$ = @ < @ <= @\n",
  "$ = not @ and @ or @\n",
  "$ = @ in @\n",
  "$ = @[#:#:#]\n",
  "$ = @[..., @]\n",
  "$ = -@ ** ~@ @ @\n",
  "$ = sorted(@, reverse=@)\n",
  "$ = max(@, @)\n",
  "$ = $(@, $=@)\n",
  "$ = $(*@)\n",
  "$ = $(*@, **@)\n",
  "$ = super().$(@)\n",
  "def $($: ^, $: ^ = @) -> ^:\n|return @\n",
  "def $($, *, $: ^ = #):\n||# type: (^, ^) -> ^\n||return @\n",
  "def $():\n|return $()\n",
  "@torch.jit.ignore\ndef $($):\n|return @\n",
  "@torch.jit.export\ndef $(self, $: ^) -> ^:\n|return self.$\n",
  "@staticmethod\ndef $($: ^):\n|return @\n",
  ("class $:\n|def __init__(self, $: ^):\n||self.$ = @\n||self.$: ^ = @\n"
   "|def $(self):\n||return self.$\n"),
  "class $(Enum):\n|A = #\n|B = @\n",
  "class $(NamedTuple):\n|$: ^\n|$: ^ = @\n",
  "@torch.jit.interface\nclass $:\n|def $(self, $: ^) -> ^:\n||pass\n",
  "@property\ndef $(self) -> ^:\n|return @\n",
  "@dataclass\nclass $:\n|$: ^\n|$: ^ = @\n",
  "class $($):\n|pass\n",
  "try:\n|$ = @\nexcept:\n|pass\n",
  "global $\n",
  "yield @\n",
  "$ = ^\n",
  "import torch\n",
  "from typing import *\n",
  "$: ^ = torch.jit.unused(@)\n",
  "if torch.jit.is_scripting():\n|$ = @\nelse:\n|$ = lambda: @\n",
  "if hasattr($, '$'):\n|$ = $.$\n",
  "if isinstance($, ^):\n|return $\nelse:\n|$ = $ + @\n",
  "$ = torch.tensor(@)\n",
  "$ = uninitialized(^)\n",
  "$ = unchecked_cast(^, @)\n",
  "$ = annotate(^, @)\n",
  "$ = ops.prim.unchecked_unwrap_optional(@)\n",
  "$ = ops.prim.$(@)\n",
  "$ = torch.ops.aten.$(@, @)\n",
  "$ = list(@)\n",
  "$ = dict(@)\n",
  "$ = tuple(@)\n",
  "$ = int(@) + float(@)\n",
  "$ = str(@)[#]\n",
  "$ = len(@) // #\n",
  "$ = $.$(@).$\n",
};
/* clang-format on */

static void add_indent(work *w, uint32_t n)
{
  for (uint32_t i = 0; i < n; i++)
    add_text(w, " ");
}

static void add_template(work *w, const char *t, uint32_t indent)
{
  bool starts = true;
  for (; *t; t++) {
    if (starts && *t != '\n')
      add_indent(w, indent);
    starts = *t == '\n';
    switch (*t) {
    case '$':
      add_name(w);
      break;
    case '#':
      add_number(w);
      break;
    case '^':
      add_type(w, 0);
      break;
    case '|':
      add_text(w, "    ");
      break;
    case '@':
      if (isalpha((unsigned char)t[1])) /* a decorator */
        add(w, t, 1);
      else
        add_expression(w);
      break;
    default:
      add(w, t, 1);
    }
  }
}

/* Append lines [from, to) of c, moved to the indentation. */
static void add_lines(work *w, const code *c, uint32_t from, uint32_t to, uint32_t indent)
{
  uint32_t base = from < to ? c->lines[from].indent : 0;
  for (uint32_t i = from; i < to; i++) {
    line l = c->lines[i];
    add_indent(w, l.indent >= base ? indent + l.indent - base : 0);
    add(w, c->p + l.at + l.indent, l.end - l.at - l.indent);
    if (c->p[l.end - 1] != '\n')
      add_text(w, "\n");
  }
}

/* -- Mutations of lines ------------------------------------------------------------------------ */

static uint32_t block_indent(work *w, uint32_t i)
{
  const code *c = &w->text;
  return i < c->n_lines ? c->lines[i].indent : 0;
}

static size_t line_start(const code *c, uint32_t i)
{
  return i < c->n_lines ? c->lines[i].at : c->n;
}

static void delete_statement(work *w)
{
  code *c = &w->text;
  uint32_t i = pick(w, c->n_lines), k = pick(w, 2) ? statement_end(c, i) : i + 1;
  put(w, c->lines[i].at, c->lines[k - 1].end - c->lines[i].at);
}

static void copy_statement(work *w)
{
  const code *from = donor(w);
  if (from->n_lines == 0)
    return;
  uint32_t i = pick(w, from->n_lines), to = pick(w, w->text.n_lines + 1);
  add_lines(w, from, i, statement_end(from, i), block_indent(w, to));
  put(w, line_start(&w->text, to), 0);
}

static void move_statement(work *w)
{
  code *c = &w->text;
  uint32_t i = pick(w, c->n_lines), end = statement_end(c, i), to = pick(w, c->n_lines + 1);
  if (to > i && to < end)
    return;
  size_t at = c->lines[i].at, n = c->lines[end - 1].end - at, target = line_start(c, to);
  add_lines(w, c, i, end, block_indent(w, to));
  size_t n_fresh = w->n_fresh;
  put(w, target, 0);
  put(w, target <= at ? at + n_fresh : at, n); /* nothing: the old place */
}

static void swap_statements(work *w)
{
  code *c = &w->text;
  uint32_t i = pick(w, c->n_lines), middle = statement_end(c, i);
  if (middle >= c->n_lines || c->lines[middle].indent != c->lines[i].indent)
    return;
  uint32_t end = statement_end(c, middle);
  add_lines(w, c, middle, end, c->lines[i].indent);
  add_lines(w, c, i, middle, c->lines[i].indent);
  put(w, c->lines[i].at, c->lines[end - 1].end - c->lines[i].at);
}

static void reindent(work *w)
{
  code *c = &w->text;
  uint32_t i = pick(w, c->n_lines), end = pick(w, 2) ? statement_end(c, i) : i + 1;
  uint32_t indent = pick(w, 2) ? block_indent(w, pick(w, c->n_lines)) : c->lines[i].indent + 4;
  add_lines(w, c, i, end, indent);
  put(w, c->lines[i].at, c->lines[end - 1].end - c->lines[i].at);
}

static void insert_template(work *w)
{
  uint32_t to = pick(w, w->text.n_lines + 1);
  add_template(w, templates[pick(w, COUNT_OF(templates))], block_indent(w, to));
  put(w, line_start(&w->text, to), 0);
}

/* Put a statement into the block of one or many new ones. */
static void nest_statement(work *w)
{
  static const char *const heads[] = {"if @:\n",
                                      "while @:\n",
                                      "for $ in @:\n",
                                      "for $ in range(#):\n",
                                      "with torch.no_grad():\n",
                                      "with @:\n",
                                      "if $ is not None:\n",
                                      "def $($: ^):\n",
                                      "if isinstance($, ^):\n",
                                      "for $, $ in enumerate(@):\n",
                                      "class $:\n",
                                      "while True:\n"};
  code *c = &w->text;
  uint32_t i = pick(w, c->n_lines), end = statement_end(c, i), indent = c->lines[i].indent;
  uint32_t n = pick(w, 12) ? 1 : pick(w, MAX_NESTED), step = n > 8 ? 1 : 4;
  for (uint32_t k = 0; k < n; k++)
    add_template(w, heads[pick(w, COUNT_OF(heads))], indent + k * step);
  add_lines(w, c, i, end, indent + n * step);
  put(w, c->lines[i].at, c->lines[end - 1].end - c->lines[i].at);
}

/* Insert a function of the other text, behind a statement at the left margin or in place of one. */
static void splice_function(work *w)
{
  const code *from = donor(w);
  code *c = &w->text;
  uint32_t i = pick(w, from->n_lines), to = pick(w, c->n_lines), n = 0;
  while (n < from->n_lines && from->lines[i].indent != 0)
    i = (i + 1) % from->n_lines, n++;
  for (n = 0; n < c->n_lines && c->lines[to].indent != 0; n++)
    to = (to + 1) % c->n_lines;
  if (from->n_lines == 0)
    return;
  add_lines(w, from, i, statement_end(from, i), 0);
  put(w, c->lines[to].at,
      pick(w, 2) ? c->lines[statement_end(c, to) - 1].end - c->lines[to].at : 0);
}

/* -- Mutations of tokens ----------------------------------------------------------------------- */

static void put_tokens(work *w, uint32_t from, uint32_t to)
{
  const code *c = &w->text;
  to = to > c->n_tokens ? c->n_tokens : to;
  if (from >= to)
    w->n_fresh = 0;
  else
    put(w, c->tokens[from].at, c->tokens[to - 1].at + c->tokens[to - 1].len - c->tokens[from].at);
}

static void replace_expression(work *w)
{
  uint32_t i = pick(w, w->text.n_tokens), k = expression_end(w, &w->text, i);
  add_expression(w);
  put_tokens(w, i, k);
}

static void replace_name(work *w)
{
  uint32_t i = token_of(w, &w->text, TOKEN_NAME);
  add_name(w);
  put_tokens(w, i, i + 1);
}

static void replace_number(work *w)
{
  uint32_t i = token_of(w, &w->text, TOKEN_NUMBER);
  add_number(w);
  put_tokens(w, i, i + 1);
}

static void replace_type(work *w)
{
  const code *c = &w->text;
  uint32_t i = pick(w, c->n_tokens);
  for (uint32_t k = 0; k < c->n_tokens; k++, i = (i + 1) % c->n_tokens) {
    bool typed =
      is_sign(c, i, "->") || (is_one_of(c, i, ":") && i > 0 && c->tokens[i - 1].kind == TOKEN_NAME);
    if (!typed || i + 1 >= c->n_tokens)
      continue;
    uint32_t end = i + 2;
    while (is_one_of(c, end, "."))
      end += 2;
    if (is_one_of(c, end, "["))
      end = closing(c, end);
    add_type(w, 0);
    put_tokens(w, i + 1, end);
    return;
  }
}

static void replace_sign(work *w)
{
  static const char *const signs[] = {
    "+", "-",  "*",  "/",  "//", "%", "**", "@",      "<<", ">>",     "&",   "|",
    "^", "<",  "<=", "==", "!=", ">", "is", "is not", "in", "not in", "and", "or",
    "=", "+=", "-=", "*=", "/=", ",", ":",  ".",      "->", ":="};
  uint32_t i = token_of(w, &w->text, TOKEN_SIGN);
  if (is_one_of(&w->text, i, "()[]{}"))
    return;
  add_text(w, " ");
  add_text(w, signs[pick(w, COUNT_OF(signs))]);
  add_text(w, " ");
  put_tokens(w, i, i + 1);
}

static void delete_tokens(work *w)
{
  uint32_t i = pick(w, w->text.n_tokens), k = pick(w, 2) ? expression_end(w, &w->text, i) : i + 1;
  put_tokens(w, i, k);
}

static void nest_expression(work *w)
{
  static const char *const around[][2] = {{"(", ")"},
                                          {"[", "]"},
                                          {"(", ",)"},
                                          {"-", ""},
                                          {"not ", ""},
                                          {"{1: ", "}"},
                                          {"len(", ")"},
                                          {"int(", ")"},
                                          {"(lambda: ", ")()"},
                                          {"str(", ")"},
                                          {"[", "][0]"},
                                          {"(", " if True else None)"},
                                          {"torch.neg(", ")"},
                                          {"f'{", "}'"},
                                          {"1 + ", ""},
                                          {"[q for q in ", "]"},
                                          {"annotate(List[int], ", ")"},
                                          {"(None, ", ")[1]"},
                                          {"float(", ")"},
                                          {"torch.jit.fork(", ")"}};
  const code *c = &w->text;
  uint32_t i = pick(w, c->n_tokens), k = expression_end(w, c, i), which = pick(w, COUNT_OF(around));
  uint32_t n = pick(w, 12) ? 1 : pick(w, 4) ? pick(w, MAX_NESTED) : 300;
  k = k > c->n_tokens ? c->n_tokens : k;
  for (uint32_t r = 0; r < n; r++)
    add_text(w, around[which][0]);
  add(w, c->p + c->tokens[i].at, c->tokens[k - 1].at + c->tokens[k - 1].len - c->tokens[i].at);
  for (uint32_t r = 0; r < n; r++)
    add_text(w, around[which][1]);
  put_tokens(w, i, k);
}

/* -- Entries ----------------------------------------------------------------------------------- */

static bool code_init(code *c)
{
  c->p = malloc(MAX_TEXT);
  c->tokens = malloc(sizeof *c->tokens * MAX_TOKENS);
  c->lines = malloc(sizeof *c->lines * MAX_LINES);
  c->n = c->n_tokens = c->n_lines = 0;
  return c->p && c->tokens && c->lines;
}

static void code_free(code *c)
{
  free(c->p);
  free(c->tokens);
  free(c->lines);
}

/* Fill c; return the number of bytes before the first section. */
static size_t code_fill(code *c, const uint8_t *data, size_t n)
{
  size_t end = 0;
  while (end < n && end < MAX_TEXT && !(n - end > 2 && memcmp(data + end, "\n@@", 3) == 0))
    end++;
  if (end)
    memcpy(c->p, data, end);
  c->n = end;
  take_apart(c);
  return end;
}

static void mutate(work *w, uint32_t n_steps)
{
  static void (*const of_lines[])(work *) = {delete_statement, copy_statement, move_statement,
                                             swap_statements,  reindent,       insert_template,
                                             insert_template,  nest_statement, splice_function};
  static void (*const of_tokens[])(work *) = {
    replace_expression, replace_expression, replace_name, replace_name,  replace_number,
    replace_type,       replace_type,       replace_sign, delete_tokens, nest_expression};
  for (uint32_t i = 0; i < n_steps; i++) {
    if (w->text.n_lines == 0 || w->text.n_tokens == 0)
      insert_template(w);
    else if (pick(w, 2))
      of_lines[pick(w, COUNT_OF(of_lines))](w);
    else
      of_tokens[pick(w, COUNT_OF(of_tokens))](w);
    take_apart(&w->text);
  }
}

/* Write the mutated text to out, which may be a. */
static size_t mutated(const uint8_t *a, size_t n_a, const uint8_t *b, size_t n_b, uint8_t *out,
                      size_t max, unsigned seed)
{
  work w = {.random = seed, .fresh = malloc(MAX_NEW)};
  uint8_t *tail = malloc(n_a + 1);
  bool good = code_init(&w.text);
  good = code_init(&w.other) && good && w.fresh && tail;
  size_t n = n_a < max ? n_a : max;

  if (good) {
    size_t main = code_fill(&w.text, a, n_a), n_tail = n_a - main;
    if (n_tail)
      memcpy(tail, a + main, n_tail);
    code_fill(&w.other, b, n_b);
    if (n_b && w.text.n_lines && w.other.n_lines && pick(&w, 2)) {
      splice_function(&w);
      take_apart(&w.text);
    }
    mutate(&w, 1 + pick(&w, MAX_STEPS));
    if (w.text.n > max)
      w.text.n = max;
    if (n_tail > max - w.text.n)
      n_tail = max - w.text.n;
    memcpy(out, w.text.p, w.text.n);
    memcpy(out + w.text.n, tail, n_tail);
    n = w.text.n + n_tail;
  } else if (out != a) {
    memcpy(out, a, n);
  }
  code_free(&w.text);
  code_free(&w.other);
  free(w.fresh);
  free(tail);
  return n;
}

size_t LLVMFuzzerCustomMutator(uint8_t *data, size_t n, size_t max, unsigned seed)
{
  if (seed % 12 == 0)
    return LLVMFuzzerMutate(data, n, max);
  return mutated(data, n, NULL, 0, data, max, seed);
}

size_t LLVMFuzzerCustomCrossOver(const uint8_t *a, size_t n_a, const uint8_t *b, size_t n_b,
                                 uint8_t *out, size_t max, unsigned seed)
{
  return mutated(a, n_a, b, n_b, out, max, seed);
}
