/* export/verify_int.h -- what the files of the verifier share (private to export/).
 *
 *   verify.c            faults, dialects, the form of a graph: lists, names, uses, operators
 *   verify_args.c       arguments against schemas, graphs inside against their operators
 *   verify_val.c        what is known of values, ranges, metadata
 *   verify_signature.c  signature, state, module calls, guards */
#ifndef RUSH_EXPORT_VERIFY_INT_H
#define RUSH_EXPORT_VERIFY_INT_H

#include "export/verify.h"
#include "ops/call/lookup.h"

typedef enum verify_rule {
#define RULE(id, name, demand) RULE_##id,
#include "export/verify.def"
#undef RULE
  N_RULES
} verify_rule;

typedef struct verify_graph { /* the graph being checked */
  const fx_graph *graph;
  const char *path;   /* "" for the program's; "true_graph_0.body" inside */
  table positions;    /* address of a node -> its position + 1 */
  table names;        /* name -> the first node of that name */
  table subgraphs;    /* name -> fx_graph */
  table autocast;     /* names of those that run under autocast, which chooses dtypes itself */
} verify_graph;

typedef struct verifier {
  session *s;
  const exported_program *p;
  const export_verify_options *o;
  text_buf *out;
  uint32_t n_faults;
  bool is_functional, is_core, is_edge; /* demands of the dialects */
  verify_graph *at;
  bool is_autocast; /* the graph being checked runs so */
  table exprs;    /* address of an expression that was checked -> its example */
  table examples; /* name of a symbol -> the first fx_number that has its example */
  table ranges;   /* text -> exported_bounds */
  struct late_example *late; /* newest first: what is compared when all symbols are known */
} verifier;

/* Report a fault of a node (NULL: of the program). */
void verify_fault(verifier *v, verify_rule rule, const fx_node *n, const char *fmt, ...)
    RUSH_PRINTF(4, 5);
/* Run body in a session of its own; returns false, and the error's text in *why (the session's, or
 * empty), if it failed by its input; leaves the session for limits. */
bool verify_try(verifier *v, void (*body)(session *s, void *arg), void *arg, const char **why);

const char *verify_type_text(session *s, const type *t);
/* Describe an argument for a message: "an int", "a list". */
const char *verify_arg_kind(const fx_arg *a);
const char *verify_val_kind(const fx_val *v); /* v may be NULL */
static inline bool verify_is_higher_order(const char *target)
{
  static const char begin[] = "torch.ops.higher_order.";
  return strncmp(target, begin, sizeof begin - 1) == 0;
}

/* The items of a list or tuple, or the argument itself as the only one. */
typedef struct verify_items {
  const fx_arg *items;
  uint32_t n;
} verify_items;
static inline verify_items verify_items_of(const fx_arg *a)
{
  const bool is_list = a->kind == FX_LIST || a->kind == FX_TUPLE;
  return (verify_items){is_list ? a->as.items : a, is_list ? a->n : 1};
}
/* False if only one is a tensor, or both are of other dtypes (unless any will do), ranks or sizes
 * (by their examples). */
bool verify_vals_agree(const fx_val *a, const fx_val *b, bool any_dtype);
static inline const fx_val *verify_val_of(const fx_arg *a)
{
  return a->kind == FX_NODE ? a->as.node->val : NULL;
}

void verify_arguments(verifier *v, const fx_node *n, const op *o);
/* Check a function on symbolic numbers that takes so many; 0: any number of anything. */
void verify_symbolic(verifier *v, const fx_node *n, uint32_t n_args);
/* Check a higher-order operator; one that sets autocast notes its graph in v->at. */
void verify_higher_order(verifier *v, const fx_node *n);
void verify_promotion(verifier *v, const fx_node *n, const op *o);
/* Check what is known of a node's value; `o` is its operator, or NULL. */
void verify_value(verifier *v, const fx_node *n, const op *o);
/* At the end: compare the examples of expressions whose symbols got theirs later. */
void verify_late_examples(verifier *v);
void verify_getitem(verifier *v, const fx_node *n);
void verify_metadata(verifier *v, const fx_node *n);
void verify_ranges(verifier *v);
void verify_signature(verifier *v);

#endif
