"""Orthogonal parametrizations, and modules moved without their values."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest

import weft
from oracle import torch


def holder(library: Any, shape: tuple[int, ...]) -> Any:
    module = library.nn.Module()
    module.weight = library.nn.Parameter(library.randn(*shape, dtype=library.float64))
    return module


@pytest.mark.parametrize("shape", [(4, 4), (5, 3), (3, 5), (2, 4, 3)])
@pytest.mark.parametrize("kind", [None, "matrix_exp", "cayley", "householder"])
@pytest.mark.parametrize("trivialized", [True, False])
def test_weights_are_orthogonal_and_those_of_the_same_state(
    shape: tuple[int, ...], kind: str | None, trivialized: bool
) -> None:
    found, cotangent = [], np.random.default_rng(1).standard_normal(shape)
    for library in (torch, weft):
        register = library.nn.utils.parametrizations.orthogonal
        found.append(
            register(holder(library, shape), "weight", kind, use_trivialization=trivialized)
        )
    theirs, ours = found
    wide = shape[-2] < shape[-1]
    start = ours.weight.detach().numpy()
    start = start.swapaxes(-1, -2) if wide else start
    unit = np.broadcast_to(np.eye(start.shape[-1]), (*shape[:-2], start.shape[-1], start.shape[-1]))
    np.testing.assert_allclose(start.swapaxes(-1, -2) @ start, unit, atol=1e-10)
    state = {k: weft.from_numpy(v.numpy().copy()) for k, v in theirs.state_dict().items()}
    assert list(ours.state_dict()) == list(state)
    ours.load_state_dict(state)
    for library, module in ((torch, theirs), (weft, ours)):
        (module.weight * library.from_numpy(cotangent)).sum().backward()
    np.testing.assert_allclose(
        ours.weight.detach().numpy(), theirs.weight.detach().numpy(), atol=1e-12
    )
    key = "parametrizations.weight.original"
    np.testing.assert_allclose(
        ours.get_parameter(key).grad.numpy(), theirs.get_parameter(key).grad.numpy(), atol=1e-11
    )


def test_an_orthogonal_weight_is_kept_and_can_be_assigned() -> None:
    layer = weft.nn.Linear(3, 3, dtype=weft.float64)
    weft.nn.init.orthogonal_(layer.weight)  # to the precision of its type
    before = layer.weight.detach().clone()
    weft.nn.utils.parametrizations.orthogonal(layer)
    np.testing.assert_allclose(layer.weight.detach().numpy(), before.numpy(), atol=1e-12)
    layer.weight = before.flip(0)
    np.testing.assert_allclose(layer.weight.detach().numpy(), before.flip(0).numpy(), atol=1e-12)


@pytest.mark.parametrize(
    ("name", "kind", "text"),
    [
        ("bias", None, "Expected a matrix or batch of matrices. Got a tensor of 1 dim"),
        ("nothing", None, "has no parameter or buffer with name 'nothing'"),
        ("weight", "qr", "orthogonal_map has to be one of"),
    ],
)
def test_what_cannot_be_orthogonal_is_refused(name: str, kind: str | None, text: str) -> None:
    for library in (weft, torch):
        with pytest.raises(ValueError, match=text):
            library.nn.utils.parametrizations.orthogonal(library.nn.Linear(3, 2), name, kind)


def test_a_module_is_moved_without_its_values() -> None:
    module = weft.nn.Sequential(weft.nn.Linear(3, 2), weft.nn.BatchNorm1d(2))
    parameters, shapes = list(module.parameters()), [v.shape for v in module.state_dict().values()]
    assert module.to_empty(device="cpu") is module
    assert list(module.parameters()) == parameters and all(p.requires_grad for p in parameters)
    assert [value.shape for value in module.state_dict().values()] == shapes
    own = weft.nn.Sequential(weft.nn.Linear(3, 2))
    pointer = own[0].weight.data_ptr()
    own.to_empty(device="cpu", recurse=False)
    assert own[0].weight.data_ptr() == pointer


def test_a_shared_module_is_the_module() -> None:
    module = weft.nn.Linear(3, 2)
    before = module.weight.tolist()
    assert module.share_memory() is module and module.weight.tolist() == before
