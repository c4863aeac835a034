/* compile/fuse.c -- makes one tape from a group's nodes (fuse.h): reads the subgraph once, then for
 * given kinds of arguments appends each operator's formula, converts operands, and shares registers
 * by last use. Each operator still rounds to its own dtype, so fused results have the bits of the
 * separate operators. The size of a tape is bounded; a group that does not fit is interpreted.
 * Cost: O(instructions * values). */
#include "compile/fuse.h"

#include <stdio.h>
#include <string.h>

#include "ops/call/call.h"
#include "ops/point/point_run.h"
#include "ops/table/table.h"

#define MOST_VALUES 512  /* of a fused tape, before registers are shared */
#define MOST_INSTRS 768
#define NO_VALUE UINT16_MAX

typedef enum source_kind { FROM_INPUT, FROM_CONST, FROM_NODE } source_kind;

typedef struct value_desc { /* a value of the subgraph */
  uint8_t from; /* source_kind */
  bool is_tensor;
  uint16_t index; /* of the input */
  rush_value constant; /* FROM_CONST: a number, bool or None */
} value_desc;

typedef struct node_desc {
  const struct point_row *row;
  const point_arm *arms[2]; /* for float32 and for bool operands; NULL: none */
  uint16_t inputs[POINT_MAX_INPUTS]; /* values, by the row's inputs */
  uint16_t result;
} node_desc;

struct group_desc {
  backend backend;
  size_t n_bytes; /* of all of it */
  uint32_t n_inputs, n_values, n_nodes, n_results;
  value_desc *values;
  node_desc *nodes;
  uint16_t results[GROUP_MAX_RESULTS];
  char name[96];
};

/* -- Facts of a node in the operator table ----------------------------------------------------- */

static const struct point_row *row_of(const backend *k, const rush_node *n)
{
  const op *o = op_find(k->ctx, str_of(k->api->node_kind(n)), str_of(k->api->node_overload(n)));

  return o && o->row && o->row->point >= 0 && o->variant == VARIANT_BASE
           ? &point_rows[o->row->point]
           : NULL;
}

/* Get the number that v is if the program contains it: a constant, or a constant tensor of no
 * dimensions. */
static bool constant_number(const backend *k, const rush_graph_value *v, rush_value *out)
{
  return k->api->value_constant(v, out) && out->tag != RUSH_TAG_TENSOR;
}

static bool has_kind(const backend *k, const rush_graph_value *v, const char *const *kinds,
                     size_t n_kinds)
{
  const rush_type *t = k->api->value_type(v);
  bool found = false;

  for (size_t i = 0; t && i < n_kinds && !found; i++)
    found = strcmp(k->api->type_kind(t), kinds[i]) == 0;
  k->api->type_release(t);
  return found;
}

/* True for a number or bool: an argument of a formula that is not a tensor. */
static bool is_number_input(const backend *k, const rush_graph_value *v)
{
  static const char *const kinds[] = {"IntType", "FloatType", "BoolType", "NumberType"};

  return has_kind(k, v, kinds, COUNT_OF(kinds));
}

static bool may_be_none(const backend *k, const rush_graph_value *v)
{
  static const char *const kinds[] = {"OptionalType"};

  return has_kind(k, v, kinds, COUNT_OF(kinds));
}

typedef enum answer { FALSE_ANSWER, TRUE_ANSWER, UNKNOWN_ANSWER } answer;

static answer number_is(rush_value v, double want)
{
  switch (v.tag) {
  case RUSH_TAG_INT: return (double)v.as.i == want ? TRUE_ANSWER : FALSE_ANSWER;
  case RUSH_TAG_BOOL: return (double)v.as.b == want ? TRUE_ANSWER : FALSE_ANSWER;
  case RUSH_TAG_FLOAT: return v.as.d == want ? TRUE_ANSWER : FALSE_ANSWER;
  default: return FALSE_ANSWER;
  }
}

/* Return whether the condition holds for all calls, for none, or depends on the arguments. */
static answer cond_answer(const backend *k, const rush_node *n, const point_cond *c)
{
  const rush_graph_value *v = k->api->node_input(n, c->arg);
  bool is_tensor = k->api->value_is_tensor(v);
  rush_value x;

  if (!k->api->value_constant(v, &x)) {
    if (c->kind == COND_NONE || c->kind == COND_GIVEN)
      return may_be_none(k, v)       ? UNKNOWN_ANSWER
             : c->kind == COND_GIVEN ? TRUE_ANSWER
                                     : FALSE_ANSWER;
    return is_tensor ? FALSE_ANSWER : UNKNOWN_ANSWER;
  }
  switch ((point_cond_kind)c->kind) {
  case COND_NONE: return x.tag == RUSH_TAG_NONE ? TRUE_ANSWER : FALSE_ANSWER;
  case COND_GIVEN: return x.tag != RUSH_TAG_NONE ? TRUE_ANSWER : FALSE_ANSWER;
  case COND_NUMBER: return number_is(x, c->value);
  case COND_HALVES: return x.tag == RUSH_TAG_BOOL ? FALSE_ANSWER : number_is(x, c->value / 2.0);
  case COND_TEXT:
    return x.tag == RUSH_TAG_STRING && str_is(value_str(x), op_pool + c->value) ? TRUE_ANSWER
                                                                                : FALSE_ANSWER;
  }
  return UNKNOWN_ANSWER;
}

/* Return the tape for operands of a class; NULL: there is none, or it depends on the call. */
static const point_arm *arm_of(const backend *k, const rush_node *n, const struct point_row *row,
                               dtype_class cls)
{
  const point_arm *a = &point_arms[row->first_arm];

  for (const point_arm *end = a + row->n_arms; a < end; a++) {
    answer fits = TRUE_ANSWER;

    if (!(a->classes >> cls & 1))
      continue;
    for (int i = 0; i < a->n_conds && fits == TRUE_ANSWER; i++)
      fits = cond_answer(k, n, &a->conds[i]);
    if (fits == TRUE_ANSWER)
      return a;
    if (fits == UNKNOWN_ANSWER)
      return NULL;
  }
  return NULL;
}

/* Return a symbolic type when an operator computes in k; N_TAPE_TYPES: it cannot be fused. */
static tape_type resolve(uint8_t sym, tape_type k)
{
  switch ((tape_sym)sym) {
  case SYM_B: return TY_BOOL;
  case SYM_K:
  case SYM_R: return k;
  default: return N_TAPE_TYPES;
  }
}

static bool emits(const point_arm *a, tape_type k, cpu_level level)
{
  for (int i = 0; i < a->n_instrs; i++) {
    const tape_instr *t = &point_instrs[a->first_instr + i];
    tape_type type = resolve(t->type, k);

    if (type == N_TAPE_TYPES || (t->op == TAPE_CVT && resolve(t->b, k) == N_TAPE_TYPES))
      return false;
    if (t->op != TAPE_RND && !loop_can_emit((tape_op)t->op, type, level))
      return false;
  }
  return true;
}

static const char *refuse_inputs(const backend *k, const rush_node *n, const struct point_row *row)
{
  int tensors = 0;

  for (int i = 0; i < row->n_inputs; i++) {
    const rush_graph_value *v = k->api->node_input(n, row->inputs[i].arg);
    rush_value c;

    if (k->api->value_constant(v, &c)) {
      if (c.tag == RUSH_TAG_TENSOR && (!c.as.tensor || k->api->tensor_n_dims(c.as.tensor) == 0))
        return "an operand is a constant tensor of no dimensions";
      tensors += c.tag == RUSH_TAG_TENSOR;
      if (c.tag == RUSH_TAG_COMPLEX)
        return "an operand is complex";
      continue;
    }
    if (k->api->value_is_tensor(v))
      tensors++;
    else if (!is_number_input(k, v))
      return "an operand may be None";
  }
  return tensors ? NULL : "no operand is a tensor";
}

static bool alpha_is_plain(const backend *k, const rush_node *n, const struct point_row *row)
{
  for (int i = 0; i < row->n_inputs; i++) {
    rush_value c;

    if ((row->inputs[i].flags & (INPUT_SCALAR | INPUT_PROMOTES)) == INPUT_SCALAR &&
        (!constant_number(k, k->api->node_input(n, row->inputs[i].arg), &c) ||
         c.tag == RUSH_TAG_BOOL))
      return false;
  }
  return true;
}

const char *group_refuse(const backend *k, const rush_node *n, cpu_level level)
{
  const struct point_row *row = row_of(k, n);

  if (!row)
    return "no pointwise formula of the table";
  if (row->n_results != 1 || k->api->node_n_outputs(n) != 1)
    return "more than one result";
  if (row->outs[0] != OUT_COMMON && row->outs[0] != OUT_SAME && row->outs[0] != OUT_REAL &&
      row->outs[0] != OUT_DTYPE + RUSH_BOOL)
    return "the result's dtype is not that of the operands";
  if (row->promote == PROMOTE_FLOAT_FIRST_ARM && !arm_of(k, n, row, DTYPE_FLOAT))
    return "the formula depends on an argument that is not constant";
  const char *why = refuse_inputs(k, n, row);

  if (why)
    return why;
  if (!alpha_is_plain(k, n, row))
    return "a factor is not a constant number";
  const point_arm *arm = arm_of(k, n, row, DTYPE_FLOAT);

  if (!arm)
    return "no formula for float32 that holds for all calls";
  return emits(arm, TY_F32, level) ? NULL : "a primitive of its formula has no machine code";
}

/* -- Reading a group --------------------------------------------------------------------------- */

/* Add a value; ids: those of the values so far. */
static void add_value(group_desc *g, uint32_t *ids, const rush_graph_value *v, source_kind from,
                      uint32_t index)
{
  const rush_backend_api *api = g->backend.api;
  value_desc *d = &g->values[g->n_values];

  ASSERT(index <= UINT16_MAX && g->n_values < UINT16_MAX, "a number that has no room");
  ids[g->n_values++] = api->value_id(v);
  *d = (value_desc){
    .from = (uint8_t)from, .is_tensor = api->value_is_tensor(v), .index = (uint16_t)index};
  if (from == FROM_CONST) /* the graph's; a number, so nothing to retain */
    (void)!api->value_constant(v, &d->constant);
}

static uint16_t index_of(const group_desc *g, const uint32_t *ids, const rush_graph_value *v)
{
  const uint32_t id = g->backend.api->value_id(v);
  uint32_t i = 0;

  while (i < g->n_values && ids[i] != id)
    i++;
  ASSERT(i < g->n_values, "values are defined before their uses");
  return (uint16_t)i;
}

static void read_node(group_desc *g, uint32_t *ids, const group_parts *p, const rush_node *n)
{
  const backend *k = &g->backend;
  node_desc *d = &g->nodes[g->n_nodes];

  d->row = row_of(k, n);
  ASSERT(d->row, "a group has operators with formulas only");
  d->arms[0] = arm_of(k, n, d->row, DTYPE_FLOAT);
  d->arms[1] = arm_of(k, n, d->row, DTYPE_BOOL);
  for (int i = 0; i < d->row->n_inputs; i++) {
    const rush_graph_value *v = k->api->node_input(n, d->row->inputs[i].arg);
    d->inputs[i] = index_of(g, ids, p->source ? p->source(p->user, v) : v);
  }
  d->result = (uint16_t)g->n_values;
  add_value(g, ids, k->api->node_output(n, 0), FROM_NODE, g->n_nodes++);
}

/* Add the node's operands that are constants. */
static void add_constants(group_desc *g, uint32_t *ids, const rush_node *n)
{
  const rush_backend_api *api = g->backend.api;
  const struct point_row *row = row_of(&g->backend, n);
  rush_value c;

  for (int i = 0; i < row->n_inputs; i++) {
    const rush_graph_value *v = api->node_input(n, row->inputs[i].arg);
    const uint32_t id = api->value_id(v);
    uint32_t at = 0;

    while (at < g->n_values && ids[at] != id)
      at++;
    if (at == g->n_values && api->value_constant(v, &c))
      add_value(g, ids, v, FROM_CONST, 0);
  }
}

/* Add a node's name to the group's. */
static void add_name(group_desc *g, const rush_node *n)
{
  const size_t len = strlen(g->name);
  const char *kind = g->backend.api->node_kind(n), *bare = strstr(kind, "::");

  snprintf(g->name + len, sizeof g->name - len, "%s%s", len ? "+" : "", bare ? bare + 2 : kind);
}

static void read_parts(group_desc *g, uint32_t *ids, const group_parts *p)
{
  for (uint32_t i = 0; i < p->n_inputs; i++)
    add_value(g, ids, p->inputs[i], FROM_INPUT, i);
  for (uint32_t i = 0; i < p->n_nodes; i++) {
    add_constants(g, ids, p->nodes[i]);
    read_node(g, ids, p, p->nodes[i]);
    add_name(g, p->nodes[i]);
  }
  for (uint32_t i = 0; i < p->n_results; i++)
    g->results[i] = index_of(g, ids, p->results[i]);
}

group_desc *group_read_parts(const backend *k, const group_parts *p)
{
  uint32_t n_values = p->n_inputs + p->n_nodes;

  for (uint32_t i = 0; i < p->n_nodes; i++) /* constants */
    n_values += (uint32_t)k->api->node_n_inputs(p->nodes[i]);
  size_t n_bytes =
    sizeof(group_desc) + n_values * sizeof(value_desc) + p->n_nodes * sizeof(node_desc);
  group_desc *g = k->api->memory_alloc(k->ctx, n_bytes);
  uint32_t *ids = k->api->memory_alloc(k->ctx, n_values * sizeof *ids);

  if (g && ids) {
    g->backend = *k;
    g->n_bytes = n_bytes;
    g->values = (value_desc *)(g + 1);
    g->nodes = (node_desc *)(g->values + n_values);
    g->n_inputs = p->n_inputs;
    g->n_results = p->n_results;
    read_parts(g, ids, p);
    ASSERT(g->n_values <= n_values, "more values than were counted");
  } else {
    k->api->memory_free(k->ctx, g, n_bytes);
    g = NULL;
  }
  k->api->memory_free(k->ctx, ids, n_values * sizeof *ids);
  return g;
}

group_desc *group_read(const backend *k, const rush_node *group)
{
  const rush_backend_api *api = k->api;
  const rush_block *b = api->node_block(group, 0);
  const rush_node *nodes[GROUP_MAX_NODES];
  const rush_graph_value *inputs[GROUP_MAX_INPUTS], *results[GROUP_MAX_RESULTS];
  group_parts p = {nodes, inputs, results, 0, (uint32_t)api->block_n_inputs(b),
                   (uint32_t)api->block_n_outputs(b), NULL, NULL};

  ASSERT(p.n_inputs <= GROUP_MAX_INPUTS && p.n_results <= GROUP_MAX_RESULTS, 
         "the pass limits both");
  for (const rush_node *m = api->block_first(b); m; m = api->node_next(m))
    if (strcmp(api->node_kind(m), "prim::Constant") != 0) {
      ASSERT(p.n_nodes < GROUP_MAX_NODES, "the pass limits a group's nodes");
      nodes[p.n_nodes++] = m;
    }
  for (uint32_t i = 0; i < p.n_inputs; i++)
    inputs[i] = api->block_input(b, i);
  for (uint32_t i = 0; i < p.n_results; i++)
    results[i] = api->block_output(b, i);
  return group_read_parts(k, &p);
}

void group_desc_free(group_desc *g)
{
  if (g)
    g->backend.api->memory_free(g->backend.ctx, g, g->n_bytes);
}

uint32_t group_n_inputs(const group_desc *g) { return g->n_inputs; }
const char *group_name(const group_desc *g) { return g->name; }

void group_usual_kinds(const group_desc *g, arg_kind *kinds)
{
  for (uint32_t i = 0; i < g->n_inputs; i++)
    kinds[i] = g->values[i].is_tensor ? ARG_F32_ROW : ARG_NUMBER;
  for (uint32_t n = 0; n < g->n_nodes; n++)
    for (int i = 0; i < g->nodes[n].row->n_inputs; i++) {
      const value_desc *v = &g->values[g->nodes[n].inputs[i]];

      if (v->from == FROM_INPUT && v->is_tensor && g->nodes[n].row->inputs[i].type == SYM_B)
        kinds[v->index] = ARG_BOOL_ROW;
    }
}

/* -- Fusing ------------------------------------------------------------------------------------ */

typedef struct wide_instr { /* before registers are shared */
  uint8_t op, type, operand_type, n_args;
  uint16_t dst, args[3];
} wide_instr;

typedef struct fuser {
  const group_desc *g;
  const arg_kind *kinds;
  uint16_t *value_of;  /* of the group's values, or NO_VALUE */
  uint16_t n_values; /* numbers: inputs, then constants and results of instructions in order */
  uint8_t types[MOST_VALUES];
  uint32_t reach[MOST_VALUES]; /* inputs */
  bool is_const[MOST_VALUES];
  float number[MOST_VALUES];
  wide_instr code[MOST_INSTRS];
  uint32_t n_instrs;
  bool failed; /* too many, or a dtype that is not fused */
} fuser;

static uint16_t new_value(fuser *f, tape_type type, uint32_t reach)
{
  if (f->n_values == MOST_VALUES) {
    f->failed = true;
    return 0;
  }
  f->types[f->n_values] = (uint8_t)type;
  f->reach[f->n_values] = reach;
  f->is_const[f->n_values] = false;
  return f->n_values++;
}

static uint16_t new_const(fuser *f, float x)
{
  for (uint16_t i = 0; i < f->n_values; i++)
    if (f->is_const[i] && memcmp(&f->number[i], &x, sizeof x) == 0)
      return i;
  uint16_t v = new_value(f, TY_F32, 0);

  f->is_const[v] = true;
  f->number[v] = x;
  return v;
}

static wide_instr *add_instr(fuser *f)
{
  if (f->n_instrs == MOST_INSTRS) {
    f->failed = true;
    return &f->code[0];
  }
  return &f->code[f->n_instrs++];
}

/* Return v converted to `type`: bools become 0 and 1. */
static uint16_t converted(fuser *f, uint16_t v, tape_type type)
{
  ASSERT(v < f->n_values || f->failed, "a value that was not made");
  if (f->types[v] == type || f->failed)
    return v;
  uint16_t to = new_value(f, type, f->reach[v]);

  if (!f->failed)
    *add_instr(f) = (wide_instr){TAPE_CVT, (uint8_t)type, f->types[v], 1, to, {v}};
  return to;
}

/* Return the type the operator computes in; N_TAPE_TYPES: not with these operands. */
static tape_type common_type(const fuser *f, const node_desc *n)
{
  bool bools = false, floats = false, float_number = false, number = false;

  for (int i = 0; i < n->row->n_inputs; i++) {
    const value_desc *v = &f->g->values[n->inputs[i]];

    if (!(n->row->inputs[i].flags & INPUT_PROMOTES))
      continue;
    if (!v->is_tensor) {
      number |= v->from == FROM_CONST && v->constant.tag != RUSH_TAG_NONE &&
                v->constant.tag != RUSH_TAG_BOOL;
      float_number |= v->from != FROM_CONST || v->constant.tag == RUSH_TAG_FLOAT;
    } else if (f->types[f->value_of[n->inputs[i]]] == TY_BOOL) {
      bools = true;
    } else {
      floats = true;
    }
  }
  if (floats)
    return TY_F32;
  if (bools && !number && !float_number)
    return n->row->promote == PROMOTE_ARGUMENTS ? TY_BOOL : N_TAPE_TYPES;
  return N_TAPE_TYPES;
}

static uint16_t operand(fuser *f, const node_desc *n, int i, tape_type k)
{
  const value_desc *v = &f->g->values[n->inputs[i]];
  tape_type want = resolve(n->row->inputs[i].type, k);

  if (v->from == FROM_CONST && v->constant.tag != RUSH_TAG_TENSOR) {
    if (want != TY_F32)
      f->failed = true;
    return v->constant.tag == RUSH_TAG_NONE
             ? new_const(f, 0)
             : new_const(f, (float)point_read_number(v->constant).re);
  }
  if (want == N_TAPE_TYPES) {
    f->failed = true;
    return 0;
  }
  return converted(f, f->value_of[n->inputs[i]], want);
}

/* Append the arm's constants and instructions; regs: values of its registers. */
static void append_arm(fuser *f, const point_arm *a, tape_type k, uint16_t *regs, int n_inputs,
                       uint32_t reach)
{
  for (int i = 0; i < a->n_consts && !f->failed; i++) {
    point_number x = point_const_number(&point_consts[a->first_const + i], RUSH_FLOAT32);

    regs[n_inputs + i] = new_const(f, (float)(x.is_float ? x.re : (double)x.i));
  }
  for (int i = 0; i < a->n_instrs && !f->failed; i++) {
    const tape_instr *t = &point_instrs[a->first_instr + i];
    tape_type type = resolve(t->type, k);
    uint8_t n_args = tape_arity((tape_op)t->op);

    if (t->op == TAPE_RND) { /* float32 rounds to itself */
      regs[t->dst] = regs[t->a];
      continue;
    }
    if (type == N_TAPE_TYPES || t->op >= TAPE_CALL1) {
      f->failed = true;
      return;
    }
    uint16_t args[3] = {regs[t->a], n_args > 1 ? regs[t->b] : 0, n_args > 2 ? regs[t->c] : 0};
    uint16_t dst = new_value(f, tape_op_is_bool((tape_op)t->op) ? TY_BOOL : type, reach);

    *add_instr(f) =
      (wide_instr){t->op,  (uint8_t)type, t->op == TAPE_CVT ? (uint8_t)resolve(t->b, k) : 0,
                   n_args, dst,           {args[0], args[1], args[2]}};
    regs[t->dst] = dst;
  }
}

static void fuse_node(fuser *f, const node_desc *n)
{
  tape_type k = common_type(f, n);
  const point_arm *a = k == N_TAPE_TYPES ? NULL : n->arms[k == TY_BOOL];
  uint16_t regs[256] = {0};
  uint32_t reach = 0;

  if (!a) {
    f->failed = true;
    return;
  }
  for (int i = 0; i < n->row->n_inputs && !f->failed; i++) {
    regs[i] = operand(f, n, i, k);
    reach |= f->reach[regs[i]];
  }
  if (f->failed)
    return;
  append_arm(f, a, k, regs, n->row->n_inputs, reach);
  f->value_of[n->result] = regs[a->results[0]];
  tape_type made = resolve(a->result_types[0], k);
  bool is_bool = n->row->outs[0] == OUT_DTYPE + RUSH_BOOL;

  if (made == N_TAPE_TYPES || f->types[f->value_of[n->result]] != made ||
      (made == TY_BOOL) != (is_bool || k == TY_BOOL))
    f->failed = true;
  f->reach[f->value_of[n->result]] |= reach;
}

/* -- Registers --------------------------------------------------------------------------------- */

/* Find the last instruction that reads each value; UINT32_MAX: it is a result. */
static void find_last_uses(const fuser *f, uint32_t *last)
{
  memset(last, 0, f->n_values * sizeof *last);
  for (uint32_t i = 0; i < f->n_instrs; i++)
    for (int k = 0; k < f->code[i].n_args; k++)
      last[f->code[i].args[k]] = i;
  for (uint32_t i = 0; i < f->g->n_results; i++)
    last[f->value_of[f->g->results[i]]] = UINT32_MAX;
}

typedef struct sharing { /* registers above the constants */
  uint8_t free_regs[256];
  int n_free, next;
} sharing;

static int take_register(sharing *r)
{
  if (r->n_free)
    return r->free_regs[--r->n_free];
  return r->next < 256 ? r->next++ : -1;
}

static bool share_registers(const fuser *f, fused *out, uint8_t *reg_of)
{
  uint32_t last[MOST_VALUES];
  sharing r = {.next = out->tape.n_inputs + out->tape.n_consts};

  find_last_uses(f, last);
  for (uint32_t i = 0; i < f->n_instrs; i++) {
    const wide_instr *t = &f->code[i];
    uint8_t args[3] = {0}, later[3];
    int n_later = 0;

    for (int k = 0; k < t->n_args; k++) {
      args[k] = reg_of[t->args[k]];
      bool again = false;
      for (int j = 0; j < k; j++)
        again |= t->args[j] == t->args[k];
      if (last[t->args[k]] != i || again || args[k] < out->tape.n_inputs + out->tape.n_consts)
        continue;
      if (f->types[t->args[k]] == f->types[t->dst])
        r.free_regs[r.n_free++] = args[k];
      else
        later[n_later++] =
          args[k]; /* the tape runner would write floats over bools it has yet to read */
    }
    int dst = take_register(&r);

    while (n_later)
      r.free_regs[r.n_free++] = later[--n_later];

    if (dst < 0)
      return false;
    reg_of[t->dst] = (uint8_t)dst;
    out->code[i] = (tape_instr){
      t->op,  t->type, (uint8_t)dst, args[0], t->op == TAPE_CVT ? t->operand_type : args[1],
      args[2]};
  }
  out->tape.n_regs = r.next;
  return true;
}

/* -- The tape ---------------------------------------------------------------------------------- */

static bool make_room(const fuser *f, fused *out)
{
  const backend *k = &f->g->backend;
  uint32_t n_consts = 0;

  for (uint16_t v = 0; v < f->n_values; v++)
    n_consts += f->is_const[v];
  out->cap_instrs = f->n_instrs + 1;
  out->cap_consts = n_consts + 1;
  out->code = k->api->memory_alloc(k->ctx, out->cap_instrs * sizeof *out->code);
  out->consts = k->api->memory_alloc(k->ctx, out->cap_consts * sizeof *out->consts);
  return out->code && out->consts;
}

static bool fill_tape(const fuser *f, fused *out)
{
  uint8_t reg_of[MOST_VALUES] = {0};
  uint32_t n_consts = 0;

  out->tape = (loop_tape){.code = out->code,
                          .n_instrs = (int)f->n_instrs,
                          .n_inputs = (int)f->g->n_inputs,
                          .input_kinds = out->kinds,
                          .input_types = out->types,
                          .consts = out->consts,
                          .n_results = (int)f->g->n_results,
                          .results = out->results,
                          .result_types = out->result_types};
  for (uint16_t v = 0; v < f->n_values; v++) {
    if (v < f->g->n_inputs)
      reg_of[v] = (uint8_t)v;
    if (!f->is_const[v])
      continue;
    if (f->g->n_inputs + n_consts >= 200)
      return false;
    reg_of[v] = (uint8_t)(f->g->n_inputs + n_consts);
    out->consts[n_consts++] = f->number[v];
  }
  out->tape.n_consts = (int)n_consts;
  for (uint32_t i = 0; i < f->g->n_inputs; i++) {
    out->kinds[i] = f->kinds[i] == ARG_F32_ROW || f->kinds[i] == ARG_BOOL_ROW ? LOOP_ROW : LOOP_ONE;
    out->types[i] = f->types[i];
  }
  if (!share_registers(f, out, reg_of))
    return false;
  for (uint32_t i = 0; i < f->g->n_results; i++) {
    uint16_t v = f->value_of[f->g->results[i]];

    out->results[i] = reg_of[v];
    out->result_types[i] = f->types[v];
    out->result_inputs[i] = f->reach[v];
  }
  return true;
}

static void fuse_nodes(fuser *f)
{
  for (uint32_t i = 0; i < f->g->n_inputs; i++)
    f->value_of[i] = new_value(f, f->kinds[i] >= ARG_BOOL_ROW ? TY_BOOL : TY_F32,
                               f->kinds[i] == ARG_NUMBER ? 0 : UINT32_C(1) << i);
  for (uint32_t i = 0; i < f->g->n_nodes && !f->failed; i++)
    fuse_node(f, &f->g->nodes[i]);
  for (uint32_t i = 0; i < f->g->n_results && !f->failed; i++)
    f->failed =
      f->value_of[f->g->results[i]] < f->g->n_inputs || f->is_const[f->value_of[f->g->results[i]]];
}

rush_status group_fuse(const group_desc *g, const arg_kind *kinds, fused *out, bool *ok)
{
  const backend *k = &g->backend;
  size_t n_bytes = sizeof(fuser) + g->n_values * sizeof(uint16_t);
  fuser *f = k->api->memory_alloc(k->ctx, n_bytes);
  rush_status st = RUSH_OK;

  *out = (fused){0};
  *ok = false;
  if (!f)
    return RUSH_ENOMEM;
  f->g = g;
  f->kinds = kinds;
  f->value_of = (uint16_t *)(f + 1);
  fuse_nodes(f);
  if (!f->failed) {
    st = make_room(f, out) ? RUSH_OK : RUSH_ENOMEM;
    *ok = st == RUSH_OK && fill_tape(f, out);
  }
  k->api->memory_free(k->ctx, f, n_bytes);
  return st;
}

void fused_free(const backend *k, fused *f)
{
  k->api->memory_free(k->ctx, f->code, f->cap_instrs * sizeof *f->code);
  k->api->memory_free(k->ctx, f->consts, f->cap_consts * sizeof *f->consts);
  f->code = NULL;
  f->consts = NULL;
}
