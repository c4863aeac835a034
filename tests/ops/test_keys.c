#include "support/test.h"

/* Test the numbers of operators (ops/table/op_keys.h), and the table's facts that passes read. */

#include "ops/call/lookup.h"
#include "ops/table/op_keys.h"

static const op *find(const char *name, const char *overload)
{
  const op *o = op_find(context_or_default(NULL), str_of(name), str_of(overload));
  assert_non_null(o);
  return o;
}

static void an_overload_has_its_number_and_its_names(void **state)
{
  (void)state;
  assert_int_equal(find("aten::add", "Tensor")->key, OPK_ADD_TENSOR);
  assert_int_equal(find("aten::add", "Scalar")->key, OPK_ADD_SCALAR);
  assert_int_equal(find("aten::add", "Scalar")->name_key, OPN_ADD);
  assert_int_equal(find("prim::dtype", "")->name_key, OPN_PRIM__DTYPE);
}

static void operators_known_by_schema_alone_have_numbers(void **state)
{
  (void)state;
  assert_null(find("aten::cudnn_is_acceptable", "")->row);
  assert_int_equal(find("aten::cudnn_is_acceptable", "")->key, OPK_CUDNN_IS_ACCEPTABLE);
  assert_int_equal(find("aten::cudnn_is_acceptable", "")->name_key, OPN_CUDNN_IS_ACCEPTABLE);
}

static void names_that_differ_in_case_have_two_numbers(void **state)
{
  (void)state;
  assert_int_equal(find("aten::complex", "")->name_key, OPN_COMPLEX);
  assert_int_equal(find("aten::Complex", "Scalar")->name_key, OPN_Complex);
}

static void synonyms_name_the_operator_that_they_are(void **state)
{
  (void)state;
  assert_true(str_is(op_synonym_of(find("aten::arccos_", "")), "aten::acos_"));
  assert_true(str_is(op_synonym_of(find("aten::swapdims", "")), "aten::transpose"));
  assert_int_equal(op_synonym_of(find("aten::acos", "")).len, 0);
}

static void autocast_differs_in_programs(void **state)
{
  (void)state;
  assert_true(find("aten::linear", "")->effects & OP_AUTOCAST_LOWER);
  assert_true(find("aten::prod", "dim_int")->effects & OP_AUTOCAST_FLOAT32);
  assert_false(find("aten::addmm", "dtype")->effects & OP_AUTOCAST_LOWER);
  assert_true(find("aten::addmm", "dtype")->effects & OP_SCRIPT_AUTOCAST_LOWER);
}

int main(void)
{
  const struct CMUnitTest tests[] = {
    cmocka_unit_test(an_overload_has_its_number_and_its_names),
    cmocka_unit_test(operators_known_by_schema_alone_have_numbers),
    cmocka_unit_test(names_that_differ_in_case_have_two_numbers),
    cmocka_unit_test(synonyms_name_the_operator_that_they_are),
    cmocka_unit_test(autocast_differs_in_programs),
  };
  return cmocka_run_group_tests(tests, NULL, NULL);
}
