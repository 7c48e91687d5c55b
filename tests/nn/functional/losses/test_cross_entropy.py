"""Cross entropy of classes is one record, which means what log_softmax and nll_loss together mean."""

from __future__ import annotations

import math
from collections.abc import Callable
from typing import Any

import pytest

import weft
from weft.config import config
from weft.debug import stages
from weft.engine.ir.tape import tape
from weft.func import grad, hessian, jvp, vmap
from weft.nn import functional

pytestmark = pytest.mark.usefixtures("verified")


def random(*shape: int, seed: int = 0, dtype: Any = weft.float64) -> Any:
    return weft.randn(*shape, generator=weft.Generator().manual_seed(seed), dtype=dtype)


def composed(x: Any, target: Any, **given: Any) -> Any:
    return functional.nll_loss(functional.log_softmax(x, 1), target, **given)


CLASSES = weft.tensor([0, 4, 2, -100, 1, 3])
PLANES = weft.tensor([[[0, 4], [2, 1]], [[3, 3], [-100, 0]]])
CASES: dict[str, tuple[Any, Any, dict[str, Any]]] = {
    "mean": (random(6, 5), CLASSES, {}),
    "sum": (random(6, 5), CLASSES, {"reduction": "sum"}),
    "ignored": (random(6, 5), CLASSES.clamp(min=0), {"ignore_index": 2}),
    "weights": (random(6, 5), CLASSES, {"weight": random(5, seed=1).exp()}),
    "planes": (random(2, 5, 2, 2), PLANES, {}),
    "weighted planes": (random(2, 5, 2, 2), PLANES, {"weight": random(5, seed=1).exp()}),
}


def assert_close(found: Any, expected: Any) -> None:
    assert (found - expected).abs().max().item() < 1e-13


@pytest.mark.parametrize("name", CASES)
def test_every_derivative_is_that_of_the_composition(name: str) -> None:
    x, target, given = CASES[name]
    v = random(*x.shape, seed=2)

    def derivatives(function: Callable[..., Any]) -> list[Any]:
        def loss(x: Any) -> Any:
            return function(x, target, **given).square()

        def along(x: Any) -> Any:
            return (grad(loss)(x) * v).sum()

        return [
            *(loss(x), grad(loss)(x), jvp(loss, (x,), (v,))[1], hessian(loss)(x)),
            *(jvp(grad(loss), (x,), (v,))[1], grad(lambda x: (grad(along)(x) * v).sum())(x)),
        ]

    for found, expected in zip(
        derivatives(functional.cross_entropy), derivatives(composed), strict=True
    ):
        assert_close(found, expected)


def test_over_a_dimension() -> None:
    x, targets = random(4, 6, 5), weft.tensor([[0, 4, 2, 1, 1, 3]] * 3 + [[2] * 6])
    for function in (functional.cross_entropy, grad(functional.cross_entropy)):
        found = vmap(function)(x, targets)
        assert_close(found, weft.stack([function(a, b) for a, b in zip(x, targets, strict=True)]))
        found = vmap(function, in_dims=(None, 0))(x[0], targets)
        assert_close(found, weft.stack([function(x[0], b) for b in targets]))
        found = vmap(function, in_dims=(0, None))(x, targets[0])
        assert_close(found, weft.stack([function(a, targets[0]) for a in x]))


def test_examples_have_the_same_bits_in_batches_and_alone() -> None:
    rows, target = random(9, 40, dtype=weft.float32), weft.arange(9) * 4

    def run() -> tuple[list[Any], list[Any]]:
        leaves = [rows[i].clone().requires_grad_() for i in range(9)]
        losses = [functional.cross_entropy(x, target[i]) for i, x in enumerate(leaves)]
        weft.stack(losses).sum().backward()
        return [loss.tolist() for loss in losses], [x.grad.tolist() for x in leaves]

    batched = run()
    config.batch = False
    try:
        assert run() == batched
    finally:
        config.batch = True


def test_the_gradient_takes_what_the_loss_has_made_of_a_row() -> None:
    """The powers are made once, and no gradient of the logarithms is written."""

    def step() -> Any:
        x = random(64, 100, dtype=weft.float32).requires_grad_()
        weft.realize(x.detach())
        functional.cross_entropy(x, weft.arange(64)).backward()
        return x.grad

    names = [line.split("= ")[1].split("(")[0] for line in stages(step)["collect"].splitlines()]
    assert names.count("exp") == 1 and names.count("amax") == 1


@pytest.mark.parametrize("shape", [(5,), (3, 5), (2, 5, 4)])
def test_what_is_known_of_the_classes_changes_no_bit(shape: tuple[int, ...]) -> None:
    """One node where classes are known, composed where the kernel has to check them."""

    def run(classes: Any) -> tuple[list[str], list[Any]]:
        x = random(*shape, dtype=weft.float32).requires_grad_()
        before = len(tape().pending())
        losses = functional.cross_entropy(x, classes, reduction="none")
        names = [node.op.name for node in tape().pending()[before:]]
        losses.sum().backward()
        return names, [losses.tolist(), x.grad.tolist()]

    numbers = weft.arange(math.prod(shape) // 5).reshape(*shape[:1][: len(shape) - 1], *shape[2:])
    known = weft.tensor((numbers % 5).tolist())
    names, values = run(known)
    assert names == ["cross_entropy"]
    names, composed_values = run(known.double().long())
    assert "gather" in names and values == composed_values


def test_a_pending_class_out_of_range_is_found_by_the_kernel() -> None:
    loss = functional.cross_entropy(random(5), weft.tensor(4) + 1)
    with pytest.raises(IndexError):
        loss.item()


def test_no_rows() -> None:
    x = weft.ones(0, 3, requires_grad=True)
    loss = functional.cross_entropy(x, weft.zeros(0, dtype=weft.int64), reduction="sum")
    loss.backward()
    assert loss.item() == 0 and x.grad.shape == (0, 3)
    assert loss.grad_fn.name() == "NllLossBackward0"


@pytest.mark.parametrize("target", [weft.zeros(0, dtype=weft.int64), weft.zeros(0).long() + 1])
@pytest.mark.parametrize("ignore_index", [-100, 1])
def test_the_mean_of_no_rows(target: weft.Tensor, ignore_index: int) -> None:
    junk = weft.ones(16).mul(7).tolist()  # its memory may come again
    loss = functional.cross_entropy(weft.ones(0, 3) * 2, target, ignore_index=ignore_index)
    assert junk and math.isnan(loss.item())
