/* script/front/unit.h -- programs from Python files: functions, script classes, enums, NamedTuples,
 * interfaces.
 *
 * Top-level statements are read as declarations: imports of torch, math, typing and enum,
 * constants, type aliases, definitions.  Nothing is executed.  Definitions may use each other in
 * any order; bodies compile when first called.  Classes of modules (nn.Module) are refused: their
 * attributes come from Python. */
#ifndef RUSH_SCRIPT_UNIT_H
#define RUSH_SCRIPT_UNIT_H

#include "ir/program.h"

/* Fill a fresh program.  Returns a class "__torch__.NAME" whose methods are the file's functions
 * (without self); an object of it stands for the file. */
const type *script_unit_load(session *s, program *p, const char *file, str text);
/* The same of no text yet: definitions come by script_unit_define. */
const type *script_unit_new(session *s, program *p);
/* Add a text's definitions and compile them all; when that fails nothing of the text stays.  One
 * thread at a time, and no calls meanwhile. */
void script_unit_define(session *s, program *p, const char *file, uint32_t first_line, str text);
/* Was the program made by script_unit_new? */
bool script_unit_is(const program *p);

#endif
