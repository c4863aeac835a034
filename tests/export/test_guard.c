/* Test guards: read from PyTorch's text, shown as Python shows them, checked as Python computes
 * them. */
#include "support/oom.h"

#include "export/exported.h"

#define N_LEAVES 3

/* Call forward(x, y, n): x and y have sizes (6, 4), n is 7. */
static const struct row {
  const char *text, *shown; /* Python's ast.unparse; NULL: not understood */
  bool holds;
} rows[] = {
  {"L['x'].size()[0] == 6", "x.size()[0] == 6", true},
  {"(2*L['x'].size()[1]) == L['y'].size()[0]", "2 * x.size()[1] == y.size()[0]", false},
  {"((-1) + L['x'].size()[0]) == L['y'].size()[0]", "-1 + x.size()[0] == y.size()[0]", false},
  {"((3*L['x'].size()[0]) % 4) == 2", "3 * x.size()[0] % 4 == 2", true},
  {"L['x'].size()[0] > (-1) + (L['y'].size()[0] // 2)", "x.size()[0] > -1 + y.size()[0] // 2",
   true},
  {"2*(L['n'] + 1) == 16", "2 * (n + 1) == 16", true},
  {"L['n'] - (2 - 1) == 6 and not L['n'] > 8", "n - (2 - 1) == 6 and (not n > 8)", true},
  {"Mod(L['n'] * -1, 4) == 1", "Mod(n * -1, 4) == 1", true},
  {"FloorDiv(-L['n'], 2) == -4", "FloorDiv(-n, 2) == -4", true},
  {"Max(L['n'], 9) == 9 or Min(L['n'], 2) == 3", "Max(n, 9) == 9 or Min(n, 2) == 3", true},
  {"2 <= L['n'] <= 6", "2 <= n <= 6", false},
  {"2**3 == 8", "2 ** 3 == 8", true},
  {"L['z'] == 1", NULL, false},
  {"L['n'] == 1.5", "n == 1.5", false},
  {"0.50000000000000000*L['n'] == 3.5", "0.5 * n == 3.5", true},
  {"L['n']/2 > 3", "n / 2 > 3", true},
  {"(L['n'] < 9 and L['n'] > 1) and not (not L['n'])", "(n < 9 and n > 1) and (not not n)", true},
  {"L['n'] < 9 and (L['n'] > 8 or 1 == 1)", "n < 9 and (n > 8 or 1 == 1)", true},
  {"(L['n']) - ((2 - 1) - 1) == 7", "n - (2 - 1 - 1) == 7", true},
  {"-(2**2) == -4 and (-2)**2 == 4", "-2 ** 2 == -4 and (-2) ** 2 == 4", true},
  {"(2**3)**2 == 64 or 2**-(-1) == 0", "(2 ** 3) ** 2 == 64 or 2 ** (--1) == 0", true},
  {"-(-L['n']) == 7 and (L['n'] < 9) == (1 == 1)", "--n == 7 and (n < 9) == (1 == 1)", true},
  {"(1 if L['n'] > 8 else 2 if 1 > 2 else (3)) == 3", "(1 if n > 8 else 2 if 1 > 2 else 3) == 3",
   true},
  {"L['n'] & (1 | 4) == 5", "n & (1 | 4) == 5", true}, /* (7 & 5) == 5 */
  {"max(L['n'],  3)//(2) == 3", "max(n, 3) // 2 == 3", true},
  {"L['n'] == ", NULL, false},
  {"__import__('os')", NULL, false},
  {"((((", NULL, false},
};

static const char *arg_names[] = {"x", "y", "n"};
static tree_spec leaves_of_args[N_LEAVES];
static tree_spec in_children[] = {
  {.kind = TREE_TUPLE, .n_children = N_LEAVES, .children = leaves_of_args}};
static tree_spec in = {.kind = TREE_TUPLE, .n_children = 1, .children = in_children};

typedef struct job {
  const char *text;
  exported *e;
  arena *mem;
  const guard *made;
} job;

static void parse(session *s, void *arg)
{
  job *j = arg;

  j->made = guard_parse(s, j->mem, j->e, j->text);
}

static rush_value sized(call_ctx *cx)
{
  int64_t sizes[2] = {6, 4};
  rush_tensor *t;

  assert_int_equal(tensor_new(cx, RUSH_FLOAT32, 2, sizes, &t), RUSH_OK);
  return value_tensor_steal(t);
}

static void guards_are_pythons(void **state)
{
  context *c = test_context(NULL);
  rush_error err = RUSH_ERROR_INIT;
  exported e = {.in = &in,
                .arg_names = arg_names,
                .n_arg_names = N_LEAVES,
                .leaf_names = arg_names,
                .n_leaves = N_LEAVES};
  call_ctx cx;
  arena mem;
  (void)state;

  call_ctx_init(&cx, c, &err);
  arena_init(&mem, c);
  rush_value leaves[N_LEAVES] = {sized(&cx), sized(&cx), value_int(7)};
  for (size_t i = 0; i < COUNT_OF(rows); i++) {
    job j = {.text = rows[i].text, .e = &e, .mem = &mem};
    assert_int_equal(session_run(&cx, parse, &j), RUSH_OK);
    if (!rows[i].shown) {
      if (j.made)
        fail_msg("%s is understood", rows[i].text);
      continue;
    }
    if (!j.made)
      fail_msg("%s is not understood", rows[i].text);
    assert_string_equal(j.made->text, rows[i].shown);
    if ((guard_check(&cx, &e, j.made, leaves) == RUSH_OK) != rows[i].holds)
      fail_msg("%s", rows[i].text);
  }
  value_release(leaves[0]);
  value_release(leaves[1]);
  rush_error_clear(&err);
  arena_free(&mem);
  context_release(c);
}

/* Conditions are visited by recursion, so a long one is refused instead of overflowing the stack.
 * */
static void long_guards_are_refused(void **state)
{
  enum { TERMS = 100000 };
  context *c = test_context(NULL);
  char *text = malloc(2 * TERMS + 8), *p = text;
  exported e = {.in = &in,
                .arg_names = arg_names,
                .n_arg_names = N_LEAVES,
                .leaf_names = arg_names,
                .n_leaves = N_LEAVES};
  call_ctx cx;
  arena mem;
  (void)state;

  for (int i = 0; i < TERMS; i++) {
    *p++ = '1';
    *p++ = '+';
  }
  strcpy(p, "1 == 1");
  call_ctx_init(&cx, c, NULL);
  arena_init(&mem, c);
  job j = {.text = text, .e = &e, .mem = &mem};
  assert_int_equal(session_run(&cx, parse, &j), RUSH_OK);
  assert_null(j.made);
  arena_free(&mem);
  free(text);
  context_release(c);
}

/* A call whose message finds no memory fails for that, and not without a message. */
static void messages_survive_any_failed_allocation(void **state)
{
  (void)state;
  OOM_LOOP(cx)
  {
    exported e = {.in = &in,
                  .arg_names = arg_names,
                  .n_arg_names = N_LEAVES,
                  .leaf_names = arg_names,
                  .n_leaves = N_LEAVES};
    rush_value leaves[N_LEAVES] = {value_none(), value_int(4), value_int(7)};
    rush_tensor *x = NULL;
    arena mem;
    arena_init(&mem, cx.ctx);
    job j = {.text = "L['x'].size()[0] == 13 and 1 == 1", .e = &e, .mem = &mem};
    rush_status st = tensor_new(&cx, RUSH_FLOAT32, 1, (const int64_t[]){6}, &x);
    if (st == RUSH_OK)
      leaves[0] = value_tensor_steal(x);
    if (st == RUSH_OK)
      st = session_run(&cx, parse, &j);
    if (st == RUSH_OK)
      st = guard_check(&cx, &e, j.made, leaves);
    assert_true(st == RUSH_EARGUMENT || st == RUSH_ENOMEM);
    assert_true(cx.err->message && cx.err->message[0]);
    value_release(leaves[0]);
    arena_free(&mem);
  }
}

int main(void)
{
  const struct CMUnitTest tests[] = {cmocka_unit_test(guards_are_pythons),
                                     cmocka_unit_test(long_guards_are_refused),
                                     cmocka_unit_test(messages_survive_any_failed_allocation)};
  return RUN_TESTS(tests);
}
