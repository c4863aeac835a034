/* export/lower_vmap.c -- torch.vmap in exported programs: a loop over the samples.
 *
 * torch.export writes vmap as calls of torch._functorch.predispatch around the nodes of the mapped
 * function, which see one sample: _vmap_increment_nesting(batch, randomness), _add_batch_dim(x,
 * dim, level) for each mapped argument, the nodes, _remove_batch_dim(y, level, batch, dim) for each
 * result, and _vmap_decrement_nesting().  Here the nodes between become the body of a prim::Loop
 * over the batch:
 *   _add_batch_dim     x.select(dim, i)
 *   _remove_batch_dim  an append in the loop; behind it movedim(stack(list), 0, dim)
 * Nodes that read nothing of a sample are moved before the loop, so a value in the loop is what
 * functorch calls batched.  Regions nest; a node moves to the outermost loop that has the values it
 * reads.
 *
 * Rejected: batching rules (an operator on the whole batch, as in functorch), since each operator
 * needs a rule of its own, operators without one would need the loop anyway, and the loop is vmap's
 * definition.
 *
 * Programs that would behave differently in a loop are refused by name: random numbers for each
 * sample, a write of a sample into memory that all samples share, writes to shared tensors between
 * samples' reads, sizes that depend on data.
 *
 * A batch may be empty: the body then runs once, on zeros, for shapes and dtypes, and the results
 * are cut to size 0.  Numbers of the body (sizes) are carried out of the loop, as later nodes may
 * use them. */
#include "export/lower_int.h"

#include "base/grow.h"

typedef struct sample { /* an argument that is mapped */
  ir_value *slice, *whole;
  int64_t dim;
} sample;

typedef struct stacked { /* a result that is mapped */
  ir_value **result; /* to be set */
  ir_value *list, *dim;
} stacked;

struct lower_vmap {
  lower_vmap *outer;    /* around it in the same graph, or NULL */
  ir_block *outside; /* where the loop is */
  ir_node *loop;
  ir_value *batch, *index;
  int64_t level;  /* 0: no call has named it yet */
  str randomness; /* "error", "same", "different" */
  bool may_be_empty;
  bool has_work; /* nodes other than samples are in the body */
  bool writes_samples;
  sample *samples;
  uint32_t n_samples, cap_samples;
  stacked *results;
  uint32_t n_results, cap_results;
};

static ir_value *int_constant(lowering *lo, int64_t i)
{
  return lower_constant(lo, value_int(i), NULL);
}

/* -- Positions of values ----------------------------------------------------------------------- */

/* True if v is made in the body of the region's loop, at any depth. */
static bool is_of_sample(const lower_vmap *m, const ir_value *v)
{
  return ir_block_is_inside(v->node->block, m->loop);
}

static const sample *sample_of(const lower_vmap *m, const ir_value *v)
{
  for (uint32_t i = 0; i < m->n_samples; i++)
    if (m->samples[i].slice == v)
      return &m->samples[i];
  return NULL;
}

/* True if the node, or one inside it, reads a value of the region's loop that was made before
 * `first`. */
static bool reads_sample(const lower_vmap *m, const ir_node *n, const ir_node *first)
{
  const ir_block *body = m->loop->blocks[0];

  for (uint32_t i = 0; i < n->n_inputs; i++) {
    const ir_node *from = ir_node_input(n, i)->node;
    if (from->block == body && (from->kind == IR_PARAM || from->order < first->order))
      return true;
  }
  for (uint32_t i = 0; i < n->n_blocks; i++)
    for (const ir_node *in = ir_block_first(n->blocks[i]);; in = in->next) {
      if (reads_sample(m, in, first))
        return true;
      if (in == n->blocks[i]->ret)
        break;
    }
  return false;
}

/* -- Programs whose loop would have other results ---------------------------------------------- */

static const char *op_words(lowering *lo, const op *o)
{
  const char *overload = o->schema->overload;

  return session_printf(lo->s, "%s%s%s", o->schema->name, *overload ? "." : "", overload);
}

/* Return the constant that the node has for the first of these arguments; none if there is no such
 * argument, or it is no constant. */
static rush_value constant_named(const ir_node *n, const char *const *names, size_t n_names)
{
  rush_value v;

  for (size_t i = 0; i < n_names; i++) {
    int at = schema_arg_index(n->op->schema, str_of(names[i]));
    if (at >= 0 && (uint32_t)at < n->n_inputs &&
        ir_value_as_constant(ir_node_input(n, (uint32_t)at), &v))
      return v;
  }
  return value_none();
}

/* True if the operator draws random numbers with these arguments: dropout only while training. */
static bool draws(const ir_node *n)
{
  static const char *const modes[] = {"train", "training"}, *const rates[] = {"dropout_p",
                                                                              "dropout"};
  rush_value mode = constant_named(n, modes, COUNT_OF(modes)),
             rate = constant_named(n, rates, COUNT_OF(rates));

  if (!(n->op->effects & OP_RANDOM))
    return false;
  return !(mode.tag == RUSH_TAG_BOOL && !mode.as.b) &&
         !(rate.tag == RUSH_TAG_FLOAT && rate.as.d == 0);
}

static void check_random(lowering *lo, const lower_vmap *m, const ir_node *n, bool of_sample)
{
  if (!draws(n))
    return;
  if (str_is(m->randomness, "error"))
    lower_fail(lo,
            "vmap: called random operation while in randomness error mode. Please either use the "
            "'same' or 'different' "
            "randomness flags on vmap or perform the randomness operation out of vmap (%s)",
            op_words(lo, n->op));
  if (of_sample || !str_is(m->randomness, "same"))
    lower_fail(lo,
            "vmap: %s draws random numbers for each sample (randomness '%.*s'), which is not "
            "supported; draw them for the "
            "whole batch before vmap",
            op_words(lo, n->op), (int)m->randomness.len, m->randomness.p);
}

static void check_dynamic(lowering *lo, const ir_node *n)
{
  if (n->op->effects & OP_DATA_SIZE)
    lower_fail(lo,
            "vmap: We do not support batching operators that can output dynamic shape. Attempted "
            "to vmap over %s.",
            n->op->schema->name);
}

/* True if v may share memory with an argument of the region: a view of one, or the result of an
 * in-place write. */
static bool may_be_sample(const lower_vmap *m, const ir_value *v)
{
  for (;;) {
    const ir_node *n = v->node;
    if (!is_of_sample(m, v) || n->kind != IR_OP || sample_of(m, v))
      return true;
    const schema *sc = n->op->schema;
    if (!(n->op->effects & OP_RETURNS_ARG) && v->index < sc->n_returns &&
        !sc->returns[v->index].alias_before && !sc->returns[v->index].elem_alias)
      return false;
    uint32_t at = 0;
    while (at < n->n_inputs && ir_node_input(n, at)->type->kind != TYPE_TENSOR)
      at++;
    if (at == n->n_inputs)
      return true;
    v = ir_node_input(n, at);
  }
}

/* Refuse batch norm that updates running statistics shared by all samples. */
static void check_statistics(lowering *lo, const lower_vmap *m, const ir_node *n)
{
  static const char *const modes[] = {"training", "train", "use_input_stats"};
  rush_value mode = constant_named(n, modes, COUNT_OF(modes));
  int at = schema_arg_index(n->op->schema, STR("running_mean"));

  if (!(n->op->effects & OP_STATISTICS) || (mode.tag == RUSH_TAG_BOOL && !mode.as.b))
    return;
  if (at >= 0 && ir_node_input(n, (uint32_t)at)->type->kind == TYPE_TENSOR)
    if (!is_of_sample(m, ir_node_input(n, (uint32_t)at)))
      lower_fail(lo,
                 "Batch norm got a batched tensor as input while the running_mean or running_var, "
                 "which will be updated in "
                 "place, were not batched.");
}

/* Check a write in a sample: it must be to the sample's own memory. */
static void check_write(lowering *lo, lower_vmap *m, const ir_node *n)
{
  const schema *sc = n->op->schema;

  for (uint32_t i = 0; n->op->effects & OP_WRITES && i < sc->n_args && i < n->n_inputs; i++) {
    const ir_value *v = ir_node_input(n, i);
    if (!sc->args[i].is_write && !sc->args[i].elem_write)
      continue;
    if (!is_of_sample(m, v))
      lower_fail(lo,
              "vmap: %s(self, *extra_args) is not possible because there exists a Tensor `other` "
              "in extra_args that has "
              "more elements than `self`. This happened due to `other` being vmapped over but "
              "`self` not being vmapped "
              "over in a vmap.",
              sc->name);
    m->writes_samples |= may_be_sample(m, v);
  }
}

/* Check a node that reads nothing of a sample: it runs before all samples. */
static void check_shared(lowering *lo, const lower_vmap *m, const ir_node *n)
{
  if (n->op->effects & OP_WRITES && m->has_work)
    lower_fail(lo,
            "vmap: %s writes to a tensor that all samples share, behind operators that ran for "
            "each sample; this order "
            "is not supported",
            op_words(lo, n->op));
  for (uint32_t i = 0; m->writes_samples && i < n->n_inputs; i++)
    if (ir_node_input(n, i)->type->kind == TYPE_TENSOR)
      lower_fail(lo,
              "vmap: %s reads a tensor that all samples share, behind a write to a sample that it "
              "may show; this order is "
              "not supported",
              op_words(lo, n->op));
}

/* Check the node and those inside it. */
static void check_node(lowering *lo, lower_vmap *m, const ir_node *n, bool of_sample)
{
  if (n->kind == IR_OP) {
    check_random(lo, m, n, of_sample);
    if (of_sample) {
      check_dynamic(lo, n);
      check_statistics(lo, m, n);
      check_write(lo, m, n);
    } else {
      check_shared(lo, m, n);
    }
  }
  for (uint32_t i = 0; i < n->n_blocks; i++)
    for (const ir_node *in = ir_block_first(n->blocks[i]); in != n->blocks[i]->ret; in = in->next)
      check_node(lo, m, in, of_sample);
}

/* -- Placing nodes ----------------------------------------------------------------------------- */

void lower_vmap_place(lowering *lo, ir_node *before)
{
  ir_node *first = before->next, *last = ir_block_last(lo->block);

  if (first == lo->block->ret)
    return;
  for (lower_vmap *m = lo->scope->vmap; m; m = m->outer) {
    bool of_sample = false;
    for (const ir_node *n = first; !of_sample; n = n->next) {
      of_sample = reads_sample(m, n, first);
      if (n == last)
        break;
    }
    for (const ir_node *n = first;; n = n->next) {
      check_node(lo, m, n, of_sample);
      if (n == last)
        break;
    }
    m->has_work |= of_sample;
    if (of_sample)
      return;
    for (ir_node *n = first, *next; n; n = n == last ? NULL : next) {
      next = n->next;
      ir_node_move_before(n, m->loop);
    }
  }
}

/* -- The calls --------------------------------------------------------------------------------- */

static _Noreturn void bad(lowering *lo, const lower_node *n, const char *what)
{
  lower_fail(lo, "%.*s: %s", (int)n->target.len, n->target.p, what);
}

static ir_value *arg(lowering *lo, const lower_node *n, uint32_t i, type_kind kind)
{
  if (i >= n->n_args || !n->args[i].value)
    bad(lo, n, "an argument is missing");
  if (!type_is(n->args[i].value->type, kind))
    bad(lo, n, "an argument of another type");
  return n->args[i].value;
}

static rush_value constant_arg(lowering *lo, const lower_node *n, uint32_t i, type_kind kind)
{
  rush_value v;

  if (!ir_value_as_constant(arg(lo, n, i, kind), &v))
    bad(lo, n, "an argument that is no constant");
  return v;
}

/* Return the innermost region, whose level must be argument i of the call. */
static lower_vmap *region_of(lowering *lo, const lower_node *n, uint32_t i)
{
  lower_vmap *m = lo->scope->vmap;
  int64_t level = constant_arg(lo, n, i, TYPE_INT).as.i;

  if (!m)
    bad(lo, n, "outside of vmap");
  if (!m->level && level > (m->outer ? m->outer->level : 0))
    m->level = level;
  if (m->level != level)
    bad(lo, n, "the level of another vmap");
  return m;
}

/* Return the place of the call's one result. */
static ir_value **one_result(lowering *lo, const lower_node *n)
{
  if (n->n_results != 1)
    bad(lo, n, "one output is expected");
  return n->results;
}

/* Arguments: (batch, randomness). */
static void open_region(lowering *lo, const lower_node *n)
{
  lower_vmap *m = session_new(lo->s, lower_vmap);
  rush_value batch, randomness = constant_arg(lo, n, 1, TYPE_STRING);

  session_enter(lo->s); /* left in close_region */
  m->outer = lo->scope->vmap;
  m->outside = lo->block;
  m->randomness = value_str(randomness);
  m->batch = arg(lo, n, 0, TYPE_INT);
  m->may_be_empty = !ir_value_as_constant(m->batch, &batch) || batch.as.i <= 0;
  ir_value *trips = m->batch, *go = lower_constant(lo, value_bool(true), NULL);
  if (m->may_be_empty)
    trips = lower_emit(lo, "prim::max", "int", (ir_value *[]){m->batch, int_constant(lo, 1)}, 2);
  m->loop = ir_node_new(lo->s, lo->g, IR_LOOP, (ir_value *[]){trips, go}, 2);
  ir_node_append(m->loop, lo->block);
  lo->block = ir_node_add_block(lo->s, m->loop);
  m->index = ir_block_add_input(lo->s, lo->block, type_simple(TYPE_INT), NULL);
  lo->scope->vmap = m;
}

static ir_value *select_sample(lowering *lo, const lower_vmap *m, ir_value *x, ir_value *dim)
{
  return lower_emit(lo, "aten::select", "int", (ir_value *[]){x, dim, m->index}, 3);
}

/* Return x.select(dim, i), or zeros of its shape if the batch is empty: x is padded by one, which
 * is selected. */
static ir_value *sample_or_zeros(lowering *lo, const lower_vmap *m, ir_value *x, ir_value *dim)
{
  ir_value *end = int_constant(lo, -1), *zero = int_constant(lo, 0), *one = int_constant(lo, 1);
  ir_block *outer = lo->block;
  ir_value *empty = lower_emit(lo, "aten::eq", "int", (ir_value *[]){m->batch, zero}, 2);
  ir_node *choice = ir_node_new(lo->s, lo->g, IR_IF, &empty, 1);

  ir_node_append(choice, outer);
  lo->block = ir_node_add_block(lo->s, choice);
  ir_value *last = lower_emit(lo, "aten::movedim", "int", (ir_value *[]){x, dim, end}, 3);
  ir_value *pad = lower_list(lo, (ir_value *[]){zero, one}, 2, type_simple(TYPE_INT));
  ir_value *padded =
    lower_emit(lo, "aten::constant_pad_nd", "", (ir_value *[]){last, pad, zero}, 3);
  ir_block_add_output(lo->s, lo->block,
                      lower_emit(lo, "aten::select", "int", (ir_value *[]){padded, end, zero}, 3));
  lo->block = ir_node_add_block(lo->s, choice);
  ir_block_add_output(lo->s, lo->block, select_sample(lo, m, x, dim));
  lo->block = outer;
  return ir_node_add_output(lo->s, choice, type_simple(TYPE_TENSOR));
}

/* Arguments: (x, dim, level). */
static void read_add(lowering *lo, const lower_node *n)
{
  lower_vmap *m = region_of(lo, n, 2);
  ir_value *x = arg(lo, n, 0, TYPE_TENSOR), *dim = arg(lo, n, 1, TYPE_INT);

  if (is_of_sample(m, x))
    bad(lo, n, "a value of a sample that becomes a batch");
  ir_value *slice = m->may_be_empty ? sample_or_zeros(lo, m, x, dim) : select_sample(lo, m, x, dim);
  GROW(lo->s, m->samples, m->n_samples, m->cap_samples, 4);
  m->samples[m->n_samples++] = (sample){slice, x, constant_arg(lo, n, 1, TYPE_INT).as.i};
  *one_result(lo, n) = slice;
}

/* Expand a value that no sample made, as functorch does. */
static ir_value *expand_shared(lowering *lo, const lower_vmap *m, ir_value *v, ir_value *dim)
{
  ir_value *sizes = lower_emit(lo, "aten::size", "", &v, 1),
           *no = lower_constant(lo, value_bool(false), NULL);

  lower_emit(lo, "aten::insert", "t", (ir_value *[]){sizes, dim, m->batch}, 3);
  return lower_emit(lo, "aten::expand", "", (ir_value *[]){v, sizes, no}, 3);
}

/* Arguments: (y, level, batch, dim). */
static void read_remove(lowering *lo, const lower_node *n)
{
  lower_vmap *m = region_of(lo, n, 1);
  ir_value *v = arg(lo, n, 0, TYPE_TENSOR);
  int64_t dim = constant_arg(lo, n, 3, TYPE_INT).as.i;
  const sample *whole = sample_of(m, v);
  ir_block *body = lo->block;

  if (whole ||
      !is_of_sample(m, v)) { /* needs no loop: a view of the argument, or of what is shared */
    lo->block = m->outside;
    ir_node *before = ir_block_last(lo->block);
    ir_value *to = int_constant(lo, dim);
    ir_value *out = whole
                      ? lower_emit(lo, "aten::movedim", "int",
                                (ir_value *[]){whole->whole, int_constant(lo, whole->dim), to}, 3)
                      : expand_shared(lo, m, v, to);
    for (ir_node *at = before->next, *next; at != lo->block->ret; at = next) {
      next = at->next;
      ir_node_move_before(at, m->loop);
    }
    lo->block = body;
    *one_result(lo, n) = out;
    return;
  }
  lo->block = m->outside;
  ir_value *list = lower_list(lo, NULL, 0, type_simple(TYPE_TENSOR));
  ir_node_move_before(list->node, m->loop);
  lo->block = body;
  lower_emit(lo, "aten::append", "t", (ir_value *[]){list, v}, 2);
  GROW(lo->s, m->results, m->n_results, m->cap_results, 4);
  m->results[m->n_results++] = (stacked){one_result(lo, n), list, n->args[3].value};
}

/* Carry a number that the body makes out of the loop; a tensor is only known inside. */
static void leave_body(lowering *lo, lower_vmap *m, ir_value **place)
{
  ir_value *v = *place, *start;

  switch (v->type->kind) {
  case TYPE_INT:
    start = lower_constant(lo, value_int(0), NULL);
    break;
  case TYPE_FLOAT:
    start = lower_constant(lo, value_float(0), NULL);
    break;
  case TYPE_BOOL:
    start = lower_constant(lo, value_bool(false), NULL);
    break;
  default:
    *place = NULL;
    return;
  }
  ir_node_move_before(start->node, m->loop);
  ir_node_add_input(lo->s, m->loop, start);
  ir_block_add_input(lo->s, m->loop->blocks[0], v->type, NULL);
  ir_block_add_output(lo->s, m->loop->blocks[0], v);
  *place = ir_node_add_output(lo->s, m->loop, v->type);
}

/* Arguments: (). */
static void close_region(lowering *lo, const lower_node *n)
{
  lower_vmap *m = lo->scope->vmap;

  if (!m || lo->block != m->loop->blocks[0])
    bad(lo, n, "outside of vmap");
  ir_block_add_output(lo->s, lo->block, lower_constant(lo, value_bool(true), NULL));
  lo->block = m->outside;
  for (uint32_t i = 0; i < lo->scope->graph->n_nodes; i++) {
    lowered *l = &lo->scope->nodes[i];
    if (l->v && is_of_sample(m, l->v))
      leave_body(lo, m, &l->v);
    for (uint32_t k = 0; k < l->n; k++)
      if (l->many[k] && is_of_sample(m, l->many[k]))
        leave_body(lo, m, &l->many[k]);
  }
  ir_value *zero = int_constant(lo, 0);
  for (uint32_t i = 0; i < m->n_results; i++) {
    const stacked *o = &m->results[i];
    ir_value *v = lower_emit(lo, "aten::stack", "", (ir_value *[]){o->list, zero}, 2),
             *one = int_constant(lo, 1);
    if (m->may_be_empty)
      v = lower_emit(lo, "aten::slice", "Tensor", (ir_value *[]){v, zero, zero, m->batch, one}, 5);
    rush_value dim;
    (void)ir_value_as_constant(o->dim, &dim);
    v = lower_emit(lo, "aten::movedim", "int", (ir_value *[]){v, zero, int_constant(lo, dim.as.i)},
                   3);
    *o->result = v;
  }
  lo->scope->vmap = m->outer;
  if (m->outer)
    m->outer->has_work = true;
  session_leave(lo->s);
}

static const char prefix[] = "torch._functorch.predispatch.";

bool lower_is_vmap(str target)
{
  return target.len >= sizeof prefix && memcmp(target.p, prefix, sizeof prefix - 1) == 0;
}

bool lower_vmap_call(lowering *lo, const lower_node *n)
{
  static const struct {
    const char *name;
    void (*read)(lowering *lo, const lower_node *n);
  } calls[] = {{"_vmap_increment_nesting", open_region},
               {"_vmap_decrement_nesting", close_region},
               {"_add_batch_dim", read_add},
               {"_remove_batch_dim", read_remove}};

  if (!lower_is_vmap(n->target))
    return false;
  str name = {n->target.p + sizeof prefix - 1, n->target.len - (sizeof prefix - 1)};
  for (size_t i = 0; i < COUNT_OF(calls); i++)
    if (str_is(name, calls[i].name)) {
      calls[i].read(lo, n);
      return true;
    }
  if (str_is(name, "_unwrap_for_grad"))
    *one_result(lo, n) = arg(lo, n, 0, TYPE_TENSOR);
  return str_is(name, "_unwrap_for_grad") || str_is(name, "lazy_load_decompositions");
}

void lower_vmap_end(lowering *lo)
{
  if (lo->scope->vmap)
    lower_fail(lo, "_vmap_increment_nesting without _vmap_decrement_nesting");
}
