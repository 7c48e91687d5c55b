"""The exception tree.

Every error names the operation and the user's line, says what was expected, what came and how to fix it, and is
also the standard exception that PyTorch users already catch. Nothing here depends on another part of Weft.
"""

from __future__ import annotations

import contextlib
import os
import re
import sys
from types import CodeType, FrameType

__all__ = [
    "AccessError", "AnomalyError", "ArgumentError", "ArgumentTypeError", "AssertedError", "AssertedKindError",
    "CheckpointError", "DTypeError", "DeviceError", "DimensionError", "DirectoryError", "ExecutionError",
    "ExportError", "GradientError", "IndexRangeError", "KindError", "LinAlgError", "MemberNameError",
    "MissingDeviceError", "MissingError", "MissingFileError", "MissingPackageError", "MutationError",
    "NoDataError", "NoTensorError", "NotDefinedError", "NumberRangeError", "OutOfMemoryError", "PathError",
    "ShapeError", "SpillError", "TensorIndexError", "UnsupportedDTypeError", "UnsupportedModeError",
    "VerificationError", "WeftError",
]  # fmt: skip

PACKAGE = os.path.dirname(os.path.abspath(__file__)) + os.sep
DEMO = PACKAGE + "demo" + os.sep
_HEAP_TYPE = 1 << 9  # a flag of classes that are not written in C
_OWN_NAME = re.compile(r"(?<![\w.])weft\.(?=\w)")
_names = ["weft"]  # the last: under which name the program has imported the package
_inside: dict[str, bool] = {contextlib.__file__: True}  # what runs the library's own contexts


def name_package(name: str) -> None:
    """From here on texts say that the program has imported the package as `name`."""
    _names.append(name)


def package_name() -> str:
    """The name under which the program has imported the package."""
    return _names[-1]


def rooted(text: str) -> str:
    """A text that says `weft.float32`, with the name of the package as the program has imported it: `torch.float32`
    where `weft.as_torch` stands in for PyTorch. Programs compare such texts, and look names up that they cut from them.
    """
    return text if len(_names) == 1 else _OWN_NAME.sub(f"{_names[-1]}.", text)


def is_internal(filename: str) -> bool:
    """True if a source file belongs to the library (the demo is a user of it)."""
    known = _inside.get(filename)
    if known is None:
        path = os.path.abspath(filename)
        known = path.startswith(PACKAGE) and not path.startswith(DEMO)
        _inside[filename] = known
    return known


def _is_host(names: dict[str, object]) -> bool:
    """True if a module is NumPy's, SciPy's or Python's own: what they call on a tensor, a user asked them for."""
    root = str(names.get("__name__", "")).partition(".")[0]
    return root in ("numpy", "scipy") or root in sys.stdlib_module_names


def line_number(code: CodeType, instruction: int) -> int:
    """The line of an instruction of a code object, as `engine.capi.call_site` counts instructions."""
    offset = 2 * instruction
    for start, end, number in code.co_lines():
        if start <= offset < end and number is not None:
            return number
    return code.co_firstlineno


def describe_position(code: CodeType | None, instruction: int) -> str:
    """`train.py:41 in forward` for a code object and an instruction in it, as `engine.capi.call_site` gives it."""
    if code is None:
        return "<unknown>"
    line = line_number(code, instruction)
    return f"{os.path.basename(code.co_filename)}:{line} in {code.co_name}"


def class_name(value: object) -> str:
    """The class of a value as Python's own errors name it: `list`, `numpy.ndarray`."""
    cls = type(value)
    in_c = not cls.__flags__ & _HEAP_TYPE and cls.__module__.partition(".")[0] != "weft"
    return f"{cls.__module__}.{cls.__name__}".removeprefix("builtins.") if in_c else cls.__name__


def user_line() -> str:
    """The innermost frame outside the library, and outside what calls it back, as `train.py:41 in forward`. A fiber
    stands on the frame that waits for it."""
    frame: FrameType | None = sys._getframe(1)
    greenlet = sys.modules.get("greenlet")
    fiber = None if greenlet is None else greenlet.getcurrent()
    while frame is not None:
        code = frame.f_code
        if not is_internal(code.co_filename) and not _is_host(frame.f_globals):
            return f"{os.path.basename(code.co_filename)}:{frame.f_lineno} in {code.co_name}"
        frame = frame.f_back
        if frame is None and fiber is not None and fiber.parent is not None:
            fiber = fiber.parent
            frame = fiber.gr_frame
    return "<unknown>"


class WeftError(Exception):
    """Base of all errors. `expected`, `got`, `fix` and `where` stand in the message and as attributes. `operation` is
    given where `what` does not name it: in the words that PyTorch has for many operations."""

    def __init__(
        self,
        what: str,
        *,
        expected: str = "",
        got: str = "",
        fix: str = "",
        where: str | None = None,
        operation: str = "",
    ) -> None:
        what, expected, got, fix = map(rooted, (what, expected, got, fix))
        self.what, self.expected, self.got, self.fix = what, expected, got, fix
        self.where = user_line() if where is None else where
        lines = [f"{what}, called at {self.where}" + (f" ({operation})" if operation else "")]
        for label, text in (("expected", expected), ("got", got), ("fix", fix)):
            if text:
                lines.append(f"  {label:<9} {text}")
        super().__init__("\n".join(lines))

    def again(self) -> WeftError:
        """The same error, to be raised: what a node remembers must not come to hold the frames that it went through,
        and with them the node."""
        made = type(self).__new__(type(self), *self.args)
        made.__dict__.update(self.__dict__)
        return made


class ShapeError(WeftError, RuntimeError):
    """Sizes that do not fit together."""


class DTypeError(WeftError, RuntimeError):
    """An element type that the operation does not take."""


class DTypeKindError(DTypeError, TypeError):
    """A dtype that PyTorch refuses with a TypeError, as it does where tensors are joined."""


class UnsupportedDTypeError(DTypeError, NotImplementedError):
    """An element type that the operation has no kernel for, where PyTorch raises NotImplementedError."""


class LinAlgError(WeftError, RuntimeError):
    """A matrix that has not what is asked for: an inverse, a Cholesky factor."""


class DeviceError(WeftError, RuntimeError):
    """A device that does not exist or operands on different ones."""


class ArgumentError(WeftError, ValueError, RuntimeError):
    """A value outside what the argument allows. PyTorch raises ValueError for some of these, RuntimeError for others;
    this is both."""


class ArgumentTypeError(WeftError, TypeError):
    """An argument of a Python type that the function does not take."""


class KindError(ArgumentError, TypeError):
    """An argument or result of a Python type that the function does not take, where PyTorch raises ValueError or
    RuntimeError; it is a TypeError too."""


class UnsupportedModeError(ArgumentError, NotImplementedError):
    """A choice that the function does not offer, where PyTorch raises NotImplementedError; it is a ValueError too."""


class MissingDeviceError(DeviceError, AssertionError):
    """A device that this machine or build does not have, where PyTorch asserts that it was compiled with CUDA."""


class NumberRangeError(ArgumentError, OverflowError):
    """A Python integer that a type cannot hold. By where it is converted, PyTorch raises OverflowError, ValueError or
    RuntimeError; this is all of them."""


class NoTensorError(WeftError, TypeError, AttributeError):
    """Something else where a tensor or a module is wanted, and PyTorch misses an attribute of it; it is a TypeError
    too."""

    @classmethod
    def of(
        cls, value: object, attribute: str, function: str = "", note: str = "", **said: str
    ) -> NoTensorError:
        """The error of a function that looks for an attribute of `value`; `said` are expected, got and fix."""
        missed = f"'{type(value).__name__}' object has no attribute '{attribute}'"
        what = ": ".join(part for part in (function, missed, note) if part)
        return cls(what, **{"got": f"{value!r:.60}", **said})


class ExportError(WeftError, BufferError, RuntimeError):
    """Memory that cannot be handed to another library as it is."""


class AssertedKindError(WeftError, AssertionError, TypeError):
    """Something else where a tensor is wanted, where PyTorch asserts; it is a TypeError too."""


class AssertedError(WeftError, AssertionError, ValueError):
    """A value outside what the argument allows, where PyTorch asserts; it is a ValueError too."""


class MemberNameError(WeftError, KeyError):
    """The name of a parameter, buffer, module or setting that cannot be used, or is not there."""

    __str__ = Exception.__str__  # KeyError would show the text as a literal


class MissingError(WeftError, AttributeError):
    """A part of an object that is not there, or not yet."""


class MissingPackageError(WeftError, ImportError):
    """A package that is an extra, and not installed."""


class NotDefinedError(WeftError, NotImplementedError):
    """A method that the user's subclass has to define."""


class NoDataError(WeftError, NotImplementedError):
    """A value is wanted of a tensor on the device meta, which has none."""

    def __init__(self, what: str = "Cannot copy out of meta tensor; no data!") -> None:
        super().__init__(
            what,
            expected="a tensor with memory",
            got="a tensor on the device meta",
            fix="give the module memory with to_empty(device='cpu'), or load_state_dict(..., assign=True)",
        )

    def again(self) -> NoDataError:
        """The same error at the line that wants the value."""
        return type(self)(self.what)


class DimensionError(WeftError, IndexError):
    """A dimension that the tensor does not have."""


class TensorIndexError(WeftError, IndexError):
    """An index outside its dimension, or of a kind that cannot index."""


class IndexRangeError(TensorIndexError, RuntimeError):
    """An element of an index tensor outside its dimension, found when the kernel ran. PyTorch raises IndexError for
    some functions, RuntimeError for others; this is both."""


class GradientError(WeftError, RuntimeError):
    """A gradient that cannot be had: freed graph, no graph, wrong cotangent."""


class MutationError(WeftError, RuntimeError):
    """An in-place operation that would break aliasing or autograd's rules."""


class AnomalyError(WeftError, RuntimeError):
    """The first operation that produced a value that is not finite, under anomaly mode: `anomaly` describes it."""

    anomaly: object = None


class OutOfMemoryError(WeftError, MemoryError, RuntimeError):
    """More memory than there is; nothing was allocated or changed."""


class SpillError(WeftError, OSError, RuntimeError):
    """Values that were to go to a file for want of memory, which did not take them."""

    __str__ = Exception.__str__  # OSError would show its number


class CheckpointError(WeftError, RuntimeError):
    """A file that is not what `save` writes, or is damaged."""


class EmptyFileError(CheckpointError, EOFError):
    """A file of no bytes where a saved value is expected."""


class MissingFileError(WeftError, FileNotFoundError, RuntimeError):
    """A file, or the directory that it is to be written to, that does not exist."""

    __str__ = Exception.__str__  # OSError would show its number


class DirectoryError(WeftError, IsADirectoryError, RuntimeError):
    """A directory where a file is wanted."""

    __str__ = Exception.__str__


class AccessError(WeftError, PermissionError, RuntimeError):
    """A file or directory that may not be read or written."""

    __str__ = Exception.__str__


class PathError(WeftError, OSError, ValueError, RuntimeError):
    """A path that names no file that can be read or written."""

    __str__ = Exception.__str__


class ExecutionError(WeftError, RuntimeError):
    """A recorded operation failed when it ran; its descendants fail with the same error."""


class VerificationError(WeftError, AssertionError):
    """A stage of the pipeline broke one of its own invariants: a defect of the library."""
