/* layout.h -- reads torch's tensors directly in memory: a few loads, where the C exchange API takes
 * 50 ns and attributes 60 each.
 *
 * The layout is private to torch: it is used only for the version it was derived from, and after a
 * check at import that tensors of many kinds read so agree with their public attributes. Unusual
 * tensors (subclasses, negated or conjugated elements, copy on write, other storages than torch's
 * own) are read the public way. */
#ifndef RUSH_PY_LAYOUT_H
#define RUSH_PY_LAYOUT_H

#include "exchange.h"

typedef struct py_layout {
  uint64_t plain_keys[2]; /* key sets of ordinary and of inference tensors */
  void *deleter;          /* of torch's own memory */
  size_t deleter_at;      /* in a storage */
} py_layout;

/* Make a layout, for the lifetime of the process; NULL, without an exception: torch's layout is
 * unknown. exchange: the public way. */
const py_layout *py_layout_find(PyObject *torch, const struct py_exchange *exchange);
/* Read a plain CPU tensor of exactly torch's type; returns false if the public way must be used. */
bool py_layout_read(const py_layout *l, PyObject *o, py_geometry *g);

#endif
