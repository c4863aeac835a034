#include "support/oom.h"

#include "formats/pickle.h"
#include "formats/pickle_write.h"

/* [None, True, False, 0, 255, 65535, -1, 2**31, -2**63, 2**63 - 1, 1.5, 'a\xe9', b'\0\xff', (),
 * (1,), (1, 2),  (1, 2, 3), (1, 2, 3, 4), {'k': [1, 2]}, {}, 2+3j, shared, shared,
 * OrderedDict(a=1), b''] with  shared = [1], by Python 3.11's pickle.dumps in protocols 0 to 5. */
static const struct {
  const char *bytes;
  size_t n_bytes;
} plain[] = {
    {"(lp0\012NaI01\012aI00\012aI0\012aI255\012aI65535\012aI-1\012aL2147483648L\012aL-92233720"
     "36854775808L\012aL9223372036854775807L\012aF1.5\012aVa\351\012p1\012ac_codecs\012encode"
     "\012p2\012(V\\u0000\377\012p3\012Vlatin1\012p4\012tp5\012Rp6\012a(ta(I1\012tp7\012a(I1"
     "\012I2\012tp8\012a(I1\012I2\012I3\012tp9\012a(I1\012I2\012I3\012I4\012tp10\012a(dp11\012"
     "Vk\012p12\012(lp13\012I1\012aI2\012asa(dp14\012ac__builtin__\012complex\012p15\012(F2.0"
     "\012F3.0\012tp16\012Rp17\012a(lp18\012I1\012aag18\012accollections\012OrderedDict\012p19"
     "\012(tRp20\012Va\012p21\012I1\012sac__builtin__\012bytes\012p22\012(tRp23\012a.",
     404},
    {"]q\000(NI01\012I00\012K\000K\377M\377\377J\377\377\377\377L2147483648L\012L-922337203685"
     "4775808L\012L9223372036854775807L\012G\077\370\000\000\000\000\000\000X\003\000\000\000a"
     "\303\251q\001c_codecs\012encode\012q\002(X\003\000\000\000\000\303\277q\003X\006\000\000"
     "\000latin1q\004tq\005Rq\006)(K\001tq\007(K\001K\002tq\010(K\001K\002K\003tq\011(K\001K"
     "\002K\003K\004tq\012}q\013X\001\000\000\000kq\014]q\015(K\001K\002es}q\016c__builtin__"
     "\012complex\012q\017(G@\000\000\000\000\000\000\000G@\010\000\000\000\000\000\000tq\020R"
     "q\021]q\022K\001ah\022ccollections\012OrderedDict\012q\023)Rq\024X\001\000\000\000aq\025"
     "K\001sc__builtin__\012bytes\012q\026)Rq\027e.",
     336},
    {"\200\002]q\000(N\210\211K\000K\377M\377\377J\377\377\377\377\212\005\000\000\000\200\000"
     "\212\010\000\000\000\000\000\000\000\200\212\010\377\377\377\377\377\377\377\177G\077"
     "\370\000\000\000\000\000\000X\003\000\000\000a\303\251q\001c_codecs\012encode\012q\002X"
     "\003\000\000\000\000\303\277q\003X\006\000\000\000latin1q\004\206q\005Rq\006)K\001\205q"
     "\007K\001K\002\206q\010K\001K\002K\003\207q\011(K\001K\002K\003K\004tq\012}q\013X\001"
     "\000\000\000kq\014]q\015(K\001K\002es}q\016c__builtin__\012complex\012q\017G@\000\000"
     "\000\000\000\000\000G@\010\000\000\000\000\000\000\206q\020Rq\021]q\022K\001ah\022ccolle"
     "ctions\012OrderedDict\012q\023)Rq\024X\001\000\000\000aq\025K\001sc__builtin__\012bytes"
     "\012q\026)Rq\027e.",
     296},
    {"\200\003]q\000(N\210\211K\000K\377M\377\377J\377\377\377\377\212\005\000\000\000\200\000"
     "\212\010\000\000\000\000\000\000\000\200\212\010\377\377\377\377\377\377\377\177G\077"
     "\370\000\000\000\000\000\000X\003\000\000\000a\303\251q\001C\002\000\377q\002)K\001\205q"
     "\003K\001K\002\206q\004K\001K\002K\003\207q\005(K\001K\002K\003K\004tq\006}q\007X\001"
     "\000\000\000kq\010]q\011(K\001K\002es}q\012cbuiltins\012complex\012q\013G@\000\000\000"
     "\000\000\000\000G@\010\000\000\000\000\000\000\206q\014Rq\015]q\016K\001ah\016ccollectio"
     "ns\012OrderedDict\012q\017)Rq\020X\001\000\000\000aq\021K\001sC\000q\022e.",
     231},
    {"\200\004\225\321\000\000\000\000\000\000\000]\224(N\210\211K\000K\377M\377\377J\377\377"
     "\377\377\212\005\000\000\000\200\000\212\010\000\000\000\000\000\000\000\200\212\010\377"
     "\377\377\377\377\377\377\177G\077\370\000\000\000\000\000\000\214\003a\303\251\224C\002"
     "\000\377\224)K\001\205\224K\001K\002\206\224K\001K\002K\003\207\224(K\001K\002K\003K\004"
     "t\224}\224\214\001k\224]\224(K\001K\002es}\224\214\010builtins\224\214\007complex\224"
     "\223\224G@\000\000\000\000\000\000\000G@\010\000\000\000\000\000\000\206\224R\224]\224K"
     "\001ah\020\214\013collections\224\214\013OrderedDict\224\223\224)R\224\214\001a\224K\001"
     "sC\000\224e.",
     220},
    {"\200\005\225\321\000\000\000\000\000\000\000]\224(N\210\211K\000K\377M\377\377J\377\377"
     "\377\377\212\005\000\000\000\200\000\212\010\000\000\000\000\000\000\000\200\212\010\377"
     "\377\377\377\377\377\377\177G\077\370\000\000\000\000\000\000\214\003a\303\251\224C\002"
     "\000\377\224)K\001\205\224K\001K\002\206\224K\001K\002K\003\207\224(K\001K\002K\003K\004"
     "t\224}\224\214\001k\224]\224(K\001K\002es}\224\214\010builtins\224\214\007complex\224"
     "\223\224G@\000\000\000\000\000\000\000G@\010\000\000\000\000\000\000\206\224R\224]\224K"
     "\001ah\020\214\013collections\224\214\013OrderedDict\224\223\224)R\224\214\001a\224K\001"
     "sC\000\224e.",
     220},
};
static const char plain_text[] =
    "[None,True,False,0,255,65535,-1,2147483648,-9223372036854775808,9223372036854775807,1.5,"
    "'a\xc3\xa9',b2,(),(1,),(1,2,),(1,2,3,),(1,2,3,4,),{'k':[1,2,],},{},2+3j,[1,],same,"
    "collections.OrderedDict()<'a':1,>,b0,]";

typedef struct dumper {
  session *s;
  const pickle *p;
  text_buf *out;
  bool *met; /* by id */
} dumper;

static void dump(dumper *d, const pickle_node *n);

static void dump_seq(dumper *d, const char *open, const pickle_seq *q, bool pairs,
                     const char *close)
{
  text_puts(d->out, open);
  for (uint32_t i = 0; i < q->n; i++) {
    dump(d, q->at[i]);
    text_putc(d->out, pairs && i % 2 == 0 ? ':' : ',');
  }
  text_puts(d->out, close);
}

static void dump_object(dumper *d, const pickle_node *n)
{
  const pickle_object *o = n->as.object;
  dump(d, o->callable);
  text_puts(d->out, n->kind == PICKLE_OBJECT ? ".new" : "");
  dump(d, o->args);
  if (o->kwargs)
    dump(d, o->kwargs);
  if (o->state) {
    text_puts(d->out, " state ");
    dump(d, o->state);
  }
  if (o->items.n)
    dump_seq(d, "<", &o->items, false, ">");
  if (o->pairs.n)
    dump_seq(d, "<", &o->pairs, true, ">");
}

static void dump(dumper *d, const pickle_node *n)
{
  text_buf *t = d->out;
  assert_true(n->id < d->p->n_nodes);
  bool container = n->kind == PICKLE_LIST || n->kind == PICKLE_DICT || n->kind == PICKLE_OBJECT;
  if (container && d->met[n->id]) {
    text_puts(t, "same");
    return;
  }
  d->met[n->id] = true;
  session_enter(d->s);
  switch ((pickle_kind)n->kind) {
  case PICKLE_NONE: text_puts(t, "None"); break;
  case PICKLE_BOOL: text_puts(t, n->as.b ? "True" : "False"); break;
  case PICKLE_INT: text_printf(t, "%lld", (long long)n->as.i); break;
  case PICKLE_LONG: text_printf(t, "long%zu", n->as.text.len); break;
  case PICKLE_FLOAT: text_printf(t, "%g", n->as.d); break;
  case PICKLE_COMPLEX: text_printf(t, "%g+%gj", n->as.z.re, n->as.z.im); break;
  case PICKLE_STR: text_printf(t, "'%.*s'", (int)n->as.text.len, n->as.text.p); break;
  case PICKLE_BYTES: text_printf(t, "b%zu", n->as.text.len); break;
  case PICKLE_LIST: dump_seq(d, "[", &n->as.seq, false, "]"); break;
  case PICKLE_TUPLE: dump_seq(d, "(", &n->as.seq, false, ")"); break;
  case PICKLE_DICT: dump_seq(d, "{", &n->as.seq, true, "}"); break;
  case PICKLE_GLOBAL:
    text_printf(t, "%.*s.%.*s", (int)n->as.global.module.len, n->as.global.module.p,
                (int)n->as.global.name.len, n->as.global.name.p);
    break;
  case PICKLE_REDUCE:
  case PICKLE_OBJECT: dump_object(d, n); break;
  case PICKLE_PERSID:
    text_puts(t, "persid ");
    dump(d, n->as.persid);
    break;
  }
  session_leave(d->s);
}

typedef struct job {
  str bytes;
  text_buf out;
} job;

static void read_body(session *s, void *arg)
{
  job *j = arg;
  input in = {"t.pkl", j->bytes};
  pickle *p = pickle_read_all(s, &in);
  dumper d = {s, p, &j->out, session_array(s, bool, p->n_nodes)};
  dump(&d, p->root);
}

static rush_status read_bytes(context *c, const char *data, size_t len, char *result, size_t cap)
{
  rush_error err = RUSH_ERROR_INIT;
  call_ctx cx;
  job j = {.bytes = {data, len}};
  call_ctx_init(&cx, c, &err);
  text_init(&j.out, c);
  rush_status st = session_run(&cx, read_body, &j);
  snprintf(result, cap, "%s", st ? err.message : text_str(&j.out));
  text_free(&j.out);
  rush_error_clear(&err);
  return st;
}

static void all_protocols_give_the_same_tree(void **state)
{
  context *c = test_context(NULL);
  char got[1024];
  (void)state;
  for (size_t i = 0; i < COUNT_OF(plain); i++) {
    assert_int_equal(read_bytes(c, plain[i].bytes, plain[i].n_bytes, got, sizeof got), RUSH_OK);
    assert_string_equal(got, plain_text);
  }
  test_context_done(c);
}

#define ROW_STR(bytes) {bytes, sizeof(bytes) - 1}
#define ROW(bytes, text) {{bytes, sizeof(bytes) - 1}, text}

static void objects_stay_data(void **state)
{
  static const struct {
    str bytes;
    const char *text;
  } rows[] = {
    /* in TorchScript's form for modules, storages and enums */
    ROW("\x80\2c__torch__.m\nShared\nq\0)\x81}(X\1\0\0\0aK\1ub.",
        "__torch__.m.Shared.new() state {'a':1,}"),
    ROW("\x80\2(X\7\0\0\0storagectorch\nFloatStorage\nX\1\0\0\0"
        "0K\2tQ.",
        "persid ('storage',torch.FloatStorage,'0',2,)"),
    ROW("\x80\2c__torch__.m\nColor\nX\3\0\0\0redR.", "__torch__.m.Color'red'"),
    /* executing this would be dangerous */
    ROW("cos\nsystem\n(S'echo'\ntR.", "os.system('echo',)"),
    ROW("\x80\4\x8c\1m\x94\x8c\1C\x94\x93\x94)}\x8c\1k\x94K\1s\x92\x94.", "m.C.new(){'k':1,}"),
    ROW("\x80\4\x8f\x94(K\1K\2\x90.", "builtins.set()<1,2,>"),
    ROW("\x80\4(K\1K\2\x91\x94.", "builtins.frozenset([1,2,],)"),
    ROW("\x80\2]q\0h\0a.", "[same,]"),
    ROW("\x80\2\x8a\x0al\xfc\x9c\x46\xf9\x20\x6a\xa8\x50\x19.", "long10"),
    ROW("\x80\2\x8a\x09\1\0\0\0\0\0\0\0\0.", "1"),
    ROW("\x80\2\x8a\0.", "0"),
    ROW("S'a\\x41\\n\\\\'\np0\n.", "'aA\n\\'"),
    ROW("V\\u00e9\\U0001F600\n.", "'\xc3\xa9\xf0\x9f\x98\x80'"),
    ROW("N(0.", "None"), /* POP may remove a mark */
    ROW("Pname\n.", "persid 'name'"),
  };
  context *c = test_context(NULL);
  char got[1024];
  (void)state;
  for (size_t i = 0; i < COUNT_OF(rows); i++) {
    read_bytes(c, rows[i].bytes.p, rows[i].bytes.len, got, sizeof got);
    assert_string_equal(got, rows[i].text);
  }
  test_context_done(c);
}

static void bad_pickles_are_refused_by_name(void **state)
{
  static const struct {
    str bytes;
    const char *text;
  } rows[] = {
    ROW("", "t.pkl: offset 0: a pickle was expected at the end of the data"),
    ROW("\x80\6N.", "t.pkl: offset 0: pickle protocol 6; the newest that is read is 5"),
    ROW("N", "t.pkl: offset 1: the pickle is cut short"),
    ROW("N.N", "t.pkl: offset 2: 1 bytes after the end of the pickle"),
    ROW("NN.", "t.pkl: offset 2: STOP with 2 objects and 0 marks on the stack"),
    ROW("(N.", "t.pkl: offset 2: STOP with 1 objects and 1 marks on the stack"),
    ROW("Nt.", "t.pkl: offset 1: no mark on the stack"),
    ROW("N(R.", "t.pkl: offset 2: the stack is empty"),
    ROW("h\0.", "t.pkl: offset 0: memo 0 was never put"),
    ROW("j\xff\xff\xff\xff.", "t.pkl: offset 0: memo 4294967295 was never put"),
    ROW("g-1\n.", "t.pkl: offset 0: negative memo index"),
    ROW("Np99999999999999999999\n.", "t.pkl: offset 1: an integer beyond 64 bits as text"),
    ROW("Nr\xff\xff\xff\x7f.", "t.pkl: offset 1: memo index 2147483647 in a pickle of 7 bytes"),
    ROW("X\xff\xff\xff\xff"
        "abc.",
        "t.pkl: offset 0: the pickle is cut short"),
    ROW("\x8d\xff\xff\xff\xff\xff\xff\xff\xff"
        "a.",
        "t.pkl: offset 0: the pickle is cut short"),
    ROW("\x82\1.", "t.pkl: offset 0: pickle opcode 0x82 (the extension registry) is not supported"),
    ROW("\x97.", "t.pkl: offset 0: pickle opcode 0x97 (out-of-band buffers) is not supported"),
    ROW("\xff.", "t.pkl: offset 0: 0xff is no pickle opcode"),
    ROW("NNb.", "t.pkl: offset 2: state given to a None"),
    ROW("}(Nu.", "t.pkl: offset 3: a key without a value"),
    ROW(")Na.", "t.pkl: offset 2: items added to a tuple"),
    ROW("F1.5x\n.", "t.pkl: offset 0: malformed float"),
    ROW("I9223372036854775808\n.", "t.pkl: offset 0: an integer beyond 64 bits as text"),
  };
  context *c = test_context(NULL);
  char got[1024];
  (void)state;
  for (size_t i = 0; i < COUNT_OF(rows); i++) {
    rush_status st = read_bytes(c, rows[i].bytes.p, rows[i].bytes.len, got, sizeof got);
    assert_int_equal(st, RUSH_EFORMAT);
    assert_string_equal(got, rows[i].text);
  }
  test_context_done(c);
}

static void damaged_pickles_end_in_a_status(void **state)
{
  context *c = test_context(&(context_options){.limit_bytes = 16 << 20});
  char got[1024], copy[512];
  (void)state;
  for (size_t i = 0; i < COUNT_OF(plain); i++) {
    size_t n = plain[i].n_bytes;
    for (size_t cut = 0; cut < n; cut++)
      assert_int_equal(read_bytes(c, plain[i].bytes, cut, got, sizeof got), RUSH_EFORMAT);
    memcpy(copy, plain[i].bytes, n);
    for (size_t bit = 0; bit < 8 * n; bit++) {
      copy[bit / 8] = (char)(copy[bit / 8] ^ 1 << bit % 8);
      rush_status st = read_bytes(c, copy, n, got, sizeof got);
      assert_true(st == RUSH_OK || st == RUSH_EFORMAT);
      copy[bit / 8] = (char)(copy[bit / 8] ^ 1 << bit % 8);
    }
  }
  test_context_done(c);
}

/* Run every opcode on every state of the stack that one to three others can leave, with arguments
 * of zeros, ones or text: the result is a tree, or an error with its position. */
static void every_opcode_minds_its_stack(void **state)
{
  static const str states[] = {
    ROW_STR(""),
    ROW_STR("("),
    ROW_STR("N"),
    ROW_STR("(N"),
    ROW_STR("N("),
    ROW_STR("]"),
    ROW_STR("}"),
    ROW_STR(")"),
    ROW_STR("]("),
    ROW_STR("}("),
    ROW_STR("]N"),
    ROW_STR("}N"),
    ROW_STR("}NN"),
    ROW_STR("]NN"),
    ROW_STR("](N"),
    ROW_STR("}(N"),
    ROW_STR("}(NN"),
    ROW_STR("K\1K\2"),
    ROW_STR("K\1K\2K\3"),
    ROW_STR("cm\nn\n"),
    ROW_STR("cm\nn\n)"),
    ROW_STR("cm\nn\nN"),
    ROW_STR("N)"),
    ROW_STR("cm\nn\n)}"),
    ROW_STR("cm\nn\n)\x81"),
    ROW_STR("cm\nn\n)RN"),
    ROW_STR("cm\nn\n)\x81NN"),
    ROW_STR("cm\nn\n)\x81(NN"),
    ROW_STR("U\1mU\1n"),
    ROW_STR("(((("),
    ROW_STR("Nq\0"),
    ROW_STR("\x8f(K\1"),
  };
  static const str arguments[] = {ROW_STR(""),
                                  ROW_STR("\0\0\0\0\0\0\0\0"),
                                  ROW_STR("\1\0\0\0\0\0\0\0a"),
                                  ROW_STR("\xff\xff\xff\xff\xff\xff\xff\xff"),
                                  ROW_STR("0\n1\n"),
                                  ROW_STR("'a'\n")};
  context *c = test_context(&(context_options){.limit_bytes = 16 << 20});
  char got[1024], bytes[64];
  size_t n_read = 0, n_refused = 0;
  (void)state;
  for (int op = 0; op < 256; op++)
    for (size_t i = 0; i < COUNT_OF(states); i++)
      for (size_t k = 0; k < COUNT_OF(arguments); k++)
        for (int end = 0; end < 2; end++) { /* with and without STOP */
          size_t n = 0;
          memcpy(bytes, states[i].p, states[i].len);
          n += states[i].len;
          bytes[n++] = (char)op;
          memcpy(bytes + n, arguments[k].p, arguments[k].len);
          n += arguments[k].len;
          if (end)
            bytes[n++] = '.';
          rush_status st = read_bytes(c, bytes, n, got, sizeof got);
          n_read += st == RUSH_OK;
          n_refused += st == RUSH_EFORMAT;
          if (st != RUSH_OK && (st != RUSH_EFORMAT || strncmp(got, "t.pkl: offset ", 14) != 0))
            fail_msg("opcode 0x%02x, state %zu, argument %zu: %s", (unsigned)op, i, k, got);
        }
  print_message("%zu pickles read, %zu refused\n", n_read, n_refused);
  assert_true(n_read > 100);
  test_context_done(c);
}

static void several_body(session *s, void *arg)
{
  input in = {"legacy", STR("\x80\2K\7.\x80\2}X\1\0\0\0aK\1s.rest")};
  (void)arg;
  pickle *first = pickle_read(s, &in, 0), *second = pickle_read(s, &in, first->end);
  assert_int_equal(pickle_need_int(s, first, first->root, "number"), 7);
  const pickle_node *a = pickle_get(second->root, "a");
  assert_non_null(a);
  assert_int_equal(a->as.i, 1);
  assert_null(pickle_get(second->root, "b"));
  assert_true(str_is((str){in.bytes.p + second->end, in.bytes.len - second->end}, "rest"));
  pickle_need_str(s, second, a, "storage key");
}

static void pickles_in_a_row_are_read_one_by_one(void **state)
{
  context *c = test_context(NULL);
  rush_error err = RUSH_ERROR_INIT;
  call_ctx cx;
  (void)state;
  call_ctx_init(&cx, c, &err);
  assert_int_equal(session_run(&cx, several_body, NULL), RUSH_EFORMAT);
  assert_string_equal(err.message, "legacy: offset 14: storage key: expected a str, found a int");
  rush_error_clear(&err);
  test_context_done(c);
}

static void write_body(session *s, void *arg)
{
  static const int64_t ints[] = {0,        255, 256, 65535, 65536, -1, INT32_MAX, INT64_C(1) << 31,
                                 INT64_MIN};
  job *j = arg;
  pickle_writer *w = pickle_writer_new(s);
  pickle_global(w, STR("m"), STR("C"));
  pickle_op(w, PICKLE_OP_EMPTY_TUPLE);
  pickle_op(w, PICKLE_OP_NEWOBJ);
  pickle_op(w, PICKLE_OP_EMPTY_DICT);
  pickle_op(w, PICKLE_OP_MARK);
  pickle_str(w, STR("key"));
  pickle_bool(w, true);
  pickle_str(w, STR("list"));
  pickle_op(w, PICKLE_OP_EMPTY_LIST);
  uint32_t list = pickle_put(w);
  pickle_op(w, PICKLE_OP_MARK);
  for (size_t i = 0; i < COUNT_OF(ints); i++)
    pickle_int(w, ints[i]);
  pickle_double(w, -2.5);
  for (int i = 0; i < 300; i++)
    pickle_put(w); /* numbers beyond a byte */
  pickle_str(w, STR("new"));
  pickle_str(w, STR("key"));
  pickle_str(w, STR("new"));
  pickle_op(w, PICKLE_OP_APPENDS);
  pickle_op(w, PICKLE_OP_NONE);
  pickle_get_memo(w, list);
  pickle_op(w, PICKLE_OP_SETITEMS);
  pickle_op(w, PICKLE_OP_BUILD);
  j->bytes = pickle_finish(w);
  read_body(s, j);
}

static void written_pickles_read_back(void **state)
{
  rush_status last = RUSH_ENOMEM;
  (void)state;
  OOM_LOOP(cx)
  {
    job j = {.bytes = STR("")};
    text_init(&j.out, cx.ctx);
    last = session_run(&cx, write_body, &j);
    assert_true(last == RUSH_OK || last == RUSH_ENOMEM);
    if (last == RUSH_OK && !text_failed(&j.out))
      assert_string_equal(text_str(&j.out),
                          "m.C.new() state {'key':True,'list':[0,255,256,65535,65536,-1,2147483647,"
                          "2147483648,-9223372036854775808,-2.5,'new','key','new',],None:same,}");
    text_free(&j.out);
  }
  assert_int_equal(last, RUSH_OK);
}

static void any_allocation_may_fail(void **state)
{
  rush_status last = RUSH_ENOMEM;
  (void)state;
  OOM_LOOP(cx)
  {
    job j = {.bytes = {plain[2].bytes, plain[2].n_bytes}};
    text_init(&j.out, cx.ctx);
    last = session_run(&cx, read_body, &j);
    assert_true(last == RUSH_OK || last == RUSH_ENOMEM);
    text_free(&j.out);
  }
  assert_int_equal(last, RUSH_OK);
}

int main(void)
{
  const struct CMUnitTest tests[] = {
      cmocka_unit_test(all_protocols_give_the_same_tree),
      cmocka_unit_test(objects_stay_data),
      cmocka_unit_test(bad_pickles_are_refused_by_name),
      cmocka_unit_test(damaged_pickles_end_in_a_status),
      cmocka_unit_test(every_opcode_minds_its_stack),
      cmocka_unit_test(pickles_in_a_row_are_read_one_by_one),
      cmocka_unit_test(written_pickles_read_back),
      cmocka_unit_test(any_allocation_may_fail),
  };
  return RUN_TESTS(tests);
}
