/* show/check.c -- verifies every graph that a module's methods reach: as it is in the program, and
 * as passes leave it for running; of an exported program first the program itself, by its rules.
 *
 * A worklist over callees; a function that fails is reported and the next one checked.  Cost: that
 * of compiling everything. */
#include "archive/exported_program.h"
#include "archive/exported_read.h"
#include "module/module.h"
#include "show/show.h"
#include "passes/passes.h"

typedef struct checker {
  session *s;
  text_buf *out;
  /* qualified name -> function; entries after the current one are still to be checked */
  table seen;
  const function *f; /* that one */
  text_buf *lacks;   /* operators of f that cannot run here */
} checker;

static void add_function(checker *k, session *s, function *f)
{
  if (!table_get(&k->seen, str_of(f->qualified)) && !table_put(&k->seen, str_of(f->qualified), f))
    session_check(s, call_nomem(s->cx));
}

static void add_lack(checker *k, const ir_node *n)
{
  uint32_t line = 0, column = 0;

  text_printf(k->lacks, "%s: ", k->f->qualified);
  if (n->range.src) {
    source_position(n->range.src, n->range.start, &line, &column);
    text_printf(k->lacks, "%s:%u: ", n->range.src->name, line);
  }
  text_printf(k->lacks, "there is no operator %s that can run\n", ir_node_kind_name(n));
}

static void look_inside(checker *k, session *s, const ir_block *b)
{
  session_enter(s);
  for (const ir_node *n = ir_block_first(b); n != b->ret; n = n->next) {
    function *callee = ir_node_callee(n);

    if (callee)
      add_function(k, s, callee);
    if (n->kind == IR_UNKNOWN_OP || (n->kind == IR_OP && !code_runs_op(n->op)))
      add_lack(k, n);
    for (uint32_t i = 0; i < n->n_blocks; i++)
      look_inside(k, s, n->blocks[i]);
  }
  session_leave(s);
}

static void check_body(session *s, void *arg)
{
  checker *k = arg;
  function *f = (function *)k->f;

  function_ensure(s, f);
  if (!f->graph)
    return;
  ir_verify(s, f->graph, NULL);
  look_inside(k, s, f->graph->block);
  if (!passes_wanted(s->cx->ctx))
    return;
  session_lock_to_read(s, &f->program->lock);
  ir_graph *runs = passes_run(s, f, NULL, false, NULL);
  session_defer(s, ir_graph_free_deferred, runs);
  ir_verify(s, runs, "the passes");
}

/* True if the function is at fault, not a limit. */
static bool is_fault(rush_status st)
{
  return st == RUSH_ERAISED || st == RUSH_EUNSUPPORTED || st == RUSH_EARGUMENT ||
         st == RUSH_EFORMAT || st == RUSH_EINTERNAL;
}

void show_faults(session *s, module *m, text_buf *out)
{
  const class_info *cls = m->object.as.object->type->cls;
  checker *k = session_new(s, checker);

  k->s = s;
  k->out = out;
  session_table_init(s, &k->seen);
  k->lacks = session_text(s);
  if (m->archive)
    exported_faults(s, m->archive, exported_of_module(s, m), NULL, out);
  for (uint32_t i = 0; i < cls->n_methods; i++)
    add_function(k, s, cls->methods[i]);
  for (uint32_t i = 0; i < k->seen.n; i++) {
    rush_error err = RUSH_ERROR_INIT, *outer = s->cx->err;

    k->f = k->seen.entries[i].value;
    s->cx->err = &err;
    rush_status st = session_run(s->cx, check_body, k);
    s->cx->err = outer;
    if (st != RUSH_OK && !is_fault(st)) {
      if (outer)
        error_move(outer, &err);
      session_check(s, st);
    }
    if (st != RUSH_OK)
      text_printf(out, "%s: %s\n", k->f->qualified, err.message);
    rush_error_clear(&err);
    text_puts(out, text_str(k->lacks));
    text_clear(k->lacks);
  }
}
