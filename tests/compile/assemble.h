/* assemble.h -- runs GNU as, for comparison. */
#ifndef TEST_COMPILE_ASSEMBLE_H
#define TEST_COMPILE_ASSEMBLE_H

#include <unistd.h>

/* Assemble the text with GNU as; return the number of bytes, or 0 if as is missing. */
static size_t assemble(const char *text, uint8_t *bytes, size_t cap)
{
  char dir[] = "/tmp/rush_asm_XXXXXX", command[600], path[100];
  size_t n = 0;
  if (system("as --version >/dev/null 2>&1 && objcopy --version >/dev/null 2>&1") != 0)
    return 0;
  assert_non_null(mkdtemp(dir));
  snprintf(path, sizeof path, "%s/in.s", dir);
  FILE *f = fopen(path, "w");
  assert_non_null(f);
  fprintf(f, ".intel_syntax noprefix\n%s", text);
  fclose(f);
  snprintf(command, sizeof command,
           "as --64 -o %s/out.o %s/in.s && objcopy -O binary -j .text %s/out.o %s/out.bin", dir,
           dir, dir, dir);
  assert_int_equal(system(command), 0);
  snprintf(path, sizeof path, "%s/out.bin", dir);
  f = fopen(path, "rb");
  assert_non_null(f);
  n = fread(bytes, 1, cap, f);
  fclose(f);
  snprintf(command, sizeof command, "rm -r %s", dir);
  assert_int_equal(system(command), 0);
  return n;
}

#endif
