/* formats/pickle_write.h -- pickles of protocol 2, with the opcodes that PyTorch's own writers use.
 *
 * A thin layer: each call appends one opcode (and its data).  Strings and globals are memoised by
 * content, everything else by the caller: pickle_put stores the top of the stack under a number,
 * pickle_get_memo pushes it again.  The caller keeps the stack in order:
 *
 *   pickle_writer *w = pickle_writer_new(s);
 *   pickle_op(w, PICKLE_OP_EMPTY_DICT);  pickle_op(w, PICKLE_OP_MARK);
 *   pickle_str(w, STR("training"));      pickle_bool(w, false);
 *   pickle_op(w, PICKLE_OP_SETITEMS);
 *   str bytes = pickle_finish(w);
 *
 * Ownership: session memory.  Threads: one at a time. */
#ifndef RUSH_FORMATS_PICKLE_WRITE_H
#define RUSH_FORMATS_PICKLE_WRITE_H

#include "base/session.h"

typedef struct pickle_writer pickle_writer;

typedef enum pickle_opcode { /* opcodes without data */
  PICKLE_OP_NONE = 'N',
  PICKLE_OP_MARK = '(',
  PICKLE_OP_EMPTY_LIST = ']',
  PICKLE_OP_APPEND = 'a',
  PICKLE_OP_APPENDS = 'e',
  PICKLE_OP_EMPTY_DICT = '}',
  PICKLE_OP_SETITEM = 's',
  PICKLE_OP_SETITEMS = 'u',
  PICKLE_OP_EMPTY_TUPLE = ')',
  PICKLE_OP_TUPLE = 't', /* down to the mark */
  PICKLE_OP_TUPLE1 = 0x85,
  PICKLE_OP_TUPLE2 = 0x86,
  PICKLE_OP_TUPLE3 = 0x87,
  PICKLE_OP_REDUCE = 'R',
  PICKLE_OP_NEWOBJ = 0x81,
  PICKLE_OP_BUILD = 'b',
  PICKLE_OP_BINPERSID = 'Q'
} pickle_opcode;

/* Make a writer; its pickle starts with PROTO 2. */
pickle_writer *pickle_writer_new(session *s);
void pickle_op(pickle_writer *w, pickle_opcode op);
void pickle_bool(pickle_writer *w, bool b);
void pickle_int(pickle_writer *w, int64_t i);
void pickle_double(pickle_writer *w, double d);
void pickle_str(pickle_writer *w, str text);
void pickle_global(pickle_writer *w, str module, str name);
/* Store the top of the stack; returns its number for pickle_get_memo. */
uint32_t pickle_put(pickle_writer *w);
void pickle_get_memo(pickle_writer *w, uint32_t number);
/* Append STOP; returns the pickle's bytes, in session memory.  Leaves the session with RUSH_ENOMEM
 * if an append failed. */
str pickle_finish(pickle_writer *w);

#endif
