/* Test modules through the public header: every way of loading, methods, calls, state, copies,
 * failing allocations. */
#include "support/budget.h"
#include "support/test.h"

#include <math.h>
#include <pthread.h>

#include "rushlight/rushlight.h"

static const char *data_path(const char *name)
{
  static _Thread_local char path[4096];

  snprintf(path, sizeof path, "%s/%s", getenv("RUSH_TEST_DATA"), name);
  return path;
}

static char *read_file(const char *path, size_t *n)
{
  FILE *f = fopen(path, "rb");
  assert_non_null(f);
  fseek(f, 0, SEEK_END);
  *n = (size_t)ftell(f);
  rewind(f);
  char *bytes = malloc(*n);
  assert_int_equal(fread(bytes, 1, *n, f), *n);
  fclose(f);
  return bytes;
}

static void silent(void *user, const char *text, size_t n)
{
  (void)user;
  (void)text;
  (void)n;
}

static rush_context *create(void)
{
  rush_context_options o = RUSH_CONTEXT_OPTIONS_INIT;
  rush_context *c;
  o.print = silent;
  assert_int_equal(rush_context_create(&o, &c, NULL), RUSH_OK);
  return c;
}

/* Return the probability of the digit 4 for a constant picture. */
static float answer(rush_context *c, rush_module *m)
{
  int64_t sizes[] = {1, 1, 8, 8};
  float pixels[64], p;
  rush_value x, y;
  for (int i = 0; i < 64; i++)
    pixels[i] = (float)i / 64;
  assert_int_equal(rush_tensor_wrap(c, RUSH_FLOAT32, 4, sizes, NULL, pixels, NULL, NULL, &x, NULL),
                   RUSH_OK);
  assert_int_equal(rush_module_call(m, NULL, &x, 1, &y, NULL), RUSH_OK);
  assert_int_equal(rush_tensor_n_elems(y.as.tensor), 10);
  p = ((const float *)rush_tensor_data(y.as.tensor))[4];
  rush_value_release(y);
  rush_value_release(x);
  return p;
}

static int read_at(void *user, uint64_t offset, void *buffer, size_t n)
{
  return fseek(user, (long)offset, SEEK_SET) != 0 || fread(buffer, 1, n, user) != n;
}
static int read_nothing(void *user, uint64_t offset, void *buffer, size_t n)
{
  (void)user;
  (void)offset;
  (void)buffer;
  (void)n;
  return 1;
}
static void free_bytes(void *user, void *data)
{
  ++*(int *)user;
  free(data);
}

static void every_way_of_loading_gives_the_same(void **state)
{
  (void)state;
  rush_context *c = create();
  rush_load_options o = RUSH_LOAD_OPTIONS_INIT;
  rush_module *m[6];
  size_t n;
  int n_freed = 0;
  char *bytes = read_file(data_path("digits.pt"), &n),
       *kept = read_file(data_path("digits.pt"), &n);
  FILE *f = fopen(data_path("digits.pt"), "rb");
  assert_int_equal(rush_module_load(c, data_path("digits.pt"), NULL, &m[0], NULL), RUSH_OK);
  o.check_full = o.copy = true;
  assert_int_equal(rush_module_load(c, data_path("digits.pt"), &o, &m[1], NULL), RUSH_OK);
  assert_int_equal(rush_module_load_bytes(c, bytes, n, NULL, NULL, NULL, &m[2], NULL), RUSH_OK);
  memset(bytes, 0, n); /* they were copied */
  free(bytes);
  assert_int_equal(rush_module_load_bytes(c, kept, n, free_bytes, &n_freed, NULL, &m[3], NULL),
                   RUSH_OK);
  assert_int_equal(rush_module_load_reader(c, n, read_at, f, NULL, &m[4], NULL), RUSH_OK);
  fclose(f);
  assert_int_equal(rush_module_load(c, data_path("digits.pt2"), NULL, &m[5], NULL), RUSH_OK);
  assert_int_equal(rush_module_format(m[0]), RUSH_FORMAT_TORCHSCRIPT);
  assert_int_equal(rush_module_format(m[5]), RUSH_FORMAT_EXPORT);
  float want = answer(c, m[0]);
  for (int i = 0; i < 6; i++) {
    assert_true(fabsf(answer(c, m[i]) - want) < 1e-5f);
    assert_int_equal(n_freed, i > 3);
    rush_module_release(m[i]);
  }
  rush_context_release(c);
}

static void refusals_name_the_file(void **state)
{
  (void)state;
  rush_context *c = create();
  rush_load_options o = RUSH_LOAD_OPTIONS_INIT;
  rush_error err = RUSH_ERROR_INIT;
  rush_module *m;
  size_t n;
  char *bytes = read_file(data_path("digits.pt"), &n);
  assert_int_equal(rush_module_load(c, "no/such.pt", NULL, &m, &err), RUSH_EIO);
  assert_non_null(strstr(err.message, "no/such.pt"));
  o.name = "upload 17";
  for (size_t cut = 0; cut < n; cut += n / 40 + 1) {
    assert_int_equal(rush_module_load_bytes(c, bytes, cut, NULL, NULL, &o, &m, &err), RUSH_EFORMAT);
    assert_non_null(strstr(err.message, "upload 17"));
  }
  assert_int_not_equal(rush_module_load_reader(c, n, read_nothing, NULL, &o, &m, &err), RUSH_OK);
  rush_error_clear(&err);
  free(bytes);
  rush_context_release(c);
}

static void methods_have_names_and_schemas(void **state)
{
  (void)state;
  rush_context *c = create();
  rush_error err = RUSH_ERROR_INIT;
  rush_module *m;
  char *text;
  assert_int_equal(rush_module_load(c, data_path("life.pt"), NULL, &m, NULL), RUSH_OK);
  assert_int_equal(rush_module_n_methods(m), 2);
  assert_string_equal(rush_module_method_name(m, 0), "forward");
  assert_string_equal(rush_module_method_name(m, 1), "step");
  assert_null(rush_module_method_name(m, 2));
  assert_int_equal(rush_module_method_schema(m, "step", &text, NULL), RUSH_OK);
  assert_non_null(strstr(text, "Tensor board) -> Tensor"));
  rush_free_text(c, text);
  assert_int_equal(rush_module_method_schema(m, "dance", &text, &err), RUSH_EARGUMENT);
  assert_string_equal(err.type, "AttributeError");
  assert_string_equal(err.message, "the module has no method 'dance'; it has forward, step");
  for (rush_dump d = RUSH_DUMP_CODE; d <= RUSH_DUMP_JSON; d++) {
    assert_int_equal(rush_module_dump(m, d, "step", &text, &err), RUSH_OK);
    assert_true(strlen(text) > 20 || d == RUSH_DUMP_ASM); /* which may be empty */
    rush_free_text(c, text);
  }
  assert_false(rush_module_is_random(m));
  rush_error_clear(&err);
  rush_module_release(m);
  rush_context_release(c);
}

static void calls_bind_names_and_say_what_is_wrong(void **state)
{
  (void)state;
  rush_context *c = create();
  rush_error err = RUSH_ERROR_INIT;
  rush_module *m;
  rush_value result;
  rush_named_value n = {"generations", rush_value_int(4)};
  assert_int_equal(rush_module_load(c, data_path("life.pt"), NULL, &m, NULL), RUSH_OK);
  assert_int_equal(rush_module_call_named(m, NULL, NULL, 0, &n, 1, NULL, &result, &err), RUSH_OK);
  assert_true(result.tag == RUSH_TAG_INT && result.as.i == 5);
  n.name = "years";
  assert_int_not_equal(rush_module_call_named(m, NULL, NULL, 0, &n, 1, NULL, &result, &err),
                       RUSH_OK);
  assert_non_null(strstr(err.message, "years"));
  assert_int_not_equal(rush_module_call(m, NULL, NULL, 0, &result, &err), RUSH_OK);
  assert_non_null(strstr(err.message, "generations"));
  rush_value wrong = rush_value_none();
  assert_int_not_equal(rush_module_call(m, NULL, &wrong, 1, &result, &err), RUSH_OK);
  assert_int_equal(rush_module_call(m, "dance", NULL, 0, &result, &err), RUSH_EARGUMENT);
  rush_error_clear(&err);
  rush_module_release(m);
  rush_context_release(c);
}

static void state_is_read_written_and_an_instances_own(void **state)
{
  (void)state;
  rush_context *c = create();
  rush_error err = RUSH_ERROR_INIT;
  rush_module *m, *other, *copy;
  rush_value board, zeros, result, generations = rush_value_int(0);
  bool is_parameter;
  char *name;
  assert_int_equal(rush_module_load(c, data_path("life.pt"), NULL, &m, NULL), RUSH_OK);
  assert_int_equal(rush_module_load(c, data_path("life.pt"), NULL, &other, NULL), RUSH_OK);
  assert_int_equal(rush_module_copy(m, &copy, NULL), RUSH_OK);
  assert_int_equal(rush_module_n_state(m), 1);
  assert_int_equal(rush_module_state_at(m, 0, &name, &is_parameter, &board, NULL), RUSH_OK);
  assert_string_equal(name, "board");
  assert_false(is_parameter);
  rush_free_text(c, name);
  assert_int_equal(
    rush_tensor_create(c, RUSH_INT64, 2, rush_tensor_sizes(board.as.tensor), &zeros, NULL),
    RUSH_OK);
  memset(rush_tensor_data_mut(zeros.as.tensor), 0,
         8 * (size_t)rush_tensor_n_elems(zeros.as.tensor));
  assert_int_equal(rush_module_set_state(m, "board", zeros, NULL), RUSH_OK);
  const int want[] = {0, 5, 5};
  rush_module *all[] = {m, other, copy};
  for (int i = 0; i < 3; i++) {
    assert_int_equal(rush_module_call(all[i], NULL, &generations, 1, &result, NULL), RUSH_OK);
    assert_int_equal(result.as.i, want[i]);
    rush_module_release(all[i]);
    if (i == 0) { /* refusals */
      assert_int_equal(rush_module_set_state(other, "colour", zeros, &err), RUSH_EARGUMENT);
      assert_string_equal(err.type, "KeyError");
      assert_int_equal(rush_module_set_state(other, "board", generations, &err), RUSH_EARGUMENT);
      rush_error_clear(&err);
    }
  }
  rush_value_release(zeros);
  rush_value_release(board); /* outlives its module */
  rush_context_release(c);
}

static void attributes_are_read_and_set(void **state)
{
  (void)state;
  rush_context *c = create();
  rush_error err = RUSH_ERROR_INIT;
  rush_module *m;
  assert_int_equal(rush_module_load(c, data_path("life.pt"), NULL, &m, NULL), RUSH_OK);
  rush_value object = rush_module_value(m);
  assert_string_equal(rush_value_class(object), "__torch__.Life");
  bool seen = false;
  for (size_t i = 0; i < rush_object_n_attrs(object); i++)
    seen |= strcmp(rush_object_attr_name(object, i), "training") == 0;
  assert_true(seen && rush_object_attr_name(object, 1000) == NULL);
  assert_true(rush_object_attr(object, "training").as.b);
  assert_int_equal(rush_object_set_attr(c, object, "training", rush_value_bool(false), &err),
                   RUSH_OK);
  assert_false(rush_object_attr(object, "training").as.b);
  assert_int_equal(rush_object_set_attr(c, object, "training", rush_value_float(1), &err),
                   RUSH_EARGUMENT);
  assert_int_equal(rush_object_set_attr(c, object, "colour", rush_value_none(), &err),
                   RUSH_EARGUMENT);
  assert_int_equal(rush_object_attr(object, "colour").tag, RUSH_TAG_UNSET);
  rush_value n = rush_value_int(0), result;
  assert_true(rush_object_has_method(object, "step") && !rush_object_has_method(object, "dance"));
  assert_int_equal(rush_object_call(c, object, NULL, &n, 1, NULL, 0, NULL, &result, &err), RUSH_OK);
  assert_int_equal(result.as.i, 5);
  assert_int_equal(rush_object_call(c, object, "dance", &n, 1, NULL, 0, NULL, &result, &err),
                   RUSH_EARGUMENT);
  assert_int_equal(rush_object_call(c, n, NULL, &n, 1, NULL, 0, NULL, &result, &err),
                   RUSH_EARGUMENT);
  rush_error_clear(&err);
  rush_module_release(m);
  rush_context_release(c);
}

typedef struct worker {
  rush_context *c;
  rush_module *m;
  float want;
  bool ok;
} worker;

static void *work(void *arg)
{
  worker *w = arg;
  w->ok = true;
  for (int i = 0; i < 50; i++)
    w->ok &= answer(w->c, w->m) == w->want;
  return NULL;
}

static void many_threads_call_one_module(void **state)
{
  (void)state;
  rush_context *c = create();
  rush_module *m;
  pthread_t threads[4];
  worker workers[4];
  assert_int_equal(rush_module_load(c, data_path("digits.pt2"), NULL, &m, NULL), RUSH_OK);
  float want = answer(c, m);
  for (int i = 0; i < 4; i++) {
    workers[i] = (worker){c, m, want, false};
    assert_int_equal(pthread_create(&threads[i], NULL, work, &workers[i]), 0);
  }
  for (int i = 0; i < 4; i++) {
    pthread_join(threads[i], NULL);
    assert_true(workers[i].ok);
  }
  rush_module_release(m);
  rush_context_release(c);
}

/* -- Failing allocations: load and call survive each, and leave nothing behind ----------------- */

static bool load_and_call(const char *file, long n_allocs)
{
  budget b = {n_allocs, 0};
  rush_context_options o = RUSH_CONTEXT_OPTIONS_INIT;
  rush_context *c;
  rush_module *m;
  bool done = false;
  o.alloc = budget_alloc;
  o.no_cache = true;
  o.free = budget_free;
  o.alloc_user = &b;
  o.n_threads = 1;
  rush_status st = rush_context_create(&o, &c, NULL);
  if (st == RUSH_OK) {
    st = rush_module_load(c, data_path(file), NULL, &m, NULL);
    if (st == RUSH_OK) {
      int64_t sizes[] = {1, 1, 8, 8};
      float pixels[64] = {0};
      rush_value x, y;
      st = rush_tensor_wrap(c, RUSH_FLOAT32, 4, sizes, NULL, pixels, NULL, NULL, &x, NULL);
      if (st == RUSH_OK) {
        st = rush_module_call(m, NULL, &x, 1, &y, NULL);
        if (st == RUSH_OK)
          rush_value_release(y);
        done = st == RUSH_OK;
        rush_value_release(x);
      }
      rush_module_release(m);
    }
    rush_context_release(c);
  }
  assert_true(st == RUSH_OK || st == RUSH_ENOMEM);
  if (b.live)
    fail_msg("%s: %ld blocks are left when allocation %ld fails", file, b.live, n_allocs);
  return done;
}

static void any_allocation_may_fail(void **state)
{
  (void)state;
  for (int i = 0; i < 2; i++) {
    const char *file = i ? "digits.pt2" : "digits.pt";
    long n = 0;
    while (!load_and_call(file, n))
      n++;
    assert_true(n > 20);
  }
}

int main(void)
{
  const struct CMUnitTest tests[] = {
      cmocka_unit_test(every_way_of_loading_gives_the_same),
      cmocka_unit_test(refusals_name_the_file),
      cmocka_unit_test(methods_have_names_and_schemas),
      cmocka_unit_test(calls_bind_names_and_say_what_is_wrong),
      cmocka_unit_test(state_is_read_written_and_an_instances_own),
      cmocka_unit_test(attributes_are_read_and_set),
      cmocka_unit_test(many_threads_call_one_module),
      cmocka_unit_test(any_allocation_may_fail),
  };
  return RUN_TESTS(tests);
}
