/* archive/exported_read.h -- archives of torch.export as data (export/program.h).
 *
 *   exported_read.c        the parts of models/NAME.json, signature, ranges, module calls
 *   exported_read_graph.c  graphs, nodes, arguments
 *   exported_read_val.c    what is known of values: tensors, symbolic numbers */
#ifndef RUSH_ARCHIVE_EXPORTED_READ_H
#define RUSH_ARCHIVE_EXPORTED_READ_H

#include "export/program.h"
#include "formats/json.h"
#include "module/module.h"

typedef enum exported_for {
  EXPORTED_AS_DATA, /* everything */
  EXPORTED_TO_RUN   /* without metadata, and what is known only of inputs, outputs and numbers: the
                     * program is to be lowered in this session */
} exported_for;
/* Read a program of an archive; released when the session ends unless session_keep is called. */
exported_program *exported_read(session *s, zip_archive *z, str program, exported_for use);
/* Let the program's messages name the lines of its author, from models/NAME.json. */
void exported_attach_places(session *s, program *p, zip_archive *z, str name);
/* Read the program that the module was made from; leaves the session if it was none. */
exported_program *exported_of_module(session *s, const module *m);

/* -- Shared by the files above ----------------------------------------------------------------- */

typedef struct graph_parts { /* of an object of graph: raw JSON, empty: not given */
  str inputs, outputs, nodes, is_single;
  str values[FX_VAL_OBJECT + 1]; /* what is known of values, by kind */
  fx_unknown *unknown;
} graph_parts;
/* An item of a list of values, to be set when values are described. */
typedef struct list_item {
  const fx_val **slot;
  const fx_node *node;
} list_item;
typedef struct read_scope { /* of one graph */
  fx_graph *graph;
  table nodes;      /* name of a value -> fx_node */
  table inner;      /* name of a graph inside -> its JSON (str *) */
  list_item *items; /* n_items */
  uint32_t n_items, cap_items;
} read_scope;
typedef struct program_reader {
  session *s;
  exported_program *p;
  input in;          /* models/NAME.json */
  exported_for use;
  read_scope *scope; /* of the graph being read */
  table exprs;       /* text of an expression -> expression */
  table ranges;      /* text of an expression with a range -> exported_bounds */
  bool ranges_of_symbols; /* all ranges are */
  bool in_offset;         /* the number being read is a tensor's offset in its memory */
} program_reader;

/* Copy a text into the program's memory; NUL in it is refused. */
const char *read_keep(program_reader *r, json *j, str text);
/* Allocate n zeroed items in the program's memory. */
void *read_keep_array(program_reader *r, size_t n, size_t item);

/* The members of a graph, to be kept as raw JSON: GRAPH_PARTS items, whose texts go to *p. */
typedef struct part {
  const char *name;
  str *raw;
  const struct part *inside; /* its members, instead of its text: n_inside */
  size_t n_inside;
  fx_unknown **unknown;      /* with `inside`: where members that have no part go; NULL: nowhere */
} part;
#define GRAPH_PARTS 9
void graph_parts_of(graph_parts *p, part out[GRAPH_PARTS]);
/* Split an object into members, in one scan.  Others go to *unknown (NULL: nowhere). */
void split_object(program_reader *r, json *j, const part *parts, size_t n, fx_unknown **unknown);
/* Keep the value of a member that is not known here, before those that were kept; to run, skip
 * it. */
void read_unknown(program_reader *r, json *j, str name, fx_unknown **list);
/* Read a graph; inputs of the outermost graph are named as in the signature. */
fx_graph *read_graph(program_reader *r, const graph_parts *p, bool is_outermost);
/* Read an argument: an object with one member, which names its kind. */
fx_arg read_argument(program_reader *r, json *j);
/* Read a plain constant, the member `kind` of an argument. */
fx_arg read_constant(program_reader *r, json *j, str kind);
/* Read the schema's number; returns PyTorch's dtype, or operators' number of the layout. */
int read_schema_dtype(json *j);
int64_t read_schema_layout(json *j);
/* The schema's numbers of ours. */
int schema_dtype_of(int64_t dtype);
int schema_layout_of(int64_t layout);
int schema_memory_format_of(int64_t format);
/* Read a device as its text, "cpu" or "cuda:0". */
const char *read_device_text(program_reader *r, json *j);

/* Read an expression, {"expr_str": ..., "hint": ...}, or a number. */
fx_number read_number(program_reader *r, json *j);
const expression *read_expression(program_reader *r, str text);
/* Read what is known of values, for the scope's nodes; to run: of inputs, outputs and numbers. */
void read_descriptions(program_reader *r, const graph_parts *p);

#endif
