"""rearrange: dimensions of a tensor split, permuted and joined as a pattern says, `"b (h w) c -> b h w c"`."""

from __future__ import annotations

import math
import re

import weft
from weft._typing import Shape
from weft.engine.frontend.tensor import Tensor
from weft.errors import ArgumentError

Groups = list[list[str]]
REST = ["..., as dimensions of their own"]
_TOKENS = re.compile(r"\.\.\.|[A-Za-z_]\w*|\d+|[()]|\S")


def rearrange(
    tensor: Tensor | list[Tensor] | tuple[Tensor, ...], pattern: str, **axes_lengths: int
) -> weft.Tensor:
    """The elements of a tensor (or of a list of tensors, stacked) in another arrangement: names on both sides of `->`
    stand for dimensions, parentheses for one made of several, `...` for all others; `axes_lengths` are sizes.

    Errors: ValueError on a pattern that does not fit.
    """
    given = weft.stack(list(tensor)) if isinstance(tensor, (list, tuple)) else tensor
    sides = pattern.split("->")
    if len(sides) != 2:
        raise _wrong(pattern, "one ->")
    before, after = (_groups(side, pattern) for side in sides)
    before = _filled(before, given.dim(), pattern)
    rest = [name for group in before for name in group if name.startswith("...")]
    after = [part for group in after for part in _spelled(group, rest)]
    names = [name for group in before for name in group]
    wanted = [name for group in after for name in group]
    if sorted(names) != sorted(wanted) or len(set(names)) < len(names):
        raise _wrong(pattern, "each name once on both sides")
    sizes = _sizes(before, given.shape, axes_lengths, pattern)
    split = given.reshape([sizes[name] for name in names])
    turned = split.permute([names.index(name) for name in wanted])
    found: weft.Tensor = turned.reshape([math.prod(sizes[n] for n in group) for group in after])
    return found


def _wrong(pattern: str, expected: str) -> ArgumentError:
    return ArgumentError(
        f"rearrange: the pattern {pattern!r} does not fit",
        expected=expected,
        got=repr(pattern),
        fix="write a name per dimension on both sides, as in 'b (h w) c -> b h w c'",
    )


def _groups(side: str, pattern: str) -> Groups:
    """The dimensions of one side, each as the names that it is made of; 1 is made of none."""
    groups: Groups = []
    inside = False
    for token in _TOKENS.findall(side):
        if token in "()":
            if inside == (token == "("):
                raise _wrong(pattern, "parentheses in pairs, not nested")
            inside = token == "("
            if inside:
                groups.append([])
        elif not re.fullmatch(r"\.\.\.|1|[A-Za-z_]\w*", token):
            raise _wrong(pattern, "names, parentheses, ... and 1")
        elif inside:
            groups[-1] += [] if token == "1" else [token]
        else:
            groups.append([] if token == "1" else REST if token == "..." else [token])
    if inside:
        raise _wrong(pattern, "parentheses in pairs, not nested")
    return groups


def _filled(groups: Groups, ndim: int, pattern: str) -> Groups:
    """The dimensions of the input, with names for those that `...` stands for."""
    if REST not in groups:
        if len(groups) != ndim:
            raise _wrong(pattern, f"{ndim} dimensions on the left")
        return groups
    place, missing = groups.index(REST), ndim - len(groups) + 1
    if missing < 0:
        raise _wrong(pattern, f"at most {ndim} dimensions on the left")
    return [*groups[:place], *[[f"...{i}"] for i in range(missing)], *groups[place + 1 :]]


def _spelled(group: list[str], rest: list[str]) -> Groups:
    """The dimensions that one of the result's stands for, with `...` as the names that it stands for."""
    if group == REST:
        return [[name] for name in rest]
    return [[part for name in group for part in (rest if name == "..." else [name])]]


def _sizes(groups: Groups, shape: Shape, known: dict[str, int], pattern: str) -> dict[str, int]:
    """The size of each name. Errors: ValueError where one is not known, or does not divide its dimension."""
    sizes: dict[str, int] = {}
    for group, size in zip(groups, shape, strict=True):
        left = [name for name in group if name not in known]
        part = math.prod(known[name] for name in group if name in known)
        if len(left) > 1 or size % max(part, 1) or (not left and part != size):
            raise _wrong(pattern, f"sizes that make {size} of {' '.join(group) or '1'}")
        sizes.update({name: known[name] for name in group if name in known})
        sizes.update({name: size // max(part, 1) for name in left})
    return sizes
