/* row_compiler.c -- a compiler of one's own that fuses reductions: norms and their like over the
 * last dimension of float32 tensors, a row at a time, so that a row is read from memory once.
 *
 *   cc -shared -fPIC row_compiler.c $(pkg-config --cflags rushlight) -lm -o row_compiler.so
 *   rushlight run --plugin ./row_compiler.so model.pt 'rand(64, 1024)' 'rand(1024)'
 *
 * A pass groups the nodes of the table below: arithmetic, and sums and means over the last
 * dimension.  `prepare` reads a group's graph once, into steps on slots; a call runs the steps for
 * each row, shared among the context's threads:
 *
 *   y = x * x;  m = mean(y);  z = x * rsqrt(m + eps) * w   ->   for each row: y; m; z
 *
 * Other dtypes, gaps and dimensions are left to the interpreter.  Sums are added in double: the
 * last digits differ from the library's.  It links nothing: all comes with rush_plugin's table. */
#include <math.h>
#include <rushlight/backend.h>
#include <string.h>

#define OP "row::CompilationGroup"
#define MOST_STEPS 24
#define MOST_INPUTS 16
#define MOST_SLOTS (MOST_INPUTS + 3 * MOST_STEPS) /* a node: two operands, a result */
#define MOST_ROW 65536 /* elements */

static const rush_backend_api *api;
typedef enum code { ADD, SUB, MUL, DIV, RSQRT, SUM, MEAN } code;
static const struct { const char *kind; code code; int n_tensors; } table[] = {
  {"aten::add", ADD, 2},     {"aten::sub", SUB, 2}, {"aten::mul", MUL, 2},  {"aten::div", DIV, 2},
  {"aten::rsqrt", RSQRT, 1}, {"aten::sum", SUM, 1}, {"aten::mean", MEAN, 1}, {NULL, ADD, 0}};

/* What a slot has: a row of its own, a number for each row, a row for all, a number for all. */
typedef enum shape { ROW, ONE, WEIGHT, NUMBER, NOTHING } shape;

typedef struct step {
  code code;
  int x, y, to, dims; /* slots; y: x where there is one operand; dims: a list's */
} step;

typedef struct group {
  rush_context *context;
  uint32_t ids[MOST_SLOTS]; /* of the values: arguments first, then constants and results */
  float number[MOST_SLOTS]; /* of a constant */
  shape shape[MOST_SLOTS];  /* NUMBER: a constant */
  step steps[MOST_STEPS];
  int n_slots, n_steps, n_args, n_results, results[MOST_SLOTS];
} group;

/* -- Which nodes ------------------------------------------------------------------------------- */

/* Return the node's row of the table, or -1. */
static int entry_of(const rush_node *n)
{
  const char *overload = api->node_overload(n);
  int i = 0;
  while (table[i].kind && strcmp(api->node_kind(n), table[i].kind) != 0)
    i++;
  if (!table[i].kind || (table[i].code >= SUM && strncmp(overload, "dim", 3) != 0) ||
      (table[i].n_tensors == 2 && strcmp(overload, "Tensor") != 0 &&
       strcmp(overload, "Scalar") != 0))
    return -1;
  return i;
}

static bool reads_number(const rush_graph_value *v, float *out)
{
  rush_value c;
  if (!api->value_constant(v, &c) || (c.tag != RUSH_TAG_INT && c.tag != RUSH_TAG_FLOAT))
    return false;
  *out = c.tag == RUSH_TAG_INT ? (float)c.as.i : (float)c.as.d;
  return true;
}

static const char *refuse_op(const rush_node *n, void *user)
{
  const int row = entry_of(n);
  rush_value c;
  float x;
  (void)user;
  if (row < 0)
    return "no arithmetic of rows";
  if (table[row].code >= SUM
        ? !api->value_constant(api->node_input(n, 2), &c) || !c.as.b /* keepdim */ ||
            !api->value_constant(api->node_input(n, 3), &c) || c.tag != RUSH_TAG_NONE
        : api->node_n_inputs(n) == 3 && !(reads_number(api->node_input(n, 2), &x) && x == 1))
    return "a reduction that removes its dimension or has a dtype, or a factor";
  if (table[row].n_tensors == 2 && !api->value_is_tensor(api->node_input(n, 1)) &&
      !reads_number(api->node_input(n, 1), &x))
    return "a number that is not constant";
  return NULL;
}

static bool takes_nodes(const rush_node *const *nodes, size_t n, void *user)
{
  size_t i = 0;
  (void)user; /* what has no reduction is left to the next compiler */
  while (i < n && table[entry_of(nodes[i])].code < SUM)
    i++;
  return i < n && n > 1;
}

static int slot_of(group *g, const rush_graph_value *v)
{
  for (int i = 0; i < g->n_slots; i++)
    if (g->ids[i] == api->value_id(v))
      return i;
  g->ids[g->n_slots] = api->value_id(v);
  g->shape[g->n_slots] = reads_number(v, &g->number[g->n_slots]) ? NUMBER : NOTHING;
  return g->n_slots++;
}

static void read_group(group *g, const rush_block *b)
{
  g->n_args = (int)api->block_n_inputs(b);
  g->n_results = (int)api->block_n_outputs(b);
  for (int i = 0; i < g->n_args; i++)
    slot_of(g, api->block_input(b, (size_t)i));
  for (const rush_node *n = api->block_first(b); n; n = api->node_next(n)) {
    const int row = entry_of(n);
    if (row < 0) /* a constant */
      continue;
    const int x = slot_of(g, api->node_input(n, 0)), to = slot_of(g, api->node_output(n, 0)),
              second = table[row].code == RSQRT ? x : slot_of(g, api->node_input(n, 1));
    g->steps[g->n_steps++] = (step){table[row].code, x, table[row].n_tensors == 2 ? second : x, to,
                                    second};
  }
  for (int i = 0; i < g->n_results; i++)
    g->results[i] = slot_of(g, api->block_output(b, (size_t)i));
}

typedef struct run {
  const group *g;
  rush_tensor_facts like; /* the first argument */
  int64_t n, n_rows;
  shape shape[MOST_SLOTS];
  const float *from[MOST_SLOTS];
  float *to[MOST_SLOTS];
  _Atomic bool failed; /* threads set it */
} run;

/* Find the shapes of the arguments, whose rows are those of the first; false: none has rows. */
static bool read_args(run *r, const rush_value *args)
{
  rush_tensor_facts t;
  for (int i = 0; i < r->g->n_args; i++) {
    if (args[i].tag != RUSH_TAG_TENSOR || !args[i].as.tensor)
      continue;
    api->tensor_facts(args[i].as.tensor, &t);
    if (t.dtype != RUSH_FLOAT32 || !(t.flags & RUSH_TENSOR_IS_CONTIGUOUS) || !t.n_dims)
      return false;
    if (!r->like.n_dims)
      r->like = t;
    const int last = r->like.n_dims - 1;
    const bool rows = t.n_dims == last + 1 &&
                      memcmp(t.sizes, r->like.sizes, sizeof *t.sizes * (size_t)last) == 0;
    const int64_t n = t.sizes[t.n_dims - 1];
    r->n = r->like.sizes[last];
    r->shape[i] = rows && n == r->n ? ROW : rows && n == 1 ? ONE
                  : t.n_dims == 1 && n == r->n ? WEIGHT : NOTHING;
    r->from[i] = t.data;
  }
  r->n_rows = r->n ? r->like.n_elems / r->n : 0;
  return r->n > 1 && r->n <= MOST_ROW && r->like.n_dims > 1 && r->like.n_dims <= RUSH_TYPE_DIMS;
}

/* True if x and y make a row, or a number for each row. */
static bool fit(shape x, shape y)
{
  if (x == ROW || y == ROW)
    return x != NOTHING && y != NOTHING;
  return (x == ONE && (y == ONE || y == NUMBER)) || (x == NUMBER && y == ONE);
}

/* Find the shapes of the steps; false: one that is no row's, or a sum over another dimension. */
static bool read_steps(run *r, const rush_value *args)
{
  for (int i = 0; i < r->g->n_steps; i++) {
    const step *s = &r->g->steps[i];
    const shape x = r->shape[s->x], y = r->shape[s->y];
    if (s->code >= SUM) {
      const rush_value dims = s->dims < r->g->n_args ? args[s->dims] : args[0];
      const bool one = dims.tag == RUSH_TAG_LIST && api->value_len(dims) == 1;
      const int64_t dim = one ? api->value_item(dims, 0).as.i : 0;
      if (!one || x != ROW || (dim != -1 && dim != r->like.n_dims - 1))
        return false;
    } else if (!fit(x, y)) {
      return false;
    }
    r->shape[s->to] = s->code < SUM && (x == ROW || y == ROW) ? ROW : ONE;
  }
  return true;
}

static void run_step(const step *s, float *const *at, const shape *shapes, int64_t n)
{
  const int dx = shapes[s->x] == ROW || shapes[s->x] == WEIGHT,
            dy = shapes[s->y] == ROW || shapes[s->y] == WEIGHT, whole = shapes[s->to] == ROW;
  double sum = 0;
  for (int64_t i = 0, end = whole || s->code >= SUM ? n : 1; i < end; i++) {
    const float a = at[s->x][i * dx], b = at[s->y][i * dy];
    if (s->code >= SUM)
      sum += a;
    else
      at[s->to][i] = s->code == ADD ? a + b : s->code == SUB ? a - b : s->code == MUL ? a * b
                     : s->code == DIV ? a / b : 1.0f / sqrtf(a);
  }
  if (s->code >= SUM)
    *at[s->to] = (float)(s->code == MEAN ? sum / (double)n : sum);
}

static void run_steps_of_rows(void *arg, int64_t begin, int64_t end)
{
  run *r = arg;
  const group *g = r->g;
  const size_t n_bytes = (size_t)(g->n_slots * r->n) * sizeof(float);
  float *memory = api->memory_alloc(g->context, n_bytes), *at[MOST_SLOTS];
  for (int i = 0; i < g->n_slots && memory; i++) {
    at[i] = memory + i * r->n;
    *at[i] = g->number[i];
  }
  if (!memory)
    r->failed = true;
  for (int64_t row = begin; row < end && memory; row++) {
    for (int i = 0; i < g->n_args; i++)
      if (r->from[i]) /* read only */
        at[i] = (float *)(uintptr_t)r->from[i] +
                (r->shape[i] == ROW ? row * r->n : r->shape[i] == ONE ? row : 0);
    for (int i = 0; i < g->n_steps; i++)
      run_step(&g->steps[i], at, r->shape, r->n);
    for (int i = 0; i < g->n_results; i++) {
      const int64_t n = r->shape[g->results[i]] == ROW ? r->n : 1;
      memcpy(r->to[i] + row * n, at[g->results[i]], (size_t)n * sizeof(float));
    }
  }
  api->memory_free(g->context, memory, n_bytes);
}

static rush_status run_group(rush_call *call)
{
  const group *g = api->call_state(call);
  size_t n;
  const rush_value *args = api->call_args(call, &n);
  run r = {.g = g};
  if (!g)
    return api->call_fail(call, NULL, OP " is called by compiled programs only");
  memcpy(r.shape, g->shape, sizeof r.shape);
  if (!read_args(&r, args) || !read_steps(&r, args))
    return api->call_run_group(call);
  for (int i = 0; i < g->n_results; i++) {
    int64_t sizes[RUSH_TYPE_DIMS];
    rush_result y = {.dtype = RUSH_FLOAT32, .n_dims = r.like.n_dims, .sizes = sizes};
    memcpy(sizes, r.like.sizes, sizeof *sizes * (size_t)r.like.n_dims);
    sizes[r.like.n_dims - 1] = r.shape[g->results[i]] == ROW ? r.n : 1;
    const rush_status made = api->call_make_result(call, (size_t)i, &y);
    if (made != RUSH_OK)
      return made;
    r.to[i] = y.data;
  }
  const rush_status st = api->call_parallel(call, r.n_rows, 1 + 16384 / r.n, run_steps_of_rows, &r);
  return st == RUSH_OK && r.failed ? api->call_fail(call, "MemoryError", "no memory for rows") : st;
}

static rush_status prepare_group(rush_context *c, const rush_node *node, void *user, void **state,
                                 rush_error *err)
{
  group *g = api->memory_alloc(c, sizeof *g);
  (void)user;
  if (!g)
    return api->error_set(err, RUSH_ENOMEM, NULL, "no memory for a group");
  g->context = c;
  read_group(g, api->node_block(node, 0));
  *state = g;
  return RUSH_OK;
}

static void destroy_group(void *state, void *user)
{
  (void)user;
  api->memory_free(((group *)state)->context, state, sizeof(group));
}

static rush_status group_nodes(rush_pass *pass, void *user)
{
  rush_group_def def = {.struct_bytes = sizeof def, .op = OP, .refuse = refuse_op, .user = user,
                        .max_nodes = MOST_STEPS, .max_inputs = MOST_INPUTS, .max_outputs = 4,
                        .takes = takes_nodes};
  return api->pass_group(pass, &def);
}

RUSH_PLUGIN_DECLARE;

RUSH_PLUGIN_EXPORT rush_status rush_plugin(const rush_backend_api *t, rush_context *c,
                                           rush_error *err)
{
  rush_op_def op = {.struct_bytes = sizeof op, .schema = OP "(...) -> ...", .kernel = run_group,
                    .prepare = prepare_group, .destroy = destroy_group};
  rush_pass_def pass = {.struct_bytes = sizeof pass, .name = "row::group", .run = group_nodes};
  api = t;
  rush_status st = api->op_register(c, &op, err);
  return st == RUSH_OK ? api->pass_register(c, &pass, err) : st;
}
