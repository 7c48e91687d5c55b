"""A function of a ragged tensor is the function of each item: in value and gradient, for any lengths."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

import weft
import weft.nn.functional as F
from weft import nested
from weft.nested import attention
from weft.nested.rows import RaggedDim

# One ragged dimension behind the batch, one behind a uniform dimension, and two.
KINDS: dict[str, Callable[[int, int], tuple[int, ...]]] = {
    "rows": lambda a, b: (a, 3),
    "columns": lambda a, b: (2, a),
    "both": lambda a, b: (a, b),
    "images": lambda a, b: (2, a, b),
}
Lengths = st.lists(st.tuples(st.integers(0, 5), st.integers(0, 3)), min_size=1, max_size=5)
Filled = st.lists(st.tuples(st.integers(1, 5), st.integers(1, 3)), min_size=1, max_size=5)
RUNS = settings(max_examples=8, deadline=None)


def items_of(kind: str, lengths: list[tuple[int, int]], seed: int = 0) -> list[Any]:
    """Leaves with values of both signs, away from 0."""
    random = np.random.default_rng(seed)
    found = []
    for a, b in lengths:
        b = b if a else 0  # of an item without rows, the lengths of its rows are not kept
        values = random.uniform(0.2, 1.5, KINDS[kind](a, b))
        signs = random.choice([-1.0, 1.0], values.shape)
        found.append(weft.tensor(values * signs, requires_grad=True))
    return found


def build(kind: str, lengths: list[tuple[int, int]], seed: int = 0) -> tuple[list[Any], Any]:
    """Items, and a ragged tensor of them whose structure depends on the kind, never on chance."""
    items = items_of(kind, lengths, seed)
    a = np.array([one for one, _ in lengths])
    if kind == "rows":
        return items, nested.nested_tensor_from_jagged(weft.cat(items), lengths=weft.tensor(a))
    if kind == "columns":
        values = weft.cat(items, 1)
        return items, nested.nested_tensor_from_jagged(values, lengths=weft.tensor(a), jagged_dim=2)
    b = np.array([inner if outer else 0 for outer, inner in lengths])
    rows = RaggedDim.of(a).below(b)
    if kind == "both":
        return items, nested.NestedTensor(weft.cat([item.flatten() for item in items]), rows)
    values = weft.cat([item.movedim(0, -1).flatten(0, 1) for item in items])  # (2, a, b) -> (ab, 2)
    return items, nested.NestedTensor(values, rows, (2, 3))


def cotangent(shape: tuple[int, ...], seed: int) -> Any:
    return weft.tensor(np.random.default_rng(seed).uniform(0.5, 1.5, tuple(shape)))


def flat(found: Any) -> list[Any]:
    return [part for one in found for part in flat(one)] if isinstance(found, tuple) else [found]


def check(found: Any, wanted: list[Any], leaves: list[Any]) -> None:
    """Items of a result, and the gradients that flow from it to the leaves."""
    parts = list(found.unbind())
    assert len(parts) == len(wanted)
    for part, item in zip(parts, wanted, strict=True):
        assert tuple(part.shape) == tuple(item.shape)
        assert part.dtype == item.dtype
        np.testing.assert_allclose(
            part.detach().numpy(), item.detach().numpy(), rtol=1e-10, atol=1e-12
        )
    if not wanted or not wanted[0].requires_grad:
        assert not found.requires_grad
        return
    gradients = []
    for results in (parts, wanted):
        terms = [(one * cotangent(one.shape, i)).sum() for i, one in enumerate(results)]
        gradients.append(
            weft.autograd.grad(sum(terms), leaves, retain_graph=True, allow_unused=True)
        )
    for got, expected in zip(*gradients, strict=True):
        if expected is None or got is None:
            assert all(one is None or not one.any() for one in (got, expected))
        else:
            np.testing.assert_allclose(got.numpy(), expected.numpy(), rtol=1e-9, atol=1e-11)


ELEMENTWISE: dict[str, Callable[[Any], Any]] = {
    "exp": lambda x: x.exp(),
    "operators": lambda x: -(2 - x * 3) / (x * x + 1) ** 2 + abs(x),
    "comparison": lambda x: (x > 0) & ~(x == 1),
    "where": lambda x: weft.where(x > 0, x, x * 0.1),
    "clamp": lambda x: weft.clamp(x, -0.5, 0.5),
    "functions": lambda x: F.gelu(x) + F.leaky_relu(x, 0.2) + F.softplus(x),
    "types": lambda x: x.float().double(),
    "rare": lambda x: weft.special.entr(x) + weft.special.i0(x) + weft.frexp(x).mantissa,
    "masked_fill": lambda x: x.masked_fill(x < 0, 7.0),
    "own": lambda x: weft.maximum(x.sin(), x.cos()) + weft.zeros_like(x),
    "division": lambda x: x.detach() // 0.3 + x % 0.4,
}


@pytest.mark.parametrize("kind", KINDS)
@pytest.mark.parametrize("name", ELEMENTWISE)
@given(lengths=Lengths)
@RUNS
def test_elementwise(name: str, kind: str, lengths: list[tuple[int, int]]) -> None:
    items, tensor = build(kind, lengths)
    function = ELEMENTWISE[name]
    check(function(tensor), [function(item) for item in items], items)


# Functions of a tensor and a dimension, counted without the batch.
REDUCTIONS: dict[str, Callable[[Any, int, bool], Any]] = {
    name: lambda x, dim, keep, name=name: getattr(weft, name)(x, dim, keep)
    for name in ("sum", "mean", "prod", "logsumexp", "amax", "amin", "nansum", "argmax", "argmin")
}
REDUCTIONS |= {
    "any": lambda x, dim, keep: (x > 1).any(dim, keep),
    "all": lambda x, dim, keep: (x > 0).all(dim, keep),
    "max": lambda x, dim, keep: x.max(dim, keep).values,
    "min": lambda x, dim, keep: weft.min(x, dim, keep)[0],
    "indices": lambda x, dim, keep: x.min(dim, keep).indices,
    "var": lambda x, dim, keep: x.var(dim, correction=0, keepdim=keep),
    "std_mean": lambda x, dim, keep: weft.std_mean(x, dim, correction=0, keepdim=keep)[1],
    "var_mean": lambda x, dim, keep: weft.var_mean(x, dim, correction=0, keepdim=keep)[0],
    "aminmax": lambda x, dim, keep: weft.aminmax(x, dim=dim, keepdim=keep)[1],
    "norm": lambda x, dim, keep: x.norm(3, dim, keep),
    "two norm": lambda x, dim, keep: weft.linalg.vector_norm(x, 2, dim, keep),
    "counted": lambda x, dim, keep: (x > 0).sum(dim, keep),
}
UNDEFINED = {
    "mean",
    "var",
    "two norm",
    "norm",
    "std_mean",
    "var_mean",
}  # of nothing, or their slope
NEED_ENTRIES = {"aminmax", "amax", "amin", "max", "min", "argmax", "argmin", "indices"}


@pytest.mark.parametrize("name", REDUCTIONS)
@given(
    lengths=Filled, kind=st.sampled_from(list(KINDS)), place=st.integers(0, 2), keep=st.booleans()
)
@RUNS
def test_reductions_of_one_dimension(
    name: str, kind: str, lengths: list[tuple[int, int]], place: int, keep: bool
) -> None:
    items, tensor = build(kind, lengths)
    place %= items[0].ndim
    function = REDUCTIONS[name]
    found = function(tensor, place + 1, keep)
    check(found, [function(item, place, keep) for item in items], items)


@pytest.mark.parametrize("name", sorted(set(REDUCTIONS) - NEED_ENTRIES - UNDEFINED))
@given(lengths=Lengths, kind=st.sampled_from(["rows", "columns"]))
@RUNS
def test_reductions_of_empty_rows(name: str, kind: str, lengths: list[tuple[int, int]]) -> None:
    items, tensor = build(kind, lengths)
    place = 0 if kind == "rows" else 1
    function = REDUCTIONS[name]
    check(
        function(tensor, place + 1, False), [function(item, place, False) for item in items], items
    )


@pytest.mark.parametrize("name", sorted(NEED_ENTRIES))
def test_extrema_of_empty_rows_are_refused(name: str) -> None:
    _, tensor = build("rows", [(2, 1), (0, 1)])
    with pytest.raises(IndexError, match="row 1 has no entries"):
        REDUCTIONS[name](tensor, 1, False)


@given(lengths=Filled, kind=st.sampled_from(list(KINDS)), keep=st.booleans())
@RUNS
def test_reductions_of_all_dimensions_of_items(
    kind: str, lengths: list[tuple[int, int]], keep: bool
) -> None:
    items, tensor = build(kind, lengths)
    dims = tuple(range(1, tensor.ndim))
    own = tuple(range(tensor.ndim - 1))
    for function in (weft.sum, weft.mean, weft.amax, weft.logsumexp, weft.linalg.vector_norm):
        options = {} if function is not weft.linalg.vector_norm else {"ord": 2}
        found = function(tensor, dim=dims, keepdim=keep, **options)
        check(found, [function(item, dim=own, keepdim=keep, **options) for item in items], items)


@given(lengths=Lengths)
@RUNS
def test_reductions_over_the_batch(lengths: list[tuple[int, int]]) -> None:
    items, tensor = build("rows", lengths)
    longest = max(a for a, _ in lengths)
    padded = weft.stack([F.pad(item, (0, 0, 0, longest - len(item))) for item in items])
    present = weft.tensor([[float(at < a) for at in range(longest)] for a, _ in lengths]).double()
    np.testing.assert_allclose(tensor.sum(0).tolist(), padded.sum(0).tolist(), rtol=1e-12)
    mean = padded.sum(0) / present.sum(0).unsqueeze(-1)
    np.testing.assert_allclose(tensor.mean(0).tolist(), mean.tolist(), rtol=1e-12)
    np.testing.assert_allclose(
        tensor.sum((0, 1)).tolist(), weft.cat(items).sum(0).tolist(), rtol=1e-12
    )
    assert weft.equal(tensor.sum(), weft.cat(items).sum())


ALONG: dict[str, Callable[[Any, int], Any]] = {
    "softmax": lambda x, dim: weft.softmax(x, dim),
    "log_softmax": lambda x, dim: F.log_softmax(x, dim),
    "softmin": lambda x, dim: F.softmin(x, dim),
    "cumsum": lambda x, dim: x.cumsum(dim),
    "cumprod": lambda x, dim: x.cumprod(dim),
    "normalize": lambda x, dim: F.normalize(x, 2.0, dim),
    "flip": lambda x, dim: x.flip(dim),
    "sort": lambda x, dim: x.sort(dim).values,
    "argsort": lambda x, dim: weft.argsort(-x, dim, descending=True),
    "centred": lambda x, dim: x - x.mean(dim, True),
}


@pytest.mark.parametrize("name", ALONG)
@given(lengths=Filled, kind=st.sampled_from(list(KINDS)), place=st.integers(0, 2))
@RUNS
def test_along_a_dimension(
    name: str, kind: str, lengths: list[tuple[int, int]], place: int
) -> None:
    items, tensor = build(kind, lengths)
    place %= items[0].ndim
    function = ALONG[name]
    check(function(tensor, place + 1), [function(item, place) for item in items], items)


@given(lengths=Lengths, kind=st.sampled_from(list(KINDS)), data=st.data())
@RUNS
def test_broadcasting_with_dense_tensors(
    kind: str, lengths: list[tuple[int, int]], data: st.DataObject
) -> None:
    """Sizes of 1, or of uniform dimensions and the batch."""
    items, tensor = build(kind, lengths)
    sizes = [
        data.draw(st.sampled_from([1, size])) if isinstance(size, int) else 1
        for size in tensor.shape
    ]
    if not data.draw(st.booleans()):
        sizes = sizes[data.draw(st.integers(1, len(sizes))) :]
    dense = cotangent(tuple(sizes), 3).requires_grad_()
    whole = len(sizes) == tensor.ndim
    parts = [dense[i if dense.shape[0] > 1 else 0] if whole else dense for i in range(len(items))]
    check(
        tensor * dense - dense,
        [a * b - b for a, b in zip(items, parts, strict=True)],
        [*items, dense],
    )


@given(lengths=Lengths, kind=st.sampled_from(list(KINDS)))
@RUNS
def test_equal_lengths_are_compatible_by_value(kind: str, lengths: list[tuple[int, int]]) -> None:
    items, a = build(kind, lengths)
    others, b = build(kind, lengths, 1)
    assert a.shape == b.shape
    check(
        weft.atan2(a, b) + a * b,
        [weft.atan2(x, y) + x * y for x, y in zip(items, others, strict=True)],
        items,
    )


@given(lengths=Filled)
@RUNS
def test_rows_and_columns_broadcast(lengths: list[tuple[int, int]]) -> None:
    """(B, j, 1) with (B, 1, k) and with (B, j, k)."""
    items, tensor = build("both", [*lengths, (1, 2), (2, 3)])
    rows, columns = tensor.sum(2, True), tensor.sum(1, True)
    wanted = [item.sum(1, True) * item.sum(0, True) for item in items]
    check(rows * columns, wanted, items)
    check(tensor / rows + columns, [i / i.sum(1, True) + i.sum(0, True) for i in items], items)


SHAPING: dict[str, tuple[str, Callable[[Any, int], Any]]] = {
    "transpose": ("rows", lambda x, b: x.transpose(b, b + 1)),
    "permute": ("images", lambda x, b: x.permute(*range(b), b + 2, b, b + 1)),
    "movedim": ("images", lambda x, b: x.movedim(b, b + 2)),
    "unsqueeze": ("rows", lambda x, b: x.unsqueeze(b).unsqueeze(-1)),
    "squeeze": ("rows", lambda x, b: x.unsqueeze(-1).squeeze(-1)),
    "unflatten": ("rows", lambda x, b: weft.cat([x, x], -1).unflatten(-1, (2, 3))),
    "flatten": ("rows", lambda x, b: (x.unsqueeze(-1) * weft.ones(2)).double().flatten(-2)),
    "split": ("rows", lambda x, b: x.split(2, -1)[0] + x.chunk(2, -1)[0]),
    "triangles": ("both", lambda x, b: x.tril() + weft.triu(x, 1) * 2),
    "one hot": ("rows", lambda x, b: F.one_hot((x > 0).long(), 3)),
    "stack": ("images", lambda x, b: weft.stack([x, x * 2], b + 1)),
    "cat of columns": ("images", lambda x, b: weft.cat([x, x * 2], b)),
    "cat of rows": ("both", lambda x, b: weft.cat([x, x * 2], b + 1)),
    "cat of outer rows": ("images", lambda x, b: weft.cat([x, x * 2, x], b + 1)),
    "slice": ("rows", lambda x, b: x[(*[slice(None)] * b, slice(1, None))]),
    "backwards": ("columns", lambda x, b: x[(*[slice(None)] * (b + 1), slice(None, 1))]),
    "last": ("rows", lambda x, b: x[(*[slice(None)] * b, -1)]),
    "first column": ("columns", lambda x, b: x[..., 0]),
    "inner": ("images", lambda x, b: x[(*[slice(None)] * b, 1)]),
    "outer rows": ("both", lambda x, b: x[(*[slice(None)] * b, slice(None, 2), slice(-2, None))]),
    "inner place": ("images", lambda x, b: x[(*[slice(None)] * (b + 1), 0)]),
    "innermost place": ("images", lambda x, b: x[..., -1]),
    "places": ("rows", lambda x, b: x[..., weft.tensor([2, 0, 2])]),
}


@pytest.mark.parametrize("name", SHAPING)
@given(lengths=Filled)
@RUNS
def test_shapes_and_indices(name: str, lengths: list[tuple[int, int]]) -> None:
    kind, function = SHAPING[name]
    items, tensor = build(kind, lengths)
    check(function(tensor, 1), [function(item, 0) for item in items], items)


@given(lengths=Lengths, kind=st.sampled_from(list(KINDS)), data=st.data())
@RUNS
def test_items_are_chosen(kind: str, lengths: list[tuple[int, int]], data: st.DataObject) -> None:
    items, tensor = build(kind, lengths)
    numbers = data.draw(st.lists(st.integers(-len(items), len(items) - 1), min_size=1, max_size=4))
    check(tensor[weft.tensor(numbers)], [items[i] for i in numbers], items)
    check(tensor[::-1], items[::-1], items)
    mask = [i % 2 == 0 for i in range(len(items))]
    check(tensor[weft.tensor(mask)], items[::2], items)
    assert weft.equal(tensor[numbers[0]], items[numbers[0]])
    check(weft.cat([tensor, tensor[:1]]), [*items, items[0]], items)


@given(lengths=Filled)
@RUNS
def test_products(lengths: list[tuple[int, int]]) -> None:
    items, rows = build("rows", lengths)
    weight = cotangent((3, 4), 5).requires_grad_()
    check(rows @ weight, [item @ weight for item in items], [*items, weight])
    check(
        F.linear(rows, weight.mT), [F.linear(item, weight.mT) for item in items], [*items, weight]
    )
    pairs, columns = build("columns", lengths, 1)
    sums = [weft.cat([x, x[:1]]) for x in pairs]
    columns = weft.cat([columns, columns[:, :1]], 1)
    check(columns @ rows, [a @ b for a, b in zip(sums, items, strict=True)], [*items, *pairs])
    check(rows @ columns, [b @ a for a, b in zip(sums, items, strict=True)], [*items, *pairs])
    scores = rows @ rows.transpose(1, 2)
    check(scores @ rows, [a @ a.mT @ a for a in items], items)
    batch = cotangent((len(items), 3, 2), 6).requires_grad_()
    check(rows @ batch, [a @ batch[i] for i, a in enumerate(items)], [*items, batch])
    check(weight.mT @ rows.transpose(1, 2), [weight.mT @ a.mT for a in items], [*items, weight])


@given(lengths=Lengths, causal=st.booleans(), heads=st.booleans())
@RUNS
def test_attention(lengths: list[tuple[int, int]], causal: bool, heads: bool) -> None:
    """Queries and keys of different lengths; rows of the items side by side would differ if one saw another."""
    of_keys = [(a, b) for b, a in lengths]
    queries, q = build("rows", lengths)
    keys, k = build("rows", of_keys, 1)
    values, v = build("rows", of_keys, 2)
    split = (
        (lambda x, b: x.unflatten(-1, (3, 1)).transpose(b, b + 1)) if heads else (lambda x, b: x)
    )
    found = F.scaled_dot_product_attention(split(q, 1), split(k, 1), split(v, 1), is_causal=causal)
    wanted = [
        F.scaled_dot_product_attention(split(a, 0), split(b, 0), split(c, 0), is_causal=causal)
        for a, b, c in zip(queries, keys, values, strict=True)
    ]
    check(found, wanted, [*queries, *keys, *values])


@given(lengths=Filled)
@RUNS
def test_attention_with_masks(lengths: list[tuple[int, int]]) -> None:
    items, x = build("rows", lengths)
    heads = x.unsqueeze(1)
    bias = x @ x.transpose(1, 2)
    for mask, own in ((bias, lambda a: a @ a.mT), (bias > 0, lambda a: a @ a.mT > 0)):
        found = F.scaled_dot_product_attention(heads, heads, heads, attn_mask=mask)
        wanted = [
            F.scaled_dot_product_attention(a[None], a[None], a[None], attn_mask=own(a))
            for a in items
        ]
        check(found, wanted, items)


@given(lengths=Filled, causal=st.booleans(), average=st.booleans())
@RUNS
def test_attention_of_several_heads(
    lengths: list[tuple[int, int]], causal: bool, average: bool
) -> None:
    items, x = build("rows", lengths)
    weight, bias = cotangent((9, 3), 1).requires_grad_(), cotangent((9,), 2).requires_grad_()
    out = cotangent((3, 3), 3)
    fixed = (3, 3, weight, bias, None, None, False, 0.0, out, None)
    found, shown = attention.multi_head_attention_forward(
        None, x, x, x, *fixed, is_causal=causal, average_attn_weights=average
    )
    results, weights = [], []
    for item in items:
        heads = F.linear(item, weight, bias).unflatten(-1, (3, 3, 1)).permute(1, 2, 0, 3)
        scores = heads[0] @ heads[1].mT
        if causal:
            scores = scores.masked_fill(weft.ones(scores.shape[1:]).triu(1).bool(), -weft.inf)
        own = scores.softmax(-1)
        results.append((own @ heads[2]).transpose(0, 1).flatten(-2) @ out.mT)
        weights.append(own.mean(0) if average else own)
    check(found, results, [*items, weight, bias])
    check(shown, weights, [*items, weight])


LAYERS: dict[str, tuple[str, Callable[[], Any]]] = {
    "linear": ("rows", lambda: weft.nn.Linear(3, 2)),
    "layer norm": ("rows", lambda: weft.nn.LayerNorm(3)),
    "rms norm": ("rows", lambda: weft.nn.RMSNorm(3)),
    "instance norm": ("columns", lambda: weft.nn.InstanceNorm1d(2, affine=True)),
    "stack": (
        "rows",
        lambda: weft.nn.Sequential(weft.nn.Linear(3, 4), weft.nn.GELU(), weft.nn.Linear(4, 1)),
    ),
}


@pytest.mark.parametrize("name", LAYERS)
@given(lengths=st.lists(st.tuples(st.integers(2, 5), st.just(1)), min_size=1, max_size=4))
@RUNS
def test_layers(name: str, lengths: list[tuple[int, int]]) -> None:
    kind, make = LAYERS[name]
    layer = make().double()
    items, tensor = build(kind, lengths)
    check(layer(tensor), [layer(item[None])[0] for item in items], [*items, *layer.parameters()])


@given(lengths=Filled)
@RUNS
def test_group_norm(lengths: list[tuple[int, int]]) -> None:
    items, tensor = build("images", lengths)
    layer = weft.nn.GroupNorm(1, 2).double()
    check(layer(tensor), [layer(item[None])[0] for item in items], [*items, *layer.parameters()])


def test_what_pads_comes_last_in_order() -> None:
    rows = [[weft.inf, weft.nan, 1.0], [-weft.inf, weft.nan], [2.0, 2.0, 1.0, 2.0]]
    tensor = nested.nested_tensor([weft.tensor(row) for row in rows])
    for descending in (False, True):
        for found, row in zip(tensor.sort(1, descending)[1].unbind(), rows, strict=True):
            assert found.tolist() == weft.tensor(row).sort(0, descending, stable=True)[1].tolist()


@given(lengths=Lengths)
@RUNS
def test_batch_norm(lengths: list[tuple[int, int]]) -> None:
    """Over all entries of all items, as of one long item."""
    lengths = [*lengths, (2, 1)]
    items, tensor = build("columns", lengths)
    layers = [weft.nn.BatchNorm1d(2).double() for _ in range(2)]
    found, wanted = layers[0](tensor), layers[1](weft.cat(items, 1)[None])[0]
    check(found, list(wanted.split([a for a, _ in lengths], 1)), items)
    assert weft.allclose(layers[0].running_var, layers[1].running_var)


@given(lengths=st.lists(st.integers(0, 5), min_size=1, max_size=5))
@RUNS
def test_embeddings(lengths: list[int]) -> None:
    random = np.random.default_rng(0)
    items = [weft.tensor(random.integers(0, 7, length)) for length in lengths]
    tensor = nested.as_nested_tensor(items)
    layer = weft.nn.Embedding(7, 3).double()
    check(layer(tensor), [layer(item) for item in items], [layer.weight])


@pytest.mark.parametrize("mode", ["sum", "mean", "max"])
@given(lengths=st.lists(st.integers(0, 5), min_size=1, max_size=5), padded=st.booleans())
@RUNS
def test_embedding_bags(mode: str, lengths: list[int], padded: bool) -> None:
    random = np.random.default_rng(0)
    items = [weft.tensor(random.integers(0, 7, length)) for length in lengths]
    layer = weft.nn.EmbeddingBag(7, 3, mode=mode, padding_idx=2 if padded else None).double()
    found = layer(nested.as_nested_tensor(items))
    check(found, [layer(item[None])[0] for item in items], [layer.weight])


@given(lengths=Filled)
@RUNS
def test_transformer_layers(lengths: list[tuple[int, int]]) -> None:
    items, tensor = build("rows", lengths)
    layer = weft.nn.TransformerEncoderLayer(3, 1, 4, dropout=0.0, batch_first=True).double()
    encoder = weft.nn.TransformerEncoder(layer, 2, enable_nested_tensor=False)
    check(
        encoder(tensor), [encoder(item[None])[0] for item in items], [*items, *encoder.parameters()]
    )


@given(lengths=Filled, kind=st.sampled_from(["rows", "columns"]))
@RUNS
def test_cross_entropy(lengths: list[tuple[int, int]], kind: str) -> None:
    """Classes in dimension 1, or in the last one where dimension 1 is ragged."""
    items, tensor = build(kind, lengths)
    random = np.random.default_rng(1)
    targets = [weft.tensor(random.integers(0, 2, a)) for a, _ in lengths]
    target = nested.as_nested_tensor(targets)
    logits = [item if kind == "rows" else item.mT for item in items]
    losses = [F.cross_entropy(a, b, reduction="none") for a, b in zip(logits, targets, strict=True)]
    check(F.cross_entropy(tensor, target, reduction="none"), losses, items)
    joined = weft.cat(losses)
    for reduction, wanted in (("mean", joined.mean()), ("sum", joined.sum())):
        found = F.cross_entropy(tensor, target, reduction=reduction)
        check(found[None], [wanted], items)
    squares = weft.cat([(item - 2 * item.detach()).square().flatten() for item in items])
    check(F.mse_loss(tensor, tensor.detach() * 2)[None], [squares.mean()], items)


@given(lengths=Lengths, kind=st.sampled_from(list(KINDS)))
@RUNS
def test_padding_and_back(kind: str, lengths: list[tuple[int, int]]) -> None:
    items, tensor = build(kind, lengths)
    padded = tensor.to_padded_tensor(7.5)
    for item, whole in zip(items, padded.unbind(), strict=True):
        part = whole[tuple(slice(size) for size in item.shape)]
        assert weft.equal(part, item)
        assert int((whole == 7.5).sum()) == whole.numel() - item.numel()
    if kind == "rows":
        back = nested.nested_tensor_from_padded(padded, tensor.lengths())
        check(back, items, items)


@given(lengths=Filled, kind=st.sampled_from(list(KINDS)))
@RUNS
def test_second_derivatives(kind: str, lengths: list[tuple[int, int]]) -> None:
    items, tensor = build(kind, lengths)

    def slopes(x: list[Any], y: Any) -> list[Any]:
        first = weft.autograd.grad(y, x, create_graph=True)
        return list(weft.autograd.grad(sum((g * g).sum() for g in first), x))

    found = slopes(items, (weft.softmax(tensor, -1) ** 3).sum())
    wanted = slopes(items, sum((weft.softmax(item, -1) ** 3).sum() for item in items))
    for a, b in zip(found, wanted, strict=True):
        np.testing.assert_allclose(a.numpy(), b.numpy(), rtol=1e-8, atol=1e-12)
