/* script/emit/upgrade.c -- operators of older archives: functions of the program that replace
 * them. */
#include <string.h>

#include "script/emit/body.h"
#include "script/emit/emit_int.h"
#include "script/emit/upgrade.h"

static const struct upgrader {
  const char *operator;
  int last; /* version that it is for */
  const char *text;
} upgraders[] = {
#define UPGRADER(operator, last, text) {operator, last, text},
#include "script/emit/upgraders.def"
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
      return script_define_text(
        e->s, e->p, session_printf(e->s, "upgraders.%s", upgraders[i].operator), upgraders[i].text);
  return NULL;
}

int64_t script_op_version(const schema *sc)
{
  /* Overloads that still accept their old form: they need no upgrader, but readers must know the
   * version. */
  static const struct { const char *operator; int version; } others[] = {
      {"aten::gelu", 10}, {"aten::gelu.out", 10}, {"aten::full.out", 5},
      {"aten::div.Tensor_mode", 4}, {"aten::div.Scalar_mode", 4}, {"aten::div.out_mode", 4},
      {"aten::div_.Tensor_mode", 4}, {"aten::div_.Scalar_mode", 4}};

  for (size_t i = 0; i < COUNT_OF(upgraders); i++)
    if (is_named(upgraders[i].operator, sc))
      return upgraders[i].last + 1;
  for (size_t i = 0; i < COUNT_OF(others); i++)
    if (is_named(others[i].operator, sc))
      return others[i].version;
  return 0;
}
