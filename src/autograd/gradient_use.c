/* autograd/gradient_use.c -- decides which programs use gradients themselves.
 *
 * The functions that one may call are searched once, depth first, and the answer is stored in the
 * function.  A call of an interface's method may be of any method of that name.  Rejected:
 * recording every call, since calls that record run operator by operator. */
#include "autograd/record.h"
#include "base/lock.h"
#include "ir/program.h"
#include "ops/table/op_keys.h"

/* True if only a recording call can run the operator; .grad and retains_grad can be read in any
 * call. */
static bool needs_records(const op *o)
{
  return o->name_key == OPN_GRAD || o->name_key == OPN_BACKWARD || o->name_key == OPN_RETAIN_GRAD;
}

typedef struct search { /* of all functions that one may call */
  session *s;
  function *first;
  table seen; /* by address */
  bool found;
} search;

static void search_function(search *q, function *f);

/* Search every method of that name, for a call of an interface's method. */
static void search_methods(search *q, const program *p, const char *name)
{
  for (const class_info *ci = p->all_classes; ci && !q->found; ci = ci->next)
    for (uint32_t i = 0; i < ci->n_methods && !q->found; i++)
      if (strcmp(ci->methods[i]->name, name) == 0)
        search_function(q, ci->methods[i]);
}

static void search_block(search *q, const ir_block *b)
{
  session_enter(q->s);
  for (const ir_node *n = ir_block_first(b); n != b->ret && !q->found; n = n->next) {
    function *callee = ir_node_callee(n);
    q->found |= n->kind == IR_OP && needs_records(n->op);
    if (callee)
      search_function(q, callee);
    else if (n->kind == IR_INTERFACE_CALL && ir_attr_string(n, "name"))
      search_methods(q, q->first->program, ir_attr_string(n, "name"));
    for (uint32_t i = 0; i < n->n_blocks; i++)
      search_block(q, n->blocks[i]);
  }
  session_leave(q->s);
}

static void search_function(search *q, function *f)
{
  const str key = address_key(f);

  session_poll(q->s);
  if (f->is_builtin || table_get(&q->seen, key))
    return;
  session_table_put(q->s, &q->seen, key, f);
  session_enter(q->s);
  function_ensure(q->s, f);
  if (f->graph)
    search_block(q, f->graph->block);
  session_leave(q->s);
}

static void search_program(session *s, void *arg)
{
  search *q = arg;

  q->s = s;
  session_table_init(s, &q->seen);
  session_lock_to_read(s, &q->first->program->lock);
  search_function(q, q->first);
}

bool function_uses_gradients(call_ctx *cx, function *f)
{
  uint8_t seen = atomic_load_explicit(&f->uses_gradients, memory_order_acquire);

  if (seen == GRADIENTS_NOT_ASKED) {
    call_ctx quiet = *cx;
    search q = {.first = f};

    quiet.err = NULL;
    const rush_status st = session_run(&quiet, search_program, &q);
    if (st == RUSH_ELIMIT || st == RUSH_ECANCELLED || st == RUSH_ENOMEM)
      return false; /* the call will report it; the next one looks again */
    seen = q.found ? GRADIENTS_USED
                   : GRADIENTS_UNUSED; /* code that cannot be compiled cannot compute gradients */
    atomic_store_explicit(&f->uses_gradients, seen, memory_order_release);
  }
  return seen == GRADIENTS_USED;
}

static void forget(rush_value v, int depth)
{
  if (v.tag == RUSH_TAG_TENSOR && v.as.tensor && v.as.tensor->h.flags & TENSOR_HAS_GRAD_FN)
    v.as.tensor->h.flags &= (uint8_t)~(TENSOR_REQUIRES_GRAD | TENSOR_HAS_GRAD_FN);
  if (depth == 0)
    return;
  if (v.tag == RUSH_TAG_LIST || v.tag == RUSH_TAG_TUPLE) {
    const rush_value *items = v.tag == RUSH_TAG_LIST ? v.as.list->items : v.as.tuple->items;
    const size_t n = v.tag == RUSH_TAG_LIST ? v.as.list->n : v.as.tuple->n;
    for (size_t i = 0; i < n; i++)
      forget(items[i], depth - 1);
  }
  size_t at = 0;
  for (dict_entry *e; v.tag == RUSH_TAG_DICT && (e = dict_next(v.as.dict, &at));)
    forget(e->value, depth - 1);
}

/* Containers nested deeper than this are left alone: their tensors keep their history. */
void autograd_forget(rush_value v) { forget(v, 8); }
