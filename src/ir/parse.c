/* ir/parse.c -- parses graph text.
 *
 *   graph(%x : Tensor, %n.1 : int):
 *     %2 : int = prim::Constant[value=1]() # file.py:1:2
 *     %3 : Tensor = aten::add(%x, %n.1, %2)
 *     return (%3)
 *   with prim::fork_0 = graph(...): ...
 *
 * A recursive-descent parser.  Numbers of unnamed values are kept, so that printing gives the same
 * text.  Indentation is ignored: a block ends with its `-> (...)`. */
#include "base/grow.h"
#include "ir/parse_int.h"

#include <stdlib.h>

/* -- Values ------------------------------------------------------------------------------------ */

static bool all_digits(str s)
{
  for (size_t i = 0; i < s.len; i++)
    if (s.p[i] < '0' || s.p[i] > '9')
      return false;
  return s.len > 0 && s.len < 10;
}

/* Read the name after '%'. */
static str value_name(ir_parser *p)
{
  parse_expect(p, "%");
  str name = parse_word(p, "._$");

  if (!name.len)
    parse_fail(p, "expected a value's name");
  return name;
}

static ir_value *use(ir_parser *p)
{
  str name = value_name(p);
  ir_value *v = table_get(&p->scope->values, name);

  if (!v)
    parse_fail(p, "%%%.*s is not defined", (int)name.len, name.p);
  return v;
}

static void define(ir_parser *p, str name, ir_value *v)
{
  if (table_get(&p->scope->values, name))
    parse_fail(p, "%%%.*s is defined twice", (int)name.len, name.p);
  session_table_put(p->s, &p->scope->values, name, v);
  if (all_digits(name)) {
    v->id = (uint32_t)strtoul(session_strndup(p->s, name.p, name.len), NULL, 10);
    if (v->id >= p->max_id)
      p->max_id = v->id + 1;
  } else if (p->in_group && ir_graph_named(p->g, name)) {
    ir_value_set_own_name(p->s, v, name);
  } else {
    ir_value_set_name(p->s, v, session_strndup(p->s, name.p, name.len));
  }
}

static const type *typed(ir_parser *p)
{
  if (!parse_accept(p, ":"))
    return type_simple(TYPE_TENSOR);
  return parse_accept_word(p, "Function") ? NULL
                                          : parse_type(p); /* a constant: see parse_function */
}

/* Parse `%a : T, %b : U` up to `end`. */
static void parse_params(ir_parser *p, ir_block *b)
{
  parse_expect(p, "(");
  while (!parse_accept(p, ")")) {
    str name = value_name(p);

    const type *t = typed(p);
    if (!t)
      parse_fail(p, "functions are no inputs");
    define(p, name, ir_block_add_input(p->s, b, t, NULL));
    if (!parse_peek(p, ")"))
      parse_expect(p, ",");
  }
  parse_expect(p, ":");
}

/* %3 : Function = prim::Constant[name="f"](): we make no node for it; calls refer to their
 * functions. */
typedef struct callee {
  function *f;
  int64_t id, at; /* its number, and the number of nodes before it */
} callee;

static void parse_function(ir_parser *p, const ir_block *b, str name)
{
  callee *c = session_new(p->s, callee);

  parse_expect(p, "[name=");
  c->f = parse_function_name(p);
  parse_expect(p, "](");
  parse_expect(p, ")");
  c->id = all_digits(name) ? (int64_t)strtoul(session_strndup(p->s, name.p, name.len), NULL, 10)
                           : p->max_id;
  if (c->id >= p->max_id)
    p->max_id = (uint32_t)c->id + 1;
  for (const ir_node *n = ir_block_first(b); n != b->ret; n = n->next)
    c->at++;
  if (table_get(&p->scope->values, name) || table_get(&p->scope->functions, name))
    parse_fail(p, "%%%.*s is defined twice", (int)name.len, name.p);
  session_table_put(p->s, &p->scope->functions, name, c);
}

/* Parse a call's first input if it is its function. */
static void parse_callee(ir_parser *p, ir_node *n)
{
  const char *at = p->at;

  if (n->kind != IR_CALL_FUNCTION || n->function || !parse_peek(p, "%"))
    return;
  const callee *c = table_get(&p->scope->functions, value_name(p));
  if (!c) {
    p->at = at;
    return;
  }
  n->function = c->f;
  ir_attr_set_int(p->s, n, "_fn", c->id);
  ir_attr_set_int(p->s, n, "_at", c->at);
  if (!parse_peek(p, ")"))
    parse_expect(p, ",");
}

static void parse_inputs(ir_parser *p, ir_node *n)
{
  parse_expect(p, "(");
  parse_callee(p, n);
  if (n->kind == IR_CALL_FUNCTION && !n->function)
    parse_fail(p, "prim::CallFunction without a function");
  while (!parse_accept(p, ")")) {
    ir_node_add_input(p->s, n, use(p));
    if (!parse_peek(p, ")"))
      parse_expect(p, ",");
  }
}

/* -- Origins of nodes -------------------------------------------------------------------------- */

/* Parse `, scope: __module.fc`, if it follows a node. */
static void parse_origin(ir_parser *p, ir_node *n)
{
  static const char scope[] = ", scope: ";

  if (strncmp(p->at, scope, sizeof scope - 1) == 0) {
    const char *from = p->at += sizeof scope - 1;
    p->at += strcspn(from, "\r\n"); /* names of modules may have blanks in them */
    const char *comment = strstr(from, " # ");
    if (comment && comment < p->at)
      p->at = comment;
    ir_node_set_scope(p->s, n, from, (size_t)(p->at - from));
  }
}

/* -- Nodes ------------------------------------------------------------------------------------- */

/* True for prim::fork_0, which may have a subgraph behind the graph. */
static bool is_numbered(str name)
{
  size_t i = name.len;

  while (i > 0 && name.p[i - 1] >= '0' && name.p[i - 1] <= '9')
    i--;
  return i > 1 && i < name.len && name.p[i - 1] == '_';
}

typedef struct pending_output { /* written before the node it belongs to */
  str name;
  const type *type;
} pending_output;

static void parse_node(ir_parser *p, ir_block *b);

static void parse_block(ir_parser *p, ir_block *b)
{
  session_enter(p->s);
  while (!parse_accept(p, "->"))
    parse_node(p, b);
  parse_inputs(p, b->ret);
  session_leave(p->s);
}

static void parse_blocks(ir_parser *p, ir_node *n)
{
  for (;;) {
    const char *at = p->at;
    str word = parse_word(p, "_");

    if (word.len < 6 || memcmp(word.p, "block", 5) != 0 ||
        !all_digits((str){word.p + 5, word.len - 5})) {
      p->at = at;
      return;
    }
    ir_block *b = ir_node_add_block(p->s, n);

    parse_params(p, b);
    parse_block(p, b);
  }
}

/* Return the type of a constant without facts about tensors: its value determines them. */
static const type *plain(const type *t)
{
  return type_is(t, TYPE_TENSOR) ? type_simple(TYPE_TENSOR) : t;
}

/* Return the type `t` of a tuple that n constructs; if n's inputs do not fit into it, as in texts
 * of PyTorch, which does not compare them, the tuple of their types. */
static const type *constructed_type(ir_parser *p, const ir_node *n, const type *t)
{
  const type **elems = session_array(p->s, const type *, (size_t)n->n_inputs + 1);
  bool fits = t->n_elems == n->n_inputs;

  for (uint32_t i = 0; i < n->n_inputs; i++) {
    elems[i] = ir_node_input(n, i)->type;
    fits = fits && ir_value_flows(ir_node_input(n, i), t->elems[i]);
  }
  return fits ? t : session_type(p->s, type_tuple(p->g->types, elems, n->n_inputs));
}

static const type *output_type(ir_parser *p, const ir_node *n, const type *t)
{
  if (n->kind == IR_TUPLE_CONSTRUCT && type_is(t, TYPE_TUPLE) && !t->name)
    return constructed_type(p, n, t);
  return n->kind == IR_CONSTANT ? plain(t) : t;
}

static void parse_node(ir_parser *p, ir_block *b)
{
  pending_output *outs = NULL;
  uint32_t n_outs = 0, cap = 0;

  while (parse_peek(p, "%")) {
    GROW(p->s, outs, n_outs, cap, 4);
    outs[n_outs].name = value_name(p);
    outs[n_outs++].type = typed(p);
    if (!parse_accept(p, ","))
      break;
  }
  if (n_outs)
    parse_expect(p, "=");
  else
    parse_accept(p, "="); /* PyTorch prints it there, too */
  bool of_host = parse_accept(p, "^");
  str name = parse_word(p, "_:.");

  if (!name.len || (of_host && name.p[-1] != '^'))
    parse_fail(p, "expected an operator");
  if (of_host)
    name = (str){name.p - 1, name.len + 1};
  bool of_function = false;
  for (uint32_t i = 0; i < n_outs; i++)
    of_function = of_function || !outs[i].type;
  if (of_function) {
    if (n_outs != 1 || !str_is(name, "prim::Constant"))
      parse_fail(p, "only constants have the type Function");
    parse_function(p, b, outs[0].name);
    return;
  }
  ir_node *n = ir_node_new_named(p->s, p->g, name);
  if (n->kind == IR_PARAM || n->kind == IR_RETURN)
    parse_fail(p, "'%.*s' is no node of a text: each block has its own", (int)name.len, name.p);

  if (parse_accept(p, "["))
    parse_attrs(p, n, n_outs ? outs[0].type : NULL);
  parse_inputs(p, n);
  parse_origin(p, n);
  ir_node_resolve(p->s, n);
  ir_node_append(n, b);
  if (is_numbered(name))
    session_table_put(p->s, &p->scope->groups, name, n);
  parse_blocks(p, n);
  for (uint32_t i = 0; i < n_outs; i++)
    define(p, outs[i].name, ir_node_add_output(p->s, n, output_type(p, n, outs[i].type)));
  ir_node_resolve(p->s, n);
}

/* -- Graphs ------------------------------------------------------------------------------------ */

static void parse_graph_block(ir_parser *p, ir_block *b)
{
  parse_word_expect(p, "graph");
  parse_params(p, b);
  while (!parse_accept_word(p, "return"))
    parse_node(p, b);
  parse_inputs(p, b->ret);
}

/* Renumber named values: their numbers are not printed and must not collide with printed ones.  A
 * call whose function was named in brackets gets a number for the constant that PyTorch prints. */
static void renumber_named(ir_parser *p, ir_block *b)
{
  session_enter(p->s);
  for (ir_node *n = b->param;; n = n == b->param ? ir_block_first(b) : n->next) {
    if (n->kind == IR_CALL_FUNCTION && n->function && !ir_attr_find(n, "_fn"))
      ir_attr_set_int(p->s, n, "_fn", p->max_id++);
    for (uint32_t i = 0; i < n->n_outputs; i++)
      if (n->outputs[i]->name)
        n->outputs[i]->id = p->max_id++;
    for (uint32_t i = 0; i < n->n_blocks; i++)
      renumber_named(p, n->blocks[i]);
    if (n == b->ret)
      break;
  }
  session_leave(p->s);
}

static void scope_free(void *arg)
{
  parse_scope *scope = arg;

  table_free(&scope->values);
  table_free(&scope->functions);
  table_free(&scope->groups);
}

static void parse_with(ir_parser *p);

/* Parse a graph with its subgraphs, which follow it, into the empty block. */
static void parse_whole(ir_parser *p, ir_block *b)
{
  parse_scope *scope = session_new(p->s, parse_scope);

  session_enter(p->s);
  table_init(&scope->values, p->s->cx->ctx);
  table_init(&scope->functions, p->s->cx->ctx);
  table_init(&scope->groups, p->s->cx->ctx);
  session_defer(p->s, scope_free, scope);
  scope->outer = p->scope;
  p->scope = scope;
  parse_graph_block(p, b);
  parse_with(p);
  p->scope = scope->outer;
  session_leave(p->s);
}

/* Remove the number behind the kind of an operator that has a subgraph: my::op_3. */
static void drop_number(ir_parser *p, ir_node *n, str name)
{
  if (n->kind != IR_UNKNOWN_OP)
    return;
  while (name.p[name.len - 1] != '_')
    name.len--;
  ir_attr_set_string(p->s, n, "_kind", session_strndup(p->s, name.p, name.len - 1));
  ir_node_resolve(p->s, n);
}

/* Parse a graph that becomes an attribute of the node. */
static void parse_attr_graph(ir_parser *p, ir_node *n, const char *attr)
{
  const uint32_t max_id = p->max_id;
  const bool in_group = p->in_group;
  ir_graph *g = p->g;

  p->in_group = false;
  p->max_id = 0;
  p->g = ir_attr_graph_new(p->s, n);
  parse_whole(p, p->g->block);
  renumber_named(p, p->g->block);
  p->g->next_id = p->max_id;
  ir_attr_set_graph(p->s, n, attr, p->g);
  p->g = g;
  p->max_id = max_id;
  p->in_group = in_group;
}

/* Parse the subgraph of a node into a block or into a graph that is an attribute. */
static void parse_subgraph(ir_parser *p, ir_node *n, str name)
{
  const bool in_group = p->in_group;

  drop_number(p, n, name);
  if (!ir_node_has_subgraph_block(n)) {
    parse_attr_graph(p, n, "Subgraph");
    return;
  }
  p->in_group = true;
  parse_whole(p, ir_node_add_block(p->s, n));
  p->in_group = in_group;
}

/* Remove `.ReverseSubgraph` behind a node's name; false: there is none. */
static bool is_reverse(str *name)
{
  static const char suffix[] = ".ReverseSubgraph";
  const size_t n = sizeof suffix - 1;

  if (name->len <= n || memcmp(name->p + name->len - n, suffix, n) != 0)
    return false;
  name->len -= n;
  return true;
}

/* True if the node waits for this graph: the reverse one comes first. */
static bool takes_graph(const ir_node *n, bool reverse)
{
  if (reverse)
    return n->kind == IR_DIFFERENTIABLE_GRAPH && ir_attr_find(n, "f_real_outputs") &&
           !ir_attr_graph(n, "ReverseSubgraph");
  return n->n_blocks == 0 && !ir_attr_graph(n, "Subgraph");
}

/* Parse `with prim::fork_0 = graph(...)` as long as they belong to the graph just read: one that
 * does not is of the graph around it. */
static void parse_with(ir_parser *p)
{
  for (;;) {
    const char *at = p->at;
    if (!parse_accept_word(p, "with"))
      return;
    str name = parse_word(p, "_:.");
    const bool reverse = is_reverse(&name);
    ir_node *n = table_get(&p->scope->groups, name);

    if (p->scope->outer && (!n || (reverse && !takes_graph(n, true)))) {
      p->at = at;
      return;
    }
    if (!n || !takes_graph(n, reverse))
      parse_fail(p, "no node is called %.*s", (int)name.len, name.p);
    parse_expect(p, "=");
    if (reverse)
      parse_attr_graph(p, n, "ReverseSubgraph");
    else
      parse_subgraph(p, n, name);
  }
}

ir_graph *ir_parse_with(session *s, type_store *ts, const char *text, ir_tensors tensors)
{
  ir_parser *p = session_new(s, ir_parser);

  *p = (ir_parser){.s = s,
                   .ts = ts,
                   .text = text,
                   .at = text,
                   .g = ir_graph_new(s, ts),
                   .tensors = tensors};
  session_defer(s, ir_graph_free_deferred, p->g);
  parse_whole(p, p->g->block);
  parse_space(p);
  if (*p->at)
    parse_fail(p, "text after the end of the graph");
  renumber_named(p, p->g->block);
  p->g->next_id = p->max_id;
  return session_keep(s, p->g);
}

ir_graph *ir_parse(session *s, type_store *ts, const char *text)
{
  return ir_parse_with(s, ts, text, IR_TENSORS_LEFT);
}

const type *ir_parse_type(session *s, type_store *ts, const char *text)
{
  ir_parser *p = session_new(s, ir_parser);

  *p = (ir_parser){.s = s, .ts = ts, .text = text, .at = text};
  const type *t = parse_type(p);

  parse_space(p);
  if (*p->at)
    parse_fail(p, "text after the end of the type");
  return t;
}
