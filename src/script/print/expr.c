/* script/print/expr.c -- prints the right sides of assignments: operators in infix form or as
 * calls, attributes, containers, constants and types. A list of operators that have a Python form
 * is matched by schema; all others are printed as ops.NAMESPACE.NAME. Constants that no literal can
 * express become CONSTANTS.cN, collected by the caller. */
#include <math.h>
#include <ctype.h>

#include "base/grow.h"
#include "ops/call/lookup.h"
#include "ops/table/op_keys.h"
#include "script/print/print_int.h"
#include "value/schema.h"

/* -- Values as they are used ------------------------------------------------------------------- */

value_text *print_text_of(printer *p, ir_value *v)
{
  if (!v->scratch) {
    GROW(p->s, p->values, p->n_values, p->cap_values, 256);
    v->scratch = ++p->n_values;
  }
  return &p->values[v->scratch - 1];
}

const char *print_use(printer *p, ir_value *v)
{
  const char *text = print_text_of(p, v)->text;

  if (!text)
    session_fail_status(p->s, RUSH_EUNSUPPORTED, NULL, &v->node->range,
                        "a value of %s cannot be written as TorchScript",
                        ir_node_kind_name(v->node));
  return text;
}

void print_values(printer *p, text_buf *out, ir_use *const *list, uint32_t n)
{
  for (uint32_t i = 0; i < n; i++) {
    text_puts(out, i ? ", " : "");
    text_puts(out, print_use(p, list[i]->value));
  }
}

bool print_is_identifier(const char *name)
{
  if (!isalpha((unsigned char)name[0]) && name[0] != '_')
    return false;
  while (isalnum((unsigned char)*name) || *name == '_')
    name++;
  return *name == 0;
}

void print_annotation(printer *p, text_buf *out, const type *t)
{
  script_use_type(p->uses, t);
  type_print_annotation(out, t);
}

/* -- Constants --------------------------------------------------------------------------------- */

static bool same_tensor(const rush_tensor *a, const rush_tensor *b)
{
  if (a == b)
    return true;
  if (!a || !b || a->dtype != b->dtype || a->n_dims != b->n_dims || tensor_quantizer(a) ||
      tensor_quantizer(b) || tensor_requires_grad(a) != tensor_requires_grad(b) ||
      !tensor_is_contiguous(a) || !tensor_is_contiguous(b))
    return false;
  for (int i = 0; i < a->n_dims; i++)
    if (a->sizes[i] != b->sizes[i])
      return false;
  size_t n_bytes = (size_t)a->n_elems * dtype_bytes(a->dtype);
  return n_bytes == 0 || memcmp(a->data, b->data, n_bytes) == 0;
}

static uint32_t constant_number(script_uses *u, rush_value v)
{
  for (uint32_t i = 0; i < u->n_constants; i++) {
    rush_value known = u->constants[i];
    if (known.tag == v.tag &&
        (known.as.heap == v.as.heap ||
         (v.tag == RUSH_TAG_TENSOR && same_tensor(known.as.tensor, v.as.tensor))))
      return i;
  }
  GROW(u->s, u->constants, u->n_constants, u->cap_constants, 16);
  u->constants[u->n_constants] = v;
  return u->n_constants++;
}

static bool is_ascii(session *s, rush_value v)
{
  bool ok = true;
  size_t pos = 0;

  session_enter(s);
  if (v.tag == RUSH_TAG_STRING)
    for (size_t i = 0; i < v.as.string->len; i++)
      ok &= (unsigned char)v.as.string->text[i] < 128;
  for (size_t i = 0; v.tag == RUSH_TAG_LIST && i < v.as.list->n && ok; i++)
    ok = is_ascii(s, v.as.list->items[i]);
  for (size_t i = 0; v.tag == RUSH_TAG_TUPLE && i < v.as.tuple->n && ok; i++)
    ok = is_ascii(s, v.as.tuple->items[i]);
  if (v.tag == RUSH_TAG_DICT)
    for (dict_entry *e; ok && (e = dict_next(v.as.dict, &pos));)
      ok = is_ascii(s, e->key) && is_ascii(s, e->value);
  session_leave(s);
  return ok;
}

/* True if the members show the container's type. */
static bool implies_type(const type *elem)
{
  bool implied = elem->kind != TYPE_UNION && elem->kind != TYPE_OPTIONAL &&
               elem->kind != TYPE_NUMBER && elem->kind != TYPE_INTERFACE && elem->kind != TYPE_ANY;

  for (uint32_t i = 0; elem->kind == TYPE_TUPLE && i < elem->n_elems && implied; i++)
    implied = implies_type(elem->elems[i]);
  return implied;
}

/* True if the value's text has exactly this type.  (1, None) is not a Tuple[int,
 * Optional[float]]. */
static bool text_implies_type(const ir_value *v, const type *t)
{
  const ir_node *n = v->node;
  bool implied = type_equal(v->type, t) && (n->kind != IR_CONSTANT || implies_type(t));

  for (uint32_t i = 0; n->kind == IR_TUPLE_CONSTRUCT && i < n->n_inputs && implied; i++)
    implied = text_implies_type(ir_node_input(n, i), t->elems[i]);
  return implied;
}

/* True if the members of a constructed container show the type of its keys (0) or of its items or
 * values (the last). */
static bool members_imply_type(const ir_node *n, uint32_t which)
{
  const type *t = n->outputs[0]->type, *elem = t->elems[which];
  bool implied = implies_type(elem);

  for (uint32_t i = which; elem->kind == TYPE_TUPLE && i < n->n_inputs && !implied; i += t->n_elems)
    implied = text_implies_type(ir_node_input(n, i), elem);
  return implied;
}

static void put_items(printer *p, text_buf *out, const rush_value *items, size_t n,
                      const type *const *types, bool one_type)
{
  for (size_t i = 0; i < n; i++) {
    text_puts(out, i ? ", " : "");
    print_literal(p, out, items[i], !types ? NULL : types[one_type ? 0 : i]);
  }
}

/* Print a list; t: the declared type, or NULL: the list's own. */
static void put_list(printer *p, text_buf *out, const rush_list *l, const type *t)
{
  const type *elem = t && t->kind == TYPE_LIST ? type_elem(t) : l->elem;
  bool annotate = l->n == 0 || !implies_type(elem);

  if (annotate) {
    text_puts(out, "annotate(List[");
    print_annotation(p, out, elem);
    text_puts(out, "], ");
  }
  text_putc(out, '[');
  put_items(p, out, l->items, l->n, &elem, true);
  text_puts(out, annotate ? "])" : "]");
}

static void put_dict(printer *p, text_buf *out, const rush_dict *d, const type *t)
{
  const type *key = t && t->kind == TYPE_DICT ? t->elems[0] : d->key,
             *value = t && t->kind == TYPE_DICT ? t->elems[1] : d->value;
  bool annotate = d->n == 0 || !implies_type(key) || !implies_type(value), first = true;
  size_t pos = 0;

  if (annotate) {
    text_puts(out, "annotate(Dict[");
    print_annotation(p, out, key);
    text_puts(out, ", ");
    print_annotation(p, out, value);
    text_puts(out, "], ");
  }
  text_putc(out, '{');
  for (dict_entry *e; (e = dict_next(d, &pos)); first = false) {
    text_puts(out, first ? "" : ", ");
    print_literal(p, out, e->key, key);
    text_puts(out, ": ");
    print_literal(p, out, e->value, value);
  }
  text_puts(out, annotate ? "})" : "}");
}

static void put_tuple(printer *p, text_buf *out, const rush_tuple *v, const type *t)
{
  if (!t || t->kind != TYPE_TUPLE || t->n_elems != v->n)
    t = v->type;
  if (t && t->fields)
    print_annotation(p, out, t);
  text_putc(out, '(');
  put_items(p, out, v->items, v->n, t ? t->elems : NULL, false);
  text_puts(out, v->n == 1 ? ",)" : ")");
}

static void put_complex(text_buf *out, const complex_box *z)
{
  ir_print_float(out, z->re);
  text_putc(out, z->im < 0 ? '-' : '+');
  ir_print_float(out, z->im < 0 ? -z->im : z->im);
  text_putc(out, 'j');
}

static void put_device(text_buf *out, rush_value v)
{
  text_printf(out, "torch.device(\"%s", device_kind_name(value_device_kind(v)));
  if (value_device_index(v) >= 0)
    text_printf(out, ":%d", value_device_index(v));
  text_puts(out, "\")");
}

void print_literal(printer *p, text_buf *out, rush_value v, const type *t)
{
  session_enter(p->s);
  if (t && t->kind == TYPE_OPTIONAL)
    t = type_elem(t);
  switch (is_ascii(p->s, v) ? (int)v.tag : -1) {
  case RUSH_TAG_NONE: text_puts(out, "None"); break;
  case RUSH_TAG_BOOL: text_puts(out, v.as.b ? "True" : "False"); break;
  case RUSH_TAG_INT: text_printf(out, "%lld", (long long)v.as.i); break;
  case RUSH_TAG_FLOAT: ir_print_float(out, v.as.d); break;
  case RUSH_TAG_COMPLEX: put_complex(out, value_complex(v)); break;
  case RUSH_TAG_STRING: schema_print_quoted(out, value_str(v)); break;
  case RUSH_TAG_LIST: put_list(p, out, v.as.list, t); break;
  case RUSH_TAG_TUPLE: put_tuple(p, out, v.as.tuple, t); break;
  case RUSH_TAG_DICT: put_dict(p, out, v.as.dict, t); break;
  case RUSH_TAG_DEVICE: put_device(out, v); break;
  case RUSH_TAG_ENUM:
    script_use_type(p->uses, value_enum(v)->type);
    text_printf(out, "%s.%s", value_enum(v)->type->name, value_enum(v)->name->text);
    break;
  default:
    text_printf(out, "CONSTANTS.c%u", constant_number(p->uses, v));
  }
  session_leave(p->s);
}

/* -- Calls ------------------------------------------------------------------------------------- */

static void put_op_name(text_buf *out, const char *name)
{
  const char *colon = strstr(name, "::");

  if (strcmp(name, "aten::backward") == 0 || strcmp(name, "aten::grad") == 0)
    text_printf(out, "torch.autograd.%s", colon + 2);
  else if (strncmp(name, "aten::", 6) == 0)
    text_printf(out, "torch.%s", name + 6);
  else if (colon)
    text_printf(out, "ops.%.*s.%s", (int)(colon - name), name, colon + 2);
  else
    text_puts(out, name);
}

static bool is_default(printer *p, const schema_arg *a, const ir_value *v)
{
  rush_value c;
  bool equal = false;

  if (!a->has_default || !ir_value_as_constant(v, &c) || c.tag != a->default_value.tag)
    return false;
  session_check(p->s, value_equal(p->s->cx, c, a->default_value, &equal));
  return equal;
}

static bool is_out(const schema_arg *a) { return a->kwarg_only && a->is_write; }

/* Print arguments without the last ones that equal their defaults; out arguments are always
 * named. */
/* Print arguments of an operator without a schema: those that the text named are the last inputs
 * (script/emit/unknown_ops.c). */
static void put_unknown_args(printer *p, text_buf *out, const ir_node *n)
{
  const char *names = ir_attr_string(n, "_names");
  uint32_t n_named = names != NULL;

  for (const char *c = names; c && *c; c++)
    n_named += *c == ' ';
  for (uint32_t i = 0; i < n->n_inputs; i++) {
    text_puts(out, i ? ", " : "");
    if (i + n_named >= n->n_inputs && names) {
      const size_t len = strcspn(names, " ");
      text_printf(out, "%.*s=", (int)len, names);
      names += len + (names[len] == ' ');
    }
    text_puts(out, print_use(p, ir_node_input(n, i)));
  }
}

static void put_args(printer *p, text_buf *out, const ir_node *n, const schema *sc)
{
  uint32_t n_out = 0, n_shown = n->n_inputs;

  if (sc && sc->n_args >= n->n_inputs) {
    while (n_out < sc->n_args && is_out(&sc->args[sc->n_args - 1 - n_out]))
      n_out++;
    n_shown = n->n_inputs > n_out ? n->n_inputs - n_out : 0;
    while (n_shown && is_default(p, &sc->args[n_shown - 1], ir_node_input(n, n_shown - 1)))
      n_shown--;
  }
  for (uint32_t i = 0; i < n->n_inputs; i++) {
    if (i >= n_shown && i < n->n_inputs - n_out)
      continue;
    text_puts(out, i ? ", " : "");
    if (sc && i < sc->n_args && sc->args[i].kwarg_only)
      text_printf(out, "%s=", sc->args[i].name);
    text_puts(out, print_use(p, ir_node_input(n, i)));
  }
}

static void put_call(printer *p, text_buf *out, const ir_node *n, uint32_t first)
{
  text_putc(out, '(');
  for (uint32_t i = first; i < n->n_inputs; i++)
    text_printf(out, "%s, ", print_use(p, ir_node_input(n, i)));
  text_putc(out, ')');
}

static void put_annotated(printer *p, text_buf *out, const char *form, const type *t,
                          const char *text)
{
  text_printf(out, "%s(", form);
  print_annotation(p, out, t);
  text_printf(out, ", %s)", text);
}

static void put_index(printer *p, text_buf *out, const ir_node *n)
{
  const char *base = print_use(p, ir_node_input(n, 0));

  text_printf(out, print_is_identifier(base) ? "%s[%s]" : "(%s)[%s]", base,
              print_use(p, ir_node_input(n, 1)));
}

static bool is_none(const ir_value *v)
{
  rush_value c;

  return ir_value_as_constant(v, &c) && value_is_none(c);
}

/* Print unwrap_optional; for None, the type of its argument must be printed. */
static void put_unwrap(printer *p, text_buf *out, const ir_node *n)
{
  ir_value *v = ir_node_input(n, 0);

  text_puts(out, "torch._unwrap_optional(");
  if (v->type->kind == TYPE_NONE || is_none(v)) {
    text_puts(out, "annotate(Optional[");
    print_annotation(p, out, n->outputs[0]->type);
    text_printf(out, "], %s)", print_use(p, v));
  } else {
    text_puts(out, print_use(p, v));
  }
  text_putc(out, ')');
}

static void put_cast(printer *p, text_buf *out, const ir_node *n, const char *word)
{
  text_printf(out, "%s(", word);
  print_values(p, out, n->inputs, n->n_inputs);
  text_putc(out, ')');
}

/* Print a call of a function that stays in the host (script/front/host.c); archives refuse it. */
static void put_host_call(printer *p, text_buf *out, const ir_node *n, const char *name)
{
  const char *scalars = ir_attr_string(n, "_scalars");

  if (p->uses->is_export)
    session_fail(p->s, n->range.src ? &n->range : NULL,
                 "Could not export Python function call '%s'. Remove calls to Python functions "
                 "before export. Did you forget to add @script or @script_method annotation? If "
                 "this is a nn.ModuleList, add it to __constants__",
                 name + 1);
  text_printf(out, "%s(%s)(", name, scalars ? scalars : "");
  print_values(p, out, n->inputs, n->n_inputs);
  text_putc(out, ')');
}

static void put_operator(printer *p, text_buf *out, const ir_node *n, const char *name,
                         const schema *sc)
{
  if (ir_node_is_of_host(n)) {
    put_host_call(p, out, n, name);
    return;
  }
  switch (n->kind == IR_OP ? n->op->name_key : session_op_name_key(p->s, str_of(name))) {
  case OPN_INT:
    put_cast(p, out, n, "int");
    break;
  case OPN_FLOAT:
    put_cast(p, out, n, "float");
    break;
  case OPN_BOOL:
    put_cast(p, out, n, "bool");
    break;
  case OPN_STR:
    put_cast(p, out, n, "str");
    break;
  case OPN_SORTED:
    put_cast(p, out, n, "sorted");
    break;
  case OPN_SCALARIMPLICIT: case OPN_FLOATIMPLICIT: case OPN_INTIMPLICIT:
    put_annotated(p, out, "annotate", n->outputs[0]->type, print_use(p, ir_node_input(n, 0)));
    break;
  case OPN___GETITEM__:
    put_index(p, out, n);
    break;
  case OPN__UNWRAP_OPTIONAL:
    put_unwrap(p, out, n);
    break;
  case OPN_PRIM__UNCHECKED_UNWRAP_OPTIONAL:
    put_annotated(p, out, "unchecked_cast", n->outputs[0]->type, print_use(p, ir_node_input(n, 0)));
    break;
  case OPN_PRIM__TOLIST:
    text_puts(out, "annotate(");
    print_annotation(p, out, n->outputs[0]->type);
    text_printf(out, ", %s.tolist())", print_use(p, ir_node_input(n, 0)));
    break;
  case OPN_PRIM__ENUMVALUE:
    text_printf(out, "(%s).value", print_use(p, ir_node_input(n, 0)));
    break;
  case OPN_PRIM__ENUMNAME:
    text_printf(out, "(%s).name", print_use(p, ir_node_input(n, 0)));
    break;
  default:
    put_op_name(out, name);
    text_putc(out, '(');
    put_args(p, out, n, sc);
    text_putc(out, ')');
  }
}

/* Print a call of an unknown operator; no schema has the type of its result, so it is printed
 * unless it is Tensor. */
static void put_unknown(printer *p, text_buf *out, const ir_node *n)
{
  const type *t = n->n_outputs == 1 ? n->outputs[0]->type : NULL;
  const char *name = ir_node_kind_name(n);

  if (ir_node_is_of_host(n)) {
    put_operator(p, out, n, name, NULL);
    return;
  }
  if (t && t->kind != TYPE_TENSOR) {
    text_puts(out, "annotate(");
    print_annotation(p, out, t);
    text_puts(out, ", ");
  }
  put_op_name(out, name);
  text_putc(out, '(');
  put_unknown_args(p, out, n);
  text_puts(out, t && t->kind != TYPE_TENSOR ? "))" : ")");
}

/* -- Containers and objects -------------------------------------------------------------------- */

static void put_pairs(printer *p, text_buf *out, const ir_node *n)
{
  text_putc(out, '{');
  for (uint32_t i = 0; i + 1 < n->n_inputs; i += 2)
    text_printf(out, "%s%s: %s", i ? ", " : "", print_use(p, ir_node_input(n, i)),
                print_use(p, ir_node_input(n, i + 1)));
  text_putc(out, '}');
}

static void put_container(printer *p, text_buf *out, const ir_node *n)
{
  const type *t = n->outputs[0]->type;
  bool annotate = n->n_inputs == 0;

  for (uint32_t i = 0; i < t->n_elems; i++)
    annotate |= !members_imply_type(n, i);
  if (annotate) {
    text_puts(out, "annotate(");
    print_annotation(p, out, t);
    text_puts(out, ", ");
  }
  if (n->kind == IR_DICT_CONSTRUCT) {
    put_pairs(p, out, n);
  } else {
    text_putc(out, '[');
    print_values(p, out, n->inputs, n->n_inputs);
    text_putc(out, ']');
  }
  text_puts(out, annotate ? ")" : "");
}

static void put_tuple_of(printer *p, text_buf *out, const ir_node *n)
{
  const type *t = n->outputs[0]->type;

  if (t->fields && t->name) /* an operator's results have names, and no class */
    print_annotation(p, out, t);
  text_putc(out, '(');
  print_values(p, out, n->inputs, n->n_inputs);
  text_puts(out, n->n_inputs == 1 ? ",)" : ")");
}

static void put_isinstance(printer *p, text_buf *out, const ir_node *n)
{
  const ir_attr *types = ir_attr_find(n, "types");
  uint32_t n_types = types ? types->as.t.n_types : 0;

  text_printf(out, "isinstance(%s, %s", print_use(p, ir_node_input(n, 0)), n_types == 1 ? "" : "(");
  for (uint32_t i = 0; i < n_types; i++) {
    text_puts(out, i ? ", " : "");
    print_annotation(p, out, types->as.t.types[i]);
  }
  text_puts(out, n_types == 1 ? ")" : "))");
}

static int64_t int_attr(const ir_node *n, const char *name)
{
  const ir_attr *a = ir_attr_find(n, name);

  return a ? a->as.i : 0;
}

static void put_get_attr(printer *p, text_buf *out, const ir_node *n)
{
  const char *name = ir_attr_string(n, "name"), *object = print_use(p, ir_node_input(n, 0));

  if (print_is_identifier(name)) {
    text_printf(out, "%s.%s", object, name);
    return;
  }
  text_printf(out, "getattr(%s, ", object);
  schema_print_quoted(out, str_of(name));
  text_putc(out, ')');
}

void print_expression(printer *p, text_buf *out, ir_node *n)
{
  const type *t = n->n_outputs ? n->outputs[0]->type : NULL;
#define IN(i) print_use(p, ir_node_input(n, i))
  switch ((int)n->kind) {
  case IR_OP: put_operator(p, out, n, n->op->schema->name, n->op->schema); break;
  case IR_UNKNOWN_OP: put_unknown(p, out, n); break;
  case IR_CONSTANT: print_literal(p, out, ir_constant_value(n), t); break;
  case IR_UNINITIALIZED:
    if (!type_has_some_value(t)) /* a reader of the text could not make one */
      session_fail_status(
        p->s, RUSH_EUNSUPPORTED, NULL, NULL,
        "a value of a type (%s) that is never set cannot be written as TorchScript",
        t->name ? t->name : "that has none");
    text_puts(out, "uninitialized(");
    print_annotation(p, out, t);
    text_putc(out, ')');
    break;
  case IR_PRINT:
    text_puts(out, "print(");
    print_values(p, out, n->inputs, n->n_inputs);
    text_putc(out, ')');
    break;
  case IR_RAISE:
    text_printf(out, "ops.prim.RaiseException(%s", IN(0));
    if (n->n_inputs > 1 && !is_none(ir_node_input(n, 1)))
      text_printf(out, ", %s", IN(1));
    text_putc(out, ')');
    break;
  case IR_TUPLE_CONSTRUCT: put_tuple_of(p, out, n); break;
  case IR_TUPLE_INDEX: text_printf(out, "(%s)[%s]", IN(0), IN(1)); break;
  case IR_TUPLE_SLICE:
    text_printf(out, "(%s)[%lld:%lld]", IN(0), (long long)int_attr(n, "beg"),
                (long long)int_attr(n, "end"));
    break;
  case IR_LIST_CONSTRUCT:
  case IR_DICT_CONSTRUCT: put_container(p, out, n); break;
  case IR_CREATE_OBJECT:
    print_annotation(p, out, t);
    text_printf(out, ".__new__(%s)", t->name);
    break;
  case IR_GET_ATTR: put_get_attr(p, out, n); break;
  case IR_CALL_FUNCTION:
    text_puts(out, table_get(&p->functions, str_of(session_printf(p->s, "%p %p", (void *)n->graph,
                                                                  (void *)n->function))));
    put_call(p, out, n, 0);
    break;
  case IR_CALL_METHOD:
  case IR_INTERFACE_CALL:
    text_printf(out, "(%s).%s", IN(0), ir_attr_string(n, "name"));
    put_call(p, out, n, 1);
    break;
  case IR_UNCHECKED_CAST: put_annotated(p, out, "unchecked_cast", t, IN(0)); break;
  case IR_ISINSTANCE: put_isinstance(p, out, n); break;
  default:
    session_fail_status(p->s, RUSH_EUNSUPPORTED, NULL, &n->range,
                        "%s cannot be written as TorchScript", ir_node_kind_name(n));
  }
#undef IN
}
