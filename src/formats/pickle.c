/* formats/pickle.c -- the pickle machine of pickle.h: a loop over opcodes with a stack, marks and a
 * memo, which builds nodes and calls nothing. Stack and memo sizes are bounded by the length of the
 * input, so a small file cannot use much memory. Nodes are made in the session's arena and strings
 * point into the input. Cost: O(bytes). */
#include "formats/pickle.h"

#include <stdio.h>
#include <string.h>

#include "base/grow.h"
#include "base/number.h"

/* Opcodes, by the names of Python's pickletools. */
enum {
  OP_MARK = '(', OP_STOP = '.', OP_POP = '0', OP_POP_MARK = '1', OP_DUP = '2',
  OP_FLOAT = 'F', OP_INT = 'I', OP_BININT = 'J', OP_BININT1 = 'K', OP_LONG = 'L', OP_BININT2 = 'M',
  OP_NONE = 'N', OP_PERSID = 'P', OP_BINPERSID = 'Q', OP_REDUCE = 'R', OP_STRING = 'S',
  OP_BINSTRING = 'T', OP_SHORT_BINSTRING = 'U', OP_UNICODE = 'V', OP_BINUNICODE = 'X',
  OP_APPEND = 'a', OP_BUILD = 'b', OP_GLOBAL = 'c', OP_DICT = 'd', OP_EMPTY_DICT = '}',
  OP_APPENDS = 'e', OP_GET = 'g', OP_BINGET = 'h', OP_INST = 'i', OP_LONG_BINGET = 'j',
  OP_LIST = 'l', OP_EMPTY_LIST = ']', OP_OBJ = 'o', OP_PUT = 'p', OP_BINPUT = 'q',
  OP_LONG_BINPUT = 'r', OP_SETITEM = 's', OP_TUPLE = 't', OP_EMPTY_TUPLE = ')', OP_SETITEMS = 'u',
  OP_BINFLOAT = 'G', OP_BINBYTES = 'B', OP_SHORT_BINBYTES = 'C',
  OP_PROTO = 0x80, OP_NEWOBJ = 0x81, OP_EXT1 = 0x82, OP_EXT2 = 0x83, OP_EXT4 = 0x84,
  OP_TUPLE1 = 0x85, OP_TUPLE2 = 0x86, OP_TUPLE3 = 0x87, OP_NEWTRUE = 0x88, OP_NEWFALSE = 0x89,
  OP_LONG1 = 0x8a, OP_LONG4 = 0x8b,
  OP_SHORT_BINUNICODE = 0x8c, OP_BINUNICODE8 = 0x8d, OP_BINBYTES8 = 0x8e, OP_EMPTY_SET = 0x8f,
  OP_ADDITEMS = 0x90, OP_FROZENSET = 0x91, OP_NEWOBJ_EX = 0x92, OP_STACK_GLOBAL = 0x93,
  OP_MEMOIZE = 0x94, OP_FRAME = 0x95,
  OP_BYTEARRAY8 = 0x96, OP_NEXT_BUFFER = 0x97, OP_READONLY_BUFFER = 0x98
};
enum { MAX_PROTOCOL = 5, OPS_PER_POLL = 4096 };

typedef struct machine {
  session *s;
  pickle *p;
  const uint8_t *data; /* the whole input */
  size_t n_bytes, pos;
  size_t op; /* offset of the current opcode */
  pickle_seq stack;
  uint32_t *marks; /* heights of the stack, growing */
  uint32_t n_marks, cap_marks;
  pickle_node **memo; /* NULL: never put */
  size_t cap_memo, n_memo; /* n_memo: how many were put, MEMOIZE's next index */
} machine;

_Noreturn static void fail(machine *m, const char *fmt, ...) RUSH_PRINTF(2, 3);
static void fail(machine *m, const char *fmt, ...)
{
  char text[512];
  va_list ap;

  va_start(ap, fmt);
  vsnprintf(text, sizeof text, fmt, ap);
  va_end(ap);
  input_fail(m->s, &m->p->in, m->op, "%s", text);
}

/* -- Reading the input ------------------------------------------------------------------------- */

static const uint8_t *take_bytes(machine *m, uint64_t n)
{
  if (n > m->n_bytes - m->pos)
    fail(m, "the pickle is cut short");
  const uint8_t *p = m->data + m->pos;
  m->pos += (size_t)n;
  return p;
}

/* Read a little-endian unsigned number of n bytes, at most 8. */
static uint64_t take_uint(machine *m, int n)
{
  const uint8_t *p = take_bytes(m, (uint64_t)n);
  uint64_t v = 0;

  for (int i = n; i-- > 0;)
    v = v << 8 | p[i];
  return v;
}

/* Read a length of n_len bytes, then that many bytes. */
static str take_text(machine *m, int n_len)
{
  uint64_t n = take_uint(m, n_len);
  return (str){(const char *)take_bytes(m, n), (size_t)n};
}

/* Read up to a newline, and skip it. */
static str take_line(machine *m)
{
  const char *p = (const char *)m->data + m->pos;
  const char *end = memchr(p, '\n', m->n_bytes - m->pos);

  if (end == NULL)
    fail(m, "the pickle is cut short in a line of text");
  m->pos += (size_t)(end - p) + 1;
  return (str){p, (size_t)(end - p)};
}

/* -- Nodes and the stack ----------------------------------------------------------------------- */

static pickle_node *node_new(machine *m, pickle_kind kind)
{
  pickle_node *n = session_new(m->s, pickle_node);

  if (m->p->n_nodes == UINT32_MAX)
    fail(m, "more than %u objects", UINT32_MAX);
  n->kind = (uint8_t)kind;
  n->id = m->p->n_nodes++;
  n->offset = m->op;
  return n;
}

static void seq_reserve(machine *m, pickle_seq *q, uint32_t more)
{
  if (more <= q->cap - q->n)
    return;
  if (more > UINT32_MAX / 2 - q->n)
    fail(m, "a container of more than %u items", UINT32_MAX / 2);
  uint32_t need = q->n + more, cap = q->cap ? q->cap : 4;
  if (q->cap == 0 && more > 1)
    cap = need; /* most containers are filled once */
  while (cap < need)
    cap *= 2;
  pickle_node **at = session_array(m->s, pickle_node *, cap);
  if (q->n)
    memcpy(at, q->at, q->n * sizeof *at);
  q->at = at;
  q->cap = cap;
}

static void seq_push(machine *m, pickle_seq *q, pickle_node *n)
{
  seq_reserve(m, q, 1);
  q->at[q->n++] = n;
}

static void push(machine *m, pickle_node *n)
{
  seq_push(m, &m->stack, n);
}

static void push_kind(machine *m, pickle_kind kind)
{
  push(m, node_new(m, kind));
}

static void push_bool(machine *m, bool b)
{
  pickle_node *n = node_new(m, PICKLE_BOOL);
  n->as.b = b;
  push(m, n);
}

static void push_int(machine *m, int64_t i)
{
  pickle_node *n = node_new(m, PICKLE_INT);
  n->as.i = i;
  push(m, n);
}

static void push_text(machine *m, pickle_kind kind, str text)
{
  pickle_node *n = node_new(m, kind);
  n->as.text = text;
  push(m, n);
}

/* Return how many items may be popped: everything above the last mark. */
static uint32_t stack_height(const machine *m)
{
  return m->stack.n - (m->n_marks ? m->marks[m->n_marks - 1] : 0);
}

static pickle_node *top(machine *m)
{
  if (stack_height(m) == 0)
    fail(m, "the stack is empty");
  return m->stack.at[m->stack.n - 1];
}

static pickle_node *pop(machine *m)
{
  pickle_node *n = top(m);
  m->stack.n--;
  return n;
}

static void push_mark(machine *m)
{
  GROW(m->s, m->marks, m->n_marks, m->cap_marks, 16);
  m->marks[m->n_marks++] = m->stack.n;
}

/* Pop the items above the last mark, and the mark.  The slice is valid until the next push. */
static pickle_seq pop_marked(machine *m)
{
  if (m->n_marks == 0)
    fail(m, "no mark on the stack");
  uint32_t from = m->marks[--m->n_marks], n = m->stack.n - from;
  m->stack.n = from;
  return (pickle_seq){n ? m->stack.at + from : NULL, n, 0};
}

/* -- Plain data -------------------------------------------------------------------------------- */

static void push_double(machine *m, double d)
{
  pickle_node *n = node_new(m, PICKLE_FLOAT);
  n->as.d = d;
  push(m, n);
}

static void op_binfloat(machine *m)
{
  const uint8_t *p = take_bytes(m, 8);
  uint64_t bits = 0;
  double d;

  for (int i = 0; i < 8; i++) /* big-endian, unlike all else */
    bits = bits << 8 | p[i];
  memcpy(&d, &bits, sizeof d);
  push_double(m, d);
}

/* Read little-endian two's complement of any length. */
static void op_long(machine *m, int n_len)
{
  str t = take_text(m, n_len);
  const uint8_t *p = (const uint8_t *)t.p;
  size_t n = t.len;
  bool negative = n && (p[n - 1] & 0x80);

  while (n > 8 && p[n - 1] == (negative ? 0xff : 0) && ((p[n - 2] & 0x80) != 0) == negative)
    n--;
  if (n > 8) {
    push_text(m, PICKLE_LONG, (str){t.p, n});
    return;
  }
  uint64_t v = negative ? UINT64_MAX : 0;
  for (size_t i = n; i-- > 0;)
    v = v << 8 | p[i];
  push_int(m, (int64_t)v);
}

/* Parse decimal digits with a sign, as in `INT` and `LONG`. */
static int64_t parse_int(machine *m, str t)
{
  size_t i = 0;
  uint64_t v = 0, limit = INT64_MAX;
  bool negative = t.len && t.p[0] == '-';

  if (negative)
    i = 1, limit++;
  if (i == t.len)
    fail(m, "malformed integer");
  for (; i < t.len; i++) {
    unsigned digit = (unsigned)(t.p[i] - '0');
    if (digit > 9)
      fail(m, "malformed integer");
    if (__builtin_mul_overflow(v, 10, &v) || __builtin_add_overflow(v, digit, &v) || v > limit)
      fail(m, "an integer beyond 64 bits as text");
  }
  return negative ? (int64_t)(0 - v) : (int64_t)v;
}

static void op_int(machine *m)
{
  str t = take_line(m);

  if (str_is(t, "00") || str_is(t, "01"))
    push_bool(m, t.p[1] == '1');
  else
    push_int(m, parse_int(m, t));
}

static void op_long_text(machine *m)
{
  str t = take_line(m);

  if (t.len && t.p[t.len - 1] == 'L')
    t.len--;
  push_int(m, parse_int(m, t));
}

static void op_float(machine *m)
{
  str t = take_line(m);
  double d;

  if (!float_parse(t.p, t.len, &d))
    fail(m, "malformed float");
  push_double(m, d);
}

/* -- Strings of protocol 0 --------------------------------------------------------------------- */

/* Parse n hex digits at p, or return -1. */
static int64_t hex_number(const char *p, size_t left, size_t n)
{
  int64_t v = 0;

  if (left < n)
    return -1;
  for (size_t i = 0; i < n; i++) {
    int digit = hex_digit(p[i]);
    if (digit < 0)
      return -1;
    v = v * 16 + digit;
  }
  return v;
}

/* Decode Python's repr of a byte string, in quotes. */
static str unquote(machine *m, str t)
{
  static const char names[] = "\\'\"abfnrtv", values[] = "\\'\"\a\b\f\n\r\t\v";
  char *out = session_alloc(m->s, t.len + 1);
  size_t n = 0;

  if (t.len < 2 || (t.p[0] != '\'' && t.p[0] != '"') || t.p[t.len - 1] != t.p[0])
    fail(m, "malformed string");
  for (size_t i = 1; i < t.len - 1; i++) {
    if (t.p[i] != '\\') {
      out[n++] = t.p[i];
      continue;
    }
    const char *name = strchr(names, t.p[++i]);
    int64_t hex = t.p[i] == 'x' ? hex_number(t.p + i + 1, t.len - 2 - i, 2) : -1;
    if (t.p[i] == '\0' || i >= t.len - 1 || (name == NULL && hex < 0))
      fail(m, "unknown escape in a string");
    out[n++] = name ? values[name - names] : (char)hex;
    i += name ? 0 : 2;
  }
  return (str){out, n};
}

/* Append a code point as UTF-8 (surrogates too, as Python's surrogatepass).  At most 4 bytes. */
static size_t put_utf8(char *to, uint32_t c)
{
  if (c < 0x80) {
    to[0] = (char)c;
    return 1;
  }
  int n = c < 0x800 ? 2 : c < 0x10000 ? 3 : 4;
  for (int i = n - 1; i > 0; i--, c >>= 6)
    to[i] = (char)(0x80 | (c & 0x3f));
  to[0] = (char)((0xf00 >> n) | c);
  return (size_t)n;
}

/* Decode Latin-1 with \uXXXX and \UXXXXXXXX. */
static str unescape_unicode(machine *m, str t)
{
  char *out = session_alloc_array(m->s, t.len + 1, 2);
  size_t n = 0;

  for (size_t i = 0; i < t.len; i++) {
    int64_t c = (unsigned char)t.p[i];
    if (c == '\\' && i + 1 < t.len && (t.p[i + 1] == 'u' || t.p[i + 1] == 'U')) {
      size_t digits = t.p[i + 1] == 'u' ? 4 : 8;
      c = hex_number(t.p + i + 2, t.len - i - 2, digits);
      if (c < 0 || c > 0x10ffff)
        fail(m, "malformed \\u escape");
      i += 1 + digits;
    }
    n += put_utf8(out + n, (uint32_t)c);
  }
  return (str){out, n};
}

/* -- Containers -------------------------------------------------------------------------------- */

static pickle_node *seq_node(machine *m, pickle_kind kind, const pickle_seq *items)
{
  pickle_node *n = node_new(m, kind);

  if (items->n) {
    seq_reserve(m, &n->as.seq, items->n);
    memcpy(n->as.seq.at, items->at, items->n * sizeof *items->at);
    n->as.seq.n = items->n;
  }
  return n;
}

static void push_seq(machine *m, pickle_kind kind)
{
  pickle_seq items = pop_marked(m);

  if (kind == PICKLE_DICT && items.n % 2)
    fail(m, "a dict with a key but no value");
  push(m, seq_node(m, kind, &items));
}

static void push_tuple(machine *m, uint32_t n)
{
  if (stack_height(m) < n)
    fail(m, "the stack is empty");
  pickle_seq items = {m->stack.at + m->stack.n - n, n, 0};
  pickle_node *tuple = seq_node(m, PICKLE_TUPLE, &items);
  m->stack.n -= n;
  push(m, tuple);
}

/* Append `items`, which are in the stack's free part, to the container on top. */
static void extend(machine *m, const pickle_seq *items, bool pairs)
{
  pickle_node *to = top(m);
  pickle_seq *q = NULL;

  if (to->kind == PICKLE_REDUCE || to->kind == PICKLE_OBJECT)
    q = pairs ? &to->as.object->pairs : &to->as.object->items;
  else if (to->kind == (pairs ? PICKLE_DICT : PICKLE_LIST))
    q = &to->as.seq;
  else
    fail(m, "%s added to a %s", pairs ? "pairs" : "items", pickle_kind_name(to->kind));
  if (pairs && items->n % 2)
    fail(m, "a key without a value");
  if (items->n == 0)
    return;
  seq_reserve(m, q, items->n);
  memcpy(q->at + q->n, items->at, items->n * sizeof *items->at);
  q->n += items->n;
}

static void op_extend(machine *m, bool pairs)
{
  pickle_seq items = pop_marked(m);
  extend(m, &items, pairs);
}

static void op_append(machine *m, bool pair)
{
  uint32_t n = pair ? 2 : 1;

  if (stack_height(m) < n)
    fail(m, "the stack is empty");
  m->stack.n -= n;
  pickle_seq items = {m->stack.at + m->stack.n, n, 0};
  extend(m, &items, pair);
}

/* -- Memo -------------------------------------------------------------------------------------- */

static void memo_put(machine *m, uint64_t index)
{
  pickle_node *n = top(m);

  /* Writers count from 0, so an index beyond the number of bytes is an attempt to use up memory. */
  if (index >= m->n_bytes)
    fail(m, "memo index %llu in a pickle of %zu bytes", (unsigned long long)index, m->n_bytes);
  if (index >= m->cap_memo) {
    size_t cap = m->cap_memo ? m->cap_memo * 2 : 64;
    if (cap <= index)
      cap = (size_t)index + 1;
    pickle_node **memo = session_array(m->s, pickle_node *, cap);
    if (m->cap_memo)
      memcpy(memo, m->memo, m->cap_memo * sizeof *memo);
    m->memo = memo;
    m->cap_memo = cap;
  }
  if (m->memo[index] == NULL)
    m->n_memo++;
  m->memo[index] = n;
}

static void memo_get(machine *m, uint64_t index)
{
  if (index >= m->cap_memo || m->memo[index] == NULL)
    fail(m, "memo %llu was never put", (unsigned long long)index);
  push(m, m->memo[index]);
}

static uint64_t take_index(machine *m)
{
  int64_t i = parse_int(m, take_line(m));

  if (i < 0)
    fail(m, "negative memo index");
  return (uint64_t)i;
}

/* -- Globals and objects ----------------------------------------------------------------------- */

static pickle_node *global_new(machine *m, str module, str name)
{
  pickle_node *n = node_new(m, PICKLE_GLOBAL);

  if (str_is(module, "__builtin__"))
    module = STR("builtins");
  else if (str_is(module, "copy_reg"))
    module = STR("copyreg");
  n->as.global.module = module;
  n->as.global.name = name;
  return n;
}

static void op_global(machine *m)
{
  str module = take_line(m), name = take_line(m);
  push(m, global_new(m, module, name));
}

static void op_stack_global(machine *m)
{
  pickle_node *name = pop(m), *module = pop(m);

  if (name->kind != PICKLE_STR || module->kind != PICKLE_STR)
    fail(m, "a global whose names are no strings");
  push(m, global_new(m, module->as.text, name->as.text));
}

static pickle_node *object_new(machine *m, pickle_kind kind, pickle_node *callable,
                               pickle_node *args)
{
  if (args->kind != PICKLE_TUPLE && kind == PICKLE_OBJECT)
    fail(m, "the arguments of an object are a %s, not a tuple", pickle_kind_name(args->kind));
  pickle_node *n = node_new(m, kind);
  n->as.object = session_new(m->s, pickle_object);
  n->as.object->callable = callable;
  n->as.object->args = args;
  return n;
}

static bool number_of(const pickle_node *n, double *out)
{
  if (n->kind != PICKLE_FLOAT && n->kind != PICKLE_INT)
    return false;
  *out = n->kind == PICKLE_FLOAT ? n->as.d : (double)n->as.i;
  return true;
}

/* Convert bytes in protocols below 3: text whose code points are the bytes.  Returns false if one
 * is above 255. */
static bool latin1_bytes(machine *m, str text, str *out)
{
  char *p = session_alloc(m->s, text.len + 1);
  size_t n = 0;

  for (size_t i = 0; i < text.len; i++) {
    unsigned char ch = (unsigned char)text.p[i];
    if (ch >= 0x80) {
      if (ch < 0xc2 || ch > 0xc3 || i + 1 == text.len || (text.p[i + 1] & 0xc0) != 0x80)
        return false;
      ch = (unsigned char)(ch << 6 | (text.p[++i] & 0x3f));
    }
    p[n++] = (char)ch;
  }
  *out = (str){p, n};
  return true;
}

/* Make plain data from a call, for which protocol 2 has no opcode; NULL if it is another call. */
static pickle_node *plain_call(machine *m, const pickle_node *callable, const pickle_node *args)
{
  const pickle_seq *a = &args->as.seq;
  double re, im;
  str bytes = STR("");

  if (args->kind != PICKLE_TUPLE)
    return NULL;
  if (pickle_is_global(callable, "builtins", "complex") && a->n == 2 && number_of(a->at[0], &re) &&
      number_of(a->at[1], &im)) {
    pickle_node *n = node_new(m, PICKLE_COMPLEX);
    n->as.z.re = re;
    n->as.z.im = im;
    return n;
  }
  bool encode = pickle_is_global(callable, "_codecs", "encode") && a->n == 2 &&
                a->at[0]->kind == PICKLE_STR && a->at[1]->kind == PICKLE_STR &&
                str_is(a->at[1]->as.text, "latin1") && latin1_bytes(m, a->at[0]->as.text, &bytes);
  if (!encode && !(pickle_is_global(callable, "builtins", "bytes") && a->n == 0))
    return NULL;
  pickle_node *n = node_new(m, PICKLE_BYTES);
  n->as.text = bytes;
  return n;
}

static void op_reduce(machine *m)
{
  pickle_node *args = pop(m), *callable = pop(m), *plain = plain_call(m, callable, args);
  push(m, plain ? plain : object_new(m, PICKLE_REDUCE, callable, args));
}

/* Return the class in ('module', class, file, source), which torch.save's old format has for
 * modules' classes. */
static pickle_node *class_of_module(pickle_node *class)
{
  pickle_node *id = class->kind == PICKLE_PERSID ? class->as.persid : NULL;

  if (id && id->kind == PICKLE_TUPLE && id->as.seq.n >= 2 &&
      id->as.seq.at[1]->kind == PICKLE_GLOBAL)
    return id->as.seq.at[1];
  return class;
}

static void op_newobj(machine *m, bool with_kwargs)
{
  pickle_node *kwargs = with_kwargs ? pop(m) : NULL, *args = pop(m),
              *class = class_of_module(pop(m));

  if (class->kind != PICKLE_GLOBAL)
    fail(m, "an object whose class is a %s", pickle_kind_name(class->kind));
  if (kwargs && kwargs->kind != PICKLE_DICT)
    fail(m, "keyword arguments that are a %s", pickle_kind_name(kwargs->kind));
  pickle_node *n = object_new(m, PICKLE_OBJECT, class, args);
  n->as.object->kwargs = kwargs;
  push(m, n);
}

static void op_build(machine *m)
{
  pickle_node *state = pop(m), *to = top(m);

  if (to->kind != PICKLE_REDUCE && to->kind != PICKLE_OBJECT)
    fail(m, "state given to a %s", pickle_kind_name(to->kind));
  if (to->as.object->state)
    fail(m, "state given twice to one object");
  to->as.object->state = state;
}

static void push_persid(machine *m, pickle_node *id)
{
  pickle_node *n = node_new(m, PICKLE_PERSID);
  n->as.persid = id;
  push(m, n);
}

static void op_persid_text(machine *m)
{
  push_text(m, PICKLE_STR, take_line(m));
  push_persid(m, pop(m));
}

static void op_empty_set(machine *m)
{
  push(m, object_new(m, PICKLE_REDUCE, global_new(m, STR("builtins"), STR("set")),
                     node_new(m, PICKLE_TUPLE)));
}

static void op_frozenset(machine *m)
{
  push_seq(m, PICKLE_LIST);
  push_tuple(m, 1);
  pickle_node *args = pop(m);
  push(m, object_new(m, PICKLE_REDUCE, global_new(m, STR("builtins"), STR("frozenset")), args));
}

/* -- The machine ------------------------------------------------------------------------------- */

static void op_proto(machine *m)
{
  uint64_t v = take_uint(m, 1);

  if (v > MAX_PROTOCOL)
    fail(m, "pickle protocol %u; the newest that is read is %d", (unsigned)v, MAX_PROTOCOL);
}

static void op_frame(machine *m)
{
  uint64_t n = take_uint(m, 8);

  if (n > m->n_bytes - m->pos)
    fail(m, "a frame of %llu bytes leaves the pickle", (unsigned long long)n);
}

_Noreturn static void refuse(machine *m, int op)
{
  const char *what = op == OP_INST || op == OP_OBJ                     ? "old-style instances"
                     : op >= OP_EXT1 && op <= OP_EXT4                  ? "the extension registry"
                     : op == OP_NEXT_BUFFER || op == OP_READONLY_BUFFER ? "out-of-band buffers"
                                                                       : NULL;
  if (what)
    fail(m, "pickle opcode 0x%02x (%s) is not supported", (unsigned)op, what);
  fail(m, "0x%02x is no pickle opcode", (unsigned)op);
}

/* long: dispatch. */
/* Run the opcodes that combine nodes: containers, the memo, objects. */
static void step_building(machine *m, int op)
{
  switch (op) {
  case OP_EMPTY_LIST: push_kind(m, PICKLE_LIST); break;
  case OP_EMPTY_DICT: push_kind(m, PICKLE_DICT); break;
  case OP_EMPTY_TUPLE: push_kind(m, PICKLE_TUPLE); break;
  case OP_EMPTY_SET: op_empty_set(m); break;
  case OP_LIST: push_seq(m, PICKLE_LIST); break;
  case OP_DICT: push_seq(m, PICKLE_DICT); break;
  case OP_TUPLE: push_seq(m, PICKLE_TUPLE); break;
  case OP_TUPLE1: push_tuple(m, 1); break;
  case OP_TUPLE2: push_tuple(m, 2); break;
  case OP_TUPLE3: push_tuple(m, 3); break;
  case OP_FROZENSET: op_frozenset(m); break;
  case OP_APPEND: op_append(m, false); break;
  case OP_SETITEM: op_append(m, true); break;
  case OP_APPENDS: op_extend(m, false); break;
  case OP_ADDITEMS: op_extend(m, false); break;
  case OP_SETITEMS: op_extend(m, true); break;

  case OP_PUT: memo_put(m, take_index(m)); break;
  case OP_BINPUT: memo_put(m, take_uint(m, 1)); break;
  case OP_LONG_BINPUT: memo_put(m, take_uint(m, 4)); break;
  case OP_MEMOIZE: memo_put(m, m->n_memo); break;
  case OP_GET: memo_get(m, take_index(m)); break;
  case OP_BINGET: memo_get(m, take_uint(m, 1)); break;
  case OP_LONG_BINGET: memo_get(m, take_uint(m, 4)); break;

  case OP_GLOBAL: op_global(m); break;
  case OP_STACK_GLOBAL: op_stack_global(m); break;
  case OP_REDUCE: op_reduce(m); break;
  case OP_NEWOBJ: op_newobj(m, false); break;
  case OP_NEWOBJ_EX: op_newobj(m, true); break;
  case OP_BUILD: op_build(m); break;
  case OP_PERSID: op_persid_text(m); break;
  case OP_BINPERSID: push_persid(m, pop(m)); break;
  default: refuse(m, op);
  }
}

static void step(machine *m, int op)
{
  switch (op) {
  case OP_PROTO: op_proto(m); break;
  case OP_FRAME: op_frame(m); break;
  case OP_MARK: push_mark(m); break;
  case OP_POP:
    /* Python lets POP remove a mark. */
    if (m->n_marks && stack_height(m) == 0)
      m->n_marks--;
    else
      pop(m);
    break;
  case OP_POP_MARK: pop_marked(m); break;
  case OP_DUP: push(m, top(m)); break;

  case OP_NONE: push_kind(m, PICKLE_NONE); break;
  case OP_NEWTRUE: push_bool(m, true); break;
  case OP_NEWFALSE: push_bool(m, false); break;
  case OP_INT: op_int(m); break;
  case OP_LONG: op_long_text(m); break;
  case OP_BININT: push_int(m, (int32_t)take_uint(m, 4)); break;
  case OP_BININT1: push_int(m, (int64_t)take_uint(m, 1)); break;
  case OP_BININT2: push_int(m, (int64_t)take_uint(m, 2)); break;
  case OP_LONG1: op_long(m, 1); break;
  case OP_LONG4: op_long(m, 4); break;
  case OP_FLOAT: op_float(m); break;
  case OP_BINFLOAT: op_binfloat(m); break;

  case OP_STRING: push_text(m, PICKLE_STR, unquote(m, take_line(m))); break;
  case OP_UNICODE: push_text(m, PICKLE_STR, unescape_unicode(m, take_line(m))); break;
  case OP_BINSTRING: push_text(m, PICKLE_STR, take_text(m, 4)); break;
  case OP_SHORT_BINSTRING: push_text(m, PICKLE_STR, take_text(m, 1)); break;
  case OP_BINUNICODE: push_text(m, PICKLE_STR, take_text(m, 4)); break;
  case OP_SHORT_BINUNICODE: push_text(m, PICKLE_STR, take_text(m, 1)); break;
  case OP_BINUNICODE8: push_text(m, PICKLE_STR, take_text(m, 8)); break;
  case OP_BINBYTES: push_text(m, PICKLE_BYTES, take_text(m, 4)); break;
  case OP_SHORT_BINBYTES: push_text(m, PICKLE_BYTES, take_text(m, 1)); break;
  case OP_BINBYTES8: push_text(m, PICKLE_BYTES, take_text(m, 8)); break;
  case OP_BYTEARRAY8: push_text(m, PICKLE_BYTES, take_text(m, 8)); break;

  default: step_building(m, op);
  }
}

pickle *pickle_read(session *s, const input *in, size_t start)
{
  pickle *p = session_new(s, pickle);
  machine m = {.s = s, .p = p, .data = (const uint8_t *)in->bytes.p, .n_bytes = in->bytes.len,
               .pos = start, .op = start};

  p->in = *in;
  if (start >= m.n_bytes)
    fail(&m, "a pickle was expected at the end of the data");
  for (uint32_t n = 0;; n++) {
    if (n % OPS_PER_POLL == 0)
      session_check(s, call_poll(s->cx));
    m.op = m.pos;
    int op = *take_bytes(&m, 1);
    if (op == OP_STOP)
      break;
    step(&m, op);
  }
  if (m.n_marks || m.stack.n != 1)
    fail(&m, "STOP with %u objects and %u marks on the stack", m.stack.n, m.n_marks);
  p->root = m.stack.at[0];
  p->end = m.pos;
  return p;
}

pickle *pickle_read_all(session *s, const input *in)
{
  pickle *p = pickle_read(s, in, 0);

  if (p->end != in->bytes.len)
    input_fail(s, in, p->end, "%zu bytes after the end of the pickle", in->bytes.len - p->end);
  return p;
}

/* -- Looking at nodes -------------------------------------------------------------------------- */

const char *pickle_kind_name(pickle_kind kind)
{
  static const char *const names[] = {
      [PICKLE_NONE] = "None",       [PICKLE_BOOL] = "bool",     [PICKLE_INT] = "int",
      [PICKLE_LONG] = "long int",   [PICKLE_FLOAT] = "float",   [PICKLE_COMPLEX] = "complex",
      [PICKLE_STR] = "str",         [PICKLE_BYTES] = "bytes",   [PICKLE_LIST] = "list",
      [PICKLE_TUPLE] = "tuple",     [PICKLE_DICT] = "dict",     [PICKLE_GLOBAL] = "global",
      [PICKLE_REDUCE] = "call",     [PICKLE_OBJECT] = "object", [PICKLE_PERSID] = "persistent id",
  };
  return names[kind];
}

bool pickle_is_global(const pickle_node *n, const char *module, const char *name)
{
  return n->kind == PICKLE_GLOBAL && str_is(n->as.global.name, name) &&
         str_is(n->as.global.module, module);
}

bool pickle_is_call(const pickle_node *n, const char *module, const char *name)
{
  return (n->kind == PICKLE_REDUCE || n->kind == PICKLE_OBJECT) &&
         pickle_is_global(n->as.object->callable, module, name);
}

const pickle_node *pickle_get(const pickle_node *n, const char *key)
{
  const pickle_seq *q = NULL;

  if (n->kind == PICKLE_DICT)
    q = &n->as.seq;
  else if (n->kind == PICKLE_REDUCE || n->kind == PICKLE_OBJECT)
    q = &n->as.object->pairs;
  for (uint32_t i = q ? q->n : 0; i >= 2; i -= 2) /* from the end: the last counts */
    if (q->at[i - 2]->kind == PICKLE_STR && str_is(q->at[i - 2]->as.text, key))
      return q->at[i - 1];
  return NULL;
}

static const pickle_node *need(session *s, const pickle *p, const pickle_node *n, pickle_kind kind,
                               const char *what)
{
  if (n->kind == PICKLE_LONG && kind == PICKLE_INT)
    pickle_fail(s, p, n, "%s: an integer beyond 64 bits", what);
  if (n->kind != kind)
    pickle_fail(s, p, n, "%s: expected a %s, found a %s", what, pickle_kind_name(kind),
                pickle_kind_name(n->kind));
  return n;
}

int64_t pickle_need_int(session *s, const pickle *p, const pickle_node *n, const char *what)
{
  return need(s, p, n, PICKLE_INT, what)->as.i;
}

bool pickle_need_bool(session *s, const pickle *p, const pickle_node *n, const char *what)
{
  return need(s, p, n, PICKLE_BOOL, what)->as.b;
}

str pickle_need_str(session *s, const pickle *p, const pickle_node *n, const char *what)
{
  return need(s, p, n, PICKLE_STR, what)->as.text;
}

const pickle_seq *pickle_need_tuple(session *s, const pickle *p, const pickle_node *n,
                                    const char *what)
{
  return &need(s, p, n, PICKLE_TUPLE, what)->as.seq;
}

const pickle_seq *pickle_need_list(session *s, const pickle *p, const pickle_node *n,
                                   const char *what)
{
  return &need(s, p, n, PICKLE_LIST, what)->as.seq;
}

const pickle_seq *pickle_need_dict(session *s, const pickle *p, const pickle_node *n,
                                   const char *what)
{
  return &need(s, p, n, PICKLE_DICT, what)->as.seq;
}

void pickle_fail(session *s, const pickle *p, const pickle_node *n, const char *fmt, ...)
{
  char text[512];
  va_list ap;

  va_start(ap, fmt);
  vsnprintf(text, sizeof text, fmt, ap);
  va_end(ap);
  input_fail(s, &p->in, (size_t)n->offset, "%s", text);
}
