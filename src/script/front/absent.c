/* script/front/absent.c -- replaces the front end in builds without it (-Dfront_end=false).
 *
 * Exported programs need none of it: their graphs are data.  TorchScript archives, texts, live
 * functions, and operators whose bodies are TorchScript fail with a message that names the
 * option. */
#include "ir/program.h"
#include "script/emit/body.h"
#include "script/front/classes.h"
#include "script/front/host.h"
#include "script/front/import.h"
#include "script/emit/insert.h"
#include "script/front/unit.h"

_Noreturn static void refuse(session *s, const char *what)
{
  session_fail_status(
    s, RUSH_EUNSUPPORTED, NULL, NULL,
    "%s: this library was built without the front end of TorchScript (-Dfront_end=false)", what);
}

/* The parameters are the front end's; most are unused. */
#pragma GCC diagnostic ignored "-Wunused-parameter"

#define ABSENT(result, name, parameters, what) \
  result name parameters { refuse(s, what); }

/* -- Archives and texts ------------------------------------------------------------------------ */

void script_importer_attach(session *s, program *p, const script_files *files)
{
  refuse(s, p->file ? p->file : "a TorchScript archive");
}

ABSENT(const type *, script_import_type, (session *s, program *p, str qualified), p->file)
ABSENT(void, script_import_methods,
       (session * s, program *p, const type *cls, const char *file, str text), file)
ABSENT(const type *, script_parse_type, (session *s, program *p, str text), "types in annotations")
ABSENT(const type *, script_unit_load, (session *s, program *p, const char *file, str text), file)
ABSENT(const type *, script_unit_new, (session *s, program *p), "compiling a text")
ABSENT(void, script_unit_define,
       (session * s, program *p, const char *file, uint32_t first_line, str text), file)
bool script_unit_is(const program *p) { return false; }

void dataclass_put_method(text_buf *out, const char *cls, const char *type, const char *method,
                          const rush_dataclass_field *fields, size_t n, bool has_post_init)
{
}

/* -- Bodies of operators ----------------------------------------------------------------------- */

ABSENT(function *, script_define_body,
       (session * s, program *p, const op *o, const char *text, bool is_core),
       o->schema->name)
ABSENT(function *, script_define_gradient,
       (session *s, program *p, const op *o, const char *name, const char *text), o->schema->name)
ABSENT(function *, script_define_text,
       (session * s, program *p, const char *name, const char *text), name)
ABSENT(ir_value *, script_insert,
       (session * s, ir_graph *g, ir_node *at, const char *name, ir_value *const *args, uint32_t n,
        const char *const *names, uint32_t n_named),
       name)

/* -- Host languages ---------------------------------------------------------------------------- */

ABSENT(program *, script_host_new, (session *s, const rush_host *host), "compiling functions")
ABSENT(void, script_host_enter, (session *s, program *p), "compiling functions")
ABSENT(const char *, script_host_unique, (session *s, program *p, const char *name), name)
ABSENT(function *, script_host_define, (session * s, program *p, const rush_function_def *def),
       "compiling functions")
ABSENT(void, script_host_compile, (session *s, function *f), "compiling functions")
ABSENT(void, script_host_define_text,
       (session *s, program *p, source *src, const char *prefix, void *scope), "compiling a text")
function *script_host_of_text(const program *p, size_t i) { return NULL; }
ABSENT(const type *, script_host_add_class, (session * s, program *p, const rush_class_def *def),
       "compiling classes")
ABSENT(void, script_host_add_property,
       (session *s, const type *t, const char *name, function *getter, function *setter), name)
ABSENT(void, script_host_add_hook, (session *s, const type *t, function *f, bool pre), "hooks")
ABSENT(void, script_host_add_member, (session * s, const type *t, const char *name, rush_value v),
       name)
ABSENT(void, script_host_add_field,
       (session * s, const type *t, const char *name, const type *field,
        const rush_value *default_value),
       name)
ABSENT(bool, script_host_takes_undefined, (session * s, function *f, size_t i),
       "compiling functions")
ABSENT(bool, script_host_is_random, (session *s, function *f), "compiling functions")
ABSENT(const type *, script_host_wrap, (session *s, function *f), "compiling functions")
ABSENT(const type *, script_host_parse_type,
       (session * s, program *p, const char *text, void *scope), text)
