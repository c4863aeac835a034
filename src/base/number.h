/* base/number.h -- parsing numbers independently of the locale. */
#ifndef RUSH_BASE_NUMBER_H
#define RUSH_BASE_NUMBER_H

#include <stdbool.h>
#include <stddef.h>

/* Parse a decimal number that is the whole text to the nearest double: sign, digits with an
 * optional '.', optional exponent; also inf, infinity and nan in any case.  Correctly rounded;
 * too large a number becomes infinite. Returns false if the text is malformed (then *out is
 * unchanged). */
bool float_parse(const char *s, size_t len, double *out);
/* Return the value of a hexadecimal digit, or -1. */
static inline int hex_digit(char ch)
{
  if (ch >= '0' && ch <= '9')
    return ch - '0';
  ch |= 0x20;
  return ch >= 'a' && ch <= 'f' ? ch - 'a' + 10 : -1;
}

#endif
