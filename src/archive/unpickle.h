/* archive/unpickle.h -- converts pickle nodes to values: tensors, containers, script objects.
 *
 * The consumer of formats/pickle.h.  unpickle.c lists the names that a file may use; all others are
 * refused with their name.  Nothing is executed except `__setstate__`, in our interpreter under its
 * limits.
 *
 * Storages are shared by key within one unpickler: tied weights and views use one storage. Their
 * bytes are used in place if the record is stored and aligned, and copied otherwise. */
#ifndef RUSH_ARCHIVE_UNPICKLE_H
#define RUSH_ARCHIVE_UNPICKLE_H

#include "formats/pickle.h"
#include "formats/zip.h"
#include "tensor/tensor.h"

typedef struct late_storage { /* used before its bytes are read */
  storage *st;
  int dtype; /* of the first use */
  bool filled;
} late_storage;

typedef struct unpickler unpickler;
struct unpickler {
  session *s;
  const zip_archive *zip;  /* NULL: storages are `late` */
  const char *folder;      /* folder of storages: "data/", "constants/" */
  bool big_endian;
  /* accept objects of any class as containers of their content (sample inputs); nothing is looked
   * up or called */
  bool takes_instances;
  bool meta;               /* storages have no data, whatever the archive contains */
  table storages;          /* key -> storage, owned */
  table *late;             /* torch.save's old format: key -> late_storage */
  size_t late_bytes;       /* bytes that they may still use */
  const rush_value *tensors; /* for PyTorch 1.0 to 1.3: by index; NULL in other archives */
  uint32_t n_tensors;
  type_store *types;
  /* Look up a script class; NULL in files of plain data, which cannot use them. */
  const type *(*find_class)(unpickler *u, str qualified); /* leaves the session if it is unknown */
  const type *(*parse_type)(unpickler *u, str text);
  void *user;
  const pickle *p;         /* the pickle being read */
  rush_value *done;        /* by node id; UNSET: not yet */
  uint8_t *busy;
};

void unpickler_init(unpickler *u, session *s, const zip_archive *zip, const char *folder,
                    type_store *types);
/* Convert the pickle's root; new, deferred to the session (session_keep_value to keep it). */
rush_value unpickle(unpickler *u, const pickle *p);

/* Return the storage of a record below the folder (for items of this dtype, if it is new);
 * borrowed.  NULL: there are no records. */
storage *unpickler_storage(unpickler *u, str key, int dtype);

/* Copy items of a dtype, converting from the file's byte order. */
void unpickler_copy_items(const unpickler *u, void *to, const void *from, size_t n_bytes,
                          int dtype);

/* Set the element types of containers in `v` that a pickle did not specify (VALUE_UNDECIDED): those
 * of `t`, or Any if `t` has none.  Decided types are not changed.  Call type_contains_value to
 * check the result. */
void value_retype(session *s, rush_value v, const type *t);

#endif
