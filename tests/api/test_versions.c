/* Test callers that were compiled with an older or a newer header than the library's. */
#include "support/test.h"

#include "base/macros.h"
#include "rushlight/rushlight.h"
#include "rushlight/script.h"

static rush_module *compiled(const char *text)
{
  rush_module *m;

  assert_int_equal(rush_module_compile(NULL, text, strlen(text), NULL, &m, NULL), RUSH_OK);
  return m;
}

/* -- Options ----------------------------------------------------------------------------------- */

/* A struct followed by room for fields of a newer header. */
#define NEWER(type)          \
  union {                    \
    type ours;               \
    unsigned char bytes[sizeof(type) + 24]; \
  }

/* Pass every options struct of rushlight.h to a function that takes it. */
static rush_module *model;
static rush_status create(const void *o, rush_error *err)
{
  rush_context *c;
  rush_status st = rush_context_create(o, &c, err);
  if (st == RUSH_OK)
    rush_context_release(c);
  return st;
}
static rush_status load(const void *o, rush_error *err)
{
  char path[4096];
  rush_module *m;
  snprintf(path, sizeof path, "%s/digits.pt", getenv("RUSH_TEST_DATA"));
  rush_status st = rush_module_load(NULL, path, o, &m, err);
  if (st == RUSH_OK)
    rush_module_release(m);
  return st;
}
static rush_status compile(const void *o, rush_error *err)
{
  static const char text[] = "def f(x: int):\n    return x\n";
  rush_module *m;
  rush_status st = rush_module_compile(NULL, text, strlen(text), o, &m, err);
  if (st == RUSH_OK)
    rush_module_release(m);
  return st;
}
static bool swallow(void *user, const void *data, size_t n_bytes)
{
  (void)user;
  (void)data;
  (void)n_bytes;
  return true;
}
static rush_status save(const void *o, rush_error *err)
{
  return rush_module_save(model, NULL, o, err);
}
static rush_status freeze(const void *o, rush_error *err)
{
  rush_module *m;
  rush_status st = rush_module_freeze(model, o, &m, err);
  if (st == RUSH_OK)
    rush_module_release(m);
  return st;
}
static rush_status call(const void *o, rush_error *err)
{
  const int64_t sizes[] = {1, 1, 8, 8};
  rush_value x, y;
  assert_int_equal(rush_tensor_create(NULL, RUSH_FLOAT32, 4, sizes, &x, NULL), RUSH_OK);
  rush_status st = rush_module_call_named(model, NULL, &x, 1, NULL, 0, o, &y, err);
  if (st == RUSH_OK)
    rush_value_release(y);
  rush_value_release(x);
  return st;
}
static rush_status differentiate(const void *o, rush_error *err)
{
  const rush_value x = rush_value_none();
  rush_status st = rush_backward(NULL, &x, NULL, 0, o, err);
  return st;
}

static void check_options(const char *name, size_t ours, size_t oldest, unsigned char *bytes,
                          rush_status (*use)(const void *o, rush_error *err))
{
  rush_error err = RUSH_ERROR_INIT;
  const struct {
    size_t says, set; /* struct_bytes; a byte that is not zero, or 0 */
    rush_status st;
  } rows[] = {{ours, 0, RUSH_OK},        {oldest, 0, RUSH_OK},
              {ours + 24, 0, RUSH_OK},   {ours + 24, ours + 9, RUSH_EARGUMENT},
              {ours, ours + 9, RUSH_OK}, {0, 0, RUSH_EARGUMENT},
              {4, 0, RUSH_EARGUMENT},    {(size_t)1 << 40, 0, RUSH_EARGUMENT}};
  for (size_t i = 0; i < COUNT_OF(rows); i++) {
    memcpy(bytes, &rows[i].says, sizeof rows[i].says);
    bytes[ours + 9] = 0;
    if (rows[i].set)
      bytes[rows[i].set] = 1;
    const rush_status st = use(bytes, &err);
    if (st != rows[i].st)
      print_error("%s, row %zu: %s\n", name, i, err.message ? err.message : "accepted");
    assert_int_equal(st, rows[i].st);
    if (st != RUSH_OK)
      assert_non_null(strstr(err.message, name));
    rush_error_clear(&err);
  }
}

#define CHECK(type, init, last, use)                                           \
  do {                                                                         \
    NEWER(type) o;                                                             \
    memset(&o, 0, sizeof o);                                                   \
    o.ours = (type)init;                                                       \
    check_options(#type, sizeof(type), offsetof(type, last), o.bytes, use);    \
  } while (0)

static void options_of_other_sizes_are_read(void **state)
{
  char path[4096];
  (void)state;
  snprintf(path, sizeof path, "%s/digits.pt", getenv("RUSH_TEST_DATA"));
  assert_int_equal(rush_module_load(NULL, path, NULL, &model, NULL), RUSH_OK);
  CHECK(rush_context_options, RUSH_CONTEXT_OPTIONS_INIT, executor, create);
  CHECK(rush_load_options, RUSH_LOAD_OPTIONS_INIT, name, load);
  CHECK(rush_text_options, RUSH_TEXT_OPTIONS_INIT, first_line, compile);
  CHECK(rush_freeze_options, RUSH_FREEZE_OPTIONS_INIT, keep_numerics, freeze);
  CHECK(rush_call_options, RUSH_CALL_OPTIONS_INIT, record_gradients, call);
  CHECK(rush_gradient_options, RUSH_GRADIENT_OPTIONS_INIT, retain_graph, differentiate);
  NEWER(rush_save_options) o;
  memset(&o, 0, sizeof o);
  o.ours = (rush_save_options)RUSH_SAVE_OPTIONS_INIT;
  o.ours.write = swallow;
  check_options("rush_save_options", sizeof(rush_save_options),
                offsetof(rush_save_options, function), o.bytes, save);
  rush_module_release(model);
}

/* Bytes after an older caller's struct are not read. */
static void a_smaller_struct_ends_where_it_says(void **state)
{
  rush_text_options o = {offsetof(rush_text_options, first_line), "here.py", 77};
  rush_error err = RUSH_ERROR_INIT;
  static const char text[] = "def f(x: int):\n    return y\n";
  rush_module *m;
  (void)state;
  assert_int_equal(rush_module_compile(NULL, text, strlen(text), &o, &m, &err), RUSH_ERAISED);
  assert_non_null(strstr(err.message, "here.py\", line 2"));
  rush_error_clear(&err);
}

/* -- Tables of callbacks ----------------------------------------------------------------------- */

static rush_status host_name(void *user, void *scope, const char *name, rush_name *out,
                             rush_error *err)
{
  (void)user, (void)scope, (void)name, (void)out, (void)err;
  return RUSH_OK;
}
static rush_status host_type(void *user, void *scope, const char *dotted, const rush_type **out,
                             rush_error *err)
{
  (void)user, (void)scope, (void)dotted, (void)out, (void)err;
  return RUSH_OK;
}
static rush_status host_call(void *user, void *object, const rush_value *args, size_t n,
                             const rush_type *type, rush_value *result, rush_error *err)
{
  (void)user, (void)object, (void)args, (void)n, (void)type, (void)result, (void)err;
  return RUSH_EUNSUPPORTED;
}
static void host_release(void *user, void *object)
{
  (void)user;
  (void)object;
}

static void callbacks_that_are_needed_are_asked_for_by_name(void **state)
{
  static const struct {
    size_t at;
    const char *name;
    bool needed;
  } rows[] = {{offsetof(rush_host, name), "name", true},
              {offsetof(rush_host, attr), "attr", true},
              {offsetof(rush_host, type), "type", true},
              {offsetof(rush_host, class_attr), "class_attr", false},
              {offsetof(rush_host, default_value), "default_value", false},
              {offsetof(rush_host, call), "call", true},
              {offsetof(rush_host, release), "release", true}};
  rush_error err = RUSH_ERROR_INIT;
  char quoted[40];
  (void)state;
  for (size_t i = 0; i < COUNT_OF(rows); i++) {
    rush_host h = {sizeof h,  NULL, host_name, host_name,    host_type,
                   host_name, NULL, host_call, host_release, false};
    rush_unit *u;
    memset((char *)&h + rows[i].at, 0, sizeof(void *));
    const rush_status st = rush_unit_create(NULL, &h, &u, &err);
    assert_int_equal(st, rows[i].needed ? RUSH_EARGUMENT : RUSH_OK);
    snprintf(quoted, sizeof quoted, "'%s'", rows[i].name);
    if (rows[i].needed)
      assert_non_null(strstr(err.message, quoted));
    else
      rush_unit_release(u);
    rush_error_clear(&err);
  }
  rush_call_options o = RUSH_CALL_OPTIONS_INIT;
  const rush_gradient_host keeper = {.struct_bytes = sizeof keeper};
  rush_module *m = compiled("def f(x: int):\n    return x\n");
  rush_value one = rush_value_int(1), y;
  o.record_gradients = true;
  o.gradient_host = &keeper;
  assert_int_equal(rush_module_call_named(m, "f", &one, 1, NULL, 0, &o, &y, &err), RUSH_EARGUMENT);
  assert_non_null(strstr(err.message, "'get'"));
  rush_error_clear(&err);
  rush_module_release(m);
}

/* -- Results ----------------------------------------------------------------------------------- */

static void as_much_of_a_result_is_filled_as_there_is_room_for(void **state)
{
  struct {
    rush_memory ours;
    unsigned char later[24];
  } m;
  rush_compile_counters n;
  (void)state;
  memset(&m, 0xaa, sizeof m);
  m.ours.struct_bytes = sizeof m; /* a newer caller's */
  rush_memory_get(NULL, &m.ours);
  assert_int_equal(m.ours.struct_bytes, sizeof(rush_memory));
  for (size_t i = 0; i < sizeof m.later; i++)
    assert_int_equal(m.later[i], 0xaa);
  memset(&m, 0xaa, sizeof m);
  m.ours.struct_bytes = offsetof(rush_memory, packed_bytes);
  rush_memory_get(NULL, &m.ours);
  assert_int_equal(m.ours.struct_bytes, offsetof(rush_memory, packed_bytes));
  assert_true(m.ours.peak_bytes < (size_t)1 << 40 && m.ours.packed_bytes > (size_t)1 << 40);
  memset(&n, 0xaa, sizeof n);
  n.struct_bytes = 0;
  rush_compile_stats(NULL, &n);
  assert_true(n.struct_bytes == 0 && n.groups > (uint64_t)1 << 40);
}

int main(void)
{
  const struct CMUnitTest tests[] = {
      cmocka_unit_test(options_of_other_sizes_are_read),
      cmocka_unit_test(a_smaller_struct_ends_where_it_says),
      cmocka_unit_test(callbacks_that_are_needed_are_asked_for_by_name),
      cmocka_unit_test(as_much_of_a_result_is_filled_as_there_is_room_for),
  };
  return RUN_TESTS(tests);
}
