/* fuzz/fuzz.h -- what every target shares: one input is one session in a new, limited context, after which
 * nothing may be held.
 *
 * A target defines fuzz_body(s, text): any failure is fine, a crash, a hang, a leak or an error without a
 * message is not. */
#ifndef RUSH_FUZZ_FUZZ_H
#define RUSH_FUZZ_FUZZ_H

#include <stdio.h>
#include <stdlib.h>

#include "base/session.h"
#include "base/text.h"

static void fuzz_body(session *s, str text);

static void fuzz_run(session *s, void *arg) { fuzz_body(s, *(str *)arg); }

static void fuzz_demand(bool good, const char *what)
{
  if (!good) {
    fprintf(stderr, "fuzz: %s\n", what);
    abort();
  }
}

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size);
int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size)
{
  context_options opt = {.limit_bytes = (size_t)256 << 20, .limit_depth = 200, .limit_seconds = 20,
                         .n_threads = 1};
  rush_error err = RUSH_ERROR_INIT;
  context *c = NULL;
  if (context_new(&opt, &c, &err) != RUSH_OK)
    return 0;
  call_ctx cx;
  call_ctx_init(&cx, c, &err);
  str text = {(const char *)data, size};
  rush_status st = session_run(&cx, fuzz_run, &text);
  fuzz_demand(st == err.status, "the error and the status differ");
  fuzz_demand(st == RUSH_OK || (err.message && err.type), "a failure without a message");
  fuzz_demand(st != RUSH_EINTERNAL, "our fault");
  rush_error_clear(&err);
  mem_stats stats;
  mem_get_stats(c, &stats);
  fuzz_demand(stats.live_bytes == 0, "memory is held after the session");
  context_release(c);
  return 0;
}

#endif
