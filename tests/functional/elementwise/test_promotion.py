"""What types of operands binary functions and operators take, and what type comes out: everything as in PyTorch."""

from __future__ import annotations

import operator
import warnings
from collections.abc import Callable
from typing import Any

import pytest

import weft
from functional_oracle import compare, make
from oracle import torch

TYPES = ["bool", "uint8", "int8", "int16", "int32", "int64", "float16", "bfloat16"]
TYPES += ["float32", "float64", "complex64", "complex128"]
NUMBERS = (True, False, 3, -3, 2.5, 1j, 300, 2**40, 2**62)
FUNCTIONS = (
    "add sub mul div true_divide floor_divide remainder fmod pow maximum minimum fmax fmin atan2 hypot logical_and "
    "logical_or logical_xor bitwise_and bitwise_or bitwise_xor bitwise_left_shift bitwise_right_shift "
    "eq ne lt le gt ge rsub subtract multiply divide logaddexp logaddexp2 copysign xlogy float_power heaviside "
    "ldexp isclose"
)
IN_PLACE = "add sub mul div remainder fmod pow floor_divide logical_and bitwise_and atan2 copysign lt hypot"
OPERATORS = "add sub mul truediv floordiv mod pow and_ or_ xor lshift rshift eq ne lt le gt ge"
AUGMENTED = "iadd isub imul itruediv ifloordiv imod ipow iand ior ixor ilshift irshift"

Call = Callable[[Any, Any, Any], Any]


def _operator(name: str) -> Call:
    function = getattr(operator, name)
    return lambda lib, a, b: function(a, b)


CALLS: dict[str, Call] = {
    name: (lambda lib, a, b, name=name: getattr(lib, name)(a, b)) for name in FUNCTIONS.split()
}
CALLS.update(
    {
        f"{name}_": (lambda lib, a, b, name=name: getattr(a, f"{name}_")(b))
        for name in IN_PLACE.split()
    }
)
CALLS.update(
    {f"operator.{name}": _operator(name) for name in (*OPERATORS.split(), *AUGMENTED.split())}
)


def operands() -> list[tuple[str, Any]]:
    """Vectors and 0-d tensors of every type, and numbers."""
    tensors = [(kind, name) for kind in ("vector", "scalar") for name in TYPES]
    return [*tensors, *(("number", number) for number in NUMBERS)]


def made(lib: Any, operand: tuple[str, Any]) -> Any:
    """One operand: of ones, so that no integer is divided by 0."""
    kind, what = operand
    if kind == "number":
        return what
    return lib.ones((2,) if kind == "vector" else (), dtype=getattr(lib, what))


def outcome(lib: Any, call: Call, a: tuple[str, Any], b: tuple[str, Any]) -> str:
    """The type and shape of the result, or that the operands are refused."""
    try:
        result = call(lib, made(lib, a), made(lib, b))
    except (RuntimeError, TypeError, ValueError):
        return "refused"
    # PyTorch's complex32 has no counterpart; half with complex makes complex64 here.
    name = str(result.dtype).split(".")[-1].replace("complex32", "complex64")
    return f"{name}{list(result.shape)}"


def asked(name: str, a: tuple[str, Any], b: tuple[str, Any]) -> bool:
    """Whether a combination means something: a tensor at least, of numbers in place only second ones."""
    if a[0] == "number" and (
        b[0] == "number" or name.endswith("_") or name[9:] in AUGMENTED.split()
    ):
        return False
    both = {a[1], b[1]}
    return not ("float16" in both and both & {"complex64", "complex128", 1j})  # complex32 there


@pytest.mark.parametrize("name", CALLS)
def test_types_of_operands_and_results(name: str) -> None:
    call = CALLS[name]
    wrong = []
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")
        for a in operands():
            for b in operands():
                if not asked(name, a, b):
                    continue
                ours, theirs = outcome(weft, call, a, b), outcome(torch, call, a, b)
                if ours != theirs:
                    wrong.append((a, b, ours, theirs))
    assert not wrong, f"{len(wrong)}: {wrong[:5]}"


MESSAGES: dict[str, Any] = {
    "a bool less": (lambda: 1 - weft.tensor([True]), "(?s)bool tensor is not supported.*fix"),
    "less a bool": (lambda: weft.ones(2).sub(True), "(?s)bool tensor is not supported.*fix"),
    "less a bool, in place": (lambda: weft.ones(2).sub_(weft.tensor(True)), "bool tensor"),
    "divisor beyond the type": (
        lambda: weft.ones(2, dtype=weft.int8) // 2**40,
        "(?s)ZeroDivisionError.*fix",
    ),
    "power beyond the type": (
        lambda: weft.ones(2, dtype=weft.int8) ** 300,
        "(?s)cannot be converted to type int8_t without overflow.*fix",
    ),
    "maximum of a number": (
        lambda: weft.maximum(weft.ones(2), 1),
        "(?s)must be Tensor, not int.*fix",
    ),
    "number compared by function": (lambda: weft.eq(1, weft.ones(2)), "must be Tensor, not int"),
}


@pytest.mark.parametrize("name", MESSAGES)
def test_what_is_refused_says_why(name: str) -> None:
    call, text = MESSAGES[name]
    with pytest.raises((RuntimeError, TypeError), match=text):
        call()


def test_powers_of_bools_and_shifts_of_numbers() -> None:
    mask = weft.tensor([True, False])
    assert (mask**True).tolist() == [True, False] and (mask**False).tolist() == [True, True]
    counts = weft.tensor([0, 1, 3])
    assert (3 << counts).tolist() == [3, 6, 24] and (24 >> counts).tolist() == [24, 12, 3]
    counts <<= 1
    assert counts.tolist() == [0, 2, 6]
    alias = counts
    counts >>= weft.tensor(1)
    assert alias.tolist() == [0, 1, 3]


def test_a_shifted_sum_in_place_reads_the_old_values() -> None:
    """PyTorch refuses operands that overlap in part; here the result is that of a copy."""
    x = weft.arange(5.0)
    x[1:] += x[:-1]
    assert x.tolist() == [0.0, 1.0, 3.0, 5.0, 7.0]


def _half_means(lib: Any, x: Any) -> Any:
    leaf = x.half().requires_grad_()
    leaf.expand(1025, 100).mul(leaf.new_full((1025, 100), 100)).mean().backward()
    return leaf.grad


HALVES: dict[str, Any] = {
    "loss scale": lambda lib, x: x.half() * 65536 / 65536.0,
    "scaled from the left": lambda lib, x: 1e5 * x.half() * 1e-5 + 2e-5 * x.half(),
    "of a view": lambda lib, x: x.half()[::2].t().div(2**20).mul(2**20),
    "comparison": lambda lib, x: (x.half() / 0 < 70000) | (x.half() > 1e-9),
    "gradient": _half_means,
}


@pytest.mark.parametrize("name", HALVES)
def test_numbers_outside_the_range_of_float16(name: str) -> None:
    """They take part as float32, as in PyTorch: only the result has to fit."""
    x = make(1, 1, low=0.375, high=0.375) if name == "gradient" else make(4, 5) * 0.4
    compare(lambda lib, x: HALVES[name](lib, x.detach()), x, tolerance=2e-3)


ALPHAS = {
    "complex": (
        lambda lib, name: getattr(lib, name)(lib.ones(2), lib.ones(2), alpha=1j),
        "complex",
    ),
    "true of floats": (
        lambda lib, name: getattr(lib, name)(lib.ones(2), lib.ones(2), alpha=True),
        "Boolean alpha",
    ),
    "true of numbers": (
        lambda lib, name: getattr(lib, name)(lib.tensor(1), 1, alpha=True),
        "Boolean alpha",
    ),
    "a fraction of integers": (
        lambda lib, name: getattr(lib, name)(lib.tensor([1]), lib.tensor([2]), alpha=1.5),
        "must not be a floating point number",
    ),
}


@pytest.mark.parametrize("name", ["add", "sub", "rsub"])
@pytest.mark.parametrize("case", ALPHAS)
def test_factors_of_another_kind_are_refused(case: str, name: str) -> None:
    call, text = ALPHAS[case]
    for lib in (weft, torch):
        with pytest.raises(RuntimeError, match=text):
            call(lib, name)


def test_a_truth_value_as_factor_of_truth_values() -> None:
    x = weft.tensor([True, False])
    assert weft.add(x, x, alpha=True).tolist() == [True, False]
