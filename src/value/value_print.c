/* value/value_print.c -- values as text in two forms: TorchScript's print() (C++ streams) and
 * Python's repr. One recursive walk with a flag serves both. It polls and checks the buffer
 * meanwhile, because a small value that shares its parts can have an exponentially long text. */
#include <math.h>
#include <string.h>

#include "base/macros.h"
#include "value/value.h"

typedef struct printer {
  call_ctx *cx;
  text_buf *out;
  bool python;
  uint32_t n_printed;
} printer;

static rush_status print_one(printer *v, rush_value x);

/* Print a float as PyTorch's C++ does: "1.", "0.10000000000000001", "1e+20". */
static void print_aten_float(text_buf *out, double d)
{
  if (isfinite(d) && fabs(d) < 0x1p63 && (double)(int64_t)d == d)
    text_printf(out, "%lld.", (long long)d); /* also "0." of -0.0 */
  else
    text_printf(out, "%.17g", d);
}

static void print_float(printer *v, double d)
{
  if (v->python) {
    char buf[FLOAT_REPR_BYTES];
    text_add(v->out, buf, float_repr(d, buf));
  } else {
    print_aten_float(v->out, d);
  }
}

void value_print_complex(text_buf *out, double re, double im)
{
  char buf[FLOAT_REPR_BYTES];
  bool whole = re != 0.0 || signbit(re);
  for (int part = whole ? 0 : 1; part < 2; part++) {
    double d = part ? im : re;
    size_t n = float_repr(d, buf);
    if (n > 2 && memcmp(buf + n - 2, ".0", 2) == 0)
      n -= 2;
    if (part == 0)
      text_putc(out, '(');
    else if (whole && buf[0] != '-')
      text_putc(out, '+');
    text_add(out, buf, n);
  }
  text_puts(out, whole ? "j)" : "j");
}

static void print_complex(printer *v, const complex_box *z)
{
  if (v->python) {
    value_print_complex(v->out, z->re, z->im);
    return;
  }
  print_aten_float(v->out, z->re);
  text_putc(v->out, z->im >= 0 ? '+' : '-');
  print_aten_float(v->out, fabs(z->im));
  text_putc(v->out, 'j');
}

static void print_device(printer *v, rush_value d)
{
  const char *name = device_kind_name(value_device_kind(d));
  int32_t index = value_device_index(d);
  if (v->python) {
    text_printf(v->out, "device(type='%s'", name ? name : "?");
    if (index >= 0)
      text_printf(v->out, ", index=%d", index);
    text_putc(v->out, ')');
  } else {
    text_puts(v->out, name ? name : "?");
    if (index >= 0)
      text_printf(v->out, ":%d", index);
  }
}

static rush_status print_items(printer *v, const rush_value *items, size_t n)
{
  for (size_t i = 0; i < n; i++) {
    if (i)
      text_puts(v->out, ", ");
    TRY(print_one(v, items[i]));
  }
  return RUSH_OK;
}

static rush_status print_tuple(printer *v, const rush_tuple *t)
{
  const char *const *fields = t->type ? t->type->fields : NULL;
  if (v->python && fields) {
    const char *last = strrchr(t->type->name, '.');
    text_printf(v->out, "%s(", last ? last + 1 : t->type->name);
    for (size_t i = 0; i < t->n; i++) {
      text_printf(v->out, "%s%s=", i ? ", " : "", fields[i]);
      TRY(print_one(v, t->items[i]));
    }
    text_putc(v->out, ')');
    return RUSH_OK;
  }
  text_putc(v->out, '(');
  TRY(print_items(v, t->items, t->n));
  text_puts(v->out, t->n == 1 ? ",)" : ")");
  return RUSH_OK;
}

static rush_status print_dict(printer *v, const rush_dict *d)
{
  size_t pos = 0;
  bool first = true;
  text_putc(v->out, '{');
  for (dict_entry *e; (e = dict_next(d, &pos)); first = false) {
    if (!first)
      text_puts(v->out, ", ");
    TRY(print_one(v, e->key));
    text_puts(v->out, ": ");
    TRY(print_one(v, e->value));
  }
  text_putc(v->out, '}');
  return RUSH_OK;
}

static rush_status print_enum(printer *v, const enum_value *e)
{
  const char *last = strrchr(e->type->name, '.');
  const char *cls = last ? last + 1 : e->type->name;
  if (!v->python) {
    text_printf(v->out, "Enum<%s.%s>", cls, e->name->text);
    return RUSH_OK;
  }
  text_printf(v->out, "<%s.%s: ", cls, e->name->text);
  TRY(print_one(v, e->value));
  text_putc(v->out, '>');
  return RUSH_OK;
}

static rush_status print_upper(printer *v, rush_value x)
{
  const value_ops *ops = x.as.heap ? value_ops_of(v->cx->ctx, x.tag) : NULL;
  if (ops && v->python && ops->repr)
    return ops->repr(v->cx, v->out, x.as.heap);
  if (ops && ops->print)
    return ops->print(v->cx, v->out, x.as.heap);
  text_puts(v->out, x.tag == RUSH_TAG_TENSOR      ? "[ Tensor (undefined) ]"
                    : x.tag == RUSH_TAG_GENERATOR ? "Generator"
                    : x.tag == RUSH_TAG_FUTURE    ? "Future"
                    : x.tag == RUSH_TAG_STORAGE   ? "Storage"
                    : x.tag == RUSH_TAG_UNSET     ? "Uninitialized"
                                                  : "<function>");
  return RUSH_OK;
}

/* Print a container.  A list that holds a list twice, which holds a list twice ..., is a small
 * value with an endless text. */
static rush_status print_container(printer *v, rush_value x)
{
  rush_status st = RUSH_OK;
  if (text_failed(v->out))
    return call_nomem(v->cx);
  TRY(call_poll(v->cx));
  TRY(call_enter(v->cx));
  if (x.tag == RUSH_TAG_LIST) {
    text_putc(v->out, '[');
    st = print_items(v, x.as.list->items, x.as.list->n);
    text_putc(v->out, ']');
  } else if (x.tag == RUSH_TAG_TUPLE) {
    st = print_tuple(v, x.as.tuple);
  } else {
    st = print_dict(v, x.as.dict);
  }
  call_leave(v->cx);
  return st;
}

static rush_status print_one(printer *v, rush_value x)
{
  if (++v->n_printed % 64 == 0)
    TRY(call_poll(v->cx));
  switch ((int)x.tag) {
  case RUSH_TAG_NONE:
    text_puts(v->out, "None");
    return RUSH_OK;
  case RUSH_TAG_BOOL:
    text_puts(v->out, x.as.b ? "True" : "False");
    return RUSH_OK;
  case RUSH_TAG_INT:
    text_printf(v->out, "%lld", (long long)x.as.i);
    return RUSH_OK;
  case RUSH_TAG_FLOAT:
    print_float(v, x.as.d);
    return RUSH_OK;
  case RUSH_TAG_COMPLEX:
    print_complex(v, value_complex(x));
    return RUSH_OK;
  case RUSH_TAG_STRING:
    if (v->python)
      text_quote(v->out, x.as.string->text, x.as.string->len);
    else
      text_add(v->out, x.as.string->text, x.as.string->len);
    return RUSH_OK;
  case RUSH_TAG_LIST:
  case RUSH_TAG_TUPLE:
  case RUSH_TAG_DICT:
    return print_container(v, x);
  case RUSH_TAG_OBJECT:
    text_printf(
      v->out, "<%s object>",
      x.as.object->type->name); /* without its address, unlike PyTorch: texts may be published */
    return RUSH_OK;
  case RUSH_TAG_CUSTOM:
    text_printf(v->out, "<%s object>", ((custom_value *)x.as.heap)->cls->name);
    return RUSH_OK;
  case RUSH_TAG_ENUM:
    return print_enum(v, value_enum(x));
  case RUSH_TAG_DEVICE:
    print_device(v, x);
    return RUSH_OK;
  default:
    return print_upper(v, x);
  }
}

rush_status value_print(call_ctx *cx, text_buf *out, rush_value v)
{
  printer as = {cx, out, false, 0};
  TRY(print_one(&as, v));
  return text_failed(out) ? call_nomem(cx) : RUSH_OK;
}

rush_status value_repr(call_ctx *cx, text_buf *out, rush_value v)
{
  printer as = {cx, out, true, 0};
  TRY(print_one(&as, v));
  return text_failed(out) ? call_nomem(cx) : RUSH_OK;
}
