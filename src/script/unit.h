/* script/unit.h -- programs from Python files: functions, script classes, enums, NamedTuples, interfaces.
 *
 * Top-level statements are read as declarations: imports of torch, math, typing and enum, constants, type
 * aliases, definitions.  Nothing is executed.  Definitions may use each other in any order; bodies compile
 * when first called.  Classes of modules (nn.Module) are refused: their attributes come from Python. */
#ifndef RUSH_SCRIPT_UNIT_H
#define RUSH_SCRIPT_UNIT_H

#include "ir/program.h"

/* Fill a fresh program.  Returns a class "__torch__.NAME" whose methods are the file's functions (without
 * self); an object of it stands for the file. */
const type *script_unit_load(session *s, program *p, const char *file, str text);

#endif
