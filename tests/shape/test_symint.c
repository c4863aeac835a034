#include "support/test.h"

#include "shape/symint.h"

/* Test symbolic integers: normal forms, what ranges decide, what guards imply, limits. */

typedef struct fixture {
  session *s;
  sym_env *env;
  symint a, b; /* s0 = 6, s1 = 4, both at least 2 */
} fixture;

typedef void test_body(fixture *f);
static void with_fixture(session *s, void *arg)
{
  fixture f = {.s = s, .env = sym_env_new(s)};
  f.a = sym_new(f.env, 6, 2);
  f.b = sym_new(f.env, 4, 2);
  (*(test_body **)arg)(&f);
}
static void run_in_session(test_body *body, rush_status want)
{
  context *c = test_context(NULL);
  rush_error err = RUSH_ERROR_INIT;
  call_ctx cx;
  call_ctx_init(&cx, c, &err);
  assert_int_equal(session_run(&cx, with_fixture, &body), want);
  rush_error_clear(&err);
  test_context_done(c);
}

static symint k(fixture *f, int64_t n) { return sym_const(f->env, n); }
static void assert_text(fixture *f, symint e, const char *want)
{
  text_buf *t = session_text(f->s);
  sym_print(t, e);
  assert_string_equal(text_str(t), want);
}
static void assert_guard(fixture *f, uint32_t i, const char *want)
{
  text_buf *t = session_text(f->s);
  assert_true(i < f->env->n_guards);
  sym_cond_print(t, f->env->guards[i]);
  assert_string_equal(text_str(t), want);
}
static int64_t hint(symint e)
{
  int64_t v = 0;
  assert_true(sym_hint(e, &v));
  return v;
}

static void polynomials(fixture *f)
{
  sym_env *e = f->env;
  symint sum = sym_add(e, f->a, f->b);
  assert_ptr_equal(sum, sym_add(e, f->b, f->a));
  assert_ptr_equal(sym_sub(e, sum, f->b), f->a);
  assert_ptr_equal(
    sym_mul(e, sum, sum),
    sym_add(e, sym_add(e, sym_mul(e, f->a, f->a), sym_mul(e, k(f, 2), sym_mul(e, f->a, f->b))),
            sym_mul(e, f->b, f->b)));
  assert_text(f, sym_mul(e, sum, sum), "s0**2 + 2*s0*s1 + s1**2");
  assert_text(f, sym_sub(e, k(f, 3), sym_mul(e, f->a, k(f, 4))), "-4*s0 + 3");
  assert_int_equal(hint(sym_mul(e, sum, sum)), 100);
  assert_true(sym_is_const(sym_sub(e, sum, sym_add(e, f->a, f->b))));
}

static void divisions(fixture *f)
{
  sym_env *e = f->env;
  symint ab = sym_mul(e, f->a, f->b), a1 = sym_add(e, f->a, k(f, 1));
  assert_ptr_equal(sym_floordiv(e, ab, f->a), f->b);
  assert_ptr_equal(sym_floordiv(e, sym_mul(e, ab, a1), sym_mul(e, f->b, a1)), f->a);
  assert_ptr_equal(sym_mod(e, sym_mul(e, ab, a1), sym_mul(e, f->b, a1)), k(f, 0));
  assert_text(f, sym_floordiv(e, sym_add(e, sym_mul(e, k(f, 4), f->a), k(f, 7)), k(f, 4)),
              "s0 + 1");
  assert_text(f, sym_floordiv(e, sym_add(e, f->a, k(f, 3)), k(f, 2)), "((s0 + 1)//2) + 1");
  assert_ptr_equal(sym_floordiv(e, sym_floordiv(e, f->a, k(f, 2)), k(f, 3)),
                   sym_floordiv(e, f->a, k(f, 6)));
  assert_ptr_equal(sym_floordiv(e, sym_mul(e, k(f, 6), f->a), sym_mul(e, k(f, 4), f->b)),
                   sym_floordiv(e, sym_mul(e, k(f, 3), f->a), sym_mul(e, k(f, 2), f->b)));
  assert_int_equal(hint(sym_floordiv(e, sym_sub(e, k(f, 0), f->a), k(f, 4))), -2); /* as Python */
  assert_int_equal(hint(sym_mod(e, sym_sub(e, k(f, 0), f->a), k(f, 4))), 2);
  assert_ptr_equal(sym_mod(e, sym_add(e, sym_mul(e, f->a, k(f, 8)), k(f, 3)), k(f, 8)), k(f, 3));
  int64_t lo, hi;
  sym_range(e, sym_mod(e, f->a, k(f, 5)), &lo, &hi);
  assert_true(lo == 0 && hi == 4);
}

static void order_is_known_by_ranges(fixture *f)
{
  sym_env *e = f->env;
  symint ab = sym_mul(e, f->a, f->b), c = sym_new(e, 5, 2);
  assert_int_equal(sym_known(e, sym_lt(e, f->b, ab)), 1);
  assert_int_equal(sym_known(e, sym_eq(e, f->b, ab)), 0);
  assert_int_equal(sym_known(e, sym_lt(e, sym_mul(e, ab, c), sym_mul(e, f->a, c))), 0);
  assert_int_equal(sym_known(e, sym_le(e, sym_add(e, f->a, f->b), ab)),
                   1); /* x + y <= x*y from 2 on */
  assert_int_equal(sym_known(e, sym_lt(e, f->a, f->b)), -1);
  assert_int_equal(sym_known(e, sym_eq(e, f->a, k(f, 1))), 0);
  assert_int_equal(sym_known(e, sym_eq(e, sym_mul(e, f->a, k(f, 2)), k(f, 7))), 0); /* even */
  assert_ptr_equal(sym_min(e, f->a, k(f, 1)), k(f, 1));
  assert_ptr_equal(sym_max(e, ab, f->b), ab);
  assert_text(f, sym_min(e, f->b, f->a), "min(s0, s1)");
  assert_int_equal(e->n_guards, 0);
}

static void guards_teach(fixture *f)
{
  sym_env *e = f->env;
  assert_true(sym_decide(e, sym_le(e, k(f, 5), f->a)));
  assert_guard(f, 0, "s0 >= 5");
  assert_int_equal(sym_known(e, sym_le(e, k(f, 3), f->a)), 1);
  assert_false(sym_decide(e, sym_eq(e, f->a, f->b)));
  assert_guard(f, 1, "s0 != s1");
  assert_false(sym_decide(e, sym_eq(e, f->b, f->a))); /* asked before */
  symint c = sym_new(e, 6, 2);
  assert_true(sym_decide(e, sym_eq(e, c, f->a)));
  assert_guard(f, 2, "s0 == s2");
  assert_text(f, sym_simplify(e, sym_mul(e, c, f->a)), "s0**2");
  assert_true(sym_decide(e, sym_eq(e, sym_mod(e, f->a, k(f, 2)), k(f, 0))));
  assert_guard(f, 3, "(s0 % 2) == 0");
  assert_true(sym_is_const(sym_simplify(e, sym_mod(e, c, k(f, 2)))));
  assert_false(sym_require(e, sym_lt(e, f->a, f->b)));
  assert_int_equal(e->n_guards, 4);
}

static void what_data_tells_is_not_decided(fixture *f)
{
  sym_env *e = f->env;
  symint u = sym_fresh(e, 0, 10);
  assert_int_equal(sym_known(e, sym_le(e, u, k(f, 10))), 1);
  assert_true(sym_require(e, sym_le(e, u, k(f, 4))));
  assert_guard(f, 0, "4 >= u0");
  assert_int_equal(sym_known(e, sym_lt(e, k(f, 4), u)), 0);
  (void)sym_decide(e, sym_eq(e, u, k(f, 3))); /* leaves */
}

static bool look_up(void *arg, const sym_atom *symbol, int64_t *value)
{
  *value = ((const int64_t *)arg)[symbol->id];
  return true;
}
static void values_are_put_in(fixture *f)
{
  sym_env *e = f->env;
  int64_t values[2] = {9, 2}, v = 0;
  symint x = sym_add(e, sym_floordiv(e, sym_sub(e, f->a, k(f, 2)), f->b), sym_max(e, f->a, f->b));
  assert_true(sym_eval(x, look_up, values, &v));
  assert_int_equal(v, 3 + 9);
  const symint with[2] = {sym_mul(e, f->b, k(f, 3)), NULL};
  assert_text(f, sym_substitute(e, sym_floordiv(e, f->a, f->b), with, 2), "3");
}

static void work_is_limited(fixture *f)
{
  symint x = sym_add(f->env, f->a, f->b);
  for (int i = 0; i < 20; i++) {
    x = sym_add(f->env, x, sym_new(f->env, 3, 2));
    x = sym_mul(f->env, x, x);
  }
}
static void nesting_is_limited(fixture *f)
{
  symint x = f->a;
  for (int i = 0; i < 100000; i++)
    x = sym_min(f->env, sym_add(f->env, x, sym_new(f->env, 3, 2)), sym_add(f->env, x, f->b));
}
static void numbers_are_limited(fixture *f)
{
  symint x = f->a;
  for (int i = 0; i < 70; i++)
    x = sym_mul(f->env, x, k(f, 2));
}
static void zero_divides_nothing(fixture *f) { (void)sym_mod(f->env, f->a, k(f, 0)); }

static void equal_sums_are_one(void **state) { (void)state; run_in_session(polynomials, RUSH_OK); }
static void division_cancels(void **state) { (void)state; run_in_session(divisions, RUSH_OK); }
static void ranges_decide(void **state)
{
  (void)state;
  run_in_session(order_is_known_by_ranges, RUSH_OK);
}
static void guards_are_learned(void **state) { (void)state; run_in_session(guards_teach, RUSH_OK); }
static void data_is_not_guessed(void **state)
{
  (void)state;
  run_in_session(what_data_tells_is_not_decided, RUSH_ERAISED);
}
static void numbers_take_symbols_places(void **state)
{
  (void)state;
  run_in_session(values_are_put_in, RUSH_OK);
}
static void limits_hold(void **state)
{
  (void)state;
  run_in_session(work_is_limited, RUSH_ELIMIT);
  run_in_session(nesting_is_limited, RUSH_ELIMIT);
  run_in_session(numbers_are_limited, RUSH_ERAISED);
  run_in_session(zero_divides_nothing, RUSH_ERAISED);
}

int main(void)
{
  const struct CMUnitTest tests[] = {
    cmocka_unit_test(equal_sums_are_one),  cmocka_unit_test(division_cancels),
    cmocka_unit_test(ranges_decide),       cmocka_unit_test(guards_are_learned),
    cmocka_unit_test(data_is_not_guessed), cmocka_unit_test(numbers_take_symbols_places),
    cmocka_unit_test(limits_hold),
  };
  return RUN_TESTS(tests);
}
