"""Functions of `weft` that stand for a method or a layer's function: PyTorch's names, orders and values."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest

import weft
from oracle import torch
from weft.functional.imported_on_call import IN_PLACE

F = weft.nn.functional
MORE: dict[str, tuple[Any, ...]] = {
    "addmv_": (np.ones((2, 2)), np.ones(2)), "as_strided_": ((1,), (1,)), "clamp_": (0.5, 1.0), "clamp_max_": (0.5,),
    "clamp_min_": (0.5,), "clip_": (0.5, 1.0), "gcd_": (np.array([4, 6]),), "lcm_": (np.array([4, 6]),),
    "index_put_": ((np.array([1]),), np.array(7.0)), "ldexp_": (np.array([1, 2]),), "xlogy_": (np.array([2.0, 3.0]),),
}  # fmt: skip


def of(lib: Any, value: Any) -> Any:
    """Arrays as tensors, also inside tuples."""
    if isinstance(value, tuple):
        return tuple(of(lib, part) for part in value)
    return lib.tensor(value) if isinstance(value, np.ndarray) else value


@pytest.mark.parametrize("name", IN_PLACE)
def test_a_function_in_place_is_the_method(name: str) -> None:
    start = np.array([6, 9]) if name in ("gcd_", "lcm_") else np.array([0.25, 0.75])
    start = start + 1 if name in ("acosh_", "arccosh_") else start
    found = []
    for lib in (weft, torch):
        x = lib.tensor(start)
        result = getattr(lib, name)(x, *of(lib, MORE.get(name, ())))
        assert result is x
        found.append(x.numpy())
    np.testing.assert_allclose(*found, rtol=1e-12)
    with pytest.raises(TypeError, match="must be Tensor, not float"):
        getattr(weft, name)(1.0)


def test_functions_of_layers_have_pytorchs_order() -> None:
    x = np.random.default_rng(0).standard_normal((4, 3, 5))
    one, two = np.arange(1.0, 4.0), np.arange(3.0)
    for name, arguments in {
        "batch_norm": (x, one, two, two, one, False, 0.1, 1e-5, True),
        "instance_norm": (x, one, two, None, None, True, 0.1, 1e-5, True),
        "embedding": (x[0], np.array([[2, 0]]), 0),
        "dropout": (x, 0.5, False),
        "alpha_dropout": (x, 0.5, False),
        "feature_dropout": (x, 0.5, False),
        "feature_alpha_dropout": (x, 0.5, False),
        "layer_norm": (x, (5,)),
        "conv1d": (x, np.ones((2, 3, 2))),
        "max_pool1d": (x, 2),
        "cosine_similarity": (x, x + 1),
        "threshold": (x, 0.5, 3.0),
    }.items():
        ours, theirs = (getattr(lib, name)(*of(lib, arguments)) for lib in (weft, torch))
        np.testing.assert_allclose(
            ours.numpy(), theirs.numpy(), rtol=1e-6, atol=1e-12, err_msg=name
        )
    assert weft.conv2d is F.conv2d and weft.selu is F.selu


def test_feature_dropout_drops_whole_features() -> None:
    weft.manual_seed(0)
    dropped = weft.feature_dropout(weft.ones(50, 40, 3), 0.5, True)
    assert set(dropped.flatten().tolist()) == {0.0, 2.0}
    assert bool((dropped == dropped[:, :, :1]).all())
    assert 0.4 < float((dropped == 0).float().mean()) < 0.6
    with pytest.raises(TypeError, match="argument 'weight' .position 1. must be Tensor, not list"):
        weft.embedding([1.0], weft.tensor([0]))


def test_questions_about_shape_and_truth() -> None:
    x = weft.tensor([[2.0]])
    assert weft.is_nonzero(x) and not (x * 0).is_nonzero()
    assert x.is_same_size(weft.ones(1, 1)) and not weft.is_same_size(x, weft.ones(1))
    with pytest.raises(RuntimeError, match=r"(?s)more than one value is ambiguous.*any\(\)"):
        weft.is_nonzero(weft.ones(2))
    with pytest.raises(RuntimeError, match="no values is ambiguous"):
        weft.ones(0).is_nonzero()


def test_classes_beyond_their_number_are_refused() -> None:
    """At the call where the classes are there already, else where they are read."""
    one_hot, there = F.one_hot, weft.tensor([3, 0])
    for wrong in (there, there - 1):
        weft.realize(wrong)
        with pytest.raises(RuntimeError, match="Class values must be smaller"):
            one_hot(wrong, 3)
    with pytest.raises(IndexError, match="one_hot|scatter"):
        one_hot(weft.tensor([1, 0]) + 2, 3).tolist()
    assert one_hot(weft.tensor([1, 0]) + 1, 3).tolist() == [[0, 0, 1], [0, 1, 0]]
    assert one_hot(weft.zeros(0, dtype=weft.int64), 3).shape == (0, 3)
    rows = weft.func.vmap(lambda c: one_hot(c, 3))(weft.tensor([1, 2]))
    assert rows.tolist() == [[0, 1, 0], [0, 0, 1]]


@pytest.mark.parametrize(
    ("call", "text"),
    [
        (
            lambda: weft.ones(3).masked_select(weft.tensor([1, 0, 1])),
            "expected BoolTensor for mask",
        ),
        (lambda: weft.Generator("cuda"), "not compiled with CUDA"),
        (lambda: weft.ones(3).quantile(50), r"must be in the range \[0, 1\]"),
        (lambda: weft.nn.utils.rnn.pad_sequence([]), "an empty list of sequences"),
        (lambda: weft.optim.Adam([{"lr": 1.0}]), "a dictionary with 'params' and options"),
    ],
)
def test_more_that_is_refused(call: Any, text: str) -> None:
    with pytest.raises((RuntimeError, TypeError, KeyError), match=text) as caught:
        call()
    caught.match("\n  fix ")


@pytest.mark.parametrize(
    "name",
    ["less", "less_equal", "greater", "greater_equal", "not_equal", "arctan2", "multiply", "clip"],
)
def test_long_names_have_in_place_forms(name: str) -> None:
    found = []
    for lib in (weft, torch):
        x = lib.tensor([0.25, 0.75, -1.0], dtype=lib.float64)
        assert getattr(x, f"{name}_")(lib.tensor([0.5, 0.75, -2.0], dtype=lib.float64)) is x
        found.append(x.numpy())
    np.testing.assert_allclose(*found, rtol=1e-15)
