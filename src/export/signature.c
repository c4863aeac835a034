/* export/signature.c -- builds signatures (signature.h) in a session: one walk over the schema, or
 * over the tree specs of an exported program, that appends an item for each leaf.  Cost: O(leaves),
 * and O(leaves * depth) bytes of names.  Types have at most 65536 parts in their full text, and
 * tree specs are in the file: there are no more leaves than that. */
#include "export/signature.h"

#include "base/grow.h"

typedef struct item_list { /* the signature has the items from the start and owns their values */
  rush_signature_item **at;
  uint32_t *n, cap;
} item_list;

typedef struct builder {
  session *s;
  signature *sig;
  const function *f;
  const exported *e;
  item_list list;
  text_buf *path; /* of the item that is at work */
} builder;

/* -- Items ------------------------------------------------------------------------------------- */

static char *keep_text(builder *b, const char *text)
{
  const size_t n = strlen(text) + 1;

  return memcpy(session_alloc_in(b->s, &b->sig->mem, n), text, n);
}

static rush_signature_item *add_item(builder *b, const char *name, const char *type)
{
  if (text_failed(b->path))
    session_check(b->s, call_nomem(b->s->cx));
  GROW_IN(b->s, &b->sig->mem, *b->list.at, *b->list.n, b->list.cap, 8);
  rush_signature_item *item = &(*b->list.at)[*b->list.n];
  *item = (rush_signature_item)RUSH_SIGNATURE_ITEM_INIT;
  item->name = keep_text(b, name);
  item->type = keep_text(b, type);
  ++*b->list.n;
  return item;
}

static const char *annotation(builder *b, const type *t)
{
  text_buf *text = session_text(b->s);

  type_print_annotation(text, t);
  if (text_failed(text))
    session_check(b->s, call_nomem(b->s->cx));
  return text_str(text);
}

/* Add dtype and sizes, if the file has them. */
static void add_meta(builder *b, rush_signature_item *item, const exported_meta *meta)
{
  if (!meta || (meta->is_tensor && meta->dtype == DTYPE_NONE))
    return;
  rush_signature_size *sizes =
    session_alloc_in(b->s, &b->sig->mem, ((size_t)meta->n_dims + 1) * sizeof *sizes);
  for (int i = 0; i < meta->n_dims; i++) {
    sizes[i] = meta->sizes[i];
    if (sizes[i].symbol)
      sizes[i].symbol = keep_text(b, sizes[i].symbol);
  }
  item->is_described = true;
  item->dtype = meta->is_tensor ? (rush_dtype)meta->dtype : RUSH_INT64;
  item->n_sizes = meta->n_dims;
  item->sizes = sizes;
}

/* Restore b->path to its length before something was appended. */
static void cut_path(builder *b, size_t len)
{
  if (text_failed(b->path))
    session_check(b->s, call_nomem(b->s->cx));
  b->path->len = len;
  if (b->path->data)
    b->path->data[len] = 0;
}

/* -- TorchScript ------------------------------------------------------------------------------- */

static void add_parameters(builder *b)
{
  const schema *sc = b->f->schema;
  const uint32_t first = function_takes_self(b->f) ? 1 : 0;

  for (uint32_t i = first; i < sc->n_args; i++) {
    const schema_arg *a = &sc->args[i];
    rush_signature_item *item = add_item(b, a->name, annotation(b, a->type));
    item->argument = i - first;
    item->keyword_only = a->kwarg_only;
    item->has_default = a->has_default;
    if (a->has_default)
      item->value = value_retain(a->default_value);
  }
}

/* Add the leaves of a result: items of tuples. */
static void add_results(builder *b, const type *t, uint32_t outermost, bool is_inside)
{
  const size_t len = b->path->len;

  if (t->kind != TYPE_TUPLE) {
    add_item(b, text_str(b->path), annotation(b, t))->argument = outermost;
    return;
  }
  session_enter(b->s);
  for (uint32_t i = 0; i < t->n_elems; i++) {
    if (t->fields)
      text_printf(b->path, ".%s", t->fields[i]);
    else
      text_printf(b->path, "[%u]", i);
    add_results(b, t->elems[i], is_inside ? outermost : i, true);
    cut_path(b, len);
  }
  session_leave(b->s);
}

/* -- Exported programs ------------------------------------------------------------------------- */

static const char *constant_type(rush_value v)
{
  static const char *const words[] = {"None", "Tensor", "bool", "int", "float", "complex", "str"};

  return v.tag < COUNT_OF(words) ? words[v.tag] : "Any";
}

/* Add the leaves of argument `number`, from *leaf on; *arg counts the graph's inputs. */
static void add_argument(builder *b, const tree_spec *t, uint32_t number, bool by_name,
                         uint32_t *leaf, uint32_t *arg)
{
  const exported *e = b->e;

  for (uint32_t n = tree_n_leaves(t); n > 0; n--, ++*leaf) {
    const bool is_input = e->leaf_is_input[*leaf];
    rush_signature_item *item = add_item(b, e->leaf_names[*leaf],
                                         is_input ? annotation(b, b->f->schema->args[++*arg].type)
                                                  : constant_type(e->leaf_constants[*leaf]));
    item->argument = number;
    item->keyword_only = by_name;
    item->is_constant = !is_input;
    if (!is_input)
      item->value = value_retain(e->leaf_constants[*leaf]);
    add_meta(b, item, e->leaf_metas[*leaf]);
  }
}

static void add_arguments(builder *b)
{
  const tree_spec *pos = &b->e->in->children[0], *named = &b->e->in->children[1];
  uint32_t leaf = 0, arg = 0;

  for (uint32_t i = 0; i < pos->n_children; i++)
    add_argument(b, &pos->children[i], i, false, &leaf, &arg);
  for (uint32_t i = 0; i < named->n_children; i++)
    add_argument(b, &named->children[i], pos->n_children + i, true, &leaf, &arg);
}

/* Return the next output of the graph that is the user's, from *at on. */
static uint32_t next_user_output(const exported *e, uint32_t *at)
{
  while (e->outputs[*at].kind != OUTPUT_USER)
    ++*at;
  return (*at)++;
}

static void add_tree(builder *b, const tree_spec *t, uint32_t outermost, bool is_inside,
                     uint32_t *at)
{
  const exported *e = b->e;
  const size_t len = b->path->len;

  if (t->kind == TREE_LEAF) {
    const uint32_t output = next_user_output(e, at);
    rush_signature_item *item =
      add_item(b, text_str(b->path), annotation(b, b->f->schema->returns[0].type->elems[output]));
    item->argument = outermost;
    add_meta(b, item, e->n_output_metas == e->n_outputs ? e->output_metas[output] : NULL);
    return;
  }
  session_enter(b->s);
  for (uint32_t i = 0; i < t->n_children; i++) {
    const rush_value key = t->keys ? t->keys[i] : value_int(i);
    if (key.tag == RUSH_TAG_STRING)
      text_printf(b->path, t->kind == TREE_OTHER ? ".%s" : "['%s']", key.as.string->text);
    else
      text_printf(b->path, "[%lld]", (long long)key.as.i);
    add_tree(b, &t->children[i], is_inside ? outermost : i, true, at);
    cut_path(b, len);
  }
  session_leave(b->s);
}

/* -- Building ---------------------------------------------------------------------------------- */

typedef struct signature_job {
  const function *f;
  const exported *e;
  signature *made; /* kept after success */
} signature_job;

static void free_deferred(void *sig) { signature_free(sig); }

static void build(session *s, void *arg)
{
  signature_job *job = arg;
  signature *sig = job->made = mem_alloc_zero(s->cx->ctx, sizeof *sig);
  builder b = {.s = s, .sig = sig, .f = job->f, .e = job->e};
  uint32_t at = 0;

  if (!sig)
    session_check(s, call_nomem(s->cx));
  sig->ctx = context_retain(s->cx->ctx);
  arena_init(&sig->mem, s->cx->ctx);
  session_defer(s, free_deferred, sig);
  b.path = session_text(s);
  b.list = (item_list){&sig->inputs, &sig->n_inputs, 0};
  if (b.e)
    add_arguments(&b);
  else
    add_parameters(&b);
  b.list = (item_list){&sig->outputs, &sig->n_outputs, 0};
  text_puts(b.path, "output");
  if (b.e)
    add_tree(&b, b.e->out, 0, false, &at);
  else
    add_results(&b, b.f->schema->returns[0].type, 0, false);
  session_keep(s, sig);
}

rush_status signature_new(call_ctx *cx, const function *f, const exported *e, signature **out)
{
  signature_job job = {.f = f, .e = e};

  TRY(session_run(cx, build, &job));
  *out = job.made;
  return RUSH_OK;
}

static void release_values(const rush_signature_item *items, uint32_t n)
{
  for (uint32_t i = 0; i < n; i++)
    value_release(items[i].value);
}

void signature_free(signature *s)
{
  if (!s)
    return;
  context *c = s->ctx;
  release_values(s->inputs, s->n_inputs);
  release_values(s->outputs, s->n_outputs);
  arena_free(&s->mem);
  mem_free(c, s, sizeof *s);
  context_release(c);
}

/* -- Text -------------------------------------------------------------------------------------- */

static void print_size(text_buf *out, const rush_signature_size *size)
{
  if (size->symbol)
    text_puts(out, size->symbol);
  else
    text_printf(out, "%lld", (long long)size->value);
}

/* Append ", 2 <= s77 <= 64": the known range of a variable size. */
static void print_bounds(text_buf *out, const rush_signature_size *size)
{
  const bool has_min = size->min != INT64_MIN, has_max = size->max != INT64_MAX;

  if (!size->symbol || (!has_min && !has_max))
    return;
  text_puts(out, ", ");
  if (has_min)
    text_printf(out, "%lld <= ", (long long)size->min);
  text_puts(out, size->symbol);
  if (has_max)
    text_printf(out, " <= %lld", (long long)size->max);
}

static void print_description(text_buf *out, const rush_signature_item *item)
{
  const bool is_tensor = strcmp(item->type, "Tensor") == 0;

  text_printf(out, is_tensor ? ", %s[" : ", ", rush_dtype_name(item->dtype));
  for (int i = 0; i < item->n_sizes; i++) {
    text_puts(out, i ? ", " : "");
    print_size(out, &item->sizes[i]);
  }
  text_puts(out, is_tensor ? "]" : "");
  for (int i = 0; i < item->n_sizes; i++) {
    bool is_known = false; /* reported before */
    for (int k = 0; k < i && item->sizes[i].symbol; k++)
      is_known |=
        item->sizes[k].symbol && strcmp(item->sizes[k].symbol, item->sizes[i].symbol) == 0;
    if (!is_known)
      print_bounds(out, &item->sizes[i]);
  }
}

static rush_status print_item(call_ctx *cx, text_buf *out, const rush_signature_item *item,
                              const char *indent)
{
  rush_status st = RUSH_OK;

  text_printf(out, "%s%s: %s", indent, item->name, item->type);
  if (item->is_described)
    print_description(out, item);
  if (item->has_default || item->is_constant) {
    text_puts(out, item->has_default ? " = " : ", always ");
    st = value_repr(cx, out, item->value);
  }
  text_putc(out, '\n');
  return st;
}

rush_status signature_print(call_ctx *cx, text_buf *out, const signature *s, const char *indent)
{
  text_printf(out, "%sinputs:%s\n", indent, s->n_inputs ? "" : " none");
  for (uint32_t i = 0; i < s->n_inputs; i++) {
    text_printf(out, "%s", indent);
    TRY(print_item(cx, out, &s->inputs[i], "  "));
  }
  text_printf(out, "%soutputs:%s\n", indent, s->n_outputs ? "" : " none");
  for (uint32_t i = 0; i < s->n_outputs; i++) {
    text_printf(out, "%s", indent);
    TRY(print_item(cx, out, &s->outputs[i], "  "));
  }
  return RUSH_OK;
}
