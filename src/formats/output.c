/* formats/output.c -- output to files and text buffers (output.h). A file is written under a random
 * name in the same folder and renamed to the target on commit, because a rename within one file
 * system is atomic; the file is synced before the rename and the folder after it, so that either
 * version survives a crash. The random name avoids collisions without a lock. */
#include "formats/output.h"

#include <errno.h>
#include <fcntl.h>
#include <limits.h>
#include <stdio.h>
#include <string.h>
#include <sys/stat.h>
#include <unistd.h>

enum { MAX_TRIES = 100, MAX_LINKS = 40 };

struct output_file {
  int fd;
  int error;       /* errno of the first failure, or 0 */
  char *path;      /* as the caller wrote it; session memory, as everything here */
  char *target;    /* the destination: the target if `path` is a link */
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

/* Return the folder of a path, with its '/', or "". */
static str folder_of(const char *path)
{
  const char *slash = strrchr(path, '/');

  return (str){path, slash ? (size_t)(slash - path) + 1 : 0};
}

/* Resolve symbolic links in `path`; unlike realpath, the final target need not exist. */
static char *follow_links(session *s, char *path)
{
  for (int i = 0; i < MAX_LINKS; i++) {
    struct stat info;
    if (lstat(path, &info) != 0 || !S_ISLNK(info.st_mode))
      return path;
    char *to = session_alloc(s, PATH_MAX + 1);
    ssize_t n = readlink(path, to, PATH_MAX);
    if (n <= 0)
      fail(s, path, errno);
    str folder = to[0] == '/' ? STR("") : folder_of(path);
    path = session_printf(s, "%.*s%s", (int)folder.len, folder.p, to);
  }
  fail(s, path, ELOOP);
}

/* Open a file with a random name, so that files of other processes cannot collide. */
static void open_beside(session *s, output_file *f, const struct stat *old)
{
  for (int i = 0; i < MAX_TRIES && f->fd < 0; i++) {
    uint64_t bits;
    if (getentropy(&bits, sizeof bits) != 0)
      fail(s, f->path, errno);
    str folder = folder_of(f->target);
    char *name = session_printf(s, "%.*s.rushlight-%016llx.part", (int)folder.len, folder.p,
                                (unsigned long long)bits);
    f->fd = open(name, O_WRONLY | O_CREAT | O_EXCL | O_CLOEXEC,
                 0666); /* the mode is the umask's, unlike mkstemp's */
    if (f->fd >= 0)
      f->temporary = name;
    else if (errno != EEXIST)
      fail(s, f->path, errno);
  }
  if (f->fd < 0)
    fail(s, f->path, EEXIST);
  if (old && fchmod(f->fd, old->st_mode & 07777) != 0)
    fail(s, f->path, errno);
}

output_file *output_file_new(session *s, const char *path)
{
  output_file *f = session_new(s, output_file);
  struct stat info;

  f->fd = -1;
  f->path = session_strdup(s, path);
  f->target = follow_links(s, f->path);
  session_defer(s, close_file, f);
  bool is_there = stat(f->target, &info) == 0;
  if (is_there && !S_ISREG(info.st_mode)) {
    f->fd = open(f->target, O_WRONLY | O_CLOEXEC);
    if (f->fd < 0)
      fail(s, path, errno);
  } else {
    open_beside(s, f, is_there ? &info : NULL);
  }
  return f;
}

/* Sync: the bytes must be on the disk before the name is, and the name after it.  A file system
 * that cannot sync (EINVAL) counts as synced. */
static bool sync_fd(int fd)
{
  return fsync(fd) == 0 || errno == EINVAL || errno == ENOTSUP || errno == EROFS;
}

static bool sync_folder(session *s, const char *path)
{
  str folder = folder_of(path);
  int fd = open(folder.len ? session_strndup(s, folder.p, folder.len) : ".",
                O_RDONLY | O_DIRECTORY | O_CLOEXEC);

  if (fd < 0)
    return errno ==
           EACCES; /* a folder that one may write to and not read: the rename has been done */
  bool ok = sync_fd(fd);
  int error = errno;
  close(fd);
  errno = error;
  return ok;
}

void output_file_commit(session *s, output_file *f)
{
  int fd = f->fd;

  if (f->temporary && !sync_fd(fd))
    fail(s, f->path, errno);
  f->fd = -1;
  if (close(fd) != 0)
    fail(s, f->path, errno);
  if (!f->temporary)
    return;
  if (rename(f->temporary, f->target) != 0)
    fail(s, f->path, errno);
  f->temporary = NULL;
  if (!sync_folder(s, f->target))
    fail(s, f->path, errno);
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
