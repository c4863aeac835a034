/* formats/safetensors.h -- the directory of a .safetensors file, as Hugging Face defines it.
 *
 * Checked: header length, unique names, known dtypes, sizes times item equal to the range, ranges
 * inside the file, without overlaps and gaps.  Results live in session memory; data remains in the
 * input. */
#ifndef RUSH_FORMATS_SAFETENSORS_H
#define RUSH_FORMATS_SAFETENSORS_H

#include "formats/mapping.h"

typedef struct safetensors_entry {
  str name;
  rush_dtype dtype;
  uint32_t n_dims;
  int64_t *sizes;
  size_t data;    /* offset in the input */
  size_t n_bytes;
} safetensors_entry;
typedef struct safetensors {
  uint32_t n_entries;
  safetensors_entry *entries; /* in the header's order */
  uint32_t n_metadata;        /* of __metadata__ */
  str *metadata;              /* key, value, ... */
} safetensors;

bool safetensors_looks_like(const void *data, size_t n_bytes);
safetensors *safetensors_read(session *s, const input *in);

#endif
