/* base/cmplx.h -- <complex.h> with CMPLX, which glibc defines only for gcc. */
#ifndef RUSH_BASE_CMPLX_H
#define RUSH_BASE_CMPLX_H

#include <complex.h>

#ifndef CMPLX
#define CMPLX(re, im) __builtin_complex((double)(re), (double)(im))
#endif

#endif
