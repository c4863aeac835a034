/* Mutations for fuzz_operators: a new call of an operator that is chosen at random, or other bytes
 * behind the same name.
 *
 * Half of all inputs are new calls, so that each operator gets its share, however many findings the
 * others have; libFuzzer's own mutations would mostly make unknown names. */
#include "fuzz.h"

#include <string.h>

size_t LLVMFuzzerMutate(uint8_t *data, size_t n, size_t max);
size_t LLVMFuzzerCustomMutator(uint8_t *data, size_t n, size_t max, unsigned seed);

size_t LLVMFuzzerCustomMutator(uint8_t *data, size_t n, size_t max, unsigned seed)
{
  uint64_t random = seed;
  const uint8_t *line = memchr(data, '\n', n);
  if (!line || seed % 2 == 0)
    return fuzz_operators_new(data, max, &random);
  const size_t at = (size_t)(line - data) + 1;
  return at + LLVMFuzzerMutate(data + at, n - at, max - at);
}
