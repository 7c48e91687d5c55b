"""Work that runs early: after every few recorded operations, as where the recorder's budget is full."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from contextlib import contextmanager
from typing import Any

import numpy as np

import weft
from weft.engine.frontend import recorder

NODES = (
    0,
    1,
    2,
    4,
    6,
)  # so many may be pending: work runs after every operation, every second, ...
REGROUPED = (
    1e-11  # gradients that sum over examples add up in another order where batches form differently
)


@contextmanager
def within(nodes: int) -> Iterator[None]:
    """Run what is pending whenever more than so many nodes are."""
    previous = recorder.set_budget(nodes, 1 << 40)
    try:
        yield
    finally:
        recorder.set_budget(*previous)


def bits(tensor: Any) -> bytes:
    """The elements of a tensor, or of a number."""
    shown = tensor.detach().clone().contiguous() if isinstance(tensor, weft.Tensor) else tensor
    return np.asarray(shown.tolist() if isinstance(shown, weft.Tensor) else shown).tobytes()


Shown = tuple[list[Any], list[Any]]  # forward values, gradients


def assert_same(show: Callable[[], Shown], nodes: int) -> None:
    """What a program shows is the same within a budget: values bit by bit."""
    values, gradients = show()
    with within(nodes):
        early, early_gradients = show()
    assert [bits(value) for value in early] == [bits(value) for value in values]
    assert len(early_gradients) == len(gradients)
    for one, other in zip(early_gradients, gradients, strict=True):
        assert (one is None) == (other is None)
        if one is not None:
            ours, theirs = np.asarray(one.tolist()), np.asarray(other.tolist())
            np.testing.assert_allclose(
                ours,
                theirs,
                rtol=0,
                atol=REGROUPED * max(1.0, float(np.abs(theirs).max(initial=0))),
            )
