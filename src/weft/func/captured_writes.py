"""Writes of a transformed function to tensors from outside: refused where they would carry the transform's graph out.

A transform differentiates by aliases of its arguments. What was there before it began may be written as anywhere else
(the statistics of a layer, a counter), but not with values that depend on these aliases: they would lead from a tensor
of the caller into a graph that ends with the transform.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import TYPE_CHECKING

import weft
from weft.engine.backward.reachability import reaches_any
from weft.engine.frontend.resolve import edge_for
from weft.engine.ir.tape import last_sequence
from weft.errors import MutationError

if TYPE_CHECKING:
    from weft.engine.frontend.tensor import Storage, Tensor
    from weft.engine.ir.node import Node

Note = Callable[["Storage", "Tensor"], None]


class CapturedWrites:
    """The writes inside a transform at `aliases` with their `records`; `outer` is told of each before it is judged."""

    def __init__(self, aliases: list[Tensor], records: list[Node], outer: Note | None) -> None:
        self.aliases, self.records, self.outer = aliases, records, outer
        self.start = last_sequence()
        self.captured: set[Storage] = set()

    def note(self, storage: Storage, new: Tensor) -> None:
        """`storage` is to get the value of `new`, or a part of it. Errors: RuntimeError; nothing is written then."""
        if self.outer is not None:
            self.outer(storage, new)
        if storage.node.seq > self.start and storage not in self.captured:
            return
        if any(alias._storage is storage for alias in self.aliases):
            return
        tracked = weft.is_grad_enabled() and new.requires_grad
        if tracked and reaches_any([edge_for(new)], self.records):
            raise _refusal(new)
        self.captured.add(storage)


def _refusal(new: Tensor) -> MutationError:
    return MutationError(
        "During a grad (vjp, jvp, grad, etc) transform, the function provided attempted to call in-place operation "
        "that would mutate a captured Tensor. This is not supported; please rewrite the function being transformed to "
        "explicitly accept the mutated Tensor(s) as inputs",
        expected="a write into a tensor that the function made or was given, or of a value that does not depend on "
        "what is differentiated by",
        got=f"a value {list(new.shape)} that depends on it, for a tensor from outside",
        fix="return the value with has_aux=True, or write value.detach()",
    )
