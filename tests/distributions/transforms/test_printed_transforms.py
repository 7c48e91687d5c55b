"""Transforms, their inverses and compositions are printed as PyTorch prints them."""

from __future__ import annotations

from typing import Any

import pytest

import weft
from oracle import torch

TRANSFORMS: dict[str, Any] = {
    "plain": lambda D: D.ExpTransform(),
    "inverse": lambda D: D.ExpTransform().inv,
    "inverse of an inverse": lambda D: D.ExpTransform().inv.inv,
    "composition": lambda D: D.ComposeTransform([D.ExpTransform(), D.AffineTransform(0, 1)]),
    "nothing": lambda D: D.ComposeTransform([]),
    "inverse of a composition": lambda D: D.ComposeTransform([D.ExpTransform()]).inv,
    "nested": lambda D: D.ComposeTransform(
        [D.ComposeTransform([D.SigmoidTransform()]), D.ExpTransform().inv]
    ),
    "independent": lambda D: D.IndependentTransform(D.ExpTransform(), 1),
}


@pytest.mark.parametrize("name", TRANSFORMS)
def test_as_pytorch_prints_them(name: str) -> None:
    call = TRANSFORMS[name]
    assert repr(call(weft.distributions)) == repr(call(torch.distributions))
