/* base/excerpt.h -- what of a source messages show (source_excerpt). */
#ifndef RUSH_BASE_EXCERPT_H
#define RUSH_BASE_EXCERPT_H

#include "base/source.h"

/* The part of a `by_function` text that excerpts of a place stay inside: its function, whole lines.
 *  Of other texts: all. */
void source_part(const source *s, uint32_t offset, size_t *from, size_t *to);

#endif
