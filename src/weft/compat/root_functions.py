"""Questions about the framework, and functions of numbers that PyTorch's tracing makes symbolic; here they are
numbers.

Also PyTorch's older setters of mixed precision, and the exception of devices.
"""

from __future__ import annotations

import math
from collections.abc import Callable
from typing import Any

import numpy as np

import weft
from weft import amp
from weft.engine.dispatch.torch_function import DisableTorchFunctionSubclass
from weft.errors import ArgumentError, AssertedKindError, DeviceError, KindError
from weft.nn.module.checks import typename as _typename

has_cuda = has_cudnn = has_mps = False
legacy_contiguous_format = weft.contiguous_format
AcceleratorError = DeviceError
DisableTorchFunction = DisableTorchFunctionSubclass
TensorType = weft.Tensor  # in annotations
_always: list[bool] = []
_WHOLE, _FLOATS = (int, np.integer), (float, np.floating)


def cond(
    pred: Any, true_fn: Callable[..., Any], false_fn: Callable[..., Any], operands: Any = ()
) -> Any:
    """`true_fn(*operands)` where `pred`, a number or a tensor of one element, is true, else `false_fn(*operands)`.

    One of them is called, as by `if`. Errors: RuntimeError for a `pred` of several elements, and for branches that are
    no functions.
    """
    if not isinstance(pred, (bool, int, float, weft.Tensor)) or (
        isinstance(pred, weft.Tensor) and pred.numel() != 1
    ):
        raise ArgumentError(
            f"Expected pred to be bool or single-element tensor, but got {pred}.",
            expected="a bool, a number, or a tensor of one element",
            got=type(pred).__name__,
            fix="say which of the elements decides: pred.any() or pred.all()",
        )
    if not callable(true_fn) or not callable(false_fn):
        raise ArgumentError(
            "Expect both branches to be callable.",
            expected="two functions",
            got=f"{type(true_fn).__name__} and {type(false_fn).__name__}",
            fix="pass functions: lambda *operands: ...",
        )
    return (true_fn if pred else false_fn)(*operands)


def while_loop(
    cond_fn: Callable[..., object], body_fn: Callable[..., object], carried_inputs: object
) -> Any:
    """Run a loop: while `cond_fn(*carried)` is true, `carried_inputs` become `body_fn(*carried)`. Returns the last
    ones."""
    if not isinstance(carried_inputs, tuple | list) or not (
        callable(cond_fn) and callable(body_fn)
    ):
        raise KindError(
            "while_loop: expected two functions and a tuple of what they are given",
            expected="while_loop(cond_fn, body_fn, (a, b))",
            got=f"{type(cond_fn).__name__}, {type(body_fn).__name__}, {type(carried_inputs).__name__}",
            fix="pass functions, and a tuple",
        )
    carried = tuple(carried_inputs)
    while cond_fn(*carried):
        found = body_fn(*carried)
        carried = tuple(found) if isinstance(found, tuple | list) else (found,)
    return carried


def typename(obj: object, /) -> str:
    """The name of an object's type, with its module unless it is built in; of a tensor the type's old name."""
    return str(obj.type()) if isinstance(obj, weft.Tensor) else _typename(obj)


def set_warn_always(b: bool, /) -> None:
    """Give warnings that are given once each time, or not. Python's filters decide that here; the setting is only
    kept."""
    _always[:] = [True] if b else []


def is_warn_always_enabled() -> bool:
    """The last setting of `set_warn_always`."""
    return bool(_always)


def get_device_module(device: object = None) -> Any:
    """The module of a device: `weft.cpu`, or the module of a device that this machine lacks. Errors: RuntimeError if
    there is no such module, or if `device` is none."""
    if device is not None and not isinstance(device, (str, weft.device)):
        raise KindError(
            f"Invalid value of device '{device}', expect weft.device, str, or None",
            expected="a weft.device, its name or None",
            got=type(device).__name__,
            fix="pass 'cpu'",
        )
    kind = "cpu" if device is None else weft.device(device).type
    module = getattr(weft, kind, None)
    if module is None:
        raise DeviceError(
            f"Device '{kind}' does not have a corresponding module registered as 'weft.{kind}'.",
            expected="a device with a module of its own, such as cpu",
            got=kind,
            fix="pass 'cpu'",
        )
    return module


def _converted(function: str, convert: Callable[[Any], Any], a: object) -> Any:
    """A number converted to another type. Errors: ArgumentError if that is impossible; TypeError."""
    try:
        return convert(a)
    except (ValueError, OverflowError) as error:
        if not isinstance(a, (int, float)):
            raise  # it says itself what is wrong with it
        raise ArgumentError(
            f"{function}(): {error}",
            expected="a number that has such a value",
            got=repr(a),
            fix="check how it was computed",
        ) from error


def _need(function: str, holds: bool, value: object, wanted: str) -> None:
    """Errors: AssertionError, as PyTorch has it, that is a TypeError too."""
    if not holds:
        raise AssertedKindError(
            f"{function}(): expected {wanted}, got {type(value)}",
            expected=wanted,
            got=type(value).__name__,
            fix=f"pass {wanted}",
        )


def sym_int(a: object) -> int:
    """The integer towards zero."""
    return int(_converted("sym_int", int, a))


def sym_float(a: object) -> float:
    """The number as a float."""
    return float(_converted("sym_float", float, a))


def sym_not(a: object) -> bool:
    """Not."""
    return not a


def sym_max(a: object, b: object) -> Any:
    """The larger of two numbers, a float where one of them is. Errors: AssertionError on anything else."""
    return _chosen("sym_max", max, a, b)


def sym_min(a: object, b: object) -> Any:
    """The smaller of two numbers, a float where one of them is. Errors: AssertionError on anything else."""
    return _chosen("sym_min", min, a, b)


def _chosen(function: str, choose: Callable[[Any, Any], Any], a: object, b: object) -> Any:
    for value in (a, b):
        _need(function, isinstance(value, (*_WHOLE, *_FLOATS)), value, "an int or a float")
    chosen = choose(a, b)
    return float(chosen) if isinstance(a, _FLOATS) or isinstance(b, _FLOATS) else chosen


def sym_sum(*args: Any) -> Any:
    """The sum of numbers, one by one or in a list."""
    alone = len(args) == 1 and isinstance(args[0], (list, tuple))
    return sum(args[0] if alone else args)


def sym_ite(b: object, t: object, f: object) -> Any:
    """`t` where `b` is true, else `f`. Errors: AssertionError unless `b` is a bool and the others of one type."""
    _need("sym_ite", isinstance(b, bool), b, "a bool")
    _need("sym_ite", type(t) is type(f), f, f"one type, that of t ({type(t).__name__})")
    return t if b else f


def sym_sqrt(a: object) -> float:
    """The root."""
    return float(_converted("sym_sqrt", math.sqrt, a))


def _off() -> bool:
    """False: there is none."""
    return False


has_lapack, has_spectral, has_openmp, has_mkl = True, True, False, False
is_autocast_ipu_enabled = is_autocast_xla_enabled = is_vulkan_available = _off


def get_autocast_gpu_dtype() -> Any:
    """The type that autocast casts to on a device that is not there."""
    return amp.get_autocast_dtype("cuda")


def set_anomaly_enabled(enabled: bool, check_nan: bool = True) -> None:
    """`autograd.set_detect_anomaly` without a block."""
    weft.autograd.set_detect_anomaly(enabled, check_nan)
