/* ops/math/linalg_complex.c -- linalg_num.inc for complex doubles. */
#include "base/cmplx.h"
#undef I

#define num double complex
#define CONJ(x) conj(x)
#define REAL(x) creal(x)
#define SIZE1(x) (fabs(creal(x)) + fabs(cimag(x)))
#define SIZE2(x) (creal(x) * creal(x) + cimag(x) * cimag(x))
#define ABS(x) cabs(x)
#define LINALG linalg_complex
#define DTYPE RUSH_COMPLEX128
#include "ops/math/linalg_num.inc"
