"""Calls that few programs make, as expressions that both libraries evaluate: values, types and errors agree."""

from __future__ import annotations

import itertools
from typing import Any

import pytest

import weft
from oracle import torch

pytestmark = pytest.mark.filterwarnings("ignore")

# -- the diagonal ----------------------------------------------------------------------------------

SHAPES = [
    (3, 3, 3),
    (2, 2, 2, 2),
    (7, 3),
    (8, 3),
    (9, 3),
    (4, 3),
    (3, 7),
    (1, 1),
    (0, 3),
    (3, 0),
    (5, 1),
]
BAD_SHAPES = [(3,), (), (2, 3, 3), (2, 3, 2)]
DIAGONALS = [
    f"lib.zeros({shape}).fill_diagonal_(2, wrap={wrap})"
    for shape, wrap in itertools.product([*SHAPES, *BAD_SHAPES], (False, True))
]
DIAGONALS += [
    "lib.zeros(7, 3).t().fill_diagonal_(1, True)",
    "lib.zeros(4, 3, 2).permute(2, 1, 0)[:, :2, :2].fill_diagonal_(5)",
]

# -- differences -----------------------------------------------------------------------------------

JUMPS = "lib.tensor([2.0, -2, inf, inf, -inf, 3, -inf, 2])"
SQUARES = "lib.arange(6.0) ** 2"
SPACINGS = [
    "1",
    "0.5",
    "2j",
    "(1 + 1j,)",
    "0",
    "[lib.tensor([0.0, 1, 3, 4, 8, 9])]",
    "lib.tensor(3)",
]
GRADIENTS = [
    f"lib.gradient({values}, spacing={spacing}, edge_order={order})"
    for values, spacing, order in itertools.product(
        [SQUARES, "lib.arange(6) ** 2", "(lib.arange(6.0) ** 2).double()"], SPACINGS, (1, 2)
    )
]
GRADIENTS += [f"lib.gradient({JUMPS}, edge_order={order})" for order in (1, 2)]
GRADIENTS += [f"lib.gradient({JUMPS}.reshape(2, 4), spacing=(2.0, 0.5))"]

# -- sparse differences of types with and without a sign -------------------------------------------

KINDS = ("int8", "int32", "uint8", "float32")
SPARSE = "lib.sparse_coo_tensor([[0, 1]], lib.tensor({}, dtype=lib.{}), (3,))"
DIFFERENCES = [
    f"({SPARSE.format([1, 2], one)} - {SPARSE.format([25 * 5, 2], other)}).to_dense()"
    for one, other in itertools.product(KINDS, KINDS)
]
DIFFERENCES += [
    f"lib.ones(3, dtype=lib.{kind}) - {SPARSE.format([250, 2], 'uint8')}" for kind in KINDS
]
DIFFERENCES += [
    f"lib.ones(3, dtype=lib.int32).sub_({SPARSE.format([250, 2], 'uint8')})",
    f"lib.sub({SPARSE.format([1, 2], 'int8')}, {SPARSE.format([25, 2], 'uint8')}, alpha=2).to_dense()",
]

# -- names that few call ---------------------------------------------------------------------------

GRID = "lib.linspace(-1, 1, 8).reshape(1, 2, 2, 2)"
IMAGE = "lib.arange(4.0).reshape(1, 1, 2, 2)"
NAMES = [
    *(
        f"(lib.ones({shape}) + 1j).{name}"
        for shape in ((), (3,), (2, 3), (2, 3, 4))
        for name in ("H", "mH")
    ),
    "lib.is_inference(lib.ones(1))",
    "lib.unsafe_split_with_sizes(lib.arange(4.0), [1, 3])",
    "lib.arange(4.0).unsafe_split_with_sizes([1, 3])",
    "lib.native_channel_shuffle(lib.arange(8.0).view(1, 4, 1, 2), 2)",
    "lib.batch_norm_update_stats(lib.arange(8.0).view(2, 2, 2), lib.zeros(2), lib.ones(2), 0.1)",
    *(
        f"lib.grid_sampler{rank}({IMAGE}, {GRID}, {mode}, {padding}, {corners})"
        for rank in ("", "_2d")
        for mode, padding, corners in itertools.product((0, 1, 2), (0, 1, 2), (False, True))
    ),
    "lib._assert_async(lib.tensor(1))",
    "lib._assert_async(lib.tensor(0))",
    "lib._assert_async(lib.tensor(0), 'it is zero')",
    "lib._assert_async(lib.ones(2))",
    "lib._check_tensor_all(lib.arange(3) >= 0)",
    "lib._check_tensor_all(lib.arange(3) > 0, lambda: 'not all')",
    "lib._check_tensor_all(lib.arange(3))",
    "lib._check_tensor_all(True)",
    "lib._check_with(ValueError, False, lambda: 'why')",
    "lib.__future__.get_overwrite_module_params_on_conversion()",
    "lib.__future__.get_swap_module_params_on_conversion()",
    "lib.arange(4.0).map_(lib.ones(4), lambda a, b: a + b)",
    "lib.arange(4.0).map_(lib.ones(1), lambda a, b: a / 2 + b)",
    "lib.arange(4).map_(lib.ones(4).long(), lambda a, b: a - b)",
    "lib.arange(4.0).view(2, 2).map2_(lib.ones(2), lib.arange(2.0), lambda a, b, c: a + b * c)",
    "lib.arange(4.0).map_(lib.ones(4).long(), lambda a, b: a)",
    "lib.arange(4.0).map_(lib.ones(3), lambda a, b: a)",
    "lib.arange(4.0).requires_grad_().map_(lib.ones(4), lambda a, b: a)",
    "lib.zeros(4, 4, dtype=lib.bool).scatter_(0, lib.zeros(1, 4).long(), lib.ones(1, 4) > 0, reduce='add')",
    "lib.ones(4, 4, dtype=lib.bool).scatter_(0, lib.zeros(1, 4).long(), lib.eye(4)[:1] > 0, reduce='multiply')",
    "lib.ones(4, 4, dtype=lib.bool).scatter_(0, lib.zeros(1, 4).long(), False, reduce='multiply')",
    "lib.ones(4, 4, dtype=lib.bool).scatter(0, lib.zeros(1, 4).long(), 2.5, reduce='multiply')",
]


def outcome(library: Any, expression: str) -> Any:
    """What an expression gives, for both libraries: values, or the type of the exception."""
    try:
        return shown(eval(expression, {"lib": library, "inf": float("inf")}))
    except Exception as error:
        return type(error)


def shown(result: Any) -> Any:
    if isinstance(result, (tuple, list)):
        return [shown(part) for part in result]
    if hasattr(result, "dtype"):
        values = [round_off(value) for value in result.reshape(-1).tolist()]
        return str(result.dtype).rpartition(".")[2], tuple(result.shape), values
    return result


def round_off(value: Any) -> str:
    """Five digits, without the sign of a zero."""
    parts = (value.real, value.imag) if isinstance(value, complex) else (value,)
    return " ".join(f"{part + 0.0:.5g}" for part in parts)


@pytest.mark.parametrize("expression", [*DIAGONALS, *GRADIENTS, *DIFFERENCES, *NAMES])
def test_both_give_the_same(expression: str) -> None:
    ours, theirs = outcome(weft, expression), outcome(torch, expression)
    if isinstance(theirs, type):
        standard = next(kind for kind in theirs.__mro__ if kind.__module__ == "builtins")
        assert isinstance(ours, type), ours
        assert issubclass(ours, standard)
    else:
        assert ours == theirs


def test_differences_have_gradients() -> None:
    x = weft.arange(6.0, dtype=weft.float64, requires_grad=True)
    for order in (1, 2):
        assert weft.autograd.gradcheck(
            lambda x, order=order: weft.gradient(x**3, spacing=0.5, edge_order=order), x
        )


LISTS = {
    "scalars": "lib._foreach_add(a, scalars=[1.0, 2.0])",
    "other": "lib._foreach_add(a, other=b, alpha=2)",
    "scalar": "lib._foreach_add(a, scalar=2)",
    "order": "lib._foreach_norm(a, ord=1)",
    "order and type": "lib._foreach_norm(a, ord=0, dtype=lib.float64)",
    "quotients": "lib._foreach_addcdiv(a, b, b, scalars=[1.0, 2.0])",
    "products": "lib._foreach_addcmul(a, b, b, value=3)",
    "between": "lib._foreach_lerp(a, b, weights=b)",
    "exponent": "lib._foreach_pow(a, exponent=2.0)",
    "nothing": "lib._foreach_abs([])",
    "no numbers": "lib._foreach_add(a, [])",
    "too many": "lib._foreach_add(a, [*b, *b])",
    "sizes": "lib._foreach_add([lib.ones(2, 3, 4)], [lib.ones(5, 6, 4)])",
}


@pytest.mark.parametrize("name", LISTS)
def test_keywords_of_functions_of_lists(name: str) -> None:
    def outcome(lib: Any) -> Any:
        a = [lib.ones(2), lib.full((2,), 3.0)]
        b = [lib.full((2,), 2.0), lib.full((2,), 5.0)]
        try:
            return [x.tolist() for x in eval(LISTS[name], {"lib": lib, "a": a, "b": b})]
        except RuntimeError as error:
            return str(error).splitlines()[0].split(", called at")[0].replace("_foreach_add: ", "")

    assert outcome(weft) == outcome(torch)
