/* script/front/host.h -- programs that grow from the live objects of a host language
 * (rushlight/script.h).
 *
 * A resolver that calls the host's callbacks, and the declarations that a host makes. All of this
 * runs under the program's lock: script_host_enter takes it for the rest of the session. */
#ifndef RUSH_SCRIPT_HOST_H
#define RUSH_SCRIPT_HOST_H

#include "rushlight/script.h"
#include "script/emit/resolve.h"

program *script_host_new(session *s, const rush_host *host); /* new */
void script_host_enter(session *s, program *p);
/* Return the name, made unique by an additional part if necessary. */
const char *script_host_unique(session *s, program *p, const char *name);
function *script_host_define(session *s, program *p, const rush_function_def *def);
/* Compile the body, and everything that is declared meanwhile. */
void script_host_compile(session *s, function *f);
/* Define and compile the functions of a text; they can refer to each other.  Ownership of the scope
 * passes; it is released at the session's end. */
void script_host_define_text(session *s, program *p, source *src, const char *prefix, void *scope);
function *script_host_of_text(const program *p,
                              size_t i); /* the i-th function of all texts; NULL: there are fewer */
const type *script_host_add_class(session *s, program *p, const rush_class_def *def);
/* Make the class's name unknown from now on, and drop its pending methods.  The caller holds the
 * lock. */
void script_host_forget(program *p, const type *t);
void script_host_add_property(session *s, const type *t, const char *name, function *getter,
                              function *setter);
void script_host_add_hook(session *s, const type *t, function *f, bool pre);
void script_host_add_member(session *s, const type *t, const char *name, rush_value v);
void script_host_add_field(session *s, const type *t, const char *name, const type *field,
                           const rush_value *default_value);
/* True if the function does nothing with the parameter but return it. */
bool script_host_takes_undefined(session *s, function *f, size_t i);
/* True if a call may draw random numbers. */
bool script_host_is_random(session *s, function *f);
/* Make a class whose one method "forward" is the function (with a self that it ignores). */
const type *script_host_wrap(session *s, function *f);
/* Resolve an annotation's text in a scope (borrowed). */
const type *script_host_parse_type(session *s, program *p, const char *text, void *scope);

#endif
