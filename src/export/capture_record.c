/* export/capture_record.c -- operators that become nodes: arguments as torch.export has them (what
 * equals its default at the end is left out), results by the operator's shape rule over
 * symbols. */
#include "export/capture_int.h"

#include <math.h>

#include "base/grow.h"
#include "ir/facts.h"
#include "ops/call/lookup.h"
#include "ops/call/shape.h"
#include "ops/table/op_keys.h"
#include "tensor/sparse.h"

#define ASSERT_METADATA "torch.ops.aten._assert_tensor_metadata.default"

/* -- Memory ------------------------------------------------------------------------------------ */

static void *keep_array(capture *c, size_t n, size_t item)
{
  return session_alloc_in(c->s, c->mem, (n + 1) * item);
}

/* -- Tensors ----------------------------------------------------------------------------------- */

symshape_facts capture_facts_of(capture *c, const rush_tensor *t)
{
  symshape_facts f = {.dtype = t->dtype,
                      .flags = t->h.flags & TENSOR_WRAPPED_NUMBER ? SHAPE_WRAPPED : 0,
                      .n_dims = t->n_dims,
                      .alias = -1,
                      .offset = sym_const(c->env, t->offset)};

  f.sizes = session_array(c->s, symint, 2 * (size_t)t->n_dims + 1);
  f.strides = f.sizes + t->n_dims;
  for (int i = 0; i < t->n_dims; i++) {
    f.sizes[i] = sym_const(c->env, t->sizes[i]);
    f.strides[i] = sym_const(c->env, t->strides[i]);
  }
  return f;
}

static const fx_number *describe_all(capture *c, const symint *values, int n)
{
  fx_number *out = keep_array(c, (size_t)n, sizeof *out);

  for (int i = 0; i < n; i++)
    capture_describe(c, &out[i], values[i]);
  return out;
}

static const fx_val *describe_tensor(capture *c, const symshape_facts *f, bool requires_grad,
                                     int layout)
{
  fx_tensor *t = keep_array(c, 1, sizeof *t);
  fx_val *v = keep_array(c, 1, sizeof *v);

  *t = (fx_tensor){.dtype = f->dtype,
                   .layout = layout,
                   .requires_grad = requires_grad,
                   .n_dims = (uint32_t)f->n_dims,
                   .n_strides = (uint32_t)f->n_dims,
                   .device = "cpu"};
  t->sizes = describe_all(c, f->sizes, f->n_dims);
  t->strides = describe_all(c, f->strides, f->n_dims);
  capture_describe(c, &t->offset, f->offset);
  *v = (fx_val){.kind = FX_VAL_TENSOR, .as.tensor = t};
  return v;
}

const fx_val *capture_val(capture *c, const symshape_facts *f, bool requires_grad)
{
  return describe_tensor(c, f, requires_grad, LAYOUT_STRIDED);
}

const fx_val *capture_val_of_input(capture *c, const symshape_facts *f, const rush_tensor *t)
{
  return describe_tensor(c, f, t->h.flags & TENSOR_REQUIRES_GRAD, tensor_layout(t));
}

static capture_tensor *add_tensor(capture *c, const rush_tensor *identity, fx_node *n,
                                  const symshape_facts *facts, bool requires_grad)
{
  capture_tensor *t = session_new(c->s, capture_tensor);

  *t = (capture_tensor){.node = n,
                        .home = n ? n->graph : c->g,
                        .number = value_none(),
                        .facts = *facts,
                        .requires_grad = requires_grad};
  session_table_put(c->s, &c->tensors, address_key(identity), t);
  return t;
}

rush_value capture_tensor_new(capture *c, fx_node *n, const symshape_facts *facts,
                              bool requires_grad)
{
  rush_tensor *t;

  session_check(c->s, tensor_new(c->s->cx, facts->dtype, 0, NULL, &t));
  const rush_value v = capture_hold(c, value_tensor_steal(t));
  memset(t->data, 0, dtype_bytes(t->dtype)); /* whatever may print it */
  t->h.flags |= requires_grad ? TENSOR_REQUIRES_GRAD : 0;
  add_tensor(c, t, n, facts, requires_grad);
  capture_note_sizes(c, n, facts);
  return v;
}

/* Note which constants, parameters and buffers share memory.  In the program parameters and buffers
 * do, too, and constants of the module; a constant that the code makes is a copy there. */
static void note_storage(capture *c, const rush_tensor *t, capture_tensor *made)
{
  capture_tensor *first = table_get(&c->storages, address_key(t->st));

  if (!first)
    session_table_put(c->s, &c->storages, address_key(t->st), made);
  else if (!made->is_fresh && !first->is_fresh)
    made->root = capture_root(first);
  if (first && (made->is_fresh || first->is_fresh || !made->constant != !first->constant))
    capture_root(first)->shares_memory = made->shares_memory = true;
  if (made->shares_memory && capture_root(first)->was_written)
    capture_fail(c, "a constant shares its memory with a tensor that is written to");
}

/* True for a buffer that is not part of the state dict. */
static bool is_temporary(const capture *c, const char *name)
{
  const capture_structure *tree = c->options->structure;

  for (size_t i = 0; tree && i < tree->n_temporary; i++)
    if (strcmp(tree->temporary[i], name) == 0)
      return true;
  return false;
}

/* Add the placeholder of a tensor of the program's state, and its input. */
static fx_node *state_node(capture *c, exported_input_kind kind, const char *name, rush_tensor *t,
                           const symshape_facts *facts)
{
  static const char *const prefixes[] = {
    [INPUT_PARAMETER] = "p", [INPUT_BUFFER] = "b", [INPUT_TENSOR_CONSTANT] = "c"};
  char *node_name = session_printf(c->s, "%s_%s", prefixes[kind], name);

  for (char *p = node_name; *p; p++)
    *p = *p == '.' ? '_' : *p;
  fx_node *n = fx_node_new(c->s, c->p->graph, FX_PLACEHOLDER, node_name, node_name);
  n->target = n->name;
  n->val = capture_val_of_input(c, facts, t);
  if (c->first_input)
    fx_node_move_before(n, c->first_input);
  GROW(c->s, c->inputs, c->n_inputs, c->cap_inputs, 32);
  c->inputs[c->n_inputs++] =
    (program_input){.kind = kind,
                    .is_persistent = kind == INPUT_BUFFER && !is_temporary(c, name),
                    .arg = {.kind = ARG_TENSOR, .name = n->name},
                    .target = capture_text(c, name)};
  session_table_put(c->s, c->state, str_of(c->inputs[c->n_inputs - 1].target), t);
  return n;
}

void capture_add_state(capture *c, exported_input_kind kind, const char *name, rush_tensor *t,
                       bool is_known)
{
  const symshape_facts facts = capture_facts_of(c, t);
  fx_node *n = state_node(c, kind, name, t, &facts);

  capture_tensor *made = add_tensor(c, t, n, &facts, t->h.flags & TENSOR_REQUIRES_GRAD);
  made->is_known = is_known;
  note_storage(c, t, made);
}

static const char *constant_name(capture *c)
{
  return session_printf(c->s, "lifted_tensor_%u", c->n_constants++);
}

void capture_constant(capture *c, rush_value tensor)
{
  rush_tensor *t = tensor.as.tensor;

  t->h.flags &= (uint8_t)~TENSOR_WRAPPED_NUMBER;
  const symshape_facts facts = capture_facts_of(c, t);
  capture_tensor *made = add_tensor(c, t, NULL, &facts, false);
  made->is_known = true;
  made->constant = t;
  made->is_fresh = true;
  note_storage(c, t, made);
}

rush_value capture_number_tensor(capture *c, rush_value number)
{
  const capture_number *n = capture_number_of(number);
  const symshape_facts facts = {.dtype = n->kind == FX_VAL_INT     ? RUSH_INT64
                                         : n->kind == FX_VAL_FLOAT ? RUSH_FLOAT32
                                                                   : RUSH_BOOL,
                                .alias = -1,
                                .offset = sym_const(c->env, 0)};
  const rush_value v = capture_tensor_new(c, NULL, &facts, false);

  capture_tensor_of(c, v.as.tensor)->number = number;
  return v;
}

rush_value capture_wrapped_number(capture *c, rush_value number)
{
  const capture_number *n = capture_number_of(number);
  const bool is_bool = n ? n->kind == FX_VAL_BOOL : number.tag == RUSH_TAG_BOOL;
  const bool is_int = n ? n->kind == FX_VAL_INT : number.tag == RUSH_TAG_INT;
  const int dtype = is_bool                            ? RUSH_BOOL
                    : is_int                           ? RUSH_INT64
                    : number.tag == RUSH_TAG_COMPLEX ? RUSH_COMPLEX128
                                                       : RUSH_FLOAT64;
  const symshape_facts f = {.dtype = (int16_t)dtype,
                            .flags = SHAPE_WRAPPED,
                            .alias = -1,
                            .offset = sym_const(c->env, 0)};
  const rush_value v = capture_tensor_new(c, NULL, &f, false);
  capture_tensor *t = capture_tensor_of(c, v.as.tensor);

  t->number = number;
  t->is_wrapped = true;
  return v;
}

/* Return the node of a tensor as the graph being captured has it. */
static fx_node *constant_node(capture *c, capture_tensor *t)
{
  const char *name = table_get(&c->attributes, address_key(t->constant));
  fx_node *n = state_node(c, INPUT_TENSOR_CONSTANT, name ? name : constant_name(c), t->constant,
                          &t->facts);

  if (!t->is_fresh)
    return n;
  const fx_arg constant = fx_arg_node(capture_use(c, n));
  n = capture_node(c, "torch.ops.aten.clone.default", &constant, 1);
  n->val = capture_val(c, &t->facts, false);
  return n;
}

static fx_node *number_node(capture *c, capture_tensor *t)
{
  const fx_arg number = capture_number_arg(c, t->number);
  fx_named *named = keep_array(c, 1, sizeof *named);
  fx_node *n = capture_node(c, "torch.ops.aten.scalar_tensor.default", &number, 1);

  named[0] = (fx_named){STR("dtype"), {.kind = FX_DTYPE, .as.i = t->facts.dtype}};
  n->kwargs = named;
  n->n_kwargs = 1;
  n->val = capture_val(c, &t->facts, false);
  return n;
}

static fx_node *node_of_tensor(capture *c, capture_tensor *t)
{
  if (capture_is_stale(t))
    capture_refresh(c, t);
  if (!t->node && t->constant && c->decomposes)
    capture_fail(c, "its decomposition has a constant");
  if (!t->node) { /* made where it was: a branch may not be what needs it first */
    const capture_graph before = capture_enter(c, t->home);
    t->node = t->constant ? constant_node(c, t) : number_node(c, t);
    capture_leave(c, before);
  }
  return capture_use(c, t->node);
}

capture_tensor *capture_tensor_of(capture *c, const rush_tensor *t)
{
  capture_tensor *known = table_get(&c->tensors, address_key(t));

  if (known)
    return known;
  const symshape_facts facts = capture_facts_of(c, t);
  known = add_tensor(c, t, NULL, &facts, t->h.flags & TENSOR_REQUIRES_GRAD);
  known->is_known = true;
  known->home = c->p->graph;
  known->constant = (rush_tensor *)(uintptr_t)t;
  note_storage(c, t, known);
  return known;
}

/* -- Arguments --------------------------------------------------------------------------------- */

static const type *of_optional(const type *t)
{
  while (t && t->kind == TYPE_OPTIONAL)
    t = type_elem(t);
  return t;
}

static fx_arg int_arg(int64_t i, const type *t)
{
  fx_arg a = fx_arg_int(i);

  if (t && t->kind == TYPE_SCALAR_TYPE)
    a.kind = FX_DTYPE;
  else if (t && t->kind == TYPE_LAYOUT)
    a.kind = FX_LAYOUT;
  else if (t && t->kind == TYPE_MEMORY_FORMAT)
    a.kind = FX_MEMORY_FORMAT;
  else if (t && t->kind == TYPE_FLOAT)
    a = (fx_arg){.kind = FX_FLOAT, .as.f = (double)i};
  return a;
}

static fx_arg items_arg(capture *c, const rush_value *items, size_t n, bool is_tuple,
                        const type *item)
{
  fx_arg *out = keep_array(c, n, sizeof *out);

  session_enter(c->s);
  for (size_t i = 0; i < n; i++)
    out[i] = capture_arg(c, items[i], item);
  session_leave(c->s);
  return (fx_arg){.kind = is_tuple ? FX_TUPLE : FX_LIST, .n = (uint32_t)n, .as.items = out};
}

static fx_arg complex_arg(capture *c, const complex_box *z)
{
  double *parts = keep_array(c, 2, sizeof *parts);

  parts[0] = z->re;
  parts[1] = z->im;
  return (fx_arg){.kind = FX_COMPLEX, .as.complex = parts};
}

static fx_arg device_arg(capture *c, rush_value v)
{
  const int32_t index = value_device_index(v);
  const char *kind = device_kind_name(value_device_kind(v));
  const char *text = index < 0 ? session_strdup(c->s, kind ? kind : "cpu")
                               : session_printf(c->s, "%s:%d", kind ? kind : "cpu", index);

  return (fx_arg){.kind = FX_DEVICE, .as.text = capture_text(c, text)};
}

fx_arg capture_arg(capture *c, rush_value v, const type *t)
{
  t = of_optional(t);
  if (capture_number_of(v))
    return capture_number_arg(c, v);
  switch (v.tag) {
  case RUSH_TAG_NONE:
    return (fx_arg){.kind = FX_NONE};
  case RUSH_TAG_TENSOR:
    if (v.as.tensor && capture_tensor_of(c, v.as.tensor)->is_wrapped)
      return capture_arg(c, capture_tensor_of(c, v.as.tensor)->number, NULL);
    return v.as.tensor ? fx_arg_node(node_of_tensor(c, capture_tensor_of(c, v.as.tensor)))
                       : (fx_arg){.kind = FX_NONE};
  case RUSH_TAG_BOOL:
    return (fx_arg){.kind = FX_BOOL, .as.b = v.as.b};
  case RUSH_TAG_INT:
    return int_arg(v.as.i, t);
  case RUSH_TAG_FLOAT:
    return (fx_arg){.kind = FX_FLOAT, .as.f = v.as.d};
  case RUSH_TAG_COMPLEX:
    return complex_arg(c, value_complex(v));
  case RUSH_TAG_STRING:
    return (fx_arg){.kind = FX_STRING,
                    .n = (uint32_t)v.as.string->len,
                    .as.text = capture_str(c, value_str(v))};
  case RUSH_TAG_DEVICE:
    return device_arg(c, v);
  case RUSH_TAG_LIST:
    return items_arg(c, v.as.list->items, v.as.list->n, false,
                     t && t->kind == TYPE_LIST ? type_elem(t) : NULL);
  case RUSH_TAG_TUPLE:
    return items_arg(c, v.as.tuple->items, v.as.tuple->n, true, NULL);
  default:
    capture_fail(c, "a value of this kind cannot be an argument in an exported program");
  }
}

/* True if a value is the default; tensors and objects never are. */
static bool is_default(const schema_arg *a, rush_value v)
{
  const rush_value d = a->default_value;

  if (!a->has_default || v.tag != d.tag)
    return false;
  switch (v.tag) {
  case RUSH_TAG_NONE:
    return true;
  case RUSH_TAG_BOOL:
    return v.as.b == d.as.b;
  case RUSH_TAG_INT:
  case RUSH_TAG_DEVICE:
    return v.as.i == d.as.i;
  case RUSH_TAG_FLOAT:
    return v.as.d == d.as.d;
  case RUSH_TAG_STRING:
    return str_eq(value_str(v), value_str(d));
  case RUSH_TAG_LIST:
    if (v.as.list->n != d.as.list->n)
      return false;
    for (size_t i = 0; i < v.as.list->n; i++)
      if (v.as.list->items[i].tag != RUSH_TAG_INT || d.as.list->items[i].tag != RUSH_TAG_INT ||
          v.as.list->items[i].as.i != d.as.list->items[i].as.i)
        return false;
    return true;
  default:
    return false;
  }
}

/* Return the number that a constant of no dimension is, as PyTorch writes x * 2.5: if the operator
 * takes numbers, and the dtype of its result does not depend on the constant's.  False: none. */
static bool number_arg(capture *c, const op *o, const rush_value *args, uint32_t i, fx_arg *out)
{
  const rush_tensor *t = args[i].tag == RUSH_TAG_TENSOR ? args[i].as.tensor : NULL;
  capture_tensor *k = t ? table_get(&c->tensors, address_key(t)) : NULL;
  bool has_other = false;

  if (!k || !k->constant || k->node || !capture_is_known(k) || t->n_dims ||
      !(o->effects & OP_TAKES_NUMBERS) || (t->dtype != RUSH_FLOAT64 && t->dtype != RUSH_INT64))
    return false;
  for (uint32_t a = 0; a < o->schema->n_args; a++) {
    if (a == i || args[a].tag != RUSH_TAG_TENSOR || !args[a].as.tensor)
      continue;
    const symshape_facts *f = &capture_tensor_of(c, args[a].as.tensor)->facts;
    has_other |= f->n_dims > 0 && (t->dtype == RUSH_INT64 || dtype_is_float(f->dtype) ||
                                   dtype_is_complex(f->dtype));
  }
  if (!has_other)
    return false;
  capture_root(k)->was_read = true;
  *out = t->dtype == RUSH_INT64 ? fx_arg_int(*(const int64_t *)t->data)
                                : (fx_arg){.kind = FX_FLOAT, .as.f = *(const double *)t->data};
  return true;
}

/* Add the node of a call: arguments by position up to the last that is not its default, then by
 * name.  Nodes of symbolic numbers among them come first. */
static fx_node *add_call(capture *c, const op *o, const char *target, const rush_value *args)
{
  const schema *sc = o->schema;
  uint32_t n_pos = 0, last = 0, n_named = 0;

  while (n_pos < sc->n_args && !sc->args[n_pos].kwarg_only)
    n_pos++;
  if (o->name_key == OPN__ASSERT_TENSOR_METADATA) /* PyTorch's own code calls it by name */
    n_pos = 1;
  for (uint32_t i = 0; i < n_pos; i++)
    last = is_default(&sc->args[i], args[i]) ? last : i + 1;
  fx_arg *pos = session_array(c->s, fx_arg, (size_t)last + 1);
  fx_named *named = keep_array(c, sc->n_args - n_pos, sizeof *named);
  for (uint32_t i = 0; i < last; i++)
    if (!number_arg(c, o, args, i, &pos[i]))
      pos[i] = capture_arg(c, args[i], sc->args[i].type);
  for (uint32_t i = n_pos; i < sc->n_args; i++)
    if (!is_default(&sc->args[i], args[i]))
      named[n_named++] =
        (fx_named){str_of(sc->args[i].name), capture_arg(c, args[i], sc->args[i].type)};
  fx_node *n = o->name_key == OPN__ASSERT_TENSOR_METADATA
                 ? capture_named_node(c, target, "_assert_tensor_metadata_default", pos, last)
                 : capture_node(c, target, pos, last);
  n->kwargs = named;
  n->n_kwargs = n_named;
  return n;
}

/* -- Shapes ------------------------------------------------------------------------------------ */

/* Read an argument for the rule: tensors as facts, ints as symints. */
static void read_argument(capture *c, rush_value v, symshape_arg *out)
{
  const bool is_list = v.tag == RUSH_TAG_LIST;
  const rush_value *items = is_list ? v.as.list->items : &v;
  const size_t n = is_list ? v.as.list->n : 1;
  bool tensors = n > 0, ints = n > 0;

  for (size_t i = 0; i < n; i++) {
    tensors &= items[i].tag == RUSH_TAG_TENSOR || (is_list && items[i].tag == RUSH_TAG_NONE);
    ints &= capture_is_int(items[i]);
  }
  out->value = v;
  out->n = tensors || ints ? (uint32_t)n : 0;
  if (tensors)
    out->tensors = session_array(c->s, symshape_facts, n);
  if (ints || (is_list && n == 0 && type_is(v.as.list->elem, TYPE_INT)))
    out->ints = session_array(c->s, symint, n + 1);
  for (size_t i = 0; i < out->n; i++)
    if (ints)
      out->ints[i] = capture_symint(items[i], c->env);
    else if (items[i].tag == RUSH_TAG_TENSOR && items[i].as.tensor)
      out->tensors[i] = capture_tensor_of(c, items[i].as.tensor)->facts;
    else
      out->tensors[i] = (symshape_facts){.dtype = DTYPE_NONE, .alias = -1};
}

/* Return what the trace says of result i of the node being evaluated, or NULL. */
static const ir_facts *declared_facts(const capture *c, uint32_t i)
{
  const ir_node *n = c->declared;
  const ir_facts *f = n && i < n->n_outputs ? ir_facts_of(n->outputs[i]->type) : NULL;

  return f && !ir_facts_is_none(f) ? f : NULL;
}

/* In a region of autocast arguments are converted to what the result has. */
static void cast_arguments(const capture *c, symshape_call *call)
{
  const ir_facts *f = declared_facts(c, 0);

  for (uint32_t i = 0; f && dtype_is_float(f->dtype) && i < call->schema->n_args; i++)
    for (uint32_t k = 0; call->args[i].tensors && k < call->args[i].n; k++)
      if (dtype_is_float(call->args[i].tensors[k].dtype))
        call->args[i].tensors[k].dtype = f->dtype;
}

const op *capture_rule_of(capture *c, const op *o)
{
  const str name = op_synonym_of(o);

  if (op_has_shape(o) || c->decomposes || !name.len)
    return op_has_shape(o) ? o : NULL;
  const op *of = session_op_find(c->s, name, str_of(o->schema->overload));
  return of && op_has_shape(of) && of->schema->n_args == o->schema->n_args ? of : NULL;
}

static void apply_rule(capture *c, const op *called, const rush_value *args, symshape_call *call)
{
  const op *o = capture_rule_of(c, called);
  const schema *sc = o->schema;

  *call = (symshape_call){.schema = sc};
  call->args = session_array(c->s, symshape_arg, (size_t)sc->n_args + 1);
  for (uint32_t i = 0; i < sc->n_args; i++) {
    read_argument(c, args[i], &call->args[i]);
    call->args[i].value = capture_plain_number(args[i]);
  }
  if (c->n_autocast)
    cast_arguments(c, call);
  const uint32_t before = c->env->n_guards;
  op_symshape(c->s, c->env, o, call);
  capture_check_equalities(c, before);
  const ir_facts *f = c->n_autocast && call->n_results ? declared_facts(c, 0) : NULL;
  if (f && f->dtype != DTYPE_NONE && !(call->results[0]->flags & SHAPE_ITSELF))
    call->results[0]->dtype = f->dtype;
}

/* True if some argument requires a gradient, and results may have one. */
static bool wants_grad(capture *c, const op *o, const rush_value *args)
{
  tensor_walk w = {.values = args, .n = o->schema->n_args};
  const rush_tensor *t;

  if (o->effects & OP_NO_GRAD || !c->s->cx->grad_mode)
    return false;
  while ((t = tensor_walk_next(&w)) != NULL)
    if (capture_tensor_of(c, t)->requires_grad)
      return true;
  return false;
}

/* -- Results ----------------------------------------------------------------------------------- */

typedef struct recorded {
  capture *c;
  const op *o;
  const rush_value *args;
  symshape_call call;
  uint32_t at; /* the next of call.results */
  bool requires_grad;
} recorded;

static bool grad_of(const recorded *r, const symshape_facts *f)
{
  return r->requires_grad && (dtype_is_float(f->dtype) || dtype_is_complex(f->dtype));
}

/* Sizes that depend on data are symbols, which the node has from here on. */
static void name_sizes(capture *c, const op *o, const symshape_facts *f, fx_node *n)
{
  if (c->is_scratch)
    return;
  for (int i = 0; i < f->n_dims; i++) {
    const symint e = f->sizes[i];
    const sym_atom *a = e->n_terms == 1 ? e->terms[0].atoms[0] : NULL;
    if (a && e->k == 0 && e->terms[0].coef == 1 && e->terms[0].degree == 1 &&
        a->kind == SYM_SYMBOL && !a->backed && !capture_symbol_of(c, a))
      capture_symbol_add(c, e, NULL, n, i, NULL);
    else
      continue;
    if (capture_is_live(c) && a->hi == SYM_INF && o->name_key != OPN_REPEAT_INTERLEAVE &&
        o->name_key != OPN_BINCOUNT)
      ((sym_atom *)(uintptr_t)a)->hi = SYM_INF - 1; /* PyTorch's bound: sys.maxsize - 1 */
    if (c->options->structure && !c->decomposes)
      capture_check_range(c, e);
  }
}

/* Make the tensor of a result (of a list: `item`), which `n` has.  What was written to is the
 * argument itself. */
static rush_value bind_tensor(recorded *r, const symshape_facts *f, fx_node *n, uint32_t item)
{
  capture *c = r->c;
  const bool is_write = f->flags & SHAPE_ITSELF && f->alias >= 0 &&
                        r->o->schema->args[f->alias].is_write;

  name_sizes(c, r->o, f, n);
  n->val = capture_val(c, f, grad_of(r, f));
  if (!is_write || r->args[f->alias].tag != RUSH_TAG_TENSOR) {
    const rush_value made = capture_tensor_new(c, n, f, grad_of(r, f));
    if (f->alias >= 0 && r->args[f->alias].tag == RUSH_TAG_TENSOR) /* a view */
      capture_tensor_of(c, made.as.tensor)->root =
        capture_root(capture_tensor_of(c, r->args[f->alias].as.tensor));
    if (c->decomposes && f->alias >= 0 && r->args[f->alias].tag == RUSH_TAG_TENSOR)
      capture_note_view(c, made, r->o, r->args, item, r->args[f->alias]);
    return made;
  }
  capture_tensor *t = capture_tensor_of(c, r->args[f->alias].as.tensor);
  t->facts = *f;
  t->node = n;
  t->number = value_none();
  t->is_known = false;
  return r->args[f->alias];
}

static fx_node *item_node(capture *c, fx_node *of, uint32_t i)
{
  const fx_arg args[] = {fx_arg_node(of), fx_arg_int(i)};

  return capture_node(c, "_operator.getitem", args, 2);
}

static const symshape_facts *next_result(recorded *r, uint32_t result)
{
  if (r->at >= r->call.n_results || r->call.results[r->at]->result != result)
    return NULL;
  return r->call.results[r->at++];
}

/* Make the list of tensors of result i, and the nodes of its items; `of` has the list. */
static rush_value bind_list(recorded *r, uint32_t result, fx_node *of)
{
  capture *c = r->c;
  const symshape_facts *f;
  const fx_val **items = keep_array(c, r->call.n_results, sizeof *items);
  fx_val *v = keep_array(c, 1, sizeof *v);
  rush_list *l;

  session_check(c->s, list_new(c->s->cx, type_simple(TYPE_TENSOR), r->call.n_results, &l));
  const rush_value list = capture_hold(c, value_heap_steal(RUSH_TAG_LIST, l));
  *v = (fx_val){.kind = FX_VAL_LIST, .as.items = items};
  of->val = v;
  while ((f = next_result(r, result)) != NULL) {
    fx_node *n = item_node(c, of, v->n);
    const rush_value t = bind_tensor(r, f, n, v->n);
    items[v->n++] = n->val;
    session_check(c->s, list_append_steal(c->s->cx, l, value_retain(t)));
  }
  return list;
}

/* Return the result of kind `t` that a node has. */
static rush_value bind_result(recorded *r, uint32_t i, fx_node *n)
{
  const type *t = r->o->schema->returns[i].type;

  if (t->kind == TYPE_LIST && type_is(type_elem(t), TYPE_TENSOR))
    return bind_list(r, i, n);
  const symshape_facts *f = next_result(r, i);
  if (f && f->dtype != DTYPE_NONE)
    return bind_tensor(r, f, n, 0);
  if (f) {
    n->returns_none = true;
    return value_none();
  }
  if (t->kind == TYPE_TENSOR && r->o->schema->n_returns > 1) { /* none with these arguments */
    n->returns_none = true;
    return value_none();
  }
  capture_fail(r->c, "%s has a result that its shape rule does not know", r->o->schema->name);
}

/* Several results: each has a node behind the call's. */
static void bind_results(recorded *r, fx_node *n, rush_value *results)
{
  const uint32_t n_results = r->o->schema->n_returns;
  const fx_val **items = keep_array(r->c, n_results, sizeof *items);
  fx_val *v = keep_array(r->c, 1, sizeof *v);

  *v = (fx_val){.kind = FX_VAL_LIST, .is_tuple = true, .n = n_results, .as.items = items};
  n->val = v;
  for (uint32_t i = 0; i < n_results; i++) {
    fx_node *item = item_node(r->c, n, i);
    results[i] = bind_result(r, i, item);
    items[i] = item->val;
  }
}

static const char *target_of(capture *c, const op *o)
{
  const schema *sc = o->schema;
  const char *colons = strstr(sc->name, "::");

  if (!colons)
    capture_fail(c, "%s is no operator with a namespace", sc->name);
  return session_printf(c->s, "torch.ops.%.*s.%s.%s", (int)(colons - sc->name), sc->name,
                        colons + 2, *sc->overload ? sc->overload : "default");
}

void capture_check_write(capture *c, const op *o, capture_tensor *t)
{
  capture_tensor *root = capture_root(t);

  if (c->branch && root->home != c->g)
    capture_fail(c, "a branch on data writes to a tensor of outside, which torch.cond does not "
                    "allow");
  if (root->was_read && !root->is_fresh)
    capture_fail(c, "a constant whose value was used is written to by %s", o->schema->name);
  if (root->shares_memory || t->shares_memory)
    capture_fail(c, "%s writes to a constant that shares its memory with another tensor",
                 o->schema->name);
  if (t->shares_node && o->effects & OP_GEOMETRY)
    capture_fail(c, "%s changes the sizes of a tensor that x[:] shows", o->schema->name);
  t->is_known = root->is_known = false;
  root->was_written = true;
}

/* -- Operators without a shape rule ------------------------------------------------------------ */

/* True if a size of an argument varies, or a number. */
static bool has_varying(capture *c, const op *o, const rush_value *args)
{
  tensor_walk w = {.values = args, .n = o->schema->n_args};
  const rush_tensor *t;

  while ((t = tensor_walk_next(&w)) != NULL) {
    const symshape_facts *f = &capture_tensor_of(c, t)->facts;
    for (int i = 0; i < f->n_dims; i++)
      if (!sym_is_const(f->sizes[i]))
        return true;
  }
  for (uint32_t i = 0; i < o->schema->n_args; i++)
    if (capture_has_number(c, args[i]))
      return true;
  return false;
}

/* True if it is known what the operator's results look like: custom operators of torch have a
 * function that says so, which was recorded before (capture_higher.c), or the trace has their
 * sizes, which hold if no size of the arguments varies. */
static bool is_described(capture *c, const op *o, const rush_value *args)
{
  for (uint32_t i = 0; i < o->schema->n_returns && !c->expected; i++)
    if (!type_is(o->schema->returns[i].type, TYPE_TENSOR) || !declared_facts(c, i) ||
        !ir_facts_has_strides(declared_facts(c, i)))
      return false;
  c->guesses = !c->expected && has_varying(c, o, args);
  if (!c->guesses)
    return true;
  if (c->options->report)
    text_printf(c->options->report, "missing_fake_kernel\t%s\x1e", o->schema->name);
  return c->options->report != NULL;
}

/* Return the facts that the trace has of result i; in a draft its sizes depend on data. */
static symshape_facts traced_facts(capture *c, uint32_t i)
{
  const ir_facts *from = declared_facts(c, i);
  symshape_facts f = {.dtype = from->dtype,
                      .n_dims = from->n_dims,
                      .alias = -1,
                      .offset = sym_const(c->env, 0)};

  f.sizes = session_array(c->s, symint, 2 * (size_t)f.n_dims + 1);
  f.strides = f.sizes + f.n_dims;
  for (int k = 0; k < f.n_dims; k++) {
    f.sizes[k] = c->guesses ? sym_fresh(c->env, 0, SYM_INF) : sym_const(c->env, from->sizes[k]);
    f.strides[k] = sym_const(c->env, from->strides[k]);
  }
  symint dense = sym_const(c->env, 1);
  for (int k = f.n_dims; c->guesses && k-- > 0;) {
    f.strides[k] = dense;
    dense = sym_mul(c->env, dense, f.sizes[k]);
  }
  return f;
}

/* Describe the results of an operator for which is_described is true. */
static void describe_results(capture *c, const op *o, symshape_call *call)
{
  const bool is_list = o->schema->n_returns == 1 && o->schema->returns[0].type->kind == TYPE_LIST;
  const uint32_t n = is_list && c->expected ? c->n_expected : o->schema->n_returns;

  if (c->expected && c->n_expected != n)
    capture_fail(c, "%s returns %u values, but its fake implementation %u", o->schema->name, n,
                 c->n_expected);
  call->results = session_array(c->s, symshape_facts *, (size_t)n + 1);
  for (uint32_t i = 0; i < n; i++) {
    symshape_facts *f = session_new(c->s, symshape_facts);
    if (c->expected && c->expected[i].tag != RUSH_TAG_TENSOR)
      capture_fail(c, "%s returns a value that is no tensor (result %u), which cannot be exported",
                   o->schema->name, i);
    *f = c->expected ? capture_tensor_of(c, c->expected[i].as.tensor)->facts : traced_facts(c, i);
    f->alias = -1;
    f->flags = 0;
    f->result = is_list ? 0 : i;
    call->results[call->n_results++] = f;
  }
  c->expected = NULL;
}

/* Record that x looks as it did when x.to(...) was captured, as torch.export does before each of
 * them: what `to` returns, x or a copy, depends on it. */
static void assert_metadata(capture *c, rush_value x)
{
  const fx_arg of = capture_arg(c, x, NULL);
  const fx_node *last = c->g->last;
  fx_named *named = keep_array(c, 3, sizeof *named);

  if (last && strcmp(last->target, ASSERT_METADATA) == 0 && last->args[0].as.node == of.as.node)
    return;
  named[0] = (fx_named){
    STR("dtype"),
    {.kind = FX_DTYPE, .as.i = capture_tensor_of(c, x.as.tensor)->facts.dtype}};
  named[1] = (fx_named){STR("device"), {.kind = FX_DEVICE, .n = 3, .as.text = "cpu"}};
  named[2] = (fx_named){STR("layout"), {.kind = FX_LAYOUT}};
  fx_node *n =
    capture_named_node(c, ASSERT_METADATA, "_assert_tensor_metadata_default", &of, 1);
  n->kwargs = named;
  n->n_kwargs = 3;
}

static rush_value settled_leaf(capture *c, rush_value v, void *unused)
{
  const capture_number *n = capture_number_of(v);
  const symint e = n && n->kind == FX_VAL_INT ? sym_simplify(c->env, n->i) : NULL;

  (void)unused;
  return e && sym_is_const(e) ? value_int(e->k) : v;
}

/* Return the arguments of an operator: ints that a condition has fixed are known to it. */
static const rush_value *settled(capture *c, const op *o, const rush_value *args)
{
  rush_value *out = session_array(c->s, rush_value, (size_t)o->schema->n_args + 1);

  for (uint32_t i = 0; i < o->schema->n_args; i++)
    out[i] = capture_has_number(c, args[i]) ? capture_rebuild(c, args[i], settled_leaf, NULL)
                                            : args[i];
  return out;
}

void capture_record(capture *c, const op *o, const rush_value *args, rush_value *results)
{
  const schema *sc = o->schema;
  args = capture_is_live(c) ? settled(c, o, args) : args;
  recorded r = {.c = c, .o = o, .args = args};
  const bool has_rule = capture_rule_of(c, o) != NULL;

  if (!has_rule && sc->n_returns && !is_described(c, o, args))
    capture_fail(c, "%s%s%s cannot be exported: it has no shape rule%s", sc->name,
                 *sc->overload ? "." : "", sc->overload,
                 sc->is_of_host ? " (no fake impl registered)" : "");
  for (uint32_t i = 0; i < sc->n_args; i++)
    if (sc->args[i].is_write && args[i].tag == RUSH_TAG_TENSOR && args[i].as.tensor)
      capture_check_write(c, o, capture_tensor_of(c, args[i].as.tensor));
  if (!c->decomposes &&
      (o->key == OPK_TO_DEVICE || o->key == OPK_TO_DTYPE || o->key == OPK_TO_DTYPE_LAYOUT))
    assert_metadata(c, args[0]);
  if (has_rule && sc->n_returns)
    apply_rule(c, o, args, &r.call);
  else
    describe_results(c, o, &r.call);
  r.requires_grad = wants_grad(c, o, args);
  fx_node *n = add_call(c, o, target_of(c, o), args);
  if (sc->n_returns == 1)
    results[0] = bind_result(&r, 0, n);
  else if (sc->n_returns)
    bind_results(&r, n, results);
}
