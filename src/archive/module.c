#include "archive/module.h"

#include "archive/exported_program.h"
#include "archive/saved.h"
#include "archive/torchscript.h"
#include "archive/unpickle.h"
#include "formats/foreign.h"
#include "formats/npy.h"
#include "formats/safetensors.h"
#include "ir/alias.h"
#include "run/outputs.h"
#include "script/unit.h"

/* -- Life -------------------------------------------------------------------------------------------- */

static void free_training(context *c, struct training_flags *t);

module *module_retain(module *m)
{
  atomic_fetch_add_explicit(&m->refs, 1, memory_order_relaxed);
  return m;
}

void module_release(module *m)
{
  if (!m || atomic_fetch_sub_explicit(&m->refs, 1, memory_order_acq_rel) != 1)
    return;
  context *c = m->ctx;
  free_training(c, m->training);
  value_release(m->object);
  program_release(m->program);
  table_free(&m->extra_files);
  mapping_release(m->samples);
  call_lock_release(m->lock);
  mem_free(c, m, sizeof *m);
  context_release(c);
}

static module *module_new(call_ctx *cx)
{
  module *m = mem_alloc_zero(cx->ctx, sizeof *m);
  call_lock *lock = m ? call_lock_new(cx->ctx) : NULL;

  if (!lock) {
    mem_free(cx->ctx, m, sizeof *m);
    return NULL;
  }
  m->lock = lock;
  atomic_init(&m->refs, 1);
  atomic_init(&m->is_random, -1);
  m->ctx = context_retain(cx->ctx);
  m->object = value_none();
  table_init(&m->extra_files, cx->ctx);
  return m;
}

/* The module has its object: they have one lock from now on, the object's if it was part of a module before. */
static void share_lock(module *m, const module *root)
{
  if (m->object.tag != RUSH_TAG_OBJECT)
    return;
  object_adopt(m->object.as.object, root ? root->lock : m->lock);
  call_lock *lock = call_lock_retain(root ? root->lock : object_lock(m->object.as.object));
  call_lock_release(m->lock);
  m->lock = lock;
}

rush_status module_around(call_ctx *cx, program *p, rush_value object, const module *root, module **out)
{
  module *m = module_new(cx);

  if (!m)
    return call_nomem(cx);
  m->program = program_retain(p);
  m->object = value_retain(object);
  m->format = RUSH_FORMAT_TORCHSCRIPT;
  share_lock(m, root);
  *out = m;
  return RUSH_OK;
}

/* -- Opening ------------------------------------------------------------------------------------------ */

typedef struct load_job {
  const archive_source *from;
  module *m;
  rush_value value; /* value_load */
} load_job;

static bool reader_size(void *user, uint64_t *n_bytes)
{
  *n_bytes = ((const archive_source *)user)->n_bytes;
  return true;
}
static bool reader_read(void *user, uint64_t offset, void *to, size_t n)
{
  const archive_source *from = user;

  return from->read(from->user, offset, to, n) == 0;
}

/* The host's deleter takes (user, data); a mapping's takes one pointer. */
typedef struct host_block {
  context *ctx;
  const archive_source from;
} host_block;

static void release_host(void *user)
{
  host_block *b = user;

  b->from.deleter(b->from.user, (void *)b->from.data);
  mem_free(b->ctx, b, sizeof *b);
}

static mapping *open_source(session *s, const archive_source *from)
{
  const char *name = from->name ? from->name : from->path ? from->path : "archive";
  mapping *map;

  if (from->path) {
    session_check(s, mapping_open(s->cx, from->path, from->copy, &map));
  } else if (from->read) {
    mapping_reader reader = {reader_size, reader_read, (void *)from};
    session_check(s, mapping_read(s->cx, name, &reader, &map));
  } else if (from->deleter) {
    host_block *b = mem_alloc(s->cx->ctx, sizeof *b);
    if (!b)
      session_check(s, call_nomem(s->cx));
    memcpy(b, &(host_block){s->cx->ctx, *from}, sizeof *b);
    rush_status st = mapping_wrap(s->cx, name, (void *)from->data, from->n_bytes, release_host, b, &map);
    if (st != RUSH_OK)
      mem_free(s->cx->ctx, b, sizeof *b);
    session_check(s, st);
  } else {
    session_check(s, mapping_copy(s->cx, name, from->data, from->n_bytes, &map));
  }
  mapping_defer(s, map);
  return map;
}

/* PyTorch 1.4 wrote no constants.pkl for a program without constants. */
static bool has_code(const zip_archive *z)
{
  for (uint32_t i = 0; i < z->n_entries; i++)
    if (z->entries[i].in_root && z->entries[i].path.len > 5 && memcmp(z->entries[i].path.p, "code/", 5) == 0)
      return true;
  return false;
}

static bool is_python(const char *name)
{
  size_t n = strlen(name);

  return n > 3 && strcmp(name + n - 3, ".py") == 0;
}

/* A text: its functions are the methods of one object without attributes. */
static void load_text(session *s, const mapping *map, module *m)
{
  rush_object *o;

  m->program = program_new(s, s->cx->ctx); /* released with the module, also when loading fails */
  const type *t = script_unit_load(s, m->program, map->name, (str){(const char *)map->data, map->n_bytes});
  session_check(s, object_new(s->cx, t, 0, &o));
  m->object = value_heap_steal(RUSH_TAG_OBJECT, o);
  m->format = RUSH_FORMAT_TORCHSCRIPT;
}

_Noreturn static void refuse_program(session *s, const mapping *map, const char *program)
{
  session_fail_status(s, RUSH_EARGUMENT, NULL, NULL,
                      "%s: program '%s' cannot be chosen: only packages of torch.export hold several programs", map->name, program);
}

/* A file that the author put into the archive: "extra/NAME" beside the program, "extra_files/NAME" in torch.export's older format. */
static str extra_name(const zip_entry *e)
{
  static const char *const folders[] = {"extra/", "extra_files/"};

  for (size_t i = 0; i < COUNT_OF(folders); i++) {
    const size_t n = strlen(folders[i]);
    if (e->in_root && e->path.len > n && memcmp(e->path.p, folders[i], n) == 0)
      return (str){e->path.p + n, e->path.len - n};
  }
  return (str){NULL, 0};
}

static void read_extra_files(session *s, const zip_archive *z, module *m)
{
  for (uint32_t i = 0; i < z->n_entries; i++) {
    const str name = extra_name(&z->entries[i]);
    if (!name.len)
      continue;
    str text = zip_read(s, z, &z->entries[i], NULL);
    str *kept = session_alloc_in(s, &m->program->mem, sizeof *kept + text.len + name.len + 1); /* zeroed: the name ends */
    char *bytes = (char *)(kept + 1);
    memcpy(bytes, text.p, text.len);
    memcpy(bytes + text.len, name.p, name.len);
    *kept = (str){bytes, text.len};
    if (!table_put(&m->extra_files, (str){bytes + text.len, name.len}, kept))
      session_check(s, call_nomem(s->cx));
  }
}

#define WEIGHTS_ONLY "weights without a program (`rushlight show` lists them): load them in Python into the model, and save that " \
                     "with torch.jit.save or torch.export.save"

/* What a file that is no zip archive is, in words; "": not known. */
static const char *kind_of_file(const mapping *map)
{
  if (npy_looks_like(map->data, map->n_bytes))
    return "numpy's .npy: an array, not a program";
  if (saved_looks_like(map->data, map->n_bytes))
    return "a torch.save file of PyTorch before 1.6, or of plain data: " WEIGHTS_ONLY;
  const char *what = foreign_kind(map->data, map->n_bytes);
  if (what)
    return what;
  return safetensors_looks_like(map->data, map->n_bytes) ? "a safetensors file: " WEIGHTS_ONLY : "";
}

_Noreturn static void refuse_foreign(session *s, const mapping *map)
{
  const char *what = kind_of_file(map);

  session_fail_status(s, RUSH_EFORMAT, NULL, NULL,
                      "%s: PytorchStreamReader failed reading zip archive: failed finding central directory: expected a zip "
                      "archive of torch.jit.save or torch.export.save; %s%s",
                      map->name, *what ? "the file is " : "the file starts with other bytes", what);
}

static void load_body(session *s, void *arg)
{
  load_job *job = arg;
  mapping *map = open_source(s, job->from);

  if (is_python(map->name)) {
    if (job->from->program)
      refuse_program(s, map, job->from->program);
    load_text(s, map, job->m);
    return;
  }
  if (!zip_looks_like(map->data, map->n_bytes))
    refuse_foreign(s, map);
  zip_archive *z = zip_open(s, map, job->from->check_full);
  if (job->from->check_full)
    zip_check(s, z);
  if (job->from->meta && (!zip_find(z, "data.pkl") || zip_find(z, "model.json")))
    session_fail_status(s, RUSH_EUNSUPPORTED, NULL, NULL, "%s: only TorchScript of PyTorch 1.4 or newer loads without its data", map->name);
  const bool is_exported = zip_find(z, "models/model.json") || zip_find(z, "archive_format") ||
                           zip_find_name(z, STR("serialized_exported_program.json"));
  if (job->from->program && !is_exported)
    refuse_program(s, map, job->from->program);
  if (is_exported)
    exported_program_load(s, z, exported_choose(s, z, job->from->program), job->m);
  else if (zip_find(z, "model.json") || (zip_find(z, "data.pkl") && (zip_find(z, "constants.pkl") || has_code(z))))
    torchscript_load(s, z, job->from->meta, job->m);
  else if (zip_find(z, "data.pkl"))
    session_fail_status(s, RUSH_EFORMAT, NULL, NULL,
                        "%s: PytorchStreamReader failed locating file constants.pkl: file not found: a torch.save file of plain data "
                        "holds no program, but " WEIGHTS_ONLY,
                        map->name);
  else
    session_fail_status(s, RUSH_EFORMAT, NULL, NULL,
                        "%s: neither data.pkl (TorchScript) nor models/model.json (torch.export) is in the archive",
                        map->name);
  read_extra_files(s, z, job->m);
}

rush_status module_place(call_ctx *cx, const module *m, rush_status st)
{
  const char *file = m->program ? m->program->file : NULL;

  if (st != RUSH_OK && file && cx->err && cx->err->message && cx->err->message[0] == '\n')
    error_prefix(cx->err, "%s", file);
  return st;
}

/* -- Texts ------------------------------------------------------------------------------------------- */

typedef struct define_job {
  module *m;
  const char *name;
  uint32_t first_line;
  str text;
} define_job;

static void define_body(session *s, void *arg)
{
  define_job *job = arg;
  module *m = job->m;
  rush_object *o;

  if (!m->program) {
    m->program = program_new(s, s->cx->ctx);
    session_check(s, object_new(s->cx, script_unit_new(s, m->program), 0, &o));
    m->object = value_heap_steal(RUSH_TAG_OBJECT, o);
    m->format = RUSH_FORMAT_TORCHSCRIPT;
  }
  script_unit_define(s, m->program, job->name, job->first_line, job->text);
}

rush_status module_define(call_ctx *cx, module *m, const char *name, uint32_t first_line, str text)
{
  if (m->program && !script_unit_is(m->program))
    return error_set(cx->err, RUSH_EARGUMENT, "definitions can be added to what was compiled from text, not to an archive's module");
  define_job job = {m, name, first_line, text};
  lock_hold hold;
  TRY(lock_take(cx, m->lock, LOCK_EXCLUSIVE, &hold));
  rush_status st = session_run(cx, define_body, &job);
  atomic_store(&m->is_random, -1);
  lock_drop(&hold);
  return st;
}

rush_status module_compile(call_ctx *cx, const char *name, uint32_t first_line, str text, module **out)
{
  module *m = module_new(cx);

  if (!m)
    return call_nomem(cx);
  rush_status st = module_define(cx, m, name, first_line, text);
  if (st == RUSH_OK) {
    share_lock(m, NULL);
    *out = m;
  }
  else
    module_release(m);
  return st;
}

rush_status module_load(call_ctx *cx, const archive_source *from, module **out)
{
  module *m = module_new(cx);

  if (!m)
    return call_nomem(cx);
  load_job job = {.from = from, .m = m};
  rush_status st = module_place(cx, m, session_run(cx, load_body, &job));
  if (st == RUSH_OK) {
    share_lock(m, NULL);
    *out = m;
  }
  else
    module_release(m);
  return st;
}

/* -- Files of plain data ------------------------------------------------------------------------------- */

static void unmap(void *user, void *data)
{
  (void)data;
  mapping_release(user);
}
static void unref_storage(void *st) { storage_release(st); }

/* A tensor on bytes of the mapping, copied where they are not aligned. */
static rush_value tensor_at(session *s, mapping *map, size_t offset, size_t n_bytes, int dtype, int n_dims,
                            const int64_t *sizes, bool fortran, bool swapped)
{
  size_t item = dtype_bytes(dtype);
  int64_t strides[TENSOR_MAX_DIMS];
  rush_tensor *t;
  storage *st;

  if ((uintptr_t)(map->data + offset) % item == 0 && !swapped) {
    session_check(s, storage_wrap(s->cx, map->data + offset, n_bytes, STORAGE_MAPPED, unmap, map, &st));
    mapping_retain(map);
    session_defer(s, unref_storage, st);
  } else {
    session_check(s, storage_new(s->cx, n_bytes, &st));
    session_defer(s, unref_storage, st);
    memcpy(st->data, map->data + offset, n_bytes);
    size_t part = dtype_bytes(dtype_to_real(dtype));
    for (uint8_t *p = st->data, *end = p + n_bytes; swapped && p + part <= end; p += part)
      for (size_t i = 0; i < part / 2; i++) {
        uint8_t byte = p[i];
        p[i] = p[part - 1 - i];
        p[part - 1 - i] = byte;
      }
  }
  strides_contiguous(n_dims, sizes, strides);
  if (fortran)
    for (int64_t i = 0, step = 1; i < n_dims; step *= sizes[i++])
      strides[i] = step;
  session_check(s, tensor_new_view(s->cx, st, dtype, n_dims, sizes, strides, 0, &t));
  rush_value v = value_tensor_steal(t);
  session_defer_value(s, v);
  return v;
}

static rush_value load_npy(session *s, mapping *map)
{
  input in = input_of_mapping(map);
  npy_header h;

  npy_read(s, &in, &h);
  return tensor_at(s, map, h.data, h.data_bytes, (int)h.dtype, (int)h.n_dims, h.sizes, h.fortran_order, h.big_endian);
}

/* Does every record hold an array?  Then it is numpy's. */
static bool npz_looks_like(const zip_archive *z)
{
  for (uint32_t i = 0; i < z->n_entries; i++) {
    const str name = z->entries[i].name;
    if (name.len < 5 || memcmp(name.p + name.len - 4, ".npy", 4) != 0)
      return false;
  }
  return z->n_entries > 0;
}

static void release_mapping(void *owner) { mapping_release(owner); }

/* A dict of the arrays, without ".npy". */
static rush_value load_npz(session *s, const zip_archive *z)
{
  rush_dict *d;

  session_check(s, dict_new(s->cx, type_simple(TYPE_STRING), type_simple(TYPE_TENSOR), &d));
  rush_value v = value_heap_steal(RUSH_TAG_DICT, d);
  session_defer_value(s, v);
  for (uint32_t i = 0; i < z->n_entries; i++) {
    const zip_entry *e = &z->entries[i];
    mapping *owner = NULL, *record;
    str bytes = zip_read(s, z, e, &owner);
    rush_value key, t;
    const char *place = session_printf(s, "%s: %.*s", z->map->name, (int)e->name.len, e->name.p);
    session_check(s, mapping_wrap(s->cx, place, (void *)(uintptr_t)bytes.p, bytes.len, release_mapping, owner, &record));
    mapping_retain(owner);
    mapping_defer(s, record);
    t = load_npy(s, record);
    session_check(s, string_new(s->cx, e->name.p, e->name.len - 4, &key));
    session_check(s, dict_set_steal(s->cx, d, key, value_retain(t)));
  }
  return v;
}

static rush_value load_safetensors(session *s, mapping *map)
{
  input in = input_of_mapping(map);
  safetensors *all = safetensors_read(s, &in);
  rush_dict *d;

  session_check(s, dict_new(s->cx, type_simple(TYPE_STRING), type_simple(TYPE_TENSOR), &d));
  rush_value v = value_heap_steal(RUSH_TAG_DICT, d);
  session_defer_value(s, v);
  for (uint32_t i = 0; i < all->n_entries; i++) {
    const safetensors_entry *e = &all->entries[i];
    rush_value key, t = tensor_at(s, map, e->data, e->n_bytes, (int)e->dtype, (int)e->n_dims, e->sizes, false, false);
    session_check(s, string_new(s->cx, e->name.p, e->name.len, &key));
    session_check(s, dict_set_steal(s->cx, d, key, value_retain(t)));
  }
  return v;
}

/* Pickles are gone through more than once: a copy when the file may change. */
static mapping *unchanging(session *s, mapping *map)
{
  mapping *copy;

  if (!mapping_may_change(map))
    return map;
  session_check(s, mapping_copy(s->cx, map->name, map->data, map->n_bytes, &copy));
  mapping_defer(s, copy);
  return copy;
}

static rush_value load_zip(session *s, zip_archive *z, type_store *types)
{
  return npz_looks_like(z) ? load_npz(s, z) : torchscript_load_value(s, z, types, false);
}

_Noreturn static void refuse_value(session *s, const mapping *map)
{
  const char *what = foreign_kind(map->data, map->n_bytes);

  session_fail_status(s, RUSH_EFORMAT, NULL, NULL, "%s: expected a torch.save, .npy, .npz or .safetensors file%s%s", map->name,
                      what ? "; the file is " : "", what ? what : "");
}

static void load_value_body(session *s, void *arg)
{
  load_job *job = arg;
  mapping *map = open_source(s, job->from);
  type_store *types = type_store_of_context(s->cx->ctx);
  rush_value v;

  if (!types)
    session_check(s, call_nomem(s->cx));
  if (npy_looks_like(map->data, map->n_bytes))
    v = load_npy(s, map);
  else if (zip_looks_like(map->data, map->n_bytes))
    v = load_zip(s, zip_open(s, map, job->from->check_full), types);
  else if (saved_looks_like(map->data, map->n_bytes))
    v = saved_load(s, unchanging(s, map), types);
  else if (safetensors_looks_like(map->data, map->n_bytes))
    v = load_safetensors(s, map);
  else
    refuse_value(s, map);
  session_keep_value(s, v);
  job->value = v;
}

rush_status value_load(call_ctx *cx, const archive_source *from, rush_value *out)
{
  load_job job = {.from = from};

  TRY(session_run(cx, load_value_body, &job));
  *out = job.value;
  return RUSH_OK;
}

/* -- Methods ---------------------------------------------------------------------------------------------- */

static const class_info *class_of(const module *m) { return m->object.as.object->type->cls; }

function *module_find_method(module *m, str name)
{
  return class_find_method(m->object.as.object->type, name);
}

static bool is_public(const function *f)
{
  return f->name[0] != '_' || strcmp(f->name, "__call__") == 0;
}

uint32_t module_n_methods(const module *m)
{
  uint32_t n = 0;

  for (uint32_t i = 0; i < class_of(m)->n_methods; i++)
    n += is_public(class_of(m)->methods[i]);
  return n;
}

const char *module_method_name(const module *m, uint32_t i)
{
  for (uint32_t k = 0; k < class_of(m)->n_methods; k++)
    if (is_public(class_of(m)->methods[k]) && i-- == 0)
      return class_of(m)->methods[k]->name;
  return NULL;
}

COLD static rush_status fail_method(module *m, const char *wanted, rush_error *err)
{
  enum { MOST = 8 };
  const uint32_t n = module_n_methods(m);
  text_buf t;

  text_init(&t, m->ctx);
  for (uint32_t i = 0; i < n && i < MOST; i++)
    text_printf(&t, "%s%s", i ? ", " : "", module_method_name(m, i));
  if (n > MOST)
    text_printf(&t, " and %u more", n - MOST);
  rush_status st = error_set_type(err, RUSH_EARGUMENT, "AttributeError", "the module has no method '%s'; it has %s", wanted,
                                  n ? text_str(&t) : "none");
  text_free(&t);
  return st;
}

rush_status module_method(module *m, const char *name, function **out, rush_error *err)
{
  const char *wanted = name ? name : "forward";

  *out = module_find_method(m, str_of(wanted));
  return LIKELY(*out != NULL) ? RUSH_OK : fail_method(m, wanted, err);
}

rush_status module_signature(call_ctx *cx, module *m, const char *method, signature **out)
{
  function *f;

  TRY(module_method(m, method, &f, cx->err));
  if (!f->schema->returns[0].type) /* not annotated: the body says */
    TRY(module_place(cx, m, function_prepare(cx, f)));
  return signature_new(cx, f, m->exported, out);
}

/* -- Which calls may run together -------------------------------------------------------------------------- */

#define MOST_MODULES 100000 /* looked at; a file may say that one is in many places */

/* The objects in the module that have `training`, retained, and where it is in them. */
struct training_flags {
  uint32_t n, cap;
  uint32_t n_seen; /* modules */
  struct training_flag { rush_object *object; uint32_t slot; } *flags;
};

static void free_training(context *c, struct training_flags *t)
{
  if (!t)
    return;
  for (uint32_t i = 0; i < t->n; i++)
    value_release(value_heap_steal(RUSH_TAG_OBJECT, t->flags[i].object));
  mem_free(c, t->flags, t->cap * sizeof *t->flags);
  mem_free(c, t, sizeof *t);
}

static bool add_flag(context *c, struct training_flags *t, rush_object *o, uint32_t slot)
{
  if (t->n == t->cap) {
    uint32_t cap = t->cap ? 2 * t->cap : 16;
    struct training_flag *grown = mem_alloc(c, cap * sizeof *grown);
    if (!grown)
      return false;
    if (t->n)
      memcpy(grown, t->flags, t->n * sizeof *grown);
    mem_free(c, t->flags, t->cap * sizeof *t->flags);
    t->flags = grown;
    t->cap = cap;
  }
  heap_retain(&o->h);
  t->flags[t->n++] = (struct training_flag){o, slot};
  return true;
}

/* False: too many modules, too deep, or no memory. */
static bool find_training(context *c, rush_object *o, struct training_flags *t, uint32_t depth)
{
  const class_info *cls = o->type->cls;
  bool ok = depth > 0 && ++t->n_seen < MOST_MODULES;

  for (uint32_t i = 0; i < cls->n_attrs && ok; i++) {
    const rush_value *v = &o->slots[i];
    if (v->tag == RUSH_TAG_BOOL && strcmp(cls->attrs[i].name, "training") == 0)
      ok = add_flag(c, t, o, i);
    else if (v->tag == RUSH_TAG_OBJECT && v->as.object->type->cls->is_module)
      ok = find_training(c, v->as.object, t, depth - 1);
  }
  return ok;
}

static struct training_flags *make_training(module *m)
{
  struct training_flags *t = mem_alloc_zero(m->ctx, sizeof *t), *none = NULL;

  if (!t)
    return NULL;
  if (!find_training(m->ctx, m->object.as.object, t, 200)) {
    free_training(m->ctx, t);
    return NULL;
  }
  if (atomic_compare_exchange_strong(&m->training, &none, t))
    return t;
  free_training(m->ctx, t);
  return none;
}

static bool is_training(module *m)
{
  const struct training_flags *flags = atomic_load_explicit(&m->training, memory_order_acquire);

  if (!flags && !(flags = make_training(m)))
    return true;
  for (uint32_t i = 0; i < flags->n; i++)
    if (flags->flags[i].object->slots[flags->flags[i].slot].as.b)
      return true;
  return false;
}

/* Take the module's lock in the way that a call of f needs.  Some methods change state in training only: that flag is read
 * under the lock, and a call that saw it set runs alone even if it was cleared meanwhile. */
static rush_status take_for_call(call_ctx *cx, module *m, function *f, lock_hold *hold)
{
  bool eval = function_changes_state(cx, f, false), train = function_changes_state(cx, f, true);

  TRY(lock_take(cx, m->lock, eval && train ? LOCK_EXCLUSIVE : LOCK_SHARED, hold));
  if (eval == train || !(is_training(m) ? train : eval))
    return RUSH_OK;
  lock_drop(hold);
  return lock_take(cx, m->lock, LOCK_EXCLUSIVE, hold);
}

static bool holds_container(const rush_tuple *t)
{
  for (size_t i = 0; i < t->n; i++) {
    const rush_value *v = &t->items[i];
    if (v->tag == RUSH_TAG_LIST || v->tag == RUSH_TAG_DICT)
      if (!heap_is_unique(v->as.heap))
        return true;
    if (v->tag == RUSH_TAG_OBJECT || (v->tag == RUSH_TAG_TUPLE && holds_container(v->as.tuple)))
      return true;
  }
  return false;
}

/* What a call returns and its module still holds is as the host would read it from the state; what only the result has is
 * the host's.  Arguments that come back are the caller's. */
static inline rush_status give_result(call_ctx *cx, call_lock *lock, const rush_value *args, uint32_t n_args, rush_value *result)
{
  rush_value v = *result, made;

  if (LIKELY(v.tag == RUSH_TAG_TENSOR))
    return RUSH_OK;
  bool is_mine = v.tag == RUSH_TAG_OBJECT || v.tag == RUSH_TAG_TUPLE ||
                 ((v.tag == RUSH_TAG_LIST || v.tag == RUSH_TAG_DICT) && !heap_is_unique(v.as.heap));

  for (uint32_t i = 0; i < n_args && is_mine; i++)
    is_mine = args[i].tag != v.tag || args[i].as.heap != v.as.heap;
  if (!is_mine || (v.tag == RUSH_TAG_TUPLE && !holds_container(v.as.tuple)))
    return RUSH_OK;
  rush_status st = value_snapshot(cx, v, lock, &made);
  value_release(v);
  *result = st == RUSH_OK ? made : value_none();
  return st;
}

/* Has the module one method only, which changes nothing?  Then there is nobody to keep out. */
static bool needs_no_lock(call_ctx *cx, const module *m, function *f)
{
  return !m->exported && class_of(m)->n_methods == 1 && !function_changes_state(cx, f, false) &&
         !function_changes_state(cx, f, true);
}

static rush_status run_method(call_ctx *cx, module *m, function *f, const rush_value *args, uint32_t n_args,
                              const named_arg *kwargs, uint32_t n_kwargs, rush_value *result)
{
  if (m->exported)
    return exported_call(cx, m->exported, m->object, args, n_args, kwargs, n_kwargs, result);
  return function_call_bound(cx, f, function_takes_self(f) ? &m->object : NULL, args, n_args, kwargs, n_kwargs, result);
}

/* A call whose results go to buffers of the caller's; the lock is held.  An exported program puts them there itself. */
static rush_status run_into(call_ctx *cx, module *m, function *f, const rush_value *args, uint32_t n_args,
                            const named_arg *kwargs, uint32_t n_kwargs, rush_value *result)
{
  output_buffers *o = cx->outputs;

  outputs_see_arguments(o, args, n_args, kwargs, n_kwargs);
  TRY(outputs_check_state(cx, o, m->program, m->object));
  TRY(run_method(cx, m, f, args, n_args, kwargs, n_kwargs, result));
  cx->outputs = NULL;
  if (m->exported)
    return RUSH_OK;
  const rush_status st = outputs_finish_result(cx, o, result);
  if (st != RUSH_OK)
    value_release(*result);
  return st;
}

rush_status module_call(call_ctx *cx, module *m, const char *method, const rush_value *args, uint32_t n_args,
                        const named_arg *kwargs, uint32_t n_kwargs, rush_value *result)
{
  function *f;
  rush_status st;
  lock_hold hold;

  TRY(module_method(m, method, &f, cx->err));
  TRY(module_place(cx, m, function_prepare(cx, f)));
  if (LIKELY(!cx->outputs) && needs_no_lock(cx, m, f))
    return function_call_bound(cx, f, function_takes_self(f) ? &m->object : NULL, args, n_args, kwargs, n_kwargs, result);
  TRY(take_for_call(cx, m, f, &hold));
  st = UNLIKELY(cx->outputs != NULL) ? run_into(cx, m, f, args, n_args, kwargs, n_kwargs, result)
                                     : run_method(cx, m, f, args, n_args, kwargs, n_kwargs, result);
  if (st == RUSH_OK)
    st = give_result(cx, m->lock, args, n_args, result);
  lock_drop(&hold);
  return st;
}

rush_status object_call(call_ctx *cx, rush_value object, function *f, const rush_value *args, uint32_t n_args,
                        const named_arg *kwargs, uint32_t n_kwargs, rush_value *result)
{
  call_lock *lock = object_lock(object.as.object);
  lock_hold hold;

  TRY(function_prepare(cx, f));
  bool changes = lock && (function_changes_state(cx, f, true) || function_changes_state(cx, f, false));
  TRY(lock_take(cx, lock, changes ? LOCK_EXCLUSIVE : LOCK_SHARED, &hold));
  rush_status st = function_call_bound(cx, f, function_takes_self(f) ? &object : NULL, args, n_args, kwargs, n_kwargs, result);
  if (st == RUSH_OK && lock)
    st = give_result(cx, lock, args, n_args, result);
  lock_drop(&hold);
  return st;
}

/* -- State -------------------------------------------------------------------------------------------------- */

typedef struct walk {
  call_ctx *cx;
  module_visit *fn;
  void *arg;
  text_buf name;
  bool stop;
} walk;

static rush_status walk_object(walk *w, rush_object *o)
{
  const class_info *cls = o->type->cls;
  size_t len = w->name.len;

  TRY(call_enter(w->cx));
  for (int pass = 0; pass < 2; pass++) /* own parameters and buffers first, then submodules: state_dict's order */
    for (uint32_t i = 0; i < cls->n_attrs && !w->stop; i++) {
      const class_attr *a = &cls->attrs[i];
      bool leaf = o->slots[i].tag == RUSH_TAG_TENSOR && (a->is_parameter || a->is_buffer);
      bool child = o->slots[i].tag == RUSH_TAG_OBJECT && o->slots[i].as.object->type->cls->is_module;
      if (pass == 0 ? !leaf : !child)
        continue;
      text_puts(&w->name, a->name);
      if (text_failed(&w->name))
        return call_nomem(w->cx);
      if (leaf) {
        w->stop = !w->fn(w->arg, text_str(&w->name), &o->slots[i], a->is_parameter);
      } else {
        text_putc(&w->name, '.');
        TRY(walk_object(w, o->slots[i].as.object));
      }
      w->name.len = len;
      if (w->name.data)
        w->name.data[len] = 0;
    }
  call_leave(w->cx);
  return RUSH_OK;
}

rush_status module_walk_state(call_ctx *cx, module *m, module_visit *fn, void *arg)
{
  walk w = {.cx = cx, .fn = fn, .arg = arg};

  text_init(&w.name, cx->ctx);
  rush_status st = walk_object(&w, m->object.as.object);
  text_free(&w.name);
  return st;
}

rush_status module_copy(call_ctx *cx, module *m, module **out)
{
  module *copy = module_new(cx);
  lock_hold hold;

  if (!copy)
    return call_nomem(cx);
  rush_status st = lock_take(cx, m->lock, LOCK_SHARED, &hold);
  if (st == RUSH_OK) {
    st = value_deepcopy(cx, m->object, &copy->object);
    lock_drop(&hold);
  }
  if (st != RUSH_OK) {
    module_release(copy);
    return st;
  }
  copy->program = program_retain(m->program);
  copy->format = m->format;
  copy->exported = m->exported;
  copy->samples = m->samples ? mapping_retain(m->samples) : NULL;
  share_lock(copy, NULL);
  *out = copy;
  return RUSH_OK;
}
