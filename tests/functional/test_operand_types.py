"""The types that compositions take: each rule beside PyTorch's kernels, for operands of every type, and of two."""

from __future__ import annotations

import re
import warnings
from collections.abc import Iterator
from typing import Any

import pytest

import weft
from oracle import torch
from weft.engine.api.operand_types import RULES

TYPES = ("bool", "uint8", "int32", "int64", "float16", "float32", "float64", "complex64")

# The shape of the operands a, b and c, whose types are tried, and a call with them.
CALLS = """
4     F.binary_cross_entropy(a, b)
4     F.binary_cross_entropy_with_logits(a, b, c)
4     F.gaussian_nll_loss(f, f, a)
4     F.huber_loss(a, b)
4     F.kl_div(a, b)
4     F.mse_loss(a, b)
4     F.smooth_l1_loss(a, b)
4     F.soft_margin_loss(a, b)
4     F.hinge_embedding_loss(a, b, reduction='sum')
2,1,3 F.ctc_loss(a, T.tensor([[1]]), [2], [1])
2,4   F.multi_margin_loss(a, i)
4,4   F.multi_margin_loss(a, T.tensor([0, 1, 0, 1]), weight=b[0])
2,4   F.multilabel_margin_loss(a, T.tensor([[1, -1, 0, 0], [1, -1, 0, 0]]))
2,4   F.nll_loss(a, i)
4     F.glu(a)
4     F.hardtanh(a, 0, 2)
4     F.relu6(a)
4     F.threshold(a, 1, 2)
4     F.prelu(a, b[:1])
2,4   F.rms_norm(a, (4,))
2,4   F.layer_norm(a, (4,), b[0], c[0])
2,4   F.group_norm(a, 2, b[0], c[0])
2,4   F.batch_norm(a, b[0], c[0])
2,4   F.batch_norm(a, None, None, b[0], c[0], True)
2,4,3 F.instance_norm(a, None, None, b[0, :, 0], c[0, :, 0])
4,4   F.linear(a, a, b[0])
2,2   F.bilinear(a, a, T.stack([a, a]), b[0])
4     F.dropout(a)
1,2,2,4 F.dropout2d(a)
2,4   F.embedding_bag(i[None], a, per_sample_weights=b[:1, :2], mode='sum')
1,1,2,2 F.grid_sample(a, b.reshape(1, 1, 2, 2), align_corners=False)
1,2,4 F.adaptive_avg_pool1d(a, 2)
1,2,4 F.adaptive_avg_pool2d(a, 2)
1,2,2,4 F.adaptive_avg_pool3d(a, 2)
1,2,4 F.adaptive_max_pool1d(a, 2)
1,2,4 F.adaptive_max_pool2d(a, 2)
1,2,2,4 F.adaptive_max_pool3d(a, 2)
1,2,4 F.avg_pool1d(a, 2)
1,2,4 F.avg_pool2d(a, 2)
1,2,2,4 F.avg_pool3d(a, 2)
1,2,4 F.local_response_norm(a, 2)
1,2,4 F.max_unpool1d(a, T.arange(8).reshape(1, 2, 4), 2)
1,2,4 F.interpolate(a, 2)
1,2,4 F.interpolate(a, 2, mode='linear')
1,2,2,4 F.interpolate(a, 2, mode='bilinear')
1,2,4 F.interpolate(a, 2, mode='area')
1,2,4 F.pad(a, (1, 1), 'reflect')
1,2,4 F.pad(a, (1, 1), 'replicate')
2,4   T.cdist(a, b)
2,3   T.linalg.cross(a, b)
2,3   T.cross(a, b, dim=1)
2,3   T.linalg.vecdot(a, b)
4     T.linalg.vander(a)
4,4   T.addbmm(a, b[None], b[None])
4,4   T.addmm(a, b, b)
4,4   T.addmv(a[0], b, b[0])
4,4   T.baddbmm(a[None], b[None], b[None])
4     a.index_copy(0, i, a[:2])
4     a.index_put((i,), b[:2])
4     a.index_put_((i,), b[:2])
4     a.masked_scatter(T.tensor([True] * 4), b)
4     a.put(i, b[:2])
4     a.index_reduce(0, i, a[:2], 'amax')
4     T.ones(5).take(a)
4     T.ones(5).put(a, f)
4     T.ones(5).index_copy(0, a, f)
4     T.ones(5).index_fill(0, a, 1.0)
1,2,4 F.conv1d(a, a)
1,2,4,4 F.conv2d(a, a)
1,2,3,3,3 F.conv3d(a, a)
2,2,4 F.conv_transpose1d(a, a)
2,2,4,4 F.conv_transpose2d(a, a)
2,2,3,3,3 F.conv_transpose3d(a, a)
1,2,4,4 F.max_unpool2d(a, T.arange(32).reshape(1, 2, 4, 4), 2)
1,1,2,2,2 F.max_unpool3d(a, T.arange(8).reshape(1, 1, 2, 2, 2), 2)
1,1,2,2 T.grid_sampler_2d(a, b.reshape(1, 1, 2, 2), 0, 0, False)
1,1,1,1,3 T.grid_sampler_3d(a, b, 0, 0, False)
1,1,2,2 F.scaled_dot_product_attention(a, a, a, b)
4,4   T.svd_lowrank(a, q=2, M=b)
4     T.segment_reduce(a, 'sum', lengths=T.tensor([2, 2]))
4     T.bincount(a)
4     T.bucketize(a, b)
4     T.searchsorted(a, b)
4     T.histc(a, 4)
4     a.histc(4)
4     T.histogram(a, b.cumsum(0) if b.dtype != T.bool else b)
4,1   T.histogramdd(a, [2])
4     T.isin(a, b)
4     T.unique(a)
4     T.unique_consecutive(a)
4     T.trapezoid(a, b)
4     T.cumulative_trapezoid(a, b)
4     T.gradient(a)
4     T.igamma(a, b)
4     T.igammac(a, b)
4     a.igamma_(b)
4     T.lerp(a, b, 0.5)
4     T.lerp(a, b, c)
4     a.lerp_(b, 0.5)
4     T.mvlgamma(a, 1)
4     T.polar(a, b)
4     T.special.erfcx(a)
4     T.special.log_ndtr(a)
4     T.special.airy_ai(a)
4     T.special.hermite_polynomial_h(a, b)
4     T.special.shifted_chebyshev_polynomial_t(a, b)
4     T.normal(a, b)
4     T.normal(0.0, a)
4     T.repeat_interleave(f, a)
4     T.addr(T.outer(a, a), a, a, beta=0.5)
4     T.round(a, decimals=2)
4     T.empty(2, dtype=a.dtype).geometric_(0.5)
4     T.addcmul(a, a, a, value=2.5)
"""
LINES = [tuple(line.split(None, 1)) for line in CALLS.strip().split("\n")]


def _types() -> Iterator[tuple[str, str]]:
    """The types of `a` and of the other operands: equal ones, and those where one side is float32."""
    for name in TYPES:
        yield name, name
        if name != "float32":
            yield name, "float32"
            yield "float32", name


def _of_halves_alone(error: object) -> bool:
    """True where PyTorch lacks the kernel for halves: here, these are computed in float32."""
    return isinstance(error, Exception) and any(
        words in str(error) for words in ("'Half'", "got Half")
    )


def _outcome(T: Any, shape: str, call: str, kinds: tuple[str, str]) -> Any:
    """The types of the results, or the error."""
    sizes = tuple(map(int, shape.split(",")))
    made = T.ones(sizes).cumsum(-1) / 4
    first, others = (made.mul(4 if "float" not in k else 1).to(getattr(T, k)) for k in kinds)
    names = {"T": T, "F": T.nn.functional, "a": first, "b": others, "c": others}
    names |= {"f": T.ones(4), "i": T.tensor([0, 1])}
    try:
        with warnings.catch_warnings():
            warnings.simplefilter("ignore")
            result = eval(call, names)
            parts = result if isinstance(result, (tuple, list)) else (result,)
            return [str(p.dtype).split(".")[-1] for p in parts if isinstance(p, type(made))]
    except Exception as error:
        return error


@pytest.mark.parametrize(("shape", "call"), LINES, ids=[call for _, call in LINES])
def test_types_are_taken_and_refused_as_in_pytorch(shape: str, call: str) -> None:
    wrong = []
    for kinds in _types():
        ours, theirs = (_outcome(T, shape, call, kinds) for T in (weft, torch))
        refused = isinstance(theirs, Exception)
        if _of_halves_alone(theirs) and not isinstance(ours, Exception):
            continue
        same = isinstance(ours, type(theirs).__mro__[1]) if refused else ours == theirs
        if not same:
            wrong.append((kinds, ours, theirs))
    assert not wrong


def test_every_rule_is_tried() -> None:
    """One polynomial stands for all."""
    names = {name.strip("_") for _, call in LINES for name in re.findall(r"\w+", call)}
    left = set(RULES) - names - {"take_flat"}
    assert all("polynomial" in name for name in left)
