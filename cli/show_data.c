/* show_data.c -- `show` for files of plain data (safetensors, npy, npz, torch.save): every
 * tensor by name, its dtype and shape, and statistics of its elements; other values as Python
 * writes them. */
#include "show_data.h"

#include <math.h>
#include <string.h>

#define NAME_BYTES 512
#define MOST_DEPTH 64
#define MOST_VALUES 100000 /* tensors, numbers and containers */

typedef struct shower {
  cli *c;
  rush_error *err;
  size_t n_tensors, n_rows, n_met; /* n_met: of values, containers too */
  bool is_cut;                     /* some are not shown */
  uint64_t n_elems, n_bytes;
} shower;

typedef struct statistics {
  bool known;
  double min, max, mean, std;
  int64_t n_nan;
} statistics;

/* Compute one number of a tensor, by an operator of the table. */
static bool compute_number(shower *s, const char *op, rush_value t, double *out)
{
  rush_value made, args[2] = {t, rush_value_int(RUSH_FLOAT64)}, wide;
  size_t n;

  if (rush_op_call(s->c->context, op, &t, 1, NULL, 0, &made, 1, &n, s->err) != RUSH_OK)
    return false;
  args[0] = made;
  const rush_status st =
    rush_op_call(s->c->context, "aten::to.dtype", args, 2, NULL, 0, &wide, 1, &n, s->err);
  rush_value_release(made);
  if (st != RUSH_OK)
    return false;
  *out = *(const double *)rush_tensor_data(wide.as.tensor);
  rush_value_release(wide);
  return true;
}

static bool is_countable(rush_dtype d)
{
  return d <= RUSH_FLOAT64 || d == RUSH_BOOL || d == RUSH_BFLOAT16 ||
         (d >= RUSH_FLOAT8_E5M2 && d <= RUSH_UINT64);
}

static bool measure_statistics(shower *s, rush_value v, statistics *out);

/* Compute the statistics of a sparse tensor: those of its values. */
static bool measure_values(shower *s, rush_value v, statistics *out)
{
  rush_value values;
  size_t n;

  if (rush_op_call(s->c->context,
                   rush_tensor_layout(v.as.tensor) == 1 ? "aten::_values" : "aten::values", &v, 1,
                   NULL, 0, &values, 1, &n, s->err) != RUSH_OK)
    return false;
  const bool ok = measure_statistics(s, values, out);
  rush_value_release(values);
  return ok;
}

/* Compute statistics of the elements in double precision; unknown if they have no order, or there
 * are none. */
static bool measure_statistics(shower *s, rush_value v, statistics *out)
{
  rush_value args[2] = {v, rush_value_int(RUSH_FLOAT64)}, wide, nan;
  double n_nan = 0;
  size_t n;

  if (rush_tensor_layout(v.as.tensor) != 0)
    return measure_values(s, v, out);
  if (!is_countable(rush_tensor_dtype(v.as.tensor)) || rush_tensor_n_elems(v.as.tensor) == 0)
    return true;
  if (rush_op_call(s->c->context, "aten::to.dtype", args, 2, NULL, 0, &wide, 1, &n, s->err) !=
      RUSH_OK)
    return false;
  bool ok = compute_number(s, "aten::min", wide, &out->min) &&
            compute_number(s, "aten::max", wide, &out->max) &&
            compute_number(s, "aten::mean", wide, &out->mean);
  out->std = NAN;
  if (ok && rush_tensor_n_elems(v.as.tensor) > 1)
    ok = compute_number(s, "aten::std", wide, &out->std);
  if (ok && isnan(out->mean)) {
    ok =
      rush_op_call(s->c->context, "aten::isnan", &wide, 1, NULL, 0, &nan, 1, &n, s->err) == RUSH_OK;
    ok = ok && (compute_number(s, "aten::sum", nan, &n_nan), true);
    if (ok)
      rush_value_release(nan);
  }
  rush_value_release(wide);
  out->n_nan = (int64_t)n_nan;
  out->known = ok;
  return ok;
}

static void put_number(const char *key, double d)
{
  if (isfinite(d))
    printf(", \"%s\": %.9g", key, d);
  else
    printf(", \"%s\": null", key);
}

static void put_row(const shower *s, const char *name, const rush_tensor *t, const statistics *st)
{
  char shape[256];
  size_t n = 0;

  for (int i = 0; i < rush_tensor_n_dims(t) && n < sizeof shape - 24; i++)
    n += (size_t)snprintf(shape + n, sizeof shape - n, "%s%lld", i ? ", " : "",
                          (long long)rush_tensor_sizes(t)[i]);
  shape[n] = 0;
  if (s->c->json) {
    printf("%s{\"name\": ", s->n_rows ? ", " : "");
    cli_json_text(stdout, name);
    printf(", \"dtype\": \"%s\", \"shape\": [%s]", rush_dtype_name(rush_tensor_dtype(t)), shape);
    if (st->known) {
      put_number("min", st->min);
      put_number("max", st->max);
      put_number("mean", st->mean);
      put_number("std", st->std);
      printf(", \"n_nan\": %lld", (long long)st->n_nan);
    }
    putchar('}');
    return;
  }
  static const char *const layouts[] = {"", "sparse_coo ", "sparse_csr "};
  printf("  %-40s %s%s[%s]", name, layouts[rush_tensor_layout(t)],
         rush_dtype_name(rush_tensor_dtype(t)), shape);
  if (st->known && st->n_nan)
    printf("  %lld of %lld are NaN", (long long)st->n_nan, (long long)rush_tensor_n_elems(t));
  else if (st->known)
    printf("  %.4g to %.4g, mean %.4g, std %.4g", st->min, st->max, st->mean, st->std);
  putchar('\n');
}

static bool put_tensor(shower *s, const char *name, rush_value v)
{
  statistics st = {.known = false};

  if (!measure_statistics(s, v, &st))
    return false;
  put_row(s, name, v.as.tensor, &st);
  s->n_rows++;
  s->n_tensors++;
  s->n_elems += (uint64_t)rush_tensor_n_elems(v.as.tensor);
  s->n_bytes +=
    (uint64_t)rush_tensor_n_elems(v.as.tensor) * rush_dtype_bytes(rush_tensor_dtype(v.as.tensor));
  return true;
}

static bool put_other(shower *s, const char *name, rush_value v)
{
  char *text;

  if (rush_value_to_text(s->c->context, v, true, &text, s->err) != RUSH_OK)
    return false;
  if (s->c->json) {
    printf("%s{\"name\": ", s->n_rows ? ", " : "");
    cli_json_text(stdout, name);
    printf(", \"value\": ");
    cli_json_text(stdout, text);
    putchar('}');
  } else {
    printf("  %-40s %.100s\n", name, text);
  }
  s->n_rows++;
  rush_free_text(s->c->context, text);
  return true;
}

static bool put_value(shower *s, const char *name, rush_value v, int depth);

/* Print item `key` of the value `name`. */
static bool put_item(shower *s, const char *name, const char *key, rush_value v, int depth)
{
  char path[NAME_BYTES];

  snprintf(path, sizeof path, "%s%s%s", name, *name ? "." : "", key);
  return put_value(s, path, v, depth + 1);
}

static bool is_container(rush_value v)
{
  return v.tag == RUSH_TAG_DICT || v.tag == RUSH_TAG_LIST || v.tag == RUSH_TAG_TUPLE;
}

/* Bounded: a small file may hold a value with 2^40 parts: lists that hold the one before twice. */
static bool put_value(shower *s, const char *name, rush_value v, int depth)
{
  bool ok = true;

  if (s->n_met >= MOST_VALUES || depth > MOST_DEPTH) {
    s->is_cut = true;
    return true;
  }
  s->n_met++;
  if (v.tag == RUSH_TAG_TENSOR && v.as.tensor)
    return put_tensor(s, *name ? name : "(the only one)", v);
  if (!is_container(v))
    return put_other(s, name, v);
  for (size_t i = 0; i < rush_value_len(v) && ok && s->n_met < MOST_VALUES; i++) {
    rush_value key = rush_value_int((int64_t)i), value;
    char *text = NULL;
    if (v.tag == RUSH_TAG_DICT)
      rush_value_entry(v, i, &key, &value);
    else
      value = rush_value_item(v, i);
    ok = rush_value_to_text(s->c->context, key, false, &text, s->err) == RUSH_OK &&
         put_item(s, name, text, value, depth);
    rush_free_text(s->c->context, text);
  }
  s->is_cut |= s->n_met >= MOST_VALUES;
  return ok;
}

bool show_data(cli *c, const char *path, int *code)
{
  rush_error err = RUSH_ERROR_INIT;
  shower s = {.c = c, .err = &err};
  rush_value v;

  if (rush_value_load_with(c->context, path, &c->load, &v, &err) != RUSH_OK) {
    rush_error_clear(&err);
    return false;
  }
  printf(c->json ? "{\"format\": \"data\", \"values\": [" : "plain data, no program\n");
  *code = put_value(&s, "", v, 0) ? EXIT_OK : cli_report(c, &err);
  if (*code == EXIT_OK && c->json)
    printf("], \"complete\": %s}\n", s.is_cut ? "false" : "true");
  if (*code == EXIT_OK && !c->json && s.is_cut)
    printf("  ... and more: at most %d values are shown, and %d levels of containers\n",
           MOST_VALUES, MOST_DEPTH);
  if (*code == EXIT_OK && !c->json)
    printf("  in all %zu tensors, %llu elements, %llu bytes\n", s.n_tensors,
           (unsigned long long)s.n_elems, (unsigned long long)s.n_bytes);
  rush_value_release(v);
  return true;
}
