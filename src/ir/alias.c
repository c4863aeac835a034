/* ir/alias.c -- the alias analysis of alias.h: union-find over groups, one walk over the graph, and
 * summaries of called functions, cached per set of known boolean arguments. Steensgaard's method
 * was chosen over a points-to graph as in PyTorch (inclusion-based): it is nearly linear, and the
 * most frequent question, whether a method changes state, needs no more. Recursion has no summary
 * and counts as a call that may do anything. */
#include "ir/alias.h"
#include "base/grow.h"
#include "base/lock.h"
#include "ops/table/op_keys.h"

#define NO_GROUP UINT32_MAX /* of values without memory */
#define N_KNOWN 64          /* arguments whose constant values have summaries of their own */

/* Parts of a group that are written: tensors have memory of their own, which a container's items do
 * not reach. */
enum { WRITES_CONTAINERS = 1, WRITES_TENSORS = 2, WRITES_ALL = 3 };

typedef enum truth { MAYBE, NO, YES } truth;

/* Effects of a call on its arguments: the groups among them, the result and the constants. */
typedef struct summary {
  const function *f;
  uint64_t yes, no; /* arguments known to be true, or false */
  uint32_t n;       /* arguments */
  /* n arguments, result, constants: the index of the first one in the same group */
  uint32_t *group;
  bool *written;    /* of the same */
  truth result;     /* of a bool */
  bool done;        /* false: being made, a recursion */
  struct summary *next;
} summary;

struct alias_info {
  session *s;
  bool training;
  summary **summaries; /* shared by all graphs of one question */
  uint32_t n, cap;
  uint32_t *parent;    /* of values by scratch; group 0 is that of constants */
  uint8_t *written;    /* WRITES_* */
  truth *known;        /* of bools */
  bool all;            /* alias_analyse_all */
  const ir_node *now;  /* all: the node that is visited */
  struct write { const ir_node *node; uint32_t group; } *writes;
  uint32_t n_writes, cap_writes;
};

/* -- Groups ------------------------------------------------------------------------------------ */

bool alias_type_has_memory(const type *t)
{
  t = type_runtime(t);
  if (t->kind == TYPE_OPTIONAL)
    return alias_type_has_memory(type_elem(t));
  switch (t->kind) {
  case TYPE_INT:
  case TYPE_FLOAT:
  case TYPE_BOOL:
  case TYPE_COMPLEX:
  case TYPE_NUMBER:
  case TYPE_NONE:
  case TYPE_STRING: case TYPE_DEVICE:
    return false;
  default:
    return true;
  }
}

static uint32_t new_group(alias_info *a)
{
  uint32_t cap = a->cap, known_cap = a->cap;
  GROW(a->s, a->parent, a->n, cap, 64);
  GROW(a->s, a->known, a->n, known_cap, 64);
  GROW(a->s, a->written, a->n, a->cap, 64);
  a->parent[a->n] = a->n;
  return a->n++;
}

static uint32_t root_of(const alias_info *a, uint32_t i)
{
  ASSERT(i < a->n, "a value without a group");
  while (a->parent[i] != i) {
    a->parent[i] = a->parent[a->parent[i]];
    i = a->parent[i];
  }
  return i;
}

static void join(alias_info *a, uint32_t i, uint32_t j)
{
  i = root_of(a, i);
  j = root_of(a, j);
  if (i == j)
    return;
  uint32_t low = i < j ? i : j, high = i < j ? j : i;
  ASSERT(a->parent[low] == low && a->parent[high] == high, "only roots are joined");
  a->parent[high] = low;
  a->written[low] |= a->written[high];
}

static void join_values(alias_info *a, const ir_value *x, const ir_value *y)
{
  if (alias_type_has_memory(x->type) && alias_type_has_memory(y->type))
    join(a, x->scratch, y->scratch);
}

static void write_group(alias_info *a, uint32_t i, uint8_t what)
{
  a->written[root_of(a, i)] |= what;
  if (!a->all)
    return;
  GROW(a->s, a->writes, a->n_writes, a->cap_writes, 64);
  a->writes[a->n_writes++] = (struct write){a->now, i};
}

static bool is_tensor_type(const type *t)
{
  t = type_runtime(t);
  return t->kind == TYPE_TENSOR || (t->kind == TYPE_OPTIONAL && is_tensor_type(type_elem(t)));
}

static void write_value(alias_info *a, const ir_value *v)
{
  if (alias_type_has_memory(v->type))
    write_group(a, v->scratch, is_tensor_type(v->type) ? WRITES_TENSORS : WRITES_ALL);
}

static void write_container(alias_info *a, const ir_value *v)
{
  if (alias_type_has_memory(v->type))
    write_group(a, v->scratch, WRITES_CONTAINERS);
}

static void add_value(alias_info *a, ir_value *v) { v->scratch = new_group(a); }

static void add_values(alias_info *a, const ir_block *b)
{
  session_enter(a->s);
  for (const ir_node *n = b->param; n != b->ret; n = n == b->param ? ir_block_first(b) : n->next) {
    session_poll(a->s);
    for (uint32_t i = 0; i < n->n_outputs; i++)
      add_value(a, n->outputs[i]);
    for (uint32_t i = 0; i < n->n_blocks; i++)
      add_values(a, n->blocks[i]);
  }
  session_leave(a->s);
}

/* -- Known conditions -------------------------------------------------------------------------- */

static truth inverse(truth t) { return t == YES ? NO : t == NO ? YES : MAYBE; }

static truth known(const alias_info *a, const ir_value *v)
{
  ASSERT(v->scratch < a->n, "a value that the analysis has not seen");
  return a->known[v->scratch];
}

static truth constant_truth(const ir_node *n)
{
  rush_value v = ir_constant_value(n);

  return v.tag == RUSH_TAG_BOOL ? (v.as.b ? YES : NO) : MAYBE;
}

static bool is_none(const ir_value *v)
{
  rush_value c;

  return type_is(v->type, TYPE_NONE) || (ir_value_as_constant(v, &c) && c.tag == RUSH_TAG_NONE);
}

static bool never_none(const ir_value *v)
{
  type_kind k = type_runtime(v->type)->kind;

  return k != TYPE_OPTIONAL && k != TYPE_NONE && k != TYPE_ANY;
}

static truth op_truth(const alias_info *a, const ir_node *n)
{
  bool is = ir_node_is_op(n, OPN___IS__);

  if (ir_node_is_op(n, OPN___NOT__))
    return inverse(known(a, ir_node_input(n, 0)));
  if ((is || ir_node_is_op(n, OPN___ISNOT__)) && is_none(ir_node_input(n, 1))) {
    const ir_value *v = ir_node_input(n, 0);
    truth none = is_none(v) ? YES : never_none(v) ? NO : MAYBE;
    return is ? none : inverse(none);
  }
  if (n->n_inputs != 2)
    return MAYBE;
  truth x = known(a, ir_node_input(n, 0)), y = known(a, ir_node_input(n, 1));
  if (ir_node_is_op(n, OPN___AND__))
    return x == NO || y == NO ? NO : x == YES && y == YES ? YES : MAYBE;
  if (ir_node_is_op(n, OPN___OR__))
    return x == YES || y == YES ? YES : x == NO && y == NO ? NO : MAYBE;
  return MAYBE;
}

/* -- Nodes ------------------------------------------------------------------------------------- */

static void join_all(alias_info *a, const ir_node *n, bool inputs_too)
{
  const ir_value *first = NULL;

  for (uint32_t i = 0; i < n->n_inputs; i++) {
    const ir_value *v = ir_node_input(n, i);
    if (!alias_type_has_memory(v->type))
      continue;
    for (uint32_t k = 0; k < n->n_outputs; k++)
      join_values(a, n->outputs[k], v);
    if (inputs_too && first)
      join_values(a, first, v);
    first = v;
  }
}

/* Assume that the node may do anything. */
static void opaque(alias_info *a, const ir_node *n)
{
  for (uint32_t i = 0; i < n->n_inputs; i++)
    write_value(a, ir_node_input(n, i));
  join_all(a, n, true);
}

static uint32_t mask_of(const schema_arg *r)
{
  return r->alias_before | r->alias_after | r->elem_alias;
}

static bool is_container(const type *t)
{
  t = type_runtime(t);
  if (t->kind == TYPE_OPTIONAL)
    t = type_runtime(type_elem(t));
  return t->kind == TYPE_LIST || t->kind == TYPE_DICT || t->kind == TYPE_TUPLE ||
         t->kind == TYPE_FUTURE || t->kind == TYPE_AWAIT;
}

/* Join a result with the inputs whose memory it may share.  Results that are containers have no
 * annotation if their items are those of an argument (list(x), x + y, sorted). */
static void join_result(alias_info *a, const ir_node *n, const ir_value *out, const schema_arg *r)
{
  const schema *sc = n->op->schema;
  uint32_t mask = r ? mask_of(r) : ALIAS_WILDCARD;
  bool all =
    mask & ALIAS_WILDCARD || n->op->effects & OP_RETURNS_ARG || (!mask && is_container(out->type));

  if (!alias_type_has_memory(out->type))
    return;
  for (uint32_t i = 0; i < n->n_inputs; i++)
    if (all || i >= sc->n_args || mask_of(&sc->args[i]) & mask)
      join_values(a, out, ir_node_input(n, i));
}

/* True for batch and instance norm in training, which update their running statistics without an
 * annotation in their schemas. */
static bool trains(const alias_info *a, const ir_node *n)
{
  const schema *sc = n->op->schema;
  int at = schema_arg_index(sc, STR("training"));

  if (at < 0)
    at = schema_arg_index(sc, STR("use_input_stats"));
  if (at < 0)
    at = schema_arg_index(sc, STR("train"));
  return at < 0 || (uint32_t)at >= n->n_inputs || known(a, ir_node_input(n, (uint32_t)at)) != NO;
}

static void visit_op(alias_info *a, const ir_node *n)
{
  const schema *sc = n->op->schema;
  const ir_value *container = NULL;

  for (uint32_t i = 0; i < n->n_inputs && i < sc->n_args; i++) {
    const schema_arg *arg = &sc->args[i];
    bool hidden = strcmp(arg->name, "running_mean") == 0 || strcmp(arg->name, "running_var") == 0;

    if (!arg->is_write && !arg->elem_write && !(hidden && trains(a, n)))
      continue;
    if (arg->is_write && (type_is(arg->type, TYPE_LIST) || type_is(arg->type, TYPE_DICT)))
      write_container(a, ir_node_input(n, i));
    else
      write_value(a, ir_node_input(n, i));
    container = container ? container : ir_node_input(n, i);
  }
  for (uint32_t i = 0; container && i < n->n_inputs && i < sc->n_args; i++)
    if (sc->args[i].alias_after & ~sc->args[i].alias_before || is_container(sc->args[i].type))
      join_values(a, container, ir_node_input(n, i)); /* is put into the container */
  for (uint32_t k = 0; k < n->n_outputs; k++)
    join_result(a, n, n->outputs[k], k < sc->n_returns ? &sc->returns[k] : NULL);
  if (n->n_outputs == 1)
    a->known[n->outputs[0]->scratch] = op_truth(a, n);
}

static void visit_block(alias_info *a, const ir_block *b);

/* Analyse a subgraph that runs once, with the node's inputs. */
static void visit_subgraph(alias_info *a, const ir_node *n)
{
  const ir_block *b = n->n_blocks == 1 ? n->blocks[0] : NULL;

  if (!b || ir_block_n_inputs(b) != n->n_inputs || ir_block_n_outputs(b) != n->n_outputs) {
    opaque(a, n);
    return;
  }
  for (uint32_t i = 0; i < n->n_inputs; i++)
    join_values(a, ir_node_input(n, i), ir_block_input(b, i));
  visit_block(a, b);
  for (uint32_t i = 0; i < n->n_outputs; i++)
    join_values(a, ir_block_output(b, i), n->outputs[i]);
}

static void visit_if(alias_info *a, const ir_node *n)
{
  truth cond = a->all ? MAYBE : known(a, ir_node_input(n, 0)), got[2];

  for (uint32_t i = 0; i < 2; i++)
    if (cond != (i ? YES : NO))
      visit_block(a, n->blocks[i]);
  for (uint32_t k = 0; k < n->n_outputs; k++) {
    for (uint32_t i = 0; i < 2; i++) {
      const ir_value *v = ir_block_output(n->blocks[i], k);
      got[i] = known(a, v);
      if (cond != (i ? YES : NO))
        join_values(a, n->outputs[k], v);
    }
    a->known[n->outputs[k]->scratch] = cond == YES        ? got[0]
                                       : cond == NO       ? got[1]
                                       : got[0] == got[1] ? got[0]
                                                          : MAYBE;
  }
}

static void visit_loop(alias_info *a, const ir_node *n)
{
  const ir_block *body = n->blocks[0];

  for (uint32_t k = 0; k < n->n_outputs; k++) {
    join_values(a, ir_block_input(body, k + 1), ir_node_input(n, k + 2));
    join_values(a, n->outputs[k], ir_node_input(n, k + 2));
    join_values(a, n->outputs[k], ir_block_output(body, k + 1));
  }
  visit_block(a, body);
}

/* -- Calls ------------------------------------------------------------------------------------- */

static const summary *summarise(alias_info *a, function *f, uint64_t yes, uint64_t no);

static void call(alias_info *a, const ir_node *n, function *f)
{
  uint64_t yes = 0, no = 0;

  for (uint32_t i = 0; i < n->n_inputs && i < N_KNOWN; i++) {
    truth t = known(a, ir_node_input(n, i));
    yes |= (uint64_t)(t == YES) << i;
    no |= (uint64_t)(t == NO) << i;
  }
  const summary *m = f && n->n_outputs <= 1 ? summarise(a, f, yes, no) : NULL;
  if (!m || m->n != n->n_inputs) {
    opaque(a, n);
    return;
  }
  for (uint32_t i = 0; i < m->n + 2; i++) { /* arguments, result, constants */
    const ir_value *v = i < m->n                    ? ir_node_input(n, i)
                        : i == m->n && n->n_outputs ? n->outputs[0]
                                                    : NULL;
    uint32_t first = m->group[i];

    if (i <= m->n && (!v || !alias_type_has_memory(v->type)))
      continue;
    uint32_t own = v ? v->scratch : 0;
    if (m->written[i])
      write_group(a, own, WRITES_ALL);
    const ir_value *w = first < m->n                    ? ir_node_input(n, first)
                        : first == m->n && n->n_outputs ? n->outputs[0]
                                                        : NULL;
    if (first != i && w && alias_type_has_memory(w->type))
      join(a, own, w->scratch);
  }
  if (n->n_outputs)
    a->known[n->outputs[0]->scratch] = m->result;
}

/* long: a switch over the kinds. */
static void visit_node(alias_info *a, const ir_node *n)
{
  a->now = n;
  switch (n->kind) {
  case IR_OP:
    if (ir_node_is_subgraph(n)) /* a group of a registered operator */
      visit_subgraph(a, n);
    else
      visit_op(a, n);
    break;
  case IR_IF:
    visit_if(a, n);
    break;
  case IR_LOOP:
    visit_loop(a, n);
    break;
  case IR_CONSTANT:
    a->known[n->outputs[0]->scratch] = constant_truth(n);
    if (alias_type_has_memory(n->outputs[0]->type))
      join(a, 0, n->outputs[0]->scratch);
    break;
  case IR_GET_ATTR: {
    const char *name = ir_attr_string(n, "name");
    if (name && strcmp(name, "training") == 0)
      a->known[n->outputs[0]->scratch] = a->all ? MAYBE : a->training ? YES : NO;
    join_all(a, n, false);
    break;
  }
  case IR_SET_ATTR:
    write_container(a, ir_node_input(n, 0));
    join_values(a, ir_node_input(n, 0), ir_node_input(n, 1));
    break;
  case IR_CALL_FUNCTION: case IR_CALL_METHOD:
    call(a, n, ir_node_callee(n));
    break;
  case IR_LIST_CONSTRUCT: case IR_LIST_UNPACK: case IR_TUPLE_CONSTRUCT: case IR_TUPLE_UNPACK:
  case IR_TUPLE_INDEX: case IR_TUPLE_SLICE: case IR_DICT_CONSTRUCT: case IR_MODULE_CONTAINER_INDEX:
  case IR_UNCHECKED_CAST: case IR_PROFILE: case IR_PROFILE_IVALUE:
    join_all(a, n, false);
    if (n->n_inputs == 1 && n->n_outputs == 1)
      a->known[n->outputs[0]->scratch] = known(a, ir_node_input(n, 0));
    break;
  case IR_PARAM: case IR_RETURN: case IR_CREATE_OBJECT: case IR_RAISE: case IR_PRINT:
  case IR_UNINITIALIZED: case IR_ISINSTANCE: case IR_BAILOUT_TEMPLATE:
    break;
  case IR_GUARD: case IR_TYPE_CHECK: case IR_REQUIRES_GRAD_CHECK:
    for (uint32_t i = 0; i < n->n_inputs && i < n->n_outputs; i++)
      join_values(a, ir_node_input(n, i), n->outputs[i]);
    break;
  case IR_DIFFERENTIABLE_GRAPH: case IR_FALLBACK_GRAPH: case IR_GROUP:
    visit_subgraph(a, n);
    break;
  case IR_GRAD_OF:
    visit_block(a, n->blocks[0]);
    for (uint32_t i = 0; i < n->n_outputs; i++)
      join_values(a, ir_block_output(n->blocks[0], i), n->outputs[i]);
    break;
  case IR_FORK: /* runs later, but before the call is over */
  case IR_WITH:
  case IR_ENTER:
  case IR_EXIT:
  case IR_INTERFACE_CALL:
  case IR_AWAITABLE:
  case IR_CLOSURE:
  case IR_LOAD: case IR_STORE: case IR_BREAK_STMT: case IR_CONTINUE_STMT: case IR_RETURN_STMT:
  case IR_BAILOUT: case IR_HIGHER_ORDER:
  case IR_UNKNOWN_OP: case N_IR_KINDS:
    opaque(a, n);
    break;
  }
}

static void visit_block(alias_info *a, const ir_block *b)
{
  session_enter(a->s);
  for (const ir_node *n = ir_block_first(b); n != b->ret; n = n->next)
    visit_node(a, n);
  session_leave(a->s);
}

static alias_info *begin_summary(session *s, const ir_graph *g, bool training, summary **summaries)
{
  alias_info *a = session_new(s, alias_info);

  *a = (alias_info){.s = s, .training = training, .summaries = summaries};
  (void)new_group(a); /* of constants */
  add_values(a, g->block);
  return a;
}

/* -- Summaries --------------------------------------------------------------------------------- */

/* Fill a summary from the callee's groups: for each entry, the index of the first argument in its
 * group. */
static void fill_summary(summary *m, const alias_info *a, const ir_graph *g)
{
  uint32_t *first = session_array(a->s, uint32_t, a->n); /* by group: its first entry + 1, or 0 */

  for (uint32_t i = 0; i < m->n + 2; i++) {
    const ir_value *v = i < m->n                                  ? ir_block_input(g->block, i)
                        : i == m->n && ir_block_n_outputs(g->block) ? ir_block_output(g->block, 0)
                                                                  : NULL;
    const uint32_t root = i == m->n + 1                         ? root_of(a, 0)
                          : v && alias_type_has_memory(v->type) ? root_of(a, v->scratch)
                                                                : NO_GROUP;
    session_poll(a->s);
    m->group[i] = i;
    if (root == NO_GROUP)
      continue;
    m->written[i] = i != m->n && a->written[root] != 0;
    if (first[root])
      m->group[i] = first[root] - 1;
    else
      first[root] = i + 1;
  }
  if (ir_block_n_outputs(g->block) == 1)
    m->result = known(a, ir_block_output(g->block, 0));
}

/* Return the summary of f; NULL: unknown, a recursion. */
static const summary *summarise(alias_info *a, function *f, uint64_t yes, uint64_t no)
{
  session_poll(a->s);
  for (summary *m = *a->summaries; m; m = m->next)
    if (m->f == f && m->yes == yes && m->no == no)
      return m->done ? m : NULL;
  session_enter(a->s);
  function_ensure(a->s, f);
  if (!f->graph || ir_block_n_outputs(f->graph->block) > 1) {
    session_leave(a->s);
    return NULL;
  }
  const ir_graph *g = f->graph;
  summary *m = session_new(a->s, summary);
  *m = (summary){
    .f = f, .yes = yes, .no = no, .n = ir_block_n_inputs(g->block), .next = *a->summaries};
  m->group = session_array(a->s, uint32_t, (size_t)m->n + 2);
  m->written = session_array(a->s, bool, (size_t)m->n + 2);
  *a->summaries = m;
  alias_info *inner = begin_summary(a->s, g, a->training, a->summaries);
  inner->all = a->all;
  for (uint32_t i = 0; i < m->n && i < N_KNOWN; i++)
    inner->known[ir_block_input(g->block, i)->scratch] = yes >> i & 1  ? YES
                                                         : no >> i & 1 ? NO
                                                                       : MAYBE;
  visit_block(inner, g->block);
  fill_summary(m, inner, g);
  m->done = true;
  session_leave(a->s);
  return m;
}

/* -- From outside ------------------------------------------------------------------------------ */

alias_info *alias_analyse(session *s, const ir_graph *g, bool training)
{
  alias_info *a = begin_summary(s, g, training, (summary **)session_alloc(s, sizeof(summary *)));

  visit_block(a, g->block);
  return a;
}

alias_info *alias_analyse_all(session *s, const ir_graph *g)
{
  alias_info *a = begin_summary(s, g, false, (summary **)session_alloc(s, sizeof(summary *)));

  a->all = true;
  const ir_value *before = NULL; /* the last argument that has memory */
  for (uint32_t i = 0; i < ir_block_n_inputs(g->block);
       i++) { /* a caller may pass one object twice */
    const ir_value *v = ir_block_input(g->block, i);
    if (!alias_type_has_memory(v->type))
      continue;
    if (before)
      join_values(a, v, before);
    before = v;
  }
  visit_block(a, g->block);
  return a;
}

uint32_t alias_n_values(const alias_info *a) { return a->n; }

uint32_t alias_group(const alias_info *a, const ir_value *v)
{
  return alias_type_has_memory(v->type) ? root_of(a, v->scratch) : ALIAS_NO_MEMORY;
}

uint32_t alias_n_writes(const alias_info *a) { return a->n_writes; }

ir_node *alias_write(const alias_info *a, uint32_t i, uint32_t *group)
{
  *group = root_of(a, a->writes[i].group);
  return (ir_node *)(uintptr_t)a->writes[i].node;
}

bool alias_may(const alias_info *a, const ir_value *x, const ir_value *y)
{
  return alias_type_has_memory(x->type) && alias_type_has_memory(y->type) &&
         root_of(a, x->scratch) == root_of(a, y->scratch);
}

bool alias_is_written(const alias_info *a, const ir_value *v)
{
  return alias_type_has_memory(v->type) &&
         a->written[root_of(a, v->scratch)] &
           (is_tensor_type(v->type) ? WRITES_TENSORS : WRITES_ALL);
}

bool alias_items_change(const alias_info *a, const ir_value *v)
{
  return alias_type_has_memory(v->type) && a->written[root_of(a, v->scratch)] & WRITES_CONTAINERS;
}

typedef struct state_search {
  function *f;
  bool training, changes;
} state_search;

static void find_changes(session *s, void *arg)
{
  state_search *q = arg;
  summary *none = NULL;
  alias_info top = {.s = s, .training = q->training, .summaries = &none};

  session_lock_to_read(s, &q->f->program->lock); /* the graphs' scratch is ours */
  const summary *m = summarise(&top, q->f, 0, 0);
  q->changes = !m || m->n == 0 || m->written[0] || m->written[m->n + 1];
}

bool function_search_changes(call_ctx *cx, function *f, bool training)
{
  call_ctx quiet = *cx;
  state_search q = {.f = f, .training = training};

  quiet.err = NULL;
  rush_status st = session_run(&quiet, find_changes, &q);
  if (st == RUSH_ECANCELLED || (st != RUSH_OK && call_over(cx)))
    return true; /* of this call, which ends: another one analyses again */
  const bool changes = st != RUSH_OK || q.changes;
  atomic_store_explicit(&f->changes_state[training], changes ? STATE_CHANGES : STATE_KEPT,
                        memory_order_release);
  return changes;
}
