/* tensor/print.c -- two texts of a tensor: libtorch's stream output and Python's repr.
 *
 * Both print a contiguous copy in the widest type of its class (int64, float64, complex128), so
 * that one formatter serves all dtypes. */
#include <math.h>
#include <stdio.h>

#include "tensor/sparse.h"

#define LINE_WIDTH 80
#define NUMBER_BYTES 352 /* "%.4f" of the largest double has 314 characters */

static double real_of(rush_value v) { return v.tag == RUSH_TAG_FLOAT ? v.as.d : (double)v.as.i; }

/* Convert t's elements to float64, int64 (uint64 keeps its bits), bool or complex128; quantized
 * ones to float64. */
static rush_status widest(call_ctx *cx, const rush_tensor *t, int dtype, rush_tensor **out)
{
  if (dtype_class_of(t->dtype) != DTYPE_QUANT) {
    rush_tensor *c;
    TRY(tensor_new(cx, dtype, t->n_dims, t->sizes, &c));
    rush_status s = tensor_copy(cx, c, t);
    if (s != RUSH_OK)
      tensor_release(c);
    else
      *out = c;
    return s;
  }
  rush_tensor *c;
  TRY(tensor_new(cx, RUSH_FLOAT64, t->n_dims, t->sizes, &c));
  for (int64_t i = 0; i < t->n_elems; i++) {
    rush_value v;
    if (tensor_get(cx, t, i, &v) == RUSH_OK)
      ((double *)c->data)[i] = real_of(v);
  }
  *out = c;
  return RUSH_OK;
}

/* -- libtorch's operator<< --------------------------------------------------------------------- */

/* The format of the elements of one matrix or vector. */
typedef struct aten_format {
  const char *spec; /* printf's, with a width */
  int width;
  double scale;
} aten_format;

/* Append the shortest digits that parse to d, like C++'s formatting of a double: Python's without
 * ".0". */
static void put_shortest(text_buf *out, double d)
{
  char buf[FLOAT_REPR_BYTES];
  size_t n = float_repr(d, buf);
  if (n > 2 && buf[n - 2] == '.' && buf[n - 1] == '0')
    n -= 2;
  text_add(out, buf, n);
}

/* Compute the decimal exponents of the smallest and largest finite value, plus one.  Like PyTorch,
 * this compares the signed value with the largest magnitude. */
static void exponents(const double *p, int64_t n, double *lo, double *hi)
{
  int64_t i = 0;
  *lo = *hi = 1;
  while (i < n && !isfinite(p[i]))
    i++;
  if (i == n)
    return;
  *lo = *hi = fabs(p[i]);
  for (; i < n; i++) {
    double z = fabs(p[i]);
    if (!isfinite(z))
      continue;
    if (z < *lo)
      *lo = z;
    if (p[i] > *hi)
      *hi = z;
  }
  *lo = *lo != 0 ? floor(log10(*lo)) + 1 : 1;
  *hi = *hi != 0 ? floor(log10(*hi)) + 1 : 1;
}

static aten_format choose_format(const double *p, int64_t n)
{
  bool ints = true;
  for (int64_t i = 0; i < n && ints; i++)
    ints = !isfinite(p[i]) || p[i] == ceil(p[i]);
  double lo, hi;
  exponents(p, n, &lo, &hi);
  if (ints)
    return hi > 9 ? (aten_format){"%*.4e", 11, 1} : (aten_format){"%*.6g", (int)hi + 1, 1};
  if (hi - lo > 4)
    return (aten_format){"%*.4e", fabs(hi) > 99 || fabs(lo) > 99 ? 12 : 11, 1};
  if (hi > 5 || hi < 0)
    return (aten_format){"%*.4f", 7, pow(10, hi - 1)};
  return (aten_format){"%*.4f", hi == 0 ? 7 : (int)hi + 6, 1};
}

static void put_element(text_buf *out, const aten_format *f, double v)
{
  char buf[NUMBER_BYTES];
  /* printf prints "-nan" for a NaN with the sign bit, as C++'s streams do. */
  int n = snprintf(buf, sizeof buf, f->spec, f->width, v / f->scale);
  text_add(out, buf, n > 0 ? (size_t)n : 0);
}

static void put_scale(text_buf *out, const aten_format *f)
{
  put_shortest(out, f->scale);
  text_puts(out, " *\n");
}

static void put_matrix(text_buf *out, const double *p, int64_t rows, int64_t columns, int indent)
{
  aten_format f = choose_format(p, rows * columns);
  const char *pad = indent ? " " : "";
  int64_t per_line = i64_max((LINE_WIDTH - indent) / (f.width + 1), 1);
  for (int64_t first = 0; first < columns; first += per_line) {
    int64_t end = i64_min(first + per_line, columns);
    if (per_line < columns)
      text_printf(out, "%sColumns %lld to %lld%s", first ? "\n" : "", (long long)first + 1,
                  (long long)end, pad);
    if (f.scale != 1) {
      put_scale(out, &f);
      text_puts(out, pad);
    }
    for (int64_t r = 0; r < rows && !text_failed(out); r++) {
      if (r > 0) {
        text_puts(out, pad);
        text_puts(out, f.scale != 1 ? " " : "");
      }
      for (int64_t c = first; c < end; c++) {
        put_element(out, &f, p[r * columns + c]);
        text_putc(out, c + 1 == end ? '\n' : ' ');
      }
    }
  }
}

/* Print the matrices of a tensor of 3 and more dimensions; the first dimension varies fastest. */
static void put_matrices(text_buf *out, const rush_tensor *t)
{
  int n = t->n_dims - 2;
  int64_t counter[TENSOR_MAX_DIMS] = {0}, rows = t->sizes[n], columns = t->sizes[n + 1];
  for (bool start = true;; start = false) {
    int64_t at = 0;
    text_puts(out, start ? "(" : "\n(");
    for (int i = 0; i < n; i++) {
      at += counter[i] * t->strides[i];
      text_printf(out, "%lld,", (long long)counter[i] + 1);
    }
    text_puts(out, ".,.) = \n");
    put_matrix(out, (const double *)t->data + at, rows, columns, 1);
    int i = 0;
    while (i < n && ++counter[i] == t->sizes[i])
      counter[i++] = 0;
    if (i == n || text_failed(out))
      return;
  }
}

static void put_elements(text_buf *out, const rush_tensor *t)
{
  const double *p = t->data;
  if (t->n_dims == 0) {
    put_shortest(out, p[0]);
    text_putc(out, '\n');
  } else if (t->n_dims == 1) {
    aten_format f = choose_format(p, t->n_elems);
    if (f.scale != 1)
      put_scale(out, &f);
    for (int64_t i = 0; i < t->n_elems && !text_failed(out); i++) {
      put_element(out, &f, p[i]);
      text_putc(out, '\n');
    }
  } else if (t->n_dims == 2) {
    put_matrix(out, p, t->sizes[0], t->sizes[1], 0);
  } else {
    put_matrices(out, t);
  }
}

static rush_status put_quantizer(call_ctx *cx, text_buf *out, const quantizer *q)
{
  if (!q->per_channel) {
    text_puts(out, ", qscheme: per_tensor_affine, scale: ");
    put_shortest(out, q->scale);
    text_printf(out, ", zero_point: %lld", (long long)q->zero_point);
    return RUSH_OK;
  }
  text_puts(out, ", qscheme: per_channel_affine, scales: ");
  TRY(tensor_print_aten(cx, out, q->scales));
  text_puts(out, ", zero_points: ");
  TRY(tensor_print_aten(cx, out, q->zero_points));
  text_printf(out, ", axis: %d", (int)q->axis);
  return RUSH_OK;
}

/* Print a sparse tensor.  libtorch cannot print compressed rows; their indices are printed as in
 * Python. */
static rush_status put_sparse(call_ctx *cx, text_buf *out, const rush_tensor *t)
{
  const sparse_parts *p = tensor_sparse(t);
  sizes_text text;
  text_printf(out, "[ Sparse%sCPU%sType{}\n%s", p->crow ? "Csr" : "", dtype_aten_name(t->dtype),
              p->crow ? "crow_indices:\n" : "");
  if (p->crow) {
    TRY(tensor_print_aten(cx, out, p->crow));
    text_puts(out, "\ncol_");
  }
  text_puts(out, "indices:\n");
  TRY(tensor_print_aten(cx, out, p->indices));
  text_puts(out, "\nvalues:\n");
  TRY(tensor_print_aten(cx, out, p->values));
  text_printf(out, "\nsize:\n%s\n]", sizes_print(&text, t->n_dims, t->sizes));
  return text_failed(out) ? call_nomem(cx) : RUSH_OK;
}

rush_status tensor_print_aten(call_ctx *cx, text_buf *out, const rush_tensor *t)
{
  if (!t) {
    text_puts(out, "[ Tensor (undefined) ]");
    return RUSH_OK;
  }
  if (tensor_sparse(t))
    return put_sparse(cx, out, t);
  if (t->n_elems > 0) {
    rush_tensor *wide;
    TRY(widest(cx, t, RUSH_FLOAT64, &wide));
    put_elements(out, wide);
    tensor_release(wide);
  }
  bool quantized = dtype_class_of(t->dtype) == DTYPE_QUANT;
  text_printf(out, "[ %sCPU%sType{", quantized ? "Quantized" : "", dtype_aten_name(t->dtype));
  for (int i = 0; i < t->n_dims; i++)
    text_printf(out, "%s%lld", i ? "," : "", (long long)t->sizes[i]);
  text_puts(out, "}");
  if (tensor_quantizer(t))
    TRY(put_quantizer(cx, out, tensor_quantizer(t)));
  text_puts(out, " ]");
  return text_failed(out) ? call_nomem(cx) : RUSH_OK;
}

/* -- Python's repr ----------------------------------------------------------------------------- */

#define EDGE_ITEMS 3
#define THRESHOLD 1000

/* The counterpart of torch._tensor_str._Formatter. */
typedef struct py_format {
  dtype_class cls;
  bool is_unsigned; /* uint64 */
  bool ints, scientific;
  int width;
} py_format;

typedef struct py_printer {
  const rush_tensor *t; /* contiguous */
  bool summarize;
  py_format real, imag;
  text_buf *out;
} py_printer;

/* Return a real number, or the part (0 real, 1 imaginary) of a complex one; elements are stored as
 * doubles. */
static double float_at(const rush_tensor *t, int64_t i, int part)
{
  const double *p = t->data;
  return t->dtype == RUSH_COMPLEX128 ? p[2 * i + part] : p[i];
}

static int format_value(const py_format *f, const rush_tensor *t, int64_t i, int part, char *buf)
{
  if (f->cls == DTYPE_BOOL)
    return snprintf(buf, NUMBER_BYTES, "%s", ((const uint8_t *)t->data)[i] ? "True" : "False");
  if (f->cls == DTYPE_INT) {
    int64_t v = ((const int64_t *)t->data)[i];
    return f->is_unsigned ? snprintf(buf, NUMBER_BYTES, "%llu", (unsigned long long)v)
                          : snprintf(buf, NUMBER_BYTES, "%lld", (long long)v);
  }
  double v = float_at(t, i, part);
  if (isnan(v))
    return snprintf(buf, NUMBER_BYTES, "nan");
  if (f->scientific)
    return snprintf(buf, NUMBER_BYTES, "%.4e", v);
  return f->ints ? snprintf(buf, NUMBER_BYTES, isinf(v) ? "%.0f" : "%.0f.", v)
                 : snprintf(buf, NUMBER_BYTES, "%.4f", v);
}

/* Call fn for every element that is printed. */
static void each_shown(const py_printer *p, int dim, int64_t at, void (*fn)(void *, int64_t),
                       void *arg)
{
  const rush_tensor *t = p->t;
  if (dim == t->n_dims) {
    fn(arg, at);
    return;
  }
  int64_t n = t->sizes[dim];
  for (int64_t i = 0; i < n; i++) {
    if (p->summarize && n > 2 * EDGE_ITEMS && i == EDGE_ITEMS)
      i = n - EDGE_ITEMS;
    each_shown(p, dim + 1, at + i * t->strides[dim], fn, arg);
  }
}

typedef struct py_scan {
  const rush_tensor *t;
  py_format *f;
  int part;
  double lo, hi; /* of nonzero finite magnitudes; hi 0: none seen */
} py_scan;

static void scan_range(void *arg, int64_t i)
{
  py_scan *s = arg;
  double v = float_at(s->t, i, s->part), z = fabs(v);
  if (!isfinite(v) || v == 0)
    return;
  if (s->hi == 0 || z < s->lo)
    s->lo = z;
  if (z > s->hi)
    s->hi = z;
  if (v != ceil(v))
    s->f->ints = false;
}

static void scan_width(void *arg, int64_t i)
{
  py_scan *s = arg;
  char buf[NUMBER_BYTES];
  if (s->f->cls == DTYPE_FLOAT) {
    double v = float_at(s->t, i, s->part);
    if (!isfinite(v) || v == 0)
      return;
  }
  int n = format_value(s->f, s->t, i, s->part, buf);
  if (n > s->f->width)
    s->f->width = n;
}

static void make_format(py_printer *p, py_format *f, dtype_class cls, int part)
{
  *f = (py_format){.cls = cls, .is_unsigned = p->t->dtype == RUSH_UINT64, .ints = true, .width = 1};
  py_scan s = {p->t, f, part, 0, 0};
  if (cls == DTYPE_FLOAT) {
    each_shown(p, 0, 0, scan_range, &s);
    if (s.hi == 0)
      return;
    f->scientific = s.hi / s.lo > 1000 || s.hi > 1e8 || (!f->ints && s.lo < 1e-4);
  }
  each_shown(p, 0, 0, scan_width, &s);
}

static void put_padded(text_buf *out, const char *s, int n, int width)
{
  for (; width > n; width--)
    text_putc(out, ' ');
  text_add(out, s, (size_t)n);
}

static void put_py_element(const py_printer *p, int64_t i)
{
  char buf[NUMBER_BYTES];
  int n = format_value(&p->real, p->t, i, 0, buf);
  put_padded(p->out, buf, n, p->real.width);
  if (p->t->dtype != RUSH_COMPLEX128)
    return;
  n = format_value(&p->imag, p->t, i, 1, buf);
  text_puts(p->out, buf[0] == '-' ? "" : "+");
  text_add(p->out, buf, (size_t)n);
  text_putc(p->out, 'j');
}

static void put_py_vector(const py_printer *p, int64_t at, int indent)
{
  int element = p->real.width + 2;
  if (p->t->dtype == RUSH_COMPLEX128)
    element += p->imag.width + 1;
  int64_t per_line = i64_max((LINE_WIDTH - indent) / element, 1), shown = 0;
  int64_t n = p->t->sizes[p->t->n_dims - 1];
  bool cut = p->summarize && n > 2 * EDGE_ITEMS;
  text_putc(p->out, '[');
  for (int64_t i = 0; i < n && !text_failed(p->out); i++, shown++) {
    if (shown && shown % per_line == 0)
      text_printf(p->out, ",\n%*s", indent + 1, "");
    else if (shown)
      text_puts(p->out, ", ");
    if (cut && i == EDGE_ITEMS) {
      text_puts(p->out, " ...");
      i = n - EDGE_ITEMS - 1;
    } else {
      put_py_element(p, at + i);
    }
  }
  text_putc(p->out, ']');
}

static void put_py(const py_printer *p, int dim, int64_t at, int indent)
{
  const rush_tensor *t = p->t;
  int left = t->n_dims - dim;
  if (left == 0) {
    put_py_element(p, at);
    return;
  }
  if (left == 1) {
    put_py_vector(p, at, indent);
    return;
  }
  int64_t n = t->sizes[dim];
  bool cut = p->summarize && n > 2 * EDGE_ITEMS;
  text_putc(p->out, '[');
  for (int64_t i = 0; i < n && !text_failed(p->out); i++) {
    if (i > 0) {
      text_putc(p->out, ',');
      for (int k = 1; k < left; k++)
        text_putc(p->out, '\n');
      text_printf(p->out, "%*s", indent + 1, "");
    }
    if (cut && i == EDGE_ITEMS) {
      text_puts(p->out, "...");
      i = n - EDGE_ITEMS - 1;
    } else {
      put_py(p, dim + 1, at + i * t->strides[dim], indent + 1);
    }
  }
  text_putc(p->out, ']');
}

static rush_status put_py_elements(call_ctx *cx, text_buf *out, const rush_tensor *t, int indent)
{
  static const int16_t wide_of[] = {
    [DTYPE_BOOL] = RUSH_BOOL,
    [DTYPE_INT] = RUSH_INT64,
    [DTYPE_FLOAT] = RUSH_FLOAT64,
    [DTYPE_COMPLEX] = RUSH_COMPLEX128,
    [DTYPE_QUANT] = RUSH_FLOAT64,
  };
  dtype_class cls = dtype_class_of(t->dtype);
  rush_tensor *wide;
  TRY(widest(cx, t, t->dtype == RUSH_UINT64 ? RUSH_UINT64 : wide_of[cls], &wide));
  py_printer p = {.t = wide, .summarize = t->n_elems > THRESHOLD, .out = out};
  make_format(&p, &p.real, cls == DTYPE_BOOL || cls == DTYPE_INT ? cls : DTYPE_FLOAT, 0);
  if (cls == DTYPE_COMPLEX)
    make_format(&p, &p.imag, DTYPE_FLOAT, 1);
  put_py(&p, 0, 0, indent);
  tensor_release(wide);
  return RUSH_OK;
}

static void put_size(text_buf *s, const rush_tensor *t)
{
  text_puts(s, "size=(");
  for (int i = 0; i < t->n_dims; i++)
    text_printf(s, "%s%lld", i ? ", " : "", (long long)t->sizes[i]);
  text_puts(s, t->n_dims == 1 ? ",)" : ")");
}

enum { TENSOR_INDENT = sizeof "tensor(" - 1 };

/* Append a part of a sparse tensor, "indices=tensor([0, 1])", indented as in torch. */
static rush_status put_py_part(call_ctx *cx, text_buf *out, const char *name, const rush_tensor *t)
{
  text_printf(out, "%s=tensor(", name);
  if (t->n_elems == 0) {
    text_puts(out, "[], ");
    put_size(out, t);
  } else {
    TRY(
      put_py_elements(cx, out, t, TENSOR_INDENT + (int)strlen(name) + (int)sizeof "=tensor(" - 1));
  }
  text_puts(out, ")");
  return RUSH_OK;
}

static rush_status put_py_parts(call_ctx *cx, text_buf *out, const sparse_parts *p)
{
  const char *const between = ",\n       ";
  if (p->crow) {
    TRY(put_py_part(cx, out, "crow_indices", p->crow));
    text_puts(out, between);
  }
  TRY(put_py_part(cx, out, p->crow ? "col_indices" : "indices", p->indices));
  text_puts(out, between);
  return put_py_part(cx, out, "values", p->values);
}

/* Append ", suffix", on a new line if this one gets too long.  *line_len is torch's count, which is
 * two more than the length of the line. */
static void add_suffix(text_buf *out, size_t *line_len, const char *text, size_t len)
{
  if (*line_len + len + 2 > LINE_WIDTH) {
    text_puts(out, ",\n       ");
    *line_len = 7 + len;
  } else {
    text_puts(out, ", ");
    *line_len += len + 2;
  }
  text_add(out, text, len);
}

static rush_status quantizer_suffixes(call_ctx *cx, text_buf *s, const quantizer *q, text_buf *out,
                                      size_t *line_len)
{
  add_suffix(out, line_len, s->data, s->len);
  text_clear(s);
  text_printf(s, "quantization_scheme=torch.per_%s_affine", q->per_channel ? "channel" : "tensor");
  add_suffix(out, line_len, s->data, s->len);
  text_clear(s);
  text_puts(s, "scale=");
  if (q->per_channel) {
    TRY(tensor_print_python(cx, s, q->scales));
  } else {
    char buf[FLOAT_REPR_BYTES];
    text_add(s, buf, float_repr(q->scale, buf));
  }
  add_suffix(out, line_len, s->data, s->len);
  text_clear(s);
  text_puts(s, "zero_point=");
  if (q->per_channel)
    TRY(tensor_print_python(cx, s, q->zero_points));
  else
    text_printf(s, "%lld", (long long)q->zero_point);
  if (q->per_channel) {
    add_suffix(out, line_len, s->data, s->len);
    text_clear(s);
    text_printf(s, "axis=%d", (int)q->axis);
  }
  return RUSH_OK;
}

static rush_status put_suffixes(call_ctx *cx, text_buf *out, text_buf *s, const rush_tensor *t,
                                size_t line_len)
{
  const quantizer *q = tensor_quantizer(t);
  const sparse_parts *p = tensor_sparse(t);
  bool empty = t->n_elems == 0 && !p;
  if (p && !p->crow)
    line_len = LINE_WIDTH; /* what follows starts a line */
  if (p || q || (empty && t->n_dims != 1)) {
    put_size(s, t);
    add_suffix(out, &line_len, s->data, s->len);
    text_clear(s);
  }
  if (p) {
    text_printf(s, "nnz=%lld", (long long)sparse_nnz(p));
    add_suffix(out, &line_len, s->data, s->len);
    text_clear(s);
  }
  int d = t->dtype;
  bool plain =
    d == RUSH_FLOAT32 || (!empty && (d == RUSH_INT64 || d == RUSH_BOOL || d == RUSH_COMPLEX64));
  if (!plain || q) {
    text_printf(s, "dtype=torch.%s", dtype_name(d));
    if (q)
      TRY(quantizer_suffixes(cx, s, q, out, &line_len));
    add_suffix(out, &line_len, s->data, s->len);
    text_clear(s);
  }
  if (p) {
    text_printf(s, "layout=torch.%s", p->crow ? "sparse_csr" : "sparse_coo");
    add_suffix(out, &line_len, s->data, s->len);
  }
  if (tensor_requires_grad(t))
    add_suffix(out, &line_len, "requires_grad=True", sizeof "requires_grad=True" - 1);
  return RUSH_OK;
}

rush_status tensor_print_python(call_ctx *cx, text_buf *out, const rush_tensor *t)
{
  if (t->h.flags & TENSOR_IS_PARAMETER)
    text_puts(out, "Parameter containing:\n");
  size_t start = out->len;
  text_puts(out, "tensor(");
  if (tensor_sparse(t))
    TRY(put_py_parts(cx, out, tensor_sparse(t)));
  else if (t->n_elems == 0)
    text_puts(out, "[]");
  else
    TRY(put_py_elements(cx, out, t, TENSOR_INDENT));
  if (text_failed(out))
    return call_nomem(cx);
  size_t line = out->len;
  while (line > start && out->data[line - 1] != '\n')
    line--;
  /* torch computes len - rfind("\n") + 1, and rfind is -1 if there is no line end. */
  size_t line_len = out->len - line + 2;
  text_buf s;
  text_init(&s, cx->ctx);
  rush_status st = put_suffixes(cx, out, &s, t, line_len);
  bool failed = text_failed(&s);
  text_free(&s);
  if (st != RUSH_OK)
    return st;
  text_putc(out, ')');
  return failed || text_failed(out) ? call_nomem(cx) : RUSH_OK;
}
