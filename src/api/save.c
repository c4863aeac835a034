/* api/save.c -- the public functions that write modules, objects and values to files, and the extra
 * files of an archive.
 *
 * They check arguments, then use archive/write.h: a file is written beside its final path and
 * renamed, so that a failure leaves the old one. */
#include "api/api_int.h"

#include "archive/exported_open.h"

/* -- Saving ------------------------------------------------------------------------------------ */

rush_status api_save(call_ctx *cx, const api_saved *what, const char *path,
                     const rush_save_options *options)
{
  rush_save_options o = RUSH_SAVE_OPTIONS_INIT;
  archive_file *files = NULL;
  output out = {NULL, NULL, path ? path : "archive"};
  archive_target to = {.path = path};

  if (options)
    TRY(API_READ(cx->err, rush_save_options, options, &o));
  const size_t n = o.n_extra_files;
  if (!path && !o.write)
    return error_set(cx->err, RUSH_EARGUMENT, "saving needs a path or somewhere to write");
  if (n > 100000)
    return error_set(cx->err, RUSH_EARGUMENT, "%zu extra files are too many", n);
  to.method = o.function;
  if (o.write) {
    out.write = o.write;
    out.user = o.write_user;
    to.out = &out;
  }
  files = n ? mem_alloc(cx->ctx, n * sizeof(*files)) : NULL;
  if (n && !files)
    return call_nomem(cx);
  for (size_t i = 0; i < n; i++)
    files[i] =
      (archive_file){o.extra_files[i].name, {o.extra_files[i].data, o.extra_files[i].n_bytes}};
  to.files = files;
  to.n_files = (uint32_t)n;
  rush_status st = what->program  ? exported_open_write(cx, what->program, &to)
                   : what->module ? exported_write(cx, what->module, &to)
                                  : archive_write(cx, what->object, &to);
  mem_free(cx->ctx, files, n * sizeof(*files));
  return st;
}

rush_status rush_module_save(rush_module *m, const char *path, const rush_save_options *o,
                             rush_error *err)
{
  call_ctx cx;

  TRY(api_begin(&cx, m->ctx, err));
  lock_hold hold;
  TRY(lock_take(&cx, m->lock, LOCK_SHARED, &hold));
  const api_saved what = {.object = m->object, .module = m->exported ? m : NULL};
  rush_status st = api_save(&cx, &what, path, o);
  lock_drop(&hold);
  return module_place(&cx, m, st);
}

rush_status rush_object_save(rush_context *c, rush_value object, const char *path,
                             const rush_save_options *o, rush_error *err)
{
  call_ctx cx;

  lock_hold hold;
  TRY(api_begin(&cx, c, err));
  TRY(lock_take(&cx, object.tag == RUSH_TAG_OBJECT ? object_lock(object.as.object) : NULL,
                LOCK_SHARED, &hold));
  rush_status st = api_save(&cx, &(api_saved){.object = object}, path, o);
  lock_drop(&hold);
  return st;
}

/* -- Extra files ------------------------------------------------------------------------------- */

size_t rush_module_n_extra_files(const rush_module *m) { return m->extra_files.n; }

const char *api_extra_file(const table *files, size_t i, const void **data, size_t *n_bytes)
{
  if (i >= files->n)
    return NULL;
  const table_entry *e = &files->entries[i];
  if (data)
    *data = ((const str *)e->value)->p;
  if (n_bytes)
    *n_bytes = ((const str *)e->value)->len;
  return e->key.p;
}

const char *rush_module_extra_file(const rush_module *m, size_t i, const void **data,
                                   size_t *n_bytes)
{
  return api_extra_file(&m->extra_files, i, data, n_bytes);
}

/* -- Code -------------------------------------------------------------------------------------- */

rush_status rush_module_code(rush_module *m, const char *method, char **text, rush_value *constants,
                             rush_error *err)
{
  rush_value made;
  call_ctx cx;
  text_buf t;

  TRY(api_begin(&cx, m->ctx, err));
  text_init(&t, cx.ctx);
  rush_status st = module_code(&cx, m, method ? method : "forward", &t, &made);
  bool is_made = st == RUSH_OK;
  st = api_text(&cx, st, &t, text);
  if (is_made)
    api_return_steal(st, made, constants);
  return st;
}
