/* passes/quant_fusion.c -- replaces arithmetic between dequantize and quantize_per_tensor by the
 * operator on quantized tensors: PyTorch's QuantFusion, for the operators that need no packed
 * weights.
 *
 * Patterns are graphs in text (passes/tools.h).  The quantized operator gives its argument's dtype,
 * so a match is replaced only if the types show that this is the dtype asked for; PyTorch replaces
 * it in any case.  Results may differ by a unit: the sum is not rounded to float32 between.
 * O(nodes) per pattern. */
#include "ir/facts.h"
#include "ops/call/lookup.h"
#include "passes/passes_int.h"
#include "passes/tools.h"

#define TWO "graph(%x : Tensor, %y : Tensor, %scale : float, %zero : int, %dtype : int):\n"
#define ONE "graph(%x : Tensor, %scale : float, %zero : int, %dtype : int):\n"
#define FROM_X "  %a : Tensor = aten::dequantize(%x)\n"
#define FROM_Y "  %b : Tensor = aten::dequantize(%y)\n"
#define ALPHA "  %one : int = prim::Constant[value=1]()\n"
#define RELU "  %r : Tensor = aten::relu(%s)\n"
#define TO(v) \
  "  %q : Tensor = aten::quantize_per_tensor(" v ", %scale, %zero, %dtype)\n  return (%q)"
#define BY(call) "  %q : Tensor = quantized::" call "\n  return (%q)"

static const struct fusion { const char *op, *from, *to; } fusions[] = {
  {"quantized::add", TWO FROM_X FROM_Y ALPHA "  %s : Tensor = aten::add(%a, %b, %one)\n" TO("%s"),
   TWO BY("add(%x, %y, %scale, %zero)")},
  {"quantized::add_relu",
   TWO FROM_X FROM_Y ALPHA "  %s : Tensor = aten::add(%a, %b, %one)\n" RELU TO("%r"),
   TWO BY("add_relu(%x, %y, %scale, %zero)")},
  {"quantized::mul", TWO FROM_X FROM_Y "  %s : Tensor = aten::mul(%a, %b)\n" TO("%s"),
   TWO BY("mul(%x, %y, %scale, %zero)")},
  {"quantized::mul_relu", TWO FROM_X FROM_Y "  %s : Tensor = aten::mul(%a, %b)\n" RELU TO("%r"),
   TWO BY("mul_relu(%x, %y, %scale, %zero)")},
  {"quantized::hardswish", ONE FROM_X "  %s : Tensor = aten::hardswish(%a)\n" TO("%s"),
   ONE BY("hardswish(%x, %scale, %zero)")},
};

/* True if the tensor that is dequantized has the dtype that is asked for. */
static bool keeps_dtype(void *user, const ir_match *m)
{
  const ir_block *b = m->pattern->block;
  const ir_value *x = m->values[ir_block_input(b, 0)->scratch];
  const ir_value *dtype = m->values[ir_block_input(b, ir_block_n_inputs(b) - 1)->scratch];
  int64_t want;

  (void)user;
  return pass_is_constant_int(dtype, &want) && ir_facts_of(x->type)->dtype == want;
}

static ir_graph *parse(session *s, const ir_graph *g, const char *text)
{
  ir_graph *made = ir_parse(s, g->types, text);

  session_defer(s, ir_graph_free_deferred, made);
  return made;
}

void pass_quant_fusion(session *s, ir_graph *g)
{
  if (!ir_block_find(g->block, "aten::quantize_per_tensor", true, NULL))
    return;
  for (size_t i = 0; i < COUNT_OF(fusions); i++) {
    const op *o = session_op_find(s, str_of(fusions[i].op), STR(""));

    if (o && op_is_runnable(o))
      (void)rewrite_all(s, parse(s, g, fusions[i].from), parse(s, g, fusions[i].to), g,
                        keeps_dtype, NULL);
  }
}
