/* script/emit/upgrade.h -- versions of operators, for archives that other versions of PyTorch read
 * or wrote. */
#ifndef RUSH_SCRIPT_UPGRADE_H
#define RUSH_SCRIPT_UPGRADE_H

#include "value/schema.h"

/* The archive version since which the operator means what it means today; 0: always (upgrade.c). */
int64_t script_op_version(const schema *sc);

#endif
