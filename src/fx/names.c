/* fx/names.c -- names of nodes, by torch.fx's rules: the base and the number behind the last "_"
 * are counted apart, so that the next free number is found without a search from 1.  Names must be
 * PyTorch's, since files, texts and users refer to nodes by them. */
#include "fx/names.h"

#include <stdlib.h>

void fx_names_init(fx_names *n, context *ctx, arena *mem)
{
  n->mem = mem;
  table_init(&n->used, ctx);
  table_init(&n->bases, ctx);
}

void fx_names_free(fx_names *n)
{
  table_free(&n->used);
  table_free(&n->bases);
}

static int compare_names(const void *key, const void *item)
{
  return strcmp(key, *(const char *const *)item);
}

static bool is_reserved(const char *name)
{
  static const char *const names[] = {
#include "fx/names.inc"
  };

  return bsearch(name, names, COUNT_OF(names), sizeof *names, compare_names) != NULL;
}

static bool is_decimal(char c) { return c >= '0' && c <= '9'; }
static bool is_name_letter(char c)
{
  return is_decimal(c) || c == '_' || (c >= 'a' && c <= 'z') || (c >= 'A' && c <= 'Z');
}

/* Replace each run of letters that no name has by one "_". */
static str legal_name(session *s, str wanted)
{
  char *out = session_alloc(s, wanted.len + 2);
  size_t n = 0;

  if (wanted.len && is_decimal(wanted.p[0]))
    out[n++] = '_';
  for (size_t i = 0; i < wanted.len; i++)
    if (is_name_letter(wanted.p[i]))
      out[n++] = wanted.p[i];
    else if (i == 0 || is_name_letter(wanted.p[i - 1]))
      out[n++] = '_';
  return n ? (str){out, n} : STR("_unnamed");
}

/* Split "add_12" into its base and *number; returns false if there is no number at the end. */
static bool split_number(str name, str *base, uint64_t *number)
{
  size_t at = name.len;

  while (at > 0 && is_decimal(name.p[at - 1]))
    at--;
  *base = name;
  if (at == name.len || at < 2 || name.p[at - 1] != '_' || name.len - at > 9)
    return false;
  *base = (str){name.p, at - 1};
  *number = 0;
  for (size_t i = at; i < name.len; i++)
    *number = 10 * *number + (uint64_t)(name.p[i] - '0');
  return true;
}

const char *fx_snake_case(session *s, str name)
{
  text_buf *out = session_text(s);

  for (size_t i = 0; i < name.len; i++) {
    const bool is_capital = name.p[i] >= 'A' && name.p[i] <= 'Z';
    if (is_capital && i > 0 && name.p[i - 1] >= 'a' && name.p[i - 1] <= 'z')
      text_putc(out, '_');
    text_putc(out, is_capital ? (char)(name.p[i] - 'A' + 'a') : name.p[i]);
  }
  return session_take_text(s, out);
}

const char *fx_names_take(session *s, fx_names *n, str name)
{
  char *copy = session_alloc_in(s, n->mem, name.len + 1);

  if (name.len)
    memcpy(copy, name.p, name.len);
  session_table_put(s, &n->used, (str){copy, name.len}, copy);
  return copy;
}

const char *fx_names_make(session *s, fx_names *n, str wanted)
{
  str name = legal_name(s, wanted), base;
  uint64_t number = 0;

  if (!split_number(name, &base, &number) || table_get(&n->used, name)) {
    uintptr_t last = (uintptr_t)table_get(&n->bases, base);
    number = last ? last - 1 : 0;
    if (is_reserved(session_strndup(s, name.p, name.len)))
      name = str_of(session_printf(s, "%.*s_%llu", (int)base.len, base.p,
                                   (unsigned long long)++number));
  }
  while (table_get(&n->used, name)) {
    number++;
    name = str_of(session_printf(s, "%.*s_%llu", (int)base.len, base.p,
                                 (unsigned long long)number));
  }
  const char *made = fx_names_take(s, n, name);
  session_table_put(s, &n->bases, (str){made, base.len}, (void *)(uintptr_t)(number + 1));
  return made;
}
