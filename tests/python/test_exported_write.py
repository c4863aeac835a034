"""Exported programs that are read and written again: torch.export.load opens them and finds what
it finds in the original."""

from __future__ import annotations

import io
import json
import os
import pathlib
import subprocess
import warnings
import zipfile
from typing import Any

import pytest
import rushlight

DATA = pathlib.Path(__file__).resolve().parents[1] / "data"
COMMAND = pathlib.Path(os.environ["RUSH_BUILD_DIR"]) / "cli" / "rushlight"

try:
    import exported_programs
    import torch
except ImportError:
    NAMES: list[str] = []
else:
    NAMES = exported_programs.NAMES


def written(path: pathlib.Path, folder: pathlib.Path) -> pathlib.Path:
    """The archive as it is written; twice, with the same bytes."""
    made = folder / "written.pt2"
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")
        rushlight.load(path).save(made)
        assert rushlight.load(made).save_to_buffer() == made.read_bytes()
    return made


def records(path: pathlib.Path) -> dict[str, bytes]:
    """The archive's records, without its root and its identity."""
    with zipfile.ZipFile(path) as z:
        all_of = {name.split("/", 1)[1]: z.read(name) for name in z.namelist()}
    del all_of[".data/serialization_id"]
    return all_of


def changed(path: pathlib.Path, made: pathlib.Path, changes: dict[str, bytes]) -> pathlib.Path:
    """The archive with other or more records."""
    with zipfile.ZipFile(path) as from_, zipfile.ZipFile(made, "w") as to:
        root = from_.namelist()[0].split("/", 1)[0]
        for name in from_.namelist():
            to.writestr(name, changes.get(name.split("/", 1)[1], from_.read(name)))
        for name in set(changes) - {name.split("/", 1)[1] for name in from_.namelist()}:
            to.writestr(f"{root}/{name}", changes[name])
    return made


def shown(path: pathlib.Path) -> str:
    done = subprocess.run([COMMAND, "show", path, "--fx"], capture_output=True, text=True)
    assert done.returncode == 0, done.stderr
    return done.stdout


# -- Without PyTorch --


def test_records_are_as_they_were(tmp_path: pathlib.Path) -> None:
    path = DATA / "exported.pt2"
    made = written(path, tmp_path)
    assert shown(made) == shown(path)
    before, after = records(path), records(made)
    assert list(before) == list(after)
    for name, data in before.items():
        if name.endswith(".json"):
            assert json.loads(data) == json.loads(after[name])
        else:
            assert data == after[name]


def test_weights_are_aligned(tmp_path: pathlib.Path) -> None:
    made = written(DATA / "exported.pt2", tmp_path)
    with zipfile.ZipFile(made) as z:
        for info in z.infolist():
            head = made.read_bytes()[info.header_offset :]
            name, extra = (int.from_bytes(head[at : at + 2], "little") for at in (26, 28))
            assert (info.header_offset + 30 + name + extra) % 64 == 0


def test_what_is_not_known_is_kept(tmp_path: pathlib.Path) -> None:
    model = json.loads(records(DATA / "exported.pt2")["models/model.json"])
    graph = model["graph_module"]["graph"]
    model["schema_version"]["minor"] = 99
    for part in (model, model["graph_module"], graph, graph["nodes"][0]):
        part["later"] = {"x": [1, "é"]}
        part["more"] = 2
    path = changed(
        DATA / "exported.pt2",
        tmp_path / "newer.pt2",
        {
            "models/model.json": json.dumps(model).encode(),
            "models/other.json": b"{}",
            "data/what": b"?",
        },
    )
    after = records(written(path, tmp_path))
    assert json.loads(after["models/model.json"]) == model
    assert after["models/other.json"] == b"{}" and after["data/what"] == b"?"
    for view in ("--schema", "--fx", "--check"):  # the program is read twice for some
        done = subprocess.run([COMMAND, "show", path, view], capture_output=True, text=True)
        assert done.stderr.count("schema version 8.99 is newer") == 1


def test_texts_stay_texts(tmp_path: pathlib.Path) -> None:
    """A device's name that looks like a device with an index, and more."""
    model = json.loads(records(DATA / "exported.pt2")["models/model.json"])
    values = model["graph_module"]["graph"]["tensor_values"]
    device = {"type": 'a:1}, "x": {"y', "index": None}
    values["linear"]["device"] = device
    values["mul"]["device"] = {"type": "cuda", "index": 1}
    path = changed(
        DATA / "exported.pt2",
        tmp_path / "odd.pt2",
        {"models/model.json": json.dumps(model).encode()},
    )
    assert json.loads(records(written(path, tmp_path))["models/model.json"]) == model


def test_the_present_state_is_written(tmp_path: pathlib.Path) -> None:
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")
        module = rushlight.load(DATA / "exported.pt2")
        state = dict(module.named_buffers())
        state["calls"].add_(40)
        module.save(tmp_path / "later.pt2")
        again = dict(rushlight.load(tmp_path / "later.pt2").named_buffers())
    assert int(again["calls"]) == int(state["calls"])
    before, after = records(DATA / "exported.pt2"), records(tmp_path / "later.pt2")
    assert [name for name in before if before[name] != after[name] and ".json" not in name] == [
        "data/weights/weight_2"
    ]


def test_extra_files(tmp_path: pathlib.Path) -> None:
    module = rushlight.load(DATA / "exported.pt2")
    module.save(tmp_path / "extra.pt2", _extra_files={"notes.txt": "here"})
    assert records(tmp_path / "extra.pt2")["extra/notes.txt"] == b"here"


# -- With PyTorch --

KEPT = ("stack_trace", "nn_module_stack", "source_fn_stack", "torch_fn", "custom")


def known(t: Any) -> Any:
    """The tensor with numbers for what is no number."""
    return (torch.view_as_real(t.resolve_conj()) if t.is_complex() else t).detach().nan_to_num(7)


def same(a: Any, b: Any) -> bool:
    """True if the values are equal, and their tensors bit by bit."""
    a, b = (torch.utils._pytree.tree_flatten(v) for v in (a, b))
    return str(a[1]) == str(b[1]) and all(
        torch.equal(known(x), known(y))
        and (x.dtype, x.stride(), x.requires_grad) == (y.dtype, y.stride(), y.requires_grad)
        if isinstance(x, torch.Tensor)
        else torch._C._pickle_save(x) == torch._C._pickle_save(y)
        if isinstance(x, torch.ScriptObject)
        else x == y
        for x, y in zip(a[0], b[0], strict=True)
    )


def result(program: Any) -> Any:
    args, kwargs = program.example_inputs
    torch.manual_seed(0)
    try:
        return program.module()(*args, **kwargs)
    except Exception as error:  # what PyTorch cannot run, it cannot run afterwards
        return type(error).__name__


def check(path: pathlib.Path, folder: pathlib.Path) -> None:
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")
        a, b = torch.export.load(path), torch.export.load(written(path, folder))
    assert str(a) == str(b)
    assert str(a.graph) == str(b.graph)
    for one, other in zip(a.graph.nodes, b.graph.nodes, strict=True):
        assert [one.meta.get(k) for k in KEPT] == [other.meta.get(k) for k in KEPT]
    assert a.graph_signature == b.graph_signature
    assert str(a.range_constraints) == str(b.range_constraints)
    assert a.module_call_graph == b.module_call_graph
    assert a.verifiers == b.verifiers and a._guards_code == b._guards_code
    assert list(a.state_dict) == list(b.state_dict) and list(a.constants) == list(b.constants)
    assert [type(v) for v in a.state_dict.values()] == [type(v) for v in b.state_dict.values()]
    assert same(dict(a.state_dict), dict(b.state_dict)) and same(a.constants, b.constants)
    for p in (a.state_dict, b.state_dict):  # tied weights stay so
        p["storages"] = [v.untyped_storage().data_ptr() for v in p.values()]
    pointers = [p.pop("storages") for p in (a.state_dict, b.state_dict)]
    assert [[p.index(q) for q in p] for p in pointers][0] == [
        pointers[1].index(q) for q in pointers[1]
    ]
    assert (a.example_inputs is None) == (b.example_inputs is None)
    if a.example_inputs is not None:
        assert same(a.example_inputs, b.example_inputs)
        assert same(result(a), result(b))


def without_names(graph: dict[str, Any]) -> None:
    """Take out of the graph what older minors of the schema do not have."""
    for node in graph["nodes"]:
        node.pop("name", None)
        for given in node["inputs"]:
            given.pop("kind", None)
            if "as_graph" in given["arg"]:
                without_names(given["arg"]["as_graph"]["graph"])


@pytest.mark.parametrize("name", NAMES)
def test_programs(name: str, tmp_path: pathlib.Path) -> None:
    path = tmp_path / f"{name}.pt2"
    torch.export.save(exported_programs.make(name), path)
    check(path, tmp_path)
    model = json.loads(records(path)["models/model.json"])
    without_names(model["graph_module"]["graph"])
    model["schema_version"] = {"major": 8, "minor": 5}
    older = {"models/model.json": json.dumps(model).encode()}
    check(changed(path, tmp_path / "older.pt2", older), tmp_path)


@pytest.mark.skipif(not NAMES, reason="needs torch")
def test_pickled_weights(tmp_path: pathlib.Path) -> None:
    """As PyTorch writes subclasses of tensors: the pickle is kept."""
    path = tmp_path / "state.pt2"
    torch.export.save(exported_programs.make("state"), path)
    place = "data/weights/model_weights_config.json"
    before = records(path)
    config = json.loads(before[place])
    for entry in config["config"].values():
        entry["use_pickle"] = True
    pickle = io.BytesIO()
    weight = torch.export.load(path).state_dict["embedding.weight"]
    torch.save(weight, pickle)
    changes = {place: json.dumps(config).encode(), "data/weights/weight_0": pickle.getvalue()}
    pickled = changed(path, tmp_path / "pickled.pt2", changes)
    check(pickled, tmp_path)
    assert records(tmp_path / "written.pt2")["data/weights/weight_0"] == pickle.getvalue()
    ours, theirs = rushlight.load(pickled), torch.export.load(pickled).module()
    got = ours(rushlight.tensor([1, 2]))[0].detach()
    assert torch.allclose(torch.from_numpy(got.numpy()), theirs(torch.tensor([1, 2]))[0].detach())


@pytest.mark.skipif(not NAMES, reason="needs torch")
def test_custom_objects_are_kept_and_not_run(tmp_path: pathlib.Path) -> None:
    path = tmp_path / "object.pt2"
    torch.export.save(exported_programs.make("custom_objects"), path)
    made = written(path, tmp_path)
    kept = "data/constants/custom_obj_0"
    assert records(made)[kept] == records(path)[kept]
    module = rushlight.load(path)
    with pytest.raises(rushlight.Error, match="'packed' is a custom object: these cannot be run"):
        module(rushlight.ones(3, 4))


@pytest.mark.skipif(not NAMES, reason="needs torch")
def test_the_corpus(corpus: pathlib.Path, tmp_path: pathlib.Path) -> None:
    found = sorted(corpus.rglob("model.pt2"))
    assert found
    for path in found:
        check(path, tmp_path)


@pytest.mark.skipif(not NAMES, reason="needs torch")
def test_several_programs(tmp_path: pathlib.Path) -> None:
    from torch.export.pt2_archive._package import load_pt2, package_pt2

    path = tmp_path / "two.pt2"
    two = {name: exported_programs.make(name) for name in ("state", "branches")}
    package_pt2(str(path), exported_programs=two)
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")
        before = load_pt2(str(path)).exported_programs
        made = rushlight.load(path, program="branches").save_to_buffer()
        after = load_pt2(io.BytesIO(made)).exported_programs
    assert before.keys() == after.keys()
    for name, program in before.items():
        assert str(program) == str(after[name])
        assert same(dict(program.state_dict), dict(after[name].state_dict))
