/* api/backend.c -- the table of backend.h. */
#include "rushlight/backend.h"

#include "api/api_int.h"
#include "api/backend_int.h"
#include "api/ir_int.h"
#include "ops/shape.h"

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

static void give(rush_call *call, size_t i, rush_value v)
{
  if (i >= call->n_results) {
    rush_value_release(v);
    return;
  }
  rush_value_release(call->results[i]);
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
  rush_status st = shape_ask_fail(q, type, fmt, ap);
  va_end(ap);
  return st;
}

static rush_status poll_call(rush_call *call) { return call_poll(call->cx); }

static rush_status create(rush_call *call, rush_dtype dtype, int n_dims, const int64_t *sizes, rush_value *out)
{
  return rush_tensor_create(call->cx->ctx, dtype, n_dims, sizes, out, call->cx->err);
}

static rush_status contiguous(rush_call *call, rush_tensor *t, rush_value *out)
{
  return rush_tensor_contiguous(call->cx->ctx, t, out, call->cx->err);
}

static rush_status call_other(rush_call *call, const char *name, const rush_value *args, size_t n_args,
                              rush_value *out)
{
  rush_value results[8];
  uint32_t n = 0;

  TRY(call_enter(call->cx));
  rush_status st =
      op_call_by_name(call->cx, str_of(name), args, (uint32_t)n_args, NULL, 0, results, COUNT_OF(results), &n);
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

static const rush_backend_api functions = {
    .struct_bytes = sizeof(rush_backend_api),
    .abi = RUSH_BACKEND_ABI,
    .op_register = register_op,
    .call_user = get_user,
    .call_context = get_context,
    .call_n_args = get_n_args,
    .call_arg = get_arg,
    .call_return_steal = give,
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
    .shape_n_tensors = shape_ask_n_tensors,
    .shape_n_dims = shape_ask_n_dims,
    .shape_dtype = shape_ask_dtype,
    .shape_size = shape_ask_size,
    .shape_int = shape_ask_int,
    .shape_arg = shape_ask_arg,
    .size_number = shape_ask_number,
    .size_unknown = shape_ask_unknown,
    .size_calc = shape_ask_calc,
    .size_holds = shape_ask_holds,
    .shape_result = shape_ask_give,
    .shape_fail = fail_shape,
};

const rush_backend_api *rush_backend(uint32_t abi) { return abi == RUSH_BACKEND_ABI ? &functions : NULL; }
