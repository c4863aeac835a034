/* archive/exported_package.c -- chooses the program of a .pt2 package to open.
 *
 * A package contains programs (models/NAME.json), machine code that AOTInductor compiled from
 * programs (data/aotinductor/NAME/), or both.  torch.export.save writes one program, "model", and
 * torch.export.load opens that one. A single program of another name is opened as well.  If there
 * are several, the caller must choose: guessing could run the wrong one. */
#include "archive/exported_older.h"
#include "archive/exported_program.h"
#include "archive/open.h"
#include "archive/torchscript.h"
#include "archive/unpickle.h"

#define MODELS "models/"
#define COMPILED "data/aotinductor/"
#define OLDER "model" /* the name of the only program of the older layout */
#define ARCHIVE_VERSION "0" /* of the package's layout, in the record archive_version */

static bool starts_with(str s, str with)
{
  return s.len >= with.len && memcmp(s.p, with.p, with.len) == 0;
}

/* Return the record's program, or "" if it belongs to none. */
static str program_of(const zip_entry *e)
{
  const str begin = STR(MODELS), end = STR(".json");

  if (!e->in_root || e->path.len <= begin.len + end.len || !starts_with(e->path, begin) ||
      memcmp(e->path.p + e->path.len - end.len, end.p, end.len) != 0)
    return (str){0};
  return (str){e->path.p + begin.len, e->path.len - begin.len - end.len};
}

/* Return the name of the AOTInductor code that the record belongs to, or "". */
static str compiled_of(const zip_entry *e)
{
  const str begin = STR(COMPILED);

  if (!e->in_root || e->path.len <= begin.len || !starts_with(e->path, begin))
    return (str){0};
  str name = {e->path.p + begin.len, e->path.len - begin.len};
  const char *slash = memchr(name.p, '/', name.len);
  return (str){name.p, slash ? (size_t)(slash - name.p) : name.len};
}

typedef struct package {
  uint32_t n_programs;
  str first;    /* program */
  str compiled; /* "": there is nothing compiled */
  bool has_wanted, has_compiled_wanted;
} package;

static package look(const zip_archive *z, str wanted)
{
  package p = {0};

  for (uint32_t i = 0; i < z->n_entries; i++) {
    str program = program_of(&z->entries[i]), compiled = compiled_of(&z->entries[i]);

    if (program.len) {
      p.n_programs++;
      p.first = p.first.len ? p.first : program;
      p.has_wanted |= str_eq(program, wanted);
    } else if (compiled.len) {
      p.compiled = p.compiled.len ? p.compiled : compiled;
      p.has_compiled_wanted |= str_eq(compiled, wanted);
    }
  }
  return p;
}

static const char *list_programs(session *s, const zip_archive *z)
{
  const char *between = "";
  text_buf t;

  text_init(&t, s->cx->ctx);
  for (uint32_t i = 0; i < z->n_entries; i++) {
    str program = program_of(&z->entries[i]);
    if (!program.len)
      continue;
    text_printf(&t, "%s'%.*s'", between, (int)program.len, program.p);
    between = ", ";
  }
  return session_take_text(s, &t);
}

_Noreturn static void refuse_compiled(session *s, const zip_archive *z, str name)
{
  session_fail_status(s, RUSH_EUNSUPPORTED, NULL, NULL,
                      "%s: '%.*s' is an AOTInductor package: machine code that PyTorch compiled "
                      "for one kind of machine, which needs "
                      "PyTorch's own libraries; save the program itself with torch.export.save",
                      z->map->name, (int)name.len, name.p);
}

/* Refuse an archive without programs. */
_Noreturn static void refuse_empty(session *s, const zip_archive *z, const package *p)
{
  if (p->compiled.len)
    refuse_compiled(s, z, p->compiled);
  session_fail_status(s, RUSH_EFORMAT, NULL, NULL,
                      "%s: the package holds no program: there is no record models/NAME.json",
                      z->map->name);
}

static void check_archive_version(session *s, const zip_archive *z)
{
  const zip_entry *e = zip_find(z, "archive_version");

  if (!e)
    return;
  str version = zip_read(s, z, e, NULL);
  if (!str_eq(version, STR(ARCHIVE_VERSION)))
    session_fail_status(
      s, RUSH_EUNSUPPORTED, "ValueError", NULL,
      "%s: Saved archive version %.*s does not match our current archive version %s.", z->map->name,
      (int)(version.len < 40 ? version.len : 40), version.p, ARCHIVE_VERSION);
}

str exported_choose(session *s, const zip_archive *z, const char *program)
{
  const str wanted = str_of(program ? program : "model");
  package p = look(z, wanted);

  check_archive_version(s, z);
  if (p.has_wanted)
    return wanted;
  if (p.n_programs == 0 && exported_is_older(z)) {
    exported_check_older(s, z);
    if (program && strcmp(program, OLDER) != 0)
      session_fail_status(s, RUSH_EARGUMENT, NULL, NULL,
                          "%s: there is no program '%s': the package holds '" OLDER "'",
                          z->map->name, program);
    return STR(OLDER);
  }
  if (program && p.has_compiled_wanted)
    refuse_compiled(s, z, wanted);
  if (p.n_programs == 0)
    refuse_empty(s, z, &p);
  if (program)
    session_fail_status(s, RUSH_EARGUMENT, NULL, NULL,
                        "%s: there is no program '%s': the package holds %s", z->map->name, program,
                        list_programs(s, z));
  if (p.n_programs > 1)
    session_fail_status(s, RUSH_EARGUMENT, NULL, NULL,
                        "%s holds %u programs, %s, and none of them is 'model': choose one "
                        "(--program NAME; program=NAME; "
                        "rush_load_options.program)",
                        z->map->name, p.n_programs, list_programs(s, z));
  return p.first;
}

/* -- Sample inputs ----------------------------------------------------------------------------- */

static void release_owner(void *owner) { mapping_release(owner); }

mapping *exported_samples(session *s, const zip_archive *z, str program)
{
  const zip_entry *e = zip_find(z, exported_samples_record(s, z, program));
  mapping *owner = NULL, *made;

  str bytes = e ? zip_read(s, z, e, &owner) : (str){0};
  if (!bytes.len)
    return NULL;
  const char *name = session_printf(s, "%s: %.*s", z->map->name, (int)e->path.len, e->path.p);
  session_check(s, mapping_wrap(s->cx, name, (void *)(uintptr_t)bytes.p, bytes.len, release_owner,
                                owner, &made));
  mapping_retain(owner);
  return made;
}

typedef struct samples_job {
  const mapping *from;
  program *types;
  rush_value value;
} samples_job;

/* True for a tuple of a tuple and a dict whose keys are strings. */
static bool is_samples(rush_value v)
{
  const rush_tuple *t = v.tag == RUSH_TAG_TUPLE ? v.as.tuple : NULL;
  size_t pos = 0;

  if (!t || t->n != 2 || t->items[0].tag != RUSH_TAG_TUPLE || t->items[1].tag != RUSH_TAG_DICT)
    return false;
  for (const dict_entry *e; (e = dict_next(t->items[1].as.dict, &pos));)
    if (e->key.tag != RUSH_TAG_STRING)
      return false;
  return true;
}

/* Read the sample inputs from a copy: tensors need aligned memory, and the record may be anywhere
 * in its file. */
static void read_samples(session *s, void *arg)
{
  samples_job *job = arg;
  const mapping *from = job->from;
  mapping *map;

  session_check(s, mapping_copy(s->cx, from->name, from->data, from->n_bytes, &map));
  mapping_defer(s, map);
  rush_value v = torchscript_load_value(s, zip_open(s, map, false), &job->types->types, true);
  if (!is_samples(v))
    session_fail_status(s, RUSH_EFORMAT, NULL, NULL,
                        "%s: expected a tuple of arguments and a dict of named ones", from->name);
  session_keep_value(s, v);
  job->value = v;
}

rush_status exported_samples_value(call_ctx *cx, const mapping *samples, program *types,
                                   rush_value *out)
{
  samples_job job = {.from = samples, .types = types};

  if (samples)
    TRY(session_run(cx, read_samples, &job));
  *out = job.value;
  return RUSH_OK;
}

rush_status module_samples(call_ctx *cx, module *m, rush_value *out)
{
  return exported_samples_value(cx, m->samples, m->program, out);
}

typedef struct set_samples_job {
  module *m;
  const rush_value *args;
  const named_arg *kwargs;
  uint32_t n_args, n_kwargs;
} set_samples_job;

static rush_value args_tuple(session *s, const rush_value *items, uint32_t n)
{
  rush_tuple *t;

  session_check(s, tuple_new(s->cx, NULL, n, &t));
  session_defer_value(s, value_heap_steal(RUSH_TAG_TUPLE, t));
  for (uint32_t i = 0; i < n; i++)
    t->items[i] = value_retain(items[i]);
  return value_heap_steal(RUSH_TAG_TUPLE, t);
}

static rush_value kwargs_dict(session *s, const set_samples_job *job)
{
  rush_value key;
  rush_dict *d;

  session_check(s, dict_new(s->cx, type_simple(TYPE_STRING), type_simple(TYPE_ANY), &d));
  session_defer_value(s, value_heap_steal(RUSH_TAG_DICT, d));
  for (uint32_t i = 0; i < job->n_kwargs; i++) {
    session_check(s, string_new(s->cx, job->kwargs[i].name.p, job->kwargs[i].name.len, &key));
    session_check(s, dict_set_steal(s->cx, d, key, value_retain(job->kwargs[i].value)));
  }
  return value_heap_steal(RUSH_TAG_DICT, d);
}

static void set_samples(session *s, void *arg)
{
  const set_samples_job *job = arg;
  const rush_value parts[] = {args_tuple(s, job->args, job->n_args), kwargs_dict(s, job)};
  text_buf *out = session_text(s);
  const output to = output_to_text(out);
  mapping *map;

  value_write_saved(s, args_tuple(s, parts, 2), &to);
  session_check(s, mapping_copy(s->cx, "sample inputs", text_str(out), out->len, &map));
  mapping_release(job->m->samples);
  job->m->samples = map;
}

rush_status module_set_samples(call_ctx *cx, module *m, const rush_value *args, uint32_t n_args,
                               const named_arg *kwargs, uint32_t n_kwargs)
{
  set_samples_job job = {m, args, kwargs, n_args, n_kwargs};

  return session_run(cx, set_samples, &job);
}
