/* ops/kernels/values/string.c -- operators on strings, which are byte strings with ASCII letters,
 * as in TorchScript. Kernels append to a text_buf and return it. Deviations from Python (centring,
 * splitlines, percent formats, chr) copy PyTorch's, including its quirks; where PyTorch does not
 * terminate, the code does what Python does. Searches poll the deadline, since a pattern in a long
 * string costs O(n * m). */
#include "base/macros.h"
#include "ops/point/scalar.h"

#define RETURN_INT(e) return call->results[0] = value_int(e), RUSH_OK
#define RETURN_BOOL(e) return call->results[0] = value_bool(e), RUSH_OK

static rush_status return_str(rush_call *call, uint32_t i, str s)
{
  return string_new(call->cx, s.p, s.len, &call->results[i]);
}

/* Return the text and free it. */
static rush_status return_text(rush_call *call, text_buf *t)
{
  rush_status st = call_poll(call->cx);
  if (st == RUSH_OK)
    st = text_failed(t) ? call_nomem(call->cx)
                        : string_new(call->cx, text_str(t), t->len, &call->results[0]);
  text_free(t);
  return st;
}

static rush_status append_str(rush_call *call, rush_list *l, str s)
{
  rush_value v;
  TRY(string_new(call->cx, s.p, s.len, &v));
  return list_append_steal(call->cx, l, v);
}

static rush_status return_list(rush_call *call, rush_list *l, rush_status st)
{
  if (st == RUSH_OK)
    call->results[0] = value_heap_steal(RUSH_TAG_LIST, l);
  else
    value_release(value_heap_steal(RUSH_TAG_LIST, l));
  return st;
}

static rush_status strings_new(rush_call *call, rush_list **out)
{
  return list_new(call->cx, type_simple(TYPE_STRING), 0, out);
}

static str part(str s, size_t from, size_t len) { return (str){s.p + from, len}; }

/* -- Bytes ------------------------------------------------------------------------------------- */

static bool is_upper(char c) { return c >= 'A' && c <= 'Z'; }
static bool is_lower(char c) { return c >= 'a' && c <= 'z'; }
static bool is_alpha(char c) { return is_upper(c) || is_lower(c); }
static bool is_digit(char c) { return c >= '0' && c <= '9'; }
static bool is_alnum(char c) { return is_alpha(c) || is_digit(c); }
static bool is_space(char c) { return c == ' ' || (c >= '\t' && c <= '\r'); }
static bool is_printable(char c) { return c >= 32 && c < 127; }
static char to_upper(char c) { return is_lower(c) ? (char)(c - 32) : c; }
static char to_lower(char c) { return is_upper(c) ? (char)(c + 32) : c; }

#define NOT_FOUND SIZE_MAX

/* Bytes that are searched between two polls. */
#define SEARCH_BYTES ((size_t)4 << 20)

/* Find `what` at or after `from`; the result is arbitrary if the call must end. */
static size_t find_from(const rush_call *call, str s, str what, size_t from)
{
  if (from > s.len || what.len > s.len - from)
    return NOT_FOUND;
  if (!what.len)
    return from;
  size_t window = (what.len < SIZE_MAX / 8 ? 4 * what.len : what.len) + SEARCH_BYTES;
  for (;; from += window - what.len + 1) {
    size_t n = s.len - from < window ? s.len - from : window;
    const char *p = memmem(s.p + from, n, what.p, what.len);
    if (p)
      return (size_t)(p - s.p);
    if (n == s.len - from || call_over(call->cx))
      return NOT_FOUND;
  }
}

static size_t find_last(const rush_call *call, str s, str what)
{
  if (what.len > s.len)
    return NOT_FOUND;
  size_t work = 0;
  for (size_t i = s.len - what.len + 1; i-- > 0; work += what.len) {
    if (memcmp(s.p + i, what.p, what.len) == 0)
      return i;
    if (work > SEARCH_BYTES) {
      work = 0;
      if (call_over(call->cx))
        break;
    }
  }
  return NOT_FOUND;
}

/* -- Items ------------------------------------------------------------------------------------- */

rush_kernel kernel_str_len, kernel_str_getitem, kernel_str_slice, kernel_str_list, kernel_str_add;
rush_status kernel_str_len(rush_call *call) { RETURN_INT((int64_t)call_str(call, 0).len); }

rush_status kernel_str_getitem(rush_call *call)
{
  str s = call_str(call, 0);
  int64_t i = index_wrap(call_int(call, 1), s.len);
  if (i < 0 || i >= (int64_t)s.len)
    return call_fail_type(call->cx, "IndexError",
                          "basic_string::at: __n (which is %zu) >= this->size() (which is %zu)",
                          (size_t)i, s.len);
  return return_str(call, 0, part(s, (size_t)i, 1));
}

rush_status kernel_str_slice(rush_call *call)
{
  str s = call_str(call, 0);
  int64_t step = call_int(call, 3), start;
  if (step == 0)
    return call_fail(call->cx, "List slice should have non-zero step");
  int64_t n = slice_adjust((int64_t)s.len, call->args[1], call->args[2], step, &start);
  if (step == 1)
    return return_str(call, 0, part(s, (size_t)start, (size_t)n));
  text_buf t;
  text_init_call(&t, call->cx);
  for (int64_t i = 0; i < n && !call_over_at(call->cx, i); i++)
    text_putc(&t, s.p[start + i * step]);
  return return_text(call, &t);
}

rush_status kernel_str_list(rush_call *call)
{
  str s = call_str(call, 0);
  rush_list *l;
  TRY(strings_new(call, &l));
  rush_status st = RUSH_OK;
  for (size_t i = 0; st == RUSH_OK && i < s.len; i++)
    st =
      call_over_at(call->cx, (int64_t)i) ? call_poll(call->cx) : append_str(call, l, part(s, i, 1));
  return return_list(call, l, st);
}

rush_status kernel_str_add(rush_call *call)
{
  str a = call_str(call, 0), b = call_str(call, 1);
  text_buf t;
  text_init_call(&t, call->cx);
  text_add(&t, a.p, a.len);
  text_add(&t, b.p, b.len);
  return return_text(call, &t);
}

/* -- Formatting -------------------------------------------------------------------------------- */

rush_kernel kernel_str_str, kernel_str_format, kernel_str_percentFormat, kernel_str_join;
rush_status kernel_str_str(rush_call *call)
{
  text_buf t;
  text_init_call(&t, call->cx);
  rush_status st = value_print(call->cx, &t, call->args[0]);
  if (st == RUSH_OK)
    return return_text(call, &t);
  text_free(&t);
  return st;
}

/* Replace each "{}" in turn; anything else in braces is text. */
rush_status kernel_str_format(rush_call *call)
{
  str f = call_str(call, 0);
  text_buf t;
  rush_status st = RUSH_OK;
  size_t at = 0;
  text_init_call(&t, call->cx);
  for (uint32_t used = 1; st == RUSH_OK; used++) {
    size_t hole = find_from(call, f, STR("{}"), at);
    text_add(&t, f.p + at, (hole == NOT_FOUND ? f.len : hole) - at);
    if (hole == NOT_FOUND)
      break;
    at = hole + 2;
    st = used < call->n_args ? value_print(call->cx, &t, call->args[used])
                             : call_fail(call->cx, "Too few arguments for format string: %s", f.p);
  }
  if (st == RUSH_OK)
    return return_text(call, &t);
  text_free(&t);
  return st;
}

static const char *tag_kind(rush_value v)
{
  static const char *const names[] = {
    [RUSH_TAG_NONE] = "None",     [RUSH_TAG_TENSOR] = "Tensor",
    [RUSH_TAG_BOOL] = "Bool",     [RUSH_TAG_INT] = "Int",
    [RUSH_TAG_FLOAT] = "Double",  [RUSH_TAG_COMPLEX] = "ComplexDouble",
    [RUSH_TAG_STRING] = "String", [RUSH_TAG_LIST] = "GenericList",
    [RUSH_TAG_TUPLE] = "Tuple",   [RUSH_TAG_DICT] = "GenericDict",
    [RUSH_TAG_OBJECT] = "Object", [RUSH_TAG_ENUM] = "Enum",
    [RUSH_TAG_DEVICE] = "Device"};
  return v.tag < COUNT_OF(names) && names[v.tag] ? names[v.tag] : "Object";
}

/* Format one %k.  Floats go through single precision, `%d` of a float through int: PyTorch's
 * casts. */
static rush_status percent_one(rush_call *call, text_buf *t, char k, rush_value v)
{
  bool number = v.tag == RUSH_TAG_INT || v.tag == RUSH_TAG_FLOAT || v.tag == RUSH_TAG_BOOL;
  double d = v.tag == RUSH_TAG_FLOAT ? v.as.d : v.tag == RUSH_TAG_BOOL ? v.as.b : (double)v.as.i;
  switch (k) {
  case 'd':
  case 'i':
  case 'e':
  case 'E':
  case 'f':
  case 'F':
    if (!number)
      return call_fail(call->cx, "%%%c requires a number for formatting, but got %s", k,
                       tag_kind(v));
    if (k == 'd' || k == 'i')
      text_printf(t, "%lld",
                  v.tag == RUSH_TAG_INT       ? (long long)v.as.i
                  : d > -0x1p31 && d < 0x1p31 ? (long long)d
                                              : (long long)INT32_MIN);
    else
      text_printf(t, k == 'e' ? "%e" : k == 'E' ? "%E" : "%f", (double)(float)d);
    return RUSH_OK;
  case 'c':
    if (v.tag == RUSH_TAG_INT)
      text_putc(t, (char)v.as.i);
    else if (v.tag == RUSH_TAG_STRING && v.as.string->len == 1)
      text_putc(t, v.as.string->text[0]);
    else
      return call_fail(call->cx, "%%%c requires an int or char for formatting, but got %s", k,
                       tag_kind(v));
    return RUSH_OK;
  case 's':
    return value_print(call->cx, t, v);
  default:
    return call_fail(call->cx, "The specifier %%%c is not supported in TorchScript format strings",
                     k);
  }
}

static rush_status percent(rush_call *call, text_buf *t, str f, const rush_value *items, size_t n)
{
  size_t used = 0, at = 0;
  for (;;) {
    size_t p = find_from(call, f, STR("%"), at);
    text_add(t, f.p + at, (p == NOT_FOUND ? f.len : p) - at);
    if (p == NOT_FOUND)
      break;
    if (p + 1 >= f.len)
      return call_fail(call->cx, "Incomplete format specifier");
    at = p + 2;
    if (f.p[p + 1] == '%') {
      text_putc(t, '%');
      continue;
    }
    if (used >= n)
      return call_fail(call->cx, "Too few arguments for format string");
    TRY(percent_one(call, t, f.p[p + 1], items[used++]));
  }
  return used == n ? RUSH_OK : call_fail(call->cx, "Too many arguments for format string");
}

rush_status kernel_str_percentFormat(rush_call *call)
{
  rush_value v = call->n_args > 1 ? call->args[1] : value_none();
  bool tuple = v.tag == RUSH_TAG_TUPLE;
  text_buf t;
  text_init_call(&t, call->cx);
  rush_status st = percent(call, &t, call_str(call, 0), tuple ? v.as.tuple->items : &v,
                           tuple ? v.as.tuple->n : call->n_args > 1);
  if (st == RUSH_OK)
    return return_text(call, &t);
  text_free(&t);
  return st;
}

rush_status kernel_str_join(rush_call *call)
{
  str s = call_str(call, 0);
  const rush_list *l = call_list(call, 1);
  text_buf t;
  text_init_call(&t, call->cx);
  for (size_t i = 0; i < l->n && !call_over_at(call->cx, (int64_t)i) && !text_failed(&t); i++) {
    if (i)
      text_add(&t, s.p, s.len);
    str item = value_str(l->items[i]);
    text_add(&t, item.p, item.len);
  }
  return return_text(call, &t);
}

/* -- Cutting ----------------------------------------------------------------------------------- */

rush_kernel kernel_str_replace, kernel_str_split, kernel_str_rsplit, kernel_str_splitlines,
    kernel_str_partition, kernel_str_rpartition;

/* Insert before every byte if `old` is empty, from the left, `max` times in one position as in
 * PyTorch; without `max` (where PyTorch does not terminate) as in Python. */
rush_status kernel_str_replace(rush_call *call)
{
  str s = call_str(call, 0), old = call_str(call, 1), new = call_str(call, 2);
  int64_t max = call_int(call, 3), done = 0;
  text_buf t;
  size_t at = 0;
  text_init_call(&t, call->cx);
  for (; max < 0 || done < max; done++) {
    size_t p = find_from(call, s, old, at);
    if (p == NOT_FOUND)
      break;
    text_add(&t, s.p + at, p - at);
    text_add(&t, new.p, new.len);
    at = p + old.len;
    if (old.len == 0 && max < 0) {
      if (at == s.len)
        break;
      text_putc(&t, s.p[at++]);
    }
    if (text_failed(&t) || call_over_at(call->cx, done))
      break;
  }
  text_add(&t, s.p + at, s.len - at);
  return return_text(call, &t);
}

static rush_status split_at_space(rush_call *call, str s, rush_list *l)
{
  for (size_t i = 0; i < s.len;) {
    size_t start = i;
    TRY(call_poll_at(call->cx, (int64_t)l->n));
    while (i < s.len && !is_space(s.p[i]) && !call_over_at(call->cx, (int64_t)i))
      i++;
    if (i > start)
      TRY(append_str(call, l, part(s, start, i - start)));
    i += i < s.len;
  }
  return RUSH_OK;
}

rush_status kernel_str_split(rush_call *call)
{
  str s = call_str(call, 0);
  int64_t max = call_int(call, 2);
  rush_list *l;
  if (!call_is_none(call, 1) && call_str(call, 1).len == 0)
    return call_fail(call->cx, "ValueError: empty separator");
  TRY(strings_new(call, &l));
  if (call_is_none(call, 1)) /* `max` is not looked at */
    return return_list(call, l, split_at_space(call, s, l));
  str sep = call_str(call, 1);
  rush_status st = RUSH_OK;
  size_t at = 0, p;
  for (int64_t n = 0; st == RUSH_OK && (max < 0 || n < max); n++) {
    p = find_from(call, s, sep, at);
    if (p == NOT_FOUND || call_over_at(call->cx, n))
      break;
    st = append_str(call, l, part(s, at, p - at));
    at = p + sep.len;
  }
  if (st == RUSH_OK)
    st = append_str(call, l, part(s, at, s.len - at));
  return return_list(call, l, st);
}

static void reverse_items(rush_list *l)
{
  for (size_t i = 0, j = l->n; i + 1 < j; i++) {
    rush_value v = l->items[--j];
    l->items[j] = l->items[i];
    l->items[i] = v;
  }
}

rush_status kernel_str_rsplit(rush_call *call)
{
  str s = call_str(call, 0), sep = call_str(call, 1);
  int64_t max = call_int(call, 2);
  rush_list *l;
  if (sep.len == 0 && max < 0) /* PyTorch never ends */
    return call_fail(call->cx, "ValueError: empty separator");
  TRY(strings_new(call, &l));
  rush_status st = RUSH_OK;
  for (int64_t n = 0; st == RUSH_OK && (max < 0 || n < max); n++) {
    size_t p = find_last(call, s, sep);
    if (p == NOT_FOUND || call_over_at(call->cx, n))
      break;
    st = append_str(call, l, part(s, p + sep.len, s.len - p - sep.len));
    s.len = p;
  }
  if (st == RUSH_OK)
    st = append_str(call, l, s);
  if (st == RUSH_OK)
    reverse_items(l);
  return return_list(call, l, st);
}

/* True for bytes that end lines: PyTorch lists Unicode's line ends, but searches for their single
 * bytes. */
static bool ends_line(char c)
{
  static const char ends[] = "\n\r\v\f\x1c\x1d\x1e\xc2\x85\xe2\x80\xa8\xa9";
  return c != '\0' && strchr(ends, c) != NULL;
}

rush_status kernel_str_splitlines(rush_call *call)
{
  str s = call_str(call, 0);
  bool keep = call_bool(call, 1);
  rush_list *l;
  TRY(strings_new(call, &l));
  rush_status st = RUSH_OK;
  size_t at = 0;
  for (size_t i = 0; st == RUSH_OK && i < s.len; i++) {
    if (call_over_at(call->cx, (int64_t)i))
      break;
    if (!ends_line(s.p[i]))
      continue;
    st = append_str(call, l, part(s, at, i - at));
    if (st == RUSH_OK && keep)
      st = append_str(call, l, part(s, i, 1));
    at = i + 1;
  }
  if (st == RUSH_OK && at != s.len)
    st = append_str(call, l, part(s, at, s.len - at));
  return return_list(call, l, st);
}

static rush_status partition(rush_call *call, size_t p, size_t sep_len, bool whole_last)
{
  str s = call_str(call, 0);
  str parts[3] = {part(s, 0, 0), part(s, 0, 0), part(s, 0, 0)};
  if (p != NOT_FOUND) {
    parts[0] = part(s, 0, p);
    parts[1] = part(s, p, sep_len);
    parts[2] = part(s, p + sep_len, s.len - p - sep_len);
  } else {
    parts[whole_last ? 2 : 0] = s;
  }
  for (uint32_t i = 0; i < 3; i++)
    TRY(return_str(call, i, parts[i])); /* op_call drops the earlier results */
  return RUSH_OK;
}

rush_status kernel_str_partition(rush_call *call)
{
  str sep = call_str(call, 1);
  return partition(call, find_from(call, call_str(call, 0), sep, 0), sep.len, false);
}

rush_status kernel_str_rpartition(rush_call *call)
{
  str sep = call_str(call, 1);
  return partition(call, find_last(call, call_str(call, 0), sep), sep.len, true);
}

static rush_status strip(rush_call *call, bool left, bool right)
{
  str s = call_str(call, 0), chars = call_str(call, 1);
  while (left && s.len && chars.len && memchr(chars.p, s.p[0], chars.len))
    s = part(s, 1, s.len - 1);
  while (right && s.len && chars.len && memchr(chars.p, s.p[s.len - 1], chars.len))
    s.len--;
  return return_str(call, 0, s);
}

rush_kernel kernel_str_strip, kernel_str_lstrip, kernel_str_rstrip;
rush_status kernel_str_strip(rush_call *call) { return strip(call, true, true); }
rush_status kernel_str_lstrip(rush_call *call) { return strip(call, true, false); }
rush_status kernel_str_rstrip(rush_call *call) { return strip(call, false, true); }

/* -- Padding ----------------------------------------------------------------------------------- */

static rush_status padded(rush_call *call, size_t left, size_t right, char fill)
{
  str s = call_str(call, 0);
  text_buf t;
  text_init_call(&t, call->cx);
  for (size_t i = 0; i < left && !text_failed(&t) && !call_over_at(call->cx, (int64_t)i); i++)
    text_putc(&t, fill);
  text_add(&t, s.p, s.len);
  for (size_t i = 0; i < right && !text_failed(&t) && !call_over_at(call->cx, (int64_t)i); i++)
    text_putc(&t, fill);
  return return_text(call, &t);
}

/* Compute how many bytes are missing to `width`. */
static rush_status padding(rush_call *call, size_t *n)
{
  str s = call_str(call, 0);
  int64_t width = call_int(call, 1);
  if (call->n_args > 2 && call_str(call, 2).len != 1)
    return call_fail(call->cx, "TypeError: The fill character must be exactly one character long");
  *n = width > (int64_t)s.len ? (size_t)width - s.len : 0;
  return RUSH_OK;
}

rush_kernel kernel_str_center, kernel_str_ljust, kernel_str_rjust, kernel_str_zfill,
  kernel_str_expandtabs;
rush_status kernel_str_center(rush_call *call)
{
  size_t n, odd;
  TRY(padding(call, &n));
  odd = call_int(call, 1) & 1; /* of an odd rest the left side gets more when the width is odd */
  return padded(call, odd ? (n + 1) / 2 : n / 2, odd ? n / 2 : (n + 1) / 2, call_str(call, 2).p[0]);
}

rush_status kernel_str_ljust(rush_call *call)
{
  size_t n;
  TRY(padding(call, &n));
  return padded(call, 0, n, call_str(call, 2).p[0]);
}

rush_status kernel_str_rjust(rush_call *call)
{
  size_t n;
  TRY(padding(call, &n));
  return padded(call, n, 0, call_str(call, 2).p[0]);
}

rush_status kernel_str_zfill(rush_call *call)
{
  size_t n;
  TRY(padding(call, &n));
  return padded(call, n, 0, '0');
}

rush_status kernel_str_expandtabs(rush_call *call)
{
  str s = call_str(call, 0);
  int64_t tab = call_int(call, 1), column = 0;
  text_buf t;
  text_init_call(&t, call->cx);
  for (size_t i = 0; i < s.len && !call_over_at(call->cx, (int64_t)i); i++) {
    if (s.p[i] != '\t') {
      text_putc(&t, s.p[i]);
      column++;
      continue;
    }
    if (tab <= 0)
      continue;
    do {
      text_putc(&t, ' ');
      column++;
    } while (column % tab != 0 && !text_failed(&t) && !call_over_at(call->cx, column));
  }
  return return_text(call, &t);
}

/* -- Case -------------------------------------------------------------------------------------- */

typedef enum casing { UPPER, LOWER, SWAP, CAPITALIZE, TITLE } casing;

static rush_status recase(rush_call *call, casing how)
{
  str s = call_str(call, 0);
  rush_value v;
  TRY(string_new(call->cx, s.p, s.len, &v));
  char *p = v.as.string->text;
  bool in_word = false;
  for (size_t i = 0; i < s.len && !call_over_at(call->cx, (int64_t)i); i++) {
    bool up = how == UPPER || (how == SWAP && is_lower(p[i])) || (how == CAPITALIZE && i == 0) ||
              (how == TITLE && !in_word);
    in_word = is_alpha(p[i]);
    p[i] = up ? to_upper(p[i]) : to_lower(p[i]);
  }
  call->results[0] = v;
  return RUSH_OK;
}

rush_kernel kernel_str_upper, kernel_str_lower, kernel_str_swapcase, kernel_str_capitalize,
  kernel_str_title;
rush_status kernel_str_upper(rush_call *call) { return recase(call, UPPER); }
rush_status kernel_str_lower(rush_call *call) { return recase(call, LOWER); }
rush_status kernel_str_swapcase(rush_call *call) { return recase(call, SWAP); }
rush_status kernel_str_capitalize(rush_call *call) { return recase(call, CAPITALIZE); }
rush_status kernel_str_title(rush_call *call) { return recase(call, TITLE); }

/* -- Numbers and letters ----------------------------------------------------------------------- */

rush_kernel kernel_str_chr, kernel_str_ord, kernel_str_hex, kernel_str_oct, kernel_str_bin;
rush_status kernel_str_chr(rush_call *call)
{
  int64_t i = call_int(call, 0);
  if (i < 0 || i >= 1114112)
    return call_fail(call->cx, "chr() arg not in range(0x110000), found %lld", (long long)i);
  char c = (char)i; /* one byte, whatever i is */
  return string_new(call->cx, &c, 1, &call->results[0]);
}

rush_status kernel_str_ord(rush_call *call)
{
  str s = call_str(call, 0);
  if (s.len != 1)
    return call_fail(call->cx, "String for ord() must be 1 character, found %zu", s.len);
  RETURN_INT((unsigned char)s.p[0]);
}

static rush_status in_base(rush_call *call, const char *prefix, unsigned shift)
{
  int64_t i = call_int(call, 0);
  uint64_t u = (uint64_t)i64_abs(i);
  char buf[80], *p = buf + sizeof buf;
  do {
    *--p = "0123456789abcdef"[u & ((1u << shift) - 1)];
    u >>= shift;
  } while (u);
  *--p = prefix[1];
  *--p = prefix[0];
  if (i < 0)
    *--p = '-';
  return string_new(call->cx, p, (size_t)(buf + sizeof buf - p), &call->results[0]);
}

rush_status kernel_str_hex(rush_call *call) { return in_base(call, "0x", 4); }
rush_status kernel_str_oct(rush_call *call) { return in_base(call, "0o", 3); }
rush_status kernel_str_bin(rush_call *call) { return in_base(call, "0b", 1); }

/* -- Searching --------------------------------------------------------------------------------- */

/* Compute the window s[start:end] with PyTorch's end: -1 is the whole string. */
static rush_status window(rush_call *call, bool empty_when_crossed, str *out, int64_t *start_out)
{
  str s = call_str(call, 0);
  int64_t n = (int64_t)s.len, start = call_int(call, 2), end = call_int(call, 3);
  if (start < 0)
    start = i64_max(0, n + start);
  if (end < 0)
    end = i64_max(0, n + end + 1);
  *start_out = start;
  *out = part(s, 0, 0);
  if (empty_when_crossed && end <= start)
    return RUSH_OK;
  if (start > n)
    return call_fail_type(
      call->cx, "IndexError",
      "basic_string::substr: __pos (which is %lld) > this->size() (which is %lld)",
      (long long)start, (long long)n);
  /* end < start is a huge length to C++ */
  int64_t len = end < start ? n - start : i64_min(end - start, n - start);
  *out = part(s, (size_t)start, (size_t)len);
  return RUSH_OK;
}

static rush_status find_place(rush_call *call, bool last, int64_t *out)
{
  str s, what = call_str(call, 1);
  int64_t start;
  TRY(window(call, true, &s, &start));
  size_t p = last ? find_last(call, s, what) : find_from(call, s, what, 0);
  *out = p == NOT_FOUND ? -1 : (int64_t)p + start;
  return RUSH_OK;
}

static rush_status need_place(rush_call *call, bool last)
{
  int64_t p;
  TRY(find_place(call, last, &p));
  if (p < 0)
    return call_fail(call->cx, "ValueError: substring not found");
  RETURN_INT(p);
}

rush_kernel kernel_str_find, kernel_str_rfind, kernel_str_index, kernel_str_rindex,
  kernel_str_count, kernel_str_startswith, kernel_str_endswith;
rush_status kernel_str_find(rush_call *call)
{
  int64_t p;
  TRY(find_place(call, false, &p));
  RETURN_INT(p);
}

rush_status kernel_str_rfind(rush_call *call)
{
  int64_t p;
  TRY(find_place(call, true, &p));
  RETURN_INT(p);
}

rush_status kernel_str_index(rush_call *call) { return need_place(call, false); }
rush_status kernel_str_rindex(rush_call *call) { return need_place(call, true); }

/* Count occurrences that begin in [start, end). An empty one (where PyTorch does not terminate)
 * counts at every position. */
rush_status kernel_str_count(rush_call *call)
{
  str s = call_str(call, 0), what = call_str(call, 1);
  int64_t size = (int64_t)s.len, start = call_int(call, 2), end = call_int(call, 3), n = 0;
  if (start > size)
    RETURN_INT(0);
  if (start < 0)
    start = i64_max(0, size + start);
  if (end < 0)
    end = i64_max(0, size + end + 1);
  for (size_t p = (size_t)start; (p = find_from(call, s, what, p)) != NOT_FOUND && (int64_t)p < end;
       n++) {
    p += what.len ? what.len : 1;
    TRY(call_poll_at(call->cx, n));
  }
  RETURN_INT(n);
}

rush_status kernel_str_startswith(rush_call *call)
{
  str s, what = call_str(call, 1);
  int64_t start;
  TRY(window(call, false, &s, &start));
  RETURN_BOOL(s.len >= what.len && memcmp(s.p, what.p, what.len) == 0);
}

rush_status kernel_str_endswith(rush_call *call)
{
  str s, what = call_str(call, 1);
  int64_t start;
  TRY(window(call, false, &s, &start));
  RETURN_BOOL(s.len >= what.len && memcmp(s.p + s.len - what.len, what.p, what.len) == 0);
}

/* -- Tests of strings -------------------------------------------------------------------------- */

static bool all_are(const rush_call *call, str s, bool (*test)(char))
{
  for (size_t i = 0; i < s.len && !call_over_at(call->cx, (int64_t)i); i++)
    if (!test(s.p[i]))
      return false;
  return true;
}

/* True if there is at least one letter, and no letter of the other case. */
static bool has_case(const rush_call *call, str s, bool (*other)(char))
{
  bool letter = false;
  for (size_t i = 0; i < s.len && !call_over_at(call->cx, (int64_t)i); i++) {
    letter |= is_alpha(s.p[i]);
    if (other(s.p[i]))
      return false;
  }
  return letter;
}

#define IS(name, cond)                                       \
  rush_kernel kernel_str_##name;                             \
  rush_status kernel_str_##name(rush_call *call)             \
  {                                                          \
    str s = call_str(call, 0);                               \
    RETURN_BOOL(cond);                                       \
  }
IS(isspace, s.len > 0 && all_are(call, s, is_space))
IS(isalpha, s.len > 0 && all_are(call, s, is_alpha))
IS(isdigit, s.len > 0 && all_are(call, s, is_digit))
IS(isalnum, s.len > 0 && all_are(call, s, is_alnum))
IS(isprintable, all_are(call, s, is_printable))
IS(isupper, has_case(call, s, is_lower))
IS(islower, has_case(call, s, is_upper))
IS(isidentifier, s.len > 0 && !is_digit(s.p[0]) && all_are(call, s, is_alnum))

rush_kernel kernel_str_istitle;
rush_status kernel_str_istitle(rush_call *call)
{
  str s = call_str(call, 0);
  bool in_word = false, any = false, ok = true;
  for (size_t i = 0; i < s.len && !call_over_at(call->cx, (int64_t)i); i++) {
    ok = ok && (in_word ? !is_upper(s.p[i]) : !is_lower(s.p[i]));
    in_word = is_alpha(s.p[i]);
    any |= in_word;
  }
  RETURN_BOOL(ok && any);
}
