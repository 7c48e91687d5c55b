"""Functions of `weft` with modes by number: values, gradients and errors are PyTorch's."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import numpy as np
import pytest

import weft
from oracle import torch

Make = Callable[..., Any]


def _numbers(*shape: int, seed: int = 0) -> Any:
    return np.random.RandomState(seed).randn(*shape).astype(np.float32)


def _signs(*shape: int) -> Any:
    return np.sign(_numbers(*shape, seed=5))


def _weights(gates: int, width: int, hidden: int, layers: int, both: bool, biases: bool) -> Any:
    sides, made = 2 if both else 1, []
    for layer in range(layers):
        for side in range(sides):
            seed = 10 * layer + side
            made.append(_numbers(gates * hidden, hidden * sides if layer else width, seed=seed))
            made.append(_numbers(gates * hidden, hidden, seed=seed + 1))
            made += [_numbers(gates * hidden, seed=seed + 2 + i) for i in range(2 if biases else 0)]
    return made


def _recurrent(name: str, gates: int) -> dict[str, Callable[[Any, Make], Any]]:
    """Calls over a batch and over a packed one, of layers, sides, with biases and without."""

    def over(both: bool, biases: bool, packed: bool, first: bool) -> Callable[[Any, Make], Any]:
        def call(lib: Any, t: Make) -> Any:
            sides = 2 * (2 if both else 1)
            state = [t(_numbers(sides, 3, 4, seed=s)) for s in (7, 8)]
            hx = tuple(state) if name == "lstm" else state[0]
            rest = (
                [t(w) for w in _weights(gates, 5, 4, 2, both, biases)],
                biases,
                2,
                0.0,
                True,
                both,
            )
            if packed:
                sizes = lib.tensor([3, 2, 1])
                return getattr(lib, name)(t(_numbers(6, 5)), sizes, hx, *rest)
            x = _numbers(3, 6, 5) if first else _numbers(6, 3, 5)
            return getattr(lib, name)(t(x), hx, *rest, first)

        return call

    ways = [(False, True, False, False), (True, False, False, True), (True, True, True, False)]
    return {f"{name} {way}": over(*way) for way in ways}


CALLS: dict[str, Callable[[Any, Make], Any]] = {
    **{
        f"{name} {reduction}": lambda lib, t, name=name, reduction=reduction: getattr(lib, name)(
            *(t(x) for x in LOSSES[name]), reduction=reduction
        )
        for name in (
            "binary_cross_entropy_with_logits", "cosine_embedding_loss", "hinge_embedding_loss", "kl_div",
            "margin_ranking_loss", "triplet_margin_loss",
        )
        for reduction in range(3)
    },
    "poisson_nll_loss": lambda lib, t: lib.poisson_nll_loss(
        t(_numbers(4)), t(abs(_numbers(4))), True, True, 1e-8, 1
    ),
    "ctc_loss": lambda lib, t: lib.ctc_loss(
        t(_numbers(6, 2, 5)).log_softmax(-1), lib.tensor([[1, 2], [3, 3]]), [6, 5], [2, 2], 0, 2
    ),
    **_recurrent("lstm", 4),
    **_recurrent("gru", 3),
    **_recurrent("rnn_tanh", 1),
    **_recurrent("rnn_relu", 1),
    "convolution": lambda lib, t: lib.convolution(
        t(_numbers(2, 4, 9)), t(_numbers(6, 2, 3)), None, [2], [1], [1], False, [0], 2
    ),
    "convolution transposed": lambda lib, t: lib.convolution(
        t(_numbers(2, 4, 5, 5)), t(_numbers(4, 3, 3, 3)), t(_numbers(3)), [2, 2], [1, 1], [1, 1], True, [1, 1], 1
    ),
    "conv_tbc": lambda lib, t: lib.conv_tbc(
        t(_numbers(7, 2, 3)), t(_numbers(3, 3, 4)), t(_numbers(4)), 1
    ),
    "adaptive_max_pool1d": lambda lib, t: lib.adaptive_max_pool1d(t(_numbers(2, 3, 8)), 3),
    "max_pool1d_with_indices": lambda lib, t: lib.max_pool1d_with_indices(t(_numbers(2, 3, 8)), 3),
    "affine_grid_generator": lambda lib, t: lib.affine_grid_generator(
        t(_numbers(2, 2, 3)), [2, 3, 4, 5], True
    ),
    "frobenius_norm": lambda lib, t: lib.frobenius_norm(t(_numbers(3, 4)), [1], True),
    "nuclear_norm": lambda lib, t: lib.nuclear_norm(t(_numbers(3, 4))),
    "nuclear_norm of dims": lambda lib, t: lib.nuclear_norm(t(_numbers(2, 3, 4)), (0, 2), True),
    "norm_except_dim": lambda lib, t: lib.norm_except_dim(t(_numbers(3, 4, 2)), 2, 1),
    "norm_except_dim -1": lambda lib, t: lib.norm_except_dim(t(_numbers(3, 4)), 2, -1),
    # PyTorch's takes sparse tensors only
    "native_norm": lambda lib, t: (lib.native_norm if lib is weft else lib.norm)(t(_numbers(3, 4)), 3),
    "native_dropout kept": lambda lib, t: lib.native_dropout(t(_numbers(3, 4)), 0.5, False),
    "embedding_bag": lambda lib, t: lib.embedding_bag(
        t(_numbers(6, 3)), lib.tensor([0, 2, 2, 5, 1]), lib.tensor([0, 3]), mode=1
    )[0],
    "embedding_bag sizes": lambda lib, t: lib.embedding_bag(
        t(_numbers(6, 3)), lib.tensor([0, 2, 2, 5, 1]), lib.tensor([0, 3, 3]), mode=1
    )[1:3],
    "embedding_renorm_": lambda lib, t: lib.embedding_renorm_(
        t(_numbers(6, 3)).detach(), lib.tensor([0, 2, 2]), 0.5, 2.0
    ),
}  # fmt: skip
LOSSES = {
    "binary_cross_entropy_with_logits": (_numbers(4, 3), abs(_signs(4, 3))),
    "cosine_embedding_loss": (_numbers(4, 3), _numbers(4, 3, seed=1), _signs(4)),
    "hinge_embedding_loss": (_numbers(4, 3), _signs(4, 3)),
    "kl_div": (_numbers(4, 3), abs(_numbers(4, 3, seed=1))),
    "margin_ranking_loss": (_numbers(4), _numbers(4, seed=1), _signs(4)),
    "triplet_margin_loss": (_numbers(4, 3), _numbers(4, 3, seed=1), _numbers(4, 3, seed=2)),
}


def _found(lib: Any, call: Callable[[Any, Make], Any]) -> list[Any]:
    """What a call gives, and the gradients of the sum of its parts, in double precision: float32 hides which of two
    libraries has rounded."""
    leaves: list[Any] = []

    def leaf(array: Any) -> Any:
        leaves.append(lib.tensor(array.astype(np.float64), requires_grad=True))
        return leaves[-1]

    answer = call(lib, leaf)
    parts = list(answer) if isinstance(answer, tuple) else [answer]
    total = sum(
        (part.sum() for part in parts if part.requires_grad), lib.zeros((), dtype=lib.float64)
    )
    if total.requires_grad:
        total.backward()
    found = [part.detach() for part in parts] + [x.grad for x in leaves if x.grad is not None]
    return [np.asarray(x) for x in found]


@pytest.mark.filterwarnings("ignore:at.*is deprecated and it is just left for JIT:UserWarning")
@pytest.mark.parametrize("name", CALLS)
def test_functions_with_modes_by_number_are_pytorchs(name: str) -> None:
    ours, theirs = _found(weft, CALLS[name]), _found(torch, CALLS[name])
    assert len(ours) == len(theirs)
    for mine, other in zip(ours, theirs, strict=True):
        assert mine.shape == other.shape
        np.testing.assert_allclose(mine, other, 1e-9, 1e-9)


def test_a_recurrent_function_is_the_layer() -> None:
    layer = weft.nn.LSTM(5, 6, 2, proj_size=3, bidirectional=True)
    x, h, c = weft.randn(7, 2, 5), weft.randn(4, 2, 3), weft.randn(4, 2, 6)
    out, (last, cell) = layer(x, (h, c))
    made = weft.lstm(x, (h, c), list(layer.parameters()), True, 2, 0.0, True, True, False)
    for mine, theirs in zip(made, (out, last, cell), strict=True):
        assert weft.equal(mine, theirs)


@pytest.mark.parametrize("name", ["dropout_", "alpha_dropout_", "feature_dropout_"])
def test_dropout_in_place_writes_into_its_argument(name: str) -> None:
    x = weft.ones(4, 6, 5)
    assert getattr(weft, name)(x, 0.5, True) is x
    assert not weft.equal(x, weft.ones(4, 6, 5))


def test_native_dropout_says_what_is_left() -> None:
    x = weft.ones(1000, requires_grad=True)
    out, kept = weft.native_dropout(x, 0.25, True)
    out.sum().backward()
    assert weft.equal(x.grad, kept / 0.75) and 650 < kept.sum() < 850


def test_a_reduction_that_is_no_number_of_one() -> None:
    with pytest.raises(ValueError, match="3 is not a valid value for reduction"):
        weft.kl_div(weft.zeros(2), weft.zeros(2), 3)
