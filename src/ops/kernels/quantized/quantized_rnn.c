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
#include "ops/kernels/work.h"

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

static rush_tensor *multiply_weight(work *w, const cell_params *p, rush_value weight,
                                    rush_tensor *x)
{
  const linear_packed *l = linear_of(weight);
  if (!l->half)
    return WORK_MAKE(w, linear_packed_dynamic(w->cx, l, x, p->reduce_range, false, &w->made));
  const rush_value args[3] = {nn_arg(x), nn_arg(l->weight), nn_arg(l->bias)};
  return work_invoke(w, "aten::linear", "", args, 3);
}

/* Run one step of n rows, whose part of the input is `in`, on the states of layer `at`. */
static rush_status step(const qrnn *q, const cell_params *p, const float *in, int64_t at, int64_t n)
{
  const int64_t width = n_gates[q->mode] * q->hidden;
  float *h = (float *)q->h->data + at * q->batch * q->hidden,
        *c = q->c ? (float *)q->c->data + at * q->batch * q->hidden : NULL;
  work w = work_begin_part(q->cx);
  rush_tensor *layer = WORK_MAKE(&w, tensor_select(q->cx, q->h, 0, at, &w.made)),
              *rows = WORK_MAKE(&w, tensor_narrow(q->cx, layer, 0, 0, n, &w.made)),
              *gates = multiply_weight(&w, p, p->hh, rows);
  float *g = gates->data;
  if (gates->n_elems != n * width)
    WORK_DO(&w,
            call_fail(q->cx,
                      "the packed weights of a recurrent layer have %lld outputs a row, expected "
                      "%lld",
                      (long long)(n ? gates->n_elems / n : 0), (long long)width));
  for (int64_t r = 0; r < n && w.st == RUSH_OK; r++) {
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
  return work_end(&w);
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
  work w = work_begin_part(q->cx);
  const rush_tensor *in = multiply_weight(&w, p, p->ih, x);
  if (in->n_elems != x->sizes[0] * width)
    WORK_DO(&w, call_fail(q->cx, "the hidden state does not fit the packed weights"));
  int64_t row = dir ? x->sizes[0] : 0;
  for (int64_t i = 0; i < q->n_steps && w.st == RUSH_OK; i++) {
    const int64_t t = dir ? q->n_steps - 1 - i : i,
                  n = q->batch_sizes ? q->batch_sizes[t] : q->batch;
    row -= dir ? n : 0;
    w.st = (i & 63) == 63 ? call_poll(q->cx) : RUSH_OK;
    WORK_DO(&w, step(q, p, (const float *)in->data + row * width, at, n));
    const float *h = (const float *)q->h->data + at * q->batch * q->hidden;
    for (int64_t r = 0; r < n && w.st == RUSH_OK; r++)
      memcpy((float *)out->data + (row + r) * out_width + dir * q->hidden, h + r * q->hidden,
             (size_t)q->hidden * sizeof *h);
    row += dir ? 0 : n;
  }
  return work_end(&w);
}

/* Return the last layer's output for x [rows, features]. */
static rush_tensor *layers(work *w, const qrnn *q, rush_tensor *x)
{
  for (int64_t l = 0; l < q->n_layers && w->st == RUSH_OK; l++) {
    const int64_t sizes[2] = {x->sizes[0], q->n_dirs * q->hidden};
    rush_tensor *out = work_new(w, RUSH_FLOAT32, 2, sizes);
    for (int64_t d = 0; d < q->n_dirs; d++)
      WORK_DO(w, direction(q, l, d, x, out));
    work_drop(w, x);
    x = out;
    if (q->dropout > 0.0 && l + 1 < q->n_layers) {
      const rush_value args[3] = {nn_arg(out), value_float(q->dropout), value_bool(true)};
      x = work_invoke(w, "aten::dropout", "", args, 3);
      work_drop(w, out);
    }
  }
  return x;
}

/* Return a float32 copy of a state, checked. */
static rush_tensor *take_state(work *w, const qrnn *q, rush_tensor *t)
{
  if (t->n_dims != 3 || t->sizes[0] != q->n_layers * q->n_dirs || t->sizes[1] != q->batch ||
      t->sizes[2] != q->hidden)
    WORK_DO(w, call_fail(w->cx, "Expected hidden size (%lld, %lld, %lld)",
                         (long long)(q->n_layers * q->n_dirs), (long long)q->batch,
                         (long long)q->hidden));
  rush_tensor *made = work_new(w, RUSH_FLOAT32, t->n_dims, t->sizes);
  WORK_DO(w, tensor_copy(w->cx, made, t));
  return made;
}

/* Read arguments from `at` on: hx, params, has_biases, num_layers, dropout, train,
 * bidirectional. */
static rush_status read_rnn(work *w, uint32_t at, qrnn_mode mode, qrnn *q)
{
  const rush_call *c = w->call;
  rush_tensor *h = call_tensor(c, at), *cell = NULL;
  q->cx = c->cx;
  q->mode = mode;
  q->rows = ISA_PICK(rnn_rows_of, call_cpu(c->cx))(false);
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
  q->h = take_state(w, q, h);
  q->c = cell ? take_state(w, q, cell) : NULL;
  return w->st;
}

/* Return y and the states. */
static rush_status return_all(work *w, const qrnn *q, rush_tensor *y)
{
  if (w->st == RUSH_OK) {
    call_return_steal(w->call, 0, tensor_retain(y));
    call_return_steal(w->call, 1, tensor_retain(q->h));
    if (q->c)
      call_return_steal(w->call, 2, tensor_retain(q->c));
  }
  return work_end(w);
}

static rush_status qrnn_input(rush_call *c, qrnn_mode mode)
{
  rush_tensor *x = call_tensor(c, 0);
  const bool batch_first = call_bool(c, 8);
  qrnn q = {0};
  if (x->n_dims != 3)
    return call_fail(c->cx, "expected an input of 3 dimensions, got %d", x->n_dims);
  const int64_t flat[2] = {x->sizes[0] * x->sizes[1], x->sizes[2]};
  q.batch = x->sizes[batch_first ? 0 : 1];
  q.n_steps = x->sizes[batch_first ? 1 : 0];
  if (q.n_steps == 0)
    return call_fail(c->cx, "Expected sequence length to be larger than 0 in RNN");
  work w = work_begin(c);
  WORK_DO(&w, read_rnn(&w, 1, mode, &q));
  if (batch_first)
    x = WORK_MAKE(&w, tensor_transpose(c->cx, x, 0, 1, &w.made));
  x = work_rows(&w, x, RUSH_FLOAT32);
  rush_tensor *y = layers(&w, &q, WORK_MAKE(&w, tensor_reshape(c->cx, x, 2, flat, &w.made)));
  const int64_t sizes[3] = {q.n_steps, q.batch, y->sizes[1]};
  y = WORK_MAKE(&w, tensor_reshape(c->cx, y, 3, sizes, &w.made));
  if (batch_first)
    y = WORK_MAKE(&w, tensor_transpose(c->cx, y, 0, 1, &w.made));
  return return_all(&w, &q, y);
}

static rush_status read_batch_sizes(call_ctx *cx, qrnn *q, const rush_tensor *sizes,
                                    const rush_tensor *data)
{
  q->batch_sizes = sizes->data;
  q->n_steps = sizes->n_elems;
  q->batch = q->n_steps ? q->batch_sizes[0] : 0;
  int64_t n_rows = 0;
  for (int64_t i = 0; i < q->n_steps; i++)
    if (__builtin_add_overflow(n_rows, q->batch_sizes[i], &n_rows) || q->batch_sizes[i] < 0 ||
        q->batch_sizes[i] > (i ? q->batch_sizes[i - 1] : q->batch))
      return call_fail(cx, "batch_sizes must not grow");
  return data->n_dims == 2 && data->sizes[0] == n_rows
           ? RUSH_OK
           : call_fail(cx, "packed data and batch_sizes do not fit");
}

static rush_status qrnn_data(rush_call *c, qrnn_mode mode)
{
  qrnn q = {0};
  work w = work_begin(c);
  const rush_tensor *sizes = work_rows(&w, call_tensor(c, 1), RUSH_INT64);
  WORK_DO(&w, read_batch_sizes(c->cx, &q, sizes, call_tensor(c, 0)));
  WORK_DO(&w, read_rnn(&w, 2, mode, &q));
  return return_all(&w, &q, layers(&w, &q, work_rows(&w, call_tensor(c, 0), RUSH_FLOAT32)));
}

rush_status kernel_quantized_lstm_input(rush_call *c) { return qrnn_input(c, QRNN_LSTM); }
rush_status kernel_quantized_gru_input(rush_call *c) { return qrnn_input(c, QRNN_GRU); }
rush_status kernel_quantized_lstm_data(rush_call *c) { return qrnn_data(c, QRNN_LSTM); }
rush_status kernel_quantized_gru_data(rush_call *c) { return qrnn_data(c, QRNN_GRU); }

/* -- Cells: (input, hx, w_ih, w_hh, b_ih, b_hh) ------------------------------------------------ */

/* Return a float32 copy of a state as that of one layer. */
static rush_tensor *cell_state(work *w, rush_tensor *t)
{
  if (!t || t->n_dims != 2) {
    WORK_DO(w, call_fail(w->cx, "expected a hidden state of 2 dimensions"));
    return NULL;
  }
  rush_tensor *made = work_new(w, RUSH_FLOAT32, 3, (int64_t[3]){1, t->sizes[0], t->sizes[1]}),
              *row = WORK_MAKE(w, tensor_select(w->cx, made, 0, 0, &w->made));
  WORK_DO(w, tensor_copy(w->cx, row, t));
  return made;
}

static rush_status run_cell(work *w, qrnn *q)
{
  const rush_call *c = w->call;
  const rush_list *hx = q->mode == QRNN_LSTM ? call_list(c, 1) : NULL;
  if (q->mode == QRNN_LSTM && (!hx || hx->n != 2))
    return call_fail(c->cx, "lstm_cell expects two hidden states");
  q->h = cell_state(w, hx ? list_tensor(hx, 0) : call_tensor(c, 1));
  q->c = hx ? cell_state(w, list_tensor(hx, 1)) : NULL;
  TRY(w->st);
  if (!is_linear(c->args[2]) || !is_linear(c->args[3]))
    return call_fail(c->cx, "%s: expected packed linear weights", c->op->schema->name);
  const cell_params p = {.ih = c->args[2], .hh = c->args[3], .reduce_range = true};
  q->batch = q->h->sizes[1];
  q->hidden = q->h->sizes[2];
  const rush_tensor *in = multiply_weight(w, &p, p.ih, call_tensor(c, 0));
  TRY(w->st);
  return in->n_elems == q->batch * q->hidden * n_gates[q->mode]
           ? step(q, &p, in->data, 0, q->batch)
           : call_fail(c->cx, "the hidden state does not fit the packed weights");
}

static rush_status cell(rush_call *c, qrnn_mode mode)
{
  qrnn q = {.cx = c->cx, .mode = mode, .rows = ISA_PICK(rnn_rows_of, call_cpu(c->cx))(false)};
  work w = work_begin(c);
  WORK_DO(&w, run_cell(&w, &q));
  for (uint32_t i = 0; i < c->n_results; i++)
    WORK_DO(&w, tensor_select(c->cx, i ? q.c : q.h, 0, 0, call_result(c, i)));
  return work_end(&w);
}

rush_status kernel_quantized_lstm_cell_dynamic(rush_call *c) { return cell(c, QRNN_LSTM); }
rush_status kernel_quantized_gru_cell_dynamic(rush_call *c) { return cell(c, QRNN_GRU); }
rush_status kernel_quantized_rnn_tanh_cell_dynamic(rush_call *c) { return cell(c, QRNN_TANH); }
rush_status kernel_quantized_rnn_relu_cell_dynamic(rush_call *c) { return cell(c, QRNN_RELU); }
