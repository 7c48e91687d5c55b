"""Ragged tensors beside PyTorch's jagged ones, and beside the padded batches that people use instead."""

from __future__ import annotations

import warnings
from collections.abc import Callable
from functools import partial
from typing import Any

import numpy as np

from benchmarks.libraries import array, fill, normal, realize
from benchmarks.measure import Context, Job, compare

Function = Callable[[Any, Any], Any]


def lengths_of(items: int, longest: int) -> np.ndarray[Any, Any]:
    """Lengths as sentences have them: many short ones, few long ones."""
    drawn = np.random.default_rng(0).gamma(2.0, longest / 8, items)
    return np.clip(drawn, 1, longest).astype(np.int64)


def batch(lib: Any, lengths: Any, width: int) -> tuple[Any, Any]:
    """Values that want gradients, and the ragged tensor of them: (items, j, width)."""
    values = normal(lib, int(lengths.sum()), width).requires_grad_()
    offsets = lib.tensor(np.concatenate([[0], np.cumsum(lengths)]))
    options = {"min_seqlen": int(lengths.min()), "max_seqlen": int(lengths.max())}
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")  # PyTorch: nested tensors are a prototype
        return values, lib.nested.nested_tensor_from_jagged(values, offsets, **options)


def dense(found: Any) -> Any:
    """The entries of a result, ragged or not."""
    return found.values() if found.is_nested else found


def forward(lib: Any, function: Function, lengths: Any, width: int) -> Job:
    """A function of a ragged tensor."""
    _, tensor = batch(lib, lengths, width)
    tensor = tensor.detach()

    def run() -> Any:
        found = dense(function(lib, tensor))
        realize(lib, found)
        return found

    return Job(run, lambda: [array(run())], compare=(1e-3, 1e-5))


def both_ways(lib: Any, function: Function, lengths: Any, width: int) -> Job:
    """The squares of its entries, and their gradient."""
    values, tensor = batch(lib, lengths, width)

    def run() -> Any:
        values.grad = None
        loss = dense(function(lib, tensor)).square().sum()
        loss.backward()
        realize(lib, loss, values.grad)
        return loss

    return Job(run, lambda: [array(run()), array(values.grad)], compare=(1e-3, 1e-4))


def total(lib: Any, x: Any) -> Any:
    """The sum over the ragged dimension."""
    return x.sum(1)


def average(lib: Any, x: Any) -> Any:
    """The mean over the ragged dimension."""
    return x.mean(1)


def softmax(lib: Any, x: Any) -> Any:
    """softmax over the ragged dimension."""
    return lib.softmax(x, 1)


def chain(lib: Any, x: Any) -> Any:
    """gelu, a normalisation, a shift and a scale."""
    f = lib.nn.functional
    return f.layer_norm(f.gelu(x) * 2 + 1, (x.size(-1),))


def attend(lib: Any, x: Any) -> Any:
    """Attention in four heads."""
    heads = x.unflatten(-1, [4, x.size(-1) // 4]).transpose(1, 2)
    found = lib.nn.functional.scaled_dot_product_attention(heads, heads, heads)
    return found.transpose(1, 2)


OPERATIONS: dict[str, tuple[Function, Callable[..., Job], str]] = {
    "sum over the ragged dimension": (total, forward, "forward"),
    "mean over the ragged dimension": (average, forward, "forward"),
    "softmax over the ragged dimension": (softmax, forward, "forward"),
    "gelu, layer_norm": (chain, both_ways, "forward + backward"),
    "attention, 4 heads": (attend, both_ways, "forward + backward"),
}


def operations(context: Context) -> None:
    """Single operations on a batch of sequences."""
    items, longest, width = context.pick((32, 120, 64), (16, 50, 32))
    lengths = lengths_of(items, longest)
    size = f"{items} items of {lengths.min()} to {lengths.max()} x {width}"
    for name, (function, kind, ways) in OPERATIONS.items():
        compare(
            context,
            f"ragged {size}: {name}, {ways}",
            partial(kind, function=function, lengths=lengths, width=width),
        )


def encoder(context: Context) -> None:
    """A step of a transformer block: ragged in both libraries, then padded and masked in PyTorch."""
    items, longest, width = context.pick((32, 120, 64), (16, 50, 32))
    lengths = lengths_of(items, longest)
    size = f"{items} items of {lengths.min()} to {lengths.max()} x {width}"
    for name, padded in (("ragged in both", False), ("PyTorch padded", True)):
        compare(
            context,
            f"transformer block, {size}, SGD step, {name}",
            partial(block_step, lengths=lengths, width=width, padded=padded),
        )


def block_of(lib: Any, width: int) -> Any:
    """The parameters of a block, as a list of layers."""
    nn = lib.nn
    layers = [nn.LayerNorm(width), *(nn.Linear(width, width) for _ in range(4))]
    layers += [nn.LayerNorm(width), nn.Linear(width, 4 * width), nn.Linear(4 * width, width)]
    return fill(lib, nn.ModuleList(layers))


def run_block(lib: Any, layers: Any, x: Any, mask: Any = None) -> Any:
    """Attention and a perceptron, each added to its input."""
    first, *project, join, second, widen, narrow = layers
    normed = first(x)
    heads = [one(normed).unflatten(-1, [4, x.size(-1) // 4]).transpose(1, 2) for one in project]
    options = {} if mask is None else {"attn_mask": mask}
    found = lib.nn.functional.scaled_dot_product_attention(*heads, **options)
    x = x + join(found.transpose(1, 2).flatten(-2))
    return x + narrow(lib.nn.functional.gelu(widen(second(x))))


def block_step(lib: Any, lengths: Any, width: int, padded: bool) -> Job:
    """Forward, backward, update."""
    values, tensor = batch(lib, lengths, width)
    tensor, mask = tensor.detach(), None
    layers = block_of(lib, width)
    optimizer = lib.optim.SGD(layers.parameters(), lr=1e-4)
    keep: Any = None
    if padded and lib.__name__ == "torch":
        tensor = tensor.to_padded_tensor(0.0)
        keep = lib.tensor(np.arange(lengths.max()) < lengths[:, None])
        mask = keep[:, None, None, :]

    def run() -> Any:
        found = run_block(lib, layers, tensor, mask)
        entries = dense(found) if keep is None else found[keep]
        loss = entries.square().mean()
        optimizer.zero_grad()
        loss.backward()
        optimizer.step()
        realize(lib, loss)
        return loss

    return Job(run, lambda: [array(run())], compare=(1e-3, 1e-5))


def packed(context: Context) -> None:
    """A bidirectional LSTM over a packed batch."""
    items, longest, width = context.pick((32, 80, 128), (8, 20, 16))
    lengths = lengths_of(items, longest)
    compare(
        context,
        f"packed BiLSTM {width}, {items} items of {lengths.min()} to {lengths.max()}, forward + backward",
        partial(packed_step, lengths=lengths, width=width),
    )


def packed_step(lib: Any, lengths: Any, width: int) -> Job:
    """The squares of its outputs, and the gradients of its weights."""
    layer = fill(lib, lib.nn.LSTM(width, width, bidirectional=True))
    items = [normal(lib, int(length), width, seed=i) for i, length in enumerate(lengths)]
    batch_of = lib.nn.utils.rnn.pack_sequence(items, enforce_sorted=False)

    def run() -> Any:
        layer.zero_grad()
        loss = layer(batch_of)[0].data.square().mean()
        loss.backward()
        realize(lib, loss, *(weight.grad for weight in layer.parameters()))
        return loss

    return Job(run, lambda: [array(run()), array(layer.weight_hh_l0.grad)], compare=(1e-3, 1e-6))


def ragged(context: Context) -> None:
    """All of these."""
    operations(context)
    encoder(context)
    packed(context)
