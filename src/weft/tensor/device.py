"""The device of a tensor: the CPU, or "meta" for tensors without memory. Others can be named and are refused where they
would be used. As a context, a device says where new tensors go."""

from __future__ import annotations

from contextvars import ContextVar
from typing import Any

from weft._typing import DeviceLike
from weft.engine.devices.api import device_at as registered_at
from weft.errors import ArgumentTypeError, DeviceError, MissingDeviceError

_KINDS = (
    "Expected one of cpu, cuda, ipu, xpu, mkldnn, opengl, opencl, ideep, hip, ve, fpga, maia, xla, lazy, vulkan, mps, "
    "meta, hpu, mtia, privateuseone"
)
KNOWN = ("cpu", "cuda", "mps", "xpu", "meta", "hip", "xla")


def _is_number(text: str) -> bool:
    """True if a text is a number in its normal form: 0 or more, no leading zeros."""
    return text.isdigit() and text == str(int(text))


def _need_number(index: int | None) -> int | None:
    """The number of a device, None for the current one. Errors: DeviceError on negative numbers."""
    if index is not None and index < 0:
        raise DeviceError(
            "Device index must not be negative",
            expected="a number >= 0",
            got=str(index),
            fix="leave the index out for the current device",
        )
    return index


def _what_is_wrong(text: str) -> str:
    """PyTorch's words for a string that names no device."""
    if not text:
        return "Device string must not be empty"
    name, colon, number = text.partition(":")
    letters = name.isascii() and name.replace("_", "").isalpha()
    if name in KNOWN or not letters or (colon and not _is_number(number)):
        return f"Invalid device string: '{text}'"
    return f"{_KINDS} device type at start of device string: {name}"


class device:  # noqa: N801  (the public name)
    """A device by name and index: `device("cpu")`, `device("cpu", 0)`. Errors: RuntimeError on an unknown name.

    Args:
        type: a name such as "cpu", with its index as in "cpu:0", or a device.
        index: the number of the device; None: not said, or as in `type`.

    Example:
        >>> import weft
        >>> weft.device("cpu").type
        'cpu'
    """

    __slots__ = ("index", "type")

    type: str
    index: int | None

    def __init__(self, type: object, index: int | None = None) -> None:  # noqa: A002
        if isinstance(type, device):
            self.type, self.index = type.type, type.index if index is None else index
            return
        if isinstance(type, int) and not isinstance(type, bool):
            self.type, self.index = "cuda", _need_number(type)
            return
        if not isinstance(type, str):
            raise ArgumentTypeError(
                "weft.device",
                expected="a name such as 'cpu'",
                got=repr(type),
                fix=getattr(type, "fix", "pass 'cpu'"),
            )
        name, colon, number = type.partition(":")
        if name not in KNOWN or (colon and (not _is_number(number) or index is not None)):
            raise DeviceError(
                _what_is_wrong(type),
                expected=f"one of {', '.join(KNOWN)}",
                got=repr(type),
                fix="pass 'cpu'",
            )
        self.type = name
        self.index = int(number) if number else _need_number(index)

    def __repr__(self) -> str:
        return (
            f"device(type={self.type!r})"
            if self.index is None
            else (f"device(type={self.type!r}, index={self.index})")
        )

    def __str__(self) -> str:
        return self.type if self.index is None else f"{self.type}:{self.index}"

    def __eq__(self, other: object) -> bool:
        return isinstance(other, device) and (self.type, self.index) == (other.type, other.index)

    def __hash__(self) -> int:
        return hash((self.type, self.index))

    def __reduce__(self) -> tuple[Any, ...]:
        return (device, (self.type, self.index))

    def __enter__(self) -> device:
        check_device(self)
        _current.set((self, _current.get()))
        return self

    def __exit__(self, *exception: object) -> None:
        entered = _current.get()
        _current.set(None if entered is None else entered[1])


def device_at(number: int) -> device:
    """The name of an existing device, by its number."""
    named = device.__new__(device)
    named.type, named.index = registered_at(number).name, None
    return named


CPU, META = device("cpu"), device("meta")
# Where new tensors go, and what it was before: of a thread, or of a fiber. None is the CPU.
_current: ContextVar[Any] = ContextVar("weft_device", default=None)


def default_device() -> device:
    """The device of new tensors."""
    entered = _current.get()
    return CPU if entered is None else entered[0]  # type: ignore[no-any-return]


def set_default(wanted: DeviceLike | None) -> None:
    """Let new tensors go to a device from now on; None stands for the CPU. Errors: DeviceError."""
    named = CPU if wanted is None else wanted if isinstance(wanted, device) else device(wanted)
    check_device(named, "set_default_device")
    _current.set((named, None))


def on_meta(wanted: DeviceLike | None, what: str = "device") -> bool:
    """True if a new tensor is to be on the device meta; None stands for the default. Errors: DeviceError on a device
    that does not exist."""
    if wanted is None:
        entered = _current.get()
        return entered is not None and entered[0].type == "meta"
    check_device(wanted, what)
    return (wanted if isinstance(wanted, device) else device(wanted)).type == "meta"


def check_device(wanted: DeviceLike | None, what: str = "device") -> None:
    """Refuse a device that does not exist; None stands for the default."""
    if wanted is None or wanted is CPU:
        return
    named = wanted if isinstance(wanted, device) else device(wanted)
    if named.type not in ("cpu", "meta"):
        raise MissingDeviceError(
            "Weft not compiled with CUDA enabled"
            if named.type == "cuda"
            else f"no device {str(named)!r}",
            expected="the CPU, the only device of this version, or 'meta' for tensors without memory",
            got=repr(str(named)),
            fix="pass 'cpu', or choose with `'cuda' if weft.cuda.is_available() else 'cpu'`",
            operation=what,
        )


def need_cpu(wanted: Any, what: str) -> None:
    """Refuse every device but the CPU; None stands for it."""
    check_device(wanted, what)
    if wanted is not None and on_meta(wanted, what):
        raise DeviceError(
            f"{what}: device 'meta' has no memory",
            expected="the CPU",
            got="'meta'",
            fix="pass 'cpu'",
        )
