/* tensor/generator.h -- PyTorch's CPU generator: mt19937 with a cached normal; its state is equal
 * bit by bit.
 *
 * Threads: locked.  A thread draws during a turn: between the blocks of a long fill, waiting
 * threads get a turn, so fills of several threads interleave by block, and a single thread gets
 * exactly PyTorch's numbers.  Setting the state waits until no fill is in progress.  All waits end
 * with the call. */
#ifndef RUSH_TENSOR_GENERATOR_H
#define RUSH_TENSOR_GENERATOR_H

#include "base/lock.h"
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
  call_lock fills; /* shared: a fill is in progress; exclusive: the state is being set */
  call_lock lock;  /* exclusive: a block is drawn, or the state is read */
} generator;

/* Between turn_begin and turn_end this thread draws from `g`. */
typedef struct turn {
  call_ctx *cx;
  generator *g;
  lock_hold fill, block;
  uint32_t n_blocks;
  rush_status st; /* the status of a failed turn_pass */
} turn;
rush_status turn_begin(call_ctx *cx, generator *g, turn *t) RUSH_CHECKED;
/* Call before each block of some hundred numbers.  At every 64th block waiting threads get a turn,
 * because switching threads takes as long as thousands of numbers.  Returns false if the call must
 * end; this thread may then draw no more. */
bool turn_pass(turn *t);
static inline bool turn_next(turn *t)
{
  return t->st == RUSH_OK &&
         (LIKELY(++t->n_blocks % 64 || !lock_is_wanted(&t->block)) || turn_pass(t));
}
/* End the turn, after each successful turn_begin.  Returns the failure of turn_pass, or RUSH_OK. */
rush_status turn_end(turn *t) RUSH_CHECKED;

/* Return the context's default generator (seed 67280421310721 unless set, as PyTorch's); NULL:
 * memory ran out. */
generator *generator_default(context *c);
/* Return the generator of calls that name none: the context's default, or a trial's own. */
generator *generator_of_call(const call_ctx *cx);
rush_status generator_new(call_ctx *cx, uint64_t seed, generator **out) RUSH_CHECKED;
void generator_seed(generator *g, uint64_t seed); /* torch.manual_seed */
/* Copy the 5056 bytes of torch.get_rng_state() (CPUGeneratorImplStateLegacy plus float normals). */
void generator_get_state(const generator *g, void *bytes);
bool generator_set_state(generator *g, const void *bytes); /* false: not a valid state */
/* Like the three functions above, waiting for a turn, for generators that other threads may use. */
rush_status generator_seed_safely(call_ctx *cx, generator *g, uint64_t seed) RUSH_CHECKED;
rush_status generator_get_state_safely(call_ctx *cx, generator *g, void *bytes) RUSH_CHECKED;
rush_status generator_set_state_safely(call_ctx *cx, generator *g, const void *bytes,
                                       bool *ok) RUSH_CHECKED;
uint32_t generator_random32(generator *g);
uint64_t generator_random64(generator *g);
/* Draw n numbers, each like generator_random32. */
void generator_fill32(generator *g, uint32_t *out, int64_t n);

#endif
