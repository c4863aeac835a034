/* script/print/print.h -- prints graphs as TorchScript text: the content of `.code` and of
 * archives' code/ records.
 *
 * The text is PyTorch's: values used once are written inside the expression that uses them, others
 * get names; constants that no literal can express are `CONSTANTS.cN`.  Parsing it makes the same
 * graph.
 *
 * The types and constants that the texts of one archive refer to are collected in `script_uses`, in
 * order of appearance; the writer of an archive prints them until none is added.
 *
 * Ownership: session memory; constants, types and functions are borrowed from their programs. */
#ifndef RUSH_SCRIPT_PRINT_H
#define RUSH_SCRIPT_PRINT_H

#include "ir/program.h"

typedef struct script_use { /* one of the two */
  const type *type;         /* a class, NamedTuple, enum or interface */
  function *function;
  const char *name;         /* qualified: its name in the texts */
} script_use;

typedef struct script_uses {
  session *s;
  rush_value *constants; /* CONSTANTS.c0 ... */
  uint32_t n_constants, cap_constants;
  script_use *items;
  uint32_t n, cap;
  table seen;      /* qualified name -> index in items + 1 */
  table names;     /* of functions in texts */
  bool is_export;  /* the texts are for an archive: calls of the host are refused */
  int64_t version; /* the lowest archive version that the used operators need */
} script_uses;

script_uses *script_uses_new(session *s);
void script_use_type(script_uses *u, const type *t); /* adds the type and the types in it */

/* A text under construction; numbers of generated names increase over the whole text. */
typedef struct script_text {
  text_buf *out;
  table counts; /* name -> next number + 1 */
  /* origins of nodes: \1 NUMBER \2 precedes their text until script_text_finish */
  source_range *ranges;
  uint32_t n_ranges, cap_ranges;
  bool keeps_ranges; /* set by the caller */
} script_text;
script_text *script_text_new(session *s, text_buf *out); /* out: borrowed */

typedef struct script_row { /* the text from here on was printed for that range */
  uint32_t offset;
  source_range from;
} script_row;
/* Remove the origin marks from the text.  *rows is ordered by offset; returns their number. */
uint32_t script_text_finish(session *s, script_text *t, script_row **rows);

/* The form of a function's first parameter. */
typedef enum script_self { SELF_TYPED, SELF_BARE, SELF_ADDED } script_self;
/* Print `def name(...)` with its body; compiles it.  name NULL: its own; only the last part of it
 * is used. SELF_ADDED: a function without self becomes a method of the class `cls`; otherwise cls
 * is NULL. */
void script_print_function(script_uses *u, script_text *to, function *f, const char *name,
                           script_self self, const char *cls);
/* Print a type's definition; nothing for classes implemented in C. */
void script_print_type(script_uses *u, script_text *to, const type *t);
/* Print the class (`name`: qualified) that a saved unit becomes: its functions as methods with
 * self. only (or NULL: all): only this one, as forward. */
void script_print_unit(script_uses *u, script_text *to, const type *t, const char *name,
                       const char *only);

#endif
