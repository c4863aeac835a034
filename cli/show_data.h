/* show_data.h -- files without a program. */
#ifndef RUSH_CLI_SHOW_DATA_H
#define RUSH_CLI_SHOW_DATA_H

#include "cli.h"

/* Show the content of a file of plain data; returns false if it is not one.  *code: an exit
 * code. */
bool show_data(cli *c, const char *path, int *code);

#endif
