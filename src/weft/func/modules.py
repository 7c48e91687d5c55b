"""Modules as functions of their parameters: called with others for once, and many stacked into one state."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager
from typing import Any

import weft
from weft.errors import ArgumentError, GradientError


def functional_call(
    module: Any,
    parameter_and_buffer_dicts: Any,
    args: Any = None,
    kwargs: dict[str, Any] | None = None,
    *,
    tie_weights: bool = True,
    strict: bool = False,
) -> Any:
    """`module(*args, **kwargs)` with the parameters and buffers of a dictionary (or several) in place of its own.

    Errors: RuntimeError in strict mode on missing or unexpected names.
    """
    given: dict[str, Any] = {}
    several = not isinstance(parameter_and_buffer_dicts, dict)
    for state in parameter_and_buffer_dicts if several else (parameter_and_buffer_dicts,):
        given.update(state)
    own = _members(module)
    if strict:
        _check_names(module, given, own)
    if tie_weights:
        _tie(module, given, own)
    arguments = () if args is None else args if isinstance(args, tuple) else (args,)
    with _swapped(module, given):
        return module(*arguments, **(kwargs or {}))


def _members(module: Any) -> dict[str, Any]:
    return {
        **dict(module.named_parameters(remove_duplicate=False)),
        **dict(module.named_buffers(remove_duplicate=False)),
    }


def _check_names(module: Any, given: dict[str, Any], own: dict[str, Any]) -> None:
    shared = {id(own[name]) for name in given if name in own}
    missing = [
        name for name, member in own.items() if name not in given and id(member) not in shared
    ]
    unexpected = [name for name in given if name not in own]
    if not missing and not unexpected:
        return
    text = f"Error(s) in reparametrizing for {type(module).__name__}:"
    if missing:
        text += "\n\tMissing key(s): " + ", ".join(map(repr, missing)) + "."
    if unexpected:
        text += "\n\tUnexpected key(s): " + ", ".join(map(repr, unexpected)) + "."
    raise GradientError(
        text,
        expected=", ".join(own),
        got=", ".join(given),
        fix="pass the names of named_parameters() and named_buffers(), or strict=False",
    )


def _tie(module: Any, given: dict[str, Any], own: dict[str, Any]) -> None:
    """Give all names of a shared member the value that one of them got."""
    values = {id(own[name]): value for name, value in given.items() if name in own}
    for name, member in own.items():
        if name not in given and id(member) in values:
            given[name] = values[id(member)]


@contextmanager
def _swapped(module: Any, given: dict[str, Any]) -> Iterator[None]:
    """The members of a module replaced for a while."""
    former = []
    try:
        for path, value in given.items():
            owner_path, _, name = path.rpartition(".")
            try:
                owner = module.get_submodule(owner_path)
            except AttributeError:
                continue
            if name in owner.__dict__:
                former.append((owner, name, owner.__dict__[name]))
                owner.__dict__[name] = value
        yield
    finally:
        for owner, name, value in reversed(former):
            owner.__dict__[name] = value


def stack_module_state(models: Any) -> tuple[dict[str, Any], dict[str, Any]]:
    """The parameters and buffers of equal modules, each stacked along a new first dimension.

    Errors: RuntimeError on no module or modules of different classes.
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

    def stacked(members: list[dict[str, Any]]) -> dict[str, Any]:
        joined = {}
        for name, first in members[0].items():
            whole = weft.stack([member[name].detach() for member in members])
            whole.requires_grad = first.requires_grad
            joined[name] = whole
        return joined

    parameters = stacked([dict(model.named_parameters()) for model in models])
    return parameters, stacked([dict(model.named_buffers()) for model in models])
