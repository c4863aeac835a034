/* Archives cut short and with flipped bits: an error that names the file, or the same results as
 * before; never a crash, a hang or a leak. Every byte and every bit is tried: 250,000 archives in
 * some seconds. */
#include <stdarg.h>
#include <stddef.h>
#include <setjmp.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include <cmocka.h>

#include "rushlight/rushlight.h"

typedef struct file {
  const char *name;
  unsigned char bytes[65536];
  size_t n;
  rush_context *context;
  size_t n_opened, n_refused, live; /* bytes that remain from the first runs: composites, caches */
  char good[4096],
    got[4096]; /* results of the program: of the untouched file, of the last one tried */
} file;

static void swallow(void *user, const char *text, size_t n)
{
  (void)user;
  (void)text;
  (void)n;
}

static void read_fixture(file *f, const char *name)
{
  char path[4096];
  const char *data = getenv("RUSH_TEST_DATA");
  rush_context_options options = RUSH_CONTEXT_OPTIONS_INIT;

  snprintf(path, sizeof path, "%s/%s", data ? data : "tests/data", name);
  FILE *in = fopen(path, "rb");
  assert_non_null(in);
  f->name = name;
  f->good[0] = 0;
  f->n_opened = f->n_refused = 0;
  f->n = fread(f->bytes, 1, sizeof f->bytes, in);
  fclose(in);
  options.limit_bytes = (size_t)64 << 20;
  options.limit_seconds = 2;
  options.n_threads = 1;
  options.print = swallow;
  assert_int_equal(rush_context_create(&options, &f->context, NULL), RUSH_OK);
}

/* Compile all of it and run it once: it must end, whatever the file contains. f->got is the result,
 * or the error. */
static void use(file *f, rush_module *m)
{
  static float image[64];
  int64_t sizes[4] = {1, 1, 8, 8};
  rush_error err = RUSH_ERROR_INIT;
  rush_value arg = rush_value_int(1), result;
  char *text;

  if (rush_module_dump(m, RUSH_DUMP_OPS, NULL, &text, &err) == RUSH_OK)
    rush_free_text(f->context, text);
  rush_error_clear(&err);
  if (strncmp(f->name, "digits", 6) == 0)
    assert_int_equal(
      rush_tensor_wrap(f->context, RUSH_FLOAT32, 4, sizes, NULL, image, NULL, NULL, &arg, NULL),
      RUSH_OK);
  snprintf(f->got, sizeof f->got, "(none)");
  if (rush_module_call(m, "forward", &arg, 1, &result, &err) == RUSH_OK) {
    if (rush_value_to_text(f->context, result, true, &text, NULL) == RUSH_OK) {
      snprintf(f->got, sizeof f->got, "%s", text);
      rush_free_text(f->context, text);
    }
    rush_value_release(result);
  } else {
    snprintf(f->got, sizeof f->got, "error: %s", err.message);
  }
  rush_error_clear(&err);
  rush_value_release(arg);
}

static void try_bytes(file *f, const unsigned char *bytes, size_t n, int must_fail)
{
  rush_error err = RUSH_ERROR_INIT;
  rush_load_options options = RUSH_LOAD_OPTIONS_INIT;
  rush_module *m;

  options.name = f->name;
  options.check_full = true;
  rush_status st = rush_module_load_bytes(f->context, bytes, n, NULL, NULL, &options, &m, &err);
  if (st == RUSH_OK) {
    assert_false(must_fail);
    f->n_opened++;
    use(f, m);
    rush_module_release(m);
    if (f->good[0] == 0)
      memcpy(f->good, f->got, sizeof f->good);
    if (strcmp(f->got, f->good) != 0)
      fail_msg("%s gives %s", f->name, f->got);
    return;
  }
  f->n_refused++;
  assert_int_not_equal(st, RUSH_EINTERNAL);
  assert_non_null(err.message);
  if (strncmp(err.message, f->name, strlen(f->name)) != 0 || err.message[strlen(f->name)] != ':')
    fail_msg("the message does not begin with the file: %s", err.message);
  rush_error_clear(&err);
}

static size_t live_bytes(const file *f)
{
  size_t live, peak;

  rush_memory_stats(f->context, &live, &peak);
  return live;
}

static void cut_everywhere(const char *name)
{
  static file f;

  read_fixture(&f, name);
  f.live = live_bytes(&f);
  for (size_t n = 0; n < f.n; n++)
    try_bytes(&f, f.bytes, n, 1);
  assert_int_equal(live_bytes(&f), f.live); /* what was refused is gone */
  rush_context_release(f.context);
}

static void flip_everywhere(const char *name)
{
  static file f;

  read_fixture(&f, name);
  try_bytes(&f, f.bytes, f.n, 0);
  for (size_t i = 0; i < 8 * f.n; i++) {
    f.bytes[i / 8] ^= (unsigned char)(1u << (i % 8));
    try_bytes(&f, f.bytes, f.n, 0);
    f.bytes[i / 8] ^= (unsigned char)(1u << (i % 8));
  }
  try_bytes(&f, f.bytes, f.n, 0);
  print_message("%s: %zu archives with a wrong bit refused, %zu gave the same results\n", name,
                f.n_refused, f.n_opened);
  assert_true(f.n_opened >
              1); /* the first and the last at least: only these bytes were changed */
  rush_context_release(f.context);
}

static void cut_archives_are_refused(void **state)
{
  (void)state;
  cut_everywhere("life.pt");
  cut_everywhere("digits.pt");
  cut_everywhere("digits.pt2");
}

static void wrong_bits_do_no_harm(void **state)
{
  (void)state;
  flip_everywhere("life.pt");
  flip_everywhere("digits.pt");
  flip_everywhere("digits.pt2");
}

int main(void)
{
  const struct CMUnitTest tests[] = {
      cmocka_unit_test(cut_archives_are_refused),
      cmocka_unit_test(wrong_bits_do_no_harm),
  };
  return cmocka_run_group_tests(tests, NULL, NULL);
}
