#include "support/test.h"

#include "ops/call/call.h"
#include "ops/call/shape.h"
#include "ops/table/table.h"
#include "support/oom.h"

/* Test shape rules without PyTorch: their results, arguments that no kernel would accept, and
 * failing allocations. */

static rush_tensor *blank(call_ctx *cx, int n_dims, const int64_t *sizes)
{
  rush_tensor *t = NULL;
  return tensor_new(cx, RUSH_FLOAT32, n_dims, sizes, &t) == RUSH_OK ? t : NULL;
}
static rush_value sizes_of(call_ctx *cx, int n, const int64_t *v)
{
  rush_value l = value_none();
  return list_of_ints(cx, v, (size_t)n, &l) == RUSH_OK ? l : value_none();
}

/* Return the shape of name(args...); releases the arguments. */
static rush_status shape(call_ctx *cx, const char *name, rush_value *args, uint32_t n,
                         bool symbolic, rush_value *out)
{
  rush_value bound[OP_MOST_ARGS];
  const op *o = NULL;
  *out = value_none();
  rush_status st = op_bind_by_name(cx, str_of(name), args, n, NULL, 0, &o, bound);
  if (st == RUSH_OK) {
    st = op_shape_value(cx, o, bound, symbolic, out);
    op_release_bound(o, bound);
  }
  for (uint32_t i = 0; i < n; i++)
    value_release(args[i]);
  return st;
}

static void sizes_are_found_without_running(void **state)
{
  (void)state;
  context *c = test_context(NULL);
  rush_error err = RUSH_ERROR_INIT;
  call_ctx cx;
  call_ctx_init(&cx, c, &err);
  const int64_t a[] = {3, 4}, b[] = {4, 5};
  rush_value args[] = {value_tensor_steal(blank(&cx, 2, a)), value_tensor_steal(blank(&cx, 2, b))},
             found;
  assert_int_equal(shape(&cx, "aten::mm", args, 2, false, &found), RUSH_OK);
  const rush_tuple *all = found.as.tuple;
  const rush_tuple *first = all->items[2].as.list->items[0].as.tuple;
  assert_true(str_is(value_str(all->items[0]), "aten::mm"));
  assert_int_equal(first->items[1].as.list->items[0].as.i, 3);
  assert_int_equal(first->items[1].as.list->items[1].as.i, 5);
  assert_int_equal(first->items[5].as.i, -1);
  value_release(found);
  rush_error_clear(&err);
  context_release(c);
}

static const int64_t odd[] = {
  0, 1, -1, 2, -2, 3, 5, 64, -64, INT64_MAX, INT64_MIN, INT64_MAX / 2, 1 << 20};

/* Arguments may be any numbers: the rule returns a shape or an error, and never crashes. */
static void odd_numbers_are_answered_or_refused(void **state)
{
  (void)state;
  static const char *const ones[] = {"aten::select.int",   "aten::unsqueeze",
                                     "aten::squeeze.dim",  "aten::split.Tensor",
                                     "aten::chunk",        "aten::unfold",
                                     "aten::narrow",       "aten::tensor_split.sections",
                                     "aten::topk",         "aten::diagonal",
                                     "aten::tril_indices", "aten::repeat_interleave.self_int",
                                     "aten::cumsum",       "aten::sum.dim_IntList",
                                     "aten::glu",          "aten::pixel_shuffle",
                                     "aten::combinations", "aten::diff",
                                     "aten::fft_fft",      "aten::fft_irfft",
                                     "aten::one_hot",      "aten::linalg_vander",
                                     "aten::unbind.int",   "aten::rot90"};
  static const char *const lists[] = {"aten::view",
                                      "aten::reshape",
                                      "aten::expand",
                                      "aten::permute",
                                      "aten::repeat",
                                      "aten::tile",
                                      "aten::constant_pad_nd",
                                      "aten::new_zeros",
                                      "aten::sum_to_size",
                                      "aten::max_pool2d",
                                      "aten::avg_pool2d",
                                      "aten::adaptive_avg_pool2d",
                                      "aten::upsample_nearest2d",
                                      "aten::flip",
                                      "aten::tensor_split.indices",
                                      "aten::squeeze.dims",
                                      "aten::fft_fftn",
                                      "aten::layer_norm",
                                      "aten::split_with_sizes",
                                      "aten::amax"};
  context *c = test_context(NULL);
  rush_error err = RUSH_ERROR_INIT;
  call_ctx cx;
  const int64_t sizes[] = {2, 4, 3, 8};
  for (size_t k = 0; k < COUNT_OF(ones) + COUNT_OF(lists); k++)
    for (size_t i = 0; i < COUNT_OF(odd); i++)
      for (size_t j = 0; j < COUNT_OF(odd); j++)
        for (int way = 0; way < 4; way++) {
          const bool listed = k >= COUNT_OF(ones);
          const char *name = listed ? lists[k - COUNT_OF(ones)] : ones[k];
          const int64_t v[2] = {odd[i], odd[j]};
          call_ctx_init(&cx, c, &err);
          rush_value args[] = {value_tensor_steal(blank(&cx, way < 2 ? 4 : 0, sizes)),
                               listed ? sizes_of(&cx, 2, v) : value_int(v[0]), value_int(v[1])},
                     found;
          (void)shape(&cx, name, args, listed ? 2 : 3, way & 1, &found);
          value_release(found);
          rush_error_clear(&err);
        }
  context_release(c);
}

static void memory_may_run_out(void **state)
{
  (void)state;
  OOM_LOOP(cx)
  {
    const int64_t a[] = {3, 4, 6}, to[] = {-1, 8};
    rush_tensor *t = blank(&cx, 3, a);
    rush_value size = sizes_of(&cx, 2, to), found = value_none();
    if (t && size.tag == RUSH_TAG_LIST) {
      rush_value args[] = {value_tensor_steal(t), size};
      rush_status st = shape(&cx, "aten::reshape", args, 2, true, &found);
      assert_true(st == RUSH_OK || oom_.fired);
    } else {
      tensor_release(t);
      value_release(size);
    }
    value_release(found);
  }
}

/* Rules find arguments by the key of their name alone. */
static void no_two_arguments_share_a_key(void **state)
{
  (void)state;
  context *c = test_context(NULL);
  for (uint32_t i = 0; i < op_n_names; i++) {
    uint32_t n = 0;
    const op *const *all = op_overloads(c, op_row_name(&op_rows[op_names[i].first_row]), &n);
    for (uint32_t k = 0; k < n; k++)
      for (uint32_t a = 0; a < all[k]->schema->n_args; a++)
        for (uint32_t b = 0; b < a; b++)
          assert_true(all[k]->schema->args[a].key != all[k]->schema->args[b].key);
  }
  context_release(c);
}

/* The call refuses what its rule refuses; lists of many parts do not fit the call's frame. */
static void views_are_made_by_rule(void **state)
{
  (void)state;
  context *c = test_context(NULL);
  rush_error err = RUSH_ERROR_INIT;
  call_ctx cx;
  call_ctx_init(&cx, c, &err);
  const int64_t sizes[] = {300, 2};
  rush_value args[] = {value_tensor_steal(blank(&cx, 2, sizes)), value_int(5)}, out;
  assert_int_equal(op_invoke_name(&cx, "aten::unbind", "int", args, 2, &out), RUSH_ERAISED);
  assert_string_equal(err.type, "IndexError");
  rush_error_clear(&err);
  assert_int_equal(op_invoke_name(&cx, "aten::unbind", "int", args, 1, &out), RUSH_OK);
  assert_int_equal(out.as.list->n, 300);
  assert_int_equal(out.as.list->items[299].as.tensor->offset, 598);
  value_release(out);
  value_release(args[0]);
  context_release(c);
}

/* Call name(t, 0) with the last 3 of n_rows rows, the only tensor on their memory, as t, which dies
 * if `last_use`; return true if the result is in t's memory. */
static bool takes_rows(call_ctx *cx, const char *name, int dtype, int64_t n_rows, uint64_t last_use)
{
  const int64_t sizes[] = {n_rows, 4}, part[] = {3, 4}, strides[] = {4, 1};
  rush_tensor *all, *t;
  assert_int_equal(tensor_new(cx, dtype, 2, sizes, &all), RUSH_OK);
  assert_int_equal(tensor_fill(cx, all, value_int(1)), RUSH_OK);
  assert_int_equal(tensor_as_strided(cx, all, 2, part, strides, (n_rows - 3) * 4, &t), RUSH_OK);
  tensor_release(all);
  rush_value args[] = {value_tensor_steal(t), value_int(0)}, out = value_none();
  const op *o = op_find(cx->ctx, str_of(name), STR(""));
  rush_call c = {.cx = cx, .op = o, .n_args = o->schema->n_args, .n_results = 1,
                 .last_use = last_use, .args = args, .results = &out};
  assert_int_equal(op_call(&c), RUSH_OK);
  const bool same = out.as.tensor->st == t->st;
  value_release(out);
  value_release(args[0]);
  return same;
}
static bool takes_buffer(call_ctx *cx, const char *name, int dtype, uint64_t last_use)
{
  return takes_rows(cx, name, dtype, 3, last_use);
}

/* The key `reuse` of an entry decides, before the kernel runs. */
static void dying_arguments_lend_their_buffers(void **state)
{
  (void)state;
  context *c = test_context(NULL);
  rush_error err = RUSH_ERROR_INIT;
  call_ctx cx;
  call_ctx_init(&cx, c, &err);
  assert_true(takes_buffer(&cx, "aten::triu", RUSH_FLOAT32, 1));
  assert_true(takes_buffer(&cx, "aten::relu", RUSH_FLOAT32, 1));
  assert_false(takes_buffer(&cx, "aten::triu", RUSH_FLOAT32, 0));
  assert_false(takes_buffer(&cx, "aten::triu", RUSH_FLOAT32, 2));
  assert_false(takes_buffer(&cx, "aten::sqrt", RUSH_INT64, 1));
  assert_false(takes_rows(&cx, "aten::triu", RUSH_FLOAT32, 4, 1)); /* storage_offset() would show */
  cx.no_reuse = true;
  assert_false(takes_buffer(&cx, "aten::triu", RUSH_FLOAT32, 1));
  context_release(c);
}

int main(void)
{
  const struct CMUnitTest tests[] = {
      cmocka_unit_test(sizes_are_found_without_running),
      cmocka_unit_test(odd_numbers_are_answered_or_refused),
      cmocka_unit_test(memory_may_run_out),
      cmocka_unit_test(no_two_arguments_share_a_key),
      cmocka_unit_test(views_are_made_by_rule),
      cmocka_unit_test(dying_arguments_lend_their_buffers),
  };
  return RUN_TESTS(tests);
}
