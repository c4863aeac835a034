/* run/bytecode_regs.c -- numbering of values, their last uses, register allocation, and the arrays
 * that emission fills. Registers are assigned in one forward walk (linear scan without
 * spilling): a value's register is free after its last use in its block, and results of branches
 * are made in the register where the join expects them. Constants that are numbers get registers
 * at the front of the frame. Graph colouring would save a few registers, which cost 16 bytes
 * each and nothing else. */
#include "run/bytecode_int.h"
#include "base/grow.h"

#define MAX_REGS 65000 /* instructions name registers with 16 bits */
#define FIRST_CAP 32

/* -- Arrays ------------------------------------------------------------------------------------ */

void set_place(coder *e, const ir_node *n)
{
  GROW(e->s, e->places, e->n_places, e->cap_places, FIRST_CAP);
  e->places[e->n_places++] = (code_place){n->origin, n->range, n->inlined};
}

uint32_t put_ins(coder *e, opcode op, uint32_t a, uint32_t b, uint32_t c)
{
  if (UNLIKELY((a | b | c) > UINT16_MAX)) /* cut off it would name another register */
    session_fail_status(e->s, RUSH_EUNSUPPORTED, NULL, NULL, "an operand of %s is beyond %d",
                        opcode_name(op), UINT16_MAX);
  if (e->n_ins == e->cap_ins) {
    uint32_t cap = e->cap_ins;

    GROW(e->s, e->code, e->n_ins, e->cap_ins, FIRST_CAP);
    GROW(e->s, e->place_of, e->n_ins, cap, FIRST_CAP);
  }
  e->code[e->n_ins] = (ins){(uint8_t)op, 0, (uint16_t)a, (uint16_t)b, (uint16_t)c};
  e->place_of[e->n_ins] = e->n_places ? e->n_places - 1 : 0;
  return e->n_ins++;
}

uint32_t put_imm(coder *e, opcode op, uint32_t a, int32_t imm)
{
  return put_ins(e, op, a, (uint32_t)imm & 0xffff, (uint32_t)imm >> 16);
}

site *put_site(coder *e, opcode op, uint32_t a)
{
  GROW(e->s, e->sites, e->n_sites, e->cap_sites, FIRST_CAP);
  put_imm(e, op, a, (int32_t)e->n_sites);
  site *st = &e->sites[e->n_sites++];

  *st = (site){.first = e->n_operands};
  return st;
}

void add_operand(coder *e, site *st, uint32_t operand)
{
  (void)st; /* operands of a site follow each other: the newest site's */
  GROW(e->s, e->operands, e->n_operands, e->cap_operands, FIRST_CAP);
  e->operands[e->n_operands++] = operand;
}

uint32_t constant_index(coder *e, rush_value v)
{
  GROW(e->s, e->constants, e->n_constants, e->cap_constants, FIRST_CAP);
  e->constants[e->n_constants] = v;
  return e->n_constants++;
}

/* Fused jumps have 16 bits: a function that is too long for them is emitted again without. */
void patch_jump(coder *e, uint32_t at, uint32_t to)
{
  ins *i = &e->code[at];
  int64_t by = (int64_t)to - (int64_t)(at + 1);

  switch ((opcode)i->op) {
  case OPC_JUMP:
  case OPC_JUMP_TRUE:
  case OPC_JUMP_FALSE:
  case OPC_LOOP_ENTER:
  case OPC_LOOP_NEXT:
    i->b = (uint16_t)((uint32_t)by & 0xffff);
    i->c = (uint16_t)((uint32_t)by >> 16);
    break;
  default:
    if (by > INT16_MAX || by < INT16_MIN)
      e->too_long = true;
    i->c = (uint16_t)(uint32_t)by;
  }
}

/* -- Registers --------------------------------------------------------------------------------- */

static void reserve_regs(coder *e, uint32_t n)
{
  if (n > MAX_REGS)
    session_fail_status(e->s, RUSH_EUNSUPPORTED, NULL, NULL,
                        "a function needs more than %d values at once", MAX_REGS);
  while (n > e->cap_regs) {
    uint32_t cap = e->cap_regs;

    GROW(e->s, e->regs, e->cap_regs, e->cap_regs, FIRST_CAP);
    GROW(e->s, e->reserved, cap, cap, FIRST_CAP);
  }
}

uint32_t reg_alloc(coder *e)
{
  uint32_t r = e->n_kregs;

  while (r < e->n_regs && e->regs[r] != REG_FREE)
    r++;
  if (r == e->n_regs)
    reserve_regs(e, ++e->n_regs);
  e->regs[r] = REG_LIVE;
  return r;
}

uint32_t reg_alloc_pair(coder *e)
{
  uint32_t r = e->n_regs;

  if (r > e->n_kregs && e->regs[r - 1] == REG_FREE)
    r--;
  e->n_regs = r + 2;
  reserve_regs(e, e->n_regs);
  e->regs[r] = e->regs[r + 1] = REG_LIVE;
  return r;
}

void reg_free(coder *e, uint32_t reg)
{
  if (reg != NO_REG && reg >= e->n_kregs)
    e->regs[reg] = e->reserved[reg] ? REG_EMPTY : REG_FREE;
}

void reg_reserve(coder *e, uint32_t reg, bool on)
{
  if (reg == NO_REG)
    return;
  if (on)
    e->reserved[reg]++;
  else
    e->reserved[reg]--;
}

/* Return the target slot that v may be made in, or NULL. */
static uint32_t *claim(coder *e, const ir_value *v)
{
  target *t = e->targets;

  if (!t || v->node->block != t->block || v->node->kind == IR_PARAM)
    return NULL;
  for (uint32_t k = 0; k < t->n; k++)
    if (t->regs[k] != NO_REG && !t->claimed[k] &&
        ir_block_output(t->block, k + t->first) == v && e->regs[t->regs[k]] != REG_LIVE) {
      t->claimed[k] = true;
      return &t->regs[k];
    }
  return NULL;
}

uint32_t define_value(coder *e, const ir_value *v)
{
  vinfo *i = info(e, v);

  if (!v->uses)
    return i->reg = NO_REG;
  uint32_t *slot = claim(e, v);

  i->reg = slot ? *slot : reg_alloc(e);
  e->regs[i->reg] = REG_LIVE;
  return i->reg;
}

uint32_t typed_reg(coder *e, const ir_value *v)
{
  vinfo *i = info(e, v);

  if (!i->is_const)
    return i->reg;
  if (i->constant < e->n_kregs)
    return i->constant;
  uint32_t r = reg_alloc(e); /* rare: kept, so that it needs no release */

  put_imm(e, OPC_LOADK, r, (int32_t)i->constant);
  return r;
}

/* -- Marks of inlined calls -------------------------------------------------------------------- */

static void end_mark(coder *e)
{
  const ir_inlined *call = e->open;

  if (call->depth <= MOST_MARKS) {
    const uint32_t reg = e->mark_regs[call->depth - 1];
    put_ins(e, OPC_MARK_END, reg, 0, 0);
    reg_free(e, reg);
  }
  e->open = call->outer;
}

static void begin_mark(coder *e, const ir_inlined *call)
{
  if (call->depth <= MOST_MARKS) {
    const uint32_t reg = reg_alloc(e);
    e->mark_regs[call->depth - 1] = reg;
    GROW(e->s, e->places, e->n_places, e->cap_places, FIRST_CAP);
    e->places[e->n_places++] = (code_place){call->origin, call->range, call->outer};
    put_site(e, OPC_MARK_BEGIN, reg)->inlined = call;
  }
  e->open = call;
}

static void begin_marks(coder *e, const ir_inlined *to)
{
  if (to == e->open)
    return;
  session_enter(e->s);
  begin_marks(e, to->outer);
  begin_mark(e, to);
  session_leave(e->s);
}

void put_marks(coder *e, const ir_inlined *to)
{
  if (!e->marks)
    return;
  for (const ir_inlined *common = to; common != e->open;) {
    const uint32_t depth = common ? common->depth : 0, open = e->open ? e->open->depth : 0;
    if (depth >= open)
      common = common->outer;
    if (open >= depth)
      end_mark(e);
  }
  begin_marks(e, to);
}

/* -- Numbering --------------------------------------------------------------------------------- */

static void count(coder *e, const ir_block *b)
{
  session_enter(e->s);
  for (ir_node *n = b->param;; n = n == b->param ? ir_block_first(b) : n->next) {
    session_poll(e->s);
    n->scratch = e->n_nodes++;
    for (uint32_t i = 0; i < n->n_outputs; i++)
      n->outputs[i]->scratch = e->n_vals++;
    for (uint32_t i = 0; i < n->n_blocks; i++)
      count(e, n->blocks[i]);
    if (n == b->ret)
      break;
  }
  session_leave(e->s);
}

/* True if an instruction for numbers or a loop's counter reads v, which must then be in a
 * register. */
static bool read_as_register(coder *e, const ir_value *v)
{
  for (const ir_use *u = v->uses; u; u = u->next)
    if (u->user->kind == IR_LOOP || u->user->kind == IR_IF ||
        e->typed[u->user->scratch] != N_OPCODES || u->user->kind == IR_RETURN ||
        is_list_op(u->user))
      return true;
  return false;
}

static void describe_block(coder *e, const ir_block *b)
{
  session_enter(e->s);
  for (ir_node *n = b->param;; n = n == b->param ? ir_block_first(b) : n->next) {
    session_poll(e->s);
    e->typed[n->scratch] = opcode_of(n);
    for (uint32_t i = 0; i < n->n_outputs; i++)
      e->vals[n->outputs[i]->scratch] = (vinfo){.v = n->outputs[i], .reg = NO_REG,
                                                .plain = type_is_plain(n->outputs[i]->type)};
    for (uint32_t i = 0; i < n->n_blocks; i++)
      describe_block(e, n->blocks[i]);
    if (n == b->ret)
      break;
  }
  session_leave(e->s);
}

/* Number constants: numbers first, in registers of the frame; then the others. */
static void number_constants(coder *e, const ir_block *b, bool in_frame)
{
  session_enter(e->s);
  for (const ir_node *n = ir_block_first(b); n != b->ret; n = n->next) {
    session_poll(e->s);
    for (uint32_t i = 0; i < n->n_blocks; i++)
      number_constants(e, n->blocks[i], in_frame);
    if (!is_constant_node(n))
      continue;
    rush_value v =
      n->kind == IR_CONSTANT ? ir_constant_value(n) : value_unset(); /* uninitialized: never read */
    if (n->kind == IR_CONSTANT && !type_contains_value(n->outputs[0]->type, v))
      session_fail_status(e->s, RUSH_EFORMAT, NULL, NULL,
                          "a constant of %s has another type than is declared",
                          e->f ? e->f->name : "the graph");
    vinfo *i = info(e, n->outputs[0]);
    bool framed = !value_is_heap(v) && i->plain && read_as_register(e, n->outputs[0]);

    if (framed == in_frame) {
      i->is_const = true;
      i->constant = constant_index(e, v);
    }
  }
  session_leave(e->s);
}

void number_graph(coder *e, const ir_block *b)
{
  count(e, b);
  e->vals = session_array(e->s, vinfo, e->n_vals + 1);
  e->deaths = session_array(e->s, death *, e->n_nodes + 1);
  e->typed = session_array(e->s, opcode, e->n_nodes + 1);
  describe_block(e, b);
  number_constants(e, b, true);
  e->n_kregs = e->n_constants;
  number_constants(e, b, false);
  e->n_regs = e->n_kregs;
  reserve_regs(e, e->n_regs);
}

/* -- Deaths ------------------------------------------------------------------------------------ */

/* Return the node of b that contains the use, or NULL if it is outside b. */
static const ir_node *project(const ir_node *user, const ir_block *b)
{
  while (user && user->block != b)
    user = user->block->owner;
  return user;
}

bool used_inside(const ir_value *v, const ir_block *b)
{
  for (const ir_use *u = v->uses; u; u = u->next)
    if (project(u->user, b))
      return true;
  return false;
}

static void plan_value(coder *e, const ir_block *b, uint32_t value)
{
  vinfo *i = &e->vals[value];

  if (i->is_const)
    return;
  i->last = NULL;
  for (const ir_use *u = i->v->uses; u; u = u->next) {
    const ir_node *n = project(u->user, b);

    session_poll(e->s);
    if (n && (!i->last || n->order > i->last->order))
      i->last = n;
  }
  if (i->last) {
    death *d = session_new(e->s, death);

    *d = (death){value, e->deaths[i->last->scratch]};
    e->deaths[i->last->scratch] = d;
  }
}

void plan_block(coder *e, const ir_block *b, const uint32_t *outer, uint32_t n_outer)
{
  for (uint32_t i = 0; i < n_outer; i++)
    plan_value(e, b, outer[i]);
  for (const ir_node *n = b->param; n != b->ret; n = n == b->param ? ir_block_first(b) : n->next)
    for (uint32_t i = 0; i < n->n_outputs; i++)
      plan_value(e, b, n->outputs[i]->scratch);
}

void free_deaths(coder *e, const ir_node *n, bool drop, bool plain_only)
{
  for (death **d = &e->deaths[n->scratch]; *d;) {
    vinfo *i = &e->vals[(*d)->value];

    if (plain_only && !i->plain) {
      d = &(*d)->next;
      continue;
    }
    if (i->reg != NO_REG && drop && !i->plain)
      put_ins(e, OPC_DROP, i->reg, 0, 0);
    reg_free(e, i->reg);
    *d = (*d)->next;
  }
}
