/* ops/kernels/vision/deform_conv.c -- deform_conv2d: a convolution whose taps are moved, and
 * weighted, by numbers that come with the image.
 *
 * For each image the samples become a matrix of columns, [channels * taps, output pixels], and the
 * convolution is a product of matrices per group, as in torchvision (which takes several images at
 * once; this only changes the memory).  The position of a tap for an output pixel is the same for
 * all channels of an offset group, so it is computed once for BLOCK pixels and used for all of
 * these channels.  The backward makes the same columns again.
 *
 * Samples outside of the image are 0; a tap whose position is NaN becomes NaN, where torchvision
 * reads out of bounds. float16 is computed in float32 from coordinates rounded to float16, and
 * rounded once at the end. */
#include <math.h>
#include <string.h>

#include "base/threads.h"
#include "ops/kernels/vision/precision.h"
#include "ops/kernels/nn.h"
#include "ops/kernels/views.h"

enum { BLOCK = 64, CHANNELS = 8 };

typedef struct deform_job {
  const call_ctx *cx;
  int dtype;                      /* of the arguments */
  int64_t batch, channels, in[2]; /* in: height, width; so for all pairs */
  int64_t out_channels, kernel[2], out[2], stride[2], pad[2], dilation[2], groups, offset_groups;
  bool use_mask;
  int64_t n_taps, n_pixels, n_elems; /* of the kernel; of an output plane; of an input plane */
  const void *x, *offset, *mask;     /* of the image at hand */
  void *columns; /* [channels * n_taps, n_pixels]; backward: the gradient of the columns */
  void *dx, *doffset, *dmask; /* backward: of the image at hand */
} deform_job;

/* Positions of a tap for each of up to BLOCK pixels. */
typedef struct places {
  int64_t at[4][BLOCK]; /* the elements around it; -1: outside */
  double w[4][BLOCK];   /* their weights */
  double y[BLOCK], x[BLOCK], mask[BLOCK];
} places;

#define FLOAT_BODY "ops/kernels/vision/deform_conv.inc"
#include "ops/kernels/vision/each_float.inc"

/* -- Arguments --------------------------------------------------------------------------------- */

static rush_status check_dims(call_ctx *cx, const rush_tensor *const t[5], bool use_mask)
{
  static const char *const names[] = {"input", "weight", "offset", "mask"};
  for (int i = 0; i < 4; i++)
    if (t[i]->n_dims != 4 && (i < 3 || use_mask))
      return call_fail(cx, "deform_conv2d: expected '%s' of 4 dimensions, got %d", names[i],
                       t[i]->n_dims);
  if (t[3]->n_dims < 1)
    return call_fail_type(cx, "IndexError",
                          "Dimension specified as 0 but tensor has no dimensions");
  if (t[0]->dtype != RUSH_FLOAT32 && t[0]->dtype != RUSH_FLOAT64 && t[0]->dtype != RUSH_FLOAT16)
    return call_no_dtype(cx, "deformable_im2col", t[0]->dtype);
  for (int i = 1; i < 5; i++)
    if (t[i]->dtype != t[0]->dtype && (i != 3 || use_mask))
      return call_fail(cx, "expected scalar type %s but found %s", dtype_aten_name(t[0]->dtype),
                       dtype_aten_name(t[i]->dtype));
  return RUSH_OK;
}

/* Check that the sums below cannot overflow. */
static rush_status check_numbers(call_ctx *cx, const deform_job *j)
{
  const int64_t *const pairs[] = {j->stride, j->pad, j->dilation};
  static const char *const names[] = {"stride", "pad", "dilation"};
  if (j->kernel[0] <= 0 || j->kernel[1] <= 0)
    return call_fail(cx, "weight_h: %lld weight_w: %lld", (long long)j->kernel[0],
                     (long long)j->kernel[1]);
  for (int i = 0; i < 3; i++) {
    const int64_t lowest = i == 1 ? 0 : 1, a = pairs[i][0], b = pairs[i][1];
    if (a < lowest || b < lowest || a > INT32_MAX || b > INT32_MAX)
      return call_fail(cx, "%s_h: %lld %s_w: %lld", names[i], (long long)a, names[i], (long long)b);
  }
  if (j->kernel[0] > INT32_MAX || j->kernel[1] > INT32_MAX || j->in[0] > INT32_MAX ||
      j->in[1] > INT32_MAX)
    return call_fail(cx, "deform_conv2d: images and kernels of more than %d rows or columns",
                     INT32_MAX);
  return RUSH_OK;
}

static rush_status check_groups(call_ctx *cx, const deform_job *j, const rush_tensor *const t[5])
{
  const int64_t g = j->groups, og = j->offset_groups;
  if (g <= 0 || og <= 0 || g > j->channels || og > j->channels)
    return call_fail(cx,
                     "deform_conv2d: groups %lld and offset_groups %lld must be positive and at "
                     "most the %lld channels",
                     (long long)g, (long long)og, (long long)j->channels);
  if (t[1]->sizes[1] > j->channels || t[1]->sizes[1] * g != j->channels)
    return call_fail(cx,
                     "deform_conv2d: expected weight.shape[1] * groups to be the input's %lld "
                     "channels, got %lld * %lld",
                     (long long)j->channels, (long long)t[1]->sizes[1], (long long)g);
  if (j->out_channels % g != 0)
    return call_fail(cx, "deform_conv2d: %lld output channels cannot be divided into %lld groups",
                     (long long)j->out_channels, (long long)g);
  if (t[2]->sizes[1] % (2 * og) != 0 || t[2]->sizes[1] / (2 * og) != j->n_taps)
    return call_fail(cx, "offset.shape[1] is not valid: got: %lld expected: %lld",
                     (long long)t[2]->sizes[1], (long long)(og * 2 * j->n_taps));
  if (j->use_mask && (t[3]->sizes[1] % og != 0 || t[3]->sizes[1] / og != j->n_taps))
    return call_fail(cx, "mask.shape[1] is not valid: got: %lld expected: %lld",
                     (long long)t[3]->sizes[1], (long long)(og * j->n_taps));
  if (j->channels % og != 0)
    return call_fail(cx, "deform_conv2d: %lld channels cannot be divided into %lld offset groups",
                     (long long)j->channels, (long long)og);
  return RUSH_OK;
}

static rush_status check_results(call_ctx *cx, const deform_job *j, const rush_tensor *const t[5])
{
  static const char *const names[] = {"offset", "mask"};
  for (int i = 0; i < 2; i++) {
    const rush_tensor *const by = t[2 + i];
    if (by->sizes[0] != j->batch) /* torchvision looks at a mask's even where it is not used */
      return call_fail(cx, "invalid batch size of %s", names[i]);
    if ((i == 0 || j->use_mask) && (by->sizes[2] != j->out[0] || by->sizes[3] != j->out[1]))
      return call_fail(cx, "%s output dims: (%lld, %lld) - computed output dims: (%lld, %lld)",
                       names[i], (long long)by->sizes[2], (long long)by->sizes[3],
                       (long long)j->out[0], (long long)j->out[1]);
  }
  if (j->out[0] <= 0 || j->out[1] <= 0)
    return call_fail(cx, "Calculated output size too small - out_h: %lld out_w: %lld",
                     (long long)j->out[0], (long long)j->out[1]);
  if (t[4]->n_elems != j->out_channels)
    return call_fail(cx, "shape '[1, %lld, 1, 1]' is invalid for input of size %lld",
                     (long long)j->out_channels, (long long)t[4]->n_elems);
  return RUSH_OK;
}

/* Read arguments from `at` on: input, weight, offset, mask, bias, stride_h, stride_w, pad_h, pad_w,
 * dilation_h, dilation_w, groups, offset_groups, use_mask. */
static rush_status read_args(rush_call *c, uint32_t at, deform_job *j)
{
  const rush_tensor *t[5];
  for (uint32_t i = 0; i < 5; i++)
    t[i] = call_tensor(c, at + i);
  *j = (deform_job){.cx = c->cx, .dtype = t[0]->dtype, .use_mask = call_bool(c, at + 13)};
  TRY(check_dims(c->cx, t, j->use_mask));
  j->batch = t[0]->sizes[0];
  j->channels = t[0]->sizes[1];
  j->out_channels = t[1]->sizes[0];
  j->groups = call_int(c, at + 11);
  j->offset_groups = call_int(c, at + 12);
  for (uint32_t d = 0; d < 2; d++) {
    j->in[d] = t[0]->sizes[2 + d];
    j->kernel[d] = t[1]->sizes[2 + d];
    j->stride[d] = call_int(c, at + 5 + d);
    j->pad[d] = call_int(c, at + 7 + d);
    j->dilation[d] = call_int(c, at + 9 + d);
  }
  TRY(check_numbers(c->cx, j));
  for (int d = 0; d < 2; d++) /* torchvision's division rounds towards 0 */
    j->out[d] =
      (j->in[d] + 2 * j->pad[d] - (j->dilation[d] * (j->kernel[d] - 1) + 1)) / j->stride[d] + 1;
  j->n_taps = j->kernel[0] * j->kernel[1];
  j->n_elems = j->in[0] * j->in[1];
  TRY(check_groups(c->cx, j, t));
  TRY(check_results(c->cx, j, t));
  j->n_pixels = j->out[0] * j->out[1];
  return RUSH_OK;
}

/* -- Matrices ---------------------------------------------------------------------------------- */

typedef struct operands { /* contiguous, in the precision of the work; all owned */
  rush_tensor *x, *weight, *offset, *mask, *bias, *columns;
} operands;

static void release_operands(operands *o)
{
  tensor_release(o->x);
  tensor_release(o->weight);
  tensor_release(o->offset);
  tensor_release(o->mask);
  tensor_release(o->bias);
  tensor_release(o->columns);
}

static rush_status make_operands(rush_call *c, uint32_t at, const deform_job *j, operands *o)
{
  const int64_t sizes[2] = {j->channels * j->n_taps, j->n_pixels};
  TRY(nn_input(c->cx, call_tensor(c, at), &o->x));
  TRY(nn_input(c->cx, call_tensor(c, at + 1), &o->weight));
  TRY(nn_input(c->cx, call_tensor(c, at + 2), &o->offset));
  if (j->use_mask)
    TRY(nn_input(c->cx, call_tensor(c, at + 3), &o->mask));
  TRY(nn_input(c->cx, call_tensor(c, at + 4), &o->bias));
  return tensor_new(c->cx, o->x->dtype, 2, sizes, &o->columns);
}

static void *image_of(const rush_tensor *t, int64_t n)
{
  return (char *)t->data + (size_t)(t->n_elems / t->sizes[0] * n) * dtype_bytes(t->dtype);
}

/* Point j to image n. */
static void choose_image(deform_job *j, const operands *o, int64_t n)
{
  j->x = image_of(o->x, n);
  j->offset = image_of(o->offset, n);
  j->mask = o->mask ? image_of(o->mask, n) : NULL;
  j->columns = o->columns->data;
}

/* View the elements of t from `offset` on as a batch of `groups` matrices, row-major or transposed.
 * New. */
static rush_status matrices_of(call_ctx *cx, const rush_tensor *t, int64_t offset, int64_t groups,
                               int64_t rows, int64_t cols, bool transposed, rush_tensor **out)
{
  const int64_t sizes[3] = {groups, transposed ? cols : rows, transposed ? rows : cols};
  const int64_t strides[3] = {rows * cols, transposed ? 1 : cols, transposed ? cols : 1};
  return tensor_as_strided(cx, t, 3, sizes, strides, t->offset + offset, out);
}

/* Compute a @ b for a batch of matrices, added to `sum` unless that is NULL.  Releases a and b.
 * *out is new. */
static rush_status multiply_steal(call_ctx *cx, rush_tensor *sum, rush_tensor *a, rush_tensor *b,
                                  rush_tensor **out)
{
  const rush_value args[5] = {nn_arg(sum), nn_arg(a), nn_arg(b), value_int(1), value_int(1)};
  const rush_status st = sum ? nn_invoke(cx, "aten::baddbmm", "", args, 5, out)
                             : nn_invoke(cx, "aten::bmm", "", args + 1, 2, out);
  tensor_release(a);
  tensor_release(b);
  return st;
}

/* The product of two batches of matrices in x and y. */
typedef struct side {
  const rush_tensor *t;
  int64_t offset, rows, cols;
  bool transposed;
} side;
static rush_status multiply(call_ctx *cx, const deform_job *j, rush_tensor *sum, side a, side b,
                            rush_tensor **out)
{
  rush_tensor *x = NULL, *y = NULL;
  TRY(matrices_of(cx, a.t, a.offset, j->groups, a.rows, a.cols, a.transposed, &x));
  const rush_status st =
    matrices_of(cx, b.t, b.offset, j->groups, b.rows, b.cols, b.transposed, &y);
  if (st != RUSH_OK) {
    tensor_release(x);
    return st;
  }
  return multiply_steal(cx, sum, x, y, out);
}

/* -- Forward ----------------------------------------------------------------------------------- */

static int64_t n_blocks(const deform_job *j) { return (j->n_pixels + BLOCK - 1) / BLOCK; }

static rush_status fill_columns(call_ctx *cx, deform_job *j)
{
  return parallel_for(cx, j->offset_groups * j->n_taps * n_blocks(j), 1,
                      j->dtype == RUSH_FLOAT64 ? sample_items_f64 : sample_items_f32, j);
}

/* Compute image n of the result, [out_channels, n_pixels], without the bias.  *out is new. */
static rush_status convolve(call_ctx *cx, deform_job *j, const operands *o, int64_t n,
                            rush_tensor **out)
{
  const int64_t depth = j->channels / j->groups * j->n_taps;
  choose_image(j, o, n);
  TRY(fill_columns(cx, j));
  return multiply(cx, j, NULL, (side){o->weight, 0, j->out_channels / j->groups, depth, false},
                  (side){o->columns, 0, depth, j->n_pixels, false}, out);
}

/* input, weight, offset, mask, bias, ... : see read_args */
rush_status kernel_deform_conv2d(rush_call *c)
{
  deform_job j;
  operands o = {0};
  rush_tensor *out = NULL, *part = NULL;
  TRY(read_args(c, 0, &j));
  const int64_t sizes[4] = {j.batch, j.out_channels, j.out[0], j.out[1]};
  rush_status st = make_operands(c, 0, &j, &o);
  if (st == RUSH_OK)
    st = tensor_new(c->cx, o.x->dtype, 4, sizes, &out);
  for (int64_t n = 0; n < j.batch && st == RUSH_OK; n++) {
    if ((st = convolve(c->cx, &j, &o, n, &part)) != RUSH_OK)
      break;
    if (j.dtype == RUSH_FLOAT64)
      add_bias_f64(&j, part->data, o.bias->data, image_of(out, n));
    else
      add_bias_f32(&j, part->data, o.bias->data, image_of(out, n));
    tensor_release(part);
    st = call_poll(c->cx);
  }
  if (st == RUSH_OK) {
    st = nn_return_steal(c, 0, out, j.dtype, NULL);
    out = NULL;
  }
  tensor_release(out);
  release_operands(&o);
  return st;
}

/* -- Backward ---------------------------------------------------------------------------------- */

enum { D_INPUT, D_WEIGHT, D_OFFSET, D_MASK, D_BIAS, N_GRADIENTS };

/* Add image n's part of the gradients; made[D_WEIGHT] is replaced. */
static rush_status differentiate(call_ctx *cx, deform_job *j, const operands *o,
                                 const rush_tensor *grad, int64_t n, rush_tensor *made[N_GRADIENTS])
{
  const int64_t depth = j->channels / j->groups * j->n_taps, rows = j->out_channels / j->groups;
  const int64_t from = n * j->out_channels * j->n_pixels;
  rush_tensor *sum = NULL, *back = NULL;
  choose_image(j, o, n);
  TRY(fill_columns(cx, j));
  TRY(multiply(cx, j, made[D_WEIGHT], (side){grad, from, rows, j->n_pixels, false},
               (side){o->columns, 0, depth, j->n_pixels, true}, &sum));
  tensor_release(made[D_WEIGHT]);
  made[D_WEIGHT] = sum;
  TRY(multiply(cx, j, NULL, (side){o->weight, 0, rows, depth, true},
               (side){grad, from, rows, j->n_pixels, false}, &back));
  j->columns = back->data;
  j->dx = image_of(made[D_INPUT], n);
  j->doffset = image_of(made[D_OFFSET], n);
  j->dmask = j->use_mask ? image_of(made[D_MASK], n) : NULL;
  rush_status st = parallel_for(cx, (j->channels + CHANNELS - 1) / CHANNELS, 1,
                                j->dtype == RUSH_FLOAT64 ? spread_items_f64 : spread_items_f32, j);
  if (st == RUSH_OK)
    st = parallel_for(cx, j->offset_groups * j->n_taps * n_blocks(j), 1,
                      j->dtype == RUSH_FLOAT64 ? slope_items_f64 : slope_items_f32, j);
  tensor_release(back);
  return st;
}

/* Make zeros for all gradients but the bias'; the weight's as a batch of matrices. */
static rush_status start_gradients(rush_call *c, const deform_job *j,
                                   rush_tensor *made[N_GRADIENTS])
{
  const int64_t matrices[3] = {j->groups, j->out_channels / j->groups,
                               j->channels / j->groups * j->n_taps};
  for (uint32_t i = 0; i < D_BIAS; i++) {
    const rush_tensor *like = call_tensor(c, 1 + i);
    TRY(tensor_new(c->cx, nn_dtype(j->dtype), i == D_WEIGHT ? 3 : like->n_dims,
                   i == D_WEIGHT ? matrices : like->sizes, &made[i]));
    TRY(tensor_fill(c->cx, made[i], value_float(0)));
  }
  return RUSH_OK;
}

/* Compute the bias' gradient, and reshape the weight's to its own sizes. */
static rush_status finish_gradients(rush_call *c, const deform_job *j, rush_tensor *grad,
                                    rush_tensor *made[N_GRADIENTS])
{
  const rush_tensor *weight = call_tensor(c, 2), *bias = call_tensor(c, 5);
  const int64_t strides[4] = {weight->sizes[1] * j->n_taps, j->n_taps, j->kernel[1], 1};
  rush_tensor *shaped = NULL;
  TRY(tensor_as_strided(c->cx, made[D_WEIGHT], 4, weight->sizes, strides, made[D_WEIGHT]->offset,
                        &shaped));
  tensor_release(made[D_WEIGHT]);
  made[D_WEIGHT] = shaped;
  TRY(tensor_new(c->cx, nn_dtype(j->dtype), bias->n_dims, bias->sizes, &made[D_BIAS]));
  if (j->dtype == RUSH_FLOAT64)
    sum_bias_f64(j, grad->data, made[D_BIAS]->data);
  else
    sum_bias_f32(j, grad->data, made[D_BIAS]->data);
  return RUSH_OK;
}

static rush_status check_grad(rush_call *c, const deform_job *j, const rush_tensor *grad)
{
  const int64_t expected[4] = {j->batch, j->out_channels, j->out[0], j->out[1]};
  sizes_text got, wanted;
  if (grad->dtype != j->dtype)
    return call_fail(c->cx, "expected scalar type %s but found %s", dtype_aten_name(j->dtype),
                     dtype_aten_name(grad->dtype));
  if (grad->n_dims != 4 || memcmp(grad->sizes, expected, sizeof expected) != 0)
    return call_fail(
      c->cx, "_deform_conv2d_backward: expected a gradient of the result's sizes %s, got %s",
      sizes_print(&wanted, 4, expected), sizes_print(&got, grad->n_dims, grad->sizes));
  return RUSH_OK;
}

/* grad, then the arguments of deform_conv2d */
rush_status kernel_deform_conv2d_backward(rush_call *c)
{
  deform_job j;
  operands o = {0};
  rush_tensor *grad = NULL, *made[N_GRADIENTS] = {NULL};
  TRY(read_args(c, 1, &j));
  TRY(check_grad(c, &j, call_tensor(c, 0)));
  rush_status st = nn_input(c->cx, call_tensor(c, 0), &grad);
  if (st == RUSH_OK)
    st = make_operands(c, 1, &j, &o);
  if (st == RUSH_OK)
    st = start_gradients(c, &j, made);
  for (int64_t n = 0; n < j.batch && st == RUSH_OK; n++)
    st = differentiate(c->cx, &j, &o, grad, n, made);
  if (st == RUSH_OK)
    st = finish_gradients(c, &j, grad, made);
  for (uint32_t i = 0; i < N_GRADIENTS; i++) {
    if (st == RUSH_OK)
      st = nn_return_steal(c, i, made[i], j.dtype, NULL);
    else
      tensor_release(made[i]);
  }
  tensor_release(grad);
  release_operands(&o);
  return st;
}
