/* memory.c -- measures the memory that a call will need.
 *
 * The method runs once on copies of its arguments and state (rush_module_prepare), which also
 * compiles what the call needs, and the peak of that run is the expectation.  Rejected: sizes and
 * lifetimes read from a graph, which would miss memory that kernels allocate themselves (packed
 * operands, unfolded images), and be no bound; measuring works for programs of any kind. */
#include "memory.h"

#include "rushlight/script.h"

#include <string.h>

#define SLACK_BYTES ((size_t)256 << 10) /* what threads take or leave from one run to the next */

static const char *bytes_text(size_t n, char out[32])
{
  static const char *const units[] = {"bytes", "kB", "MB", "GB", "TB"};
  double v = (double)n;
  int u = 0;

  for (; v >= 1000 && u < 4; u++)
    v /= 1000;
  snprintf(out, 32, u ? "%.1f %s" : "%.0f %s", v, units[u]);
  return out;
}

static rush_memory memory_now(const cli *c)
{
  rush_memory now = RUSH_MEMORY_INIT;

  rush_memory_get(c->context, &now);
  return now;
}

bool memory_expect(cli *c, rush_module *m, const call_args *a, memory_use *out, int *code)
{
  rush_error err = RUSH_ERROR_INIT;
  char expected[32], before[32];

  rush_memory_reset_peak(c->context);
  const size_t at_first = memory_now(c).live_bytes;
  if (rush_module_prepare(m, a->method, a->args, a->n_args, a->named, a->n_named, &c->call, &err) !=
      RUSH_OK) {
    *code = cli_report(c, &err);
    return false;
  }
  const size_t most = memory_now(c).peak_bytes - at_first;
  rush_memory_trim(c->context);
  out->before = memory_now(c).live_bytes;
  out->expected = out->before + most + SLACK_BYTES;
  if (!c->options->limit_bytes &&
      rush_context_set_limit_bytes(c->context, out->expected, &err) != RUSH_OK) {
    *code = cli_report(c, &err);
    return false;
  }
  fprintf(
    stderr,
    "rushlight run: expected peak %s, measured by a run on copies; %s are in use before; %s\n",
    bytes_text(out->expected, expected), bytes_text(out->before, before),
    c->options->limit_bytes ? "--max-bytes stays the limit" : "held as the limit");
  rush_memory_reset_peak(c->context);
  return true;
}

bool memory_end(cli *c, rush_error *err)
{
  return c->options->limit_bytes || rush_context_set_limit_bytes(c->context, 0, err) == RUSH_OK;
}

void memory_print(memory_use *m, cli *c)
{
  char peak[32];

  m->peak = memory_now(c).peak_bytes;
  fprintf(stderr, "rushlight run: the peak was %s\n", bytes_text(m->peak, peak));
}
