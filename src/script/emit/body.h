/* script/emit/body.h -- the bodies of composites in the operator table. */
#ifndef RUSH_SCRIPT_BODY_H
#define RUSH_SCRIPT_BODY_H

#include "ir/program.h"

/* A function of the built-in program `p` whose text is one `def`; its schema is the operator's. */
function *script_define_body(session *s, program *p, const op *o, const char *text);
/* The same of one of its gradient formulas (ops/call/gradient.h); `name` is unique in `p`. */
function *script_define_gradient(session *s, program *p, const op *o, const char *name,
                                 const char *text);
/* A function of any program from a text of the same kind, whose signature counts. */
function *script_define_text(session *s, program *p, const char *name, const char *text);

#endif
