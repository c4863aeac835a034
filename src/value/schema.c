/* value/schema.c -- parsing and printing of schemas: a recursive-descent parser of PyTorch's text,
 * and a printer that restores the same text. Defaults become values in the schema's arena, so that
 * a schema needs no destructor. The order in which alias sets are printed is PyTorch's. Cost:
 * O(length); the parser leaves the session on a syntax error. */
#include "value/schema.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "base/grow.h"
#include "base/macros.h"
#include "base/number.h"

/* -- Words ------------------------------------------------------------------------------------- */

typedef struct parser {
  session *s;
  arena *mem;
  type_store *ts;
  const char *text, *p;
} parser;

_Noreturn static void fail(parser *k, const char *expected)
{
  session_fail(k->s, NULL, "schema \"%s\": expected %s at column %d, found \"%.20s\"", k->text,
               expected, (int)(k->p - k->text) + 1, k->p);
}

static void skip_space(parser *k)
{
  while (*k->p == ' ' || *k->p == '\t' || *k->p == '\n')
    k->p++;
}

static bool at(parser *k, const char *sign)
{
  skip_space(k);
  return strncmp(k->p, sign, strlen(sign)) == 0;
}

static bool take_sign(parser *k, const char *sign)
{
  bool yes = at(k, sign);
  if (yes)
    k->p += strlen(sign);
  return yes;
}

static void expect(parser *k, const char *sign)
{
  if (!take_sign(k, sign)) {
    char what[16];
    snprintf(what, sizeof what, "\"%s\"", sign);
    fail(k, what);
  }
}

static bool is_letter(char c)
{
  return (c >= 'a' && c <= 'z') || (c >= 'A' && c <= 'Z') || c == '_';
}
static bool is_digit(char c) { return c >= '0' && c <= '9'; }

/* Read an identifier; length 0 if there is none. */
static str word(parser *k)
{
  skip_space(k);
  const char *start = k->p;
  if (is_letter(*k->p))
    while (is_letter(*k->p) || is_digit(*k->p))
      k->p++;
  return (str){start, (size_t)(k->p - start)};
}

static str need_word(parser *k, const char *what)
{
  str w = word(k);
  if (!w.len)
    fail(k, what);
  return w;
}

static char *keep_word(parser *k, str w)
{
  char *t = session_alloc_in(k->s, k->mem, w.len + 1);
  if (w.len)
    memcpy(t, w.p, w.len);
  return t;
}

/* -- Types and alias sets ---------------------------------------------------------------------- */

/* Parse a, a|b, * to a mask. */
static uint32_t alias_sets(parser *k)
{
  uint32_t mask = 0;
  do {
    if (take_sign(k, "*")) {
      mask |= ALIAS_WILDCARD;
      continue;
    }
    str w = need_word(k, "an alias set");
    if (w.len != 1 || w.p[0] < 'a' || w.p[0] > 'z')
      fail(k, "an alias set of one small letter");
    mask |= UINT32_C(1) << (w.p[0] - 'a');
  } while (take_sign(k, "|"));
  return mask;
}

typedef struct alias_note {
  uint32_t before, after;
  bool is_write;
} alias_note;

/* Parse (a), (a!), (a|b -> *), or nothing. */
static alias_note alias(parser *k)
{
  alias_note n = {0};
  if (!take_sign(k, "("))
    return n;
  n.before = alias_sets(k);
  n.is_write = take_sign(k, "!");
  n.after = take_sign(k, "->") ? alias_sets(k) : n.before;
  expect(k, ")");
  return n;
}

typedef struct named_kind {
  const char *name;
  type_kind kind;
} named_kind;
static const named_kind named_kinds[] = {
    {"Tensor", TYPE_TENSOR},         {"int", TYPE_INT},
    {"SymInt", TYPE_SYM_INT},        {"float", TYPE_FLOAT},
    {"bool", TYPE_BOOL},             {"str", TYPE_STRING},
    {"Scalar", TYPE_NUMBER},         {"number", TYPE_NUMBER},
    {"ScalarType", TYPE_SCALAR_TYPE}, {"Layout", TYPE_LAYOUT},
    {"Device", TYPE_DEVICE},         {"MemoryFormat", TYPE_MEMORY_FORMAT},
    {"Generator", TYPE_GENERATOR},   {"Any", TYPE_ANY},
    {"None", TYPE_NONE},             {"NoneType", TYPE_NONE},
    {"complex", TYPE_COMPLEX},       {"SymFloat", TYPE_SYM_FLOAT},
    {"SymBool", TYPE_SYM_BOOL},      {"Dimname", TYPE_DIMNAME},
    {"QScheme", TYPE_QSCHEME},       {"Quantizer", TYPE_QUANTIZER},
    {"ConstQuantizerPtr", TYPE_QUANTIZER}, {"Storage", TYPE_STORAGE},
    {"Stream", TYPE_STREAM},         {"Capsule", TYPE_CAPSULE},
    {"PyObject", TYPE_PYOBJECT},     {"list", TYPE_ANY_LIST},
    {"AnyListType", TYPE_ANY_LIST},  {"tuple", TYPE_ANY_TUPLE},
    {"AnyTupleType", TYPE_ANY_TUPLE}, {"AnyClassType", TYPE_ANY_CLASS},
    {"AnyEnumType", TYPE_ANY_ENUM},
};

typedef struct parsed_type {
  const type *t;
  alias_note alias;      /* of the value itself */
  alias_note elem;       /* of a list's elements */
  int32_t fixed_len;
} parsed_type;

static parsed_type parse_type(parser *k);

/* Parse "A, B, C)" after the opening sign; at most 16 in any schema. */
#define MAX_ELEMS 16
static uint32_t type_row(parser *k, const type **out)
{
  uint32_t n = 0;
  if (take_sign(k, ")"))
    return 0;
  do {
    if (n == MAX_ELEMS)
      fail(k, "at most 16 element types");
    out[n++] = parse_type(k).t;
    word(k); /* a name that NamedTuple returns carry */
  } while (take_sign(k, ","));
  expect(k, ")");
  return n;
}

/* Parse Dict(K, V), Future(T), Union(A, B), (A, B); `name` is already read ("" for a tuple). */
static const type *parse_generic(parser *k, str name)
{
  const type *elems[MAX_ELEMS];
  expect(k, "(");
  uint32_t n = type_row(k, elems);
  if (name.len == 0)
    return type_tuple(k->ts, elems, n);
  if (str_is(name, "Union") && n > 0)
    return type_union(k->ts, elems, n);
  if (str_is(name, "Dict") && n == 2)
    return type_dict(k->ts, elems[0], elems[1]);
  if (n != 1 || str_is(name, "Dict"))
    fail(k, "as many element types as the container has");
  return type_generic(k->ts,
                      str_is(name, "Future") ? TYPE_FUTURE
                      : str_is(name, "RRef") ? TYPE_RREF
                                             : TYPE_AWAIT,
                      elems[0]);
}

/* Parse a name.  Dotted names are opaque classes; other lower-case words are type variables. */
static const type *parse_name(parser *k, str w)
{
  const char *start = w.p;
  if (*k->p == '.' && is_letter(k->p[1])) {
    while (*k->p == '.' && is_letter(k->p[1])) {
      k->p++;
      word(k);
    }
    return type_class_ref(k->ts, (str){start, (size_t)(k->p - start)});
  }
  for (size_t i = 0; i < COUNT_OF(named_kinds); i++)
    if (str_is(w, named_kinds[i].name))
      return type_simple(named_kinds[i].kind);
  if (w.p[0] < 'a' || w.p[0] > 'z') {
    k->p = start;
    fail(k, "a type");
  }
  return type_var(k->ts, session_strndup(k->s, w.p, w.len));
}

static const type *parse_base(parser *k)
{
  static const char *const generics[] = {"Dict", "Future", "Union", "RRef", "Await"};
  if (at(k, "("))
    return parse_generic(k, (str){"", 0});
  str w = need_word(k, "a type");
  for (size_t i = 0; i < COUNT_OF(generics); i++)
    if (str_is(w, generics[i]))
      return parse_generic(k, w);
  return parse_name(k, w);
}

/* Parse base (alias)? then any of [] [N] ?, each list with an annotation of its own. */
static parsed_type parse_type(parser *k)
{
  session_enter(k->s);
  parsed_type r = {.t = session_type(k->s, parse_base(k))};
  bool noted = false;
  for (;;) {
    if (take_sign(k, "[")) {
      r.fixed_len = 0;
      for (skip_space(k); is_digit(*k->p); k->p++)
        r.fixed_len = r.fixed_len < 10000 ? r.fixed_len * 10 + (*k->p - '0') : r.fixed_len;
      expect(k, "]");
      r.t = session_type(k->s, type_list(k->ts, r.t));
      r.elem = r.alias;
      r.alias = (alias_note){0};
      noted = false;
    } else if (take_sign(k, "?")) {
      r.t = session_type(k->s, type_optional(k->ts, r.t));
    } else if (!noted && at(k, "(")) {
      r.alias = alias(k);
      noted = true;
    } else {
      break;
    }
  }
  session_leave(k->s);
  return r;
}

/* -- Defaults ---------------------------------------------------------------------------------- */

/* Make values in the schema's arena: counted like any other, freed with the arena. */
static rush_value arena_string(parser *k, const char *text, size_t len)
{
  rush_string *v = session_alloc_in(k->s, k->mem, sizeof *v + len + 1);
  heap_init(&v->h, k->s->cx->ctx, RUSH_TAG_STRING);
  v->h.flags = VALUE_IN_ARENA;
  v->len = len;
  memcpy(v->text, text, len);
  return value_heap_steal(RUSH_TAG_STRING, v);
}

static rush_value arena_complex(parser *k, double re, double im)
{
  complex_box *b = session_alloc_in(k->s, k->mem, sizeof *b);
  heap_init(&b->h, k->s->cx->ctx, RUSH_TAG_COMPLEX);
  b->h.flags = VALUE_IN_ARENA;
  b->re = re;
  b->im = im;
  return value_heap_steal(RUSH_TAG_COMPLEX, b);
}

static rush_value arena_list(parser *k, const type *elem, const rush_value *items, size_t n)
{
  rush_list *l = session_alloc_in(k->s, k->mem, sizeof *l);
  heap_init(&l->h, k->s->cx->ctx, RUSH_TAG_LIST);
  l->h.flags = VALUE_IN_ARENA;
  l->elem = type_runtime(elem);
  l->n = l->cap = n;
  l->items = session_alloc_in(k->s, k->mem, n * sizeof *items);
  if (n)
    memcpy(l->items, items, n * sizeof *items);
  return value_heap_steal(RUSH_TAG_LIST, l);
}

/* Read one escaped byte after the backslash. */
static char unescape(parser *k)
{
  static const char from[] = "abfnrtv", to[] = "\a\b\f\n\r\t\v";
  if (*k->p >= '0' && *k->p <= '7') {
    int v = 0;
    for (int i = 0; i < 3 && *k->p >= '0' && *k->p <= '7'; i++)
      v = v * 8 + (*k->p++ - '0');
    return (char)v;
  }
  const char *f = *k->p ? strchr(from, *k->p) : NULL;
  return f ? (k->p++, to[f - from]) : *k->p ? *k->p++ : '\0';
}

static rush_value parse_string(parser *k)
{
  char quote = *k->p++;
  char *buf = session_alloc(k->s, strlen(k->p) + 1);
  size_t n = 0;
  while (*k->p && *k->p != quote) {
    if (*k->p == '\\') {
      k->p++;
      buf[n++] = unescape(k);
    } else {
      buf[n++] = *k->p++;
    }
  }
  if (*k->p != quote)
    fail(k, "the end of the string");
  k->p++;
  return arena_string(k, buf, n);
}

static rush_value parse_number(parser *k, type_kind want)
{
  const char *start = k->p;
  bool whole = true;
  if (*k->p == '-' || *k->p == '+')
    k->p++;
  while (is_digit(*k->p) || *k->p == '.' || *k->p == 'e' || *k->p == 'E' ||
         ((*k->p == '-' || *k->p == '+') && (k->p[-1] == 'e' || k->p[-1] == 'E'))) {
    whole = whole && is_digit(*k->p);
    k->p++;
  }
  double d;
  size_t len = (size_t)(k->p - start);
  if (!float_parse(start, len, &d)) {
    k->p = start;
    fail(k, "a default value");
  }
  if (take_sign(k, "j"))
    return arena_complex(k, 0, d);
  if (want == TYPE_COMPLEX)
    return arena_complex(k, d, 0);
  if (!whole || want == TYPE_FLOAT)
    return value_float(d);
  return value_int((int64_t)strtoll(start, NULL, 10));
}

/* Parse names of numbers in PyTorch's own schemas. */
static bool named_constant(str w, type_kind want, rush_value *out)
{
  static const struct { const char *name; int value; } numbers[] = {
      {"Mean", 1},   {"Sum", 2},    {"contiguous_format", 0}, {"preserve_format", 1},
      {"strided", 0}, {"float", 6}, {"double", 7}, {"long", 4}, {"int", 3}, {"bool", 11}};
  if (str_is(w, "None"))
    *out = value_none();
  else if (str_is(w, "True") || str_is(w, "true"))
    *out = value_bool(true);
  else if (str_is(w, "False") || str_is(w, "false"))
    *out = value_bool(false);
  else if (str_is(w, "inf") || str_is(w, "nan"))
    *out = value_float(w.p[0] == 'i' ? __builtin_inf() : __builtin_nan(""));
  else {
    for (size_t i = 0; want == TYPE_INT && i < COUNT_OF(numbers); i++)
      if (str_is(w, numbers[i].name)) {
        *out = value_int(numbers[i].value);
        return true;
      }
    return false;
  }
  return true;
}

static rush_value parse_default(parser *k, const type *t, int32_t fixed_len)
{
  rush_value v;
  skip_space(k);
  bool optional = t->kind == TYPE_OPTIONAL;
  if (optional)
    t = t->elems[0];
  bool is_list = t->kind == TYPE_LIST;
  if (is_list && take_sign(k, "[")) {
    rush_value items[64];
    size_t n = 0;
    if (!take_sign(k, "]")) {
      do {
        if (n == COUNT_OF(items))
          fail(k, "at most 64 items");
        items[n++] = parse_default(k, t->elems[0], 0);
      } while (take_sign(k, ","));
      expect(k, "]");
    }
    return arena_list(k, t->elems[0], items, n);
  }
  type_kind want = type_runtime(is_list ? t->elems[0] : t)->kind;
  if (*k->p == '"' || *k->p == '\'') {
    v = parse_string(k);
    if (want == TYPE_DEVICE && !device_parse(value_str(v), &v))
      fail(k, "a device");
    return v;
  }
  if (is_letter(*k->p)) {
    str w = word(k);
    if (!named_constant(w, want, &v) && !(want == TYPE_DEVICE && device_parse(w, &v))) {
      k->p = w.p;
      fail(k, "a default value");
    }
  } else {
    v = parse_number(k, optional ? TYPE_ANY : want); /* float? x=1 holds an int in PyTorch too */
  }
  if (is_list && v.tag != RUSH_TAG_NONE && fixed_len > 0 && fixed_len <= 64) { /* int[2] x=1 */
    rush_value items[64];
    for (int32_t i = 0; i < fixed_len; i++)
      items[i] = v;
    v = arena_list(k, t->elems[0], items, (size_t)fixed_len);
  }
  return v;
}

/* -- Arguments --------------------------------------------------------------------------------- */

static schema_arg parse_arg(parser *k, bool kwarg_only, bool is_return)
{
  parsed_type t = parse_type(k);
  str name = is_return ? word(k) : need_word(k, "an argument's name");
  schema_arg a = {
      .name = keep_word(k, name),
      .key = name_key(name.p, name.len),
      .type = t.t,
      .fixed_len = t.fixed_len,
      .alias_before = t.alias.before,
      .alias_after = t.alias.after,
      .elem_alias = t.elem.before,
      .is_write = t.alias.is_write,
      .elem_write = t.elem.is_write,
      .kwarg_only = kwarg_only,
  };
  if (take_sign(k, "=")) {
    a.has_default = true;
    a.default_value = parse_default(k, t.t, t.fixed_len);
  }
  return a;
}

/* Parse a list up to `)`; entries go to a growing scratch array, then to the schema's arena. */
static schema_arg *parse_args(parser *k, bool is_return, uint32_t *n_out, bool *rest)
{
  uint32_t n = 0, cap = 0;
  schema_arg *row = NULL;
  bool kwarg_only = false;
  if (!take_sign(k, ")")) {
    do {
      if (take_sign(k, "...")) {
        *rest = true;
        break;
      }
      if (!is_return && take_sign(k, "*")) {
        kwarg_only = true;
        continue;
      }
      GROW(k->s, row, n, cap, 8);
      row[n++] = parse_arg(k, kwarg_only, is_return);
    } while (take_sign(k, ","));
    expect(k, ")");
  }
  schema_arg *out = session_alloc_in(k->s, k->mem, n * sizeof *out);
  if (n)
    memcpy(out, row, n * sizeof *out);
  *n_out = n;
  return out;
}

static void parse_returns(parser *k, schema *sc)
{
  if (take_sign(k, "...")) {
    sc->is_varret = true;
  } else if (take_sign(k, "(")) {
    sc->returns = parse_args(k, true, &sc->n_returns, &sc->is_varret);
  } else {
    sc->returns = session_alloc_in(k->s, k->mem, sizeof *sc->returns);
    sc->returns[0] = parse_arg(k, false, true);
    sc->n_returns = 1;
  }
}

/* Parse ns::name.overload; a name without namespace may have dots (functions of programs). */
static void parse_name_of_op(parser *k, schema *sc)
{
  const char *start = k->p;
  bool space = false;
  need_word(k, "an operator's name");
  while (take_sign(k, "::")) {
    space = true;
    need_word(k, "an operator's name");
  }
  const char *end = k->p;
  sc->overload = "";
  while (*k->p == '.') {
    k->p++;
    str w = need_word(k, "an overload's name");
    if (space)
      sc->overload = keep_word(k, w);
    else
      end = k->p;
  }
  sc->name = keep_word(k, (str){start, (size_t)(end - start)});
}

schema *schema_parse(session *s, arena *mem, type_store *ts, const char *text)
{
  parser k = {s, mem, ts, text, text};
  schema *sc = session_alloc_in(s, mem, sizeof *sc);
  skip_space(&k);
  parse_name_of_op(&k, sc);
  expect(&k, "(");
  sc->args = parse_args(&k, false, &sc->n_args, &sc->is_vararg);
  expect(&k, "->");
  parse_returns(&k, sc);
  skip_space(&k);
  if (*k.p)
    fail(&k, "the end");
  return sc;
}

/* -- Printing ---------------------------------------------------------------------------------- */

/* Print a mask, highest letter first: the order in which PyTorch's hash sets print two letters. */
static void print_mask(text_buf *out, uint32_t mask)
{
  bool first = true;
  if (mask & ALIAS_WILDCARD) {
    text_putc(out, '*');
    first = false;
  }
  for (int i = 25; i >= 0; i--)
    if (mask & UINT32_C(1) << i) {
      if (!first)
        text_putc(out, '|');
      text_putc(out, (char)('a' + i));
      first = false;
    }
}

static void print_alias(text_buf *out, uint32_t before, uint32_t after, bool is_write)
{
  if (!before)
    return;
  text_putc(out, '(');
  print_mask(out, before);
  if (is_write)
    text_putc(out, '!');
  if (after != before) {
    text_puts(out, " -> ");
    print_mask(out, after);
  }
  text_putc(out, ')');
}

/* Like PyTorch's printQuotedString, except that bytes above 127 are printed as octal. */
void schema_print_quoted(text_buf *out, str s)
{
  static const char from[] = "\\'\"\a\b\f\n\r\t\v", to[] = "\\'\"abfnrtv";

  text_putc(out, '"');
  for (size_t i = 0; i < s.len; i++) {
    unsigned char ch = (unsigned char)s.p[i];
    const char *at = ch ? strchr(from, ch) : NULL;

    if (at)
      text_printf(out, "\\%c", to[at - from]);
    else if (ch >= 32 && ch < 127)
      text_putc(out, (char)ch);
    else
      text_printf(out, "\\%03o", ch);
  }
  text_putc(out, '"');
}

/* True for a list that is printed as one int: int[2] stride=[1, 1] is written stride=1. */
static bool is_repeated_int(const type *t, rush_value v)
{
  if (t->kind != TYPE_LIST || t->elems[0]->kind != TYPE_INT || v.tag != RUSH_TAG_LIST ||
      v.as.list->n < 2)
    return false;
  for (size_t i = 1; i < v.as.list->n; i++)
    if (v.as.list->items[i].as.i != v.as.list->items[0].as.i)
      return false;
  return true;
}

static void print_default(text_buf *out, const schema_arg *a)
{
  call_ctx cx;
  rush_value v = a->default_value;
  text_putc(out, '=');
  if (v.tag == RUSH_TAG_STRING) {
    schema_print_quoted(out, value_str(v));
    return;
  }
  if (is_repeated_int(a->type, v))
    v = v.as.list->items[0];
  call_ctx_init(&cx, out->ctx, NULL);
  if (value_print(&cx, out, v) != RUSH_OK)
    out->failed = true;
}

static void print_arg(text_buf *out, const schema_arg *a)
{
  const type *t = a->type;
  bool optional = t->kind == TYPE_OPTIONAL;
  if (optional)
    t = t->elems[0];
  if (t->kind == TYPE_LIST) {
    type_print(out, t->elems[0]);
    print_alias(out, a->elem_alias, a->elem_alias, a->elem_write);
    text_putc(out, '[');
    if (a->fixed_len)
      text_printf(out, "%d", (int)a->fixed_len);
    text_putc(out, ']');
  } else {
    type_print(out, t);
  }
  print_alias(out, a->alias_before, a->alias_after, a->is_write);
  if (optional)
    text_putc(out, '?');
  if (a->name[0])
    text_printf(out, " %s", a->name);
  if (a->has_default)
    print_default(out, a);
}

/* Print the returns.  A single return that begins with a parenthesis gets another pair, or it would
 * be parsed as several. */
static void print_returns(text_buf *out, const schema *sc)
{
  if (sc->n_returns == 0 && sc->is_varret) {
    text_puts(out, "...");
    return;
  }
  bool parens = true;
  if (sc->n_returns == 1 && !sc->is_varret) {
    const type *t = sc->returns[0].type;
    while (t->kind == TYPE_LIST || t->kind == TYPE_OPTIONAL)
      t = t->elems[0];
    parens = t->kind == TYPE_TUPLE && !t->name;
  }
  if (parens)
    text_putc(out, '(');
  for (uint32_t i = 0; i < sc->n_returns; i++) {
    if (i)
      text_puts(out, ", ");
    print_arg(out, &sc->returns[i]);
  }
  if (sc->is_varret)
    text_puts(out, sc->n_returns ? ", ..." : "...");
  if (parens)
    text_putc(out, ')');
}

void schema_print(text_buf *out, const schema *sc)
{
  bool starred = false;
  text_puts(out, sc->name);
  if (sc->overload[0])
    text_printf(out, ".%s", sc->overload);
  text_putc(out, '(');
  for (uint32_t i = 0; i < sc->n_args; i++) {
    if (i)
      text_puts(out, ", ");
    if (sc->args[i].kwarg_only && !starred) {
      text_puts(out, "*, ");
      starred = true;
    }
    print_arg(out, &sc->args[i]);
  }
  if (sc->is_vararg)
    text_puts(out, sc->n_args ? ", ..." : "...");
  text_puts(out, ") -> ");
  print_returns(out, sc);
}

int schema_arg_index(const schema *sc, str name)
{
  for (uint32_t i = 0; i < sc->n_args; i++)
    if (str_is(name, sc->args[i].name))
      return (int)i;
  return -1;
}
