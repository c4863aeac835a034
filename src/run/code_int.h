/* run/code_int.h -- the format of bytecode, shared by emission and interpreter.
 *
 *   frame:  | constants of typed operands | arguments | other registers | row of a call |
 *             n_kregs, copied at entry      n_args                        n_row
 *
 * Invariants.  (1) Registers own their values; a dead one is None or holds a value without a heap
 * part, so writing a register never releases.  (2) A value is released, or moved on, at its last
 * use on every path: when a frame returns its registers are empty.  (3) Constants are never moved
 * from. */
#ifndef RUSH_RUN_CODE_INT_H
#define RUSH_RUN_CODE_INT_H

#include "ops/call/instance.h"
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
  uint8_t want; /* check of what it loads from the heap */
  uint16_t a, b, c;
} ins;
static inline int32_t ins_imm(ins i) { return (int32_t)((uint32_t)i.b | (uint32_t)i.c << 16); }

/* Defence in depth.  Registers are typed and their tags are not checked again, so a value from the
 * heap or from outside (items, attributes, results of futures, interfaces and external operators,
 * arguments) is compared with the register's static type as far as its tag allows: a `want` is that
 * tag, or one of the following.  A CHECK tests what a tag does not show (unions, numbers); debug
 * builds have a CHECK after every store. */
enum {
  WANT_OR_NONE = 0x20, /* in combination with a tag: or None */
  WANT_ANY = 0xff,     /* any value that is set */
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
/* Of POINT_GUARD: a container of as many of the operands that follow. */
#define OPERAND_RECIPE (OPERAND_CONST | OPERAND_LAST)
#define OPERAND_IS_RECIPE(o) (((o) & OPERAND_RECIPE) == OPERAND_RECIPE)

typedef struct site { /* the data of an instruction with many operands */
  const op *op;            /* OPERATOR */
  rush_value *stopped;     /* STOP, for tests: receives the registers */
  op_node_state *state; /* of an external operator: prepared for this node; owned by the code */
  op_cache *cache; /* of an operator's calls here, or NULL; owned by the code */
  function *function;      /* CALL; FORK (NULL: its argument is the result) */
  /* LIST, TUPLE, DICT, NEW_OBJECT, FORK, CHECK, GUARD, POINT_GUARD; the program's */
  const type *type;
  const ir_inlined *inlined; /* MARK_BEGIN: the call; in the graph's memory */
  const type *const *types; /* ISINSTANCE, TYPE_CHECK; POINT_GUARD: those of the recipes */
  const char *name;        /* CALL_INTERFACE, UNSUPPORTED */
  int64_t begin, end;      /* TUPLE_SLICE; TYPE_CHECK: 1 if only requires_grad is compared */
  uint64_t last_use;       /* of the operands, as bits */
  uint32_t n_types;
  bool checks;             /* results are loaded from the heap or from outside */
  /* operands: n_args, n_results registers (or NO_REG), n_results wants if it checks */
  uint32_t first;
  uint32_t n_args, n_results;
  uint32_t n_made;         /* OPERATOR: results of the kernel, at least n_results */
  /* OPERATOR_OUT, CALL_OUT: the result begins with this leaf of the function's result */
  uint32_t leaf;
  uint32_t point; /* POINT_GUARD, PROFILE */
} site;

typedef struct code_place { /* the origin of an instruction */
  uint32_t origin;
  source_range range;
  const ir_inlined *inlined; /* in the graph's memory, or NULL */
} code_place;

struct code {
  context *ctx;
  function *function;  /* NULL: a separate block */
  const char *name;    /* for tracebacks */
  bool is_builtin, is_eager;
  bool is_group;       /* a group's subgraph, run if its backend cannot run a call */
  bool has_inlined;    /* some place has calls that were inlined */
  bool has_groups;     /* some site has one */
  bool may_start_recording; /* by requires_grad_, or by changing the grad mode */
  /* the same without groups, for calls that record gradients; NULL until one runs */
  code *_Atomic recorded;
  const code *main;    /* of such code: the function's; else NULL */
  code *_Atomic marked; /* the same with marks, for calls under a profile; NULL until one runs */
  code *_Atomic profiled; /* the same with points: points.h; NULL until it is made */
  bool has_points;     /* its graph has some */
  struct code_points *points; /* of profiled code: what is recorded; owned */
  const code *bails_to; /* of a plan: the profiled code that failing guards continue in */
  _Atomic uint64_t guards_checked;
  _Atomic uint32_t guards_failed; /* that did not hold */
  uint32_t n_points;
  bool chooses_plans;  /* outer calls may run a plan instead: executor.h */
  _Atomic(attachment *) executors; /* of a function without `self`; owned */
  /* bit i: argument i is unused, or only read by called operators of the outermost block: a caller
   * that keeps it alive need not pass a reference */
  uint64_t borrowed_args;
  uint64_t unused_args; /* the unused ones among these */
  ir_graph *graph;     /* the graph it was made from, if passes changed it; owned */
  uint32_t n_ins, n_sites, n_operands, n_constants, n_places, n_caches;
  uint32_t n_args;     /* registers n_kregs ... receive the arguments */
  uint32_t n_kregs, n_regs, n_row;
  uint32_t n_frame; /* registers and row that a frame has room for, also those of bails_to */
  ins *code;
  uint32_t *place_of;  /* per instruction: index into places */
  code_place *places;
  site *sites;
  op_cache *caches; /* of sites, which point to them */
  uint32_t *operands;
  rush_value *constants; /* retained; the first n_kregs are the registers */
  uint8_t *arg_wants;    /* n_args */
  size_t n_bytes;      /* of the one block that contains all this */
};

/* True if operators of a call of c may be recorded. */
static inline bool code_may_record(const call_ctx *cx, const code *c)
{
  return cx->recorder &&
         ((cx->grad_mode && cx->watch & CALL_RECORDED) || c->may_start_recording);
}

/* Compile a graph's block with one result (several are a tuple).  Leaves the session on failure. */
code *code_emit(session *s, ir_block *b, function *f, const char *name);
/* Compile the graph of f, after passes.  Steals it: the code owns it. */
code *code_emit_graph(session *s, ir_graph *g_steal, function *f);
/* Compile c's graph again, with instructions that begin and end a profile's events for the calls
 * that were inlined. */
code *code_emit_marked(session *s, const code *c);
void code_free(code *c);
/* Return the opcode of a typed operator or comparison, or N_OPCODES. */
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
/* True if the site is a node that is differentiated as one, whose state has a diff_node. */
bool site_is_differentiated(const site *st);
void groups_prepare(session *s, code *c, const group_site *list);
void groups_free(code *c);

/* True if values of the type never have a heap part: they need no retain and no release. */
static inline bool type_is_plain(const type *t)
{
  t = type_runtime(t);
  if (t->kind == TYPE_OPTIONAL)
    t = type_runtime(type_elem(t));
  return t->kind == TYPE_INT || t->kind == TYPE_FLOAT || t->kind == TYPE_BOOL ||
         t->kind == TYPE_NONE || t->kind == TYPE_DEVICE;
}

#endif
