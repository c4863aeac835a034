/* script/print/print_int.h -- shared by the printer's files. */
#ifndef RUSH_SCRIPT_PRINT_INT_H
#define RUSH_SCRIPT_PRINT_INT_H

#include "script/print/print.h"

typedef struct value_text { /* the text of a value where it is used */
  const char *text;
  bool is_expression; /* not a name */
  bool is_annotated;  /* its declaration already shows that it is Optional or a Union */
} value_text;

typedef struct printer {
  session *s;
  script_uses *uses;
  script_text *to;
  text_buf *out; /* to->out */
  uint32_t level;
  table used;   /* names */
  table functions; /* graph and qualified name -> its name in the text */
  text_buf line; /* the expression being printed */
  value_text *values; /* indexed by ir_value's scratch; 0: none */
  uint32_t n_values, cap_values;
} printer;

/* Bits of ir_node's scratch; the rest is the input up to which a line was split, + 1. */
enum { NODE_INLINE = 1, NODE_SEEN = 2, NODE_SPLIT = 2 /* bits */ };

/* -- Plan (plan.c): a copy of the graph, which values are written where they are used ---------- */
ir_graph *print_plan(printer *p, const ir_graph *g);
static inline bool is_constant_like(const ir_node *n)
{
  return n->kind == IR_CONSTANT;
}
static inline bool is_inline(const ir_node *n) { return (n->scratch & NODE_INLINE) != 0; }

/* -- Expressions (expr.c) ---------------------------------------------------------------------- */
value_text *print_text_of(printer *p, ir_value *v);
const char *print_use(printer *p, ir_value *v);
void print_values(printer *p, text_buf *out, ir_use *const *list, uint32_t n);
/* Print a type as an annotation, and add the types in it to the uses. */
void print_annotation(printer *p, text_buf *out, const type *t);
void print_literal(printer *p, text_buf *out, rush_value v, const type *t);
/* Print the expression of a node with one result (or none). */
void print_expression(printer *p, text_buf *out, ir_node *n);
bool print_is_identifier(const char *name);

/* -- Functions (print.c) ----------------------------------------------------------------------- */
printer *printer_new(script_uses *u, script_text *to,
                     uint32_t level); /* one per function: names are its own */
void print_function(printer *p, function *f, const char *name, script_self self, const char *cls);

#endif
