/* trace/finish_int.h -- shared by finish.c, which decides what each frame takes, reads and returns,
 * and function_graph.c, which makes the functions. */
#ifndef RUSH_TRACE_FINISH_INT_H
#define RUSH_TRACE_FINISH_INT_H

#include "trace/recorder_int.h"

typedef struct item { /* of a frame: a node, or a call of another frame */
  ir_node *node;
  uint32_t frame;
} item;

typedef struct values { /* an ordered set */
  ir_value **v;
  uint32_t n, cap;
} values;

/* A read of `attribute` of `owner`; both represent values of the frame's function in the flat
 * graph. */
typedef struct load {
  ir_value *holder, *owner;
  const char *name;
  struct load *next;
} load;

typedef struct scope { /* data of a frame while finishing */
  bool is_linked; /* it is an item of its parent */
  item *items;
  values inputs, outputs;
  ir_value *future; /* of a task */
  ir_value *self;   /* represents the module inside the function */
  load *loads;      /* in the order of the text */
  uint32_t n_items, cap_items, n_loads;
  const char *name; /* of the function: "forward1" */
} scope;

typedef struct finisher {
  session *s;
  recorder *r;
  scope *scopes; /* by frame */
  table seen;    /* (kind, frame, value): members of sets, holders of attributes */
  table n_calls; /* by path: a row of one */
  /* The function that is being made: */
  traced_function *f;
  ir_graph *g;
  ir_value **now;    /* by flat id: its value here; valid if `stamp` matches */
  uint32_t *stamp;
  bool *is_left;     /* by flat id: an argument that has no number yet */
  bool *is_taken;    /* numbers */
  uint32_t cap_taken, cap_calls;
  uint32_t n_made;   /* values so far */
  uint32_t last;     /* the next number for values that do not get one by copying */
  uint32_t n_nodes;
  const char *path;  /* scope of its nodes, or NULL */
} finisher;

/* Sets of the finisher's table `seen`. */
enum { SET_INPUTS, SET_OUTPUTS, SET_LOADS };
/* Return the key of (set, frame, value) for that table. */
str finish_key(session *s, uint32_t set, uint32_t frame, const void *value);

static inline value_info *finish_info(const finisher *w, const ir_value *v)
{
  return &w->r->values[v->id];
}

/* True if `frame` is `outer` or a frame called from it. */
static inline bool finish_is_inside(const finisher *w, uint32_t frame, uint32_t outer)
{
  while (frame != outer && frame != 0)
    frame = w->r->frames[frame].parent;
  return frame == outer;
}

/* Make the function of frame f, and before it those of the frames called from it, at the end of the
 * recorder's functions. */
void finish_make_function(finisher *w, uint32_t f, const values *inputs, const values *outputs);

#endif
