"""An ONNX graph while it is made: nodes, constants, and sizes as small integer tensors.

Names of values are strings, as in the format. Constants are shared; nodes that no output needs are left out at the end.
"""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from typing import TYPE_CHECKING, Any

import numpy as np

from weft.onnx.sizes import Formula, NamedSize, Size, Varied, combined, explained, text_of

if TYPE_CHECKING:
    from onnx import NodeProto, TensorProto
    from weft._typing import Array

NARROW = ("int8", "uint8", "int16")  # types that few operators take
_ONNX_NAMES = {
    "float32": "FLOAT",
    "float64": "DOUBLE",
    "float16": "FLOAT16",
    "bfloat16": "BFLOAT16",
    **{name: name.upper() for name in ("bool", "uint8", "int8", "int16", "int32", "int64")},
}


def element_type(dtype: str) -> int | None:
    """The number that ONNX gives a dtype; None where it has none."""
    from onnx import TensorProto

    name = _ONNX_NAMES.get(dtype)
    return None if name is None else int(getattr(TensorProto, name))


class UnknownSize(Exception):
    """A size that no formula gives."""


class OnnxGraph:
    """Nodes and constants. Names that users see, of inputs, outputs and parameters, are `taken` from the start."""

    def __init__(self, opset: int, taken: Iterable[str] = ()) -> None:
        self.opset = opset
        self.nodes: list[NodeProto] = []
        self.initializers: dict[str, TensorProto] = {}
        self.taken = set(taken)
        self.known: list[NamedSize] = []
        self.dimensions: list[str] = []
        self.label = ""  # the user's line, for the nodes that are made next
        self._constants: dict[Any, str] = {}
        self._counts: dict[str, int] = {}
        self._made: dict[tuple[object, ...], list[str]] = {}

    def fresh(self, stem: str) -> str:
        """A name that nothing has."""
        while True:
            number = self._counts[stem] = self._counts.get(stem, 0) + 1
            name = f"{stem}_{number}"
            if name not in self.taken:
                self.taken.add(name)
                return name

    def call(
        self, kind: str, *operands: str, **attributes: int | float | str | Sequence[int]
    ) -> str:
        """Add a node with one output, whose name is the result."""
        return self.call_several(kind, operands, 1, **attributes)[0]

    def call_several(
        self,
        kind: str,
        operands: Sequence[str],
        count: int,
        **attributes: int | float | str | Sequence[int] | Sequence[str],
    ) -> list[str]:
        """Add a node with several outputs; of equal nodes there is one."""
        from onnx import helper

        key = (kind, count, *operands, repr(sorted(attributes.items())))
        if key in self._made:
            return self._made[key]
        results = [self.fresh(kind.lower()) for _ in range(count)]
        node = helper.make_node(kind, list(operands), results, name=results[0])
        node.attribute.extend(helper.make_attribute(k, v) for k, v in attributes.items())
        node.doc_string = self.label
        self.nodes.append(node)
        self._made[key] = results
        return results

    # -- constants -----------------------------------------------------------------------------------------------

    def constant(self, array: Array, dtype: str = "", name: str = "") -> str:
        """An initializer; bfloat16 comes as its bits. Equal small ones are one."""
        array = np.ascontiguousarray(array).reshape(np.shape(array))
        dtype = dtype or array.dtype.name
        key = (dtype, array.shape, array.tobytes()) if array.size <= 64 and not name else None
        if key in self._constants:
            return self._constants[key]
        name = name or self.fresh("constant")
        self.initializers[name] = _tensor(name, array, dtype)
        if key is not None:
            self._constants[key] = name
        return name

    def number(self, value: float, dtype: str) -> str:
        """A constant without dimensions."""
        if dtype == "bfloat16":
            bits = np.float32(value).view(np.uint32)
            return self.constant(
                np.asarray((bits + 0x7FFF + ((bits >> 16) & 1)) >> 16, np.uint16), dtype
            )
        with np.errstate(all="ignore"):
            return self.constant(np.asarray(value).astype(dtype), dtype)

    def integers(self, values: Iterable[int]) -> str:
        """A vector of int64."""
        return self.constant(np.array(list(values), np.int64))

    # -- sizes ---------------------------------------------------------------------------------------------------

    def know(self, made: NamedSize) -> None:
        """A size has a name from now on, that of a vector of one int64.

        Errors: UnknownSize where the calls cannot tell it from another one.
        """
        for known in self.known:
            if known.size == made.size:
                if not known.is_same(made, self.dimensions):
                    raise UnknownSize(f"{known.text} or {made.text}, which are equal in all calls,")
                return
        self.known.append(made)

    def know_dimension(self, size: Varied, name: str, dimension: str) -> None:
        """A dynamic dimension has a name from now on."""
        if dimension not in self.dimensions:
            self.dimensions.append(dimension)
            self.know(NamedSize(size, name, dimension, lambda sizes: sizes[dimension]))

    def know_windows(
        self, size: Size, source: Size, room: int, step: int, edge: int | None = None
    ) -> None:
        """A size is the number of windows in another one: (source + room) // step + 1; with `edge` rounded up, of such
        as begin at most there behind it."""
        if not isinstance(size, Varied) or not isinstance(source, Varied):
            return
        name = self.size(source)
        before = next(known for known in self.known if known.size == source)
        rooms = [room] if edge is None else [room + step - 1, edge]
        words = [f"({before.text} {'+' if add > 0 else '-'} {abs(add)})//{step}" for add in rooms]
        quotients = [
            self.call("Div", self.call("Add", name, self.integers([add])), self.integers([step]))
            for add in rooms
        ]
        least = quotients[0] if edge is None else self.call("Min", *quotients)
        self.know(
            NamedSize(
                size,
                self.call("Add", least, self.integers([1])),
                f"{words[0]} + 1" if edge is None else f"min({', '.join(words)}) + 1",
                lambda sizes: min((before.value(sizes) + add) // step for add in rooms) + 1,
            )
        )

    def size(self, size: Size) -> str:
        """A vector of one int64. Errors: UnknownSize."""
        if isinstance(size, int):
            return self.integers([size])
        formula = self._formula(size)
        if all(known.size != size for known in self.known):
            self.know(combined(formula, self.known, size, self._computed(formula)))
        return next(known.name for known in self.known if known.size == size)

    def text(self, size: Size) -> int | str:
        """A size as a shape in the file has it. Errors: UnknownSize."""
        if isinstance(size, int):
            return size
        return text_of(self._formula(size), self.known)

    def _formula(self, size: Varied) -> Formula:
        formula = explained(size, [known.size for known in self.known])
        if formula is None:
            raise UnknownSize(repr(size))
        return formula

    def _computed(self, formula: Formula) -> str:
        result = self.known[formula.factors[0]].name
        for place in formula.factors[1:]:
            result = self.call("Mul", result, self.known[place].name)
        if formula.scale != 1:
            result = self.call("Mul", result, self.integers([formula.scale]))
        if formula.offset:
            result = self.call("Add", result, self.integers([formula.offset]))
        if formula.divisor != 1:
            result = self.call("Div", result, self.integers([formula.divisor]))
        return result

    def sizes(self, shape: Sequence[Size]) -> str:
        """A vector of sizes."""
        fixed = [size for size in shape if isinstance(size, int)]
        if len(fixed) == len(shape):
            return self.integers(fixed)
        parts = [self.size(size) for size in shape]
        return parts[0] if len(parts) == 1 else self.call("Concat", *parts, axis=0)

    def scalar_size(self, size: Size) -> str:
        """A size without dimensions."""
        if isinstance(size, int):
            return self.number(size, "int64")
        return self.call("Squeeze", self.size(size), self.integers([0]))

    # -- what many operators need ----------------------------------------------------------------------------------

    def cast(self, x: str, dtype: str) -> str:
        return self.call("Cast", x, to=element_type(dtype) or 0)

    def reshape(self, x: str, shape: Sequence[Size]) -> str:
        """Also where a size is 0."""
        varied = [place for place, size in enumerate(shape) if isinstance(size, Varied)]
        fixed = [size for size in shape if isinstance(size, int)]
        if len(varied) == 1 and 0 not in fixed:
            sizes = self.integers([-1 if isinstance(size, Varied) else size for size in shape])
        else:
            sizes = self.sizes(shape)
        return self.call("Reshape", x, sizes, **({"allowzero": 1} if 0 in fixed else {}))

    def transpose(self, x: str, order: Sequence[int]) -> str:
        return (
            x
            if list(order) == list(range(len(order)))
            else self.call("Transpose", x, perm=list(order))
        )

    def slice(self, x: str, axis: int, start: Size, stop: Size, step: Size = 1) -> str:
        ends = [self.size(value) for value in (start, stop)]
        return self.call("Slice", x, *ends, self.integers([axis]), self.size(step))

    def range(self, count: Size) -> str:
        """0, 1, ... as int64."""
        if isinstance(count, int):
            return self.constant(np.arange(count))
        zero, one = self.number(0, "int64"), self.number(1, "int64")
        return self.call("Range", zero, self.scalar_size(count), one)

    def places(self, shape: Sequence[Size], offset: Size, strides: Sequence[Size]) -> str:
        """The positions of a strided region of memory, as a tensor of its shape."""
        fixed = [value for value in (offset, *shape, *strides) if isinstance(value, int)]
        if len(fixed) == 1 + 2 * len(shape):
            return self.constant(
                _positions(fixed[0], fixed[1 : 1 + len(shape)], fixed[1 + len(shape) :])
            )
        total = self.scalar_size(offset)
        for axis, (size, stride) in enumerate(zip(shape, strides, strict=True)):
            steps = self.call("Mul", self.range(size), self.scalar_size(stride))
            behind = len(shape) - axis - 1
            if behind:
                steps = self.call("Unsqueeze", steps, self.integers(range(1, behind + 1)))
            total = self.call("Add", total, steps)
        return total

    def reduce(self, kind: str, x: str, axes: Sequence[int], keep: bool) -> str:
        """A reduction over axes; over none it is the value."""
        return self.call(
            kind, x, self.integers(axes), keepdims=int(keep), noop_with_empty_axes=int(not axes)
        )

    # -- the end -----------------------------------------------------------------------------------------------------

    def prune(self, outputs: Iterable[str]) -> None:
        """Leave out what no output needs."""
        needed = set(outputs)
        kept = []
        for node in reversed(self.nodes):
            if needed.intersection(node.output):
                kept.append(node)
                needed.update(node.input)
        self.nodes = kept[::-1]
        self.initializers = {
            name: tensor for name, tensor in self.initializers.items() if name in needed
        }


def _positions(offset: int, shape: Sequence[int], strides: Sequence[int]) -> Array:
    total = np.full(shape, offset, np.int64)
    for axis, (size, stride) in enumerate(zip(shape, strides, strict=True)):
        total += (np.arange(size) * stride).reshape(-1, *(1,) * (len(shape) - axis - 1))
    return total


def _tensor(name: str, array: Array, dtype: str) -> TensorProto:
    from onnx import helper

    kind = element_type(dtype)
    if kind is None:
        raise TypeError(dtype)
    return helper.make_tensor(name, kind, array.shape, array.tobytes(), raw=True)
