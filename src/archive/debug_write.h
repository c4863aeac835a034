/* archive/debug_write.h -- NAME.py.debug_pkl: which of the author's texts each part of NAME.py came
 * from (origins.c has the form).  Code that was itself read from an archive refers to what that
 * archive said. */
#ifndef RUSH_ARCHIVE_DEBUG_WRITE_H
#define RUSH_ARCHIVE_DEBUG_WRITE_H

#include "script/print/print.h"

typedef struct debug_writer debug_writer;

debug_writer *debug_writer_new(session *s, program *p);
/* The record's bytes, session memory; empty: nothing is known. */
str debug_write(debug_writer *d, const script_row *rows, uint32_t n);

#endif
