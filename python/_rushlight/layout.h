/* layout.h -- torch's tensors where they lie: a few loads where the C exchange API takes 50 ns and
 * attributes 60 each.
 *
 * The layout is torch's own affair: it is used for the version it was read off only, and after a
 * check at import that tensors of many kinds read so are what their public attributes say.
 * Whatever is unusual (subclasses, negated or conjugated elements, copy on write, other storages
 * than torch's own) goes the public way. */
#ifndef RUSH_PY_LAYOUT_H
#define RUSH_PY_LAYOUT_H

#include "exchange.h"

typedef struct py_layout {
  uint64_t plain_keys[2]; /* key sets of ordinary and of inference tensors */
  void *deleter;          /* of torch's own memory */
  size_t deleter_at;      /* in a storage */
} py_layout;

/* New, for as long as the process; NULL, without an exception: it is not what is known here.
 * exchange: the public way. */
const py_layout *py_layout_find(PyObject *torch, const struct py_exchange *exchange);
/* A plain CPU tensor of exactly torch's type: true.  False: go the public way. */
bool py_layout_read(const py_layout *l, PyObject *o, py_geometry *g);

#endif
