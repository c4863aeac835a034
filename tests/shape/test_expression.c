#include "support/oom.h"

#include "shape/expression.h"

/* Test expression trees that code builds, limits and failing memory.  What texts mean and how they
 * are printed: tests/python/test_expressions.py. */

typedef void test_body(session *s);
static void call_body(session *s, void *arg) { (*(test_body **)arg)(s); }
static void run_in_session(test_body *body, rush_status want)
{
  context *c = test_context(NULL);
  rush_error err = RUSH_ERROR_INIT;
  call_ctx cx;
  call_ctx_init(&cx, c, &err);
  assert_int_equal(session_run(&cx, call_body, &body), want);
  rush_error_clear(&err);
  test_context_done(c);
}

static const expression *read(session *s, const char *text)
{
  return expression_read(s, s->mem, "test", str_of(text), EXPRESSION_SYMPY);
}
static const expression *symbol(session *s, const char *name)
{
  return expression_symbol(s, s->mem, str_of(name), STR("positive=True, integer=True"));
}
static const expression *call(session *s, expression_kind kind, const expression *a,
                              const expression *b)
{
  return expression_call(s, s->mem, kind, 2, (const expression *[]){a, b});
}
static void assert_text(session *s, const expression *e, const char *want)
{
  text_buf *t = session_text(s);

  expression_print(s, t, e);
  assert_string_equal(text_str(t), want);
}

static void building(session *s)
{
  const expression *a = symbol(s, "a"), *b = symbol(s, "b");
  const expression *two = expression_integer(s, s->mem, 2), *sum = call(s, EXPRESSION_ADD, a, two);

  assert_text(s, call(s, EXPRESSION_ADD, call(s, EXPRESSION_ADD, two, b), sum), "a + b + 4");
  assert_int_equal(call(s, EXPRESSION_ADD, call(s, EXPRESSION_ADD, two, b), sum)->n_args, 3);
  assert_text(
    s, call(s, EXPRESSION_MUL, call(s, EXPRESSION_MUL, b, two), call(s, EXPRESSION_MUL, two, a)),
    "4*a*b");
  assert_ptr_equal(call(s, EXPRESSION_ADD, a, expression_integer(s, s->mem, 0)), a);
  assert_ptr_equal(call(s, EXPRESSION_MUL, expression_integer(s, s->mem, 1), a), a);
  assert_text(s, call(s, EXPRESSION_MUL, expression_integer(s, s->mem, 0), a), "0");
  assert_text(s, call(s, EXPRESSION_ADD, a, expression_integer(s, s->mem, -2)), "a - 2");
  assert_text(s, call(s, EXPRESSION_FLOOR_DIV, sum, two), "((a + 2)//2)");
  assert_text(s, call(s, EXPRESSION_MUL, expression_rational(s, s->mem, 2, -4), a), "-a/2");
  assert_text(s, expression_float(s, s->mem, 0.5), "0.500000000000000");
  assert_text(s, expression_boolean(s, s->mem, true), "True");
  assert_int_equal(expression_kind_named(STR("FloorDiv")), EXPRESSION_FLOOR_DIV);
  assert_int_equal(expression_kind_named(STR("Symbol")), EXPRESSION_N_KINDS);
}

static void integers_that_overflow_stay(session *s)
{
  const expression *most = expression_integer(s, s->mem, INT64_MAX);

  assert_int_equal(call(s, EXPRESSION_ADD, most, most)->kind, EXPRESSION_ADD);
  assert_int_equal(call(s, EXPRESSION_MUL, most, most)->n_args, 2);
}

static void comparing(session *s)
{
  const expression *e = read(s, "Max(s0 + 1, FloorDiv(u0, 2), 0.5)");

  assert_true(expression_same(e, read(s, "Max(s0 + 1, FloorDiv(u0, 2), 0.5)")));
  assert_false(expression_same(e, read(s, "Max(s0 + 1, FloorDiv(u0, 2), 0.25)")));
  assert_false(expression_same(e, read(s, "Max(s0 + 1, CleanDiv(u0, 2), 0.5)")));
  assert_false(expression_same(e, read(s, "Max(s0 + 1, FloorDiv(u1, 2), 0.5)")));
  assert_false(expression_same(read(s, "Symbol('a')"), read(s, "Symbol('a', integer=True)")));
}

/* A tree of n levels, each with the one below twice, is 2**n nodes for a printer. */
static void doubling(session *s)
{
  const expression *e = symbol(s, "a");

  for (int i = 0; i < 64; i++)
    e = call(s, EXPRESSION_MAX, e, e);
}
static void nesting(session *s)
{
  const expression *e = symbol(s, "a");

  for (int i = 0; i < EXPRESSION_MOST_DEPTH + 1; i++)
    e = expression_call(s, s->mem, EXPRESSION_ABS, 1, &e);
}
/* Powers in powers: Python's code would have 100**8 symbols. */
static void exploding(session *s)
{
  const expression *e = symbol(s, "a"), *many = expression_integer(s, s->mem, 100);

  for (int i = 0; i < 8; i++)
    e = call(s, EXPRESSION_POW, call(s, EXPRESSION_ADD, e, symbol(s, "b")), many);
  expression_print_python(s, session_text(s), e, NULL, NULL);
}
static void negating_products(session *s)
{
  text_buf *t = session_text(s);

  for (int i = 0; i < 190; i++)
    text_puts(t, "-(");
  for (int i = 0; i < 10000; i++)
    text_puts(t, "a*");
  text_puts(t, "a");
  for (int i = 0; i < 190; i++)
    text_putc(t, ')');
  (void)read(s, text_str(t));
}

static void everything(session *s)
{
  text_buf *t = session_text(s);
  const expression *e = read(s, "Max(3*s0**2 - u0/2 + 0.5, (s0 + 1)//2, "
                                "Piecewise((s0, (u0 > 2) & Eq(s0, 3)), (s0*u0*s0, True)))");

  expression_print(s, t, e);
  expression_print_srepr(s, t, e);
  expression_print_python(s, t, e, NULL, NULL);
}

static void code_builds_trees(void **state)
{
  (void)state;
  run_in_session(building, RUSH_OK);
  run_in_session(integers_that_overflow_stay, RUSH_OK);
}
static void trees_are_compared(void **state)
{
  (void)state;
  run_in_session(comparing, RUSH_OK);
}
static void trees_are_limited(void **state)
{
  (void)state;
  run_in_session(doubling, RUSH_ELIMIT);
  run_in_session(nesting, RUSH_ELIMIT);
  run_in_session(exploding, RUSH_ELIMIT);
  run_in_session(negating_products, RUSH_ELIMIT);
}
static void memory_may_fail(void **state)
{
  (void)state;
  OOM_LOOP(cx) {
    test_body *body = everything;
    rush_status st = session_run(&cx, call_body, &body);
    assert_true(st == RUSH_OK || st == RUSH_ENOMEM);
  }
}

int main(void)
{
  const struct CMUnitTest tests[] = {
    cmocka_unit_test(code_builds_trees),
    cmocka_unit_test(trees_are_compared),
    cmocka_unit_test(trees_are_limited),
    cmocka_unit_test(memory_may_fail),
  };
  return RUN_TESTS(tests);
}
