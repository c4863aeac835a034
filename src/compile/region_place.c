/* compile/region_place.c -- borders and memory of a region's places (region.h), when all steps are
 * known: a border depends on all readers of a place, an offset in memory on when it is written and
 * last read.  Places whose lifetimes overlap get the first gap that is free; what is best for all
 * is a hard problem, so two orders are tried: as they are written, as allocators do, and the
 * largest first, which is better where long and short lives mix, as in a U-Net. */
#include "compile/region_int.h"

#include <stdlib.h>
#include <string.h>

#include "base/macros.h"

#define MOST_BY_SIZE 1024 /* places that are also tried the largest first */

static bool reads_border(const region_step *s)
{
  return (s->kind == BLOCK_CONV && !s->n_taps) || s->kind == BLOCK_DEPTHWISE;
}

static void set_borders(region *r)
{
  for (uint32_t i = 0; i < r->n_steps; i++) {
    const region_step *s = &r->steps[i];

    if (reads_border(s)) {
      block_place *p = &r->places[s->in].place;
      p->top = i64_max(p->top, s->window.pad[0]);
      p->left = i64_max(p->left, s->window.pad[1]);
    }
  }
  for (uint32_t i = 0; i < r->n_places; i++) {
    block_place *p = &r->places[i].place;
    p->rows = p->top + p->h;
    p->cols = p->left + p->w;
  }
  for (uint32_t i = 0; i < r->n_steps; i++) {
    const region_step *s = &r->steps[i];

    if (reads_border(s)) {
      const region_window *w = &s->window;
      const block_place *out = &r->places[s->out].place;
      block_place *p = &r->places[s->in].place;
      p->rows = i64_max(p->rows, p->top - w->pad[0] + (out->h - 1) * w->stride[0] +
                                   w->dilation[0] * (w->kernel[0] - 1) + 1);
      p->cols = i64_max(p->cols, p->left - w->pad[1] + (out->w - 1) * w->stride[1] +
                                   w->dilation[1] * (w->kernel[1] - 1) + 1);
    }
  }
}

static int64_t floats_of(const region_place *p)
{
  return (p->batch * block_count(&p->place) * block_floats(&p->place) + 31) / 16 * 16;
}

typedef struct ranked { /* a place; those of a smaller key get memory first */
  int64_t key;
  uint32_t place;
} ranked;

static int compare_ranked(const void *a, const void *b)
{
  const ranked *x = a, *y = b;

  return x->key != y->key ? (x->key < y->key ? -1 : 1)
                          : (x->place < y->place ? -1 : x->place > y->place);
}

static bool live_together(const region_place *p, const region_place *q)
{
  return p->first <= q->last && q->first <= p->last;
}

/* Give the place the first gap among those placed that are alive at the same time; `placed` is in
 * the order of their memory. */
static void set_offset(region *r, uint32_t place, uint32_t *placed, uint32_t *n_placed)
{
  region_place *p = &r->places[place];
  const int64_t n = floats_of(p);
  uint32_t at = *n_placed;

  p->at = 0;
  for (uint32_t i = 0; i < *n_placed; i++) {
    const region_place *q = &r->places[placed[i]];

    if (!live_together(p, q))
      continue;
    if (q->at >= p->at + n)
      break;
    p->at = i64_max(p->at, q->at + floats_of(q));
  }
  while (at && r->places[placed[at - 1]].at > p->at)
    at--;
  memmove(&placed[at + 1], &placed[at], (*n_placed - at) * sizeof *placed);
  placed[at] = place;
  ++*n_placed;
}

/* Remove the places that end before `step`. */
static void drop_ended(const region *r, uint32_t step, uint32_t *placed, uint32_t *n_placed)
{
  uint32_t kept = 0;

  for (uint32_t i = 0; i < *n_placed; i++)
    if (r->places[placed[i]].last >= step)
      placed[kept++] = placed[i];
  *n_placed = kept;
}

/* Give all places memory in the order of their ranks, and return the floats of all.  `placed` has
 * room for all. */
static int64_t set_in_order(region *r, ranked *order, uint32_t *placed, bool by_step)
{
  int64_t n_floats = 0;
  uint32_t n_placed = 0;

  qsort(order, r->n_places, sizeof *order, compare_ranked);
  for (uint32_t i = 0; i < r->n_places; i++) {
    const region_place *p = &r->places[order[i].place];

    if (by_step)
      drop_ended(r, p->first, placed, &n_placed);
    set_offset(r, order[i].place, placed, &n_placed);
    n_floats = i64_max(n_floats, p->at + floats_of(p));
  }
  return n_floats;
}

/* Give all places memory: in the order in which they are written, or the largest first if that is
 * less.  O(places * places that live at once), and O(MOST_BY_SIZE^2). */
static rush_status set_offsets(region *r)
{
  const rush_backend_api *api = r->backend.api;
  const size_t each = sizeof(ranked) + sizeof(int64_t) + sizeof(uint32_t);
  const size_t n_bytes = (r->n_places + 1) * each;
  ranked *order = api->memory_alloc(r->backend.ctx, n_bytes);

  if (!order)
    return RUSH_ENOMEM;
  int64_t *at = (int64_t *)(order + r->n_places + 1);
  uint32_t *placed = (uint32_t *)(at + r->n_places + 1);
  for (uint32_t i = 0; i < r->n_places; i++)
    order[i] = (ranked){r->places[i].first, i};
  r->n_floats = set_in_order(r, order, placed, true);
  for (uint32_t i = 0; i < r->n_places; i++) {
    at[i] = r->places[i].at;
    order[i] = (ranked){-floats_of(&r->places[i]), i};
  }
  const int64_t by_size =
    r->n_places <= MOST_BY_SIZE ? set_in_order(r, order, placed, false) : r->n_floats;
  for (uint32_t i = 0; i < r->n_places && by_size >= r->n_floats; i++)
    r->places[i].at = at[i];
  r->n_floats = i64_min(r->n_floats, by_size);
  api->memory_free(r->backend.ctx, order, n_bytes);
  return RUSH_OK;
}

static int64_t params_of(const region *r, const region_step *s)
{
  const int64_t n_ch = s->out == NO_INDEX ? 0 : block_panels(r->places[s->out].place.n_ch);
  const int64_t taps = s->kind == BLOCK_DEPTHWISE ? s->n_k : 0;

  return n_ch * (3 + taps);
}

static bool is_flat(const region *r, const region_step *s)
{
  bool flat = s->out == NO_INDEX || block_is_flat(&r->places[s->out].place);

  for (uint32_t i = 0;
       s->point && i < (uint32_t)s->point->fused.tape.n_inputs - s->point->n_channels; i++)
    flat &= block_is_flat(&r->places[s->point->inputs[i]].place);
  for (uint32_t i = 0; s->point && i < (uint32_t)s->point->fused.tape.n_results; i++)
    flat &= block_is_flat(&r->places[s->point->results[i]].place);
  return flat;
}

rush_status region_place_all(region *r)
{
  const rush_backend_api *api = r->backend.api;

  set_borders(r);
  TRY(set_offsets(r));
  for (uint32_t i = 0; i < r->n_steps; i++) {
    region_step *s = &r->steps[i];

    s->flat = is_flat(r, s);
    r->most_params = i64_max(r->most_params, params_of(r, s));
    if (s->kind != BLOCK_CONV)
      continue;
    s->k_off = api->memory_alloc(r->backend.ctx, (size_t)s->n_k * sizeof *s->k_off);
    const block_step b = {.in = r->places[s->in].place,
                          .groups = s->groups,
                          .kernel = {s->window.kernel[0], s->window.kernel[1]},
                          .dilation = {s->window.dilation[0], s->window.dilation[1]}};
    if (!s->k_off)
      return RUSH_ENOMEM;
    block_offsets(&b, s->k_off);
  }
  return RUSH_OK;
}
