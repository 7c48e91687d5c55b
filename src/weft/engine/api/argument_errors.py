"""Saying which argument of a failed call was wrong.

In come a public function, the arguments of a call that failed and the exception; out goes the error that a user should
see, or None where the arguments are of the right types and the exception stands for something else. What an argument
has to be is `argument_types`' part. This runs after a failure only, so that right calls pay nothing for it.
"""

from __future__ import annotations

import inspect
import opcode
import operator
import sys
from collections.abc import Callable, Iterable, Mapping
from types import TracebackType
from typing import Any

import numpy as np

from weft.engine.api.argument_types import KINDS, kind_of
from weft.engine.api.call_forms import in_several_forms
from weft.engine.frontend.tensor import Tensor
from weft.errors import (
    ArgumentError,
    ArgumentTypeError,
    OutOfMemoryError,
    WeftError,
    is_internal,
)

_HOSTS = {"numpy", "scipy", "weft", *sys.stdlib_module_names}
_LARGEST = 2**63
_RAISES = ("RAISE_VARARGS", "RERAISE")


# -- what went wrong -------------------------------------------------------------------------------


def explain(
    function: Callable[..., Any],
    values: list[Any],
    keywords: dict[str, Any],
    error: Exception,
) -> WeftError | None:
    """The error for a call that failed with `error`, or None where the arguments are not to blame."""
    if _of_user(error.__traceback__):
        return None
    name = _called(function, values)
    if isinstance(error, ArgumentTypeError):
        return in_several_forms(name, values, keywords, error)
    try:
        signature = _signature(function)
        bound = signature.bind(*values, **keywords)
    except TypeError as wrong:
        return _wrong_call(name, signature, values, keywords, str(wrong))
    if _on_purpose(error.__traceback__):
        return None
    for position, (parameter, value) in enumerate(_given(signature, bound.arguments)):
        found = _wrong_type(name, position, parameter, value, signature) or _too_large(
            name, parameter, value
        )
        if isinstance(found, ArgumentTypeError):
            return in_several_forms(name, values, keywords, found)
        if found is not None:
            return found
    return _of_limits(name, bound.arguments, error)


def _called(function: Callable[..., Any], values: list[Any]) -> str:
    """What users call a function: `exp`, `Linear`, `Module.register_buffer`."""
    if function.__name__ == "__init__" and values:
        return type(values[0]).__name__
    if "<locals>" in function.__qualname__:
        return function.__name__
    return function.__qualname__.removesuffix(".__init__")


def _signature(function: Callable[..., Any]) -> inspect.Signature:
    """A function's parameters; an in-place variant has those of the function that it wraps, but for `out`, and what is
    `explained_as` another function has that one's."""
    found = inspect.signature(getattr(function, "explained_as", function))
    if function.__name__.endswith("_"):
        kept = [p for p in found.parameters.values() if p.name != "out"]
        return found.replace(parameters=kept)
    return found


def _of_user(trace: TracebackType | None) -> bool:
    """Whether an exception comes out of code that a user passed: a function, a subclass, a special method."""
    while trace is not None:
        frame = trace.tb_frame
        module = str(frame.f_globals.get("__name__", "")).partition(".")[0]
        if not is_internal(frame.f_code.co_filename) and module not in _HOSTS:
            return True
        trace = trace.tb_next
    return False


def _on_purpose(trace: TracebackType | None) -> bool:
    """Whether the library itself raised: a `raise` says its own text."""
    if trace is None:
        return False
    while trace.tb_next is not None:
        trace = trace.tb_next
    code = trace.tb_frame.f_code
    return is_internal(code.co_filename) and _operation(code.co_code, trace.tb_lasti) in _RAISES


def _operation(code: bytes, offset: int) -> str:
    return opcode.opname[code[offset]] if 0 <= offset < len(code) else ""


def _given(
    signature: inspect.Signature, arguments: Mapping[str, Any]
) -> Iterable[tuple[inspect.Parameter, Any]]:
    """Parameters with what was passed for them; a `*parameter` once for each value, unless it is one sequence."""
    for name, value in arguments.items():
        parameter = signature.parameters[name]
        if parameter.kind is parameter.VAR_POSITIONAL:
            alone = len(value) == 1 and isinstance(value[0], (tuple, list)) and value[0]
            values = value[0] if alone else value
            yield from ((parameter, item) for item in values)
        elif parameter.kind is not parameter.VAR_KEYWORD:
            yield parameter, value


def _wrong_call(
    name: str,
    signature: inspect.Signature,
    values: list[Any],
    keywords: dict[str, Any],
    reason: str,
) -> ArgumentTypeError:
    got = [type_name(value) for value in values]
    got += [f"{key}={type_name(value)}" for key, value in keywords.items()]
    if next(iter(signature.parameters), "") == "self":
        got = got[1:]
    return ArgumentTypeError(
        f"{name}(): {reason}",
        expected=name + _plain(signature),
        got=f"{name}({', '.join(got)})",
        fix="pass the arguments that the function takes",
    )


def _plain(signature: inspect.Signature) -> str:
    """A signature without annotations."""
    bare = [
        parameter.replace(annotation=parameter.empty)
        for parameter in signature.parameters.values()
        if parameter.name != "self"
    ]
    return str(inspect.Signature(bare))


def _wrong_type(
    name: str,
    position: int,
    parameter: inspect.Parameter,
    value: Any,
    signature: inspect.Signature,
) -> ArgumentTypeError | None:
    kind = kind_of(name, parameter, signature.parameters)
    if kind is None or (value is None and parameter.default is None):
        return None
    wanted, accepts, fix = KINDS[
        _element(kind) if parameter.kind is parameter.VAR_POSITIONAL else kind
    ]
    try:
        if accepts(value):
            return None
    except Exception:  # noqa: BLE001 - a value that cannot even be looked at
        pass
    return ArgumentTypeError(
        f"{name}(): argument '{parameter.name}' (position {position + 1}) must be {wanted}, "
        f"not {type_name(value)}",
        expected=f"{parameter.name}: {wanted}",
        got=f"{parameter.name}={show(value)}",
        fix=fix,
    )


def _element(kind: str) -> str:
    return {"tensors": "tensor", "ints": "int", "numbers": "number"}.get(kind, kind)


def _too_large(name: str, parameter: inspect.Parameter, value: Any) -> ArgumentError | None:
    """Integers that no 64 bits hold."""
    items = value if isinstance(value, (tuple, list)) else (value,)
    for item in items:
        if hasattr(type(item), "__index__") and not isinstance(item, (Tensor, np.ndarray)):
            number = operator.index(item)
            if not -_LARGEST <= number < _LARGEST:
                return ArgumentError(
                    f"{name}(): argument '{parameter.name}': Overflow when unpacking long",
                    expected="an integer of at most 64 bits",
                    got=show(number),
                    fix="check how the number was computed",
                )
    return None


def _of_limits(name: str, arguments: Mapping[str, Any], error: Exception) -> WeftError | None:
    """What no single argument is to blame for: memory, and sequences that hold themselves."""
    got = ", ".join(f"{key}={show(value)}" for key, value in arguments.items())
    if isinstance(error, MemoryError):
        return OutOfMemoryError(
            f"{name}: not enough memory",
            expected="a result that fits into memory",
            got=got,
            fix="use smaller sizes",
        )
    if isinstance(error, RecursionError):
        return ArgumentError(
            f"{name}(): sequences are nested too deep",
            expected="nested sequences that end",
            got=got,
            fix="check that no sequence holds itself",
        )
    return None


# -- words -----------------------------------------------------------------------------------------


def type_name(value: Any) -> str:
    """The type of a value; of a sequence also that of its first element."""
    name = type(value).__name__
    return (
        f"{name} of {type(value[0]).__name__}"
        if isinstance(value, (tuple, list)) and value
        else name
    )


def show(value: Any) -> str:
    """A value in an error text, in at most 80 characters."""
    if isinstance(value, Tensor):
        return f"{value._dtype.name}{list(value._shape)}"
    try:
        text = repr(value)
    except Exception:  # noqa: BLE001 - any object may come in, and any repr fail
        text = type(value).__name__
    return text if len(text) <= 80 else text[:77] + "..."
