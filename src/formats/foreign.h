/* formats/foreign.h -- files that are often taken for models, told by their first bytes. */
#ifndef RUSH_FORMATS_FOREIGN_H
#define RUSH_FORMATS_FOREIGN_H

#include <stddef.h>

/* What a file that is no archive is, and what to do instead: "an ONNX model: ...", static; NULL:
 * nothing that is known. */
const char *foreign_kind(const void *data, size_t n_bytes);

#endif
