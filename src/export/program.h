/* export/program.h -- an exported program as data: all that an archive of torch.export says.
 *
 *     .pt2 --exported_read--> exported_program --exported_write--> .pt2
 *                                  |
 *                                  +--exported_print--> what str(ExportedProgram) shows
 *
 * The graph is in torch.fx's form (fx/graph.h).  What runs is made elsewhere (export/exported.h); a
 * program that only runs is not kept in this form.
 *
 * Texts, arguments and specs are in the program's arena; metadata of nodes, weights and pickles
 * stay in the archive, which the program retains, and are read when they are asked for.
 *
 * Ownership: counted.  Threads: immutable after it is read; the count is atomic. */
#ifndef RUSH_EXPORT_PROGRAM_H
#define RUSH_EXPORT_PROGRAM_H

#include "formats/zip.h"
#include "fx/graph.h"

/* Schema versions of torch/_export/serde/schema.py: a new major changes the meaning of fields, a
 * new minor adds some. */
#define EXPORT_SCHEMA_MAJOR 8
#define EXPORT_SCHEMA_MINOR 20

typedef enum exported_input_kind {
  INPUT_USER,
  INPUT_PARAMETER,
  INPUT_BUFFER,
  INPUT_TENSOR_CONSTANT,
  INPUT_CUSTOM_OBJECT,
  INPUT_TOKEN
} exported_input_kind;
typedef enum exported_output_kind {
  EXPORTED_USER_OUTPUT,
  EXPORTED_LOSS_OUTPUT,
  EXPORTED_BUFFER_MUTATION,
  EXPORTED_PARAMETER_MUTATION,
  EXPORTED_GRADIENT_TO_PARAMETER,
  EXPORTED_GRADIENT_TO_USER_INPUT,
  EXPORTED_USER_INPUT_MUTATION,
  EXPORTED_TOKEN
} exported_output_kind;

/* What a spec says of one value of the graph, or of a constant that has none. */
typedef enum exported_arg_kind {
  ARG_TENSOR,
  ARG_SYM_INT,
  ARG_SYM_FLOAT,
  ARG_SYM_BOOL,
  ARG_CONSTANT,
  ARG_CUSTOM_OBJECT,
  ARG_TOKEN
} exported_arg_kind;
typedef struct exported_arg {
  exported_arg_kind kind;
  const char *name;       /* of the value; "" if a constant has none */
  const char *class_name; /* ARG_CUSTOM_OBJECT */
  fx_arg constant;        /* ARG_CONSTANT */
} exported_arg;
typedef struct program_input {
  exported_input_kind kind;
  bool is_constant_input; /* written as constant_input, not as user_input */
  bool is_persistent;     /* INPUT_BUFFER */
  exported_arg arg;
  const char *target;     /* of state: its name; else NULL */
} program_input;
typedef struct program_output {
  exported_output_kind kind;
  exported_arg arg;
  const char *target; /* what is written; NULL: nothing */
} program_output;

/* A module whose calls the program keeps the structure of; the first, "", is the program. */
typedef struct exported_call_entry {
  const char *fqn;
  bool has_signature;
  exported_arg *inputs, *outputs;
  uint32_t n_inputs, n_outputs;
  str in_spec, out_spec;  /* JSON of torch.utils._pytree */
  const char **arg_names; /* n_arg_names; NULL: not known */
  uint32_t n_arg_names;
} exported_call_entry;

typedef struct exported_bounds {
  str text;               /* the expression as the file has it: "s17 + 1" */
  const expression *expr;
  bool has_min, has_max;
  bool is_used; /* the expression occurs in what is known of values */
  int64_t min, max;
} exported_bounds;

typedef struct exported_program {
  _Atomic uint32_t refs;
  context *ctx; /* retained */
  arena mem;
  zip_archive *zip; /* retained: metadata points into it; NULL: made here */
  struct exported_program *of; /* retained: it has parts of this one; NULL: none */
  mapping *text;    /* retained: the bytes of models/NAME.json */
  const char *name;  /* of the program in its archive */
  const char *place; /* "FILE: models/NAME.json", for errors */
  fx_graph *graph;
  program_input *inputs;
  program_output *outputs;
  exported_call_entry *calls;
  exported_bounds *ranges; /* in the file's order */
  const char **guards;
  const char **dialects;   /* "TRAINING", "ATEN" */
  uint32_t n_inputs, n_outputs, n_calls, n_ranges, n_guards, n_dialects;
  int64_t major, minor;    /* schema */
  str opset_version, metadata, namedtuple_fields; /* JSON, as it was; empty: none */
  fx_unknown *unknown, *module_unknown;           /* of the file, of its graph_module */
  const char *torch_version;
} exported_program;

/* Make an empty program; released when the session ends unless session_keep is called. */
exported_program *exported_program_new(session *s);
exported_program *exported_program_retain(exported_program *p);
void exported_program_release(exported_program *p); /* p may be NULL */

/* Print as str(ExportedProgram). */
void exported_print(session *s, text_buf *out, const exported_program *p);

#endif
