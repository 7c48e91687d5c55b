"""Masked tensors are PyTorch's: the same expression says the same, to the letter, in both libraries."""

from __future__ import annotations

import copy
import pickle
from typing import Any

import pytest

import weft
from oracle import both, submodule, torch

pytestmark = pytest.mark.filterwarnings("ignore")

SAME = """
a | i | z | a.sin() | a.exp() | -a | a.floor() | a ** 2 | 1 / b | a * 2 | a.clamp(1, 3) | a.nan_to_num()
a + a | a * b | a - b | t.maximum(a, b) | t.logaddexp(a, b) | t.fmin(a, b) | a / b | a // b | a % b | t.atan2(a, b)
a == a | a > 1 | a.le(b) | t.ne(a, b) | i & i | i | ~i | a.add_(1) | a.mul_(b) | a.sqrt_() | a.neg_()
a.sum() | a.sum(0) | a.sum(1, keepdim=True) | a.sum((0, 1)) | a.mean(1) | a.mean() | a.prod() | a.prod(0) | a.amax(1)
a.amin(0) | a.argmax(1) | a.argmin(0) | a.std() | a.var() | a.std(1) | z.sum()
t.sum(a, 1) | t.mean(a, 0) | t.amax(a, 0) | i.sum() | i.amax(0)
a.to_tensor(-1) | a.get_data() | a.get_mask() | a.dtype | a.shape | a.requires_grad | a.dim() | a.numel() | len(a)
a[0] | a[:, 1] | a[0, 1:] | a[t.tensor([1, 0])] | a.reshape(3, 2) | a.view(6) | a.transpose(0, 1) | a.t()
a.select(0, 1) | a[1:]
a.unsqueeze(0) | a.split(1) | t.stack([a, a]) | t.cat([a, b]) | a.unsqueeze(0).expand(2, 2, 3) | a.view(2, 3, 1)
a.double() | a.int() | a.to(t.float64) | a.clone() | a.detach() | t.ones_like(a) | t.is_tensor(a)
t.where(a.get_mask(), a, b) | t.masked.is_masked_tensor(a) | t.masked.is_masked_tensor(a.get_data()) | a.is_sparse
t.softmax(a, 0) | a.softmax(1) | a.sum().item() | a.contiguous() | a.flatten() | a.float() | a.abs()
"""
REFUSED = """
t.masked.masked_tensor(a, a.get_mask()) | t.masked.masked_tensor(a.get_data(), t.ones(2, 3))
t.masked.masked_tensor(a.get_data(), t.ones(3, dtype=t.bool)) | t.masked.masked_tensor([1.0], a.get_mask())
a + t.masked.masked_tensor(t.ones(2, 3), t.ones(2, 3, dtype=t.bool)) | a @ a.t() | a.numpy() | t.mm(a, a.t())
t.masked.masked_tensor(a.get_data(), [True]) | t.masked.masked_tensor(a.get_data(), t.ones(2, 1, dtype=t.bool))
"""


def split(text: str) -> list[str]:
    return [part.strip() for line in text.strip().splitlines() for part in line.split(" | ")]


def names(t: Any) -> dict[str, Any]:
    make = submodule(f"{t.__name__}.masked").masked_tensor
    mask = t.tensor([[True, False, True], [False, True, True]])
    return {
        "t": t,
        "a": make(t.arange(6.0).reshape(2, 3), mask),
        "b": make(t.tensor([[1.5, 0.0, 2.0], [-3.0, 4.0, 0.5]]), mask),
        "i": make(t.arange(6).reshape(2, 3), mask),
        "z": make(t.ones(2), t.tensor([False, False])),
    }


@pytest.mark.parametrize("expression", split(SAME))
def test_expressions_agree(expression: str) -> None:
    ours, theirs = (str(eval(expression, names(t))) for t in (weft, torch))
    assert ours.replace("weft.", "torch.") == theirs


@pytest.mark.parametrize("expression", split(REFUSED))
def test_refusals_agree(expression: str) -> None:
    with pytest.raises((TypeError, ValueError, RuntimeError)) as theirs:
        eval(expression, names(torch))
    kinds = tuple(k for k in (ValueError, RuntimeError) if isinstance(theirs.value, k))
    with pytest.raises(kinds or TypeError) as ours:
        eval(expression, names(weft))
    first = str(theirs.value).split("\n")[0]
    if first.startswith(("data", "mask", "Input")):
        assert str(ours.value).split(", called at")[0] == first


@pytest.mark.parametrize("make", ["masked_tensor", "as_masked_tensor"])
@pytest.mark.parametrize(
    "loss",
    [
        "(m * m).sum()",
        "(m * 3).mean()",
        "m.exp().sum(0).sum()",
        "m[0].sum()",
        "m.view(3, 2).amax(1).sum()",
    ],
)
def test_gradients_agree(make: str, loss: str) -> None:
    found = []
    for lib in (weft, torch):
        mask = lib.tensor([[True, False, True], [False, True, True]])
        data = lib.arange(6.0).reshape(2, 3).requires_grad_()
        m = getattr(submodule(f"{lib.__name__}.masked"), make)(data, mask)
        leaf = m.requires_grad_() if make == "masked_tensor" else data
        eval(loss, {"m": m}).backward()
        gradient = getattr(leaf.grad, "get_data", lambda given=leaf.grad: given)()
        found.append(lib.where(mask, gradient, 0.0).tolist())
    assert found[0] == [pytest.approx(row) for row in found[1]]


@both
def test_copies_keep_the_mask(lib: Any) -> None:
    make = submodule(f"{lib.__name__}.masked").masked_tensor
    given = make(lib.arange(3.0), lib.tensor([True, False, True]))
    given = given.requires_grad_()
    other = copy.deepcopy(given)
    assert str(other) == str(given) and other.requires_grad and other is not given


def test_pickles_keep_the_mask() -> None:
    given = weft.masked.masked_tensor(weft.arange(3.0), weft.tensor([True, False, True]))
    assert str(pickle.loads(pickle.dumps(given))) == str(given)
    assert [str(one) for one in given] == ["MaskedTensor(  0.0000, True)", "MaskedTensor(--, False)",
                                           "MaskedTensor(  2.0000, True)"]  # fmt: skip


def test_more_than_pytorch_has_a_meaning_for() -> None:
    a, mask = names(weft)["a"], names(weft)["a"].get_mask()
    assert (a + 1).all().item() and not a.all().item()
    assert weft.equal((2 - a).get_data(), 2 - a.get_data()) and weft.equal((2 - a).get_mask(), mask)
    assert a.norm().item() == pytest.approx((4 + 16 + 25) ** 0.5)
    assert weft.equal(a.T.get_mask(), mask.T) and not weft.zeros_like(a).get_data().any()
    assert weft.var(a, 1, unbiased=False).get_data().tolist() == [1.0, 0.25]
