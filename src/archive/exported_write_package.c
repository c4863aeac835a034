/* archive/exported_write_package.c -- the records of a torch.export archive: those of the archive
 * that the module was made from, in their order, with new ones in the place of the program, its
 * configs and its weights.  So other programs, sample inputs, pickles and records that are not
 * known here stay as they are.  A program that was captured here has no archive: it gets the
 * records that torch.export.save writes.
 *
 * Weights are the present ones of the module.  Tensors that share a storage share a record; a
 * storage keeps the name of its record and is written whole, so that strides, offsets and what is
 * between views stay.  A state that a call replaced may be a small part of a large storage: then
 * only that part is written.  What was pickled is copied as bytes, never interpreted.
 *
 * Cost: O(bytes); memory: the texts. */
#include "archive/exported_write.h"

#include "archive/exported_older.h"

#include "base/grow.h"
#include "formats/zip_write.h"
#include "tensor/sparse.h"

typedef struct record { /* written in the place of one of the archive, or behind all */
  const char *path;
  const void *data;
  size_t n_bytes;
  bool is_written;
} record;

typedef struct package_writer {
  session *s;
  const exported_source *source;
  const zip_archive *from; /* the source's; NULL: none, or of the older layout */
  zip_writer *zip;
  table records; /* path -> record */
  table state;   /* name -> exported_tensor, of those that are tensors now */
} package_writer;

static void put_record(package_writer *w, const char *path, const void *data, size_t n_bytes)
{
  record *r = session_new(w->s, record);

  *r = (record){.path = path, .data = data, .n_bytes = n_bytes};
  session_table_put(w->s, &w->records, str_of(path), r);
}

static const zip_entry *find_record(const package_writer *w, const char *path)
{
  return w->from ? zip_find(w->from, path) : NULL;
}

static void put_text(package_writer *w, const char *path, text_buf *text)
{
  if (text_failed(text))
    session_check(w->s, call_nomem(w->s->cx));
  put_record(w, path, text_str(text), text->len);
}

/* -- State ------------------------------------------------------------------------------------- */

typedef struct payload_storage { /* a storage and its record */
  const storage *st; /* first: the key of the table below is these bytes */
  const char *path;
  uint32_t n_users;
} payload_storage;

typedef struct payload { /* an entry of a config */
  str name, path, json;
  str device; /* JSON; empty: not known */
  bool is_param, use_pickle;
  const rush_tensor *t; /* the module's; NULL: the record is copied */
  payload_storage *at;  /* of t */
} payload;

typedef struct config_writer {
  package_writer *w;
  input in;
  const char *folder, *prefix; /* "data/weights/", "weight_" */
  payload **items;
  uint32_t n, cap;
  table storages; /* bytes of a pointer -> payload_storage */
  table paths;    /* of records that are used */
  uint32_t n_new; /* names that were tried for new records */
} config_writer;

static void find_device(json *j, payload *p)
{
  str key;

  for (json_begin_object(j); json_next_key(j, &key);)
    if (str_is(key, "device"))
      p->device = json_raw(j);
    else
      json_skip(j);
}

static void read_payload(config_writer *c, str name, str text)
{
  payload *p = session_new(c->w->s, payload);
  str key;
  json j;

  *p = (payload){.name = name, .json = text};
  json_init_at(&j, c->w->s, &c->in, text);
  for (json_begin_object(&j); json_next_key(&j, &key);) {
    if (str_is(key, "path_name"))
      p->path = json_string(&j);
    else if (str_is(key, "is_param"))
      p->is_param = json_bool(&j);
    else if (str_is(key, "use_pickle"))
      p->use_pickle = json_bool(&j);
    else if (str_is(key, "tensor_meta") && !json_is_null(&j))
      find_device(&j, p);
    else
      json_skip(&j);
  }
  if (!p->path.len)
    json_fail(&j, "an entry without path_name");
  const exported_tensor *now = p->use_pickle ? NULL : table_get(&c->w->state, name);
  p->t = now ? now->tensor : NULL;
  if (!p->t)
    session_table_put(c->w->s, &c->paths, p->path, p);
  GROW(c->w->s, c->items, c->n, c->cap, 64);
  c->items[c->n++] = p;
}

static void read_config(config_writer *c)
{
  str key, name;
  json j;

  json_init(&j, c->w->s, &c->in);
  for (json_begin_object(&j); json_next_key(&j, &key);) {
    if (!str_is(key, "config")) {
      json_skip(&j);
      continue;
    }
    for (json_begin_object(&j); json_next_key(&j, &name);)
      read_payload(c, name, json_raw(&j));
  }
  json_end(&j);
}

/* Return the name of a record for p: its own, or a new one if that is another storage's. */
static const char *choose_path(config_writer *c, const payload *p)
{
  session *s = c->w->s;
  const char *path = session_strndup(s, p->path.p, p->path.len);

  while (table_get(&c->paths, str_of(path)) ||
         (c->n_new && find_record(c->w, session_printf(s, "%s%s", c->folder, path))))
    path = session_printf(s, "%s%u", c->prefix, c->n_new++);
  return path;
}

/* Find a record for the storage of p's tensor. */
static void place_payload(config_writer *c, payload *p)
{
  const storage *st = p->t->st;

  if (!st || tensor_sparse(p->t) || !schema_dtype_of(p->t->dtype))
    session_fail_status(c->w->s, RUSH_EUNSUPPORTED, NULL, NULL,
                        "'%.*s' cannot be written: a sparse or %s tensor, where the program had a "
                        "plain one",
                        (int)p->name.len, p->name.p, dtype_name(p->t->dtype));
  p->at = table_get(&c->storages, (str){(const char *)&st, sizeof st});
  if (!p->at) {
    p->at = session_new(c->w->s, payload_storage);
    p->at->st = st;
    p->at->path = choose_path(c, p);
    session_table_put(c->w->s, &c->storages, (str){(const char *)&p->at->st, sizeof st}, p->at);
    session_table_put(c->w->s, &c->paths, str_of(p->at->path), p->at);
  }
  p->at->n_users++;
}

/* Return the bytes from a tensor's first element to behind its last. */
static size_t span_of(const rush_tensor *t)
{
  int64_t last = 0;

  if (t->n_elems == 0)
    return 0;
  for (int i = 0; i < t->n_dims; i++)
    last += (t->sizes[i] - 1) * t->strides[i];
  return (size_t)(last + 1) * dtype_bytes(t->dtype);
}

/* Put the record of p's storage; returns the offset of the tensor in it. */
static int64_t put_storage(config_writer *c, const payload *p)
{
  const storage *st = p->at->st;
  const char *path = session_printf(c->w->s, "%s%s", c->folder, p->at->path);
  const zip_entry *e = find_record(c->w, path);
  const size_t n_bytes = st->origin == STORAGE_META ? 0 : st->n_bytes;

  if (p->at->n_users == 1 && n_bytes && (!e || e->n_bytes != n_bytes)) {
    const size_t start = (size_t)p->t->offset * dtype_bytes(p->t->dtype);
    put_record(c->w, path, (const char *)st->data + start, span_of(p->t));
    return 0;
  }
  if (!table_get(&c->w->records, str_of(path)))
    put_record(c->w, path, st->data, n_bytes);
  return p->t->offset;
}

static void write_dims(text_buf *out, const int64_t *items, int n)
{
  text_putc(out, '[');
  for (int i = 0; i < n; i++)
    text_printf(out, "%s{\"as_int\": %lld}", i ? ", " : "", (long long)items[i]);
  text_putc(out, ']');
}

static void write_payload(config_writer *c, text_buf *out, const payload *p)
{
  const rush_tensor *t = p->t;

  if (!t) {
    text_add(out, p->json.p, p->json.len);
    return;
  }
  const int64_t offset = put_storage(c, p);
  text_puts(out, "{\"path_name\": ");
  write_text(out, p->at->path);
  text_printf(out, ", \"is_param\": %s, \"use_pickle\": false, ", p->is_param ? "true" : "false");
  text_printf(out, "\"tensor_meta\": {\"dtype\": %d, \"sizes\": ", schema_dtype_of(t->dtype));
  write_dims(out, t->sizes, t->n_dims);
  text_printf(out, ", \"requires_grad\": %s, \"device\": ",
              t->h.flags & TENSOR_REQUIRES_GRAD ? "true" : "false");
  if (p->device.len)
    text_add(out, p->device.p, p->device.len);
  else
    text_puts(out, "{\"type\": \"cpu\", \"index\": null}");
  text_puts(out, ", \"strides\": ");
  write_dims(out, t->strides, t->n_dims);
  text_printf(out, ", \"storage_offset\": {\"as_int\": %lld}, \"layout\": %d}}", (long long)offset,
              schema_layout_of(0));
}

/* List the tensors of a captured program: its weights, or (is_constants) its constants. */
static void list_state(config_writer *c, bool is_constants)
{
  const exported_source *from = c->w->source;

  for (uint32_t i = 0; i < from->n_state; i++) {
    payload *p = session_new(c->w->s, payload);
    if (from->state[i].is_constant != is_constants)
      continue;
    *p = (payload){.name = str_of(from->state[i].name),
                   .is_param = from->state[i].is_parameter,
                   .t = from->state[i].tensor,
                   .path = str_of(session_printf(c->w->s, "%s%u", c->prefix, c->n))};
    c->n_new = c->n + 1;
    GROW(c->w->s, c->items, c->n, c->cap, 64);
    c->items[c->n++] = p;
  }
}

/* True if the archive has the state as one pickle, in whose place a config and records come. */
static bool has_pickled(const package_writer *w, bool is_constants)
{
  const str name = str_of(w->source->data->name);

  return exported_pickled_state(w->s, w->from, name, is_constants) != NULL;
}

/* Put the config of that name, if the archive has it, and the records of its weights. */
static void put_config(package_writer *w, const char *folder, const char *prefix, const char *name,
                       bool is_constants)
{
  const char *path = session_printf(w->s, "%s%s", folder, name);
  const zip_entry *e = find_record(w, path);
  config_writer *c = session_new(w->s, config_writer);
  text_buf *out = session_text(w->s);

  if (!e && w->from && !has_pickled(w, is_constants))
    return;
  *c = (config_writer){.w = w, .folder = folder, .prefix = prefix};
  session_table_init(w->s, &c->storages);
  session_table_init(w->s, &c->paths);
  if (e) {
    c->in = zip_input(w->s, w->from, e);
    read_config(c);
  } else {
    list_state(c, is_constants);
  }
  for (uint32_t i = 0; i < c->n; i++)
    if (c->items[i]->t)
      place_payload(c, c->items[i]);
  text_puts(out, "{\"config\": {");
  for (uint32_t i = 0; i < c->n; i++) {
    text_puts(out, i ? ", " : "");
    json_quote(out, c->items[i]->name);
    text_puts(out, ": ");
    write_payload(c, out, c->items[i]);
  }
  text_puts(out, "}}");
  put_text(w, path, out);
}

/* Refuse results that the format has a place for, but PyTorch's reader has not. */
static void check_outputs(session *s, const exported_program *p)
{
  const fx_node *last = p->graph->last;
  const fx_arg *results = last && last->n_args ? last->args : NULL;

  for (uint32_t i = 0; i < p->n_outputs && results && i < results->n; i++) {
    const exported_arg *a = &p->outputs[i].arg;
    const fx_arg *r = &results->as.items[i];
    str place = {NULL, 0};
    const char *what = a->kind == ARG_SYM_BOOL ? "a bool that is known only when it runs" : NULL;
    if (a->kind == ARG_CONSTANT && a->constant.kind == FX_STRING)
      what = "a text";
    if (r->kind == FX_NODE)
      place = fx_node_metadata(s, r->as.node, "stack_trace");
    if (what)
      session_fail_status(s, RUSH_EUNSUPPORTED, NULL, NULL,
                          "the program returns %s, which PyTorch does not open in a .pt2%s%.*s",
                          what, place.len ? "\n  " : "", (int)place.len, place.p);
  }
}

/* -- The archive ------------------------------------------------------------------------------- */

static void put_program(package_writer *w)
{
  const exported_program *p = w->source->data;
  text_buf *out = session_text(w->s);

  if (!w->from)
    check_outputs(w->s, p);
  write_model(w->s, out, p);
  put_text(w, session_printf(w->s, "models/%s.json", p->name), out);
  put_config(w, "data/weights/", "weight_",
             session_printf(w->s, "%s_weights_config.json", p->name), false);
  put_config(w, "data/constants/", "tensor_",
             session_printf(w->s, "%s_constants_config.json", p->name), true);
  if (!w->from) { /* what PyTorch looks for */
    put_record(w, "archive_format", "pt2", 3);
    put_record(w, "archive_version", "0", 1);
    put_record(w, "byteorder", "little", 6);
    put_record(w, ".data/version", "6\n", 2);
    const mapping *samples = w->source->samples; /* without one PyTorch reads an empty record */
    put_record(w, session_printf(w->s, "data/sample_inputs/%s.pt", p->name),
               samples ? (const void *)samples->data : "", samples ? samples->n_bytes : 0);
  }
}

static bool is_pickled_state(const package_writer *w, const zip_entry *e)
{
  const str name = str_of(w->source->data->name);

  return e == exported_pickled_state(w->s, w->from, name, false) ||
         e == exported_pickled_state(w->s, w->from, name, true);
}

/* Write a record, or the one that is in its place.  Records beside the root are of no use: PyTorch
 * does not see them. */
static void write_entry(package_writer *w, const zip_entry *e)
{
  mapping *owner = NULL;
  record *r = table_get(&w->records, e->path);

  session_poll(w->s);
  if (!e->in_root || str_is(e->path, ".data/serialization_id") || is_pickled_state(w, e))
    return;
  if (r) {
    zip_write(w->zip, r->path, r->data, r->n_bytes);
    r->is_written = true;
    return;
  }
  const str bytes = zip_read(w->s, w->from, e, &owner);
  zip_write(w->zip, session_strndup(w->s, e->path.p, e->path.len), bytes.p, bytes.len);
}

static void write_records(package_writer *w)
{
  for (uint32_t i = 0; w->from && i < w->from->n_entries; i++)
    write_entry(w, &w->from->entries[i]);
  for (uint32_t i = 0; i < w->records.n; i++) {
    const record *r = w->records.entries[i].value;
    if (!r->is_written)
      zip_write(w->zip, r->path, r->data, r->n_bytes);
  }
  zip_write_identity(w->zip);
  zip_finish(w->zip);
}

typedef struct write_job {
  const module *m;             /* NULL: `from` is written */
  const exported_source *from;
  const archive_target *to;
} write_job;

static bool is_constant(const exported_program *p, str name)
{
  for (uint32_t i = 0; i < p->n_inputs; i++)
    if (p->inputs[i].target && str_is(name, p->inputs[i].target))
      return p->inputs[i].kind == INPUT_TENSOR_CONSTANT ||
             (p->inputs[i].kind == INPUT_BUFFER && !p->inputs[i].is_persistent);
  return false;
}

exported_tensor *exported_list_state(session *s, const module *m, const exported_program *p,
                                     uint32_t *n)
{
  const rush_object *o = m->object.as.object;
  const class_info *cls = o->type->cls;
  exported_tensor *state = session_array(s, exported_tensor, (size_t)cls->n_attrs + 1);

  *n = 0;
  for (uint32_t i = 0; i < cls->n_attrs; i++)
    if (o->slots[i].tag == RUSH_TAG_TENSOR && o->slots[i].as.tensor)
      state[(*n)++] = (exported_tensor){
        cls->attrs[i].name, is_constant(p, str_of(cls->attrs[i].name)),
        cls->attrs[i].is_parameter, o->slots[i].as.tensor};
  return state;
}

/* Return the source that a module is. */
static const exported_source *source_of(session *s, const module *m)
{
  exported_source *from = session_new(s, exported_source);

  *from = (exported_source){
    .zip = m->archive, .data = exported_of_module(s, m), .samples = m->samples};
  from->state = exported_list_state(s, m, from->data, &from->n_state);
  return from;
}

/* Put a file of the author's, which the older layout has in another folder. */
static void put_older_file(package_writer *w, const zip_entry *e)
{
  static const str folder = STR("extra_files/");
  mapping *owner = NULL;

  if (e->path.len <= folder.len || memcmp(e->path.p, folder.p, folder.len) != 0)
    return;
  const str bytes = zip_read(w->s, w->source->zip, e, &owner);
  put_record(w, session_printf(w->s, "extra/%.*s", (int)(e->path.len - folder.len),
                               e->path.p + folder.len),
             bytes.p, bytes.len);
}

static void begin(package_writer *w, session *s, const exported_source *from)
{
  const bool is_older = from->zip && exported_is_older(from->zip);

  *w = (package_writer){.s = s, .source = from, .from = is_older ? NULL : from->zip};
  session_table_init(s, &w->records);
  for (uint32_t i = 0; is_older && i < from->zip->n_entries; i++)
    put_older_file(w, &from->zip->entries[i]);
  session_table_init(s, &w->state);
  for (uint32_t i = 0; i < from->n_state; i++)
    session_table_put(s, &w->state, str_of(from->state[i].name),
                      (void *)(uintptr_t)&from->state[i]);
}

static void write_body(session *s, void *arg)
{
  const write_job *job = arg;
  const archive_target *to = job->to;
  package_writer *w = session_new(s, package_writer);

  if (to->method)
    session_fail_status(s, RUSH_EARGUMENT, NULL, NULL,
                        "only a function of a text can be saved by itself");
  begin(w, s, job->m ? source_of(s, job->m) : job->from);
  put_program(w);
  for (uint32_t i = 0; i < to->n_files; i++)
    put_record(w, session_printf(s, "extra/%s", to->files[i].name), to->files[i].bytes.p,
               to->files[i].bytes.len);
  output_file *file = to->out ? NULL : output_file_new(s, to->path);
  const output out = file ? output_to_file(file) : *to->out;
  const char *root = w->from ? session_strndup(s, w->from->root.p, w->from->root.len) : "archive";
  w->zip = zip_writer_new(s, &out, root);
  write_records(w);
  if (file)
    output_file_commit(s, file);
}

rush_status exported_write(call_ctx *cx, const module *m, const archive_target *to)
{
  write_job job = {.m = m, .to = to};

  return session_run(cx, write_body, &job);
}

rush_status exported_write_source(call_ctx *cx, const exported_source *from,
                                  const archive_target *to)
{
  write_job job = {.from = from, .to = to};

  return session_run(cx, write_body, &job);
}
