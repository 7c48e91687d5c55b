"""The structure of ragged tensors: the number of entries in each row, known to the host.

Lengths make `RaggedDim`, one per structure: equal lengths are the same object, so that structures are compared by
identity, and offsets, coordinates and plans of padding are computed once. Values are no part of it.
"""

from __future__ import annotations

import itertools
import weakref
from collections.abc import Callable, Sequence
from typing import Any

import numpy as np

import weft
from weft.engine.ir.dtype import DType
from weft.errors import ArgumentTypeError

_known: weakref.WeakValueDictionary[Any, Any] = weakref.WeakValueDictionary()
_numbers = itertools.count(1)
_WASTE = (
    2.0  # how many times the elements padding may hold before rows are padded in several groups
)


class RaggedDim:
    """One ragged dimension below a batch, or below another ragged dimension (`parent`).

    `lengths` has an entry for each entry of the parent: row r holds the entries offsets[r] to offsets[r + 1] - 1.
    """

    __slots__ = (
        "parent",
        "lengths",
        "offsets",
        "total",
        "depth",
        "_number",
        "_kept",
        "__weakref__",
    )

    parent: RaggedDim | None
    lengths: np.ndarray
    offsets: np.ndarray
    total: int
    depth: int
    _number: int
    _kept: dict[Any, Any]

    @classmethod
    def of(cls, lengths: object, parent: RaggedDim | None = None) -> RaggedDim:
        """The structure with these lengths; the same object each time."""
        array = np.array(lengths, dtype=np.int64)  # a copy: it is kept
        key = (parent, array.tobytes())
        found = _known.get(key)
        if found is None:
            found = cls.__new__(cls)
            array.setflags(write=False)
            found.parent, found.lengths = parent, array
            found.offsets = np.concatenate([[0], np.cumsum(array)]).astype(np.int64)
            found.total = int(found.offsets[-1])
            found.depth = 1 if parent is None else parent.depth + 1
            found._number, found._kept = 0, {}
            found = _known.setdefault(key, found)
        return found

    def kept(self, key: object, make: Callable[[], object]) -> Any:
        """The cached result of `make` for this structure."""
        found = self._kept.get(key)
        if found is None:
            found = self._kept[key] = make()
        return found

    def __reduce__(self) -> Any:
        return (RaggedDim.of, (self.lengths, self.parent))

    # -- the levels of a structure -----------------------------------------------------------------

    @property
    def levels(self) -> tuple[RaggedDim, ...]:
        """All ragged dimensions, outermost first."""
        above = () if self.parent is None else self.parent.levels
        return (*above, self)

    @property
    def batch(self) -> int:
        """The number of items."""
        return len(self.levels[0].lengths)

    def coordinates(self) -> tuple[np.ndarray, ...]:
        """For each entry its item, and its place along each ragged dimension."""
        return self.kept("coordinates", self._coordinates)

    def _coordinates(self) -> tuple[np.ndarray, ...]:
        ids = np.repeat(np.arange(len(self.lengths)), self.lengths)
        own = np.arange(self.total) - self.offsets[ids]
        if self.parent is None:
            return ids, own
        return (*(places[ids] for places in self.parent.coordinates()), own)

    def locate(self, coordinates: Sequence[np.ndarray]) -> np.ndarray:
        """The entries at coordinates (item, place, place, ...)."""
        found = np.asarray(coordinates[0])
        for level, places in zip(self.levels, coordinates[1:], strict=True):
            found = level.offsets[found] + places
        return found

    def holds(self, coordinates: Sequence[np.ndarray]) -> np.ndarray:
        """A mask of the coordinates that are inside."""
        inside = np.ones(len(coordinates[0]), dtype=bool)
        found = np.asarray(coordinates[0])
        for level, places in zip(self.levels, coordinates[1:], strict=True):
            inside &= places < np.where(inside, level.lengths[np.where(inside, found, 0)], 0)
            found = np.where(inside, level.offsets[np.where(inside, found, 0)] + places, 0)
        return inside

    def starts(self) -> np.ndarray:
        """The start of each item among all entries, and the end of the last."""
        places = self.offsets
        for level in reversed(self.levels[:-1]):
            places = places[level.offsets]
        return places

    def lengths_per_item(self) -> np.ndarray | None:
        """The length that this dimension has in each item; None where one item has several."""
        return self.kept("per item", lambda: (self._per_item(),))[0]

    def _per_item(self) -> np.ndarray | None:
        if self.parent is None:
            return self.lengths
        items = self.parent.coordinates()[0]
        found = np.zeros(self.batch, dtype=np.int64)
        found[items] = self.lengths
        return found if bool((found[items] == self.lengths).all()) else None

    @property
    def size(self) -> RaggedSize:
        """The size of this dimension in a shape; one object for equal lengths."""
        lengths = self.lengths_per_item()
        if lengths is None or self.parent is None:
            return RaggedSize(self)  # not kept: it holds this structure
        return RaggedSize(self.kept("flat", lambda: RaggedDim.of(lengths)))

    # -- other structures --------------------------------------------------------------------------

    def below(self, lengths: np.ndarray) -> RaggedDim:
        """This structure with one more dimension: `lengths[i]` entries in each row of item i."""
        return RaggedDim.of(np.asarray(lengths)[self.coordinates()[0]], self)

    def select(self, items: np.ndarray) -> tuple[RaggedDim, np.ndarray]:
        """The structure of some items, and where their entries are."""
        rows: RaggedDim | None = None
        places = items
        for level in self.levels:
            lengths = level.lengths[places]
            rows = RaggedDim.of(lengths, rows)
            places = spans(level.offsets[places], lengths)
        assert rows is not None
        return rows, places

    def plan(self, keep: tuple[int, ...]) -> GroupPlan:
        """The entries grouped by some of their coordinates (0 is the item)."""
        if len(keep) > self.depth:
            return GroupPlan(self, keep)  # not kept: it holds this structure
        return self.kept(("plan", keep), lambda: GroupPlan(self, keep))

    def ancestors(self, level: int) -> np.ndarray:
        """The row of level `level` (0 is the outermost) to which each entry belongs."""
        found = np.arange(self.total)
        for own in reversed(self.levels[level:]):
            found = np.repeat(np.arange(len(own.lengths)), own.lengths)[found]
        return found


def spans(starts: np.ndarray, lengths: np.ndarray) -> np.ndarray:
    """starts[0], starts[0] + 1, ... (lengths[0] of them), starts[1], ..."""
    ends = np.cumsum(lengths)
    total = int(ends[-1]) if len(ends) else 0
    return np.arange(total) + np.repeat(starts - (ends - lengths), lengths)


def constant(array: np.ndarray) -> Any:
    """Numbers of the host as a tensor that may be kept: it is of no mode that happens to be on now."""
    with weft.inference_mode(False):
        return weft.from_numpy(array if array.flags.writeable else array.copy())


def indices(places: np.ndarray) -> Any:
    """An index tensor."""
    return constant(np.ascontiguousarray(places, dtype=np.int64))


class RaggedSize:
    """The size of a ragged dimension, printed as j1, j2, ...; equal where the lengths are equal."""

    __slots__ = ("rows",)

    def __init__(self, rows: RaggedDim) -> None:
        self.rows = rows

    @property
    def lengths(self) -> tuple[int, ...]:
        """The lengths of the rows."""
        return tuple(self.rows.lengths.tolist())

    def __eq__(self, other: object) -> bool:
        return isinstance(other, RaggedSize) and other.rows is self.rows

    def __hash__(self) -> int:
        return hash(id(self.rows))

    def __repr__(self) -> str:
        if not self.rows._number:
            self.rows._number = next(_numbers)
        return f"j{self.rows._number}"

    def __index__(self) -> int:
        raise ArgumentTypeError(
            f"a ragged dimension ({self!r}) has no single size",
            expected="a dimension of one size",
            got=f"lengths {_short(self.lengths)}",
            fix="use the lengths (.lengths()), or pad with to_padded_tensor(value)",
        )


def _short(numbers: Sequence[int]) -> str:
    shown = ", ".join(map(str, numbers[:8]))
    return f"[{shown}, ...]" if len(numbers) > 8 else f"[{shown}]"


class GroupPlan:
    """Entries grouped by coordinates, for reductions within groups and for operations along a group.

    `ids`: the group of each entry. `counts`: the size of each. `buckets`: groups of like size, padded together; the
    padded places read the entry after the last one.
    """

    def __init__(self, rows: RaggedDim, keep: tuple[int, ...]) -> None:
        self.total = rows.total
        self.levels, self.ids = _grouped(rows, keep)
        self.groups = int(self.levels[-1].total) if self.levels else self.batch_of(rows, keep)
        self.counts = np.bincount(self.ids, minlength=self.groups)
        self.index = indices(self.ids)
        self._buckets: list[Bucket] | None = None
        self._back: Any = None
        self._order: Any = None
        self._sizes: dict[Any, Any] = {}

    @staticmethod
    def batch_of(rows: RaggedDim, keep: tuple[int, ...]) -> int:
        """The number of groups if no ragged structure is left."""
        if not keep:
            return 1
        if keep == (0,):
            return rows.batch
        places = rows.coordinates()[keep[0]]
        return int(places.max()) + 1 if len(places) else 0

    @property
    def buckets(self) -> list[Bucket]:
        """The groups that have entries, those of like size together."""
        if self._buckets is None:
            order = np.argsort(self.ids, kind="stable")
            starts = np.concatenate([[0], np.cumsum(self.counts)])[:-1]
            self._buckets = [
                Bucket(self, groups, order, starts) for groups in buckets_of(self.counts)
            ]
        return self._buckets

    def back(self) -> Any:
        """The position of each entry among the padded elements of all buckets, one after the other."""
        if self._back is None:
            where = np.zeros(self.total, dtype=np.int64)
            start = 0
            for bucket in self.buckets:
                flat = bucket.places.ravel()
                real = flat < self.total
                where[flat[real]] = start + np.flatnonzero(real)
                start += len(flat)
            self._back = indices(where)
        return self._back

    def order(self) -> Any:
        """The position of each group's result among those of all buckets; groups without entries come last."""
        if self._order is None:
            given = [bucket.groups for bucket in self.buckets]
            found = np.concatenate([*given, np.flatnonzero(self.counts == 0)]).astype(np.int64)
            where = np.zeros(self.groups, dtype=np.int64)
            where[found] = np.arange(len(found))
            self._order = indices(where)
        return self._order

    def sizes(self, inner: int, dtype: DType) -> Any:
        """The number of elements of each group, if an entry has `inner` of them."""
        found = self._sizes.get(inner)
        if found is None:
            found = self._sizes[inner] = constant((self.counts * inner).astype(np.float64))
        return found.to(dtype)

    @property
    def single(self) -> bool:
        """True if one bucket holds all groups, in order."""
        return len(self.buckets) == 1 and len(self.buckets[0].groups) == self.groups


class Bucket:
    """Groups of like size: `places` (groups, longest), padded with the number of all entries."""

    def __init__(
        self, plan: GroupPlan, groups: np.ndarray, order: np.ndarray, starts: np.ndarray
    ) -> None:
        counts = plan.counts[groups]
        self.groups, self.longest = groups, int(counts.max())
        steps = np.arange(self.longest)
        inside = steps < counts[:, None]
        at = np.where(inside, starts[groups][:, None] + steps, 0)
        self.places = np.where(inside, order[at], plan.total)
        self.index = indices(self.places)
        self.full = bool(inside.all())


def buckets_of(*counts: np.ndarray) -> list[np.ndarray]:
    """Groups put together so that padding each bucket to its longest wastes little; groups without entries are left
    out.

    With several counts (of rows and columns, say) the product of the longest is what padding costs.
    """
    used = np.flatnonzero(np.minimum.reduce(counts) > 0)
    if not len(used):
        return []
    chosen = [count[used] for count in counts]
    cost = np.multiply.reduce(chosen)
    if _padded(chosen) <= _WASTE * int(cost.sum()):
        return [used]
    sizes = np.array([np.ceil(np.log2(count)) for count in chosen])
    order = np.lexsort([cost, *sizes])
    classes = sizes[:, order]
    found: list[np.ndarray] = []
    for part in np.split(order, np.flatnonzero(np.diff(classes).any(0)) + 1):
        joined = np.concatenate([found[-1], part]) if found else part
        within = [count[joined] for count in chosen]
        if found and _padded(within) <= _WASTE * int(cost[joined].sum()):
            found[-1] = joined
        else:
            found.append(part)
    return [used[np.sort(part)] for part in found]


def _padded(counts: Sequence[np.ndarray]) -> int:
    total = len(counts[0])
    for count in counts:
        total *= int(count.max())
    return total


def _grouped(rows: RaggedDim, keep: tuple[int, ...]) -> tuple[tuple[RaggedDim, ...], np.ndarray]:
    """The structure that is left of the kept coordinates (levels, outermost first) and each entry's place in it."""
    if keep == tuple(range(len(keep))) and keep:  # the outer levels as they are
        places = rows.ancestors(len(keep) - 1)
        return rows.levels[: len(keep) - 1], places
    coordinates = rows.coordinates()
    if not keep:
        return (), np.zeros(rows.total, dtype=np.int64)
    groups = GroupPlan.batch_of(rows, keep[:1])
    ids, levels = coordinates[keep[0]], []
    parent: RaggedDim | None = None
    for dimension in keep[1:]:
        lengths = np.zeros(groups, dtype=np.int64)
        np.maximum.at(lengths, ids, coordinates[dimension] + 1)
        parent = RaggedDim.of(lengths, parent)
        levels.append(parent)
        ids, groups = parent.offsets[ids] + coordinates[dimension], parent.total
    return tuple(levels), ids
