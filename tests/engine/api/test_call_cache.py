"""Calls that are recorded again without running their Python give what the Python gives: values bit by bit, layouts,
gradients, whatever came before."""

from __future__ import annotations

import itertools
from collections.abc import Callable
from typing import Any

import numpy as np
import pytest

import weft
import weft.nn.functional as F
from small_budgets import NODES, Shown, assert_same
from weft.config import config
from weft.engine.api import call_cache

Tensors = tuple[Any, ...]


def numbers(*shape: int, seed: int = 0) -> Any:
    values = np.random.default_rng(seed).standard_normal(shape).astype(np.float32)
    if values.size:
        values.flat[0] = np.nan
        values.flat[-1] = np.inf
    return weft.tensor(values)


def image(seed: int = 0) -> Tensors:
    return (numbers(2, 4, 6, 6, seed=seed),)


def filtered(seed: int = 0) -> Tensors:
    return *image(seed), numbers(4, 4, 3, 3, seed=seed + 1), numbers(4, seed=seed + 2)


def pooled_with_places(x: Any) -> Any:
    return F.max_pool2d(x, 3, 2, 1, return_indices=True)


CALLS: dict[str, tuple[Callable[..., Any], Callable[[int], Tensors]]] = {
    "conv2d": (lambda x, w, b: F.conv2d(x, w, b, padding=1), filtered),
    "conv2d in groups": (lambda x, w, b: F.conv2d(x, w[:, :2], b, stride=2, groups=2), filtered),
    "conv_transpose2d": (lambda x, w, b: F.conv_transpose2d(x, w, b, stride=2), filtered),
    "max_pool2d": (lambda x: F.max_pool2d(x, 2), image),
    "max_pool2d and places": (pooled_with_places, image),
    "avg_pool2d": (lambda x: F.avg_pool2d(x, 3, [2, 1], (1, 0), ceil_mode=True), image),
    "averages of real elements": (
        lambda x: F.avg_pool2d(x, 3, 2, 1, count_include_pad=False),
        image,
    ),
    "adaptive_avg_pool2d": (lambda x: F.adaptive_avg_pool2d(x, (3, None)), image),
    "pad": (lambda x: F.pad(x, (1, -1, 2, 0), value=2.5), image),
    "reflected": (lambda x: F.pad(x, (1, 2, 2, 1), mode="reflect"), image),
    "bilinear": (lambda x: F.interpolate(x, scale_factor=1.5, mode="bilinear"), image),
    "interpolate": (lambda x: F.interpolate(x, size=x.shape[-1] + 2), image),
    "unfold": (lambda x: F.unfold(x, 3, padding=1), image),
    "pixel_shuffle": (lambda x: F.pixel_shuffle(x, 2), image),
    "group_norm": (lambda x, w, b: F.group_norm(x, 2, b, b), filtered),
    "layer_norm": (lambda x: F.layer_norm(x, (6,)), image),
    "batch_norm": (lambda x, w, b: F.batch_norm(x, b, b * b, b, b, eps=0.1), filtered),
    "einsum": (lambda x: weft.einsum("bcij,bdij->bcd", x, x), image),
    "diagonals": (lambda x: weft.einsum("bcii,bdii->bcd", x, x), image),
    "attention": (lambda x: F.scaled_dot_product_attention(x, x, x, is_causal=True), image),
    "cosine_similarity": (lambda x: F.cosine_similarity(x, x + 1, -1), image),
    "roll": (lambda x: x.roll((1, 2), (2, 3)), image),
    "tril": (lambda x: x.tril(-1), image),
    "places in a grid": (
        lambda x: F.grid_sample(x, x[:, :2, :3].movedim(1, -1).tanh(), align_corners=False),
        image,
    ),
    "filtered": (
        lambda x: F.interpolate(x, scale_factor=0.4, mode="bicubic", antialias=True),
        image,
    ),
    "logcumsumexp": (lambda x: x.logcumsumexp(2), image),
    "logaddexp": (lambda x: weft.logaddexp(x, x * 2), image),
    "hypot": (lambda x: weft.hypot(x, x * 2), image),
    "polygamma": (lambda x: weft.polygamma(2, x.abs() + 1), image),
    "i1e": (lambda x: weft.special.i1e(x), image),
    "bessel_j0": (lambda x: weft.special.bessel_j0(x.detach()) + x, image),
    "entr": (lambda x: weft.special.entr(x), image),
    "ndtri": (lambda x: weft.special.ndtri(x.sigmoid()), image),
    "sinc": (lambda x: weft.sinc(x), image),
    "renorm": (lambda x: weft.renorm(x, 2, 1, 0.5), image),
    "pdist": (lambda x: F.pdist(x.flatten(1)), image),
}

# Compositions that take views of their operands in a way that is not repeated.
BY_VIEWS: dict[str, tuple[Callable[..., Any], Callable[[int], Tensors]]] = {
    "roll of all": (lambda x: x.roll(3), image),
    "two diagonals": (lambda x: weft.einsum("bbij,bcij->bc", x[:, :2], x), image),
    "a diagonal": (lambda x: weft.einsum("bcii->bci", x) + 0, image),
}


def arrays(result: Any) -> list[Any]:
    return [part.numpy() for part in (result if isinstance(result, tuple) else (result,))]


def layouts(result: Any) -> list[Any]:
    parts = result if isinstance(result, tuple) else (result,)
    return [(part.dtype, part.shape, part.stride()) for part in parts]


def as_python_records(function: Callable[..., Any], *given: Any) -> Any:
    """The result where nothing is replayed, and all Python runs."""
    previous, config.cache = config.cache, False
    try:
        return function(*given)
    finally:
        config.cache = previous


@pytest.mark.parametrize("name", CALLS)
def test_repeated_calls_have_the_bits_of_the_first(name: str) -> None:
    function, inputs = CALLS[name]
    before = call_cache.counters["hits"]
    for seed in range(5):
        given = inputs(seed)
        result, expected = function(*given), as_python_records(function, *given)
        for ours, theirs in zip(arrays(result), arrays(expected), strict=True):
            np.testing.assert_array_equal(ours, theirs)
        assert layouts(result) == layouts(expected)
    assert call_cache.counters["hits"] >= before + 3


@pytest.mark.parametrize("nodes", NODES)
@pytest.mark.parametrize("name", CALLS)
def test_calls_are_learned_and_repeated_while_pending_work_runs(name: str, nodes: int) -> None:
    """What is learned does not depend on when work runs, and neither do results and gradients."""
    function, inputs = CALLS[name]

    def show() -> Shown:
        values: list[Any] = []
        for turn in range(4):
            given = [weft.nan_to_num(x, 0.5, 2.0).requires_grad_() for x in inputs(turn)]
            result = function(*given)
            parts = result if isinstance(result, tuple) else (result,)
            (parts[0] * 0.5).sum().backward()
            values += parts
        return values, []

    before = dict(call_cache.counters)
    show()
    usual = {name: call_cache.counters[name] - before[name] for name in before}
    assert_same(show, nodes)
    assert call_cache.counters["hits"] - before["hits"] >= 3 * usual["hits"]


@pytest.mark.parametrize("name", [*CALLS, *BY_VIEWS])
@pytest.mark.parametrize(
    "arrange",
    [
        lambda x: x.double(),
        lambda x: x.to(memory_format=weft.channels_last) if x.dim() == 4 else x,
        lambda x: weft.stack([x, x], -1)[..., 1],
        lambda x: x[:0] if x.dim() == 4 and x.shape[2] == 6 else x,
        lambda x: weft.cat([x, x], -1)[..., : x.shape[-1]],
        lambda x: x[:1].expand(x.shape),
    ],
    ids=["double", "channels last", "every second", "empty", "narrowed", "expanded"],
)
def test_types_and_layouts_are_calls_of_their_own(name: str, arrange: Callable[[Any], Any]) -> None:
    function, inputs = (CALLS | BY_VIEWS)[name]
    for seed in range(4):
        given = tuple(arrange(x) for x in inputs(seed))
        try:
            expected = as_python_records(function, *given)
        except RuntimeError as error:
            with pytest.raises(type(error)):
                function(*given)
            continue
        result = function(*given)
        for ours, theirs in zip(arrays(result), arrays(expected), strict=True):
            np.testing.assert_array_equal(ours, theirs)
        assert layouts(result) == layouts(expected)


@pytest.mark.parametrize("name", CALLS)
def test_gradients_flow_after_calls_without(name: str) -> None:
    """The same line records with and without gradients; alone or in turn, they are the same."""
    function, inputs = CALLS[name]

    def gradients(tracked: bool) -> list[Any]:
        given = [weft.nan_to_num(x, 0.5, 2.0).requires_grad_(tracked) for x in inputs(3)]
        result = function(*given)
        result = result[0] if isinstance(result, tuple) else result
        if not tracked:
            assert not result.requires_grad
            return []
        (result * result).sum().backward()
        return [x.grad.numpy() for x in given if x.grad is not None]

    found = [gradients(tracked) for tracked in (True, False, False, True, False, True, True)]
    for later in (found[3], found[5], found[6]):
        for first, again in zip(found[0], later, strict=True):
            np.testing.assert_array_equal(first, again)


def test_examples_of_a_loop_have_the_bits_of_one_alone() -> None:
    weight = numbers(3, 2, 3, 3, seed=9).nan_to_num(0.5, 2.0)
    examples = [numbers(1, 2, 6, 6, seed=seed) for seed in range(6)]

    def step(x: Any) -> Any:
        return F.max_pool2d(F.conv2d(x, weight, padding=1).relu(), 2)

    together = [step(x) for x in examples]
    weft.realize(*together)
    for x, result in zip(examples, together, strict=True):
        np.testing.assert_array_equal(result.numpy(), step(x).numpy())


def test_equal_arguments_of_other_types_are_told_apart() -> None:
    x = weft.zeros(1, 1, 2)
    for value in (0.0, -0.0) * 4:
        edge = F.pad(x, (1, 0), value=value)[0, 0, 0]
        assert np.signbit(edge.numpy()) == np.signbit(value)
    ones = weft.ones(1, 1, 4, 4)
    for include in (True, False) * 4:
        corner = F.avg_pool2d(ones, 3, 1, 1, False, include)[0, 0, 0, 0].item()
        assert corner == pytest.approx(4 / 9 if include else 1)


def test_operands_are_told_apart_by_what_they_share() -> None:
    x, y = numbers(1, 2, 3, 3).nan_to_num(0.5, 2.0), numbers(1, 2, 3, 3, seed=4).nan_to_num(0.5, 2)

    def product(a: Any, b: Any) -> Any:
        return F.conv2d(a, b)

    expected = {True: product(x, x).item(), False: product(x, y).item()}
    for same in (True, False, True, False, True, True, False):
        assert product(x, x if same else y).item() == expected[same]


def test_what_comes_back_as_it_is_stays_itself() -> None:
    x = numbers(1, 1, 3)
    for _ in range(5):
        padded = F.pad(x, (0, 0))  # a tensor of its own, as PyTorch's
        assert padded is not x and padded.data_ptr() != x.data_ptr()
    out = weft.empty(1, 1, 1, 1)
    for seed in range(5):
        square = numbers(1, 1, 2, 2, seed=seed).nan_to_num(1, 2)
        assert F.avg_pool2d(square, 2, out=out) is out
        assert out.item() == pytest.approx(square.numpy().mean(), rel=1e-6)


def test_writing_to_a_result_leaves_later_calls_alone() -> None:
    x = weft.ones(1, 1, 4, 4)
    for _ in range(6):
        averages = F.avg_pool2d(x, 3, 1, 1, count_include_pad=False)
        assert averages.numpy().tolist() == np.ones((1, 1, 4, 4)).tolist()
        averages.zero_()
        averages.numpy()


def test_modes_see_calls_that_could_be_repeated() -> None:
    x, w = numbers(3, 2, 5, 5).nan_to_num(0.5, 2), numbers(2, 2, 3, 3, seed=1).nan_to_num(0.5, 2)

    def call(x: Any) -> Any:
        return F.conv2d(x, w)

    for _ in range(4):
        expected = call(x)
    with weft.autocast("cpu"):
        assert call(x).dtype == weft.bfloat16
    with weft.inference_mode():
        assert call(x).is_inference()
    mapped = weft.vmap(lambda row: call(row[None])[0])(x)
    np.testing.assert_allclose(mapped.numpy(), expected.numpy(), 1e-5)
    _, tangent = weft.func.jvp(call, (x,), (x,))
    np.testing.assert_allclose(tangent.numpy(), expected.numpy(), 1e-5)


def test_dropout_draws_each_time() -> None:
    x = numbers(1, 1, 8, 8).nan_to_num(0.5, 2.0)
    found = [F.scaled_dot_product_attention(x, x, x, dropout_p=0.5).numpy() for _ in range(6)]
    assert len({result.tobytes() for result in found}) == 6


def test_running_statistics_move_each_time() -> None:
    x, mean, variance = numbers(4, 2).nan_to_num(0.5, 2.0), weft.zeros(2), weft.ones(2)
    means = []
    for _ in range(5):
        F.batch_norm(x, mean, variance, training=True)
        means.append(mean.numpy().copy())
    assert all((a != b).all() for a, b in itertools.pairwise(means))


def test_views_that_a_function_gives_show_the_operand() -> None:
    x = weft.zeros(2, 3)
    for number in range(1, 6):
        weft.einsum("ij->ji", x)[0, 0] = number
        assert x[0, 0].item() == number


def test_mistakes_are_explained_each_time() -> None:
    x = numbers(1, 1, 4, 4)
    for _ in range(4):
        with pytest.raises(weft.errors.ShapeError, match="Output size is too small"):
            F.max_pool2d(x, 5)


def test_the_default_type_counts() -> None:
    whole = weft.arange(16).reshape(1, 1, 4, 4)
    try:
        for dtype in (weft.float32, weft.float64) * 4:
            weft.set_default_dtype(dtype)
            assert F.pad(whole.float().to(dtype), (1, 1)).dtype == dtype
    finally:
        weft.set_default_dtype(weft.float32)


def test_lists_without_end_are_refused_each_time() -> None:
    circular: list[Any] = [1]
    circular.append(circular)
    x = numbers(1, 2, 4, 4)
    for _ in range(4):
        for wrong in (circular, [[[[[1]]]]], list(range(1000))):
            with pytest.raises(weft.errors.WeftError):
                F.adaptive_avg_pool2d(x, wrong)
            with pytest.raises(weft.errors.WeftError):
                F.avg_pool2d(wrong, 2)


@pytest.mark.parametrize(
    ("function", "choices"),
    [
        (lambda x, v: F.pad(x, (1, 0), value=v), [1.5, -2.0]),
        (lambda x, v: F.layer_norm(x, (6,), eps=v), [1e-8, 10.0]),
        (lambda x, v: F.pad(x, v), [[1, 0], [0, 2]]),
        (lambda x, v: x.roll(v, (2, 3)), [[1, 0], [2, 1]]),
        (lambda x, v: x.tril(v), [0, 1]),
        (lambda x, v: F.max_pool2d(x, v), [[2, 2], [3, 1]]),
        (lambda x, v: F.interpolate(x, size=v), [[2, 2], [5, 7]]),
        (lambda x, v: F.conv2d(x, x[:, :, :2, :2], stride=v), [[1, 1], [2, 3]]),
    ],
    ids=["value", "eps", "pad", "roll", "tril", "pool", "resize", "convolve"],
)
def test_tensors_in_place_of_numbers_are_read_at_each_call(
    function: Callable[..., Any], choices: list[Any]
) -> None:
    x = numbers(2, 4, 6, 6).nan_to_num(0.5, 2.0)
    expected = [function(x, choice).numpy() for choice in choices]
    for turn in (0, 0, 0, 0, 1, 0, 1, 1):
        result = function(x, weft.tensor(choices[turn]))
        np.testing.assert_array_equal(result.numpy(), expected[turn])
