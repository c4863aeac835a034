/* overhead MODEL: what calls and the interpreter cost.  Prints lines `row seconds`, seconds per
 * unit: a call, an iteration, an element, an operator.  MODEL has the methods of bench/models.py's
 * `overhead`.
 *   op8    a + b of 8 floats through rush_op_run
 *   empty, add1, sumint, listloop, addloop, chain100: as the peers' t4 */
#include <stdio.h>

#include "rushlight/rushlight.h"
#include "timing.h"

#define ROUNDS 9
#define ROUND_SECONDS 0.05

typedef struct job {
  rush_module *module;
  const rush_operator *op;
  const char *method;
  rush_value args[3];
  size_t n_args;
} job;

static int fail(rush_error *err)
{
  fprintf(stderr, "%s\n", err->message);
  rush_error_clear(err);
  return 1;
}

static rush_status once(job *j, rush_error *err)
{
  rush_value result;
  rush_status st = j->op ? rush_op_run(j->op, j->args, j->n_args, &result, 1, err)
                         : rush_module_call(j->module, j->method, j->args, j->n_args, &result, err);

  if (st == RUSH_OK)
    rush_value_release(result);
  return st;
}

/* Measure the minimum of some rounds: the time of an undisturbed call. */
static int measure(const char *row, job *j, double units)
{
  rush_error err = RUSH_ERROR_INIT;
  double best = 1e9;
  long n = 1;

  for (int i = 0; i < 3; i++)
    if (once(j, &err) != RUSH_OK)
      return fail(&err);
  double start = bench_seconds();
  if (once(j, &err) != RUSH_OK)
    return fail(&err);
  double one = bench_seconds() - start;
  n = (long)(ROUND_SECONDS / (one > 1e-9 ? one : 1e-9));
  n = n < 1 ? 1 : n > 200000 ? 200000 : n;
  for (int r = 0; r < ROUNDS; r++) {
    start = bench_seconds();
    for (long i = 0; i < n; i++)
      if (once(j, &err) != RUSH_OK)
        return fail(&err);
    double took = (bench_seconds() - start) / (double)n;
    best = took < best ? took : best;
  }
  printf("%s %.4g\n", row, best / units);
  return 0;
}

static rush_value filled(int64_t n, float v, rush_error *err)
{
  rush_value t;

  if (rush_tensor_create(NULL, RUSH_FLOAT32, 1, &n, &t, err) != RUSH_OK)
    exit(fail(err));
  float *p = rush_tensor_data_mut(t.as.tensor);
  for (int64_t i = 0; i < n; i++)
    p[i] = v;
  return t;
}

int main(int argc, char **argv)
{
  rush_error err = RUSH_ERROR_INIT;
  rush_module *m;

  if (argc < 2)
    return 2;
  rush_context_set_threads(NULL, 1);
  if (rush_module_load(NULL, argv[1], NULL, &m, &err) != RUSH_OK)
    return fail(&err);
  rush_value x = filled(1, 1.0f, &err), y = filled(1, 1.0f, &err);
  rush_value x8 = filled(8, 1.0f, &err), y8 = filled(8, 0.1f, &err);
  const rush_operator *add = rush_op_find(NULL, "aten::add.Tensor");
  const struct { const char *row; job j; double units; } rows[] = {
      {"op8", {m, add, NULL, {x8, y8, rush_value_int(1)}, 3}, 1},
      {"empty", {m, NULL, "empty", {x}, 1}, 1},
      {"add1", {m, NULL, "add1", {x, y}, 2}, 1},
      {"sumint", {m, NULL, "sumint", {rush_value_int(1000000)}, 1}, 1e6},
      {"listloop", {m, NULL, "listloop", {rush_value_int(100000)}, 1}, 1e5},
      {"addloop", {m, NULL, "addloop", {x, y, rush_value_int(100000)}, 3}, 1e5},
      {"chain100", {m, NULL, "chain100", {x8, y8}, 2}, 100},
  };
  int status = 0;
  for (size_t i = 0; i < sizeof rows / sizeof *rows; i++) {
    job j = rows[i].j;
    status |= measure(rows[i].row, &j, rows[i].units);
  }
  rush_value_release(x);
  rush_value_release(y);
  rush_value_release(x8);
  rush_value_release(y8);
  rush_module_release(m);
  return status;
}
