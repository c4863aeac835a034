/* ops/call/profile.c -- the profile of a context (profile.h): events in chunks, and the items they
 * refer to.
 *
 * An event is a pair of times and three pointers.  Names, inputs and places are stored once, in
 * hash tables by their bytes, so a loop of a million calls costs 56 bytes per call and no text.
 * Texts are made when the profile is written.  Everything is under one lock, which is held for a
 * few dozen nanoseconds. */
#include "ops/call/profile.h"

#include "base/clock.h"
#include "base/table.h"
#include "base/threads.h"

#define DEFAULT_LIMIT 1000000
#define CHUNK_EVENTS 4096
#define MAX_ITEMS \
  65536 /* distinct names, inputs and places; a loop over shapes must not fill memory */
#define MAX_KEY 512       /* bytes of an input's text; longer ones end in "..." */
#define MAX_CODE 160      /* bytes of a source line that are kept */
#define MAX_THREADS 256   /* threads watched apart; later ones share the last number */

/* A name, a place or the inputs of a call. */
typedef struct item {
  size_t n_bytes; /* of this block, key included */
  source *src;    /* places: keeps the address in the key from being used again */
  const struct item *caller; /* places: name of the function, or NULL */
  char *text;     /* the name; the inputs; the line of code; NULL without memory */
  char *file;     /* places: or NULL */
  uint32_t line, node;
  char key[];
} item;

typedef struct event {
  const item *name, *inputs, *place; /* NULL: none, or too many */
  uint64_t start_ns, end_ns;         /* end 0: still running */
  int64_t bytes;                     /* while running: live at the start */
  uint32_t thread;
  uint16_t depth;
  uint8_t kind;
} event;

typedef struct profile {
  context *ctx;
  mutex lock;
  uint32_t number; /* of the last start; 0: never */
  bool on;
  call_hook *hooks;
  size_t limit, n;
  uint64_t n_dropped;
  event **chunks; /* of CHUNK_EVENTS; room for the limit */
  size_t n_chunks;
  table items;
  int64_t own_bytes; /* that this record takes, `items` apart */
  uint64_t threads[MAX_THREADS];
  uint32_t n_threads;
} profile;

/* -- Life -------------------------------------------------------------------------------------- */

static char *copy_text(profile *p, const char *text, size_t len)
{
  char *copy = mem_alloc(p->ctx, len + 1);

  if (!copy)
    return NULL;
  memcpy(copy, text, len);
  copy[len] = 0;
  p->own_bytes += (int64_t)len + 1;
  return copy;
}

static void free_text(profile *p, char *text)
{
  if (text)
    mem_free(p->ctx, text, strlen(text) + 1);
}

static void forget(profile *p)
{
  for (uint32_t i = 0; i < p->items.n; i++) {
    item *it = p->items.entries[i].value;
    source_release(it->src);
    free_text(p, it->text);
    free_text(p, it->file);
    mem_free(p->ctx, it, it->n_bytes);
  }
  table_free(&p->items);
  for (size_t i = 0; i < p->n_chunks && p->chunks[i]; i++)
    mem_free(p->ctx, p->chunks[i], CHUNK_EVENTS * sizeof(event));
  mem_free(p->ctx, p->chunks, p->n_chunks * sizeof *p->chunks);
  p->chunks = NULL;
  p->n_chunks = p->n = p->n_threads = 0;
  p->n_dropped = 0;
  p->own_bytes = 0;
}

static void destroy_profile(context *c, void *object)
{
  profile *p = object;

  forget(p);
  mutex_destroy(&p->lock);
  mem_free(c, p, sizeof *p);
}

static profile *profile_of(context *c) { return context_slot_get(c, SLOT_HOOKS); }

static profile *make_profile(context *c)
{
  profile *p = profile_of(c);

  if (p)
    return p;
  p = mem_alloc_zero(c, sizeof *p);
  if (!p)
    return NULL;
  p->ctx = c;
  table_init(&p->items, c);
  mutex_init(&p->lock);
  return context_slot_publish_steal(c, SLOT_HOOKS, p, destroy_profile);
}

/* Update the flag that tells calls that start from now on whether there are hooks or a profile. */
static void update_profile_flag(profile *p)
{
  p->number += p->number == 0; /* 0 means that there is none */
  context_set_profile(p->ctx, p->on || p->hooks ? p->number : 0);
}

rush_status profile_start(context *c, size_t limit, rush_error *err)
{
  profile *p = make_profile(c);

  if (!p)
    return error_nomem(err);
  limit = limit ? limit : DEFAULT_LIMIT;
  if (limit >= PROFILE_NONE)
    return error_set(err, RUSH_EARGUMENT, "a profile holds fewer than %u events, not %zu",
                     PROFILE_NONE, limit);
  mutex_lock(&p->lock);
  forget(p);
  p->n_chunks = (limit + CHUNK_EVENTS - 1) / CHUNK_EVENTS;
  p->chunks = mem_alloc_zero(c, p->n_chunks * sizeof *p->chunks);
  p->on = p->chunks != NULL;
  p->limit = limit;
  if (!p->on)
    p->n_chunks = 0;
  p->number++;
  update_profile_flag(p);
  mutex_unlock(&p->lock);
  return p->on ? RUSH_OK : error_nomem(err);
}

void profile_stop(context *c)
{
  profile *p = profile_of(c);

  if (!p)
    return;
  mutex_lock(&p->lock);
  p->on = false;
  update_profile_flag(p);
  mutex_unlock(&p->lock);
}

/* -- Hooks ------------------------------------------------------------------------------------- */

rush_status profile_add_hook(context *c, call_hook *h, rush_error *err)
{
  profile *p = make_profile(c);

  if (!p)
    return error_nomem(err);
  h->thread = pthread_self();
  mutex_lock(&p->lock);
  h->next = p->hooks;
  p->hooks = h;
  update_profile_flag(p);
  mutex_unlock(&p->lock);
  return RUSH_OK;
}

void profile_remove_hook(context *c, call_hook *h)
{
  profile *p = profile_of(c);
  call_hook **at = &p->hooks;

  mutex_lock(&p->lock);
  while (*at != h)
    at = &(*at)->next;
  *at = h->next;
  update_profile_flag(p);
  mutex_unlock(&p->lock);
}

/* Return the next hook of this thread.  A thread's hooks are added and removed only by that thread,
 * so they exist while this call runs. */
static call_hook *next_hook(context *c, call_hook *h)
{
  profile *p = profile_of(c);

  mutex_lock(&p->lock);
  h = h ? h->next : p->hooks;
  while (h && !pthread_equal(h->thread, pthread_self()))
    h = h->next;
  mutex_unlock(&p->lock);
  return h;
}

void profile_called_op(rush_call *c)
{
  for (call_hook *h = NULL; (h = next_hook(c->cx->ctx, h)) != NULL;)
    if (h->op)
      h->op(h->user, c);
}

void profile_called_node(rush_call *c)
{
  for (call_hook *h = NULL; (h = next_hook(c->cx->ctx, h)) != NULL;)
    if (h->node)
      h->node(h->user, c);
}

void profile_called_function(call_ctx *cx, void *function, const rush_value *args, uint32_t n_args,
                             rush_value *result)
{
  for (call_hook *h = NULL; (h = next_hook(cx->ctx, h)) != NULL;)
    if (h->function)
      h->function(h->user, function, args, n_args, result);
}

/* -- Names, inputs, places --------------------------------------------------------------------- */

/* Find an item.  Keys: a byte for its kind, then its bytes; names as they are. */
static item *find_item(profile *p, str key) { return table_get(&p->items, key); }

static item *add_item(profile *p, str key, const char *text, size_t len)
{
  size_t n_bytes = sizeof(item) + key.len;

  if (p->items.n >= MAX_ITEMS)
    return NULL;
  item *it = mem_alloc_zero(p->ctx, n_bytes);
  if (!it)
    return NULL;
  it->n_bytes = n_bytes;
  memcpy(it->key, key.p, key.len);
  if (!table_put(&p->items, (str){it->key, key.len}, it)) {
    mem_free(p->ctx, it, n_bytes);
    return NULL;
  }
  it->text = copy_text(p, text, len);
  p->own_bytes += (int64_t)n_bytes;
  return it;
}

static const item *name_of_function(profile *p, const char *name)
{
  item *it = find_item(p, str_of(name)); /* no other key begins with a letter */

  return it ? it : add_item(p, str_of(name), name, strlen(name));
}

static const item *name_of_op(profile *p, const op *o)
{
  char key[1 + sizeof o] = {1};
  text_buf t;

  memcpy(key + 1, &o, sizeof o);
  item *it = find_item(p, (str){key, sizeof key});
  if (it)
    return it;
  text_init(&t, p->ctx);
  text_printf(&t, "%s%s%s", o->schema->name, o->schema->overload[0] ? "." : "",
              o->schema->overload);
  it = add_item(p, (str){key, sizeof key}, text_str(&t), t.len);
  text_free(&t);
  return it;
}

/* dtype, rank and sizes of the tensors among the arguments, byte by byte. */
typedef struct inputs_key {
  char bytes[MAX_KEY];
  size_t n;
  bool cut;
} inputs_key;

static void key_tensor(inputs_key *k, const rush_tensor *t)
{
  size_t n = sizeof *t->sizes * (size_t)t->n_dims;

  if (k->cut || k->n + 2 + n > MAX_KEY) {
    k->cut = true;
    return;
  }
  k->bytes[k->n++] = (char)t->dtype;
  k->bytes[k->n++] = (char)t->n_dims;
  memcpy(k->bytes + k->n, t->sizes, n);
  k->n += n;
}

static void key_inputs(inputs_key *k, const rush_call *c)
{
  k->bytes[0] = 2;
  k->n = 1;
  k->cut = false;
  for (uint32_t i = 0; i < c->n_args; i++) {
    rush_value v = c->args[i];
    if (v.tag == RUSH_TAG_TENSOR && v.as.tensor)
      key_tensor(k, v.as.tensor);
    for (size_t j = 0; v.tag == RUSH_TAG_LIST && j < v.as.list->n && !k->cut; j++) {
      rush_value item = v.as.list->items[j];
      if (item.tag != RUSH_TAG_TENSOR)
        break; /* lists are of one type */
      if (item.as.tensor)
        key_tensor(k, item.as.tensor);
    }
  }
}

static void print_inputs(text_buf *t, const inputs_key *k)
{
  for (size_t at = 1; at < k->n;) {
    int dtype = (unsigned char)k->bytes[at], n_dims = (unsigned char)k->bytes[at + 1];
    text_printf(t, "%s%s[", at > 1 ? ", " : "", dtype_name(dtype));
    at += 2;
    for (int d = 0; d < n_dims; d++, at += sizeof(int64_t)) {
      int64_t size;
      memcpy(&size, k->bytes + at, sizeof size);
      text_printf(t, "%s%lld", d ? ", " : "", (long long)size);
    }
    text_putc(t, ']');
  }
  if (k->cut)
    text_puts(t, ", ...");
}

static const item *item_of_inputs(profile *p, const inputs_key *k)
{
  text_buf t;

  if (k->n == 1 && !k->cut)
    return NULL;
  item *it = find_item(p, (str){k->bytes, k->n});
  if (it)
    return it;
  text_init(&t, p->ctx);
  print_inputs(&t, k);
  it = add_item(p, (str){k->bytes, k->n}, text_str(&t), t.len);
  text_free(&t);
  return it;
}

/* A place: the position in a text, and the node of a function. */
typedef struct place_key {
  char kind[8];
  const source *src;
  const item *caller;
  uint32_t start, node;
} place_key;

static str key_place(place_key *k, const call_place *at, const item *caller)
{
  *k = (place_key){{3}, at->range.src, caller, at->range.start, at->node};
  return (str){(const char *)k, sizeof *k};
}

/* Return the line that a range begins in, without white space around it. */
static str line_of(const source_range *at)
{
  const source *s = at->src;
  size_t begin = at->start < s->len ? at->start : s->len, end = begin;

  while (begin > 0 && s->text[begin - 1] != '\n')
    begin--;
  while (end < s->len && s->text[end] != '\n')
    end++;
  while (begin < end && (s->text[begin] == ' ' || s->text[begin] == '\t'))
    begin++;
  while (end > begin && (unsigned char)s->text[end - 1] <= ' ')
    end--;
  if (end - begin > MAX_CODE) /* not in the middle of a character */
    for (end = begin + MAX_CODE; end > begin && ((unsigned char)s->text[end] & 0xC0) == 0x80;)
      end--;
  return (str){s->text + begin, end - begin};
}

/* A place that is not in the table yet, in its author's text.  Made without the lock: it may read
 * the archive. */
typedef struct place_text {
  source_range shown;
  source *src; /* owned, or NULL */
} place_text;

static place_text resolve(call_ctx *cx, const call_place *at)
{
  const op_body_runtime *rt = context_slot_get(cx->ctx, SLOT_PROGRAM);
  place_text t = {.shown = at->range};

  if (!rt || !rt->original || !rt->original(cx, at, &t.shown, &t.src))
    t = (place_text){.shown = at->range};
  return t;
}

static const item *add_place(profile *p, const place_key *k, const call_place *at,
                             const place_text *t)
{
  str key = {(const char *)k, sizeof *k};
  item *it = find_item(p, key); /* another thread was faster */
  uint32_t column;

  if (it)
    return it;
  str line = t->shown.src ? line_of(&t->shown) : STR("");
  it = add_item(p, key, line.p, line.len);
  if (!it)
    return NULL;
  it->caller = k->caller;
  it->node = at->node;
  if (!t->shown.src)
    return it;
  it->src = source_retain((source *)(uintptr_t)at->range.src);
  source_position(t->shown.src, t->shown.start, &it->line, &column);
  if (t->shown.src->name)
    it->file = copy_text(p, t->shown.src->name, strlen(t->shown.src->name));
  return it;
}

static bool place_now(call_ctx *cx, call_place *out)
{
  const op_body_runtime *rt = context_slot_get(cx->ctx, SLOT_PROGRAM);

  return cx->frames && rt && rt->place && rt->place(cx, out);
}

/* Return the program's live bytes: without those of this record. */
static int64_t program_bytes(const profile *p)
{
  const table *t = &p->items;

  return mem_live_bytes(p->ctx) - p->own_bytes -
         (int64_t)(t->cap * sizeof *t->entries + t->n_slots * sizeof *t->slots);
}

/* -- Events ------------------------------------------------------------------------------------ */

static bool is_mine(const profile *p, const call_ctx *cx)
{
  return p->on && p->number == cx->profile;
}

static uint32_t thread_of(profile *p, call_ctx *cx)
{
  uint64_t me = (uint64_t)(uintptr_t)pthread_self();
  uint32_t i = 0;

  if (cx->profile_thread)
    return cx->profile_thread - 1;
  while (i < p->n_threads && p->threads[i] != me)
    i++;
  if (i == p->n_threads && i < MAX_THREADS)
    p->threads[p->n_threads++] = me;
  i = i < MAX_THREADS ? i : MAX_THREADS - 1;
  cx->profile_thread = i + 1;
  return i;
}

/* Make room for one more event, under the lock. */
static event *new_event(profile *p)
{
  event **chunk = &p->chunks[p->n / CHUNK_EVENTS];

  if (p->n >= p->limit)
    return NULL;
  if (!*chunk) {
    *chunk = mem_alloc(p->ctx, CHUNK_EVENTS * sizeof(event));
    if (!*chunk)
      return NULL;
    p->own_bytes += (int64_t)(CHUNK_EVENTS * sizeof(event));
  }
  return &(*chunk)[p->n++ % CHUNK_EVENTS];
}

static event *event_at(const profile *p, size_t i)
{
  return &p->chunks[i / CHUNK_EVENTS][i % CHUNK_EVENTS];
}

/* The description of a new event; `op` or `function` is set. */
typedef struct beginning {
  const op *op;
  const char *function;
  const inputs_key *inputs;
  const call_place *at; /* NULL: nowhere */
} beginning;

static uint32_t begin_event(call_ctx *cx, const beginning *b)
{
  profile *p = profile_of(cx->ctx);
  uint32_t depth = cx->profile_depth++, made = PROFILE_NONE;
  const item *place = NULL;
  place_key key;

  mutex_lock(&p->lock);
  if (b->at && is_mine(p, cx) && p->n < p->limit) {
    const item *caller = b->at->caller ? name_of_function(p, b->at->caller) : NULL;
    place = find_item(p, key_place(&key, b->at, caller));
    if (!place && p->items.n < MAX_ITEMS) {
      mutex_unlock(&p->lock);
      place_text t = resolve(cx, b->at);
      mutex_lock(&p->lock);
      place = is_mine(p, cx) ? add_place(p, &key, b->at, &t) : NULL;
      source_release(t.src);
    }
  }
  if (is_mine(p, cx)) {
    event *e = new_event(p);
    p->n_dropped += e == NULL;
    if (e) {
      made = (uint32_t)(p->n - 1);
      const item *name = b->op ? name_of_op(p, b->op) : name_of_function(p, b->function);
      const item *inputs = b->inputs ? item_of_inputs(p, b->inputs) : NULL;
      *e = (event){.name = name,
                   .inputs = inputs,
                   .place = place,
                   .bytes = program_bytes(p),
                   .thread = thread_of(p, cx),
                   .depth = (uint16_t)(depth < UINT16_MAX ? depth : UINT16_MAX),
                   .kind = (uint8_t)(b->op ? RUSH_PROFILE_OPERATOR : RUSH_PROFILE_FUNCTION)};
      e->start_ns = clock_ns(); /* last: what this costs is the caller's time */
    }
  }
  mutex_unlock(&p->lock);
  return made;
}

uint32_t profile_begin_op(const rush_call *c)
{
  inputs_key inputs;
  call_place at;

  key_inputs(&inputs, c);
  return begin_event(
    c->cx, &(beginning){.op = c->op, .inputs = &inputs, .at = place_now(c->cx, &at) ? &at : NULL});
}

uint32_t profile_begin_function(call_ctx *cx, const char *name, const call_place *at)
{
  call_place now;

  if (!at && place_now(cx, &now))
    at = &now;
  return begin_event(cx, &(beginning){.function = name, .at = at});
}

void profile_end(call_ctx *cx, uint32_t i)
{
  uint64_t now = clock_ns(); /* first, for the same reason */
  profile *p = profile_of(cx->ctx);

  cx->profile_depth--;
  if (i == PROFILE_NONE)
    return;
  mutex_lock(&p->lock);
  if (p->number == cx->profile) { /* calls that are under way when it stops are still measured */
    event *e = event_at(p, i);
    e->end_ns = now;
    e->bytes = program_bytes(p) - e->bytes;
  }
  mutex_unlock(&p->lock);
}

/* -- Watching ---------------------------------------------------------------------------------- */

typedef struct watcher {
  call_hook hook; /* first: the list has hooks */
  rush_watch_fn *fn;
  void *user;
} watcher;

static void call_watcher(void *user, rush_call *c)
{
  const watcher *w = user;
  rush_watched watched = {
    .struct_bytes = sizeof watched, .results = c->results, .n_results = c->n_results};
  call_place at = {0};
  text_buf name, code;
  uint32_t column;

  text_init(&name, c->cx->ctx);
  text_init(&code, c->cx->ctx);
  text_printf(&name, "%s%s%s", c->op->schema->name, c->op->schema->overload[0] ? "." : "",
              c->op->schema->overload);
  watched.name = text_str(&name);
  const bool is_placed = place_now(c->cx, &at);
  place_text shown = is_placed ? resolve(c->cx, &at) : (place_text){0};
  if (is_placed) {
    watched.caller = at.caller;
    watched.node = at.node;
  }
  if (shown.shown.src) {
    const str line = line_of(&shown.shown);
    text_printf(&code, "%.*s", (int)line.len, line.p);
    watched.code = text_str(&code);
    watched.file = shown.shown.src->name;
    source_position(shown.shown.src, shown.shown.start, &watched.line, &column);
  }
  w->fn(w->user, &watched);
  source_release(shown.src);
  text_free(&code);
  text_free(&name);
}

rush_status profile_watch(context *c, rush_watch_fn *fn, void *user, rush_error *err)
{
  watcher *w = mem_alloc_zero(c, sizeof *w);

  if (!w)
    return error_nomem(err);
  *w = (watcher){{.user = w, .node = call_watcher}, fn, user};
  const rush_status st = profile_add_hook(c, &w->hook, err);
  if (st != RUSH_OK)
    mem_free(c, w, sizeof *w);
  return st;
}

void profile_unwatch(context *c, rush_watch_fn *fn, void *user)
{
  profile *p = profile_of(c);
  watcher *found = NULL;

  if (!p)
    return;
  mutex_lock(&p->lock);
  for (call_hook *h = p->hooks; h && !found; h = h->next) {
    watcher *w = h->node == call_watcher ? h->user : NULL;
    found = w && w->fn == fn && w->user == user ? w : NULL;
  }
  mutex_unlock(&p->lock);
  if (!found)
    return;
  profile_remove_hook(c, &found->hook);
  mem_free(c, found, sizeof *found);
}

/* -- Reading ----------------------------------------------------------------------------------- */

size_t profile_count(context *c, uint64_t *n_dropped)
{
  profile *p = profile_of(c);

  *n_dropped = 0;
  if (!p)
    return 0;
  mutex_lock(&p->lock);
  size_t n = p->n;
  *n_dropped = p->n_dropped;
  mutex_unlock(&p->lock);
  return n;
}

bool profile_at(context *c, size_t i, rush_profile_event *out)
{
  profile *p = profile_of(c);

  if (!p)
    return false;
  mutex_lock(&p->lock);
  bool is_there = i < p->n;
  if (is_there) {
    const event *e = event_at(p, i);
    *out = (rush_profile_event){
        .name = e->name && e->name->text ? e->name->text : "?",
        .kind = (rush_profile_kind)e->kind,
        .thread = e->thread,
        .depth = e->depth,
        .start_ns = e->start_ns,
        .end_ns = e->end_ns,
        .bytes = e->end_ns ? e->bytes : 0,
        .inputs = e->inputs && e->inputs->text ? e->inputs->text : "",
        .file = e->place ? e->place->file : NULL,
        .code = e->place && e->place->src ? e->place->text : NULL,
        .caller = e->place && e->place->caller ? e->place->caller->text : NULL,
        .line = e->place ? e->place->line : 0,
        .node = e->place ? e->place->node : 0,
    };
  }
  mutex_unlock(&p->lock);
  return is_there;
}
