/* api/backend.c -- the function table of backend.h. A plug-in links nothing of ours: it gets this
 * table, so each entry is a thin wrapper with public types around an internal function. Messages of
 * entries with varargs are formatted here, because the internal varargs functions take an error,
 * not a call. */
#include "rushlight/backend.h"

#include "api/api_int.h"
#include "api/backend_int.h"
#include "api/ir_int.h"
#include "base/threads.h"
#include "ops/call/shape.h"
#include "passes/passes.h"

static rush_status register_op(rush_context *c, const rush_op_def *def, rush_error *err)
{
  rush_op_def own;
  call_ctx cx;

  TRY(api_begin(&cx, c, err));
  TRY(API_READ(err, rush_op_def, def, &own));
  return op_register(cx.ctx, &own, err);
}

static void *get_user(const rush_call *call) { return call->op->outside->user; }
static rush_context *get_context(const rush_call *call) { return call->cx->ctx; }
static size_t get_n_args(const rush_call *call) { return call->n_args; }
static rush_value get_arg(const rush_call *call, size_t i)
{
  return i < call->n_args ? call->args[i] : rush_value_none();
}

static void set_result(rush_call *call, size_t i, rush_value v)
{
  if (i >= call->n_results) {
    value_release(v);
    return;
  }
  value_release(call->results[i]);
  call->results[i] = v;
}

static rush_status fail(rush_call *call, const char *type, const char *fmt, ...)
{
  va_list ap;

  va_start(ap, fmt);
  error_set_va(call->cx->err, RUSH_ERAISED, type ? type : "RuntimeError", fmt, ap);
  va_end(ap);
  return RUSH_ERAISED;
}

static rush_status fail_shape(rush_shape *q, const char *type, const char *fmt, ...)
{
  va_list ap;

  va_start(ap, fmt);
  rush_status st = shape_fn_fail(q, type, fmt, ap);
  va_end(ap);
  return st;
}

static rush_status poll_call(rush_call *call) { return call_poll(call->cx); }

static rush_status create(rush_call *call, rush_dtype dtype, int n_dims, const int64_t *sizes,
                          rush_value *out)
{
  rush_tensor *t;

  TRY(tensor_new(call->cx, (int)dtype, n_dims, sizes, &t));
  *out = value_tensor_steal(t);
  return RUSH_OK;
}

static rush_status contiguous(rush_call *call, rush_tensor *t, rush_value *out)
{
  return rush_tensor_contiguous(call->cx->ctx, t, out, call->cx->err);
}

static rush_status call_other(rush_call *call, const char *name, const rush_value *args,
                              size_t n_args, rush_value *out)
{
  rush_value results[8];
  uint32_t n = 0;

  TRY(call_enter(call->cx));
  rush_status st = op_call_by_name(call->cx, str_of(name), args, (uint32_t)n_args, NULL, 0, results,
                                   COUNT_OF(results), &n);
  call_leave(call->cx);
  TRY(st);
  if (n == 1) {
    *out = results[0];
    return RUSH_OK;
  }
  while (n > 0)
    rush_value_release(results[--n]);
  return error_set(call->cx->err, RUSH_EARGUMENT, "%s does not give one result", name);
}

static rush_error *get_error(const rush_call *call) { return call->cx->err; }
static rush_error *get_pass_error(const rush_pass *pass) { return pass->s->cx->err; }

static rush_status set_error(rush_error *err, rush_status status, const char *type, const char *fmt,
                             ...)
{
  va_list ap;

  va_start(ap, fmt);
  rush_status st = error_set_va(err, status, type, fmt, ap);
  va_end(ap);
  return st;
}

static rush_status fail_pass(rush_pass *pass, const char *type, const char *fmt, ...)
{
  va_list ap;

  va_start(ap, fmt);
  error_set_va(pass->s->cx->err, RUSH_ERAISED, type ? type : "RuntimeError", fmt, ap);
  va_end(ap);
  return RUSH_ERAISED;
}

static rush_status no_memory(rush_call *call) { return call_nomem(call->cx); }
static const rush_value *get_args(const rush_call *call, size_t *n)
{
  *n = call->n_args;
  return call->args;
}

/* Return the first argument whose buffer dies with the call.  A buffer that is already used is
 * referenced twice, so it is not used again. */
static rush_tensor *dying_buffer(rush_call *call, const rush_result *r)
{
  rush_tensor *t = NULL;

  for (uint32_t i = 0; !t && i < call->n_args && i < 64 && call->last_use >> i; i++)
    t = call_take_buffer(call, i, (int)r->dtype, r->n_dims, r->sizes);
  return t;
}

static rush_status make_result(rush_call *call, size_t i, rush_result *r)
{
  if (i >= call->n_results)
    return error_set(call->cx->err, RUSH_EARGUMENT, "%s has no result %zu", call->op->schema->name,
                     i);
  rush_tensor *t = r->may_reuse && !r->strides ? dying_buffer(call, r) : NULL;

  r->reused = t != NULL;
  if (!t && !r->strides) {
    TRY(tensor_new(call->cx, (int)r->dtype, r->n_dims, r->sizes, &t));
  } else if (!t) {
    if (r->n_dims >= 0 && r->n_dims <= TENSOR_MAX_DIMS &&
        !strides_are_dense(r->n_dims, r->sizes, r->strides))
      return error_set(call->cx->err, RUSH_EARGUMENT,
                       "the strides leave gaps in memory, or elements share it");
    TRY(tensor_new_strided(call->cx, (int)r->dtype, r->n_dims, r->sizes, r->strides, &t));
  }
  r->tensor = t;
  r->data = tensor_data_mut(t);
  value_release(call->results[i]);
  call_return_steal(call, (uint32_t)i, t);
  return RUSH_OK;
}

static rush_status parallel(rush_call *call, int64_t n, int64_t grain,
                            void (*fn)(void *arg, int64_t begin, int64_t end), void *arg)
{
  return parallel_for(call->cx, n, grain > 0 ? grain : 1, fn, arg);
}

static const rush_backend_api functions = {
    .struct_bytes = sizeof(rush_backend_api),
    .abi = RUSH_BACKEND_ABI,
    .op_register = register_op,
    .call_user = get_user,
    .call_context = get_context,
    .call_n_args = get_n_args,
    .call_arg = get_arg,
    .call_return_steal = set_result,
    .call_fail = fail,
    .call_poll = poll_call,
    .call_create = create,
    .call_contiguous = contiguous,
    .call_op = call_other,
    .value_release = rush_value_release,
    .tensor_dtype = rush_tensor_dtype,
    .tensor_n_dims = rush_tensor_n_dims,
    .tensor_sizes = rush_tensor_sizes,
    .tensor_strides = rush_tensor_strides,
    .tensor_n_elems = rush_tensor_n_elems,
    .tensor_data = rush_tensor_data,
    .tensor_data_mut = rush_tensor_data_mut,
    .pass_register = graph_pass_register,
    .pass_group = graph_pass_group,
    .pass_context = graph_pass_context,
    .pass_block = graph_pass_block,
    .block_first = graph_block_first,
    .node_next = graph_node_next,
    .node_kind = graph_node_kind,
    .node_overload = graph_node_overload,
    .node_n_inputs = graph_node_n_inputs,
    .node_input = graph_node_input,
    .node_n_outputs = graph_node_n_outputs,
    .node_output = graph_node_output,
    .node_n_blocks = graph_node_n_blocks,
    .node_block = graph_node_block,
    .block_n_inputs = graph_block_n_inputs,
    .block_input = graph_block_input,
    .block_n_outputs = graph_block_n_outputs,
    .block_output = graph_block_output,
    .value_id = graph_value_id,
    .value_is_tensor = graph_value_is_tensor,
    .value_constant = graph_value_constant,
    .call_state = graph_call_state,
    .call_n_results = graph_call_n_results,
    .call_run_group = graph_call_run_group,
    .call_spec = graph_call_spec,
#define IR_ROW(name) .name = api_##name,
    IR_API(IR_ROW)
#undef IR_ROW
    .shape_n_tensors = shape_fn_n_tensors,
    .shape_n_dims = shape_fn_n_dims,
    .shape_dtype = shape_fn_dtype,
    .shape_size = shape_fn_size,
    .shape_int = shape_fn_int,
    .shape_arg = shape_fn_arg,
    .size_number = shape_fn_number,
    .size_unknown = shape_fn_unknown,
    .size_calc = shape_fn_calc,
    .size_holds = shape_fn_holds,
    .shape_result = shape_fn_add_result,
    .shape_fail = fail_shape,
    .call_error = get_error,
    .pass_error = get_pass_error,
    .error_set = set_error,
    .error_clear = rush_error_clear,
    .pass_fail = fail_pass,
    .value_retain = rush_value_retain,
    .value_string = rush_value_string,
    .value_complex = rush_value_complex,
    .value_len = rush_value_len,
    .value_item = rush_value_item,
    .value_entry = rush_value_entry,
    .value_field = rush_value_field,
    .value_class = rush_value_class,
    .value_member = rush_enum_name,
    .value_device = facts_device,
    .value_generator = rush_generator_value_state,
    .object_n_attrs = rush_object_n_attrs,
    .object_attr_name = rush_object_attr_name,
    .object_attr = rush_object_attr,
    .object_set_attr = rush_object_set_attr,
    .object_call = rush_object_call,
    .value_text = rush_value_to_text,
    .text_free = rush_free_text,
    .string_create = rush_string_create,
    .complex_create = rush_complex_create,
    .list_create = rush_list_create,
    .tuple_create = rush_tuple_create,
    .dict_create = rush_dict_create,
    .device_make = facts_make_device,
    .generator_create = rush_generator_create,
    .tensor_create = rush_tensor_create,
    .tensor_wrap = rush_tensor_wrap,
    .tensor_facts = facts_tensor,
    .dtype_name = rush_dtype_name,
    .dtype_bytes = rush_dtype_bytes,
    .dtype_flags = facts_dtype,
    .dtype_promote = facts_promote,
    .context_facts = facts_context,
    .context_cpu = facts_cpu,
    .context_warn = facts_warn,
    .memory_alloc = facts_alloc,
    .memory_free = facts_free,
    .call_no_memory = no_memory,
    .call_args = get_args,
    .call_make_result = make_result,
    .call_parallel = parallel,
};

const rush_backend_api *rush_backend(uint32_t abi)
{
  return abi == RUSH_BACKEND_ABI ? &functions : NULL;
}
