/* run/stack.c -- frames in chunks, unwinding and tracebacks. Chunks never move, because kernels
 * hold pointers into frames, and one spare chunk is kept so that a call at a chunk's end does not
 * allocate each time. Tracebacks show the frames that PyTorch would show, in its format; frames of
 * built-in bodies and groups are left out. Errors of forked tasks are wrapped as their waiters see
 * them. */
#include "run/stack.h"

#include "ops/call/profile.h"

#define CHUNK_BYTES (64 * 1024)
#define SHOWN_FRAMES 64 /* of a traceback */
/* Each task that waits for a failing one adds its traceback to the message, up to this many
 * bytes. */
#define MESSAGE_BYTES (64 * 1024)

/* -- Chunks ------------------------------------------------------------------------------------ */

void stack_init(call_stack *s, context *c, void *first, size_t n_bytes)
{
  chunk *k = first;

  *k = (chunk){.prev = NULL, .used = sizeof *k, .n_bytes = n_bytes};
  *s = (call_stack){.ctx = c, .top = k};
}

void stack_free(call_stack *s)
{
  for (chunk *k = s->top, *prev; k && k->prev; k = prev) { /* the first is not ours */
    prev = k->prev;
    mem_free(s->ctx, k, k->n_bytes);
  }
  if (s->spare)
    mem_free(s->ctx, s->spare, s->spare->n_bytes);
}

static bool add_chunk(call_stack *s, size_t n_bytes)
{
  size_t want = n_bytes + sizeof(chunk) > CHUNK_BYTES ? n_bytes + sizeof(chunk) : CHUNK_BYTES;
  chunk *k = s->spare;

  if (k && k->n_bytes >= want) {
    s->spare = NULL;
  } else {
    k = mem_alloc(s->ctx, want);
    if (!k)
      return false;
    k->n_bytes = want;
  }
  k->prev = s->top;
  k->used = sizeof *k;
  s->top = k;
  return true;
}

/* -- Frames ------------------------------------------------------------------------------------ */

static const code_place *node_of(const frame *f)
{
  const code *c = f->c;
  ptrdiff_t pc = f->pc - c->code;

  return &c->places[c->place_of[pc > 0 ? pc - 1 : 0]];
}

/* A position in a function: a frame's own, or that of a call that was inlined into it. */
typedef struct position {
  const frame *f;
  function *function; /* that contains it, or NULL */
  source_range range;
  uint32_t origin;
  const ir_inlined *call; /* that the position came with; NULL: it is in the frame's function */
} position;

static position position_in(const frame *f, source_range range, uint32_t origin,
                            const ir_inlined *call)
{
  return (position){f, call ? call->function : f->c->function, range, origin, call};
}

/* Return the frame's innermost position. */
static position position_of(const call_stack *s, const frame *f)
{
  const code_place *p = f == s->frame && s->group_place ? s->group_place : node_of(f);

  return position_in(f, p->range, p->origin, p->inlined);
}

/* Move to the call that p's function was inlined for; false: that is the frame's own. */
static bool move_out(position *p)
{
  const ir_inlined *call = p->call;

  if (call)
    *p = position_in(p->f, call->range, call->origin, call->outer);
  return call != NULL;
}

static bool is_hidden(const position *p)
{
  return p->f->c->is_builtin || (p->function && p->function->is_builtin);
}

bool stack_place(call_ctx *cx, call_place *out)
{
  const call_stack *s = cx->frames;
  const frame *f = s->frame;

  while (f && f->c->is_builtin)
    f = f->prev;
  if (!f || !f->c->n_places)
    return false;
  position p = position_of(s, f);
  while (is_hidden(&p) && move_out(&p))
    ;
  *out =
    (call_place){p.range, p.function, p.function ? p.function->qualified : NULL, p.origin};
  return true;
}

/* Begin a profile event; composites' bodies and interpreted groups are part of their operator's
 * event. */
static uint32_t begin_event(call_ctx *cx, const call_stack *s, const code *c)
{
  const char *name = c->function ? c->function->qualified : c->name;
  call_place first = {.function = c->function};

  if (c->is_builtin || c->is_group)
    return PROFILE_NONE;
  if (s->frame || !c->n_places)
    return profile_begin_function(cx, name, NULL);
  first.range = c->places[0].range; /* called from outside: where it begins */
  return profile_begin_function(cx, name, &first);
}

static void begin_events(call_ctx *cx, const call_stack *s, frame *f)
{
  f->event = begin_event(cx, s, f->c);
  f->mark = NO_REG;
}

/* Events of inlined calls: each one's register has its number and the register of the next outer
 * one, so that a frame that fails can end all of them. */
void mark_begin(call_ctx *cx, frame *f, uint32_t reg, const ir_inlined *call)
{
  const uint32_t event = profile_begin_function(cx, call->function->qualified, NULL);

  f->regs[reg] = value_int((int64_t)((uint64_t)f->mark << 32 | event));
  f->mark = reg;
}

void mark_end(call_ctx *cx, frame *f)
{
  const uint64_t kept = (uint64_t)f->regs[f->mark].as.i;

  profile_end(cx, (uint32_t)kept);
  f->mark = (uint32_t)(kept >> 32);
}

static void end_events(call_ctx *cx, frame *f)
{
  while (f->mark != NO_REG)
    mark_end(cx, f);
  if (!f->c->is_builtin && !f->c->is_group)
    profile_end(cx, f->event);
}

/* Set n registers to None: most functions have few, for which a call of memset takes longer. */
static inline void clear_registers(rush_value *r, uint32_t n)
{
  switch (n) {
  case 6: r[5] = value_none(); /* fall through */
  case 5: r[4] = value_none(); /* fall through */
  case 4: r[3] = value_none(); /* fall through */
  case 3: r[2] = value_none(); /* fall through */
  case 2: r[1] = value_none(); /* fall through */
  case 1: r[0] = value_none(); /* fall through */
  case 0: break;
  default: memset(r, 0, n * sizeof *r);
  }
}

rush_status stack_push(call_ctx *cx, call_stack *s, const code *c, frame **out)
{
  size_t n_bytes = sizeof(frame) + (size_t)c->n_frame * sizeof(rush_value);

  if (UNLIKELY(cx->depth >= cx->limit_depth))
    return error_set_limit(cx->err, RUSH_LIMIT_DEPTH, "RecursionError",
                          "calls are nested too deep: the limit is %u", cx->limit_depth);
  if (UNLIKELY(s->top->n_bytes - s->top->used < n_bytes) && !add_chunk(s, n_bytes))
    return call_nomem_bytes(cx, CHUNK_BYTES);
  frame *f = (frame *)((char *)s->top + s->top->used);

  f->c = c;
  f->regs = (rush_value *)(f + 1);
  f->pc = c->code;
  f->prev = s->frame;
  f->fut = NULL;
  f->borrowed = 0;
  f->chunk = s->top;
  f->used_before = s->top->used;
  f->dst = NO_REG;
  f->result = 0;
  s->top->used += n_bytes;
  if (UNLIKELY(cx->watch & CALL_PROFILED))
    begin_events(cx, s, f);
  s->frame = f;
  cx->depth++;
  if (c->n_kregs)
    memcpy(f->regs, c->constants, c->n_kregs * sizeof(rush_value));
  clear_registers(f->regs + c->n_kregs, c->n_regs - c->n_kregs);
  *out = f;
  return RUSH_OK;
}

void stack_pop(call_ctx *cx, call_stack *s)
{
  frame *f = s->frame;
  chunk *k = f->chunk;

  if (UNLIKELY(cx->watch & CALL_PROFILED))
    end_events(cx, f);
  s->frame = f->prev;
  k->used = f->used_before;
  cx->depth--;
  if (k->used == sizeof *k && k->prev) {
    s->top = k->prev;
    if (s->spare)
      mem_free(s->ctx, s->spare, s->spare->n_bytes);
    s->spare = k;
  }
}

/* -- Tracebacks -------------------------------------------------------------------------------- */

/* The frames that a traceback shows. */
typedef struct shown {
  position at[SHOWN_FRAMES]; /* innermost first */
  const char *names[SHOWN_FRAMES];
  uint32_t n;
} shown;

/* True if PyTorch would begin a new frame here; it inlines other calls. */
static bool begins_frame(const frame *f)
{
  return f->fut ||
         (f->prev && f->prev->pc > f->prev->c->code && f->prev->pc[-1].op == OPC_CALL_INTERFACE);
}

/* True for nodes without results: PyTorch's text lacks the calls that they were inlined through,
 * and shows their position with the name of the function whose frame it is. */
static bool loses_calls(const frame *f)
{
  const ins *i = f->pc > f->c->code ? f->pc - 1 : f->pc;

  return i->op == OPC_RAISE || i->op == OPC_PRINT ||
         (i->op == OPC_OPERATOR && f->c->sites[ins_imm(*i)].n_results == 0);
}

static const char *shown_name(const position *p)
{
  return p->call ? p->call->function->name : p->f->fut ? "<forked function>" : p->f->c->name;
}

/* Add the positions of a frame; *skip: the text lacks them up to the beginning of a frame. */
static void collect_positions(const call_stack *s, const frame *f, shown *t, bool *skip)
{
  position p = position_of(s, f);

  do {
    if (is_hidden(&p) || f->c->is_group || t->n >= SHOWN_FRAMES || !p.range.src)
      continue;
    if (!*skip)
      t->at[t->n++] = p;
    t->names[t->n - 1] = shown_name(&p);
    *skip = (*skip || (t->n == 1 && loses_calls(f))) && (p.call || !begins_frame(f));
  } while (move_out(&p));
}

static void collect_frames(call_stack *s, frame *base, shown *t)
{
  bool skip = false;

  for (const frame *f = s->frame;; f = f->prev) {
    collect_positions(s, f, t, &skip);
    if (f == base)
      break;
  }
}

/* Append the frames' positions in the author's texts; nothing if they are unknown. */
static void add_originals(call_ctx *cx, text_buf *out, const shown *t)
{
  for (uint32_t i = t->n; i-- > 0;) {
    function *f = t->at[i].function;
    source_range from;
    source *src;

    if (!f || !f->program->original ||
        !f->program->original(cx, f->program, &t->at[i].range, &from, &src))
      continue;
    source_excerpt_in(out, &from, t->names[i]);
    source_release(src);
  }
}

/* Append where the author of an exported program wrote the operation that failed: behind the
 * message, since PyTorch's own has no traceback. */
static void add_author(call_ctx *cx, call_stack *s, frame *base)
{
  shown t = {.n = 0};
  text_buf out;

  text_init(&out, s->ctx);
  text_printf(&out, "%s\n\nThe operation that failed was written in:\n", cx->err->message);
  const size_t begin = out.len;
  collect_frames(s, base, &t);
  add_originals(cx, &out, &t);
  if (!text_failed(&out) && out.len > begin) {
    out.data[--out.len] = 0; /* the last line's end */
    error_set_type(cx->err, cx->err->status, cx->err->type, "%s", text_str(&out));
  }
  text_free(&out);
}

/* Append the traceback as PyTorch prints it: outermost first; the name beside a position is the
 * function that contains it. */
static void add_traceback(call_ctx *cx, call_stack *s, frame *base)
{
  shown t = {.n = 0};
  text_buf out, originals;

  collect_frames(s, base, &t);
  if (!t.n)
    return;
  text_init(&out, s->ctx);
  text_init(&originals, s->ctx);
  add_originals(cx, &originals, &t);
  if (!cx->err->traceback)
    text_printf(&out, "The following operation failed in the TorchScript interpreter.\n"
                      "Traceback of TorchScript%s (most recent call last):\n",
                originals.len ? ", serialized code" : "");
  for (uint32_t i = t.n; i-- > 0;)
    source_excerpt_in(&out, &t.at[i].range, t.names[i]);
  if (originals.len && !text_failed(&originals))
    text_printf(&out, "\nTraceback of TorchScript, original code (most recent call last):\n%s",
                text_str(&originals));
  if (!text_failed(&out))
    error_add_traceback(cx->err, text_str(&out));
  text_free(&originals);
  text_free(&out);
}

/* Set the class of an error whose class an operator chose: a failing program raises RuntimeError,
 * or torch.jit.Error for its own exceptions. */
static void set_class(rush_error *err)
{
  if (err->status == RUSH_ERAISED && err->type && strcmp(err->type, "Error") != 0 &&
      strcmp(err->type, "NotImplementedError") != 0)
    err->type = "RuntimeError";
}

/* True for errors of the program itself; false for limits, cancellation and lack of memory. */
static bool is_raised(rush_status st)
{
  return st == RUSH_ERAISED || st == RUSH_EUNSUPPORTED || st == RUSH_EARGUMENT;
}

/* Wrap a task's error for its waiter: a RuntimeError whose message has all that PyTorch prints. */
static void wrap_error(context *c, rush_error *err)
{
  bool named = err->type && strcmp(err->type, "Error") == 0; /* the message begins with the class */
  text_buf t;

  if (!err->message)
    return;
  text_init(&t, c);
  text_printf(&t, "%s%s%s\n", err->traceback ? err->traceback : "",
              named ? "" : "RuntimeError: ", err->message);
  if (!text_failed(&t)) /* else the message as it was */
    error_set_type(err, RUSH_ERAISED, "RuntimeError", "%s", text_str(&t));
  text_free(&t);
}

typedef struct unwinding {
  rush_status st;
  bool full;          /* the message grows no more */
  rush_value message; /* as a string for futures, once one needs it */
} unwinding;

/* Report the failure of the frames from the innermost to `last`, the last one of a task or of
 * all. */
static void report_failure(call_ctx *cx, call_stack *s, frame *last, unwinding *u)
{
  if (!cx->err || (u->full && last->fut))
    return;
  if (!last->c->is_builtin && !last->c->is_eager)
    set_class(cx->err);
  if (last->c->is_eager)
    add_author(cx, s, last);
  else
    add_traceback(cx, s, last);
  if (!last->fut || !is_raised(u->st))
    return;
  wrap_error(s->ctx, cx->err);
  u->full = cx->err->message && strlen(cx->err->message) > MESSAGE_BYTES;
  value_release(u->message);
  u->message = value_none();
}

static void fail_task(call_ctx *cx, call_stack *s, future *fut, unwinding *u)
{
  rush_error *err = cx->err;

  if (err && err->message && u->message.tag != RUSH_TAG_STRING) {
    cx->err = NULL; /* without memory the future has no text */
    if (string_new(cx, err->message, strlen(err->message), &u->message) != RUSH_OK)
      u->message = value_none();
    cx->err = err;
  }
  future_fail(fut, u->st, err ? err->type : NULL, u->message);
  future_leave(cx, s, fut);
  value_release(value_heap_steal(RUSH_TAG_FUTURE, fut));
}

/* Return where a group failed: in the group itself, or in one inside it. */
static const code_place *place_in_group(const call_stack *s, const frame *f)
{
  return f == s->frame && s->group_place ? s->group_place : node_of(f);
}

/* Unwind the frames of one task, from the innermost to its last or to `base`.  Returns true if
 * `base` was reached. */
static bool unwind_task(call_ctx *cx, call_stack *s, frame *base, unwinding *u)
{
  frame *last = s->frame;

  while (last != base && !last->fut)
    last = last->prev;
  report_failure(cx, s, last, u);
  /* A group's frame is not part of the program: the frame below shows the position of the
   * failure. */
  s->group_place = last->c->is_group ? place_in_group(s, last) : NULL;
  for (frame *f = s->frame, *end = last->prev; f != end; f = s->frame) {
    for (uint32_t i = f->c->n_kregs; i < f->c->n_regs; i++)
      if (!frame_is_borrowed(f, i))
        value_release(f->regs[i]);
    future *fut = f->fut;
    stack_pop(cx, s);
    if (fut)
      fail_task(cx, s, fut, u);
  }
  return last == base;
}

void stack_unwind(call_ctx *cx, call_stack *s, frame *base, rush_status st)
{
  unwinding u = {.st = st, .message = value_none()};

  while (!unwind_task(cx, s, base, &u))
    ;
  value_release(u.message);
}
