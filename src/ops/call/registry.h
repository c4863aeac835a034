/* ops/call/registry.h -- the operators of a context, inside src/ops/.
 *
 * Operators are built (their schemas parsed) a name at a time, at first use, under the registry's
 * lock, and published with one atomic store; readers take no lock.  Three sources, asked in this
 * order: names of the generated table, names registered from outside, and the compressed rest of
 * PyTorch's schemas. Everything lives until the context goes. */
#ifndef RUSH_OPS_REGISTRY_H
#define RUSH_OPS_REGISTRY_H

#include "base/threads.h"
#include "ops/call/call.h"

typedef struct op_group { /* all overloads of a name; immutable */
  str name;
  uint32_t n;
  const op *ops[];
} op_group;

/* How an argument of the base is found among a variant's: index, or -1 (its default is taken). */
static inline int variant_arg(const op *variant, uint32_t base_arg)
{
  const schema *b = variant->base->schema;
  if (variant->variant == VARIANT_INPLACE && base_arg == 0)
    return 0;
  return schema_arg_index(variant->schema, str_of(b->args[base_arg].name));
}

#endif
