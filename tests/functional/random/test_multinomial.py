"""Draws by weights: nothing is read at the call, and both ways to find an index find the same."""

from __future__ import annotations

import pytest

import weft


def pending(*weights: float) -> weft.Tensor:
    """Weights that nobody has computed."""
    return weft.tensor(weights) * 1


@pytest.mark.parametrize("replacement", [True, False])
def test_weights_are_not_read(replacement: bool) -> None:
    weights = pending(1.0, 0.0, 3.0)
    drawn = weft.multinomial(weights, 1, replacement)
    assert "pending" in weft.debug.graph_text(drawn)
    assert drawn.item() in (0, 2)


@pytest.mark.parametrize("replacement", [True, False])
@pytest.mark.parametrize(
    ("weights", "text"),
    [
        ((0.0, 0.0), "sum of probabilities <= 0"),
        ((1.0, -1.0), "`inf`, `nan` or element < 0"),
        ((1.0, float("nan")), "`inf`, `nan` or element < 0"),
        ((1.0, float("inf")), "`inf`, `nan` or element < 0"),
    ],
)
def test_bad_weights_raise_when_they_are_computed(
    replacement: bool, weights: tuple[float, ...], text: str
) -> None:
    drawn = weft.multinomial(pending(*weights), 1, replacement)
    with pytest.raises(RuntimeError, match=text) as caught:
        drawn.item()
    caught.match("test_multinomial.py")


@pytest.mark.parametrize("shape", [(7,), (5, 7), (3, 1)])
@pytest.mark.parametrize("known", [True, False])
def test_both_ways_find_the_same(
    shape: tuple[int, ...], known: bool, monkeypatch: pytest.MonkeyPatch
) -> None:
    weft.manual_seed(3)
    weights = weft.rand(shape) * (weft.rand(shape) > 0.3)
    weights[..., 0] = 0.5
    monkeypatch.setattr(weft.config.config, "cache", False)  # what is known has gone one way
    found = []
    for most in (0, 1 << 20):
        monkeypatch.setattr("weft.functional.support.sorted_search.MOST_COMPARED", most)
        weft.manual_seed(4)
        given = weft.tensor(weights.tolist()) if known else weights * 1
        found.append(weft.multinomial(given, 50, replacement=True))
    assert weft.equal(*found)
