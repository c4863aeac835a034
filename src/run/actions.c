/* run/actions.c -- the actions of instructions with a site: containers, printing, raising, and
 * calls of operators through the boxed path. They are functions outside the interpreter's loop, so
 * that the loop remains small. Operands that die are moved, not copied, and a kernel may use a
 * dying tensor's buffer, unless the frame only borrows it. */
#include "run/outputs.h"
#include "ir/facts.h"
#include "run/actions.h"

#include <stdio.h>

/* -- Operators --------------------------------------------------------------------------------- */

/* Return the bits of dying operands whose reference belongs to the caller: neither the kernel nor
 * the frame may release them. */
static uint64_t return_borrowed(frame *f, const site *s)
{
  const uint32_t *o = operands(f, s);
  uint64_t kept = 0;

  for (uint32_t i = 0; i < s->n_args && i < 64; i++)
    if (o[i] & OPERAND_LAST && frame_is_borrowed(f, o[i] & OPERAND_INDEX)) {
      f->borrowed &= ~(UINT64_C(1) << ((o[i] & OPERAND_INDEX) - f->c->n_kregs));
      f->regs[o[i] & OPERAND_INDEX] = value_none(); /* the row has it */
      kept |= UINT64_C(1) << i;
    }
  return s->last_use & ~kept;
}

rush_status fail_type(call_ctx *cx, const char *what, const char *name)
{
  return error_set_type(cx->err, RUSH_EFORMAT, "RuntimeError",
                        "%s %s has another type than the program declares: the file is damaged, or "
                        "code from outside returned a "
                        "wrong value",
                        what, name);
}

COLD static rush_status fail_results(call_ctx *cx, const site *s, rush_value *results)
{
  for (uint32_t i = 0; i < s->n_made; i++) {
    value_release(results[i]);
    results[i] = value_none();
  }
  if (s->op->outside)
    return call_fail(cx,
                     "the kernel of %s returned no result, or one of another type than its node "
                     "has",
                     s->op->schema->name);
  return fail_type(cx, "a result of", s->op->schema->name);
}

/* Convert None to an undefined tensor where the schema declares one: kernels return None for a
 * tensor that they did not make (an unrequested gradient). */
static inline rush_value as_declared(const op *o, uint32_t i, rush_value v)
{
  if (UNLIKELY(v.tag == RUSH_TAG_NONE) && i < o->schema->n_returns &&
      o->schema->returns[i].type->kind == TYPE_TENSOR)
    v.tag = RUSH_TAG_TENSOR;
  return v;
}

rush_status act_operator(call_ctx *cx, frame *f, const site *s)
{
  const uint32_t *o = operands(f, s);
  rush_value *row = f->regs + f->c->n_regs, *results = row + s->n_args;

  for (uint32_t i = 0; i < s->n_args; i++)
    row[i] = peek(f, o[i]);
  for (uint32_t i = 0; i < s->n_made; i++)
    results[i] = value_none();
  rush_call call = {.cx = cx,
                    .op = s->op,
                    .state = s->state,
                    .n_args = s->n_args,
                    .n_results = s->n_made,
                    .last_use = f->borrowed ? return_borrowed(f, s) : s->last_use,
                    .args = row,
                    .results = results};
  TRY(s->cache ? op_call_cached(&call, s->cache) : op_call(&call));
  if (UNLIKELY(s->checks) && UNLIKELY(!results_fit(f, s, results)))
    return fail_results(cx, s, results);
  drop_operands(f, s);
  for (uint32_t i = 0; i < s->n_results; i++)
    set_result(f, s, i, i < s->n_made ? as_declared(s->op, i, results[i]) : value_none());
  for (uint32_t i = s->n_results; i < s->n_made; i++)
    value_release(results[i]);
  return RUSH_OK;
}

/* Call an operator whose result is one of its function's: it may use the outer call's buffer. */
rush_status act_operator_out(call_ctx *cx, frame *f, const site *s)
{
  const output_buffers *o = f->result ? cx->outputs : NULL;
  const uint32_t leaf = f->result - 1 + s->leaf;

  if (LIKELY(!o || leaf >= o->n || !o->direct[leaf]))
    return act_operator(cx, f, s);
  cx->place = o->direct[leaf];
  rush_status st = act_operator(cx, f, s);
  cx->place = NULL;
  return st;
}

rush_status act_unsupported(call_ctx *cx, frame *f, const site *s)
{
  (void)f;
  return call_unsupported(cx, "%s cannot run here", s->name ? s->name : "an unknown operator");
}

/* -- Lists, tuples, dicts, objects ------------------------------------------------------------- */

rush_status act_list(call_ctx *cx, frame *f, const site *s)
{
  const uint32_t *o = operands(f, s);
  rush_list *l;

  TRY(list_new(cx, type_elem(s->type), s->n_args, &l));
  for (uint32_t i = 0; i < s->n_args; i++)
    l->items[l->n++] = take(f, o[i]);
  set_result(f, s, 0, value_heap_steal(RUSH_TAG_LIST, l));
  return RUSH_OK;
}

/* Copy the items to the results; move them if this was the container's last reference. */
static void return_items(frame *f, const site *s, rush_value container, rush_value *items)
{
  bool ours = operands(f, s)[0] & OPERAND_LAST && heap_is_unique(container.as.heap);

  for (uint32_t i = 0; i < s->n_results; i++) {
    uint32_t dst = operands(f, s)[s->n_args + i];
    if (dst == NO_REG)
      continue;
    rush_value v = items[i];
    if (ours)
      items[i] = value_none();
    else
      value_retain(v);
    f->regs[dst] = v;
  }
}

/* Take the container out of its register first, since a result may use the same register. */
rush_status act_list_unpack(call_ctx *cx, frame *f, const site *s)
{
  rush_value v = peek(f, operands(f, s)[0]);

  if (v.tag != RUSH_TAG_LIST || v.as.list->n != s->n_results)
    return call_fail(cx, "Expected %u elements in a list but found %zu", s->n_results,
                     v.tag == RUSH_TAG_LIST ? v.as.list->n : 0);
  if (UNLIKELY(!results_fit(f, s, v.as.list->items)))
    return fail_type(cx, "an item of", "a list");
  v = take(f, operands(f, s)[0]);
  return_items(f, s, v, v.as.list->items);
  value_release(v);
  return RUSH_OK;
}

rush_status act_tuple(call_ctx *cx, frame *f, const site *s)
{
  const uint32_t *o = operands(f, s);
  rush_tuple *t;

  TRY(tuple_new(cx, s->type && s->type->fields ? s->type : NULL, s->n_args, &t));
  for (uint32_t i = 0; i < s->n_args; i++)
    t->items[i] = take(f, o[i]);
  set_result(f, s, 0, value_heap_steal(RUSH_TAG_TUPLE, t));
  return RUSH_OK;
}

rush_status act_tuple_unpack(call_ctx *cx, frame *f, const site *s)
{
  rush_value v = peek(f, operands(f, s)[0]);

  if (v.tag != RUSH_TAG_TUPLE || v.as.tuple->n != s->n_results)
    return call_fail(cx, "Expected a tuple of %u elements", s->n_results);
  if (UNLIKELY(!results_fit(f, s, v.as.tuple->items)))
    return fail_type(cx, "an item of", "a tuple");
  v = take(f, operands(f, s)[0]);
  return_items(f, s, v, v.as.tuple->items);
  value_release(v);
  return RUSH_OK;
}

rush_status act_tuple_index(call_ctx *cx, frame *f, const site *s)
{
  const uint32_t *o = operands(f, s);
  rush_value v = peek(f, o[0]);
  int64_t i = peek(f, o[1]).as.i;

  if (v.tag != RUSH_TAG_TUPLE)
    return call_fail(cx, "Expected a tuple");
  int64_t n = (int64_t)v.as.tuple->n;
  i = i < 0 ? i + n : i;
  if (i < 0 || i >= n)
    return call_fail(cx, "Tuple list index out of range");
  if (UNLIKELY(!results_fit(f, s, &v.as.tuple->items[i])))
    return fail_type(cx, "an item of", "a tuple");
  rush_value item = value_retain(v.as.tuple->items[i]);
  drop_operands(f, s);
  set_result(f, s, 0, item);
  return RUSH_OK;
}

rush_status act_tuple_slice(call_ctx *cx, frame *f, const site *s)
{
  rush_value v = peek(f, operands(f, s)[0]);
  rush_tuple *t;

  if (v.tag != RUSH_TAG_TUPLE)
    return call_fail(cx, "Expected a tuple");
  int64_t n = (int64_t)v.as.tuple->n;
  int64_t begin = i64_max(0, i64_min(s->begin, n)), end = i64_max(begin, i64_min(s->end, n));

  TRY(tuple_new(cx, NULL, (size_t)(end - begin), &t));
  for (int64_t i = begin; i < end; i++)
    t->items[i - begin] = value_retain(v.as.tuple->items[i]);
  drop_operands(f, s);
  set_result(f, s, 0, value_heap_steal(RUSH_TAG_TUPLE, t));
  return RUSH_OK;
}

rush_status act_dict(call_ctx *cx, frame *f, const site *s)
{
  const uint32_t *o = operands(f, s);
  rush_dict *d;
  rush_status st = RUSH_OK;

  TRY(dict_new(cx, s->type->elems[0], s->type->elems[1], &d));
  for (uint32_t i = 0; i + 1 < s->n_args && st == RUSH_OK; i += 2) {
    rush_value key = take(f, o[i]);
    st = dict_set_steal(cx, d, key, take(f, o[i + 1]));
  }
  rush_value v = value_heap_steal(RUSH_TAG_DICT, d);
  if (st != RUSH_OK)
    value_release(v);
  else
    set_result(f, s, 0, v);
  return st;
}

rush_status act_new_object(call_ctx *cx, frame *f, const site *s)
{
  rush_object *o;

  if (s->type->kind != TYPE_CLASS) { /* uninitialized(T) */
    rush_value v;
    TRY(value_some(cx, s->type, &v));
    set_result(f, s, 0, v);
    return RUSH_OK;
  }
  if (!s->type->cls)
    return call_unsupported(cx, "objects of type %s", s->type->name);
  TRY(object_new(cx, s->type, s->type->cls->n_attrs, &o));
  set_result(f, s, 0, value_heap_steal(RUSH_TAG_OBJECT, o));
  return RUSH_OK;
}

/* Return container[key] for modules of a module list or dict: the attribute of that name. */
rush_status act_module_index(call_ctx *cx, frame *f, const site *s)
{
  const uint32_t *o = operands(f, s);
  rush_value container = peek(f, o[0]), key = peek(f, o[1]);

  if (container.tag != RUSH_TAG_OBJECT)
    return call_fail(cx, "Expected a module");
  const rush_object *m = container.as.object;
  char digits[24];

  if (key.tag != RUSH_TAG_STRING && key.tag != RUSH_TAG_INT)
    return call_fail(cx, "modules are indexed by integers and strings");
  if (key.tag == RUSH_TAG_INT)
    snprintf(digits, sizeof digits, "%lld", (long long)key.as.i);
  str name = key.tag == RUSH_TAG_STRING ? value_str(key) : str_of(digits);
  int slot = class_attr_index(m->type, name);
  if (slot < 0)
    return call_fail(cx, "%s does not have a field with name '%.*s'", m->type->name, (int)name.len,
                     name.p);
  if (UNLIKELY(!results_fit(f, s, &m->slots[slot])))
    return fail_type(cx, "attribute", m->type->cls->attrs[slot].name);
  rush_value v = value_retain(m->slots[slot]);
  drop_operands(f, s);
  set_result(f, s, 0, v);
  return RUSH_OK;
}

rush_status act_isinstance(call_ctx *cx, frame *f, const site *s)
{
  (void)cx;
  rush_value v = peek(f, operands(f, s)[0]);
  bool is = false;

  for (uint32_t i = 0; i < s->n_types && !is; i++)
    is = type_contains_value(s->types[i], v);
  drop_operands(f, s);
  set_result(f, s, 0, value_bool(is));
  return RUSH_OK;
}

rush_status act_cast(call_ctx *cx, frame *f, const site *s)
{
  rush_value v = peek(f, operands(f, s)[0]);

  if (!type_contains_value(s->type, v)) {
    text_buf t;
    text_init(&t, cx->ctx);
    type_print_annotation(&t, s->type);
    rush_status st = call_fail(cx, "unchecked_cast: the value is no %s",
                               text_failed(&t) ? "such type" : text_str(&t));
    text_free(&t);
    return st;
  }
  value_retain(v);
  drop_operands(f, s);
  set_result(f, s, 0, v);
  return RUSH_OK;
}

/* True if the value is a tensor of the type.  Outside of recorded calls no tensor requires
 * gradients, as in PyTorch's no_grad mode. */
static bool tensor_fits(const call_ctx *cx, const type *t, rush_value v)
{
  ir_facts f = *ir_facts_of(t);

  if (v.tag != RUSH_TAG_TENSOR)
    return v.tag == RUSH_TAG_NONE && ir_facts_fit(&f, NULL);
  if (f.requires_grad >= 0 && !call_records(cx)) {
    if (f.requires_grad)
      return false;
    f.requires_grad = -1;
  }
  return ir_facts_fit(&f, v.as.tensor);
}

static bool requires_grad(rush_value v)
{
  return v.tag == RUSH_TAG_TENSOR && v.as.tensor && tensor_requires_grad(v.as.tensor);
}

/* An undefined tensor has every type, and does not require gradients. */
rush_status act_type_check(call_ctx *cx, frame *f, const site *s)
{
  bool fits = true;

  for (uint32_t i = 0; i < s->n_types && i < s->n_args && fits; i++) {
    const rush_value v = peek(f, operands(f, s)[i]);
    const bool absent = v.tag == RUSH_TAG_NONE || (v.tag == RUSH_TAG_TENSOR && !v.as.tensor);

    fits = s->begin ? ir_facts_of(s->types[i])->requires_grad == requires_grad(v)
                    : absent || tensor_fits(cx, s->types[i], v);
  }
  set_result(f, s, 0, value_bool(fits));
  return RUSH_OK;
}

rush_status act_guard(call_ctx *cx, frame *f, const site *s)
{
  if (LIKELY(tensor_fits(cx, s->type, peek(f, operands(f, s)[0]))))
    return RUSH_OK;
  return call_fail(cx, "prim::Guard: expected a tensor of the type %s; the graph has no other code "
                   "for this one",
                   s->type->name ? s->type->name : "Tensor");
}

rush_status act_check(call_ctx *cx, frame *f, const site *s)
{
  const rush_value v = peek(f, operands(f, s)[0]);
  const bool fits =
    v.tag == RUSH_TAG_UNSET || type_contains_value(s->type, v); /* uninitialized: never read */
  text_buf t;

  if (LIKELY(fits))
    return RUSH_OK;
  text_init(&t, cx->ctx);
  type_print_annotation(&t, s->type);
  ASSERT(fits, "a register holds a value of its type");
  rush_status st = fail_type(cx, "a value of type", text_failed(&t) ? "?" : text_str(&t));
  text_free(&t);
  return st;
}

/* -- Text -------------------------------------------------------------------------------------- */

static void return_nones(frame *f, const site *s)
{
  for (uint32_t i = 0; i < s->n_results; i++)
    set_result(f, s, i, value_none());
}

rush_status act_print(call_ctx *cx, frame *f, const site *s)
{
  const uint32_t *o = operands(f, s);
  rush_status st = RUSH_OK;
  text_buf t;

  text_init(&t, cx->ctx);
  for (uint32_t i = 0; i < s->n_args && st == RUSH_OK; i++) {
    if (i)
      text_putc(&t, ' ');
    st = value_print(cx, &t, peek(f, o[i]));
  }
  text_putc(&t, '\n');
  if (st == RUSH_OK && text_failed(&t))
    st = call_nomem(cx);
  if (st == RUSH_OK) {
    call_print(cx, text_str(&t), t.len);
    drop_operands(f, s);
    return_nones(f, s);
  }
  text_free(&t);
  return st;
}

rush_status act_warn(call_ctx *cx, frame *f, const site *s)
{
  rush_value v = s->n_args ? peek(f, operands(f, s)[0]) : value_none();

  if (v.tag == RUSH_TAG_STRING)
    call_warn(cx, v.as.string->text);
  drop_operands(f, s);
  return_nones(f, s);
  return RUSH_OK;
}

/* Return the static name of a Python exception class, if errors may use it. */
static const char *class_of_name(const char *name)
{
  static const char *const known[] = {"ValueError", "TypeError", "KeyError", "IndexError",
                                      "AssertionError", "NotImplementedError", "AttributeError",
                                      "ZeroDivisionError"};
  const char *dot = name ? strrchr(name, '.') : NULL;

  for (size_t i = 0; name && i < COUNT_OF(known); i++)
    if (strcmp(dot ? dot + 1 : name, known[i]) == 0)
      return known[i];
  return "RuntimeError";
}

rush_status act_raise(call_ctx *cx, frame *f, const site *s)
{
  rush_value msg = s->n_args > 0 ? peek(f, operands(f, s)[0]) : value_none();
  rush_value cls = s->n_args > 1 ? peek(f, operands(f, s)[1]) : value_none();
  const char *name = cls.tag == RUSH_TAG_STRING ? cls.as.string->text : NULL;
  text_buf t;
  rush_status st = RUSH_OK;

  text_init(&t, cx->ctx);
  if (!value_is_none(msg))
    st = value_print(cx, &t, msg);
  if (st == RUSH_OK && text_failed(&t))
    st = call_nomem(cx);
  if (st != RUSH_OK)
    ;
  else if (f->c->is_builtin) /* an operator refuses its arguments */
    st = call_fail_type(cx, class_of_name(name), "%s", text_str(&t));
  else
    st = error_set_type(cx->err, RUSH_ERAISED, "Error", "%s: %s", name ? name : "RuntimeError",
                        text_str(&t));
  text_free(&t);
  return st;
}
