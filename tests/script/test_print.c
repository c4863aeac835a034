/* Print graphs as TorchScript: function f of tests/script/code/NAME.py is printed as in NAME.txt
 * (RUSH_UPDATE=1 rewrites it), and the whole text, parsed again, prints the same. */
#include "support/bytes.h"
#include "support/test.h"

#include "rushlight/rushlight.h"

static const char *const names[] = {"branches", "containers", "forks",   "long_lines", "loops",
                                    "names",    "numbers",    "objects", "results"};

static const char *path_of(const char *name, const char *kind)
{
  static _Thread_local char path[4096];

  snprintf(path, sizeof path, "%s/../script/code/%s.%s", getenv("RUSH_TEST_DATA"), name, kind);
  return path;
}

static char *read_text(const char *path)
{
  FILE *f = fopen(path, "rb");
  if (!f)
    return NULL;
  char *text = calloc(1, 1 << 16);
  (void)!fread(text, 1, (1 << 16) - 1, f);
  fclose(f);
  return text;
}

static void compare(const char *name, const char *got)
{
  if (getenv("RUSH_UPDATE")) {
    FILE *f = fopen(path_of(name, "txt"), "wb");
    fputs(got, f);
    fclose(f);
  }
  char *want = read_text(path_of(name, "txt"));
  assert_non_null(want);
  if (strcmp(want, got) != 0)
    print_error("%s\n", name);
  assert_string_equal(got, want);
  free(want);
}

/* Open an archive of the module; return the content of its code. */
static rush_module *reload(rush_module *m)
{
  rush_save_options o = RUSH_SAVE_OPTIONS_INIT;
  bytes b = {NULL, 0};
  rush_error err = RUSH_ERROR_INIT;
  rush_module *again;

  o.write = gather;
  o.write_user = &b;
  if (rush_module_save(m, NULL, &o, &err) != RUSH_OK)
    fail_msg("%s", err.message);
  assert_int_equal(rush_module_load_bytes(NULL, b.p, b.n, NULL, NULL, NULL, &again, NULL), RUSH_OK);
  free(b.p);
  return again;
}

static void texts_print_and_read_again(void **state)
{
  (void)state;
  for (size_t i = 0; i < sizeof names / sizeof *names; i++) {
    rush_error err = RUSH_ERROR_INIT;
    rush_module *m;
    char *text = NULL, *again_text;
    if (rush_module_load(NULL, path_of(names[i], "py"), NULL, &m, &err) != RUSH_OK ||
        rush_module_dump(m, RUSH_DUMP_CODE, "f", &text, &err) != RUSH_OK)
      fail_msg("%s: %s", names[i], err.message);
    compare(names[i], text);
    rush_free_text(NULL, text);

    rush_module *again = reload(m), *third = reload(again);
    assert_int_equal(rush_module_dump(again, RUSH_DUMP_CODE, NULL, &text, &err), RUSH_OK);
    assert_int_equal(rush_module_dump(third, RUSH_DUMP_CODE, NULL, &again_text, &err), RUSH_OK);
    assert_string_equal(again_text, text);
    rush_free_text(NULL, again_text);
    rush_free_text(NULL, text);
    rush_module_release(third);
    rush_module_release(again);
    rush_module_release(m);
  }
}

int main(void)
{
  const struct CMUnitTest tests[] = {cmocka_unit_test(texts_print_and_read_again)};
  return cmocka_run_group_tests(tests, NULL, NULL);
}
