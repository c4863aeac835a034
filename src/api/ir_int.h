/* api/ir_int.h -- graphs as data (backend.h): shared by ir_*.c.  Their functions are documented in
 * backend.h; backend.c fills its table from the list below. */
#ifndef RUSH_API_IR_INT_H
#define RUSH_API_IR_INT_H

#include "api/api_int.h"
#include "rushlight/backend.h"

/* One change: the argument of a session's body. */
typedef struct edit {
  ir_graph *g, *made;
  ir_node *n, *at;
  ir_value *v, *w;
  ir_block *b;
  size_t i;
  const char *text;
  const type *t;
  rush_value value;
  bool flag;
} edit;
typedef void edit_fn(session *s, edit *e);

/* Convert handles, which are the internal pointers. */
static inline ir_graph *graph_in(const rush_graph *g) { return (ir_graph *)(uintptr_t)g; }
static inline rush_graph *graph_out(const ir_graph *g) { return (rush_graph *)(uintptr_t)g; }
static inline ir_node *node_in(const rush_node *n) { return (ir_node *)(uintptr_t)n; }
static inline const rush_node *node_out(const ir_node *n)
{
  return (const rush_node *)(const void *)n;
}
static inline ir_block *block_in(const rush_block *b) { return (ir_block *)(uintptr_t)b; }
static inline const rush_block *block_out(const ir_block *b)
{
  return (const rush_block *)(const void *)b;
}
static inline ir_value *value_in(const rush_graph_value *v) { return (ir_value *)(uintptr_t)v; }
static inline const rush_graph_value *value_out(const ir_value *v)
{
  return (const rush_graph_value *)(const void *)v;
}
static inline const type *type_in(const rush_type *t) { return (const type *)(const void *)t; }
static inline const rush_type *type_out(const type *t)
{
  return (const rush_type *)(const void *)t;
}
/* Make a handle of a type; new. */
static inline const rush_type *type_handle(const type *t)
{
  type_retain_code(t);
  return type_out(t);
}

/* Run fn(s, e) inside a border, under the lock of the graph's program (to whose types and arena it
 * may add). */
rush_status ir_edit(ir_graph *g, edit_fn *fn, edit *e, rush_error *err) RUSH_CHECKED;
/* Like ir_edit, without a graph: in a context. */
rush_status ir_edit_in(context *c, edit_fn *fn, edit *e, rush_error *err) RUSH_CHECKED;
/* A function that writes text.  *out is new. */
typedef void ir_text_fn(session *s, edit *e, text_buf *out);
rush_status ir_text(ir_graph *g, ir_text_fn *fn, edit *e, char **out, rush_error *err) RUSH_CHECKED;

bool ir_value_is_live(const ir_value *v);
/* Fail because of the caller's mistake: RUSH_EARGUMENT, a RuntimeError. */
rush_status ir_misuse(rush_error *err, const char *fmt, ...) RUSH_PRINTF(2, 3);
rush_status ir_need_node(const ir_node *n, rush_error *err) RUSH_CHECKED;
/* Check that v is a live value of the graph. */
rush_status ir_need_value(const ir_graph *g, const ir_value *v, rush_error *err) RUSH_CHECKED;

/* X(name): rush_backend_api.name is api_name, with the type of the table's entry. */
#define IR_API(X)                                                                                  \
  X(graph_create)                                                                                  \
  X(graph_parse)                                                                                   \
  X(graph_of_method)                                                                               \
  X(graph_of_value) X(graph_of_function) X(graph_copy) X(graph_release) X(graph_block)             \
    X(graph_text) X(graph_dot) X(graph_lint) X(graph_call) X(graph_run_pass) X(graph_insert_point) \
      X(graph_set_insert_point) X(graph_insert) X(graph_insert_constant) X(graph_insert_node)      \
        X(pass_graph) X(block_graph) X(block_owner) X(block_param) X(block_return) X(block_last)   \
          X(block_find) X(node_create) X(node_is_live) X(node_graph) X(node_owner) X(node_prev)    \
            X(node_schema) X(node_text) X(node_source) X(node_insert) X(node_move) X(node_destroy) \
              X(node_is_before) X(node_insert_input) X(node_set_input) X(node_remove_input)        \
                X(node_replace_input) X(node_insert_output) X(node_remove_output)                  \
                  X(node_add_block) X(node_erase_block) X(node_named_input) X(node_attr_name)      \
                    X(node_attr_kind) X(node_attr) X(node_attr_n_types) X(node_attr_type)          \
                      X(node_attr_graph) X(node_set_attr) X(node_set_attr_types)                   \
                        X(node_remove_attr) X(node_copy_attrs) X(value_is_live) X(value_node)      \
                          X(value_offset) X(value_name) X(value_set_name) X(value_type)            \
                            X(value_set_type) X(value_n_uses) X(value_use) X(value_replace_uses)   \
                              X(type_parse) X(type_release) X(type_kind) X(type_text)              \
                                X(type_n_elems) X(type_elem) X(type_field) X(type_name)            \
                                  X(type_equal) X(type_is_subtype) X(type_unify) X(type_make)      \
                                    X(type_facts) X(type_of_facts) X(graph_insert_graph)           \
                                      X(alias_analyse) X(alias_release) X(alias_may)               \
                                        X(alias_has_writers) X(node_move_if_valid) X(graph_match)  \
                                          X(match_anchor) X(match_value) X(graph_rewrite)          \
                                            X(build_begin) X(build_input) X(build_constant)        \
                                              X(build_call) X(build_output) X(build_failed)        \
                                                X(build_end) X(node_attr_n_graphs)                 \
                                                  X(node_attr_graph_at) X(node_set_attr_graphs)    \
                                                    X(graph_of_last_call)                          \
                                                      X(graph_of_last_function_call)               \
                                                        X(graph_differentiate)

/* -- ir_gradient.c ----------------------------------------------------------------------------- */
rush_status api_graph_differentiate(const rush_graph *g, rush_graph **f, rush_graph **df,
                                    rush_value *numbers, rush_error *err);

/* -- ir_graph.c: making, reading, blocks ------------------------------------------------------- */
rush_status api_graph_create(rush_context *c, rush_graph **out, rush_error *err);
rush_status api_graph_parse(rush_context *c, const char *text, bool tensor_constants,
                            const rush_graph *scope, rush_graph **out, rush_error *err);
rush_status api_graph_of_last_call(rush_module *m, const char *method, rush_graph **out,
                                   rush_error *err);
rush_status api_graph_of_last_function_call(rush_function *f, rush_graph **out, rush_error *err);
rush_status api_graph_of_method(rush_module *m, const char *method, rush_graph **out,
                                rush_error *err);
rush_status api_graph_of_value(rush_context *c, rush_value v, const char *method, rush_graph **out,
                               rush_error *err);
rush_status api_graph_of_function(rush_function *f, rush_graph **out, rush_error *err);
rush_status api_graph_copy(const rush_graph *g, rush_graph **out, rush_error *err);
void api_graph_release(rush_graph *g);
const rush_block *api_graph_block(const rush_graph *g);
rush_status api_graph_text(const rush_graph *g, bool ranges, char **out, rush_error *err);
rush_status api_graph_dot(const rush_graph *g, const char *name, char **out, rush_error *err);
rush_status api_graph_lint(rush_graph *g, rush_error *err);
rush_status api_graph_call(rush_graph *g, const rush_value *args, size_t n_args, rush_value *result,
                           rush_error *err);
rush_status api_graph_run_pass(rush_graph *g, const char *name, rush_error *err);
const rush_node *api_graph_insert_point(const rush_graph *g);
rush_status api_graph_set_insert_point(rush_graph *g, const rush_node *before, rush_error *err);
rush_status api_graph_insert(rush_graph *g, const char *op, const rush_graph_value *const *values,
                             const rush_value *constants, size_t n_args, const char *const *names,
                             size_t n_named, const rush_graph_value **out, rush_error *err);
rush_status api_graph_insert_constant(rush_graph *g, rush_value v, const rush_type *type,
                                      const rush_graph_value **out, rush_error *err);
rush_status api_graph_insert_node(rush_graph *g, const rush_node *n, rush_error *err);
rush_status api_graph_insert_graph(rush_graph *g, const rush_graph *from,
                                   const rush_graph_value *const *inputs, size_t n_inputs,
                                   const rush_graph_value **outputs, rush_error *err);
rush_graph *api_pass_graph(const rush_pass *pass);
rush_graph *api_block_graph(const rush_block *b);
const rush_node *api_block_owner(const rush_block *b);
const rush_node *api_block_param(const rush_block *b);
const rush_node *api_block_return(const rush_block *b);
const rush_node *api_block_last(const rush_block *b);
const rush_node *api_block_find(const rush_block *b, const char *kind, bool nested,
                                const rush_node *after);

/* -- ir_node.c --------------------------------------------------------------------------------- */
rush_status api_node_create(rush_graph *g, const char *kind, const rush_graph_value *const *inputs,
                            size_t n_inputs, size_t n_outputs, const rush_node **out,
                            rush_error *err);
bool api_node_is_live(const rush_node *n);
rush_graph *api_node_graph(const rush_node *n);
const rush_block *api_node_owner(const rush_node *n);
const rush_node *api_node_prev(const rush_node *n);
rush_status api_node_schema(const rush_node *n, char **out, rush_error *err);
rush_status api_node_text(const rush_node *n, char **out, rush_error *err);
rush_status api_node_source(const rush_node *n, char **out, rush_error *err);
rush_status api_node_insert(const rush_node *n, const rush_node *at, bool after, rush_error *err);
rush_status api_node_move(const rush_node *n, const rush_node *at, bool after, rush_error *err);
rush_status api_node_destroy(const rush_node *n, rush_error *err);
rush_status api_node_is_before(const rush_node *a, const rush_node *b, bool *out, rush_error *err);
rush_status api_node_insert_input(const rush_node *n, size_t i, const rush_graph_value *v,
                                  rush_error *err);
rush_status api_node_set_input(const rush_node *n, size_t i, const rush_graph_value *v,
                               rush_error *err);
rush_status api_node_remove_input(const rush_node *n, size_t i, rush_error *err);
rush_status api_node_replace_input(const rush_node *n, const rush_graph_value *from,
                                   const rush_graph_value *to, rush_error *err);
rush_status api_node_insert_output(const rush_node *n, size_t i, const rush_type *type,
                                   const char *name, const rush_graph_value **out, rush_error *err);
rush_status api_node_remove_output(const rush_node *n, size_t i, rush_error *err);
rush_status api_node_add_block(const rush_node *n, const rush_block **out, rush_error *err);
rush_status api_node_erase_block(const rush_node *n, size_t i, rush_error *err);
rush_status api_node_named_input(const rush_node *n, const char *name, const rush_graph_value **out,
                                 rush_error *err);

/* -- ir_attr.c: attributes, values ------------------------------------------------------------- */
const char *api_node_attr_name(const rush_node *n, size_t i);
const char *api_node_attr_kind(const rush_node *n, const char *name);
rush_status api_node_attr(const rush_node *n, const char *name, rush_value *out, rush_error *err);
size_t api_node_attr_n_types(const rush_node *n, const char *name);
const rush_type *api_node_attr_type(const rush_node *n, const char *name, size_t i);
rush_status api_node_attr_graph(const rush_node *n, const char *name, rush_graph **out,
                                rush_error *err);
size_t api_node_attr_n_graphs(const rush_node *n, const char *name);
rush_status api_node_attr_graph_at(const rush_node *n, const char *name, size_t i, rush_graph **out,
                                   rush_error *err);
rush_status api_node_set_attr_graphs(const rush_node *n, const char *name,
                                     const rush_graph *const *graphs, size_t n_graphs, bool list,
                                     rush_error *err);
rush_status api_node_set_attr(const rush_node *n, const char *name, const char *kind, rush_value v,
                              rush_error *err);
rush_status api_node_set_attr_types(const rush_node *n, const char *name,
                                    const rush_type *const *types, size_t n_types, rush_error *err);
rush_status api_node_remove_attr(const rush_node *n, const char *name, rush_error *err);
rush_status api_node_copy_attrs(const rush_node *n, const rush_node *from, rush_error *err);
bool api_value_is_live(const rush_graph_value *v);
const rush_node *api_value_node(const rush_graph_value *v);
size_t api_value_offset(const rush_graph_value *v);
const char *api_value_name(const rush_graph_value *v);
rush_status api_value_set_name(const rush_graph_value *v, const char *name, rush_error *err);
const rush_type *api_value_type(const rush_graph_value *v);
rush_status api_value_set_type(const rush_graph_value *v, const rush_type *t, rush_error *err);
size_t api_value_n_uses(const rush_graph_value *v);
const rush_node *api_value_use(const rush_graph_value *v, size_t i, size_t *input);
rush_status api_value_replace_uses(const rush_graph_value *v, const rush_graph_value *by,
                                   const rush_node *after, rush_error *err);

/* -- ir_type.c --------------------------------------------------------------------------------- */
rush_status api_type_parse(rush_context *c, const char *text, const rush_graph *scope,
                           const rush_type **out, rush_error *err);
rush_status api_type_make(rush_context *c, const char *kind, const rush_type *const *elems,
                          size_t n_elems, const rush_type **out, rush_error *err);
void api_type_release(const rush_type *t);
const char *api_type_kind(const rush_type *t);
rush_status api_type_text(rush_context *c, const rush_type *t, bool annotation, char **out,
                          rush_error *err);
size_t api_type_n_elems(const rush_type *t);
const rush_type *api_type_elem(const rush_type *t, size_t i);
const char *api_type_field(const rush_type *t, size_t i);
const char *api_type_name(const rush_type *t);
bool api_type_equal(const rush_type *a, const rush_type *b);
void api_type_facts(const rush_type *t, rush_type_facts *out);
rush_status api_type_of_facts(rush_context *c, const rush_type_facts *facts,
                              const rush_type **out, rush_error *err);
bool api_type_is_subtype(const rush_type *a, const rush_type *b);
rush_status api_type_unify(rush_context *c, const rush_type *a, const rush_type *b, bool to_union,
                           const rush_type **out, rush_error *err);

/* -- ir_tools.c -------------------------------------------------------------------------------- */
rush_status api_alias_analyse(rush_graph *g, rush_aliases **out, rush_error *err);
void api_alias_release(rush_aliases *a);
bool api_alias_may(const rush_aliases *a, const rush_graph_value *x, const rush_graph_value *y,
                   bool contained);
bool api_alias_has_writers(const rush_aliases *a, const rush_graph_value *v);
rush_status api_node_move_if_valid(const rush_node *n, const rush_node *at, bool after,
                                   bool try_only, bool *done, rush_error *err);
rush_status api_graph_match(rush_graph *g, rush_graph *pattern,
                            bool (*found)(void *user, const rush_match *m), void *user,
                            rush_error *err);
const rush_node *api_match_anchor(const rush_match *m);
const rush_graph_value *api_match_value(const rush_match *m, const rush_graph_value *of_pattern);
rush_status api_graph_rewrite(rush_graph *g, rush_graph *pattern, const rush_graph *by,
                              bool (*accept)(void *user, const rush_match *m), void *user,
                              size_t *n, rush_error *err);
rush_builder *api_build_begin(rush_graph *g);
const rush_graph_value *api_build_input(rush_builder *b, const char *name, const char *type);
const rush_graph_value *api_build_constant(rush_builder *b, rush_value v);
const rush_graph_value *api_build_call(rush_builder *b, const char *op,
                                       const rush_graph_value *const *args, size_t n_args);
void api_build_output(rush_builder *b, const rush_graph_value *v);
bool api_build_failed(const rush_builder *b);
rush_status api_build_end(rush_builder *b, rush_error *err);

#endif
