/* Common functions of the targets: contexts whose memory is counted, archives packed from sections,
 * uses of loaded programs and values. */
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "fuzz.h"

#include "base/clock.h"
#include "formats/zip_write.h"
#include "tensor/tensor.h"

enum { MAX_SECTIONS = 32, MAX_PATH_BYTES = 200 };

void fuzz_demand(bool good, const char *what)
{
  if (!good) {
    fprintf(stderr, "fuzz: %s\n", what);
    abort();
  }
}

void fuzz_same_text(const char *once, const char *twice)
{
  if (strcmp(once, twice) != 0)
    fprintf(stderr, "fuzz: read and printed once:\n%s\nread and printed again:\n%s\n", once, twice);
  fuzz_demand(strcmp(once, twice) == 0, "a text does not come back");
}

void fuzz_check_error(rush_status st, const rush_error *err)
{
  if (st != RUSH_OK && (!err->message || !err->message[0] || !err->type || st == RUSH_EINTERNAL))
    fprintf(stderr, "fuzz: status %d: %s\n", (int)st, err->message ? err->message : "(no message)");
  fuzz_demand(st == err->status, "the error and the status differ");
  fuzz_demand(st == RUSH_OK || (err->message && err->message[0] && err->type),
              "a failure without a message");
  fuzz_demand(st != RUSH_EINTERNAL, "our fault");
}

/* -- Contexts ---------------------------------------------------------------------------------- */

static void *count_alloc(void *user, size_t n)
{
  fuzz_counter *c = user;

  if (c->n_allocations++ == c->fail_at)
    return NULL;
  /* Aligned as data is, so that nothing is behind it: the sanitizer detects each access beyond. */
  void *p = NULL;
  if (posix_memalign(&p, 64, n) != 0)
    return NULL;
  c->n_blocks++;
  return p;
}

static void count_free(void *user, void *p, size_t n)
{
  (void)n;
  ((fuzz_counter *)user)->n_blocks -= p != NULL;
  free(p);
}

__attribute__((weak)) void __lsan_do_leak_check(void); /* there in builds with sanitizers */

static void swallow(void *user, const char *text, size_t n)
{
  (void)user;
  (void)text;
  (void)n;
}
static void swallow_warning(void *user, const char *text)
{
  (void)user;
  (void)text;
}

typedef struct job {
  fuzz_body *body;
  str text;
} job;

static void run_job(session *s, void *arg)
{
  job *j = arg;
  j->body(s, j->text);
}

static bool is_verbose;

void fuzz_show_errors(void) { is_verbose = true; }
bool fuzz_is_verbose(void) { return is_verbose; }

context_options fuzz_options(fuzz_counter *count)
{
  return (context_options){.allocator = {count_alloc, count_free, count},
                           .limit_bytes = (size_t)256 << 20,
                           .limit_depth = 400,
                           .limit_seconds = 2,
                           .n_threads = 1,
                           .no_cache = true,
                           .print = swallow,
                           .warn = swallow_warning};
}

void fuzz_check_blocks(const fuzz_counter *count)
{
  if (count->n_blocks != 0 && __lsan_do_leak_check)
    __lsan_do_leak_check(); /* prints where it was allocated, and exits */
  fuzz_demand(count->n_blocks == 0, "memory is held after the context");
}

static long run_once(job *j, long fail_at)
{
  fuzz_counter count = {.fail_at = fail_at};
  context_options opt = fuzz_options(&count);
  rush_error err = RUSH_ERROR_INIT;
  context *c = NULL;
  call_ctx cx;

  if (context_new(&opt, &c, &err) != RUSH_OK) {
    rush_error_clear(&err);
    return 0;
  }
  rush_status st = run_init(c, &err);
  call_ctx_init(&cx, c, &err);
  if (st == RUSH_OK)
    st = session_run(&cx, run_job, j);
  fuzz_check_error(st, &err);
  if (is_verbose && st != RUSH_OK)
    fprintf(stderr, "%s\n", err.message);
  rush_error_clear(&err);
  context_release(c);
  if (count.n_blocks != 0)
    fprintf(stderr, "fuzz: %ld blocks (allocation %ld of %ld failed)\n", (long)count.n_blocks,
            fail_at, (long)count.n_allocations);
  fuzz_check_blocks(&count);
  return count.n_allocations;
}

/* How many allocations fail in turn, spread over all of them; 0: one, for some inputs. */
static long n_failures;

void fuzz_fail_allocations(long n) { n_failures = n; }
long fuzz_n_failures(void) { return n_failures; }

void fuzz_session(const uint8_t *data, size_t n, fuzz_body *body)
{
  job j = {body, {n ? (const char *)data : "", n}};
  uint64_t hash = UINT64_C(14695981039346656037);

  for (size_t i = 0; i < n; i++)
    hash = (hash ^ data[i]) * UINT64_C(1099511628211);
  long n_allocations = run_once(&j, -1);
  hash ^= hash >> 29;
  for (long i = 0; i < n_failures && i < n_allocations; i++)
    run_once(&j, n_failures >= n_allocations
                   ? i
                   : (long)((double)i / (double)n_failures * (double)n_allocations));
  if (n_failures == 0 && hash % 4 == 0 && n_allocations > 0)
    run_once(&j, (long)((hash >> 8) % (uint64_t)n_allocations));
}

/* -- Archives of sections ---------------------------------------------------------------------- */

/* Return the start of the next "\n@@" at or after p, or the end. */
static const char *next_section(const char *p, const char *end)
{
  for (; p + 3 <= end; p++)
    if (p[0] == '\n' && p[1] == '@' && p[2] == '@')
      return p;
  return end;
}

str fuzz_main(str text)
{
  return (str){text.p, (size_t)(next_section(text.p, text.p + text.len) - text.p)};
}

static bool was_written(const fuzz_record *done, size_t n, const char *path)
{
  for (size_t i = 0; i < n; i++)
    if (strcmp(done[i].path, path) == 0)
      return true;
  return false;
}

static size_t split(session *s, str text, fuzz_record *out)
{
  const char *end = text.p + text.len, *p = next_section(text.p, end);
  size_t n = 0;

  while (p < end && n < MAX_SECTIONS) {
    const char *name = p + 3, *line = memchr(name, '\n', (size_t)(end - name));
    if (!line)
      break;
    p = next_section(line, end);
    size_t len = (size_t)(line - name);
    const char *path = session_strndup(s, name, len);
    if (len == 0 || len > MAX_PATH_BYTES || strlen(path) != len || was_written(out, n, path))
      continue;
    out[n++] =
      (fuzz_record){path, {p > line ? line + 1 : line, p > line ? (size_t)(p - line - 1) : 0}};
  }
  return n;
}

str fuzz_pack(session *s, const char *main, str text, const fuzz_record *defaults,
              size_t n_defaults)
{
  fuzz_record *all = session_array(s, fuzz_record, MAX_SECTIONS + 1);
  text_buf *packed = session_new(s, text_buf);
  size_t n = 1;

  all[0] = (fuzz_record){main, fuzz_main(text)};
  fuzz_record *rest = session_array(s, fuzz_record, MAX_SECTIONS);
  size_t n_rest = split(s, text, rest);
  for (size_t i = 0; i < n_rest; i++)
    if (strcmp(rest[i].path, main) != 0)
      all[n++] = rest[i];
  text_init(packed, s->cx->ctx);
  session_defer(s, (void (*)(void *))text_free, packed);
  output out = output_to_text(packed);
  zip_writer *z = zip_writer_new(s, &out, "m");
  for (size_t i = 0; i < n; i++)
    zip_write(z, all[i].path, all[i].bytes.p, all[i].bytes.len);
  for (size_t i = 0; i < n_defaults; i++)
    if (!was_written(all, n, defaults[i].path))
      zip_write(z, defaults[i].path, defaults[i].bytes.p, defaults[i].bytes.len);
  zip_finish(z);
  return (str){packed->data, packed->len};
}

/* -- Uses -------------------------------------------------------------------------------------- */

static void release_module(void *m) { module_release(m); }

/* Return a context with its own error for a call: a failure's traceback may need the archive
 * (debug_pkl). */
static call_ctx inner_call(session *s, rush_error *err)
{
  call_ctx cx = *s->cx;
  cx.err = err;
  return cx;
}

/* Make an exported program of the call that was just made. */
static void export_call(session *s, module *m, const char *method, const rush_value *arg,
                        uint32_t n_args, uint32_t ms)
{
  static const capture_dim any = {.dim = 0, .least = 0, .most = CAPTURE_AUTO_RANGE};
  const capture_options options = {.dims = &any, .n_dims = 1};
  rush_error err = RUSH_ERROR_INIT;
  call_ctx cx = inner_call(s, &err);
  module *made;

  if (ms)
    cx.deadline_ns = clock_ns() + ms * UINT64_C(1000000);
  const rush_status st = module_export(&cx, m, method, arg, n_args, NULL, 0, &options, &made);
  if (st == RUSH_OK)
    module_release(made);
  fuzz_check_error(st, &err);
  rush_error_clear(&err);
}

/* Call all methods, and export TorchScript's.  ms: how long each call may take; 0: as long as the
 * context allows. */
static void call_methods(session *s, module *m, uint32_t ms)
{
  static float image[64];
  static const int64_t sizes[4] = {1, 1, 8, 8};
  storage *st;
  rush_tensor *t;

  session_check(s, storage_new(s->cx, sizeof image, &st));
  rush_status made =
    tensor_new_view(s->cx, st, RUSH_FLOAT32, 4, sizes, (const int64_t[]){64, 64, 8, 1}, 0, &t);
  if (made == RUSH_OK)
    memset(st->data, 0, sizeof image);
  storage_release(st);
  session_check(s, made);
  rush_value args[] = {value_int(1), value_tensor_steal(t), value_none()}, result;
  for (uint32_t i = 0; i < module_n_methods(m); i++)
    for (uint32_t k = 0; k < COUNT_OF(args); k++) {
      rush_error err = RUSH_ERROR_INIT;
      call_ctx cx = inner_call(s, &err);
      if (ms)
        cx.deadline_ns = clock_ns() + ms * UINT64_C(1000000);
      rush_status done =
        module_call(&cx, m, module_method_name(m, i), &args[k], k < 2, NULL, 0, &result);
      if (done == RUSH_OK)
        value_release(result);
      fuzz_check_error(done, &err);
      rush_error_clear(&err);
      if (!m->exported)
        export_call(s, m, module_method_name(m, i), &args[k], k < 2, ms);
    }
  value_release(args[1]);
}

void fuzz_use_module(session *s, str bytes, const char *name, bool check_full, bool run)
{
  archive_source from = {
    .data = bytes.p, .n_bytes = bytes.len, .name = name, .check_full = check_full};
  rush_status st = RUSH_ENOMEM;
  text_buf out;
  module *m;

  session_check(s, module_load(s->cx, &from, &m));
  session_defer(s, release_module, m);
  for (int i = 0; i < 2 && st != RUSH_OK;
       i++) { /* after a failure again: nothing may be half done */
    rush_error err = RUSH_ERROR_INIT;
    call_ctx cx = inner_call(s, &err);
    text_init(&out, s->cx->ctx);
    st = module_dump(&cx, m, RUSH_DUMP_OPS, NULL, &out);
    text_free(&out);
    fuzz_check_error(st, &err);
    rush_error_clear(&err);
  }
  if (run)
    call_methods(s, m, 0);
}

void fuzz_show_module(session *s, module *m, uint32_t ms)
{
  static const rush_dump shows[] = {RUSH_DUMP_CODE, RUSH_DUMP_JSON};

  for (size_t i = 0; i < COUNT_OF(shows); i++) {
    rush_error err = RUSH_ERROR_INIT;
    call_ctx cx = inner_call(s, &err);
    text_buf out;
    text_init(&out, s->cx->ctx);
    rush_status st = module_dump(&cx, m, shows[i], NULL, &out);
    text_free(&out);
    fuzz_check_error(st, &err);
    rush_error_clear(&err);
  }
  call_methods(s, m, ms);
}

void fuzz_use_value(session *s, str bytes, const char *name)
{
  archive_source from = {.data = bytes.p, .n_bytes = bytes.len, .name = name};
  rush_value v;

  session_check(s, value_load(s->cx, &from, &v));
  value_release(v);
}
