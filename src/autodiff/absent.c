/* autodiff/absent.c -- replaces differentiation in builds without gradients (-Dautograd=false):
 * graphs that are differentiated run node by node. */
#include "autodiff/differentiate.h"
#include "autodiff/node.h"

void differentiate(session *s, const ir_graph *g, const diff_options *o, graph_gradient *out)
{
  (void)g, (void)o, (void)out;
  session_fail_status(s, RUSH_EUNSUPPORTED, NULL, NULL,
                      "differentiating a graph: this library was built without gradients "
                      "(-Dautograd=false)");
}

void differentiate_pack_nodes(session *s, ir_graph *g) { differentiate(s, g, NULL, NULL); }

void differentiate_pack(session *s, ir_graph *df) { (void)s, (void)df; }

rush_status diff_node_call(call_ctx *cx, diff_node *n, const rush_value *args, rush_value *results,
                           bool *done)
{
  (void)cx, (void)n, (void)args, (void)results;
  *done = false;
  return RUSH_OK;
}

void diff_node_describe(text_buf *out, const diff_node *n, uint32_t number,
                        void (*print_code)(text_buf *out, const function *f))
{
  (void)out, (void)n, (void)number, (void)print_code;
}

const op *diff_node_op(session *s)
{
  (void)s;
  return NULL;
}
