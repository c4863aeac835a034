/* stack.c -- measures how much stack a call takes.
 *
 * The call runs on a thread whose stack is first filled with a pattern; bytes that no longer hold
 * the pattern afterwards were used ("painting").  Sampling the stack pointer would miss what leaf
 * functions use.  Costs a thread and one pass over the stack. */
#include "cli.h"

#include <pthread.h>
#include <stdint.h>
#include <string.h>
#include <sys/mman.h>
#include <unistd.h>

#define PAINT 0xa7

typedef struct painted {
  void (*fn)(void *arg);
  void *arg;
  char *low;   /* the stack's lowest address */
  char *entry; /* where fn was called */
} painted;

static void *run_painted(void *arg)
{
  painted *p = arg;

  p->entry = __builtin_frame_address(0);
  p->fn(p->arg);
  return NULL;
}

static size_t used_bytes(const painted *p)
{
  const char *at = p->low;

  while (at < p->entry && (unsigned char)*at == PAINT)
    at++;
  return (size_t)(p->entry - at);
}

size_t cli_on_stack(size_t n_bytes, void (*fn)(void *arg), void *arg)
{
  const size_t page = (size_t)sysconf(_SC_PAGESIZE), guard = 16 * page,
               n = (n_bytes + page - 1) / page * page;
  painted p = {.fn = fn, .arg = arg};
  pthread_attr_t attr;
  pthread_t thread;
  char *map = mmap(NULL, guard + n, PROT_NONE, MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);

  if (map == MAP_FAILED)
    return 0;
  p.low = map + guard;
  bool ok = mprotect(p.low, n, PROT_READ | PROT_WRITE) == 0 && pthread_attr_init(&attr) == 0;
  if (ok) {
    memset(p.low, PAINT, n);
    ok = pthread_attr_setstack(&attr, p.low, n) == 0 &&
         pthread_create(&thread, &attr, run_painted, &p) == 0 && pthread_join(thread, NULL) == 0;
    pthread_attr_destroy(&attr);
  }
  const size_t used = ok ? used_bytes(&p) : 0;
  munmap(map, guard + n);
  return used;
}
