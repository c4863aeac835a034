/* compile/region_values.c -- what the values of a graph are to a region (region.h): constants and
 * lists of them, in the group or outside, and tensors as images, from the facts of their types.
 * Sizes are limited so that all products of block.h stay far below 2^63. */
#include "compile/region_values.h"

#include <string.h>

#define MOST_SIDE 16384 /* rows, columns and channels */
#define MOST_ELEMS (INT64_C(1) << 28)
/* Blocks of fewer channels are mostly empty: that costs memory and time, unless there are few
 * pixels. */
#define FEWEST_CHANNELS 8
#define FEW_PIXELS 256

/* -- Values ------------------------------------------------------------------------------------ */

const op *region_table_op(const backend *k, const rush_node *n)
{
  return op_find(k->ctx, str_of(k->api->node_kind(n)), str_of(k->api->node_overload(n)));
}

/* Return the value that `v`, an input of a region's body, stands for; else v. */
static const rush_graph_value *outside(const backend *k, const rush_graph_value *v)
{
  const rush_node *param = k->api->value_node(v);

  const rush_block *b = param ? k->api->node_owner(param) : NULL;
  const rush_node *owner = b && k->api->block_param(b) == param ? k->api->block_owner(b) : NULL;

  return owner && region_table_op(k, owner) && region_table_op(k, owner)->outside
           ? k->api->node_input(owner, k->api->value_offset(v))
           : v;
}

bool region_constant(const backend *k, const rush_graph_value *v, rush_value *out)
{
  return v && k->api->value_constant(outside(k, v), out);
}

bool region_is_false(const backend *k, const rush_graph_value *v)
{
  rush_value c;

  return region_constant(k, v, &c) && c.tag == RUSH_TAG_BOOL && !c.as.b;
}

bool region_is_none(const backend *k, const rush_graph_value *v)
{
  rush_value c;

  return region_constant(k, v, &c) && c.tag == RUSH_TAG_NONE;
}

bool region_int(const backend *k, const rush_graph_value *v, int64_t *out)
{
  rush_value c;

  if (!region_constant(k, v, &c) || c.tag != RUSH_TAG_INT)
    return false;
  *out = c.as.i;
  return true;
}

bool region_makes_list(const backend *k, const rush_node *n)
{
  const rush_graph_value *v = k->api->node_output(n, 0);
  const rush_type *t = v && !region_table_op(k, n) ? k->api->value_type(v) : NULL;
  const bool is_list = t && strcmp(k->api->type_kind(t), "ListType") == 0;

  k->api->type_release(t);
  return is_list;
}

int region_items(const backend *k, const rush_graph_value *v, int most, rush_value *out)
{
  const rush_backend_api *api = k->api;
  const rush_node *list = v ? api->value_node(outside(k, v)) : NULL;
  rush_value whole;
  const bool is_made = !region_constant(k, v, &whole);

  if (is_made ? !list || !region_makes_list(k, list) : whole.tag != RUSH_TAG_LIST)
    return -1;
  const size_t n = is_made ? api->node_n_inputs(list) : api->value_len(whole);
  if (n > (size_t)most)
    return -1;
  for (size_t i = 0; i < n; i++)
    if (!is_made)
      out[i] = api->value_item(whole, i);
    else if (!region_constant(k, api->node_input(list, i), &out[i]))
      return -1;
  return (int)n;
}

bool region_ints(const backend *k, const rush_graph_value *v, size_t n, int64_t *out,
                 bool *is_empty)
{
  rush_value items[4];
  const int n_items = region_items(k, v, COUNT_OF(items), items);

  *is_empty = n_items == 0;
  if (n_items < 0 || (n_items != (int)n && n_items > 1))
    return false;
  for (size_t i = 0; i < n && n_items; i++) {
    const rush_value *item = &items[n_items == 1 ? 0 : i];

    if (item->tag != RUSH_TAG_INT)
      return false;
    out[i] = item->as.i;
  }
  return true;
}

/* True if the dimensions follow each other in memory in this order.  The number of images may be
 * open, which is made size 0. */
static bool is_dense(rush_type_facts *f, const int *order)
{
  int64_t stride = 1;

  for (int i = f->n_dims; i-- > 0;) {
    const int d = order[i];
    if (i == 0 && f->n_dims >= 2 && f->sizes[0] < 0 && f->strides[0] == stride) {
      f->sizes[0] = 0;
      return true;
    }
    if (f->sizes[d] <= 0 || f->sizes[d] > MOST_ELEMS ||
        (f->sizes[d] != 1 && f->strides[d] != stride))
      return false;
    stride *= f->sizes[d];
    if (stride > MOST_ELEMS)
      return false;
  }
  return true;
}

/* True if the elements come in this order, with gaps before some dimension: a slice. */
static bool is_spaced(const rush_type_facts *f, const int *order)
{
  int64_t stride = 1;

  for (int i = f->n_dims; i-- > 0;) {
    const int d = order[i];
    if (f->sizes[d] <= 0 || f->sizes[d] > MOST_ELEMS)
      return false;
    if (f->sizes[d] == 1)
      continue;
    if (f->strides[d] < stride || f->strides[d] > MOST_ELEMS ||
        (stride == 1 && f->strides[d] != 1))
      return false;
    stride = f->strides[d] * f->sizes[d];
  }
  return stride <= MOST_ELEMS;
}

bool region_facts(const backend *k, const rush_graph_value *v, rush_type_facts *f,
                  region_order *order)
{
  static const int orders[][4] = {[ORDER_ROWS] = {0, 1, 2, 3},
                                  [ORDER_CHANNELS_LAST] = {0, 2, 3, 1},
                                  [ORDER_CHANNELS_SECOND] = {0, 3, 1, 2}};
  const rush_backend_api *api = k->api;

  if (!v || !api->value_is_tensor(v))
    return false;
  const rush_type *t = api->value_type(v);
  if (!t)
    return false;
  api->type_facts(t, f);
  api->type_release(t);
  if (f->dtype != RUSH_FLOAT32 || f->n_dims < 0 || f->n_dims > 4 || f->device_kind != 0)
    return false;
  for (size_t i = 0; i < (f->n_dims == 4 ? COUNT_OF(orders) : 1); i++)
    if (is_dense(f, orders[i])) {
      *order = (region_order)i;
      return true;
    }
  *order = ORDER_SLICED;
  for (size_t i = 0; i < (f->n_dims == 4 ? COUNT_OF(orders) : 1); i++)
    if (f->n_dims > 1 && is_spaced(f, orders[i]))
      return true;
  return false;
}

bool region_dense_facts(const backend *k, const rush_graph_value *v, rush_type_facts *f)
{
  region_order order;

  return region_facts(k, v, f, &order) && order == ORDER_ROWS;
}

bool region_fact_of(const backend *k, const rush_graph_value *v, region_fact *out)
{
  rush_value items[COUNT_OF(out->sizes)];
  const int n = region_items(k, v, COUNT_OF(items), items);
  rush_type_facts f;

  if (n >= 0) {
    *out = (region_fact){.is_list = true, .n = n};
    out->of_floats = n > 0 && items[0].tag == RUSH_TAG_FLOAT;
    for (int i = 0; i < n; i++) {
      if (items[i].tag != (out->of_floats ? RUSH_TAG_FLOAT : RUSH_TAG_INT))
        return false;
      out->sizes[i] = items[i].as.i; /* of a float: its bits */
    }
    return true;
  }
  *out = (region_fact){0};
  if (!region_facts(k, v, &f, &out->order) || out->order == ORDER_SLICED)
    return false;
  out->n = f.n_dims;
  memcpy(out->sizes, f.sizes, sizeof out->sizes);
  memcpy(out->strides, f.strides, sizeof out->strides);
  return true;
}

bool region_image_of(const backend *k, const rush_graph_value *v, bool last, region_image *out)
{
  rush_type_facts f;
  region_order order;

  if (!region_facts(k, v, &f, &order) || f.n_dims < 2 ||
      (order == ORDER_CHANNELS_LAST && last) || (order == ORDER_CHANNELS_SECOND && !last))
    return false;
  const int64_t *s = f.sizes;
  *out = f.n_dims == 2   ? (region_image){s[0], s[1], 1, 1}
         : f.n_dims == 3 ? (region_image){s[0], s[1], 1, s[2]}
         : last          ? (region_image){s[0], s[3], s[1], s[2]}
                         : (region_image){s[0], s[1], s[2], s[3]};
  return out->n_ch <= MOST_SIDE && out->h <= MOST_SIDE && out->w <= MOST_SIDE;
}

bool region_plain_image(const backend *k, const rush_graph_value *v, region_image *out)
{
  return region_image_of(k, v, false, out);
}

bool region_is_channels(const backend *k, const rush_graph_value *v, bool last, int64_t n)
{
  rush_type_facts f;

  if (!region_dense_facts(k, v, &f) || f.n_dims == 0)
    return false;
  const int channels = last ? f.n_dims - 1 : f.n_dims - 3;
  for (int d = 0; d < f.n_dims; d++)
    if (f.sizes[d] != (d == channels ? n : 1))
      return false;
  return channels >= 0;
}

bool region_is_one(const backend *k, const rush_graph_value *v)
{
  rush_type_facts f;
  rush_value c;

  return region_dense_facts(k, v, &f) && f.n_dims <= 1 && (f.n_dims == 0 || f.sizes[0] == 1) &&
         !k->api->value_constant(v, &c);
}

bool region_wastes_blocks(const region_image *i)
{
  return i->n_ch < FEWEST_CHANNELS && i->h * i->w > FEW_PIXELS;
}

int region_dims_of(const backend *k, const rush_graph_value *v)
{
  rush_type_facts f;
  region_order order;

  return region_facts(k, v, &f, &order) ? f.n_dims : -1;
}

bool region_is_row_major(const backend *k, const rush_graph_value *v)
{
  rush_type_facts f;

  return region_dense_facts(k, v, &f);
}

bool region_same_image(const region_image *a, const region_image *b)
{
  return a->batch == b->batch && a->n_ch == b->n_ch && a->h == b->h && a->w == b->w;
}

bool region_is_vector(const backend *k, const rush_graph_value *v, int64_t n)
{
  rush_type_facts f;

  return region_dense_facts(k, v, &f) && f.n_dims == 1 && f.sizes[0] == n;
}
const rush_graph_value *region_arg_of_key(const backend *k, const rush_node *n, uint64_t key)
{
  const op *o = region_table_op(k, n);

  for (uint32_t i = 0; o && i < o->schema->n_args; i++)
    if (o->schema->args[i].key == key)
      return k->api->node_input(n, i);
  return NULL;
}
