/* formats/mapping.c -- file bytes in memory: mapped, copied, read through a callback, or passed by
 * the caller. The kinds differ only in their destroy function. Files are mapped privately and
 * writable, so that tensors can use them in place without changing the file; reading into memory is
 * for files that may be truncated, which would make mapped pages fault. Files are read in pieces of
 * 1 MB, so that a deadline is noticed. */
#include "formats/mapping.h"

#include <errno.h>
#include <fcntl.h>
#include <stdio.h>
#include <string.h>
#include <sys/mman.h>
#include <sys/stat.h>
#include <unistd.h>

/* Bytes that are read between two polls. */
#define PIECE_BYTES ((size_t)1 << 20)

/* -- Blocks ------------------------------------------------------------------------------------ */

static size_t header_bytes(const char *name)
{
  return sizeof(mapping) + strlen(name) + 1;
}

/* Make the header with its name after it; data is not set. */
static mapping *header_new(context *c, const char *name)
{
  mapping *m = mem_alloc_zero(c, header_bytes(name));

  if (m == NULL)
    return NULL;
  atomic_init(&m->refs, 1);
  m->ctx = c;
  m->name = (char *)(m + 1);
  memcpy(m->name, name, strlen(name) + 1);
  return m;
}

static void destroy_owned(mapping *m)
{
  mem_free_data(m->ctx, m->data, m->n_bytes ? m->n_bytes : 1);
}

static void destroy_mapped(mapping *m)
{
  munmap(m->data, m->n_bytes);
}

static void destroy_wrapped(mapping *m)
{
  if (m->host_release)
    m->host_release(m->user);
}

rush_status mapping_new(call_ctx *cx, const char *name, size_t n_bytes, mapping **out)
{
  mapping *m = header_new(cx->ctx, name ? name : "");

  if (m == NULL)
    return call_nomem(cx);
  m->data = mem_alloc_data(cx->ctx, n_bytes ? n_bytes : 1);
  if (m->data == NULL) {
    mem_free(cx->ctx, m, header_bytes(m->name));
    return call_nomem_bytes(cx, n_bytes);
  }
  m->n_bytes = n_bytes;
  m->destroy = destroy_owned;
  *out = m;
  return RUSH_OK;
}

rush_status mapping_copy(call_ctx *cx, const char *name, const void *data, size_t n_bytes,
                         mapping **out)
{
  mapping *m;

  TRY(mapping_new(cx, name, n_bytes, &m));
  if (n_bytes)
    memcpy(m->data, data, n_bytes);
  *out = m;
  return RUSH_OK;
}

rush_status mapping_wrap(call_ctx *cx, const char *name, void *data, size_t n_bytes,
                         void (*release)(void *user), void *user, mapping **out)
{
  mapping *m = header_new(cx->ctx, name ? name : "");

  if (m == NULL)
    return call_nomem(cx);
  m->data = data ? data : (void *)m->name;
  m->n_bytes = data ? n_bytes : 0;
  m->destroy = destroy_wrapped;
  m->host_release = release;
  m->user = user;
  *out = m;
  return RUSH_OK;
}

bool mapping_may_change(const mapping *m) { return m->destroy == destroy_mapped; }

mapping *mapping_retain(mapping *m)
{
  atomic_fetch_add_explicit(&m->refs, 1, memory_order_relaxed);
  return m;
}

void mapping_release(mapping *m)
{
  if (m == NULL || atomic_fetch_sub_explicit(&m->refs, 1, memory_order_acq_rel) != 1)
    return;
  m->destroy(m);
  mem_free(m->ctx, m, header_bytes(m->name));
}

static void release_deferred(void *m)
{
  mapping_release(m);
}

void mapping_defer(session *s, mapping *m)
{
  session_defer(s, release_deferred, m);
}

/* -- Sources ----------------------------------------------------------------------------------- */

static bool read_fd(void *user, uint64_t offset, void *to, size_t n_bytes)
{
  int fd = *(int *)user;
  uint8_t *p = to;

  while (n_bytes) {
    ssize_t got = pread(fd, p, n_bytes, (off_t)offset);
    if (got < 0 && errno == EINTR)
      continue;
    if (got <= 0)
      return false;
    p += got;
    offset += (uint64_t)got;
    n_bytes -= (size_t)got;
  }
  return true;
}

static rush_status fill_from_reader(call_ctx *cx, mapping *m, const mapping_reader *from)
{
  for (size_t at = 0; at < m->n_bytes;) {
    size_t n = m->n_bytes - at < PIECE_BYTES ? m->n_bytes - at : PIECE_BYTES;
    TRY(call_poll(cx));
    if (!from->read(from->user, at, m->data + at, n))
      return error_set(cx->err, RUSH_EIO, "%s: reading %zu bytes at offset %zu failed", m->name, n,
                       at);
    at += n;
  }
  return RUSH_OK;
}

rush_status mapping_read(call_ctx *cx, const char *name, const mapping_reader *from, mapping **out)
{
  uint64_t n_bytes;
  mapping *m;

  if (!from->size(from->user, &n_bytes))
    return error_set(cx->err, RUSH_EIO, "%s: its size is not known", name ? name : "");
  if (n_bytes > SIZE_MAX / 2)
    return error_set(cx->err, RUSH_EIO, "%s: %llu bytes are more than memory can hold",
                     name ? name : "", (unsigned long long)n_bytes);
  TRY(mapping_new(cx, name, (size_t)n_bytes, &m));
  rush_status st = fill_from_reader(cx, m, from);
  if (st != RUSH_OK) {
    mapping_release(m);
    return st;
  }
  *out = m;
  return RUSH_OK;
}

static rush_status io_error(call_ctx *cx, const char *path)
{
  return error_set(cx->err, RUSH_EIO, "%s: %s", path, strerror(errno));
}

static rush_status map_fd(call_ctx *cx, const char *path, int fd, size_t n_bytes, mapping **out)
{
  mapping *m = header_new(cx->ctx, path);

  if (m == NULL)
    return call_nomem(cx);
  void *p = mmap(NULL, n_bytes, PROT_READ | PROT_WRITE, MAP_PRIVATE, fd, 0);
  if (p == MAP_FAILED) {
    rush_status st = io_error(cx, path);
    mem_free(cx->ctx, m, header_bytes(m->name));
    return st;
  }
  m->data = p;
  m->n_bytes = n_bytes;
  m->destroy = destroy_mapped;
  *out = m;
  return RUSH_OK;
}

static rush_status copy_fd(call_ctx *cx, const char *path, int fd, size_t n_bytes, mapping **out)
{
  mapping_reader from = {NULL, read_fd, &fd};
  mapping *m;

  TRY(mapping_new(cx, path, n_bytes, &m));
  rush_status st = fill_from_reader(cx, m, &from);
  if (st != RUSH_OK)
    mapping_release(m);
  else
    *out = m;
  return st;
}

rush_status mapping_open(call_ctx *cx, const char *path, bool copy, mapping **out)
{
  struct stat info;
  rush_status st;
  int fd = open(path, O_RDONLY | O_CLOEXEC);

  if (fd < 0)
    return io_error(cx, path);
  if (fstat(fd, &info) != 0)
    st = io_error(cx, path);
  else if (!S_ISREG(info.st_mode))
    st = error_set(cx->err, RUSH_EIO, "%s: not a regular file", path);
  else if (copy || info.st_size == 0) /* an empty range cannot be mapped */
    st = copy_fd(cx, path, fd, (size_t)info.st_size, out);
  else
    st = map_fd(cx, path, fd, (size_t)info.st_size, out);
  close(fd);
  return st;
}

/* -- Inputs ------------------------------------------------------------------------------------ */

void input_fail(session *s, const input *in, size_t offset, const char *fmt, ...)
{
  char text[512]; /* a longer message is cut: it quotes the input */
  va_list ap;

  va_start(ap, fmt);
  vsnprintf(text, sizeof text, fmt, ap);
  va_end(ap);
  session_fail_status(s, RUSH_EFORMAT, NULL, NULL, "%s: offset %zu: %s", in->place, offset, text);
}

void input_check(session *s, const input *in, size_t offset, rush_status st)
{
  rush_error *err = s->cx->err;

  if ((st == RUSH_ERAISED || st == RUSH_EARGUMENT) && err) {
    error_prefix(err, "%s: offset %zu", in->place, offset);
    err->status = st = RUSH_EFORMAT;
  }
  session_check(s, st);
}
