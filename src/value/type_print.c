/* value/type_print.c -- types as text. PyTorch has three notations, which differ in brackets, in
 * names and in a few kinds; two are printed here, those of str() and of annotations. One recursive
 * printer with a flag serves both, since most cases are the same. */
#include <string.h>

#include "base/macros.h"
#include "value/type.h"

typedef enum notation { AS_STR, AS_ANNOTATION } notation;

static void print_notation(text_buf *out, const type *t, notation how);

static const char *simple_name(type_kind kind)
{
  static const char *const names[] = {
      [TYPE_ANY] = "Any",
      [TYPE_NONE] = "NoneType",
      [TYPE_TENSOR] = "Tensor",
      [TYPE_BOOL] = "bool",
      [TYPE_INT] = "int",
      [TYPE_FLOAT] = "float",
      [TYPE_COMPLEX] = "complex",
      [TYPE_NUMBER] = "Scalar",
      [TYPE_STRING] = "str",
      [TYPE_DEVICE] = "Device",
      [TYPE_GENERATOR] = "Generator",
      [TYPE_STORAGE] = "Storage",
      [TYPE_STREAM] = "Stream",
      [TYPE_CAPSULE] = "Capsule",
      [TYPE_PYOBJECT] = "PyObject",
      [TYPE_QUANTIZER] = "Quantizer",
      [TYPE_SCALAR_TYPE] = "ScalarType",
      [TYPE_LAYOUT] = "Layout",
      [TYPE_MEMORY_FORMAT] = "MemoryFormat",
      [TYPE_QSCHEME] = "QScheme",
      [TYPE_DIMNAME] = "Dimname",
      [TYPE_SYM_INT] = "SymInt",
      [TYPE_SYM_FLOAT] = "SymFloat",
      [TYPE_SYM_BOOL] = "SymBool",
      [TYPE_ANY_LIST] = "list",
      [TYPE_ANY_TUPLE] = "tuple",
      [TYPE_ANY_CLASS] = "AnyClassType",
      [TYPE_ANY_ENUM] = "AnyEnumType",
  };
  return names[kind];
}

/* Print a simple type; in annotations, kinds that only schemas distinguish are printed as their
 * run-time type. */
static void print_simple(text_buf *out, const type *t, notation how)
{
  if (how == AS_ANNOTATION && t->kind == TYPE_NUMBER)
    text_puts(out, "number");
  else
    text_puts(out, simple_name(how == AS_ANNOTATION ? type_runtime(t)->kind : t->kind));
}

static void print_elems(text_buf *out, const type *t, notation how)
{
  for (uint32_t i = 0; i < t->n_elems; i++) {
    if (i)
      text_puts(out, ", ");
    print_notation(out, t->elems[i], how);
  }
}

static void print_generic(text_buf *out, const char *name, char open, const type *t, notation how)
{
  text_puts(out, name);
  text_putc(out, open);
  print_elems(out, t, how);
  text_putc(out, open == '[' ? ']' : ')');
}

static void print_tuple(text_buf *out, const type *t, notation how)
{
  if (t->name) {
    text_puts(out, t->name);
  } else if (how == AS_ANNOTATION) {
    if (t->n_elems)
      print_generic(out, "Tuple", '[', t, how);
    else
      text_puts(out, "Tuple[()]");
  } else {
    print_generic(out, "", '(', t, how);
  }
}

/* Print a union.  A union of all kinds of numbers contains "Scalar" instead, and keeps the comma
 * after a number that was first: PyTorch prints "Union(, str, Scalar)".  If one other type is
 * first, PyTorch omits the comma, "Union(str[]Scalar)", which would be parsed as another type: it
 * is printed here. */
static void print_union(text_buf *out, const type *t, notation how)
{
  unsigned seen = 0;
  bool printed = false;
  for (uint32_t i = 0; i < t->n_elems; i++) {
    type_kind k = t->elems[i]->kind;
    seen |= (k == TYPE_INT) | (k == TYPE_FLOAT) << 1 | (k == TYPE_COMPLEX) << 2;
  }
  text_puts(out, how == AS_ANNOTATION ? "Union[" : "Union(");
  for (uint32_t i = 0; i < t->n_elems; i++) {
    type_kind k = t->elems[i]->kind;
    if (seen == 7 && (k == TYPE_INT || k == TYPE_FLOAT || k == TYPE_COMPLEX))
      continue;
    if (i)
      text_puts(out, ", ");
    printed = true;
    print_notation(out, t->elems[i], how);
  }
  if (seen == 7) {
    if (printed)
      text_puts(out, ", ");
    text_puts(out, how == AS_ANNOTATION ? "number" : "Scalar");
  }
  text_putc(out, how == AS_ANNOTATION ? ']' : ')');
}

static void print_named(text_buf *out, const type *t, notation how)
{
  if (how == AS_ANNOTATION || t->kind == TYPE_CLASS || t->kind == TYPE_VAR) {
    text_puts(out, t->name);
  } else if (t->kind == TYPE_ENUM) {
    text_printf(out, "Enum<%s>", t->name);
  } else if (t->kind == TYPE_INTERFACE) {
    const char *last = strrchr(t->name, '.');
    text_printf(out, "InterfaceType<%s>", last ? last + 1 : t->name);
  } else {
    text_puts(out, "Function");
  }
}

static void print_notation(text_buf *out, const type *t, notation how)
{
  bool words = how == AS_ANNOTATION;
  if (t->kind <= TYPE_ANY_ENUM) {
    print_simple(out, t, how);
    return;
  }
  switch ((int)t->kind) {
  case TYPE_LIST:
  case TYPE_OPTIONAL:
    if (words) {
      print_generic(out, t->kind == TYPE_LIST ? "List" : "Optional", '[', t, how);
    } else {
      print_notation(out, t->elems[0], how);
      text_puts(out, t->kind == TYPE_LIST ? "[]" : "?");
    }
    break;
  case TYPE_DICT:
    print_generic(out, "Dict", words ? '[' : '(', t, how);
    break;
  case TYPE_FUTURE:
    print_generic(out, "Future", how == AS_STR ? '(' : '[', t, how);
    break;
  case TYPE_RREF:
    print_generic(out, "RRef", how == AS_STR ? '(' : '[', t, how);
    break;
  case TYPE_AWAIT:
    print_generic(out, "Await", how == AS_STR ? '(' : '[', t, how);
    break;
  case TYPE_TUPLE:
    print_tuple(out, t, how);
    break;
  case TYPE_UNION:
    print_union(out, t, how);
    break;
  default:
    print_named(out, t, how);
    break;
  }
}

void type_print(text_buf *out, const type *t) { print_notation(out, t, AS_STR); }
void type_print_annotation(text_buf *out, const type *t) { print_notation(out, t, AS_ANNOTATION); }
