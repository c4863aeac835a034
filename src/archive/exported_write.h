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

typedef struct exported_tensor { /* of a program's state */
  const char *name;
  bool is_constant;    /* of the archive's constants, not its weights */
  bool is_parameter;
  rush_tensor *tensor;
} exported_tensor;
/* What is written: a program, and its present state. */
typedef struct exported_source {
  const zip_archive *zip;       /* of which other programs and records are copied; NULL: none */
  const exported_program *data;
  const exported_tensor *state; /* n_state; what the archive has beside them is copied */
  uint32_t n_state;
  const mapping *samples;       /* of a program without an archive; or NULL */
} exported_source;
rush_status exported_write_source(call_ctx *cx, const exported_source *from,
                                  const archive_target *to) RUSH_CHECKED;
/* List a module's state in the session's memory; tensors are borrowed. */
exported_tensor *exported_list_state(session *s, const module *m, const exported_program *p,
                                     uint32_t *n);
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
