/* pointwise_compiler.c -- a compiler of one's own: groups multiplications, makes x86-64 code for them at run time.
 *
 *   cc -shared -fPIC pointwise_compiler.c $(pkg-config --cflags rushlight) -o pointwise_compiler.so
 *   rushlight show --optimized --plugin ./pointwise_compiler.so model.pt
 *   rushlight run --plugin ./pointwise_compiler.so model.pt 'rand(1024)' 'rand(1024)'
 *
 * The whole of what a compiler needs, as small as it can be: a pass that groups the nodes it supports (aten::mul), an
 * operator that owns the groups, code for the arguments that come, a cache of it, and the interpreter for all it
 * cannot do.  The code is scalar: one element a turn, its values in xmm registers.
 *
 *   for i in N:                     for i in N:
 *     c[i] = a[i] * b[i]              c = a[i] * b[i]
 *   for i in N:             ->        d = c * c
 *     d[i] = c[i] * c[i]              r[i] = c * d
 *   for i in N:
 *     r[i] = c[i] * d[i]
 *
 * Links nothing of Rushlight: everything comes through the table that rush_plugin is given. */
#include <pthread.h>
#include <rushlight/backend.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>

#define OP "pw::CompilationGroup"
#define MOST_POINTERS 5 /* inputs and results: registers that a function may use freely */
#define MOST_VALUES 16  /* xmm0 to xmm15 */
#define SPEC_BYTES 1024
#define CODE_BYTES 4096

static const rush_backend_api *api;

/* data: the inputs' elements, then the results'. */
typedef void compiled_fn(void *const *data, int64_t n);

/* -- A small assembler ------------------------------------------------------------------------------- */

typedef struct assembler {
  unsigned char *code;
  size_t n, max;
} assembler;

static void put(assembler *a, unsigned byte)
{
  if (a->n < a->max)
    a->code[a->n] = (unsigned char)byte;
  a->n++;
}

/* Registers by number: 0 rax, 1 rcx, 2 rdx, 6 rsi, 7 rdi, 8 to 15 r8 to r15; xmm0 to xmm15. */
static unsigned rex(int w, int reg, int index, int base)
{
  return 0x40u | (unsigned)w << 3 | (unsigned)(reg >> 3) << 2 | (unsigned)(index >> 3) << 1 | (unsigned)(base >> 3);
}
static unsigned modrm(int mod, int reg, int rm) { return (unsigned)(mod << 6 | (reg & 7) << 3 | (rm & 7)); }

/* mov reg, [rdi + 8 * i] */
static void load_pointer(assembler *a, int reg, int i)
{
  put(a, rex(1, reg, 0, 7));
  put(a, 0x8b);
  put(a, modrm(1, reg, 7));
  put(a, (unsigned)(8 * i));
}

/* movss between xmm and [base + 4 * rcx]: opcode 0x10 loads, 0x11 stores. */
static void move_element(assembler *a, unsigned opcode, int xmm, int base)
{
  put(a, 0xf3);
  put(a, rex(0, xmm, 1, base));
  put(a, 0x0f);
  put(a, opcode);
  put(a, modrm(1, xmm, 4));
  put(a, (unsigned)(2 << 6 | 1 << 3 | (base & 7)));
  put(a, 0); /* displacement: some bases need one */
}

/* movaps to, from */
static void copy(assembler *a, int to, int from)
{
  put(a, rex(0, to, 0, from));
  put(a, 0x0f);
  put(a, 0x28);
  put(a, modrm(3, to, from));
}

/* mulss to, by */
static void multiply(assembler *a, int to, int by)
{
  put(a, 0xf3);
  put(a, rex(0, to, 0, by));
  put(a, 0x0f);
  put(a, 0x59);
  put(a, modrm(3, to, by));
}

static void put_int32(assembler *a, int32_t v)
{
  for (int i = 0; i < 4; i++)
    put(a, (uint32_t)v >> 8 * i & 0xff);
}

/* -- From a graph to code ------------------------------------------------------------------------------ */

typedef struct values { /* which xmm register a value is in */
  uint32_t ids[MOST_VALUES];
  int n;
} values;

static int find(const values *v, const rush_graph_value *value)
{
  for (int i = 0; i < v->n; i++)
    if (v->ids[i] == api->value_id(value))
      return i;
  return -1;
}

static int add(values *v, const rush_graph_value *value)
{
  if (v->n == MOST_VALUES)
    return -1;
  v->ids[v->n] = api->value_id(value);
  return v->n++;
}

static int emit_node(assembler *a, values *v, const rush_node *n)
{
  int x = find(v, api->node_input(n, 0)), y = find(v, api->node_input(n, 1)), to = add(v, api->node_output(n, 0));

  if (x < 0 || y < 0 || to < 0)
    return -1;
  copy(a, to, x);
  multiply(a, to, y);
  return 0;
}

/* False: too many values for the registers. */
static int emit(assembler *a, const rush_block *b)
{
  static const int pointers[MOST_POINTERS] = {0, 2, 8, 9, 10}; /* rax rdx r8 r9 r10 */
  int n_inputs = (int)api->block_n_inputs(b), n_results = (int)api->block_n_outputs(b);
  values v = {.n = 0};

  if (n_inputs + n_results > MOST_POINTERS)
    return 0;
  for (int i = 0; i < n_inputs + n_results; i++)
    load_pointer(a, pointers[i], i);
  put(a, 0x31), put(a, 0xc9); /* xor ecx, ecx: the element */
  size_t loop = a->n;

  for (int i = 0; i < n_inputs; i++)
    move_element(a, 0x10, add(&v, api->block_input(b, (size_t)i)), pointers[i]);
  for (const rush_node *n = api->block_first(b); n; n = api->node_next(n))
    if (emit_node(a, &v, n) < 0)
      return 0;
  for (int i = 0; i < n_results; i++) {
    int xmm = find(&v, api->block_output(b, (size_t)i));

    if (xmm < 0)
      return 0;
    move_element(a, 0x11, xmm, pointers[n_inputs + i]);
  }
  put(a, 0x48), put(a, 0xff), put(a, 0xc1); /* inc rcx */
  put(a, 0x48), put(a, 0x39), put(a, 0xf1); /* cmp rcx, rsi */
  put(a, 0x0f), put(a, 0x82);               /* jb loop */
  put_int32(a, (int32_t)((ptrdiff_t)loop - (ptrdiff_t)a->n - 4));
  put(a, 0xc3); /* ret */
  return a->n <= a->max;
}

/* -- One group: its codes, by what their arguments were -------------------------------------------------- */

typedef struct compiled { /* never changes once it is listed */
  unsigned char spec[SPEC_BYTES];
  size_t n_spec;
  compiled_fn *fn; /* NULL: the interpreter does these arguments */
  struct compiled *next;
} compiled;

typedef struct group {
  const rush_block *graph;
  pthread_mutex_t lock;
  compiled *cache;
} group;

/* float32, one size, elements in a row: what the code is made for. */
static int is_supported(rush_call *call)
{
  rush_tensor *first = api->call_arg(call, 0).as.tensor;
  int n_dims = api->tensor_n_dims(first);

  for (size_t i = 0; i < api->call_n_args(call); i++) {
    rush_value v = api->call_arg(call, i);
    rush_tensor *t = v.as.tensor;
    int64_t next = 1;

    if (v.tag != RUSH_TAG_TENSOR || api->tensor_dtype(t) != RUSH_FLOAT32 || api->tensor_n_dims(t) != n_dims)
      return 0;
    for (int d = n_dims - 1; d >= 0; next *= api->tensor_sizes(t)[d--])
      if (api->tensor_sizes(t)[d] != api->tensor_sizes(first)[d] || api->tensor_strides(t)[d] != next)
        return 0;
  }
  return 1;
}

static compiled_fn *compile(const group *g)
{
#if defined(__x86_64__)
  void *memory = mmap(NULL, CODE_BYTES, PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);
  assembler a = {memory, 0, CODE_BYTES};
  compiled_fn *fn = NULL;

  if (memory == MAP_FAILED)
    return NULL;
  if (emit(&a, g->graph) && mprotect(memory, CODE_BYTES, PROT_READ | PROT_EXEC) == 0)
    memcpy(&fn, &memory, sizeof fn);
  else
    munmap(memory, CODE_BYTES);
  return fn;
#else
  (void)g;
  return NULL;
#endif
}

/* Under the group's lock. */
static compiled *find_or_compile(rush_call *call, group *g, const unsigned char *spec, size_t n)
{
  for (compiled *c = g->cache; c; c = c->next)
    if (c->n_spec == n && memcmp(c->spec, spec, n) == 0)
      return c;
  compiled *c = calloc(1, sizeof *c);

  if (!c)
    return NULL;
  memcpy(c->spec, spec, n);
  c->n_spec = n;
  c->fn = is_supported(call) ? compile(g) : NULL;
  c->next = g->cache;
  g->cache = c;
  return c;
}

static rush_status run_compiled(rush_call *call, compiled_fn *fn)
{
  rush_tensor *like = api->call_arg(call, 0).as.tensor;
  size_t n_args = api->call_n_args(call);
  void *data[MOST_POINTERS];

  for (size_t i = 0; i < n_args; i++) {
    const void *elements = api->tensor_data(api->call_arg(call, i).as.tensor);

    memcpy(&data[i], &elements, sizeof elements); /* read only */
  }
  for (size_t i = 0; i < api->call_n_results(call); i++) {
    rush_value y;
    rush_status st = api->call_create(call, RUSH_FLOAT32, api->tensor_n_dims(like), api->tensor_sizes(like), &y);

    if (st != RUSH_OK)
      return st;
    data[n_args + i] = api->tensor_data_mut(y.as.tensor);
    api->call_return_steal(call, i, y);
  }
  if (api->tensor_n_elems(like) > 0)
    fn(data, api->tensor_n_elems(like));
  return RUSH_OK;
}

static rush_status run(rush_call *call)
{
  unsigned char spec[SPEC_BYTES];
  group *g = api->call_state(call);
  size_t n = api->call_spec(call, spec, sizeof spec);
  compiled *c = NULL;

  if (!g)
    return api->call_fail(call, NULL, OP " is called by compiled programs only");
  if (n <= sizeof spec) {
    pthread_mutex_lock(&g->lock);
    c = find_or_compile(call, g, spec, n);
    pthread_mutex_unlock(&g->lock);
  }
  return c && c->fn ? run_compiled(call, c->fn) : api->call_run_group(call);
}

/* -- Registering ----------------------------------------------------------------------------------------- */

static rush_status prepare(rush_context *c, const rush_node *node, void *user, void **state, rush_error *err)
{
  group *g = calloc(1, sizeof *g);

  (void)c, (void)user, (void)err;
  if (!g)
    return RUSH_ENOMEM;
  g->graph = api->node_block(node, 0);
  pthread_mutex_init(&g->lock, NULL);
  *state = g;
  return RUSH_OK;
}

static void destroy(void *state, void *user)
{
  group *g = state;

  (void)user;
  for (compiled *c = g->cache, *next; c; c = next) {
    void *memory;

    next = c->next;
    memcpy(&memory, &c->fn, sizeof memory);
    if (memory)
      munmap(memory, CODE_BYTES);
    free(c);
  }
  pthread_mutex_destroy(&g->lock);
  free(g);
}

static const char *refuse(const rush_node *n, void *user)
{
  (void)user;
  if (strcmp(api->node_kind(n), "aten::mul") != 0 || strcmp(api->node_overload(n), "Tensor") != 0)
    return "this compiler knows aten::mul of tensors only";
  return NULL;
}

static rush_status group_nodes(rush_pass *pass, void *user)
{
  rush_group_def def = {.struct_bytes = sizeof def, .op = OP, .refuse = refuse, .user = user,
                        .max_nodes = 11, .max_inputs = 4, .max_outputs = 1};

  return api->pass_group(pass, &def);
}

RUSH_PLUGIN_DECLARE;

RUSH_PLUGIN_EXPORT rush_status rush_plugin(const rush_backend_api *table, rush_context *c, rush_error *err)
{
  rush_op_def op = {.struct_bytes = sizeof op, .schema = OP "(...) -> ...", .kernel = run,
                    .prepare = prepare, .destroy = destroy};
  rush_pass_def pass = {.struct_bytes = sizeof pass, .name = "pw::group", .run = group_nodes};

  api = table;
  rush_status st = api->op_register(c, &op, err);

  return st == RUSH_OK ? api->pass_register(c, &pass, err) : st;
}
