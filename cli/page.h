/* page.h -- a module as one HTML page. */
#ifndef RUSH_CLI_PAGE_H
#define RUSH_CLI_PAGE_H

#include "call.h"

/* Write the page to `path` (NULL: stdout); with a profile of calls of `profiled`, unless that is
 * NULL. Returns an exit code. */
int cli_page(cli *c, rush_module *m, const char *path, const call_args *profiled,
             const char *method);

#endif
