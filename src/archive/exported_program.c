/* archive/exported_program.c -- loads a torch.export archive (.pt2): splits model.json into raw
 * parts, reads weights, signature, trees of inputs and outputs, and makes one class, one object and
 * one function. model.json is scanned once and its bulk kept as slices, since exported_graph.c
 * reads the graph later. Weights that share a record share a storage, so that tied weights remain
 * tied. The major version of the schema is checked first, because newer majors may change the
 * meaning of fields. */
#include "archive/exported_program.h"

#include "archive/exported_int.h"
#include "archive/storages.h"
#include "archive/torchscript.h"
#include "archive/unpickle.h"
#include "base/grow.h"

/* -- Weights and constants --------------------------------------------------------------------- */

typedef struct weight { /* one entry of a config */
  str name, path;
  bool is_parameter, use_pickle, requires_grad;
  int64_t dtype, layout;
  int n_dims, n_strides;
  int64_t sizes[TENSOR_MAX_DIMS], strides[TENSOR_MAX_DIMS], offset;
} weight;

static int64_t read_as_int(json *j)
{
  int64_t v = 0;
  str key;

  for (json_begin_object(j); json_next_key(j, &key);) {
    if (str_is(key, "as_int"))
      v = json_int(j);
    else
      json_fail(j, "expected as_int, found '%.*s'", (int)key.len, key.p);
  }
  return v;
}

static int read_int_list(json *j, int64_t *out)
{
  int n = 0;

  for (json_begin_array(j); json_next_item(j); n++) {
    if (n == TENSOR_MAX_DIMS)
      json_fail(j, "more than %d dimensions", TENSOR_MAX_DIMS);
    out[n] = read_as_int(j);
    if (out[n] < 0)
      json_fail(j, "size or stride %lld is negative", (long long)out[n]);
  }
  return n;
}

static void read_tensor_meta(json *j, weight *w)
{
  str key;

  for (json_begin_object(j); json_next_key(j, &key);) {
    if (str_is(key, "dtype"))
      w->dtype = json_int(j);
    else if (str_is(key, "sizes"))
      w->n_dims = read_int_list(j, w->sizes);
    else if (str_is(key, "strides"))
      w->n_strides = read_int_list(j, w->strides);
    else if (str_is(key, "storage_offset"))
      w->offset = read_as_int(j);
    else if (str_is(key, "requires_grad"))
      w->requires_grad = json_bool(j);
    else if (str_is(key, "layout"))
      w->layout = json_int(j);
    else
      json_skip(j);
  }
}

/* Storages by record path: shared records (tied weights, views) are one storage. */
typedef struct weight_reader {
  ex_reader *r;
  const char *folder;
  table storages;
} weight_reader;

static storage *record_storage(weight_reader *w, str path)
{
  storage *st = table_get(&w->storages, path);
  session *s = w->r->s;
  mapping *owner = NULL;

  if (st)
    return st;
  const zip_entry *e =
    zip_need(s, w->r->zip, session_printf(s, "%s%.*s", w->folder, (int)path.len, path.p));
  str bytes = zip_read(s, w->r->zip, e, &owner);
  st = storage_of_bytes(s, bytes, owner, DTYPE_MOST_ALIGNED, 0);
  session_table_put(s, &w->storages, path, st);
  return st;
}

/* Read a weight that torch.save wrote (use_pickle). */
static rush_value pickled_weight(weight_reader *w, const weight *e)
{
  session *s = w->r->s;
  const zip_entry *entry =
    zip_need(s, w->r->zip, session_printf(s, "%s%.*s", w->folder, (int)e->path.len, e->path.p));
  mapping *map, *owner = NULL;
  str bytes = zip_read(s, w->r->zip, entry, &owner);

  session_check(s, mapping_copy(s->cx, w->r->zip->map->name, bytes.p, bytes.len, &map));
  mapping_defer(s, map);
  return torchscript_load_value(s, zip_open(s, map, false), &w->r->program->types, false);
}

#define LAYOUT_STRIDED 7 /* of the schema; sparse weights are written with use_pickle */

static void check_weight(ex_reader *r, const weight *e, int dtype)
{
  if (e->n_strides != e->n_dims)
    ex_fail(r, "weight '%.*s' has %d sizes and %d strides", (int)e->name.len, e->name.p, e->n_dims,
            e->n_strides);
  if (e->layout != LAYOUT_STRIDED)
    ex_fail(r, "weight '%.*s' has layout %lld; only strided ones (%d) are supported",
            (int)e->name.len, e->name.p, (long long)e->layout, LAYOUT_STRIDED);
  if (e->requires_grad && !dtype_is_float(dtype) && !dtype_is_complex(dtype))
    ex_fail(r,
            "weight '%.*s': Only Tensors of floating point and complex dtype can require gradients",
            (int)e->name.len, e->name.p);
}

static rush_tensor *make_weight(weight_reader *w, const weight *e)
{
  session *s = w->r->s;
  rush_tensor *t;

  if (e->use_pickle) {
    rush_value v = pickled_weight(w, e);
    if (v.tag != RUSH_TAG_TENSOR || !v.as.tensor)
      ex_fail(w->r, "weight '%.*s' is no tensor", (int)e->name.len, e->name.p);
    session_check(s, tensor_alias(s->cx, v.as.tensor, &t));
    return t;
  }
  int dtype = ex_dtype(w->r, e->dtype);
  check_weight(w->r, e, dtype);
  storage *st = record_storage(w, e->path);
  input_check(s, &w->r->in, w->r->at,
              tensor_new_view(s->cx, st, dtype, e->n_dims, e->sizes, e->strides, e->offset, &t));
  if (e->requires_grad)
    t->h.flags |= TENSOR_REQUIRES_GRAD;
  if (e->is_parameter)
    t->h.flags |= TENSOR_IS_PARAMETER;
  return t;
}

static void read_weight(weight_reader *w, json *j, str name, table *all)
{
  weight *e = session_new(w->r->s, weight);
  str key;

  w->r->at = j->pos;
  e->name = ex_name(w->r, name);
  e->layout = LAYOUT_STRIDED;
  for (json_begin_object(j); json_next_key(j, &key);) {
    if (str_is(key, "path_name"))
      e->path = ex_name(w->r, json_string(j));
    else if (str_is(key, "is_param"))
      e->is_parameter = json_bool(j);
    else if (str_is(key, "use_pickle"))
      e->use_pickle = json_bool(j);
    else if (str_is(key, "tensor_meta") && !json_is_null(j))
      read_tensor_meta(j, e);
    else
      json_skip(j);
  }
  if (!e->path.p)
    json_fail(j, "an entry without path_name");
  w->r->at = j->pos;
  rush_tensor *t = make_weight(w, e);
  session_defer_value(w->r->s, value_tensor_steal(t));
  if (table_get(all, name))
    ex_fail(w->r, "a second weight '%.*s'", (int)name.len, name.p);
  session_table_put(w->r->s, all, name, t);
}

/* Read every entry of data/FOLDER/CONFIG into `all`: name -> tensor (owned by the session). */
static void read_config(ex_reader *r, const char *folder, const char *config, table *all)
{
  const zip_entry *e = zip_find(r->zip, session_printf(r->s, "%s%s", folder, config));
  weight_reader *w = session_new(r->s, weight_reader);
  str key, name;
  json j;

  if (!e)
    return;
  *w = (weight_reader){.r = r, .folder = folder};
  session_table_init(r->s, &w->storages);
  input in = zip_input(r->s, r->zip, e), model = r->in;
  r->in = in;
  json_init(&j, r->s, &in);
  for (json_begin_object(&j); json_next_key(&j, &key);) {
    if (!str_is(key, "config")) {
      json_skip(&j);
      continue;
    }
    for (json_begin_object(&j); json_next_key(&j, &name);)
      read_weight(w, &j, name, all);
  }
  json_end(&j);
  r->in = model;
  r->at = 0;
}

/* -- model.json -------------------------------------------------------------------------------- */

/* A member of an object: kept as raw JSON, or entered if `inside`, so that the bulk is scanned
 * once. */
typedef struct part {
  const char *name;
  str *raw;
  const struct part *inside;
  size_t n_inside;
} part;

static void split_object(json *j, const part *parts, size_t n)
{
  str key;

  for (json_begin_object(j); json_next_key(j, &key);) {
    size_t i = 0;
    while (i < n && !str_is(key, parts[i].name))
      i++;
    if (i == n)
      json_skip(j);
    else if (parts[i].inside)
      split_object(j, parts[i].inside, parts[i].n_inside);
    else
      *parts[i].raw = json_raw(j);
  }
}

static void need_part(ex_reader *r, str part, const char *name)
{
  if (!part.p)
    ex_fail(r, "there is no '%s'", name);
}

/* Read module_call_graph: the entry of the root ("") has the tree specs. */
static void read_call_graph(ex_reader *r, model_parts *p)
{
  json j;

  json_init_at(&j, r->s, &r->in, p->call_graph);
  for (json_begin_array(&j); json_next_item(&j);) {
    str fqn = {0}, signature = {0}, key;
    for (json_begin_object(&j); json_next_key(&j, &key);) {
      if (str_is(key, "fqn"))
        fqn = json_string(&j);
      else if (str_is(key, "signature") && !json_is_null(&j))
        signature = json_raw(&j);
      else
        json_skip(&j);
    }
    if (fqn.len == 0 && signature.p && !p->in_spec.p) {
      const part parts[] = {{.name = "in_spec", .raw = &p->in_spec},
                            {.name = "out_spec", .raw = &p->out_spec},
                            {.name = "forward_arg_names", .raw = &p->arg_names}};
      json inside;
      json_init_at(&inside, r->s, &r->in, signature);
      split_object(&inside, parts, COUNT_OF(parts));
    }
  }
}

/* The schema that PyTorch 2.13 writes (torch/_export/serde/schema.py).  A major number changes when
 * old readers would read it wrongly; a minor one when something is added.  0.0, also for a missing
 * field, is a program without a version, written by hand; PyTorch accepts this number, too. */
#define SCHEMA_MAJOR 8
#define SCHEMA_MINOR 20

static void check_version(ex_reader *r, str raw)
{
  int64_t major = 0, minor = 0;
  str key;
  json j;

  if (!raw.p)
    return;
  json_init_at(&j, r->s, &r->in, raw);
  for (json_begin_object(&j); json_next_key(&j, &key);) {
    if (str_is(key, "major"))
      major = json_int(&j);
    else if (str_is(key, "minor"))
      minor = json_int(&j);
    else
      json_skip(&j);
  }
  if (major != SCHEMA_MAJOR && (major != 0 || minor != 0))
    session_fail_status(r->s, RUSH_EUNSUPPORTED, "RuntimeError", NULL,
                        "%s: Serialized schema version SchemaVersion(major=%lld, minor=%lld) does "
                        "not match our current schema version "
                        "(%d, %d).",
                        r->in.place, (long long)major, (long long)minor, SCHEMA_MAJOR,
                        SCHEMA_MINOR);
  if (major == SCHEMA_MAJOR && minor > SCHEMA_MINOR)
    context_warn(r->s->cx->ctx, session_printf(r->s,
                                               "%s: schema version %lld.%lld is newer than %d.%d, "
                                               "the newest that is known here: what it adds "
                                               "is ignored",
                                               r->in.place, (long long)major, (long long)minor,
                                               SCHEMA_MAJOR, SCHEMA_MINOR));
}

static void split_model(ex_reader *r, model_parts *p)
{
  str version = {0};
  const part graph[] = {{.name = "inputs", .raw = &p->inputs},
                        {.name = "outputs", .raw = &p->outputs},
                        {.name = "nodes", .raw = &p->nodes},
                        {.name = "tensor_values", .raw = &p->tensor_values},
                        {.name = "sym_int_values", .raw = &p->sym_int_values}};
  const part signature[] = {{.name = "input_specs", .raw = &p->input_specs},
                            {.name = "output_specs", .raw = &p->output_specs}};
  const part module[] = {
    {.name = "graph", .inside = graph, .n_inside = COUNT_OF(graph)},
    {.name = "signature", .inside = signature, .n_inside = COUNT_OF(signature)},
    {.name = "module_call_graph", .raw = &p->call_graph}};
  const part root[] = {{.name = "graph_module", .inside = module, .n_inside = COUNT_OF(module)},
                       {.name = "range_constraints", .raw = &p->ranges},
                       {.name = "guards_code", .raw = &p->guards},
                       {.name = "schema_version", .raw = &version}};
  json j;

  json_init(&j, r->s, &r->in);
  split_object(&j, root, COUNT_OF(root));
  json_end(&j);
  check_version(r, version);
  need_part(r, p->call_graph, "module_call_graph");
  need_part(r, p->inputs, "inputs");
  need_part(r, p->outputs, "outputs");
  need_part(r, p->nodes, "nodes");
  need_part(r, p->input_specs, "input_specs");
  need_part(r, p->output_specs, "output_specs");
  read_call_graph(r, p);
  r->at = (size_t)(p->call_graph.p - r->in.bytes.p);
  need_part(r, p->in_spec, "in_spec");
  need_part(r, p->out_spec, "out_spec");
}

/* Decode a JSON string that contains JSON. */
static str unquote(ex_reader *r, str raw)
{
  json j;

  json_init_at(&j, r->s, &r->in, raw);
  return json_string(&j);
}

/* -- Signature --------------------------------------------------------------------------------- */

typedef enum spec_kind { SPEC_USER, SPEC_CONSTANT, SPEC_STATE, SPEC_TOKEN } spec_kind;
typedef struct input_spec {
  spec_kind kind;
  str name;           /* of the graph's input; empty for a constant */
  str target;         /* SPEC_STATE: the attribute */
  const type *type;   /* SPEC_USER: of the input */
  rush_value value;   /* a constant, also of SPEC_USER; else UNSET */
} input_spec;

static spec_kind spec_kind_of(json *j, str word)
{
  static const struct { const char *word; spec_kind kind;
  } kinds[] = {{"user_input", SPEC_USER},       {"constant_input", SPEC_CONSTANT},
               {"parameter", SPEC_STATE},       {"buffer", SPEC_STATE},
               {"tensor_constant", SPEC_STATE}, {"token", SPEC_TOKEN}};

  for (size_t i = 0; i < COUNT_OF(kinds); i++)
    if (str_is(word, kinds[i].word))
      return kinds[i].kind;
  if (str_is(word, "custom_obj"))
    json_fail(j, "custom objects in exported programs are not supported");
  json_fail(j, "an input spec of kind '%.*s' is not known here", (int)word.len, word.p);
}

/* Read a plain constant; returns false for another member of the union. */
static bool read_constant(ex_reader *r, json *j, str key, rush_value *v)
{
  if (str_is(key, "as_int")) {
    *v = value_int(json_int(j));
  } else if (str_is(key, "as_float")) {
    *v = value_float(json_double(j));
  } else if (str_is(key, "as_bool")) {
    *v = value_bool(json_bool(j));
  } else if (str_is(key, "as_none")) {
    json_skip(j);
    *v = value_none();
  } else if (str_is(key, "as_string")) {
    str text = json_string(j);
    session_check(r->s, string_new(r->s->cx, text.p, text.len, v));
    program_keep_steal(r->s, r->program, *v);
  } else {
    return false;
  }
  return true;
}

/* Read the union of a user input or of a constant: a plain constant, or a value of the graph. */
static void read_spec_value(ex_reader *r, json *j, input_spec *spec)
{
  static const struct { const char *word; type_kind kind;
  } kinds[] = {{"as_tensor", TYPE_TENSOR},
               {"as_sym_int", TYPE_INT},
               {"as_sym_float", TYPE_FLOAT},
               {"as_sym_bool", TYPE_BOOL}};
  str key;

  for (json_begin_object(j); json_next_key(j, &key);) {
    if (spec->type || spec->value.tag != RUSH_TAG_UNSET)
      json_fail(j, "an input spec with two values");
    if (read_constant(r, j, key, &spec->value))
      continue;
    for (size_t i = 0; i < COUNT_OF(kinds); i++)
      if (str_is(key, kinds[i].word))
        spec->type = type_simple(kinds[i].kind);
    if (!spec->type || spec->kind == SPEC_CONSTANT)
      json_fail(j, "an input of kind '%.*s' is not supported", (int)key.len, key.p);
    spec->name = ex_name_of(r, j);
  }
}

/* Read {"arg": {"name": n}, "parameter_name": t, ...}. */
static void read_input_spec(ex_reader *r, json *j, str kind, input_spec *spec)
{
  str key;

  spec->kind = spec_kind_of(j, kind);
  spec->value = value_unset();
  for (json_begin_object(j); json_next_key(j, &key);) {
    if (str_is(key, "parameter_name") || str_is(key, "buffer_name") ||
        str_is(key, "tensor_constant_name"))
      spec->target = ex_name(r, json_string(j));
    else if (spec->kind == SPEC_USER ? str_is(key, "arg")
                                     : spec->kind == SPEC_CONSTANT && str_is(key, "value"))
      read_spec_value(r, j, spec);
    else if (spec->kind == SPEC_STATE && str_is(key, "arg"))
      spec->name = ex_name_of(r, j);
    else
      json_skip(j);
  }
  if (spec->kind == SPEC_STATE && !spec->target.p)
    json_fail(j, "an input spec does not name its weight");
  if (spec->kind <= SPEC_CONSTANT && !spec->type && spec->value.tag == RUSH_TAG_UNSET)
    json_fail(j, "an input spec without its value");
}

static input_spec *read_input_specs(ex_reader *r, str text, uint32_t *n)
{
  uint32_t cap = 16;
  input_spec *specs = session_array(r->s, input_spec, cap);
  str kind;
  json j;

  *n = 0;
  json_init_at(&j, r->s, &r->in, text);
  for (json_begin_array(&j); json_next_item(&j); ++*n) {
    uint32_t n_kinds = 0;
    GROW(r->s, specs, *n, cap, 0);
    for (json_begin_object(&j); json_next_key(&j, &kind); n_kinds++) {
      specs[*n] = (input_spec){0};
      read_input_spec(r, &j, kind, &specs[*n]);
    }
    if (n_kinds != 1)
      json_fail(&j, "an input spec of %u kinds", n_kinds);
  }
  return specs;
}

/* -- State ------------------------------------------------------------------------------------- */

/* Return an attribute's slot by name; the table has the slot's number + 1 as a pointer. */
static uint32_t attr_slot(const table *slots, str name)
{
  return (uint32_t)(uintptr_t)table_get(slots, name) - 1;
}
#define NO_SLOT UINT32_MAX

static type *make_class(ex_reader *r, const input_spec *specs, uint32_t n, const table *weights,
                        table *slots)
{
  type *cls = program_add_class(r->s, r->program, TYPE_CLASS, "__torch__.ExportedProgram");

  cls->cls->is_module = true;
  for (uint32_t i = 0; i < weights->n; i++) { /* everything that was saved is an attribute */
    const table_entry *e = &weights->entries[i];
    uint32_t slot = class_add_attr(
      r->s, cls, session_printf(r->s, "%.*s", (int)e->key.len, e->key.p), type_simple(TYPE_TENSOR));
    bool is_parameter = ((rush_tensor *)e->value)->h.flags & TENSOR_IS_PARAMETER;
    cls->cls->attrs[slot].is_parameter = is_parameter;
    cls->cls->attrs[slot].is_buffer = !is_parameter;
    session_table_put(r->s, slots, e->key, (void *)((uintptr_t)slot + 1));
  }
  for (uint32_t i = 0; i < n; i++)
    if (specs[i].kind == SPEC_STATE && attr_slot(slots, specs[i].target) == NO_SLOT)
      ex_fail(r, "the program uses '%.*s', which was not saved", (int)specs[i].target.len,
              specs[i].target.p);
  class_complete(r->s, cls);
  return cls;
}

static rush_object *make_object(ex_reader *r, const type *cls, const table *weights,
                                const table *slots)
{
  rush_object *o;

  session_check(r->s, object_new(r->s->cx, cls, cls->cls->n_attrs, &o));
  session_defer_value(r->s, value_heap_steal(RUSH_TAG_OBJECT, o));
  for (uint32_t i = 0; i < weights->n; i++) {
    uint32_t slot = attr_slot(slots, weights->entries[i].key);
    ASSERT(slot < o->n_slots, "every weight is an attribute");
    o->slots[slot] = value_retain(value_tensor_steal(weights->entries[i].value));
  }
  return o;
}

/* -- Leaves, constraints ----------------------------------------------------------------------- */

void *ex_keep_array(ex_reader *r, size_t n, size_t item)
{
  return session_alloc_in(r->s, &r->program->mem, (n + 1) * item);
}
const char *ex_keep_text(ex_reader *r, str text)
{
  char *copy = session_alloc_in(r->s, &r->program->mem, text.len + 1);

  if (text.len)
    memcpy(copy, text.p, text.len);
  return copy;
}

static void read_arg_names(ex_reader *r, str raw)
{
  exported *e = r->e;
  uint32_t cap = 0;
  json j;

  if (!raw.p || raw.p[0] != '[')
    return;
  json_init_at(&j, r->s, &r->in, raw);
  for (json_begin_array(&j); json_next_item(&j);) {
    GROW_IN(r->s, &r->program->mem, e->arg_names, e->n_arg_names, cap, 4);
    e->arg_names[e->n_arg_names] = ex_keep_text(r, ex_name(r, json_string(&j)));
    e->n_arg_names++;
  }
}

/* Check the form that torch.export writes and calls rely on: a tuple of args and a dict of kwargs
 * whose keys are names. */
static void check_in_spec(ex_reader *r)
{
  const tree_spec *in = r->e->in;

  if (in->kind != TREE_TUPLE || in->n_children != 2 || in->children[0].kind != TREE_TUPLE ||
      in->children[1].kind != TREE_DICT)
    ex_fail(r, "the input spec is no pair of a tuple of args and a dict of kwargs");
  const tree_spec *kwargs = &in->children[1];
  for (uint32_t i = 0; i < kwargs->n_children; i++) {
    if (kwargs->keys[i].tag != RUSH_TAG_STRING)
      ex_fail(r, "the input spec has a keyword argument whose name is no text");
    ex_name(r, value_str(kwargs->keys[i]));
  }
}

/* -- Names of leaves: x, x['key'], x[0], as guards and messages have them ---------------------- */

static void name_tree(ex_reader *r, const tree_spec *t, const char *path, uint32_t *leaf)
{
  if (t->kind == TREE_LEAF)
    r->e->leaf_names[(*leaf)++] = ex_keep_text(r, str_of(path));
  session_enter(r->s);
  for (uint32_t i = 0; i < t->n_children; i++) {
    rush_value key = t->keys ? t->keys[i] : value_int(i);
    const char *below =
      key.tag == RUSH_TAG_STRING
        ? session_printf(r->s, t->kind == TREE_OTHER ? "%s.%s" : "%s['%s']", path,
                         key.as.string->text)
        : session_printf(r->s, "%s[%lld]", path,
                         key.tag == RUSH_TAG_INT ? (long long)key.as.i : (long long)i);
    name_tree(r, &t->children[i], below, leaf);
  }
  session_leave(r->s);
}

static void name_leaves(ex_reader *r)
{
  exported *e = r->e;
  const tree_spec *pos = &e->in->children[0], *named = &e->in->children[1];
  uint32_t leaf = 0;

  e->leaf_names = ex_keep_array(r, e->n_leaves, sizeof(char *));
  for (uint32_t i = 0; i < pos->n_children; i++)
    name_tree(r, &pos->children[i],
              i < e->n_arg_names ? e->arg_names[i] : session_printf(r->s, "args[%u]", i), &leaf);
  for (uint32_t i = 0; i < named->n_children; i++)
    name_tree(r, &named->children[i], named->keys[i].as.string->text, &leaf);
}

/* -- Inputs and outputs of the graph ----------------------------------------------------------- */

static ir_value *get_attr(ex_reader *r, str target)
{
  ir_node *n = ir_node_new(r->s, r->g, IR_GET_ATTR, &r->self, 1);

  ir_attr_set_string(r->s, n, "name", session_printf(r->s, "%.*s", (int)target.len, target.p));
  ir_node_append(n, r->block);
  return ir_node_add_output(r->s, n, type_simple(TYPE_TENSOR));
}

/* Bind the next leaf: a constant, or an input of the graph, which is added to `leaves` by name. */
static void bind_leaf(ex_reader *r, const input_spec *spec, uint32_t leaf, table *leaves)
{
  exported *e = r->e;

  if (leaf >= e->n_leaves)
    ex_fail(r, "more user inputs than leaves in the input spec");
  e->leaf_constants[leaf] = spec->value;
  if (spec->value.tag != RUSH_TAG_UNSET)
    return;
  if (!spec->name.p)
    ex_fail(r, "a user input without a name");
  e->leaf_is_input[leaf] = true;
  ex_bind(r, spec->name,
          ir_block_add_input(r->s, r->g->block, spec->type, ex_keep_text(r, spec->name)));
  session_table_put(r->s, leaves, spec->name, (void *)((uintptr_t)leaf + 1));
}

/* Bind the graph's inputs to attributes, arguments and constants; fills the leaves, each once. */
static void bind_inputs(ex_reader *r, const model_parts *p, const input_spec *specs,
                        uint32_t n_specs, table *leaves)
{
  exported *e = r->e;
  uint32_t n, leaf = 0;
  str *names = ex_output_names(r, p->inputs, &n);

  if (n != n_specs)
    ex_fail(r, "%u input specs for %u inputs of the graph", n_specs, n);
  e->leaf_constants = ex_keep_array(r, e->n_leaves, sizeof(rush_value));
  e->leaf_is_input = ex_keep_array(r, e->n_leaves, sizeof(bool));
  for (uint32_t i = 0; i < n_specs; i++) {
    const input_spec *spec = &specs[i];
    if (spec->name.p && !str_eq(spec->name, names[i]))
      ex_fail(r, "input %u of the graph is '%.*s', its spec has '%.*s'", i, (int)names[i].len,
              names[i].p ? names[i].p : "", (int)spec->name.len, spec->name.p);
    if (spec->kind == SPEC_TOKEN &&
        names[i].p) /* only orders effects, as the order of nodes does */
      ex_bind(r, names[i], ex_constant(r, value_none(), NULL));
    else if (spec->kind == SPEC_STATE && names[i].p)
      ex_bind(r, names[i], get_attr(r, spec->target));
    else if (spec->kind == SPEC_USER || spec->kind == SPEC_CONSTANT)
      bind_leaf(r, spec, leaf++, leaves);
  }
  if (leaf != e->n_leaves)
    ex_fail(r, "%u user inputs, but %u leaves in the input spec", leaf, e->n_leaves);
}

static exported_output output_kind_of(json *j, str word)
{
  static const struct { const char *word; exported_output kind; } kinds[] = {
      {"user_output", OUTPUT_USER},
      {"loss_output", OUTPUT_USER},
      {"buffer_mutation", OUTPUT_BUFFER_MUTATION},
      {"parameter_mutation", OUTPUT_BUFFER_MUTATION},
      {"user_input_mutation", OUTPUT_INPUT_MUTATION},
      {"gradient_to_parameter", OUTPUT_IGNORED},
      {"gradient_to_user_input", OUTPUT_IGNORED},
      {"token", OUTPUT_IGNORED}};

  for (size_t i = 0; i < COUNT_OF(kinds); i++)
    if (str_is(word, kinds[i].word))
      return kinds[i].kind;
  json_fail(j, "an output spec of kind '%.*s' is not known here", (int)word.len, word.p);
}

typedef struct output_reader {
  ex_reader *r;
  const table *leaves, *slots;
  ir_value *const *outs; /* of the graph: n */
  uint32_t n;
} output_reader;

/* Return the target of a mutation: a tensor of the program or the caller. */
static uint32_t written_to(output_reader *q, json *j, exported_output kind, str name)
{
  const exported *e = q->r->e;
  uint32_t at = attr_slot(kind == OUTPUT_INPUT_MUTATION ? q->leaves : q->slots, name);

  if (at == NO_SLOT)
    json_fail(j, "there is no %s '%.*s' to write to",
              kind == OUTPUT_INPUT_MUTATION ? "input" : "buffer", (int)name.len,
              name.p ? name.p : "");
  const ir_value *input =
    kind == OUTPUT_INPUT_MUTATION ? table_get(&q->r->scope->values, name) : NULL;
  if (!type_is(q->outs[e->n_outputs]->type, TYPE_TENSOR) ||
      (input && !type_is(input->type, TYPE_TENSOR)))
    json_fail(j, "what is written to '%.*s', or that input, is no tensor", (int)name.len, name.p);
  return at;
}

static void read_output_spec(output_reader *q, json *j, str word)
{
  exported *e = q->r->e;
  struct exported_output_spec *o = &e->outputs[e->n_outputs];
  str key, target = {0};

  o->kind = output_kind_of(j, word);
  for (json_begin_object(j); json_next_key(j, &key);) {
    if (str_is(key, "buffer_name") || str_is(key, "parameter_name") ||
        str_is(key, "user_input_name"))
      target = ex_name(q->r, json_string(j));
    else
      json_skip(j);
  }
  if (o->kind == OUTPUT_BUFFER_MUTATION || o->kind == OUTPUT_INPUT_MUTATION)
    o->target = written_to(q, j, o->kind, target);
}

static void read_output_specs(output_reader *q, str text)
{
  exported *e = q->r->e;
  uint32_t n_user = 0;
  str kind;
  json j;

  e->outputs = ex_keep_array(q->r, q->n, sizeof *e->outputs);
  json_init_at(&j, q->r->s, &q->r->in, text);
  for (json_begin_array(&j); json_next_item(&j); e->n_outputs++) {
    uint32_t n_kinds = 0;
    if (e->n_outputs == q->n)
      json_fail(&j, "more output specs than the graph has outputs");
    for (json_begin_object(&j); json_next_key(&j, &kind); n_kinds++)
      read_output_spec(q, &j, kind);
    if (n_kinds != 1)
      json_fail(&j, "an output spec of %u kinds", n_kinds);
    n_user += e->outputs[e->n_outputs].kind == OUTPUT_USER;
  }
  if (e->n_outputs != q->n)
    json_fail(&j, "%u output specs for %u outputs of the graph", e->n_outputs, q->n);
  if (n_user != tree_n_leaves(e->out))
    json_fail(&j, "%u outputs for the user, but %u leaves in the output spec", n_user,
              tree_n_leaves(e->out));
}

/* -- The function ------------------------------------------------------------------------------ */

static void free_graph(void *g) { ir_graph_free(g); }

static schema *make_schema(ex_reader *r, const type *cls, const type *result)
{
  schema *sc = ex_keep_array(r, 1, sizeof *sc);
  uint32_t n = ir_block_n_inputs(r->g->block);

  *sc = (schema){.name = "forward", .overload = "", .n_args = n, .n_returns = 1};
  sc->args = ex_keep_array(r, n, sizeof *sc->args);
  sc->returns = ex_keep_array(r, 1, sizeof *sc->returns);
  sc->returns[0] = (schema_arg){.name = "", .type = result};
  for (uint32_t i = 0; i < n; i++) {
    ir_value *v = ir_block_input(r->g->block, i);
    sc->args[i] =
      (schema_arg){.name = i ? ex_keep_text(r, str_of(v->name ? v->name : "input")) : "self",
                   .type = i ? v->type : cls};
  }
  return sc;
}

static void finish_function(ex_reader *r, const type *cls, ir_value *const *outs, uint32_t n_outs)
{
  ir_node *tuple = ir_node_new(r->s, r->g, IR_TUPLE_CONSTRUCT, outs, n_outs);
  const type **types = session_array(r->s, const type *, n_outs + 1);

  for (uint32_t i = 0; i < n_outs; i++)
    types[i] = outs[i]->type;
  const type *t = type_tuple(&r->program->types, types, n_outs);
  if (!t)
    session_check(r->s, call_nomem(r->s->cx));
  ir_node_append(tuple, r->g->block);
  ir_block_add_output(r->s, r->g->block, ir_node_add_output(r->s, tuple, t));
  function *f = class_add_method(r->s, cls, "forward");
  f->schema = make_schema(r, cls, t);
  f->is_eager = true;
  for (uint32_t i = 0; i < r->e->n_outputs; i++) /* written around the graph */
    if (r->e->outputs[i].kind == OUTPUT_BUFFER_MUTATION)
      f->changes_state[0] = f->changes_state[1] = STATE_CHANGES;
  session_keep(r->s, r->g);
  function_set_graph_steal(f, r->g);
  r->e->forward = f;
}

static void free_scope(void *scope) { table_free(&((ex_scope *)scope)->values); }

static void begin_program(ex_reader *r, session *s, zip_archive *z, str program, module *m)
{
  const zip_entry *e =
    zip_need(s, z, session_printf(s, "models/%.*s.json", (int)program.len, program.p));

  *r = (ex_reader){.s = s, .zip = z, .m = m, .in = zip_input(s, z, e), .autocast = -1};
  r->program = program_new(s, s->cx->ctx);
  m->program = r->program; /* released with the module, also when loading fails */
  r->e = ex_keep_array(r, 1, sizeof *r->e);
  r->e->program = r->program;
  r->g = ir_graph_new(s, &r->program->types);
  session_defer(s, free_graph, r->g);
  r->block = r->g->block;
  r->scope = session_new(s, ex_scope);
  table_init(&r->scope->values, s->cx->ctx);
  session_defer(s, free_scope, r->scope);
}

static table *new_table(session *s)
{
  table *t = session_new(s, table);

  session_table_init(s, t);
  return t;
}

static void read_trees(ex_reader *r, const model_parts *p)
{
  exported *e = r->e;
  const str in = unquote(r, p->in_spec), out = unquote(r, p->out_spec);

  e->in = tree_parse(r->s, &r->program->mem, r->program, r->in.place, in);
  e->out = tree_parse(r->s, &r->program->mem, r->program, r->in.place, out);
  if (!tree_is_plain(e->in) || !tree_is_plain(e->out)) {
    e->in_text = ex_keep_text(r, in);
    e->out_text = ex_keep_text(r, out);
  }
  check_in_spec(r);
  e->n_leaves = tree_n_leaves(e->in);
  read_arg_names(r, p->arg_names);
  name_leaves(r);
}

void exported_program_load(session *s, zip_archive *z, str program, module *m)
{
  ex_reader *r = session_new(s, ex_reader);
  model_parts *p = session_new(s, model_parts);
  table *weights = new_table(s), *slots = new_table(s), *leaves = new_table(s),
        *ranges = new_table(s);
  uint32_t n_specs, n_outs;

  begin_program(r, s, z, program, m);
  split_model(r, p);
  read_config(r, "data/weights/",
              session_printf(s, "%.*s_weights_config.json", (int)program.len, program.p), weights);
  read_config(r, "data/constants/",
              session_printf(s, "%.*s_constants_config.json", (int)program.len, program.p),
              weights);
  read_trees(r, p);
  input_spec *specs = read_input_specs(r, p->input_specs, &n_specs);
  type *cls = make_class(r, specs, n_specs, weights, slots);
  rush_object *o = make_object(r, cls, weights, slots);
  r->self = ir_block_add_input(s, r->g->block, cls, "self");
  bind_inputs(r, p, specs, n_specs, leaves);
  ex_read_ranges(r, p, ranges);
  ex_read_metas(r, p, leaves, ranges);
  ex_read_guards(r, p, ranges);
  ex_read_nodes(r, p->nodes);
  ir_value **outs = ex_read_outputs(r, p->outputs, &n_outs);
  read_output_specs(&(output_reader){r, leaves, slots, outs, n_outs}, p->output_specs);
  finish_function(r, cls, outs, n_outs);
  m->format = RUSH_FORMAT_EXPORT;
  m->exported = r->e;
  m->object = value_retain(value_heap_steal(RUSH_TAG_OBJECT, o));
  m->samples = exported_samples(s, z, program);
  m->archive = zip_retain(z);
  m->archive_name = ex_keep_text(r, program);
}
