/* show_data.h -- files without a program. */
#ifndef RUSH_CLI_SHOW_DATA_H
#define RUSH_CLI_SHOW_DATA_H

#include "cli.h"

/* Show what is in the file, if it is one of plain data; false: it is none.  *code: an exit code. */
bool show_data(cli *c, const char *path, int *code);

#endif
