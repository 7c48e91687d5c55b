"""Gathered parameters: what one forward of a sharded module sees, and what its backward does with their gradients.

A `Gathering` records an `all_gather` for each parameter. What operations save of the values it saves itself, as how to
gather them again; the backward pass gathers them when the first is asked for, and those of the module that was called
before at the same time, so that they are under way meanwhile. When all gradients of the parameters are there it
records a `reduce_scatter` for each. All of that are nodes: when they begin, and what runs beside them, is the engine's
matter. Where a program has parameters stay whole behind a forward or a backward, the next gathering of the same rows
takes the tables of this one.
"""

from __future__ import annotations

import threading
from collections.abc import Callable, Iterator, Sequence
from contextlib import AbstractContextManager, contextmanager, nullcontext
from typing import Any, NamedTuple, Protocol
from weakref import ref

import weft
from weft.autograd import Function
from weft.autograd.graph import saved_tensors_hooks
from weft.autograd.recomputation import Surrounding, register
from weft.distributed.collectives.carrier import record as record_collective
from weft.distributed.collectives.counting import as_one
from weft.distributed.sharding.dtensor import DTensor, local
from weft.distributed.sharding.gradient_reduction import Owner, Standing, need_gathered
from weft.engine.frontend.recorder import record
from weft.engine.frontend.resolve import value_of
from weft.engine.frontend.tensor import Tensor
from weft.engine.ir import tape as tapes
from weft.engine.ir.node import Node
from weft.engine.ir.primitive import ELEMENTWISE, VIEW
from weft.tensor.modes import no_grad

MOST_STEPS = 6  # of views and casts from a gathered value to what is saved of it


def _none() -> None:
    """In the place of a reference to nothing."""


class _Calls(threading.local):
    """The gatherings of the forwards that this thread is in, the innermost last, and the last one that has ended, as
    long as its backward pass may come."""

    def __init__(self) -> None:
        self.open: list[Gathering] = []
        self.waiting: list[
            Any
        ] = []  # owners that keep what is gathered until the outermost call ends
        self.last: Callable[[], Gathering | None] = _none


calls = _Calls()


class SavedGathered(NamedTuple):
    """A saved value, as it is kept: which gathered table it is of, and the operations (op, parameters, shape, dtype)
    that lead from that to what was saved."""

    gathering: Gathering
    number: int
    steps: list[tuple[Any, ...]]

    def again(self) -> Any:
        """The value again."""
        tensor = self.gathering.again()[self.number]
        for op, params, shape, dtype in self.steps:
            tensor = record(op, (tensor,), params, shape, dtype)
        return tensor


class Gathering:
    """The parameters of a sharded module for one forward: `values`, in the order of `owner.shards()`."""

    def __init__(self, owner: Owner) -> None:
        self.owner = owner
        self.shards = owner.shards()
        self._rows: list[Node] = [value_of(local(shard)) for shard in self.shards]
        self._again: list[Tensor] | None = None
        self.is_noted = False  # something in the forward may be computed again
        self._stays = False  # the backward pass is not to gather again
        self._before: Callable[[], Gathering | None] = _none
        with no_grad():
            self._operands = [owner.operand(shard) for shard in self.shards]
            kept = owner.kept
            if kept is None or not kept.is_of(self._rows):
                kept = Standing(self._rows, self._tables())
            tables = self._whole = kept.tables
            pairs = zip(tables, self.shards, strict=True)
            self.values = [
                owner.whole(shard, need_gathered(shard).whole_of(table)) for table, shard in pairs
            ]
        self._indices = {value_of(table): index for index, table in enumerate(tables)}
        trained = [index for index, shard in enumerate(self.shards) if shard.requires_grad]
        if trained and weft.is_grad_enabled():
            outermost = calls.open[0] if calls.open else self
            owner.reduction.expect(outermost.owner.reduction)
            shards = [self.shards[index] for index in trained]
            values = _Gather.apply(self, trained, *shards)
            for index, shard, value in zip(trained, shards, values, strict=True):
                self.values[index] = owner.whole(shard, value)

    def _tables(self) -> list[Any]:
        """All ranks' rows of each parameter, and padding; recorded one behind the other, to go together."""
        if not self._operands:
            return []
        with as_one("all_gather_into_tensor"):
            return [
                record_collective("all_gather", rows, self.owner.group) for rows in self._operands
            ]

    # -- what is saved ---------------------------------------------------------------------------------------------

    @contextmanager
    def saves(self, gathers_again: bool) -> Iterator[None]:
        """A context for the forward: if the backward pass is to gather again, what operations save of the values is how
        to."""
        calls.open.append(self)
        self._stays = not gathers_again
        saves = gathers_again and weft.is_grad_enabled()
        try:
            with _saving() if saves else nullcontext():
                yield
        finally:
            calls.open.pop()
            if calls.last() is not self:
                self._before, calls.last = calls.last, ref(self) if saves else _none

    def close(self) -> None:
        """Let go of the values: no forward sees them any more, but what is computed again where they are to stay."""
        if self._stays and self.is_noted:
            self._again = self._whole
        is_kept = self._stays and self.owner.keeps_whole
        self.owner.kept = Standing(self._rows, self._whole) if is_kept else None
        self.values, self._whole, self._indices = [], [], {}

    def find(self, node: Node) -> int | None:
        """The number of the gathered table that a node is, where the backward pass is to gather it again."""
        return None if self._stays else self._indices.get(node)

    def again(self) -> list[Tensor]:
        """The tables, gathered once more for a backward pass, and with them those of the module before."""
        self._gather_again()
        before, self._before = self._before(), _none
        if before is not None:
            before._gather_again()
        assert self._again is not None
        return self._again

    def whole_again(self) -> list[Tensor]:
        """The values once more, for a call that a backward pass computes again: nothing goes on to the rows."""
        tables = self.again() if self._again is None else self._again
        with no_grad():
            pairs = zip(tables, self.shards, strict=True)
            whole = [need_gathered(shard).whole_of(table).detach() for table, shard in pairs]
        values = [
            value.requires_grad_(s.requires_grad)
            for value, s in zip(whole, self.shards, strict=True)
        ]
        return [self.owner.whole(shard, v) for v, shard in zip(values, self.shards, strict=True)]

    @contextmanager
    def around(self, followed: bool) -> Iterator[None]:
        """A context in which what this was gathered for is computed again; `followed`: with a graph of its own."""
        with self.owner.standing(None if followed else self.whole_again):
            calls.open.append(self)
            try:
                yield
            finally:
                calls.open.pop()

    def _gather_again(self) -> None:
        if self._again is None and len(self._operands) == len(self.shards):
            with no_grad():
                self._again = self._tables()

    # -- gradients -------------------------------------------------------------------------------------------------

    def reduced(self, trained: Sequence[int], cotangents: Sequence[Tensor | None]) -> list[Any]:
        """The gradients of this rank's rows; None for parameters that no rank has used, and where gradients stay on the
        rank for now."""
        if self.owner.reshards_after_backward:
            self.owner.kept = None
        elif self._again is not None:
            self.owner.kept = Standing(self._rows, self._again)
        self._again, self._operands, self._before = None, [], _none
        shards = [self.shards[index] for index in trained]
        return self.owner.reduction.reduced(shards, cotangents)


class _Context(Protocol):
    """The context of a `_Gather`."""

    gathering: Gathering
    trained: list[int]

    def set_materialize_grads(self, value: bool) -> None:
        """Have missing cotangents as None."""


class _Gather(Function):
    """From rows to whole parameters: its backward reduces the gradients of all of them at once."""

    @staticmethod
    def forward(ctx: _Context, gathering: Gathering, trained: list[int], *shards: DTensor) -> Any:
        """The values, which are gathered already."""
        ctx.gathering, ctx.trained = gathering, trained
        ctx.set_materialize_grads(False)
        return tuple(local(gathering.values[index]) for index in trained)

    @staticmethod
    def backward(ctx: _Context, *cotangents: Tensor | None) -> Any:
        """The gradients of the rows."""
        with no_grad():
            return None, None, *ctx.gathering.reduced(ctx.trained, cotangents)


# -- hooks on what is saved ------------------------------------------------------------------------------------------


def _saving() -> AbstractContextManager[None]:
    """The hooks below; none where other hooks decide what is saved, as those of activation checkpointing."""
    pairs = tapes.tape().mode.saved_hooks
    if pairs and pairs[-1][0] is not _pack:
        return nullcontext()
    return saved_tensors_hooks(_pack, _unpack)


def _pack(tensor: Tensor) -> Tensor | SavedGathered:
    """A value that is to be saved, or how to gather it again."""
    node: Node = value_of(tensor)
    steps: list[tuple[Any, ...]] = []
    while True:
        for gathering in reversed(calls.open):
            index = gathering.find(node)
            if index is not None:
                return SavedGathered(gathering, index, steps[::-1])
        inputs = node.inputs or ()
        is_alone = len(inputs) == 1 and inputs[0] is not None and len(steps) < MOST_STEPS
        if not is_alone or node.op.kind not in (VIEW, ELEMENTWISE):
            return tensor
        steps.append((node.op, node.params, node.shape, node.dtype))
        node = inputs[0]


def _unpack(saved: Tensor | SavedGathered) -> Any:
    return saved.again() if isinstance(saved, SavedGathered) else saved


# -- what is computed again ------------------------------------------------------------------------------------------


def _surroundings() -> list[Surrounding]:
    """The gatherings of the forwards that this thread is in, which note it."""
    for gathering in calls.open:
        gathering.is_noted = True
    return [gathering.around for gathering in calls.open]


register(_surroundings)
