"""Anomaly mode: a backward that produces a value that is not a number stops there, and names the forward line.

While it is on, walks go node by node and every cotangent is read as it is made; expect them to be slow.
"""

from __future__ import annotations

from typing import Any

import numpy as np

from weft.errors import AnomalyError
from weft.graph import node as graph
from weft.graph.tensor import value_of


class detect_anomaly:  # noqa: N801 - PyTorch's name
    """Check the gradients of every backward within a block.

    Errors: AnomalyError (a RuntimeError) naming the operation and the user's line that recorded it.
    """

    def __init__(self, check_nan: bool = True) -> None:
        self.enabled, self.check_nan = True, check_nan

    def __enter__(self) -> None:
        mode = graph.tape().mode
        self.previous = (mode.anomaly, mode.extra)
        mode.anomaly = self.enabled and self.check_nan
        mode.extra = {**(mode.extra or {}), "anomaly": self.enabled}

    def __exit__(self, *exc: object) -> None:
        mode = graph.tape().mode
        mode.anomaly, mode.extra = self.previous


class set_detect_anomaly(detect_anomaly):  # noqa: N801 - PyTorch's name
    """Switch anomaly mode on or off, for good or within a `with` block."""

    def __init__(self, mode: bool, check_nan: bool = True) -> None:
        super().__init__(check_nan)
        self.enabled = mode
        super().__enter__()

    def __enter__(self) -> None:
        """Already in force."""


def is_anomaly_enabled() -> bool:
    """Whether anomaly mode is on."""
    extra = graph.tape().mode.extra
    return bool(extra and extra.get("anomaly"))


def is_anomaly_check_nan_enabled() -> bool:
    """Whether anomaly mode is on and looks for nan."""
    return bool(graph.tape().mode.anomaly)


def check_parts(node: Any, parts: list[Any]) -> None:
    """Raise where a gradient that a node has returned holds a nan."""
    from weft.pipeline import array_of

    for index, part in enumerate(parts):
        if part is None or not part.dtype.numpy:
            continue
        values = array_of(value_of(part))
        if np.isnan(values).any():
            bad = int(np.isnan(values).sum())
            raise AnomalyError(
                f"Function '{node.name()}' returned nan values in its {index}th output.",
                where=node.where,
                expected="gradients that are numbers",
                got=f"{bad} nan of {values.size} in a gradient of shape {list(values.shape)}",
                fix="look at the inputs of this line: sqrt or log at 0, 0 * inf, inf - inf",
            )
