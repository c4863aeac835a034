/* ir/facts.c -- parses and prints the facts about tensors in types. */
#include "ir/facts.h"

#include <ctype.h>
#include <stdlib.h>

#include "tensor/sparse.h"

ir_facts ir_facts_none(void)
{
  return (ir_facts){.dtype = DTYPE_NONE, .n_dims = -1, .requires_grad = -1};
}

ir_facts ir_facts_of_tensor(const rush_tensor *t)
{
  ir_facts f = ir_facts_none();

  f.dtype = t->dtype;
  f.on_cpu = true;
  f.requires_grad = tensor_requires_grad(t);
  if (t->n_dims > IR_FACTS_DIMS)
    return f;
  f.n_dims = t->n_dims;
  f.strided = !tensor_sparse(t);
  for (int i = 0; i < t->n_dims; i++) {
    f.sizes[i] = t->sizes[i];
    f.strides[i] = t->strides[i];
  }
  return f;
}

/* -- Reading ----------------------------------------------------------------------------------- */

static const char *skip(const char *p)
{
  while (isspace((unsigned char)*p) || *p == ',')
    p++;
  return p;
}

static bool starts(const char **p, const char *word)
{
  size_t n = strlen(word);

  if (strncmp(*p, word, n) != 0)
    return false;
  *p += n;
  return true;
}

static const char *read_strides(const char *p, ir_facts *f)
{
  int n = 0;

  for (; *p && *p != ']'; p = skip(p)) {
    char *end;
    long long v = strtoll(p, &end, 10);
    if (end == p)
      return p;
    if (n < IR_FACTS_DIMS)
      f->strides[n++] = v;
    p = end;
  }
  f->strided = n == f->n_dims;
  return *p ? p + 1 : p;
}

size_t ir_facts_parse(const char *text, int dtype, ir_facts *out)
{
  const char *p = text;
  ir_facts f = ir_facts_none();
  bool ranked = false;

  f.dtype = dtype;
  if (*p++ != '(')
    return 0;
  f.n_dims = 0;
  for (p = skip(p); *p && *p != ')'; p = skip(p)) {
    char *end;
    if (starts(&p, "strides=[")) {
      p = read_strides(p, &f);
    } else if (starts(&p, "requires_grad=")) {
      f.requires_grad = *p++ == '1';
    } else if (starts(&p, "device=")) {
      f.on_cpu = starts(&p, "cpu");
      while (*p && *p != ')' && *p != ',')
        p++;
    } else if (f.n_dims < IR_FACTS_DIMS && (*p == '*' || isdigit((unsigned char)*p))) {
      f.sizes[f.n_dims++] = *p == '*' ? -1 : strtoll(p, &end, 10);
      p = *p == '*' ? p + 1 : end;
      ranked = true;
    } else {
      return 0;
    }
  }
  if (*p != ')')
    return 0;
  if (
    /* a tensor without dimensions, or one whose dimensions are unknown: PyTorch writes both in this
     * way */
    !ranked)
    f.n_dims = p == text + 1 ? 0 : -1;
  f.strided |= f.n_dims == 0;
  *out = f;
  return (size_t)(p + 1 - text);
}

int ir_dtype_of_name(str name)
{
  for (int d = 0; d < N_DTYPES; d++)
    if (dtype_is_valid(d) && str_is(name, dtype_aten_name(d)))
      return d;
  return DTYPE_NONE;
}

ir_facts ir_facts_of(const type *t)
{
  ir_facts f = ir_facts_none();

  if (t->kind != TYPE_TENSOR || !t->name)
    return f;
  size_t n = strcspn(t->name, "(");
  (void)ir_facts_parse(t->name + n, ir_dtype_of_name((str){t->name, n}), &f);
  return f;
}

const type *ir_type_unshaped(session *s, type_store *ts, const type *t)
{
  bool rebuilt = false;
  const type *made = t;

  if (t->kind == TYPE_TENSOR)
    return type_simple(TYPE_TENSOR);
  if (!t->n_elems || t->fields || t->kind == TYPE_CLASS)
    return t;
  session_enter(s);
  const type **elems = session_array(s, const type *, t->n_elems);
  for (uint32_t i = 0; i < t->n_elems; i++) {
    elems[i] = ir_type_unshaped(s, ts, t->elems[i]);
    rebuilt |= elems[i] != t->elems[i];
  }
  session_leave(s);
  if (rebuilt && t->kind == TYPE_TUPLE)
    made = type_tuple(ts, elems, t->n_elems);
  else if (rebuilt && t->kind == TYPE_DICT)
    made = type_dict(ts, elems[0], elems[1]);
  else if (rebuilt && t->kind == TYPE_LIST)
    made = type_list(ts, elems[0]);
  else if (rebuilt && t->kind == TYPE_OPTIONAL)
    made = type_optional(ts, elems[0]);
  else if (rebuilt && (t->kind == TYPE_FUTURE || t->kind == TYPE_AWAIT))
    made = type_generic(ts, t->kind, elems[0]);
  if (!made)
    session_check(s, call_nomem(s->cx));
  return made;
}

/* -- Writing ----------------------------------------------------------------------------------- */

static void print_facts(text_buf *out, const ir_facts *f)
{
  const char *comma = "";

  text_printf(out, "%s(", f->dtype == DTYPE_NONE ? "Tensor" : dtype_aten_name(f->dtype));
  for (int i = 0; i < f->n_dims; i++, comma = ", ") {
    if (f->sizes[i] < 0)
      text_printf(out, "%s*", comma);
    else
      text_printf(out, "%s%lld", comma, (long long)f->sizes[i]);
  }
  for (int i = 0; f->strided && i < f->n_dims; i++)
    text_printf(out, "%s%lld%s", i ? ", " : ", strides=[", (long long)f->strides[i],
                i + 1 == f->n_dims ? "]" : "");
  if (f->requires_grad >= 0) {
    text_printf(out, "%srequires_grad=%d", comma, f->requires_grad);
    comma = ", ";
  }
  if (f->on_cpu)
    text_printf(out, "%sdevice=cpu", comma);
  text_putc(out, ')');
}

const type *ir_facts_type(session *s, type_store *ts, const ir_facts *f)
{
  if (f->dtype == DTYPE_NONE && f->n_dims < 0 && f->requires_grad < 0 && !f->on_cpu)
    return type_simple(TYPE_TENSOR);
  text_buf *text = session_text(s);
  print_facts(text, f);
  return session_type(s, type_new_named(ts, TYPE_TENSOR, session_take_text(s, text), NULL, 0));
}
