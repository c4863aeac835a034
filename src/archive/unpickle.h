/* archive/unpickle.h -- pickle nodes as values: tensors, containers, script objects.
 *
 * The consumer of formats/pickle.h.  What a file may name is listed in unpickle.c; everything else
 * is refused with its name.  Nothing is executed but `__setstate__`, in our interpreter under its
 * limits.
 *
 * Storages are shared by key within one unpickler: tied weights and views point at one storage.
 * Their bytes are used in place where the record is stored and aligned, else copied. */
#ifndef RUSH_ARCHIVE_UNPICKLE_H
#define RUSH_ARCHIVE_UNPICKLE_H

#include "formats/pickle.h"
#include "formats/zip.h"
#include "tensor/tensor.h"

typedef struct late_storage { /* referred to before its bytes are read */
  storage *st;
  int dtype; /* of the first reference */
  bool filled;
} late_storage;

typedef struct unpickler unpickler;
struct unpickler {
  session *s;
  const zip_archive *zip;  /* NULL: storages are `late` */
  const char *folder;      /* of storages: "data/", "constants/" */
  bool big_endian;
  /* of any class: as containers of what they hold (sample inputs); nothing is looked up or
   * called */
  bool takes_instances;
  bool meta;               /* storages have no data, whatever the archive has */
  table storages;          /* key -> storage, owned */
  table *late;             /* torch.save's old format: key -> late_storage */
  size_t late_bytes;       /* that they may still take */
  const rush_value *tensors; /* PyTorch 1.0 to 1.3: by index; NULL in other archives */
  uint32_t n_tensors;
  type_store *types;
  /* Script classes: NULL in files of plain data, which then may not name them. */
  const type *(*find_class)(unpickler *u, str qualified); /* leaves when unknown */
  const type *(*parse_type)(unpickler *u, str text);
  void *user;
  const pickle *p;         /* the pickle at work */
  rush_value *done;        /* by node id; UNSET: not yet */
  uint8_t *busy;
};

void unpickler_init(unpickler *u, session *s, const zip_archive *zip, const char *folder,
                    type_store *types);
/* The value of the pickle's root; new, deferred to the session (session_keep_value to keep it). */
rush_value unpickle(unpickler *u, const pickle *p);

/* The storage of a record below the folder (of items of this dtype, if it is new); borrowed.  NULL:
 * there are no records. */
storage *unpickler_storage(unpickler *u, str key, int dtype);

/* Copy items of a dtype in the file's byte order. */
void unpickler_copy_items(const unpickler *u, void *to, const void *from, size_t n_bytes,
                          int dtype);

/* A value is released when the session ends unless kept. */
void session_defer_value(session *s, rush_value v);
void session_keep_value(session *s, rush_value v);

/* Decide the element types of containers in `v` that a pickle did not say (VALUE_UNDECIDED): those
 * of `t`, or Any where `t` says none.  What is decided already is left as it is.  Call
 * type_contains_value to check the result. */
void value_retype(session *s, rush_value v, const type *t);

#endif
