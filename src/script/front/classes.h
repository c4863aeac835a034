/* script/front/classes.h -- reads enums and NamedTuples from their syntax trees. */
#ifndef RUSH_SCRIPT_CLASSES_H
#define RUSH_SCRIPT_CLASSES_H

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
/* Return the text of the methods that @dataclass adds to a class: __init__, __eq__ and, if
 * requested, the order. */
const char *class_dataclass_methods(session *s, const ast_class *cls, bool has_order, size_t *len);

/* Resolve Python's names that TorchScript refuses or applies to tensors (python_names.c); leaves
 * the session for those that PyTorch refuses by name. */
bool script_python_name(session *s, program *p, const char *name, source_range at, sugared *out);
/* Resolve a function of torch.nn.functional that is not an operator of the same signature. */
bool script_functional(session *s, program *p, const char *path, const char *name, sugared *out);

#endif
