/* archive/exported_program.h -- reading torch.export archives (.pt2): model.json, weights, constants. */
#ifndef RUSH_ARCHIVE_EXPORTED_PROGRAM_H
#define RUSH_ARCHIVE_EXPORTED_PROGRAM_H

#include "archive/module.h"
#include "formats/zip.h"

/* Fills program, object, format and exported of `m`. */
void exported_program_load(session *s, zip_archive *z, module *m);

#endif
