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
 * Regions come from models, so nothing about them can be assumed: roi_forward refuses those of
 * images that do not exist, which torchvision reads past the end for. Threads: a job is read-only
 * while workers run; each of them writes elements of its own. */
#ifndef RUSH_OPS_KERNELS_ROI_H
#define RUSH_OPS_KERNELS_ROI_H

#include "ops/kernels/nn.h"
#include "ops/kernels/vision/precision.h"
#include "ops/kernels/work.h"

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

/* The image of region n.  It has been checked. */
static inline int64_t roi_image(const roi_job *j, int64_t n) { return (int64_t)j->rois[n * 5]; }
/* Return the input channel of a bin of result channel c. */
static inline int64_t roi_channel(const roi_job *j, int64_t c, int64_t row, int64_t col)
{
  return j->is_sensitive ? (c * j->out_h + row) * j->out_w + col : c;
}

/* A call's parameters of regions and their bins; a *_backward's argument 0 is the gradient. */
roi_job roi_job_of(const rush_call *c, bool is_backward, bool is_sensitive);
typedef void roi_loop(void *job, int64_t begin, int64_t end);
/* Run `loop` over the regions and their blocks of result channels: result 0, and 1 if there is one.
 * Refuses regions of missing images, and (takes_numbers) coordinates that are not finite. */
rush_status roi_forward(rush_call *c, roi_job *j, bool takes_numbers, roi_loop *loop) RUSH_CHECKED;
/* Run `loop` over blocks of input channels; the result starts as zeros.  Where map_limit > 0,
 * argument 2 is the second result of the forward operator: int32, one number for each element of
 * the gradient, each below map_limit and at least `lowest`; it becomes j->map. */
rush_status roi_backward(rush_call *c, roi_job *j, bool takes_numbers, int64_t map_limit,
                         int32_t lowest, roi_loop *loop) RUSH_CHECKED;

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
