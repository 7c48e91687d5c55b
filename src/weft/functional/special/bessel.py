# ruff: noqa: A002 - PyTorch's names
"""Bessel functions and zeta under PyTorch's `special` names; not imported before the first use.

Tensors come in, integers at the default type; the rows and their derivatives are in `weft.ops.elementwise.bessel`.
PyTorch has no derivatives of J, Y, K, and none of zeta by its first argument.
"""

from __future__ import annotations

import math
from typing import Any

from weft.engine.api.call_cache import composed_of_primitives
from weft.engine.frontend.tensor import Tensor
from weft.errors import ArgumentTypeError
from weft.functional.shape.concat import broadcast_tensors
from weft.functional.special.operands import floating, floats
from weft.functional.support.variants import named, write_out
from weft.ops.elementwise import bessel
from weft.ops.primitives import elementwise as call
from weft.ops.primitives import full, where

_TEXTS = {
    "i0": "The modified Bessel function of the first kind of order 0.",
    "i0e": "exp(-|x|) times `i0`.",
    "i1": "The modified Bessel function of the first kind of order 1.",
    "i1e": "exp(-|x|) times `i1`.",
    "bessel_j0": "The Bessel function of the first kind of order 0.",
    "bessel_j1": "The Bessel function of the first kind of order 1.",
    "bessel_y0": "The Bessel function of the second kind of order 0; nan below 0.",
    "bessel_y1": "The Bessel function of the second kind of order 1; nan below 0.",
    "modified_bessel_k0": "The modified Bessel function of the second kind of order 0; nan below 0.",
    "modified_bessel_k1": "The modified Bessel function of the second kind of order 1; nan below 0.",
    "scaled_modified_bessel_k0": "exp(x) times `modified_bessel_k0`.",
    "scaled_modified_bessel_k1": "exp(x) times `modified_bessel_k1`.",
}


def _function(name: str, op: str) -> Any:
    def function(input: Tensor, *, out: Tensor | None = None) -> Any:
        result = call(op, floating(f"special_{name}", input, halves=op[0] == "i"))
        return result if out is None else write_out(out, result)

    return composed_of_primitives(named(function, name, f"{_TEXTS[op]} Shapes: as `input`."))


@composed_of_primitives
def spherical_bessel_j0(input: Tensor, *, out: Tensor | None = None) -> Any:
    """The spherical Bessel function of order 0, sin(x) / x. Shapes: as `input`."""
    x = floating("special_spherical_bessel_j0", input)
    regular = (x != 0) & (call("abs", x) != math.inf)
    safe = where(regular, x, 1)
    result = where(regular, call("sin", safe) / safe, where(x == 0, 1.0, 0.0))
    return result if out is None else write_out(out, result)


@composed_of_primitives
def zeta(input: Tensor, other: Tensor, *, out: Tensor | None = None) -> Any:
    """Hurwitz' zeta function: the sum of (other + k) ** -input over k >= 0.

    Shapes: broadcast. inf where `input` is 1 or `other` a whole number below 1, nan where `input` is below 1, and where
    `other` is below -11. Errors: ArgumentTypeError on two numbers.
    """
    if not isinstance(input, Tensor) and not isinstance(other, Tensor):
        raise ArgumentTypeError(
            "special_zeta(): argument 'input' or 'other' must be Tensor",
            expected="a tensor among the two",
            got=f"{type(input).__name__}, {type(other).__name__}",
            fix="pass weft.tensor(input)",
        )
    pair = floats("special_zeta", input, other)
    for x in pair:
        floating("special_zeta", x, halves=False) if isinstance(x, Tensor) else None
    dtype = next(x._dtype for x in pair if isinstance(x, Tensor))
    pair = [x if isinstance(x, Tensor) else full((), float(x), dtype) for x in pair]
    result = bessel.zeta(*broadcast_tensors(*pair))
    return result if out is None else write_out(out, result)


FUNCTIONS: dict[str, Any] = {name: _function(name, name) for name in _TEXTS}
FUNCTIONS |= {
    f"modified_bessel_{name}": _function(f"modified_bessel_{name}", name) for name in ("i0", "i1")
}
FUNCTIONS |= {"spherical_bessel_j0": spherical_bessel_j0, "zeta": zeta}
