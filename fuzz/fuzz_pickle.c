/* Pickles: the reader and a walk over every node reached; then as values, in the old format of
 * torch.save, as data of an archive, and as a program's data.pkl. */
#include "fuzz.h"

#include "archive/saved.h"
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
  fuzz_demand(pickle_kind_name(n->kind) != NULL, "a node's kind");
  if (w->seen[n->id])
    return;
  w->seen[n->id] = true;
  session_enter(w->s);
  if (n->kind == PICKLE_LIST || n->kind == PICKLE_TUPLE || n->kind == PICKLE_DICT)
    visit_all(w, &n->as.seq);
  (void)pickle_get(n, "a");
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

static void read_nodes(session *s, str text)
{
  input in = {"fuzz", text};
  pickle *p = pickle_read(s, &in, 0);
  walk w = {s, session_array(s, bool, p->n_nodes), p->n_nodes};
  visit(&w, p->root);
}

static const char class_text[] =
  "class N(Module):\n  __parameters__ = [\"w\", ]\n  w : Tensor\n  training : bool\n"
  "class Point(NamedTuple):\n  x : int\n  y : float\n"
  "class Color(Enum):\n  red = 1\n  green = 2\n"
  "class Pair:\n  x : int\n  y : List[str]\n"
  "  def __getstate__(self: __torch__.Pair) -> Tuple[int, List[str]]:\n    return (self.x, "
  "self.y)\n"
  "  def __setstate__(self: __torch__.Pair, s: Tuple[int, List[str]]) -> NoneType:\n"
  "    x, y, = s\n    self.x = x\n    self.y = y\n"
  "class M(Module):\n  __parameters__ = [\"w\", ]\n  __buffers__ = [\"b\", ]\n"
  "  a : int\n  f : float\n  s : str\n  t : Optional[Tensor]\n  li : List[int]\n  lt : "
  "List[Tensor]\n"
  "  d : Dict[str, List[int]]\n  tu : Tuple[int, str]\n  n : __torch__.N\n  p : __torch__.Pair\n"
  "  c : __torch__.Color\n  np : __torch__.Point\n  w : Tensor\n  b : Tensor\n  dev : Device\n  z "
  ": complex\n"
  "  o : Optional[int]\n  any : Any\n  training : bool\n"
  "  def forward(self: __torch__.M) -> int:\n    return 1\n";
static const char floats[64] = "0123456789abcdef0123456789abcdef0123456789abcdef0123456789abcde";

static void body(session *s, str text)
{
  const fuzz_record defaults[] = {{"code/__torch__.py", {class_text, sizeof class_text - 1}},
                                  {"constants.pkl", STR("\x80\2).")},
                                  {"version", STR("3\n")},
                                  {"byteorder", STR("little")},
                                  {"data/0", {floats, sizeof floats}},
                                  {"data/1", {floats, sizeof floats}}};
  str main = fuzz_main(text);

  if (saved_looks_like(main.p, main.len)) {
    fuzz_use_value(s, main, "fuzz.pkl");
    return;
  }
  read_nodes(s, main);
  str packed = fuzz_pack(s, "data.pkl", text, defaults, COUNT_OF(defaults));
  rush_error err = RUSH_ERROR_INIT;
  archive_source from = {.data = packed.p, .n_bytes = packed.len, .name = "fuzz.pt"};
  call_ctx cx = *s->cx;
  rush_value v;
  cx.err = &err;
  rush_status st = value_load(&cx, &from, &v);
  if (st == RUSH_OK)
    value_release(v);
  fuzz_check_error(st, &err);
  rush_error_clear(&err);
  fuzz_use_module(s, packed, "fuzz.pt", false, false);
}

int fuzz_pickle(const uint8_t *data, size_t n)
{
  fuzz_session(data, n, body);
  return 0;
}
