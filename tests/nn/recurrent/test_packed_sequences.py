"""Packed, padded and ragged sequences: conversions, and recurrent layers over them, as PyTorch and as item by item."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

import weft
from oracle import torch
from weft import nested, nn
from weft.nn.utils import rnn

Lengths = st.lists(st.integers(1, 5), min_size=1, max_size=5)
RUNS = settings(max_examples=15, deadline=None)


def arrays(lengths: list[int], width: int = 2) -> list[np.ndarray]:
    random = np.random.default_rng(len(lengths))
    return [random.normal(size=(length, width)) for length in lengths]


def agree(found: Any, wanted: Any) -> None:
    """Structures of tensors, ours and PyTorch's."""
    if wanted is None:
        assert found is None
    elif isinstance(wanted, (tuple, list)):
        assert len(found) == len(wanted)
        for a, b in zip(found, wanted, strict=True):
            agree(a, b)
    else:
        assert tuple(found.shape) == tuple(wanted.shape)
        np.testing.assert_allclose(
            found.detach().numpy(), wanted.detach().numpy(), rtol=1e-9, atol=1e-12
        )


@given(lengths=Lengths, first=st.booleans(), data=st.data())
@RUNS
def test_conversions_are_those_of_pytorch(
    lengths: list[int], first: bool, data: st.DataObject
) -> None:
    theirs = torch.nn.utils.rnn
    found = []
    for library, of in ((rnn, weft.tensor), (theirs, torch.tensor)):
        items = [of(one) for one in arrays(lengths)]
        padded = library.pad_sequence(items, batch_first=first, padding_value=3.0)
        packed = library.pack_padded_sequence(padded, of(lengths), first, enforce_sorted=False)
        again = library.pad_packed_sequence(packed, first, -1.0, total_length=6)
        found.append(
            (
                padded,
                library.pad_sequence(items, padding_side="left"),
                packed,
                again,
                library.pack_sequence(items, enforce_sorted=False),
                # A copy: PyTorch transposes what it gets.
                library.unpad_sequence(padded.clone(), of(lengths), first),
                library.unpack_sequence(packed),
            )
        )
    agree(*found)
    in_order = sorted(lengths, reverse=True)
    agree(
        rnn.pack_sequence([weft.tensor(one) for one in arrays(in_order)]),
        theirs.pack_sequence([torch.tensor(one) for one in arrays(in_order)]),
    )


@pytest.mark.parametrize("kind", ["RNN", "GRU", "LSTM"])
@pytest.mark.parametrize("bidirectional", [False, True])
@given(lengths=Lengths, given_state=st.booleans())
@settings(max_examples=6, deadline=None)
def test_recurrent_layers_take_packed_sequences_as_pytorch_does(
    kind: str, bidirectional: bool, lengths: list[int], given_state: bool
) -> None:
    layers = [
        getattr(library.nn, kind)(2, 3, num_layers=2, bidirectional=bidirectional).double()
        for library in (torch, weft)
    ]
    layers[1].load_state_dict(
        {k: weft.tensor(v.numpy()) for k, v in layers[0].state_dict().items()}
    )
    state = np.random.default_rng(1).normal(size=(4 if bidirectional else 2, len(lengths), 3))
    results = []
    for library, layer in zip((torch, weft), layers, strict=True):
        items = [library.tensor(one, requires_grad=True) for one in arrays(lengths)]
        hx: Any = library.tensor(state) if given_state else None
        if given_state and kind == "LSTM":
            hx = (hx, hx * 2)
        out, last = layer(library.nn.utils.rnn.pack_sequence(items, enforce_sorted=False), hx)
        total = (out.data**2).sum() + sum(
            (part**3).sum() for part in (last if kind == "LSTM" else [last])
        )
        total.backward()
        results.append(
            (out, last, [one.grad for one in items], [p.grad for p in layer.parameters()])
        )
    agree(results[1], results[0])


@pytest.mark.parametrize("kind", ["RNN", "GRU", "LSTM"])
@given(lengths=st.lists(st.integers(0, 4), min_size=1, max_size=5), given_state=st.booleans())
@RUNS
def test_recurrent_layers_take_ragged_tensors(
    kind: str, lengths: list[int], given_state: bool
) -> None:
    """As item by item; an item without entries keeps the state that it begins with."""
    layer = getattr(nn, kind)(2, 3, bidirectional=True, batch_first=True).double()
    items = [weft.tensor(one, requires_grad=True) for one in arrays(lengths)]
    states = weft.tensor(
        np.random.default_rng(1).normal(size=(2, len(items), 3)), requires_grad=True
    )
    start = states if given_state else weft.zeros_like(states)

    def hx(part: Any) -> Any:
        return (part, part * 2) if kind == "LSTM" else part

    tensor = nested.nested_tensor_from_jagged(weft.cat(items), lengths=lengths)
    out, last = layer(tensor, hx(start))
    wanted, finals = [], []
    for i, item in enumerate(items):
        own = hx(start[:, i])
        result, final = layer(item, own) if len(item) else (item.new_zeros(0, 6), own)
        wanted.append(result)
        finals.append(final if kind == "LSTM" else (final,))
    agree(out.unbind(), wanted)
    for found, parts in zip(
        last if kind == "LSTM" else (last,), zip(*finals, strict=True), strict=True
    ):
        agree(found, weft.stack(parts, 1))
    if sum(lengths):
        leaves = [item for item in items if len(item)]
        joined = weft.cat(wanted)
        agree(
            weft.autograd.grad((out.values() ** 2).sum(), leaves, retain_graph=True),
            weft.autograd.grad((joined**2).sum(), leaves),
        )


def test_a_packed_sequence_changes_type_and_keeps_its_order() -> None:
    packed = rnn.pack_sequence([weft.ones(1, 2), weft.ones(3, 2)], enforce_sorted=False)
    assert packed.double().data.dtype is weft.float64 and packed.cpu() is packed
    assert packed.long().sorted_indices.tolist() == [1, 0]
    assert packed.batch_sizes.tolist() == [2, 1, 1] and not packed.is_cuda


REFUSED = {
    "order": (lambda: rnn.pack_sequence([weft.ones(1), weft.ones(2)]), "enforce_sorted=False"),
    "zero": (lambda: rnn.pack_padded_sequence(weft.ones(3, 2), [3, 0]), "weft.nested"),
    "count": (lambda: rnn.pack_padded_sequence(weft.ones(3, 2), [3]), "one length per sequence"),
    "long": (lambda: rnn.pack_padded_sequence(weft.ones(3, 2), [4, 1]), "batch_first"),
    "empty": (lambda: rnn.pack_padded_sequence(weft.ones(0, 2), [1, 1]), "leave empty batches out"),
    "sizes": (lambda: rnn.pad_sequence([weft.ones(2, 3), weft.ones(2, 4)]), "check the sequences"),
    "side": (lambda: rnn.pad_sequence([weft.ones(2)], padding_side="up"), "'right'"),
    "total": (
        lambda: rnn.pad_packed_sequence(rnn.pack_sequence([weft.ones(3)]), total_length=2),
        "leave total_length out",
    ),
    "width": (lambda: nn.LSTM(3, 2)(rnn.pack_sequence([weft.ones(3, 2)])), "input_size"),
    "ragged": (
        lambda: nn.GRU(2, 2)(nested.nested_tensor([weft.ones(2, 1), weft.ones(2, 3)])),
        "transpose",
    ),
}  # fmt: skip


@pytest.mark.parametrize("name", REFUSED)
def test_what_is_refused_says_how_to_go_on(name: str) -> None:
    call, fix = REFUSED[name]
    with pytest.raises((RuntimeError, NotImplementedError)) as caught:
        call()
    assert fix in str(caught.value)
