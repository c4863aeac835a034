/* script/upgrade.c -- operators of older archives: functions of the program that stand in for them. */
#include <string.h>

#include "script/body.h"
#include "script/emit_int.h"

static const struct upgrader {
  const char *operator;
  int last; /* version that it is for */
  const char *text;
} upgraders[] = {
#define UPGRADER(operator, last, text) {operator, last, text},
#include "script/upgraders.def"
};

static bool is_named(const char *full, const schema *sc)
{
  size_t n = strlen(sc->name);
  return strncmp(full, sc->name, n) == 0 &&
         (full[n] == '.' ? strcmp(full + n + 1, sc->overload) == 0 : !full[n] && !sc->overload[0]);
}

function *em_upgrader(emitter *e, const op *o)
{
  if (e->names->version == 0)
    return NULL;
  for (size_t i = 0; i < COUNT_OF(upgraders); i++)
    if (e->names->version <= upgraders[i].last && is_named(upgraders[i].operator, o->schema))
      return script_define_text(e->s, e->p, session_printf(e->s, "upgraders.%s", upgraders[i].operator),
                                upgraders[i].text);
  return NULL;
}
