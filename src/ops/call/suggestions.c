/* ops/call/suggestions.c -- finds names similar to an unknown one, for messages (edit distance,
 * bounded), and the operators that synonyms and properties name. */
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

static str name_of(uint32_t name_key)
{
  return op_row_name(&op_rows[op_names[name_key - 1].first_row]);
}

str op_synonym_of(const op *o)
{
  uint32_t lo = 0, hi = op_n_synonyms;

  while (lo < hi) {
    const uint32_t mid = lo + (hi - lo) / 2;
    const struct op_synonym *s = &op_synonyms[mid];
    if (s->name == o->name_key)
      return name_of(s->of);
    *(o->name_key < s->name ? &hi : &lo) = o->name_key < s->name ? mid : mid + 1;
  }
  return (str){NULL, 0};
}

str op_of_property(str name)
{
  for (uint32_t i = 0; i < op_n_properties; i++)
    if (str_is(name, op_pool + op_properties[i].shown))
      return str_of(op_pool + op_properties[i].name);
  return (str){NULL, 0};
}

const struct op_known *op_known_find(const char *path)
{
  uint32_t lo = 0, hi = op_n_known;

  while (lo < hi) {
    const uint32_t mid = lo + (hi - lo) / 2;
    const int order = strcmp(path, op_pool + op_known[mid].path);
    if (order == 0)
      return &op_known[mid];
    *(order < 0 ? &hi : &lo) = order < 0 ? mid : mid + 1;
  }
  return NULL;
}

uint32_t session_op_name_key(session *s, str name)
{
  uint32_t n;
  const op *const *ops = session_op_overloads(s, name, &n);
  return n ? ops[0]->name_key : 0;
}
