/* Test sparse tensors: how they look to code without support for them, what their constructors
 * check, and that nothing leaks. */
#include "support/oom.h"

#include "tensor/sparse.h"

static context *ctx;
static call_ctx call;
static rush_error err;

static int setup(void **state)
{
  (void)state;
  ctx = test_context(NULL);
  call_ctx_init(&call, ctx, &err);
  return 0;
}

static int teardown(void **state)
{
  (void)state;
  rush_error_clear(&err);
  test_context_done(ctx);
  return 0;
}

/* Make int64 [n_rows, n], or [n] if n_rows is 0. */
static rush_tensor *ints(call_ctx *cx, int64_t n_rows, int64_t n, const int64_t *from)
{
  rush_tensor *t;
  assert_int_equal(
    tensor_new(cx, RUSH_INT64, n_rows ? 2 : 1, n_rows ? (int64_t[]){n_rows, n} : &n, &t), RUSH_OK);
  memcpy(t->data, from, (size_t)t->n_elems * sizeof *from);
  return t;
}

static rush_tensor *ones(call_ctx *cx, int64_t n)
{
  rush_tensor *t;
  assert_int_equal(tensor_new(cx, RUSH_FLOAT32, 1, &n, &t), RUSH_OK);
  assert_int_equal(tensor_fill(cx, t, value_int(1)), RUSH_OK);
  return t;
}

/* Make a tensor of two coordinates; NULL and the status on failure. */
static rush_status make_coo(call_ctx *cx, const int64_t *coordinates, const int64_t *sizes,
                            rush_tensor **out)
{
  rush_tensor *i = ints(cx, 2, 2, coordinates), *v = ones(cx, 2);
  const sparse_parts p = {.layout = LAYOUT_COO, .indices = i, .values = v};
  rush_status st = sparse_new_checked(cx, &p, 2, sizes, out);
  tensor_release(i);
  tensor_release(v);
  return st;
}

static const int64_t SIZES[2] = {2, 3}, FITTING[4] = {0, 1, 2, 0};

static void a_header_shows_one_zero(void **state)
{
  call_ctx *cx = &call;
  (void)state;
  rush_tensor *t;
  assert_int_equal(make_coo(cx, FITTING, SIZES, &t), RUSH_OK);
  assert_int_equal(t->n_elems, 6);
  assert_int_equal(t->strides[0], 0);
  assert_int_equal(t->strides[1], 0);
  assert_true(t->st->n_bytes >= 16);
  assert_false(tensor_is_contiguous(t));
  tensor_release(t);
}

static void indices_are_copies_that_nobody_writes_to(void **state)
{
  call_ctx *cx = &call;
  (void)state;
  rush_tensor *t, *a;
  assert_int_equal(make_coo(cx, FITTING, SIZES, &t), RUSH_OK);
  assert_true(tensor_sparse(t)->indices->st->read_only);
  assert_int_equal(tensor_alias(cx, t, &a), RUSH_OK);
  assert_ptr_equal(tensor_sparse(a)->indices, tensor_sparse(t)->indices);
  assert_ptr_not_equal(tensor_sparse(a)->values, tensor_sparse(t)->values);
  tensor_release(a);
  tensor_release(t);
}

static void coordinates_outside_are_refused(void **state)
{
  call_ctx *cx = &call;
  (void)state;
  static const int64_t lies[3][4] = {{0, 2, 0, 0}, {0, 0, 0, 3}, {-1, 0, 0, 0}};
  rush_tensor *t = NULL;
  for (int i = 0; i < 3; i++) {
    assert_int_equal(make_coo(cx, lies[i], SIZES, &t), RUSH_ERAISED);
    assert_null(t);
  }
}

static void rows_that_fall_are_refused(void **state)
{
  call_ctx *cx = &call;
  (void)state;
  static const int64_t crow[4][3] = {{0, 1, 2}, {0, 3, 2}, {1, 1, 2}, {0, 1, 1}},
                       column[2] = {0, 2};
  for (int i = 0; i < 4; i++) {
    rush_tensor *c = ints(cx, 0, 3, crow[i]), *k = ints(cx, 0, 2, column), *v = ones(cx, 2),
                *t = NULL;
    const sparse_parts p = {.layout = LAYOUT_CSR, .crow = c, .indices = k, .values = v};
    assert_int_equal(sparse_new_checked(cx, &p, 2, SIZES, &t), i ? RUSH_ERAISED : RUSH_OK);
    tensor_release(t);
    tensor_release(c);
    tensor_release(k);
    tensor_release(v);
  }
}

static void what_needs_elements_is_refused(void **state)
{
  call_ctx *cx = &call;
  (void)state;
  rush_tensor *t, *out = NULL;
  rush_value v;
  assert_int_equal(make_coo(cx, FITTING, SIZES, &t), RUSH_OK);
  assert_int_equal(tensor_contiguous(cx, t, &out), RUSH_ERAISED);
  assert_int_equal(tensor_to_dtype(cx, t, RUSH_FLOAT64, &out), RUSH_ERAISED);
  assert_int_equal(tensor_as_strided(cx, t, 2, t->sizes, t->strides, 0, &out), RUSH_ERAISED);
  assert_int_equal(tensor_fill(cx, t, value_int(1)), RUSH_ERAISED);
  assert_int_equal(tensor_resize(cx, t, 1, SIZES), RUSH_ERAISED);
  assert_int_equal(tensor_item(cx, t, &v), RUSH_ERAISED);
  assert_null(out);
  assert_int_equal(tensor_clone(cx, t, &out), RUSH_OK);
  assert_int_equal(tensor_set_like(cx, out, t), RUSH_ERAISED);
  assert_int_equal(tensor_copy(cx, out, t), RUSH_OK);
  tensor_release(out);
  tensor_release(t);
}

static void every_failed_allocation_is_reported(void **state)
{
  (void)state;
  OOM_LOOP(c) {
    rush_tensor *i = NULL, *v = NULL, *t = NULL, *copy = NULL;
    rush_status s = tensor_new(&c, RUSH_INT64, 2, (int64_t[]){2, 2}, &i);
    if (s == RUSH_OK)
      s = tensor_fill(&c, i, value_int(1));
    if (s == RUSH_OK)
      s = tensor_new(&c, RUSH_FLOAT32, 1, (int64_t[]){2}, &v);
    if (s == RUSH_OK)
      s = tensor_fill(&c, v, value_int(1));
    const sparse_parts p = {.layout = LAYOUT_COO, .indices = i, .values = v};
    if (s == RUSH_OK)
      s = sparse_new_checked(&c, &p, 2, SIZES, &t);
    if (s == RUSH_OK)
      s = tensor_clone(&c, t, &copy);
    if (s == RUSH_OK)
      s = sparse_assign(&c, copy, t);
    assert_true(s == RUSH_OK || s == RUSH_ENOMEM);
    tensor_release(copy);
    tensor_release(t);
    tensor_release(v);
    tensor_release(i);
  }
}

int main(void)
{
#define T(name) cmocka_unit_test_setup_teardown(name, setup, teardown)
  const struct CMUnitTest tests[] = {
    T(a_header_shows_one_zero),
    T(indices_are_copies_that_nobody_writes_to),
    T(coordinates_outside_are_refused),
    T(rows_that_fall_are_refused),
    T(what_needs_elements_is_refused),
    T(every_failed_allocation_is_reported),
  };
  return RUN_TESTS(tests);
}
