"""Attention as one kernel: against its composition, and that a row's bits depend on nothing but its own operands."""

from __future__ import annotations

import math
from typing import Any

import numpy as np
import pytest

import weft
from weft.debug import stages
from weft.nn.functional import scaled_dot_product_attention as attention


def numbers(*shape: int, seed: int = 0, dtype: str = "float32") -> Any:
    return np.random.default_rng(seed).normal(size=shape).astype(dtype)


def operands(
    lead: tuple[int, ...], rows: int, keys: int, depth: int, width: int, dtype: str = "float32"
) -> list[Any]:
    shapes = ((rows, depth), (keys, depth), (keys, width))
    return [numbers(*lead, *shape, seed=i, dtype=dtype) for i, shape in enumerate(shapes)]


def composed(q: Any, k: Any, v: Any, mask: Any = None, is_causal: bool = False) -> Any:
    """Two products and a softmax; rows that see nothing are zero."""
    scores = q @ k.mT / math.sqrt(q.shape[-1])
    if is_causal:
        mask = weft.ones(*scores.shape[-2:], dtype=weft.bool).tril()
    if mask is not None and mask.dtype is weft.bool:
        scores = weft.where(mask, scores, -math.inf)
    elif mask is not None:
        scores = scores + mask
    powers = (scores - scores.detach().amax(-1, keepdim=True).clamp(min=-1e300)).exp()
    total = powers.sum(-1, keepdim=True)
    return powers / weft.where(total == 0, 1, total) @ v


def with_gradients(function: Any, arrays: list[Any], seed: int = 9, **options: Any) -> list[Any]:
    leaves = [weft.tensor(a).requires_grad_() for a in arrays]
    result = function(*leaves, **options)
    cotangent = weft.tensor(numbers(*result.shape, seed=seed, dtype=arrays[0].dtype.name))
    return [t.detach().numpy() for t in (result, *weft.autograd.grad(result, leaves, cotangent))]


def same(ours: list[Any], theirs: list[Any]) -> None:
    for a, b in zip(ours, theirs, strict=True):
        np.testing.assert_array_equal(a.view(np.uint32), b.view(np.uint32))


CASES = {
    "one tile": ((2, 3), 5, 7, 3, 4),
    "tiles": ((1, 2), 150, 131, 33, 47),
    "many rows": ((1, 1), 290, 64, 16, 16),
    "few keys": ((2,), 100, 1, 8, 30),
    "widest": ((), 17, 70, 256, 256),
}


@pytest.mark.parametrize("case", CASES)
@pytest.mark.parametrize("kind", ("plain", "causal", "boolean", "added"))
def test_it_is_its_composition(case: str, kind: str) -> None:
    """In float64 to 1e-13, in float32 to 1e-5, of values and gradients of the size of 1."""
    lead, rows, keys, depth, width = CASES[case]
    seen = np.random.default_rng(5).random((rows, keys)) < 0.6
    seen[rows // 2] = False  # a row that sees nothing
    for dtype, limit in (("float64", 1e-13), ("float32", 1e-5)):
        arrays = operands(lead, rows, keys, depth, width, dtype)
        options: dict[str, Any] = {"is_causal": True} if kind == "causal" else {}
        masks = {"boolean": seen, "added": np.where(seen, 0.25, -np.inf).astype(dtype)}
        mask = weft.tensor(masks[kind]) if kind in masks else None
        ours = with_gradients(lambda *x, m=mask, o=options: attention(*x, m, **o), arrays)
        wide = [a.astype("float64") for a in arrays]
        wider = None if mask is None else mask if kind == "boolean" else mask.double()
        theirs = with_gradients(lambda *x, m=wider, o=options: composed(*x, m, **o), wide)
        for a, b in zip(ours, theirs, strict=True):
            assert np.max(np.abs(a - b) / (1 + np.abs(b))) < limit


def test_the_bits_of_an_example_do_not_depend_on_the_batch_or_on_threads() -> None:
    arrays = operands((3, 4), 150, 150, 32, 32)
    together = with_gradients(attention, arrays, is_causal=True)
    before = weft.get_num_threads()
    weft.set_num_threads(2)
    try:
        same(with_gradients(attention, arrays, is_causal=True), together)
    finally:
        weft.set_num_threads(before)
    cotangent = numbers(3, 4, 150, 32, seed=9)
    for i in range(3):
        leaves = [weft.tensor(a[i]).requires_grad_() for a in arrays]
        result = attention(*leaves, is_causal=True)
        found = weft.autograd.grad(result, leaves, weft.tensor(cotangent[i]))
        same([t.detach().numpy() for t in (result, *found)], [x[i] for x in together])


def test_examples_recorded_one_by_one_have_the_bits_of_the_batch() -> None:
    """Forward and backward are one launch each, as for the batch recorded at once."""
    x, weight = numbers(5, 20, 16), weft.tensor(numbers(48, 16, seed=1)).requires_grad_()

    def attended(x: Any) -> Any:
        parts = weft.nn.functional.linear(x, weight).split(16, -1)
        q, k, v = (p.unflatten(-1, (2, 8)).transpose(-2, -3) for p in parts)
        return attention(q, k, v, is_causal=True)

    whole = attended(weft.tensor(x))
    found: list[Any] = []

    def step() -> Any:
        found.extend(attended(weft.tensor(x[i : i + 1])) for i in range(5))
        sum(result.square().sum() for result in found).backward()
        return [weight.grad, *found]

    text = stages(step)
    assert "attention_forward x 5" in text["batch"]
    assert text["lower"].count("attention") == 2
    same([result.detach().numpy()[0] for result in found], list(whole.detach().numpy()))


NESTED = {
    "query, then key": ("query", "key"),
    "key, then query": ("key", "query"),
    "query, then value": ("query", "value"),
    "mask, then query": ("mask", "query"),
}


@pytest.mark.parametrize("pair", NESTED.values(), ids=NESTED)
def test_batches_of_batches_that_share_operands(pair: tuple[str, str]) -> None:
    """What only the inner batch, or only the outer one, has in common, in maps of maps and in batches of maps."""
    q, k, v = (weft.tensor(x) for x in operands((2, 1), 4, 5, 3, 3, "float64"))
    given = {"query": q, "key": k, "value": v, "mask": weft.tensor(numbers(4, 5, dtype="float64"))}
    outer, inner = (
        weft.stack([given[name] * factor for factor in (1.0, -2.0, 0.5)[:count]])
        for name, count in zip(pair, (3, 2), strict=True)
    )

    def attended(of_outer: Any, of_inner: Any) -> Any:
        return attention(*{**given, pair[0]: of_outer, pair[1]: of_inner}.values())

    def mapped(of_outer: Any) -> Any:
        return weft.func.vmap(lambda of_inner: attended(of_outer, of_inner))(inner)

    wanted = [[attended(one, other).numpy() for other in inner] for one in outer]
    same([weft.func.vmap(mapped)(outer).numpy()], [np.array(wanted)])
    same([weft.stack([mapped(one) for one in outer]).numpy()], [np.array(wanted)])


def test_rows_and_keys_that_are_not_seen_change_no_bit() -> None:
    """A causal mask is the mask it stands for; a row that sees few keys is that row of a shorter sequence."""
    q, k, v = operands((1, 2), 200, 200, 16, 16)
    tensors = [weft.tensor(x) for x in (q, k, v)]
    causal = attention(*tensors, is_causal=True).numpy()
    triangle = weft.ones(200, 200, dtype=weft.bool).tril()
    same([attention(*tensors, triangle).numpy()], [causal])
    short = attention(*(x[..., :130, :] for x in tensors), is_causal=True).numpy()
    same([short], [np.ascontiguousarray(causal[..., :130, :])])
    q[0, 1, 7] = np.nan
    spoilt = attention(weft.tensor(q), *tensors[1:], is_causal=True).numpy()
    assert np.isnan(spoilt[0, 1, 7]).all() and np.isnan(spoilt).sum() == 16


def test_operands_are_read_where_they_lie() -> None:
    """Heads side by side, transposed, reversed and repeated operands give the bits of plain ones."""
    q, k, v = (weft.tensor(x) for x in operands((2, 3), 40, 40, 24, 24))
    plain = attention(q, k, v).numpy()
    beside = [x.transpose(1, 2).contiguous().transpose(1, 2) for x in (q, k, v)]
    across = [x.mT.contiguous().mT for x in (q, k, v)]
    turned = [x.flip(-1).contiguous().flip(-1) for x in (q, k, v)]
    for layout in (beside, across, turned):
        same([attention(*layout).numpy()], [plain])
    one = k[:, :1].expand(2, 3, 40, 24)
    wanted = attention(q, one.contiguous(), v).numpy()
    same([attention(q, one, v).numpy()], [wanted])


def test_shared_heads_are_repeated_heads() -> None:
    q, _, _ = operands((2, 6), 33, 70, 8, 8, "float64")
    _, k, v = operands((2, 2), 33, 70, 8, 8, "float64")
    ours = with_gradients(attention, [q, k, v], enable_gqa=True)
    repeated = [q, k.repeat(3, 1), v.repeat(3, 1)]
    theirs = with_gradients(attention, repeated)
    np.testing.assert_array_equal(ours[0], theirs[0])
    np.testing.assert_array_equal(ours[1], theirs[1])
    for a, b in zip(ours[2:], theirs[2:], strict=True):
        np.testing.assert_allclose(a, b.reshape(2, 2, 3, 70, 8).sum(2), 1e-12, 1e-12)


def test_no_scores_are_kept() -> None:
    """No value of the program has both lengths; the gradient is one launch although three operands ask for it."""
    leaves = [weft.tensor(x).requires_grad_() for x in operands((1, 2), 70, 90, 8, 8)]

    def step() -> Any:
        attention(*leaves, is_causal=True).sum().backward()
        return [x.grad for x in leaves]

    text = stages(step)
    assert "70, 90" not in text["collect"] and "90, 70" not in text["collect"]
    assert text["lower"].count("attention_backward") == 1


def test_what_the_kernel_does_not_do_is_composed() -> None:
    """A mask with a gradient, heads of more than 256, leading dimensions that broadcast, dropout."""
    q, k, v = operands((2, 2), 6, 5, 4, 4, "float64")
    bias = numbers(6, 5, seed=4, dtype="float64")
    ours = with_gradients(attention, [q, k, v, bias])
    theirs = with_gradients(composed, [q, k, v, bias])
    for a, b in zip(ours, theirs, strict=True):
        np.testing.assert_allclose(a, b, 1e-11, 1e-13)
    wide = operands((2,), 6, 5, 257, 4, "float64")
    for a, b in zip(with_gradients(attention, wide), with_gradients(composed, wide), strict=True):
        np.testing.assert_allclose(a, b, 1e-11, 1e-13)
    one = with_gradients(attention, [q[:1], k, v])
    assert one[0].shape == (2, 2, 6, 4) and one[1].shape == (1, 2, 6, 4)


def test_other_derivatives() -> None:
    """Second derivatives, forward mode and vmap, of shared heads under a causal mask."""
    q, k, v = operands((1, 4), 6, 7, 3, 5, "float64")
    k, v = k[:, :2], v[:, :2]
    options: dict[str, Any] = {"is_causal": True, "enable_gqa": True}
    leaves = tuple(weft.tensor(x).requires_grad_() for x in (q, k, v))
    assert weft.autograd.gradgradcheck(lambda *x: attention(*x, **options), leaves)
    moves = tuple(weft.tensor(numbers(*x.shape, seed=7, dtype="float64")) for x in (q, k, v))
    tensors = tuple(weft.tensor(x) for x in (q, k, v))

    def repeated(q: Any, k: Any, v: Any) -> Any:
        return composed(q, k.repeat_interleave(2, 1), v.repeat_interleave(2, 1), is_causal=True)

    value, tangent = weft.func.jvp(lambda *x: attention(*x, **options), tensors, moves)
    other, wanted = weft.func.jvp(repeated, tensors, moves)
    np.testing.assert_allclose(value.numpy(), other.numpy(), 1e-12, 1e-13)
    np.testing.assert_allclose(tangent.numpy(), wanted.numpy(), 1e-11, 1e-12)
    stacked = weft.tensor(numbers(3, *q.shape, seed=8, dtype="float64"))

    def slope(x: Any) -> Any:
        return weft.func.grad(lambda x: (attention(x, *tensors[1:], **options) ** 2).sum())(x)

    mapped = weft.vmap(slope)(stacked)
    alone = [slope(stacked[i]).numpy() for i in range(3)]
    np.testing.assert_array_equal(mapped.numpy(), np.stack(alone))
