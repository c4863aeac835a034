/* ops/kernels/quantized/quantized_rnn.c -- recurrent layers with packed weights (torch.ao's dynamic
 * quantization): the custom class CellParamsBase, LSTM and GRU over sequences and packed sequences,
 * and single cells. Each step multiplies with linear_packed_dynamic (or half weights), then the
 * gates run in the float loops that ordinary recurrent layers use. Steps are sequential; the
 * input's product is made for all steps of a direction at once. */
#include <string.h>

#include "ops/kernels/nn.h"
#include "ops/kernels/quantized/quantized.h"
#include "ops/math/rnn.h"
#include "ops/kernels/views.h"

typedef enum qrnn_mode { QRNN_LSTM, QRNN_GRU, QRNN_TANH, QRNN_RELU } qrnn_mode;
static const int n_gates[] = {4, 3, 1, 1};

/* -- torch.classes.rnn.CellParamsBase ---------------------------------------------------------- */

typedef struct cell_params { /* the packed weights of one direction of one layer */
  context *ctx;
  rush_value ih, hh;         /* of linear_packed_class, owned */
  rush_tensor *b_ih, *b_hh;  /* only kept: the weights have their biases; NULL when `half` */
  bool reduce_range, half;
} cell_params;

static void destroy_cell(void *self)
{
  cell_params *p = self;
  value_release(p->ih);
  value_release(p->hh);
  tensor_release(p->b_ih);
  tensor_release(p->b_hh);
  mem_free(p->ctx, p, sizeof *p);
}

static bool is_linear(rush_value v)
{
  return v.tag == RUSH_TAG_CUSTOM && ((custom_value *)v.as.heap)->cls == &linear_packed_class;
}
static const linear_packed *linear_of(rush_value v) { return ((custom_value *)v.as.heap)->self; }

static rush_status cell_new(call_ctx *cx, rush_value ih, rush_value hh, rush_tensor *b_ih,
                            rush_tensor *b_hh, bool reduce_range, bool half, cell_params **out)
{
  if (!is_linear(ih) || !is_linear(hh))
    return call_fail(cx, "CellParamsBase: expected packed linear weights");
  cell_params *p = mem_alloc_zero(cx->ctx, sizeof *p);
  if (!p)
    return call_nomem(cx);
  *p = (cell_params){.ctx = cx->ctx,
                     .ih = value_retain(ih),
                     .hh = value_retain(hh),
                     .b_ih = tensor_retain(b_ih),
                     .b_hh = tensor_retain(b_hh),
                     .reduce_range = reduce_range,
                     .half = half};
  *out = p;
  return RUSH_OK;
}

static rush_list *list_at(const rush_tuple *t, size_t i)
{
  return t->items[i].tag == RUSH_TAG_LIST ? t->items[i].as.list : NULL;
}

/* (kind, tensors, floats, ints, packed weights) */
static rush_status set_cell_state(call_ctx *cx, rush_value state, void **self)
{
  cell_params *p = NULL;
  const rush_tuple *t =
    state.tag == RUSH_TAG_TUPLE && state.as.tuple->n == 5 ? state.as.tuple : NULL;
  const rush_list *packed = t ? list_at(t, 4) : NULL, *tensors = t ? list_at(t, 1) : NULL,
                  *ints = t ? list_at(t, 3) : NULL;
  if (!t || t->items[0].tag != RUSH_TAG_STRING || !packed || !tensors || !ints)
    return call_fail(
      cx, "CellParamsBase: expected a state (kind, tensors, floats, ints, packed weights)");
  const str kind = value_str(t->items[0]);
  const bool half = str_is(kind, "quantized_fp16");
  if (!half && !str_is(kind, "quantized_dynamic"))
    return call_unsupported(cx, "recurrent weights of kind '%.*s'", (int)kind.len, kind.p);
  if (packed->n != 2 || (!half && tensors->n != 2))
    return call_fail(cx, "CellParamsBase: expected two packed weights and two biases");
  const bool reduce_range = !half && (ints->n == 0 || ints->items[0].as.i != 0);
  TRY(cell_new(cx, packed->items[0], packed->items[1], half ? NULL : list_tensor(tensors, 0),
               half ? NULL : list_tensor(tensors, 1), reduce_range, half, &p));
  *self = p;
  return RUSH_OK;
}

static rush_status empty_list(call_ctx *cx, const type *elem, rush_value *out)
{
  rush_list *l = NULL;
  TRY(list_new(cx, elem, 2, &l));
  *out = value_heap_steal(RUSH_TAG_LIST, l);
  return RUSH_OK;
}

static rush_status get_state(call_ctx *cx, void *self, rush_value *state)
{
  const cell_params *p = self;
  rush_tuple *t = NULL;
  const char *kind = p->half ? "quantized_fp16" : "quantized_dynamic";
  TRY(tuple_new(cx, NULL, 5, &t));
  rush_status st = string_new(cx, kind, strlen(kind), &t->items[0]);
  static const type_kind kinds[5] = {TYPE_STRING, TYPE_TENSOR, TYPE_FLOAT, TYPE_INT, TYPE_ANY};
  for (int i = 1; i < 5 && st == RUSH_OK; i++)
    st = empty_list(cx, type_simple(kinds[i]), &t->items[i]);
  if (st == RUSH_OK && !p->half) {
    st = list_append_steal(cx, t->items[1].as.list, value_tensor_steal(tensor_retain(p->b_ih)));
    if (st == RUSH_OK)
      st = list_append_steal(cx, t->items[1].as.list, value_tensor_steal(tensor_retain(p->b_hh)));
    if (st == RUSH_OK)
      st = list_append_steal(cx, t->items[3].as.list, value_int(p->reduce_range));
  }
  if (st == RUSH_OK)
    st = list_append_steal(cx, t->items[4].as.list, value_retain(p->ih));
  if (st == RUSH_OK)
    st = list_append_steal(cx, t->items[4].as.list, value_retain(p->hh));
  if (st != RUSH_OK) {
    value_release(value_heap_steal(RUSH_TAG_TUPLE, t));
    return st;
  }
  *state = value_heap_steal(RUSH_TAG_TUPLE, t);
  return RUSH_OK;
}

const custom_class cell_params_class = {"__torch__.torch.classes.rnn.CellParamsBase", destroy_cell,
                                        set_cell_state, get_state};

/* (w_ih, w_hh, bias_ih, bias_hh, reduce_range) */
rush_status kernel_make_quantized_cell_params_dynamic(rush_call *c)
{
  cell_params *p = NULL;
  TRY(cell_new(c->cx, c->args[0], c->args[1], call_tensor(c, 2), call_tensor(c, 3), call_bool(c, 4),
               false, &p));
  return custom_value_new_steal(c->cx, &cell_params_class, p, &c->results[0]);
}

rush_status kernel_make_quantized_cell_params_fp16(rush_call *c)
{
  cell_params *p = NULL;
  TRY(cell_new(c->cx, c->args[0], c->args[1], NULL, NULL, false, true, &p));
  return custom_value_new_steal(c->cx, &cell_params_class, p, &c->results[0]);
}

/* -- Layers ------------------------------------------------------------------------------------ */

typedef struct qrnn {
  call_ctx *cx;
  qrnn_mode mode;
  rnn_rows rows;
  int64_t n_layers, n_dirs, batch, hidden, n_steps;
  const int64_t *batch_sizes; /* rows of each step, or NULL: `batch` */
  const rush_list *params;
  rush_tensor *h, *c; /* [layers * dirs, batch, hidden], contiguous, owned; c NULL but for LSTM */
  double dropout;
} qrnn;

static rush_status multiply_weight(call_ctx *cx, const cell_params *p, rush_value weight,
                                   rush_tensor *x, rush_tensor **out)
{
  const linear_packed *w = linear_of(weight);
  if (!w->half)
    return linear_packed_dynamic(cx, w, x, p->reduce_range, false, out);
  const rush_value args[3] = {nn_arg(x), nn_arg(w->weight), nn_arg(w->bias)};
  return nn_invoke(cx, "aten::linear", "", args, 3, out);
}

static rush_status step(const qrnn *q, const cell_params *p, const float *in, int64_t at, int64_t n)
{
  const int64_t width = n_gates[q->mode] * q->hidden;
  rush_tensor *rows = NULL, *gates = NULL;
  float *h = (float *)q->h->data + at * q->batch * q->hidden,
        *c = q->c ? (float *)q->c->data + at * q->batch * q->hidden : NULL;
  rush_tensor *layer = NULL;
  TRY(tensor_select(q->cx, q->h, 0, at, &layer));
  rush_status st = tensor_narrow(q->cx, layer, 0, 0, n, &rows);
  tensor_release(layer);
  TRY(st);
  st = multiply_weight(q->cx, p, p->hh, rows, &gates);
  tensor_release(rows);
  TRY(st);
  float *g = gates->data;
  if (gates->n_elems != n * width) {
    st = call_fail(q->cx,
                   "the packed weights of a recurrent layer have %lld outputs a row, expected %lld",
                   (long long)(n ? gates->n_elems / n : 0), (long long)width);
    tensor_release(gates);
    return st;
  }
  for (int64_t r = 0; r < n; r++) {
    if (q->mode != QRNN_GRU)
      for (int64_t k = 0; k < width; k++)
        g[r * width + k] += in[r * width + k];
    if (q->mode == QRNN_LSTM)
      q->rows.lstm(q->hidden, g + r * width, c + r * q->hidden, h + r * q->hidden);
    else if (q->mode == QRNN_GRU)
      q->rows.gru(q->hidden, in + r * width, g + r * width, h + r * q->hidden);
    else
      q->rows.plain(q->hidden, g + r * width, q->mode == QRNN_RELU, h + r * q->hidden);
  }
  tensor_release(gates);
  return RUSH_OK;
}

/* Run direction `dir` of `layer` of x [rows, features] into columns of `out`. */
static rush_status direction(const qrnn *q, int64_t layer, int64_t dir, rush_tensor *x,
                             rush_tensor *out)
{
  const int64_t at = layer * q->n_dirs + dir, width = n_gates[q->mode] * q->hidden,
                out_width = q->n_dirs * q->hidden;
  const rush_value v = q->params->items[at];
  if (v.tag != RUSH_TAG_CUSTOM || ((custom_value *)v.as.heap)->cls != &cell_params_class)
    return call_fail(q->cx, "expected the parameters of a quantized recurrent layer");
  const cell_params *p = ((custom_value *)v.as.heap)->self;
  rush_tensor *in = NULL;
  TRY(multiply_weight(q->cx, p, p->ih, x, &in));
  rush_status st = in->n_elems == x->sizes[0] * width
                     ? RUSH_OK
                     : call_fail(q->cx, "the hidden state does not fit the packed weights");
  int64_t row = dir ? x->sizes[0] : 0;
  for (int64_t i = 0; i < q->n_steps && st == RUSH_OK; i++) {
    const int64_t t = dir ? q->n_steps - 1 - i : i,
                  n = q->batch_sizes ? q->batch_sizes[t] : q->batch;
    row -= dir ? n : 0;
    st = (i & 63) == 63 ? call_poll(q->cx) : RUSH_OK;
    if (st == RUSH_OK)
      st = step(q, p, (const float *)in->data + row * width, at, n);
    const float *h = (const float *)q->h->data + at * q->batch * q->hidden;
    for (int64_t r = 0; r < n && st == RUSH_OK; r++)
      memcpy((float *)out->data + (row + r) * out_width + dir * q->hidden, h + r * q->hidden,
             (size_t)q->hidden * sizeof *h);
    row += dir ? 0 : n;
  }
  tensor_release(in);
  return st;
}

/* Replace *x [rows, features] by the last layer's output. */
static rush_status layers(const qrnn *q, rush_tensor **x)
{
  for (int64_t l = 0; l < q->n_layers; l++) {
    const int64_t sizes[2] = {(*x)->sizes[0], q->n_dirs * q->hidden};
    rush_tensor *out = NULL;
    TRY(tensor_new(q->cx, RUSH_FLOAT32, 2, sizes, &out));
    rush_status st = RUSH_OK;
    for (int64_t d = 0; d < q->n_dirs && st == RUSH_OK; d++)
      st = direction(q, l, d, *x, out);
    tensor_release(*x);
    *x = out;
    if (st == RUSH_OK && q->dropout > 0.0 && l + 1 < q->n_layers) {
      const rush_value args[3] = {nn_arg(out), value_float(q->dropout), value_bool(true)};
      st = nn_invoke(q->cx, "aten::dropout", "", args, 3, x);
      if (st == RUSH_OK)
        tensor_release(out);
      else
        *x = out;
    }
    TRY(st);
  }
  return RUSH_OK;
}

/* Make a float32 copy of a state, checked. */
static rush_status take_state(const qrnn *q, rush_tensor *t, rush_tensor **out)
{
  if (t->n_dims != 3 || t->sizes[0] != q->n_layers * q->n_dirs || t->sizes[1] != q->batch ||
      t->sizes[2] != q->hidden)
    return call_fail(q->cx, "Expected hidden size (%lld, %lld, %lld)",
                     (long long)(q->n_layers * q->n_dirs), (long long)q->batch,
                     (long long)q->hidden);
  TRY(tensor_new(q->cx, RUSH_FLOAT32, 3, t->sizes, out));
  return tensor_copy(q->cx, *out, t);
}

/* Read arguments from `at` on: hx, params, has_biases, num_layers, dropout, train,
 * bidirectional. */
static rush_status read_rnn(rush_call *c, uint32_t at, qrnn_mode mode, qrnn *q)
{
  rush_tensor *h = call_tensor(c, at), *cell = NULL;
  q->cx = c->cx;
  q->mode = mode;
  q->rows = ISA_PICK(rnn_rows_of, cpu_choose(context_get_options(c->cx->ctx)->cpu))(false);
  q->params = call_list(c, at + 1);
  q->n_layers = call_int(c, at + 3);
  q->dropout = call_bool(c, at + 5) ? call_float(c, at + 4) : 0.0;
  q->n_dirs = call_bool(c, at + 6) ? 2 : 1;
  if (mode == QRNN_LSTM) {
    const rush_list *hx = call_list(c, at);
    if (!hx || hx->n != 2)
      return call_fail(c->cx, "lstm expects two hidden states");
    h = list_tensor(hx, 0);
    cell = list_tensor(hx, 1);
  }
  if (h->n_dims != 3)
    return call_fail(c->cx, "expected a hidden state of 3 dimensions, got %d", h->n_dims);
  if (q->n_layers < 0 || q->params->n != (size_t)(q->n_layers * q->n_dirs))
    return call_fail(c->cx, "got an incorrect number of RNN parameters");
  q->hidden = h->sizes[2];
  TRY(take_state(q, h, &q->h));
  return cell ? take_state(q, cell, &q->c) : RUSH_OK;
}

static void end(qrnn *q)
{
  tensor_release(q->h);
  tensor_release(q->c);
}

static void return_states(rush_call *c, qrnn *q)
{
  call_return_steal(c, 1, q->h);
  q->h = NULL;
  if (q->c)
    call_return_steal(c, 2, q->c);
  q->c = NULL;
}

/* Flatten x as [steps, batch, features] (new view or copy). */
static rush_status flatten(call_ctx *cx, rush_tensor *input, bool batch_first, rush_tensor **out)
{
  rush_tensor *turned = NULL, *dense = NULL;
  TRY(batch_first ? tensor_transpose(cx, input, 0, 1, &turned) : tensor_alias(cx, input, &turned));
  rush_status st = tensor_to_dtype(cx, turned, RUSH_FLOAT32, &dense);
  const int64_t sizes[2] = {turned->sizes[0] * turned->sizes[1], turned->sizes[2]};
  tensor_release(turned);
  TRY(st);
  st = tensor_reshape(cx, dense, 2, sizes, out);
  tensor_release(dense);
  return st;
}

static rush_status qrnn_input(rush_call *c, qrnn_mode mode)
{
  rush_tensor *input = call_tensor(c, 0), *x = NULL, *out = NULL;
  const bool batch_first = call_bool(c, 8);
  qrnn q = {0};
  if (input->n_dims != 3)
    return call_fail(c->cx, "expected an input of 3 dimensions, got %d", input->n_dims);
  q.batch = input->sizes[batch_first ? 0 : 1];
  q.n_steps = input->sizes[batch_first ? 1 : 0];
  if (q.n_steps == 0)
    return call_fail(c->cx, "Expected sequence length to be larger than 0 in RNN");
  rush_status st = read_rnn(c, 1, mode, &q);
  if (st == RUSH_OK)
    st = flatten(c->cx, input, batch_first, &x);
  if (st == RUSH_OK)
    st = layers(&q, &x);
  if (st == RUSH_OK) {
    const int64_t sizes[3] = {q.n_steps, q.batch, x->sizes[1]};
    st = tensor_reshape(c->cx, x, 3, sizes, &out);
  }
  tensor_release(x);
  if (st == RUSH_OK && batch_first) {
    st = tensor_transpose(c->cx, out, 0, 1, &x);
    tensor_release(out);
    out = x;
  }
  if (st == RUSH_OK) {
    call_return_steal(c, 0, out);
    return_states(c, &q);
  }
  end(&q);
  return st;
}

static rush_status qrnn_data(rush_call *c, qrnn_mode mode)
{
  rush_tensor *sizes = NULL, *x = NULL;
  qrnn q = {0};
  TRY(tensor_to_dtype(c->cx, call_tensor(c, 1), RUSH_INT64, &sizes));
  q.batch_sizes = sizes->data;
  q.n_steps = sizes->n_elems;
  q.batch = q.n_steps ? q.batch_sizes[0] : 0;
  int64_t n_rows = 0;
  rush_status st = RUSH_OK;
  for (int64_t i = 0; i < q.n_steps; i++) {
    if (__builtin_add_overflow(n_rows, q.batch_sizes[i], &n_rows) || q.batch_sizes[i] < 0 ||
        q.batch_sizes[i] > (i ? q.batch_sizes[i - 1] : q.batch))
      st = call_fail(c->cx, "batch_sizes must not grow");
  }
  if (st == RUSH_OK && (call_tensor(c, 0)->n_dims != 2 || call_tensor(c, 0)->sizes[0] != n_rows))
    st = call_fail(c->cx, "packed data and batch_sizes do not fit");
  if (st == RUSH_OK)
    st = read_rnn(c, 2, mode, &q);
  if (st == RUSH_OK)
    st = tensor_to_dtype(c->cx, call_tensor(c, 0), RUSH_FLOAT32, &x);
  if (st == RUSH_OK)
    st = layers(&q, &x);
  tensor_release(sizes);
  if (st == RUSH_OK) {
    call_return_steal(c, 0, x);
    return_states(c, &q);
  } else {
    tensor_release(x);
  }
  end(&q);
  return st;
}

rush_status kernel_quantized_lstm_input(rush_call *c) { return qrnn_input(c, QRNN_LSTM); }
rush_status kernel_quantized_gru_input(rush_call *c) { return qrnn_input(c, QRNN_GRU); }
rush_status kernel_quantized_lstm_data(rush_call *c) { return qrnn_data(c, QRNN_LSTM); }
rush_status kernel_quantized_gru_data(rush_call *c) { return qrnn_data(c, QRNN_GRU); }

/* -- Cells: (input, hx, w_ih, w_hh, b_ih, b_hh) ------------------------------------------------ */

static rush_status cell_state(call_ctx *cx, rush_tensor *t, rush_tensor **out)
{
  if (!t || t->n_dims != 2)
    return call_fail(cx, "expected a hidden state of 2 dimensions");
  const int64_t sizes[3] = {1, t->sizes[0], t->sizes[1]};
  TRY(tensor_new(cx, RUSH_FLOAT32, 3, sizes, out));
  rush_tensor *row = NULL;
  TRY(tensor_select(cx, *out, 0, 0, &row));
  rush_status st = tensor_copy(cx, row, t);
  tensor_release(row);
  return st;
}

static rush_status run_cell(rush_call *c, qrnn *q)
{
  const rush_list *hx = q->mode == QRNN_LSTM ? call_list(c, 1) : NULL;
  rush_tensor *x = call_tensor(c, 0), *in = NULL;
  if (q->mode == QRNN_LSTM && (!hx || hx->n != 2))
    return call_fail(c->cx, "lstm_cell expects two hidden states");
  TRY(cell_state(c->cx, hx ? list_tensor(hx, 0) : call_tensor(c, 1), &q->h));
  if (hx)
    TRY(cell_state(c->cx, list_tensor(hx, 1), &q->c));
  if (!is_linear(c->args[2]) || !is_linear(c->args[3]))
    return call_fail(c->cx, "%s: expected packed linear weights", c->op->schema->name);
  const cell_params p = {.ih = c->args[2], .hh = c->args[3], .reduce_range = true};
  q->batch = q->h->sizes[1];
  q->hidden = q->h->sizes[2];
  TRY(multiply_weight(c->cx, &p, p.ih, x, &in));
  rush_status st = in->n_elems == q->batch * q->hidden * n_gates[q->mode]
                       ? step(q, &p, in->data, 0, q->batch)
                       : call_fail(c->cx, "the hidden state does not fit the packed weights");
  tensor_release(in);
  return st;
}

static rush_status cell(rush_call *c, qrnn_mode mode)
{
  qrnn q = {.cx = c->cx, .mode = mode};
  q.rows = ISA_PICK(rnn_rows_of, cpu_choose(context_get_options(c->cx->ctx)->cpu))(false);
  rush_status st = run_cell(c, &q);
  rush_tensor *states[2] = {q.h, q.c}, *t = NULL;
  for (uint32_t i = 0; i < c->n_results && st == RUSH_OK; i++) {
    st = tensor_select(c->cx, states[i], 0, 0, &t);
    if (st == RUSH_OK)
      call_return_steal(c, i, t);
  }
  end(&q);
  return st;
}

rush_status kernel_quantized_lstm_cell_dynamic(rush_call *c) { return cell(c, QRNN_LSTM); }
rush_status kernel_quantized_gru_cell_dynamic(rush_call *c) { return cell(c, QRNN_GRU); }
rush_status kernel_quantized_rnn_tanh_cell_dynamic(rush_call *c) { return cell(c, QRNN_TANH); }
rush_status kernel_quantized_rnn_relu_cell_dynamic(rush_call *c) { return cell(c, QRNN_RELU); }
