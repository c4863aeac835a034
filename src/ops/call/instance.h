/* ops/call/instance.h -- what a call of an operator decides before it computes, kept at the place
 * that calls it.
 *
 * An instance belongs to an operator and to what its results depend on: dtypes, sizes and strides
 * of the tensors, values of the other arguments.  It has the results' geometry, from the operator's
 * shape rule, or a pointwise operator's formula, types and numbers.  A call that fits one makes its
 * results and computes, without rule, promotion and checks: with what op_call would have done, and
 * the same bits.
 *
 * A cache holds the instances of one place in code; threads share it.  It grows to
 * INSTANCES_MOST, and is given up if other arguments keep coming. */
#ifndef RUSH_OPS_INSTANCE_H
#define RUSH_OPS_INSTANCE_H

#include "ops/call/call.h"

#define INSTANCES_MOST 16

typedef struct op_instance op_instance;

typedef struct op_cache {
  _Atomic(op_instance *) first;
  uint64_t constants; /* bit i: argument i is the same in every call */
  _Atomic uint32_t misses; /* calls that fitted none, up to a limit */
} op_cache;

/* What a call of a pointwise operator decides: ops/point/point_instance.c, which op_border names.
 * */
typedef struct point_instance point_instance;
struct point_instances {
  /* Make an instance for calls with such arguments: *out is new; NULL: they cannot have one. */
  rush_status (*make)(const rush_call *call, point_instance **out);
  /* True if a number, argument `arg`, may have any value of its tag. */
  bool (*rereads)(const point_instance *in, uint32_t arg);
  rush_status (*run)(const point_instance *in, rush_call *call);
  void (*free)(point_instance *in); /* NULL: nothing */
};

/* True if calls of the operator can have instances: its results are described by a rule or a
 * formula, and it writes nothing. */
bool op_has_instances(const op *o);
/* Like op_call, with the cache of the place that calls. */
rush_status op_call_cached(rush_call *c, op_cache *cache) RUSH_CHECKED;
/* Return how many instances there are. */
uint32_t op_cache_count(const op_cache *cache);
void op_cache_free(context *c, op_cache *cache);

#endif
