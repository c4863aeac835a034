/* script/emit/upgrade.h -- versions of operators, for archives that other versions of PyTorch read
 * or wrote. */
#ifndef RUSH_SCRIPT_UPGRADE_H
#define RUSH_SCRIPT_UPGRADE_H

#include "value/schema.h"

/* Return the archive version since which the operator has its present meaning; 0: always
 * (upgrade.c). */
int64_t script_op_version(const schema *sc);

#endif
