/* tensor/generator.c -- mt19937 as in PyTorch, and turns of threads that draw from one generator.
 *
 * Numbers are generated 624 at a time (Matsumoto and Nishimura, 1998).  A long fill lets other
 * threads draw between its blocks (turn_pass), so that a thread which needs one number does not
 * wait for a million; a lock around the whole fill was rejected for that reason. */
#include "tensor/generator.h"

/* PyTorch's default_rng_seed_val. */
#define DEFAULT_SEED UINT64_C(67280421310721)
#define MT_N 624
#define MT_M 397

static rush_status generator_print(call_ctx *cx, text_buf *out, void *heap_part)
{
  (void)cx, (void)heap_part;
  text_puts(out, "<Generator>");
  return RUSH_OK;
}

static void generator_destroy(void *heap_part)
{
  generator *g = heap_part;
  call_lock_destroy(&g->fills);
  call_lock_destroy(&g->lock);
  mem_free(g->h.ctx, g, sizeof *g);
}

static rush_status generator_copy(call_ctx *cx, void *heap_part, rush_value *out)
{
  generator *from = heap_part, *g;
  lock_hold hold;
  TRY(generator_new(cx, 0, &g));
  rush_status st = lock_take(cx, &from->lock, LOCK_EXCLUSIVE, &hold);
  if (st != RUSH_OK) {
    generator_destroy(g);
    return st;
  }
  g->seed = from->seed;
  memcpy(g->mt, from->mt, sizeof g->mt);
  g->left = from->left, g->next = from->next;
  g->has_next_double_normal = from->has_next_double_normal;
  g->has_next_float_normal = from->has_next_float_normal;
  g->next_double_normal = from->next_double_normal;
  g->next_float_normal = from->next_float_normal;
  lock_drop(&hold);
  *out = value_heap_steal(RUSH_TAG_GENERATOR, g);
  return RUSH_OK;
}

static rush_status generator_equal(call_ctx *cx, void *a, void *b, bool *out)
{
  (void)cx;
  *out = a == b;
  return RUSH_OK;
}

static const value_ops generator_ops = {generator_destroy, generator_print, generator_copy,
                                        generator_equal};

static generator *make_generator(context *c, uint64_t seed)
{
  generator *g = mem_alloc_zero(c, sizeof *g);
  if (!g)
    return NULL;
  heap_init(&g->h, c, RUSH_TAG_GENERATOR);
  call_lock_init(&g->fills);
  call_lock_init(&g->lock);
  generator_seed(g, seed);
  context_slot_publish_steal(c, SLOT_KIND_GENERATOR, (void *)&generator_ops, NULL);
  return g;
}

rush_status generator_new(call_ctx *cx, uint64_t seed, generator **out)
{
  generator *g = make_generator(cx->ctx, seed);
  if (!g)
    return call_nomem(cx);
  *out = g;
  return RUSH_OK;
}

static void destroy_default(context *c, void *object)
{
  (void)c;
  generator *g = object;
  if (heap_drop(&g->h))
    generator_destroy(g);
}

generator *generator_default(context *c)
{
  generator *g = context_slot_get(c, SLOT_GENERATOR);
  if (g)
    return g;
  g = make_generator(c, DEFAULT_SEED);
  return g ? context_slot_publish_steal(c, SLOT_GENERATOR, g, destroy_default) : NULL;
}

generator *generator_of_call(const call_ctx *cx)
{
  return cx->trial ? cx->trial : generator_default(cx->ctx);
}

void generator_seed(generator *g, uint64_t seed)
{
  g->seed = seed;
  g->mt[0] = (uint32_t)seed;
  for (uint32_t i = 1; i < MT_N; i++)
    g->mt[i] = 1812433253u * (g->mt[i - 1] ^ g->mt[i - 1] >> 30) + i;
  g->left = 1;
  g->next = 0;
  g->seeded = true;
  g->has_next_double_normal = g->has_next_float_normal = false;
}

static inline uint32_t twist(uint32_t u, uint32_t v)
{
  return ((u & 0x80000000u) | (v & 0x7fffffffu)) >> 1 ^ (v & 1 ? 0x9908b0dfu : 0);
}

static void next_state(generator *g)
{
  uint32_t *p = g->mt;
  for (int i = 0; i < MT_N - MT_M; i++)
    p[i] = p[i + MT_M] ^ twist(p[i], p[i + 1]);
  for (int i = MT_N - MT_M; i < MT_N - 1; i++)
    p[i] = p[i + MT_M - MT_N] ^ twist(p[i], p[i + 1]);
  p[MT_N - 1] = p[MT_M - 1] ^ twist(p[MT_N - 1], p[0]);
  g->left = MT_N;
  g->next = 0;
}

static inline uint32_t temper(uint32_t y)
{
  y ^= y >> 11;
  y ^= y << 7 & 0x9d2c5680u;
  y ^= y << 15 & 0xefc60000u;
  return y ^ y >> 18;
}

uint32_t generator_random32(generator *g)
{
  if (--g->left == 0)
    next_state(g);
  return temper(g->mt[g->next++]);
}

void generator_fill32(generator *g, uint32_t *restrict out, int64_t n)
{
  while (n > 0) {
    const int64_t m = i64_min(n, g->left - 1); /* of this state */
    const uint32_t *from = g->mt + g->next;
    for (int64_t i = 0; i < m; i++)
      out[i] = temper(from[i]);
    g->left -= (int)m;
    g->next += (int)m;
    out += m;
    n -= m;
    if (n > 0) {
      *out++ = generator_random32(g);
      n--;
    }
  }
}

/* -- Turns ------------------------------------------------------------------------------------- */

rush_status turn_begin(call_ctx *cx, generator *g, turn *t)
{
  t->cx = cx;
  t->g = g;
  t->st = RUSH_OK;
  t->n_blocks = 0;
  TRY(lock_take(cx, &g->fills, LOCK_SHARED, &t->fill));
  rush_status st = lock_take(cx, &g->lock, LOCK_EXCLUSIVE, &t->block);
  if (st != RUSH_OK)
    lock_drop(&t->fill);
  return st;
}

bool turn_pass(turn *t)
{
  lock_drop(&t->block);
  t->st = lock_take(t->cx, &t->g->lock, LOCK_EXCLUSIVE, &t->block);
  return t->st == RUSH_OK;
}

rush_status turn_end(turn *t)
{
  lock_drop(&t->block);
  lock_drop(&t->fill);
  return t->st;
}

/* Lock the generator exclusively, when no fill is in progress. */
static rush_status take_alone(call_ctx *cx, generator *g, lock_hold *fills, lock_hold *block)
{
  TRY(lock_take(cx, &g->fills, LOCK_EXCLUSIVE, fills));
  rush_status st = lock_take(cx, &g->lock, LOCK_EXCLUSIVE, block);
  if (st != RUSH_OK)
    lock_drop(fills);
  return st;
}

rush_status generator_seed_safely(call_ctx *cx, generator *g, uint64_t seed)
{
  lock_hold fills, block;
  TRY(take_alone(cx, g, &fills, &block));
  generator_seed(g, seed);
  lock_drop(&block);
  lock_drop(&fills);
  return RUSH_OK;
}

rush_status generator_set_state_safely(call_ctx *cx, generator *g, const void *bytes, bool *ok)
{
  lock_hold fills, block;
  TRY(take_alone(cx, g, &fills, &block));
  *ok = generator_set_state(g, bytes);
  lock_drop(&block);
  lock_drop(&fills);
  return RUSH_OK;
}

rush_status generator_get_state_safely(call_ctx *cx, generator *g, void *bytes)
{
  lock_hold block;
  TRY(lock_take(cx, &g->lock, LOCK_EXCLUSIVE, &block));
  generator_get_state(g, bytes);
  lock_drop(&block);
  return RUSH_OK;
}

uint64_t generator_random64(generator *g)
{
  uint64_t high = generator_random32(g);
  return high << 32 | generator_random32(g);
}

/* -- State in the format of torch.get_rng_state ------------------------------------------------ */

/* PyTorch's CPUGeneratorImplState: the old struct, then the cached float normal. */
typedef struct generator_state {
  uint64_t seed;
  int32_t left, seeded;
  uint64_t next;
  uint64_t mt[MT_N];
  double normal_x, normal_y, normal_rho; /* only y is used: the cached double normal */
  int32_t normal_is_valid, pad;
  float next_float_normal;
  uint8_t has_next_float_normal, pad2[3];
} generator_state;
_Static_assert(sizeof(generator_state) == RUSH_GENERATOR_STATE_BYTES, "PyTorch's struct");

void generator_get_state(const generator *g, void *bytes)
{
  generator_state st = {
    .seed = g->seed, .left = g->left, .seeded = g->seeded, .next = (uint64_t)g->next};

  for (int i = 0; i < MT_N; i++)
    st.mt[i] = g->mt[i];
  st.normal_is_valid = g->has_next_double_normal;
  st.normal_y = g->has_next_double_normal ? g->next_double_normal : 0;
  st.has_next_float_normal = g->has_next_float_normal;
  st.next_float_normal = g->has_next_float_normal ? g->next_float_normal : 0;
  memcpy(bytes, &st, sizeof st);
}

bool generator_set_state(generator *g, const void *bytes)
{
  generator_state st;

  memcpy(&st, bytes, sizeof st);
  if (st.left < 1 || st.left > MT_N || st.next > MT_N ||
      (st.left > 1 && st.next + (uint64_t)st.left > MT_N + 1))
    return false;
  g->seed = st.seed;
  g->left = st.left;
  g->next = (int)st.next;
  g->seeded = st.seeded != 0;
  for (int i = 0; i < MT_N; i++)
    g->mt[i] = (uint32_t)st.mt[i];
  g->has_next_double_normal = st.normal_is_valid != 0;
  g->next_double_normal = st.normal_y;
  g->has_next_float_normal = st.has_next_float_normal != 0;
  g->next_float_normal = st.next_float_normal;
  return true;
}
