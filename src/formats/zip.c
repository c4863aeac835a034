/* formats/zip.c -- the strict zip reader of zip.h: end records, central directory, local headers,
 * overlaps, then records on demand. It copies headers before it parses them, because a mapped file
 * may change between a check and a use. Everything is checked against the central directory, so
 * that no two readers can see different contents. Rejected: a general zip library, which lacks
 * these checks. */
#include "formats/zip.h"

#include <stdio.h>
#include <string.h>

#include "formats/zip_int.h"

enum {
  LOCAL_BYTES = 30,
  CENTRAL_BYTES = 46,
  END_BYTES = 22,
  END64_BYTES = 56,
  LOCATOR64_BYTES = 20
};
#define LOCAL_SIG UINT32_C(0x04034b50)
#define CENTRAL_SIG UINT32_C(0x02014b50)
#define END_SIG UINT32_C(0x06054b50)
#define END64_SIG UINT32_C(0x06064b50)
#define LOCATOR64_SIG UINT32_C(0x07064b50)
#define DESCRIPTOR_SIG UINT32_C(0x08074b50)

enum { FLAG_ENCRYPTED = 1 << 0, FLAG_SIZES_FOLLOW = 1 << 3, FLAG_PATCH = 1 << 5,
       FLAG_STRONG = 1 << 6, FLAG_MASKED = 1 << 13 };
enum { METHOD_STORED = 0, METHOD_DEFLATED = 8 };
enum { EXTRA_ZIP64 = 1 };

/* Records smaller than this are always checked: metadata, where damage would change the program. */
#define CRC_ALWAYS_BYTES 65536
/* Deflate needs at least 2 bits for 258 bytes: 1032 to 1, plus a block header. */
#define DEFLATE_MAX_RATIO 1032
/* Bytes between two polls. */
#define PIECE_BYTES ((size_t)1 << 20)

typedef struct directory { /* where the central directory is */
  uint64_t offset, n_bytes, n_entries;
} directory;

/* -- Little-endian ----------------------------------------------------------------------------- */

static uint32_t get16(const uint8_t *p)
{
  return (uint32_t)p[0] | (uint32_t)p[1] << 8;
}
static uint32_t get32(const uint8_t *p)
{
  return get16(p) | get16(p + 2) << 16;
}
static uint64_t get64(const uint8_t *p)
{
  return get32(p) | (uint64_t)get32(p + 4) << 32;
}

_Noreturn static void fail_at(session *s, const mapping *m, uint64_t offset, const char *why)
{
  input in = input_of_mapping(m);
  input_fail(s, &in, (size_t)offset, "%s", why);
}

/* True if n bytes at `offset` are before `limit`. */
static bool fits(uint64_t offset, uint64_t n, uint64_t limit)
{
  return offset <= limit && n <= limit - offset;
}

/* -- The end records --------------------------------------------------------------------------- */

/* Find the end record: the last one whose comment reaches exactly to the end of the file. */
static uint64_t find_end(session *s, const mapping *m)
{
  if (m->n_bytes < END_BYTES)
    fail_at(s, m, 0,
            "PytorchStreamReader failed reading zip archive: not a ZIP archive: too short");
  uint64_t last = m->n_bytes - END_BYTES;
  uint64_t lowest = last > UINT16_MAX ? last - UINT16_MAX : 0;
  for (uint64_t at = last + 1; at-- > lowest;) {
    const uint8_t *p = m->data + at;
    if (get32(p) == END_SIG && get16(p + 20) == last - at)
      return at;
  }
  fail_at(s, m, m->n_bytes,
          "PytorchStreamReader failed reading zip archive: failed finding central directory: "
          "not a zip file, or cut short: it has no end record");
}

/* Read the zip64 end record if there is one; returns where the central directory must end. */
static uint64_t read_end64(session *s, const mapping *m, uint64_t end, directory *dir)
{
  if (end < LOCATOR64_BYTES || get32(m->data + end - LOCATOR64_BYTES) != LOCATOR64_SIG)
    return end;
  const uint8_t *locator = m->data + end - LOCATOR64_BYTES;
  uint64_t limit = end - LOCATOR64_BYTES, at = get64(locator + 8);
  if (get32(locator + 4) != 0 || get32(locator + 16) > 1)
    fail_at(s, m, limit, "zip archives of several disks are not read");
  if (!fits(at, END64_BYTES, limit) || get32(m->data + at) != END64_SIG)
    fail_at(s, m, limit, "the zip64 locator points to no zip64 end record");
  const uint8_t *p = m->data + at;
  if (get64(p + 4) != limit - at - 12)
    fail_at(s, m, at, "the zip64 end record has the wrong size");
  if (get32(p + 16) != 0 || get32(p + 20) != 0 || get64(p + 24) != get64(p + 32))
    fail_at(s, m, at, "zip archives of several disks are not read");
  const uint8_t *old = m->data + end;
  if ((get16(old + 10) != UINT16_MAX && get16(old + 10) != get64(p + 32)) ||
      (get32(old + 12) != UINT32_MAX && get32(old + 12) != get64(p + 40)) ||
      (get32(old + 16) != UINT32_MAX && get32(old + 16) != get64(p + 48)))
    fail_at(s, m, at, "the zip64 end record contradicts the end record");
  *dir = (directory){get64(p + 48), get64(p + 40), get64(p + 32)};
  return at;
}

static directory find_directory(session *s, const mapping *m)
{
  uint64_t end = find_end(s, m);
  const uint8_t *p = m->data + end;

  if (get16(p + 4) != 0 || get16(p + 6) != 0 || get16(p + 8) != get16(p + 10))
    fail_at(s, m, end, "zip archives of several disks are not read");
  directory dir = {get32(p + 16), get32(p + 12), get16(p + 10)};
  uint64_t limit = read_end64(s, m, end, &dir);
  /* Exactly up to the end records: nothing can be hidden between, and readers that count back from
   * the end see the same directory. */
  if (!fits(dir.offset, dir.n_bytes, limit) || dir.offset + dir.n_bytes != limit)
    fail_at(s, m, end, "the central directory does not end where the end record starts");
  if (dir.n_entries > dir.n_bytes / CENTRAL_BYTES || dir.n_entries >= UINT32_MAX)
    fail_at(s, m, end, "the end record counts more records than the directory can hold");
  return dir;
}

/* -- Names ------------------------------------------------------------------------------------- */

/* Return the reason to refuse the name, or NULL. */
static const char *bad_name(str name)
{
  if (name.len == 0)
    return "a record without a name";
  if (name.p[0] == '/')
    return "absolute record name";
  for (size_t i = 0; i < name.len;) {
    size_t n = utf8_check(name.p + i, name.len - i);
    if (n == 0)
      return "record name is not UTF-8";
    if ((unsigned char)name.p[i] < 0x20 || name.p[i] == 0x7f || name.p[i] == '\\')
      return "control character or backslash in a record name";
    i += n;
  }
  for (size_t i = 0; i < name.len;) {
    const char *slash = memchr(name.p + i, '/', name.len - i);
    size_t n = slash ? (size_t)(slash - (name.p + i)) : name.len - i;
    if (n == 0)
      return "empty component in a record name";
    if ((n == 1 && name.p[i] == '.') || (n == 2 && memcmp(name.p + i, "..", 2) == 0))
      return "`.` or `..` in a record name";
    i += n + 1;
  }
  return NULL;
}

static void set_root(zip_archive *z)
{
  if (z->n_entries == 0)
    return;
  str first = z->entries[0].name;
  const char *slash = memchr(first.p, '/', first.len);
  if (slash)
    z->root = (str){first.p, (size_t)(slash - first.p)};
  for (uint32_t i = 0; i < z->n_entries; i++) {
    zip_entry *e = &z->entries[i];
    size_t n = z->root.len;
    e->path = e->name;
    e->in_root = n == 0;
    if (n && e->name.len > n && e->name.p[n] == '/' && memcmp(e->name.p, z->root.p, n) == 0) {
      e->path = (str){e->name.p + n + 1, e->name.len - n - 1};
      e->in_root = true;
    }
  }
}

/* -- The central directory --------------------------------------------------------------------- */

typedef struct zip64_fields { /* 64-bit values, in the order in which the extra field has them */
  uint64_t *at[3];
  int n;
} zip64_fields;

/* Fill saturated fields from the zip64 extra field.  Returns false if the extra fields are
 * malformed, or a value is missing. */
static bool read_extra(const uint8_t *p, size_t n_bytes, const zip64_fields *want)
{
  bool found = want->n == 0;

  while (n_bytes >= 4) {
    uint32_t id = get16(p), len = get16(p + 2);
    if (len > n_bytes - 4)
      return false;
    if (id == EXTRA_ZIP64 && want->n) {
      if (found || len < (uint32_t)want->n * 8)
        return false;
      for (int i = 0; i < want->n; i++)
        *want->at[i] = get64(p + 4 + 8 * i);
      found = true;
    }
    p += 4 + len;
    n_bytes -= 4 + len;
  }
  return found && n_bytes == 0;
}

/* Return the reason to refuse the flags, method or sizes, or NULL. */
static const char *bad_method(uint32_t flags, uint32_t method, uint64_t packed, uint64_t n_bytes)
{
  if (flags & (FLAG_ENCRYPTED | FLAG_STRONG | FLAG_MASKED))
    return "encrypted records are not read";
  if (flags & FLAG_PATCH)
    return "patched data is not read";
  if (method != METHOD_STORED && method != METHOD_DEFLATED)
    return "a compression method other than stored and deflated";
  if (method == METHOD_STORED && packed != n_bytes)
    return "a stored record of two sizes";
  if (method == METHOD_DEFLATED && n_bytes / DEFLATE_MAX_RATIO > packed)
    return "the declared size is more than deflate can make of the data";
  return NULL;
}

static void check_name(session *s, zip_archive *z, uint64_t at, str name)
{
  const char *why = bad_name(name);

  if (why == NULL)
    return;
  char *shown = session_strndup(s, name.p, name.len); /* a hostile name is not shown raw */
  for (size_t i = 0; i < name.len; i++)
    if (shown[i] < 0x20 || shown[i] == 0x7f)
      shown[i] = '?';
  input in = input_of_mapping(z->map);
  input_fail(s, &in, (size_t)at, "%s: %s", why, shown);
}

/* Read one central record at `at` (p; its fixed part and texts fit) into *e. */
static void read_central(session *s, zip_archive *z, const uint8_t *p, uint64_t at, zip_entry *e)
{
  uint32_t name_len = get16(p + 28), extra_len = get16(p + 30), method = get16(p + 10);
  uint64_t packed = get32(p + 20), n_bytes = get32(p + 24), header = get32(p + 42);
  zip64_fields wide = {.n = 0};
  const char *why;

  if (n_bytes == UINT32_MAX)
    wide.at[wide.n++] = &n_bytes;
  if (packed == UINT32_MAX)
    wide.at[wide.n++] = &packed;
  if (header == UINT32_MAX)
    wide.at[wide.n++] = &header;
  e->name = (str){(const char *)p + CENTRAL_BYTES, name_len};
  check_name(s, z, at, e->name);
  if (!read_extra(p + CENTRAL_BYTES + name_len, extra_len, &wide))
    fail_at(s, z->map, at, "malformed extra field");
  if ((why = bad_method(get16(p + 8), method, packed, n_bytes)) != NULL)
    zip_fail(s, z, e, "offset %llu: %s", (unsigned long long)at, why);
  if (get16(p + 34) != 0)
    fail_at(s, z->map, at, "zip archives of several disks are not read");
  e->header = header;
  e->packed_bytes = (size_t)packed;
  e->n_bytes = (size_t)n_bytes;
  e->crc = get32(p + 16);
  e->deflated = method == METHOD_DEFLATED;
}

static void add_entry(session *s, zip_archive *z, uint64_t at, zip_entry *e)
{
  if (table_get(&z->by_name, e->name))
    zip_fail(s, z, e, "offset %llu: a second record of this name", (unsigned long long)at);
  session_table_put(s, &z->by_name, e->name, e);
}

static void read_directory(session *s, zip_archive *z, const directory *dir)
{
  uint8_t *copy = session_alloc_in(s, &z->mem, (size_t)dir->n_bytes + 1);
  uint64_t at = dir->offset, limit = dir->offset + dir->n_bytes;

  memcpy(copy, z->map->data + dir->offset, (size_t)dir->n_bytes);
  z->entries = session_alloc_in(s, &z->mem, ((size_t)dir->n_entries + 1) * sizeof *z->entries);
  for (uint64_t i = 0; i < dir->n_entries; i++) {
    const uint8_t *p = copy + (at - dir->offset);
    if (!fits(at, CENTRAL_BYTES, limit) || get32(p) != CENTRAL_SIG)
      fail_at(s, z->map, at, "the central directory is damaged");
    size_t texts = get16(p + 28) + get16(p + 30) + get16(p + 32);
    if (!fits(at + CENTRAL_BYTES, texts, limit))
      fail_at(s, z->map, at, "a central record leaves the directory");
    zip_entry *e = &z->entries[z->n_entries];
    read_central(s, z, p, at, e);
    bool folder = e->name.p[e->name.len - 1] == '/';
    if (!folder) {
      add_entry(s, z, at, e);
      z->n_entries++;
    } else if (e->n_bytes != 0) {
      zip_fail(s, z, e, "offset %llu: a folder with content", (unsigned long long)at);
    }
    at += CENTRAL_BYTES + texts;
  }
  if (at != limit)
    fail_at(s, z->map, at, "the central directory holds more than its records");
}

/* -- Local headers ----------------------------------------------------------------------------- */

/* True if a local value agrees with the directory's. */
static bool agrees(uint64_t local, uint64_t central, bool may_follow)
{
  return local == central || (may_follow && (local == 0 || local == UINT32_MAX));
}

/* True if the descriptor after the data agrees, for local headers that specify that CRC and
 * sizes follow: with or without a signature (some writers omit it), with sizes in 4 bytes each
 * or in 8. */
static bool descriptor_agrees(const zip_archive *z, const zip_entry *e, uint64_t limit)
{
  uint64_t at = e->data + e->packed_bytes;
  const uint8_t *p = z->map->data + at;

  if (!fits(at, 16, limit) || get32(p) != DESCRIPTOR_SIG)
    return true;
  if (get32(p + 4) != e->crc)
    return false;
  return (get32(p + 8) == e->packed_bytes && get32(p + 12) == e->n_bytes) ||
         (fits(at, 24, limit) && get64(p + 8) == e->packed_bytes && get64(p + 16) == e->n_bytes);
}

/* Copy the local header with its texts, into `room` if it fits; sets the data's position. */
static const uint8_t *read_local(session *s, const zip_archive *z, zip_entry *e, uint64_t limit,
                                 uint8_t *room, size_t room_bytes)
{
  const uint8_t *from = fits(e->header, LOCAL_BYTES, limit) ? z->map->data + e->header : NULL;

  if (!from || get32(from) != LOCAL_SIG)
    zip_fail(s, z, e, "offset %llu: no local header", (unsigned long long)e->header);
  memcpy(room, from, LOCAL_BYTES);
  size_t n = (size_t)LOCAL_BYTES + get16(room + 26) + get16(room + 28);
  e->data = e->header + n;
  if (!fits(e->data, e->packed_bytes, limit))
    zip_fail(s, z, e, "offset %llu: %zu bytes of data leave the file", (unsigned long long)e->data,
             e->packed_bytes);
  uint8_t *p = n <= room_bytes ? room : session_alloc(s, n);
  memmove(p, room, LOCAL_BYTES); /* not read a second time */
  memcpy(p + LOCAL_BYTES, from + LOCAL_BYTES, n - LOCAL_BYTES);
  return p;
}

static void check_local(session *s, zip_archive *z, zip_entry *e, uint64_t limit)
{
  uint8_t room[512];
  const uint8_t *p = read_local(s, z, e, limit, room, sizeof room);
  uint32_t name_len = get16(p + 26), extra_len = get16(p + 28);

  if (!str_eq(e->name, (str){(const char *)p + LOCAL_BYTES, name_len}))
    zip_fail(s, z, e, "offset %llu: the local header has another name",
             (unsigned long long)e->header);
  uint64_t packed = get32(p + 18), n_bytes = get32(p + 22);
  uint32_t flags = get16(p + 6);
  bool follow = (flags & FLAG_SIZES_FOLLOW) != 0;
  zip64_fields wide = {.n = 0};
  if (!follow && n_bytes == UINT32_MAX)
    wide.at[wide.n++] = &n_bytes;
  if (!follow && packed == UINT32_MAX)
    wide.at[wide.n++] = &packed;
  bool ok = read_extra(p + LOCAL_BYTES + name_len, extra_len, &wide);
  ok = ok && (flags & (FLAG_ENCRYPTED | FLAG_STRONG | FLAG_MASKED)) == 0;
  ok = ok && (get16(p + 8) == METHOD_DEFLATED) == e->deflated;
  ok = ok && (e->deflated || get16(p + 8) == METHOD_STORED);
  ok = ok && agrees(get32(p + 14), e->crc, follow);
  ok = ok && agrees(packed, e->packed_bytes, follow) && agrees(n_bytes, e->n_bytes, follow);
  if (!ok)
    zip_fail(s, z, e, "offset %llu: the local header contradicts the directory",
             (unsigned long long)e->header);
  if (follow && !descriptor_agrees(z, e, limit))
    zip_fail(s, z, e, "offset %llu: the descriptor behind the data contradicts the directory",
             (unsigned long long)(e->data + e->packed_bytes));
}

/* Heap sort by header: no recursion, no worst case for a hostile order. */
static void sift(zip_entry **a, size_t i, size_t n)
{
  for (size_t child; (child = 2 * i + 1) < n; i = child) {
    if (child + 1 < n && a[child + 1]->header > a[child]->header)
      child++;
    if (a[i]->header >= a[child]->header)
      return;
    zip_entry *t = a[i];
    a[i] = a[child];
    a[child] = t;
  }
}

static void sort_by_header(zip_entry **a, size_t n)
{
  size_t i = 1;

  while (i < n && a[i - 1]->header <= a[i]->header)
    i++;
  if (i >= n)
    return; /* the usual case: in order */
  for (i = n / 2; i-- > 0;)
    sift(a, i, n);
  for (i = n; i-- > 1;) {
    zip_entry *t = a[0];
    a[0] = a[i];
    a[i] = t;
    sift(a, 0, i);
  }
}

static void check_overlaps(session *s, zip_archive *z)
{
  zip_entry **order = session_array(s, zip_entry *, (size_t)z->n_entries + 1);

  for (uint32_t i = 0; i < z->n_entries; i++)
    order[i] = &z->entries[i];
  sort_by_header(order, z->n_entries);
  for (uint32_t i = 0; i + 1 < z->n_entries; i++)
    if (order[i]->data + order[i]->packed_bytes > order[i + 1]->header)
      zip_fail(s, z, order[i], "offset %llu: the record overlaps \"%.*s\"",
               (unsigned long long)order[i]->header, (int)order[i + 1]->name.len,
               order[i + 1]->name.p);
}

/* -- Archives ---------------------------------------------------------------------------------- */

bool zip_looks_like(const void *data, size_t n_bytes)
{
  return n_bytes >= 4 && (get32(data) == LOCAL_SIG || get32(data) == END_SIG);
}

static void release_deferred(void *z)
{
  zip_release(z);
}

zip_archive *zip_open(session *s, mapping *m, bool check_all)
{
  context *c = s->cx->ctx;
  zip_archive *z = mem_alloc_zero(c, sizeof *z);

  if (z == NULL)
    session_check(s, call_nomem(s->cx));
  atomic_init(&z->refs, 1);
  z->ctx = c;
  z->map = mapping_retain(m);
  z->root = STR("");
  z->check_all = check_all;
  table_init(&z->by_name, c);
  arena_init(&z->mem, c);
  session_defer(s, release_deferred, z);
  directory dir = find_directory(s, m);
  read_directory(s, z, &dir);
  for (uint32_t i = 0; i < z->n_entries; i++)
    check_local(s, z, &z->entries[i], dir.offset);
  check_overlaps(s, z);
  set_root(z);
  return z;
}

zip_archive *zip_retain(zip_archive *z)
{
  atomic_fetch_add_explicit(&z->refs, 1, memory_order_relaxed);
  return z;
}

void zip_release(zip_archive *z)
{
  if (z == NULL || atomic_fetch_sub_explicit(&z->refs, 1, memory_order_acq_rel) != 1)
    return;
  table_free(&z->by_name);
  arena_free(&z->mem);
  mapping_release(z->map);
  mem_free(z->ctx, z, sizeof *z);
}

const zip_entry *zip_find_name(const zip_archive *z, str name)
{
  return table_get(&z->by_name, name);
}

const zip_entry *zip_find(const zip_archive *z, const char *path)
{
  char name[512];

  if (z->root.len == 0)
    return zip_find_name(z, str_of(path));
  size_t n = strlen(path), total = z->root.len + 1 + n;
  if (total <= sizeof name) {
    memcpy(name, z->root.p, z->root.len);
    name[z->root.len] = '/';
    memcpy(name + z->root.len + 1, path, n);
    return zip_find_name(z, (str){name, total});
  }
  for (uint32_t i = 0; i < z->n_entries; i++) /* names that long are rare */
    if (z->entries[i].in_root && str_is(z->entries[i].path, path))
      return &z->entries[i];
  return NULL;
}

const zip_entry *zip_need(session *s, const zip_archive *z, const char *path)
{
  const zip_entry *e = zip_find(z, path);

  if (e == NULL)
    session_fail_status(s, RUSH_EFORMAT, NULL, NULL,
                        "%s: PytorchStreamReader failed locating file %s: file not found",
                        z->map->name, path);
  return e;
}

/* -- Records ----------------------------------------------------------------------------------- */

static void check_crc(session *s, const zip_archive *z, const zip_entry *e, const uint8_t *p)
{
  uLong crc = crc32(0, NULL, 0);

  for (size_t at = 0; at < e->n_bytes;) {
    size_t n = e->n_bytes - at < PIECE_BYTES ? e->n_bytes - at : PIECE_BYTES;
    session_check(s, call_poll(s->cx));
    crc = crc32(crc, p + at, (uInt)n);
    at += n;
  }
  if ((uint32_t)crc != e->crc)
    zip_fail(s, z, e, "offset %llu: CRC is %08lx, but %08lx in the directory: the data is damaged",
             (unsigned long long)e->data, (unsigned long)crc, (unsigned long)e->crc);
}

/* Inflate in pieces (zlib's counts have 32 bits).  Returns true if exactly the packed bytes became
 * exactly n_bytes; *status is set for failures other than bad data. */
static bool inflate_pieces(call_ctx *cx, z_stream *stream, const zip_entry *e, uint8_t *to,
                           rush_status *status)
{
  size_t in_left = e->packed_bytes, out_left = e->n_bytes;
  int code = Z_OK;

  stream->next_out = to;
  while (code == Z_OK) {
    uInt in = (uInt)(in_left < PIECE_BYTES ? in_left : PIECE_BYTES);
    uInt out = (uInt)(out_left < PIECE_BYTES ? out_left : PIECE_BYTES);
    stream->avail_in = in;
    stream->avail_out = out;
    if ((*status = call_poll(cx)) != RUSH_OK)
      return false;
    code = inflate(stream, Z_NO_FLUSH);
    if (code == Z_OK && stream->avail_in == in && stream->avail_out == out)
      return false; /* no progress: input is missing, or there is too much output */
    if (code == Z_MEM_ERROR)
      *status = call_nomem(cx);
    in_left -= in - stream->avail_in;
    out_left -= out - stream->avail_out;
  }
  return code == Z_STREAM_END && in_left == 0 && out_left == 0;
}

static mapping *inflate_entry(session *s, const zip_archive *z, const zip_entry *e)
{
  z_stream stream = zip_stream(s->cx->ctx);
  rush_status st = RUSH_OK;
  mapping *m = NULL;

  rush_status made = mapping_new(s->cx, z->map->name, e->n_bytes, &m);
  if (made != RUSH_OK)
    error_prefix(s->cx->err, "%s: %.*s", z->map->name, (int)e->name.len, e->name.p);
  session_check(s, made);
  mapping_defer(s, m);
  if (inflateInit2(&stream, -MAX_WBITS) != Z_OK)
    session_check(s, call_nomem(s->cx));
  stream.next_in = z->map->data + e->data;
  bool ok = inflate_pieces(s->cx, &stream, e, m->data, &st);
  inflateEnd(&stream);
  session_check(s, st);
  if (!ok)
    zip_fail(s, z, e, "offset %llu: the deflated data is damaged or not of the declared size",
             (unsigned long long)e->data);
  return m;
}

/* Copy a stored record. */
static mapping *copy_entry(session *s, const zip_archive *z, const zip_entry *e)
{
  mapping *m;

  session_check(s, mapping_copy(s->cx, z->map->name, z->map->data + e->data, e->n_bytes, &m));
  mapping_defer(s, m);
  return m;
}

str zip_read(session *s, const zip_archive *z, const zip_entry *e, mapping **owner)
{
  mapping *from = e->deflated                               ? inflate_entry(s, z, e)
                  : !owner && mapping_may_change(z->map) ? copy_entry(s, z, e)
                                                            : z->map;
  const uint8_t *p = from == z->map ? from->data + e->data : from->data;

  if (e->deflated || z->check_all || e->n_bytes < CRC_ALWAYS_BYTES)
    check_crc(s, z, e, p);
  if (owner)
    *owner = from;
  return (str){(const char *)p, e->n_bytes};
}

input zip_input(session *s, const zip_archive *z, const zip_entry *e)
{
  input in;

  in.place = session_printf(s, "%s: %.*s", z->map->name, (int)e->name.len, e->name.p);
  in.bytes = zip_read(s, z, e, NULL);
  return in;
}

typedef struct check_job {
  const zip_archive *z;
  const zip_entry *e;
} check_job;

static void check_body(session *s, void *arg)
{
  check_job *job = arg;
  mapping *owner; /* of any size: checked where it is */
  str bytes = zip_read(s, job->z, job->e, &owner);

  if (!job->e->deflated && !job->z->check_all && job->e->n_bytes >= CRC_ALWAYS_BYTES)
    check_crc(s, job->z, job->e, (const uint8_t *)bytes.p);
}

void zip_check(session *s, const zip_archive *z)
{
  /* A session for each record: inflated data is freed at once. */
  for (uint32_t i = 0; i < z->n_entries; i++) {
    check_job job = {z, &z->entries[i]};
    session_check(s, session_run(s->cx, check_body, &job));
  }
}

void zip_fail(session *s, const zip_archive *z, const zip_entry *e, const char *fmt, ...)
{
  char text[512];
  va_list ap;

  va_start(ap, fmt);
  vsnprintf(text, sizeof text, fmt, ap);
  va_end(ap);
  session_fail_status(s, RUSH_EFORMAT, NULL, NULL, "%s: %.*s: %s", z->map->name, (int)e->name.len,
                      e->name.p, text);
}
