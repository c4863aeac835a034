/* ops/kernels/vision/boxes.c -- nms and box_iou_rotated: which boxes overlap.
 *
 * nms keeps boxes in the order of their scores and drops those that overlap a kept one by more than
 * the threshold: the usual greedy loop, O(kept boxes * boxes).  The boxes are first sorted, one
 * array for each coordinate, so that the loop over the rest is a vector loop; the threshold becomes
 * the largest number of the boxes' precision that is not above it, which compares like
 * torchvision's float64.
 *
 * box_iou_rotated clips one rectangle by the four sides of the other (Sutherland-Hodgman) and
 * computes the remaining area.  torchvision collects points of intersection and makes their convex
 * hull: the same area, but here no tolerance decides whether a point belongs to it.  Both compute
 * in float64 around the middle of the two centres. */
#include <math.h>
#include <string.h>

#include "ops/kernels/nn.h"
#include "ops/kernels/work.h"

/* -- nms --------------------------------------------------------------------------------------- */

typedef struct nms_job {
  call_ctx *cx;
  int64_t n;
  double threshold;
  const void *boxes;    /* n rows of x1, y1, x2, y2 */
  const int64_t *order; /* by falling score */
  void *sorted;         /* x1, y1, x2, y2, area of the boxes in that order: five arrays of n */
  uint8_t *dropped;     /* n, in that order */
  int64_t *kept;        /* n */
} nms_job;

#define T float
#define NAME(x) x##_f32
#define TOWARDS nextafterf
#include "ops/kernels/vision/nms.inc"
#undef T
#undef NAME
#undef TOWARDS
#define T double
#define NAME(x) x##_f64
#define TOWARDS nextafter
#include "ops/kernels/vision/nms.inc"
#undef T
#undef NAME
#undef TOWARDS

static rush_status check_boxes(call_ctx *cx, const rush_tensor *boxes, const rush_tensor *scores)
{
  if (boxes->n_dims != 2)
    return call_fail(cx, "boxes should be a 2d tensor, got %dD", boxes->n_dims);
  if (boxes->sizes[1] != 4)
    return call_fail(cx, "boxes should have 4 elements in dimension 1, got %lld",
                     (long long)boxes->sizes[1]);
  if (scores->n_dims != 1)
    return call_fail(cx, "scores should be a 1d tensor, got %dD", scores->n_dims);
  if (boxes->sizes[0] != scores->sizes[0])
    return call_fail(
      cx, "boxes and scores should have same number of elements in dimension 0, got %lld and %lld",
      (long long)boxes->sizes[0], (long long)scores->sizes[0]);
  if (boxes->dtype != RUSH_FLOAT32 && boxes->dtype != RUSH_FLOAT64)
    return call_no_dtype(cx, "nms_kernel", boxes->dtype);
  if (boxes->dtype != scores->dtype)
    return call_fail(cx, "dets should have the same type as scores");
  return RUSH_OK;
}

/* Return the indices of scores in descending order; equal ones keep their order. */
static rush_tensor *order_of(work *w, rush_tensor *scores)
{
  const op *sort = op_find(w->cx->ctx, STR("aten::sort"), STR("stable"));
  const rush_value args[4] = {nn_arg(scores), value_bool(true), value_int(0), value_bool(true)};
  rush_value results[2] = {value_none(), value_none()};
  if (!sort)
    WORK_DO(w, call_fail(w->cx,
                         "torchvision::nms needs aten::sort.stable, which this build leaves out"));
  WORK_DO(w, op_invoke(w->cx, sort, args, 4, results, 2));
  value_release(results[0]);
  return work_keep_steal(w, results[1].as.tensor, w->st);
}

/* dets, scores, iou_threshold */
rush_status kernel_nms(rush_call *c)
{
  rush_tensor *boxes = call_tensor(c, 0), *scores = call_tensor(c, 1);
  nms_job j = {
    .cx = c->cx, .n = boxes->n_dims ? boxes->sizes[0] : 0, .threshold = call_float(c, 2)};
  const bool is_f64 = boxes->dtype == RUSH_FLOAT64;
  int64_t n_kept = 0;
  TRY(check_boxes(c->cx, boxes, scores));
  work w = work_begin(c);
  if (boxes->n_elems > 0) {
    j.boxes = work_rows(&w, boxes, boxes->dtype)->data;
    j.order = order_of(&w, scores)->data;
    j.sorted = work_memory(&w, j.n, 5 * tensor_item_bytes(boxes));
    j.dropped = work_memory(&w, j.n, 1);
    j.kept = work_memory(&w, j.n, sizeof *j.kept);
    n_kept = w.st != RUSH_OK ? 0 : is_f64 ? keep_boxes_f64(&j) : keep_boxes_f32(&j);
  }
  if (n_kept < 0)
    WORK_DO(&w, call_poll(c->cx));
  n_kept = i64_max(n_kept, 0);
  rush_tensor *out = work_new(&w, RUSH_INT64, 1, &n_kept);
  if (w.st == RUSH_OK && n_kept)
    memcpy(out->data, j.kept, (size_t)n_kept * sizeof *j.kept);
  work_return(&w, 0, out, RUSH_INT64);
  return work_end(&w);
}

/* -- box_iou_rotated --------------------------------------------------------------------------- */

enum { MOST_CORNERS = 8 }; /* of a rectangle cut four times */

typedef struct point {
  double x, y;
} point;
typedef struct polygon {
  int n;
  point p[MOST_CORNERS];
} polygon;

typedef struct iou_job {
  const double *a, *b; /* rows of centre x, centre y, width, height, angle in degrees */
  int64_t n_a, n_b;
  double *out; /* [n_a, n_b] */
} iou_job;

/* Return the corners of a box around (x, y), in counterclockwise order of a left-handed picture. */
static polygon corners_of(const double *box, double x, double y)
{
  const double angle = box[4] * 0.01745329251, c = cos(angle) * 0.5, s = sin(angle) * 0.5;
  const point p = {x + s * box[3] + c * box[2], y + c * box[3] - s * box[2]};
  const point q = {x - s * box[3] + c * box[2], y - c * box[3] - s * box[2]};
  return (polygon){4, {p, q, {2 * x - p.x, 2 * y - p.y}, {2 * x - q.x, 2 * y - q.y}}};
}

/* Return on which side of the line from a to b p is: above 0 is inside for corners_of. */
static double side(point a, point b, point p)
{
  return (b.y - a.y) * (p.x - a.x) - (b.x - a.x) * (p.y - a.y);
}

static void cut(polygon *g, point a, point b)
{
  polygon out = {0};
  for (int i = 0; i < g->n; i++) {
    const point p = g->p[i], q = g->p[(i + 1) % g->n];
    const double at_p = side(a, b, p), at_q = side(a, b, q);
    if (at_p >= 0 && out.n < MOST_CORNERS)
      out.p[out.n++] = p;
    if (((at_p > 0 && at_q < 0) || (at_p < 0 && at_q > 0)) && out.n < MOST_CORNERS) {
      const double t = at_p / (at_p - at_q);
      out.p[out.n++] = (point){p.x + t * (q.x - p.x), p.y + t * (q.y - p.y)};
    }
  }
  *g = out;
}

static double area_of(const polygon *g)
{
  double twice = 0;
  for (int i = 0; i + 1 < g->n; i++) /* around corner 0, which keeps small areas exact */
    twice += (g->p[i].x - g->p[0].x) * (g->p[i + 1].y - g->p[0].y) -
             (g->p[i + 1].x - g->p[0].x) * (g->p[i].y - g->p[0].y);
  return fabs(twice) / 2;
}

static double iou_of(const double *a, const double *b)
{
  const double area_a = a[2] * a[3], area_b = b[2] * b[3];
  if (!(area_a >= 1e-14 && area_b >= 1e-14)) /* widths or heights below 0, or NaN, too */
    return 0;
  const double x = (a[0] + b[0]) / 2, y = (a[1] + b[1]) / 2;
  polygon g = corners_of(a, a[0] - x, a[1] - y);
  const polygon by = corners_of(b, b[0] - x, b[1] - y);
  for (int i = 0; i < 4 && g.n; i++)
    cut(&g, by.p[i], by.p[(i + 1) % 4]);
  const double shared = area_of(&g), all = area_a + area_b - shared;
  const double iou = all > 1e-14 ? shared / all : 0;
  return iou < 0 ? 0 : iou > 1 ? 1 : iou;
}

static void iou_rows(void *arg, int64_t begin, int64_t end)
{
  const iou_job *j = arg;
  for (int64_t i = begin; i < end; i++)
    j->out[i] = iou_of(j->a + i / j->n_b * 5, j->b + i % j->n_b * 5);
}

/* boxes1, boxes2 */
rush_status kernel_box_iou_rotated(rush_call *c)
{
  rush_tensor *a = call_tensor(c, 0), *b = call_tensor(c, 1);
  if (a->dtype != RUSH_FLOAT32 && a->dtype != RUSH_FLOAT64)
    return call_no_dtype(c->cx, "box_iou_rotated_cpu", a->dtype);
  work w = work_begin(c);
  iou_job j = {work_rows(&w, a, RUSH_FLOAT64)->data, work_rows(&w, b, RUSH_FLOAT64)->data,
               a->sizes[0], b->sizes[0], work_output(&w, 0, RUSH_FLOAT64)->data};
  work_run(&w, call_out(c, 0)->n_elems, 256, iou_rows, &j);
  return work_end(&w);
}
