/* export/tree.c -- trees of arguments and results: parsed from PyTorch's JSON, used to flatten and
 * build values.
 *
 * A tree_spec lists its children in the order of the leaves, as torch.utils._pytree does: dicts in
 * the order of their keys when they were captured.  Parsing checks everything that flattening
 * relies on (distinct keys, as many children as keys), so that flattening a value is one walk,
 * O(leaves), that only compares. */
#include "export/exported.h"

#include "base/grow.h"
#include "formats/json.h"

#include <stdio.h>

/* -- Parsing ----------------------------------------------------------------------------------- */

typedef struct tree_reader {
  session *s;
  arena *mem;
  program *p;
} tree_reader;

static tree_kind kind_named(str type)
{
  static const struct { const char *name; tree_kind kind; } kinds[] = {
      {"builtins.tuple", TREE_TUPLE},
      {"builtins.list", TREE_LIST},
      {"builtins.dict", TREE_DICT},
      {"collections.OrderedDict", TREE_ORDERED_DICT},
      {"collections.defaultdict", TREE_DICT},
      {"collections.deque", TREE_DEQUE},
      {"collections.namedtuple", TREE_NAMEDTUPLE},
  };
  for (size_t i = 0; i < COUNT_OF(kinds); i++)
    if (str_is(type, kinds[i].name))
      return kinds[i].kind;
  return TREE_OTHER;
}

/* The keys of a context, a JSON text of a list of strings and numbers; for a dataclass a list of
 * its fields, then of those that were None. */
typedef struct key_list {
  rush_value *at;
  uint32_t n, cap;
  bool is_plain; /* texts only, or ints only */
} key_list;

static void add_key(tree_reader *r, key_list *l, json *j)
{
  rush_value key = value_none();

  if (json_peek(j) == JSON_STRING) {
    str text = json_string(j);
    session_check(r->s, string_new(r->s->cx, text.p, text.len, &key));
    program_keep_steal(r->s, r->p, key);
  } else if (json_peek(j) == JSON_INT) {
    key = value_int(json_int(j));
  } else {
    json_skip(j);
  }
  GROW_IN(r->s, r->mem, l->at, l->n, l->cap, 8);
  l->at[l->n++] = key;
  l->is_plain &= key.tag != RUSH_TAG_NONE && key.tag == l->at[0].tag;
}

static key_list list_keys(tree_reader *r, bool is_dataclass, str context, const char *place)
{
  input in = {place, context};
  key_list l = {.is_plain = true};
  bool fields = false;
  json j;

  json_init(&j, r->s, &in);
  for (json_begin_array(&j); json_next_item(&j);) {
    if (is_dataclass && json_peek(&j) == JSON_ARRAY && !fields) {
      json_begin_array(&j); /* the loop continues in it */
      fields = true;
      if (!json_next_item(&j))
        break;
    }
    add_key(r, &l, &j);
  }
  return l;
}

/* True if the keys are distinct. */
static bool are_distinct(tree_reader *r, const key_list *l)
{
  table *seen = session_new(r->s, table);

  session_table_init(r->s, seen);
  for (uint32_t i = 0; i < l->n; i++) {
    const rush_value *key = &l->at[i];
    str bytes = key->tag == RUSH_TAG_STRING ? value_str(*key)
                                            : (str){(const char *)&key->as.i, sizeof key->as.i};
    if (table_get(seen, bytes))
      return false;
    session_table_put(r->s, seen, bytes, l->at);
  }
  return true;
}

/* Return the list of keys in a defaultdict's context, which is an object: {"dict_context": [...],
 * ...}; or nothing. */
static str dict_context(tree_reader *r, str context, const char *place)
{
  input in = {place, context};
  str key, found = {0};
  json j;

  json_init(&j, r->s, &in);
  for (json_begin_object(&j); json_next_key(&j, &key);)
    if (str_is(key, "dict_context") && json_peek(&j) == JSON_ARRAY)
      found = json_raw(&j);
    else
      json_skip(&j);
  return found;
}

/* Read one key for each child of a dict; the fields of a dataclass if its context is such a
 * list. */
static void read_keys(tree_reader *r, json *j, tree_spec *t, str context)
{
  bool is_dict = t->kind == TREE_DICT || t->kind == TREE_ORDERED_DICT;

  if (is_dict && context.len && context.p[0] == '{')
    context = dict_context(r, context, j->in.place);
  if (!context.len || context.p[0] != '[') {
    if (is_dict && t->n_children)
      json_fail(j, "a dict in a tree spec without its keys");
    return;
  }
  key_list l = list_keys(r, t->kind == TREE_OTHER, context, j->in.place);
  bool fits = l.n == t->n_children, plain = l.is_plain && are_distinct(r, &l);
  if (is_dict && !fits)
    json_fail(j, "a dict in a tree spec has %u keys and %u values", l.n, t->n_children);
  if (is_dict && !plain)
    json_fail(
      j, "the keys of a dict in a tree spec are expected to be different texts or different ints");
  if (fits && plain)
    t->keys = l.at;
}

static void read_tree(tree_reader *r, json *j, tree_spec *t);

/* Count and keep the children in one pass. */
static void read_children(tree_reader *r, json *j, tree_spec *t)
{
  uint32_t cap = 0;

  for (json_begin_array(j); json_next_item(j); t->n_children++) {
    GROW_IN(r->s, r->mem, t->children, t->n_children, cap, 2);
    read_tree(r, j, &t->children[t->n_children]);
  }
}

static void read_tree(tree_reader *r, json *j, tree_spec *t)
{
  str key, type = {0}, context = {0};

  session_enter(r->s);
  *t = (tree_spec){.kind = TREE_LEAF};
  for (json_begin_object(j); json_next_key(j, &key);) {
    if (str_is(key, "type") && !json_is_null(j))
      type = json_string(j);
    else if (str_is(key, "context") && json_peek(j) == JSON_STRING)
      context = json_string(j);
    else if (str_is(key, "context") && json_peek(j) == JSON_OBJECT)
      context = json_raw(j);
    else if (str_is(key, "children_spec") && !json_is_null(j))
      read_children(r, j, t);
    else
      json_skip(j);
  }
  if (!type.p && t->n_children)
    json_fail(j, "a leaf of a tree spec has %u children", t->n_children);
  if (type.p) {
    t->kind = kind_named(type);
    char *kept = session_alloc_in(r->s, r->mem, type.len + 1);
    memcpy(kept, type.p, type.len);
    t->type_name = kept;
    if (t->kind != TREE_TUPLE && t->kind != TREE_LIST)
      read_keys(r, j, t, context);
  }
  session_leave(r->s);
}

tree_spec *tree_parse(session *s, arena *mem, program *p, const char *place, str json_text)
{
  tree_reader r = {s, mem, p};
  input in = {place, json_text};
  tree_spec *t = session_alloc_in(s, mem, sizeof *t);
  bool found = false;
  json j;

  json_init(&j, s, &in);
  for (json_begin_array(&j); json_next_item(&j);) {
    if (json_peek(&j) != JSON_OBJECT) {
      json_skip(&j); /* the protocol's number */
      continue;
    }
    if (found)
      json_fail(&j, "a tree spec of two trees");
    read_tree(&r, &j, t);
    found = true;
  }
  if (!found)
    json_fail(&j, "a tree spec without a tree");
  return t;
}

uint32_t tree_n_leaves(const tree_spec *t)
{
  uint32_t n = t->kind == TREE_LEAF;

  for (uint32_t i = 0; i < t->n_children; i++)
    n += tree_n_leaves(&t->children[i]);
  return n;
}

bool tree_is_plain(const tree_spec *t)
{
  bool is_plain = t->kind == TREE_LEAF || t->kind == TREE_TUPLE || t->kind == TREE_LIST ||
                  (t->kind == TREE_DICT && strcmp(t->type_name, "builtins.dict") == 0);

  for (uint32_t i = 0; i < t->n_children && is_plain; i++)
    is_plain = tree_is_plain(&t->children[i]);
  return is_plain;
}

/* -- Flattening -------------------------------------------------------------------------------- */

static const char *spec_word(const tree_spec *t)
{
  switch (t->kind) {
  case TREE_LEAF:
    return "one value";
  case TREE_NONE:
    return "None";
  case TREE_TUPLE:
    return "a tuple";
  case TREE_LIST:
    return "a list";
  case TREE_DICT:
  case TREE_ORDERED_DICT:
    return "a dict";
  case TREE_NAMEDTUPLE:
    return "a named tuple";
  case TREE_DEQUE:
    return "a deque";
  case TREE_OTHER:
    return t->type_name;
  }
  return "?";
}

static const char *value_word(rush_value v)
{
  static const char *const words[] = {"None",    "a tensor",  "a bool",   "an int",
                                      "a float", "a complex", "a str",    "a list",
                                      "a tuple", "a dict",    "an object"};
  return v.tag < COUNT_OF(words) ? words[v.tag] : "a value";
}

static size_t n_items_of(rush_value v)
{
  return v.tag == RUSH_TAG_DICT    ? v.as.dict->n
         : v.tag == RUSH_TAG_LIST  ? v.as.list->n
         : v.tag == RUSH_TAG_TUPLE ? v.as.tuple->n
                                   : 0;
}

static rush_status mismatch(call_ctx *cx, const char *where, const tree_spec *t, rush_value v,
                            size_t n)
{
  char many[32] = "";

  if (t->kind != TREE_LEAF)
    snprintf(many, sizeof many, " of %u", t->n_children);
  return error_set_type(
    cx->err, RUSH_EARGUMENT, "ValueError",
    "Trying to flatten user inputs with exported input tree spec: at %s the exported program "
    "takes %s%s, but got %s of %zu. Please check that the inputs have the same number and "
    "type of args and kwargs as the ones you used when tracing.",
    where, spec_word(t), many, value_word(v), n);
}

static rush_status flatten_dict(call_ctx *cx, const tree_spec *t, rush_value v, const char *where,
                                rush_value *leaves, uint32_t max, uint32_t *n)
{
  char place[128];

  if (v.tag != RUSH_TAG_DICT || v.as.dict->n != t->n_children)
    return mismatch(cx, where, t, v, n_items_of(v));
  for (uint32_t i = 0; i < t->n_children; i++) {
    rush_value *item = dict_get(v.as.dict, t->keys[i]);
    if (!item)
      return mismatch(cx, where, t, v, v.as.dict->n);
    if (t->keys[i].tag == RUSH_TAG_STRING)
      snprintf(place, sizeof place, "%.60s['%.40s']", where, t->keys[i].as.string->text);
    else
      snprintf(place, sizeof place, "%.60s[%lld]", where, (long long)t->keys[i].as.i);
    TRY(tree_flatten(cx, &t->children[i], *item, place, leaves, max, n));
  }
  return RUSH_OK;
}

/* Flatten a tuple or a list by position. */
static rush_status flatten_items(call_ctx *cx, const tree_spec *t, rush_value v, const char *where,
                                 rush_value *leaves, uint32_t max, uint32_t *n)
{
  const rush_value *items = NULL;
  size_t n_items = 0;
  char place[128];

  if (v.tag == RUSH_TAG_TUPLE) {
    items = v.as.tuple->items;
    n_items = v.as.tuple->n;
  } else if (v.tag == RUSH_TAG_LIST) {
    items = v.as.list->items;
    n_items = v.as.list->n;
  } else {
    return mismatch(cx, where, t, v, n_items_of(v));
  }
  bool is_kind = t->kind == TREE_DEQUE || (t->kind == TREE_LIST) == (v.tag == RUSH_TAG_LIST);
  if (n_items != t->n_children || !is_kind)
    return mismatch(cx, where, t, v, n_items);
  for (uint32_t i = 0; i < t->n_children; i++) {
    snprintf(place, sizeof place, "%.100s[%u]", where, i);
    TRY(tree_flatten(cx, &t->children[i], items[i], place, leaves, max, n));
  }
  return RUSH_OK;
}

rush_status tree_flatten(call_ctx *cx, const tree_spec *t, rush_value v, const char *where,
                         rush_value *leaves, uint32_t max, uint32_t *n)
{
  bool is_dict = t->kind == TREE_DICT || t->kind == TREE_ORDERED_DICT;

  if (t->kind == TREE_LEAF) {
    if (v.tag == RUSH_TAG_LIST || v.tag == RUSH_TAG_TUPLE || v.tag == RUSH_TAG_DICT)
      return mismatch(cx, where, t, v, n_items_of(v));
    ASSERT(*n < max, "counted when the spec was read");
    leaves[(*n)++] = v;
    return RUSH_OK;
  }
  TRY(call_enter(cx));
  rush_status st = is_dict || (t->keys && t->kind == TREE_OTHER && v.tag == RUSH_TAG_DICT)
                       ? flatten_dict(cx, t, v, where, leaves, max, n)
                       : flatten_items(cx, t, v, where, leaves, max, n);
  call_leave(cx);
  return st;
}

/* -- Putting together -------------------------------------------------------------------------- */

static rush_status build_dict(call_ctx *cx, const tree_spec *t, const rush_value *leaves,
                              uint32_t *n, rush_value *out)
{
  const type *key = t->n_children && t->keys[0].tag == RUSH_TAG_INT ? type_simple(TYPE_INT)
                                                                    : type_simple(TYPE_STRING);
  rush_dict *d;
  rush_value item;

  TRY(dict_new(cx, key, type_simple(TYPE_ANY), &d));
  for (uint32_t i = 0; i < t->n_children; i++) {
    rush_status st = tree_unflatten(cx, &t->children[i], leaves, n, &item);
    if (st == RUSH_OK)
      st = dict_set_steal(cx, d, value_retain(t->keys[i]), item);
    if (st != RUSH_OK) {
      value_release(value_heap_steal(RUSH_TAG_DICT, d));
      return st;
    }
  }
  *out = value_heap_steal(RUSH_TAG_DICT, d);
  return RUSH_OK;
}

static rush_status build_list(call_ctx *cx, const tree_spec *t, const rush_value *leaves,
                              uint32_t *n, rush_value *out)
{
  rush_list *l;
  rush_value item;

  TRY(list_new(cx, type_simple(TYPE_ANY), t->n_children, &l));
  for (uint32_t i = 0; i < t->n_children; i++) {
    rush_status st = tree_unflatten(cx, &t->children[i], leaves, n, &item);
    if (st == RUSH_OK)
      st = list_append_steal(cx, l, item);
    if (st != RUSH_OK) {
      value_release(value_heap_steal(RUSH_TAG_LIST, l));
      return st;
    }
  }
  *out = value_heap_steal(RUSH_TAG_LIST, l);
  return RUSH_OK;
}

static rush_status build_tuple(call_ctx *cx, const tree_spec *t, const rush_value *leaves,
                               uint32_t *n, rush_value *out)
{
  rush_tuple *tuple;

  TRY(tuple_new(cx, NULL, t->n_children, &tuple));
  for (uint32_t i = 0; i < t->n_children; i++) {
    rush_status st = tree_unflatten(cx, &t->children[i], leaves, n, &tuple->items[i]);
    if (st != RUSH_OK) {
      value_release(value_heap_steal(RUSH_TAG_TUPLE, tuple));
      return st;
    }
  }
  *out = value_heap_steal(RUSH_TAG_TUPLE, tuple);
  return RUSH_OK;
}

rush_status tree_unflatten(call_ctx *cx, const tree_spec *t, const rush_value *leaves, uint32_t *n,
                           rush_value *out)
{
  bool is_dict =
    t->kind == TREE_DICT || t->kind == TREE_ORDERED_DICT || (t->keys && t->kind == TREE_OTHER);

  if (t->kind == TREE_LEAF) {
    *out = value_retain(leaves[(*n)++]);
    return RUSH_OK;
  }
  TRY(call_enter(cx));
  bool is_list = t->kind == TREE_LIST || t->kind == TREE_DEQUE;
  rush_status st = is_list   ? build_list(cx, t, leaves, n, out)
                   : is_dict ? build_dict(cx, t, leaves, n, out)
                             : build_tuple(cx, t, leaves, n, out);
  call_leave(cx);
  return st;
}
