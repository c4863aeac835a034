/* archive/exported_program.h -- reading torch.export archives (.pt2): model.json, weights,
 * constants. */
#ifndef RUSH_ARCHIVE_EXPORTED_PROGRAM_H
#define RUSH_ARCHIVE_EXPORTED_PROGRAM_H

#include "module/module.h"
#include "formats/zip.h"

/* Choose the name of the program to open: the requested one, or with NULL "model" or the only one.
 * Borrowed from z or the caller.  Leaves the session if there is none, or several to choose from
 * (exported_package.c). */
str exported_choose(session *s, const zip_archive *z, const char *program);
/* Return the record of that program's sample inputs, which torch.export.save writes: new, or NULL.
 * Its content is not read. */
mapping *exported_samples(session *s, const zip_archive *z, str program);
/* Get the value of such a record: a tuple of a tuple and a dict with strings as keys, new; or None
 * if `samples` is NULL.  Classes are made in `types`. */
rush_status exported_samples_value(call_ctx *cx, const mapping *samples, program *types,
                                   rush_value *out) RUSH_CHECKED;
/* Put the tensors of the program of that name into `state`, which is empty: name -> rush_tensor,
 * the session's.  The first *n_weights are parameters and buffers, the others constants. */
void exported_state_read(session *s, zip_archive *z, str name, program *types, table *state,
                         uint32_t *n_weights);
/* Fill object, format and exported of `m`, which has an empty program, from the program of that
 * name with that state, with or without the program's guards. */
void exported_module_fill(session *s, zip_archive *z, str name, const table *state,
                          bool check_guards, module *m);
/* Read state, then fill `m`. */
void exported_program_load(session *s, zip_archive *z, str name, module *m);
/* Append a line for each rule that a program, of archive z or (NULL) captured here, breaks
 * (export/verify.h); returns their number. */
uint32_t exported_faults(session *s, zip_archive *z, const exported_program *p,
                         const char *dialect, text_buf *out);
/* Fill `m` from a program's text (export/text.h), with the state and records of `weights`. */
void exported_program_parse(session *s, const char *place, str text, const module *weights,
                            module *m);

#endif
