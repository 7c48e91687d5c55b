"""Block masks of attention, made from a function of the indices.

They take `mask_mod(batch, head, query, key)`, which decides whether one score takes part, and have the blocks of
scores that take part in whole, in part or not at all, by rows and by columns. Attention computes all blocks; the block
mask only gives it the mask.
"""

from __future__ import annotations

import math
from collections.abc import Callable
from typing import Any

import weft
from weft import Tensor
from weft._typing import DeviceLike, Shape
from weft.engine.api.api_function import publish
from weft.errors import ArgumentError, ArgumentTypeError, class_name

_TABLES = (
    "kv_num_blocks", "kv_indices", "full_kv_num_blocks", "full_kv_indices", "q_num_blocks", "q_indices",
    "full_q_num_blocks", "full_q_indices",
)  # fmt: skip
MaskMod = Callable[[Tensor, Tensor, Tensor, Tensor], Tensor]


def of_indices(
    function: Callable[..., Tensor], sizes: tuple[int, ...], score: Tensor | None = None
) -> Tensor:
    """The function at all indices, after each score where there are scores. Shapes: sizes are
    (batches, heads, queries, keys), which the scores have, and the result."""
    if not callable(function):
        raise ArgumentTypeError(
            f"a function of indices must be callable, not {class_name(function)}",
            expected="a function (batch, head, query, key) -> Tensor, of a score before these for score_mod",
            got=type(function).__name__,
            fix="for example lambda b, h, q, k: q >= k",
        )
    lead: tuple[Any, ...] = () if score is None else (score,)
    for place in (3, 2, 1, 0):
        dims: list[int | None] = [None] * 4
        dims[place] = 0
        function = weft.vmap(function, in_dims=(*(0 for _ in lead), *dims))
    made: Tensor = function(*lead, *(weft.arange(size) for size in sizes))
    return made


def noop_mask(batch: Tensor, head: Tensor, token_q: Tensor, token_kv: Tensor) -> Tensor:
    """Every score takes part.

    Args:
        head: the index of the head.
        token_q: the index of the query.
        token_kv: the index of the key.
    """
    return weft.ones((), dtype=weft.bool)


def _masks_of(mask_mods: tuple[Callable[..., object], ...]) -> None:
    """Errors: ArgumentTypeError."""
    if not all(callable(one) for one in mask_mods):
        raise ArgumentTypeError(
            f"All inputs should be callable mask_mods: {mask_mods}"[:200],
            expected="functions (batch, head, query, key) -> bool",
            got=", ".join(type(one).__name__ for one in mask_mods),
            fix="for example lambda b, h, q, k: q >= k",
        )


def or_masks(*mask_mods: MaskMod) -> MaskMod:
    """The function of what any of the functions lets take part.

    Args:
        *mask_mods: functions (batch, head, query, key) of indices.

    Raises:
        ArgumentTypeError.
    """
    _masks_of(mask_mods)

    def any_of(b: Tensor, h: Tensor, q_idx: Tensor, kv_idx: Tensor) -> Tensor:
        result = weft.zeros((), dtype=weft.bool)
        for one in mask_mods:
            result = result | one(b, h, q_idx, kv_idx)
        return result

    return any_of


def and_masks(*mask_mods: MaskMod) -> MaskMod:
    """The function of what all of the functions let take part.

    Args:
        *mask_mods: functions (batch, head, query, key) of indices.

    Raises:
        ArgumentTypeError.
    """
    _masks_of(mask_mods)

    def all_of(b: Tensor, h: Tensor, q_idx: Tensor, kv_idx: Tensor) -> Tensor:
        result = weft.ones((), dtype=weft.bool)
        for one in mask_mods:
            result = result & one(b, h, q_idx, kv_idx)
        return result

    return all_of


def create_mask(
    mod_fn: Callable[..., Tensor],
    B: int | None,
    H: int | None,
    Q_LEN: int,
    KV_LEN: int,
    device: DeviceLike | None = None,
) -> Tensor:
    """The mask that a function of the indices defines, as a tensor: (B or 1, H or 1, Q_LEN,
    KV_LEN).

    Args:
        mod_fn: a function (batch, head, query, key) of indices: True where a score takes
            part.
        H: the number of heads, or None: all have one mask.
        Q_LEN: the number of queries.
        KV_LEN: the number of keys.

    Raises:
        ArgumentTypeError.
    """
    return of_indices(mod_fn, (B or 1, H or 1, Q_LEN, KV_LEN)).to(weft.bool)


def _ordered(dense: Tensor) -> tuple[Tensor, Tensor]:
    """(*, rows, columns) of bool -> the number of blocks in each row, and their columns before the others."""
    return (
        dense.sum(-1).to(weft.int32),
        dense.to(weft.int32).argsort(dim=-1, descending=True, stable=True).to(weft.int32),
    )


def _dense(counts: Tensor, columns: Tensor, width: int) -> Tensor:
    """The reverse of `_ordered`."""
    there = weft.arange(columns.shape[-1]) < counts.unsqueeze(-1)
    empty = weft.zeros(*columns.shape[:-1], width + 1, dtype=weft.int32)
    places = weft.where(there, columns.long(), width)
    return empty.scatter(-1, places, weft.ones_like(columns))[..., :width]


def _block_size(size: int | Shape) -> tuple[int, int]:
    """Errors: ArgumentError."""
    pair = (
        (size, size)
        if isinstance(size, int)
        else tuple(size)
        if isinstance(size, list | tuple)
        else ()
    )
    if len(pair) != 2 or not all(isinstance(one, int) and one > 0 for one in pair):
        raise ArgumentError(
            f"BLOCK_SIZE must be a positive int or two of them, got {size!r}"[:120],
            expected="a number of queries and a number of keys",
            got=repr(size)[:80],
            fix="use BLOCK_SIZE=128",
        )
    return pair


class BlockMask:
    """The blocks of scores that take part: those of `kv_indices` where `mask_mod` is true, those of `full_kv_indices`
    in whole. Row i of blocks has the first `kv_num_blocks[..., i]` of its indices; `q_indices` are the same by
    columns.

    Args:
        seq_lengths: the numbers of queries and of keys.
        kv_num_blocks: for each row of blocks, how many of its blocks take part in places.
        kv_indices: the columns of these blocks, row by row.
        full_kv_num_blocks: for each row of blocks, how many take part in whole; None: none.
        full_kv_indices: the columns of these; None: there are none.
        q_num_blocks: for each column of blocks, how many take part in places; None:
            unknown.
        q_indices: the rows of these; None: unknown.
        full_q_num_blocks: for each column of blocks, how many take part in whole; None:
            unknown.
        full_q_indices: the rows of these; None: unknown.
        BLOCK_SIZE: the queries and keys of a block, a pair or one number for both. Default:
            (128, 128).
        mask_mod: a function (batch, head, query, key) of indices: True where a score takes
            part.

    Shape:
        counts (B, H, rows), indices (B, H, rows, columns); by columns the other way round.

    Example:
        >>> from weft.nn.attention.flex_attention import create_block_mask
        >>> mask = create_block_mask(lambda b, h, q, k: q >= k, None, None, 256, 256)
        >>> mask.shape, mask.sparsity()
        ((1, 1, 256, 256), 25.0)
    """

    def __init__(
        self,
        seq_lengths: tuple[int, int],
        kv_num_blocks: Tensor,
        kv_indices: Tensor,
        full_kv_num_blocks: Tensor | None = None,
        full_kv_indices: Tensor | None = None,
        q_num_blocks: Tensor | None = None,
        q_indices: Tensor | None = None,
        full_q_num_blocks: Tensor | None = None,
        full_q_indices: Tensor | None = None,
        BLOCK_SIZE: tuple[int, int] = (128, 128),
        mask_mod: MaskMod = noop_mask,
    ) -> None:
        self.seq_lengths, self.BLOCK_SIZE, self.mask_mod = seq_lengths, BLOCK_SIZE, mask_mod
        self.kv_num_blocks, self.kv_indices = kv_num_blocks, kv_indices
        self.full_kv_num_blocks, self.full_kv_indices = full_kv_num_blocks, full_kv_indices
        self.q_num_blocks, self.q_indices = q_num_blocks, q_indices
        self.full_q_num_blocks, self.full_q_indices = full_q_num_blocks, full_q_indices

    @classmethod
    def from_kv_blocks(
        cls,
        kv_num_blocks: Tensor,
        kv_indices: Tensor,
        full_kv_num_blocks: Tensor | None = None,
        full_kv_indices: Tensor | None = None,
        BLOCK_SIZE: int | tuple[int, int] = 128,
        mask_mod: MaskMod | None = None,
        seq_lengths: tuple[int, int] | None = None,
        compute_q_blocks: bool = True,
    ) -> BlockMask:
        """From the blocks by rows; those by columns are computed.

        Args:
            kv_num_blocks: for each row of blocks, how many of its blocks take part in places.
            kv_indices: the columns of these blocks, row by row.
            full_kv_num_blocks: for each row of blocks, how many take part in whole; None: none.
            full_kv_indices: the columns of these; None: there are none.
            BLOCK_SIZE: the queries and keys of a block, a pair or one number for both. Default:
                128.
            mask_mod: a function (batch, head, query, key) of indices: True where a score takes
                part; None: everywhere.
            seq_lengths: the numbers of queries and of keys; None: as many as the blocks have.
            compute_q_blocks: True: find the blocks by columns as well. Default: True.
        """
        if kv_indices.dim() < 2 or (full_kv_num_blocks is None) != (full_kv_indices is None):
            raise ArgumentError(
                "BlockMask must have at least 2 dimensions, and full blocks with counts and indices",
                expected="kv_indices (B, H, rows, columns)",
                got=str(list(kv_indices.shape)),
                fix="use create_block_mask",
            )
        size = _block_size(BLOCK_SIZE)
        rows, columns = kv_indices.shape[-2:]
        lengths = (rows * size[0], columns * size[1]) if seq_lengths is None else seq_lengths
        parts: list[Tensor | None] = [kv_num_blocks, kv_indices]
        parts += [full_kv_num_blocks, full_kv_indices]
        for pair in ((kv_num_blocks, kv_indices), (full_kv_num_blocks, full_kv_indices)):
            if pair[0] is None or pair[1] is None or not compute_q_blocks:
                parts += [None, None]
            else:
                parts += _ordered(_dense(pair[0], pair[1], columns).mT)
        named: dict[str, Any] = dict(zip(_TABLES, parts, strict=True))
        return cls(lengths, BLOCK_SIZE=size, mask_mod=mask_mod or noop_mask, **named)

    @property
    def shape(self) -> tuple[int, ...]:
        """(B, H, queries, keys)."""
        return (*self.kv_indices.shape[:-2], *self.seq_lengths)

    def numel(self) -> int:
        """The number of scores, masked or not."""
        return math.prod(self.shape)

    def _parts(self) -> tuple[Tensor, Tensor]:
        """The blocks that take part in part and in whole: (B, H, rows, columns) of 0 and 1."""
        columns = self.kv_indices.shape[-1]
        partial = _dense(self.kv_num_blocks, self.kv_indices, columns)
        if self.full_kv_num_blocks is None or self.full_kv_indices is None:
            return partial, weft.zeros_like(partial)
        return partial, _dense(self.full_kv_num_blocks, self.full_kv_indices, columns)

    def to_dense(self) -> Tensor:
        """The blocks of which something takes part: (B, H, rows, columns) of 0 and 1."""
        partial, whole = self._parts()
        return partial | whole

    def allowed(self) -> Tensor:
        """The scores that take part: bool (B, H, queries, keys)."""
        lead = self.shape[:-2]
        partial, whole = (self._spread(part) for part in self._parts())
        inside = of_indices(self.mask_mod, (1,) * (2 - len(lead)) + self.shape)
        return partial & inside | whole

    def _spread(self, blocks: Tensor) -> Tensor:
        rows, columns = self.BLOCK_SIZE
        wide = blocks.bool().repeat_interleave(rows, -2).repeat_interleave(columns, -1)
        return wide[..., : self.seq_lengths[0], : self.seq_lengths[1]]

    def sparsity(self) -> float:
        """The percentage of scores in blocks that do not take part."""
        area = self.BLOCK_SIZE[0] * self.BLOCK_SIZE[1]
        return 100 * (1 - int(sum(part.sum() for part in self._parts())) * area / self.numel())

    def to(self, device: DeviceLike | None) -> BlockMask:
        """The mask itself: there is one device."""
        return self

    def __repr__(self) -> str:
        name = getattr(self.mask_mod, "__name__", self.mask_mod)
        return (
            f"BlockMask(shape={self.shape}, BLOCK_SIZE={self.BLOCK_SIZE}, "
            f"sparsity={self.sparsity():.2f}%, mask_mod={name})"
        )


def create_block_mask(
    mask_mod: Callable[..., Tensor],
    B: int | None,
    H: int | None,
    Q_LEN: int,
    KV_LEN: int,
    device: DeviceLike | None = None,
    BLOCK_SIZE: int | tuple[int, int] = 128,
    _compile: bool = False,
    separate_full_blocks: bool = True,
) -> BlockMask:
    """The blocks of a function of the indices; None for B or H where it does not depend on them.

    Args:
        mask_mod: a function (batch, head, query, key) of indices: True where a score takes
            part.
        H: the number of heads, or None: all have one mask.
        Q_LEN: the number of queries.
        KV_LEN: the number of keys.
        BLOCK_SIZE: the queries and keys of a block, a pair or one number for both. Default:
            128.
        separate_full_blocks: True: blocks that take part in whole are listed apart, and
            need no mask. Default: True.

    Raises:
        ArgumentTypeError, ArgumentError.

    Cost:
        the mask of all scores is made for it.
    """
    rows, columns = size = _block_size(BLOCK_SIZE)
    mask = create_mask(mask_mod, B, H, Q_LEN, KV_LEN)
    padding = (0, -KV_LEN % columns, 0, -Q_LEN % rows)
    mask = weft.nn.functional.pad(mask.to(weft.int32), padding)
    *lead, queries, keys = mask.shape
    counts = mask.reshape(*lead, queries // rows, rows, keys // columns, columns).sum((-3, -1))
    whole = counts == rows * columns
    partial = counts > 0
    if not separate_full_blocks:
        return BlockMask.from_kv_blocks(
            *_ordered(partial), None, None, size, mask_mod, (Q_LEN, KV_LEN)
        )
    parts = (*_ordered(partial & ~whole), *_ordered(whole))
    return BlockMask.from_kv_blocks(*parts, size, mask_mod, (Q_LEN, KV_LEN))


publish(globals())
del publish
