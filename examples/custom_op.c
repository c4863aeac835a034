/* custom_op.c -- a custom operator, registered at run time and called by name.
 *
 *   cc custom_op.c $(pkg-config --cflags --libs rushlight) -o custom_op && ./custom_op
 *
 * A program that calls torch.ops.example.swish(x) finds it as well, if it is loaded after this. */
#include <math.h>
#include <rushlight/backend.h>
#include <stdio.h>

/* example::swish(Tensor x, float beta=1.0) -> Tensor, for float32: x * sigmoid(beta * x). */
static rush_status swish(rush_call *call)
{
  const rush_backend_api *api = rush_backend(RUSH_BACKEND_ABI);
  rush_tensor *x = api->call_arg(call, 0).as.tensor;
  float beta = (float)api->call_arg(call, 1).as.d;
  rush_value dense, y;

  if (api->tensor_dtype(x) != RUSH_FLOAT32)
    return api->call_fail(call, "TypeError", "swish takes float32, not %s",
                          rush_dtype_name(api->tensor_dtype(x)));
  rush_status st = api->call_contiguous(call, x, &dense);
  if (st != RUSH_OK)
    return st;
  st = api->call_create(call, RUSH_FLOAT32, api->tensor_n_dims(x), api->tensor_sizes(x), &y);
  if (st == RUSH_OK) {
    const float *from = api->tensor_data(dense.as.tensor);
    float *to = api->tensor_data_mut(y.as.tensor);

    for (int64_t i = 0; i < api->tensor_n_elems(x); i++)
      to[i] = from[i] / (1.0f + expf(-beta * from[i]));
    api->call_return_steal(call, 0, y);
  }
  api->value_release(dense);
  return st;
}

int main(void)
{
  const rush_backend_api *api = rush_backend(RUSH_BACKEND_ABI);
  rush_op_def def = {sizeof def, "example::swish(Tensor x, float beta=1.0) -> Tensor", swish, NULL};
  rush_error err = RUSH_ERROR_INIT;
  float data[] = {-1.0f, 0.0f, 1.0f, 2.0f};
  int64_t sizes[] = {4};
  rush_value x, y;
  size_t n;
  char *text;

  if (api->op_register(NULL, &def, &err) != RUSH_OK ||
      rush_tensor_wrap(NULL, RUSH_FLOAT32, 1, sizes, NULL, data, NULL, NULL, &x, &err) != RUSH_OK ||
      rush_op_call(NULL, "example::swish", &x, 1, NULL, 0, &y, 1, &n, &err) != RUSH_OK ||
      rush_value_to_text(NULL, y, false, &text, &err) != RUSH_OK) {
    fprintf(stderr, "%s\n", err.message);
    return 1;
  }
  printf("%s\n", text);
  rush_free_text(NULL, text);
  rush_value_release(y);
  rush_value_release(x);
  return 0;
}
