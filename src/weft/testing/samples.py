"""Points to test every row of the op table at, made from what the row itself declares in `samples`.

An elementwise row declares a domain per operand; the shapes (0-d, empty, of size 1, broadcast) and layouts are the
same for all and defined here. Every other row declares shapes and params. The `Sample`s and their arrays are the same
on every run. Values are spaced apart, so that none is at a kink and no two tie; those of rows that sum or multiply are
short binary fractions, so that every order of the operation gives the same bits. bfloat16, which NumPy lacks, is
carried as float32 rounded to it.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

import numpy as np

from weft.engine.frontend.recorder import SELECT
from weft.engine.ir import dtype as dtypes
from weft.engine.ir.primitive import KIND_NAMES
from weft.testing.reference import round_bfloat16

if TYPE_CHECKING:
    from weft.engine.ir.primitive import Primitive


Shape = tuple[int, ...]
Array = Any

# domain -> (least, greatest) for floats, the magnitude where the sign is free; (least, greatest) for integers
_FLOATS = {
    "real": (-2.4, 2.4),
    "small": (-2.4, 2.4),
    "positive": (0.3, 2.4),
    "unit": (-0.9, 0.9),
    "above_one": (1.2, 2.9),
    "nonzero": (0.3, 2.4),
    "octave": (1.1, 1.9),  # between powers of two
}
_INTEGERS = {
    "real": (-9, 9),
    "small": (-4, 4),
    "positive": (1, 5),
    "unit": (0, 0),
    "above_one": (1, 9),
    "nonzero": (1, 9),
    "octave": (1, 1),
    "integer": (-99, 99),
    "bits": (-2, 9),
    "counter": (0, 1 << 40),
}
_ANY_FLOAT = (0.0, -0.0, 1.0, -1.0, 0.5, -2.5, 3.0, np.inf, -np.inf, np.nan)
_EDGES = {
    "float64": (5e-324, -1e-310, 2.3e-308, 1.7e308),
    "float32": (1e-45, -1e-40, 1.2e-38, 3e38),
    "bfloat16": (1e-40, -1e-39, 1.2e-38, 3e38),
    "float16": (6e-8, -3e-5, 6.2e-5, 65504.0),
}
DOMAINS = ("boolean", *_INTEGERS)
COMPARING = (
    "scatter_maximum",
    "scatter_minimum",
)  # whose operands must not tie, and add nothing up
_SIGNED = ("nonzero",)
_SHAPES: dict[int, tuple[tuple[Shape, ...], ...]] = {
    1: (((3, 4),), ((),), ((0, 3),), ((1,),), ((2, 1, 17),)),
    2: (((3, 4), (3, 4)), ((3, 1), (4,)), ((), (5,)), ((0, 3), (1, 3)), ((2, 1, 3), (1, 4, 1))),
    3: (
        ((3, 4), (3, 4), (3, 4)),
        ((3, 1), (4,), ()),
        ((0, 3), (1, 3), (3,)),
        ((2,), (1, 1), (3, 1)),
    ),
    4: (
        ((3, 4), (3, 4), (3, 4), (3, 4)),
        ((), (), (3, 4), ()),
        ((), (0, 3), (1, 3), (3,)),
        ((2,), (1, 1), (3, 1), ()),
    ),
}
LAYOUTS = ("row-major", "transposed", "stepped", "expanded")
_TOP_SHAPE = ("strided", "gather_rows")  # rows whose result shape is not a function of the params


@dataclass(frozen=True)
class Sample:
    """One application of a row: shapes and domains of the operands, params, the result's shape where it is free, and
    the layout of the operands."""

    shapes: tuple[Shape, ...]
    domains: tuple[str, ...]
    params: Any = None
    shape: Shape | None = None
    layout: str = "row-major"

    def __str__(self) -> str:
        return f"{list(self.shapes)} {self.params} {self.layout}"


def samples(op: Primitive) -> list[Sample]:
    """The samples of a row. Errors: LookupError where it declares none."""
    if not op.domain:
        raise LookupError(f"op {op.name!r} declares no samples")
    if KIND_NAMES[op.kind] == "elementwise":
        return _elementwise(op)
    declared = [_declared(op, entry) for entry in op.domain]
    return declared + [_with_layout(s, "transposed") for s in declared if _transposes(s)]


def _elementwise(op: Primitive) -> list[Sample]:
    unknown = set(op.domain) - set(DOMAINS)
    if unknown or len(op.domain) != len(op.operands):
        raise LookupError(f"op {op.name!r} declares no domain for an operand: {op.domain}")
    domains = tuple(op.domain)
    plain = [Sample(shapes, domains) for shapes in _SHAPES[len(domains)]]
    return plain + [_with_layout(plain[0], layout) for layout in LAYOUTS[1:]]


def _declared(op: Primitive, entry: tuple[Any, ...]) -> Sample:
    shape = entry[-1] if op.name in _TOP_SHAPE else None
    *shapes, params = entry[:-1] if shape is not None else entry
    operands = [op.operands[min(i, len(op.operands) - 1)] for i in range(len(shapes))]
    domains = tuple("index" if name == "index" else _domain(op) for name in operands)
    return Sample(tuple(shapes), domains, params, shape)


_DOMAINS = {
    "prod": "factor",
    "cumprod": "factor",
    "binary_cross_entropy": "share",
    "ndtri": "share",
    "sinc": "nonzero",
    "zeta": "above_one",
}


def _domain(op: Primitive) -> str:
    return _DOMAINS.get(op.name, "real")


def _transposes(sample: Sample) -> bool:
    return any(len(shape) > 1 and 0 not in shape for shape in sample.shapes)


def _with_layout(sample: Sample, layout: str) -> Sample:
    return Sample(sample.shapes, sample.domains, sample.params, sample.shape, layout)


# -- arrays --------------------------------------------------------------------------------------------------------


def points(
    op: Primitive, sample: Sample, dtype: str, seed: int = 0, repeats: bool = True
) -> list[Array]:
    """One array per operand: what the row's operands hold in a type. `repeats` lets indices occur twice."""
    source = np.random.default_rng([seed, *op.name.encode()])
    short = KIND_NAMES[op.kind] not in ("elementwise", "composite") and op.name not in COMPARING
    arrays: list[Array] = []
    for number, (shape, domain) in enumerate(zip(sample.shapes, sample.domains, strict=True)):
        kind = operand_type(op, number, domain, dtype)
        if domain == "special":
            arrays.append(np.resize(special_values(kind), shape))
        elif domain == "index":
            arrays.append(_indices(op, sample, arrays[0].shape, shape, source, repeats))
        elif domain == "factor" or domain == "boolean":
            arrays.append(_chosen(domain, shape, kind, source))
        else:
            arrays.append(_drawn(domain, shape, kind, source, number, short))
    return arrays


def operand_type(op: Primitive, number: int, domain: str, dtype: str) -> str:
    """The type of an operand where the row computes in `dtype`."""
    if domain == "index":
        return "int64"
    return "bool" if op.rule == SELECT and number == 0 else dtype


def special_values(dtype: str) -> Array:
    """Values at which operations differ: infinities, nan, signed zeros, denormals, the ends of the range."""
    if dtype == "bool":
        return np.array([False, True])
    if dtypes.by_name(dtype).category == 1:
        info = np.iinfo(dtype)
        low = [info.min, info.min + 1, -7, -1] if info.min else [0, 1]
        return np.array([*low, 0, 2, 7, info.max - 1, info.max], dtype)
    return rounded([*_ANY_FLOAT, *_EDGES[dtype]], dtype)


def special(op: Any, dtype: str) -> list[Sample]:
    """A sample of an elementwise row where every pair of special values meets."""
    if KIND_NAMES[op.kind] != "elementwise" or dtypes.by_name(dtype).category == 3:
        return []
    if "counter" in op.domain:
        return []
    count = len(special_values(dtype))
    apart: tuple[Shape, ...] = ((count,), (count, 1), (2, 1, 1), (2, 1, 1, 1))
    shapes = apart[: len(op.operands)][::-1]
    return [Sample(shapes, ("special",) * len(shapes))]


def _chosen(domain: str, shape: Shape, dtype: str, source: Any) -> Array:
    if domain == "boolean" and dtype == "bool":
        return source.random(shape) < 0.5
    choices = [0, 1, 1, 2] if domain == "boolean" or _is_integral(dtype) else [0.5, 1.0, -2.0, -0.5]
    return rounded(source.choice(choices, shape), dtype)


def _is_integral(dtype: str) -> bool:
    return dtypes.by_name(dtype).category < 2


def _drawn(domain: str, shape: Shape, dtype: str, source: Any, number: int, short: bool) -> Array:
    if dtype == "bool":
        return source.random(shape) < 0.5
    if _is_integral(dtype):
        return _integers(domain, shape, dtype, source)
    if dtype.startswith("complex"):
        parts = [_reals(domain, shape, source, number, short) for _ in range(2)]
        return (parts[0] + 1j * parts[1]).astype(dtype)
    return rounded(_reals(domain, shape, source, number, short), dtype)


def _integers(domain: str, shape: Shape, dtype: str, source: Any) -> Array:
    low, high = _INTEGERS.get(domain, (0, 1))
    low = max(low, 0) if dtype.startswith("uint") else low
    values = source.integers(low, min(high, np.iinfo(dtype).max), shape, endpoint=True)
    if domain in _SIGNED and not dtype.startswith("uint"):
        values = values * source.choice([-1, 1], shape)
    return np.asarray(values).astype(dtype)


def _reals(domain: str, shape: Shape, source: Any, number: int, short: bool) -> Array:
    """Spaced values in random order; those of different operands interleave."""
    count = int(np.prod(shape, dtype=np.int64))
    if short:
        return source.permutation(np.arange(count) % 16 - 7).reshape(shape) / 4
    low, high = {"share": (0.1, 0.9)}.get(domain) or _FLOATS.get(domain, (-2.4, 2.4))
    steps = (source.permutation(count) + 0.25 + 0.17 * number + 0.1 * source.random(count)) / max(
        count, 1
    )
    values = low + (high - low) * steps.reshape(shape)
    return values * source.choice([-1.0, 1.0], shape) if domain in _SIGNED else values


def _indices(
    op: Primitive, sample: Sample, base: Shape, shape: Shape, source: Any, repeats: bool
) -> Array:
    axis = sample.params[0]
    if op.name.startswith("resample"):  # a tap may point outside
        return source.integers(-1, sample.params[1] + 1, shape)
    size = base[axis]
    if repeats or 0 in shape:
        return source.integers(0, max(size, 1), shape)
    if op.name.startswith("take"):  # every slice is addressed by its own index
        count = int(np.prod(shape, dtype=np.int64))
        return source.permutation(max(size, count))[:count].reshape(shape) % size
    if len(shape) < len(base):  # one of each line
        return source.integers(0, size, shape)
    lines = np.argsort(source.random((*shape[:axis], size, *shape[axis + 1 :])), axis)
    return np.take(lines, range(min(shape[axis], size)), axis)[tuple(map(slice, shape))]


def rounded(values: Array, dtype: str) -> Array:
    """Values in a type; bfloat16 as float32."""
    if dtype == "bfloat16":
        return round_bfloat16(np.asarray(values, np.float32))
    with np.errstate(all="ignore"):
        return np.asarray(values).astype(dtype)


def directions(arrays: list[Array], which: list[int], seed: int = 0) -> list[Array | None]:
    """A direction to move in for the operands in `which`, None for the others."""
    source = np.random.default_rng([77, seed])
    moves: list[Array | None] = []
    for number, array in enumerate(arrays):
        step = np.asarray(source.normal(size=array.shape))
        if array.dtype.kind == "c":
            step = step + 1j * source.normal(size=array.shape)
        moves.append(np.asarray(step, array.dtype) if number in which else None)
    return moves


# -- large samples: enough work for several threads and several blocks ------------------------------------------------

_GRID = (300, 70)
_HEADS = ((2, 4, 150, 20), (2, 2, 90, 20), (2, 2, 90, 40))  # shapes of queries, keys, values
_SCORES, _COTANGENT = (2, 1, 150, 90), (2, 4, 150, 40)
_LARGE: dict[str, tuple[Any, ...]] = {
    "logsumexp": (_GRID, (-1,)),
    "view": (_GRID, (70, 300)),
    "permute": (_GRID, (1, 0)),
    "expand": ((300, 1), (2, 300, 70)),
    "slice": (_GRID, (1, 1, 33, 2)),
    "select": ((2, 300, 70), (0, 1)),
    "unfold": (_GRID, (1, 5, 3)),
    "diagonal": ((70, 300, 70), (0, 0, 2)),
    "flip": (_GRID, (0, 1)),
    "strided": (_GRID, (5, (70, 2)), (299, 30)),
    "put": (_GRID, (299, 30), (5, (70, 2))),
    "cat": (_GRID, (30, 70), _GRID, (0,)),
    "stack": (_GRID, _GRID, _GRID, (0,)),
    "iota": ((_GRID, 0),),
    "gather": (_GRID, (400, 70), (0,)),
    "lstm_memory": ((300, 280), _GRID, None),
    "lstm_output": ((300, 280), _GRID, None),
    "gru": ((300, 210), (300, 210), _GRID, None),
    "cross_entropy": (_GRID, (300,), (-1,)),
    "scatter": ((9, 70), (300, 70), (300, 70), (0,)),
    "scatter_add": ((9, 70), (300, 70), (300, 70), (0,)),
    "scatter_maximum": ((9, 70), (300, 70), (300, 70), (0,)),
    "scatter_product": ((9, 70), (300, 70), (300, 70), (0,)),
    "scatter_minimum": ((9, 70), (300, 70), (300, 70), (0,)),
    "take": (_GRID, (400,), (0,)),
    "take_add": ((9, 70), (300,), _GRID, (0,)),
    "take_put": ((9, 70), (300,), _GRID, (0,)),
    "resample": (_GRID, (3, 400), (3, 400), (0, 300)),
    "resample_transposed": (_GRID, (3, 70), (3, 70), (1, 50)),
    "resample_products": (_GRID, (3, 400), (400, 70), (0, 300)),
    "resample_largest": (_GRID, (3, 400), (0, 300)),
    "matmul": ((90, 300), (300, 70), None),
    "linear": ((90, 300), (70, 300), None),
    "linear_bias": ((90, 300), (70, 300), (70,), None),
    "convolution": ((3, 4, 20, 22), (6, 2, 3, 3), ((1, 2), ((1, 1), (0, 1)), (1, 1), 2)),
    "convolution_bias": ((3, 4, 20, 22), (6, 4, 3, 3), (6,), ((1, 1), ((1, 1), (0, 0)), (2, 1), 1)),
    "picked_log_softmax": (_GRID, (300, 1), (1,)),
    "attention": (*_HEADS, (0.25, True, (0, 2, 1, 3))),
    "attention_masked": (*_HEADS, _SCORES, (0.25, False, (0, 1, 2, 3))),
    "attention_forward": (*_HEADS, (0.25, True, (0, 2, 1, 3))),
    "attention_masked_forward": (*_HEADS, _SCORES, (0.25, False, (0, 1, 2, 3))),
    "attention_backward": (
        _COTANGENT,
        *_HEADS,
        _COTANGENT,
        (2, 4, 150, 2),
        (0.25, True, (0, 2, 1, 3)),
    ),
    "attention_masked_backward": (
        *(_COTANGENT, *_HEADS, _COTANGENT, (2, 4, 150, 2), _SCORES, (0.25, False, (0, 1, 2, 3))),
    ),
    "gelu": (_GRID, "none"),
    "norm": (_GRID, ((1,),)),
    "power_norm": (_GRID, (3.0, (1,))),
    "view_as_real": (_GRID, None),
    "view_as_complex": ((40_000, 2), None),
    "mean": (_GRID, ((1,), False)),
    "clamp": (_GRID, (-0.5, 0.75)),
    "clamp_between": (_GRID, _GRID, _GRID, None),
    "standardize": (_GRID, ((1,), 1e-5)),
    "gather_rows": (_GRID, (70,), ([0, 0, 1] * 150, [3, 299, -1] * 150, None), (450, 70)),
}


def large(op: Any) -> list[Sample]:
    """Samples big enough that threads share the work."""
    kind = KIND_NAMES[op.kind]
    if kind == "elementwise":
        return [Sample((_GRID,) * len(op.operands), tuple(op.domain))]
    if kind == "reduce" or op.name in ("max", "min", "max_all", "min_all", "median"):
        choices = [((1,), False), ((0,), False), ((0, 1), True)]
        return [_declared(op, (_GRID, params)) for params in choices]
    if kind == "collective":
        return [_declared(op, (_GRID, op.domain[0][1]))]
    if op.name == "order":
        return [_declared(op, (_GRID, params)) for params in ((0, 300, True), (1, 9, False))]
    if op.name == "nth_place":
        nth = ((0, 150, 1, False), (1, 9, 0, True), (0, 0, 2, False))
        return [_declared(op, (_GRID, params)) for params in nth]
    if op.name == "running_place":
        return [_declared(op, (_GRID, params)) for params in ((0, True), (1, False))]
    if kind == "scan" and len(op.operands) == 1 or op.name in ("softmax", "log_softmax"):
        return [_declared(op, (_GRID, (axis,))) for axis in (0, 1)]
    function_of_elements = (*((_GRID,) * len(op.operands)), None)
    return [_declared(op, _LARGE.get(op.name, function_of_elements))]


__all__ = [
    "DOMAINS",
    "LAYOUTS",
    "Sample",
    "directions",
    "large",
    "operand_type",
    "points",
    "rounded",
    "samples",
    "special",
]
