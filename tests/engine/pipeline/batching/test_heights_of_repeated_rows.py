"""What is repeated along each row, and not row by row, is told apart also where examples are as high as wide."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest

import weft
from oracle import torch
from weft.config import config

WIDTH = 4
HEIGHTS = [[1, 4], [4, 1], [1, 4, 1], [4, 4, 1, 2], [1, 1, 4, 1]]
LEADS = [(), (1,), (1, 1)]


def examples(framework: Any, sizes: list[int], lead: tuple[int, ...]) -> tuple[list[Any], Any]:
    source = np.random.default_rng(0)
    leaves = [
        framework.tensor(source.standard_normal((*lead, n, WIDTH)), requires_grad=True)
        for n in sizes
    ]
    return leaves, framework.tensor(source.standard_normal((WIDTH, WIDTH)), requires_grad=True)


@pytest.mark.parametrize("lead", LEADS)
@pytest.mark.parametrize("sizes", HEIGHTS)
def test_a_number_for_each_row_is_not_a_row(sizes: list[int], lead: tuple[int, ...]) -> None:
    def values() -> list[Any]:
        leaves, weight = examples(weft, sizes, lead)
        means = [leaf.mean(-1, keepdim=True).expand_as(leaf) for leaf in leaves]
        return [(mean @ weight).tanh().detach().numpy() for mean in means]

    batched = values()
    before, config.batch = config.batch, False
    try:
        alone = values()
    finally:
        config.batch = before
    for one, other in zip(batched, alone, strict=True):
        np.testing.assert_array_equal(one, other)


@pytest.mark.parametrize("lead", LEADS)
@pytest.mark.parametrize("sizes", HEIGHTS)
def test_gradients_of_means_walked_one_by_one_and_together(
    sizes: list[int], lead: tuple[int, ...]
) -> None:
    def gradients(framework: Any) -> list[Any]:
        leaves, weight = examples(framework, sizes, lead)
        index = framework.tensor([0, 0, 1, 3])
        centred = [leaf - leaf.mean(-1, keepdim=True) for leaf in leaves]
        ends = [((x @ weight).index_select(-1, index) * x).square().sum() for x in centred]
        for end in ends[:2]:
            end.backward(retain_graph=True)
        sum(ends[1:], ends[0]).backward()
        return [leaf.grad.numpy() for leaf in (*leaves, weight)]

    for one, other in zip(gradients(weft), gradients(torch), strict=True):
        np.testing.assert_allclose(one, other, 1e-10, 1e-10)
