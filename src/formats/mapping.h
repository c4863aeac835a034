/* formats/mapping.h -- refcounted blocks of file bytes, and inputs, which are parts of them.
 *
 * A mapping is one contiguous block: a mapped file (private and copy on write: writing to `data`
 * never changes the file), a copy of one, bytes from a reader callback, or memory from the caller.
 * Everything that points into a file's bytes for longer than a session (a tensor's storage) retains
 * the mapping. If another process truncates a mapped file, its pages fault: use `copy` for files
 * that may change while open.
 *
 * An input is the argument of the readers in this folder: bytes, and the name to show in errors.
 * It borrows both.
 *
 * Threads: the count is atomic; `data` is ordinary memory. */
#ifndef RUSH_FORMATS_MAPPING_H
#define RUSH_FORMATS_MAPPING_H

#include "base/session.h"

typedef struct mapping {
  _Atomic uint32_t refs;
  context *ctx;    /* borrowed */
  char *name;      /* file name for errors; never NULL */
  uint8_t *data;   /* writable; at least 64-byte aligned unless wrapped; not NULL even when empty */
  size_t n_bytes;
  void (*destroy)(struct mapping *m); /* private: frees `data` */
  void (*host_release)(void *user);   /* for wrapped memory, or NULL */
  void *user;
} mapping;

/* Bytes that the host can read.  Both functions return false on failure. */
typedef struct mapping_reader {
  bool (*size)(void *user, uint64_t *n_bytes);
  bool (*read)(void *user, uint64_t offset, void *to, size_t n_bytes); /* exactly n_bytes */
  void *user;
} mapping_reader;

/* Map the file (`copy`: read it instead).  RUSH_EIO names the path and the system's reason. */
rush_status mapping_open(call_ctx *cx, const char *path, bool copy, mapping **out) RUSH_CHECKED;
/* Read everything through callbacks, in pieces of 1 MB, with polls between. */
rush_status mapping_read(call_ctx *cx, const char *name, const mapping_reader *from,
                         mapping **out) RUSH_CHECKED;
/* Make a block of our own, not initialised: fill `data` before sharing it. */
rush_status mapping_new(call_ctx *cx, const char *name, size_t n_bytes, mapping **out) RUSH_CHECKED;
/* Like mapping_new, filled with a copy of the caller's bytes. */
rush_status mapping_copy(call_ctx *cx, const char *name, const void *data, size_t n_bytes,
                         mapping **out) RUSH_CHECKED;
/* True if another process may change the bytes: a mapped file. */
bool mapping_may_change(const mapping *m);
/* Wrap the caller's memory without a copy: it must remain valid, and may be written to, until
 * release(user) is called (NULL: no call).  On failure release is not called. */
rush_status mapping_wrap(call_ctx *cx, const char *name, void *data, size_t n_bytes,
                         void (*release)(void *user), void *user, mapping **out) RUSH_CHECKED;
mapping *mapping_retain(mapping *m);
void mapping_release(mapping *m); /* m may be NULL */
/* Release m when the session ends, unless session_keep is called: call it as soon as m exists. */
void mapping_defer(session *s, mapping *m);

typedef struct input {
  const char *place; /* "model.pt: data.pkl"; shown before the offset */
  str bytes;
} input;

static inline input input_of_mapping(const mapping *m)
{
  return (input){m->name, {(const char *)m->data, m->n_bytes}};
}
/* Leave the session with RUSH_EFORMAT: "PLACE: offset N: message". */
_Noreturn void input_fail(session *s, const input *in, size_t offset, const char *fmt, ...)
    RUSH_PRINTF(4, 5);
/* Like session_check, for an object made from the input at `offset`: a refusal becomes RUSH_EFORMAT
 * and names the place. */
void input_check(session *s, const input *in, size_t offset, rush_status st);

#endif
