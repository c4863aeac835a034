/* cli/bench.c -- rushlight bench: latency and memory of a call, and the comparison with a second
 * file. It calls until a time budget is used and prints quantiles of the samples, because means
 * hide outliers; two files are timed in alternating rounds, so that a change of the machine's speed
 * affects both. Shares of operators come from a separate profiled run (costs.c), so that profiling
 * does not disturb the latencies. */
#include "costs.h"

#include <stdlib.h>
#include <string.h>

#define MAX_SAMPLES 100000

static int by_size(const void *a, const void *b)
{
  double x = *(const double *)a, y = *(const double *)b;

  return x < y ? -1 : x > y;
}

static bool once(cli *c, rush_module *m, const call_args *a, double *seconds, rush_error *err)
{
  rush_value result;
  double start = cli_seconds();

  if (rush_module_call_named(m, a->method, a->args, a->n_args, a->named, a->n_named, &c->call,
                             &result, err) != RUSH_OK)
    return false;
  *seconds = cli_seconds() - start;
  c->output_bytes = 0;
  rush_value_release(result);
  return true;
}

static void print_time(const char *name, double s)
{
  if (s < 1e-6)
    printf("%-10s %10.1f ns\n", name, s * 1e9);
  else if (s < 1e-3)
    printf("%-10s %10.2f us\n", name, s * 1e6);
  else
    printf("%-10s %10.3f ms\n", name, s * 1e3);
}

#define SHOWN_OPERATORS 8
#define RECORDED_CALLS 20
#define RECORDED_SECONDS 0.5

/* Print the operators' shares of time, from some more calls with profiling. */
static int print_shares(cli *c, rush_module *m, const call_args *a)
{
  rush_error err = RUSH_ERROR_INIT;
  costs r;

  if (costs_calls(c, m, a, 0, RECORDED_CALLS, RECORDED_SECONDS, &r, &err) != RUSH_OK)
    return cli_report(c, &err);
  if (c->json) {
    costs_json_operators(stdout, &r);
  } else {
    printf("\n");
    costs_print_operators(stdout, &r, SHOWN_OPERATORS, 100);
  }
  costs_free(&r);
  return EXIT_OK;
}

/* Memory used per call, between two readings. */
typedef struct memory_use {
  rush_memory now;
  double allocs, hits; /* hits: of tensor data, the share from the cache */
} memory_use;

static memory_use memory_since(cli *c, const rush_memory *before, size_t n)
{
  memory_use u = {.now = RUSH_MEMORY_INIT};

  rush_memory_get(c->context, &u.now);
  u.allocs = (double)(u.now.n_allocs - before->n_allocs) / (double)n;
  u.hits = u.now.n_data == before->n_data ? 1.0
                                          : (double)(u.now.n_cache_hits - before->n_cache_hits) /
                                                (double)(u.now.n_data - before->n_data);
  return u;
}

static void print_memory(const memory_use *u)
{
  printf("%-10s %10.1f MB live, %.1f MB peak, %.1f MB cached, %.1f MB packed weights\n", "memory",
         (double)u->now.live_bytes / 1e6, (double)u->now.peak_bytes / 1e6,
         (double)u->now.cached_bytes / 1e6, (double)u->now.packed_bytes / 1e6);
  printf("%-10s %10.1f a call, %.1f %% of tensor data from the cache\n", "allocs", u->allocs,
         100 * u->hits);
}

typedef struct timing {
  const double *samples; /* seconds of a call, sorted */
  size_t n;
  double load, first, seconds; /* of all calls */
} timing;

/* Print the results of n calls, sorted by time; the JSON object remains open. */
static void print_samples(const cli *c, const timing *t, const memory_use *use)
{
  const double *samples = t->samples;
  const size_t n = t->n;
  const double p10 = samples[n / 10], p50 = samples[n / 2], p90 = samples[n * 9 / 10];
  if (c->json) {
    printf(
      "{\"load\": %.9f, \"first\": %.9f, \"min\": %.9f, \"p10\": %.9f, \"median\": %.9f, "
      "\"p90\": %.9f, \"max\": %.9f, \"calls\": %zu, \"live_bytes\": %zu, \"peak_bytes\": %zu, "
      "\"cached_bytes\": %zu, "
      "\"packed_bytes\": %zu, \"allocs_per_call\": %.1f, \"cache_hits\": %.4f, \"threads\": "
      "%d, \"operators\": ",
      t->load, t->first, samples[0], p10, p50, p90, samples[n - 1], n, use->now.live_bytes,
      use->now.peak_bytes, use->now.cached_bytes, use->now.packed_bytes, use->allocs, use->hits,
      rush_context_get_threads(c->context));
  } else {
    print_time("load", t->load);
    print_time("first", t->first);
    print_time("min", samples[0]);
    print_time("p10", p10);
    print_time("median", p50);
    print_time("p90", p90);
    print_time("max", samples[n - 1]);
    printf("%-10s %10zu in %.1f s, %d threads\n", "calls", n, t->seconds,
           rush_context_get_threads(c->context));
    print_memory(use);
  }
}

static int measure_calls(cli *c, rush_module *m, const call_args *a, double load, double budget)
{
  double *samples = malloc(MAX_SAMPLES * sizeof *samples), first, start;
  rush_error err = RUSH_ERROR_INIT;
  rush_memory before = RUSH_MEMORY_INIT;
  size_t n = 0;
  progress bar;

  if (!samples)
    return EXIT_LIMIT;
  if (!once(c, m, a, &first, &err)) {
    free(samples);
    return cli_report(c, &err);
  }
  progress_begin(&bar);
  for (int i = 0; i < 3; i++) /* settle caches and packed weights */
    if (!once(c, m, a, &samples[0], &err)) {
      free(samples);
      return cli_report(c, &err);
    }
  rush_memory_reset_peak(c->context);
  rush_memory_get(c->context, &before);
  for (start = cli_seconds(); n < MAX_SAMPLES && (n < 5 || cli_seconds() - start < budget); n++) {
    if (!once(c, m, a, &samples[n], &err)) {
      free(samples);
      return cli_report(c, &err);
    }
    progress_show(&bar, (size_t)(1000 * (cli_seconds() - start)), (size_t)(1000 * budget),
                  "ms of calls");
  }
  progress_end(&bar);
  const memory_use use = memory_since(c, &before, n);
  qsort(samples, n, sizeof *samples, by_size);
  print_samples(c, &(timing){samples, n, load, first, cli_seconds() - start}, &use);
  free(samples);
  int code = print_shares(c, m, a);
  if (c->json)
    printf(code == EXIT_OK ? "}\n" : "[]}\n");
  return code;
}

/* -- Against a second file --------------------------------------------------------------------- */

#define ROUNDS 15
#define SLOWER 1.05 /* what counts as slower, beyond noise */

/* Measure the median of ROUNDS: each the seconds of `n` calls, divided by n. */
static bool round_of(cli *c, rush_module *m, const call_args *a, size_t n, double *seconds,
                     rush_error *err)
{
  double sum = 0, one;

  for (size_t i = 0; i < n; i++) {
    if (!once(c, m, a, &one, err))
      return false;
    sum += one;
  }
  *seconds = sum / (double)n;
  return true;
}

static bool take_turns(cli *c, rush_module *const *models, const call_args *a, double budget,
                       double medians[2], rush_error *err)
{
  double times[2][ROUNDS], one;
  progress bar;
  bool ok = true;
  size_t n[2];

  for (int k = 0; k < 2; k++) {
    if (!round_of(c, models[k], a, 4, &one, err))
      return false;
    n[k] = (size_t)(budget / 2 / ROUNDS / (one > 1e-9 ? one : 1e-9)) + 1;
  }
  progress_begin(&bar);
  for (int turn = 0; turn < 2 * ROUNDS && ok; turn++) {
    progress_show(&bar, (size_t)turn, 2 * ROUNDS,
                  turn % 2 ? "turns of calls: the other file" : "turns of calls: this file");
    ok = round_of(c, models[turn % 2], a, n[turn % 2], &times[turn % 2][turn / 2], err);
  }
  progress_end(&bar);
  if (!ok)
    return false;
  for (int k = 0; k < 2; k++) {
    qsort(times[k], ROUNDS, sizeof(double), by_size);
    medians[k] = times[k][ROUNDS / 2];
  }
  return true;
}

static int compare_times(cli *c, rush_module *m, const char *other, const call_args *a,
                         double budget)
{
  rush_error err = RUSH_ERROR_INIT;
  rush_module *models[2] = {m, NULL};
  double medians[2];

  if (rush_module_load(c->context, other, &c->load, &models[1], &err) != RUSH_OK)
    return cli_report(c, &err);
  bool ok = take_turns(c, models, a, budget, medians, &err);
  rush_module_release(models[1]);
  if (!ok)
    return cli_report(c, &err);
  double ratio = medians[1] / medians[0];
  if (c->json) {
    printf("{\"median\": %.9f, \"against\": %.9f, \"ratio\": %.4f}\n", medians[0], medians[1],
           ratio);
  } else {
    print_time("median", medians[0]);
    print_time("against", medians[1]);
    printf("%-10s %10.2f\n", "ratio", ratio);
  }
  return medians[0] > SLOWER * medians[1] ? EXIT_NEGATIVE : EXIT_OK;
}

int cli_bench(cli *c)
{
  const char *seconds = cli_option(c, "--seconds"), *against = cli_option(c, "--against");
  double budget = 2.0, start;
  rush_error err = RUSH_ERROR_INIT;
  rush_module *m;
  call_args a;
  char *end;
  int code;

  if (seconds) {
    budget = strtod(seconds, &end);
    if (*end || !(budget > 0))
      return cli_usage("bench", "--seconds takes a number of seconds, not '%s'", seconds);
  }

  if (c->argc < 1)
    return cli_usage("bench", "takes a model file");
  if (!call_parse(c, "bench", &a, &code))
    return code;
  c->capture = true; /* what the program prints is not the answer */
  start = cli_seconds();
  if (!cli_load(c, c->argv[0], &m, &err)) {
    call_free(&a);
    return cli_report(c, &err);
  }
  const double load = cli_seconds() - start;
  if (call_complete(c, "bench", c->argv[0], m, &a, &code))
    code =
      against ? compare_times(c, m, against, &a, budget) : measure_calls(c, m, &a, load, budget);
  rush_module_release(m);
  call_free(&a);
  return code;
}
