/* api/backend_int.h -- the functions of backend.h's table that graph.c implements; see there. */
#ifndef RUSH_API_BACKEND_INT_H
#define RUSH_API_BACKEND_INT_H

#include "rushlight/backend.h"

rush_status graph_pass_register(rush_context *c, const rush_pass_def *def, rush_error *err);
rush_status graph_pass_group(rush_pass *pass, const rush_group_def *def);
rush_context *graph_pass_context(const rush_pass *pass);
const rush_block *graph_pass_block(const rush_pass *pass);

const rush_node *graph_block_first(const rush_block *b);
const rush_node *graph_node_next(const rush_node *n);
const char *graph_node_kind(const rush_node *n);
const char *graph_node_overload(const rush_node *n);
size_t graph_node_n_inputs(const rush_node *n);
const rush_graph_value *graph_node_input(const rush_node *n, size_t i);
size_t graph_node_n_outputs(const rush_node *n);
const rush_graph_value *graph_node_output(const rush_node *n, size_t i);
size_t graph_node_n_blocks(const rush_node *n);
const rush_block *graph_node_block(const rush_node *n, size_t i);
size_t graph_block_n_inputs(const rush_block *b);
const rush_graph_value *graph_block_input(const rush_block *b, size_t i);
size_t graph_block_n_outputs(const rush_block *b);
const rush_graph_value *graph_block_output(const rush_block *b, size_t i);
uint32_t graph_value_id(const rush_graph_value *v);
bool graph_value_is_tensor(const rush_graph_value *v);
bool graph_value_constant(const rush_graph_value *v, rush_value *out);

void *graph_call_state(const rush_call *call);
size_t graph_call_n_results(const rush_call *call);
rush_status graph_call_run_group(rush_call *call);
size_t graph_call_spec(const rush_call *call, void *out, size_t max);

/* -- facts.c ----------------------------------------------------------------------------------- */
void facts_tensor(const rush_tensor *t, rush_tensor_facts *out);
uint32_t facts_dtype(rush_dtype dtype);
bool facts_promote(rush_dtype a, rush_dtype b, rush_dtype *out);
void facts_context(rush_context *c, rush_context_facts *out);
bool facts_device(rush_value v, int *kind, int *index);
rush_value facts_make_device(int kind, int index);
rush_cpu facts_cpu(rush_context *c);
void facts_warn(rush_context *c, const char *text);
void *facts_alloc(rush_context *c, size_t n_bytes);
void facts_free(rush_context *c, void *p, size_t n_bytes);

#endif
