/* ops/call/suggestions.c -- finds names similar to an unknown one, for messages: edit distance,
 * bounded. */
#include "ops/call/lookup.h"
#include "ops/table/table.h"

#define MAX_DISTANCE 2 /* PyTorch's */
#define MAX_NAME 64

/* Return how many letters to insert, drop or change to make one of the other; at most MAX_DISTANCE
 * + 1. */
static uint32_t distance(str a, str b)
{
  uint8_t row[MAX_NAME + 1];
  size_t gap = a.len > b.len ? a.len - b.len : b.len - a.len;

  if (gap > MAX_DISTANCE || b.len > MAX_NAME || a.len > MAX_NAME)
    return MAX_DISTANCE + 1;
  for (size_t j = 0; j <= b.len; j++)
    row[j] = (uint8_t)j;
  for (size_t i = 1; i <= a.len; i++) {
    uint8_t diagonal = row[0];
    row[0] = (uint8_t)i;
    for (size_t j = 1; j <= b.len; j++) {
      uint8_t best = (uint8_t)(diagonal + (a.p[i - 1] != b.p[j - 1]));
      diagonal = row[j];
      if (row[j] + 1 < best)
        best = (uint8_t)(row[j] + 1);
      if (row[j - 1] + 1 < best)
        best = (uint8_t)(row[j - 1] + 1);
      row[j] = best;
    }
  }
  return row[b.len];
}

uint32_t op_similar(str name, str *out, uint32_t max)
{
  uint32_t n = 0;

  for (uint32_t d = 1; d <= MAX_DISTANCE; d++)
    for (uint32_t i = 0; i < op_n_names && n < max; i++) {
      str s = op_row_name(&op_rows[op_names[i].first_row]);
      if (distance(name, s) == d)
        out[n++] = s;
    }
  return n;
}
