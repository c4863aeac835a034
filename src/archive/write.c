/* archive/write.c -- writes TorchScript archives (write.h). The object is pickled first, which
 * finds the classes it uses; code is printed for those, with the constants and debug records it
 * refers to. Records are written in a fixed order and with fixed names, so that equal modules are
 * written as equal bytes. Memory: the pickles and texts; tensors are written directly from their
 * memory. */
#include "archive/write.h"

#include "archive/debug_write.h"
#include "archive/pickler.h"
#include "formats/zip_write.h"

typedef struct code_file {
  const char *path;
  text_buf *text;
  script_text *to;
} code_file;

typedef struct archive_writer {
  session *s;
  const archive_target *to;
  zip_writer *zip;
  script_uses *uses;
  table by_prefix;   /* "__torch__.a" -> code_file */
  const type *unit;  /* the root's class, when its methods are functions of a text */
  const char *unit_name, *only;
} archive_writer;

/* -- Code -------------------------------------------------------------------------------------- */

/* Return the record for a name: __torch__.a.b.C is defined in code/__torch__/a/b.py. */
static script_text *file_of(archive_writer *a, const char *qualified)
{
  const char *dot = strrchr(qualified, '.');
  const char *prefix = session_printf(a->s, "%.*s", (int)(dot ? dot - qualified : 0), qualified);
  code_file *f = table_get(&a->by_prefix, str_of(prefix));

  if (!dot || strncmp(qualified, "__torch__.", 10) != 0)
    session_fail_status(a->s, RUSH_EUNSUPPORTED, NULL, NULL,
                        "'%s' cannot be saved: it is not from Python", qualified);
  if (f)
    return f->to;
  f = session_new(a->s, code_file);
  char *path = session_printf(a->s, "code/%s.py", prefix);
  for (char *c = path; c < path + 5 + strlen(prefix); c++)
    if (*c == '.')
      *c = '/';
  f->path = path;
  f->text = session_text(a->s);
  f->to = script_text_new(a->s, f->text);
  f->to->keeps_ranges = a->zip != NULL;
  session_table_put(a->s, &a->by_prefix, str_of(prefix), f);
  return f->to;
}

static void print_code(archive_writer *a)
{
  if (a->unit)
    script_print_unit(a->uses, file_of(a, a->unit_name), a->unit, a->unit_name, a->only);
  for (uint32_t i = 0; i < a->uses->n; i++) { /* printing adds more */
    script_use use = a->uses->items[i];
    if (use.function)
      script_print_function(a->uses, file_of(a, use.name), use.function, use.name, SELF_TYPED,
                            NULL);
    else if (use.type != a->unit)
      script_print_type(a->uses, file_of(a, use.type->name), use.type);
  }
  for (uint32_t i = 0; i < a->by_prefix.n; i++) {
    const code_file *f = a->by_prefix.entries[i].value;
    if (text_failed(f->text))
      session_check(a->s, call_nomem(a->s->cx));
  }
}

static void write_code(archive_writer *a, program *p)
{
  debug_writer *d = debug_writer_new(a->s, p);

  print_code(a);
  for (uint32_t i = 0; i < a->by_prefix.n; i++) {
    const code_file *f = a->by_prefix.entries[i].value;
    script_row *rows;
    uint32_t n = script_text_finish(a->s, f->to, &rows);
    str ranges = debug_write(d, rows, n);
    zip_write_deflated(a->zip, f->path, text_str(f->text), f->text->len);
    if (ranges.len)
      zip_write_deflated(a->zip, session_printf(a->s, "%s.debug_pkl", f->path), ranges.p,
                         ranges.len);
  }
}

/* -- Data -------------------------------------------------------------------------------------- */

static void write_pickle(archive_writer *a, pickler *p, const char *name)
{
  str bytes = pickle_finish(p->w);

  for (uint32_t i = 0; i < p->n_storages; i++)
    zip_write(a->zip, session_printf(a->s, "%s/%u", name, i), p->storages[i]->data,
              p->storages[i]->origin == STORAGE_META ? 0 : p->storages[i]->n_bytes);
  zip_write(a->zip, session_printf(a->s, "%s.pkl", name), bytes.p, bytes.len);
}

/* Write a module without state: PyTorch's own function modules have only `training`. */
static void put_unit(archive_writer *a, pickler *p)
{
  const char *dot = strrchr(a->unit_name, '.');

  pickle_global(p->w, (str){a->unit_name, (size_t)(dot - a->unit_name)}, str_of(dot + 1));
  pickle_op(p->w, PICKLE_OP_EMPTY_TUPLE);
  pickle_op(p->w, PICKLE_OP_NEWOBJ);
  pickle_op(p->w, PICKLE_OP_EMPTY_DICT);
  pickle_op(p->w, PICKLE_OP_MARK);
  pickle_str(p->w, STR("training"));
  pickle_bool(p->w, true);
  pickle_op(p->w, PICKLE_OP_SETITEMS);
  pickle_op(p->w, PICKLE_OP_BUILD);
}

static void write_constants(archive_writer *a)
{
  pickler *p = pickler_new(a->uses);

  if (a->uses->n_constants > 3)
    pickle_op(p->w, PICKLE_OP_MARK);
  for (uint32_t i = 0; i < a->uses->n_constants; i++)
    pickler_put(p, a->uses->constants[i], NULL);
  static const pickle_opcode small[] = {PICKLE_OP_EMPTY_TUPLE, PICKLE_OP_TUPLE1, PICKLE_OP_TUPLE2,
                                        PICKLE_OP_TUPLE3};
  pickle_op(p->w, a->uses->n_constants > 3 ? PICKLE_OP_TUPLE : small[a->uses->n_constants]);
  write_pickle(a, p, "constants");
}

/* -- All --------------------------------------------------------------------------------------- */

/* Find the functions of a text, which are the methods of a class without attributes. */
static void find_unit(archive_writer *a, rush_value object)
{
  const type *t = object.as.object->type;
  const class_info *c = t->cls;
  uint32_t n_functions = 0;

  if (c->n_methods == 0 && strchr(t->name, ' ')) /* script_unit_new's class: no name of a program */
    session_fail_status(a->s, RUSH_EARGUMENT, NULL, NULL,
                        "the text has no functions: there is nothing to save");
  for (uint32_t i = 0; i < c->n_methods; i++)
    n_functions += c->methods[i]->self == NULL;
  if (!c->is_module || c->n_attrs || n_functions == 0 || n_functions < c->n_methods) {
    if (a->to->method)
      session_fail_status(a->s, RUSH_EARGUMENT, NULL, NULL,
                          "only a function of a text can be saved by itself");
    return;
  }
  a->unit = t;
  if (a->to->method && !class_find_method(t, a->to->method))
    session_fail_status(a->s, RUSH_EARGUMENT, "AttributeError", NULL, "there is no function '%s'",
                        a->to->method);
  a->only = a->to->method ? a->to->method : c->n_methods == 1 ? c->methods[0]->name : NULL;
  const char *rest =
    t->name + strspn(t->name, "._abcdefghijklmnopqrstuvwxyzABCDEFGHIJKLMNOPQRSTUVWXYZ0123456789");
  static const char package[] = "__torch__.";
  const bool is_ours = strncmp(t->name, package, sizeof package - 1) == 0;
  const char first = is_ours ? t->name[sizeof package - 1] : 0;
  bool taken = a->only || *rest || first == 0 || (first >= '0' && first <= '9') ||
               program_find_function(c->program, str_of(t->name));
  a->unit_name = taken ? "__torch__.PlaceholderModule" : t->name;
}

/* Return PyTorch's name for the root: the file's name up to its first dot. */
static const char *root_name(session *s, const archive_target *to)
{
  if (to->root || !to->path)
    return to->root ? to->root : "archive";
  const char *slash = strrchr(to->path, '/'), *stem = slash ? slash + 1 : to->path;
  size_t n = strcspn(stem, ".");

  return n ? session_printf(s, "%.*s", (int)n, stem) : "archive";
}

typedef struct write_job {
  rush_value object;
  const archive_target *to;
} write_job;

static void start(archive_writer *a, session *s, rush_value object)
{
  if (!object.as.object->type->cls)
    session_fail_status(s, RUSH_EUNSUPPORTED, NULL, NULL,
                        "an object without TorchScript code cannot be saved");
  a->uses = script_uses_new(s);
  session_table_init(s, &a->by_prefix);
  find_unit(a, object);
}

static void write_version(archive_writer *a)
{
  const char *text = session_printf(a->s, "%lld\n", (long long)a->uses->version);

  zip_write(a->zip, a->uses->version >= 6 ? ".data/version" : "version", text, strlen(text));
}

static void write_records(archive_writer *a, rush_value object)
{
  for (uint32_t i = 0; i < a->to->n_files; i++) {
    const archive_file *f = &a->to->files[i];
    zip_write(a->zip, session_printf(a->s, "extra/%s", f->name), f->bytes.p, f->bytes.len);
  }
  pickler *p = pickler_new(a->uses);
  if (a->unit)
    put_unit(a, p);
  else
    pickler_put(p, object, NULL);
  write_pickle(a, p, "data");
  write_code(a, object.as.object->type->cls->program);
  write_constants(a);
  write_version(a);
  zip_write(a->zip, "byteorder", "little", 6);
  zip_write_identity(a->zip);
  zip_finish(a->zip);
}

static void write_body(session *s, void *arg)
{
  const write_job *job = arg;
  archive_writer *a = session_new(s, archive_writer);
  output_file *file = job->to->out ? NULL : output_file_new(s, job->to->path);
  output out = file ? output_to_file(file) : *job->to->out;

  a->s = s;
  a->to = job->to;
  start(a, s, job->object);
  a->uses->is_export = true;
  a->zip = zip_writer_new(s, &out, root_name(s, job->to));
  write_records(a, job->object);
  if (file)
    output_file_commit(s, file);
}

rush_status archive_write(call_ctx *cx, rush_value object, const archive_target *to)
{
  write_job job = {object, to};

  if (object.tag != RUSH_TAG_OBJECT)
    return error_set(cx->err, RUSH_EARGUMENT,
                     "only modules and objects of script classes can be saved");
  return session_run(cx, write_body, &job);
}

void archive_show_code(session *s, rush_value object, text_buf *out)
{
  static const archive_target nowhere = {.path = NULL};
  archive_writer *a = session_new(s, archive_writer);

  a->s = s;
  a->to = &nowhere;
  start(a, s, object);
  if (!a->unit)
    script_use_type(a->uses, object.as.object->type);
  print_code(a);
  for (uint32_t i = 0; i < a->by_prefix.n; i++) {
    const code_file *f = a->by_prefix.entries[i].value;
    text_printf(out, "# %s\n", f->path);
    text_add(out, text_str(f->text), f->text->len);
    text_putc(out, '\n');
  }
}
