"""Sentences 92 to 98: recomputation, and backward from several threads."""

import threading

import pytest
from semantics_lib import leaf, quiet, raises, warns

from oracle import submodule


@pytest.fixture
def ckpt(lib):
    """The module of checkpoint functions."""

    return submodule(f"{lib.__name__}.utils.checkpoint")


@pytest.mark.parametrize("reentrant", [True, False])
def test_092_both_variants(lib, ckpt, reentrant):
    runs = []

    def block(x):
        runs.append(1)
        return (x.exp() * x).sin()

    x = leaf(lib, [0.5, 0.25])
    (expected,) = lib.autograd.grad((x.exp() * x).sin().sum(), x)
    y = ckpt.checkpoint(block, x, use_reentrant=reentrant).sum()
    assert len(runs) == 1
    y.backward()
    assert len(runs) == 2 and lib.allclose(x.grad, expected)
    y = ckpt.checkpoint(block, x, use_reentrant=reentrant).sum()
    if reentrant:
        with raises(RuntimeError, "checkpoint"):
            lib.autograd.grad(y, x)
        with raises(ValueError, "keyword"):
            ckpt.checkpoint(lambda x, scale: x * scale, x, scale=2, use_reentrant=True)
        w = leaf(lib, [2.0])
        with warns("None of the inputs have requires_grad=True"):
            ckpt.checkpoint(lambda t: t * w, lib.ones(1), use_reentrant=True)
        return
    (first,) = lib.autograd.grad(y, x, create_graph=True)
    assert lib.allclose(first, expected)
    second = lib.autograd.grad(first.sum(), x)[0]
    (plain,) = lib.autograd.grad((x.exp() * x).sin().sum(), x, create_graph=True)
    assert lib.allclose(second, lib.autograd.grad(plain.sum(), x)[0])
    y = ckpt.checkpoint(block, x, use_reentrant=False).sum()
    y.backward(retain_graph=True)
    y.backward()
    w = leaf(lib, [2.0])
    out = ckpt.checkpoint(
        lambda t, scale: (t * w).sin() * scale, lib.ones(1), scale=3, use_reentrant=False
    )
    out.sum().backward()
    assert w.grad is not None


def test_093_use_reentrant_should_be_given(lib, ckpt):
    x = leaf(lib, [0.5])
    with warns("use_reentrant parameter should be passed explicitly"):
        y = ckpt.checkpoint(lambda t: t.sin(), x)
    y.sum().backward()
    assert x.grad is not None


def test_094_random_state(lib, ckpt):
    drawn = []

    def block(x):
        noise = lib.rand(3)
        drawn.append(noise.tolist())
        return (x * noise).sin()

    for preserve in (True, False):
        drawn.clear()
        x = leaf(lib, [0.5, 1.0, 1.5])
        y = ckpt.checkpoint(block, x, use_reentrant=False, preserve_rng_state=preserve)
        lib.rand(5)
        y.sum().backward()
        assert (drawn[0] == drawn[1]) is preserve


def test_095_early_stop(lib, ckpt):
    seen = []

    def block(x):
        seen.append("start")
        y = x.sin()
        z = y.exp()
        seen.append("end")
        return z + 1

    x = leaf(lib, [0.5])
    with ckpt.set_checkpoint_early_stop(False):
        y = ckpt.checkpoint(block, x, use_reentrant=False)
    y.sum().backward()
    assert seen == ["start", "end"] * 2
    seen.clear()
    ckpt.checkpoint(block, x, use_reentrant=False).sum().backward()
    assert seen == ["start", "end", "start"]


def test_096_changed_recomputation(lib, ckpt):
    calls = []

    def fewer(x):
        calls.append(1)
        return x.sin().exp() if len(calls) == 1 else x.sin()

    def other_shape(x):
        calls.append(1)
        return x.sin().sum() if len(calls) == 1 else lib.cat([x, x]).sin().sum()

    x = leaf(lib, [0.5, 1.0])
    with raises(ckpt.CheckpointError, "A different number of tensors was saved"):
        ckpt.checkpoint(fewer, x, use_reentrant=False).sum().backward()
    calls.clear()
    with raises(ckpt.CheckpointError, "have different metadata"):
        ckpt.checkpoint(other_shape, x, use_reentrant=False).backward()


def test_097_selective_policies(lib, ckpt):
    import functools

    names = {"MUST_SAVE", "PREFER_SAVE", "MUST_RECOMPUTE", "PREFER_RECOMPUTE", "MUST_CPU_OFFLOAD"}
    assert names - {"MUST_CPU_OFFLOAD"} <= {policy.name for policy in ckpt.CheckpointPolicy}
    x = leaf(lib, [[0.5, 1.0], [0.25, 2.0]])
    (expected,) = lib.autograd.grad(((x @ x).sin() @ x).sum(), x)
    asked = []
    for policy in ckpt.CheckpointPolicy:

        def decide(ctx, op, *args, policy=policy, **kwargs):
            asked.append(op)
            return policy

        contexts = functools.partial(ckpt.create_selective_checkpoint_contexts, decide)
        y = ckpt.checkpoint(
            lambda t: ((t @ t).sin() @ t).sum(), x, use_reentrant=False, context_fn=contexts
        )
        x.grad = None
        y.backward()
        assert lib.allclose(x.grad, expected)
    assert asked


def test_098_threads(lib):
    x = leaf(lib, [1.0])
    here = threading.get_ident()
    seen = []
    y = x * 1
    y.register_hook(lambda g: seen.append(threading.get_ident()))
    y.sum().backward()
    assert seen == [here]
    x.grad = None
    shared = (x * x).sum()

    def work():
        for _ in range(50):
            (x * 2).sum().backward()

    def walk():
        for _ in range(10):
            lib.autograd.grad(shared, x, retain_graph=True)

    with quiet():
        threads = [threading.Thread(target=t) for t in (work,) * 4 + (walk,) * 2]
        for thread in threads:
            thread.start()
        for thread in threads:
            thread.join()
    assert x.grad.item() == 400
