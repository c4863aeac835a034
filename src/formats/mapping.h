/* formats/mapping.h -- refcounted blocks of file bytes, and inputs cut from them.
 *
 * A mapping is one contiguous block: a mapped file (private and copy on write: writing to `data`
 * never reaches the file), a copy of one, what a reader callback gave, or memory handed over.
 * Everything that points into a file's bytes for longer than a session (a tensor's storage) retains
 * the mapping. A mapped file that another process truncates makes its pages fault: use `copy` for
 * files that may change while open.
 *
 * An input is what the readers of this folder take: bytes, and the name to show in errors.  It
 * borrows.
 *
 * Threads: the count is atomic; `data` is memory like any other. */
#ifndef RUSH_FORMATS_MAPPING_H
#define RUSH_FORMATS_MAPPING_H

#include "base/session.h"

typedef struct mapping {
  _Atomic uint32_t refs;
  context *ctx;    /* borrowed */
  char *name;      /* file name as shown in errors; never NULL */
  uint8_t *data;   /* writable; at least 64-byte aligned unless wrapped; not NULL even when empty */
  size_t n_bytes;
  void (*destroy)(struct mapping *m); /* private: how `data` goes */
  void (*host_release)(void *user);   /* of wrapped memory, or NULL */
  void *user;
} mapping;

/* Bytes that the host has somewhere.  Both return false when they cannot. */
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
/* A block of our own, not initialised: fill `data` before sharing it. */
rush_status mapping_new(call_ctx *cx, const char *name, size_t n_bytes, mapping **out) RUSH_CHECKED;
/* The same, filled with a copy of the caller's bytes. */
rush_status mapping_copy(call_ctx *cx, const char *name, const void *data, size_t n_bytes,
                         mapping **out) RUSH_CHECKED;
/* True when another process may change the bytes: a mapped file. */
bool mapping_may_change(const mapping *m);
/* The caller's memory, no copy: it must stay valid and may be written to until release(user) is
 * called (NULL: nobody is told).  On failure release is not called. */
rush_status mapping_wrap(call_ctx *cx, const char *name, void *data, size_t n_bytes,
                         void (*release)(void *user), void *user, mapping **out) RUSH_CHECKED;
mapping *mapping_retain(mapping *m);
void mapping_release(mapping *m); /* NULL is fine */
/* Release m when the session ends, unless session_keep'ed: call it the moment m exists. */
void mapping_defer(session *s, mapping *m);

typedef struct input {
  const char *place; /* "model.pt: data.pkl"; shown before the offset */
  str bytes;
} input;

static inline input input_of_mapping(const mapping *m)
{
  return (input){m->name, {(const char *)m->data, m->n_bytes}};
}
/* Leave with RUSH_EFORMAT: "PLACE: offset N: message". */
_Noreturn void input_fail(session *s, const input *in, size_t offset, const char *fmt, ...)
    RUSH_PRINTF(4, 5);
/* session_check for what was made as the input says at `offset`: a refusal becomes RUSH_EFORMAT and
 * names the place. */
void input_check(session *s, const input *in, size_t offset, rush_status st);

#endif
