/* ir/print.c -- prints the text of a graph as PyTorch does. */
#include "ir/graph.h"
#include "ir/program.h"
#include "value/schema.h"
#include "tensor/sparse.h"

#include <math.h>

/* Tensors of up to this many elements are printed in full, as in PyTorch. */
#define SHOWN_ELEMS 10

typedef struct printer {
  text_buf *out;
  bool ranges;
  const ir_node **groups; /* nodes whose block prints after the graph, as PyTorch's subgraphs */
  uint32_t n_groups, cap_groups;
  bool alone; /* one node: its subgraph is an attribute, as in PyTorch */
  struct
    callee { /* functions that the graph being printed calls: PyTorch has a constant for each */
    const function *f;
    uint32_t id, at; /* its number; the number of nodes before it */
    uint32_t origin; /* of the first call */
  } * callees;
  uint32_t n_callees, cap_callees,
    n_made; /* n_made: numbers given so far, over all graphs of the text */
} printer;

static void print_block_nodes(printer *p, const ir_block *b, int level);

/* -- Scalars and strings ----------------------------------------------------------------------- */

void ir_print_float(text_buf *out, double d)
{
  int c = fpclassify(d);

  if ((c == FP_NORMAL || c == FP_ZERO) && fabs(d) < 1e10 && (double)(int64_t)d == d) {
    if (d == 0 && signbit(d))
      text_putc(out, '-');
    text_printf(out, "%lld.", (long long)d);
  } else if (c == FP_NAN) {
    text_puts(out, "nan");
  } else {
    text_printf(out, "%.17g", d);
  }
}

static void print_complex(text_buf *out, rush_value v)
{
  const complex_box *z = value_complex(v);

  ir_print_float(out, z->re);
  if (!signbit(z->im))
    text_putc(out, '+');
  ir_print_float(out, z->im);
  text_putc(out, 'j');
}

/* -- Constants --------------------------------------------------------------------------------- */

static void print_with_cx(text_buf *out, rush_value v)
{
  call_ctx cx;
  text_buf t;

  call_ctx_init(&cx, out->ctx, NULL);
  text_init(&t, out->ctx);
  rush_status st = value_print(&cx, &t, v);
  if (st == RUSH_ENOMEM || text_failed(&t))
    out->failed = true;
  else if (st != RUSH_OK)
    text_puts(&t, "<?>");
  for (size_t i = 0; i < t.len; i++)
    text_putc(out, t.data[i] == '\n' ? ' ' : t.data[i]);
  text_free(&t);
}

static void print_number(text_buf *out, rush_value v)
{
  switch (v.tag) {
  case RUSH_TAG_FLOAT: ir_print_float(out, v.as.d); break;
  case RUSH_TAG_COMPLEX: print_complex(out, v); break;
  default: text_printf(out, "%lld", (long long)v.as.i);
  }
}

static void print_tensor(text_buf *out, const rush_tensor *t)
{
  rush_value item;
  call_ctx cx;

  if (t && t->n_elems == 1 && !tensor_quantizer(t) && !tensor_sparse(t)) {
    call_ctx_init(&cx, out->ctx, NULL);
    text_putc(out, '{');
    if (tensor_item(&cx, t, &item) != RUSH_OK) {
      out->failed = true;
    } else {
      if (item.tag == RUSH_TAG_FLOAT && fabs(item.as.d) < 1e10 && item.as.d == floor(item.as.d))
        text_printf(out, "%lld", (long long)item.as.d);
      else if (item.tag == RUSH_TAG_FLOAT)
        text_printf(out, "%.6g", item.as.d);
      else
        print_number(out, item);
      value_release(item);
    }
    text_putc(out, '}');
  } else if (t && t->n_elems <= SHOWN_ELEMS && !tensor_sparse(t)) {
    print_with_cx(out, (rush_value){.tag = RUSH_TAG_TENSOR, .as.tensor = (rush_tensor *)t});
  } else {
    text_puts(out, "<Tensor>");
  }
}

static void print_value(text_buf *out, rush_value v, int depth);

static void print_items(text_buf *out, const rush_value *items, size_t n, int depth)
{
  for (size_t i = 0; i < n; i++) {
    text_puts(out, i ? ", " : "");
    print_value(out, items[i], depth + 1);
  }
}

static void print_dict(text_buf *out, const rush_dict *d, int depth)
{
  size_t pos = 0;
  bool first = true;

  text_putc(out, '{');
  for (dict_entry *e; (e = dict_next(d, &pos)); first = false) {
    text_puts(out, first ? "" : ", ");
    print_value(out, e->key, depth + 1);
    text_puts(out, ": ");
    print_value(out, e->value, depth + 1);
  }
  text_putc(out, '}');
}

/* Print annotate(List[float], []): an empty list has no item that shows its type. */
static void print_empty_list(text_buf *out, const type *elem)
{
  text_puts(out, "annotate(List[");
  type_print_annotation(out, elem);
  text_puts(out, "], [])");
}

static void print_empty_dict(text_buf *out, const rush_dict *d)
{
  text_puts(out, "annotate(Dict[");
  type_print_annotation(out, d->key);
  text_puts(out, ", ");
  type_print_annotation(out, d->value);
  text_puts(out, "],{})");
}

static void print_list(text_buf *out, const rush_list *l, int depth)
{
  if (type_is(type_runtime(l->elem), TYPE_TENSOR)) {
    text_puts(out, "[<Tensors>]"); /* empty ones too */
  } else if (l->n == 0) {
    print_empty_list(out, l->elem);
  } else {
    text_putc(out, '[');
    print_items(out, l->items, l->n, depth);
    text_putc(out, ']');
  }
}

/* Print a container or an item of one: Python's words for booleans and None. */
static void print_value(text_buf *out, rush_value v, int depth)
{
  if (depth > 20) {
    text_puts(out, "...");
    return;
  }
  switch ((rush_tag)v.tag) {
  case RUSH_TAG_NONE: text_puts(out, "None"); break;
  case RUSH_TAG_BOOL: text_puts(out, v.as.b ? "True" : "False"); break;
  case RUSH_TAG_INT:
  case RUSH_TAG_FLOAT:
  case RUSH_TAG_COMPLEX: print_number(out, v); break;
  case RUSH_TAG_STRING: schema_print_quoted(out, value_str(v)); break;
  case RUSH_TAG_LIST: print_list(out, v.as.list, depth); break;
  case RUSH_TAG_TUPLE:
    text_putc(out, '(');
    print_items(out, v.as.tuple->items, v.as.tuple->n, depth);
    text_puts(out, v.as.tuple->n == 1 ? ",)" : ")");
    break;
  case RUSH_TAG_DICT:
    if (v.as.dict->n == 0)
      print_empty_dict(out, v.as.dict);
    else
      print_dict(out, v.as.dict, depth);
    break;
  case RUSH_TAG_TENSOR: print_tensor(out, v.as.tensor); break;
  case RUSH_TAG_OBJECT:
    text_printf(out, "object(%s)", v.as.object->type->name);
    break;
  default: print_with_cx(out, v);
  }
}

static void print_constant(text_buf *out, rush_value v)
{
  switch ((rush_tag)v.tag) {
  case RUSH_TAG_NONE: return;
  case RUSH_TAG_BOOL: text_printf(out, "[value=%d]", v.as.b ? 1 : 0); return;
  case RUSH_TAG_DEVICE:
    text_puts(out, "[value=\"");
    print_with_cx(out, v);
    text_puts(out, "\"]");
    return;
  default:
    text_puts(out, "[value=");
    print_value(out, v, 0);
    text_putc(out, ']');
  }
}

/* -- Types ------------------------------------------------------------------------------------- */

/* Print a type as in graphs, which differs from schemas: Future[int], NamedTuple(x : int),
 * InterfaceType<I>. */
static void print_type(text_buf *out, const type *t)
{
  const char *dot = t->name ? strrchr(t->name, '.') : NULL;

  switch (t->kind) {
  case TYPE_LIST:
    print_type(out, type_elem(t));
    text_puts(out, "[]");
    break;
  case TYPE_OPTIONAL:
    print_type(out, type_elem(t));
    text_putc(out, '?');
    break;
  case TYPE_FUTURE:
    text_puts(out, "Future[");
    print_type(out, type_elem(t));
    text_putc(out, ']');
    break;
  case TYPE_TUPLE:
    text_puts(out, t->fields ? "NamedTuple(" : "(");
    for (uint32_t i = 0; i < t->n_elems; i++) {
      text_printf(out, "%s%s%s", i ? ", " : "", t->fields ? t->fields[i] : "",
                  t->fields ? " : " : "");
      print_type(out, t->elems[i]);
    }
    text_putc(out, ')');
    break;
  case TYPE_TENSOR: text_puts(out, t->name ? t->name : "Tensor"); break; /* ir/facts.h */
  case TYPE_ENUM: text_printf(out, "Enum<%s>", t->name); break;
  case TYPE_INTERFACE: text_printf(out, "InterfaceType<%s>", dot ? dot + 1 : t->name); break;
  default: type_print(out, t);
  }
}

/* -- Attributes -------------------------------------------------------------------------------- */

static void print_attr(text_buf *out, const ir_attr *a)
{
  switch (a->kind) {
  case ATTR_INT: text_printf(out, "%lld", (long long)a->as.i); break;
  case ATTR_FLOAT: ir_print_float(out, a->as.d); break;
  case ATTR_STRING: schema_print_quoted(out, str_of(a->as.s)); break;
  case ATTR_TYPE: print_type(out, a->as.t.types[0]); break;
  case ATTR_TYPES:
    text_putc(out, '[');
    for (uint32_t i = 0; i < a->as.t.n_types; i++) {
      text_puts(out, i ? ", " : "");
      print_type(out, a->as.t.types[i]);
    }
    text_putc(out, ']');
    break;
  case ATTR_INTS:
    if (a->as.ints.n == 0) {
      print_empty_list(out, type_simple(TYPE_INT));
      break;
    }
    text_putc(out, '[');
    for (uint32_t i = 0; i < a->as.ints.n; i++)
      text_printf(out, "%s%lld", i ? ", " : "", (long long)a->as.ints.v[i]);
    text_putc(out, ']');
    break;
  case ATTR_VALUE: print_value(out, a->as.value, 0); break;
  case ATTR_GRAPH: text_puts(out, "<Graph>"); break;
  case ATTR_GRAPHS: text_puts(out, "[<Graphs>]"); break;
  }
}

/* Print the attributes; `apart`: without the subgraphs, which are printed after the graph.  Of a
 * prim::DifferentiableGraph PyTorch prints none, and so do we unless its gradient is packed. */
static void print_attrs(text_buf *out, const ir_node *n, bool apart)
{
  bool named = n->kind == IR_HIGHER_ORDER; /* "name" is the kind */
  const char *open = "[";

  const bool packed = ir_node_is_packed(n);

  if (apart && n->kind == IR_DIFFERENTIABLE_GRAPH && !packed)
    return;
  if (!apart && ir_node_is_subgraph(n)) {
    text_puts(out, "[Subgraph=<Graph>");
    open = ", ";
  }
  if (n->function && n->kind != IR_CALL_FUNCTION) {
    text_printf(out, "[name=\"%s\"", n->function->qualified);
    open = ", ";
  }
  for (const ir_attr *a = n->attrs; a; a = a->next) {
    if (a->name[0] == '_' || ((named || n->function) && strcmp(a->name, "name") == 0))
      continue; /* _x: ours, between passes */
    if (apart && a->kind == ATTR_GRAPH &&
        (strcmp(a->name, "Subgraph") == 0 || (packed && strcmp(a->name, "ReverseSubgraph") == 0)))
      continue;
    text_printf(out, "%s%s=", open, a->name);
    print_attr(out, a);
    open = ", ";
  }
  if (*open == ',')
    text_putc(out, ']');
}

/* -- Values, nodes, blocks --------------------------------------------------------------------- */

static void print_name(text_buf *out, const ir_value *v)
{
  if (!v)
    text_puts(out, "%<unset>");
  else if (v->name)
    text_printf(out, "%%%s", v->name);
  else
    text_printf(out, "%%%u", v->id);
}

/* Print the type of a value; a constant tensor's type in full, though we store only "Tensor". */
static void print_type_of(text_buf *out, const ir_value *v)
{
  rush_value c;

  if (!v->type) { /* the verifier shows what is broken */
    text_puts(out, "<no type>");
    return;
  }
  if (!type_is(v->type, TYPE_TENSOR) || !ir_value_as_constant(v, &c) ||
      c.tag != RUSH_TAG_TENSOR || !c.as.tensor) {
    print_type(out, v->type);
    return;
  }
  const rush_tensor *t = c.as.tensor;

  text_printf(out, "%s(", dtype_aten_name(t->dtype));
  for (int i = 0; i < t->n_dims; i++)
    text_printf(out, "%lld, ", (long long)t->sizes[i]);
  const int n_strides = tensor_sparse(t) ? 0 : t->n_dims;
  for (int i = 0; i < n_strides; i++)
    text_printf(out, "%s%lld", i ? ", " : "strides=[", (long long)t->strides[i]);
  text_printf(out, "%srequires_grad=%d, device=cpu)", n_strides ? "], " : "",
              tensor_requires_grad(t));
}

static void print_typed(text_buf *out, ir_value *const *values, uint32_t n, const char *delim)
{
  for (uint32_t i = 0; i < n; i++) {
    text_puts(out, i ? delim : "");
    print_name(out, values[i]);
    text_puts(out, " : ");
    print_type_of(out, values[i]);
  }
}

static const struct callee *callee_of(const printer *p, const ir_node *n)
{
  for (uint32_t i = 0; i < p->n_callees && n->kind == IR_CALL_FUNCTION; i++)
    if (p->callees[i].f == n->function)
      return &p->callees[i];
  return NULL;
}

static void print_inputs(const printer *p, const ir_node *n)
{
  text_buf *out = p->out;
  const struct callee *c = callee_of(p, n);

  text_putc(out, '(');
  if (c)
    text_printf(out, "%%%u%s", c->id, n->n_inputs ? ", " : "");
  for (uint32_t i = 0; i < n->n_inputs; i++) {
    text_puts(out, i ? ", " : "");
    print_name(out, ir_node_input(n, i));
  }
  text_putc(out, ')');
}

static void indent(text_buf *out, int level)
{
  for (; level > 0; level--)
    text_puts(out, "  ");
}

static void print_range(text_buf *out, const source_range *r)
{
  uint32_t line, column;

  if (!r->src || !r->src->name)
    return;
  source_position(r->src, r->start, &line, &column);
  text_printf(out, " # %s:%u:%u", r->src->name, line, column - 1);
}

static bool inside(const ir_block *b, const ir_block *around)
{
  for (; b; b = b->owner ? b->owner->block : NULL)
    if (b == around)
      return true;
  return false;
}

static bool captures(const ir_block *b, const ir_block *around)
{
  for (const ir_node *n = ir_block_first(b);; n = n->next) {
    for (uint32_t i = 0; i < n->n_inputs; i++)
      if (ir_node_input(n, i) && !inside(ir_node_input(n, i)->node->block, around))
        return true;
    for (uint32_t i = 0; i < n->n_blocks; i++)
      if (captures(n->blocks[i], around))
        return true;
    if (n == b->ret)
      return false;
  }
}

bool ir_node_is_subgraph(const ir_node *n)
{
  return ir_node_has_subgraph_block(n) && n->n_blocks == 1 &&
         ir_block_n_inputs(n->blocks[0]) == n->n_inputs && !captures(n->blocks[0], n->blocks[0]);
}

bool ir_node_is_packed(const ir_node *n)
{
  return n->kind == IR_DIFFERENTIABLE_GRAPH && ir_attr_find(n, "f_real_outputs") &&
         ir_attr_graph(n, "ReverseSubgraph");
}

/* -- Functions that are called ----------------------------------------------------------------- */

/* Return the position of a callee's constant: that of the text it was parsed from, else PyTorch's,
 * before everything made earlier. */
static uint32_t place_of_callee(const ir_block *b, const ir_node *call)
{
  const ir_attr *a = ir_attr_find(call, "_at");
  uint32_t at = 0;

  if (a)
    return (uint32_t)a->as.i;
  for (const ir_node *n = ir_block_first(b); n->kind == IR_CONSTANT && n->origin > call->origin;
       n = n->next)
    at++;
  return at;
}

static void add_callee(printer *p, const ir_block *b, const ir_node *n)
{
  const ir_attr *id = ir_attr_find(n, "_fn");

  if (callee_of(p, n))
    return;
  if (p->n_callees == p->cap_callees) {
    uint32_t cap = p->cap_callees ? p->cap_callees * 2 : 4;
    struct callee *fresh =
      mem_realloc(p->out->ctx, p->callees, p->cap_callees * sizeof *fresh, cap * sizeof *fresh);
    if (!fresh) {
      p->out->failed = true;
      return;
    }
    p->callees = fresh;
    p->cap_callees = cap;
  }
  struct callee c = {n->function, id ? (uint32_t)id->as.i : n->graph->next_id + p->n_made++,
                     place_of_callee(b, n), n->origin};
  uint32_t i = p->n_callees++;

  for (; i > 0 && (p->callees[i - 1].at > c.at ||
                   (p->callees[i - 1].at == c.at && p->callees[i - 1].origin < c.origin));
       i--)
    p->callees[i] = p->callees[i - 1];
  p->callees[i] = c;
}

static void find_callees(printer *p, const ir_block *top, const ir_block *b)
{
  for (const ir_node *n = ir_block_first(b); n != b->ret; n = n->next) {
    if (n->kind == IR_CALL_FUNCTION && n->function)
      add_callee(p, top, n);
    for (uint32_t i = 0; i < n->n_blocks && !ir_node_is_subgraph(n); i++)
      find_callees(p, top, n->blocks[i]);
  }
}

/* Return the function's own name, or the qualified one if its own is ambiguous. */
static const char *callee_name(const function *f)
{
  for (const function *o = f->program->all_functions; o; o = o->next)
    if (o != f && !o->self && strcmp(o->name, f->name) == 0)
      return f->qualified;
  return f->self ? f->qualified : f->name;
}

static void print_callees(printer *p, uint32_t at, bool last)
{
  for (uint32_t i = 0; i < p->n_callees; i++)
    if (p->callees[i].at == at || (last && p->callees[i].at > at)) {
      indent(p->out, 1);
      text_printf(p->out, "%%%u : Function = prim::Constant[name=\"%s\"]()\n", p->callees[i].id,
                  callee_name(p->callees[i].f));
    }
}

/* Add the group to the list; returns false if memory runs out (the text has failed then). */
static bool add_group(printer *p, const ir_node *n)
{
  if (p->n_groups == p->cap_groups) {
    uint32_t cap = p->cap_groups ? p->cap_groups * 2 : 4;
    const ir_node **fresh = mem_realloc(p->out->ctx, p->groups, p->cap_groups * sizeof *fresh,
                                        cap * sizeof *fresh);
    if (!fresh) {
      p->out->failed = true;
      return false;
    }
    p->groups = fresh;
    p->cap_groups = cap;
  }
  p->groups[p->n_groups++] = n;
  return true;
}

static const char *or_empty(const char *text) { return text ? text : ""; }

static void print_node(printer *p, const ir_node *n, int level)
{
  text_buf *out = p->out;

  indent(out, level);
  print_typed(out, n->outputs, n->n_outputs, ", ");
  text_printf(out, " = %s", ir_node_kind_name(n));
  bool block = ir_node_is_subgraph(n);
  bool group = !p->alone && (block || ir_attr_graph(n, "Subgraph")) && add_group(p, n);

  if (group)
    text_printf(out, "_%u", p->n_groups - 1);
  if (n->kind == IR_CONSTANT && n->constant < n->graph->n_constants)
    print_constant(out, ir_constant_value(n));
  if (ir_node_is_of_host(n)) /* the host's, with its arguments that are not values */
    text_printf(out, "[%s](%s)", or_empty(ir_attr_string(n, "_attrs")),
                or_empty(ir_attr_string(n, "_scalars")));
  else
    print_attrs(out, n, group);
  print_inputs(p, n);
  if (n->scope)
    text_printf(out, ", scope: %s", n->scope);
  if (p->ranges && n->kind != IR_GET_ATTR &&
      n->kind != IR_SET_ATTR) /* PyTorch has no place for these */
    print_range(out, &n->range);
  text_putc(out, '\n');
  for (uint32_t i = 0; i < n->n_blocks && !block; i++) {
    const ir_block *b = n->blocks[i];

    indent(out, level + 1);
    text_printf(out, "block%u(", i);
    print_typed(out, b->param->outputs, b->param->n_outputs, ", ");
    text_puts(out, "):\n");
    print_block_nodes(p, b, level + 2);
    indent(out, level + 2);
    text_puts(out, "-> ");
    print_inputs(p, b->ret);
    text_putc(out, '\n');
  }
}

static void print_block_nodes(printer *p, const ir_block *b, int level)
{
  for (const ir_node *n = ir_block_first(b); n != b->ret; n = n->next)
    print_node(p, n, level);
}

static void print_graph_block(printer *p, const ir_block *b)
{
  text_puts(p->out, "graph(");
  print_typed(p->out, b->param->outputs, b->param->n_outputs, ",\n      ");
  text_puts(p->out, "):\n");
  p->n_callees = 0;
  find_callees(p, b, b);
  uint32_t i = 0;
  for (const ir_node *n = ir_block_first(b); n != b->ret; n = n->next) {
    if (p->n_callees)
      print_callees(p, i++, false);
    print_node(p, n, 1);
  }
  print_callees(p, i, true);
  text_puts(p->out, "  return ");
  print_inputs(p, b->ret);
  text_putc(p->out, '\n');
}

static void free_printer(printer *p)
{
  if (p->groups)
    mem_free(p->out->ctx, p->groups, p->cap_groups * sizeof *p->groups);
  if (p->callees)
    mem_free(p->out->ctx, p->callees, p->cap_callees * sizeof *p->callees);
}

/* Print the graph and then its subgraphs, each with its own, whose numbers begin at 0 again. */
static void print_whole(const printer *like, uint32_t *n_made, const ir_block *b)
{
  printer p = {.out = like->out, .ranges = like->ranges, .n_made = *n_made};

  print_graph_block(&p, b);
  *n_made = p.n_made;
  for (uint32_t i = 0; i < p.n_groups; i++) {
    if (ir_node_is_packed(p.groups[i])) {
      text_printf(p.out, "with %s_%u.ReverseSubgraph = ", ir_node_kind_name(p.groups[i]), i);
      print_whole(&p, n_made, ir_attr_graph(p.groups[i], "ReverseSubgraph")->block);
    }
    text_printf(p.out, "with %s_%u = ", ir_node_kind_name(p.groups[i]), i);
    print_whole(&p, n_made, ir_node_subgraph(p.groups[i]));
  }
  free_printer(&p);
}

void ir_print(text_buf *out, const ir_graph *g, bool with_ranges)
{
  const printer p = {.out = out, .ranges = with_ranges};
  uint32_t n_made = 0;

  print_whole(&p, &n_made, g->block);
}

void ir_print_node(text_buf *out, const ir_node *n) { ir_print_node_with(out, n, false); }

void ir_print_node_with(text_buf *out, const ir_node *n, bool with_ranges)
{
  printer p = {.out = out, .ranges = with_ranges, .alone = true};

  if (n->kind == IR_CALL_FUNCTION && n->function && n->block)
    add_callee(&p, n->graph->block, n);
  print_node(&p, n, 0);
  free_printer(&p);
}
