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
from weft.errors import ArgumentError, ArgumentTypeError, GradientError, NotDefinedError
from weft.graph.edges import value_of
from weft.graph.handles import wrap_node
from weft.graph.mutation import put_back
from weft.graph.node import FAILED_STATE
from weft.graph.tape import last_sequence, leave_alone
from weft.nn.hooks import RemovableHandle, add_hook
from weft.nn.moving import clear_gradient
from weft.nn.refusals import typename
from weft.runtime.interrupts import uninterrupted

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
        before = _Before(self)
        result = step(self, *args, **kwargs)
        for hook in list(self._step_post_hooks.values()):
            hook(self, args, kwargs)
        self._steps_taken += 1
        weft.realize()
        before.check()
        return result

    return hooked


class _Before:
    """Parameters and state as a step found them. A gradient may fail when it is computed (an index out of range): then
    they are put back, and the error is raised."""

    def __init__(self, optimizer: Optimizer) -> None:
        self.optimizer = optimizer
        self.parameters = [p for group in optimizer.param_groups for p in group["params"]]
        self.values = [(p, wrap_node(value_of(p))) for p in self.parameters]
        self.state = {p: dict(s) for p, s in optimizer.state.items() if isinstance(s, dict)}
        for found in self.state.values():
            tensors = [entry for entry in found.values() if isinstance(entry, Tensor)]
            self.values += [(tensor, wrap_node(value_of(tensor))) for tensor in tensors]

    def check(self) -> None:
        """Errors: that of the first parameter whose new value could not be computed; all are as before then."""
        for parameter in self.parameters:
            failed = value_of(parameter)
            if failed.state == FAILED_STATE:
                self.restore()
                raise failed.error.again()

    def restore(self) -> None:
        """Values, state and counts of before."""
        for tensor, former in self.values:
            put_back(tensor, value_of(former))
        for parameter in list(self.optimizer.state):
            if parameter in self.state:
                self.optimizer.state[parameter] = self.state[parameter]
            else:
                del self.optimizer.state[parameter]
        self.optimizer._steps_taken -= 1


def _checked_arguments(changed: Any) -> Any:
    if isinstance(changed, tuple) and len(changed) == 2:
        return changed
    raise ArgumentError(
        f"step pre-hook must return None or a tuple of (new_args, new_kwargs), but got {changed}.",
        expected="None, or a tuple of two: positional and keyword arguments",
        got=repr(changed),
        fix="return None to leave the arguments as they are",
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
            raise ArgumentTypeError(
                "params argument given to the optimizer should be an iterable of Tensors or dicts, "
                f"but got {typename(params)}",
                expected="an iterable of tensors, of (name, tensor) pairs or of dictionaries",
                got=typename(params),
                fix="pass [tensor], or model.parameters()",
            )
        self.defaults = defaults
        self.state: defaultdict[Tensor, Group] = defaultdict(dict)
        self.param_groups: list[Group] = []
        self._step_pre_hooks: dict[int, Any] = {}
        self._step_post_hooks: dict[int, Any] = {}
        self._steps_taken = 0
        groups = _listed(params)
        if not groups:
            raise ArgumentError(
                "optimizer got an empty parameter list",
                expected="at least one parameter",
                got="an empty iterable",
                fix="check that the model has parameters, and that a generator is not used twice",
            )
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
        if not isinstance(param_group, dict) or "params" not in param_group:
            raise ArgumentTypeError(
                f"param_group must be a dict, but got {type(param_group)}",
                expected="a dictionary with 'params' and options",
                got=repr(param_group),
                fix="pass {'params': [...], 'lr': ...}",
            )
        group = {**param_group, **_named_parameters(param_group["params"])}
        for parameter in group["params"]:
            _check_parameter(parameter)
        for name, default in self.defaults.items():
            if default is required and name not in group:
                raise ArgumentError(
                    "parameter group didn't specify a value of required optimization parameter "
                    f"{name}",
                    expected=f"a value of {name}",
                    got=f"the options {sorted(set(group) - {'params'})}",
                    fix=f"add {name!r} to the group, or pass it to the optimizer",
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
            raise ArgumentError(
                "some parameters appear in more than one parameter group",
                expected="each parameter in one group",
                got="a parameter that a group has already",
                fix="leave it out of one of the groups",
            )
        self.param_groups.append(group)

    def zero_grad(self, set_to_none: bool = True) -> None:
        """Forget all gradients, or set them to zero."""
        for group in self.param_groups:
            for parameter in group["params"]:
                clear_gradient(parameter, set_to_none)

    # -- stepping ------------------------------------------------------------------------------

    def step(self, closure: Callable[[], Any] | None = None) -> Any:
        """Evaluate the closure with gradients, then update every group without; its result.

        Ctrl-C during the updates waits until all of them are recorded: no model makes half a step.
        Errors: RuntimeError for a gradient of another shape; then nothing is updated.
        """
        loss = None
        if closure is not None:
            with weft.enable_grad():
                loss = closure()
        for group in self.param_groups:
            _check_gradients(group)
        with uninterrupted():
            before = last_sequence()
            for group in self.param_groups:
                with weft.set_grad_enabled(bool(group.get("differentiable", False))):
                    self._update_group(group)
            leave_alone(before)
        return loss

    def _update_group(self, group: Group) -> None:
        """The algorithm: update the parameters of one group that have a gradient."""
        raise NotDefinedError(
            f"{type(self).__name__} defines neither step nor _update_group",
            expected="a method step or _update_group",
            got=type(self).__name__,
            fix="define the algorithm in the subclass",
        )

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
        groups = [dict(group) for group in _entries(state_dict)["param_groups"]]
        if len(groups) != len(self.param_groups):
            raise ArgumentError(
                "loaded state dict has a different number of parameter groups",
                expected=f"{len(self.param_groups)} groups",
                got=str(len(groups)),
                fix="make the optimizer with the groups that it was saved with",
            )
        pairs = list(zip(self.param_groups, groups, strict=True))
        if any(len(own["params"]) != len(new["params"]) for own, new in pairs):
            raise ArgumentError(
                "loaded state dict contains a parameter group that doesn't match the size of "
                "optimizer's group",
                expected=str([len(own["params"]) for own, _ in pairs]),
                got=str([len(new["params"]) for _, new in pairs]),
                fix="make the optimizer for the model that it was saved with",
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
        raise ArgumentTypeError(
            "optimizer parameters need to be organized in ordered collections, but the ordering of "
            "tensors in sets will change between runs. Please use a list instead.",
            expected="a list of tensors",
            got="a set",
            fix="pass a list",
        )
    parameters = _listed(given)
    if parameters and all(isinstance(entry, tuple) for entry in parameters):
        names, parameters = [n for n, _ in parameters], [p for _, p in parameters]
        return {"params": parameters, "param_names": names}
    return {"params": parameters}


def _check_parameter(parameter: Any) -> None:
    if not isinstance(parameter, Tensor):
        raise ArgumentTypeError(
            f"optimizer can only optimize Tensors, but one of the params is {typename(parameter)}",
            expected="tensors",
            got=repr(parameter)[:80],
            fix="pass model.parameters()",
        )
    if not (parameter.is_leaf or parameter.retains_grad):
        raise ArgumentError(
            "can't optimize a non-leaf Tensor",
            expected="a leaf, as weft.tensor(..., requires_grad=True) makes it",
            got=f"{parameter.dtype.name}{list(parameter.shape)} computed by {parameter.grad_fn}",
            fix="optimize the tensor that it was computed from, or .detach().requires_grad_() it",
        )


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


def check_number(label: str, value: Any, condition: str, holds: Callable[[Any], bool]) -> None:
    """Errors: TypeError for an option that is no number, ValueError for one out of range."""
    try:
        fits = bool(holds(value))
    except TypeError:
        raise ArgumentTypeError(
            f"{label} must be a number",
            expected=f"a number with {label} {condition}",
            got=repr(value),
            fix="convert it with float()",
        ) from None
    if not fits:
        raise ArgumentError(
            f"Invalid {label}: {value}",
            expected=f"{label} {condition}",
            got=repr(value),
            fix="see how the option was computed",
        )


def check_not_negative(**values: Any) -> None:
    """ValueError for an option below zero; underscores in its label are spaces, two of them one underscore."""
    for label, value in values.items():
        name = label.replace("__", "\0").replace("_", " ").replace("\0", "_")
        check_number(name, value, ">= 0", lambda number: number >= 0.0)


def _listed(given: Any) -> list[Any]:
    """An iterable as a list. Errors: TypeError for anything else."""
    try:
        return list(given)
    except TypeError:
        raise ArgumentTypeError(
            "optimizer parameters must be an iterable of tensors",
            expected="an iterable of tensors, of (name, tensor) pairs or of dictionaries",
            got=typename(given),
            fix="pass model.parameters()",
        ) from None


def _entries(state_dict: Any) -> Any:
    """A state_dict of an optimizer. Errors: ValueError for anything else."""
    if isinstance(state_dict, dict) and {"state", "param_groups"} <= set(state_dict):
        return state_dict
    raise ArgumentError(
        "load_state_dict: not the state of an optimizer",
        expected="a dictionary with 'state' and 'param_groups', as state_dict() gives it",
        got=f"keys {list(state_dict)[:5]}" if isinstance(state_dict, dict) else repr(state_dict),
        fix="pass what optimizer.state_dict() returned, not the model's",
    )


def _check_gradients(group: Group) -> None:
    """Errors: RuntimeError for a gradient that does not fit its parameter."""
    for number, parameter in enumerate(group["params"]):
        gradient = parameter.grad
        if gradient is not None and gradient.shape != parameter.shape:
            raise GradientError(
                "step: a gradient does not fit its parameter, nothing was updated",
                expected=f"a gradient of shape {list(parameter.shape)} for parameter {number}",
                got=str(list(gradient.shape)),
                fix="call zero_grad() after giving a parameter other data",
            )


def gradients(group: Group) -> Iterable[tuple[Tensor, Tensor]]:
    """The parameters of a group that have a gradient, with it, negated to maximize."""
    maximize = group["maximize"]
    for parameter in group["params"]:
        gradient = parameter.grad
        if gradient is not None:
            yield parameter, -gradient if maximize else gradient
