#include "ops/pointwise.h"

rush_status pointwise_call(rush_call *call)
{
  return call_unsupported(call->cx, "%s: formulas do not run yet", call->op->schema->name);
}
