/* suggest.c -- suggestions for typos: the nearest of some words, by the number of letters to change
 * (Levenshtein's distance, with swapped neighbours as one change). */
#include "cli.h"

#include <string.h>

#define MOST_LETTERS 40

static size_t least(size_t a, size_t b) { return a < b ? a : b; }

static size_t distance(const char *a, const char *b)
{
  const size_t n = strlen(a), m = strlen(b);
  size_t rows[3][MOST_LETTERS + 1];

  if (n > MOST_LETTERS || m > MOST_LETTERS)
    return SIZE_MAX;
  for (size_t j = 0; j <= m; j++)
    rows[0][j] = j;
  for (size_t i = 1; i <= n; i++) {
    size_t *row = rows[i % 3], *before = rows[(i + 2) % 3], *earlier = rows[(i + 1) % 3];
    row[0] = i;
    for (size_t j = 1; j <= m; j++) {
      row[j] = least(least(row[j - 1], before[j]) + 1, before[j - 1] + (a[i - 1] != b[j - 1]));
      if (i > 1 && j > 1 && a[i - 1] == b[j - 2] && a[i - 2] == b[j - 1])
        row[j] = least(row[j], earlier[j - 2] + 1);
    }
  }
  return rows[n % 3][m];
}

void cli_suggest_try(suggestion *s, const char *word, const char *candidate)
{
  const size_t d = distance(word, candidate), most = strlen(word) < 4   ? 1
                                                     : strlen(word) < 8 ? 2
                                                                        : 3;

  if (d <= most && (!s->word || d < s->distance)) {
    s->word = candidate;
    s->distance = d;
  }
}
