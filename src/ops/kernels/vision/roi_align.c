/* ops/kernels/vision/roi_align.c -- roi_align and ps_roi_align: the mean of bilinear samples in
 * each bin of a region (roi.h).
 *
 * The samples of a bin form a grid, so their weights are products: a region becomes one list of
 * taps along y and one along x, shared by all channels.  That takes out_h * grid_h + out_w * grid_w
 * taps, where torchvision stores the product of the two.  Work is split into blocks of channels; a
 * block recomputes the taps, which are few compared with its samples.  In the backward a block owns
 * its channels of all images, so threads never write to one element, and every element is summed in
 * the order of the regions.
 *
 * A coordinate that is NaN or outside by more than one element adds nothing. */
#include <math.h>
#include <string.h>

#include "ops/kernels/vision/roi.h"

typedef struct tap { /* of a sample along one dimension */
  int64_t low, high; /* elements; low -1: outside */
  double w_low, w_high;
} tap;

typedef struct region {
  int64_t image, grid_h, grid_w;
  double count;   /* what the sum of a bin is divided by */
  size_t n_bytes; /* of `y` and `x` together */
  tap *y, *x;     /* out_h * grid_h, out_w * grid_w */
} region;

/* -- Taps -------------------------------------------------------------------------------------- */

static double R(const roi_job *j, double x) { return round_to(j->dtype, x); }

static tap tap_at(const roi_job *j, double x, int64_t size)
{
  if (!(x >= -1 && x <= (double)size) || size == 0)
    return (tap){.low = -1};
  if (x <= 0)
    x = 0;
  tap t = {.low = (int64_t)x};
  if (t.low >= size - 1) {
    t.low = t.high = size - 1;
    x = (double)t.low;
  } else {
    t.high = t.low + 1;
  }
  t.w_high = R(j, x - (double)t.low);
  t.w_low = R(j, 1 - t.w_high);
  return t;
}

/* Compute the interval of region n along a dimension: its start and its size. */
static void interval(const roi_job *j, int64_t n, int first, double *start, double *size)
{
  const double *roi = j->rois + n * 5, shift = j->aligned ? 0.5 : 0;
  *start = R(j, R(j, roi[first] * j->scale) - shift);
  *size = R(j, R(j, R(j, roi[first + 2] * j->scale) - shift) - *start);
  if (!j->aligned && !(*size >= 1))
    *size = 1;
}

/* Return the number of samples of a bin along a dimension; 0 for a NaN size. */
static int64_t grid_of(const roi_job *j, double size, int64_t n_bins)
{
  if (j->ratio > 0)
    return j->ratio;
  const double n = ceil(R(j, size / R(j, (double)n_bins)));
  return n >= -INT32_MAX && n <= INT32_MAX ? (int64_t)n : n > 0 ? INT32_MAX : 0;
}

static void fill_taps(const roi_job *j, tap *t, double start, double size, int64_t n_bins,
                      int64_t grid, int64_t extent)
{
  const double bin = R(j, size / R(j, (double)n_bins)), n_samples = R(j, (double)grid);
  int64_t work = 0;
  for (int64_t b = 0; b < n_bins; b++) {
    const double from = R(j, start + R(j, R(j, (double)b) * bin));
    for (int64_t i = 0; i < grid; i++)
      *t++ = tap_at(j, R(j, from + R(j, R(j, R(j, (double)((float)i + 0.5F)) * bin) / n_samples)),
                    extent);
    if (roi_over(j, &work, grid))
      return;
  }
}

/* Make region n with its taps; free_region releases it.  Returns false, and sets a flag of j, if it
 * is too large or memory runs out. */
static bool make_region(roi_job *j, int64_t n, region *r)
{
  double top, left, height, width;
  size_t rows, cols, n_taps;
  interval(j, n, 2, &top, &height);
  interval(j, n, 1, &left, &width);
  *r = (region){.image = roi_image(j, n),
                .grid_h = grid_of(j, height, j->out_h),
                .grid_w = grid_of(j, width, j->out_w)};
  if (r->grid_h > ROI_SAMPLES || r->grid_w > ROI_SAMPLES) {
    atomic_store_explicit(&j->too_large, true, memory_order_relaxed);
    return false;
  }
  r->count = R(j, (double)r->grid_h * (double)r->grid_w);
  const size_t samples_h = (size_t)i64_max(r->grid_h, 0), samples_w = (size_t)i64_max(r->grid_w, 0);
  if (!size_mul(samples_h, (size_t)j->out_h, &rows) ||
      !size_mul(samples_w, (size_t)j->out_w, &cols) || !size_add(rows, cols, &n_taps) ||
      !size_mul(n_taps, sizeof(tap), &r->n_bytes))
    return false;
  r->y = mem_alloc_data(j->cx->ctx, r->n_bytes);
  if (!r->y)
    return false;
  r->x = r->y + rows;
  memset(r->y, 0, r->n_bytes); /* fill_taps may stop early */
  fill_taps(j, r->y, top, height, j->out_h, (int64_t)samples_h, j->height);
  fill_taps(j, r->x, left, width, j->out_w, (int64_t)samples_w, j->width);
  return true;
}

static void free_region(const roi_job *j, region *r)
{
  mem_free_data(j->cx->ctx, r->y, r->n_bytes);
}

#define FLOAT_BODY "ops/kernels/vision/roi_align.inc"
#include "ops/kernels/vision/each_float.inc"

/* -- Forward ----------------------------------------------------------------------------------- */

/* Items: a region and a block of result channels. */
static void align_items(void *arg, int64_t begin, int64_t end)
{
  roi_job *j = arg;
  const int64_t n_blocks = roi_blocks(j->out_channels);
  region r;
  for (int64_t i = begin; i < end && !call_over(j->cx); i++) {
    const int64_t n = i / n_blocks, c = i % n_blocks * ROI_CHANNELS,
                  last = i64_min(c + ROI_CHANNELS, j->out_channels);
    if (!make_region(j, n, &r)) {
      atomic_store_explicit(&j->no_memory, true, memory_order_relaxed);
      return;
    }
    if (!j->is_sensitive && r.count < 1)
      r.count = 1;
    if (j->dtype == RUSH_FLOAT64)
      align_channels_f64(j, &r, n, c, last);
    else
      align_channels_f32(j, &r, n, c, last);
    free_region(j, &r);
  }
}

/* Samples of a bin; aligned: shifted by half an element, as position-sensitive ones always are. */
static roi_job job_of(const rush_call *c, bool is_backward, bool is_sensitive)
{
  roi_job j = roi_job_of(c, is_backward, is_sensitive);
  j.ratio = call_int(c, (uint32_t)call_arg(c, "sampling_ratio"));
  j.aligned = is_sensitive || value_is_true(call_named(c, "aligned"));
  return j;
}

/* input, rois, spatial_scale, pooled_height, pooled_width, sampling_ratio, aligned */
rush_status kernel_roi_align(rush_call *c)
{
  roi_job j = job_of(c, false, false);
  return roi_forward(c, &j, false, align_items);
}
rush_status kernel_ps_roi_align(rush_call *c)
{
  roi_job j = job_of(c, false, true);
  return roi_forward(c, &j, false, align_items);
}

/* -- Backward ---------------------------------------------------------------------------------- */

/* Items: blocks of input channels. */
static void spread_items(void *arg, int64_t begin, int64_t end)
{
  roi_job *j = arg;
  region r;
  for (int64_t i = begin; i < end; i++)
    for (int64_t n = 0; n < j->n_rois && !call_over(j->cx); n++) {
      if (!make_region(j, n, &r)) {
        atomic_store_explicit(&j->no_memory, true, memory_order_relaxed);
        return;
      }
      const int64_t first = i * ROI_CHANNELS, last = i64_min(first + ROI_CHANNELS, j->channels);
      if (j->dtype == RUSH_FLOAT64)
        spread_channels_f64(j, &r, n, first, last);
      else
        spread_channels_f32(j, &r, n, first, last);
      free_region(j, &r);
    }
}

/* grad, rois, spatial_scale, pooled_height, pooled_width, batch_size, channels, height, width,
 * sampling_ratio, aligned */
rush_status kernel_roi_align_backward(rush_call *c)
{
  roi_job j = job_of(c, true, false);
  return roi_backward(c, &j, false, 0, 0, spread_items);
}
/* grad, rois, channel_mapping, spatial_scale, ... */
rush_status kernel_ps_roi_align_backward(rush_call *c)
{
  roi_job j = job_of(c, true, true);
  return roi_backward(c, &j, false, i64_max(j.channels, 1), 0, spread_items);
}
