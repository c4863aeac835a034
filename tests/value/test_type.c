/* Test types: limits of size and depth, and comparing classes with interfaces that refer to each
 * other. */
#include "support/test.h"

#include "value/type.h"

#define N_LEVELS 20000

/* Make class i fit interface i as `needs` has the pairs i + 1 and others. */
static enum needs { NEXT_TWICE, NEXT_UNTIL_THE_END, IN_A_RING, ONE_OF_TWO, ONE_OF_TWO_BAD } needs;
static const type *classes[N_LEVELS + 1], *faces[N_LEVELS + 1];
static uint32_t n_looks;

static bool below(uint32_t i) { return type_is_subtype(classes[i], faces[i]); }

static bool fits(const type *cls, const type *iface)
{
  const uint32_t i = (uint32_t)atoi(cls->name), k = (uint32_t)atoi(iface->name);

  n_looks++;
  if (i != k)
    return false;
  switch (needs) {
  case NEXT_TWICE: return i == N_LEVELS || (below(i + 1) && below(i + 1));
  case NEXT_UNTIL_THE_END: return i < N_LEVELS && below(i + 1);
  case IN_A_RING: return below(i < 9 ? i + 1 : 0);
  case ONE_OF_TWO:
    return i == 2   ? below(3)
           : i == 3 ? false
           : i == 0 ? below(1)
           : i == 1 ? below(2) || below(4)
                    : true;
  case ONE_OF_TWO_BAD: return i == 0 ? below(1) && (below(2) || below(3)) : i == 1;
  }
  return false;
}

static type_store *begin(context *c, uint32_t n)
{
  type_store *ts = type_store_new(c);

  ts->fits_interface = fits;
  for (uint32_t i = 0; i <= n; i++) {
    char name[16];
    snprintf(name, sizeof name, "%u", i);
    classes[i] = type_new_named(ts, TYPE_CLASS, name, NULL, 0);
    faces[i] = type_new_named(ts, TYPE_INTERFACE, name, NULL, 0);
    ((type *)classes[i])->cls = (class_info *)ts; /* only its existence matters */
    ((type *)faces[i])->cls = (class_info *)ts;
  }
  n_looks = 0;
  return ts;
}

static void comparing_interfaces_is_linear(void **state)
{
  (void)state;
  context *c = test_context(NULL);
  type_store *ts = begin(c, N_LEVELS);
  needs = NEXT_TWICE;
  assert_true(below(0));
  assert_int_equal(n_looks, N_LEVELS + 1);
  needs = NEXT_UNTIL_THE_END;
  n_looks = 0;
  assert_false(below(0));
  assert_in_range(n_looks, N_LEVELS, 2 * N_LEVELS + 2);
  assert_int_equal(mem_n_refused(c), 0);
  type_store_release(ts);
  test_context_done(c);
}

static void an_assumption_that_fails_is_looked_at_again(void **state)
{
  (void)state;
  context *c = test_context(NULL);
  type_store *ts = begin(c, 9);
  needs = ONE_OF_TWO; /* 2 is assumed first, and 4 is found when that fails */
  assert_true(below(0));
  needs = ONE_OF_TWO_BAD;
  assert_false(below(0));
  assert_true(below(1));
  assert_int_equal(mem_n_refused(c), 0);
  type_store_release(ts);
  test_context_done(c);
}

static void interfaces_in_a_circle_are_refused(void **state)
{
  (void)state;
  context *c = test_context(NULL);
  type_store *ts = begin(c, 9);
  needs = IN_A_RING;
  assert_false(below(0));
  assert_int_equal(mem_n_refused(c), 1);
  assert_in_range(n_looks, 1, 20);
  type_store_release(ts);
  test_context_done(c);
}

/* -- Sizes ------------------------------------------------------------------------------------- */

static void types_have_a_height(void **state)
{
  (void)state;
  context *c = test_context(NULL);
  type_store *ts = type_store_new(c);
  const type *t = type_simple(TYPE_INT), *last = t;
  uint32_t n = 0;
  for (; t; n++) {
    last = t;
    t = type_list(ts, t);
  }
  assert_in_range(n, TYPE_MOST_HEIGHT - 2, TYPE_MOST_HEIGHT + 2);
  assert_int_equal(mem_n_refused(c), 1);
  assert_true(type_is_subtype(last, last));
  type_store_release(ts);
  test_context_done(c);
}

static void named_tuples_count_when_their_fields_come(void **state)
{
  static const char *const fields[] = {"a", "b"};
  (void)state;
  context *c = test_context(NULL);
  type_store *ts = type_store_new(c);
  const type *elems[40][2];
  type *t = type_new_named(ts, TYPE_TUPLE, "N", NULL, 0);
  assert_true(type_is_unfinished(t));
  elems[0][0] = elems[0][1] = type_simple(TYPE_INT);
  int i = 0;
  for (; i < 39 && type_set_fields(t, elems[i], fields, 2); i++) {
    assert_false(type_is_unfinished(t));
    elems[i + 1][0] = elems[i + 1][1] = t;
    t = type_new_named(ts, TYPE_TUPLE, "N", NULL, 0);
  }
  assert_in_range(i, 14, 16); /* 2^16 parts */
  assert_int_equal(mem_n_refused(c), 1);
  type_store_release(ts);
  test_context_done(c);
}

static void unions_have_a_most(void **state)
{
  (void)state;
  context *c = test_context(NULL);
  type_store *ts = begin(c, 2000);
  const type *mixed[3000];
  for (int i = 0; i < 3000; i++)
    mixed[i] = type_simple(i % 2 ? TYPE_INT : TYPE_STRING);
  assert_non_null(type_union(ts, mixed, 3000));
  assert_non_null(type_union(ts, classes, 200));
  assert_null(type_union(ts, classes, 2000));
  assert_int_equal(mem_n_refused(c), 1);
  type_store_release(ts);
  test_context_done(c);
}

int main(void)
{
  const struct CMUnitTest tests[] = {
      cmocka_unit_test(comparing_interfaces_is_linear),
      cmocka_unit_test(an_assumption_that_fails_is_looked_at_again),
      cmocka_unit_test(interfaces_in_a_circle_are_refused),
      cmocka_unit_test(types_have_a_height),
      cmocka_unit_test(named_tuples_count_when_their_fields_come),
      cmocka_unit_test(unions_have_a_most),
  };
  return RUN_TESTS(tests);
}
