/* compile/region_int.h -- shared by the files of regions (region.h). */
#ifndef RUSH_COMPILE_REGION_INT_H
#define RUSH_COMPILE_REGION_INT_H

#include "compile/region.h"

#define REGION_OP "rushlight::region"

/* What a node is to a region. */
typedef enum region_op {
  OP_NONE,
  OP_CONV,
  OP_SPREAD, /* a transposed convolution whose windows do not meet */
  OP_NORM,
  OP_MAX_POOL,
  OP_AVERAGE,
  OP_MEAN,
  OP_WINDOWS, /* average pooling */
  OP_NEAREST,
  OP_PAD,    /* with a number */
  OP_GROUP,  /* group norm */
  OP_LAYER,  /* layer norm over the last dimension of four: channels come last */
  OP_LINEAR, /* of the last dimension of four */
  OP_TURN,   /* permute, which moves channels last or back: the same image */
  OP_SAME,   /* a slice of everything */
  OP_SLICE,  /* of channels */
  OP_CAT,
  OP_LIST, /* of what OP_CAT joins */
  OP_POINT
} region_op;

/* A convolution's or pooling's window, as block.h takes it: h, w. */
typedef struct region_window {
  int64_t kernel[2], stride[2], pad[2], dilation[2];
  int64_t divisor; /* of averages: 0: by their elements, */
  bool count_pad;  /* with padding */
  int64_t first;   /* channel of a slice */
  float fill;      /* of OP_PAD, whose `pad` is what comes before */
  int64_t groups;  /* of OP_GROUP */
  double step[2];  /* of OP_NEAREST, as in block.h */
} region_window;

/* A 3- or 4-dimensional float32 tensor as an image. */
typedef struct region_image {
  int64_t batch; /* 0: any, the same for all images of a call */
  int64_t n_ch, h, w;
} region_image;

/* How a dense tensor lies in memory: its dimensions in order; or as if the second of four were the
 * last; or the last of four the second. */
typedef enum region_order {
  ORDER_ROWS,
  ORDER_CHANNELS_LAST,
  ORDER_CHANNELS_SECOND,
  ORDER_SLICED /* with gaps: only inside a region */
} region_order;

struct region_fact;
/* Read the image that the value's type describes; false for other types, layouts and sizes.
 * `last`: of four dimensions, the last is that of channels. */
bool region_image_of(const backend *k, const rush_graph_value *v, bool last, region_image *out);
/* True if v has a number for each of n channels: an operand for all images and pixels. */
bool region_is_channels(const backend *k, const rush_graph_value *v, bool last, int64_t n);
/* True if v is one number, a tensor of at most one dimension, which no node of a region makes. */
bool region_is_one(const backend *k, const rush_graph_value *v);
/* Return the number of dimensions of a float32 tensor of known sizes, or -1. */
int region_dims_of(const backend *k, const rush_graph_value *v);
/* True if OP_TURN moves channels last. */
bool region_turns_last(const backend *k, const rush_node *n);
/* Return what the node is, with its window, or OP_NONE and the reason. */
region_op region_op_of(const backend *k, const rush_node *n, region_window *w, const char **why);
bool region_same_image(const region_image *a, const region_image *b);
/* Return the number of groups of a convolution. */
int64_t region_groups(const backend *k, const rush_node *n);
/* Return the channels of a group, in and out, of a convolution whose vectors gather them; 0: of
 * others, which are products. */
int64_t region_group_width(const backend *k, const rush_node *n);
/* Read what an argument of a group must be: the body's input v. */
bool region_fact_of(const backend *k, const rush_graph_value *v, struct region_fact *out);
/* Return the node that makes the list of tensors that are joined. */
const rush_node *region_joined(const backend *k, const rush_node *n);
/* Return a convolution's bias. */
const rush_graph_value *region_bias(const backend *k, const rush_node *n);
/* Return a norm's argument: weight, bias, mean, variance, epsilon; NULL if it has none. */
const rush_graph_value *region_norm_arg(const backend *k, const rush_node *n, int i);
/* Get the constant that `v` is, in the group or outside. */
bool region_constant(const backend *k, const rush_graph_value *v, rush_value *out);

typedef struct point_part { /* the tape behind a step */
  group_desc *desc;
  fused fused;
  loop_code *code;
  uint32_t inputs[GROUP_MAX_INPUTS]; /* places */
  uint32_t n_channels; /* inputs that have one pixel for all, the last ones */
  uint32_t results[GROUP_MAX_RESULTS];
} point_part;

#define NO_INDEX UINT32_MAX

typedef struct region_place {
  block_place place;
  int64_t batch;        /* 1 if the batch is open */
  int64_t at;           /* floats from the start of the memory, times the call's batch if open */
  uint32_t first, last; /* steps that write and last read it */
} region_place;

typedef struct region_step {
  block_kind kind;
  region_window window;
  uint32_t in, out;    /* places; NO_INDEX: none */
  uint32_t arg;        /* ENTER: the argument; LEAVE: the result */
  int64_t from_ch, to_ch, n_copied; /* COPY */
  uint32_t weight, bias; /* arguments of convolutions */
  uint32_t norm[4];    /* arguments weight, bias, mean, variance; NO_INDEX: none */
  double eps;
  bool interleaved, repeats; /* ENTER, LEAVE */
  bool from_one; /* ENTER: a number for all channels */
  bool has_norm, adds_zero; /* adds_zero: a convolution without bias adds 0, as its kernel does */
  uint32_t tap, n_taps; /* a transposed convolution's element, of n_taps; 0: another step's */
  bool clears_border;
  bool flat, clamps; /* clamps: instead of a tape (block.h) */
  float lo, hi;
  point_part *point;   /* or NULL */
  int64_t *k_off;      /* n_k positions, BLOCK_CONV */
  int64_t n_k;
  int64_t groups, width; /* as in block.h */
} region_step;

typedef struct region_fact { /* of an argument */
  bool is_list; /* of n numbers; else a tensor of n dimensions */
  bool of_floats; /* the list: `sizes` has their bits */
  int n;
  int64_t sizes[4]; /* the first one 0: the call's batch */
  int64_t strides[4];
  region_order order;
} region_fact;

/* Set the borders, offsets in memory and positions of a region whose steps are complete. */
rush_status region_place_all(region *r) RUSH_CHECKED;

struct region {
  backend backend;
  cpu_level level;
  uint32_t n_steps, n_places, n_args, n_results;
  uint32_t cap_steps, cap_places;
  region_step *steps;
  region_place *places;
  region_fact *args, *results;
  bool is_open;        /* calls decide the number of images */
  int64_t n_floats;    /* of all places; of one image if open */
  int64_t most_params; /* floats of one step's parameters by channel and depthwise taps */
};

#endif
