/* archive/exported_read.c -- reads models/NAME.json of an archive into an exported program:
 * versions, signature, ranges, guards, module calls; the graph is exported_read_graph.c's.  The
 * file is scanned once for its parts, since the graph stands before the signature that names some
 * of its inputs. Parts that nothing here interprets are kept as they are, so that writing gives
 * them back. */
#include "archive/exported_read.h"

#include "archive/exported_older.h"
#include "base/grow.h"

const char *read_keep(program_reader *r, json *j, str text)
{
  char *copy = session_alloc_in(r->s, &r->p->mem, text.len + 1);

  if (text.len && memchr(text.p, 0, text.len))
    json_fail(j, "the name '%.*s' has a NUL in it", (int)text.len, text.p);
  if (text.len)
    memcpy(copy, text.p, text.len);
  return copy;
}

void *read_keep_array(program_reader *r, size_t n, size_t item)
{
  return session_alloc_in(r->s, &r->p->mem, (n + 1) * item);
}

/* Copy an array of the session's into the program's memory. */
static void *keep_items(program_reader *r, const void *items, size_t n, size_t item)
{
  void *kept = read_keep_array(r, n, item);

  if (n)
    memcpy(kept, items, n * item);
  return kept;
}

/* -- Parts ------------------------------------------------------------------------------------- */

void read_unknown(program_reader *r, json *j, str name, fx_unknown **list)
{
  if (r->use == EXPORTED_TO_RUN || !list) {
    json_skip(j);
    return;
  }
  fx_unknown *u = read_keep_array(r, 1, sizeof *u);
  *u = (fx_unknown){str_of(read_keep(r, j, name)), json_raw(j), *list};
  *list = u;
}

void split_object(program_reader *r, json *j, const part *parts, size_t n, fx_unknown **unknown)
{
  str key;

  for (json_begin_object(j); json_next_key(j, &key);) {
    size_t i = 0;
    while (i < n && !str_is(key, parts[i].name))
      i++;
    if (i == n)
      read_unknown(r, j, key, unknown);
    else if (parts[i].inside)
      split_object(r, j, parts[i].inside, parts[i].n_inside, parts[i].unknown);
    else
      *parts[i].raw = json_unread(j);
  }
}

/* -- Signature --------------------------------------------------------------------------------- */

/* Read the member `kind` of an argument of a signature: values are named, not looked up. */
static exported_arg read_spec_member(program_reader *r, json *j, str kind)
{
  static const struct { const char *word; exported_arg_kind kind; } kinds[] = {
      {"as_tensor", ARG_TENSOR},       {"as_sym_int", ARG_SYM_INT},
      {"as_sym_float", ARG_SYM_FLOAT}, {"as_sym_bool", ARG_SYM_BOOL},
      {"as_custom_obj", ARG_CUSTOM_OBJECT}};
  exported_arg a = {.kind = ARG_CONSTANT, .name = ""};
  str key;

  for (size_t i = 0; i < COUNT_OF(kinds); i++) {
    if (!str_is(kind, kinds[i].word))
      continue;
    a.kind = kinds[i].kind;
    for (json_begin_object(j); json_next_key(j, &key);)
      if (str_is(key, "name") || str_is(key, "as_name"))
        a.name = read_keep(r, j, json_string(j));
      else if (str_is(key, "class_fqn"))
        a.class_name = read_keep(r, j, json_string(j));
      else
        json_fail(j, "a value of a signature with '%.*s'", (int)key.len, key.p);
    return a;
  }
  a.constant = read_constant(r, j, kind);
  return a;
}

static exported_arg read_spec_arg(program_reader *r, json *j)
{
  exported_arg a = {.kind = ARG_CONSTANT, .name = ""};
  uint32_t n = 0;
  str key;

  for (json_begin_object(j); json_next_key(j, &key); n++)
    a = read_spec_member(r, j, key);
  if (n != 1)
    json_fail(j, "an argument of %u kinds", n);
  return a;
}

/* Read {"name": ...}, an argument that is no union. */
static exported_arg read_bare_arg(program_reader *r, json *j, exported_arg_kind kind)
{
  exported_arg a = read_spec_member(
    r, j, str_of(kind == ARG_CUSTOM_OBJECT ? "as_custom_obj" : "as_tensor"));

  a.kind = kind;
  return a;
}

typedef struct spec_row { /* a kind of input or output */
  const char *word;
  int kind;
  exported_arg_kind arg;
  bool is_union;      /* its "arg" is */
  const char *target; /* the member that names what it is; NULL: none */
} spec_row;

static const spec_row input_rows[] = {
  {"user_input", INPUT_USER, ARG_TENSOR, true, NULL},
  {"constant_input", INPUT_USER, ARG_CONSTANT, true, NULL},
  {"parameter", INPUT_PARAMETER, ARG_TENSOR, false, "parameter_name"},
  {"buffer", INPUT_BUFFER, ARG_TENSOR, false, "buffer_name"},
  {"tensor_constant", INPUT_TENSOR_CONSTANT, ARG_TENSOR, false, "tensor_constant_name"},
  {"custom_obj", INPUT_CUSTOM_OBJECT, ARG_CUSTOM_OBJECT, false, "custom_obj_name"},
  {"token", INPUT_TOKEN, ARG_TOKEN, false, NULL}};

static const spec_row output_rows[] = {
  {"user_output", EXPORTED_USER_OUTPUT, ARG_TENSOR, true, NULL},
  {"loss_output", EXPORTED_LOSS_OUTPUT, ARG_TENSOR, false, NULL},
  {"buffer_mutation", EXPORTED_BUFFER_MUTATION, ARG_TENSOR, false, "buffer_name"},
  {"parameter_mutation", EXPORTED_PARAMETER_MUTATION, ARG_TENSOR, false, "parameter_name"},
  {"gradient_to_parameter", EXPORTED_GRADIENT_TO_PARAMETER, ARG_TENSOR, false, "parameter_name"},
  {"gradient_to_user_input", EXPORTED_GRADIENT_TO_USER_INPUT, ARG_TENSOR, false,
   "user_input_name"},
  {"user_input_mutation", EXPORTED_USER_INPUT_MUTATION, ARG_TENSOR, false, "user_input_name"},
  {"token", EXPORTED_TOKEN, ARG_TOKEN, false, NULL}};

typedef struct spec { /* of an input or an output */
  const spec_row *row;
  exported_arg arg;
  const char *target;
  bool is_persistent;
} spec;

static void read_spec_members(program_reader *r, json *j, spec *sp)
{
  str key;

  for (json_begin_object(j); json_next_key(j, &key);) {
    if (str_is(key, "arg") || str_is(key, "value"))
      sp->arg = sp->row->is_union ? read_spec_arg(r, j) : read_bare_arg(r, j, sp->row->arg);
    else if (str_is(key, "name"))
      sp->target = read_keep(r, j, json_string(j));
    else if (sp->row->target && str_is(key, sp->row->target))
      sp->target = read_keep(r, j, json_string(j));
    else if (str_is(key, "persistent"))
      sp->is_persistent = json_bool(j);
    else
      json_skip(j);
  }
  if (!sp->arg.name || (sp->row->target && !sp->target))
    json_fail(j, "a spec of kind '%s' without its argument or target", sp->row->word);
}

static spec read_spec(program_reader *r, json *j, const spec_row *rows, size_t n)
{
  spec sp = {0};
  str word;

  for (json_begin_object(j); json_next_key(j, &word);) {
    if (sp.row)
      json_fail(j, "a spec of two kinds");
    for (size_t i = 0; i < n; i++)
      if (str_is(word, rows[i].word))
        sp.row = &rows[i];
    if (!sp.row)
      json_fail(j, "a spec of kind '%.*s' is not known here", (int)word.len, word.p);
    read_spec_members(r, j, &sp);
  }
  if (!sp.row)
    json_fail(j, "a spec of no kind");
  return sp;
}

static void read_inputs(program_reader *r, str text)
{
  program_input *items = NULL;
  uint32_t n = 0, cap = 0;
  json j;

  json_init_at(&j, r->s, &r->in, text);
  for (json_begin_array(&j); json_next_item(&j); n++) {
    GROW(r->s, items, n, cap, 16);
    const spec sp = read_spec(r, &j, input_rows, COUNT_OF(input_rows));
    const bool is_constant = sp.row->arg == ARG_CONSTANT;
    items[n] = (program_input){.kind = (exported_input_kind)sp.row->kind,
                                     .is_constant_input = is_constant,
                                     .is_persistent = sp.is_persistent,
                                     .arg = sp.arg,
                                     .target = is_constant ? NULL : sp.target};
    if (is_constant && sp.target)
      items[n].arg.name = sp.target;
  }
  r->p->inputs = keep_items(r, items, n, sizeof *items);
  r->p->n_inputs = n;
}

static void read_outputs(program_reader *r, str text)
{
  program_output *items = NULL;
  uint32_t n = 0, cap = 0;
  json j;

  json_init_at(&j, r->s, &r->in, text);
  for (json_begin_array(&j); json_next_item(&j); n++) {
    GROW(r->s, items, n, cap, 8);
    const spec sp = read_spec(r, &j, output_rows, COUNT_OF(output_rows));
    items[n] = (program_output){(exported_output_kind)sp.row->kind, sp.arg, sp.target};
  }
  r->p->outputs = keep_items(r, items, n, sizeof *items);
  r->p->n_outputs = n;
}

/* -- Module calls ------------------------------------------------------------------------------ */

static exported_arg *read_spec_args(program_reader *r, json *j, uint32_t *n)
{
  exported_arg *items = NULL;
  uint32_t cap = 0;

  *n = 0;
  for (json_begin_array(j); json_next_item(j); ++*n) {
    GROW(r->s, items, *n, cap, 4);
    items[*n] = read_spec_arg(r, j);
  }
  return keep_items(r, items, *n, sizeof *items);
}

static const char **read_texts(program_reader *r, json *j, uint32_t *n)
{
  const char **items = NULL;
  uint32_t cap = 0;

  *n = 0;
  for (json_begin_array(j); json_next_item(j); ++*n) {
    GROW(r->s, items, *n, cap, 4);
    items[*n] = read_keep(r, j, json_string(j));
  }
  return keep_items(r, items, *n, sizeof *items);
}

static void read_call_signature(program_reader *r, json *j, exported_call_entry *e)
{
  str key;

  e->has_signature = true;
  for (json_begin_object(j); json_next_key(j, &key);) {
    if (str_is(key, "inputs"))
      e->inputs = read_spec_args(r, j, &e->n_inputs);
    else if (str_is(key, "outputs"))
      e->outputs = read_spec_args(r, j, &e->n_outputs);
    else if (str_is(key, "in_spec"))
      e->in_spec = str_of(read_keep(r, j, json_string(j)));
    else if (str_is(key, "out_spec"))
      e->out_spec = str_of(read_keep(r, j, json_string(j)));
    else if (str_is(key, "forward_arg_names") && !json_is_null(j))
      e->arg_names = read_texts(r, j, &e->n_arg_names);
    else
      json_skip(j);
  }
}

static void read_calls(program_reader *r, str text)
{
  exported_call_entry *items = NULL;
  uint32_t n = 0, cap = 0;
  str key;
  json j;

  json_init_at(&j, r->s, &r->in, text);
  for (json_begin_array(&j); json_next_item(&j); n++) {
    GROW(r->s, items, n, cap, 16);
    items[n] = (exported_call_entry){.fqn = ""};
    for (json_begin_object(&j); json_next_key(&j, &key);) {
      if (str_is(key, "fqn"))
        items[n].fqn = read_keep(r, &j, json_string(&j));
      else if (str_is(key, "signature") && !json_is_null(&j))
        read_call_signature(r, &j, &items[n]);
      else
        json_skip(&j);
    }
  }
  r->p->calls = keep_items(r, items, n, sizeof *items);
  r->p->n_calls = n;
}

/* -- Ranges, guards, versions ------------------------------------------------------------------ */

static void read_bounds(json *j, exported_bounds *b)
{
  str key;

  for (json_begin_object(j); json_next_key(j, &key);) {
    bool *has = str_is(key, "min_val") ? &b->has_min : str_is(key, "max_val") ? &b->has_max : NULL;
    if (!has || json_is_null(j)) {
      json_skip(j);
      continue;
    }
    *has = true;
    *(has == &b->has_min ? &b->min : &b->max) = json_int(j);
  }
}

static void read_ranges(program_reader *r, str text)
{
  exported_bounds *items = NULL;
  uint32_t n = 0, cap = 0;
  str name;
  json j;

  r->ranges_of_symbols = true;
  if (!text.p)
    return;
  json_init_at(&j, r->s, &r->in, text);
  for (json_begin_object(&j); json_next_key(&j, &name); n++) {
    GROW(r->s, items, n, cap, 8);
    items[n] = (exported_bounds){.text = str_of(read_keep(r, &j, name))};
    items[n].expr = expression_read(r->s, &r->p->mem, r->in.place, name, EXPRESSION_SYMPY);
    r->ranges_of_symbols &= items[n].expr->kind == EXPRESSION_SYMBOL;
    read_bounds(&j, &items[n]);
  }
  r->p->ranges = keep_items(r, items, n, sizeof *items);
  r->p->n_ranges = n;
  for (uint32_t i = 0; i < n; i++)
    session_table_put(r->s, &r->ranges, r->p->ranges[i].text, &r->p->ranges[i]);
}

static const char **read_optional_texts(program_reader *r, str text, uint32_t *n)
{
  json j;

  if (!text.p)
    return NULL;
  json_init_at(&j, r->s, &r->in, text);
  return read_texts(r, &j, n);
}

static void read_versions(program_reader *r, str schema, str torch)
{
  exported_program *p = r->p;
  str key;
  json j;

  p->torch_version = "<=2.4"; /* the schema's default */
  if (torch.p) {
    json_init_at(&j, r->s, &r->in, torch);
    p->torch_version = read_keep(r, &j, json_string(&j));
  }
  if (!schema.p)
    return;
  json_init_at(&j, r->s, &r->in, schema);
  for (json_begin_object(&j); json_next_key(&j, &key);) {
    if (str_is(key, "major"))
      p->major = json_int(&j);
    else if (str_is(key, "minor"))
      p->minor = json_int(&j);
    else
      json_skip(&j);
  }
  if (p->major != EXPORT_SCHEMA_MAJOR && (p->major != 0 || p->minor != 0))
    session_fail_status(r->s, RUSH_EUNSUPPORTED, "RuntimeError", NULL,
                        "%s: Serialized schema version SchemaVersion(major=%lld, minor=%lld) does "
                        "not match our current schema version (%d, %d).",
                        r->in.place, (long long)p->major, (long long)p->minor, EXPORT_SCHEMA_MAJOR,
                        EXPORT_SCHEMA_MINOR);
  if (p->major == EXPORT_SCHEMA_MAJOR && p->minor > EXPORT_SCHEMA_MINOR &&
      !atomic_exchange_explicit(&p->zip->is_reported, true, memory_order_relaxed))
    context_warn(p->ctx, session_printf(r->s,
                                        "%s: schema version %lld.%lld is newer than %d.%d, the "
                                        "newest that is known here: what it adds is kept, "
                                        "and has no effect",
                                        r->in.place, (long long)p->major, (long long)p->minor,
                                        EXPORT_SCHEMA_MAJOR, EXPORT_SCHEMA_MINOR));
}

/* -- The program ------------------------------------------------------------------------------- */

typedef struct model_parts {
  graph_parts graph;
  str ranges, guards, schema, opset, verifiers, torch; /* of the file */
  str calls, metadata, namedtuples;                    /* of graph_module */
  str inputs, outputs;                                 /* of signature */
} model_parts;

static void need_part(program_reader *r, str text, const char *name)
{
  if (!text.p)
    input_fail(r->s, &r->in, 0, "there is no '%s'", name);
}

static void split_model(program_reader *r, model_parts *m)
{
  part graph[GRAPH_PARTS];
  const part signature[] = {{.name = "input_specs", .raw = &m->inputs},
                            {.name = "output_specs", .raw = &m->outputs}};
  const part module[] = {
    {.name = "graph",
     .inside = graph,
     .n_inside = GRAPH_PARTS,
     .unknown = &m->graph.unknown},
    {.name = "signature", .inside = signature, .n_inside = COUNT_OF(signature)},
    {.name = "module_call_graph", .raw = &m->calls},
    {.name = "metadata", .raw = &m->metadata},
    {.name = "treespec_namedtuple_fields", .raw = &m->namedtuples}};
  const part root[] = {{.name = "graph_module",
                        .inside = module,
                        .n_inside = COUNT_OF(module),
                        .unknown = &r->p->module_unknown},
                       {.name = "range_constraints", .raw = &m->ranges},
                       {.name = "guards_code", .raw = &m->guards},
                       {.name = "schema_version", .raw = &m->schema},
                       {.name = "opset_version", .raw = &m->opset},
                       {.name = "verifiers", .raw = &m->verifiers},
                       {.name = "torch_version", .raw = &m->torch}};
  json j;

  graph_parts_of(&m->graph, graph);
  json_init(&j, r->s, &r->in);
  split_object(r, &j, root, COUNT_OF(root), &r->p->unknown);
  json_end(&j);
  read_versions(r, m->schema, m->torch);
  need_part(r, m->calls, "module_call_graph");
  need_part(r, m->graph.inputs, "inputs");
  need_part(r, m->graph.outputs, "outputs");
  need_part(r, m->graph.nodes, "nodes");
  need_part(r, m->inputs, "input_specs");
  need_part(r, m->outputs, "output_specs");
}

/* Start the reader with a copy of the record, which stays as long as the program: metadata is read
 * from it later. */
static void begin(program_reader *r, session *s, zip_archive *z, str program, exported_for use)
{
  const zip_entry *e = zip_need(s, z, exported_model_record(s, z, program));
  const input in = zip_input(s, z, e);

  *r = (program_reader){.s = s, .p = exported_program_new(s), .in = in, .use = use};
  r->p->zip = zip_retain(z);
  if (use == EXPORTED_AS_DATA) {
    session_check(s, mapping_copy(s->cx, in.place, in.bytes.p, in.bytes.len, &r->p->text));
    r->in.bytes.p = (const char *)r->p->text->data;
  }
  r->p->place = memcpy(read_keep_array(r, strlen(in.place), 1), in.place, strlen(in.place));
  session_table_init(s, &r->exprs);
  session_table_init(s, &r->ranges);
}

exported_program *exported_read(session *s, zip_archive *z, str program, exported_for use)
{
  program_reader *r = session_new(s, program_reader);
  model_parts *m = session_new(s, model_parts);

  begin(r, s, z, program, use);
  split_model(r, m);
  r->p->name = memcpy(read_keep_array(r, program.len, 1), program.p, program.len);
  r->p->opset_version = m->opset;
  r->p->metadata = m->metadata;
  r->p->namedtuple_fields = m->namedtuples;
  r->p->guards = read_optional_texts(r, m->guards, &r->p->n_guards);
  r->p->dialects = read_optional_texts(r, m->verifiers, &r->p->n_dialects);
  read_ranges(r, m->ranges);
  read_inputs(r, m->inputs);
  read_outputs(r, m->outputs);
  read_calls(r, m->calls);
  r->p->graph = session_keep(s, read_graph(r, &m->graph, true));
  return r->p;
}

exported_program *exported_of_module(session *s, const module *m)
{
  if (m->data) {
    exported_program *p = exported_program_retain(m->data);
    session_defer(s, (void (*)(void *))exported_program_release, p);
    return p;
  }
  if (!m->archive)
    session_fail_status(
      s, RUSH_EARGUMENT, NULL, NULL,
      "the module is no exported program: torch.export.save writes such, to a .pt2");
  return exported_read(s, m->archive, str_of(m->archive_name), EXPORTED_AS_DATA);
}
