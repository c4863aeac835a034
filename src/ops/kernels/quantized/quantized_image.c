/* ops/kernels/quantized/quantized_image.c -- the input of a quantized convolution in words, with
 * its padding (quantized_conv.h). The padding has the zero point, so that products need no tests at
 * borders; channels are filled up to whole words, whose weights are 0. An input that is so already
 * is used where it lies. A copy costs a few per cent of the products, copies of patches a third.
 * Memory: the padded input, twice where words hold two values. */
#include <string.h>

#include "base/threads.h"
#include "ops/kernels/quantized/quantized_conv.h"

#define MOST_PER_BYTE 16        /* the image's bytes for each of the input's */
#define FEW_BYTES (1 << 20)     /* and as many more */

static int64_t per_word(const conv_call *c) { return qgemm_packed_per_word(c->p->packed[0]); }

static void sizes_of(const conv_call *c, int64_t *sizes)
{
  for (int d = 0; d < 3; d++)
    sizes[d] = c->in[d] + 2 * c->p->pad[d];
}

bool conv_image_fits(const conv_call *c)
{
  const conv_packed *p = c->p;
  int64_t sizes[3];
  double n_bytes = (double)c->batch * (double)p->wide * (4.0 / (double)per_word(c));
  double in = (double)c->batch * (double)p->in_ch;
  if (p->groups != 1 || p->params.any_zero || c->out_zero < 0 || c->out_zero > 255)
    return false;
  sizes_of(c, sizes);
  for (int d = 0; d < 3; d++) {
    n_bytes *= (double)sizes[d];
    in *= (double)c->in[d];
  }
  return n_bytes <= in * MOST_PER_BYTE + FEW_BYTES;
}

typedef struct fill_job {
  const conv_call *c;
  int64_t sizes[3];
  int64_t per_word;
  int32_t *words;
} fill_job;

/* Write n channels of a pixel, or the zero point if x is NULL, as words. */
static void fill_pixel(const fill_job *j, const uint8_t *x, void *to)
{
  const conv_call *c = j->c;
  const conv_packed *p = c->p;
  uint8_t *bytes = to;
  int16_t *halves = to;
  if (j->per_word == 4) {
    memset(bytes, c->a_zero, (size_t)p->wide);
    if (x)
      memcpy(bytes, x, (size_t)p->in_ch);
    return;
  }
  for (int64_t i = 0; i < p->wide; i++)
    halves[i] = (int16_t)(x && i < p->in_ch ? x[i] : c->a_zero);
}

/* Fill rows of the padded images. */
static void fill_rows(void *arg, int64_t begin, int64_t end)
{
  const fill_job *j = arg;
  const conv_call *c = j->c;
  const conv_packed *p = c->p;
  const int64_t pixel = p->wide / j->per_word;
  const bool whole_rows = j->per_word == 4 && p->wide == p->in_ch;
  for (int64_t i = begin; i < end; i++) {
    const int64_t y = i % j->sizes[1] - p->pad[1], z = i / j->sizes[1] % j->sizes[0] - p->pad[0],
                  n = i / j->sizes[1] / j->sizes[0];
    const bool inside = y >= 0 && y < c->in[1] && z >= 0 && z < c->in[0];
    const uint8_t *row = c->x + ((n * c->in[0] + z) * c->in[1] + y) * c->in[2] * p->in_ch;
    int32_t *to = j->words + i * j->sizes[2] * pixel;
    for (int64_t x = -p->pad[2]; x < c->in[2] + p->pad[2]; x++, to += pixel) {
      if (whole_rows && inside && x == 0) { /* as it is */
        memcpy(to, row, (size_t)(c->in[2] * p->in_ch));
        to += (c->in[2] - 1) * pixel;
        x = c->in[2] - 1;
      } else {
        fill_pixel(j, inside && x >= 0 && x < c->in[2] ? row + x * p->in_ch : NULL, to);
      }
    }
  }
}

/* Find the ranges of a patch: rows of the kernel, or its positions where they are apart. */
static void find_segments(const conv_packed *p, conv_image *out)
{
  const bool together = p->dilation[2] == 1;
  const int64_t across = together ? 1 : p->kernel[2];
  int64_t *at = out->segs;
  out->seg_words = out->pixel * (together ? p->kernel[2] : 1);
  for (int64_t z = 0; z < p->kernel[0]; z++)
    for (int64_t y = 0; y < p->kernel[1]; y++)
      for (int64_t x = 0; x < across; x++)
        *at++ = z * p->dilation[0] * out->plane + y * p->dilation[1] * out->row +
                x * p->dilation[2] * out->pixel;
  out->n_segs = at - out->segs;
}

rush_status conv_image_make(call_ctx *cx, const conv_call *c, conv_image *out)
{
  const conv_packed *p = c->p;
  fill_job j = {.c = c, .per_word = per_word(c)};
  const int64_t taps = p->kernel[0] * p->kernel[1] * p->kernel[2];
  const bool as_is = per_word(c) == 4 && p->wide == p->in_ch && (uintptr_t)c->x % 4 == 0 &&
                     p->pad[0] + p->pad[1] + p->pad[2] == 0;
  sizes_of(c, j.sizes);
  out->pixel = p->wide / per_word(c);
  out->row = j.sizes[2] * out->pixel;
  out->plane = j.sizes[1] * out->row;
  out->image = j.sizes[0] * out->plane;
  const size_t seg_bytes = (size_t)taps * sizeof *out->segs,
               image_bytes = as_is ? 0 : (size_t)(c->batch * out->image) * sizeof(int32_t);
  out->own_bytes = seg_bytes + image_bytes;
  out->own = mem_alloc_data(cx->ctx, out->own_bytes);
  if (!out->own)
    return call_nomem(cx);
  out->segs = out->own;
  out->words = as_is ? (const int32_t *)(const void *)c->x : (int32_t *)(void *)(out->segs + taps);
  find_segments(p, out);
  if (as_is)
    return RUSH_OK;
  j.words = (int32_t *)(void *)(out->segs + taps);
  return parallel_for(cx, c->batch * j.sizes[0] * j.sizes[1],
                      i64_max(1, 32768 / i64_max(1, out->row)), fill_rows, &j);
}

void conv_image_free(context *c, conv_image *i)
{
  if (i->own)
    mem_free_data(c, i->own, i->own_bytes);
}
