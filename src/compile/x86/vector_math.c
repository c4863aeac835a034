/* compile/x86/vector_math.c -- exp, log, tanh, erf and other functions as vector operations: the
 * same operations in the same order as ops/point/vmath.h (and ops/point/vmath512.h, which gives the
 * same bits); see there for their mathematics. A change there requires the same change here;
 * tests/compile/test_loop.c compares. Rejected: calling the C functions from the loop, which would
 * have to save all vector registers. */
#include "compile/x86/body.h"

typedef uint16_t val;

#define NONE NO_VALUE
#define OP2(name, op) \
  static val name(body *b, val x, val y) { return body_op(b, op, x, y, NONE, 0); }
OP2(add, X86_VADDPS)
OP2(sub, X86_VSUBPS)
OP2(mul, X86_VMULPS)
OP2(quotient, X86_VDIVPS)
OP2(smaller, X86_VMINPS) /* x < y ? x : y */
OP2(larger, X86_VMAXPS)
OP2(and_, X86_VANDPS)
OP2(or_, X86_VORPS)
OP2(xor_, X86_VXORPS)
OP2(add_int, X86_VPADDD)
OP2(sub_int, X86_VPSUBD)

static val fma_(body *b, val x, val y, val z) { return body_op(b, X86_VFMADD132PS, x, y, z, 0); }
static val fms(body *b, val x, val y, val z) { return body_op(b, X86_VFMSUB132PS, x, y, z, 0); }
static val root(body *b, val x) { return body_op(b, X86_VSQRTPS, x, NONE, NONE, 0); }
static val shift_left(body *b, val x, int n) { return body_op(b, X86_VPSLLD, x, NONE, NONE, n); }
static val shift_right(body *b, val x, int n) { return body_op(b, X86_VPSRAD, x, NONE, NONE, n); }
static val K(body *b, float f) { return body_float(b, f); }
static val absolute(body *b, val x) { return and_(b, x, body_bits(b, 0x7fffffffu)); }
static val negative(body *b, val x) { return xor_(b, x, body_bits(b, 0x80000000u)); }
/* Return y, which is not negative, with x's sign. */
static val sign(body *b, val y, val x) { return or_(b, y, and_(b, x, body_bits(b, 0x80000000u))); }
static val less(body *b, val x, val y) { return body_compare(b, CMP_LT, x, y); }

/* Evaluate a polynomial in x, the highest power first. */
static val poly(body *b, val x, const float *c, int n)
{
  val p = K(b, c[0]);
  for (int i = 1; i < n; i++)
    p = fma_(b, p, x, K(b, c[i]));
  return p;
}
#define POLY(b, x, ...)                    \
  poly(b, x, (const float[]){__VA_ARGS__}, \
       (int)(sizeof((const float[]){__VA_ARGS__}) / sizeof(float)))

/* -- Exponentials ------------------------------------------------------------------------------ */

#define MAGIC 0x1.8p23f

/* Return y * 2^k.  magic: k + MAGIC. */
static val scale(body *b, val y, val k, val magic)
{
  if (b->wide)
    return body_op(b, X86_VSCALEFPS, y, k, NONE, 0);
  val n = sub_int(b, magic, body_bits(b, 0x4b400000u));
  val low = shift_right(b, n, 1), high = sub_int(b, n, low), bias = body_bits(b, 127);
  y = mul(b, y, shift_left(b, add_int(b, low, bias), 23));
  return mul(b, y, shift_left(b, add_int(b, high, bias), 23));
}

typedef struct reduced { /* x = k ln 2 + r */
  val magic, k, r;
} reduced;
static reduced exp_reduce(body *b, val x)
{
  reduced e;
  e.magic = fma_(b, x, K(b, 0x1.715476p+0f), K(b, MAGIC));
  e.k = sub(b, e.magic, K(b, MAGIC));
  e.r = fma_(b, e.k, K(b, -0x1.62e4p-1f), x);
  e.r = fma_(b, e.k, K(b, -0x1.7f7d1cp-20f), e.r);
  return e;
}
static val exp_poly(body *b, val r)
{
  val p =
    POLY(b, r, 0x1.6a26f6p-10f, 0x1.123b04p-7f, 0x1.5558f2p-5f, 0x1.555490p-3f, 0x1.fffffcp-2f);
  return add(b, fma_(b, mul(b, r, r), p, r), K(b, 1.0f));
}
static val clamp(body *b, val x, float low, float high)
{
  return larger(b, K(b, low), smaller(b, K(b, high), x));
}

static val exp_(body *b, val x)
{
  reduced e = exp_reduce(b, clamp(b, x, -104.0f, 89.0f));
  return scale(b, exp_poly(b, e.r), e.k, e.magic);
}
static val exp2_(body *b, val x)
{
  x = clamp(b, x, -151.0f, 129.0f);
  val t = add(b, x, K(b, MAGIC)), k = sub(b, t, K(b, MAGIC)), f = sub(b, x, k);
  val r = fma_(b, f, K(b, -0x1.05c610p-29f), mul(b, f, K(b, 0x1.62e430p-1f)));
  return scale(b, exp_poly(b, r), k, t);
}
static val expm1_(body *b, val x)
{
  reduced e = exp_reduce(b, clamp(b, x, -20.0f, 89.0f));
  val p =
    POLY(b, e.r, 0x1.6d99f6p-10f, 0x1.12290ep-7f, 0x1.555486p-5f, 0x1.5554aep-3f, 0x1.000000p-1f);
  p = fma_(b, mul(b, e.r, e.r), p, e.r);
  /* 2^(n-1) */
  val s = shift_left(b, sub_int(b, e.magic, body_bits(b, 0x4b400000u - 126)), 23);
  val y = fma_(b, p, s, sub(b, s, K(b, 0.5f)));
  y = body_select(b, body_compare(b, CMP_EQ, e.k, K(b, 0.0f)), p, add(b, y, y));
  return body_select(b, body_compare(b, CMP_EQ, x, K(b, 0.0f)), x, y);
}
static val sigmoid(body *b, val x)
{
  val one = K(b, 1.0f);
  return quotient(b, one, add(b, exp_(b, negative(b, x)), one));
}
static val tanh_(body *b, val x)
{
  val a = absolute(b, x), s = mul(b, a, a);
  val p =
    POLY(b, s, -0x1.6f3eccp-8f, 0x1.50b73ep-6f, -0x1.b80678p-5f, 0x1.1105a0p-3f, -0x1.55552cp-2f);
  val small = fma_(b, mul(b, a, s), p, a);
  val c = smaller(b, K(b, 10.0f), a), e = add(b, exp_(b, add(b, c, c)), K(b, 1.0f));
  val big = sub(b, K(b, 1.0f), quotient(b, K(b, 2.0f), e));
  return sign(b, body_select(b, less(b, a, K(b, 0.625f)), small, big), x);
}
/* Return e^a / 2 for the hyperbolic functions, a = |x| at most 90. */
static val half_exp(body *b, val a)
{
  reduced e = exp_reduce(b, smaller(b, K(b, 90.0f), a));
  return scale(b, exp_poly(b, e.r), sub(b, e.k, K(b, 1.0f)), sub_int(b, e.magic, body_bits(b, 1)));
}
static val sinh_(body *b, val x)
{
  val a = absolute(b, x), s = mul(b, a, a),
      p = POLY(b, s, 0x1.ab5838p-13f, 0x1.10f6e2p-7f, 0x1.55559ap-3f);
  val small = fma_(b, mul(b, a, s), p, a), h = half_exp(b, a);
  val big = sub(b, h, quotient(b, K(b, 0.25f), h));
  return sign(b, body_select(b, less(b, a, K(b, 1.0f)), small, big), x);
}
static val cosh_(body *b, val x)
{
  val h = half_exp(b, absolute(b, x));
  return add(b, h, quotient(b, K(b, 0.25f), h));
}

/* -- Logarithms -------------------------------------------------------------------------------- */

typedef struct split { /* x = 2^e (1 + f); n: e as an integer */
  val e, f, n;
} split;
static split log_split(body *b, val x)
{
  val k = and_(b, sub_int(b, x, body_bits(b, 0x3f2aaaabu)), body_bits(b, 0xff800000u));
  split s = {.n = shift_right(b, k, 23)};
  s.e = body_op(b, X86_VCVTDQ2PS, s.n, NONE, NONE, 0);
  s.f = sub(b, sub_int(b, x, k), K(b, 1.0f));
  return s;
}
/* Split the logarithm of any positive x, with denormals scaled up; only then is e right. */
static split log_split_any(body *b, val x)
{
  val tiny = less(b, x, K(b, 0x1p-126f));
  split s = log_split(b, body_select(b, tiny, mul(b, x, K(b, 0x1p23f)), x));
  s.e = sub(b, s.e, body_select(b, tiny, K(b, 23.0f), K(b, 0.0f)));
  return s;
}
static val log_tail(body *b, val f)
{
  val p = POLY(b, f, -0x1.0def9cp-3f, 0x1.1e01d2p-3f, -0x1.f056f8p-4f, 0x1.1eee5cp-3f,
               -0x1.55b6f4p-3f, 0x1.99ce7ap-3f, -0x1.fffe64p-3f, 0x1.55550cp-2f, -0.5f);
  return mul(b, mul(b, f, f), p);
}
static val log_special(body *b, val x, val y)
{
  y = body_select(b, less(b, x, body_bits(b, 0x7f800000u)), y, x);
  y = body_select(b, less(b, x, K(b, 0.0f)), body_bits(b, 0x7fc00000u), y);
  return body_select(b, body_compare(b, CMP_EQ, x, K(b, 0.0f)), body_bits(b, 0xff800000u), y);
}
static val log_(body *b, val x)
{
  split s = log_split_any(b, x);
  val t = fma_(b, s.e, K(b, 0x1.7f7d1cp-20f), log_tail(b, s.f));
  return log_special(b, x, fma_(b, s.e, K(b, 0x1.62e4p-1f), add(b, s.f, t)));
}
static val log2_(body *b, val x)
{
  split s = log_split_any(b, x);
  val t = log_tail(b, s.f), h = add(b, s.f, t), l = add(b, sub(b, s.f, h), t);
  l = fma_(b, h, K(b, 0x1.4ae0cp-26f), mul(b, l, K(b, 0x1.715476p+0f)));
  return log_special(b, x, add(b, fma_(b, h, K(b, 0x1.715476p+0f), l), s.e));
}
static val log10_(body *b, val x)
{
  split s = log_split_any(b, x);
  val t = log_tail(b, s.f), h = add(b, s.f, t), l = add(b, sub(b, s.f, h), t);
  l = fma_(b, h, K(b, -0x1.5b235ep-27f), mul(b, l, K(b, 0x1.bcb7b2p-2f)));
  l = fma_(b, s.e, K(b, -0x1.ec10c0p-27f), l);
  return log_special(b, x, fma_(b, s.e, K(b, 0x1.344136p-2f), fma_(b, h, K(b, 0x1.bcb7b2p-2f), l)));
}
static val log1p_(body *b, val x)
{
  val one = K(b, 1.0f), u = add(b, one, x);
  val lost = body_select(b, less(b, x, one), sub(b, x, sub(b, u, one)), sub(b, one, sub(b, u, x)));
  split s = log_split(b, u);
  val by = shift_left(b, sub_int(b, body_bits(b, 127), s.n), 23);
  lost = body_select(b, less(b, u, K(b, 0x1p26f)), mul(b, lost, by), K(b, 0.0f));
  val f = add(b, s.f, lost), t = fma_(b, s.e, K(b, 0x1.7f7d1cp-20f), log_tail(b, f));
  val y = log_special(b, u, fma_(b, s.e, K(b, 0x1.62e4p-1f), add(b, f, t)));
  return body_select(b, less(b, absolute(b, x), K(b, 0x1p-25f)), x, y);
}

/* -- Error function ---------------------------------------------------------------------------- */

static val erf_(body *b, val x)
{
  val a = absolute(b, x), s = mul(b, a, a);
  val p = POLY(b, s, -0x1.395826p-11f, 0x1.471592p-8f, -0x1.b686b4p-6f, 0x1.ce1a42p-4f,
               -0x1.8126e6p-2f, 0x1.06eba6p-3f);
  val small = fma_(b, p, a, a), c = smaller(b, K(b, 4.0f), a);
  val q = POLY(b, c, -0x1.860f1ap-17f, 0x1.569d48p-12f, -0x1.df8638p-9f, 0x1.85df80p-6f,
               -0x1.b34ebcp-4f, -0x1.452f6ep-1f, -0x1.077bf0p-3f);
  val big = sub(b, K(b, 1.0f), exp_(b, fms(b, q, c, c)));
  return sign(b, body_select(b, less(b, a, K(b, 0.93f)), small, big), x);
}
static val phi(body *b, val x)
{
  return fma_(b, K(b, 0.5f), erf_(b, mul(b, x, K(b, 0x1.6a09e6p-1f))), K(b, 0.5f));
}

/* -- Inverse circular functions ---------------------------------------------------------------- */

static val asin_tail(body *b, val s, val z)
{
  val p =
    POLY(b, z, 0x1.59daf2p-5f, 0x1.8ba240p-6f, 0x1.748c62p-5f, 0x1.33014ep-4f, 0x1.5555cap-3f);
  return mul(b, mul(b, s, z), p);
}
static val asin_(body *b, val x)
{
  val a = absolute(b, x), zb = fma_(b, a, K(b, -0.5f), K(b, 0.5f));
  val inner = body_compare(b, CMP_LE, a, K(b, 0.5f));
  val z = body_select(b, inner, mul(b, a, a), zb), s = body_select(b, inner, a, root(b, zb));
  val t = asin_tail(b, s, z), twice = add(b, s, add(b, t, K(b, 0x1.777a5cp-26f)));
  val big = sub(b, K(b, 0x1.921fb6p+0f), add(b, twice, twice));
  val y = sign(b, body_select(b, inner, add(b, s, t), big), x);
  return body_select(b, body_compare(b, CMP_LE, a, K(b, 1.0f)), y, body_bits(b, 0x7fc00000u));
}
static val acos_(body *b, val x)
{
  val a = absolute(b, x), zb = fma_(b, a, K(b, -0.5f), K(b, 0.5f));
  val inner = body_compare(b, CMP_LE, a, K(b, 0.5f));
  val z = body_select(b, inner, mul(b, x, x), zb), s = body_select(b, inner, x, root(b, zb));
  val t = asin_tail(b, s, z);
  val mid = sub(b, K(b, 0x1.921fb6p+0f), add(b, s, add(b, t, K(b, 0x1.777a5cp-25f))));
  val end = add(b, s, t);
  end = add(b, end, end);
  val left = sub(b, K(b, 0x1.921fb6p+1f), add(b, end, K(b, 0x1.777a5cp-24f)));
  end = body_select(b, less(b, x, K(b, 0.0f)), left, end);
  val y = body_select(b, inner, mid, end);
  return body_select(b, body_compare(b, CMP_LE, a, K(b, 1.0f)), y, body_bits(b, 0x7fc00000u));
}
static val atan_poly(body *b, val a)
{
  val s = mul(b, a, a);
  val p = POLY(b, s, 0x1.85c846p-9f, -0x1.0f9d74p-6f, 0x1.64bfe8p-5f, -0x1.367bc2p-4f,
               0x1.b566ccp-4f, -0x1.231b26p-3f, 0x1.997ad6p-3f, -0x1.5554e6p-2f);
  return fma_(b, mul(b, a, s), p, a);
}
static val atan_(body *b, val x)
{
  val a = absolute(b, x), one = K(b, 1.0f), over = less(b, one, a);
  val r = atan_poly(b, body_select(b, over, quotient(b, one, a), a));
  val far = sub(b, K(b, 0x1.921fb6p+0f), add(b, r, K(b, 0x1.777a5cp-25f)));
  return sign(b, body_select(b, over, far, r), x);
}

/* -- All of them ------------------------------------------------------------------------------- */

typedef val math_fn(body *b, val x);
static math_fn *const functions[N_TAPE_OPS] = {
  [TAPE_EXP] = exp_,   [TAPE_EXP2] = exp2_,   [TAPE_EXPM1] = expm1_, [TAPE_LOG] = log_,
  [TAPE_LOG2] = log2_, [TAPE_LOG10] = log10_, [TAPE_LOG1P] = log1p_, [TAPE_SIGMOID] = sigmoid,
  [TAPE_TANH] = tanh_, [TAPE_SINH] = sinh_,   [TAPE_COSH] = cosh_,   [TAPE_ERF] = erf_,
  [TAPE_PHI] = phi,    [TAPE_ASIN] = asin_,   [TAPE_ACOS] = acos_,   [TAPE_ATAN] = atan_,
};

static bool is_trig(tape_op op) { return op == TAPE_SIN || op == TAPE_COS || op == TAPE_TAN; }

bool body_has_math(tape_op op) { return functions[op] != NULL || is_trig(op); }

uint16_t body_math(body *b, tape_op op, uint16_t x)
{
  return is_trig(op) ? body_trig(b, op, x) : functions[op](b, x);
}
