"""Settings that PyTorch programs make at start-up and that have one value here.

A setting that Weft has already is accepted, one that it cannot have is refused. `info` has the default dtype.
"""

from __future__ import annotations

from typing import Any
from warnings import warn

from weft._typing import DeviceLike
from weft.engine.ir import dtype as dtypes
from weft.errors import ArgumentError, rooted
from weft.tensor.device import default_device, device, set_default
from weft.tensor.legacy_constructors import TensorType

PRECISIONS = ("highest", "high", "medium")


def set_default_device(device: DeviceLike | None) -> None:  # noqa: A002
    """Set the device of new tensors: the CPU, or "meta". Errors: RuntimeError on another device."""
    set_default(device)


def get_default_device() -> device:
    """The device of new tensors."""
    return default_device()


def set_default_tensor_type(t: object) -> None:
    """Set the default dtype by an old constructor's type or name. Errors: TypeError unless it is floating-point."""
    warn(
        rooted(
            "weft.set_default_tensor_type() is deprecated as of PyTorch 2.1, please use weft.set_default_dtype() and "
            "weft.set_default_device() as alternatives."
        ),
        UserWarning,
        stacklevel=2,
    )
    if isinstance(t, TensorType):
        dtypes.set_default(t.dtype)
        return
    from weft.tensor.conversion.dtype_and_device import BY_TYPE_NAME

    name = str(t).rsplit(".", 1)[-1].removesuffix("Tensor")
    if name not in BY_TYPE_NAME:
        raise ArgumentError(
            f"invalid type: {t!r}",
            expected="for example weft.FloatTensor",
            got=repr(t),
            fix="call weft.set_default_dtype",
        )
    dtypes.set_default(BY_TYPE_NAME[name])


def set_float32_matmul_precision(precision: str) -> None:
    """Accepted and without effect: products of float32 are always computed in float32. Errors: ValueError on an
    unknown name."""
    if precision not in PRECISIONS:
        raise ArgumentError(
            "set_float32_matmul_precision",
            expected=f"one of {', '.join(PRECISIONS)}",
            got=repr(precision),
            fix="pass 'highest'",
        )


def get_float32_matmul_precision() -> str:
    """The precision of products of float32: float32."""
    return "highest"


def set_flush_denormal(mode: bool) -> bool:
    """Set whether subnormal numbers are flushed to zero: they never are, so False."""
    return False


def set_num_interop_threads(threads: int) -> None:
    """Accepted and without effect: programs run one after the other."""
    if threads < 1:
        raise ArgumentError(
            "set_num_interop_threads expects a positive integer",
            expected="at least 1",
            got=str(threads),
            fix="pass 1",
        )


def get_num_interop_threads() -> int:
    """The number of programs that one thread runs at a time: 1."""
    return 1


FUNCTIONS: dict[str, Any] = {
    function.__name__: function
    for function in (
        set_default_device,
        get_default_device,
        set_default_tensor_type,
        set_float32_matmul_precision,
        get_float32_matmul_precision,
        set_flush_denormal,
        set_num_interop_threads,
        get_num_interop_threads,
    )
}
