"""Optimizer: parameter groups, per-parameter state, hooks; the base of all algorithms.

A step changes parameters with gradients in place. An algorithm describes the update of one group as tensor
expressions; `step` records them, fuses them over all parameters and runs them at its end.
"""

from __future__ import annotations

import itertools
import warnings
from collections import defaultdict
from collections.abc import Callable, Iterable
from copy import deepcopy
from typing import TYPE_CHECKING, Any

import weft
from weft import Tensor
from weft.engine.capi.interrupts import uninterrupted
from weft.engine.ir.tape import intact, last_sequence, leave_alone
from weft.errors import ArgumentError, ArgumentTypeError, MemberNameError, NotDefinedError
from weft.nn.module.checks import typename
from weft.nn.module.hooks import RemovableHandle, add_hook
from weft.nn.module.to_device import clear_gradient
from weft.optim.counted_state import CountedState, as_number, as_tensor, plain
from weft.optim.helpers import (  # noqa: F401 - PyTorch's place for them
    _default_to_fused_or_foreach,
    _disable_dynamo_if_unsupported,
    _get_capturable_supported_devices,
    _get_scalar_dtype,
    _get_value,
    _group_tensors_by_device_and_dtype,
    _stack_if_compiling,
    _to_scalar,
    _use_grad_for_differentiable,
    _view_as_real,
)
from weft.optim.stepping import Before, check_gradients, forget_gradients, with_hooks
from weft.optim.stepping import (
    register_optimizer_step_post_hook as register_optimizer_step_post_hook,
)
from weft.optim.stepping import (
    register_optimizer_step_pre_hook as register_optimizer_step_pre_hook,
)

if TYPE_CHECKING:
    from weft._typing import Parameters


Group = dict[str, Any]


ParamsT = Iterable[Any]  # in annotations: tensors, (name, tensor) pairs or dictionaries


class _Required:
    """Stands for a default that every group has to give."""

    def __repr__(self) -> str:
        return "<required parameter>"


required = _Required()
_MOMENTS = ("before state_dict", "after state_dict", "before load", "after load")


class Optimizer:
    """Changes parameters by their gradients.

    `params` is an iterable of tensors, of (name, tensor) pairs, or of dictionaries with `params`
    and options of their own; `defaults` are the options of all others. Subclasses define
    `_update_group`, or `step` as a whole. Errors: ValueError for an empty list, a non-leaf, a
    parameter in two groups or an option out of range.
    """

    # The numbers in a parameter's state that are tensors in a state_dict.
    _counts: tuple[str, ...] = ()
    _before: Before | None = None  # while a step is made

    def __init__(self, params: Parameters, defaults: Group) -> None:
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
        self._state_hooks: dict[str, dict[int, Any]] = {moment: {} for moment in _MOMENTS}
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

    def __init_subclass__(cls, **options: object) -> None:
        super().__init_subclass__(**options)
        if "step" in cls.__dict__:
            cls.step = with_hooks(cls.__dict__["step"])  # type: ignore[method-assign]

    def __repr__(self) -> str:
        lines = [type(self).__name__ + " ("]
        for number, group in enumerate(self.param_groups):
            lines += [*([""] if number else []), f"Parameter Group {number}"]
            lines += [f"    {key}: {group[key]}" for key in sorted(group) if key != "params"]
        return "\n".join(lines) + "\n)"

    # -- groups --------------------------------------------------------------------------------

    def add_param_group(self, param_group: Group) -> None:
        """Add parameters with options of their own; may be called in the middle of training."""
        if not isinstance(param_group, dict):
            raise ArgumentTypeError(
                f"param_group must be a dict, but got {type(param_group)}",
                expected="a dictionary with 'params' and options",
                got=repr(param_group),
                fix="pass {'params': [...], 'lr': ...}",
            )
        if "params" not in param_group:
            raise MemberNameError(
                "params",
                expected="a dictionary with 'params' and options",
                got=f"one with {sorted(param_group)}",
                fix="pass {'params': [...], 'lr': ...}",
            )
        group = {**param_group, **_named_parameters(param_group["params"])}
        for parameter in group["params"]:
            _check_parameter(parameter, bool(self.defaults.get("differentiable")))
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
        self._check_names(group)
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

    def _check_names(self, group: Group) -> None:
        """Errors: ValueError for a group with names when others have none."""
        named = "param_names" in group
        if any(("param_names" in other) != named for other in self.param_groups):
            raise ArgumentError(
                "all optimizer param groups should be with/without names. cannot add param group "
                f"{'with' if named else 'without'} names to the optimizer",
                expected="names in all groups or in none",
                got="one group " + ("with names" if named else "without"),
                fix="pass named_parameters() for all groups, or parameters() for all",
            )

    def zero_grad(self, set_to_none: bool = True) -> None:
        """Forget all gradients, or set them to zero."""
        for group in self.param_groups:
            if set_to_none:
                forget_gradients(group["params"])
                continue
            for parameter in group["params"]:
                clear_gradient(parameter, False)

    # -- stepping ------------------------------------------------------------------------------

    def step(self, closure: Callable[[], object] | None = None) -> Any:
        """Evaluate the closure with gradients, then update every group without; its result.

        Ctrl-C during the updates waits until all of them are recorded, and so does running them: no model makes half a
        step.
        Errors: RuntimeError for a gradient of another shape, OutOfMemoryError where it does not fit; then nothing is
        updated.
        """
        loss = None
        if closure is not None:
            with weft.enable_grad():
                loss = closure()
        sparse = any([check_gradients(group["params"]) for group in self.param_groups])
        if sparse and self._before is not None:
            self._before.settle()
        with uninterrupted(), intact():
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

    def register_step_pre_hook(self, hook: Callable[..., object]) -> RemovableHandle:
        """`hook(optimizer, args, kwargs)` before each step."""
        return add_hook(self._step_pre_hooks, hook)

    def register_step_post_hook(self, hook: Callable[..., object]) -> RemovableHandle:
        """`hook(optimizer, args, kwargs)` after each step."""
        return add_hook(self._step_post_hooks, hook)

    def register_state_dict_pre_hook(
        self, hook: Callable[..., object], prepend: bool = False
    ) -> RemovableHandle:
        """`hook(optimizer)` before each `state_dict()`."""
        return add_hook(self._state_hooks["before state_dict"], hook, prepend)

    def register_state_dict_post_hook(
        self, hook: Callable[..., object], prepend: bool = False
    ) -> RemovableHandle:
        """`hook(optimizer, state_dict)` after each `state_dict()`; what it returns, unless None, takes its place."""
        return add_hook(self._state_hooks["after state_dict"], hook, prepend)

    def register_load_state_dict_pre_hook(
        self, hook: Callable[..., object], prepend: bool = False
    ) -> RemovableHandle:
        """`hook(optimizer, state_dict)` before each `load_state_dict`; what it returns, unless None, is loaded."""
        return add_hook(self._state_hooks["before load"], hook, prepend)

    def register_load_state_dict_post_hook(
        self, hook: Callable[..., object], prepend: bool = False
    ) -> RemovableHandle:
        """`hook(optimizer)` after each `load_state_dict`."""
        return add_hook(self._state_hooks["after load"], hook, prepend)

    # -- state ---------------------------------------------------------------------------------

    _group_tensors_by_device_and_dtype = staticmethod(_group_tensors_by_device_and_dtype)

    def _numbers(self) -> dict[int, int]:
        """The number of each parameter in state dictionaries, by id."""
        parameters = (p for group in self.param_groups for p in group["params"])
        numbers: dict[int, int] = {}
        for parameter in parameters:
            numbers.setdefault(id(parameter), len(numbers))
        return numbers

    def state_dict(self) -> Group:
        """State and options with parameters as numbers: `{"state": ..., "param_groups": ...}`.

        What an algorithm counts (`step`) is a tensor there, as in PyTorch's files.
        """
        for hook in list(self._state_hooks["before state_dict"].values()):
            hook(self)
        numbers = self._numbers()
        groups = [
            {key: value for key, value in group.items() if key != "params"}
            | {"params": [numbers[id(parameter)] for parameter in group["params"]]}
            for group in self.param_groups
        ]
        state = {
            numbers[id(key)] if isinstance(key, Tensor) else key: self._shown(value, key)
            for key, value in self.state.items()
        }
        found = {"state": state, "param_groups": groups}
        for hook in list(self._state_hooks["after state_dict"].values()):
            changed = hook(self, found)
            found = found if changed is None else changed
        return found

    def _shown(self, state: object, parameter: object) -> Any:
        """The state of a parameter as files have it: a copy, with tensors for the numbers that PyTorch has as such, and
        rows of tensors that lie as those of the parameter do."""
        if not isinstance(state, dict):
            return state
        lies_as = getattr(parameter, "like", _as_it_is)
        return {
            key: as_tensor(value)
            if key in self._counts and not isinstance(value, Tensor)
            else lies_as(value)
            for key, value in plain(state).items()
        }

    def load_state_dict(self, state_dict: Group) -> None:
        """Take over a state_dict; nothing is changed where it does not fit.

        Errors: ValueError for another number of groups or of parameters in a group.
        """
        for hook in list(self._state_hooks["before load"].values()):
            changed = hook(self, state_dict)
            state_dict = state_dict if changed is None else changed
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
            state[key if parameter is None else parameter] = self._fitted(value, parameter)
        for own, new in pairs:
            names = {"param_names": own["param_names"]} if "param_names" in own else {}
            options = {key: deepcopy(value) for key, value in new.items() if key != "params"}
            own.update({**options, **names})
        self.__setstate__({"state": state, "param_groups": self.param_groups})
        for hook in list(self._state_hooks["after load"].values()):
            hook(self)

    def __setstate__(self, state: Group) -> None:
        """Take over attributes, from a copy, a file or a `state_dict`; subclasses add options that older ones lack."""
        self.__dict__.update(state)

    def _fitted(self, value: object, parameter: Tensor | None) -> Any:
        """Loaded state as this parameter needs it: copied, floating-point tensors in its dtype, counts as numbers."""
        if not isinstance(value, dict):
            return deepcopy(value)
        fitted = {
            key: as_number(key, entry) if key in self._counts else _fitted_entry(entry, parameter)
            for key, entry in plain(value).items()
        }
        return CountedState(self._counts, fitted) if self._counts else fitted


# The base class is no subclass of its own: its `step` gets the hooks here.
Optimizer.step = with_hooks(Optimizer.step)  # type: ignore[method-assign]


def _named_parameters(given: object) -> Group:
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
    named = sum(isinstance(entry, tuple) for entry in parameters)
    if 0 < named < len(parameters):
        raise ArgumentError(
            "all optimizer params should be with/without names. Some param names are missing",
            expected="(name, parameter) pairs only, or parameters only",
            got=f"{named} pairs among {len(parameters)}",
            fix="pass model.named_parameters() as it is",
        )
    if named:
        names, parameters = [n for n, _ in parameters], [p for _, p in parameters]
        return {"params": parameters, "param_names": names}
    return {"params": parameters}


def _check_parameter(parameter: object, differentiable: bool) -> None:
    if not isinstance(parameter, Tensor):
        raise ArgumentTypeError(
            f"optimizer can only optimize Tensors, but one of the params is {typename(parameter)}",
            expected="tensors",
            got=repr(parameter)[:80],
            fix="pass model.parameters()",
        )
    if not (differentiable or parameter.is_leaf or parameter.retains_grad):
        raise ArgumentError(
            "can't optimize a non-leaf Tensor",
            expected="a leaf, as weft.tensor(..., requires_grad=True) makes it",
            got=f"{parameter.dtype.name}{list(parameter.shape)} computed by {parameter.grad_fn}",
            fix="optimize the tensor that it was computed from, or .detach().requires_grad_() it",
        )


def _fitted_entry(
    entry: Tensor | float | list[Tensor | None] | None, parameter: Tensor | None
) -> Any:
    if isinstance(entry, list | tuple):
        return type(entry)(_fitted_entry(part, parameter) for part in entry)
    if not isinstance(entry, Tensor):
        return deepcopy(entry)
    own: Tensor = getattr(parameter, "like", _as_it_is)(entry)
    if parameter is not None and parameter.is_floating_point():
        return own.detach().to(parameter.dtype).clone()
    return own.detach().clone()


def _as_it_is(value: object) -> Any:
    """The value itself."""
    return value


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


def _entries(state_dict: object) -> Any:
    """A state_dict of an optimizer. Errors: ValueError for anything else."""
    if isinstance(state_dict, dict) and {"state", "param_groups"} <= set(state_dict):
        return state_dict
    raise ArgumentError(
        "load_state_dict: not the state of an optimizer",
        expected="a dictionary with 'state' and 'param_groups', as state_dict() gives it",
        got=f"keys {list(state_dict)[:5]}" if isinstance(state_dict, dict) else repr(state_dict),
        fix="pass what optimizer.state_dict() returned, not the model's",
    )
