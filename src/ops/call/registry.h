/* ops/call/registry.h -- the operators of a context, inside src/ops/.
 *
 * Operators are built (their schemas parsed) one name at a time, at first use, under the registry's
 * lock, and published with one atomic store; readers take no lock.  There are three sources, in
 * this order: names of the generated table, names registered from outside, and the compressed rest
 * of PyTorch's schemas. Everything lives as long as the context. */
#ifndef RUSH_OPS_REGISTRY_H
#define RUSH_OPS_REGISTRY_H

#include "base/threads.h"
#include "ops/call/call.h"

typedef struct op_group { /* all overloads of a name; immutable */
  str name;
  uint32_t n;
  const op *ops[];
} op_group;

/* Return the variant's argument for the base's: its index, or -1 (use the default). */
static inline int variant_arg(const op *variant, uint32_t base_arg)
{
  const schema *b = variant->base->schema;
  if (variant->variant == VARIANT_INPLACE && base_arg == 0)
    return 0;
  return schema_arg_index(variant->schema, str_of(b->args[base_arg].name));
}

#endif
