/* Test optimizers through the public header: steps against torch.optim's numbers, states, groups,
 * refusals, failing allocations. */
#include "support/oom.h"

#include <math.h>

#include "rushlight/optim.h"

/* Five steps from {0.5, -1, 2} with the gradients p * (i + 1) * 0.5 + 0.1, by torch 2.13. */
typedef struct expected {
  rush_optimizer_kind kind;
  rush_optimizer_options set; /* what is not a default */
  double result[3];
} expected;

static const expected cases[] = {
  {RUSH_OPTIMIZER_SGD,
   {.lr = .1},
   {0.18483500000000005, -0.46923999999999999, 0.83890999999999993}},
  {RUSH_OPTIMIZER_SGD,
   {.lr = .1, .momentum = .9, .dampening = .2, .weight_decay = .05},
   {-0.085250141273600102, -0.053208459975679925, -0.11729182257152013}},
  {RUSH_OPTIMIZER_SGD,
   {.lr = .1, .momentum = .9, .nesterov = true, .maximize = true},
   {2.7062678422500004, -4.379884284000001, 9.7924199685000026}},
  {RUSH_OPTIMIZER_ADAM,
   {.lr = .1, .weight_decay = .05},
   {0.0023438140631684562, -0.50849668886930899, 1.5080533313581854}},
  {RUSH_OPTIMIZER_ADAM,
   {.lr = .1, .amsgrad = true, .beta1 = .3, .beta2 = .8},
   {0.004193759041251674, -0.44671910158472738, 1.4399305150274382}},
  {RUSH_OPTIMIZER_ADAMW,
   {.lr = .1, .weight_decay = .01},
   {0.0010855509437521227, -0.50652301817697121, 1.5004267507315801}},
  {RUSH_OPTIMIZER_RMSPROP,
   {.lr = .1},
   {-0.34018325920786374, 0.29537317845480282, -0.032957519952980338}},
  {RUSH_OPTIMIZER_RMSPROP,
   {.lr = .1, .momentum = .9, .centered = true, .alpha = .8},
   {-0.37843659849938421, 0.70203368866021298, -0.76018458714527704}},
  {RUSH_OPTIMIZER_ADAGRAD,
   {.lr = .1},
   {0.14242388863420019, -0.60156920996058572, 1.6003196297039934}},
  {RUSH_OPTIMIZER_ADAGRAD,
   {.lr = .1, .lr_decay = .2, .initial_accumulator = .5},
   {0.2999426516603782, -0.76126377584844285, 1.7113654054345209}},
};

static rush_optimizer_options options_of(const expected *e)
{
  rush_optimizer_options o = RUSH_OPTIMIZER_OPTIONS_INIT;
  assert_int_equal(rush_optimizer_defaults(e->kind, &o, NULL), RUSH_OK);
  o.lr = e->set.lr;
  o.weight_decay = e->set.weight_decay;
  o.momentum = e->set.momentum;
  o.dampening = e->set.dampening;
  o.beta1 = e->set.beta1 > 0 ? e->set.beta1 : o.beta1;
  o.beta2 = e->set.beta2 > 0 ? e->set.beta2 : o.beta2;
  o.alpha = e->set.alpha > 0 ? e->set.alpha : o.alpha;
  o.lr_decay = e->set.lr_decay;
  o.initial_accumulator = e->set.initial_accumulator;
  o.nesterov = e->set.nesterov;
  o.amsgrad = e->set.amsgrad;
  o.centered = e->set.centered;
  o.maximize = e->set.maximize;
  return o;
}

static rush_value parameter(rush_context *c)
{
  rush_value t;
  assert_int_equal(rush_tensor_create(c, RUSH_FLOAT64, 1, (int64_t[]){3}, &t, NULL), RUSH_OK);
  memcpy(rush_tensor_data_mut(t.as.tensor), (double[]){0.5, -1.0, 2.0}, 3 * sizeof(double));
  rush_tensor_set_requires_grad(t.as.tensor, true);
  return t;
}

/* Set the gradient of step i. */
static void set_grad(rush_context *c, rush_value p, int i)
{
  rush_value g;
  assert_int_equal(rush_tensor_create(c, RUSH_FLOAT64, 1, (int64_t[]){3}, &g, NULL), RUSH_OK);
  const double *x = rush_tensor_data(p.as.tensor);
  double *y = rush_tensor_data_mut(g.as.tensor);
  for (int k = 0; k < 3; k++)
    y[k] = x[k] * (i + 1) * 0.5 + 0.1;
  assert_int_equal(rush_tensor_set_grad(p.as.tensor, g, NULL), RUSH_OK);
  rush_value_release(g);
}

static void check_close(rush_value p, const double *want)
{
  const double *x = rush_tensor_data(p.as.tensor);
  for (int k = 0; k < 3; k++)
    assert_true(fabs(x[k] - want[k]) <= 1e-12 * fabs(want[k]) + 1e-15);
}

static void steps_are_those_of_torch_optim(void **state)
{
  (void)state;
  rush_context *c;
  assert_int_equal(rush_context_create(NULL, &c, NULL), RUSH_OK);
  for (size_t k = 0; k < sizeof cases / sizeof *cases; k++) {
    rush_optimizer_options o = options_of(&cases[k]);
    rush_optimizer *opt;
    rush_value p = parameter(c);
    assert_int_equal(rush_optimizer_create(c, cases[k].kind, &o, &p, 1, &opt, NULL), RUSH_OK);
    for (int i = 0; i < 5; i++) {
      set_grad(c, p, i);
      assert_int_equal(rush_optimizer_step(opt, NULL), RUSH_OK);
    }
    check_close(p, cases[k].result);
    rush_optimizer_release(opt);
    rush_value_release(p);
  }
  rush_context_release(c);
}

/* After two steps the state moves to another optimizer, which makes the other three. */
static void a_state_continues_in_another_optimizer(void **state)
{
  (void)state;
  rush_context *c;
  assert_int_equal(rush_context_create(NULL, &c, NULL), RUSH_OK);
  for (size_t k = 0; k < sizeof cases / sizeof *cases; k++) {
    rush_optimizer_options o = options_of(&cases[k]);
    rush_optimizer *first, *second;
    rush_value p = parameter(c), dict;
    assert_int_equal(rush_optimizer_create(c, cases[k].kind, &o, &p, 1, &first, NULL), RUSH_OK);
    assert_int_equal(rush_optimizer_create(c, cases[k].kind, NULL, &p, 1, &second, NULL), RUSH_OK);
    for (int i = 0; i < 5; i++) {
      set_grad(c, p, i);
      assert_int_equal(rush_optimizer_step(i < 2 ? first : second, NULL), RUSH_OK);
      if (i != 1)
        continue;
      assert_int_equal(rush_optimizer_state(first, &dict, NULL), RUSH_OK);
      assert_int_equal(rush_optimizer_load_state(second, dict, NULL), RUSH_OK);
      rush_value_release(dict);
    }
    check_close(p, cases[k].result);
    rush_optimizer_release(first);
    rush_optimizer_release(second);
    rush_value_release(p);
  }
  rush_context_release(c);
}

static void groups_have_options_of_their_own(void **state)
{
  (void)state;
  rush_context *c;
  rush_error err = RUSH_ERROR_INIT;
  rush_optimizer_options o = RUSH_OPTIMIZER_OPTIONS_INIT;
  rush_optimizer *opt;
  assert_int_equal(rush_context_create(NULL, &c, NULL), RUSH_OK);
  rush_value p = parameter(c), q = parameter(c), dict;
  assert_int_equal(rush_optimizer_create(c, RUSH_OPTIMIZER_SGD, NULL, &p, 1, &opt, NULL), RUSH_OK);
  assert_int_equal(rush_optimizer_get_group(opt, 0, &o, &err), RUSH_OK);
  assert_true(o.lr == 1e-3);
  o.lr = 0;
  assert_int_equal(rush_optimizer_add_group(opt, &o, &q, 1, &err), RUSH_OK);
  assert_int_equal(rush_optimizer_n_groups(opt), 2);
  assert_int_equal(rush_optimizer_get_group(opt, 2, &o, &err), RUSH_EARGUMENT);
  assert_string_equal(err.message, "there is no group 2: the optimizer has 2");
  set_grad(c, p, 0);
  set_grad(c, q, 0);
  assert_int_equal(rush_optimizer_step(opt, &err), RUSH_OK);
  check_close(q, (double[]){0.5, -1.0, 2.0});
  check_close(p, (double[]){0.5 - 1e-3 * 0.35, -1.0 + 1e-3 * 0.4, 2.0 - 1e-3 * 1.1});
  assert_int_equal(rush_optimizer_set_lr(opt, 0.5, &err), RUSH_OK);
  assert_int_equal(rush_optimizer_get_group(opt, 1, &o, &err), RUSH_OK);
  assert_true(o.lr == 0.5);
  assert_int_equal(rush_optimizer_zero_grad(opt, false, &err), RUSH_OK);
  rush_value g = rush_tensor_grad(p.as.tensor);
  assert_true(((const double *)rush_tensor_data(g.as.tensor))[0] == 0);
  rush_value_release(g);
  assert_int_equal(rush_optimizer_zero_grad(opt, true, &err), RUSH_OK);
  assert_int_equal(rush_tensor_grad(p.as.tensor).tag, RUSH_TAG_NONE);
  assert_int_equal(rush_optimizer_step(opt, &err), RUSH_OK); /* nothing to do */
  assert_int_equal(rush_optimizer_state(opt, &dict, &err), RUSH_OK);
  rush_optimizer *other;
  assert_int_equal(rush_optimizer_create(c, RUSH_OPTIMIZER_SGD, NULL, &p, 1, &other, NULL),
                   RUSH_OK);
  assert_int_equal(rush_optimizer_load_state(other, dict, &err), RUSH_EARGUMENT);
  assert_string_equal(err.message, "loaded state dict has a different number of parameter groups");
  assert_int_equal(rush_optimizer_load_state(other, p, &err), RUSH_EARGUMENT);
  rush_value_release(dict);
  rush_optimizer_release(other);
  rush_optimizer_release(opt);
  rush_value_release(p);
  rush_value_release(q);
  rush_error_clear(&err);
  rush_context_release(c);
}

static void what_has_no_sense_is_refused(void **state)
{
  (void)state;
  rush_context *c;
  rush_error err = RUSH_ERROR_INIT;
  rush_optimizer_options o = RUSH_OPTIMIZER_OPTIONS_INIT;
  rush_optimizer *opt = NULL;
  assert_int_equal(rush_context_create(NULL, &c, NULL), RUSH_OK);
  rush_value p = parameter(c), twice[2] = {p, p}, number = rush_value_int(3);
  o.lr = -1;
  assert_int_equal(rush_optimizer_create(c, RUSH_OPTIMIZER_SGD, &o, &p, 1, &opt, &err),
                   RUSH_EARGUMENT);
  assert_string_equal(err.message, "Invalid learning rate: -1");
  assert_string_equal(err.type, "ValueError");
  o = (rush_optimizer_options){.struct_bytes = sizeof o, .lr = NAN};
  assert_int_equal(rush_optimizer_create(c, RUSH_OPTIMIZER_SGD, &o, &p, 1, &opt, &err),
                   RUSH_EARGUMENT);
  o = (rush_optimizer_options){.struct_bytes = sizeof o, .nesterov = true};
  assert_int_equal(rush_optimizer_create(c, RUSH_OPTIMIZER_SGD, &o, &p, 1, &opt, &err),
                   RUSH_EARGUMENT);
  assert_string_equal(err.message, "Nesterov momentum requires a momentum and zero dampening");
  assert_int_equal(rush_optimizer_create(c, RUSH_OPTIMIZER_ADAM, NULL, NULL, 0, &opt, &err),
                   RUSH_EARGUMENT);
  assert_string_equal(err.message, "optimizer got an empty parameter list");
  assert_int_equal(rush_optimizer_create(c, RUSH_OPTIMIZER_ADAM, NULL, twice, 2, &opt, &err),
                   RUSH_EARGUMENT);
  assert_string_equal(err.message, "some parameters appear in more than one parameter group");
  assert_int_equal(rush_optimizer_create(c, RUSH_OPTIMIZER_ADAGRAD, NULL, &number, 1, &opt, &err),
                   RUSH_EARGUMENT);
  assert_string_equal(err.type, "TypeError");
  assert_int_equal(rush_optimizer_create(c, (rush_optimizer_kind)9, NULL, &p, 1, &opt, &err),
                   RUSH_EARGUMENT);
  assert_string_equal(err.message, "9 is no kind of optimizer");
  assert_null(opt);
  assert_int_equal(rush_optimizer_create(c, RUSH_OPTIMIZER_SGD, NULL, &p, 1, &opt, &err), RUSH_OK);
  set_grad(c, p, 0);
  rush_tensor_set_read_only(p.as.tensor);
  assert_int_equal(rush_optimizer_step(opt, &err), RUSH_ERAISED);
  assert_string_equal(err.message,
                      "parameter 0 is read-only: expected one that a step can write to");
  check_close(p, (double[]){0.5, -1.0, 2.0});
  rush_optimizer_release(opt);
  rush_value_release(p);
  rush_error_clear(&err);
  rush_context_release(c);
}

static void a_failed_allocation_leaves_an_optimizer_that_works(void **state)
{
  (void)state;
  OOM_LOOP(cx) {
    rush_optimizer *opt = NULL;
    rush_value p, dict = {0};
    rush_optimizer_options o = options_of(&cases[1]);
    rush_status st = rush_tensor_create(cx.ctx, RUSH_FLOAT64, 1, (int64_t[]){3}, &p, NULL);
    if (st == RUSH_OK) {
      rush_tensor_set_requires_grad(p.as.tensor, true);
      st = rush_tensor_set_grad(p.as.tensor, p, NULL);
      if (st == RUSH_OK)
        st = rush_optimizer_create(cx.ctx, RUSH_OPTIMIZER_SGD, &o, &p, 1, &opt, NULL);
      if (st == RUSH_OK)
        st = rush_optimizer_step(opt, NULL);
      if (st == RUSH_OK)
        st = rush_optimizer_state(opt, &dict, NULL);
      if (st == RUSH_OK)
        st = rush_optimizer_load_state(opt, dict, NULL);
      const rush_status cleared = rush_tensor_set_grad(p.as.tensor, rush_value_none(), NULL);
      assert_true(cleared == RUSH_OK || cleared == RUSH_ENOMEM);
      rush_value_release(p);
    }
    assert_true(st == RUSH_OK || st == RUSH_ENOMEM);
    rush_value_release(dict);
    rush_optimizer_release(opt);
  }
}

int main(void)
{
  const struct CMUnitTest tests[] = {
    cmocka_unit_test(steps_are_those_of_torch_optim),
    cmocka_unit_test(a_state_continues_in_another_optimizer),
    cmocka_unit_test(groups_have_options_of_their_own),
    cmocka_unit_test(what_has_no_sense_is_refused),
    cmocka_unit_test(a_failed_allocation_leaves_an_optimizer_that_works),
  };
  return RUN_TESTS(tests);
}
