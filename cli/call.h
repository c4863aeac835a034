/* call.h -- a method and its arguments, as the command line gave them. */
#ifndef RUSH_CLI_CALL_H
#define RUSH_CLI_CALL_H

#include "cli.h"

#define CALL_MAX 64

typedef struct call_args {
  const char *method;
  rush_value args[CALL_MAX];
  rush_named_value named[CALL_MAX];
  size_t n_args, n_named;
  rush_value samples; /* where sample inputs came from, or None */
} call_args;

/* --method and argv[1..]; false with *code set after printing why. */
bool call_parse(cli *c, const char *verb, call_args *a, int *code);
/* complete.c: without arguments the program's sample inputs, if it needs any; false with *code set
 * after saying what to give. */
bool call_complete(cli *c, const char *verb, const char *model, rush_module *m, call_args *a,
                   int *code);
void call_free(call_args *a);

#endif
