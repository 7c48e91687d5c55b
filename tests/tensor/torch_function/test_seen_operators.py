"""Modes see operators, indexing and properties of plain tensors; without a mode nothing asks."""

from __future__ import annotations

import threading
from typing import Any

import pytest

import weft
from oracle import torch
from weft.overrides import TorchFunctionMode

SEEN = """
a + b; a + 1; 1 + a; a - b; 1 - a; a * b; 2 * a; a / b; 1 / a; a // b; 1 // a; a % b; 1 % a; 2 ** a; -a; +a; abs(a)
~i; i & i; i | i; i ^ i; i << i; i >> i; a == b; a != b; a < b; a <= b; a > b; a >= b; 1 < a; a @ b; a[0]; a[0, 1]
a[:, None]; len(a); bool(a[0, 0]); float(a[0, 0]); int(a[0, 0]); complex(a[0, 0]); 1 in a; repr(a); a.shape; a.dtype
a.device; a.T; a.mT; a.requires_grad; a.grad; a.is_leaf; a.grad_fn; a.data; a.ndim; a.is_cuda; a._version; a.layout
a.real; a.nbytes; a.is_meta; a.H; a.output_nr; a.size(); a.detach(); format(a[0, 0], '.2f'); hash(a); list(a)
"""
CHANGES = """
a += b; a -= 1; a *= 2; a /= 2; a //= 2; a %= 2; i &= i; i |= i; i ^= i; i <<= 1; i >>= 1; a[0] = 1; a[0] += 1
x, y = a
"""


def _split(text: str) -> list[str]:
    return [part.strip() for part in text.replace("\n", ";").split(";") if part.strip()]


def _watch(T: Any, statement: str) -> list[str]:
    """The names of what a mode sees of a statement; a function that is also a method goes by the method's."""
    seen: list[str] = []

    class Watch(T.overrides.TorchFunctionMode):  # type: ignore[misc,name-defined]
        def __torch_function__(
            self, func: Any, types: Any, args: Any = (), kwargs: Any = None
        ) -> Any:
            name = T.overrides.resolve_name(func) or str(func)
            seen.append(name.removeprefix("torch.").removeprefix("Tensor."))
            return func(*args, **(kwargs or {}))

    names = {"a": T.ones(2, 2), "b": T.ones(2, 2), "i": T.ones(2, 2, dtype=T.int64)}
    with Watch():
        exec(statement, names)
    return seen


@pytest.mark.parametrize("statement", _split(SEEN) + _split(CHANGES))
def test_modes_see_what_pytorchs_see(statement: str) -> None:
    assert _watch(weft, statement) == _watch(torch, statement)


class _Twice(TorchFunctionMode):
    """Doubles what additions give."""

    def __torch_function__(self, func: Any, types: Any, args: Any = (), kwargs: Any = None) -> Any:
        if func is weft.Tensor.add:
            return func(*args, **(kwargs or {})) * 2
        return NotImplemented


def test_answers_count_and_parameters_ask_too() -> None:
    x = weft.nn.Parameter(weft.ones(2))
    with _Twice():
        assert (x + 1).tolist() == [4, 4]
        with _Twice():
            assert (x + 1).tolist() == [8, 8]
        assert (x - 1).tolist() == [0, 0]
    assert (x + 1).tolist() == [2, 2]


def test_other_threads_are_left_alone() -> None:
    found: list[Any] = []
    x = weft.ones(2)
    with _Twice():
        other = threading.Thread(target=lambda: found.append((x + 1).tolist()))
        other.start()
        other.join()
        assert (x + 1).tolist() == [4, 4]
    assert found == [[2, 2]]


def test_tensor_is_as_before_when_a_mode_has_ended() -> None:
    before = dict(weft.Tensor.__dict__)
    for _ in range(3):
        with pytest.raises(ZeroDivisionError), _Twice():
            raise ZeroDivisionError
    assert dict(weft.Tensor.__dict__) == before


def test_training_runs_within_a_mode() -> None:
    calls: list[Any] = []

    class Count(TorchFunctionMode):
        def __torch_function__(
            self, func: Any, types: Any, args: Any = (), kwargs: Any = None
        ) -> Any:
            calls.append(func)
            return func(*args, **(kwargs or {}))

    def train() -> list[float]:
        weft.manual_seed(0)
        model = weft.nn.Sequential(weft.nn.Linear(4, 8), weft.nn.ReLU(), weft.nn.Linear(8, 1))
        optimizer = weft.optim.Adam(model.parameters(), lr=0.01)
        losses = []
        for _ in range(5):
            optimizer.zero_grad()
            loss = (model(weft.ones(3, 4)) - 1).square().mean()
            loss.backward()
            optimizer.step()
            losses.append(loss.item())
        return losses

    plain = train()
    with Count():
        assert train() == plain
    assert calls


class _Counting(TorchFunctionMode):
    count = 0

    def __torch_function__(self, func: Any, types: Any, args: Any = (), kwargs: Any = None) -> Any:
        self.count += 1
        return func(*args, **(kwargs or {}))


def test_a_mode_that_ends_twice_or_elsewhere_leaves_modes_as_they_are() -> None:
    mode, x = _Counting(), weft.ones(2)
    mode.__enter__()
    thread = threading.Thread(target=mode.__exit__, args=(None, None, None))
    thread.start()
    thread.join()
    x + 1
    assert mode.count == 1  # the other thread had none to end
    mode.__exit__(None, None, None)
    mode.__exit__(None, None, None)
    x + 1
    assert mode.count == 1
    with _Counting() as later:
        x + 1
    assert later.count == 1
