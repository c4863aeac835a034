/* support/test.h -- what every unit test includes first: cmocka and what it needs, and a context.
 * */
#ifndef TEST_SUPPORT_TEST_H
#define TEST_SUPPORT_TEST_H

#include <setjmp.h>
#include <stdarg.h>
#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include <cmocka.h>

#include "base/context.h"

#define RUN_TESTS(tests) cmocka_run_group_tests((tests), NULL, NULL)

static inline context *test_context(const context_options *opt)
{
  context *c = NULL;
  assert_int_equal(context_new(opt, &c, NULL), RUSH_OK);
  return c;
}

/* Release a context; check that nothing else of it is left. */
static inline void test_context_done(context *c)
{
  mem_stats stats;
  mem_get_stats(c, &stats);
  assert_int_equal(stats.live_bytes, 0);
  context_release(c);
}

#endif
