/* calls.h -- recorded calls, as `record` writes and `verify` replays them: a dict of plain values
 * (docs/command.md). */
#ifndef RUSH_CLI_CALLS_H
#define RUSH_CLI_CALLS_H

#include "call.h"

#define CALLS_FORMAT 1

/* The entry of a dict by text key (borrowed); None when absent.  calls_has tells the two Nones
 * apart. */
rush_value calls_entry(rush_value dict, const char *name);
bool calls_has(rush_value dict, const char *name);

/* Copy lists, tuples and dicts; with `tensors` also what tensors hold.  New; false with the error
 * set. */
bool calls_copy(cli *c, rush_value v, bool tensors, rush_value *out, rush_error *err);

/* A dict with texts as keys that is put together entry by entry.  A failure sticks: calls_build_end
 * returns it. */
typedef struct calls_builder {
  cli *c;
  rush_value keys[CALL_MAX], values[CALL_MAX]; /* a call has at most so many arguments by name */
  size_t n;
  rush_status st;
  rush_error *err;
} calls_builder;
void calls_put_steal(calls_builder *b, const char *key, rush_value v);
void calls_put_text(calls_builder *b, const char *key, const char *text);
/* Put the entries of a dict that have these names ("" ends them). */
void calls_put_from(calls_builder *b, rush_value dict, const char *const *names);
/* The dict, new; b is empty after it, also after a failure. */
rush_status calls_build_end(calls_builder *b, rush_value *out) RUSH_CHECKED;

/* The command line's call as {method, args, kwargs} and, for a program that draws numbers, seed;
 * new. */
rush_status calls_from_arguments(cli *c, const call_args *a, bool is_random, rush_value *out,
                                 rush_error *err) RUSH_CHECKED;

/* A call: method, args, kwargs and, where they matter, seed and no_grad (entries of `call`),
 * carried out. */
typedef struct performed {
  size_t stack;      /* bytes of the call's stack; 0: the command's own */
  bool records;      /* with gradients */
  rush_value args;   /* a tuple: the call's own copies, as it left them */
  rush_value result; /* None unless st is RUSH_OK */
  rush_status st;
  rush_error err;
  size_t stack_used; /* where `stack` is given; 0: there was no such thread, and no call */
} performed;
/* Clear what is filled in with performed_free.  What the call prints is in c->output if c->capture
 * is set. */
void calls_perform(cli *c, rush_module *m, rush_value call, performed *p);
void performed_free(performed *p);

#endif
