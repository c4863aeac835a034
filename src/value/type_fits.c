/* value/type_fits.c -- comparing a class with an interface, if interfaces refer to each other.
 *
 * A class fits an interface if its methods do, and that may depend on other pairs of class and
 * interface, on this pair again, or on many pairs that share others: plain recursion would not end,
 * or take exponential time.  Types are equirecursive, so the answer is the greatest consistent one:
 * every pair is assumed to fit until it is shown not to (Amadio and Cardelli, "Subtyping recursive
 * types", 1993; Pierce, TAPL 21).  Their table is no base/table.c, whose borrowed keys would have
 * to outlive the growth of the list of pairs.
 *
 * Pairs are kept in a worklist instead of recursing.  The outermost comparison of a thread adds its
 * pair and processes the list; a pair found while another is processed is added and assumed to fit,
 * with an edge to the pair that assumed it.  A pair that does not fit never will (assumptions only
 * help), and the pairs that assumed it are processed again.  Cost: one step per pair, and one for
 * each edge to a pair that does not fit; no stack.  Rejected: a table of answers in the program,
 * since classes and inferred results are completed later.
 *
 * It would be sound to accept pairs that fit only by assumption (the assumptions form a circle),
 * but PyTorch has no answer for them: its comparison recurses until the stack overflows.  We refuse
 * such a pair with this reason.
 *
 * If memory runs out, or there are more than MOST_PAIRS, the answer is "does not fit" with
 * mem_refuse, which reporters check. Threads: the list belongs to one thread and is attached to the
 * store, under the store's lock, while it exists. */
#include <string.h>

#include "base/macros.h"
#include "value/type.h"

#define MOST_PAIRS (1u << 16)
#define MOST_EDGES (1u << 18)
#define NONE UINT32_MAX

typedef struct fits_pair {
  const type *cls, *iface;
  uint32_t edges; /* the first edge of those that assumed it, or NONE */
  bool is_due;    /* to be looked at (again) */
  bool failed;    /* does not fit: final */
} fits_pair;

typedef struct fits_edge {
  uint32_t user, next; /* the edge that assumed it; another edge or NONE */
} fits_edge;

typedef struct fits_work {
  struct fits_work *outer; /* of other threads */
  pthread_t thread;
  context *ctx;
  fits_pair *pairs;
  fits_edge *edges;
  uint32_t *slots; /* hash of a pair -> its index + 1, or 0 */
  uint32_t n, cap, n_edges, cap_edges, n_slots;
  uint32_t current; /* being looked at */
  bool overflowed;
} fits_work;

/* -- Pairs ------------------------------------------------------------------------------------- */

static uint32_t pair_slot(const fits_work *w, const type *cls, const type *iface)
{
  const void *key[2] = {cls, iface};
  uint32_t i = (uint32_t)hash_bytes(key, sizeof key) & (w->n_slots - 1);

  while (w->slots[i] &&
         (w->pairs[w->slots[i] - 1].cls != cls || w->pairs[w->slots[i] - 1].iface != iface))
    i = (i + 1) & (w->n_slots - 1);
  return i;
}

/* Double the slots, which are kept at most half full. */
static bool grow_slots(fits_work *w)
{
  const uint32_t n = w->n_slots ? 2 * w->n_slots : 64;
  uint32_t *slots = mem_alloc_zero(w->ctx, n * sizeof *slots);

  if (!slots)
    return false;
  mem_free(w->ctx, w->slots, w->n_slots * sizeof *slots);
  w->slots = slots;
  w->n_slots = n;
  for (uint32_t i = 0; i < w->n; i++)
    w->slots[pair_slot(w, w->pairs[i].cls, w->pairs[i].iface)] = i + 1;
  return true;
}

static bool grow_items(context *c, void **items, uint32_t *cap, size_t item_bytes)
{
  const uint32_t n = *cap ? 2 * *cap : 16;
  void *grown = mem_realloc(c, *items, *cap * item_bytes, n * item_bytes);

  if (!grown)
    return false;
  *items = grown;
  *cap = n;
  return true;
}

/* Return the pair's index, adding it if it is new; NONE: memory ran out, or there are too many. */
static uint32_t find_pair(fits_work *w, const type *cls, const type *iface)
{
  if (2 * (w->n + 1) > w->n_slots && !grow_slots(w))
    return NONE;
  const uint32_t slot = pair_slot(w, cls, iface);

  if (w->slots[slot])
    return w->slots[slot] - 1;
  if (w->n == MOST_PAIRS) {
    mem_refuse(
      w->ctx, "comparing interfaces would take more than 65536 pairs of types, which is the limit");
    return NONE;
  }
  if (w->n == w->cap && !grow_items(w->ctx, (void **)&w->pairs, &w->cap, sizeof *w->pairs))
    return NONE;
  w->pairs[w->n] = (fits_pair){cls, iface, NONE, true, false};
  w->slots[slot] = ++w->n;
  return w->n - 1;
}

/* Record that the pair being processed assumes pair `used`. */
static bool add_edge(fits_work *w, uint32_t used)
{
  if (w->n_edges == MOST_EDGES) {
    mem_refuse(w->ctx,
               "comparing interfaces would take more than 262144 steps, which is the limit");
    return false;
  }
  if (w->n_edges == w->cap_edges &&
      !grow_items(w->ctx, (void **)&w->edges, &w->cap_edges, sizeof *w->edges))
    return false;
  w->edges[w->n_edges] = (fits_edge){w->current, w->pairs[used].edges};
  w->pairs[used].edges = w->n_edges++;
  return true;
}

/* -- The worklist ------------------------------------------------------------------------------ */

/* Handle a pair found while another is processed: true unless it is known not to fit. */
static bool assume(fits_work *w, const type *cls, const type *iface)
{
  const uint32_t i = find_pair(w, cls, iface);

  if (i != NONE && w->pairs[i].failed)
    return false;
  if (i == NONE || !add_edge(w, i))
    w->overflowed = true;
  return !w->overflowed;
}

/* Mark pair i as not fitting: the pairs that assumed it are due again.  Returns the first of them,
 * or `next`. */
static uint32_t fail_pair(fits_work *w, uint32_t i, uint32_t next)
{
  w->pairs[i].failed = true;
  for (uint32_t e = w->pairs[i].edges; e != NONE; e = w->edges[e].next) {
    const uint32_t user = w->edges[e].user;
    if (w->pairs[user].failed)
      continue;
    w->pairs[user].is_due = true;
    next = user < next ? user : next;
  }
  w->pairs[i].edges = NONE;
  return next;
}

/* Process due pairs until none is left, or the first pair does not fit. */
static bool settle(fits_work *w, type_store *ts)
{
  for (uint32_t i = 0; i < w->n && !w->overflowed && !w->pairs[0].failed; i++) {
    if (!w->pairs[i].is_due || w->pairs[i].failed)
      continue;
    w->pairs[i].is_due = false;
    w->current = i;
    const type *cls = w->pairs[i].cls, *iface = w->pairs[i].iface; /* pairs may move meanwhile */
    if (!ts->fits_interface(cls, iface))
      i = fail_pair(w, i, i + 1) - 1;
  }
  return !w->overflowed && !w->pairs[0].failed;
}

/* True if some pair fits only by assuming itself: removes pairs whose assumptions are all settled
 * until none is left (Kahn's algorithm).  Also true if memory runs out. */
static bool is_circular(const fits_work *w)
{
  const size_t n_bytes = 2 * (size_t)w->n * sizeof(uint32_t);
  uint32_t *n_used = mem_alloc_zero(w->ctx, n_bytes), n_ready = 0, n_live = 0;

  if (!n_used)
    return true;
  uint32_t *ready = n_used + w->n;
  for (uint32_t i = 0; i < w->n; i++) {
    for (uint32_t e = w->pairs[i].edges; e != NONE; e = w->edges[e].next)
      n_used[w->edges[e].user]++;
    n_live += !w->pairs[i].failed;
  }
  for (uint32_t i = 0; i < w->n; i++)
    if (!w->pairs[i].failed && n_used[i] == 0)
      ready[n_ready++] = i;
  for (uint32_t k = 0; k < n_ready; k++)
    for (uint32_t e = w->pairs[ready[k]].edges; e != NONE; e = w->edges[e].next)
      if (--n_used[w->edges[e].user] == 0 && !w->pairs[w->edges[e].user].failed)
        ready[n_ready++] = w->edges[e].user;
  mem_free(w->ctx, n_used, n_bytes);
  if (n_ready < n_live)
    mem_refuse(w->ctx, "a class fits an interface only if it fits it: the types of their methods "
                       "refer to each other in a "
                       "circle, which PyTorch cannot compare either");
  return n_ready < n_live;
}

/* Return the calling thread's list, or NULL. */
static fits_work *work_of_thread(type_store *ts)
{
  mutex_lock(&ts->lock);
  fits_work *w = ts->fits;
  while (w && !pthread_equal(w->thread, pthread_self()))
    w = w->outer;
  mutex_unlock(&ts->lock);
  return w;
}

static void link_work(type_store *ts, fits_work *w)
{
  mutex_lock(&ts->lock);
  w->outer = ts->fits;
  ts->fits = w;
  mutex_unlock(&ts->lock);
}

static void unlink_work(type_store *ts, fits_work *w)
{
  mutex_lock(&ts->lock);
  fits_work **at = &ts->fits;
  while (*at != w)
    at = &(*at)->outer;
  *at = w->outer;
  mutex_unlock(&ts->lock);
}

bool type_fits_interface(const type *cls, const type *iface)
{
  type_store *ts = iface->store;

  if (!ts || !ts->fits_interface)
    return false;
  fits_work *running = work_of_thread(ts);
  if (running)
    return assume(running, cls, iface);
  fits_work w = {.thread = pthread_self(), .ctx = ts->ctx};
  bool fits = false;
  link_work(ts, &w);
  if (find_pair(&w, cls, iface) != NONE)
    fits = settle(&w, ts) && !is_circular(&w);
  unlink_work(ts, &w);
  mem_free(ts->ctx, w.pairs, w.cap * sizeof *w.pairs);
  mem_free(ts->ctx, w.edges, w.cap_edges * sizeof *w.edges);
  mem_free(ts->ctx, w.slots, w.n_slots * sizeof *w.slots);
  return fits;
}
