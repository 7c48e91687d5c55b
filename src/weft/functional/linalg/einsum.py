# ruff: noqa: A001, A002 - PyTorch's names
"""einsum: an equation over named dimensions, taken apart into products of two operands, permutations and sums.

Operands are joined from the left; each step keeps the names that later operands or the result still need.
"""

from __future__ import annotations

from collections.abc import Sequence
from functools import lru_cache
from math import prod
from typing import Any

from weft.engine.api.call_cache import composed_of_primitives
from weft.engine.frontend.recorder import cast
from weft.engine.frontend.tensor import Tensor
from weft.engine.frontend.views import logical_strides
from weft.engine.ir import dtype as dtypes
from weft.engine.ir.strides import contiguous_strides, elementwise_strides, is_contiguous
from weft.errors import ArgumentError, ArgumentTypeError, ShapeError, class_name
from weft.functional.linalg.products import product
from weft.functional.shape.slicing import diagonal
from weft.functional.shape.views import permuted
from weft.ops.primitives import elementwise as call
from weft.ops.primitives import expand, permute, reduce, reshape

_LETTERS = "ABCDEFGHIJKLMNOPQRSTUVWXYZabcdefghijklmnopqrstuvwxyz"


def _fail(text: str, equation: str) -> ShapeError:
    return ShapeError(
        f"einsum(): {text}",
        expected="an equation like 'ij,jk->ik'",
        got=repr(equation),
        fix="name every dimension of every operand once",
    )


def _read_lists(arguments: tuple[object, ...]) -> tuple[str, tuple[Any, ...]]:
    """The equation and the operands of a call that gives each operand's dimensions behind it."""
    equation = ",".join([_term(dims) for dims in arguments[1::2]])
    if len(arguments) % 2:
        equation += f"->{_term(arguments[-1])}"
    return equation, arguments[: len(arguments) // 2 * 2 : 2]


def _term(dims: object) -> str:
    """The names of numbered dimensions. Errors: TypeError, ValueError."""
    if not isinstance(dims, (list, tuple)):
        raise ArgumentTypeError(
            "einsum(): must specify the equation string and at least one operand, or at least one operand and its "
            "subscripts list",
            expected="a list of dimensions behind each operand",
            got=class_name(dims),
            fix="pass the equation first, such as 'ij,jk->ik'",
        )
    for number in dims:
        if number is not Ellipsis and not (isinstance(number, int) and 0 <= number < len(_LETTERS)):
            raise ArgumentError(
                "einsum(): subscript in subscript list is not within the valid range [0, 52)",
                expected="numbers of dimensions from 0 to 51, or ...",
                got=repr(number),
                fix="number the dimensions from 0",
            )
    return "".join(["..." if number is Ellipsis else _LETTERS[number] for number in dims])


@lru_cache(1024)
def _parse(equation: str, ranks: tuple[int, ...]) -> tuple[list[list[Any]], list[Any]]:
    """Names per operand and of the result; an ellipsis becomes integers, counted from the last."""
    text = equation.replace(" ", "")
    left, arrow, right = text.partition("->")
    terms = left.split(",")
    if len(terms) != len(ranks):
        raise _fail(
            f"more operands were provided than specified in the equation ({len(ranks)} and {len(terms)})"
            if len(ranks) > len(terms)
            else "fewer operands were provided than specified in the equation",
            equation,
        )
    names = [
        _names(term, rank, operand, equation)
        for operand, (term, rank) in enumerate(zip(terms, ranks, strict=True))
    ]
    dots = max((sum(isinstance(n, int) for n in term) for term in names), default=0)
    lead: list[Any] = list(range(-dots, 0))
    if arrow:
        before, ellipsis, after = right.partition("...")
        result = [*before, *(lead if ellipsis else []), *after]
    else:
        flat = [n for term in names for n in term if isinstance(n, str)]
        result = [*lead, *sorted(n for n in set(flat) if flat.count(n) == 1)]
    known = {n for term in names for n in term}
    for name in result:
        if name not in known or result.count(name) > 1:
            raise _fail(
                "found '.' for output that is not part of any ellipsis (...)"
                if name == "."
                else f"output subscript {name} does not appear in the equation for any input operand"
                if name not in known
                else f"output subscript {name} appears more than once in the output",
                equation,
            )
    return names, result


def _names(term: str, rank: int, operand: int, equation: str) -> list[Any]:
    before, ellipsis, after = term.partition("...")
    letters = [*before, *after]
    bad = [letter for letter in letters if not letter.isalpha()]
    if bad:
        raise _fail(_no_subscript(bad[0], bool(ellipsis), operand, equation), equation)
    dots = rank - len(letters)
    if dots < 0 or (dots and not ellipsis):
        raise _fail(
            f"the number of subscripts in the equation ({len(letters)}) does not match the number of "
            f"dimensions ({rank}) for operand {operand} and no ellipsis was given",
            equation,
        )
    return [*before, *(range(-dots, 0) if ellipsis else ()), *after]


def _no_subscript(letter: str, after_ellipsis: bool, operand: int, equation: str) -> str:
    """PyTorch's error text for what is no letter in the subscripts of an operand."""
    if letter != ".":
        at = equation.index(letter)
        return f"invalid subscript given at index {at} in the equation string, subscripts must be in [a-zA-Z]"
    if after_ellipsis:
        return f"found '.' for operand {operand} for which an ellipsis was already found"
    return f"found '.' for operand {operand} that is not part of any ellipsis"


def _take_diagonals(
    x: Tensor, names: list[int | str], operand: int, equation: str
) -> tuple[Any, list[Any]]:
    if len(set(names)) == len(names):
        return x, names
    for name in list(dict.fromkeys(names)):
        while names.count(name) > 1:
            first = names.index(name)
            second = names.index(name, first + 1)
            if x._shape[first] != x._shape[second]:
                raise _fail(
                    f"subscript {name} is repeated for operand {operand} but the sizes don't match, "
                    f"{x._shape[second]} != {x._shape[first]}",
                    equation,
                )
            x = diagonal(x, 0, first, second)
            names = [n for place, n in enumerate(names) if place not in (first, second)] + [name]
    return x, names


def _sum_out(x: Tensor, names: list[int | str], needed: set[object]) -> tuple[Any, list[Any]]:
    axes = tuple([axis for axis, name in enumerate(names) if name not in needed])
    if not axes:
        return x, names
    return reduce("sum", x, axes), [name for name in names if name in needed]


def _sizes(operands: list[Tensor], names: list[list[object]], equation: str) -> dict[Any, int]:
    sizes: dict[Any, int] = {}
    for operand, (x, term) in enumerate(zip(operands, names, strict=True)):
        for axis, (name, size) in enumerate(zip(term, x._shape, strict=True)):
            have = sizes.get(name, 1)
            if have != size and 1 not in (have, size):
                raise _fail(_no_broadcast(name, axis, size, operand, have), equation)
            sizes[name] = size if have == 1 else have
    return sizes


def _no_broadcast(name: object, axis: int, size: int, operand: int, have: int) -> str:
    """The error text for a dimension that an operand before has in another size."""
    if isinstance(name, str):
        return (
            f"subscript {name} has size {size} for operand {operand} which does not broadcast with "
            f"previously seen size {have}"
        )
    return (
        f"dimension {axis} covered by ellipsis in operand {operand} has size {size} which does not "
        f"broadcast with previously seen ellipsis with size {have} for the respective dimension"
    )


def _join(
    a: Tensor,
    names_a: list[int | str],
    b: Tensor,
    names_b: list[int | str],
    needed: set[object],
    sizes: dict[object, int],
) -> tuple[Any, list[Any]]:
    """One matmul: shared and needed names are batch, shared and no longer needed ones are summed."""
    shared = [n for n in names_a if n in names_b]
    batch = [n for n in shared if n in needed]
    summed = [n for n in shared if n not in needed]
    rows = [n for n in names_a if n not in names_b]
    columns = [n for n in names_b if n not in names_a]
    left = _arranged(a, names_a, [*batch, *rows, *summed], sizes)
    right = _arranged(b, names_b, [*batch, *summed, *columns], sizes)
    lead = tuple([sizes[n] for n in batch])
    inner = prod([sizes[n] for n in summed])
    result = product(
        reshape(left, (*lead, prod([sizes[n] for n in rows]), inner)),
        reshape(right, (*lead, inner, prod([sizes[n] for n in columns]))),
        "einsum",
    )
    names = [*batch, *rows, *columns]
    return reshape(result, tuple([sizes[n] for n in names])), names


def _multiplied(
    a: Tensor, names_a: list[str], b: Tensor, names_b: list[str], order: list[str]
) -> tuple[Any, list[Any]]:
    """Elementwise products, where no name is summed: over the names of either, in the order of the result."""
    names = [n for n in order if n in names_a or n in names_b]
    names += [n for n in dict.fromkeys([*names_a, *names_b]) if n not in names]
    parts, layouts = [], []
    for x, own in ((a, names_a), (b, names_b)):
        strides = dict(zip(own, logical_strides(x), strict=True))
        lengths = dict(zip(own, x._shape, strict=True))
        shape = tuple([lengths.get(n, 1) for n in names])
        layouts.append((shape, tuple([strides.get(n, 0) for n in names])))
        parts.append(reshape(permute(x, tuple(own.index(n) for n in names if n in lengths)), shape))
    result = call("mul", *parts)
    result.strides = elementwise_strides(result._shape, layouts)
    return result, names


def _laid_out(
    result: Tensor,
    order: tuple[int, ...],
    names: list[int | str],
    pair: tuple[list[int | str], ...],
) -> Any:
    """The result of a product with its dimensions in order; in memory the columns come before the rows where the result
    has them so, and whatever is a row or a column behind what is both."""
    if order == tuple(range(len(order))):
        return result
    sizes = dict(zip(names, result._shape, strict=True))
    before, after = pair
    both = [n for n in names if n in before and n in after and sizes[n] != 1]
    rows = [n for n in names if n in before and n not in both and sizes[n] != 1]
    columns = [n for n in names if n not in both and n not in rows]
    wanted = [names[axis] for axis in order]
    if next((n in columns for n in wanted if n not in both), False):
        rows, columns = columns, rows
    lying = [*both, *rows, *columns]
    steps = dict(zip(lying, contiguous_strides(tuple(sizes[n] for n in lying)), strict=True))
    moved = permute(result, order)
    strides = tuple([steps[n] for n in wanted])
    moved.strides = None if is_contiguous(moved._shape, strides) else strides
    return moved


def _arranged(
    x: Tensor, names: list[int | str], order: list[int | str], sizes: dict[object, int]
) -> Any:
    x = permute(x, tuple([names.index(n) for n in order]))
    return expand(x, tuple([sizes[n] for n in order]))


@composed_of_primitives
def einsum(equation: str | Tensor, *operands: Tensor | Sequence[object]) -> Any:
    """Products of operands, summed over the names that the result does not have. In place of an equation, each operand
    may be followed by a list of its dimensions' numbers, below 52, and `...`; the result's list comes last, if it is
    given. Errors: ShapeError."""
    if isinstance(equation, Tensor):
        equation, operands = _read_lists((equation, *operands))
    tensors: list[Any] = (
        list(operands[0])
        if len(operands) == 1 and isinstance(operands[0], (list, tuple))
        else list(operands)
    )
    if not tensors:
        raise ArgumentError(
            "einsum(): must specify the equation string and at least one operand, or at least one operand and its "
            "subscripts list",
            expected="an equation and the tensors that it names",
            got="no tensors",
            fix="pass the operands behind the equation",
        )
    names, result = _parse(equation, tuple([len(x._shape) for x in tensors]))
    pairs = [
        _take_diagonals(x, term, operand, equation)
        for operand, (x, term) in enumerate(zip(tensors, names, strict=True))
    ]
    sizes = _sizes([x for x, _ in pairs], [term for _, term in pairs], equation)
    x, term = pairs[0]
    pair: Any = None
    for place in range(1, len(pairs)):
        other, other_term = pairs[place]
        later = {n for _, names_later in pairs[place + 1 :] for n in names_later} | set(result)
        wide = {n for n in (*term, *other_term) if sizes[n] != 1}  # a single element needs no sum
        x, term = _sum_out(x, term, later | set(other_term) & wide)
        other, other_term = _sum_out(other, other_term, later | set(term))
        if later.issuperset({*term, *other_term}):
            pair = None
            x, term = _multiplied(x, term, other, other_term, result)
        else:
            pair = term, other_term
            x, term = _join(x, term, other, other_term, later, sizes)
    return _finished(x, term, result, pair, len(pairs) == 1)


def _finished(
    x: Tensor,
    term: list[int | str],
    result: list[int | str],
    pair: tuple[list[int | str], ...] | None,
    alone: bool,
) -> Any:
    """The sums over the names that are left over, with the dimensions in order: a view if the operand is single."""
    if alone and len(term) > len(result) and x._dtype.category < 2:
        x = cast(x, dtypes.int64)  # a sum of integers, as `sum`
    if alone and len(term) == len(result):
        return permuted(x, tuple(term.index(n) for n in result))
    x, term = _sum_out(x, term, set(result))
    order = tuple(term.index(n) for n in result)
    return permute(x, order) if pair is None else _laid_out(x, order, term, pair)


FUNCTIONS: dict[str, Any] = {"einsum": einsum}
METHODS: dict[str, Any] = {}
__all__ = ["FUNCTIONS", "METHODS", "einsum"]
