/* Facts about tensors: their order, their union, what fits them, and their text. */
#include "support/test.h"

#include "ir/facts.h"

typedef struct fixture {
  context *c;
  call_ctx cx;
  rush_error err;
  type_store *types;
  uint64_t seed;
} fixture;

static uint32_t draw(fixture *f, uint32_t n)
{
  f->seed = f->seed * UINT64_C(6364136223846793005) + UINT64_C(1442695040888963407);
  return (uint32_t)(f->seed >> 33) % n;
}

/* Return a tensor of few sizes, in rows or transposed; or NULL, the undefined one. */
static rush_tensor *some_tensor(fixture *f)
{
  static const int dtypes[] = {RUSH_FLOAT32, RUSH_INT64};
  rush_tensor *t, *view;
  int64_t sizes[3];
  int n = (int)draw(f, 4);

  if (draw(f, 12) == 0)
    return NULL;
  for (int i = 0; i < n; i++)
    sizes[i] = 1 + draw(f, 3);
  assert_int_equal(tensor_new(&f->cx, dtypes[draw(f, 2)], n, sizes, &t), RUSH_OK);
  if (n < 2 || draw(f, 2))
    return t;
  int64_t turned[3] = {sizes[1], sizes[0], sizes[2]}, strides[3];
  memcpy(strides, t->strides, sizeof *strides * (size_t)n);
  strides[0] = t->strides[1];
  strides[1] = t->strides[0];
  assert_int_equal(tensor_as_strided(&f->cx, t, n, turned, strides, 0, &view), RUSH_OK);
  tensor_release(t);
  return view;
}

/* Forget some of the facts. */
static ir_facts weaker(fixture *f, ir_facts x)
{
  if (draw(f, 2))
    x.dtype = DTYPE_NONE;
  if (draw(f, 2))
    x.has_device = false;
  if (draw(f, 2))
    x.requires_grad = -1;
  if (draw(f, 2))
    x.contiguous = -1;
  if (draw(f, 3) == 0)
    x.defined = -1;
  if (draw(f, 4) == 0)
    x.n_dims = -1;
  for (int i = 0; i < x.n_dims; i++) {
    if (draw(f, 3) == 0)
      x.sizes[i] = IR_SIZE_UNKNOWN;
    if (draw(f, 3) == 0)
      x.strides[i] = IR_STRIDE_UNKNOWN;
  }
  return x;
}

static void begin(fixture *f)
{
  *f = (fixture){.err = RUSH_ERROR_INIT, .seed = 7};
  f->c = test_context(NULL);
  call_ctx_init(&f->cx, f->c, &f->err);
  f->types = type_store_new(f->c);
  assert_non_null(f->types);
}

static void end(fixture *f)
{
  type_store_release(f->types);
  rush_error_clear(&f->err);
  context_release(f->c);
}

/* The union is above both and below everything that is above both; a tensor fits what is above its
 * own facts, and nothing else. */
static void facts_are_ordered(void **state)
{
  fixture f;
  uint32_t n_fit = 0, n_not = 0;
  (void)state;

  begin(&f);
  for (int i = 0; i < 20000; i++) {
    rush_tensor *s = some_tensor(&f), *t = some_tensor(&f);
    const ir_facts of_s = ir_facts_of_tensor(s), of_t = ir_facts_of_tensor(t);
    const ir_facts a = weaker(&f, of_s), b = weaker(&f, of_t), c = weaker(&f, of_s);
    const ir_facts u = ir_facts_union(&a, &b);
    assert_true(ir_facts_fit(&of_s, s) && ir_facts_fit(&a, s));
    assert_true(ir_facts_is_subtype(&of_s, &a) && ir_facts_is_subtype(&a, &a));
    assert_true(ir_facts_is_subtype(&a, &u) && ir_facts_is_subtype(&b, &u));
    assert_true(ir_facts_fit(&u, s) && ir_facts_fit(&u, t));
    if (ir_facts_is_subtype(&a, &c) && ir_facts_is_subtype(&b, &c))
      assert_true(ir_facts_is_subtype(&u, &c));
    assert_int_equal(ir_facts_fit(&a, t), ir_facts_is_subtype(&of_t, &a));
    ++*(ir_facts_fit(&a, t) ? &n_fit : &n_not);
    const ir_facts again = ir_facts_union(&u, &b);
    assert_true(ir_facts_equal(&again, &u));
    tensor_release(s);
    tensor_release(t);
  }
  assert_true(n_fit > 1000 && n_not > 1000);
  end(&f);
}

typedef struct type_job {
  fixture *f;
  ir_facts a, b;
} type_job;

static void compare_types(session *s, void *arg)
{
  const type_job *j = arg;
  const type *a = ir_facts_type(s, j->f->types, &j->a), *b = ir_facts_type(s, j->f->types, &j->b);

  assert_true(ir_facts_equal(ir_facts_of(a), &j->a) && ir_facts_equal(ir_facts_of(b), &j->b));
  assert_int_equal(a == b, ir_facts_equal(&j->a, &j->b));
}

/* Also where the texts are the same, as of 0 dimensions and an unknown rank. */
static void types_have_their_facts(void **state)
{
  fixture f;
  (void)state;

  begin(&f);
  for (int i = 0; i < 5000; i++) {
    rush_tensor *s = some_tensor(&f), *t = some_tensor(&f);
    const ir_facts of_s = ir_facts_of_tensor(s), of_t = ir_facts_of_tensor(t);
    type_job j = {&f, weaker(&f, of_s), weaker(&f, i % 2 ? of_s : of_t)};
    assert_int_equal(session_run(&f.cx, compare_types, &j), RUSH_OK);
    tensor_release(s);
    tensor_release(t);
  }
  end(&f);
}

typedef struct text_job {
  fixture *f;
  const char *text;
} text_job;

static void read_back(session *s, void *arg)
{
  const text_job *j = arg;
  const type *t = ir_parse_type(s, j->f->types, j->text), *again;
  text_buf *out = session_text(s);

  again = ir_facts_type(s, j->f->types, ir_facts_of(t));
  assert_ptr_equal(t, again); /* equal facts are one type */
  type_print(out, t);
  assert_string_equal(text_str(out), "Tensor");
  assert_string_equal(t->name, j->text);
  const bool is_scalar = strstr(j->text, "(requires_grad=0, device") != NULL;
  assert_int_equal(ir_facts_of(t)->n_dims == 0, is_scalar);
}

static void text_comes_back(void **state)
{
  static const char *const texts[] = {
    "Float(2, 3, strides=[3, 1], requires_grad=0, device=cpu)",
    "Float(2, *, device=cuda:0)",
    "Long(*)",
    "Double(device=meta)",
    "BFloat16(requires_grad=1)",
    "Float(*, 3, strides=[3, 1])",
    "Half(4, device=cuda)",
    "Long(requires_grad=0, device=cpu)",           /* 0 dimensions */
    "Long(device=cpu, requires_grad=0)",           /* an unknown rank */
    "Float(device=cpu)",
  };
  fixture f;
  (void)state;

  begin(&f);
  for (size_t i = 0; i < COUNT_OF(texts); i++) {
    text_job j = {&f, texts[i]};
    if (session_run(&f.cx, read_back, &j) != RUSH_OK)
      fail_msg("%s: %s", texts[i], f.err.message);
  }
  end(&f);
}

int main(void)
{
  const struct CMUnitTest tests[] = {
    cmocka_unit_test(facts_are_ordered),
    cmocka_unit_test(types_have_their_facts),
    cmocka_unit_test(text_comes_back),
  };
  return cmocka_run_group_tests(tests, NULL, NULL);
}
