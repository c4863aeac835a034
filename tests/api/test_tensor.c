/* Test tensors and other values through the public header: memory of the caller's, DLPack,
 * containers. */
#include <string.h>

#include "support/test.h"

#include <math.h>

#include "rushlight/rushlight.h"

static rush_context *create(void)
{
  rush_context *c;
  assert_int_equal(rush_context_create(NULL, &c, NULL), RUSH_OK);
  return c;
}

static void count_call(void *user, void *data)
{
  (void)data;
  ++*(int *)user;
}

static rush_value call1(rush_context *c, const char *name, const rush_value *args, size_t n_args)
{
  rush_value result;
  size_t n;
  assert_int_equal(rush_op_call(c, name, args, n_args, NULL, 0, &result, 1, &n, NULL), RUSH_OK);
  return result;
}

static void wrapped_memory_is_used_in_place(void **state)
{
  (void)state;
  rush_context *c = create();
  float data[6] = {1, 2, 3, 4, 5, 6};
  int64_t sizes[] = {3, 2}, strides[] = {1, 3}; /* a transposed 2x3 */
  int n_deleted = 0;
  rush_value t, row, args[3];
  assert_int_equal(
    rush_tensor_wrap(c, RUSH_FLOAT32, 2, sizes, strides, data, count_call, &n_deleted, &t, NULL),
    RUSH_OK);
  assert_true(rush_tensor_data(t.as.tensor) == data && !rush_tensor_is_contiguous(t.as.tensor));
  assert_true(rush_tensor_n_elems(t.as.tensor) == 6 && rush_tensor_strides(t.as.tensor)[1] == 3);
  args[0] = t;
  args[1] = rush_value_int(0);
  args[2] = rush_value_int(1);
  row = call1(c, "aten::select", args, 3);
  args[0] = row;
  args[1] = rush_value_float(10);
  uint32_t version = rush_tensor_version(t.as.tensor);
  rush_value same = call1(c, "aten::mul_", args, 2);
  assert_true(data[1] == 20 && data[4] == 50 && data[0] == 1);
  assert_true(rush_tensor_version(t.as.tensor) > version);
  rush_value_release(same);
  rush_value_release(t);
  assert_int_equal(n_deleted, 0); /* the row still shares its memory */
  rush_value_release(row);
  assert_int_equal(n_deleted, 1);
  rush_context_release(c);
}

static void what_cannot_be_a_tensor_is_refused(void **state)
{
  (void)state;
  rush_context *c = create();
  rush_error err = RUSH_ERROR_INIT;
  float data[4];
  int64_t sizes[] = {2, 2}, negative[] = {-2, 1}, minus[] = {2, -2}, huge[] = {INT64_MAX / 2, 4};
  int n_deleted = 0;
  rush_value t;
  assert_int_equal(
    rush_tensor_wrap(c, RUSH_FLOAT32, 2, sizes, negative, data, count_call, &n_deleted, &t, &err),
    RUSH_EARGUMENT);
  assert_int_equal(rush_tensor_create(c, RUSH_FLOAT32, 2, minus, &t, &err), RUSH_EARGUMENT);
  assert_int_equal(rush_tensor_create(c, (rush_dtype)77, 2, sizes, &t, &err), RUSH_EARGUMENT);
  assert_int_equal(rush_tensor_create(c, RUSH_FLOAT32, 65, sizes, &t, &err), RUSH_EARGUMENT);
  assert_int_not_equal(rush_tensor_create(c, RUSH_FLOAT32, 2, huge, &t, &err), RUSH_OK);
  assert_int_equal(n_deleted, 0); /* on failure the caller keeps the memory */
  rush_error_clear(&err);
  rush_context_release(c);
}

static void dlpack_goes_both_ways(void **state)
{
  (void)state;
  rush_context *c = create();
  int64_t sizes[] = {2, 2};
  int32_t data[4] = {1, 2, 3, 4};
  rush_value t, back;
  void *managed;
  int n_deleted = 0;
  for (int versioned = 0; versioned < 2; versioned++) {
    assert_int_equal(
      rush_tensor_wrap(c, RUSH_INT32, 2, sizes, NULL, data, count_call, &n_deleted, &t, NULL),
      RUSH_OK);
    assert_int_equal(rush_tensor_to_dlpack(c, t.as.tensor, versioned, &managed, NULL), RUSH_OK);
    rush_value_release(t);
    assert_int_equal(rush_tensor_from_dlpack_steal(c, managed, versioned, &back, NULL), RUSH_OK);
    assert_true(rush_tensor_dtype(back.as.tensor) == RUSH_INT32 &&
                rush_tensor_data(back.as.tensor) == data);
    assert_int_equal(n_deleted, versioned);
    rush_value_release(back);
    assert_int_equal(n_deleted, versioned + 1);
  }
  rush_context_release(c);
}

static void read_only_memory_is_not_written_to(void **state)
{
  (void)state;
  rush_context *c = create();
  rush_error err = RUSH_ERROR_INIT;
  static const float data[4] = {1, 2, 3, 4}; /* a write would crash */
  int64_t sizes[] = {4};
  rush_value args[2], row, back, result;
  void *managed;
  size_t n;
  assert_int_equal(rush_tensor_wrap(c, RUSH_FLOAT32, 1, sizes, NULL, (void *)(uintptr_t)data, NULL,
                                    NULL, &args[0], NULL),
                   RUSH_OK);
  assert_false(rush_tensor_is_read_only(args[0].as.tensor));
  rush_tensor_set_read_only(args[0].as.tensor);
  row = call1(c, "aten::t", args, 1); /* a view */
  assert_true(rush_tensor_is_read_only(row.as.tensor));
  assert_null(rush_tensor_data_mut(row.as.tensor));
  rush_value_release(args[0]);
  args[0] = row;
  args[1] = rush_value_float(1);
  assert_int_equal(rush_op_call(c, "aten::add_", args, 2, NULL, 0, &result, 1, &n, &err),
                   RUSH_ERAISED);
  assert_string_equal(err.type, "ValueError");
  assert_non_null(strstr(err.message, "argument 'self' is read-only"));
  result = call1(c, "aten::add", args, 2);
  assert_true(((const float *)rush_tensor_data(result.as.tensor))[3] == 5 &&
              !rush_tensor_is_read_only(result.as.tensor));
  rush_value_release(result);
  assert_int_equal(rush_tensor_to_dlpack(c, row.as.tensor, false, &managed, &err), RUSH_ERAISED);
  assert_string_equal(err.type, "BufferError");
  assert_int_equal(rush_tensor_to_dlpack(c, row.as.tensor, true, &managed, &err), RUSH_OK);
  assert_int_equal(rush_tensor_from_dlpack_steal(c, managed, true, &back, &err), RUSH_OK);
  assert_true(rush_tensor_is_read_only(back.as.tensor));
  rush_value_release(back);
  rush_value_release(row);
  rush_error_clear(&err);
  rush_context_release(c);
}

static void containers_keep_their_items(void **state)
{
  (void)state;
  rush_context *c = create();
  rush_value items[3], list, tuple, dict, key, value, text;
  size_t n_bytes;
  assert_int_equal(rush_string_create(c, "na\xc3\xafve", 6, &text, NULL), RUSH_OK);
  items[0] = text;
  items[1] = rush_value_int(7);
  assert_int_equal(rush_complex_create(c, 1.5, -2, &items[2], NULL), RUSH_OK);
  assert_int_equal(rush_tuple_create(c, items, 3, &tuple, NULL), RUSH_OK);
  assert_int_equal(rush_list_create(c, items, 1, &list, NULL), RUSH_OK);
  assert_int_equal(rush_dict_create(c, items, items + 1, 2, &dict, NULL), RUSH_OK);
  assert_int_equal(rush_value_len(tuple), 3);
  assert_string_equal(rush_value_string(rush_value_item(list, 0), &n_bytes), "na\xc3\xafve");
  assert_int_equal(n_bytes, 6);
  double re, im;
  rush_value_complex(rush_value_item(tuple, 2), &re, &im);
  assert_true(re == 1.5 && im == -2);
  rush_value_entry(dict, 1, &key, &value);
  assert_true(key.tag == RUSH_TAG_INT && key.as.i == 7 && value.tag == RUSH_TAG_COMPLEX);
  assert_int_equal(rush_value_item(tuple, 3).tag, RUSH_TAG_UNSET);
  char *shown;
  assert_int_equal(rush_value_to_text(c, tuple, true, &shown, NULL), RUSH_OK);
  assert_non_null(strstr(shown, "na\xc3\xafve"));
  rush_free_text(c, shown);
  assert_int_equal(rush_string_create(c, "\xff", 1, &text, NULL), RUSH_EARGUMENT);
  rush_value_release(dict);
  rush_value_release(list);
  rush_value_release(tuple);
  rush_value_release(items[2]);
  rush_value_release(items[0]);
  rush_context_release(c);
}

static void an_operator_found_once_is_called_often(void **state)
{
  (void)state;
  rush_context *c = create();
  rush_error err = RUSH_ERROR_INIT;
  const rush_operator *add = rush_op_find(c, "aten::add.Tensor");
  int64_t n = 8;
  rush_value x, sum, args[3];
  assert_non_null(add);
  assert_null(rush_op_find(c, "aten::no_such"));
  assert_true(rush_op_exists(c, "aten::add") && !rush_op_exists(c, "aten::add.NoSuch"));
  assert_int_equal(rush_tensor_create(c, RUSH_FLOAT32, 1, &n, &x, NULL), RUSH_OK);
  for (int i = 0; i < 8; i++)
    ((float *)rush_tensor_data_mut(x.as.tensor))[i] = (float)i;
  args[0] = args[1] = x;
  args[2] = rush_value_int(2);
  for (int i = 0; i < 100; i++) {
    assert_int_equal(rush_op_run(add, args, 3, &sum, 1, &err), RUSH_OK);
    assert_true(((const float *)rush_tensor_data(sum.as.tensor))[7] == 21);
    rush_value_release(sum);
  }
  assert_int_equal(rush_op_run(add, args, 2, &sum, 1, &err), RUSH_EARGUMENT);
  rush_error_clear(&err);
  rush_value_release(x);
  rush_context_release(c);
}

static void the_default_context_needs_no_setup(void **state)
{
  (void)state;
  rush_value t, contiguous;
  int64_t sizes[] = {2, 3}, strides[] = {1, 2};
  double data[6] = {0, 1, 2, 3, 4, 5};
  assert_int_equal(
    rush_tensor_wrap(NULL, RUSH_FLOAT64, 2, sizes, strides, data, NULL, NULL, &t, NULL), RUSH_OK);
  assert_int_equal(rush_tensor_contiguous(NULL, t.as.tensor, &contiguous, NULL), RUSH_OK);
  assert_true(((const double *)rush_tensor_data(contiguous.as.tensor))[1] == 2);
  assert_false(rush_tensor_requires_grad(t.as.tensor));
  rush_tensor_set_requires_grad(t.as.tensor, true);
  assert_true(rush_tensor_requires_grad(t.as.tensor));
  rush_value_release(contiguous);
  rush_value_release(t);
  assert_string_equal(rush_dtype_name(RUSH_BFLOAT16), "bfloat16");
  assert_int_equal(rush_dtype_bytes(RUSH_COMPLEX128), 16);
  assert_null(rush_dtype_name((rush_dtype)77));
  assert_string_equal(rush_version(), "0.1.0");
}

/* as_strided may reach all of the buffer, but nothing beyond its end. */
static void a_part_of_a_buffer_is_wrapped(void **state)
{
  (void)state;
  int64_t sizes[] = {3}, strides[] = {2};
  float data[8] = {0, 1, 2, 3, 4, 5, 6, 7};
  rush_value part, args[4], y;
  rush_error err = RUSH_ERROR_INIT;
  size_t n = 0;

  assert_int_equal(rush_tensor_wrap_part(NULL, RUSH_FLOAT32, 1, sizes, strides, 3, data,
                                         sizeof data, NULL, NULL, &part, &err),
                   RUSH_OK);
  assert_ptr_equal(rush_tensor_data(part.as.tensor), data + 3);
  args[0] = part;
  assert_int_equal(
    rush_list_create(NULL, &(rush_value){.tag = RUSH_TAG_INT, .as.i = 8}, 1, &args[1], &err),
    RUSH_OK);
  assert_int_equal(
    rush_list_create(NULL, &(rush_value){.tag = RUSH_TAG_INT, .as.i = 1}, 1, &args[2], &err),
    RUSH_OK);
  args[3] = rush_value_int(0);
  assert_int_equal(rush_op_call(NULL, "aten::as_strided", args, 4, NULL, 0, &y, 1, &n, &err),
                   RUSH_OK);
  assert_ptr_equal(rush_tensor_data(y.as.tensor), data);
  rush_value_release(y);
  args[3] = rush_value_int(1);
  assert_int_not_equal(rush_op_call(NULL, "aten::as_strided", args, 4, NULL, 0, &y, 1, &n, &err),
                       RUSH_OK);
  rush_error_clear(&err);
  for (int i = 0; i < 3; i++)
    rush_value_release(args[i]);
  assert_int_equal(rush_tensor_wrap_part(NULL, RUSH_FLOAT32, 1, sizes, strides, 4, data,
                                         sizeof data, NULL, NULL, &part, &err),
                   RUSH_EARGUMENT);
  assert_non_null(strstr(err.message, "reaches 4 bytes behind the 32"));
  rush_error_clear(&err);
}

int main(void)
{
  const struct CMUnitTest tests[] = {
      cmocka_unit_test(wrapped_memory_is_used_in_place),
      cmocka_unit_test(what_cannot_be_a_tensor_is_refused),
      cmocka_unit_test(a_part_of_a_buffer_is_wrapped),
      cmocka_unit_test(dlpack_goes_both_ways),
      cmocka_unit_test(read_only_memory_is_not_written_to),
      cmocka_unit_test(containers_keep_their_items),
      cmocka_unit_test(an_operator_found_once_is_called_often),
      cmocka_unit_test(the_default_context_needs_no_setup),
  };
  return RUN_TESTS(tests);
}
