/* trace/recorder_int.h -- shared by recorder.c (recording) and finish.c (cutting into functions).
 * */
#ifndef RUSH_TRACE_RECORDER_INT_H
#define RUSH_TRACE_RECORDER_INT_H

#include "base/table.h"
#include "trace/recorder.h"

typedef struct attribute attribute;
struct attribute { /* something found in the traced module */
  const char *path, *name; /* "a.b.w", "w"; of the module itself "" */
  attribute *owner;        /* of "a.b"; NULL: this is the module itself */
  ir_value *value;
};

typedef struct value_info { /* beside each value of the flat graph, by its id */
  ir_value *value;
  uint32_t frame;       /* that its node is in; of inputs 0 */
  uint32_t number;      /* PyTorch's number of it */
  attribute *attribute; /* that it is, or NULL */
} value_info;

typedef struct frame { /* one call of a submodule, or a task; frame 0 is the traced function */
  attribute *module;
  uint32_t parent;
  bool is_task;
} frame;

/* One frame as a function. */
typedef struct traced_call {
  ir_node *node;   /* calls function `callee` */
  uint32_t callee; /* a frame */
} traced_call;
typedef struct traced_function {
  uint32_t frame;
  const type *self; /* NULL: a task, or a free function */
  ir_graph *graph;  /* owned until it is defined */
  const char *name; /* "forward1": as the calls of this trace have it */
  traced_call *calls;
  uint32_t n_calls;
  function *made;
} traced_function;

struct recorder {
  program *p; /* retained */
  const type *self;
  ir_graph *g; /* its arena has everything here */
  value_info *values;
  uint32_t *frame_of; /* a node's, by its origin */
  frame *frames;
  uint32_t cap_values, cap_nodes, n_frames, cap_frames;
  uint32_t open;      /* the frame that nodes go into */
  uint32_t n_numbers; /* PyTorch's next number */
  attribute *module;  /* NULL: a function is traced */
  ir_node *last_attribute; /* attributes are read first of all: behind this node, or NULL */
  table attributes;   /* by path */
  table places;       /* sources, by the text of their frames */
  traced_function *functions;
  uint32_t n_functions;
  bool is_finished;
};

/* The value that a number stands for; leaves when it is none. */
ir_value *recorder_value(session *s, const recorder *r, traced v);
/* Enter a value that was made in the flat graph; it takes PyTorch's next number. */
traced recorder_enter(session *s, recorder *r, ir_value *v, uint32_t frame);
attribute *recorder_find_attribute(session *s, recorder *r, str path);
/* May graph text have it as a value's name? */
bool recorder_is_plain_name(const char *name);

#endif
