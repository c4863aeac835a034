/* compile/code/perf_map.c -- perf_map.h.  The file is opened for each line: there are few, and
 * nothing is left open.  The folder is everybody's, so a link, or a file that another user has put
 * there, is not written to. */
#include "compile/code/perf_map.h"

#include <fcntl.h>
#include <stdio.h>
#include <sys/stat.h>
#include <unistd.h>

#define MOST_LINE 256

static int open_own(const char *path)
{
  const int fd = open(path, O_WRONLY | O_CREAT | O_APPEND | O_NOFOLLOW | O_CLOEXEC, 0600);
  struct stat s;

  if (fd >= 0 && (fstat(fd, &s) != 0 || !S_ISREG(s.st_mode) || s.st_uid != geteuid())) {
    close(fd);
    return -1;
  }
  return fd;
}

void perf_map_add(const void *start, size_t n_bytes, const char *name)
{
  char path[64], line[MOST_LINE];

  snprintf(path, sizeof path, "/tmp/perf-%ld.map", (long)getpid());
  int n = snprintf(line, sizeof line - 1, "%zx %zx rushlight: %s", (size_t)start, n_bytes, name);
  if (n < 0)
    return;
  n = n < MOST_LINE - 1 ? n : MOST_LINE - 2; /* cut short */
  line[n++] = '\n';
  const int fd = open_own(path);
  if (fd < 0)
    return;
  (void)!write(fd, line, (size_t)n);
  close(fd);
}
