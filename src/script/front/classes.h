/* script/front/classes.h -- reads enums and NamedTuples from their syntax trees. */
#ifndef RUSH_SCRIPT_CLASSES_H
#define RUSH_SCRIPT_CLASSES_H

#include "rushlight/script.h"
#include "script/emit/resolve.h"

/* True if NAME, or x.NAME, is among the bases. */
bool class_has_base(const ast_class *cls, const char *name);
/* Make new types of r's program under this name. */
const type *class_read_enum(session *s, const resolver *r, const char *qualified,
                            const ast_class *cls);
const type *class_read_named_tuple(session *s, const resolver *r, const char *qualified,
                                   const ast_class *cls);

/* Make a type from a call: P = namedtuple("P", ["x", "y"]), P = NamedTuple("P", [("x", int),
 * ...]). */
const type *class_make_named_tuple(session *s, const resolver *r, const char *qualified,
                                   const ast_expr *call);
/* Append one of the methods that @dataclass adds: __init__, __eq__, __lt__, __le__, __gt__ or
 * __ge__. `cls` is the class's name in messages, `type` in annotations. */
void dataclass_put_method(text_buf *out, const char *cls, const char *type, const char *method,
                          const rush_dataclass_field *fields, size_t n, bool has_post_init);
/* Return the text of the methods that @dataclass adds to a class: __init__, __eq__ and, if
 * requested, the order. */
const char *class_dataclass_methods(session *s, const ast_class *cls, bool has_order, size_t *len);

#endif
