"""Requirements of hooks: their signatures are checked against forward's before they become part of
a program."""

from __future__ import annotations

from typing import Any

from . import kinds


def _text(types: list[Any]) -> str:
    return f"Tuple[{', '.join(str(t) for t in types) or '()'}]"


def _elems(t: Any) -> list[Any] | None:
    return list(t.elems) if t.kind_number == kinds.T_TUPLE else None


def _check_input(given: Any, inputs: list[Any], what: str, story: str) -> None:
    elems = _elems(given)
    if elems is None:
        raise RuntimeError(
            f"{what} expected the input argument to be typed as a Tuple but found type: '{given}' "
            f"instead.\n{story}"
        )
    if not inputs and elems:
        raise RuntimeError(
            f"{what} was expecting Tuple[()] as the input type. Received type: "
            f"'{_text(elems)}'.\n{story}"
        )
    if len(elems) != len(inputs):
        raise RuntimeError(
            f"{what} has the wrong number of contained types for the input argument's Tuple. "
            f"Received type: '{_text(elems)}'.\n{story}"
        )
    if any(a is not b for a, b in zip(elems, inputs, strict=True)):
        raise RuntimeError(
            f"{what} has the wrong inner types for the input tuple argument. Received type: "
            f"'{_text(elems)}'.\n{story}"
        )


def _check_pre(f: Any, inputs: list[Any], annotated: bool, what: str, story: str) -> None:
    if len(f.arguments) != 2:
        raise RuntimeError(
            f"{what} was expected to only have exactly 2 inputs but it had {len(f.arguments)} "
            f"inputs. {story}"
        )
    _check_input(f.arguments[1][1], inputs, what, story)
    if not annotated:
        raise RuntimeError(
            f"{what} is missing a return annotation. Return annotations are required, please add "
            f"one.\n{story}"
        )
    result = f.result
    if result.kind_number == kinds.T_NONE or (
        len(inputs) == 1 and result is inputs[0] and _elems(result) is None
    ):
        return
    elems = _elems(result)
    if elems is None:
        raise RuntimeError(f"{what} returned the wrong type of: '{result}'.{story}")
    said = f"{what} returned the wrong type of: '{_text(elems)}'."
    if (
        len(inputs) == 1
        and _elems(inputs[0]) is not None
        and (len(elems) != 1 or elems[0] is not inputs[0])
    ):
        raise RuntimeError(
            f"{said} When forward has a single tuple input argument, the return needs to be 'None' "
            "or a nested tuple containing forward's input tuple argument as in: "
            f"'{_text(inputs)}'.\n{story}"
        )
    if len(elems) != len(inputs):
        raise RuntimeError(
            f"{said} The returned tuple contains the wrong number of contained types.\n{story}"
        )
    if any(a is not b for a, b in zip(elems, inputs, strict=True)):
        raise RuntimeError(f"{said} The returned tuple contains the wrong inner types.\n{story}")


def check_pre_hook(f: Any, name: str, module: str, inputs: list[Any], annotated: bool) -> None:
    """Check that f takes (self, inputs) and returns None or other inputs."""
    single = f"'{inputs[0]}', or " if len(inputs) == 1 else ""
    returns = f"'None', {single}'{_text(inputs)}'" if single else f"'None' or '{_text(inputs)}'"
    story = (
        f"This error occurred while scripting the forward pre-hook '{name}' on module '{module}'. "
        "If you did not want to script this pre-hook remove it from the original NN module before "
        f"scripting. Pre-hooks for module '{module}' are expected to have the following signature: "
        f"{name}(self, input: {_text(inputs)}) with a return type of either {returns}.\n"
    )
    _check_pre(f, inputs, annotated, f"Pre-hook '{name}' on module '{module}'", story)


def check_hook(f: Any, name: str, module: str, inputs: list[Any], output: Any) -> None:
    """Check that f takes (self, inputs, output) and returns another output."""
    what = f"Hook '{name}' on module '{module}'"
    story = (
        f"This error occurred while scripting the forward hook '{name}' on module {module}. If you "
        "did not want to script this hook remove it from the original NN module before scripting. "
        f"This hook was expected to have the following signature: {name}(self, input: "
        f"{_text(inputs)}, output: {output}). The type of the output arg is the returned type from "
        "either the forward method or the previous hook if it exists. Note that hooks can return "
        "anything, but if the hook is on a submodule the outer module is expecting the same return "
        "type as the submodule's forward.\n"
    )
    if len(f.arguments) != 3:
        raise RuntimeError(
            f"{what} was expected to only have exactly 3 inputs but it had {len(f.arguments)} "
            f"inputs. {story}"
        )
    _check_input(f.arguments[1][1], inputs, what, story)
    if f.arguments[2][1] is not output:
        raise RuntimeError(
            f"{what} has the wrong type for the output argument. Received type: "
            f"'{f.arguments[2][1]}'. Expected type: '{output}'.\n{story}"
        )
