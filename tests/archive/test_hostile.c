/* Archives cut short and with wrong bits: an error that names the file, or a program that still runs; never a
 * crash, a hang or a leak.  RUSH_LONG=1 tries every byte, otherwise each second. */
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
  size_t n_opened, n_refused, live; /* bytes that the first runs left: composites, caches */
} file;

static size_t stride(void) { return getenv("RUSH_LONG") ? 1 : 2; }

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
  f->n = fread(f->bytes, 1, sizeof f->bytes, in);
  fclose(in);
  options.limit_bytes = (size_t)64 << 20;
  options.limit_seconds = 2;
  options.n_threads = 1;
  options.print = swallow;
  assert_int_equal(rush_context_create(&options, &f->context, NULL), RUSH_OK);
}

/* Compile all of it and run it once: whatever it is now, it has to end. */
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
    assert_int_equal(rush_tensor_wrap(f->context, RUSH_FLOAT32, 4, sizes, NULL, image, NULL, NULL, &arg, NULL), RUSH_OK);
  if (rush_module_call(m, "forward", &arg, 1, &result, &err) == RUSH_OK)
    rush_value_release(result);
  rush_error_clear(&err);
  rush_value_release(arg);
}

static void try_bytes(file *f, const unsigned char *bytes, size_t n, int must_fail)
{
  rush_error err = RUSH_ERROR_INIT;
  rush_load_options options = RUSH_LOAD_OPTIONS_INIT;
  rush_module *m;

  options.name = f->name;

  rush_status st = rush_module_load_bytes(f->context, bytes, n, NULL, NULL, &options, &m, &err);
  if (st == RUSH_OK) {
    assert_false(must_fail);
    f->n_opened++;
    use(f, m);
    rush_module_release(m);
    return;
  }
  f->n_refused++;
  assert_int_not_equal(st, RUSH_EINTERNAL);
  assert_non_null(err.message);
  assert_true(err.message[0] != 0);
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
  for (size_t n = 0; n < f.n; n += n + 200 > f.n ? 1 : stride())
    try_bytes(&f, f.bytes, n, 1);
  assert_int_equal(live_bytes(&f), f.live); /* what was refused is gone */
  rush_context_release(f.context);
}

static void flip_everywhere(const char *name, size_t step)
{
  static file f;

  read_fixture(&f, name);
  for (size_t i = 0; i < f.n; i += step) {
    unsigned char old = f.bytes[i];
    f.bytes[i] = old ^ 0xff;
    try_bytes(&f, f.bytes, f.n, 0);
    f.bytes[i] = (unsigned char)(old ^ (1u << (i / step % 8)));
    try_bytes(&f, f.bytes, f.n, 0);
    f.bytes[i] = old;
  }
  try_bytes(&f, f.bytes, f.n, 0);
  assert_true(f.n_opened > 0); /* the last one at least: nothing was broken but the bytes */
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
  flip_everywhere("life.pt", stride());
  flip_everywhere("digits.pt", stride());
  flip_everywhere("digits.pt2", 4 * stride());
}

int main(void)
{
  const struct CMUnitTest tests[] = {
      cmocka_unit_test(cut_archives_are_refused),
      cmocka_unit_test(wrong_bits_do_no_harm),
  };
  return cmocka_run_group_tests(tests, NULL, NULL);
}
