/* compile/x86/asm.h -- an assembler for x86-64: bytes into memory that grows.
 *
 * Each instruction is one row of instr.def, from which its encoding follows: VEX if possible (in
 * two bytes if possible), EVEX for 512 bits, registers from 16 on, masks and broadcasts; the
 * shortest displacement.  GNU as makes the same choices, so a listing can be assembled to the same
 * bytes (tests/compile/test_asm.c).
 *
 * Failure is sticky: if memory runs out, x86_failed() returns true at the end.  One thread at a
 * time. */
#ifndef RUSH_COMPILE_X86_ASM_H
#define RUSH_COMPILE_X86_ASM_H

#include "base/text.h"

typedef enum x86_op {
#define OP(name, text, encodings, map, pp, w, opcode, digit, operands, memory, flags) X86_##name,
#include "compile/x86/instr.def"
#undef OP
  N_X86_OPS
} x86_op;

enum x86_reg { RAX, RCX, RDX, RBX, RSP, RBP, RSI, RDI, R8, R9, R10, R11, R12, R13, R14, R15, RIP };
#define X86_NONE 0xff
enum x86_vl { VL128, VL256, VL512 };
/* Conditions of jumps: the condition codes of the opcodes. */
enum x86_cond {
  CC_E = 4,
  CC_NE = 5,
  CC_S = 8,
  CC_L = 12,
  CC_GE = 13,
  CC_LE = 14,
  CC_G = 15,
  CC_ALWAYS
};

#define X86_MEM 0xfe /* instead of a register: the instruction's memory operand */

typedef struct x86_mem {
  uint8_t base, index, shift; /* index: X86_NONE without; address: base + (index << shift) + disp */
  bool broadcast;
  int32_t disp; /* base RIP: offset in the code */
} x86_mem;

typedef struct x86_ins {
  uint8_t op, vl;
  uint8_t mask; /* k1..k7, or 0 */
  bool zero;    /* lanes that the mask leaves out become 0 */
  uint8_t r[4]; /* operands in the order of instr.def; unused for a number */
  int32_t imm;
  x86_mem mem;
} x86_ins;

enum x86_flags { X86_SWAP = 1, X86_SELECT = 2 };
enum x86_tuple {
  TUPLE_FULL,
  TUPLE_ALL,
  TUPLE_HALF,
  TUPLE_QUARTER,
  TUPLE_ONE8,
  TUPLE_ONE4,
  TUPLE_ONE1
};
typedef struct x86_row {
  char text[14];
  char operands[9];
  int8_t digit;
  uint8_t encodings, map, pp, w, opcode, tuple, flags;
} x86_row;
extern const x86_row x86_rows[N_X86_OPS];

#define X86_LABELS 16
typedef struct x86_asm {
  context *ctx;
  uint8_t *bytes;
  size_t len, cap;
  bool failed;
  text_buf *listing;          /* one line per instruction, or NULL */
  const uint8_t *known;       /* for the listing: the same code with its forward jumps, or NULL */
  int64_t labels[X86_LABELS]; /* positions, or -1 */
  struct {
    uint32_t at; /* position of a 32-bit distance */
    uint8_t label;
  } jumps[X86_LABELS];
  int n_jumps; /* forward jumps whose label is not placed yet */
} x86_asm;

void x86_init(x86_asm *a, context *c, text_buf *listing);
void x86_free(x86_asm *a);
static inline bool x86_failed(const x86_asm *a) { return a->failed; }

void x86_emit(x86_asm *a, const x86_ins *i);
/* Append instructions without memory operands; unused operands are 0. */
void x86_vec(x86_asm *a, x86_op op, int vl, int r0, int r1, int r2);
void x86_gpr(x86_asm *a, x86_op op, int r0, int r1, int32_t imm);
void x86_gpr_mem(x86_asm *a, x86_op op, int r, x86_mem m); /* a load or a store, depending on op */
void x86_push(x86_asm *a, int r);
void x86_pop(x86_asm *a, int r);
void x86_simple(x86_asm *a, const char *text); /* "ret", "vzeroupper", "sfence", "endbr64" */
void x86_data(x86_asm *a, const void *bytes, size_t n_bytes);
/* Append nops (or, in data, zeros) up to a multiple of `to` bytes. */
void x86_align(x86_asm *a, size_t to, bool code);
/* Labels: numbers below X86_LABELS, listed as GNU's local ones from 20 on (10b is a number there).
 * A backward jump is as short as possible, a forward one has 32 bits. */
void x86_jump(x86_asm *a, int cond, int label);
void x86_label(x86_asm *a, int label);
void x86_call(x86_asm *a, int label); /* backwards */
void x86_mov_address(x86_asm *a, int r, const void *address);

/* Print " vaddps zmm0, zmm1, [rax+0x40]". */
void x86_print(text_buf *t, const x86_ins *i, int64_t rip_bias);

#endif
