"""Random numbers: reproducible, independent of when they are computed, and of the right distributions."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest
from scipy import stats

import weft
from weft.ops.random_numbers import _philox_reference

DRAWS: dict[str, Any] = {
    "rand": lambda g: weft.rand(50, generator=g),
    "rand double": lambda g: weft.rand(50, dtype=weft.float64, generator=g),
    "randn": lambda g: weft.randn(5, 10, generator=g),
    "randint": lambda g: weft.randint(3, 9, (50,), generator=g),
    "randperm": lambda g: weft.randperm(50, generator=g),
    "normal": lambda g: weft.normal(weft.arange(50.0), 0.5, generator=g),
    "bernoulli": lambda g: weft.bernoulli(weft.full((50,), 0.3), generator=g),
    "multinomial": lambda g: weft.multinomial(weft.arange(1.0, 9.0), 5, generator=g),
    "multinomial again": lambda g: weft.multinomial(weft.arange(1.0, 9.0), 50, True, generator=g),
    "uniform_": lambda g: weft.zeros(50).uniform_(-1, 3, generator=g),
    "normal_": lambda g: weft.zeros(50).normal_(2, 3, generator=g),
    "random_": lambda g: weft.zeros(50, dtype=weft.int64).random_(5, 10, generator=g),
    "exponential_": lambda g: weft.zeros(50).exponential_(2, generator=g),
    "bernoulli_": lambda g: weft.zeros(50).bernoulli_(0.4, generator=g),
}


@pytest.mark.parametrize("name", DRAWS)
def test_the_same_seed_gives_the_same_numbers(name: str) -> None:
    first = weft.Generator().manual_seed(7)
    a, b = DRAWS[name](first), DRAWS[name](first)
    again = DRAWS[name](weft.Generator().manual_seed(7))
    assert a.tolist() == again.tolist()
    assert a.tolist() != b.tolist()
    assert a.tolist() != DRAWS[name](weft.Generator().manual_seed(8)).tolist()


def test_numbers_do_not_depend_on_when_they_are_computed() -> None:
    weft.manual_seed(3)
    early = [weft.rand(4) for _ in range(3)]
    values = [x.tolist() for x in reversed(early)][::-1]
    weft.manual_seed(3)
    assert [weft.rand(4).tolist() for _ in range(3)] == values


def test_bits_are_philox_of_seed_and_offset() -> None:
    generator = weft.Generator().manual_seed(2**63 + 5)
    generator.bits((10,))
    got = generator.bits((2, 3)).numpy()
    np.testing.assert_array_equal(
        got.reshape(-1), _philox_reference(np.uint64(2**63 + 5), 10, np.arange(6))
    )


FIRST_NUMBERS = {  # of seed 5
    ("rand", weft.float32): ["0x1.882ed0p-1", "0x1.638decp-2", "0x1.ed695cp-1"],
    ("rand", weft.float64): [
        "0x1.882ed02ae2858p-1",
        "0x1.638def5776d18p-2",
        "0x1.ed695de10619cp-1",
    ],
    ("randn", weft.float32): ["-0x1.a4053ep-1", "-0x1.80c8c0p-2", "-0x1.47f5b2p+1"],
    ("randn", weft.float64): [
        "0x1.b414d5702fa40p+0",
        "-0x1.33a2ff07cd1c3p-1",
        "0x1.66e717a178386p-1",
    ],
}


@pytest.mark.parametrize("name,dtype", FIRST_NUMBERS)
def test_what_a_seed_means_stays(name: str, dtype: Any) -> None:
    """Programs that were written with a seed find the same numbers in later versions."""
    generator = weft.Generator().manual_seed(5)
    numbers = getattr(weft, name)(3, dtype=dtype, generator=generator)
    assert numbers.tolist() == [float.fromhex(x) for x in FIRST_NUMBERS[name, dtype]]
    assert generator.get_offset() == 3 * (1 + (name == "randn")) * (1 + (dtype is weft.float64))


def test_state() -> None:
    generator = weft.Generator()
    assert generator.manual_seed(11) is generator
    assert generator.initial_seed() == 11
    weft.rand(5, generator=generator)
    state = generator.get_state()
    expected = weft.rand(5, generator=generator).tolist()
    assert weft.rand(5, generator=weft.Generator().set_state(state)).tolist() == expected
    weft.manual_seed(1)
    kept = weft.get_rng_state()
    before = weft.rand(3).tolist()
    weft.set_rng_state(kept)
    with weft.random.fork_rng():
        weft.rand(100)
    assert weft.rand(3).tolist() == before
    with pytest.raises(ValueError, match="RNG state must be a torch.ByteTensor"):
        generator.set_state(weft.zeros(3))
    with pytest.raises(ValueError, match="Overflow when unpacking long long"):
        generator.manual_seed(2**64)


def samples(tensor: Any) -> Any:
    return np.asarray(tensor.numpy(), np.float64).reshape(-1)


@pytest.mark.parametrize("dtype", ("float32", "float64", "float16", "bfloat16"))
def test_distributions(dtype: str) -> None:
    weft.manual_seed(5)
    kind = getattr(weft, dtype)
    uniform = samples(
        weft.rand(20000, dtype=kind).float()
        if dtype == "bfloat16"
        else weft.rand(20000, dtype=kind)
    )
    assert uniform.min() >= 0 and uniform.max() < 1
    normal = samples(weft.randn(20000, dtype=kind).to(weft.float64))
    if dtype in ("float32", "float64"):
        assert stats.kstest(uniform, "uniform").pvalue > 1e-3
        assert stats.kstest(normal, "norm").pvalue > 1e-3
    assert abs(uniform.mean() - 0.5) < 0.02
    assert abs(normal.mean()) < 0.05
    assert abs(normal.std() - 1) < 0.05


def test_more_distributions() -> None:
    weft.manual_seed(6)
    assert (
        stats.kstest(samples(weft.zeros(20000).exponential_(2.0)), "expon", (0, 0.5)).pvalue > 1e-3
    )
    assert (
        stats.kstest(samples(weft.zeros(20000).uniform_(-1, 3)), "uniform", (-1, 4)).pvalue > 1e-3
    )
    assert stats.kstest(samples(weft.zeros(20000).normal_(2, 3)), "norm", (2, 3)).pvalue > 1e-3
    counts = np.bincount(weft.randint(0, 7, (21000,)).numpy(), minlength=7)
    assert stats.chisquare(counts).pvalue > 1e-3
    assert abs(weft.bernoulli(weft.full((20000,), 0.3)).mean().item() - 0.3) < 0.02
    assert sorted(weft.randperm(100).tolist()) == list(range(100))
    wide = weft.randint(-(2**62), 2**62, (1000,)).numpy()
    assert (wide < 0).any() and (wide > 2**61).any()


def test_multinomial() -> None:
    weft.manual_seed(9)
    weights = weft.tensor([[1.0, 0.0, 3.0], [0.0, 0.0, 2.0]])
    drawn = weft.multinomial(weights, 8000, replacement=True).numpy()
    assert abs((drawn[0] == 2).mean() - 0.75) < 0.02
    assert set(drawn[0]) == {0, 2} and set(drawn[1]) == {2}
    few = weft.multinomial(weft.tensor([0.1, 0.0, 0.9, 5.0]), 3).tolist()
    assert sorted(few) == [0, 2, 3]


@pytest.mark.parametrize(
    ("call", "text"),
    (
        (lambda: weft.multinomial(weft.tensor([0.0, 0.0]), 1), "invalid multinomial distribution"),
        (
            lambda: weft.multinomial(weft.tensor([1.0, -1.0]), 1),
            "probability tensor contains either",
        ),
        (
            lambda: weft.multinomial(weft.tensor([1.0]), 2),
            "cannot sample n_sample > prob_dist.size",
        ),
        (lambda: weft.randint(5, 5, (2,)), "expects 'from' to be less than 'to'"),
        (lambda: weft.randperm(-1), "n must be non-negative"),
        (lambda: weft.rand(-1), "Trying to create tensor with negative dimension -1"),
        (lambda: weft.zeros(2).normal_(0, -1), "normal expects std >= 0.0"),
        (lambda: weft.rand(2, dtype=weft.int64), "not implemented for"),
    ),
)
def test_messages(call: Any, text: str) -> None:
    with pytest.raises(RuntimeError, match=text) as caught:
        call()
    caught.match("\n  fix ")


def test_multinomial_looks_at_weights_last() -> None:
    """What else is wrong is named, whatever numbers the weights are, as in PyTorch."""
    weights = weft.tensor([-1.0, float("nan")])
    with pytest.raises(RuntimeError, match="multinomial expects Long tensor out, got: Float"):
        weft.multinomial(weights, 2, out=weft.zeros(2))
    with pytest.raises(RuntimeError, match="cannot sample n_sample > prob_dist"):
        weft.multinomial(weights, 3, False)
    with pytest.raises(RuntimeError, match="number of categories cannot exceed"):
        weft.multinomial(weft.full((2**24 + 1,), -1.0), 3)


def test_options() -> None:
    x = weft.rand(2, 3, requires_grad=True)
    assert x.is_leaf and x.requires_grad
    assert weft.rand((2, 3)).shape == weft.rand([2, 3]).shape == (2, 3)
    assert weft.rand_like(x, dtype=weft.float64).dtype is weft.float64
    assert weft.randn(()).shape == ()
    assert weft.randn(2, dtype=weft.complex64).dtype is weft.complex64
    assert weft.randint(4, size=(2,)).dtype is weft.int64
    assert weft.randint_like(x, 3).dtype is weft.float32
    assert weft.randint_like(x, high=3).max() < 3
    y = weft.ones(3, requires_grad=True)
    with pytest.raises(RuntimeError, match="a leaf Variable that requires grad"):
        y.uniform_()
