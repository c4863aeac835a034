/* compile/region_values.h -- constants and images among the values of a region's graph
 * (region_values.c), for region_nodes.c. */
#ifndef RUSH_COMPILE_REGION_VALUES_H
#define RUSH_COMPILE_REGION_VALUES_H

#include "compile/region_int.h"
#include "ops/call/call.h"

/* Return the operator of the node, or NULL. */
const op *region_table_op(const backend *k, const rush_node *n);
/* Return the node's argument of the name with that key, or NULL. */
const rush_graph_value *region_arg_of_key(const backend *k, const rush_node *n, uint64_t key);
#define ARG(k, n, name) region_arg_of_key(k, n, name_key(name, sizeof(name) - 1))

/* True if v is the constant False, or None; it may be NULL. */
bool region_is_false(const backend *k, const rush_graph_value *v);
bool region_is_none(const backend *k, const rush_graph_value *v);
/* Get a constant int. */
bool region_int(const backend *k, const rush_graph_value *v, int64_t *out);
/* True for a node that makes a list, of its inputs if these are constant numbers.  A call compares
 * its lists with what is read here. */
bool region_makes_list(const backend *k, const rush_node *n);
/* Read the items of a list of at most `most` constants, which a node makes or which is a constant
 * itself, as those of exported programs are; returns their number, or -1. */
int region_items(const backend *k, const rush_graph_value *v, int most, rush_value *out);
/* Read a list of n constant ints, or of none (*is_empty); one int stands for all. */
bool region_ints(const backend *k, const rush_graph_value *v, size_t n, int64_t *out,
                 bool *is_empty);
/* Read what is known of the tensor: a dense float32 with all its sizes. */
bool region_facts(const backend *k, const rush_graph_value *v, rush_type_facts *f,
                  region_order *order);
/* Read the facts of a row-major tensor. */
bool region_dense_facts(const backend *k, const rush_graph_value *v, rush_type_facts *f);
bool region_is_row_major(const backend *k, const rush_graph_value *v);
/* Read an image whose channels are the second dimension. */
bool region_plain_image(const backend *k, const rush_graph_value *v, region_image *out);
/* True if blocks would hold little but empty lanes. */
bool region_wastes_blocks(const region_image *i);
/* True for a vector of n. */
bool region_is_vector(const backend *k, const rush_graph_value *v, int64_t n);

#endif
