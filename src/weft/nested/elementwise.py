"""Elementwise functions of ragged tensors, with broadcasting.

Operands are ragged, dense or numbers; the dense function is called on dense tensors over the entries of one structure.
Ragged operands of equal lengths fit; dense ones broadcast as if each item had met its own row. Rows that repeat are
gathered by indices from the host, in one operation per operand.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Any

import numpy as np

from weft import Tensor
from weft.errors import ShapeError
from weft.nested.rows import RaggedSize, indices
from weft.nested.tensor import NestedTensor, shape_text
from weft.ops.primitives import take


class Frame:
    """The structure that operands are brought to: ragged dimensions, and the rank."""

    def __init__(self, name: str, operands: Sequence[NestedTensor]) -> None:
        self.name, self.operands = name, operands
        self.rank = max(operand.ndim for operand in operands)
        for operand in operands:
            if operand.ndim != self.rank:
                raise self.refuse("ragged operands of one rank", "unsqueeze the smaller one")
            if len(operand) != len(operands[0]):
                raise self.refuse("ragged operands of as many items", "check the batches")
        widest = max(operands, key=lambda operand: len(operand.dims))
        self.rows, self.dims = widest.rows, widest.dims
        for operand in operands:
            for dim in operand.dims:
                if dim not in self.dims:
                    self._add(operand, dim)
        self.uniform = tuple(dim for dim in range(1, self.rank) if dim not in self.dims)

    def _add(self, operand: NestedTensor, dim: int) -> None:
        lengths = operand.rows.levels[operand.dims.index(dim)].lengths_per_item()
        if lengths is None:
            raise self.refuse("lengths that depend on the item alone", "use equal structures")
        self.rows, self.dims = self.rows.below(lengths), (*self.dims, dim)

    def refuse(self, expected: str, fix: str, other: Tensor | None = None) -> ShapeError:
        """The error for operands that do not fit."""
        shapes = [shape_text(operand) for operand in self.operands]
        if other is not None:
            shapes.append(str(list(other.shape)))
        return ShapeError(
            f"{self.name}: ragged operands do not broadcast: {' and '.join(dict.fromkeys(shapes))}",
            expected=expected,
            got=", ".join(shapes),
            fix=fix,
        )

    def entries(self, operand: NestedTensor | Tensor) -> Any:
        """An operand as a tensor over the entries (or over one, that broadcasts)."""
        if isinstance(operand, NestedTensor):
            return self._ragged(operand)
        if not operand.shape:
            return operand
        return self._dense(operand)

    def _ragged(self, operand: NestedTensor) -> Any:
        if operand.rows is self.rows and operand.dims == self.dims:
            return operand.packed
        for dim in self.dims:
            size, own = self._size(dim), operand.size(dim)
            if own != size and own != 1:
                raise self.refuse("equal lengths, or 1", "check the lengths")
        places = self._coordinates(tuple((0, *operand.dims)))
        if not operand.rows.holds(places).all():
            raise self.refuse("equal lengths, or 1", "check the lengths")
        found = operand.rows.locate(places)
        values = operand.packed
        drop = [operand.axis(dim) for dim in self.dims if dim not in operand.dims]
        if drop:
            values = values.squeeze(tuple(drop))
        return take(values, 0, indices(found))

    def _size(self, dim: int) -> RaggedSize:
        return self.rows.levels[self.dims.index(dim)].size

    def _coordinates(self, dims: tuple[int, ...]) -> list[np.ndarray]:
        """The places of all entries along some dimensions: 0 for the item."""
        found = self.rows.coordinates()
        return [found[0 if dim == 0 else self.dims.index(dim) + 1] for dim in dims]

    def _dense(self, operand: Tensor) -> Any:
        """A dense operand: its axes for the batch and for ragged dimensions are gathered, the others broadcast."""
        rank = operand.ndim
        if rank > self.rank:
            raise self.refuse("a dense operand of no higher rank", "squeeze it", operand)
        sizes = (1,) * (self.rank - rank) + tuple(operand.shape)
        gathered = [dim for dim in (0, *self.dims) if sizes[dim] != 1]
        for dim in gathered:
            if not self._fits(dim, sizes[dim]):
                raise self.refuse(
                    "1 or the number of items for the batch, and 1 for a ragged dimension",
                    "cut the rows with weft.nested.narrow(dense, dim, 0, lengths), then use the result",
                    operand,
                )
        inner = [sizes[dim] for dim in self.uniform]
        if not gathered:
            return operand.reshape(1, *inner) if len(inner) < rank else operand
        wide = operand.reshape(sizes).permute(
            *gathered, *(d for d in range(self.rank) if d not in gathered)
        )
        flat = wide.reshape(-1, *inner)
        place = np.zeros(self.rows.total, dtype=np.int64)
        for dim, places in zip(gathered, self._coordinates(tuple(gathered)), strict=True):
            place = place * sizes[dim] + places
        return take(flat, 0, indices(place))

    def _fits(self, dim: int, size: int) -> bool:
        if dim == 0:
            return size == self.rows.batch
        return bool((self.rows.levels[self.dims.index(dim)].lengths == size).all())

    def wrap(self, values: Sequence[object] | Tensor) -> Any:
        """Results over the entries as ragged tensors."""
        if isinstance(values, Tensor):
            return NestedTensor(values, self.rows, self.dims)
        if isinstance(values, tuple):
            parts = [self.wrap(part) for part in values]
            return type(values)(parts)
        return values


def frame_of(name: str, values: Sequence[int | NestedTensor]) -> Frame:
    """The frame of the ragged tensors among some values."""
    return Frame(name, [value for value in values if isinstance(value, NestedTensor)])


def apply(function: Callable[..., Tensor], *args: Any, **kwargs: Any) -> Any:
    """An elementwise function: on the entries of all items at once."""
    name = function.__name__
    frame = frame_of(name, [*args, *kwargs.values()])
    if name.endswith("_"):
        return _write(function, frame, args, kwargs)
    return frame.wrap(function(*_over(frame, args), **_named_over(frame, kwargs)))


def _over(frame: Frame, args: Sequence[object]) -> list[Any]:
    return [
        frame.entries(value) if isinstance(value, (NestedTensor, Tensor)) else value
        for value in args
    ]


def _named_over(frame: Frame, kwargs: dict[str, object]) -> dict[str, Any]:
    return dict(zip(kwargs, _over(frame, list(kwargs.values())), strict=True))


def _write(
    function: Callable[..., object],
    frame: Frame,
    args: Sequence[Tensor | int | NestedTensor],
    kwargs: dict[str, object],
) -> Any:
    """An in-place function: the entries of the first operand change."""
    first = args[0]
    if (
        not isinstance(first, NestedTensor)
        or first.rows is not frame.rows
        or first.dims != frame.dims
    ):
        raise frame.refuse(
            "a first operand with the structure of the result", "use the out-of-place function"
        )
    function(first.packed, *_over(frame, args[1:]), **_named_over(frame, kwargs))
    return first


def fit(name: str, tensor: Any, like: NestedTensor) -> Any:
    """The entries of an operand in the structure of `like`, repeated where it broadcasts."""
    frame = frame_of(name, [like, tensor])
    if frame.rows is not like.rows or frame.dims != like.dims:
        raise frame.refuse("an operand that broadcasts to the first", "exchange the operands")
    return frame.entries(tensor)


def same_structure(a: NestedTensor, b: NestedTensor) -> bool:
    """True if two ragged tensors have equal lengths in the same dimensions."""
    return a.rows is b.rows and a.dims == b.dims
