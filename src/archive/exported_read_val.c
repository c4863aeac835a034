/* archive/exported_read_val.c -- what an exported program says of its values: fake tensors and
 * symbolic numbers.  Descriptions are found by name and read when a node of that name is made,
 * since files hold them behind the nodes, or before.  An expression is read once for each text. */
#include "archive/exported_read.h"

#include "base/grow.h"

/* -- Numbers ----------------------------------------------------------------------------------- */

/* Note which ranges are of expressions that occur: torch.export.load drops the others. */
static void note_ranges(program_reader *r, const expression *e)
{
  exported_bounds *found = NULL;

  session_enter(r->s);
  if (e->kind == EXPRESSION_SYMBOL) {
    found = table_get(&r->ranges, e->name);
  } else if (!r->ranges_of_symbols && e->n_args) {
    text_buf *text = session_text(r->s);
    expression_print(r->s, text, e);
    found = table_get(&r->ranges, str_of(session_take_text(r->s, text)));
  }
  if (found)
    found->is_used = true;
  for (uint32_t i = 0; i < e->n_args; i++)
    note_ranges(r, e->args[i]);
  session_leave(r->s);
}

const expression *read_expression(program_reader *r, str text)
{
  const expression *e = table_get(&r->exprs, text);

  if (e)
    return e;
  e = expression_read(r->s, &r->p->mem, r->in.place, text, EXPRESSION_SYMPY);
  if (memmem(text.p, text.len, "Min(", 4) || memmem(text.p, text.len, "Max(", 4))
    e = expression_fold_extremes(r->s, &r->p->mem, e);
  if (r->in_offset) /* torch.export.load does not read it */
    return e;
  session_table_put(r->s, &r->exprs, text, (void *)(uintptr_t)e);
  note_ranges(r, e);
  return e;
}

static void read_hint(json *j, fx_number *n)
{
  str key;

  if (json_is_null(j)) {
    json_skip(j);
    return;
  }
  for (json_begin_object(j); json_next_key(j, &key);) {
    n->has_value = true;
    if (str_is(key, "as_int"))
      n->value.i = json_int(j);
    else if (str_is(key, "as_float"))
      n->value.f = json_double(j);
    else if (str_is(key, "as_bool"))
      n->value.b = json_bool(j);
    else
      json_fail(j, "a hint of kind '%.*s'", (int)key.len, key.p);
  }
}

static void read_expr(program_reader *r, json *j, fx_number *n)
{
  str key;

  for (json_begin_object(j); json_next_key(j, &key);)
    if (str_is(key, "expr_str"))
      n->expr = read_expression(r, json_string(j));
    else if (str_is(key, "hint"))
      read_hint(j, n);
    else
      json_skip(j);
  if (!n->expr)
    json_fail(j, "a symbolic number without expr_str");
  if (expression_is_integer(n->expr)) /* as PyTorch reads Min(16, 16*s0) */
    *n = (fx_number){.has_value = true, .value.i = n->expr->p};
}

fx_number read_number(program_reader *r, json *j)
{
  fx_number n = {0};
  str key;

  for (json_begin_object(j); json_next_key(j, &key);) {
    if (n.expr || n.has_value)
      json_fail(j, "a number with two values");
    if (str_is(key, "as_expr")) {
      read_expr(r, j, &n);
      continue;
    }
    n.has_value = true;
    if (str_is(key, "as_int"))
      n.value.i = json_int(j);
    else if (str_is(key, "as_float"))
      n.value.f = json_double(j);
    else if (str_is(key, "as_bool"))
      n.value.b = json_bool(j);
    else
      json_fail(j, "a number of kind '%.*s'", (int)key.len, key.p);
  }
  if (!n.expr && !n.has_value)
    json_fail(j, "a number without a value");
  return n;
}

/* -- Values ------------------------------------------------------------------------------------ */

static fx_number read_offset(program_reader *r, json *j)
{
  r->in_offset = true;
  const fx_number n = read_number(r, j);
  r->in_offset = false;
  return n;
}

static const fx_number *read_numbers(program_reader *r, json *j, uint32_t *n)
{
  fx_number *items = NULL;
  uint32_t cap = 0;

  *n = 0;
  for (json_begin_array(j); json_next_item(j); ++*n) {
    GROW(r->s, items, *n, cap, 4);
    items[*n] = read_number(r, j);
  }
  fx_number *kept = read_keep_array(r, *n, sizeof *kept);
  if (*n)
    memcpy(kept, items, *n * sizeof *kept);
  return kept;
}

static const fx_tensor *read_tensor(program_reader *r, json *j)
{
  fx_tensor *t = read_keep_array(r, 1, sizeof *t);
  str key;

  t->dtype = -1;
  t->device = "cpu";
  t->offset.has_value = true;
  for (json_begin_object(j); json_next_key(j, &key);) {
    if (str_is(key, "dtype"))
      t->dtype = read_schema_dtype(j);
    else if (str_is(key, "sizes"))
      t->sizes = read_numbers(r, j, &t->n_dims);
    else if (str_is(key, "strides"))
      t->strides = read_numbers(r, j, &t->n_strides);
    else if (str_is(key, "storage_offset"))
      t->offset = read_offset(r, j);
    else if (str_is(key, "requires_grad"))
      t->requires_grad = json_bool(j);
    else if (str_is(key, "device"))
      t->device = read_device_text(r, j);
    else if (str_is(key, "layout"))
      t->layout = (int)read_schema_layout(j);
    else
      json_skip(j);
  }
  if (t->dtype < 0)
    json_fail(j, "a description of a tensor without a dtype");
  return t;
}

static const char *read_class_name(program_reader *r, json *j)
{
  const char *name = "";
  str key;

  for (json_begin_object(j); json_next_key(j, &key);)
    if (str_is(key, "class_fqn"))
      name = read_keep(r, j, json_string(j));
    else
      json_skip(j);
  return name;
}

static fx_val *read_val(program_reader *r, json *j, fx_val_kind kind)
{
  fx_val *v = read_keep_array(r, 1, sizeof *v);

  v->kind = kind;
  if (kind == FX_VAL_TENSOR) {
    v->as.tensor = read_tensor(r, j);
  } else if (kind == FX_VAL_OBJECT) {
    v->as.class_name = read_class_name(r, j);
  } else {
    fx_number *n = read_keep_array(r, 1, sizeof *n);
    *n = read_number(r, j);
    if (kind == FX_VAL_BOOL) /* a hint may be an int, of which true is any but 0 */
      *n = (fx_number){.expr = n->expr, .has_value = n->has_value, .value.b = n->value.i != 0};
    v->as.number = n;
  }
  return v;
}

/* Note which nodes a caller sees: to run, other tensors need no description. */
static bool *seen_from_outside(program_reader *r)
{
  const fx_graph *g = r->scope->graph;
  const fx_arg *out = &g->last->args[0];
  bool *seen = session_array(r->s, bool, (size_t)g->n_nodes + 1);

  for (const fx_node *n = g->first; n && n->op == FX_PLACEHOLDER; n = n->next)
    seen[n->index] = true;
  for (uint32_t i = 0; out->kind == FX_TUPLE && i < out->n; i++)
    if (out->as.items[i].kind == FX_NODE)
      seen[out->as.items[i].as.node->index] = true;
  return seen;
}

void read_descriptions(program_reader *r, const graph_parts *p)
{
  const bool *seen = r->use == EXPORTED_TO_RUN ? seen_from_outside(r) : NULL;
  str name;
  json j;

  for (int kind = FX_VAL_TENSOR; kind <= FX_VAL_OBJECT; kind++) {
    if (!p->values[kind].p)
      continue;
    json_init_at(&j, r->s, &r->in, p->values[kind]);
    for (json_begin_object(&j); json_next_key(&j, &name);) {
      fx_node *n = table_get(&r->scope->nodes, name);
      if (n && (!seen || kind != FX_VAL_TENSOR || seen[n->index]) && !n->val)
        n->val = read_val(r, &j, (fx_val_kind)kind);
      else
        json_skip(&j);
    }
  }
  for (uint32_t i = 0; i < r->scope->n_items; i++)
    *r->scope->items[i].slot = r->scope->items[i].node->val;
}
