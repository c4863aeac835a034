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

#include "ops/kernels/nn.h"
#include "ops/kernels/views.h"
#include "ops/kernels/vision/precision.h"
#include "ops/kernels/work.h"

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

typedef struct operands { /* contiguous, in the precision of the work */
  rush_tensor *x, *weight, *offset, *mask, *bias, *columns;
} operands;

/* Arguments from `at` on: input, weight, offset, mask, bias, stride_h, stride_w, pad_h, pad_w,
 * dilation_h, dilation_w, groups, offset_groups, use_mask; `out` has the convolution's sizes. */
static rush_status read_args(work *w, uint32_t at, const rush_tensor *out, deform_job *j,
                             operands *o)
{
  const rush_call *c = w->call;
  const rush_tensor *x = call_tensor(c, at), *weight = call_tensor(c, at + 1);
  *j = (deform_job){.cx = c->cx,
                    .dtype = x->dtype,
                    .use_mask = call_bool(c, at + 13),
                    .batch = x->sizes[0],
                    .channels = x->sizes[1],
                    .out_channels = weight->sizes[0],
                    .groups = call_int(c, at + 11),
                    .offset_groups = call_int(c, at + 12)};
  for (uint32_t d = 0; d < 2; d++) {
    j->in[d] = x->sizes[2 + d];
    j->kernel[d] = weight->sizes[2 + d];
    j->out[d] = out->sizes[2 + d];
    j->stride[d] = call_int(c, at + 5 + d);
    j->pad[d] = call_int(c, at + 7 + d);
    j->dilation[d] = call_int(c, at + 9 + d);
  }
  j->n_taps = j->kernel[0] * j->kernel[1];
  j->n_elems = j->in[0] * j->in[1];
  j->n_pixels = j->out[0] * j->out[1];
  if (j->dtype != RUSH_FLOAT32 && j->dtype != RUSH_FLOAT64 && j->dtype != RUSH_FLOAT16)
    return call_no_dtype(c->cx, "deformable_im2col", j->dtype);
  const int64_t sizes[2] = {j->channels * j->n_taps, j->n_pixels};
  *o = (operands){.x = work_input(w, call_tensor(c, at)),
                  .weight = work_input(w, call_tensor(c, at + 1)),
                  .offset = work_input(w, call_tensor(c, at + 2)),
                  .mask = j->use_mask ? work_input(w, call_tensor(c, at + 3)) : NULL,
                  .bias = work_input(w, call_tensor(c, at + 4)),
                  .columns = work_new(w, nn_dtype(j->dtype), 2, sizes)};
  return RUSH_OK;
}

/* -- Matrices ---------------------------------------------------------------------------------- */

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

/* Elements of t as a batch of matrices, row-major or transposed. */
typedef struct side {
  const rush_tensor *t;
  int64_t offset, rows, cols;
  bool transposed;
} side;
static rush_tensor *matrices_of(work *w, const deform_job *j, const side *s)
{
  const bool turned = s->transposed;
  const int64_t sizes[3] = {j->groups, turned ? s->cols : s->rows, turned ? s->rows : s->cols};
  const int64_t strides[3] = {s->rows * s->cols, turned ? 1 : s->cols, turned ? s->cols : 1};
  rush_tensor *view = NULL;
  WORK_DO(w, tensor_as_strided(w->cx, s->t, 3, sizes, strides, s->t->offset + s->offset, &view));
  return work_keep_steal(w, view, w->st);
}

/* Add the product of two batches of matrices to `sum`, which is released, unless it is NULL. */
static rush_tensor *multiply(work *w, const deform_job *j, rush_tensor *sum, side a, side b)
{
  rush_tensor *x = matrices_of(w, j, &a), *y = matrices_of(w, j, &b);
  const rush_value args[5] = {nn_arg(sum), nn_arg(x), nn_arg(y), value_int(1), value_int(1)};
  rush_tensor *t = sum ? work_invoke(w, "aten::baddbmm", "", args, 5)
                       : work_invoke(w, "aten::bmm", "", args + 1, 2);
  work_drop(w, x);
  work_drop(w, y);
  work_drop(w, sum);
  return t;
}

/* -- Forward ----------------------------------------------------------------------------------- */

static int64_t n_blocks(const deform_job *j) { return (j->n_pixels + BLOCK - 1) / BLOCK; }

static void fill_columns(work *w, deform_job *j)
{
  work_run(w, j->offset_groups * j->n_taps * n_blocks(j), 1,
           j->dtype == RUSH_FLOAT64 ? sample_items_f64 : sample_items_f32, j);
}

/* input, weight, offset, mask, bias, ... : see read_args */
rush_status kernel_deform_conv2d(rush_call *c)
{
  work w = work_begin(c);
  deform_job j;
  operands o;
  WORK_DO(&w, read_args(&w, 0, call_out(c, 0), &j, &o));
  rush_tensor *out = work_output(&w, 0, nn_dtype(j.dtype));
  const int64_t depth = j.channels / j.groups * j.n_taps, rows = j.out_channels / j.groups;
  for (int64_t n = 0; n < j.batch && w.st == RUSH_OK; n++) {
    choose_image(&j, &o, n);
    fill_columns(&w, &j);
    rush_tensor *part = multiply(&w, &j, NULL, (side){o.weight, 0, rows, depth, false},
                                 (side){o.columns, 0, depth, j.n_pixels, false});
    if (w.st == RUSH_OK && j.dtype == RUSH_FLOAT64)
      add_bias_f64(&j, part->data, o.bias->data, image_of(out, n));
    else if (w.st == RUSH_OK)
      add_bias_f32(&j, part->data, o.bias->data, image_of(out, n));
    work_drop(&w, part);
    WORK_DO(&w, call_poll(c->cx));
  }
  return work_end(&w);
}

/* -- Backward ---------------------------------------------------------------------------------- */

enum { D_INPUT, D_WEIGHT, D_OFFSET, D_MASK, D_BIAS, N_GRADIENTS };

/* What image n adds to the gradients; made[D_WEIGHT] is replaced. */
static void differentiate(work *w, deform_job *j, const operands *o, const rush_tensor *grad,
                          int64_t n, rush_tensor *made[N_GRADIENTS])
{
  const int64_t depth = j->channels / j->groups * j->n_taps, rows = j->out_channels / j->groups;
  const int64_t from = n * j->out_channels * j->n_pixels;
  const bool is_f64 = j->dtype == RUSH_FLOAT64;
  choose_image(j, o, n);
  fill_columns(w, j);
  made[D_WEIGHT] = multiply(w, j, made[D_WEIGHT], (side){grad, from, rows, j->n_pixels, false},
                            (side){o->columns, 0, depth, j->n_pixels, true});
  rush_tensor *back = multiply(w, j, NULL, (side){o->weight, 0, rows, depth, true},
                               (side){grad, from, rows, j->n_pixels, false});
  j->columns = back->data;
  j->dx = image_of(made[D_INPUT], n);
  j->doffset = image_of(made[D_OFFSET], n);
  j->dmask = j->use_mask ? image_of(made[D_MASK], n) : NULL;
  work_run(w, (j->channels + CHANNELS - 1) / CHANNELS, 1,
           is_f64 ? spread_items_f64 : spread_items_f32, j);
  work_run(w, j->offset_groups * j->n_taps * n_blocks(j), 1,
           is_f64 ? slope_items_f64 : slope_items_f32, j);
  work_drop(w, back);
}

/* grad, then the arguments of deform_conv2d */
rush_status kernel_deform_conv2d_backward(rush_call *c)
{
  work w = work_begin(c);
  deform_job j;
  operands o;
  WORK_DO(&w, read_args(&w, 1, call_tensor(c, 0), &j, &o));
  const int dtype = nn_dtype(j.dtype);
  const rush_tensor *grad = work_input(&w, call_tensor(c, 0));
  const int64_t matrices[3] = {j.groups, j.out_channels / j.groups,
                               j.channels / j.groups * j.n_taps};
  rush_tensor *made[N_GRADIENTS];
  for (uint32_t i = 0; i < N_GRADIENTS; i++) { /* the weight's as a batch of matrices */
    made[i] = i == D_WEIGHT ? work_new(&w, dtype, 3, matrices) : work_output(&w, i, dtype);
    WORK_DO(&w, tensor_fill(c->cx, made[i], value_float(0)));
  }
  for (int64_t n = 0; n < j.batch && w.st == RUSH_OK; n++)
    differentiate(&w, &j, &o, grad, n, made);
  if (w.st == RUSH_OK && j.dtype == RUSH_FLOAT64)
    sum_bias_f64(&j, grad->data, made[D_BIAS]->data);
  else if (w.st == RUSH_OK)
    sum_bias_f32(&j, grad->data, made[D_BIAS]->data);
  rush_tensor *flat = NULL;
  WORK_DO(&w, tensor_reshape(c->cx, made[D_WEIGHT], 4, call_out(c, D_WEIGHT)->sizes, &flat));
  WORK_DO(&w, tensor_copy(c->cx, call_out(c, D_WEIGHT), work_keep_steal(&w, flat, w.st)));
  return work_end(&w);
}
