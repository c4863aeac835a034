/* compare.c -- compares results of recorded calls: types exactly, floats within the tolerance of
 * their leaf. */
#include "cli.h"

#include <math.h>
#include <stdlib.h>
#include <string.h>

static const char *tag_name(rush_value v)
{
  static const char *const names[] = {"NoneType", "Tensor", "bool", "int",  "float", "complex",
                                      "str",      "list",   "tuple", "dict", "object", "enum"};
  return v.tag < sizeof names / sizeof *names ? names[v.tag] : "value";
}

static bool close_enough(double want, double got, cli_tolerance t)
{
  if (isnan(want) || isnan(got))
    return isnan(want) && isnan(got);
  if (want == got)
    return true;
  return fabs(want - got) <= t.atol + t.rtol * fabs(want);
}
static bool complex_close(double wr, double wi, double gr, double gi, cli_tolerance t)
{
  if ((wr == gr || (isnan(wr) && isnan(gr))) && (wi == gi || (isnan(wi) && isnan(gi))))
    return true;
  return hypot(wr - gr, wi - gi) <= t.atol + t.rtol * hypot(wr, wi);
}

/* -- Elements as doubles ----------------------------------------------------------------------- */

static double half(uint16_t h)
{
  int exponent = h >> 10 & 31, mantissa = h & 1023;
  double v = exponent == 31  ? (mantissa ? NAN : INFINITY)
             : exponent == 0 ? ldexp(mantissa, -24)
                             : ldexp(mantissa + 1024, exponent - 25);
  return h >> 15 ? -v : v;
}
static double bfloat(uint16_t h)
{
  uint32_t u = (uint32_t)h << 16;
  float f;

  memcpy(&f, &u, 4);
  return f;
}
static double element_as_double(rush_dtype d, const char *p)
{
  float f;
  double x;
  uint16_t h;

  switch (d) {
  case RUSH_FLOAT32:
    memcpy(&f, p, 4);
    return f;
  case RUSH_FLOAT64:
    memcpy(&x, p, 8);
    return x;
  case RUSH_FLOAT16:
    memcpy(&h, p, 2);
    return half(h);
  case RUSH_BFLOAT16:
    memcpy(&h, p, 2);
    return bfloat(h);
  default:
    return 0;
  }
}

/* Element i as a complex number; `part` is the dtype of its parts. */
typedef struct number {
  double re, im;
} number;

static rush_dtype part_of(rush_dtype d)
{
  return d == RUSH_COMPLEX64 ? RUSH_FLOAT32 : d == RUSH_COMPLEX128 ? RUSH_FLOAT64 : d;
}

static number number_at(rush_dtype d, const char *data, int64_t i)
{
  const rush_dtype part = part_of(d);
  const char *p = data + (size_t)i * rush_dtype_bytes(d);

  return (number){element_as_double(part, p),
                  part == d ? 0 : element_as_double(part, p + rush_dtype_bytes(part))};
}

static double gap_of(number want, number got)
{
  const double gap = hypot(want.re - got.re, want.im - got.im);

  if (complex_close(want.re, want.im, got.re, got.im, (cli_tolerance){0, 0}))
    return 0;
  return isnan(gap) ? INFINITY : gap;
}

/* The largest difference of two tensors. */
typedef struct worst {
  double gap;
  int64_t at;
  number want, got;
} worst;

static bool tensors_close(rush_dtype d, const char *w, const char *g, int64_t n, cli_tolerance t,
                          worst *most)
{
  bool ok = true;

  *most = (worst){0};
  for (int64_t i = 0; i < n; i++) {
    const number want = number_at(d, w, i), got = number_at(d, g, i);
    const double gap = gap_of(want, got);
    ok &= part_of(d) == d ? close_enough(want.re, got.re, t)
                          : complex_close(want.re, want.im, got.re, got.im, t);
    if (gap > most->gap)
      *most = (worst){gap, i, want, got};
  }
  return ok;
}

static bool is_inexact(rush_dtype d)
{
  return d == RUSH_FLOAT16 || d == RUSH_FLOAT32 || d == RUSH_FLOAT64 || d == RUSH_BFLOAT16 ||
         d == RUSH_COMPLEX64 || d == RUSH_COMPLEX128;
}

/* -- Tolerances -------------------------------------------------------------------------------- */

/* Return the largest finite number in a contiguous tensor. */
static double magnitude(rush_dtype d, const char *data, int64_t n)
{
  double most = 0;

  for (int64_t i = 0; i < n; i++) {
    const number v = number_at(d, data, i);
    const double size = hypot(v.re, v.im);
    most = isfinite(size) && size > most ? size : most;
  }
  return most;
}

/* Return the tolerance.  Small elements of a tensor are as uncertain as its largest one: they are
 * sums of such products. */
static cli_tolerance tolerance_for(rush_dtype d, double largest)
{
  const double rtol = d == RUSH_FLOAT16            ? 1e-3
                      : d == RUSH_BFLOAT16         ? 1.6e-2
                      : part_of(d) == RUSH_FLOAT64 ? 1e-7
                                                   : 1e-5;

  return (cli_tolerance){rtol, rtol * largest};
}

cli_tolerance cli_tolerance_of(rush_value leaf)
{
  rush_value flat;
  double re, im;

  if (leaf.tag == RUSH_TAG_FLOAT)
    return tolerance_for(RUSH_FLOAT64, isfinite(leaf.as.d) ? fabs(leaf.as.d) : 0);
  if (leaf.tag == RUSH_TAG_COMPLEX) {
    rush_value_complex(leaf, &re, &im);
    return tolerance_for(RUSH_FLOAT64, isfinite(hypot(re, im)) ? hypot(re, im) : 0);
  }
  const rush_dtype d = rush_tensor_dtype(leaf.as.tensor);
  if (rush_tensor_contiguous(NULL, leaf.as.tensor, &flat, NULL) != RUSH_OK)
    return (cli_tolerance){0, 0};
  const double most =
    magnitude(d, rush_tensor_data(flat.as.tensor), rush_tensor_n_elems(leaf.as.tensor));
  rush_value_release(flat);
  return tolerance_for(d, most);
}

static cli_tolerance next_tolerance(cli_tolerances *t, rush_value want)
{
  if (t->is_exact)
    return (cli_tolerance){0, 0};
  if (t->given)
    return *t->given;
  if (t->list.tag != RUSH_TAG_LIST || t->next >= rush_value_len(t->list))
    return cli_tolerance_of(want);
  rush_value pair = rush_value_item(t->list, t->next++);
  return (cli_tolerance){rush_value_item(pair, 0).as.d, rush_value_item(pair, 1).as.d};
}

bool cli_has_tolerance(rush_value leaf)
{
  return leaf.tag == RUSH_TAG_FLOAT || leaf.tag == RUSH_TAG_COMPLEX ||
         (leaf.tag == RUSH_TAG_TENSOR && leaf.as.tensor &&
          is_inexact(rush_tensor_dtype(leaf.as.tensor)));
}

static void note_gap(cli_tolerances *t, double gap, const char *where, const char *index)
{
  if (gap <= t->gap)
    return;
  t->gap = gap;
  snprintf(t->at, sizeof t->at, "%.100s%.100s", where, index);
}

/* -- Values ------------------------------------------------------------------------------------ */

/* Print "[0, 3]", the index of element i. */
static void index_text(const rush_tensor *t, int64_t i, char *out, size_t size)
{
  const int n_dims = rush_tensor_n_dims(t);
  const int64_t *sizes = rush_tensor_sizes(t);
  int64_t below = rush_tensor_n_elems(t);
  size_t n = (size_t)snprintf(out, size, "[");

  for (int dim = 0; dim < n_dims && n < size; dim++) {
    below /= sizes[dim];
    n += (size_t)snprintf(out + n, size - n, "%s%lld", dim ? ", " : "", (long long)(i / below));
    i %= below;
  }
  if (n < size)
    snprintf(out + n, size - n, "]");
}

static void number_text(rush_dtype d, number v, char *out, size_t size)
{
  if (part_of(d) == d)
    snprintf(out, size, "%.9g", v.re);
  else
    snprintf(out, size, "%.9g%+.9gj", v.re, v.im);
}

static void shape_text(const rush_tensor *t, char *out, size_t size)
{
  size_t n = (size_t)snprintf(out, size, "%s[", rush_dtype_name(rush_tensor_dtype(t)));

  for (int i = 0; i < rush_tensor_n_dims(t) && n < size; i++)
    n += (size_t)snprintf(out + n, size - n, "%s%lld", i ? ", " : "",
                          (long long)rush_tensor_sizes(t)[i]);
  if (n < size)
    snprintf(out + n, size - n, "]");
}

static const char *layout_text(const rush_tensor *t)
{
  static const char *const names[] = {"dense", "torch.sparse_coo", "torch.sparse_csr"};

  return names[rush_tensor_layout(t)];
}

/* Get all elements in row-major order; new. */
static rush_status elements_of(rush_value v, rush_value *out)
{
  size_t n;

  return rush_tensor_layout(v.as.tensor) == 0
           ? rush_tensor_contiguous(NULL, v.as.tensor, out, NULL)
           : rush_op_call(NULL, "aten::to_dense", &v, 1, NULL, 0, out, 1, &n, NULL);
}

static bool same_tensor(rush_value want, rush_value got, cli_tolerances *tolerances,
                        const char *where, char *why, size_t size)
{
  rush_tensor *w = want.as.tensor, *g = got.as.tensor;
  rush_dtype d = rush_tensor_dtype(w);
  int n = rush_tensor_n_dims(w);
  rush_value wc, gc;
  char a[80], b[80];
  bool ok;

  if (d != rush_tensor_dtype(g) || n != rush_tensor_n_dims(g) ||
      memcmp(rush_tensor_sizes(w), rush_tensor_sizes(g), sizeof(int64_t) * (size_t)n) != 0) {
    shape_text(w, a, sizeof a);
    shape_text(g, b, sizeof b);
    snprintf(why, size, "%s: %s, not %s", where, b, a);
    return false;
  }
  if (rush_tensor_layout(w) != rush_tensor_layout(g)) {
    snprintf(why, size, "%s: a %s tensor, not a %s one", where, layout_text(g), layout_text(w));
    return false;
  }
  if (elements_of(want, &wc) != RUSH_OK) {
    snprintf(why, size, "%s: out of memory", where);
    return false;
  }
  if (elements_of(got, &gc) != RUSH_OK) {
    rush_value_release(wc);
    snprintf(why, size, "%s: out of memory", where);
    return false;
  }
  cli_tolerance t = is_inexact(d) ? next_tolerance(tolerances, want) : (cli_tolerance){0, 0};
  worst most = {0};
  const char *wp = rush_tensor_data(wc.as.tensor), *gp = rush_tensor_data(gc.as.tensor);
  int64_t elems = rush_tensor_n_elems(w);
  if (is_inexact(d))
    ok = tensors_close(d, wp, gp, elems, t, &most);
  else
    ok = elems == 0 || memcmp(wp, gp, (size_t)elems * rush_dtype_bytes(d)) == 0;
  char at[120] = "", wanted[64], found[64];
  if (most.gap > 0)
    index_text(w, most.at, at, sizeof at);
  note_gap(tolerances, most.gap, where, at);
  number_text(d, most.got, found, sizeof found);
  number_text(d, most.want, wanted, sizeof wanted);
  if (!ok && is_inexact(d))
    snprintf(why, size, "%s: values differ by up to %.3g, at %s: %s, not %s (rtol %.1e, atol %.1e)",
             where, most.gap, at, found, wanted, t.rtol, t.atol);
  else if (!ok)
    snprintf(why, size, "%s: different %s values", where, rush_dtype_name(d));
  rush_value_release(wc);
  rush_value_release(gc);
  return ok;
}

static bool same_items(rush_value want, rush_value got, cli_tolerances *t, const char *where,
                       char *why, size_t size)
{
  size_t n = rush_value_len(want);
  char path[256];

  if (n != rush_value_len(got)) {
    snprintf(why, size, "%s: %zu elements, not %zu", where, rush_value_len(got), n);
    return false;
  }
  for (size_t i = 0; i < n; i++) {
    snprintf(path, sizeof path, "%.200s[%zu]", where, i);
    if (!cli_same(rush_value_item(want, i), rush_value_item(got, i), t, path, why, size))
      return false;
  }
  return true;
}

static bool same_dict(rush_value want, rush_value got, cli_tolerances *t, const char *where,
                      char *why, size_t size)
{
  size_t n = rush_value_len(want);
  cli_tolerances none = {.is_exact = true};
  char path[256], ignored[300];

  if (n != rush_value_len(got)) {
    snprintf(why, size, "%s: %zu keys, not %zu", where, rush_value_len(got), n);
    return false;
  }
  for (size_t i = 0; i < n; i++) {
    rush_value wk, wv, gk, gv;
    rush_value_entry(want, i, &wk, &wv);
    rush_value_entry(got, i, &gk, &gv);
    snprintf(path, sizeof path, "%.200s[%zu]", where, i);
    if (!cli_same(wk, gk, &none, path, ignored, sizeof ignored)) {
      snprintf(why, size, "%s: another key at place %zu", where, i);
      return false;
    }
    if (!cli_same(wv, gv, t, path, why, size))
      return false;
  }
  return true;
}

bool cli_same(rush_value want, rush_value got, cli_tolerances *t, const char *where, char *why,
              size_t size)
{
  double wr, wi, gr, gi;
  bool ok = true;
  size_t n, m;

  if (want.tag != got.tag) {
    snprintf(why, size, "%s: a %s, not a %s", where, tag_name(got), tag_name(want));
    return false;
  }
  switch ((rush_tag)want.tag) {
  case RUSH_TAG_TENSOR:
    return same_tensor(want, got, t, where, why, size);
  case RUSH_TAG_LIST:
  case RUSH_TAG_TUPLE:
    return same_items(want, got, t, where, why, size);
  case RUSH_TAG_DICT:
    return same_dict(want, got, t, where, why, size);
  case RUSH_TAG_FLOAT:
    ok = close_enough(want.as.d, got.as.d, next_tolerance(t, want));
    note_gap(t, gap_of((number){want.as.d, 0}, (number){got.as.d, 0}), where, "");
    if (!ok)
      snprintf(why, size, "%s: %.17g, not %.17g", where, got.as.d, want.as.d);
    return ok;
  case RUSH_TAG_COMPLEX:
    rush_value_complex(want, &wr, &wi);
    rush_value_complex(got, &gr, &gi);
    ok = complex_close(wr, wi, gr, gi, next_tolerance(t, want));
    note_gap(t, gap_of((number){wr, wi}, (number){gr, gi}), where, "");
    break;
  case RUSH_TAG_BOOL:
    ok = want.as.b == got.as.b;
    break;
  case RUSH_TAG_INT:
    ok = want.as.i == got.as.i;
    break;
  case RUSH_TAG_STRING: {
    const char *a = rush_value_string(want, &n), *b = rush_value_string(got, &m);
    ok = n == m && memcmp(a, b, n) == 0;
    if (!ok)
      snprintf(why, size, "%s: '%.60s', not '%.60s'", where, b, a);
    return ok;
  }
  default:
    break; /* None */
  }
  if (!ok)
    snprintf(why, size, "%s: another %s", where, tag_name(want));
  return ok;
}

/* -- Options ----------------------------------------------------------------------------------- */

static bool parse_tolerance(const char *text, double *out)
{
  char *end;

  *out = strtod(text, &end);
  return *text && !*end && *out >= 0;
}

bool cli_take_tolerances(cli *c, const char *verb, int *code)
{
  const char *rtol = cli_option(c, "--rtol"), *atol = cli_option(c, "--atol");

  if ((rtol && !parse_tolerance(rtol, &c->tolerance.rtol)) ||
      (atol && !parse_tolerance(atol, &c->tolerance.atol))) {
    *code = cli_usage(verb, "--rtol and --atol take numbers that are not negative");
    return false;
  }
  c->tolerances = rtol || atol ? &c->tolerance : NULL;
  return true;
}
