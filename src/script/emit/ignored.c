/* script/emit/ignored.c -- `with torch.jit._IgnoreContextManager(a="inp:int", b="out:int"):`, a
 * block that remains Python code.
 *
 * The block becomes a function of the host: `inp` are its parameters, `out` its results, which are
 * assigned.  The host gets its text through an attribute of the module that the name comes from. */
#include <string.h>

#include "script/emit/emit_int.h"
#include "script/syntax/lexer.h"

bool em_is_ignored_block(const ast_stmt *st)
{
  const ast_expr *x = st->as.with.n_items == 1 ? st->as.with.items[0].value : NULL;
  return x && x->kind == EXPR_CALL && x->as.call.fn->kind == EXPR_ATTR &&
         strcmp(x->as.call.fn->as.attr.name, "_IgnoreContextManager") == 0;
}

typedef struct ends { /* of the function: names, and their types as texts */
  ast_exprs names;
  const char *typed, *types, *plain; /* "a :int, b :int"; "int, int"; "a, b" */
} ends;

static void add_end(emitter *e, ends *to, const ast_keyword *k, const char *t)
{
  const char *comma = to->names.n ? ", " : "";
  ast_expr *name = session_new(e->s, ast_expr);
  *name = (ast_expr){.kind = EXPR_NAME, .op = OP_NONE, .at = k->at};
  name->as.name = k->name;
  to->names.items[to->names.n++] = name;
  to->typed = session_printf(e->s, "%s%s%s :%s", to->typed, comma, k->name, t);
  to->types = session_printf(e->s, "%s%s%s", to->types, comma, t);
  to->plain = session_printf(e->s, "%s%s%s", to->plain, comma, k->name);
}

static void read_ends(emitter *e, const ast_expr *call, ends *in, ends *out)
{
  uint32_t n = call->as.call.n_keywords;
  *in = *out = (ends){{session_array(e->s, ast_expr *, n), 0}, "", "", ""};
  out->names.items = session_array(e->s, ast_expr *, n);
  for (uint32_t i = 0; i < n; i++) {
    const ast_keyword *k = &call->as.call.keywords[i];
    const char *text = k->name && k->value->kind == EXPR_STRING ? k->value->as.string.data : "";
    if (strncmp(text, "inp:", 4) == 0)
      add_end(e, in, k, text + 4);
    else if (strncmp(text, "out:", 4) == 0)
      add_end(e, out, k, text + 4);
    else
      session_fail(e->s, &k->at,
                   "ignored code must annotate its variables \"inp:TYPE\" or \"out:TYPE\"");
  }
}

/* Return the block as a function's text, with its present indentation. */
static const char *function_text(emitter *e, const ast_stmts *body, const ends *in, const ends *out)
{
  const source *src = body->items[0]->at.src;
  uint32_t start = body->items[0]->at.start, end = body->items[body->n - 1]->at.end, line = start;
  lexer lx;
  while (line > 0 && src->text[line - 1] != '\n')
    line--;
  lexer_init(&lx, e->s, src, start, (uint32_t)src->len);
  while (lx.cur.kind != TK_EOF && (lx.cur.kind != TK_NEWLINE || lx.cur.start < end))
    lexer_next(&lx);
  end = lx.cur.start;
  const char *result = out->names.n == 0   ? "None"
                      : out->names.n == 1 ? out->types
                                          : session_printf(e->s, "Tuple[%s]", out->types);
  return session_printf(e->s, "def func_ignore_%u(%s) -> %s:\n%.*s\n%.*sreturn %s\n", start,
                        in->typed, result, (int)(end - line), src->text + line, (int)(start - line),
                        src->text + line, out->names.n ? out->plain : "None");
}

void em_ignored_block(emitter *e, const ast_stmt *st)
{
  const ast_expr *call = st->as.with.items[0].value;
  sugared module = em_sugared(e, call->as.call.fn->as.attr.base, NULL), made;
  ends in, out;
  read_ends(e, call, &in, &out);
  const char *text = function_text(e, &st->as.with.body, &in, &out);
  if (module.kind != SUGAR_HOST_OBJECT || !e->names->block ||
      !e->names->block(e->s, e->names, &module, text, call->at, &made))
    session_fail(e->s, &call->at, "a block is left to Python: there is no Python here");
  call_args a = {.args = session_array(e->s, ir_value *, in.names.n)};
  for (uint32_t i = 0; i < in.names.n; i++)
    a.args[a.n++] = em_expr(e, in.names.items[i], NULL);
  sugared given = em_call_sugared(e, &made, &a, NULL);
  ast_expr tuple = {.kind = EXPR_TUPLE, .op = OP_NONE, .at = call->at};
  tuple.as.items = out.names;
  if (out.names.n)
    em_assign_to(e, out.names.n == 1 ? out.names.items[0] : &tuple, &given, NULL);
}
