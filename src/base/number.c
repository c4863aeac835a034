/* base/number.c -- parses floating-point numbers exactly and independently of the locale, which
 * strtod is not. Short numbers are one exact multiplication or division (Clinger's fast path); all
 * others use long division of big integers of bounded size. Eisel and Lemire's method would be
 * faster but needs large tables; the slow case takes 2 microseconds and is rare. */
#include "base/number.h"

#include <math.h>
#include <stdint.h>
#include <string.h>

/* Two doubles and the number halfway between them differ within 768 digits; one more digit
 * represents all that follow. */
enum { MAX_DIGITS = 770, LIMBS = 128 };

typedef struct decimal { /* digits * 10^exponent */
  uint8_t digits[MAX_DIGITS + 1];
  int n;        /* significant digits kept */
  bool more;    /* non-zero digits were dropped */
  int64_t exponent;
} decimal;

typedef struct big { /* little-endian; no leading zeros */
  uint32_t w[LIMBS];
  int n;
} big;

/* -- Big numbers ------------------------------------------------------------------------------- */

static void big_mul_add(big *b, uint32_t factor, uint32_t carry)
{
  uint64_t c = carry;

  for (int i = 0; i < b->n; i++) {
    c += (uint64_t)b->w[i] * factor;
    b->w[i] = (uint32_t)c;
    c >>= 32;
  }
  if (c)
    b->w[b->n++] = (uint32_t)c;
}

static void big_mul_pow10(big *b, int64_t n)
{
  for (; n >= 9; n -= 9)
    big_mul_add(b, 1000000000, 0);
  for (; n > 0; n--)
    big_mul_add(b, 10, 0);
}

static int big_bits(const big *b)
{
  return b->n ? 32 * b->n - __builtin_clz(b->w[b->n - 1]) : 0;
}

static void big_shift(big *b, int bits)
{
  int words = bits / 32;

  memmove(b->w + words, b->w, (size_t)b->n * sizeof *b->w);
  memset(b->w, 0, (size_t)words * sizeof *b->w);
  b->n += words;
  if (bits % 32)
    big_mul_add(b, UINT32_C(1) << bits % 32, 0);
}

static int big_compare(const big *a, const big *b)
{
  if (a->n != b->n)
    return a->n < b->n ? -1 : 1;
  for (int i = a->n; i-- > 0;)
    if (a->w[i] != b->w[i])
      return a->w[i] < b->w[i] ? -1 : 1;
  return 0;
}

/* Compute a -= b, where a >= b. */
static void big_subtract(big *a, const big *b)
{
  int64_t borrow = 0;

  for (int i = 0; i < a->n; i++) {
    borrow += (int64_t)a->w[i] - (i < b->n ? b->w[i] : 0);
    a->w[i] = (uint32_t)borrow;
    borrow >>= 32;
  }
  while (a->n && a->w[a->n - 1] == 0)
    a->n--;
}

/* -- Rounding ---------------------------------------------------------------------------------- */

/* Convert by long division bit by bit: about 2 microseconds for 17 digits, always exact. */
static double round_exactly(const decimal *d)
{
  big num = {.n = 0}, den = {.n = 1};
  uint64_t q = 0;

  den.w[0] = 1;
  for (int i = 0; i < d->n; i++)
    big_mul_add(&num, 10, d->digits[i]);
  big_mul_pow10(d->exponent > 0 ? &num : &den, d->exponent > 0 ? d->exponent : -d->exponent);
  int e = big_bits(&num) - big_bits(&den); /* the value is num/den * 2^e, num/den in [1/2, 2) */
  big_shift(e > 0 ? &den : &num, e > 0 ? e : -e);
  if (big_compare(&num, &den) < 0) {
    big_shift(&num, 1);
    e--;
  }
  int n_bits = e >= -1022 ? 53 : 53 - (-1022 - e); /* fewer for subnormal numbers */
  if (n_bits < 0)
    return 0;
  for (int i = 0; i <= n_bits; i++) { /* the last one is the rounding bit */
    bool bit = big_compare(&num, &den) >= 0;
    if (bit)
      big_subtract(&num, &den);
    big_shift(&num, 1);
    q = q << 1 | bit;
  }
  bool up = (q & 1) && ((q & 2) || num.n || d->more);
  return ldexp((double)((q >> 1) + up), e - n_bits + 1);
}

static double to_double(const decimal *d)
{
  static const double powers[] = {1e0,  1e1,  1e2,  1e3,  1e4,  1e5,  1e6,  1e7,
                                  1e8,  1e9,  1e10, 1e11, 1e12, 1e13, 1e14, 1e15,
                                  1e16, 1e17, 1e18, 1e19, 1e20, 1e21, 1e22};
  int64_t magnitude = d->n + d->exponent; /* the value is below 10^magnitude */

  if (d->n == 0 || magnitude < -330)
    return 0;
  if (magnitude > 310)
    return (double)INFINITY;
  if (d->n <= 15 && d->exponent >= -22 && d->exponent <= 22) { /* both factors are exact */
    double v = 0;
    for (int i = 0; i < d->n; i++)
      v = v * 10 + d->digits[i];
    return d->exponent < 0 ? v / powers[-d->exponent] : v * powers[d->exponent];
  }
  return round_exactly(d);
}

/* -- Syntax ------------------------------------------------------------------------------------ */

static bool is_word(const char *s, size_t len, const char *word)
{
  if (len != strlen(word))
    return false;
  for (size_t i = 0; i < len; i++)
    if ((s[i] | 0x20) != word[i])
      return false;
  return true;
}

/* Read digits with an optional point from *at on.  Returns false if there is none. */
static bool read_digits(const char *s, size_t len, size_t *at, decimal *d)
{
  bool any = false, point = false;

  for (; *at < len; ++*at) {
    char ch = s[*at];
    if (ch == '.' && !point) {
      point = true;
      continue;
    }
    if (ch < '0' || ch > '9')
      break;
    any = true;
    d->exponent -= point;
    if (d->n == 0 && ch == '0')
      continue;
    if (d->n < MAX_DIGITS) {
      d->digits[d->n++] = (uint8_t)(ch - '0');
    } else {
      d->more = d->more || ch != '0';
      d->exponent++;
    }
  }
  return any;
}

static bool read_exponent(const char *s, size_t len, size_t *at, decimal *d)
{
  int64_t e = 0;
  bool negative = false;
  size_t start;

  ++*at;
  if (*at < len && (s[*at] == '+' || s[*at] == '-'))
    negative = s[(*at)++] == '-';
  for (start = *at; *at < len && s[*at] >= '0' && s[*at] <= '9'; ++*at)
    if (e < INT64_MAX / 16)
      e = e * 10 + (s[*at] - '0');
  d->exponent += negative ? -e : e;
  return *at > start;
}

bool float_parse(const char *s, size_t len, double *out)
{
  decimal d;
  size_t at = 0;
  double v;

  d.n = 0;
  d.more = false;
  d.exponent = 0;
  bool negative = len && s[0] == '-';
  if (len && (s[0] == '-' || s[0] == '+'))
    at = 1;
  if (is_word(s + at, len - at, "inf") || is_word(s + at, len - at, "infinity")) {
    v = (double)INFINITY;
  } else if (is_word(s + at, len - at, "nan")) {
    v = (double)NAN;
  } else {
    if (!read_digits(s, len, &at, &d))
      return false;
    if (at < len && (s[at] == 'e' || s[at] == 'E') && !read_exponent(s, len, &at, &d))
      return false;
    if (at != len)
      return false;
    v = to_double(&d);
  }
  *out = negative ? -v : v;
  return true;
}
