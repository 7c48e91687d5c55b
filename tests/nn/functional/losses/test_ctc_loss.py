"""Connectionist temporal classification beside PyTorch: values, gradients, examples without alignments, errors."""

from __future__ import annotations

import numpy as np
import pytest

import weft
from oracle import torch
from weft.nn.functional import ctc_loss

SHAPES = {  # T, N, C, S
    "small": (12, 3, 6, 4),
    "long": (60, 2, 20, 25),
    "one target": (5, 4, 3, 1),
    "no targets": (4, 2, 3, 0),
    "no examples": (4, 0, 3, 2),
}


def scores(shape, dtype=np.float64):
    logits = np.random.default_rng(0).standard_normal(shape)
    return (logits - np.log(np.exp(logits).sum(-1, keepdims=True))).astype(dtype)


def batch(case):
    """Log probabilities, targets, steps and targets of each example; some of them have no alignment."""
    steps, examples, classes, most = SHAPES[case]
    rng = np.random.default_rng(1)
    return (
        scores((steps, examples, classes)),
        rng.integers(1, classes, (examples, most)),
        rng.integers(1, steps + 1, (examples,)),
        rng.integers(0, most + 1, (examples,)),
    )


def both(inputs, **options):
    """Loss and gradient in Weft and in PyTorch, where each example's loss counts differently."""
    results = []
    for lib, function in ((weft, ctc_loss), (torch, torch.nn.functional.ctc_loss)):
        logs, *rest = (lib.tensor(x) for x in inputs)
        logs.requires_grad_()
        loss = function(logs, *rest, **options)
        loss.backward(lib.arange(1, loss.numel() + 1).reshape(loss.shape).to(loss.dtype))
        results += [loss.detach().numpy(), logs.grad.numpy()]
    return results


@pytest.mark.parametrize("zero_infinity", [False, True])
@pytest.mark.parametrize("case", [case for case in SHAPES if case != "no examples"])
def test_losses_and_gradients_are_pytorchs(case, zero_infinity):
    ours, slope, theirs, expected = both(batch(case), reduction="none", zero_infinity=zero_infinity)
    np.testing.assert_allclose(ours, theirs, rtol=1e-12, atol=1e-14)
    np.testing.assert_allclose(slope, expected, rtol=1e-10, atol=1e-12)


@pytest.mark.parametrize("reduction", ["mean", "sum"])
def test_reductions_are_pytorchs(reduction):
    ours, slope, theirs, expected = both(batch("small"), reduction=reduction, zero_infinity=True)
    np.testing.assert_allclose(ours, theirs, rtol=1e-12)
    np.testing.assert_allclose(slope, expected, rtol=1e-10, atol=1e-12)


def test_impossible_classes_and_equal_neighbours():
    logs = scores((9, 2, 4))
    logs[3, :, 2] = -np.inf
    inputs = logs, np.array([[2, 2, 2], [1, 3, 3]]), np.array([9, 7]), np.array([3, 3])
    ours, slope, theirs, expected = both(inputs, reduction="none")
    np.testing.assert_allclose(ours, theirs, rtol=1e-12)
    impossible = np.isneginf(logs)  # no alignment emits it; PyTorch has nans there
    assert not slope[impossible].any()
    expected[impossible] = 0
    np.testing.assert_allclose(slope, expected, rtol=1e-10, atol=1e-12)


def test_a_batch_without_examples():
    logs, *rest = (weft.tensor(x) for x in batch("no examples"))
    assert ctc_loss(logs, *rest, reduction="none").shape == (0,)
    assert ctc_loss(logs, *rest, reduction="sum").item() == 0


@pytest.mark.parametrize("name", ["float32", "float16", "bfloat16"])
def test_sums_are_of_float64(name):
    """The loss of log probabilities of a narrow type is that of the same numbers in float64, rounded once."""
    logs, *rest = (weft.tensor(x) for x in batch("small"))
    narrow = logs.to(getattr(weft, name))
    loss = ctc_loss(narrow, *rest, reduction="none")
    assert loss.dtype is narrow.dtype
    exact = ctc_loss(narrow.double(), *rest, reduction="none")
    assert weft.equal(loss, exact.to(narrow.dtype))


def test_operands_that_are_not_contiguous():
    logs, targets, steps, labels = (weft.tensor(x) for x in batch("small"))
    turned = logs.permute(2, 0, 1).contiguous().permute(1, 2, 0)
    wide = weft.stack([targets, targets], 2)[:, :, 1]
    plain = ctc_loss(logs, targets, steps, labels, reduction="none")
    assert weft.equal(ctc_loss(turned, wide, steps, labels, reduction="none"), plain)
    line = weft.cat([row[:size] for row, size in zip(targets, labels.tolist(), strict=True)])
    assert weft.equal(ctc_loss(logs, line, steps, labels, reduction="none"), plain)


def test_what_stands_behind_an_examples_targets_does_not_count():
    logs, targets, steps, labels = batch("small")
    filled = np.where(np.arange(targets.shape[1]) < labels[:, None], targets, -7)
    plain, other = (
        ctc_loss(*(weft.tensor(x) for x in (logs, t, steps, labels)), reduction="none")
        for t in (targets, filled)
    )
    assert weft.equal(plain, other)


@pytest.mark.parametrize(
    ("targets", "error", "words"),
    [
        ([[1, 6], [1, 2], [1, 2]], IndexError, "target 6 is out of bounds for 6 classes"),
        ([[1, -1], [1, 2], [1, 2]], IndexError, "target -1 is out of bounds"),
        ([[1, 2], [1, 2]], RuntimeError, "size 3 at dimension 0, but got size 2"),
        ([[1], [1], [1]], RuntimeError, "size at least 2 at dimension 1, but got size 1"),
    ],
)
def test_targets_that_do_not_fit(targets, error, words):
    logs = weft.tensor(scores((5, 3, 6)))
    with pytest.raises(error, match=words):
        ctc_loss(logs, weft.tensor(targets), [5, 5, 5], [2, 2, 2])


@pytest.mark.parametrize(
    ("steps", "labels", "words"),
    [
        ([6, 5, 5], [2, 2, 2], "input_lengths to have value at most 5, but got value 6"),
        ([5, 5, 5], [2, -1, 2], "target_lengths to have value at least 0, but got value -1"),
        ([5, 5], [2, 2, 2], "input_lengths must be of size batch_size"),
    ],
)
def test_lengths_that_do_not_fit(steps, labels, words):
    logs = weft.tensor(scores((5, 3, 6)))
    with pytest.raises(RuntimeError, match=words):
        ctc_loss(logs, weft.tensor([[1, 2]] * 3), steps, labels)


def test_the_gradient_has_a_gradient():
    logs, *rest = (weft.tensor(x) for x in batch("one target"))
    logs.requires_grad_()
    assert weft.autograd.gradgradcheck(
        lambda x: ctc_loss(x.log_softmax(-1), *rest, reduction="none", zero_infinity=True), (logs,)
    )
