/* script/emit/stmt.c -- compiles statements. Variables become Load and Store nodes, which
 * passes/ssa.c replaces; return, break and continue become exit nodes, which passes/exits.c
 * removes. Rejected: emitting SSA directly, since PyTorch works in these steps, and error messages
 * and names depend on them. A branch joins the variables that either side set, sorted by name, and
 * records why others cannot be read afterwards. */
#include <string.h>

#include "passes/passes.h"
#include "script/emit/emit_int.h"
#include "ops/table/op_keys.h"

/* -- Assignment -------------------------------------------------------------------------------- */

static void assign_items(emitter *e, const ast_expr *target, const ast_exprs *targets,
                         const sugared *v)
{
  uint32_t star = targets->n;
  for (uint32_t i = 0; i < targets->n; i++)
    if (targets->items[i]->kind == EXPR_STARRED)
      star = i;
  bool starred = star < targets->n;
  if (starred && targets->n == 1)
    session_fail(e->s, &targets->items[0]->at,
                 "A Starred expression may only appear on the lhs within the presence of another "
                 "non-starred expression");
  sugared *items;
  uint32_t n = em_as_items(e, v, starred ? 0 : targets->n, &items);
  if (n + starred < targets->n)
    session_fail(e->s, &target->at, "need %s%u values to unpack but found only %u",
                 starred ? "at least " : "", targets->n - starred, n);
  if (n > targets->n && !starred)
    session_fail(e->s, &target->at, "too many values to unpack: need %u but found %u", targets->n,
                 n);
  uint32_t n_star = starred ? n - (targets->n - 1) : 0;
  for (uint32_t i = 0, k = 0; i < targets->n; i++) {
    if (i != star) {
      em_assign_to(e, targets->items[i], &items[k++], NULL);
      continue;
    }
    sugared rest = {.kind = SUGAR_TUPLE};
    rest.as.items.items = items + k;
    rest.as.items.n = n_star;
    rest = sugar_value(em_as_value(e, &rest));
    em_assign_to(e, targets->items[i]->as.pair.left, &rest, NULL);
    k += n_star;
  }
}

void em_assign_to(emitter *e, const ast_expr *target, const sugared *v, const type *annotated)
{
  source_range at = e->at;
  switch (target->kind) {
  case EXPR_NAME:
    e->at = target->at;
    em_set_var(e, target->as.name, *v, annotated);
    break;
  case EXPR_TUPLE: case EXPR_LIST:
    assign_items(e, target, &target->as.items, v);
    break;
  case EXPR_ATTR: {
    ir_value *value = em_as_value(e, v);
    ir_value *object = em_expr(e, target->as.attr.base, NULL);
    em_set_attr(e, object, target->as.attr.name, value);
    break;
  }
  case EXPR_SUBSCRIPT:
    em_assign_subscript(e, target, em_as_value(e, v));
    break;
  default:
    session_fail(e->s, &target->at, "cannot assign to this expression");
  }
  e->at = at;
}

/* Check self.x: int = 3, which makes an attribute and is only allowed in __init__. */
static void check_annotated_self(emitter *e, const ast_stmt *st)
{
  const ast_expr *t = st->as.assign.targets.items[0];
  if (!e->names->is_live || !st->at.src->by_function || strcmp(e->f->name, "__init__") == 0)
    return;
  if (t->kind != EXPR_ATTR || t->as.attr.base->kind != EXPR_NAME ||
      strcmp(t->as.attr.base->as.name, "self") != 0)
    return;
  source_range at = {t->at.src, t->at.start, st->as.assign.type->at.end};
  session_fail_status(e->s, RUSH_ERAISED, "ValueError", &at,
                      "Type annotations on instance attributes must be declared in __init__, not "
                      "'%s': SourceRange at",
                      e->f->name);
}

static void emit_assign(emitter *e, const ast_stmt *st)
{
  if (st->as.assign.type)
    check_annotated_self(e, st);
  const type *t = st->as.assign.type ? resolve_type(e->s, e->names, st->as.assign.type) : NULL;
  if (!st->as.assign.value)
    FAIL(e, "a variable's type can be declared only together with its value");
  const ast_exprs *targets = &st->as.assign.targets;
  const type *hint = t;
  const ast_expr *first = targets->items[0];
  if (!hint && !e->names->is_eager && first->kind == EXPR_ATTR &&
      st->as.assign.value->kind == EXPR_LIST) {
    sugared base = em_sugared(e, first->as.attr.base, NULL); /* self.x = [] has self.x's type */
    int slot = base.kind == SUGAR_VALUE && base.as.value->type->kind == TYPE_CLASS
                   ? class_attr_index(base.as.value->type, str_of(first->as.attr.name))
                   : -1;
    if (slot >= 0 && base.as.value->type->cls->attrs[slot].type->kind == TYPE_LIST)
      hint = base.as.value->type->cls->attrs[slot].type;
  }
  if (t)
    em_check_annotation(e, st->as.assign.value, t);
  sugared v = em_sugared(e, st->as.assign.value, hint);
  if (t && v.kind == SUGAR_VALUE && !e->names->is_eager) /* archives write numbers as they are */
    v = sugar_value(em_convert(e, t, v.as.value, true));
  for (uint32_t i = 0; i < targets->n; i++) {
    if (targets->items[i]->kind == EXPR_TUPLE)
      e->at = st->as.assign.value->at; /* what is wrong is the value then */
    em_assign_to(e, targets->items[i], &v, t);
  }
}

/* -- Augmented assignment ---------------------------------------------------------------------- */

static const char *in_place_magic(emitter *e, ast_op op)
{
  const char *magic;
  em_binary_op_name(op, &magic);
  return session_printf(e->s, "__i%s", magic + 2); /* __add__: __iadd__ */
}

/* Compute `target OP= value`: in place for tensors and lists. */
static ir_value *augment(emitter *e, ast_op op, ir_value *v, ir_value *with)
{
  ir_value *in[2] = {v, with};
  const char *magic, *name = em_binary_op_name(op, &magic);
  function *f;
  if (v->type->kind == TYPE_CLASS && magic) { /* NULL: classes do not have the operator */
    const char *in_place = in_place_magic(e, op);
    return em_call_magic(e, em_find_method(v->type, in_place, &f) ? in_place : magic, name, in, 2);
  }
  if (is_tensor(v->type) || v->type->kind == TYPE_LIST)
    return em_call_op(e, em_augmented_op_name(op), in, 2);
  if (op == OP_MOD && v->type->kind != TYPE_STRING && e->names->is_eager)
    name = "aten::fmod"; /* the sign is the left side's, unlike that of a % b: PyTorch's */
  return em_call_op(e, name, in, 2);
}

static void augment_element(emitter *e, const ast_stmt *st, const ast_expr *target)
{
  ir_value *base = em_expr(e, target->as.subscript.base, NULL);
  const ast_exprs *index = &target->as.subscript.index;
  if (is_tensor(base->type)) { /* a view of the element, or a copy that is put back */
    ast_expr bound = *target;
    ast_expr *name = session_new(e->s, ast_expr);
    *name = (ast_expr){.kind = EXPR_NAME, .op = OP_NONE, .at = target->at, .as.name = "$base"};
    em_set_var(e, "$base", sugar_value(base), NULL);
    bound.as.subscript.base = name;
    ir_value *part = em_expr(e, &bound, NULL);
    ir_value *with = em_expr(e, st->as.aug.value, NULL);
    bool indexed = ir_node_is_op(part->node, OPN_INDEX);
    if (!indexed) {
      augment(e, st->op, part, with);
      return;
    }
    ir_value *result = augment(e, st->op, part, with);
    ir_value *in[3] = {ir_node_input(part->node, 0), ir_node_input(part->node, 1), result};
    em_call_op(e, "aten::index_put_", in, 3);
    return;
  }
  if (base->type->kind == TYPE_TUPLE)
    FAIL(e, "%s does not support augmented assignment.", TYPE_TEXT(e, base->type));
  if (index->n != 1 || index->items[0]->kind == EXPR_SLICE)
    FAIL(e, "Sliced expression not yet supported for subscripted list augmented assignment. File a "
            "bug if you "
            "want this");
  ir_value *at = em_expr(e, index->items[0], NULL), *get[2] = {base, at};
  ir_value *old = em_call_magic(e, "__getitem__", "aten::__getitem__", get, 2);
  ir_value *fresh = augment(e, st->op, old, em_expr(e, st->as.aug.value, NULL));
  ir_value *set[3] = {base, at, fresh};
  em_call_magic(e, "__setitem__", "aten::_set_item", set, 3);
}

static void emit_augmented(emitter *e, const ast_stmt *st)
{
  const ast_expr *target = st->as.aug.target;
  if (e->names->is_live && (st->op == OP_FLOORDIV || st->op == OP_MATMUL))
    REFUSE(e, &e->at, NOT_SUPPORTED, "unsupported kind of augmented assignment: %s",
           st->op == OP_MATMUL ? "MatMult" : "FloorDiv");
  if (target->kind == EXPR_SUBSCRIPT) {
    augment_element(e, st, target);
    return;
  }
  if (target->kind != EXPR_NAME && target->kind != EXPR_ATTR)
    session_fail(e->s, &target->at,
                 "unexpected expression on the left side of an augmented assignment");
  if (target->kind == EXPR_NAME) {
    ir_value *old = em_expr(e, target, NULL);
    sugared v = sugar_value(augment(e, st->op, old, em_expr(e, st->as.aug.value, old->type)));
    em_set_var(e, target->as.name, v, NULL);
    return;
  }
  ir_value *object = em_expr(e, target->as.attr.base, NULL);
  sugared base = sugar_value(object), attr = em_get_attr(e, &base, target->as.attr.name);
  ir_value *old = em_as_value(e, &attr);
  ir_value *v = augment(e, st->op, old, em_expr(e, st->as.aug.value, old->type));
  em_set_attr(e, object, target->as.attr.name, v);
}

/* -- Branches ---------------------------------------------------------------------------------- */

/* Load `name` at the end of a branch; an Uninitialized of the other's type if the branch exits. */
static const type *branch_type(frame *f, const char *name)
{
  const variable *v = em_find_var(f, name);
  return v && !v->error ? v->type : NULL;
}

static void store_uninitialized(emitter *e, frame *f, const variable *v)
{
  ir_node *old = em_begin_at(e, f->block);
  ir_value *none = em_put_node(e, IR_UNINITIALIZED, NULL, 0, v->type);
  ir_node *n = em_put(e, ir_node_new(e->s, e->g, IR_STORE, &none, 1));
  ir_attr_set_string(e->s, n, "name", v->slot);
  e->before = old;
}

/* Record why a variable cannot be read from here on: the first half of the message, which reading
 * completes. */
static void set_error(emitter *e, const source_range *at, const char *name, const char *why)
{
  text_buf b;
  if (em_find_var(e->frame, name))
    return;
  text_init(&b, e->s->cx->ctx);
  text_printf(&b, "\n%s:\n", why);
  source_excerpt(&b, at);
  const char *text = session_take_text(e->s, &b);
  em_set_var_error(e, name, text);
}

/* Use up the names of n loads of the variable. */
static void load_name(emitter *e, const char *slot, int n)
{
  for (int i = 0; i < n && is_meaningful_name(slot); i++)
    ir_graph_load_name(e->s, e->g, slot);
}

/* Load a branch's variables in the other branch, which is how PyTorch looks for them. */
static void load_in_other(emitter *e, const frame *branch, frame *other)
{
  for (uint32_t i = 0; i < branch->names.n; i++) {
    const variable *v = em_find_var(other, branch->names.names[i]);
    if (v && v->type)
      load_name(e, v->slot, 1);
  }
}

static void join_variable(emitter *e, const source_range *branch_at, frame *const *branch,
                          const char *name, const char *slot)
{
  const type *t[2] = {branch_type(branch[0], name), branch_type(branch[1], name)};
  for (int i = 0; i < 2; i++) {
    if (branch[i]->exits && t[!i]) {
      variable v = {.name = name, .slot = slot, .type = t[!i]};
      store_uninitialized(e, branch[i], &v);
      t[i] = t[!i];
    }
  }
  for (int i = 0; i < 2; i++) {
    const variable *v = em_find_var_here(branch[i], name);
    if (!t[i] && v && v->sugar && !em_find_var(e->frame, name))
      return; /* a slice, a function ...: unknown behind the branches */
    if (!t[i]) {
      set_error(e, branch_at, name, session_printf(e->s, "%s is not defined in the %s branch", name,
                                                   i ? "false" : "true"));
      return;
    }
  }
  const variable *outer = em_find_var(e->frame, name);
  load_name(e, slot, !branch[0]->exits + !branch[1]->exits + (outer && outer->type));
  type_kind k = outer && outer->type ? outer->type->kind : TYPE_NONE;
  bool to_union = k == TYPE_UNION || k == TYPE_OPTIONAL ||
                  (k == TYPE_ANY && !e->names->is_eager); /* PyTorch refuses two types of an Any */
  const type *both = em_unify(e, t[0], t[1], to_union);
  if (both) {
    em_set_var_type(e, name, both);
    return;
  }
  const char *why = session_printf(
    e->s, "Type mismatch: %s is set to type %s in the true branch and type %s in the false branch",
    name, TYPE_TEXT(e, t[0]), TYPE_TEXT(e, t[1]));
  if (outer)
    session_fail(e->s, branch_at, "%s", why);
  set_error(e, branch_at, name, why);
}

/* Join variables that either branch set, in the order of their names. */
static void join_branches(emitter *e, const source_range *at, frame *const *branch)
{
  if (branch[0]->exits && branch[1]->exits)
    return;
  uint32_t n;
  load_in_other(e, branch[0], branch[1]);
  load_in_other(e, branch[1], branch[0]);
  const char **names = names_sorted(e->s, &branch[0]->names, &branch[1]->names, &n);
  for (uint32_t i = 0; i < n; i++) {
    const variable *v = em_find_var_here(branch[0], names[i]);
    v = v ? v : em_find_var_here(branch[1], names[i]);
    join_variable(e, at, branch, v->name, v->slot);
  }
}

static void if_blocks(emitter *e, const condition *c, void (*body)(emitter *e, void *arg, bool yes),
                      void *arg)
{
  if (c->known >= 0) {
    e->statement_end = 0;
    em_refine(e, c->known ? c->if_true : c->if_false);
    body(e, arg, c->known);
    return;
  }
  ir_value *cond = em_cond_value(e, c);
  ir_node *n = em_put(e, ir_node_new(e->s, e->g, IR_IF, &cond, 1));
  source_range at = e->at; /* of the statement, before its branches move it */
  if (e->statement_end > at.start)
    at.end = e->statement_end;
  e->statement_end = 0;
  frame *branch[2];
  for (int i = 0; i < 2; i++) {
    ir_block *b = ir_node_add_block(e->s, n);
    ir_node *old = em_begin_at(e, b);
    branch[i] = em_push_frame(e, b);
    branch[i]->is_branch = true;
    em_refine(e, i == 0 ? c->if_true : c->if_false);
    body(e, arg, i == 0);
    em_pop_frame(e);
    e->before = old;
  }
  join_branches(e, &at, branch);
  e->frame->exits |= branch[0]->exits && branch[1]->exits;
}

static void if_body(emitter *e, void *arg, bool yes)
{
  const ast_stmt *st = arg;
  em_block(e, yes ? &st->as.branch.body : &st->as.branch.orelse);
}

/* Return the end of a statement's text, with its blocks. */
static uint32_t end_of(const ast_stmt *st)
{
  const ast_stmts *last = &(ast_stmts){NULL, 0};
  if (st->kind == STMT_IF || st->kind == STMT_WHILE)
    last = st->as.branch.orelse.n ? &st->as.branch.orelse : &st->as.branch.body;
  else if (st->kind == STMT_FOR)
    last = &st->as.loop.body;
  else if (st->kind == STMT_WITH)
    last = &st->as.with.body;
  return last->n ? end_of(last->items[last->n - 1]) : st->at.end;
}

static void emit_if(emitter *e, const ast_stmt *st)
{
  condition c = em_cond(e, st->as.branch.cond);
  e->statement_end = end_of(st);
  if_blocks(e, &c, if_body, (void *)st);
}

/* -- Loops ------------------------------------------------------------------------------------- */

static void emit_while(emitter *e, const ast_stmt *st)
{
  if (st->as.branch.orelse.n)
    REFUSE(e, &e->at, NOT_SUPPORTED, "else branches of while loops aren't supported");
  e->at.end = end_of(st);
  ir_value *trips = em_literal_number(e, value_int(INT64_MAX), type_simple(TYPE_INT));
  ir_node *n = em_put(e, ir_node_new(e->s, e->g, IR_LOOP, &trips, 1));
  ir_block *inside = ir_node_add_block(e->s, n), *cond = ir_node_add_block(e->s, n);
  ir_node *old = em_begin_at(e, cond);
  em_push_frame(e, cond);
  condition c = em_cond(e, st->as.branch.cond);
  ir_block_add_output(e->s, cond, em_cond_value(e, &c));
  em_pop_frame(e);
  e->before = inside->ret;
  ir_block_add_input(e->s, inside, type_simple(TYPE_INT), NULL);
  em_push_frame(e, inside);
  bool unrolling = e->is_unrolling;
  e->is_unrolling = false;
  e->loop_depth++;
  em_block(e, &st->as.branch.body);
  e->loop_depth--;
  e->is_unrolling = unrolling;
  em_pop_frame(e);
  e->before = old;
}

static void for_body(emitter *e, void *arg)
{
  const ast_stmt *st = arg;
  em_block(e, &st->as.loop.body);
}

static void emit_for(emitter *e, const ast_stmt *st)
{
  if (st->as.loop.orelse.n)
    REFUSE(e, &e->at, NOT_SUPPORTED, "else branches of for loops aren't supported");
  sugared v = em_sugared(e, st->as.loop.iter, NULL);
  e->at.end = end_of(st);
  sugared it = em_iterate(e, &v);
  em_loop(e, &it, st->as.loop.target, for_body, (void *)st);
}

static void emit_exit_stmt(emitter *e, ir_kind kind, const char *word)
{
  if (e->is_unrolling)
    FAIL(e, "Because we emit iteration over modulelists or tuples as unrolled loops, we do not "
            "support break or continue inside "
            "the body of these loops");
  if (e->loop_depth == 0)
    FAIL(e, "SyntaxError: '%s' outside loop", word);
  em_put_node(e, kind, NULL, 0, NULL);
  e->frame->exits =
    !e->names->is_eager; /* PyTorch looks at what follows, and at the variables of both branches */
}

/* -- With -------------------------------------------------------------------------------------- */

static void emit_with(emitter *e, const ast_stmt *st)
{
  uint32_t n = st->as.with.n_items;
  ir_value **entered = session_array(e->s, ir_value *, n);
  for (uint32_t i = 0; i < n; i++) {
    ir_value *v = entered[i] = em_expr(e, st->as.with.items[i].value, NULL);
    source_range whole = e->at;
    function *enter, *leave;
    e->at = st->as.with.items[i].value->at;
    if (v->type->kind != TYPE_CLASS)
      FAIL(e, "With item expression must return an object");
    class_complete(e->s, v->type);
    if (!em_find_method(v->type, "__enter__", &enter) ||
        !em_find_method(v->type, "__exit__", &leave) || enter->is_static || leave->is_static)
      FAIL(
        e,
        "Object returned by with item expression does not define __enter__ and __exit__ methods");
    if (enter->schema->n_args != 1)
      FAIL(e, "__enter__ must have only one argument and one return value");
    if (leave->schema->n_args != 4)
      FAIL(e, "__exit__ must have four arguments");
    for (uint32_t k = 1; k < 4; k++) /* it is given three times None */
      if (leave->schema->args[k].type->kind != TYPE_ANY)
        FAIL(e,
             "argument %u of __exit__ must have Any type; TorchScript does not currently support "
             "passing exception type, value, or "
             "traceback to the __exit__ function.",
             k);
    e->at = whole;
    if (!enter->schema->returns[0].type)
      function_ensure(e->s, enter);
    sugared out = sugar_value(em_put_node(e, IR_ENTER, &v, 1, enter->schema->returns[0].type));
    if (st->as.with.items[i].target)
      em_assign_to(e, st->as.with.items[i].target, &out, NULL);
  }
  em_block(e, &st->as.with.body);
  for (uint32_t i = n; i > 0; i--)
    em_put_node(e, IR_EXIT, &entered[i - 1], 1, type_simple(TYPE_TENSOR));
}

/* -- Raise and assert -------------------------------------------------------------------------- */

void em_raise_message(emitter *e, ir_value *message, ir_value *class_name)
{
  ir_value *in[2] = {message, class_name ? class_name : em_constant_none(e)};
  if (message->type->kind != TYPE_STRING)
    in[0] = em_call_op(e, "aten::str", &message, 1);
  em_put_node(e, IR_RAISE, in, 2, NULL);
}

/* Make an exception with its message: its argument, or all of them as a tuple; as in
 * AssertionError. */
sugared em_raised(emitter *e, const sugared *cls, ir_value *const *v, uint32_t n)
{
  sugared out = {.kind = SUGAR_RAISED, .as.raised = {cls->as.name, NULL}};
  if (cls->as.name[0]) {
    out.as.raised.message = n == 0   ? em_constant_str(e, "", 0)
                            : n == 1 ? v[0]
                                     : em_make_tuple(e, v, n, NULL);
    return out;
  }
  ir_value *text = em_constant_str(e, "AssertionError: ", 16);
  for (uint32_t i = 0; i < n; i++) {
    ir_value *item = v[i], *in[2] = {text, item->type->kind == TYPE_STRING
                                             ? item
                                             : em_call_op(e, "aten::str", &item, 1)};
    text = em_call_op(e, "aten::add", in, 2);
  }
  out.as.raised.message = text;
  return out;
}

static void emit_raise(emitter *e, const ast_stmt *st)
{
  const ast_expr *x = st->as.raise.value;
  if (!x)
    FAIL(e, "raise needs an exception");
  const ast_expr *call = x->kind == EXPR_CALL ? x : NULL;
  sugared v = em_sugared(e, call ? call->as.call.fn : x, NULL);
  bool is_class = v.kind == SUGAR_EXCEPTION, bare = is_class && !call;
  if (!is_class && v.kind != SUGAR_RAISED)
    FAIL(e, "exceptions must derive from BaseException");
  if (bare) {
    v = (sugared){.kind = SUGAR_RAISED, .as.raised = {"", em_constant_str(e, "", 0)}};
  } else if (is_class) {
    ir_value **args = session_array(e->s, ir_value *, call->as.call.args.n);
    for (uint32_t i = 0; i < call->as.call.args.n; i++)
      args[i] = em_expr(e, call->as.call.args.items[i], NULL);
    v = em_raised(e, &v, args, call->as.call.args.n);
  }
  const char *name = v.as.raised.name;
  source_range whole = e->at;
  e->at = x->at;
  ir_value *class_name = *name ? em_constant_str(e, name, strlen(name)) : NULL;
  e->at = whole;
  em_raise_message(e, v.as.raised.message, class_name);
  e->frame->exits = true;
}

static void assert_body(emitter *e, void *arg, bool yes)
{
  const ast_stmt *st = arg;
  if (yes)
    return;
  const ast_expr *message = st->as.assertion.message;
  ir_value *v = message ? em_expr(e, message, NULL) : NULL;
  ir_value *text = em_constant_str(e, "AssertionError: ", 16);
  if (v) {
    ir_value *in[2] = {text, v->type->kind == TYPE_STRING ? v : em_call_op(e, "aten::str", &v, 1)};
    text = em_call_op(e, "aten::add", in, 2);
  }
  em_raise_message(e, text, NULL);
  e->frame->exits = true;
}

static void emit_assert(emitter *e, const ast_stmt *st)
{
  condition c = em_cond(e, st->as.assertion.cond);
  if_blocks(e, &c, assert_body, (void *)st);
}

/* -- Functions --------------------------------------------------------------------------------- */

static void emit_return(emitter *e, const ast_stmt *st)
{
  return_info *r = e->ret;
  if (st->as.expr && r->declared)
    em_check_annotation(e, st->as.expr, r->declared);
  ir_value *v = st->as.expr ? em_expr(e, st->as.expr, r->declared) : em_constant_none(e);
  if (r->declared) {
    if (!(is_tensor(r->declared) && v->type->kind == TYPE_NONE))
      v = em_convert(e, r->declared, v, true);
    if (!em_is_subtype(e, v->type, r->declared))
      FAIL(e, "Return value was annotated as having type %s but is actually of type %s",
           TYPE_TEXT(e, r->declared), em_type_of(e, v));
    if (r->declared->kind == TYPE_ANY && v->type->kind != TYPE_ANY)
      v = em_unchecked_cast(e, v, r->declared);
    r->merged = r->declared;
  } else {
    const type *both = r->merged ? em_unify(e, r->merged, v->type, false) : v->type;
    if (!both)
      FAIL(e,
           "Previous return statement returned a value of type %s but this return statement "
           "returns a value "
           "of type %s",
           r->only ? em_type_of(e, r->only) : TYPE_TEXT(e, r->merged), em_type_of(e, v));
    r->only = r->merged ? NULL : v;
    r->merged = both;
  }
  em_put_node(e, IR_RETURN_STMT, &v, 1, NULL);
  e->frame->exits = true;
}

void em_finish_return(emitter *e, const ast_def *def)
{
  const type *t = e->ret->declared;
  if (e->frame->exits) {
    if (!e->ret->merged) /* it always raises */
      e->ret->merged = t ? t : type_simple(TYPE_NONE);
    return;
  }
  e->at = def->at;
  if (e->names->is_eager && def->body.n)
    e->at.end = end_of(def->body.items[def->body.n - 1]);
  if (t && t->kind != TYPE_NONE &&
      (e->names->is_live || !em_is_subtype(e, type_simple(TYPE_NONE), t)))
    FAIL(e, "Function was not annotated as having type None, but does not return along all paths");
  ir_value *none = em_constant_none(e);
  const type *both = t                ? t
                     : e->ret->merged ? em_unify(e, e->ret->merged, none->type, false)
                                      : none->type;
  if (!both)
    FAIL(e, "Function returns a value of type %s but does not return along all paths",
         TYPE_TEXT(e, e->ret->merged));
  e->ret->merged = both;
  em_put_node(e, IR_RETURN_STMT, &none, 1, NULL);
}

static ir_node *closure(emitter *e, const ast_def *d)
{
  if (d->is_async)
    REFUSE(e, &d->at, UNSUPPORTED_NODE, "async function definitions aren't supported");
  if (d->n_params)
    REFUSE(e, &d->at, UNSUPPORTED_NODE, "function definitions aren't supported");
  ir_node *n = em_put(e, ir_node_new(e->s, e->g, IR_CLOSURE, NULL, 0));
  ir_block *b = ir_node_add_block(e->s, n);
  ir_node *old = em_begin_at(e, b);
  return_info ret = {.declared = d->returns ? resolve_type(e->s, e->names, d->returns) : NULL},
              *outer = e->ret;
  uint32_t depth = e->loop_depth;
  e->ret = &ret;
  e->loop_depth = 0;
  em_push_frame(e, b)->is_function = true;
  em_block(e, &d->body);
  em_finish_return(e, d);
  em_pop_frame(e);
  e->before = old;
  e->ret = outer;
  e->loop_depth = depth;
  ir_node_add_output(e->s, n, ret.merged);
  return n;
}

static void emit_def(emitter *e, const ast_stmt *st)
{
  sugared v = {.kind = SUGAR_CLOSURE};
  v.as.node = closure(e, st->as.def);
  em_set_var(e, st->as.def->name, v, NULL);
}

/* -- All --------------------------------------------------------------------------------------- */

static void emit_del(emitter *e, const ast_stmt *st)
{
  for (uint32_t i = 0; i < st->as.del.n; i++) {
    const ast_expr *x = st->as.del.items[i];
    if (x->kind == EXPR_NAME)
      em_del_var(e, x);
    else if (x->kind == EXPR_SUBSCRIPT)
      em_del_subscript(e, x);
    else
      session_fail(
        e->s, &x->at,
        "del statements are only supported for deleting list and dict items and variables");
  }
}

/* long: a dispatch over the kinds of statements */
static void emit_stmt(emitter *e, const ast_stmt *st)
{
  switch (st->kind) {
  case STMT_EXPR:
    em_sugared(e, st->as.expr, NULL);
    return;
  case STMT_ASSIGN:
    emit_assign(e, st);
    return;
  case STMT_AUG_ASSIGN:
    emit_augmented(e, st);
    return;
  case STMT_IF:
    emit_if(e, st);
    return;
  case STMT_WHILE:
    emit_while(e, st);
    return;
  case STMT_FOR:
    emit_for(e, st);
    return;
  case STMT_WITH:
    if (em_is_ignored_block(st)) {
      em_ignored_block(e, st);
      return;
    }
    emit_with(e, st);
    return;
  case STMT_RETURN:
    emit_return(e, st);
    return;
  case STMT_RAISE:
    emit_raise(e, st);
    return;
  case STMT_ASSERT:
    emit_assert(e, st);
    return;
  case STMT_PASS:
    return;
  case STMT_BREAK:
    emit_exit_stmt(e, IR_BREAK_STMT, "break");
    return;
  case STMT_CONTINUE:
    emit_exit_stmt(e, IR_CONTINUE_STMT, "continue");
    return;
  case STMT_DEL:
    emit_del(e, st);
    return;
  case STMT_DEF:
    emit_def(e, st);
    return;
  case STMT_GLOBAL:
    REFUSE(e, &e->at, UNSUPPORTED_NODE, "global variables aren't supported");
  case STMT_TRY:
    REFUSE(e, &e->at, UNSUPPORTED_NODE, "try blocks aren't supported");
  case STMT_CLASS:
    REFUSE(e, &e->at, UNSUPPORTED_NODE, "class definitions aren't supported");
  case STMT_IMPORT:
    REFUSE(e, &e->at, UNSUPPORTED_NODE, "import statements aren't supported");
  }
}

void em_block(emitter *e, const ast_stmts *stmts)
{
  session_enter(e->s);
  for (uint32_t i = 0; i < stmts->n && !e->frame->exits; i++) {
    if (i == 0 && stmts->items[i]->kind == STMT_EXPR &&
        stmts->items[i]->as.expr->kind == EXPR_STRING)
      continue; /* a docstring */
    e->at = stmts->items[i]->at;
    emit_stmt(e, stmts->items[i]);
  }
  session_leave(e->s);
}
