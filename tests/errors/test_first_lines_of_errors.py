"""The first line of an error is PyTorch's, up to what it quotes of the call."""

from __future__ import annotations

import copy
from typing import Any

import pytest

import weft

torch = pytest.importorskip("torch")


def _conv(lib: Any, name: str, x: Any = (1, 2, 6, 6), w: Any = (2, 2, 3, 3), **options: Any) -> Any:
    return getattr(lib.nn.functional, name)(lib.ones(*x), lib.ones(*w), **options)


CALLS: dict[str, Any] = {
    "broadcast_shapes below zero": lambda t: t.broadcast_shapes((1, -12), (-1, 1)),
    "numpy of a conjugate": lambda t: t.ones(2, dtype=t.complex64).conj().numpy(),
    "numpy of a negative": lambda t: t.ones(2, dtype=t.complex64).conj().imag.numpy(),
    "resize_ beyond all memory": lambda t: t.ones(()).resize_([2, 4, 2**29, 2**29]),
    "t of a sparse cube": lambda t: t.ones(2, 2, 2).to_sparse().t(),
    "tensor_split of a number": lambda t: t.ones(()).tensor_split(2),
    "unfold of less than nothing": lambda t: t.ones(3).unfold(0, -1, 1),
    "an index into nothing": lambda t: t.ones(10, 0)[:, [0, 1]],
    "fliplr": lambda t: t.fliplr(t.ones(1)),
    "flipud": lambda t: t.flipud(t.ones(())),
    "narrow": lambda t: t.narrow(t.ones(()), 0, 0, 1),
    "rot90 of a vector": lambda t: t.rot90(t.ones(5)),
    "rot90 in no plane": lambda t: t.rot90(t.ones(5, 5), dims=(1, -1)),
    "roll by nothing": lambda t: t.roll(t.ones(5), ()),
    "group_norm": lambda t: t.nn.functional.group_norm(t.ones(1), 1),
    "vsplit": lambda t: t.vsplit(t.ones(5), 0),
    "dsplit": lambda t: t.dsplit(t.ones(5), 0),
    "complex of an integer": lambda t: t.complex(t.ones(2), t.ones(2, dtype=t.int32)),
    "complex of two types": lambda t: t.complex(t.ones(2), t.ones(2, dtype=t.float64)),
    "complex out": lambda t: t.complex(
        *[t.ones(2, dtype=t.float64)] * 2, out=t.ones(2, dtype=t.complex64)
    ),
    "scatter": lambda t: t.scatter(
        t.ones(3, 5, 3), 0, t.zeros(2, 2, dtype=t.int64), t.ones(2, 5)
    ),
    "fftn": lambda t: t.fft.fftn(t.ones(()), dim=(0,)),
    "irfft2": lambda t: t.fft.irfft2(t.ones(()), dim=(0,)),
    "normal_": lambda t: t.ones(3).normal_(0, -1),
    "conv2d by two strides of three": lambda t: _conv(t, "conv2d", stride=(1, 1, 1)),
    "conv2d of another rank": lambda t: _conv(t, "conv2d", x=(2, 2)),
    "conv2d in groups that do not divide": lambda t: _conv(t, "conv2d", w=(3, 1, 2, 2), groups=2),
    "conv2d and a bias of another type": lambda t: _conv(t, "conv2d", bias=t.ones(2).double()),
    "conv_transpose2d in no groups": lambda t: _conv(t, "conv_transpose2d", groups=0),
    "conv_transpose2d in too many groups": lambda t: _conv(t, "conv_transpose2d", groups=3),
    "conv_transpose2d and another bias": lambda t: _conv(t, "conv_transpose2d", bias=t.ones(5)),
    "conv_transpose2d of another rank": lambda t: _conv(t, "conv_transpose2d", x=(2, 2)),
    "conv_transpose2d that pads all away": lambda t: _conv(t, "conv_transpose2d", padding=4),
    "max_pool1d by nothing": lambda t: t.nn.functional.max_pool1d(t.ones(1, 4), 2, 0),
    "max_pool2d in no window": lambda t: t.nn.functional.max_pool2d(t.ones(1, 4, 4), -1),
    "max_pool2d of two strides of three": lambda t: t.nn.functional.max_pool2d(
        t.ones(1, 4, 4), 2, (1, 1, 1)
    ),
    "avg_pool3d padded by less": lambda t: t.nn.functional.avg_pool3d(t.ones(1, 4, 4, 4), 2, 1, -1),
    "avg_pool2d without a channel": lambda t: t.nn.functional.avg_pool2d(t.ones(2, 0, 4, 4), 2),
    "ormqr": lambda t: t.ormqr(t.ones(5, 3), t.ones(2), t.ones(5, 5)),
    "index_add": lambda t: t.index_add(
        t.ones(3, 5), 0, t.zeros(2, dtype=t.int64), t.ones(3, 5)
    ),
    "slice of a number": lambda t: t.ones(())[0:1],
    "gather by another rank": lambda t: t.gather(t.ones(3, 3), 0, t.zeros(3, dtype=t.int64)),
    "index_select by floats": lambda t: t.index_select(t.ones(3), 0, t.zeros(2)),
    "gather by floats": lambda t: t.gather(t.ones(3), 0, t.zeros(3)),
    "empty of a negative size": lambda t: t.empty(2, -1),
    "zeros of a negative size": lambda t: t.zeros(2, -1),
    "full of a negative size": lambda t: t.full((-1,), 1),
    "view of a negative size": lambda t: t.ones(6).view(-2, 3),
    "permute twice": lambda t: t.ones(2, 3).permute(0, -2),
    "repeats below zero": lambda t: t.repeat_interleave(t.ones(2), t.tensor([-1, 2])),
    "product of matrices": lambda t: t.cartesian_prod(t.ones(2), t.ones(2, 2)),
    "extend by a number": lambda t: t.nn.ModuleList().extend(3),
    "multinomial": lambda t: t.multinomial(t.tensor([-1.0, 2.0]), 1),
    "multinomial of computed weights": lambda t: t.multinomial(-t.ones(3), 1).item(),
    "multinomial of no weights": lambda t: t.multinomial(t.ones(3) - 1, 1, True).item(),
    "matmul of sizes": lambda t: t.ones(2, 3) @ t.ones(2, 3),
    "matmul of batches": lambda t: t.ones(2, 3, 3) @ t.ones(2, 2, 3),
    "matmul of types": lambda t: t.ones(2, 3) @ t.ones(3, 2).double(),
    "matmul of batches of types": lambda t: t.ones(2, 3, 3) @ t.ones(2, 3, 3).double(),
    "matrix and vector of types": lambda t: t.ones(2, 3) @ t.ones(3).double(),
    "dot of types": lambda t: t.ones(3) @ t.ones(3).double(),
    "linear of types": lambda t: t.nn.functional.linear(
        t.ones(2, 3).double(), t.ones(4, 3), t.ones(4)
    ),
    "linear and another weight": lambda t: t.nn.functional.linear(
        t.ones(2, 3), t.ones(4, 3).double(), t.ones(4)
    ),
    "Linear of integers": lambda t: t.nn.Linear(3, 4)(t.ones(2, 3).long()),
    "baddbmm of types": lambda t: t.baddbmm(*[t.ones(2, 2, 2)] * 2, t.ones(2, 2, 2).double()),
    "conv2d of types": lambda t: t.nn.functional.conv2d(
        t.ones(1, 2, 6, 6).double(), t.ones(2, 2, 3, 3)
    ),
    "sampled_addmm of types": lambda t: t.sparse.sampled_addmm(
        t.eye(3).to_sparse_csr(), t.ones(3, 2), t.ones(2, 3).double()
    ),
    "sampled_addmm of sizes": lambda t: t.sparse.sampled_addmm(
        t.eye(3).to_sparse_csr(), t.ones(2, 2), t.ones(2, 3)
    ),
    "sum of sizes": lambda t: t.ones(2, 3) + t.ones(2),
    "index": lambda t: t.ones(3)[t.tensor([5])].sum().item(),
    "gather beyond": lambda t: t.gather(t.ones(2, 3), 0, t.full((2, 3), 4)).sum().item(),
    "embedding beyond": lambda t: t.nn.Embedding(4, 3)(t.tensor([5])).sum().item(),
    "target beyond": lambda t: t.nn.functional.cross_entropy(
        t.ones(2, 3), t.tensor([0, 5])
    ).item(),
    "target of another type": lambda t: t.nn.functional.cross_entropy(t.ones(2, 3), t.ones(2)),
    "target of another rank": lambda t: t.nn.functional.cross_entropy(
        t.ones(2, 3), t.ones(2, 1).long()
    ),
    "probabilities": lambda t: t.nn.functional.binary_cross_entropy(
        t.full((2,), 2.0), t.ones(2)
    ).item(),
    "logits of another size": lambda t: t.nn.functional.binary_cross_entropy_with_logits(
        t.ones(2, 3), t.ones(2)
    ),
    "channels": lambda t: t.nn.BatchNorm2d(3)(t.ones(2, 4, 5, 5)),
    "one value per channel": lambda t: t.nn.BatchNorm1d(3)(t.ones(1, 3)),
    "permute": lambda t: t.ones(2, 3).permute(0, 0),
    "comparison of complex numbers": lambda t: t.ones(2, dtype=t.complex64) < 1,
    "gelu of integers": lambda t: t.nn.functional.gelu(t.ones(2).long()),
    "and of floats": lambda t: t.ones(2) & t.ones(2),
    "floor division of bools": lambda t: t.ones(2).bool() // t.ones(2).bool(),
    "gradient of another type": lambda t: setattr(
        t.ones(3, requires_grad=True), "grad", t.ones(3).double()
    ),
    "copy of a result": lambda t: copy.deepcopy(t.ones(3, requires_grad=True) * 2),
    "device": lambda t: t.ones(2, device="foo"),
    "half overflow": lambda t: t.ones(2).half().masked_fill(t.ones(2).bool(), -1e9),
    "file": lambda t: t.load("/no/such/file"),
    "einsum": lambda t: t.einsum("ijk->i", t.ones(2, 3)),
    "solve of types": lambda t: t.linalg.solve(t.eye(2), t.ones(2).double()),
    "scatter_add of types": lambda t: t.ones(3).scatter_add(
        0, t.zeros(3).long(), t.ones(3).double()
    ),
}  # fmt: skip


@pytest.mark.filterwarnings("ignore:Sparse CSR")
@pytest.mark.parametrize("name", CALLS)
def test_the_first_line_is_pytorchs(name):
    said = []
    for lib in (weft, torch):
        with pytest.raises((RuntimeError, IndexError, TypeError, ValueError, OSError)) as caught:
            CALLS[name](lib)
        said.append(str(caught.value).partition("\n")[0])
    mine, theirs = said
    assert mine.partition(", called at")[0].replace("weft", "torch") == theirs.rstrip(",")
