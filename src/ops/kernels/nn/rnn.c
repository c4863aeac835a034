/* ops/kernels/nn/rnn.c -- recurrent networks: layers, cells, packed sequences.
 *
 * Everything runs on packed sequences: rows of step 0, rows of step 1, ... where the number of rows
 * never grows; a plain input has equally many rows in every step.  The input side of all steps is
 * one product; a step is one product with the hidden weights and the arithmetic of the cell.  The
 * state has a row for every sequence and is updated in place: rows of sequences that ended (or,
 * backwards, have not begun) are not touched, which is all that packing means. */
#include "ops/math/rnn.h"

#include <string.h>

#include "ops/kernels/linalg/matmul.h"
#include "ops/kernels/packed.h"
#include "ops/kernels/nn.h"
#include "ops/kernels/views.h"
#include "ops/kernels/work.h"

typedef enum rnn_mode { RNN_LSTM, RNN_GRU, RNN_TANH, RNN_RELU } rnn_mode;
static const int n_gates[] = {4, 3, 1, 1};

typedef struct rnn_weights { /* borrowed, of the computing dtype */
  rush_tensor *ih, *hh, *b_ih, *b_hh, *hr; /* biases and the projection may be NULL */
} rnn_weights;

typedef struct rnn_job {
  call_ctx *cx;
  rnn_mode mode;
  int dtype;
  rnn_rows rows;
  int64_t n_steps, n_total, batch, hidden, state; /* state: hidden, or what it is projected to */
  const int64_t *batch_sizes;                     /* n_steps; NULL: `batch` in every step */
  int64_t n_layers, n_dirs;
  rush_tensor *hx, *cx0; /* [layers * dirs, batch, state or hidden]: become the results */
  rush_tensor **params;  /* owned */
  size_t n_params;
  bool has_biases, project, train;
  double dropout;
} rnn_job;

/* -- One direction of one layer ---------------------------------------------------------------- */

/* Compute c [m, n] = a [m, k] w' [k, n] (+ d). */
static rush_status times_weight(const rnn_job *j, int64_t m, int64_t n, int64_t k, const void *a,
                                int64_t a_rs, const rush_tensor *w, gemm_matrix d, void *c,
                                int64_t c_rs)
{
  gemm_args g = {
    .dtype = j->dtype, .m = m, .n = n, .k = k, .alpha = 1.0, .beta = d.data ? 1.0 : 0.0};
  g.a = (gemm_matrix){a, a_rs, 1};
  g.b = (gemm_matrix){w->data, w->strides[1], w->strides[0]};
  g.d = d;
  g.c = c;
  g.c_rs = c_rs;
  g.c_cs = 1;
  return gemm_with_weight(j->cx, &g, w);
}

static rush_status check_weights(const rnn_job *j, const rnn_weights *w, int64_t n_in)
{
  int64_t rows;
  if (__builtin_mul_overflow(n_gates[j->mode], j->hidden,
                             &rows)) /* an empty batch may have rows of any size */
    return call_nomem(j->cx);
  const bool ok =
    w->ih->n_dims == 2 && w->hh->n_dims == 2 && w->ih->sizes[0] == rows &&
    w->ih->sizes[1] == n_in && w->hh->sizes[0] == rows && w->hh->sizes[1] == j->state &&
    (!w->b_ih || w->b_ih->n_elems == rows) && (!w->b_hh || w->b_hh->n_elems == rows) &&
    (!w->hr || (w->hr->n_dims == 2 && w->hr->sizes[0] == j->state && w->hr->sizes[1] == j->hidden));
  sizes_text a, b;
  if (ok)
    return RUSH_OK;
  return call_fail(j->cx,
                   "rnn: weights of sizes %s and %s do not fit an input of %lld features and a "
                   "hidden size of %lld",
                   sizes_print(&a, w->ih->n_dims, w->ih->sizes),
                   sizes_print(&b, w->hh->n_dims, w->hh->sizes), (long long)n_in,
                   (long long)j->hidden);
}

typedef struct scratch { /* of one direction */
  char *gates_in;  /* [n_total, gates * hidden] */
  char *gates;     /* [batch, gates * hidden] */
  char *unprojected; /* [batch, hidden], or NULL */
  char *bias;      /* b_ih + b_hh */
  size_t n_bytes;
} scratch;

/* Run the cell's arithmetic for `n` rows of a step; h rows are `state` wide, or `hidden` before
 * projection. */
static void step_rows(const rnn_job *j, int64_t n, const char *gates_in, const char *gates, char *c,
                      char *h)
{
  const size_t item = dtype_bytes(j->dtype), width = (size_t)j->hidden * item;
  const size_t row = width * (size_t)n_gates[j->mode];
  for (size_t r = 0; r < (size_t)n; r++) {
    if (j->mode == RNN_LSTM)
      j->rows.lstm(j->hidden, gates + r * row, c + r * width, h + r * width);
    else if (j->mode == RNN_GRU)
      j->rows.gru(j->hidden, gates_in + r * row, gates + r * row, h + r * width);
    else
      j->rows.plain(j->hidden, gates + r * row, j->mode == RNN_RELU, h + r * width);
  }
}

/* Run rows [at, at + n) of the packed sequence. */
static rush_status run_step(const rnn_job *j, const rnn_weights *w, const scratch *s, int64_t at,
                            int64_t n, char *h, char *c)
{
  const int64_t width = n_gates[j->mode] * j->hidden, item = (int64_t)dtype_bytes(j->dtype);
  const char *gates_in = s->gates_in + at * width * item;
  gemm_matrix d = {gates_in, width, 1};
  if (j->mode == RNN_GRU) /* its two sides are not just added */
    d = w->b_hh ? (gemm_matrix){w->b_hh->data, 0, 1} : (gemm_matrix){0};
  TRY(times_weight(j, n, width, j->state, h, j->state, w->hh, d, s->gates, width));
  step_rows(j, n, gates_in, s->gates, c, s->unprojected ? s->unprojected : h);
  if (!s->unprojected)
    return RUSH_OK;
  return times_weight(j, n, j->state, j->hidden, s->unprojected, j->hidden, w->hr, (gemm_matrix){0},
                      h, j->state);
}

static void add_biases(const rnn_job *j, const rnn_weights *w, void *out)
{
  const int64_t n = n_gates[j->mode] * j->hidden;
  for (int64_t i = 0; i < n; i++)
    if (j->dtype == RUSH_FLOAT64)
      ((double *)out)[i] = ((const double *)w->b_ih->data)[i] + ((const double *)w->b_hh->data)[i];
    else
      ((float *)out)[i] = ((const float *)w->b_ih->data)[i] + ((const float *)w->b_hh->data)[i];
}

static rush_status scratch_new(const rnn_job *j, const rnn_weights *w, scratch *s)
{
  const size_t item = dtype_bytes(j->dtype);
  size_t in_bytes, width;
  if (!size_mul((size_t)(n_gates[j->mode] * j->hidden), item, &width) ||
      !size_mul((size_t)j->n_total, width, &in_bytes))
    return call_nomem(j->cx);
  s->n_bytes = in_bytes + width * (size_t)(j->batch + 1) + (size_t)(j->batch * j->hidden) * item;
  s->gates_in = mem_alloc_data(j->cx->ctx, s->n_bytes);
  if (!s->gates_in)
    return call_nomem(j->cx);
  s->gates = s->gates_in + in_bytes;
  s->bias = s->gates + width * (size_t)j->batch;
  s->unprojected = w->hr ? s->bias + width : NULL;
  return RUSH_OK;
}

/* Run direction `dir` of layer `layer` of `in` [n_total, features] into columns of `out`. */
static rush_status run_direction(const rnn_job *j, int64_t layer, int64_t dir,
                                 const rush_tensor *in, rush_tensor *out)
{
  const int64_t at = layer * j->n_dirs + dir, item = (int64_t)dtype_bytes(j->dtype),
                out_width = j->n_dirs * j->state;
  const size_t per = 2u + (j->has_biases ? 2u : 0u) + (j->project ? 1u : 0u);
  rush_tensor **p = j->params + (size_t)at * per;
  rnn_weights w = {.ih = p[0],
                   .hh = p[1],
                   .b_ih = j->has_biases ? p[2] : NULL,
                   .b_hh = j->has_biases ? p[3] : NULL,
                   .hr = j->project ? p[per - 1] : NULL};
  char *h = (char *)j->hx->data + at * j->batch * j->state * item;
  char *c = j->cx0 ? (char *)j->cx0->data + at * j->batch * j->hidden * item : NULL;
  scratch s = {0};
  TRY(check_weights(j, &w, in->sizes[1]));
  TRY(scratch_new(j, &w, &s));
  const int64_t width = n_gates[j->mode] * j->hidden;
  gemm_matrix bias = {0};
  if (w.b_ih && j->mode == RNN_GRU) {
    bias = (gemm_matrix){w.b_ih->data, 0, 1};
  } else if (w.b_ih) {
    add_biases(j, &w, s.bias);
    bias = (gemm_matrix){s.bias, 0, 1};
  }
  rush_status st = times_weight(j, j->n_total, width, in->sizes[1], in->data, in->sizes[1], w.ih,
                                bias, s.gates_in, width);
  int64_t row = dir ? j->n_total : 0;
  for (int64_t i = 0; i < j->n_steps && st == RUSH_OK; i++) {
    const int64_t t = dir ? j->n_steps - 1 - i : i,
                  n = j->batch_sizes ? j->batch_sizes[t] : j->batch;
    row -= dir ? n : 0;
    if ((i & 63) == 63)
      st = call_poll(j->cx);
    if (st == RUSH_OK)
      st = run_step(j, &w, &s, row, n, h, c);
    char *to = (char *)out->data + (row * out_width + dir * j->state) * item;
    for (int64_t r = 0; r < n && st == RUSH_OK; r++)
      memcpy(to + r * out_width * item, h + r * j->state * item, (size_t)(j->state * item));
    row += dir ? 0 : n;
  }
  mem_free_data(j->cx->ctx, s.gates_in, s.n_bytes);
  return st;
}

/* -- Layers ------------------------------------------------------------------------------------ */

/* Run x [n_total, features] through all layers; j->hx and j->cx0 end as the final states. */
static rush_tensor *run_layers(work *w, const rnn_job *j, rush_tensor *x)
{
  const int64_t sizes[2] = {j->n_total, j->n_dirs * j->state};
  for (int64_t layer = 0; layer < j->n_layers && w->st == RUSH_OK; layer++) {
    rush_tensor *out = work_new(w, j->dtype, 2, sizes);
    for (int64_t dir = 0; dir < j->n_dirs; dir++)
      WORK_DO(w, run_direction(j, layer, dir, x, out));
    work_drop(w, x);
    x = out;
    if (j->train && j->dropout != 0.0 && layer + 1 < j->n_layers) {
      const rush_value args[3] = {nn_arg(out), value_float(j->dropout), value_bool(true)};
      x = work_rows(w, work_invoke(w, "aten::dropout", "", args, 3), j->dtype);
      work_drop(w, out);
    }
  }
  return x;
}

/* Copy a state, NULL or not, that may be written, in the computing dtype. */
static rush_tensor *copy_state(work *w, const rnn_job *j, rush_tensor *t)
{
  rush_tensor *made = t ? work_new(w, j->dtype, t->n_dims, t->sizes) : NULL;
  if (t)
    WORK_DO(w, tensor_copy(w->cx, made, t));
  return made;
}

static rush_status take_params(rnn_job *j, const rush_value *items, size_t n)
{
  j->params = mem_alloc_zero(j->cx->ctx, n * sizeof *j->params);
  if (!j->params)
    return call_nomem(j->cx);
  j->n_params = n;
  for (size_t i = 0; i < n; i++) {
    if (!value_tensor(items[i]))
      return call_fail(j->cx, "rnn: parameter %zu is undefined", i);
    rush_tensor *p = value_tensor(items[i]);
    TRY(tensor_to_dtype(j->cx, p, nn_dtype(p->dtype), &j->params[i]));
    if (j->params[i]->dtype != j->dtype)
      return call_fail(j->cx, "expected m1 and m2 to have the same dtype, but got: %s != %s",
                       dtype_c_name(j->dtype), dtype_c_name(j->params[i]->dtype));
  }
  return RUSH_OK;
}

/* Release what the work does not hold. */
static rush_status rnn_end(work *w, rnn_job *j)
{
  for (size_t i = 0; i < j->n_params; i++)
    tensor_release(j->params[i]);
  if (j->params)
    mem_free(j->cx->ctx, j->params, j->n_params * sizeof *j->params);
  return work_end(w);
}

/* Read the states, and everything that follows from their sizes. */
static rush_status read_states(rnn_job *j, const rush_tensor *hx, const rush_tensor *cx0)
{
  if (!hx)
    return call_fail(j->cx, "lstm expects two hidden states");
  if (hx->n_dims != 3 || (j->mode == RNN_LSTM && (!cx0 || cx0->n_dims != 3)))
    return call_fail(j->cx, "rnn: expected hidden states with 3 dimensions");
  j->state = hx->sizes[2];
  j->hidden = cx0 ? cx0->sizes[2] : j->state;
  j->project = j->hidden != j->state;
  if (hx->sizes[0] != j->n_layers * j->n_dirs || hx->sizes[1] != j->batch ||
      (cx0 && (cx0->sizes[0] != hx->sizes[0] || cx0->sizes[1] != j->batch)))
    return call_fail(j->cx, "Expected hidden size (%lld, %lld, %lld), got [%lld, %lld, %lld]",
                     (long long)(j->n_layers * j->n_dirs), (long long)j->batch, (long long)j->state,
                     (long long)hx->sizes[0], (long long)hx->sizes[1], (long long)hx->sizes[2]);
  if (nn_dtype(hx->dtype) != j->dtype || (cx0 && nn_dtype(cx0->dtype) != j->dtype))
    return call_fail(j->cx,
                     "Input and hidden tensors are not the same dtype, found input tensor with %s "
                     "and hidden tensor with %s",
                     dtype_aten_name(j->dtype), dtype_aten_name(hx->dtype));
  const size_t per = 2u + (j->has_biases ? 2u : 0u) + (j->project ? 1u : 0u);
  if (j->n_params != per * (size_t)(j->n_layers * j->n_dirs))
    return call_fail(j->cx, "got an incorrect number of RNN parameters");
  return RUSH_OK;
}
static void take_states(work *w, rnn_job *j, rush_tensor *hx, rush_tensor *cx0)
{
  WORK_DO(w, read_states(j, hx, cx0));
  j->hx = w->st == RUSH_OK ? copy_state(w, j, hx) : NULL;
  j->cx0 = w->st == RUSH_OK ? copy_state(w, j, cx0) : NULL;
}

static rush_status job_begin(rush_call *c, rnn_job *j, rnn_mode mode, const rush_tensor *input,
                             uint32_t params_at)
{
  j->cx = c->cx;
  j->mode = mode;
  j->dtype = nn_dtype(input->dtype);
  TRY(nn_check_float(c->cx, "rnn", input->dtype));
  j->rows = ISA_PICK(rnn_rows_of, call_cpu(c->cx))(j->dtype == RUSH_FLOAT64);
  j->has_biases = call_bool(c, params_at + 1);
  j->n_layers = call_int(c, params_at + 2);
  j->dropout = call_float(c, params_at + 3);
  j->train = call_bool(c, params_at + 4);
  j->n_dirs = call_bool(c, params_at + 5) ? 2 : 1;
  if (j->n_layers <= 0 || j->n_layers > 1 << 20)
    return call_fail(c->cx, "rnn: %lld layers", (long long)j->n_layers);
  return take_params(j, call_list(c, params_at)->items, call_list(c, params_at)->n);
}

static void return_states(work *w, const rnn_job *j, int dtype)
{
  work_return(w, 1, j->hx, dtype);
  if (j->cx0)
    work_return(w, 2, j->cx0, dtype);
}

static rush_tensor *state_arg(rush_call *c, uint32_t at, rnn_mode mode, rush_tensor **cell)
{
  *cell = NULL;
  if (mode != RNN_LSTM)
    return call_tensor(c, at);
  const rush_list *l = call_list(c, at);
  if (l->n != 2)
    return NULL;
  *cell = list_tensor(l, 1);
  return list_tensor(l, 0);
}

/* -- Operators: input, hx, params, has_biases, num_layers, dropout, train, bidirectional,
 * batch_first  */

/* Flatten `input`, time first: [steps * batch, features]. */
static rush_tensor *flatten_input(work *w, rush_tensor *input, bool batch_first)
{
  const int64_t sizes[2] = {input->sizes[0] * input->sizes[1], input->sizes[2]};
  rush_tensor *x =
    batch_first ? WORK_MAKE(w, tensor_transpose(w->cx, input, 0, 1, &w->made)) : input;
  x = work_input(w, x);
  return WORK_MAKE(w, tensor_reshape(w->cx, x, 2, sizes, &w->made));
}

static rush_status rnn_input(rush_call *c, rnn_mode mode)
{
  rush_tensor *input = call_tensor(c, 0), *cell, *hx = state_arg(c, 1, mode, &cell);
  const bool batch_first = call_bool(c, 8);
  rnn_job j = {0};
  if (input->n_dims != 3)
    return call_fail(c->cx, "rnn: Expected input to be 3D, got %dD instead", input->n_dims);
  work w = work_begin(c);
  WORK_DO(&w, job_begin(c, &j, mode, input, 2));
  j.n_steps = input->sizes[batch_first ? 1 : 0];
  j.batch = input->sizes[batch_first ? 0 : 1];
  j.n_total = j.n_steps * j.batch;
  if (j.n_steps == 0)
    WORK_DO(&w, call_fail(c->cx, "Expected sequence length to be larger than 0 in RNN"));
  take_states(&w, &j, hx, cell);
  rush_tensor *y = work_rows(&w, run_layers(&w, &j, flatten_input(&w, input, batch_first)),
                             input->dtype);
  const int64_t sizes[3] = {j.n_steps, j.batch, j.n_dirs * j.state};
  y = WORK_MAKE(&w, tensor_reshape(c->cx, y, 3, sizes, &w.made));
  if (batch_first)
    y = WORK_MAKE(&w, tensor_transpose(c->cx, y, 0, 1, &w.made));
  if (w.st == RUSH_OK)
    call_return_steal(c, 0, tensor_retain(y));
  return_states(&w, &j, input->dtype);
  return rnn_end(&w, &j);
}

/* Read packed sequences: data, batch_sizes, hx, params, ... */
static rush_status read_batch_sizes(call_ctx *cx, const rush_tensor *t, int64_t n_rows, rnn_job *j)
{
  if (t->n_dims != 1 || t->n_elems == 0)
    return call_fail(cx, "batch_sizes tensor should be 1D and not empty");
  j->batch_sizes = t->data;
  j->n_steps = t->n_elems;
  j->batch = j->batch_sizes[0];
  for (int64_t i = 0; i < j->n_steps; i++) {
    const int64_t n = j->batch_sizes[i];
    if (n <= 0 || (i > 0 && n > j->batch_sizes[i - 1]) || n > n_rows - j->n_total)
      return call_fail(cx, "batch_sizes do not fit the %lld rows of a packed sequence",
                       (long long)n_rows);
    j->n_total += n;
  }
  if (j->n_total != n_rows)
    return call_fail(cx, "batch_sizes do not fit the %lld rows of a packed sequence",
                     (long long)n_rows);
  return RUSH_OK;
}

static rush_status rnn_data(rush_call *c, rnn_mode mode)
{
  rush_tensor *data = call_tensor(c, 0), *cell, *hx = state_arg(c, 2, mode, &cell);
  rnn_job j = {0};
  if (data->n_dims != 2)
    return call_fail(c->cx, "rnn: Expected packed data to be 2D, got %dD instead", data->n_dims);
  work w = work_begin(c);
  const rush_tensor *sizes = work_rows(&w, call_tensor(c, 1), RUSH_INT64);
  WORK_DO(&w, job_begin(c, &j, mode, data, 3));
  WORK_DO(&w, read_batch_sizes(c->cx, sizes, data->sizes[0], &j));
  take_states(&w, &j, hx, cell);
  work_return(&w, 0, run_layers(&w, &j, work_input(&w, data)), data->dtype);
  return_states(&w, &j, data->dtype);
  return rnn_end(&w, &j);
}

rush_status kernel_lstm_input(rush_call *c) { return rnn_input(c, RNN_LSTM); }
rush_status kernel_gru_input(rush_call *c) { return rnn_input(c, RNN_GRU); }
rush_status kernel_rnn_tanh_input(rush_call *c) { return rnn_input(c, RNN_TANH); }
rush_status kernel_rnn_relu_input(rush_call *c) { return rnn_input(c, RNN_RELU); }
rush_status kernel_lstm_data(rush_call *c) { return rnn_data(c, RNN_LSTM); }
rush_status kernel_gru_data(rush_call *c) { return rnn_data(c, RNN_GRU); }
rush_status kernel_rnn_tanh_data(rush_call *c) { return rnn_data(c, RNN_TANH); }
rush_status kernel_rnn_relu_data(rush_call *c) { return rnn_data(c, RNN_RELU); }

/* -- Cells: input, hx, w_ih, w_hh, b_ih, b_hh -------------------------------------------------- */

/* View [batch, n] as [1, batch, n]; NULL stays NULL. */
static rush_tensor *add_layer_dim(work *w, rush_tensor *t)
{
  if (!t || w->st != RUSH_OK)
    return t;
  const int64_t sizes[3] = {1, t->sizes[0], t->sizes[t->n_dims - 1]};
  if (t->n_dims != 2)
    w->st = call_fail(w->cx, "rnn cell: expected hidden states with 2 dimensions, got %d",
                      t->n_dims);
  return WORK_MAKE(w, tensor_reshape(w->cx, t, 3, sizes, &w->made));
}

static rush_status check_cell(call_ctx *cx, const rush_tensor *input, const rush_tensor *h,
                              int number, const rush_tensor *w_ih, const rush_tensor *w_hh)
{
  int dim;
  TRY(dim_wrap(cx, 1, input->n_dims, &dim));
  TRY(dim_wrap(cx, 1, h->n_dims, &dim));
  TRY(dim_wrap(cx, 1, w_ih->n_dims, &dim));
  TRY(dim_wrap(cx, 1, w_hh->n_dims, &dim));
  if (input->sizes[1] != w_ih->sizes[1])
    return call_fail(cx, "input has inconsistent input_size: got %lld expected %lld",
                     (long long)input->sizes[1], (long long)w_ih->sizes[1]);
  if (input->sizes[0] != h->sizes[0])
    return call_fail(cx, "Input batch size %lld doesn't match hidden%d batch size %lld",
                     (long long)input->sizes[0], number, (long long)h->sizes[0]);
  if (h->sizes[1] != w_hh->sizes[1])
    return call_fail(cx, "hidden%d has inconsistent hidden_size: got %lld, expected %lld", number,
                     (long long)h->sizes[1], (long long)w_hh->sizes[1]);
  return RUSH_OK;
}

static rush_status rnn_cell(rush_call *c, rnn_mode mode)
{
  rush_tensor *input = call_tensor(c, 0), *cell, *hx = state_arg(c, 1, mode, &cell);
  const int n_biases = (call_tensor(c, 4) != NULL) + (call_tensor(c, 5) != NULL);
  rnn_job j = {.cx = c->cx,
               .mode = mode,
               .n_steps = 1,
               .n_layers = 1,
               .n_dirs = 1,
               .dtype = nn_dtype(input->dtype),
               .has_biases = n_biases > 0};
  if (!hx)
    return call_fail(c->cx, "%s expects two hidden states", c->op->schema->name + 6);
  TRY(check_cell(c->cx, input, hx, 0, call_tensor(c, 2), call_tensor(c, 3)));
  if (cell)
    TRY(check_cell(c->cx, input, cell, 1, call_tensor(c, 2), call_tensor(c, 3)));
  if (input->n_dims != 2)
    return call_fail(c->cx, "%s: Expected input to be 2D, got %dD instead", c->op->schema->name + 6,
                     input->n_dims);
  TRY(nn_check_float(c->cx, "rnn", input->dtype));
  if (n_biases == 1)
    return call_fail(c->cx, "rnn cell: expected both biases or none");
  j.rows = ISA_PICK(rnn_rows_of, call_cpu(c->cx))(j.dtype == RUSH_FLOAT64);
  j.batch = j.n_total = input->sizes[0];
  work w = work_begin(c);
  WORK_DO(&w, take_params(&j, c->args + 2, n_biases ? 4 : 2));
  rush_tensor *h3 = add_layer_dim(&w, hx), *c3 = add_layer_dim(&w, cell);
  take_states(&w, &j, h3, c3);
  (void)run_layers(&w, &j, work_input(&w, input));
  for (uint32_t i = 0; i < c->n_results && w.st == RUSH_OK; i++) {
    rush_tensor *from = i ? j.cx0 : j.hx;
    work_return(&w, i, WORK_MAKE(&w, tensor_reshape(c->cx, from, 2, from->sizes + 1, &w.made)),
                input->dtype);
  }
  return rnn_end(&w, &j);
}

rush_status kernel_lstm_cell(rush_call *c) { return rnn_cell(c, RNN_LSTM); }
rush_status kernel_gru_cell(rush_call *c) { return rnn_cell(c, RNN_GRU); }
rush_status kernel_rnn_tanh_cell(rush_call *c) { return rnn_cell(c, RNN_TANH); }
rush_status kernel_rnn_relu_cell(rush_call *c) { return rnn_cell(c, RNN_RELU); }
