"""Conversions keep the order of strides, of parts of permuted tensors too, as PyTorch's do."""

from __future__ import annotations

from typing import Any

import pytest

import weft
from oracle import torch


def parts(lib: Any) -> list[Any]:
    """Tensors and parts of them, in many orders."""
    image = (lib.arange(2.0 * 3 * 8 * 9) % 100).reshape(2, 3, 8, 9)
    image = image.contiguous(memory_format=lib.channels_last)
    cube = lib.arange(120.0).reshape(4, 6, 5)
    return [
        image,
        image[:, :, 1:],
        image[:, :2],
        image[..., ::2],
        cube.permute(2, 0, 1)[:, ::2],
        cube.transpose(0, 1)[1:],
        cube[:, 1:],
        cube.permute(2, 1, 0)[:1],
        cube[0, 0].expand(3, 5),
    ]


@pytest.mark.parametrize("name", ["float64", "int32", "uint8", "bool", "complex64", "float16"])
def test_order_of_strides(name: str) -> None:
    for here, there in zip(parts(weft), parts(torch), strict=True):
        found, expected = here.to(getattr(weft, name)), there.to(getattr(torch, name))
        assert found.stride() == tuple(expected.stride())
        assert found.tolist() == expected.tolist()
