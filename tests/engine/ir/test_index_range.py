"""Bounds of pending integers, from which an index is known to be in range before anything runs."""

import random

import pytest

import weft
from weft.functional.support.index_bounds import COUNTED, check_index

SIZE = 12


def _start(rng):
    kind = rng.randrange(4)
    if kind == 0:
        return weft.arange(SIZE)
    if kind == 1:
        return weft.tensor([rng.randrange(-3, 9) for _ in range(SIZE)])
    if kind == 2:
        return weft.topk(weft.tensor([rng.random() for _ in range(SIZE)]), SIZE)[1]
    return weft.tensor([rng.randrange(0, 40) for _ in range(SIZE)], dtype=weft.int32)


STEPS = (
    lambda x, y, n: x + n,
    lambda x, y, n: x - n,
    lambda x, y, n: n - x,
    lambda x, y, n: x * n,
    lambda x, y, n: x * y,
    lambda x, y, n: x + y,
    lambda x, y, n: x - y,
    lambda x, y, n: x % (n or 5),
    lambda x, y, n: x // (n or 3),
    lambda x, y, n: weft.div(x, n or 3, rounding_mode="trunc"),
    lambda x, y, n: x.clamp(min=n),
    lambda x, y, n: x.clamp(max=n),
    lambda x, y, n: x.clamp(0, abs(n)),
    lambda x, y, n: weft.maximum(x, y),
    lambda x, y, n: weft.minimum(x, y),
    lambda x, y, n: weft.where(x > y, x, y),
    lambda x, y, n: weft.cat((x[:4], y[4:])),
    lambda x, y, n: weft.stack((x, y)).reshape(-1)[::2],
    lambda x, y, n: x.flip(0).clone(),
    lambda x, y, n: x[y.long() % SIZE],
    lambda x, y, n: x.gather(0, y.long().clamp(0, SIZE - 1)),
    lambda x, y, n: (x > n).long(),
    lambda x, y, n: x.int(),
    lambda x, y, n: x.long(),
    lambda x, y, n: x.to(weft.uint8),
    lambda x, y, n: weft.argsort(x),
    lambda x, y, n: weft.nn.functional.pad(x, (2, 0), value=n)[:SIZE],
    lambda x, y, n: x * 100_000 * 100_000,
    lambda x, y, n: x.roll(n),
)


@pytest.mark.parametrize("seed", range(300))
def test_bounds_hold(seed):
    """What is known to be in range is in range, whatever integers were computed from."""
    rng = random.Random(seed)
    values = [_start(rng), _start(rng)]
    for _ in range(rng.randrange(1, 9)):
        step, number = rng.choice(STEPS), rng.randrange(-6, 15)
        values.append(step(rng.choice(values), rng.choice(values), number))
    known = [size for size in range(1, 60) if _is_known(values[-1], size)]
    numbers = values[-1].tolist()
    assert all(0 <= number < size for size in known for number in numbers)


def _is_known(x, size):
    try:
        return check_index("x", x, size, 0, False) == COUNTED
    except IndexError:  # its values are there
        return False


PRODUCERS = {
    "topk": lambda x, i: x.topk(5).indices,
    "argsort": lambda x, i: x.argsort(),
    "sort": lambda x, i: x.sort().indices,
    "randperm": lambda x, i: weft.randperm(SIZE),
    "remainder": lambda x, i: (i * 7 + 3) % SIZE,
    "clamp": lambda x, i: (i * 7 - 30).clamp(0, SIZE - 1),
    "cat": lambda x, i: weft.cat((i % 3, i // 2)),
    "arithmetic": lambda x, i: weft.arange(5) * 2 + 1,
    "median": lambda x, i: x.median(0).indices.reshape(1),
    "of another": lambda x, i: (i * 1)[i % 4],
}


@pytest.mark.parametrize("produce", PRODUCERS.values(), ids=PRODUCERS)
def test_positions_are_known_to_be_in_range(produce):
    """Indices that operations compute within a dimension need no look at their values."""
    x = weft.rand(SIZE)
    index = produce(x, weft.tensor([0, 3, 11, 5]))
    assert check_index("x", index, SIZE, 0, True) == COUNTED


def test_too_wide_bounds_are_not_trusted():
    """An index that may exceed the dimension is still refused where it does."""
    x = weft.rand(SIZE)
    index = (weft.tensor([1, 2, 3]) * 5) % (SIZE + 5)
    with pytest.raises(IndexError):
        print(x[index])
