/* pointwise_compiler.c -- a compiler of one's own: groups multiplications, makes x86-64 code for
 * them at run time.
 *
 *   cc -shared -fPIC pointwise_compiler.c $(pkg-config --cflags rushlight) -o pointwise_compiler.so
 *   rushlight show --optimized --plugin ./pointwise_compiler.so model.pt
 *   rushlight run --plugin ./pointwise_compiler.so model.pt 'rand(1024)' 'rand(1024)'
 *
 * The whole of what a compiler needs, as small as it can be: a pass that groups the nodes it
 * supports (aten::mul), an operator that owns the groups, code for them, and the interpreter for
 * arguments that the code cannot do.  This code is good for all sizes, so a group has one; a
 * compiler whose code depends on more keeps a cache by call_spec.  The code takes four elements a
 * turn, its values in xmm registers, then the rest one by one; a result may be written over an
 * argument that nobody needs any more, and long ones are shared among the context's threads.
 *
 *   for i in N:                     for i in N:
 *     c[i] = a[i] * b[i]              c = a[i] * b[i]
 *   for i in N:             ->        d = c * c
 *     d[i] = c[i] * c[i]              r[i] = c * d
 *   for i in N:
 *     r[i] = c[i] * d[i]
 *
 * Links nothing of Rushlight: everything comes through the table that rush_plugin is given. */
#include <rushlight/backend.h>
#include <string.h>
#include <sys/mman.h>

#define OP "pw::CompilationGroup"
#define MOST_POINTERS 5 /* inputs and results: registers that a function may use freely */
#define MOST_VALUES 16  /* xmm0 to xmm15 */
#define CODE_BYTES 4096
#define GRAIN 32768 /* elements that a thread takes at least */
#ifdef __x86_64__
#define CAN_EMIT 1
#else /* groups run operator by operator */
#define CAN_EMIT 0
#endif

static const rush_backend_api *api;

/* data: the inputs' elements, then the results'. */
typedef void compiled_fn(void *const *data, int64_t n);

/* -- A small assembler ------------------------------------------------------------------------- */

typedef struct assembler {
  unsigned char *code;
  size_t n, max;
  int packed; /* four floats an instruction, else one */
} assembler;

static void put_bytes(assembler *a, const unsigned char *bytes, size_t n)
{
  if (a->n + n <= a->max)
    memcpy(a->code + a->n, bytes, n);
  a->n += n;
}
#define PUT(a, ...) \
  put_bytes(a, (const unsigned char[]){__VA_ARGS__}, sizeof(const unsigned char[]){__VA_ARGS__})

/* Registers by number: 0 rax, 1 rcx, 2 rdx, 6 rsi, 7 rdi, 8 to 15 r8 to r15; xmm0 to xmm15. */
static unsigned char rex(int w, int reg, int base)
{
  return (unsigned char)(0x40 | w << 3 | reg >> 3 << 2 | base >> 3);
}
static unsigned char modrm(int mod, int reg, int rm)
{
  return (unsigned char)(mod << 6 | (reg & 7) << 3 | (rm & 7));
}

/* movups or movss between xmm and [base + 4 * rcx]: opcode 0x10 loads, 0x11 stores. */
static void move_elements(assembler *a, unsigned char opcode, int xmm, int base)
{
  if (!a->packed)
    PUT(a, 0xf3);
  PUT(a, rex(0, xmm, base), 0x0f, opcode, modrm(1, xmm, 4), modrm(2, 1, base), 0);
}

/* movaps to, from; mulps or mulss to, by */
static void multiply(assembler *a, int to, int from, int by)
{
  PUT(a, rex(0, to, from), 0x0f, 0x28, modrm(3, to, from));
  if (!a->packed)
    PUT(a, 0xf3);
  PUT(a, rex(0, to, by), 0x0f, 0x59, modrm(3, to, by));
}

/* -- From a graph to code ---------------------------------------------------------------------- */

typedef struct values { /* which xmm register a value is in */
  uint32_t ids[MOST_VALUES];
  int n;
} values;

static int find_value(const values *v, const rush_graph_value *value)
{
  for (int i = 0; i < v->n; i++)
    if (v->ids[i] == api->value_id(value))
      return i;
  return -1;
}

static int add_value(values *v, const rush_graph_value *value)
{
  if (v->n < MOST_VALUES)
    v->ids[v->n] = api->value_id(value);
  return v->n < MOST_VALUES ? v->n++ : -1;
}

static const int pointers[MOST_POINTERS] = {0, 2, 8, 9, 10}; /* rax rdx r8 r9 r10 */

/* The body for the elements at rcx.  0: too many values for the registers. */
static int emit_body(assembler *a, const rush_block *b)
{
  int n_inputs = (int)api->block_n_inputs(b), n_results = (int)api->block_n_outputs(b);
  values v = {.n = 0};
  for (int i = 0; i < n_inputs; i++)
    move_elements(a, 0x10, add_value(&v, api->block_input(b, (size_t)i)), pointers[i]);
  for (const rush_node *n = api->block_first(b); n; n = api->node_next(n)) {
    int x = find_value(&v, api->node_input(n, 0)), y = find_value(&v, api->node_input(n, 1)),
        to = add_value(&v, api->node_output(n, 0));
    if (x < 0 || y < 0 || to < 0)
      return 0;
    multiply(a, to, x, y);
  }
  for (int i = 0; i < n_results; i++)
    move_elements(a, 0x11, find_value(&v, api->block_output(b, (size_t)i)), pointers[n_inputs + i]);
  return 1;
}

/* while (rcx + step <= rsi) { body; rcx += step; } */
static int emit_loop(assembler *a, const rush_block *b, unsigned char step)
{
  size_t top = a->n, leave;
  PUT(a, 0x4c, 0x8d, 0x59, step); /* lea r11, [rcx + step] */
  PUT(a, 0x49, 0x39, 0xf3);       /* cmp r11, rsi */
  PUT(a, 0x0f, 0x8f, 0, 0, 0, 0); /* jg behind the loop */
  leave = a->n;
  a->packed = step == 4;
  if (!emit_body(a, b))
    return 0;
  PUT(a, 0x48, 0x83, 0xc1, step); /* add rcx, step */
  int32_t back = (int32_t)((ptrdiff_t)top - (ptrdiff_t)a->n - 5), out;
  PUT(a, 0xe9); /* jmp top */
  put_bytes(a, (const unsigned char *)&back, 4);
  out = (int32_t)(a->n - leave);
  if (a->n <= a->max)
    memcpy(a->code + leave - 4, &out, 4);
  return 1;
}

static int emit(assembler *a, const rush_block *b)
{
  int n = (int)(api->block_n_inputs(b) + api->block_n_outputs(b));
  if (n > MOST_POINTERS)
    return 0;
  for (int i = 0; i < n; i++)
    PUT(a, rex(1, pointers[i], 7), 0x8b, modrm(1, pointers[i], 7),
        (unsigned char)(8 * i)); /* mov reg, [rdi + 8 * i] */
  PUT(a, 0x31, 0xc9); /* xor ecx, ecx: the element */
  if (!emit_loop(a, b, 4) || !emit_loop(a, b, 1))
    return 0;
  PUT(a, 0xc3); /* ret */
  return a->n <= a->max;
}

/* -- Calls ------------------------------------------------------------------------------------- */

typedef struct group {
  rush_context *context;
  compiled_fn *fn; /* NULL: the interpreter does it */
  void *memory;
} group;

/* float32, one size, elements in a row: what the code is made for. */
static int is_supported(const rush_value *args, size_t n)
{
  rush_tensor_facts first, t;
  for (size_t i = 0; i < n; i++) {
    if (args[i].tag != RUSH_TAG_TENSOR || !args[i].as.tensor)
      return 0;
    api->tensor_facts(args[i].as.tensor, &t);
    if (i == 0)
      first = t;
    if (t.dtype != RUSH_FLOAT32 || !(t.flags & RUSH_TENSOR_IS_CONTIGUOUS) ||
        t.n_dims != first.n_dims ||
        memcmp(t.sizes, first.sizes, sizeof *t.sizes * (size_t)t.n_dims) != 0)
      return 0;
  }
  return n > 0;
}

typedef struct piece {
  compiled_fn *fn;
  int n_pointers;
  float *data[MOST_POINTERS];
} piece;

static void run_piece(void *arg, int64_t begin, int64_t end)
{
  const piece *p = arg;
  void *at[MOST_POINTERS];
  for (int i = 0; i < p->n_pointers; i++)
    at[i] = p->data[i] + begin;
  p->fn(at, end - begin);
}

static rush_status run_compiled(rush_call *call, compiled_fn *fn)
{
  size_t n_args, n_results = api->call_n_results(call);
  const rush_value *args = api->call_args(call, &n_args);
  piece p = {.fn = fn, .n_pointers = (int)(n_args + n_results)};
  rush_tensor_facts t;
  for (size_t i = 0; i < n_args; i++) {
    api->tensor_facts(args[i].as.tensor, &t);
    memcpy(&p.data[i], &t.data, sizeof t.data); /* read only */
  }
  for (size_t i = 0; i < n_results; i++) {
    rush_result y = {
      .dtype = RUSH_FLOAT32, .n_dims = t.n_dims, .sizes = t.sizes, .may_reuse = true};
    rush_status st = api->call_make_result(call, i, &y);
    if (st != RUSH_OK)
      return st;
    p.data[n_args + i] = y.data;
  }
  return api->call_parallel(call, t.n_elems, GRAIN, run_piece, &p);
}

static rush_status run_group(rush_call *call)
{
  group *g = api->call_state(call);
  size_t n_args;
  const rush_value *args = api->call_args(call, &n_args);
  if (!g)
    return api->call_fail(call, NULL, OP " is called by compiled programs only");
  return g->fn && is_supported(args, n_args) ? run_compiled(call, g->fn)
                                             : api->call_run_group(call);
}

/* -- Registering ------------------------------------------------------------------------------- */

static void compile(group *g, const rush_block *graph)
{
  g->memory = mmap(NULL, CODE_BYTES, PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);
  assembler a = {g->memory, 0, CODE_BYTES, 0};
  if (g->memory == MAP_FAILED)
    g->memory = NULL;
  else if (emit(&a, graph) && mprotect(g->memory, CODE_BYTES, PROT_READ | PROT_EXEC) == 0)
    memcpy(&g->fn, &g->memory, sizeof g->fn);
}

static rush_status prepare_group(rush_context *c, const rush_node *node, void *user, void **state,
                           rush_error *err)
{
  group *g = api->memory_alloc(c, sizeof *g);
  (void)user;
  if (!g)
    return api->error_set(err, RUSH_ENOMEM, NULL, "no memory for a group");
  g->context = c;
  if (CAN_EMIT)
    compile(g, api->node_block(node, 0));
  *state = g;
  return RUSH_OK;
}

static void destroy_group(void *state, void *user)
{
  group *g = state;
  (void)user;
  if (g->memory)
    munmap(g->memory, CODE_BYTES);
  api->memory_free(g->context, g, sizeof *g);
}

static const char *refuse_node(const rush_node *n, void *user)
{
  (void)user;
  return strcmp(api->node_kind(n), "aten::mul") == 0 && strcmp(api->node_overload(n), "Tensor") == 0
             ? NULL : "this compiler knows aten::mul of tensors only";
}

static rush_status group_nodes(rush_pass *pass, void *user)
{
  rush_group_def def = {.struct_bytes = sizeof def, .op = OP, .refuse = refuse_node, .user = user,
                        .max_nodes = 11, .max_inputs = 4, .max_outputs = 1};
  return api->pass_group(pass, &def);
}

RUSH_PLUGIN_DECLARE;

RUSH_PLUGIN_EXPORT rush_status rush_plugin(const rush_backend_api *table, rush_context *c,
                                           rush_error *err)
{
  rush_op_def op = {.struct_bytes = sizeof op, .schema = OP "(...) -> ...", .kernel = run_group,
                    .prepare = prepare_group, .destroy = destroy_group};
  rush_pass_def pass = {.struct_bytes = sizeof pass, .name = "pw::group", .run = group_nodes};
  api = table;
  rush_status st = api->op_register(c, &op, err);
  return st == RUSH_OK ? api->pass_register(c, &pass, err) : st;
}
