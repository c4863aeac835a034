/* ops/math/gemm_chain.c -- converts bfloat16 operands to the chains that gemm_chain.h describes.
 * There are three loops, by the layout of the source: channels contiguous, the other dimension
 * contiguous, or neither. A source that is already a chain (even number of channels, aligned,
 * contiguous) is used in place. Cost: one pass over the operand, 4 bytes per word or float. */
#include "ops/math/gemm_chain.h"

#include <string.h>

#include "base/threads.h"

enum { GRAIN = 32768, TILE_PIECE = 256 };

chain_kind chain_kind_of(const context *c)
{
  const uint32_t wanted = context_get_options(c)->cpu;
#ifdef RUSH_ISA_X86
  if (cpu_has_tiles(wanted) && gemm_tiles_avx512bf16())
    return CHAIN_TILES;
#endif
  return cpu_choose(wanted) >= CPU_AVX512 && cpu_has_bf16() ? CHAIN_WORDS : CHAIN_WIDE;
}

int64_t chain_length(chain_kind kind, int64_t channels, int64_t taps)
{
  return (chain_is_words(kind) ? (channels + 1) / 2 : channels) * taps;
}

int64_t chain_piece(chain_kind kind, int64_t length)
{
  if (kind == CHAIN_TILES) { /* one panel of B stays in L1 */
    const int64_t n = i64_max(1, (length + TILE_PIECE - 1) / TILE_PIECE);
    return ((length + n - 1) / n + 15) / 16 * 16;
  }
  return kind == CHAIN_WIDE ? 2 * gemm_k_piece((length + 1) / 2) : gemm_k_piece(length);
}

bool chain_view(chain_kind kind, const chain_source *s, gemm_matrix *out)
{
  if (!chain_is_words(kind) || s->taps != 1 || s->ks != 1 || s->channels % 2 || s->os % 2 ||
      (uintptr_t)s->from % 4)
    return false;
  *out = (gemm_matrix){s->from, s->os / 2, 1};
  return true;
}

typedef struct job {
  chain_kind kind;
  const chain_source *s;
  int64_t length;
  uint32_t *to;
} job;

static inline uint32_t pair(uint16_t even, uint16_t odd) { return (uint32_t)odd << 16 | even; }
static inline uint32_t wide(uint16_t x) { return (uint32_t)x << 16; }

/* Convert others [begin, end), channels contiguous. */
static void in_rows(void *arg, int64_t begin, int64_t end)
{
  const job *j = arg;
  const int64_t k = j->s->channels, full = k / 2;
  for (int64_t i = begin; i < end; i++) {
    const uint16_t *s = j->s->from + i * j->s->os;
    uint32_t *d = j->to + i * j->length;
    if (chain_is_words(j->kind))
      memcpy(d, s, (size_t)full * sizeof *d);
    else
      for (int64_t p = 0; p < full; p++) {
        d[2 * p] = wide(s[2 * p + 1]);
        d[2 * p + 1] = wide(s[2 * p]);
      }
    if (k % 2)
      d[j->length - 1] = chain_is_words(j->kind) ? s[k - 1] : wide(s[k - 1]);
  }
}

/* Convert pairs of channels [begin, end), others contiguous. */
static void in_columns(void *arg, int64_t begin, int64_t end)
{
  const job *j = arg;
  const int64_t n = j->s->n;
  for (int64_t p = begin; p < end; p++) {
    const uint16_t *restrict even = j->s->from + 2 * p * j->s->ks, *restrict odd = even + j->s->ks;
    const bool both = 2 * p + 1 < j->s->channels, words = chain_is_words(j->kind);
    uint32_t *restrict d = j->to + (words ? 1 : 2) * p * n, *restrict next = d + n;
    if (words && both)
      for (int64_t i = 0; i < n; i++)
        d[i] = pair(even[i], odd[i]);
    else if (both)
      for (int64_t i = 0; i < n; i++) {
        d[i] = wide(odd[i]);
        next[i] = wide(even[i]);
      }
    else
      for (int64_t i = 0; i < n; i++)
        d[i] = words ? even[i] : wide(even[i]);
  }
}

/* Convert others [begin, end), any layout. */
static void in_any(void *arg, int64_t begin, int64_t end)
{
  const job *j = arg;
  const chain_source *s = j->s;
  for (int64_t i = begin; i < end; i++) {
    uint32_t *d = j->to + i * j->length;
    for (int64_t p = 0; 2 * p < s->channels; p++)
      for (int64_t t = 0; t < s->taps; t++) {
        const uint16_t *x = s->from + i * s->os + (2 * p * s->taps + t) * s->ks;
        const bool both = 2 * p + 1 < s->channels;
        const uint16_t odd = both ? x[s->taps * s->ks] : 0;
        if (chain_is_words(j->kind))
          *d++ = pair(x[0], odd);
        else if (both)
          *d++ = wide(odd), *d++ = wide(x[0]);
        else
          *d++ = wide(x[0]);
      }
  }
}

rush_status chain_make(call_ctx *cx, chain_kind kind, const chain_source *s, void *to,
                       gemm_matrix *out)
{
  const bool columns = s->os == 1 && s->ks != 1 && s->taps == 1;
  job j = {kind, s, chain_length(kind, s->channels, s->taps), to};
  *out = columns ? (gemm_matrix){to, 1, s->n} : (gemm_matrix){to, j.length, 1};
  const int64_t n = columns ? (s->channels + 1) / 2 : s->n, each = columns ? 2 * s->n : j.length;
  void (*fn)(void *, int64_t, int64_t) = columns                      ? in_columns
                                         : s->ks == 1 && s->taps == 1 ? in_rows
                                                                      : in_any;
  if (n * each < 2 * GRAIN) {
    fn(&j, 0, n);
    return RUSH_OK;
  }
  return parallel_for(cx, n, i64_max(1, GRAIN / i64_max(1, each)), fn, &j);
}
