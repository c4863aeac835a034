#include "support/test.h"

#include "script/syntax/parser.h"

/* -- A dump: (op a b), names and literals as they are ------------------------------------------ */

static const char *op_text(ast_op op)
{
  static const char *const texts[] = {
      "+", "-", "*", "/", "//", "%", "**", "@", "&", "|", "^", "<<", ">>",
      "<", "<=", ">", ">=", "==", "!=", "is", "is not", "in", "not in",
      "and", "or", "not", "-", "+", "~", ""};
  return texts[op];
}

static void dump(text_buf *b, const ast_expr *x);

static void dump_all(text_buf *b, const char *head, const ast_exprs *items)
{
  text_printf(b, "(%s", head);
  for (uint32_t i = 0; i < items->n; i++) {
    text_putc(b, ' ');
    dump(b, items->items[i]);
  }
  text_putc(b, ')');
}

static void dump_comp(text_buf *b, const ast_expr *x)
{
  text_puts(b, "(comp ");
  if (x->as.comp.key) {
    dump(b, x->as.comp.key);
    text_putc(b, ':');
  }
  dump(b, x->as.comp.element);
  for (uint32_t i = 0; i < x->as.comp.n_fors; i++) {
    text_puts(b, " for ");
    dump(b, x->as.comp.fors[i].target);
    text_puts(b, " in ");
    dump(b, x->as.comp.fors[i].iter);
    dump_all(b, " if", &x->as.comp.fors[i].conds);
  }
  text_putc(b, ')');
}

static void dump_call(text_buf *b, const ast_expr *x)
{
  text_puts(b, "(call ");
  dump(b, x->as.call.fn);
  for (uint32_t i = 0; i < x->as.call.args.n; i++) {
    text_putc(b, ' ');
    dump(b, x->as.call.args.items[i]);
  }
  for (uint32_t i = 0; i < x->as.call.n_keywords; i++) {
    text_printf(b, " %s=", x->as.call.keywords[i].name ? x->as.call.keywords[i].name : "**");
    dump(b, x->as.call.keywords[i].value);
  }
  text_putc(b, ')');
}

static void dump_pair(text_buf *b, const char *head, const ast_expr *l, const ast_expr *r)
{
  text_printf(b, "(%s ", head);
  dump(b, l);
  if (r) {
    text_putc(b, ' ');
    dump(b, r);
  }
  text_putc(b, ')');
}

static void dump_compare(text_buf *b, const ast_expr *x)
{
  text_putc(b, '(');
  for (uint32_t i = 0; i < x->as.compare.operands.n; i++) {
    if (i)
      text_printf(b, " %s ", op_text(x->as.compare.ops[i - 1]));
    dump(b, x->as.compare.operands.items[i]);
  }
  text_putc(b, ')');
}

static void dump_format(text_buf *b, const ast_expr *x)
{
  text_putc(b, '{');
  dump(b, x->as.format.value);
  if (x->as.format.conversion)
    text_printf(b, "!%c", x->as.format.conversion);
  text_printf(b, ":%s}", x->as.format.spec ? x->as.format.spec : "");
}

static void dump(text_buf *b, const ast_expr *x)
{
  if (!x) {
    text_putc(b, '_');
    return;
  }
  switch ((int)x->kind) {
  case EXPR_NAME: text_puts(b, x->as.name); return;
  case EXPR_INT: text_printf(b, "%lld", (long long)x->as.integer); return;
  case EXPR_FLOAT: text_printf(b, "%.17gf", x->as.number); return;
  case EXPR_IMAG: text_printf(b, "%.17gj", x->as.number); return;
  case EXPR_STRING: text_quote(b, x->as.string.data, x->as.string.len); return;
  case EXPR_NONE: text_puts(b, "None"); return;
  case EXPR_TRUE: text_puts(b, "True"); return;
  case EXPR_ELLIPSIS: text_puts(b, "..."); return;
  case EXPR_ATTR:
    dump(b, x->as.attr.base);
    text_printf(b, ".%s", x->as.attr.name);
    return;
  case EXPR_UNARY: case EXPR_BINARY:
    dump_pair(b, op_text(x->op), x->as.pair.left, x->as.pair.right);
    return;
  case EXPR_STARRED: dump_pair(b, "*", x->as.pair.left, NULL); return;
  case EXPR_BOOL: dump_all(b, op_text(x->op), &x->as.items); return;
  case EXPR_COMPARE: dump_compare(b, x); return;
  case EXPR_TERNARY:
    dump_pair(b, "if", x->as.ternary.cond, x->as.ternary.yes);
    dump_pair(b, "else", x->as.ternary.no, NULL);
    return;
  case EXPR_LIST: dump_all(b, "list", &x->as.items); return;
  case EXPR_TUPLE: dump_all(b, "tuple", &x->as.items); return;
  case EXPR_SET: dump_all(b, "set", &x->as.items); return;
  case EXPR_FSTRING: dump_all(b, "f", &x->as.items); return;
  case EXPR_FORMAT: dump_format(b, x); return;
  case EXPR_DICT:
    dump_all(b, "dict", &x->as.dict.keys);
    dump_all(b, "values", &x->as.dict.values);
    return;
  case EXPR_SUBSCRIPT:
    text_puts(b, "(at ");
    dump(b, x->as.subscript.base);
    dump_all(b, x->as.subscript.is_tuple ? " tuple" : " one", &x->as.subscript.index);
    text_putc(b, ')');
    return;
  case EXPR_SLICE:
    dump(b, x->as.slice.start);
    text_putc(b, ':');
    dump(b, x->as.slice.stop);
    text_putc(b, ':');
    dump(b, x->as.slice.step);
    return;
  case EXPR_CALL: dump_call(b, x); return;
  case EXPR_LIST_COMP: case EXPR_DICT_COMP: case EXPR_GENERATOR: dump_comp(b, x); return;
  default: text_printf(b, "?%d", x->kind); return;
  }
}

static void dump_stmts(text_buf *b, const ast_stmts *body);

static void dump_def(text_buf *b, const ast_def *d)
{
  text_printf(b, "def %s(", d->name);
  for (uint32_t i = 0; i < d->n_params; i++) {
    text_printf(b, "%s%s:", i ? " " : "", d->params[i].name);
    dump(b, d->params[i].type);
    text_putc(b, '=');
    dump(b, d->params[i].default_value);
  }
  text_puts(b, ")->");
  dump(b, d->returns);
  dump_stmts(b, &d->body);
}

static void dump_stmt(text_buf *b, const ast_stmt *st)
{
  switch ((int)st->kind) {
  case STMT_EXPR: dump(b, st->as.expr); break;
  case STMT_RETURN: text_puts(b, "return "); dump(b, st->as.expr); break;
  case STMT_ASSIGN:
    dump_all(b, "=", &st->as.assign.targets);
    text_putc(b, ':');
    dump(b, st->as.assign.type);
    text_putc(b, ' ');
    dump(b, st->as.assign.value);
    break;
  case STMT_AUG_ASSIGN: dump_pair(b, op_text(st->op), st->as.aug.target, st->as.aug.value); break;
  case STMT_IF:
    text_puts(b, "if ");
    dump(b, st->as.branch.cond);
    dump_stmts(b, &st->as.branch.body);
    dump_stmts(b, &st->as.branch.orelse);
    break;
  case STMT_FOR:
    text_puts(b, "for ");
    dump(b, st->as.loop.target);
    text_puts(b, " in ");
    dump(b, st->as.loop.iter);
    dump_stmts(b, &st->as.loop.body);
    break;
  case STMT_DEF: dump_def(b, st->as.def); break;
  case STMT_CLASS:
    text_printf(b, "class %s", st->as.cls->name);
    dump_all(b, "", &st->as.cls->bases);
    dump_stmts(b, &st->as.cls->body);
    break;
  default: text_printf(b, "stmt%d", st->kind); break;
  }
}

static void dump_stmts(text_buf *b, const ast_stmts *body)
{
  text_puts(b, "{");
  for (uint32_t i = 0; i < body->n; i++) {
    if (i)
      text_puts(b, "; ");
    dump_stmt(b, body->items[i]);
  }
  text_puts(b, "}");
}

/* -- Running ----------------------------------------------------------------------------------- */

typedef struct job {
  source *src;
  unsigned flags;
  text_buf out;
} job;

static void parse_body(session *s, void *arg)
{
  job *j = arg;
  ast_stmts body = parse_source(s, j->src, j->flags);
  dump_stmts(&j->out, &body);
}

static rush_status parse_text(const char *text, unsigned flags, char *out, size_t out_bytes)
{
  context *c = test_context(NULL);
  rush_error err = RUSH_ERROR_INIT;
  call_ctx cx;
  call_ctx_init(&cx, c, &err);
  job j = {.src = source_new(c, "t.py", text, strlen(text)), .flags = flags};
  text_init(&j.out, c);
  rush_status st = session_run(&cx, parse_body, &j);
  snprintf(out, out_bytes, "%s", st == RUSH_OK ? text_str(&j.out) : err.message);
  text_free(&j.out);
  source_release(j.src);
  rush_error_clear(&err);
  test_context_done(c);
  return st;
}

static void check(const char *text, const char *expected)
{
  char out[4096];
  parse_text(text, PARSE_RAW_BYTES, out, sizeof out);
  assert_string_equal(out, expected);
}

static void fails(const char *text, const char *part)
{
  char out[4096];
  assert_int_not_equal(parse_text(text, 0, out, sizeof out), RUSH_OK);
  if (!strstr(out, part))
    assert_string_equal(out, part);
}

static void operators_bind_as_in_python(void **state)
{
  (void)state;
  check("a + b * c ** -d ** e\n", "{(+ a (* b (** c (- (** d e)))))}");
  check("not a < b <= c and d or e is not f\n", "{(or (and (not (a < b <= c)) d) (e is not f))}");
  check("a if b else c if d else e\n", "{(if b a)(else (if d c)(else e))}");
  check("-1 - -2.5 % 3j\n", "{(- -1 (% -2.5f 3j))}");
  check("a | b ^ c & d << 1 // 2 @ x\n", "{(| a (^ b (& c (<< d (@ (// 1 2) x)))))}");
  check("x not in y\n", "{(x not in y)}");
}

static void literals_and_displays(void **state)
{
  (void)state;
  check("[0x1F, 0b11, 0o17, 1_000, 1., .5, 1e5, -9223372036854775808]\n",
        "{(list 31 3 15 1000 1f 0.5f 100000f -9223372036854775808)}");
  check("'a' \"b\\n\" r'\\n' '''c\nd'''\n", "{'ab\\n\\\\nc\\nd'}");
  check("\"\\303\\251\\x41\"\n", "{'\xc3\xa9" "A'}");
  check("f'a{x!r:>3}b{{{y[\"k\"]}}}'\n", "{(f 'a' {x!r:>3} 'b{' {(at y( one 'k')):} '}')}");
  check("{'a': 1, **b}, {1, 2}, (), (a,), {}\n",
        "{(tuple (dict 'a' _)(values 1 b) (set 1 2) (tuple) (tuple a) (dict)(values))}");
  check("[x for x in y if x if z], {k: v for k, v in d}, f(i for i in j)\n",
        "{(tuple (comp x for x in y( if x z)) (comp k:v for (tuple k v) in d( if)) "
        "(call f (comp i for i in j( if))))}");
  check("x[1:, ..., None, ::2], x[i], x[i,]\n",
        "{(tuple (at x( tuple 1:_:_ ... None _:_:2)) (at x( one i)) (at x( tuple i)))}");
  check("(f).g(*a, k=1, **d, )\n", "{(call f.g (* a) k=1 **=d)}");
}

static void statements(void **state)
{
  (void)state;
  check("_3, = _2\na = b = 1, 2\nx : List[int] = []\n",
        "{(= (tuple _3)):_ _2; (= a b):_ (tuple 1 2); (= x):(at List( one int)) (list)}");
  check("x = []  # type: List[int]\n", "{(= x):(at List( one int)) (list)}");
  check("if a: b\nelif c:\n  d\n  # note\n\nelse:\n  e; f\n",
        "{if a{b}{if c{d}{e; f}}}");
  check("for i, (j, k) in x:\n  if i:\n    j\nk\n",
        "{for (tuple i (tuple j k)) in x{if i{j}{}}; k}");
  check("def f(a, b=1,\n      *, c: int):\n  # type: (...) -> int\n  return a\\\n    + b\n",
        "{def f(a:_=_ b:_=1 c:int=_)->int{return (+ a b)}}");
  check("def f(a, b):\n  # type: (int, Tuple[str, int]) -> None\n  pass\n",
        "{def f(a:int=_ b:(at Tuple( tuple str int))=_)->None{stmt10}}");
  check("def f(a, # type: int\n      b):  # type: ignore\n  pass\n",
        "{def f(a:int=_ b:_=_)->_{stmt10}}");
  check("class M(Module):\n  __annotations__[\"0\"] = A\n  x : int\n  def f(self) -> int:\n    "
        "return 1\n",
        "{class M( Module){(= (at __annotations__( one '0'))):_ A; (= x):int _; "
        "def f(self:_=_)->int{return 1}}}");
}

static void skeletons_skip_bodies(void **state)
{
  (void)state;
  char out[1000];
  parse_text(
    "class C:\n  def f(self) -> int:\n    for x in y:\n      z\n    return 1\n  a : int\nb\n",
    PARSE_SKIP_BODIES, out, sizeof out);
  assert_string_equal(out, "{class C(){def f(self:_=_)->int{}; (= a):int _}; b}");
}

static void errors_say_where(void **state)
{
  (void)state;
  fails("x = (1,\ny = 2\n", "expected ')' but found '=' here");
  fails("def f(:\n", "expected a name but found ':' here");
  fails("if a:\nb\n", "expected an indented block but found 'b' here");
  fails("if a:\n    b\n  c\n", "unindent does not match");
  fails("x = 'abc\n", "unterminated string");
  fails("x = 9223372036854775809\n", "must fit in a signed 64 bit integer");
  fails("x = 1 2\n", "expected the end of the line but found '2' here");
  fails("f'{a'\n", "expected '}'");
  fails("  x\n y\n?", "unexpected character");
  fails("a = 1\nb = ]\n", "t.py\", line 2");
}

static void nesting_is_bounded(void **state)
{
  (void)state;
  static const char *const openers[] = {"(", "[", "-", "not ", "f(", "{1:", "x if y else ", "a**"};
  for (size_t k = 0; k < COUNT_OF(openers); k++) {
    size_t len = strlen(openers[k]);
    char *text = malloc(100000 * len + 1), out[4096];
    for (size_t i = 0; i < 100000; i++)
      memcpy(text + i * len, openers[k], len);
    text[100000 * len] = '\0';
    assert_int_equal(parse_text(text, 0, out, sizeof out), RUSH_ELIMIT);
    free(text);
  }
}

int main(void)
{
  const struct CMUnitTest tests[] = {
      cmocka_unit_test(operators_bind_as_in_python), cmocka_unit_test(literals_and_displays),
      cmocka_unit_test(statements), cmocka_unit_test(skeletons_skip_bodies),
      cmocka_unit_test(errors_say_where), cmocka_unit_test(nesting_is_bounded),
  };
  return RUN_TESTS(tests);
}
