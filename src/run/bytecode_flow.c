/* run/bytecode_flow.c -- If and Loop become jumps; results of blocks are moved to their registers.
 *
 * Moves at the end of a block happen in parallel: they are ordered so that nothing is overwritten
 * before it is read, and cycles go through a spare register.  A loop's carried value keeps the
 * register of its initial value if possible. */
#include "ops/call/lookup.h"
#include "run/bytecode_int.h"

/* -- Moves at the end of a block --------------------------------------------------------------- */

typedef struct move {
  uint32_t dst, src; /* registers; src NO_REG: a constant */
  uint32_t constant;
  const vinfo *value;
  bool dies; /* with this block */
  bool done;
} move;

static uint32_t readers(const move *m, uint32_t n, uint32_t reg)
{
  uint32_t k = 0;

  for (uint32_t i = 0; i < n; i++)
    k += !m[i].done && m[i].src == reg;
  return k;
}

static void put_move(coder *e, move *m, uint32_t n, move *one, bool stays)
{
  if (one->value->plain)
    put_ins(e, OPC_PLAIN, one->dst, one->src, 0);
  else if (one->dies && !stays && readers(m, n, one->src) == 1)
    put_ins(e, OPC_MOVE, one->dst, one->src, 0);
  else
    put_ins(e, OPC_COPY, one->dst, one->src, 0);
  one->done = true;
}

/* True if the register keeps its value, because it is its own target. */
static bool stays(const move *m, uint32_t n, uint32_t reg)
{
  for (uint32_t i = 0; i < n; i++)
    if (m[i].dst == reg && m[i].src == reg)
      return true;
  return false;
}

/* Emit parallel moves, in an order in which nothing is overwritten before it is read; cycles use a
 * spare register. */
static void put_moves(coder *e, move *m, uint32_t n)
{
  uint32_t left = 0;

  for (uint32_t i = 0; i < n; i++) {
    m[i].done = m[i].src == NO_REG || m[i].src == m[i].dst || m[i].dst == NO_REG;
    left += !m[i].done;
  }
  while (left) {
    move *next = NULL, *any = NULL;

    for (uint32_t i = 0; i < n && !next; i++)
      if (!m[i].done) {
        any = &m[i];
        next = readers(m, n, m[i].dst) == 0 ? &m[i] : NULL;
      }
    if (next) {
      put_move(e, m, n, next, stays(m, n, next->src));
      left--;
      continue;
    }
    uint32_t tmp = reg_alloc(e), from = any->src;

    put_ins(e, any->value->plain ? OPC_PLAIN : OPC_MOVE, tmp, from, 0);
    for (uint32_t i = 0; i < n; i++)
      if (!m[i].done && m[i].src == from)
        m[i].src = tmp;
    reg_free(e, tmp);
  }
  for (uint32_t i = 0; i < n; i++)
    if (m[i].src == NO_REG && m[i].dst != NO_REG)
      put_imm(e, OPC_LOADK, m[i].dst, (int32_t)m[i].constant);
}

static move move_of(coder *e, const ir_value *v, uint32_t dst, bool dies)
{
  vinfo *i = info(e, v);

  return (move){.dst = dst, .src = i->is_const ? NO_REG : i->reg, .constant = i->constant,
                .value = i, .dies = dies};
}

/* Move the block's results to their registers; then free what died with the block. */
static void end_block(coder *e, const target *t)
{
  const ir_block *b = t->block;
  move *m = session_array(e->s, move, t->n + 1);

  for (uint32_t k = 0; k < t->n; k++) {
    const ir_value *v = ir_block_output(b, k + t->first);

    m[k] = move_of(e, v, t->regs[k], info(e, v)->last == b->ret);
  }
  put_moves(e, m, t->n);
}

/* Drop values that die as results of the block without a target register. */
static void drop_unwanted(coder *e, const target *t)
{
  for (death *d = e->deaths[t->block->ret->scratch]; d; d = d->next) {
    vinfo *i = &e->vals[d->value];
    bool wanted = i->plain || i->reg == NO_REG;

    for (uint32_t k = 0; k < t->n && !wanted; k++)
      wanted = t->regs[k] != NO_REG && ir_block_output(t->block, k + t->first) == i->v;
    if (!wanted)
      put_ins(e, OPC_DROP, i->reg, 0, 0);
  }
}

static bool is_place(const target *t, uint32_t reg)
{
  for (uint32_t k = 0; k < t->n; k++)
    if (t->regs[k] == reg)
      return true;
  return false;
}

static void free_block(coder *e, const target *t)
{
  for (death *d = e->deaths[t->block->ret->scratch]; d; d = d->next)
    if (!is_place(t, e->vals[d->value].reg))
      reg_free(e, e->vals[d->value].reg);
  e->deaths[t->block->ret->scratch] = NULL;
  for (uint32_t k = 0; k < t->n; k++)
    if (t->regs[k] != NO_REG)
      e->regs[t->regs[k]] = REG_LIVE;
}

static void push_target(coder *e, target *t, const ir_block *b, uint32_t first, uint32_t *regs,
                        uint32_t n)
{
  *t = (target){.block = b, .first = first, .n = n, .regs = regs,
                .claimed = session_array(e->s, bool, n + 1), .outer = e->targets};
  e->targets = t;
}

/* -- Comparisons left to a jump ---------------------------------------------------------------- */

static const ir_node *next_real(const ir_node *n)
{
  do
    n = n->next;
  while (is_constant_node(n));
  return n;
}

bool left_to_jump(coder *e, const ir_node *n)
{
  if (e->no_fuse || e->typed[n->scratch] == N_OPCODES || !opcode_is_compare(e->typed[n->scratch]))
    return false;
  const ir_use *u = n->outputs[0]->uses;

  if (!u || u->next || u->user != next_real(n))
    return false;
  if (u->user->kind == IR_IF)
    return true;
  const ir_node *owner = n->block->owner;

  return u->user == n->block->ret && owner && owner->kind == IR_LOOP &&
         ir_block_output(n->block, 0) == n->outputs[0];
}

/* Emit the jump over a condition, fused with the comparison if that was left to it. */
static uint32_t put_condition(coder *e, const ir_value *cond, bool when)
{
  const ir_node *n = e->compare;

  e->compare = NULL;
  if (!n || n->outputs[0] != cond)
    return put_imm(e, when ? OPC_JUMP_TRUE : OPC_JUMP_FALSE, typed_reg(e, cond), 0);
  opcode op = (opcode)(e->typed[n->scratch] + (when ? 1 : 2));
  return put_ins(e, op, e->compared[0], e->compared[1], 0);
}

/* -- Values that get another name -------------------------------------------------------------- */

bool take_death(coder *e, const ir_node *n, const ir_value *v)
{
  for (death **d = &e->deaths[n->scratch]; *d; d = &(*d)->next)
    if ((*d)->value == v->scratch) {
      *d = (*d)->next;
      return true;
    }
  return false;
}

/* Give `to`, n's outputs or the inputs of its block, the values of n's first k inputs: those whose
 * last use is n are moved. */
void hand_over(coder *e, const ir_node *n, ir_value *const *to, uint32_t k)
{
  move *m = session_array(e->s, move, k + 1);

  for (uint32_t i = 0; i < k; i++) {
    const vinfo *from = info(e, ir_node_input(n, i));
    vinfo *t = info(e, to[i]);

    if (from->is_const) {
      t->is_const = true;
      t->constant = from->constant;
      m[i] = (move){.dst = NO_REG, .src = NO_REG};
    } else {
      m[i] = move_of(e, ir_node_input(n, i), define_value(e, to[i]), from->last == n);
    }
  }
  put_moves(e, m, k);
  for (uint32_t i = 0; i < k; i++)
    if (m[i].dst != NO_REG && m[i].dies && !m[i].value->plain &&
        take_death(e, n, ir_node_input(n, i)))
      reg_free(e, m[i].value->reg);
  free_deaths(e, n, true, false);
}

/* -- If ---------------------------------------------------------------------------------------- */

static void emit_branch(coder *e, const ir_block *b, uint32_t *regs, uint32_t n,
                        const uint32_t *dying, uint32_t n_dying)
{
  target t;

  push_target(e, &t, b, 0, regs, n);
  emit_block(e, b, dying, n_dying);
  end_block(e, &t);
  drop_unwanted(e, &t);
  free_block(e, &t);
  e->targets = t.outer;
}

/* Return the numbers of the values whose last use is n. */
static uint32_t *take_deaths(coder *e, const ir_node *n, uint32_t *count)
{
  uint32_t k = 0;

  for (death *d = e->deaths[n->scratch]; d; d = d->next)
    k++;
  uint32_t *list = session_array(e->s, uint32_t, k + 1);

  *count = 0;
  for (death *d = e->deaths[n->scratch]; d; d = d->next)
    list[(*count)++] = d->value;
  e->deaths[n->scratch] = NULL;
  return list;
}

static void set_regs(coder *e, const uint32_t *regs, uint32_t n, int state)
{
  for (uint32_t k = 0; k < n; k++)
    if (regs[k] != NO_REG)
      e->regs[regs[k]] = (uint8_t)state;
}

/* Reserve registers for n's outputs, which its blocks make. */
static uint32_t *begin_outputs(coder *e, const ir_node *n)
{
  uint32_t *regs = session_array(e->s, uint32_t, n->n_outputs + 1);

  for (uint32_t k = 0; k < n->n_outputs; k++) {
    regs[k] = define_value(e, n->outputs[k]);
    reg_reserve(e, regs[k], true);
  }
  set_regs(e, regs, n->n_outputs, REG_EMPTY);
  return regs;
}

static void end_outputs(coder *e, const ir_node *n, const uint32_t *regs)
{
  for (uint32_t k = 0; k < n->n_outputs; k++)
    reg_reserve(e, regs[k], false);
  set_regs(e, regs, n->n_outputs, REG_LIVE);
}

void emit_subgraph(coder *e, const ir_node *n)
{
  const ir_block *b = n->blocks[0];

  hand_over(e, n, b->param->outputs, n->n_inputs);
  uint32_t *regs = begin_outputs(e, n);
  emit_branch(e, b, regs, n->n_outputs, NULL, 0);
  end_outputs(e, n, regs);
}

/* Emit the branch without a block: undefined tensors. */
static void emit_undefined(coder *e, const ir_node *n, const uint32_t *regs, const uint32_t *dying,
                           uint32_t n_dying)
{
  for (uint32_t i = 0; i < n_dying; i++) {
    const vinfo *d = &e->vals[dying[i]];

    if (!d->is_const && !d->plain && d->reg != NO_REG)
      put_ins(e, OPC_DROP, d->reg, 0, 0);
  }
  for (uint32_t k = 0; k < n->n_outputs; k++)
    if (regs[k] != NO_REG)
      put_imm(e, OPC_LOADK, regs[k],
              (int32_t)constant_index(e, (rush_value){.tag = RUSH_TAG_TENSOR}));
}

/* Emit n's first block, and behind the jump `to_else` its second one. */
static void emit_choice(coder *e, const ir_node *n, uint32_t to_else)
{
  uint32_t n_dying, *dying = take_deaths(e, n, &n_dying);
  uint32_t *regs = begin_outputs(e, n);

  emit_branch(e, n->blocks[0], regs, n->n_outputs, dying, n_dying);
  uint32_t to_end = put_imm(e, OPC_JUMP, 0, 0);

  patch_jump(e, to_else, e->n_ins);
  for (uint32_t i = 0; i < n_dying; i++) /* the other branch begins with them alive */
    if (e->vals[dying[i]].reg != NO_REG)
      e->regs[e->vals[dying[i]].reg] = REG_LIVE;
  set_regs(e, regs, n->n_outputs, REG_EMPTY);
  if (n->n_blocks > 1)
    emit_branch(e, n->blocks[1], regs, n->n_outputs, dying, n_dying);
  else
    emit_undefined(e, n, regs, dying, n_dying);
  if (to_end + 1 == e->n_ins) { /* an empty else needs no jump */
    e->n_ins--;
    patch_jump(e, to_else, e->n_ins);
  } else {
    patch_jump(e, to_end, e->n_ins);
  }
  for (uint32_t i = 0; i < n_dying; i++)
    if (!e->vals[dying[i]].plain || e->vals[dying[i]].reg != NO_REG)
      reg_free(e, e->vals[dying[i]].reg);
  end_outputs(e, n, regs);
}

void emit_if(coder *e, const ir_node *n)
{
  emit_choice(e, n, put_condition(e, ir_node_input(n, 0), false));
}

void emit_grad_of(coder *e, const ir_node *n)
{
  const uint32_t is_any = reg_alloc(e);
  site *st = put_site(e, OPC_OPERATOR, 0);

  st->op = session_op_find(e->s, STR("prim::AutogradAnyNonZero"), STR(""));
  for (uint32_t i = 0; i < n->n_inputs; i++)
    add_operand(e, st, kept_operand(e, ir_node_input(n, i)));
  st->n_args = n->n_inputs;
  add_operand(e, st, is_any);
  st->n_results = st->n_made = 1;
  if (n->n_inputs + 5 > e->n_row)
    e->n_row = n->n_inputs + 5;
  const uint32_t to_else = put_imm(e, OPC_JUMP_FALSE, is_any, 0);
  reg_free(e, is_any);
  emit_choice(e, n, to_else);
}

/* -- Loop -------------------------------------------------------------------------------------- */

typedef struct loop {
  const ir_node *n;
  const ir_block *body;
  uint32_t n_carried;
  uint32_t *regs;  /* of carried values */
  bool counted;
  uint32_t i;      /* register of the count; the limit is the next one */
  uint32_t skip[2], n_skip; /* jumps to the end */
  uint32_t head;
} loop;

static bool is_constant_true(const ir_value *v)
{
  rush_value c;

  return ir_value_as_constant(v, &c) && c.tag == RUSH_TAG_BOOL && c.as.b;
}

static bool is_endless(const ir_value *trips)
{
  rush_value c;

  return ir_value_as_constant(trips, &c) && c.as.i == INT64_MAX;
}

/* True for the counter of an enclosing loop: the next iteration needs its register, though no node
 * reads the value again. */
static bool is_count(const ir_value *v)
{
  const ir_block *b = v->node->kind == IR_PARAM ? v->node->block : NULL;

  return b && b->owner && b->owner->kind == IR_LOOP && ir_block_input(b, 0) == v;
}

/* True if the carried value k may keep the register of its initial value. */
static bool can_take(coder *e, const loop *l, uint32_t k)
{
  const ir_value *v = ir_node_input(l->n, k + 2);
  const vinfo *i = info(e, v);
  uint32_t times = 0;

  if (i->is_const || i->last != l->n || is_count(v) || used_inside(v, l->body))
    return false;
  for (uint32_t j = 0; j < l->n->n_inputs; j++)
    times += ir_node_input(l->n, j) == v;
  return times == 1;
}

static void init_carried(coder *e, loop *l)
{
  move *m = session_array(e->s, move, l->n_carried + 1);

  for (uint32_t k = 0; k < l->n_carried; k++) {
    const ir_value *v = ir_node_input(l->n, k + 2);
    bool dies = info(e, v)->last == l->n && !used_inside(v, l->body);

    if (can_take(e, l, k)) {
      l->regs[k] = info(e, v)->reg;
      (void)take_death(e, l->n, v);
    } else {
      uint32_t r = define_value(e, l->n->outputs[k]);

      l->regs[k] = r == NO_REG ? reg_alloc(e) : r;
    }
    m[k] = move_of(e, v, l->regs[k], dies);
    reg_reserve(e, l->regs[k], true);
  }
  put_moves(e, m, l->n_carried);
  for (uint32_t k = 0; k < l->n_carried; k++) {
    const ir_value *v = ir_node_input(l->n, k + 2);

    if (m[k].dies && !info(e, v)->is_const && !info(e, v)->plain && info(e, v)->reg != l->regs[k]) {
      (void)take_death(e, l->n, v); /* it was moved */
      reg_free(e, info(e, v)->reg);
    }
  }
}

static void enter_loop(coder *e, loop *l)
{
  const ir_value *trips = ir_node_input(l->n, 0), *cond = ir_node_input(l->n, 1);

  init_carried(e, l);
  l->counted = ir_block_input(l->body, 0)->uses || !is_endless(trips);
  if (l->counted) {
    l->i = reg_alloc_pair(e);
    reg_reserve(e, l->i, true);
    put_ins(e, OPC_PLAIN, l->i + 1, typed_reg(e, trips), 0);
  }
  if (!is_constant_true(cond))
    l->skip[l->n_skip++] = put_condition(e, cond, false);
  if (l->counted)
    l->skip[l->n_skip++] = put_imm(e, OPC_LOOP_ENTER, l->i, 0);
  l->head = e->n_ins;
  info(e, ir_block_input(l->body, 0))->reg = l->counted ? l->i : NO_REG;
  for (uint32_t k = 0; k < l->n_carried; k++)
    info(e, ir_block_input(l->body, k + 1))->reg = l->regs[k];
  if (!l->counted)
    put_ins(e, OPC_POLL, 0, 0, 0);
}

static bool is_written(const move *m, uint32_t n, uint32_t reg)
{
  for (uint32_t i = 0; i < n; i++)
    if (m[i].dst == reg && m[i].src != reg)
      return true;
  return false;
}

/* Compare before the moves if they would change the operands.  Returns the condition's register, or
 * NO_REG if the comparison can follow the moves (in e->compare). */
static uint32_t settle_compare(coder *e, const loop *l, const ir_value *cond)
{
  const ir_node *n = e->compare;
  move *m = session_array(e->s, move, l->n_carried + 1);

  if (!n || n->outputs[0] != cond)
    return is_constant_true(cond) ? NO_REG : typed_reg(e, cond);
  for (uint32_t k = 0; k < l->n_carried; k++)
    m[k] = move_of(e, ir_block_output(l->body, k + 1), l->regs[k], false);
  for (uint32_t i = 0; i < 2; i++)
    if (is_written(m, l->n_carried, e->compared[i])) {
      uint32_t r = reg_alloc(e);

      put_ins(e, e->typed[n->scratch], r, e->compared[0], e->compared[1]);
      e->compare = NULL;
      free_deaths(e, n, false, false);
      return r;
    }
  return NO_REG;
}

static void next_round(coder *e, loop *l, target *t)
{
  const ir_value *cond = ir_block_output(l->body, 0);
  uint32_t reg = settle_compare(e, l, cond), out = NO_REG;
  const ir_node *compare = e->compare;

  end_block(e, t);
  drop_unwanted(e, t);
  if (reg == NO_REG && !compare) {
    patch_jump(e, put_imm(e, l->counted ? OPC_LOOP_NEXT : OPC_JUMP, l->counted ? l->i : 0, 0),
               l->head);
  } else {
    uint32_t at = compare ? put_condition(e, cond, !l->counted)
                          : put_imm(e, l->counted ? OPC_JUMP_FALSE : OPC_JUMP_TRUE, reg, 0);
    if (l->counted) {
      out = at;
      patch_jump(e, put_imm(e, OPC_LOOP_NEXT, l->i, 0), l->head);
    } else {
      patch_jump(e, at, l->head);
    }
  }
  if (out != NO_REG)
    patch_jump(e, out, e->n_ins);
  if (compare)
    free_deaths(e, compare, false, false);
  if (reg != NO_REG && info(e, cond)->reg != reg)
    reg_free(e, reg);
  free_block(e, t);
}

static void leave_loop(coder *e, loop *l)
{
  for (uint32_t i = 0; i < l->n_skip; i++)
    patch_jump(e, l->skip[i], e->n_ins);
  if (l->counted) {
    reg_reserve(e, l->i, false);
    e->regs[l->i] = e->regs[l->i + 1] = REG_FREE;
  }
  for (uint32_t k = 0; k < l->n_carried; k++) {
    vinfo *i = info(e, l->n->outputs[k]);

    reg_reserve(e, l->regs[k], false);
    i->reg = l->regs[k];
    if (l->n->outputs[k]->uses)
      continue;
    if (!i->plain)
      put_ins(e, OPC_DROP, i->reg, 0, 0);
    reg_free(e, i->reg);
    i->reg = NO_REG;
  }
  free_deaths(e, l->n, true, false);
}

void emit_loop(coder *e, const ir_node *n)
{
  loop l = {.n = n, .body = n->blocks[0], .n_carried = n->n_inputs - 2};
  target t;

  l.regs = session_array(e->s, uint32_t, l.n_carried + 1);
  enter_loop(e, &l);
  push_target(e, &t, l.body, 1, l.regs, l.n_carried);
  emit_block(e, l.body, NULL, 0);
  next_round(e, &l, &t);
  e->targets = t.outer;
  leave_loop(e, &l);
}
