/* archive/exported_write.h -- archives of torch.export, from programs as data (export/program.h).
 *
 *   exported_write_package.c  the records of an archive, weights among them
 *   exported_write.c          models/NAME.json without its graph: signature, ranges, module calls
 *   exported_write_graph.c    graphs, nodes, arguments, what is known of values
 *
 * What is written is of schema 8.20 (of a newer minor if the program has one, since its unknown
 * members are kept), as PyTorch 2.13 writes it, and torch.export.load opens it.  The same program
 * and state give the same bytes. */
#ifndef RUSH_ARCHIVE_EXPORTED_WRITE_H
#define RUSH_ARCHIVE_EXPORTED_WRITE_H

#include "archive/exported_read.h"
#include "archive/write.h"

/* Write the archive that the module was made from, with the module's present state; `m` is an
 * exported program.  Other programs and records of the archive are copied. */
rush_status exported_write(call_ctx *cx, const module *m, const archive_target *to) RUSH_CHECKED;

/* -- Shared by the files above ----------------------------------------------------------------- */

/* Append models/NAME.json. */
void write_model(session *s, text_buf *out, const exported_program *p);
/* Append an object of graph. */
void write_graph(session *s, text_buf *out, const fx_graph *g);
/* Append an argument that names no node. */
void write_constant(session *s, text_buf *out, const fx_arg *a);
/* Append the members of `list`, in the file's order, each behind ", ". */
void write_unknown(session *s, text_buf *out, const fx_unknown *list);
/* Append ", " if something is in `out` behind `start`, its length at the start of a list. */
void write_comma(text_buf *out, size_t start);
/* Append a text as JSON. */
void write_text(text_buf *out, const char *text);

#endif
