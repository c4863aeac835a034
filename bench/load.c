/* load MODEL [N]: loads N+1 times; prints {"first": s, "again": s, "rss": bytes}, again being the
 * median of the N. */
#include <stdio.h>
#include <sys/resource.h>

#include "rushlight/rushlight.h"
#include "timing.h"

#define MOST 1000

static int by_size(const void *a, const void *b)
{
  double x = *(const double *)a, y = *(const double *)b;

  return (x > y) - (x < y);
}

int main(int argc, char **argv)
{
  rush_error err = RUSH_ERROR_INIT;
  double times[MOST + 1];
  struct rusage use;
  int n = argc > 2 ? atoi(argv[2]) : 5;

  if (argc < 2 || n < 1 || n > MOST)
    return 2;
  rush_context_set_threads(NULL, 1);
  for (int i = 0; i <= n; i++) {
    rush_module *m;
    double start = bench_seconds();
    if (rush_module_load(NULL, argv[1], NULL, &m, &err) != RUSH_OK) {
      fprintf(stderr, "%s\n", err.message);
      return 1;
    }
    times[i] = bench_seconds() - start;
    rush_module_release(m);
  }
  qsort(times + 1, (size_t)n, sizeof *times, by_size);
  getrusage(RUSAGE_SELF, &use);
  printf("{\"first\": %.9f, \"again\": %.9f, \"rss\": %ld}\n", times[0], times[1 + n / 2],
         use.ru_maxrss * 1024);
  return 0;
}
