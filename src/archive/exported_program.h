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
/* Fill program, object, format and exported of `m` from the program of that name. */
void exported_program_load(session *s, zip_archive *z, str program, module *m);
/* Append a line for each rule that the program breaks (export/verify.h); returns their number. */
uint32_t exported_faults(session *s, zip_archive *z, str program, const char *dialect,
                         text_buf *out);

#endif
