/* Pickles, and a walk over every node reached. */
#include "fuzz.h"

#include "formats/pickle.h"

typedef struct walk {
  session *s;
  bool *seen;
  uint32_t n_nodes;
} walk;

static void visit(walk *w, const pickle_node *n);

static void visit_all(walk *w, const pickle_seq *seq)
{
  for (uint32_t i = 0; i < seq->n; i++)
    visit(w, seq->at[i]);
}

static void visit(walk *w, const pickle_node *n)
{
  if (!n)
    return;
  fuzz_demand(n->id < w->n_nodes, "a node's id");
  if (w->seen[n->id])
    return;
  w->seen[n->id] = true;
  session_enter(w->s);
  if (n->kind == PICKLE_LIST || n->kind == PICKLE_TUPLE || n->kind == PICKLE_DICT)
    visit_all(w, &n->as.seq);
  if (n->kind == PICKLE_PERSID)
    visit(w, n->as.persid);
  if (n->kind == PICKLE_REDUCE || n->kind == PICKLE_OBJECT) {
    visit(w, n->as.object->callable);
    visit(w, n->as.object->args);
    visit(w, n->as.object->kwargs);
    visit(w, n->as.object->state);
    visit_all(w, &n->as.object->items);
    visit_all(w, &n->as.object->pairs);
  }
  session_leave(w->s);
}

static void fuzz_body(session *s, str text)
{
  input in = {"fuzz", text};
  pickle *p = pickle_read(s, &in, 0);
  walk w = {s, session_array(s, bool, p->n_nodes), p->n_nodes};
  visit(&w, p->root);
}
