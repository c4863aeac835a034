/* compile/x86/asm.c -- the assembler: from an instruction and its row of instr.def to bytes, and to
 * text for listings. Fields of VEX, EVEX and legacy prefixes are computed from the row, so that
 * there is no code per instruction. The shortest encoding is chosen, as GNU as does, so that the
 * tests can compare bytes. Failed growth is kept in the buffer and checked at the end. */
#include "compile/x86/asm.h"

enum { LEGACY, VEX = 1, EVEX = 2, BOTH = 3 };
#define FULL TUPLE_FULL
#define ALL TUPLE_ALL
#define HALF TUPLE_HALF
#define QUARTER TUPLE_QUARTER
#define ONE8 TUPLE_ONE8
#define ONE4 TUPLE_ONE4
#define ONE1 TUPLE_ONE1
#define E 2
#define SWAP X86_SWAP
#define SELECT X86_SELECT

const x86_row x86_rows[N_X86_OPS] = {
#define OP(name, text_, encodings_, map_, pp_, w_, opcode_, digit_, operands_, memory_, flags_) \
  [X86_##name] = {.text = text_,                                                                \
                  .operands = operands_,                                                        \
                  .digit = digit_,                                                              \
                  .encodings = encodings_,                                                      \
                  .map = map_,                                                                  \
                  .pp = pp_,                                                                    \
                  .w = w_,                                                                      \
                  .opcode = opcode_,                                                            \
                  .tuple = memory_,                                                             \
                  .flags = flags_},
#include "compile/x86/instr.def"
#undef OP
};

/* -- The buffer -------------------------------------------------------------------------------- */

#define FIRST_CAP 4096

void x86_init(x86_asm *a, context *c, text_buf *listing)
{
  *a = (x86_asm){.ctx = c, .listing = listing};
  memset(a->labels, -1, sizeof a->labels);
}

void x86_free(x86_asm *a) { mem_free(a->ctx, a->bytes, a->cap); }

/* Make room for one more instruction. */
static bool room(x86_asm *a, size_t n)
{
  if (a->failed)
    return false;
  if (LIKELY(a->cap - a->len >= n))
    return true;
  size_t cap = a->cap ? a->cap * 2 : FIRST_CAP;
  while (cap - a->len < n)
    cap *= 2;
  uint8_t *p = cap <= INT32_MAX / 2 ? mem_realloc(a->ctx, a->bytes, a->cap, cap) : NULL;
  if (!p) {
    a->failed = true;
    return false;
  }
  a->bytes = p;
  a->cap = cap;
  return true;
}

static inline void byte(x86_asm *a, unsigned b)
{
  ASSERT(b <= 0xff && a->len < a->cap, "a byte too large, or without room");
  a->bytes[a->len++] = (uint8_t)b;
}
static void dword(x86_asm *a, int32_t v)
{
  ASSERT(a->len + 4 <= a->cap, "bytes without room");
  memcpy(a->bytes + a->len, &v, 4);
  a->len += 4;
}

static void list(x86_asm *a, size_t from, const char *fmt, ...) RUSH_PRINTF(3, 4);
static void list_start(x86_asm *a, size_t from)
{
  text_printf(a->listing, "%5zx  ", from);
  for (size_t i = from; i < from + 11 || i < a->len; i++)
    if (i < a->len)
      text_printf(a->listing, "%02x", (a->known ? a->known : a->bytes)[i]);
    else
      text_puts(a->listing, "  ");
  text_puts(a->listing, "  ");
}
static void list(x86_asm *a, size_t from, const char *fmt, ...)
{
  if (!a->listing)
    return;
  va_list ap;
  va_start(ap, fmt);
  list_start(a, from);
  text_vprintf(a->listing, fmt, ap);
  text_putc(a->listing, '\n');
  va_end(ap);
}

/* -- Encoding ---------------------------------------------------------------------------------- */

typedef struct fields {   /* of one instruction, found by its row's operands */
  unsigned reg, vvvv, rm; /* rm: X86_MEM for memory */
  int is4;                /* register in the immediate's upper half, or -1 */
  int n_imm;              /* bytes */
  unsigned length;        /* VEX.L or EVEX.L'L */
} fields;

static fields fields_of(const x86_ins *i, const x86_row *row)
{
  fields f = {.is4 = -1, .reg = row->digit >= 0 ? (unsigned)row->digit : 0};
  for (int k = 0; row->operands[2 * k]; k++) {
    char what = row->operands[2 * k], where = row->operands[2 * k + 1];
    /* of the instructions on masks, those with three operands have L = 1 */
    f.length |= what == 'V' ? i->vl : what == 'Y' || (what == 'K' && where == 'v') ? 1 : 0;
    switch (where) {
    case 'r':
      f.reg = i->r[k];
      break;
    case 'v':
      f.vvvv = i->r[k];
      break;
    case 'm':
      f.rm = i->r[k];
      break;
    case '4':
      f.is4 = i->r[k];
      f.n_imm = 1;
      break;
    case 'b':
      f.n_imm = 1;
      break;
    case 'd':
      f.n_imm = 4;
      break;
    }
  }
  return f;
}

/* Return the shift by which `row`, at its length, scales displacements; 0: none. */
static int disp_shift(const x86_ins *i, const x86_row *row)
{
  if (i->mem.broadcast)
    return row->w ? 3 : 2;
  if (row->tuple == TUPLE_ONE8 || row->tuple == TUPLE_ONE4)
    return row->tuple == TUPLE_ONE8 ? 3 : 2;
  if (row->tuple == TUPLE_ONE1)
    return 0;
  int full = 4 + i->vl;
  return row->tuple == TUPLE_HALF ? full - 1 : row->tuple == TUPLE_QUARTER ? full - 2 : full;
}

/* Append ModRM, SIB, displacement.  shift: of 8-bit displacements. */
static void operand(x86_asm *a, const x86_ins *i, const fields *f, int shift)
{
  unsigned reg = (f->reg & 7) << 3;
  const x86_mem *m = &i->mem;
  ASSERT(f->rm == X86_MEM || f->rm < 32, "no such register");
  ASSERT(m->index != RSP && m->shift < 4, "an index that cannot be encoded");

  if (f->rm != X86_MEM) {
    byte(a, 0xc0 | reg | (f->rm & 7));
    return;
  }
  if (m->base == RIP) {
    byte(a, reg | 5);
    dword(a, m->disp - (int32_t)(a->len + 4 + (size_t)f->n_imm));
    return;
  }
  int32_t small = m->disp >> shift;
  bool fits = small * (1 << shift) == m->disp && small >= -128 && small <= 127;
  unsigned mod = m->disp == 0 && (m->base & 7) != RBP ? 0 : fits ? 0x40 : 0x80;
  if (m->index != X86_NONE || (m->base & 7) == RSP) {
    unsigned index = m->index == X86_NONE ? RSP : m->index;
    byte(a, mod | reg | 4);
    byte(a, (unsigned)m->shift << 6 | (index & 7) << 3 | (m->base & 7));
  } else {
    byte(a, mod | reg | (m->base & 7));
  }
  if (mod == 0x40)
    byte(a, (unsigned)small & 0xff);
  else if (mod == 0x80)
    dword(a, m->disp);
}

/* Return bit 3 (or 4) of a register field, inverted and at its place. */
static inline unsigned not_bit(unsigned r, int bit, int place) { return (~r >> bit & 1) << place; }

static void vex(x86_asm *a, const x86_row *row, const fields *f, unsigned b, unsigned x)
{
  ASSERT(f->reg < 16 && f->vvvv < 16 && f->length < VL512, "only EVEX has such operands");
  unsigned tail = (~f->vvvv & 15) << 3 | f->length << 2 | row->pp;
  if (b < 8 && x < 8 && row->w != 1 && row->map == 1) {
    byte(a, 0xc5);
    byte(a, not_bit(f->reg, 3, 7) | tail);
  } else {
    byte(a, 0xc4);
    byte(a, not_bit(f->reg, 3, 7) | not_bit(x, 3, 6) | not_bit(b, 3, 5) | row->map);
    byte(a, (row->w == 1) << 7 | tail);
  }
}

static void evex(x86_asm *a, const x86_ins *i, const x86_row *row, const fields *f, unsigned b,
                 unsigned x)
{
  ASSERT(row->encodings & EVEX, "the instruction has no EVEX form");
  ASSERT(i->mask < 8 && f->length <= VL512, "no such mask or length");
  if (f->rm != X86_MEM)
    x = f->rm >> 1; /* X is the register's bit 4 */
  byte(a, 0x62);
  byte(a, not_bit(f->reg, 3, 7) | not_bit(x, 3, 6) | not_bit(b, 3, 5) | not_bit(f->reg, 4, 4) |
            row->map);
  byte(a, (row->w != 0) << 7 | (~f->vvvv & 15) << 3 | 4 | row->pp);
  byte(a, (unsigned)i->zero << 7 | f->length << 5 | (unsigned)i->mem.broadcast << 4 |
            not_bit(f->vvvv, 4, 3) | i->mask);
}

static void rex(x86_asm *a, const x86_row *row, const fields *f, unsigned b, unsigned x)
{
  unsigned bits = (unsigned)row->w << 3 | (f->reg >> 3 & 1) << 2 | (x >> 3 & 1) << 1 | (b >> 3 & 1);
  if (bits)
    byte(a, 0x40 | bits);
}

/* Between registers, a move to a low register from a high one is shorter as a store. */
static void shorten_move(x86_ins *i)
{
  bool move = i->op == X86_VMOVAPS || i->op == X86_VMOVUPS;
  if (move && i->vl < VL512 && i->r[0] < 8 && i->r[1] >= 8 && i->r[1] < 16)
    i->op++; /* its store */
}

static void list_ins(x86_asm *a, size_t from, const x86_ins *i)
{
  list_start(a, from);
  x86_print(a->listing, i, (int64_t)a->len);
  text_putc(a->listing, '\n');
}

void x86_emit(x86_asm *a, const x86_ins *given)
{
  x86_ins ins = *given, *i = &ins;
  ASSERT(given->op < N_X86_OPS, "no such instruction");
  if (!room(a, 16))
    return;
  shorten_move(i);
  const x86_row *row = &x86_rows[i->op];
  fields f = fields_of(i, row);
  bool mem = f.rm == X86_MEM;
  unsigned b = !mem ? f.rm : i->mem.base == RIP ? 0 : i->mem.base;
  unsigned x = mem && i->mem.index != X86_NONE ? i->mem.index : 0;
  bool high = f.reg >= 16 || f.vvvv >= 16 || (!mem && f.rm >= 16);
  bool long_form =
    !(row->encodings & VEX) || f.length == VL512 || high || i->mask || i->mem.broadcast;
  size_t from = a->len;

  if (row->encodings == LEGACY)
    rex(a, row, &f, b, x);
  else if (long_form)
    evex(a, i, row, &f, b, x);
  else
    vex(a, row, &f, b, x);
  byte(a, row->opcode);
  operand(a, i, &f, row->encodings != LEGACY && long_form ? disp_shift(i, row) : 0);
  if (f.is4 >= 0)
    byte(a, (unsigned)f.is4 << 4);
  else if (f.n_imm == 1)
    byte(a, (unsigned)i->imm & 0xff);
  else if (f.n_imm == 4)
    dword(a, i->imm);
  ASSERT(a->len - from <= 15, "an instruction has at most 15 bytes");
  if (a->listing)
    list_ins(a, from, i);
}

/* -- Listing ----------------------------------------------------------------------------------- */

static const char gpr64[][4] = {"rax", "rcx", "rdx", "rbx", "rsp", "rbp", "rsi", "rdi", "r8",
                                "r9",  "r10", "r11", "r12", "r13", "r14", "r15", "rip"};
static const char gpr32[][4] = {"eax", "ecx", "edx", "ebx", "esp", "ebp", "esi", "edi"};
static const char gpr8[][3] = {"al", "cl", "dl", "bl"};

static void print_reg(text_buf *t, char what, int vl, unsigned r)
{
  switch (what) {
  case 'G':
    text_puts(t, gpr64[r]);
    break;
  case 'D':
    text_puts(t, gpr32[r & 7]);
    break;
  case 'B':
    text_puts(t, gpr8[r & 3]);
    break;
  case 'K':
    text_printf(t, "k%u", r);
    break;
  case 'X':
    text_printf(t, "xmm%u", r);
    break;
  case 'Y':
    text_printf(t, "ymm%u", r);
    break;
  case 'H':
    text_printf(t, "%cmm%u", "xxy"[vl], r);
    break;
  default:
    text_printf(t, "%cmm%u", "xyz"[vl], r);
  }
}

static void print_mem(text_buf *t, const x86_ins *i, int64_t rip_bias)
{
  const x86_mem *m = &i->mem;
  int64_t disp = m->disp - (m->base == RIP ? rip_bias : 0);
  text_printf(t, "[%s", gpr64[m->base]);
  if (m->index != X86_NONE)
    text_printf(t, "+%s*%d", gpr64[m->index], 1 << m->shift);
  if (disp || m->base == RIP)
    text_printf(t, "%c0x%llx", disp < 0 ? '-' : '+', (unsigned long long)(disp < 0 ? -disp : disp));
  text_putc(t, ']');
  if (m->broadcast)
    text_printf(t, "{1to%d}", (x86_rows[i->op].w ? 2 : 4) << i->vl);
}

void x86_print(text_buf *t, const x86_ins *i, int64_t rip_bias)
{
  const x86_row *row = &x86_rows[i->op];
  text_puts(t, row->text);
  for (int k = 0; row->operands[2 * k]; k++) {
    char what = row->operands[2 * k], where = row->operands[2 * k + 1];
    text_puts(t, k ? ", " : " ");
    if (where == 'c')
      text_puts(t, "cl");
    else if (what == 'I')
      text_printf(t, "%s0x%x", i->imm < 0 ? "-" : "",
                  i->imm < 0 ? 0u - (unsigned)i->imm : (unsigned)i->imm);
    else if (i->r[k] == X86_MEM && where == 'm')
      print_mem(t, i, rip_bias);
    else
      print_reg(t, what, i->vl, i->r[k]);
    if (k == 0 && i->mask)
      text_printf(t, "{k%d}%s", i->mask, i->zero ? "{z}" : "");
  }
}

/* -- Shorthands -------------------------------------------------------------------------------- */

void x86_vec(x86_asm *a, x86_op op, int vl, int r0, int r1, int r2)
{
  x86_emit(
    a,
    &(x86_ins){.op = (uint8_t)op, .vl = (uint8_t)vl, .r = {(uint8_t)r0, (uint8_t)r1, (uint8_t)r2}});
}

void x86_gpr(x86_asm *a, x86_op op, int r0, int r1, int32_t imm)
{
  x86_emit(a, &(x86_ins){.op = (uint8_t)op, .r = {(uint8_t)r0, (uint8_t)r1}, .imm = imm});
}

void x86_gpr_mem(x86_asm *a, x86_op op, int r, x86_mem m)
{
  bool store = x86_rows[op].operands[1] == 'm';
  x86_emit(a, &(x86_ins){.op = (uint8_t)op,
                         .mem = m,
                         .r = {store ? X86_MEM : (uint8_t)r, store ? (uint8_t)r : X86_MEM}});
}

static void stack_op(x86_asm *a, const char *text, unsigned opcode, int r)
{
  size_t from = a->len;
  if (!room(a, 16))
    return;
  if (r >= 8)
    byte(a, 0x41);
  byte(a, opcode + ((unsigned)r & 7));
  list(a, from, "%s %s", text, gpr64[r]);
}
void x86_push(x86_asm *a, int r) { stack_op(a, "push", 0x50, r); }
void x86_pop(x86_asm *a, int r) { stack_op(a, "pop", 0x58, r); }

void x86_mov_address(x86_asm *a, int r, const void *address)
{
  size_t from = a->len;
  if (!room(a, 16))
    return;
  byte(a, r >= 8 ? 0x49 : 0x48);
  byte(a, 0xb8u + ((unsigned)r & 7));
  memcpy(a->bytes + a->len, &address, 8);
  a->len += 8;
  list(a, from, "movabs %s, 0x%llx", gpr64[r], (unsigned long long)(uintptr_t)address);
}

void x86_simple(x86_asm *a, const char *text)
{
  static const struct {
    char text[12];
    uint8_t n, bytes[4];
  } all[] = {{"ret", 1, {0xc3}},
             {"endbr64", 4, {0xf3, 0x0f, 0x1e, 0xfa}},
             {"vzeroupper", 3, {0xc5, 0xf8, 0x77}},
             {"sfence", 3, {0x0f, 0xae, 0xf8}}};
  size_t from = a->len;
  if (!room(a, 16))
    return;
  for (size_t k = 0; k < COUNT_OF(all); k++)
    if (!strcmp(text, all[k].text))
      for (int b = 0; b < all[k].n; b++)
        byte(a, all[k].bytes[b]);
  list(a, from, "%s", text);
}

void x86_data(x86_asm *a, const void *bytes, size_t n_bytes)
{
  size_t from = a->len;
  if (!room(a, n_bytes))
    return;
  memcpy(a->bytes + a->len, bytes, n_bytes);
  a->len += n_bytes;
  if (!a->listing)
    return;
  uint32_t words[16];
  for (size_t at = 0; at < n_bytes; at += sizeof words) {
    size_t n = n_bytes - at < sizeof words ? n_bytes - at : sizeof words;
    memcpy(words, (const char *)bytes + at, n);
    text_printf(a->listing, "%5zx  .long ", from + at);
    for (size_t k = 0; k < n / 4; k++)
      text_printf(a->listing, "%s0x%x", k ? ", " : "", words[k]);
    text_putc(a->listing, '\n');
  }
}

void x86_align(x86_asm *a, size_t to, bool code)
{
  size_t from = a->len;
  if (!room(a, to))
    return;
  while (a->len % to)
    byte(a, code ? 0x90 : 0);
  if (a->len > from && a->listing)
    text_printf(a->listing, "%5zx  .skip %zu, 0x%x\n", from, a->len - from, code ? 0x90 : 0);
}

void x86_jump(x86_asm *a, int cond, int label)
{
  static const char names[][3] = {"o",  "no", "b",  "ae", "e",  "ne", "be", "a", "s",
                                  "ns", "p",  "np", "l",  "ge", "le", "g",  "mp"};
  size_t from = a->len;
  if (!room(a, 16))
    return;
  int64_t to = a->labels[label];
  int64_t back = to - (int64_t)a->len - 2;
  if (to >= 0 && back >= -128) {
    byte(a, cond == CC_ALWAYS ? 0xeb : 0x70u + (unsigned)cond);
    byte(a, (unsigned)back & 0xff);
  } else {
    back -= cond == CC_ALWAYS ? 3 : 4; /* longer by that */
    if (cond != CC_ALWAYS)
      byte(a, 0x0f);
    byte(a, cond == CC_ALWAYS ? 0xe9 : 0x80u + (unsigned)cond);
    if (to < 0) {
      ASSERT(a->n_jumps < X86_LABELS, "too many forward jumps");
      a->jumps[a->n_jumps].label = (uint8_t)label;
      a->jumps[a->n_jumps++].at = (uint32_t)a->len;
    }
    dword(a, to < 0 ? 0 : (int32_t)back);
  }
  list(a, from, "j%s %d%c", names[cond], 20 + label, to < 0 ? 'f' : 'b');
}

void x86_call(x86_asm *a, int label)
{
  size_t from = a->len;
  ASSERT(a->labels[label] >= 0, "only what is there already can be called");
  if (!room(a, 16))
    return;
  byte(a, 0xe8);
  dword(a, (int32_t)(a->labels[label] - (int64_t)a->len - 4));
  list(a, from, "call %db", 20 + label);
}

void x86_label(x86_asm *a, int label)
{
  a->labels[label] = (int64_t)a->len;
  if (a->listing)
    text_printf(a->listing, "%d:\n", 20 + label);
  for (int k = 0; k < a->n_jumps; k++)
    if (a->jumps[k].label == label && !a->failed) {
      int32_t distance = (int32_t)(a->len - a->jumps[k].at - 4);
      memcpy(a->bytes + a->jumps[k].at, &distance, 4);
      a->jumps[k--] = a->jumps[--a->n_jumps];
    }
}
