/* passes/passes_int.h -- shared by the passes' files. */
#ifndef RUSH_PASSES_PASSES_INT_H
#define RUSH_PASSES_PASSES_INT_H

#include "passes/passes.h"

/* -- Questions (common.c) ---------------------------------------------------------------------- */

/* True if the node must be kept even if its results are unused (apart from writes to memory, which
 * alias.h analyses). Its blocks are not examined. */
bool pass_has_effect(const ir_node *n);
/* True if a value of the type contains anything that can be written to.  A tuple of numbers does
 * not. */
bool pass_can_be_written(const type *t);
/* True if equal inputs give equal results, without side effects: no blocks, no writes.  Memory that
 * it reads may have been written to. */
bool pass_is_pure(const ir_node *n);
bool pass_is_constant_int(const ir_value *v, int64_t *out);
bool pass_is_constant_bool(const ir_value *v, bool *out);
bool pass_is_none(const ir_value *v); /* the constant None */
/* True if both are constants (IR_CONSTANT) of the same type and value. */
bool pass_same_constant(const ir_node *a, const ir_node *b);
uint64_t pass_constant_hash(const ir_node *n);
bool pass_same_attrs(const ir_node *a, const ir_node *b);

/* -- Edits (common.c) -------------------------------------------------------------------------- */

/* Insert a constant before `pos`, with its range.  v is retained by the graph. */
ir_value *pass_put_constant(session *s, ir_node *pos, rush_value v, const type *t);
ir_value *pass_put_int(session *s, ir_node *pos, int64_t i);
/* Insert an operator before `pos`; returns NULL if there is none of that name. */
ir_node *pass_put_op(session *s, ir_node *pos, const char *name, const char *overload,
                     ir_value *const *in, uint32_t n);
ir_node *pass_put_node(session *s, ir_node *pos, ir_kind kind, ir_value *const *in, uint32_t n,
                       const type *out);
/* Replace all uses of n's results by `with`, and remove n. */
void pass_replace(ir_node *n, ir_value *const *with);
/* Replace a call by a copy of the body that it calls, which has as many inputs and outputs. */
void pass_inline_call(session *s, ir_node *n, const ir_graph *body);
/* Move the nodes of b before `pos`; b is empty afterwards. */
void pass_splice(ir_block *b, ir_node *pos);
/* Register a value for release with the session. */
rush_value pass_hold(session *s, rush_value v_steal);

/* Visit every node, those of nested blocks before their owner; fn may destroy the node, and insert
 * others before it. */
typedef void pass_visit(session *s, ir_node *n, void *arg);
void pass_each(session *s, ir_block *b, pass_visit *fn, void *arg);

/* -- Memory that is seen from outside (common.c) ----------------------------------------------- */

typedef struct alias_info alias_info;
/* Return which groups (alias.h), by number, contain an input, an output or a constant of the
 * graph. */
bool *pass_escaping(session *s, const alias_info *a, const ir_graph *g);

#endif
