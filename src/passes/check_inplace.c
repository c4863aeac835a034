/* passes/check_inplace.c -- refuses calls of Python functions that work in place, which alias
 * analysis cannot see: PyTorch's CheckInplace.  Changes nothing. */
#include "passes/passes_int.h"

static void check(session *s, ir_node *n, void *arg)
{
  const ir_attr *a = ir_attr_find(n, "inplace");

  (void)arg;
  if (!ir_node_is_of_host(n) || !a || a->kind != ATTR_INT || !a->as.i)
    return;
  session_fail_status(s, RUSH_EARGUMENT, "RuntimeError", &n->range,
                      "inplace %s not supported in the JIT", ir_node_kind_name(n) + 1);
}

void pass_check_inplace(session *s, ir_graph *g) { pass_each(s, g->block, check, NULL); }
