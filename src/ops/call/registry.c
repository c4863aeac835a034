/* ops/call/registry.c -- the operators of a context (registry.h): building them from the generated
 * rows at first use, finding them, registering external operators, and expanding the compressed
 * schemas and bodies. Lookup is a generated hash table for names of the table, a snapshot array for
 * external ones, a binary search for the rest; readers take no lock. Rejected: building all
 * operators at start, which costs milliseconds while a program uses a few dozen. */
#include "ops/call/registry.h"

#include <stdlib.h>
#include <zlib.h>

#include "base/lock.h"
#include "ops/call/lookup.h"
#include "ops/table/op_keys.h"
#include "ops/table/table.h"
#include "ops/table/tape.h"
#include "shape/shape.h"

/* Schemas of names that have no entry: the expanded text and an index of it. */
typedef struct packed_name {
  str name;
  const char *text; /* first line; lines end in '\0' */
  uint32_t n_lines, first_line;
  _Atomic(op_group *) group;
} packed_name;
typedef struct packed_index {
  uint32_t n;
  packed_name *names; /* sorted */
} packed_index;

/* Groups that external operators made or changed: a snapshot, replaced at each registration. */
typedef struct outside_index {
  uint32_t n;
  op_group *groups[];
} outside_index;

typedef struct registry {
  context *ctx;
  mutex lock;         /* building and registering */
  mutex prepare_lock; /* recursive: compiling a body may prepare others */
  arena mem;
  _Atomic(packed_index *) packed;
  char **bodies; /* by op_body_blocks: expanded, or NULL; under prepare_lock */
  _Atomic(outside_index *) outside;
  _Atomic(op_group *) groups[]; /* by op_names */
} registry;

/* -- Making ------------------------------------------------------------------------------------ */

/* Destroy the `user` of external operators, which live as long as the context. */
static void destroy_users(const outside_index *x)
{
  for (uint32_t i = 0; x && i < x->n; i++)
    for (uint32_t k = 0; k < x->groups[i]->n; k++) {
      const rush_op_def *def = x->groups[i]->ops[k]->outside;
      if (def && def->destroy_user)
        def->destroy_user(def->user);
    }
}

static void registry_destroy(context *c, void *object)
{
  registry *r = object;
  for (uint32_t i = 0; i < op_n_names; i++) {
    op_group *g = atomic_load(&r->groups[i]);
    for (uint32_t k = 0; g && k < g->n; k++)
      for (uint32_t a = 0; a < g->ops[k]->schema->n_args; a++)
        value_release(g->ops[k]->schema->args[a].default_value);
  }
  destroy_users(atomic_load(&r->outside));
  arena_free(&r->mem);
  mutex_destroy(&r->lock);
  mutex_destroy(&r->prepare_lock);
  mem_free(c, r, sizeof *r + op_n_names * sizeof r->groups[0]);
}

static registry *registry_new(context *c)
{
  registry *r = mem_alloc_zero(c, sizeof *r + op_n_names * sizeof r->groups[0]);
  if (!r)
    return NULL;
  r->ctx = c;
  mutex_init(&r->lock);
  mutex_init_recursive(&r->prepare_lock);
  arena_init(&r->mem, c);
  return r;
}

static registry *registry_of(context *c)
{
  registry *r = context_slot_get(c, SLOT_REGISTRY);
  if (LIKELY(r != NULL))
    return r;
  r = registry_new(c);
  return r ? context_slot_publish_steal(c, SLOT_REGISTRY, r, registry_destroy) : NULL;
}

/* -- Building operators of one name (under the lock) ------------------------------------------- */

typedef struct build {
  registry *reg;
  type_store *types;
  const struct op_name_row *row; /* either a name of the table */
  const packed_name *packed;     /* or of the rest */
  op_group *group;               /* the result */
} build;

static op_group *build_name(session *s, build *b);

static op_group *new_group(session *s, registry *r, str name, uint32_t n)
{
  op_group *g = session_alloc_in(s, &r->mem, sizeof *g + n * sizeof g->ops[0]);
  g->name = name;
  g->n = n;
  return g;
}

/* Return the checks that arguments of type t need. */
static uint32_t checks_of(const type *t)
{
  while (t->kind == TYPE_OPTIONAL)
    t = type_elem(t);
  if (t->kind == TYPE_SCALAR_TYPE || t->kind == TYPE_LAYOUT || t->kind == TYPE_MEMORY_FORMAT)
    return OP_CHECK_NUMBERS;
  if (t->kind == TYPE_LIST)
    return type_elem(t)->kind == TYPE_TENSOR ? OP_CHECK_LISTS : checks_of(type_elem(t));
  return 0;
}

/* True if the operator writes to the argument's tensor, or to tensors in it. */
static bool writes_tensors(const schema_arg *a)
{
  const type *t = a->type;
  while (t->kind == TYPE_OPTIONAL || (t->kind == TYPE_LIST && a->elem_write))
    t = type_elem(t);
  return (a->is_write || a->elem_write) && t->kind == TYPE_TENSOR;
}

static op *new_op(session *s, registry *r, type_store *types, const char *text)
{
  op *o = session_alloc_in(s, &r->mem, sizeof *o);
  o->schema = schema_parse(s, &r->mem, types, text);
  o->effects = schema_is_mutable(o->schema) ? OP_WRITES : o->schema->n_returns ? 0 : OP_SIDE_EFFECT;
  for (uint32_t i = 0; i < o->schema->n_args; i++)
    o->checks |= checks_of(o->schema->args[i].type) |
                 (writes_tensors(&o->schema->args[i]) ? OP_CHECK_WRITES : 0);
  if (schema_arg_index(o->schema, STR("running_mean")) >= 0)
    o->effects |= OP_STATISTICS;
  o->ctx = r->ctx;
  return o;
}

/* Return the operator of a row, building its name first. */
static const op *op_of_row(session *s, build *b, uint32_t row)
{
  str name = op_row_name(&op_rows[row]);
  uint32_t at = name_hash(name) & (op_n_name_slots - 1);
  while (!str_eq(op_row_name(&op_rows[op_names[op_name_slots[at] - 1].first_row]), name))
    at = (at + 1) & (op_n_name_slots - 1);
  uint32_t i = op_name_slots[at] - 1u;
  op_group *g = atomic_load_explicit(&b->reg->groups[i], memory_order_acquire);
  if (!g) {
    build other = {.reg = b->reg, .types = b->types, .row = &op_names[i]};
    g = build_name(s, &other);
    atomic_store_explicit(&b->reg->groups[i], g, memory_order_release);
  }
  return g->ops[row - op_names[i].first_row];
}

static uint32_t refuses_of(uint32_t row)
{
  uint32_t refuses = 0;
  for (uint32_t i = 0; i < op_n_refusals; i++)
    refuses |= op_refusals[i].row == row ? op_refusals[i].dtypes : 0;
  return refuses;
}

static op_group *build_name(session *s, build *b)
{
  uint32_t first = b->row->first_row, n = b->row->n_rows;
  op_group *g = new_group(s, b->reg, op_row_name(&op_rows[first]), n);
  for (uint32_t i = 0; i < n; i++) {
    const struct op_row *row = &op_rows[first + i];
    op *o = new_op(s, b->reg, b->types, op_pool + row->schema);
    o->row = row;
    o->key = (uint16_t)(first + i + 1);
    o->name_key = (uint16_t)(b->row - op_names + 1);
    o->kernel = op_kernels[row->kernel];
    o->compute = op_kernels[row->compute];
    o->family = (op_family)row->family;
    o->variant = (op_variant)row->variant;
    o->effects = row->effects | o->effects;
    ((schema *)(uintptr_t)o->schema)->takes_numbers = o->effects & OP_TAKES_NUMBERS;
    o->refuses = refuses_of(row->base >= 0 ? (uint32_t)row->base : first + i);
    g->ops[i] = o;
  }
  for (uint32_t i = 0; i < n; i++) { /* a base often has the variant's own name */
    int32_t base = op_rows[first + i].base;
    if (base >= 0 && (uint32_t)base - first < n)
      ((op *)(uintptr_t)g->ops[i])->base = g->ops[(uint32_t)base - first];
    else if (base >= 0)
      ((op *)(uintptr_t)g->ops[i])->base = op_of_row(s, b, (uint32_t)base);
  }
  return g;
}

static op_group *build_packed(session *s, build *b)
{
  const packed_name *p = b->packed;
  op_group *g = new_group(s, b->reg, p->name, p->n_lines);
  const char *text = p->text;
  const uint32_t name = (uint32_t)(p - atomic_load(&b->reg->packed)->names);
  for (uint32_t i = 0; i < p->n_lines; i++, text += strlen(text) + 1) {
    op *o = new_op(s, b->reg, b->types, text);
    o->key = (uint16_t)(op_n_rows + p->first_line + i + 1);
    o->name_key = (uint16_t)(op_n_names + name + 1);
    g->ops[i] = o;
  }
  return g;
}

static void build_body(session *s, void *arg)
{
  build *b = arg;
  b->group = b->row ? build_name(s, b) : build_packed(s, b);
}

/* Build and publish in *slot; returns NULL if memory runs out. */
static op_group *build_and_publish(build *b, _Atomic(op_group *) *slot)
{
  registry *r = b->reg;
  b->types = type_store_of_context(r->ctx);
  if (!b->types)
    return NULL;
  call_ctx cx;
  call_ctx_init(&cx, r->ctx, NULL);
  mutex_lock(&r->lock);
  op_group *g = atomic_load_explicit(slot, memory_order_acquire);
  if (!g && session_run(&cx, build_body, b) == RUSH_OK) {
    g = b->group;
    atomic_store_explicit(slot, g, memory_order_release);
  }
  mutex_unlock(&r->lock);
  return g;
}

/* -- Finding ----------------------------------------------------------------------------------- */

static const op_group *find_in_table(registry *r, str name)
{
  for (uint32_t at = name_hash(name) & (op_n_name_slots - 1); op_name_slots[at];
       at = (at + 1) & (op_n_name_slots - 1)) {
    uint32_t i = op_name_slots[at] - 1u;
    if (!str_eq(op_row_name(&op_rows[op_names[i].first_row]), name))
      continue;
    op_group *g = atomic_load_explicit(&r->groups[i], memory_order_acquire);
    if (g)
      return g;
    build b = {.reg = r, .row = &op_names[i]};
    return build_and_publish(&b, &r->groups[i]);
  }
  return NULL;
}

static const op_group *find_outside(registry *r, str name)
{
  const outside_index *o = atomic_load_explicit(&r->outside, memory_order_acquire);
  for (uint32_t i = 0; o && i < o->n; i++)
    if (str_eq(o->groups[i]->name, name))
      return o->groups[i];
  return NULL;
}

/* Split lines into strings; one entry per name. */
static uint32_t index_lines(char *text, size_t n_bytes, packed_name *names)
{
  uint32_t n = 0, at = 0;
  for (char *line = text, *end = text + n_bytes; line < end;) {
    char *stop = memchr(line, '\n', (size_t)(end - line));
    if (!stop)
      break;
    *stop = '\0';
    str name = {line, strcspn(line, ".(")};
    if (n > 0 && str_eq(names[n - 1].name, name)) {
      names[n - 1].n_lines++;
    } else {
      if (names)
        names[n] = (packed_name){.name = name, .text = line, .n_lines = 1, .first_line = at};
      n++;
    }
    at++;
    line = stop + 1;
  }
  return n;
}

static packed_index *expand_packed(registry *r)
{
  packed_index *x = arena_alloc(&r->mem, sizeof *x);
  char *text = arena_alloc(&r->mem, op_unpacked_bytes + 1);
  packed_name *names = arena_alloc(&r->mem, (op_n_unpacked + 1) * sizeof *names);
  uLongf n_bytes = op_unpacked_bytes;
  if (!x || !text || !names ||
      uncompress((Bytef *)text, &n_bytes, op_packed, op_packed_bytes) != Z_OK)
    return NULL;
  x->n = index_lines(text, n_bytes, names);
  x->names = names;
  return x;
}

static packed_index *packed_of(registry *r)
{
  packed_index *x = atomic_load_explicit(&r->packed, memory_order_acquire);
  if (x)
    return x;
  mutex_lock(&r->lock);
  x = atomic_load_explicit(&r->packed, memory_order_acquire);
  if (!x && (x = expand_packed(r)))
    atomic_store_explicit(&r->packed, x, memory_order_release);
  mutex_unlock(&r->lock);
  return x;
}

static int compare_str(str a, str b)
{
  int d = memcmp(a.p, b.p, a.len < b.len ? a.len : b.len);
  return d != 0 ? d : (a.len > b.len) - (a.len < b.len);
}

/* True if the name may be in the compressed schemas: names of other namespaces are external and
 * expand nothing. */
static bool may_be_packed(str name)
{
  for (const char *s = op_packed_namespaces; *s; s += strlen(s) + 1)
    if (name.len > strlen(s) && memcmp(name.p, s, strlen(s)) == 0)
      return true;
  return false;
}

static const op_group *find_packed(registry *r, str name)
{
  if (!may_be_packed(name))
    return NULL;
  packed_index *x = packed_of(r);
  uint32_t lo = 0, hi = x ? x->n : 0;
  while (lo < hi) {
    uint32_t mid = lo + (hi - lo) / 2;
    int d = compare_str(name, x->names[mid].name);
    if (d == 0) {
      op_group *g = atomic_load_explicit(&x->names[mid].group, memory_order_acquire);
      build b = {.reg = r, .packed = &x->names[mid]};
      return g ? g : build_and_publish(&b, &x->names[mid].group);
    }
    *(d < 0 ? &hi : &lo) = d < 0 ? mid : mid + 1;
  }
  return NULL;
}

/* Return all overloads of a name, or NULL. */
static const op_group *find_group(context *c, str name)
{
  registry *r = registry_of(c);
  if (!r || name.len == 0)
    return NULL;
  const op_group *g = find_outside(r, name);
  if (!g)
    g = find_in_table(r, name);
  return g ? g : find_packed(r, name);
}

static const op *in_group(const op_group *g, str overload)
{
  for (uint32_t i = 0; g && i < g->n; i++)
    if (str_is(overload, g->ops[i]->schema->overload))
      return g->ops[i];
  return NULL;
}

const op *op_find(context *c, str name, str overload)
{
  return in_group(find_group(c, name), overload);
}

const op *const *op_overloads(context *c, str name, uint32_t *n)
{
  const op_group *g = find_group(c, name);
  *n = g ? g->n : 0;
  return g ? g->ops : NULL;
}

/* Return RUSH_ENOMEM if there is no answer and an allocation was refused since `before`. */
static rush_status check_refused(call_ctx *cx, const void *answer, uint32_t before)
{
  return answer || mem_n_refused(cx->ctx) == before ? RUSH_OK : call_nomem(cx);
}

rush_status op_lookup(call_ctx *cx, str name, str overload, const op **out)
{
  const uint32_t before = mem_n_refused(cx->ctx);
  *out = op_find(cx->ctx, name, overload);
  return check_refused(cx, *out, before);
}

rush_status op_lookup_all(call_ctx *cx, str name, const op *const **out, uint32_t *n)
{
  const uint32_t before = mem_n_refused(cx->ctx);
  *out = op_overloads(cx->ctx, name, n);
  return check_refused(cx, *out, before);
}

const op *session_op_find(session *s, str name, str overload)
{
  const op *o;
  session_check(s, op_lookup(s->cx, name, overload, &o));
  return o;
}

const op *session_op_of_target(session *s, str target)
{
  const size_t n_begin = sizeof "torch.ops." - 1;
  size_t dot = 0, last;

  if (target.len <= n_begin || memcmp(target.p, "torch.ops.", n_begin) != 0)
    return NULL;
  str rest = {target.p + n_begin, target.len - n_begin};
  while (dot < rest.len && rest.p[dot] != '.')
    dot++;
  for (last = rest.len; last > 0 && rest.p[last - 1] != '.';)
    last--;
  if (last <= dot + 1)
    return NULL;
  str overload = {rest.p + last, rest.len - last};
  char *name = session_alloc(s, last); /* "aten.add." to "aten::add" */
  memcpy(name, rest.p, last - 1);
  memmove(name + dot + 1, name + dot, last - 1 - dot);
  name[dot] = name[dot + 1] = ':';
  return session_op_find(s, (str){name, last}, str_is(overload, "default") ? STR("") : overload);
}

const op *const *session_op_overloads(session *s, str name, uint32_t *n)
{
  const op *const *ops;
  session_check(s, op_lookup_all(s->cx, name, &ops, n));
  return ops;
}

/* -- Operators from outside -------------------------------------------------------------------- */

typedef struct registration {
  registry *reg;
  const rush_op_def *def;
  type_store *types;
  op *made;
} registration;

/* Convert a result of an external kernel, which may be anything, to its type. */
static rush_status bind_result(call_ctx *cx, const schema *sc, uint32_t i, rush_value *result)
{
  rush_value made = value_none();
  bool fits = false;
  TRY(value_bind(cx, sc->returns[i].type, *result, &fits, &made));
  if (fits) {
    value_release(*result);
    *result = made;
    return RUSH_OK;
  }
  text_buf want;
  text_init(&want, cx->ctx);
  type_print_annotation(&want, sc->returns[i].type);
  rush_status st =
    call_fail(cx, "the kernel of %s must give a %s as result %u%s", sc->name, text_str(&want), i,
              value_is_none(*result) ? ", but returned none" : "");
  text_free(&want);
  return st;
}

static rush_status bind_results(call_ctx *cx, const schema *sc, rush_value *results)
{
  if (sc->is_varret)
    return RUSH_OK;
  for (uint32_t i = 0; i < sc->n_returns; i++)
    TRY(bind_result(cx, sc, i, &results[i]));
  return RUSH_OK;
}

/* True for calls that backends need not support: recorded ones, and those with kinds of tensors
 * that few operators accept. */
static bool needs_interpreter(const rush_call *call)
{
  const bool records = call_records(call->cx), special = call->cx->watch & CALL_SPECIAL;
  for (uint32_t i = 0; i < call->n_args; i++) {
    const rush_tensor *t = call_tensor(call, i);
    if (t && ((records && tensor_requires_grad(t)) ||
              (special && ((t->extra && (t->extra->nested || t->extra->sparse)) ||
                           dtype_class_of(t->dtype) == DTYPE_QUANT))))
      return true;
  }
  return false;
}

/* Call the kernel of an external operator and check its results. */
static rush_status kernel_outside(rush_call *call)
{
  if (call->state && call->state->body && needs_interpreter(call))
    return call->state->run(call, call->state->body);
  rush_error *err = call->cx->err;
  rush_status st = call->op->outside->kernel(call);
  if (UNLIKELY(st != RUSH_OK || (err && err->status != RUSH_OK)))
    st = error_of_callback(err, st, "the kernel of %s", call->op->schema->name);
  return st == RUSH_OK ? bind_results(call->cx, call->op->schema, call->results) : st;
}

static const char *kept(session *s, registry *r, const char *text)
{
  char *copy = session_alloc_in(s, &r->mem, strlen(text) + 1);
  memcpy(copy, text, strlen(text));
  return copy;
}

/* Return the effects; the definition's alias kind must agree with its schema. */
static uint32_t outside_effects(session *s, const op *o, rush_alias_kind alias)
{
  switch (alias) {
  case RUSH_ALIAS_SCHEMA:
    return o->effects;
  case RUSH_ALIAS_CONSERVATIVE:
    return o->effects | OP_SIDE_EFFECT | OP_RETURNS_ARG;
  case RUSH_ALIAS_PURE:
    for (uint32_t i = 0; i < o->schema->n_args; i++)
      if (o->schema->args[i].alias_before || o->schema->args[i].elem_alias)
        session_fail_status(s, RUSH_EARGUMENT, NULL, NULL,
                            "%s is said to be pure, but its schema annotates '%s'", o->schema->name,
                            o->schema->args[i].name);
    return o->effects & ~(uint32_t)OP_SIDE_EFFECT; /* which a schema without results has */
  }
  session_fail_status(s, RUSH_EARGUMENT, NULL, NULL, "%d is no kind of aliasing", (int)alias);
}

static void keep_gradients(session *s, registry *r, const op *o, rush_op_def *def)
{
  rush_gradient_def *all = session_alloc_in(s, &r->mem, def->n_gradients * sizeof *all);
  for (size_t i = 0; i < def->n_gradients; i++) {
    const rush_gradient_def *g = &def->gradients[i];
    if (!g->inputs || !*g->inputs || !g->formula)
      session_fail_status(s, RUSH_EARGUMENT, NULL, NULL,
                          "a gradient of %s needs inputs and a formula", o->schema->name);
    for (const char *p = g->inputs; *p; p += strspn(p, " ")) {
      str word = {p, strcspn(p, " ")};
      if (schema_arg_index(o->schema, word) < 0)
        session_fail_status(s, RUSH_EARGUMENT, NULL, NULL,
                            "a gradient of '%.*s', which is no argument of %s", (int)word.len,
                            word.p, o->schema->name);
      p += word.len;
    }
    all[i] = (rush_gradient_def){kept(s, r, g->inputs), kept(s, r, g->formula)};
  }
  def->gradients = all;
}

static void register_body(session *s, void *arg)
{
  registration *g = arg;
  registry *r = g->reg;
  op *o = new_op(s, r, g->types, g->def->schema);
  rush_op_def *def = session_alloc_in(s, &r->mem, sizeof *def);
  memcpy(def, g->def, g->def->struct_bytes < sizeof *def ? g->def->struct_bytes : sizeof *def);
  def->schema = NULL;
  o->effects = outside_effects(s, o, def->alias);
  if (def->shape && def->shape_fn)
    session_fail_status(s, RUSH_EARGUMENT, NULL, NULL,
                        "%s has a shape rule and a shape function: one is enough", o->schema->name);
  if (def->shape) {
    if (!shape_rule_find(str_of(def->shape)))
      session_fail_status(s, RUSH_EARGUMENT, NULL, NULL, "%s: there is no shape rule '%s'",
                          o->schema->name, def->shape);
    def->shape = kept(s, r, def->shape);
  }
  keep_gradients(s, r, o, def);
  o->kernel = kernel_outside;
  o->family = FAMILY_KERNEL;
  o->outside = def;
  g->made = o;
}

/* Add `o` to the snapshot: as a new name, or at the end of its name's overloads. */
static rush_status add_outside(registry *r, const op_group *before, op *o, rush_error *err)
{
  const outside_index *old = atomic_load(&r->outside);
  uint32_t n_old = old ? old->n : 0, n = before ? before->n : 0, at = n_old;
  op_group *g = arena_alloc(&r->mem, sizeof *g + (n + 1) * sizeof g->ops[0]);
  outside_index *x = arena_alloc(&r->mem, sizeof *x + (n_old + 1) * sizeof x->groups[0]);
  if (!g || !x)
    return error_nomem(err);
  g->name = str_of(o->schema->name);
  g->n = n + 1;
  for (uint32_t i = 0; i < n; i++)
    g->ops[i] = before->ops[i];
  o->name_key = before ? before->ops[0]->name_key : OPN_NONE;
  g->ops[n] = o;
  for (uint32_t i = 0; i < n_old; i++) {
    x->groups[i] = old->groups[i];
    if (str_eq(old->groups[i]->name, g->name))
      at = i;
  }
  x->groups[at] = g;
  x->n = at == n_old ? n_old + 1 : n_old;
  atomic_store_explicit(&r->outside, x, memory_order_release);
  return RUSH_OK;
}

/* Publish under the lock; the name's group is already built, so that finding it takes no lock. */
static rush_status publish_outside(registry *r, op *made, rush_error *err)
{
  const op_group *before = find_group(r->ctx, str_of(made->schema->name));
  if (in_group(before, str_of(made->schema->overload)))
    return error_set(err, RUSH_EARGUMENT, "operator %s%s%s is registered already",
                     made->schema->name, made->schema->overload[0] ? "." : "",
                     made->schema->overload);
  return add_outside(r, before, made, err);
}

rush_status op_register(context *c, const rush_op_def *def, rush_error *err)
{
  c = context_or_default(c);
  registry *r = c ? registry_of(c) : NULL;
  type_store *types = c ? type_store_of_context(c) : NULL;
  if (!r || !types)
    return error_nomem(err);
  if (!def->schema || !def->kernel)
    return error_set(err, RUSH_EARGUMENT, "an operator needs a schema and a kernel");
  /* The name's other overloads are built before the lock is taken. */
  str name = {def->schema, strcspn(def->schema, ".(")};
  (void)find_group(c, name);
  registration g = {.reg = r, .def = def, .types = types};
  call_ctx cx;
  call_ctx_init(&cx, c, err);
  mutex_lock(&r->lock);
  rush_status st = session_run(&cx, register_body, &g);
  if (st == RUSH_OK)
    st = publish_outside(r, g.made, err);
  mutex_unlock(&r->lock);
  return st;
}

/* -- Queries ----------------------------------------------------------------------------------- */

static bool row_runs(const struct op_row *r)
{
  if (r->kernel || r->family == FAMILY_POINTWISE || r->family == FAMILY_COMPOSITE)
    return true;
  return r->base >= 0 && row_runs(&op_rows[r->base]);
}

/* Print the classes of dtypes that a formula is for. */
static void print_classes(text_buf *out, const struct op_row *r)
{
  static const char *const names[] = {[DTYPE_BOOL] = "bool",
                                      [DTYPE_INT] = "int",
                                      [DTYPE_FLOAT] = "float",
                                      [DTYPE_COMPLEX] = "complex"};
  const int32_t at = r->base >= 0 ? op_rows[r->base].point : r->point;
  if (at < 0)
    return;
  const struct point_row *p = &point_rows[at];
  const char *between = "\t";
  for (int cls = 0; cls < (int)COUNT_OF(names); cls++) {
    bool has = false;
    for (int i = 0; i < p->n_arms && !has; i++)
      has = point_arms[p->first_arm + i].classes >> cls & 1;
    if (has && names[cls]) {
      text_printf(out, "%s%s", between, names[cls]);
      between = " ";
    }
  }
}

void op_table_print(text_buf *out, str name)
{
  for (uint32_t i = 0; i < op_n_rows; i++) {
    const struct op_row *r = &op_rows[i];
    if (!row_runs(r) || (name.len && !str_eq(op_row_name(r), name)))
      continue;
    text_printf(out, "%s", op_pool + r->schema);
    print_classes(out, r);
    text_printf(out, "\n");
  }
}

/* -- Composites -------------------------------------------------------------------------------- */

/* Return the text at `body` of the composites' texts, expanding its block once.  Under
 * prepare_lock. NULL: memory ran out. */
static const char *body_text(registry *r, uint32_t body)
{
  uint32_t b = 0;
  while (op_body_blocks[b + 1].start <= body)
    b++;
  const struct op_body_block *at = &op_body_blocks[b];
  mutex_lock(&r->lock);
  if (!r->bodies && (r->bodies = arena_alloc(&r->mem, op_n_body_blocks * sizeof *r->bodies)))
    memset(r->bodies, 0, op_n_body_blocks * sizeof *r->bodies);
  char *text = r->bodies ? r->bodies[b] : NULL;
  uLongf n_bytes = at[1].start - at->start;
  if (r->bodies && !text && (text = arena_alloc(&r->mem, n_bytes)) &&
      uncompress((Bytef *)text, &n_bytes, op_bodies_packed + at->at, at[1].at - at->at) != Z_OK)
    text = NULL; /* our own data: it had no memory to work with */
  if (text)
    r->bodies[b] = text;
  mutex_unlock(&r->lock);
  return text ? text + (body - at->start) : NULL;
}

const char *session_op_known_body(session *s, const struct op_known *k)
{
  registry *r = registry_of(s->cx->ctx);
  const char *text = r ? body_text(r, k->body) : NULL;

  if (!text)
    session_check(s, call_nomem(s->cx));
  return text;
}

/* Compile a text of the operator once: its body, or its decomposition. */
static rush_status prepare_text(call_ctx *cx, const op *o, bool is_core)
{
  op *own = (op *)(uintptr_t)o;
  _Atomic(void *) *function = is_core ? &own->core : &own->body;

  if (atomic_load_explicit(function, memory_order_acquire))
    return RUSH_OK;
  const op_body_runtime *rt = context_slot_get(o->ctx, SLOT_PROGRAM);
  registry *r = registry_of(o->ctx);
  if (!rt || !r)
    return call_unsupported(cx, "%s is a composite, and nothing that runs bodies is there",
                            o->schema->name);
  rush_status st = RUSH_OK;
  TRY(mutex_wait(cx, &r->prepare_lock));
  if (!atomic_load_explicit(function, memory_order_acquire)) {
    void *made = NULL;
    const char *text = body_text(r, is_core ? o->row->core : o->row->body);
    st = text ? rt->compile(cx, o, text, is_core, &made) : call_nomem(cx);
    if (st == RUSH_OK)
      atomic_store_explicit(function, made, memory_order_release);
  }
  mutex_done(&r->prepare_lock);
  return st;
}

rush_status op_prepare_body(call_ctx *cx, const op *o)
{
  return prepare_text(cx, o, false);
}

rush_status op_decomposition(call_ctx *cx, const op *o, void **function)
{
  const bool is_core = o->row && o->row->core;

  *function = NULL;
  if (!o->row || !(o->row->core || o->row->body))
    return RUSH_OK;
  TRY(prepare_text(cx, o, is_core));
  *function = atomic_load_explicit(is_core ? &o->core : &o->body, memory_order_acquire);
  return RUSH_OK;
}

rush_status op_prepare(call_ctx *cx, const op *o)
{
  if (o->base && !o->kernel)
    return op_prepare(cx, o->base);
  return o->family == FAMILY_COMPOSITE || o->effects & OP_COMPLEX_BODY ? op_prepare_body(cx, o)
                                                                       : RUSH_OK;
}
