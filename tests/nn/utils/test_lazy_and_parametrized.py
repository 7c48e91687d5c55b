"""Lazy modules, weight and spectral norm, parametrizations: against PyTorch, parameter by parameter."""

from __future__ import annotations

import copy
import pickle
from typing import Any

import numpy as np
import pytest

import weft
from oracle import torch


def same(ours: Any, theirs: Any) -> None:
    mine, other = ours.state_dict(), theirs.state_dict()
    assert set(mine) == set(other)
    for key in other:
        assert tuple(mine[key].shape) == tuple(other[key].shape)


@pytest.mark.parametrize(
    ("name", "args", "shape"),
    [
        ("LazyLinear", (5,), (2, 3)),
        ("LazyConv1d", (4, 3), (2, 3, 8)),
        ("LazyConvTranspose2d", (4, 3), (2, 3, 8, 8)),
        ("LazyBatchNorm2d", (), (2, 3, 8, 8)),
        ("LazyInstanceNorm1d", (), (2, 3, 8)),
    ],
)
def test_lazy_modules_become_plain_ones(name: str, args: Any, shape: Any) -> None:
    ours, theirs = getattr(weft.nn, name)(*args), getattr(torch.nn, name)(*args)
    assert repr(ours) == repr(theirs)
    assert ours.has_uninitialized_params()
    copied = copy.deepcopy(ours)
    ours(weft.ones(*shape))
    theirs(torch.ones(*shape))
    assert repr(ours) == repr(theirs)
    assert type(ours).__name__ == name.replace("Lazy", "")
    same(ours, theirs)
    copied.load_state_dict(ours.state_dict())
    assert not copied.has_uninitialized_params()
    assert list(pickle.loads(pickle.dumps(ours)).state_dict()) == list(ours.state_dict())


def test_a_parameter_without_a_shape_says_so() -> None:
    with pytest.raises(RuntimeError, match="Can't access the shape of an uninitialized"):
        _ = weft.nn.UninitializedParameter().shape


@pytest.mark.parametrize("dim", [0, 1, None])
@pytest.mark.filterwarnings("ignore")
def test_weight_norm_agrees(dim: Any) -> None:
    ours, theirs = weft.nn.Linear(3, 4), torch.nn.Linear(3, 4)
    theirs.load_state_dict({k: torch.tensor(v.numpy()) for k, v in ours.state_dict().items()})
    weft.nn.utils.weight_norm(ours, dim=dim)
    torch.nn.utils.weight_norm(theirs, dim=dim)
    same(ours, theirs)
    x = np.random.default_rng(0).standard_normal((2, 3)).astype(np.float32)
    ours(weft.tensor(x)).sum().backward()
    theirs(torch.tensor(x)).sum().backward()
    for (name, p), (_, q) in zip(ours.named_parameters(), theirs.named_parameters(), strict=True):
        np.testing.assert_allclose(p.grad.numpy(), q.grad.numpy(), 1e-5, 1e-6, err_msg=name)
    before = ours(weft.tensor(x)).detach().numpy()
    weft.nn.utils.remove_weight_norm(ours)
    np.testing.assert_allclose(ours(weft.tensor(x)).detach().numpy(), before, 1e-6, 1e-6)
    assert sorted(ours.state_dict()) == ["bias", "weight"]


def test_spectral_norm_gives_the_largest_singular_value_one() -> None:
    plain = weft.nn.Linear(6, 5)
    with weft.no_grad():  # power iteration is slow where the two largest singular values are close
        plain.weight.copy_(weft.diag(weft.tensor([3.0, 1.5, 1.0, 0.5, 0.25])) @ weft.eye(6)[:5])
    layer = weft.nn.utils.spectral_norm(plain, n_power_iterations=30)
    layer(weft.ones(1, 6))
    assert sorted(layer.state_dict()) == ["bias", "weight_orig", "weight_u", "weight_v"]
    assert abs(np.linalg.svd(layer.weight.detach().numpy())[1][0] - 1) < 1e-4
    weft.nn.utils.remove_spectral_norm(layer)
    assert sorted(layer.state_dict()) == ["bias", "weight"]


class Symmetric(weft.nn.Module):
    def forward(self, x: Any) -> Any:
        return x.triu() + x.triu(1).T

    def right_inverse(self, x: Any) -> Any:
        return x.triu()


def test_a_parametrization_computes_assigns_and_goes() -> None:
    parametrize = weft.nn.utils.parametrize
    layer = weft.nn.Linear(3, 3)
    parametrize.register_parametrization(layer, "weight", Symmetric())
    assert parametrize.is_parametrized(layer, "weight")
    assert sorted(layer.state_dict()) == ["bias", "parametrizations.weight.original"]
    np.testing.assert_array_equal(layer.weight.detach().numpy(), layer.weight.T.detach().numpy())
    layer.weight = weft.ones(3, 3)
    assert layer.weight.tolist() == weft.ones(3, 3).tolist()
    layer(weft.ones(1, 3)).sum().backward()
    assert layer.parametrizations.weight.original.grad is not None
    with parametrize.cached():
        assert layer.weight is layer.weight
    copied = copy.deepcopy(layer)
    assert copied.weight.tolist() == layer.weight.tolist()
    parametrize.remove_parametrizations(layer, "weight")
    assert type(layer) is weft.nn.Linear and sorted(layer.state_dict()) == ["bias", "weight"]


def test_a_parametrization_may_not_change_the_shape() -> None:
    class Wider(weft.nn.Module):
        def forward(self, x: Any) -> Any:
            return weft.cat([x, x])

    with pytest.raises(ValueError, match="may not change the shape"):
        weft.nn.utils.parametrize.register_parametrization(weft.nn.Linear(2, 2), "weight", Wider())


def test_parametrized_weight_norm_has_pytorchs_keys() -> None:
    ours = weft.nn.utils.parametrizations.weight_norm(weft.nn.Linear(3, 4))
    theirs = torch.nn.utils.parametrizations.weight_norm(torch.nn.Linear(3, 4))
    same(ours, theirs)
    ours = weft.nn.utils.parametrizations.spectral_norm(weft.nn.Linear(3, 4))
    theirs = torch.nn.utils.parametrizations.spectral_norm(torch.nn.Linear(3, 4))
    same(ours, theirs)
