"""Optimizers with the names, signatures and state of torch.optim's: SGD, Adam, AdamW, RMSprop,
Adagrad.

Parameters are rushlight's tensors, or torch's if torch is imported.  Groups and states are plain
Python objects, as in torch.optim, so a `state_dict` of one is a `state_dict` of the other.  A step
is one operator for a group, which passes over the memory of each parameter once (`_fused_adam_` and
its like).
"""

from __future__ import annotations

import copy
import sys
from collections.abc import Callable, Iterable, Iterator, MutableMapping
from typing import Any

from . import _rushlight, grad_mode, ops

__all__ = ["SGD", "Adagrad", "Adam", "AdamW", "Optimizer", "RMSprop"]

_Params = Iterable[Any]


def _is_tensor(value: Any) -> bool:
    torch = sys.modules.get("torch")
    return isinstance(value, _rushlight.Tensor) or (
        torch is not None and isinstance(value, torch.Tensor)
    )


def _key(param: Any) -> Any:
    """Return what identifies a parameter: several objects of ours may stand for one tensor."""
    return _rushlight._address(param) if isinstance(param, _rushlight.Tensor) else param


class _State(MutableMapping[Any, dict[str, Any]]):
    """A dict of tensors for each parameter, made when it is first asked for.

    `_rows` keeps them by the tensor's address.  `_found` has the same rows by the id of the object
    in the row, which lives as long as the row: a step asks for the same objects every time, and
    this finds them five times as fast."""

    def __init__(self) -> None:
        self._rows: dict[Any, tuple[Any, dict[str, Any]]] = {}
        self._found: dict[int, dict[str, Any]] = {}

    def __getstate__(self) -> list[tuple[Any, dict[str, Any]]]:
        return list(self._rows.values())

    def __setstate__(self, rows: list[tuple[Any, dict[str, Any]]]) -> None:
        self._rows = {_key(param): (param, state) for param, state in rows}
        self._found = {}

    def __getitem__(self, param: Any) -> dict[str, Any]:
        state = self._found.get(id(param))
        if state is None:
            known, state = self._rows.setdefault(_key(param), (param, {}))
            if known is param:
                self._found[id(param)] = state
        return state

    def __setitem__(self, param: Any, state: dict[str, Any]) -> None:
        self._rows[_key(param)] = (param, state)
        self._found.clear()

    def __delitem__(self, param: Any) -> None:
        del self._rows[_key(param)]
        self._found.clear()

    def __contains__(self, param: object) -> bool:
        return _key(param) in self._rows

    def __iter__(self) -> Iterator[Any]:
        return (param for param, _ in self._rows.values())

    def __len__(self) -> int:
        return len(self._rows)


def _number(x: Any) -> float:
    return float(x)


class Optimizer:
    """Groups of parameters, their options and their state.

    `param_groups` is a list of dicts with the key "params" and the options, which may be changed
    between steps; `state` has a dict of tensors for each parameter.
    """

    def __init__(self, params: _Params, defaults: dict[str, Any]) -> None:
        if _is_tensor(params):
            raise TypeError(
                "params argument given to the optimizer should be an iterable of Tensors or dicts, "
                f"but got {type(params).__name__}"
            )
        if defaults.get("differentiable"):
            raise NotImplementedError(
                "steps are not recorded: differentiable=True is not supported"
            )
        self.defaults = defaults
        self.state = _State()
        self.param_groups: list[dict[str, Any]] = []
        groups = list(params)
        if not groups:
            raise ValueError("optimizer got an empty parameter list")
        if not isinstance(groups[0], dict):
            groups = [{"params": groups}]
        for group in groups:
            self.add_param_group(group)

    def __repr__(self) -> str:
        text = type(self).__name__ + " ("
        for i, group in enumerate(self.param_groups):
            text += f"\nParameter Group {i}\n"
            text += "".join(f"    {k}: {group[k]}\n" for k in sorted(group) if k != "params")
        return text + ")"

    def __getstate__(self) -> dict[str, Any]:
        return {
            "defaults": self.defaults,
            "state": self.state,
            "param_groups": self.param_groups,
        }

    def add_param_group(self, param_group: dict[str, Any]) -> None:
        """Add parameters with options of their own; what the dict lacks has the defaults."""
        if not isinstance(param_group, dict):
            raise TypeError(f"param_group must be a dict, but got {type(param_group)}")
        group = dict(param_group)
        params = group["params"]
        if isinstance(params, set):
            raise TypeError(
                "optimizer parameters need to be organized in ordered collections, but the "
                "ordering of tensors in sets will change between runs. Please use a list instead."
            )
        params = [params] if _is_tensor(params) else list(params)
        if params and isinstance(params[0], tuple):
            group["param_names"] = [name for name, _ in params]
            params = [param for _, param in params]
        for param in params:
            self._check_param(param)
        group["params"] = params
        for name, default in self.defaults.items():
            group.setdefault(name, default)
        keys = {_key(p) for p in params}
        taken = {_key(p) for g in self.param_groups for p in g["params"]}
        if taken & keys or len(keys) != len(params):
            raise ValueError("some parameters appear in more than one parameter group")
        self.param_groups.append(group)
        self._begin(group)

    def _check_param(self, param: Any) -> None:
        if not _is_tensor(param):
            raise TypeError(
                f"optimizer can only optimize Tensors, but one of the params is "
                f"{type(param).__name__}"
            )
        if not (param.is_leaf or param.retains_grad):
            raise ValueError("can't optimize a non-leaf Tensor")

    def _begin(self, group: dict[str, Any]) -> None:
        """Make the states that exist before the first step."""

    def zero_grad(self, set_to_none: bool = True) -> None:
        """Remove the gradients of all parameters, or fill them with zeros."""
        for group in self.param_groups:
            for param in group["params"]:
                if param.grad is None:
                    continue
                if set_to_none:
                    param.grad = None
                else:
                    with grad_mode.no_grad():
                        param.grad = ops.aten.zeros_like(param.grad)

    def step(self, closure: Callable[[], Any] | None = None) -> Any:
        """Update the parameters that have a gradient.  `closure` computes the loss again, and its
        gradients; the loss is returned."""
        loss = None
        if closure is not None:
            with grad_mode.enable_grad():
                loss = closure()
        for group in self.param_groups:  # these operators are not recorded: no grad mode to set
            pairs = [(p, g) for p in group["params"] if (g := p.grad) is not None]
            if pairs:
                self._step(group, [p for p, _ in pairs], [g for _, g in pairs])
        return loss

    def _step(self, group: dict[str, Any], params: list[Any], grads: list[Any]) -> None:
        raise NotImplementedError

    def _states(self, params: list[Any], *names: str) -> list[list[Any]]:
        """Return the states of each name, made at their first use; none of the name ""."""
        rows = [self.state[param] for param in params]
        for param, row in zip(params, rows, strict=True):
            for name in names:
                if name and row.get(name) is None:
                    row[name] = self._made(param, name)
        return [[row[name] for row in rows] if name else [] for name in names]

    def _made(self, param: Any, name: str) -> Any:
        """Return a new state: the number of steps so far, or zeros."""
        if name == "step":
            return ops.aten.new_zeros(param, [], dtype=_rushlight.float32)
        return ops.aten.full_like(param, 0)

    def _counted(self, steps: list[Any]) -> list[Any]:
        """Count this step in the numbers of steps, which are tensors as in torch.optim."""
        ops.aten._foreach_add_.Scalar(steps, 1)
        return steps

    # -- State -------------------------------------------------------------------------------------

    def state_dict(self) -> dict[str, Any]:
        """Return the state in torch.optim's layout; its tensors are the optimizer's own."""
        params = [p for group in self.param_groups for p in group["params"]]
        number = {_key(p): i for i, p in enumerate(params)}
        groups = []
        for group in self.param_groups:
            packed = {k: v for k, v in group.items() if k != "params"}
            packed["params"] = [number[_key(p)] for p in group["params"]]
            groups.append(packed)
        state = {number[_key(p)]: self.state[p] for p in params if p in self.state}
        return {"state": state, "param_groups": groups}

    def load_state_dict(self, state_dict: dict[str, Any]) -> None:
        """Take options and state from a `state_dict` of this class or of torch.optim's; tensors are
        copied."""
        saved = state_dict["param_groups"]
        if len(saved) != len(self.param_groups):
            raise ValueError("loaded state dict has a different number of parameter groups")
        for ours, theirs in zip(self.param_groups, saved, strict=True):
            if len(ours["params"]) != len(theirs["params"]):
                raise ValueError(
                    "loaded state dict contains a parameter group that doesn't match the size of "
                    "optimizer's group"
                )
        ids = [i for group in saved for i in group["params"]]
        params = [p for group in self.param_groups for p in group["params"]]
        of_id = dict(zip(ids, params, strict=True))
        state = _State()
        for i, values in state_dict["state"].items():
            param = of_id.get(i)
            if param is None:
                raise ValueError(f"the state of a parameter {i!r}, which is in no group")
            state[param] = {k: self._copied(param, k, v) for k, v in values.items()}
        for ours, theirs in zip(self.param_groups, saved, strict=True):
            params = ours["params"]
            ours.clear()
            ours.update(self.defaults)
            ours.update(copy.deepcopy({k: v for k, v in theirs.items() if k != "params"}))
            ours["params"] = params
        self.state = state

    def _copied(self, param: Any, name: str, value: Any) -> Any:
        """Return a copy of a saved value: a tensor of the parameter's kind and dtype, but for the
        number of the step."""
        if name != "step" and not _is_tensor(value):
            return copy.deepcopy(value)
        if name != "step" and list(value.shape) != list(param.shape):
            raise ValueError(
                f"'{name}' of a parameter of sizes {list(param.shape)} has sizes "
                f"{list(value.shape)}: expected the same"
            )
        made = self._made(param, name)
        return (ops.aten.copy_ if _is_tensor(value) else ops.aten.fill_)(made, value)


def _check(least: dict[str, Any]) -> None:
    """Refuse numbers below 0, in torch.optim's words."""
    for what, x in least.items():
        if not 0.0 <= _number(x):
            raise ValueError(f"Invalid {what}: {x}")


class SGD(Optimizer):
    """Stochastic gradient descent, with momentum, as torch.optim.SGD."""

    def __init__(
        self,
        params: _Params,
        lr: Any = 1e-3,
        momentum: float = 0,
        dampening: float = 0,
        weight_decay: Any = 0,
        nesterov: bool = False,
        *,
        maximize: bool = False,
        foreach: bool | None = None,
        differentiable: bool = False,
        fused: bool | None = None,
    ) -> None:
        _check(
            {"learning rate": lr, "momentum value": momentum, "weight_decay value": weight_decay}
        )
        if nesterov and (momentum <= 0 or dampening != 0):
            raise ValueError("Nesterov momentum requires a momentum and zero dampening")
        defaults = {
            "lr": lr,
            "momentum": momentum,
            "dampening": dampening,
            "weight_decay": weight_decay,
            "nesterov": nesterov,
            "maximize": maximize,
            "foreach": foreach,
            "differentiable": differentiable,
            "fused": fused,
        }
        super().__init__(params, defaults)

    def _step(self, group: dict[str, Any], params: list[Any], grads: list[Any]) -> None:
        if group["momentum"] == 0:
            return self._update(group, params, grads, [], False)
        buffers = [self.state[p].get("momentum_buffer") for p in params]
        fresh = [b is None for b in buffers]
        if not any(fresh):
            return self._update(group, params, grads, buffers, False)
        for is_first in (True, False):
            rows = [
                (p, g) for p, g, new in zip(params, grads, fresh, strict=True) if new is is_first
            ]
            if rows:
                tensors = [p for p, _ in rows]
                (buffers,) = self._states(tensors, "momentum_buffer")
                self._update(group, tensors, [g for _, g in rows], buffers, is_first)
        return None

    def _update(
        self,
        group: dict[str, Any],
        params: list[Any],
        grads: list[Any],
        buffers: list[Any],
        is_first: bool,
    ) -> None:
        ops.aten._fused_sgd_.default(
            params,
            grads,
            buffers,
            weight_decay=_number(group["weight_decay"]),
            momentum=_number(group["momentum"]),
            lr=_number(group["lr"]),
            dampening=_number(group["dampening"]),
            nesterov=bool(group["nesterov"]),
            maximize=bool(group["maximize"]),
            is_first_step=is_first,
        )


class Adam(Optimizer):
    """Adam, as torch.optim.Adam."""

    def __init__(
        self,
        params: _Params,
        lr: Any = 1e-3,
        betas: tuple[Any, Any] = (0.9, 0.999),
        eps: float = 1e-8,
        weight_decay: float = 0,
        amsgrad: bool = False,
        *,
        foreach: bool | None = None,
        maximize: bool = False,
        capturable: bool = False,
        differentiable: bool = False,
        fused: bool | None = None,
        decoupled_weight_decay: bool = False,
    ) -> None:
        _check({"learning rate": lr, "epsilon value": eps})
        for i, beta in enumerate(betas):
            if not 0.0 <= _number(beta) < 1.0:
                raise ValueError(f"Invalid beta parameter at index {i}: {beta}")
        _check({"weight_decay value": weight_decay})
        defaults = {
            "lr": lr,
            "betas": betas,
            "eps": eps,
            "weight_decay": weight_decay,
            "amsgrad": amsgrad,
            "maximize": maximize,
            "foreach": foreach,
            "capturable": capturable,
            "differentiable": differentiable,
            "fused": fused,
            "decoupled_weight_decay": decoupled_weight_decay,
        }
        super().__init__(params, defaults)

    def _step(self, group: dict[str, Any], params: list[Any], grads: list[Any]) -> None:
        amsgrad = bool(group["amsgrad"])
        most = "max_exp_avg_sq" if amsgrad else ""
        steps, *states = self._states(params, "step", "exp_avg", "exp_avg_sq", most)
        decoupled = group["decoupled_weight_decay"]
        (ops.aten._fused_adamw_ if decoupled else ops.aten._fused_adam_).default(
            params,
            grads,
            *states,
            self._counted(steps),
            lr=_number(group["lr"]),
            beta1=_number(group["betas"][0]),
            beta2=_number(group["betas"][1]),
            weight_decay=_number(group["weight_decay"]),
            eps=_number(group["eps"]),
            amsgrad=amsgrad,
            maximize=bool(group["maximize"]),
        )


class AdamW(Adam):
    """Adam with decoupled weight decay, as torch.optim.AdamW."""

    def __init__(
        self,
        params: _Params,
        lr: Any = 1e-3,
        betas: tuple[Any, Any] = (0.9, 0.999),
        eps: float = 1e-8,
        weight_decay: float = 1e-2,
        amsgrad: bool = False,
        *,
        maximize: bool = False,
        foreach: bool | None = None,
        capturable: bool = False,
        differentiable: bool = False,
        fused: bool | None = None,
    ) -> None:
        super().__init__(
            params,
            lr,
            betas,
            eps,
            weight_decay,
            amsgrad,
            foreach=foreach,
            maximize=maximize,
            capturable=capturable,
            differentiable=differentiable,
            fused=fused,
            decoupled_weight_decay=True,
        )


class RMSprop(Optimizer):
    """RMSprop, as torch.optim.RMSprop."""

    def __init__(
        self,
        params: _Params,
        lr: Any = 1e-2,
        alpha: float = 0.99,
        eps: float = 1e-8,
        weight_decay: float = 0,
        momentum: float = 0,
        centered: bool = False,
        capturable: bool = False,
        foreach: bool | None = None,
        maximize: bool = False,
        differentiable: bool = False,
    ) -> None:
        _check(
            {
                "learning rate": lr,
                "epsilon value": eps,
                "momentum value": momentum,
                "weight_decay value": weight_decay,
                "alpha value": alpha,
            }
        )
        defaults = {
            "lr": lr,
            "momentum": momentum,
            "alpha": alpha,
            "eps": eps,
            "centered": centered,
            "weight_decay": weight_decay,
            "capturable": capturable,
            "foreach": foreach,
            "maximize": maximize,
            "differentiable": differentiable,
        }
        super().__init__(params, defaults)

    def _step(self, group: dict[str, Any], params: list[Any], grads: list[Any]) -> None:
        momentum, centered = _number(group["momentum"]), bool(group["centered"])
        steps, *states = self._states(
            params,
            "step",
            "square_avg",
            "momentum_buffer" if momentum > 0 else "",
            "grad_avg" if centered else "",
        )
        self._counted(steps)
        ops.rushlight._fused_rmsprop_.default(
            params,
            grads,
            *states,
            lr=_number(group["lr"]),
            alpha=_number(group["alpha"]),
            eps=_number(group["eps"]),
            weight_decay=_number(group["weight_decay"]),
            momentum=momentum,
            centered=centered,
            maximize=bool(group["maximize"]),
        )


class Adagrad(Optimizer):
    """Adagrad, as torch.optim.Adagrad."""

    def __init__(
        self,
        params: _Params,
        lr: Any = 1e-2,
        lr_decay: float = 0,
        weight_decay: float = 0,
        initial_accumulator_value: float = 0,
        eps: float = 1e-10,
        foreach: bool | None = None,
        *,
        maximize: bool = False,
        differentiable: bool = False,
        fused: bool | None = None,
    ) -> None:
        _check(
            {
                "learning rate": lr,
                "lr_decay value": lr_decay,
                "weight_decay value": weight_decay,
                "initial_accumulator_value value": initial_accumulator_value,
                "epsilon value": eps,
            }
        )
        defaults = {
            "lr": lr,
            "lr_decay": lr_decay,
            "eps": eps,
            "weight_decay": weight_decay,
            "initial_accumulator_value": initial_accumulator_value,
            "foreach": foreach,
            "maximize": maximize,
            "differentiable": differentiable,
            "fused": fused,
        }
        super().__init__(params, defaults)

    def _begin(self, group: dict[str, Any]) -> None:
        for param in group["params"]:
            self.state[param] = {
                "step": self._made(param, "step"),
                "sum": ops.aten.full_like(param, group["initial_accumulator_value"]),
            }

    def _step(self, group: dict[str, Any], params: list[Any], grads: list[Any]) -> None:
        steps, sums = self._states(params, "step", "sum")
        ops.aten._fused_adagrad_.default(
            params,
            grads,
            sums,
            self._counted(steps),
            lr=_number(group["lr"]),
            lr_decay=_number(group["lr_decay"]),
            weight_decay=_number(group["weight_decay"]),
            eps=_number(group["eps"]),
            maximize=bool(group["maximize"]),
        )
