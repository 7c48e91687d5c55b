"""Recurrent layers give PyTorch's outputs, states and gradients for the same weights."""

from __future__ import annotations

import numpy as np
import pytest

import weft
from oracle import torch
from weft import nn

CASES = [
    ("RNN", (4, 3), {}),
    ("RNN", (4, 3, 2, "relu"), {"bias": False}),
    ("LSTM", (4, 3), {}),
    ("LSTM", (4, 3, 2), {"batch_first": True, "bidirectional": True}),
    ("LSTM", (4, 5), {"proj_size": 3}),
    ("LSTM", (4, 5, 2), {"proj_size": 3, "bidirectional": True, "bias": False}),
    ("GRU", (4, 3), {"num_layers": 3}),
    ("GRU", (4, 3), {"bidirectional": True, "bias": False}),
]


def run(library, layer, array: np.ndarray, states: list[np.ndarray] | None) -> list[np.ndarray]:
    """Outputs, final states and gradients as arrays."""
    x = library.tensor(array, requires_grad=True)
    hx = None
    if states is not None:
        made = [library.tensor(state) for state in states]
        hx = tuple(made) if len(made) > 1 else made[0]
    out, last = layer(x, hx)
    finals = list(last) if isinstance(last, tuple) else [last]
    (out.square().sum() + sum(state.sum() for state in finals)).backward()
    values = [out.detach(), *(state.detach() for state in finals), x.grad]
    return [value.numpy() for value in values + [p.grad for p in layer.parameters()]]


@pytest.mark.filterwarnings("ignore:LSTM with projections is not supported with oneDNN")
@pytest.mark.parametrize(("name", "arguments", "options"), CASES)
@pytest.mark.parametrize("given", [False, True], ids=["zeros", "states"])
def test_layers_agree(name: str, arguments: tuple, options: dict, given: bool) -> None:
    layer = getattr(nn, name)(*arguments, **options)
    oracle = getattr(torch.nn, name)(*arguments, **options)
    assert repr(layer) == repr(oracle)
    assert list(layer.state_dict()) == list(oracle.state_dict())
    assert [len(weights) for weights in layer.all_weights] == [len(w) for w in oracle.all_weights]
    layer.load_state_dict({k: weft.tensor(v.numpy()) for k, v in oracle.state_dict().items()})
    random = np.random.default_rng(0)
    array = random.standard_normal((5, 2, 4)).astype(np.float32)
    batch = 5 if options.get("batch_first") else 2
    count = oracle.num_layers * (2 if oracle.bidirectional else 1)
    states = [
        random.standard_normal((count, batch, width)).astype(np.float32)
        for width in ((3, arguments[1]) if name == "LSTM" else (3,))
    ]
    for ours, theirs in zip(
        run(weft, layer, array, states if given else None),
        run(torch, oracle, array, states if given else None),
        strict=True,
    ):
        np.testing.assert_allclose(ours, theirs, rtol=1e-3, atol=1e-5)


def test_a_sequence_without_batch() -> None:
    layer, oracle = nn.GRU(4, 3), torch.nn.GRU(4, 3)
    layer.load_state_dict({k: weft.tensor(v.numpy()) for k, v in oracle.state_dict().items()})
    array = np.random.default_rng(1).standard_normal((6, 4)).astype(np.float32)
    out, last = layer(weft.tensor(array))
    expected, expected_last = oracle(torch.tensor(array))
    np.testing.assert_allclose(out.detach().numpy(), expected.detach().numpy(), atol=1e-5)
    np.testing.assert_allclose(last.detach().numpy(), expected_last.detach().numpy(), atol=1e-5)


@pytest.mark.parametrize(
    ("action", "error", "text"),
    [
        (lambda: nn.LSTM(4, 0), ValueError, "hidden_size must be greater than zero"),
        (lambda: nn.LSTM(4, 3, 0), ValueError, "num_layers must be greater than zero"),
        (lambda: nn.RNN(4, 3, nonlinearity="x"), ValueError, "Unknown nonlinearity 'x'"),
        (lambda: nn.GRU(4, 3)(weft.ones(2, 2, 5)), RuntimeError, "Expected 4, got 5"),
        (lambda: nn.GRU(4, 3)(weft.ones(2)), ValueError, "Expected input to be 2D or 3D, got 1D"),
        (
            lambda: nn.GRU(4, 3)(weft.ones(2, 2, 4), weft.ones(1, 3, 3)),
            RuntimeError,
            r"Expected hidden size \(1, 2, 3\), got \[1, 3, 3\]",
        ),
    ],
)
def test_misuse_is_named(action, error: type[Exception], text: str) -> None:
    with pytest.raises(error, match=text):
        action()


def test_dropout_of_a_single_layer_warns() -> None:
    with pytest.warns(UserWarning, match="dropout option adds dropout after all but last"):
        nn.LSTM(4, 3, dropout=0.5)


@pytest.mark.filterwarnings("ignore:LSTM with projections is not supported with oneDNN")
@pytest.mark.parametrize("batch_first", [False, True])
def test_a_packed_batch_is_projected(batch_first: bool) -> None:
    layer = nn.LSTM(4, 5, proj_size=3, bidirectional=True, batch_first=batch_first)
    oracle = torch.nn.LSTM(4, 5, proj_size=3, bidirectional=True, batch_first=batch_first)
    layer.load_state_dict({k: weft.tensor(v.numpy()) for k, v in oracle.state_dict().items()})
    array = np.random.default_rng(0).standard_normal((3, 3, 4)).astype(np.float32)
    found = []
    for library, module in ((weft, layer), (torch, oracle)):
        rnn = library.nn.utils.rnn
        packed = rnn.pack_padded_sequence(
            library.tensor(array), library.tensor([2, 3, 1]), batch_first, enforce_sorted=False
        )
        out, (hidden, cell) = module(packed)
        found.append([out.data, hidden, cell])
    for ours, theirs in zip(*found, strict=True):
        np.testing.assert_allclose(
            ours.detach().numpy(), theirs.detach().numpy(), rtol=1e-4, atol=1e-6
        )


@pytest.mark.parametrize(
    ("arguments", "options", "error", "text"),
    [
        (("LSTM", 4, 3), {"proj_size": 3}, ValueError, "proj_size has to be smaller"),
        (("LSTM", 4, 3), {"proj_size": -1}, ValueError, "proj_size should be a positive"),
        (("LSTM", 4, 3), {"dropout": 2.0}, ValueError, r"number in range \[0, 1\]"),
        (("WRONG", 4, 3), {}, ValueError, "Unrecognized RNN mode: WRONG"),
        (("GRU", 4, 3.0), {}, TypeError, "hidden_size should be of type int, got: float"),
        (("GRU", 4, 3), {"batch_first": 1}, TypeError, "batch_first should be of type bool"),
    ],
)
def test_arguments_that_do_not_fit_are_refused_in_the_same_words(
    arguments: tuple, options: dict, error: type, text: str
) -> None:
    for library in (nn, torch.nn):
        with pytest.raises(error, match=text):
            library.RNNBase(*arguments, **options)


@pytest.mark.parametrize("name", ["RNN", "GRU"])
def test_only_lstm_has_projections(name: str) -> None:
    for library in (nn, torch.nn):
        with pytest.raises(ValueError, match="only supported for LSTM"):
            getattr(library, name)(4, 3, proj_size=2)
