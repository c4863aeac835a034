/* archive/legacy.c -- archives of PyTorch 1.0 to 1.3 (records: docs/formats.md).
 *
 * model.json is a protobuf message in JSON: a tree of modules (name, parameters, attributes, the
 * record of their methods) and a table of tensors.  attributes.pkl contains the values of
 * attributes by index.  Methods are in code/NAME.py, one file per module, as plain functions; the
 * classes they use are in libs/. */
#include "archive/legacy.h"

#include "archive/unpickle.h"
#include "base/grow.h"
#include "formats/json.h"
#include "run/code.h"
#include "script/front/import.h"

typedef struct legacy {
  session *s;
  zip_archive *zip;
  program *program;
  input in;         /* model.json */
  size_t at;        /* where in it: the tensor or module at work */
  unpickler *u;     /* has the tensors by index */
  const rush_value *values; /* of attributes.pkl */
  size_t n_values;
} legacy;

typedef struct module_parts { /* slices of model.json; empty: absent */
  str name, submodules, parameters, attributes, code;
  int64_t state; /* index of what __setstate__ gets, or -1 */
} module_parts;

/* -- protobuf's JSON --------------------------------------------------------------------------- */

/* True if the key is the field: names are written in camel case, and both forms are accepted. */
static bool is_field(str key, const char *name)
{
  size_t i = 0;

  if (str_is(key, name))
    return true;
  for (; *name; name++, i++) {
    bool up = *name == '_';
    name += up;
    if (i >= key.len || key.p[i] != (up ? *name - 32 : *name))
      return false;
  }
  return i == key.len;
}

/* Read a 64-bit integer, which is a string. */
static int64_t read_int(json *j)
{
  if (json_peek(j) != JSON_STRING)
    return json_int(j);
  str t = json_string(j);
  int64_t v = 0;
  bool minus = t.len && t.p[0] == '-';
  for (size_t i = minus; i < t.len; i++) {
    if (t.p[i] < '0' || t.p[i] > '9' || v > (INT64_MAX - 9) / 10)
      json_fail(j, "expected an integer, found \"%.*s\"", (int)(t.len < 24 ? t.len : 24), t.p);
    v = v * 10 + (t.p[i] - '0');
  }
  return minus ? -v : v;
}

static int read_dims(json *j, int64_t *out)
{
  int n = 0;

  for (json_begin_array(j); json_next_item(j); n++) {
    if (n == TENSOR_MAX_DIMS)
      json_fail(j, "more than %d dimensions", TENSOR_MAX_DIMS);
    out[n] = read_int(j);
    if (out[n] < 0)
      json_fail(j, "size or stride %lld is negative", (long long)out[n]);
  }
  return n;
}

/* Read {"key": "tensors/0"}. */
static str read_reference(json *j)
{
  str key, found = {"", 0};

  for (json_begin_object(j); json_next_key(j, &key);) {
    if (str_is(key, "key"))
      found = json_string(j);
    else
      json_skip(j);
  }
  return found;
}

/* -- Tensors ----------------------------------------------------------------------------------- */

typedef struct tensor_def {
  int64_t sizes[TENSOR_MAX_DIMS], strides[TENSOR_MAX_DIMS], offset, zero_point;
  int n_sizes, n_strides, dtype;
  double scale;
  bool requires_grad, is_quantized;
  str record;
} tensor_def;

static int read_dtype(json *j)
{
  static const struct { const char *name; int number, dtype; } rows[] = {
      {"FLOAT", 1, RUSH_FLOAT32},  {"INT32", 2, RUSH_INT32},  {"BYTE", 3, RUSH_UINT8},
      {"BOOL", 5, RUSH_BOOL},      {"UINT8", 6, RUSH_UINT8},  {"INT8", 7, RUSH_INT8},
      {"INT16", 9, RUSH_INT16},    {"INT64", 10, RUSH_INT64}, {"FLOAT16", 12, RUSH_FLOAT16},
      {"DOUBLE", 13, RUSH_FLOAT64},
  };
  bool named = json_peek(j) == JSON_STRING;
  str name = named ? json_string(j) : STR("");
  int64_t number = named ? -1 : json_int(j);
  for (size_t i = 0; i < COUNT_OF(rows); i++)
    if (named ? str_is(name, rows[i].name) : number == rows[i].number)
      return rows[i].dtype;
  json_fail(j, "data type '%.*s' is not known", (int)(name.len < 24 ? name.len : 24), name.p);
}

static void read_tensor_def(json *j, tensor_def *d)
{
  str key;

  *d = (tensor_def){.dtype = RUSH_FLOAT32, .scale = 1};
  for (json_begin_object(j); json_next_key(j, &key);) {
    if (is_field(key, "dims"))
      d->n_sizes = read_dims(j, d->sizes);
    else if (is_field(key, "strides"))
      d->n_strides = read_dims(j, d->strides);
    else if (is_field(key, "offset"))
      d->offset = read_int(j);
    else if (is_field(key, "requires_grad"))
      d->requires_grad = json_bool(j);
    else if (is_field(key, "data_type"))
      d->dtype = read_dtype(j);
    else if (is_field(key, "data"))
      d->record = read_reference(j);
    else if (is_field(key, "is_quantized"))
      d->is_quantized = json_bool(j);
    else if (is_field(key, "scale"))
      d->scale = json_double(j);
    else if (is_field(key, "zero_point"))
      d->zero_point = read_int(j);
    else
      json_skip(j);
  }
  if (d->n_sizes != d->n_strides)
    json_fail(j, "%d sizes, but %d strides", d->n_sizes, d->n_strides);
  if (d->is_quantized)
    d->dtype = d->dtype == RUSH_UINT8  ? RUSH_QUINT8
               : d->dtype == RUSH_INT8 ? RUSH_QINT8
                                       : RUSH_QINT32;
}

static rush_value make_tensor(legacy *l, const tensor_def *d)
{
  storage *st = unpickler_storage(l->u, d->record, d->dtype);
  rush_tensor *t;

  input_check(
    l->s, &l->in, l->at,
    tensor_new_view(l->s->cx, st, d->dtype, d->n_sizes, d->sizes, d->strides, d->offset, &t));
  rush_value v = value_tensor_steal(t);
  session_defer_value(l->s, v);
  if (d->is_quantized)
    session_check(
      l->s, tensor_set_quantizer(l->s->cx, t,
                                 &(quantizer){.scale = d->scale, .zero_point = d->zero_point}));
  if (d->requires_grad)
    t->h.flags |= TENSOR_REQUIRES_GRAD;
  return v;
}

static void read_tensors(legacy *l, str part)
{
  json j;
  uint32_t n = 0, cap = 16;
  rush_value *all = session_array(l->s, rush_value, cap);

  if (part.len) {
    json_init_at(&j, l->s, &l->in, part);
    for (json_begin_array(&j); json_next_item(&j);) {
      tensor_def d;
      l->at = j.pos;
      read_tensor_def(&j, &d);
      GROW(l->s, all, n, cap, 0);
      all[n++] = make_tensor(l, &d);
    }
  }
  l->u->tensors = all;
  l->u->n_tensors = n;
  l->program->constants = session_alloc_in(l->s, &l->program->mem, (n + 1) * sizeof(rush_value));
  for (uint32_t i = 0; i < n; i++) /* CONSTANTS.cN is the table's tensor N */
    l->program->constants[i] = value_retain(all[i]);
  l->program->n_constants = n;
}

static rush_value tensor_at(legacy *l, json *j, int64_t i)
{
  if (i < 0 || i >= l->u->n_tensors)
    json_fail(j, "there is no tensor %lld", (long long)i);
  return l->u->tensors[i];
}

/* -- Modules ----------------------------------------------------------------------------------- */

static void read_module_parts(legacy *l, str part, module_parts *m)
{
  json j;
  str key;

  *m = (module_parts){.state = -1};
  json_init_at(&j, l->s, &l->in, part);
  for (json_begin_object(&j); json_next_key(&j, &key);) {
    if (is_field(key, "name"))
      m->name = json_string(&j);
    else if (is_field(key, "submodules"))
      m->submodules = json_raw(&j);
    else if (is_field(key, "parameters"))
      m->parameters = json_raw(&j);
    else if (is_field(key, "attributes"))
      m->attributes = json_raw(&j);
    else if (is_field(key, "torchscript_arena"))
      m->code = read_reference(&j);
    else if (is_field(key, "get_state_attribute_id"))
      m->state = read_int(&j);
    else
      json_skip(&j);
  }
}

/* Return the qualified name: "layer.0" below "__torch__.M" is "__torch__.M.layer._0". */
static const char *qualified_below(legacy *l, const char *parent, str name)
{
  char *q = session_alloc(l->s, strlen(parent) + 2 * name.len + 3), *to = q + strlen(parent);
  bool digits = true;

  memcpy(q, parent, strlen(parent));
  *to++ = '.';
  for (size_t i = 0, begin = 0; i <= name.len; i++) {
    if (i < name.len && name.p[i] != '.') {
      digits = digits && name.p[i] >= '0' && name.p[i] <= '9';
      continue;
    }
    if (digits)
      *to++ = '_';
    if (i > begin) /* a module may have no name */
      memcpy(to, name.p + begin, i - begin);
    to += i - begin;
    if (i < name.len)
      *to++ = '.';
    begin = i + 1;
    digits = true;
  }
  *to = '\0';
  return q;
}

typedef struct slots { /* attributes while they are collected */
  type *cls;
  rush_value *at;
  uint32_t n, cap;
} slots;

static uint32_t add_slot(legacy *l, slots *o, str name, const type *t, rush_value v)
{
  GROW(l->s, o->at, o->n, o->cap, 16);
  o->at[o->n++] = v;
  return class_add_attr(l->s, o->cls, session_printf(l->s, "%.*s", (int)name.len, name.p), t);
}

static void read_parameters(legacy *l, str part, slots *o)
{
  json j;
  str key;

  json_init_at(&j, l->s, &l->in, part);
  for (json_begin_array(&j); json_next_item(&j);) {
    str name = {"", 0};
    bool is_buffer = false;
    int64_t id = 0;
    for (json_begin_object(&j); json_next_key(&j, &key);) {
      if (is_field(key, "name"))
        name = json_string(&j);
      else if (is_field(key, "is_buffer"))
        is_buffer = json_bool(&j);
      else if (is_field(key, "tensor_id"))
        id = read_int(&j);
      else
        json_skip(&j);
    }
    uint32_t slot = add_slot(l, o, name, type_simple(TYPE_TENSOR), tensor_at(l, &j, id));
    o->cls->cls->attrs[slot].is_buffer = is_buffer;
    o->cls->cls->attrs[slot].is_parameter = !is_buffer;
  }
}

static void read_attributes(legacy *l, str part, slots *o)
{
  json j;
  str key;

  json_init_at(&j, l->s, &l->in, part);
  for (json_begin_array(&j); json_next_item(&j);) {
    str name = {"", 0}, text = {"", 0};
    int64_t id = 0;
    for (json_begin_object(&j); json_next_key(&j, &key);) {
      if (is_field(key, "name"))
        name = json_string(&j);
      else if (is_field(key, "type"))
        text = json_string(&j);
      else if (is_field(key, "id"))
        id = read_int(&j);
      else
        json_skip(&j);
    }
    if (class_attr_index(o->cls, name) >= 0)
      continue; /* a buffer above */
    if (id >= 0 && (uint64_t)id >= l->n_values)
      json_fail(&j, "attribute '%.*s': there is no value %lld", (int)name.len, name.p,
                (long long)id);
    const type *t = script_parse_type(l->s, l->program, text);
    rush_value v = id < 0 ? value_none() : l->values[id];
    if (v.tag == RUSH_TAG_INT && t->kind == TYPE_FLOAT)
      v = value_float((double)v.as.i);
    value_retype(l->s, v, t);
    add_slot(l, o, name, t, v);
  }
}

static void set_object_state(legacy *l, rush_value object, int64_t id)
{
  const type *t = object.as.object->type;
  function *f = class_find_method(t, "__setstate__");

  if (!f || f->schema->n_args > 2 || (uint64_t)id >= l->n_values)
    input_fail(l->s, &l->in, l->at, "class '%s' has state, but no __setstate__ that takes it",
               t->name);
  rush_value args[2] = {object, l->values[id]}, result;
  function_ensure(l->s, f);
  if (f->schema->n_args == 2) {
    value_retype(l->s, args[1], f->schema->args[1].type);
    if (!type_contains_value(f->schema->args[1].type, args[1]))
      input_fail(l->s, &l->in, l->at, "the state of '%s' has another type", t->name);
  }
  session_check(l->s, function_call(l->s->cx, f, args, f->schema->n_args, &result));
  value_release(result);
}

static rush_value read_module(legacy *l, const char *parent, str part, str *name);

static void read_submodules(legacy *l, const char *qualified, str part, slots *o)
{
  json j;
  str name;

  json_init_at(&j, l->s, &l->in, part);
  for (json_begin_array(&j); json_next_item(&j);) {
    rush_value child = read_module(l, qualified, json_raw(&j), &name);
    add_slot(l, o, name, child.as.object->type, child);
  }
}

static rush_value make_object(legacy *l, const slots *o, int64_t state)
{
  rush_object *object;

  session_check(l->s, object_new(l->s->cx, o->cls, o->n, &object));
  rush_value v = value_heap_steal(RUSH_TAG_OBJECT, object);
  session_defer_value(l->s, v);
  for (uint32_t i = 0; i < o->n; i++)
    object->slots[i] = value_retain(o->at[i]);
  if (state >= 0)
    set_object_state(l, v, state);
  for (uint32_t i = 0; i < o->n; i++)
    if (!type_contains_value(o->cls->cls->attrs[i].type, object->slots[i]))
      input_fail(l->s, &l->in, l->at, "attribute '%s' of %s has a value of another type",
                 o->cls->cls->attrs[i].name, o->cls->name);
  return v;
}

/* Make the object of one ModuleDef.  Its class has attributes in PyTorch's order, then methods. */
static rush_value read_module(legacy *l, const char *parent, str part, str *name)
{
  module_parts m;
  slots o = {0};

  session_enter(l->s);
  read_module_parts(l, part, &m);
  const char *qualified = qualified_below(l, parent, m.name);
  o.cls = program_add_class(l->s, l->program, TYPE_CLASS, qualified);
  o.cls->cls->is_module = true;
  if (m.submodules.len)
    read_submodules(l, qualified, m.submodules, &o);
  if (m.parameters.len)
    read_parameters(l, m.parameters, &o);
  if (m.attributes.len)
    read_attributes(l, m.attributes, &o);
  if (m.code.len) {
    const zip_entry *e =
      zip_need(l->s, l->zip, session_printf(l->s, "%.*s", (int)m.code.len, m.code.p));
    str text = zip_read(l->s, l->zip, e, NULL);
    script_import_methods(l->s, l->program, o.cls,
                          session_printf(l->s, "%.*s", (int)m.code.len, m.code.p), text);
  }
  l->at = (size_t)(part.p - l->in.bytes.p);
  rush_value v = make_object(l, &o, m.state);
  *name = m.name;
  session_leave(l->s);
  return v;
}

/* -- The archive ------------------------------------------------------------------------------- */

static void read_values(legacy *l)
{
  const zip_entry *e = zip_find(l->zip, "attributes.pkl");

  if (!e)
    return;
  input in = zip_input(l->s, l->zip, e);
  rush_value v = unpickle(l->u, pickle_read_all(l->s, &in));
  if (v.tag == RUSH_TAG_LIST) {
    l->values = v.as.list->items;
    l->n_values = v.as.list->n;
  } else if (v.tag == RUSH_TAG_TUPLE) {
    l->values = v.as.tuple->items;
    l->n_values = v.as.tuple->n;
  } else {
    zip_fail(l->s, l->zip, e, "expected a list or a tuple");
  }
}

rush_value legacy_load(session *s, zip_archive *z, program *p, unpickler *u)
{
  const zip_entry *e = zip_need(s, z, "model.json");
  legacy l = {.s = s, .zip = z, .program = p, .in = zip_input(s, z, e), .u = u};
  str key, main = {0}, tensors = {0}, name;
  int64_t proto = 0;
  json j;

  json_init(&j, s, &l.in);
  for (json_begin_object(&j); json_next_key(&j, &key);) {
    if (is_field(key, "proto_version"))
      proto = read_int(&j);
    else if (is_field(key, "main_module"))
      main = json_raw(&j);
    else if (is_field(key, "tensors"))
      tensors = json_raw(&j);
    else
      json_skip(&j);
  }
  json_end(&j);
  if (proto > 5 || !main.len)
    zip_fail(s, z, e, "protocol %lld %s; this build reads 1 to 5", (long long)proto,
             main.len ? "" : "without a module");
  read_tensors(&l, tensors);
  read_values(&l);
  return read_module(&l, "__torch__", main, &name);
}
