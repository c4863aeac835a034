/* tensor/generator.h -- PyTorch's CPU generator: mt19937 with a cached normal, bit-equal state.
 * Threads: one at a time; the context's default generator has a lock in its users' call path. */
#ifndef RUSH_TENSOR_GENERATOR_H
#define RUSH_TENSOR_GENERATOR_H

#include "tensor/tensor.h"

typedef struct generator {
  heap h; /* RUSH_TAG_GENERATOR */
  uint64_t seed;
  uint32_t mt[624];
  int left, next;
  bool seeded;
  bool has_next_double_normal, has_next_float_normal;
  double next_double_normal;
  float next_float_normal;
  mutex lock;
} generator;

/* The context's default generator (seed 67280421310721 unless set, as PyTorch's); NULL: no memory. */
generator *generator_default(context *c);
rush_status generator_new(call_ctx *cx, uint64_t seed, generator **out) RUSH_CHECKED;
void generator_seed(generator *g, uint64_t seed); /* torch.manual_seed */
/* The 5056 bytes of torch.get_rng_state() (CPUGeneratorImplStateLegacy plus float normals). */
void generator_get_state(const generator *g, void *bytes);
bool generator_set_state(generator *g, const void *bytes); /* false: not a state */
uint32_t generator_random32(generator *g);
uint64_t generator_random64(generator *g);
/* n times generator_random32. */
void generator_fill32(generator *g, uint32_t *out, int64_t n);

#endif
