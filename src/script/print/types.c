/* script/print/types.c -- prints the definitions of classes, modules, enums, NamedTuples and
 * interfaces as in an archive's code/ records. The order and the attributes that describe a module
 * (__parameters__, __buffers__, annotations) follow PyTorch, because its reader expects them. */
#include "script/print/print_int.h"

static const char *last_name(const char *qualified)
{
  const char *dot = strrchr(qualified, '.');

  return dot ? dot + 1 : qualified;
}

static void put_names(text_buf *out, const char *what, const class_info *c, bool parameters)
{
  text_printf(out, "  %s = [", what);
  for (uint32_t i = 0; i < c->n_attrs; i++)
    if (parameters ? c->attrs[i].is_parameter : c->attrs[i].is_buffer)
      text_printf(out, "\"%s\", ", c->attrs[i].name);
  text_puts(out, "]\n");
}

static void put_hook_names(text_buf *out, const char *what, function *const *hooks, uint32_t n)
{
  if (n == 0)
    return;
  text_printf(out, "  %s = [", what);
  for (uint32_t i = 0; i < n; i++)
    text_printf(out, "\"%s\", ", hooks[i]->name);
  text_puts(out, "]\n");
}

static void put_attrs(printer *p, const class_info *c)
{
  for (uint32_t i = 0; i < c->n_attrs; i++) {
    const class_attr *a = &c->attrs[i];
    if (print_is_identifier(a->name)) {
      text_printf(p->out, "  %s : ", a->name);
    } else {
      text_puts(p->out, i == 0 ? "  __annotations__ = []\n" : "");
      text_printf(p->out, "  __annotations__[\"%s\"] = ", a->name);
    }
    print_annotation(p, p->out, a->type);
    text_putc(p->out, '\n');
  }
  for (uint32_t i = 0; i < c->n_constants; i++) {
    const class_attr *a = &c->constants[i];
    text_printf(p->out, "  %s : Final[", a->name);
    print_annotation(p, p->out, a->type);
    text_puts(p->out, "] = ");
    print_literal(p, p->out, a->constant, a->type);
    text_putc(p->out, '\n');
  }
}

static void put_method(printer *p, function *f, const char *name, script_self self, const char *cls)
{
  print_function(printer_new(p->uses, p->to, 1), f, name, self, cls);
}

/* Print hooks; one may be called several times but is defined once. */
static void put_hooks(printer *p, function *const *hooks, uint32_t n)
{
  for (uint32_t i = 0; i < n; i++) {
    bool known = false;
    for (uint32_t k = 0; k < i; k++)
      known |= strcmp(hooks[k]->name, hooks[i]->name) == 0;
    if (!known)
      put_method(p, hooks[i], NULL, SELF_TYPED, NULL);
  }
}

static void put_class(printer *p, const type *t)
{
  const class_info *c = t->cls;

  text_printf(p->out, "class %s%s:\n", last_name(t->name), c->is_module ? "(Module)" : "");
  if (c->is_module) {
    put_names(p->out, "__parameters__", c, true);
    put_names(p->out, "__buffers__", c, false);
    put_hook_names(p->out, "__forward_pre_hooks__", c->forward_pre_hooks, c->n_pre_hooks);
    put_hook_names(p->out, "__forward_hooks__", c->forward_hooks, c->n_hooks);
  }
  put_attrs(p, c);
  size_t before = p->out->len;
  for (uint32_t i = 0; i < c->n_methods; i++)
    if (!c->methods[i]->is_static)
      put_method(p, c->methods[i], NULL, SELF_TYPED, NULL);
  put_hooks(p, c->forward_hooks, c->n_hooks);
  put_hooks(p, c->forward_pre_hooks, c->n_pre_hooks);
  if (p->out->len == before && !c->is_module && !c->n_attrs && !c->n_constants)
    text_puts(p->out, "  pass\n");
}

static void put_named_tuple(printer *p, const type *t)
{
  text_printf(p->out, "class %s(NamedTuple):\n", last_name(t->name));
  for (uint32_t i = 0; i < t->n_elems; i++) {
    text_printf(p->out, "  %s : ", t->fields[i]);
    print_annotation(p, p->out, t->elems[i]);
    if (i + t->n_defaults >= t->n_elems) {
      text_puts(p->out, " = ");
      print_literal(p, p->out, t->defaults[i + t->n_defaults - t->n_elems], t->elems[i]);
    }
    text_putc(p->out, '\n');
  }
}

static void put_enum(printer *p, const type *t)
{
  text_printf(p->out, "class %s(Enum):\n", last_name(t->name));
  for (uint32_t i = 0; i < t->cls->n_members; i++) {
    const enum_value *m = value_enum(t->cls->enum_members[i]);
    text_printf(p->out, "  %s = ", m->name->text);
    print_literal(p, p->out, m->value, NULL);
    text_putc(p->out, '\n');
  }
}

static void put_interface(printer *p, const type *t)
{
  text_printf(p->out, "class %s(%s):\n", last_name(t->name),
              t->cls->is_module_interface ? "ModuleInterface" : "Interface");
  for (uint32_t i = 0; i < t->cls->n_methods; i++) {
    const schema *sc = t->cls->methods[i]->schema;
    text_printf(p->out, "  def %s(self", t->cls->methods[i]->name);
    for (uint32_t k = 1; k < sc->n_args; k++) {
      text_printf(p->out, ", %s: ", sc->args[k].name);
      print_annotation(p, p->out, sc->args[k].type);
    }
    text_puts(p->out, ") -> ");
    print_annotation(p, p->out, sc->returns[0].type);
    text_puts(p->out, ":\n    pass\n");
  }
}

void script_print_type(script_uses *u, script_text *to, const type *t)
{
  printer *p = printer_new(u, to, 0);

  if (t->cls)
    class_complete(u->s, t);
  if (t->kind == TYPE_TUPLE)
    put_named_tuple(p, t);
  else if (t->kind == TYPE_ENUM && t->cls)
    put_enum(p, t);
  else if (t->kind == TYPE_INTERFACE && t->cls)
    put_interface(p, t);
  else if (t->kind == TYPE_CLASS && t->cls)
    put_class(p, t);
}

void script_print_unit(script_uses *u, script_text *to, const type *t, const char *name,
                       const char *only)
{
  printer *p = printer_new(u, to, 0);

  text_printf(to->out,
              "class %s(Module):\n  __parameters__ = []\n  __buffers__ = []\n  training : bool\n",
              last_name(name));
  for (uint32_t i = 0; i < t->cls->n_methods; i++) {
    function *f = t->cls->methods[i];
    bool chosen = only && strcmp(only, f->name) == 0;
    if (!only || chosen)
      put_method(p, f, chosen ? "forward" : NULL, f->self ? SELF_TYPED : SELF_ADDED, name);
  }
}
