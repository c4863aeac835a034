/* module/module.h -- what a user loads and calls: an instance of a program's module class.
 *
 * A module holds its program, the object with its state, and for exported programs the signature.
 * Calls of methods that change state run alone, others together (one lock per instance,
 * base/lock.h; none when the type has no changing method).  What reads or writes the state from
 * outside of a call takes the same lock; the module's objects know it (object_lock).
 * Threads: locked inside.  Ownership: refcounted. */
#ifndef RUSH_MODULE_H
#define RUSH_MODULE_H

#include "base/lock.h"
#include "export/signature.h"
#include "formats/mapping.h"
#include "run/code.h"

typedef struct rush_module module;
struct rush_module {
  _Atomic uint32_t refs;
  context *ctx;        /* retained */
  program *program;    /* retained */
  rush_value object;   /* RUSH_TAG_OBJECT; owned */
  rush_format format;
  exported *exported;  /* RUSH_FORMAT_EXPORT: in the program's arena; else NULL */
  call_lock *lock; /* of the state; shared with all modules around objects of one root; retained */
  _Atomic(struct training_flags *)
    training;              /* where `training` of all submodules is; made when needed */
  struct mapping *samples; /* exported: the record of its sample inputs; retained; or NULL */
  _Atomic int is_random; /* some method may draw random numbers: -1 not known yet */
  table extra_files; /* without "extra/" or "extra_files/" -> text in the program's arena (str *) */
};

/* A text's functions, all compiled: methods of one object (script/front/unit.h).  *out is new. */
rush_status module_compile(call_ctx *cx, const char *name, uint32_t first_line, str text,
                           module **out) RUSH_CHECKED;
/* Add a text's definitions to such a module; all or nothing. */
rush_status module_define(call_ctx *cx, module *m, const char *name, uint32_t first_line,
                          str text) RUSH_CHECKED;
/* Returns st.  The message of a source that does not compile begins with a newline and names its
 * record: the archive's name goes before it. */
rush_status module_place(call_ctx *cx, const module *m, rush_status st);
/* Make a module around an object of the program; *out is new.  `root` (or NULL) is the module that
 * the object is part of, whose lock the new one shares. */
rush_status module_around(call_ctx *cx, program *p, rush_value object, const module *root,
                          module **out) RUSH_CHECKED;
/* A module without a program yet, new, or NULL without memory: for what loads one. */
module *module_new(call_ctx *cx);
/* Give m, which has its object now, one lock with it: root's, or the object's if it was part of a
 * module before, or m's own. */
void module_share_lock(module *m, const module *root);
module *module_retain(module *m);
void module_release(module *m);
/* deep: tensors copied (sharing kept); else parameters shared and only containers copied. */
rush_status module_copy(call_ctx *cx, module *m, module **out) RUSH_CHECKED;

/* Call by name, binding arguments as PyTorch would; the per-instance lock is taken here. */
rush_status module_call(call_ctx *cx, module *m, const char *method, const rush_value *args,
                        uint32_t n_args, const named_arg *kwargs, uint32_t n_kwargs,
                        rush_value *result) RUSH_CHECKED;
/* The same of any object's method; the object's lock, if it has one, is taken. */
rush_status object_call(call_ctx *cx, rush_value object, function *f, const rush_value *args,
                        uint32_t n_args, const named_arg *kwargs, uint32_t n_kwargs,
                        rush_value *result) RUSH_CHECKED;
/* The method, or NULL.  Exported programs have "forward" only. */
function *module_find_method(module *m, str name);
/* The same (NULL: "forward"); without it, an error that says which there are. */
rush_status module_method(module *m, const char *name, function **out,
                          rush_error *err) RUSH_CHECKED;
/* What a method (NULL: "forward") takes and returns.  *out is new. */
rush_status module_signature(call_ctx *cx, module *m, const char *method,
                             signature **out) RUSH_CHECKED;
/* Methods a user may call: public ones, in order of definition. */
uint32_t module_n_methods(const module *m);
const char *module_method_name(const module *m, uint32_t i);

/* May a call draw random numbers?  Compiles the methods at the first question. */
bool module_is_random(call_ctx *cx, module *m);
/* What rush_module_dump shows, appended to `out`. */
rush_status module_dump(call_ctx *cx, module *m, rush_dump what, const char *method,
                        text_buf *out) RUSH_CHECKED;

/* A method's code, appended to `out`, and the tuple of its constants, new. */
rush_status module_code(call_ctx *cx, module *m, const char *method, text_buf *out,
                        rush_value *constants) RUSH_CHECKED;

/* What never changes becomes part of the code (passes/freeze.h).  *out is new, of a class of its
 * own, and shares memory with m. */
typedef struct freeze_options {
  const char *const *preserved; /* attributes and methods, besides forward */
  size_t n_preserved;
  bool optimize; /* module_optimize_frozen afterwards */
  bool numerics; /* also where the last bits of results move */
} freeze_options;
rush_status module_freeze(call_ctx *cx, module *m, const freeze_options *options,
                          module **out) RUSH_CHECKED;
/* Rewrite the graphs of forward and the preserved methods; not while they are called. */
rush_status module_optimize_frozen(call_ctx *cx, module *m,
                                   const freeze_options *options) RUSH_CHECKED;

/* Walk parameters and buffers depth first as state_dict does; fn returns false to stop.  The caller
 * holds the lock. */
typedef bool module_visit(void *arg, const char *qualified, rush_value *slot, bool is_parameter);
rush_status module_walk_state(call_ctx *cx, module *m, module_visit *fn, void *arg) RUSH_CHECKED;

#endif
