/* Test what kernels, passes and compilers use of backend.h's table: values, errors, facts, memory,
 * results, threads. */
#include "support/test.h"

#include "rushlight/backend.h"

static const rush_backend_api *api;

static rush_status add(rush_context *c, const char *schema, rush_kernel *kernel, void *user,
                       rush_error *err)
{
  rush_op_def def = {.struct_bytes = sizeof def, .schema = schema, .kernel = kernel, .user = user};
  return api->op_register(c, &def, err);
}

/* Call an operator without overloads; return its only result. */
static rush_status call(rush_context *c, const char *name, const rush_value *args, size_t n,
                        rush_value *out, rush_error *err)
{
  size_t n_results;
  return rush_op_call(c, name, args, n, NULL, 0, out, 1, &n_results, err);
}

/* -- Values ------------------------------------------------------------------------------------ */

/* Return (complex, text, list, tuple, dict, device, generator, tensor) as one tuple. */
static rush_status make_all(rush_call *k)
{
  rush_context *c = api->call_context(k);
  rush_error *err = api->call_error(k);
  rush_value v[8], ints[3] = {rush_value_int(1), rush_value_int(2), rush_value_int(3)}, keys[2];
  char state[RUSH_GENERATOR_STATE_BYTES];
  static float data[2] = {1, 2};

  assert_int_equal(rush_generator_get_state(c, state, err), RUSH_OK);
  assert_int_equal(api->complex_create(c, 1, -2, &v[0], err), RUSH_OK);
  assert_int_equal(api->string_create(c, "text", 4, &v[1], err), RUSH_OK);
  assert_int_equal(api->list_create(c, ints, 3, &v[2], err), RUSH_OK);
  assert_int_equal(api->tuple_create(c, ints, 2, &v[3], err), RUSH_OK);
  keys[0] = v[1];
  assert_int_equal(api->dict_create(c, keys, ints, 1, &v[4], err), RUSH_OK);
  v[5] = api->device_make(1, 3);
  assert_int_equal(api->generator_create(c, state, sizeof state, &v[6], err), RUSH_OK);
  assert_int_equal(
    api->tensor_wrap(c, RUSH_FLOAT32, 1, (int64_t[]){2}, NULL, data, NULL, NULL, &v[7], err),
    RUSH_OK);
  rush_value all;
  assert_int_equal(api->tuple_create(c, v, 8, &all, err), RUSH_OK);
  for (int i = 0; i < 8; i++)
    api->value_release(v[i]);
  api->call_return_steal(k, 0, all);
  return RUSH_OK;
}

/* Read what make_all made; return its text. */
static rush_status read_all(rush_call *k)
{
  rush_context *c = api->call_context(k);
  rush_value all = api->call_arg(k, 0), key, value;
  char state[RUSH_GENERATOR_STATE_BYTES], *text;
  double re, im;
  int kind, index;
  size_t n;

  assert_int_equal(api->value_len(all), 8);
  api->value_complex(api->value_item(all, 0), &re, &im);
  assert_true(re == 1 && im == -2);
  assert_string_equal(api->value_string(api->value_item(all, 1), &n), "text");
  assert_int_equal(n, 4);
  assert_int_equal(api->value_item(api->value_item(all, 2), 2).as.i, 3);
  assert_null(api->value_field(api->value_item(all, 3), 0));
  api->value_entry(api->value_item(all, 4), 0, &key, &value);
  assert_true(key.tag == RUSH_TAG_STRING && value.as.i == 1);
  assert_true(api->value_device(api->value_item(all, 5), &kind, &index) && kind == 1 && index == 3);
  assert_false(api->value_device(all, &kind, &index));
  assert_true(api->value_generator(api->value_item(all, 6), state));
  assert_false(api->value_generator(all, state));
  assert_int_equal(api->tensor_n_elems(api->value_item(all, 7).as.tensor), 2);
  rush_value kept = api->value_retain(api->value_item(all, 2));
  rush_status st = api->value_text(c, kept, true, &text, api->call_error(k));
  api->value_release(kept);
  if (st != RUSH_OK)
    return st;
  rush_value out;
  st = api->string_create(c, text, strlen(text), &out, api->call_error(k));
  api->text_free(c, text);
  if (st == RUSH_OK)
    api->call_return_steal(k, 0, out);
  return st;
}

static void every_kind_of_value_is_made_and_read(void **state)
{
  (void)state;
  rush_context *c;
  rush_error err = RUSH_ERROR_INIT;
  rush_value all, text;
  assert_int_equal(rush_context_create(NULL, &c, NULL), RUSH_OK);
  assert_int_equal(add(c, "t::make() -> Any", make_all, NULL, &err), RUSH_OK);
  assert_int_equal(add(c, "t::read(Any x) -> str", read_all, NULL, &err), RUSH_OK);
  assert_int_equal(call(c, "t::make", NULL, 0, &all, &err), RUSH_OK);
  assert_int_equal(call(c, "t::read", &all, 1, &text, &err), RUSH_OK);
  assert_string_equal(rush_value_string(text, NULL), "[1, 2, 3]");
  rush_value_release(text);
  rush_value_release(all);
  rush_context_release(c);
}

/* Double every attribute that is a number, and call a method. */
static rush_status use_object(rush_call *k)
{
  rush_context *c = api->call_context(k);
  rush_value self = api->call_arg(k, 0), got;

  assert_non_null(strstr(api->value_class(self), "Counter"));
  for (size_t i = 0; i < api->object_n_attrs(self); i++) {
    const char *name = api->object_attr_name(self, i);
    rush_value v = api->object_attr(self, name);
    if (v.tag == RUSH_TAG_INT) {
      rush_status st =
        api->object_set_attr(c, self, name, rush_value_int(2 * v.as.i), api->call_error(k));
      if (st != RUSH_OK)
        return st;
    }
  }
  rush_value one = rush_value_int(1);
  rush_status st =
    api->object_call(c, self, "plus", &one, 1, NULL, 0, NULL, &got, api->call_error(k));
  if (st == RUSH_OK)
    api->call_return_steal(k, 0, got);
  return st;
}

static void objects_are_read_written_and_called(void **state)
{
  (void)state;
  static const char text[] =
    "@torch.jit.script\nclass Counter:\n  def __init__(self):\n    self.n = 20\n"
    "  def plus(self, k: int):\n    return self.n + k\n"
    "def f() -> Any:\n  return torch.ops.t.use(Counter())\n";
  rush_context *c;
  rush_error err = RUSH_ERROR_INIT;
  rush_module *m;
  rush_value got;
  assert_int_equal(rush_context_create(NULL, &c, NULL), RUSH_OK);
  assert_int_equal(add(c, "t::use(Any x) -> Any", use_object, NULL, &err), RUSH_OK);
  rush_status st = rush_module_compile(c, text, sizeof text - 1, NULL, &m, &err);
  if (st == RUSH_OK) {
    st = rush_module_call(m, "f", NULL, 0, &got, &err);
    rush_module_release(m);
  }
  if (st != RUSH_OK)
    print_message("%s\n", err.message);
  assert_int_equal(st, RUSH_OK);
  assert_int_equal(got.as.i, 41);
  rush_context_release(c);
}

/* -- Errors ------------------------------------------------------------------------------------ */

static rush_status tries(rush_call *k)
{
  rush_value x = api->call_arg(k, 0), y;

  assert_int_not_equal(api->call_op(k, "aten::nonsense", &x, 1, &y), RUSH_OK);
  assert_non_null(strstr(api->call_error(k)->message, "nonsense"));
  api->error_clear(api->call_error(k));
  assert_int_equal(api->call_error(k)->status, RUSH_OK);
  return api->error_set(api->call_error(k), RUSH_EUNSUPPORTED, "IndexError", "no %s", "way");
}

static void errors_are_set_and_cleared(void **state)
{
  (void)state;
  rush_context *c;
  rush_error err = RUSH_ERROR_INIT;
  rush_value x = rush_value_int(1), y;
  assert_int_equal(rush_context_create(NULL, &c, NULL), RUSH_OK);
  assert_int_equal(add(c, "t::tries(int x) -> int", tries, NULL, &err), RUSH_OK);
  assert_int_equal(call(c, "t::tries", &x, 1, &y, &err), RUSH_EUNSUPPORTED);
  assert_string_equal(err.type, "IndexError");
  assert_string_equal(err.message, "no way");
  rush_error_clear(&err);
  assert_int_equal(api->error_set(NULL, RUSH_EARGUMENT, NULL, "%d", 1), RUSH_EARGUMENT);
  rush_context_release(c);
}

static rush_status fails(rush_pass *pass, void *user)
{
  (void)user;
  assert_non_null(api->pass_error(pass));
  return api->pass_fail(pass, "ValueError", "not %d", 5);
}

static void a_pass_fails_with_its_words(void **state)
{
  (void)state;
  rush_context *c;
  rush_module *m;
  rush_error err = RUSH_ERROR_INIT;
  rush_value y;
  rush_pass_def def = {.struct_bytes = sizeof def, .name = "t::fails", .run = fails};
  assert_int_equal(rush_context_create(NULL, &c, NULL), RUSH_OK);
  assert_int_equal(api->pass_register(c, &def, &err), RUSH_OK);
  rush_status st = rush_module_compile(c, "def f():\n  return 1\n", 20, NULL, &m, &err);
  if (st == RUSH_OK) {
    st = rush_module_call(m, "f", NULL, 0, &y, &err);
    rush_module_release(m);
  }
  assert_int_equal(st, RUSH_ERAISED);
  assert_string_equal(err.type, "ValueError");
  assert_string_equal(err.message, "not 5");
  rush_error_clear(&err);
  rush_context_release(c);
}

/* -- Facts ------------------------------------------------------------------------------------- */

static void warned(void *user, const char *text)
{
  *(const char **)user = *text == 'c' ? "warned" : "";
}

static void facts_are_told(void **state)
{
  (void)state;
  const char *said = "";
  rush_context_options o = RUSH_CONTEXT_OPTIONS_INIT;
  rush_context *c;
  rush_dtype d;
  o.n_threads = 3;
  o.cpu = RUSH_CPU_PORTABLE;
  o.limit_bytes = 1 << 24;
  o.warn = warned;
  o.callback_user = &said;
  assert_int_equal(rush_context_create(&o, &c, NULL), RUSH_OK);
  rush_context_facts f = {.struct_bytes = sizeof f};
  api->context_facts(c, &f);
  assert_true(f.struct_bytes == sizeof f && f.n_threads == 3 && f.limit_bytes == 1 << 24 &&
              !f.no_reuse);
  assert_int_equal(f.executor, RUSH_EXECUTOR_PROFILING);
  assert_int_equal(api->context_cpu(c), RUSH_CPU_PORTABLE);
  api->context_warn(c, "careful");
  assert_string_equal(said, "warned");
  assert_string_equal(api->dtype_name(RUSH_BFLOAT16), "bfloat16");
  assert_int_equal(api->dtype_bytes(RUSH_COMPLEX64), 8);
  assert_int_equal(api->dtype_flags(RUSH_FLOAT32), RUSH_DTYPE_IS_FLOAT | RUSH_DTYPE_IS_SIGNED);
  assert_int_equal(api->dtype_flags(RUSH_UINT8), RUSH_DTYPE_IS_INTEGER);
  assert_int_equal(api->dtype_flags(RUSH_BOOL), 0);
  assert_true(api->dtype_promote(RUSH_INT8, RUSH_FLOAT16, &d) && d == RUSH_FLOAT16);
  assert_false(api->dtype_promote(RUSH_FLOAT8_E5M2, RUSH_FLOAT8_E4M3FN, &d));
  assert_false(api->dtype_promote((rush_dtype)99, RUSH_INT8, &d));

  rush_value t, w;
  rush_tensor_facts s;
  float data[8] = {0};
  assert_int_equal(api->tensor_create(c, RUSH_INT16, 2, (int64_t[]){2, 3}, &t, NULL), RUSH_OK);
  api->tensor_facts(t.as.tensor, &s);
  assert_true(s.dtype == RUSH_INT16 && s.n_dims == 2 && s.sizes[1] == 3 && s.strides[0] == 3 &&
              s.n_elems == 6 && s.data);
  assert_int_equal(s.flags, RUSH_TENSOR_IS_CONTIGUOUS | RUSH_TENSOR_IS_DENSE);
  rush_value_release(t);
  assert_int_equal(api->tensor_wrap(c, RUSH_FLOAT32, 2, (int64_t[]){2, 3}, (int64_t[]){1, 2}, data,
                                    NULL, NULL, &t, NULL),
                   RUSH_OK);
  api->tensor_facts(t.as.tensor, &s);
  assert_int_equal(s.flags, RUSH_TENSOR_IS_DENSE);
  rush_value_release(t);
  assert_int_equal(api->tensor_wrap(c, RUSH_FLOAT32, 1, (int64_t[]){3}, (int64_t[]){2}, data, NULL,
                                    NULL, &w, NULL),
                   RUSH_OK);
  rush_tensor_set_requires_grad(w.as.tensor, true);
  api->tensor_facts(w.as.tensor, &s);
  assert_int_equal(s.flags, RUSH_TENSOR_NEEDS_GRAD);
  rush_value_release(w);
  rush_context_release(c);
}

/* -- Memory, results, threads ------------------------------------------------------------------ */

static rush_status greedy(rush_call *k)
{
  void *p = api->memory_alloc(api->call_context(k), (size_t)1 << 30);

  assert_null(p);
  return api->call_no_memory(k);
}

static void memory_is_the_contexts(void **state)
{
  (void)state;
  rush_context_options o = RUSH_CONTEXT_OPTIONS_INIT;
  rush_error err = RUSH_ERROR_INIT;
  rush_context *c;
  rush_value y;
  size_t before, after, peak;
  o.limit_bytes = 1 << 24;
  assert_int_equal(rush_context_create(&o, &c, NULL), RUSH_OK);
  assert_int_equal(add(c, "t::greedy() -> int", greedy, NULL, &err), RUSH_OK);
  rush_memory_stats(c, &before, &peak);
  char *p = api->memory_alloc(c, 5000);
  rush_memory_stats(c, &after, &peak);
  assert_true(p && p[0] == 0 && p[4999] == 0 && (uintptr_t)p % 16 == 0 && after - before >= 5000);
  api->memory_free(c, p, 5000);
  api->memory_free(c, NULL, 7);
  rush_memory_stats(c, &after, &peak);
  assert_true(after == before);
  assert_int_equal(call(c, "t::greedy", NULL, 0, &y, &err), RUSH_ELIMIT);
  rush_error_clear(&err);
  rush_context_release(c);
}

typedef struct halves {
  const float *from;
  float *to;
} halves;

static void halve(void *arg, int64_t begin, int64_t end)
{
  const halves *h = arg;

  for (int64_t i = begin; i < end; i++)
    h->to[i] = h->from[i] / 2;
}

static rush_status half(rush_call *k)
{
  int *n_reused = api->call_user(k);
  size_t n;
  rush_tensor_facts x;
  api->tensor_facts(api->call_args(k, &n)[0].as.tensor, &x);
  rush_result y = {.dtype = RUSH_FLOAT32, .n_dims = x.n_dims, .sizes = x.sizes, .may_reuse = true};
  rush_status st = api->call_make_result(k, 0, &y);

  assert_int_equal(n, 1);
  if (st != RUSH_OK)
    return st;
  *n_reused += y.reused;
  halves h = {x.data, y.data};
  return api->call_parallel(k, x.n_elems, 1000, halve, &h);
}

static void results_reuse_what_dies(void **state)
{
  (void)state;
  static const char text[] =
    "def f(x: Tensor):\n  return torch.ops.t.half(torch.ops.t.half(torch.ops.t.half(x)))\n";
  rush_context *c;
  rush_error err = RUSH_ERROR_INIT;
  rush_module *m;
  rush_value x, y;
  int n_reused = 0;
  const int64_t n = 100000;
  assert_int_equal(rush_context_create(NULL, &c, NULL), RUSH_OK);
  assert_int_equal(add(c, "t::half(Tensor x) -> Tensor", half, &n_reused, &err), RUSH_OK);
  assert_int_equal(rush_module_compile(c, text, sizeof text - 1, NULL, &m, &err), RUSH_OK);
  assert_int_equal(rush_tensor_create(c, RUSH_FLOAT32, 1, &n, &x, &err), RUSH_OK);
  float *data = rush_tensor_data_mut(x.as.tensor);
  for (int64_t i = 0; i < n; i++)
    data[i] = (float)(8 * i);
  assert_int_equal(rush_module_call(m, "f", &x, 1, &y, &err), RUSH_OK);
  const float *got = rush_tensor_data(y.as.tensor);
  for (int64_t i = 0; i < n; i++)
    assert_true(got[i] == (float)i && data[i] == (float)(8 * i));
  assert_int_equal(n_reused, 2);
  rush_value_release(y);
  rush_value_release(x);
  rush_module_release(m);
  rush_context_release(c);
}

/* Return twice its second argument, in memory that dies with the call if there is some. */
static rush_status twice_second(rush_call *k)
{
  size_t n;
  rush_tensor_facts x;
  api->tensor_facts(api->call_args(k, &n)[1].as.tensor, &x);
  rush_result y = {.dtype = RUSH_FLOAT32, .n_dims = x.n_dims, .sizes = x.sizes, .may_reuse = true};
  rush_status st = api->call_make_result(k, 0, &y);

  *(int *)api->call_user(k) += y.reused;
  for (int64_t i = 0; st == RUSH_OK && i < x.n_elems; i++)
    ((float *)y.data)[i] = 2 * ((const float *)x.data)[i];
  return st;
}

/* The second argument lives on; those around it die, but have other sizes. */
static void results_leave_what_lives(void **state)
{
  (void)state;
  static const char text[] =
    "def f(x: Tensor):\n  y = x + 1\n"
    "  z = torch.ops.t.twice_second(torch.cat([x, x]), y, torch.cat([y, x]))\n  return y, z\n";
  rush_context *c;
  rush_error err = RUSH_ERROR_INIT;
  rush_module *m;
  rush_value x, y;
  int n_reused = 0;
  const int64_t n = 3;
  assert_int_equal(rush_context_create(NULL, &c, NULL), RUSH_OK);
  assert_int_equal(add(c, "t::twice_second(Tensor x, Tensor y, Tensor z) -> Tensor", twice_second,
                       &n_reused, &err),
                   RUSH_OK);
  assert_int_equal(rush_module_compile(c, text, sizeof text - 1, NULL, &m, &err), RUSH_OK);
  assert_int_equal(rush_tensor_create(c, RUSH_FLOAT32, 1, &n, &x, &err), RUSH_OK);
  for (int64_t i = 0; i < n; i++)
    ((float *)rush_tensor_data_mut(x.as.tensor))[i] = (float)i;
  assert_int_equal(rush_module_call(m, "f", &x, 1, &y, &err), RUSH_OK);
  const rush_value kept = rush_value_item(y, 0), made = rush_value_item(y, 1);
  for (int64_t i = 0; i < n; i++) {
    assert_true(((const float *)rush_tensor_data(kept.as.tensor))[i] == (float)(i + 1));
    assert_true(((const float *)rush_tensor_data(made.as.tensor))[i] == (float)(2 * i + 2));
  }
  assert_int_equal(n_reused, 0);
  rush_value_release(y);
  rush_value_release(x);
  rush_module_release(m);
  rush_context_release(c);
}

static rush_status gaps(rush_call *k)
{
  rush_result y = {
    .dtype = RUSH_FLOAT32, .n_dims = 1, .sizes = (int64_t[]){4}, .strides = (int64_t[]){3}};

  assert_int_equal(api->call_make_result(k, 1, &(rush_result){.dtype = RUSH_FLOAT32}),
                   RUSH_EARGUMENT);
  return api->call_make_result(k, 0, &y);
}

static void results_fill_their_memory(void **state)
{
  (void)state;
  rush_context *c;
  rush_error err = RUSH_ERROR_INIT;
  rush_value y;
  assert_int_equal(rush_context_create(NULL, &c, NULL), RUSH_OK);
  assert_int_equal(add(c, "t::gaps() -> Tensor", gaps, NULL, &err), RUSH_OK);
  assert_int_equal(call(c, "t::gaps", NULL, 0, &y, &err), RUSH_EARGUMENT);
  assert_non_null(strstr(err.message, "leave gaps"));
  rush_error_clear(&err);
  rush_context_release(c);
}

static void end(void *user) { ++*(int *)user; }

static void what_callers_gave_is_destroyed_once(void **state)
{
  (void)state;
  rush_context *c;
  int n_op = 0, n_pass = 0, n_failed = 0;
  rush_op_def op = {.struct_bytes = sizeof op,
                    .schema = "t::x() -> int",
                    .kernel = greedy,
                    .user = &n_op,
                    .destroy_user = end};
  rush_pass_def pass = {.struct_bytes = sizeof pass,
                        .name = "t::p",
                        .run = fails,
                        .user = &n_pass,
                        .destroy_user = end};
  assert_int_equal(rush_context_create(NULL, &c, NULL), RUSH_OK);
  assert_int_equal(api->op_register(c, &op, NULL), RUSH_OK);
  op.user = &n_failed;
  assert_int_equal(api->op_register(c, &op, NULL), RUSH_EARGUMENT); /* is there already */
  assert_int_equal(api->pass_register(c, &pass, NULL), RUSH_OK);
  assert_true(n_op == 0 && n_pass == 0);
  rush_context_release(c);
  assert_true(n_op == 1 && n_pass == 1 && n_failed == 0);
}

int main(void)
{
  const struct CMUnitTest tests[] = {
      cmocka_unit_test(every_kind_of_value_is_made_and_read),
      cmocka_unit_test(objects_are_read_written_and_called),
      cmocka_unit_test(errors_are_set_and_cleared),
      cmocka_unit_test(a_pass_fails_with_its_words),
      cmocka_unit_test(facts_are_told),
      cmocka_unit_test(memory_is_the_contexts),
      cmocka_unit_test(results_reuse_what_dies),
      cmocka_unit_test(results_leave_what_lives),
      cmocka_unit_test(results_fill_their_memory),
      cmocka_unit_test(what_callers_gave_is_destroyed_once),
  };
  api = rush_backend(RUSH_BACKEND_ABI);
  if (!api || !RUSH_BACKEND_HAS(api, call_parallel))
    return 1;
  return RUN_TESTS(tests);
}
