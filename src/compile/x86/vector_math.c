#include "compile/x86/body.h"

bool body_has_math(tape_op op)
{
  (void)op;
  return false;
}

uint16_t body_math(body *b, tape_op op, uint16_t x)
{
  (void)b, (void)op, (void)x;
  return NO_VALUE;
}
