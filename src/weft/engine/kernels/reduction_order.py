"""The summation order: which elements are combined when, in every reduction and product, on every device.

Floating-point addition is not associative, so the order is part of what an operation means: each device's kernels obey
it, and forward values have the same bits on all of them. Each device chooses how many elements it takes at once, how
it divides work and where it keeps partial results. The functions here are the definition, one element at a time;
kernels are compared with them in tests.

Reductions: elements are counted in row-major order over the reduced axes and cut into blocks of `BLOCK`. In a block,
element i is folded into lane i mod `LANES`, in order; then lane i takes lane i + 8, i + 4, i + 2, i + 1. Blocks are
combined in adjacent pairs, level by level; an odd last one waits. It is the same order for sums of columns and of
rows, and for all kinds: sums, products, maxima, the first index of a maximum.

Products: an element of a matrix product is a chain of fused multiply-adds over `PRODUCT_CHUNK` elements of K, from
zero; the chains are added in order. Attention takes keys in tiles of `ATTENTION_KEYS`; a row's maximum, sum and
weighted values are carried from tile to tile.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import TypeVar

BLOCK = 4096  # elements of a reduction that are folded into one partial result
LANES = 16  # partial results of one block
PRODUCT_CHUNK = 2048  # elements of K in one chain of multiply-adds
ATTENTION_KEYS = 64  # keys whose scores are taken into account together

T = TypeVar("T")
Combine = Callable[[T, T], T]


def reduce(values: Sequence[T], combine: Combine[T], identity: T) -> T:
    """A reduction of values, as every device computes it."""
    starts = range(0, max(len(values), 1), BLOCK)
    return fold_blocks(
        [fold_block(values[start : start + BLOCK], combine, identity) for start in starts], combine
    )


def fold_block(values: Sequence[T], combine: Combine[T], identity: T) -> T:
    """The partial result of one block: lanes in order, then by halves."""
    lanes = [identity] * LANES
    for number, value in enumerate(values):
        lanes[number % LANES] = combine(lanes[number % LANES], value)
    while len(lanes) > 1:
        half = len(lanes) // 2
        lanes = [combine(a, b) for a, b in zip(lanes[:half], lanes[half:], strict=True)]
    return lanes[0]


def fold_blocks(results: Sequence[T], combine: Combine[T]) -> T:
    """The result of blocks: adjacent pairs, level by level."""
    level = list(results)
    while len(level) > 1:
        pairs = [combine(a, b) for a, b in zip(level[::2], level[1::2], strict=False)]
        level = pairs + level[2 * len(pairs) :]
    return level[0]


def multiply(
    left: Sequence[T],
    right: Sequence[T],
    multiply_add: Callable[[T, T, T], T],
    combine: Combine[T],
    zero: T,
) -> T:
    """An element of a product: a row of the left operand by a column of the right one."""
    total: T = zero
    for start in range(0, max(len(left), 1), PRODUCT_CHUNK):
        chain = zero
        chunk = slice(start, start + PRODUCT_CHUNK)
        for a, b in zip(left[chunk], right[chunk], strict=True):
            chain = multiply_add(a, b, chain)
        total = chain if start == 0 else combine(total, chain)
    return total
