"""Errors of wrong arguments: finds which argument of a failed call was wrong.

It takes a public function, the arguments of a call that failed, and the exception. It returns the error that the user
should see, or None if the arguments are of the right types and the exception has another cause. `argument_types`
defines what an argument has to be. This runs after a failure only, so right calls pay nothing for it.
"""

from __future__ import annotations

import inspect
import opcode
import operator
import re
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
    class_name,
    is_internal,
)

_HOSTS = {"numpy", "scipy", "weft", *sys.stdlib_module_names}
_LARGEST = 2**63
_RAISES = ("RAISE_VARARGS", "RERAISE")


# -- what went wrong -------------------------------------------------------------------------------


def explain(
    function: Callable[..., object],
    values: list[object],
    keywords: dict[str, object],
    error: Exception,
) -> WeftError | None:
    """The error for a call that failed with `error`, or None where the arguments are not to blame."""
    if isinstance(error, OSError) or _of_user(error.__traceback__):
        return None
    name = _called(function, values)
    refused = error if isinstance(error, ArgumentTypeError) else None
    if refused is not None and not _of_another(name, refused):
        return in_several_forms(name, values, keywords, refused)
    signature = _signature(function)
    if signature is None:
        return refused
    try:
        bound = signature.bind(*values, **keywords)
    except TypeError as wrong:
        return refused or _wrong_call(name, signature, values, keywords, str(wrong))
    if refused is None and _on_purpose(error.__traceback__):
        return None
    found: WeftError | None
    if refused is not None and refused.what.startswith("argument '"):
        found = _completed(name, signature, keywords, refused)
    else:
        found = _first_wrong(name, signature, bound.arguments, keywords) or refused
    if isinstance(found, ArgumentTypeError):
        return in_several_forms(name, values, keywords, found)
    return found or _of_limits(name, bound.arguments, error)


def _first_wrong(
    name: str,
    signature: inspect.Signature,
    arguments: Mapping[str, object],
    keywords: Iterable[str],
) -> WeftError | None:
    """The error of the first argument that is of a wrong type, or too large; None if all fit."""
    first = 0 if _has_self(signature) else 1
    for position, (parameter, value) in enumerate(_given(signature, arguments), first):
        place = "" if parameter.name in keywords else f" (position {position})"
        found = _wrong_type(name, place, parameter, value, signature) or _too_large(
            name, parameter, value
        )
        if found is not None:
            return found
    return None


def _has_self(signature: inspect.Signature) -> bool:
    """True if the first parameter is `self`, which neither counts nor positions include, as in PyTorch."""
    return next(iter(signature.parameters), "") == "self"


def _of_another(name: str, error: ArgumentTypeError) -> bool:
    """True if an error says `argument 'x'` of no function, or of one that this one calls."""
    names_argument = re.match(r"(?:[\w.]+\(\): )?argument '", error.what)
    return names_argument is not None and not error.what.startswith(f"{name}(): ")


def _completed(
    name: str, signature: inspect.Signature, keywords: Iterable[str], error: ArgumentTypeError
) -> ArgumentTypeError:
    """An error that says `argument 'x'`, with the function and the position of its argument x."""
    _, argument, rest = error.what.split("'", 2)
    if argument not in signature.parameters:
        return error
    position = list(signature.parameters).index(argument) + (not _has_self(signature))
    place = "" if argument in keywords else f" (position {position})"
    return ArgumentTypeError(
        f"{name}(): argument '{argument}'{place}{rest}",
        expected=error.expected,
        got=error.got,
        fix=error.fix,
        where=error.where,
    )


def _called(function: Callable[..., object], values: list[object]) -> str:
    """The name by which users know a function: `exp`, `Linear`, `Module.register_buffer`."""
    if function.__name__ == "__init__" and values:
        return type(values[0]).__name__
    if "<locals>" in function.__qualname__:
        return function.__name__
    return function.__qualname__.removesuffix(".__init__")


def _signature(function: Callable[..., object]) -> inspect.Signature | None:
    """A function's parameters, None if it does not tell; an in-place variant has those of the function that it wraps,
    but for `out`, and what is `explained_as` another function has that one's."""
    try:
        found = inspect.signature(getattr(function, "explained_as", function))
    except (TypeError, ValueError):
        return None
    if function.__name__.endswith("_"):
        kept = [p for p in found.parameters.values() if p.name != "out"]
        return found.replace(parameters=kept)
    return found


def _of_user(trace: TracebackType | None) -> bool:
    """True if an exception comes out of code that a user passed: a function, a subclass, a special method."""
    while trace is not None:
        frame = trace.tb_frame
        module = str(frame.f_globals.get("__name__", "")).partition(".")[0]
        if not is_internal(frame.f_code.co_filename) and module not in _HOSTS:
            return True
        trace = trace.tb_next
    return False


def _on_purpose(trace: TracebackType | None) -> bool:
    """True if the library raised the exception itself: then its text is the one to show."""
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
    values: list[object],
    keywords: dict[str, object],
    reason: str,
) -> ArgumentTypeError:
    got = [type_name(value) for value in values]
    got += [f"{key}={type_name(value)}" for key, value in keywords.items()]
    if _has_self(signature):
        got = got[1:]
    error = ArgumentTypeError(
        f"{name}() {_misfit(signature, values, keywords, reason)}",
        expected=name + _plain(signature),
        got=f"{name}({', '.join(got)})",
        fix="pass the arguments that the function takes",
    )
    return in_several_forms(name, values, keywords, error)


def _misfit(
    signature: inspect.Signature, values: list[object], keywords: Iterable[str], reason: str
) -> str:
    """The reason why arguments cannot be bound, in PyTorch's words; `reason` is in those of `inspect`."""
    parameters = signature.parameters.values()
    positional = [p for p in parameters if p.kind in (p.POSITIONAL_ONLY, p.POSITIONAL_OR_KEYWORD)]
    needed = [p for p in positional if p.default is p.empty]
    if reason.startswith("missing"):
        rest = [*positional[len(values) :], *(p for p in parameters if p.kind is p.KEYWORD_ONLY)]
        missing = [p.name for p in rest if p.default is p.empty and p.name not in keywords]
        names = ", ".join(f'"{absent}"' for absent in missing)
        return f"missing {len(missing)} required positional arguments: {names}"
    if reason.startswith("too many"):
        own = _has_self(signature)
        least, most, count = (n - own for n in (len(needed), len(positional), len(values)))
        takes = f"{most}" if least == most else f"from {least} to {most}"
        plural = "" if takes == "1" else "s"
        return f"takes {takes} positional argument{plural} but {count} {'was' if count == 1 else 'were'} given"
    return reason if reason.startswith("got ") else f"got {reason}"


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
    place: str,
    parameter: inspect.Parameter,
    value: object,
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
    said = wanted.removesuffix(" or a number")  # as in PyTorch, which takes numbers too
    return ArgumentTypeError(
        f"{name}(): argument '{parameter.name}'{place} must be {said}, not {class_name(value)}",
        expected=f"{parameter.name}: {wanted}",
        got=f"{parameter.name}={show(value)}",
        fix=fix,
    )


def _element(kind: str) -> str:
    return {"tensors": "tensor", "ints": "int", "numbers": "number"}.get(kind, kind)


def _too_large(name: str, parameter: inspect.Parameter, value: object) -> ArgumentError | None:
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


def _of_limits(name: str, arguments: Mapping[str, object], error: Exception) -> WeftError | None:
    """The error of a failure that no single argument causes: lack of memory, or sequences that contain themselves."""
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


def type_name(value: object) -> str:
    """The type of a value; of a sequence also that of its first element."""
    name = class_name(value)
    return (
        f"{name} of {class_name(value[0])}" if isinstance(value, (tuple, list)) and value else name
    )


def show(value: object) -> str:
    """A value in an error text, in at most 80 characters."""
    if isinstance(value, Tensor):
        return f"{value._dtype.name}{list(value._shape)}"
    try:
        text = repr(value)
    except Exception:  # noqa: BLE001 - any object may come in, and any repr fail
        text = type(value).__name__
    return text if len(text) <= 80 else text[:77] + "..."
