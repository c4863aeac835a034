/* call.h -- a method and its arguments from the command line. */
#ifndef RUSH_CLI_CALL_H
#define RUSH_CLI_CALL_H

#include "cli.h"

#define CALL_MAX 64

typedef struct call_args {
  const char *method;
  rush_value args[CALL_MAX];
  rush_named_value named[CALL_MAX];
  size_t n_args, n_named;
  rush_value samples; /* owns the sample inputs that are used, or None */
} call_args;

/* Parse --method and argv[1..]; returns false with *code set after printing the reason. */
bool call_parse(cli *c, const char *verb, call_args *a, int *code);
/* Call the only function of a text file if no method was named. */
void call_default_method(const char *model, const rush_module *m, call_args *a);
/* complete.c: fill in the program's sample inputs if there are no arguments and it needs some;
 * returns false with *code set after printing what is needed. */
bool call_complete(cli *c, const char *verb, const char *model, rush_module *m, call_args *a,
                   int *code);
void call_free(call_args *a);

#endif
