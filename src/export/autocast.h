/* export/autocast.h -- what PyTorch's CPU autocast does to an operator's arguments.
 *
 * Programs in the training dialect hold their autocast regions as wrappers: the casts are not in
 * the graph, and are put there when it is read. */
#ifndef RUSH_EXPORT_AUTOCAST_H
#define RUSH_EXPORT_AUTOCAST_H

#include "base/text.h"

typedef enum autocast_policy {
  /* as they come; what PyTorch promotes to the widest is promoted by the operator itself */
  AUTOCAST_NONE,
  AUTOCAST_LOWER,  /* floating tensors, but double, become the region's dtype */
  AUTOCAST_FLOAT32 /* floating tensors, but double, become float32 */
} autocast_policy;

/* By qualified name and overload: "aten::conv1d", "padding". */
autocast_policy autocast_policy_of(const char *name, const char *overload);

#endif
