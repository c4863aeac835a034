/* compile/region_read.c -- turns a group's nodes into the steps of a region (region.h).
 *
 * Nodes are taken in order.  A convolution, norm or pooling becomes a step; behind it, a batch norm
 * that alone reads a convolution's result joins it, and so do pointwise nodes that read what the
 * step has just made and otherwise only what exists already: they become one tape, whose results
 * that others read get places of their own.  Pointwise nodes that join no step become one without
 * a base.  A permute that moves channels last or back makes no step: the image stays as it is.
 * Cost: O(nodes^2), of small numbers. */
#include "compile/region_int.h"

#include <math.h>
#include <string.h>

#include "base/macros.h"

#define MOST_SPREAD 16 /* elements of a transposed convolution's kernel, each a step */
#define MOST_POINT 32  /* pointwise nodes of a step */
#define MOST_AHEAD 256 /* nodes that are looked at for them */
#define FEW_PLANES 8   /* images of no more channels are planes if only convolutions read them */

typedef struct node_state {
  const rush_node *node;
  region_op op;
  region_window window;
  bool done;
} node_state;

typedef struct value_state { /* by the value's id */
  uint32_t node;  /* that makes it, or NO_INDEX */
  uint32_t arg;   /* of the group, or NO_INDEX */
  uint32_t place; /* or NO_INDEX */
  uint32_t mark;  /* of the set of nodes that makes it */
  bool leaves;
  enum { FIRST, LAST, UNKNOWN } channels; /* of four dimensions: where they are */
} value_state;

typedef struct reader {
  backend k;
  const rush_block *body;
  region *r;
  node_state *nodes;
  value_state *values;
  uint32_t n_nodes, n_values, mark, n_left;
  int64_t most_ch; /* of all images that nodes make */
  rush_status st;
  bool failed; /* no machine code: the region cannot run */
} reader;

static value_state *state_of(const reader *d, const rush_graph_value *v)
{
  return &d->values[d->k.api->value_id(v)];
}

/* -- Images ------------------------------------------------------------------------------------ */

/* True for nodes that make no step: their image is their operand's. */
static bool is_same_image(region_op op) { return op == OP_TURN || op == OP_SAME; }

/* Return the value that v is a permute of, or v. */
static const rush_graph_value *root_of(const reader *d, const rush_graph_value *v)
{
  for (uint32_t at; (at = state_of(d, v)->node) != NO_INDEX && is_same_image(d->nodes[at].op);)
    v = d->k.api->node_input(d->nodes[at].node, 0);
  return v;
}

static bool image_of(const reader *d, const rush_graph_value *v, region_image *out)
{
  return region_image_of(&d->k, v, state_of(d, v)->channels == LAST, out);
}

/* Read an operand of pointwise nodes that make images like this one; *repeats: it comes from
 * outside and is for all images. */
static bool operand_image(const reader *d, const rush_graph_value *v, const region_image *like,
                          region_image *out, bool *repeats)
{
  const rush_graph_value *root = root_of(d, v);
  const bool last = state_of(d, v)->channels == LAST;

  *repeats = state_of(d, root)->arg != NO_INDEX && v == root &&
             (region_is_channels(&d->k, v, last, like->n_ch) || region_is_one(&d->k, v)) &&
             like->h * like->w > 1;
  *out = (region_image){like->batch, like->n_ch, 1, 1};
  return *repeats || image_of(d, v, out);
}

/* Note where a node wants the channels of an operand. */
static void want_channels(reader *d, const rush_graph_value *v, bool last)
{
  value_state *s = state_of(d, v);

  if (region_dims_of(&d->k, v) != 4 && s->arg == NO_INDEX)
    return;
  if (s->channels == UNKNOWN)
    s->channels = last ? LAST : FIRST;
  d->failed |= s->channels != (last ? LAST : FIRST);
}

/* Find where the channels are that a pointwise node reads: as in its operands that are known. */
static bool point_wants_last(const reader *d, const rush_node *n)
{
  for (size_t i = 0; i < d->k.api->node_n_inputs(n); i++) {
    const rush_graph_value *v = d->k.api->node_input(n, i);
    if (region_dims_of(&d->k, v) == 4 && state_of(d, v)->channels != UNKNOWN)
      return state_of(d, v)->channels == LAST;
  }
  return false;
}

/* Find where channels are, node by node: operands come before their users. */
static void find_channels(reader *d, const node_state *s)
{
  const rush_backend_api *api = d->k.api;
  const rush_node *n = s->node;
  const bool turns_last = s->op == OP_TURN && region_turns_last(&d->k, n),
             follows = s->op == OP_POINT || s->op == OP_SAME || s->op == OP_SLICE ||
                       s->op == OP_LIST,
             last = s->op == OP_LAYER || s->op == OP_LINEAR || (s->op == OP_TURN && !turns_last) ||
                    (follows && point_wants_last(d, n)) ||
                    (s->op == OP_CAT && point_wants_last(d, region_joined(&d->k, n)));

  for (size_t i = 0; i < api->node_n_inputs(n); i++)
    if (api->value_is_tensor(api->node_input(n, i)) &&
        (i == 0 || s->op == OP_POINT || s->op == OP_LIST))
      want_channels(d, api->node_input(n, i), last);
  state_of(d, api->node_output(n, 0))->channels =
    (s->op == OP_TURN ? turns_last : last) && region_dims_of(&d->k, api->node_output(n, 0)) == 4
      ? LAST
      : FIRST;
}

/* -- Places and steps -------------------------------------------------------------------------- */

static uint32_t new_place(reader *d, const region_image *i, int lanes)
{
  region *r = d->r;

  ASSERT(r->n_places < r->cap_places, "a place for each value");
  d->failed |= r->n_places && (i->batch == 0) != r->is_open;
  r->is_open = i->batch == 0;
  r->places[r->n_places] = (region_place){.place = {.n_ch = i->n_ch,
                                                    .h = i->h,
                                                    .w = i->w,
                                                    .rows = i->h,
                                                    .cols = i->w,
                                                    .lanes = lanes},
                                          .batch = i64_max(1, i->batch),
                                          .first = NO_INDEX};
  return r->n_places++;
}

/* Note that step `at` writes or reads the place. */
static void use_place(reader *d, uint32_t place, uint32_t at)
{
  region_place *p = &d->r->places[place];

  p->first = p->first == NO_INDEX ? at : p->first;
  p->last = at;
}

static void add_step(reader *d, const region_step *s)
{
  region *r = d->r;
  const uint32_t at = r->n_steps++;

  ASSERT(at < r->cap_steps, "a step for each node, argument and result");
  r->steps[at] = *s;
  d->n_left += s->kind == BLOCK_LEAVE;
  if (s->in != NO_INDEX)
    use_place(d, s->in, at);
  if (s->out != NO_INDEX)
    use_place(d, s->out, at);
  for (uint32_t i = 0; s->point && i < (uint32_t)s->point->fused.tape.n_inputs; i++)
    use_place(d, s->point->inputs[i], at);
  for (uint32_t i = 0; s->point && i < (uint32_t)s->point->fused.tape.n_results; i++)
    use_place(d, s->point->results[i], at);
}

static region_step step_of(block_kind kind)
{
  return (region_step){.kind = kind,
                       .window = {{1, 1}, {1, 1}, {0, 0}, {1, 1}, 0, false, 0},
                       .in = NO_INDEX,
                       .out = NO_INDEX,
                       .weight = NO_INDEX,
                       .bias = NO_INDEX,
                       .norm = {NO_INDEX, NO_INDEX, NO_INDEX, NO_INDEX},
                       .groups = 1,
                       .width = 1};
}

/* True if v is read by convolutions of all channels only, as their image. */
static bool feeds_convolutions(const reader *d, const rush_graph_value *v)
{
  const rush_backend_api *api = d->k.api;
  size_t input;

  for (size_t i = 0; i < api->value_n_uses(v); i++) {
    const rush_node *user = api->value_use(v, i, &input);
    const rush_graph_value *made = api->node_output(user, 0);
    const uint32_t at = made ? state_of(d, made)->node : NO_INDEX;

    if (at == NO_INDEX || d->nodes[at].op != OP_CONV || input != 0 ||
        region_groups(&d->k, user) > 1)
      return false;
  }
  return true;
}

/* Set whether the border step's tensor outside has a pixel's channels together. */
static void set_interleaved(region_step *s, const region_fact *f, bool last)
{
  s->interleaved = f->n == 4 && last == (f->order == ORDER_ROWS);
}

/* Let the group's argument v enter. */
static void enter_image(reader *d, const rush_graph_value *v, const region_image *image,
                        bool repeats)
{
  value_state *s = state_of(d, v);
  region_step enter = step_of(BLOCK_ENTER);
  const bool planes = image->n_ch <= FEW_PLANES && feeds_convolutions(d, v);
  const bool from_one = repeats && region_is_one(&d->k, v);
  const region_image widest = {image->batch, d->most_ch, 1, 1}; /* for all that read a number */

  enter.out = s->place = new_place(d, from_one ? &widest : image, planes ? 1 : BLOCK_LANES);
  enter.arg = s->arg;
  enter.repeats = repeats;
  enter.from_one = from_one;
  set_interleaved(&enter, &d->r->args[s->arg], s->channels == LAST && !repeats);
  add_step(d, &enter);
}

/* Return the place of an operand of nodes that make images `like` (NULL: any); what comes from
 * outside enters here. */
static uint32_t operand_place(reader *d, const rush_graph_value *v, const region_image *like)
{
  const rush_graph_value *root = root_of(d, v);
  region_image image;
  bool repeats = false;

  if (state_of(d, root)->place != NO_INDEX)
    return state_of(d, root)->place;
  ASSERT(state_of(d, root)->arg != NO_INDEX, "values are made before their uses");
  if (like ? !operand_image(d, root, like, &image, &repeats) : !image_of(d, root, &image)) {
    d->failed = true;
    return 0;
  }
  enter_image(d, root, &image, repeats);
  return state_of(d, root)->place;
}

static uint32_t place_of(reader *d, const rush_graph_value *v)
{
  return operand_place(d, v, NULL);
}

/* Return the argument that a parameter is; NO_INDEX: None.  What the region makes has no pixels in
 * order to read: region_refuse leaves such nodes outside. */
static uint32_t arg_of(reader *d, const rush_graph_value *v)
{
  rush_value c;

  if (region_constant(&d->k, v, &c))
    return NO_INDEX;
  d->failed |= state_of(d, v)->arg == NO_INDEX;
  return state_of(d, v)->arg;
}

/* -- Pointwise nodes behind a step ------------------------------------------------------------- */

typedef struct point_set {
  const rush_node *nodes[MOST_POINT];
  const rush_graph_value *inputs[MOST_POINT * 4], *results[MOST_POINT];
  uint32_t n_nodes, n_inputs, n_results;
  uint32_t n_channels; /* inputs of one pixel, the last ones */
  region_image like;   /* what its nodes make */
  const rush_graph_value *head; /* the step's value, or NULL */
  bool head_stays; /* others read it too */
} point_set;

static bool is_tensor_operand(const reader *d, const rush_graph_value *v)
{
  rush_value c;

  return d->k.api->value_is_tensor(v) && !(d->k.api->value_constant(v, &c));
}

/* True if something outside the set reads v. */
static bool leaves_set(const reader *d, const point_set *p, const rush_graph_value *v)
{
  const rush_backend_api *api = d->k.api;
  size_t input;

  if (state_of(d, v)->leaves)
    return true;
  for (size_t i = 0; i < api->value_n_uses(v); i++) {
    const rush_node *user = api->value_use(v, i, &input);
    const rush_graph_value *made = api->node_output(user, 0);
    const uint32_t at = made ? state_of(d, made)->node : NO_INDEX;
    bool inside = at != NO_INDEX && is_same_image(d->nodes[at].op) && !leaves_set(d, p, made);

    for (uint32_t j = 0; j < p->n_nodes && !inside; j++)
      inside = p->nodes[j] == user;
    if (!inside)
      return true;
  }
  return false;
}

/* True if the node reads a value of the set and, besides, only what exists, and makes an image like
 * the set's. */
static bool joins(const reader *d, const region_image *like, const node_state *n)
{
  region_image image;
  bool touches = false;

  if (!image_of(d, d->k.api->node_output(n->node, 0), &image) || !region_same_image(&image, like))
    return false;

  for (size_t i = 0; i < d->k.api->node_n_inputs(n->node); i++) {
    const rush_graph_value *v = d->k.api->node_input(n->node, i);

    if (!is_tensor_operand(d, v))
      continue;
    const value_state *s = state_of(d, root_of(d, v));
    if (s->mark == d->mark)
      touches = true;
    else if (s->place == NO_INDEX && s->arg == NO_INDEX)
      return false;
  }
  return touches;
}

static void add_once(const rush_graph_value **list, uint32_t *n, const rush_graph_value *v)
{
  for (uint32_t i = 0; i < *n; i++)
    if (list[i] == v)
      return;
  list[(*n)++] = v;
}

/* Count the inputs that have one pixel for all. */
static uint32_t count_channels(const reader *d, const point_set *p)
{
  region_image image;
  uint32_t n = 0;
  bool repeats;

  for (uint32_t i = 0; i < p->n_inputs; i++)
    n += operand_image(d, p->inputs[i], &p->like, &image, &repeats) &&
         !region_same_image(&image, &p->like);
  return n;
}

/* Find the set's inputs and results; returns false if a tape cannot have as many.  A permute of a
 * value stands for the value. */
static bool find_border(const reader *d, point_set *p)
{
  p->n_inputs = p->n_results = 0;
  for (uint32_t i = 0; i < p->n_nodes; i++)
    for (size_t a = 0; a < d->k.api->node_n_inputs(p->nodes[i]); a++) {
      const rush_graph_value *v = d->k.api->node_input(p->nodes[i], a);

      if (!is_tensor_operand(d, v))
        continue;
      bool inside = false;
      v = root_of(d, v);
      for (uint32_t j = 0; j < i && !inside; j++)
        inside = d->k.api->node_output(p->nodes[j], 0) == v;
      if (!inside)
        add_once(p->inputs, &p->n_inputs, v);
      if (p->n_inputs > GROUP_MAX_INPUTS)
        return false;
    }
  for (uint32_t i = 0; i < p->n_nodes; i++) {
    const rush_graph_value *v = d->k.api->node_output(p->nodes[i], 0);
    if (leaves_set(d, p, v))
      p->results[p->n_results++] = v;
  }
  p->head_stays = p->head && leaves_set(d, p, p->head);
  return p->n_results <= GROUP_MAX_RESULTS && count_channels(d, p) <= 2;
}

/* Put the inputs that have one pixel for all behind the others. */
static void sort_channels(reader *d, point_set *p)
{
  const rush_graph_value *sorted[MOST_POINT * 4];
  region_image image;
  bool repeats;
  uint32_t n = 0;

  p->n_channels = 0;
  for (int channels = 0; channels < 2; channels++)
    for (uint32_t i = 0; i < p->n_inputs; i++) {
      d->failed |= !operand_image(d, p->inputs[i], &p->like, &image, &repeats);
      if (region_same_image(&image, &p->like) == channels)
        continue;
      sorted[n++] = p->inputs[i];
      p->n_channels += (uint32_t)channels;
    }
  memcpy(p->inputs, sorted, p->n_inputs * sizeof *sorted);
}

/* Collect pointwise nodes behind node `from` that can follow the step; `p` has the head, or one
 * node to begin with. */
static void gather_set(reader *d, uint32_t from, point_set *p)
{
  const rush_graph_value *first = p->head ? p->head : d->k.api->node_output(p->nodes[0], 0);

  d->mark++;
  d->failed |= !image_of(d, first, &p->like);
  if (p->head)
    state_of(d, p->head)->mark = d->mark;
  for (uint32_t i = 0; i < p->n_nodes; i++)
    state_of(d, d->k.api->node_output(p->nodes[i], 0))->mark = d->mark;
  for (uint32_t j = from + 1; j < d->n_nodes && j - from < MOST_AHEAD && p->n_nodes < MOST_POINT &&
                              !d->failed;
       j++)
    if (!d->nodes[j].done && d->nodes[j].op == OP_POINT && joins(d, &p->like, &d->nodes[j])) {
      p->nodes[p->n_nodes++] = d->nodes[j].node;
      state_of(d, d->k.api->node_output(d->nodes[j].node, 0))->mark = d->mark;
    }
  while (!find_border(d, p))
    p->n_nodes--; /* the rest joins another step */
  sort_channels(d, p);
}

static void point_free(const backend *k, point_part *p)
{
  if (!p)
    return;
  loop_code_release(p->code);
  fused_free(k, &p->fused);
  group_desc_free(p->desc);
  k->api->memory_free(k->ctx, p, sizeof *p);
}

static const rush_graph_value *source_of(const void *user, const rush_graph_value *v)
{
  return root_of(user, v);
}

/* Make the set's machine code. */
static point_part *point_make(reader *d, const point_set *p)
{
  const backend *k = &d->k;
  const group_parts parts = {p->nodes,   p->inputs,    p->results, p->n_nodes,
                             p->n_inputs, p->n_results, source_of,  d};
  point_part *made = k->api->memory_alloc(k->ctx, sizeof *made);
  arg_kind kinds[GROUP_MAX_INPUTS];
  call_ctx cx;
  bool ok = false;

  for (uint32_t i = 0; i < p->n_inputs; i++)
    kinds[i] = ARG_F32_ROW;
  call_ctx_init(&cx, k->ctx, NULL);
  if (!made || !(made->desc = group_read_parts(k, &parts)))
    d->st = RUSH_ENOMEM;
  else
    d->st = group_fuse(made->desc, kinds, &made->fused, &ok);
  rush_status st = ok ? loop_compile(&cx, &made->fused.tape, d->r->level, &made->code) : RUSH_OK;
  if (d->st == RUSH_OK && st == RUSH_ENOMEM)
    d->st = st;
  if (d->st == RUSH_OK && ok && st == RUSH_OK) {
    loop_name(made->code, group_name(made->desc));
    return made;
  }
  d->failed = true;
  point_free(k, made);
  return NULL;
}

/* True if the tape is min(max(x, lo), hi), or its first half, of the step's own result: kernels of
 * convolutions do that in registers. */
static bool is_clamp(const region_step *s, float *lo, float *hi)
{
  const loop_tape *t = &s->point->fused.tape;
  const tape_op ops[] = {TAPE_MAX, TAPE_MIN};
  float *const to[] = {lo, hi};
  uint8_t x = 0;

  *hi = INFINITY;
  if ((s->kind != BLOCK_CONV && s->kind != BLOCK_DEPTHWISE) || t->n_inputs != 1 ||
      t->n_results != 1 || s->point->inputs[0] != s->out || s->point->results[0] != s->out ||
      t->n_instrs < 1 || t->n_instrs > 2)
    return false;
  for (int i = 0; i < t->n_instrs; i++) {
    const tape_instr *c = &t->code[i];

    if (c->op != ops[i] || c->type != TY_F32 || c->a != x || c->b < 1 || c->b > t->n_consts)
      return false;
    *to[i] = t->consts[c->b - 1];
    x = c->dst;
  }
  return x == t->results[0] && !isnan(*lo) && !isnan(*hi) && *hi != 0.0f &&
         (*lo != 0.0f || !signbit(*lo));
}

/* Add the step, which makes `head` in s->out, and what follows it; `begin`: a pointwise node that
 * it begins with instead. */
static void finish_step(reader *d, uint32_t from, region_step *s, const rush_graph_value *head,
                        const rush_node *begin)
{
  const rush_backend_api *api = d->k.api;
  point_set p = {.head = head, .nodes = {begin}, .n_nodes = begin ? 1 : 0};
  region_image image;

  gather_set(d, from, &p);
  if (head)
    state_of(d, head)->place = s->out;
  if (p.n_nodes && (s->point = point_make(d, &p))) {
    s->point->n_channels = p.n_channels;
    for (uint32_t i = 0; i < p.n_inputs; i++)
      s->point->inputs[i] = operand_place(d, p.inputs[i], &p.like);
    for (uint32_t i = 0; i < p.n_results; i++) {
      const bool in_place = head && i == 0 && !p.head_stays; /* what it reads there dies */
      d->failed |= !image_of(d, p.results[i], &image);
      s->point->results[i] = in_place ? s->out : new_place(d, &image, BLOCK_LANES);
      state_of(d, p.results[i])->place = s->point->results[i];
    }
    if ((s->clamps = is_clamp(s, &s->lo, &s->hi))) {
      point_free(&d->k, s->point);
      s->point = NULL;
    }
  }
  for (uint32_t i = 0; i < p.n_nodes; i++)
    d->nodes[state_of(d, api->node_output(p.nodes[i], 0))->node].done = true;
  add_step(d, s);
  for (size_t i = 0; i < api->block_n_outputs(d->body); i++) {
    const rush_graph_value *v = api->block_output(d->body, i), *root = root_of(d, v);
    region_step leave = step_of(BLOCK_LEAVE);
    bool made_here = root == head;

    for (uint32_t j = 0; j < p.n_results && !made_here; j++)
      made_here = p.results[j] == root;
    if (!made_here)
      continue;
    leave.in = state_of(d, root)->place;
    leave.arg = (uint32_t)i;
    set_interleaved(&leave, &d->r->results[i], state_of(d, v)->channels == LAST);
    add_step(d, &leave);
  }
}

/* -- Nodes ------------------------------------------------------------------------------------- */

static void set_norm(reader *d, region_step *s, const rush_node *n)
{
  rush_value eps = rush_value_float(0.0);

  for (int i = 0; i < 4; i++) {
    const rush_graph_value *v = region_norm_arg(&d->k, n, i);
    s->norm[i] = v ? arg_of(d, v) : NO_INDEX;
  }
  (void)!region_constant(&d->k, region_norm_arg(&d->k, n, 4), &eps);
  s->eps = eps.as.d;
  s->has_norm = true;
}

/* Return the batch norm that alone reads v, or NULL. */
static node_state *norm_behind(reader *d, const rush_graph_value *v)
{
  const rush_backend_api *api = d->k.api;
  size_t input;

  if (state_of(d, v)->leaves || api->value_n_uses(v) != 1)
    return NULL;
  const rush_graph_value *made = api->node_output(api->value_use(v, 0, &input), 0);
  const uint32_t at = made ? state_of(d, made)->node : NO_INDEX;

  return at != NO_INDEX && d->nodes[at].op == OP_NORM && input == 0 ? &d->nodes[at] : NULL;
}

static void read_conv(reader *d, uint32_t at)
{
  const rush_backend_api *api = d->k.api;
  const rush_node *n = d->nodes[at].node;
  const rush_graph_value *head = api->node_output(n, 0);
  const int64_t width = region_group_width(&d->k, n);
  region_step s = step_of(width ? BLOCK_DEPTHWISE : BLOCK_CONV);
  region_image in, out;

  s.window = d->nodes[at].window;
  s.in = place_of(d, api->node_input(n, 0));
  s.weight = arg_of(d, api->node_input(n, 1));
  s.bias = arg_of(d, region_bias(&d->k, n));
  if (!image_of(d, api->node_input(n, 0), &in) ||
      !image_of(d, head, &out)) {
    d->failed = true;
    return;
  }
  s.groups = region_groups(&d->k, n);
  s.width = width;
  s.n_k = in.n_ch / s.groups * s.window.kernel[0] * s.window.kernel[1];
  /* conv.c computes these by its depthwise kernel */
  const region_window *w = &s.window;
  const bool is_product = s.n_k == 1 && w->stride[0] == 1 && w->stride[1] == 1 && w->pad[0] == 0 &&
                          w->pad[1] == 0;
  s.adds_zero = !is_product && (width == 1 || (in.n_ch == 1 && out.n_ch <= 4 && s.n_k <= 384));
  s.out = new_place(d, &out, BLOCK_LANES);
  node_state *norm = norm_behind(d, head);
  if (norm) {
    set_norm(d, &s, norm->node);
    norm->done = true;
    head = api->node_output(norm->node, 0);
  }
  finish_step(d, at, &s, head, NULL);
}

/* A kernel of one element. */
static void read_linear(reader *d, uint32_t at)
{
  const rush_backend_api *api = d->k.api;
  const rush_node *n = d->nodes[at].node;
  const rush_graph_value *head = api->node_output(n, 0);
  region_step s = step_of(BLOCK_CONV);
  region_image in, out;

  if (!image_of(d, api->node_input(n, 0), &in) || !image_of(d, head, &out)) {
    d->failed = true;
    return;
  }
  s.in = place_of(d, api->node_input(n, 0));
  s.weight = arg_of(d, api->node_input(n, 1));
  s.bias = arg_of(d, region_bias(&d->k, n));
  s.n_k = in.n_ch;
  s.out = new_place(d, &out, BLOCK_LANES);
  finish_step(d, at, &s, head, NULL);
}

/* Make a product of each element of the kernel with the image, for its part of the results. */
static void read_spread(reader *d, uint32_t at)
{
  const rush_backend_api *api = d->k.api;
  const rush_node *n = d->nodes[at].node;
  const rush_graph_value *head = api->node_output(n, 0);
  const region_window *w = &d->nodes[at].window;
  region_step s = step_of(BLOCK_CONV), nothing = step_of(BLOCK_NOTHING);
  region_image in, out;

  if (!image_of(d, api->node_input(n, 0), &in) ||
      !image_of(d, head, &out)) {
    d->failed = true;
    return;
  }
  s.in = place_of(d, api->node_input(n, 0));
  s.out = nothing.out = new_place(d, &out, BLOCK_LANES);
  s.weight = arg_of(d, api->node_input(n, 1));
  s.bias = arg_of(d, region_bias(&d->k, n));
  s.n_k = in.n_ch;
  s.n_taps = (uint32_t)(w->kernel[0] * w->kernel[1]);
  s.window.stride[0] = w->stride[0]; /* of the results */
  s.window.stride[1] = w->stride[1];
  for (s.tap = 0; s.tap < s.n_taps; s.tap++)
    add_step(d, &s);
  nothing.clears_border = true;
  finish_step(d, at, &nothing, head, NULL);
}

/* Copy all channels of `in` to `out`, or as many as it has, from channel `from` to `to`. */
static int64_t add_copy(reader *d, uint32_t in, uint32_t out, int64_t from, int64_t to)
{
  region_step copy = step_of(BLOCK_COPY);

  copy.in = in;
  copy.out = out;
  copy.from_ch = from;
  copy.to_ch = to;
  copy.n_copied = i64_min(d->r->places[in].place.n_ch - from, d->r->places[out].place.n_ch - to);
  add_step(d, &copy);
  return copy.n_copied;
}

/* Copy the items' channels one behind the other. */
static void read_cat(reader *d, uint32_t at)
{
  const rush_backend_api *api = d->k.api;
  const rush_node *n = d->nodes[at].node, *list = region_joined(&d->k, n);
  const rush_graph_value *head = api->node_output(n, 0);
  region_step nothing = step_of(BLOCK_NOTHING);
  region_image out;
  int64_t ch = 0;

  if (!image_of(d, head, &out)) {
    d->failed = true;
    return;
  }
  for (size_t i = 0; i < api->node_n_inputs(list); i++)
    (void)place_of(d, api->node_input(list, i)); /* what enters does so before */
  nothing.out = new_place(d, &out, BLOCK_LANES);
  for (size_t i = 0; i < api->node_n_inputs(list) && !d->failed; i++)
    ch += add_copy(d, place_of(d, api->node_input(list, i)), nothing.out, 0, ch);
  finish_step(d, at, &nothing, head, NULL);
}

static void read_slice(reader *d, uint32_t at)
{
  const rush_backend_api *api = d->k.api;
  const rush_node *n = d->nodes[at].node;
  const rush_graph_value *head = api->node_output(n, 0);
  region_step nothing = step_of(BLOCK_NOTHING);
  region_image out;

  if (!image_of(d, head, &out)) {
    d->failed = true;
    return;
  }
  const uint32_t in = place_of(d, api->node_input(n, 0));
  nothing.out = new_place(d, &out, BLOCK_LANES);
  if (!d->failed)
    add_copy(d, in, nothing.out, d->nodes[at].window.first, 0);
  finish_step(d, at, &nothing, head, NULL);
}

static void read_node(reader *d, uint32_t at)
{
  const rush_backend_api *api = d->k.api;
  const rush_node *n = d->nodes[at].node;
  const rush_graph_value *head = api->node_output(n, 0);
  region_image out;

  if (d->nodes[at].op == OP_LIST || is_same_image(d->nodes[at].op))
    return;
  if (d->nodes[at].op == OP_SLICE) {
    read_slice(d, at);
    return;
  }
  if (d->nodes[at].op == OP_CONV) {
    read_conv(d, at);
    return;
  }
  if (d->nodes[at].op == OP_LINEAR) {
    read_linear(d, at);
    return;
  }
  if (d->nodes[at].op == OP_SPREAD) {
    read_spread(d, at);
    return;
  }
  if (d->nodes[at].op == OP_CAT) {
    read_cat(d, at);
    return;
  }
  if (d->nodes[at].op == OP_POINT) {
    region_step s = step_of(BLOCK_NOTHING);
    finish_step(d, at, &s, NULL, n);
    return;
  }
  static const block_kind kinds[] = {
    [OP_NORM] = BLOCK_SCALE,    [OP_LAYER] = BLOCK_LAYER,
    [OP_MAX_POOL] = BLOCK_MAX,     [OP_AVERAGE] = BLOCK_AVERAGE,
    [OP_MEAN] = BLOCK_MEAN,     [OP_WINDOWS] = BLOCK_WINDOWS,  [OP_NEAREST] = BLOCK_NEAREST,
    [OP_PAD] = BLOCK_PAD,       [OP_GROUP] = BLOCK_GROUP};
  region_step s = step_of(kinds[d->nodes[at].op]);
  if (s.kind == BLOCK_SCALE || s.kind == BLOCK_LAYER || s.kind == BLOCK_GROUP)
    set_norm(d, &s, n);
  if (s.kind == BLOCK_GROUP)
    s.groups = d->nodes[at].window.groups;
  else if (s.kind == BLOCK_MAX || s.kind == BLOCK_WINDOWS || s.kind == BLOCK_PAD ||
           s.kind == BLOCK_NEAREST)
    s.window = d->nodes[at].window;
  s.in = place_of(d, api->node_input(n, 0));
  d->failed |= !image_of(d, head, &out);
  if (!d->failed) {
    s.out = new_place(d, &out, BLOCK_LANES);
    finish_step(d, at, &s, head, NULL);
  }
}

/* -- The group --------------------------------------------------------------------------------- */

static uint32_t larger(uint32_t a, uint32_t b) { return a > b ? a : b; }

static uint32_t largest_id(const reader *d)
{
  const rush_backend_api *api = d->k.api;
  uint32_t most = 0;

  for (size_t i = 0; i < api->block_n_inputs(d->body); i++)
    most = larger(most, api->value_id(api->block_input(d->body, i)));
  for (const rush_node *n = api->block_first(d->body); n; n = api->node_next(n))
    for (size_t i = 0; i < api->node_n_outputs(n); i++)
      most = larger(most, api->value_id(api->node_output(n, i)));
  return most;
}

static bool is_constant(const reader *d, const rush_node *n)
{
  rush_value c;

  return d->k.api->value_constant(d->k.api->node_output(n, 0), &c);
}

static bool make_room(reader *d)
{
  const rush_backend_api *api = d->k.api;
  region *r = d->r;

  r->n_args = (uint32_t)api->block_n_inputs(d->body);
  r->n_results = (uint32_t)api->block_n_outputs(d->body);
  uint32_t n_joined = 0; /* at most */

  for (const rush_node *n = api->block_first(d->body); n; n = api->node_next(n)) {
    d->n_nodes += !is_constant(d, n);
    n_joined += (uint32_t)api->node_n_inputs(n) + MOST_SPREAD;
  }
  d->n_values = largest_id(d) + 1;
  r->cap_places = d->n_nodes + r->n_args;
  r->cap_steps = d->n_nodes + r->n_args + r->n_results + n_joined;
  d->nodes = api->memory_alloc(d->k.ctx, d->n_nodes * sizeof *d->nodes);
  d->values = api->memory_alloc(d->k.ctx, d->n_values * sizeof *d->values);
  r->places = api->memory_alloc(d->k.ctx, r->cap_places * sizeof *r->places);
  r->steps = api->memory_alloc(d->k.ctx, r->cap_steps * sizeof *r->steps);
  r->args = api->memory_alloc(d->k.ctx, r->n_args * sizeof *r->args);
  r->results = api->memory_alloc(d->k.ctx, r->n_results * sizeof *r->results);
  return d->nodes && d->values && r->places && r->steps && r->args && r->results;
}

static void read_nodes(reader *d)
{
  const rush_backend_api *api = d->k.api;
  const char *why;
  uint32_t at = 0;

  for (uint32_t i = 0; i < d->n_values; i++)
    d->values[i] = (value_state){
      .node = NO_INDEX, .arg = NO_INDEX, .place = NO_INDEX, .channels = UNKNOWN};
  for (uint32_t i = 0; i < d->r->n_args; i++) {
    const rush_graph_value *v = api->block_input(d->body, i);
    state_of(d, v)->arg = i;
    d->failed |= !region_fact_of(&d->k, v, &d->r->args[i]);
  }
  for (const rush_node *n = api->block_first(d->body); n; n = api->node_next(n)) {
    if (is_constant(d, n))
      continue;
    node_state *s = &d->nodes[at];
    s->node = n;
    s->op = region_op_of(&d->k, n, &s->window, &why);
    d->failed |= s->op == OP_NONE;
    state_of(d, api->node_output(n, 0))->node = at++;
    find_channels(d, s);
    region_image made;
    if (s->op != OP_LIST && image_of(d, api->node_output(n, 0), &made))
      d->most_ch = i64_max(d->most_ch, made.n_ch);
  }
  for (uint32_t i = 0; i < d->r->n_results; i++) {
    const rush_graph_value *v = api->block_output(d->body, i);
    state_of(d, v)->leaves = true;
    d->failed |= !region_fact_of(&d->k, v, &d->r->results[i]);
  }
}

rush_status region_read(const backend *k, const rush_node *group, region **out)
{
  reader d = {.k = *k, .body = k->api->node_block(group, 0)};

  *out = NULL;
  d.r = k->api->memory_alloc(k->ctx, sizeof *d.r);
  if (!d.r)
    return RUSH_ENOMEM;
  d.r->backend = *k;
  d.r->level = (cpu_level)k->api->context_cpu(k->ctx);
  if (!make_room(&d))
    d.st = RUSH_ENOMEM;
  else
    read_nodes(&d);
  for (uint32_t i = 0; i < d.n_nodes && d.st == RUSH_OK && !d.failed; i++)
    if (!d.nodes[i].done)
      read_node(&d, i);
  d.failed |= d.n_left != d.r->n_results; /* a view of an argument is no step */
  if (d.st == RUSH_OK && !d.failed)
    d.st = region_place_all(d.r);
  k->api->memory_free(k->ctx, d.nodes, d.n_nodes * sizeof *d.nodes);
  k->api->memory_free(k->ctx, d.values, d.n_values * sizeof *d.values);
  if (d.st == RUSH_OK && !d.failed)
    *out = d.r;
  else
    region_free(d.r);
  return d.st;
}

void region_free(region *r)
{
  if (!r)
    return;
  const backend k = r->backend;

  for (uint32_t i = 0; i < r->n_steps; i++) {
    point_free(&k, r->steps[i].point);
    k.api->memory_free(k.ctx, r->steps[i].k_off,
                       (size_t)r->steps[i].n_k * sizeof *r->steps[i].k_off);
  }
  k.api->memory_free(k.ctx, r->steps, r->cap_steps * sizeof *r->steps);
  k.api->memory_free(k.ctx, r->places, r->cap_places * sizeof *r->places);
  k.api->memory_free(k.ctx, r->args, r->n_args * sizeof *r->args);
  k.api->memory_free(k.ctx, r->results, r->n_results * sizeof *r->results);
  k.api->memory_free(k.ctx, r, sizeof *r);
}
