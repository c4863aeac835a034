/* trace/recorder.h -- builds graphs while another component runs the program.
 *
 * A recorder holds one flat graph that grows by a node for each call that its sensor reports: the
 * dispatch mode of python/rushlight/jit (calls on torch's tensors) or trace/sensor.h (calls on
 * ours).  The sensor decides what a call means and which value is which; the recorder keeps the
 * graph, names, numbers, source locations and frames.  A frame is one call of a submodule, or a
 * task: its nodes lie between recorder_open and recorder_close.
 *
 * recorder_finish runs dead code elimination over the flat graph and cuts it into one function per
 * frame: a frame's arguments are the values that it uses from outside, its results those that
 * others use of it, its parameters and buffers are read from `self`.  This is what PyTorch does to
 * its traces (torch/csrc/jit/passes/fixup_trace_scopes.cpp), and values get the same names and
 * numbers as there.  Rejected: nested blocks per frame, as in PyTorch; the passes would have to
 * support a node whose block is neither a branch nor a loop.
 *
 * Invariants.  (1) The nodes of a frame are contiguous in the flat graph, except for those of
 * frames inside it.  (2) A traced value is 0 (none) or at most n_values of its recorder; others are
 * RUSH_EARGUMENT.  (3) Nothing is recorded after recorder_finish.
 *
 * Ownership: the recorder retains its program and owns its graphs; recorder_define passes them to
 * the program.  Threads: one at a time, with the program's lock held. Cost: O(1) per node recorded,
 * O(nodes + arguments of frames) to finish. */
#ifndef RUSH_TRACE_RECORDER_H
#define RUSH_TRACE_RECORDER_H

#include "ir/program.h"

typedef struct recorder recorder;
typedef uint32_t traced; /* a value of the flat graph; 0: none */

/* Create a recorder for a method of class `self`, or for a function (self NULL): new. */
recorder *recorder_new(session *s, program *p, const type *self);
/* Free the recorder; NULL: nothing. */
void recorder_free(recorder *r);
/* Return the program that the functions will be part of: borrowed. */
program *recorder_program(const recorder *r);

/* Add an input of the traced function.  `name` is ignored unless graph text can have it. */
traced recorder_input(session *s, recorder *r, const type *t, const char *name);
/* Return the attribute of the traced module at `path`, "layer1.0.weight". */
traced recorder_attribute(session *s, recorder *r, const char *path);
/* Add a constant of type t (NULL: the value's own), made at the Python frames `where`. */
traced recorder_constant(session *s, recorder *r, rush_value v, const type *t, const char *where);

typedef struct recorder_call { /* one node; leave fields that do not apply zero */
  const char *kind;         /* "aten::add", "prim::TupleUnpack", "prim::CallMethod"; or */
  const op *op; /* this overload, whose schema types the outputs that have none in `types` */
  function *callee;         /* of prim::CallFunction, or the function that calls the host (host) */
  const char *method;       /* of prim::CallMethod: its name */
  const char *host_attrs;   /* of a call of the host: its attributes as printed, or NULL */
  const char *host_scalars; /* and its arguments besides tensors */
  const traced *inputs;
  uint32_t n_inputs, n_outputs;
  const type *const *types; /* n_outputs; NULL, or a NULL item: derived from the inputs */
  const char *where; /* Python's frames, "f.py(7): f\n" each, innermost first; NULL: unknown */
  traced after;      /* insert after the node that makes this value; 0: at the end */
} recorder_call;
/* Add a node; outputs[n_outputs] receives its values. */
void recorder_add(session *s, recorder *r, const recorder_call *c, traced *outputs);

/* Set a value's debug name, as ir_value_set_name does.  Values of attributes keep theirs. */
void recorder_set_name(session *s, recorder *r, traced v, const char *name);
/* Skip n numbers, for values that PyTorch has and we have not. */
void recorder_skip(recorder *r, uint32_t n);
/* True if v is a value of this trace. */
bool recorder_has(const recorder *r, traced v);

/* Begin a call of the submodule at `path`, or (NULL) a task of the current module. */
void recorder_open(session *s, recorder *r, const char *path);
/* End it; returns the future of a task whose result is `result`, else 0. */
traced recorder_close(session *s, recorder *r, traced result);

/* Keep nodes whose results nothing uses, and operators as they were called: no synonym is replaced
 * by the main one. */
void recorder_keep_unused(recorder *r);
/* Stop recording; the traced function returns `output`.  Return the number of functions: callees
 * come first, the traced function is the last. */
uint32_t recorder_finish(session *s, recorder *r, traced output);
/* Return the graph of function i as a text of traces is compared: values numbered in order, types
 * without shapes: new. */
ir_graph *recorder_graph(session *s, const recorder *r, uint32_t i);
/* Define all functions in the program, under free names: the traced function as the method `name`
 * of the class, or as the free function `name`; return it.  Call it once. */
function *recorder_define(session *s, recorder *r, const char *name);

/* Define a function of a verified graph: method `name` of class `self`, or (NULL) a free one. */
function *trace_function_steal(session *s, program *p, const type *self, const char *name,
                               ir_graph *g);

#endif
