#include "support/test.h"

#include "ops/call/call.h"

/* Test indexing without PyTorch: results equal those of a plain loop; what is refused. */

typedef struct fixture {
  context *c;
  call_ctx cx;
  rush_error err;
} fixture;

static void start(fixture *f)
{
  f->c = test_context(&(context_options){.n_threads = 2});
  f->err = (rush_error)RUSH_ERROR_INIT;
  call_ctx_init(&f->cx, f->c, &f->err);
}
static void stop(fixture *f)
{
  rush_error_clear(&f->err);
  context_release(f->c);
}

static rush_tensor *counting(fixture *f, int dtype, int n_dims, const int64_t *sizes)
{
  rush_tensor *t = NULL;
  assert_int_equal(tensor_new(&f->cx, dtype, n_dims, sizes, &t), RUSH_OK);
  for (int64_t i = 0; i < t->n_elems; i++)
    tensor_set(t, i, value_int(i));
  return t;
}
static rush_tensor *longs(fixture *f, int64_t n, const int64_t *v)
{
  rush_tensor *t = counting(f, RUSH_INT64, 1, &n);
  memcpy(t->data, v, (size_t)n * sizeof *v);
  return t;
}
static rush_value list_of(fixture *f, size_t n, rush_tensor **t) /* NULL: None; steals */
{
  rush_list *l = NULL;
  assert_int_equal(list_new(&f->cx, type_simple(TYPE_TENSOR), n, &l), RUSH_OK);
  for (size_t i = 0; i < n; i++)
    assert_int_equal(list_append_steal(&f->cx, l, t[i] ? value_tensor_steal(t[i]) : value_none()),
                     RUSH_OK);
  return value_heap_steal(RUSH_TAG_LIST, l);
}
static rush_status call(fixture *f, const char *name, const rush_value *args, uint32_t n,
                        rush_value *out)
{
  uint32_t n_out = 0;
  *out = value_none();
  return op_call_by_name(&f->cx, str_of(name), args, n, NULL, 0, out, 1, &n_out);
}
static double at(const rush_value v, int64_t i)
{
  call_ctx cx = {0};
  rush_value x = value_none();
  assert_int_equal(tensor_get(&cx, v.as.tensor, i, &x), RUSH_OK);
  return x.tag == RUSH_TAG_FLOAT ? x.as.d : (double)x.as.i;
}

static void indices_apart_go_to_the_front(void **state)
{
  (void)state;
  fixture f;
  start(&f);
  const int64_t sizes[] = {2, 3, 4}, first[] = {1, -2, 0}, last[] = {-1, 0, 3};
  rush_tensor *x = counting(&f, RUSH_FLOAT32, 3, sizes);
  rush_tensor *index[] = {longs(&f, 3, first), NULL, longs(&f, 3, last)};
  rush_value args[] = {value_tensor_steal(x), list_of(&f, 3, index)}, y;
  assert_int_equal(call(&f, "aten::index.Tensor", args, 2, &y), RUSH_OK);
  assert_int_equal(y.as.tensor->n_dims, 2);
  assert_int_equal(y.as.tensor->sizes[0], 3);
  assert_int_equal(y.as.tensor->sizes[1], 3);
  for (int64_t i = 0; i < 3; i++)
    for (int64_t k = 0; k < 3; k++)
      assert_true(at(y, i * 3 + k) ==
                  (double)((first[i] + 2) % 2 * 12 + k * 4 + (last[i] + 4) % 4));
  value_release(y);
  value_release(args[0]);
  value_release(args[1]);
  stop(&f);
}

static void what_meets_is_added_up(void **state)
{
  (void)state;
  fixture f;
  start(&f);
  static const int dtypes[] = {RUSH_FLOAT32,  RUSH_FLOAT64, RUSH_FLOAT16,
                               RUSH_BFLOAT16, RUSH_INT64,   RUSH_INT8};
  const int64_t sizes[] = {3, 5}, rows[] = {2, 0, 2, -1}, four[] = {4, 5};
  for (size_t d = 0; d < COUNT_OF(dtypes); d++) {
    rush_tensor *x = counting(&f, dtypes[d], 2, sizes), *v = counting(&f, dtypes[d], 2, four);
    rush_tensor *index = longs(&f, 4, rows);
    rush_value args[] = {value_tensor_steal(x), list_of(&f, 1, &index), value_tensor_steal(v),
                         value_bool(true)},
               y;
    assert_int_equal(call(&f, "aten::index_put_", args, 4, &y), RUSH_OK);
    assert_ptr_equal(y.as.tensor, x);
    for (int64_t k = 0; k < 5; k++) {
      assert_true(at(y, k) == (double)(k + 5 + k));
      assert_true(at(y, 5 + k) == (double)(5 + k));
      assert_true(at(y, 10 + k) == (double)(10 + k + k + 10 + k + 15 + k));
    }
    value_release(y);
    for (int i = 0; i < 3; i++)
      value_release(args[i]);
  }
  stop(&f);
}

static void a_mask_chooses_in_order(void **state)
{
  (void)state;
  fixture f;
  start(&f);
  const int64_t sizes[] = {20, 30}, turned_strides[] = {1, 30}, turned_sizes[] = {30, 20};
  rush_tensor *x = counting(&f, RUSH_INT32, 2, sizes),
              *m = counting(&f, RUSH_BOOL, 2, turned_sizes), *t = NULL;
  assert_int_equal(tensor_as_strided(&f.cx, x, 2, turned_sizes, turned_strides, 0, &t), RUSH_OK);
  for (int64_t i = 0; i < 600; i++)
    ((uint8_t *)m->data)[i] = i * i % 7 < 3;
  rush_value args[] = {value_tensor_steal(t), value_tensor_steal(m)}, y;
  assert_int_equal(call(&f, "aten::masked_select", args, 2, &y), RUSH_OK);
  int64_t k = 0;
  for (int64_t i = 0; i < 600; i++)
    if (i * i % 7 < 3)
      assert_true(at(y, k++) == (double)(i % 20 * 30 + i / 20));
  assert_int_equal(y.as.tensor->n_elems, k);
  value_release(y);
  value_release(args[0]);
  value_release(args[1]);
  tensor_release(x);
  stop(&f);
}

static void out_of_range_is_an_index_error(void **state)
{
  (void)state;
  fixture f;
  start(&f);
  const int64_t sizes[] = {2, 3}, bad[] = {0, 3};
  rush_tensor *x = counting(&f, RUSH_FLOAT32, 2, sizes), *i = longs(&f, 2, bad);
  rush_tensor *index[] = {NULL, tensor_retain(i)};
  rush_value list = list_of(&f, 2, index), y;
  rush_value by_list[] = {value_tensor_steal(x), list},
             by_dim[] = {value_tensor_steal(x), value_int(0), value_tensor_steal(i)};
  assert_int_equal(call(&f, "aten::index.Tensor", by_list, 2, &y), RUSH_ERAISED);
  assert_string_equal(f.err.type, "IndexError");
  assert_non_null(strstr(f.err.message, "index 3 is out of bounds for dimension 0 with size 3"));
  assert_int_equal(call(&f, "aten::index_select", by_dim, 3, &y), RUSH_ERAISED);
  assert_string_equal(f.err.type, "IndexError");
  value_release(list);
  tensor_release(i);
  tensor_release(x);
  stop(&f);
}

static void blocks_come_back_as_often_as_they_were_seen(void **state)
{
  (void)state;
  fixture f;
  start(&f);
  const int64_t sizes[] = {1, 2, 5, 4}, two[] = {2, 2}, one[] = {1, 1}, image[] = {5, 4};
  rush_value pair[3], cols, back;
  assert_int_equal(list_of_ints(&f.cx, two, 2, &pair[0]), RUSH_OK);
  assert_int_equal(list_of_ints(&f.cx, one, 2, &pair[1]), RUSH_OK);
  assert_int_equal(list_of_ints(&f.cx, image, 2, &pair[2]), RUSH_OK);
  rush_tensor *x = counting(&f, RUSH_FLOAT32, 4, sizes);
  rush_value in[] = {value_tensor_steal(x), pair[0], pair[1], pair[1], pair[1]};
  assert_int_equal(call(&f, "aten::im2col", in, 5, &cols), RUSH_OK);
  assert_int_equal(cols.as.tensor->sizes[1], 8);
  assert_int_equal(cols.as.tensor->sizes[2], 30);
  rush_value out[] = {cols, pair[2], pair[0], pair[1], pair[1], pair[1]};
  assert_int_equal(call(&f, "aten::col2im", out, 6, &back), RUSH_OK);
  for (int64_t i = 0; i < 40; i++) /* with a border of one, every pixel is in four blocks */
    assert_true(at(back, i) == 4.0 * (double)i);
  value_release(back);
  value_release(cols);
  tensor_release(x);
  for (int i = 0; i < 3; i++)
    value_release(pair[i]);
  stop(&f);
}

int main(void)
{
  const struct CMUnitTest tests[] = {
    cmocka_unit_test(indices_apart_go_to_the_front),
    cmocka_unit_test(what_meets_is_added_up),
    cmocka_unit_test(a_mask_chooses_in_order),
    cmocka_unit_test(out_of_range_is_an_index_error),
    cmocka_unit_test(blocks_come_back_as_often_as_they_were_seen),
  };
  return RUN_TESTS(tests);
}
