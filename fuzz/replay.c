/* replay [-v] [-mN] [-oN[,SEED]] PATH...: run saved inputs through the fuzz targets, without
 * libFuzzer.  A path is a file or a folder; the folder that an input is in names its target
 * (tests/data/fuzz/zip/...).  -v prints each input and its error; -mN runs it N more times, with
 * failing allocations.  -oN makes N new inputs of `operators` and runs them; one that ends by a
 * signal is left in the file operators-crash.  Only a crash stops the program. */
#include "fuzz.h"

#include <dirent.h>
#include <signal.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>

static const struct {
  const char *name;
  fuzz_target *run;
} targets[] = {{"zip", fuzz_zip},         {"pickle", fuzz_pickle},      {"model", fuzz_model},
               {"source", fuzz_source},   {"schema", fuzz_schema},      {"ir", fuzz_ir},
               {"archive", fuzz_archive}, {"operators", fuzz_operators},
               {"export", fuzz_export}};

typedef struct replay {
  size_t n_inputs, n_unknown;
  bool verbose;
} replay;

static bool read_file(const char *path, uint8_t **data, size_t *n)
{
  FILE *f = fopen(path, "rb");
  struct stat st;

  *data = NULL;
  if (!f || fstat(fileno(f), &st) != 0)
    return false;
  *data = malloc((size_t)st.st_size + 1);
  *n = *data ? fread(*data, 1, (size_t)st.st_size, f) : 0;
  fclose(f);
  return *data != NULL;
}

static void run_file(replay *r, const char *folder, const char *path)
{
  uint8_t *data;
  size_t n;

  for (size_t i = 0; i < COUNT_OF(targets); i++) {
    if (strcmp(targets[i].name, folder) != 0 || !read_file(path, &data, &n))
      continue;
    if (r->verbose)
      fprintf(stderr, "%s\n", path);
    targets[i].run(data, n);
    free(data);
    r->n_inputs++;
    return;
  }
  fprintf(stderr, "replay: %s: no target '%s', or not readable\n", path, folder);
  r->n_unknown++;
}

static const char *last_part(const char *path)
{
  const char *slash = strrchr(path, '/');
  return slash ? slash + 1 : path;
}

static void run_path(replay *r, const char *folder, const char *path)
{
  char inside[4096];
  struct stat st;

  if (stat(path, &st) != 0 || !S_ISDIR(st.st_mode)) {
    run_file(r, folder, path);
    return;
  }
  DIR *d = opendir(path);
  for (struct dirent *e; d && (e = readdir(d));) {
    if (e->d_name[0] == '.')
      continue;
    snprintf(inside, sizeof inside, "%s/%s", path, e->d_name);
    run_path(r, last_part(path), inside);
  }
  if (d)
    closedir(d);
}

/* -- New calls --------------------------------------------------------------------------------- */

static struct {
  uint8_t bytes[1024];
  size_t n;
} current;

static void keep_input(int number)
{
  FILE *f = fopen("operators-crash", "wb");
  if (f) {
    fwrite(current.bytes, 1, current.n, f);
    fclose(f);
  }
  signal(number, SIG_DFL);
  raise(number);
}

/* Make new inputs and run them; text: "N" or "N,SEED". */
static void run_new(replay *r, const char *text)
{
  static const int signals[] = {SIGSEGV, SIGBUS, SIGFPE, SIGILL, SIGABRT};
  const char *comma = strchr(text, ',');
  uint64_t seed = comma ? strtoull(comma + 1, NULL, 10) : 1;
  for (size_t i = 0; i < COUNT_OF(signals); i++)
    signal(signals[i], keep_input);
  for (long i = atol(text); i > 0; i--) {
    current.n = fuzz_operators_new(current.bytes, sizeof current.bytes, &seed);
    fuzz_operators(current.bytes, current.n);
    r->n_inputs++;
  }
  for (size_t i = 0; i < COUNT_OF(signals); i++)
    signal(signals[i], SIG_DFL);
}

int main(int argc, char **argv)
{
  replay r = {0};

  for (int i = 1; i < argc; i++) {
    char folder[4096];
    if (strcmp(argv[i], "-v") == 0) {
      r.verbose = true;
      fuzz_show_errors();
      continue;
    }
    if (strncmp(argv[i], "-m", 2) == 0) {
      fuzz_fail_allocations(atol(argv[i] + 2));
      continue;
    }
    if (strncmp(argv[i], "-o", 2) == 0) {
      run_new(&r, argv[i] + 2);
      continue;
    }
    snprintf(folder, sizeof folder, "%s", argv[i]);
    char *slash = strrchr(folder, '/');
    if (slash)
      *slash = 0;
    run_path(&r, last_part(folder), argv[i]);
  }
  printf("%zu inputs replayed\n", r.n_inputs);
  return r.n_unknown == 0 && r.n_inputs > 0 ? 0 : 1;
}
