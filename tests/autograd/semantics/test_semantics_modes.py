"""Sentences 73 to 79: saved-tensor hooks, anomaly mode, grad modes."""

import threading

import pytest
from semantics_lib import is_weft, leaf, quiet, raises


def test_073_saved_tensors_hooks(lib):
    seen = []

    def hooks(name):
        return lib.autograd.graph.saved_tensors_hooks(
            lambda t: (seen.append(f"pack {name}"), t)[1],
            lambda t: (seen.append(f"unpack {name}"), t)[1],
        )

    x = leaf(lib, [3.0])
    with hooks("a"):
        y = (x * x).sum()
    assert seen == ["pack a", "pack a"]
    y.backward()
    assert seen[2:] == ["unpack a", "unpack a"] and x.grad.item() == 6
    seen.clear()
    with hooks("outer"), hooks("inner"):
        y = x.exp().sum()
    assert seen == ["pack inner"]
    y.backward()
    assert seen == ["pack inner", "unpack inner"]
    with lib.autograd.graph.saved_tensors_hooks(lambda t: t * 0 + 7, lambda t: t):
        z = x * lib.tensor([2.0])
    x.grad = None
    z.sum().backward()
    assert x.grad.item() == 7


def test_074_bad_hooks(lib):
    x = leaf(lib, [3.0])
    hooks = lib.autograd.graph.saved_tensors_hooks
    with hooks(lambda t: t, lambda t: 3):
        y = (x * x).sum()
    with raises(TypeError):
        y.backward()
    with hooks(lambda t: t.add_(1), lambda t: t), raises(RuntimeError, "in place"):
        (x * 1).exp() * (x * 1)
    disabled = lib.autograd.graph.disable_saved_tensors_hooks("not here")
    with disabled, raises(RuntimeError, "not here"), hooks(lambda t: t, lambda t: t):
        pass
    with hooks(lambda t: t, lambda t: t):
        pass


def test_075_save_on_cpu_and_allow_mutation(lib):
    x = leaf(lib, [3.0])
    with lib.autograd.graph.save_on_cpu():
        y = (x * x * x).sum()
    y.backward()
    assert x.grad.item() == 27
    with lib.autograd.graph.allow_mutation_on_saved_tensors():
        a = leaf(lib, [2.0, 3.0])
        b = a.clone()
        out = (b * b).sum()
        b.sin_()
        out.backward()
        assert a.grad.tolist() == [4, 6]
        out = (b * b).sum()
    if is_weft(lib):  # nothing saved can be overwritten, so that there is nothing to end
        out.backward()
        return
    with raises(AssertionError, "outside"):
        with lib.autograd.graph.allow_mutation_on_saved_tensors():
            b = a.clone()
            out = (b * b).sum()
            b.sin_()
        out.backward()


def test_076_detect_anomaly(lib):
    x = leaf(lib, [-1.0])
    text = "Function 'SqrtBackward0' returned nan values in its 0th output."
    with quiet(), raises(RuntimeError, text), lib.autograd.detect_anomaly():
        x.sqrt().sum().backward()
    with quiet(), lib.autograd.detect_anomaly(check_nan=False):
        assert lib.is_anomaly_enabled()
        x.sqrt().sum().backward()
    assert not lib.is_anomaly_enabled()
    with quiet(), raises(RuntimeError, text), lib.autograd.set_detect_anomaly(True):
        x.sqrt().sum().backward()
    assert not lib.is_anomaly_enabled()


def test_077_grad_modes(lib):
    x = leaf(lib, [1.0])

    @lib.no_grad()
    def off():
        return (x * 2).requires_grad

    @lib.no_grad
    def plain():
        return (x * 2).requires_grad

    @lib.no_grad()
    def generate():
        yield lib.is_grad_enabled()
        yield lib.is_grad_enabled()

    assert not off() and not plain() and (x * 2).requires_grad
    states = [(inside, lib.is_grad_enabled()) for inside in generate()]
    assert states == [(False, True), (False, True)]
    with lib.no_grad():
        with lib.enable_grad():
            assert lib.is_grad_enabled()
        assert not lib.is_grad_enabled()
        assert [inside for inside in lib.enable_grad()(generate)()] == [False, False]
    with raises(ValueError, "inside"), lib.no_grad():
        raise ValueError("inside")
    assert lib.is_grad_enabled()
    with lib.set_grad_enabled(False):
        assert not lib.is_grad_enabled()
        seen = []
        thread = threading.Thread(target=lambda: seen.append(lib.is_grad_enabled()))
        thread.start()
        thread.join()
        assert seen == [True]
    lib.set_grad_enabled(False)
    assert not lib.is_grad_enabled()
    lib.set_grad_enabled(True)
    assert lib.is_grad_enabled()


def test_078_factories_under_no_grad(lib):
    with lib.no_grad():
        made = [lib.ones(2, requires_grad=True), lib.tensor([1.0], requires_grad=True)]
        assert all(t.requires_grad and t.is_leaf for t in made)


def test_079_inference_mode(lib):
    x = leaf(lib, [2.0])
    with lib.inference_mode():
        y = x * 2
        assert lib.is_inference_mode_enabled() and not lib.is_grad_enabled()
        y.add_(1)
        with lib.inference_mode(False):
            assert not lib.is_inference_mode_enabled()
            normal = lib.ones(1)
    assert y.is_inference() and not y.requires_grad and y.tolist() == [5]
    assert not normal.is_inference()
    with raises(RuntimeError, "Inference tensors cannot be saved for backward"):
        x * y
    assert (x + y).requires_grad
    with raises(RuntimeError, "Inplace update to inference tensor outside InferenceMode"):
        y.add_(1)
    with raises(
        RuntimeError, "Setting requires_grad=True on inference tensor outside InferenceMode"
    ):
        y.requires_grad_()
    copy = y.clone()
    expected = copy.tolist()
    assert not copy.is_inference()
    (x * copy).sum().backward()
    assert x.grad.tolist() == expected

    @lib.inference_mode()
    def inside():
        return lib.ones(1).is_inference()

    assert inside()


@pytest.mark.parametrize("flag", [True, False])
def test_077_multithreading_switch(lib, flag):
    with lib.autograd.set_multithreading_enabled(flag):
        x = leaf(lib, [1.0])
        (x * 2).sum().backward()
    assert x.grad.item() == 2
