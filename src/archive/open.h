/* archive/open.h -- programs and values from files, memory and readers, whatever their form. */
#ifndef RUSH_ARCHIVE_OPEN_H
#define RUSH_ARCHIVE_OPEN_H

#include "formats/mapping.h"
#include "module/module.h"

/* Where an archive comes from: exactly one of path, data, read. */
typedef struct archive_source {
  const char *path;
  const void *data;
  uint64_t n_bytes; /* of data or behind read */
  void (*deleter)(void *user, void *data); /* data: NULL means copy */
  int (*read)(void *user, uint64_t offset, void *buffer, size_t n);
  void *user;
  const char *name; /* for messages; NULL: the path, or "archive" */
  const char *program; /* of several exported ones; NULL: "model", or the only one */
  bool check_full, copy, meta;
} archive_source;

/* Opens either format (told apart by their records).  *out is new. */
rush_status module_load(call_ctx *cx, const archive_source *from, module **out) RUSH_CHECKED;
/* The source's bytes, mapped or copied; released with the session. */
mapping *archive_map(session *s, const archive_source *from);
/* Compile what such a call would, changing nothing that a later call could see.  args and kwargs
 * NULL: the sample inputs or, without them, what the method's code names (rush_module_prepare). */
rush_status module_prepare(call_ctx *cx, module *m, const char *method, const rush_value *args,
                           uint32_t n_args, const named_arg *kwargs,
                           uint32_t n_kwargs) RUSH_CHECKED;
/* The sample inputs of an exported program: a tuple of a tuple and a dict with texts as keys, new;
 * or None. */
rush_status module_samples(call_ctx *cx, module *m, rush_value *out) RUSH_CHECKED;
/* A value from a torch.save file of plain data, .npy, .npz, .safetensors.  New. */
rush_status value_load(call_ctx *cx, const archive_source *from, rush_value *out) RUSH_CHECKED;
/* Write one in the format that the path's end names (rush_value_save; value_write.c). */
rush_status value_save(call_ctx *cx, const char *path, rush_value v) RUSH_CHECKED;

#endif
