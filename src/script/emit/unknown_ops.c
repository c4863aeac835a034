/* script/emit/unknown_ops.c -- operators of archives that are not registered here.
 *
 * A program with such an operator can be read: only running the call fails (IR_UNKNOWN_OP).  Its
 * result's type is not in the archive: it is a Tensor, until the first use that declares another
 * one (an annotation, a parameter, a tuple that it is unpacked to).  In source text such an
 * operator is refused at once, as in PyTorch. */
#include "script/emit/emit_int.h"

bool em_allows_unknown(const emitter *e) { return e->names->version > 0; }

ir_value *em_unknown_op(emitter *e, const char *name, const call_args *a)
{
  ir_value **in = session_array(e->s, ir_value *, (size_t)a->n + a->n_kwargs + 1);
  text_buf *names = session_text(e->s);

  for (uint32_t i = 0; i < a->n; i++)
    in[i] = a->args[i];
  for (uint32_t i = 0; i < a->n_kwargs; i++) {
    in[a->n + i] = a->kwargs[i].value;
    text_printf(names, "%s%s", i ? " " : "", a->kwargs[i].name);
  }
  ir_node *n = em_put(e, ir_node_new(e->s, e->g, IR_UNKNOWN_OP, in, a->n + a->n_kwargs));
  ir_attr_set_string(e->s, n, "_kind", session_strdup(e->s, name));
  if (a->n_kwargs)
    ir_attr_set_string(e->s, n, "_names", session_take_text(e->s, names));
  return ir_node_add_output(e->s, n, type_simple(TYPE_TENSOR));
}

static bool is_guessed(const ir_value *v)
{
  return v->node && v->node->kind == IR_UNKNOWN_OP && !v->uses && v->type->kind == TYPE_TENSOR;
}

void em_declare_unknown(ir_value *v, const type *t)
{
  const type *inner = em_unwrap_optional(t);

  if (is_guessed(v) && inner->kind != TYPE_TENSOR && inner->kind != TYPE_ANY && !type_has_vars(t))
    v->type = t;
}

void em_unpack_unknown(emitter *e, ir_value *v, uint32_t n)
{
  const type **elems = session_array(e->s, const type *, (size_t)n + 1);

  for (uint32_t i = 0; i < n; i++)
    elems[i] = type_simple(TYPE_TENSOR);
  if (n > 0 && is_guessed(v))
    v->type = type_tuple(&e->p->types, elems, n);
}
