/* shape/symint_print.c -- symbolic integers as text (symint.h): Python's, with signs between the
 * terms and operands of atoms in brackets where they need some. */
#include "shape/symint.h"

#include <inttypes.h>

static void print_operand(text_buf *out, symint e)
{
  bool simple = (e->n_terms == 0 && e->k >= 0) ||
                (e->n_terms == 1 && e->k == 0 && e->terms[0].degree == 1 && e->terms[0].coef == 1);
  text_puts(out, simple ? "" : "(");
  sym_print(out, e);
  text_puts(out, simple ? "" : ")");
}

static void print_atom(text_buf *out, const sym_atom *a)
{
  switch (a->kind) {
  case SYM_SYMBOL:
    text_printf(out, "%c%u", a->backed ? 's' : 'u', a->number);
    break;
  case SYM_FLOOR:
  case SYM_MOD:
    text_putc(out, '(');
    print_operand(out, a->a);
    text_puts(out, a->kind == SYM_FLOOR ? "//" : " % ");
    print_operand(out, a->b);
    text_putc(out, ')');
    break;
  case SYM_MIN:
  case SYM_MAX:
    text_puts(out, a->kind == SYM_MIN ? "min(" : "max(");
    sym_print(out, a->a);
    text_puts(out, ", ");
    sym_print(out, a->b);
    text_putc(out, ')');
  }
}

static void print_signed(text_buf *out, bool first, bool negative)
{
  text_puts(out, first ? (negative ? "-" : "") : negative ? " - " : " + ");
}

/* Print the terms of sign `sign`, or all of them (0), as if the constant were k. */
static void print_part(text_buf *out, symint e, int sign, int64_t k)
{
  bool first = true;
  for (uint32_t i = 0; i < e->n_terms; i++) {
    const sym_term *t = &e->terms[i];
    if (sign && (t->coef > 0) != (sign > 0))
      continue;
    const uint64_t size = t->coef < 0 ? -(uint64_t)t->coef : (uint64_t)t->coef;
    print_signed(out, first, t->coef < 0 && sign >= 0);
    first = false;
    if (size != 1)
      text_printf(out, "%" PRIu64 "*", size);
    for (uint32_t d = 0, power; d < t->degree; d += power) {
      for (power = 1; d + power < t->degree && t->atoms[d + power] == t->atoms[d];)
        power++;
      text_puts(out, d ? "*" : "");
      print_atom(out, t->atoms[d]);
      if (power > 1)
        text_printf(out, "**%u", power);
    }
  }
  if (k != 0 || first) {
    print_signed(out, first, k < 0);
    text_printf(out, "%" PRIu64, k < 0 ? -(uint64_t)k : (uint64_t)k);
  }
}
void sym_print(text_buf *out, symint e) { print_part(out, e, 0, e->k); }

void sym_cond_print(text_buf *out, sym_cond c)
{
  const bool strict = c.rel == SYM_GE && c.e->k == -1; /* a >= b + 1 */
  const int64_t k = strict || c.e->k == INT64_MIN ? 0 : c.e->k;
  print_part(out, c.e, 1, k > 0 ? k : 0);
  text_puts(out, c.rel == SYM_EQ ? " == " : c.rel == SYM_NE ? " != " : strict ? " > " : " >= ");
  print_part(out, c.e, -1, k < 0 ? -k : 0);
}
