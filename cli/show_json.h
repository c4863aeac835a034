/* show_json.h -- views of `show` as JSON. */
#ifndef RUSH_CLI_SHOW_JSON_H
#define RUSH_CLI_SHOW_JSON_H

#include "cli.h"

/* Operators: a list of objects; schemas and digest: objects by name; graph and program: show's JSON
 * object of functions; code, bytecode, machine code: functions with their lines or instructions and
 * where these come from; summary: format, methods, state.  What is text in itself (--dot,
 * --optimized, --groups) is {"text": ...}.  An exit code. */
int cli_show_json(cli *c, rush_module *m, rush_dump what, const char *method);

#endif
