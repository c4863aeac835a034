/* ops/kernels/reduce/reduce.c -- the reduction machine of reduce.h. It sorts dimensions into kept
 * and reduced, coalesces them, chooses rows, columns or gathered blocks, and folds fixed pieces in
 * parallel; pieces are combined in pairs. The pieces depend only on sizes, never on threads, so
 * that results have the same bits everywhere; a running sum per thread would be simpler and not
 * reproducible. If the accumulators of all pieces would exceed ACC_BYTES, pieces are processed in
 * groups that are combined in the same pairs. */
#include "ops/kernels/reduce/reduce.h"

#include "base/cpu.h"
#include "base/threads.h"
#include "ops/point/point_run.h"

ISA_DECLARE(const reduce_isa *, reduce_isa, (void));

#define PIECE 32768     /* elements that one fold takes at most */
/* The piece of a product: random factors underflow, and each fold passes through denormals, which
 * cost a hundred cycles each.  Few folds, few passes. */
#define PIECE_PRODUCT 262144
#define PIECE_ROWS 512  /* rows that one fold of columns takes at most */
#define COLS 512        /* columns that one fold of columns takes at most */
#define COLS_MIN 4      /* fewer are gathered */
#define RUN_MIN 64      /* shorter runs are gathered */
#define GRAIN 32768     /* elements a thread takes at least */
/* At most this many bytes of accumulators are held at once: otherwise pieces are processed in
 * groups. */
#define ACC_BYTES ((int64_t)64 << 20)
#define FIND_AT_ONCE (1 << 20)
#define GROUP 256       /* pieces of a group: a power of two */
#define GROUP_ROWS 4096 /* outputs that are folded together then, */
#define GROUP_STRIPS 8  /* or strips of columns */
#define LEVELS 64       /* results of groups that wait for their partners */

/* -- Geometry ---------------------------------------------------------------------------------- */

typedef struct axes { /* dimension 0 is innermost; strides are in bytes */
  int n;
  int64_t sizes[TENSOR_MAX_DIMS + 1], strides[TENSOR_MAX_DIMS + 1];
} axes;

typedef struct geometry {
  axes kept, gone;
  int64_t n_out, n_reduced; /* outputs, elements of each */
  int64_t item;
  int dtype;
} geometry;

static void axes_add(axes *a, int64_t size, int64_t stride)
{
  if (size == 1)
    return;
  if (a->n > 0 && stride == a->strides[a->n - 1] * a->sizes[a->n - 1]) {
    a->sizes[a->n - 1] *= size;
    return;
  }
  a->sizes[a->n] = size;
  a->strides[a->n++] = stride;
}

static void axes_close(axes *a)
{
  if (a->n == 0) {
    a->n = 1;
    a->sizes[0] = 1;
    a->strides[0] = 0;
  }
}

/* Order the reduced dimensions, smallest stride first unless their order matters. */
static int order_reduced(const rush_tensor *x, uint64_t dims, bool in_order, int *perm)
{
  int n = 0;
  for (int d = x->n_dims - 1; d >= 0; d--) {
    if (!(dims >> d & 1))
      continue;
    int at = n++;
    for (; !in_order && at > 0 && x->strides[perm[at - 1]] > x->strides[d]; at--)
      perm[at] = perm[at - 1];
    perm[at] = d;
  }
  return n;
}

static void find_geometry(geometry *g, const rush_tensor *x, uint64_t dims, bool in_order)
{
  const bool pairs = dtype_is_complex(x->dtype);
  const int64_t bytes = (int64_t)tensor_item_bytes(x);
  g->kept.n = g->gone.n = 0;
  g->n_out = g->n_reduced = 1;
  g->dtype = pairs ? dtype_to_real(x->dtype) : x->dtype;
  g->item = (int64_t)dtype_bytes(g->dtype);
  if (pairs) {
    axes_add(&g->kept, 2, g->item);
    g->n_out = 2;
  }
  for (int d = x->n_dims - 1; d >= 0; d--)
    if (!(dims >> d & 1)) {
      axes_add(&g->kept, x->sizes[d], x->strides[d] * bytes);
      g->n_out *= x->sizes[d];
    }
  int perm[TENSOR_MAX_DIMS];
  int n = order_reduced(x, dims, in_order, perm);
  for (int i = 0; i < n; i++) {
    axes_add(&g->gone, x->sizes[perm[i]], x->strides[perm[i]] * bytes);
    g->n_reduced *= x->sizes[perm[i]];
  }
  axes_close(&g->kept);
  axes_close(&g->gone);
}

/* A walk over axes. */
typedef struct walker {
  const axes *a;
  int64_t at[TENSOR_MAX_DIMS + 1];
  const char *p;
} walker;

static void walk_to(walker *w, const axes *a, const char *base, int64_t linear)
{
  w->a = a;
  w->p = base;
  for (int d = 0; d < a->n; d++) {
    w->at[d] = linear % a->sizes[d];
    w->p += w->at[d] * a->strides[d];
    linear /= a->sizes[d];
  }
}

/* Advance by n elements, not beyond the end of the innermost axis. */
static void walk_on(walker *w, int64_t n)
{
  const axes *a = w->a;
  w->at[0] += n;
  w->p += n * a->strides[0];
  for (int d = 0; w->at[d] >= a->sizes[d]; d++) {
    w->p -= w->at[d] * a->strides[d];
    w->at[d] = 0;
    if (d + 1 == a->n)
      return;
    w->at[d + 1]++;
    w->p += a->strides[d + 1];
  }
}

int64_t reduce_n_outputs(const rush_tensor *x, uint64_t dims)
{
  int64_t n = 1;
  for (int d = 0; d < x->n_dims; d++)
    n *= dims >> d & 1 ? 1 : x->sizes[d];
  return n;
}

int64_t reduce_n_elems(const rush_tensor *x, uint64_t dims)
{
  int64_t n = 1;
  for (int d = 0; d < x->n_dims; d++)
    n *= dims >> d & 1 ? x->sizes[d] : 1;
  return n;
}

/* -- Data of a run ----------------------------------------------------------------------------- */

typedef struct folding {
  const reduce_job *job;
  geometry g;
  const tape_isa *tape;
  const reduce_isa *isa;
  const reduce_loops *loops;
  int64_t width;   /* bytes of an accumulator */
  bool direct;     /* elements have the layout of accumulators */
  bool by_cols;
  int64_t piece;   /* elements (by rows) or rows (by columns) of a piece */
  int64_t n_pieces;
  /* The part that is folded at a time: pieces from p0 on, outputs [out0, out0 + out_n), strips from
   * strip0 on.  All of them, unless there are too many. */
  int64_t p0, group_n, out0, out_n, strip0, strip_n;
  char *acc;       /* group_n times out_n */
  call_ctx *cx;
  int64_t *found;  /* reduce_find */
} folding;

static int64_t strips_of_row(const folding *f) { return (f->g.kept.sizes[0] + COLS - 1) / COLS; }

static void prepare_folding(folding *f, call_ctx *cx, const reduce_job *job, bool in_order)
{
  cpu_level level = cpu_choose(context_get_options(cx->ctx)->cpu);
  f->job = job;
  f->tape = tape_isa_of(cx->ctx);
  f->isa = ISA_PICK(reduce_isa, level)();
  f->loops = &f->isa->loops[job->kind][job->type];
  find_geometry(&f->g, job->x, job->dims, in_order);
  f->width = (int64_t)tape_type_bytes(job->type);
  f->direct = !job->as_bool && tape_type_of(f->g.dtype) == (int)job->type && f->g.item == f->width;
  f->by_cols = f->g.kept.strides[0] == f->g.item && f->g.gone.strides[0] != f->g.item &&
               f->g.kept.sizes[0] >= COLS_MIN;
  f->piece = f->by_cols ? PIECE_ROWS : job->kind == REDUCE_PROD ? PIECE_PRODUCT : PIECE;
  f->n_pieces = (f->g.n_reduced - 1) / f->piece + 1;
  f->cx = cx;
  f->p0 = f->out0 = f->strip0 = 0;
  f->group_n = f->n_pieces;
  f->out_n = f->g.n_out;
  f->strip_n = f->by_cols && f->g.n_out ? strips_of_row(f) * (f->g.n_out / f->g.kept.sizes[0]) : 0;
}

/* Convert n contiguous elements of the tensor's dtype to the accumulator's type. */
static void to_block(const folding *f, int64_t n, void *dst, const void *src)
{
  if (!f->job->as_bool) {
    block_read(f->tape, n, dst, f->job->type, src, f->g.dtype);
    return;
  }
  uint8_t bits[BLOCK_MAX];
  block_read(f->tape, n, bits, TY_BOOL, src, f->g.dtype);
  block_read(f->tape, n, dst, f->job->type, bits, RUSH_BOOL);
}

static const void *param_at(const folding *f, int64_t out)
{
  return f->job->param ? (const char *)f->job->param + out * f->width : NULL;
}

/* Gather up to a block from the walk; *n is its length. */
static const void *next_block(const folding *f, walker *w, int64_t left, char *block, int64_t *n)
{
  char raw[BLOCK_MAX * 8] __attribute__((aligned(64)));
  char *to = f->direct ? block : raw;
  int64_t have = 0, want = i64_min(left, BLOCK_MAX);
  if (w->a->strides[0] == f->g.item && w->a->sizes[0] - w->at[0] >= want) {
    const char *src = w->p;
    walk_on(w, want);
    *n = want;
    if (f->direct)
      return src;
    to_block(f, want, block, src);
    return block;
  }
  while (have < want) {
    int64_t run = i64_min(w->a->sizes[0] - w->at[0], want - have);
    block_copy_strided(to + have * f->g.item, f->g.item, w->p, w->a->strides[0], run, f->g.item);
    have += run;
    walk_on(w, run);
  }
  if (!f->direct)
    to_block(f, have, block, raw);
  *n = have;
  return block;
}

/* Return how accumulators of a kind are combined. */
static reduce_kind combines_by(reduce_kind kind)
{
  switch (kind) {
  case REDUCE_MAX:
  case REDUCE_MAX_ABS:
    return REDUCE_MAX;
  case REDUCE_MIN:
  case REDUCE_MIN_ABS:
    return REDUCE_MIN;
  case REDUCE_PROD:
    return REDUCE_PROD;
  case REDUCE_SUM:
  case REDUCE_NANSUM:
  case REDUCE_SUM_ABS:
  case REDUCE_SUM_SQ:
  case REDUCE_SQ_DEV:
  case REDUCE_EXP_SUM:
  case REDUCE_NONZERO:
  case N_REDUCE_KINDS:
    break;
  }
  return REDUCE_SUM;
}

/* -- Rows -------------------------------------------------------------------------------------- */

/* Fold elements [begin, end) of one output into *acc. */
static void fold_row(const folding *f, const char *base, int64_t begin, int64_t end,
                     const void *param, char *acc)
{
  const reduce_loops *combine = &f->isa->loops[combines_by(f->job->kind)][f->job->type];
  char block[BLOCK_MAX * 8] __attribute__((aligned(64))), part[8];
  walker w;
  walk_to(&w, &f->g.gone, base, begin);
  const bool runs = f->direct && w.a->strides[0] == f->g.item && w.a->sizes[0] >= RUN_MIN;
  bool first = true;
  while (begin < end) {
    const void *x = block;
    int64_t n;
    if (runs) {
      n = i64_min(w.a->sizes[0] - w.at[0], end - begin);
      x = w.p;
      walk_on(&w, n);
    } else {
      x = next_block(f, &w, end - begin, block, &n);
    }
    f->loops->rows(1, n, 0, x, param, first ? acc : part);
    if (!first)
      combine->cols(1, 1, 0, part, NULL, acc);
    first = false;
    begin += n;
  }
}

/* Fold outputs [begin, end) whose elements need no conversion. */
static void fold_plain_rows(const folding *f, int64_t begin, int64_t end)
{
  walker w;
  walk_to(&w, &f->g.kept, f->job->x->data, begin);
  while (begin < end) {
    int64_t n = i64_min(w.a->sizes[0] - w.at[0], end - begin);
    f->loops->rows(n, f->g.n_reduced, w.a->strides[0] / f->width, w.p, param_at(f, begin),
                   f->acc + begin * f->width);
    walk_on(&w, n);
    begin += n;
  }
}

static bool rows_are_plain(const folding *f)
{
  return f->direct && f->g.gone.n == 1 &&
         (f->g.gone.strides[0] == f->g.item || f->g.n_reduced == 1);
}

/* Return how many short adjacent rows are converted at a time, or 0. */
static int64_t rows_in_block(const folding *f)
{
  const geometry *g = &f->g;
  const bool dense = !f->direct && g->gone.n == 1 && g->gone.strides[0] == g->item &&
                     g->kept.n == 1 && g->kept.strides[0] == g->n_reduced * g->item;
  return dense ? BLOCK_MAX / g->n_reduced : 0;
}

static void fold_converted_rows(const folding *f, int64_t begin, int64_t end, int64_t in_block)
{
  char block[BLOCK_MAX * 8] __attribute__((aligned(64)));
  const int64_t row = f->g.n_reduced;
  while (begin < end) {
    int64_t n = i64_min(in_block, end - begin);
    to_block(f, n * row, block, (const char *)f->job->x->data + begin * row * f->g.item);
    f->loops->rows(n, row, row, block, param_at(f, begin), f->acc + begin * f->width);
    begin += n;
  }
}

/* Fold unit u: piece u / out_n of output u % out_n, of the current part. */
static void fold_rows(void *arg, int64_t begin, int64_t end)
{
  const folding *f = arg;
  const geometry *g = &f->g;
  if (f->n_pieces == 1 && rows_are_plain(f)) {
    fold_plain_rows(f, begin, end);
    return;
  }
  const int64_t in_block = rows_in_block(f);
  if (in_block > 1) {
    fold_converted_rows(f, begin, end, in_block);
    return;
  }
  walker w;
  for (int64_t u = begin, out = begin % f->out_n; u < end;
       u++, out = out + 1 < f->out_n ? out + 1 : 0) {
    int64_t from = (f->p0 + u / f->out_n) * f->piece;
    if (u == begin || out == 0)
      walk_to(&w, &g->kept, f->job->x->data, f->out0 + out);
    else
      walk_on(&w, 1);
    fold_row(f, w.p, from, from + i64_min(f->piece, g->n_reduced - from),
             param_at(f, f->out0 + out), f->acc + u * f->width);
  }
}

/* -- Columns ----------------------------------------------------------------------------------- */

typedef struct strip { /* a block of columns */
  const char *base;
  int64_t out, n;      /* first output, how many */
  int64_t piece;
} strip;

static strip strip_at(const folding *f, int64_t unit)
{
  const int64_t in_row = strips_of_row(f), n_cols = f->g.kept.sizes[0],
                at = f->strip0 + unit % f->strip_n;
  const int64_t line = at / in_row, col = at % in_row * COLS;
  walker w;
  strip s = {
    .out = line * n_cols + col, .n = i64_min(COLS, n_cols - col), .piece = unit / f->strip_n};
  walk_to(&w, &f->g.kept, f->job->x->data, s.out);
  s.base = w.p;
  return s;
}

static void fold_strip(const folding *f, const strip *s)
{
  char *acc = f->acc + (s->piece * f->out_n + s->out - f->out0) * f->width;
  char block[COLS * 8] __attribute__((aligned(64)));
  int64_t row = (f->p0 + s->piece) * f->piece, end = row + i64_min(f->piece, f->g.n_reduced - row);
  walker w;
  walk_to(&w, &f->g.gone, s->base, row);
  f->loops->init(s->n, acc);
  while (row < end) {
    int64_t n = 1, stride = w.a->strides[0] / f->width;
    const void *x = w.p;
    if (f->direct)
      n = i64_min(w.a->sizes[0] - w.at[0], end - row);
    else
      to_block(f, s->n, block, x), x = block;
    f->loops->cols(s->n, n, stride, x, param_at(f, s->out), acc);
    walk_on(&w, n);
    row += n;
  }
}

static void fold_strips(void *arg, int64_t begin, int64_t end)
{
  const folding *f = arg;
  for (int64_t u = begin; u < end; u++) {
    strip s = strip_at(f, u);
    fold_strip(f, &s);
  }
}

/* -- Both -------------------------------------------------------------------------------------- */

static rush_status fold_all(call_ctx *cx, folding *f)
{
  const geometry *g = &f->g;
  int64_t units = f->out_n * f->group_n, unit = i64_min(g->n_reduced, f->piece);
  if (f->by_cols) {
    units = f->strip_n * f->group_n;
    unit *= i64_min(COLS, g->kept.sizes[0]);
  }
  void (*fn)(void *, int64_t, int64_t) = f->by_cols ? fold_strips : fold_rows;
  if (units * unit < 2 * GRAIN) {
    fn(f, 0, units);
    return RUSH_OK;
  }
  return parallel_for(cx, units, i64_max(1, GRAIN / unit), fn, f);
}

static void combine(const folding *f, char *to, const char *from)
{
  f->isa->loops[combines_by(f->job->kind)][f->job->type].cols(f->out_n, 1, 0, from, NULL, to);
}

/* Combine pieces in pairs: the first receives the result. */
static void combine_pieces(const folding *f)
{
  const int64_t bytes = f->out_n * f->width;
  for (int64_t step = 1; step < f->group_n; step *= 2)
    for (int64_t i = 0; i + step < f->group_n; i += 2 * step)
      combine(f, f->acc + i * bytes, f->acc + (i + step) * bytes);
}

/* Fold the outputs of the window, their pieces in groups, into *acc.  Groups are combined in the
 * same pairs as if all were done at once: `waiting` has, one after the other, the results of ever
 * fewer groups. Returns the status of polling. */
static rush_status fold_groups(folding *f, char *waiting, char *acc)
{
  const int64_t bytes = f->out_n * f->width;
  int n = 0;
  for (f->p0 = 0; f->p0 < f->n_pieces; f->p0 += GROUP) {
    f->group_n = i64_min(GROUP, f->n_pieces - f->p0);
    TRY(fold_all(f->cx, f));
    TRY(call_poll(f->cx));
    combine_pieces(f);
    memcpy(waiting + n++ * bytes, f->acc, (size_t)bytes);
    for (int64_t i = f->p0 / GROUP; i & 1; i >>= 1, n--)
      combine(f, waiting + (n - 2) * bytes, waiting + (n - 1) * bytes);
  }
  for (; n > 1; n--)
    combine(f, waiting + (n - 2) * bytes, waiting + (n - 1) * bytes);
  memcpy(acc + f->out0 * f->width, waiting, (size_t)bytes);
  return RUSH_OK;
}

/* Fold as many outputs at a time as the accumulators of a group of pieces allow. */
static rush_status fold_windows(folding *f, char *acc)
{
  const int64_t n = f->by_cols ? f->strip_n : f->g.n_out,
                at_once = f->by_cols ? GROUP_STRIPS : GROUP_ROWS;
  const int64_t most = i64_min(f->g.n_out, f->by_cols ? GROUP_STRIPS * COLS : GROUP_ROWS);
  const size_t n_bytes = (size_t)((GROUP + LEVELS) * most * f->width);
  char *scratch = mem_alloc_data(f->cx->ctx, n_bytes);
  if (!scratch)
    return call_nomem_bytes(f->cx, n_bytes);
  rush_status st = RUSH_OK;
  f->acc = scratch;
  for (int64_t at = 0; at < n && st == RUSH_OK; at += at_once) {
    int64_t until = i64_min(at + at_once, n);
    f->out0 = at;
    f->out_n = until - at;
    if (f->by_cols) {
      f->p0 = f->strip0 = 0;
      f->strip_n = n;
      f->out0 = strip_at(f, at).out;
      f->out_n = (until < n ? strip_at(f, until).out : f->g.n_out) - f->out0;
      f->strip0 = at;
      f->strip_n = until - at;
    }
    st = fold_groups(f, scratch + GROUP * most * f->width, acc);
  }
  mem_free_data(f->cx->ctx, scratch, n_bytes);
  return st;
}

rush_status reduce_run(call_ctx *cx, const reduce_job *job, void *acc)
{
  folding f;
  prepare_folding(&f, cx, job, false);
  if (f.g.n_out == 0)
    return RUSH_OK;
  if (f.g.n_reduced == 0) {
    f.loops->init(f.g.n_out, acc);
    return RUSH_OK;
  }
  f.acc = acc;
  if (f.n_pieces == 1)
    return fold_all(cx, &f);
  if (f.n_pieces > ACC_BYTES / f.width / f.g.n_out)
    return fold_windows(&f, acc);
  const size_t bytes = (size_t)(f.n_pieces * f.g.n_out * f.width);
  f.acc = mem_alloc_data(cx->ctx, bytes);
  if (!f.acc)
    return call_nomem_bytes(cx, bytes);
  rush_status st = fold_all(cx, &f);
  if (st == RUSH_OK) {
    combine_pieces(&f);
    memcpy(acc, f.acc, (size_t)(f.g.n_out * f.width));
  }
  mem_free_data(cx->ctx, f.acc, bytes);
  return st;
}

/* -- Positions of extremes --------------------------------------------------------------------- */

static int64_t find_in_row(const folding *f, const char *base, const void *wanted)
{
  char block[BLOCK_MAX * 8] __attribute__((aligned(64)));
  walker w;
  walk_to(&w, &f->g.gone, base, 0);
  for (int64_t at = 0, step = 0; at < f->g.n_reduced; step++) {
    int64_t n;
    if (step % 256 == 255 && call_over(f->cx))
      return 0;
    const void *x = next_block(f, &w, f->g.n_reduced - at, block, &n);
    int64_t hit = f->isa->find[f->job->type](n, x, wanted);
    if (hit < n)
      return at + hit;
    at += n;
  }
  return 0;
}

/* Find in a row whose elements need no conversion. */
static int64_t find_in_plain_row(const folding *f, const char *x, const void *wanted)
{
  for (int64_t at = 0; at < f->g.n_reduced; at += FIND_AT_ONCE) {
    int64_t n = i64_min(FIND_AT_ONCE, f->g.n_reduced - at),
            hit = f->isa->find[f->job->type](n, x + at * f->width, wanted);
    if (hit < n)
      return at + hit;
    if (n == FIND_AT_ONCE && call_over(f->cx))
      break;
  }
  return 0;
}

static void find_rows(void *arg, int64_t begin, int64_t end)
{
  const folding *f = arg;
  walker w;
  const bool plain = rows_are_plain(f);
  walk_to(&w, &f->g.kept, f->job->x->data, begin);
  for (int64_t u = begin; u < end; u++) {
    f->found[u] = (plain ? find_in_plain_row : find_in_row)(f, w.p, param_at(f, u));
    walk_on(&w, 1);
  }
}

static void find_strip(const folding *f, const strip *s)
{
  char block[COLS * 8] __attribute__((aligned(64)));
  int64_t *found = f->found + s->out;
  for (int64_t c = 0; c < s->n; c++)
    found[c] = 0;
  for (int64_t row = f->g.n_reduced - 1; row >= 0; row--) {
    if (row % 1024 == 1023 && call_over(f->cx))
      return;
    walker w;
    walk_to(&w, &f->g.gone, s->base, row);
    const void *x = w.p;
    if (!f->direct)
      to_block(f, s->n, block, x), x = block;
    f->isa->find_cols[f->job->type](s->n, 1, 0, x, param_at(f, s->out), row, found);
  }
}

static void find_strips(void *arg, int64_t begin, int64_t end)
{
  const folding *f = arg;
  for (int64_t u = begin; u < end; u++) {
    strip s = strip_at(f, u);
    find_strip(f, &s);
  }
}

rush_status reduce_find(call_ctx *cx, const reduce_job *job, const void *extremes, int64_t *found)
{
  folding f;
  reduce_job with = *job;
  with.param = extremes;
  prepare_folding(&f, cx, &with, true);
  f.found = found;
  if (f.g.n_out == 0 || f.g.n_reduced == 0)
    return RUSH_OK;
  if (!f.by_cols)
    return parallel_for(cx, f.g.n_out, i64_max(1, GRAIN / f.g.n_reduced), find_rows, &f);
  f.n_pieces = 1;
  int64_t units = strips_of_row(&f) * (f.g.n_out / f.g.kept.sizes[0]);
  return parallel_for(cx, units,
                      i64_max(1, GRAIN / (f.g.n_reduced * i64_min(COLS, f.g.kept.sizes[0]))),
                      find_strips, &f);
}
