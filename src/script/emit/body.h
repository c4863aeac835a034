/* script/emit/body.h -- the bodies of composites in the operator table. */
#ifndef RUSH_SCRIPT_BODY_H
#define RUSH_SCRIPT_BODY_H

#include "script/emit/resolve.h"

/* Define a function of the built-in program `p` from a text of one `def`; its schema is the
 * operator's.  The text is the operator's body, or (is_core) its decomposition: a function of its
 * own, since an operator may have both. */
function *script_define_body(session *s, program *p, const op *o, const char *text, bool is_core);
/* Define one of its gradient formulas (ops/call/gradient.h); `name` is unique in `p`. */
function *script_define_gradient(session *s, program *p, const op *o, const char *name,
                                 const char *text);
/* Define a function of any program from such a text, with the signature in the text. */
function *script_define_text(session *s, program *p, const char *name, const char *text);
/* Define what the table has for a name of Python (KNOWN_BODY): a function, overloads or a class. */
struct op_known;
sugared script_define_known(session *s, program *p, const struct op_known *k);

#endif
