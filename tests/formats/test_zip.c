#include "support/oom.h"

#include <fcntl.h>
#include <unistd.h>

#include "formats/zip.h"
#include "formats/zip_build.h"
#include "formats/zip_write.h"

static const char code[] = "def f(x): return x + x + x + x + x + x + x + x + x + x + x + x";

typedef struct keep_job {
  str bytes;
  mapping *kept;
} keep_job;

typedef struct job {
  str bytes;
  bool check;
  uint32_t n_entries;
  text_buf seen; /* name=content; for each record */
} job;

static void open_body(session *s, void *arg)
{
  job *j = arg;
  mapping *m;
  session_check(s, mapping_copy(s->cx, "t.zip", j->bytes.p, j->bytes.len, &m));
  mapping_defer(s, m);
  zip_archive *z = zip_open(s, m, j->check);
  zip_check(s, z);
  j->n_entries = z->n_entries;
  for (uint32_t i = 0; i < z->n_entries; i++) {
    const zip_entry *e = &z->entries[i];
    str data = zip_read(s, z, e, NULL);
    assert_ptr_equal(zip_find_name(z, e->name), e);
    text_add(&j->seen, e->path.p, e->path.len);
    text_putc(&j->seen, '=');
    text_add(&j->seen, data.p, data.len);
    text_putc(&j->seen, ';');
  }
}

/* Return the content of the archive as text, or the error. */
static rush_status open_bytes(context *c, const char *data, size_t len, char *result, size_t cap)
{
  rush_error err = RUSH_ERROR_INIT;
  call_ctx cx;
  job j = {.bytes = {data, len}};
  call_ctx_init(&cx, c, &err);
  text_init(&j.seen, c);
  rush_status st = session_run(&cx, open_body, &j);
  snprintf(result, cap, "%s", st ? err.message : text_str(&j.seen));
  text_free(&j.seen);
  rush_error_clear(&err);
  return st;
}

static void build_good(zip_build *b, context *c)
{
  build_init(b, c);
  build_add(b, "model/version", "3\n", 2, false, true);
  build_add(b, "model/code/f.py", code, strlen(code), true, true);
  build_add(b, "model/empty", "", 0, false, false);
  build_add(b, "model/folder/", "", 0, false, false);
  build_end(b);
}

static char good_content[256];

static void good_archives_are_read(void **state)
{
  context *c = test_context(NULL);
  zip_build b;
  char got[512];
  (void)state;
  build_good(&b, c);
  snprintf(good_content, sizeof good_content, "version=3\n;code/f.py=%s;empty=;", code);
  assert_int_equal(open_bytes(c, b.file.data, b.file.len, got, sizeof got), RUSH_OK);
  assert_string_equal(got, good_content);
  build_free(&b);
  test_context_done(c);
}

static void every_truncation_is_refused(void **state)
{
  context *c = test_context(NULL);
  zip_build b;
  char got[512];
  (void)state;
  build_good(&b, c);
  for (size_t n = 0; n < b.file.len; n++)
    assert_int_equal(open_bytes(c, b.file.data, n, got, sizeof got), RUSH_EFORMAT);
  build_free(&b);
  test_context_done(c);
}

/* A flipped bit is detected, or was in a field that nothing depends on (times, versions,
 * attributes). */
static void every_bit_flip_is_refused_or_harmless(void **state)
{
  context *c = test_context(NULL);
  zip_build b;
  char got[512];
  int harmless = 0;
  (void)state;
  build_good(&b, c);
  for (size_t i = 0; i < b.file.len * 8; i++) {
    b.file.data[i / 8] = (char)(b.file.data[i / 8] ^ 1 << i % 8);
    rush_status st = open_bytes(c, b.file.data, b.file.len, got, sizeof got);
    if (st == RUSH_OK && strcmp(got, good_content) == 0)
      harmless++;
    else if (st == RUSH_OK) /* for example, the folder record became an empty file */
      assert_non_null(strstr(got, "version=3\n;code/f.py=def f(x)"));
    else
      assert_int_equal(st, RUSH_EFORMAT);
    b.file.data[i / 8] = (char)(b.file.data[i / 8] ^ 1 << i % 8);
  }
  assert_true((size_t)harmless < b.file.len * 8 / 3);
  build_free(&b);
  test_context_done(c);
}

static void bad_names_are_refused(void **state)
{
  static const char *const names[] = {"/etc/passwd", "../x",  "a/../x", "a//b",  "./a",
                                      "a\\b",        "a\nb",  "\xff",   "",      "a/.."};
  context *c = test_context(NULL);
  char got[512];
  (void)state;
  for (size_t i = 0; i < COUNT_OF(names); i++) {
    zip_build b;
    build_init(&b, c);
    build_add(&b, names[i], "x", 1, false, true);
    build_end(&b);
    assert_int_equal(open_bytes(c, b.file.data, b.file.len, got, sizeof got), RUSH_EFORMAT);
    build_free(&b);
  }
  test_context_done(c);
}

static void duplicates_and_overlaps_are_refused(void **state)
{
  context *c = test_context(NULL);
  zip_build b;
  char got[512];
  (void)state;
  build_init(&b, c);
  build_add(&b, "m/a", "x", 1, false, true);
  build_add(&b, "m/a", "y", 1, false, true);
  build_end(&b);
  assert_int_equal(open_bytes(c, b.file.data, b.file.len, got, sizeof got), RUSH_EFORMAT);
  assert_non_null(strstr(got, "t.zip: m/a: "));
  assert_non_null(strstr(got, "a second record of this name"));
  build_free(&b);

  zip_build inner; /* a record whose data is another record */
  build_init(&inner, c);
  build_add(&inner, "m/b", "secret", 6, false, true);
  build_init(&b, c);
  build_add(&b, "m/a", inner.file.data, inner.file.len, false, true);
  size_t at = b.file.len - inner.file.len;
  text_add(&b.directory, inner.directory.data, inner.directory.len);
  b.directory.data[b.directory.len - 3 - 4] = (char)at;
  b.n++;
  build_end(&b);
  assert_int_equal(open_bytes(c, b.file.data, b.file.len, got, sizeof got), RUSH_EFORMAT);
  assert_non_null(strstr(got, "overlaps \"m/b\""));
  build_free(&inner);
  build_free(&b);
  test_context_done(c);
}

static void bombs_are_refused_before_memory_is_taken(void **state)
{
  context *c = test_context(&(context_options){.limit_bytes = 1 << 20});
  zip_build b;
  char got[512];
  (void)state;
  build_init(&b, c);
  build_add(&b, "m/a", code, strlen(code), true, true);
  memset(b.directory.data + 24, 0x7f, 4); /* declares 2 GB */
  build_end(&b);
  assert_int_equal(open_bytes(c, b.file.data, b.file.len, got, sizeof got), RUSH_EFORMAT);
  assert_non_null(strstr(got, "more than deflate can make"));
  build_free(&b);
  test_context_done(c);
}

/* -- One field changed ------------------------------------------------------------------------- */

enum { IN_LOCAL, IN_CENTRAL, IN_END, IN_END64, IN_LOCATOR };
typedef struct patch {
  int where, offset, n_bytes;
  uint64_t value;
  const char *message; /* a part of it */
} patch;

static void put_le(char *p, uint64_t v, int n_bytes)
{
  for (int i = 0; i < n_bytes; i++)
    p[i] = (char)(v >> (8 * i));
}

/* Build one record of 12 bytes; with a zip64 end record if `wide`. */
static void build_one(zip_build *b, context *c, bool wide, size_t at[5])
{
  build_init(b, c);
  build_add(b, "m/a", "hello, there", 12, false, false);
  at[IN_LOCAL] = 0;
  at[IN_CENTRAL] = b->file.len;
  if (!wide) {
    build_end(b);
    at[IN_END] = b->file.len - 22;
    return;
  }
  size_t n = b->directory.len;
  text_add(&b->file, b->directory.data, n);
  at[IN_END64] = b->file.len;
  build_le(&b->file, 0x06064b50, 4);
  build_le(&b->file, 44, 8);
  build_le(&b->file, 45 | 45 << 16, 4);
  build_le(&b->file, 0, 8); /* disks */
  build_le(&b->file, 1, 8);
  build_le(&b->file, 1, 8);
  build_le(&b->file, n, 8);
  build_le(&b->file, at[IN_CENTRAL], 8);
  at[IN_LOCATOR] = b->file.len;
  build_le(&b->file, 0x07064b50, 4);
  build_le(&b->file, 0, 4);
  build_le(&b->file, at[IN_END64], 8);
  build_le(&b->file, 1, 4);
  at[IN_END] = b->file.len;
  build_le(&b->file, 0x06054b50, 4);
  build_le(&b->file, 0, 4);
  build_le(&b->file, UINT64_C(0xffffffffffffffff), 8);
  build_le(&b->file, 0xffffffff, 4);
  build_le(&b->file, 0, 2);
  put_le(b->file.data + at[IN_END] + 8, 0xffffffff, 4); /* both counts */
}

static void try_patches(const patch *rows, size_t n, bool wide)
{
  context *c = test_context(&(context_options){.limit_bytes = 1 << 20});
  char got[512];
  size_t at[5] = {0};
  zip_build b;

  build_one(&b, c, wide, at);
  assert_int_equal(open_bytes(c, b.file.data, b.file.len, got, sizeof got), RUSH_OK);
  assert_string_equal(got, "a=hello, there;");
  build_free(&b);
  for (size_t i = 0; i < n; i++) {
    build_one(&b, c, wide, at);
    put_le(b.file.data + at[rows[i].where] + rows[i].offset, rows[i].value, rows[i].n_bytes);
    rush_status st = open_bytes(c, b.file.data, b.file.len, got, sizeof got);
    if (st != RUSH_EFORMAT || strncmp(got, "t.zip: ", 7) != 0 || !strstr(got, "offset ") ||
        !strstr(got, rows[i].message))
      fail_msg("row %zu: status %d, %s", i, (int)st, got);
    build_free(&b);
  }
  test_context_done(c);
}

static void headers_that_contradict_are_refused(void **state)
{
  static const patch rows[] = {
    {IN_LOCAL, 0, 1, 'Q', "m/a: offset 0: no local header"},
    {IN_LOCAL, 6, 2, 1, "the local header contradicts the directory"}, /* encrypted */
    {IN_LOCAL, 8, 2, 8, "the local header contradicts the directory"}, /* deflated */
    {IN_LOCAL, 8, 2, 99, "the local header contradicts the directory"},
    {IN_LOCAL, 14, 4, 1, "the local header contradicts the directory"}, /* CRC */
    {IN_LOCAL, 18, 4, 11, "the local header contradicts the directory"},
    {IN_LOCAL, 22, 4, 13, "the local header contradicts the directory"},
    {IN_LOCAL, 22, 4, 0xffffffff,
     "the local header contradicts the directory"}, /* zip64 without its field */
    {IN_LOCAL, 26, 2, 2, "another name"},
    {IN_LOCAL, 32, 1, 'b', "another name"},
    {IN_LOCAL, 28, 2, 0xffff, "leave the file"},
    {IN_LOCAL, 28, 2, 4, "leave the file"},
    {IN_CENTRAL, 0, 1, 'Q', "the central directory is damaged"},
    {IN_CENTRAL, 8, 2, 1, "encrypted"},
    {IN_CENTRAL, 8, 2, 1 << 5, "patched"},
    {IN_CENTRAL, 8, 2, 1 << 6, "encrypted"},
    {IN_CENTRAL, 10, 2, 99, "compression method"},
    {IN_CENTRAL, 20, 4, 11, "two sizes"},
    {IN_CENTRAL, 24, 4, 13, "two sizes"},
    {IN_CENTRAL, 24, 4, 0xffffffff, "malformed extra field"},
    {IN_CENTRAL, 28, 2, 0xffff, "leaves the directory"},
    {IN_CENTRAL, 30, 2, 1, "leaves the directory"},
    {IN_CENTRAL, 34, 2, 1, "several disks"},
    {IN_CENTRAL, 42, 4, 1, "no local header"},
    {IN_CENTRAL, 42, 4, 0x7fffffff, "no local header"},
    {IN_CENTRAL, 42, 4, 0xffffffff, "malformed extra field"},
    {IN_CENTRAL, 46, 3, 0x2f2e2e, "`.` or `..` in a record name"}, /* "../" */
    {IN_END, 4, 2, 1, "several disks"},
    {IN_END, 10, 2, 2, "several disks"},
    {IN_END, 8, 4, 0x20002, "counts more records"},
    {IN_END, 12, 4, 1, "does not end where"},
    {IN_END, 16, 4, 0xfffffff0, "does not end where"},
    {IN_END, 20, 2, 1, "no end record"},
  };
  (void)state;
  try_patches(rows, COUNT_OF(rows), false);
}

static void zip64_tricks_are_refused(void **state)
{
  static const patch rows[] = {
    {IN_LOCATOR, 4, 4, 1, "several disks"},
    {IN_LOCATOR, 16, 4, 2, "several disks"},
    {IN_LOCATOR, 8, 8, 0, "points to no zip64 end record"},
    {IN_LOCATOR, 8, 8, UINT64_C(0xffffffffffffffff), "points to no zip64 end record"},
    {IN_LOCATOR, 8, 8, UINT64_C(0x8000000000000000), "points to no zip64 end record"},
    {IN_END64, 0, 1, 'Q', "points to no zip64 end record"},
    {IN_END64, 4, 8, 45, "the wrong size"},
    {IN_END64, 4, 8, UINT64_C(0xffffffffffffffff), "the wrong size"},
    {IN_END64, 16, 4, 1, "several disks"},
    {IN_END64, 24, 8, 2, "several disks"},
    {IN_END64, 40, 8, UINT64_C(0xffffffffffffff00), "does not end where"},
    {IN_END64, 48, 8, UINT64_C(0xffffffffffffffff), "does not end where"},
    {IN_END64, 48, 8, UINT64_C(0xffffffffffffffd0),
     "does not end where"}, /* offset + size overflows */
    {IN_END, 8, 4, 0x20002, "contradicts the end record"},
    {IN_END, 12, 4, 7, "contradicts the end record"},
    {IN_END, 16, 4, 7, "contradicts the end record"},
  };
  (void)state;
  try_patches(rows, COUNT_OF(rows), true);
}

/* 64-bit sizes in the extra field of a record: used if they are right, refused if not. */
static void wide_sizes_are_checked(void **state)
{
  static const struct {
    uint64_t n_bytes, packed, header;
    int extra_bytes; /* length of the field; it should be 24 */
    const char *message; /* NULL: good */
  } rows[] = {
      {12, 12, 0, 24, NULL},
      {12, 12, 0, 16, "malformed extra field"},
      {12, 12, 0, 0, "malformed extra field"},
      {13, 12, 0, 24, "two sizes"},
      {UINT64_C(0xffffffffffffffff), UINT64_C(0xffffffffffffffff), 0, 24, "leave the file"},
      {UINT64_C(0xfffffffffffffff0), UINT64_C(0xfffffffffffffff0), 0, 24, "leave the file"},
      {12, 12, UINT64_C(0xffffffffffffffff), 24, "no local header"},
      {12, 12, UINT64_C(0xfffffffffffffff0), 24, "no local header"},
  };
  context *c = test_context(&(context_options){.limit_bytes = 1 << 20});
  char got[512];
  (void)state;
  for (size_t i = 0; i < COUNT_OF(rows); i++) {
    zip_build b;
    build_init(&b, c);
    build_add(&b, "m/a", "hello, there", 12, false, false);
    put_le(b.directory.data + 20, UINT64_C(0xffffffffffffffff), 8);
    put_le(b.directory.data + 30, (uint64_t)rows[i].extra_bytes + 4, 2);
    put_le(b.directory.data + 42, 0xffffffff, 4);
    build_le(&b.directory, 1 | (uint64_t)rows[i].extra_bytes << 16, 4);
    const uint64_t fields[] = {rows[i].n_bytes, rows[i].packed, rows[i].header};
    for (int k = 0; k < rows[i].extra_bytes / 8; k++)
      build_le(&b.directory, fields[k], 8);
    build_end(&b);
    rush_status st = open_bytes(c, b.file.data, b.file.len, got, sizeof got);
    if (rows[i].message ? st != RUSH_EFORMAT || !strstr(got, rows[i].message) : st != RUSH_OK)
      fail_msg("row %zu: status %d, %s", i, (int)st, got);
    build_free(&b);
  }
  test_context_done(c);
}

static void descriptors_must_agree(void **state)
{
  static const struct {
    uint64_t signature, crc, packed, n_bytes;
    int size_bytes;
    bool good;
  } rows[] = {
    {0x08074b50, 0, 12, 12, 4, true},  {0x08074b50, 0, 12, 12, 8, true},
    {0x08074b50, 1, 12, 12, 4, false}, {0x08074b50, 0, 11, 12, 4, false},
    {0x08074b50, 0, 12, 13, 8, false}, {0x08074b51, 1, 1, 1, 4, true},
  };
  context *c = test_context(NULL);
  char got[512];
  (void)state;
  for (size_t i = 0; i < COUNT_OF(rows); i++) {
    zip_build b;
    uint32_t crc = (uint32_t)crc32(0, (const Bytef *)"hello, there", 12);
    build_init(&b, c);
    build_add(&b, "m/a", "hello, there", 12, false, true);
    build_le(&b.file, rows[i].signature, 4);
    build_le(&b.file, crc ^ rows[i].crc, 4);
    build_le(&b.file, rows[i].packed, rows[i].size_bytes);
    build_le(&b.file, rows[i].n_bytes, rows[i].size_bytes);
    build_end(&b);
    rush_status st = open_bytes(c, b.file.data, b.file.len, got, sizeof got);
    assert_int_equal(st, rows[i].good ? RUSH_OK : RUSH_EFORMAT);
    if (!rows[i].good)
      assert_string_equal(
        got, "t.zip: m/a: offset 45: the descriptor behind the data contradicts the directory");
    build_free(&b);
  }
  test_context_done(c);
}

/* 20,000 names for one record's data: refused quickly as overlaps. */
static void many_entries_on_one_record_are_refused(void **state)
{
  context *c = test_context(NULL);
  zip_build b;
  char got[512], name[16];
  (void)state;
  build_init(&b, c);
  build_add(&b, "m/00000", "hello, there", 12, false, false);
  for (int i = 1; i < 20000; i++) {
    size_t at = b.directory.len;
    snprintf(name, sizeof name, "m/%05d", i);
    build_add(&b, name, "", 0, false, false);
    b.file.len = 30 + 7 + 12;
    put_le(b.directory.data + at + 42, 0, 4);
    memcpy(b.directory.data + at + 16, b.directory.data + 16, 12);
  }
  build_end(&b);
  assert_int_equal(open_bytes(c, b.file.data, b.file.len, got, sizeof got), RUSH_EFORMAT);
  assert_non_null(strstr(got, "another name"));
  build_free(&b);
  test_context_done(c);
}

static void keep_body(session *s, void *arg)
{
  keep_job *j = arg;
  mapping *m, *owner;
  session_check(s, mapping_copy(s->cx, "t.zip", j->bytes.p, j->bytes.len, &m));
  mapping_defer(s, m);
  zip_archive *z = zip_open(s, m, false);
  zip_read(s, z, zip_need(s, z, "version"), &owner);
  assert_ptr_equal(owner, m);
  zip_read(s, z, zip_need(s, z, "code/f.py"), &owner);
  assert_ptr_not_equal(owner, m);
  j->kept = mapping_retain(owner);
  zip_need(s, z, "code/absent.py");
}

static void inflated_data_outlives_the_session(void **state)
{
  context *c = test_context(NULL);
  rush_error err = RUSH_ERROR_INIT;
  call_ctx cx;
  zip_build b;
  (void)state;
  build_good(&b, c);
  keep_job j = {{b.file.data, b.file.len}, NULL};
  call_ctx_init(&cx, c, &err);
  assert_int_equal(session_run(&cx, keep_body, &j), RUSH_EFORMAT);
  assert_string_equal(
    err.message, "t.zip: PytorchStreamReader failed locating file code/absent.py: file not found");
  assert_int_equal(j.kept->n_bytes, strlen(code));
  assert_memory_equal(j.kept->data, code, strlen(code));
  mapping_release(j.kept);
  build_free(&b);
  rush_error_clear(&err);
  test_context_done(c);
}

static void write_body(session *s, void *arg)
{
  job *j = arg;
  text_buf *t = &j->seen;
  output out = output_to_text(t);
  char zeros[3000] = {0};
  zip_writer *z = zip_writer_new(s, &out, "model");
  zip_write(z, "data.pkl", "N.", 2);
  zip_write_deflated(z, "code/f.py", code, strlen(code));
  zip_write_deflated(z, "tiny", "x", 1);
  zip_write(z, "data/0", zeros, sizeof zeros);
  zip_write(z, "empty", "", 0);
  zip_finish(z);
  mapping *m;
  session_check(s, mapping_wrap(s->cx, "t.zip", t->data, t->len, NULL, NULL, &m));
  mapping_defer(s, m);
  zip_archive *back = zip_open(s, m, true);
  zip_check(s, back);
  assert_int_equal(back->n_entries, 5);
  assert_true(str_is(back->root, "model"));
  for (uint32_t i = 0; i < 5; i++)
    assert_int_equal(back->entries[i].data % 64, 0);
  assert_true(zip_need(s, back, "code/f.py")->deflated);
  assert_false(zip_need(s, back, "tiny")->deflated);
  assert_true(str_is(zip_read(s, back, zip_need(s, back, "code/f.py"), NULL), code));
  assert_int_equal(zip_need(s, back, "data/0")->n_bytes, sizeof zeros);
  z = zip_writer_new(s, &out, "m");
  zip_write(z, "a", "", 0);
  zip_write(z, "a", "", 0);
}

static void written_archives_are_aligned_and_read_back(void **state)
{
  rush_status last = RUSH_ENOMEM;
  (void)state;
  OOM_LOOP(cx)
  {
    job j = {.check = true};
    text_init(&j.seen, cx.ctx);
    last = session_run(&cx, write_body, &j);
    assert_true(last == RUSH_EARGUMENT || last == RUSH_ENOMEM);
    if (last == RUSH_EARGUMENT)
      assert_string_equal(cx.err->message, "memory: two records \"m/a\"");
    text_free(&j.seen);
  }
  assert_int_equal(last, RUSH_EARGUMENT);
}

static void file_body(session *s, void *arg)
{
  const char *path = arg;
  for (int commit = 0; commit < 2; commit++) {
    output_file *f = output_file_new(s, path);
    output out = output_to_file(f);
    output_put(s, &out, commit ? "new" : "half", 3);
    if (commit)
      output_file_commit(s, f);
  }
}

static void files_appear_whole_or_not_at_all(void **state)
{
  char path[] = "/tmp/rushlight-test-XXXXXX", part[64];
  context *c = test_context(NULL);
  mapping *m;
  call_ctx cx;
  (void)state;
  int fd = mkstemp(path);
  assert_true(fd >= 0);
  close(fd);
  call_ctx_init(&cx, c, NULL);
  assert_int_equal(session_run(&cx, file_body, path), RUSH_OK);
  for (int copy = 0; copy < 2; copy++) {
    assert_int_equal(mapping_open(&cx, path, copy, &m), RUSH_OK);
    assert_int_equal(m->n_bytes, 3);
    assert_memory_equal(m->data, "new", 3);
    m->data[0] = 'x'; /* private mapping: the next round reads the file's bytes */
    mapping_release(m);
  }
  for (int i = 0; i < 2; i++) {
    snprintf(part, sizeof part, "%s.part%d", path, i);
    assert_int_not_equal(access(part, F_OK), 0);
  }
  unlink(path);
  assert_int_equal(mapping_open(&cx, path, false, &m), RUSH_EIO);
  assert_int_equal(mapping_open(&cx, "/", false, &m), RUSH_EIO);
  test_context_done(c);
}

/* Overwrite `path` with zeros of the same length while it is open: what was parsed before does not
 * change, what is parsed later is refused. */
static void change_body(session *s, void *arg)
{
  const char *path = arg;
  static const char zeros[4096];
  mapping *m;
  session_check(s, mapping_open(s->cx, path, false, &m));
  mapping_defer(s, m);
  zip_archive *z = zip_open(s, m, false);
  str before = zip_read(s, z, zip_need(s, z, "version"), NULL);
  char *was = session_strndup(s, before.p, before.len);
  int fd = open(path, O_WRONLY);
  assert_true(fd >= 0 && m->n_bytes <= sizeof zeros);
  assert_int_equal(write(fd, zeros, m->n_bytes), m->n_bytes);
  close(fd);
  assert_true(str_is(before, was));
  assert_non_null(zip_find(z, "code/f.py"));
  zip_read(s, z, zip_need(s, z, "version"), NULL); /* its CRC is another now */
}

static void records_stay_what_they_were_when_the_file_changes(void **state)
{
  char path[] = "/tmp/rushlight-test-XXXXXX";
  context *c = test_context(NULL);
  call_ctx cx;
  zip_build b;
  (void)state;
  build_good(&b, c);
  int fd = mkstemp(path);
  assert_true(fd >= 0);
  assert_int_equal(write(fd, b.file.data, b.file.len), b.file.len);
  close(fd);
  call_ctx_init(&cx, c, NULL);
  assert_int_equal(session_run(&cx, change_body, path), RUSH_EFORMAT);
  unlink(path);
  build_free(&b);
  test_context_done(c);
}

static void any_allocation_may_fail(void **state)
{
  context *c = test_context(NULL);
  zip_build b;
  (void)state;
  build_good(&b, c);
  rush_status last = RUSH_ENOMEM;
  OOM_LOOP(cx)
  {
    job j = {.bytes = {b.file.data, b.file.len}};
    text_init(&j.seen, cx.ctx);
    last = session_run(&cx, open_body, &j);
    assert_true(last == RUSH_OK || last == RUSH_ENOMEM);
    text_free(&j.seen);
  }
  assert_int_equal(last, RUSH_OK);
  build_free(&b);
  test_context_done(c);
}

int main(void)
{
  const struct CMUnitTest tests[] = {
      cmocka_unit_test(good_archives_are_read),
      cmocka_unit_test(every_truncation_is_refused),
      cmocka_unit_test(every_bit_flip_is_refused_or_harmless),
      cmocka_unit_test(bad_names_are_refused),
      cmocka_unit_test(duplicates_and_overlaps_are_refused),
      cmocka_unit_test(bombs_are_refused_before_memory_is_taken),
      cmocka_unit_test(headers_that_contradict_are_refused),
      cmocka_unit_test(zip64_tricks_are_refused),
      cmocka_unit_test(wide_sizes_are_checked),
      cmocka_unit_test(descriptors_must_agree),
      cmocka_unit_test(many_entries_on_one_record_are_refused),
      cmocka_unit_test(inflated_data_outlives_the_session),
      cmocka_unit_test(written_archives_are_aligned_and_read_back),
      cmocka_unit_test(files_appear_whole_or_not_at_all),
      cmocka_unit_test(records_stay_what_they_were_when_the_file_changes),
      cmocka_unit_test(any_allocation_may_fail),
  };
  return RUN_TESTS(tests);
}
