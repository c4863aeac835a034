/* passes/freeze_object.c -- freezes a module's object (freeze_object.h lists the steps).
 *
 * Attributes are followed from the methods' `self` through prim::GetAttr; the alias analysis finds
 * which are written.  Constants are inserted in PyTorch's order, so that graphs can be compared. */
#include "passes/freeze_object.h"

#include <stdio.h>

#include "ir/alias.h"
#include "ops/table/op_keys.h"
#include "passes/passes_int.h"
#include "tensor/sparse.h"

enum slot_flags {
  SLOT_SET = 1,    /* a method sets it */
  SLOT_WRITTEN = 2, /* its memory is written to */
  SLOT_KEPT = 4,   /* preserved */
  SLOT_USED = 8    /* some frozen graph names it */
};

/* An object of a module (objects of script classes are plain values). */
typedef struct frozen {
  rush_object *object;
  struct frozen *parent; /* the first that led here; NULL: the root */
  const char *name;      /* its attribute there */
  const char *path;      /* "self.conv" */
  uint8_t *slots;        /* slot_flags */
  bool whole;            /* stays as it is: its uses are not followed */
  const type *type;      /* the new class, when made */
  rush_value made;       /* RUSH_TAG_NONE: not yet */
  struct frozen *next;
} frozen;

typedef struct method {
  frozen *self;
  function *f;
  ir_graph *g;
  struct leaf *leaves; /* attributes that are inputs of g after its own */
  table objects;       /* value of g -> frozen */
  struct method *next;
} method;

typedef struct leaf {
  frozen *of;
  uint32_t slot;
  ir_value *param;
  struct leaf *next;
} leaf;

typedef struct freezer {
  session *s;
  frozen *objects; /* newest first */
  table by_object; /* object -> frozen */
  method *methods; /* in order */
  table written;   /* containers that are written to */
  struct piece *pieces; /* of memory that is written to */
} freezer;

typedef struct piece { /* the storages of two tensors of PyTorch's may overlap */
  const char *from, *to;
  struct piece *next;
} piece;

/* -- Objects ----------------------------------------------------------------------------------- */

static const class_info *class_of(const frozen *f) { return f->object->type->cls; }

static bool is_module(rush_value v)
{
  return v.tag == RUSH_TAG_OBJECT && v.as.object && v.as.object->type->cls &&
         v.as.object->type->cls->is_module;
}

static frozen *object_of(freezer *z, rush_object *o, frozen *parent, const char *name)
{
  frozen *f = table_get(&z->by_object, address_key(o));

  ASSERT(o->type->cls && (parent == NULL) == (name == NULL), "an attribute's object, or the root");
  if (f)
    return f;
  f = session_new(z->s, frozen);
  *f =
    (frozen){.object = o, .parent = parent, .name = name, .made = value_none(), .next = z->objects};
  f->path = parent ? session_printf(z->s, "%s.%s", parent->path, name) : "self";
  f->slots = session_array(z->s, uint8_t, class_of(f)->n_attrs);
  z->objects = f;
  session_table_put(z->s, &z->by_object, address_key(o), f);
  return f;
}

static frozen *child_of(freezer *z, frozen *f, uint32_t slot)
{
  ASSERT(slot < class_of(f)->n_attrs && is_module(f->object->slots[slot]), "a module's attribute");
  return object_of(z, f->object->slots[slot].as.object, f, class_of(f)->attrs[slot].name);
}

static void keep_whole(freezer *z, frozen *f)
{
  if (f->whole)
    return;
  f->whole = true;
  session_enter(z->s);
  for (uint32_t i = 0; i < class_of(f)->n_attrs; i++)
    if (is_module(f->object->slots[i]))
      keep_whole(z, child_of(z, f, i));
  session_leave(z->s);
}

/* -- Following modules through a graph --------------------------------------------------------- */

typedef struct walk {
  freezer *z;
  method *m;
  void (*leaf)(struct walk *w, ir_node *n, frozen *of, uint32_t slot); /* a GetAttr of no module */
  /* constants are inserted before this node in the order in which they are found, as in PyTorch */
  ir_node *first;
  bool only_looks,
    sees_class; /* a use of a module decides nothing yet; a module behind an interface was found */
} walk;

static frozen *tracked(const method *m, const ir_value *v)
{
  return table_get(&m->objects, address_key(v));
}

static void freeze_node(session *s, ir_node *n, void *arg)
{
  walk *w = arg;
  frozen *of = n->n_inputs ? tracked(w->m, ir_node_input(n, 0)) : NULL;
  bool attr = n->kind == IR_GET_ATTR || n->kind == IR_SET_ATTR;

  for (uint32_t i = attr ? 1 : 0; i < n->n_inputs && !w->only_looks; i++) {
    frozen *f = tracked(w->m, ir_node_input(n, i));
    if (f)
      keep_whole(w->z, f);
  }
  if (!of || !attr)
    return;
  int slot = class_attr_index(of->object->type, str_of(ir_attr_string(n, "name")));
  if (slot < 0)
    return;
  if (n->kind == IR_SET_ATTR) {
    if (class_of(of)->attrs[slot].type->kind == TYPE_INTERFACE)
      session_fail_status(s, RUSH_ERAISED, "RuntimeError", NULL,
                          "Freezing does not support SetAttr on an interface type. "
                          "SetAttr is attempted on '%s'",
                          class_of(of)->attrs[slot].name);
    of->slots[slot] |= SLOT_SET;
  } else if (is_module(of->object->slots[slot]) && !(of->slots[slot] & SLOT_SET)) {
    frozen *f = child_of(w->z, of, (uint32_t)slot);
    session_table_put(s, &w->m->objects, address_key(n->outputs[0]), f);
    w->sees_class |= n->outputs[0]->type != f->object->type;
    n->outputs[0]->type = f->object->type; /* the object behind an interface is known now */
  } else if (w->leaf && !of->whole) {
    w->leaf(w, n, of, (uint32_t)slot);
  }
}

/* Visit in text order: a module is found before its attributes are read. */
static void walk_block(walk *w, ir_block *b)
{
  session_enter(w->z->s);
  for (ir_node *n = ir_block_first(b), *next; n != b->ret; n = next) {
    session_poll(w->z->s);
    next = n->next;
    uint32_t n_blocks = n->n_blocks;
    freeze_node(w->z->s, n, w);
    for (uint32_t i = 0; i < n_blocks; i++)
      walk_block(w, n->blocks[i]);
  }
  freeze_node(w->z->s, b->ret, w);
  session_leave(w->z->s);
}

static bool run_walk(walk *w)
{
  freezer *z = w->z;
  method *m = w->m;

  table_free(&m->objects);
  table_init(&m->objects, z->s->cx->ctx);
  session_table_put(z->s, &m->objects, address_key(ir_block_input(m->g->block, 0)), m->self);
  w->first = ir_block_first(m->g->block);
  walk_block(w, m->g->block);
  return w->sees_class;
}

static void walk_method(freezer *z, method *m, void (*leaf)(walk *, ir_node *, frozen *, uint32_t))
{
  run_walk(&(walk){.z = z, .m = m, .leaf = leaf});
}

/* Replace calls through interfaces by calls of the method itself; its own calls follow in the next
 * round. */
static void resolve_interfaces(freezer *z)
{
  for (method *m = z->methods; m; m = m->next)
    while (run_walk(&(walk){.z = z, .m = m, .only_looks = true}))
      pass_inline(z->s, m->g);
}

/* -- Numbers and texts ------------------------------------------------------------------------- */

static bool is_plain(rush_value v)
{
  return v.tag == RUSH_TAG_NONE || v.tag == RUSH_TAG_BOOL || v.tag == RUSH_TAG_INT ||
         v.tag == RUSH_TAG_FLOAT || v.tag == RUSH_TAG_COMPLEX || v.tag == RUSH_TAG_STRING ||
         v.tag == RUSH_TAG_DEVICE || v.tag == RUSH_TAG_ENUM;
}

static bool stays(const frozen *of, uint32_t slot)
{
  return of->whole || of->slots[slot] & (SLOT_SET | SLOT_WRITTEN | SLOT_KEPT);
}

static void name_constant(session *s, ir_value *c, const frozen *of, uint32_t slot)
{
  c->node->range = (source_range){0};
  ir_value_set_name(s, c, session_printf(s, "%s.%s", of->path, class_of(of)->attrs[slot].name));
}

static void fold_plain(walk *w, ir_node *n, frozen *of, uint32_t slot)
{
  rush_value v = of->object->slots[slot];

  if (!is_plain(v) || stays(of, slot))
    return;
  w->first = w->first == n ? n->next : w->first;
  ir_value *c = pass_put_constant(w->z->s, w->first, v, n->outputs[0]->type);
  name_constant(w->z->s, c, of, slot);
  pass_replace(n, &c);
}

static void fold_plain_attributes(freezer *z)
{
  for (int round = 0; round < 3; round++) {
    for (frozen *f = z->objects; f; f = f->next)
      for (uint32_t i = 0; i < class_of(f)->n_attrs; i++)
        f->slots[i] &= (uint8_t)~SLOT_SET;
    for (method *m = z->methods; m; m = m->next)
      walk_method(z, m, NULL); /* what is set */
    for (method *m = z->methods; m; m = m->next) {
      walk_method(z, m, fold_plain);
      pass_constant_propagation_immutable_types(z->s, m->g);
      pass_exact_peephole(z->s, m->g);
      pass_lower_simple_tuples(z->s, m->g);
    }
  }
}

/* -- Tensors and containers -------------------------------------------------------------------- */

static bool is_folded(rush_value v, uint32_t depth)
{
  if (v.tag == RUSH_TAG_TENSOR)
    return !v.as.tensor ||
           !tensor_is_meta(v.as.tensor); /* without data nothing can be computed of it */
  if (is_plain(v))
    return true;
  if (depth == 0)
    return false;
  if (v.tag == RUSH_TAG_LIST || v.tag == RUSH_TAG_TUPLE) {
    size_t n = v.tag == RUSH_TAG_LIST ? v.as.list->n : v.as.tuple->n;
    const rush_value *items = v.tag == RUSH_TAG_LIST ? v.as.list->items : v.as.tuple->items;
    for (size_t i = 0; i < n; i++)
      if (!is_folded(items[i], depth - 1))
        return false;
    return true;
  }
  if (v.tag == RUSH_TAG_DICT) {
    size_t pos = 0;
    for (dict_entry *e; (e = dict_next(v.as.dict, &pos));)
      if (!is_folded(e->value, depth - 1))
        return false;
    return true;
  }
  return false;
}

static void lift_leaf(walk *w, ir_node *n, frozen *of, uint32_t slot)
{
  session *s = w->z->s;
  leaf *l = w->m->leaves;

  if (stays(of, slot) || !is_folded(of->object->slots[slot], 8))
    return;
  while (l && (l->of != of || l->slot != slot))
    l = l->next;
  if (!l) {
    l = session_new(s, leaf);
    *l = (leaf){of, slot, ir_block_add_input(s, w->m->g->block, n->outputs[0]->type, NULL),
                w->m->leaves};
    w->m->leaves = l;
  }
  pass_replace(n, &l->param);
}

/* Call fn for each container and storage that v can reach, until it returns true. */
static bool any_memory(freezer *z, rush_value v,
                       bool (*fn)(freezer *z, const void *container, const storage *st))
{
  bool found = false;

  session_enter(z->s);
  if (v.tag == RUSH_TAG_TENSOR) {
    const rush_tensor *t = v.as.tensor;
    found = t && t->st &&
            (fn(z, NULL, t->st) || (tensor_sparse(t) && fn(z, NULL, tensor_sparse(t)->values->st)));
  } else if (v.tag == RUSH_TAG_LIST || v.tag == RUSH_TAG_TUPLE) {
    size_t n = v.tag == RUSH_TAG_LIST ? v.as.list->n : v.as.tuple->n;
    const rush_value *items = v.tag == RUSH_TAG_LIST ? v.as.list->items : v.as.tuple->items;
    found = fn(z, v.as.heap, NULL);
    for (size_t i = 0; i < n && !found; i++)
      found = any_memory(z, items[i], fn);
  } else if (v.tag == RUSH_TAG_DICT) {
    size_t pos = 0;
    found = fn(z, v.as.heap, NULL);
    for (dict_entry *e; !found && (e = dict_next(v.as.dict, &pos));)
      found = any_memory(z, e->value, fn);
  }
  session_leave(z->s);
  return found;
}

static bool mark_written(freezer *z, const void *container, const storage *st)
{
  if (container) {
    session_table_put(z->s, &z->written, address_key(container), z);
  } else {
    piece *p = session_new(z->s, piece);
    *p = (piece){st->data, (const char *)st->data + st->n_bytes, z->pieces};
    z->pieces = p;
  }
  return false;
}

static bool was_written(freezer *z, const void *container, const storage *st)
{
  if (container)
    return table_get(&z->written, address_key(container)) != NULL;
  const char *from = st->data, *to = from + st->n_bytes;
  for (const piece *p = z->pieces; p; p = p->next)
    if (from < p->to && p->from < to)
      return true;
  return false;
}

/* Find the attributes whose memory the methods write to.  Modules that are not analysed may write
 * to all of their attributes, and so may code that gets hold of what is kept. */
static void find_written(freezer *z)
{
  for (method *m = z->methods; m; m = m->next) {
    const alias_info *a = alias_analyse(z->s, m->g, false);
    for (leaf *l = m->leaves; l; l = l->next)
      if (alias_is_written(a, l->param))
        (void)any_memory(z, l->of->object->slots[l->slot], mark_written);
  }
  for (frozen *f = z->objects; f; f = f->next)
    for (uint32_t i = 0; i < class_of(f)->n_attrs; i++)
      if (stays(f, i))
        (void)any_memory(z, f->object->slots[i], mark_written);
}

/* Return the object's value in m's graph, read at its start. */
static ir_value *fetch(freezer *z, method *m, frozen *f, ir_node *first)
{
  if (f == m->self)
    return ir_block_input(m->g->block, 0);
  ir_value *from = fetch(z, m, f->parent, first);
  ir_node *n = pass_put_node(z->s, first, IR_GET_ATTR, &from, 1, f->object->type);

  ir_attr_set_string(z->s, n, "name", f->name);
  return n->outputs[0];
}

/* Return the value as a constant, which does not require gradients. */
static rush_value constant_of(session *s, rush_value v)
{
  rush_tensor *t;

  if (v.tag != RUSH_TAG_TENSOR || !v.as.tensor || !tensor_requires_grad(v.as.tensor))
    return v;
  session_check(s, tensor_alias(s->cx, v.as.tensor, &t));
  t->h.flags &= (uint8_t)~TENSOR_REQUIRES_GRAD;
  return pass_hold(s, value_tensor_steal(t));
}

/* Return the type of an attribute that may be None, but is not. */
static const type *constant_type(const ir_value *v)
{
  return type_is(v->type, TYPE_OPTIONAL) ? NULL : v->type;
}

static void place_leaf(freezer *z, method *m, leaf *l)
{
  session *s = z->s;
  rush_value v = l->of->object->slots[l->slot];
  ir_node *first = ir_block_first(m->g->block);
  ir_value *is;

  ASSERT(!stays(l->of, l->slot), "an attribute that the frozen object keeps is not folded");
  if (any_memory(z, v, was_written)) {
    ir_value *from = fetch(z, m, l->of, first);
    ir_node *n = pass_put_node(s, first, IR_GET_ATTR, &from, 1, l->param->type);
    ir_attr_set_string(s, n, "name", class_of(l->of)->attrs[l->slot].name);
    is = n->outputs[0];
  } else {
    is = pass_put_constant(s, first, constant_of(s, v), constant_type(l->param));
    name_constant(s, is, l->of, l->slot);
  }
  ir_value_replace_all_uses(l->param, is);
}

static void fold_memory(freezer *z)
{
  for (method *m = z->methods; m; m = m->next)
    walk_method(z, m, lift_leaf);
  find_written(z);
  for (method *m = z->methods; m; m = m->next) {
    uint32_t n_own = ir_block_n_inputs(m->g->block);
    for (leaf *l = m->leaves; l; l = l->next, n_own--)
      place_leaf(z, m, l);
    while (ir_block_n_inputs(m->g->block) > n_own)
      ir_block_remove_input(m->g->block, ir_block_n_inputs(m->g->block) - 1);
    ASSERT(n_own == m->f->schema->n_args, "the inputs that are left are the method's arguments");
    pass_run_by_name(z->s, m->g,
                     "constant_propagation,constant_loop_unrolling,constant_propagation,peephole,"
                     "constant_propagation,lower_simple_tuples,constant_pooling,cse,dce");
  }
}

/* -- Remaining attributes ---------------------------------------------------------------------- */

static void use_slot(walk *w, ir_node *n, frozen *of, uint32_t slot)
{
  (void)w;
  (void)n;
  of->slots[slot] |= SLOT_USED;
}

static void mark_used(session *s, ir_node *n, void *arg)
{
  method *m = arg;
  frozen *of =
    n->kind == IR_GET_ATTR || n->kind == IR_SET_ATTR ? tracked(m, ir_node_input(n, 0)) : NULL;
  int slot = of ? class_attr_index(of->object->type, str_of(ir_attr_string(n, "name"))) : -1;

  (void)s;
  if (slot >= 0)
    of->slots[slot] |= SLOT_USED;
}

/* Return a free name: "__torch__.___torch_mangle_3.M". */
static const char *free_class_name(session *s, const program *p, const char *name)
{
  const char *dot = strrchr(name, '.');
  int head = dot ? (int)(dot - name) : 0;
  const char *mangled = strstr(name, ".___torch_mangle_"); /* one is enough */

  if (mangled)
    head = (int)(mangled - name);
  for (uint32_t i = 0;; i++) {
    const char *fresh = session_printf(s, "%.*s%s___torch_mangle_%u.%s", head, name,
                                       head ? "." : "", i, dot ? dot + 1 : name);
    if (!program_find_class(p, str_of(fresh)))
      return fresh;
  }
}

static void copy_constants(session *s, const class_info *from, const type *to)
{
  for (uint32_t i = 0; i < from->n_constants; i++)
    (void)class_add_constant(s, to, from->constants[i].name, from->constants[i].type,
                             from->constants[i].constant);
}

/* Make the class and the object of what remains of f. */
static void make_object(freezer *z, frozen *f)
{
  session *s = z->s;
  const class_info *ci = class_of(f);
  rush_object *o;

  if (f->type)
    return;
  if (f->whole) {
    f->type = f->object->type;
    f->made = value_heap_steal(RUSH_TAG_OBJECT, f->object);
    return;
  }
  session_enter(s);
  type *t = program_add_class(s, ci->program, TYPE_CLASS,
                              free_class_name(s, ci->program, f->object->type->name));
  f->type = t;
  t->cls->is_module = true;
  copy_constants(s, ci, t);
  uint32_t *from = session_array(s, uint32_t, ci->n_attrs);
  for (uint32_t i = 0; i < ci->n_attrs; i++) {
    const class_attr *a = &ci->attrs[i];
    if (!(f->slots[i] & (SLOT_USED | SLOT_KEPT)))
      continue;
    frozen *child = is_module(f->object->slots[i]) ? child_of(z, f, i) : NULL;
    if (child)
      make_object(z, child);
    uint32_t at = class_add_attr(s, t, a->name, child ? child->type : a->type);
    t->cls->attrs[at].is_parameter = a->is_parameter;
    t->cls->attrs[at].is_buffer = a->is_buffer;
    from[at] = i;
  }
  session_check(s, object_new(s->cx, t, t->cls->n_attrs, &o));
  f->made = pass_hold(s, value_heap_steal(RUSH_TAG_OBJECT, o));
  for (uint32_t i = 0; i < t->cls->n_attrs; i++) {
    rush_value v = f->object->slots[from[i]];
    o->slots[i] = value_retain(is_module(v) ? child_of(z, f, from[i])->made : v);
  }
  session_leave(s);
}

static void retype(session *s, ir_node *n, void *arg)
{
  method *m = arg;

  (void)s;
  for (uint32_t i = 0; i < n->n_outputs; i++) {
    const frozen *f = tracked(m, n->outputs[i]);
    ASSERT(!f || f->type, "a module in a graph without its new class");
    if (f)
      n->outputs[i]->type = f->type;
  }
}

static void make_method(freezer *z, method *m)
{
  session *s = z->s;
  program *p = m->f->program;
  ASSERT(m->self->type && m->self->type->cls->is_module, "its class is made before a method");
  schema *sc = session_alloc_in(s, &p->mem, sizeof *sc);

  *sc = *m->f->schema;
  sc->args = session_alloc_in(s, &p->mem, sc->n_args * sizeof *sc->args);
  memcpy(sc->args, m->f->schema->args, sc->n_args * sizeof *sc->args);
  sc->args[0].type = m->self->type;
  pass_each(s, m->g->block, retype, m);
  ir_block_input(m->g->block, 0)->type = m->self->type;
  function *f = class_add_method(s, m->self->type, m->f->name);
  f->schema = sc;
  f->state = FUNCTION_COMPILED;
  ir_verify(s, m->g, "freeze");
  function_set_graph_steal(f, session_keep(s, m->g));
}

/* -- All --------------------------------------------------------------------------------------- */

static void add_method(freezer *z, frozen *self, function *f)
{
  method **end = &z->methods, *m;

  for (; *end; end = &(*end)->next)
    if ((*end)->f == f && (*end)->self == self)
      return;
  function_ensure(z->s, f);
  if (!f->graph || f->is_static)
    session_fail_status(z->s, RUSH_EUNSUPPORTED, NULL, NULL, "'%s' cannot be frozen", f->qualified);
  m = *end = session_new(z->s, method);
  *m = (method){.self = self, .f = f, .g = ir_graph_copy(z->s, f->graph)};
  session_defer(z->s, ir_graph_free_deferred, m->g);
  session_table_init(z->s, &m->objects);
  pass_inline(z->s, m->g);
  pass_inline_fork_wait(z->s, m->g); /* a task that has a module would keep it whole */
}

/* Preserve an attribute or a method, of a submodule if the name has dots. */
static void preserve(freezer *z, frozen *root, const char *name)
{
  frozen *f = root;
  str rest = str_of(name);

  for (;;) {
    const char *dot = memchr(rest.p, '.', rest.len);
    str part = {rest.p, dot ? (size_t)(dot - rest.p) : rest.len};
    int slot = class_attr_index(f->object->type, part);
    function *method = slot < 0 && !dot ? class_find_method(f->object->type, rest.p) : NULL;

    if (method) {
      add_method(z, f, method);
      return;
    }
    if (slot < 0 || (dot && !is_module(f->object->slots[slot])))
      session_fail_status(z->s, RUSH_ERAISED, "RuntimeError", NULL, "Unknown name: %s", name);
    f->slots[slot] |= SLOT_KEPT;
    if (!dot && class_of(f)->attrs[slot].type->kind == TYPE_INTERFACE)
      session_fail_status(z->s, RUSH_ERAISED, "RuntimeError", NULL,
                          "failed to freeze interface attribute '%s'", name);
    if (!dot) {
      if (is_module(f->object->slots[slot]))
        keep_whole(z, child_of(z, f, (uint32_t)slot));
      return;
    }
    f = child_of(z, f, (uint32_t)slot);
    rest = (str){dot + 1, rest.len - part.len - 1};
  }
}

rush_value freeze_object(session *s, rush_value object, const char *const *preserved,
                         uint32_t n_preserved)
{
  freezer *z = session_new(s, freezer); /* its tables outlive this call */

  z->s = s;
  session_table_init(s, &z->by_object);
  session_table_init(s, &z->written);
  class_complete(s, object.as.object->type);
  frozen *root = object_of(z, object.as.object, NULL, NULL);
  function *forward = class_find_method(object.as.object->type, "forward");
  if (forward)
    add_method(z, root, forward);
  for (uint32_t i = 0; i < n_preserved; i++)
    preserve(z, root, preserved[i]);
  resolve_interfaces(z);
  root->whole = false;
  fold_plain_attributes(z);
  if (root->whole)
    session_fail_status(s, RUSH_ERAISED, "RuntimeError", NULL,
                        "attempted to freeze a module that return itself");
  fold_memory(z);
  for (method *m = z->methods; m; m = m->next) {
    walk_method(z, m, use_slot);
    pass_each(s, m->g->block, mark_used, m);
  }
  make_object(z, root);
  for (method *m = z->methods; m; m = m->next)
    if (!m->self->type)
      make_object(z, m->self);
  for (method *m = z->methods; m; m = m->next)
    make_method(z, m);
  return root->made;
}

/* Remove detach: a constant requires no gradient, so the result is the tensor itself, unless
 * identity is tested. */
static void drop_detach(session *s, ir_node *n, void *arg)
{
  ir_value *in;

  (void)arg;
  if (!ir_node_is_op(n, OPN_DETACH))
    return;
  in = ir_node_input(n, 0);
  for (const ir_use *u = n->outputs[0]->uses; u; u = u->next)
    if (ir_node_is_op(u->user, OPN___IS__) || ir_node_is_op(u->user, OPN___ISNOT__))
      return;
  (void)s;
  pass_replace(n, &in);
}

void freeze_optimize(session *s, ir_graph *g, bool numerics)
{
  pass_remove_dropout(s, g);
  pass_each(s, g->block, drop_detach, NULL);
  for (int round = 0; numerics && round < 2; round++) /* a sum behind a product waits for it */
    pass_run_by_name(s, g,
                     "fold_frozen_conv_bn,fold_frozen_conv_add_or_sub,fold_frozen_conv_mul_or_div,"
                     "fold_frozen_linear_bn");
  pass_run_by_name(s, g, "constant_propagation,dce");
}

void freeze_replace_graph(session *s, function *f, ir_graph *g)
{
  function *old = program_add_closure(s, f->program, session_printf(s, "%s.before", f->qualified));

  ASSERT(g != f->graph && ir_block_n_inputs(g->block) == f->schema->n_args,
         "another graph that takes the function's arguments");
  old->schema = f->schema;
  old->state = FUNCTION_COMPILED;
  old->graph = f->graph;
  atomic_store_explicit(&old->code, atomic_load_explicit(&f->code, memory_order_acquire),
                        memory_order_release);
  f->graph = NULL;
  function_set_graph_steal(f, g);
  atomic_store_explicit(&f->code, NULL, memory_order_release);
}
