/* run/bytecode.c -- bytecode from a graph, in one walk over the nodes, plus the buffers for results
 * and the listing. Types are static, so numbers get typed instructions without tag checks; other
 * nodes become instructions with a site that names operands and results. Values from containers or
 * from outside are checked once where they enter typed registers. Deaths of values are computed
 * beforehand (bytecode_regs.c), which marks last uses. If fused jumps are too short for a function,
 * it is emitted again without them. Cost: O(nodes + uses). */
#include "run/bytecode_int.h"
#include "run/executor.h"
#include "run/points.h"
#include "autodiff/node.h"
#include "ops/call/lookup.h"
#include "ops/table/op_keys.h"

#include <stdio.h>

/* -- Opcodes of operators ---------------------------------------------------------------------- */

/* Return the opcode for x == x: PyTorch treats it as true before it runs, also for a NaN; ours
 * compares bits. */
static opcode with_itself(const ir_node *n, opcode op)
{
  rush_value c;
  if (n->n_inputs != 2 || ir_node_input(n, 0) != ir_node_input(n, 1) ||
      ir_value_as_constant(ir_node_input(n, 0), &c))
    return op;
  return op == OPC_EQ_FLOAT ? OPC_EQ_INT : op == OPC_NE_FLOAT ? OPC_NE_INT : op;
}

opcode opcode_of(const ir_node *n)
{
  if (n->kind != IR_OP || n->n_outputs != 1 || n->n_inputs > 2)
    return N_OPCODES;
  if (n->n_inputs == 1 && n->op->name_key == OPN_FLOAT &&
      type_is(ir_node_input(n, 0)->type, TYPE_INT))
    return OPC_INT_TO_FLOAT; /* whose first overload takes any number */
  switch (n->op->key) {
#define TYPED2(sym, key, ...) case OPK_##key: return with_itself(n, OPC_##sym);
#define TYPED1(sym, key, ...) case OPK_##key: return with_itself(n, OPC_##sym);
#define COMPARE(sym, key, ...) case OPK_##key: return with_itself(n, OPC_##sym);
#include "run/opcodes.def"
  }
  return N_OPCODES;
}

const char *opcode_name(opcode o)
{
  switch (o) {
#define TYPED2(sym, ...) case OPC_##sym: return #sym;
#define TYPED1(sym, ...) case OPC_##sym: return #sym;
#define COMPARE(sym, ...)                   \
  case OPC_##sym: return #sym;              \
  case OPC_JT_##sym: return "JT_" #sym;     \
  case OPC_JF_##sym: return "JF_" #sym;
#define PLAIN(sym) case OPC_##sym: return #sym;
#include "run/opcodes.def"
  case N_OPCODES: break;
  }
  return "?";
}

/* -- Checks of what comes from the heap or from outside ---------------------------------------- */

uint8_t want_of(const type *t)
{
  static const uint8_t tags[] = {
    [TYPE_NONE] = RUSH_TAG_NONE,           [TYPE_TENSOR] = RUSH_TAG_TENSOR,
    [TYPE_BOOL] = RUSH_TAG_BOOL,           [TYPE_INT] = RUSH_TAG_INT,
    [TYPE_FLOAT] = RUSH_TAG_FLOAT,         [TYPE_COMPLEX] = RUSH_TAG_COMPLEX,
    [TYPE_STRING] = RUSH_TAG_STRING,       [TYPE_DEVICE] = RUSH_TAG_DEVICE,
    [TYPE_GENERATOR] = RUSH_TAG_GENERATOR, [TYPE_STORAGE] = RUSH_TAG_STORAGE,
    [TYPE_ANY_LIST] = RUSH_TAG_LIST,       [TYPE_ANY_TUPLE] = RUSH_TAG_TUPLE,
    [TYPE_ANY_ENUM] = RUSH_TAG_ENUM,       [TYPE_LIST] = RUSH_TAG_LIST,
    [TYPE_DICT] = RUSH_TAG_DICT,           [TYPE_TUPLE] = RUSH_TAG_TUPLE,
    [TYPE_FUTURE] = RUSH_TAG_FUTURE,       [TYPE_AWAIT] = RUSH_TAG_FUTURE,
    [TYPE_INTERFACE] = RUSH_TAG_OBJECT,    [TYPE_ENUM] = RUSH_TAG_ENUM,
    [TYPE_FUNCTION] = RUSH_TAG_FUNCTION};

  t = type_runtime(t);
  if (t->kind == TYPE_ANY)
    return WANT_ANY;
  if (t->kind == TYPE_OPTIONAL) {
    const uint8_t inner = want_of(type_elem(t));
    return inner < WANT_OR_NONE ? (uint8_t)(inner | WANT_OR_NONE) : inner;
  }
  if (t->kind == TYPE_CLASS) /* one without attributes of ours is a custom class, or none at all */
    return t->cls ? RUSH_TAG_OBJECT : RUSH_TAG_CUSTOM;
  return t->kind == TYPE_NONE || (t->kind < COUNT_OF(tags) && tags[t->kind]) ? tags[t->kind]
                                                                             : WANT_REST;
}

bool want_takes_slow(uint8_t want, uint32_t tag)
{
  if (want >= WANT_REST)
    return tag != RUSH_TAG_UNSET;
  return want & WANT_OR_NONE && tag == RUSH_TAG_NONE;
}

/* Emit a CHECK of v's register if a tag does not show its type; always in debug builds. */
static void put_check(coder *e, const ir_value *v, bool from_outside)
{
  const vinfo *d = info(e, v);
  bool wanted = from_outside && want_of(v->type) == WANT_REST;

#ifndef NDEBUG
  wanted = true;
#endif
  if (!wanted || d->is_const || d->reg == NO_REG || !v->uses)
    return;
  put_site(e, OPC_CHECK, 0);
  site *st = &e->sites[e->n_sites - 1];
  add_operand(e, st, d->reg);
  st->n_args = 1;
  st->type = v->type;
}

static void put_checks(coder *e, ir_value *const *values, uint32_t n, bool from_outside)
{
  for (uint32_t i = 0; i < n; i++)
    put_check(e, values[i], from_outside);
}

/* Compare the newest site's results with their types. */
static void check_results(coder *e, const ir_node *n)
{
  site *st = &e->sites[e->n_sites - 1];

  st->checks = true;
  for (uint32_t i = 0; i < st->n_results; i++)
    add_operand(e, st, want_of(n->outputs[i]->type));
}

/* True if a result may be an item of a container, or was made outside. */
static bool returns_items(const op *o)
{
  if (o->outside)
    return true;
  for (uint32_t i = 0; i < o->schema->n_returns; i++)
    if (o->schema->returns[i].type->kind == TYPE_ANY || type_has_vars(o->schema->returns[i].type))
      return true;
  return false;
}

/* True if n's outputs get values that were in no typed register before. */
static bool is_source(const ir_node *n)
{
  switch ((int)n->kind) {
  case IR_OP: return op_waits(n->op) || returns_items(n->op);
  case IR_LIST_UNPACK:
  case IR_TUPLE_UNPACK:
  case IR_TUPLE_INDEX:
  case IR_GET_ATTR:
  case IR_INTERFACE_CALL:
  case IR_MODULE_CONTAINER_INDEX: return true;
  case IR_CALL_METHOD: return type_is(ir_node_input(n, 0)->type, TYPE_INTERFACE);
  default: return false;
  }
}

/* -- Nodes with a site ------------------------------------------------------------------------- */

/* True if input i is the last position where n reads the value. */
static bool is_final(const ir_node *n, uint32_t i)
{
  for (uint32_t j = i + 1; j < n->n_inputs; j++)
    if (ir_node_input(n, j) == ir_node_input(n, i))
      return false;
  return true;
}

static uint32_t operand_of(coder *e, const ir_node *n, uint32_t i, site *st)
{
  const ir_value *v = ir_node_input(n, i);
  const vinfo *d = info(e, v);

  if (d->is_const)
    return d->constant < e->n_kregs ? d->constant : d->constant | OPERAND_CONST;
  if (d->plain || d->last != n || !is_final(n, i)) /* a plain one may be a loop's count */
    return d->reg;
  if (st->n_args < 64)
    st->last_use |= UINT64_C(1) << st->n_args;
  return d->reg | OPERAND_LAST;
}

/* Emit a node: inputs from `first` on, then the outputs' registers. */
static site *put_node(coder *e, const ir_node *n, opcode op, uint32_t first)
{
  put_site(e, op, 0);
  site *st = &e->sites[e->n_sites - 1];

  for (uint32_t i = first; i < n->n_inputs; i++) {
    add_operand(e, st, operand_of(e, n, i, st));
    st->n_args++;
  }
  /* The row holds the arguments, so a result may use the register of one that dies. */
  for (uint32_t i = 0; i < first; i++)
    if (info(e, ir_node_input(n, i))->last == n && !info(e, ir_node_input(n, i))->plain)
      ASSERT(false, "an input that is left out dies here");
  free_deaths(e, n, false, false);
  for (uint32_t i = 0; i < n->n_outputs; i++)
    add_operand(e, st, define_value(e, n->outputs[i]));
  st->n_results = st->n_made = n->n_outputs;
  if (st->n_args + st->n_results + 4 > e->n_row)
    e->n_row = st->n_args + st->n_results + 4;
  return st;
}

static void put_unsupported(coder *e, const ir_node *n, const char *what)
{
  char *text = session_strdup(e->s, what);

  put_node(e, n, OPC_UNSUPPORTED, 0)->name = text;
}

static void put_typed(coder *e, const ir_node *n, opcode op)
{
  uint32_t x = typed_reg(e, ir_node_input(n, 0));
  uint32_t y = n->n_inputs > 1 ? typed_reg(e, ir_node_input(n, 1)) : 0;

  free_deaths(e, n, true, true); /* numbers are read before the result is written */
  uint32_t r = define_value(e, n->outputs[0]);

  if (r != NO_REG)
    put_ins(e, op, r, x, y);
  free_deaths(e, n, true, false);
}

/* Give the last site, the node's, a state. */
static void put_state(coder *e, const ir_node *n)
{
  group_site *g = session_new(e->s, group_site);

  *g = (group_site){e->n_sites - 1, n, e->group_sites};
  e->group_sites = g;
}

/* Emit a graph that may be recorded as a whole, as a call of the operator that does it. */
static void put_differentiable(coder *e, const ir_node *n)
{
  put_node(e, n, OPC_OPERATOR, 0)->op = diff_node_op(e->s);
  put_state(e, n);
}

static void put_operator(coder *e, const ir_node *n)
{
  const uint32_t leaf = e->leaves[n->scratch];
  site *st = put_node(e, n, leaf ? OPC_OPERATOR_OUT : OPC_OPERATOR, 0);

  st->leaf = leaf ? leaf - 1 : 0;
  st->op = n->op;
  if (!n->op->schema->is_varret)
    st->n_made = n->op->schema->n_returns;
  if (st->n_args + st->n_made + 4 > e->n_row)
    e->n_row = st->n_args + st->n_made + 4;
  if (needs_state(n))
    put_state(e, n);
}

static bool is_none_constant(const ir_value *v)
{
  rush_value c;

  return type_is(v->type, TYPE_NONE) || (ir_value_as_constant(v, &c) && value_is_none(c));
}

/* For `x is None`, return the operand that is not None, or NULL. */
static const ir_value *compared_with_none(const ir_node *n)
{
  bool is = n->op->key == OPK___IS__;

  if (!is && n->op->key != OPK___ISNOT__)
    return NULL;
  return is_none_constant(ir_node_input(n, 1)) ? ir_node_input(n, 0) : NULL;
}

static bool put_list_op(coder *e, const ir_node *n)
{
  bool len = n->op->key == OPK_LEN_T;

  if (!len && n->op->key != OPK___GETITEM___T)
    return false;
  if (info(e, ir_node_input(n, 0))->is_const || !n->outputs[0]->uses)
    return false;
  uint32_t list = info(e, ir_node_input(n, 0))->reg;
  uint32_t index = len ? 0 : typed_reg(e, ir_node_input(n, 1));
  uint32_t r = define_value(e, n->outputs[0]);

  put_ins(e, len ? OPC_LIST_LEN : OPC_LIST_GET, r, list, index);
  e->code[e->n_ins - 1].want = want_of(n->outputs[0]->type);
  free_deaths(e, n, true, false);
  return true;
}

/* Emit l.append(x) and l[i] = x for numbers. */
static bool put_list_write(coder *e, const ir_node *n)
{
  bool append = n->op->key == OPK_APPEND_T;

  if ((!append && n->op->key != OPK__SET_ITEM_T) || n->outputs[0]->uses)
    return false;
  if (info(e, ir_node_input(n, 0))->is_const || !info(e, ir_node_input(n, n->n_inputs - 1))->plain)
    return false;
  uint32_t list = info(e, ir_node_input(n, 0))->reg;
  uint32_t x = typed_reg(e, ir_node_input(n, 1));

  if (append)
    put_ins(e, OPC_LIST_APPEND, list, x, 0);
  else
    put_ins(e, OPC_LIST_SET, list, x, typed_reg(e, ir_node_input(n, 2)));
  free_deaths(e, n, true, false);
  return true;
}

bool is_list_op(const ir_node *n)
{
  return n->kind == IR_OP &&
         (n->op->key == OPK___GETITEM___T || n->op->key == OPK_APPEND_T ||
          n->op->key == OPK__SET_ITEM_T);
}

static bool is_nowait(const op *o)
{
  return o->name_key == OPN_PRIM__AWAITABLE_NOWAIT;
}

bool code_runs_op(const op *o) { return op_is_runnable(o) || op_waits(o) || is_nowait(o); }

/* Emit a future; without a function the argument is the result. */
static void put_future(coder *e, const ir_node *n, function *fn)
{
  site *st = put_node(e, n, OPC_FORK, 0);
  st->function = fn;
  st->type = n->outputs[0]->type;
}

static void put_op(coder *e, const ir_node *n)
{
  if (left_to_jump(e, n)) {
    e->compare = n;
    for (uint32_t i = 0; i < 2; i++) /* now: the register of an operand that dies is still taken */
      e->compared[i] = typed_reg(e, ir_node_input(n, i));
    if (n->outputs[0]->uses->user->kind == IR_IF)
      free_deaths(e, n, false, false);
    return;
  }
  if (e->typed[n->scratch] != N_OPCODES) {
    put_typed(e, n, e->typed[n->scratch]);
    return;
  }
  const ir_value *v = compared_with_none(n);

  if (v && !info(e, v)->is_const && n->outputs[0]->uses) {
    uint32_t r = define_value(e, n->outputs[0]);
    put_ins(e, n->op->key == OPK___IS__ ? OPC_IS_NONE : OPC_IS_SOME, r, info(e, v)->reg, 0);
    free_deaths(e, n, true, false);
  } else if (put_list_op(e, n) || put_list_write(e, n)) {
    return;
  } else if (n->op->key == OPK_FLOORDIV_INT && n->outputs[0]->uses) {
    put_typed(e, n, OPC_DIV_FLOOR); /* without uses it is not emitted, and would not fail */
  } else if (n->op->key == OPK_REMAINDER_INT && n->outputs[0]->uses) {
    put_typed(e, n, OPC_REMAINDER);
  } else if (op_waits(n->op)) {
    put_node(e, n, OPC_WAIT, 0);
  } else if (is_nowait(n->op)) {
    put_future(e, n, NULL);
  } else if (n->op->name_key == OPN_WARN) {
    put_node(e, n, OPC_WARN, 0);
  } else {
    put_operator(e, n);
  }
}

/* -- Attributes and calls ---------------------------------------------------------------------- */

static void load_constant(coder *e, const ir_node *n, rush_value v)
{
  uint32_t r = define_value(e, n->outputs[0]);

  if (r != NO_REG)
    put_imm(e, OPC_LOADK, r, (int32_t)constant_index(e, v));
  free_deaths(e, n, true, false);
}

/* Check that the attribute's number fits into the 16 bits of an instruction. */
static void check_slot(coder *e, const type *t, int slot)
{
  if (slot > UINT16_MAX)
    session_fail_status(e->s, RUSH_EUNSUPPORTED, NULL, NULL,
                        "class '%s' has %u attributes: programs can use the first %d", t->name,
                        t->cls->n_attrs, UINT16_MAX + 1);
}

static void put_get_attr(coder *e, const ir_node *n)
{
  const type *t = ir_node_input(n, 0)->type;
  const char *name = ir_attr_string(n, "name");
  int slot = t->cls ? class_attr_index(t, str_of(name)) : -1;
  const class_attr *c = t->cls && slot < 0 ? class_constant(t, str_of(name)) : NULL;

  if (c) {
    load_constant(e, n, c->constant);
    return;
  }
  if (slot < 0 || info(e, ir_node_input(n, 0))->is_const) {
    put_unsupported(e, n, session_printf(e->s, "attribute '%s'", name ? name : "?"));
    return;
  }
  uint32_t r = define_value(e, n->outputs[0]);

  check_slot(e, t, slot);
  if (r != NO_REG) {
    put_ins(e, OPC_GET_ATTR, r, info(e, ir_node_input(n, 0))->reg, (uint32_t)slot);
    e->code[e->n_ins - 1].want = want_of(n->outputs[0]->type);
  }
  free_deaths(e, n, true, false);
}

static void put_set_attr(coder *e, const ir_node *n)
{
  const type *t = ir_node_input(n, 0)->type;
  const char *name = ir_attr_string(n, "name");
  int slot = t->cls ? class_attr_index(t, str_of(name)) : -1;

  /* A constant is None, of an argument that was inlined: the branch is never taken. */
  if (slot < 0 || info(e, ir_node_input(n, 0))->is_const) {
    put_unsupported(e, n, session_printf(e->s, "attribute '%s'", name ? name : "?"));
    return;
  }
  check_slot(e, t, slot);
  const ir_value *v = ir_node_input(n, 1);
  uint32_t tmp = NO_REG, src = info(e, v)->reg;

  if (info(e, v)->is_const)
    put_imm(e, OPC_LOADK, src = tmp = reg_alloc(e), (int32_t)info(e, v)->constant);
  put_ins(e, OPC_SET_ATTR, info(e, ir_node_input(n, 0))->reg, src, (uint32_t)slot);
  if (tmp != NO_REG) {
    put_ins(e, OPC_DROP, tmp, 0, 0);
    reg_free(e, tmp);
  }
  free_deaths(e, n, true, false);
}

static void put_call(coder *e, const ir_node *n, function *f)
{
  const uint32_t leaf = e->leaves[n->scratch];
  site *st = put_node(e, n, leaf ? OPC_CALL_OUT : OPC_CALL, 0);

  st->function = f;
  st->leaf = leaf ? leaf - 1 : 0;
}

static void put_call_method(coder *e, const ir_node *n)
{
  const type *t = ir_node_input(n, 0)->type;
  const char *name = ir_attr_string(n, "name");
  function *f = type_is(t, TYPE_CLASS) ? class_find_method(t, name) : NULL;

  if (f)
    put_call(e, n, f);
  else if (type_is(t, TYPE_INTERFACE))
    put_node(e, n, OPC_CALL_INTERFACE, 0)->name = name;
  else
    put_unsupported(e, n, session_printf(e->s, "method '%s'", name ? name : "?"));
}

static void put_context(coder *e, const ir_node *n)
{
  bool enter = n->kind == IR_ENTER;
  const type *t = ir_node_input(n, 0)->type;
  function *f = t->cls ? class_find_method(t, enter ? "__enter__" : "__exit__") : NULL;

  if (!f)
    put_unsupported(e, n, enter ? "__enter__" : "__exit__");
  else
    put_node(e, n, enter ? OPC_ENTER : OPC_EXIT, 0)->function = f;
}

void put_alias(coder *e, const ir_node *n)
{
  vinfo *from = info(e, ir_node_input(n, 0)), *to = info(e, n->outputs[0]);

  if (from->is_const) {
    to->is_const = true;
    to->constant = from->constant;
    return;
  }
  if (!n->outputs[0]->uses) {
    free_deaths(e, n, true, false);
    return;
  }
  if (from->last == n && !e->reserved[from->reg]) {
    to->reg = from->reg;
    to->plain = to->plain && from->plain;
    e->deaths[n->scratch] = NULL;
    return;
  }
  uint32_t r = define_value(e, n->outputs[0]);

  put_ins(e, from->plain ? OPC_PLAIN : from->last == n ? OPC_MOVE : OPC_COPY, r, from->reg, 0);
  to->plain = to->plain && from->plain;
  free_deaths(e, n, false, false);
}

static void set_constant(coder *e, const ir_value *v, rush_value to)
{
  info(e, v)->is_const = true;
  info(e, v)->constant = constant_index(e, to);
}

static void put_isinstance(coder *e, const ir_node *n)
{
  const ir_attr *a = ir_attr_find(n, "types");
  site *st = put_node(e, n, OPC_ISINSTANCE, 0);

  if (a && a->kind == ATTR_TYPES) {
    st->types = a->as.t.types;
    st->n_types = a->as.t.n_types;
  }
}

static int64_t int_attr(const ir_node *n, const char *name, int64_t otherwise)
{
  const ir_attr *a = ir_attr_find(n, name);
  return a ? a->as.i : otherwise;
}

static void put_container(coder *e, const ir_node *n, opcode op)
{
  site *st = put_node(e, n, op, 0);

  if (op == OPC_TUPLE_SLICE) {
    st->begin = int_attr(n, "beg", 0);
    st->end = int_attr(n, "end", INT64_MAX);
  } else if (n->n_outputs) {
    st->type = n->outputs[0]->type;
  }
}

/* -- The walk ---------------------------------------------------------------------------------- */

static void put_fork(coder *e, const ir_node *n)
{
  if (n->function)
    put_future(e, n, n->function);
  else
    put_unsupported(e, n, ir_node_kind_name(n));
}

/* long: a switch over the kinds. */
static void emit_by_kind(coder *e, const ir_node *n)
{
  switch (n->kind) {
  case IR_OP: put_op(e, n); break;
  case IR_IF: emit_if(e, n); break;
  case IR_LOOP: emit_loop(e, n); break;
  case IR_LIST_CONSTRUCT: put_container(e, n, OPC_LIST); break;
  case IR_LIST_UNPACK: put_container(e, n, OPC_LIST_UNPACK); break;
  case IR_TUPLE_CONSTRUCT: put_container(e, n, OPC_TUPLE); break;
  case IR_TUPLE_UNPACK: put_container(e, n, OPC_TUPLE_UNPACK); break;
  case IR_TUPLE_INDEX: put_container(e, n, OPC_TUPLE_INDEX); break;
  case IR_TUPLE_SLICE: put_container(e, n, OPC_TUPLE_SLICE); break;
  case IR_DICT_CONSTRUCT: put_container(e, n, OPC_DICT); break;
  case IR_CREATE_OBJECT: put_container(e, n, OPC_NEW_OBJECT); break;
  case IR_GET_ATTR: put_get_attr(e, n); break;
  case IR_SET_ATTR: put_set_attr(e, n); break;
  case IR_CALL_METHOD:
  case IR_INTERFACE_CALL: put_call_method(e, n); break;
  case IR_CALL_FUNCTION: put_call(e, n, n->function); break;
  case IR_MODULE_CONTAINER_INDEX: put_container(e, n, OPC_MODULE_INDEX); break;
  case IR_RAISE: put_node(e, n, OPC_RAISE, 0); break;
  case IR_PRINT: put_node(e, n, OPC_PRINT, 0); break;
  case IR_UNCHECKED_CAST:
    if (ir_attr_find(n, "_checked"))
      put_container(e, n, OPC_CAST);
    else
      put_alias(e, n);
    break;
  case IR_PROFILE: case IR_PROFILE_IVALUE: put_profile(e, n); break;
  case IR_GUARD: case IR_BAILOUT: put_guard(e, n); break;
  case IR_BAILOUT_TEMPLATE: set_constant(e, n->outputs[0], value_none()); break;
  case IR_TYPE_CHECK: case IR_REQUIRES_GRAD_CHECK: put_type_check(e, n); break;
  case IR_GRAD_OF: emit_grad_of(e, n); break;
  case IR_ISINSTANCE: put_isinstance(e, n); break;
  case IR_ENTER:
  case IR_EXIT: put_context(e, n); break;
  case IR_FORK:
  case IR_AWAITABLE: put_fork(e, n); break;
  case IR_UNINITIALIZED:
    if (!is_constant_node(n))
      put_container(e, n, OPC_NEW_OBJECT);
    break;
  case IR_CONSTANT: break;
  case IR_DIFFERENTIABLE_GRAPH: case IR_FALLBACK_GRAPH: case IR_GROUP:
    if (n->n_blocks == 1 && n->kind == IR_DIFFERENTIABLE_GRAPH && diff_node_op(e->s))
      put_differentiable(e, n);
    else if (n->n_blocks == 1)
      emit_subgraph(e, n);
    else
      put_unsupported(e, n, "a node without its graph");
    break;
  case IR_UNKNOWN_OP:
    put_unsupported(e, n,
                    session_printf(e->s,
                                   "%s is an unknown operator, which a plug-in can register: it",
                                   ir_node_kind_name(n)));
    break;
  case IR_PARAM:
  case IR_RETURN:
  case IR_WITH:
  case IR_CLOSURE:
  case IR_LOAD:
  case IR_STORE:
  case IR_BREAK_STMT:
  case IR_CONTINUE_STMT:
  case IR_RETURN_STMT:
  case IR_HIGHER_ORDER:
  case N_IR_KINDS: put_unsupported(e, n, ir_node_kind_name(n)); break;
  }
}

static void emit_node(coder *e, const ir_node *n)
{
  const uint32_t n_sites = e->n_sites;

  put_marks(e, n->inlined);
  set_place(e, n);
  emit_by_kind(e, n);
  if ((n->n_blocks == 0 || (n->kind == IR_OP && n->op->outside)) && e->n_sites > n_sites &&
      is_source(n))
    check_results(e, n);
  put_checks(e, n->outputs, n->n_outputs, is_source(n));
}

void emit_block(coder *e, const ir_block *b, const uint32_t *dying, uint32_t n_dying)
{
  const ir_inlined *open = e->open;

  session_enter(e->s);
  plan_block(e, b, dying, n_dying);
  for (uint32_t i = 0; i < n_dying; i++) { /* outer values that this branch does not use */
    vinfo *d = &e->vals[dying[i]];

    if (d->last || d->reg == NO_REG || d->is_const)
      continue;
    if (!d->plain)
      put_ins(e, OPC_DROP, d->reg, 0, 0);
    reg_free(e, d->reg);
  }
  for (uint32_t i = 0; i < b->param->n_outputs; i++) {
    vinfo *d = info(e, b->param->outputs[i]);

    if (d->last || d->reg == NO_REG)
      continue;
    if (!d->plain)
      put_ins(e, OPC_DROP, d->reg, 0, 0);
    reg_free(e, d->reg);
  }
  put_checks(e, b->param->outputs, b->param->n_outputs, false);
  for (const ir_node *n = ir_block_first(b); n != b->ret; n = n->next)
    emit_node(e, n);
  put_marks(e, open);
  session_leave(e->s);
}

/* -- The finished code ------------------------------------------------------------------------- */

static void *take_part(char **p, const void *from, size_t n_bytes)
{
  void *to = *p;

  if (n_bytes)
    memcpy(to, from, n_bytes);
  *p += (n_bytes + 15) & ~(size_t)15;
  return to;
}

static size_t padded(size_t n) { return (n + 15) & ~(size_t)15; }

/* Return the bytes of names in session memory, which must live as long as the code. */
static size_t names_bytes(const coder *e)
{
  size_t n = 0;

  for (uint32_t i = 0; i < e->n_sites; i++)
    n += e->sites[i].name ? strlen(e->sites[i].name) + 1 : 0;
  return n;
}

static const uint8_t *arg_wants(coder *e, const ir_block *b)
{
  uint8_t *wants = session_array(e->s, uint8_t, ir_block_n_inputs(b) + 1);

  for (uint32_t i = 0; i < ir_block_n_inputs(b); i++)
    wants[i] = want_of(ir_block_input(b, i)->type);
  return wants;
}

/* True if the site calls an operator whose decisions can be kept for later calls. */
static bool has_cache(const coder *e, const site *st)
{
  return st->op && !context_get_options(e->s->cx->ctx)->no_passes &&
         op_has_instances(st->op);
}

static uint32_t count_caches(const coder *e)
{
  uint32_t n = 0;

  for (uint32_t i = 0; i < e->n_sites; i++)
    n += has_cache(e, &e->sites[i]);
  return n;
}

/* Give the sites their caches, which follow each other. */
static void set_caches(const coder *e, code *c, op_cache *next)
{
  c->caches = next;
  for (uint32_t i = 0; i < c->n_sites; i++) {
    site *st = &c->sites[i];
    if (!has_cache(e, st))
      continue;
    *next = (op_cache){.constants = 0};
    for (uint32_t k = 0; k < st->n_args && k < 64; k++) {
      const uint32_t o = c->operands[st->first + k];
      if (o & OPERAND_CONST || (o & OPERAND_INDEX) < c->n_kregs)
        next->constants |= UINT64_C(1) << k;
    }
    st->cache = next++;
    c->n_caches++;
  }
}

static code *finish(coder *e, const ir_block *b, const char *name)
{
  size_t n_bytes = padded(sizeof(code)) + padded(e->n_ins * sizeof(ins)) +
                   padded(e->n_ins * sizeof(uint32_t)) + padded(e->n_places * sizeof(code_place)) +
                   padded(e->n_sites * sizeof(site)) + padded(e->n_operands * sizeof(uint32_t)) +
                   padded(e->n_constants * sizeof(rush_value)) + names_bytes(e) +
                   padded(ir_block_n_inputs(b)) + padded(strlen(name) + 1);
  const uint8_t *wants = arg_wants(e, b);
  const size_t caches_bytes = padded(count_caches(e) * sizeof(op_cache));
  context *ctx = e->s->cx->ctx;
  n_bytes += caches_bytes;
  char *p = mem_alloc(ctx, n_bytes);

  if (!p)
    session_check(e->s, call_nomem(e->s->cx));
  code proto = {.ctx = ctx, .function = e->f, .is_builtin = e->f && e->f->is_builtin,
                .is_eager = e->f && e->f->is_eager,
                .n_ins = e->n_ins, .n_sites = e->n_sites, .n_operands = e->n_operands,
                .n_constants = e->n_constants, .n_places = e->n_places,
                .n_args = ir_block_n_inputs(b), .n_kregs = e->n_kregs, .n_regs = e->n_regs,
                .n_row = e->n_row, .n_frame = e->n_regs + e->n_row, .n_points = e->n_points,
                .n_bytes = n_bytes};
  code *c = take_part(&p, &proto, sizeof proto);

  c->code = take_part(&p, e->code, e->n_ins * sizeof(ins));
  c->place_of = take_part(&p, e->place_of, e->n_ins * sizeof(uint32_t));
  c->places = take_part(&p, e->places, e->n_places * sizeof(code_place));
  c->sites = take_part(&p, e->sites, e->n_sites * sizeof(site));
  c->operands = take_part(&p, e->operands, e->n_operands * sizeof(uint32_t));
  c->constants = take_part(&p, e->constants, e->n_constants * sizeof(rush_value));
  c->arg_wants = take_part(&p, wants, ir_block_n_inputs(b));
  set_caches(e, c, (op_cache *)(void *)p);
  p += caches_bytes;
  c->name = take_part(&p, name, strlen(name) + 1);
  for (uint32_t i = 0; i < c->n_sites; i++)
    if (c->sites[i].name) {
      size_t len = strlen(c->sites[i].name) + 1;
      c->sites[i].name = memcpy(p, c->sites[i].name, len);
      p += len;
    }
  for (uint32_t i = 0; i < c->n_constants; i++)
    value_retain(c->constants[i]);
  for (uint32_t i = 0; i < c->n_places; i++)
    c->has_inlined |= c->places[i].inlined != NULL;
  for (uint32_t i = 0; i < c->n_sites; i++)
    c->may_start_recording |= c->sites[i].op && (c->sites[i].op->name_key == OPN_REQUIRES_GRAD_ ||
                                                 c->sites[i].op->name_key == OPN_SET_GRAD_ENABLED);
  return c;
}

void code_free(code *c)
{
  if (!c)
    return;
  code_free(atomic_load_explicit(&c->marked, memory_order_acquire));
  executors_free(atomic_load_explicit(&c->executors, memory_order_acquire)); /* plans, first */
  code_free(atomic_load_explicit(&c->profiled, memory_order_acquire));
  points_free(c->ctx, c->points);
  code_free(atomic_load_explicit(&c->recorded, memory_order_acquire));
  groups_free(c);
  for (uint32_t i = 0; i < c->n_caches; i++)
    op_cache_free(c->ctx, &c->caches[i]);
  for (uint32_t i = 0; i < c->n_constants; i++)
    value_release(c->constants[i]);
  ir_graph_free(c->graph);
  mem_free(c->ctx, c, c->n_bytes);
}

/* True if put_op leaves the node to put_operator in every position. */
static bool is_called(const ir_node *n)
{
  return n->kind == IR_OP && opcode_of(n) == N_OPCODES && !is_list_op(n) &&
         n->op->key != OPK___IS__ && n->op->key != OPK___ISNOT__ &&
         n->op->key != OPK_LEN_T && !op_waits(n->op) && !is_nowait(n->op) &&
         n->op->name_key != OPN_WARN && n->n_inputs <= 64;
}

/* -- Results that a caller's buffer may take --------------------------------------------------- */

static uint32_t count_leaves(const type *t)
{
  uint32_t n = 0;

  if (t->kind != TYPE_TUPLE)
    return 1;
  for (uint32_t i = 0; i < t->n_elems; i++)
    n += count_leaves(t->elems[i]);
  return n;
}

/* True if the node makes one new tensor, neither an argument nor a view of one. */
static bool makes_tensor(const ir_node *n)
{
  return is_called(n) && n->n_outputs == 1 && type_is(n->outputs[0]->type, TYPE_TENSOR) &&
         (n->op->schema->n_returns == 1 || n->op->schema->is_varret) &&
         n->op->family != FAMILY_VIEW &&
         !(n->op->effects & (OP_WRITES | OP_RETURNS_ARG | OP_GEOMETRY));
}

/* Mark what makes v, which is the function's result from leaf `leaf` on and has no other use. Nodes
 * in loops are not marked. */
static void mark_result(coder *e, const ir_value *v, uint32_t leaf)
{
  const ir_node *n = v->node;

  if (!v->uses || v->uses->next)
    return;
  session_enter(e->s);
  if (n->kind == IR_TUPLE_CONSTRUCT) {
    for (uint32_t i = 0; i < n->n_inputs; i++) {
      mark_result(e, ir_node_input(n, i), leaf);
      leaf += count_leaves(ir_node_input(n, i)->type);
    }
  } else if (n->kind == IR_IF) {
    for (uint32_t i = 0; i < n->n_outputs; i++)
      for (uint32_t k = 0; k < n->n_blocks && n->outputs[i] == v; k++)
        mark_result(e, ir_node_input(n->blocks[k]->ret, i), leaf);
  } else if ((n->kind == IR_OP && makes_tensor(n)) || n->kind == IR_CALL_FUNCTION ||
             n->kind == IR_CALL_METHOD) {
    e->leaves[n->scratch] = leaf + 1;
  }
  session_leave(e->s);
}

static void mark_results(coder *e, const ir_block *b)
{
  uint32_t leaf = 0;

  e->leaves = session_array(e->s, uint32_t, e->n_nodes + 1);
  for (uint32_t i = 0; i < b->ret->n_inputs; i++) {
    mark_result(e, ir_node_input(b->ret, i), leaf);
    leaf += count_leaves(ir_node_input(b->ret, i)->type);
  }
}

/* Emit the instructions; called again, without fused jumps, for a function that is too long for
 * them. */
static coder *emit_once(session *s, ir_block *b, function *f, bool marks, bool no_fuse)
{
  coder *e = session_new(s, coder);

  *e = (coder){.s = s, .f = f, .marks = marks, .no_fuse = no_fuse};
  number_graph(e, b);
  mark_results(e, b);
  for (uint32_t i = 0; i < ir_block_n_inputs(b); i++)
    info(e, ir_block_input(b, i))->reg = reg_alloc(e);
  emit_block(e, b, NULL, 0);
  set_place(e, b->ret);
  put_node(e, b->ret, OPC_RETURN, 0);
  return e;
}

static void find_borrowed_args(code *c, const ir_block *b)
{
  for (uint32_t i = 0; i < ir_block_n_inputs(b) && i < 64; i++) {
    const ir_value *v = ir_block_input(b, i);
    bool borrowed = type_is(v->type, TYPE_TENSOR) || !v->uses;

    for (const ir_use *u = v->uses; u && borrowed; u = u->next)
      borrowed = u->user->block == b && is_called(u->user);
    c->borrowed_args |= (uint64_t)borrowed << i;
    c->unused_args |= (uint64_t)!v->uses << i;
  }
}

static void free_deferred(void *c) { code_free(c); }

static code *emit(session *s, ir_block *b, function *f, const char *name, bool marks)
{
  coder *e = emit_once(s, b, f, marks, false);

  if (e->too_long)
    e = emit_once(s, b, f, marks, true);
  code *c = finish(e, b, name);

  session_defer(s, free_deferred, c);
  find_borrowed_args(c, b);
  groups_prepare(s, c, e->group_sites);
  return session_keep(s, c);
}

code *code_emit(session *s, ir_block *b, function *f, const char *name)
{
  return emit(s, b, f, name, false);
}

code *code_emit_marked(session *s, const code *c)
{
  return emit(s, c->graph->block, c->function, c->name, true);
}
