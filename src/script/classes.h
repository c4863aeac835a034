/* script/classes.h -- enums and NamedTuples from their text. */
#ifndef RUSH_SCRIPT_CLASSES_H
#define RUSH_SCRIPT_CLASSES_H

#include "script/resolve.h"

/* Is NAME, or x.NAME, among the bases? */
bool class_has_base(const ast_class *cls, const char *name);
/* New types of r's program under this name. */
const type *class_read_enum(session *s, const resolver *r, const char *qualified, const ast_class *cls);
const type *class_read_named_tuple(session *s, const resolver *r, const char *qualified, const ast_class *cls);

#endif
