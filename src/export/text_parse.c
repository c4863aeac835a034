/* export/text_parse.c -- parses the text of exported programs (text.h): one pass by recursive
 * descent, with the next word read when it is asked for.  JSON that the program keeps as it is goes
 * through the reader of formats/json.h once, so that what is kept is JSON. */
#include "export/text.h"

#include <errno.h>
#include <stdlib.h>

#include "base/grow.h"
#include "formats/json.h"
#include "tensor/dtype.h"

typedef struct val_slot { /* an item of a list that is a node's description */
  const fx_val **slot;
  uint32_t item; /* its number */
  str name;
  size_t at;
} val_slot;
typedef struct text_graph { /* the graph being parsed */
  fx_graph *graph;
  table nodes; /* name -> fx_node */
  val_slot *slots;
  uint32_t n_slots, cap_slots;
} text_graph;
typedef struct text_parser {
  session *s;
  exported_program *p;
  const char *place;
  str text; /* a copy in the program's memory */
  size_t pos;
  text_graph *g;
  table exprs; /* text of an expression -> expression */
} text_parser;

/* -- Errors ------------------------------------------------------------------------------------ */

/* Leave the session: "PLACE:LINE:COLUMN: expected WHAT, found ...". */
_Noreturn static void fail_at(text_parser *t, size_t at, const char *message)
{
  uint32_t line = 1;
  size_t start = 0;

  for (size_t i = 0; i < at && i < t->text.len; i++)
    if (t->text.p[i] == '\n') {
      line++;
      start = i + 1;
    }
  session_fail_status(t->s, RUSH_EFORMAT, NULL, NULL, "%s:%u:%zu: %s", t->place, line,
                      at - start + 1, message);
}

static void skip_blanks(text_parser *t)
{
  while (t->pos < t->text.len && strchr(" \t\r\n", t->text.p[t->pos]) && t->text.p[t->pos])
    t->pos++;
}

/* Leave the session, with a part of what stands at the present place. */
_Noreturn static void fail(text_parser *t, const char *expected)
{
  size_t n = 0;

  skip_blanks(t);
  while (n < 20 && t->pos + n < t->text.len && (unsigned char)t->text.p[t->pos + n] > ' ')
    n++;
  fail_at(t, t->pos, n ? session_printf(t->s, "expected %s, found '%.*s'", expected, (int)n,
                                        t->text.p + t->pos)
                       : session_printf(t->s, "expected %s, found the end", expected));
}

/* -- Words ------------------------------------------------------------------------------------- */

static bool is_word_char(char c)
{
  return (c >= 'a' && c <= 'z') || (c >= 'A' && c <= 'Z') || (c >= '0' && c <= '9') || c == '_' ||
         c == '.' || c == '+' || c == '-';
}

static char peek(text_parser *t)
{
  skip_blanks(t);
  return t->pos < t->text.len ? t->text.p[t->pos] : '\0';
}

/* Return the next word without taking it; empty: none is there. */
static str peek_word(text_parser *t)
{
  size_t n = 0;

  skip_blanks(t);
  while (t->pos + n < t->text.len && is_word_char(t->text.p[t->pos + n]))
    n++;
  return (str){t->text.p + t->pos, n};
}

static bool take_word(text_parser *t, const char *word)
{
  const str w = peek_word(t);

  if (!str_is(w, word))
    return false;
  t->pos += w.len;
  return true;
}

static void need_word(text_parser *t, const char *word)
{
  if (!take_word(t, word))
    fail(t, session_printf(t->s, "'%s'", word));
}

static bool consume(text_parser *t, char c)
{
  if (peek(t) != c)
    return false;
  t->pos++;
  return true;
}

static void need(text_parser *t, char c)
{
  if (!consume(t, c))
    fail(t, session_printf(t->s, "'%c'", c));
}

/* Go on in a list: takes a comma, or the end. */
static bool next_item(text_parser *t, char end, bool is_first)
{
  if (consume(t, end))
    return false;
  if (!is_first) {
    need(t, ',');
    if (consume(t, end))
      return false;
  }
  return true;
}

/* Take one of the words; returns its number. */
static int need_word_of(text_parser *t, const char *const *words, int n, const char *what)
{
  for (int i = 0; i < n; i++)
    if (take_word(t, words[i]))
      return i;
  fail(t, what);
}

static int64_t need_int(text_parser *t)
{
  const str w = peek_word(t);
  char digits[24], *end;
  long long v;

  if (w.len == 0 || w.len >= sizeof digits)
    fail(t, "an int of 64 bits");
  memcpy(digits, w.p, w.len);
  digits[w.len] = 0;
  errno = 0;
  v = strtoll(digits, &end, 10);
  if (*end || errno)
    fail(t, "an int of 64 bits");
  t->pos += w.len;
  return v;
}

static double need_float(text_parser *t)
{
  const str w = peek_word(t);
  char digits[64], *end;

  if (w.len == 0 || w.len >= sizeof digits)
    fail(t, "a float");
  memcpy(digits, w.p, w.len);
  digits[w.len] = 0;
  const double d = strtod(digits, &end);
  if (*end || (strpbrk(digits, "xXpP") != NULL))
    fail(t, "a float");
  t->pos += w.len;
  return d;
}

/* -- JSON -------------------------------------------------------------------------------------- */

typedef struct json_job {
  input in;
  str rest, raw, decoded;
  bool is_string;
  arena *mem;
} json_job;

static void read_json(session *s, void *arg)
{
  json_job *job = arg;
  json j;

  json_init_at(&j, s, &job->in, job->rest);
  if (job->is_string && json_peek(&j) != JSON_STRING)
    json_fail(&j, "expected a text");
  job->raw = json_raw(&j);
  if (!job->is_string)
    return;
  json_init_at(&j, s, &job->in, job->raw);
  const str text = json_string(&j);
  char *copy = session_alloc_in(s, job->mem, text.len + 1);
  if (text.len)
    memcpy(copy, text.p, text.len);
  job->decoded = (str){copy, text.len};
}

/* Read a JSON value: its text, or what a string says.  The reader works in a session of its own,
 * since it names an offset where this one names line and column. */
static json_job need_json(text_parser *t, bool is_string)
{
  rush_error err = RUSH_ERROR_INIT, *outer = t->s->cx->err;
  json_job job = {.is_string = is_string, .mem = &t->p->mem};

  skip_blanks(t);
  job.in = (input){t->place, t->text};
  job.rest = (str){t->text.p + t->pos, t->text.len - t->pos};
  if (!job.rest.len)
    fail(t, is_string ? "a text in quotes" : "JSON");
  t->s->cx->err = &err;
  const rush_status st = session_run(t->s->cx, read_json, &job);
  t->s->cx->err = outer;
  if (st != RUSH_OK && st != RUSH_EFORMAT) {
    if (outer)
      error_move(outer, &err);
    session_check(t->s, st);
  }
  const char *why = session_take_message(t->s, &err);
  if (st != RUSH_OK)
    fail_at(t, t->pos, why ? why : "no JSON");
  t->pos = (size_t)(job.raw.p + job.raw.len - t->text.p);
  return job;
}

static str need_text(text_parser *t) { return need_json(t, true).decoded; }
static str need_raw(text_parser *t) { return need_json(t, false).raw; }

/* Read a text that is a name: without NUL. */
static const char *need_name(text_parser *t)
{
  const size_t at = t->pos;
  const str text = need_text(t);

  if (text.len && memchr(text.p, 0, text.len))
    fail_at(t, at, "a name with a NUL in it");
  return text.p;
}

/* Copy an array of the session's into the program's memory. */
static void *keep(text_parser *t, const void *items, size_t n, size_t item)
{
  void *kept = session_alloc_in(t->s, &t->p->mem, (n + 1) * item);

  if (n)
    memcpy(kept, items, n * item);
  return kept;
}

static const char **need_names(text_parser *t, uint32_t *n)
{
  const char **items = NULL;
  uint32_t cap = 0;

  need(t, '[');
  for (*n = 0; next_item(t, ']', *n == 0); ++*n) {
    GROW(t->s, items, *n, cap, 8);
    items[*n] = need_name(t);
  }
  return keep(t, items, *n, sizeof *items);
}

static void need_unknown(text_parser *t, fx_unknown **list)
{
  fx_unknown *u = session_alloc_in(t->s, &t->p->mem, sizeof *u);

  u->name = need_text(t);
  u->json = need_raw(t);
  u->next = *list;
  *list = u;
}

/* -- Arguments --------------------------------------------------------------------------------- */

/* Read the name behind '%'. */
static str need_node_name(text_parser *t)
{
  need(t, '%');
  if (t->pos < t->text.len && t->text.p[t->pos] == '"')
    return need_text(t);
  const str w = peek_word(t);
  if (!w.len)
    fail(t, "the name of a value");
  t->pos += w.len;
  return w;
}

static fx_node *need_node(text_parser *t)
{
  const size_t at = t->pos;
  const str name = need_node_name(t);
  fx_node *n = t->g ? table_get(&t->g->nodes, name) : NULL;

  if (!n)
    fail_at(t, at, session_printf(t->s, "there is no value '%.*s' before this", (int)name.len,
                                  name.p));
  return n;
}

static fx_arg need_arg(text_parser *t);

static fx_arg need_list(text_parser *t, fx_kind kind, char end)
{
  fx_arg *items = NULL;
  uint32_t n = 0, cap = 0;

  for (; next_item(t, end, n == 0); n++) {
    GROW(t->s, items, n, cap, 8);
    items[n] = need_arg(t);
  }
  return (fx_arg){.kind = kind, .n = n, .as.items = keep(t, items, n, sizeof *items)};
}

static fx_named *need_named(text_parser *t, uint32_t *n)
{
  fx_named *items = NULL;
  uint32_t cap = 0;

  for (*n = 0; next_item(t, '}', *n == 0); ++*n) {
    GROW(t->s, items, *n, cap, 4);
    items[*n].name = need_text(t);
    need(t, ':');
    items[*n].arg = need_arg(t);
  }
  return keep(t, items, *n, sizeof *items);
}

static int need_dtype(text_parser *t)
{
  const str w = peek_word(t);

  for (int i = 0; i < RUSH_N_DTYPES; i++)
    if (w.len && dtype_name(i) && str_is(w, dtype_name(i))) {
      t->pos += w.len;
      return i;
    }
  fail(t, "a dtype");
}

static fx_arg named_text(fx_kind kind, str text)
{
  return (fx_arg){.kind = kind, .n = (uint32_t)text.len, .as.text = text.p};
}

/* Read WORD(...): an argument that is no number, text or list. */
static fx_arg need_called(text_parser *t)
{
  fx_arg a;

  if (take_word(t, "dtype")) {
    need(t, '(');
    a = (fx_arg){.kind = FX_DTYPE, .as.i = need_dtype(t)};
  } else if (take_word(t, "layout")) {
    need(t, '(');
    a = (fx_arg){.kind = FX_LAYOUT, .as.i = need_int(t)};
  } else if (take_word(t, "memory_format")) {
    need(t, '(');
    a = (fx_arg){.kind = FX_MEMORY_FORMAT, .as.i = need_int(t)};
  } else if (take_word(t, "device")) {
    need(t, '(');
    a = named_text(FX_DEVICE, str_of(need_name(t)));
  } else if (take_word(t, "operator")) {
    need(t, '(');
    a = named_text(FX_OPERATOR, str_of(need_name(t)));
  } else if (take_word(t, "complex")) {
    double *c = session_alloc_in(t->s, &t->p->mem, 2 * sizeof *c);
    need(t, '(');
    c[0] = need_float(t);
    need(t, ',');
    c[1] = need_float(t);
    a = (fx_arg){.kind = FX_COMPLEX, .as.complex = c};
  } else if (take_word(t, "object")) {
    fx_object *o = session_alloc_in(t->s, &t->p->mem, sizeof *o);
    need(t, '(');
    o->name = need_name(t);
    need(t, ',');
    o->class_name = need_name(t);
    a = (fx_arg){.kind = FX_OBJECT, .as.object = o};
  } else {
    fail(t, "an argument");
  }
  need(t, ')');
  return a;
}

static bool is_number_word(str w)
{
  return w.len && (w.p[0] == '-' || (w.p[0] >= '0' && w.p[0] <= '9') || str_is(w, "inf") ||
                   str_is(w, "nan"));
}

static fx_arg need_number_arg(text_parser *t, str w)
{
  for (size_t i = 0; i < w.len; i++)
    if (strchr(".enif", w.p[i]))
      return (fx_arg){.kind = FX_FLOAT, .as.f = need_float(t)};
  return fx_arg_int(need_int(t));
}

static fx_arg need_arg(text_parser *t)
{
  const char c = peek(t);
  const str w = peek_word(t);
  fx_arg a = {.kind = FX_NONE};

  session_enter(t->s);
  if (c == '%') {
    a = fx_arg_node(need_node(t));
  } else if (c == '"') {
    a = named_text(FX_STRING, need_text(t));
  } else if (consume(t, '[')) {
    a = need_list(t, FX_LIST, ']');
  } else if (consume(t, '(')) {
    a = need_list(t, FX_TUPLE, ')');
  } else if (consume(t, '{')) {
    a.kind = FX_DICT;
    a.as.named = need_named(t, &a.n);
  } else if (is_number_word(w)) {
    a = need_number_arg(t, w);
  } else if (take_word(t, "True") || take_word(t, "False")) {
    a = (fx_arg){.kind = FX_BOOL, .as.b = str_is(w, "True")};
  } else if (!take_word(t, "None")) {
    a = need_called(t);
  }
  session_leave(t->s);
  return a;
}

/* -- What is known of values ------------------------------------------------------------------- */

static const expression *need_expression(text_parser *t, str text)
{
  const expression *e = table_get(&t->exprs, text);

  if (!e) {
    e = expression_read(t->s, &t->p->mem, t->place, text, EXPRESSION_SYMPY);
    session_table_put(t->s, &t->exprs, text, (void *)(uintptr_t)e);
  }
  return e;
}

static void need_literal(text_parser *t, fx_val_kind kind, fx_number *n)
{
  n->has_value = true;
  if (kind == FX_VAL_FLOAT)
    n->value.f = need_float(t);
  else if (kind == FX_VAL_INT)
    n->value.i = need_int(t);
  else if (take_word(t, "True"))
    n->value.b = true;
  else
    need_word(t, "False");
}

static fx_number need_number(text_parser *t, fx_val_kind kind)
{
  fx_number n = {0};

  if (!consume(t, '<')) {
    need_literal(t, kind, &n);
    return n;
  }
  n.expr = need_expression(t, need_text(t));
  if (consume(t, ','))
    need_literal(t, kind, &n);
  need(t, '>');
  return n;
}

static const fx_number *need_numbers(text_parser *t, uint32_t *n)
{
  fx_number *items = NULL;
  uint32_t cap = 0;

  need(t, '[');
  for (*n = 0; next_item(t, ']', *n == 0); ++*n) {
    GROW(t->s, items, *n, cap, 4);
    items[*n] = need_number(t, FX_VAL_INT);
  }
  return keep(t, items, *n, sizeof *items);
}

static const fx_tensor *need_tensor(text_parser *t)
{
  fx_tensor *v = session_alloc_in(t->s, &t->p->mem, sizeof *v);

  v->dtype = need_dtype(t);
  v->sizes = need_numbers(t, &v->n_dims);
  v->strides = need_numbers(t, &v->n_strides);
  v->offset = need_number(t, FX_VAL_INT);
  v->device = need_name(t);
  const size_t at = t->pos;
  const int64_t layout = need_int(t);
  if (layout < 0 || layout > 6)
    fail_at(t, at, "expected a layout from 0 to 6");
  v->layout = (int)layout;
  v->requires_grad = take_word(t, "grad");
  return v;
}

static const fx_val *need_val(text_parser *t);

/* Read the items of a list: descriptions, "none", or names of getitem nodes that follow. */
static const fx_val *const *need_val_items(text_parser *t, uint32_t *n)
{
  const fx_val **items = NULL;
  val_slot *named = NULL;
  uint32_t cap = 0, n_named = 0, cap_named = 0;

  need(t, '[');
  for (*n = 0; next_item(t, ']', *n == 0); ++*n) {
    GROW(t->s, items, *n, cap, 4);
    items[*n] = NULL;
    if (peek(t) == '%') {
      GROW(t->s, named, n_named, cap_named, 4);
      const size_t at = t->pos;
      named[n_named++] = (val_slot){.item = *n, .name = need_node_name(t), .at = at};
    } else if (!take_word(t, "none")) {
      items[*n] = need_val(t);
    }
  }
  const fx_val **kept = keep(t, items, *n, sizeof *items);
  for (uint32_t i = 0; i < n_named; i++) {
    GROW(t->s, t->g->slots, t->g->n_slots, t->g->cap_slots, 16);
    t->g->slots[t->g->n_slots] = named[i];
    t->g->slots[t->g->n_slots++].slot = &kept[named[i].item];
  }
  return kept;
}

static const fx_val *need_val(text_parser *t)
{
  fx_val *v = session_alloc_in(t->s, &t->p->mem, sizeof *v);
  const str w = peek_word(t);

  session_enter(t->s);
  if (take_word(t, "tensor")) {
    v->kind = FX_VAL_TENSOR;
    v->as.tensor = need_tensor(t);
  } else if (take_word(t, "int") || take_word(t, "float") || take_word(t, "bool")) {
    fx_number *n = session_alloc_in(t->s, &t->p->mem, sizeof *n);
    v->kind = str_is(w, "int") ? FX_VAL_INT : str_is(w, "float") ? FX_VAL_FLOAT : FX_VAL_BOOL;
    *n = need_number(t, v->kind);
    v->as.number = n;
  } else if (take_word(t, "object")) {
    v->kind = FX_VAL_OBJECT;
    v->as.class_name = need_name(t);
  } else if (take_word(t, "tuple") || take_word(t, "list")) {
    v->kind = FX_VAL_LIST;
    v->is_tuple = str_is(w, "tuple");
    v->as.items = need_val_items(t, &v->n);
  } else {
    need_word(t, "constant");
    v->kind = FX_VAL_CONSTANT;
    v->as.constant = need_arg(t);
  }
  session_leave(t->s);
  return v;
}

/* -- Graphs ------------------------------------------------------------------------------------ */

static const str *need_arg_names(text_parser *t, uint32_t n_args)
{
  str *names = session_alloc_in(t->s, &t->p->mem, (n_args + (size_t)1) * sizeof *names);

  need(t, '[');
  for (uint32_t i = 0; i < n_args; i++) {
    if (i)
      need(t, ',');
    names[i] = need_text(t);
  }
  need(t, ']');
  return names;
}

static void need_attributes(text_parser *t, fx_node *n)
{
  for (;;) {
    if (take_word(t, "names"))
      n->arg_names = need_arg_names(t, n->n_args);
    else if (take_word(t, "file_name"))
      n->file_name = need_name(t);
    else if (take_word(t, "none"))
      n->returns_none = true;
    else if (take_word(t, "val"))
      n->val = need_val(t);
    else if (take_word(t, "unknown"))
      need_unknown(t, &n->unknown);
    else if (!take_word(t, "meta"))
      return;
    else if (!take_word(t, "same"))
      n->metadata = need_raw(t);
    else if (n->prev)
      n->metadata = n->prev->metadata;
  }
}

static void need_line(text_parser *t)
{
  static const char *const words[] = {"placeholder", "get_attr", "call", "output"};
  const size_t at = t->pos;
  const str given = need_node_name(t);

  if (table_get(&t->g->nodes, given))
    fail_at(t, at, session_printf(t->s, "a second value '%.*s'", (int)given.len, given.p));
  if (given.len && memchr(given.p, 0, given.len))
    fail_at(t, at, "a name with a NUL in it");
  char *name = session_alloc_in(t->s, &t->p->mem, given.len + 1);
  memcpy(name, given.p, given.len);
  need(t, '=');
  const fx_op op =
    (fx_op)need_word_of(t, words, COUNT_OF(words), "placeholder, get_attr, call or output");
  const char *target = need_name(t);
  fx_arg args = {.kind = FX_NONE};
  if (consume(t, '('))
    args = need_list(t, FX_TUPLE, ')');
  fx_node *n = fx_node_new(t->s, t->g->graph, op, target, name);
  n->name = name;
  n->at = at;
  n->n_args = args.kind == FX_TUPLE ? args.n : 0;
  n->args = n->n_args ? args.as.items : NULL;
  if (consume(t, '{'))
    n->kwargs = need_named(t, &n->n_kwargs);
  need_attributes(t, n);
  session_table_put(t->s, &t->g->nodes, (str){name, given.len}, n);
}

/* Let items of lists be the descriptions of the nodes that they name. */
static void fill_slots(text_parser *t)
{
  for (uint32_t i = 0; i < t->g->n_slots; i++) {
    const val_slot *slot = &t->g->slots[i];
    const fx_node *n = table_get(&t->g->nodes, slot->name);
    if (!n)
      fail_at(t, slot->at, session_printf(t->s, "there is no value '%.*s'", (int)slot->name.len,
                                          slot->name.p));
    *slot->slot = n->val;
  }
}

static void add_subgraph(text_parser *t, text_graph *g);

static fx_graph *need_graph(text_parser *t)
{
  text_graph *outer = t->g, *g = session_new(t->s, text_graph);

  session_enter(t->s);
  session_table_init(t->s, &g->nodes);
  g->graph = fx_graph_new(t->s, &t->p->mem);
  t->g = g;
  need(t, '{');
  while (take_word(t, "unknown"))
    need_unknown(t, &g->graph->unknown);
  while (peek(t) == '%') {
    session_poll(t->s);
    need_line(t);
  }
  while (take_word(t, "graph"))
    add_subgraph(t, g);
  const size_t at = t->pos;
  need(t, '}');
  if (!g->graph->last || g->graph->last->op != FX_OUTPUT || g->graph->last->n_args != 1)
    fail_at(t, at, "a graph ends with its output, which has one argument");
  fill_slots(t);
  fx_graph_count_users(t->s, g->graph);
  t->g = outer;
  session_leave(t->s);
  return g->graph;
}

static void add_subgraph(text_parser *t, text_graph *g)
{
  const size_t at = t->pos;
  const char *name = need_name(t);

  if (fx_graph_subgraph(g->graph, name))
    fail_at(t, at, session_printf(t->s, "a second graph '%s'", name));
  fx_graph_add_subgraph(t->s, g->graph, name, need_graph(t));
}

/* -- Signature and module calls ---------------------------------------------------------------- */

static exported_arg need_spec_arg(text_parser *t)
{
  exported_arg a = {0};

  a.kind = (exported_arg_kind)need_word_of(t, exported_arg_words, EXPORTED_N_ARG_KINDS,
                                           "a kind of value, such as tensor");
  a.name = need_name(t);
  if (take_word(t, "class"))
    a.class_name = need_name(t);
  if (a.kind == ARG_CONSTANT)
    a.constant = need_arg(t);
  return a;
}

static exported_arg *need_spec_args(text_parser *t, uint32_t *n)
{
  exported_arg *items = NULL;
  uint32_t cap = 0;

  need(t, '[');
  for (*n = 0; next_item(t, ']', *n == 0); ++*n) {
    GROW(t->s, items, *n, cap, 4);
    items[*n] = need_spec_arg(t);
  }
  return keep(t, items, *n, sizeof *items);
}

static program_input need_input(text_parser *t)
{
  program_input in = {0};

  in.kind = (exported_input_kind)need_word_of(t, exported_input_words, EXPORTED_N_INPUT_KINDS,
                                              "a kind of input, such as user");
  in.arg = need_spec_arg(t);
  in.target = take_word(t, "target") ? need_name(t) : NULL;
  in.is_persistent = take_word(t, "persistent");
  in.is_constant_input = take_word(t, "is_constant");
  return in;
}

static program_output need_output(text_parser *t)
{
  program_output out = {0};

  out.kind = (exported_output_kind)need_word_of(t, exported_output_words, EXPORTED_N_OUTPUT_KINDS,
                                                "a kind of output, such as user");
  out.arg = need_spec_arg(t);
  out.target = take_word(t, "target") ? need_name(t) : NULL;
  return out;
}

static exported_call_entry need_module(text_parser *t)
{
  exported_call_entry e = {.fqn = need_name(t)};

  if (!take_word(t, "inputs"))
    return e;
  e.has_signature = true;
  e.inputs = need_spec_args(t, &e.n_inputs);
  need_word(t, "outputs");
  e.outputs = need_spec_args(t, &e.n_outputs);
  need_word(t, "in_spec");
  e.in_spec = str_of(need_name(t));
  need_word(t, "out_spec");
  e.out_spec = str_of(need_name(t));
  if (take_word(t, "names"))
    e.arg_names = need_names(t, &e.n_arg_names);
  return e;
}

/* -- The program ------------------------------------------------------------------------------- */

static bool need_bound(text_parser *t, int64_t *out)
{
  if (take_word(t, "none"))
    return false;
  *out = need_int(t);
  return true;
}

static exported_bounds need_range(text_parser *t)
{
  exported_bounds b = {.text = need_text(t)};

  b.expr = need_expression(t, b.text);
  b.is_used = take_word(t, "used");
  if (!b.is_used)
    need_word(t, "unused");
  b.has_min = need_bound(t, &b.min);
  b.has_max = need_bound(t, &b.max);
  return b;
}

static void need_head(text_parser *t)
{
  exported_program *p = t->p;

  need_word(t, "exported_program");
  p->name = need_name(t);
  need(t, '{');
  need_word(t, "schema");
  p->major = need_int(t);
  p->minor = need_int(t);
  need_word(t, "torch_version");
  p->torch_version = need_name(t);
  need_word(t, "dialects");
  p->dialects = need_names(t, &p->n_dialects);
  if (take_word(t, "opset_version"))
    p->opset_version = need_raw(t);
  if (take_word(t, "metadata"))
    p->metadata = need_raw(t);
  if (take_word(t, "namedtuple_fields"))
    p->namedtuple_fields = need_raw(t);
  while (take_word(t, "unknown"))
    need_unknown(t, &p->unknown);
  while (take_word(t, "module_unknown"))
    need_unknown(t, &p->module_unknown);
}

/* Read items that each begin with a word, into the program's memory. */
#define NEED_ALL(t, word, items, n_items, read)                        \
  do {                                                                 \
    uint32_t cap = 0;                                                  \
    while (take_word(t, word)) {                                       \
      GROW((t)->s, items, n_items, cap, 16);                           \
      items[n_items] = read(t);                                        \
      (n_items)++;                                                     \
    }                                                                  \
    items = keep(t, items, n_items, sizeof *(items));                  \
  } while (0)

exported_program *exported_parse_text(session *s, const char *place, str text)
{
  text_parser *t = session_new(s, text_parser);
  exported_program *p = exported_program_new(s);

  *t = (text_parser){.s = s, .p = p, .place = place};
  t->text = (str){keep(t, text.p, text.len, 1), text.len};
  session_table_init(s, &t->exprs);
  p->place = keep(t, place, strlen(place) + 1, 1);
  need_head(t);
  NEED_ALL(t, "range", p->ranges, p->n_ranges, need_range);
  NEED_ALL(t, "guard", p->guards, p->n_guards, need_name);
  NEED_ALL(t, "input", p->inputs, p->n_inputs, need_input);
  NEED_ALL(t, "output", p->outputs, p->n_outputs, need_output);
  NEED_ALL(t, "module", p->calls, p->n_calls, need_module);
  need_word(t, "graph");
  p->graph = session_keep(s, need_graph(t));
  need(t, '}');
  if (peek(t) || t->pos < t->text.len)
    fail(t, "nothing behind the program");
  return p;
}
