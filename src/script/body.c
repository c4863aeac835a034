/* script/body.c -- the bodies of composites. */
#include "script/body.h"

function *script_define_body(session *s, program *p, const op *o, const char *text)
{
  (void)p;
  (void)text;
  session_fail_status(s, RUSH_EUNSUPPORTED, NULL, NULL, "the body of %s cannot be compiled here",
                      o->schema->name);
}
