/* archive/debug_write.h -- writes NAME.py.debug_pkl: the position in the author's texts that each
 * part of NAME.py came from (origins.c documents the format).  Code that was itself read from an
 * archive refers to that archive's records. */
#ifndef RUSH_ARCHIVE_DEBUG_WRITE_H
#define RUSH_ARCHIVE_DEBUG_WRITE_H

#include "script/print/print.h"

typedef struct debug_writer debug_writer;

debug_writer *debug_writer_new(session *s, program *p);
/* Return the record's bytes, in session memory; empty if nothing is known. */
str debug_write(debug_writer *d, const script_row *rows, uint32_t n);

#endif
