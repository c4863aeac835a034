/* script/front/dataclass.c -- generates the methods of a @dataclass as text, which is then parsed
 * like the class's own methods. */
#include <string.h>

#include "script/front/classes.h"

/* Append " T = value" as the class has it. */
static void put_field(text_buf *out, const ast_stmt *st)
{
  uint32_t from = st->as.assign.type->at
                    .start; /* of the first word: a text that opens with a parenthesis is no type */
  text_add(out, st->at.src->text + from, st->as.assign.end - from);
}

static bool defines(const ast_class *cls, const char *name)
{
  for (uint32_t i = 0; i < cls->body.n; i++)
    if (cls->body.items[i]->kind == STMT_DEF && strcmp(cls->body.items[i]->as.def->name, name) == 0)
      return true;
  return false;
}

/* Return the field that the statement declares, or NULL. */
static const char *field_of(session *s, const ast_stmt *st)
{
  if (st->kind != STMT_ASSIGN || !st->as.assign.type ||
      st->as.assign.targets.items[0]->kind != EXPR_NAME)
    return NULL;
  const ast_expr *v = st->as.assign.value;
  const ast_expr *fn = v && v->kind == EXPR_CALL ? v->as.call.fn : NULL;
  if (fn && strcmp(fn->kind == EXPR_NAME   ? fn->as.name
                   : fn->kind == EXPR_ATTR ? fn->as.attr.name
                                           : "",
                   "field") == 0)
    session_fail(s, &v->at,
                 "Default factory initializers are not supported in TorchScript dataclasses");
  return st->as.assign.targets.items[0]->as.name;
}

static void put_init(session *s, text_buf *out, const ast_class *cls)
{
  text_puts(out, "def __init__(self");
  for (uint32_t i = 0; i < cls->body.n; i++) {
    const ast_stmt *st = cls->body.items[i];
    const char *name = field_of(s, st);
    if (!name)
      continue;
    text_printf(out, ", %s: ", name);
    put_field(out, st);
  }
  text_puts(out, ") -> None:\n");
  for (uint32_t i = 0; i < cls->body.n; i++) {
    const char *name = field_of(s, cls->body.items[i]);
    if (name)
      text_printf(out, "  self.%s = %s\n", name, name);
  }
  text_puts(out, defines(cls, "__post_init__") ? "  self.__post_init__()\n" : "  pass\n");
}

/* Append one comparison: fields from first to last; the first that differs decides. */
static void put_comparison(session *s, text_buf *out, const ast_class *cls, const char *magic,
                           const char *op, const char *when_equal)
{
  if (defines(cls, magic))
    return;
  text_printf(out, "def %s(self, other: %s) -> bool:\n", magic, cls->name);
  for (uint32_t i = 0; i < cls->body.n; i++) {
    const char *name = field_of(s, cls->body.items[i]);
    if (name)
      text_printf(out, "  if self.%s != other.%s:\n    return %s%s%s%s\n", name, name,
                  *op ? "self." : "False", *op ? name : "", op,
                  *op ? session_printf(s, "other.%s", name) : "");
  }
  text_printf(out, "  return %s\n", when_equal);
}

const char *class_dataclass_methods(session *s, const ast_class *cls, bool has_order, size_t *len)
{
  text_buf *out = session_text(s);
  if (!defines(cls, "__init__"))
    put_init(s, out, cls);
  put_comparison(s, out, cls, "__eq__", "", "True");
  if (has_order) {
    put_comparison(s, out, cls, "__lt__", " < ", "False");
    put_comparison(s, out, cls, "__le__", " < ", "True");
    put_comparison(s, out, cls, "__gt__", " > ", "False");
    put_comparison(s, out, cls, "__ge__", " > ", "True");
  }
  *len = out->len;
  return session_take_text(s, out);
}
