/* fx/print.c -- arguments as Python writes them, and graphs as torch.fx's str(graph).
 *
 * Two forms differ in small ways: in code an argument stands as its repr (strings in quotes,
 * "device(type='cpu')"), in str(graph) as its str with "%" before nodes.  Python's own rules decide
 * the rest: a tuple of one has a comma, floats have the shortest digits that read back. */
#include "fx/print.h"

#include "tensor/dtype.h"
#include "value/value.h"

/* Print device(type='cuda', index=0) for "cuda:0". */
static void print_device(text_buf *out, const char *text)
{
  const char *colon = strchr(text, ':');

  if (colon)
    text_printf(out, "device(type='%.*s', index=%s)", (int)(colon - text), text, colon + 1);
  else
    text_printf(out, "device(type='%s')", text);
}

static const char *layout_name(int64_t layout)
{
  static const char *const names[] = {"strided",    "sparse_coo", "sparse_csr", "_mkldnn",
                                      "sparse_csc", "sparse_bsr", "sparse_bsc"};

  return layout >= 0 && layout < (int64_t)COUNT_OF(names) ? names[layout] : "unknown_layout";
}

static const char *format_name(int64_t format)
{
  static const char *const names[] = {"contiguous_format", "preserve_format", "channels_last",
                                      "channels_last_3d"};

  return format >= 0 && format < (int64_t)COUNT_OF(names) ? names[format] : "unknown_format";
}

static void print_items(const fx_printer *p, const fx_arg *a, const char *open, const char *close)
{
  text_puts(p->out, open);
  for (uint32_t i = 0; i < a->n; i++) {
    text_puts(p->out, i ? ", " : "");
    fx_put_arg(p, &a->as.items[i]);
  }
  text_puts(p->out, a->kind == FX_TUPLE && a->n == 1 ? "," : "");
  text_puts(p->out, close);
}

static void print_dict(const fx_printer *p, const fx_arg *a)
{
  text_putc(p->out, '{');
  for (uint32_t i = 0; i < a->n; i++) {
    str key = a->as.named[i].name;
    text_puts(p->out, i ? ", " : "");
    if (p->code)
      text_quote(p->out, key.p, key.len);
    else
      text_add(p->out, key.p, key.len);
    text_puts(p->out, ": ");
    fx_put_arg(p, &a->as.named[i].arg);
  }
  text_putc(p->out, '}');
}

/* Print an operator: in str(graph) without "torch.ops.", higher-order ones by their name alone. */
static void print_operator(const fx_printer *p, const char *name)
{
  static const char higher[] = "torch.ops.higher_order.", ops[] = "torch.ops.";

  if (!p->code && strncmp(name, higher, sizeof higher - 1) == 0)
    name += sizeof higher - 1;
  else if (!p->code && strncmp(name, ops, sizeof ops - 1) == 0)
    name += sizeof ops - 1;
  text_puts(p->out, name);
}

static void print_text(const fx_printer *p, const fx_arg *a)
{
  if (a->kind == FX_STRING && p->code)
    text_quote(p->out, a->as.text, a->n);
  else if (a->kind == FX_DEVICE && p->code)
    print_device(p->out, a->as.text);
  else if (a->kind == FX_OPERATOR)
    print_operator(p, a->as.text);
  else
    text_add(p->out, a->as.text, a->n);
}

static void print_number(text_buf *out, const fx_arg *a)
{
  char text[FLOAT_REPR_BYTES];

  if (a->kind == FX_INT)
    text_printf(out, "%lld", (long long)a->as.i);
  else if (a->kind == FX_FLOAT)
    text_add(out, text, float_repr(a->as.f, text));
  else if (a->kind == FX_BOOL)
    text_puts(out, a->as.b ? "True" : "False");
  else
    value_print_complex(out, a->as.complex[0], a->as.complex[1]);
}

void fx_put_arg(const fx_printer *p, const fx_arg *a)
{
  session_enter(p->s);
  switch (a->kind) {
  case FX_NONE:
    text_puts(p->out, "None");
    break;
  case FX_NODE:
    text_puts(p->out, p->code ? "" : "%");
    text_puts(p->out, p->node_name ? p->node_name(p, a->as.node) : a->as.node->name);
    break;
  case FX_INT:
  case FX_FLOAT:
  case FX_BOOL:
  case FX_COMPLEX:
    print_number(p->out, a);
    break;
  case FX_STRING:
  case FX_DEVICE:
  case FX_OPERATOR:
    print_text(p, a);
    break;
  case FX_OBJECT:
    text_puts(p->out, a->as.object->name);
    break;
  case FX_DTYPE:
    text_printf(p->out, "torch.%s", dtype_name((int)a->as.i));
    break;
  case FX_LAYOUT:
    text_printf(p->out, "torch.%s", layout_name(a->as.i));
    break;
  case FX_MEMORY_FORMAT:
    text_printf(p->out, "torch.%s", format_name(a->as.i));
    break;
  case FX_LIST:
    print_items(p, a, "[", "]");
    break;
  case FX_TUPLE:
    print_items(p, a, "(", ")");
    break;
  case FX_DICT:
    print_dict(p, a);
    break;
  }
  session_leave(p->s);
}

void fx_print_arg(session *s, text_buf *out, const fx_arg *a, bool code)
{
  fx_put_arg(&(fx_printer){.s = s, .out = out, .code = code}, a);
}

/* Print a target as str(graph) does: "operator.mul" of "_operator.mul". */
static void print_target(text_buf *out, const char *target)
{
  text_puts(out, strncmp(target, "_operator.", 10) == 0 ? target + 1 : target);
}

static void print_node(const fx_printer *p, const fx_node *n)
{
  static const char *const ops[] = {"placeholder", "get_attr", "call_function"};
  const fx_arg args = {.kind = FX_TUPLE, .n = n->n_args, .as.items = n->args};
  const fx_arg kwargs = {.kind = FX_DICT, .n = n->n_kwargs, .as.named = n->kwargs};

  text_puts(p->out, "\n    ");
  if (n->op == FX_OUTPUT) {
    text_puts(p->out, "return ");
    fx_print_arg(p->s, p->out, &n->args[0], true);
    return;
  }
  text_printf(p->out, "%%%s : [num_users=%u] = %s[target=", n->name, n->n_users, ops[n->op]);
  print_target(p->out, n->target);
  text_putc(p->out, ']');
  if (n->op != FX_CALL_FUNCTION)
    return;
  text_puts(p->out, "(args = ");
  fx_put_arg(p, &args);
  text_puts(p->out, ", kwargs = ");
  fx_put_arg(p, &kwargs);
  text_putc(p->out, ')');
}

void fx_print_graph(session *s, text_buf *out, const fx_graph *g)
{
  const fx_printer p = {.s = s, .out = out};

  text_puts(out, "graph():");
  for (const fx_node *n = g->first; n; n = n->next) {
    session_poll(s);
    print_node(&p, n);
  }
}
