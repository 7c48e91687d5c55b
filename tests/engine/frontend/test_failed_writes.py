"""In-place operations whose index is out of range: what was written to reads as it did before, and goes on."""

from __future__ import annotations

import gc
from collections.abc import Iterator
from typing import Any

import pytest

import weft
from live_nodes import settled_count
from weft.config import config
from weft.engine.frontend.node_factory import count_live_nodes
from weft.engine.frontend.resolve import value_of
from weft.engine.ir.tape import tape


@pytest.fixture(autouse=True, params=["novel", "every", "none"])
def tier(request: pytest.FixtureRequest) -> Iterator[None]:
    """Which flushes run node by node."""
    before, config.interpreter = config.interpreter, request.param
    yield
    config.interpreter = before


def _write_too_few(w: Any, count: int) -> Any:
    """By a mask that nobody has seen."""
    return w.masked_scatter_(weft.ones(3) * 2 > 1, weft.ones(count) * 9)


WRITES: dict[str, Any] = {
    "w[k] = 1": lambda w, k: w.__setitem__(k, 1.0),
    "w[k] = tensor": lambda w, k: w.__setitem__(k, weft.tensor([9.0])),
    "index_put_": lambda w, k: w.index_put_((k,), weft.tensor([9.0])),
    "index_put_, adding": lambda w, k: w.index_put_((k,), weft.tensor([9.0]), True),
    "index_add_": lambda w, k: w.index_add_(0, k, weft.tensor([9.0])),
    "index_copy_": lambda w, k: w.index_copy_(0, k, weft.tensor([9.0])),
    "index_fill_": lambda w, k: w.index_fill_(0, k, 9.0),
    "scatter_": lambda w, k: w.scatter_(0, k, weft.tensor([9.0])),
    "scatter_add_": lambda w, k: w.scatter_add_(0, k, weft.tensor([9.0])),
    "masked_scatter_": lambda w, k: _write_too_few(w, int(k) - 6),
    "copy_": lambda w, k: w.copy_(weft.ones(3).index_select(0, k).expand(3)),
    "add_": lambda w, k: w.add_(weft.ones(3)[k]),
    "mul_": lambda w, k: w.mul_(weft.ones(3).gather(0, k)),
}
PLACES: dict[str, Any] = {
    "all of it": lambda base: base[0],
    "a slice": lambda base: base[1][:],
    "a column": lambda base: base.T[1],
    "a part": lambda base: base[2, :3],
}
VALUES = [[1.0, 2.0, 3.0], [4.0, 5.0, 6.0], [7.0, 8.0, 9.0]]


IN_SELF = "index out of range in self"
OUTSIDE = "index {} is out of bounds for dimension {} with size {}"
# What PyTorch says of the index 7, by the operation that a write is made of.
SAID = {
    **dict.fromkeys(WRITES, OUTSIDE.format(7, 0, 3)),
    **dict.fromkeys(("index_add_", "copy_"), IN_SELF),
    "index_copy_": r"index_copy_\(\): " + OUTSIDE.format(7, 0, 3),
    "masked_scatter_": OUTSIDE.format(1, 0, 1),
}


def out_of_sight(place: int) -> Any:
    """An index that nobody has seen when it is used."""
    return weft.tensor([place - 1]) + 1


@pytest.mark.parametrize("name", WRITES)
@pytest.mark.parametrize("place", PLACES)
def test_what_a_failed_write_was_to_change_reads_as_before(name: str, place: str) -> None:
    base = weft.tensor(VALUES)
    w = PLACES[place](base)
    independent = weft.ones(3) * 2
    WRITES[name](w, out_of_sight(7))
    later = w + 1
    with pytest.raises(IndexError, match=f"(?s)^{SAID[name]}.*expected.*got.*fix"):
        w.tolist()
    assert base.tolist() == VALUES
    assert independent.tolist() == [2.0, 2.0, 2.0]
    with pytest.raises(IndexError):
        later.tolist()
    w += 1
    w[out_of_sight(1)] = 50.0
    assert (w.tolist()[1], float(base.max())) == (50.0, 50.0)


@pytest.mark.parametrize("name", [n for n in WRITES if n not in ("masked_scatter_",)])
def test_an_index_that_can_be_seen_raises_at_the_call(name: str) -> None:
    w = weft.tensor(VALUES[0])
    version = w._version
    with pytest.raises(IndexError, match=f"^{SAID[name]}"):
        WRITES[name](w, weft.tensor([7]))
    assert w.tolist() == VALUES[0] and w._version == version


@pytest.mark.parametrize("name", [n for n in WRITES if n not in ("masked_scatter_",)])
def test_eager_mode_raises_at_the_call(name: str) -> None:
    w = weft.tensor(VALUES[0])
    with weft.eager():
        with pytest.raises(IndexError, match=f"^{SAID[name]}"):
            WRITES[name](w, out_of_sight(7))
        assert w.tolist() == VALUES[0]


def test_the_writes_before_the_failed_one_stay() -> None:
    w = weft.zeros(4)
    w += 1
    w[out_of_sight(2)] = 5.0
    w[0] = 3.0
    w[out_of_sight(9)] = 7.0
    w[1] = 8.0  # recorded behind the failed write, and lost with it
    with pytest.raises(IndexError, match="index 9 is out of bounds for dimension 0 with size 4"):
        w.tolist()
    assert w.tolist() == [3.0, 1.0, 5.0, 1.0]


def test_an_overwritten_failure_is_nobodys() -> None:
    w = weft.zeros(3)
    w[out_of_sight(9)] = 7.0
    w.fill_(2.0)
    assert w.tolist() == [2.0, 2.0, 2.0]


def test_an_error_raised_elsewhere_puts_back_too_and_is_raised_once() -> None:
    w, other = weft.zeros(3), weft.ones(3)
    w[out_of_sight(9)] = 7.0
    total = w.sum()
    weft.realize()
    assert other.tolist() == [1.0, 1.0, 1.0]
    with pytest.raises(IndexError):
        total.item()
    assert w.tolist() == [0.0, 0.0, 0.0]
    w[out_of_sight(8)] = 7.0
    weft.realize()
    with pytest.raises(IndexError, match="index 8"):
        w.tolist()
    assert w.tolist() == [0.0, 0.0, 0.0]


def test_what_a_failed_value_was_added_to_later_reads_as_before() -> None:
    bad = weft.ones(3)[out_of_sight(5)]
    with pytest.raises(IndexError):
        bad.tolist()
    w = weft.zeros(3)
    w += bad
    with pytest.raises(IndexError):
        w.tolist()
    assert w.tolist() == [0.0, 0.0, 0.0]


def test_gradients_go_the_way_they_went_before_the_failed_write() -> None:
    x = weft.tensor(VALUES[0], requires_grad=True)
    y = x * 2
    part = y[1:]
    part[out_of_sight(6)] = 0.0
    with pytest.raises(IndexError):
        part.tolist()
    (y * 3).sum().backward(retain_graph=True)
    assert x.grad.tolist() == [6.0, 6.0, 6.0]
    (part * 1).sum().backward()
    assert x.grad.tolist() == [6.0, 8.0, 8.0]


def test_the_failed_operation_does_not_run_again() -> None:
    w = weft.zeros(3)
    w[out_of_sight(9)] = 7.0
    with pytest.raises(IndexError):
        w.tolist()
    failures = weft.engine.pipeline.driver.counters["failures"]
    for _ in range(3):
        assert w.tolist() == [0.0, 0.0, 0.0]
    assert weft.engine.pipeline.driver.counters["failures"] == failures


def test_the_same_program_may_fail_again_and_work_again() -> None:
    w = weft.zeros(3)
    for place in (0, 1, 9, 2, 9, 9, 0):
        w[out_of_sight(place)] += 1.0
        if place == 9:
            with pytest.raises(IndexError):
                w.tolist()
        w.tolist()
    assert w.tolist() == [2.0, 1.0, 1.0]


def test_writes_that_cannot_fail_cost_no_copy() -> None:
    """A region write beside an index that can be seen still takes its base's memory."""
    w = weft.arange(1 << 20).float() * 0  # memory of its own
    weft.realize(w)
    address = value_of(w).buffer.address
    for place in range(4):
        w[place : place + 2] = weft.arange(8.0)[weft.tensor([1, 2])]
        w.sum().item()
    assert value_of(w).buffer.address == address


def test_nothing_is_left_behind() -> None:
    def fail() -> None:
        w = weft.zeros(8, 8)
        w[out_of_sight(99)] = 1.0
        w[1:] += 2.0
        with pytest.raises(IndexError):
            w.sum().item()
        w.tolist()
        v = weft.zeros(8)
        v[out_of_sight(99)] = 1.0
        weft.realize()

    fail()
    before = settled_count()
    fail()
    gc.collect()
    assert count_live_nodes() == before and not tape().written and not tape().held


TEXTS: dict[str, Any] = {
    "x[index]": lambda x, k: x[k],
    "x[:, index]": lambda x, k: x.T[:, k],
    "gather": lambda x, k: x.gather(0, k.reshape(2, 1)),
    "index_select": lambda x, k: x.index_select(0, k),
    "take": lambda x, k: x[:, 0].take(k),
    "embedding": lambda x, k: weft.nn.functional.embedding(k, x),
    "index_add": lambda x, k: x.index_add(0, k, x[:2]),
    "index_copy": lambda x, k: x.index_copy(0, k, x[:2]),
    "scatter_add": lambda x, k: x.scatter_add(0, k.reshape(2, 1), x[:2]),
    "scatter": lambda x, k: x.scatter(0, k.reshape(2, 1), x[:2]),
    "x[index] = value": lambda x, k: x.clone().index_put((k,), x[:2]),
    "index_fill": lambda x, k: x.index_fill(0, k, 1.0),
    "take_along_dim": lambda x, k: weft.take_along_dim(x, k.reshape(2, 1), 0),
}
TEXTS_SAID = {
    **dict.fromkeys(TEXTS, OUTSIDE.format(7, 0, 3)),
    **dict.fromkeys(("embedding", "index_add", "index_select"), IN_SELF),
    "x[:, index]": OUTSIDE.format(7, 1, 3),
    "take": "out of range: tried to access index 7 on a tensor of 3 elements.",
    "index_copy": "index_copy_(): " + OUTSIDE.format(7, 0, 3),
}


@pytest.mark.parametrize("seen", (True, False))
@pytest.mark.parametrize("name", TEXTS)
def test_the_message_says_which_index_where_and_what_is_allowed(name: str, seen: bool) -> None:
    x = weft.tensor(VALUES)
    index = weft.tensor([1, 7]) if seen else weft.tensor([0, 6]) + 1
    with pytest.raises(IndexError) as caught:
        TEXTS[name](x, index).tolist()
    text = str(caught.value)
    shown = name.replace(":, ", "") if seen or name != "take_along_dim" else "gather"
    assert text.startswith(TEXTS_SAID[name]) and text.partition("\n")[0].endswith(f"({shown})"), (
        text
    )
    assert "<= index < 3" in text and "7 at position [1" in text
    assert "test_failed_writes.py" in text and "fix" in text
