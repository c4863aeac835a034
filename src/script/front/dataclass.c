/* script/front/dataclass.c -- generates the methods of a @dataclass as text, which is then parsed
 * like the class's own methods.  Texts have their fields from the syntax tree, live classes from
 * the host; the methods are those that PyTorch synthesizes. */
#include <string.h>

#include "base/grow.h"
#include "script/front/classes.h"

/* -- One method -------------------------------------------------------------------------------- */

static void put_init(text_buf *out, const rush_dataclass_field *fields, size_t n,
                     bool has_post_init)
{
  text_puts(out, "def __init__(self");
  for (size_t i = 0; i < n; i++) {
    const rush_dataclass_field *f = &fields[i];
    if (f->is_parameter)
      text_printf(out, ", %s: %s%s%s", f->name, f->annotation, f->value ? " = " : "",
                  f->value ? f->value : "");
  }
  text_puts(out, "):\n");
  const size_t head = out->len;
  for (size_t i = 0; i < n; i++) {
    const rush_dataclass_field *f = &fields[i];
    if (!f->is_argument && (f->is_parameter || f->value))
      text_printf(out, "    self.%s = %s\n", f->name, f->is_parameter ? f->name : f->value);
  }
  if (has_post_init) {
    const char *before = "    self.__post_init__(";
    for (size_t i = 0; i < n; i++)
      if (fields[i].is_argument) {
        text_printf(out, "%s%s", before, fields[i].name);
        before = ", ";
      }
    text_puts(out, *before == ',' ? ")\n" : "    self.__post_init__()\n");
  }
  if (out->len == head)
    text_puts(out, "    pass\n");
}

/* How the values of a field decide, and what equal objects are. */
static const struct comparison { const char *method, *op; bool when_equal;
} comparisons[] = {{"__eq__", NULL, true},
                   {"__lt__", "<", false},
                   {"__le__", "<", true},
                   {"__gt__", ">", false},
                   {"__ge__", ">", true}};

/* Append the comparison of a field: None equals only None, and has no order. */
static void put_field(text_buf *out, const struct comparison *c, const rush_dataclass_field *f,
                      const char *cls)
{
  const char *deeper = f->is_optional ? "    " : "";
  text_printf(out, "    val1 = self.%s\n    val2 = other.%s\n", f->name, f->name);
  if (f->is_optional)
    text_puts(out, "    if val1 is not None and val2 is not None:\n");
  if (!c->op)
    text_printf(out, "%s    if val1 != val2:\n%s        return False\n", deeper, deeper);
  else
    text_printf(out,
                "%s    if val1 %s val2:\n%s        return True\n%s    elif val2 %s val1:\n"
                "%s        return False\n",
                deeper, c->op, deeper, deeper, c->op, deeper);
  if (f->is_optional && !c->op)
    text_puts(out, "    elif (val1 is None) != (val2 is None):\n        return False\n");
  else if (f->is_optional)
    text_printf(out,
                "    elif (val1 is None) != (val2 is None):\n"
                "        raise TypeError('Cannot compare %s with None')\n",
                cls);
}

void dataclass_put_method(text_buf *out, const char *cls, const char *type, const char *method,
                          const rush_dataclass_field *fields, size_t n, bool has_post_init)
{
  if (strcmp(method, "__init__") == 0)
    put_init(out, fields, n, has_post_init);
  for (size_t k = 0; k < COUNT_OF(comparisons); k++) {
    const struct comparison *c = &comparisons[k];
    if (strcmp(c->method, method) != 0)
      continue;
    text_printf(out, "def %s(self, other: %s) -> bool:\n", method, type);
    for (size_t i = 0; i < n; i++)
      if (fields[i].is_compared)
        put_field(out, c, &fields[i], cls);
    text_printf(out, "    return %s\n", c->when_equal ? "True" : "False");
  }
}

/* -- Texts ------------------------------------------------------------------------------------- */

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

/* Read the fields of the class; an annotation is the text up to the statement's end, with the
 * default. */
static uint32_t read_fields(session *s, const ast_class *cls, rush_dataclass_field **out)
{
  uint32_t n = 0, cap = 0;
  for (uint32_t i = 0; i < cls->body.n; i++) {
    const ast_stmt *st = cls->body.items[i];
    const char *name = field_of(s, st);
    if (!name)
      continue;
    /* from the first word: a text that opens with a parenthesis is no type */
    const uint32_t from = st->as.assign.type->at.start;
    const char *text =
      session_strndup(s, st->at.src->text + from, st->as.assign.end - from);
    GROW(s, *out, n, cap, 8);
    (*out)[n++] = (rush_dataclass_field){.name = name,
                                         .annotation = text,
                                         .is_parameter = true,
                                         .is_compared = true,
                                         .is_optional = strstr(text, "Optional") != NULL};
  }
  return n;
}

const char *class_dataclass_methods(session *s, const ast_class *cls, bool has_order, size_t *len)
{
  static const char *const methods[] = {"__init__", "__eq__", "__lt__",
                                        "__le__",   "__gt__", "__ge__"};
  text_buf *out = session_text(s);
  rush_dataclass_field *fields = NULL;
  const uint32_t n = read_fields(s, cls, &fields);
  for (size_t i = 0; i < (has_order ? COUNT_OF(methods) : 2); i++)
    if (!defines(cls, methods[i]))
      dataclass_put_method(out, cls->name, cls->name, methods[i], fields, n,
                           defines(cls, "__post_init__"));
  *len = out->len;
  return session_take_text(s, out);
}
