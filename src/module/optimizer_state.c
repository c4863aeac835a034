/* module/optimizer_state.c -- the state of an optimizer as a value, in the layout of torch.optim's
 * state_dict():
 *
 *   {"state": {0: {"step": tensor(3.), "exp_avg": ...}, ...},
 *    "param_groups": [{"lr": 0.001, "betas": (0.9, 0.999), ..., "params": [0, 1, ...]}]}
 *
 * One table has the keys of each class's groups in PyTorch's order; saving and loading read it.
 * Loading reads everything into copies and replaces the optimizer's parts last, so that a state
 * that does not fit changes nothing. */
#include "module/optimizer.h"

#include <stddef.h>

#include "value/type.h"

/* -- Layout ------------------------------------------------------------------------------------ */

typedef enum field_kind {
  FIELD_NUMBER,    /* a double of the options at `offset` */
  FIELD_FLAG,      /* a bool of the options at `offset` */
  FIELD_BETAS,     /* (beta1, beta2) */
  FIELD_DECOUPLED, /* the group's `decoupled` */
  FIELD_NONE,      /* None, False: what chooses among PyTorch's implementations */
  FIELD_FALSE
} field_kind;

typedef struct field {
  uint8_t kinds; /* bit k: of the rush_optimizer_kind k */
  uint8_t kind;
  uint16_t offset;
  char name[28];
} field;

#define SGD (1 << RUSH_OPTIMIZER_SGD)
#define ADAM (1 << RUSH_OPTIMIZER_ADAM | 1 << RUSH_OPTIMIZER_ADAMW)
#define RMSPROP (1 << RUSH_OPTIMIZER_RMSPROP)
#define ADAGRAD (1 << RUSH_OPTIMIZER_ADAGRAD)
#define ALL (SGD | ADAM | RMSPROP | ADAGRAD)
#define AT(member) offsetof(rush_optimizer_options, member)

static const field fields[] = {
  {ALL, FIELD_NUMBER, AT(lr), "lr"},
  {SGD | RMSPROP, FIELD_NUMBER, AT(momentum), "momentum"},
  {SGD, FIELD_NUMBER, AT(dampening), "dampening"},
  {ADAM, FIELD_BETAS, 0, "betas"},
  {ADAGRAD, FIELD_NUMBER, AT(lr_decay), "lr_decay"},
  {RMSPROP, FIELD_NUMBER, AT(alpha), "alpha"},
  {ADAM | RMSPROP | ADAGRAD, FIELD_NUMBER, AT(eps), "eps"},
  {RMSPROP, FIELD_FLAG, AT(centered), "centered"},
  {ALL, FIELD_NUMBER, AT(weight_decay), "weight_decay"},
  {ADAGRAD, FIELD_NUMBER, AT(initial_accumulator), "initial_accumulator_value"},
  {SGD, FIELD_FLAG, AT(nesterov), "nesterov"},
  {ADAM, FIELD_FLAG, AT(amsgrad), "amsgrad"},
  {ALL, FIELD_FLAG, AT(maximize), "maximize"},
  {ALL, FIELD_NONE, 0, "foreach"},
  {ADAM | RMSPROP, FIELD_FALSE, 0, "capturable"},
  {ALL, FIELD_FALSE, 0, "differentiable"},
  {SGD | ADAM | ADAGRAD, FIELD_NONE, 0, "fused"},
  {ADAM, FIELD_DECOUPLED, 0, "decoupled_weight_decay"},
};

#define N_FIELDS (sizeof fields / sizeof *fields)

/* Return the name of state k, or NULL. */
static const char *state_name(rush_optimizer_kind kind, int k)
{
  static const char *const names[][OPTIM_STATES] = {
    {"momentum_buffer"},
    {"exp_avg", "exp_avg_sq", "max_exp_avg_sq"},
    {"exp_avg", "exp_avg_sq", "max_exp_avg_sq"},
    {"square_avg", "momentum_buffer", "grad_avg"},
    {"sum"},
  };
  return names[kind][k];
}

static double *number_at(rush_optimizer_options *o, const field *f)
{
  return (double *)(void *)((char *)o + f->offset);
}
static bool *flag_at(rush_optimizer_options *o, const field *f)
{
  return (bool *)((char *)o + f->offset);
}

/* -- Saving ------------------------------------------------------------------------------------ */

static rush_status any_dict(call_ctx *cx, rush_value *out)
{
  out->tag = RUSH_TAG_NONE;
  rush_dict *d;
  TRY(dict_new(cx, type_simple(TYPE_ANY), type_simple(TYPE_ANY), &d));
  *out = (rush_value){.tag = RUSH_TAG_DICT, .as.dict = d};
  return RUSH_OK;
}

/* Set a key of a dict; steals v. */
static rush_status put_steal(call_ctx *cx, rush_value d, const char *name, rush_value v)
{
  rush_value key;
  const rush_status st = string_new(cx, name, strlen(name), &key);
  if (st == RUSH_OK)
    return dict_set_steal(cx, d.as.dict, key, v);
  value_release(v);
  return st;
}

static rush_status betas(call_ctx *cx, const rush_optimizer_options *o, rush_value *out)
{
  rush_tuple *t;
  TRY(tuple_new(cx, NULL, 2, &t));
  t->items[0] = rush_value_float(o->beta1);
  t->items[1] = rush_value_float(o->beta2);
  *out = (rush_value){.tag = RUSH_TAG_TUPLE, .as.tuple = t};
  return RUSH_OK;
}

static rush_status field_value(call_ctx *cx, const optimizer_group *g, const field *f,
                               rush_value *out)
{
  rush_optimizer_options o = g->options;
  switch ((field_kind)f->kind) {
  case FIELD_NUMBER:
    *out = rush_value_float(*number_at(&o, f));
    return RUSH_OK;
  case FIELD_FLAG:
    *out = rush_value_bool(*flag_at(&o, f));
    return RUSH_OK;
  case FIELD_BETAS:
    return betas(cx, &o, out);
  case FIELD_DECOUPLED:
    *out = rush_value_bool(g->decoupled);
    return RUSH_OK;
  case FIELD_NONE:
    *out = value_none();
    return RUSH_OK;
  case FIELD_FALSE:
    *out = rush_value_bool(false);
    return RUSH_OK;
  }
  return RUSH_OK;
}

static rush_status save_group(call_ctx *cx, const rush_optimizer *o, size_t g, rush_value d)
{
  rush_list *params;
  rush_value v = value_none();
  for (size_t i = 0; i < N_FIELDS; i++)
    if (fields[i].kinds >> o->kind & 1) {
      TRY(field_value(cx, &o->groups[g], &fields[i], &v));
      TRY(put_steal(cx, d, fields[i].name, v));
    }
  TRY(list_new(cx, type_simple(TYPE_INT), optimizer_group_end(o, g) - o->groups[g].first,
               &params));
  v = (rush_value){.tag = RUSH_TAG_LIST, .as.list = params};
  for (size_t i = o->groups[g].first; i < optimizer_group_end(o, g); i++)
    params->items[params->n++] = rush_value_int((int64_t)i); /* reserved */
  return put_steal(cx, d, "params", v);
}

static rush_status save_groups(call_ctx *cx, const rush_optimizer *o, rush_list *groups)
{
  for (size_t g = 0; g < o->n_groups; g++) {
    rush_value d;
    TRY(any_dict(cx, &d));
    rush_status st = list_append_steal(cx, groups, value_retain(d));
    if (st == RUSH_OK)
      st = save_group(cx, o, g, d);
    value_release(d);
    TRY(st);
  }
  return RUSH_OK;
}

static rush_status save_param(call_ctx *cx, const rush_optimizer *o, const optimizer_param *p,
                              rush_value d)
{
  if (o->kind != RUSH_OPTIMIZER_SGD) {
    rush_tensor *step;
    TRY(tensor_from_scalar(cx, rush_value_float(p->step), RUSH_FLOAT32, &step));
    TRY(put_steal(cx, d, "step", value_tensor_steal(step)));
  }
  for (int k = 0; k < OPTIM_STATES; k++)
    if (p->state[k])
      TRY(put_steal(cx, d, state_name(o->kind, k), value_tensor_steal(tensor_retain(p->state[k]))));
  return RUSH_OK;
}

static rush_status save_params(call_ctx *cx, const rush_optimizer *o, rush_value state)
{
  for (size_t i = 0; i < o->n_params; i++) {
    rush_value d;
    if (!o->params[i].state[0] || (o->kind == RUSH_OPTIMIZER_SGD && o->params[i].step == 0))
      continue;
    TRY(any_dict(cx, &d));
    rush_status st = dict_set_steal(cx, state.as.dict, rush_value_int((int64_t)i), value_retain(d));
    if (st == RUSH_OK)
      st = save_param(cx, o, &o->params[i], d);
    value_release(d);
    TRY(st);
  }
  return RUSH_OK;
}

static rush_status save_all(call_ctx *cx, const rush_optimizer *o, rush_value all)
{
  rush_value state;
  rush_list *groups;
  TRY(any_dict(cx, &state));
  rush_status st = put_steal(cx, all, "state", value_retain(state));
  if (st == RUSH_OK)
    st = save_params(cx, o, state);
  value_release(state);
  TRY(st);
  TRY(list_new(cx, type_simple(TYPE_ANY), o->n_groups, &groups));
  const rush_value list = {.tag = RUSH_TAG_LIST, .as.list = groups};
  st = put_steal(cx, all, "param_groups", value_retain(list));
  if (st == RUSH_OK)
    st = save_groups(cx, o, groups);
  value_release(list);
  return st;
}

rush_status optimizer_save_state(call_ctx *cx, const rush_optimizer *o, rush_value *out)
{
  rush_value all;
  TRY(any_dict(cx, &all));
  const rush_status st = save_all(cx, o, all);
  if (st == RUSH_OK)
    *out = all;
  else
    value_release(all);
  return st;
}

/* -- Loading ----------------------------------------------------------------------------------- */

static rush_status misfit(call_ctx *cx, const char *type, const char *text)
{
  return error_set_type(cx->err, RUSH_EARGUMENT, type, "%s", text);
}

/* Get the value of a key, borrowed, or NULL.  An allocation that fails counts as an absent key. */
static rush_status get(call_ctx *cx, rush_value d, const char *name, rush_value **out)
{
  rush_value key;
  *out = NULL;
  if (d.tag != RUSH_TAG_DICT)
    return RUSH_OK;
  TRY(string_new(cx, name, strlen(name), &key));
  *out = dict_get(d.as.dict, key);
  value_release(key);
  return RUSH_OK;
}

/* Get a key of a kind that must be there. */
static rush_status required(call_ctx *cx, rush_value d, const char *name, rush_tag tag,
                        rush_value *out)
{
  rush_value *v;
  TRY(get(cx, d, name, &v));
  if (!v || v->tag != (uint32_t)tag)
    return error_set_type(cx->err, RUSH_EARGUMENT, "ValueError",
                          "a state of an optimizer has '%s', a %s; this one has %s", name,
                          tag == RUSH_TAG_DICT ? "dict" : "list", v ? "another value" : "none");
  *out = *v;
  return RUSH_OK;
}

/* Read a number, or a tensor of one element. */
static rush_status read_number(call_ctx *cx, const char *name, rush_value v, double *out)
{
  if (v.tag == RUSH_TAG_TENSOR && v.as.tensor && v.as.tensor->n_elems == 1 &&
      dtype_class_of(v.as.tensor->dtype) != DTYPE_COMPLEX)
    TRY(tensor_item(cx, v.as.tensor, &v));
  if (v.tag != RUSH_TAG_FLOAT && v.tag != RUSH_TAG_INT && v.tag != RUSH_TAG_BOOL)
    return error_set_type(cx->err, RUSH_EARGUMENT, "ValueError",
                          "'%s' of a state of an optimizer is a number", name);
  *out = v.tag == RUSH_TAG_FLOAT ? v.as.d : v.tag == RUSH_TAG_BOOL ? v.as.b : (double)v.as.i;
  return RUSH_OK;
}

static rush_status read_betas(call_ctx *cx, rush_value v, rush_optimizer_options *o)
{
  const rush_value *items = v.tag == RUSH_TAG_TUPLE  ? v.as.tuple->items
                            : v.tag == RUSH_TAG_LIST ? v.as.list->items
                                                     : NULL;
  if (!items || (v.tag == RUSH_TAG_TUPLE ? v.as.tuple->n : v.as.list->n) != 2)
    return misfit(cx, "ValueError", "'betas' of a state of an optimizer are two numbers");
  TRY(read_number(cx, "betas", items[0], &o->beta1));
  return read_number(cx, "betas", items[1], &o->beta2);
}

/* Read the options of a group; what the dict lacks stays. */
static rush_status load_group(call_ctx *cx, rush_optimizer_kind kind, rush_value d,
                              optimizer_group *g)
{
  for (size_t i = 0; i < N_FIELDS; i++) {
    const field *f = &fields[i];
    rush_value *v = NULL;
    double x = 0;
    if (f->kinds >> kind & 1)
      TRY(get(cx, d, f->name, &v));
    if (!v || f->kind == FIELD_NONE || f->kind == FIELD_FALSE)
      continue;
    if (f->kind == FIELD_BETAS)
      TRY(read_betas(cx, *v, &g->options));
    else
      TRY(read_number(cx, f->name, *v, &x));
    if (f->kind == FIELD_NUMBER)
      *number_at(&g->options, f) = x;
    else if (f->kind == FIELD_FLAG)
      *flag_at(&g->options, f) = x != 0;
    else if (f->kind == FIELD_DECOUPLED)
      g->decoupled = x != 0;
  }
  return optimizer_check(cx, kind, &g->options);
}

/* Copy a saved tensor to state k of a parameter, in its dtype. */
static rush_status load_tensor(call_ctx *cx, const char *name, size_t i, rush_value v,
                               optimizer_param *p, int k)
{
  const rush_tensor *like = p->tensor;
  sizes_text want, got;
  rush_tensor *from = v.tag == RUSH_TAG_TENSOR ? v.as.tensor : NULL, *t;
  if (!from)
    return v.tag == RUSH_TAG_NONE
             ? RUSH_OK
             : misfit(cx, "ValueError", "the state of a parameter holds tensors");
  if (from->n_dims != like->n_dims ||
      memcmp(from->sizes, like->sizes, sizeof *like->sizes * like->n_dims) != 0)
    return error_set_type(cx->err, RUSH_EARGUMENT, "ValueError",
                          "'%s' of parameter %zu has sizes %s: expected those of the parameter, %s",
                          name, i, sizes_print(&got, from->n_dims, from->sizes),
                          sizes_print(&want, like->n_dims, like->sizes));
  TRY(tensor_new_like(cx, like, DTYPE_NONE, &t));
  t->h.flags &= (uint8_t) ~(TENSOR_REQUIRES_GRAD | TENSOR_IS_PARAMETER);
  p->state[k] = t;
  return tensor_copy(cx, t, from);
}

static rush_status load_param(call_ctx *cx, rush_optimizer_kind kind, size_t i, rush_value d,
                              optimizer_param *p)
{
  rush_value *v;
  TRY(get(cx, d, "step", &v));
  if (v)
    TRY(read_number(cx, "step", *v, &p->step));
  for (int k = 0; k < OPTIM_STATES && state_name(kind, k); k++) {
    TRY(get(cx, d, state_name(kind, k), &v));
    if (v)
      TRY(load_tensor(cx, state_name(kind, k), i, *v, p, k));
  }
  if (kind == RUSH_OPTIMIZER_SGD)
    p->step = p->state[0] != NULL;
  return RUSH_OK;
}

/* What is loaded, beside the optimizer until all of it fits. */
typedef struct loaded {
  optimizer_group *groups;
  optimizer_param *params; /* tensors are borrowed, states owned */
} loaded;

/* Find the state of the parameter that a saved group calls `id`. */
static rush_status load_params(call_ctx *cx, const rush_optimizer *o, size_t g, rush_value params,
                               rush_value state, loaded *to)
{
  const size_t first = o->groups[g].first, n = optimizer_group_end(o, g) - first;
  if (params.as.list->n != n)
    return misfit(cx, "ValueError",
                  "loaded state dict contains a parameter group that doesn't match the size of "
                  "optimizer's group");
  for (size_t i = 0; i < n; i++) {
    const rush_value id = params.as.list->items[i];
    const rush_value *d = id.tag == RUSH_TAG_INT ? dict_get(state.as.dict, id) : NULL;
    if (id.tag != RUSH_TAG_INT)
      return misfit(cx, "ValueError", "'params' of a state of an optimizer are numbers");
    if (d)
      TRY(load_param(cx, o->kind, first + i, *d, &to->params[first + i]));
  }
  return RUSH_OK;
}

static rush_status load_all(call_ctx *cx, const rush_optimizer *o, rush_value from, loaded *to)
{
  rush_value state, groups, params;
  TRY(required(cx, from, "state", RUSH_TAG_DICT, &state));
  TRY(required(cx, from, "param_groups", RUSH_TAG_LIST, &groups));
  if (groups.as.list->n != o->n_groups)
    return misfit(cx, "ValueError",
                  "loaded state dict has a different number of parameter groups");
  for (size_t g = 0; g < o->n_groups; g++) {
    TRY(required(cx, groups.as.list->items[g], "params", RUSH_TAG_LIST, &params));
    TRY(load_group(cx, o->kind, groups.as.list->items[g], &to->groups[g]));
    TRY(load_params(cx, o, g, params, state, to));
  }
  return RUSH_OK;
}

/* Exchange the optimizer's groups and states with the loaded ones. */
static void exchange(rush_optimizer *o, loaded *with)
{
  memcpy(o->groups, with->groups, o->n_groups * sizeof *o->groups);
  for (size_t i = 0; i < o->n_params; i++) {
    const optimizer_param old = o->params[i];
    o->params[i] = with->params[i];
    with->params[i] = old;
  }
}

rush_status optimizer_load_state(call_ctx *cx, rush_optimizer *o, rush_value from)
{
  const size_t group_bytes = o->n_groups * sizeof(optimizer_group),
               param_bytes = o->n_params * sizeof(optimizer_param);
  loaded to = {mem_alloc(o->ctx, group_bytes), mem_alloc_zero(o->ctx, param_bytes)};
  rush_status st = to.groups && to.params ? RUSH_OK : call_nomem(cx);
  if (st == RUSH_OK) {
    memcpy(to.groups, o->groups, group_bytes);
    for (size_t i = 0; i < o->n_params; i++)
      to.params[i].tensor = o->params[i].tensor;
    st = load_all(cx, o, from, &to);
  }
  if (st == RUSH_OK)
    exchange(o, &to);
  for (size_t i = 0; to.params && i < o->n_params; i++)
    for (int k = 0; k < OPTIM_STATES; k++)
      tensor_release(to.params[i].state[k]);
  mem_free(o->ctx, to.groups, group_bytes);
  mem_free(o->ctx, to.params, param_bytes);
  return st;
}
