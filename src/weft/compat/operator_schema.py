"""PyTorch's schema of an operation, `(Tensor x, SymInt n=2) -> Tensor`, from the type hints of a function."""

from __future__ import annotations

import inspect
import types
import typing
from collections.abc import Callable, Iterable, Sequence

import weft
from weft.errors import ArgumentError

_TYPES = {
    weft.Tensor: "Tensor", int: "SymInt", float: "float", bool: "bool", str: "str", weft.dtype: "ScalarType",
    weft.device: "Device", int | float | bool: "Scalar", int | float | complex: "Scalar",
}  # fmt: skip
_LISTED = (weft.Tensor, int, float, bool, int | float | bool)  # types that also occur in lists


def infer_schema(
    prototype_function: Callable[..., object],
    /,
    *,
    mutates_args: Iterable[str] | str,
    op_name: str | None = None,
    tags: object = (),
) -> str:
    """The schema that the type hints of a function say, after `op_name`.

    Args:
        prototype_function: a function whose parameters and result have type hints.
        mutates_args: the names of tensors that the function writes to, or "unknown", which means all.
        op_name: what stands before the parameters; None: nothing.
        tags: accepted, without effect.

    Errors: ValueError for a parameter without a hint, a type that schemas do not have, and a name that is
    no parameter.

    Example:
        >>> import weft
        >>> def add_all(x: weft.Tensor, rest: list[weft.Tensor], scale: float = 1.0) -> weft.Tensor: ...
        >>> weft.library.infer_schema(add_all, mutates_args=())
        '(Tensor x, Tensor[] rest, float scale=1.0) -> Tensor'
    """
    written = [mutates_args] if isinstance(mutates_args, str) else list(mutates_args)
    hints = typing.get_type_hints(prototype_function)
    signature = inspect.signature(prototype_function)
    parts: list[str] = []
    for place, (name, parameter) in enumerate(signature.parameters.items()):
        if parameter.kind is parameter.KEYWORD_ONLY and "*" not in parts:
            parts.append("*")
        if parameter.kind not in (parameter.KEYWORD_ONLY, parameter.POSITIONAL_OR_KEYWORD):
            raise _refused(
                signature, "We do not support positional-only args, varargs, or varkwargs."
            )
        if name not in hints:
            raise _refused(signature, f"Parameter {name} must have a type annotation.")
        kind = _type_of(hints[name])
        if kind is None:
            raise _refused(signature, f"Parameter {name} has unsupported type {hints[name]}.")
        if name in written or (written == ["unknown"] and kind.startswith("Tensor")):
            kind = _written(signature, name, kind, place)
        parts.append(f"{kind} {name}{_default(signature, name, parameter.default)}")
    strangers = [name for name in written if name not in (*signature.parameters, "unknown")]
    if strangers:
        raise _refused(
            signature,
            f"{set(strangers)} in mutates_args were not found in the custom op's signature",
        )
    return f"{op_name or ''}({', '.join(parts)}) -> {_result(signature, hints.get('return'))}"


def _refused(signature: inspect.Signature, text: str) -> ArgumentError:
    return ArgumentError(
        f"infer_schema(func): {text} Got func with signature {signature})",
        expected="parameters by position or name, with hints of tensors, numbers, strings, types, devices and lists",
        got=str(signature),
        fix="say the types that a schema has, or write the schema yourself",
    )


def _type_of(hint: object) -> str | None:
    """A schema's name of a type; None for one that schemas do not have."""
    if hint in _TYPES:
        return _TYPES[hint]
    origin, inner = typing.get_origin(hint), typing.get_args(hint)
    if origin in (typing.Union, types.UnionType) and type(None) in inner:
        rest = [part for part in inner if part is not type(None)]
        known = _type_of(typing.Union[tuple(rest)])  # noqa: UP007 - of a list
        return known and f"{known}?"
    if origin in (list, Sequence) and (inner[0] in _LISTED or inner[0] == weft.Tensor | None):
        known = _type_of(inner[0])
        return known and f"{known}[]"
    return None


def _written(signature: inspect.Signature, name: str, kind: str, place: int) -> str:
    if not kind.startswith("Tensor"):
        raise _refused(
            signature,
            f"Parameter {name} is in mutable_args but only Tensors or collections of Tensors can be mutated",
        )
    return f"Tensor(a{place}!){kind[len('Tensor') :]}"


def _default(signature: inspect.Signature, name: str, value: object) -> str:
    """`=` and a parameter's default, or nothing."""
    if value is inspect.Parameter.empty:
        return ""
    if isinstance(value, str | weft.device):
        return f'="{value}"'
    if value is None or isinstance(value, int | float):
        return f"={value}"
    if isinstance(value, weft.dtype):
        return f"={str(value).rpartition('.')[2]}"
    raise _refused(
        signature, f"Parameter {name} has an unsupported default value type {type(value)}."
    )


def _result(signature: inspect.Signature, hint: object) -> str:
    """A schema's name of what a function returns."""
    if hint is None or hint is type(None):
        return "()"
    if typing.get_origin(hint) is tuple:
        return "(" + ", ".join(_result(signature, part) for part in typing.get_args(hint)) + ")"
    known = _type_of(hint)
    if known is None or known.endswith("?"):
        raise _refused(signature, f"Return has unsupported type {hint}.")
    return known
