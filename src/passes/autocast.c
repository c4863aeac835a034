/* passes/autocast.c -- applies `with torch.autocast("cpu")` to the operators in it: converts their
 * arguments.
 *
 * The casts are PyTorch's own operators.  The table's key script_autocast specifies which operators
 * get them, as PyTorch's pass over programs does; its dispatcher outside of programs differs (key
 * autocast).  Calls inside a region are inlined first.  Casts for other devices are left
 * unchanged. */
#include "ops/table/op_keys.h"
#include "passes/passes_int.h"

typedef enum policy { POLICY_NONE, POLICY_LOWER, POLICY_FULL } policy;

typedef struct region { /* one `with` that is open */
  bool is_on;
  int64_t dtype;
  struct region *outer;
} region;

static policy policy_of(session *s, const ir_node *n)
{
  if (schema_is_mutable(n->op->schema))
    return POLICY_NONE;
  if (n->op->name_key == OPN_BINARY_CROSS_ENTROPY)
    session_fail(s, &n->range, "Unsafe to autocast");
  return n->op->effects & OP_SCRIPT_AUTOCAST_LOWER     ? POLICY_LOWER
         : n->op->effects & OP_SCRIPT_AUTOCAST_FLOAT32 ? POLICY_FULL
                                                       : POLICY_NONE;
}

/* -- Regions ----------------------------------------------------------------------------------- */

bool pass_is_autocast(const ir_value *v)
{
  static const char *const names[] = {"__torch__.torch.amp.autocast_mode.autocast",
                                      "__torch__.torch.cpu.amp.autocast_mode.autocast",
                                      "__torch__.torch.cuda.amp.autocast_mode.autocast"};
  for (size_t i = 0; i < COUNT_OF(names) && v->type->kind == TYPE_CLASS; i++)
    if (v->type->name && strcmp(v->type->name, names[i]) == 0)
      return true;
  return false;
}

typedef struct settings { /* what the object was made of, or NULL */
  const ir_value *enabled, *dtype, *device;
} settings;

static void set_one(settings *to, const char *name, const ir_value *v)
{
  if (strcmp(name, "enabled") == 0 || strcmp(name, "_enabled") == 0)
    to->enabled = v;
  else if (strcmp(name, "dtype") == 0 || strcmp(name, "fast_dtype") == 0)
    to->dtype = v;
  else if (strcmp(name, "device_type") == 0 || strcmp(name, "device") == 0)
    to->device = v;
}

static settings settings_of(const ir_value *object)
{
  settings found = {NULL, NULL, NULL};
  for (const ir_use *u = object->uses; u; u = u->next) {
    const ir_node *n = u->user;
    const function *f = n->kind == IR_CALL_METHOD ? ir_node_callee(n) : NULL;
    if (n->kind == IR_SET_ATTR && ir_node_input(n, 0) == object)
      set_one(&found, ir_attr_string(n, "name"), ir_node_input(n, 1));
    if (f && f->schema && strcmp(f->name, "__init__") == 0)
      for (uint32_t i = 1; i < n->n_inputs && i < f->schema->n_args; i++)
        set_one(&found, f->schema->args[i].name, ir_node_input(n, i));
  }
  return found;
}

static region region_of(session *s, const ir_node *enter, region *outer)
{
  ASSERT(enter->kind == IR_ENTER && pass_is_autocast(ir_node_input(enter, 0)),
         "no region begins here");
  const ir_value *object = ir_node_input(enter, 0);
  settings set = settings_of(object);
  region r = {false, RUSH_BFLOAT16, outer};
  rush_value v;
  bool cuda = strstr(object->type->name, "cuda") != NULL;
  if (set.device && ir_value_as_constant(set.device, &v) && v.tag == RUSH_TAG_STRING)
    cuda = strcmp(v.as.string->text, "cpu") != 0;
  if (cuda) { /* no device of ours: what was before it stays */
    r.is_on = outer && outer->is_on;
    r.dtype = outer ? outer->dtype : r.dtype;
    return r;
  }
  if (set.enabled && !pass_is_constant_bool(set.enabled, &r.is_on))
    session_fail(s, &enter->range, "Autocast _enabled argument must be a constant");
  r.is_on |= !set.enabled;
  if (set.dtype)
    pass_is_constant_int(set.dtype, &r.dtype);
  return r;
}

/* -- Casts ------------------------------------------------------------------------------------- */

static ir_value *cast(session *s, ir_node *n, ir_value *v, policy to, const region *r)
{
  bool is_lower = to == POLICY_LOWER;
  ir_value *in[5] = {v, pass_put_constant(s, n, value_bool(false), type_simple(TYPE_BOOL)),
                     pass_put_constant(s, n, value_bool(true), type_simple(TYPE_BOOL)), NULL, NULL};
  if (is_lower) {
    in[3] = pass_put_int(s, n, RUSH_FLOAT16);
    in[4] = pass_put_int(s, n, r->dtype);
  }
  ir_node *made = pass_put_op(
    s, n, is_lower ? "aten::_autocast_to_reduced_precision" : "aten::_autocast_to_full_precision",
    "", in, is_lower ? 5 : 3);
  ASSERT(made && made->n_outputs == 1, "the table has both casts");
  return made->outputs[0];
}

static void cast_inputs(session *s, ir_node *n, const region *r)
{
  policy p = policy_of(s, n);
  for (uint32_t i = 0; p != POLICY_NONE && i < n->n_inputs; i++) {
    ir_value *v = ir_node_input(n, i);
    if (v->type->kind == TYPE_TENSOR)
      ir_node_set_input(n, i, cast(s, n, v, p, r));
  }
}

/* Inline the body of a call; returns false if it remains a call. */
static bool inline_here(session *s, ir_node *n)
{
  function *f = n->kind == IR_CALL_FUNCTION || n->kind == IR_CALL_METHOD ? ir_node_callee(n) : NULL;
  if (!f || f->state == FUNCTION_COMPILING ||
      (n->kind == IR_CALL_METHOD && pass_is_autocast(ir_node_input(n, 0))))
    return false;
  function_ensure(s, f);
  if (!f->graph || ir_block_n_inputs(f->graph->block) != n->n_inputs ||
      ir_block_n_outputs(f->graph->block) != n->n_outputs)
    return false;
  pass_inline_call(s, n, f, f->graph);
  return true;
}

static void cast_block(session *s, ir_block *b, region *r)
{
  session_enter(s);
  for (ir_node *n = ir_block_first(b), *next; n != b->ret; n = next) {
    session_poll(s);
    ir_node *before = n->prev;
    if (r && r->is_on && inline_here(s, n)) {
      next = before->next;
      continue;
    }
    next = n->next;
    if (n->kind == IR_ENTER && pass_is_autocast(ir_node_input(n, 0))) {
      region *inner = session_new(s, region);
      *inner = region_of(s, n, r);
      r = inner;
    } else if (n->kind == IR_EXIT && r && pass_is_autocast(ir_node_input(n, 0))) {
      r = r->outer;
    } else if (r && r->is_on && n->kind == IR_OP) {
      cast_inputs(s, n, r);
    }
    for (uint32_t i = 0; i < n->n_blocks; i++)
      cast_block(s, n->blocks[i], r);
  }
  session_leave(s);
}

static bool enters(const ir_block *b)
{
  for (const ir_node *n = ir_block_first(b); n != b->ret; n = n->next) {
    if (n->kind == IR_ENTER && pass_is_autocast(ir_node_input(n, 0)))
      return true;
    for (uint32_t i = 0; i < n->n_blocks; i++)
      if (enters(n->blocks[i]))
        return true;
  }
  return false;
}

bool pass_has_autocast(const ir_graph *g)
{
  return ir_graph_may_have(g, IR_ENTER) && enters(g->block);
}

void pass_autocast(session *s, ir_graph *g)
{
  if (pass_has_autocast(g))
    cast_block(s, g->block, NULL);
}
