/* plugin_op.c -- operators in a shared object: one with a shape rule of the library and a gradient,
 * one with a shape function.
 *
 *   cc -shared -fPIC plugin_op.c $(pkg-config --cflags rushlight) -o plugin_op.so
 *   rushlight run model.pt 'randn(4)' --plugin ./plugin_op.so        or, in Python,
 *   rushlight.load_library("plugin_op.so")
 *
 * It links nothing of the library: all that it calls is in the table that it is given. */
#include <rushlight/backend.h>

#include <string.h>

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

/* plug::windows(Tensor x, int size, int step=1) -> Tensor: from a row of n float32, (n - size) //
 * step + 1 rows of `size` elements. */
static rush_status windows(rush_call *call)
{
  rush_tensor *x = api->call_arg(call, 0).as.tensor;
  int64_t size = api->call_arg(call, 1).as.i, step = api->call_arg(call, 2).as.i;
  rush_value dense, y;

  if (api->tensor_dtype(x) != RUSH_FLOAT32 || api->tensor_n_dims(x) != 1)
    return api->call_fail(call, "TypeError", "windows takes a row of float32");
  int64_t n = api->tensor_n_elems(x);
  if (size < 1 || step < 1 || size > n)
    return api->call_fail(call, NULL, "windows of %lld elements, %lld apart, in %lld",
                          (long long)size, (long long)step, (long long)n);
  int64_t sizes[] = {(n - size) / step + 1, size};
  rush_status st = api->call_contiguous(call, x, &dense);
  if (st != RUSH_OK)
    return st;
  if ((st = api->call_create(call, RUSH_FLOAT32, 2, sizes, &y)) == RUSH_OK) {
    const float *from = api->tensor_data(dense.as.tensor);
    float *to = api->tensor_data_mut(y.as.tensor);

    for (int64_t i = 0; i < sizes[0]; i++)
      memcpy(to + i * size, from + i * step, (size_t)size * sizeof *to);
    api->call_return_steal(call, 0, y);
  }
  api->value_release(dense);
  return st;
}

/* Compute the same from sizes alone, which may be formulas: a program is then known to work for
 * every n that is at least `size`. */
static rush_status shape_of_windows(rush_shape *q, void *user)
{
  const rush_size *one = api->size_number(q, 1), *n = api->shape_size(q, 0, 0, 0);
  const rush_size *size = api->shape_int(q, 1, 0), *step = api->shape_int(q, 2, 0);

  (void)user;
  if (api->shape_n_dims(q, 0, 0) != 1)
    return api->shape_fail(q, "TypeError", "windows takes a row of float32");
  if (!api->size_holds(q, RUSH_SIZE_LE, one, size) ||
      !api->size_holds(q, RUSH_SIZE_LE, one, step) || !api->size_holds(q, RUSH_SIZE_LE, size, n))
    return api->shape_fail(q, NULL, "windows that do not fit");
  const rush_size *steps =
    api->size_calc(q, RUSH_SIZE_DIV, api->size_calc(q, RUSH_SIZE_SUB, n, size), step);
  const rush_size *sizes[] = {api->size_calc(q, RUSH_SIZE_ADD, steps, one), size};
  return api->shape_result(q, 0, RUSH_FLOAT32, 2, sizes);
}

RUSH_PLUGIN_EXPORT rush_status rush_plugin(const rush_backend_api *table, rush_context *c,
                                           rush_error *err)
{
  static const rush_gradient_def gradients[] = {{"x", "grad * (3.0 * scale) * x * x"}};
  rush_op_def def = {.struct_bytes = sizeof def,
                     .schema = "plug::cube(Tensor x, float scale=1.0) -> Tensor",
                     .kernel = cube,
                     .alias = RUSH_ALIAS_PURE,
                     .shape = "pointwise",
                     .gradients = gradients,
                     .n_gradients = 1};

  rush_op_def sliding = {.struct_bytes = sizeof sliding,
                         .schema = "plug::windows(Tensor x, int size, int step=1) -> Tensor",
                         .kernel = windows,
                         .alias = RUSH_ALIAS_PURE,
                         .shape_fn = shape_of_windows};

  api = table;
  rush_status st = api->op_register(c, &def, err);
  return st == RUSH_OK ? api->op_register(c, &sliding, err) : st;
}
