/* archive/prepare.c -- module_prepare: compiles what a first call would compile, before it.
 *
 * What a call compiles depends on its path and on its arguments' kinds, so the only exact way is to
 * make the call: on deep copies, with a generator of its own, silently.  Rejected: restoring the
 * context's generator afterwards, which would take numbers from threads that draw meanwhile.
 * Without arguments only what the code shows is compiled. */
#include "archive/open.h"
#include "autograd/record.h"
#include "ir/alias.h"
#include "tensor/generator.h"

/* True if a call with these flags set could change the module's state, or gradients of its
 * parameters. */
static bool changes_module(call_ctx *cx, const module *m, function *f)
{
  return m->exported || function_changes_state(cx, f, true) ||
         function_changes_state(cx, f, false) || function_uses_gradients(cx, f);
}

/* Make a tuple of deep copies of all arguments, positional ones first; sharing among them is kept.
 * *out is new. */
static rush_status copy_arguments(call_ctx *cx, const rush_value *args, uint32_t n_args,
                                  const named_arg *kwargs, uint32_t n_kwargs, rush_value *out)
{
  rush_tuple *t;

  TRY(tuple_new(cx, NULL, (size_t)n_args + n_kwargs, &t));
  for (uint32_t i = 0; i < n_args; i++)
    t->items[i] = value_retain(args[i]);
  for (uint32_t i = 0; i < n_kwargs; i++)
    t->items[n_args + i] = value_retain(kwargs[i].value);
  rush_value all = value_heap_steal(RUSH_TAG_TUPLE, t);
  const rush_status st = value_deepcopy(cx, all, out);
  value_release(all);
  return st;
}

/* Call `method` of m, whose state may be written to, with `copies` and names from kwargs. */
static rush_status call_silently(call_ctx *cx, module *m, const char *method,
                                 const rush_tuple *copies, uint32_t n_args, const named_arg *kwargs,
                                 uint32_t n_kwargs)
{
  named_arg *named = mem_alloc(cx->ctx, ((size_t)n_kwargs + 1) * sizeof *named);
  generator *own;
  rush_value result;

  if (!named)
    return call_nomem(cx);
  for (uint32_t i = 0; i < n_kwargs; i++)
    named[i] = (named_arg){kwargs[i].name, copies->items[n_args + i]};
  rush_status st = generator_new(cx, 0, &own);
  if (st == RUSH_OK) {
    cx->trial = own;
    cx->watch &= (uint8_t)~CALL_PROFILED;
    st = module_call(cx, m, method, copies->items, n_args, named, n_kwargs, &result);
    cx->trial = NULL;
    value_release(value_heap_steal(RUSH_TAG_GENERATOR, own));
  }
  if (st == RUSH_OK)
    value_release(result);
  mem_free(cx->ctx, named, ((size_t)n_kwargs + 1) * sizeof *named);
  return st;
}

static rush_status try_call(call_ctx *cx, module *m, const char *method, function *f,
                            const rush_value *args, uint32_t n_args, const named_arg *kwargs,
                            uint32_t n_kwargs)
{
  rush_value copies = value_none();
  module *used = NULL;

  rush_status st = copy_arguments(cx, args, n_args, kwargs, n_kwargs, &copies);
  if (st == RUSH_OK && changes_module(cx, m, f))
    st = module_copy(cx, m, &used);
  if (st == RUSH_OK)
    st = call_silently(cx, used ? used : m, method, copies.as.tuple, n_args, kwargs, n_kwargs);
  module_release(used);
  value_release(copies);
  return st;
}

/* Prepare without arguments: with sample inputs, or without arguments if none are needed; otherwise
 * nothing is run. */
static rush_status prepare_without_args(call_ctx *cx, module *m, const char *method, function *f)
{
  rush_value samples;
  named_arg *kwargs = NULL;
  bool needs_arguments = m->exported && m->exported->n_leaves > 0;

  for (uint32_t i = function_takes_self(f) ? 1 : 0; !m->exported && i < f->schema->n_args; i++)
    needs_arguments |= !f->schema->args[i].has_default;
  if (!needs_arguments)
    return try_call(cx, m, method, f, NULL, 0, NULL, 0);
  TRY(module_samples(cx, m, &samples));
  if (samples.tag != RUSH_TAG_TUPLE)
    return module_place(cx, m, code_prepare(cx, f));
  const rush_tuple *args = samples.as.tuple->items[0].as.tuple;
  const rush_dict *named = samples.as.tuple->items[1].as.dict;
  const size_t bytes = (named->n + 1) * sizeof *kwargs;
  rush_status st = (kwargs = mem_alloc(cx->ctx, bytes)) ? RUSH_OK : call_nomem(cx);
  size_t pos = 0;
  uint32_t n = 0;
  for (dict_entry *e; st == RUSH_OK && (e = dict_next(named, &pos)); n++)
    kwargs[n] = (named_arg){value_str(e->key), e->value};
  if (st == RUSH_OK)
    st = try_call(cx, m, method, f, args->items, (uint32_t)args->n, kwargs, n);
  mem_free(cx->ctx, kwargs, bytes);
  value_release(samples);
  return st;
}

rush_status module_prepare(call_ctx *cx, module *m, const char *method, const rush_value *args,
                           uint32_t n_args, const named_arg *kwargs, uint32_t n_kwargs)
{
  function *f;

  TRY(module_method(m, method, &f, cx->err));
  TRY(module_place(cx, m, function_prepare(cx, f)));
  return args || kwargs ? try_call(cx, m, method, f, args, n_args, kwargs, n_kwargs)
                        : prepare_without_args(cx, m, method, f);
}
