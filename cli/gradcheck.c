/* gradcheck.c -- rushlight gradcheck: compares the gradients of a call with differences of its
 * result.
 *
 * Floating-point inputs, parameters and buffers become float64.  The result's floating-point
 * elements are added with weights that depend on their position (a plain sum would hide errors
 * that cancel), and the sum is differentiated twice: by the records of one call, and by central
 * differences, (f(x + e) - f(x - e)) / 2e, as torch.autograd.gradcheck does, with its e and
 * tolerances.  Of large tensors, elements at equal distances are perturbed: each costs two calls.
 * Every call starts with the same random numbers and the same buffers. */
#include "call.h"

#include <math.h>
#include <stdlib.h>
#include <string.h>

#define STEP 1e-6
#define DEFAULT_SAMPLES 20

/* A tensor with respect to which the result is differentiated. */
typedef struct checked {
  char name[96];
  rush_value tensor, gradient; /* new; contiguous float64; gradient may be None: zeros */
  size_t n_checked;
  double worst, numeric, analytic; /* the largest difference over its tolerance */
  size_t at;                       /* the element of `worst` */
  bool is_wrong;
} checked;

/* A buffer of the module and its value before the first call; both new. */
typedef struct kept {
  char *name;
  rush_value before;
} kept;

typedef struct gradcheck {
  cli *c;
  rush_module *m;
  call_args *a;
  rush_error *err;
  cli_tolerance tolerance;
  size_t samples, n_tensors, n_kept, n_outputs;
  checked *tensors; /* of malloc, like kept and outputs */
  kept *kept;
  rush_value *outputs; /* floating-point tensors of the result, borrowed from it */
  rush_value result;
} gradcheck;

/* -- float64 ----------------------------------------------------------------------------------- */

static bool is_float_tensor(rush_value v)
{
  const rush_dtype d = v.tag == RUSH_TAG_TENSOR && v.as.tensor ? rush_tensor_dtype(v.as.tensor)
                                                               : RUSH_BOOL;
  return d == RUSH_FLOAT32 || d == RUSH_FLOAT64 || d == RUSH_FLOAT16 || d == RUSH_BFLOAT16;
}

/* Make a contiguous copy of a tensor as float64; *out is new and a leaf. */
static rush_status as_double(gradcheck *g, rush_value v, rush_value *out)
{
  const rush_value args[] = {v, rush_value_int(RUSH_FLOAT64), rush_value_bool(false),
                             rush_value_bool(true), rush_value_int(0)};
  size_t n;
  return rush_op_call(g->c->context, "aten::to.dtype", args, 5, NULL, 0, out, 1, &n, g->err);
}

/* Replace a module's floating-point parameters and buffers by float64 ones. */
static rush_status object_to_double(gradcheck *g, rush_value object)
{
  rush_status st = RUSH_OK;
  for (size_t i = 0; i < rush_object_n_attrs(object) && st == RUSH_OK; i++) {
    const unsigned kind = rush_object_slot_kind(object, i);
    const char *name = rush_object_attr_name(object, i);
    rush_value v = kind ? rush_object_attr(object, name) : rush_value_none(), made;
    if (kind & RUSH_SLOT_MODULE)
      st = object_to_double(g, v);
    else if (is_float_tensor(v) && rush_tensor_dtype(v.as.tensor) != RUSH_FLOAT64 &&
             (st = as_double(g, v, &made)) == RUSH_OK) {
      rush_tensor_set_requires_grad(made.as.tensor, rush_tensor_requires_grad(v.as.tensor));
      st = rush_object_set_attr(g->c->context, object, name, made, g->err);
      rush_value_release(made);
    }
    rush_value_release(v);
  }
  return st;
}

/* -- What is checked --------------------------------------------------------------------------- */

/* Add a leaf to the tensors that are checked; steals v. */
static void add_checked_steal(gradcheck *g, const char *name, rush_value v)
{
  checked *t = &g->tensors[g->n_tensors++];
  snprintf(t->name, sizeof t->name, "%s", name);
  t->tensor = v;
  t->gradient = rush_value_none();
  rush_tensor_set_requires_grad(v.as.tensor, true);
}

/* Make an input float64, and check it; other inputs are constants. */
static rush_status add_input(gradcheck *g, const char *name, rush_value *v)
{
  rush_value made;
  rush_status st = RUSH_OK;
  if (!is_float_tensor(*v) || (st = as_double(g, *v, &made)) != RUSH_OK)
    return st;
  rush_value_release(*v);
  *v = made;
  add_checked_steal(g, name, rush_value_retain(made));
  return RUSH_OK;
}

static rush_status add_inputs(gradcheck *g)
{
  char name[32];
  rush_status st = RUSH_OK;
  for (size_t i = 0; i < g->a->n_args && st == RUSH_OK; i++) {
    snprintf(name, sizeof name, "input %zu", i);
    st = add_input(g, name, &g->a->args[i]);
  }
  for (size_t i = 0; i < g->a->n_named && st == RUSH_OK; i++)
    st = add_input(g, g->a->named[i].name, &g->a->named[i].value);
  return st;
}

/* Add parameters that require grad; keep the values of buffers. */
static rush_status add_state(gradcheck *g)
{
  rush_status st = RUSH_OK;
  for (size_t i = 0; i < rush_module_n_state(g->m) && st == RUSH_OK; i++) {
    bool is_parameter;
    char *name;
    rush_value v;
    st = rush_module_state_at(g->m, i, &name, &is_parameter, &v, g->err);
    if (st != RUSH_OK)
      break;
    if (is_parameter && is_float_tensor(v) && rush_tensor_requires_grad(v.as.tensor)) {
      add_checked_steal(g, name, rush_value_retain(v));
    } else if (!is_parameter && v.tag == RUSH_TAG_TENSOR) {
      kept *k = &g->kept[g->n_kept];
      size_t n;
      st = rush_op_call(g->c->context, "aten::clone", &v, 1, NULL, 0, &k->before, 1, &n, g->err);
      if (st == RUSH_OK) {
        g->n_kept++;
        k->name = name;
        name = NULL;
      }
    }
    rush_free_text(g->c->context, name);
    rush_value_release(v);
  }
  return st;
}

/* -- Calls ------------------------------------------------------------------------------------- */

/* Collect the floating-point tensors of a result; with `to` NULL only count them. */
static void collect(rush_value v, rush_value *to, size_t *n)
{
  rush_value key, value;
  if (is_float_tensor(v)) {
    if (to)
      to[*n] = v;
    ++*n;
  }
  for (size_t i = 0; v.tag == RUSH_TAG_DICT && i < rush_value_len(v); i++) {
    rush_value_entry(v, i, &key, &value);
    collect(value, to, n);
  }
  for (size_t i = 0; (v.tag == RUSH_TAG_LIST || v.tag == RUSH_TAG_TUPLE) && i < rush_value_len(v);
       i++)
    collect(rush_value_item(v, i), to, n);
}

/* Call the method from the same state as every call; g->result and g->outputs are its result. */
static rush_status call(gradcheck *g, bool records)
{
  rush_call_options options = g->c->call;
  options.record_gradients = records;
  rush_value_release(g->result);
  g->result = rush_value_none();
  rush_status st = rush_manual_seed(g->c->context, g->c->seed, g->err);
  for (size_t i = 0; i < g->n_kept && st == RUSH_OK; i++)
    st = rush_module_set_state(g->m, g->kept[i].name, g->kept[i].before, g->err);
  if (st == RUSH_OK)
    st = rush_module_call_named(g->m, g->a->method, g->a->args, g->a->n_args, g->a->named,
                                g->a->n_named, &options, &g->result, g->err);
  if (st != RUSH_OK)
    return st;
  size_t n = 0;
  collect(g->result, NULL, &n);
  free(g->outputs);
  g->outputs = malloc((n + 1) * sizeof *g->outputs);
  g->n_outputs = 0;
  if (!g->outputs)
    return RUSH_ENOMEM;
  collect(g->result, g->outputs, &g->n_outputs);
  return RUSH_OK;
}

/* Return the weight of element i of all outputs: between 0.5 and 1.5, different from its
 * neighbours' (multiples of the golden ratio). */
static double weight(size_t i)
{
  const double x = (double)(i + 1) * 0.61803398874989485;
  return 0.5 + x - floor(x);
}

/* Compute the weighted sum of a call's outputs. */
static rush_status sum(gradcheck *g, double *out)
{
  size_t at = 0;
  rush_status st = call(g, false);
  *out = 0;
  for (size_t k = 0; k < g->n_outputs && st == RUSH_OK; k++) {
    rush_value x;
    if ((st = as_double(g, g->outputs[k], &x)) != RUSH_OK)
      break;
    const double *p = rush_tensor_data(x.as.tensor);
    for (int64_t i = 0; i < rush_tensor_n_elems(x.as.tensor); i++)
      *out += weight(at++) * p[i];
    rush_value_release(x);
  }
  return st;
}

/* Make the weights of an output, in its dtype; *out is new. */
static rush_status make_weights(gradcheck *g, rush_value like, size_t *at, rush_value *out)
{
  const rush_tensor *t = like.as.tensor;
  rush_value w;
  size_t n;
  rush_status st = rush_tensor_create(g->c->context, RUSH_FLOAT64, rush_tensor_n_dims(t),
                                      rush_tensor_sizes(t), &w, g->err);
  if (st != RUSH_OK)
    return st;
  double *p = rush_tensor_data_mut(w.as.tensor);
  for (int64_t i = 0; i < rush_tensor_n_elems(t); i++)
    p[i] = weight((*at)++);
  const rush_value args[] = {w, rush_value_int(rush_tensor_dtype(t)), rush_value_bool(false),
                             rush_value_bool(false), rush_value_none()};
  st = rush_op_call(g->c->context, "aten::to.dtype", args, 5, NULL, 0, out, 1, &n, g->err);
  rush_value_release(w);
  return st;
}

/* Compute the gradients of the recorded call with respect to all tensors. */
static rush_status differentiate(gradcheck *g, rush_value *rows)
{
  rush_gradient_options options = RUSH_GRADIENT_OPTIONS_INIT;
  rush_value *weights = rows, *inputs = rows + g->n_outputs, *made = inputs + g->n_tensors;
  size_t at = 0, n = 0, n_linked = 0;
  rush_status st = RUSH_OK;
  options.allow_unused = true;
  for (size_t i = 0; i < g->n_tensors; i++)
    inputs[i] = g->tensors[i].tensor;
  for (; n < g->n_outputs && st == RUSH_OK; n++) {
    rush_value w;
    if ((st = make_weights(g, g->outputs[n], &at, &w)) != RUSH_OK)
      break;
    if (!rush_tensor_requires_grad(g->outputs[n].as.tensor)) { /* depends on nothing checked */
      rush_value_release(w);
      continue;
    }
    g->outputs[n_linked] = g->outputs[n];
    weights[n_linked++] = w;
  }
  if (st == RUSH_OK && n_linked)
    st = rush_gradients(g->c->context, g->outputs, weights, n_linked, inputs, g->n_tensors,
                        &options, made, g->err);
  for (size_t i = 0; i < n_linked; i++)
    rush_value_release(weights[i]);
  for (size_t i = 0; i < g->n_tensors && st == RUSH_OK && n_linked; i++) {
    if (made[i].tag == RUSH_TAG_TENSOR && made[i].as.tensor)
      st = as_double(g, made[i], &g->tensors[i].gradient);
    rush_value_release(made[i]);
  }
  return st;
}

/* -- Comparison -------------------------------------------------------------------------------- */

/* Compare the gradients of element i of a tensor. */
static rush_status check_element(gradcheck *g, checked *t, size_t i)
{
  const double x = ((const double *)rush_tensor_data(t->tensor.as.tensor))[i];
  const double analytic =
    t->gradient.tag == RUSH_TAG_TENSOR
      ? ((const double *)rush_tensor_data(t->gradient.as.tensor))[i]
      : 0;
  double above = 0, below = 0;
  ((double *)rush_tensor_data_mut(t->tensor.as.tensor))[i] = x + STEP;
  rush_status st = sum(g, &above);
  ((double *)rush_tensor_data_mut(t->tensor.as.tensor))[i] = x - STEP;
  if (st == RUSH_OK)
    st = sum(g, &below);
  ((double *)rush_tensor_data_mut(t->tensor.as.tensor))[i] = x;
  const double numeric = (above - below) / (2 * STEP), difference = fabs(numeric - analytic);
  const double allowed = g->tolerance.atol + g->tolerance.rtol * fabs(numeric);
  const double ratio = difference <= allowed && allowed > 0 ? difference / allowed
                       : difference <= allowed              ? 0
                                                            : fmax(2, difference / allowed);
  if (t->n_checked++ == 0 || !(ratio <= t->worst)) { /* a NaN is the worst */
    t->worst = ratio;
    t->numeric = numeric;
    t->analytic = analytic;
    t->at = i;
  }
  t->is_wrong = t->is_wrong || !(difference <= allowed);
  return st;
}

static rush_status check_tensor(gradcheck *g, checked *t)
{
  const size_t n = (size_t)rush_tensor_n_elems(t->tensor.as.tensor),
               steps = n < g->samples ? n : g->samples;
  rush_status st = RUSH_OK;
  for (size_t k = 0; k < steps && st == RUSH_OK; k++)
    st = check_element(g, t, (size_t)((double)k / (double)steps * (double)n));
  return st;
}

/* -- Printing ---------------------------------------------------------------------------------- */

/* Print "[2, 0, 1]", the position of an element. */
static void print_index(const checked *t, size_t at)
{
  const rush_tensor *x = t->tensor.as.tensor;
  const int64_t *sizes = rush_tensor_sizes(x);
  int64_t left = rush_tensor_n_elems(x);
  printf("[");
  for (int d = 0; d < rush_tensor_n_dims(x); d++) {
    left /= sizes[d];
    printf("%s%lld", d ? ", " : "", (long long)((int64_t)at / left % sizes[d]));
  }
  printf("]");
}

static void print_tensor(const gradcheck *g, const checked *t)
{
  const rush_tensor *x = t->tensor.as.tensor;
  const double difference = fabs(t->numeric - t->analytic);
  if (g->c->json) {
    printf("{\"name\": ");
    cli_json_text(stdout, t->name);
    printf(", \"elements\": %lld, \"checked\": %zu, \"ok\": %s", (long long)rush_tensor_n_elems(x),
           t->n_checked, t->is_wrong ? "false" : "true");
    if (t->n_checked) {
      printf(", \"worst\": {\"index\": ");
      print_index(t, t->at);
      rush_error err = RUSH_ERROR_INIT;
      const double numbers[] = {t->numeric, t->analytic, difference};
      static const char *const names[] = {"numeric", "analytic", "difference"};
      for (int i = 0; i < 3; i++) {
        printf(", \"%s\": ", names[i]);
        (void)cli_json_value(g->c, stdout, rush_value_float(numbers[i]), &err);
      }
      rush_error_clear(&err);
      printf("}");
    }
    printf("}\n");
    return;
  }
  printf("%-6s  %-32s  %zu of %lld elements", t->is_wrong ? "FAIL" : "ok", t->name, t->n_checked,
         (long long)rush_tensor_n_elems(x));
  if (t->n_checked) {
    printf(", worst at ");
    print_index(t, t->at);
    printf(": numeric %.9g, analytic %.9g", t->numeric, t->analytic);
  }
  printf("\n");
}

/* Print the last line; returns the exit code. */
static int print_summary(const gradcheck *g)
{
  size_t n_wrong = 0, worst = 0;
  for (size_t i = 0; i < g->n_tensors; i++) {
    const checked *t = &g->tensors[i], *w = &g->tensors[worst];
    n_wrong += t->is_wrong;
    if (t->n_checked && (!w->n_checked || !(t->worst <= w->worst)))
      worst = i;
  }
  const checked *w = &g->tensors[worst];
  if (g->c->json) {
    printf("{\"passed\": %zu, \"failed\": %zu}\n", g->n_tensors - n_wrong, n_wrong);
  } else {
    printf("%zu passed, %zu failed", g->n_tensors - n_wrong, n_wrong);
    if (w->n_checked) {
      printf("; worst: %s", w->name);
      print_index(w, w->at);
      printf(", a difference of %.3g", fabs(w->numeric - w->analytic));
    }
    printf("\n");
  }
  return n_wrong ? EXIT_NEGATIVE : EXIT_OK;
}

/* -- The verb ---------------------------------------------------------------------------------- */

/* Refuse what cannot be checked; returns false after printing the reason. */
static bool can_check(gradcheck *g, int *code)
{
  *code = EXIT_OK;
  if (g->n_outputs == 0)
    *code = cli_usage("gradcheck", "%s returns no floating-point tensor: expected one to "
                      "differentiate", g->a->method);
  else if (g->n_tensors == 0)
    *code = cli_usage("gradcheck", "there is nothing to differentiate by: expected a parameter "
                      "that requires grad or a floating-point tensor among the arguments");
  return *code == EXIT_OK;
}

static rush_status prepare(gradcheck *g)
{
  const size_t n_state = rush_module_n_state(g->m);
  rush_status st = RUSH_OK;
  g->tensors = calloc(g->a->n_args + g->a->n_named + n_state + 1, sizeof *g->tensors);
  g->kept = calloc(n_state + 1, sizeof *g->kept);
  if (!g->tensors || !g->kept)
    return RUSH_ENOMEM;
  if (rush_module_format(g->m) != RUSH_FORMAT_EXPORT)
    st = object_to_double(g, rush_module_value(g->m));
  if (st == RUSH_OK)
    st = add_inputs(g);
  return st == RUSH_OK ? add_state(g) : st;
}

/* Check an open model; returns the exit code. */
static int run(gradcheck *g)
{
  int code;
  rush_status st = prepare(g);
  if (st == RUSH_OK)
    st = call(g, true);
  if (st == RUSH_OK && !can_check(g, &code))
    return code;
  rush_value *rows = malloc((g->n_outputs + 2 * g->n_tensors + 1) * sizeof *rows);
  if (st == RUSH_OK)
    st = rows ? differentiate(g, rows) : RUSH_ENOMEM;
  free(rows);
  progress p;
  progress_begin(&p);
  for (size_t i = 0; i < g->n_tensors && st == RUSH_OK; i++) {
    progress_show(&p, i, g->n_tensors, g->tensors[i].name);
    st = check_tensor(g, &g->tensors[i]);
  }
  progress_end(&p);
  if (st != RUSH_OK) {
    g->err->status = st;
    return cli_report(g->c, g->err);
  }
  for (size_t i = 0; i < g->n_tensors; i++)
    print_tensor(g, &g->tensors[i]);
  return print_summary(g);
}

static void release(gradcheck *g)
{
  for (size_t i = 0; g->tensors && i < g->n_tensors; i++) {
    rush_value_release(g->tensors[i].tensor);
    rush_value_release(g->tensors[i].gradient);
  }
  for (size_t i = 0; g->kept && i < g->n_kept; i++) {
    rush_free_text(g->c->context, g->kept[i].name);
    rush_value_release(g->kept[i].before);
  }
  rush_value_release(g->result);
  free(g->tensors);
  free(g->kept);
  free(g->outputs);
}

/* An exported program's dtypes are part of its graph: refuse one that is not float64. */
static bool is_precise(const gradcheck *g, const char *model, int *code)
{
  rush_error err = RUSH_ERROR_INIT;
  bool precise = true;
  for (size_t i = 0;
       rush_module_format(g->m) == RUSH_FORMAT_EXPORT && i < rush_module_n_state(g->m); i++) {
    rush_value v;
    if (rush_module_state_at(g->m, i, NULL, NULL, &v, &err) != RUSH_OK) {
      *code = cli_report(g->c, &err);
      return false;
    }
    precise = precise && (!is_float_tensor(v) || rush_tensor_dtype(v.as.tensor) == RUSH_FLOAT64);
    rush_value_release(v);
  }
  if (!precise)
    *code = cli_usage("gradcheck", "%s: expected an exported program of float64 tensors, because "
                      "its dtypes are part of its graph: export the model after .double()", model);
  return precise;
}

int cli_gradcheck(cli *c)
{
  const char *samples = cli_option(c, "--samples");
  rush_error err = RUSH_ERROR_INIT;
  gradcheck g = {.c = c, .err = &err, .samples = DEFAULT_SAMPLES};
  call_args a;
  char *end = NULL;
  int code;

  if (!cli_take_tolerances(c, "gradcheck", &code))
    return code;
  g.tolerance = c->tolerances ? *c->tolerances : (cli_tolerance){.rtol = 1e-3, .atol = 1e-5};
  if (samples && ((g.samples = strtoul(samples, &end, 10)) == 0 || *end || *samples == '-'))
    return cli_usage("gradcheck", "--samples takes a number from 1, not '%s'", samples);
  if (c->argc < 1)
    return cli_usage("gradcheck", "takes a model file");
  const char *model = c->argv[0];
  if (!call_parse(c, "gradcheck", &a, &code))
    return code;
  g.a = &a;
  if (!cli_load(c, model, &g.m, &err)) {
    call_free(&a);
    return cli_report(c, &err);
  }
  call_default_method(model, g.m, &a);
  if (call_complete(c, "gradcheck", model, g.m, &a, &code) && is_precise(&g, model, &code))
    code = run(&g);
  release(&g);
  rush_module_release(g.m);
  call_free(&a);
  return code;
}
