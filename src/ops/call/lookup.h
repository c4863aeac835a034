/* ops/call/lookup.h -- finding operators in a session, which is left if memory to build them runs
 * out: NULL always means that there is none of that name. */
#ifndef RUSH_OPS_LOOKUP_H
#define RUSH_OPS_LOOKUP_H

#include <string.h>

#include "base/session.h"
#include "ops/call/call.h"

/* Find operators like op_find and op_overloads (ops/call/call.h). */
const op *session_op_find(session *s, str name, str overload);
const op *const *session_op_overloads(session *s, str name, uint32_t *n);
/* Find "torch.ops.aten.add.Tensor", as exported programs name operators; NULL for other texts. */
const op *session_op_of_target(session *s, str target);

/* True if the operator runs tasks until a future has its result.  Such calls are neither removed
 * nor moved. */
static inline bool op_waits(const op *o) { return o->effects & OP_WAITS; }

/* Return the name of the operator that o is a synonym of ("aten::abs" for aten::absolute), or an
 * empty string. */
str op_synonym_of(const op *o);
/* Return the name of the operator behind a tensor's property ("prim::dtype" for x.dtype), or an
 * empty string. */
str op_of_property(str name);
/* What a Python path means in TorchScript ("len", "torch.jit.fork"), from names.py of the table. */
struct op_known;
const struct op_known *op_known_find(const char *path);
/* Return the texts of a row's body, one behind the other. */
const char *session_op_known_body(session *s, const struct op_known *k);
/* Return the number OPN_... of the operator of that name, or 0. */
uint32_t session_op_name_key(session *s, str name);

/* Find names of operators at most two letters away from `name`, nearest first; at most `max`. */
uint32_t op_similar(str name, str *out, uint32_t max);

#endif
