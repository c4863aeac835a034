/* ops/kernels/quantized/quantized.h -- packed weights of quantized layers, and their custom
 * classes.
 *
 * The classes are PyTorch's:
 * torch.classes.quantized.{Linear,Conv2d,Conv3d,Embedding}PackedParamsBase and
 * torch.classes.rnn.CellParamsBase; archives contain their state, which the classes of
 * custom_class_known read and write.  An instance keeps the original weight and its packed form.
 * Immutable after creation. */
#ifndef RUSH_OPS_QUANTIZED_H
#define RUSH_OPS_QUANTIZED_H

#include "ops/call/call.h"
#include "ops/math/qgemm.h"

/* Return a class of this file by its qualified name, or NULL. */
const custom_class *custom_class_known(str name);
/* Return the reason why a class may be unknown, to append to an error: "", or the missing build
 * option. */
const char *custom_class_hint(void);

extern const custom_class linear_packed_class, conv2d_packed_class, conv3d_packed_class,
  embedding_packed_class, cell_params_class;

/* Get argument i as an instance of `cls`; fails with the operator's name if it is not one. */
rush_status call_custom(rush_call *c, uint32_t i, const custom_class *cls,
                        void **self) RUSH_CHECKED;

/* Scales and zero points of a weight, one per output channel or one for all. */
typedef struct weight_params {
  int64_t n;      /* 1, or output channels */
  float *scales;
  int32_t *zeros;
  bool any_zero;  /* a zero point that is not 0 */
} weight_params;
rush_status weight_params_read(call_ctx *cx, const rush_tensor *w, weight_params *out) RUSH_CHECKED;
void weight_params_free(context *c, weight_params *p);
/* Check that the zero point of bytes is in their range. */
rush_status check_byte_params(call_ctx *cx, const quantizer *q) RUSH_CHECKED;

/* -- Linear ------------------------------------------------------------------------------------ */

typedef struct linear_packed {
  context *ctx;
  rush_tensor *weight,
    /* the weight as passed in; rounded to float16 values, as float32, if `half`; bias may be
     * NULL */
    *bias;
  bool half;
  qgemm_packed *packed;       /* of the integers, unless `half` */
  weight_params params;
} linear_packed;

/* Compute with float32 in and out: the input is quantized by its own range. */
rush_status linear_packed_dynamic(call_ctx *cx, const linear_packed *p, rush_tensor *x,
                                  bool reduce_range, bool relu, rush_tensor **out) RUSH_CHECKED;

/* -- From sums of products to results ---------------------------------------------------------- */

typedef struct requant {
  int64_t n, k;               /* columns; terms of a sum */
  const weight_params *w;
  int64_t first;              /* of w's and bias's channels */
  const int32_t *column_sums; /* n */
  const float *bias;          /* of all channels, or NULL */
  float a_scale;
  int32_t a_zero;
  bool relu;
  float out_scale;            /* of quantized results */
  int32_t out_zero;
} requant;
/* Requantize one row; row_sum is that of A's integers, needed if a weight has a zero point. */
void requant_float(const requant *r, const int32_t *acc, int32_t row_sum, float *out);
void requant_bytes(const requant *r, const int32_t *acc, int32_t row_sum, uint8_t *out);

/* Values of requant for each channel, precomputed; only for weights without zero points. */
typedef struct requant_table {
  int64_t n;
  float *factor, *bias; /* one block with `less` behind */
  int32_t *less;
} requant_table;
/* Make a table.  r: of all n channels; column_sums NULL: nothing is subtracted.  `real`: for
 * requant_float's results. */
rush_status requant_table_new(call_ctx *cx, const requant *r, bool real,
                              requant_table *out) RUSH_CHECKED;
void requant_table_free(context *c, requant_table *t);

#endif
