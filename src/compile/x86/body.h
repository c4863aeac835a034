/* compile/x86/body.h -- one iteration of a loop for one vector of elements: the form between tape
 * and bytes.
 *
 * lower.c writes a loop_tape as operations on values: each value is made once (SSA), each operation
 * is one instruction of asm.h.  alloc.c assigns registers, spills what does not fit, and leaves a
 * list of instructions whose memory is symbolic (`place`), which encode_loop.c encodes several
 * times: unrolled, once for a single vector, once masked for the remainder.
 *
 * Masks (results of comparisons, bool operands) are k registers with AVX-512, and with AVX2 vectors
 * of all-ones or all-zeros lanes. */
#ifndef RUSH_COMPILE_X86_BODY_H
#define RUSH_COMPILE_X86_BODY_H

#include "compile/code/loop_tape.h"
#include "compile/x86/asm.h"

#define NO_VALUE UINT16_MAX
#define NO_REG 0xff
#define NEVER UINT32_MAX

enum value_kind {
  VALUE_TEMP,  /* made by an operation */
  VALUE_CONST, /* 32 or 64 bits in every lane; `what` is its index in the constants */
  VALUE_ONE    /* a LOOP_ONE operand `what` in every lane */
};
enum value_class { CLASS_VEC, CLASS_MASK, N_CLASSES }; /* MASK: k registers, with AVX-512 only */

typedef struct value {
  uint8_t kind, cls;
  uint8_t reg;   /* alloc.c: or NO_REG */
  bool pinned;   /* always in its register, loaded before the loop */
  bool wide;     /* CONST: 64 bits in every lane */
  uint16_t what;
  uint16_t slot; /* on the stack, or NO_VALUE */
  uint32_t n_uses;
  uint32_t next; /* the next operation that uses it, or NEVER */
} value;

/* FIX: no memory; the operation comes from body_fix. */
enum place_kind { PLACE_NONE, PLACE_ROW, PLACE_ONE, PLACE_CONST, PLACE_SLOT, PLACE_FIX };

typedef struct operation {
  uint8_t op, vl, imm;    /* x86_op; a VFM...132 represents all three forms of a * b + c */
  uint8_t place, operand; /* memory operand: PLACE_ROW or PLACE_ONE */
  bool needed;
  uint16_t dst, args[3];   /* NO_VALUE: none */
  uint32_t next[3];        /* next uses of the arguments, after this */
} operation;

typedef struct placed { /* an instruction with registers */
  x86_ins ins;
  uint8_t place; /* kind of its memory operand */
  uint16_t what; /* operand, constant, slot or function */
} placed;

typedef struct constant {
  uint64_t bits; /* a 32-bit one twice */
  uint16_t value;
  bool wide;
} constant;

typedef struct body {
  context *ctx;
  const loop_tape *tape;
  bool wide;   /* AVX-512 */
  uint8_t end_reg[2]; /* by value_class: values use registers below */
  bool failed; /* memory ran out; sticky */
  bool has_wide_consts, has_fixes;
  value *values;
  operation *ops;
  constant *consts;
  placed *out;
  uint32_t n_values, n_ops, n_consts, n_out, n_slots;
  size_t cap_values, cap_ops, cap_consts, cap_out; /* bytes */
} body;

#define TAIL_MASK 15 /* AVX2: ymm15 masks the remainder */
#define FIRST_K 2    /* AVX-512: k1 masks the remainder, k2..k7 hold values */

void body_init(body *b, context *c, const loop_tape *t, loop_machine machine);
void body_free(body *b);
/* Make room for item n of an array (by its address) of *cap bytes. */
bool body_grow(body *b, void *array, size_t *cap, uint32_t n, size_t item);

/* -- lower.c ----------------------------------------------------------------------------------- */
bool lower_can(tape_op op, tape_type type, tape_type from);
void lower_tape(body *b);
/* Append operations, for vector_math.c.  A missing argument is NO_VALUE; the arguments of
 * commutative operations may be in any order. */
uint16_t body_op(body *b, x86_op op, uint16_t x, uint16_t y, uint16_t z, int imm);
uint16_t body_bits(body *b, uint32_t bits); /* a constant */
static inline uint16_t body_float(body *b, float f)
{
  union {
    float f;
    uint32_t u;
  } pun = {.f = f};
  return body_bits(b, pun.u);
}
enum { CMP_EQ = 0, CMP_LT = 1, CMP_LE = 2, CMP_UNORD = 3, CMP_NEQ = 4, CMP_GE = 13, CMP_GT = 14 };
uint16_t body_compare(body *b, int how, uint16_t x, uint16_t y);      /* a mask */
uint16_t body_select(body *b, uint16_t mask, uint16_t x, uint16_t y); /* mask ? x : y */
uint16_t body_double(body *b, double d); /* a constant, in lanes of 64 bits */
/* Return y, but in lanes where the mask is set the result of a C function of x.  Nothing else may
 * use y. */
uint16_t body_fix(body *b, uint16_t mask, uint16_t x, uint16_t y, int function);

/* -- vector_math.c: the functions of ops/point/vmath.h, operation by operation */
uint16_t body_math(body *b, tape_op op, uint16_t x);
bool body_has_math(tape_op op);

/* -- trig.c: sin, cos, tan --------------------------------------------------------------------- */
uint16_t body_trig(body *b, tape_op op, uint16_t x);
/* Return the function that body_fix calls: it computes the lanes of y whose x is huge.
 * function_lanes: 32 times the function, plus the lanes. */
void trig_fix(const float *x, float *y, uint64_t function_lanes);

/* -- alloc.c ----------------------------------------------------------------------------------- */
void alloc_registers(body *b);

/* -- encode_loop.c ----------------------------------------------------------------------------- */
/* Emit the loop.  *entry, *stream: offsets of the functions, after constants and helper
 * functions. */
rush_status x86_emit_loop(call_ctx *cx, const loop_tape *t, loop_machine machine, x86_asm *a,
                          size_t *entry, size_t *stream) RUSH_CHECKED;

#endif
