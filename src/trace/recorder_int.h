/* trace/recorder_int.h -- shared by recorder.c (recording) and finish.c (cutting into functions).
 * */
#ifndef RUSH_TRACE_RECORDER_INT_H
#define RUSH_TRACE_RECORDER_INT_H

#include "base/table.h"
#include "trace/recorder.h"

typedef struct attribute attribute;
struct attribute { /* an object or tensor found in the traced module */
  const char *path, *name; /* "a.b.w", "w"; "" for the module itself */
  attribute *owner;        /* that of "a.b"; NULL: this is the module itself */
  ir_value *value;
};

typedef struct value_info { /* data about each value of the flat graph, by its id */
  ir_value *value;
  uint32_t frame;       /* frame of its node; 0 for inputs */
  uint32_t number;      /* its number in PyTorch */
  attribute *attribute; /* the attribute that it is, or NULL */
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
  uint32_t *frame_of; /* frame of each node, by its origin */
  frame *frames;
  uint32_t cap_values, cap_nodes, n_frames, cap_frames;
  uint32_t open;      /* the frame that receives nodes */
  uint32_t n_numbers; /* PyTorch's next number */
  attribute *module;  /* NULL: a function is being traced */
  ir_node *last_attribute; /* attributes are read before all else: after this node, or NULL */
  table attributes;   /* by path */
  table places;       /* sources, by the text of their frames */
  traced_function *functions;
  uint32_t n_functions;
  bool is_finished, keeps_unused;
};

/* Return the value of a number; leaves the session if there is none. */
ir_value *recorder_value(session *s, const recorder *r, traced v);
/* Add a value made in the flat graph; it takes PyTorch's next number. */
traced recorder_enter(session *s, recorder *r, ir_value *v, uint32_t frame);
attribute *recorder_find_attribute(session *s, recorder *r, str path);
/* True if graph text can have it as a value's name. */
bool recorder_is_plain_name(const char *name);

#endif
