/* archive/exported_program.c -- opens a torch.export archive (.pt2) to run it: reads the program as
 * data (exported_read.h) and its weights, and lowers it (export/lower.h).  Weights that share a
 * record share a storage, so that tied weights remain tied. */
#include "archive/exported_program.h"

#include "archive/exported_older.h"
#include "archive/exported_read.h"
#include "archive/storages.h"
#include "archive/torchscript.h"
#include "archive/unpickle.h"
#include "export/lower.h"
#include "export/text.h"
#include "export/verify.h"

/* -- Weights and constants --------------------------------------------------------------------- */

typedef struct weight { /* one entry of a config */
  str name, path;
  bool is_parameter, use_pickle, requires_grad, has_meta;
  int dtype;
  int64_t layout;
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

  w->has_meta = true;
  for (json_begin_object(j); json_next_key(j, &key);) {
    if (str_is(key, "dtype"))
      w->dtype = read_schema_dtype(j);
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

#define WEIGHTS "data/weights/"
#define CONSTANTS "data/constants/"

/* Storages by record path: shared records (tied weights, views) are one storage. */
typedef struct weight_reader {
  session *s;
  zip_archive *zip;
  input in;  /* the config */
  size_t at; /* position in it: the last weight that was begun */
  type_store *types;
  const char *folder;
  bool is_weights; /* folder is WEIGHTS */
  table storages;
} weight_reader;

/* Leave the session with RUSH_EFORMAT: "PLACE: offset N: message". */
_Noreturn static void weight_fail(weight_reader *w, const weight *e, const char *what)
{
  input_fail(w->s, &w->in, w->at, "weight '%.*s' %s", (int)e->name.len, e->name.p, what);
}

static str plain_name(json *j, str name)
{
  if (name.len && memchr(name.p, 0, name.len))
    json_fail(j, "the name '%.*s' has a NUL in it", (int)name.len, name.p);
  return name;
}

static storage *record_storage(weight_reader *w, str path)
{
  storage *st = table_get(&w->storages, path);
  session *s = w->s;
  mapping *owner = NULL;

  if (st)
    return st;
  const zip_entry *e =
    zip_need(s, w->zip, session_printf(s, "%s%.*s", w->folder, (int)path.len, path.p));
  str bytes = zip_read(s, w->zip, e, &owner);
  st = storage_of_bytes(s, bytes, owner, DTYPE_MOST_ALIGNED, 0);
  session_table_put(s, &w->storages, path, st);
  return st;
}

/* Read a weight that torch.save wrote (use_pickle). */
static rush_value pickled_weight(weight_reader *w, const weight *e)
{
  session *s = w->s;
  const zip_entry *entry =
    zip_need(s, w->zip, session_printf(s, "%s%.*s", w->folder, (int)e->path.len, e->path.p));
  mapping *map, *owner = NULL;
  str bytes = zip_read(s, w->zip, entry, &owner);

  session_check(s, mapping_copy(s->cx, w->zip->map->name, bytes.p, bytes.len, &map));
  mapping_defer(s, map);
  return torchscript_load_value(s, zip_open(s, map, false), w->types, false);
}

#define LAYOUT_STRIDED 7 /* of the schema; sparse weights are written with use_pickle */

static void check_weight(weight_reader *w, const weight *e, int dtype)
{
  if (e->n_strides != e->n_dims)
    weight_fail(w, e, session_printf(w->s, "has %d sizes and %d strides", e->n_dims, e->n_strides));
  if (e->layout != LAYOUT_STRIDED)
    weight_fail(w, e, session_printf(w->s, "has layout %lld; only strided ones (%d) are supported",
                                     (long long)e->layout, LAYOUT_STRIDED));
  if (e->requires_grad && !dtype_is_float(dtype) && !dtype_is_complex(dtype))
    weight_fail(w, e, "requires grad: Only Tensors of floating point and complex dtype can require "
                      "gradients");
}

static rush_tensor *make_weight(weight_reader *w, const weight *e)
{
  session *s = w->s;
  rush_tensor *t;

  if (e->use_pickle) {
    rush_value v = pickled_weight(w, e);
    if (v.tag != RUSH_TAG_TENSOR || !v.as.tensor)
      weight_fail(w, e, "is no tensor");
    session_check(s, tensor_alias(s->cx, v.as.tensor, &t));
    return t;
  }
  check_weight(w, e, e->dtype);
  storage *st = record_storage(w, e->path);
  input_check(s, &w->in, w->at,
              tensor_new_view(s->cx, st, e->dtype, e->n_dims, e->sizes, e->strides, e->offset, &t));
  if (e->requires_grad)
    t->h.flags |= TENSOR_REQUIRES_GRAD;
  if (e->is_parameter)
    t->h.flags |= TENSOR_IS_PARAMETER;
  return t;
}

/* True for a custom object or an opaque one: only its library knows what its pickle calls, so that
 * it is kept and never read. */
static bool is_object(const weight *e)
{
  static const str prefixes[] = {STR("custom_obj_"), STR("opaque_obj_")};

  for (size_t i = 0; i < COUNT_OF(prefixes); i++)
    if (e->use_pickle && e->path.len >= prefixes[i].len &&
        memcmp(e->path.p, prefixes[i].p, prefixes[i].len) == 0)
      return true;
  return false;
}

static weight *parse_weight(weight_reader *w, json *j, str name)
{
  weight *e = session_new(w->s, weight);
  str key;

  w->at = j->pos;
  e->name = plain_name(j, name);
  e->layout = LAYOUT_STRIDED;
  for (json_begin_object(j); json_next_key(j, &key);) {
    if (str_is(key, "path_name"))
      e->path = plain_name(j, json_string(j));
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
  w->at = j->pos;
  return e;
}

/* Make the entry's tensor, and put it into `all`. */
static void load_weight(weight_reader *w, json *j, const weight *e, void *all)
{
  if (is_object(e))
    return;
  rush_tensor *t = make_weight(w, e);

  session_defer_value(w->s, value_tensor_steal(t));
  if (table_get(all, e->name))
    json_fail(j, "a second weight '%.*s'", (int)e->name.len, e->name.p);
  session_table_put(w->s, all, e->name, t);
}

/* Note what the entry says, and read nothing else. */
static void note_weight(weight_reader *w, json *j, const weight *e, void *all)
{
  export_state *state = table_get(all, e->name);

  (void)j;
  if (!state)
    state = session_new(w->s, export_state);
  state->is_weight |= w->is_weights;
  state->is_constant |= !w->is_weights;
  state->is_parameter |= e->is_parameter;
  state->dtype = e->dtype;
  state->n_dims = e->has_meta ? e->n_dims : -1;
  state->sizes = e->sizes;
  session_table_put(w->s, all, e->name, state);
}

typedef void use_weight(weight_reader *w, json *j, const weight *e, void *arg);

/* Call use(reader, json, entry, arg) for each entry of FOLDER/CONFIG; `types` may be NULL. */
static void read_config(session *s, zip_archive *z, type_store *types, const char *folder,
                        const char *config, use_weight *use, void *arg)
{
  const zip_entry *e = zip_find(z, session_printf(s, "%s%s", folder, config));
  weight_reader *w = session_new(s, weight_reader);
  str key, name;
  json j;

  if (!e)
    return;
  *w = (weight_reader){
    .s = s, .zip = z, .in = zip_input(s, z, e), .types = types, .folder = folder};
  w->is_weights = strcmp(folder, WEIGHTS) == 0;
  session_table_init(s, &w->storages);
  json_init(&j, s, &w->in);
  for (json_begin_object(&j); json_next_key(&j, &key);) {
    if (!str_is(key, "config")) {
      json_skip(&j);
      continue;
    }
    for (json_begin_object(&j); json_next_key(&j, &name);)
      use(w, &j, parse_weight(w, &j, name), arg);
  }
  json_end(&j);
}

/* Read the configs of weights and of constants. */
static void read_configs(session *s, zip_archive *z, type_store *types, str name, use_weight *use,
                         table *all, bool is_constants)
{
  read_config(s, z, types, is_constants ? CONSTANTS : WEIGHTS,
              session_printf(s, "%.*s_%s_config.json", (int)name.len, name.p,
                             is_constants ? "constants" : "weights"),
              use, all);
}

/* Note what the tensors of a pickled state are. */
static void note_pickled(session *s, zip_archive *z, const zip_entry *e, type_store *types,
                         table *all, bool is_constants)
{
  table *state = session_new(s, table);

  session_table_init(s, state);
  exported_read_pickled(s, z, e, types, state);
  for (uint32_t i = 0; i < state->n; i++) {
    const rush_tensor *t = state->entries[i].value;
    export_state *known = table_get(all, state->entries[i].key);
    if (!known)
      known = session_new(s, export_state);
    known->is_weight |= !is_constants;
    known->is_constant |= is_constants;
    known->is_parameter |= (t->h.flags & TENSOR_IS_PARAMETER) != 0;
    known->dtype = t->dtype;
    known->n_dims = t->n_dims;
    known->sizes = t->sizes;
    session_table_put(s, all, state->entries[i].key, known);
  }
}

static void release_program(void *p) { program_release(p); }

/* Note what each tensor of the state is, without reading more than is needed. */
static void note_state(session *s, zip_archive *z, str name, table *state)
{
  for (int i = 0; i < 2; i++) {
    const zip_entry *e = exported_pickled_state(s, z, name, i == 1);
    if (!e) {
      read_configs(s, z, NULL, name, note_weight, state, i == 1);
      continue;
    }
    program *types = program_new(s, s->cx->ctx);
    session_defer(s, release_program, types);
    note_pickled(s, z, e, &types->types, state, i == 1);
  }
}

uint32_t exported_faults(session *s, zip_archive *z, const exported_program *p,
                         const char *dialect, text_buf *out)
{
  table *state = session_new(s, table);
  const export_verify_options options = {.dialect = dialect, .state = z ? state : NULL};

  session_table_init(s, state);
  if (z)
    note_state(s, z, str_of(p->name), state);
  return export_verify(s, p, &options, out);
}

void exported_state_read(session *s, zip_archive *z, str name, program *types, table *state,
                         uint32_t *n_weights)
{
  type_store *ts = &types->types;

  for (int i = 0; i < 2; i++) {
    const zip_entry *e = exported_pickled_state(s, z, name, i == 1);
    if (e)
      exported_read_pickled(s, z, e, ts, state);
    else
      read_configs(s, z, ts, name, load_weight, state, i == 1);
    *n_weights = i == 0 ? state->n : *n_weights;
  }
}

void exported_module_fill(session *s, zip_archive *z, str name, const table *state,
                          bool check_guards, module *m)
{
  exported_program *data = exported_read(s, z, name, EXPORTED_TO_RUN);
  program *p = m->program;
  rush_value self;

  if (!check_guards)
    data->n_guards = 0;
  exported_attach_places(s, p, z, name);
  m->exported = exported_lower(s, data, state, p, &self);
  m->format = RUSH_FORMAT_EXPORT;
  m->object = value_retain(self);
  m->samples = exported_samples(s, z, name);
  m->archive = zip_retain(z);
  m->archive_name = memcpy(session_alloc_in(s, &p->mem, name.len + 1), name.p, name.len);
}

void exported_program_load(session *s, zip_archive *z, str name, module *m)
{
  table *state = session_new(s, table);
  uint32_t n_weights;

  m->program = program_new(s, s->cx->ctx); /* the module's, also if loading fails */
  session_table_init(s, state);
  exported_state_read(s, z, name, m->program, state, &n_weights);
  exported_module_fill(s, z, name, state, true, m);
}

/* -- From text --------------------------------------------------------------------------------- */

/* Note the tensors of an exported module: its attributes, in their order. */
static void note_tensors(session *s, const module *m, table *state)
{
  const rush_object *o = m->object.as.object;
  const class_info *cls = o->type->cls;

  for (uint32_t i = 0; i < cls->n_attrs; i++)
    if (o->slots[i].tag == RUSH_TAG_TENSOR && o->slots[i].as.tensor)
      session_table_put(s, state, str_of(cls->attrs[i].name), o->slots[i].as.tensor);
}

void exported_program_parse(session *s, const char *place, str text, const module *weights,
                            module *m)
{
  table *state = session_new(s, table);
  rush_value self;

  if (!weights->exported)
    session_fail_status(s, RUSH_EARGUMENT, NULL, NULL,
                        "%s: the weights of a text are those of an exported program", place);
  m->data = session_keep(s, exported_parse_text(s, place, text));
  if (weights->archive && strcmp(m->data->name, weights->archive_name) != 0)
    session_fail_status(s, RUSH_EARGUMENT, NULL, NULL,
                        "%s: the text is of the program '%s', the weights are of '%s'", place,
                        m->data->name, weights->archive_name);
  session_table_init(s, state);
  note_tensors(s, weights, state);
  program *p = m->program = program_new(s, s->cx->ctx);
  m->exported = exported_lower(s, m->data, state, p, &self);
  m->format = RUSH_FORMAT_EXPORT;
  m->object = value_retain(self);
  m->samples = weights->samples ? mapping_retain(weights->samples) : NULL;
  m->archive = weights->archive ? zip_retain(weights->archive) : NULL;
  m->archive_name = m->data->name;
}
