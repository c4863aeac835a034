/* ops/kernels/vision/roi.c -- what the operators on regions (roi.h) read and check.
 *
 * The shape rules refuse sizes, with torchvision's class and words where it refuses too.  What the
 * regions hold is checked here: the image of a region, the second results that a backward gets
 * back, and coordinates; torchvision does not look at them, so those refusals are ours. */
#include "ops/kernels/vision/roi.h"

#include <math.h>
#include <stdio.h>
#include <string.h>

roi_job roi_job_of(const rush_call *c, bool is_backward, bool is_sensitive)
{
  const rush_tensor *given = call_tensor(c, 0), *made = call_out(c, 0);
  const int64_t *map = (is_backward ? made : given)->sizes,
                *bins = (is_backward ? given : made)->sizes;
  return (roi_job){.cx = c->cx,
                   .dtype = given->dtype,
                   .is_sensitive = is_sensitive,
                   .batch = map[0],
                   .channels = map[1],
                   .height = map[2],
                   .width = map[3],
                   .n_rois = bins[0],
                   .out_channels = bins[1],
                   .out_h = bins[2],
                   .out_w = bins[3],
                   .scale = round_to(given->dtype,
                                     call_float(c, (uint32_t)call_arg(c, "spatial_scale")))};
}

static rush_status check_regions(const rush_call *c, const roi_job *j, bool takes_numbers,
                                 bool has_bins)
{
  for (int64_t i = 0; i < j->n_rois * 5 && takes_numbers; i++)
    if (i % 5 != 0 && !isfinite(j->rois[i]))
      return call_fail(c->cx, "%s: region %lld has the coordinate %g", c->op->schema->name,
                       (long long)(i / 5), j->rois[i]);
  for (int64_t n = 0; n < j->n_rois && has_bins; n++)
    if (!(j->rois[n * 5] > -1 && j->rois[n * 5] < (double)j->batch))
      return call_fail_type(c->cx, "IndexError",
                            "%s: region %lld is of image %g, but there are %lld images",
                            c->op->schema->name, (long long)n, j->rois[n * 5], (long long)j->batch);
  return RUSH_OK;
}

static rush_status check_map(const rush_call *c, const rush_tensor *map, int64_t limit,
                             int32_t lowest)
{
  const char *name = c->op->schema->args[2].name;
  if (map->dtype != RUSH_INT32 || map->n_elems != call_tensor(c, 0)->n_elems)
    return call_fail(c->cx, "%s: '%s' must be the second result of the forward: int32, with the "
                            "gradient's number of elements",
                     c->op->schema->name, name);
  for (int64_t i = 0; i < map->n_elems; i++) {
    const int32_t at = ((const int32_t *)map->data)[i];
    if (at < lowest || at >= limit)
      return call_fail_type(c->cx, "IndexError", "%s: '%s' has %d, expected numbers below %lld",
                            c->op->schema->name, name, (int)at, (long long)limit);
  }
  return RUSH_OK;
}

/* Refuse other dtypes in the name of torchvision's function: "roi_align_forward_kernel". */
static rush_status check_dtype(const rush_call *c)
{
  const int dtype = call_tensor(c, 0)->dtype;
  const char *name = strchr(c->op->schema->name, ':') + 2;
  char text[64];
  if (dtype == RUSH_FLOAT32 || dtype == RUSH_FLOAT64 || dtype == RUSH_FLOAT16)
    return RUSH_OK;
  snprintf(text, sizeof text, "%s%s_kernel", name + (*name == '_'), *name == '_' ? "" : "_forward");
  return call_no_dtype(c->cx, text, dtype);
}

/* Read the regions and run over n items; has_bins: there is something to compute. */
static rush_status run_rois(work *w, roi_job *j, bool takes_numbers, bool has_bins, int64_t n,
                            roi_loop *loop)
{
  WORK_DO(w, check_dtype(w->call));
  j->rois = work_rows(w, call_tensor(w->call, 1), RUSH_FLOAT64)->data;
  WORK_DO(w, check_regions(w->call, j, takes_numbers, has_bins));
  j->x = work_input(w, call_tensor(w->call, 0))->data;
  if (has_bins)
    work_run(w, n, 1, loop, j);
  if (atomic_load_explicit(&j->too_large, memory_order_relaxed))
    WORK_DO(w, call_fail(w->cx, "a bin of a region has more than %d samples along a dimension",
                         ROI_SAMPLES));
  if (atomic_load_explicit(&j->no_memory, memory_order_relaxed))
    WORK_DO(w, call_nomem(w->cx));
  return work_end(w);
}

rush_status roi_forward(rush_call *c, roi_job *j, bool takes_numbers, roi_loop *loop)
{
  work w = work_begin(c);
  j->y = work_output(&w, 0, nn_dtype(j->dtype))->data;
  j->map = c->n_results > 1 ? work_output(&w, 1, RUSH_INT32)->data : NULL;
  return run_rois(&w, j, takes_numbers, call_out(c, 0)->n_elems > 0,
                  j->n_rois * roi_blocks(j->out_channels), loop);
}

rush_status roi_backward(rush_call *c, roi_job *j, bool takes_numbers, int64_t map_limit,
                         int32_t lowest, roi_loop *loop)
{
  work w = work_begin(c);
  rush_tensor *y = work_output(&w, 0, nn_dtype(j->dtype));
  WORK_DO(&w, tensor_fill(c->cx, y, value_float(0)));
  j->y = y->data;
  if (map_limit > 0) {
    const rush_tensor *map = work_rows(&w, call_tensor(c, 2), call_tensor(c, 2)->dtype);
    WORK_DO(&w, check_map(c, map, map_limit, lowest));
    j->map = map->data;
  }
  return run_rois(&w, j, takes_numbers, call_tensor(c, 0)->n_elems > 0, roi_blocks(j->channels),
                  loop);
}
