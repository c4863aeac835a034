/* Measure how much stack calls take, on stacks that were filled with a pattern (cli/stack.c). The
 * limits are those of rushlight.h and docs/limits.md, for release builds; other builds only run the
 * calls. */
#include "support/test.h"

#include "../../cli/cli.h"
#include "base/macros.h"

#if defined(NDEBUG) && !defined(RUSH_SANITIZED)
enum { FIRST_CALL = RUSH_STACK_FIRST_CALL, LATER_CALL = RUSH_STACK_CALL };
#else
enum { FIRST_CALL = 1 << 20, LATER_CALL = 1 << 20 };
#endif
#define THREAD ((size_t)1 << 20)

typedef struct one_call {
  rush_module *m;
  const char *method;
  rush_value *args;
  size_t n_args;
  rush_status st;
  rush_error err;
} one_call;

static void call(void *arg)
{
  one_call *k = arg;
  rush_value result;

  k->st = rush_module_call(k->m, k->method, k->args, k->n_args, &result, &k->err);
  if (k->st == RUSH_OK)
    rush_value_release(result);
}

/* Call twice; check that the stack of both calls is within the limits. */
static void check_method(rush_module *m, const char *method, rush_value *args, size_t n_args)
{
  one_call k = {m, method, args, n_args, RUSH_OK, RUSH_ERROR_INIT};
  size_t used[2] = {0, 0};

  for (int i = 0; i < 2; i++) {
    used[i] = cli_on_stack(THREAD, call, &k);
    if (k.st != RUSH_OK)
      print_error("%s: %s\n", method ? method : "forward", k.err.message);
    assert_int_equal(k.st, RUSH_OK);
    rush_error_clear(&k.err);
  }
  if (getenv("RUSH_SHOW"))
    print_message("%-20s %6zu first, %6zu later\n", method ? method : "forward", used[0], used[1]);
  if (used[0] > FIRST_CALL || used[1] > LATER_CALL)
    print_error("%s: %zu bytes the first time, then %zu\n", method ? method : "forward", used[0],
                used[1]);
  assert_in_range(used[0], 1, FIRST_CALL);
  assert_in_range(used[1], 1, LATER_CALL);
}

static rush_value numbers(int n_dims, const int64_t *sizes)
{
  rush_value x = rush_value_none();

  assert_int_equal(rush_tensor_create(NULL, RUSH_FLOAT32, n_dims, sizes, &x, NULL), RUSH_OK);
  float *data = rush_tensor_data_mut(x.as.tensor);
  for (int64_t i = 0; i < rush_tensor_n_elems(x.as.tensor); i++)
    data[i] = (float)((i * 37) % 101) / 50.0f - 1.0f;
  return x;
}

/* One function for each family of operators; all get a tensor of 2 x 8 x 12 x 12. */
static const char families[] =
  "import torch\n"
  "import torch.nn.functional as F\n"
  "def pointwise(x):\n"
  "    y = x.to(torch.float16) * 2 + torch.ones([12]).to(torch.float64)\n"
  "    z = torch.where(x > 0, x, x.transpose(2, 3)) + x.to(torch.bfloat16).transpose(1, "
  "2).transpose(1, 2)\n"
  "    return torch.atan2(y, z), (x.to(torch.complex64) * 1j).abs(), torch.erfinv(x * 0.5), "
  "x.to(torch.int32) // 3\n"
  "def fused(x):\n"
  "    return torch.tanh(x * 2 + 1) * torch.sigmoid(x.transpose(2, 3)) - x.mean(3, keepdim=True)\n"
  "def reductions(x):\n"
  "    return x.sum([1, 3]), x.std(2), x.argmax(1), torch.logsumexp(x, 0), x.prod(3), x.median(), "
  "x.kthvalue(3, 1), x.norm(), \\\n"
  "        torch.cumsum(x, 1), x.amax([0, 2]), torch.var_mean(x, 1), "
  "x.to(torch.float64).transpose(1, 3).sum(1)\n"
  "def products(x):\n"
  "    a = x.reshape(2, 8, 144)\n"
  "    return a @ a.transpose(1, 2), torch.einsum('bchw,bdhw->bcd', x, x), torch.dot(a[0, :, 3], "
  "a[1, :, 5]), \\\n"
  "        (x * 9).to(torch.int32).reshape(96, 24) @ (x * 5).to(torch.int32).reshape(24, 96), \\\n"
  "        torch.mv(a[0], a[1, 2]), F.linear(x.to(torch.bfloat16), torch.ones([5, "
  "12]).to(torch.bfloat16)), \\\n"
  "        torch.tensordot(x, x, [1, 2], [1, 2]), torch.addmm(a[0, :, :8], a[0], a[1].t()), "
  "torch.cdist(a[0], a[1]), \\\n"
  "        torch.bmm(x.reshape(16, 12, 12).to(torch.complex64), x.reshape(16, 12, "
  "12).to(torch.complex64))\n"
  "def solvers(x):\n"
  "    a = x.reshape(16, 12, 12) + 20 * torch.eye(12)\n"
  "    s = a @ a.transpose(1, 2)\n"
  "    return torch.linalg.inv(a), torch.linalg.svd(a), torch.linalg.eigh(s), "
  "torch.linalg.cholesky(s), torch.linalg.qr(a), \\\n"
  "        torch.linalg.solve(a, a), torch.linalg.det(a), torch.linalg.eig(a), "
  "torch.linalg.matrix_exp(a * 0.01), torch.linalg.pinv(a)\n"
  "def convolutions(x):\n"
  "    w = torch.ones([4, 8, 3, 3])\n"
  "    return F.conv2d(x, w), F.conv2d(x, w, padding=1, stride=2), F.conv_transpose2d(x, "
  "torch.ones([8, 4, 3, 3])), \\\n"
  "        F.conv2d(x, torch.ones([8, 1, 3, 3]), groups=8), F.conv1d(x[0], torch.ones([3, 12, "
  "5]).to(x)), \\\n"
  "        F.conv3d(x.unsqueeze(0), torch.ones([2, 2, 2, 2, 2])), torch.im2col(x, [3, 3], [1, 1], "
  "[0, 0], [1, 1]), F.conv2d(x, torch.ones([4, 8, 1, 1])), \\\n"
  "        torch.col2im(torch.im2col(x, [3, 3], [1, 1], [0, 0], [1, 1]), [12, 12], [3, 3], [1, 1], "
  "[0, 0], [1, 1])\n"
  "def pictures(x):\n"
  "    grid = torch.rand([2, 5, 6, 2]) * 2 - 1\n"
  "    return torch.grid_sampler(x, grid, 2, 0, False), torch.grid_sampler(x, grid, 0, 1, True), "
  "\\\n"
  "        torch.ops.aten.upsample_bicubic2d(x, [20, 30], False), "
  "torch.ops.aten._upsample_bilinear2d_aa(x, [5, 6], False), \\\n"
  "        torch.max_pool2d(x, 3), torch.ops.aten.avg_pool2d(x, 2), "
  "torch.ops.aten.adaptive_avg_pool2d(x, [5, 7]), \\\n"
  "        torch.ops.aten.reflection_pad2d(x, [1, 2, 3, 4]), torch.pixel_shuffle(x, 2), "
  "torch.roll(x, [1, 2], [2, 3]), \\\n"
  "        torch.flip(x, [2, 3]), torch.rot90(x, 1, [2, 3])\n"
  "def indices(x):\n"
  "    i = torch.randint(0, 8, [5, 6])\n"
  "    y = x.clone()\n"
  "    y[:, i, 3] = 1.5\n"
  "    y[x > 0.5] = 2.5\n"
  "    z = x.clone()\n"
  "    z.index_put_([torch.zeros([5, 6], dtype=torch.int64), i], torch.ones([12, 12]), True)\n"
  "    return x[:, i], y, z, x[x > 0.25], torch.gather(x, 1, torch.zeros([2, 8, 12, 12], "
  "dtype=torch.int64)), \\\n"
  "        torch.scatter_add(x, 1, torch.zeros([2, 8, 12, 12], dtype=torch.int64), x), "
  "x.index_select(1, i[0]), \\\n"
  "        x.index_add(1, i[0], torch.ones([2, 6, 12, 12])), torch.nonzero(x), torch.take(x, i), "
  "F.embedding(i, x[0, :, 0]), \\\n"
  "        torch.masked_select(x, x > 0), x.masked_fill(x > 0, 1.0)\n"
  "def orders(x):\n"
  "    return torch.sort(x, 1), torch.topk(x, 3, 3), torch.unique(x), torch.unique(x, dim=1), "
  "torch.argsort(x.to(torch.float64), 2), \\\n"
  "        torch.mode(x, 1), torch.searchsorted(torch.sort(x.flatten())[0], x), torch.bincount((x "
  "+ 2).to(torch.int64).flatten()), \\\n"
  "        torch.histc(x), torch.quantile(x, 0.25)\n"
  "def spectra(x):\n"
  "    return torch.fft_fftn(x), torch.fft.rfft(x.to(torch.float64), 31, 2), "
  "torch.stft(x.reshape(16, 144), 32, return_complex=True), \\\n"
  "        torch.fft.irfft2(torch.fft.rfft2(x)), torch.fft.fftshift(x)\n"
  "def networks(x):\n"
  "    a = x.reshape(2, 8, 12, 12)\n"
  "    return F.scaled_dot_product_attention(a, a, a, None, 0.0, True), F.softmax(x, 1), "
  "F.log_softmax(x.to(torch.float64), 3), \\\n"
  "        F.layer_norm(x, [12]), F.group_norm(x, 4), torch.native_batch_norm(x, None, None, "
  "torch.zeros([8]), torch.ones([8]), False, 0.1, 1e-5), F.gelu(x), \\\n"
  "        torch.instance_norm(x, None, None, None, None, True, 0.1, 1e-5, False), "
  "F.cosine_similarity(x, x, 1)\n"
  "def losses(x):\n"
  "    t = torch.randint(0, 8, [2, 12, 12])\n"
  "    return torch.ops.aten.cross_entropy_loss(x, t), "
  "torch.ops.aten.nll_loss2d(torch.log_softmax(x, 1), t), \\\n"
  "        torch.ops.aten.huber_loss(x, x * 2), torch.kl_div(x, x.abs()), "
  "torch.ops.aten.smooth_l1_loss(x, x * 3), \\\n"
  "        torch.binary_cross_entropy_with_logits(x, (x > 0).to(x)), \\\n"
  "        torch.ctc_loss(torch.log_softmax(x[0, :, :2], 2), torch.ones([2, 3], "
  "dtype=torch.int64), torch.tensor([8, 8]), \\\n"
  "                       torch.tensor([3, 2]))\n"
  "def randoms(x):\n"
  "    return torch.rand_like(x), torch.randn_like(x), torch.randperm(50), "
  "torch.bernoulli(x.abs().clamp(0.0, 1.0)), torch.dropout(x, 0.5, True), \\\n"
  "        torch.multinomial(x[0, 0].abs(), 3), torch.normal(x, x.abs()), torch.poisson(x.abs()), "
  "x.clone().exponential_()\n"
  "def quantized(x):\n"
  "    q = torch.quantize_per_tensor(x, 0.1, 5, torch.quint8)\n"
  "    return torch.fake_quantize_per_tensor_affine(x, 0.1, 0, -128, 127), q.dequantize(), "
  "F.relu(q).dequantize()\n"
  "def texts(x):\n"
  "    y = x[0, :3, :3, :3]\n"
  "    return str(y), '{} {}'.format(y, [1.5, 2.5]), str(y.shape), str([str(i) for i in "
  "range(4)])\n"
  "def lists(x):\n"
  "    d = {'a': [x.sum().item()], 'b': [1.0, 2.0]}\n"
  "    parts = torch.chunk(x, 3, 1)\n"
  "    d['c'] = sorted([float(p.sum()) for p in parts])\n"
  "    return d, torch.cat(parts, 1), torch.stack([p.sum() for p in parts]), torch.meshgrid([x[0, "
  "0, 0], x[0, 0, 1]]), \\\n"
  "        torch.broadcast_tensors([x, x[0]]), torch.block_diag([x[0, 0], x[1, 1]]), "
  "torch.ops.aten.pad_sequence([x[0, 0], x[0, 1, :5]])\n";

static void operators_of_every_family_take_little(void **state)
{
  const int64_t sizes[] = {2, 8, 12, 12};
  rush_error err = RUSH_ERROR_INIT;
  rush_module *m;
  (void)state;
  rush_status st = rush_module_compile(NULL, families, strlen(families), NULL, &m, &err);
  if (st != RUSH_OK)
    print_error("%s\n", err.message);
  assert_int_equal(st, RUSH_OK);
  rush_value x = numbers(4, sizes);
  for (size_t i = 0; i < rush_module_n_methods(m); i++)
    check_method(m, rush_module_method_name(m, i), &x, 1);
  rush_value_release(x);
  rush_module_release(m);
}

static void archives_take_little(void **state)
{
  static const struct {
    const char *name;
    int n_dims;
    int64_t sizes[4];
  } rows[] = {
    {"digits.pt", 4, {3, 1, 8, 8}}, {"digits.pt2", 4, {1, 1, 8, 8}}, {"worker.pt", 2, {40, 96}}};
  (void)state;
  for (size_t i = 0; i < COUNT_OF(rows); i++) {
    char path[4096];
    rush_module *m;
    snprintf(path, sizeof path, "%s/%s", getenv("RUSH_TEST_DATA"), rows[i].name);
    assert_int_equal(rush_module_load(NULL, path, NULL, &m, NULL), RUSH_OK);
    rush_value x = numbers(rows[i].n_dims, rows[i].sizes);
    check_method(m, NULL, &x, 1);
    rush_value_release(x);
    rush_module_release(m);
  }
}

/* Call single operators, outside of a program. */
typedef struct one_op {
  const char *name;
  rush_value *args;
  size_t n_args;
  rush_status st;
} one_op;

static void call_op(void *arg)
{
  one_op *k = arg;
  rush_value results[4];
  size_t n = 0;

  k->st = rush_op_call(NULL, k->name, k->args, k->n_args, NULL, 0, results, 4, &n, NULL);
  for (size_t i = 0; i < n; i++)
    rush_value_release(results[i]);
}

static void single_operators_take_little(void **state)
{
  static const char *const names[] = {"aten::add",  "aten::matmul", "aten::tanh",
                                      "aten::sort", "aten::median", "aten::softmax"};
  const int64_t sizes[] = {40, 40};
  rush_value x = numbers(2, sizes);
  (void)state;
  for (size_t i = 0; i < COUNT_OF(names); i++) {
    rush_value args[] = {x, i < 2 ? x : rush_value_int(1)};
    one_op k = {names[i], args, i < 2 || i == 5 ? 2 : 1, RUSH_OK};
    for (int round = 0; round < 2; round++) {
      const size_t used = cli_on_stack(THREAD, call_op, &k);
      assert_int_equal(k.st, RUSH_OK);
      assert_in_range(used, 1, round ? LATER_CALL : FIRST_CALL);
    }
  }
  rush_value_release(x);
}

int main(void)
{
  const struct CMUnitTest tests[] = {
      cmocka_unit_test(operators_of_every_family_take_little),
      cmocka_unit_test(archives_take_little),
      cmocka_unit_test(single_operators_take_little),
  };
  return RUN_TESTS(tests);
}
