/* base/number.h -- reading numbers, whatever the host's locale. */
#ifndef RUSH_BASE_NUMBER_H
#define RUSH_BASE_NUMBER_H

#include <stdbool.h>
#include <stddef.h>

/* The double nearest to a decimal number that is the whole text: sign, digits with an optional '.',
 * optional exponent; also inf, infinity and nan in any case.  Correctly rounded; too large is
 * infinite. False when malformed (then *out is unchanged). */
bool float_parse(const char *s, size_t len, double *out);

#endif
