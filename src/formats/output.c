#include "formats/output.h"

#include <errno.h>
#include <fcntl.h>
#include <stdio.h>
#include <string.h>
#include <sys/stat.h>
#include <unistd.h>

enum { MAX_TRIES = 1000 };

struct output_file {
  int fd;
  int error;       /* errno of the first failure, or 0 */
  char *path;      /* where it goes; session memory, as all here */
  char *temporary; /* where it is until then; NULL when written directly */
};

static bool write_text(void *user, const void *data, size_t n_bytes)
{
  text_buf *t = user;
  text_add(t, data, n_bytes);
  return !text_failed(t);
}

output output_to_text(text_buf *t)
{
  return (output){write_text, t, "memory"};
}

static bool write_file(void *user, const void *data, size_t n_bytes)
{
  output_file *f = user;
  const char *p = data;

  while (n_bytes) {
    ssize_t n = write(f->fd, p, n_bytes);
    if (n < 0 && errno == EINTR)
      continue;
    if (n < 0) {
      f->error = errno;
      return false;
    }
    p += n;
    n_bytes -= (size_t)n;
  }
  return true;
}

output output_to_file(output_file *f)
{
  return (output){write_file, f, f->path};
}

static void close_file(void *object)
{
  output_file *f = object;

  if (f->fd >= 0)
    close(f->fd);
  f->fd = -1;
  if (f->temporary)
    unlink(f->temporary);
  f->temporary = NULL;
}

_Noreturn static void fail(session *s, const char *path, int error)
{
  session_fail_status(s, RUSH_EIO, NULL, NULL, "%s: %s", path, strerror(error));
}

/* A name that nobody has: the mode stays what the user's umask makes it, unlike mkstemp's. */
static void open_beside(session *s, output_file *f)
{
  for (int i = 0; i < MAX_TRIES && f->fd < 0; i++) {
    char *name = session_printf(s, "%s.part%d", f->path, i);
    f->fd = open(name, O_WRONLY | O_CREAT | O_EXCL | O_CLOEXEC, 0666);
    if (f->fd >= 0)
      f->temporary = name;
    else if (errno != EEXIST)
      fail(s, f->path, errno);
  }
  if (f->fd < 0)
    fail(s, f->path, EEXIST);
}

output_file *output_file_new(session *s, const char *path)
{
  output_file *f = session_new(s, output_file);
  struct stat info;

  f->fd = -1;
  f->path = session_strdup(s, path);
  session_defer(s, close_file, f);
  if (stat(path, &info) == 0 && !S_ISREG(info.st_mode)) {
    f->fd = open(path, O_WRONLY | O_CLOEXEC);
    if (f->fd < 0)
      fail(s, path, errno);
  } else {
    open_beside(s, f);
  }
  return f;
}

void output_file_commit(session *s, output_file *f)
{
  int fd = f->fd;

  f->fd = -1;
  if (close(fd) != 0)
    fail(s, f->path, errno);
  if (f->temporary && rename(f->temporary, f->path) != 0)
    fail(s, f->path, errno);
  f->temporary = NULL;
}

void output_put(session *s, const output *out, const void *data, size_t n_bytes)
{
  if (out->write(out->user, data, n_bytes))
    return;
  if (out->write == write_text)
    session_check(s, call_nomem(s->cx));
  if (out->write == write_file)
    fail(s, out->place, ((output_file *)out->user)->error);
  session_fail_status(s, RUSH_EIO, NULL, NULL, "%s: writing failed", out->place);
}
