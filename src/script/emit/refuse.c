/* script/emit/refuse.c -- refuses Python syntax that TorchScript lacks, before anything is emitted.
 *
 * PyTorch converts a whole function before it compiles it, so what it cannot convert is an error
 * even in unreachable code.  Messages and classes are those of its converter.  Archives contain
 * nothing of the kind. */
#include <string.h>

#include "script/emit/emit_int.h"

static void check_expr(session *s, const ast_expr *x);
static void check_block(session *s, const ast_stmts *b);

/* Refuse a node; only its first word, of the given length, is marked. */
static _Noreturn void unsupported(session *s, const source_range *at, uint32_t len,
                                  const char *what)
{
  source_range word = {at->src, at->start, at->start + len};
  session_fail_status(s, RUSH_ERAISED, UNSUPPORTED_NODE, &word, "%s aren't supported", what);
}

#define REFUSE_IN(s, at, ...) \
  session_fail_status((s), RUSH_ERAISED, NOT_SUPPORTED, (at), __VA_ARGS__)

/* -- Expressions ------------------------------------------------------------------------------- */

static void check_all(session *s, const ast_exprs *l)
{
  for (uint32_t i = 0; i < l->n; i++)
    if (l->items[i]) /* NULL: the ** of a dict */
      check_expr(s, l->items[i]);
}

static void check_comprehension(session *s, const ast_expr *x)
{
  source_range nothing = {x->at.src, x->at.start, x->at.start};
  if (x->as.comp.n_fors != 1)
    REFUSE_IN(s, &nothing, "Only a single generator is currently supported");
  if (x->as.comp.fors[0].conds.n)
    REFUSE_IN(s, &nothing, "Comprehension ifs are not supported yet");
  if (x->as.comp.key)
    check_expr(s, x->as.comp.key);
  check_expr(s, x->as.comp.element);
  check_expr(s, x->as.comp.fors[0].iter);
  check_all(s, &x->as.comp.fors[0].conds);
}

static void check_call(session *s, const ast_expr *x)
{
  check_expr(s, x->as.call.fn);
  check_all(s, &x->as.call.args);
  for (uint32_t i = 0; i < x->as.call.n_keywords; i++) {
    if (!x->as.call.keywords[i].name)
      REFUSE_IN(s, &x->as.call.keywords[i].at, "keyword-arg expansion is not supported");
    check_expr(s, x->as.call.keywords[i].value);
  }
}

/* Return the name in Python's tree of an expression kind that is never converted. */
static const char *refused_name(expr_kind k)
{
  static const struct { expr_kind kind; const char *name; } rows[] = {
      {EXPR_LAMBDA, "Lambda"}, {EXPR_SET, "Set"},     {EXPR_SET_COMP, "SetComp"},
      {EXPR_WALRUS, "NamedExpr"}, {EXPR_AWAIT, "Await"}, {EXPR_YIELD, "Yield"},
      {EXPR_YIELD_FROM, "YieldFrom"}};
  for (size_t i = 0; i < COUNT_OF(rows); i++)
    if (rows[i].kind == k)
      return rows[i].name;
  return NULL;
}

static void check_dict(session *s, const ast_expr *x)
{
  for (uint32_t i = 0; i < x->as.dict.keys.n; i++)
    if (!x->as.dict.keys.items[i])
      REFUSE_IN(s, &x->at, "Dict expansion (e.g. `{**dict}`) is not supported");
  check_all(s, &x->as.dict.keys);
  check_all(s, &x->as.dict.values);
}

static void check_format(session *s, const ast_expr *x, source_range whole)
{
  whole.end = whole.start + 1;
  if (x->as.format.conversion)
    REFUSE_IN(s, &whole, "Don't support conversion in JoinedStr");
  if (x->as.format.spec)
    REFUSE_IN(s, &whole, "Don't support formatting in JoinedStr");
  check_expr(s, x->as.format.value);
}

static void check_parts(session *s, const ast_expr *x)
{
  const ast_expr *three[3] = {NULL, NULL, NULL};
  switch ((int)x->kind) {
  case EXPR_ATTR: three[0] = x->as.attr.base; break;
  case EXPR_UNARY: case EXPR_STARRED: three[0] = x->as.pair.left; break;
  case EXPR_BINARY: three[0] = x->as.pair.left, three[1] = x->as.pair.right; break;
  case EXPR_SLICE:
    three[0] = x->as.slice.start, three[1] = x->as.slice.stop, three[2] = x->as.slice.step;
    break;
  case EXPR_TERNARY:
    three[0] = x->as.ternary.cond, three[1] = x->as.ternary.yes, three[2] = x->as.ternary.no;
    break;
  case EXPR_COMPARE: check_all(s, &x->as.compare.operands); break;
  case EXPR_SUBSCRIPT:
    check_expr(s, x->as.subscript.base);
    check_all(s, &x->as.subscript.index);
    break;
  case EXPR_BOOL: case EXPR_LIST: case EXPR_TUPLE: check_all(s, &x->as.items); break;
  }
  for (int i = 0; i < 3; i++)
    if (three[i])
      check_expr(s, three[i]);
}

static void check_expr(session *s, const ast_expr *x)
{
  const char *name = refused_name(x->kind);
  if (name)
    unsupported(s, &x->at, 1, name);
  session_enter(s);
  switch ((int)x->kind) {
  case EXPR_NAME:
    if (strncmp(x->as.name, "__jit", 5) == 0)
      REFUSE_IN(s, &x->at, "names of variables used in JIT-ed functions can't start with __jit");
    break;
  case EXPR_BYTES:
    session_fail_status(s, RUSH_ERAISED, "FrontendError", &x->at,
                        "Unknown Constant expression type");
  case EXPR_FSTRING:
    for (uint32_t i = 0; i < x->as.items.n; i++)
      if (x->as.items.items[i]->kind == EXPR_FORMAT)
        check_format(s, x->as.items.items[i], x->at);
    break;
  case EXPR_CALL: check_call(s, x); break;
  case EXPR_DICT: check_dict(s, x); break;
  case EXPR_LIST_COMP: case EXPR_DICT_COMP: case EXPR_GENERATOR: check_comprehension(s, x); break;
  default: check_parts(s, x);
  }
  session_leave(s);
}

/* -- Statements -------------------------------------------------------------------------------- */

static void check_assign(session *s, const ast_stmt *st)
{
  const ast_exprs *targets = &st->as.assign.targets;
  if (!st->as.assign.value)
    unsupported(s, &st->at, 1, "annotated assignments without assigned value");
  for (uint32_t i = 0; i < targets->n; i++)
    if (targets->items[i]->kind == EXPR_LIST)
      session_fail(s, &targets->items[i]->at,
                   "unexpected expression on left-hand side of assignment");
  check_all(s, targets);
  check_expr(s, st->as.assign.value);
}

static void check_augmented(session *s, const ast_stmt *st)
{
  source_range op = {st->at.src, st->as.aug.target->at.end, st->as.aug.value->at.start};
  if (st->op == OP_FLOORDIV || st->op == OP_MATMUL)
    REFUSE_IN(s, &op, "unsupported kind of augmented assignment: %s",
              st->op == OP_MATMUL ? "MatMult" : "FloorDiv");
  check_expr(s, st->as.aug.target);
  check_expr(s, st->as.aug.value);
}

static void check_loops(session *s, const ast_stmt *st)
{
  bool is_for = st->kind == STMT_FOR;
  source_range word = {st->at.src, st->at.start, st->at.start + (is_for ? 3 : 5)};
  if ((is_for ? st->as.loop.orelse.n : st->as.branch.orelse.n) > 0)
    REFUSE_IN(s, &word, "else branches of %s loops aren't supported", is_for ? "for" : "while");
  check_expr(s, is_for ? st->as.loop.iter : st->as.branch.cond);
  check_block(s, is_for ? &st->as.loop.body : &st->as.branch.body);
}

static void check_stmt(session *s, const ast_stmt *st)
{
  switch (st->kind) {
  case STMT_EXPR: case STMT_RETURN:
    if (st->as.expr)
      check_expr(s, st->as.expr);
    return;
  case STMT_ASSIGN: check_assign(s, st); return;
  case STMT_AUG_ASSIGN: check_augmented(s, st); return;
  case STMT_IF:
    check_expr(s, st->as.branch.cond);
    check_block(s, &st->as.branch.body);
    check_block(s, &st->as.branch.orelse);
    return;
  case STMT_WHILE: case STMT_FOR: check_loops(s, st); return;
  case STMT_WITH:
    if (em_is_ignored_block(st))
      return;
    for (uint32_t i = 0; i < st->as.with.n_items; i++)
      check_expr(s, st->as.with.items[i].value);
    check_block(s, &st->as.with.body);
    return;
  case STMT_RAISE:
    if (st->as.raise.value)
      check_expr(s, st->as.raise.value);
    return;
  case STMT_ASSERT:
    check_expr(s, st->as.assertion.cond);
    if (st->as.assertion.message)
      check_expr(s, st->as.assertion.message);
    return;
  case STMT_DEL: check_all(s, &st->as.del); return;
  case STMT_PASS: case STMT_BREAK: case STMT_CONTINUE: return;
  case STMT_DEF:
    unsupported(s, &st->at, st->as.def->is_async ? 9 : 3,
                st->as.def->is_async ? "async function definitions" : "function definitions");
  case STMT_CLASS: unsupported(s, &st->at, 5, "class definitions");
  case STMT_GLOBAL: unsupported(s, &st->at, 6, "global variables");
  case STMT_TRY: unsupported(s, &st->at, 3, "try blocks");
  case STMT_IMPORT: unsupported(s, &st->at, st->as.import.from ? 4 : 6, "import statements");
  }
}

static void check_block(session *s, const ast_stmts *b)
{
  session_enter(s);
  for (uint32_t i = 0; i < b->n; i++) {
    const ast_stmt *st = b->items[i];
    bool is_doc = i == 0 && st->kind == STMT_EXPR && st->as.expr->kind == EXPR_STRING;
    if (!is_doc)
      check_stmt(s, st);
  }
  session_leave(s);
}

/* -- Functions --------------------------------------------------------------------------------- */

void em_refuse_params(session *s, const ast_def *d, bool is_file)
{
  for (uint32_t i = 0; i < d->n_params; i++) {
    const ast_param *p = &d->params[i];
    const ast_expr *v = p->default_value;
    if (v && !is_file && !p->type && !(i == 0 && strcmp(p->name, "self") == 0))
      session_fail(
        s, &p->at,
        "Keyword arguments with defaults need to be type-hinted (TorchScript C++ frontend)");
    if (p->positional_only && is_file) /* PyTorch's front end leaves such parameters out */
      session_fail(s, &p->at, "undefined value %s", p->name);
    source_range at = p->at;
    at.start += p->form == PARAM_STAR_STAR;
    if (p->form != PARAM_PLAIN || (p->keyword_only && v))
      REFUSE_IN(s, p->form == PARAM_PLAIN ? &v->at : &at,
                "Compiled functions can't take variable number of arguments or use keyword-only "
                "arguments with "
                "defaults");
    const char *what = !v || !is_file          ? NULL
                       : v->kind == EXPR_LIST ? "list"
                       : v->kind == EXPR_DICT ? "dict"
                       : v->kind == EXPR_SET  ? "set"
                                              : NULL;
    if (what)
      session_fail(
        s, &v->at,
        "Mutable default parameters are not supported because Python binds them to the function "
        "and they "
        "persist across function calls.\n As a workaround, make the default None and instantiate "
        "the "
        "default parameter within the body of the function. Found <class '%s'> on parameter %s",
        what, p->name);
  }
}

void em_refuse_body(session *s, const ast_def *d) { check_block(s, &d->body); }
