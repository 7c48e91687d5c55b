"""Sentences 32 to 47: version counters, operations in place, views."""

import pytest
from semantics_lib import is_weft, leaf, raises, warns

MODIFIED = (
    "one of the variables needed for gradient computation has been modified by an inplace operation"
)


def test_032_mutated_saved_output(lib):
    """Weft keeps the saved value, and gives the exact gradient; PyTorch refuses."""
    x = leaf(lib, [1.0, 2.0])
    y = x.exp()
    expected = y.tolist()
    y.mul_(2)
    if is_weft(lib):
        y.sum().backward()
        assert x.grad.tolist() == [2 * value for value in expected]
        return
    with raises(RuntimeError, MODIFIED) as caught:
        y.sum().backward()
    text = "[torch.FloatTensor [2]], which is output 0 of Exp"
    assert text in str(caught.value)
    assert "is at version 1; expected version 0 instead" in str(caught.value)


def test_033_mutated_saved_input(lib):
    """Weft differentiates at the value that was used; PyTorch refuses."""
    x, w = leaf(lib, [1.0, 2.0]), lib.tensor([3.0, 4.0])
    y = (x * w).sum()
    w.add_(10)
    if is_weft(lib):
        y.backward()
        assert x.grad.tolist() == [3, 4]
        return
    with raises(RuntimeError, MODIFIED) as caught:
        y.backward()
    assert "[torch.FloatTensor [2]] is at version 1; expected version 0" in str(caught.value)


def test_034_version_counters(lib):
    x = lib.zeros(4)
    assert x._version == 0
    view, same, data = x[1:], x.detach(), x.data
    view.add_(1)
    assert x._version == view._version == same._version == 1 and data._version == 0
    same.add_(1)
    assert x._version == view._version == 2
    before = x._version
    data.add_(1)
    assert x._version == before and data._version == 1
    assert x.tolist() == [2, 3, 3, 3]


def test_035_version_is_read_only(lib):
    x = lib.zeros(2)
    with raises(AttributeError):
        x._version = 3
    lib.autograd.graph.increment_version(x)
    assert x._version == 1
    lib.autograd.graph.increment_version([x, x[1:]])
    assert x._version == 3
    with lib.inference_mode():
        y = lib.zeros(2)
    with raises(RuntimeError, "Inference tensors do not track version counter"):
        y._version  # noqa: B018


def test_036_leaves_are_not_mutated_in_grad_mode(lib):
    x = leaf(lib, [1.0, 2.0])
    text = "a leaf Variable that requires grad is being used in an in-place operation."
    with raises(RuntimeError, text):
        x.add_(1)
    with raises(RuntimeError, text):
        x += 1
    text = "a view of a leaf Variable that requires grad is being used in an in-place operation."
    with raises(RuntimeError, text):
        x[0].add_(1)
    with raises(RuntimeError, text):
        x[0] = 1
    with lib.no_grad():
        x.add_(1)
        x[0] = 7
    assert x.tolist() == [7, 3] and x.is_leaf and x.requires_grad


def test_037_view_made_in_no_grad_mode(lib):
    x = leaf(lib, [1.0, 2.0]) * 1
    with lib.no_grad():
        view = x[0]
    with raises(RuntimeError, "A view was created in no_grad mode"):
        view.mul_(2)


@pytest.mark.parametrize("name", ["unbind", "split", "chunk"])
def test_038_outputs_of_functions_with_several_views(lib, name):
    x = leaf(lib, [1.0, 2.0]) * 1
    parts = {"unbind": x.unbind, "split": lambda: x.split(1), "chunk": lambda: x.chunk(2)}[name]()
    node = {"unbind": "Unbind", "split": "Split", "chunk": "Split"}[name]
    text = (
        f"Output 0 of {node} is a view and is being modified inplace. This view is the output of a function "
        "that returns multiple views."
    )
    with raises(RuntimeError, text):
        parts[0].mul_(2)


def test_039_mutating_a_view_rebases(lib):
    x = leaf(lib, [1.0, 1.0, 1.0])
    base = x * 1
    view = base[1:]
    before = view.grad_fn
    view.mul_(5)
    assert "CopySlices" in base.grad_fn.name()
    assert view.grad_fn is not before and view.grad_fn.name() != "MulBackward0"
    assert base.tolist() == [1, 5, 5]
    base.sum().backward()
    assert x.grad.tolist() == [1, 5, 5]


def test_040_mutating_the_base_regenerates_views(lib):
    x = leaf(lib, [1.0, 2.0, 3.0])
    base = x * 1
    view = base[1:]
    before = view.grad_fn
    base.mul_(5)
    assert view.grad_fn is not before
    view.sum().backward()
    assert x.grad.tolist() == [0, 5, 5]


def test_041_storing_a_tensor_that_requires_grad(lib):
    x = leaf(lib, 3.0)
    buffer = lib.zeros(3)
    buffer[1] = x * 2
    assert buffer.requires_grad and not buffer.is_leaf
    buffer[0] = x
    (buffer * lib.tensor([1.0, 10.0, 100.0])).sum().backward()
    assert x.grad.item() == 21


def test_042_overlapping_memory(lib):
    expanded = lib.zeros(1).expand(3)
    with raises(RuntimeError, "more than one element of the written-to tensor refers to a single"):
        expanded.add_(1)
    x = lib.arange(5.0)
    with raises(RuntimeError, "unsupported operation: some elements of the input tensor and the"):
        x[1:].add_(x[:-1])
    x.add_(x)
    assert x.tolist() == [0, 2, 4, 6, 8]


def test_043_in_place_keeps_dtype_and_shape(lib):
    x = lib.ones(2, dtype=lib.int64)
    text = "result type Float can't be cast to the desired output type Long"
    with raises(RuntimeError, text):
        x.add_(1.5)
    with raises(RuntimeError, "doesn't match the broadcast shape"):
        lib.ones(2).add_(lib.ones(3, 2))
    y = lib.ones(2, dtype=lib.float32)
    y.add_(lib.ones(2, dtype=lib.float64))
    assert y.dtype is lib.float32 and x.tolist() == [1, 1]


def test_044_out_arguments(lib):
    x = leaf(lib, [1.0, 2.0])
    text = "functions with out=... arguments don't support automatic differentiation"
    with raises(RuntimeError, text):
        lib.add(x, 1, out=lib.zeros(2))
    with raises(RuntimeError, text):
        lib.add(lib.ones(2), 1, out=lib.zeros(2, requires_grad=True))
    out = lib.zeros(3)
    with warns("An output with one or more elements was resized since it had shape [3]"):
        lib.add(lib.ones(2), 1, out=out)
    assert out.tolist() == [2, 2]
    empty = lib.empty(0)
    assert lib.add(lib.ones(2), 1, out=empty) is empty and empty.tolist() == [2, 2]


def test_045_resize_and_detach_in_place(lib):
    x = leaf(lib, [1.0, 2.0])
    with raises(RuntimeError, "cannot resize variables that require grad"):
        x.resize_(3)
    view = (x * 1)[0]
    with raises(RuntimeError, "Can't detach views in-place"):
        view.detach_()
    y = x * 2
    z = (y * y).sum()
    y.detach_()
    assert y.is_leaf and not y.requires_grad and y.grad_fn is None
    if is_weft(lib):
        z.backward()
        assert x.grad.tolist() == [8, 16]
        return
    with raises(RuntimeError, "Trying to use a saved tensor that has been detached in-place"):
        z.backward()


def test_046_hooks_and_mutation(lib):
    seen = []
    x = leaf(lib, [1.0, 2.0])
    y = x * 1
    y.register_hook(lambda g: seen.append(g.tolist()))
    y.retain_grad()
    y.mul_(10)
    (y * 3).sum().backward()
    assert seen == [[30, 30]]
    assert y.grad.tolist() == [3, 3] and x.grad.tolist() == [30, 30]


def test_047_conversions_return_self(lib):
    x = leaf(lib, [1.0, 2.0])
    assert x.to(lib.float32) is x and x.float() is x and x.contiguous() is x and x.cpu() is x
    assert x.to("cpu") is x and x.double() is not x and x.to(lib.float32, copy=True) is not x
    assert x.detach() is not x and x.detach().data_ptr() == x.data_ptr() == x.data.data_ptr()
    with lib.no_grad():
        x.detach().zero_()
    assert x.tolist() == [0, 0]


@pytest.mark.parametrize(
    "change",
    [
        lambda lib, x: x.resize_(3),
        lambda lib, x: x.resize_as_(lib.ones(3)),
        lambda lib, x: x.set_(lib.ones(3)),
        lambda lib, x: x.transpose_(0, 1),
        lambda lib, x: lib.add(lib.ones(2, 2), 1, out=x),
        lambda lib, x: lib.add(lib.ones(3), 1, out=x),
    ],
    ids=["resize", "resize_as", "set", "transpose", "out", "out of another shape"],
)
@pytest.mark.filterwarnings("ignore:An output with one or more elements")
def test_inference_tensors_keep_their_shape_outside(lib, change):
    with lib.inference_mode():
        x = lib.ones(2, 2)
        change(lib, lib.ones(2, 2))
    with pytest.raises(RuntimeError, match="Inplace update to inference tensor"):
        change(lib, x)
