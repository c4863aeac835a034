/* compile/pointwise.c -- our own backend: it groups pointwise nodes, compiles a plan per
 * combination of argument kinds, and runs it. It uses only backend.h, as an external backend
 * does. A call reads the facts of its arguments, finds the plan by a key and runs the code flat
 * if all operands have one geometry, else through the tape runner's iteration. At most
 * MOST_PLANS plans are made per group; calls beyond are interpreted, so that changing kinds
 * cannot compile for ever. */
#include "base/threads.h"
#include "compile/compile.h"
#include "compile/compiler.h"
#include "compile/fuse.h"
#include "ops/call/call.h"
#include "ops/point/point_run.h"
#include "tensor/iter.h"

#define OP_NAME "rushlight::pointwise"
#define MOST_PLANS 16 /* of a group; kinds of arguments beyond are interpreted */

typedef struct plan { /* for one key */
  uint64_t key;
  fused tape;
  loop_code *code;  /* NULL: the engine runs the tape */
  bool is_possible; /* else the interpreter does it */
} plan;

typedef struct group { /* of a node: call_state */
  compiler *owner;
  backend backend;
  group_desc *desc;
  mutex lock; /* of making plans */
  _Atomic uint32_t n_plans;
  plan *_Atomic plans[MOST_PLANS];
} group;

/* Return the level, which may change between calls: keys contain it. */
static cpu_level level_of(const backend *k) { return (cpu_level)k->api->context_cpu(k->ctx); }

/* -- Plans ------------------------------------------------------------------------------------- */

static void plan_free(group *g, plan *p)
{
  loop_code_release(p->code);
  fused_free(&g->backend, &p->tape);
  g->backend.api->memory_free(g->backend.ctx, p, sizeof *p);
}

static bool runs_as_tape(const fused *f) { return f->tape.n_regs <= RUN_MAX_REGS; }

static rush_status fill_plan(group *g, const arg_kind *kinds, plan *p)
{
  cpu_level level = level_of(&g->backend);
  call_ctx cx;
  bool ok;

  TRY(group_fuse(g->desc, kinds, &p->tape, &ok));
  if (!ok)
    return RUSH_OK;
  call_ctx_init(&cx, g->backend.ctx, NULL); /* no machine code is no error: the tape is there */
  if (level >= CPU_AVX2 && loop_compile(&cx, &p->tape.tape, level, &p->code) == RUSH_ENOMEM)
    return RUSH_ENOMEM;
  if (p->code)
    loop_name(p->code, group_name(g->desc));
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

static rush_status add_plan(group *g, uint64_t key, const arg_kind *kinds, plan **out)
{
  uint32_t n = atomic_load(&g->n_plans);

  if (n == MOST_PLANS)
    return RUSH_OK;
  plan *p = g->backend.api->memory_alloc(g->backend.ctx, sizeof *p);
  if (!p)
    return RUSH_ENOMEM;
  p->key = key;
  rush_status st = fill_plan(g, kinds, p);
  if (st != RUSH_OK) {
    plan_free(g, p);
    return st;
  }
  atomic_store_explicit(&g->plans[n], p, memory_order_relaxed);
  atomic_store_explicit(&g->n_plans, n + 1, memory_order_release);
  *out = p;
  return RUSH_OK;
}

/* Find or make the plan; *out NULL: there are too many already.  RUSH_ENOMEM is returned without an
 * error: there may be no call. */
static rush_status plan_of(group *g, uint64_t key, const arg_kind *kinds, plan **out)
{
  *out = find_plan(g, key);
  if (LIKELY(*out != NULL))
    return RUSH_OK;
  mutex_lock(&g->lock);
  *out = find_plan(g, key);
  rush_status st = *out ? RUSH_OK : add_plan(g, key, kinds, out);
  mutex_unlock(&g->lock);
  return st;
}

/* -- Facts of a call --------------------------------------------------------------------------- */

typedef struct facts {
  uint64_t key;
  const rush_value *values; /* of the arguments */
  uint32_t n_args;
  arg_kind kinds[GROUP_MAX_INPUTS];
  rush_tensor_facts args[GROUP_MAX_INPUTS]; /* of those that are tensors */
  int n_dims;
  const int64_t *sizes; /* of the results: `like`'s, or broadcast ones in `room` */
  int64_t room[TENSOR_MAX_DIMS];
  const rush_tensor_facts *like; /* a tensor of these sizes */
  bool
    flat; /* every tensor has `like`'s sizes, and its strides, which are dense, or is contiguous */
} facts;

static bool is_tensor_input(const facts *f, uint32_t i)
{
  return f->values[i].tag == RUSH_TAG_TENSOR;
}

/* A loop: rows are short, and a call of memcmp takes longer. */
static inline bool same_row(const int64_t *a, const int64_t *b, int n)
{
  int i = 0;

  while (i < n && a[i] == b[i])
    i++;
  return i == n;
}

static bool same_sizes(const rush_tensor_facts *a, int n_dims, const int64_t *sizes)
{
  return a->n_dims == n_dims && same_row(a->sizes, sizes, n_dims);
}

/* Strides of single elements do not matter to what is contiguous: results are, too. */
static bool same_geometry(const rush_tensor_facts *a, const rush_tensor_facts *b)
{
  return same_sizes(a, b->n_dims, b->sizes) &&
         (a->flags & b->flags & RUSH_TENSOR_IS_CONTIGUOUS ||
          same_row(a->strides, b->strides, b->n_dims));
}

/* True if the tensor's dimensions are in rows' order, with gaps or without: results of such tensors
 * are contiguous. */
static bool is_in_rows(const rush_tensor_facts *t)
{
  int i = 0;

  if (t->flags & RUSH_TENSOR_IS_CONTIGUOUS)
    return true;
  while (i + 1 < t->n_dims && t->strides[i] > t->strides[i + 1])
    i++;
  return t->n_dims > 0 && i + 1 == t->n_dims && t->strides[i] > 0;
}

/* Compute the sizes to which the tensors broadcast.  Returns false if they do not, or if only the
 * interpreter supports the layout. */
static bool find_sizes(facts *f)
{
  for (uint32_t i = 0; i < f->n_args; i++) {
    const rush_tensor_facts *t = &f->args[i];
    int64_t sizes[TENSOR_MAX_DIMS];
    int n;

    if (!is_tensor_input(f, i))
      continue;
    f->flat = false;
    if (!is_in_rows(t) ||
        !sizes_broadcast(f->n_dims, f->sizes, t->n_dims, t->sizes, &n, sizes))
      return false;
    f->n_dims = n;
    memcpy(f->room, sizes, sizeof *sizes * (size_t)n);
    f->sizes = f->room;
  }
  f->like = NULL;
  for (uint32_t i = 0; i < f->n_args && !f->like; i++)
    if (is_tensor_input(f, i) && same_sizes(&f->args[i], f->n_dims, f->sizes))
      f->like = &f->args[i];
  for (int i = 0; i < f->n_dims;
       i++) /* PyTorch's strides of single elements follow rules of their own */
    if (f->sizes[i] <= 1)
      return false;
  return f->like != NULL;
}

/* Find the first tensor, and whether all others have its geometry. */
static bool look_at_tensors(const rush_backend_api *api, facts *f)
{
  const rush_tensor_facts *first = NULL;

  f->flat = true;
  for (uint32_t i = 0; i < f->n_args; i++) {
    rush_value v = f->values[i];
    rush_tensor_facts *t = &f->args[i];

    if (v.tag != RUSH_TAG_TENSOR) {
      if (v.tag != RUSH_TAG_FLOAT && v.tag != RUSH_TAG_INT && v.tag != RUSH_TAG_BOOL)
        return false;
      continue;
    }
    if (!v.as.tensor)
      return false;
    api->tensor_facts(v.as.tensor, t);
    if (t->dtype != RUSH_FLOAT32 && t->dtype != RUSH_BOOL)
      return false;
    if (!first)
      first = t;
    else if (f->flat)
      f->flat = same_geometry(t, first);
  }
  if (!first)
    return false;
  f->like = first;
  f->n_dims = first->n_dims;
  f->sizes = first->sizes;
  if (f->flat)
    return first->flags & RUSH_TENSOR_IS_DENSE;
  return find_sizes(f);
}

static bool read_facts(const rush_call *call, const backend *k, facts *f)
{
  size_t n;

  f->values = k->api->call_args(call, &n);
  f->n_args = (uint32_t)n; /* at most GROUP_MAX_INPUTS: the pass limits it */
  if (!look_at_tensors(k->api, f))
    return false;
  f->key = level_of(k);
  for (uint32_t i = 0; i < f->n_args; i++) {
    const rush_tensor_facts *t = &f->args[i];
    bool one = is_tensor_input(f, i) && !f->flat && t->n_elems == 1;

    f->kinds[i] = !is_tensor_input(f, i) ? ARG_NUMBER
                  : t->dtype == RUSH_BOOL ? (one ? ARG_BOOL_ONE : ARG_BOOL_ROW)
                                          : (one ? ARG_F32_ONE : ARG_F32_ROW);
    f->key = f->key << 3 | (uint64_t)f->kinds[i];
  }
  return true;
}

/* True if every result has the broadcast sizes of all arguments. */
static bool results_fit(const facts *f, const fused *t)
{
  if (f->flat)
    return true;
  for (int k = 0; k < t->tape.n_results; k++) {
    bool full = false;

    for (uint32_t i = 0; i < f->n_args && !full; i++)
      full = t->result_inputs[k] >> i & 1 && same_sizes(&f->args[i], f->n_dims, f->sizes);
    if (!full)
      return false;
  }
  return true;
}

/* -- Running ----------------------------------------------------------------------------------- */

typedef struct made { /* the results of a call */
  rush_result results[GROUP_MAX_RESULTS];
  bool reuses; /* one is in an argument's memory */
} made;

static void fill_run(const backend *b, const facts *f, const plan *p, const made *m, point_run *r)
{
  const loop_tape *t = &p->tape.tape;

  r->isa = tape_isa_of(b->ctx);
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
    r->inputs[i].tensor = is_tensor_input(f, (uint32_t)i) ? f->values[i].as.tensor : NULL;
    r->inputs[i].type = t->input_types[i];
    r->inputs[i].via = -1;
    if (!r->inputs[i].tensor)
      r->inputs[i].number = point_read_number(f->values[i]);
  }
  for (int i = 0; i < r->n_consts; i++) {
    r->consts[i].type = TY_F32;
    r->consts[i].number = (point_number){.is_float = true, .re = t->consts[i]};
  }
  for (int i = 0; i < t->n_results; i++) {
    r->results[i].reg = p->code ? (uint8_t)(t->n_inputs + i) : t->results[i];
    r->results[i].type = t->result_types[i];
    r->results[i].via = -1;
    r->results[i].tensor = m->results[i].tensor;
  }
}

static rush_status make_results(rush_call *call, const backend *b, const facts *f, const plan *p,
                                made *m)
{
  bool contiguous = !f->flat || f->like->flags & RUSH_TENSOR_IS_CONTIGUOUS;

  m->reuses = false;
  for (int k = 0; k < p->tape.tape.n_results; k++) {
    rush_result *r = &m->results[k];

    r->dtype = p->tape.result_types[k] == TY_BOOL ? RUSH_BOOL : RUSH_FLOAT32;
    r->n_dims = f->n_dims;
    r->sizes = f->sizes;
    r->strides = contiguous ? NULL : f->like->strides;
    r->may_reuse = true;
    TRY(b->api->call_make_result(call, (size_t)k, r));
    m->reuses |= r->reused;
  }
  return RUSH_OK;
}

/* True if results are stored around the caches, which they exceed anyway: a quarter to a third
 * faster at 16 MB, slower below some MB.  Only for contiguous rows: pieces start at multiples of 64
 * bytes then. */
#define STREAM_BYTES ((size_t)8 << 20)
static bool streams(const facts *f, const loop_tape *t, void *const *results)
{
  bool good = true;

  for (int k = 0; k < t->n_results && good; k++)
    good = (size_t)f->like->n_elems * (t->result_types[k] == TY_BOOL ? 1 : sizeof(float)) >=
             STREAM_BYTES &&
           (uintptr_t)results[k] % 64 == 0;
  return good;
}

typedef struct flat_run {
  loop_fn *code;
  int n_operands;
  void *data[GROUP_MAX_INPUTS + GROUP_MAX_RESULTS];
  uint8_t item[GROUP_MAX_INPUTS + GROUP_MAX_RESULTS]; /* bytes of an element, 0: one for all */
} flat_run;

static void run_piece(void *arg, int64_t begin, int64_t end)
{
  const flat_run *r = arg;
  void *at[GROUP_MAX_INPUTS + GROUP_MAX_RESULTS];

  for (int i = 0; i < r->n_operands; i++)
    at[i] = (char *)r->data[i] + begin * r->item[i];
  r->code(end - begin, at);
}

/* Run with one geometry: the code runs directly over the memory. */
static rush_status run_flat(rush_call *call, const backend *b, const facts *f, const plan *p,
                            const made *m)
{
  const loop_tape *t = &p->tape.tape;
  float numbers[GROUP_MAX_INPUTS];
  flat_run r;

  r.n_operands = t->n_inputs + t->n_results;
  for (int i = 0; i < t->n_inputs; i++) {
    if (is_tensor_input(f, (uint32_t)i)) {
      r.data[i] = (void *)(uintptr_t)f->args[i].data; /* read only */
      r.item[i] = t->input_types[i] == TY_BOOL ? 1 : sizeof(float);
      continue;
    }
    numbers[i] = (float)point_read_number(f->values[i]).re;
    r.data[i] = &numbers[i];
    r.item[i] = 0;
  }
  for (int k = 0; k < t->n_results; k++) {
    r.data[t->n_inputs + k] = m->results[k].data;
    r.item[t->n_inputs + k] = t->result_types[k] == TY_BOOL ? 1 : sizeof(float);
  }
  r.code = !m->reuses && streams(f, t, r.data + t->n_inputs) ? p->code->stream : p->code->fn;
  if (f->like->n_elems >= 2 * POINT_GRAIN)
    return b->api->call_parallel(call, f->like->n_elems, POINT_GRAIN, run_piece, &r);
  r.code(f->like->n_elems, r.data);
  return RUSH_OK;
}

static rush_status run_plan(rush_call *call, const backend *b, const facts *f, const plan *p)
{
  made m;

  TRY(make_results(call, b, f, p, &m));
  if (f->flat && p->code)
    return run_flat(call, b, f, p, &m);
  point_run r;

  fill_run(b, f, p, &m, &r);
  return point_execute(call->cx, &r, f->flat);
}

static rush_status call_pointwise(rush_call *call)
{
  compiler *own =
    call->op->outside->user; /* the table is reached through it: there are no globals */
  const rush_backend_api *api = own->backend.api;
  group *g = api->call_state(call);
  plan *p = NULL;
  facts f;

  if (!g)
    return api->error_set(api->call_error(call), RUSH_EUNSUPPORTED, NULL,
                          OP_NAME " is called by compiled programs only");
  if (read_facts(call, &g->backend, &f)) {
    if (plan_of(g, f.key, f.kinds, &p) != RUSH_OK)
      return api->call_no_memory(call);
    if (p && p->is_possible && results_fit(&f, &p->tape)) {
      compiler_count(&own->calls);
      return run_plan(call, &g->backend, &f, p);
    }
  }
  return api->call_run_group(call);
}

/* -- The backend ------------------------------------------------------------------------------- */

static rush_status prepare_group(rush_context *c, const rush_node *node, void *user, void **state,
                           rush_error *err)
{
  compiler *own = user;
  const rush_backend_api *api = own->backend.api;
  group *g = api->memory_alloc(c, sizeof *g);
  group_desc *desc = group_read(&own->backend, node);

  if (!g || !desc) {
    group_desc_free(desc);
    api->memory_free(c, g, sizeof *g);
    return api->error_set(err, RUSH_ENOMEM, NULL, "no memory for a group of operators");
  }
  g->owner = own;
  g->backend = own->backend;
  g->desc = desc;
  mutex_init(&g->lock);
  compiler_count(&own->groups);
  *state = g;
  return RUSH_OK;
}

static void destroy_group(void *state, void *user)
{
  group *g = state;

  (void)user;
  for (uint32_t i = 0; i < atomic_load(&g->n_plans); i++)
    plan_free(g, atomic_load(&g->plans[i]));
  group_desc_free(g->desc);
  mutex_destroy(&g->lock);
  g->backend.api->memory_free(g->backend.ctx, g, sizeof *g);
}

/* Describe the code for float32 tensors of one size: the group may not have been called yet. */
static void describe_group(void *state, void *user, rush_write_fn *write, void *to)
{
  group *g = state;
  arg_kind kinds[GROUP_MAX_INPUTS];
  uint64_t key = level_of(&g->backend);
  plan *p = NULL;
  text_buf t;

  (void)user;
  group_usual_kinds(g->desc, kinds);
  for (uint32_t i = 0; i < group_n_inputs(g->desc); i++)
    key = key << 3 | (uint64_t)kinds[i];
  if (plan_of(g, key, kinds, &p) != RUSH_OK)
    return;
  text_init(&t, g->backend.ctx);
  if (p && p->code)
    loop_disassemble(&t, p->code);
  else
    text_puts(&t, p && p->is_possible ? "the tape runner: no machine code here\n"
                                      : "the interpreter\n");
  write(to, text_str(&t), t.len);
  text_free(&t);
}

static const char *refuse_node(const rush_node *node, void *user)
{
  const compiler *own = user;

  return group_refuse(&own->backend, node, level_of(&own->backend));
}

static rush_status run_pass(rush_pass *pass, void *user)
{
  compiler *own = user;
  rush_group_def def = {.struct_bytes = sizeof def,
                        .op = OP_NAME,
                        .refuse = refuse_node,
                        .user = own,
                        .min_nodes = 2,
                        .max_nodes = GROUP_MAX_NODES,
                        .max_inputs = GROUP_MAX_INPUTS,
                        .max_outputs = GROUP_MAX_RESULTS};

  return own->backend.api->pass_group(pass, &def);
}

static void destroy_compiler(context *c, void *object)
{
  compiler *own = object;

  own->backend.api->memory_free(c, own, sizeof *own);
}

bool compile_is_ready(rush_context *c)
{
  compiler *own = context_slot_get(c, SLOT_COMPILER);

  return own && atomic_load_explicit(&own->is_ready, memory_order_acquire);
}

/* The slot is filled before the rest is registered: registering comes back here through the public
 * functions, on this thread, which has the context's setup lock. */
rush_status compile_register(const rush_backend_api *api, rush_context *c, rush_error *err)
{
  if (context_slot_get(c, SLOT_COMPILER))
    return RUSH_OK;
  compiler *own = api->memory_alloc(c, sizeof *own);

  if (!own)
    return api->error_set(err, RUSH_ENOMEM, NULL, "no memory for a compiler");
  own->backend = (backend){api, c};
  rush_op_def op = {.struct_bytes = sizeof op,
                    .schema = OP_NAME "(...) -> ...",
                    .alias = RUSH_ALIAS_PURE,
                    .kernel = call_pointwise,
                    .user = own,
                    .prepare = prepare_group,
                    .destroy = destroy_group,
                    .describe = describe_group};
  rush_pass_def pass = {.struct_bytes = sizeof pass,
                        .name = "rushlight::group_pointwise",
                        .order = 1000,
                        .run = run_pass,
                        .user = own};

  if (!context_slot_publish_steal(c, SLOT_COMPILER, own,
                                  destroy_compiler)) /* which has the counters: no destroy_user */
    return RUSH_ENOMEM;
  TRY(derived_register(own, err));
  TRY(region_register(own, err));
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
                            atomic_load_explicit(&own->calls, memory_order_relaxed),
                            context_n_interpreted(c)};
}
