/* api/plugin_absent.c -- replaces plugin.c in builds without dlopen (-Ddlopen=false). */
#include "api/api_int.h"
#include "base/error.h"

rush_status rush_plugin_load(rush_context *c, const char *path, rush_error *err)
{
  (void)c;
  return error_set(
    err, RUSH_EUNSUPPORTED,
    "%s: this library was built without plug-ins (-Ddlopen=false); link their operators "
    "and register them with the table of rush_backend",
    path ? path : "a plug-in");
}
