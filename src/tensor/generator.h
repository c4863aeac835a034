/* tensor/generator.h -- PyTorch's CPU generator: mt19937 with a cached normal, bit-equal state.
 *
 * Threads: one at a time.  Who draws has a turn: between the blocks of a long fill, other threads
 * that wait draw theirs, so fills of several threads interleave by block, and one thread's numbers
 * are PyTorch's exactly.  Setting the state waits until no fill is under way.  All waits end with
 * the call. */
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
  call_lock fills; /* shared: a fill is under way; exclusive: the state is set */
  call_lock lock;  /* exclusive: a block is drawn, or the state is read */
} generator;

/* From turn_begin to turn_end this thread draws from `g`. */
typedef struct turn {
  call_ctx *cx;
  generator *g;
  lock_hold fill, block;
  uint32_t n_blocks;
  rush_status st; /* why turn_next failed */
} turn;
rush_status turn_begin(call_ctx *cx, generator *g, turn *t) RUSH_CHECKED;
/* Before each block of some hundred numbers.  Every 64th is other threads' turn, if they wait for
 * it: a change of threads takes as long as thousands of numbers.  false: the call is over and this
 * thread may draw no more. */
bool turn_pass(turn *t);
static inline bool turn_next(turn *t)
{
  return t->st == RUSH_OK &&
         (LIKELY(++t->n_blocks % 64 || !lock_is_wanted(&t->block)) || turn_pass(t));
}
/* After each turn_begin that succeeded: what turn_next failed with, or RUSH_OK. */
rush_status turn_end(turn *t) RUSH_CHECKED;

/* The context's default generator (seed 67280421310721 unless set, as PyTorch's); NULL: no memory.
 * */
generator *generator_default(context *c);
/* The one that a call draws from unless it names another: the context's default, or a trial's own.
 * */
generator *generator_of_call(const call_ctx *cx);
rush_status generator_new(call_ctx *cx, uint64_t seed, generator **out) RUSH_CHECKED;
void generator_seed(generator *g, uint64_t seed); /* torch.manual_seed */
/* The 5056 bytes of torch.get_rng_state() (CPUGeneratorImplStateLegacy plus float normals). */
void generator_get_state(const generator *g, void *bytes);
bool generator_set_state(generator *g, const void *bytes); /* false: not a state */
/* The three between turns, for generators that other threads may know. */
rush_status generator_seed_safely(call_ctx *cx, generator *g, uint64_t seed) RUSH_CHECKED;
rush_status generator_get_state_safely(call_ctx *cx, generator *g, void *bytes) RUSH_CHECKED;
rush_status generator_set_state_safely(call_ctx *cx, generator *g, const void *bytes,
                                       bool *ok) RUSH_CHECKED;
uint32_t generator_random32(generator *g);
uint64_t generator_random64(generator *g);
/* n times generator_random32. */
void generator_fill32(generator *g, uint32_t *out, int64_t n);

#endif
