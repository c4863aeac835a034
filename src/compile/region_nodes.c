/* compile/region_nodes.c -- which nodes can be in a region (region.h), and what they compute.  All
 * that a region relies on is read here and in region_values.c: sizes and layouts from the types of
 * values, windows from constant lists, flags from constants.  Limits on windows and sizes keep all
 * products of block.h far below 2^63; what exceeds them runs as before. */
#include "base/macros.h"
#include "compile/region_values.h"
#include "ops/math/resize.h"
#include "ops/table/op_keys.h"

#define FEW_CHANNELS "too few channels to fill a block"
#define NO_IMAGE "sizes or layouts are unknown, or not a row-major float32 image"
#define MOST_WINDOW 64     /* stride, padding, and the reach of a kernel */
/* What one task of block.c does stays far below 10 ms. */
#define MOST_TERMS 65536   /* of a convolution's sum */
#define MOST_POOLED 256    /* elements of a window */
#define MOST_AVERAGED 65536
#define MOST_SUMMED 32768 /* mean adds more in pieces */
/* conv.c computes kernels of more elements as sums of all channels, in pieces. */
#define MOST_TAPS 384
#define FEWEST_GROUPED 16 /* pixels of a group norm: fewer are added in another order (nn/norm.c) */
#define MOST_GROUPED (INT64_C(1) << 18)
#define MOST_LAYER 4096 /* channels of a layer norm: of 16 pixels in L2 */

/* -- Windows ----------------------------------------------------------------------------------- */

static const region_window plain_window = {{1, 1}, {1, 1}, {0, 0}, {1, 1}, 0,
                                           false,  0,      0.0f,   0,      {0.0, 0.0}};

/* Read the list into out, h before w; `otherwise`: of an empty list (NULL: refuse). */
static bool window_list(const backend *k, const rush_graph_value *list, int n_spatial,
                        const int64_t *otherwise, int64_t *out)
{
  int64_t read[2] = {0, 0};
  bool is_empty;

  if (!list || !region_ints(k, list, (size_t)n_spatial, read, &is_empty))
    return false;
  if (is_empty && !otherwise)
    return false;
  for (int i = 0; i < n_spatial; i++)
    out[2 - n_spatial + i] = is_empty ? otherwise[2 - n_spatial + i] : read[i];
  return true;
}

/* True if each size of `to` is that of the window over `from`, and all is small. */
static bool window_fits(const region_window *w, const region_image *from, const region_image *to,
                        bool rounds_up)
{
  const int64_t in[2] = {from->h, from->w}, out[2] = {to->h, to->w};

  for (int d = 0; d < 2; d++) {
    if (w->kernel[d] < 1 || w->stride[d] < 1 || w->dilation[d] < 1 || w->pad[d] < 0 ||
        w->kernel[d] > MOST_WINDOW || w->stride[d] > MOST_WINDOW ||
        w->dilation[d] > MOST_WINDOW || w->pad[d] > MOST_WINDOW)
      return false;
    const int64_t reach = w->dilation[d] * (w->kernel[d] - 1) + 1;
    const int64_t left = in[d] + 2 * w->pad[d] - reach;
    if (reach > MOST_WINDOW || left < 0 ||
        (out[d] != left / w->stride[d] + 1 &&
         !(rounds_up && out[d] == (left + w->stride[d] - 1) / w->stride[d] + 1)))
      return false;
  }
  return true;
}

/* True if an image with its border is not many times as large. */
static bool border_is_small(const region_window *w, const region_image *in)
{
  return (in->h + 2 * w->pad[0]) * (in->w + 2 * w->pad[1]) <= 4 * in->h * in->w + 1024;
}

/* -- Convolutions ------------------------------------------------------------------------------ */

/* Read a convolution's lists; text ("same") is refused. */
static bool read_window(const backend *k, const rush_node *n, int n_spatial, region_window *w)
{
  const int64_t zeros[2] = {0, 0}, ones[2] = {1, 1};

  return window_list(k, ARG(k, n, "stride"), n_spatial, ones, w->stride) &&
         window_list(k, ARG(k, n, "padding"), n_spatial, zeros, w->pad) &&
         window_list(k, ARG(k, n, "dilation"), n_spatial, ones, w->dilation);
}

static const char *read_conv(const backend *k, const rush_node *n, region_window *w)
{
  const rush_backend_api *api = k->api;
  const rush_graph_value *transposed = ARG(k, n, "transposed"), *bias = ARG(k, n, "bias");
  region_image in, out, weight;
  int64_t groups;

  *w = plain_window;
  if (!region_plain_image(k, api->node_input(n, 0), &in) ||
      !region_plain_image(k, api->node_output(n, 0), &out) ||
      !region_plain_image(k, api->node_input(n, 1), &weight))
    return NO_IMAGE;
  if (region_wastes_blocks(&out) &&
      region_wastes_blocks(&in)) /* one of both: cheaper than its conversion */
    return FEW_CHANNELS;
  const int n_spatial = region_dims_of(k, api->node_input(n, 0)) - 2;
  if (n_spatial != region_dims_of(k, api->node_input(n, 1)) - 2)
    return "an image without a batch";
  if (!read_window(k, n, n_spatial, w) || !region_int(k, ARG(k, n, "groups"), &groups) ||
      (transposed && !region_is_false(k, transposed)))
    return "a window that is not constant, or a transposed convolution";
  w->kernel[0] = weight.h;
  w->kernel[1] = weight.w;
  const int64_t taps = weight.h * weight.w;
  const bool fits = groups > 0 && in.n_ch == groups * weight.n_ch && out.n_ch % groups == 0;
  const bool gathers = fits && region_group_width(k, n) && weight.n_ch * taps <= MOST_TAPS &&
                       region_is_row_major(k, api->node_input(n, 1));
  const bool blocks = weight.n_ch % BLOCK_LANES == 0 && out.n_ch / groups % BLOCK_LANES == 0;
  const bool product = fits && (groups == 1 || (blocks && !region_group_width(k, n))) &&
                       weight.n_ch <= MOST_TERMS / taps;
  if (!window_fits(w, &in, &out, false) || !border_is_small(w, &in) ||
      weight.batch != out.n_ch || in.batch != out.batch || (!gathers && !product))
    return "a window or groups that have no kernel in blocks";
  if (!region_is_none(k, bias) && !region_is_vector(k, bias, out.n_ch))
    return "a bias of unknown size";
  return NULL;
}

/* Read a transposed convolution whose windows do not meet and fill the image: one element of the
 * kernel for each result. */
static const char *read_spread(const backend *k, const rush_node *n, region_window *w)
{
  const rush_backend_api *api = k->api;
  const rush_graph_value *bias = ARG(k, n, "bias");
  const int64_t zeros[2] = {0, 0};
  region_image in, out, weight;
  int64_t groups, extra[2];

  *w = plain_window;
  if (!region_plain_image(k, api->node_input(n, 0), &in) ||
      !region_plain_image(k, api->node_output(n, 0), &out) || region_wastes_blocks(&out) ||
      !region_plain_image(k, api->node_input(n, 1), &weight) ||
      !region_is_row_major(k, api->node_input(n, 1)) ||
      region_dims_of(k, api->node_input(n, 0)) != 4 ||
      region_dims_of(k, api->node_input(n, 1)) != 4)
    return NO_IMAGE;
  if (!read_window(k, n, 2, w) || !region_int(k, ARG(k, n, "groups"), &groups) ||
      !window_list(k, ARG(k, n, "output_padding"), 2, zeros, extra))
    return "a window that is not constant";
  w->kernel[0] = weight.h;
  w->kernel[1] = weight.w;
  for (int d = 0; d < 2; d++)
    if (w->kernel[d] != w->stride[d] || w->kernel[d] > 4 || w->pad[d] != 0 || extra[d] != 0 ||
        w->dilation[d] != 1)
      return "a transposed convolution whose windows meet or leave gaps";
  if (groups != 1 || weight.batch != in.n_ch || weight.n_ch != out.n_ch || in.batch != out.batch ||
      out.h != in.h * w->stride[0] || out.w != in.w * w->stride[1] || in.n_ch > MOST_TERMS)
    return "a window or groups that have no kernel in blocks";
  if (!region_is_none(k, bias) && !region_is_vector(k, bias, out.n_ch))
    return "a bias of unknown size";
  return NULL;
}

const rush_graph_value *region_bias(const backend *k, const rush_node *n)
{
  return ARG(k, n, "bias");
}

int64_t region_groups(const backend *k, const rush_node *n)
{
  int64_t groups;

  return region_int(k, ARG(k, n, "groups"), &groups) ? groups : 1;
}

int64_t region_group_width(const backend *k, const rush_node *n)
{
  const int64_t groups = region_groups(k, n);
  region_image weight;

  if (groups <= 1 || !region_plain_image(k, k->api->node_input(n, 1), &weight) ||
      weight.batch != groups * weight.n_ch)
    return 0;
  return weight.n_ch <= 2 || weight.n_ch == 4 || weight.n_ch == 8 ? weight.n_ch : 0;
}

static bool seems_last(const backend *k, const rush_graph_value *v);

/* -- Others ------------------------------------------------------------------------------------ */

static const char *read_norm(const backend *k, const rush_node *n)
{
  const rush_graph_value *of[] = {ARG(k, n, "running_mean"), ARG(k, n, "running_var"),
                                  ARG(k, n, "weight"), ARG(k, n, "bias")};
  region_image in, out;
  rush_value eps;

  if (!region_plain_image(k, k->api->node_input(n, 0), &in) ||
      !region_plain_image(k, k->api->node_output(n, 0), &out) || !region_same_image(&in, &out))
    return NO_IMAGE;
  if (region_wastes_blocks(&in))
    return FEW_CHANNELS;
  if (!ARG(k, n, "training") || !region_is_false(k, ARG(k, n, "training")))
    return "a batch norm that may be in training";
  if (!region_constant(k, ARG(k, n, "eps"), &eps) || eps.tag != RUSH_TAG_FLOAT)
    return "an epsilon that is not constant";
  for (size_t i = 0; i < COUNT_OF(of); i++)
    if (!region_is_vector(k, of[i], in.n_ch) && (i < 2 || !region_is_none(k, of[i])))
      return "statistics or parameters of unknown size";
  return NULL;
}

/* Return why the epsilon, weight or bias of a norm of n_ch channels cannot be read, or NULL. */
static const char *refuse_parameters(const backend *k, const rush_node *n, int64_t n_ch)
{
  const rush_graph_value *of[] = {ARG(k, n, "weight"), ARG(k, n, "bias")};
  rush_value eps;

  if (!region_constant(k, ARG(k, n, "eps"), &eps) || eps.tag != RUSH_TAG_FLOAT)
    return "an epsilon that is not constant";
  for (size_t i = 0; i < COUNT_OF(of); i++)
    if (!region_is_vector(k, of[i], n_ch) && !region_is_none(k, of[i]))
      return "parameters of unknown size";
  return NULL;
}

/* Read a norm of groups of channels over all pixels. */
static const char *read_group(const backend *k, const rush_node *n, region_window *w)
{
  region_image in, out;

  *w = plain_window;
  if (!region_plain_image(k, k->api->node_input(n, 0), &in) ||
      !region_plain_image(k, k->api->node_output(n, 0), &out) || !region_same_image(&in, &out) ||
      seems_last(k, k->api->node_input(n, 0)))
    return NO_IMAGE;
  if (region_wastes_blocks(&in))
    return FEW_CHANNELS;
  if (in.h * in.w < FEWEST_GROUPED || in.h * in.w > MOST_GROUPED)
    return "a group norm of few pixels, or of very many";
  if (!region_int(k, ARG(k, n, "num_groups"), &w->groups) || w->groups < 1 ||
      in.n_ch % w->groups != 0)
    return "groups that are not constant";
  return refuse_parameters(k, n, in.n_ch);
}

const rush_graph_value *region_norm_arg(const backend *k, const rush_node *n, int i)
{
  return i == 0   ? ARG(k, n, "weight")
         : i == 1 ? ARG(k, n, "bias")
         : i == 2 ? ARG(k, n, "running_mean")
         : i == 3 ? ARG(k, n, "running_var")
                  : ARG(k, n, "eps");
}

static const char *read_max_pool(const backend *k, const rush_node *n, region_window *w)
{
  const rush_backend_api *api = k->api;
  const int64_t zeros[2] = {0, 0}, ones[2] = {1, 1};
  region_image in, out;
  rush_value rounds_up;

  *w = plain_window;
  if (!region_plain_image(k, api->node_input(n, 0), &in) ||
      !region_plain_image(k, api->node_output(n, 0), &out) || in.batch != out.batch ||
      in.n_ch != out.n_ch)
    return NO_IMAGE;
  const int n_spatial = region_dims_of(k, api->node_input(n, 0)) - 2;
  if (!window_list(k, ARG(k, n, "kernel_size"), n_spatial, NULL, w->kernel) ||
      !window_list(k, ARG(k, n, "stride"), n_spatial, w->kernel, w->stride) ||
      !window_list(k, ARG(k, n, "padding"), n_spatial, zeros, w->pad) ||
      !window_list(k, ARG(k, n, "dilation"), n_spatial, ones, w->dilation) ||
      !region_constant(k, ARG(k, n, "ceil_mode"), &rounds_up) ||
      rounds_up.tag != RUSH_TAG_BOOL || !window_fits(w, &in, &out, rounds_up.as.b) ||
      w->kernel[0] * w->kernel[1] > MOST_POOLED)
    return "a window that is not constant, or too large";
  return region_wastes_blocks(&in) ? FEW_CHANNELS : NULL;
}

const rush_node *region_joined(const backend *k, const rush_node *n)
{
  return k->api->value_node(k->api->node_input(n, 0));
}

/* Return the dimension of channels. */
static int channel_dim(bool last) { return last ? 3 : 1; }

/* True if the argument `dim` of n, of that many dimensions, is that of channels. */
static bool is_of_channels(const backend *k, const rush_node *n, int n_dims, bool last)
{
  int64_t dim;

  return region_int(k, ARG(k, n, "dim"), &dim) &&
         (dim < 0 ? dim + n_dims : dim) == channel_dim(last);
}

static const char *read_cat(const backend *k, const rush_node *n)
{
  const rush_backend_api *api = k->api;
  const rush_node *list = region_joined(k, n);
  const rush_graph_value *result = api->node_output(n, 0);
  const bool last = region_dims_of(k, result) == 4 && seems_last(k, result);
  region_image out, in;
  int64_t n_ch = 0;

  if (!region_image_of(k, result, last, &out) || region_wastes_blocks(&out) ||
      region_dims_of(k, result) < 3)
    return NO_IMAGE;
  if (!list || !region_makes_list(k, list) ||
      !is_of_channels(k, n, region_dims_of(k, result), last) ||
      api->value_n_uses(api->node_output(list, 0)) != 1)
    return "not channels that are joined";
  const size_t n_items = api->node_n_inputs(list);
  for (size_t i = 0; i < n_items; i++) {
    if (!region_image_of(k, api->node_input(list, i), last, &in) || in.batch != out.batch ||
        in.h != out.h || in.w != out.w)
      return "images of several sizes";
    n_ch += in.n_ch;
  }
  return n_ch == out.n_ch ? NULL : NO_IMAGE;
}

/* Read the image of a node whose result has its channels. */
static bool read_pooled(const backend *k, const rush_node *n, region_image *in, region_image *out)
{
  return region_plain_image(k, k->api->node_input(n, 0), in) &&
         region_plain_image(k, k->api->node_output(n, 0), out) &&
         region_dims_of(k, k->api->node_input(n, 0)) == 4 && in->batch == out->batch &&
         in->n_ch == out->n_ch;
}

/* Read a slice of channels, or of everything. */
static const char *read_slice(const backend *k, const rush_node *n, region_window *w,
                              region_op *kind)
{
  const rush_backend_api *api = k->api;
  const rush_graph_value *x = api->node_input(n, 0);
  const bool last = region_dims_of(k, x) == 4 && seems_last(k, x);
  region_image in, out;
  int64_t start = 0, step;

  *w = plain_window;
  if (!region_image_of(k, x, last, &in) ||
      !region_image_of(k, api->node_output(n, 0), last, &out) || in.batch != out.batch ||
      in.h != out.h || in.w != out.w || region_dims_of(k, x) < 3)
    return NO_IMAGE;
  *kind = in.n_ch == out.n_ch ? OP_SAME : OP_SLICE;
  if (!region_int(k, ARG(k, n, "step"), &step) || step != 1 ||
      (!region_is_none(k, ARG(k, n, "start")) && !region_int(k, ARG(k, n, "start"), &start)))
    return "a slice with a step, or that is not constant";
  w->first = start < 0 ? start + in.n_ch : start;
  if (*kind == OP_SLICE && (!is_of_channels(k, n, region_dims_of(k, x), last) || w->first < 0 ||
                            w->first > in.n_ch - out.n_ch))
    return "not a slice of channels";
  return region_wastes_blocks(&in) ? FEW_CHANNELS : NULL;
}

/* Read a view of all elements as they are. */
static const char *read_alias(const backend *k, const rush_node *n)
{
  const rush_graph_value *x = k->api->node_input(n, 0);
  region_image in;

  const bool last = region_dims_of(k, x) == 4 && seems_last(k, x);

  if (!region_image_of(k, x, last, &in) || region_dims_of(k, x) < 3)
    return NO_IMAGE;
  return region_wastes_blocks(&in) ? FEW_CHANNELS : NULL;
}

static const char *read_average(const backend *k, const rush_node *n)
{
  region_image in, out;

  if (!read_pooled(k, n, &in, &out))
    return NO_IMAGE;
  if (in.h * in.w > MOST_AVERAGED || out.h * out.w > MOST_AVERAGED)
    return "an average of very many pixels";
  return region_wastes_blocks(&in) || region_wastes_blocks(&out) ? FEW_CHANNELS : NULL;
}

/* Read a mean over the pixels of each channel. */
static const char *read_mean(const backend *k, const rush_node *n)
{
  region_image in, out;
  int64_t dims[2];
  bool is_empty;

  if (!read_pooled(k, n, &in, &out) || out.h != 1 || out.w != 1 ||
      !region_is_row_major(k, k->api->node_input(n, 0))) /* it adds in memory's order */
    return NO_IMAGE;
  const rush_graph_value *list = ARG(k, n, "dim"), *dtype = ARG(k, n, "dtype");
  if (!list || !region_ints(k, list, 2, dims, &is_empty) || is_empty ||
      (dims[0] + 4) % 4 + (dims[1] + 4) % 4 != 2 + 3 || !region_is_none(k, dtype))
    return "not a mean over rows and columns";
  if (in.h * in.w > MOST_SUMMED)
    return "a mean of very many pixels";
  return region_wastes_blocks(&in) ? FEW_CHANNELS : NULL;
}

static const char *read_windows(const backend *k, const rush_node *n, region_window *w)
{
  const int64_t zeros[2] = {0, 0};
  region_image in, out;
  rush_value rounds_up, count_pad;

  *w = plain_window;
  if (!read_pooled(k, n, &in, &out))
    return NO_IMAGE;
  if (!window_list(k, ARG(k, n, "kernel_size"), 2, NULL, w->kernel) ||
      !window_list(k, ARG(k, n, "stride"), 2, w->kernel, w->stride) ||
      !window_list(k, ARG(k, n, "padding"), 2, zeros, w->pad) ||
      !region_constant(k, ARG(k, n, "ceil_mode"), &rounds_up) ||
      rounds_up.tag != RUSH_TAG_BOOL ||
      !region_constant(k, ARG(k, n, "count_include_pad"), &count_pad) ||
      count_pad.tag != RUSH_TAG_BOOL || !window_fits(w, &in, &out, rounds_up.as.b) ||
      w->kernel[0] * w->kernel[1] > MOST_POOLED)
    return "a window that is not constant, or too large";
  w->count_pad = count_pad.as.b;
  if (!region_is_none(k, ARG(k, n, "divisor_override")) &&
      (!region_int(k, ARG(k, n, "divisor_override"), &w->divisor) || w->divisor == 0))
    return "a divisor that is not constant";
  return region_wastes_blocks(&in) ? FEW_CHANNELS : NULL;
}

/* Read a factor that is given as an argument, or not: 0. */
static bool read_factor(const backend *k, const rush_graph_value *v, double *out)
{
  rush_value c;

  *out = 0.0;
  if (!v || region_is_none(k, v))
    return true;
  if (!region_constant(k, v, &c) || c.tag != RUSH_TAG_FLOAT)
    return false;
  *out = c.as.d;
  return true;
}

/* Read nearest resizing. */
static const char *read_nearest(const backend *k, const rush_node *n, region_window *w)
{
  const rush_graph_value *list = ARG(k, n, "scale_factors");
  region_image in, out;
  rush_value items[2];
  double factors[2];

  *w = plain_window;
  if (!read_pooled(k, n, &in, &out))
    return NO_IMAGE;
  if (!read_factor(k, ARG(k, n, "scales_h"), &factors[0]) ||
      !read_factor(k, ARG(k, n, "scales_w"), &factors[1]))
    return "a factor that is not constant";
  if (list && !region_is_none(k, list)) {
    if (region_items(k, list, 2, items) != 2 || items[0].tag != RUSH_TAG_FLOAT ||
        items[1].tag != RUSH_TAG_FLOAT)
      return "a factor that is not constant";
    factors[0] = items[0].as.d;
    factors[1] = items[1].as.d;
  }
  w->step[0] = (double)(float)resize_step(factors[0], in.h, out.h);
  w->step[1] = (double)(float)resize_step(factors[1], in.w, out.w);
  return region_wastes_blocks(&in) ? FEW_CHANNELS : NULL;
}

/* Read the number that padding is made of. */
static bool read_fill(const backend *k, const rush_node *n, float *fill)
{
  const rush_graph_value *mode = ARG(k, n, "mode");
  rush_value c;

  if (mode && (!region_constant(k, mode, &c) || c.tag != RUSH_TAG_STRING ||
               !str_is(value_str(c), "constant")))
    return false;
  if (!region_constant(k, ARG(k, n, "value"), &c))
    return false;
  *fill = c.tag == RUSH_TAG_FLOAT ? (float)c.as.d : c.tag == RUSH_TAG_INT ? (float)c.as.i : 0.0f;
  return c.tag == RUSH_TAG_FLOAT || c.tag == RUSH_TAG_INT || c.tag == RUSH_TAG_NONE;
}

/* Read padding with a number: left, right, top, bottom. */
static const char *read_pad(const backend *k, const rush_node *n, region_window *w)
{
  const rush_graph_value *x = k->api->node_input(n, 0);
  rush_value sides[4] = {{.tag = RUSH_TAG_INT}, {.tag = RUSH_TAG_INT}, {.tag = RUSH_TAG_INT},
                         {.tag = RUSH_TAG_INT}};
  region_image in, out;

  *w = plain_window;
  if (!region_plain_image(k, x, &in) || !region_plain_image(k, k->api->node_output(n, 0), &out) ||
      in.batch != out.batch || in.n_ch != out.n_ch || seems_last(k, x))
    return NO_IMAGE;
  const int n_sides = region_items(k, ARG(k, n, "pad"), COUNT_OF(sides), sides);
  if ((n_sides != 2 && n_sides != 4) || n_sides / 2 > region_dims_of(k, x) - 2)
    return "not padding of rows and columns";
  for (int i = 0; i < 4; i++)
    if (sides[i].tag != RUSH_TAG_INT || sides[i].as.i < 0 || sides[i].as.i > MOST_WINDOW)
      return "padding that is not constant, negative or wide";
  if (!read_fill(k, n, &w->fill) || out.w != in.w + sides[0].as.i + sides[1].as.i ||
      out.h != in.h + sides[2].as.i + sides[3].as.i)
    return "not padding with a constant number";
  w->pad[0] = sides[2].as.i;
  w->pad[1] = sides[0].as.i;
  return region_wastes_blocks(&in) ? FEW_CHANNELS : NULL;
}

/* -- Channels in the last dimension ------------------------------------------------------------ */

/* Read the weight of the channels of v, four dimensions with channels last. */
static const char *read_layer(const backend *k, const rush_node *n)
{
  const rush_graph_value *x = k->api->node_input(n, 0);
  region_image in, out;
  int64_t size;
  bool is_empty;

  if (region_dims_of(k, x) != 4 || !region_image_of(k, x, true, &in) ||
      !region_image_of(k, k->api->node_output(n, 0), true, &out) || !region_same_image(&in, &out))
    return NO_IMAGE;
  if (!region_ints(k, ARG(k, n, "normalized_shape"), 1, &size, &is_empty) || is_empty ||
      size != in.n_ch || in.n_ch > MOST_LAYER)
    return "not a norm of the last dimension, or of very many elements";
  return region_wastes_blocks(&in) ? FEW_CHANNELS : refuse_parameters(k, n, in.n_ch);
}

static const char *read_linear(const backend *k, const rush_node *n)
{
  const rush_graph_value *x = k->api->node_input(n, 0), *bias = ARG(k, n, "bias");
  region_image in, out;
  rush_type_facts w;

  if (region_dims_of(k, x) != 4 || !region_image_of(k, x, true, &in) ||
      !region_image_of(k, k->api->node_output(n, 0), true, &out) || in.batch != out.batch ||
      in.h != out.h || in.w != out.w)
    return NO_IMAGE;
  if (!region_dense_facts(k, k->api->node_input(n, 1), &w) || w.n_dims != 2 ||
      w.sizes[0] != out.n_ch || w.sizes[1] != in.n_ch || in.n_ch > MOST_TERMS ||
      (!region_is_none(k, bias) && !region_is_vector(k, bias, out.n_ch)))
    return "a weight or bias of unknown size";
  return region_wastes_blocks(&in) || region_wastes_blocks(&out) ? FEW_CHANNELS : NULL;
}

/* Read the order of a permute of four dimensions: 1, channels move last, -1 back, 0 another. */
static int turn_of(const backend *k, const rush_node *n)
{
  static const int64_t last[4] = {0, 2, 3, 1}, back[4] = {0, 3, 1, 2};
  int64_t dims[4];
  bool is_empty, is_last = true, is_back = true;

  if (region_dims_of(k, k->api->node_input(n, 0)) != 4 ||
      !region_ints(k, ARG(k, n, "dims"), 4, dims, &is_empty) || is_empty)
    return 0;
  for (int d = 0; d < 4; d++) {
    is_last &= dims[d] == last[d] || dims[d] + 4 == last[d];
    is_back &= dims[d] == back[d] || dims[d] + 4 == back[d];
  }
  return is_last ? 1 : is_back ? -1 : 0;
}

bool region_turns_last(const backend *k, const rush_node *n) { return turn_of(k, n) > 0; }

static const char *read_turn(const backend *k, const rush_node *n)
{
  const int turn = turn_of(k, n);
  region_image in, out;

  if (turn == 0)
    return "not a permute that moves channels last or back";
  if (!region_image_of(k, k->api->node_input(n, 0), turn < 0, &in) ||
      !region_image_of(k, k->api->node_output(n, 0), turn > 0, &out) ||
      !region_same_image(&in, &out))
    return NO_IMAGE;
  return region_wastes_blocks(&in) ? FEW_CHANNELS : NULL;
}

/* True if v, of four dimensions, has channels last as far as what made it tells. */
static bool seems_last(const backend *k, const rush_graph_value *v)
{
  for (int steps = 0; steps < 64; steps++) {
    const rush_node *n = k->api->value_node(v);
    const op *o = n ? region_table_op(k, n) : NULL;
    const rush_graph_value *next = NULL;

    if (!o || k->api->node_n_outputs(n) != 1)
      return false;
    if (o->name_key == OPN_CAT && (n = region_joined(k, n)) != NULL && region_makes_list(k, n) &&
        k->api->node_n_inputs(n) > 0) {
      v = k->api->node_input(n, 0);
      continue;
    }
    if (o->name_key == OPN_LAYER_NORM || o->name_key == OPN_LINEAR)
      return true;
    if (o->name_key == OPN_PERMUTE)
      return turn_of(k, n) > 0;
    const bool same = o->name_key == OPN_SLICE || o->name_key == OPN_ALIAS ||
                      o->name_key == OPN_CONTIGUOUS;
    if (o->family != FAMILY_POINTWISE && !same)
      return false;
    for (size_t i = 0; i < k->api->node_n_inputs(n) && !next; i++)
      if (region_dims_of(k, k->api->node_input(n, i)) == 4)
        next = k->api->node_input(n, i);
    if (!next)
      return false;
    v = next;
  }
  return false;
}

static const char *read_point(const backend *k, const rush_node *n, cpu_level level)
{
  const rush_backend_api *api = k->api;
  const rush_graph_value *result = api->node_output(n, 0);
  region_image out, in;
  rush_value c;
  const char *why = group_refuse(k, n, level);
  bool has_whole = false;

  if (why)
    return why;
  const bool last = region_dims_of(k, result) == 4 && seems_last(k, result);
  if (!region_image_of(k, result, last, &out) || region_dims_of(k, result) < 3)
    return NO_IMAGE; /* matrices are left to other groups */
  if (region_wastes_blocks(&out) || (out.n_ch == 1 && out.h * out.w == 1))
    return FEW_CHANNELS;
  for (size_t i = 0; i < api->node_n_inputs(n); i++) {
    const rush_graph_value *v = api->node_input(n, i);

    if (api->value_constant(v, &c) && c.tag != RUSH_TAG_TENSOR)
      continue;
    const bool same_dims = region_dims_of(k, v) == region_dims_of(k, result) &&
                           region_image_of(k, v, last, &in);
    const bool whole = same_dims && region_same_image(&in, &out);
    const bool one = region_is_one(k, v) && out.h * out.w > 1;
    if (!whole && !one && !region_is_channels(k, v, last, out.n_ch) &&
        (!same_dims || in.batch != out.batch || in.n_ch != out.n_ch || in.h != 1 || in.w != 1))
      return "an operand of another size, or a number that is not constant";
    has_whole |= whole;
  }
  return has_whole ? NULL : "no operand has the result's size";
}

static region_op op_or_none(region_op op, const char *refused, const char **why)
{
  *why = refused;
  return refused ? OP_NONE : op;
}

region_op region_op_of(const backend *k, const rush_node *n, region_window *w, const char **why)
{
  const op *o = region_table_op(k, n);

  if (!o && region_makes_list(k, n))
    return op_or_none(OP_LIST, NULL, why);
  switch (o && k->api->node_n_outputs(n) == 1 ? o->name_key : 0) {
  case OPN_CONV1D: case OPN_CONV2D: case OPN_CONVOLUTION: case OPN__CONVOLUTION:
    return op_or_none(OP_CONV, read_conv(k, n, w), why);
  case OPN_CONV_TRANSPOSE2D:
    return op_or_none(OP_SPREAD, read_spread(k, n, w), why);
  case OPN_BATCH_NORM:
    return op_or_none(OP_NORM, read_norm(k, n), why);
  case OPN_MAX_POOL1D: case OPN_MAX_POOL2D:
    return op_or_none(OP_MAX_POOL, read_max_pool(k, n, w), why);
  case OPN_CAT:
    return op_or_none(OP_CAT, read_cat(k, n), why);
  case OPN_ADAPTIVE_AVG_POOL2D:
    return op_or_none(OP_AVERAGE, read_average(k, n), why);
  case OPN_AVG_POOL2D:
    return op_or_none(OP_WINDOWS, read_windows(k, n, w), why);
  case OPN_PAD: case OPN_CONSTANT_PAD_ND:
    return op_or_none(OP_PAD, read_pad(k, n, w), why);
  case OPN_GROUP_NORM:
    return op_or_none(OP_GROUP, read_group(k, n, w), why);
  case OPN_LAYER_NORM:
    return op_or_none(OP_LAYER, read_layer(k, n), why);
  case OPN_LINEAR:
    return op_or_none(OP_LINEAR, read_linear(k, n), why);
  case OPN_PERMUTE:
    return op_or_none(OP_TURN, read_turn(k, n), why);
  case OPN_SLICE: {
    region_op kind = OP_SLICE;
    const char *refused = read_slice(k, n, w, &kind);
    return op_or_none(kind, refused, why);
  }
  case OPN_ALIAS: case OPN_CONTIGUOUS:
    return op_or_none(OP_SAME, read_alias(k, n), why);
  case OPN_MEAN:
    return op_or_none(OP_MEAN, read_mean(k, n), why);
  case OPN_UPSAMPLE_NEAREST2D:
    return op_or_none(OP_NEAREST, read_nearest(k, n, w), why);
  }
  return op_or_none(OP_POINT, read_point(k, n, (cpu_level)k->api->context_cpu(k->ctx)), why);
}

/* True if nothing in the graph can tell a copy from a view of v: it is only read, and so is what
 * shares its memory. */
static bool is_only_read(const backend *k, const rush_graph_value *v, int levels)
{
  const rush_backend_api *api = k->api;
  size_t input;

  for (size_t i = 0; i < api->value_n_uses(v); i++) {
    const rush_node *user = api->value_use(v, i, &input);
    const op *o = region_table_op(k, user);
    const bool lists = !o && region_makes_list(k, user) && api->node_n_outputs(user) == 1;

    if ((!o && !lists) || (o && o->effects & (OP_WRITES | OP_SIDE_EFFECT)) || levels == 0)
      return false;
    const bool shares = lists || o->family == FAMILY_VIEW || o->effects & OP_RETURNS_ARG;
    for (size_t r = 0; shares && r < api->node_n_outputs(user); r++)
      if (!is_only_read(k, api->node_output(user, r), levels - 1))
        return false;
  }
  return true;
}

/* True if a view may be computed instead of shared: its tensor is made here, and both are only
 * read. */
static bool may_copy_view(const backend *k, const rush_node *n)
{
  const rush_graph_value *base = k->api->node_input(n, 0);
  const rush_node *made = k->api->value_node(base);
  const op *o = made ? region_table_op(k, made) : NULL;

  const bool is_view = o && o->family == FAMILY_VIEW;

  if (!o || o->effects & OP_RETURNS_ARG ||
      (is_view && o->name_key != OPN_PERMUTE && o->name_key != OPN_SLICE &&
       o->name_key != OPN_ALIAS && o->name_key != OPN_CONTIGUOUS))
    return false;
  return (!is_view || may_copy_view(k, made)) && is_only_read(k, base, 8);
}

/* True if v can leave a region, or all that reads it can be in one. */
static bool users_take(const backend *k, const rush_graph_value *v)
{
  region_window w;
  region_fact fact;
  const char *why;
  size_t input;

  if (region_fact_of(k, v, &fact))
    return true;
  for (size_t i = 0; i < k->api->value_n_uses(v); i++)
    if (region_op_of(k, k->api->value_use(v, i, &input), &w, &why) == OP_NONE)
      return false;
  return true;
}

/* True if each tensor with gaps that the node reads is made by a node that a region takes. */
static bool operands_enter(const backend *k, const rush_node *n, cpu_level level)
{
  const rush_backend_api *api = k->api;

  for (size_t i = 0; i < api->node_n_inputs(n); i++) {
    const rush_graph_value *v = api->node_input(n, i);
    const rush_node *made = api->value_node(v);
    rush_type_facts f;
    region_order order;

    if (made && region_makes_list(k, made) && !operands_enter(k, made, level))
      return false;
    if (region_facts(k, v, &f, &order) && order == ORDER_SLICED &&
        (!made || region_refuse(k, made, level)))
      return false;
  }
  return true;
}

/* True if nodes that a region could take make a parameter, which is read as a tensor in memory. */
static bool makes_parameters(const backend *k, const rush_node *n, region_op kind)
{
  const size_t first = kind == OP_CONV || kind == OP_SPREAD || kind == OP_LINEAR ||
                           kind == OP_NORM || kind == OP_LAYER || kind == OP_GROUP
                         ? 1
                         : k->api->node_n_inputs(n);
  region_window w;
  const char *why;

  for (size_t i = first; i < k->api->node_n_inputs(n); i++) {
    const rush_graph_value *v = k->api->node_input(n, i);
    const rush_node *made = k->api->value_is_tensor(v) ? k->api->value_node(v) : NULL;

    if (made && region_op_of(k, made, &w, &why) != OP_NONE)
      return true;
  }
  return false;
}

const char *region_refuse(const backend *k, const rush_node *n, cpu_level level)
{
  region_window w;
  const char *why;

  if (!block_is_fast(level))
    return "no vector kernels here";
  const region_op kind = region_op_of(k, n, &w, &why);
  if (kind != OP_NONE && !operands_enter(k, n, level))
    return "an operand with gaps in memory";
  if (kind != OP_NONE && makes_parameters(k, n, kind))
    return "a parameter that nodes of a region make";
  const bool is_view = kind == OP_TURN || kind == OP_SAME || kind == OP_SLICE;
  if (is_view && !may_copy_view(k, n))
    return "a view of what may be written to, or is seen from outside";
  if (is_view && !users_take(k, k->api->node_output(n, 0)))
    return "a view with gaps that is read by others";
  return why;
}

bool region_takes(const backend *k, const rush_node *const *nodes, size_t n)
{
  region_window w;
  region_image out;
  const char *why;
  bool is_worth = false;

  for (size_t i = 0; i < n && !is_worth; i++)
    is_worth = region_op_of(k, nodes[i], &w, &why) == OP_CONV &&
               region_plain_image(k, k->api->node_output(nodes[i], 0), &out) &&
               !region_wastes_blocks(&out);
  return is_worth && n > 1;
}
