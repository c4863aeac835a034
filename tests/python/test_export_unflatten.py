"""rushlight.export.unflatten: the modules that a program was made from, which compute the same."""

from __future__ import annotations

import copy
import pathlib
import warnings
from typing import Any

import pytest
from conftest import DATA
from rushlight import export

try:
    import exported_programs
    import torch
except ImportError:
    NAMES: list[str] = []
else:
    NAMES = exported_programs.NAMES

# What an interpreter of nodes does not run: autocast, torch's own vmap, objects of torch ...
REFUSED = {
    "assembly": "inline_asm_elementwise",
    "custom_objects": "is a custom object",
    "dtypes_of_results": "out_dtype",
    "functional_mutation": "auto_functionalized_v2",
    "functional_mutation_by_name": "auto_functionalized",
    "functional_mutation_of_views": "auto_functionalized_v2",
    "lists_mapped": "foreach_map",
    "regions": "wrap_with_autocast",
    "samples": "predispatch",
    "saved_generators": "run_and_save_rng_state",
    "stacked_loops": "while_loop_stack_output",
    "scans": "predispatch",
}
JOINT = ("gradients", "input_gradients")  # with a backward pass


def flat(value: Any) -> list[Any]:
    if isinstance(value, dict):
        return [list(value), *(leaf for item in value.values() for leaf in flat(item))]
    if isinstance(value, (list, tuple)):
        return [len(value), *(leaf for item in value for leaf in flat(item))]
    return [value]


def close(a: Any, b: Any) -> bool:
    """True if the results are the same but for the last bits, which fused operators differ in."""
    if not hasattr(a, "shape"):
        return a == b or a != a
    kinds = (a.dtype, tuple(a.shape)) == (b.dtype, tuple(b.shape))
    return kinds and str(a.dtype) in str(b.dtype) and bool(a.allclose(b, 1e-4, 1e-5, True))


def check_results(program: Any) -> None:
    args, kwargs = program.example_inputs
    made = export.unflatten(program)
    found = made(*copy.deepcopy(args), **copy.deepcopy(kwargs))
    wanted = program.module()(*args, **kwargs)
    a, b = flat(found), flat(wanted)
    assert len(a) == len(b) and all(close(x, y) for x, y in zip(a, b, strict=True))


def test_the_state_is_a_copy() -> None:
    program = export.load(DATA / "exported.pt2")
    args, kwargs = program.example_inputs
    made = export.unflatten(program)
    before = int(program.state_dict["calls"])
    made(*args, **kwargs)
    made(*args, **kwargs)
    assert int(made.calls) == before + 2 and int(program.state_dict["calls"]) == before
    assert made.linear.weight is not program.state_dict["linear.weight"]
    assert made.linear(args[0]).shape[1] == 3  # flat values, in the order of their use
    with pytest.raises(TypeError, match="takes 1 values: x"):
        made.linear()
    with pytest.raises(RuntimeError, match="to be equal to 4, but got 3"):
        made(args[0][:, :3], **kwargs)


def test_tied_weights_stay_so() -> None:
    made = export.unflatten(export.load(DATA / "exports" / "state.pt2"))
    assert made.embedding.weight is made.linear.weight
    assert [name for name, _ in made.named_parameters()] == ["embedding.weight"]
    assert list(made.state_dict()) == ["embedding.weight", "linear.weight"]


# -- With PyTorch --


def check_structure(path: pathlib.Path) -> bool:
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")
        ours = export.load(path)
        try:
            theirs = torch.export.unflatten(torch.export.load(path))
        except ValueError:  # PyTorch cannot
            return False
    made = export.unflatten(ours)
    modules = {n for n, m in theirs.named_modules() if not isinstance(m, torch.fx.GraphModule)}
    assert {name for name, _ in made.named_modules()} == modules
    for part in ("named_parameters", "named_buffers"):
        a, b = dict(getattr(made, part)()), dict(getattr(theirs, part)())
        assert a.keys() == b.keys()
        assert all(torch.equal(a[n].isnan(), b[n].isnan()) for n in b)
        assert all(torch.allclose(a[n], b[n], 0, 0, equal_nan=True) for n in b)
    assert made.state_dict().keys() == theirs.state_dict().keys()
    return True


def saved(name: str, folder: pathlib.Path) -> pathlib.Path:
    path = folder / f"{name}.pt2"
    torch.export.save(exported_programs.make(name), path)
    return path


@pytest.mark.parametrize("name", NAMES)
def test_structure(name: str, tmp_path: pathlib.Path) -> None:
    assert check_structure(saved(name, tmp_path)) != (name in JOINT)


@pytest.mark.parametrize("name", NAMES)
def test_results(name: str, tmp_path: pathlib.Path) -> None:
    program = export.load(saved(name, tmp_path))
    if name in JOINT:
        with pytest.raises(ValueError, match="Unflattening on JointExportModule NYI"):
            export.unflatten(program)
    elif name in REFUSED:
        with pytest.raises(NotImplementedError, match=REFUSED[name]):
            check_results(program)
    else:
        check_results(program)


@pytest.mark.skipif(not NAMES, reason="needs torch")
def test_the_corpus(corpus: pathlib.Path) -> None:
    found = sorted(corpus.rglob("model.pt2"))
    assert found
    n = 0
    for path in found:
        n += check_structure(path)
        if path.parent.name.partition(".")[0] not in ("random", "vae"):  # they draw numbers
            check_results(export.load(path))
    assert n >= len(found) - 1


@pytest.mark.skipif(not NAMES, reason="needs torch")
def test_parts(tmp_path: pathlib.Path) -> None:
    """A program whose modules keep how they are called."""
    made = export.unflatten(export.load(saved("kept_calls", tmp_path)))
    assert [name for name, _ in made.named_modules()] == ["", "a", "b", "b.0", "b.1"]
    assert [name for name, _ in made.named_parameters()] == ["b.1.weight", "b.1.bias"]
    assert [name for name, _ in made.b.named_parameters()] == ["1.weight", "1.bias"]
    assert list(made.state_dict()) == ["b.1.weight", "b.1.bias"]
    last = made.get_submodule("b.1")
    assert (
        last is made.b.get_submodule("1")
        and last.weight is dict(made.named_parameters())["b.1.weight"]
    )
    with pytest.raises(AttributeError, match="has no submodule 'c'"):
        made.get_submodule("c")
    x = torch.ones(*last.weight.shape[1:])
    assert close(made.a(x, k=3), x * 3) and close(made.b.get_submodule("0")(x), x * 2)
    assert close(made.b(x), last(x * 2))
    assert repr(made).splitlines()[1] == "  (a): UnflattenedPart()"
