/* formats/foreign.h -- recognises files that are often mistaken for models, by their first
 * bytes. */
#ifndef RUSH_FORMATS_FOREIGN_H
#define RUSH_FORMATS_FOREIGN_H

#include <stddef.h>

/* Describe a file that is not an archive, and what to do instead: "an ONNX model: ...", static;
 * NULL: unknown. */
const char *foreign_kind(const void *data, size_t n_bytes);

#endif
