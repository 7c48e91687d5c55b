"""What functions of layers refuse, and what they warn of: the classes and words of PyTorch, in both libraries."""

import pytest


def functional(lib):
    return lib.nn.functional


CASES = {
    "align_corners": (
        lambda t, f: f.interpolate(t.rand(1, 1, 4, 4), size=2, align_corners=True),
        ValueError,
        "align_corners option can only be set with the interpolating modes",
    ),
    "recompute": (
        lambda t, f: f.interpolate(t.rand(1, 1, 4, 4), size=2, recompute_scale_factor=True),
        ValueError,
        "recompute_scale_factor is not meaningful with an explicit size",
    ),
    "mode": (
        lambda t, f: f.interpolate(t.rand(1, 1, 4), size=2, mode="bilinear"),
        NotImplementedError,
        "Got 3D input, but bilinear mode needs 4D input",
    ),
    "factors": (
        lambda t, f: f.interpolate(t.rand(1, 1, 4, 4), scale_factor=(2.0,)),
        ValueError,
        "Input and scale_factor must have the same number of spatial dimensions",
    ),
    "nothing left": (
        lambda t, f: f.interpolate(t.rand(1, 1, 4, 4), size=(0, 2), mode="bilinear"),
        RuntimeError,
        "Input and output sizes should be greater than 0",
    ),
    "layer norm's weight": (
        lambda t, f: f.layer_norm(t.rand(2, 3), [3], weight=t.rand(1)),
        RuntimeError,
        "Expected weight to be of same shape as normalized_shape",
    ),
    "layer norm's bias": (
        lambda t, f: f.layer_norm(t.rand(2, 3), [3], bias=t.rand(1, 3)),
        RuntimeError,
        "Expected bias to be of same shape as normalized_shape",
    ),
    "padding of bags": (
        lambda t, f: f.embedding_bag(t.tensor([[1, 3]]), t.rand(4, 3), padding_idx=4),
        RuntimeError,
        "padding_idx must be within the number of embeddings",
    ),
    "fractional lengths": (
        lambda t, f: f.ctc_loss(
            t.rand(4, 1, 3).log_softmax(2), t.ones(1, 2).long(), t.ones(1), t.ones(1).long()
        ),
        RuntimeError,
        "input_lengths must be integral",
    ),
    "negative lengths": (
        lambda t, f: f.ctc_loss(
            t.rand(4, 1, 3).log_softmax(2), t.ones(1, 2).long(), [4], [-1]
        ).item(),
        RuntimeError,
        "length",
    ),
    "classes of one-hot rows": (
        lambda t, f: f.one_hot(t.tensor([1, -1])),
        RuntimeError,
        "Class values must be non-negative",
    ),
    "no classes": (
        lambda t, f: f.one_hot(t.empty(0, dtype=t.int64)),
        RuntimeError,
        "Can not infer total number of classes from empty tensor",
    ),
    "unflattened": (
        lambda t, f: t.nn.Unflatten(1, (2, "2")),
        TypeError,
        "found element of type str at pos 1",
    ),
    "key's rank": (
        lambda t, f: t.nn.MultiheadAttention(4, 2)(*[t.rand(*s) for s in ((1, 1, 4), (1, 4), (1, 1, 4))]),
        AssertionError,
        "expected `key` and `value` to be 3-D",
    ),
}  # fmt: skip


@pytest.mark.parametrize("name", CASES)
def test_it_is_refused(lib, name):
    call, kind, text = CASES[name]
    with pytest.raises(kind, match=text):
        call(lib, functional(lib))


@pytest.mark.parametrize("name", ["softmax", "log_softmax", "softmin"])
def test_a_dimension_that_is_not_said_is_guessed_with_a_warning(lib, name):
    with pytest.warns(UserWarning, match="Implicit dimension choice for"):
        result = getattr(functional(lib), name)(lib.ones(2, 4))
    total = result.exp().sum(1) if name == "log_softmax" else result.sum(1)
    assert total.tolist() == pytest.approx([1.0, 1.0])
