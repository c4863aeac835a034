/* archive/torchscript.c -- reads TorchScript archives (torchscript.h lists the records): constants,
 * then the root object.
 *
 * Classes are compiled when the pickles refer to them: the source importer reads code/ files one at
 * a time.  The archive remains open with the program while debug records may still be read
 * (tracebacks show the author's lines). */
#include "archive/torchscript.h"

#include "archive/legacy.h"
#include "archive/unpickle.h"
#include "script/front/import.h"

/* State shared by the importer and the unpickler.  Lives in the program's arena. */
typedef struct ts_reader {
  script_files files;
  zip_archive *zip; /* retained for code that is compiled later */
  program *program;
  bool is_legacy; /* of PyTorch 1.0 to 1.3: classes are in libs/ */
  bool meta;      /* tensors have no data */
} ts_reader;

/* -- Small records ----------------------------------------------------------------------------- */

static bool is_big_endian(session *s, const zip_archive *z)
{
  const zip_entry *e = zip_find(z, "byteorder");
  str text = e ? zip_read(s, z, e, NULL) : STR("little");

  if (str_is(text, "big"))
    return true;
  if (!str_is(text, "little"))
    zip_fail(s, z, e, "expected 'little' or 'big', found '%.*s'",
             (int)(text.len < 20 ? text.len : 20), text.p);
  return false;
}

/* Read the version record, in either of its positions. */
static int64_t read_version(session *s, const zip_archive *z)
{
  const zip_entry *e = zip_find(z, ".data/version");
  int64_t v = 0;

  if (!e)
    e = zip_find(z, "version");
  if (!e)
    session_fail_status(s, RUSH_EFORMAT, NULL, NULL, "%s: there is no version record",
                        z->map->name);
  str text = zip_read(s, z, e, NULL);
  for (size_t i = 0; i < text.len && text.p[i] != '\n'; i++) {
    if (text.p[i] < '0' || text.p[i] > '9' || v > 1000000)
      zip_fail(s, z, e, "expected a number");
    v = 10 * v + (text.p[i] - '0');
  }
  if (v < 1 || v > 10)
    zip_fail(s, z, e,
             "Attempted to read a PyTorch file with version %lld, but the %s supported version for "
             "reading is %d",
             (long long)v, v < 1 ? "minimum" : "maximum", v < 1 ? 1 : 10);
  return v;
}

/* -- Code and classes -------------------------------------------------------------------------- */

static bool find_code(session *s, void *user, const char *path, str *text)
{
  ts_reader *r = user;
  if (r->is_legacy && strncmp(path, "code/", 5) == 0)
    path = session_printf(s, "libs/%s", path + 5);
  const zip_entry *e = zip_find(r->zip, path);

  if (!e)
    return false;
  *text = zip_read(s, r->zip, e, NULL);
  return true;
}

static void release_zip(program *p)
{
  ts_reader *r = p->files;

  if (r)
    zip_release(r->zip);
}

static bool original(call_ctx *cx, program *p, const source_range *at, source_range *out,
                     source **src)
{
  return torchscript_original(cx, ((ts_reader *)p->files)->zip, at, out, src);
}

static uint32_t origins(session *s, program *p, const char *record, struct script_row **rows)
{
  return torchscript_origins(s, ((ts_reader *)p->files)->zip, record, rows);
}

static const type *find_class(unpickler *u, str qualified)
{
  return script_import_type(u->s, ((ts_reader *)u->user)->program, qualified);
}
static const type *parse_type(unpickler *u, str text)
{
  return script_parse_type(u->s, ((ts_reader *)u->user)->program, text);
}

static unpickler *new_unpickler(session *s, ts_reader *r, const char *folder)
{
  unpickler *u = session_new(s, unpickler);

  unpickler_init(u, s, r->zip, folder, &r->program->types);
  u->big_endian = is_big_endian(s, r->zip);
  u->meta = r->meta;
  u->find_class = find_class;
  u->parse_type = parse_type;
  u->user = r;
  return u;
}

static rush_value read_pickle(session *s, ts_reader *r, const char *record, const char *folder)
{
  const zip_entry *e = zip_need(s, r->zip, record);
  input in = zip_input(s, r->zip, e);

  return unpickle(new_unpickler(s, r, folder), pickle_read_all(s, &in));
}

static void read_constants(session *s, ts_reader *r)
{
  program *p = r->program;

  if (!zip_find(r->zip, "constants.pkl"))
    return;
  rush_value v = read_pickle(s, r, "constants.pkl", "constants/");
  if (v.tag != RUSH_TAG_TUPLE)
    session_fail_status(s, RUSH_EFORMAT, NULL, NULL, "%s: constants.pkl: expected a tuple",
                        r->zip->map->name);
  size_t n = v.as.tuple->n;
  p->constants = session_alloc_in(s, &p->mem, (n + 1) * sizeof(rush_value));
  for (size_t i = 0; i < n; i++) {
    program_own(s, p, v.as.tuple->items[i]);
    p->constants[i] = value_retain(v.as.tuple->items[i]);
  }
  p->n_constants = (uint32_t)n;
}

void torchscript_load(session *s, zip_archive *z, bool meta, module *m)
{
  program *p = program_new(s, s->cx->ctx);

  m->program = p; /* the module's from here on: it is released with it when loading fails */
  ts_reader *r = session_alloc_in(s, &p->mem, sizeof *r);
  r->files = (script_files){.find = find_code, .user = r, .version = read_version(s, z)};
  r->zip = zip_retain(z);
  r->program = p;
  r->meta = meta;
  p->files = r;
  size_t n = strlen(z->map->name);
  p->file = memcpy(session_alloc_in(s, &p->mem, n + 1), z->map->name, n);
  p->files_free = release_zip;
  p->original = original;
  p->origins = origins;
  script_importer_attach(s, p, &r->files);
  r->is_legacy = zip_find(z, "model.json") != NULL;
  rush_value root;
  if (r->is_legacy) {
    root = legacy_load(s, z, p, new_unpickler(s, r, ""));
  } else {
    read_constants(s, r);
    root = read_pickle(s, r, "data.pkl", "data/");
  }
  if (root.tag != RUSH_TAG_OBJECT)
    session_fail_status(s, RUSH_EFORMAT, NULL, NULL, "%s: data.pkl: the root is no module",
                        z->map->name);
  m->format = RUSH_FORMAT_TORCHSCRIPT;
  session_keep_value(s, root);
  m->object = root;
}

rush_value torchscript_load_value(session *s, zip_archive *z, type_store *types,
                                  bool takes_instances)
{
  const zip_entry *e = zip_need(s, z, "data.pkl");
  input in = zip_input(s, z, e);
  unpickler *u = session_new(s, unpickler);

  unpickler_init(u, s, z, "data/", types);
  u->big_endian = is_big_endian(s, z);
  u->takes_instances = takes_instances;
  return unpickle(u, pickle_read_all(s, &in));
}
