"""Pruned parameters: PyTorch's masks, values and state where nothing is drawn; counts where it is."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest

import weft
from oracle import submodule, torch
from weft.nn.utils import prune

oracle = submodule("torch.nn.utils.prune")


def pair() -> tuple[Any, Any]:
    theirs = torch.nn.Sequential(torch.nn.Linear(6, 5), torch.nn.ReLU(), torch.nn.Linear(5, 4))
    ours = weft.nn.Sequential(weft.nn.Linear(6, 5), weft.nn.ReLU(), weft.nn.Linear(5, 4))
    ours.load_state_dict({k: weft.tensor(v.numpy()) for k, v in theirs.state_dict().items()})
    return ours, theirs


def same(ours: Any, theirs: Any) -> None:
    """State, a forward and gradients."""
    mine, other = ours.state_dict(), theirs.state_dict()
    assert list(mine) == list(other)
    for key, value in other.items():
        np.testing.assert_array_equal(mine[key].numpy(), value.numpy(), err_msg=key)
    array = np.random.default_rng(0).standard_normal((3, 6)).astype(np.float32)
    outputs = []
    for library, model in ((weft, ours), (torch, theirs)):
        model.zero_grad()
        out = model(library.tensor(array))
        out.square().sum().backward()
        outputs.append([out.detach(), *(parameter.grad for parameter in model.parameters())])
    for a, b in zip(*outputs, strict=True):
        np.testing.assert_allclose(a.numpy(), b.numpy(), rtol=1e-4, atol=1e-5)


CHAINS: dict[str, Any] = {
    "identity": lambda part, m, t: part.identity(m[0], "weight"),
    "share": lambda part, m, t: part.l1_unstructured(m[0], "weight", 0.4),
    "count": lambda part, m, t: part.l1_unstructured(m[0], "bias", 2),
    "nothing": lambda part, m, t: part.l1_unstructured(m[0], "weight", 0),
    "scores": lambda part, m, t: part.l1_unstructured(
        m[0], "weight", 7, importance_scores=t(np.arange(30.0).reshape(5, 6))
    ),
    "slices": lambda part, m, t: part.ln_structured(m[0], "weight", 2, n=2, dim=1),
    "infinite norm": lambda part, m, t: part.ln_structured(m[0], "weight", 0.5, float("inf"), -1),
    "given": lambda part, m, t: part.custom_from_mask(m[2], "weight", t(np.eye(4, 5))),
    "twice": lambda part, m, t: [part.l1_unstructured(m[0], "weight", 0.3) for _ in range(3)],
    "mixed": lambda part, m, t: [
        part.ln_structured(m[0], "weight", 2, 1, 0),
        part.l1_unstructured(m[0], "weight", 5),
        part.ln_structured(m[0], "weight", 1, 2, 1),
    ],
    "all": lambda part, m, t: part.global_unstructured(
        [(m[0], "weight"), (m[2], "weight")], part.L1Unstructured, amount=0.4
    ),
    "all after one": lambda part, m, t: [
        part.l1_unstructured(m[0], "weight", 9),
        part.global_unstructured(
            [(m[0], "weight"), (m[2], "weight")], part.L1Unstructured, amount=11
        ),
    ],
}


@pytest.mark.parametrize("name", CHAINS)
def test_the_same_elements_go(name: str) -> None:
    ours, theirs = pair()
    CHAINS[name](prune, ours, weft.tensor)
    CHAINS[name](oracle, theirs, torch.tensor)
    assert prune.is_pruned(ours) and prune.is_pruned(ours[2]) == oracle.is_pruned(theirs[2])
    same(ours, theirs)


def test_removed_pruning_leaves_zeros_in_a_plain_parameter() -> None:
    ours, theirs = pair()
    for part, model in ((prune, ours), (oracle, theirs)):
        part.l1_unstructured(model[0], "weight", 0.5)
        part.ln_structured(model[0], "weight", 1, 2, 0)
        assert part.remove(model[0], "weight") is model[0]
    assert isinstance(ours[0].weight, weft.nn.Parameter) and not prune.is_pruned(ours)
    assert [n for n, _ in ours.named_parameters()] != [n for n, _ in pair()[0].named_parameters()]
    same(ours, theirs)


@pytest.mark.parametrize(("amount", "gone"), [(7, 7), (0.5, 15), (0, 0), (1.0, 30)])
def test_so_many_random_elements_go(amount: Any, gone: int) -> None:
    layer = prune.random_unstructured(weft.nn.Linear(6, 5), "weight", amount)
    assert int((layer.weight_mask == 0).sum()) == gone
    prune.random_unstructured(layer, "weight", 0.5)
    assert int((layer.weight_mask == 0).sum()) == gone + round((30 - gone) / 2)


@pytest.mark.parametrize("dim", [0, 1, -1])
def test_whole_random_slices_go(dim: int) -> None:
    layer = prune.random_structured(weft.nn.Linear(6, 5), "weight", 2, dim)
    left = layer.weight_mask.sum(1 - dim % 2)
    assert int((left == 0).sum()) == 2 and len(set(left.tolist())) == 2


@pytest.mark.parametrize(
    ("call", "error"),
    [
        (lambda part, m, t: part.l1_unstructured(m, "weight", 1.5), ValueError),
        (lambda part, m, t: part.l1_unstructured(m, "weight", -1), ValueError),
        (lambda part, m, t: part.l1_unstructured(m, "weight", "all"), TypeError),
        (lambda part, m, t: part.l1_unstructured(m, "weight", 31), ValueError),
        (lambda part, m, t: part.l1_unstructured(m, "weights", 1), AttributeError),
        (lambda part, m, t: part.ln_structured(m, "weight", 1, 2, 2), IndexError),
        (lambda part, m, t: part.ln_structured(m, "bias", 1, 2, 0), ValueError),
        (lambda part, m, t: part.remove(m, "weight"), ValueError),
        (lambda part, m, t: part.custom_from_mask(m, "weight", t(np.ones(3))), AssertionError),
        (
            lambda part, m, t: part.global_unstructured(
                [(m, "weight")], part.LnStructured, amount=1, n=2
            ),
            TypeError,
        ),
    ],
)
def test_what_does_not_fit_is_refused_and_leaves_the_module_alone(call: Any, error: type) -> None:
    with pytest.raises(error):
        call(oracle, torch.nn.Linear(6, 5), torch.tensor)
    layer = weft.nn.Linear(6, 5)
    with pytest.raises(error) as caught:
        call(prune, layer, weft.tensor)
    assert isinstance(caught.value, weft.errors.WeftError)
    assert list(layer.state_dict()) == ["weight", "bias"]
