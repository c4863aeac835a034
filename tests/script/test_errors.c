/* Compare the whole message for each erroneous source: errors/NAME.py and errors/NAME.out.
 * RUSH_UPDATE=1 rewrites the .out files; review the difference. */
#include <dirent.h>
#include <stdarg.h>
#include <stddef.h>
#include <setjmp.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include <cmocka.h>

#include "archive/open.h"
#include "module/module.h"

static char *read_file(const char *path, size_t *n)
{
  FILE *f = fopen(path, "rb");
  char *text = calloc(1, 65536);

  *n = f ? fread(text, 1, 65535, f) : 0;
  if (f)
    fclose(f);
  return text;
}

/* Return the error of compiling f() of the text. */
static char *message_of(const char *name, const char *text, size_t n)
{
  rush_error err = RUSH_ERROR_INIT;
  rush_context *c;
  call_ctx cx;
  module *m;
  text_buf out;

  assert_int_equal(rush_context_create(NULL, &c, &err), RUSH_OK);
  call_ctx_init(&cx, c, &err);
  archive_source from = {.data = text, .n_bytes = n, .name = name};
  rush_status st = module_load(&cx, &from, &m);
  if (st == RUSH_OK) {
    text_init(&out, c);
    st = module_dump(&cx, m, RUSH_DUMP_GRAPH, "f", &out);
    text_free(&out);
    module_release(m);
  }
  char *copy = strdup(st == RUSH_OK ? "no error" : err.message);
  rush_error_clear(&err);
  rush_context_release(c);
  return copy;
}

static int is_source(const struct dirent *d)
{
  size_t n = strlen(d->d_name);
  return n > 3 && strcmp(d->d_name + n - 3, ".py") == 0;
}

static void whole_messages_are_as_written(void **state)
{
  char folder[2048], path[4200];
  struct dirent **names;
  const char *data = getenv("RUSH_TEST_DATA");
  size_t n;

  (void)state;
  snprintf(folder, sizeof folder, "%s/../script/errors", data ? data : "tests/data");
  int n_files = scandir(folder, &names, is_source, alphasort);
  assert_true(n_files >= 10);
  for (int i = 0; i < n_files; i++) {
    snprintf(path, sizeof path, "%s/%s", folder, names[i]->d_name);
    char *text = read_file(path, &n), *got = message_of(names[i]->d_name, text, n);
    strcpy(path + strlen(path) - 3, ".out");
    if (getenv("RUSH_UPDATE")) {
      FILE *f = fopen(path, "wb");
      fputs(got, f);
      fclose(f);
    }
    char *want = read_file(path, &n);
    if (strcmp(got, want) != 0)
      fail_msg("%s: got\n%s\nexpected\n%s", names[i]->d_name, got, want);
    free(want);
    free(text);
    free(got);
    free(names[i]);
  }
  free(names);
}

int main(void)
{
  const struct CMUnitTest tests[] = {cmocka_unit_test(whole_messages_are_as_written)};
  return cmocka_run_group_tests(tests, NULL, NULL);
}
