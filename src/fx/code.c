/* fx/code.c -- graphs as Python: GraphModule.code and print_readable, letter by letter.
 *
 *     def forward(self, x: "f32[2, s0]"):
 *         # File: net.py:12 in forward, code: return self.a(x).relu()
 *         relu: "f32[2, s0]" = torch.ops.aten.relu.default(x);  x = None
 *         return (relu,)
 *
 * A value is set to None behind its last use, as PyTorch's generated code does to free memory.
 * Names of nodes are made unique again, together with the names of Python's functions that the text
 * needs.  The body is written first and indented later: a class in a class is indented once more.
 * */
#include "fx/print.h"

#include "fx/names.h"
#include "tensor/dtype.h"

typedef struct coder {
  fx_printer p; /* p.out: the body */
  const fx_graph *g;
  const fx_code_options *o;
  fx_names names;
  const char **node_names;   /* by index; NULL: not printed yet */
  const fx_node **last_user; /* by index */
  table globals;             /* Python's functions: target -> name */
  text_buf *inputs;          /* the function's parameters */
  const char *comment;       /* the last one that was printed */
} coder;

/* -- Names ------------------------------------------------------------------------------------- */

static const char *name_of(coder *c, const fx_node *n)
{
  if (!c->node_names[n->index])
    c->node_names[n->index] = fx_names_make(c->p.s, &c->names, str_of(n->name));
  return c->node_names[n->index];
}

static const char *printed_name(const fx_printer *p, const fx_node *n)
{
  return name_of(p->arg, n);
}

/* Return the name under which the text calls a function: torch's by their full names, others by one
 * of the text's own: "math_floor" of "math.floor". */
static const char *function_name(coder *c, const char *target)
{
  const char *name;

  if (strncmp(target, "torch.", 6) == 0)
    return target;
  if (strncmp(target, "builtins.", 9) == 0)
    return target + 9;
  name = table_get(&c->globals, str_of(target));
  if (!name) {
    name = fx_names_make(c->p.s, &c->names, str_of(target));
    session_table_put(c->p.s, &c->globals, str_of(target), (void *)name);
  }
  return name;
}

/* -- Notes on values --------------------------------------------------------------------------- */

static void print_number(session *s, text_buf *out, const fx_number *n)
{
  if (n->expr)
    expression_print(s, out, n->expr);
  else
    text_printf(out, "%lld", (long long)n->value.i);
}

static void print_numbers(session *s, text_buf *out, const fx_number *items, uint32_t n)
{
  text_putc(out, '[');
  for (uint32_t i = 0; i < n; i++) {
    text_puts(out, i ? ", " : "");
    print_number(s, out, &items[i]);
  }
  text_putc(out, ']');
}

/* Print a dtype in short: "f32", "bf16", "i64", "b8", "f8e5m2". */
static void print_short_dtype(text_buf *out, int dtype)
{
  static const struct {
    const char *from, *to;
  } words[] = {{"bfloat", "bf"}, {"float", "f"}, {"complex", "c"}, {"uint", "u"}, {"int", "i"}};
  const char *name = dtype_name(dtype);

  if (dtype == RUSH_BOOL) {
    text_puts(out, "b8");
    return;
  }
  for (size_t i = 0; i < COUNT_OF(words); i++) {
    size_t n = strlen(words[i].from);
    if (strncmp(name, words[i].from, n) != 0)
      continue;
    text_puts(out, words[i].to);
    name += n;
    break;
  }
  size_t digits = strcspn(name, "_");
  text_add(out, name, digits);
  text_puts(out, name + digits + (name[digits] == '_'));
}

static void print_note(coder *c, text_buf *out, const fx_node *n)
{
  const fx_val *v = c->o->verbose ? n->val : NULL;

  if (!v)
    return;
  if (v->kind == FX_VAL_TENSOR) {
    const fx_tensor *t = v->as.tensor;
    text_puts(out, ": \"");
    print_short_dtype(out, t->dtype);
    print_numbers(c->p.s, out, t->sizes, t->n_dims);
    if (c->o->strides)
      print_numbers(c->p.s, out, t->strides, t->n_strides);
    text_puts(out, c->o->devices ? t->device : "");
    text_putc(out, '"');
  } else if ((v->kind == FX_VAL_INT || v->kind == FX_VAL_FLOAT || v->kind == FX_VAL_BOOL) &&
             v->as.number->expr) {
    text_puts(out, ": \"Sym(");
    print_number(c->p.s, out, v->as.number);
    text_puts(out, ")\"");
  }
}

/* Print the place of the node's author, if another than the node's before. */
static void print_comment(coder *c, const fx_node *n)
{
  session *s = c->p.s;
  text_buf *text = session_text(s);
  fx_place place;

  if (n->op == FX_PLACEHOLDER || n->op == FX_OUTPUT)
    return;
  text_puts(text, "\n#");
  fx_print_annotation(s, text, n);
  if (fx_place_of(fx_node_metadata(s, n, "stack_trace"), &place))
    text_printf(text, " File: %.*s:%.*s in %.*s, code: %.*s\n", (int)place.file.len, place.file.p,
                (int)place.line.len, place.line.p, (int)place.function.len, place.function.p,
                (int)place.code.len, place.code.p);
  else
    text_puts(text, " No stacktrace found for following nodes\n");
  const char *comment = session_take_text(s, text);
  if (c->comment && strcmp(c->comment, comment) == 0)
    return;
  c->comment = comment;
  text_puts(c->p.out, comment);
}

/* -- Nodes ------------------------------------------------------------------------------------- */

static const char *operator_form(const char *target)
{
  static const struct {
    const char *name, *form; /* "?" stands for an operand */
  } forms[] = {{"add", "? + ?"},      {"sub", "? - ?"},     {"mul", "? * ?"},
               {"floordiv", "? // ?"}, {"truediv", "? / ?"}, {"mod", "? % ?"},
               {"pow", "? ** ?"},     {"lshift", "? << ?"}, {"rshift", "? >> ?"},
               {"and_", "? & ?"},     {"or_", "? | ?"},     {"xor", "? ^ ?"},
               {"getitem", "?[?]"},   {"matmul", "? @ ?"},  {"eq", "? == ?"},
               {"ne", "? != ?"},      {"lt", "? < ?"},      {"gt", "? > ?"},
               {"le", "? <= ?"},      {"ge", "? >= ?"},     {"pos", "+?"},
               {"neg", "-?"},         {"invert", "~?"}};

  if (strncmp(target, "_operator.", 10) != 0)
    return NULL;
  for (size_t i = 0; i < COUNT_OF(forms); i++)
    if (strcmp(target + 10, forms[i].name) == 0)
      return forms[i].form;
  return NULL;
}

static void print_form(coder *c, const char *form, const fx_node *n)
{
  uint32_t k = 0;

  for (; *form; form++)
    if (*form != '?')
      text_putc(c->p.out, *form);
    else if (k < n->n_args)
      fx_put_arg(&c->p, &n->args[k++]);
}

static void print_call(coder *c, const fx_node *n)
{
  const char *form = operator_form(n->target);

  if (form) {
    print_form(c, form, n);
    return;
  }
  text_printf(c->p.out, "%s(", function_name(c, n->target));
  for (uint32_t i = 0; i < n->n_args; i++) {
    text_puts(c->p.out, i ? ", " : "");
    fx_put_arg(&c->p, &n->args[i]);
  }
  for (uint32_t i = 0; i < n->n_kwargs; i++) {
    str name = n->kwargs[i].name;
    text_printf(c->p.out, "%s%.*s = ", i || n->n_args ? ", " : "", (int)name.len, name.p);
    fx_put_arg(&c->p, &n->kwargs[i].arg);
  }
  text_putc(c->p.out, ')');
}

static void print_input(coder *c, const fx_node *n)
{
  text_printf(c->inputs, ", %s", n->target);
  print_note(c, c->inputs, n);
  if (strcmp(name_of(c, n), n->target) != 0)
    text_printf(c->p.out, "%s = %s\n", name_of(c, n), n->target);
}

/* -- Last uses --------------------------------------------------------------------------------- */

typedef struct use_visit {
  coder *c;
  const fx_node *user;
  bool any; /* a name was printed */
} use_visit;

static void note_use(void *arg, fx_node *used)
{
  const use_visit *v = arg;

  if (!v->c->last_user[used->index])
    v->c->last_user[used->index] = v->user;
}

static void find_last_uses(coder *c)
{
  for (const fx_node *n = c->g->last; n; n = n->prev)
    fx_node_inputs(c->p.s, n, note_use, &(use_visit){.c = c, .user = n});
}

static void print_last_use(void *arg, fx_node *used)
{
  use_visit *v = arg;
  coder *c = v->c;

  if (c->last_user[used->index] != v->user)
    return;
  c->last_user[used->index] = NULL; /* once */
  text_printf(c->p.out, "%s%s", v->any ? " = " : ";  ", name_of(c, used));
  v->any = true;
}

static void end_values(coder *c, const fx_node *n)
{
  use_visit v = {.c = c, .user = n};

  if (n->op != FX_OUTPUT) {
    fx_node_inputs(c->p.s, n, print_last_use, &v);
    if (!n->n_users) {
      text_printf(c->p.out, "%s%s", v.any ? " = " : ";  ", name_of(c, n));
      v.any = true;
    }
  }
  text_puts(c->p.out, v.any ? " = None\n" : "\n");
}

/* -- The function ------------------------------------------------------------------------------ */

static void print_statement(coder *c, const fx_node *n)
{
  session_poll(c->p.s);
  if (c->o->verbose)
    print_comment(c, n);
  if (n->op == FX_PLACEHOLDER) {
    print_input(c, n);
    return;
  }
  if (n->op == FX_OUTPUT) {
    text_puts(c->p.out, "return ");
    fx_put_arg(&c->p, &n->args[0]);
  } else {
    text_puts(c->p.out, name_of(c, n));
    print_note(c, c->p.out, n);
    text_puts(c->p.out, " = ");
    if (n->op == FX_GET_ATTR)
      text_printf(c->p.out, "self.%s", n->target);
    else
      print_call(c, n);
  }
  end_values(c, n);
}

static void free_names(void *names) { fx_names_free(names); }

/* Take the names that torch.fx gives to every function's globals. */
static void take_globals(coder *c)
{
  static const char *const names[] = {"inf",       "nan",    "NoneType", "torch", "device",
                                      "fx_pytree", "pytree"};

  for (size_t i = 0; i < COUNT_OF(names); i++)
    fx_names_take(c->p.s, &c->names, str_of(names[i]));
}

static coder *coder_new(session *s, const fx_graph *g, const fx_code_options *o)
{
  coder *c = session_new(s, coder);

  *c = (coder){.p = {.s = s, .out = session_text(s), .code = true, .node_name = printed_name},
               .g = g,
               .o = o,
               .inputs = session_text(s)};
  c->p.arg = c;
  fx_names_init(&c->names, s->cx->ctx, s->mem);
  session_defer(s, free_names, &c->names);
  session_table_init(s, &c->globals);
  c->node_names = session_array(s, const char *, (size_t)g->n_nodes + 1);
  c->last_user = session_array(s, const fx_node *, (size_t)g->n_nodes + 1);
  return c;
}

/* Append `text` with `n` blanks before each line, but the first if `later`; lines of blanks become
 * empty if `clear`. */
static void put_indented(text_buf *out, const char *text, int n, bool later, bool clear)
{
  for (bool first = true;; first = false) {
    const char *end = strchr(text, '\n');
    size_t len = end ? (size_t)(end - text) : strlen(text);
    bool blank = strspn(text, " ") >= len;

    if (!(first && later) && !(clear && blank))
      text_printf(out, "%*s", n, "");
    if (!(clear && blank && !(first && later)))
      text_add(out, text, len);
    if (!end)
      return;
    text_putc(out, '\n');
    text = end + 1;
  }
}

/* Return the text of the function, without the blank lines before it. */
static const char *function_text(session *s, const fx_graph *g, const fx_code_options *o)
{
  coder *c = coder_new(s, g, o);
  text_buf *out = session_text(s);

  take_globals(c);
  find_last_uses(c);
  for (const fx_node *n = g->first; n; n = n->next)
    print_statement(c, n);
  const char *body = session_take_text(s, c->p.out);
  text_printf(out, "def forward(self%s):\n", session_take_text(s, c->inputs));
  put_indented(out, *body ? body + strspn(body, "\n") : "pass\n", 4, false, false);
  return session_take_text(s, out);
}

void fx_print_code(session *s, text_buf *out, const fx_graph *g, const fx_code_options *o)
{
  text_printf(out, "\n\n\n%s", function_text(s, g, o));
}

void fx_print_readable(session *s, text_buf *out, const fx_graph *g, const char *name,
                       const fx_code_options *o)
{
  fx_code_options all = *o;
  text_buf *inner = session_text(s);

  session_enter(s);
  all.verbose = true;
  text_printf(out, "class %s(torch.nn.Module):\n", name);
  put_indented(out, function_text(s, g, &all), 4, false, true);
  for (uint32_t i = 0; i < g->n_subgraphs; i++) {
    text_putc(inner, '\n');
    fx_print_readable(s, inner, g->subgraphs[i].graph, g->subgraphs[i].name, &all);
  }
  if (g->n_subgraphs)
    put_indented(out, session_take_text(s, inner), 4, true, true);
  session_leave(s);
}
