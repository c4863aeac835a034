/* plugin_op.c -- an operator in a shared object, with its shape and its gradient.
 *
 *   cc -shared -fPIC plugin_op.c $(pkg-config --cflags rushlight) -o plugin_op.so
 *   rushlight run model.pt 'randn(4)' --plugin ./plugin_op.so        or, in Python, rushlight.load_library("plugin_op.so")
 *
 * It links nothing of the library: all that it calls is in the table that it is given. */
#include <rushlight/backend.h>

RUSH_PLUGIN_DECLARE;

static const rush_backend_api *api;

/* plug::cube(Tensor x, float scale=1.0) -> Tensor, for float32: scale * x ** 3. */
static rush_status cube(rush_call *call)
{
  rush_tensor *x = api->call_arg(call, 0).as.tensor;
  float scale = (float)api->call_arg(call, 1).as.d;
  rush_value dense, y;

  if (api->tensor_dtype(x) != RUSH_FLOAT32)
    return api->call_fail(call, "TypeError", "cube takes float32");
  rush_status st = api->call_contiguous(call, x, &dense);
  if (st != RUSH_OK)
    return st;
  st = api->call_create(call, RUSH_FLOAT32, api->tensor_n_dims(x), api->tensor_sizes(x), &y);
  if (st == RUSH_OK) {
    const float *from = api->tensor_data(dense.as.tensor);
    float *to = api->tensor_data_mut(y.as.tensor);

    for (int64_t i = 0; i < api->tensor_n_elems(x); i++)
      to[i] = scale * from[i] * from[i] * from[i];
    api->call_return_steal(call, 0, y);
  }
  api->value_release(dense);
  return st;
}

RUSH_PLUGIN_EXPORT rush_status rush_plugin(const rush_backend_api *table, rush_context *c, rush_error *err)
{
  static const rush_gradient_def gradients[] = {{"x", "grad * (3.0 * scale) * x * x"}};
  rush_op_def def = {.struct_bytes = sizeof def,
                     .schema = "plug::cube(Tensor x, float scale=1.0) -> Tensor",
                     .kernel = cube,
                     .alias = RUSH_ALIAS_PURE,
                     .shape = "pointwise",
                     .gradients = gradients,
                     .n_gradients = 1};

  api = table;
  return api->op_register(c, &def, err);
}
