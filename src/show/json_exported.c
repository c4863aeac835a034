/* show/json_exported.c -- what the file of an exported program says of its nodes.  The program is
 * read as data once more: what runs has neither shapes nor metadata.  A node of the graph that runs
 * is found by its place in the file, or in a program that was made here by its name; a value by its
 * name.  An author's file is not in the archive: a text with the lines that stack traces quote
 * stands for it. */
#include "show/json_int.h"

#include <stdlib.h>

#include "archive/exported_read.h"
#include "formats/json.h"

#define MOST_LINE 100000 /* of a file that is shown */

typedef struct author_file {
  str name;
  uint32_t index, n_lines;
  table lines; /* number, as the bytes of an author_line -> author_line */
} author_file;
typedef struct author_line {
  uint32_t number;
  str text;
} author_line;

typedef struct json_module {
  str path, class_name;
  uint32_t index, outer; /* outer: UINT32_MAX: none */
} json_module;

struct json_exported {
  session *s;
  const exported_program *p;
  table by_place; /* bytes of fx_node.at -> fx_node */
  table by_name;  /* of the outermost graph first */
  table modules;  /* the stack up to it, as the file has it -> json_module */
  table files;    /* name -> author_file */
};

static void note_nodes(json_exported *x, const fx_graph *g)
{
  session *s = x->s;

  session_enter(s);
  for (const fx_node *n = g->first; n; n = n->next) {
    session_poll(s);
    if (n->at)
      session_table_put(s, &x->by_place, (str){(const char *)&n->at, sizeof n->at},
                        (void *)(uintptr_t)n);
    if (!table_get(&x->by_name, str_of(n->name)))
      session_table_put(s, &x->by_name, str_of(n->name), (void *)(uintptr_t)n);
  }
  for (uint32_t i = 0; i < g->n_subgraphs; i++)
    note_nodes(x, g->subgraphs[i].graph);
  session_leave(s);
}

json_exported *json_exported_new(session *s, const module *m)
{
  if (!m->exported)
    return NULL;
  json_exported *x = session_new(s, json_exported);
  *x = (json_exported){.s = s, .p = exported_of_module(s, m)};
  session_table_init(s, &x->by_place);
  session_table_init(s, &x->by_name);
  session_table_init(s, &x->modules);
  session_table_init(s, &x->files);
  note_nodes(x, x->p->graph);
  return x;
}

/* -- Values ------------------------------------------------------------------------------------ */

static void put_size(json_exported *x, text_buf *out, const fx_number *n)
{
  if (n->expr)
    expression_print(x->s, out, n->expr);
  else
    text_printf(out, "%lld", (long long)n->value.i);
}

bool json_exported_type(json_exported *x, text_buf *out, const ir_value *v, bool *is_tensor)
{
  static const char *const words[] = {
    [FX_VAL_INT] = "int", [FX_VAL_FLOAT] = "float", [FX_VAL_BOOL] = "bool"};
  const fx_node *n = v->name ? table_get(&x->by_name, str_of(v->name)) : NULL;
  const fx_val *val = n ? n->val : NULL;

  if (!val || val->kind > FX_VAL_BOOL)
    return false;
  if (val->kind != FX_VAL_TENSOR) {
    text_printf(out, "%s ", words[val->kind]);
    if (val->kind == FX_VAL_INT)
      put_size(x, out, val->as.number);
    else if (val->as.number->expr)
      expression_print(x->s, out, val->as.number->expr);
    return true;
  }
  const fx_tensor *t = val->as.tensor;
  *is_tensor = true;
  text_printf(out, "%s[", dtype_name(t->dtype));
  for (uint32_t i = 0; i < t->n_dims; i++) {
    text_puts(out, i ? ", " : "");
    put_size(x, out, &t->sizes[i]);
  }
  text_putc(out, ']');
  return true;
}

/* -- Modules ----------------------------------------------------------------------------------- */

/* Return the part of *rest before `separator`, and take it away with the separator. */
static str take_first(str *rest, char separator)
{
  const char *end = rest->len ? memchr(rest->p, separator, rest->len) : NULL;
  const str part = {rest->p, end ? (size_t)(end - rest->p) : rest->len};
  const size_t n = part.len + (end != NULL);

  *rest = (str){rest->p + n, rest->len - n};
  return part;
}

/* Return the innermost module of a stack "L__self__,,Net;L__self__fc,fc,Linear"; NULL: none. */
static const json_module *module_of(json_exported *x, str stack)
{
  static const char no_module[] = "_empty_nn_module_stack";
  const json_module *inner = NULL;
  str rest = stack;

  while (rest.len) {
    str entry = take_first(&rest, ';');
    if (entry.len >= sizeof no_module - 1 &&
        memcmp(entry.p, no_module, sizeof no_module - 1) == 0) /* PyTorch's, for "none" */
      continue;
    const str key = {stack.p, (size_t)(entry.p + entry.len - stack.p)};
    json_module *m = table_get(&x->modules, key);
    if (!m) {
      m = session_new(x->s, json_module);
      m->index = x->modules.n;
      m->outer = inner ? inner->index : UINT32_MAX;
      (void)take_first(&entry, ',');
      m->path = take_first(&entry, ',');
      m->class_name = entry;
      session_table_put(x->s, &x->modules, key, m);
    }
    inner = m;
  }
  return inner;
}

void json_exported_modules(json_exported *x, text_buf *out)
{
  text_puts(out, ",\n\"modules\":[");
  for (uint32_t i = 0; i < x->modules.n; i++) {
    const json_module *m = x->modules.entries[i].value;
    text_puts(out, i ? ",\n{\"path\":" : "\n{\"path\":");
    json_quote(out, m->path);
    text_puts(out, ",\"class\":");
    json_quote(out, m->class_name);
    if (m->outer == UINT32_MAX)
      text_puts(out, ",\"outer\":null}");
    else
      text_printf(out, ",\"outer\":%u}", m->outer);
  }
  text_putc(out, ']');
}

/* -- Places ------------------------------------------------------------------------------------ */

static author_file *file_named(json_exported *x, str name)
{
  author_file *f = table_get(&x->files, name);

  if (f)
    return f;
  f = session_new(x->s, author_file);
  *f = (author_file){.name = name, .index = x->files.n + 1}; /* behind the program's code */
  session_table_init(x->s, &f->lines);
  session_table_put(x->s, &x->files, name, f);
  return f;
}

/* Note the author's line of a node; returns its file, or NULL. */
static const author_file *note_line(json_exported *x, const fx_node *n, uint32_t *number)
{
  fx_place place;

  if (!fx_author_of(fx_node_metadata(x->s, n, "stack_trace"), &place))
    return NULL;
  *number = (uint32_t)strtoul(session_strndup(x->s, place.line.p, place.line.len), NULL, 10);
  if (!*number || *number > MOST_LINE)
    return NULL;
  author_file *f = file_named(x, place.file);
  author_line *line = session_new(x->s, author_line);
  *line = (author_line){*number, place.code};
  f->n_lines = *number > f->n_lines ? *number : f->n_lines;
  const str key = {(const char *)&line->number, sizeof line->number};
  if (!table_get(&f->lines, key))
    session_table_put(x->s, &f->lines, key, line);
  return f;
}

static const fx_node *node_of(const json_exported *x, const ir_node *n)
{
  const size_t at = n->range.start;
  const fx_node *found =
    n->range.src && at ? table_get(&x->by_place, (str){(const char *)&at, sizeof at}) : NULL;

  for (uint32_t i = 0; !found && i < n->n_outputs; i++)
    if (n->outputs[i]->name)
      found = table_get(&x->by_name, str_of(n->outputs[i]->name));
  return found;
}

bool json_exported_place(json_exported *x, text_buf *out, const ir_node *n)
{
  const fx_node *from = node_of(x, n);
  uint32_t number;

  if (!from || from->op != FX_CALL_FUNCTION)
    return false;
  const json_module *m = module_of(x, fx_node_metadata(x->s, from, "nn_module_stack"));
  if (m)
    text_printf(out, ",\"module\":%u", m->index);
  const author_file *f = note_line(x, from, &number);
  if (f)
    text_printf(out, ",\"at\":[%u,%u]", f->index, number);
  return f != NULL;
}

void json_exported_sources(json_exported *x, text_buf *out)
{
  text_buf *text = session_text(x->s);

  for (uint32_t i = 0; i < x->files.n; i++) {
    const author_file *f = x->files.entries[i].value;
    text_clear(text);
    for (uint32_t k = 1; k <= f->n_lines; k++) {
      const author_line *line =
        table_get(&f->lines, (str){(const char *)&k, sizeof k});
      if (line)
        text_add(text, line->text.p, line->text.len);
      text_putc(text, '\n');
    }
    text_puts(out, ",\n{\"name\":");
    json_quote(out, f->name);
    text_puts(out, ",\"text\":");
    json_quote(out, (str){text_str(text), text->len});
    text_putc(out, '}');
  }
}
