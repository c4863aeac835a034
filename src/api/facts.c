/* api/facts.c -- backend.h: properties of tensors, dtypes and contexts, and a context's memory. */
#include "api/api_int.h"
#include "api/backend_int.h"
#include "base/cpu.h"
#include "base/threads.h"
#include "tensor/dtype.h"

void facts_tensor(const rush_tensor *t, rush_tensor_facts *out)
{
  const bool contiguous = tensor_is_contiguous(t);

  out->sizes = t->sizes;
  out->strides = t->strides;
  out->data = t->data;
  out->n_elems = t->n_elems;
  out->n_dims = t->n_dims;
  out->dtype = t->dtype;
  out->flags = (contiguous           ? RUSH_TENSOR_IS_CONTIGUOUS | RUSH_TENSOR_IS_DENSE
                : tensor_is_dense(t) ? RUSH_TENSOR_IS_DENSE
                                     : 0u) |
               (tensor_requires_grad(t) ? RUSH_TENSOR_NEEDS_GRAD : 0u) |
               (tensor_is_meta(t) ? RUSH_TENSOR_HAS_NO_DATA : 0u);
}

uint32_t facts_dtype(rush_dtype dtype)
{
  if (!dtype_is_valid(dtype))
    return 0;
  const uint32_t is_signed = dtype_is_signed((int)dtype) ? RUSH_DTYPE_IS_SIGNED : 0u;

  switch (dtype_class_of((int)dtype)) {
  case DTYPE_BOOL: return 0;
  case DTYPE_INT: return RUSH_DTYPE_IS_INTEGER | is_signed;
  case DTYPE_FLOAT: return RUSH_DTYPE_IS_FLOAT | is_signed;
  case DTYPE_COMPLEX: return RUSH_DTYPE_IS_COMPLEX | is_signed;
  case DTYPE_QUANT: return RUSH_DTYPE_IS_QUANTIZED | is_signed;
  }
  return 0;
}

bool facts_promote(rush_dtype a, rush_dtype b, rush_dtype *out)
{
  int found = dtype_is_valid(a) && dtype_is_valid(b) ? dtype_promote((int)a, (int)b) : DTYPE_NONE;

  if (found != DTYPE_NONE)
    *out = (rush_dtype)found;
  return found != DTYPE_NONE;
}

void facts_context(rush_context *c, rush_context_facts *out)
{
  c = context_or_default(c);
  rush_context_facts all = {.struct_bytes = sizeof all, .n_threads = 1};

  if (c) {
    const context_options *o = context_get_options(c);
    mem_stats m;

    mem_get_stats(c, &m);
    all.n_threads = rush_context_get_threads(c);
    all.executor = rush_context_get_executor(c);
    all.no_reuse = o->no_reuse;
    all.limit_bytes = m.limit_bytes;
  }
  if (all.struct_bytes > out->struct_bytes)
    all.struct_bytes = out->struct_bytes;
  memcpy(out, &all, all.struct_bytes);
}

bool facts_device(rush_value v, int *kind, int *index)
{
  if (v.tag != RUSH_TAG_DEVICE)
    return false;
  *kind = value_device_kind(v);
  *index = value_device_index(v);
  return true;
}

rush_value facts_make_device(int kind, int index) { return value_device(kind, index); }

rush_cpu facts_cpu(rush_context *c)
{
  return (rush_cpu)cpu_choose(c ? context_get_options(c)->cpu : CPU_NATIVE);
}

void facts_warn(rush_context *c, const char *text)
{
  c = context_or_default(c);
  if (c)
    context_warn(c, text);
}

void *facts_alloc(rush_context *c, size_t n_bytes)
{
  c = context_or_default(c);
  return c ? mem_alloc_zero(c, n_bytes) : NULL;
}

void facts_free(rush_context *c, void *p, size_t n_bytes)
{
  if (p)
    mem_free(context_or_default(c), p, n_bytes);
}
