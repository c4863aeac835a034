/* ops/point/pointwise.h -- running pointwise operators of the table, inside src/ops/. */
#ifndef RUSH_OPS_POINTWISE_H
#define RUSH_OPS_POINTWISE_H

#include "ops/call/call.h"

/* Call a base operator, or its in-place or out= variant (depending on call->op). */
rush_status pointwise_call(rush_call *call) RUSH_CHECKED;

#endif
