/* archive/exported_open.h -- an exported program that is open: its data, and with it the archive
 * from which state, sample inputs and what runs are read when they are asked for
 * (rush_exported_program).
 *
 * Ownership: counted.  Threads: what is read later is read under a lock, once. */
#ifndef RUSH_ARCHIVE_EXPORTED_OPEN_H
#define RUSH_ARCHIVE_EXPORTED_OPEN_H

#include "archive/exported_write.h"
#include "archive/open.h"
#include "export/decompose.h"

typedef struct rush_exported_program exported_open;
struct rush_exported_program {
  _Atomic uint32_t refs;
  context *ctx;               /* retained */
  exported_program *data;     /* owned */
  program *types;             /* owned; for classes in pickles */
  arena mem;
  table extra_files;          /* name -> text (str *) */
  const char *opset;          /* JSON; "": none */
  mapping *samples;           /* owned; NULL: none */
  call_lock *lock;            /* of what is below */
  bool has_state;
  exported_tensor *state;     /* n_state, in the archive's order; tensors owned; set once */
  uint32_t n_state;
};

/* Open the program that a module is, with its present state; *out is new.  The caller holds the
 * module's lock. */
rush_status exported_open_of_module(call_ctx *cx, const module *m,
                                    exported_open **out) RUSH_CHECKED;
/* Read a program; *out is new. */
rush_status exported_open_new(call_ctx *cx, const archive_source *from,
                              exported_open **out) RUSH_CHECKED;
exported_open *exported_open_retain(exported_open *o);
void exported_open_release(exported_open *o); /* o may be NULL */
/* Read the state, if it was not. */
rush_status exported_open_state(call_ctx *cx, exported_open *o) RUSH_CHECKED;
/* Make a module that runs the program on its state, with or without its guards; *out is
 * new. */
rush_status exported_open_module(call_ctx *cx, exported_open *o, bool check_guards,
                                 module **out) RUSH_CHECKED;
/* Write the program with its state. */
rush_status exported_open_write(call_ctx *cx, exported_open *o,
                                const archive_target *to) RUSH_CHECKED;
/* Make the program over fewer operators (export/decompose.h), with the same state; *out is new. */
rush_status exported_open_decompose(call_ctx *cx, exported_open *o,
                                    const decompose_table *ops,
                                    exported_open **out) RUSH_CHECKED;
/* Append a line for each rule that the program breaks (export/verify.h). */
rush_status exported_open_verify(call_ctx *cx, const exported_open *o, const char *dialect,
                                 text_buf *out) RUSH_CHECKED;

#endif
