"""`weft.summary`: a model as a tree, with shapes, parameters, operations, bytes and time of one call."""

from __future__ import annotations

import time
from collections.abc import Callable
from dataclasses import dataclass
from html import escape

import weft
from weft.debug.breakpoints.watch import tensors_in
from weft.engine.pipeline import driver
from weft.errors import ArgumentTypeError, class_name
from weft.nn import Module
from weft.tensor.reading.html import STYLE
from weft.utils.flop_counter import FlopCounterMode

HEADINGS = ("module", "results", "parameters", "flops", "bytes", "ms")


@dataclass
class Row:
    """A module in the tree; `flops` and `seconds` include what it calls."""

    name: str
    depth: int
    module: Module
    shapes: str = ""
    nbytes: int = 0
    flops: int = 0
    seconds: float = 0.0

    @property
    def parameters(self) -> int:
        """The number of elements of its parameters."""
        return sum(parameter.numel() for parameter in self.module.parameters())


class Summary:
    """Rows of a model, printed as a table."""

    def __init__(self, rows: list[Row]) -> None:
        self.rows = rows

    def cells(self) -> list[tuple[str, ...]]:
        """The table as text, the headings first."""
        cells: list[tuple[str, ...]] = [HEADINGS]
        for row in self.rows:
            label = "  " * row.depth + f"{row.name} {type(row.module).__name__}".strip()
            numbers = (
                f"{row.parameters:,}",
                f"{row.flops:,}",
                f"{row.nbytes:,}",
                f"{row.seconds * 1e3:.2f}",
            )
            cells.append((label, row.shapes, *numbers))
        return cells

    def __str__(self) -> str:
        cells = self.cells()
        widths = [max(len(cell[column]) for cell in cells) for column in range(6)]
        return "\n".join(
            "  ".join(
                text.ljust(width) if column < 2 else text.rjust(width)
                for column, (text, width) in enumerate(zip(cell, widths, strict=True))
            ).rstrip()
            for cell in cells
        )

    __repr__ = __str__

    def _repr_html_(self) -> str:
        rows = "".join(
            f"<tr>{''.join(_html_cell(place, text) for place, text in enumerate(row))}</tr>"
            for row in self.cells()
        )
        return f'<table style="{STYLE}">{rows}</table>'


def _html_cell(column: int, text: str) -> str:
    """A cell; what is indented stays so, numbers end at the right."""
    side = "left; white-space: pre" if column < 2 else "right"
    return f'<td style="text-align: {side}">{escape(text)}</td>'


class _Measuring:
    """Hooks that note each module's results, time and operations; a module that is called twice adds up."""

    def __init__(self, rows: list[Row], counter: FlopCounterMode) -> None:
        self.counter = counter
        self.open: list[tuple[float, int]] = []
        self.handles = []
        for row in rows:
            self.handles.append(row.module.register_forward_pre_hook(self.enter))
            self.handles.append(row.module.register_forward_hook(self.leave(row)))

    def enter(self, module: Module, inputs: object) -> None:
        """A call begins; what was recorded before runs first."""
        driver.flush()
        self.open.append((time.perf_counter(), self.counter.get_total_flops()))

    def leave(self, row: Row) -> Callable[[Module, object, object], None]:
        """A hook that notes a call's end in a row."""

        def noted(module: Module, inputs: object, result: object) -> None:
            found = list(tensors_in(result))
            driver.realize(*found)
            began, flops = self.open.pop()
            row.seconds += time.perf_counter() - began
            row.flops += self.counter.get_total_flops() - flops
            row.nbytes += sum(t.numel() * t.dtype.itemsize for t in found)
            row.shapes = ", ".join(f"{t.dtype.name}{list(t.shape)}" for t in found)

        return noted


def summary(model: Module, *inputs: object, **options: object) -> Summary:
    """A table of a model's modules: results, parameters, floating-point operations, bytes of results, time.

    Args: `inputs` and `options` are what the model is called with, once, without gradients; without any only the
    parameters are shown. Each module's result is computed as it returns, so that times are those of its own operations,
    not fused with its neighbours'. A call draws random numbers and changes running statistics as any other.

    Example:
        >>> import weft
        >>> print(weft.summary(weft.nn.Linear(3, 2)))  # doctest: +NORMALIZE_WHITESPACE
        module  results  parameters  flops  bytes    ms
        Linear                    8      0      0  0.00
    """
    if not isinstance(model, Module):
        raise ArgumentTypeError(
            f"summary: expected a module, got {class_name(model)}",
            expected="a weft.nn.Module",
            got=f"{model!r:.80}",
            fix="weft.summary(model, inputs)",
        )
    rows = [
        Row(name.rpartition(".")[2], name.count(".") + bool(name), module)
        for name, module in model.named_modules()
    ]
    if inputs or options:
        counter = FlopCounterMode(display=False)
        with weft.no_grad(), counter:
            measuring = _Measuring(rows, counter)
            try:
                model(*inputs, **options)
            finally:
                for handle in measuring.handles:
                    handle.remove()
    return Summary(rows)
