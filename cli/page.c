/* page.c -- rushlight show --html: one self-contained page with the program's graphs, source,
 * weights, and (with --profile) the times of its parts.  The page's own text is in html/, which
 * html/pack.py makes into html_page.h; data from the archive is in one block of JSON without any
 * `<`, and the page's policy allows no other script. */
#include <math.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include "html_page.h"
#include "page.h"
#include "costs.h"

#define N_BINS 24
#define NAME_BYTES 512
#define MOST_DEPTH 64 /* of modules in modules */
#define MOST_ELEMENTS \
  (INT64_C(64)        \
   << 20) /* weights beyond this total are not read; why_not_measured returns the reason */

/* -- Weights ----------------------------------------------------------------------------------- */

/* Print a number; JSON has no NaN. */
static void put_number(FILE *f, double d)
{
  if (isfinite(d))
    fprintf(f, "%.6g", d);
  else
    fputs("null", f);
}

static void put_statistics(FILE *f, const float *x, int64_t n)
{
  double least = INFINITY, most = -INFINITY, sum = 0;
  size_t bins[N_BINS] = {0};
  int64_t n_finite = 0;

  for (int64_t i = 0; i < n; i++) {
    if (!isfinite(x[i]))
      continue;
    least = x[i] < least ? (double)x[i] : least;
    most = x[i] > most ? (double)x[i] : most;
    sum += (double)x[i];
    n_finite++;
  }
  fputs(", \"min\": ", f);
  put_number(f, least);
  fputs(", \"max\": ", f);
  put_number(f, most);
  fputs(", \"mean\": ", f);
  put_number(f, sum / (double)n_finite);
  fprintf(f, ", \"odd\": %lld, \"bins\": [", (long long)(n - n_finite));
  double scale = most > least ? N_BINS / (most - least) : 0;
  for (int64_t i = 0; i < n; i++)
    if (isfinite(x[i])) {
      int bin = (int)(((double)x[i] - least) * scale);
      bins[bin < N_BINS ? bin : N_BINS - 1]++;
    }
  for (int i = 0; i < N_BINS; i++)
    fprintf(f, "%s%zu", i ? "," : "", bins[i]);
  fputs("]", f);
}

/* Return the reason why a tensor has no statistics; NULL: it has. */
static const char *why_not_measured(const rush_tensor *t, int64_t budget)
{
  switch (rush_tensor_dtype(t)) {
  case RUSH_COMPLEX32:
  case RUSH_COMPLEX64:
  case RUSH_COMPLEX128:
    return "complex numbers have no order";
  default:
    break;
  }
  if (rush_tensor_n_elems(t) == 0)
    return "no elements";
  if (rush_tensor_n_elems(t) > budget)
    return "not read: beyond the first 64 Mi elements";
  return NULL;
}

/* Convert the tensor to contiguous float32; a quantized one to its real values. */
static rush_status as_floats(cli *c, rush_tensor *t, rush_value *out, rush_error *err)
{
  rush_value args[2] = {{RUSH_TAG_TENSOR, 0, {false}}, rush_value_int(RUSH_FLOAT32)}, made;
  const rush_dtype d = rush_tensor_dtype(t);
  const bool is_quantized =
    d == RUSH_QINT8 || d == RUSH_QUINT8 || d == RUSH_QINT32 || d == RUSH_QUINT4X2;
  size_t n;

  args[0].as.tensor = t;
  rush_status st =
    rush_op_call(c->context, is_quantized ? "aten::dequantize.self" : "aten::to.dtype", args,
                 is_quantized ? 1 : 2, NULL, 0, &made, 1, &n, err);
  if (st != RUSH_OK)
    return st;
  st = rush_tensor_contiguous(c->context, made.as.tensor, out, err);
  rush_value_release(made);
  return st;
}

/* Print {"min", "max", "mean", "odd", "bins"}, or {"why"}: the reason why there are none. */
static void put_measures(cli *c, FILE *f, rush_tensor *t, int64_t *budget)
{
  const char *why = why_not_measured(t, *budget);
  rush_error err = RUSH_ERROR_INIT;
  rush_value floats;

  if (!why && as_floats(c, t, &floats, &err) == RUSH_OK) {
    *budget -= rush_tensor_n_elems(t);
    put_statistics(f, rush_tensor_data(floats.as.tensor), rush_tensor_n_elems(t));
    rush_value_release(floats);
    return;
  }
  fputs(", \"why\": ", f);
  cli_json_text(f, why ? why : err.message ? err.message : "its elements cannot be read");
  rush_error_clear(&err);
}

typedef struct weight_list {
  cli *c;
  FILE *f;
  int64_t budget; /* elements that are still read */
  size_t n;       /* weights so far */
} weight_list;

static void put_weight(weight_list *l, const char *name, const char *role, rush_tensor *t)
{
  FILE *f = l->f;
  const char *dtype = rush_dtype_name(rush_tensor_dtype(t));
  int64_t n = rush_tensor_n_elems(t);

  fputs(l->n++ ? ",\n{\"name\": " : "\n{\"name\": ", f);
  cli_json_text(f, name);
  fprintf(f, ", \"dtype\": \"%s\", \"role\": \"%s\", \"shape\": [", dtype ? dtype : "?", role);
  for (int i = 0; i < rush_tensor_n_dims(t); i++)
    fprintf(f, "%s%lld", i ? "," : "", (long long)rush_tensor_sizes(t)[i]);
  fprintf(f, "], \"bytes\": %llu", (unsigned long long)n * rush_dtype_bytes(rush_tensor_dtype(t)));
  put_measures(l->c, f, t, &l->budget);
  fputs("}", f);
}

/* How to unpack the weights of a quantized module: the class of its object, and the operator. */
static const struct packing {
  const char *class_name, *unpack;
} packings[] = {
  {"LinearPackedParamsBase", "quantized::linear_unpack"},
  {"Conv2dPackedParamsBase", "quantized::conv2d_unpack"},
  {"Conv3dPackedParamsBase", "quantized::conv3d_unpack"},
  {"EmbeddingPackedParamsBase", "quantized::embedding_bag_unpack"},
};

/* Add the weights packed in `object`, as `path`.weight and `path`.bias.  Objects of other classes
 * have none. */
static void put_packed(weight_list *l, const char *path, rush_value object)
{
  const char *class_name = rush_value_class(object);
  const char *dot = class_name ? strrchr(class_name, '.') : NULL;
  char name[NAME_BYTES];
  rush_value made[2];
  size_t n = 0;

  for (size_t i = 0; dot && i < sizeof packings / sizeof *packings; i++)
    if (strcmp(dot + 1, packings[i].class_name) == 0 &&
        rush_op_call(l->c->context, packings[i].unpack, &object, 1, NULL, 0, made, 2, &n, NULL) !=
          RUSH_OK)
      n = 0;
  for (size_t i = 0; i < n; i++) {
    snprintf(name, sizeof name, "%.*s.%s", NAME_BYTES - 8, path, i ? "bias" : "weight");
    if (made[i].tag == RUSH_TAG_TENSOR && made[i].as.tensor)
      put_weight(l, name, "packed", made[i].as.tensor);
    rush_value_release(made[i]);
  }
}

/* Add the packed weights of a module and of the modules in it. */
static void put_all_packed(weight_list *l, const char *path, rush_value object, int depth)
{
  char name[NAME_BYTES];

  for (size_t i = 0; i < rush_object_n_attrs(object) && depth < MOST_DEPTH; i++) {
    const char *attr = rush_object_attr_name(object, i);
    rush_value v = rush_object_attr(object, attr);
    snprintf(name, sizeof name, "%s%s%s", path, *path ? "." : "", attr);
    if (v.tag == RUSH_TAG_OBJECT && rush_object_is_module(v))
      put_all_packed(l, name, v, depth + 1);
    else if (v.tag == RUSH_TAG_CUSTOM)
      put_packed(l, name, v);
    rush_value_release(v);
  }
}

static rush_status put_weights(cli *c, FILE *f, rush_module *m, rush_error *err)
{
  weight_list l = {.c = c, .f = f, .budget = MOST_ELEMENTS};
  size_t n = rush_module_n_state(m);
  rush_value v;
  bool is_parameter;
  char *name;

  fputs("[", f);
  for (size_t i = 0; i < n; i++) {
    rush_status st = rush_module_state_at(m, i, &name, &is_parameter, &v, err);
    if (st != RUSH_OK)
      return st;
    put_weight(&l, name, is_parameter ? "parameter" : "buffer", v.as.tensor);
    rush_free_text(c->context, name);
    rush_value_release(v);
  }
  put_all_packed(&l, "", rush_module_value(m), 0);
  fputs("]", f);
  return RUSH_OK;
}

/* -- The data ---------------------------------------------------------------------------------- */

/* Print the data between the page's halves: {"file", "version", "program", "weights",
 * "profile"}. */
static rush_status put_data(cli *c, FILE *f, rush_module *m, const char *method, const costs *r,
                            rush_error *err)
{
  const char *slash = strrchr(c->argv[0], '/');
  char *program;
  rush_status st = rush_module_dump(m, RUSH_DUMP_JSON, method, &program, err);

  if (st != RUSH_OK)
    return st;
  fputs("{\"file\": ", f);
  cli_json_text(f, slash ? slash + 1 : c->argv[0]);
  fputs(", \"version\": ", f);
  cli_json_text(f, rush_version());
  fprintf(f, ",\n\"program\": %s,\n\"weights\": ", program);
  rush_free_text(c->context, program);
  st = put_weights(c, f, m, err);
  fputs(",\n\"profile\": ", f);
  if (r)
    costs_json(f, r, true);
  else
    fputs("null", f);
  fputs("}", f);
  return st;
}

/* Escape `<`, which occurs in JSON only in strings: nothing in the data can end its block. */
static void put_escaped(FILE *f, const char *json, size_t n)
{
  for (size_t i = 0; i < n; i++) {
    if (json[i] == '<')
      fputs("\\u003c", f);
    else
      fputc(json[i], f);
  }
}

static int write_page(const char *path, const char *data, size_t n)
{
  FILE *f = path ? fopen(path, "w") : stdout;

  if (!f) {
    fprintf(stderr, "rushlight show: cannot write '%s'\n", path);
    return EXIT_REFUSED;
  }
  fwrite(html_page_head, 1, sizeof html_page_head, f);
  put_escaped(f, data, n);
  fwrite(html_page_tail, 1, sizeof html_page_tail, f);
  if (!path)
    return EXIT_OK; /* main looks after standard output */
  bool ok = !ferror(f);
  if (fclose(f) == 0 && ok)
    return EXIT_OK;
  fprintf(stderr, "rushlight show: cannot write '%s'\n", path);
  return EXIT_REFUSED;
}

int cli_page(cli *c, rush_module *m, const char *path, const call_args *profiled,
             const char *method)
{
  rush_error err = RUSH_ERROR_INIT;
  rush_status st = RUSH_OK;
  costs r = {0};
  char *data = NULL;
  size_t n = 0;
  FILE *f;

  if (profiled)
    st = costs_calls(c, m, profiled, 3, 10, 5.0, &r, &err);
  if (st != RUSH_OK)
    return cli_report(c, &err);
  f = open_memstream(&data, &n);
  if (!f) {
    costs_free(&r);
    return EXIT_LIMIT;
  }
  st = put_data(c, f, m, method, profiled ? &r : NULL, &err);
  costs_free(&r);
  int code = fclose(f) != 0  ? EXIT_LIMIT
             : st != RUSH_OK ? cli_report(c, &err)
                             : write_page(path, data, n);
  free(data);
  return code;
}
