"""Do the tests find faults?  Plants them one at a time in a copy of the sources, and looks.

    PYTHONPATH=build/python python tests/python/planted_faults.py [--only NAME ...]
    [--programs 2000] [--jobs 2] [--keep DIR]

Each fault is a small change of one file.  The copy is built with it, and the test that the fault
names runs with that build: a unit test, a file of tests/python, or random programs beside CPython
until one differs.  Prints a table; ends with 1 when a fault is not found.  A patch whose text is
not in its file exactly once is an error: write it anew for the code as it is now.  --keep builds in
DIR, which stays: a second run builds what changed.
"""

from __future__ import annotations

import argparse
import os
import pathlib
import re
import shutil
import subprocess
import sys
import tempfile
import time
from typing import NamedTuple

import random_run

ROOT = pathlib.Path(__file__).resolve().parents[2]


RANDOM = "random programs"


class Fault(NamedTuple):
    name: str
    what: str
    file: str
    old: str
    new: str
    # "unit run/operators": tests/run/test_operators.c; "test_tails.py -k sum": with pytest;
    # or RANDOM
    test: str = RANDOM


OPERATORS, GRAPHS = "unit run/operators", "unit passes/random_graphs"
SMALL_RUNS, SAME_RUNS = (
    "test_same_runs.py -k small_programs",
    "test_same_runs.py -k over_tensors",
)
FAULTS = (
    Fault(
        "swapped branch",
        "a conditional expression gives the other value",
        "src/script/emit/cond.c",
        "em_expr(e, i == 0 ? x->as.ternary.yes : x->as.ternary.no, hint)",
        "em_expr(e, i == 1 ? x->as.ternary.yes : x->as.ternary.no, hint)",
    ),
    Fault(
        "dropped write",
        "what an if assigns is not carried out of the block around it",
        "src/passes/ssa.c",
        "    set(s, sc, name, t, NULL);\n  }\n}\n\nstatic void carry_loop(",
        "  }\n}\n\nstatic void carry_loop(",
    ),
    Fault(
        "wrong alias",
        "list(x) is x",
        "src/ops/kernels/values/list.c",
        "  TRY(copy_list(call, call_list(call, 0), call_list(call, 0)->n, &c));\n  "
        "return_list(call, c);\n  return RUSH_OK;",
        "  (void)c;\n  call_return_arg(call, 0, 0);\n  return RUSH_OK;",
    ),
    Fault(
        "off by one",
        "a slice with a step lacks its last item when the step does not divide its length",
        "src/ops/point/scalar.c",
        "s < e ? (e - s - 1) / step + 1 : 0",
        "s < e ? (e - s) / step : 0",
    ),
    Fault(
        "insert index",
        "l.insert(-1, x) puts x at the end",
        "src/ops/kernels/values/list.c",
        "i = index_wrap(call_int(call, 1), l->n);\n  i = i < 0 ? 0 : i > n ? n : i;",
        "i = index_wrap(call_int(call, 1), l->n + 1);\n  i = i < 0 ? 0 : i > n ? n : i;",
    ),
    Fault(
        "continue",
        "continue leaves the loop",
        "src/passes/exits.c",
        "  if (n->kind == IR_BREAK_STMT) {",
        "  if (n->kind == IR_BREAK_STMT || n->kind == IR_CONTINUE_STMT) {",
    ),
    Fault(
        "division's sign",
        "a // b and a % b of a positive a and a negative b round to zero",
        "src/run/interp.c",
        "  *out = value_int(floor ? i64_floordiv(x, y) : i64_mod(x, y));",
        "  *out = value_int(y < 0 && x > 0 ? (floor ? x / y : x % y)\n"
        "                                  : floor ? i64_floordiv(x, y) : i64_mod(x, y));",
    ),
    Fault(
        "chained comparison",
        "a < b < c holds when one of both does",
        "src/script/emit/cond.c",
        "return emit_two(e, emit_chain(e, x, last - 1), one, false);",
        "return emit_two(e, emit_chain(e, x, last - 1), one, true);",
    ),
    Fault(
        "kept value",
        "d[k] = v keeps the value that k had",
        "src/value/dict.c",
        "    rush_value old = e->value;\n    e->value = value;\n",
        "    rush_value old = value;\n",
    ),
    Fault(
        "last use",
        "f(x, x) takes x out of its register at the first x",
        "src/run/bytecode.c",
        "if (d->plain || d->last != n || !is_final(n, i))",
        "if (d->plain || d->last != n)",
    ),
    Fault(
        "comparison after the moves",
        "a while loop's test reads variables of the next round",
        "src/run/bytecode_flow.c",
        "    if (is_written(m, l->n_carried, e->compared[i])) {",
        "    if (l->counted && is_written(m, l->n_carried, e->compared[i])) {",
    ),
    Fault(
        "dead code",
        "a list that is only put into another one counts as never read",
        "src/script/emit/cleanup.c",
        "if (n->kind != IR_OP || n->inputs[0] != u || (n->n_outputs && n->outputs[0]->uses))",
        "if (n->kind != IR_OP || (n->n_outputs && n->outputs[0]->uses))",
    ),
    Fault(
        "forgotten write",
        "the pass cse takes two reads for one although what they read is written between them",
        "src/passes/cse.c",
        "if (pass_is_pure(n) && !adds_gradients(n) && !written(c, n) && !merge(c, n))",
        "if (pass_is_pure(n) && !adds_gradients(n) && !merge(c, n))",
    ),
    Fault(
        "forgotten alias",
        "the alias analysis does not know that a branch's result is what the branch gave",
        "src/ir/alias.c",
        "      if (cond != (i ? YES : NO))\n        join_values(a, n->outputs[k], v);\n",
        "",
    ),
    Fault(
        "evaluation order",
        "x.a += e reads x.a after e",
        "src/script/emit/stmt.c",
        "  sugared base = sugar_value(object), attr = em_get_attr(e, &base, "
        "target->as.attr.name);\n"
        "  ir_value *old = em_as_value(e, &attr);\n"
        "  ir_value *v = augment(e, st->op, old, em_expr(e, st->as.aug.value, old->type));\n",
        "  ir_value *with = em_expr(e, st->as.aug.value, NULL);\n"
        "  sugared base = sugar_value(object), attr = em_get_attr(e, &base, "
        "target->as.attr.name);\n"
        "  ir_value *v = augment(e, st->op, em_as_value(e, &attr), with);\n",
    ),
    Fault(
        "way out of with",
        "a break, continue or return jumps over __exit__",
        "src/passes/exits.c",
        "  if (has_with)\n    make_with_blocks(s, g->block);",
        "  if (has_with && !g->block)\n    make_with_blocks(s, g->block);",
    ),
    Fault(
        "lost message",
        "an error made of one text says nothing",
        "src/script/emit/stmt.c",
        'n == 0   ? em_constant_str(e, "", 0)\n                            : n == 1 ? v[0]',
        'n <= 1   ? em_constant_str(e, "", 0)',
    ),
    Fault(
        "wrong end",
        "rpartition looks from the left",
        "src/ops/kernels/values/string.c",
        "partition(call, find_last(call, call_str(call, 0), sep), sep.len, true)",
        "partition(call, find_from(call, call_str(call, 0), sep, 0), sep.len, true)",
    ),
    Fault(
        "forgotten start",
        "enumerate counts from 0 whatever it is told",
        "src/script/emit/special_forms.c",
        "items[0].as.range.start = first;",
        "items[0].as.range.start = NULL;",
    ),
    Fault(
        "unseen scatter",
        "scatter_ writes and the version stays",
        "src/ops/kernels/index/scatter.c",
        "    (void)tensor_data_mut(target);\n",
        "",
        OPERATORS,
    ),
    Fault(
        "unseen index_put",
        "x[i] = y writes and the version stays",
        "src/ops/kernels/index/index.c",
        "walk_init(&w, item, tensor_data_mut(self), values->data);",
        "walk_init(&w, item, self->data, values->data);",
        OPERATORS,
    ),
    Fault(
        "borrowed default",
        "dict.setdefault gives a value that it did not retain",
        "src/ops/kernels/values/dict.c",
        "    call->results[0] = value_retain(*v);\n    return RUSH_OK;\n  }\n  "
        "TRY(kernel_dict_setitem(call));",
        "    call->results[0] = *v;\n    return RUSH_OK;\n  }\n  TRY(kernel_dict_setitem(call));",
        OPERATORS,
    ),
    Fault(
        "borrowed items",
        "copies of lists do not retain their items",
        "src/ops/kernels/values/list.c",
        "l->items[l->n++] = value_retain(from->items[start + (int64_t)i * step]);",
        "l->items[l->n++] = from->items[start + (int64_t)i * step];",
        OPERATORS,
    ),
    Fault(
        "kept item",
        "del l[i] keeps a reference",
        "src/ops/kernels/values/list.c",
        "  value_release(take_item(l, i));\n",
        "  (void)take_item(l, i);\n",
        OPERATORS,
    ),
    Fault(
        "borrowed pair",
        "dict.items() does not retain the values in its tuples",
        "src/ops/kernels/values/dict.c",
        "  t->items[1] = value_retain(value);",
        "  t->items[1] = value;",
        OPERATORS,
    ),
    Fault(
        "lost write",
        "the alias analysis forgets a write when two groups become one",
        "src/ir/alias.c",
        "  a->written[low] |= a->written[high];\n",
        "",
        GRAPHS,
    ),
    Fault(
        "lost item",
        "the alias analysis does not know that what is put into a container can be reached by it",
        "src/ir/alias.c",
        "      join_values(a, container, ir_node_input(n, i)); /* is put into the container */",
        "      continue;",
        GRAPHS,
    ),
    Fault(
        "lost callee",
        "the alias analysis forgets what a called function writes to",
        "src/ir/alias.c",
        "    if (m->written[i])\n      write_group(a, own, WRITES_ALL);\n",
        "",
        GRAPHS,
    ),
    Fault(
        "fold's tail",
        "a reduction along a row leaves out the last element of an odd length",
        "src/ops/kernels/reduce/reduce_kernel.inc",
        "for (int a = 0; a < N_ACCS && n > 0; a++, n -= N_LANES, x += N_LANES) {",
        "for (int a = 0; a < N_ACCS && n > 1; a++, n -= N_LANES, x += N_LANES) {",
        "test_tails.py -k reductions",
    ),
    Fault(
        "columns' tail",
        "a reduction of columns leaves out the last one when it is alone",
        "src/ops/kernels/reduce/reduce_kernel.inc",
        "      if (c < n_cols) {",
        "      if (c + 1 < n_cols) {",
        "test_tails.py -k reductions",
    ),
    Fault(
        "pointwise tail",
        "a pointwise operator leaves out the last of 16 n + 1 elements",
        "src/ops/point/point_run.c",
        "unsigned fault = o->fn(end - begin, ",
        "unsigned fault = o->fn(end - begin - (end - begin > 32 && (end - begin) % 16 == 1), ",
        "test_tails.py -k pointwise",
    ),
    Fault(
        "taken buffer",
        "a result takes an argument's memory although a view of it lives on",
        "src/ops/call/call.c",
        "      !heap_is_unique(&t->st->h) ||\n",
        "",
        OPERATORS,
    ),
    Fault(
        "neighbour's last use",
        "a result takes an argument's memory when the argument before it dies",
        "src/ops/call/call.c",
        "!(c->last_use >> i & 1) || c->cx->no_reuse",
        "!(c->last_use >> (i ? i - 1 : i) & 1) || c->cx->no_reuse",
        "unit api/backend_table",
    ),
    Fault(
        "unchecked attribute",
        "a pickle's attribute may have another type than its class says",
        "src/archive/unpickle.c",
        "    if (!type_contains_value(t, v)) /* compiled code relies on declared types */",
        "    if (false && !type_contains_value(t, v)) /* compiled code relies on declared types */",
        "test_hostile.py -k attributes_of_another_type",
    ),
    Fault(
        "one too far",
        "the operators that write rows by index take the index behind the last row",
        "src/ops/kernels/index/index_dim.c",
        "    if (UNLIKELY(k < 0 || k >= x->size)) {",
        "    if (UNLIKELY(k < 0 || k > x->size)) {",
        OPERATORS,
    ),
    Fault(
        "missing lock",
        "a kernel draws random numbers without the generator's lock",
        "src/ops/kernels/random/random_ops.c",
        "  WORK_DO(&w, turn_begin(cx, g, &mine));",
        "  mine = (turn){.cx = cx, .g = g};",
        "unit api/threads_state",
    ),
    Fault(
        "silent write",
        "a program's write to an attribute does not move the epoch that plans look at",
        "src/run/interp.c",
        "  object_changed(R[I.a].as.object);\n",
        "",
        "test_plans.py -k write_attributes",
    ),
    Fault(
        "silent resize",
        "a tensor of state gets other sizes and the epoch stays",
        "src/tensor/tensor.c",
        "  (void)tensor_data_mut(t);\n  context_state_changed(t->h.ctx);\n",
        "  (void)tensor_data_mut(t);\n",
        "test_plans.py -k changes_its_sizes",
    ),
    Fault(
        "set and read",
        "a plan takes what an attribute held before the call, which sets it",
        "src/passes/specialise.c",
        "|| is_set(&r->may, o->type, name))",
        "|| (is_set(&r->may, o->type, name) && !o))",
        "test_plans.py -k write_attributes",
    ),
    Fault(
        "lost error",
        "a plan leaves out dead code that fails",
        "src/passes/specialise.c",
        "  g->keeps_errors = true;\n",
        "",
        "test_plans.py -k dead_code",
    ),
    Fault(
        "any size",
        "a plan made for some sizes runs for others",
        "src/run/executor.c",
        "t->sizes[i] != f->sizes[i]) ||",
        "t->sizes[i] < 0) ||",
        "test_plans.py -k asks_for",
    ),
    Fault(
        "moved geometry",
        "sizes are assumed although the call changes them in place",
        "src/passes/specialise.c",
        "    if (phases[i].needs_geometry && r->may.moves_geometry)",
        "    if (phases[i].needs_geometry && !g)",
        "test_plans.py -k change_in_the_call",
    ),
    Fault(
        "next round",
        "a snapshot leaves out what only the next round of a loop reads",
        "src/passes/points.c",
        "    if (p->levels[m].anchor->kind == IR_LOOP)\n      return true;",
        "    if (p->levels[m].anchor->kind == IR_LOOP)\n      return false;",
        "test_guards.py -k in_turn",
    ),
    Fault(
        "lost trips",
        "behind a bailout a loop has its count as number of trips",
        "src/run/bytecode_guards.c",
        "kept_operand(e, v) + is_trips);",
        "kept_operand(e, v));",
        "test_guards.py -k in_turn",
    ),
    Fault(
        "lent value",
        "a bailout does not retain what it takes over",
        "src/run/points.c",
        "      row[i] = value_retain(peek(f, *r.at++));",
        "      row[i] = peek(f, *r.at++);",
        "test_guards.py -k in_turn",
    ),
    Fault(
        "kept registers",
        "a bailout forgets the plan's registers without releasing them",
        "src/run/points.c",
        "  release_registers(f);\n",
        "  f->borrowed = 0;\n",
        "test_guards.py -k leaves_nothing",
    ),
    Fault(
        "no constants",
        "a replaced frame has the plan's constants",
        "src/run/points.c",
        "  memcpy(f->regs, to->constants, to->n_kregs * sizeof *f->regs);\n",
        "",
        "test_guards.py -k gets_wider",
    ),
    Fault(
        "unseen snapshot",
        "what a snapshot contains is taken for hidden in the plan",
        "src/passes/common.c",
        "    if (group != ALIAS_NO_MEMORY)\n      e->out[group] = true;\n",
        "    (void)group;\n",
        "test_guards.py -k share_stay_two",
    ),
    Fault(
        "list of two",
        "a snapshot that has a list twice builds two lists",
        "src/passes/points.c",
        "(times == 1 || v->node->kind == IR_TUPLE_CONSTRUCT);",
        "times;",
        "test_guards.py -k twice",
    ),
    Fault(
        "guarded sizes",
        "guards assume sizes that the call changes in place",
        "src/passes/specialise.c",
        "    sp->points.facts = NULL; /* they would hold only until then */",
        "    (void)sp;",
        "test_guards.py -k changed_in_place",
    ),
    Fault(
        "narrow union",
        "what two tensors have in common keeps the sizes of the first",
        "src/ir/facts.c",
        "    f.sizes[i] = both(a->sizes[i], b->sizes[i], IR_SIZE_UNKNOWN);",
        "    f.sizes[i] = a->sizes[i];",
        "test_plans.py -k changing_batch",
    ),
    Fault(
        "one type for two",
        "refined types that differ in strides alone are one type",
        "src/ir/facts.c",
        "    same.strides[i] = f->strides[i];",
        "    same.strides[i] = 0;",
        "test_graph_types.py",
    ),
    Fault(
        "rank of none",
        "an unknown number of dimensions is taken for a known one",
        "src/ir/facts.c",
        "  f.n_dims = (int8_t)both(a->n_dims, b->n_dims, -1);",
        "  f.n_dims = a->n_dims;",
        "test_plans.py -k unknown_rank",
    ),
    Fault(
        "wrong shape rule",
        "the sizes of a product of matrices are those of its first operand",
        "src/shape/rules_nn.inc",
        "    sizes[n++] = b->sizes[b->n_dims - 1];",
        "    sizes[n++] = a->sizes[a->n_dims - 1];",
        "test_shapes.py",
    ),
    Fault(
        "unread result",
        "a value dies at its first use",
        "src/run/bytecode_regs.c",
        "    if (n && (!i->last || n->order > i->last->order))",
        "    if (n && (!i->last || n->order < i->last->order))",
        SAME_RUNS,
    ),
    Fault(
        "kept in a loop",
        "a value used in a loop's body dies before the loop",
        "src/run/bytecode_regs.c",
        "  while (user && user->block != b)\n    user = user->block->owner;\n  return user;\n}\n\n"
        "bool used_inside",
        "  return user && user->block == b ? user : NULL;\n}\n\nbool used_inside",
        SAME_RUNS,
    ),
    Fault(
        "other capture",
        "a gradient reads the sizes of what it needs the values of",
        "src/autodiff/capture.c",
        "    of->is_read |= d->vjps[i];",
        "    of->is_read = d->vjps[i];",
        "test_autodiff.py",
    ),
    Fault(
        "another capture",
        "df takes a captured result where it expects another",
        "src/autodiff/capture.c",
        "    const uint32_t at = of_inputs ? c->in_f->index : output_of(d, c->in_f);",
        "    const uint32_t at = of_inputs ? (uint32_t)0 : output_of(d, c->in_f);",
        "test_autodiff.py",
    ),
    Fault(
        "results do not leave",
        "what a graph returns is not seen outside",
        "src/passes/common.c",
        "    uint32_t group = alias_group(a, ir_block_output(g->block, i));\n"
        "    if (group != ALIAS_NO_MEMORY)",
        "    uint32_t group = alias_group(a, ir_block_output(g->block, i));\n"
        "    if (group == ALIAS_CONSTANTS)",
        SMALL_RUNS,
    ),
    Fault(
        "shown header",
        "a value that a view of leaves counts as hidden",
        "src/passes/common.c",
        "    if (u->user->kind != IR_OP || returns_memory(o) ||",
        "    if (u->user->kind != IR_OP ||",
        SMALL_RUNS,
    ),
    Fault(
        "stale tensor",
        "a tensor attribute may get other sizes without a plan noticing",
        "src/passes/specialise.c",
        "!ir_facts_fit(reads[i].facts, now.as.tensor)",
        "now.as.tensor->dtype != (rush_dtype)reads[i].facts->dtype",
        "test_plans.py -k changes_its_sizes",
    ),
    Fault(
        "narrow plan stays",
        "a plan for other sizes is made for those of the call alone",
        "src/run/executor.c",
        "  *a = ir_facts_union(a, b);\n  return true;",
        "  return true;",
        "test_plans.py -k changing_batch",
    ),
    Fault(
        "any dtype",
        "a plan made for one dtype runs for another",
        "src/run/executor.c",
        "  if (t->dtype != f->dtype || t->n_dims != f->n_dims ||",
        "  if (t->n_dims != f->n_dims ||",
        "test_plans.py -k ranks_and_dtypes",
    ),
    Fault(
        "any layout",
        "a plan made for row-major tensors runs for others",
        "src/run/executor.c",
        "      (f->contiguous == 1 && !(t->h.flags & TENSOR_CONTIGUOUS)) ||\n",
        "",
        SMALL_RUNS,
    ),
    Fault(
        "tensor for None",
        "a plan made for None runs for a tensor",
        "src/run/executor.c",
        "  if (v.tag != RUSH_TAG_TENSOR || !t)\n    return f->defined == 0;",
        "  if (f->defined == 0)\n    return true;\n  if (v.tag != RUSH_TAG_TENSOR || !t)\n"
        "    return false;",
        "test_plans.py -k ranks_and_dtypes",
    ),
    Fault(
        "plan of other calls",
        "calls that record gradients run plans of calls that do not",
        "src/run/executor.c",
        "    if (p && p->is_recorded == is_recorded && !is_stale(p) && plan_fits(p, args) &&",
        "    if (p && !is_stale(p) && plan_fits(p, args) &&",
        SMALL_RUNS,
    ),
    Fault(
        "lost division",
        "a division whose result nothing uses does not fail",
        "src/run/bytecode.c",
        "  } else if (n->op->key == OPK_FLOORDIV_INT && n->outputs[0]->uses) {",
        "  } else if (n->op->key == OPK_FLOORDIV_INT) {",
        SMALL_RUNS,
    ),
    Fault(
        "merged records",
        "two equal operators are one although gradients are recorded",
        "src/passes/cse.c",
        "  return n->graph->is_recorded && n->kind == IR_OP && n->n_outputs &&",
        "  return false && n->graph->is_recorded && n->kind == IR_OP && n->n_outputs &&",
        SMALL_RUNS,
    ),
    Fault(
        "one result for two",
        "two equal results that leave are one tensor",
        "src/passes/cse.c",
        "!pass_is_hidden(a->outputs[i]) &&",
        "false &&",
        SMALL_RUNS,
    ),
    Fault(
        "one iteration less",
        "a loop of a known number of iterations is unrolled one time too few",
        "src/passes/unroll.c",
        "  for (int64_t i = 0; i < trips; i++)\n    iterate(s, n, n,",
        "  for (int64_t i = 0; i < trips - 1; i++)\n    iterate(s, n, n,",
        "test_plans.py -k without_self",
    ),
    Fault(
        "forgotten geometry",
        "a view in place does not tell that it changes sizes",
        "src/ops/table/view.py",
        'op(f"aten::{inplace}", family="view", results="rule", shape=rule, effects=["geometry"])',
        'op(f"aten::{inplace}", family="view", results="rule", shape=rule)',
        SMALL_RUNS,
    ),
    Fault(
        "missed deadline",
        "an instruction that jumps back does not look at the clock",
        "src/run/interp.c",
        "      if ((status = call_poll(cx)) != RUSH_OK)        \\",
        "      if ((status = RUSH_OK) != RUSH_OK)              \\",
        "test_limits.py -k deadline_is_kept",
    ),
    Fault(
        "instance: strides",
        "calls with other strides run with those of an earlier one",
        "src/ops/call/instance.c",
        "    if (t->strides[i] != k->sizes[n + i])\n      return false;",
        "    if (t->strides[i] < 0)\n      return false;",
        "test_instances.py",
    ),
    Fault(
        "instance: offset",
        "a view of a part is one of the whole",
        "src/ops/call/instance.c",
        "t->offset + r->offset + moved, out);",
        "r->offset + moved, out);",
        "test_instances.py",
    ),
    Fault(
        "instance: number",
        "calls with other numbers run with those of an earlier one",
        "src/ops/call/instance.c",
        "? args[i].as.i != k->value",
        "? args[i].as.i != k->value && args[i].tag != RUSH_TAG_FLOAT",
        "test_instances.py",
    ),
    Fault(
        "instance: index",
        "an index behind the end is not refused",
        "src/ops/call/instance.c",
        "(uint64_t)args[i].as.i >= (uint64_t)k->value",
        "(uint64_t)args[i].as.i > (uint64_t)k->value",
        "test_instances.py",
    ),
    Fault(
        "capture of another",
        "df reads the first captured result of f for any",
        "src/autodiff/variant.c",
        "      return n + i;",
        "      return n;",
        "test_training_plans.py -k random",
    ),
    Fault(
        "capture too wide",
        "what one gradient needed is freed for all",
        "src/autograd/backward.c",
        "  r->is_spent = all && !w->retain_graph;",
        "  r->is_spent = (all || true) && !w->retain_graph;",
        "test_autodiff.py -k only_what_ran",
    ),
    Fault(
        "capture of other sizes",
        "a derivative for certain sizes runs for others",
        "src/autodiff/node.c",
        "                (size_t)f.n_dims * sizeof *v->facts[i].sizes) != 0))",
        "                (size_t)f.n_dims * sizeof *v->facts[i].sizes) > 1000))",
        "test_training_plans.py -k changing_sizes",
    ),
    Fault(
        "order of adding",
        "an operator that is differentiated with others may pass other users of its tensors",
        "src/passes/adding_order.c",
        "      if (user && !is_member(g, user) && lo <= user->order && user->order < hi)",
        "      if (user && !is_member(g, user) && lo <= user->order && user->order < lo)",
        "test_training_plans.py -k random",
    ),
    Fault(
        "two results, one record",
        "a result that the program takes gradients of is in one record with what needs it",
        "src/passes/adding_order.c",
        "  return inside && outside && find_value(o, v)->is_handed_out;",
        "  return inside && outside && !find_value(o, v);",
        "test_training_plans.py -k another_one_needs",
    ),
    Fault(
        "a stale weight",
        "what is derived from weights is kept when a weight changes",
        "src/compile/derived.c",
        "memory_order_relaxed) == f->version",
        "memory_order_relaxed) != UINT32_MAX",
        "test_derived.py -k changes",
    ),
    Fault(
        "a shared result",
        "what is derived from weights is the same tensor in every call although it is returned",
        "src/passes/derive.c",
        "!d->escapes[group] || pass_is_hidden(v)",
        "d->follows[v->id]",
        "test_derived.py -k made_anew",
    ),
    Fault(
        "a draw moved",
        "operators that fail move over those that draw random numbers",
        "src/passes/group.c",
        "(OP_WRITES | OP_SIDE_EFFECT | OP_RANDOM) || op_waits",
        "(OP_WRITES | OP_SIDE_EFFECT) || op_waits",
        "test_same_runs.py -k small_programs",
    ),
    Fault(
        "one tensor, two arguments",
        "a graph is differentiated as one although two of its arguments are one tensor",
        "src/autodiff/node.c",
        "  if (!are_usual(n, args) || has_twins(n, args))",
        "  if (!are_usual(n, args) || (n->n_inputs > 64 && has_twins(n, args)))",
        "test_training_plans.py -k one_tensor",
    ),
)


def checked(command: list[str], cwd: pathlib.Path, env: dict[str, str] | None = None) -> str:
    done = subprocess.run(
        command, cwd=cwd, env=env, stdout=subprocess.PIPE, stderr=subprocess.STDOUT, text=True
    )
    if done.returncode:
        sys.exit(f"{' '.join(command)}: failed\n{done.stdout[-3000:]}")
    return done.stdout


def copy_sources(to: pathlib.Path) -> None:
    """Copy the tracked files of the working tree; a file that is the same keeps its time."""
    for name in checked(["git", "ls-files", "-z"], ROOT).split("\0"):
        source, target = ROOT / name, to / name
        if (
            not name
            or not source.is_file()
            or target.is_file()
            and target.read_bytes() == source.read_bytes()
        ):
            continue
        target.parent.mkdir(parents=True, exist_ok=True)
        shutil.copy(source, target)


class Builder:
    def __init__(self, root: pathlib.Path, jobs: int) -> None:
        self.root, self.build, self.jobs = root, root / "build-faults", jobs
        if not (self.build / "build.ninja").exists():
            env = dict(os.environ)
            env["PATH"] = (
                # the module is for this Python
                f"{pathlib.Path(sys.executable).parent}{os.pathsep}{env['PATH']}"
            )
            if shutil.which("ccache"):
                env["CC"] = f"ccache {env.get('CC', 'cc')}"
            checked(
                [
                    "meson",
                    "setup",
                    "build-faults",
                    "--buildtype=release",
                    "-Dwerror=false",
                    "-Dpython=enabled",
                ],
                root,
                env,
            )
        targets = checked(["ninja", "-t", "targets", "all"], self.build).splitlines()
        files = [line.rpartition(":")[0] for line in targets]
        self.module = next(
            f for f in files if f.startswith("python/rushlight/_rushlight.") and f.endswith(".so")
        )
        self.library = next(
            f
            for f in files
            if re.fullmatch(r"packaging/librushlight\.(so\.[0-9.]+|[0-9.]+\.dylib)", f)
        )
        os.environ["PYTHONPATH"] = str(self.build / "python")

    def make(self, tests: set[str]) -> None:
        """The module, and what the tests among them run."""
        units = [unit_program(t) for t in sorted(tests) if t.startswith("unit ")]
        library = (
            [self.library] if any(t.startswith("test_limits") for t in tests) else []
        )  # deadlines.py calls it
        made = ["python/rushlight/_names.py", self.module, *units, *library]
        checked(["ninja", f"-j{self.jobs}", *made], self.build)


def unit_program(test: str) -> str:
    return "tests/test_" + test.removeprefix("unit ").replace("/", "_")


def run_test(test: str, build: pathlib.Path) -> str:
    """How it failed; "" when it passed.  A test that hangs is one that failed."""
    root = build.parent
    env = dict(os.environ, RUSH_BUILD_DIR=str(build), RUSH_TEST_DATA=str(root / "tests" / "data"))
    if test.startswith("unit "):
        command = [str(build / unit_program(test))]
    else:
        name, *options = test.split()
        command = [
            sys.executable,
            "-m",
            "pytest",
            "-q",
            "-x",
            "-p",
            "no:cacheprovider",
            str(root / "tests" / "python" / name),
            *options,
        ]
    try:
        done = subprocess.run(
            command,
            cwd=root,
            env=env,
            stdout=subprocess.PIPE,
            stderr=subprocess.STDOUT,
            text=True,
            errors="replace",
            timeout=600,
            check=False,
        )
    except subprocess.TimeoutExpired:
        return "does not end"
    if done.returncode == 0:
        return ""
    lines = [line.removeprefix("E ").strip() for line in done.stdout.splitlines()]
    marks = (
        "is written",
        "references",
        "each call leaves",
        "changed",
        "moved",
        "said",
        "instead of",
        "Failed:",
        "Error",
        "DID NOT",
    )
    line = next(
        (line for line in lines if line[:1] != ">" and any(m in line for m in marks)),
        f"ends with {done.returncode}",
    )
    return line.rpartition("): ")[2][-110:]


def planted(root: pathlib.Path, fault: Fault) -> tuple[str, str]:
    """The file's text as it is, and with the fault."""
    text = (root / fault.file).read_text(encoding="utf-8")
    if text.count(fault.old) != 1:
        sys.exit(
            f"{fault.name}: the patch no longer applies: its text is {text.count(fault.old)} times "
            f"in {fault.file}"
        )
    return text, text.replace(fault.old, fault.new)


def look(fault: Fault, build: pathlib.Path, programs: int, jobs: int) -> tuple[str, str]:
    """By what it was found ("": it was not), and how it showed."""
    if fault.test != RANDOM:
        how = run_test(fault.test, build)
        return (fault.test if how else "", how)
    totals = random_run.run(
        1, programs, jobs, use_torch=False, until_found=True, batch=250, whole=True
    )
    first = min(totals.found, key=lambda f: f["done"], default=None)
    return (f"{first['done']} {RANDOM}", first["kind"]) if first else ("", "")


def check_clean(build: pathlib.Path, tests: set[str], jobs: int) -> None:
    """Without a fault nothing is found."""
    if (
        RANDOM in tests
        and random_run.run(1, 250, jobs, use_torch=False, until_found=True, whole=True).found
    ):
        sys.exit("programs differ without a fault")
    for test in sorted(tests - {RANDOM}):
        if how := run_test(test, build):
            sys.exit(f"{test} fails without a fault: {how}")


def main() -> int:
    p = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    p.add_argument("--only", nargs="+", help="faults by name")
    p.add_argument("--programs", type=int, default=2000, help="within which a fault must be found")
    p.add_argument("--jobs", type=int, default=2)
    p.add_argument("--keep", type=pathlib.Path, help="build here, and leave it")
    o = p.parse_args()
    faults = [f for f in FAULTS if not o.only or f.name in o.only]
    root = o.keep.resolve() if o.keep else pathlib.Path(tempfile.mkdtemp(prefix="planted_faults"))
    try:
        copy_sources(root)
        for f in faults:  # all of them before the long part
            planted(root, f)
        builder = Builder(root, o.jobs)
        tests = {f.test for f in faults}
        builder.make(tests)
        check_clean(builder.build, tests, o.jobs)
        print(f"{'fault':24}{'found by':46}{'seconds':>7}  what it does; how it shows", flush=True)
        missed = 0
        for f in faults:
            (text, faulty), start = planted(root, f), time.monotonic()
            try:
                (root / f.file).write_text(faulty, encoding="utf-8")
                builder.make({f.test})
                by, how = look(f, builder.build, o.programs, o.jobs)
            finally:
                (root / f.file).write_text(text, encoding="utf-8")
            missed += not by
            print(
                f"{f.name:24}{by or 'NOT FOUND':46}{time.monotonic() - start:>7.0f}  {f.what}; "
                f"{how}",
                flush=True,
            )
        print(f"{len(faults) - missed} of {len(faults)} faults found")
    finally:
        if not o.keep:
            shutil.rmtree(root)
    return 1 if missed else 0


if __name__ == "__main__":
    sys.exit(main())
