/* Resident memory stays flat over many calls of changing sizes, and under a limit of bytes. Prints
 * its measurements; RUSH_CALLS is the number of calls (2500; make nightly: 10000). */
#include "support/test.h"

#include <sys/mman.h>

#include "rushlight/rushlight.h"

#if defined(__SANITIZE_ADDRESS__) || defined(__SANITIZE_THREAD__)
#define WATCHED 1
#elif defined(__has_feature)
#if __has_feature(address_sanitizer) || __has_feature(thread_sanitizer)
#define WATCHED 1
#endif
#endif
#ifndef WATCHED
#define WATCHED 0
#endif

#define WARM 1000
#define MB 1048576.0

/* Return a field of /proc/self/status in bytes: "VmRSS:", "RssAnon:". */
static double resident(const char *field)
{
  char line[256];
  double kb = -1;
  FILE *f = fopen("/proc/self/status", "r");
  while (f && fgets(line, sizeof line, f))
    if (strncmp(line, field, strlen(field)) == 0)
      kb = strtod(line + strlen(field), NULL);
  if (f)
    fclose(f);
  return kb * 1024;
}

static rush_module *load(rush_context *c, const char *file)
{
  char path[4096];
  rush_module *m;
  snprintf(path, sizeof path, "%s/%s", getenv("RUSH_TEST_DATA"), file);
  assert_int_equal(rush_module_load(c, path, NULL, &m, NULL), RUSH_OK);
  return m;
}

static rush_context *create(size_t limit_bytes)
{
  rush_context_options o = RUSH_CONTEXT_OPTIONS_INIT;
  rush_context *c;
  o.limit_bytes = limit_bytes;
  o.n_threads = 2;
  assert_int_equal(rush_context_create(&o, &c, NULL), RUSH_OK);
  return c;
}

/* Draw uniformly from [low, high], from the caller's seed. */
static int64_t draw(uint64_t *seed, int64_t low, int64_t high)
{
  *seed = *seed * 6364136223846793005u + 1442695040888963407u;
  return low + (int64_t)((*seed >> 33) % (uint64_t)(high - low + 1));
}

static rush_status call(rush_context *c, rush_module *m, int64_t height, int64_t width)
{
  const int64_t sizes[] = {1, 3, height, width};
  rush_value x, y;
  rush_status st = rush_tensor_create(c, RUSH_FLOAT32, 4, sizes, &x, NULL);
  if (st != RUSH_OK)
    return st;
  memset(rush_tensor_data_mut(x.as.tensor), 0, (size_t)(3 * height * width) * sizeof(float));
  st = rush_module_call(m, NULL, &x, 1, &y, NULL);
  if (st == RUSH_OK)
    rush_value_release(y);
  rush_value_release(x);
  return st;
}

static void resident_memory_is_flat(void **state)
{
  (void)state;
  const char *given = getenv("RUSH_CALLS");
  const int n_calls = given ? atoi(given) : 2500;
  rush_context *c = create(0);
  rush_module *m = load(c, "convs.pt");
  uint64_t seed = 0;
  double least = 1e18, most = 0;
  for (int i = 0; i < n_calls; i++) {
    int64_t height = draw(&seed, 32, 256), width = draw(&seed, 32, 256);
    assert_int_equal(call(c, m, height, width), RUSH_OK);
    if (i < WARM - 1)
      continue;
    double now = resident("VmRSS:");
    least = now < least ? now : least;
    most = now > most ? now : most;
  }
  rush_memory s = RUSH_MEMORY_INIT;
  rush_memory_get(c, &s);
  printf("%d calls, the first %d left out: resident %.2f to %.2f MB, %.2f %% apart; peak %.1f MB "
         "in use, %.1f MB cached, "
         "%.2f %% of tensor data from the cache\n",
         n_calls, WARM, least / MB, most / MB, (most / least - 1) * 100, (double)s.peak_bytes / MB,
         (double)s.cached_bytes / MB, 100 * (double)s.n_cache_hits / (double)s.n_data);
  assert_true(most <= 1.01 * least);
  rush_module_release(m);
  rush_context_release(c);
}

/* -- Under a limit ----------------------------------------------------------------------------- */

#define LIMIT ((size_t)96 << 20)

static void watch(double *most)
{
  double now = resident("RssAnon:");
  *most = now > *most ? now : *most;
}

/* Make values of one kind until the limit refuses; hold them meanwhile. */
static void fill(rush_context *c, int kind, double *most)
{
  size_t n = 0, cap = 4 << 20;
  rush_value *held =
    mmap(NULL, cap * sizeof *held, PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);
  rush_error err = RUSH_ERROR_INIT;
  rush_status st = RUSH_OK;
  uint64_t seed = 1;
  double before = resident("RssAnon:");
  assert_true(held != MAP_FAILED);
  memset(held, 0,
         cap * sizeof *held); /* resident before the measurement: not the library's */
  double own = resident("RssAnon:") - before;
  while (st == RUSH_OK && n < cap) {
    int64_t size = kind == 0 ? draw(&seed, 1, 3000000) : draw(&seed, 1, 3000);
    if (kind == 2)
      st = rush_string_create(c, "abcdefgh", (size_t)draw(&seed, 0, 8), &held[n], &err);
    else
      st = rush_tensor_create(c, RUSH_FLOAT32, 1, &size, &held[n], &err);
    if (st == RUSH_OK && kind != 2)
      memset(rush_tensor_data_mut(held[n].as.tensor), 1, (size_t)size * 4);
    n += st == RUSH_OK;
    if (n % 64 == 0 || st != RUSH_OK) {
      double now = resident("RssAnon:") - own;
      *most = now > *most ? now : *most;
    }
  }
  assert_int_equal(st, RUSH_ELIMIT);
  rush_error_clear(&err);
  for (size_t i = 0; i < n; i++)
    rush_value_release(held[i]);
  munmap(held, cap * sizeof *held);
}

static void a_limit_holds_from_outside(void **state)
{
  (void)state;
  rush_context *c = create(LIMIT);
  rush_module *m = load(c, "convs.pt");
  uint64_t seed = 0;
  double most = 0;
  int n_refused = 0;
  for (int i = 0; i < 60; i++) { /* the largest do not fit */
    rush_status st = call(c, m, draw(&seed, 32, 1600), draw(&seed, 32, 1600));
    assert_true(st == RUSH_OK || st == RUSH_ELIMIT);
    n_refused += st == RUSH_ELIMIT;
    watch(&most);
  }
  assert_true(n_refused > 0 && n_refused < 60);
  for (int i = 0; i < 6; i++) {
    fill(c, i % 3, &most);
  }
  printf("limit %.0f MB: at most %.1f MB anonymous memory resident\n", (double)LIMIT / MB,
         most / MB);
  assert_true(most <= (double)LIMIT + 16 * MB);
  rush_module_release(m);
  rush_context_release(c);
}

int main(void)
{
  const struct CMUnitTest tests[] = {
      cmocka_unit_test(a_limit_holds_from_outside),
      cmocka_unit_test(resident_memory_is_flat),
  };
  const char *preload = getenv("LD_PRELOAD"); /* valgrind's */

  if (WATCHED || (preload && strstr(preload, "vgpreload"))) {
    printf("skipped: sanitizers and valgrind keep memory of their own\n");
    return 77;
  }
  return RUN_TESTS(tests);
}
