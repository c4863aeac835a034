/* archive/exported_meta.c -- a file's descriptions of the inputs and outputs of its graph: dtypes,
 * sizes, ranges.
 *
 * model.json describes every value of the graph; those that a caller sees are kept.  Variable sizes
 * are SymPy expressions, written by its srepr: "Add(Mul(Integer(2), Symbol('s77', positive=True,
 * integer=True)), Integer(1))". One recursive descent over such a text prints it as Python does
 * ("2*s77 + 1") and computes its bounds from those of its symbols by interval arithmetic: unknown
 * limits are missing, never wrong.  A text of another form (older files contain "2*s77 + 1" itself)
 * is kept unchanged, without bounds.
 *
 * Guards are made from the same descriptions (exported_guards.c).  Cost: one pass over the
 * descriptions. */
#include "archive/exported_int.h"

#define MOST_EXPR \
  4096 /* bytes of an expression that is looked into: a longer one is kept as it is */

/* -- Ranges ------------------------------------------------------------------------------------ */

static const ex_range any_number = {INT64_MIN, INT64_MAX};

static ex_range *read_range(ex_reader *r, json *j)
{
  ex_range *out = session_new(r->s, ex_range);
  str key;

  *out = any_number;
  for (json_begin_object(j); json_next_key(j, &key);) {
    if (json_is_null(j))
      json_skip(j);
    else if (str_is(key, "min_val"))
      out->min = json_int(j);
    else if (str_is(key, "max_val"))
      out->max = json_int(j);
    else
      json_skip(j);
  }
  return out;
}

void ex_read_ranges(ex_reader *r, const model_parts *p, table *ranges)
{
  str name;
  json j;

  if (!p->ranges.p)
    return;
  json_init_at(&j, r->s, &r->in, p->ranges);
  for (json_begin_object(&j); json_next_key(&j, &name);)
    session_table_put(r->s, ranges, name, read_range(r, &j));
}

/* -- Arithmetic of bounds ---------------------------------------------------------------------- */

/* Add limits; a missing one remains missing; a result beyond 64 bits becomes missing. */
static int64_t add_limits(int64_t a, int64_t b, int64_t none)
{
  int64_t sum;

  return a == none || b == none || __builtin_add_overflow(a, b, &sum) ? none : sum;
}

static ex_range add_ranges(ex_range a, ex_range b)
{
  return (ex_range){add_limits(a.min, b.min, INT64_MIN), add_limits(a.max, b.max, INT64_MAX)};
}

/* Multiply ranges of nonnegative factors, or a number and a range; otherwise unknown. */
static ex_range mul_ranges(ex_range a, ex_range b)
{
  ex_range out = any_number;

  if (b.min == b.max && a.min != a.max)
    return mul_ranges(b, a);
  if (a.min == a.max && a.min < 0) { /* the ends change places */
    if (b.max == INT64_MAX || __builtin_mul_overflow(a.min, b.max, &out.min))
      out.min = INT64_MIN;
    if (b.min == INT64_MIN || __builtin_mul_overflow(a.min, b.min, &out.max))
      out.max = INT64_MAX;
    return out;
  }
  if (a.min < 0 || b.min < 0)
    return out;
  if (__builtin_mul_overflow(a.min, b.min, &out.min))
    return any_number;
  if (a.max == INT64_MAX || b.max == INT64_MAX || __builtin_mul_overflow(a.max, b.max, &out.max))
    out.max = INT64_MAX;
  return out;
}

/* Compute the range of a // b for nonnegative numbers. */
static ex_range div_ranges(ex_range a, ex_range b)
{
  if (a.min < 0 || b.min <= 0)
    return any_number;
  return (ex_range){b.max == INT64_MAX ? 0 : a.min / b.max,
                    a.max == INT64_MAX ? INT64_MAX : a.max / b.min};
}

/* -- Expressions ------------------------------------------------------------------------------- */

/* Precedences of operators. */
enum { BINDS_NOT, BINDS_ADD, BINDS_DIV, BINDS_MUL, BINDS_POW, BINDS_CALL };

typedef struct expr_reader {
  session *s;
  const table *ranges;
  str text;
  size_t at;
  text_buf *out;
  bool failed; /* the text is of another form */
} expr_reader;

static char peek(const expr_reader *q) { return q->at < q->text.len ? q->text.p[q->at] : 0; }

static bool accept(expr_reader *q, char c)
{
  while (peek(q) == ' ')
    q->at++;
  if (peek(q) != c)
    return false;
  q->at++;
  return true;
}

static void need(expr_reader *q, char c)
{
  if (!accept(q, c))
    q->failed = true;
}

static bool is_word(char c)
{
  return (c >= 'a' && c <= 'z') || (c >= 'A' && c <= 'Z') || (c >= '0' && c <= '9') || c == '_';
}

static str read_word(expr_reader *q)
{
  while (peek(q) == ' ')
    q->at++;
  const size_t begin = q->at;
  while (is_word(peek(q)))
    q->at++;
  q->failed |= q->at == begin;
  return (str){q->text.p + begin, q->at - begin};
}

/* Read the arguments of Integer: a number in decimal. */
static int64_t read_integer(expr_reader *q)
{
  const bool negative = accept(q, '-');
  str digits = read_word(q);
  int64_t n = 0;

  for (size_t i = 0; i < digits.len; i++)
    if (digits.p[i] < '0' || digits.p[i] > '9' || __builtin_mul_overflow(n, 10, &n) ||
        __builtin_add_overflow(n, digits.p[i] - '0', &n))
      q->failed = true;
  need(q, ')');
  return negative ? -n : n;
}

/* Read the arguments of Symbol: its name, then assumptions. */
static str read_symbol(expr_reader *q)
{
  need(q, '\'');
  const size_t begin = q->at;
  while (peek(q) && peek(q) != '\'')
    q->at++;
  const str name = {q->text.p + begin, q->at - begin};
  need(q, '\'');
  while (!q->failed && accept(q, ',')) {
    read_word(q);
    need(q, '=');
    read_word(q);
  }
  need(q, ')');
  return name;
}

static ex_range read_expr(expr_reader *q, int outer);

/* Read a sum; a number that comes first is printed last, as SymPy's printer does. */
static ex_range read_sum(expr_reader *q)
{
  static const char integer[] = "Integer(";
  ex_range all = {0, 0};
  int64_t number = 0;
  bool first = true;

  do {
    while (peek(q) == ' ')
      q->at++;
    if (q->text.len - q->at > sizeof integer &&
        memcmp(q->text.p + q->at, integer, sizeof integer - 1) == 0) {
      q->at += sizeof integer - 1;
      q->failed |= __builtin_add_overflow(number, read_integer(q), &number);
      continue;
    }
    text_puts(q->out, first ? "" : " + ");
    all = add_ranges(all, read_expr(q, BINDS_ADD));
    first = false;
  } while (!q->failed && accept(q, ','));
  need(q, ')');
  if (number || first)
    text_printf(q->out, "%s%lld",
                first        ? ""
                : number < 0 ? " - "
                             : " + ",
                (long long)(number < 0 && !first ? -number : number));
  return add_ranges(all, (ex_range){number, number});
}

static ex_range read_product(expr_reader *q)
{
  ex_range all = {1, 1};

  for (bool first = true; !q->failed && (first || accept(q, ',')); first = false) {
    text_puts(q->out, first ? "" : "*");
    all = mul_ranges(all, read_expr(q, BINDS_MUL));
  }
  need(q, ')');
  return all;
}

static ex_range read_power(expr_reader *q)
{
  read_expr(q, BINDS_POW);
  need(q, ',');
  text_puts(q->out, "**");
  read_expr(q, BINDS_POW);
  need(q, ')');
  return any_number;
}

/* Read a function; FloorDiv is a // b, others keep their names. */
static ex_range read_function(expr_reader *q, str name)
{
  const bool is_div = str_is(name, "FloorDiv"), is_max = str_is(name, "Max"),
             is_min = str_is(name, "Min");
  ex_range all = any_number;

  if (!is_div) {
    text_add(q->out, name.p, name.len);
    text_putc(q->out, '(');
  }
  for (bool first = true; !q->failed && (first || accept(q, ',')); first = false) {
    text_puts(q->out, first ? "" : is_div ? "//" : ", ");
    const ex_range one = read_expr(q, is_div ? BINDS_POW : BINDS_NOT);
    if (first && (is_div || is_max || is_min))
      all = one;
    else if (is_div)
      all = div_ranges(all, one);
    else if (is_max)
      all =
        (ex_range){all.min > one.min ? all.min : one.min, all.max > one.max ? all.max : one.max};
    else if (is_min)
      all =
        (ex_range){all.min < one.min ? all.min : one.min, all.max < one.max ? all.max : one.max};
  }
  need(q, ')');
  text_puts(q->out, is_div ? "" : ")");
  return all;
}

static int binding_of(str function)
{
  static const struct { const char *name; int binds; } rows[] = {
      {"Add", BINDS_ADD}, {"FloorDiv", BINDS_DIV}, {"Mul", BINDS_MUL}, {"Pow", BINDS_POW}};

  for (size_t i = 0; i < COUNT_OF(rows); i++)
    if (str_is(function, rows[i].name))
      return rows[i].binds;
  return BINDS_CALL;
}

/* Read one term and print it to q->out, in brackets if `outer` has a higher precedence.  Returns
 * its bounds. */
static ex_range read_expr(expr_reader *q, int outer)
{
  ex_range bounds = any_number;
  const str name = read_word(q);

  need(q, '(');
  if (q->failed)
    return bounds;
  session_enter(q->s);
  if (str_is(name, "Symbol")) {
    const str symbol = read_symbol(q);
    const ex_range *known = table_get(q->ranges, symbol);
    text_add(q->out, symbol.p, symbol.len);
    bounds = known ? *known : bounds;
  } else if (str_is(name, "Integer")) {
    const int64_t n = read_integer(q);
    text_printf(q->out, n < 0 && outer > BINDS_ADD ? "(%lld)" : "%lld", (long long)n);
    bounds = (ex_range){n, n};
  } else {
    const int binds = binding_of(name);
    const bool brackets = binds < outer || (binds == BINDS_POW && outer == BINDS_POW);
    text_puts(q->out, brackets ? "(" : "");
    bounds = binds == BINDS_ADD   ? read_sum(q)
             : binds == BINDS_MUL ? read_product(q)
             : binds == BINDS_POW ? read_power(q)
                                  : read_function(q, name);
    text_puts(q->out, brackets ? ")" : "");
  }
  session_leave(q->s);
  return bounds;
}

/* -- Sizes ------------------------------------------------------------------------------------- */

typedef struct meta_reader {
  ex_reader *r;
  const table *ranges;
  table wanted; /* name of a value -> exported_meta, described or not yet */
} meta_reader;

/* Fill size->symbol and the bounds from an expression.  Returns true if it is a formula, not just a
 * symbol. */
static bool describe_size(meta_reader *m, str text, rush_signature_size *size)
{
  ex_reader *r = m->r;
  expr_reader q = {.s = r->s,
                   .ranges = m->ranges,
                   .text = text,
                   .out = session_text(r->s),
                   .failed = text.len > MOST_EXPR};
  const bool is_symbol = text.len > 6 && memcmp(text.p, "Symbol", 6) == 0;
  const ex_range *known = table_get(m->ranges, text);
  ex_range bounds = q.failed ? any_number : read_expr(&q, BINDS_NOT);
  const bool is_other = q.failed || q.at != text.len;

  if (is_other)
    bounds = known ? *known : any_number;
  if (text_failed(q.out))
    session_check(r->s, call_nomem(r->s->cx));
  size->symbol = ex_keep_text(r, ex_name(r, is_other ? text : (str){text_str(q.out), q.out->len}));
  size->min = bounds.min;
  size->max = bounds.max;
  return !is_other && !is_symbol;
}

/* Read {"expr_str": ..., "hint": {"as_int": ...}}. */
static bool read_expression(meta_reader *m, json *j, rush_signature_size *size)
{
  str key, kind, text = {0};

  for (json_begin_object(j); json_next_key(j, &key);) {
    if (str_is(key, "expr_str")) {
      text = json_string(j);
    } else if (str_is(key, "hint") && json_peek(j) == JSON_OBJECT) {
      for (json_begin_object(j); json_next_key(j, &kind);)
        if (str_is(kind, "as_int"))
          size->value = json_int(j);
        else
          json_skip(j);
    } else {
      json_skip(j);
    }
  }
  if (!text.p)
    json_fail(j, "a symbolic size without its expression");
  return describe_size(m, text, size);
}

/* Read one SymInt: {"as_int": n} or {"as_expr": ...}.  Returns true for a formula. */
static bool read_size(meta_reader *m, json *j, rush_signature_size *size)
{
  bool computed = false;
  str key;

  *size = (rush_signature_size){.value = -1, .min = INT64_MIN, .max = INT64_MAX};
  for (json_begin_object(j); json_next_key(j, &key);) {
    if (str_is(key, "as_int"))
      size->value = size->min = size->max = json_int(j);
    else if (str_is(key, "as_expr"))
      computed = read_expression(m, j, size);
    else
      json_skip(j);
  }
  if (!size->symbol && size->min != size->max)
    json_fail(j, "a size without a value");
  return computed;
}

static void read_sizes(meta_reader *m, json *j, exported_meta *meta)
{
  rush_signature_size sizes[TENSOR_MAX_DIMS];

  for (json_begin_array(j); json_next_item(j); meta->n_dims++) {
    if (meta->n_dims == TENSOR_MAX_DIMS)
      json_fail(j, "more than %d dimensions", TENSOR_MAX_DIMS);
    rush_signature_size *size = &sizes[meta->n_dims];
    meta->computed |= (uint64_t)read_size(m, j, size) << meta->n_dims;
    size->min = size->symbol && size->min < 0 ? 0 : size->min;
  }
  meta->sizes = ex_keep_array(m->r, (size_t)meta->n_dims, sizeof *sizes);
  if (meta->n_dims)
    memcpy(meta->sizes, sizes, (size_t)meta->n_dims * sizeof *sizes);
}

/* -- Values ------------------------------------------------------------------------------------ */

static void read_tensor(meta_reader *m, json *j, exported_meta *meta)
{
  str key;

  meta->is_tensor = true;
  meta->dtype = DTYPE_NONE;
  for (json_begin_object(j); json_next_key(j, &key);) {
    if (str_is(key, "dtype"))
      meta->dtype = ex_dtype(m->r, json_int(j));
    else if (str_is(key, "sizes"))
      read_sizes(m, j, meta);
    else
      json_skip(j);
  }
}

static void read_int(meta_reader *m, json *j, exported_meta *meta)
{
  meta->n_dims = 1;
  meta->sizes = ex_keep_array(m->r, 1, sizeof *meta->sizes);
  meta->computed = read_size(m, j, meta->sizes);
}

/* Read the needed members of `object`. */
static void read_values(meta_reader *m, str object,
                        void (*read)(meta_reader *, json *, exported_meta *))
{
  str key;
  json j;

  if (!object.p)
    return;
  json_init_at(&j, m->r->s, &m->r->in, object);
  for (json_begin_object(&j); json_next_key(&j, &key);) {
    exported_meta *meta = table_get(&m->wanted, key);
    if (meta && !meta->sizes) {
      m->r->at = j.pos;
      read(m, &j, meta);
    } else {
      json_skip(&j);
    }
  }
}

/* Return the description of a value of that name, which is read later; one value may be several
 * inputs and outputs. */
static const exported_meta *want(meta_reader *m, str name)
{
  exported_meta *meta = table_get(&m->wanted, name);

  if (meta)
    return meta;
  meta = ex_keep_array(m->r, 1, sizeof *meta);
  session_table_put(m->r->s, &m->wanted, name, meta);
  return meta;
}

/* Replace descriptions that were not found by NULL. */
static void settle(const exported_meta **metas, uint32_t n)
{
  for (uint32_t i = 0; i < n; i++)
    if (metas[i] && !metas[i]->sizes)
      metas[i] = NULL;
}

void ex_read_metas(ex_reader *r, const model_parts *p, const table *leaves, const table *ranges)
{
  meta_reader *m = session_new(r->s, meta_reader);
  exported *e = r->e;
  uint32_t n_outputs;
  const str *outputs = ex_output_names(r, p->outputs, &n_outputs);

  *m = (meta_reader){.r = r, .ranges = ranges};
  session_table_init(r->s, &m->wanted);
  e->leaf_metas = ex_keep_array(r, e->n_leaves, sizeof *e->leaf_metas);
  e->output_metas = ex_keep_array(r, n_outputs, sizeof *e->output_metas);
  e->n_output_metas = n_outputs;
  for (uint32_t i = 0; i < leaves->n; i++)
    e->leaf_metas[(uintptr_t)leaves->entries[i].value - 1] = want(m, leaves->entries[i].key);
  for (uint32_t i = 0; i < n_outputs; i++)
    e->output_metas[i] = outputs[i].p ? want(m, outputs[i]) : NULL;
  read_values(m, p->tensor_values, read_tensor);
  read_values(m, p->sym_int_values, read_int);
  settle(e->leaf_metas, e->n_leaves);
  settle(e->output_metas, n_outputs);
  r->at = 0;
}
