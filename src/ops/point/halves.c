/* ops/point/halves.c -- converts arrays of 16-bit floats with the tape runner's loops, in
 * parallel. */
#include "base/threads.h"
#include "ops/point/halves.h"
#include "ops/table/tape.h"

typedef struct job {
  tape_convert *convert;
  const char *from;
  char *to;
  int64_t from_bytes, to_bytes;
} job;

static void run_halves(void *arg, int64_t begin, int64_t end)
{
  const job *j = arg;
  j->convert(end - begin, j->to + begin * j->to_bytes, j->from + begin * j->from_bytes);
}

static const tape_isa *loops(call_ctx *cx)
{
  return ISA_PICK(tape_isa, cpu_choose(context_get_options(cx->ctx)->cpu))();
}

rush_status halves_widen(call_ctx *cx, int dtype, int64_t n, const void *from, float *to)
{
  job j = {loops(cx)->load[dtype], from, (char *)to, 2, 4};
  return parallel_for(cx, n, 65536, run_halves, &j);
}

rush_status halves_narrow(call_ctx *cx, int dtype, int64_t n, const float *from, void *to)
{
  job j = {loops(cx)->store[dtype], (const char *)from, to, 4, 2};
  return parallel_for(cx, n, 65536, run_halves, &j);
}
