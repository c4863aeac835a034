/* against.h -- verify --against: two models, call by call. */
#ifndef RUSH_CLI_AGAINST_H
#define RUSH_CLI_AGAINST_H

#include "cli.h"

/* argv[0] is MODEL; what follows is a file of calls, or a call's arguments; nothing: sample inputs.
 *  An exit code. */
int cli_against(cli *c, const char *other);

#endif
