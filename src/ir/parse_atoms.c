/* ir/parse_atoms.c -- the small parts of graph text: words, types, attributes and constants;
 * parse.c has nodes and blocks. A recursive-descent parser without a separate lexer, since the
 * meaning of a character depends on its place (a `[` may begin a type, a list or a tensor). Texts
 * often lack the elements of tensors; the caller decides if these become zeros, are left out or are
 * refused. */
#include "base/grow.h"
#include "ir/facts.h"
#include "ir/parse_int.h"

#include <ctype.h>
#include <math.h>
#include <stdio.h>
#include <stdlib.h>

#define MAX_ZEROS (INT64_C(1) << 24) /* elements of a constant whose text has none */

/* -- Words ------------------------------------------------------------------------------------- */

static void release_source(void *src) { source_release(src); }

_Noreturn void parse_fail(ir_parser *p, const char *fmt, ...)
{
  uint32_t line = 1, column = 1;
  char message[256];
  va_list ap;

  for (const char *c = p->text; c < p->at; c++) {
    column = *c == '\n' ? 1 : column + 1;
    line += *c == '\n';
  }
  va_start(ap, fmt);
  vsnprintf(message, sizeof message, fmt, ap);
  va_end(ap);
  source *src = source_new(p->s->cx->ctx, NULL, p->text, strlen(p->text));
  if (!src)
    session_check(p->s, call_nomem(p->s->cx));
  session_defer(p->s, release_source, src);
  uint32_t at = (uint32_t)(p->at - p->text);
  source_range here = {src, at, at + (at < src->len)};
  session_fail(p->s, &here, "graph text, line %u, column %u: %s", line, column, message);
}

void parse_space(ir_parser *p)
{
  for (;; p->at++) {
    if (*p->at == '#')
      while (*p->at && *p->at != '\n')
        p->at++;
    if (!*p->at || !isspace((unsigned char)*p->at))
      return;
  }
}

bool parse_peek(ir_parser *p, const char *token)
{
  parse_space(p);
  return strncmp(p->at, token, strlen(token)) == 0;
}

bool parse_accept(ir_parser *p, const char *token)
{
  if (!parse_peek(p, token))
    return false;
  p->at += strlen(token);
  return true;
}

void parse_expect(ir_parser *p, const char *token)
{
  if (!parse_accept(p, token))
    parse_fail(p, "expected '%s'", token);
}

str parse_word(ir_parser *p, const char *extra)
{
  parse_space(p);
  const char *start = p->at;

  while (*p->at && (isalnum((unsigned char)*p->at) || strchr(extra, *p->at)))
    p->at++;
  return (str){start, (size_t)(p->at - start)};
}

bool parse_accept_word(ir_parser *p, const char *word)
{
  const char *at = p->at;

  if (str_is(parse_word(p, "_"), word))
    return true;
  p->at = at;
  return false;
}

void parse_word_expect(ir_parser *p, const char *word)
{
  if (!parse_accept_word(p, word))
    parse_fail(p, "expected '%s'", word);
}

/* -- Types ------------------------------------------------------------------------------------- */

static const struct { const char *name; type_kind kind; } simple_types[] = {
  {"Tensor", TYPE_TENSOR}, {"int", TYPE_INT}, {"float", TYPE_FLOAT}, {"bool", TYPE_BOOL},
  {"str", TYPE_STRING}, {"NoneType", TYPE_NONE}, {"None", TYPE_NONE}, {"Any", TYPE_ANY},
  {"complex", TYPE_COMPLEX}, {"Scalar", TYPE_NUMBER}, {"number", TYPE_NUMBER},
  {"Device", TYPE_DEVICE}, {"Generator", TYPE_GENERATOR}, {"Storage", TYPE_STORAGE},
  {"Stream", TYPE_STREAM}, {"Capsule", TYPE_CAPSULE}, {"PyObject", TYPE_PYOBJECT},
  {"list", TYPE_ANY_LIST}, {"tuple", TYPE_ANY_TUPLE},
  {"AnyEnumType", TYPE_ANY_ENUM}, {"AnyListType", TYPE_ANY_LIST}, {"SymInt", TYPE_SYM_INT},
  {"SymFloat", TYPE_SYM_FLOAT}, {"SymBool", TYPE_SYM_BOOL}, {"Layout", TYPE_LAYOUT},
  {"ScalarType", TYPE_SCALAR_TYPE}, {"MemoryFormat", TYPE_MEMORY_FORMAT},
  {"QScheme", TYPE_QSCHEME}, {"Quantizer", TYPE_QUANTIZER},
};

static const type *checked(ir_parser *p, const type *t)
{
  if (!t)
    session_check(p->s, call_nomem(p->s->cx));
  return t;
}

/* Parse types up to `end`; names of fields, `x : int`, are stored in *fields if there are any. */
static uint32_t parse_types(ir_parser *p, const char *end, const type ***out,
                            const char ***fields)
{
  uint32_t n = 0, cap = 4;
  const type **types = session_array(p->s, const type *, cap);
  const char **names = session_array(p->s, const char *, cap);
  bool named = false;

  while (!parse_accept(p, end)) {
    uint32_t name_cap = cap;
    GROW(p->s, names, n, name_cap, 0);
    GROW(p->s, types, n, cap, 0);
    const char *at = p->at;
    str field = parse_word(p, "_");
    if (fields && field.len && parse_peek(p, ": ")) {
      names[n] = session_strndup(p->s, field.p, field.len);
      named = true;
      parse_expect(p, ":");
    } else {
      p->at = at;
    }
    types[n++] = parse_type(p);
    if (!parse_peek(p, end))
      parse_expect(p, ",");
  }
  *out = types;
  if (fields)
    *fields = named ? names : NULL;
  return n;
}

static void *alloc_in_store(ir_parser *p, size_t n_bytes)
{
  mutex_lock(&p->ts->lock);
  void *at = arena_alloc(&p->ts->mem, n_bytes);
  mutex_unlock(&p->ts->lock);
  if (!at)
    session_check(p->s, call_nomem(p->s->cx));
  return memset(at, 0, n_bytes);
}

static const type *parse_named_tuple(ir_parser *p)
{
  const type **elems;
  const char **fields;

  parse_expect(p, "(");
  uint32_t n = parse_types(p, ")", &elems, &fields);
  type *t = type_new_named(p->ts, TYPE_TUPLE, "", elems, n);

  if (!t)
    session_check(p->s, call_nomem(p->s->cx));
  if (fields) {
    const char **copy = alloc_in_store(p, (n + 1) * sizeof *copy);
    for (uint32_t i = 0; i < n; i++) {
      size_t len = fields[i] ? strlen(fields[i]) : 0;
      copy[i] = memcpy(alloc_in_store(p, len + 1), fields[i] ? fields[i] : "", len);
    }
    t->fields = copy;
  }
  return t;
}

/* Parse Float(2, 3, strides=[3, 1], requires_grad=0, device=cpu): a Tensor with facts. */
static const type *parse_refined(ir_parser *p, int dtype)
{
  ir_facts f;
  size_t n = *p->at == '(' ? ir_facts_parse(p->at, dtype, &f) : 0;

  p->at += n;
  return n ? ir_facts_type(p->s, p->ts, &f) : NULL;
}

static const type *find_named(ir_parser *p, str name)
{
  const program *prog = program_of_types(p->ts);
  const type *t = prog ? program_find_class(prog, name) : NULL;

  for (uint32_t i = 0; !t && prog && i < prog->classes.n;
       i++) { /* InterfaceType<I>: the last part */
    const type *cls = prog->classes.entries[i].value;
    const char *dot = cls ? strrchr(cls->name, '.') : NULL;
    if (dot && str_is(name, dot + 1))
      t = cls;
  }
  static const char custom[] = "__torch__.torch.classes.";
  if (!t && name.len > sizeof custom && memcmp(name.p, custom, sizeof custom - 1) == 0)
    t = checked(p, type_class_ref(p->ts, name));
  if (!t)
    parse_fail(p, "unknown type '%.*s'", (int)name.len, name.p);
  return t;
}

static const type *parse_bracketed(ir_parser *p, str word)
{
  const type **elems;

  if (str_is(word, "Dict")) {
    const char *end = parse_peek(p, "[") ? "]" : ")";
    parse_expect(p, *end == ']' ? "[" : "(");
    if (parse_types(p, end, &elems, NULL) != 2)
      parse_fail(p, "Dict takes two types");
    return checked(p, type_dict(p->ts, elems[0], elems[1]));
  }
  if (str_is(word, "List") || str_is(word, "Optional") ||
      str_is(word, "Tuple")) { /* as Python writes them */
    parse_expect(p, "[");
    uint32_t n = parse_types(p, "]", &elems, NULL);
    if (*word.p != 'T' && n != 1)
      parse_fail(p, "%.*s takes one type", (int)word.len, word.p);
    return checked(p, *word.p == 'T'   ? type_tuple(p->ts, elems, n)
                      : *word.p == 'L' ? type_list(p->ts, elems[0])
                                       : type_optional(p->ts, elems[0]));
  }
  if (str_is(word, "Union")) {
    parse_expect(p, parse_peek(p, "[") ? "[" : "(");
    uint32_t n = parse_types(p, parse_peek(p, "]") ? "]" : ")", &elems, NULL);
    return checked(p, type_union(p->ts, elems, n));
  }
  if (str_is(word, "Future") || str_is(word, "Await")) {
    parse_expect(p, parse_peek(p, "[") ? "[" : "(");
    const type *t =
      checked(p, type_generic(p->ts, *word.p == 'A' ? TYPE_AWAIT : TYPE_FUTURE, parse_type(p)));
    if (!parse_accept(p, "]"))
      parse_expect(p, ")");
    return t;
  }
  if (str_is(word, "NamedTuple"))
    return parse_named_tuple(p);
  if (str_is(word, "Enum") || str_is(word, "InterfaceType")) {
    parse_expect(p, "<");
    const type *t = find_named(p, parse_word(p, "_."));
    parse_expect(p, ">");
    return t;
  }
  return NULL;
}

static const type *parse_base_type(ir_parser *p)
{
  const type **elems;

  if (parse_accept(p, "(")) {
    uint32_t n = parse_types(p, ")", &elems, NULL);
    return checked(p, type_tuple(p->ts, elems, n));
  }
  str word = parse_word(p, "_.");
  const type *t = parse_bracketed(p, word);

  if (t)
    return t;
  for (size_t i = 0; i < COUNT_OF(simple_types); i++)
    if (str_is(word, simple_types[i].name)) {
      t = simple_types[i].kind == TYPE_TENSOR ? parse_refined(p, DTYPE_NONE) : NULL;
      return t ? t : type_simple(simple_types[i].kind);
    }
  int dtype = ir_dtype_of_name(word);
  if (dtype != DTYPE_NONE && (t = parse_refined(p, dtype)))
    return t;
  if (!word.len)
    parse_fail(p, "expected a type");
  return find_named(p, word);
}

const type *parse_type(ir_parser *p)
{
  session_enter(p->s);
  parse_space(p);
  p->type_at = p->at;
  const type *t = parse_base_type(p);

  for (;;) {
    if (parse_accept(p, "[]"))
      t = checked(p, type_list(p->ts, t));
    else if (parse_accept(p, "?"))
      t = checked(p, type_optional(p->ts, t));
    else
      break;
  }
  session_leave(p->s);
  return t;
}

/* -- Constants --------------------------------------------------------------------------------- */

static int escaped(ir_parser *p)
{
  static const char from[] = "abfnrtv", to[] = "\a\b\f\n\r\t\v";
  const char *at = *p->at ? strchr(from, *p->at) : NULL;

  if (at) {
    p->at++;
    return to[at - from];
  }
  if (*p->at >= '0' && *p->at <= '7') {
    int v = 0;
    for (int i = 0; i < 3 && *p->at >= '0' && *p->at <= '7'; i++)
      v = v * 8 + (*p->at++ - '0');
    return v & 255;
  }
  if (!*p->at)
    parse_fail(p, "the text ends inside a string");
  return (unsigned char)*p->at++;
}

static str parse_quoted(ir_parser *p)
{
  parse_expect(p, "\"");
  size_t n = 0, cap = 64;
  char *out = session_alloc(p->s, cap);

  while (*p->at != '"') {
    if (!*p->at)
      parse_fail(p, "the text ends inside a string");
    if (n + 1 >= cap) {
      char *fresh = session_alloc(p->s, cap * 2);
      memcpy(fresh, out, n);
      out = fresh;
      cap *= 2;
    }
    if (*p->at == '\\') {
      p->at++;
      out[n++] = (char)escaped(p);
    } else {
      out[n++] = *p->at++;
    }
  }
  p->at++;
  out[n] = '\0';
  return (str){out, n};
}

static double parse_double(ir_parser *p)
{
  char *end;

  parse_space(p);
  double d = strtod(p->at, &end);
  if (end == p->at)
    parse_fail(p, "expected a number");
  p->at = end;
  return d;
}

static int64_t parse_int(ir_parser *p)
{
  char *end;

  parse_space(p);
  int64_t i = strtoll(p->at, &end, 10);
  if (end == p->at)
    parse_fail(p, "expected an integer");
  p->at = end;
  return i;
}

static void release_heap(void *h) { value_release(value_heap_steal(((heap *)h)->kind, h)); }

/* Release v with the session: the pool retains the values it needs. */
static rush_value scratch(ir_parser *p, rush_value v)
{
  if (value_is_heap(v))
    session_defer(p->s, release_heap, v.as.heap);
  return v;
}

static rush_value parse_value(ir_parser *p, const type *t);

/* Parse items up to and including ']'. */
static void parse_items(ir_parser *p, rush_list *l, const type *elem)
{
  while (!parse_accept(p, "]")) {
    rush_value item = value_retain(parse_value(p, elem));
    session_check(p->s, list_append_steal(p->s->cx, l, item));
    if (!parse_peek(p, "]"))
      parse_expect(p, ",");
  }
}

/* Parse `annotate(List[float], []` before an empty container; true: close it with ')'. */
static bool parse_annotate(ir_parser *p)
{
  if (!parse_accept(p, "annotate("))
    return false;
  (void)parse_type(p);
  parse_expect(p, ",");
  return true;
}

/* Make a value for [<Tensors>], after its '[': neither number nor content of the tensors is
 * known. */
static rush_value unknown_tensors(ir_parser *p, rush_value empty)
{
  parse_expect(p, "<Tensors>");
  parse_expect(p, "]");
  if (p->tensors != IR_TENSORS_ZERO)
    parse_fail(p, "the tensors of a list are not in the text (parse_tensor_constants makes an "
                  "empty list of them)");
  return empty;
}

static rush_value parse_list_value(ir_parser *p, const type *t)
{
  const bool annotated = parse_annotate(p);
  rush_list *l;

  session_check(p->s, list_new(p->s->cx, type_elem(t), 0, &l));
  rush_value v = scratch(p, value_heap_steal(RUSH_TAG_LIST, l));
  parse_expect(p, "[");
  if (type_is(type_runtime(type_elem(t)), TYPE_TENSOR) && parse_peek(p, "<Tensors>"))
    return unknown_tensors(p, v);
  parse_items(p, l, type_elem(t));
  if (annotated)
    parse_expect(p, ")");
  return v;
}

static rush_value parse_tuple_value(ir_parser *p, const type *t)
{
  rush_tuple *tuple;

  session_check(p->s, tuple_new(p->s->cx, t->fields ? t : NULL, t->n_elems, &tuple));
  rush_value v = scratch(p, value_heap_steal(RUSH_TAG_TUPLE, tuple));
  parse_expect(p, "(");
  for (uint32_t i = 0; i < t->n_elems; i++) {
    tuple->items[i] = value_retain(parse_value(p, t->elems[i]));
    if (!parse_peek(p, ")"))
      parse_expect(p, ",");
  }
  parse_expect(p, ")");
  return v;
}

static rush_value parse_dict_value(ir_parser *p, const type *t)
{
  const bool annotated = parse_annotate(p);
  rush_dict *d;

  session_check(p->s, dict_new(p->s->cx, t->elems[0], t->elems[1], &d));
  rush_value v = scratch(p, value_heap_steal(RUSH_TAG_DICT, d));
  parse_expect(p, "{");
  while (!parse_accept(p, "}")) {
    rush_value key = parse_value(p, t->elems[0]);
    parse_expect(p, ":");
    rush_value item = parse_value(p, t->elems[1]);
    session_check(p->s,
                  dict_set_steal(p->s->cx, d, value_retain(key), value_retain(item)));
    if (!parse_peek(p, "}"))
      parse_expect(p, ",");
  }
  if (annotated)
    parse_expect(p, ")");
  return v;
}

/* Make a tensor of one element, with the dimensions that its type has. */
static rush_value shaped(ir_parser *p, rush_value scalar, const char *type_at, int dtype)
{
  size_t n = strcspn(type_at, "(\n");
  ir_facts f = ir_facts_none();
  rush_tensor *t;

  if (type_at[n] != '(' || !ir_facts_parse(type_at + n, dtype, &f) || f.n_dims < 1)
    return scalar;
  for (int i = 0; i < f.n_dims; i++) {
    if (f.sizes[i] != 1)
      return scalar;
    f.strides[i] = 1;
  }
  session_check(p->s,
                tensor_as_strided(p->s->cx, scalar.as.tensor, f.n_dims, f.sizes, f.strides, 0, &t));
  return scratch(p, value_tensor_steal(t));
}

static _Noreturn void refuse_tensor(ir_parser *p)
{
  parse_fail(
    p, "the elements of a tensor are not in the text (parse_tensor_constants makes zeros of them)");
}

/* Make a value for <Tensor>, whose elements are not in the text: zeros, or nothing if the caller
 * sets a value later (trace/sensor.h). */
static rush_value unknown_tensor(ir_parser *p)
{
  size_t n = p->type_at ? strcspn(p->type_at, "(\n") : 0;
  ir_facts f = ir_facts_none();
  rush_tensor *t;

  if (p->tensors == IR_TENSORS_LEFT)
    return value_none();
  if (p->tensors == IR_TENSORS_REFUSED)
    refuse_tensor(p);
  if (!n || p->type_at[n] != '(' ||
      !ir_facts_parse(p->type_at + n, ir_dtype_of_name((str){p->type_at, n}), &f) || f.n_dims < 0)
    parse_fail(p, "expected a type with dtype and sizes, as Float(2, 3), before a constant tensor");
  int64_t elems = 1;
  for (int i = 0; i < f.n_dims; i++) {
    if (f.sizes[i] < 0 || (f.sizes[i] && elems > MAX_ZEROS / f.sizes[i]))
      parse_fail(p, "a constant tensor of more than %lld elements is not made",
                 (long long)MAX_ZEROS);
    elems *= f.sizes[i];
  }
  session_check(p->s, tensor_new(p->s->cx, f.dtype, f.n_dims, f.sizes, &t));
  rush_value v = scratch(p, value_tensor_steal(t));
  memset(tensor_data_mut(t), 0, (size_t)elems * tensor_item_bytes(t));
  if (ir_facts_has_strides(&f) && elems) {
    int64_t most = 1;
    for (int i = 0; i < f.n_dims; i++)
      most += f.strides[i] > 0
                ? (f.sizes[i] - 1) * (f.strides[i] < (1 << 24) ? f.strides[i] : 1 << 24)
                : 0;
    if (most <= elems) { /* dense, in another order */
      session_check(p->s, tensor_as_strided(p->s->cx, t, f.n_dims, f.sizes, f.strides, 0, &t));
      v = scratch(p, value_tensor_steal(t));
    }
  }
  return v;
}

/* Parse ` 1  2 [ CPULongType{2} ]`, the printed form of small tensors, on one line; a factor (`0.01
 * *`) may come first. */
static rush_value parse_elements(ir_parser *p)
{
  double values[64], factor = 1;
  int64_t sizes[8];
  uint64_t elems = 1; /* 64 to the 8th fits */
  uint32_t n = 0, n_dims = 0;
  rush_tensor *from, *to;

  while (!parse_accept(p, "[ CPU")) {
    if (parse_accept(p, "(")) { /* (1,.,.) = : a slice, with a factor of its own */
      while (*p->at && *p->at != '=' && *p->at != '\n')
        p->at++;
      parse_expect(p, "=");
      factor = 1;
      parse_space(p);
    }
    if (n == COUNT_OF(values))
      parse_fail(p, "a tensor of more than %zu elements cannot be read from graph text",
                 COUNT_OF(values));
    if (!isdigit((unsigned char)*p->at) && !strchr("-+.ni", *p->at))
      parse_fail(p, "expected a number or '[ CPU', for only tensors of the CPU are read");
    double d = parse_double(p);
    if (parse_accept(p, "*"))
      factor = d;
    else
      values[n++] = d * factor;
  }
  str name = parse_word(p, "");
  int dtype = name.len > 4 ? ir_dtype_of_name((str){name.p, name.len - 4}) : DTYPE_NONE;
  parse_expect(p, "{");
  while (!parse_accept(p, "}")) {
    if (n_dims == COUNT_OF(sizes))
      parse_fail(p, "a tensor of more than %zu dimensions cannot be read from graph text",
                 COUNT_OF(sizes));
    sizes[n_dims] = parse_int(p);
    if (sizes[n_dims] < 0 || sizes[n_dims] > (int64_t)COUNT_OF(values))
      parse_fail(p, "a dimension of %lld; up to %zu can be read from graph text",
                 (long long)sizes[n_dims], COUNT_OF(values));
    elems *= (uint64_t)sizes[n_dims++];
    if (!parse_peek(p, "}"))
      parse_expect(p, ",");
  }
  parse_expect(p, "]");
  if (dtype == DTYPE_NONE)
    parse_fail(p, "expected a tensor's type, as CPUFloatType, not CPU%.*s", (int)name.len, name.p);
  if (elems != n)
    parse_fail(p, "%u numbers for a tensor of %llu elements", n, (unsigned long long)elems);
  session_check(p->s, tensor_new(p->s->cx, RUSH_FLOAT64, (int)n_dims, sizes, &from));
  (void)scratch(p, value_tensor_steal(from));
  double *data = tensor_data_mut(from);
  for (uint32_t i = 0; i < n; i++)
    data[i] = values[i];
  session_check(p->s, tensor_new(p->s->cx, dtype, (int)n_dims, sizes, &to));
  rush_value out = scratch(p, value_tensor_steal(to));
  session_check(p->s, tensor_copy(p->s->cx, to, from));
  return out;
}

/* Parse {3.5}; the type before it has the dtype and the dimensions. */
static rush_value parse_tensor_value(ir_parser *p)
{
  int dtype = DTYPE_NONE;
  rush_tensor *t;

  if (parse_accept(p, "<Tensor>"))
    return unknown_tensor(p);
  if (!parse_accept(p, "{"))
    return parse_elements(p);
  double d = parse_double(p);
  parse_expect(p, "}");
  if (p->type_at) {
    size_t n = 0;
    while (isalnum((unsigned char)p->type_at[n]))
      n++;
    dtype = ir_dtype_of_name((str){p->type_at, n});
  }
  if (dtype == DTYPE_NONE)
    dtype = RUSH_FLOAT32;
  session_check(p->s, tensor_from_scalar(p->s->cx, value_float(d), dtype, &t));
  rush_value v = scratch(p, value_tensor_steal(t));
  return p->type_at ? shaped(p, v, p->type_at, dtype) : v;
}

static rush_value parse_device_value(ir_parser *p)
{
  str name = parse_quoted(p);
  static const char *const kinds[] = {"cpu", "cuda"};
  const char *colon = memchr(name.p, ':', name.len);
  str base = {name.p, colon ? (size_t)(colon - name.p) : name.len};

  for (size_t i = 0; i < COUNT_OF(kinds); i++)
    if (str_is(base, kinds[i]))
      return value_device((int32_t)i, colon ? atoi(colon + 1) : -1);
  if (str_is(base, "meta"))
    return value_device(14, -1);
  parse_fail(p, "unknown device '%s'", name.p);
}

static rush_value parse_complex_value(ir_parser *p)
{
  rush_value v;
  double re = parse_double(p), im = parse_double(p);

  parse_expect(p, "j");
  session_check(p->s, complex_new(p->s->cx, re, im, &v));
  return scratch(p, v);
}

static rush_value parse_string_value(ir_parser *p)
{
  rush_value v;
  str text = parse_quoted(p);

  session_check(p->s, string_new(p->s->cx, text.p, text.len, &v));
  return scratch(p, v);
}

/* Parse Enum<Color.RED>. */
static rush_value parse_enum_value(ir_parser *p, const type *t)
{
  parse_expect(p, "Enum<");
  str word = parse_word(p, "_.");
  parse_expect(p, ">");
  const class_info *e = t->cls;

  for (uint32_t i = 0; e && i < e->n_members; i++) {
    size_t len = strlen(e->enum_names[i]);
    if (word.len > len && word.p[word.len - len - 1] == '.' &&
        memcmp(word.p + word.len - len, e->enum_names[i], len) == 0)
      return e->enum_members[i];
  }
  parse_fail(p, "the enum has no member '%.*s'", (int)word.len, word.p);
}

static rush_value parse_value(ir_parser *p, const type *t)
{
  if (parse_accept_word(p, "None"))
    return value_none();
  if (type_is(t, TYPE_OPTIONAL))
    t = type_elem(t);
  t = type_runtime(t);
  switch (t->kind) {
  case TYPE_BOOL:
    if (parse_accept_word(p, "True"))
      return value_bool(true);
    if (parse_accept_word(p, "False"))
      return value_bool(false);
    return value_bool(parse_int(p) != 0);
  case TYPE_FLOAT: return value_float(parse_double(p));
  case TYPE_STRING: return parse_string_value(p);
  case TYPE_COMPLEX: return parse_complex_value(p);
  case TYPE_DEVICE: return parse_device_value(p);
  case TYPE_TENSOR: return parse_tensor_value(p);
  case TYPE_LIST: return parse_list_value(p, t);
  case TYPE_TUPLE: return parse_tuple_value(p, t);
  case TYPE_DICT: return parse_dict_value(p, t);
  case TYPE_INT: return value_int(parse_int(p));
  case TYPE_NUMBER: {
    parse_space(p);
    size_t len = strspn(p->at, "+-0123456789");
    return p->at[len] && strchr(".ein", p->at[len]) ? value_float(parse_double(p))
                                                    : value_int(parse_int(p));
  }
  case TYPE_ENUM: return parse_enum_value(p, t);
  default: parse_fail(p, "a constant of this type cannot be read from graph text");
  }
}

/* -- Attributes -------------------------------------------------------------------------------- */

/* Return the element type of a list of floats or strings that follows its '['; NULL: it is a list
 * of types or of ints. */
static const type *list_attr_elem(const ir_parser *p)
{
  const char *at = p->at + strspn(p->at, " ");
  const size_t len = strcspn(at, ",]"), digits = strspn(at, "+-0123456789");

  if (*at == '"')
    return type_simple(TYPE_STRING);
  if (*at == '<' || *at == '{')
    return type_simple(TYPE_TENSOR);
  if (isalpha((unsigned char)*at) &&
      !(len == 3 && (memcmp(at, "inf", 3) == 0 || memcmp(at, "nan", 3) == 0)))
    return NULL;
  /* all floats are printed alike: the first one decides */
  return digits < len && (*at == '-' || isalnum((unsigned char)*at)) ? type_simple(TYPE_FLOAT)
                                                                     : NULL;
}

static void parse_value_list(ir_parser *p, ir_node *n, const char *name, const type *elem)
{
  rush_list *l;

  session_check(p->s, list_new(p->s->cx, elem, 0, &l));
  rush_value v = scratch(p, value_heap_steal(RUSH_TAG_LIST, l));
  if (parse_peek(p, "<Tensors>"))
    v = unknown_tensors(p, v);
  else
    parse_items(p, l, elem);
  ir_attr_set_value(p->s, n, name, v);
}

static void parse_list_attr(ir_parser *p, ir_node *n, const char *name)
{
  const type *elem = list_attr_elem(p);
  const type **types;
  int64_t ints[64];
  uint32_t k = 0;

  if (elem) {
    parse_value_list(p, n, name, elem);
    return;
  }
  if (!isdigit((unsigned char)*p->at) && *p->at != '-' && *p->at != ']') {
    k = parse_types(p, "]", &types, NULL);
    ir_attr_set_types(p->s, n, name, types, k);
    return;
  }
  while (!parse_accept(p, "]")) {
    if (k == COUNT_OF(ints))
      parse_fail(p, "more than %zu numbers in an attribute", COUNT_OF(ints));
    ints[k++] = parse_int(p);
    if (!parse_peek(p, "]"))
      parse_expect(p, ",");
  }
  ir_attr_set_ints(p->s, n, name, ints, k);
}

/* Find a function by its qualified name, or by its own if no other function has it. */
static function *find_function(ir_parser *p, str name)
{
  const program *prog = program_of_types(p->ts);
  function *f = prog ? program_find_function(prog, name) : NULL, *found = NULL;

  if (f)
    return f;
  for (f = prog ? prog->all_functions : NULL; f; f = f->next) /* closures are found by no name */
    if (str_is(name, f->qualified))
      return f;
  for (f = prog ? prog->all_functions : NULL; f; f = f->next)
    if (!f->self && str_is(name, f->name)) {
      if (found)
        parse_fail(p, "several functions are called '%s'", name.p);
      found = f;
    }
  if (!found)
    parse_fail(p, "unknown function '%s'", name.p);
  return found;
}

function *parse_function_name(ir_parser *p) { return find_function(p, parse_quoted(p)); }

/* True if a tensor's elements follow: {3}, <Tensor>, or numbers up to "[ CPU". */
static bool tensor_follows(ir_parser *p)
{
  parse_space(p);
  if (*p->at == '{' || strncmp(p->at, "<Tensor>", 8) == 0)
    return true;
  const char *at = p->at;
  while (*at && !strchr(*p->at == '(' ? "[]\"" : ",[]\"", *at))
    at++;
  return strncmp(at, "[ CPU", 5) == 0;
}

static void parse_annotated_attr(ir_parser *p, ir_node *n, const char *name)
{
  parse_expect(p, "annotate(");
  const type *t = parse_type(p);
  if (!type_is(t, TYPE_LIST))
    parse_fail(p, "expected a list's type");
  parse_expect(p, ",");
  rush_value v = parse_list_value(p, t);
  if (type_is(type_elem(t), TYPE_INT) && v.as.list->n == 0)
    ir_attr_set_ints(p->s, n, name, NULL, 0);
  else
    ir_attr_set_value(p->s, n, name, v);
  parse_expect(p, ")");
}

static void parse_attr(ir_parser *p, ir_node *n, const char *name)
{
  if (parse_peek(p, "annotate(")) {
    parse_annotated_attr(p, n, name);
  } else if (parse_peek(p, "<Graph>") || parse_peek(p, "[<Graphs>]")) {
    parse_fail(p, "the graph of the attribute '%s' is not in the text: set it with ir.Node.g_",
               name);
  } else if (tensor_follows(p)) {
    if (p->tensors == IR_TENSORS_LEFT && parse_peek(p, "<Tensor>"))
      refuse_tensor(p); /* only constants get their values later */
    ir_attr_set_value(p->s, n, name, parse_tensor_value(p));
  } else if (parse_peek(p, "\"")) {
    str text = parse_quoted(p);
    bool function = n->kind == IR_CALL_FUNCTION || n->kind == IR_FORK || n->kind == IR_AWAITABLE ||
                    n->kind == IR_CLOSURE;

    if (function && strcmp(name, "name") == 0) {
      n->function = find_function(p, text);
      return;
    }
    ir_attr_set_string(p->s, n, name, text.p);
  } else if (parse_accept(p, "[")) {
    parse_space(p);
    parse_list_attr(p, n, name);
  } else {
    size_t len = strspn(p->at, "+-0123456789");
    if (len == 0 && isalpha((unsigned char)*p->at) && !parse_peek(p, "inf") &&
        !parse_peek(p, "nan"))
      ir_attr_set_type(p->s, n, name, parse_type(p));
    else if (p->at[len] == '.' || p->at[len] == 'e' || p->at[len] == 'i' || p->at[len] == 'n')
      ir_attr_set_float(p->s, n, name, parse_double(p));
    else
      ir_attr_set_int(p->s, n, name, parse_int(p));
  }
}

void parse_attrs(ir_parser *p, ir_node *n, const type *out)
{
  do {
    str word = parse_word(p, "_");
    const char *name = session_strndup(p->s, word.p, word.len);

    parse_expect(p, "=");
    if (n->kind == IR_CONSTANT && strcmp(name, "value") == 0) {
      n->constant =
        ir_graph_add_constant(p->s, p->g, parse_value(p, out ? out : type_simple(TYPE_INT)));
    } else {
      parse_attr(p, n, name);
    }
  } while (parse_accept(p, ","));
  parse_expect(p, "]");
}
