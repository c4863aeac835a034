/* base/unicode.h -- what Python says of code points. */
#ifndef RUSH_BASE_UNICODE_H
#define RUSH_BASE_UNICODE_H

#include <stdbool.h>
#include <stdint.h>

/* Python's str.isprintable for one code point. */
bool unicode_is_printable(uint32_t c);

#endif
