/* value/schema.h -- function schemas: `aten::add.Tensor(Tensor self, Tensor other, *, Scalar
 * alpha=1) -> Tensor`.
 *
 * Parsed from PyTorch's text and printed as the same text.  A schema lives in the arena it was
 * parsed into (a registry's, a program's, a session's) and is immutable.
 *
 * Alias annotations: (a) may alias, (a!) written, (a -> *) may be put into a container, (*)
 * wildcard, (a|b) sets.  Sets are bit masks over letters: bit 0 is 'a', bit 31 the wildcard. */
#ifndef RUSH_VALUE_SCHEMA_H
#define RUSH_VALUE_SCHEMA_H

#include "value/value.h"

#define ALIAS_WILDCARD (UINT32_C(1) << 31)

/* Return a name as one number, so that finding an argument compares no texts: its length, its first
 * six bytes and its last.  No two arguments of one operator have the same key
 * (tests/ops/test_shape.c). Folds to a constant for a constant name. */
static inline __attribute__((always_inline)) uint64_t name_key(const char *s, size_t n)
{
  uint64_t k = (uint64_t)n << 56;
  k |= n > 0 ? (uint64_t)(unsigned char)s[0] | (uint64_t)(unsigned char)s[n - 1] << 48 : 0;
  k |= n > 1 ? (uint64_t)(unsigned char)s[1] << 8 : 0;
  k |= n > 2 ? (uint64_t)(unsigned char)s[2] << 16 : 0;
  k |= n > 3 ? (uint64_t)(unsigned char)s[3] << 24 : 0;
  k |= n > 4 ? (uint64_t)(unsigned char)s[4] << 32 : 0;
  k |= n > 5 ? (uint64_t)(unsigned char)s[5] << 40 : 0;
  return k;
}

typedef struct schema_arg {
  const char *name; /* "" for unnamed returns */
  uint64_t key;     /* name_key of the name, if the schema was parsed */
  const type *type;
  rush_value default_value; /* borrowed by the schema's arena; meaningful when has_default */
  int32_t fixed_len;        /* int[2]: 2, a single int is allowed; else 0 */
  uint32_t alias_before, alias_after; /* masks; 0: none */
  uint32_t elem_alias;      /* Tensor(a)[]: mask of the elements */
  bool is_write;            /* (a!) */
  bool elem_write;          /* Tensor(a!)[] */
  bool kwarg_only;
  bool has_default;
  bool is_inferred;         /* a Tensor because the function has no annotation */
} schema_arg;

typedef struct schema {
  const char *name;     /* "aten::add" */
  const char *overload; /* "Tensor", or "" */
  uint32_t n_args, n_returns;
  schema_arg *args, *returns;
  bool is_vararg, is_varret;
  bool is_of_host; /* a call of the host; the name is "^f", as PyTorch prints it */
  bool takes_numbers; /* a number is taken for a tensor (the operator's effect of that name) */
} schema;

/* Parse into `mem` (types into ts).  Leaves the session with line and column if the text is
 * malformed. */
schema *schema_parse(session *s, arena *mem, type_store *ts, const char *text);
void schema_print(text_buf *out, const schema *sc);
/* Print a string as in schemas and graphs. */
void schema_print_quoted(text_buf *out, str s);
/* Return the index of the argument, or -1. */
int schema_arg_index(const schema *sc, str name);
static inline bool schema_is_mutable(const schema *sc)
{
  for (uint32_t i = 0; i < sc->n_args; i++)
    if (sc->args[i].is_write || sc->args[i].elem_write)
      return true;
  return false;
}

#endif
