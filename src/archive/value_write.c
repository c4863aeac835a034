/* archive/value_write.c -- writes values as files of plain data: npy, npz, safetensors, torch.save.
 *
 * The path's suffix determines the format, as for the tools that read them.  All four are written
 * so that numpy, safetensors and torch.load(weights_only=True) can open them: lists and dicts are
 * plain pickles without TorchScript's types. Cost: tensors that are not contiguous are copied, one
 * at a time. */
#include "archive/open.h"
#include "archive/pickler.h"
#include "archive/unpickle.h"
#include "formats/zip_write.h"
#include "tensor/sparse.h"

#include <stdio.h>

typedef struct value_job {
  const char *path;
  rush_value v;
} value_job;

_Noreturn static void refuse(session *s, const value_job *job, const char *why)
{
  session_fail_status(s, RUSH_EARGUMENT, "ValueError", NULL, "%s: %s", job->path, why);
}

/* -- Tensors by name --------------------------------------------------------------------------- */

typedef void put_tensor(session *s, void *to, const char *name, const rush_tensor *t);

static void put_one(session *s, const value_job *job, put_tensor *put, void *to, const char *name,
                    rush_value v)
{
  if (v.tag != RUSH_TAG_TENSOR || !v.as.tensor)
    refuse(s, job, session_printf(s, "'%s' is no tensor; .pt files hold other values", name));
  if (tensor_quantizer(v.as.tensor) || tensor_is_meta(v.as.tensor) || tensor_sparse(v.as.tensor))
    refuse(s, job,
           session_printf(
             s, "'%s' is quantized or sparse, or has no data; .pt files hold such tensors", name));
  rush_tensor *dense;

  session_check(s, tensor_contiguous(s->cx, v.as.tensor, &dense));
  session_defer_value(s, value_tensor_steal(dense));
  put(s, to, name, dense);
}

/* Call `put` for every tensor of a dict by its key, of a list or tuple by its number, or for the
 * only one. */
static void each_tensor(session *s, const value_job *job, const char *only, put_tensor *put,
                        void *to)
{
  const rush_value v = job->v;
  size_t pos = 0;

  if (v.tag == RUSH_TAG_DICT) {
    for (const dict_entry *e; (e = dict_next(v.as.dict, &pos));) {
      if (e->key.tag != RUSH_TAG_STRING)
        refuse(s, job, "the keys of the dict are not all texts");
      put_one(s, job, put, to, e->key.as.string->text, e->value);
    }
    return;
  }
  if (v.tag != RUSH_TAG_LIST && v.tag != RUSH_TAG_TUPLE) {
    put_one(s, job, put, to, only, v);
    return;
  }
  const rush_value *items = v.tag == RUSH_TAG_LIST ? v.as.list->items : v.as.tuple->items;
  const size_t n = v.tag == RUSH_TAG_LIST ? v.as.list->n : v.as.tuple->n;
  for (size_t i = 0; i < n; i++)
    put_one(s, job, put, to, session_printf(s, only[0] == 'a' ? "arr_%zu" : "%zu", i), items[i]);
}

static size_t data_bytes(const rush_tensor *t) { return (size_t)t->n_elems * tensor_item_bytes(t); }

/* -- numpy ------------------------------------------------------------------------------------- */

/* The kind and bytes of numpy's type, without the byte order; or NULL. */
static const char *numpy_type(int dtype)
{
  static const char *const types[N_DTYPES] = {
#define DTYPE(id, number, name, aten, c_name, bytes, class, tape, numpy, ...) [number] = numpy,
#include "base/dtypes.def"
  };

  return types[dtype];
}

/* Return the header, version 1.0: magic, length, a dict padded with spaces to a multiple of 64, and
 * the elements. */
static str npy_header_of(session *s, const rush_tensor *t)
{
  const char *descr = numpy_type(t->dtype);
  text_buf *out = session_text(s);

  if (!descr)
    session_fail_status(
      s, RUSH_EARGUMENT, "TypeError", NULL,
      "numpy has no %s: convert the tensor first (float()), or write .safetensors or .pt",
      dtype_name(t->dtype));
  text_printf(out, "\x93NUMPY%c%c%c%c{'descr': '%c%s', 'fortran_order': False, 'shape': (", 1, 1, 1,
              1, tensor_item_bytes(t) == 1 ? '|' : '<', descr);
  for (int i = 0; i < t->n_dims; i++)
    text_printf(out, "%s%lld", i ? ", " : "", (long long)t->sizes[i]);
  text_puts(out, t->n_dims == 1 ? ",), }" : "), }");
  while (out->len % 64 != 63)
    text_putc(out, ' ');
  text_putc(out, '\n');
  if (text_failed(out))
    session_check(s, call_nomem(s->cx));
  out->data[7] = 0;
  out->data[8] = (char)((out->len - 10) & 0xff);
  out->data[9] = (char)((out->len - 10) >> 8);
  return (str){out->data, out->len};
}

static void put_npy(session *s, void *to, const char *name, const rush_tensor *t)
{
  const str header = npy_header_of(s, t);

  (void)name;
  output_put(s, to, header.p, header.len);
  output_put(s, to, t->data, data_bytes(t));
}

static void put_npz(session *s, void *to, const char *name, const rush_tensor *t)
{
  const str header = npy_header_of(s, t);
  char *all = session_alloc(s, header.len + data_bytes(t));

  memcpy(all, header.p, header.len);
  if (data_bytes(t))
    memcpy(all + header.len, t->data, data_bytes(t));
  zip_write(to, session_printf(s, "%s.npy", name), all, header.len + data_bytes(t));
}

/* -- safetensors ------------------------------------------------------------------------------- */

typedef struct safetensors_out {
  const output *file;
  text_buf *header;
  size_t at; /* bytes of data so far */
} safetensors_out;

static const char *safetensors_type(int dtype)
{
  static const char *const types[N_DTYPES] = {
#define DTYPE(id, number, name, aten, c_name, bytes, class, tape, numpy, safetensors, ...) \
  [number] = safetensors,
#include "base/dtypes.def"
  };

  return types[dtype];
}

static void put_json_text(text_buf *out, const char *text)
{
  text_putc(out, '"');
  for (const unsigned char *c = (const unsigned char *)text; *c; c++)
    if (*c < 0x20 || *c == '"' || *c == '\\')
      text_printf(out, "\\u%04x", *c);
    else
      text_putc(out, (char)*c);
  text_putc(out, '"');
}

static void put_entry(session *s, void *to, const char *name, const rush_tensor *t)
{
  safetensors_out *o = to;
  const char *word = safetensors_type(t->dtype);

  if (!word)
    session_fail_status(s, RUSH_EARGUMENT, "TypeError", NULL, "safetensors has no %s: write .pt",
                        dtype_name(t->dtype));
  text_puts(o->header, o->header->len > 1 ? "," : "");
  put_json_text(o->header, name);
  text_printf(o->header, ":{\"dtype\":\"%s\",\"shape\":[", word);
  for (int i = 0; i < t->n_dims; i++)
    text_printf(o->header, "%s%lld", i ? "," : "", (long long)t->sizes[i]);
  text_printf(o->header, "],\"data_offsets\":[%zu,%zu]}", o->at, o->at + data_bytes(t));
  o->at += data_bytes(t);
}

static void put_data(session *s, void *to, const char *name, const rush_tensor *t)
{
  (void)name;
  output_put(s, ((safetensors_out *)to)->file, t->data, data_bytes(t));
}

static void write_safetensors(session *s, const value_job *job, const output *file)
{
  safetensors_out o = {file, session_text(s), 0};
  unsigned char length[8];

  text_putc(o.header, '{');
  each_tensor(s, job, "tensor", put_entry, &o);
  text_putc(o.header, '}');
  while (o.header->len % 8)
    text_putc(o.header, ' ');
  if (text_failed(o.header))
    session_check(s, call_nomem(s->cx));
  for (int i = 0; i < 8; i++)
    length[i] = (unsigned char)((uint64_t)o.header->len >> (8 * i));
  output_put(s, file, length, sizeof length);
  output_put(s, file, o.header->data, o.header->len);
  each_tensor(s, job, "tensor", put_data, &o);
}

/* -- torch.save -------------------------------------------------------------------------------- */

void value_write_saved(session *s, rush_value v, const output *file)
{
  zip_writer *z = zip_writer_new(s, file, "archive");
  pickler *p = pickler_new(script_uses_new(s));

  p->is_plain = true;
  pickler_put(p, v, NULL);
  const str bytes = pickle_finish(p->w);
  zip_write(z, "data.pkl", bytes.p, bytes.len);
  zip_write(z, "byteorder", "little", 6);
  for (uint32_t i = 0; i < p->n_storages; i++)
    zip_write(z, session_printf(s, "data/%u", i), p->storages[i]->data,
              p->storages[i]->origin == STORAGE_META ? 0 : p->storages[i]->n_bytes);
  zip_write(z, "version", "3\n", 2);
  zip_write_identity(z);
  zip_finish(z);
}

/* -- By name ----------------------------------------------------------------------------------- */

static bool ends_with(const char *path, const char *end)
{
  const size_t n = strlen(path), k = strlen(end);

  return n > k && strcmp(path + n - k, end) == 0;
}

static void write_value(session *s, void *arg)
{
  const value_job *job = arg;
  static const char *const ends[] = {".npy", ".npz", ".safetensors", ".pt", ".pth"};
  size_t format = 0;

  while (format < COUNT_OF(ends) && !ends_with(job->path, ends[format]))
    format++;
  if (format == COUNT_OF(ends))
    refuse(
      s, job,
      "unknown format: values are written as .npy, .npz, .safetensors, .pt or .pth");
  if (format == 0 && job->v.tag != RUSH_TAG_TENSOR)
    refuse(s, job,
           "a .npy file holds one tensor; .npz and .safetensors hold several, .pt any values");
  output_file *f = output_file_new(s, job->path);
  output out = output_to_file(f);
  if (format == 0)
    each_tensor(s, job, "value", put_npy, &out);
  else if (format == 1) {
    zip_writer *z = zip_writer_new(s, &out, "");
    each_tensor(s, job, "arr_0", put_npz, z);
    zip_finish(z);
  } else if (format == 2)
    write_safetensors(s, job, &out);
  else
    value_write_saved(s, job->v, &out);
  output_file_commit(s, f);
}

rush_status value_save(call_ctx *cx, const char *path, rush_value v)
{
  value_job job = {path, v};

  return session_run(cx, write_value, &job);
}
