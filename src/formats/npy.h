/* formats/npy.h -- the header of .npy files, versions 1 to 3.
 *
 * Structured, object, text and date arrays are refused, with their name.  Big-endian data is
 * reported, not swapped. */
#ifndef RUSH_FORMATS_NPY_H
#define RUSH_FORMATS_NPY_H

#include "formats/mapping.h"

enum { NPY_MAX_DIMS = 64 };
typedef struct npy_header {
  rush_dtype dtype;
  bool big_endian;
  bool fortran_order; /* the first dimension is dense */
  uint32_t n_dims;
  int64_t sizes[NPY_MAX_DIMS];
  size_t data;        /* offset of the first element */
  size_t data_bytes;  /* product of sizes and item; inside the input */
} npy_header;

bool npy_looks_like(const void *data, size_t n_bytes);
void npy_read(session *s, const input *in, npy_header *out);

#endif
