/* ops/kernels/vision/roi.c -- checks and results of the operators on regions (roi.h).
 *
 * Refusals have torchvision's class and message where it refuses too.  It does not check the image
 * of a region, the second results that a backward receives, and (roi_pool) that a region has five
 * numbers: those refusals are ours. */
#include "ops/kernels/vision/roi.h"

#include <string.h>

#include "ops/kernels/views.h"

/* -- Arguments --------------------------------------------------------------------------------- */

static rush_status check_pair(call_ctx *cx, const char *kernel, const char *name,
                              const rush_tensor *x, const rush_tensor *rois)
{
  if (rois->n_dims < 2)
    return call_fail_type(cx, "IndexError",
                          "Dimension out of range (expected to be in range of [%d, %d], but got 1)",
                          rois->n_dims ? -rois->n_dims : -1, rois->n_dims ? rois->n_dims - 1 : 0);
  if (rois->n_dims != 2 || rois->sizes[1] != 5)
    return call_fail(cx, strstr(kernel, "ps_") ? "Tensor rois should have shape as Tensor[K, 5]"
                                               : "rois must have shape as Tensor[K, 5]");
  if (x->dtype != rois->dtype)
    return call_fail(
      cx,
      "Expected tensor for argument #1 '%s' to have the same type as tensor for argument #2 "
      "'rois'; but type "
      "torch.%sTensor does not equal torch.%sTensor (while checking arguments for %s)",
      name, dtype_aten_name(x->dtype), dtype_aten_name(rois->dtype), kernel);
  if (x->n_dims < 4)
    return call_fail_type(
      cx, "IndexError", "Dimension out of range (expected to be in range of [%d, %d], but got %d)",
      x->n_dims ? -x->n_dims : -1, x->n_dims ? x->n_dims - 1 : 0, x->n_dims < 1 ? 1 : x->n_dims);
  if (x->n_dims != 4)
    return call_fail(cx, "%s: expected '%s' of 4 dimensions, got %d", kernel, name, x->n_dims);
  if (x->dtype != RUSH_FLOAT32 && x->dtype != RUSH_FLOAT64 && x->dtype != RUSH_FLOAT16)
    return call_no_dtype(cx, kernel, x->dtype);
  return RUSH_OK;
}

/* Compute out_channels from channels. */
static rush_status divide_channels(call_ctx *cx, const char *kernel, roi_job *j)
{
  if (j->out_h < 0 || j->out_w < 0)
    return call_fail(cx, "zeros: Dimension size must be non-negative.");
  if (!j->is_sensitive) {
    j->out_channels = j->channels;
    return RUSH_OK;
  }
  if (j->out_h == 0 || j->out_w == 0)
    return call_fail(cx, "%s: pooled_height and pooled_width must be positive", kernel);
  if (j->out_h > j->channels || j->out_w > j->channels ||
      j->channels % (j->out_h * j->out_w) != 0) {
    if (j->channels != 0)
      return call_fail(cx, "input channels must be a multiple of pooling height * pooling width");
  }
  j->out_channels = j->channels ? j->channels / (j->out_h * j->out_w) : 0;
  return RUSH_OK;
}

rush_status roi_read(rush_call *c, const char *kernel, roi_job *j)
{
  const rush_tensor *x = call_tensor(c, 0), *rois = call_tensor(c, 1);
  TRY(check_pair(c->cx, kernel, "input", x, rois));
  j->cx = c->cx;
  j->dtype = x->dtype;
  j->batch = x->sizes[0];
  j->channels = x->sizes[1];
  j->height = x->sizes[2];
  j->width = x->sizes[3];
  j->n_rois = rois->sizes[0];
  j->scale = round_to(j->dtype, call_float(c, 2));
  j->out_h = call_int(c, 3);
  j->out_w = call_int(c, 4);
  return divide_channels(c->cx, kernel, j);
}

rush_status roi_read_backward(rush_call *c, const char *kernel, uint32_t sizes_at, roi_job *j,
                              int64_t shape[4])
{
  const rush_tensor *grad = call_tensor(c, 0), *rois = call_tensor(c, 1);
  const uint32_t scale_at = c->op->schema->args[2].type->kind == TYPE_FLOAT ? 2 : 3;
  TRY(check_pair(c->cx, kernel, "grad", grad, rois));
  j->cx = c->cx;
  j->dtype = grad->dtype;
  for (uint32_t i = 0; i < 4; i++) {
    shape[i] = call_int(c, sizes_at + i);
    if (shape[i] < 0)
      return call_fail(c->cx, "zeros: Dimension size must be non-negative.");
  }
  j->batch = shape[0];
  j->channels = shape[1];
  j->height = shape[2];
  j->width = shape[3];
  j->n_rois = rois->sizes[0];
  j->scale = round_to(j->dtype, call_float(c, scale_at));
  j->out_h = call_int(c, scale_at + 1);
  j->out_w = call_int(c, scale_at + 2);
  TRY(divide_channels(c->cx, kernel, j));
  const int64_t expected[4] = {j->n_rois, j->out_channels, j->out_h, j->out_w};
  if (memcmp(grad->sizes, expected, sizeof expected) != 0) {
    sizes_text got, wanted;
    return call_fail(c->cx, "%s: expected a gradient of the result's sizes %s, got %s", kernel,
                     sizes_print(&wanted, 4, expected), sizes_print(&got, 4, grad->sizes));
  }
  return RUSH_OK;
}

rush_status roi_read_regions(rush_call *c, roi_job *j, rush_tensor **out)
{
  rush_tensor *rois = NULL;
  TRY(nn_widen(c->cx, call_tensor(c, 1), RUSH_FLOAT64, &rois));
  const double *row = rois->data;
  for (int64_t n = 0; n < j->n_rois; n++, row += 5)
    if (!(row[0] > -1 && row[0] < (double)j->batch)) {
      tensor_release(rois);
      return call_fail_type(c->cx, "IndexError",
                            "%s: region %lld is of image %g, but there are %lld images",
                            c->op->schema->name, (long long)n, row[0], (long long)j->batch);
    }
  j->rois = rois->data;
  *out = rois;
  return RUSH_OK;
}

rush_status roi_read_map(rush_call *c, uint32_t at, int64_t limit, bool may_be_missing, roi_job *j,
                         rush_tensor **out)
{
  rush_tensor *t = call_tensor(c, at), *map = NULL;
  const rush_tensor *grad = call_tensor(c, 0);
  if (t->dtype != RUSH_INT32 || t->n_elems != grad->n_elems)
    return call_fail(c->cx,
                     "%s: '%s' must be the second result of the forward: int32, with the "
                     "gradient's number of elements",
                     c->op->schema->name, c->op->schema->args[at].name);
  TRY(tensor_contiguous(c->cx, t, &map));
  const int32_t *p = map->data, lowest = may_be_missing ? -1 : 0;
  for (int64_t i = 0; i < map->n_elems; i++)
    if (p[i] < lowest || p[i] >= limit) {
      const int32_t wrong = p[i];
      tensor_release(map);
      return call_fail_type(c->cx, "IndexError", "%s: '%s' has %d, expected numbers below %lld",
                            c->op->schema->name, c->op->schema->args[at].name, (int)wrong,
                            (long long)limit);
    }
  j->map = map->data;
  *out = map;
  return RUSH_OK;
}

/* -- Results ----------------------------------------------------------------------------------- */

static rush_status run_rois(call_ctx *cx, roi_job *j, int64_t n_items,
                       void (*work)(void *job, int64_t begin, int64_t end))
{
  TRY(parallel_for(cx, n_items, 1, work, j));
  if (atomic_load_explicit(&j->too_large, memory_order_relaxed))
    return call_fail(cx, "a bin of a region has more than %d samples along a dimension",
                     ROI_SAMPLES);
  return atomic_load_explicit(&j->no_memory, memory_order_relaxed) ? call_nomem(cx) : RUSH_OK;
}

rush_status roi_forward(rush_call *c, roi_job *j, bool has_map, int64_t n_items,
                        void (*work)(void *job, int64_t begin, int64_t end))
{
  const int64_t sizes[4] = {j->n_rois, j->out_channels, j->out_h, j->out_w};
  rush_tensor *x = NULL, *rois = NULL, *y = NULL, *map = NULL;
  rush_status st = tensor_new(c->cx, nn_dtype(j->dtype), 4, sizes, &y);
  if (st == RUSH_OK && has_map)
    st = tensor_new(c->cx, RUSH_INT32, 4, sizes, &map);
  if (st == RUSH_OK && y->n_elems > 0) {
    if ((st = nn_input(c->cx, call_tensor(c, 0), &x)) == RUSH_OK &&
        (st = roi_read_regions(c, j, &rois)) == RUSH_OK) {
      j->x = x->data;
      j->y = y->data;
      j->map = map ? map->data : NULL;
      st = run_rois(c->cx, j, n_items, work);
    }
  }
  if (st == RUSH_OK && map) {
    call_return_steal(c, 1, map);
    map = NULL;
  }
  if (st == RUSH_OK) {
    st = nn_return_steal(c, 0, y, j->dtype, NULL);
    y = NULL;
  }
  tensor_release(y);
  tensor_release(map);
  tensor_release(x);
  tensor_release(rois);
  return st;
}

rush_status roi_backward(rush_call *c, roi_job *j, const int64_t shape[4], int64_t n_items,
                         void (*work)(void *job, int64_t begin, int64_t end))
{
  rush_tensor *grad = NULL, *rois = NULL, *y = NULL;
  rush_status st = tensor_new(c->cx, nn_dtype(j->dtype), 4, shape, &y);
  if (st == RUSH_OK)
    st = tensor_fill(c->cx, y, value_float(0));
  if (st == RUSH_OK && call_tensor(c, 0)->n_elems > 0) {
    if ((st = nn_input(c->cx, call_tensor(c, 0), &grad)) == RUSH_OK &&
        (st = roi_read_regions(c, j, &rois)) == RUSH_OK) {
      j->x = grad->data;
      j->y = y->data;
      st = run_rois(c->cx, j, n_items, work);
    }
  }
  if (st == RUSH_OK) {
    st = nn_return_steal(c, 0, y, j->dtype, NULL);
    y = NULL;
  }
  tensor_release(y);
  tensor_release(grad);
  tensor_release(rois);
  return st;
}
