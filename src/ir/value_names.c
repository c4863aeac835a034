/* ir/value_names.c -- debug names of values: unique in a graph and assigned as in PyTorch.
 *
 * Names are found by hash chains through the names themselves (no base/table.c): renaming frees and
 * takes names all the time, and a graph's memory is its arena's. */
#include <stddef.h>
#include <stdlib.h>

#include "base/table.h"
#include "ir/graph.h"

/* A name; value->name is its text.  Small, and found by hash chains: the graph of a long function
 * has thousands. */
struct ir_name {
  ir_value *owner; /* NULL: free */
  ir_name *next;   /* of the same bucket */
  ir_name *base;   /* of x.7 that followed from x: x, and 7 */
  uint32_t number;
  uint32_t hash;
  /* the last number that was tried as a suffix: a thousand values of one name cost a thousand
   * steps */
  uint32_t tried;
  uint16_t len;    /* of texts that are longer, UINT16_MAX */
  /* not a value's, but reserved as if a load had it: a value that takes it renames that load */
  bool of_load;
  char text[];
};

static bool is_decimal(const char *s)
{
  if (!*s)
    return false;
  for (; *s; s++)
    if (*s < '0' || *s > '9')
      return false;
  return true;
}

static ir_name *name_of(const ir_value *v)
{
  return (ir_name *)(void *)((char *)(uintptr_t)v->name - offsetof(ir_name, text));
}
static uint16_t short_len(str text)
{
  return text.len < UINT16_MAX ? (uint16_t)text.len : UINT16_MAX;
}

static ir_name *find_name(const ir_graph *g, str text, uint32_t hash)
{
  const uint16_t len = short_len(text);

  for (ir_name *n = g->n_buckets ? g->names[hash & (g->n_buckets - 1)] : NULL; n; n = n->next)
    if (n->hash == hash && n->len == len && (len < UINT16_MAX || strlen(n->text) == text.len) &&
        memcmp(n->text, text.p, text.len) == 0 && !n->text[text.len])
      return n;
  return NULL;
}

static void put_name(ir_graph *g, ir_name *n)
{
  ASSERT(g->n_buckets && (g->n_buckets & (g->n_buckets - 1)) == 0, "buckets: a power of 2");
  ir_name **bucket = &g->names[n->hash & (g->n_buckets - 1)];

  n->next = *bucket;
  *bucket = n;
}

static void grow_names(session *s, ir_graph *g)
{
  ir_name **old = g->names;
  const uint32_t n_old = g->n_buckets;

  g->n_buckets = n_old ? 2 * n_old : 8;
  g->names = session_alloc_in(s, &g->mem, g->n_buckets * sizeof *g->names);
  for (uint32_t i = 0; i < n_old; i++)
    for (ir_name *n = old[i], *next; n; n = next) {
      next = n->next;
      put_name(g, n);
    }
}

static ir_name *name_alloc(session *s, ir_graph *g, str text)
{
  ir_name *n = session_alloc_in(s, &g->mem, offsetof(ir_name, text) + text.len + 1);

  memcpy(n->text, text.p, text.len);
  n->len = short_len(text);
  return n;
}

static ir_name *name_add(session *s, ir_graph *g, str text, uint32_t hash)
{
  ir_name *n = name_alloc(s, g, text);

  if (g->n_names == g->n_buckets)
    grow_names(s, g);
  g->n_names++;
  n->hash = hash;
  put_name(g, n);
  return n;
}

/* Return the record of a name; made if it is new. */
static ir_name *name_record(session *s, ir_graph *g, str text)
{
  uint32_t hash = (uint32_t)hash_bytes(text.p, text.len);
  ir_name *n = find_name(g, text, hash);

  return n ? n : name_add(s, g, text, hash);
}

/* Write ".12" at p, which has room for 12 bytes; returns its length. */
static size_t put_number(char *p, uint32_t n)
{
  char digits[12], *end = digits + sizeof digits, *at = end;

  do
    *--at = (char)('0' + n % 10);
  while (n /= 10);
  *--at = '.';
  memcpy(p, at, (size_t)(end - at));
  return (size_t)(end - at);
}

/* For "x.7" return the record of "x" and 7, else the name itself and 1: where to look for a free
 * one. */
static ir_name *base_of(session *s, ir_graph *g, ir_name *name, uint32_t *first)
{
  if (!name->base) {
    const char *dot = strrchr(name->text, '.');
    bool numbered = dot && strlen(dot + 1) < 9 && is_decimal(dot + 1);

    name->base = numbered ? name_record(s, g, (str){name->text, (size_t)(dot - name->text)}) : name;
    name->number = numbered ? (uint32_t)strtoul(dot + 1, NULL, 10) : 1;
  }
  *first = name->number;
  return name->base;
}

/* Return the next free name: "x.2" for "x.1", "x.1" for "x". */
static ir_name *free_name(session *s, ir_graph *g, ir_name *name)
{
  uint32_t hash, n;
  ir_name *base = base_of(s, g, name, &n), *found;
  size_t len = base->len < UINT16_MAX ? base->len : strlen(base->text);
  char few[64], *text = len + 12 <= sizeof few ? few : session_alloc(s, len + 12);
  str fresh;

  if (base->tried && base->tried + 1 > n)
    n = base->tried + 1;
  memcpy(text, base->text, len);
  do {
    fresh = (str){text, len + put_number(text + len, n++)};
    hash = (uint32_t)hash_bytes(fresh.p, fresh.len);
    found = find_name(g, fresh, hash);
  } while (found && found->owner);
  base->tried = n;
  if (!found) {
    found = name_add(s, g, fresh, hash);
    found->base = base;
    found->number = n - 1;
  }
  return found;
}

/* Take the name: its present owner, which may be a load, is renamed. */
static void name_take(session *s, ir_graph *g, ir_name *n)
{
  if (n->owner) {
    ir_name *other = free_name(s, g, n);

    ASSERT(other != n && !other->owner, "the name to change to is taken");
    ASSERT(n->owner->name == n->text, "the owner of a name has another one");
    n->owner->name = other->text;
    other->owner = n->owner;
  } else if (n->of_load) {
    n->tried += 2; /* it would have been called by the next number */
  }
  n->owner = NULL;
  n->of_load = false;
}

void ir_value_forget_name(ir_value *v)
{
  if (v->name && name_of(v)->owner == v)
    name_of(v)->owner = NULL;
  v->name = NULL;
}

/* As in PyTorch, the new value gets the name, and an older owner is renamed. */
void ir_value_set_name(session *s, ir_value *v, const char *name)
{
  ir_graph *g = v->node->graph;

  if (v->name && name && strcmp(v->name, name) == 0)
    return;
  ir_value_forget_name(v);
  if (!name || !*name || is_decimal(name))
    return;
  ir_name *n = name_record(s, g, str_of(name));

  name_take(s, g, n);
  ASSERT(!n->owner && !n->of_load, "a taken name");
  v->name = n->text;
  n->owner = v;
}

void ir_graph_load_name(session *s, ir_graph *g, const char *name)
{
  ir_name *n = name_record(s, g, str_of(name));

  name_take(s, g, n);
  n->of_load = true;
  g->next_id++;
}

void ir_graph_forget_loads(ir_graph *g)
{
  for (uint32_t i = 0; i < g->n_buckets; i++)
    for (ir_name *n = g->names[i]; n; n = n->next)
      n->of_load = false;
}

void ir_value_set_own_name(session *s, ir_value *v, str name)
{
  v->name = name_alloc(s, v->node->graph, name)->text;
}

ir_value *ir_graph_named(const ir_graph *g, str name)
{
  const ir_name *n = find_name(g, name, (uint32_t)hash_bytes(name.p, name.len));

  return n ? n->owner : NULL;
}
