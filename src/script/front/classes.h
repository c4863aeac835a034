/* script/front/classes.h -- enums and NamedTuples from their text. */
#ifndef RUSH_SCRIPT_CLASSES_H
#define RUSH_SCRIPT_CLASSES_H

#include "script/emit/resolve.h"

/* Is NAME, or x.NAME, among the bases? */
bool class_has_base(const ast_class *cls, const char *name);
/* New types of r's program under this name. */
const type *class_read_enum(session *s, const resolver *r, const char *qualified,
                            const ast_class *cls);
const type *class_read_named_tuple(session *s, const resolver *r, const char *qualified,
                                   const ast_class *cls);

/* P = namedtuple("P", ["x", "y"]), P = NamedTuple("P", [("x", int), ...]): the call. */
const type *class_make_named_tuple(session *s, const resolver *r, const char *qualified,
                                   const ast_expr *call);
/* The text of the methods that @dataclass gives a class: __init__, __eq__ and, when asked for, the
 * order. */
const char *class_dataclass_methods(session *s, const ast_class *cls, bool has_order, size_t *len);

/* Python's names that TorchScript refuses or takes for tensors' (python_names.c); leaves for what
 * PyTorch refuses by name. */
bool script_python_name(session *s, program *p, const char *name, source_range at, sugared *out);
/* A function of torch.nn.functional that is no operator of the same signature. */
bool script_functional(session *s, program *p, const char *path, const char *name, sugared *out);

#endif
