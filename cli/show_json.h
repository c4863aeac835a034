/* show_json.h -- views of `show` as JSON. */
#ifndef RUSH_CLI_SHOW_JSON_H
#define RUSH_CLI_SHOW_JSON_H

#include "cli.h"

/* Print a view as JSON.  Operators: a list of objects; schemas and digest: objects by name; graph
 * and program: show's JSON object of functions; code, bytecode, machine code: functions with their
 * lines or instructions and the positions of these; summary: format, methods, state.  Views that
 * are texts (--dot, --optimized, --groups, --phases) are {"text": ...}.  Returns an exit code. */
int cli_show_json(cli *c, rush_module *m, rush_dump what, const char *method);

#endif
