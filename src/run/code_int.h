/* run/code_int.h -- the form of bytecode, shared by emission and interpreter.
 *
 *   frame:  | constants of typed operands | arguments | other registers | row of a call |
 *             n_kregs, copied at entry      n_args                        n_row
 *
 * Invariants.  (1) Registers own; one that is dead is None or holds a value without a heap part, so
 * writing a register never releases.  (2) A value is released, or moved on, at its last use on
 * every path: when a frame returns nothing is left in it.  (3) Constants are never moved from. */
#ifndef RUSH_RUN_CODE_INT_H
#define RUSH_RUN_CODE_INT_H

#include "run/code.h"

typedef enum opcode {
#define TYPED2(sym, ...) OPC_##sym,
#define TYPED1(sym, ...) OPC_##sym,
#define COMPARE(sym, ...) OPC_##sym, OPC_JT_##sym, OPC_JF_##sym,
#define PLAIN(sym) OPC_##sym,
#include "run/opcodes.def"
  N_OPCODES
} opcode;

typedef struct ins {
  uint8_t op;
  uint8_t want; /* of what it loads from the heap */
  uint16_t a, b, c;
} ins;
static inline int32_t ins_imm(ins i) { return (int32_t)((uint32_t)i.b | (uint32_t)i.c << 16); }

/* Defence in depth.  Registers are typed and their tags are not looked at again, so a value that
 * comes from the heap or from outside (items, attributes, results of futures, interfaces and
 * operators from outside, arguments) is compared with the register's static type as far as its tag
 * tells: a `want` is that tag, or one of the following.  What a tag does not tell (unions, numbers)
 * a CHECK looks at; debug builds have a CHECK behind every store. */
enum {
  WANT_OR_NONE = 0x20, /* beside a tag: or None */
  WANT_ANY = 0xff,     /* anything that was set */
  WANT_REST = 0xfe     /* a CHECK follows */
};
uint8_t want_of(const type *t);
bool want_takes_slow(uint8_t want, uint32_t tag);
static inline bool want_takes(uint8_t want, uint32_t tag)
{
  return LIKELY(tag == (want & (WANT_OR_NONE - 1u))) || want_takes_slow(want, tag);
}

#define NO_REG UINT32_MAX
/* Operands of sites. */
#define OPERAND_CONST (UINT32_C(1) << 31)
#define OPERAND_LAST (UINT32_C(1) << 30)
#define OPERAND_INDEX (OPERAND_LAST - 1)

typedef struct site { /* what an instruction with many operands needs */
  const op *op;            /* OPERATOR */
  rush_value *stopped;     /* STOP, a test's: where the registers go */
  op_node_state *state; /* of an operator from outside: prepared for this node; owned by the code */
  function *function;      /* CALL; FORK (NULL: its argument is the result) */
  const type *type; /* LIST, TUPLE, DICT, NEW_OBJECT, FORK, CHECK; borrowed from the program */
  const type *const *types; /* ISINSTANCE */
  const char *name;        /* CALL_INTERFACE, UNSUPPORTED */
  int64_t begin, end;      /* TUPLE_SLICE */
  uint64_t last_use;       /* of the operands, as bits */
  uint32_t n_types;
  bool checks;             /* results come from the heap or from outside */
  /* operands: n_args, n_results registers (or NO_REG), n_results wants when it checks */
  uint32_t first;
  uint32_t n_args, n_results;
  uint32_t n_made;         /* OPERATOR: results of the kernel, at least n_results */
  uint32_t leaf; /* OPERATOR_OUT, CALL_OUT: the result begins with this leaf of the function's */
} site;

typedef struct code_place { /* where an instruction comes from */
  uint32_t origin;
  source_range range;
} code_place;

struct code {
  context *ctx;
  function *function;  /* NULL: a block of its own */
  const char *name;    /* for tracebacks */
  bool is_builtin, is_eager;
  bool is_group;       /* a group's subgraph, run in place of what its backend could not do */
  /* bit i: argument i is read by called operators of the outermost block only, or by nobody: a
   * caller that keeps it alive need not give a reference */
  uint64_t lent_args;
  uint64_t unused_args; /* of these, those that nobody reads */
  ir_graph *graph;     /* what it was made of, when passes changed it; owned */
  uint32_t n_ins, n_sites, n_operands, n_constants, n_places;
  uint32_t n_args;     /* registers n_kregs ... take the arguments */
  uint32_t n_kregs, n_regs, n_row;
  ins *code;
  uint32_t *place_of;  /* per instruction: index into places */
  code_place *places;
  site *sites;
  uint32_t *operands;
  rush_value *constants; /* retained; the first n_kregs are the registers */
  uint8_t *arg_wants;    /* n_args */
  size_t n_bytes;      /* of the one block all this lies in */
};

/* Compile a graph's block: one result (several as a tuple).  Leaves the session. */
code *code_emit(session *s, ir_graph *g, ir_block *b, function *f, const char *name);
void code_free(code *c);
/* The opcode of a typed operator or comparison, or N_OPCODES. */
opcode opcode_of(const ir_node *n);
static inline bool opcode_is_compare(opcode o)
{
  switch (o) {
#define COMPARE(sym, ...) case OPC_##sym: return true;
#include "run/opcodes.def"
  default: return false;
  }
}
const char *opcode_name(opcode o);

/* -- groups.c: nodes of operators from outside ------------------------------------------------- */

typedef struct group_site { /* a node that has a state, and its site */
  uint32_t site;
  const ir_node *node;
  struct group_site *next;
} group_site;

bool needs_state(const ir_node *n); /* of an operator */
void groups_prepare(session *s, code *c, const group_site *list);
void groups_free(code *c);

/* No heap part, whatever the value: it needs no retain and no release. */
static inline bool type_is_plain(const type *t)
{
  t = type_runtime(t);
  if (t->kind == TYPE_OPTIONAL)
    t = type_runtime(type_elem(t));
  return t->kind == TYPE_INT || t->kind == TYPE_FLOAT || t->kind == TYPE_BOOL ||
         t->kind == TYPE_NONE || t->kind == TYPE_DEVICE;
}

#endif
