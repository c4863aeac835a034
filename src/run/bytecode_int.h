/* run/bytecode_int.h -- from a graph to bytecode; shared by bytecode.c (nodes), bytecode_flow.c
 * (If, Loop, moves), bytecode_guards.c and bytecode_regs.c (which value dies where, registers, the
 * growing arrays).
 *
 * One walk over the graph.  On entering a block the last use of every value that dies in it is
 * computed ("planned"): the node of that block that uses it last, itself or in a nested block.  A
 * value whose last use is an If dies in both branches, at its last use there or at the branch's
 * start; one whose last use is a Loop dies after it.
 *
 * Results of blocks have registers of their own ("targets"), and a value that becomes such a result
 * is made there at once if the register is free; otherwise the block ends with a move. */
#ifndef RUSH_RUN_BYTECODE_INT_H
#define RUSH_RUN_BYTECODE_INT_H

#include "run/code_int.h"

typedef struct death {
  uint32_t value;
  struct death *next;
} death;

typedef struct vinfo { /* indexed by ir_value->scratch */
  const ir_value *v;
  const ir_node *last; /* in the block where it was planned; NULL: never used */
  uint32_t reg;        /* or NO_REG */
  uint32_t constant;   /* index, when is_const */
  bool is_const, plain;
} vinfo;

typedef struct target { /* registers of a block's results */
  const ir_block *block;
  uint32_t first;       /* the output of the block that regs[0] receives: 0, in loops 1 */
  uint32_t n;
  uint32_t *regs;
  bool *claimed;        /* the value was already made there */
  struct target *outer;
} target;

enum { REG_FREE, REG_EMPTY /* reserved */, REG_LIVE };

#define MOST_MARKS 128 /* inlined calls inside each other that a profile shows */

typedef struct coder {
  session *s;
  function *f;
  vinfo *vals;
  death **deaths;     /* indexed by ir_node->scratch */
  /* indexed by ir_node->scratch: the node makes this leaf of the function's result, + 1; or 0 */
  uint32_t *leaves;
  opcode *typed;      /* indexed by ir_node->scratch: N_OPCODES if there is no opcode */
  uint32_t n_vals, n_nodes;
  uint8_t *regs;      /* REG_* */
  /* number of targets that reserve it: results of nested blocks share a register */
  uint32_t *reserved;
  uint32_t n_regs, cap_regs;
  target *targets;    /* innermost first */
  const ir_node *compare; /* a comparison to fuse with the jump that follows */
  uint32_t compared[2];   /* registers of its operands */
  uint32_t n_points;
  bool marks;         /* events of inlined calls begin and end */
  const ir_inlined *open; /* marks: the calls whose events are open, innermost first */
  uint32_t mark_regs[MOST_MARKS]; /* marks: the register of each open event, by depth - 1 */
  bool no_fuse;       /* jumps are too long for the fused form */
  bool too_long;      /* set if jumps turned out too long */
  ins *code;
  uint32_t *place_of;
  code_place *places;
  site *sites;
  struct group_site *group_sites; /* of nodes that have a state, newest first */
  uint32_t *operands;
  rush_value *constants; /* borrowed from the graph */
  uint32_t n_ins, cap_ins, n_places, cap_places, n_sites, cap_sites, n_operands, cap_operands;
  uint32_t n_constants, cap_constants, n_kregs, n_row;
} coder;

/* -- bytecode_regs.c --------------------------------------------------------------------------- */
void number_graph(coder *e, const ir_block *b);   /* fills vals, deaths, typed */
void plan_block(coder *e, const ir_block *b, const uint32_t *outer, uint32_t n_outer);
uint32_t reg_alloc(coder *e);
uint32_t reg_alloc_pair(coder *e);
void reg_free(coder *e, uint32_t reg);
void reg_reserve(coder *e, uint32_t reg, bool on);
void free_deaths(coder *e, const ir_node *n, bool drop, bool plain_only);
uint32_t define_value(coder *e, const ir_value *v); /* a register; NO_REG if it has no use */
/* True if the node reads or writes an item of a list. */
bool is_list_op(const ir_node *n);
uint32_t typed_reg(coder *e, const ir_value *v); /* the register of an operand; loads constants */
static inline vinfo *info(coder *e, const ir_value *v) { return &e->vals[v->scratch]; }
bool used_inside(const ir_value *v, const ir_block *b);
uint32_t put_ins(coder *e, opcode op, uint32_t a, uint32_t b, uint32_t c);
uint32_t put_imm(coder *e, opcode op, uint32_t a, int32_t imm);
site *put_site(coder *e, opcode op, uint32_t a); /* adds an instruction with a new site */
void add_operand(coder *e, site *st, uint32_t operand);
uint32_t constant_index(coder *e, rush_value v);
void patch_jump(coder *e, uint32_t at, uint32_t to);
void set_place(coder *e, const ir_node *n);
/* If code has marks: end and begin events, so that those of `to` are open. */
void put_marks(coder *e, const ir_inlined *to);

/* -- bytecode_flow.c --------------------------------------------------------------------------- */
void emit_if(coder *e, const ir_node *n);
void emit_loop(coder *e, const ir_node *n);
void emit_subgraph(coder *e, const ir_node *n); /* in the frame of the graph around it */
void emit_grad_of(coder *e, const ir_node *n);
void hand_over(coder *e, const ir_node *n, ir_value *const *to, uint32_t k);
/* True if v's last use is n; it does not die there any more. */
bool take_death(coder *e, const ir_node *n, const ir_value *v);
/* Return v as an operand that stays alive. */
static inline uint32_t kept_operand(coder *e, const ir_value *v)
{
  const vinfo *i = info(e, v);

  return !i->is_const             ? i->reg
         : i->constant < e->n_kregs ? i->constant
                                  : i->constant | OPERAND_CONST;
}
bool left_to_jump(coder *e, const ir_node *n);

/* -- bytecode_guards.c ------------------------------------------------------------------------- */
void put_profile(coder *e, const ir_node *n);
void put_guard(coder *e, const ir_node *n);
void put_type_check(coder *e, const ir_node *n);

/* -- bytecode.c -------------------------------------------------------------------------------- */
void emit_block(coder *e, const ir_block *b, const uint32_t *dying, uint32_t n_dying);
/* Emit the same value under another type: it keeps its register if it dies here. */
void put_alias(coder *e, const ir_node *n);

/* True if the node needs no instruction.  `uninitialized` from a file may be read, and is made at
 * run time. */
static inline bool is_constant_node(const ir_node *n)
{
  return n->kind == IR_CONSTANT || (n->kind == IR_UNINITIALIZED && !ir_attr_find(n, "_checked"));
}

#endif
