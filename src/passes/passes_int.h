/* passes/passes_int.h -- shared by the passes' files. */
#ifndef RUSH_PASSES_PASSES_INT_H
#define RUSH_PASSES_PASSES_INT_H

#include "passes/passes.h"

/* -- Questions (common.c) ---------------------------------------------------------------------- */

/* Must the node stay even if nobody uses its results (writes to memory apart: those alias.h knows)?
 *  Its own blocks are not asked. */
bool pass_has_effect(const ir_node *n);
/* Does a value of the type hold anything that can be written to?  A tuple of numbers does not. */
bool pass_can_be_written(const type *t);
/* Do the same inputs give the same results, and nothing else happens?  No blocks, no writes; what
 * it reads may have been written to. */
bool pass_is_pure(const ir_node *n);
bool pass_is_constant_int(const ir_value *v, int64_t *out);
bool pass_is_constant_bool(const ir_value *v, bool *out);
bool pass_is_none(const ir_value *v); /* the constant */
/* Are these two constants (IR_CONSTANT) of one type and value? */
bool pass_same_constant(const ir_node *a, const ir_node *b);
uint64_t pass_constant_hash(const ir_node *n);
bool pass_same_attrs(const ir_node *a, const ir_node *b);

/* -- Edits (common.c) -------------------------------------------------------------------------- */

/* Before `pos`, with its range.  v is retained by the graph. */
ir_value *pass_put_constant(session *s, ir_node *pos, rush_value v, const type *t);
ir_value *pass_put_int(session *s, ir_node *pos, int64_t i);
/* An operator before `pos`; NULL: there is none of that name. */
ir_node *pass_put_op(session *s, ir_node *pos, const char *name, const char *overload,
                     ir_value *const *in, uint32_t n);
ir_node *pass_put_node(session *s, ir_node *pos, ir_kind kind, ir_value *const *in, uint32_t n,
                       const type *out);
/* All uses of n's results take `with`; n goes. */
void pass_replace(ir_node *n, ir_value *const *with);
/* A call becomes a copy of the body that it calls: as many inputs and outputs. */
void pass_inline_call(session *s, ir_node *n, const ir_graph *body);
/* The nodes of b stand before `pos` from now on; b is empty. */
void pass_splice(ir_block *b, ir_node *pos);
/* A value that the session releases. */
rush_value pass_hold(session *s, rush_value v_steal);

/* Every node, those of nested blocks before their node; fn may destroy the node, and put others
 * before it. */
typedef void pass_visit(session *s, ir_node *n, void *arg);
void pass_each(session *s, ir_block *b, pass_visit *fn, void *arg);

/* -- Memory that is seen from outside (common.c) ----------------------------------------------- */

typedef struct alias_info alias_info;
/* Groups (alias.h) that hold an input, an output or a constant of the graph, by number. */
bool *pass_escaping(session *s, const alias_info *a, const ir_graph *g);

#endif
