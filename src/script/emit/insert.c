/* script/emit/insert.c -- inserts calls of operators for tools: an emitter without a function, of
 * which only the overload matching is used. */
#include "script/emit/insert.h"

#include "script/emit/emit_int.h"

ir_value *script_insert(session *s, ir_graph *g, ir_node *at, const char *name,
                        ir_value *const *args, uint32_t n, const char *const *names,
                        uint32_t n_named)
{
  program *p = program_of_types(g->types);
  call_args a = {.n = n - n_named, .n_kwargs = n_named};

  if (!p)
    session_fail_status(s, RUSH_EUNSUPPORTED, NULL, NULL,
                        "calls go into graphs that have types of their own");
  const resolver names_of = {.program = p};
  emitter e = {
    .s = s, .p = p, .g = g, .names = &names_of, .before = at, .memo = session_new(s, emit_memo)};

  a.args = session_array(s, ir_value *, n);
  if (n)
    memcpy(a.args, args, n * sizeof *args);
  a.kwargs = session_array(s, named_value, n_named);
  for (uint32_t i = 0; i < n_named; i++)
    a.kwargs[i] = (named_value){.name = names[i], .value = args[a.n + i]};
  return em_call_builtin(&e, name, NULL, &a);
}
