"""Passes, preparations and kernels of plug-ins that do wrong: the error names them, and nothing
runs."""

from __future__ import annotations

import os
import pathlib
import subprocess

import pytest
from conftest import TOP

SOURCE = r"""
#include <rushlight/backend.h>
#include <stdlib.h>
#include <string.h>
static const rush_backend_api *api;

static rush_status silent(rush_pass *p, void *user) { (void)p, (void)user; return RUSH_ELIMIT; }
static rush_status no_status(rush_pass *p, void *user) { (void)p, (void)user; return (rush_status)77; }
static rush_status types(rush_pass *p, void *user)
{
  const rush_type *t;
  (void)user;
  rush_status st = api->type_parse(api->pass_context(p), "str", NULL, &t, NULL);
  for (const rush_node *n = api->block_first(api->pass_block(p)); n && st == RUSH_OK; n = api->node_next(n))
    st = api->value_set_type(api->node_output(n, 0), t, NULL);
  api->type_release(t);
  return st;
}
static rush_status order(rush_pass *p, void *user)
{
  const rush_block *b = api->pass_block(p);
  (void)user;
  return api->node_move(api->block_last(b), api->block_first(b), false, NULL);
}
static rush_status cycle(rush_pass *p, void *user)
{
  const rush_block *b = api->pass_block(p);
  (void)user;
  return api->value_replace_uses(api->node_output(api->block_first(b), 0), api->node_output(api->block_last(b), 0), NULL, NULL);
}
static rush_status inputs(rush_pass *p, void *user)
{
  (void)user;
  for (const rush_node *n = api->block_first(api->pass_block(p)); n; n = api->node_next(n))
    while (api->node_n_inputs(n) > 0)
      if (api->node_remove_input(n, 0, NULL) != RUSH_OK)
        abort();
  return RUSH_OK;
}
static rush_status fewer(rush_pass *p, void *user)
{
  (void)user;
  return api->node_remove_input(api->block_return(api->pass_block(p)), 0, NULL);
}
static rush_status more(rush_pass *p, void *user)
{
  const rush_graph_value *v;
  (void)user;
  return api->node_insert_output(api->block_param(api->pass_block(p)), 0, NULL, "more", &v, NULL);
}
static rush_status other(rush_pass *p, void *user)
{
  const rush_block *b = api->pass_block(p);
  (void)user;
  return api->node_set_input(api->block_return(b), 0, api->block_input(b, 0), NULL);
}

static const char *refuse(const rush_node *n, void *user) { (void)n, (void)user; return NULL; }
static rush_status group(rush_pass *p, void *user)
{
  rush_group_def def = {.struct_bytes = sizeof def, .op = "bad::group", .refuse = refuse, .user = user};
  return api->pass_group(p, &def);
}
static rush_status nothing(rush_call *call) { (void)call; return RUSH_OK; }
static rush_status an_int(rush_call *call)
{
  for (size_t i = 0; i < api->call_n_results(call); i++)
    api->call_return_steal(call, i, (rush_value){.tag = RUSH_TAG_INT, .as.i = 3});
  return RUSH_OK;
}
static rush_status quiet(rush_call *call) { (void)call; return RUSH_ERAISED; }
/* Another operator fails, and the kernel goes on without it: no failure. */
static rush_status recovers(rush_call *call)
{
  rush_value x = api->call_arg(call, 0), y;
  if (api->call_op(call, "aten::nonsense", &x, 1, &y) == RUSH_OK)
    abort();
  return api->call_run_group(call);
}
static rush_status unprepared(rush_context *c, const rush_node *n, void *user, void **state, rush_error *err)
{
  (void)c, (void)n, (void)user, (void)state, (void)err;
  return RUSH_EUNSUPPORTED;
}

#define PASS(name) {#name, name, NULL, NULL}
static const struct {
  const char *name;
  rush_status (*pass)(rush_pass *, void *);
  rush_kernel *kernel;
  rush_status (*prepare)(rush_context *, const rush_node *, void *, void **, rush_error *);
} faults[] = {
    PASS(silent), PASS(no_status), PASS(types), PASS(order), PASS(cycle), PASS(inputs), PASS(fewer), PASS(more), PASS(other),
    {"nothing", group, nothing, NULL}, {"an_int", group, an_int, NULL}, {"quiet", group, quiet, NULL},
    {"recovers", group, recovers, NULL}, {"unprepared", group, nothing, unprepared},
};

RUSH_PLUGIN_DECLARE;
RUSH_PLUGIN_EXPORT rush_status rush_plugin(const rush_backend_api *table, rush_context *c, rush_error *err)
{
  const char *wanted = getenv("BAD_PLUGIN");
  rush_op_def op = {.struct_bytes = sizeof op, .schema = "bad::group(...) -> ...", .kernel = nothing};
  rush_pass_def pass = {.struct_bytes = sizeof pass, .name = "bad::pass"};

  api = table;
  for (size_t i = 0; i < sizeof faults / sizeof *faults; i++) {
    if (!wanted || strcmp(faults[i].name, wanted) != 0)
      continue;
    op.kernel = faults[i].kernel ? faults[i].kernel : nothing;
    op.prepare = faults[i].prepare;
    pass.run = faults[i].pass;
    rush_status st = api->op_register(c, &op, err);
    return st == RUSH_OK ? api->pass_register(c, &pass, err) : st;
  }
  return RUSH_EARGUMENT; /* without a word */
}
"""
PROGRAM = """
def f(n: int, x: Tensor):
    y = x * 2 + 1
    z = y * y
    return z * n, z
"""


@pytest.fixture(scope="module")
def plugin(tmp_path_factory: pytest.TempPathFactory) -> pathlib.Path:
    folder = tmp_path_factory.mktemp("bad")
    source, made = folder / "bad.c", folder / "bad.so"
    source.write_text(SOURCE)
    subprocess.run(
        ["cc", "-shared", "-fPIC", f"-I{TOP / 'include'}", str(source), "-o", str(made)], check=True
    )
    return made


def run_with(
    command: str, plugin: pathlib.Path, fault: str, tmp_path: pathlib.Path
) -> subprocess.CompletedProcess[str]:
    program = tmp_path / "f.py"
    program.write_text(PROGRAM)
    return subprocess.run(
        [command, "run", "--plugin", str(plugin), str(program), "3", "ones(2)"],
        capture_output=True,
        text=True,
        env=os.environ | {"BAD_PLUGIN": fault},
        timeout=200,
    )


@pytest.mark.parametrize(
    ("fault", "code", "message"),
    [
        ("silent", 5, "the pass bad::pass failed without a reason (limit reached)"),
        ("no_status", 4, "the pass bad::pass returned 77, which is no status"),
        ("types", 4, "bad::pass: the graph is broken: a constant is no value of its type"),
        ("order", 4, "bad::pass: the graph is broken: an input is defined after its user"),
        ("cycle", 4, "bad::pass: the graph is broken: an input is defined after its user"),
        (
            "inputs",
            4,
            "bad::pass: the graph is broken: the inputs do not fit the operator's schema",
        ),
        (
            "fewer",
            4,
            "bad::pass: the graph is broken: it has another number of outputs than the function",
        ),
        (
            "more",
            4,
            "bad::pass: the graph is broken: it has another number of inputs than the function",
        ),
        ("other", 4, "bad::pass: the graph is broken: it returns another type than the function"),
        (
            "nothing",
            4,
            "the kernel of bad::group returned no result, or one of another type than its node has",
        ),
        (
            "an_int",
            4,
            "the kernel of bad::group returned no result, or one of another type than its node has",
        ),
        ("quiet", 4, "the kernel of bad::group failed without a reason (raised)"),
        ("unprepared", 4, "preparing bad::group failed without a reason (unsupported)"),
        ("unknown", 2, "bad.so failed without a reason (wrong argument)"),
    ],
)
def test_faults_are_named(
    command: str, plugin: pathlib.Path, tmp_path: pathlib.Path, fault: str, code: int, message: str
) -> None:
    done = run_with(command, plugin, fault, tmp_path)
    assert done.returncode == code, done.stderr
    assert message in done.stderr
    assert not done.stdout


def test_a_kernel_that_recovers_has_not_failed(
    command: str, plugin: pathlib.Path, tmp_path: pathlib.Path
) -> None:
    done = run_with(command, plugin, "recovers", tmp_path)
    assert done.returncode == 0 and "27" in done.stdout, done.stderr
