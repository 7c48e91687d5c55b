# cython: language_level=3
# cython: wraparound=True, boundscheck=True, cdivision=False, annotation_typing=False
"""Modules as functions of their parameters: called with others for once, and many stacked into one state."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager
from typing import Any, NamedTuple

import cython

import weft
from weft._build.compiled import require
from weft.errors import (
    ArgumentError,
    ArgumentTypeError,
    GradientError,
    KindError,
    MissingError,
    NoTensorError,
)
from weft.nn.module.members import MODULE, own_values

require(__name__, cython.compiled)
_MISSING = object()


class _Member(NamedTuple):
    """A member of a module before others took its place: `before` stood at `name` among `values`, if anything did."""

    path: str
    owner: Any
    values: dict[str, Any]
    name: str
    before: Any


def functional_call(
    module: object,
    parameter_and_buffer_dicts: object,
    args: object = None,
    kwargs: dict[str, object] | None = None,
    *,
    tie_weights: bool = True,
    strict: bool = False,
) -> Any:
    """`module(*args, **kwargs)` with the parameters and buffers of a dictionary (or several) in place of its own.

    What the module assigns to them meanwhile is written back to the dictionary, if it is one.

    Errors: RuntimeError in strict mode on missing or unexpected names; ValueError on a name in two dictionaries, and
    on different values for a shared parameter; AttributeError on a name that leads to no module; TypeError on a value
    that is no tensor.
    """
    if not isinstance(module, weft.nn.Module):
        raise NoTensorError.of(
            module,
            "named_parameters",
            "functional_call",
            expected="a Module",
            fix="pass the module, then its state, then its arguments",
        )
    given: dict[str, Any] = {}
    if isinstance(parameter_and_buffer_dicts, dict):
        given.update(parameter_and_buffer_dicts)
    else:
        for state in _states(parameter_and_buffer_dicts):
            _check_disjoint(given, state)
            given.update(state)
    arguments = () if args is None else args if isinstance(args, tuple) else (args,)
    previous = _exchanged(module, given, tie_weights, strict)
    try:
        return module(*arguments, **kwargs) if kwargs else module(*arguments)
    finally:
        left = _put_back(previous)
        if isinstance(parameter_and_buffer_dicts, dict):
            _write_back(parameter_and_buffer_dicts, left)


def _exchanged(
    module: object, given: dict[str, object], tie_weights: bool, strict: bool
) -> list[_Member]:
    """Give a module other members. Returns: those it had, for `_put_back`. Errors: RuntimeError, ValueError."""
    owners = _owners(module)
    if strict or tie_weights:
        own = {path: place[0][place[1]] for path, place in owners.items()}
        if tie_weights:
            _tie(given, own)
        if strict:
            _check_names(module, given, own)
    previous: list[_Member] = []
    try:
        for path, value in given.items():
            _need_tensor(value, "")
            if path in owners:
                values, name = owners[path]
                previous.append(_Member(path, None, values, name, values[name]))
                values[name] = value
            else:
                previous.append(_attribute(module, path))
                _give(previous[-1], value)
    except BaseException:
        _put_back(previous)
        raise
    return previous


def _give(member: _Member, value: object) -> None:
    """Let a module have an attribute: one that it did not have becomes what assigning makes of it."""
    if member.before is _MISSING:
        setattr(member.owner, member.name, value)
    else:
        member.values[member.name] = value


def _put_back(previous: list[_Member]) -> dict[str, Any]:
    """Let a module have its members again. Returns: those that it had instead, by their paths."""
    left = {}
    for path, owner, values, name, before in reversed(previous):
        if before is not _MISSING:
            left[path] = values.get(name)
            values[name] = before
        elif name in values:
            left[path] = values[name]
            delattr(owner, name)
    return left


def _write_back(given: dict[str, Any], left: dict[str, Any]) -> None:
    """Give a user's dictionary the members that a module has assigned."""
    for path, value in left.items():
        if path in given and given[path] is not value:
            given[path] = value


def _attribute(module: Any, path: str) -> _Member:
    """The attribute that a path leads to, which is none of the module's parameters and buffers.

    Errors: AttributeError where the path leads to no module; TypeError for an attribute that is no tensor.
    """
    *through, name = path.split(".")
    for child in through:
        below = getattr(module, child, None)
        if not isinstance(below, weft.nn.Module):
            raise MissingError(
                f"{type(module).__name__} has no attribute `{child}`",
                expected="a name of named_parameters() or named_buffers()",
                got=path,
                fix="correct the name, or leave it out",
            )
        module = below
    values = own_values(module)
    if name not in values:
        _need_tensor(getattr(module, name, None), f"attribute `{name}`: ")
        return _Member(path, module, values, name, _MISSING)
    _need_tensor(values[name], f"attribute `{name}`: ")
    return _Member(path, module, values, name, values[name])


def _need_tensor(value: object, which: str) -> None:
    """Errors: TypeError where a member is neither a tensor nor None."""
    if value is not None and not isinstance(value, weft.Tensor):
        raise ArgumentTypeError(
            f"{which}{value} is not an instance of torch.Tensor",
            expected="a tensor, for the name of a parameter, a buffer or a tensor",
            got=type(value).__name__,
            fix="leave the name out",
        )


@contextmanager
def with_members(
    module: object,
    parameters_and_buffers: dict[str, object],
    tie_weights: bool = False,
    strict: bool = False,
    stack_weights: bool = False,
) -> Iterator[None]:
    """A block in which a module has other parameters and buffers, as in `functional_call`."""
    previous = _exchanged(module, dict(parameters_and_buffers), tie_weights, strict)
    try:
        yield
    finally:
        _write_back(parameters_and_buffers, _put_back(previous))


def _states(given: Any) -> Any:
    """Several dictionaries. Errors: ValueError on anything else."""
    several = isinstance(given, (list, tuple))
    if not several or not all(isinstance(state, dict) for state in given):
        raise KindError(
            "Expected all elements of parameter_and_buffer_dicts to be dictionaries"
            if several
            else "Expected parameter_and_buffer_dicts to be a dict, or a list/tuple of dicts, but got "
            f"{type(given)}",
            expected="{name: tensor}, or a list of such",
            got=repr(given)[:60],
            fix="pass dict(module.named_parameters())",
        )
    return given


def _owners(module: Any) -> dict[str, tuple[dict[str, Any], str]]:
    """The owner of each parameter and buffer: the attributes of its module, and its name there."""
    found = {}
    waiting: list[Any] = [("", module, ())]
    while waiting:
        dotted, owner, above = waiting.pop()
        values, below = own_values(owner), []
        for name, kind in owner._kinds.items():
            value = values[name]
            if value is None:
                continue
            if kind == MODULE:
                if value is not owner and value not in above:  # else it is above itself
                    below.append((f"{dotted}{name}.", value, (*above, owner)))
            else:
                found[dotted + name] = (values, name)
        waiting.extend(reversed(below))
    return found


def _check_disjoint(given: dict[str, object], state: dict[str, object]) -> None:
    """Errors: ValueError where a name is in two dictionaries."""
    twice = [name for name in state if name in given]
    if twice:
        raise ArgumentError(
            f"{twice} appeared in multiple dictionaries; behavior of functional call is ambiguous",
            expected="a name in one of the dictionaries",
            got=", ".join(twice),
            fix="join the dictionaries first, in the order that you mean",
        )


def _check_names(module: object, given: dict[str, object], own: dict[str, object]) -> None:
    missing = [name for name in own if name not in given]
    unexpected = [name for name in given if name not in own]
    if not missing and not unexpected:
        return
    text = f"Error(s) in reparametrizing for {type(module).__name__}:"
    if unexpected:
        text += "\n\tUnexpected key(s): " + ", ".join(map(repr, unexpected)) + "."
    if missing:
        text += "\n\tMissing key(s): " + ", ".join(map(repr, sorted(missing))) + "."
    raise GradientError(
        text,
        expected=", ".join(own),
        got=", ".join(given),
        fix="pass the names of named_parameters() and named_buffers(), or strict=False",
    )


def _tie(given: dict[str, object], own: dict[str, object]) -> None:
    """Give all names of a shared member the value that one of them got. Errors: ValueError where two got different
    ones."""
    if len(set(map(id, own.values()))) == len(own):
        return
    values: dict[int, Any] = {}
    for name, value in given.items():
        if name not in own:
            continue
        previous = values.setdefault(id(own[name]), value)
        if previous is not value:
            names = sorted(key for key in given if key in own and own[key] is own[name])
            raise ArgumentError(
                f"functional_call got multiple values for keys {names}, which are tied. Consider using "
                "tie_weights=False",
                expected="one value for a shared parameter",
                got="several",
                fix="pass one of its names, or tie_weights=False",
            )
    for name, member in own.items():
        if name not in given and id(member) in values:
            given[name] = values[id(member)]


def stack_module_state(models: Any) -> tuple[dict[str, Any], dict[str, Any]]:
    """The parameters and buffers of equal modules, each stacked along a new first dimension.

    Errors: RuntimeError on no module, and on modules of different classes or modes.
    """
    if not models:
        raise GradientError(
            "stack_module_state: Expected at least one model, got 0.",
            expected="a list of modules",
            got="an empty one",
            fix="pass at least one module",
        )
    if len({type(model) for model in models}) > 1:
        raise ArgumentError(
            "stack_module_state: Expected all models to be of the same class.",
            expected=type(models[0]).__name__,
            got=", ".join(sorted({type(model).__name__ for model in models})),
            fix="stack the modules of each class by themselves",
        )
    if len({model.training for model in models}) > 1:
        raise ArgumentError(
            "stack_module_state: Expected all models to have the same training/eval mode.",
            expected=f"training={models[0].training} for all",
            got="both",
            fix="call .train() or .eval() on each",
        )

    def stacked(members: list[dict[str, Any]]) -> dict[str, Any]:
        joined = {}
        for name, first in members[0].items():
            whole = weft.stack([member[name].detach() for member in members])
            whole.requires_grad = first.requires_grad
            joined[name] = whole
        return joined

    parameters = stacked([dict(model.named_parameters()) for model in models])
    return parameters, stacked([dict(model.named_buffers()) for model in models])
