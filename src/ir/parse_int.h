/* ir/parse_int.h -- shared by the two files of the graph text parser: ir/parse.c (nodes and blocks)
 * and ir/parse_atoms.c (words, types, attributes and constants). */
#ifndef RUSH_IR_PARSE_INT_H
#define RUSH_IR_PARSE_INT_H

#include "ir/graph.h"
#include "ir/program.h"

/* The names of one graph of the text.  Subgraphs (`with`) have names of their own. */
typedef struct parse_scope {
  table values;    /* name -> ir_value */
  table functions; /* name of a constant that is a function -> callee */
  table groups;    /* "prim::fork_0" -> its node */
  struct parse_scope *outer;
} parse_scope;

typedef struct ir_parser {
  session *s;
  type_store *ts;
  const char *text, *at; /* NUL-terminated */
  ir_graph *g;
  struct parse_scope *scope; /* the graph being read */
  uint32_t max_id;
  bool in_group; /* reading a `with` that is a block of the same graph */
  ir_tensors tensors; /* what <Tensor> becomes */
  const char *type_at; /* where the last type began: it contains a constant tensor's dtype */
} ir_parser;

_Noreturn void parse_fail(ir_parser *p, const char *fmt, ...) RUSH_PRINTF(2, 3);
void parse_space(ir_parser *p); /* skips blanks and `# comments` */
bool parse_peek(ir_parser *p, const char *token);
bool parse_accept(ir_parser *p, const char *token);
void parse_expect(ir_parser *p, const char *token);
/* Read letters, digits and `extra`; returns an empty text if there are none. */
str parse_word(ir_parser *p, const char *extra);
bool parse_accept_word(ir_parser *p, const char *word);
void parse_word_expect(ir_parser *p, const char *word);
const type *parse_type(ir_parser *p);
/* Parse attributes after '['; the type of the node's first output determines how a constant is
 * parsed. */
void parse_attrs(ir_parser *p, ir_node *n, const type *out);
function *parse_function_name(ir_parser *p); /* quoted */

#endif
