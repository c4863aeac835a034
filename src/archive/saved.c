/* archive/saved.c -- torch.save's format before PyTorch 1.6, which is not a zip archive.
 *
 * Pickles in a row: a magic number, the protocol (1001), facts about the machine, the value, the
 * list of its storages' keys; then for each key the number of elements (8 bytes) and the
 * elements. */
#include "archive/saved.h"

#include "archive/unpickle.h"

static const unsigned char magic[10] = {0x6c, 0xfc, 0x9c, 0x46, 0xf9, 0x20, 0x6a, 0xa8, 0x50, 0x19};

bool saved_looks_like(const void *data, size_t n_bytes)
{
  const unsigned char *p = data;

  for (size_t i = 0; i + sizeof magic <= n_bytes && i < 24; i++) /* behind PROTO, FRAME and LONG1 */
    if (memcmp(p + i, magic, sizeof magic) == 0)
      return n_bytes > 2 && p[0] == 0x80;
  return false;
}

static const pickle *next_pickle(session *s, const input *in, size_t *at)
{
  const pickle *p = pickle_read(s, in, *at);

  *at = p->end;
  return p;
}

/* Copy the bytes of the storages into the memory that the value already uses. */
static void fill_storages(unpickler *u, const input *in, size_t *at, const pickle *keys,
                 const pickle_node *key)
{
  str name = pickle_need_str(u->s, keys, key, "storage key");
  late_storage *l = table_get(u->late, name);
  uint64_t count = 0;

  if (!l)
    input_fail(u->s, in, *at, "storage '%.*s' belongs to no tensor", (int)name.len, name.p);
  if (in->bytes.len - *at < 8)
    input_fail(u->s, in, *at, "storage '%.*s': the file ends", (int)name.len, name.p);
  for (int i = 0; i < 8; i++)
    count |= (uint64_t)(uint8_t)in->bytes.p[*at + (size_t)(u->big_endian ? 7 - i : i)] << (8 * i);
  *at += 8;
  size_t item = dtype_bytes(l->dtype), n_bytes;
  if (!size_mul((size_t)count, item, &n_bytes) || n_bytes > in->bytes.len - *at ||
      n_bytes != l->st->n_bytes)
    input_fail(u->s, in, *at - 8,
               "storage '%.*s': %llu elements of %s, %zu bytes wanted, %zu left in the file",
               (int)name.len, name.p, (unsigned long long)count, dtype_name(l->dtype),
               l->st->n_bytes, in->bytes.len - *at);
  unpickler_copy_items(u, l->st->data, in->bytes.p + *at, n_bytes, l->dtype);
  l->filled = true;
  *at += n_bytes;
}

rush_value saved_load(session *s, mapping *map, type_store *types)
{
  input in = input_of_mapping(map);
  unpickler *u = session_new(s, unpickler);
  table *late = session_new(s, table);
  size_t at = 0;

  session_table_init(s, late);
  unpickler_init(u, s, NULL, "", types);
  u->late = late;
  u->late_bytes = map->n_bytes;
  const pickle *p = next_pickle(s, &in, &at);
  if (p->root->kind != PICKLE_LONG || p->root->as.text.len != sizeof magic ||
      memcmp(p->root->as.text.p, magic, sizeof magic) != 0)
    pickle_fail(s, p, p->root, "expected torch.save's magic number");
  p = next_pickle(s, &in, &at);
  int64_t protocol = pickle_need_int(s, p, p->root, "protocol");
  if (protocol != 1001)
    pickle_fail(s, p, p->root, "protocol %lld; 1001 is known", (long long)protocol);
  p = next_pickle(s, &in, &at);
  const pickle_node *order =
    p->root->kind == PICKLE_DICT ? pickle_get(p->root, "little_endian") : NULL;
  u->big_endian = order && !pickle_need_bool(s, p, order, "little_endian");
  rush_value v = unpickle(u, next_pickle(s, &in, &at));
  p = next_pickle(s, &in, &at);
  const pickle_seq *keys = pickle_need_list(s, p, p->root, "storage keys");
  for (uint32_t i = 0; i < keys->n; i++)
    fill_storages(u, &in, &at, p, keys->at[i]);
  for (uint32_t i = 0; i < late->n; i++) {
    const late_storage *l = late->entries[i].value;
    if (l && !l->filled && l->st->n_bytes)
      input_fail(s, &in, at, "the file has no bytes for one of its %u storages", late->n);
  }
  return v;
}
