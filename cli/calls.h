/* calls.h -- recorded calls, as `record` writes and `verify` replays them: a dict of plain values
 * (docs/command.md). */
#ifndef RUSH_CLI_CALLS_H
#define RUSH_CLI_CALLS_H

#include "call.h"

#define CALLS_FORMAT 1

/* Return the entry of a dict by string key (borrowed); None if absent.  calls_has distinguishes an
 * absent entry from None. */
rush_value calls_entry(rush_value dict, const char *name);
bool calls_has(rush_value dict, const char *name);

/* Copy lists, tuples and dicts; with `tensors` also the tensors.  New; returns false with the error
 * set. */
bool calls_copy(cli *c, rush_value v, bool tensors, rush_value *out, rush_error *err);

/* A dict with string keys that is built entry by entry.  A failure is kept: calls_build_end returns
 * it. */
typedef struct calls_builder {
  cli *c;
  rush_value keys[CALL_MAX], values[CALL_MAX]; /* limit on a call's named arguments */
  size_t n;
  rush_status st;
  rush_error *err;
} calls_builder;
void calls_put_steal(calls_builder *b, const char *key, rush_value v);
void calls_put_text(calls_builder *b, const char *key, const char *text);
/* Add the entries of a dict that have these names ("" ends the list). */
void calls_put_from(calls_builder *b, rush_value dict, const char *const *names);
/* Return the dict, new; b is empty afterwards, also on failure. */
rush_status calls_build_end(calls_builder *b, rush_value *out) RUSH_CHECKED;

/* Make the command line's call: {method, args, kwargs} and, for a program that draws numbers, seed;
 * new. */
rush_status calls_from_arguments(cli *c, const call_args *a, bool is_random, rush_value *out,
                                 rush_error *err) RUSH_CHECKED;

/* A call that was made: method, args, kwargs and, if necessary, seed and no_grad (entries of
 * `call`). */
typedef struct performed {
  size_t stack;      /* bytes of stack for the call; 0: the command's own stack */
  bool records;      /* with gradients */
  rush_value args;   /* a tuple: the call's own copies of the arguments, after the call */
  rush_value result; /* None unless st is RUSH_OK */
  rush_status st;
  rush_error err;
  size_t stack_used; /* if `stack` is set; 0: there was no such thread, and no call */
} performed;
/* Make the call; clear the result with performed_free.  Text printed by the call is in c->output if
 * c->capture is set. */
void calls_perform(cli *c, rush_module *m, rush_value call, performed *p);
void performed_free(performed *p);

#endif
