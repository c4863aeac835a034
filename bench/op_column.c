/* One operator with complete arguments, called through the C interface in a loop: bench/ops.py
 * opens this library with ctypes.  It measures rush_op_run of an operator that was looked up once,
 * and the release of its results. */
#include <stdio.h>
#include <stdlib.h>

#include "rushlight/rushlight.h"

#define MOST_ARGS 32
#define MOST_RESULTS 8

typedef struct op_column {
  const rush_operator *op;
  rush_value args[MOST_ARGS], results[MOST_RESULTS], shown;
  size_t n_args, n_results;
  char why[1000];
} op_column;

static int failed(op_column *c, rush_error *err)
{
  snprintf(c->why, sizeof c->why, "%s", err->message ? err->message : "?");
  rush_error_clear(err);
  return -1;
}

__attribute__((visibility("default"))) op_column *op_column_open(const char *name, int n_results,
                                                                 int threads)
{
  op_column *c = calloc(1, sizeof *c);

  rush_context_set_threads(NULL, threads);
  if (c) {
    c->op = rush_op_find(NULL, name);
    c->n_results = (size_t)n_results;
    if (!c->op || n_results > MOST_RESULTS)
      snprintf(c->why, sizeof c->why, "no operator %s, or too many results", name);
  }
  return c;
}

__attribute__((visibility("default"))) const char *op_column_why(op_column *c) { return c->why; }

static void drop_results(op_column *c)
{
  for (size_t i = 0; i < c->n_results; i++) {
    rush_value_release(c->results[i]);
    c->results[i] = rush_value_none();
  }
}

__attribute__((visibility("default"))) void op_column_close(op_column *c)
{
  drop_results(c);
  rush_value_release(c->shown);
  while (c->n_args)
    rush_value_release(c->args[--c->n_args]);
  free(c);
}

static int keep(op_column *c, rush_status st, rush_error *err)
{
  if (st != RUSH_OK)
    return failed(c, err);
  c->n_args++;
  return 0;
}

/* Add the next argument, by kind: a tensor on the caller's memory, a number, none, a text. */
__attribute__((visibility("default"))) int op_column_tensor(op_column *c, int dtype, int n_dims,
                                                            const int64_t *sizes,
                                                            const int64_t *strides, void *data)
{
  rush_error err = RUSH_ERROR_INIT;

  if (c->n_args == MOST_ARGS)
    return -1;
  return keep(c,
              rush_tensor_wrap(NULL, (rush_dtype)dtype, n_dims, sizes, strides, data, NULL, NULL,
                               &c->args[c->n_args], &err),
              &err);
}

__attribute__((visibility("default"))) int op_column_value(op_column *c, int tag, int64_t i,
                                                           double d)
{
  if (c->n_args == MOST_ARGS)
    return -1;
  c->args[c->n_args++] = tag == RUSH_TAG_FLOAT  ? rush_value_float(d)
                         : tag == RUSH_TAG_INT  ? rush_value_int(i)
                         : tag == RUSH_TAG_BOOL ? rush_value_bool(i != 0)
                                                : rush_value_none();
  return 0;
}

__attribute__((visibility("default"))) int op_column_text(op_column *c, const char *text, int64_t n)
{
  rush_error err = RUSH_ERROR_INIT;

  if (c->n_args == MOST_ARGS)
    return -1;
  return keep(c, rush_string_create(NULL, text, (size_t)n, &c->args[c->n_args], &err), &err);
}

/* Replace the last n arguments by one: their list. */
__attribute__((visibility("default"))) int op_column_list(op_column *c, int n)
{
  rush_error err = RUSH_ERROR_INIT;
  rush_value list;
  size_t first = c->n_args - (size_t)n;

  if (rush_list_create(NULL, c->args + first, (size_t)n, &list, &err) != RUSH_OK)
    return failed(c, &err);
  while (c->n_args > first)
    rush_value_release(c->args[--c->n_args]);
  c->args[c->n_args++] = list;
  return 0;
}

__attribute__((visibility("default"))) int op_column_call(op_column *c, int64_t times)
{
  rush_error err = RUSH_ERROR_INIT;

  for (int64_t i = 0; i < times; i++) {
    drop_results(c);
    if (rush_op_run(c->op, c->args, c->n_args, c->results, c->n_results, &err) != RUSH_OK)
      return failed(c, &err);
  }
  return 0;
}

/* Return result i of the last call, contiguous: a tensor, or the first of a list; NULL if there is
 * none. */
__attribute__((visibility("default"))) const void *
op_column_result(op_column *c, int i, int *dtype, int *n_dims, const int64_t **sizes)
{
  rush_error err = RUSH_ERROR_INIT;
  rush_value v = c->results[i], out;

  if (v.tag == RUSH_TAG_LIST)
    v = rush_value_item(v, 0);
  if (v.tag != RUSH_TAG_TENSOR ||
      rush_tensor_contiguous(NULL, v.as.tensor, &out, &err) != RUSH_OK) {
    rush_error_clear(&err);
    return NULL;
  }
  rush_value_release(c->shown);
  c->shown = out;
  *dtype = (int)rush_tensor_dtype(out.as.tensor);
  *n_dims = rush_tensor_n_dims(out.as.tensor);
  *sizes = rush_tensor_sizes(out.as.tensor);
  return rush_tensor_data(out.as.tensor);
}
