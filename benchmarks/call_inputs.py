"""What single calls are given: each function takes the library and a size, FEW or MANY, which is the number of rows of
a matrix, and gives tensors (or what else the call takes), the same for both libraries."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any, NamedTuple

import numpy as np

from benchmarks.libraries import array, integers, normal

Inputs = Callable[[Any, int], tuple[Any, ...]]


class Call(NamedTuple):
    """One call: its name, what it does with the library and its inputs, and what those are for n rows."""

    name: str
    function: Callable[..., Any]
    inputs: Inputs
    gradients: int = 1  # so many inputs, from the first on, get one
    same: bool = True  # whether the libraries compute the same numbers


FEW, MANY = 16, 1024  # rows and columns of a matrix: some hundred elements, a million


def matrix(lib: Any, n: int) -> tuple[Any, ...]:
    """One matrix."""
    return (normal(lib, n, n),)


def matrices(lib: Any, n: int) -> tuple[Any, ...]:
    """Two matrices."""
    return normal(lib, n, n), normal(lib, n, n, seed=1)


def distinct(lib: Any, n: int) -> tuple[Any, ...]:
    """A matrix without equal elements, which have one order."""
    places = np.random.default_rng(0).permutation(n * n).reshape(n, n)
    return (lib.tensor((places / (n * n)).astype(np.float32)),)


def positive(lib: Any, n: int) -> tuple[Any, ...]:
    """A matrix of numbers above 0 and below 1."""
    return (lib.tensor(np.random.default_rng(0).uniform(0.01, 0.99, (n, n)).astype(np.float32)),)


def row(lib: Any, n: int) -> tuple[Any, ...]:
    """A matrix and a row."""
    return normal(lib, n, n), normal(lib, n, seed=1)


def vectors(lib: Any, n: int) -> tuple[Any, ...]:
    """Two vectors of as many elements."""
    return normal(lib, n * n), normal(lib, n * n, seed=1)


def product(lib: Any, n: int) -> tuple[Any, ...]:
    """Two matrices to be multiplied, of at most 512 rows."""
    return matrices(lib, min(n, 512))


def batches(lib: Any, n: int) -> tuple[Any, ...]:
    """Two batches of matrices of 16 x 16 or 64 x 64."""
    count, size = (4, 16) if n == FEW else (32, 64)
    return normal(lib, count, size, size), normal(lib, count, size, size, seed=1)


def system(lib: Any, n: int) -> tuple[Any, ...]:
    """A matrix with a large diagonal, and right sides."""
    size = 8 if n == FEW else 256
    return normal(lib, size, size) + 2 * size * lib.eye(size), normal(lib, size, size, seed=1)


def definite(lib: Any, n: int) -> tuple[Any, ...]:
    """A positive definite matrix."""
    size = 8 if n == FEW else 256
    half = normal(lib, size, size)
    return (half @ half.t() + size * lib.eye(size),)


def picks(lib: Any, n: int) -> tuple[Any, ...]:
    """A matrix, an index for each element, an index for each row."""
    return normal(lib, n, n), integers(lib, n, n, n, seed=1), integers(lib, n, n, seed=2)


def whole(lib: Any, n: int) -> tuple[Any, ...]:
    """Two matrices of whole numbers."""
    return integers(lib, 100, n, n), integers(lib, 100, n, n, seed=1) + 1


def masked(lib: Any, n: int) -> tuple[Any, ...]:
    """A matrix, and which of its elements are meant."""
    return normal(lib, n, n), normal(lib, n, n, seed=1) > 0


def images(lib: Any, n: int) -> tuple[Any, ...]:
    """Images with channels."""
    return (normal(lib, *_image(n)),)


def _image(n: int) -> tuple[int, int, int, int]:
    return (1, 4, 8, 8) if n == FEW else (16, 16, 64, 64)


def filtered(lib: Any, n: int, groups: int = 1, size: int = 3) -> tuple[Any, ...]:
    """Images, filters, bias."""
    channels = _image(n)[1]
    filters = normal(lib, channels, channels // groups, size, size, seed=1)
    return *images(lib, n), filters, normal(lib, channels, seed=2)


def depthwise(lib: Any, n: int) -> tuple[Any, ...]:
    """Images, a filter for each channel, bias."""
    return filtered(lib, n, groups=_image(n)[1])


def grouped(lib: Any, n: int) -> tuple[Any, ...]:
    """Images, filters of two groups, bias."""
    return filtered(lib, n, groups=2)


def small_images(lib: Any, n: int) -> tuple[Any, ...]:
    """Many channels of 8 x 8, a filter for each, bias."""
    count, channels = (1, 8) if n == FEW else (32, 256)
    filters = normal(lib, channels, 1, 3, 3, seed=1)
    return normal(lib, count, channels, 8, 8), filters, normal(lib, channels, seed=2)


def series(lib: Any, n: int) -> tuple[Any, ...]:
    """Sequences with channels, filters, bias."""
    count, channels, length = (1, 4, 32) if n == FEW else (16, 32, 1024)
    filters = normal(lib, channels, channels, 3, seed=1)
    return normal(lib, count, channels, length), filters, normal(lib, channels, seed=2)


def volumes(lib: Any, n: int) -> tuple[Any, ...]:
    """Volumes with channels, filters, bias."""
    count, channels, size = (1, 2, 4) if n == FEW else (2, 8, 32)
    filters = normal(lib, channels, channels, 3, 3, 3, seed=1)
    return normal(lib, count, channels, size, size, size), filters, normal(lib, channels, seed=2)


def scaled(lib: Any, n: int) -> tuple[Any, ...]:
    """Images, and scale and shift of each channel."""
    channels = _image(n)[1]
    return *images(lib, n), normal(lib, channels, seed=1), normal(lib, channels, seed=2)


def affine(lib: Any, n: int) -> tuple[Any, ...]:
    """A matrix, and scale and shift of each column."""
    return normal(lib, n, n), normal(lib, n, seed=1), normal(lib, n, seed=2)


def layer(lib: Any, n: int) -> tuple[Any, ...]:
    """Rows, weight and bias of a linear layer."""
    size = min(n, 256)
    return normal(lib, n, size), normal(lib, size, size, seed=1), normal(lib, size, seed=2)


def classes(lib: Any, n: int) -> tuple[Any, ...]:
    """Scores of n classes, and the right ones."""
    return normal(lib, n, n), integers(lib, n, n, seed=1)


def chances(lib: Any, n: int) -> tuple[Any, ...]:
    """Chances, and zeros and ones."""
    return *positive(lib, n), lib.tensor((array(normal(lib, n, n, seed=1)) > 0).astype(np.float32))


def words(lib: Any, n: int) -> tuple[Any, ...]:
    """A table of 1000 rows, and indices."""
    return normal(lib, 1000, 16 if n == FEW else 256), integers(lib, 1000, 4 * n, seed=1)


def heads(lib: Any, n: int) -> tuple[Any, ...]:
    """Queries, keys and values of attention."""
    shape = (1, 2, 8, 16) if n == FEW else (8, 8, 256, 64)
    return normal(lib, *shape), normal(lib, *shape, seed=1), normal(lib, *shape, seed=2)


def size_of(lib: Any, n: int) -> tuple[Any, ...]:
    """No tensor, but how many rows."""
    return (n,)


def of_numpy(lib: Any, n: int) -> tuple[Any, ...]:
    """An array of NumPy."""
    return (np.random.default_rng(0).standard_normal((n, n), np.float32),)


def spoken(lib: Any, n: int) -> tuple[Any, ...]:
    """What connectionist temporal classification takes: (T, N, C) log-probabilities, targets, both lengths."""
    times, count, symbols, length = (12, 2, 6, 4) if n == FEW else (150, 32, 40, 30)
    scores = lib.log_softmax(normal(lib, times, count, symbols), -1)
    targets = integers(lib, symbols - 1, count, length, seed=1) + 1
    return scores, targets, lib.full((count,), times), lib.full((count,), length)
