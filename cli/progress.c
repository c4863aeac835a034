/* progress.c -- a progress line on stderr, at most ten times a second and only on a terminal. */
#include "cli.h"

#include <time.h>
#include <unistd.h>

double cli_seconds(void)
{
  struct timespec t;

  clock_gettime(CLOCK_MONOTONIC, &t);
  return (double)t.tv_sec + 1e-9 * (double)t.tv_nsec;
}

void progress_begin(progress *p)
{
  p->on = isatty(STDERR_FILENO) == 1;
  p->shown = 0;
}

void progress_show(progress *p, size_t done, size_t total, const char *what)
{
  double now = cli_seconds();

  if (!p->on || now - p->shown < 0.1)
    return;
  p->shown = now;
  fprintf(stderr, "\r\033[K%zu/%zu %.60s", done, total, what);
}

void progress_end(progress *p)
{
  if (p->on)
    fprintf(stderr, "\r\033[K");
}
