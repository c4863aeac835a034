/* ops/math/linalg_real.c -- linalg_num.inc for doubles. */
#define num double
#define CONJ(x) (x)
#define REAL(x) (x)
#define SIZE1(x) fabs(x)
#define SIZE2(x) ((x) * (x))
#define ABS(x) fabs(x)
#define LINALG linalg_real
#define DTYPE RUSH_FLOAT64
#include "ops/math/linalg_num.inc"
