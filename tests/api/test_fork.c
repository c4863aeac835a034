/* A child of fork() can use its parent's objects, whatever the parent's other threads were doing.
 * */
#include "support/test.h"

#include <pthread.h>
#include <semaphore.h>
#include <stdatomic.h>
#include <stdlib.h>
#include <sys/wait.h>
#include <unistd.h>

#include "rushlight/rushlight.h"

enum { SIDE = 600, SECONDS = 20 };

static const char text[] = "import torch\n"
                           "def f(x):\n"
                           "    return torch.tanh(x @ x * 0.01) + x.sum(1)\n"
                           "def g(x):\n"
                           "    return torch.sort(x * 2, 1)[0]\n";

static rush_context *context_of(int n_threads)
{
  rush_context_options o = RUSH_CONTEXT_OPTIONS_INIT;
  rush_context *c;

  o.n_threads = n_threads;
  assert_int_equal(rush_context_create(&o, &c, NULL), RUSH_OK);
  return c;
}

static rush_value square(rush_context *c)
{
  const int64_t sizes[] = {SIDE, SIDE};
  rush_value x = rush_value_none();

  if (rush_tensor_create(c, RUSH_FLOAT32, 2, sizes, &x, NULL) == RUSH_OK) {
    float *data = rush_tensor_data_mut(x.as.tensor);
    for (int i = 0; i < SIDE * SIDE; i++)
      data[i] = (float)(i % 97) / 97;
  }
  return x;
}

static bool call_works(rush_module *m, const char *method, rush_value x)
{
  rush_value y;

  rush_error err = RUSH_ERROR_INIT;

  if (rush_module_call(m, method, &x, 1, &y, &err) != RUSH_OK) {
    fprintf(stderr, "%s: %s\n", method, err.message);
    rush_error_clear(&err);
    return false;
  }
  rush_value_release(y);
  return true;
}

/* In the child: use loaded objects and new ones, more threads, another thread. */
static bool child_works(rush_context *c, rush_module *m, rush_value x)
{
  rush_module *fresh;

  if (!call_works(m, "f", x) || !call_works(m, "g", x))
    return false;
  if (rush_module_compile(c, text, strlen(text), NULL, &fresh, NULL) != RUSH_OK)
    return false;
  bool ok = call_works(fresh, "f", x);
  rush_module_release(fresh);
  rush_context_set_threads(c, 3);
  ok = ok && call_works(m, "f", x);
  rush_value alone = square(NULL); /* the default context */
  ok = ok && alone.tag == RUSH_TAG_TENSOR;
  rush_value_release(alone);
  return ok;
}

/* True if the child ended successfully in time. */
static bool in_child(rush_context *c, rush_module *m, rush_value x)
{
  int status = 0;
  const pid_t pid = fork();

  if (pid == 0) {
    alarm(SECONDS);
    _exit(child_works(c, m, x) ? 0 : 1);
  }
  if (waitpid(pid, &status, 0) == pid && WIFSIGNALED(status))
    fprintf(stderr, "the child was killed by signal %d\n", WTERMSIG(status));
  return WIFEXITED(status) && WEXITSTATUS(status) == 0;
}

static void a_child_works_after_the_pool_was_used(void **state)
{
  rush_context *c = context_of(4);
  rush_module *m;
  (void)state;
  assert_int_equal(rush_module_compile(c, text, strlen(text), NULL, &m, NULL), RUSH_OK);
  rush_value x = square(c);
  for (int i = 0; i < 3; i++) {
    assert_true(call_works(m, "f", x));
    assert_true(in_child(c, m, x));
  }
  assert_true(call_works(m, "g", x)); /* the parent goes on */
  rush_value_release(x);
  rush_module_release(m);
  rush_context_release(c);
}

typedef struct beside {
  rush_context *c;
  rush_module *m;
  rush_value x;
  atomic_bool done;
} beside;

static void *call_on(void *arg)
{
  beside *b = arg;

  while (!atomic_load(&b->done)) {
    rush_value y = square(b->c);
    (void)call_works(b->m, "f", b->x);
    rush_value_release(y);
  }
  return NULL;
}

static void a_child_works_while_other_threads_call(void **state)
{
  beside b = {.c = context_of(3)};
  pthread_t threads[3];
  (void)state;
  assert_int_equal(rush_module_compile(b.c, text, strlen(text), NULL, &b.m, NULL), RUSH_OK);
  b.x = square(b.c);
  assert_true(call_works(b.m, "f", b.x));
  for (int i = 0; i < 3; i++)
    assert_int_equal(pthread_create(&threads[i], NULL, call_on, &b), 0);
  int n_good = 0;
  for (int i = 0; i < 12; i++)
    n_good += in_child(b.c, b.m, b.x);
  atomic_store(&b.done, true);
  for (int i = 0; i < 3; i++)
    pthread_join(threads[i], NULL);
  rush_value_release(b.x);
  rush_module_release(b.m);
  rush_context_release(b.c);
  assert_int_equal(n_good, 12);
}

/* -- A fork at each point of planning ---------------------------------------------------------- */

enum { POINTS = 60 };

typedef struct halting { /* a host's allocator that halts a thread */
  pthread_t thread;
  atomic_int left; /* allocations of the thread until it halts; 0: it has, or never will */
  sem_t halted, go;
} halting;

static void *halting_alloc(void *user, size_t n)
{
  halting *h = user;

  if (atomic_load(&h->left) > 0 && pthread_equal(h->thread, pthread_self()) &&
      atomic_fetch_sub(&h->left, 1) == 1) {
    sem_post(&h->halted);
    sem_wait(&h->go);
  }
  return malloc(n);
}
static void halting_free(void *user, void *p, size_t n)
{
  (void)user;
  (void)n;
  free(p);
}

typedef struct planning {
  halting *h;
  rush_module *m;
  rush_value x;
  int at;
} planning;

static void *plan_on(void *arg)
{
  planning *p = arg;

  p->h->thread = pthread_self();
  atomic_store(&p->h->left, p->at);
  (void)call_works(p->m, "f", p->x); /* the second call makes a plan */
  if (atomic_exchange(&p->h->left, 0) > 0)
    sem_post(&p->h->halted); /* it made fewer allocations */
  return NULL;
}

/* Fork when a thread that makes a plan has made n allocations; returns true if the child could
 * compile and call another function of the module. */
static bool works_when_planning(rush_context *c, halting *h, rush_value x, int n)
{
  planning p = {.h = h, .x = x, .at = n};
  pthread_t thread;
  int status = 0;

  assert_int_equal(rush_module_compile(c, text, strlen(text), NULL, &p.m, NULL), RUSH_OK);
  assert_true(call_works(p.m, "f", x));
  assert_int_equal(pthread_create(&thread, NULL, plan_on, &p), 0);
  sem_wait(&h->halted);
  const pid_t pid = fork();
  if (pid == 0) {
    alarm(SECONDS);
    _exit(call_works(p.m, "g", x) && call_works(p.m, "f", x) ? 0 : 1);
  }
  sem_post(&h->go);
  waitpid(pid, &status, 0);
  pthread_join(thread, NULL);
  while (sem_trywait(&h->go) == 0) {
  }
  rush_module_release(p.m);
  return WIFEXITED(status) && WEXITSTATUS(status) == 0;
}

static void a_child_compiles_though_a_plan_was_being_made(void **state)
{
  rush_context_options o = RUSH_CONTEXT_OPTIONS_INIT;
  const int64_t sizes[] = {4, 4};
  halting h = {.left = 0};
  rush_context *c;
  rush_value x;
  int n_good = 0;
  (void)state;

  sem_init(&h.halted, 0, 0);
  sem_init(&h.go, 0, 0);
  o.alloc = halting_alloc;
  o.free = halting_free;
  o.alloc_user = &h;
  o.n_threads = 1;
  assert_int_equal(rush_context_create(&o, &c, NULL), RUSH_OK);
  assert_int_equal(rush_tensor_create(c, RUSH_FLOAT32, 2, sizes, &x, NULL), RUSH_OK);
  memset(rush_tensor_data_mut(x.as.tensor), 0, 16 * sizeof(float));
  for (int i = 0; i < POINTS; i++)
    n_good += works_when_planning(c, &h, x, 1 + i);
  rush_value_release(x);
  rush_context_release(c);
  assert_int_equal(n_good, POINTS);
}

int main(void)
{
  const struct CMUnitTest tests[] = {
      cmocka_unit_test(a_child_works_after_the_pool_was_used),
      cmocka_unit_test(a_child_works_while_other_threads_call),
      cmocka_unit_test(a_child_compiles_though_a_plan_was_being_made),
  };
  return RUN_TESTS(tests);
}
