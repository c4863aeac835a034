/* compile/derived.c -- what follows from weights alone is computed once: the operator that owns the
 * groups of passes/derive.c.
 *
 * A group's results are kept with its node, for the arguments that they were made of: tensors by
 * storage, version and geometry, numbers by value. The first call with some weights runs the nodes,
 * the second keeps what they make, later ones return it.  A weight that changes has another
 * version: after MOST_KEPT versions the nodes run in every call, as for a weight that is written
 * to. Only memory whose writers update its version is trusted, as for packed weights
 * (ops/kernels/packed.h); what is kept is marked as a parameter, so that products pack it and no
 * operator takes its buffer.
 *
 * Threads: what is kept is immutable and only added, so readers take no lock.  Several threads may
 * compute the same at once; the first keeps it. */
#include "compile/compiler.h"

#include "base/threads.h"
#include "ops/call/call.h"
#include "ops/kernels/packed.h"
#include "passes/passes.h"

#define DERIVED_OP "rushlight::derived"
#define MOST_KEPT 4
#define MOST_BYTES (INT64_C(1) << 30) /* of a result that is kept */

typedef struct fact { /* of an argument, or of an item of the list before it */
  rush_value number;  /* tag and bits; RUSH_TAG_TENSOR: the fields below; lists: the length */
  storage *st;        /* retained; NULL: an undefined tensor */
  uint32_t version;
  int16_t dtype;
  uint16_t n_dims;
  int64_t offset;
  const int64_t *dims; /* n_dims sizes, then strides */
} fact;

typedef struct mode { /* what else results depend on */
  cpu_level level;
  uint8_t default_dtype;
} mode;

typedef struct kept { /* results and what they were made of, in one block */
  struct kept *next;
  size_t n_bytes;
  int64_t result_bytes;
  mode made_in;
  uint32_t n_facts, n_results;
  fact *facts;
  rush_value *results; /* owned */
} kept;

typedef struct derived {
  context *ctx;
  _Atomic(kept *) first;
  _Atomic uint64_t seen; /* a digest of the arguments of the last call that kept nothing */
  atomic_uint n_kept;
  mutex lock;            /* of keeping more */
} derived;

/* -- Facts of arguments ------------------------------------------------------------------------ */

static bool is_plain(rush_value v)
{
  return v.tag == RUSH_TAG_NONE || v.tag == RUSH_TAG_BOOL || v.tag == RUSH_TAG_INT ||
         v.tag == RUSH_TAG_FLOAT;
}

/* True if header and memory are all of the tensor, and its memory's versions are trusted. */
static bool can_compare(const rush_tensor *t)
{
  const tensor_extra *x = atomic_load_explicit(&t->extra, memory_order_acquire);

  return packed_is_trusted(t) && (!x || (!x->quant && !x->nested && !x->sparse));
}

/* Count the facts of the arguments and the numbers that describe their tensors' geometry; false:
 * some argument cannot be compared, or its memory is not trusted. */
static bool measure(const rush_value *v, size_t n, bool nested, uint32_t *n_facts, size_t *n_dims)
{
  for (size_t i = 0; i < n; i++) {
    ++*n_facts;
    if (v[i].tag == RUSH_TAG_TENSOR) {
      const rush_tensor *t = v[i].as.tensor;

      if (t && !can_compare(t))
        return false;
      *n_dims += t ? 2u * t->n_dims : 0;
    } else if (v[i].tag == RUSH_TAG_LIST && !nested) {
      if (!measure(v[i].as.list->items, v[i].as.list->n, true, n_facts, n_dims))
        return false;
    } else if (!is_plain(v[i])) {
      return false;
    }
  }
  return true;
}

static bool tensor_is(const fact *f, const rush_tensor *t)
{
  if (!t || !f->st)
    return !t && !f->st;
  return t->st == f->st && can_compare(t) && t->dtype == f->dtype && t->n_dims == f->n_dims &&
         t->offset == f->offset &&
         atomic_load_explicit(&t->st->version, memory_order_relaxed) == f->version &&
         memcmp(t->sizes, f->dims, t->n_dims * sizeof *t->sizes) == 0 &&
         memcmp(t->strides, f->dims + t->n_dims, t->n_dims * sizeof *t->strides) == 0;
}

/* Compare values with the facts from *at on, which moves behind them. */
static bool values_are(const fact **at, const fact *end, const rush_value *v, size_t n)
{
  for (size_t i = 0; i < n; i++) {
    const fact *f = *at;

    if (f == end || f->number.tag != v[i].tag)
      return false;
    ++*at;
    if (v[i].tag == RUSH_TAG_TENSOR) {
      if (!tensor_is(f, v[i].as.tensor))
        return false;
    } else if (v[i].tag == RUSH_TAG_LIST) {
      if (f->number.as.i != (int64_t)v[i].as.list->n ||
          !values_are(at, end, v[i].as.list->items, v[i].as.list->n))
        return false;
    } else if (v[i].tag != RUSH_TAG_NONE && f->number.as.i != v[i].as.i) {
      return false;
    }
  }
  return true;
}

static const kept *find(const derived *d, const rush_value *args, size_t n, mode now)
{
  for (const kept *k = atomic_load_explicit(&d->first, memory_order_acquire); k; k = k->next) {
    const fact *at = k->facts, *end = at + k->n_facts;

    if (k->made_in.level == now.level && k->made_in.default_dtype == now.default_dtype &&
        values_are(&at, end, args, n) && at == end)
      return k;
  }
  return NULL;
}

/* -- Keeping ----------------------------------------------------------------------------------- */

static void fill(fact **at, int64_t **dims, const rush_value *v, size_t n)
{
  for (size_t i = 0; i < n; i++) {
    fact *f = (*at)++;

    *f = (fact){.number.tag = v[i].tag};
    if (v[i].tag == RUSH_TAG_LIST) {
      f->number.as.i = (int64_t)v[i].as.list->n;
      fill(at, dims, v[i].as.list->items, v[i].as.list->n);
    } else if (v[i].tag != RUSH_TAG_TENSOR) {
      f->number = v[i];
    } else if (v[i].as.tensor) {
      const rush_tensor *t = v[i].as.tensor;

      f->st = storage_retain(t->st);
      f->version = atomic_load_explicit(&t->st->version, memory_order_relaxed);
      f->dtype = (int16_t)t->dtype;
      f->n_dims = t->n_dims;
      f->offset = t->offset;
      f->dims = *dims;
      memcpy(*dims, t->sizes, t->n_dims * sizeof **dims);
      memcpy(*dims + t->n_dims, t->strides, t->n_dims * sizeof **dims);
      *dims += 2 * t->n_dims;
    }
  }
}

static void kept_free(context *c, kept *k)
{
  for (uint32_t i = 0; i < k->n_facts; i++)
    storage_release(k->facts[i].st);
  for (uint32_t i = 0; i < k->n_results; i++)
    value_release(k->results[i]);
  mem_count_packed(c, -k->result_bytes);
  mem_free(c, k, k->n_bytes);
}

/* Make the record of the arguments, without results; NULL: they are not kept. */
static kept *kept_new(context *c, const rush_value *args, size_t n_args, uint32_t n_results,
                      mode now)
{
  uint32_t n_facts = 0;
  size_t n_dims = 0;

  if (!measure(args, n_args, false, &n_facts, &n_dims))
    return NULL;
  const size_t n_bytes = sizeof(kept) + n_facts * sizeof(fact) + n_results * sizeof(rush_value) +
                         n_dims * sizeof(int64_t);
  kept *k = mem_alloc_zero(c, n_bytes);
  if (!k)
    return NULL;
  *k = (kept){.n_bytes = n_bytes, .made_in = now, .n_facts = n_facts, .n_results = n_results};
  k->facts = (fact *)(k + 1);
  k->results = (rush_value *)(k->facts + n_facts);
  fact *at = k->facts;
  int64_t *dims = (int64_t *)(k->results + n_results);
  fill(&at, &dims, args, n_args);
  return k;
}

/* True if the storage is an argument's, or that of a result before the n-th. */
static bool is_counted(const kept *k, const rush_value *results, uint32_t n)
{
  const storage *st = results[n].as.tensor->st;

  for (uint32_t i = 0; i < k->n_facts; i++)
    if (k->facts[i].st == st)
      return true;
  for (uint32_t i = 0; i < n; i++)
    if (results[i].as.tensor->st == st)
      return true;
  return false;
}

/* Take the results of a call; false: they cannot be the same in every call, or one is an argument
 * itself, whose header is the program's. */
static bool take_results(kept *k, const rush_value *results)
{
  for (uint32_t i = 0; i < k->n_results; i++) {
    const rush_tensor *t = results[i].tag == RUSH_TAG_TENSOR ? results[i].as.tensor : NULL;

    if (!t || t->extra || !heap_is_unique(&t->h) || (int64_t)t->st->n_bytes > MOST_BYTES)
      return false;
  }
  for (uint32_t i = 0; i < k->n_results; i++) {
    k->results[i] = value_retain(results[i]);
    results[i].as.tensor->h.flags |= TENSOR_IS_PARAMETER;
    k->result_bytes += is_counted(k, results, i) ? 0 : (int64_t)results[i].as.tensor->st->n_bytes;
  }
  return true;
}

static uint64_t digest(const kept *k)
{
  uint64_t h = 1469598103934665603u;

  for (uint32_t i = 0; i < k->n_facts; i++)
    h = (h ^ (uint64_t)(uintptr_t)k->facts[i].st ^ (uint64_t)k->facts[i].version << 48 ^
         (uint64_t)k->facts[i].number.as.i) *
        1099511628211u;
  return h | 1;
}

/* Keep a record with its results; false: there are enough, or another thread keeps the same. */
static bool keep(derived *d, kept *k, const rush_call *call)
{
  mutex_lock(&d->lock);
  const bool is_new = atomic_load(&d->n_kept) < MOST_KEPT &&
                      !find(d, call->args, call->n_args, k->made_in) &&
                      take_results(k, call->results);

  if (is_new) {
    k->next = atomic_load_explicit(&d->first, memory_order_relaxed);
    atomic_store_explicit(&d->first, k, memory_order_release);
    atomic_fetch_add(&d->n_kept, 1);
    mem_count_packed(d->ctx, k->result_bytes);
  }
  mutex_unlock(&d->lock);
  return is_new;
}

/* Run the nodes, and keep what they make if the weights are those of the call before. */
static rush_status compute_results(rush_call *call, derived *d, mode now)
{
  if (atomic_load_explicit(&d->n_kept, memory_order_relaxed) >= MOST_KEPT)
    return call->state->run(call, call->state->body);
  kept *k = kept_new(d->ctx, call->args, call->n_args, call->n_results, now);
  const uint64_t seen = k ? digest(k) : 0;
  const bool again = k && atomic_exchange_explicit(&d->seen, seen, memory_order_relaxed) == seen;
  rush_status st = call->state->run(call, call->state->body);

  if (k && !(st == RUSH_OK && again && keep(d, k, call)))
    kept_free(d->ctx, k);
  return st;
}

/* -- The operator ------------------------------------------------------------------------------ */

static rush_status call_derived(rush_call *call)
{
  const compiler *own = call->op->outside->user;
  derived *d = call->state->user;
  const mode now = {(cpu_level)own->backend.api->context_cpu(own->backend.ctx),
                    call->cx->default_dtype};
  const kept *k = find(d, call->args, call->n_args, now);

  if (!k)
    return compute_results(call, d, now);
  for (uint32_t i = 0; i < k->n_results; i++)
    call->results[i] = value_retain(k->results[i]);
  return RUSH_OK;
}

static rush_status prepare_derived(rush_context *c, const rush_node *node, void *user, void **state,
                                   rush_error *err)
{
  const compiler *own = user;
  derived *d = mem_alloc_zero(c, sizeof *d);

  (void)node;
  if (!d)
    return own->backend.api->error_set(err, RUSH_ENOMEM, NULL, "no memory for derived weights");
  d->ctx = c;
  mutex_init(&d->lock);
  *state = d;
  return RUSH_OK;
}

static void destroy_derived(void *state, void *user)
{
  derived *d = state;

  (void)user;
  for (kept *k = atomic_load(&d->first), *next; k; k = next) {
    next = k->next;
    kept_free(d->ctx, k);
  }
  mutex_destroy(&d->lock);
  mem_free(d->ctx, d, sizeof *d);
}

static void describe_derived(void *state, void *user, rush_write_fn *write, void *to)
{
  static const char none[] = "the interpreter, until two calls have the same weights\n",
                    some[] = "results that are kept while the weights stay\n";
  const derived *d = state;

  (void)user;
  if (atomic_load(&d->n_kept))
    write(to, some, sizeof some - 1);
  else
    write(to, none, sizeof none - 1);
}

static rush_status group_derived(rush_pass *pass, void *user)
{
  (void)user;
  pass_group_derived(pass, DERIVED_OP);
  return RUSH_OK;
}

rush_status derived_register(compiler *own, rush_error *err)
{
  const rush_op_def op = {.struct_bytes = sizeof op,
                          .schema = DERIVED_OP "(...) -> ...",
                          .alias = RUSH_ALIAS_PURE,
                          .kernel = call_derived,
                          .user = own,
                          .prepare = prepare_derived,
                          .destroy = destroy_derived,
                          .describe = describe_derived};
  const rush_pass_def pass = {.struct_bytes = sizeof pass,
                              .name = "rushlight::group_derived",
                              .order = 800, /* what is kept is a weight for the groups behind */
                              .run = group_derived,
                              .user = own};

  TRY(own->backend.api->op_register(own->backend.ctx, &op, err));
  return own->backend.api->pass_register(own->backend.ctx, &pass, err);
}
