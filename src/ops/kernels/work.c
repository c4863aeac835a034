/* ops/kernels/work.c -- holds the temporaries of a kernel's call in one array, so that one exit
 * releases them.  The array has a fixed length: no kernel needs more, and opening it costs nothing.
 */
#include "ops/kernels/work.h"

#include <string.h>

#include "ops/kernels/nn.h"

/* What is returned after a failure. */
static const int64_t no_sizes[TENSOR_MAX_DIMS];
static const rush_tensor no_tensor = {.dtype = RUSH_FLOAT32,
                                      .sizes = (int64_t *)(uintptr_t)no_sizes,
                                      .strides = (int64_t *)(uintptr_t)no_sizes};
static rush_tensor *nothing(void) { return (rush_tensor *)(uintptr_t)&no_tensor; }

rush_tensor *work_keep_steal(work *w, rush_tensor *t, rush_status st)
{
  WORK_DO(w, st);
  if (w->st == RUSH_OK && w->n == WORK_MOST)
    w->st = call_fail(w->cx, "%s: more than %d temporaries",
                      w->call ? w->call->op->schema->name : "this operator", WORK_MOST);
  if (w->st != RUSH_OK) {
    if (st == RUSH_OK)
      tensor_release(t);
    return nothing();
  }
  w->held[w->n].result = NULL;
  return w->held[w->n++].t = t;
}

rush_status work_end(work *w)
{
  for (int i = 0; i < w->n; i++) {
    if (w->held[i].result)
      WORK_DO(w, tensor_copy(w->cx, w->held[i].result, w->held[i].t));
    tensor_release(w->held[i].t);
  }
  return w->st;
}

rush_status work_end_with(work *w, rush_tensor *t, rush_tensor **out)
{
  if (w->st == RUSH_OK)
    *out = tensor_retain(t);
  return work_end(w);
}

void work_drop(work *w, const rush_tensor *t)
{
  for (int i = 0; i < w->n; i++)
    if (w->held[i].t == t && !w->held[i].result) {
      tensor_release(w->held[i].t);
      w->held[i] = w->held[--w->n];
      return;
    }
}

/* -- Tensors ----------------------------------------------------------------------------------- */

rush_tensor *work_rows(work *w, rush_tensor *t, int dtype)
{
  rush_tensor *as = NULL;
  if (!t || (t->dtype == dtype && tensor_is_contiguous(t)))
    return t;
  WORK_DO(w, tensor_to_dtype(w->cx, t, dtype, &as));
  return work_keep_steal(w, as, w->st);
}

rush_tensor *work_input(work *w, rush_tensor *t)
{
  if (t && dtype_class_of(t->dtype) == DTYPE_FLOAT && dtype_bytes(t->dtype) == 1)
    WORK_DO(w, call_no_dtype(w->cx, "this operator", t->dtype)); /* no kernel computes in it */
  return t ? work_rows(w, t, nn_dtype(t->dtype)) : NULL;
}

rush_tensor *work_new(work *w, int dtype, int n_dims, const int64_t *sizes)
{
  rush_tensor *t = NULL;
  WORK_DO(w, tensor_new(w->cx, dtype, n_dims, sizes, &t));
  return work_keep_steal(w, t, w->st);
}

rush_tensor *work_invoke(work *w, const char *name, const char *overload, const rush_value *args,
                         uint32_t n_args)
{
  rush_tensor *t = NULL;
  WORK_DO(w, nn_invoke(w->cx, name, overload, args, n_args, &t));
  return work_keep_steal(w, t, w->st);
}

void *work_memory(work *w, int64_t n, size_t item)
{
  const int64_t sizes[2] = {n, (int64_t)item};
  rush_tensor *t = work_new(w, RUSH_UINT8, 2, sizes);
  if (t->data)
    memset(t->data, 0, (size_t)t->n_elems);
  return t->data;
}

rush_tensor *work_output(work *w, uint32_t i, int dtype)
{
  rush_tensor *result = call_out(w->call, i);
  if (result->dtype == dtype && tensor_is_contiguous(result))
    return result;
  rush_tensor *t = work_new(w, dtype, result->n_dims, result->sizes);
  if (w->st == RUSH_OK)
    w->held[w->n - 1].result = result;
  return t;
}

void work_return(work *w, uint32_t i, rush_tensor *t, int dtype)
{
  rush_tensor *as = NULL;
  WORK_DO(w, tensor_to_dtype(w->cx, t, dtype, &as));
  if (w->st == RUSH_OK)
    call_return_steal(w->call, i, as);
}

/* -- Arguments --------------------------------------------------------------------------------- */

int call_arg_of_key(const rush_call *c, uint64_t key)
{
  const schema *sc = c->op->schema;
  for (uint32_t i = 0; i < sc->n_args; i++)
    if (sc->args[i].key == key)
      return (int)i;
  return -1;
}

void call_window_of_key(const rush_call *c, uint64_t key, int n, const int64_t *otherwise,
                        int64_t out[3])
{
  const int i = call_arg_of_key(c, key);
  const rush_list *l = i < 0 ? NULL : call_list(c, (uint32_t)i);
  memcpy(out, otherwise, 3 * sizeof *out);
  if (i >= 0 && !call_is_none(c, (uint32_t)i) && !(l && l->n == 0))
    (void)call_ints_fixed(c, (uint32_t)i, out + 3 - n, n);
}
