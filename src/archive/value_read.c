/* archive/value_read.c -- reads files of plain data: npy, npz, safetensors, torch.save
 * (value_write.c writes them).
 *
 * Tensors remain in the mapped file if their bytes are aligned and in the machine's order: opening
 * then costs only the header. */
#include "archive/open.h"
#include "archive/saved.h"
#include "archive/storages.h"
#include "archive/torchscript.h"
#include "archive/unpickle.h"
#include "formats/foreign.h"
#include "formats/npy.h"
#include "formats/safetensors.h"

/* Make a tensor on bytes of the mapping, copied if they are not aligned. */
static rush_value tensor_at(session *s, mapping *map, size_t offset, size_t n_bytes, int dtype,
                            int n_dims, const int64_t *sizes, bool fortran, bool swapped)
{
  const str bytes = {(const char *)map->data + offset, n_bytes};
  int64_t strides[TENSOR_MAX_DIMS];
  rush_tensor *t;
  storage *st = storage_of_bytes(s, bytes, map, dtype_bytes(dtype),
                                 swapped ? dtype_bytes(dtype_to_real(dtype)) : 0);

  strides_contiguous(n_dims, sizes, strides);
  if (fortran)
    for (int64_t i = 0, step = 1; i < n_dims; step *= sizes[i++])
      strides[i] = step;
  session_check(s, tensor_new_view(s->cx, st, dtype, n_dims, sizes, strides, 0, &t));
  rush_value v = value_tensor_steal(t);
  session_defer_value(s, v);
  return v;
}

static rush_value load_npy(session *s, mapping *map)
{
  input in = input_of_mapping(map);
  npy_header h;

  npy_read(s, &in, &h);
  return tensor_at(s, map, h.data, h.data_bytes, (int)h.dtype, (int)h.n_dims, h.sizes,
                   h.fortran_order, h.big_endian);
}

/* True if every record is an array: then numpy wrote the file. */
static bool npz_looks_like(const zip_archive *z)
{
  for (uint32_t i = 0; i < z->n_entries; i++) {
    const str name = z->entries[i].name;
    if (name.len < 5 || memcmp(name.p + name.len - 4, ".npy", 4) != 0)
      return false;
  }
  return z->n_entries > 0;
}

static void release_mapping(void *owner) { mapping_release(owner); }

/* Load a dict of the arrays, without ".npy". */
static rush_value load_npz(session *s, const zip_archive *z)
{
  rush_dict *d;

  session_check(s, dict_new(s->cx, type_simple(TYPE_STRING), type_simple(TYPE_TENSOR), &d));
  rush_value v = value_heap_steal(RUSH_TAG_DICT, d);
  session_defer_value(s, v);
  for (uint32_t i = 0; i < z->n_entries; i++) {
    const zip_entry *e = &z->entries[i];
    mapping *owner = NULL, *record;
    str bytes = zip_read(s, z, e, &owner);
    rush_value key, t;
    const char *place = session_printf(s, "%s: %.*s", z->map->name, (int)e->name.len, e->name.p);
    session_check(s, mapping_wrap(s->cx, place, (void *)(uintptr_t)bytes.p, bytes.len,
                                  release_mapping, owner, &record));
    mapping_retain(owner);
    mapping_defer(s, record);
    t = load_npy(s, record);
    session_check(s, string_new(s->cx, e->name.p, e->name.len - 4, &key));
    session_check(s, dict_set_steal(s->cx, d, key, value_retain(t)));
  }
  return v;
}

static rush_value load_safetensors(session *s, mapping *map)
{
  input in = input_of_mapping(map);
  safetensors *all = safetensors_read(s, &in);
  rush_dict *d;

  session_check(s, dict_new(s->cx, type_simple(TYPE_STRING), type_simple(TYPE_TENSOR), &d));
  rush_value v = value_heap_steal(RUSH_TAG_DICT, d);
  session_defer_value(s, v);
  for (uint32_t i = 0; i < all->n_entries; i++) {
    const safetensors_entry *e = &all->entries[i];
    rush_value key, t = tensor_at(s, map, e->data, e->n_bytes, (int)e->dtype, (int)e->n_dims,
                                  e->sizes, false, false);
    session_check(s, string_new(s->cx, e->name.p, e->name.len, &key));
    session_check(s, dict_set_steal(s->cx, d, key, value_retain(t)));
  }
  return v;
}

/* Return a mapping that cannot change: pickles are read more than once, so a file that may change
 * is copied. */
static mapping *unchanging(session *s, mapping *map)
{
  mapping *copy;

  if (!mapping_may_change(map))
    return map;
  session_check(s, mapping_copy(s->cx, map->name, map->data, map->n_bytes, &copy));
  mapping_defer(s, copy);
  return copy;
}

static rush_value load_zip(session *s, zip_archive *z, type_store *types)
{
  return npz_looks_like(z) ? load_npz(s, z) : torchscript_load_value(s, z, types, false);
}

_Noreturn static void refuse_value(session *s, const mapping *map)
{
  const char *what = foreign_kind(map->data, map->n_bytes);

  session_fail_status(s, RUSH_EFORMAT, NULL, NULL,
                      "%s: expected a torch.save, .npy, .npz or .safetensors file%s%s", map->name,
                      what ? "; the file is " : "", what ? what : "");
}

typedef struct value_job {
  const archive_source *from;
  rush_value value;
} value_job;

static void load_value_body(session *s, void *arg)
{
  value_job *job = arg;
  mapping *map = archive_map(s, job->from);
  type_store *types = type_store_of_context(s->cx->ctx);
  rush_value v;

  if (!types)
    session_check(s, call_nomem(s->cx));
  if (npy_looks_like(map->data, map->n_bytes))
    v = load_npy(s, map);
  else if (zip_looks_like(map->data, map->n_bytes))
    v = load_zip(s, zip_open(s, map, job->from->check_full), types);
  else if (saved_looks_like(map->data, map->n_bytes))
    v = saved_load(s, unchanging(s, map), types);
  else if (safetensors_looks_like(map->data, map->n_bytes))
    v = load_safetensors(s, map);
  else
    refuse_value(s, map);
  session_keep_value(s, v);
  job->value = v;
}

rush_status value_load(call_ctx *cx, const archive_source *from, rush_value *out)
{
  value_job job = {.from = from};

  TRY(session_run(cx, load_value_body, &job));
  *out = job.value;
  return RUSH_OK;
}
