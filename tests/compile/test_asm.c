#include "support/test.h"

#include "assemble.h"
#include "compile/x86/asm.h"

/* Emit every instruction with low, middle and high registers, every kind of memory operand, masks
 * and broadcasts: the bytes equal those of tests/data/encodings.txt, and those of GNU as if it is
 * installed. RUSH_UPDATE=1 in the environment rewrites the file (as must agree). */

typedef struct listing {
  x86_asm a;
  text_buf text;
  size_t starts[8192]; /* of lines, in bytes of code */
  int n;
} listing;

static bool register_only(x86_op op)
{
  const x86_row *row = &x86_rows[op];
  if (row->operands[0] == 'K' && op != X86_KMOVW && op != X86_KMOVW_ST)
    return op != X86_VCMPPS_K && op != X86_VPTESTMB;
  return op == X86_VPMOVM2B || op == X86_VMOVMSKPS || op == X86_VCVTPD2PS || op == X86_VPSLLD ||
         op == X86_VPSRAD ||
         (row->encodings == 0 && op != X86_LEA && op != X86_MOV && op != X86_MOVB &&
          op != X86_MOVB_ST);
}
static bool memory_only(x86_op op)
{
  switch (op) {
  case X86_VMOVUPS_ST:
  case X86_VMOVAPS_ST:
  case X86_VMOVNTPS:
  case X86_VMASKMOVPS:
  case X86_VMASKMOVPS_ST:
  case X86_VMOVDQU8_ST:
  case X86_VMOVQ_ST:
  case X86_KMOVW_ST:
  case X86_LEA:
  case X86_MOV:
  case X86_MOVB:
  case X86_MOVB_ST:
    return true;
  default:
    return false;
  }
}

static void line(listing *l, const x86_ins *i)
{
  assert_true(l->n < (int)COUNT_OF(l->starts));
  l->starts[l->n++] = l->a.len;
  x86_emit(&l->a, i);
  x86_print(&l->text, i, (int64_t)l->a.len);
  text_putc(&l->text, '\n');
}

/* Make operands with registers from `base` on; small numbers for kinds that have few registers. */
static x86_ins with_registers(x86_op op, int vl, int base)
{
  const x86_row *row = &x86_rows[op];
  x86_ins i = {
    .op = (uint8_t)op, .vl = (uint8_t)vl, .imm = row->operands[1] == 'm' && base > 8 ? 0x1234 : 13};
  for (int k = 0; row->operands[2 * k]; k++) {
    int r = base + 3 * k;
    switch (row->operands[2 * k]) {
    case 'K':
      r = 1 + (r & 3) + k;
      break;
    case 'G':
      r = 1 + (r + 1) % 15;
      break;
    case 'D':
      r %= 8;
      break;
    case 'B':
      r %= 4;
      break;
    }
    i.r[k] = (uint8_t)r;
    if (row->operands[2 * k] == 'I')
      i.imm = row->operands[2 * k + 1] == 'd' ? 0x12345 : 5;
  }
  if (row->flags & X86_SELECT)
    i.mask = (uint8_t)(2 + (base & 3));
  return i;
}

static void memory_forms(listing *l, x86_ins i, size_t step, bool broadcast)
{
  static const x86_mem forms[] = {
    {.base = RAX, .index = X86_NONE},
    {.base = RSP, .index = X86_NONE, .disp = 64},
    {.base = R13, .index = X86_NONE},
    {.base = R12, .index = X86_NONE, .disp = 12},
    {.base = RIP, .index = X86_NONE, .disp = 0x40},
    {.base = R9, .index = RDX, .shift = 2, .disp = 0x1c0},
    {.base = RBP, .index = R10, .shift = 0, .disp = -0x12340},
    {.base = R15, .index = R15, .shift = 3, .disp = -4},
  };
  const x86_row *row = &x86_rows[i.op];
  int at = 0;
  while (row->operands[2 * at + 1] != 'm')
    at++;
  i.r[at] = X86_MEM;
  for (size_t k = 0; k < COUNT_OF(forms); k += step) {
    i.mem = forms[k];
    i.mem.broadcast = broadcast;
    line(l, &i);
  }
}

static void forms_at(listing *l, x86_op op, int vl)
{
  const x86_row *row = &x86_rows[op];
  bool high = row->encodings & 2, vector = row->operands[0] == 'V' || row->operands[2] == 'V';
  for (int base = 0; base <= (high && vector ? 22 : 6); base += base < 6 ? 3 : 8) {
    x86_ins i = with_registers(op, vl, base);
    if (!memory_only(op))
      line(l, &i);
    if (!register_only(op) && base == 3)
      memory_forms(l, i, vl == VL512 || !(high && vector) ? 1 : 2, false);
    if (!register_only(op) && base == 22 && vl == VL512)
      memory_forms(l, i, 5, false);
    if (!register_only(op) && high && row->tuple == TUPLE_FULL && base == 6)
      memory_forms(l, i, 4, true);
  }
}

static void all_forms(listing *l)
{
  for (x86_op op = 0; op < N_X86_OPS; op++) {
    const x86_row *row = &x86_rows[op];
    bool vector = strchr(row->operands, 'V') != NULL;
    if (!vector)
      forms_at(l, op, VL128);
    bool only_512 = op == X86_VEXTRACTF64X4 || op == X86_VINSERTF64X4;
    for (int vl = row->encodings == 1 ? VL256 : VL128;
         vector && vl <= (row->encodings == 1 ? VL256 : VL512); vl++)
      if (vl == VL512 || !(only_512 || (op == X86_VBROADCASTSD && vl == VL128)))
        forms_at(l, op, vl);
  }
  static const x86_op masked[] = {X86_VMOVUPS, X86_VMOVUPS_ST, X86_VMOVDQU8, X86_VMOVDQU8_ST,
                                  X86_VADDPS};
  for (size_t k = 0; k < COUNT_OF(masked); k++)
    for (int zero = 0; zero < 2; zero++) {
      x86_ins i = with_registers(masked[k], k & 1 ? VL128 : VL512, 5);
      i.mask = (uint8_t)(1 + k);
      i.zero = zero && x86_rows[masked[k]].operands[1] == 'r';
      memory_forms(l, i, 1, false);
    }
}

static const char *line_text(const char *text, int n, size_t *len)
{
  while (n-- > 0)
    text = strchr(text, '\n') + 1;
  *len = (size_t)(strchr(text, '\n') - text);
  return text;
}

static void compare(const listing *l, const uint8_t *bytes, size_t n, const char *who)
{
  for (int k = 0; k < l->n; k++) {
    size_t from = l->starts[k], to = k + 1 < l->n ? l->starts[k + 1] : l->a.len, len;
    if (to <= n && !memcmp(bytes + from, l->a.bytes + from, to - from))
      continue;
    const char *text = line_text(text_str(&l->text), k, &len);
    printf("%.*s: ours", (int)len, text);
    for (size_t b = from; b < to; b++)
      printf(" %02x", l->a.bytes[b]);
    printf(", %s's", who);
    for (size_t b = from; b < to + 2 && b < n; b++)
      printf(" %02x", bytes[b]);
    fail_msg("\n");
  }
  assert_int_equal(n, l->a.len);
}

static char *golden_path(char *path, size_t n)
{
  const char *dir = getenv("RUSH_TEST_DATA");
  snprintf(path, n, "%s/encodings.txt", dir ? dir : "tests/data");
  return path;
}

static void write_golden(const listing *l)
{
  char path[1000];
  FILE *f = fopen(golden_path(path, sizeof path), "w");
  assert_non_null(f);
  for (int k = 0; k < l->n; k++) {
    size_t to = k + 1 < l->n ? l->starts[k + 1] : l->a.len, len;
    const char *text = line_text(text_str(&l->text), k, &len);
    for (size_t b = l->starts[k]; b < to; b++)
      fprintf(f, "%02x", l->a.bytes[b]);
    fprintf(f, " %.*s\n", (int)len, text);
  }
  fclose(f);
}

static size_t read_golden(uint8_t *bytes, size_t cap)
{
  char path[1000], row[200];
  size_t n = 0;
  FILE *f = fopen(golden_path(path, sizeof path), "r");
  assert_non_null(f);
  while (fgets(row, sizeof row, f))
    for (char *p = row; *p != ' ' && n < cap; p += 2) {
      unsigned b;
      assert_int_equal(sscanf(p, "%2x", &b), 1);
      bytes[n++] = (uint8_t)b;
    }
  fclose(f);
  return n;
}

static void every_encoding_is_the_assemblers(void **state)
{
  (void)state;
  context *c = test_context(&(context_options){0});
  listing *l = calloc(1, sizeof *l);
  uint8_t *bytes = malloc(1 << 20);
  x86_init(&l->a, c, NULL);
  text_init(&l->text, c);
  all_forms(l);
  assert_false(x86_failed(&l->a));
  size_t n = assemble(text_str(&l->text), bytes, 1 << 20);
  if (n)
    compare(l, bytes, n, "as");
  else
    printf("skipped: no binutils, only the recorded bytes are compared\n");
  if (n && getenv("RUSH_UPDATE"))
    write_golden(l);
  compare(l, bytes, read_golden(bytes, 1 << 20), "the file");
  text_free(&l->text);
  x86_free(&l->a);
  free(bytes);
  free(l);
  test_context_done(c);
}

int main(void)
{
  const struct CMUnitTest tests[] = {cmocka_unit_test(every_encoding_is_the_assemblers)};
  return RUN_TESTS(tests);
}
