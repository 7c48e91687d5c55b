"""Optimizer: parameter groups, per-parameter state, hooks; the base of all algorithms.

In: parameters with gradients. Out: parameters changed in place. An algorithm describes the update
of one group as tensor expressions; that they are recorded, fused over all parameters and run at the
end of `step` is not its business.
"""

from __future__ import annotations

import functools
import itertools
import warnings
from collections import defaultdict
from collections.abc import Callable, Iterable
from copy import deepcopy
from typing import Any

import weft
from weft import Tensor
from weft.nn.hooks import RemovableHandle, add_hook
from weft.nn.module import clear_gradient, typename

Group = dict[str, Any]


class _Required:
    """Stands for a default that every group has to give."""

    def __repr__(self) -> str:
        return "<required parameter>"


required = _Required()


def _with_hooks(step: Callable[..., Any]) -> Callable[..., Any]:
    """A class's `step` with the hooks around it; afterwards everything recorded is run."""

    @functools.wraps(step)
    def hooked(self: Optimizer, *args: Any, **kwargs: Any) -> Any:
        for hook in list(self._step_pre_hooks.values()):
            changed = hook(self, args, kwargs)
            if changed is not None:
                args, kwargs = _checked_arguments(changed)
        result = step(self, *args, **kwargs)
        for hook in list(self._step_post_hooks.values()):
            hook(self, args, kwargs)
        self._steps_taken += 1
        weft.realize()
        return result

    return hooked


def _checked_arguments(changed: Any) -> Any:
    if isinstance(changed, tuple) and len(changed) == 2:
        return changed
    raise RuntimeError(
        f"step pre-hook must return None or a tuple of (new_args, new_kwargs), but got {changed}."
    )


class Optimizer:
    """Changes parameters by their gradients.

    `params` is an iterable of tensors, of (name, tensor) pairs, or of dictionaries with `params`
    and options of their own; `defaults` are the options of all others. Subclasses define
    `_update_group`, or `step` as a whole. Errors: ValueError for an empty list, a non-leaf, a
    parameter in two groups or an option out of range.
    """

    def __init__(self, params: Any, defaults: Group) -> None:
        if isinstance(params, Tensor):
            raise TypeError(
                "params argument given to the optimizer should be an iterable of Tensors or dicts, "
                f"but got {typename(params)}"
            )
        self.defaults = defaults
        self.state: defaultdict[Tensor, Group] = defaultdict(dict)
        self.param_groups: list[Group] = []
        self._step_pre_hooks: dict[int, Any] = {}
        self._step_post_hooks: dict[int, Any] = {}
        self._steps_taken = 0
        groups = list(params)
        if not groups:
            raise ValueError("optimizer got an empty parameter list")
        for group in groups if isinstance(groups[0], dict) else [{"params": groups}]:
            self.add_param_group(group)

    def __init_subclass__(cls, **options: Any) -> None:
        super().__init_subclass__(**options)
        if "step" in cls.__dict__:
            cls.step = _with_hooks(cls.__dict__["step"])  # type: ignore[method-assign]

    def __repr__(self) -> str:
        lines = [type(self).__name__ + " ("]
        for number, group in enumerate(self.param_groups):
            lines.append(f"Parameter Group {number}")
            lines += [f"    {key}: {group[key]}" for key in sorted(group) if key != "params"]
        return "\n".join(lines) + "\n)"

    # -- groups --------------------------------------------------------------------------------

    def add_param_group(self, param_group: Group) -> None:
        """Add parameters with options of their own; may be called in the middle of training."""
        if not isinstance(param_group, dict):
            raise TypeError(f"param_group must be a dict, but got {type(param_group)}")
        group = {**param_group, **_named_parameters(param_group["params"])}
        for parameter in group["params"]:
            _check_parameter(parameter)
        for name, default in self.defaults.items():
            if default is required and name not in group:
                raise ValueError(
                    "parameter group didn't specify a value of required optimization parameter "
                    f"{name}"
                )
            group.setdefault(name, default)
        added = {id(parameter) for parameter in group["params"]}
        if len(added) != len(group["params"]):
            warnings.warn(
                "optimizer contains a parameter group with duplicate parameters; in future, this "
                "will cause an error",
                stacklevel=3,
            )
        if added.intersection(id(p) for other in self.param_groups for p in other["params"]):
            raise ValueError("some parameters appear in more than one parameter group")
        self.param_groups.append(group)

    def zero_grad(self, set_to_none: bool = True) -> None:
        """Forget all gradients, or set them to zero."""
        for group in self.param_groups:
            for parameter in group["params"]:
                clear_gradient(parameter, set_to_none)

    # -- stepping ------------------------------------------------------------------------------

    def step(self, closure: Callable[[], Any] | None = None) -> Any:
        """Evaluate the closure with gradients, then update every group without; its result."""
        loss = None
        if closure is not None:
            with weft.enable_grad():
                loss = closure()
        for group in self.param_groups:
            with weft.set_grad_enabled(bool(group.get("differentiable", False))):
                self._update_group(group)
        return loss

    def _update_group(self, group: Group) -> None:
        """The algorithm: update the parameters of one group that have a gradient."""
        raise NotImplementedError(f"{type(self).__name__} defines neither step nor _update_group")

    def register_step_pre_hook(self, hook: Callable[..., Any]) -> RemovableHandle:
        """`hook(optimizer, args, kwargs)` before each step."""
        return add_hook(self._step_pre_hooks, hook)

    def register_step_post_hook(self, hook: Callable[..., Any]) -> RemovableHandle:
        """`hook(optimizer, args, kwargs)` after each step."""
        return add_hook(self._step_post_hooks, hook)

    # -- state ---------------------------------------------------------------------------------

    def _numbers(self) -> dict[int, int]:
        """The number of each parameter in state dictionaries, by id."""
        parameters = (p for group in self.param_groups for p in group["params"])
        numbers: dict[int, int] = {}
        for parameter in parameters:
            numbers.setdefault(id(parameter), len(numbers))
        return numbers

    def state_dict(self) -> Group:
        """State and options with parameters as numbers: `{"state": ..., "param_groups": ...}`."""
        numbers = self._numbers()
        groups = [
            {**group, "params": [numbers[id(parameter)] for parameter in group["params"]]}
            for group in self.param_groups
        ]
        state = {
            numbers[id(key)] if isinstance(key, Tensor) else key: value
            for key, value in self.state.items()
        }
        return {"state": state, "param_groups": groups}

    def load_state_dict(self, state_dict: Group) -> None:
        """Take over a state_dict; nothing is changed where it does not fit.

        Errors: ValueError for another number of groups or of parameters in a group.
        """
        groups = [dict(group) for group in state_dict["param_groups"]]
        if len(groups) != len(self.param_groups):
            raise ValueError("loaded state dict has a different number of parameter groups")
        pairs = list(zip(self.param_groups, groups, strict=True))
        if any(len(own["params"]) != len(new["params"]) for own, new in pairs):
            raise ValueError(
                "loaded state dict contains a parameter group that doesn't match the size of "
                "optimizer's group"
            )
        numbers = itertools.chain.from_iterable(group["params"] for group in groups)
        parameters = [p for group in self.param_groups for p in group["params"]]
        by_number = dict(zip(numbers, parameters, strict=True))
        state: defaultdict[Any, Any] = defaultdict(dict)
        for key, value in state_dict["state"].items():
            parameter = by_number.get(key)
            state[key if parameter is None else parameter] = _fitted(value, parameter)
        self.state = state
        for own, new in pairs:
            names = {"param_names": own["param_names"]} if "param_names" in own else {}
            options = {key: deepcopy(value) for key, value in new.items() if key != "params"}
            own.update({**options, **names})


# The base class is no subclass of its own: its `step` gets the hooks here.
Optimizer.step = _with_hooks(Optimizer.step)  # type: ignore[method-assign]


def _named_parameters(given: Any) -> Group:
    """A group's parameters as a list, and their names where (name, parameter) pairs were given."""
    if isinstance(given, Tensor):
        return {"params": [given]}
    if isinstance(given, set):
        raise TypeError(
            "optimizer parameters need to be organized in ordered collections, but the ordering of "
            "tensors in sets will change between runs. Please use a list instead."
        )
    parameters = list(given)
    if parameters and all(isinstance(entry, tuple) for entry in parameters):
        names, parameters = [n for n, _ in parameters], [p for _, p in parameters]
        return {"params": parameters, "param_names": names}
    return {"params": parameters}


def _check_parameter(parameter: Any) -> None:
    if not isinstance(parameter, Tensor):
        raise TypeError(
            f"optimizer can only optimize Tensors, but one of the params is {typename(parameter)}"
        )
    if not (parameter.is_leaf or parameter.retains_grad):
        raise ValueError("can't optimize a non-leaf Tensor")


def _fitted(value: Any, parameter: Tensor | None) -> Any:
    """Loaded state as this parameter needs it: copied, floating-point tensors in its dtype."""
    if isinstance(value, dict):
        return {key: _fitted_entry(key, entry, parameter) for key, entry in value.items()}
    return deepcopy(value)


def _fitted_entry(key: str, entry: Any, parameter: Tensor | None) -> Any:
    if not isinstance(entry, Tensor):
        return deepcopy(entry)
    if key == "step":  # PyTorch keeps it as a tensor
        return int(entry)
    if parameter is not None and parameter.is_floating_point():
        return entry.detach().to(parameter.dtype).clone()
    return entry.detach().clone()


def check_not_negative(**values: Any) -> None:
    """ValueError for an option below zero; underscores in its label are spaces."""
    for label, value in values.items():
        if not value >= 0.0:
            raise ValueError(f"Invalid {label.replace('_', ' ')}: {value}")


def gradients(group: Group) -> Iterable[tuple[Tensor, Tensor]]:
    """The parameters of a group that have a gradient, with it, negated to maximize."""
    maximize = group["maximize"]
    for parameter in group["params"]:
        gradient = parameter.grad
        if gradient is not None:
            yield parameter, -gradient if maximize else gradient
