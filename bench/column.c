/* A module with its arguments, for a benchmark in Python that measures calls and training steps
 * through the C interface alone: bench/peers_column.py opens this library with ctypes. */
#include <stdio.h>
#include <stdlib.h>

#include "rushlight/optim.h"

#define MOST_ARGS 16

typedef struct column {
  rush_module *module;
  rush_value args[MOST_ARGS], result;
  size_t n_args;
  rush_optimizer *optimizer; /* of column_train, or NULL */
  char why[1000];
} column;

static int failed(column *c, rush_error *err)
{
  snprintf(c->why, sizeof c->why, "%s", err->message ? err->message : "?");
  rush_error_clear(err);
  return -1;
}

__attribute__((visibility("default"))) column *column_open(const char *path, int threads)
{
  rush_error err = RUSH_ERROR_INIT;
  column *c = calloc(1, sizeof *c);

  rush_context_set_threads(NULL, threads);
  if (c && rush_module_load(NULL, path, NULL, &c->module, &err) != RUSH_OK)
    failed(c, &err);
  return c;
}

__attribute__((visibility("default"))) const char *column_why(column *c) { return c->why; }

/* Add the next argument: a tensor on the caller's memory, or an int if dtype is negative. */
__attribute__((visibility("default"))) int
column_arg(column *c, int dtype, int n_dims, const int64_t *sizes, void *data, int64_t number)
{
  rush_error err = RUSH_ERROR_INIT;

  if (c->n_args == MOST_ARGS)
    return -1;
  if (dtype < 0)
    c->args[c->n_args] = rush_value_int(number);
  else if (rush_tensor_wrap(NULL, (rush_dtype)dtype, n_dims, sizes, NULL, data, NULL, NULL,
                            &c->args[c->n_args], &err) != RUSH_OK)
    return failed(c, &err);
  c->n_args++;
  return 0;
}

__attribute__((visibility("default"))) int column_call(column *c, int times)
{
  rush_error err = RUSH_ERROR_INIT;

  for (int i = 0; i < times; i++) {
    rush_value_release(c->result);
    c->result = rush_value_none();
    if (rush_module_call(c->module, "forward", c->args, c->n_args, &c->result, &err) != RUSH_OK)
      return failed(c, &err);
  }
  return 0;
}

/* Return tensor i of the last result (a tensor, or a tuple of them): its data, contiguous; NULL if
 * there is none. */
__attribute__((visibility("default"))) const void *column_result(column *c, int i, int *dtype,
                                                                 int *n_dims, const int64_t **sizes)
{
  rush_value v =
    c->result.tag == RUSH_TAG_TENSOR && i == 0 ? c->result : rush_value_item(c->result, (size_t)i);

  if (v.tag != RUSH_TAG_TENSOR || !rush_tensor_is_contiguous(v.as.tensor))
    return NULL;
  *dtype = (int)rush_tensor_dtype(v.as.tensor);
  *n_dims = rush_tensor_n_dims(v.as.tensor);
  *sizes = rush_tensor_sizes(v.as.tensor);
  return rush_tensor_data(v.as.tensor);
}

/* Prepare training: SGD on the module's parameters. */
__attribute__((visibility("default"))) int column_train(column *c, double lr, double momentum)
{
  rush_optimizer_options o = RUSH_OPTIMIZER_OPTIONS_INIT;
  rush_error err = RUSH_ERROR_INIT;

  if (rush_optimizer_defaults(RUSH_OPTIMIZER_SGD, &o, &err) != RUSH_OK)
    return failed(c, &err);
  o.lr = lr;
  o.momentum = momentum;
  if (rush_optimizer_of_module(c->module, RUSH_OPTIMIZER_SGD, &o, &c->optimizer, &err) != RUSH_OK)
    return failed(c, &err);
  return 0;
}

/* Call the module on all arguments but the last, the classes; c->result is the loss. */
static rush_status loss_of(column *c, rush_error *err)
{
  rush_call_options records = RUSH_CALL_OPTIONS_INIT;
  rush_value pair[2] = {rush_value_none(), c->args[c->n_args - 1]};
  size_t n;

  records.record_gradients = true;
  rush_status st = rush_module_call_named(c->module, "forward", c->args, c->n_args - 1, NULL, 0,
                                          &records, &pair[0], err);
  if (st == RUSH_OK)
    st = rush_op_call_with(NULL, "aten::cross_entropy_loss", pair, 2, NULL, 0, &records,
                           &c->result, 1, &n, err);
  rush_value_release(pair[0]);
  return st;
}

/* Train: forward, cross entropy, backward, a step of the optimizer. */
__attribute__((visibility("default"))) int column_steps(column *c, int times)
{
  rush_error err = RUSH_ERROR_INIT;

  for (int i = 0; i < times; i++) {
    rush_value_release(c->result);
    c->result = rush_value_none();
    if (loss_of(c, &err) != RUSH_OK ||
        rush_backward(NULL, &c->result, NULL, 1, NULL, &err) != RUSH_OK ||
        rush_optimizer_step(c->optimizer, &err) != RUSH_OK ||
        rush_optimizer_zero_grad(c->optimizer, true, &err) != RUSH_OK)
      return failed(c, &err);
  }
  return 0;
}
