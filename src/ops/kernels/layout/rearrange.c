/* ops/kernels/layout/rearrange.c -- operators that move every element to another position: pixel
 * and channel shuffles, im2col and col2im.
 *
 * Each is one copy between two views: dimensions are split in two and permuted. */
#include "ops/math/combine.h"
#include "ops/kernels/views.h"
#include "ops/kernels/work.h"
#include "tensor/iter.h"

/* Split dimension d into (n / inner, inner). */
static void geom_split(geom *g, int d, int64_t inner)
{
  geom_insert_dim(g, d + 1, inner, g->strides[d]);
  g->sizes[d] /= inner;
  g->strides[d] =
    (int64_t)((uint64_t)g->strides[d] *
              (uint64_t)inner); /* wraps only where a size is 0: nothing follows it then */
}

static void geom_move(geom *g, int from, int to)
{
  int64_t size = g->sizes[from], stride = g->strides[from];
  geom_remove_dim(g, from);
  geom_insert_dim(g, to, size, stride);
}

/* -- pixel_shuffle, pixel_unshuffle ------------------------------------------------------------ */

/* Make views of (.., C, H, W) with H and W split by f: (.., C, H/f, f, W/f, f), and of the other
 * side with channels split twice: (.., C, f, f, H/f, W/f) permuted to the same order. */
static void pixel_views(geom *fine, geom *coarse, int64_t f)
{
  int c = fine->n_dims - 3;
  geom_split(fine, c + 2, f);
  geom_split(fine, c + 1, f);
  geom_split(coarse, c, f);
  geom_split(coarse, c, f);         /* (C, f, f, H, W) */
  geom_move(coarse, c + 3, c + 1);  /* (C, H, f, f, W) */
  geom_move(coarse, c + 4, c + 3);  /* (C, H, f, W, f) */
}

rush_kernel kernel_pixel_shuffle, kernel_pixel_unshuffle;
rush_status kernel_pixel_shuffle(rush_call *c)
{
  geom fine, coarse;
  geom_of(&fine, call_out(c, 0));
  geom_of(&coarse, call_tensor(c, 0));
  pixel_views(&fine, &coarse, call_int(c, 1));
  return geom_copy(c->cx, call_out(c, 0), &fine, call_tensor(c, 0), &coarse);
}

rush_status kernel_pixel_unshuffle(rush_call *c)
{
  geom fine, coarse;
  geom_of(&fine, call_tensor(c, 0));
  geom_of(&coarse, call_out(c, 0));
  pixel_views(&fine, &coarse, call_int(c, 1));
  return geom_copy(c->cx, call_out(c, 0), &coarse, call_tensor(c, 0), &fine);
}

/* -- channel_shuffle --------------------------------------------------------------------------- */

rush_kernel kernel_channel_shuffle;
rush_status kernel_channel_shuffle(rush_call *c)
{
  const rush_tensor *t = call_tensor(c, 0);
  const int64_t groups = call_int(c, 1);
  geom to, from;
  if (t->n_elems == 0)
    return RUSH_OK;
  geom_of(&to, call_out(c, 0));
  geom_of(&from, t);
  geom_split(&to, 1, groups);                  /* (C/g, g) */
  geom_split(&from, 1, t->sizes[1] / groups);  /* (g, C/g) */
  geom_move(&from, 2, 1);
  return geom_copy(c->cx, call_out(c, 0), &to, t, &from);
}

/* -- im2col, col2im ---------------------------------------------------------------------------- */

/* Two-dimensional blocks: the arguments of both operators. */
typedef struct blocks {
  int64_t size[2]; /* of the image */
  int64_t kernel[2], dilation[2], padding[2], stride[2], n[2]; /* n: blocks */
} blocks;

/* Read kernel_size, dilation, padding, stride, which the rule has checked, from argument `at` on.
 * */
static blocks read_blocks(const rush_call *c, uint32_t at, const int64_t *size)
{
  blocks b = {.size = {size[0], size[1]}};
  int64_t *const into[] = {b.kernel, b.dilation, b.padding, b.stride};
  for (uint32_t i = 0; i < 4; i++)
    (void)call_ints_fixed(c, at + i, into[i], 2);
  for (int i = 0; i < 2; i++)
    b.n[i] =
      (b.size[i] + 2 * b.padding[i] - b.dilation[i] * (b.kernel[i] - 1) - 1) / b.stride[i] + 1;
  return b;
}

static rush_status check_block_dtype(rush_call *c, const rush_tensor *t)
{
  const char *name = strrchr(c->op->schema->name, ':') + 1;
  if (dtype_is_float(t->dtype) || dtype_is_complex(t->dtype) || t->dtype == RUSH_BOOL)
    return RUSH_OK;
  return call_fail_type(c->cx, "NotImplementedError", "\"%s_out_cpu\" not implemented for '%s'",
                        name, dtype_aten_name(t->dtype));
}

/* Make a batch of images with a border of zeros: (N, C, H + 2 p, W + 2 p). */
static rush_tensor *new_bordered(work *w, int dtype, int64_t n, int64_t channels, const blocks *b)
{
  const int64_t sizes[] = {n, channels, b->size[0] + 2 * b->padding[0],
                           b->size[1] + 2 * b->padding[1]};
  rush_tensor *t = work_new(w, dtype, 4, sizes);
  WORK_DO(w, tensor_fill(w->cx, t, value_int(0)));
  return t;
}

static void inside(geom *g, const blocks *b)
{
  for (int i = 0; i < 2; i++) {
    g->offset += b->padding[i] * g->strides[2 + i];
    g->sizes[2 + i] = b->size[i];
  }
}

/* View (N, C, H, W) as (N, C, kh, kw, nh, nw). */
static void blocks_of(geom *g, const blocks *b)
{
  int64_t h = g->strides[2], w = g->strides[3];
  const int64_t sizes[] = {b->kernel[0], b->kernel[1], b->n[0], b->n[1]};
  const int64_t strides[] = {h * b->dilation[0], w * b->dilation[1], h * b->stride[0],
                             w * b->stride[1]};
  g->n_dims = 6;
  memcpy(g->sizes + 2, sizes, sizeof sizes);
  memcpy(g->strides + 2, strides, sizeof strides);
}

/* View t as a batch; a single image gets a first dimension. */
static void batch_geom(const rush_tensor *t, int n_dims, geom *g)
{
  geom_of(g, t);
  if (t->n_dims == n_dims - 1)
    geom_insert_dim(g, 0, 1, t->n_elems);
}

rush_kernel kernel_im2col, kernel_col2im;
rush_status kernel_im2col(rush_call *c)
{
  rush_tensor *t = call_tensor(c, 0), *r = call_out(c, 0), *image;
  const blocks b = read_blocks(c, 1, t->sizes + t->n_dims - 2);
  geom g, hole, to;
  TRY(check_block_dtype(c, t));
  batch_geom(t, 4, &g);
  work w = work_begin(c);
  if (b.padding[0] == 0 && b.padding[1] == 0) {
    image = t;
  } else {
    image = new_bordered(&w, t->dtype, g.sizes[0], g.sizes[1], &b);
    if (w.st == RUSH_OK) {
      geom_of(&hole, image);
      inside(&hole, &b);
      w.st = geom_copy(c->cx, image, &hole, t, &g);
    }
    geom_of(&g, image);
  }
  if (w.st == RUSH_OK) {
    blocks_of(&g, &b);
    to = g;
    to.offset = r->offset;
    strides_contiguous(6, to.sizes, to.strides);
    w.st = geom_copy(c->cx, r, &to, image, &g);
  }
  return work_end(&w);
}

static void loop_add(void *arg, int64_t n, char *const *p, const int64_t *s)
{
  (*(combine_fn **)arg)(p[0], NULL, s[0], p[1], s[1], n);
}

/* Compute to[..] += from[..] of the same sizes, where elements of `to` may repeat: on one thread,
 * in order. */
static rush_status add_views(call_ctx *cx, rush_tensor *to, const geom *g_to,
                             const rush_tensor *from, const geom *g_from)
{
  combine_fn *add = combine_find(COMBINE_ADD, to->dtype);
  rush_tensor *a, *b = NULL;
  tensor_iter it;
  if (!add)
    return call_unsupported(cx, "adding up elements of %s", dtype_aten_name(to->dtype));
  TRY(geom_view(cx, to, g_to, &a));
  rush_status s = geom_view(cx, from, g_from, &b);
  if (s == RUSH_OK) {
    iter_init(&it, a->n_dims, a->sizes);
    iter_add(&it, a);
    iter_add(&it, b);
    iter_finish(&it);
    s = iter_run(cx, &it, INT64_MAX, loop_add, &add);
  }
  tensor_release(a);
  tensor_release(b);
  return s;
}

/* Add the blocks; kernel positions one after the other, as in PyTorch. */
static rush_status add_blocks(rush_call *c, rush_tensor *image, const rush_tensor *t,
                              const geom *g_to, const geom *g_from)
{
  for (int64_t i = 0; i < g_to->sizes[2]; i++)
    for (int64_t k = 0; k < g_to->sizes[3]; k++) {
      geom to = *g_to, from = *g_from;
      geom_select(&to, 2, i);
      geom_select(&to, 2, k);
      geom_select(&from, 2, i);
      geom_select(&from, 2, k);
      TRY(add_views(c->cx, image, &to, t, &from));
    }
  return RUSH_OK;
}

rush_status kernel_col2im(rush_call *c)
{
  rush_tensor *t = call_tensor(c, 0), *r = call_out(c, 0);
  const int single = t->n_dims == 2;
  const blocks b = read_blocks(c, 2, r->sizes + r->n_dims - 2);
  geom g, from, to;
  TRY(check_block_dtype(c, t));
  work w = work_begin(c);
  rush_tensor *image =
                new_bordered(&w, t->dtype, single ? 1 : t->sizes[0], r->sizes[1 - single], &b),
              *dense = WORK_MAKE(&w, tensor_contiguous(c->cx, t, &w.made));
  if (w.st != RUSH_OK)
    return work_end(&w);
  geom_of(&g, image);
  blocks_of(&g, &b);
  from = g;
  from.offset = dense->offset;
  strides_contiguous(6, from.sizes, from.strides);
  WORK_DO(&w, add_blocks(c, image, dense, &g, &from));
  geom_of(&g, image);
  inside(&g, &b);
  batch_geom(r, 4, &to);
  WORK_DO(&w, geom_copy(c->cx, r, &to, image, &g));
  return work_end(&w);
}

/* Compute the sum over all windows that unfold() made. */
rush_kernel kernel_unfold_backward;
rush_status kernel_unfold_backward(rush_call *c)
{
  const rush_tensor *grad = call_tensor(c, 0);
  rush_tensor *r = call_out(c, 0);
  const int64_t size = call_int(c, 3), step = call_int(c, 4);
  const int n = r->n_dims;
  int dim;
  geom to, from;
  TRY(dim_wrap(c->cx, call_int(c, 2), n, &dim));
  if (n == 0 || grad->n_dims != n + 1 || size < 0 || step <= 0 || r->sizes[dim] < size ||
      grad->sizes[dim] != (r->sizes[dim] - size) / step + 1 || grad->sizes[n] != size)
    return call_fail(c->cx,
                     "unfold_backward: the gradient does not have the shape that unfold gives");
  TRY(tensor_fill(c->cx, r, value_int(0)));
  geom_of(&to, r);
  geom_of(&from, grad);
  to.n_dims = n + 1;
  to.sizes[n] = size;
  to.strides[n] = to.strides[dim];
  to.strides[dim] *= step;
  to.sizes[dim] = grad->sizes[dim];
  return add_views(c->cx, r, &to, grad, &from);
}
