/* Operators: any one that can run, called with wild arguments of its schema's types (wild.h).
 *
 * An input is a line with the operator's name, "aten::add.Tensor", and bytes that choose the
 * arguments; an unknown name does nothing.  Around the call: 64 MB, 0.2 seconds.  A finding is,
 * besides a signal or a sanitizer's report,
 *   - an internal error, or a failure without a message;
 *   - a call that takes more than a second longer than its limit (of this thread's processor time);
 *   - memory that grows each time when the call is repeated, or that outlives the context;
 *   - a result that is not of its type, or a tensor that reaches beyond its storage;
 *   - a call that does something else where a place in code has instances (ops/call/instance.h) of
 *     the same arguments, or of others.
 *
 * One context serves many inputs, since building operators costs more than calling them; it is
 * replaced when it has grown.
 *
 * RUSHLIGHT_OPERATORS restricts a run to some operators: patterns as the shell's, separated by
 * spaces, and, behind a '-', what they leave out: RUSHLIGHT_OPERATORS='aten::[a-m]* prim::*
 * -aten::im2col*' build-fuzz/fuzz/fuzz_operators -runs=100000. Without libFuzzer: fuzz/replay
 * -o100000 makes so many calls.  An input is one call; the numbers of calls and of operators that
 * they reached are printed at the end. */
#include <fnmatch.h>
#include <stdio.h>
#include <stdlib.h>
#include <time.h>

#include "fuzz.h"
#include "wild.h"

#include "base/clock.h"
#include "ops/call/instance.h"
#include "run/code.h"
#include "tensor/generator.h"

enum {
  MAX_ARGS = 40,
  MAX_MORE_ARGS = 6,
  MAX_RESULTS = 32,
  LATE_MS = 1200,
  MAX_NAME_BYTES = 200,
  MAX_PATTERNS = 64,
  MAX_NEW_BYTES = 100
};
#define LIMIT_BYTES ((size_t)64 << 20)
#define GROWN_BYTES ((int64_t)40 << 20)
#define DEADLINE_NS UINT64_C(200000000)

/* -- The operators ----------------------------------------------------------------------------- */

static struct {
  text_buf text;      /* their names, one after the other */
  const char **names;
  uint32_t *n_calls, *n_good; /* by name: calls, and those that succeeded */
  size_t n;
} known;

static const char *const *patterns(void)
{
  static const char *all[MAX_PATTERNS + 1];
  static bool is_split;
  const char *given = getenv("RUSHLIGHT_OPERATORS");
  if (!is_split && given) {
    size_t n = 0;
    char *rest;
    for (char *word = strtok_r(strdup(given), " ", &rest); word && n < MAX_PATTERNS;
         word = strtok_r(NULL, " ", &rest))
      all[n++] = word;
  }
  is_split = true;
  return all;
}

static bool is_wanted(const char *name)
{
  bool wanted = !patterns()[0] || patterns()[0][0] == '-';
  for (const char *const *p = patterns(); *p; p++)
    if (fnmatch(**p == '-' ? *p + 1 : *p, name, 0) == 0)
      wanted = **p != '-';
  return wanted;
}

static int compare_names(const void *a, const void *b)
{
  return strcmp(*(const char *const *)a, *(const char *const *)b);
}

static void print_counts(void)
{
  size_t n_calls = 0, n_called = 0, n_good = 0;
  for (size_t i = 0; i < known.n; i++) {
    n_calls += known.n_calls[i];
    n_called += known.n_calls[i] > 0;
    n_good += known.n_good[i] > 0;
    if (getenv("RUSHLIGHT_OPERATORS_REFUSED") && known.n_calls[i] && !known.n_good[i])
      fprintf(stderr, "refused: %s (%u calls)\n", known.names[i], known.n_calls[i]);
  }
  fprintf(stderr, "operators: %zu calls of %zu of %zu operators, %zu of which succeeded\n", n_calls,
          n_called, known.n, n_good);
}

/* Read the names from the printed operator table. */
static void fill_table(context *c)
{
  size_t most = 0;
  text_init(&known.text, c);
  op_table_print(&known.text, (str){"", 0});
  fuzz_demand(!text_failed(&known.text), "no memory for the table");
  char *p = strdup(text_str(&known.text));
  for (const char *q = p; *q; q++)
    most += *q == '\n';
  text_free(&known.text);
  known.names = calloc(most, sizeof *known.names);
  known.n_calls = calloc(most, sizeof *known.n_calls);
  known.n_good = calloc(most, sizeof *known.n_good);
  char *rest;
  for (char *line = strtok_r(p, "\n", &rest); line; line = strtok_r(NULL, "\n", &rest)) {
    line[strcspn(line, "(")] = 0;
    if (is_wanted(line))
      known.names[known.n++] = line;
  }
  qsort(known.names, known.n, sizeof *known.names, compare_names);
  atexit(print_counts);
}

static long find_name(const char *name)
{
  const char **at = bsearch(&name, known.names, known.n, sizeof *known.names, compare_names);
  return at ? at - known.names : -1;
}

/* -- The context ------------------------------------------------------------------------------- */

static struct {
  context *ctx;
  fuzz_counter count;
} shared;

static void drop_context(void)
{
  if (!shared.ctx)
    return;
  context_release(shared.ctx);
  shared.ctx = NULL;
  fuzz_check_blocks(&shared.count);
}

static void make_context(void)
{
  static bool is_registered;
  rush_error err = RUSH_ERROR_INIT;
  context_options opt = fuzz_options(&shared.count);
  opt.limit_bytes = LIMIT_BYTES;
  shared.count = (fuzz_counter){.fail_at = -1};
  fuzz_demand(context_new(&opt, &shared.ctx, &err) == RUSH_OK &&
                run_init(shared.ctx, &err) == RUSH_OK,
              "no context");
  if (!is_registered) {
    fill_table(shared.ctx);
    atexit(drop_context);
  }
  is_registered = true;
}

/* -- Checks ------------------------------------------------------------------------------------ */

static void check_tensor(const rush_tensor *t, const char *what)
{
  int64_t n = 1, last = 0;
  fuzz_demand(t->n_dims <= TENSOR_MAX_DIMS && dtype_is_valid(t->dtype), what);
  for (int i = 0; i < t->n_dims; i++) {
    fuzz_demand(t->sizes[i] >= 0 && t->strides[i] >= 0, what);
    fuzz_demand(!__builtin_mul_overflow(n, t->sizes[i], &n), what);
    if (t->sizes[i] > 1)
      last += (t->sizes[i] - 1) * t->strides[i];
  }
  fuzz_demand(n == t->n_elems, what);
  const size_t item = dtype_bytes(t->dtype);
  if (n > 0 && !tensor_is_meta(t) && !(t->extra && t->extra->nested)) {
    fuzz_demand(t->offset >= 0 && (size_t)(t->offset + last + 1) * item <= t->st->n_bytes, what);
    fuzz_demand((const char *)t->data == (const char *)t->st->data + (size_t)t->offset * item,
                what);
  }
}

static void check_tensors(const rush_value *values, uint32_t n, const char *what)
{
  const rush_tensor *t;
  for (tensor_walk w = {values, n}; (t = tensor_walk_next(&w)) != NULL;)
    check_tensor(t, what);
}

/* True if v has type t. None for a Tensor is an undefined one: registers hold the same for both. */
static bool fits(const type *t, rush_value v)
{
  if (v.tag == RUSH_TAG_NONE && t->kind == TYPE_TENSOR)
    return true;
  return type_contains_value(t, v) || (t->kind == TYPE_NUMBER && v.tag == RUSH_TAG_COMPLEX);
}

static void check_results(wild *w, const schema *sc, const rush_value *results)
{
  for (uint32_t i = 0; i < sc->n_returns; i++) {
    const type *t = wild_type(w, sc->returns[i].type);
    if (t && !fits(t, results[i]))
      fprintf(stderr, "result %u of %s.%s has tag %u\n", i, sc->name, sc->overload, results[i].tag);
    fuzz_demand(!t || fits(t, results[i]), "a result is not of its type");
  }
}

/* -- Calls ------------------------------------------------------------------------------------- */

static rush_status make_args(wild *w, const op *o, uint32_t n_args, rush_value *args)
{
  const schema *sc = o->schema;
  for (uint32_t i = 0; i < n_args; i++) {
    const schema_arg *a = i < sc->n_args ? &sc->args[i] : NULL;
    rush_status st = !a ? wild_value(w, type_simple(TYPE_ANY), 0, &args[i])
                     : o->variant == VARIANT_OUT && a->is_write && a->type->kind == TYPE_TENSOR
                         ? wild_out(w, &args[i])
                         : wild_value(w, a->type, a->fixed_len, &args[i]);
    if (st != RUSH_OK) {
      while (i > 0)
        value_release(args[--i]);
      return st;
    }
  }
  return RUSH_OK;
}

/* FNV-1a of the elements; 0 without memory to read them. */
static uint64_t hash_elements(const call_ctx *of, rush_tensor *t)
{
  uint64_t h = UINT64_C(14695981039346656037);
  rush_error err = RUSH_ERROR_INIT;
  call_ctx cx; /* the call's deadline may be over */
  rush_tensor *dense = NULL;

  call_ctx_init(&cx, of->ctx, &err);
  if (!t->st || tensor_is_meta(t) || tensor_contiguous(&cx, t, &dense) != RUSH_OK)
    h = 0;
  for (size_t i = 0; dense && i < (size_t)dense->n_elems * dtype_bytes(dense->dtype); i++)
    h = (h ^ ((const uint8_t *)dense->data)[i]) * UINT64_C(1099511628211);
  tensor_release(dense);
  rush_error_clear(&err);
  return h;
}

/* Describe a tensor: dtype, layout, elements, and which tensor argument it shares memory with;
 * that of a dying one it may take. */
static void describe_tensor(text_buf *out, const rush_call *c, rush_tensor *t)
{
  int n_shared = -1, n = 0;

  text_printf(out, " %d%s%s%s[", t->dtype, t->h.flags & TENSOR_CONJ ? "c" : "",
              t->h.flags & TENSOR_WRAPPED_NUMBER ? "w" : "",
              t->h.flags & TENSOR_REQUIRES_GRAD ? "g" : "");
  for (int i = 0; i < t->n_dims; i++)
    text_printf(out, "%lld:%lld,", (long long)t->sizes[i],
                t->n_elems && t->sizes[i] > 1 ? (long long)t->strides[i] : 1);
  const rush_tensor *arg;
  for (tensor_walk w = {c->args, c->n_args}; (arg = tensor_walk_next(&w)) != NULL; n++)
    n_shared = n_shared < 0 && t->st && arg->st == t->st ? n : n_shared;
  if (!c->last_use)
    text_printf(out, "] shares %d at %lld", n_shared, (long long)(n_shared < 0 ? 0 : t->offset));
  text_printf(out, " %llx", (unsigned long long)hash_elements(c->cx, t));
}

/* Describe what the call did: results, or the error. */
static void describe_call(text_buf *out, const rush_call *c, rush_status st)
{
  rush_tensor *t;

  text_printf(out, "%s: %s\n", rush_status_name(st), st == RUSH_OK ? "" : c->cx->err->message);
  for (uint32_t i = 0; i < c->n_results && st == RUSH_OK; i++) {
    text_printf(out, "result %u, tag %u:", i, c->results[i].tag);
    for (tensor_walk w = {&c->results[i], 1}; (t = tensor_walk_next(&w)) != NULL;)
      describe_tensor(out, c, t);
    text_putc(out, '\n');
  }
}

static uint64_t thread_ns(void)
{
  struct timespec t;
  clock_gettime(CLOCK_THREAD_CPUTIME_ID, &t);
  return (uint64_t)t.tv_sec * UINT64_C(1000000000) + (uint64_t)t.tv_nsec;
}

static rush_status timed_call(rush_call *c, op_cache *cache)
{
  const uint64_t start = thread_ns();
  c->cx->deadline_ns = clock_ns() + DEADLINE_NS;
  rush_status st = cache ? op_call_cached(c, cache) : op_call(c);
  const uint64_t ms = (thread_ns() - start) / 1000000;
  if (ms > LATE_MS)
    fprintf(stderr, "%s took %llu ms\n", c->op->schema->name, (unsigned long long)ms);
  fuzz_demand(ms <= LATE_MS, "a call is late");
  return st;
}

/* True if an argument is quantized, nested or sparse: in a context that has had one, calls are
 * checked for them, and have no instances. */
static bool has_special(const rush_value *args, uint32_t n)
{
  const rush_tensor *t;
  for (tensor_walk w = {args, n}; (t = tensor_walk_next(&w)) != NULL;)
    if (t->extra && (t->extra->quant || t->extra->nested || t->extra->sparse))
      return true;
  return false;
}

/* A place that calls: what it keeps, and what can be seen of its last call. */
typedef struct place {
  op_cache *cache; /* NULL: op_call, which keeps nothing */
  text_buf *seen;  /* or NULL */
  bool ended;      /* by the deadline, the limit or no memory: the next call may not be */
} place;

/* Call `o` with the values that the bytes choose.  Return true if it succeeded. */
static bool call_once(const op *o, str bytes, place *at)
{
  rush_error err = RUSH_ERROR_INIT;
  rush_value args[MAX_ARGS + MAX_MORE_ARGS], results[MAX_RESULTS];
  const schema *sc = o->schema;
  call_ctx cx;
  wild w;
  call_ctx_init(&cx, shared.ctx, &err);
  generator_seed(generator_default(shared.ctx), 1);
  wild_init(&w, &cx, type_store_of_context(shared.ctx), (const uint8_t *)bytes.p, bytes.len);
  cx.grad_mode = wild_pick(&w, 2);
  const uint32_t n_args = sc->n_args + (sc->is_vararg ? wild_pick(&w, MAX_MORE_ARGS) : 0);
  rush_status st = make_args(&w, o, n_args, args);
  wild_done(&w); /* an operator may reuse the buffers of arguments that nothing else holds */
  if (st == RUSH_OK) {
    rush_call c = {.cx = &cx,
                   .op = o,
                   .n_args = n_args,
                   .n_results = sc->n_returns,
                   .args = args,
                   .results = results,
                   .last_use = wild_pick(&w, 2) ? UINT64_MAX : 0};
    for (uint32_t i = 0; i < sc->n_returns; i++)
      results[i] = value_none();
    if (!has_special(args, n_args))
      cx.watch &= (uint8_t)~CALL_SPECIAL;
    st = timed_call(&c, at->cache);
    at->ended |= st == RUSH_ELIMIT || st == RUSH_ENOMEM || st == RUSH_ECANCELLED;
    if (at->seen)
      describe_call(at->seen, &c, st);
    if (strcmp(sc->name, "prim::RaiseException") != 0 &&
        strncmp(sc->name, "aten::_assert", 13) != 0) /* their text may be empty */
      fuzz_check_error(st, &err);
    if (st == RUSH_OK)
      check_results(&w, sc, results);
    check_tensors(args, n_args, "a tensor argument is broken");
    check_tensors(results, sc->n_returns, "a tensor result is broken");
    for (uint32_t i = 0; i < sc->n_returns; i++)
      value_release(results[i]);
    for (uint32_t i = 0; i < n_args; i++)
      value_release(args[i]);
  }
  if (st != RUSH_OK && fuzz_is_verbose())
    fprintf(stderr, "%s: %s\n", sc->name, err.message);
  rush_error_clear(&err);
  return st == RUSH_OK;
}

/* Call again while there are blocks that did not exist before: objects that are built or cached are
 * allocated once. */
static bool call_and_count(const op *o, str bytes)
{
  bool good = false, grows = true;
  for (int i = 0; i < 4 && grows; i++) {
    const long before = shared.count.n_blocks;
    good = call_once(o, bytes, &(place){NULL});
    grows = shared.count.n_blocks > before;
  }
  if (grows) {
    fprintf(stderr, "fuzz: %s.%s\n", o->schema->name, o->schema->overload);
    drop_context(); /* reports where, if that memory is lost */
  }
  fuzz_demand(!grows, "memory grows with each call");
  return good;
}

/* Call with failing allocations, spread over all allocations of the call. */
static void call_failing(const op *o, str bytes, long n_failures)
{
  const long start = shared.count.n_allocations;
  call_once(o, bytes, &(place){NULL});
  const long n = shared.count.n_allocations - start;
  for (long i = 0; i < n_failures && i < n; i++) {
    shared.count.fail_at = shared.count.n_allocations + (n_failures >= n ? i : i * n / n_failures);
    call_once(o, bytes, &(place){NULL});
    shared.count.fail_at = -1;
  }
}

/* True if nothing is said of the elements of a result. */
static bool is_unwritten(const op *o) { return strstr(o->schema->name, "empty") != NULL; }

/* Call where instances are, and demand what op_call does. */
static void call_both(const op *o, str bytes, op_cache *cache)
{
  text_buf want, got;
  place plain = {.seen = &want}, cached = {.cache = cache, .seen = &got};

  text_init(&want, shared.ctx);
  text_init(&got, shared.ctx);
  call_once(o, bytes, &plain);
  call_once(o, bytes, &cached);
  const bool differ = !plain.ended && !cached.ended && !text_failed(&want) && !text_failed(&got) &&
                      strcmp(text_str(&want), text_str(&got)) != 0;
  if (differ)
    fprintf(stderr, "%s.%s with %u instances\n%s%s", o->schema->name, o->schema->overload,
            op_cache_count(cache), text_str(&want), text_str(&got));
  fuzz_demand(!differ, "a call with instances does something else");
  text_free(&want);
  text_free(&got);
}

/* Call from one place with the arguments of the input until they have an instance, then with
 * others, and with the first ones again. */
static void call_with_instances(const op *o, str bytes)
{
  op_cache cache = {.first = NULL};

  if (!op_has_instances(o) || is_unwritten(o))
    return;
  for (int i = 0; i < 3; i++)
    call_both(o, bytes, &cache);
  for (size_t skip = 1; skip < 5 && skip < bytes.len; skip++)
    call_both(o, (str){bytes.p + skip, bytes.len - skip}, &cache);
  if (bytes.len > 1) /* most choices are the same */
    for (size_t k = 1; k <= 3; k++)
      call_both(o, (str){bytes.p, bytes.len - k * (bytes.len - 1) / 4}, &cache);
  call_both(o, bytes, &cache);
  op_cache_free(shared.ctx, &cache);
}

static const op *find_op(const char *name)
{
  const char *dot = strchr(name, '.');
  str base = {name, dot ? (size_t)(dot - name) : strlen(name)};
  const op *o = op_find(shared.ctx, base, str_of(dot ? dot + 1 : ""));
  return o && o->schema->n_args <= MAX_ARGS && o->schema->n_returns <= MAX_RESULTS &&
             !o->schema->is_varret
           ? o
           : NULL;
}

int fuzz_operators(const uint8_t *data, size_t n)
{
  char name[MAX_NAME_BYTES];
  const uint8_t *line = memchr(data, '\n', n);
  const size_t n_name = line ? (size_t)(line - data) : n;
  if (!shared.ctx)
    make_context();
  if (n_name == 0 || n_name >= sizeof name)
    return 0;
  memcpy(name, data, n_name);
  name[n_name] = 0;
  const long at = find_name(name);
  const op *o = at < 0 ? NULL : find_op(name);
  if (!o)
    return 0;
  const str bytes = {line ? (const char *)line + 1 : "", line ? n - n_name - 1 : 0};
  known.n_calls[at]++;
  known.n_good[at] += call_and_count(o, bytes);
  call_with_instances(o, bytes);
  call_failing(o, bytes, fuzz_n_failures());
  if (mem_live_bytes(shared.ctx) > GROWN_BYTES)
    drop_context();
  return 0;
}

/* splitmix64 */
static uint32_t next_random(uint64_t *seed)
{
  uint64_t z = *seed += UINT64_C(0x9e3779b97f4a7c15);
  z = (z ^ z >> 30) * UINT64_C(0xbf58476d1ce4e5b9);
  z = (z ^ z >> 27) * UINT64_C(0x94d049bb133111eb);
  return (uint32_t)(z >> 32);
}

size_t fuzz_operators_new(uint8_t *data, size_t max, uint64_t *seed)
{
  if (!shared.ctx)
    make_context();
  if (known.n == 0)
    return 0;
  const char *name = known.names[next_random(seed) % known.n];
  size_t n = strlen(name), n_bytes = next_random(seed) % MAX_NEW_BYTES;
  if (n + 1 + n_bytes > max)
    return 0;
  memcpy(data, name, n);
  data[n++] = '\n';
  while (n_bytes-- > 0)
    data[n++] = (uint8_t)next_random(seed);
  return n;
}
