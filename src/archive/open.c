/* archive/open.c -- opens programs in all formats (open.h): a TorchScript archive, a torch.export
 * package, or a Python file.
 *
 * The format is recognised by the first bytes and by the records in a zip archive, never by the
 * file's name (except ".py", a text). Other kinds of files are refused with the name of their kind,
 * since a wrong file is the most common mistake. */
#include "archive/open.h"

#include "archive/exported_program.h"
#include "archive/exported_read.h"
#include "archive/saved.h"
#include "archive/torchscript.h"
#include "formats/foreign.h"
#include "formats/npy.h"
#include "formats/safetensors.h"
#include "script/front/unit.h"

typedef struct load_job {
  const archive_source *from;
  module *m;
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

mapping *archive_map(session *s, const archive_source *from)
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
    rush_status st =
      mapping_wrap(s->cx, name, (void *)from->data, from->n_bytes, release_host, b, &map);
    if (st != RUSH_OK)
      mem_free(s->cx->ctx, b, sizeof *b);
    session_check(s, st);
  } else {
    session_check(s, mapping_copy(s->cx, name, from->data, from->n_bytes, &map));
  }
  mapping_defer(s, map);
  return map;
}

/* True if the archive has code: PyTorch 1.4 wrote no constants.pkl for a program without
 * constants. */
static bool has_code(const zip_archive *z)
{
  for (uint32_t i = 0; i < z->n_entries; i++)
    if (z->entries[i].in_root && z->entries[i].path.len > 5 &&
        memcmp(z->entries[i].path.p, "code/", 5) == 0)
      return true;
  return false;
}

static bool is_python(const char *name)
{
  size_t n = strlen(name);

  return n > 3 && strcmp(name + n - 3, ".py") == 0;
}

/* Load a text: its functions are the methods of one object without attributes. */
static void load_text(session *s, const mapping *map, module *m)
{
  rush_object *o;

  m->program = program_new(s, s->cx->ctx); /* released with the module, also when loading fails */
  const type *t =
    script_unit_load(s, m->program, map->name, (str){(const char *)map->data, map->n_bytes});
  session_check(s, object_new(s->cx, t, 0, &o));
  m->object = value_heap_steal(RUSH_TAG_OBJECT, o);
  m->format = RUSH_FORMAT_TORCHSCRIPT;
}

_Noreturn static void refuse_program(session *s, const mapping *map, const char *program)
{
  session_fail_status(
    s, RUSH_EARGUMENT, NULL, NULL,
    "%s: program '%s' cannot be chosen: only packages of torch.export hold several programs",
    map->name, program);
}

/* Return the name of a file that the author put into the archive: "extra/NAME" beside the program,
 * "extra_files/NAME" in torch.export's older format. */
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

void archive_extra_files(session *s, const zip_archive *z, arena *mem, table *files)
{
  for (uint32_t i = 0; i < z->n_entries; i++) {
    const str name = extra_name(&z->entries[i]);
    if (!name.len)
      continue;
    str text = zip_read(s, z, &z->entries[i], NULL);
    str *kept = session_alloc_in(
      s, mem, sizeof *kept + text.len + name.len + 1); /* zeroed: the name ends */
    char *bytes = (char *)(kept + 1);
    memcpy(bytes, text.p, text.len);
    memcpy(bytes + text.len, name.p, name.len);
    *kept = (str){bytes, text.len};
    session_table_put(s, files, (str){bytes + text.len, name.len}, kept);
  }
}

#define WEIGHTS_ONLY                                                                              \
  "weights without a program (`rushlight show` lists them): load them in Python into the model, " \
  "and save that "                                                                                \
  "with torch.jit.save or torch.export.save"

/* Describe a file that is not a zip archive; "": unknown. */
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
                      "%s: PytorchStreamReader failed reading zip archive: failed finding central "
                      "directory: expected a zip "
                      "archive of torch.jit.save or torch.export.save; %s%s",
                      map->name, *what ? "the file is " : "the file starts with other bytes", what);
}

static bool holds_exported(const zip_archive *z)
{
  return zip_find(z, "models/model.json") || zip_find(z, "archive_format") ||
         zip_find_name(z, STR("serialized_exported_program.json"));
}

static void load_body(session *s, void *arg)
{
  load_job *job = arg;
  mapping *map = archive_map(s, job->from);

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
    session_fail_status(s, RUSH_EUNSUPPORTED, NULL, NULL,
                        "%s: only TorchScript of PyTorch 1.4 or newer loads without its data",
                        map->name);
  const bool is_exported = holds_exported(z);
  if (job->from->program && !is_exported)
    refuse_program(s, map, job->from->program);
  if (is_exported)
    exported_program_load(s, z, exported_choose(s, z, job->from->program), job->m);
  else if (zip_find(z, "model.json") ||
           (zip_find(z, "data.pkl") && (zip_find(z, "constants.pkl") || has_code(z))))
    torchscript_load(s, z, job->from->meta, job->m);
  else if (zip_find(z, "data.pkl"))
    session_fail_status(s, RUSH_EFORMAT, NULL, NULL,
                        "%s: PytorchStreamReader failed locating file constants.pkl: file not "
                        "found: a torch.save file of plain data "
                        "holds no program, but " WEIGHTS_ONLY,
                        map->name);
  else
    session_fail_status(
      s, RUSH_EFORMAT, NULL, NULL,
      "%s: neither data.pkl (TorchScript) nor models/model.json (torch.export) is in the archive",
      map->name);
  archive_extra_files(s, z, &job->m->program->mem, &job->m->extra_files);
}

rush_status module_load(call_ctx *cx, const archive_source *from, module **out)
{
  module *m = module_new(cx);

  if (!m)
    return call_nomem(cx);
  load_job job = {.from = from, .m = m};
  rush_status st = module_place(cx, m, session_run(cx, load_body, &job));
  if (st == RUSH_OK) {
    module_share_lock(m, NULL);
    *out = m;
  }
  else
    module_release(m);
  return st;
}


typedef struct parse_job {
  module *weights, *m;
  const char *place;
  str text;
} parse_job;

static void parse_body(session *s, void *arg)
{
  const parse_job *job = arg;

  exported_program_parse(s, job->place, job->text, job->weights, job->m);
}

rush_status module_parse_export(call_ctx *cx, module *weights, const char *place, str text,
                                module **out)
{
  module *m = module_new(cx);
  parse_job job = {weights, m, place, text};
  lock_hold hold;

  if (!m)
    return call_nomem(cx);
  rush_status st = lock_take(cx, weights->lock, LOCK_SHARED, &hold);
  if (st == RUSH_OK) {
    st = session_run(cx, parse_body, &job);
    lock_drop(&hold);
  }
  if (st != RUSH_OK) {
    module_release(m);
    return st;
  }
  module_share_lock(m, NULL);
  *out = m;
  return RUSH_OK;
}

typedef struct verify_job {
  const archive_source *from;
  const char *dialect;
  text_buf *faults;
  bool is_exported;
} verify_job;

static void verify_body(session *s, void *arg)
{
  verify_job *job = arg;
  mapping *map = archive_map(s, job->from);

  if (!zip_looks_like(map->data, map->n_bytes))
    return;
  zip_archive *z = zip_open(s, map, job->from->check_full);
  job->is_exported = holds_exported(z);
  if (job->is_exported)
    exported_faults(s, z,
                    exported_read(s, z, exported_choose(s, z, job->from->program),
                                  EXPORTED_AS_DATA),
                    job->dialect, job->faults);
}

rush_status archive_verify(call_ctx *cx, const archive_source *from, const char *dialect,
                           text_buf *faults, bool *is_exported)
{
  verify_job job = {.from = from, .dialect = dialect, .faults = faults};
  const rush_status st = session_run(cx, verify_body, &job);

  if (st == RUSH_OK)
    *is_exported = job.is_exported;
  return st;
}
