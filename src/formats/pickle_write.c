/* formats/pickle_write.c -- writes pickles of protocol 2, one opcode per call (pickle_write.h).
 * Integers use the shortest opcode, and strings and globals are memoised in a hash table, because
 * PyTorch's writers do both and equal bytes make archives comparable. Memory: the output, and a
 * table entry per distinct string. */
#include "formats/pickle_write.h"

#include <string.h>

#include "base/table.h"

struct pickle_writer {
  session *s;
  text_buf out;
  table memo; /* "s" text, or "c" module '\n' name -> number + 1 */
  uint32_t n_memo;
};

static void free_writer(void *object)
{
  pickle_writer *w = object;
  text_free(&w->out);
  table_free(&w->memo);
}

static void put_le(pickle_writer *w, char op, uint64_t v, int n_bytes)
{
  text_putc(&w->out, op);
  for (int i = 0; i < n_bytes; i++, v >>= 8)
    text_putc(&w->out, (char)(v & 0xff));
}

pickle_writer *pickle_writer_new(session *s)
{
  pickle_writer *w = session_new(s, pickle_writer);

  w->s = s;
  text_init(&w->out, s->cx->ctx);
  table_init(&w->memo, s->cx->ctx);
  session_defer(s, free_writer, w);
  put_le(w, (char)0x80, 2, 1);
  return w;
}

void pickle_op(pickle_writer *w, pickle_opcode op)
{
  text_putc(&w->out, (char)op);
}

void pickle_bool(pickle_writer *w, bool b)
{
  text_putc(&w->out, (char)(b ? 0x88 : 0x89));
}

void pickle_int(pickle_writer *w, int64_t i)
{
  if (i >= 0 && i <= UINT8_MAX)
    put_le(w, 'K', (uint64_t)i, 1);
  else if (i >= 0 && i <= UINT16_MAX)
    put_le(w, 'M', (uint64_t)i, 2);
  else if (i >= INT32_MIN && i <= INT32_MAX)
    put_le(w, 'J', (uint64_t)i, 4);
  else { /* LONG1 of 8 bytes, as PyTorch writes */
    text_putc(&w->out, (char)0x8a);
    put_le(w, 8, (uint64_t)i, 8);
  }
}

void pickle_double(pickle_writer *w, double d)
{
  uint64_t bits;

  memcpy(&bits, &d, sizeof bits);
  put_le(w, 'G', __builtin_bswap64(bits), 8);
}

/* Push what was written under this key again; returns false if it is new. */
static bool recall(pickle_writer *w, str key)
{
  uintptr_t known = (uintptr_t)table_get(&w->memo, key);

  if (known == 0)
    return false;
  pickle_get_memo(w, (uint32_t)(known - 1));
  return true;
}

static void remember_memo(pickle_writer *w, str key)
{
  uintptr_t number = pickle_put(w);

  session_table_put(w->s, &w->memo, key, (void *)(number + 1));
}

void pickle_str(pickle_writer *w, str text)
{
  char *key = session_alloc(w->s, text.len + 1);

  key[0] = 's';
  if (text.len)
    memcpy(key + 1, text.p, text.len);
  if (recall(w, (str){key, text.len + 1}))
    return;
  if (text.len > UINT32_MAX)
    session_fail_status(w->s, RUSH_EUNSUPPORTED, NULL, NULL,
                        "strings of 4 GB and more cannot be pickled");
  put_le(w, 'X', text.len, 4);
  text_add(&w->out, text.p, text.len);
  remember_memo(w, (str){key, text.len + 1});
}

void pickle_global(pickle_writer *w, str module, str name)
{
  char *key = session_printf(w->s, "c%.*s\n%.*s\n", (int)module.len, module.p, (int)name.len,
                             name.p);

  if (recall(w, str_of(key)))
    return;
  text_puts(&w->out, key);
  remember_memo(w, str_of(key));
}

uint32_t pickle_put(pickle_writer *w)
{
  uint32_t number = w->n_memo++;

  if (number <= UINT8_MAX)
    put_le(w, 'q', number, 1);
  else
    put_le(w, 'r', number, 4);
  return number;
}

void pickle_get_memo(pickle_writer *w, uint32_t number)
{
  if (number <= UINT8_MAX)
    put_le(w, 'h', number, 1);
  else
    put_le(w, 'j', number, 4);
}

str pickle_finish(pickle_writer *w)
{
  text_putc(&w->out, '.');
  if (text_failed(&w->out))
    session_check(w->s, call_nomem(w->s->cx));
  return (str){w->out.data, w->out.len};
}
