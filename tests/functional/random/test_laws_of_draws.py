"""Every function that draws, in every type: the law of its numbers (chi-square over bins, Kolmogorov-Smirnov, moments).

Seeds are fixed; a right sampler fails one of these with a chance below 1e-4. Rounding to a type of few digits is part
of the law: a bin ends half a step below its edge.
"""

from __future__ import annotations

import itertools
from typing import Any

import numpy as np
import pytest
from scipy import stats

import weft

COUNT = 20_000
LEAST = 1e-4
DIGITS = {"float64": 53, "float32": 24, "float16": 11, "bfloat16": 8}
INTEGERS = ("uint8", "int8", "int16", "int32", "int64")


@pytest.fixture(autouse=True)
def seed() -> None:
    weft.manual_seed(2)


def numbers(tensor: Any) -> Any:
    return tensor.to(weft.float64).numpy().reshape(-1)


def follows(values: Any, law: Any, digits: int = 53, truncated: bool = False) -> None:
    """Errors: AssertionError unless the counts between the law's quantiles are as it says."""
    edges = np.unique(to_digits(law.ppf(np.linspace(0, 1, 17)[1:-1]), digits))
    cut = edges if truncated else edges - half_a_step_below(edges, digits)
    chance = np.diff(law.cdf(cut), prepend=0, append=1)
    seen = np.bincount(np.searchsorted(edges, values, side="right"), minlength=len(edges) + 1)
    kept = chance * len(values) > 1
    assert (
        stats.chisquare(seen[kept], chance[kept] * seen[kept].sum() / chance[kept].sum())[1] > LEAST
    )
    assert seen[~kept].sum() < 20


def to_digits(values: Any, digits: int) -> Any:
    """Rounded to so many binary digits."""
    fraction, exponent = np.frexp(values)
    return np.ldexp(np.round(np.ldexp(fraction, digits)), exponent - digits)


def half_a_step_below(values: Any, digits: int) -> Any:
    """Half the way to the next lower number of so many binary digits."""
    fraction, exponent = np.frexp(values)
    return np.ldexp(np.where(fraction == 0.5, 0.5, 1.0), exponent - digits - 1)


def evenly(values: Any, low: int, high: int) -> None:
    """Errors: AssertionError unless each whole number in [low, high) comes as often as the others."""
    assert values.min() >= low and values.max() < high and (values == np.round(values)).all()
    parts = min(high - low, 16)
    edges = [low + (high - low) * n // parts for n in range(1, parts)]
    seen = np.bincount(np.searchsorted(np.array(edges), values, side="right"), minlength=parts)
    widths = np.diff([low, *edges, high]) / (high - low)
    assert stats.chisquare(seen, widths * len(values)).pvalue > LEAST


CONTINUOUS: dict[str, tuple[Any, Any]] = {
    "rand": (lambda t: weft.rand(COUNT, dtype=t), stats.uniform()),
    "rand_like": (lambda t: weft.rand_like(weft.ones(COUNT, dtype=t)), stats.uniform()),
    "uniform_": (lambda t: weft.zeros(COUNT, dtype=t).uniform_(-1, 3), stats.uniform(-1, 4)),
    "randn": (lambda t: weft.randn(COUNT, dtype=t), stats.norm()),
    "randn_like": (lambda t: weft.randn_like(weft.ones(COUNT, dtype=t)), stats.norm()),
    "normal_": (lambda t: weft.zeros(COUNT, dtype=t).normal_(2, 3), stats.norm(2, 3)),
    "normal": (lambda t: weft.normal(weft.full((COUNT,), 2.0, dtype=t), 3.0), stats.norm(2, 3)),
    "normal, both tensors": (
        lambda t: weft.normal(weft.full((COUNT,), 2.0, dtype=t), weft.full((COUNT,), 3.0, dtype=t)),
        stats.norm(2, 3),
    ),
    "exponential_": (lambda t: weft.zeros(COUNT, dtype=t).exponential_(2), stats.expon(0, 0.5)),
    "log_normal_": (lambda t: weft.zeros(COUNT, dtype=t).log_normal_(0.5, 0.7), stats.lognorm(0.7, 0, np.exp(0.5))),
    "cauchy_": (lambda t: weft.zeros(COUNT, dtype=t).cauchy_(1, 2), stats.cauchy(1, 2)),
}  # fmt: skip


@pytest.mark.parametrize("dtype", DIGITS)
@pytest.mark.parametrize("name", CONTINUOUS)
def test_continuous_laws(name: str, dtype: str) -> None:
    draw, law = CONTINUOUS[name]
    drawn = draw(getattr(weft, dtype))
    assert drawn.dtype is getattr(weft, dtype)
    values = numbers(drawn)
    follows(values, law, DIGITS[dtype], truncated=name in ("rand", "rand_like"))
    if dtype in ("float32", "float64"):
        assert stats.kstest(values, law.cdf).pvalue > LEAST
    if law.support()[0] == 0:  # half-open, whatever was rounded
        assert values.min() >= 0 and (name not in ("rand", "rand_like") or values.max() < 1)


@pytest.mark.parametrize("dtype", ["complex64", "complex128"])
def test_complex_normal(dtype: str) -> None:
    drawn = weft.randn(COUNT, dtype=getattr(weft, dtype)).numpy()
    for part in (drawn.real, drawn.imag):
        assert stats.kstest(part, stats.norm(0, 0.5**0.5).cdf).pvalue > LEAST
    assert abs(np.corrcoef(drawn.real, drawn.imag)[0, 1]) < 0.03


@pytest.mark.parametrize("dtype", (*INTEGERS, "float32", "float64", "float16", "bfloat16"))
def test_integers_come_equally_often(dtype: str) -> None:
    kind = getattr(weft, dtype)
    low = 0 if dtype == "uint8" else -5
    evenly(numbers(weft.randint(low, 23, (COUNT,), dtype=kind)), low, 23)
    evenly(numbers(weft.zeros(COUNT, dtype=kind).random_(low, 7)), low, 7)
    evenly(numbers(weft.zeros(COUNT, dtype=kind).random_(11)), 0, 11)
    evenly(numbers(weft.randint_like(weft.zeros(COUNT, dtype=kind), low, 23)), low, 23)
    whole = weft.zeros(COUNT, dtype=kind).random_()
    if dtype in INTEGERS:
        most = np.iinfo(dtype).max
        evenly(numbers(whole), 0, most + 1 if most < 2**53 else most)
    else:  # all whole numbers that the type counts through
        most = 2 ** DIGITS[dtype]
        assert whole.min().item() >= 0 and most * 0.99 < whole.max().item() <= most


def test_integers_of_the_widest_range() -> None:
    values = weft.randint(-(2**62), 2**62, (COUNT,)).numpy() / 2.0**62
    assert stats.kstest(values, stats.uniform(-1, 2).cdf).pvalue > LEAST
    low_bits = weft.randint(0, 2**62, (COUNT,)).numpy() & 15
    evenly(low_bits, 0, 16)


@pytest.mark.parametrize("dtype", [*DIGITS, *INTEGERS, "bool"])
def test_coins(dtype: str) -> None:
    kind = getattr(weft, dtype)
    drawn = [weft.zeros(COUNT, dtype=kind).bernoulli_(0.3)]
    if dtype in DIGITS:
        drawn.append(weft.bernoulli(weft.full((COUNT,), 0.3, dtype=kind)))
        drawn.append(weft.zeros(COUNT, dtype=kind).bernoulli_(weft.full((COUNT,), 0.3)))
    for values in map(numbers, drawn):
        assert set(values) == {0, 1}
        assert abs(values.mean() - 0.3) < 4 * (0.21 / COUNT) ** 0.5 + (
            0.002 if dtype == "bfloat16" else 0
        )
    sure = weft.bernoulli(weft.tensor([0.0, 1.0]).expand(500, 2))
    assert (sure == weft.tensor([0.0, 1.0])).all()


@pytest.mark.parametrize("dtype", [*DIGITS, *INTEGERS])
def test_geometric(dtype: str) -> None:
    values = numbers(weft.zeros(COUNT, dtype=getattr(weft, dtype)).geometric_(0.4))
    law = stats.geom(0.4)
    seen = np.bincount(np.minimum(values, 8).astype(int), minlength=9)[1:]
    chance = np.append(law.pmf(np.arange(1, 8)), law.sf(7))
    assert values.min() == 1 and stats.chisquare(seen, chance * COUNT).pvalue > LEAST


@pytest.mark.parametrize("dtype", DIGITS)
@pytest.mark.parametrize("rate", [0.5, 9.0, 40.0])
def test_poisson(rate: float, dtype: str) -> None:
    values = numbers(weft.poisson(weft.full((COUNT,), rate, dtype=getattr(weft, dtype))))
    law = stats.poisson(rate)
    edges = np.unique(law.ppf(np.linspace(0, 1, 12)[1:-1]))
    chance = np.diff(law.cdf(edges - 1), prepend=0, append=1)
    seen = np.bincount(np.searchsorted(edges, values, side="right"), minlength=len(chance))
    kept = chance > 1e-4
    assert (
        stats.chisquare(seen[kept], chance[kept] / chance[kept].sum() * seen[kept].sum()).pvalue
        > LEAST
    )


def test_permutations_come_equally_often() -> None:
    drawn = [tuple(weft.randperm(4).tolist()) for _ in range(2400)]
    orders = list(itertools.permutations(range(4)))
    assert stats.chisquare([drawn.count(order) for order in orders]).pvalue > LEAST
    long = weft.randperm(COUNT).numpy()
    assert (np.sort(long) == np.arange(COUNT)).all()
    assert abs(stats.spearmanr(long, np.arange(COUNT)).statistic) < 0.03
    assert stats.kstest(long[: COUNT // 10] / COUNT, "uniform").pvalue > LEAST


@pytest.mark.parametrize("dtype", DIGITS)
def test_multinomial(dtype: str) -> None:
    weights = np.array([1.0, 4.0, 0.0, 3.0])
    rows = weft.tensor(weights, dtype=getattr(weft, dtype)).expand(COUNT, 4)
    chance = weights / weights.sum()
    pairs = weft.multinomial(rows, 2).numpy()
    again = weft.multinomial(rows, 2, replacement=True).numpy()
    for found, wanted in (
        (pairs, lambda i, j: chance[i] * chance[j] / (1 - chance[i]) if i != j else 0.0),
        (again, lambda i, j: chance[i] * chance[j]),
    ):
        places = [(i, j) for i in range(4) for j in range(4) if wanted(i, j) > 0]
        seen = [int(((found[:, 0] == i) & (found[:, 1] == j)).sum()) for i, j in places]
        assert sum(seen) == COUNT
        assert stats.chisquare(seen, [wanted(*place) * COUNT for place in places]).pvalue > LEAST


def test_draws_one_after_the_other_do_not_depend_on_each_other() -> None:
    first, second = (weft.randn(COUNT).numpy() for _ in range(2))
    assert abs(np.corrcoef(first, second)[0, 1]) < 0.03
    assert abs(np.corrcoef(first[1:], first[:-1])[0, 1]) < 0.03
    seeds = [weft.randn(50, generator=weft.Generator().manual_seed(n)).numpy() for n in range(400)]
    assert stats.kstest(np.concatenate(seeds), "norm").pvalue > LEAST
    assert stats.kstest(np.array(seeds)[:, 0], "norm").pvalue > LEAST  # the first of each seed


def test_what_dropping_leaves() -> None:
    F, x = weft.nn.functional, weft.randn(200, 100)
    kept = F.dropout(weft.ones(COUNT), 0.3).numpy()
    assert set(kept) == {np.float32(0), np.float32(1) / np.float32(0.7)}
    assert abs((kept == 0).mean() - 0.3) < 0.015
    for drop in (F.alpha_dropout, F.feature_alpha_dropout):  # mean and variance stay
        dropped = drop(x, 0.2, training=True).numpy()
        assert abs(dropped.mean()) < 0.15 and abs(dropped.std() - 1) < 0.15
    slopes = F.rrelu(-weft.ones(COUNT), 0.2, 0.6, training=True).numpy()
    assert stats.kstest(-slopes, stats.uniform(0.2, 0.4).cdf).pvalue > LEAST
    logits = weft.log(weft.tensor([0.2, 0.5, 0.3])).expand(COUNT, 3)
    chosen = F.gumbel_softmax(logits, hard=True).argmax(-1).numpy()
    assert (
        stats.chisquare(np.bincount(chosen), [0.2 * COUNT, 0.5 * COUNT, 0.3 * COUNT]).pvalue > LEAST
    )
    for name, shape in (
        ("dropout1d", (200, 100, 3)),
        ("dropout2d", (200, 100, 3, 1)),
        ("dropout3d", (200, 100, 3, 1, 1)),
    ):
        whole = getattr(F, name)(weft.ones(shape), 0.3).numpy().reshape(200, 100, 3)
        assert (whole == whole[:, :, :1]).all() and abs((whole == 0).mean() - 0.3) < 0.015


@pytest.mark.parametrize(
    ("count", "prob"), [(1, 0.3), (40, 0.7), (1000, 0.02), (5, 1.0), (5, 0.0), (0, 0.5)]
)
def test_binomial(count: int, prob: float) -> None:
    values = numbers(weft.binomial(weft.full((COUNT,), float(count)), weft.tensor(prob)))
    law = stats.binom(count, prob)
    assert values.min() >= 0 and values.max() <= count and np.array_equal(values, np.round(values))
    assert abs(values.mean() - law.mean()) <= 5 * law.std() / np.sqrt(COUNT)
    for edge in range(max(0, int(law.mean()) - 2), int(law.mean()) + 3):
        chance = law.cdf(edge)
        assert (
            abs((values <= edge).mean() - chance)
            <= 5 * np.sqrt(chance * (1 - chance) / COUNT) + 1e-12
        )


@pytest.mark.parametrize(
    ("count", "prob"),
    [(weft.tensor([-1.0]), weft.tensor([0.5])), (weft.tensor([1.0]), weft.tensor([1.5]))],
)
def test_binomial_refuses_what_is_no_law(count: weft.Tensor, prob: weft.Tensor) -> None:
    with pytest.raises(RuntimeError, match="binomial expects"):
        weft.binomial(count, prob)
    with pytest.raises(RuntimeError, match="not implemented for 'Long'"):
        weft.binomial(weft.tensor([1]), weft.tensor([0.5]))


@pytest.mark.parametrize("axis", [0, 1, 2])
def test_where_windows_of_fractional_pooling_begin(axis: int) -> None:
    """Over a ramp the maximum says where a window ends; its place follows the law of one uniform number per row."""
    size, window, places, rows = 17, 2, 7, 4000
    ramp = weft.arange(float(size)).reshape([-1 if at == axis else 1 for at in range(3)])
    image = ramp.expand(1, rows, *([size] * 3))
    pooled = weft.nn.functional.fractional_max_pool3d(image, window, output_size=(places,) * 3)
    begins = pooled.movedim(2 + axis, 2)[0, :, :, 0, 0].numpy().astype(int) - window + 1
    step = (size - window) / (places - 1)
    even = (np.arange(100_000) + 0.5) / 100_000
    for place in range(places - 1):
        starts = np.trunc((place + even) * step).astype(int) - np.trunc(even * step).astype(int)
        chance = np.bincount(starts, minlength=size) / len(even)
        seen = np.bincount(begins[:, place], minlength=size)
        assert not seen[chance == 0].any()
        expected = chance[chance > 0] * rows
        assert len(expected) == 1 or stats.chisquare(seen[chance > 0], expected).pvalue > LEAST
    assert (begins[:, -1] == size - window).all()
