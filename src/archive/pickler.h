/* archive/pickler.h -- values as pickles: the inverse of unpickle.h.
 *
 * Sharing is kept: every container, object, tensor and storage is written once per pickle.
 * Storages are numbered in order of appearance; the caller writes their records. */
#ifndef RUSH_ARCHIVE_PICKLER_H
#define RUSH_ARCHIVE_PICKLER_H

#include "formats/pickle_write.h"
#include "script/print/print.h"
#include "tensor/tensor.h"

typedef struct pickler {
  session *s;
  script_uses *uses; /* collects the classes used */
  pickle_writer *w;
  bool is_plain;     /* write lists and dicts without their types, as torch.save does */
  table memo;        /* (kind, address) -> memo number + 1 */
  storage **storages;
  uint32_t n_storages, cap_storages;
} pickler;

pickler *pickler_new(script_uses *u);
/* Append v; `t`: the declared type, or NULL. */
void pickler_put(pickler *p, rush_value v, const type *t);

#endif
