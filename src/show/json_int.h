/* show/json_int.h -- shared by the files that print programs as JSON.
 *
 *   json.c           functions, nodes, operators, sources
 *   json_exported.c  what the file of an exported program says of its nodes: shapes, modules, the
 *                    author's lines */
#ifndef RUSH_SHOW_JSON_INT_H
#define RUSH_SHOW_JSON_INT_H

#include "show/show.h"

#include "fx/graph.h"

typedef struct json_exported json_exported;

/* Read what the file says; NULL: the module is no exported program. */
json_exported *json_exported_new(session *s, const module *m);
/* Append what is known of a value: "float32[s77, 4]", "int s77"; false: nothing.  *is_tensor: it is
 * a tensor, with its shape. */
bool json_exported_type(json_exported *x, text_buf *out, const ir_value *v, bool *is_tensor);
/* Append the members "module" (an index of "modules") and "at" (an index of "sources", a line) of a
 * node; returns false if the author's line is not known: then there is no "at". */
bool json_exported_place(json_exported *x, text_buf *out, const ir_node *n);
/* Append ',"modules":[{"path", "class", "outer": index or null}...]', of those that were named. */
void json_exported_modules(json_exported *x, text_buf *out);
/* Append the author's files to "sources": the lines that nodes come from, the others empty. */
void json_exported_sources(json_exported *x, text_buf *out);

#endif
