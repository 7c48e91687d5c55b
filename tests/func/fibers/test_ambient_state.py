"""What belongs to an example of `weft.map`: modes, hooks, random numbers, what it may write to."""

from __future__ import annotations

import contextvars
from typing import Any

import pytest

import weft
from weft.errors import MutationError
from weft.functional.random.generator import stream_of_example
from weft.tensor import modes


def test_modes_belong_to_the_fiber() -> None:
    def function(n: int) -> tuple[bool, ...]:
        grad = weft.is_grad_enabled()
        contexts = [weft.no_grad(), weft.inference_mode(), weft.enable_grad(), weft.eager()]
        with contexts[n % 4]:
            inside = (weft.is_grad_enabled(), weft.is_inference_mode_enabled(), modes.is_eager())
            (weft.tensor(n) + 1).item()
            again = (weft.is_grad_enabled(), weft.is_inference_mode_enabled(), modes.is_eager())
        (weft.tensor(n) + 1).item()
        return (grad, weft.is_grad_enabled(), inside == again, *inside)

    assert weft.map(function, range(8)) == [function(n) for n in range(8)]
    with weft.no_grad():
        assert weft.map(function, range(8)) == [function(n) for n in range(8)]
    assert weft.is_grad_enabled() and not weft.is_inference_mode_enabled()


@pytest.mark.parametrize("shared", [weft.no_grad(), weft.enable_grad()], ids=["no", "enable"])
def test_one_context_object_in_several_fibers(shared: Any) -> None:
    def function(n: int) -> list[bool]:
        found = []
        with weft.enable_grad() if n > 1 else weft.no_grad():
            with shared, shared:
                (weft.tensor(n) + 1).item()
                if n % 2:  # these leave it a round later
                    (weft.tensor(n) + 2).item()
            found.append(weft.is_grad_enabled())
        return [*found, weft.is_grad_enabled()]

    assert weft.map(function, range(4)) == [[n > 1, True] for n in range(4)]


def test_a_mode_that_is_left_on_stays_with_the_fiber() -> None:
    def function(n: int) -> bool:
        weft.set_grad_enabled(n % 2 == 0)
        (weft.tensor(n) + 1).item()
        return weft.is_grad_enabled()

    assert weft.map(function, range(4)) == [True, False, True, False]
    assert weft.is_grad_enabled()


def test_saved_tensor_hooks_belong_to_the_fiber() -> None:
    def function(n: int) -> int:
        packed: list[Any] = []

        def pack(x: Any) -> Any:
            packed.append(x)
            return x

        x = weft.ones(2, requires_grad=True)
        with weft.autograd.graph.saved_tensors_hooks(pack, lambda x: x):
            (x.detach() + 1).sum().item()
            for _ in range(n):
                x = x * x.detach()
        return len(packed)

    assert weft.map(function, range(5)) == [function(n) for n in range(5)]


def test_anomaly_and_context_variables_belong_to_the_fiber() -> None:
    variable: contextvars.ContextVar[int] = contextvars.ContextVar("variable", default=-1)
    variable.set(100)

    def function(n: int) -> tuple[int, int, bool]:
        before = variable.get()
        variable.set(n)
        with weft.autograd.set_detect_anomaly(n % 2 == 0):
            (weft.tensor(n) + 1).item()
            return before, variable.get(), weft.is_anomaly_enabled()

    assert weft.map(function, range(4)) == [(100, n, n % 2 == 0) for n in range(4)]
    assert variable.get() == 100


def test_explaining_belongs_to_the_fiber(capsys: pytest.CaptureFixture[str]) -> None:
    def function(n: int) -> None:
        if n == 1:
            with weft.explaining("schedule"):
                (weft.ones(4) * n).sum().item()
            return
        (weft.ones(4) * n).sum().item()
        (weft.ones(4) - n).sum().item()

    weft.map(function, range(3))
    text = capsys.readouterr().err
    assert "mul" in text and "sub(" not in text
    assert weft.config.config.explain == frozenset()


# -- random numbers ------------------------------------------------------------------------------------------------


def test_each_example_draws_from_a_stream_of_its_own() -> None:
    def function(n: int) -> list[float]:
        return [weft.rand(()).item() for _ in range(n)]

    weft.manual_seed(11)
    weft.rand(5)
    seed, offset = weft.random.default_generator.place()
    found = weft.map(function, range(5))
    after = weft.rand(2).tolist()
    for n in range(5):
        weft.manual_seed(stream_of_example(seed, offset, n))
        assert function(n) == found[n]
    weft.manual_seed(11)
    weft.rand(5), weft.map(function, range(2), at_most=1)
    assert weft.rand(2).tolist() == after
    assert len({x for numbers in found for x in numbers}) == 10


def test_a_map_that_draws_nothing_leaves_the_generator_alone() -> None:
    weft.manual_seed(5)
    expected = weft.rand(3).tolist()
    weft.manual_seed(5)
    weft.map(lambda n: weft.tensor(n).item(), range(3))
    assert weft.rand(3).tolist() == expected


def test_dropout_and_generators_of_ones_own() -> None:
    shared = weft.Generator().manual_seed(1)

    def function(n: int) -> list[float]:
        own = weft.Generator().manual_seed(n)
        first = weft.rand(2, generator=own)
        first.sum().item()
        mask = weft.nn.functional.dropout(weft.ones(8), 0.5)
        numbers = [first, weft.rand(2, generator=own), mask, weft.rand(3, generator=shared)]
        return weft.cat(numbers).tolist()

    def run(at_most: int) -> Any:
        weft.manual_seed(2)
        shared.manual_seed(1)
        return weft.map(function, range(6), at_most=at_most), weft.rand(1, generator=shared).item()

    assert run(1) == run(6) == run(4)
    own = weft.Generator().manual_seed(4)
    assert (
        run(6)[0][4][:4]
        == weft.rand(2, generator=own).tolist() + weft.rand(2, generator=own).tolist()
    )


def test_a_generator_made_in_a_map_goes_on_outside() -> None:
    made = weft.map(lambda n: weft.Generator().manual_seed(n), range(3))
    for generator in made:
        weft.rand(3, generator=generator)
    fresh = weft.Generator().manual_seed(2)
    weft.rand(3, generator=fresh)
    assert weft.rand(3, generator=made[2]).tolist() == weft.rand(3, generator=fresh).tolist()


def test_seeding_inside_is_for_the_example() -> None:
    weft.manual_seed(0)
    state = weft.get_rng_state().tolist()

    def function(n: int) -> float:
        weft.manual_seed(n)
        (weft.tensor(1.0) * 2).item()
        return weft.rand(()).item()

    found = weft.map(function, range(3))
    for n in range(3):
        weft.manual_seed(n)
        assert weft.rand(()).item() == found[n]
    assert state == weft.manual_seed(0).get_state().tolist()


# -- in place ------------------------------------------------------------------------------------------------------


def test_in_place_on_what_is_ones_own() -> None:
    def function(example: dict[str, Any]) -> list[float]:
        x = example["x"]
        x.mul_(2)
        y = weft.zeros(3)
        for i in range(3):
            y[i] += x[i]
            if y[i].item() > 3:
                y.neg_()
        return y.tolist()  # type: ignore[no-any-return]

    rows = weft.arange(12.0).view(4, 3)
    expected = [function({"x": row.clone()}) for row in rows]
    assert weft.map(function, [{"x": row} for row in rows]) == expected
    assert rows[1].tolist() == [6.0, 8.0, 10.0]


def test_in_place_on_what_is_shared_raises() -> None:
    total = weft.zeros(())
    norm = weft.nn.BatchNorm1d(3)

    def add(x: Any) -> None:
        total.add_(x.sum())

    for function in (add, lambda x: norm(x), lambda x: total.detach().view(1).zero_()):
        with pytest.raises(MutationError, match="all examples share") as caught:
            weft.map(function, [weft.ones(2, 3), weft.ones(2, 3)])
        assert "after weft.map" in caught.value.fix
    assert total.item() == 0
    norm.eval()
    assert weft.map(lambda x: norm(x).shape, [weft.ones(2, 3)]) == [(2, 3)]
