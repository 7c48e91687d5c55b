"""What layers do at their edges, as PyTorch's own tests ask: nothing to copy, empty batches, bytes, old spellings."""

from __future__ import annotations

import warnings
from typing import Any

import pytest

import weft
from oracle import torch

BOTH = pytest.mark.parametrize("lib", [weft, torch], ids=["weft", "torch"])
PADS = [
    ("ReflectionPad1d", (3, 0, 10)),
    ("ReflectionPad1d", (3, 0)),
    ("ReflectionPad2d", (3, 0, 10, 10)),
    ("ReflectionPad2d", (0, 10, 10)),
    ("ReflectionPad3d", (1, 0, 3, 3, 3)),
    ("ReplicationPad1d", (2, 0, 3)),
    ("ReplicationPad2d", (43, 0, 10, 10)),
    ("ReplicationPad3d", (3, 0, 10, 10, 10)),
    ("Unfold", (3, 0, 10, 10)),
    ("Unfold", (0, 0, 10, 10)),
]


@BOTH
@pytest.mark.parametrize(("name", "shape"), PADS)
def test_only_a_batch_may_be_empty(lib: Any, name: str, shape: tuple[int, ...]) -> None:
    with pytest.raises(RuntimeError, match=r"with possibly 0 batch size and other non-zero dim"):
        getattr(lib.nn, name)(1)(lib.ones(shape))
    rank = int(name[-2]) if name.endswith("d") and name[-2].isdigit() else 2
    empty = getattr(lib.nn, name)(1)(lib.ones(0, *[3] * (rank + 1)))
    assert empty.shape[0] == 0


@BOTH
@pytest.mark.parametrize(
    ("mode", "words"),
    [
        ("circular", "Negative padding value is resulting in an empty dimension"),
        ("reflect", r"input \(W: 3\) is too small. Calculated output W: -2"),
        ("replicate", r"input \(W: 3\) is too small. Calculated output W: -2"),
    ],
)
def test_padding_may_not_cut_everything(lib: Any, mode: str, words: str) -> None:
    with pytest.raises(RuntimeError, match=words):
        lib.nn.functional.pad(lib.ones(1, 1, 3), (-3, -2), mode=mode)


@BOTH
def test_one_value_per_group_has_no_variance(lib: Any) -> None:
    with pytest.raises(ValueError, match=r"Expected more than 1 value per channel"):
        lib.nn.GroupNorm(10, 10)(lib.ones(1, 10))
    assert lib.nn.GroupNorm(10, 10)(lib.ones(2, 10)).shape == (2, 10)
    assert lib.nn.functional.batch_norm(lib.ones(1, 2), lib.zeros(2), lib.ones(2), eps=0).sum() == 2


@BOTH
def test_transformers_take_empty_batches(lib: Any) -> None:
    encoder, decoder = (
        getattr(lib.nn, f"Transformer{name}coderLayer")(8, 2, 16) for name in ("En", "De")
    )
    nothing = lib.ones(5, 0, 8, requires_grad=True)
    assert encoder(nothing).shape == (5, 0, 8)
    assert decoder(nothing, nothing).shape == (5, 0, 8)
    found, weights = lib.nn.MultiheadAttention(8, 2)(nothing, nothing, nothing)
    assert found.shape == (5, 0, 8) and weights.shape == (0, 5, 5)
    found.sum().backward()
    assert nothing.grad.shape == (5, 0, 8)


@pytest.mark.parametrize("mode", ["bilinear", "bicubic"])
@pytest.mark.parametrize("antialias", [False, True])
@pytest.mark.parametrize("size", [(4, 5), (8, 5), (8, 9), (16, 11)])
def test_resized_bytes_lie_as_the_image_does(
    mode: str, antialias: bool, size: tuple[int, int]
) -> None:
    def images(lib: Any) -> list[Any]:
        plain = (lib.arange(2 * 3 * 8 * 9) % 251).to(lib.uint8).reshape(2, 3, 8, 9)
        last = plain.contiguous(memory_format=lib.channels_last)
        return [plain, last, last[:, :, 1:], plain[:, 1:, 1:], plain.permute(0, 1, 3, 2)]

    for here, there in zip(images(weft), images(torch), strict=True):
        options = {"size": size, "mode": mode, "antialias": antialias}
        found = weft.nn.functional.interpolate(here, **options)
        expected = torch.nn.functional.interpolate(there, **options)
        assert found.stride() == tuple(expected.stride())
        assert found.tolist() == expected.tolist()


@BOTH
def test_old_orders_and_kinds(lib: Any) -> None:
    table, indices = lib.arange(8.0).reshape(4, 2), lib.tensor([[1, 2]])
    with pytest.warns(UserWarning, match="embedding_bag"):
        found = lib.nn.functional.embedding_bag(table, indices)
    assert found.tolist() == [[3.0, 4.0]]
    with pytest.warns(UserWarning, match="Complex modules are a new feature"):
        lib.nn.Linear(2, 2).to(lib.complex64)
    assert lib.zeros(2).copy_(1.5).tolist() == [1.5, 1.5]
    assert lib.zeros(2, dtype=lib.int64).copy_(3).tolist() == [3, 3]


@BOTH
def test_norm_of_order_0_counts_gradients(lib: Any) -> None:
    parameters = [lib.nn.Parameter(lib.ones(3)) for _ in range(3)]
    for parameter, value in zip(parameters, (0.0, 2.0, 3.0), strict=True):
        parameter.grad = lib.full((3,), value)
    assert lib.nn.utils.clip_grad_norm_(parameters, 1.0, norm_type=0) == 2.0
    assert [p.grad[0].item() for p in parameters] == pytest.approx([0.0, 1.0, 1.5])


@BOTH
@pytest.mark.parametrize("layout", ["coo", "csr"])
def test_a_parameter_may_be_sparse(lib: Any, layout: str) -> None:
    warnings.simplefilter("ignore")
    eye = lib.eye(3)
    sparse = eye.to_sparse() if layout == "coo" else eye.to_sparse_csr()
    weight = lib.nn.Parameter(sparse)
    assert isinstance(weight, lib.nn.Parameter)
    assert weight.requires_grad and weight.layout == sparse.layout
    layer = lib.nn.Linear(3, 3, bias=False)
    layer.weight = weight
    assert [name for name, _ in layer.named_parameters()] == ["weight"]
    assert layer(lib.ones(2, 3)).tolist() == [[1.0] * 3] * 2


@BOTH
@pytest.mark.parametrize("text", ["cuda:", ":3", "cuda:01", "cpu:x"])
def test_devices_are_names_and_numbers(lib: Any, text: str) -> None:
    with pytest.raises(RuntimeError, match=f"Invalid device string: '{text}'"):
        lib.device(text)
    with pytest.raises(RuntimeError, match="set_num_interop_threads expects a positive integer"):
        lib.set_num_interop_threads(0)
