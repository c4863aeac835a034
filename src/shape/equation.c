/* shape/equation.c -- reads the equation of einsum: letters are numbered as PyTorch numbers them,
 * counted, and given dimensions, those of the output first.  One pass over the text. */
#include "shape/equation.h"

#include <stdarg.h>
#include <stdio.h>

static bool RUSH_PRINTF(2, 3) refuse(equation *e, const char *fmt, ...)
{
  va_list args;
  va_start(args, fmt);
  vsnprintf(e->why, sizeof e->why, fmt, args);
  va_end(args);
  return false;
}

static int label_of(char ch)
{
  if (ch >= 'A' && ch <= 'Z')
    return ch - 'A';
  return ch >= 'a' && ch <= 'z' ? ch - 'a' + 26 : -1;
}

static bool read_dots(equation *e, str text, size_t *at, bool seen, const char *where,
                              int operand)
{
  if (seen && operand >= 0)
    return refuse(e, "einsum(): found '.' for operand %d for which an ellipsis was already found",
                  operand);
  if (seen)
    return refuse(e, "einsum(): found '.' for output but an ellipsis (...) was already found");
  if (*at + 2 >= text.len || text.p[*at + 1] != '.' || text.p[*at + 2] != '.')
    return operand >= 0
             ? refuse(e, "einsum(): found '.' for operand %d that is not part of any ellipsis",
                         operand)
             : refuse(e, "einsum(): found '.' for output that is not part of any ellipsis (...)%s",
                         where);
  *at += 2;
  return true;
}

static bool read_inputs(equation *e, str text, size_t end)
{
  int cur = 0;
  for (size_t i = 0; i < end; i++) {
    const char ch = text.p[i];
    if (ch == ' ')
      continue;
    if (ch == ',') {
      if (++cur >= e->n_operands)
        return refuse(e, "einsum(): fewer operands were provided than specified in the equation");
      continue;
    }
    term *t = &e->terms[cur];
    int label = ELLIPSIS;
    if (ch == '.') {
      if (!read_dots(e, text, &i, t->ellipsis, "", cur))
        return false;
      t->ellipsis = true;
    } else if ((label = label_of(ch)) < 0) {
      return refuse(e, "einsum(): invalid subscript given at index %d in the equation string, "
                       "subscripts must be in "
                       "[a-zA-Z]",
                       (int)i);
    }
    if (t->n == MAX_LABELS)
      return refuse(e, "einsum(): too many subscripts for operand %d", cur);
    t->labels[t->n++] = (uint8_t)label;
  }
  if (cur != e->n_operands - 1)
    return refuse(e, "einsum(): more operands were provided than specified in the equation");
  return true;
}

static bool count_labels(equation *e, const int *n_dims_of)
{
  for (int i = 0; i < e->n_operands; i++) {
    const term *t = &e->terms[i];
    const int n_dims = n_dims_of[i];
    if (t->ellipsis ? t->n - 1 > n_dims : t->n != n_dims)
      return refuse(
        e, "einsum(): the number of subscripts in the equation (%d) %s (%d) for operand %d%s",
        t->ellipsis ? t->n - 1 : t->n,
        t->ellipsis ? "is more than the number of dimensions"
                    : "does not match the number of dimensions",
        n_dims, i, t->ellipsis ? "" : " and no ellipsis was given");
    for (int k = 0; k < t->n; k++)
      e->count[t->labels[k]]++;
    if (t->ellipsis && n_dims - (t->n - 1) > e->ellipsis_dims)
      e->ellipsis_dims = n_dims - (t->n - 1);
    e->any_ellipsis |= t->ellipsis;
  }
  return true;
}

/* Make the output without "->": the ellipsis, then labels that occur once, in the order of
 * labels. */
static void implicit_output(equation *e)
{
  if (e->any_ellipsis) {
    e->place[ELLIPSIS] = 0;
    e->n_out = e->ellipsis_dims;
  }
  for (int l = 0; l < ELLIPSIS; l++)
    if (e->count[l] == 1)
      e->place[l] = e->n_out++;
}

static bool read_output(equation *e, str text, size_t at)
{
  bool ellipsis = false;
  for (size_t i = at; i < text.len; i++) {
    const char ch = text.p[i];
    if (ch == ' ')
      continue;
    if (ch == '.') {
      if (!read_dots(e, text, &i, ellipsis, "", -1))
        return false;
      ellipsis = true;
      e->place[ELLIPSIS] = e->n_out;
      e->n_out += e->ellipsis_dims;
      continue;
    }
    const int label = label_of(ch);
    if (label < 0)
      return refuse(e, "einsum(): invalid subscript given at index %d in the equation string, "
                       "subscripts must be in "
                       "[a-zA-Z]",
                       (int)i);
    if (e->place[label] >= 0)
      return refuse(e, "einsum(): output subscript %c appears more than once in the output",
                       ch);
    if (e->count[label] == 0)
      return refuse(
        e, "einsum(): output subscript %c does not appear in the equation for any input operand",
        ch);
    e->place[label] = e->n_out++;
  }
  return true;
}

bool equation_read(equation *e, str text, int n_operands, const int *n_dims)
{
  size_t arrow = text.len;
  *e = (equation){.n_operands = n_operands};
  for (int l = 0; l < N_LABELS; l++)
    e->place[l] = -1;
  for (size_t i = 0; i + 1 < text.len && arrow == text.len; i++)
    if (text.p[i] == '-' && text.p[i + 1] == '>')
      arrow = i;
  if (!read_inputs(e, text, arrow) || !count_labels(e, n_dims))
    return false;
  if (arrow == text.len)
    implicit_output(e);
  else if (!read_output(e, text, arrow + 2))
    return false;
  e->n_dims = e->n_out;
  for (int l = 0; l < ELLIPSIS; l++)
    if (e->count[l] > 0 && e->place[l] < 0)
      e->place[l] = e->n_dims++;
  if (e->any_ellipsis && e->place[ELLIPSIS] < 0) {
    e->place[ELLIPSIS] = e->n_dims;
    e->n_dims += e->ellipsis_dims;
  }
  return e->n_dims <= TENSOR_MAX_DIMS || refuse(e, "einsum(): too many dimensions");
}
