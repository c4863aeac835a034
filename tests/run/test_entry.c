/* A function that is stopped before any of its instructions can be continued there: registers are
 * all the state of a frame. The program uses every instruction. */
#include "support/oom.h"

#include "run/code_int.h"
#include "script/front/import.h"

static const char text[] =
  "class Face(ModuleInterface):\n"
  "  def forward(self, x: int) -> int:\n"
  "    pass\n"
  "class A(Module):\n"
  "  __parameters__ = []\n"
  "  def forward(self: __torch__.A, x: int) -> int:\n"
  "    return torch.mul(x, 2)\n"
  "class B(Module):\n"
  "  __parameters__ = []\n"
  "  def forward(self: __torch__.B, x: int) -> int:\n"
  "    return torch.add(x, 100)\n"
  "class Both(Module):\n"
  "  __parameters__ = []\n"
  "  __annotations__[\"0\"] = __torch__.A\n"
  "  __annotations__[\"1\"] = __torch__.B\n"
  "class Ctx:\n"
  "  n : int\n"
  "  def __init__(self: __torch__.Ctx, n: int) -> NoneType:\n"
  "    self.n = n\n"
  "    return None\n"
  "  def __enter__(self: __torch__.Ctx) -> int:\n"
  "    self.n = torch.add(self.n, 1)\n"
  "    return self.n\n"
  "  def __exit__(self: __torch__.Ctx, type: Any, value: Any, tb: Any) -> NoneType:\n"
  "    self.n = torch.add(self.n, 10)\n"
  "    return None\n"
  "def work(n: int) -> List[int]:\n"
  "  l = [n]\n"
  "  _0 = torch.append(l, torch.add(n, 1))\n"
  "  return l\n"
  "class M(Module):\n"
  "  __parameters__ = []\n"
  "  k : int\n"
  "  l : __torch__.Both\n"
  "  def numbers(self: __torch__.M, n: int, x: float) -> List[int]:\n"
  "    out = annotate(List[int], [])\n"
  "    a = torch.sub(torch.mul(n, 3), 1)\n"
  "    b = torch.add(torch.floordiv(a, 2), torch.remainder(a, 3))\n"
  "    self.k = torch.add(self.k, b)\n"
  "    c = torch.__xor__(torch.__or__(torch.__and__(self.k, 7), 19), n)\n"
  "    _1 = torch.append(out, ops.prim.min(c, b))\n"
  "    _2 = torch.append(out, ops.prim.max(a, torch.neg(c)))\n"
  "    y = torch.neg(torch.sub(torch.add(torch.mul(x, 2.5), torch.div(x, 3.)), torch.Float(n)))\n"
  "    p = torch.gt(n, 2)\n"
  "    q = torch.lt(x, 1.)\n"
  "    r = torch.ne(torch.__not__(p), q)\n"
  "    t = torch.eq(torch.__and__(torch.__or__(torch.__xor__(r, p), q), r), q)\n"
  "    _3 = torch.append(out, torch.Int(t))\n"
  "    if torch.Bool(y):\n"
  "      _4 = torch.append(out, 5)\n"
  "    else:\n"
  "      pass\n"
  "    if torch.Bool(n):\n"
  "      _5 = torch.append(out, 6)\n"
  "    else:\n"
  "      pass\n"
  "    flags = [torch.lt(n, 3), torch.le(n, 3), torch.ge(n, 3), torch.eq(n, 3), torch.ne(n, 3), "
  "torch.le(x, y), "
  "torch.gt(x, y), torch.ge(x, y), torch.eq(x, y), torch.ne(x, y)]\n"
  "    for i in range(torch.len(flags)):\n"
  "      if flags[i]:\n"
  "        _6 = torch.append(out, i)\n"
  "      else:\n"
  "        pass\n"
  "    k = 0\n"
  "    z = y\n"
  "    go = torch.lt(k, n)\n"
  "    while go:\n"
  "      k0 = torch.add(k, 1)\n"
  "      z0 = torch.add(z, 1.5)\n"
  "      go, k, z = torch.lt(z0, 20.), k0, z0\n"
  "    _7 = torch.append(out, k)\n"
  "    _8 = torch._set_item(out, -1, a)\n"
  "    return out\n"
  "  def jumps(self: __torch__.M, n: int, x: float) -> int:\n"
  "    s = 0\n"
  "    i = 0\n"
  "    go = torch.ne(n, 0)\n"
  "    while go:\n"
  "      if torch.eq(i, 2):\n"
  "        s0 = torch.add(s, 7)\n"
  "      else:\n"
  "        s0 = torch.sub(s, 1)\n"
  "      i0 = torch.add(i, 1)\n"
  "      go, i, s = torch.le(i0, n), i0, s0\n"
  "    if torch.__or__(go, torch.gt(x, 0.5)):\n"
  "      r = s\n"
  "    else:\n"
  "      r = n\n"
  "    return r\n"
  "  def things(self: __torch__.M, n: int, x: float) -> Tuple[List[int], str, Tuple[int, int]]:\n"
  "    u, v, = __torch__.work(n, )\n"
  "    tup = (u, \"s\", v)\n"
  "    rest = self.pair(n, )\n"
  "    e, f, = rest\n"
  "    d = {\"a\": e, \"b\": f}\n"
  "    out = [torch.len(d), d[\"a\"], u, v]\n"
  "    if torch.gt(n, 3):\n"
  "      o : Optional[int] = n\n"
  "    else:\n"
  "      o = None\n"
  "    if torch.__isnot__(o, None):\n"
  "      _1 = torch.append(out, unchecked_cast(int, o))\n"
  "    else:\n"
  "      pass\n"
  "    if torch.__is__(o, None):\n"
  "      _2 = torch.append(out, -1)\n"
  "    else:\n"
  "      pass\n"
  "    z = unchecked_cast(Any, o)\n"
  "    if isinstance(z, int):\n"
  "      w = \"int\"\n"
  "    else:\n"
  "      w = \"no int\"\n"
  "    def __forked_function():\n"
  "      return __torch__.work(n, )\n"
  "    fut = fork(__forked_function)\n"
  "    cm = __torch__.Ctx.__new__(__torch__.Ctx)\n"
  "    _3 = (cm).__init__(n, )\n"
  "    with cm as cv:\n"
  "      _4 = torch.append(out, cv)\n"
  "    _5 = torch.append(out, cm.n)\n"
  "    print(\"n\", n, w)\n"
  "    ops.aten.warn(\"careful\", 1)\n"
  "    l = self.l\n"
  "    m : __torch__.Face = l[torch.remainder(n, 2)]\n"
  "    _6 = torch.append(out, (m).forward(n, ))\n"
  "    res = torch.wait(fut)\n"
  "    _7 = torch.append(out, res[1])\n"
  "    if torch.eq(n, 13):\n"
  "      ops.prim.RaiseException(\"thirteen\", \"builtins.ValueError\")\n"
  "    else:\n"
  "      pass\n"
  "    h = torch.add(w, tup[1])\n"
  "    if torch.gt(n, 5):\n"
  "      g = h\n"
  "    else:\n"
  "      g = \"-\"\n"
  "    if torch.gt(n, 7):\n"
  "      e2 = g\n"
  "    else:\n"
  "      e2 = \"+\"\n"
  "    print(g, e2)\n"
  "    us = annotate(List[Union[int, str]], [n, \"z\"])\n"
  "    print(us[1])\n"
  "    return (out, g, rest)\n"
  "  def pair(self: __torch__.M, n: int) -> Tuple[int, int]:\n"
  "    return (n, torch.mul(n, n))\n"
  "  def made(self: __torch__.M, n: int) -> Tensor:\n"
  "    return torch.add(torch.ones([2]), n)\n"
  "  def called(self: __torch__.M, n: int) -> Tensor:\n"
  "    return (self).made(n, )\n";

static bool find_code(session *s, void *user, const char *path, str *out)
{
  (void)s;
  (void)user;
  if (strcmp(path, "code/__torch__.py") != 0)
    return false;
  *out = str_of(text);
  return true;
}

static const script_files files = {.find = find_code, .version = 10};

typedef struct fixture {
  context *c;
  call_ctx cx;
  rush_error err;
  program *p;
  const type *type;
  bool ran[N_OPCODES]; /* instructions before which a run was stopped */
  char said[4096];     /* printed and warned */
} fixture;

static void say(void *user, const char *what, size_t len)
{
  fixture *f = user;
  size_t at = strlen(f->said);

  if (at + len < sizeof f->said) {
    memcpy(f->said + at, what, len);
    f->said[at + len] = '\0';
  }
}
static void warn(void *user, const char *what) { say(user, what, strlen(what)); }

static void release_program(void *p) { program_release(p); }

static void import(session *s, void *arg)
{
  fixture *f = arg;

  f->p = program_new(s, s->cx->ctx);
  session_defer(s, release_program, f->p);
  script_importer_attach(s, f->p, &files);
  f->type = script_import_type(s, f->p, STR("__torch__.M"));
  session_keep(s, f->p);
}

static void put(rush_object *o, const char *name, rush_value v_steal)
{
  o->slots[class_attr_index(o->type, str_of(name))] = v_steal;
}

static rush_object *make(fixture *f, const type *t)
{
  rush_object *o;

  assert_int_equal(object_new(&f->cx, t, t->cls->n_attrs, &o), RUSH_OK);
  return o;
}

static const type *attr_type(const type *t, const char *name)
{
  return t->cls->attrs[class_attr_index(t, str_of(name))].type;
}

static rush_value make_self(fixture *f)
{
  rush_object *o = make(f, f->type), *both = make(f, attr_type(f->type, "l"));

  put(both, "0", value_heap_steal(RUSH_TAG_OBJECT, make(f, attr_type(both->type, "0"))));
  put(both, "1", value_heap_steal(RUSH_TAG_OBJECT, make(f, attr_type(both->type, "1"))));
  put(o, "k", value_int(3));
  put(o, "l", value_heap_steal(RUSH_TAG_OBJECT, both));
  return value_heap_steal(RUSH_TAG_OBJECT, o);
}

/* Return everything that a run did, as text: result or error, printed text, the object's state. */
static void describe(fixture *f, rush_status st, rush_value v, rush_value self, text_buf *out)
{
  text_init(out, f->c);
  if (st == RUSH_OK) {
    assert_int_equal(value_repr(&f->cx, out, v), RUSH_OK);
    value_release(v);
  } else {
    text_printf(out, "%s: %s", f->err.type, f->err.message);
  }
  text_printf(out, " | %s | k=%lld", f->said,
              (long long)self.as.object->slots[class_attr_index(f->type, STR("k"))].as.i);
  value_release(self);
  f->said[0] = '\0';
}

static rush_value *first_row(const code *c, rush_value self, const rush_value *args)
{
  rush_value *row = calloc(c->n_regs + 1u, sizeof *row);

  memcpy(row, c->constants, c->n_kregs * sizeof *row);
  row[c->n_kregs] = value_retain(self);
  memcpy(row + c->n_kregs + 1, args, (c->n_args - 1) * sizeof *row);
  return row;
}

/* Stop before instruction `at` when it is reached, and continue there. Returns false if it was not
 * reached. */
static bool stop_and_go(fixture *f, const code *c, uint32_t at, const rush_value *args,
                        text_buf *out)
{
  rush_value self = make_self(f), *row = first_row(c, self, args),
             *kept = calloc(c->n_regs + 1u, sizeof *kept), v;
  ins *patched = malloc(c->n_ins * sizeof *patched);
  site *sites = malloc((c->n_sites + 1) * sizeof *sites);
  code copy = *c;

  memcpy(patched, c->code, c->n_ins * sizeof *patched);
  if (c->n_sites)
    memcpy(sites, c->sites, c->n_sites * sizeof *sites);
  sites[c->n_sites] = (site){.stopped = kept};
  patched[at] = (ins){.op = OPC_STOP, .b = (uint16_t)c->n_sites, .c = (uint16_t)(c->n_sites >> 16)};
  copy.code = patched;
  copy.sites = sites;
  kept[c->n_regs].tag = RUSH_TAG_UNSET;
  kept[0].tag = RUSH_TAG_UNSET; /* a register is never that */
  rush_status st = interp_enter(&f->cx, &copy, 0, row, &v);
  bool reached = kept[0].tag != RUSH_TAG_UNSET;
  if (reached)
    st = interp_enter(&f->cx, c, at, kept, &v);
  describe(f, st, v, self, out);
  free(row);
  free(kept);
  free(patched);
  free(sites);
  return reached;
}

static void enter_everywhere(fixture *f, const char *method, const rush_value *args)
{
  const code *c;
  rush_value self = make_self(f), v;
  rush_value whole_args[3] = {self, args[0], args[1]};
  text_buf want, got;

  if (code_of(&f->cx, class_find_method(f->type, method), &c) != RUSH_OK)
    fail_msg("%s", f->err.message);
  rush_status st = function_call(&f->cx, c->function, whole_args, c->n_args, &v);
  describe(f, st, v, self, &want);
  for (uint32_t at = 0; at < c->n_ins; at++) {
    f->ran[c->code[at].op] |= stop_and_go(f, c, at, args, &got);
    if (strcmp(text_str(&want), text_str(&got)) != 0)
      fail_msg("%s, stopped at %u:\n%s\n%s", method, at, text_str(&want), text_str(&got));
    text_free(&got);
  }
  text_free(&want);
}

/* Run every method from every instruction; marks those that ran. */
static void enter_methods(bool is_simple, bool *ran)
{
  static const char *const methods[] = {"numbers", "jumps", "things", "pair", "made", "called"};
  fixture f = {.err = RUSH_ERROR_INIT};
  context_options opt = {.print = say, .warn = warn, .callback_user = &f, .n_threads = 1,
                         .no_passes = is_simple};

  f.c = test_context(&opt);
  call_ctx_init(&f.cx, f.c, &f.err);
  assert_int_equal(run_init(f.c, &f.err), RUSH_OK);
  if (session_run(&f.cx, import, &f) != RUSH_OK)
    fail_msg("%s", f.err.message);
  for (size_t i = 0; i < COUNT_OF(methods); i++)
    for (int n = -1; n < 14; n += 1) {
      rush_value args[2] = {value_int(n), value_float(n / 4.0)};
      enter_everywhere(&f, methods[i], args);
    }
  program_release(f.p);
  rush_error_clear(&f.err);
  context_release(f.c);
  for (int i = 0; i < N_OPCODES; i++)
    ran[i] |= f.ran[i];
}

/* With the simple executor there are calls; otherwise they are inlined. */
static void frames_go_on_where_they_stopped(void **state)
{
  bool ran[N_OPCODES] = {false};
  int missing = 0;
  (void)state;

  enter_methods(true, ran);
  enter_methods(false, ran);
  for (int i = 0; i < N_OPCODES; i++) {
    static const opcode not_here[] = {OPC_STOP, OPC_UNSUPPORTED, OPC_TUPLE_INDEX, OPC_TUPLE_SLICE,
                                      OPC_POLL, OPC_MARK_BEGIN, OPC_MARK_END, OPC_TYPE_CHECK,
                                      OPC_GUARD, OPC_POINT_GUARD, OPC_PROFILE};
    bool left_out = strncmp(opcode_name((opcode)i), "JT_", 3) == 0 ||
                    strncmp(opcode_name((opcode)i), "JF_", 3) == 0;
    for (size_t k = 0; k < COUNT_OF(not_here); k++)
      left_out |= (opcode)i == not_here[k];
    if (!ran[i] && !left_out)
      missing += printf("no function has %s\n", opcode_name((opcode)i));
  }
  assert_int_equal(missing, 0);
}

int main(void)
{
  const struct CMUnitTest tests[] = {cmocka_unit_test(frames_go_on_where_they_stopped)};
  return RUN_TESTS(tests);
}
