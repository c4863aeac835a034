/* compile/region.c -- runs regions (region.h), and registers their operator and pass.  A call
 * compares its arguments with what the region was read for, makes one piece of memory for all
 * places, and runs the steps in order; each is parallel itself.  Parameters by channel are made for
 * each step from the arguments: statistics may change between calls, and the work is that of a few
 * pixels.  Weights are packed once per version of their storage (ops/kernels/packed.h), or for the
 * call where others may write to them.  Rejected: scaling weights by batch norms, which rounds
 * differently. */
#include <string.h>

#include "compile/compiler.h"
#include "compile/region_int.h"
#include "ops/call/call.h"
#include "ops/kernels/packed.h"
#include "ops/math/norm.h"

/* -- A call's arguments ------------------------------------------------------------------------ */

static bool list_fits(const rush_backend_api *api, const region_fact *f, rush_value v)
{
  bool fits = v.tag == RUSH_TAG_LIST && api->value_len(v) == (size_t)f->n;

  for (int i = 0; i < f->n && fits; i++) {
    const rush_value item = api->value_item(v, (size_t)i);
    fits = item.tag == (f->of_floats ? RUSH_TAG_FLOAT : RUSH_TAG_INT) && item.as.i == f->sizes[i];
  }
  return fits;
}

/* *batch: of the images so far, or 0. */
static bool tensor_fits(const rush_backend_api *api, const region_fact *f, rush_value v,
                        int64_t *batch)
{
  rush_tensor_facts t;

  if (v.tag != RUSH_TAG_TENSOR || !v.as.tensor)
    return false;
  api->tensor_facts(v.as.tensor, &t);
  bool fits = t.dtype == RUSH_FLOAT32 && t.n_dims == f->n &&
              (t.flags & RUSH_TENSOR_IS_CONTIGUOUS || f->order != ORDER_ROWS) &&
              !(t.flags & RUSH_TENSOR_HAS_NO_DATA) && t.data;
  const bool is_open = f->n > 0 && f->sizes[0] == 0;
  if (fits && is_open && *batch == 0)
    *batch = t.sizes[0];
  fits = fits && (!is_open || (t.sizes[0] == *batch && *batch > 0));
  for (int i = 0; i < f->n && fits; i++)
    fits = ((is_open && i == 0) || t.sizes[i] == f->sizes[i]) &&
           (f->order == ORDER_ROWS || t.sizes[i] == 1 || t.strides[i] == f->strides[i]);
  return fits;
}

static bool args_fit(const region *r, const rush_value *args, size_t n, int64_t *batch)
{
  bool fits = n == r->n_args;

  for (uint32_t i = 0; i < r->n_args && fits; i++)
    fits = r->args[i].is_list ? list_fits(r->backend.api, &r->args[i], args[i])
                              : tensor_fits(r->backend.api, &r->args[i], args[i], batch);
  return fits && (*batch > 0) == r->is_open;
}

/* -- Steps ------------------------------------------------------------------------------------- */

typedef struct region_call {
  const region *r;
  rush_call *call;
  const rush_value *args;
  int64_t batch;          /* if it is open, else 1 */
  float *memory, *params; /* params: of the current step */
  float *results[REGION_MOST_RESULTS];
} region_call;

static const float *arg_data(const region_call *c, uint32_t arg)
{
  return arg == NO_INDEX ? NULL : c->r->backend.api->tensor_data(c->args[arg].as.tensor);
}

static float *place_data(const region_call *c, uint32_t place)
{
  return c->memory + c->r->places[place].at * c->batch;
}

typedef struct point_call {
  const region_call *c;
  const region_step *s;
} point_call;

/* Pixels that a tape takes at once where an operand has one pixel for all: it is repeated. */
#define REPEATED 32

/* Set an operand to REPEATED copies of a block's only pixel, in `room`. */
static void *repeat_pixel(const float *pixel, float *room)
{
  for (int i = 0; i < REPEATED; i++)
    memcpy(room + i * BLOCK_LANES, pixel, BLOCK_LANES * sizeof *room);
  return room;
}

/* Run the tape over n pixels of a block. */
static void run_point(void *user, int64_t image, int64_t block, int64_t y, int64_t x, int64_t n)
{
  const point_call *p = user;
  const point_part *part = p->s->point;
  const region_place *places = p->c->r->places;
  const uint32_t n_inputs = (uint32_t)part->fused.tape.n_inputs,
                 n_rows = n_inputs - part->n_channels,
                 n_all = n_inputs + (uint32_t)part->fused.tape.n_results;
  _Alignas(64) float repeated[2][REPEATED * BLOCK_LANES];
  void *operands[GROUP_MAX_INPUTS + GROUP_MAX_RESULTS];

  for (uint32_t i = 0; i < n_all; i++) {
    const uint32_t at = i < n_inputs ? part->inputs[i] : part->results[i - n_inputs];
    float *data = place_data(p->c, at);

    if (i >= n_rows && i < n_inputs) {
      operands[i] = repeat_pixel(data + block_at(&places[at].place, image, block, 0, 0),
                                 repeated[i - n_rows]);
      continue;
    }
    operands[i] = data + block_at(&places[at].place, image, block, y, x);
    if (i >= n_inputs && at != p->s->out)
      block_border(&places[at].place, data, image, block, y, x, n);
  }
  const int64_t most = part->n_channels ? REPEATED : n;
  for (int64_t done = 0; done < n; done += most) {
    part->code->fn(i64_min(most, n - done) * BLOCK_LANES, operands);
    for (uint32_t i = 0; i < n_all; i++)
      if (i < n_rows || i >= n_inputs)
        operands[i] = (float *)operands[i] + most * BLOCK_LANES;
  }
}

/* Fill the step's parameters by channel, zeros behind the last one. */
static void set_params(const region_call *c, const region_step *s, block_step *b)
{
  const int64_t n_ch = b->out.n_ch, n = block_panels(n_ch);
  const float *bias = arg_data(c, s->bias), *w = arg_data(c, s->norm[0]),
              *shift_by = arg_data(c, s->norm[1]), *mean = arg_data(c, s->norm[2]),
              *var = arg_data(c, s->norm[3]);
  float *to = c->params, *scale = to + n, *shift = to + 2 * n;

  memset(to, 0, (size_t)(3 * n) * sizeof *to);
  if (bias)
    memcpy(to, bias, (size_t)n_ch * sizeof *to);
  b->bias = bias || s->adds_zero ? to : NULL;
  if (s->kind == BLOCK_DEPTHWISE) {
    block_taps(n_ch, s->n_k, arg_data(c, s->weight), to + 3 * n);
    b->taps = to + 3 * n;
  }
  if (s->n_taps) { /* conv_transpose adds columns to 0, and the bias last */
    b->bias = shift;
    b->shift = to;
    for (int64_t i = 0; i < n; i++)
      scale[i] = 1.0f;
    b->scale = bias ? scale : NULL;
    return;
  }
  if (s->kind == BLOCK_LAYER || s->kind == BLOCK_GROUP) {
    if (w)
      memcpy(scale, w, (size_t)n_ch * sizeof *w);
    if (shift_by)
      memcpy(shift, shift_by, (size_t)n_ch * sizeof *shift_by);
    b->scale = w ? scale : NULL;
    b->shift = shift_by ? shift : NULL;
    return;
  }
  if (!s->has_norm)
    return;
  for (int64_t i = 0; i < n_ch; i++) {
    const float rstd = (float)norm_rstd((double)var[i], s->eps);
    const double by = norm_scale((double)rstd, w ? (double)w[i] : 1.0);

    scale[i] = (float)by;
    shift[i] = (float)norm_shift((double)mean[i], by, shift_by ? (double)shift_by[i] : 0.0);
  }
  b->scale = scale;
  b->shift = shift;
}

/* Get the convolution's packed weight; *once, if not NULL, is freed after the step. */
static rush_status find_weight(const region_call *c, const region_step *s, block_step *b,
                               gemm_packed **once)
{
  call_ctx *cx = c->call->cx;
  const rush_tensor *w = c->args[s->weight].as.tensor;
  const int64_t n_ch = b->out.n_ch / s->groups;
  gemm_packing p = {.dtype = RUSH_FLOAT32,
                    .count = s->groups,
                    .k = s->n_k,
                    .n = n_ch,
                    .bs = n_ch * s->n_k,
                    .from = {w->data, 1, s->n_k}};

  if (c->r->args[s->weight].order == ORDER_CHANNELS_LAST)
    p.turned = s->window.kernel[0] * s->window.kernel[1];
  if (s->n_taps) /* [in][out][taps] */
    p.from = (gemm_matrix){(const float *)w->data + s->tap, n_ch * s->n_taps, s->n_taps};

  TRY(packed_weight(cx, w, &p, &b->weight));
  if (!b->weight)
    TRY(gemm_pack(cx, &p, once));
  b->weight = b->weight ? b->weight : *once;
  return RUSH_OK;
}

/* Return the number that enters, once for each channel. */
static const float *repeat_number(const region_call *c, const region_step *s)
{
  const float number = *arg_data(c, s->arg);

  for (int64_t i = 0; i < c->r->places[s->out].place.n_ch; i++)
    c->params[i] = number;
  return c->params;
}

/* Return the step without places, which are those of a call. */
static block_step block_of(const region_step *s, point_call *point)
{
  const region_window *w = &s->window;

  return (block_step){.kind = s->kind,
                      .kernel = {w->kernel[0], w->kernel[1]},
                      .stride = {w->stride[0], w->stride[1]},
                      .pad = {w->pad[0], w->pad[1]},
                      .dilation = {w->dilation[0], w->dilation[1]},
                      .groups = s->groups,
                      .width = s->width,
                      .k_off = s->k_off,
                      .flat = s->flat,
                      .clamps = s->clamps,
                      .clears_border = s->clears_border,
                      .interleaved = s->interleaved,
                      .repeats = s->repeats,
                      .eps = s->eps,
                      .from_ch = s->from_ch,
                      .to_ch = s->to_ch,
                      .n_copied = s->n_copied,
                      .divisor = w->divisor,
                      .count_pad = w->count_pad,
                      .fill = w->fill,
                      .step = {w->step[0], w->step[1]},
                      .lo = s->lo,
                      .hi = s->hi,
                      .after = s->point ? run_point : NULL,
                      .user = point};
}

static rush_status run_step(const region_call *c, const region_step *s)
{
  const region *r = c->r;
  const region_window *w = &s->window;
  point_call point = {c, s};
  gemm_packed *once = NULL;
  block_step b = block_of(s, &point);

  if (s->kind == BLOCK_NOTHING && !s->point && (!s->clears_border || s->flat))
    return RUSH_OK;
  if (s->in != NO_INDEX) {
    b.in = r->places[s->in].place;
    b.batch = r->places[s->in].batch * c->batch;
    b.from = place_data(c, s->in);
  }
  if (s->n_taps) {
    for (int d = 0; d < 2; d++) {
      b.spread[d] = w->stride[d];
      b.stride[d] = 1;
    }
    b.to_at[0] = s->tap / w->stride[1];
    b.to_at[1] = s->tap % w->stride[1];
  }
  const uint32_t out = s->out != NO_INDEX ? s->out : s->point ? s->point->results[0] : s->in;
  b.out = r->places[out].place;
  b.batch = r->places[out].batch * c->batch;
  b.to = place_data(c, out);
  if (s->kind == BLOCK_ENTER)
    b.from = s->from_one ? repeat_number(c, s) : arg_data(c, s->arg);
  else if (s->kind == BLOCK_LEAVE)
    b.to = c->results[s->arg];
  else if (s->kind == BLOCK_CONV || s->kind == BLOCK_DEPTHWISE || s->kind == BLOCK_SCALE ||
           s->kind == BLOCK_LAYER || s->kind == BLOCK_GROUP)
    set_params(c, s, &b);
  if (s->kind == BLOCK_CONV)
    TRY(find_weight(c, s, &b, &once));
  rush_status st = block_run(c->call->cx, &b);
  gemm_packed_free(c->call->cx->ctx, once);
  return st;
}

static rush_status run_steps(region_call *c)
{
  const region *r = c->r;

  for (uint32_t i = 0; i < r->n_results; i++) {
    int64_t sizes[COUNT_OF(r->results[i].sizes)];
    rush_result made = {.dtype = RUSH_FLOAT32, .n_dims = r->results[i].n, .sizes = sizes};
    memcpy(sizes, r->results[i].sizes, sizeof sizes);
    sizes[0] = r->is_open ? c->batch : sizes[0];
    made.strides = r->results[i].order == ORDER_ROWS ? NULL : r->results[i].strides;
    TRY(r->backend.api->call_make_result(c->call, i, &made));
    c->results[i] = made.data;
  }
  for (uint32_t i = 0; i < r->n_steps; i++)
    TRY(run_step(c, &r->steps[i]));
  return RUSH_OK;
}

rush_status region_run(const region *r, rush_call *call, bool *done)
{
  const rush_backend_api *api = r->backend.api;
  region_call c = {.r = r, .call = call};
  int64_t batch = 0, n_floats;
  rush_value memory;
  size_t n;

  c.args = api->call_args(call, &n);
  *done = (cpu_level)api->context_cpu(r->backend.ctx) == r->level &&
          args_fit(r, c.args, n, &batch);
  c.batch = i64_max(1, batch);
  *done = *done && !__builtin_mul_overflow(r->n_floats, c.batch, &n_floats) &&
          !__builtin_add_overflow(n_floats, r->most_params, &n_floats);
  if (!*done)
    return RUSH_OK;
  if (api->call_create(call, RUSH_FLOAT32, 1, &n_floats, &memory) != RUSH_OK) {
    api->error_clear(api->call_error(call)); /* the nodes, one by one, may need less */
    *done = false;
    return RUSH_OK;
  }
  c.memory = api->tensor_data_mut(memory.as.tensor);
  c.params = c.memory + (n_floats - r->most_params);
  rush_status st = run_steps(&c);
  api->value_release(memory);
  return st;
}

/* -- The operator ------------------------------------------------------------------------------ */

static rush_status call_region(rush_call *call)
{
  compiler *own = call->op->outside->user;
  const rush_backend_api *api = own->backend.api;
  region *r = api->call_state(call);
  bool done = false;

  if (r)
    TRY(region_run(r, call, &done));
  if (!done)
    return api->call_run_group(call);
  compiler_count(&own->calls);
  return RUSH_OK;
}

static rush_status prepare_region(rush_context *c, const rush_node *node, void *user, void **state,
                                  rush_error *err)
{
  compiler *own = user;
  region *r;

  (void)c;
  if (region_read(&own->backend, node, &r) != RUSH_OK)
    return own->backend.api->error_set(err, RUSH_ENOMEM, NULL,
                                       "no memory for a region of convolutions");
  compiler_count(&own->groups);
  if (r)
    compiler_count(&own->plans);
  *state = r;
  return RUSH_OK;
}

static void destroy_region(void *state, void *user)
{
  (void)user;
  region_free(state);
}

static const char *const kind_names[] = {
  [BLOCK_CONV] = "convolution",   [BLOCK_DEPTHWISE] = "depthwise convolution",
  [BLOCK_MAX] = "maximum",        [BLOCK_AVERAGE] = "average",
  [BLOCK_MEAN] = "mean",          [BLOCK_WINDOWS] = "average of windows",
  [BLOCK_NEAREST] = "nearest",    [BLOCK_PAD] = "padding",
  [BLOCK_SCALE] = "batch norm",
  [BLOCK_LAYER] = "layer norm",   [BLOCK_GROUP] = "group norm",
  [BLOCK_COPY] = "copied channels", [BLOCK_NOTHING] = "pointwise",  [BLOCK_ENTER] = "into blocks",
  [BLOCK_LEAVE] = "out of blocks"};

static void describe_step(const region *r, const region_step *s, text_buf *out)
{
  const uint32_t at = s->out != NO_INDEX ? s->out : s->point ? s->point->results[0] : s->in;
  const block_place *p = &r->places[at].place;

  text_printf(out, "%s, %lld channels of %lld x %lld", kind_names[s->kind], (long long)p->n_ch,
              (long long)p->h, (long long)p->w);
  if (s->has_norm && (s->kind == BLOCK_CONV || s->kind == BLOCK_DEPTHWISE))
    text_puts(out, ", batch norm");
  if (s->clamps)
    text_puts(out, ", clamped");
  if (s->point && s->kind != BLOCK_NOTHING)
    text_puts(out, ", pointwise");
  text_puts(out, "\n");
  if (s->point)
    loop_disassemble(out, s->point->code);
}

static void describe_region(void *state, void *user, rush_write_fn *write, void *to)
{
  const compiler *own = user;
  const region *r = state;
  text_buf t;

  text_init(&t, own->backend.ctx);
  if (!r)
    text_puts(&t, "the interpreter\n");
  for (uint32_t i = 0; r && i < r->n_steps; i++)
    describe_step(r, &r->steps[i], &t);
  write(to, text_str(&t), t.len);
  text_free(&t);
}

/* -- The pass ---------------------------------------------------------------------------------- */

static const char *refuse_node(const rush_node *node, void *user)
{
  const compiler *own = user;
  const backend *k = &own->backend;

  return region_refuse(k, node, (cpu_level)k->api->context_cpu(k->ctx));
}

static bool takes_nodes(const rush_node *const *nodes, size_t n, void *user)
{
  const compiler *own = user;

  return region_takes(&own->backend, nodes, n);
}

static rush_status run_pass(rush_pass *pass, void *user)
{
  compiler *own = user;
  const rush_group_def def = {.struct_bytes = sizeof def,
                              .op = REGION_OP,
                              .refuse = refuse_node,
                              .user = own,
                              .min_nodes = 2,
                              .max_nodes = REGION_MOST_NODES,
                              .max_outputs = REGION_MOST_RESULTS,
                              .takes = takes_nodes,
                              .takes_lists = true};

  return own->backend.api->pass_group(pass, &def);
}

rush_status region_register(compiler *own, rush_error *err)
{
  const rush_op_def op = {.struct_bytes = sizeof op,
                          .schema = REGION_OP "(...) -> ...",
                          .alias = RUSH_ALIAS_PURE,
                          .kernel = call_region,
                          .user = own,
                          .prepare = prepare_region,
                          .destroy = destroy_region,
                          .describe = describe_region};
  const rush_pass_def pass = {.struct_bytes = sizeof pass,
                              .name = "rushlight::group_regions",
                              .order = 900,
                              .run = run_pass,
                              .user = own};

  TRY(own->backend.api->op_register(own->backend.ctx, &op, err));
  return own->backend.api->pass_register(own->backend.ctx, &pass, err);
}
