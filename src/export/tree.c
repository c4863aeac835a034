#include "export/exported.h"

#include "formats/json.h"

#include <stdio.h>

/* -- Parsing ----------------------------------------------------------------------------------------- */

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
      {"collections.namedtuple", TREE_NAMEDTUPLE},
  };
  for (size_t i = 0; i < COUNT_OF(kinds); i++)
    if (str_is(type, kinds[i].name))
      return kinds[i].kind;
  return TREE_OTHER;
}

/* Keys of a dict: the context is a JSON text of a list of texts and numbers; that of a dataclass is a list
 * of its fields, then of those that were None.  Anything else has none. */
static void read_keys(tree_reader *r, tree_spec *t, str context, const char *place)
{
  input in = {place, context};
  json j;
  uint32_t n = 0;
  bool fields = false;

  if (!context.len || context.p[0] != '[')
    return;
  t->keys = session_alloc_in(r->s, r->mem, (t->n_children + 1) * sizeof(rush_value));
  for (uint32_t i = 0; i <= t->n_children; i++)
    t->keys[i] = value_none();
  json_init(&j, r->s, &in);
  for (json_begin_array(&j); json_next_item(&j);) {
    rush_value key = value_none();
    if (t->kind == TREE_OTHER && json_peek(&j) == JSON_ARRAY && !fields) {
      json_begin_array(&j); /* the loop goes on in it */
      fields = true;
      if (!json_next_item(&j))
        break;
    }
    if (json_peek(&j) == JSON_STRING) {
      str text = json_string(&j);
      session_check(r->s, string_new(r->s->cx, text.p, text.len, &key));
      program_keep_steal(r->s, r->p, key);
    } else if (json_peek(&j) == JSON_INT) {
      key = value_int(json_int(&j));
    } else {
      json_skip(&j);
    }
    if (n < t->n_children)
      t->keys[n++] = key;
  }
}

static void read_tree(tree_reader *r, json *j, tree_spec *t)
{
  str key, type = {0}, context = {0}, children = {0};

  session_enter(r->s);
  for (json_begin_object(j); json_next_key(j, &key);) {
    if (str_is(key, "type") && !json_is_null(j))
      type = json_string(j);
    else if (str_is(key, "context") && json_peek(j) == JSON_STRING)
      context = json_string(j);
    else if (str_is(key, "children_spec"))
      children = json_raw(j);
    else
      json_skip(j);
  }
  if (!type.p) {
    t->kind = TREE_LEAF;
    session_leave(r->s);
    return;
  }
  t->kind = kind_named(type);
  char *kept = session_alloc_in(r->s, r->mem, type.len + 1);
  memcpy(kept, type.p, type.len);
  t->type_name = kept;
  json c;
  json_init_at(&c, r->s, &j->in, children);
  uint32_t n = 0;
  for (json_begin_array(&c); json_next_item(&c); n++)
    json_skip(&c);
  t->n_children = n;
  t->children = session_alloc_in(r->s, r->mem, (n + 1) * sizeof *t->children);
  json_init_at(&c, r->s, &j->in, children);
  n = 0;
  for (json_begin_array(&c); json_next_item(&c);)
    read_tree(r, &c, &t->children[n++]);
  if (t->kind != TREE_TUPLE && t->kind != TREE_LIST)
    read_keys(r, t, context, j->in.place);
  if ((t->kind == TREE_DICT || t->kind == TREE_ORDERED_DICT) && t->n_children && !t->keys)
    json_fail(j, "a dict in a tree spec without its keys");
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

/* -- Flattening ----------------------------------------------------------------------------------------- */

static const char *spec_word(const tree_spec *t)
{
  switch (t->kind) {
  case TREE_LEAF:
    return "a leaf";
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
  case TREE_OTHER:
    return t->type_name;
  }
  return "?";
}

static const char *value_word(rush_value v)
{
  static const char *const words[] = {"None", "a tensor", "a bool", "an int",  "a float", "a complex",
                                      "a str", "a list",  "a tuple", "a dict", "an object"};
  return v.tag < COUNT_OF(words) ? words[v.tag] : "a value";
}

static rush_status mismatch(call_ctx *cx, const char *where, const tree_spec *t, rush_value v, size_t n)
{
  return error_set_type(cx->err, RUSH_EARGUMENT, "ValueError",
                        "Trying to flatten user inputs with exported input tree spec: at %s the exported program "
                        "takes %s of %u, but got %s of %zu. Please check that the inputs have the same number and "
                        "type of args and kwargs as the ones you used when tracing.",
                        where, spec_word(t), t->n_children, value_word(v), n);
}

static rush_status flatten_dict(call_ctx *cx, const tree_spec *t, rush_value v, const char *where, rush_value *leaves,
                                uint32_t max, uint32_t *n)
{
  char place[128];

  if (v.tag != RUSH_TAG_DICT || v.as.dict->n != t->n_children)
    return mismatch(cx, where, t, v, v.tag == RUSH_TAG_DICT ? v.as.dict->n : 0);
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

static rush_status flatten(call_ctx *cx, const tree_spec *t, rush_value v, const char *where, rush_value *leaves,
                           uint32_t max, uint32_t *n)
{
  const rush_value *items = NULL;
  size_t n_items = 0;
  char place[128];

  if (t->kind == TREE_LEAF) {
    ASSERT(*n < max, "counted when the spec was read");
    leaves[(*n)++] = v;
    return RUSH_OK;
  }
  if (t->keys && t->kind != TREE_NAMEDTUPLE && v.tag == RUSH_TAG_DICT)
    return flatten_dict(cx, t, v, where, leaves, max, n);
  if (v.tag == RUSH_TAG_TUPLE) {
    items = v.as.tuple->items;
    n_items = v.as.tuple->n;
  } else if (v.tag == RUSH_TAG_LIST) {
    items = v.as.list->items;
    n_items = v.as.list->n;
  }
  if (!items && n_items == 0 && v.tag != RUSH_TAG_TUPLE && v.tag != RUSH_TAG_LIST)
    return mismatch(cx, where, t, v, 0);
  if (n_items != t->n_children || (t->kind == TREE_LIST) != (v.tag == RUSH_TAG_LIST))
    return mismatch(cx, where, t, v, n_items);
  for (uint32_t i = 0; i < t->n_children; i++) {
    snprintf(place, sizeof place, "%.100s[%u]", where, i);
    TRY(tree_flatten(cx, &t->children[i], items[i], place, leaves, max, n));
  }
  return RUSH_OK;
}

rush_status tree_flatten(call_ctx *cx, const tree_spec *t, rush_value v, const char *where, rush_value *leaves,
                         uint32_t max, uint32_t *n)
{
  TRY(call_enter(cx));
  rush_status st = flatten(cx, t, v, where, leaves, max, n);
  call_leave(cx);
  return st;
}

/* -- Putting together -------------------------------------------------------------------------------------- */

static rush_status build_dict(call_ctx *cx, const tree_spec *t, const rush_value *leaves, uint32_t *n, rush_value *out)
{
  const type *key = t->n_children && t->keys[0].tag == RUSH_TAG_INT ? type_simple(TYPE_INT) : type_simple(TYPE_STRING);
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

static rush_status build_list(call_ctx *cx, const tree_spec *t, const rush_value *leaves, uint32_t *n, rush_value *out)
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

static rush_status unflatten(call_ctx *cx, const tree_spec *t, const rush_value *leaves, uint32_t *n, rush_value *out)
{
  rush_tuple *tuple;

  if (t->kind == TREE_LEAF) {
    *out = value_retain(leaves[(*n)++]);
    return RUSH_OK;
  }
  if (t->kind == TREE_LIST)
    return build_list(cx, t, leaves, n, out);
  if (t->keys && t->kind != TREE_NAMEDTUPLE)
    return build_dict(cx, t, leaves, n, out);
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

rush_status tree_unflatten(call_ctx *cx, const tree_spec *t, const rush_value *leaves, uint32_t *n, rush_value *out)
{
  TRY(call_enter(cx));
  rush_status st = unflatten(cx, t, leaves, n, out);
  call_leave(cx);
  return st;
}
