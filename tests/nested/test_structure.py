"""Ragged tensors as objects: how they are made, what they say of themselves, what they refuse."""

from __future__ import annotations

import copy
import pickle
from typing import Any

import numpy as np
import pytest

import weft
import weft.nn.functional as F
from weft import nested
from weft.nested.rows import RaggedDim, buckets_of


def two(requires_grad: bool = False) -> Any:
    return nested.nested_tensor(
        [weft.arange(6.0).reshape(2, 3), weft.arange(12.0).reshape(4, 3)],
        layout=weft.jagged,
        requires_grad=requires_grad,
    )


def test_structure_can_be_read() -> None:
    tensor = two()
    assert tensor.is_nested and tensor.layout is weft.jagged
    assert weft.is_tensor(tensor)
    assert (tensor.dim(), len(tensor), tensor.numel()) == (3, 2, 18)
    assert tensor.size(0) == 2 and tensor.size(-1) == 3
    assert tensor.offsets().tolist() == [0, 2, 6]
    assert tensor.lengths().tolist() == [2, 4]
    assert tensor.size(1).lengths == (2, 4)
    assert tuple(tensor.values().shape) == (6, 3)
    assert tensor.transpose(1, 2).values().shape == (3, 6)
    assert tensor.tolist() == [item.tolist() for item in tensor.unbind()]


def test_equal_lengths_are_one_size() -> None:
    """Where PyTorch compares offsets by identity."""
    a, b = two(), two()
    assert a.shape == b.shape
    name = repr(a.size(1))
    assert name.startswith("j") and repr(b.size(1)) == name
    assert repr(a.shape) == f"weft.Size([2, {name}, 3])"
    assert repr(a) == (
        f"NestedTensor(size=(2, {name}, 3), offsets=tensor([0, 2, 6]), contiguous=True)"
    )
    assert repr((a @ a.transpose(1, 2)).shape) == f"weft.Size([2, {name}, {name}])"
    assert a[:, 1:].size(1) != a.size(1)


def test_structures_are_forgotten() -> None:
    from weft.nested.rows import _known

    before = set(_known)  # some may be in garbage of the tests before, which is freed at any time
    made = [RaggedDim.of([number, 7, 1]) for number in range(50)]
    assert len(set(_known) - before) >= 50
    x = nested.nested_tensor_from_jagged(weft.ones(40, 2), lengths=[17, 0, 23])
    used = [
        x.softmax(1),
        x.mean(-1),
        x.logsumexp((1, 2)),
        x @ x.transpose(1, 2),
        x[:, ::2],
        x.shape,
    ]
    used += [F.scaled_dot_product_attention(x, x, x), (x @ x.transpose(1, 2)).sum(1), repr(x)]
    del made, x, used
    assert set(_known) <= before  # at once: nothing waits for the cyclic collector


def test_ways_to_make_one() -> None:
    values = weft.arange(12.0).reshape(6, 2)
    tensor = nested.nested_tensor_from_jagged(values, weft.tensor([0, 1, 1, 6]))
    assert tensor.lengths().tolist() == [1, 0, 5]
    same = nested.nested_tensor_from_jagged(values, lengths=weft.tensor([1, 0, 5]))
    assert same.rows is tensor.rows
    holes = nested.nested_tensor_from_jagged(values, weft.tensor([0, 3, 6]), weft.tensor([2, 1]))
    assert weft.equal(holes.values(), values[weft.tensor([0, 1, 3])])
    padded = weft.arange(24.0).reshape(2, 4, 3)
    part = nested.narrow(padded, 1, weft.tensor([1, 0]), weft.tensor([2, 4]), layout=weft.jagged)
    assert weft.equal(part[0], padded[0, 1:3]) and weft.equal(part[1], padded[1])
    chosen = nested.masked_select(padded, padded % 2 == 0)
    assert chosen.tolist() == [[0, 2, 4, 6, 8, 10], [12, 14, 16, 18, 20, 22]]
    assert nested.nested_tensor([[1, 2], [3]]).tolist() == [[1, 2], [3]]
    assert nested.as_nested_tensor(padded).lengths().tolist() == [4, 4]
    assert tensor.to_padded_tensor(0.0, (3, 7, 2)).shape == (3, 7, 2)


def test_several_ragged_dimensions() -> None:
    images = nested.nested_tensor([weft.ones(3, 2, 5), weft.ones(3, 4, 1)])
    assert images.dims == (2, 3)
    assert images.sum((2, 3)).tolist() == [[10.0] * 3, [4.0] * 3]
    texts = nested.as_nested_tensor([[weft.ones(3, 2), weft.ones(1, 2)], [weft.ones(2, 2)]])
    assert texts.dims == (1, 2)
    assert texts.sum(2)[:, :, 0].tolist() == [[3.0, 1.0], [2.0]]
    assert texts.sum((1, 2)).tolist() == [[4.0, 4.0], [2.0, 2.0]]
    assert isinstance(texts[0], nested.NestedTensor)
    assert texts[0].lengths().tolist() == [3, 1]


def test_leaves_and_graphs() -> None:
    tensor = two(requires_grad=True)
    assert tensor.is_leaf and tensor.grad is None
    seen: list[Any] = []
    doubled = tensor * 2
    doubled.register_hook(seen.append)
    doubled.backward(weft.ones_like(tensor))
    assert tensor.grad.shape == tensor.shape and seen[0].shape == tensor.shape
    assert tensor.grad.values().unique().tolist() == [2.0]
    (gradient,) = weft.autograd.grad((tensor * tensor).sum(), [tensor])
    assert weft.equal(gradient.values(), 2 * tensor.values())
    source = weft.ones(3, 2, requires_grad=True)
    nested.as_nested_tensor([source, source[:1]]).sum().backward()
    assert source.grad.tolist() == [[2.0, 2.0], [1.0, 1.0], [1.0, 1.0]]
    assert not nested.nested_tensor([source]).requires_grad


def test_what_is_kept_of_a_structure_is_of_no_mode() -> None:
    values = weft.ones(5, 3, requires_grad=True)

    def losses() -> list[Any]:
        x = nested.nested_tensor_from_jagged(values, [0, 1, 5])
        attended = F.scaled_dot_product_attention(x, x, x, is_causal=True)
        return [x.sum(1), x.mean(1), x.softmax(1).values(), x.amax(1), attended.values()]

    with weft.inference_mode():
        losses()
    for loss in losses():
        loss.sum().backward()
    assert values.grad is not None


def test_copies() -> None:
    tensor = two()
    for made in (copy.deepcopy(tensor), pickle.loads(pickle.dumps(tensor)), tensor.clone()):
        assert made.shape == tensor.shape and made.tolist() == tensor.tolist()
        made.add_(1)
        assert made.tolist() != tensor.tolist()


def test_writing() -> None:
    tensor = two()
    tensor[0] = 1.0
    tensor[1, 2:] = weft.tensor([7.0, 8.0, 9.0])
    tensor[..., 0] = -1.0
    tensor[tensor > 8.5] = 0.0
    assert tensor[0].tolist() == [[-1, 1, 1]] * 2
    assert tensor[1].tolist() == [[-1, 1, 2], [-1, 4, 5], [-1, 8, 0], [-1, 8, 0]]
    tensor += 1
    tensor.relu_().mul_(weft.tensor([1.0, 2.0, 3.0]))
    assert tensor[0].tolist() == [[0, 4, 6]] * 2


def test_operands_on_either_side() -> None:
    tensor, dense = two(), weft.tensor([1.0, 2.0, 3.0])
    for found, wanted in (
        (dense - tensor, dense - tensor.values()),
        (2**tensor, 2 ** tensor.values()),
        (weft.eye(3) @ tensor.transpose(1, 2), tensor.transpose(1, 2).values()),
        (tensor == tensor, tensor.values() == tensor.values()),
    ):
        assert weft.equal(found.values(), wanted)


REFUSED = {
    "median": (lambda x: weft.median(x), NotImplementedError, "go item by item with .unbind()"),
    "diagonal": (lambda x: x.diagonal(), NotImplementedError, "or pad with .to_padded_tensor"),
    "lengths": (lambda x: x + x[:, 1:], RuntimeError, "check the lengths"),
    "dense": (lambda x: x + weft.ones(4, 3), RuntimeError, "weft.nested.narrow"),
    "rank": (lambda x: x + weft.ones(1, 1, 1, 3), RuntimeError, "squeeze it"),
    "row": (lambda x: x[:, 3], IndexError, "leave short items out"),
    "item": (lambda x: x[2], IndexError, "check the number of items"),
    "dimension": (lambda x: x.sum(4), IndexError, "count the dimensions"),
    "batch": (lambda x: x.transpose(0, 1), NotImplementedError, "unbind"),
    "view": (lambda x: x.view(1, -1, 3), NotImplementedError, "tensor.size"),
    "sizes": (lambda x: x.view(2, -1, 4), RuntimeError, "uniform dimensions only between"),
    "array": (lambda x: np.asarray(x), TypeError, "to_padded_tensor"),
    "index": (lambda x: range(x.size(1)), TypeError, "lengths"),
    "attribute": (lambda x: x.nonsense, AttributeError, ".values()"),
    "layer": (lambda x: F.layer_norm(x, (4, 3)), NotImplementedError, "transpose"),
    "channels": (lambda x: weft.nn.BatchNorm1d(3)(x), NotImplementedError, "transpose(1, 2)"),
    "conv": (lambda x: F.conv1d(x, weft.ones(1, 3, 1)), NotImplementedError, "pad with"),
    "argmax": (lambda x: x.argmax(), NotImplementedError, "pass dim"),
    "argument": (lambda x: x.sum("a"), TypeError, "types of the arguments"),
    "out": (lambda x: weft.add(x, x, out=x), NotImplementedError, "unbind"),
    "weight": (lambda x: F.linear(x, x), NotImplementedError, "matmul"),
    "product": (lambda x: x @ x, RuntimeError, "transpose"),
    "attention": (lambda x: F.scaled_dot_product_attention(x, x.values(), x), RuntimeError, "as_nested"),
    "target": (lambda x: F.cross_entropy(x, weft.ones(6).long()), RuntimeError, "lengths"),
    "ranks": (lambda x: nested.nested_tensor([weft.ones(2), weft.ones(2, 2)]), RuntimeError, "unsqueeze"),
    "types": (lambda x: nested.nested_tensor([weft.ones(2), weft.ones(2).long()]), RuntimeError, ".to("),
    "list": (lambda x: nested.nested_tensor(3), TypeError, "pass a list"),
    "offsets": (
        lambda x: nested.nested_tensor_from_jagged(x.values(), weft.tensor([0, 7])),
        RuntimeError,
        "offsets begin with 0",
    ),
    "neither": (lambda x: nested.nested_tensor_from_jagged(x.values()), RuntimeError, "offsets="),
    "narrow": (lambda x: nested.narrow(weft.ones(2, 3), 1, 0, weft.tensor([4, 1])), RuntimeError, "lengths"),
}  # fmt: skip


@pytest.mark.parametrize("name", REFUSED)
def test_what_is_refused_says_how_to_go_on(name: str) -> None:
    call, kind, fix = REFUSED[name]
    with pytest.raises(kind) as caught:
        call(two())
    assert isinstance(caught.value, weft.errors.WeftError)
    assert fix in str(caught.value)
    assert "test_structure.py" in str(caught.value)


def test_undefined_functions_name_those_that_are_defined() -> None:
    with pytest.raises(NotImplementedError) as caught:
        weft.median(two())
    for name in ("elementwise", "softmax", "cat", "scaled_dot_product_attention", "sum"):
        assert name in str(caught.value)


def test_padding_costs_little_whatever_the_lengths() -> None:
    random = np.random.default_rng(0)
    for lengths in (random.geometric(0.02, 500), np.array([1] * 99 + [1000]), np.arange(300)):
        buckets = buckets_of(lengths)
        assert sorted(np.concatenate(buckets).tolist()) == np.flatnonzero(lengths).tolist()
        padded = sum(len(items) * lengths[items].max() for items in buckets)
        assert padded <= 2 * lengths.sum()
        assert len(buckets) <= 12


def test_dense_calls_do_not_load_ragged_tensors() -> None:
    import subprocess
    import sys

    code = (
        "import sys, weft; weft.ones(2).sum().item(); import weft.nn, weft.data\n"
        "assert not any(name.startswith('weft.nested') for name in sys.modules), sys.modules"
    )
    subprocess.run([sys.executable, "-c", code], check=True)
