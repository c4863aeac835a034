/* value/custom.h -- the custom classes that a context knows, by qualified name.
 *
 * Threads: locked inside.  A class registered is never removed. */
#ifndef RUSH_VALUE_CUSTOM_H
#define RUSH_VALUE_CUSTOM_H

#include "value/value.h"

/* `cls` must live as long as the context.  A second class of one name: RUSH_EARGUMENT. */
rush_status custom_class_register(context *c, const custom_class *cls, rush_error *err) RUSH_CHECKED;
/* Borrowed, or NULL. */
const custom_class *custom_class_find(context *c, str name);

#endif
