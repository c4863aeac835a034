/* export/capture_script.c -- evaluates functions to capture them: the nodes of a graph one after
 * the other.
 *
 * Calls are entered, branches on what is known are taken, loops run as often as they do now, tasks
 * are run where they begin.  Objects of the captured module are never written: an attribute that
 * the code sets, and a list or dict that it may change, is a copy that only this capture sees.  A
 * branch on data becomes torch.cond (capture_branch.c), a loop on data torch.while_loop
 * (capture_loop.c). */
#include "export/capture_int.h"

#include <stdarg.h>
#include <stdio.h>

#include "base/grow.h"
#include "ops/call/lookup.h"
#include "ops/call/shape.h"
#include "passes/passes.h"

typedef struct evaluation { /* of one function */
  capture *c;
  capture_frame frame;
  rush_value *values; /* by the values' ids */
} evaluation;

static void run_block(evaluation *e, const ir_block *b);

static rush_value input_of(const evaluation *e, const ir_node *n, uint32_t i)
{
  return e->values[ir_node_input(n, i)->id];
}
static void set_output(evaluation *e, const ir_node *n, uint32_t i, rush_value v)
{
  e->values[n->outputs[i]->id] = v;
}
static rush_value *inputs_of(evaluation *e, const ir_node *n)
{
  rush_value *v = session_array(e->c->s, rush_value, (size_t)n->n_inputs + 1);

  for (uint32_t i = 0; i < n->n_inputs; i++)
    v[i] = input_of(e, n, i);
  return v;
}

void capture_fail(capture *c, const char *fmt, ...)
{
  char text[512];
  va_list ap;

  va_start(ap, fmt);
  vsnprintf(text, sizeof text, fmt, ap);
  va_end(ap);
  if (c->origin)
    session_fail_status(c->s, RUSH_EUNSUPPORTED, NULL, NULL, "'%s' (%s) cannot be decomposed: %s",
                        c->origin->name, c->origin->target, text);
  session_fail_status(c->s, RUSH_EUNSUPPORTED, NULL, NULL, "%s", text);
}

/* Note where the evaluator is, in the user's code. */
static void note_place(capture *c, function *f, const ir_node *n)
{
  if (f->is_builtin || !n->range.src)
    return;
  c->here = (capture_place){f, n->range};
  if (c->options->place)
    *c->options->place = c->here;
}

void capture_note_guards(capture *c)
{
  while (c->n_decided < c->env->n_guards) {
    uint32_t cap = c->cap_decided;
    GROW(c->s, c->decided_by, c->n_decided, cap, 16);
    GROW(c->s, c->decided, c->n_decided, c->cap_decided, 16);
    c->decided_by[c->n_decided] = NULL;
    c->decided[c->n_decided++] = c->here;
  }
}

/* -- Objects ----------------------------------------------------------------------------------- */

static void set_field(capture *c, const rush_object *o, uint32_t slot, rush_value v)
{
  rush_value *field = session_new(c->s, rush_value);

  *field = v;
  session_table_put(c->s, &c->fields, address_key(&o->slots[slot]), field);
}

rush_value capture_field(capture *c, const rush_object *o, uint32_t slot)
{
  const rush_value *field = table_get(&c->fields, address_key(&o->slots[slot]));

  return field ? *field : capture_own_copy(c, o->slots[slot]);
}

static const rush_object *object_of(capture *c, rush_value v)
{
  if (v.tag != RUSH_TAG_OBJECT)
    capture_fail(c, "an attribute of a value that is no object");
  return v.as.object;
}

static rush_value get_attr(capture *c, const ir_node *n, rush_value from)
{
  const rush_object *o = object_of(c, from);
  const char *name = ir_attr_string(n, "name");
  const int slot = class_attr_index(o->type, str_of(name));
  const class_attr *constant = slot < 0 ? class_constant(o->type, str_of(name)) : NULL;

  if (slot < 0 && !constant)
    capture_fail(c, "%s has no attribute '%s'", o->type->name, name);
  return slot < 0 ? capture_own_copy(c, constant->constant) : capture_field(c, o, (uint32_t)slot);
}

/* An attribute of a module may be replaced if it is a buffer: the signature says so then. */
static void check_module_field(capture *c, const rush_object *o, const class_attr *a, rush_value v)
{
  const char *path = table_get(&c->paths, address_key(o));

  if (!path || v.tag != RUSH_TAG_TENSOR || a->is_buffer)
    return;
  session_fail_status(
    c->s, RUSH_EUNSUPPORTED, "ValueError", NULL,
    "The tensor attribute self.%s%s%s was assigned during export. Such attributes "
    "must be registered as buffers",
    path, *path ? "." : "", a->name);
}

static void set_attr(capture *c, const ir_node *n, rush_value to, rush_value v)
{
  const rush_object *o = object_of(c, to);
  const char *name = ir_attr_string(n, "name");
  const int slot = class_attr_index(o->type, str_of(name));

  if (slot < 0)
    capture_fail(c, "%s has no attribute '%s' to set", o->type->name, name);
  if (c->branch)
    capture_fail(c, "a branch on data sets an attribute, which torch.cond does not allow");
  check_module_field(c, o, &o->type->cls->attrs[slot], v);
  GROW(c->s, c->written, c->n_written, c->cap_written, 8);
  c->written[c->n_written++] = (capture_written){o, (uint32_t)slot};
  set_field(c, o, (uint32_t)slot, v);
}

static rush_value module_index(capture *c, rush_value container, rush_value key)
{
  const rush_object *o = object_of(c, container);
  const rush_value at = capture_fix(c, key);
  char digits[24];

  snprintf(digits, sizeof digits, "%lld", (long long)at.as.i);
  const int slot =
    class_attr_index(o->type, at.tag == RUSH_TAG_STRING ? value_str(at) : str_of(digits));
  if (slot < 0)
    capture_fail(c, "%s has no such module", o->type->name);
  return capture_field(c, o, (uint32_t)slot);
}

static rush_value new_object(capture *c, const type *t)
{
  rush_object *o;

  session_check(c->s, object_new(c->s->cx, t, t->cls->n_attrs, &o));
  return capture_hold(c, value_heap_steal(RUSH_TAG_OBJECT, o));
}

/* -- Containers -------------------------------------------------------------------------------- */

static rush_value new_list(evaluation *e, const ir_node *n)
{
  session *s = e->c->s;
  rush_list *l;

  session_check(s, list_new(s->cx, type_elem(n->outputs[0]->type), n->n_inputs, &l));
  const rush_value v = capture_hold(e->c, value_heap_steal(RUSH_TAG_LIST, l));
  for (uint32_t i = 0; i < n->n_inputs; i++)
    session_check(s, list_append_steal(s->cx, l, value_retain(input_of(e, n, i))));
  return v;
}

static rush_value make_tuple(capture *c, const type *t, const rush_value *items, size_t n)
{
  rush_tuple *tuple;

  session_check(c->s, tuple_new(c->s->cx, t && t->fields ? t : NULL, n, &tuple));
  for (size_t i = 0; i < n; i++)
    tuple->items[i] = value_retain(items[i]);
  return capture_hold(c, value_heap_steal(RUSH_TAG_TUPLE, tuple));
}

/* Return a key as a value that is known: it decides. */
static rush_value known_key(capture *c, rush_value key)
{
  return key.tag == RUSH_TAG_TENSOR ? key : capture_fix(c, key);
}

static rush_value new_dict(evaluation *e, const ir_node *n)
{
  const type *t = n->outputs[0]->type;
  session *s = e->c->s;
  rush_dict *d;

  session_check(s, dict_new(s->cx, t->elems[0], t->elems[1], &d));
  const rush_value v = capture_hold(e->c, value_heap_steal(RUSH_TAG_DICT, d));
  for (uint32_t i = 0; i + 1 < n->n_inputs; i += 2)
    session_check(s, dict_set_steal(s->cx, d, value_retain(known_key(e->c, input_of(e, n, i))),
                                    value_retain(input_of(e, n, i + 1))));
  return v;
}

static void unpack(evaluation *e, const ir_node *n, const rush_value *items, size_t n_items)
{
  if (n_items != n->n_outputs)
    session_fail_status(e->c->s, RUSH_ERAISED, NULL, NULL,
                        "Expected %u elements in a list but found %zu", n->n_outputs, n_items);
  for (uint32_t i = 0; i < n->n_outputs; i++)
    set_output(e, n, i, items[i]);
}

static const rush_tuple *tuple_in(capture *c, rush_value v)
{
  if (v.tag != RUSH_TAG_TUPLE)
    capture_fail(c, "a tuple is expected here");
  return v.as.tuple;
}

static rush_value tuple_index(capture *c, rush_value tuple, rush_value at)
{
  const rush_tuple *t = tuple_in(c, tuple);
  const rush_value i = capture_fix(c, at);
  const int64_t k = i.tag == RUSH_TAG_INT ? index_wrap(i.as.i, t->n) : -1;

  if (k < 0 || (size_t)k >= t->n)
    capture_fail(c, "tuple index out of range");
  return t->items[k];
}

static rush_value tuple_slice(capture *c, const ir_node *n, rush_value tuple)
{
  const ir_attr *b = ir_attr_find(n, "beg"), *end = ir_attr_find(n, "end");
  const rush_tuple *t = tuple_in(c, tuple);
  size_t from = b && b->as.i > 0 ? (size_t)b->as.i : 0;
  size_t to = end && end->as.i >= 0 && (size_t)end->as.i < t->n ? (size_t)end->as.i : t->n;

  from = from > to ? to : from;
  return make_tuple(c, NULL, t->items + from, to - from);
}

/* -- Types ------------------------------------------------------------------------------------- */

static bool number_is(const capture_number *n, const type *t)
{
  const type_kind kind = n->kind == FX_VAL_INT     ? TYPE_INT
                         : n->kind == FX_VAL_FLOAT ? TYPE_FLOAT
                                                   : TYPE_BOOL;

  for (uint32_t i = 0; (t->kind == TYPE_OPTIONAL || t->kind == TYPE_UNION) && i < t->n_elems; i++)
    if (t->elems[i]->kind == kind || t->elems[i]->kind == TYPE_NUMBER)
      return true;
  return t->kind == kind || t->kind == TYPE_NUMBER || t->kind == TYPE_ANY;
}

static bool is_instance(const ir_node *n, rush_value v)
{
  const ir_attr *a = ir_attr_find(n, "types");
  const capture_number *number = capture_number_of(v);

  for (uint32_t i = 0; a && i < a->as.t.n_types; i++)
    if (number ? number_is(number, a->as.t.types[i]) : type_contains_value(a->as.t.types[i], v))
      return true;
  return false;
}

/* -- Control flow ------------------------------------------------------------------------------ */

static void set_inputs(evaluation *e, const ir_block *b, const rush_value *values, uint32_t n)
{
  for (uint32_t i = 0; i < n; i++)
    e->values[ir_block_input(b, i)->id] = values[i];
}

static void run_branch(void *arg, const ir_block *b, rush_value *outputs)
{
  evaluation *e = arg;

  run_block(e, b);
  for (uint32_t i = 0; i < ir_block_n_outputs(b); i++)
    outputs[i] = e->values[ir_block_output(b, i)->id];
}

static void run_if(evaluation *e, const ir_node *n)
{
  rush_value *out = session_array(e->c->s, rush_value, (size_t)n->n_outputs + 1);
  const capture_number *number = capture_number_of(input_of(e, n, 0));
  rush_value cond = input_of(e, n, 0);

  if (number && capture_can_decide(e->c, number))
    cond = capture_fix_number(e->c, cond);
  if (capture_number_of(cond))
    capture_cond(e->c, n, cond, run_branch, e, out);
  else
    run_branch(e, n->blocks[cond.as.b ? 0 : 1], out);
  for (uint32_t i = 0; i < n->n_outputs; i++)
    set_output(e, n, i, out[i]);
}

/* Count a node, or a trip of a loop. */
static void take_step(capture *c)
{
  session_poll(c->s);
  if (++c->n_steps > CAPTURE_MOST_STEPS)
    session_fail_status(c->s, RUSH_ELIMIT, NULL, NULL,
                        "the program takes more than %u steps, with its loops unrolled: it is too "
                        "long to be exported",
                        CAPTURE_MOST_STEPS);
}

/* Return a condition of a loop: known, if it can be decided. */
static rush_value known_condition(capture *c, rush_value v)
{
  const capture_number *n = capture_number_of(v);

  return n && capture_can_decide(c, n) ? capture_fix_number(c, v) : v;
}

/* Evaluate a trip of a loop. */
static void run_trip(void *arg, const ir_node *n, rush_value count, const rush_value *in,
                     rush_value *out)
{
  evaluation *e = arg;
  const ir_block *b = n->blocks[0];

  take_step(e->c);
  e->values[ir_block_input(b, 0)->id] = count;
  for (uint32_t i = 0; i < n->n_outputs; i++)
    e->values[ir_block_input(b, i + 1)->id] = in[i];
  run_block(e, b);
  for (uint32_t i = 0; i <= n->n_outputs; i++)
    out[i] = e->values[ir_block_output(b, i)->id];
}

/* True if the number of trips of a loop depends on data. */
static bool is_open_count(rush_value trips)
{
  const capture_number *n = capture_number_of(trips);
  int64_t hint;

  return n && n->kind == FX_VAL_INT && !sym_hint(n->i, &hint);
}

static void run_loop(evaluation *e, const ir_node *n)
{
  capture *c = e->c;
  rush_value *carried = session_array(c->s, rush_value, 2 * (size_t)n->n_outputs + 2);
  rush_value *next = carried + n->n_outputs + 1, trips = input_of(e, n, 0);
  rush_value go = known_condition(c, input_of(e, n, 1));
  int64_t trip = 0;

  for (uint32_t i = 0; i < n->n_outputs; i++)
    carried[i] = input_of(e, n, 2 + i);
  if (!is_open_count(trips)) {
    trips = capture_fix(c, trips);
    for (; !capture_number_of(go) && go.as.b && trip < trips.as.i; trip++) {
      run_trip(e, n, value_int(trip), carried, next);
      memcpy(carried, next + 1, n->n_outputs * sizeof *carried);
      go = known_condition(c, next[0]);
    }
  }
  if (capture_number_of(go) ? is_open_count(trips) || trip < trips.as.i
                            : go.as.b && is_open_count(trips))
    capture_loop(c, n, &(capture_loop_start){trips, go, trip}, run_trip, e, carried);
  for (uint32_t i = 0; i < n->n_outputs; i++)
    set_output(e, n, i, carried[i]);
}

static _Noreturn void raise(evaluation *e, const ir_node *n)
{
  const rush_value text = n->n_inputs > 0 ? input_of(e, n, 0) : value_none();
  const rush_value cls = n->n_inputs > 1 ? input_of(e, n, 1) : value_none();

  session_fail_status(e->c->s, RUSH_ERAISED, "Error", NULL, "%s: %s",
                      cls.tag == RUSH_TAG_STRING ? cls.as.string->text : "RuntimeError",
                      text.tag == RUSH_TAG_STRING ? text.as.string->text : "");
}

/* -- Calls ------------------------------------------------------------------------------------- */

/* Describe a call of the module at `path`. */
static capture_module module_called(capture *c, const char *path, const rush_object *o)
{
  const char *name = table_get(&c->classes, str_of(path));
  const uint32_t call = (uint32_t)(uintptr_t)table_get(&c->calls, str_of(path));

  session_table_put(c->s, &c->calls, str_of(path), (void *)(uintptr_t)(call + 1));
  return (capture_module){c->module, path, name ? name : o->type->name, call};
}

static rush_value call_method(capture *c, rush_value self, const char *name,
                              const rush_value *args, uint32_t n_args)
{
  const rush_object *o = object_of(c, self);
  function *f = class_find_method(o->type, name);
  const char *path = table_get(&c->paths, address_key(o));
  const capture_module module = path ? module_called(c, path, o) : (capture_module){0},
                       *before = c->module;

  if (!f)
    capture_fail(c, "%s has no method '%s'", o->type->name, name);
  if (path)
    c->module = &module;
  const rush_value v = capture_call(c, f, function_takes_self(f) ? args : args + 1,
                                    function_takes_self(f) ? n_args : n_args - 1);
  c->module = before;
  return v;
}

/* True if nothing but a higher-order operator uses the task: it is one of its functions. */
static bool is_closure(const ir_node *n)
{
  for (const ir_use *u = n->outputs[0]->uses; u; u = u->next)
    if (u->user->kind != IR_HIGHER_ORDER)
      return false;
  return n->function && n->outputs[0]->uses;
}

static rush_value run_fork(evaluation *e, const ir_node *n, const rush_value *args)
{
  if (is_closure(n))
    return capture_closure(e->c, n->function, args, n->n_inputs);
  if (n->function)
    return capture_call(e->c, n->function, args, n->n_inputs);
  set_inputs(e, n->blocks[0], args, ir_block_n_inputs(n->blocks[0]));
  run_block(e, n->blocks[0]);
  return e->values[ir_block_output(n->blocks[0], 0)->id];
}

/* True if the operator is replaced by what its body calls. */
static bool is_entered(capture *c, const op *o)
{
  if (c->decomposes && capture_decomposes(c, o))
    return true;
  return !capture_rule_of(c, o) && o->family == FAMILY_COMPOSITE;
}

/* Return the arguments without symbolic bools, of which no operator on tensors takes any. */
static const rush_value *known_flags(capture *c, const op *o, const rush_value *args)
{
  rush_value *own = NULL;

  for (uint32_t i = 0; i < o->schema->n_args; i++) {
    const capture_number *n = capture_number_of(args[i]);
    if (!n || n->kind != FX_VAL_BOOL || type_is(o->schema->args[i].type, TYPE_NUMBER))
      continue;
    if (!own) {
      own = session_array(c->s, rush_value, o->schema->n_args);
      memcpy(own, args, o->schema->n_args * sizeof *own);
    }
    own[i] = capture_fix_number(c, args[i]);
  }
  return own ? own : args;
}

void capture_op(capture *c, const op *o, const rush_value *args, rush_value *results)
{
  void *body;

  if (capture_known(c, o, args, results))
    return;
  if (c->decomposes && schema_is_mutable(o->schema)) {
    capture_write(c, o, args, results);
    return;
  }
  if (!is_entered(c, o)) {
    capture_record(c, o, known_flags(c, o, args), results);
    return;
  }
  session_check(c->s, op_decomposition(c->s->cx, o, &body));
  const op *same =
    body ? NULL : session_op_find(c->s, op_synonym_of(o), str_of(o->schema->overload));
  if (same && same != o && same->schema->n_args == o->schema->n_args) {
    capture_op(c, same, args, results);
    return;
  }
  if (!body)
    capture_fail(c, "%s%s%s has no decomposition here", o->schema->name,
                 *o->schema->overload ? "." : "", o->schema->overload);
  const rush_value v = capture_call(c, body, args, o->schema->n_args);
  if (o->schema->n_returns == 1)
    results[0] = v;
  else
    for (uint32_t i = 0; i < o->schema->n_returns; i++)
      results[i] = tuple_in(c, v)->items[i];
}

/* Refuse arguments that are not of the operator's types: casts and containers of an archive may
 * lie. */
static void check_arguments(evaluation *e, const ir_node *n, const rush_value *args)
{
  const schema *sc = n->op->schema;

  for (uint32_t i = 0; i < n->n_inputs; i++) {
    if (i < sc->n_args ? !capture_is_of_type(sc->args[i].type, args[i])
                       : args[i].tag == RUSH_TAG_UNSET)
      session_fail_status(e->c->s, RUSH_ERAISED, "RuntimeError", NULL,
                          "%s: the value of argument '%s' is not of the type that the code says",
                          sc->name, i < sc->n_args ? sc->args[i].name : "...");
  }
}

static void run_op(evaluation *e, const ir_node *n, const rush_value *args)
{
  rush_value *results = session_array(e->c->s, rush_value, (size_t)n->n_outputs + 1);

  check_arguments(e, n, args);
  for (uint32_t i = 0; i < n->n_outputs; i++)
    results[i] = value_none();
  if (n->op->schema->is_vararg || n->op->schema->n_args != n->n_inputs)
    capture_compute(e->c, n->op, args, n->n_inputs, results, n->n_outputs);
  else {
    e->c->declared = n;
    capture_op(e->c, n->op, args, results);
    e->c->declared = NULL;
  }
  for (uint32_t i = 0; i < n->n_outputs; i++)
    set_output(e, n, i, results[i]);
}

/* -- Nodes ------------------------------------------------------------------------------------- */

/* Evaluate a node that makes or opens a list, tuple or dict; returns false if it is none. */
static bool run_container(evaluation *e, const ir_node *n, const rush_value *in)
{
  capture *c = e->c;

  switch (n->kind) {
  case IR_LIST_CONSTRUCT:
    set_output(e, n, 0, new_list(e, n));
    return true;
  case IR_LIST_UNPACK:
    if (in[0].tag != RUSH_TAG_LIST)
      capture_fail(c, "a list is expected here");
    unpack(e, n, in[0].as.list->items, in[0].as.list->n);
    return true;
  case IR_TUPLE_CONSTRUCT:
    set_output(e, n, 0, make_tuple(c, n->outputs[0]->type, in, n->n_inputs));
    return true;
  case IR_TUPLE_UNPACK:
    unpack(e, n, tuple_in(c, in[0])->items, tuple_in(c, in[0])->n);
    return true;
  case IR_TUPLE_INDEX:
    set_output(e, n, 0, tuple_index(c, in[0], in[1]));
    return true;
  case IR_TUPLE_SLICE:
    set_output(e, n, 0, tuple_slice(c, n, in[0]));
    return true;
  case IR_DICT_CONSTRUCT:
    set_output(e, n, 0, new_dict(e, n));
    return true;
  default:
    return false;
  }
}

/* Evaluate a node that reads, makes or changes an object; returns false if it is none. */
static bool run_object(evaluation *e, const ir_node *n, const rush_value *in)
{
  capture *c = e->c;

  switch (n->kind) {
  case IR_CREATE_OBJECT:
    set_output(e, n, 0, new_object(c, n->outputs[0]->type));
    return true;
  case IR_GET_ATTR:
    set_output(e, n, 0, get_attr(c, n, in[0]));
    return true;
  case IR_SET_ATTR:
    set_attr(c, n, in[0], in[1]);
    return true;
  case IR_MODULE_CONTAINER_INDEX:
    set_output(e, n, 0, module_index(c, in[0], in[1]));
    return true;
  case IR_UNCHECKED_CAST:
    set_output(e, n, 0, in[0]);
    return true;
  case IR_ISINSTANCE:
    set_output(e, n, 0, value_bool(is_instance(n, in[0])));
    return true;
  default:
    return false;
  }
}

/* Evaluate a node that calls a function, or enters or leaves a `with`; returns false if it is
 * none. */
static bool run_call(evaluation *e, const ir_node *n, const rush_value *in)
{
  const rush_value self[4] = {in[0], value_none(), value_none(), value_none()};
  capture *c = e->c;
  rush_value v;

  switch (n->kind) {
  case IR_ENTER:
    v = call_method(c, in[0], "__enter__", self, 1);
    break;
  case IR_EXIT:
    v = call_method(c, in[0], "__exit__", self, 4);
    break;
  case IR_CALL_METHOD:
  case IR_INTERFACE_CALL:
    v = call_method(c, in[0], ir_attr_string(n, "name"), in, n->n_inputs);
    break;
  case IR_CALL_FUNCTION: {
    const bool has_callee = n->n_inputs > n->function->schema->n_args;
    v = capture_call(c, n->function, in + has_callee, n->n_inputs - has_callee);
    break;
  }
  case IR_FORK:
  case IR_AWAITABLE:
    v = run_fork(e, n, in);
    break;
  default:
    return false;
  }
  if (n->n_outputs)
    set_output(e, n, 0, v);
  return true;
}

static void run_higher(evaluation *e, const ir_node *n, const rush_value *in)
{
  rush_value *out = session_array(e->c->s, rush_value, (size_t)n->n_outputs + 1);

  capture_higher(e->c, n, in, out);
  for (uint32_t i = 0; i < n->n_outputs; i++)
    set_output(e, n, i, out[i]);
}

static void run_node(evaluation *e, const ir_node *n)
{
  rush_value *in = inputs_of(e, n);

  switch (n->kind) {
  case IR_OP:
    run_op(e, n, in);
    return;
  case IR_CONSTANT:
    set_output(e, n, 0, capture_own_copy(e->c, ir_constant_value(n)));
    return;
  case IR_IF:
    run_if(e, n);
    return;
  case IR_LOOP:
    run_loop(e, n);
    return;
  case IR_HIGHER_ORDER:
    run_higher(e, n, in);
    return;
  case IR_RAISE:
    raise(e, n);
  case IR_PRINT:
    return;
  case IR_UNINITIALIZED:
    set_output(e, n, 0, capture_unset(e->c));
    return;
  default:
    if (!run_container(e, n, in) && !run_object(e, n, in) && !run_call(e, n, in))
      capture_fail(e->c, "%s cannot be exported", ir_node_kind_name(n));
  }
}

static void run_block(evaluation *e, const ir_block *b)
{
  session_enter(e->c->s);
  for (const ir_node *n = ir_block_first(b); n != b->ret; n = n->next) {
    take_step(e->c);
    e->frame.at = n;
    note_place(e->c, e->frame.function, n);
    run_node(e, n);
    capture_note_guards(e->c);
  }
  session_leave(e->c->s);
}

/* Return the graph to evaluate: with the casts of torch.autocast if it has such regions. */
static const ir_graph *graph_of(capture *c, function *f)
{
  function_ensure(c->s, f);
  if (!f->graph)
    capture_fail(c, "%s has no code", f->qualified);
  if (!pass_has_autocast(f->graph))
    return f->graph;
  ir_graph *g = passes_base(c->s, f, false);
  session_defer(c->s, ir_graph_free_deferred, g);
  pass_autocast(c->s, g);
  return g;
}

rush_value capture_call(capture *c, function *f, const rush_value *args, uint32_t n_args)
{
  const ir_graph *g = graph_of(c, f);
  evaluation e = {.c = c, .frame = {.outer = c->frame, .function = f}};

  if (ir_block_n_inputs(g->block) != n_args)
    capture_fail(c, "%s is called with %u arguments", f->qualified, n_args);
  e.values = session_array(c->s, rush_value, (size_t)g->next_id + 1);
  c->frame = &e.frame;
  set_inputs(&e, g->block, args, n_args);
  run_block(&e, g->block);
  c->frame = e.frame.outer;
  return ir_block_n_outputs(g->block) ? e.values[ir_block_output(g->block, 0)->id] : value_none();
}
