/* passes/fold_frozen.c -- optimisations for constant weights (freeze_object.h): scales and shifts
 * after a convolution or a linear layer are folded into its weights; dropout that does not train is
 * removed.
 *
 * All of them move roundings: results differ in the last bits. */
#include "ir/facts.h"
#include "ops/table/op_keys.h"
#include "passes/passes_int.h"

/* -- Constants --------------------------------------------------------------------------------- */

static rush_tensor *tensor_of(const ir_value *v)
{
  rush_value c;

  return ir_value_as_constant(v, &c) && c.tag == RUSH_TAG_TENSOR ? c.as.tensor : NULL;
}

static rush_value value_of(const rush_tensor *t)
{
  return (rush_value){.tag = RUSH_TAG_TENSOR, .as.tensor = (rush_tensor *)(uintptr_t)t};
}

/* Run one operator now; the session holds the result.  If it fails, the folding ends. */
static rush_value apply(session *s, const char *name, const char *overload, const rush_value *args,
                        uint32_t n)
{
  rush_value out;

  session_check(s, op_invoke_name(s->cx, name, overload, args, n, &out));
  return pass_hold(s, out);
}

static rush_value apply2(session *s, const char *name, rush_value a, rush_value b)
{
  const rush_value args[2] = {a, b};

  return apply(s, name, "Tensor", args, 2);
}

static rush_value add_values(session *s, rush_value a, rush_value b)
{
  const rush_value args[3] = {a, b, value_int(1)};

  return apply(s, "aten::add", "Tensor", args, 3);
}

/* Reshape v of C elements to (C, 1, 1 ...) with n_dims dimensions. */
static rush_value as_rows(session *s, rush_value v, int n_dims)
{
  int64_t sizes[TENSOR_MAX_DIMS] = {-1};
  rush_value args[2] = {v};

  for (int i = 1; i < n_dims; i++)
    sizes[i] = 1;
  session_check(s, list_of_ints(s->cx, sizes, (size_t)n_dims, &args[1]));
  pass_hold(s, args[1]);
  return apply(s, "aten::reshape", "", args, 2);
}

/* -- Layers ------------------------------------------------------------------------------------ */

typedef struct layer { /* a convolution or linear layer whose elements only one node uses */
  ir_node *node;
  rush_tensor *weight, *bias; /* bias NULL: none */
} layer;

static bool is_conv(const ir_node *n)
{
  bool transposed;

  if (ir_node_is_op(n, OPN__CONVOLUTION) || ir_node_is_op(n, OPN_CONVOLUTION))
    return n->n_inputs > 6 && pass_is_constant_bool(ir_node_input(n, 6), &transposed) &&
           !transposed;
  return ir_node_is_op(n, OPN_CONV2D) || ir_node_is_op(n, OPN_CONV1D) ||
         ir_node_is_op(n, OPN_CONV3D);
}

/* True if the node only reads metadata of a tensor, not its elements. */
static bool is_question(const ir_node *n)
{
  return ir_node_is_op(n, OPN_DIM) || ir_node_is_op(n, OPN_SIZE) ||
         ir_node_is_op(n, OPN_PRIM__DTYPE) || ir_node_is_op(n, OPN_PRIM__DEVICE) ||
         ir_node_is_op(n, OPN_LEN);
}

static bool is_only_user(const ir_node *n, const ir_value *v)
{
  uint32_t uses = 0;

  for (const ir_use *u = v->uses; u; u = u->next) {
    if (u->user != n && !is_question(u->user))
      return false;
    uses += u->user == n;
  }
  return uses == 1;
}

static bool layer_before(const ir_node *n, bool conv, layer *out)
{
  ir_node *made = n->n_inputs ? ir_node_input(n, 0)->node : NULL;

  if (!made || made->block != n->block ||
      !(conv ? is_conv(made) : ir_node_is_op(made, OPN_LINEAR)))
    return false;
  *out = (layer){made, tensor_of(ir_node_input(made, 1)), tensor_of(ir_node_input(made, 2))};
  return is_only_user(n, made->outputs[0]) && out->weight && dtype_is_float(out->weight->dtype) &&
         (out->bias ? out->bias->dtype == out->weight->dtype
                    : pass_is_none(ir_node_input(made, 2)));
}

/* Replace input i of the layer by c, named for the old input and what was folded into it. */
static void replace_input(session *s, const layer *l, uint32_t i, rush_value c, const char *folded)
{
  ir_value *now = pass_put_constant(s, l->node, c, type_simple(TYPE_TENSOR));
  const char *name = ir_node_input(l->node, i)->name;

  now->node->range = (source_range){0};
  if (name)
    ir_value_set_name(s, now, session_printf(s, "%s_fused_%s", name, folded));
  ir_node_set_input(l->node, i, now);
}

/* Set new weights of the layer and let it replace n. */
static void replace(session *s, ir_node *n, const layer *l, rush_value weight, rush_value bias)
{
  ASSERT(l->node->block == n->block && ir_node_is_before(l->node, n), "the layer is before it");
  ASSERT(weight.as.tensor->dtype == l->weight->dtype, "folding keeps the weight's dtype");
  ASSERT(weight.as.tensor->n_dims == l->weight->n_dims &&
           memcmp(weight.as.tensor->sizes, l->weight->sizes,
                  (size_t)l->weight->n_dims * sizeof *l->weight->sizes) == 0,
         "folding keeps the weight's shape");
  ASSERT(bias.as.tensor->n_dims == 1 && bias.as.tensor->sizes[0] == l->weight->sizes[0],
         "a bias has a number for each channel");
  ASSERT(bias.as.tensor->dtype == l->weight->dtype, "a bias has the weight's dtype");
  const char *what = strchr(ir_node_kind_name(n), ':') + 2;

  what = strcmp(what, "batch_norm") == 0 ? "bn" : what;
  replace_input(s, l, 1, weight, what);
  replace_input(s, l, 2, bias, what);
  ir_value *result = l->node->outputs[0];
  l->node->outputs[0]->type = type_simple(TYPE_TENSOR);
  pass_replace(n, &result);
}

/* -- Batch norm -------------------------------------------------------------------------------- */

static bool channel_tensor(const ir_value *v, const layer *l, rush_tensor **out)
{
  *out = tensor_of(v);
  return *out && (*out)->dtype == l->weight->dtype && (*out)->n_dims == 1 &&
         (*out)->sizes[0] == l->weight->sizes[0];
}

static void fold_batch_norm(session *s, ir_node *n, bool conv)
{
  rush_tensor *w = NULL, *b = NULL, *mean, *var;
  rush_value eps;
  bool training;
  layer l;

  if (!ir_node_is_op(n, OPN_BATCH_NORM) || !layer_before(n, conv, &l) || l.weight->n_dims < 2 ||
      !channel_tensor(ir_node_input(n, 3), &l, &mean) ||
      !channel_tensor(ir_node_input(n, 4), &l, &var) ||
      !(pass_is_none(ir_node_input(n, 1)) || channel_tensor(ir_node_input(n, 1), &l, &w)) ||
      !(pass_is_none(ir_node_input(n, 2)) || channel_tensor(ir_node_input(n, 2), &l, &b)) ||
      !pass_is_constant_bool(ir_node_input(n, 5), &training) || training ||
      !ir_value_as_constant(ir_node_input(n, 7), &eps) || eps.tag != RUSH_TAG_FLOAT)
    return;
  int n_dims = ir_facts_of(ir_node_input(l.node, 0)->type)->n_dims;
  if (!conv && n_dims >= 0 && n_dims != 2) /* the statistics are another dimension's */
    return;
  const rush_value shifted[3] = {value_of(var), eps, value_int(1)};
  rush_value moved = apply(s, "aten::add", "Scalar", shifted, 3);
  rush_value scale = apply(s, "aten::rsqrt", "", &moved, 1);
  if (w)
    scale = apply2(s, "aten::mul", value_of(w), scale);
  rush_value weight =
    apply2(s, "aten::mul", value_of(l.weight), as_rows(s, scale, l.weight->n_dims));
  rush_value minus_mean = value_of(mean);
  minus_mean = apply(s, "aten::neg", "", &minus_mean, 1);
  rush_value bias = l.bias ? add_values(s, value_of(l.bias), minus_mean) : minus_mean;
  bias = apply2(s, "aten::mul", bias, scale);
  if (b)
    bias = add_values(s, bias, value_of(b));
  replace(s, n, &l, weight, bias);
}

static void conv_bn(session *s, ir_node *n, void *arg)
{
  (void)arg;
  fold_batch_norm(s, n, true);
}

static void linear_bn(session *s, ir_node *n, void *arg)
{
  (void)arg;
  fold_batch_norm(s, n, false);
}

void pass_fold_frozen_conv_bn(session *s, ir_graph *g) { pass_each(s, g->block, conv_bn, NULL); }
void pass_fold_frozen_linear_bn(session *s, ir_graph *g)
{
  pass_each(s, g->block, linear_bn, NULL);
}

/* -- Arithmetic with constants ----------------------------------------------------------------- */

/* True if t is one number for each channel (or for all) of the convolution's result. */
static bool is_by_channel(const rush_tensor *t, const rush_tensor *weight)
{
  int at = t->n_dims -
           (weight->n_dims - 1); /* of the channels, which have n_dims - 2 dimensions behind them */

  bool promotes = t->dtype != weight->dtype && t->n_dims > 0 && dtype_is_float(t->dtype);

  if (t->n_dims > weight->n_dims || promotes || dtype_is_complex(t->dtype))
    return false;
  for (int i = 0; i < t->n_dims; i++)
    if (t->sizes[i] != 1 && !(i == at && t->sizes[i] == weight->sizes[0]))
      return false;
  return true;
}

/* Get the constant operand as a tensor of one element, or one per channel. */
static bool operand(session *s, const ir_value *v, const layer *l, rush_value *out)
{
  rush_value c;

  if (!ir_value_as_constant(v, &c))
    return false;
  if (c.tag == RUSH_TAG_INT || c.tag == RUSH_TAG_FLOAT) {
    rush_tensor *t;
    session_check(s,
                  tensor_from_scalar(s->cx, c.tag == RUSH_TAG_INT ? value_float((double)c.as.i) : c,
                                     l->weight->dtype, &t));
    *out = pass_hold(s, value_tensor_steal(t));
  } else if (c.tag == RUSH_TAG_TENSOR && c.as.tensor && is_by_channel(c.as.tensor, l->weight)) {
    const rush_value args[2] = {c, value_of(l->weight)};
    /* A float64 tensor of no dimensions does not promote, but would as a row of one element. */
    *out = dtype_is_float(c.as.tensor->dtype) ? apply(s, "aten::type_as", "", args, 2) : c;
  } else {
    return false;
  }
  *out = as_rows(s, *out, 1);
  return true;
}

/* Make a bias of zeros. */
static rush_value zeros(session *s, const layer *l)
{
  const int64_t sizes[2] = {l->weight->sizes[0], -1};
  rush_value args[3] = {value_of(l->weight)};

  session_check(s, list_of_ints(s->cx, sizes, 2, &args[1]));
  pass_hold(s, args[1]);
  args[0] = apply(s, "aten::reshape", "", args, 2);
  args[1] = value_int(1);
  args[2] = value_int(0);
  rush_value column = apply(s, "aten::select", "int", args, 3);
  return apply(s, "aten::zeros_like", "", &column, 1);
}

static void conv_arithmetic(session *s, ir_node *n, void *arg)
{
  bool multiply = arg != NULL;
  static const uint32_t keys[2][2] = {{OPN_ADD, OPN_SUB}, {OPN_MUL, OPN_DIV}};
  rush_value by, alpha = value_int(1);
  layer l;

  bool second = ir_node_is_op(n, keys[multiply][1]);
  if (!second && !ir_node_is_op(n, keys[multiply][0]))
    return;
  if (n->n_inputs != (multiply ? 2u : 3u) || !layer_before(n, true, &l) || l.weight->n_dims < 3 ||
      l.weight->sizes[1] == 0 ||
      (!multiply && !ir_value_as_constant(ir_node_input(n, 2), &alpha)) ||
      !operand(s, ir_node_input(n, 1), &l, &by))
    return;
  rush_value bias = l.bias ? value_of(l.bias) : zeros(s, &l), weight = value_of(l.weight);
  if (multiply) {
    const char *op = n->op->schema->name;
    weight = apply2(s, op, weight, as_rows(s, by, l.weight->n_dims));
    bias = apply2(s, op, bias, by);
  } else {
    const rush_value args[3] = {bias, by, alpha};
    bias = apply(s, n->op->schema->name, "Tensor", args, 3);
  }
  replace(s, n, &l, weight, bias);
}

void pass_fold_frozen_conv_add_or_sub(session *s, ir_graph *g)
{
  pass_each(s, g->block, conv_arithmetic, NULL);
}

void pass_fold_frozen_conv_mul_or_div(session *s, ir_graph *g)
{
  bool multiply;

  pass_each(s, g->block, conv_arithmetic, &multiply);
}

/* -- Dropout ----------------------------------------------------------------------------------- */

static void drop(session *s, ir_node *n, void *arg)
{
  bool training;

  (void)s;
  (void)arg;
  if (n->kind == IR_OP && n->op->effects & OP_DROPOUT &&
      pass_is_constant_bool(ir_node_input(n, 2), &training) && !training) {
    ir_value *x = ir_node_input(n, 0); /* the result of the operator */
    pass_replace(n, &x);
  }
}

void pass_remove_dropout(session *s, ir_graph *g) { pass_each(s, g->block, drop, NULL); }
