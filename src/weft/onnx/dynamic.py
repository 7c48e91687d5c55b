"""Dimensions of inputs that may change: those that the user names, and calls of other sizes.

A dimension has a name; equal names are equal sizes. For each call every name gets a size. What is recorded does not
depend on values, so the inputs of another size are one zero, expanded: however large, they take no memory.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING

import weft
from weft.errors import ArgumentError
from weft.utils._pytree import tree_leaves

if TYPE_CHECKING:
    from weft.engine.frontend.tensor import Tensor

FREE = ("AUTO", "DYNAMIC")  # hints of torch.export.Dim
CALLS = 4
# What the calls behind the first add to a dimension, and what with each further dimension: far apart, so that sizes
# that convolutions and pools make of them differ too. Where a model takes no such sizes, multiples and small steps.
FAR, FURTHER = (131, 197, 383), (67, 149, 41)
NEAR, NEXT = (1, 3, 4), (1, 2, 4)
FACTORS = ((2, 3, 5), (3, 5, 4), (5, 2, 3), (4, 7, 6))


@dataclass(frozen=True)
class Dimension:
    """A dynamic dimension: its name, its size in the given call, and the sizes that it may have."""

    name: str
    size: int
    low: int = 0
    high: int | None = None


@dataclass
class Dynamic:
    """The dynamic dimensions, in order, and those of each input by axis."""

    dimensions: dict[str, Dimension]
    axes: list[dict[int, str]]

    def calls(self) -> Iterator[list[dict[str, int]]]:
        """Sizes of the calls, several proposals: much larger ones, multiples, a little larger and smaller ones."""
        first = {name: max(one.size, 2) for name, one in self.dimensions.items()}
        places = list(enumerate(first.items()))

        def steps(
            sign: int, start: Sequence[int], more: Sequence[int], call: int
        ) -> dict[str, int]:
            return {
                name: size + sign * (start[call] + place * more[call])
                for place, (name, size) in places
            }

        behind = range(CALLS - 1)
        proposals = [
            [steps(1, FAR, FURTHER, call) for call in behind],
            [
                {name: size * FACTORS[place % 4][call] for place, (name, size) in places}
                for call in behind
            ],
            [steps(1, NEAR, NEXT, call) for call in behind],
            [steps(-1, NEAR, NEXT, call) for call in behind],
        ]
        for proposal in proposals:
            calls = [first, *proposal]
            if all(self._allowed(sizes) for sizes in calls):
                yield calls

    def _allowed(self, sizes: Mapping[str, int]) -> bool:
        for name, size in sizes.items():
            dimension = self.dimensions[name]
            if size < max(dimension.low, 2) or (
                dimension.high is not None and size > dimension.high
            ):
                return False
        return True

    def resized(self, inputs: Sequence[Tensor], sizes: Mapping[str, int]) -> list[Tensor]:
        """The inputs with other sizes along their dynamic dimensions; all elements of such are one."""
        made = []
        for tensor, axes in zip(inputs, self.axes, strict=True):
            shape = [
                sizes[axes[axis]] if axis in axes else size
                for axis, size in enumerate(tensor.shape)
            ]
            made.append(tensor.new_zeros(()).expand(shape) if axes else tensor.detach())
        return made


def none(count: int) -> Dynamic:
    """No dynamic dimension, of some inputs."""
    return Dynamic({}, [{} for _ in range(count)])


class _Collector:
    """Puts dimensions down, one input after the other."""

    def __init__(self, inputs: Sequence[Tensor]) -> None:
        self.inputs = inputs
        self.found = none(len(inputs))

    def add(self, number: int, spec: object) -> None:
        """Put down one input: a mapping or sequence of axes; None: nothing changes."""
        if spec is None:
            return
        if isinstance(spec, Mapping):
            pairs = list(spec.items())
        elif isinstance(spec, Sequence) and not isinstance(spec, str):
            pairs = list(enumerate(spec))
        else:
            raise _refused(f"{spec!r:.60} for input {number}")
        for axis, dimension in pairs:
            self.add_axis(number, axis, dimension)

    def add_axis(self, number: int, axis: object, dimension: object) -> None:
        shape = self.inputs[number].shape
        if not isinstance(axis, int) or not -len(shape) <= axis < len(shape):
            raise _refused(f"axis {axis!r} of an input of shape {list(shape)}")
        axis %= len(shape)
        name, low, high = _described(dimension, f"dim_{number}_{axis}")
        if not name:
            return
        known = self.found.dimensions.get(name)
        if known is not None and known.size != shape[axis]:
            raise _refused(f"{name} is {known.size} and {shape[axis]}")
        self.found.dimensions[name] = Dimension(name, shape[axis], low, high)
        self.found.axes[number][axis] = name


def _described(dimension: object, fallback: str) -> tuple[str, int, int | None]:
    """The name of a dimension and the sizes that it may have; no name where it does not change."""
    if isinstance(dimension, str):
        return dimension, 0, None
    hint = getattr(dimension, "type", dimension)  # a hint of Dim carries its kind
    word = getattr(hint, "name", "") or getattr(dimension, "__name__", "")
    if dimension is None or isinstance(dimension, int) or word == "STATIC":
        return "", 0, None
    if word in FREE:
        return fallback, 0, None
    name = getattr(dimension, "__name__", None)
    if not isinstance(name, str):
        raise _refused(f"{dimension!r:.60}")
    low, high = getattr(dimension, "min", 0), getattr(dimension, "max", None)
    return name, low if isinstance(low, int) else 0, high if isinstance(high, int) else None


def _refused(got: str) -> ArgumentError:
    return ArgumentError(
        "onnx.export: dynamic dimensions that do not fit the inputs",
        expected='for each input None or a dict of axes, as {0: "batch"}; equal names are equal sizes',
        got=got,
        fix='dynamic_shapes={"x": {0: "batch"}} by the names of arguments, or dynamic_axes by input_names',
    )


def by_shapes(spec: object, arguments: Mapping[str, object], inputs: Sequence[Tensor]) -> Dynamic:
    """The dimensions that `dynamic_shapes` names: by arguments, or in their order.

    Errors: ValueError where it does not fit them.
    """
    collector = _Collector(inputs)
    if isinstance(spec, Mapping):
        strangers = set(spec) - set(arguments)
        if strangers:
            raise _refused(f"no argument {sorted(map(str, strangers))} among {list(arguments)}")
        specs = [spec.get(name) for name in arguments]
    elif isinstance(spec, Sequence) and len(spec) == len(arguments):
        specs = list(spec)
    else:
        raise _refused(f"{spec!r:.60} for {len(arguments)} arguments")
    number = 0
    for value, one in zip(arguments.values(), specs, strict=True):
        number = _walk(collector, value, one, number)
    return collector.found


def _walk(collector: _Collector, value: object, spec: object, number: int) -> int:
    """Dimensions of the tensors in one argument; the number of the next input."""
    if isinstance(value, weft.Tensor):
        collector.add(number, spec)
        return number + 1
    if isinstance(value, Mapping):
        pairs = [
            (part, spec.get(key) if isinstance(spec, Mapping) else None)
            for key, part in value.items()
        ]
    elif isinstance(value, list | tuple):
        within = isinstance(spec, list | tuple) and len(spec) == len(value)
        pairs = [(part, spec[place] if within else None) for place, part in enumerate(value)]  # type: ignore[index]
    else:
        return number + sum(isinstance(leaf, weft.Tensor) for leaf in tree_leaves(value))
    for part, one in pairs:
        number = _walk(collector, part, one, number)
    return number


def by_axes(spec: Mapping[str, object], names: Sequence[str], inputs: Sequence[Tensor]) -> Dynamic:
    """The dimensions that `dynamic_axes` names: by the names of inputs; those of outputs follow by themselves.

    Errors: ValueError where it does not fit them.
    """
    collector = _Collector(inputs)
    for number, name in enumerate(names):
        axes = spec.get(name)
        if isinstance(axes, Sequence) and not isinstance(axes, str):
            axes = {axis: f"{name}_dynamic_axes_{place + 1}" for place, axis in enumerate(axes)}
        collector.add(number, axes)
    return collector.found
