/* compile/x86/alloc.c -- register allocation in one pass over the operations: a value that finds
 * none free takes the one whose next use is farthest (Belady's rule). Constants and single elements
 * are never stored: they are loaded again, or read from memory by the instruction itself. Registers
 * that remain free hold them for the whole loop. A body is straight-line code, so one pass is
 * enough and graph colouring would gain nothing. Cost: O(operations * registers). */
#include "compile/x86/body.h"

#define MAX_FREE_SLOTS 64

typedef struct alloc {
  body *b;
  uint16_t owner[N_CLASSES][32]; /* value, or NO_VALUE */
  uint32_t locked[N_CLASSES];    /* registers of the operation at hand */
  uint32_t pinned;               /* vector registers */
  uint16_t free_slots[MAX_FREE_SLOTS];
  int n_free_slots;
} alloc;

/* -- Uses, backwards --------------------------------------------------------------------------- */

static void find_uses(body *b)
{
  for (uint32_t at = b->n_ops; at-- > 0;) {
    operation *o = &b->ops[at];
    o->needed = o->dst == NO_VALUE || b->values[o->dst].next != NEVER;
    if (!o->needed)
      continue;
    for (int k = 0; k < 3; k++)
      o->next[k] = o->args[k] == NO_VALUE ? NEVER : b->values[o->args[k]].next;
    for (int k = 0; k < 3; k++)
      if (o->args[k] != NO_VALUE) {
        ASSERT(o->args[k] < b->n_values, "an operand that is no value");
        b->values[o->args[k]].next = at;
        b->values[o->args[k]].n_uses++;
      }
  }
}

/* Return the most vector values made by operations that are live at once. */
static uint32_t most_live(const body *b)
{
  uint32_t live = 0, most = 0;
  for (uint32_t at = 0; at < b->n_ops; at++) {
    const operation *o = &b->ops[at];
    if (!o->needed)
      continue;
    if (o->dst != NO_VALUE && b->values[o->dst].cls == CLASS_VEC)
      live++;
    most = live > most ? live : most;
    for (int k = 0; k < 3; k++) {
      uint16_t v = o->args[k];
      bool again = (k > 0 && v == o->args[0]) || (k > 1 && v == o->args[1]);
      if (v != NO_VALUE && !again && o->next[k] == NEVER && b->values[v].kind == VALUE_TEMP &&
          b->values[v].cls == CLASS_VEC)
        live--;
    }
  }
  ASSERT(live == 0, "a value lives on behind its last use");
  return most;
}

/* Keep the most used constants and single elements in the free registers; two are left for loading
 * the others. */
static void pin(alloc *s)
{
  body *b = s->b;
  uint32_t used = most_live(b) + 2, end = b->end_reg[CLASS_VEC], n = end > used ? end - used : 0;
  for (; n > 0; n--) {
    uint32_t best = 0, found = NO_VALUE;
    for (uint32_t v = 0; v < b->n_values; v++) {
      value *x = &b->values[v];
      if (x->kind != VALUE_TEMP && !x->pinned &&
          x->n_uses + (x->kind == VALUE_ONE) > best + (x->n_uses == 0)) {
        best = x->n_uses + (x->kind == VALUE_ONE);
        found = v;
      }
    }
    if (found == NO_VALUE)
      return;
    unsigned r = end - 1 - (unsigned)__builtin_popcount(s->pinned);
    ASSERT(s->owner[CLASS_VEC][r] == NO_VALUE, "a register is pinned twice");
    b->values[found].reg = (uint8_t)r;
    b->values[found].pinned = true;
    s->pinned |= 1u << r;
    s->owner[CLASS_VEC][r] = (uint16_t)found;
  }
}

/* -- Instructions out -------------------------------------------------------------------------- */

static placed *out(body *b, x86_op op, int vl)
{
  if (b->failed || !body_grow(b, &b->out, &b->cap_out, b->n_out, sizeof *b->out))
    return NULL;
  placed *p = &b->out[b->n_out++];
  *p = (placed){.ins = {.op = (uint8_t)op, .vl = (uint8_t)vl}};
  return p;
}

static int full(const body *b) { return b->wide ? VL512 : VL256; }

/* Append a move between a register and symbolic memory. */
static void out_move(body *b, x86_op op, uint8_t reg, int place, uint16_t what)
{
  placed *p = out(b, op, full(b));
  if (!p)
    return;
  bool store = x86_rows[op].operands[1] == 'm';
  ASSERT(store || x86_rows[op].operands[3] == 'm', "a move without a memory operand");
  p->ins.r[store ? 1 : 0] = reg;
  p->ins.r[store ? 0 : 1] = X86_MEM;
  p->place = (uint8_t)place;
  p->what = what;
}

/* Load a value that needs no operation into a register. */
static void load_value(body *b, const value *v, uint8_t reg)
{
  ASSERT(v->kind != VALUE_TEMP || v->slot != NO_VALUE, "a value that was never stored");
  if (v->cls == CLASS_MASK)
    out_move(b, X86_KMOVW, reg, PLACE_SLOT, v->slot);
  else if (v->kind == VALUE_TEMP)
    out_move(b, X86_VMOVUPS, reg, PLACE_SLOT, v->slot);
  else if (v->kind == VALUE_ONE)
    out_move(b, X86_VBROADCASTSS, reg, PLACE_ONE, v->what);
  else
    out_move(b,
             !b->wide  ? X86_VMOVUPS
             : v->wide ? X86_VBROADCASTSD
                       : X86_VBROADCASTSS,
             reg, PLACE_CONST, v->what);
}

/* -- Registers --------------------------------------------------------------------------------- */

static void evict(alloc *s, int cls, unsigned r)
{
  body *b = s->b;
  value *v = &b->values[s->owner[cls][r]];
  ASSERT(v->reg == r && !v->pinned, "the owner of a register is elsewhere");
  if (v->kind == VALUE_TEMP && v->slot == NO_VALUE) {
    v->slot = s->n_free_slots ? s->free_slots[--s->n_free_slots] : (uint16_t)b->n_slots++;
    out_move(b, cls == CLASS_MASK ? X86_KMOVW_ST : X86_VMOVUPS_ST, (uint8_t)r, PLACE_SLOT, v->slot);
  }
  v->reg = NO_REG;
  s->owner[cls][r] = NO_VALUE;
}

/* Return a locked register for value v. */
static uint8_t take_register(alloc *s, uint16_t v)
{
  body *b = s->b;
  int cls = b->values[v].cls;
  unsigned first = cls == CLASS_MASK ? FIRST_K : 0, end = b->end_reg[cls], worst = end;
  uint32_t farthest = 0, avoid = s->locked[cls] | (cls == CLASS_VEC ? s->pinned : 0);
  for (unsigned r = first; r < end; r++) {
    if (avoid >> r & 1)
      continue;
    uint16_t held = s->owner[cls][r];
    if (held == NO_VALUE) {
      worst = r;
      break;
    }
    if (worst == end || b->values[held].next > farthest) {
      farthest = b->values[held].next;
      worst = r;
    }
  }
  ASSERT(worst < end, "an operation needs more registers than there are");
  if (s->owner[cls][worst] != NO_VALUE)
    evict(s, cls, worst);
  s->owner[cls][worst] = v;
  ASSERT(b->values[v].reg == NO_REG, "a value gets a second register");
  s->locked[cls] |= 1u << worst;
  b->values[v].reg = (uint8_t)worst;
  return (uint8_t)worst;
}

/* Return the register that holds v, loaded if necessary; locked. */
static uint8_t ready(alloc *s, uint16_t v)
{
  value *x = &s->b->values[v];
  if (x->reg == NO_REG) {
    take_register(s, v);
    load_value(s->b, x, x->reg);
  }
  ASSERT(s->owner[x->cls][x->reg] == v, "the register holds another value");
  s->locked[x->cls] |= 1u << x->reg;
  return x->reg;
}

/* Update after an operation has read its arguments: their next uses follow. */
static void read_done(alloc *s, const operation *o)
{
  body *b = s->b;
  for (int k = 0; k < 3; k++) {
    if (o->args[k] == NO_VALUE)
      continue;
    value *x = &b->values[o->args[k]];
    x->next = o->next[k];
    if (x->next != NEVER || x->pinned)
      continue;
    if (x->reg != NO_REG) {
      ASSERT(s->owner[x->cls][x->reg] == o->args[k], "the register holds another value");
      s->owner[x->cls][x->reg] = NO_VALUE;
      s->locked[x->cls] &= ~(1u << x->reg);
      x->reg = NO_REG;
    }
    if (x->slot != NO_VALUE && s->n_free_slots < MAX_FREE_SLOTS)
      s->free_slots[s->n_free_slots++] = x->slot;
    x->slot = NO_VALUE;
  }
}

/* -- Operations -------------------------------------------------------------------------------- */

/* True if an instruction that may read full vectors can read v from memory. */
static bool in_memory(const body *b, uint16_t v)
{
  const value *x = &b->values[v];
  return x->reg == NO_REG && (x->kind == VALUE_CONST || (x->kind == VALUE_ONE && b->wide));
}

static void swap_args(operation *o, int i, int j)
{
  uint16_t v = o->args[i];
  uint32_t n = o->next[i];
  o->args[i] = o->args[j];
  o->next[i] = o->next[j];
  o->args[j] = v;
  o->next[j] = n;
}

/* Set operand k of the instruction to v: a register, or memory if the operand may be. */
static void put_placed(alloc *s, placed *p, int k, uint16_t v)
{
  body *b = s->b;
  const x86_row *row = &x86_rows[p->ins.op];
  if (row->operands[2 * k + 1] == 'm' && row->tuple == TUPLE_FULL && in_memory(b, v)) {
    p->ins.r[k] = X86_MEM;
    p->place = b->values[v].kind == VALUE_ONE ? PLACE_ONE : PLACE_CONST;
    p->what = b->values[v].what;
  } else {
    p->ins.r[k] = ready(s, v);
  }
}

static void finish(alloc *s, const placed *p)
{
  placed *q = out(s->b, (x86_op)p->ins.op, p->ins.vl);
  if (q)
    *q = *p;
}

static void place_plain(alloc *s, operation *o)
{
  body *b = s->b;
  const x86_row *row = &x86_rows[o->op];
  placed p = {
    .ins = {.op = o->op, .vl = o->vl, .imm = o->imm}, .place = o->place, .what = o->operand};
  bool select = row->flags & X86_SELECT;

  if ((row->flags & X86_SWAP) && in_memory(b, o->args[0]) && !in_memory(b, o->args[1]))
    swap_args(o, 0, 1);
  if (o->place)
    p.ins.r[o->dst == NO_VALUE ? 0 : 1] = X86_MEM;
  for (int k = 0; k < 3 && o->args[k] != NO_VALUE; k++)
    if (select && k == 2)
      p.ins.mask = ready(s, o->args[k]);
    else
      put_placed(s, &p, k + 1, o->args[k]);
  read_done(s, o);
  if (o->dst != NO_VALUE)
    p.ins.r[0] = take_register(s, o->dst);
  finish(s, &p);
}

static bool dies(const body *b, const operation *o, int k)
{
  return o->next[k] == NEVER && b->values[o->args[k]].kind == VALUE_TEMP;
}

/* Place a * b + c, which overwrites one of the three: preferably one that is no longer needed. */
static void place_fused(alloc *s, operation *o)
{
  body *b = s->b;
  enum { BY_132, BY_213, BY_231 } form;
  uint16_t *v = o->args, dst;
  int order[3]; /* arguments as the form requires them */

  ASSERT(v[0] != NO_VALUE && v[1] != NO_VALUE && v[2] != NO_VALUE, "a * b + c has three operands");
  if (in_memory(b, v[0]) || (!dies(b, o, 0) && dies(b, o, 1) && !in_memory(b, v[1])))
    swap_args(o, 0, 1); /* an operand in memory is second, a dying one first */
  bool last = dies(b, o, 2), first = dies(b, o, 0);
  if (last || (!first && (in_memory(b, v[2]) || !in_memory(b, v[1]))))
    form = BY_231;
  else
    form = in_memory(b, v[1]) && !in_memory(b, v[2]) ? BY_132 : BY_213;
  memcpy(order, ((int[3][3]){{0, 2, 1}, {0, 1, 2}, {2, 0, 1}})[form], sizeof order);

  placed p = {.ins = {.op = (uint8_t)(o->op + form), .vl = o->vl}};
  dst = v[order[0]];
  for (int k = 1; k < 3; k++)
    put_placed(s, &p, k, v[order[k]]);
  if (form == BY_231 ? last : first) {
    p.ins.r[0] = ready(s, dst);
    read_done(s, o);
    uint8_t r = p.ins.r[0];
    s->owner[CLASS_VEC][r] = o->dst;
    b->values[o->dst].reg = r;
  } else {
    const value *from = &b->values[dst];
    uint8_t r = take_register(s, o->dst);
    if (from->reg == NO_REG) {
      load_value(b, from, r);
    } else {
      placed *move = out(b, X86_VMOVAPS, full(b));
      if (move)
        move->ins.r[0] = r, move->ins.r[1] = from->reg;
    }
    p.ins.r[0] = r;
    read_done(s, o);
  }
  finish(s, &p);
}

/* Assign y's register to the result. */
static void place_fix(alloc *s, operation *o)
{
  body *b = s->b;
  placed p = {.ins = {.op = o->op, .vl = o->vl}, .place = PLACE_FIX, .what = o->imm};
  for (int k = 0; k < 3; k++)
    p.ins.r[k] = ready(s, o->args[k]);
  ASSERT(dies(b, o, 2), "what is corrected has another user");
  read_done(s, o);
  s->owner[CLASS_VEC][p.ins.r[2]] = o->dst;
  b->values[o->dst].reg = p.ins.r[2];
  finish(s, &p);
}

static bool is_fused(uint8_t op)
{
  return op == X86_VFMADD132PS || op == X86_VFMSUB132PS || op == X86_VFMADD132PD;
}

void alloc_registers(body *b)
{
  alloc s = {.b = b};
  memset(s.owner, 0xff, sizeof s.owner);
  find_uses(b);
  pin(&s);
  for (uint32_t at = 0; at < b->n_ops && !b->failed; at++) {
    operation *o = &b->ops[at];
    if (!o->needed)
      continue;
    s.locked[CLASS_VEC] = s.locked[CLASS_MASK] = 0;
    if (o->place == PLACE_FIX)
      place_fix(&s, o);
    else if (is_fused(o->op))
      place_fused(&s, o);
    else
      place_plain(&s, o);
  }
}
