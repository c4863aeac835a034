#include "base/threads.h"
#include "compile/compile.h"
#include "compile/fuse.h"
#include "ops/call.h"
#include "ops/point_run.h"
#include "tensor/iter.h"

#define OP_NAME "rushlight::pointwise"
#define MOST_PLANS 16 /* of a group; kinds of arguments beyond are interpreted */

typedef struct compiler { /* of a context */
  const rush_backend_api *api;
  context *ctx;
  atomic_bool is_ready; /* registered whole */
  _Atomic uint64_t groups, plans, calls;
} compiler;

typedef struct plan { /* for one key */
  uint64_t key;
  fused tape;
  loop_code *code;  /* NULL: the engine runs the tape */
  bool is_possible; /* else the interpreter does it */
} plan;

typedef struct group { /* of a node: call_state */
  compiler *owner;
  context *ctx;
  group_desc *desc;
  mutex lock; /* of making plans */
  _Atomic uint32_t n_plans;
  plan *_Atomic plans[MOST_PLANS];
} group;

/* It may change between calls: keys have what was wanted. */
static uint64_t wanted_cpu(const context *c) { return context_get_options(c)->cpu; }
static cpu_level level_of(const context *c) { return cpu_choose(context_get_options(c)->cpu); }

/* -- Plans ------------------------------------------------------------------------------------------------ */

static void plan_free(group *g, plan *p)
{
  loop_code_release(p->code);
  fused_free(&p->tape);
  mem_free(g->ctx, p, sizeof *p);
}

static bool runs_as_tape(const fused *f) { return f->tape.n_regs <= RUN_MAX_REGS; }

static rush_status fill_plan(call_ctx *cx, group *g, const arg_kind *kinds, plan *p)
{
  cpu_level level = level_of(cx->ctx);
  bool ok;

  TRY(group_fuse(cx, g->desc, kinds, &p->tape, &ok));
  if (!ok)
    return RUSH_OK;
  if (level >= CPU_AVX2) {
    rush_error ignored = RUSH_ERROR_INIT, *err = cx->err;

    cx->err = &ignored; /* no machine code: the tape is there */
    rush_status st = loop_compile(cx, &p->tape.tape, level, &p->code);
    cx->err = err;
    rush_error_clear(&ignored);
    if (st != RUSH_OK && st != RUSH_EUNSUPPORTED)
      return st == RUSH_ENOMEM ? call_nomem(cx) : st;
  }
  p->is_possible = p->code || runs_as_tape(&p->tape);
  atomic_fetch_add_explicit(&g->owner->plans, p->is_possible, memory_order_relaxed);
  return RUSH_OK;
}

static plan *find_plan(group *g, uint64_t key)
{
  uint32_t n = atomic_load_explicit(&g->n_plans, memory_order_acquire);

  for (uint32_t i = 0; i < n; i++) {
    plan *p = atomic_load_explicit(&g->plans[i], memory_order_relaxed);

    if (p->key == key)
      return p;
  }
  return NULL;
}

static rush_status add_plan(call_ctx *cx, group *g, uint64_t key, const arg_kind *kinds, plan **out)
{
  uint32_t n = atomic_load(&g->n_plans);
  plan *p = n < MOST_PLANS ? mem_alloc_zero(g->ctx, sizeof *p) : NULL;

  if (!p)
    return n < MOST_PLANS ? call_nomem(cx) : RUSH_OK;
  p->key = key;
  rush_status st = fill_plan(cx, g, kinds, p);
  if (st != RUSH_OK) {
    plan_free(g, p);
    return st;
  }
  atomic_store_explicit(&g->plans[n], p, memory_order_relaxed);
  atomic_store_explicit(&g->n_plans, n + 1, memory_order_release);
  *out = p;
  return RUSH_OK;
}

/* *out NULL: there are too many already. */
static rush_status plan_of(call_ctx *cx, group *g, uint64_t key, const arg_kind *kinds, plan **out)
{
  *out = find_plan(g, key);
  if (LIKELY(*out != NULL))
    return RUSH_OK;
  mutex_lock(&g->lock);
  *out = find_plan(g, key);
  rush_status st = *out ? RUSH_OK : add_plan(cx, g, key, kinds, out);
  mutex_unlock(&g->lock);
  return st;
}

/* -- Facts of a call -------------------------------------------------------------------------------------- */

typedef struct facts {
  uint64_t key;
  arg_kind kinds[GROUP_MAX_INPUTS];
  int n_dims;
  int64_t sizes[TENSOR_MAX_DIMS]; /* of the results */
  const rush_tensor *like; /* a tensor of these sizes */
  bool flat; /* every tensor has `like`'s sizes and strides, which are dense */
} facts;

static bool same_sizes(const rush_tensor *a, int n_dims, const int64_t *sizes)
{
  return a->n_dims == n_dims && memcmp(a->sizes, sizes, sizeof *sizes * (size_t)n_dims) == 0;
}

/* Sizes to which the tensors broadcast.  False: they don't, or only the interpreter knows the layout. */
static bool find_sizes(const rush_call *call, facts *f)
{
  for (uint32_t i = 0; i < call->n_args; i++) {
    const rush_tensor *t = call_tensor(call, i);
    int64_t sizes[TENSOR_MAX_DIMS];
    int n;

    if (!t)
      continue;
    f->flat = false;
    if (!tensor_is_contiguous(t) || !sizes_broadcast(f->n_dims, f->sizes, t->n_dims, t->sizes, &n, sizes))
      return false;
    f->n_dims = n;
    memcpy(f->sizes, sizes, sizeof *sizes * (size_t)n);
  }
  f->like = NULL;
  for (uint32_t i = 0; i < call->n_args && !f->like; i++)
    if (call_tensor(call, i) && same_sizes(call_tensor(call, i), f->n_dims, f->sizes))
      f->like = call_tensor(call, i);
  for (int i = 0; i < f->n_dims; i++) /* PyTorch's strides of single elements follow rules of their own */
    if (f->sizes[i] <= 1)
      return false;
  return f->like != NULL;
}

/* The first tensor, and whether all others have its geometry. */
static bool look_at_tensors(const rush_call *call, facts *f)
{
  const rush_tensor *first = NULL;

  f->flat = true;
  for (uint32_t i = 0; i < call->n_args; i++) {
    rush_value v = call->args[i];
    const rush_tensor *t = v.tag == RUSH_TAG_TENSOR ? v.as.tensor : NULL;

    if (!t) {
      if (v.tag != RUSH_TAG_FLOAT && v.tag != RUSH_TAG_INT && v.tag != RUSH_TAG_BOOL)
        return false;
      continue;
    }
    if (t->dtype != RUSH_FLOAT32 && t->dtype != RUSH_BOOL)
      return false;
    if (!first)
      first = t;
    else if (f->flat)
      f->flat = tensor_same_geometry(t, first);
  }
  if (!first)
    return false;
  f->like = first;
  f->n_dims = first->n_dims;
  memcpy(f->sizes, first->sizes, sizeof *f->sizes * (size_t)f->n_dims);
  if (f->flat)
    return tensor_is_dense(first);
  return find_sizes(call, f);
}

static bool read_facts(const rush_call *call, facts *f)
{
  if (!look_at_tensors(call, f))
    return false;
  f->key = wanted_cpu(call->cx->ctx);
  for (uint32_t i = 0; i < call->n_args; i++) {
    const rush_tensor *t = call_tensor(call, i);
    bool one = t && !f->flat && t->n_elems == 1;

    f->kinds[i] = !t ? ARG_NUMBER
                  : t->dtype == RUSH_BOOL ? (one ? ARG_BOOL_ONE : ARG_BOOL_ROW)
                                          : (one ? ARG_F32_ONE : ARG_F32_ROW);
    f->key = f->key << 3 | (uint64_t)f->kinds[i];
  }
  return true;
}

/* Does every result have the sizes of all arguments together? */
static bool results_fit(const rush_call *call, const facts *f, const fused *t)
{
  if (f->flat)
    return true;
  for (int k = 0; k < t->tape.n_results; k++) {
    bool full = false;

    for (uint32_t i = 0; i < call->n_args && !full; i++)
      full = t->result_inputs[k] >> i & 1 && same_sizes(call_tensor(call, i), f->n_dims, f->sizes);
    if (!full)
      return false;
  }
  return true;
}

/* -- Running ------------------------------------------------------------------------------------------------ */

static void fill_run(const rush_call *call, const facts *f, const plan *p, point_run *r)
{
  const loop_tape *t = &p->tape.tape;

  r->isa = tape_isa_of(call->cx->ctx);
  r->machine_code = p->code ? p->code->fn : NULL;
  r->code = t->code;
  r->n_instrs = p->code ? 0 : t->n_instrs;
  r->n_inputs = t->n_inputs;
  r->n_consts = p->code ? 0 : t->n_consts;
  r->n_regs = p->code ? t->n_inputs + t->n_results : t->n_regs;
  r->n_results = t->n_results;
  r->n_dims = f->n_dims;
  r->sizes = f->sizes;
  r->dtype = RUSH_FLOAT32;
  for (int i = 0; i < N_TAPE_SYMS; i++)
    r->types[i] = i == TY_BOOL ? TY_BOOL : TY_F32; /* the tape's types are resolved */
  for (int i = 0; i < t->n_inputs; i++) {
    r->inputs[i].tensor = call_tensor(call, (uint32_t)i);
    r->inputs[i].type = t->input_types[i];
    r->inputs[i].via = -1;
    if (!r->inputs[i].tensor)
      r->inputs[i].number = point_read_number(call->args[i]);
  }
  for (int i = 0; i < r->n_consts; i++) {
    r->consts[i].type = TY_F32;
    r->consts[i].number = (point_number){.is_float = true, .re = t->consts[i]};
  }
  for (int i = 0; i < t->n_results; i++) {
    r->results[i].reg = p->code ? (uint8_t)(t->n_inputs + i) : t->results[i];
    r->results[i].type = t->result_types[i];
    r->results[i].via = -1;
    r->results[i].tensor = call_out(call, (uint32_t)i);
  }
}

static rush_status new_result(rush_call *call, const facts *f, int dtype, uint64_t *taken, rush_tensor **out)
{
  bool contiguous = !f->flat || tensor_is_contiguous(f->like);

  for (uint32_t i = 0; call->last_use && contiguous && i < call->n_args; i++) {
    rush_tensor *t = *taken >> i & 1 ? NULL : call_take_buffer(call, i, dtype, f->n_dims, f->sizes);

    if (t) {
      *taken |= UINT64_C(1) << i;
      *out = t;
      return RUSH_OK;
    }
  }
  return contiguous ? tensor_new(call->cx, dtype, f->n_dims, f->sizes, out)
                    : tensor_new_strided(call->cx, dtype, f->n_dims, f->sizes, f->like->strides, out);
}

/* Results that pass the caches anyway go around them: a quarter to a third faster at 16 MB, slower below some MB.  Rows
 * in a row only: pieces start at multiples of 64 bytes then. */
#define STREAM_BYTES ((size_t)8 << 20)
static bool streams(const rush_call *call, uint64_t taken)
{
  bool good = !taken;

  for (uint32_t k = 0; k < call->n_results && good; k++) {
    const rush_tensor *t = call_out(call, k);

    good = (size_t)t->n_elems * tensor_item_bytes(t) >= STREAM_BYTES && (uintptr_t)t->data % 64 == 0;
  }
  return good;
}

/* One geometry: the code runs over the memory as it is. */
static rush_status run_flat(rush_call *call, const facts *f, const plan *p, uint64_t taken)
{
  const loop_tape *t = &p->tape.tape;
  void *data[GROUP_MAX_INPUTS + GROUP_MAX_RESULTS];
  uint8_t item[GROUP_MAX_INPUTS + GROUP_MAX_RESULTS];
  float numbers[GROUP_MAX_INPUTS];

  for (int i = 0; i < t->n_inputs; i++) {
    rush_tensor *x = call_tensor(call, (uint32_t)i);

    if (x) {
      data[i] = x->data;
      item[i] = t->input_types[i] == TY_BOOL ? 1 : sizeof(float);
      continue;
    }
    numbers[i] = (float)point_read_number(call->args[i]).re;
    data[i] = &numbers[i];
    item[i] = 0;
  }
  for (int k = 0; k < t->n_results; k++) {
    data[t->n_inputs + k] = tensor_data_mut(call_out(call, (uint32_t)k));
    item[t->n_inputs + k] = t->result_types[k] == TY_BOOL ? 1 : sizeof(float);
  }
  loop_fn *code = streams(call, taken) ? p->code->stream : p->code->fn;

  return point_execute_code(call->cx, code, f->like->n_elems, t->n_inputs + t->n_results, data, item);
}

static rush_status run_plan(rush_call *call, const facts *f, const plan *p)
{
  uint64_t taken = 0;

  for (int k = 0; k < p->tape.tape.n_results; k++) {
    rush_tensor *t;

    TRY(new_result(call, f, p->tape.result_types[k] == TY_BOOL ? RUSH_BOOL : RUSH_FLOAT32, &taken, &t));
    call_return_steal(call, (uint32_t)k, t);
  }
  if (f->flat && p->code)
    return run_flat(call, f, p, taken);
  point_run r;

  fill_run(call, f, p, &r);
  return point_execute(call->cx, &r, f->flat);
}

/* Not one indivisible step, which would cost a small call a tenth: threads that call at once may count as one. */
static void count(_Atomic uint64_t *n)
{
  atomic_store_explicit(n, atomic_load_explicit(n, memory_order_relaxed) + 1, memory_order_relaxed);
}

static rush_status call_pointwise(rush_call *call)
{
  group *g = call->state ? call->state->user : NULL;
  plan *p = NULL;
  facts f;

  if (!g)
    return call_unsupported(call->cx, OP_NAME " is called by compiled programs only");
  if (read_facts(call, &f)) {
    TRY(plan_of(call->cx, g, f.key, f.kinds, &p));
    if (p && p->is_possible && results_fit(call, &f, &p->tape)) {
      count(&g->owner->calls);
      return run_plan(call, &f, p);
    }
  }
  return g->owner->api->call_run_group(call);
}

/* -- The backend -------------------------------------------------------------------------------------------- */

static rush_status prepare(rush_context *c, const rush_node *node, void *user, void **state, rush_error *err)
{
  compiler *own = user;
  group *g = mem_alloc_zero(c, sizeof *g);

  if (!g)
    return error_nomem(err);
  g->owner = own;
  g->ctx = c;
  g->desc = group_read(c, (const ir_node *)(const void *)node);
  if (!g->desc) {
    mem_free(c, g, sizeof *g);
    return error_nomem(err);
  }
  mutex_init(&g->lock);
  count(&own->groups);
  *state = g;
  return RUSH_OK;
}

static void destroy(void *state, void *user)
{
  group *g = state;

  (void)user;
  for (uint32_t i = 0; i < atomic_load(&g->n_plans); i++)
    plan_free(g, atomic_load(&g->plans[i]));
  group_desc_free(g->desc);
  mutex_destroy(&g->lock);
  mem_free(g->ctx, g, sizeof *g);
}

/* What float32 tensors of one size would run: nothing has been called yet when somebody looks. */
static void describe(void *state, void *user, rush_write_fn *write, void *to)
{
  group *g = state;
  arg_kind kinds[GROUP_MAX_INPUTS];
  uint64_t key = wanted_cpu(g->ctx);
  call_ctx cx;
  plan *p = NULL;
  text_buf t;

  (void)user;
  group_usual_kinds(g->desc, kinds);
  for (uint32_t i = 0; i < group_n_inputs(g->desc); i++)
    key = key << 3 | (uint64_t)kinds[i];
  call_ctx_init(&cx, g->ctx, NULL);
  if (plan_of(&cx, g, key, kinds, &p) != RUSH_OK)
    return;
  text_init(&t, g->ctx);
  if (p && p->code)
    loop_disassemble(&t, p->code);
  else
    text_puts(&t, p && p->is_possible ? "the tape runner: no machine code here\n" : "the interpreter\n");
  write(to, text_str(&t), t.len);
  text_free(&t);
}

static const char *refuse(const rush_node *node, void *user)
{
  const compiler *own = user;

  return group_refuse((const ir_node *)(const void *)node, level_of(own->ctx));
}

static rush_status run_pass(rush_pass *pass, void *user)
{
  compiler *own = user;
  rush_group_def def = {.struct_bytes = sizeof def, .op = OP_NAME, .refuse = refuse, .user = own, .min_nodes = 2,
                        .max_nodes = GROUP_MAX_NODES, .max_inputs = GROUP_MAX_INPUTS, .max_outputs = GROUP_MAX_RESULTS};

  return own->api->pass_group(pass, &def);
}

static void destroy_compiler(context *c, void *object) { mem_free(c, object, sizeof(compiler)); }

bool compile_is_ready(rush_context *c)
{
  compiler *own = context_slot_get(c, SLOT_COMPILER);

  return own && atomic_load_explicit(&own->is_ready, memory_order_acquire);
}

/* The slot is filled before the rest is registered: registering comes back here through the public functions, on
 * this thread, which has the context's setup lock. */
rush_status compile_register(const rush_backend_api *api, rush_context *c, rush_error *err)
{
  if (context_slot_get(c, SLOT_COMPILER))
    return RUSH_OK;
  compiler *own = mem_alloc_zero(c, sizeof *own);

  if (!own)
    return error_nomem(err);
  own->api = api;
  own->ctx = c;
  rush_op_def op = {.struct_bytes = sizeof op, .schema = OP_NAME "(...) -> ...", .kernel = call_pointwise, .user = own,
                    .prepare = prepare, .destroy = destroy, .describe = describe};
  rush_pass_def pass = {.struct_bytes = sizeof pass, .name = "rushlight::group_pointwise", .order = 1000,
                        .run = run_pass, .user = own};

  if (!context_slot_publish_steal(c, SLOT_COMPILER, own, destroy_compiler))
    return error_nomem(err);
  TRY(api->op_register(c, &op, err));
  TRY(api->pass_register(c, &pass, err));
  atomic_store_explicit(&own->is_ready, true, memory_order_release);
  return RUSH_OK;
}

compile_counters compile_get_counters(rush_context *c)
{
  compiler *own = context_slot_get(c, SLOT_COMPILER);

  if (!own)
    return (compile_counters){0};
  return (compile_counters){atomic_load_explicit(&own->groups, memory_order_relaxed),
                            atomic_load_explicit(&own->plans, memory_order_relaxed),
                            atomic_load_explicit(&own->calls, memory_order_relaxed), context_n_interpreted(c)};
}
