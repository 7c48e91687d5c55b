"""`from weft.distributions.normal import Normal` and the helpers of distributions of one's own, as in PyTorch."""

from __future__ import annotations

import importlib
from typing import Any

import numpy as np
import pytest

import weft
from oracle import both, submodule, torch
from weft import distributions
from weft.distributions import utils


@pytest.mark.parametrize("file", distributions._FILES)
def test_files_hold_what_pytorchs_hold(file: str) -> None:
    theirs = submodule(f"torch.distributions.{file}")
    ours = importlib.import_module(f"weft.distributions.{file}")
    assert getattr(distributions, file) is ours
    for name in ours.__all__:
        assert getattr(ours, name) is getattr(distributions, name)
        assert hasattr(theirs, name)
    with pytest.raises(AttributeError, match=f"module 'weft.distributions.{file}' has no"):
        _ = ours.Unheard


def test_every_distribution_of_the_package_is_in_a_file() -> None:
    held = {name for names in distributions._FILES.values() for name in names.split()}
    classes = {
        name for name in distributions.__all__ if isinstance(getattr(distributions, name), type)
    }
    assert {name for name in classes - held if not name.endswith("Transform")} == {"Distribution"}


@pytest.mark.parametrize("diag", [-1, 0, 1])
def test_triangles_and_their_elements(diag: int) -> None:
    matrices = np.random.default_rng(0).normal(size=(2, 4, 4)).astype(np.float32)
    elements = utils.tril_matrix_to_vec(weft.tensor(matrices), diag)
    theirs = torch.distributions.utils.tril_matrix_to_vec(torch.tensor(matrices), diag)
    np.testing.assert_array_equal(elements.numpy(), theirs.numpy())
    back = utils.vec_to_tril_matrix(elements, diag)
    np.testing.assert_array_equal(back.numpy(), np.tril(matrices, diag))


@both
def test_no_triangles(lib: Any) -> None:
    named = submodule(f"{lib.__name__}.distributions.utils")
    with pytest.raises(ValueError, match=r"diag \(3\) provided is outside \[-3, 2\]"):
        named.tril_matrix_to_vec(lib.ones(3, 3), 3)
    with pytest.raises(ValueError, match="The size of last dimension is 5"):
        named.vec_to_tril_matrix(lib.ones(5))


@pytest.mark.parametrize("is_binary", [False, True])
def test_probabilities_and_log_odds(is_binary: bool) -> None:
    found = []
    for lib, named in ((weft, utils), (torch, torch.distributions.utils)):
        logits = named.probs_to_logits(lib.tensor([0.0, 0.25, 0.75], dtype=lib.float64), is_binary)
        found.append((logits.numpy(), named.logits_to_probs(logits, is_binary).numpy()))
    for ours, theirs in zip(*found, strict=True):
        np.testing.assert_allclose(ours, theirs, rtol=1e-12)
