/* compile/x86/trig.c -- sine, cosine and tangent as in ops/point/vmath.h: reduced in double, half a
 * vector at a time. From 2^45 on the C library computes them, through a jump that is almost never
 * taken, since an exact reduction of such numbers needs hundreds of bits. The steps and their order
 * are those of ops/point/vmath.h, so that compiled code and the tape runner compute the same bits.
 */
#include "compile/x86/body.h"
#include "ops/point/vmath.h"

typedef uint16_t val;

#define NONE NO_VALUE
static val op1(body *b, x86_op op, val x, int imm) { return body_op(b, op, x, NONE, NONE, imm); }
static val op2(body *b, x86_op op, val x, val y, int imm)
{
  return body_op(b, op, x, y, NONE, imm);
}
static val mul(body *b, val x, val y) { return op2(b, X86_VMULPS, x, y, 0); }
static val fma_(body *b, val x, val y, val z) { return body_op(b, X86_VFMADD132PS, x, y, z, 0); }
static val fma_double(body *b, val x, val y, val z)
{
  return body_op(b, X86_VFMADD132PD, x, y, z, 0);
}

/* Reduce half the lanes, in double: t, whose low bits are n, and r in float. */
static val reduce_half(body *b, val d, val *t)
{
  *t = fma_double(b, d, body_double(b, 0x1.45f306dc9c883p-1), body_double(b, 0x1.8p52));
  val k = op2(b, X86_VSUBPD, *t, body_double(b, 0x1.8p52), 0);
  val r = fma_double(b, k, body_double(b, -0x1.921fb54442d18p+0), d);
  return op1(b, X86_VCVTPD2PS, fma_double(b, k, body_double(b, -0x1.1a62633145c07p-54), r), 0);
}

/* Reduce x = n pi/2 + r. */
static val reduce(body *b, val x, val *n)
{
  val t0, t1, high = op1(b, b->wide ? X86_VEXTRACTF64X4 : X86_VEXTRACTI128, x, 1);
  val r0 = reduce_half(b, op1(b, X86_VCVTPS2PD, x, 0), &t0);
  val r1 = reduce_half(b, op1(b, X86_VCVTPS2PD, high, 0), &t1);
  if (b->wide) {
    val n0 = op1(b, X86_VPMOVQD, t0, 0), n1 = op1(b, X86_VPMOVQD, t1, 0);
    *n = op2(b, X86_VINSERTF64X4, n0, n1, 1);
    return op2(b, X86_VINSERTF64X4, r0, r1, 1);
  }
  *n = op1(b, X86_VPERMQ, op2(b, X86_VSHUFPS, t0, t1, 0x88), 0xd8);
  return op2(b, X86_VINSERTF128, r0, r1, 1);
}

static val poly(body *b, val x, const float *c, int n)
{
  val p = body_float(b, c[0]);
  for (int i = 1; i < n; i++)
    p = fma_(b, p, x, body_float(b, c[i]));
  return p;
}
#define POLY(b, x, ...)                    \
  poly(b, x, (const float[]){__VA_ARGS__}, \
       (int)(sizeof((const float[]){__VA_ARGS__}) / sizeof(float)))

static val sine(body *b, val r, val s)
{
  val p = POLY(b, s, -0x1.992c14p-13f, 0x1.1106fcp-7f, -0x1.555544p-3f);
  return fma_(b, mul(b, r, s), p, r);
}
static val cosine(body *b, val s)
{
  return POLY(b, s, 0x1.99e31ap-16f, -0x1.6c0c22p-10f, 0x1.55554ap-5f, -0.5f, 1.0f);
}
static val tangent(body *b, val r, val s)
{
  val p = POLY(b, s, 0x1.288b3ap-8f, -0x1.bfc1dcp-13f, 0x1.6af5e2p-7f, 0x1.5b2650p-6f,
               0x1.bb027ep-5f, 0x1.110cb0p-3f, 0x1.555564p-2f);
  return fma_(b, mul(b, r, s), p, r);
}

enum { FIX_SIN, FIX_COS, FIX_TAN };

static val is_huge(body *b, val x)
{
  val a = op2(b, X86_VANDPS, x, body_bits(b, 0x7fffffffu), 0);
  val large = body_compare(b, CMP_LE, body_float(b, 0x1p45f), a);
  val finite = body_compare(b, CMP_LT, a, body_bits(b, 0x7f800000u));
  return op2(b, b->wide ? X86_KANDW : X86_VANDPS, large, finite, 0);
}

uint16_t body_trig(body *b, tape_op op, uint16_t x)
{
  val n, r = reduce(b, x, &n), s = mul(b, r, r), y;
  val odd = b->wide ? op2(b, X86_VPTESTMD, n, body_bits(b, 1), 0) : op1(b, X86_VPSLLD, n, 31);
  if (op == TAPE_TAN) {
    val t = tangent(b, r, s);
    y = body_select(b, odd, op2(b, X86_VDIVPS, body_float(b, -1.0f), t, 0), t);
  } else {
    val sn = sine(b, r, s), cs = cosine(b, s);
    y = op == TAPE_SIN ? body_select(b, odd, cs, sn) : body_select(b, odd, sn, cs);
    val turn = op == TAPE_SIN ? n : op2(b, X86_VPADDD, n, body_bits(b, 1), 0);
    turn = op2(b, X86_VANDPS, op1(b, X86_VPSLLD, turn, 30), body_bits(b, 0x80000000u), 0);
    y = op2(b, X86_VXORPS, y, turn, 0);
  }
  if (op != TAPE_COS)
    y = body_select(b, body_compare(b, CMP_EQ, x, body_float(b, 0.0f)), x, y);
  return body_fix(b, is_huge(b, x), x, y,
                  op == TAPE_SIN   ? FIX_SIN
                  : op == TAPE_COS ? FIX_COS
                                   : FIX_TAN);
}

void trig_fix(const float *x, float *y, uint64_t function_lanes)
{
  int function = (int)(function_lanes / 32), n = (int)(function_lanes % 32);
  for (int i = 0; i < n; i++)
    if (VM_TRIG_BIG_F32(x[i]))
      y[i] = function == FIX_SIN   ? vm_sin_big_f32(x[i])
             : function == FIX_COS ? vm_cos_big_f32(x[i])
                                   : vm_tan_big_f32(x[i]);
}
