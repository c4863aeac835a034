/* ops/call/gradient.c -- formulas of gradients at run time: found in the generated texts (or in a
 * registration), compiled at first use, called, and their results fitted to the arguments. The
 * texts are one zlib block, expanded once per context, since most programs never need a gradient.
 * Formulas of external operators get the same three texts that gen_grad.py writes for the table's,
 * so that one reader serves both. Lookup after the first is one atomic load. */
#include "ops/call/gradient.h"

#include <stdio.h>
#include <string.h>
#include <zlib.h>

#include "base/lock.h"
#include "ops/table/table.h"

typedef struct gradient_store {
  /* protects the following; no other lock is taken under it, since compiling, which holds the
   * program's lock, looks up helpers */
  mutex lock;
  mutex prepare_lock; /* compiling a formula */
  arena mem;
  char *texts; /* expanded, or NULL */
} gradient_store;

static void store_destroy(context *c, void *object)
{
  gradient_store *g = object;
  arena_free(&g->mem);
  mem_free(c, g->texts, g->texts ? op_gradient_bytes : 0);
  mutex_destroy(&g->lock);
  mutex_destroy(&g->prepare_lock);
  mem_free(c, g, sizeof *g);
}

static gradient_store *store_of(context *c)
{
  gradient_store *g = context_slot_get(c, SLOT_GRADIENTS);
  if (g)
    return g;
  g = mem_alloc_zero(c, sizeof *g);
  if (!g)
    return NULL;
  mutex_init(&g->lock);
  mutex_init(&g->prepare_lock);
  arena_init(&g->mem, c);
  return context_slot_publish_steal(c, SLOT_GRADIENTS, g, store_destroy);
}

/* Expand the texts that gen.py wrote; under the lock. */
static rush_status expand(call_ctx *cx, gradient_store *g)
{
  if (g->texts)
    return RUSH_OK;
  char *texts = mem_alloc(cx->ctx, op_gradient_bytes);
  if (!texts)
    return call_nomem(cx);
  uLongf n = op_gradient_bytes;
  if (uncompress((Bytef *)texts, &n, op_gradient_packed, op_gradient_packed_bytes) != Z_OK) {
    mem_free(cx->ctx, texts, op_gradient_bytes); /* our own data: it had no memory to work with */
    return call_nomem(cx);
  }
  g->texts = texts;
  return RUSH_OK;
}

static const char *next_text(const char *t) { return t + strlen(t) + 1; }

rush_status gradient_helper(call_ctx *cx, const char *name, const char **text)
{
  gradient_store *g = store_of(cx->ctx);
  if (!g)
    return call_nomem(cx);
  mutex_lock(&g->lock);
  rush_status st = expand(cx, g);
  *text = NULL;
  for (const char *t = g->texts; st == RUSH_OK && *t && !*text; t = next_text(next_text(t)))
    if (strcmp(t, name) == 0)
      *text = next_text(t);
  mutex_unlock(&g->lock);
  return st;
}

/* -- Reading an operator's formulas ------------------------------------------------------------ */

static const op *base_of(const op *o) { return o->base ? o->base : o; }

/* Return the number in "grad", "grad1", "result0" ...; -1: another name. */
static int numbered(str name, const char *word)
{
  const size_t n = strlen(word);
  if (name.len < n || memcmp(name.p, word, n) != 0)
    return -1;
  int i = 0;
  for (size_t k = n; k < name.len; k++) {
    if (name.p[k] < '0' || name.p[k] > '9' || k > n + 2)
      return -1;
    i = i * 10 + (name.p[k] - '0');
  }
  return i;
}

static gradient_take take_of(const op *o, str name)
{
  static const str sizes = {"_sizes", 6};
  const str head = {name.p, name.len > sizes.len ? name.len - sizes.len : 0};
  const int arg = schema_arg_index(o->schema, name), grad = numbered(name, "grad"),
            result = numbered(name, "result");
  if (arg >= 0)
    return (gradient_take){GRADIENT_ARG, (uint16_t)arg};
  if (grad >= 0 && (uint32_t)grad < o->schema->n_returns)
    return (gradient_take){GRADIENT_OF_RESULT, (uint16_t)grad};
  if (result >= 0 && (uint32_t)result < o->schema->n_returns)
    return (gradient_take){GRADIENT_RESULT, (uint16_t)result};
  if (head.len && memcmp(name.p + head.len, sizes.p, sizes.len) == 0 &&
      schema_arg_index(o->schema, head) >= 0)
    return (gradient_take){GRADIENT_SIZES, (uint16_t)schema_arg_index(o->schema, head)};
  return (gradient_take){GRADIENT_NEEDS, 0};
}

/* Return the type of a formula's parameter; NULL: it is written in the formula's text. */
static const type *take_type(const schema *sc, gradient_take t)
{
  if (t.from == GRADIENT_ARG)
    return sc->args[t.index].type;
  return t.from == GRADIENT_OF_RESULT || t.from == GRADIENT_RESULT ? sc->returns[t.index].type
                                                                   : NULL;
}

const type *op_gradient_type(const op *o, str name)
{
  return take_type(base_of(o)->schema, take_of(base_of(o), name));
}

static uint32_t count_words(const char *text)
{
  uint32_t n = *text != '\0';
  for (; *text; text++)
    n += *text == ' ';
  return n;
}

static str word_at(const char **text)
{
  str w = {*text, strcspn(*text, " ")};
  *text += w.len + (w.p[w.len] == ' ');
  return w;
}

static rush_status read_formula(call_ctx *cx, gradient_store *store, const op *o, const char *text,
                                op_gradient *g)
{
  *g = (op_gradient){.inputs = text, .takes = next_text(text), .text = next_text(next_text(text))};
  g->n_inputs = count_words(g->inputs);
  g->n_takes = count_words(g->takes);
  g->input = arena_alloc(&store->mem, (g->n_inputs + 1) * sizeof *g->input);
  g->take = arena_alloc(&store->mem, (g->n_takes + 1) * sizeof *g->take);
  if (!g->input || !g->take)
    return call_nomem(cx);
  const char *at = g->inputs;
  for (uint32_t i = 0; i < g->n_inputs; i++)
    g->input[i] = (uint16_t)schema_arg_index(o->schema, word_at(&at));
  at = g->takes;
  for (uint32_t i = 0; i < g->n_takes; i++)
    g->take[i] = take_of(o, word_at(&at));
  return RUSH_OK;
}

/* Read the formulas of o, under the lock. */
static rush_status read_formulas(call_ctx *cx, gradient_store *store, const op *o,
                                 op_gradients **out)
{
  TRY(expand(cx, store));
  const char *first = store->texts + o->row->grad;
  uint32_t n = 0;
  for (const char *t = first; *t; t = next_text(next_text(next_text(t))))
    n++;
  op_gradients *all = arena_alloc(&store->mem, sizeof *all);
  op_gradient *items = arena_alloc(&store->mem, n * sizeof *items);
  if (!all || !items)
    return call_nomem(cx);
  *all = (op_gradients){n, items};
  for (uint32_t i = 0; i < n; i++, first = next_text(next_text(next_text(first)))) {
    TRY(read_formula(cx, store, o, first, &items[i]));
    items[i].at = i;
  }
  *out = all;
  return RUSH_OK;
}

/* -- Formulas of operators from outside: what gen_grad.py does for the table's ----------------- */

static bool is_word(char c)
{
  return c == '_' || (c >= '0' && c <= '9') || (c >= 'a' && c <= 'z') || (c >= 'A' && c <= 'Z');
}

/* True if the formula reads the name as a variable, not as an attribute or as a keyword of a
 * call. */
static bool formula_reads(const char *text, str name)
{
  for (const char *p = text; (p = strstr(p, name.p)); p += name.len) {
    const char *after = p + name.len + strspn(p + name.len, " ");
    bool whole = (p == text || (!is_word(p[-1]) && p[-1] != '.')) && !is_word(p[name.len]);
    if (whole && (after[0] != '=' || after[1] == '='))
      return true;
  }
  return false;
}

static void take_if_read(const char *formula, const char *name, const char *type, text_buf *takes,
                         text_buf *params)
{
  if (!formula_reads(formula, str_of(name)))
    return;
  text_printf(takes, "%s%s", text_str(takes)[0] ? " " : "", name);
  text_printf(params, "%s%s%s", text_str(params)[0] ? ", " : "", name, type);
}

/* Make inputs, takes and source, as the table has them. */
static void outside_texts(const op *o, const rush_gradient_def *g, text_buf *takes,
                          text_buf *params)
{
  const schema *sc = o->schema;
  char name[64];
  for (uint32_t i = 0; i < sc->n_returns; i++) {
    snprintf(name, sizeof name, sc->n_returns == 1 ? "grad" : "grad%u", i);
    take_if_read(g->formula, name, "", takes, params);
  }
  for (uint32_t i = 0; i < sc->n_args; i++) {
    take_if_read(g->formula, sc->args[i].name, "", takes, params);
    snprintf(name, sizeof name, "%.50s_sizes", sc->args[i].name);
    take_if_read(g->formula, name,
                 sc->args[i].type->kind == TYPE_LIST ? ": List[List[int]]" : ": List[int]", takes,
                 params);
  }
  for (uint32_t i = 0; i < sc->n_returns; i++) {
    snprintf(name, sizeof name, sc->n_returns == 1 ? "result" : "result%u", i);
    if (schema_arg_index(sc, str_of(name)) < 0)
      take_if_read(g->formula, name, "", takes, params);
  }
  take_if_read(g->formula, "needs", ": List[bool]", takes, params);
}

static rush_status read_outside(call_ctx *cx, gradient_store *store, const op *o,
                                const rush_gradient_def *g, op_gradient *out)
{
  text_buf takes, params, all;
  text_init(&takes, cx->ctx);
  text_init(&params, cx->ctx);
  text_init(&all, cx->ctx);
  outside_texts(o, g, &takes, &params);
  bool lines = strstr(g->formula, "return") != NULL;
  text_puts(&all, g->inputs);
  text_putc(&all, 0);
  text_puts(&all, text_str(&takes));
  text_putc(&all, 0);
  text_printf(&all, "def gradient(%s):\n  %s", text_str(&params), lines ? "" : "return ");
  for (const char *p = g->formula; *p; p++) {
    text_putc(&all, *p);
    if (*p == '\n')
      text_puts(&all, "  ");
  }
  text_puts(&all, "\n");
  char *text = text_failed(&all) || text_failed(&takes) || text_failed(&params)
                 ? NULL
                 : arena_alloc(&store->mem, all.len + 1);
  rush_status st = text ? RUSH_OK : call_nomem(cx);
  if (text) {
    memcpy(text, all.data, all.len);
    text[all.len] = 0;
    st = read_formula(cx, store, o, text, out);
  }
  text_free(&takes);
  text_free(&params);
  text_free(&all);
  return st;
}

static rush_status read_outsides(call_ctx *cx, gradient_store *store, const op *o,
                                 op_gradients **out)
{
  uint32_t n = (uint32_t)o->outside->n_gradients;
  op_gradients *all = arena_alloc(&store->mem, sizeof *all);
  op_gradient *items = arena_alloc(&store->mem, n * sizeof *items);
  if (!all || !items)
    return call_nomem(cx);
  *all = (op_gradients){n, items};
  for (uint32_t i = 0; i < n; i++) {
    TRY(read_outside(cx, store, o, &o->outside->gradients[i], &items[i]));
    items[i].at = i;
  }
  *out = all;
  return RUSH_OK;
}

rush_status op_gradients_of(call_ctx *cx, const op *o, const op_gradients **out)
{
  op *b = (op *)(uintptr_t)base_of(o);
  op_gradients *all = atomic_load_explicit(&b->gradients, memory_order_acquire);
  *out = all;
  bool is_outside = b->outside && b->outside->n_gradients;
  if (all || !(is_outside || (b->row && b->row->grad)))
    return RUSH_OK;
  gradient_store *store = store_of(cx->ctx);
  if (!store)
    return call_nomem(cx);
  mutex_lock(&store->lock);
  rush_status st = RUSH_OK;
  all = atomic_load_explicit(&b->gradients, memory_order_acquire);
  if (!all && (st = (is_outside ? read_outsides : read_formulas)(cx, store, b, &all)) == RUSH_OK)
    atomic_store_explicit(&b->gradients, all, memory_order_release);
  mutex_unlock(&store->lock);
  if (st == RUSH_OK)
    *out = all;
  return st;
}

/* -- Calling ----------------------------------------------------------------------------------- */

static rush_status prepare_gradient(call_ctx *cx, const op *o, const op_gradient *g)
{
  if (atomic_load_explicit(&g->function, memory_order_acquire))
    return RUSH_OK;
  const op_body_runtime *rt = context_slot_get(o->ctx, SLOT_PROGRAM);
  gradient_store *store = store_of(o->ctx);
  const schema *sc = base_of(o)->schema;
  if (!rt)
    return call_unsupported(cx, "a gradient of %s, and nothing that runs formulas is there",
                            sc->name);
  if (!store)
    return call_nomem(cx);
  char name[192];
  snprintf(name, sizeof name, "gradients.%s%s%s.%u", sc->name, sc->overload[0] ? "." : "",
           sc->overload, g->at);
  rush_status st = RUSH_OK;
  TRY(mutex_wait(cx, &store->prepare_lock));
  if (!atomic_load_explicit(&g->function, memory_order_acquire)) {
    void *function = NULL;
    st = rt->compile_gradient(cx, base_of(o), name, g->text, &function);
    if (st == RUSH_OK)
      atomic_store_explicit(&((op_gradient *)(uintptr_t)g)->function, function,
                            memory_order_release);
  }
  mutex_done(&store->prepare_lock);
  return st;
}

rush_status op_gradient_prepare(call_ctx *cx, const op *o, const op_gradient *g, void **function)
{
  TRY(prepare_gradient(cx, o, g));
  *function = atomic_load_explicit(&g->function, memory_order_acquire);
  return RUSH_OK;
}

/* Replace *v by the operator's result; steals the old value. */
static rush_status replace(call_ctx *cx, const char *name, const char *overload,
                           const rush_value *args, uint32_t n, rush_value *v)
{
  rush_value made = value_none();
  TRY(op_invoke_name(cx, name, overload, args, n, &made));
  value_release(*v);
  *v = made;
  return RUSH_OK;
}

rush_status op_gradient_fit(call_ctx *cx, int dtype, int n_dims, const int64_t *sizes,
                            rush_value *v)
{
  const rush_tensor *t = v->as.tensor;
  if (t->n_dims != n_dims || memcmp(t->sizes, sizes, (size_t)n_dims * sizeof *sizes) != 0) {
    rush_value args[2] = {*v};
    TRY(list_of_ints(cx, sizes, (size_t)n_dims, &args[1]));
    rush_status st = replace(cx, "aten::sum_to_size", "", args, 2, v);
    value_release(args[1]);
    TRY(st);
  }
  if (dtype_is_complex(v->as.tensor->dtype) && !dtype_is_complex(dtype))
    TRY(replace(cx, "aten::real", "", v, 1, v));
  if (v->as.tensor->dtype != dtype) {
    rush_value args[2] = {*v, value_int(dtype)};
    TRY(replace(cx, "aten::to", "dtype", args, 2, v));
  }
  return RUSH_OK;
}

static rush_status fit(call_ctx *cx, rush_value like, rush_value *v)
{
  if (like.tag == RUSH_TAG_TENSOR && v->tag == RUSH_TAG_TENSOR)
    return op_gradient_fit(cx, like.as.tensor->dtype, like.as.tensor->n_dims, like.as.tensor->sizes,
                           v);
  if (like.tag != RUSH_TAG_LIST || v->tag != RUSH_TAG_LIST)
    return RUSH_OK;
  if (like.as.list->n != v->as.list->n)
    return call_fail(cx, "a gradient of %zu tensors has %zu", like.as.list->n, v->as.list->n);
  for (size_t i = 0; i < v->as.list->n; i++)
    TRY(fit(cx, like.as.list->items[i], &v->as.list->items[i]));
  return RUSH_OK;
}

rush_status op_gradient_call(call_ctx *cx, const op *o, const op_gradient *g,
                             const rush_value *values, const rush_value *inputs,
                             rush_value *results)
{
  TRY(prepare_gradient(cx, o, g));
  const op_body_runtime *rt = context_slot_get(o->ctx, SLOT_PROGRAM);
  TRY(call_enter(cx));
  rush_status st = rt->call(cx, atomic_load_explicit(&g->function, memory_order_acquire), values,
                            g->n_takes, results, g->n_inputs);
  call_leave(cx);
  TRY(st);
  for (uint32_t i = 0; inputs && i < g->n_inputs && st == RUSH_OK; i++)
    st = fit(cx, inputs[i], &results[i]);
  for (uint32_t i = 0; i < g->n_inputs && st != RUSH_OK; i++) {
    value_release(results[i]);
    results[i] = value_none();
  }
  return st;
}

static rush_status bind_take(call_ctx *cx, const op *o, const op_gradient *g, uint32_t i,
                             rush_value v, rush_value *out)
{
  const schema *sc = base_of(o)->schema;
  const type *t = take_type(sc, g->take[i]);
  bool fits = true;
  if (!t)
    *out = value_retain(v);
  else
    TRY(value_bind(cx, t, v, &fits, out));
  return fits ? RUSH_OK
              : call_fail(cx, "value %u of a gradient of %s is of another type", i, sc->name);
}

rush_status op_gradient_run(call_ctx *cx, const op *o, const op_gradient *g,
                            const rush_value *values, const rush_value *inputs, rush_value *results)
{
  TRY(prepare_gradient(cx, o, g));
  rush_value *bound = mem_alloc(cx->ctx, (g->n_takes + 1) * sizeof *bound);
  if (!bound)
    return call_nomem(cx);
  rush_status st = RUSH_OK;
  uint32_t n = 0;
  while (n < g->n_takes && (st = bind_take(cx, o, g, n, values[n], &bound[n])) == RUSH_OK)
    n++;
  if (st == RUSH_OK)
    st = op_gradient_call(cx, o, g, bound, inputs, results);
  for (uint32_t i = 0; i < n; i++)
    value_release(bound[i]);
  mem_free(cx->ctx, bound, (g->n_takes + 1) * sizeof *bound);
  return st;
}
