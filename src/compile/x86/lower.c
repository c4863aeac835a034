/* compile/x86/lower.c -- from a tape's instructions to operations of the machine: chooses
 * instructions per operator, expands those that have none, and folds moves. Each operation must
 * give the bits of the tape runner's loop for the same instruction set, so the expansion follows
 * that loop's steps and never reassociates. */
#include "compile/x86/body.h"

void body_init(body *b, context *c, const loop_tape *t, loop_machine m)
{
  bool wide = m.level == CPU_AVX512;
  int most = wide ? 32 : TAIL_MASK;
  *b = (body){.ctx = c, .tape = t, .wide = wide};
  b->end_reg[CLASS_VEC] = (uint8_t)(m.n_vectors && m.n_vectors < most ? m.n_vectors : most);
  b->end_reg[CLASS_MASK] = (uint8_t)(m.n_masks && m.n_masks < 6 ? FIRST_K + m.n_masks : 8);
}

void body_free(body *b)
{
  mem_free(b->ctx, b->values, b->cap_values);
  mem_free(b->ctx, b->ops, b->cap_ops);
  mem_free(b->ctx, b->consts, b->cap_consts);
  mem_free(b->ctx, b->out, b->cap_out);
}

/* -- Values and operations --------------------------------------------------------------------- */

bool body_grow(body *b, void *array, size_t *cap, uint32_t n, size_t item)
{
  if (LIKELY((n + 1) * item <= *cap))
    return true;
  void *old, *p;
  memcpy(&old, array, sizeof old);
  size_t wanted = *cap ? *cap * 2 : 64 * item;
  p = mem_realloc(b->ctx, old, *cap, wanted);
  if (!p) {
    b->failed = true;
    return false;
  }
  memcpy(array, &p, sizeof p);
  *cap = wanted;
  return true;
}

static uint16_t new_value(body *b, int kind, int cls, uint16_t what)
{
  if (b->n_values >= NO_VALUE - 1 ||
      !body_grow(b, &b->values, &b->cap_values, b->n_values, sizeof *b->values)) {
    b->failed = true;
    return NO_VALUE;
  }
  b->values[b->n_values] = (value){.kind = (uint8_t)kind,
                                   .cls = (uint8_t)cls,
                                   .reg = NO_REG,
                                   .what = what,
                                   .slot = NO_VALUE,
                                   .next = NEVER};
  return (uint16_t)b->n_values++;
}

static operation *new_operation(body *b, x86_op op)
{
  if (!body_grow(b, &b->ops, &b->cap_ops, b->n_ops, sizeof *b->ops))
    return NULL;
  operation *o = &b->ops[b->n_ops++];
  *o = (operation){.op = (uint8_t)op, .vl = b->wide ? VL512 : VL256, .dst = NO_VALUE,
                   .args = {NO_VALUE, NO_VALUE, NO_VALUE}};
  return o;
}

uint16_t body_op(body *b, x86_op op, uint16_t x, uint16_t y, uint16_t z, int imm)
{
  operation *o = b->failed ? NULL : new_operation(b, op);
  if (!o)
    return NO_VALUE;
  ASSERT((x == NO_VALUE || x < b->n_values) && (y == NO_VALUE || y < b->n_values) &&
           (z == NO_VALUE || z < b->n_values),
         "an operand that is no value");
  o->args[0] = x;
  o->args[1] = y;
  o->args[2] = z;
  o->imm = (uint8_t)imm;
  int cls = b->wide && x86_rows[op].operands[0] == 'K' ? CLASS_MASK : CLASS_VEC;
  uint16_t dst = new_value(b, VALUE_TEMP, cls, 0);
  b->ops[b->n_ops - 1].dst = dst;
  return dst;
}

static uint16_t unary(body *b, x86_op op, uint16_t x, int imm)
{
  return body_op(b, op, x, NO_VALUE, NO_VALUE, imm);
}
static uint16_t binary(body *b, x86_op op, uint16_t x, uint16_t y)
{
  return body_op(b, op, x, y, NO_VALUE, 0);
}
/* Append an operation on 128 bits. */
static uint16_t short_op(body *b, x86_op op, uint16_t x, uint16_t y)
{
  uint16_t v = binary(b, op, x, y);
  if (!b->failed)
    b->ops[b->n_ops - 1].vl = VL128;
  return v;
}
/* Let the last operation read memory. */
static void at(body *b, int place, int operand)
{
  if (b->failed)
    return;
  ASSERT(b->n_ops && operand <= UINT8_MAX, "no operation, or no such operand");
  b->ops[b->n_ops - 1].place = (uint8_t)place;
  b->ops[b->n_ops - 1].operand = (uint8_t)operand;
}
static void no_result(body *b)
{
  if (b->failed)
    return;
  ASSERT(b->ops[b->n_ops - 1].dst == b->n_values - 1, "another value was made since");
  b->ops[b->n_ops - 1].dst = NO_VALUE;
  b->n_values--;
}

static uint16_t find_constant(body *b, uint64_t bits, bool wide)
{
  uint32_t k = 0;
  while (k < b->n_consts && (b->consts[k].bits != bits || b->consts[k].wide != wide))
    k++;
  if (k == b->n_consts) {
    if (b->failed || !body_grow(b, &b->consts, &b->cap_consts, k, sizeof *b->consts))
      return NO_VALUE;
    uint16_t v = new_value(b, VALUE_CONST, CLASS_VEC, (uint16_t)k);
    b->consts[b->n_consts++] = (constant){.bits = bits, .wide = wide, .value = v};
    b->has_wide_consts |= wide;
    if (!b->failed)
      b->values[v].wide = wide;
  }
  return b->consts[k].value;
}

uint16_t body_bits(body *b, uint32_t bits)
{
  return find_constant(b, (uint64_t)bits << 32 | bits, false);
}

uint16_t body_double(body *b, double d)
{
  uint64_t bits;
  memcpy(&bits, &d, sizeof bits);
  return find_constant(b, bits, true);
}

uint16_t body_fix(body *b, uint16_t mask, uint16_t x, uint16_t y, int function)
{
  uint16_t v = body_op(b, b->wide ? X86_KORTESTW : X86_VMOVMSKPS, mask, x, y, function);
  b->has_fixes = true;
  at(b, PLACE_FIX, 0);
  if (!b->failed)
    b->values[v].cls = CLASS_VEC; /* the instruction is only the test */
  return v;
}

uint16_t body_compare(body *b, int how, uint16_t x, uint16_t y)
{
  return body_op(b, b->wide ? X86_VCMPPS_K : X86_VCMPPS, x, y, NO_VALUE, how);
}

uint16_t body_select(body *b, uint16_t mask, uint16_t x, uint16_t y)
{
  return body_op(b, b->wide ? X86_VBLENDMPS : X86_VBLENDVPS, y, x, mask, 0);
}

/* -- Operands ---------------------------------------------------------------------------------- */

/* Make a mask from bytes 0 or 1 that are in a vector (of bytes with AVX-512, of zero-extended bytes
 * with AVX2). */
static uint16_t mask_of_bytes(body *b, uint16_t v)
{
  return b->wide ? short_op(b, X86_VPTESTMB, v, v) : binary(b, X86_VPCMPGTD, v, body_bits(b, 0));
}

static uint16_t load_input(body *b, int k)
{
  const loop_tape *t = b->tape;
  ASSERT(k >= 0 && k < t->n_inputs, "no such input");
  bool row = t->input_kinds[k] == LOOP_ROW;
  uint16_t v;

  if (t->input_types[k] == TY_BOOL) {
    if (b->wide)
      v = short_op(b, row ? X86_VMOVDQU8 : X86_VPBROADCASTB, NO_VALUE, NO_VALUE);
    else
      v = unary(b, row ? X86_VPMOVZXBD : X86_VPBROADCASTB, NO_VALUE, 0);
    at(b, row ? PLACE_ROW : PLACE_ONE, k);
    return mask_of_bytes(b, v);
  }
  if (!row)
    return new_value(b, VALUE_ONE, CLASS_VEC, (uint16_t)k);
  v = unary(b, X86_VMOVUPS, NO_VALUE, 0);
  at(b, PLACE_ROW, k);
  return v;
}

static void store_result(body *b, int k, uint16_t v)
{
  int operand = b->tape->n_inputs + k;

  ASSERT(b->failed || v < b->n_values, "a result that is no value");
  if (b->tape->result_types[k] == TY_F32) {
    unary(b, X86_VMOVUPS_ST, v, 0);
  } else if (b->wide) {
    v = short_op(b, X86_VPMOVM2B, v, NO_VALUE); /* 0 or -1 */
    v = short_op(b, X86_VPABSB, v, NO_VALUE);
    short_op(b, X86_VMOVDQU8_ST, v, NO_VALUE);
  } else {
    uint16_t high = unary(b, X86_VEXTRACTI128, v, 1);
    v = binary(b, X86_VPACKSSDW, v, high);
    v = binary(b, X86_VPACKSSWB, v, v);
    v = short_op(b, X86_VPABSB, v, NO_VALUE);
    unary(b, X86_VMOVQ_ST, v, 0);
  }
  at(b, PLACE_ROW, operand);
  no_result(b);
}

/* -- Primitives -------------------------------------------------------------------------------- */

static const uint8_t arithmetic[N_TAPE_OPS] = {
  [TAPE_ADD] = X86_VADDPS,
  [TAPE_SUB] = X86_VSUBPS,
  [TAPE_MUL] = X86_VMULPS,
  [TAPE_DIV] = X86_VDIVPS,
};
/* how VROUNDPS rounds, + 1; without raising "inexact" */
static const uint8_t rounding[N_TAPE_OPS] = {
  [TAPE_RINT] = 1 + 8, [TAPE_FLOOR] = 1 + 9, [TAPE_CEIL] = 1 + 10, [TAPE_TRUNC] = 1 + 11,
};
static const uint8_t comparison[N_TAPE_OPS] = {
  [TAPE_EQ] = 1 + CMP_EQ, [TAPE_NE] = 1 + CMP_NEQ, [TAPE_LT] = 1 + CMP_LT, [TAPE_LE] = 1 + CMP_LE,
};

bool lower_can(tape_op op, tape_type type, tape_type from)
{
  if (type != TY_F32 && type != TY_BOOL)
    return false;
  switch (op) {
  case TAPE_CVT:
    return from == TY_F32 || from == TY_BOOL;
  case TAPE_EQ:
  case TAPE_NE:
  case TAPE_LT:
  case TAPE_LE:
  case TAPE_WHERE:
    return true;
  case TAPE_AND:
  case TAPE_OR:
  case TAPE_XOR:
  case TAPE_NOT:
    return type == TY_BOOL;
  case TAPE_RND:
  case TAPE_FMA:
  case TAPE_NEG:
  case TAPE_ABS:
  case TAPE_MAX:
  case TAPE_MIN:
  case TAPE_FMAX:
  case TAPE_FMIN:
  case TAPE_SQRT:
  case TAPE_RSQRT:
  case TAPE_SIGNBIT:
  case TAPE_COPYSIGN:
    return type == TY_F32;
  default:
    return type == TY_F32 && (arithmetic[op] || rounding[op] || body_has_math(op));
  }
}

/* Lower max and min.  x86's max returns its second operand if one is NaN or both are zeros: whether
 * NaN wins or loses, and which zero results, follow from the order of operands and one choice. */
static uint16_t lower_extreme(body *b, tape_op op, uint16_t x, uint16_t y)
{
  bool loses = op == TAPE_FMAX || op == TAPE_FMIN;
  x86_op raw = op == TAPE_MAX || op == TAPE_FMAX ? X86_VMAXPS : X86_VMINPS;
  uint16_t m = loses ? binary(b, raw, y, x) : binary(b, raw, x, y);
  return body_select(b, body_compare(b, CMP_UNORD, x, x), loses ? y : x, m);
}

static uint16_t lower_not(body *b, uint16_t x)
{
  return b->wide ? unary(b, X86_KNOTW, x, 0) : binary(b, X86_VXORPS, x, body_bits(b, UINT32_MAX));
}

static uint16_t lower_mask(body *b, tape_op op, uint16_t x, uint16_t y, uint16_t z)
{
  bool wide = b->wide;
  switch (op) {
  case TAPE_AND:
    return binary(b, wide ? X86_KANDW : X86_VANDPS, x, y);
  case TAPE_OR:
    return binary(b, wide ? X86_KORW : X86_VORPS, x, y);
  case TAPE_XOR:
  case TAPE_NE:
    return binary(b, wide ? X86_KXORW : X86_VXORPS, x, y);
  case TAPE_EQ:
    return binary(b, wide ? X86_KXNORW : X86_VPCMPEQD, x, y);
  case TAPE_LT:
    return binary(b, wide ? X86_KANDNW : X86_VANDNPS, x, y);
  case TAPE_LE:
    return lower_not(b, binary(b, wide ? X86_KANDNW : X86_VANDNPS, y, x));
  case TAPE_WHERE:
    if (!wide)
      return body_select(b, x, y, z);
    return binary(b, X86_KORW, binary(b, X86_KANDW, x, y), binary(b, X86_KANDNW, x, z));
  default:
    return lower_not(b, x); /* NOT */
  }
}

static uint16_t lower_float(body *b, tape_op op, uint16_t x, uint16_t y, uint16_t z)
{
  if (arithmetic[op])
    return binary(b, arithmetic[op], x, y);
  if (comparison[op])
    return body_compare(b, comparison[op] - 1, x, y);
  if (rounding[op])
    return unary(b, b->wide ? X86_VRNDSCALEPS : X86_VROUNDPS, x, rounding[op] - 1);
  switch (op) {
  case TAPE_FMA:
    return body_op(b, X86_VFMADD132PS, x, y, z, 0);
  case TAPE_NEG:
    return binary(b, X86_VXORPS, x, body_bits(b, 0x80000000u));
  case TAPE_ABS:
    return binary(b, X86_VANDPS, x, body_bits(b, 0x7fffffffu));
  case TAPE_COPYSIGN:
    return binary(b, X86_VORPS, binary(b, X86_VANDPS, x, body_bits(b, 0x7fffffffu)),
                  binary(b, X86_VANDPS, y, body_bits(b, 0x80000000u)));
  case TAPE_SIGNBIT:
    return b->wide ? unary(b, X86_VPMOVD2M, x, 0) : unary(b, X86_VPSRAD, x, 31);
  case TAPE_SQRT:
    return unary(b, X86_VSQRTPS, x, 0);
  case TAPE_RSQRT:
    return binary(b, X86_VDIVPS, body_float(b, 1.0f), unary(b, X86_VSQRTPS, x, 0));
  case TAPE_WHERE:
    return body_select(b, x, y, z);
  case TAPE_MAX:
  case TAPE_MIN:
  case TAPE_FMAX:
  case TAPE_FMIN:
    return lower_extreme(b, op, x, y);
  default:
    return body_math(b, op, x);
  }
}

static uint16_t lower_convert(body *b, tape_type to, tape_type from, uint16_t x)
{
  if (to == from)
    return x;
  return to == TY_F32 ? body_select(b, x, body_float(b, 1.0f), body_float(b, 0.0f))
                      : body_compare(b, CMP_NEQ, x, body_float(b, 0.0f));
}

/* The present values of tape registers; inputs are loaded when first read. */
typedef struct registers {
  body *b;
  uint16_t value[256];
} registers;

static uint16_t read_reg(registers *r, int k)
{
  const loop_tape *t = r->b->tape;
  if (r->value[k] == NO_VALUE && k < t->n_inputs)
    r->value[k] = load_input(r->b, k);
  else if (r->value[k] == NO_VALUE && k < t->n_inputs + t->n_consts)
    r->value[k] = body_float(r->b, t->consts[k - t->n_inputs]);
  ASSERT(r->b->failed || r->value[k] != NO_VALUE, "a register is read before it is written");
  return r->value[k];
}

void lower_tape(body *b)
{
  static const uint8_t arity[N_TAPE_OPS] = {
#define TAPE(name, n_args, classes, result) n_args,
#include "ops/table/tape.def"
#undef TAPE
  };
  const loop_tape *t = b->tape;
  registers r = {.b = b};
  memset(r.value, 0xff, sizeof r.value);
  for (int k = 0; k < t->n_instrs && !b->failed; k++) {
    const tape_instr *i = &t->code[k];
    uint16_t x = read_reg(&r, i->a), y = NO_VALUE, z = NO_VALUE;
    if (arity[i->op] > 1)
      y = read_reg(&r, i->b);
    if (arity[i->op] > 2)
      z = read_reg(&r, i->c);
    if (i->op == TAPE_CVT)
      x = lower_convert(b, (tape_type)i->type, (tape_type)i->b, x);
    else if (i->op == TAPE_RND)
      ; /* float32 computes in itself */
    else
      x = (i->type == TY_BOOL ? lower_mask : lower_float)(b, (tape_op)i->op, x, y, z);
    r.value[i->dst] = x;
  }
  uint16_t results[256];
  for (int k = 0; k < t->n_results; k++)
    results[k] = read_reg(&r, t->results[k]);
  for (int k = 0; k < t->n_results && !b->failed; k++)
    store_result(b, k, results[k]);
}
