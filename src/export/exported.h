/* export/exported.h -- an exported program: a graph with a signature, as a program of ours.
 *
 * A torch.export archive becomes an ordinary program with one module class: parameters, buffers and
 * lifted constants are its attributes ("layer.weight" keeps its dotted name), `forward` is a function
 * whose graph takes (self, leaf inputs...) and returns one tuple: first the mutated buffers and
 * inputs, then the user's leaf outputs.  Around a call, and only here:
 *   1. the arguments are flattened as the input spec says (AssertionError-like errors name the place);
 *   2. constants in the input spec and range constraints and guards are checked: the error names the
 *      dimension or the argument;
 *   3. forward runs; mutated buffers are written to the attributes, mutated inputs into the inputs;
 *   4. the user's outputs are put together as the output spec says. */
#ifndef RUSH_EXPORT_EXPORTED_H
#define RUSH_EXPORT_EXPORTED_H

#include "ir/program.h"

/* A pytree: what torch.utils._pytree's TreeSpec is. */
typedef enum tree_kind { TREE_LEAF, TREE_NONE, TREE_TUPLE, TREE_LIST, TREE_DICT, TREE_ORDERED_DICT, TREE_NAMEDTUPLE, TREE_OTHER } tree_kind;
typedef struct tree_spec tree_spec;
struct tree_spec {
  tree_kind kind;
  uint32_t n_children;
  tree_spec *children;
  rush_value *keys;     /* dicts: n_children, owned by the program's constants */
  const char *type_name; /* NamedTuple, dataclass, other */
};

typedef struct exported exported;

/* Call: `self` is the module object.  *result is new. */
rush_status exported_call(call_ctx *cx, exported *e, rush_value self, const rush_value *args, uint32_t n_args,
                          const named_arg *kwargs, uint32_t n_kwargs, rush_value *result) RUSH_CHECKED;

#endif
