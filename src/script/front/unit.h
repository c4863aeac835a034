/* script/front/unit.h -- programs from Python files: functions, script classes, enums, NamedTuples,
 * interfaces.
 *
 * Top-level statements are read as declarations: imports of torch, math, typing and enum,
 * constants, type aliases, definitions.  Nothing is executed.  Definitions may use each other in
 * any order; bodies are compiled when first called.  Classes of modules (nn.Module) are refused:
 * their attributes come from Python. */
#ifndef RUSH_SCRIPT_UNIT_H
#define RUSH_SCRIPT_UNIT_H

#include "ir/program.h"

/* Fill a new program from a text.  Returns a class "__torch__.NAME" whose methods are the file's
 * functions (without self); an object of it represents the file. */
const type *script_unit_load(session *s, program *p, const char *file, str text);
/* Fill a program without text: add definitions with script_unit_define. */
const type *script_unit_new(session *s, program *p);
/* Add a text's definitions and compile them all; on failure nothing of the text is added.  One
 * thread at a time, and no calls meanwhile. */
void script_unit_define(session *s, program *p, const char *file, uint32_t first_line, str text);
/* True if script_unit_new made the program. */
bool script_unit_is(const program *p);

#endif
