"""Layers give results whose channels are last in memory where their inputs' are, and matrices as LAPACK leaves them."""

from __future__ import annotations

from typing import Any

import pytest

import weft
from functional_oracle import torch

PLANES = {
    "conv2d": lambda lib, x: lib.nn.functional.conv2d(x, lib.ones(4, 3, 3, 3)),
    "conv_transpose2d": lambda lib, x: lib.nn.functional.conv_transpose2d(x, lib.ones(3, 4, 3, 3)),
    "max_pool2d": lambda lib, x: lib.nn.functional.max_pool2d(x, 3, 2),
    "avg_pool2d": lambda lib, x: lib.nn.functional.avg_pool2d(x, 2),
    "adaptive_max_pool2d": lambda lib, x: lib.nn.functional.adaptive_max_pool2d(x, 3),
    "adaptive_avg_pool2d": lambda lib, x: lib.nn.functional.adaptive_avg_pool2d(x, 3),
    "group_norm": lambda lib, x: lib.nn.functional.group_norm(x, 3),
    "nearest": lambda lib, x: lib.nn.functional.interpolate(x, scale_factor=2),
    "bicubic": lambda lib, x: lib.nn.functional.interpolate(x, scale_factor=2, mode="bicubic"),
    "pad": lambda lib, x: lib.nn.functional.pad(x, (1, 2, 1, 0)),
    "reflect": lambda lib, x: lib.nn.functional.pad(x, (1, 1, 1, 1), mode="reflect"),
    "dropout": lambda lib, x: lib.nn.functional.dropout(x, 0.5),
    "pixel_unshuffle": lambda lib, x: lib.nn.functional.pixel_unshuffle(x, 2),
    "channel_shuffle": lambda lib, x: lib.nn.functional.channel_shuffle(x, 3),
    "cat": lambda lib, x: lib.cat([x, x], 1),
    "cat with rows": lambda lib, x: lib.cat([x, x.contiguous()], 1),
    "roll": lambda lib, x: x.roll(1, 2),
}


@pytest.mark.parametrize("name", PLANES)
def test_channels_stay_last(name: str) -> None:
    mine, theirs = (
        PLANES[name](lib, lib.ones(2, 3, 6, 8).contiguous(memory_format=lib.channels_last))
        for lib in (weft, torch)
    )
    rows = PLANES[name](weft, weft.ones(2, 3, 6, 8))
    assert mine.stride() == theirs.stride() and rows.is_contiguous()
    if name != "dropout":
        assert mine.tolist() == rows.tolist()


def test_layers_take_a_memory_format() -> None:
    def step(lib: Any) -> list[Any]:
        layer = lib.nn.Conv2d(3, 4, 3).to(memory_format=lib.channels_last)
        made = layer(lib.ones(2, 3, 8, 8))
        made.sum().backward()
        return [t.stride() for t in (layer.weight, layer.bias, made, layer.weight.grad)]

    assert step(weft) == step(torch)


def test_what_is_found_lies_by_columns() -> None:
    def layouts(lib: Any) -> list[Any]:
        x = lib.arange(12.0).reshape(3, 4) % 5
        found = [*lib.linalg.svd(x), x.nonzero(), lib.unique(x, dim=1)]
        return [t.stride() for t in (*found, lib.unique_consecutive(x, dim=1))]

    assert layouts(weft) == layouts(torch)
    assert weft.histogram(weft.ones(0), 2).bin_edges.tolist() == [0, 0.5, 1]
