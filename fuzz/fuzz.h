/* fuzz/fuzz.h -- what the fuzz targets share.
 *
 * A target is a function fuzz_NAME(data, n) that hands the bytes to one reader through its real
 * entry, in a new context with limits.  Any failure is fine; a crash, a hang, a leak, or an error
 * without a message is not, and aborts.  fuzz/entry.c makes libFuzzer programs of them,
 * fuzz/replay.c one program that runs saved inputs. `source` is mutated by the language's grammar:
 * fuzz/mutate_source.c.
 *
 *   zip      formats/zip.c                    the bytes are an archive
 *   pickle   formats/pickle.c, archive/unpickle.c, saved.c
 *                                             the bytes are data.pkl of an archive of sections; or
 *                                             a whole file
 *   model    formats/json.c, archive/exported_*.c
 *                                             the bytes are models/model.json of an archive of
 *                                             sections
 *   source   script/ whole, passes/ of the front end
 *                                             the bytes are code/__torch__.py of an archive of
 *                                             sections; or a file
 *   schema   value/schema.c                   the bytes are a schema
 *   ir       ir/parse.c, parse_atoms.c        the bytes are a graph
 *   archive  archive/: .pt, .pt2 and all that value_load reads; the bytes are a file
 *   export   archive/exported_*.c, fx/, export/
 *                                             models/model.json of an archive of sections, or a
 *                                             whole .pt2: read as data, printed, verified, run,
 *                                             written
 *   operators
 *            ops/, tensor/, shape/            an operator's name, and bytes that choose its
 *            arguments: fuzz_operators.c;
 *                                             mutated by fuzz/mutate_operators.c
 *
 * An archive of sections is packed by the target, so that checksums hold: the main record first,
 * others behind lines `@@PATH`, and what is not given has a default. */
#ifndef RUSH_FUZZ_FUZZ_H
#define RUSH_FUZZ_FUZZ_H

#include "archive/open.h"
#include "module/module.h"
#include "base/session.h"
#include "base/text.h"

typedef int fuzz_target(const uint8_t *data, size_t n);
fuzz_target fuzz_zip, fuzz_pickle, fuzz_model, fuzz_source, fuzz_schema, fuzz_ir, fuzz_archive,
  fuzz_operators, fuzz_export;

/* Write a new input of fuzz_operators to data: an operator that is chosen at random, and random
 * bytes.  Returns its length, at most max.  The seed moves on. */
size_t fuzz_operators_new(uint8_t *data, size_t max, uint64_t *seed);

/* Print `what` and abort unless good. */
void fuzz_demand(bool good, const char *what);

/* Print both and abort unless they are the same. */
void fuzz_same_text(const char *once, const char *twice);

/* Run the body in a session of a new context; some inputs a second time with an allocation that
 * fails. */
typedef void fuzz_body(session *s, str text);
void fuzz_session(const uint8_t *data, size_t n, fuzz_body *body);
/* From now on each input is run so many times more, each time with another allocation that fails.
 * */
void fuzz_fail_allocations(long n);
long fuzz_n_failures(void);
/* Print the message of each input that fails. */
void fuzz_show_errors(void);
bool fuzz_is_verbose(void);

/* The allocations of a context, counted. */
typedef struct fuzz_counter {
  _Atomic long n_blocks, n_allocations;
  long fail_at; /* the allocation that fails, or -1 */
} fuzz_counter;
/* Return options of a context whose memory is counted: 256 MB, 2 seconds, nothing printed. */
context_options fuzz_options(fuzz_counter *count);
/* Abort, after the context is released, if blocks are left; sanitizers report where they were
 * allocated. */
void fuzz_check_blocks(const fuzz_counter *count);
/* Check the error of a failure; for bodies that continue after an inner failure. */
void fuzz_check_error(rush_status st, const rush_error *err);

/* -- Archives of sections ---------------------------------------------------------------------- */

typedef struct fuzz_record {
  const char *path;
  str bytes;
} fuzz_record;

/* Return the part of the text before the first section. */
str fuzz_main(str text);
/* Return the packed archive, in the session's memory.  The text's first part is the record
 * `main`. */
str fuzz_pack(session *s, const char *main, str text, const fuzz_record *defaults,
              size_t n_defaults);
/* Load as a program, compile all methods, release.  `run`: and call them. */
void fuzz_use_module(session *s, str bytes, const char *name, bool check_full, bool run);
/* Print a module's code and graphs, and call its methods, each for `ms` at most. */
void fuzz_show_module(session *s, module *m, uint32_t ms);
/* Load as plain data and release. */
void fuzz_use_value(session *s, str bytes, const char *name);

#endif
