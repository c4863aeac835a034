/* ops/kernels/layout/rearrange.c -- operators that move every element to another position: pixel
 * and channel shuffles, im2col and col2im.
 *
 * Each is one copy between two views: dimensions are split in two and permuted. */
#include "ops/math/combine.h"
#include "ops/kernels/views.h"
#include "tensor/iter.h"

/* Split dimension d into (n / inner, inner). */
static void geom_split(geom *g, int d, int64_t inner)
{
  for (int i = g->n_dims; i > d; i--) {
    g->sizes[i] = g->sizes[i - 1];
    g->strides[i] = g->strides[i - 1];
  }
  g->sizes[d] /= inner;
  g->strides[d] =
    (int64_t)((uint64_t)g->strides[d] *
              (uint64_t)inner); /* wraps only where a size is 0: nothing follows it then */
  g->sizes[d + 1] = inner;
  g->n_dims++;
}

static void geom_move(geom *g, int from, int to)
{
  int64_t size = g->sizes[from], stride = g->strides[from];
  geom_remove_dim(g, from);
  for (int i = g->n_dims++; i > to; i--) {
    g->sizes[i] = g->sizes[i - 1];
    g->strides[i] = g->strides[i - 1];
  }
  g->sizes[to] = size;
  g->strides[to] = stride;
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

static rush_status check_pair(rush_call *c, const char *what, const char *name, const int64_t *v,
                              int64_t least)
{
  if (v[0] >= least && v[1] >= least)
    return RUSH_OK;
  return call_fail(c->cx, "%s should be %s, but got %s_height: %lld %s_width: %lld", what,
                   least ? "greater than zero" : "non-negative", name, (long long)v[0], name,
                   (long long)v[1]);
}

/* Read kernel_size, dilation, padding, stride from argument `at` on. */
static rush_status read_blocks(rush_call *c, uint32_t at, blocks *b)
{
  static const char *const names[] = {"kernel_size", "dilation", "padding", "stride"};
  int64_t *const into[] = {b->kernel, b->dilation, b->padding, b->stride};
  for (uint32_t i = 0; i < 4; i++)
    if (call_list(c, at + i) && call_list(c, at + i)->n != 2)
      return call_fail(c->cx, "It is expected %s equals to 2, but got size %zu", names[i],
                       call_list(c, at + i)->n);
    else if (!call_ints_fixed(c, at + i, into[i], 2))
      return call_fail(c->cx, "It is expected %s equals to 2", names[i]);
  for (int i = 0; i < 2; i++)
    for (uint32_t k = 0; k < 4; k++)
      if (into[k][i] > INT32_MAX)
        return call_fail(c->cx, "%s is too large", names[k]);
  TRY(check_pair(c, "kernel size", "kernel", b->kernel, 1));
  TRY(check_pair(c, "dilation", "dilation", b->dilation, 1));
  TRY(check_pair(c, "padding", "pad", b->padding, 0));
  return check_pair(c, "stride", "stride", b->stride, 1);
}

static void count_blocks(blocks *b)
{
  for (int i = 0; i < 2; i++) {
    int64_t room = b->size[i] + 2 * b->padding[i] - b->dilation[i] * (b->kernel[i] - 1) - 1;
    b->n[i] = (room < 0 ? -((-room + b->stride[i] - 1) / b->stride[i]) : room / b->stride[i]) + 1;
  }
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
static rush_status new_bordered(call_ctx *cx, int dtype, int64_t n, int64_t channels,
                                const blocks *b, rush_tensor **out)
{
  int64_t sizes[] = {n, channels, b->size[0] + 2 * b->padding[0], b->size[1] + 2 * b->padding[1]};
  TRY(tensor_new(cx, dtype, 4, sizes, out));
  rush_status s = tensor_fill(cx, *out, value_int(0));
  if (s != RUSH_OK)
    tensor_release(*out);
  return s;
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
static rush_status batch_geom(rush_call *c, const rush_tensor *t, int n_dims, geom *g)
{
  geom_of(g, t);
  return t->n_dims == n_dims - 1 ? geom_unsqueeze(c->cx, g, 0) : RUSH_OK;
}

static rush_status check_im2col(rush_call *c, const rush_tensor *t, blocks *b)
{
  sizes_text buf;
  bool good = t->n_dims == 3 || t->n_dims == 4;
  for (int d = t->n_dims == 4; d < t->n_dims && good; d++)
    good = t->sizes[d] != 0;
  if (!good)
    return call_fail(
      c->cx,
      "Expected 3D or 4D (batch mode) tensor with possibly 0 batch size and other non-zero "
      "dimensions for input, but got: %s",
      sizes_print(&buf, t->n_dims, t->sizes));
  b->size[0] = t->sizes[t->n_dims - 2];
  b->size[1] = t->sizes[t->n_dims - 1];
  count_blocks(b);
  if (b->n[0] < 1 || b->n[1] < 1)
    return call_fail(
      c->cx,
      "Given input with spatial size (%lld, %lld), kernel_size=(%lld, %lld), dilation=(%lld, "
      "%lld), padding=(%lld, %lld), calculated shape of the array of sliding blocks as (%lld, "
      "%lld), but its components must be at least one.",
      (long long)b->size[0], (long long)b->size[1], (long long)b->kernel[0],
      (long long)b->kernel[1], (long long)b->dilation[0], (long long)b->dilation[1],
      (long long)b->padding[0], (long long)b->padding[1], (long long)b->n[0], (long long)b->n[1]);
  return check_block_dtype(c, t);
}

/* Return t, or a copy with a border; new. */
static rush_status bordered(rush_call *c, rush_tensor *t, const geom *g, const blocks *b,
                            rush_tensor **out)
{
  geom hole;
  if (b->padding[0] == 0 && b->padding[1] == 0)
    return geom_view(c->cx, t, g, out);
  TRY(new_bordered(c->cx, t->dtype, g->sizes[0], g->sizes[1], b, out));
  geom_of(&hole, *out);
  inside(&hole, b);
  rush_status s = geom_copy(c->cx, *out, &hole, t, g);
  if (s != RUSH_OK)
    tensor_release(*out);
  return s;
}

rush_kernel kernel_im2col, kernel_col2im;
rush_status kernel_im2col(rush_call *c)
{
  rush_tensor *t = call_tensor(c, 0), *image, *r;
  blocks b;
  geom g, to;
  TRY(read_blocks(c, 1, &b));
  TRY(check_im2col(c, t, &b));
  TRY(batch_geom(c, t, 4, &g));
  TRY(bordered(c, t, &g, &b, &image));
  int64_t sizes[] = {g.sizes[0], g.sizes[1] * b.kernel[0] * b.kernel[1], b.n[0] * b.n[1]};
  int single = t->n_dims == 3;
  rush_status s = tensor_new(c->cx, t->dtype, 3 - single, sizes + single, &r);
  if (s == RUSH_OK) {
    geom_of(&g, image);
    blocks_of(&g, &b);
    to = g;
    to.offset = 0;
    strides_contiguous(6, to.sizes, to.strides);
    s = call_return_made_steal(c, 0, r, geom_copy(c->cx, r, &to, image, &g));
  }
  tensor_release(image);
  return s;
}

static rush_status check_col2im(rush_call *c, const rush_tensor *t, blocks *b)
{
  sizes_text buf;
  int64_t block = b->kernel[0] * b->kernel[1];
  int d = t->n_dims - 2;
  bool good = t->n_dims == 2 || (t->n_dims == 3 && t->sizes[1] != 0 && t->sizes[2] != 0);
  if (!good || (t->n_dims == 2 && t->n_elems == 0))
    return call_fail(
      c->cx,
      "Expected 2D or 3D (batch mode) tensor for input with possibly 0 batch size and non-zero "
      "dimensions for input, but got: %s",
      sizes_print(&buf, t->n_dims, t->sizes));
  if (t->sizes[d] % block)
    return call_fail(
      c->cx,
      "Expected size of input's dimension 1 to be divisible by the product of kernel_size, but "
      "got input.size(1)=%lld and kernel_size=(%lld, %lld).",
      (long long)t->sizes[d], (long long)b->kernel[0], (long long)b->kernel[1]);
  count_blocks(b);
  if (b->n[0] < 1 || b->n[1] < 1 || t->sizes[d + 1] != b->n[0] * b->n[1])
    return call_fail(
      c->cx,
      "Given output_size=(%lld, %lld), kernel_size=(%lld, %lld), dilation=(%lld, %lld), "
      "padding=(%lld, %lld), stride=(%lld, %lld), expected size of input's dimension 2 to match "
      "the calculated number of sliding blocks %lld * %lld = %lld, but got input.size(2)=%lld.",
      (long long)b->size[0], (long long)b->size[1], (long long)b->kernel[0],
      (long long)b->kernel[1], (long long)b->dilation[0], (long long)b->dilation[1],
      (long long)b->padding[0], (long long)b->padding[1], (long long)b->stride[0],
      (long long)b->stride[1], (long long)b->n[0], (long long)b->n[1],
      (long long)(b->n[0] * b->n[1]), (long long)t->sizes[d + 1]);
  return check_block_dtype(c, t);
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
      TRY(geom_select(c->cx, &to, 2, i));
      TRY(geom_select(c->cx, &to, 2, k));
      TRY(geom_select(c->cx, &from, 2, i));
      TRY(geom_select(c->cx, &from, 2, k));
      TRY(add_views(c->cx, image, &to, t, &from));
    }
  return RUSH_OK;
}

rush_status kernel_col2im(rush_call *c)
{
  rush_tensor *t = call_tensor(c, 0), *image, *dense = NULL, *r = NULL;
  blocks b;
  geom g, from;
  if (call_list(c, 1) && call_list(c, 1)->n != 2)
    return call_fail(c->cx, "It is expected output_size equals to 2, but got size %zu",
                     call_list(c, 1)->n);
  TRY(read_blocks(c, 2, &b));
  if (!call_ints_fixed(c, 1, b.size, 2) || b.size[0] < 0 || b.size[1] < 0 ||
      b.size[0] > INT32_MAX || b.size[1] > INT32_MAX)
    return call_fail(c->cx, "col2im: output_size is no size of an image");
  TRY(check_col2im(c, t, &b));
  int64_t channels = t->sizes[t->n_dims - 2] / (b.kernel[0] * b.kernel[1]);
  TRY(new_bordered(c->cx, t->dtype, t->n_dims == 3 ? t->sizes[0] : 1, channels, &b, &image));
  rush_status s = tensor_contiguous(c->cx, t, &dense);
  if (s == RUSH_OK) {
    geom_of(&g, image);
    blocks_of(&g, &b);
    from = g;
    from.offset = dense->offset;
    strides_contiguous(6, from.sizes, from.strides);
    s = add_blocks(c, image, dense, &g, &from);
  }
  if (s == RUSH_OK) {
    geom_of(&g, image);
    inside(&g, &b);
    if (t->n_dims == 2)
      geom_remove_dim(&g, 0);
    tensor_release(dense);
    s = geom_view(c->cx, image, &g, &dense);
    dense = s == RUSH_OK ? dense : NULL;
  }
  if (s == RUSH_OK)
    s = tensor_contiguous(c->cx, dense, &r);
  tensor_release(image);
  tensor_release(dense);
  return call_return_made_steal(c, 0, r, s);
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
