/* compile/region_place.c -- borders and memory of a region's places (region.h), when all steps are
 * known: a border depends on all readers of a place, an offset in memory on when it is written and
 * last read.  Places whose lifetimes overlap get the first gap that is free, in the order in which
 * they are written, as allocators do; what is best for all is a hard problem, and first fit is at
 * most some per cent worse on networks.  Cost: O(places * those that live at once). */
#include "compile/region_int.h"

#include <stdlib.h>
#include <string.h>

#include "base/macros.h"

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

typedef struct by_first { /* a place, and the step that writes it first */
  uint32_t first, place;
} by_first;

static int compare_first(const void *a, const void *b)
{
  const by_first *x = a, *y = b;

  return x->first != y->first ? (x->first < y->first ? -1 : 1)
                              : (x->place < y->place ? -1 : x->place > y->place);
}

/* Give the place the first gap between those that live, which are in the order of their memory;
 * those that have ended leave the list. */
static void set_offset(region *r, uint32_t place, uint32_t *living, uint32_t *n_living)
{
  region_place *p = &r->places[place];
  const int64_t n = floats_of(p);
  uint32_t kept = 0, at = 0;
  bool found = false;

  p->at = 0;
  for (uint32_t i = 0; i < *n_living; i++) {
    const region_place *q = &r->places[living[i]];

    if (q->last < p->first)
      continue;
    found |= q->at >= p->at + n;
    if (!found) {
      p->at = i64_max(p->at, q->at + floats_of(q));
      at = kept + 1;
    }
    living[kept++] = living[i];
  }
  memmove(&living[at + 1], &living[at], (kept - at) * sizeof *living);
  living[at] = place;
  *n_living = kept + 1;
  r->n_floats = i64_max(r->n_floats, p->at + n);
}

/* Give all places memory, in the order in which they are written.  O(places * places that live at
 * once). */
static rush_status set_offsets(region *r)
{
  const rush_backend_api *api = r->backend.api;
  const size_t n_bytes = r->n_places * (sizeof(by_first) + sizeof(uint32_t)) + sizeof(by_first);
  by_first *order = api->memory_alloc(r->backend.ctx, n_bytes);
  uint32_t n_living = 0;

  if (!order)
    return RUSH_ENOMEM;
  for (uint32_t i = 0; i < r->n_places; i++)
    order[i] = (by_first){r->places[i].first, i};
  qsort(order, r->n_places, sizeof *order, compare_first);
  for (uint32_t i = 0; i < r->n_places; i++)
    set_offset(r, order[i].place, (uint32_t *)(order + r->n_places), &n_living);
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
