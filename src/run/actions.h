/* run/actions.h -- the actions of instructions with a site, except calls, which change the frame.
 *
 * An action reads its operands with peek or take and sets its results with set_result; after
 * success it has released the operands that die (take moves them).  On failure registers are
 * unchanged: the frame is unwound. */
#ifndef RUSH_RUN_ACTIONS_H
#define RUSH_RUN_ACTIONS_H

#include "run/stack.h"

/* Read an operand, borrowed. */
static inline rush_value peek(const frame *f, uint32_t o)
{
  return o & OPERAND_CONST ? f->c->constants[o & OPERAND_INDEX] : f->regs[o & OPERAND_INDEX];
}
/* Read an operand, new: moved out of a register that dies. */
static inline rush_value take(frame *f, uint32_t o)
{
  rush_value v = peek(f, o);

  if (o & OPERAND_LAST)
    f->regs[o & OPERAND_INDEX] = value_none();
  else
    value_retain(v);
  return v;
}
static inline const uint32_t *operands(const frame *f, const site *s)
{
  return f->c->operands + s->first;
}
static inline void drop_operand(frame *f, uint32_t o)
{
  if (!(o & OPERAND_LAST))
    return;
  rush_value *r = &f->regs[o & OPERAND_INDEX];
  rush_value v = *r;

  *r = value_none();
  value_release(v);
}
static inline void drop_operands(frame *f, const site *s)
{
  const uint32_t *o = operands(f, s);

  for (uint32_t i = 0; i < s->n_args; i++)
    drop_operand(f, o[i]);
}
/* Set result i; steals. */
static inline void set_result(frame *f, const site *s, uint32_t i, rush_value v)
{
  uint32_t dst = i < s->n_results ? operands(f, s)[s->n_args + i] : NO_REG;

  if (dst == NO_REG)
    value_release(v);
  else
    f->regs[dst] = v;
}

/* Compare n_results values with the wants of the site. */
static inline bool results_fit(const frame *f, const site *s, const rush_value *v)
{
  const uint32_t *wants = operands(f, s) + s->n_args + s->n_results;

  for (uint32_t i = 0; i < s->n_results; i++)
    if (!want_takes((uint8_t)wants[i], v[i].tag))
      return false;
  return true;
}
/* Fail because a value does not have its static type, which loading and compiling should have
 * ensured.  The call ends. */
rush_status fail_type(call_ctx *cx, const char *what, const char *name) COLD;

typedef rush_status action(call_ctx *cx, frame *f, const site *s);
action act_list, act_list_unpack, act_tuple, act_tuple_unpack, act_tuple_index, act_tuple_slice,
  act_dict, act_new_object, act_raise, act_print, act_warn, act_isinstance, act_cast, act_check,
  act_type_check, act_guard,
  act_module_index, act_unsupported;
/* Like act_operator, for an operator whose n_made results go through the frame's row. */
rush_status act_operator_out(call_ctx *cx, frame *f, const site *s) RUSH_CHECKED;
rush_status act_operator(call_ctx *cx, frame *f, const site *s) RUSH_CHECKED;

#endif
