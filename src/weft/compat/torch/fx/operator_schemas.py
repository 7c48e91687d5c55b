"""Arguments of nodes by the names of the parameters: `torch.fx.operator_schemas`."""

from __future__ import annotations

import inspect
from collections.abc import Callable
from typing import TYPE_CHECKING, Any, NamedTuple

from weft.engine.frontend.tensor import Tensor

if TYPE_CHECKING:
    from weft.compat.torch.fx.node import Argument
    from weft.nn.module.module import Module


__all__ = [
    "ArgsKwargsPair", "check_for_mutable_operation", "create_type_hint", "get_signature_for_torch_op",
    "normalize_function", "normalize_module", "type_matches",
]  # fmt: skip


class ArgsKwargsPair(NamedTuple):
    """Positional arguments and arguments by keyword."""

    args: tuple[Any, ...]
    kwargs: dict[str, Any]


def get_signature_for_torch_op(op: Callable[..., object], return_schemas: bool = False) -> Any:
    """The signatures of a function of Weft: one, or None where it does not say. Schemas: none."""
    try:
        found = [inspect.signature(op)]
    except (TypeError, ValueError):
        found = None
    return (found, None) if return_schemas else found


def check_for_mutable_operation(
    target: Tensor, args: tuple[Argument, ...], kwargs: dict[str, Argument]
) -> None:
    """Nothing: writes in place are recorded like other calls."""


def create_type_hint(x: object) -> Any:
    """The type of a structure: of a list or tuple of one type `list[that]`, else `list[Any]`."""
    if not isinstance(x, list | tuple):
        return x
    kinds = {item if isinstance(item, type) else type(item) for item in x}
    one = next(iter(kinds)) if len(kinds) == 1 else Any
    return list[one] if isinstance(x, list) else tuple[one, ...]  # type: ignore[valid-type]


def type_matches(signature_type: Any, argument_type: Any) -> bool:
    """True if an argument of one type can be passed for a parameter of the other."""
    if signature_type is Any or signature_type is argument_type:
        return True
    both_types = isinstance(signature_type, type) and isinstance(argument_type, type)
    if both_types and signature_type is float and argument_type is int:
        return True
    return both_types and issubclass(argument_type, signature_type)


def normalize_function(
    target: Callable[..., object],
    args: tuple[object, ...],
    kwargs: dict[str, object] | None = None,
    arg_types: tuple[object, ...] | None = None,
    kwarg_types: dict[str, object] | None = None,
    normalize_to_only_use_kwargs: bool = False,
) -> ArgsKwargsPair | None:
    """The arguments of a call with all defaults: by keyword, or by place as far as they were given so. None where the
    function does not say what it takes, or does not take these."""
    signatures = get_signature_for_torch_op(target)
    if not signatures:
        return None
    return _normalized(signatures[0], args, kwargs or {}, normalize_to_only_use_kwargs)


def normalize_module(
    root: Module,
    target: str,
    args: tuple[object, ...],
    kwargs: dict[str, object] | None = None,
    normalize_to_only_use_kwargs: bool = False,
) -> ArgsKwargsPair | None:
    """The arguments of a module's `forward`, like those of `normalize_function`."""
    try:
        module = root.get_submodule(target)
    except AttributeError as error:
        raise RuntimeError(
            f"Tried to normalize arguments for module {target} but root did not have a module of that name!"
        ) from error
    signature = inspect.signature(module.forward)
    return _normalized(signature, args, kwargs or {}, normalize_to_only_use_kwargs)


def _normalized(
    signature: inspect.Signature,
    args: tuple[object, ...],
    kwargs: dict[str, object],
    only_kwargs: bool,
) -> ArgsKwargsPair | None:
    variable = (inspect.Parameter.VAR_POSITIONAL, inspect.Parameter.VAR_KEYWORD)
    if any(parameter.kind in variable for parameter in signature.parameters.values()):
        return None
    try:
        bound = signature.bind(*args, **kwargs)
    except TypeError:
        return None
    bound.apply_defaults()
    items = list(bound.arguments.items())
    by_place = 0 if only_kwargs else len(args)
    return ArgsKwargsPair(tuple(value for _, value in items[:by_place]), dict(items[by_place:]))
