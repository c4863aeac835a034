/* archive/open.h -- programs and values from files, memory and readers, in any format. */
#ifndef RUSH_ARCHIVE_OPEN_H
#define RUSH_ARCHIVE_OPEN_H

#include "formats/mapping.h"
#include "formats/output.h"
#include "formats/zip.h"
#include "module/module.h"

/* An archive's source: exactly one of path, data, read. */
typedef struct archive_source {
  const char *path;
  const void *data;
  uint64_t n_bytes; /* of data, or provided by read */
  void (*deleter)(void *user, void *data); /* data: NULL means copy */
  int (*read)(void *user, uint64_t offset, void *buffer, size_t n);
  void *user;
  const char *name; /* which of several exported programs; NULL: "model", or the only one */
  const char *program; /* of several exported ones; NULL: "model", or the only one */
  bool check_full, copy, meta;
} archive_source;

/* Load either format (recognised by its records).  *out is new. */
rush_status module_load(call_ctx *cx, const archive_source *from, module **out) RUSH_CHECKED;
/* Append a line for each rule that an exported program breaks (export/verify.h), without making it
 * ready to run; *is_exported is false, and nothing is appended, if the file holds none. */
rush_status archive_verify(call_ctx *cx, const archive_source *from, const char *dialect,
                           text_buf *faults, bool *is_exported) RUSH_CHECKED;
/* Make a module of an exported program's text (export/text.h) with the weights of another, an
 * exported one; `place` names the text in errors.  *out is new. */
rush_status module_parse_export(call_ctx *cx, module *weights, const char *place, str text,
                                module **out) RUSH_CHECKED;
/* Return the source's bytes, mapped or copied; released with the session. */
mapping *archive_map(session *s, const archive_source *from);
/* Put the files that the author added to an archive into `files`: name -> text (str *) in `mem`. */
void archive_extra_files(session *s, const zip_archive *z, arena *mem, table *files);
/* Compile everything that such a call would compile, without a change that a later call could
 * observe.  args and kwargs NULL: the sample inputs or, without them, what the method's code refers
 * to (rush_module_prepare). */
rush_status module_prepare(call_ctx *cx, module *m, const char *method, const rush_value *args,
                           uint32_t n_args, const named_arg *kwargs,
                           uint32_t n_kwargs) RUSH_CHECKED;
/* Get the sample inputs of an exported program: a tuple of a tuple and a dict with strings as keys,
 * new; or None. */
rush_status module_samples(call_ctx *cx, module *m, rush_value *out) RUSH_CHECKED;
/* Make the arguments of a call the program's sample inputs. */
rush_status module_set_samples(call_ctx *cx, module *m, const rush_value *args, uint32_t n_args,
                               const named_arg *kwargs, uint32_t n_kwargs) RUSH_CHECKED;
/* Load a value from a torch.save file of plain data, .npy, .npz, .safetensors.  New. */
rush_status value_load(call_ctx *cx, const archive_source *from, rush_value *out) RUSH_CHECKED;
/* Write a value as torch.save does. */
void value_write_saved(session *s, rush_value v, const output *file);
/* Write a value in the format given by the path's suffix (rush_value_save; value_write.c). */
rush_status value_save(call_ctx *cx, const char *path, rush_value v) RUSH_CHECKED;

#endif
