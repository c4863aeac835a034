/* passes/peephole.c -- local algebraic simplifications.
 *
 * Queries about a tensor that its type answers, comparisons with None that are always false,
 * neutral elements, inverse pairs, lists constructed in the graph.  A tensor replaces an equal one
 * only if no code can distinguish them: neither is written to, and the replaced one is not seen
 * outside.  A result of one grad mode can have another requires_grad than its argument: none is
 * replaced where a `with` may switch it. */
#include "ir/alias.h"
#include "ir/facts.h"
#include "ops/table/op_keys.h"
#include "passes/passes_int.h"

typedef struct look {
  session *s;
  alias_info *alias;
  bool switches_grad; /* nodes may run in different grad modes */
  bool is_exact; /* without what PyTorch assumes; and with what follows from sizes */
} look;

typedef ir_value *rule(const look *k, ir_node *n); /* what n's only result can be, or NULL */

static ir_value *put_bool(const look *k, ir_node *n, bool b)
{
  return pass_put_constant(k->s, n, value_bool(b), type_simple(TYPE_BOOL));
}

/* Return v if it can stand for n's result, an equal tensor: nothing can tell them apart.  Where
 * calls are recorded gradients can: what is added to the gradient of the result first would be
 * added to v's one by one. */
static ir_value *input_if_same(const look *k, const ir_node *n, ir_value *v)
{
  const ir_value *out = n->outputs[0];

  return (!n->graph->is_recorded || pass_never_requires(v)) && !k->switches_grad &&
             !alias_is_written(k->alias, v) && !alias_is_written(k->alias, out) &&
             pass_is_hidden(out)
           ? v
           : NULL;
}

/* -- Numbers ----------------------------------------------------------------------------------- */

/* Simplify x + 0, x * 1 ... of ints; the neutral element on the right only, or on either side. */
static ir_value *neutral(const ir_node *n, int64_t what, bool both)
{
  int64_t i;

  if (n->n_inputs != 2 || !type_is(n->outputs[0]->type, TYPE_INT))
    return NULL;
  ir_value *x = ir_node_input(n, 0), *y = ir_node_input(n, 1);
  if (!type_is(x->type, TYPE_INT) || !type_is(y->type, TYPE_INT))
    return NULL;
  if (pass_is_constant_int(y, &i) && i == what)
    return x;
  return both && pass_is_constant_int(x, &i) && i == what ? y : NULL;
}

static ir_value *simplify_add(const look *k, ir_node *n)
{
  (void)k;
  return neutral(n, 0, true);
}

static ir_value *sub(const look *k, ir_node *n)
{
  (void)k;
  return neutral(n, 0, false);
}

static ir_value *floordiv(const look *k, ir_node *n)
{
  (void)k;
  return neutral(n, 1, false);
}

/* Simplify a row-major tensor times the int 1 to itself, unless it holds bools; the product of
 * another one has strides of its own. */
static ir_value *mul(const look *k, ir_node *n)
{
  ir_value *x = ir_node_input(n, 0);
  int64_t one;

  if (!type_is(x->type, TYPE_TENSOR))
    return neutral(n, 1, true);
  const ir_facts *f = ir_facts_of(x->type);
  if (n->n_inputs != 2 || !pass_is_constant_int(ir_node_input(n, 1), &one) || one != 1 ||
      f->dtype == DTYPE_NONE || f->dtype == RUSH_BOOL || !ir_facts_are_row_major(f))
    return NULL;
  return input_if_same(k, n, x);
}

/* Simplify int(x) of an int, int(tensor(x)); if exact, int(x) of what follows from sizes. */
static ir_value *cast(const look *k, ir_node *n)
{
  ir_value *x = n->n_inputs == 1 ? ir_node_input(n, 0) : NULL;
  int64_t i;

  if (!x)
    return NULL;
  if (k->is_exact && type_is(x->type, TYPE_TENSOR) && type_is(n->outputs[0]->type, TYPE_INT) &&
      pass_is_known_int(k->s, n->outputs[0], &i))
    return pass_put_int(k->s, n, i);
  if (ir_node_is_op(x->node, OPN_PRIM__NUMTOTENSOR))
    x = ir_node_input(x->node, 0);
  return !type_is(x->type, TYPE_TENSOR) && type_equal(x->type, n->outputs[0]->type) ? x : NULL;
}

static ir_value *not_not(const look *k, ir_node *n)
{
  const ir_node *x = ir_node_input(n, 0)->node;

  (void)k;
  return ir_node_is_op(x, OPN___NOT__) ? ir_node_input(x, 0) : NULL;
}

/* -- None and types ---------------------------------------------------------------------------- */

static int none_state(const ir_value *v) /* 1: None, 0: never, -1: not known */
{
  const type *t = type_runtime(v->type);

  if (t->kind == TYPE_NONE || pass_is_none(v))
    return 1;
  return t->kind == TYPE_OPTIONAL || t->kind == TYPE_ANY || t->kind == TYPE_UNION ? -1 : 0;
}

static ir_value *is_none(const look *k, ir_node *n)
{
  int a = none_state(ir_node_input(n, 0)), b = none_state(ir_node_input(n, 1));

  if (a < 0 || b < 0 || (a == 0 && b == 0))
    return NULL;
  return put_bool(k, n, (a == b) == ir_node_is_op(n, OPN___IS__));
}

/* -- Tensors ----------------------------------------------------------------------------------- */

static ir_value *transpose(const look *k, ir_node *n)
{
  const ir_node *x = ir_node_input(n, 0)->node;

  return ir_node_is_op(x, OPN_T) ? input_if_same(k, n, ir_node_input(x, 0)) : NULL;
}

static bool sizes_are(const ir_value *list, const ir_facts *f)
{
  rush_value v;

  ASSERT(f->n_dims >= 0, "sizes are compared if their number is known");
  if (ir_node_is_op(list->node, OPN_SIZE) && list->node->n_inputs == 1) {
    const ir_facts *o = ir_facts_of(ir_node_input(list->node, 0)->type);
    if (o->n_dims != f->n_dims)
      return false;
    for (int i = 0; i < o->n_dims; i++)
      if (o->sizes[i] != f->sizes[i])
        return false;
    return true;
  }
  bool constant = ir_value_as_constant(list, &v) && v.tag == RUSH_TAG_LIST;
  if (constant
        ? v.as.list->n != (size_t)f->n_dims
        : list->node->kind != IR_LIST_CONSTRUCT || list->node->n_inputs != (uint32_t)f->n_dims)
    return false;
  for (int i = 0; i < f->n_dims; i++) {
    int64_t size;
    if (constant)
      size = v.as.list->items[i].as.i;
    else if (!pass_is_constant_int(ir_node_input(list->node, (uint32_t)i), &size))
      return false;
    if (size != f->sizes[i])
      return false;
  }
  return true;
}

static ir_value *expand(const look *k, ir_node *n)
{
  ir_value *x = ir_node_input(n, 0);
  const ir_facts *f = ir_facts_of(x->type);

  return ir_facts_has_sizes(f) && !alias_items_change(k->alias, ir_node_input(n, 1)) &&
             sizes_are(ir_node_input(n, 1), f)
           ? input_if_same(k, n, x)
           : NULL;
}

static ir_value *type_as(const look *k, ir_node *n)
{
  const ir_facts *a = ir_facts_of(ir_node_input(n, 0)->type),
                 *b = ir_facts_of(ir_node_input(n, 1)->type);

  (void)k; /* the operator returns its argument itself */
  return a->dtype != DTYPE_NONE && a->dtype == b->dtype && ir_facts_on_cpu(a) && ir_facts_on_cpu(b)
           ? ir_node_input(n, 0)
           : NULL;
}

static ir_value *real_conj(const look *k, ir_node *n)
{
  const ir_facts *f = ir_facts_of(ir_node_input(n, 0)->type);

  (void)k; /* so does this one */
  return f->dtype != DTYPE_NONE && !dtype_is_complex(f->dtype) ? ir_node_input(n, 0) : NULL;
}

static ir_value *size(const look *k, ir_node *n)
{
  const ir_facts *f = ir_facts_of(ir_node_input(n, 0)->type);
  int64_t i;

  if (n->n_inputs != 2 || f->n_dims < 0 || !pass_is_constant_int(ir_node_input(n, 1), &i))
    return NULL;
  i += i < 0 ? f->n_dims : 0;
  return i < 0 || i >= f->n_dims || f->sizes[i] < 0 ? NULL : pass_put_int(k->s, n, f->sizes[i]);
}

/* Simplify an item of x.size(), and its length. */
static ir_value *of_sizes(const look *k, ir_node *n, bool length)
{
  const ir_node *sizes = ir_node_input(n, 0)->node;
  int64_t i;

  if (!ir_node_is_op(sizes, OPN_SIZE) || sizes->n_inputs != 1 ||
      alias_items_change(k->alias, sizes->outputs[0]))
    return NULL;
  const ir_facts *f = ir_facts_of(ir_node_input(sizes, 0)->type);
  if (f->n_dims < 0)
    return NULL;
  if (length)
    return pass_put_int(k->s, n, f->n_dims);
  if (!pass_is_constant_int(ir_node_input(n, 1), &i))
    return NULL;
  i += i < 0 ? f->n_dims : 0;
  return i < 0 || i >= f->n_dims || f->sizes[i] < 0 ? NULL : pass_put_int(k->s, n, f->sizes[i]);
}

/* Simplify the length of x.unbind(dim), and of x.size(). */
static ir_value *length(const look *k, ir_node *n)
{
  const ir_node *list = ir_node_input(n, 0)->node;
  int64_t dim;

  if (!ir_node_is_op(list, OPN_UNBIND) || alias_items_change(k->alias, list->outputs[0]))
    return of_sizes(k, n, true);
  const ir_facts *f = ir_facts_of(ir_node_input(list, 0)->type);
  if (f->n_dims < 1 || !pass_is_constant_int(ir_node_input(list, 1), &dim))
    return NULL;
  dim += dim < 0 ? f->n_dims : 0;
  return dim < 0 || dim >= f->n_dims || f->sizes[dim] < 0 ? NULL
                                                          : pass_put_int(k->s, n, f->sizes[dim]);
}
static ir_value *item(const look *k, ir_node *n) { return of_sizes(k, n, false); }

/* Simplify the number of dimensions of a convolution's result, which batch norms check to raise an
 * error.  As in PyTorch the answer is that for a batch: by name only. */
static ir_value *convolution_dims(const look *k, ir_node *n)
{
  static const uint32_t convs[] = {OPN_CONV1D, OPN_CONV2D, OPN_CONV3D};
  const ir_value *x = ir_node_input(n, 0);
  const ir_node *made = x->node;

  if (!!k->is_exact || alias_is_written(k->alias, x)) /* it may be resized */
    return NULL;
  for (int i = 0; i < 3; i++)
    if (ir_node_is_op(made, convs[i]))
      return pass_put_int(k->s, n, i + 3);
  return NULL;
}

static ir_value *n_dims(const look *k, ir_node *n)
{
  const ir_facts *f = ir_facts_of(ir_node_input(n, 0)->type);

  return f->n_dims < 0 ? convolution_dims(k, n) : pass_put_int(k->s, n, f->n_dims);
}

static ir_value *dtype(const look *k, ir_node *n)
{
  const ir_facts *f = ir_facts_of(ir_node_input(n, 0)->type);

  return f->dtype == DTYPE_NONE ? NULL : pass_put_int(k->s, n, f->dtype);
}

static ir_value *device(const look *k, ir_node *n)
{
  const ir_facts *f = ir_facts_of(ir_node_input(n, 0)->type);

  return ir_facts_on_cpu(f)
           ? pass_put_constant(k->s, n, value_device(0, -1), type_simple(TYPE_DEVICE))
           : NULL;
}

static ir_value *is_cuda(const look *k, ir_node *n)
{
  return ir_facts_on_cpu(ir_facts_of(ir_node_input(n, 0)->type)) ? put_bool(k, n, false) : NULL;
}

static ir_value *is_float(const look *k, ir_node *n)
{
  const ir_facts *f = ir_facts_of(ir_node_input(n, 0)->type);

  return f->dtype == DTYPE_NONE ? NULL : put_bool(k, n, dtype_is_float(f->dtype));
}

static ir_value *is_complex(const look *k, ir_node *n)
{
  const ir_facts *f = ir_facts_of(ir_node_input(n, 0)->type);

  return f->dtype == DTYPE_NONE ? NULL : put_bool(k, n, dtype_is_complex(f->dtype));
}

/* -- All --------------------------------------------------------------------------------------- */

static rule *rule_of(const ir_node *n)
{
  switch (ir_node_name_key(n)) {
  case OPN_BOOL: case OPN_FLOAT: case OPN_FLOATIMPLICIT: case OPN_INT: case OPN_INTIMPLICIT:
    return cast;
  case OPN___GETITEM__:
    return item;
  case OPN___IS__: case OPN___ISNOT__:
    return is_none;
  case OPN___NOT__:
    return not_not;
  case OPN_ADD:
    return simplify_add;
  case OPN_CONJ:
    return real_conj;
  case OPN_DIM:
    return n_dims;
  case OPN_EXPAND:
    return expand;
  case OPN_FLOORDIV:
    return floordiv;
  case OPN_IS_COMPLEX:
    return is_complex;
  case OPN_IS_FLOATING_POINT:
    return is_float;
  case OPN_LEN:
    return length;
  case OPN_MUL:
    return mul;
  case OPN_SIZE:
    return size;
  case OPN_SUB:
    return sub;
  case OPN_T:
    return transpose;
  case OPN_TYPE_AS:
    return type_as;
  case OPN_PRIM__DEVICE:
    return device;
  case OPN_PRIM__DTYPE:
    return dtype;
  case OPN_PRIM__IS_CUDA:
    return is_cuda;
  }
  return NULL;
}

/* Replace `True if c else False` by c. */
static void simplify_if(ir_node *n)
{
  for (uint32_t i = 0; i < n->n_outputs; i++) {
    bool yes, no;
    if (type_is(n->outputs[i]->type, TYPE_BOOL) &&
        pass_is_constant_bool(ir_block_output(n->blocks[0], i), &yes) &&
        pass_is_constant_bool(ir_block_output(n->blocks[1], i), &no) && yes && !no)
      ir_value_replace_all_uses(n->outputs[i], ir_node_input(n, 0));
  }
}

/* Replace the items of an unpacked x.size() by the sizes that are known. */
static void simplify_unpack(const look *k, ir_node *n)
{
  const ir_facts *f = pass_facts_of_sizes(ir_node_input(n, 0));

  for (uint32_t i = 0; f && n->n_outputs == (uint32_t)f->n_dims && i < n->n_outputs; i++)
    if (f->sizes[i] >= 0 && n->outputs[i]->uses)
      ir_value_replace_all_uses(n->outputs[i], pass_put_int(k->s, n, f->sizes[i]));
}

/* True for what a traced program computed of sizes, and nothing uses any more: it cannot fail,
 * which dce does not know. */
static bool is_dead_number(const look *k, const ir_node *n)
{
  return n->kind == IR_OP && n->n_outputs == 1 && !n->outputs[0]->uses &&
         pass_is_known_number(k->s, n->outputs[0]);
}

/* Remove it, and what only it used. */
static bool drop_dead_number(const look *k, ir_node *n)
{
  if (!is_dead_number(k, n))
    return false;
  const uint32_t n_inputs = n->n_inputs;
  ir_node **made = session_array(k->s, ir_node *, n_inputs);

  for (uint32_t i = 0; i < n_inputs; i++)
    made[i] = ir_node_input(n, i)->node;
  ir_node_destroy(n);
  session_enter(k->s);
  for (uint32_t i = 0; i < n_inputs; i++)
    if (!made[i]->destroyed)
      (void)drop_dead_number(k, made[i]);
  session_leave(k->s);
  return true;
}

static void simplify_node(session *s, ir_node *n, void *arg)
{
  const look *k = arg;
  ir_value *v = NULL;

  (void)s;
  if (k->is_exact && drop_dead_number(k, n))
    return;
  if (n->kind == IR_IF)
    simplify_if(n);
  else if (n->kind == IR_LIST_UNPACK)
    simplify_unpack(k, n);
  else if (n->kind == IR_UNCHECKED_CAST &&
           type_equal(ir_node_input(n, 0)->type, n->outputs[0]->type))
    v = ir_node_input(n, 0);
  else if (n->n_outputs == 1 && n->n_inputs > 0) {
    rule *simpler = rule_of(n);
    v = simpler ? simpler(k, n) : NULL;
  }
  ASSERT(!v || v != n->outputs[0], "a result replaced by itself");
  ASSERT_SLOW(!v || pass_can_replace(n, &v));
  if (!v)
    return;
  ir_value_replace_all_uses(n->outputs[0], v);
  if (pass_is_pure(n)) /* it was seen not to fail: dce need not ask */
    ir_node_destroy(n);
}

static void simplify_all(session *s, ir_graph *g, bool is_exact)
{
  pass_peephole_list_idioms(s, g);
  look k = {.s = s, .alias = alias_analyse_all(s, g), .is_exact = is_exact};

  k.switches_grad = ir_graph_may_have(g, IR_ENTER);
  pass_each(s, g->block, simplify_node, &k);
  pass_dce(s, g);
}

void pass_peephole(session *s, ir_graph *g) { simplify_all(s, g, false); }

void pass_exact_peephole(session *s, ir_graph *g) { simplify_all(s, g, true); }
