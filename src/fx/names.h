/* fx/names.h -- names that are each used once, as torch.fx makes them.
 *
 *     add, add_1, add_2      a name in use gets the next number behind its base
 *     max -> max_1           names of Python's builtins and keywords are not used
 *     add.Tensor -> add_Tensor
 *
 * Ownership: names are in the arena that is given; the tables are freed by fx_names_free.  Threads:
 * one at a time. */
#ifndef RUSH_FX_NAMES_H
#define RUSH_FX_NAMES_H

#include "base/session.h"
#include "base/table.h"

typedef struct fx_names {
  arena *mem; /* borrowed */
  table used;
  table bases; /* a name without its number -> the last number + 1 */
} fx_names;

void fx_names_init(fx_names *n, context *ctx, arena *mem);
void fx_names_free(fx_names *n);
/* Return an unused name made from `wanted`; it is in use from now on. */
const char *fx_names_make(session *s, fx_names *n, str wanted);
/* Return a name in lower case, with '_' between a small letter and a capital: "m_t" of "mT". */
const char *fx_snake_case(session *s, str name);
/* Take a name as it is, also one that is in use. */
const char *fx_names_take(session *s, fx_names *n, str name);

#endif
