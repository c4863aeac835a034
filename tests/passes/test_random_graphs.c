/* Compares alias.h's analysis of random graphs with what running them shows, and checks that passes
 * keep their meaning.
 *
 * A graph of views, in-place operators, lists, dicts and tuples of tensors, branches, loops and
 * calls is generated from a seed.  A plain walk over its nodes runs it and records which memory
 * each value reached (itself, its items, their tensors' storages) and which memory each node
 * changed.  Then
 *   sharing  two values that reached the same memory are in one group;
 *   writes   memory that a node changed is written in the group of every value that reached it;
 *   state    a function that changes memory that its first argument reaches is found to change
 *            state.
 * The interpreter computes the same results from the graph as it is and after each pass, and leaves
 * equal arguments. */
#include "support/graphs.h"

#include "base/macros.h"
#include "ir/alias.h"
#include "passes/passes.h"
#include "run/code.h"

#define N_GRAPHS 400 /* RUSH_GRAPHS=n: more */
#define MOST_OF_TYPE 64

/* -- Making graphs ----------------------------------------------------------------------------- */

typedef enum kind { TENSOR, LIST, DICT, PAIR, N_KINDS } kind;
static const char *const type_texts[N_KINDS] = {"Tensor", "Tensor[]", "Dict(str, Tensor)",
                                                "(Tensor, Tensor)"};

typedef struct maker {
  text_buf *out;
  uint64_t seed;
  uint32_t next_id, n[N_KINDS], v[N_KINDS][MOST_OF_TYPE]; /* values in scope */
  uint32_t n_callees;
} maker;

static uint32_t below(maker *m, uint32_t n)
{
  m->seed = m->seed * UINT64_C(6364136223846793005) + UINT64_C(1442695040888963407);
  return (uint32_t)((m->seed >> 33) % n);
}

static uint32_t pick(maker *m, kind k)
{
  const uint32_t recent = m->n[k] > 4 && below(m, 2) ? 4 : m->n[k];
  return m->v[k][m->n[k] - 1 - below(m, recent)];
}

static uint32_t fresh(maker *m, kind k)
{
  if (m->n[k] == MOST_OF_TYPE)
    m->n[k]--;
  m->v[k][m->n[k]++] = ++m->next_id;
  return m->next_id;
}

static void indent(maker *m, int depth)
{
  for (int i = 0; i <= depth; i++)
    text_puts(m->out, "  ");
}

/* Generate a node from a form, "%7 : Tensor = aten::relu(%3)": each %T, %L, %D, %P in it becomes a
 * value of that type. */
static void line(maker *m, int depth, kind k, const char *form)
{
  char text[256];
  size_t n = 0;

  for (const char *p = form; *p; p++) {
    const char *at = p[0] == '%' ? strchr("TLDP", p[1]) : NULL;
    n += at && p[1]
           ? (size_t)snprintf(text + n, sizeof text - n, "%%v%u", pick(m, (kind)(at - "TLDP")))
           : (size_t)snprintf(text + n, sizeof text - n, "%c", *p);
    p += at && p[1];
  }
  indent(m, depth);
  text_printf(m->out, "%%v%u : %s = %s\n", fresh(m, k), type_texts[k], text);
}

static const struct { kind k; const char *form;
} forms[] = {
  {TENSOR, "aten::add(%T, %T, %one)"},
  {TENSOR, "aten::mul(%T, %T)"},
  {TENSOR, "aten::relu(%T)"},
  {TENSOR, "aten::neg(%T)"},
  {TENSOR, "aten::slice(%T, %zero, %zero, %four, %one)"},
  {TENSOR, "aten::detach(%T)"},
  {TENSOR, "aten::view_as(%T, %T)"},
  {TENSOR, "aten::expand_as(%T, %T)"},
  {TENSOR, "aten::t(%T)"},
  {TENSOR, "aten::contiguous(%T, %zero)"},
  {TENSOR, "aten::add_(%T, %T, %one)"},
  {TENSOR, "aten::mul_(%T, %T)"},
  {TENSOR, "aten::copy_(%T, %T, %no)"},
  {TENSOR, "aten::relu_(%T)"},
  {TENSOR, "aten::zero_(%T)"},
  {TENSOR, "aten::neg_(%T)"},
  {TENSOR, "aten::add_(%T, %T, %one)"},
  {LIST, "prim::ListConstruct(%T, %T)"},
  {LIST, "prim::ListConstruct(%T)"},
  {LIST, "aten::append(%L, %T)"},
  {LIST, "aten::_set_item(%L, %zero, %T)"},
  {LIST, "aten::add(%L, %L)"},
  {LIST, "aten::slice(%L, %zero, %one, %one)"},
  {LIST, "aten::list(%L)"},
  {LIST, "aten::values(%D)"},
  {LIST, "aten::copy(%L)"},
  {TENSOR, "aten::__getitem__(%L, %zero)"},
  {TENSOR, "aten::__getitem__(%L, %zero)"},
  {TENSOR, "aten::__getitem__(%D, %key)"},
  {TENSOR, "aten::setdefault(%D, %key, %T)"},
  {DICT, "prim::DictConstruct(%key, %T)"},
  {DICT, "prim::DictConstruct(%key, %T, %word, %T)"},
  {DICT, "aten::copy(%D)"},
  {PAIR, "prim::TupleConstruct(%T, %T)"},
  {TENSOR, "prim::TupleIndex(%P, %zero)"},
  {TENSOR, "prim::TupleIndex(%P, %one)"},
  {TENSOR, "aten::clone(%T, %none)"},
  {TENSOR, "aten::maximum(%T, %T)"},
};

static void statements(maker *m, int depth, uint32_t n);

static void leave(maker *m, const maker *before)
{
  memcpy(m->n, before->n, sizeof m->n);
  memcpy(m->v, before->v, sizeof m->v);
}

static void branch(maker *m, int depth)
{
  const kind k = below(m, 2) ? TENSOR : (kind)below(m, N_KINDS);
  const maker before = *m;
  const uint32_t id = ++m->next_id;

  indent(m, depth);
  text_printf(m->out, "%%v%u : %s = prim::If(%%b%u)\n", id, type_texts[k], below(m, 2));
  for (int i = 0; i < 2; i++) {
    indent(m, depth + 1);
    text_printf(m->out, "block%d():\n", i);
    statements(m, depth + 2, below(m, 5));
    indent(m, depth + 2);
    text_printf(m->out, "-> (%%v%u)\n", pick(m, k));
    leave(m, &before);
  }
  m->v[k][m->n[k] == MOST_OF_TYPE ? MOST_OF_TYPE - 1 : m->n[k]++] = id;
}

static void loop(maker *m, int depth)
{
  const kind k[2] = {(kind)below(m, N_KINDS), TENSOR};
  const uint32_t a = pick(m, k[0]), b = pick(m, k[1]), id = m->next_id + 1;
  const maker before = *m;

  m->next_id += 5;
  indent(m, depth);
  text_printf(m->out, "%%v%u : %s, %%v%u : Tensor = prim::Loop(%%two, %%yes, %%v%u, %%v%u)\n", id,
              type_texts[k[0]], id + 1, a, b);
  indent(m, depth + 1);
  text_printf(m->out, "block0(%%v%u : int, %%v%u : %s, %%v%u : Tensor):\n", id + 2, id + 3,
              type_texts[k[0]], id + 4);
  for (int i = 0; i < 2; i++)
    m->v[k[i]][m->n[k[i]] == MOST_OF_TYPE ? MOST_OF_TYPE - 1 : m->n[k[i]]++] = id + 3 + (uint32_t)i;
  statements(m, depth + 2, 1 + below(m, 5));
  indent(m, depth + 2);
  text_printf(m->out, "-> (%%yes, %%v%u, %%v%u)\n", pick(m, k[0]), pick(m, k[1]));
  leave(m, &before);
  for (int i = 0; i < 2; i++)
    m->v[k[i]][m->n[k[i]] == MOST_OF_TYPE ? MOST_OF_TYPE - 1 : m->n[k[i]]++] = id + (uint32_t)i;
}

static void statements(maker *m, int depth, uint32_t n)
{
  for (uint32_t i = 0; i < n; i++) {
    const uint32_t way = below(m, 20);
    char call[80];
    if (way == 0 && depth < 4) {
      branch(m, depth);
    } else if (way == 1 && depth < 4) {
      loop(m, depth);
    } else if (way == 2 && m->n_callees) {
      snprintf(call, sizeof call,
               "prim::CallFunction[name=\"g%u\"](%%L, %%T, %%T, %%D, %%b0, %%b1)",
               below(m, m->n_callees));
      line(m, depth, TENSOR, call);
    } else {
      const uint32_t at = below(m, COUNT_OF(forms));
      line(m, depth, forms[at].k, forms[at].form);
    }
  }
}

static const char head[] =
  "graph(%v1 : Tensor[], %v2 : Tensor, %v3 : Tensor, %v4 : Dict(str, Tensor), %b0 : bool, %b1 : "
  "bool):\n"
  "  %zero : int = prim::Constant[value=0]()\n  %one : int = prim::Constant[value=1]()\n"
  "  %two : int = prim::Constant[value=2]()\n  %four : int = prim::Constant[value=4]()\n"
  "  %yes : bool = prim::Constant[value=1]()\n  %no : bool = prim::Constant[value=0]()\n"
  "  %none : NoneType = prim::Constant()\n"
  "  %key : str = prim::Constant[value=\"a\"]()\n  %word : str = prim::Constant[value=\"b\"]()\n";

/* A callee returns one tensor; the graph returns values that can be compared. */
static void make_graph(maker *m, uint32_t n, bool is_callee)
{
  const uint32_t at[N_KINDS] = {2, 1, 4, 0};

  memset(m->n, 0, sizeof m->n);
  for (kind k = TENSOR; k < PAIR; k++)
    m->v[k][m->n[k]++] = at[k];
  m->v[TENSOR][m->n[TENSOR]++] = 3;
  m->next_id = 4;
  text_puts(m->out, head);
  line(m, 0, PAIR, "prim::TupleConstruct(%T, %T)");
  statements(m, 0, n);
  if (is_callee) {
    text_printf(m->out, "  return (%%v%u)\n", pick(m, TENSOR));
    return;
  }
  text_puts(m->out, "  %result : (Tensor, Tensor, Tensor[], Dict(str, Tensor), (Tensor, Tensor)) = "
                    "prim::TupleConstruct(");
  const uint32_t t = pick(m, TENSOR), u = pick(m, TENSOR), l = pick(m, LIST), d = pick(m, DICT),
                 p = pick(m, PAIR);
  text_printf(m->out, "%%v%u, %%v%u, %%v%u, %%v%u, %%v%u)\n  return (%%result)\n", t, u, l, d, p);
}

/* -- Memory in reach --------------------------------------------------------------------------- */

typedef struct
  /* a container or a storage that the run reached; retained, so that no other gets its address */
  item {
  rush_value value; /* a tensor represents its storage */
  void *at;
  uint64_t state; /* its content when last compared */
} item;

typedef struct trace {
  call_ctx *cx;
  item *items;
  uint32_t n_items, cap_items, n_values;
  uint8_t *reached; /* [value * cap + item] */
  uint8_t *changed; /* [write * cap + item] */
  const ir_node **writers;
  uint32_t n_writes, cap_writes;
} trace;
#define MOST_ITEMS 1024

static uint64_t state_of(const item *it)
{
  const rush_value v = it->value;
  uint64_t h = 1;
  size_t pos = 0;

  switch (v.tag) {
  case RUSH_TAG_TENSOR:
    return v.as.tensor->st->version;
  case RUSH_TAG_LIST:
    for (size_t i = 0; i < v.as.list->n; i++)
      h = h * 31 + (uintptr_t)v.as.list->items[i].as.heap;
    return h;
  case RUSH_TAG_DICT:
    for (dict_entry *e; (e = dict_next(v.as.dict, &pos)) != NULL;)
      h = h * 31 + (uintptr_t)e->value.as.heap;
    return h;
  default:
    return 0;
  }
}

static uint32_t item_index(trace *t, rush_value v)
{
  void *at = v.tag == RUSH_TAG_TENSOR ? (void *)v.as.tensor->st : (void *)v.as.heap;

  for (uint32_t i = 0; i < t->n_items; i++)
    if (t->items[i].at == at)
      return i;
  assert_true(t->n_items < MOST_ITEMS);
  t->items[t->n_items] = (item){.value = value_retain(v), .at = at};
  t->items[t->n_items].state = state_of(&t->items[t->n_items]);
  return t->n_items++;
}

static void reach(trace *t, uint8_t *row, rush_value v)
{
  size_t pos = 0;

  if (v.tag != RUSH_TAG_TENSOR && v.tag != RUSH_TAG_LIST && v.tag != RUSH_TAG_DICT &&
      v.tag != RUSH_TAG_TUPLE)
    return;
  if (v.tag != RUSH_TAG_TUPLE) /* tuples are never written to, and two equal ones may be one */
    row[item_index(t, v)] = 1;
  if (v.tag == RUSH_TAG_LIST)
    for (size_t i = 0; i < v.as.list->n; i++)
      reach(t, row, v.as.list->items[i]);
  if (v.tag == RUSH_TAG_TUPLE)
    for (size_t i = 0; i < v.as.tuple->n; i++)
      reach(t, row, v.as.tuple->items[i]);
  if (v.tag == RUSH_TAG_DICT)
    for (dict_entry *e; (e = dict_next(v.as.dict, &pos)) != NULL;)
      reach(t, row, e->value);
}

/* -- Running ----------------------------------------------------------------------------------- */

typedef struct frame { /* a plain evaluator: values by number */
  trace *t;
  bool traced; /* false: a callee, whose writes count for its call */
  rush_value *values;
} frame;

static void bind_value(frame *f, const ir_value *v, rush_value x)
{
  rush_value *slot = &f->values[v->scratch];

  value_release(*slot);
  *slot = x;
  if (f->traced)
    reach(f->t, f->t->reached + (size_t)v->scratch * MOST_ITEMS, x);
}

static rush_value at(const frame *f, const ir_value *v) { return f->values[v->scratch]; }

/* Find the memory that changed, and count it as written by the node. */
static void note_changes(frame *f, const ir_node *n)
{
  trace *t = f->t;
  uint8_t *row = NULL;

  for (uint32_t i = 0; i < t->n_items; i++) {
    const uint64_t now = state_of(&t->items[i]);
    if (now == t->items[i].state)
      continue;
    t->items[i].state = now;
    if (!row) {
      assert_true(t->n_writes < t->cap_writes);
      t->writers[t->n_writes] = n;
      row = t->changed + (size_t)t->n_writes++ * MOST_ITEMS;
    }
    row[i] = 1;
  }
}

static rush_status run_block(frame *f, const ir_block *b);
static rush_status run_callee(frame *f, const ir_node *n, rush_value *out);

static rush_status run_made(frame *f, const ir_node *n)
{
  call_ctx *cx = f->t->cx;
  const type *type = n->outputs[0]->type;
  rush_value made = value_none();

  if (n->kind == IR_TUPLE_CONSTRUCT) {
    rush_tuple *t;
    TRY(tuple_new(cx, NULL, n->n_inputs, &t));
    for (uint32_t i = 0; i < n->n_inputs; i++)
      t->items[i] = value_retain(at(f, ir_node_input(n, i)));
    made = value_heap_steal(RUSH_TAG_TUPLE, t);
  } else if (n->kind == IR_LIST_CONSTRUCT) {
    rush_list *l;
    TRY(list_new(cx, type_elem(type), n->n_inputs, &l));
    for (uint32_t i = 0; i < n->n_inputs; i++)
      l->items[l->n++] = value_retain(at(f, ir_node_input(n, i)));
    made = value_heap_steal(RUSH_TAG_LIST, l);
  } else {
    rush_dict *d;
    TRY(dict_new(cx, type->elems[0], type->elems[1], &d));
    for (uint32_t i = 0; i < n->n_inputs; i += 2)
      TRY(dict_set_steal(cx, d, value_retain(at(f, ir_node_input(n, i))),
                         value_retain(at(f, ir_node_input(n, i + 1)))));
    made = value_heap_steal(RUSH_TAG_DICT, d);
  }
  bind_value(f, n->outputs[0], made);
  return RUSH_OK;
}

static rush_status run_op(frame *f, const ir_node *n)
{
  rush_value args[16], results[4];

  assert_true(n->n_inputs <= COUNT_OF(args) && n->n_outputs <= COUNT_OF(results));
  for (uint32_t i = 0; i < n->n_inputs; i++)
    args[i] = at(f, ir_node_input(n, i));
  TRY(op_invoke(f->t->cx, n->op, args, n->n_inputs, results, n->op->schema->n_returns));
  for (uint32_t i = 0; i < n->op->schema->n_returns; i++)
    if (i < n->n_outputs)
      bind_value(f, n->outputs[i], results[i]);
    else
      value_release(results[i]);
  return RUSH_OK;
}

static rush_status run_loop(frame *f, const ir_node *n)
{
  const ir_block *b = n->blocks[0];
  rush_value carried[4];

  for (uint32_t k = 0; k < n->n_outputs; k++)
    carried[k] = value_retain(at(f, ir_node_input(n, k + 2)));
  for (int64_t i = 0; i < at(f, ir_node_input(n, 0)).as.i; i++) {
    bind_value(f, ir_block_input(b, 0), value_int(i));
    for (uint32_t k = 0; k < n->n_outputs; k++)
      bind_value(f, ir_block_input(b, k + 1), carried[k]);
    TRY(run_block(f, b));
    for (uint32_t k = 0; k < n->n_outputs; k++)
      carried[k] = value_retain(at(f, ir_block_output(b, k + 1)));
  }
  for (uint32_t k = 0; k < n->n_outputs; k++)
    bind_value(f, n->outputs[k], carried[k]);
  return RUSH_OK;
}

static rush_status run_node(frame *f, const ir_node *n)
{
  rush_value v = value_none();

  switch (n->kind) {
  case IR_CONSTANT:
    bind_value(f, n->outputs[0], value_retain(ir_constant_value(n)));
    return RUSH_OK;
  case IR_OP:
    return run_op(f, n);
  case IR_TUPLE_CONSTRUCT: case IR_LIST_CONSTRUCT: case IR_DICT_CONSTRUCT:
    return run_made(f, n);
  case IR_TUPLE_INDEX:
    v = at(f, ir_node_input(n, 0)).as.tuple->items[at(f, ir_node_input(n, 1)).as.i];
    bind_value(f, n->outputs[0], value_retain(v));
    return RUSH_OK;
  case IR_IF: {
    const ir_block *b = n->blocks[at(f, ir_node_input(n, 0)).as.b ? 0 : 1];
    TRY(run_block(f, b));
    bind_value(f, n->outputs[0], value_retain(at(f, ir_block_output(b, 0))));
    return RUSH_OK;
  }
  case IR_LOOP:
    return run_loop(f, n);
  case IR_CALL_FUNCTION:
    TRY(run_callee(f, n, &v));
    bind_value(f, n->outputs[0], v);
    return RUSH_OK;
  default:
    fail_msg("%s is not run here", ir_node_kind_name(n));
    return RUSH_EINTERNAL;
  }
}

static rush_status run_block(frame *f, const ir_block *b)
{
  for (const ir_node *n = ir_block_first(b); n != b->ret; n = n->next) {
    TRY(run_node(f, n));
    if (f->traced && n->kind != IR_IF && n->kind != IR_LOOP)
      note_changes(f, n);
  }
  return RUSH_OK;
}

/* A callee's values have no numbers here: the interpreter runs it. */
static rush_status run_callee(frame *f, const ir_node *n, rush_value *out)
{
  rush_value args[8];

  for (uint32_t i = 0; i < n->n_inputs; i++)
    args[i] = at(f, ir_node_input(n, i));
  return function_call(f->t->cx, ir_node_callee(n), args, n->n_inputs, out);
}

/* -- What alias.h says ------------------------------------------------------------------------- */

typedef struct job {
  const char *text;      /* the graph's */
  const function *f;
  rush_value *args;
  bool same_arguments;   /* the two tensors are one */
  uint64_t seed;
} job;

static void collect(const ir_block *b, const ir_value **values)
{
  for (uint32_t i = 0; i < ir_block_n_inputs(b); i++)
    values[ir_block_input(b, i)->scratch] = ir_block_input(b, i);
  for (const ir_node *n = ir_block_first(b); n != b->ret; n = n->next) {
    for (uint32_t i = 0; i < n->n_outputs; i++)
      values[n->outputs[i]->scratch] = n->outputs[i];
    for (uint32_t i = 0; i < n->n_blocks; i++)
      collect(n->blocks[i], values);
  }
}

#define WRONG(what, ...) \
  fail_msg("seed %llu: " what "\n%s", (unsigned long long)j->seed, __VA_ARGS__, j->text)

static void check_sharing(const job *j, const trace *t, const alias_info *a,
                          const ir_value **values)
{
  for (uint32_t i = 0; i < t->n_items; i++) {
    const ir_value *first = NULL;
    for (uint32_t v = 0; v < t->n_values; v++) {
      if (!values[v] || !t->reached[(size_t)v * MOST_ITEMS + i] ||
          !alias_type_has_memory(values[v]->type))
        continue;
      first = first ? first : values[v];
      if (!alias_may(a, first, values[v]))
        WRONG("%%%s and %%%s share memory, and are said not to", first->name ? first->name : "?",
              values[v]->name ? values[v]->name : "?");
    }
  }
}

static bool is_write_known(const alias_info *a, const ir_node *n, uint32_t group)
{
  for (uint32_t i = 0; i < alias_n_writes(a); i++) {
    uint32_t g;
    if (alias_write(a, i, &g) == n && g == group)
      return true;
  }
  return false;
}

static void check_writes(const job *j, const trace *t, const alias_info *a, const ir_value **values,
                         bool all)
{
  for (uint32_t w = 0; w < t->n_writes; w++)
    for (uint32_t i = 0; i < t->n_items; i++) {
      if (!t->changed[(size_t)w * MOST_ITEMS + i])
        continue;
      for (uint32_t k = 0; k < t->n_values; k++) {
        const ir_value *v = values[k];
        if (!v || !t->reached[(size_t)k * MOST_ITEMS + i])
          continue;
        const char *name = v->name ? v->name : "?", *by = ir_node_kind_name(t->writers[w]);
        if (t->items[i].value.tag == RUSH_TAG_TENSOR ? !alias_is_written(a, v)
                                                     : !alias_items_change(a, v))
          WRONG("%%%s is written by %s, and is said not to be", name, by);
        if (all && !is_write_known(a, t->writers[w], alias_group(a, v)))
          WRONG("%%%s is written by %s, and that write is not known", name, by);
      }
    }
}

static void watch(session *s, void *arg)
{
  job *j = arg;
  const ir_graph *g = j->f->graph;
  alias_info *all = alias_analyse_all(s, g);
  trace t = {.cx = s->cx, .n_values = alias_n_values(all), .cap_writes = 1024};
  frame f = {.t = &t, .traced = true};
  const ir_value **values = session_array(s, const ir_value *, t.n_values);

  t.items = session_array(s, item, MOST_ITEMS);
  t.reached = session_array(s, uint8_t, (size_t)t.n_values * MOST_ITEMS);
  t.changed = session_array(s, uint8_t, (size_t)t.cap_writes * MOST_ITEMS);
  t.writers = session_array(s, const ir_node *, t.cap_writes);
  f.values = session_array(s, rush_value, t.n_values);
  for (uint32_t i = 0; i < t.n_values; i++) {
    f.values[i] = value_none();
    values[i] = NULL;
  }
  collect(g->block, values);
  for (uint32_t i = 0; i < ir_block_n_inputs(g->block); i++)
    bind_value(&f, ir_block_input(g->block, i), value_retain(j->args[i]));
  if (run_block(&f, g->block) != RUSH_OK)
    fail_msg("seed %llu: %s\n%s", (unsigned long long)j->seed, s->cx->err->message, j->text);
  for (uint32_t i = 0; i < t.n_values; i++) /* items that containers got afterwards */
    reach(&t, t.reached + (size_t)i * MOST_ITEMS, f.values[i]);
  check_sharing(j, &t, all, values);
  check_writes(j, &t, all, values, true);
  if (!j->same_arguments) {
    const alias_info *plain = alias_analyse(s, g, false);
    check_sharing(j, &t, plain, values);
    check_writes(j, &t, plain, values, false);
  }
  for (uint32_t i = 0; i < t.n_values; i++)
    value_release(f.values[i]);
  for (uint32_t i = 0; i < t.n_items; i++)
    value_release(t.items[i].value);
}

/* -- The same by the interpreter, after passes ------------------------------------------------- */

static const char *const pass_lists[] = {
  "",
  "dce",
  "cse",
  "peephole",
  "constant_propagation",
  "remove_mutation",
  "remove_list_mutation,cse,dce",
  "inline,cse,dce",
  "loop_peeling,cse,dce",
  "constant_loop_unrolling,peephole,cse,dce",
  "inline,lower_simple_tuples,peephole_list_idioms,dce",
  "normalize_inplace,remove_aliases,remove_expands,cse,dce",
  "inline,constant_loop_unrolling,remove_mutation,cse,dce",
};

typedef struct variant {
  graph_text graph;
  const char *passes;
} variant;

static void define_variant(session *s, void *arg)
{
  variant *v = arg;

  define_graph(s, &v->graph);
  if (v->passes[0])
    pass_run_by_name(s, v->graph.f->graph, v->passes);
  ir_verify(s, v->graph.f->graph, v->passes);
}

static rush_tensor *four(call_ctx *cx, int64_t from)
{
  const int64_t n = 4;
  rush_tensor *t = NULL;

  assert_int_equal(tensor_new(cx, RUSH_FLOAT32, 1, &n, &t), RUSH_OK);
  for (int64_t i = 0; i < n; i++)
    tensor_set(t, i, value_float((double)(from + i) * 0.5));
  return t;
}

static void make_arguments(call_ctx *cx, uint64_t way, rush_value *args)
{
  rush_list *l;
  rush_dict *d;
  rush_value key;
  rush_tensor *x = four(cx, -3), *y = way & 1 ? tensor_retain(x) : four(cx, 2);

  assert_int_equal(list_new(cx, type_simple(TYPE_TENSOR), 2, &l), RUSH_OK);
  l->items[l->n++] = value_tensor_steal(way & 1 ? tensor_retain(y) : four(cx, 5));
  l->items[l->n++] = value_tensor_steal(four(cx, -7));
  assert_int_equal(dict_new(cx, type_simple(TYPE_STRING), type_simple(TYPE_TENSOR), &d), RUSH_OK);
  assert_int_equal(string_new(cx, "a", 1, &key), RUSH_OK);
  assert_int_equal(dict_set_steal(cx, d, key, value_tensor_steal(four(cx, 1))), RUSH_OK);
  args[0] = value_heap_steal(RUSH_TAG_LIST, l);
  args[1] = value_tensor_steal(x);
  args[2] = value_tensor_steal(y);
  args[3] = value_heap_steal(RUSH_TAG_DICT, d);
  args[4] = value_bool(way & 2);
  args[5] = value_bool(way & 4);
}

static void drop_arguments(rush_value *args)
{
  for (int i = 0; i < 4; i++)
    value_release(args[i]);
}

/* Return result and arguments, or the error, as text: equal for graphs of the same meaning. */
static void run_text(call_ctx *cx, function *f, uint64_t way, text_buf *out)
{
  rush_value args[6], result = value_none();

  text_clear(out);
  make_arguments(cx, way, args);
  if (function_call(cx, f, args, 6, &result) != RUSH_OK)
    text_printf(out, "error: %s", cx->err->message);
  else
    assert_int_equal(value_repr(cx, out, result), RUSH_OK);
  for (int i = 0; i < 4; i++) {
    text_puts(out, "\n");
    assert_int_equal(value_repr(cx, out, args[i]), RUSH_OK);
  }
  rush_error_clear(cx->err);
  value_release(result);
  drop_arguments(args);
}

static void compare_passes(call_ctx *cx, const job *j, program *p, uint64_t way)
{
  text_buf first, other;

  text_init(&first, cx->ctx);
  text_init(&other, cx->ctx);
  for (size_t i = 0; i < COUNT_OF(pass_lists); i++) {
    char name[24];
    snprintf(name, sizeof name, "variant%zu", i);
    variant v = {.graph = {.name = name, .text = j->text, .p = p}, .passes = pass_lists[i]};
    if (session_run(cx, define_variant, &v) != RUSH_OK)
      fail_msg("seed %llu, %s: %s\n%s", (unsigned long long)j->seed, pass_lists[i],
               cx->err->message, j->text);
    v.graph.f->state = FUNCTION_COMPILED;
    run_text(cx, v.graph.f, way, i ? &other : &first);
    if (i && strcmp(text_str(&first), text_str(&other)) != 0)
      fail_msg("seed %llu: after %s the graph gives\n%s\ninstead of\n%s\n%s",
               (unsigned long long)j->seed, pass_lists[i], text_str(&other), text_str(&first),
               j->text);
  }
  text_free(&first);
  text_free(&other);
}

/* -- One seed ---------------------------------------------------------------------------------- */

static function *define(call_ctx *cx, program **p, const char *name, const char *text)
{
  graph_text g = {.name = name, .text = text, .p = *p};

  if (session_run(cx, define_graph, &g) != RUSH_OK)
    fail_msg("%s\n%s", cx->err->message, text);
  g.f->state = FUNCTION_COMPILED;
  *p = g.p;
  return g.f;
}

/* True if a run changes memory that the function's first argument reaches. */
static void check_state(call_ctx *cx, const job *j, function *f, uint64_t way)
{
  text_buf before, after;
  rush_value args[6], result = value_none();

  text_init(&before, cx->ctx);
  text_init(&after, cx->ctx);
  make_arguments(cx, way & ~UINT64_C(1), args);
  assert_int_equal(value_repr(cx, &before, args[0]), RUSH_OK);
  const bool ran = function_call(cx, f, args, 6, &result) == RUSH_OK;
  assert_int_equal(value_repr(cx, &after, args[0]), RUSH_OK);
  if (ran && strcmp(text_str(&before), text_str(&after)) != 0 &&
      !function_changes_state(cx, f, false))
    WRONG("%s", "the first argument changes, and no state is said to");
  rush_error_clear(cx->err);
  value_release(result);
  drop_arguments(args);
  text_free(&before);
  text_free(&after);
}

static void one_seed(call_ctx *cx, uint64_t seed)
{
  text_buf text;
  program *p = NULL;
  maker m = {.out = &text, .seed = seed * UINT64_C(0x9e3779b97f4a7c15)};
  job j = {.seed = seed, .same_arguments = seed & 1};
  rush_value args[6];
  char name[8];

  text_init(&text, cx->ctx);
  for (uint32_t i = 0; i < 2; i++) {
    text_clear(&text);
    make_graph(&m, 4, true);
    snprintf(name, sizeof name, "g%u", i);
    function *f = define(cx, &p, name, text_str(&text));
    j.text = text_str(&text);
    check_state(cx, &j, f, seed);
    m.n_callees++;
  }
  text_clear(&text);
  make_graph(&m, 6 + below(&m, 20), false);
  j.text = text_str(&text);
  j.f = define(cx, &p, "f", j.text);
  check_state(cx, &j, (function *)(uintptr_t)j.f, seed);
  make_arguments(cx, seed, args);
  j.args = args;
  if (session_run(cx, watch, &j) != RUSH_OK)
    fail_msg("seed %llu: %s\n%s", (unsigned long long)seed, cx->err->message, j.text);
  drop_arguments(args);
  compare_passes(cx, &j, p, seed);
  program_release(p);
  text_free(&text);
}

static void random_graphs_run_as_analysed(void **state)
{
  const context_options opt = {.n_threads = 1};
  const char *more = getenv("RUSH_GRAPHS");
  const uint64_t n = more ? strtoull(more, NULL, 10) : N_GRAPHS;
  context *c = test_context(&opt);
  rush_error err = RUSH_ERROR_INIT;
  call_ctx cx;

  (void)state;
  call_ctx_init(&cx, c, &err);
  assert_int_equal(run_init(c, &err), RUSH_OK);
  for (uint64_t seed = 1; seed <= n; seed++)
    one_seed(&cx, seed);
  rush_error_clear(&err);
  context_release(c);
}

int main(void)
{
  const struct CMUnitTest tests[] = {cmocka_unit_test(random_graphs_run_as_analysed)};
  return RUN_TESTS(tests);
}
