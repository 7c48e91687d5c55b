"""Every row of the op table: its kernels against its NumPy meaning, its derivatives against differences, its forward
bits whatever way it runs, and what its handle says about shape, type and strides."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest
from table_harness import (
    ALL_OPS,
    array,
    difference,
    expected,
    inner,
    kind,
    laid,
    running,
    slope,
    tensors_of,
    twice_negated,
)

import weft
from weft.debug import stages
from weft.engine.ir import dtype as dtypes
from weft.ops import OPS
from weft.ops.registry import JVP_KINDS, define, not_differentiable
from weft.testing.recording import COMPOSITES, apply, tensor_of
from weft.testing.reference import meaning
from weft.testing.samples import directions, large, points, samples, special

every_op = pytest.mark.parametrize("op", ALL_OPS, ids=lambda op: op.name)


@every_op
def test_kernels_compute_the_numpy_meaning(op: Any) -> None:
    """In every type that the row takes, and where special values meet; in two types at every shape and layout."""
    cases = []
    for dtype in op.dtypes:
        chosen = samples(op) if dtype in ("float32", op.dtypes[0]) else samples(op)[:1]
        for sample in [*chosen, *special(op, dtype)]:
            arrays = points(op, sample, dtype)
            tensors = tensors_of(op, sample, arrays, dtype)
            for params in dtypes.ALL if op.name == "cast" else [sample.params]:
                result = apply(op, tensors, params, sample.shape)
                cases.append((dtype, sample, arrays, params, result))
    wrong = []
    for dtype, sample, arrays, params, result in cases:
        wanted = expected(op, sample, arrays, params, dtype, result)
        problem = difference(array(result), wanted, op, dtype) or told_wrong(result)
        if problem:
            wrong.append(f"{dtype} {sample} {params}: {problem}{_operands(arrays)}")
    assert not wrong, "\n".join(wrong)


def _operands(arrays: list[Any]) -> str:
    """The operands of a wrong result, for its message, where they are few."""
    few = [a for a in arrays if a is not None and a.size <= 20]
    return "".join(f"\n    of {np.array2string(a, max_line_width=200)}" for a in few)


def told_wrong(result: Any) -> str:
    """Where a handle's shape, type or strides differ from those of its value."""
    shape, strides, dtype = tuple(result.shape), result.stride(), result.dtype
    if dtype.numpy is None:
        return ""
    value = result.detach().numpy()
    if value.shape != shape or value.dtype != dtype.numpy:
        return f"{value.dtype}{list(value.shape)}, said to be {dtype}{list(shape)}"
    if 0 in shape:
        return ""
    steps = [s // dtype.itemsize for s in value.strides]
    pairs = zip(steps, strides, shape, strict=True)
    return "" if all(a == b or n == 1 for a, b, n in pairs) else f"{steps}, said to be {strides}"


# -- derivatives ---------------------------------------------------------------------------------------------------

INEXACT = [
    pytest.param(op, dtype, id=f"{op.name}-{dtype}")
    for op in ALL_OPS
    for dtype in ("float64", "complex128")
    if op.differentiable and dtype in op.dtypes
]
STEPPED = ("trunc_divide", "remainder", "fmod")  # they jump where the quotient is whole
TIED = ("maximum", "minimum")
LIMIT = 2e-8  # of differences of order 4 with the step 2**-11, relative


def smooth_samples(op: Any, dtype: str = "float64") -> list[Any]:
    """Every shape and layout in float64, two in complex128."""
    chosen = [s for s in samples(op) if not any(0 in shape for shape in s.shapes)]
    return chosen if dtype == "float64" else [chosen[0], chosen[-1]]


def differentiable_operands(op: Any, sample: Any) -> list[int]:
    last = len(op.vjps) - 1
    return [i for i in range(len(sample.shapes)) if op.vjps[min(i, last)] is not None]


def held_at_jumps(arrays: list[Any], moves: list[Any]) -> list[Any]:
    """Directions that leave a quotient alone where it is about to pass a whole number."""
    quotient = arrays[0] / arrays[1]
    return held(np.abs(quotient - np.round(quotient)) < 0.05, moves)


def held_at_ties(arrays: list[Any], moves: list[Any]) -> list[Any]:
    """Directions that leave two operands alone where they are almost equal."""
    return held(np.abs(arrays[0] - arrays[1]) < 0.01, moves)


def held(near: Any, moves: list[Any]) -> list[Any]:
    """Directions that are zero for each element of an operand that takes part where a result is near something."""
    return [v * ~_taking_part(near, v.shape) for v in moves]


def _taking_part(near: Any, shape: tuple[int, ...]) -> Any:
    near = near.any(axis=tuple(range(near.ndim - len(shape))))
    spread = tuple(i for i, size in enumerate(shape) if size != near.shape[i])
    return near.any(axis=spread, keepdims=True)


class Point:
    """A row at a point: tensors, its result, and directions to move in."""

    def __init__(self, op: Any, sample: Any, dtype: str) -> None:
        self.op, self.sample, self.dtype = op, sample, dtype
        self.which = differentiable_operands(op, sample)
        self.arrays = laid(points(op, sample, dtype, repeats=False), sample.layout)
        moves = directions(self.arrays, self.which)
        if op.name in STEPPED:
            moves = held_at_jumps(self.arrays, moves)
        if op.name in TIED:
            moves = held_at_ties(self.arrays, moves)
        self.directions = laid(moves, sample.layout)

    def at(self, arrays: list[Any]) -> tuple[list[Any], Any]:
        """The leaves, and the row applied to them."""
        tensors = tensors_of(self.op, self.sample, arrays, self.dtype)
        leaves = [tensors[i].detach().requires_grad_() for i in self.which]
        for number, leaf in zip(self.which, leaves, strict=True):
            tensors[number] = leaf
        return leaves, apply(self.op, tensors, self._params(), self.sample.shape)

    def _params(self) -> Any:
        return dtypes.by_name(self.dtype) if self.op.name == "cast" else self.sample.params

    def value(self, arrays: list[Any]) -> list[Any]:
        return [self.at(arrays)[1]]

    def pulled(self, arrays: list[Any], cotangent: Any) -> tuple[list[Any], list[Any]]:
        """The leaves and the cotangent, and the gradients, which can be differentiated."""
        leaves, result = self.at(arrays)
        seed = weft.from_numpy(np.asarray(cotangent)).clone().requires_grad_()
        return [*leaves, seed], gradients(result, leaves, seed)


def gradients(result: Any, leaves: list[Any], seed: Any) -> list[Any]:
    return list(
        weft.autograd.grad(
            result, leaves, seed, create_graph=True, allow_unused=True, materialize_grads=True
        )
    )


def assert_equal_slopes(pairs: list[tuple[str, float, float]]) -> None:
    wrong = [
        f"{where}: {ours!r}, not {theirs!r}"
        for where, ours, theirs in pairs
        if not abs(ours - theirs) <= LIMIT * (1 + abs(theirs))
    ]
    assert not wrong, "\n".join(wrong)


@pytest.mark.parametrize(("op", "dtype"), INEXACT)
def test_first_derivatives_agree_with_differences(op: Any, dtype: str) -> None:
    """<u, J v> from the pulled cotangent, and from central differences."""
    pairs = []
    for sample in smooth_samples(op, dtype):
        point = Point(op, sample, dtype)
        leaves, result = point.at(point.arrays)
        cotangent = directions([array(result)], [0], seed=1)[0]
        pulled = gradients(result, leaves, weft.from_numpy(cotangent))
        ours = sum(
            inner(array(g), point.directions[i]) for i, g in zip(point.which, pulled, strict=True)
        )
        moves = slope(point.value, point.arrays, point.directions)[0]
        pairs.append((str(sample), ours, inner(cotangent, moves)))
    assert_equal_slopes(pairs)


@pytest.mark.parametrize(("op", "dtype"), INEXACT)
def test_second_derivatives_agree_with_differences(op: Any, dtype: str) -> None:
    """The pulled cotangent as a function of point and cotangent, pulled again, and differences of it."""
    pairs = []
    for sample in smooth_samples(op)[:2]:
        point = Point(op, sample, dtype)
        cotangent = directions([array(point.value(point.arrays)[0])], [0], seed=1)[0]
        leaves, pulled = point.pulled(point.arrays, cotangent)
        weights = directions([array(g) for g in pulled], list(range(len(pulled))), seed=2)
        assert all(g.requires_grad for g in pulled)
        again = weft.autograd.grad(
            pulled,
            leaves,
            [weft.from_numpy(w) for w in weights],
            allow_unused=True,
            materialize_grads=True,
        )
        move = directions([cotangent], [0], seed=3)[0]
        toward = [point.directions[i] for i in point.which] + [move]
        ours = sum(inner(array(h), v) for h, v in zip(again, toward, strict=True))
        changes = slope(
            lambda arrays, point=point: point.pulled(arrays[:-1], arrays[-1])[1],
            [*point.arrays, cotangent],
            [*point.directions, move],
        )
        theirs = sum(inner(w, change) for w, change in zip(weights, changes, strict=True))
        pairs.append((str(sample), ours, theirs))
    assert_equal_slopes(pairs)


@every_op
def test_what_has_no_derivative_says_why_and_records_none(op: Any) -> None:
    if op.differentiable:
        assert any(op.vjps) and op.why == ""
        return
    assert op.why and not any(op.vjps)
    if "float32" in op.dtypes:
        sample = samples(op)[0]
        tensors = tensors_of(op, sample, points(op, sample, "float32"), "float32")
        leaves = [t.requires_grad_() if t.dtype.is_floating_point else t for t in tensors]
        assert not apply(op, leaves, sample.params, sample.shape).requires_grad


def pushed(point: Point) -> Any:
    """The derivative along the point's direction, as the row's `jvp_kind` says that it is made."""
    op, arrays, moves = point.op, point.arrays, point.directions
    if op.jvp_kind == "linear":
        return array(
            point.value([a if v is None else v for a, v in zip(arrays, moves, strict=True)])[0]
        )
    if op.jvp_kind == "multilinear":
        terms = [[*arrays[:i], moves[i], *arrays[i + 1 :]] for i in point.which]
        return sum(array(point.value(term)[0]) for term in terms)
    leaves, result = point.at(arrays)
    if op.jvp_kind == "diagonal":
        seeds = [tensor_of(moves[i], point.dtype) for i in point.which]
        pairs = zip(leaves, seeds, strict=True)
        return sum(array(gradients(result, [leaf], seed)[0]) for leaf, seed in pairs)
    dtype = result.dtype.name if result.dtype.is_complex else point.dtype
    seed = tensor_of(np.zeros(result.shape), dtype).requires_grad_()
    pulled = gradients(result, leaves, seed)
    along = [tensor_of(moves[i], point.dtype) for i in point.which]
    return array(weft.autograd.grad(pulled, seed, along)[0])


@every_op
def test_the_declared_push_is_the_derivative_along_a_direction(op: Any) -> None:
    """A diagonal row pushes as it pulls, a linear one by itself, a multilinear one by a term per operand, and every
    other by its pull, which is linear in the cotangent, pulled again."""
    if not op.differentiable or "float64" not in op.dtypes:
        return
    for sample in smooth_samples(op)[:2]:
        point = Point(op, sample, "float64")
        if op.jvp_kind == "diagonal" and len(set(sample.shapes)) > 1:
            continue  # broadcasting is undone by the walk
        wanted = slope(point.value, point.arrays, point.directions)[0]
        np.testing.assert_allclose(
            pushed(point), wanted, rtol=LIMIT, atol=LIMIT, err_msg=str(sample)
        )


# -- the same bits, whatever way ------------------------------------------------------------------------------------


def in_a_chain(
    op: Any, sample: Any, dtype: str, seed: int, share: Any = None, keep: Any = None
) -> Any:
    """The row between operations that may go into its kernel. `share` are operands of another example to use where
    the row batches over one shared value."""
    tensors = tensors_of(op, sample, points(op, sample, dtype, seed), dtype)
    for number, tensor in enumerate(tensors):
        if share is not None and role(op, number) != "b":
            tensors[number] = share[number]
        elif sample.domains[number] != "index":
            tensors[number] = twice_negated(tensor)
    result = apply(op, tensors, chain_params(op, sample), sample.shape)
    outcome = twice_negated(result)
    if keep is not None:
        keep.extend([*tensors, result])
    return tensors, outcome


def role(op: Any, number: int) -> str:
    return op.batch_operands[min(number, len(op.batch_operands) - 1)] if op.operands else "b"


def chain_params(op: Any, sample: Any) -> Any:
    return dtypes.float64 if op.name == "cast" else sample.params


def chain_type(op: Any) -> str:
    known = (d for d in ("float32", "int64", "bool", "complex64") if d in op.dtypes)
    return next(known, op.dtypes[0])


WAYS: dict[str, dict[str, Any]] = {
    "known": {},
    "unfused": {"fused": False},
    "2 threads": {"threads": 2},
    "fresh memory": {"reuse": False},
    "eager": {"eager": True},
    "unbatched": {"batched": False},
}


@every_op
def test_forward_values_are_the_same_bits_whatever_way_they_run(op: Any) -> None:
    dtype = chain_type(op)
    chosen = [s for s in samples(op) if 0 not in (n for shape in s.shapes for n in shape)]
    for sample in [*chosen[:1], *large(op)]:
        with running():
            wanted = array(in_a_chain(op, sample, dtype, 0)[1])
        for name, way in WAYS.items():
            with running(**way):
                assert_same_bits(array(in_a_chain(op, sample, dtype, 0)[1]), wanted, name)
        kept: list[Any] = []
        outcome = in_a_chain(op, sample, dtype, 0, keep=kept)[1]
        assert_same_bits(array(outcome), wanted, "handles kept")
        for tensor in kept:
            array(tensor)
        kept = []
        outcome = in_a_chain(op, sample, dtype, 0, keep=kept)[1]
        array(kept[-1])
        assert_same_bits(array(outcome), wanted, "read before")


def assert_same_bits(ours: Any, theirs: Any, name: str) -> None:
    assert ours.shape == theirs.shape and ours.dtype == theirs.dtype
    assert ours.tobytes() == theirs.tobytes(), name


@every_op
def test_examples_in_a_batch_are_the_same_bits_as_alone(op: Any) -> None:
    """Eight examples recorded one after the other and run together, against each one alone."""
    examples = range(8)  # elementwise operations that read nothing batched need so many
    dtype, grouped = chain_type(op), False
    for sample in [s for s in samples(op) if 0 not in (n for x in s.shapes for n in x)][:3]:
        share = shared_operands(op, sample, dtype)
        with running(batched=False):
            alone = [array(in_a_chain(op, sample, dtype, seed, share)[1]) for seed in examples]
        together: list[Any] = []

        def record(sample: Any = sample, share: Any = share, together: Any = together) -> Any:
            together.extend(in_a_chain(op, sample, dtype, seed, share)[1] for seed in examples)
            return together

        lines = stages(record)["batch"].splitlines()
        grouped |= any(line.startswith(f"{op.name} x 8 ") for line in lines)
        for one, other in zip(together, alone, strict=True):
            assert_same_bits(array(one), other, str(sample))
    assert grouped == joins_batches(op)


def shared_operands(op: Any, sample: Any, dtype: str) -> Any:
    share = tensors_of(op, sample, points(op, sample, dtype, 9), dtype)
    weft.realize(*share)
    return share


def joins_batches(op: Any) -> bool:
    """Rows of one value, sources and gradient records have nothing to group."""
    return op.batchable and kind(op) not in ("source", "composite")


# -- strides ---------------------------------------------------------------------------------------------------------


@pytest.mark.parametrize("op", [r for r in ALL_OPS if kind(r) == "view"], ids=lambda op: op.name)
def test_the_strides_of_a_view_lead_to_its_elements(op: Any) -> None:
    """Offset and strides over the operand's memory, against the NumPy meaning."""
    for sample in samples(op):
        (x,) = points(op, sample, "int64")
        x = np.arange(x.size).reshape(x.shape)
        wanted = meaning(op, [x], sample.params, sample.shape, dtypes.int64)
        steps = tuple(s // 8 for s in x.strides)
        strides, offset = op.strides(sample.params, x.shape, steps, 0)
        shape = sample.shape or op.shape(sample.params, x.shape)
        assert tuple(shape) == wanted.shape
        places = sum(
            (
                np.arange(n).reshape(-1, *[1] * (len(shape) - i - 1)) * s
                for i, (n, s) in enumerate(zip(shape, strides, strict=True))
            ),
            offset,
        )
        np.testing.assert_array_equal(x.reshape(-1)[np.broadcast_to(places, shape)], wanted)


# -- the record ------------------------------------------------------------------------------------------------------


def test_a_row_with_a_hole_is_refused() -> None:
    complete = {
        "kind": "reduce",
        "operands": "self",
        "reference": np.sum,
        "vjp": not_differentiable("a test"),
        "domain": [((2,), None)],
        "shape": lambda p, shape: (),
        "lower": "sum",
    }
    for hole, value, text in (
        ("domain", [], "has no domain"),
        ("shape", None, "has no shape"),
        ("lower", None, "has no lower"),
        ("dtypes", "real", "categories or names"),
        ("jvp_kind", "sideways", "jvp_kind is one of"),
        ("kind", "view", "has no strides"),
        ("vjp", {"slef": lambda g: g}, "derivatives of .'slef'."),
        ("vjp", {"self": lambda cotangent: cotangent}, "parameters of a derivative is g"),
        ("vjp", {"self": lambda g, other: g}, "other"),
    ):
        with pytest.raises((TypeError, KeyError), match=text):
            define("a_row_of_a_test", **{**complete, hole: value})
    with pytest.raises(TypeError, match="defined twice"):
        define("sum", **complete)
    assert "a_row_of_a_test" not in OPS


def test_samples_cover_every_op_and_nothing_is_declared_in_vain() -> None:
    for op in ALL_OPS:
        assert samples(op) and large(op) and op.dtypes, op.name
        assert op.jvp_kind in JVP_KINDS and len(op.batch_operands) == len(op.operands)
    assert set(COMPOSITES) == {op.name for op in ALL_OPS if kind(op) == "composite"}
