"""Loops over single elements: what is computed and written at the call is what recording it would have given."""

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

import weft
from oracle import torch
from weft.engine.frontend.recorder import set_budget
from weft.engine.frontend.resolve import value_of

SIZE = 7
DTYPES = ["float32", "float64", "int64", "int32", "bool", "float16"]
NUMBERS = [0.0, -0.0, 1.0, -2.5, 1e-40, 3e38, float("inf"), float("nan"), 0.1, 7.0]
TURNS = (
    "e[a] = e[b]",
    "e[a] = s[b]",
    "e[a] += s[b]",
    "e[a] -= e[b]",
    "e[a] *= s[b]",
    "e[i[a]] = s[i[b]]",
    "e[i[a]] += e[i[b]]",
    "t = e[a].clone(); e[a] = e[b]; e[b] = t",
    "e[i[a]], e[i[b]] = e[i[b]].clone(), e[i[a]].clone()",
    "e[a] = 3",
    "e[a] = e[a] + e[b] * s[a]",
    "e[a] = s[a] if e[a] < e[b] else s[b]",
    "e[a:] = e[: SIZE - a].clone()",
    "e.mul_(2)",
    "s = e.clone()",
    "s = e * 2",
    "v = e[a]; e[a] = e[b]; kept.append(v)",
    "kept.append(e[a].clone()); kept.append(e[a] + e[b])",
    "r[a] = r[b]",
    "r[i[a], 1] = s[b]",
    "r[a] += s[b]",
    "e = e.flip(0)",
    "e = e[:]",
    "e = zeros(SIZE, dtype=e.dtype)",
    "i[a] = b",
)


def run(lib, dtype, steps):
    """The state after a list of turns, and all that has been kept on the way."""
    draw = np.random.default_rng(3)
    numbers = np.array(NUMBERS if dtype.startswith("float") else range(10))
    with np.errstate(all="ignore"):
        numbers = numbers.astype(dtype)
    names = {
        "e": lib.tensor(numbers[:SIZE]),
        "s": lib.tensor(numbers[-SIZE:]),
        "i": lib.tensor(draw.integers(0, SIZE, SIZE)),
        "r": lib.tensor(draw.integers(0, 9, (SIZE, 2)).astype(dtype)),
        "kept": [],
        "zeros": lib.zeros,
        "SIZE": SIZE,
    }
    for turn, a, b in steps:
        names |= {"a": a, "b": b}
        exec(TURNS[turn], names)
    return [names[name] for name in "esir"] + names["kept"]


PLACE = st.integers(0, SIZE - 1)
STEPS = st.lists(st.tuples(st.integers(0, len(TURNS) - 1), PLACE, PLACE), max_size=40)


@pytest.mark.parametrize("dtype", DTYPES)
@given(steps=STEPS)
def test_loops_give_what_pytorch_gives(dtype, steps):
    if dtype == "bool":  # what PyTorch refuses there is tested elsewhere
        refused = ("-=", "mul_", "e * 2")
        steps = [step for step in steps if not any(part in TURNS[step[0]] for part in refused)]
    with np.errstate(all="ignore"):
        wanted, got = run(torch, dtype, steps), run(weft, dtype, steps)
        for ours, theirs in zip(got, wanted, strict=True):
            assert str(ours.dtype).split(".")[1] == str(theirs.dtype).split(".")[1]
            np.testing.assert_array_equal(np.array(ours.numpy()), theirs.numpy())


@given(steps=STEPS)
def test_at_once_is_what_running_after_every_operation_gives(steps):
    at_once = [np.array(x.numpy()) for x in run(weft, "float32", steps)]
    previous = set_budget(0, 1 << 40)
    try:
        run_each = [np.array(x.numpy()) for x in run(weft, "float32", steps)]
    finally:
        set_budget(*previous)
    with weft.eager():
        eager = [np.array(x.numpy()) for x in run(weft, "float32", steps)]
    for one, two, three in zip(at_once, run_each, eager, strict=True):
        assert one.tobytes() == two.tobytes() == three.tobytes()


@pytest.mark.parametrize("operation", ["+", "-", "*", "/", "<", "<=", ">", ">=", "==", "!="])
@pytest.mark.parametrize("dtype", ["float32", "float64", "int64"])
def test_single_elements_are_computed_as_kernels_compute_them(operation, dtype):
    """Elements of vectors one by one, with tensors and with numbers, and all at once: the same bits."""
    draw = np.random.default_rng(0)
    ends = (
        [2**63 - 1, -(2**63), 3, -1] if dtype == "int64" else [*NUMBERS, 1e308, -1e-45, 2**24 + 1]
    )
    with np.errstate(all="ignore"):
        one, other = (draw.choice(np.array(ends), 40).astype(dtype) for _ in range(2))
    x, y = weft.tensor(one), weft.tensor(other)
    whole = eval(f"x {operation} y").numpy()
    single = [eval(f"x[k] {operation} y[k]", {"x": x, "y": y, "k": k}) for k in range(40)]
    assert np.array([part.numpy() for part in single]).tobytes() == whole.tobytes()
    number = 3 if dtype == "int64" else 0.1
    whole = eval(f"x {operation} number").numpy()
    single = [eval(f"x[k] {operation} n", {"x": x, "n": number, "k": k}) for k in range(40)]
    assert np.array([part.numpy() for part in single]).tobytes() == whole.tobytes()


def test_whoever_has_the_value_keeps_it():
    e = weft.tensor([1.0, 2.0, 3.0])
    pending, alias, shared = e * 2, e.detach(), e.clone()
    view = e[1:]
    e[1] = 7.0
    assert pending.tolist() == [2, 4, 6]
    assert shared.tolist() == [1, 2, 3]
    assert alias.tolist() == [1, 7, 3]
    assert view.tolist() == [7, 3]
    array = e.numpy()
    e[0] = 5.0
    assert array.tolist() == [5, 7, 3]
    address = e.data_ptr()
    e[2] = 9.0
    assert e.tolist() == [5, 7, 9]
    assert e.data_ptr() == address


def test_a_saved_value_stays():
    x = weft.tensor([1.0, 2.0], requires_grad=True)
    w = weft.tensor([3.0, 4.0])
    y = (x * w).sum()
    w[0] = 9.0
    y.backward()
    assert x.grad.tolist() == [3, 4]


def test_gradients_flow_through_single_elements():
    def steps(lib):
        x = lib.tensor([1.0, 2.0, 3.0], requires_grad=True)
        e = lib.zeros(3)
        i = lib.tensor([2, 0, 1])
        for k in range(3):
            e[i[k]] = x[k] * x[i[k]]
            e[k] += 1
        e.prod().backward()
        return [e.detach().tolist(), x.grad.tolist()]

    assert steps(weft) == steps(torch)


def test_a_known_index_gives_a_view():
    """As in PyTorch: an index without dimensions selects, and what is written to the selection is seen."""

    def steps(lib):
        x, i = lib.zeros(3), lib.tensor([2, 0])
        part = x[i[0]]
        part += 5
        return x.tolist()

    assert steps(weft) == steps(torch)


def test_indices_are_checked_anew_when_they_have_been_written():
    table, index = weft.arange(3.0), weft.tensor([0, 1, 2])
    assert table[index].tolist() == [0, 1, 2]
    index[1] = 5
    with pytest.raises(IndexError):
        table[index].tolist()


def test_a_loop_records_nothing():
    """A table that a loop fills is in memory of its own after some writes, constants too."""
    table, weights = weft.zeros(100), weft.tensor(np.random.default_rng(0).random(100))
    weights = weights.float()
    for k in range(2, 100):
        table[k] = table[k - 1] + weights[k] * 0.5
    assert value_of(table).state == 1  # done
