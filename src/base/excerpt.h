/* base/excerpt.h -- which part of a source is shown in messages (source_excerpt). */
#ifndef RUSH_BASE_EXCERPT_H
#define RUSH_BASE_EXCERPT_H

#include "base/source.h"

/* Find the range that excerpts may show: for a `by_function` text the function around `offset`, in
 * whole lines; for other texts everything. */
void source_part(const source *s, uint32_t offset, size_t *from, size_t *to);

#endif
