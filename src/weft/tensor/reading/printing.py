"""Printing of tensors, as PyTorch prints them.

The `repr` of a tensor is its values in columns, summarised when there are many, then the settings that are not the
default (dtype, size of an empty tensor, gradient function). `set_printoptions` sets width and precision.
"""

from __future__ import annotations

import math
from collections.abc import Callable
from typing import Any, NamedTuple

import numpy as np

from weft._typing import Scalar
from weft.autograd.forward_ad import innermost_tangent
from weft.engine.frontend.tensor import Tensor
from weft.engine.ir import dtype as dtypes
from weft.errors import ArgumentError, MutationError
from weft.tensor.memory.host_memory import values_array


class PrintOptions(NamedTuple):
    """The options of printing tensors."""

    precision: int = 4
    threshold: float = 1000
    edgeitems: int = 3
    linewidth: int = 80
    sci_mode: bool | None = None


PROFILES = {
    "default": PrintOptions(),
    "short": PrintOptions(precision=2, edgeitems=2),
    "full": PrintOptions(threshold=math.inf),
}
_options = PrintOptions()


def set_printoptions(
    precision: int | None = None,
    threshold: float | None = None,
    edgeitems: int | None = None,
    linewidth: int | None = None,
    profile: str | None = None,
    sci_mode: bool | None = None,
) -> None:
    """Set digits, the size from which tensors are summarised, items at the edges, columns, scientific notation.

    `profile` ("default", "short", "full") sets all of them first. Errors: ValueError on an unknown profile.
    """
    global _options
    if profile is not None and profile.lower() not in PROFILES:
        raise ArgumentError(
            "set_printoptions",
            expected="one of default, short, full",
            got=repr(profile),
            fix="name one of these profiles",
        )
    base = _options if profile is None else PROFILES[profile.lower()]
    given = {
        "precision": precision,
        "threshold": threshold,
        "edgeitems": edgeitems,
        "linewidth": linewidth,
    }
    changes = {name: value for name, value in given.items() if value is not None}
    _options = base._replace(sci_mode=sci_mode, **changes)  # type: ignore[arg-type]


def get_printoptions() -> PrintOptions:
    """The options in force."""
    return _options


# -- one number ----------------------------------------------------------------------------------------------------


class NumberFormat(NamedTuple):
    """The form of the numbers of one tensor: `kind` is plain, whole, decimal or scientific."""

    kind: str
    width: int
    precision: int

    def bare(self, value: float) -> str:
        """A number without padding."""
        if self.kind == "scientific":
            return f"{value:.{self.precision}e}"
        if self.kind == "decimal":
            return f"{value:.{self.precision}f}"
        if self.kind == "whole":
            return f"{value:.0f}" + ("." if math.isfinite(value) else "")
        return str(value)

    def text(self, value: float) -> str:
        """A number, right-aligned in its column."""
        return self.bare(value).rjust(self.width)


def choose_format(values: np.ndarray) -> NumberFormat:
    """The format for an array of real numbers or booleans: the same for all, wide enough for each."""
    digits = _options.precision
    if values.dtype.kind != "f":
        texts = (
            [str(value) for value in (values.min(), values.max())]
            if values.dtype.kind in "iu"
            else ([str(bool(value)) for value in np.unique(values)])
        )
        return NumberFormat("plain", max(map(len, texts), default=1), digits)
    sample = values.astype(np.float64).reshape(-1)
    sample = sample[np.isfinite(sample) & (sample != 0)]
    kind = _float_kind(sample)
    form = NumberFormat(kind, 0, digits)
    return NumberFormat(
        kind, max((len(form.bare(value)) for value in sample.tolist()), default=1), digits
    )


def _float_kind(sample: np.ndarray) -> str:
    if sample.size == 0:
        return "whole"
    sizes = np.abs(sample)
    low, high = float(sizes.min()), float(sizes.max())
    whole = bool((sample == np.ceil(sample)).all())
    scientific = high / low > 1000.0 or high > 1e8 or (not whole and low < 1e-4)
    if _options.sci_mode is not None:
        scientific = _options.sci_mode
    if scientific:
        return "scientific"
    return "whole" if whole else "decimal"


# -- the block of numbers ------------------------------------------------------------------------------------------


def _printer(values: np.ndarray) -> tuple[Any, int]:
    """A function from an element to its text, and the text's width."""
    if values.dtype.kind != "c":
        form = choose_format(values)
        return form.text, form.width
    real, imaginary = choose_format(values.real), choose_format(values.imag)

    def complex_text(value: complex) -> str:
        right = (imaginary.text(value.imag) + "j").lstrip()
        return real.text(value.real) + ("" if right[0] in "+-" else "+") + right

    return complex_text, real.width + imaginary.width + 1


def _row_text(row: list[Scalar], hidden: bool, show: Any, width: int, indent: int) -> str:
    """One bracketed run of numbers, broken into lines."""
    edge = _options.edgeitems
    words = [show(value) for value in row]
    if hidden:
        words = [*words[:edge], " ...", *words[len(words) - edge :]]
    per_line = max(1, (_options.linewidth - indent) // (width + 2))
    lines = [", ".join(words[i : i + per_line]) for i in range(0, len(words), per_line)] or [""]
    return "[" + (",\n" + " " * (indent + 1)).join(lines) + "]"


def _block_text(
    values: np.ndarray,
    hidden: tuple[bool, ...],
    show: Callable[..., Tensor],
    width: int,
    indent: int,
) -> str:
    """Nested brackets of an array whose dimensions have been cut to their edges where `hidden`."""
    if values.ndim == 0:
        return str(show(values.item()))
    if values.ndim == 1:
        return _row_text(values.tolist(), hidden[0], show, width, indent)
    blocks = [_block_text(part, hidden[1:], show, width, indent + 1) for part in values]
    if hidden[0]:
        edge = _options.edgeitems
        blocks = [*blocks[:edge], "...", *blocks[len(blocks) - edge :]]
    gap = "," + "\n" * (values.ndim - 1) + " " * (indent + 1)
    return "[" + gap.join(blocks) + "]"


def _edges_only(tensor: Tensor) -> tuple[Any, tuple[bool, ...]]:
    """The values to print, and which dimensions have been cut to their edges."""
    edge = _options.edgeitems
    shape = tensor._shape
    many = math.prod(shape) > _options.threshold
    hidden = tuple(many and size > 2 * edge for size in shape)
    values = values_array(tensor)
    for axis, cut in enumerate(hidden):
        if cut:
            lead = (slice(None),) * axis  # slices: `take` would first copy what is not contiguous
            ends = (
                values[(*lead, slice(0, edge))],
                values[(*lead, slice(shape[axis] - edge, None))],
            )
            values = np.concatenate(ends, axis)
    return values, hidden


# -- the whole -----------------------------------------------------------------------------------------------------


def _name_of_function(tensor: Tensor) -> str:
    """The gradient function behind a tensor; "" where there is none."""
    try:
        function = tensor.grad_fn
    except MutationError:  # a view of another mode, whose base has changed since
        return "Invalid"
    return "" if function is None else function.name().rsplit("::", 1)[-1]


def _suffixes(tensor: Tensor) -> list[str]:
    default = dtypes.get_default()
    empty = 0 in tensor._shape
    words = []
    absent = tensor.is_meta
    if absent:
        words.append("device='meta'")
    if absent or (empty and len(tensor._shape) != 1):
        words.append(f"size={tensor._shape}")
    no_numbers = empty or absent
    ordinary = (
        (default,) if no_numbers else (default, default.to_complex(), dtypes.int64, dtypes.bool_)
    )
    if tensor._dtype not in ordinary:
        words.append(f"dtype={tensor._dtype!r}")
    function = _name_of_function(tensor)
    if function:
        words.append(f"grad_fn=<{function}>")
    elif tensor.requires_grad:
        words.append("requires_grad=True")
    tangent = innermost_tangent(tensor)
    if tangent is not None:
        words.append(f"tangent={tensor_text(tangent)}")
    return words


def with_suffixes(text: str, words: list[str], indent: int) -> str:
    """Append what is not the default, on new lines where the last one is full."""
    column = len(text) - text.rfind("\n") + 1
    for word in words:
        if column + len(word) + 2 > _options.linewidth:
            text += ",\n" + " " * indent + word
            column = indent + len(word)
        else:
            text += ", " + word
            column += len(word) + 2
    return text + ")"


def number_block(tensor: Tensor, indent: int) -> str:
    """The numbers in their brackets, lines after the first `indent` columns in."""
    if tensor.is_meta:
        return "..."
    if 0 in tensor._shape:
        return "[]"
    values, hidden = _edges_only(tensor)
    show, width = _printer(values)
    return _block_text(values, hidden, show, width, indent)


def tensor_text(tensor: Tensor) -> str:
    """`repr(tensor)`, of a user's subclass by its name. Cost: runs what the values need."""
    kind = type(tensor)
    own = not kind.__module__.startswith("weft.") and kind is not Tensor
    prefix = f"{kind.__name__}(" if own else "tensor("
    text = prefix + number_block(tensor, len(prefix))
    text = with_suffixes(text, _suffixes(tensor), len(prefix))
    return f"Parameter({text})" if own and getattr(tensor, "_is_param", False) else text


FUNCTIONS: dict[str, Any] = {"set_printoptions": set_printoptions}
