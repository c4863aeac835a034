/* base/unicode.c -- classifies code points by a binary search in a generated table of ranges. */
#include "base/unicode.h"

#include "base/macros.h"

static const struct {
  uint32_t first, last;
} unprintable[] = {
#include "base/unicode_table.inc"
};

bool unicode_is_printable(uint32_t c)
{
  if (c < 0x80)
    return c >= 0x20 && c < 0x7f;
  size_t lo = 0, hi = COUNT_OF(unprintable); /* the first range that ends at c or later */
  while (lo < hi) {
    size_t mid = lo + (hi - lo) / 2;
    if (unprintable[mid].last < c)
      lo = mid + 1;
    else
      hi = mid;
  }
  return lo == COUNT_OF(unprintable) || c < unprintable[lo].first;
}
