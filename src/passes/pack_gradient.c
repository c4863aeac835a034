/* passes/pack_gradient.c -- the pass pack_gradient by name; autodiff/pack.c, which is behind this
 * folder, does it. */
#include "passes/passes_int.h"

#include "ops/call/call.h"

void pass_pack_gradient(session *s, ir_graph *g)
{
  const op_body_runtime *rt = context_slot_get(s->cx->ctx, SLOT_PROGRAM);

  if (!rt)
    session_fail_status(s, RUSH_EUNSUPPORTED, NULL, NULL,
                        "packing gradients: this context runs no programs");
  rt->pack_gradients(s, g);
}
