"""The course of training in numbers: scalars, norms of weights and gradients by parameter, units that get no gradient.

A row for each watched step. Columns are lists of the length of `step`; of many rows every second one goes.
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

import numpy as np

from weft.board.run import rounded
from weft.board.statistics import array_of, histogram
from weft.engine.frontend.tensor import Tensor
from weft.nn import Module

MOST_ROWS = 4096
DEAD_AFTER_ROWS = 10  # without a gradient
MOST_PARAMETERS = 400  # have columns of their own


class GrowingColumns:
    """Columns in groups that grow row by row."""

    def __init__(self) -> None:
        self.step: list[int] = []
        self.columns: dict[str, dict[str, list[Any]]] = {}

    def add(self, step: int, values: Mapping[str, Mapping[str, object]]) -> None:
        """Add a row; columns that it lacks have None there."""
        if len(self.step) == MOST_ROWS:
            self._thin_out()
        self.step.append(step)
        self.set(values)

    def set(self, values: Mapping[str, Mapping[str, object]]) -> None:
        """Write into the newest row."""
        count = len(self.step)
        for group, row in values.items():
            columns = self.columns.setdefault(group, {})
            for name in row:
                columns.setdefault(name, [])
        for group, columns in self.columns.items():
            given = values.get(group, {})
            for name, column in columns.items():
                column += [None] * (count - len(column))
                if name in given:
                    column[-1] = given[name]

    def _thin_out(self) -> None:
        del self.step[1::2]
        for columns in self.columns.values():
            for column in columns.values():
                del column[1::2]

    def document(self) -> dict[str, Any]:
        """The columns."""
        return {"step": self.step, "columns": self.columns}


class Units:
    """The units of layers that have had a gradient lately: rows of weights, but not of embeddings."""

    def __init__(self) -> None:
        self._rows = 0
        self._alive: dict[str, np.ndarray] = {}  # the row that had the last gradient, by unit

    def dead(self, gradients: Mapping[str, np.ndarray]) -> dict[str, int]:
        """The number of units of each weight that have had none, after one more row."""
        self._rows += 1
        found: dict[str, int] = {}
        for name, gradient in gradients.items():
            alive = self._alive.setdefault(name, np.zeros(len(gradient), np.int64))
            alive[gradient.reshape(len(gradient), -1).any(1)] = self._rows
            if self._rows >= DEAD_AFTER_ROWS:
                found[name] = int((alive <= self._rows - DEAD_AFTER_ROWS).sum())
        return found


def layer_numbers(
    parameters: Mapping[str, Tensor], units: Units, unit_weights: set[str]
) -> dict[str, dict[str, Any]]:
    """Norms of parameters and their gradients, dead units, elements that are not finite."""
    groups: dict[str, dict[str, Any]] = {"weight": {}, "gradient": {}, "dead": {}, "bad": {}}
    gradients: dict[str, np.ndarray] = {}
    bad = 0
    for name, parameter in list(parameters.items())[:MOST_PARAMETERS]:
        groups["weight"][name] = rounded(_norm(array_of(parameter)))
        gradient = parameter.grad
        if gradient is None or gradient.is_sparse:
            continue
        array = array_of(gradient)
        size = _norm(array)
        groups["gradient"][name] = rounded(size)
        bad += not np.isfinite(size)
        if name in unit_weights and array.size == gradient.numel():
            gradients[name] = array.reshape(tuple(gradient.shape))
    groups["dead"] = units.dead(gradients)
    groups["bad"] = {"gradients": bad}
    return groups


def _norm(array: np.ndarray) -> float:
    if array.dtype.kind != "f":
        return float(np.linalg.norm(array.astype(np.float64)))
    array = array.astype(np.float32) if array.itemsize < 4 else array
    return float(np.sqrt(np.dot(array, array)))


def unit_weights_of(model: Module) -> set[str]:
    """The names of weights whose first axis counts units: of layers other than embeddings."""
    return {
        f"{name}.weight" if name else "weight"
        for name, module in model.named_modules()
        if type(module).__name__.startswith(("Linear", "Conv", "Bilinear"))
        and isinstance(getattr(module, "weight", None), Tensor)
    }


class Histograms:
    """Histograms of weights and gradients over the steps that were looked at."""

    def __init__(self, most: int = 64) -> None:
        self.most = most
        self.rows: list[dict[str, Any]] = []

    def add(self, step: int, parameters: Mapping[str, Tensor]) -> None:
        """Add those of a step."""
        if len(self.rows) == self.most:
            del self.rows[1::2]
        layers: dict[str, Any] = {}
        for name, parameter in list(parameters.items())[:MOST_PARAMETERS]:
            layers[name] = {"weight": histogram(array_of(parameter))}
            if parameter.grad is not None and not parameter.grad.is_sparse:
                layers[name]["gradient"] = histogram(array_of(parameter.grad))
        self.rows.append({"step": step, "layers": layers})

    def document(self) -> dict[str, Any]:
        """All rows."""
        return {"rows": self.rows}
