/* ops/kernels/vision/roi_pool.c -- roi_pool (the largest element of each bin) and ps_roi_pool (the
 * mean of each bin); see roi.h.
 *
 * A region's corners are rounded to whole elements, and a bin covers every element that it touches,
 * so bins overlap by up to one.  NaN coordinates are refused: torchvision's result for them depends
 * on the conversion to an integer.  ps_roi_pool leaves out the map's last row and column in the
 * forward and includes them in the backward, as torchvision does. */
#include <float.h>
#include <math.h>

#include "ops/kernels/vision/roi.h"

typedef struct span {
  int64_t begin, end; /* elements; end <= begin: none */
} span;

typedef struct corners {
  int64_t image;
  int64_t start[2]; /* x, y */
  double bin[2];
} corners;

static double R(const roi_job *j, double x) { return round_to(j->dtype, x); }

/* Return the nearest integer, limited to what the sums below can hold. */
static int64_t element_of(const roi_job *j, double x)
{
  const double most = INT32_MAX / 2, y = round(R(j, x * j->scale));
  return (int64_t)(y > most ? most : y < -most ? -most : y);
}

static corners corners_of(const roi_job *j, int64_t n)
{
  const double *roi = j->rois + n * 5;
  const int64_t inclusive = j->is_sensitive ? 0 : 1, bins[2] = {j->out_w, j->out_h};
  corners k = {.image = roi_image(j, n)};
  for (int d = 0; d < 2; d++) {
    k.start[d] = element_of(j, roi[1 + d]);
    const int64_t size = i64_max(element_of(j, roi[3 + d]) - k.start[d] + inclusive, 1);
    k.bin[d] = R(j, R(j, (double)size) / R(j, (double)bins[d]));
  }
  return k;
}

/* Compute the elements of bin i along dimension d, within [0, limit). */
static span span_of(const roi_job *j, const corners *k, int d, int64_t i, int64_t limit)
{
  const int64_t low = (int64_t)floor(R(j, R(j, (double)i) * k->bin[d])) + k->start[d];
  const int64_t high = (int64_t)ceil(R(j, R(j, (double)(i + 1)) * k->bin[d])) + k->start[d];
  return (span){i64_min(i64_max(low, 0), limit), i64_min(i64_max(high, 0), limit)};
}

static bool is_empty(span y, span x) { return y.end <= y.begin || x.end <= x.begin; }
static int64_t area_of(span y, span x)
{
  return is_empty(y, x) ? 1 : (y.end - y.begin) * (x.end - x.begin);
}

#define FLOAT_BODY "ops/kernels/vision/roi_pool.inc"
#include "ops/kernels/vision/each_float.inc"

/* -- Forward ----------------------------------------------------------------------------------- */

/* Items: a region and a block of result channels. */
static void pool_items(void *arg, int64_t begin, int64_t end)
{
  const roi_job *j = arg;
  const int64_t n_blocks = roi_blocks(j->out_channels);
  for (int64_t i = begin; i < end && !call_over(j->cx); i++) {
    const int64_t c = i % n_blocks * ROI_CHANNELS,
                  last = i64_min(c + ROI_CHANNELS, j->out_channels);
    if (j->dtype == RUSH_FLOAT64)
      pool_channels_f64(j, i / n_blocks, c, last);
    else
      pool_channels_f32(j, i / n_blocks, c, last);
  }
}

/* input, rois, spatial_scale, pooled_height, pooled_width */
rush_status kernel_roi_pool(rush_call *c)
{
  roi_job j = roi_job_of(c, false, false);
  if (j.height > 0 && j.width > INT32_MAX / j.height)
    return call_fail(c->cx, "roi_pool: a map of %lld by %lld elements; argmax is int32",
                     (long long)j.height, (long long)j.width);
  return roi_forward(c, &j, true, pool_items);
}
rush_status kernel_ps_roi_pool(rush_call *c)
{
  roi_job j = roi_job_of(c, false, true);
  return roi_forward(c, &j, true, pool_items);
}

/* -- Backward ---------------------------------------------------------------------------------- */

/* Items: blocks of input channels. */
static void unpool_items(void *arg, int64_t begin, int64_t end)
{
  const roi_job *j = arg;
  for (int64_t i = begin; i < end; i++)
    for (int64_t n = 0; n < j->n_rois && !call_over(j->cx); n++) {
      const int64_t first = i * ROI_CHANNELS, last = i64_min(first + ROI_CHANNELS, j->channels);
      if (j->dtype == RUSH_FLOAT64)
        unpool_channels_f64(j, n, first, last);
      else
        unpool_channels_f32(j, n, first, last);
    }
}

/* grad, rois, argmax, spatial_scale, pooled_height, pooled_width, batch_size, channels, height,
 * width */
rush_status kernel_roi_pool_backward(rush_call *c)
{
  roi_job j = roi_job_of(c, true, false);
  const int64_t limit = i64_min(j.height, INT32_MAX) * i64_min(j.width, INT32_MAX);
  return roi_backward(c, &j, true, i64_max(limit, 1), -1, unpool_items);
}
/* The same with channel_mapping. */
rush_status kernel_ps_roi_pool_backward(rush_call *c)
{
  roi_job j = roi_job_of(c, true, true);
  return roi_backward(c, &j, true, i64_max(j.channels, 1), 0, unpool_items);
}
