/* Let allocations fail through the public header: loading and calling survive each failure, report
 * it, leak nothing, and succeed when repeated. Every allocation fails in turn, alone and together
 * with all later ones of the call; call sites are counted to measure coverage. */
#include "support/test.h"

#include <execinfo.h>

#include "rushlight/rushlight.h"

/* A call site is a chain of this many callers. */
#define FRAMES 8

/* -- An allocator that fails ------------------------------------------------------------------- */

typedef struct site {
  uint64_t hash; /* 0: free */
} site;

typedef struct failing {
  long at;      /* allocations requested so far */
  long fails;   /* the one that fails, or -1 */
  bool lasting; /* all later ones fail too, until the call has returned */
  bool fired;
  bool off;
  long live;    /* blocks */
  site *sites;  /* NULL: not counted */
  size_t n_sites, n_slots;
} failing;

static uint64_t callers(void)
{
  void *frames[FRAMES + 2];
  int n = backtrace(frames, FRAMES + 2);
  uint64_t h = 14695981039346656037u;
  for (int i = 2; i < n; i++) /* without this function and the allocator */
    h = (h ^ (uintptr_t)frames[i]) * 1099511628211u;
  return h ? h : 1;
}

static void record(failing *f)
{
  uint64_t h = callers();
  size_t i = h % f->n_slots;
  while (f->sites[i].hash && f->sites[i].hash != h)
    i = (i + 1) % f->n_slots;
  if (!f->sites[i].hash)
    f->n_sites++;
  f->sites[i].hash = h;
  assert_true(f->n_sites < f->n_slots / 2);
}

static void *failing_alloc(void *user, size_t n)
{
  failing *f = user;
  if (!f->off) {
    if (f->sites)
      record(f);
    if (f->at++ == f->fails || (f->lasting && f->fired)) {
      f->fired = true;
      if (getenv("RUSH_SHOW")) { /* call site of the failure, for debugging */
        void *frames[32];
        backtrace_symbols_fd(frames, backtrace(frames, 32), 2);
      }
      return NULL;
    }
  }
  f->live++;
  return malloc(n ? n : 1);
}

static void failing_free(void *user, void *p, size_t n)
{
  (void)n;
  ((failing *)user)->live--;
  free(p);
}

/* -- What runs --------------------------------------------------------------------------------- */

static rush_value tensor(rush_context *c, rush_dtype dtype, int n_dims, const int64_t *sizes)
{
  rush_value t;
  assert_int_equal(rush_tensor_create(c, dtype, n_dims, sizes, &t, NULL), RUSH_OK);
  int64_t n = rush_tensor_n_elems(t.as.tensor);
  void *p = rush_tensor_data_mut(t.as.tensor);
  for (int64_t i = 0; i < n; i++)
    if (dtype == RUSH_FLOAT32)
      ((float *)p)[i] = (float)(i % 17) / 8 - 1;
    else if (dtype == RUSH_INT64)
      ((int64_t *)p)[i] = i * 7 % 11;
    else
      ((bool *)p)[i] = i % 4 == 3;
  return t;
}

static rush_value picture(rush_context *c)
{
  return tensor(c, RUSH_FLOAT32, 4, (const int64_t[]){2, 3, 9, 9});
}
static rush_value digit(rush_context *c)
{
  return tensor(c, RUSH_FLOAT32, 4, (const int64_t[]){1, 1, 8, 8});
}

static rush_value batch(rush_context *c)
{
  const int64_t sizes[] = {2, 4};
  rush_value keys[2], values[2] = {tensor(c, RUSH_INT64, 2, sizes), tensor(c, RUSH_BOOL, 2, sizes)},
                      dict;
  assert_int_equal(rush_string_create(c, "tokens", 6, &keys[0], NULL), RUSH_OK);
  assert_int_equal(rush_string_create(c, "mask", 4, &keys[1], NULL), RUSH_OK);
  assert_int_equal(rush_dict_create(c, keys, values, 2, &dict, NULL), RUSH_OK);
  for (int i = 0; i < 2; i++) {
    rush_value_release(keys[i]);
    rush_value_release(values[i]);
  }
  return dict;
}

typedef struct program {
  const char *file;
  rush_value (*input)(rush_context *c);
  bool first; /* only the first result is the same in every call */
} program;

/* End the failure: the next try finds memory. */
static rush_status over(failing *f, rush_status st)
{
  f->fired = false;
  return st;
}

/* Call; return the result as text (new), or NULL if there was no memory. */
static char *call(failing *f, rush_context *c, rush_module *m, const program *p)
{
  rush_error err = RUSH_ERROR_INIT;
  rush_value y;
  char *text = NULL;
  f->off = true;
  rush_value x = p->input(c);
  f->off = false;
  rush_status st = over(f, rush_module_call(m, NULL, &x, 1, &y, &err));
  if (st == RUSH_OK) {
    f->off = true;
    assert_int_equal(rush_value_to_text(c, p->first ? rush_value_item(y, 0) : y, true, &text, NULL),
                     RUSH_OK);
    f->off = false;
    rush_value_release(y);
  } else if (st != RUSH_ENOMEM) {
    fail_msg("%s: allocation %ld fails: %s, not out of memory: %s", p->file, f->fails,
             rush_status_name(st), err.message);
  }
  assert_true(err.status == st);
  rush_error_clear(&err);
  rush_value_release(x);
  return text;
}

/* Run one round: repeat what failed. Return the result's text, new. */
static char *load_and_call(failing *f, const program *p)
{
  char path[4096], *text;
  rush_context_options o = RUSH_CONTEXT_OPTIONS_INIT;
  rush_error err = RUSH_ERROR_INIT;
  rush_context *c;
  rush_module *m;
  int tries = 0;
  snprintf(path, sizeof path, "%s/%s", getenv("RUSH_TEST_DATA"), p->file);
  o.alloc = failing_alloc;
  o.no_cache = true;
  o.free = failing_free;
  o.alloc_user = f;
  o.n_threads = 1;
  rush_status st = over(f, rush_context_create(&o, &c, &err));
  if (st == RUSH_ENOMEM && ++tries)
    st = rush_context_create(&o, &c, &err);
  assert_int_equal(st, RUSH_OK);
  st = over(f, rush_module_load(c, path, NULL, &m, &err));
  if (st == RUSH_ENOMEM && ++tries)
    st = over(f, rush_module_load(c, path, NULL, &m, &err));
  if (st != RUSH_OK)
    fail_msg("%s: allocation %ld fails: load says %s: %s", p->file, f->fails, rush_status_name(st),
             err.message);
  text = call(f, c, m, p);
  if (!text) {
    tries++;
    text = call(f, c, m, p);
  }
  if (!text || tries > 1)
    fail_msg("%s: allocation %ld fails: the second try fails too", p->file, f->fails);
  char *copy = strdup(text);
  rush_free_text(c, text);
  rush_module_release(m);
  rush_context_release(c);
  rush_error_clear(&err);
  if (f->live)
    fail_msg("%s: %ld blocks are left when allocation %ld fails", p->file, f->live, f->fails);
  return copy;
}

static void survives(const program *p)
{
  failing all = {.fails = -1, .n_slots = 1 << 16};
  void *warm[2];
  (void)backtrace(warm, 2); /* allocates, the first time */
  all.sites = calloc(all.n_slots, sizeof *all.sites);
  assert_non_null(all.sites);
  char *expected = load_and_call(&all, p);
  size_t n_silent = 0;
  for (long i = 0; i < all.at; i++) {
    failing f = {.fails = i};
    char *text = load_and_call(&f, p);
    if (strcmp(text, expected) != 0)
      fail_msg("%s: after allocation %ld failed the result is %s, not %s", p->file, f.fails, text,
               expected);
    n_silent += f.at <= f.fails;
    free(text);
  }
  for (long i = 0; i < all.at;
       i += 1 + i / 32) { /* later allocations repeat call sites of earlier ones */
    failing f = {.fails = i, .lasting = true};
    char *text = load_and_call(&f, p);
    if (strcmp(text, expected) != 0)
      fail_msg("%s: after allocation %ld and all after it failed the result is %s, not %s", p->file,
               f.fails, text, expected);
    free(text);
  }
  printf("%s: %ld allocations of %zu call sites, each failed once\n", p->file, all.at, all.n_sites);
  assert_true(all.n_sites > 50 ||
              all.n_sites == 1); /* 1: in builds without unwind tables all call sites look alike */
  assert_int_equal(n_silent, 0); /* every one of them was reached */
  free(expected);
  free(all.sites);
}

static void a_scripted_network_survives(void **state)
{
  (void)state;
  survives(&(program){"cnn.pt", picture, true});
}

static void a_transformer_with_dicts_survives(void **state)
{
  (void)state;
  survives(&(program){"reader.pt", batch, false});
}

static void an_exported_program_survives(void **state)
{
  (void)state;
  survives(&(program){"digits.pt2", digit, false});
}

int main(void)
{
  const struct CMUnitTest tests[] = {
      cmocka_unit_test(a_scripted_network_survives),
      cmocka_unit_test(a_transformer_with_dicts_survives),
      cmocka_unit_test(an_exported_program_survives),
  };
  return RUN_TESTS(tests);
}
