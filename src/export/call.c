/* export/call.c -- a call of an exported program (exported.h has the four steps).
 *
 * Arguments are flattened onto the frame's stack of values, checked, and passed to the graph as
 * leaves; of its results, mutated buffers and inputs are written back before the user's results are
 * combined.  Messages name the argument as PyTorch's ep.module() does. */
#include "export/exported.h"

#include "run/outputs.h"

#include <stdio.h>

#define FEW 16

/* One call's work space: leaves of the arguments, then the graph's arguments. */
typedef struct exported_frame {
  call_ctx *cx;
  exported *e;
  rush_value *leaves;
  uint32_t n_leaves;
  output_buffers *outputs; /* of the caller's, by the user's leaves; or NULL */
} exported_frame;

/* True if a positional argument or a keyword of the program has this name. */
static bool knows_name(const exported *e, str name)
{
  const tree_spec *named = &e->in->children[1];

  for (uint32_t i = 0; i < e->n_arg_names; i++)
    if (str_eq(str_of(e->arg_names[i]), name))
      return true;
  for (uint32_t i = 0; i < named->n_children; i++)
    if (str_eq(value_str(named->keys[i]), name))
      return true;
  return false;
}

static rush_status too_many(exported_frame *f, uint32_t n_args, const named_arg *kwargs,
                            uint32_t n_kwargs)
{
  const tree_spec *in = f->e->in;
  uint32_t i = 0;

  while (i < n_kwargs && knows_name(f->e, kwargs[i].name))
    i++;
  if (i < n_kwargs)
    return error_set_type(
      f->cx->err, RUSH_EARGUMENT, "ValueError",
      "Trying to flatten user inputs with exported input tree spec: unexpected keyword '%.*s'; the "
      "exported program takes %u positional and %u keyword arguments, the first of them '%s'",
      (int)kwargs[i].name.len, kwargs[i].name.p, in->children[0].n_children,
      in->children[1].n_children, f->e->n_arg_names ? f->e->arg_names[0] : "");
  return error_set_type(
    f->cx->err, RUSH_EARGUMENT, "ValueError",
    "Trying to flatten user inputs with exported input tree spec: the exported program takes %u "
    "positional and %u keyword arguments, but got %u and %u. Please check that the inputs have "
    "the same number and type of args and kwargs as the ones you used when tracing.",
    in->children[0].n_children, in->children[1].n_children, n_args, n_kwargs);
}

static void add_names(text_buf *t, const tree_spec *named, const named_arg *kwargs,
                      uint32_t n_kwargs)
{
  text_puts(t, "Ran into a kwarg keyword mismatch: Got the following keywords [");
  for (uint32_t i = 0; i < n_kwargs; i++)
    text_printf(t, "%s'%.*s'", i ? ", " : "", (int)kwargs[i].name.len, kwargs[i].name.p);
  text_puts(t, "] but expected [");
  for (uint32_t i = 0; i < named->n_children; i++)
    text_printf(t, "%s'%s'", i ? ", " : "", named->keys[i].as.string->text);
  text_puts(t, "]");
}

static rush_status wrong_names(exported_frame *f, const tree_spec *named, const named_arg *kwargs,
                               uint32_t n_kwargs)
{
  text_buf t;

  text_init(&t, f->cx->ctx);
  add_names(&t, named, kwargs, n_kwargs);
  rush_status st =
    text_failed(&t) ? call_nomem(f->cx)
                    : error_set_type(f->cx->err, RUSH_EARGUMENT, "ValueError", "%s", text_str(&t));
  text_free(&t);
  return st;
}

static const rush_value *find_kwarg(const named_arg *kwargs, uint32_t n, str name)
{
  for (uint32_t i = 0; i < n; i++)
    if (str_eq(kwargs[i].name, name))
      return &kwargs[i].value;
  return NULL;
}

/* Flatten positional arguments (also by their names), then keyword arguments in the spec's
 * order. */
static rush_status flatten_arguments(exported_frame *f, const rush_value *args, uint32_t n_args,
                                     const named_arg *kwargs, uint32_t n_kwargs)
{
  const tree_spec *pos = &f->e->in->children[0], *named = &f->e->in->children[1];
  uint32_t used = 0;

  for (uint32_t i = 0; i < pos->n_children; i++) {
    const char *name = i < f->e->n_arg_names ? f->e->arg_names[i] : "argument";
    const rush_value *v = i < n_args ? &args[i] : find_kwarg(kwargs, n_kwargs, str_of(name));
    if (!v)
      return too_many(f, n_args, kwargs, n_kwargs);
    used += i >= n_args;
    TRY(tree_flatten(f->cx, &pos->children[i], *v, name, f->leaves, f->e->n_leaves, &f->n_leaves));
  }
  for (uint32_t i = 0; i < named->n_children; i++) {
    str name = value_str(named->keys[i]);
    const rush_value *v = find_kwarg(kwargs, n_kwargs, name);
    if (!v)
      return wrong_names(f, named, kwargs, n_kwargs);
    used++;
    TRY(tree_flatten(f->cx, &named->children[i], *v, named->keys[i].as.string->text, f->leaves,
                     f->e->n_leaves, &f->n_leaves));
  }
  if (used != n_kwargs)
    return wrong_names(f, named, kwargs, n_kwargs);
  return n_args > pos->n_children ? too_many(f, n_args, kwargs, n_kwargs) : RUSH_OK;
}

/* Combine the user's leaves; those with buffers are copied into them first. */
static rush_status combine_results(exported_frame *f, rush_value *const *user, uint32_t n,
                             rush_value *result)
{
  rush_value few[FEW], *leaves = few;
  uint32_t at = 0;

  if (f->outputs)
    TRY(outputs_finish(f->cx, f->outputs, user, n));
  if (n > FEW && !(leaves = mem_alloc(f->cx->ctx, n * sizeof *leaves)))
    return call_nomem(f->cx);
  for (uint32_t i = 0; i < n; i++)
    leaves[i] = *user[i];
  rush_status st = tree_unflatten(f->cx, f->e->out, leaves, &at, result);
  if (leaves != few)
    mem_free(f->cx->ctx, leaves, n * sizeof *leaves);
  return st;
}

/* Write the graph's new value of a buffer or input to it. */
static rush_status write_back(exported_frame *f, rush_value to, rush_value made)
{
  if (to.tag != RUSH_TAG_TENSOR || made.tag != RUSH_TAG_TENSOR || to.as.tensor == made.as.tensor)
    return RUSH_OK;
  return tensor_copy(f->cx, to.as.tensor, made.as.tensor);
}

/* Distribute graph outputs: buffers, inputs, and the user's leaves. */
static rush_status hand_out(exported_frame *f, rush_object *self, rush_tuple *outs,
                            rush_value *result)
{
  rush_value *few[FEW], **user = few;
  uint32_t n_user = 0;
  rush_status st = RUSH_OK;

  if (f->e->n_outputs > FEW && !(user = mem_alloc(f->cx->ctx, f->e->n_outputs * sizeof *user)))
    return call_nomem(f->cx);
  for (uint32_t i = 0; i < f->e->n_outputs && st == RUSH_OK; i++) {
    const struct exported_output_spec *o = &f->e->outputs[i];
    if (o->kind == OUTPUT_USER)
      user[n_user++] = &outs->items[i];
    else if (o->kind == OUTPUT_BUFFER_MUTATION)
      st = write_back(f, self->slots[o->target], outs->items[i]);
    else if (o->kind == OUTPUT_INPUT_MUTATION)
      st = write_back(f, f->leaves[o->target], outs->items[i]);
  }
  if (st == RUSH_OK)
    st = combine_results(f, user, n_user, result);
  if (user != few)
    mem_free(f->cx->ctx, user, f->e->n_outputs * sizeof *user);
  return st;
}

/* Call forward with the user's buffers at the positions of its own outputs. */
static rush_status call_graph(exported_frame *f, const rush_value *args, uint32_t n,
                              rush_value *outs)
{
  output_buffers of_graph = {.n = f->e->n_outputs};
  uint32_t n_user = 0;

  if (!f->outputs)
    return function_call(f->cx, f->e->forward, args, n, outs);
  if (!(of_graph.direct = mem_alloc_zero(f->cx->ctx, of_graph.n * sizeof *of_graph.direct)))
    return call_nomem(f->cx);
  for (uint32_t i = 0; i < of_graph.n; i++)
    if (f->e->outputs[i].kind == OUTPUT_USER && n_user < f->outputs->n)
      of_graph.direct[i] = f->outputs->direct[n_user++];
  f->cx->outputs = &of_graph;
  rush_status st = function_call(f->cx, f->e->forward, args, n, outs);
  f->cx->outputs = NULL;
  mem_free(f->cx->ctx, of_graph.direct, of_graph.n * sizeof *of_graph.direct);
  return st;
}

static rush_status run_graph(exported_frame *f, rush_value self, rush_value *result)
{
  rush_value few[FEW], *args = few, outs;
  uint32_t n = 0, cap = f->e->n_leaves + 1;

  if (cap > FEW && !(args = mem_alloc(f->cx->ctx, cap * sizeof *args)))
    return call_nomem(f->cx);
  args[n++] = self;
  for (uint32_t i = 0; i < f->e->n_leaves; i++)
    if (f->e->leaf_is_input[i])
      args[n++] = f->leaves[i];
  rush_status st = call_graph(f, args, n, &outs);
  if (args != few)
    mem_free(f->cx->ctx, args, cap * sizeof *args);
  if (st != RUSH_OK)
    return st;
  st = hand_out(f, self.as.object, outs.as.tuple, result);
  value_release(outs);
  return st;
}

static const char *value_python_word(rush_value v)
{
  static const char *const words[] = {"NoneType", "Tensor", "bool",  "int",  "float", "complex",
                                      "str",      "list",   "tuple", "dict", "object"};
  return v.tag < COUNT_OF(words) ? words[v.tag] : "object";
}

static rush_status check_types(exported_frame *f)
{
  const schema *sc = f->e->forward->schema;
  uint32_t n = 1;

  for (uint32_t i = 0; i < f->e->n_leaves; i++) {
    if (!f->e->leaf_is_input[i])
      continue;
    const type *t = sc->args[n++].type;
    if (type_contains_value(t, f->leaves[i]))
      continue;
    if (type_is(t, TYPE_TENSOR))
      return error_set_type(f->cx->err, RUSH_EARGUMENT, "AttributeError",
                            "%s: '%s' object has no attribute 'size'", f->e->leaf_names[i],
                            value_python_word(f->leaves[i]));
    return error_set_type(f->cx->err, RUSH_EARGUMENT, "TypeError", "%s: unexpected %s",
                          f->e->leaf_names[i], value_python_word(f->leaves[i]));
  }
  return RUSH_OK;
}

rush_status exported_call(call_ctx *cx, exported *e, rush_value self, const rush_value *args,
                          uint32_t n_args, const named_arg *kwargs, uint32_t n_kwargs,
                          rush_value *result)
{
  rush_value few[FEW];
  exported_frame f = {.cx = cx, .e = e, .leaves = few, .outputs = cx->outputs};

  if (e->n_leaves > FEW && !(f.leaves = mem_alloc(cx->ctx, e->n_leaves * sizeof *f.leaves)))
    return call_nomem(cx);
  rush_status st = flatten_arguments(&f, args, n_args, kwargs, n_kwargs);
  if (st == RUSH_OK)
    st = check_types(&f);
  for (uint32_t i = 0; i < e->n_guards && st == RUSH_OK; i++)
    st = guard_check(cx, e, e->guards[i], f.leaves);
  if (st == RUSH_OK)
    st = run_graph(&f, self, result);
  if (f.leaves != few)
    mem_free(cx->ctx, f.leaves, e->n_leaves * sizeof *f.leaves);
  return st;
}
