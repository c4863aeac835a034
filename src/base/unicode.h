/* base/unicode.h -- Python's classification of code points. */
#ifndef RUSH_BASE_UNICODE_H
#define RUSH_BASE_UNICODE_H

#include <stdbool.h>
#include <stdint.h>

/* True if Python's str.isprintable is true for the code point. */
bool unicode_is_printable(uint32_t c);

#endif
