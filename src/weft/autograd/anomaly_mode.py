"""Anomaly mode: a backward whose outputs or gradients are not finite raises, and names the operation at fault.

While it is on, a backward runs at its end what it has recorded and looks at the results; only where one of them is
not finite is the program run once more, value by value (`nonfinite_origin`).
"""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from typing import TYPE_CHECKING, Any

import numpy as np

from weft.autograd.anomaly.nonfinite_origin import (
    Anomaly,
    Diagnosis,
    Unit,
    Values,
    name_of,
    records_below,
)
from weft.autograd.backward import grad
from weft.engine.api.api_function import all_public
from weft.engine.backward.pending_snapshot import PendingSnapshot
from weft.engine.backward.reachability import target_for
from weft.engine.frontend.recorder import cast
from weft.engine.frontend.resolve import edge_for, value_of
from weft.engine.frontend.tensor import Tensor
from weft.engine.frontend.tensor_lifecycle import wrap_node
from weft.engine.ir import tape as tapes
from weft.engine.ir.dtype import float32
from weft.engine.ir.grad_edges import AccumulateGrad
from weft.engine.ir.mode import Contexts
from weft.engine.ir.node import DONE_STATE
from weft.engine.pipeline.driver import array_of
from weft.errors import AnomalyError, ArgumentTypeError, class_name
from weft.ops.primitives import concat, elementwise, reduce, reshape

if TYPE_CHECKING:
    from weft.engine.ir.node import Node


ADVICE = (
    "look at the inputs below: keep log, sqrt and division away from 0, exp from large numbers; mask before them, "
    "not after"
)


class detect_anomaly:  # noqa: N801 - PyTorch's name
    """Check the outputs and gradients of every backward within a block.

    Errors: AnomalyError (a RuntimeError) naming the first operation that made a nan or an infinity, forward or
    backward, and the user's line that recorded it; its notes are the operands in numbers and the way to the loss.
    Cost: each backward runs what is pending; one more pass over the gradients.
    """

    def __init__(self, check_nan: bool = True) -> None:
        self.enabled, self.check_nan = True, check_nan

    def __enter__(self) -> None:
        mode = tapes.tape().mode
        self.previous = (mode.anomaly, mode.contexts)
        mode.anomaly = self.enabled and self.check_nan
        mode.contexts = Contexts(mode.contexts, anomaly=self.enabled)

    def __exit__(self, *exc: object) -> None:
        mode = tapes.tape().mode
        mode.anomaly, mode.contexts = self.previous


class set_detect_anomaly(detect_anomaly):  # noqa: N801 - PyTorch's name
    """Switch anomaly mode on or off, for good or within a `with` block."""

    def __init__(self, mode: bool, check_nan: bool = True) -> None:
        super().__init__(check_nan)
        if not isinstance(mode, bool):
            raise ArgumentTypeError(
                f"set_anomaly_enabled(): argument 'enabled' (position 1) must be bool, not {class_name(mode)}",
                expected="True or False",
                got=repr(mode),
                fix="pass True or False",
            )
        self.enabled = mode
        super().__enter__()

    def __enter__(self) -> None:
        """Already in force."""


def is_anomaly_enabled() -> bool:
    """Whether anomaly mode is on."""
    contexts = tapes.tape().mode.contexts
    return contexts is not None and bool(contexts.anomaly)


def is_anomaly_check_nan_enabled() -> bool:
    """Whether anomaly mode is on and looks for nan."""
    return bool(tapes.tape().mode.anomaly)


# -- watching a reverse walk ---------------------------------------------------------------------------------------


class Watch:
    """Looks at what a walk has come to: the outputs and the gradients, one number each. Only where one is not finite
    is anything computed again, to find the operation at fault."""

    def __init__(self, outputs: Sequence[Tensor]) -> None:
        self.outputs = [value_of(output) for output in outputs if isinstance(output, Tensor)]
        self.roots = [
            target_for(edge_for(output))[0] for output in outputs if edge_for(output) is not None
        ]
        self.units: list[Unit] = []
        self.snapshot = PendingSnapshot()
        self.snapshot.take(tapes.tape().pending())
        ready = [node for node in self.outputs if node.state == DONE_STATE]
        self._raise_for(_not_finite(ready))  # now: the walk gives up what was saved

    def finish(self, results: Iterable[Tensor | None]) -> None:
        """After the walk. Errors: AnomalyError where an output or a gradient is not finite."""
        self.snapshot.take(tapes.tape().pending())
        self.snapshot.note_members()
        finals = list(self.outputs)
        finals += [unit[3][0] for unit in self.units if isinstance(unit[0], AccumulateGrad)]
        finals += [value_of(result) for result in results if result is not None]
        finals = [node for node in dict.fromkeys(finals) if node.dtype.category >= 2 and node.numel]
        if finals and not _all_finite(finals):
            self._raise_for(_not_finite(finals))

    def _raise_for(self, hits: list[object]) -> None:
        if not hits:
            return
        values = Values(self.snapshot)
        found = Diagnosis(values, self.roots, self.units).describe(hits)
        if found is None:
            return
        error = AnomalyError(
            self._first_returned(values) or found.summary,
            where=found.where,
            expected="values and gradients that are finite",
            got=found.headline,
            fix=ADVICE,
        )
        error.anomaly = found
        for note in found.notes():
            error.add_note(note)
        raise error

    def _first_returned(self, values: Values) -> str:
        """PyTorch's words for the first record of the walk that has returned a nan, or else an infinity."""
        units = [unit for unit in self.units if not isinstance(unit[0], AccumulateGrad)]
        values.add(part for unit in units for part in unit[3] if part is not None)
        for which, kind in enumerate(("nan", "inf")):
            for record, _first, _last, parts, _made in units:
                name = name_of(record[0] if isinstance(record, list) else record)
                for index, part in enumerate(parts):
                    state = values.state(part)
                    if state is not None and state[which]:
                        return f"Function '{name}' returned {kind} values in its {index}th output."
        return ""


def _all_finite(nodes: list[Node]) -> bool:
    """Whether all elements of some values are finite, by a sum of each: one pass, in kernels of their own program."""
    sums = []
    mode = tapes.tape().mode
    previous, mode.grad = mode.grad, False
    try:
        for node in nodes:
            tensor = wrap_node(node)
            if tensor.dtype.is_complex:
                tensor = elementwise("abs", tensor)
            tensor = cast(tensor, float32) if tensor.dtype.itemsize < 4 else tensor
            axes = tuple(range(len(node.shape)))
            total = reduce("sum", tensor, axes) if axes else tensor
            sums.append(reshape(cast(total, float32), (1,)))
        joined = concat(tuple(sums), 0) if len(sums) > 1 else sums[0]
    finally:
        mode.grad = previous
    return bool(np.isfinite(array_of(value_of(joined))).all())


def _not_finite(nodes: list[Node]) -> list[Any]:
    """The nodes whose values have an element that is not finite: a sum may also be too large."""
    values = Values(PendingSnapshot())
    values.add(nodes)
    return [node for node in nodes if (values.state(node) or (False, False))[1]]


def find_anomaly(loss: Any) -> Anomaly | None:
    """The first operation that made a nan or an infinity on the way to `loss`, or on the way back to the leaves; None
    where all values and gradients are finite. Works on a graph that is already built, and leaves `.grad` alone.

    What has run is known as far as it was saved: operands that were not are left out. Hooks are called.
    Errors: RuntimeError where the graph has been freed by a backward without retain_graph=True.
    """
    with detect_anomaly():
        try:
            watch = Watch((loss,))
            watch._raise_for(_not_finite([value_of(loss)]))
            leaves = [
                r.variable for r in records_below(watch.roots) if isinstance(r, AccumulateGrad)
            ]
            if leaves:
                start = elementwise("add", wrap_node(value_of(loss)) * 0, 1)
                grad(loss, leaves, start, retain_graph=True, allow_unused=True)
        except AnomalyError as error:
            found = error.anomaly
            assert isinstance(found, Anomaly)
            return found
    return None


globals().update(all_public({"find_anomaly": find_anomaly}))
