/* tensor/dtype.h -- properties of dtypes, and PyTorch's promotion.
 *
 * The numbers are PyTorch's ScalarType (rushlight.h). */
#ifndef RUSH_TENSOR_DTYPE_H
#define RUSH_TENSOR_DTYPE_H

#include "base/text.h"

typedef enum dtype_class {
  DTYPE_BOOL,
  DTYPE_INT,
  DTYPE_FLOAT,
  DTYPE_COMPLEX,
  DTYPE_QUANT
} dtype_class;

#define DTYPE_NONE (-1) /* "dtype not given", in int fields */
#define N_DTYPES RUSH_N_DTYPES

dtype_class dtype_class_of(int dtype);
bool dtype_is_valid(int64_t dtype);
static inline size_t dtype_bytes(int dtype) { return rush_dtype_bytes((rush_dtype)dtype); }
static inline const char *dtype_name(int dtype) { return rush_dtype_name((rush_dtype)dtype); }
/* Return the name in error messages and storages: "Float", "Long", "BFloat16". */
const char *dtype_aten_name(int dtype);
/* Return the C++ type, "float", "c10::Half", as some of PyTorch's messages name a dtype. */
const char *dtype_c_name(int dtype);
bool dtype_is_signed(int dtype);
static inline bool dtype_is_float8(int d)
{
  return d >= RUSH_FLOAT8_E5M2 && d <= RUSH_FLOAT8_E4M3FNUZ;
}
static inline bool dtype_is_float(int d) { return dtype_class_of(d) == DTYPE_FLOAT; }
static inline bool dtype_is_complex(int d) { return dtype_class_of(d) == DTYPE_COMPLEX; }
static inline bool dtype_is_integral(int d) /* without bool */
{
  return dtype_class_of(d) == DTYPE_INT;
}
/* Promote as torch.promote_types; DTYPE_NONE if PyTorch has no common dtype (float8 with
 * others). */
int dtype_promote(int a, int b);
/* True if torch.can_cast is. */
bool dtype_can_cast(int from, int to);
/* Convert float32 -> complex64, half -> complex32 ..., and back. */
int dtype_to_complex(int dtype);
int dtype_to_real(int dtype);
/* Return the dtype of d's elements in an operator that computes in floats: of integers and bools
 * the default dtype (context_default_dtype). */
static inline int dtype_to_float(int d, int default_dtype)
{
  return dtype_class_of(d) <= DTYPE_INT ? default_dtype : d;
}

/* The three categories of torch.result_type: dimensioned tensors, 0-dim tensors, Python numbers. */
typedef struct promote_state {
  int dim, zero, scalar; /* DTYPE_NONE while there is none */
  bool failed;           /* two had no common dtype */
  int default_dtype;     /* of Python floats */
} promote_state;
#define PROMOTE_INIT_WITH(default_dtype) \
  {DTYPE_NONE, DTYPE_NONE, DTYPE_NONE, false, default_dtype}
#define PROMOTE_INIT PROMOTE_INIT_WITH(RUSH_FLOAT32)
void promote_add(promote_state *p, int dtype, int ndim);
void promote_add_scalar(promote_state *p, dtype_class cls);
/* A tensor, which may be a number as one (TENSOR_WRAPPED_NUMBER). */
static inline void promote_add_tensor(promote_state *p, int dtype, int n_dims, bool is_number)
{
  if (is_number)
    promote_add_scalar(p, dtype_class_of(dtype));
  else
    promote_add(p, dtype, n_dims);
}
int promote_result(const promote_state *p); /* DTYPE_NONE when undefined */

/* Convert 16-bit floats, rounding to nearest even; NaN remains NaN. */
float half_to_float(uint16_t h);
uint16_t half_from_float(float f);
static inline float bf16_to_float(uint16_t h)
{
  union { uint32_t u; float f; } x = {.u = (uint32_t)h << 16};
  return x.f;
}
uint16_t bf16_from_float(float f);
float float8_to_float(int dtype, uint8_t v);
uint8_t float8_from_float(int dtype, float f);

#endif
