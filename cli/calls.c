/* cli/calls.c -- recorded calls as dicts, for `record`, `verify` and `compare`: reading and
 * building the entries, copying arguments, and making a call. A call may change its arguments, so
 * it gets copies; the data for a later comparison is kept separately. The call runs on a stack of
 * the requested size. Memory: a copy of the call's tensors. */
#include "calls.h"

#include <stdlib.h>
#include <string.h>

#define MAX_ARGS 64

/* -- Dicts ------------------------------------------------------------------------------------- */

static bool find_key(rush_value dict, const char *name, rush_value *out)
{
  for (size_t i = 0; i < rush_value_len(dict); i++) {
    rush_value key;
    rush_value_entry(dict, i, &key, out);
    const char *text = rush_value_string(key, NULL);
    if (text && strcmp(text, name) == 0)
      return true;
  }
  *out = rush_value_none();
  return false;
}

rush_value calls_entry(rush_value dict, const char *name)
{
  rush_value v = rush_value_none();

  if (dict.tag == RUSH_TAG_DICT)
    (void)find_key(dict, name, &v);
  return v;
}

bool calls_has(rush_value dict, const char *name)
{
  rush_value v;

  return dict.tag == RUSH_TAG_DICT && find_key(dict, name, &v);
}

void calls_put_steal(calls_builder *b, const char *key, rush_value v)
{
  if (b->st == RUSH_OK)
    b->st = rush_string_create(b->c->context, key, strlen(key), &b->keys[b->n], b->err);
  if (b->st == RUSH_OK)
    b->values[b->n++] = v;
  else
    rush_value_release(v);
}

void calls_put_text(calls_builder *b, const char *key, const char *text)
{
  rush_value v;

  if (b->st == RUSH_OK &&
      (b->st = rush_string_create(b->c->context, text, strlen(text), &v, b->err)) == RUSH_OK)
    calls_put_steal(b, key, v);
}

void calls_put_from(calls_builder *b, rush_value dict, const char *const *names)
{
  for (; **names; names++)
    if (calls_has(dict, *names))
      calls_put_steal(b, *names, rush_value_retain(calls_entry(dict, *names)));
}

rush_status calls_build_end(calls_builder *b, rush_value *out)
{
  rush_status st = b->st;

  if (st == RUSH_OK)
    st = rush_dict_create(b->c->context, b->keys, b->values, b->n, out, b->err);
  for (size_t i = 0; i < b->n; i++) {
    rush_value_release(b->keys[i]);
    rush_value_release(b->values[i]);
  }
  b->n = 0;
  return st;
}

rush_status calls_from_arguments(cli *c, const call_args *a, bool is_random, rush_value *out,
                                 rush_error *err)
{
  calls_builder b = {.c = c, .err = err}, named = {.c = c, .err = err};
  rush_value args, kwargs;

  for (size_t i = 0; i < a->n_named; i++)
    calls_put_steal(&named, a->named[i].name, rush_value_retain(a->named[i].value));
  calls_put_text(&b, "method", a->method);
  if (b.st == RUSH_OK &&
      (b.st = rush_tuple_create(c->context, a->args, a->n_args, &args, err)) == RUSH_OK)
    calls_put_steal(&b, "args", args);
  const rush_status st = calls_build_end(&named, &kwargs);
  if (st == RUSH_OK)
    calls_put_steal(&b, "kwargs", kwargs);
  b.st = b.st == RUSH_OK ? st : b.st;
  if (is_random)
    calls_put_steal(&b, "seed", rush_value_int((int64_t)c->seed));
  return calls_build_end(&b, out);
}

/* -- Copies ------------------------------------------------------------------------------------ */

static bool copy_items(cli *c, rush_value v, bool tensors, rush_value *out, rush_error *err)
{
  size_t n = rush_value_len(v), done = 0;
  rush_value *items = calloc(n ? 2 * n : 1, sizeof *items), key, value;
  rush_status st = RUSH_ENOMEM;
  bool is_dict = v.tag == RUSH_TAG_DICT;

  for (; items && done < n; done++) {
    if (is_dict) {
      rush_value_entry(v, done, &key, &value);
      items[n + done] = rush_value_retain(key);
    } else {
      value = rush_value_item(v, done);
    }
    if (!calls_copy(c, value, tensors, &items[done], err))
      break;
  }
  if (items && done == n)
    st = is_dict                      ? rush_dict_create(c->context, items + n, items, n, out, err)
         : v.tag == RUSH_TAG_LIST     ? rush_list_create(c->context, items, n, out, err)
                                      : rush_tuple_create(c->context, items, n, out, err);
  for (size_t i = 0; items && i < 2 * n; i++)
    rush_value_release(items[i]);
  free(items);
  return st == RUSH_OK;
}

bool calls_copy(cli *c, rush_value v, bool tensors, rush_value *out, rush_error *err)
{
  size_t n;

  if (v.tag == RUSH_TAG_TENSOR && v.as.tensor && tensors)
    return rush_op_call(c->context, "aten::clone", &v, 1, NULL, 0, out, 1, &n, err) == RUSH_OK;
  if (v.tag == RUSH_TAG_LIST || v.tag == RUSH_TAG_TUPLE || v.tag == RUSH_TAG_DICT)
    return copy_items(c, v, tensors, out, err);
  *out = rush_value_retain(v);
  return true;
}

/* -- Calls ------------------------------------------------------------------------------------- */

typedef struct one_call { /* arguments of rush_module_call_named; its result is stored in `p` */
  rush_module *m;
  const char *method;
  rush_value args[MAX_ARGS];
  rush_named_value named[MAX_ARGS];
  size_t n_args, n_named;
  rush_call_options options;
  performed *p;
} one_call;

static void run_call(void *arg)
{
  one_call *k = arg;

  k->p->st = rush_module_call_named(k->m, k->method, k->args, k->n_args, k->named, k->n_named,
                                    &k->options, &k->p->result, &k->p->err);
}

/* Run the call on a stack of the requested size, if there is one. */
static void run_call_on_stack(one_call *k)
{
  if (k->p->stack)
    k->p->stack_used = cli_on_stack(k->p->stack, run_call, k);
  else
    run_call(k);
}

static void run_with(cli *c, one_call *k, rush_value call, rush_value args, rush_value kwargs)
{
  k->n_args = rush_value_len(args);
  k->n_named = rush_value_len(kwargs);
  for (size_t i = 0; i < k->n_args; i++)
    k->args[i] = rush_value_item(args, i);
  for (size_t i = 0; i < k->n_named; i++) {
    rush_value key;
    rush_value_entry(kwargs, i, &key, &k->named[i].value);
    k->named[i].name = rush_value_string(key, NULL);
  }
  k->options.no_grad = calls_has(call, "no_grad");
  k->options.record_gradients = k->p->records;
  c->output_bytes = 0;
  if (calls_has(call, "seed"))
    k->p->st = rush_manual_seed(c->context, (uint64_t)calls_entry(call, "seed").as.i, &k->p->err);
  if (k->p->st == RUSH_OK)
    run_call_on_stack(k);
}

/* A call may change its arguments: it gets copies of its tensors; and a second copy of its
 * containers, as PyTorch copies these (and not the tensors) on their way from Python. */
void calls_perform(cli *c, rush_module *m, rush_value call, performed *p)
{
  rush_value args = calls_entry(call, "args"), given = calls_entry(call, "kwargs"),
             kwargs = rush_value_none(), passed = rush_value_none();
  const char *method = rush_value_string(calls_entry(call, "method"), NULL);
  one_call *k = calloc(1, sizeof *k);

  p->args = p->result = rush_value_none();
  p->err = (rush_error)RUSH_ERROR_INIT;
  p->st = k ? RUSH_OK : RUSH_ENOMEM;
  if (k && (rush_value_len(args) > MAX_ARGS || rush_value_len(given) > MAX_ARGS ||
            args.tag != RUSH_TAG_TUPLE || !method)) {
    p->st = RUSH_EARGUMENT; /* what no recorder writes */
  } else if (k) {
    *k = (one_call){.m = m, .method = method, .options = RUSH_CALL_OPTIONS_INIT, .p = p};
    if (!calls_copy(c, args, true, &p->args, &p->err) ||
        !calls_copy(c, given, true, &kwargs, &p->err) ||
        !calls_copy(c, p->args, false, &passed, &p->err))
      p->st = p->err.status != RUSH_OK ? p->err.status : RUSH_ENOMEM;
    else
      run_with(c, k, call, passed, kwargs);
  }
  rush_value_release(passed);
  rush_value_release(kwargs);
  free(k);
}

void performed_free(performed *p)
{
  rush_value_release(p->args);
  rush_value_release(p->result);
  rush_error_clear(&p->err);
}
