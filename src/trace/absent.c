/* trace/absent.c -- replaces the recorder in builds without the front end (-Dfront_end=false): it
 * makes methods and functions of a host's unit, and there are no units. */
#include "trace/recorder.h"
#include "trace/sensor.h"

#define WITHOUT \
  "tracing: this library was built without the front end of TorchScript (-Dfront_end=false)"

/* The parameters are the recorder's; most are unused. */
#pragma GCC diagnostic ignored "-Wunused-parameter"

_Noreturn static void refuse_trace(session *s)
{
  session_fail_status(s, RUSH_EUNSUPPORTED, NULL, NULL, WITHOUT);
}

#define ABSENT(result, name, parameters) \
  result name parameters { refuse_trace(s); }

ABSENT(recorder *, recorder_new, (session *s, program *p, const type *self))
void recorder_free(recorder *r) {}
program *recorder_program(const recorder *r) { return NULL; }
ABSENT(traced, recorder_input, (session *s, recorder *r, const type *t, const char *name))
ABSENT(traced, recorder_attribute, (session *s, recorder *r, const char *path))
ABSENT(traced, recorder_constant,
       (session *s, recorder *r, rush_value v, const type *t, const char *where))
ABSENT(void, recorder_add, (session *s, recorder *r, const recorder_call *c, traced *outputs))
ABSENT(void, recorder_set_name, (session *s, recorder *r, traced v, const char *name))
void recorder_skip(recorder *r, uint32_t n) {}
bool recorder_has(const recorder *r, traced v) { return false; }
ABSENT(void, recorder_open, (session *s, recorder *r, const char *path))
ABSENT(traced, recorder_close, (session *s, recorder *r, traced result))
ABSENT(uint32_t, recorder_finish, (session *s, recorder *r, traced output))
ABSENT(ir_graph *, recorder_graph, (session *s, const recorder *r, uint32_t i))
ABSENT(function *, recorder_define, (session *s, recorder *r, const char *name))
ABSENT(function *, script_define_graph,
       (session *s, program *p, const type *self, const char *name, const char *text,
        const rush_value *constants, uint32_t n))

rush_status trace_begin(context *c, const rush_value *inputs, const char *const *names, uint32_t n,
                        trace **out, rush_error *err)
{
  return error_set(err, RUSH_EUNSUPPORTED, WITHOUT);
}

context *trace_context(const trace *t) { return NULL; }
void trace_drop(trace *t) {}

rush_status trace_end_steal(call_ctx *cx, trace *t, const rush_value *outputs, uint32_t n,
                            program **out, rush_value *object)
{
  return trace_begin(NULL, NULL, NULL, 0, NULL, cx->err);
}
