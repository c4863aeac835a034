/* export/autocast.h -- how PyTorch's CPU autocast converts an operator's arguments.
 *
 * Programs in the training dialect hold their autocast regions as wrappers: the casts are not in
 * the graph, and are inserted when it is read. */
#ifndef RUSH_EXPORT_AUTOCAST_H
#define RUSH_EXPORT_AUTOCAST_H

#include "base/text.h"

typedef enum autocast_policy {
  /* unchanged; operators themselves promote what PyTorch promotes to the widest dtype */
  AUTOCAST_NONE,
  AUTOCAST_LOWER,  /* floating tensors, except double, become the region's dtype */
  AUTOCAST_FLOAT32 /* floating tensors, except double, become float32 */
} autocast_policy;

/* Return the policy by qualified name and overload: "aten::conv1d", "padding". */
autocast_policy autocast_policy_of(const char *name, const char *overload);

#endif
