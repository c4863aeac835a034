/* libFuzzer's entry: meson compiles it once per target, with FUZZ_TARGET. */
#include "fuzz.h"

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t n);
int LLVMFuzzerTestOneInput(const uint8_t *data, size_t n) { return FUZZ_TARGET(data, n); }
