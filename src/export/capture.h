/* export/capture.h -- makes exported programs of functions that we have as graphs, as
 * torch.export.export does of Python: by running them on facts instead of tensors.
 *
 *     function of ir/program.h + arguments --capture_function--> exported_program
 *
 * Operators on tensors become nodes, and their shape rules say what the results look like.
 * Everything else is computed: numbers, lists, dicts, objects, branches and loops of what is known.
 * The sizes that the caller names stay symbols: what depends on them is a symbolic number, and a
 * decision on one holds for all sizes in range, or is an error (a Dim), or becomes a guard
 * (Dim.AUTO).  What depends on data is an error that names the line.
 *
 * The program is of the TRAINING dialect: operators as they were called, in-place ones included.
 *
 * Threads: the caller holds the lock of the object's state. */
#ifndef RUSH_EXPORT_CAPTURE_H
#define RUSH_EXPORT_CAPTURE_H

#include "export/program.h"
#include "ir/program.h"

#define CAPTURE_AUTO_RANGE INT64_MAX /* `most` of a dimension without an upper bound */

/* A dimension of an input whose size may vary. */
typedef struct capture_dim {
  /* "x", "xs[0]", "named['key']"; NULL: every tensor that has the dimension, of the size that the
   * first of them has there */
  const char *input;
  int dim; /* 0 is the first */
  const char *name;  /* equal names are one size: a Dim; NULL: Dim.AUTO, a size of its own */
  int64_t least, most;
  int64_t factor, offset; /* the size is factor*n + offset, n being described; factor 0: it is n */
  uint32_t symbol;        /* the number of its symbol and 1; 0: any */
  bool is_dynamic;        /* without a name: it must not be fixed */
} capture_dim;

/* How arguments and results are nested, whose leaves the function takes and returns: see
 * rush_export_structure. */
typedef struct capture_structure {
  const char *in_spec, *out_spec;
  const char *const *arg_names, *const *names, *const *texts, *const *temporary, *const *classes;
  size_t n_arg_names, n_leaves, n_temporary, n_classes; /* n_classes pairs */
} capture_structure;

/* How an argument of the example was given: one that was not is a constant of the program. */
typedef enum capture_given { CAPTURE_DEFAULT, CAPTURE_BY_POSITION, CAPTURE_BY_NAME } capture_given;

typedef struct capture_options {
  const capture_dim *dims;
  uint32_t n_dims;
  const capture_given *given; /* of each argument; NULL: all by position */
  const capture_structure *structure; /* or NULL */
  text_buf *report; /* NULL, or what would be refused, where there is a way to go on */
  struct capture_place *place; /* where the capture is, also after it has failed; or NULL */
} capture_options;

typedef struct capture_place {
  function *in;
  source_range range; /* of its text; src NULL: no text is known */
} capture_place;

/* Capture a call of f with complete arguments (args[0] is the object of a method).  `state`
 * receives the program's tensors by name (rush_tensor *, borrowed), for exported_lower.  The
 * program is released when the session ends unless session_keep is called.  Leaves the session with
 * RUSH_EUNSUPPORTED for what cannot be exported. */
exported_program *capture_function(session *s, function *f, const rush_value *args,
                                   uint32_t n_args, const capture_options *options, table *state);

#endif
