/* module/module.h -- modules that users load and call: an instance of a program's module class.
 *
 * A module holds its program, the object with its state, and for exported programs the signature.
 * Calls of methods that change state run alone, others together (one lock per instance,
 * base/lock.h; none if no method changes state).  Reading or writing the state from outside a call
 * takes the same lock; the module's objects refer to it (object_lock). Threads: locked internally.
 * Ownership: one owner; what several share (the program, the object, the lock) is retained. */
#ifndef RUSH_MODULE_H
#define RUSH_MODULE_H

#include "base/lock.h"
#include "export/capture.h"
#include "export/signature.h"
#include "formats/mapping.h"
#include "run/code.h"

typedef struct rush_module module;
struct rush_module {
  context *ctx;        /* retained */
  program *program;    /* retained */
  rush_value object;   /* RUSH_TAG_OBJECT; owned */
  rush_format format;
  exported *exported;  /* for RUSH_FORMAT_EXPORT: in the program's arena; else NULL */
  call_lock *lock; /* of the state; shared with all modules around objects of one root; retained */
  _Atomic(function *) found; /* the method that was looked for last, or NULL */
  _Atomic(struct training_flags *)
    training;              /* the positions of `training` in all submodules; made when needed */
  /* exported programs: the record of the sample inputs; retained; or NULL */
  struct mapping *samples;
  /* exported programs: the archive, retained, and the program's name in it (in the program's
   * arena), to read them as data; or NULL */
  struct zip_archive *archive;
  const char *archive_name;
  exported_program *data; /* of a program that was captured here; retained; else NULL */
  _Atomic int is_random; /* some method may draw random numbers; -1: unknown */
  table extra_files; /* without "extra/" or "extra_files/" -> text in the program's arena (str *) */
};

/* Compile all functions of a text: methods of one object (script/front/unit.h).  *out is new. */
rush_status module_compile(call_ctx *cx, const char *name, uint32_t first_line, str text,
                           module **out) RUSH_CHECKED;
/* Add a text's definitions to such a module; all or none. */
rush_status module_define(call_ctx *cx, module *m, const char *name, uint32_t first_line,
                          str text) RUSH_CHECKED;
/* Put the archive's name before the message of a source that does not compile; such a message
 * begins with a newline and names its record.  Returns st. */
rush_status module_place(call_ctx *cx, const module *m, rush_status st);
/* Make a module around an object of the program; *out is new.  `root` (or NULL) is the module that
 * the object is part of, whose lock the new one shares. */
rush_status module_around(call_ctx *cx, program *p, rush_value object, const module *root,
                          module **out) RUSH_CHECKED;
/* Make a module without a program, for loaders.  New, or NULL if memory runs out. */
module *module_new(call_ctx *cx);
/* Set one lock for m, whose object is set, and the object: root's, or the object's if it was part
 * of a module before, or m's own. */
void module_share_lock(module *m, const module *root);
void module_release(module *m);
/* Copy a module.  deep: tensors are copied (sharing kept); otherwise parameters are shared and only
 * containers are copied. */
rush_status module_copy(call_ctx *cx, module *m, module **out) RUSH_CHECKED;

/* Call a method by name, binding arguments as PyTorch does; takes the per-instance lock. */
rush_status module_call(call_ctx *cx, module *m, const char *method, const rush_value *args,
                        uint32_t n_args, const named_arg *kwargs, uint32_t n_kwargs,
                        rush_value *result) RUSH_CHECKED;
/* Like module_call, for a method of any object; takes the object's lock, if it has one. */
rush_status object_call(call_ctx *cx, rush_value object, function *f, const rush_value *args,
                        uint32_t n_args, const named_arg *kwargs, uint32_t n_kwargs,
                        rush_value *result) RUSH_CHECKED;
/* Return the method, or NULL.  Exported programs have only "forward". */
function *module_find_method(module *m, const char *name);
/* Get the method (NULL: "forward"); if it does not exist, the error lists the existing ones. */
rush_status module_method(module *m, const char *name, function **out,
                          rush_error *err) RUSH_CHECKED;
/* Make the signature of a method (NULL: "forward").  *out is new. */
rush_status module_signature(call_ctx *cx, module *m, const char *method,
                             signature **out) RUSH_CHECKED;
/* Return the methods that a user may call: public ones, in order of definition. */
uint32_t module_n_methods(const module *m);
const char *module_method_name(const module *m, uint32_t i);

/* True if a call may draw random numbers.  The first call of this compiles the methods. */
bool module_is_random(call_ctx *cx, module *m);
/* Append the text of rush_module_dump to `out`. */
rush_status module_dump(call_ctx *cx, module *m, rush_dump what, const char *method,
                        text_buf *out) RUSH_CHECKED;

/* Append a method's code to `out`, and return the tuple of its constants, new. */
rush_status module_code(call_ctx *cx, module *m, const char *method, text_buf *out,
                        rush_value *constants) RUSH_CHECKED;

/* Freezing turns what never changes into constants of the code (passes/freeze_object.h).  *out is
 * new, of a class of its own, and shares memory with m. */
typedef struct freeze_options {
  const char *const *preserved; /* attributes and methods, besides forward */
  size_t n_preserved;
  bool optimize; /* call module_optimize_frozen afterwards */
  bool numerics; /* also optimise if the last bits of results may change */
} freeze_options;
rush_status module_freeze(call_ctx *cx, module *m, const freeze_options *options,
                          module **out) RUSH_CHECKED;
/* Optimise the graphs of forward and the preserved methods; do not call it while they are
 * called. */
rush_status module_optimize_frozen(call_ctx *cx, module *m,
                                   const freeze_options *options) RUSH_CHECKED;

/* Make an exported program of a call of a method (export/capture.h); options->given is filled in.
 * *out is new, and shares the module's tensors. */
rush_status module_export(call_ctx *cx, module *m, const char *method, const rush_value *args,
                          uint32_t n_args, const named_arg *kwargs, uint32_t n_kwargs,
                          const capture_options *options, module **out) RUSH_CHECKED;
/* Let `made`, an empty module, run a program that was captured, on that state (name ->
 * rush_tensor), with or without the program's guards.  It retains the program. */
void module_lower(session *s, const exported_program *data, const table *state, bool check_guards,
                  module *made);

/* Visit parameters and buffers depth first as state_dict does; fn returns false to stop.  The
 * caller holds the lock. */
typedef bool module_visit(void *arg, const char *qualified, rush_value *slot, bool is_parameter);
rush_status module_walk_state(call_ctx *cx, module *m, module_visit *fn, void *arg) RUSH_CHECKED;

#endif
