/* ops/kernels/vision/roi.h -- regions of feature maps: shared by roi_align.c and roi_pool.c.
 *
 * A region (RoI) is a row [image, x1, y1, x2, y2] in the coordinates of the original picture;
 * `scale` maps it to the feature map.  It is divided into out_h by out_w bins, and a bin becomes
 * one element per channel.  In the position-sensitive forms every element of a result has an input
 * channel of its own: (channel * out_h + bin row) * out_w + bin column.
 *
 * Coordinates are computed in the input's precision, as in torchvision: it decides which elements a
 * bin covers. Sums are computed in float32 or float64; float16 is widened and rounded once, at the
 * end.
 *
 * Regions come from models, so nothing about them can be assumed: read_regions refuses those of
 * missing images, for which torchvision reads out of bounds. Threads: a job is read-only while
 * workers run; each of them writes elements of its own. */
#ifndef RUSH_OPS_KERNELS_ROI_H
#define RUSH_OPS_KERNELS_ROI_H

#include "base/threads.h"
#include "ops/kernels/vision/precision.h"
#include "ops/kernels/nn.h"

enum {
  ROI_CHANNELS = 16,    /* channels of one piece of work */
  ROI_SAMPLES = 1 << 20 /* most samples of a bin along a dimension: a limit of ours */
};

typedef struct roi_job {
  const call_ctx *cx;
  int dtype;         /* of the arguments; sums are in nn_dtype(dtype) */
  bool is_sensitive; /* position-sensitive */
  int64_t batch, channels, height, width;
  int64_t n_rois, out_channels, out_h, out_w;
  double scale;
  const double *rois; /* n_rois rows of 5 */
  const void *x;      /* forward: the maps.  Backward: the gradient of the result */
  void *y;            /* forward: the result.  Backward: the gradient of the maps */
  /* forward: values of the second result.  Backward: its values from the forward.  May be NULL */
  int32_t *map;
  int64_t ratio; /* roi_align: samples of a bin along each dimension, or <= 0: by its size */
  bool aligned;  /* roi_align: shift by half an element */
  atomic_bool no_memory; /* a task ran out of memory */
  atomic_bool too_large; /* a bin has more samples than ROI_SAMPLES */
} roi_job;

/* Return the image of region n.  read_regions has checked it. */
static inline int64_t roi_image(const roi_job *j, int64_t n) { return (int64_t)j->rois[n * 5]; }
/* Return the input channel of a bin of result channel c. */
static inline int64_t roi_channel(const roi_job *j, int64_t c, int64_t row, int64_t col)
{
  return j->is_sensitive ? (c * j->out_h + row) * j->out_w + col : c;
}

/* Check arguments 0 and 1 of the call, and its integers out_h and out_w at argument 3, and fill j.
 * `kernel` is the name of torchvision's function in its messages. */
rush_status roi_read(rush_call *c, const char *kernel, roi_job *j) RUSH_CHECKED;
/* Like roi_read, for a *_backward: argument 0 is the gradient; batch_size, channels, height and
 * width start at `sizes_at` and are stored in shape. */
rush_status roi_read_backward(rush_call *c, const char *kernel, uint32_t sizes_at, roi_job *j,
                              int64_t shape[4]) RUSH_CHECKED;
/* Read the regions as float64.  *out is new and owns what j->rois points to.  Refuses regions of
 * missing images. */
rush_status roi_read_regions(rush_call *c, roi_job *j, rush_tensor **out) RUSH_CHECKED;
/* Run the forward `work` over `n` items: converts inputs, makes and returns result 0 (and 1, if
 * has_map). */
rush_status roi_forward(rush_call *c, roi_job *j, bool has_map, int64_t n_items,
                        void (*work)(void *job, int64_t begin, int64_t end)) RUSH_CHECKED;
/* Run the backward `work` over `n` items of channels: the result starts as zeros. */
rush_status roi_backward(rush_call *c, roi_job *j, const int64_t shape[4], int64_t n_items,
                         void (*work)(void *job, int64_t begin, int64_t end)) RUSH_CHECKED;
/* Read argument `at`, the second result of the forward: int32, one number for each element of the
 * gradient, each below `limit` and at least -1 (or 0, unless may_be_missing).  Sets j->map; *out is
 * new. */
rush_status roi_read_map(rush_call *c, uint32_t at, int64_t limit, bool may_be_missing, roi_job *j,
                         rush_tensor **out) RUSH_CHECKED;

/* Return the number of blocks of ROI_CHANNELS in n channels. */
static inline int64_t roi_blocks(int64_t n) { return (n + ROI_CHANNELS - 1) / ROI_CHANNELS; }
/* Count n steps of work; returns true if the call must end. */
static inline bool roi_over(const roi_job *j, int64_t *work, int64_t n)
{
  *work += n;
  if (*work < 1 << 16)
    return false;
  *work = 0;
  return call_over(j->cx);
}

#endif
