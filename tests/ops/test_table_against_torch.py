"""Every row of the op table, under its public name, against PyTorch: values where special values meet, gradients at
kinks and ties, types, strides, promotion, and what is refused."""

from __future__ import annotations

import itertools
import warnings
from collections.abc import Iterator
from typing import Any

import numpy as np
import pytest
from spellings import PRIVATE, SPELLINGS
from table_harness import ALL_OPS, array, kind

import weft
from oracle import torch
from weft.engine.ir import dtype as dtypes
from weft.testing.recording import tensor_of
from weft.testing.samples import Sample, operand_type, points, samples, special

PUBLIC = [op for op in ALL_OPS if op.name in SPELLINGS]
every_op = pytest.mark.parametrize("op", PUBLIC, ids=lambda op: op.name)
# PyTorch only stores the wide unsigned types; tests/array_api has them.
TYPES = [t for t in dtypes.ALL if t.name not in ("uint16", "uint32", "uint64")]
EPS = {"float16": 2e-3, "bfloat16": 1.6e-2, "float32": 2e-6, "complex64": 2e-5}


@pytest.fixture(autouse=True)
def quiet() -> Iterator[None]:
    """What PyTorch warns about is no matter here."""
    with warnings.catch_warnings(), np.errstate(all="ignore"):
        warnings.simplefilter("ignore")
        yield


def test_every_op_has_a_spelling_or_is_private() -> None:
    rows, spelled = {op.name for op in ALL_OPS}, {*SPELLINGS, *PRIVATE}
    assert not rows - spelled, "say in tests/ops/spellings.py what PyTorch calls these, or PRIVATE"
    assert not spelled - rows, "tests/ops/spellings.py names rows that there are not"


def torch_of(ours: Any) -> Any:
    """The same values in the same memory layout in PyTorch."""
    plain = torch.from_numpy(np.array(array(ours), order="C")).to(
        getattr(torch, ours.dtype.name), copy=True
    )
    if 0 in ours.shape or ours.is_contiguous():
        return plain
    room = 1 + sum(s * (n - 1) for s, n in zip(ours.stride(), ours.shape, strict=True))
    out = torch.zeros(room, dtype=plain.dtype).as_strided(tuple(ours.shape), ours.stride())
    whole = tuple(slice(0, 1) if s == 0 else slice(None) for s in ours.stride())
    out[whole].copy_(plain[whole])
    return out


def theirs(tensor: Any) -> Any:
    tensor = tensor.detach()
    if tensor.dtype is torch.bfloat16:
        tensor = tensor.float()
    return tensor.resolve_conj().numpy(force=True)


def spell(lib: Any, op: Any, operands: list[Any], params: Any) -> Any:
    return SPELLINGS[op.name](lib, *operands, params=params)


# An integer by zero ends differently on each machine; NumPy, PyTorch and Weft agree elsewhere (see its own test).
DIVIDES = ("floor_divide", "remainder", "fmod", "trunc_divide", "pow")
# PyTorch has nan where these have a limit at infinity and at denormals, rounds the phase of large waves, is finite at
# some poles, and has no derivatives of most.
BESSEL = ("i0", "i1", "bessel", "modified", "scaled")
ONE_AXIS = ("prod", "argmax", "argmin", "max", "min")


def cases(op: Any, dtype: str) -> list[Sample]:
    """What PyTorch can be asked: one dimension where it reduces one, no integer divided by zero."""
    chosen = samples(op) if dtype == "float32" else samples(op)[:1]
    if op.name in ("complex", "view_as_complex") and dtype == "float16":
        return []  # there is no complex type of float16 parts
    if op.name in ONE_AXIS:
        chosen = [s for s in chosen if len(s.params[0]) == 1]
    edges = special(op, dtype)
    return chosen if op.name in DIVIDES and dtypes.by_name(dtype).category == 1 else chosen + edges


def tensors(op: Any, sample: Sample, dtype: str) -> tuple[list[Any], list[Any]]:
    arrays = points(op, sample, dtype)
    kinds = [operand_type(op, i, domain, dtype) for i, domain in enumerate(sample.domains)]
    ours = [tensor_of(a, k, sample.layout) for a, k in zip(arrays, kinds, strict=True)]
    return ours, [torch_of(t) for t in ours]


def raised(call: Any) -> tuple[Any, Any]:
    """The result, or the class of what was raised."""
    try:
        return call(), None
    except (RuntimeError, TypeError, IndexError, ValueError, NotImplementedError) as error:
        return None, error


def name_of(dtype: Any) -> str:
    return str(dtype).split(".")[-1]


def unlike(ours: Any, other: Any, name: str) -> str:
    if ours.shape != other.shape or ours.dtype != other.dtype:
        return f"{ours.dtype}{list(ours.shape)}, PyTorch {other.dtype}{list(other.shape)}"
    if ours.dtype.kind not in "fc":
        wrong = ours != other
    else:
        eps = EPS.get(name, 1e-9)
        wrong = ~np.isclose(ours, other, eps, eps, equal_nan=True)
    if not np.any(wrong):
        return ""
    place = tuple(int(i[0]) for i in np.nonzero(wrong)) if ours.ndim else ()
    return f"{int(np.sum(wrong))} at {place}: {ours[place]!r}, PyTorch {other[place]!r}"


def compared(op: Any, params: Any, arrays: list[Any], ours: Any, other: Any) -> tuple[Any, Any]:
    """The values to compare: a float beyond the range of an integer type is saturated here, undefined there."""
    if op.name in (
        "fmod",
        "remainder",
    ):  # beyond 2**53 the quotient is no float: nan there, exact here
        with np.errstate(all="ignore"):
            lost = (
                np.isnan(other) & np.isfinite(arrays[0]) & (np.abs(arrays[0] / arrays[1]) > 2.0**53)
            )
        return np.where(lost, 0, ours), np.where(lost, 0, other)
    if op.name.startswith((*BESSEL, "trigamma")):
        size = np.abs(arrays[0].astype(np.float64))
        near = (size < 1e3) & (size > 1e-37) & ((op.name != "trigamma") | (arrays[0] > 0))
        return np.where(near, ours, 0), np.where(near, other, 0)
    if op.name == "gcd":  # of the least integer, whose size is none, PyTorch's has any sign
        return np.abs(ours), np.abs(other)
    if op.name != "cast" or params.category != 1 or arrays[0].dtype.kind in "biu":
        return ours, other
    info = np.iinfo(params.numpy)
    source = arrays[0].real.astype(np.float64)
    inside = (source > float(info.min) - 1) & (source < float(info.max) + (info.max < 2**31))
    return np.where(inside, ours, 0), np.where(inside, other, 0)


def compare(op: Any, sample: Sample, dtype: str, params: Any) -> str:
    """What differs between one call here and in PyTorch; both may refuse."""
    mine, other = tensors(op, sample, dtype)
    ours, problem = raised(lambda: spell(weft, op, mine, params))
    value, problem = raised(lambda: array(ours)) if problem is None else (None, problem)
    wanted, refusal = raised(lambda: spell(torch, op, other, params))
    if problem is not None or refusal is not None:
        same = problem is not None and refusal is not None
        return "" if same else f"{problem!r:.150}, PyTorch {refusal!r:.150}"
    arrays = [array(t) for t in mine]
    text = unlike(*compared(op, params, arrays, value, theirs(wanted)), name_of(ours.dtype))
    if name_of(ours.dtype) != name_of(wanted.dtype):
        return f"{ours.dtype}, PyTorch {wanted.dtype}"
    parts = op.name in ("real", "imag") and "complex" in dtype  # views of the parts there
    if not text and 0 not in wanted.shape and not parts:
        triples = zip(ours.stride(), wanted.stride(), wanted.shape, strict=True)
        if any(a != b and size > 1 for a, b, size in triples):
            return f"strides {ours.stride()}, PyTorch {wanted.stride()}"
    return text


@every_op
def test_values_types_and_strides(op: Any) -> None:
    """In every type, also those that are refused, at every layout, and where special values meet."""
    wrong = []
    for dtype in TYPES:
        for sample in cases(op, dtype.name):
            for params in TYPES if op.name == "cast" else [sample.params]:
                text = compare(op, sample, dtype.name, params)
                if text:
                    wrong.append(f"{dtype.name} {sample} {params}: {text}")
    assert not wrong, "\n".join(wrong)


# -- gradients where they are a convention --------------------------------------------------------------------------


def pulled(lib: Any, result: Any, leaves: list[Any], cotangent: Any) -> list[Any]:
    seed = lib.from_numpy(np.asarray(cotangent)).to(result.dtype)
    return list(lib.autograd.grad(result, leaves, seed, allow_unused=True))


def assert_gradients_agree(function: Any, arrays: list[Any], precision: str = "float64") -> None:
    """`function(library, *tensors)` has the gradients of PyTorch at these points; both may raise."""
    sides = []
    for lib in (weft, torch):
        leaves = [lib.from_numpy(np.array(a, order="C")).clone() for a in arrays]
        tracked = [
            t.requires_grad_() for t in leaves if t.dtype.is_floating_point or t.dtype.is_complex
        ]
        result = function(lib, *leaves)
        shape = tuple(result.shape)
        cotangent = 0.5 + np.arange(int(np.prod(shape))).reshape(shape) % 7 / 4
        value = theirs(result) if lib is torch else array(result)
        if not result.requires_grad:
            sides.append((value, None))
            continue
        sides.append((value, pulled(lib, result, tracked, cotangent)))
    (ours, mine), (wanted, other) = sides
    assert unlike(ours, wanted, "float64") == ""
    assert (mine is None) == (other is None), "only one side tracks gradients"
    for number, (a, b) in enumerate(zip(mine or [], other or [], strict=True)):
        if a is None or b is None:
            left = array(a) if b is None and a is not None else theirs(b) if b is not None else 0
            assert not np.any(left), f"operand {number}: a gradient on one side only"
        else:
            assert unlike(array(a), theirs(b), precision) == "", f"operand {number}"


KINKED = [
    r
    for r in PUBLIC
    if kind(r) == "elementwise" and r.differentiable and "float64" in r.dtypes
    if not r.name.startswith((*BESSEL, "digamma", "trigamma"))
]


@pytest.mark.parametrize("op", KINKED, ids=lambda op: op.name)
def test_gradients_at_special_values(op: Any) -> None:
    """0, -0, infinities, nan, denormals, and all pairs of them, which tie."""
    (sample,) = special(op, "float64")
    arrays = points(op, sample, "float64")
    if op.name in ("fmod", "remainder"):  # see `compared`
        arrays = [np.where(np.abs(a) < 1e300, a, 3.5) for a in arrays]
    if op.name == "mantissa":  # PyTorch's power of two is a float32 there
        arrays = [np.where(np.abs(a) < 1e-38, a * 0, a) for a in arrays]
    params = dtypes.float32 if op.name == "cast" else None
    assert_gradients_agree(lambda lib, *xs: spell(lib, op, list(xs), params), arrays)


def line(*values: float) -> Any:
    return np.array(values)


_TIES = np.array([[1.0, 3.0, 3.0, 2.0], [0.0, 0.0, 0.0, 0.0], [-1.0, -1.0, 2.0, 2.0]])
_HOLES = np.array([[1.0, np.nan, 3.0, np.nan], [np.inf, 1.0, np.inf, 0.0], [-np.inf] * 4])
_EDGES = line(-6.0, -3.0, -1.0, -0.5, -0.0, 0.0, 0.5, 1.0, 3.0, 6.0, np.inf, -np.inf, np.nan)
FUNCTIONS: dict[str, Any] = {
    "relu": lambda lib, x: lib.nn.functional.relu(x),
    "relu6": lambda lib, x: lib.nn.functional.relu6(x),
    "hardtanh": lambda lib, x: lib.nn.functional.hardtanh(x),
    "hardsigmoid": lambda lib, x: lib.nn.functional.hardsigmoid(x),
    "hardswish": lambda lib, x: lib.nn.functional.hardswish(x),
    "hardshrink": lambda lib, x: lib.nn.functional.hardshrink(x),
    "softshrink": lambda lib, x: lib.nn.functional.softshrink(x),
    "threshold": lambda lib, x: lib.nn.functional.threshold(x, 0.5, 2.0),
    "leaky_relu": lambda lib, x: lib.nn.functional.leaky_relu(x, 0.1),
    "elu": lambda lib, x: lib.nn.functional.elu(x),
    "selu": lambda lib, x: lib.nn.functional.selu(x),
    "celu": lambda lib, x: lib.nn.functional.celu(x),
    "softplus": lambda lib, x: lib.nn.functional.softplus(x),
    "softsign": lambda lib, x: lib.nn.functional.softsign(x),
    "logsigmoid": lambda lib, x: lib.nn.functional.logsigmoid(x),
    "silu": lambda lib, x: lib.nn.functional.silu(x),
    "mish": lambda lib, x: lib.nn.functional.mish(x),
    "gelu": lambda lib, x: lib.nn.functional.gelu(x),
    "gelu tanh": lambda lib, x: lib.nn.functional.gelu(x, approximate="tanh"),
    "tanhshrink": lambda lib, x: lib.nn.functional.tanhshrink(x),
    "clamp": lambda lib, x: lib.clamp(x, -1.0, 1.0),
    "clamp crossed": lambda lib, x: lib.clamp(x, 1.0, -1.0),
    "clamp_min": lambda lib, x: lib.clamp_min(x, 0.0),
    "nan_to_num": lambda lib, x: lib.nan_to_num(x),
    "logit": lambda lib, x: lib.logit(x),
    "logit eps": lambda lib, x: lib.logit(x, eps=0.1),
    "angle": lambda lib, x: lib.angle(x),
    "frac": lambda lib, x: lib.frac(x),
    "masked log": lambda lib, x: lib.where(x > 0, lib.log(x), 0.0),
    "x ** 0": lambda lib, x: x**0,
    "x ** 1": lambda lib, x: x**1,
    "x ** 2": lambda lib, x: x**2,
    "x ** 3": lambda lib, x: x**3,
    "x ** 0.5": lambda lib, x: x**0.5,
    "x ** -1": lambda lib, x: x**-1,
    "x ** -2": lambda lib, x: x**-2,
    "x ** 2.5": lambda lib, x: x**2.5,
    "2 ** x": lambda lib, x: 2.0**x,
    "0 ** x": lambda lib, x: 0.0**x,
    "xlogy": lambda lib, x: lib.xlogy(x, x),
}
REDUCTIONS: dict[str, Any] = {
    "max": lambda lib, x: lib.max(x),
    "min": lambda lib, x: lib.min(x),
    "max dim": lambda lib, x: lib.max(x, 1).values,
    "min dim": lambda lib, x: lib.min(x, 1).values,
    "amax": lambda lib, x: lib.amax(x, 1),
    "amin": lambda lib, x: lib.amin(x, (0, 1)),
    "median": lambda lib, x: lib.median(x),
    "median dim": lambda lib, x: lib.median(x, 1).values,
    "kthvalue": lambda lib, x: lib.kthvalue(x, 2, 1).values,
    "topk": lambda lib, x: lib.topk(x + lib.arange(4) * 1e-9, 2, 1).values,  # among equals: any
    "sort": lambda lib, x: lib.sort(x, dim=1, stable=True).values,
    "cummax": lambda lib, x: lib.cummax(x, 1).values,
    "cummin": lambda lib, x: lib.cummin(x, 1).values,
    "prod": lambda lib, x: lib.prod(x, 1),
    "prod all": lambda lib, x: lib.prod(x),
    "cumprod": lambda lib, x: lib.cumprod(x, 1),
    "std": lambda lib, x: lib.std(x, 1),
    "var": lambda lib, x: lib.var(x, 1),
    "logsumexp": lambda lib, x: lib.logsumexp(x, 1),
    "softmax": lambda lib, x: lib.softmax(x, 1),
    "log_softmax": lambda lib, x: lib.log_softmax(x, 1),
    "norm 2": lambda lib, x: lib.linalg.vector_norm(x, 2, 1),
    "norm 1": lambda lib, x: lib.linalg.vector_norm(x, 1, 1),
    "norm 3": lambda lib, x: lib.linalg.vector_norm(x, 3, 1),
    "norm 0.5": lambda lib, x: lib.linalg.vector_norm(x, 0.5, 1),
    "norm inf": lambda lib, x: lib.linalg.vector_norm(x, float("inf"), 1),
    "norm -inf": lambda lib, x: lib.linalg.vector_norm(x, -float("inf"), 1),
    "normalize": lambda lib, x: lib.nn.functional.normalize(x),
    "max_pool1d": lambda lib, x: lib.nn.functional.max_pool1d(x, 2, 1),
    "layer_norm": lambda lib, x: lib.nn.functional.layer_norm(x, (4,)),
    "nanmean": lambda lib, x: lib.nanmean(x, 1),
}
PAIRS: dict[str, Any] = {
    "hypot": lambda lib, x, y: lib.hypot(x, y),
    "logaddexp": lambda lib, x, y: lib.logaddexp(x, y),
    "xlogy": lambda lib, x, y: lib.xlogy(x, y),
    "copysign": lambda lib, x, y: lib.copysign(x, y),
    "fmax": lambda lib, x, y: lib.fmax(x, y),
    "fmin": lambda lib, x, y: lib.fmin(x, y),
    "prelu": lambda lib, x, y: lib.nn.functional.prelu(x, lib.ones(1, dtype=lib.float64) * 0.25),
    "l1": lambda lib, x, y: lib.nn.functional.l1_loss(x, y + 0 * x, reduction="none"),
    "smooth_l1": lambda lib, x, y: lib.nn.functional.smooth_l1_loss(x, y + 0 * x, reduction="none"),
    "huber": lambda lib, x, y: lib.nn.functional.huber_loss(x, y + 0 * x, reduction="none"),
    "margin": lambda lib, x, y: lib.nn.functional.margin_ranking_loss(
        x + 0 * y, y + 0 * x, lib.ones(1, 1, dtype=lib.float64), reduction="none"
    ),
    "clamp tensors": lambda lib, x, y: lib.clamp(x, y, y + 1),
    "lerp": lambda lib, x, y: lib.lerp(x, y, 0.25),
    "where": lambda lib, x, y: lib.where(x > y, x, y),
}


@pytest.mark.parametrize("name", FUNCTIONS)
def test_gradients_at_kinks(name: str) -> None:
    finite = name in ("hardswish", "hardsigmoid")  # slopes at nan there that no formula has
    edges = _EDGES[:12] if finite else _EDGES
    edges = edges + 0.0 if name.startswith("logit") else edges  # inf on both sides of 0 there
    precision = "float32" if name == "hardsigmoid" else "float64"  # 1/6 is a float32 constant there
    assert_gradients_agree(FUNCTIONS[name], [edges], precision)


# Where PyTorch's own formula loses to an infinity what it divides by, or picks among equals as its search happens to.
_TIES_ONLY = ("cumprod", "var", "norm 0.5", "topk")
_FINITE = ("l1", "smooth_l1", "huber", "margin", "copysign", "clamp tensors")


@pytest.mark.parametrize("name", REDUCTIONS)
def test_gradients_of_reductions_at_ties(name: str) -> None:
    assert_gradients_agree(REDUCTIONS[name], [_TIES])
    if name not in _TIES_ONLY:
        assert_gradients_agree(REDUCTIONS[name], [_HOLES])


@pytest.mark.parametrize("name", PAIRS)
def test_gradients_of_pairs_at_kinks(name: str) -> None:
    edges = _EDGES[:10] if name in _FINITE else _EDGES
    assert_gradients_agree(PAIRS[name], [edges.reshape(-1, 1), edges])


# -- promotion --------------------------------------------------------------------------------------------------------

BINARY = [
    r for r in PUBLIC if kind(r) == "elementwise" and len(r.operands) == 2 and r.name != "complex"
]
NUMBERS = (True, 3, 1.5, 2j)


def operand_pairs() -> Iterator[tuple[str, Any]]:
    """What to combine: a vector of each type with a vector, a 0-d tensor and a number of every type."""
    for first, second in itertools.product(TYPES, TYPES):
        for shape in ((2,), ()):
            yield (
                f"{first.name}[2], {second.name}{list(shape)}",
                lambda lib, a=first.name, b=second.name, shape=shape: (
                    lib.ones(2, dtype=getattr(lib, a)),
                    lib.ones(shape, dtype=getattr(lib, b)),
                ),
            )
    for first, number in itertools.product(TYPES, NUMBERS):
        yield (
            f"{first.name}[2], {number!r}",
            lambda lib, a=first.name, n=number: (lib.ones(2, dtype=getattr(lib, a)), n),
        )


COMBINATIONS = list(operand_pairs())
# There is no complex type of float16 parts; the default one takes its place.
HALF_COMPLEX = ("float16[2], complex64[]", "float16[2], complex128[]", "float16[2], 2j")
# Where PyTorch's variant for a number and that for a tensor do not agree on bool.
LEFT_OUT = {name: ("bool[2], True",) for name in ("pow", "clamp_min", "clamp_max")}


@pytest.mark.parametrize("op", BINARY, ids=lambda op: op.name)
def test_the_type_of_a_result_is_that_of_pytorch(op: Any) -> None:
    """Nothing runs here: types are known at the call, and so is what is refused."""
    wrong = []
    for name, make in COMBINATIONS:
        if name in LEFT_OUT.get(op.name, ()) or name in HALF_COMPLEX:
            continue
        ours, problem = raised(lambda make=make: spell(weft, op, list(make(weft)), None))
        wanted, refusal = raised(lambda make=make: spell(torch, op, list(make(torch)), None))
        if "must be Tensor" in str(refusal):
            continue  # a number is taken here where PyTorch wants a tensor
        if (problem is None) != (refusal is None):
            wrong.append(f"{name}: {problem!r:.90}, PyTorch {refusal!r:.90}")
        elif problem is None and name_of(ours.dtype) != name_of(wanted.dtype):
            wrong.append(f"{name}: {ours.dtype}, PyTorch {wanted.dtype}")
    assert not wrong, f"{len(wrong)}\n" + "\n".join(wrong[:12])
