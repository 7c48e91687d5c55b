"""A tensor of one integer is taken where PyTorch takes one as a number: of groups, classes, points, neighbours."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import numpy as np
import pytest

import weft
from oracle import torch

CALLS: dict[str, Callable[[Any, Any], Any]] = {
    "group_norm": lambda lib, two: lib.group_norm(lib.arange(12.0).reshape(2, 6, 1), two),
    "GroupNorm": lambda lib, two: lib.nn.GroupNorm(two, 4)(lib.arange(8.0).reshape(2, 4)),
    "one_hot": lambda lib, two: lib.nn.functional.one_hot(lib.tensor([0, 1, 1]), two),
    "eye": lambda lib, two: lib.eye(two, two),
    "avg_pool2d": lambda lib, two: lib.nn.functional.avg_pool2d(_image(lib), two),
    "max_pool2d": lambda lib, two: lib.nn.functional.max_pool2d(_image(lib), 2, two),
    "conv2d": lambda lib, two: lib.nn.functional.conv2d(
        _image(lib), lib.ones(2, 1, 3, 3), stride=two, groups=two
    ),
    "conv_transpose2d": lambda lib, two: lib.nn.functional.conv_transpose2d(
        _image(lib), lib.ones(2, 1, 3, 3), groups=two
    ),
    "local_response_norm": lambda lib, two: lib.nn.functional.local_response_norm(_image(lib), two),
    "stft": lambda lib, two: lib.view_as_real(
        lib.stft(lib.arange(9.0), two, 1, window=lib.ones(2), return_complex=True)
    ),
}


def _image(lib: Any) -> Any:
    return lib.arange(72.0).reshape(1, 2, 6, 6)


@pytest.mark.parametrize("name", CALLS)
def test_a_tensor_of_one_integer_is_a_number(name: str) -> None:
    found, expected = (CALLS[name](lib, lib.tensor(2)) for lib in (weft, torch))
    np.testing.assert_allclose(found.detach().numpy(), expected.detach().numpy(), rtol=1e-6)


@pytest.mark.parametrize("name", CALLS)
def test_a_tensor_of_a_fraction_is_refused_by_both(name: str) -> None:
    for lib in (weft, torch):
        with pytest.raises((TypeError, RuntimeError, ValueError)):
            CALLS[name](lib, lib.tensor(2.5))


def test_where_is_called_by_its_name() -> None:
    assert weft.where.__name__ == "where"
    assert repr(weft.where) == "<function weft.where>"
