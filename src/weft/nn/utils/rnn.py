"""Sequences of different lengths for recurrent layers: padded, and packed step by step.

Functions convert between sequences, a padded batch and a `PackedSequence`. Lengths are known to the host, so that each
conversion is one gather.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable
from typing import Any, NamedTuple

import numpy as np

import weft
from weft import Tensor
from weft.engine.api.api_function import publish
from weft.errors import ArgumentError, KindError, ShapeError
from weft.ops.primitives import take
from weft.tensor.arguments import need_tensor

__all__ = [
    "PackedSequence", "invert_permutation", "pack_padded_sequence", "pack_sequence", "pad_packed_sequence",
    "pad_sequence", "unpack_sequence", "unpad_sequence",
]  # fmt: skip


class _Fields(NamedTuple):
    data: Any
    batch_sizes: Any
    sorted_indices: Any
    unsorted_indices: Any


class PackedSequence(_Fields):
    """Sequences of different lengths, step by step: `data` holds the first entries of all, then the second ones, ...

    Shapes: data (entries, *), batch_sizes (longest): how many sequences have each step. `sorted_indices` brings the
    batch into the order of falling lengths, `unsorted_indices` back; None where it has that order.

    Args:
        data: the entries, step by step.
        batch_sizes: how many sequences have each step; None: `data` is (data, batch_sizes).
        sorted_indices: the order of falling lengths; None: the batch has it.
        unsorted_indices: the way back; None: it follows from `sorted_indices`.

    Example:
        >>> import weft
        >>> packed = weft.nn.utils.rnn.pack_sequence([weft.ones(3), weft.ones(1)])
        >>> packed.batch_sizes
        tensor([2, 1, 1])
    """

    __slots__ = ()

    def __new__(
        cls,
        data: Tensor,
        batch_sizes: Tensor | None = None,
        sorted_indices: Tensor | None = None,
        unsorted_indices: Tensor | None = None,
    ) -> PackedSequence:
        if batch_sizes is None and not isinstance(data, Tensor):
            data, batch_sizes = data  # the old form: one pair
        if unsorted_indices is None:
            unsorted_indices = invert_permutation(sorted_indices)
        return super().__new__(cls, data, batch_sizes, sorted_indices, unsorted_indices)

    def _map(self, change: Callable[[Tensor], Tensor]) -> PackedSequence:
        return type(self)(change(self.data), *self[1:])

    def to(self, *args: object, **kwargs: object) -> PackedSequence:
        """The data in another type or on another device; itself where nothing changes."""
        data = self.data.to(*args, **kwargs)
        return self if data is self.data else type(self)(data, *self[1:])

    @property
    def is_cuda(self) -> bool:
        """True if the data is on a GPU."""
        return bool(self.data.is_cuda)

    def is_pinned(self) -> bool:
        """True if the data is in pinned memory."""
        return bool(self.data.is_pinned())

    def pin_memory(self) -> PackedSequence:
        """Itself: there is no pinned memory."""
        return self

    def cpu(self) -> PackedSequence:
        """Itself."""
        return self.to("cpu")

    def double(self) -> PackedSequence:
        """float64."""
        return self.to(weft.float64)

    def float(self) -> PackedSequence:
        """float32."""
        return self.to(weft.float32)

    def half(self) -> PackedSequence:
        """float16."""
        return self.to(weft.float16)

    def long(self) -> PackedSequence:
        """int64."""
        return self.to(weft.int64)

    def int(self) -> PackedSequence:
        """int32."""
        return self.to(weft.int32)

    def short(self) -> PackedSequence:
        """int16."""
        return self.to(weft.int16)

    def char(self) -> PackedSequence:
        """int8."""
        return self.to(weft.int8)

    def byte(self) -> PackedSequence:
        """uint8."""
        return self.to(weft.uint8)


def invert_permutation(permutation: Tensor | None) -> Any:
    """The permutation that undoes another; None for None."""
    if permutation is None:
        return None
    places = np.asarray(permutation.tolist(), dtype=np.int64)
    found = np.empty_like(places)
    found[places] = np.arange(len(places))
    return weft.from_numpy(found)


# -- the order of steps ----------------------------------------------------------------------------


class Steps(NamedTuple):
    """In which order entries of sequences are packed: for each packed entry its sequence and its place in it."""

    order: Any  # the sequences by falling length
    sizes: Any  # how many have each step
    sequence: Any
    place: Any

    @classmethod
    def of(cls, lengths: np.ndarray) -> Steps:
        """The steps of sequences of these lengths, in any order."""
        order = np.argsort(-lengths, kind="stable")
        longest = int(lengths.max(initial=0))
        present = lengths[order] > np.arange(longest)[:, None]  # (steps, sequences)
        place, rank = np.nonzero(present)
        return cls(order, present.sum(1), order[rank], place)


def _lengths(name: str, lengths: Tensor | list[int], count: int) -> np.ndarray:
    found = np.asarray(lengths.tolist() if isinstance(lengths, Tensor) else lengths)
    if found.ndim != 1 or len(found) != count:
        raise ShapeError(
            f"Expected `len(lengths)` to be equal to batch_size, but got {found.size} "
            f"(batch_size={count})",
            expected=f"{count} lengths",
            got=f"shape {list(found.shape)}",
            fix="pass one length per sequence",
        )
    return found.astype(np.int64)


def _packed(
    entries: Tensor, index: np.ndarray, steps: Steps, enforce_sorted: bool
) -> PackedSequence:
    """Entries gathered in packed order."""
    data = take(entries, 0, weft.from_numpy(index))
    sizes = weft.from_numpy(steps.sizes.astype(np.int64))
    order = None if enforce_sorted else weft.from_numpy(steps.order)
    return PackedSequence(data, sizes, order)


def _check(name: str, lengths: np.ndarray, enforce_sorted: bool) -> None:
    if not len(lengths) or (lengths <= 0).any():
        raise ArgumentError(
            "Length of all samples has to be greater than 0, but found an element in 'lengths' that is <= 0",
            expected="lengths of at least 1",
            got=f"lengths {lengths.tolist()[:8]}",
            fix="leave empty sequences out, or use weft.nested, which takes them",
        )
    if enforce_sorted and (np.diff(lengths) > 0).any():
        raise ArgumentError(
            "`lengths` array must be sorted in decreasing order when `enforce_sorted` is True. You can pass "
            "`enforce_sorted=False` to pack_padded_sequence and/or pack_sequence to sidestep this requirement if you "
            "do not need ONNX exportability.",
            expected="falling lengths",
            got=f"lengths {lengths.tolist()[:8]}",
            fix="pass enforce_sorted=False",
        )


# -- padded and packed -----------------------------------------------------------------------------


def pack_padded_sequence(
    input: Tensor,  # noqa: A002
    lengths: Tensor | list[int],
    batch_first: bool = False,
    enforce_sorted: bool = True,
) -> PackedSequence:
    """A padded batch, packed. Shapes: (longest, B, *), or (B, longest, *) with `batch_first`.

    Errors: ValueError for lengths that are not positive, or not in falling order where that is enforced.
    """
    if input.ndim < 2 or 0 in input.shape:
        raise ShapeError(
            "pack_padded_sequence: Cannot pack empty tensors.",
            expected="(longest, batch, *)",
            got=str(list(input.shape)),
            fix="leave empty batches out",
        )
    time, count = (1, 0) if batch_first else (0, 1)
    counts = _lengths("pack_padded_sequence", lengths, input.shape[count])
    _check("pack_padded_sequence", counts, enforce_sorted)
    if counts.max() > input.shape[time]:
        raise ShapeError(
            f"pack_padded_sequence: a length of {counts.max()} for {input.shape[time]} steps",
            expected=f"lengths of at most {input.shape[time]}",
            got=f"lengths {counts.tolist()[:8]}",
            fix="check the lengths, and batch_first",
        )
    steps = Steps.of(counts)
    width = input.shape[1]
    index = (
        steps.sequence * width + steps.place
        if batch_first
        else steps.place * width + steps.sequence
    )
    return _packed(input.flatten(0, 1), index, steps, enforce_sorted)


def pad_packed_sequence(
    sequence: PackedSequence,
    batch_first: bool = False,
    padding_value: float = 0.0,
    total_length: int | None = None,
) -> tuple[Any, Any]:
    """A packed batch, padded, and the lengths. Shapes: (longest, B, *), or (B, longest, *) with `batch_first`; (B)."""
    sizes = np.asarray(sequence.batch_sizes.tolist(), dtype=np.int64)
    longest = len(sizes)
    if total_length is not None and total_length < longest:
        raise ArgumentError(
            "Expected total_length to be at least the length of the longest sequence in input, but got "
            f"total_length={total_length} and max sequence length being {longest}",
            expected=f"total_length >= {longest}",
            got=str(total_length),
            fix="leave total_length out",
        )
    count = int(sizes[0]) if longest else 0
    steps = np.arange(longest if total_length is None else total_length)
    starts = np.zeros(len(steps), dtype=np.int64)
    starts[:longest] = np.cumsum(sizes) - sizes
    filled = np.zeros(len(steps), dtype=np.int64)
    filled[:longest] = sizes
    rank = np.arange(count)
    if sequence.unsorted_indices is not None:
        rank = np.asarray(sequence.unsorted_indices.tolist(), dtype=np.int64)
    places = np.where(rank < filled[:, None], starts[:, None] + rank, len(sequence.data))
    lengths = (sizes[:, None] > rank).sum(0)
    padded = _with_padding(sequence.data, places.T if batch_first else places, padding_value)
    return padded, weft.from_numpy(lengths.astype(np.int64))


def _with_padding(entries: Tensor, places: np.ndarray, padding: float) -> Any:
    """Entries at places; the number of all stands for padding."""
    edge = weft.full((1, *entries.shape[1:]), padding, dtype=entries.dtype)
    return take(weft.cat([entries, edge]), 0, weft.from_numpy(np.ascontiguousarray(places)))


def _sequences(name: str, sequences: object) -> list[Any]:
    if isinstance(sequences, Tensor):
        return list(sequences.unbind())
    if not isinstance(sequences, Iterable):
        raise KindError(
            f"{name}: Expected iterable for input sequences, but got arg of type: {type(sequences)}",
            expected="a list of tensors",
            got=type(sequences).__name__,
            fix="pass a list of tensors",
        )
    found = list(sequences)
    for one in found:
        need_tensor(name, one, "sequences")
    if not found:
        raise ShapeError(
            f"{name}: received an empty list of sequences",
            expected="at least one sequence",
            got="none",
            fix="leave empty batches out",
        )
    if any(one.ndim == 0 or one.shape[1:] != found[0].shape[1:] for one in found):
        raise ShapeError(
            f"{name}: sequences must have the same sizes behind the first",
            expected="sequences of (length, *), alike but for their lengths",
            got=f"shapes {[list(one.shape) for one in found][:8]}",
            fix="check the sequences",
        )
    return found


def pad_sequence(
    sequences: Tensor | list[Tensor],
    batch_first: bool = False,
    padding_value: float = 0.0,
    padding_side: str = "right",
) -> Any:
    """Sequences as one padded tensor.

    Shapes: n of (length, *) -> (longest, n, *), or (n, longest, *) with `batch_first`.
    """
    if padding_side not in ("left", "right"):
        raise ArgumentError(
            f"Expected padding_side to be one of left or right, but got {padding_side}.",
            expected="'left' or 'right'",
            got=repr(padding_side),
            fix="use 'right'",
        )
    found = _sequences("pad_sequence", sequences)
    lengths = np.array([len(one) for one in found])
    longest = int(lengths.max())
    starts = np.cumsum(lengths) - lengths
    steps = np.arange(longest) - (0 if padding_side == "right" else longest - lengths[:, None])
    inside = (steps >= 0) & (steps < lengths[:, None])
    places = np.where(inside, starts[:, None] + steps, lengths.sum())
    return _with_padding(weft.cat(found), places if batch_first else places.T, padding_value)


def unpad_sequence(
    padded_sequences: Tensor, lengths: Tensor, batch_first: bool = False
) -> list[Any]:
    """The sequences of a padded tensor. Shapes: (longest, n, *), (n) -> n of (length, *)."""
    rows = padded_sequences if batch_first else padded_sequences.transpose(0, 1)
    counts = _lengths("unpad_sequence", lengths, rows.shape[0])
    return [row[:count] for row, count in zip(rows.unbind(), counts.tolist(), strict=True)]


def pack_sequence(sequences: list[Tensor], enforce_sorted: bool = True) -> PackedSequence:
    """Sequences, packed. Shapes: n of (length, *). Errors: as `pack_padded_sequence`."""
    found = _sequences("pack_sequence", sequences)
    lengths = np.array([len(one) for one in found], dtype=np.int64)
    _check("pack_sequence", lengths, enforce_sorted)
    steps = Steps.of(lengths)
    starts = np.cumsum(lengths) - lengths
    return _packed(weft.cat(found), starts[steps.sequence] + steps.place, steps, enforce_sorted)


def unpack_sequence(packed_sequences: PackedSequence) -> list[Any]:
    """The sequences of a packed batch, in the order that they had."""
    padded, lengths = pad_packed_sequence(packed_sequences, batch_first=True)
    return unpad_sequence(padded, lengths, batch_first=True)


publish(globals())
del publish
