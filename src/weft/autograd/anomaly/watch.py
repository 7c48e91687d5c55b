"""The watch on a backward in anomaly mode: its results are checked, and a value that is not finite is traced to its
origin.

It takes the outputs of a backward and, after the walk, its results, and raises an AnomalyError if one of them is not
finite. `nonfinite_origin` finds the origin.
"""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from typing import TYPE_CHECKING, Any

import numpy as np

from weft.autograd.anomaly.nonfinite_origin import Diagnosis, Unit, Values, name_of
from weft.engine.backward.pending_snapshot import PendingSnapshot
from weft.engine.backward.reachability import target_for
from weft.engine.frontend.recorder import cast
from weft.engine.frontend.resolve import edge_for, value_of
from weft.engine.frontend.tensor import Tensor
from weft.engine.frontend.tensor_lifecycle import wrap_node
from weft.engine.ir import tape as tapes
from weft.engine.ir.dtype import float32
from weft.engine.ir.grad_edges import AccumulateGrad
from weft.engine.ir.node import DONE_STATE
from weft.engine.pipeline.driver import array_of
from weft.errors import AnomalyError
from weft.ops.primitives import concat, elementwise, reduce, reshape

if TYPE_CHECKING:
    from weft.engine.ir.node import Node


ADVICE = (
    "look at the inputs below: keep log, sqrt and division away from 0, exp from large numbers; mask before them, "
    "not after"
)


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
        self._raise_for(not_finite(ready))  # now: the walk gives up what was saved

    def finish(self, results: Iterable[Tensor | None]) -> None:
        """After the walk. Errors: AnomalyError where an output or a gradient is not finite."""
        self.snapshot.take(tapes.tape().pending())
        self.snapshot.note_members()
        finals = list(self.outputs)
        finals += [unit[3][0] for unit in self.units if isinstance(unit[0], AccumulateGrad)]
        finals += [value_of(result) for result in results if result is not None]
        finals = [node for node in dict.fromkeys(finals) if node.dtype.category >= 2 and node.numel]
        if finals and not _all_finite(finals):
            self._raise_for(not_finite(finals))

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
    """True if all elements of some values are finite, found by a sum of each: one pass, in kernels of their own
    program."""
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


def not_finite(nodes: list[Node]) -> list[Any]:
    """The nodes whose values have an element that is not finite: a sum may also be too large."""
    values = Values(PendingSnapshot())
    values.add(nodes)
    return [node for node in nodes if (values.state(node) or (False, False))[1]]
