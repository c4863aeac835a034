/* base/number.h -- reading numbers, whatever the host's locale. */
#ifndef RUSH_BASE_NUMBER_H
#define RUSH_BASE_NUMBER_H

#include <stdbool.h>
#include <stddef.h>

/* The double nearest to a decimal number that is the whole text: sign, digits with an optional '.',
 * optional exponent; also inf, infinity and nan in any case.  Correctly rounded; too large is
 * infinite. False when malformed (then *out is unchanged). */
bool float_parse(const char *s, size_t len, double *out);
/* The value of a hexadecimal digit, or -1. */
static inline int hex_digit(char ch)
{
  if (ch >= '0' && ch <= '9')
    return ch - '0';
  ch |= 0x20;
  return ch >= 'a' && ch <= 'f' ? ch - 'a' + 10 : -1;
}

#endif
