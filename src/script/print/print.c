/* script/print/print.c -- prints graphs as TorchScript: statements, functions and the uses of
 * classes and constants (print.h). A value that is used once, in order and without an effect
 * between, is printed inside the expression that uses it; others get a name. These are PyTorch's
 * rules, so that its `.code` and ours agree and the text parses to the same graph. Cost: O(nodes),
 * with a scan between definition and use. */
#include "script/print/print_int.h"
#include "base/grow.h"
#include "ops/table/op_keys.h"
#include "script/emit/upgrade.h"

/* -- Definitions that texts refer to ----------------------------------------------------------- */

static void free_seen(void *u)
{
  table_free(&((script_uses *)u)->seen);
  table_free(&((script_uses *)u)->names);
}

script_uses *script_uses_new(session *s)
{
  script_uses *u = session_new(s, script_uses);

  u->s = s;
  u->version = 3; /* PyTorch's least */
  table_init(&u->seen, s->cx->ctx);
  table_init(&u->names, s->cx->ctx);
  session_defer(s, free_seen, u);
  return u;
}

static void use(script_uses *u, const char *key, script_use what)
{
  session_table_put(u->s, &u->seen, str_of(key), (void *)(uintptr_t)(u->n + 1));
  GROW(u->s, u->items, u->n, u->cap, 32);
  u->items[u->n++] = what;
}

void script_use_type(script_uses *u, const type *t)
{
  bool named = t->cls || (t->kind == TYPE_TUPLE && t->name);

  session_enter(u->s);
  if (named && !table_get(&u->seen, str_of(t->name)))
    use(u, t->name, (script_use){.type = t, .name = t->name});
  for (uint32_t i = 0; !named && i < t->n_elems; i++)
    script_use_type(u, t->elems[i]);
  session_leave(u->s);
}

/* Return the name of a static method, which becomes a function beside its class: `C.f` becomes `f`,
 * or `C_f` if there is an f. */
static const char *function_name(script_uses *u, const function *f)
{
  const char *dot = strrchr(f->qualified, '.');
  str owner = {f->qualified, dot ? (size_t)(dot - f->qualified) : 0};
  const char *outer = owner.p + owner.len;

  if ((f->self && !f->is_static) || !program_find_class(f->program, owner))
    return f->qualified;
  while (outer > owner.p && outer[-1] != '.')
    outer--;
  const char *name = session_printf(u->s, "%.*s%s", (int)(outer - owner.p), owner.p, dot + 1);
  if (table_get(&u->names, str_of(name)) || program_find_class(f->program, str_of(name)) ||
      program_find_function(f->program, str_of(name)))
    name = session_printf(u->s, "%.*s_%s", (int)owner.len, owner.p, dot + 1);
  return name;
}

/* Return a distinct name: functions of several programs may have the same. */
static const char *name_of_its_own(script_uses *u, const char *name)
{
  const char *dot = strrchr(name, '.'), *last = dot ? dot + 1 : name, *fresh = name;

  for (uint32_t i = 0; table_get(&u->names, str_of(fresh)); i++)
    fresh = session_printf(u->s, "%.*s___torch_mangle_%u.%s", (int)(last - name), name, i, last);
  return fresh;
}

/* Add a function to the uses and return its name in texts. */
static const char *use_function(script_uses *u, function *f)
{
  const char *key = session_printf(u->s, "%p", (void *)f);
  uintptr_t known = (uintptr_t)table_get(&u->seen, str_of(key));

  if (known)
    return u->items[known - 1].name;
  const char *name = name_of_its_own(u, function_name(u, f));
  session_table_put(u->s, &u->names, str_of(name), f);
  use(u, key, (script_use){.function = f, .name = name});
  return name;
}

/* -- Names ------------------------------------------------------------------------------------- */

static bool is_reserved(const char *name)
{
  static const char *const words[] = {"_",
                                      "aten",
                                      "attribute",
                                      "CONSTANTS",
                                      "fork",
                                      "getattr",
                                      "inf",
                                      "nan",
                                      "infj",
                                      "nanj",
                                      "ops",
                                      "__torch__",
                                      "and",
                                      "as",
                                      "assert",
                                      "async",
                                      "await",
                                      "break",
                                      "class",
                                      "continue",
                                      "def",
                                      "del",
                                      "elif",
                                      "else",
                                      "except",
                                      "False",
                                      "finally",
                                      "for",
                                      "from",
                                      "global",
                                      "if",
                                      "import",
                                      "in",
                                      "is",
                                      "lambda",
                                      "None",
                                      "nonlocal",
                                      "not",
                                      "or",
                                      "pass",
                                      "raise",
                                      "return",
                                      "True",
                                      "try",
                                      "with",
                                      "while",
                                      "yield",
                                      "uninitialized",
                                      "unchecked_cast",
                                      "torch",
                                      "annotate"};

  for (size_t i = 0; i < COUNT_OF(words); i++)
    if (strcmp(words[i], name) == 0)
      return true;
  return false;
}

/* Return the name of a builtin that the text of n calls, or NULL. */
static const char *called_word(const ir_node *n)
{
  switch (n->kind) {
  case IR_PRINT:
    return "print";
  case IR_LOOP:
    return "range";
  case IR_ISINSTANCE:
    return "isinstance";
  default:
    break;
  }
  switch (n->kind == IR_OP ? n->op->name_key : OPN_NONE) {
  case OPN_INT:
    return "int";
  case OPN_FLOAT:
    return "float";
  case OPN_BOOL:
    return "bool";
  case OPN_STR:
    return "str";
  case OPN_SORTED:
    return "sorted";
  default:
    return NULL;
  }
}

/* Reserve names that the text itself calls: they cannot be variables. */
static void reserve_calls(printer *p, const ir_block *b)
{
  session_enter(p->s);
  for (const ir_node *n = ir_block_first(b); n != b->ret; n = n->next) {
    session_poll(p->s);
    const char *word = called_word(n);
    if (word && !table_put(&p->used, str_of(word), (void *)word))
      session_check(p->s, call_nomem(p->s->cx));
    for (uint32_t i = 0; i < n->n_blocks; i++)
      reserve_calls(p, n->blocks[i]);
  }
  session_leave(p->s);
}

/* Return the name itself, or with a number appended if it is in use. */
static const char *fresh_name(printer *p, const char *wanted)
{
  const char *name = wanted;

  while (table_get(&p->used, str_of(name)) || is_reserved(name)) {
    uintptr_t number = (uintptr_t)table_get(&p->to->counts, str_of(name));
    session_table_put(p->s, &p->to->counts, str_of(name), (void *)(number + (number == 0) + 1));
    name = session_printf(p->s, "%s%llu", wanted, (unsigned long long)(number ? number - 1 : 0));
  }
  session_table_put(p->s, &p->used, str_of(name), (void *)name);
  return name;
}

/* Return the author's name without the number after its dot, as an identifier. */
static const char *base_name(printer *p, const char *name)
{
  const char *dot = strrchr(name, '.');
  size_t n = dot && dot[1] && strspn(dot + 1, "0123456789") == strlen(dot + 1)
               ? (size_t)(dot - name)
               : strlen(name);
  char *base = session_printf(
    p->s, "%s%.*s", n == 0 || (name[0] >= '0' && name[0] <= '9') ? "_" : "", (int)n, name);

  for (char *c = base; *c; c++)
    if (!((*c >= 'a' && *c <= 'z') || (*c >= 'A' && *c <= 'Z') || (*c >= '0' && *c <= '9') ||
          *c == '_'))
      *c = '_';
  return base;
}

static void set_text(printer *p, ir_value *v, const char *text, bool is_expression)
{
  value_text *t = print_text_of(p, v);

  t->text = text;
  t->is_expression = is_expression;
}

static void name_value(printer *p, ir_value *v)
{
  set_text(p, v, fresh_name(p, v->name ? base_name(p, v->name) : "_"), false);
}

static void name_outputs(printer *p, const ir_node *n)
{
  for (uint32_t i = 0; i < n->n_outputs; i++)
    name_value(p, n->outputs[i]);
}

/* -- Origins of texts -------------------------------------------------------------------------- */

enum { MARK_BEGIN = 1, MARK_END = 2 };

static void mark(printer *p, text_buf *out, const ir_node *n)
{
  script_text *t = p->to;

  if (!t->keeps_ranges || !n->range.src)
    return;
  GROW(p->s, t->ranges, t->n_ranges, t->cap_ranges, 64);
  t->ranges[t->n_ranges] = n->range;
  text_printf(out, "%c%u%c", MARK_BEGIN, t->n_ranges++, MARK_END);
}

uint32_t script_text_finish(session *s, script_text *t, script_row **rows)
{
  uint32_t n = 0, n_marks = 0;
  size_t to = 0, len = t->out->len;
  char *text = t->out->data;

  for (size_t i = 0; i < len; i++)
    n_marks += text[i] == MARK_BEGIN;
  *rows = session_array(s, script_row, n_marks + 1);
  for (size_t i = 0; i < len; i++) {
    if (text[i] != MARK_BEGIN) {
      text[to++] = text[i];
      continue;
    }
    uint32_t number = 0;
    while (text[++i] != MARK_END)
      number = 10 * number + (uint32_t)(text[i] - '0');
    (*rows)[n++] = (script_row){(uint32_t)to, t->ranges[number]};
  }
  t->out->len = to;
  if (text)
    text[to] = 0;
  return n;
}

/* -- Assignments ------------------------------------------------------------------------------- */

static void indent(printer *p)
{
  for (uint32_t i = 0; i < p->level; i++)
    text_puts(p->out, "  ");
}

static bool is_choice(const type *t) { return t->kind == TYPE_OPTIONAL || t->kind == TYPE_UNION; }

/* Print `a, b = x, y`; a first assignment shows which Optional or Union it is. */
static void put_assignment(printer *p, ir_value *const *to, ir_use *const *from, uint32_t n)
{
  if (n == 0)
    return;
  indent(p);
  for (uint32_t i = 0; i < n; i++)
    text_printf(p->out, "%s%s", i ? ", " : "", print_use(p, to[i]));
  value_text *first = print_text_of(p, to[0]);
  if (n == 1 && !first->is_annotated && !first->is_expression && is_choice(to[0]->type)) {
    text_puts(p->out, " : ");
    print_annotation(p, p->out, to[0]->type);
    first->is_annotated = true;
  }
  text_puts(p->out, " = ");
  print_values(p, p->out, from, n);
  text_putc(p->out, '\n');
}

/* Print `name = text` for the node's results. */
static void put_definition(printer *p, ir_node *n, const char *text)
{
  name_outputs(p, n);
  indent(p);
  for (uint32_t i = 0; i < n->n_outputs; i++)
    text_printf(p->out, "%s%s%s", i ? ", " : "", print_use(p, n->outputs[i]),
                i + 1 == n->n_outputs ? " = " : "");
  text_puts(p->out, text);
  text_putc(p->out, '\n');
}

/* True if the text is too long for one line, not counting origin marks. */
static bool is_long(const printer *p, const char *text)
{
  size_t n = 2 * p->level;

  for (; *text && n < 40; text++)
    if (*text == MARK_BEGIN)
      text = strchr(text, MARK_END);
    else
      n++;
  return n >= 40;
}

/* Put a long expression on a line of its own, and then all before it in the same statement, since
 * they run first. */
static void split_line(printer *p, ir_value *v)
{
  uint32_t n = 0, cap = 8;
  ir_value **split = session_array(p->s, ir_value *, cap);

  for (bool first = true;; first = false) {
    ir_node *user = v->uses->user;
    uint32_t at = 0, done = user->scratch >> NODE_SPLIT;
    while (user->inputs[at] != v->uses)
      at++;
    for (uint32_t i = at + first; i > done; i--) {
      ir_value *before = ir_node_input(user, i - 1);
      if (before->node->kind == IR_CONSTANT || !is_inline(before->node))
        continue;
      GROW(p->s, split, n, cap, 0);
      split[n++] = before;
    }
    user->scratch = (user->scratch & ((1u << NODE_SPLIT) - 1)) | (at + first) << NODE_SPLIT;
    if (done || !is_inline(user))
      break;
    v = user->outputs[0];
  }
  while (n--)
    put_definition(p, split[n]->node, print_use(p, split[n]));
}

/* -- Statements -------------------------------------------------------------------------------- */

static void put_block(printer *p, ir_block *b, bool has_more);
static void put_body(printer *p, ir_block *b);

static void put_if(printer *p, ir_node *n)
{
  name_outputs(p, n);
  for (int side = 0; side < 2; side++) {
    ir_block *b = n->blocks[side];
    indent(p);
    if (side)
      text_puts(p->out, "else:\n");
    else
      text_printf(p->out, "if %s:\n", print_use(p, ir_node_input(n, 0)));
    p->level++;
    put_block(p, b, n->n_outputs > 0);
    put_assignment(p, n->outputs, b->ret->inputs, n->n_outputs);
    p->level--;
  }
}

/* Print carried values: a loop's result, its block's parameter and result are one variable. */
static void put_carried(printer *p, ir_node *n, ir_block *b)
{
  name_outputs(p, n);
  for (uint32_t i = 0; i < n->n_outputs; i++) {
    ir_value *to = n->outputs[i], *from = ir_node_input(n, i + 2);
    value_text *t = print_text_of(p, to);
    bool annotate = is_choice(to->type) ? !t->is_annotated : !type_equal(to->type, from->type);

    t->is_annotated |= is_choice(to->type);
    const char *name = t->text;
    set_text(p, ir_block_input(b, i + 1), name, true); /* declared outside */
    indent(p);
    text_puts(p->out, name);
    if (annotate) {
      text_puts(p->out, ": ");
      print_annotation(p, p->out, to->type);
    }
    text_printf(p->out, " = %s\n", print_use(p, from));
  }
}

static void put_loop_body(printer *p, ir_block *b, uint32_t from)
{
  uint32_t n = ir_block_n_inputs(b);

  p->level++;
  put_block(p, b, n > from);
  put_assignment(p, b->param->outputs + from, b->ret->inputs + from, n - from);
  p->level--;
}

static void put_loop(printer *p, ir_node *n)
{
  ir_block *b = n->blocks[0];
  ir_value *i = ir_block_input(b, 0);
  rush_value most;
  /* Never both a count and a condition: print_plan ensures it. */
  bool counted = !ir_value_as_constant(ir_node_input(n, 0), &most) || most.as.i != INT64_MAX ||
                 ir_value_has_uses(i);

  put_carried(p, n, b);
  name_value(p, i); /* of a while loop: its condition */
  if (counted) {
    indent(p);
    text_printf(p->out, "for %s in range(%s):\n", print_use(p, i),
                print_use(p, ir_node_input(n, 0)));
  } else {
    put_assignment(p, &i, &n->inputs[1], 1);
    indent(p);
    text_printf(p->out, "while %s:\n", print_use(p, i));
  }
  put_loop_body(p, b, counted ? 1 : 0);
}

static void put_unpack(printer *p, ir_node *n)
{
  name_outputs(p, n);
  indent(p);
  for (uint32_t i = 0; i < n->n_outputs; i++)
    text_printf(p->out, "%s, ", print_use(p, n->outputs[i]));
  text_printf(p->out, "%s%s\n", n->n_outputs ? "= " : "", print_use(p, ir_node_input(n, 0)));
}

static void put_fork(printer *p, ir_node *n)
{
  bool awaits = n->kind == IR_AWAITABLE;
  const char *name = fresh_name(p, awaits ? "__awaitable_function" : "__forked_function");

  if (!n->function)
    session_fail_status(p->s, RUSH_EUNSUPPORTED, NULL, &n->range,
                        "a fork of this kind cannot be written as TorchScript");
  function_ensure(p->s, n->function);
  ir_graph *g = print_plan(p, n->function->graph);
  reserve_calls(p, g->block);
  indent(p);
  text_printf(p->out, "def %s():\n", name);
  for (uint32_t i = 0; i < n->n_inputs; i++)
    set_text(p, ir_block_input(g->block, i), print_use(p, ir_node_input(n, i)), false);
  p->level++;
  put_body(p, g->block);
  p->level--;
  put_definition(p, n, session_printf(p->s, "%s(%s)", awaits ? "awaitable" : "fork", name));
}

static void put_with(printer *p, ir_node *n)
{
  if (n->kind == IR_EXIT) {
    if (n->prev->kind == IR_ENTER) {
      indent(p);
      text_puts(p->out, "pass\n");
    }
    p->level--;
    return;
  }
  indent(p);
  text_printf(p->out, "with %s", print_use(p, ir_node_input(n, 0)));
  if (ir_value_has_uses(n->outputs[0])) {
    name_value(p, n->outputs[0]);
    text_printf(p->out, " as %s", print_use(p, n->outputs[0]));
  }
  text_puts(p->out, ":\n");
  p->level++;
}

static void put_expression(printer *p, ir_node *n)
{
  text_clear(&p->line);
  if (!is_constant_like(n))
    mark(p, &p->line, n);
  print_expression(p, &p->line, n);
  if (text_failed(&p->line))
    session_check(p->s, call_nomem(p->s->cx));
  const char *text = session_strndup(p->s, text_str(&p->line), p->line.len);
  if (!is_inline(n) || (n->kind == IR_CONSTANT && is_long(p, text))) {
    put_definition(p, n, text);
    return;
  }
  set_text(p, n->outputs[0], text, true);
  if (is_long(p, text))
    split_line(p, n->outputs[0]);
}

static void use_types(printer *p, const ir_node *n)
{
  for (uint32_t i = 0; i < n->n_inputs; i++)
    script_use_type(p->uses, ir_node_input(n, i)->type);
  for (uint32_t i = 0; i < n->n_outputs; i++)
    script_use_type(p->uses, n->outputs[i]->type);
  if (n->kind == IR_OP) {
    int64_t version = script_op_version(n->op->schema);
    if (version > p->uses->version)
      p->uses->version = version;
  }
}

static void put_node(printer *p, ir_node *n)
{
  use_types(p, n);
  if (n->n_blocks || n->n_outputs == 0)
    mark(p, p->out, n);
  switch ((int)n->kind) {
  case IR_IF: put_if(p, n); break;
  case IR_LOOP: put_loop(p, n); break;
  case IR_TUPLE_UNPACK:
  case IR_LIST_UNPACK: put_unpack(p, n); break;
  case IR_FORK:
  case IR_AWAITABLE: put_fork(p, n); break;
  case IR_ENTER:
  case IR_EXIT: put_with(p, n); break;
  case IR_SET_ATTR:
    indent(p);
    text_printf(p->out, "%s.%s = %s\n", print_use(p, ir_node_input(n, 0)),
                ir_attr_string(n, "name"), print_use(p, ir_node_input(n, 1)));
    break;
  case IR_MODULE_CONTAINER_INDEX:
    name_outputs(p, n);
    indent(p);
    text_printf(p->out, "%s : ", print_use(p, n->outputs[0]));
    print_annotation(p, p->out, n->outputs[0]->type);
    text_printf(p->out, " = %s[%s]\n", print_use(p, ir_node_input(n, 0)),
                print_use(p, ir_node_input(n, 1)));
    break;
  default: put_expression(p, n);
  }
}

static void put_block(printer *p, ir_block *b, bool has_more)
{
  session_enter(p->s);
  if (!has_more && ir_block_first(b) == b->ret) {
    indent(p);
    text_puts(p->out, "pass\n");
  }
  for (ir_node *n = ir_block_first(b); n != b->ret; n = n->next)
    if (!is_constant_like(n))
      put_node(p, n);
  session_leave(p->s);
}

/* Print a function as a constant. */
static void put_function(printer *p, const ir_node *n)
{
  const char *key = session_printf(p->s, "%p %p", (void *)n->graph, (void *)n->function);
  const char *name = use_function(p->uses, n->function);

  if (table_get(&p->functions, str_of(key)))
    return;
  if (is_long(p, name)) {
    const char *as = fresh_name(p, "_");
    indent(p);
    text_printf(p->out, "%s = %s\n", as, name);
    name = as;
  }
  session_table_put(p->s, &p->functions, str_of(key), (void *)name);
}

/* Print constants in the order of their uses: long ones get names before all else. */
static void put_constants(printer *p, ir_block *b)
{
  session_enter(p->s);
  for (ir_node *n = ir_block_first(b);; n = n->next) {
    session_poll(p->s);
    if (n->kind == IR_CALL_FUNCTION)
      put_function(p, n);
    for (uint32_t i = 0; i < n->n_inputs; i++) {
      ir_node *c = ir_node_input(n, i)->node;
      if (!is_constant_like(c) || (c->scratch & NODE_SEEN))
        continue;
      c->scratch |= NODE_SEEN;
      use_types(p, c);
      put_expression(p, c);
    }
    for (uint32_t i = 0; i < n->n_blocks; i++)
      put_constants(p, n->blocks[i]);
    if (n == b->ret)
      break;
  }
  session_leave(p->s);
}

static void put_body(printer *p, ir_block *b)
{
  put_constants(p, b);
  put_block(p, b, ir_block_n_outputs(b) > 0);
  if (ir_block_n_outputs(b) == 0)
    return;
  indent(p);
  text_puts(p->out, "return ");
  print_values(p, p->out, b->ret->inputs, b->ret->n_inputs);
  text_putc(p->out, '\n');
}

/* -- Functions --------------------------------------------------------------------------------- */

static void free_text(void *t) { table_free(&((script_text *)t)->counts); }

script_text *script_text_new(session *s, text_buf *out)
{
  script_text *t = session_new(s, script_text);

  t->out = out;
  table_init(&t->counts, s->cx->ctx);
  session_defer(s, free_text, t);
  return t;
}

static void free_printer(void *arg)
{
  printer *p = arg;

  table_free(&p->used);
  table_free(&p->functions);
  text_free(&p->line);
}

printer *printer_new(script_uses *u, script_text *to, uint32_t level)
{
  printer *p = session_new(u->s, printer);

  p->s = u->s;
  p->uses = u;
  p->to = to;
  p->out = to->out;
  p->level = level;
  table_init(&p->used, u->s->cx->ctx);
  table_init(&p->functions, u->s->cx->ctx);
  text_init(&p->line, u->s->cx->ctx);
  session_defer(u->s, free_printer, p);
  return p;
}

void print_function(printer *p, function *f, const char *name, script_self self, const char *cls)
{
  function_ensure(p->s, f);
  const schema *sc = f->schema;
  if (!f->graph)
    session_fail_status(p->s, RUSH_EUNSUPPORTED, NULL, NULL, "'%s' has no TorchScript code",
                        f->qualified);
  ir_graph *g = print_plan(p, f->graph);
  reserve_calls(p, g->block);
  indent(p);
  const char *dot = name ? strrchr(name, '.') : NULL;
  text_printf(p->out, "def %s(", dot ? dot + 1 : name ? name : f->name);
  if (self == SELF_ADDED) {
    text_printf(p->out, "%s: %s", fresh_name(p, "self"), cls);
  }
  for (uint32_t i = 0; i < sc->n_args; i++) {
    const schema_arg *a = &sc->args[i];
    const char *as = fresh_name(p, a->name);
    text_printf(p->out, "%s%s", i || self == SELF_ADDED ? ",\n    " : "", as);
    if (i || self != SELF_BARE) {
      text_puts(p->out, ": ");
      print_annotation(p, p->out, a->type);
    }
    if (a->has_default) {
      text_putc(p->out, '=');
      print_literal(p, p->out, a->default_value, a->type);
    }
    set_text(p, ir_block_input(g->block, i), as, false);
  }
  text_puts(p->out, ") -> ");
  print_annotation(p, p->out, sc->returns[0].type);
  text_puts(p->out, ":\n");
  p->level++;
  put_body(p, g->block);
  p->level--;
}

void script_print_function(script_uses *u, script_text *to, function *f, const char *name,
                           script_self self, const char *cls)
{
  print_function(printer_new(u, to, 0), f, name, self, cls);
}
