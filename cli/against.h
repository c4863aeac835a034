/* against.h -- verify --against: compares two models, call by call. */
#ifndef RUSH_CLI_AGAINST_H
#define RUSH_CLI_AGAINST_H

#include "cli.h"

/* Compare the models.  argv[0] is MODEL, followed by a file of calls, or a call's arguments;
 * without either: sample inputs. Returns an exit code. */
int cli_against(cli *c, const char *other);

#endif
