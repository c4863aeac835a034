/* script/print/print.h -- graphs back to TorchScript text: what `.code` shows and archives' code/
 * records hold.
 *
 * The text is PyTorch's: values used once go into the expression that uses them, others get names;
 * constants that no literal can write are `CONSTANTS.cN`.  Parsing it gives the same graph.
 *
 * What the texts of one archive refer to is collected in `script_uses`, in the order met; whoever
 * writes an archive prints what is there until nothing is added.
 *
 * Ownership: session memory; constants, types and functions are borrowed from their programs. */
#ifndef RUSH_SCRIPT_PRINT_H
#define RUSH_SCRIPT_PRINT_H

#include "ir/program.h"

typedef struct script_use { /* one of the two */
  const type *type;         /* a class, NamedTuple, enum or interface */
  function *function;
  const char *name;         /* qualified: how the texts call it */
} script_use;

typedef struct script_uses {
  session *s;
  rush_value *constants; /* CONSTANTS.c0 ... */
  uint32_t n_constants, cap_constants;
  script_use *items;
  uint32_t n, cap;
  table seen;      /* qualified name -> index in items + 1 */
  table names;     /* of functions in texts */
  bool is_export;  /* the texts go into an archive: calls of the host are refused */
  int64_t version; /* the lowest archive version that the operators met need */
} script_uses;

script_uses *script_uses_new(session *s);
void script_use_type(script_uses *u, const type *t); /* and the types in it */

/* A text at work: numbers behind made-up names grow through all of it. */
typedef struct script_text {
  text_buf *out;
  table counts; /* name -> next number + 1 */
  /* where nodes came from: \1 NUMBER \2 stands before their text until script_text_finish */
  source_range *ranges;
  uint32_t n_ranges, cap_ranges;
  bool keeps_ranges; /* the caller's to set */
} script_text;
script_text *script_text_new(session *s, text_buf *out); /* out: borrowed */

typedef struct script_row { /* the text from here on was printed for that range */
  uint32_t offset;
  source_range from;
} script_row;
/* Take the marks out of the text.  *rows by rising offset; their number. */
uint32_t script_text_finish(session *s, script_text *t, script_row **rows);

/* How a function's first parameter is written. */
typedef enum script_self { SELF_TYPED, SELF_BARE, SELF_ADDED } script_self;
/* `def name(...)` with its body; compiles it.  name NULL: its own, else the last part of it counts.
 *  SELF_ADDED: a function without self becomes a method of the class `cls`, otherwise cls is NULL.
 *  */
void script_print_function(script_uses *u, script_text *to, function *f, const char *name,
                           script_self self, const char *cls);
/* A type's definition; nothing for classes written in C. */
void script_print_type(script_uses *u, script_text *to, const type *t);
/* The class (`name`: qualified) that a saved unit becomes: its functions as methods with self.
 * only (or NULL: all): this one, as forward. */
void script_print_unit(script_uses *u, script_text *to, const type *t, const char *name,
                       const char *only);

#endif
