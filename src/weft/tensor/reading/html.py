"""Tensors in notebooks: a picture, statistics, places that are not finite, as HTML.

A notebook asks an object for `_repr_html_`. Nothing is computed but what `repr` computes too. Of a large tensor a
sample is looked at, and the page says so. Text is escaped.
"""

from __future__ import annotations

import base64
import struct
import zlib
from html import escape

import numpy as np

from weft.engine.frontend.tensor import Tensor

MOST_ELEMENTS = 1 << 20  # that are looked at
MOST_CELLS = 96  # of a picture, along each side
MOST_PLACES = 5  # of elements that are not finite, by name
PIXELS = 240  # the longer side of a picture
LOW, MIDDLE, HIGH = (42, 95, 165), (247, 247, 247), (178, 44, 52)
NOT_A_NUMBER, INFINITE = (236, 0, 236), (255, 170, 0)
STYLE = "font-family: ui-monospace, Menlo, Consolas, monospace; font-size: 12px"


def tensor_html(tensor: Tensor) -> str:
    """A tensor as HTML: its picture, the statistics of its elements, places that are not finite, its text."""
    text = f"<pre>{escape(repr(tensor))}</pre>"
    if not _has_plain_memory(tensor):
        return text
    array, is_sample = looked_at(tensor)
    head = f"{type(tensor).__name__} {tensor.dtype.name}{list(tensor.shape)}"
    if tensor.requires_grad:
        head += ", requires grad" if tensor.is_leaf else f", {type(tensor.grad_fn).__name__}"
    picture = _picture(array) if array.size > 1 else ""
    return (
        f'<div style="{STYLE}"><b>{escape(head)}</b><br>{escape(_numbers(array, is_sample, tensor.numel()))}'
        f"{_places(array, is_sample)}<br>{picture}<details><summary>values</summary>{text}</details></div>"
    )


def _has_plain_memory(tensor: Tensor) -> bool:
    """True if its elements lie in memory: it is not sparse, nested, on meta, or traced."""
    if tensor.layout.__class__ is type(None) or str(tensor.layout) != "weft.strided":
        return False
    return tensor.device.type != "meta" and type(tensor).__torch_function__ in _PLAIN


_PLAIN = (Tensor.__torch_function__,)


def sampled(values: Tensor, most: int) -> Tensor:
    """A view of at most so many elements: fewer along the longest dimensions, so that nothing large is copied."""
    while values.numel() > most:
        axis = max(range(values.ndim), key=lambda a: values.shape[a])
        step = min(-(-values.numel() // most), values.shape[axis])
        values = values[(slice(None),) * axis + (slice(None, None, step),)]
    return values


def looked_at(tensor: Tensor) -> tuple[np.ndarray, bool]:
    """The elements as real numbers, and whether they are a sample of fewer along each dimension."""
    is_sample = tensor.numel() > MOST_ELEMENTS
    values = sampled(tensor.detach(), MOST_ELEMENTS)
    if values.dtype.is_complex:
        values = values.abs()
    array = (values.float() if values.dtype.name == "bfloat16" else values).numpy(force=True)
    return array.astype(np.float64), is_sample


def _numbers(array: np.ndarray, is_sample: bool, count: int) -> str:
    """`min -1, mean 0.1, max 2, std 0.5, 3 zeros, 1 nan`."""
    finite = array[np.isfinite(array)]
    words = []
    if finite.size:
        words = [
            f"{name} {value:.4g}"
            for name, value in (
                ("min", finite.min()),
                ("mean", finite.mean()),
                ("max", finite.max()),
                ("std", finite.std()),
            )
        ]
    strange = {"nan": np.isnan(array), "inf": np.isinf(array), "zeros": array == 0}
    words += [f"{int(mask.sum())} {name}" for name, mask in strange.items() if mask.any()]
    if is_sample:
        words.append(f"of a sample of {array.size} of {count} elements")
    return ", ".join(words) or "no elements"


def _places(array: np.ndarray, is_sample: bool) -> str:
    """Places of elements that are not finite; none of a sample, whose places are others."""
    if is_sample or np.isfinite(array).all():
        return ""
    found = np.argwhere(~np.isfinite(array))
    named = ", ".join(str(place.tolist()) for place in found[:MOST_PLACES])
    more = f" and {len(found) - MOST_PLACES} more" if len(found) > MOST_PLACES else ""
    return f'<br><span style="color: #b2004f">not finite at {named}{more}</span>'


def _picture(array: np.ndarray) -> str:
    """An image element: a row for each line of the last dimension, colours by value."""
    last = array.shape[-1] if array.ndim else 1
    grid = array.reshape(-1, last) if last else np.zeros((1, 1))
    for axis in (0, 1):
        grid = _joined(grid, axis)
    height, width = grid.shape
    scale = max(1, PIXELS // max(height, width))
    data = base64.b64encode(png(_colours(grid))).decode()
    return (
        f'<img src="data:image/png;base64,{data}" width="{width * scale}" height="{height * scale}" '
        'style="image-rendering: pixelated; border: 1px solid #ccc">'
    )


def _joined(grid: np.ndarray, axis: int) -> np.ndarray:
    """Means of neighbours, so that a picture has room for them; what is not finite stays."""
    size = grid.shape[axis]
    if size <= MOST_CELLS:
        return grid
    starts = np.linspace(0, size, MOST_CELLS, endpoint=False).astype(int)
    counts = np.diff([*starts, size])
    with np.errstate(invalid="ignore"):
        sums: np.ndarray = np.add.reduceat(grid, starts, axis)
        return sums / (counts[:, None] if axis == 0 else counts)


def _colours(grid: np.ndarray) -> np.ndarray:
    """(height, width) numbers -> (height, width, 3) bytes: blue below zero, red above, white at it."""
    finite = np.isfinite(grid)
    most = float(np.abs(grid[finite]).max()) if finite.any() else 0.0
    share = np.where(finite, grid, 0.0) / (most or 1.0)
    ends = np.where(share[..., None] < 0, np.array(LOW), np.array(HIGH))
    pixels = np.array(MIDDLE) + (ends - np.array(MIDDLE)) * np.abs(share)[..., None]
    pixels[np.isnan(grid)] = NOT_A_NUMBER
    pixels[np.isinf(grid)] = INFINITE
    return pixels.round().astype(np.uint8)


def png(pixels: np.ndarray) -> bytes:
    """A file of the format PNG: (height, width, 3) bytes without loss."""
    height, width, _ = pixels.shape
    rows = b"".join(b"\0" + row.tobytes() for row in np.ascontiguousarray(pixels))

    def chunk(kind: bytes, content: bytes) -> bytes:
        return (
            struct.pack(">I", len(content))
            + kind
            + content
            + struct.pack(">I", zlib.crc32(kind + content))
        )

    head = struct.pack(">IIBBBBB", width, height, 8, 2, 0, 0, 0)
    parts = chunk(b"IHDR", head) + chunk(b"IDAT", zlib.compress(rows)) + chunk(b"IEND", b"")
    return b"\x89PNG\r\n\x1a\n" + parts
