"""`out=` in the memory of an operand: itself it is written over, a part of it is refused where PyTorch does."""

from __future__ import annotations

from typing import Any

import pytest

import weft

torch = pytest.importorskip("torch")

# A function of an operand, another of its shape, and out=.
CALLS: dict[str, Any] = {
    "add": lambda t, x, y, out: t.add(x, 1, out=out),
    "mul, as the second operand": lambda t, x, y, out: t.mul(y, x, out=out),
    "exp": lambda t, x, y, out: t.exp(x, out=out),
    "atan2": lambda t, x, y, out: t.atan2(x, y, out=out),
    "clamp": lambda t, x, y, out: t.clamp(x, 0, 1, out=out),
    "lerp": lambda t, x, y, out: t.lerp(x, y, 0.5, out=out),
    "addcmul": lambda t, x, y, out: t.addcmul(x, y, y, out=out),
    "where": lambda t, x, y, out: t.where(y > 0, x, y, out=out),
    "maximum": lambda t, x, y, out: t.maximum(x, y, out=out),
    "cumsum": lambda t, x, y, out: t.cumsum(x, 0, out=out),
    "cumprod": lambda t, x, y, out: t.cumprod(x, 0, out=out),
    "cummax": lambda t, x, y, out: t.cummax(x, 0, out=(out, t.empty(0, dtype=t.int64))),
    "logcumsumexp": lambda t, x, y, out: t.logcumsumexp(x, 0, out=out),
    "sort": lambda t, x, y, out: t.sort(x, out=(out, t.empty(0, dtype=t.int64))),
    "scatter": lambda t, x, y, out: t.scatter(x, 0, t.zeros(4, dtype=t.int64), y, out=out),
    "index_add": lambda t, x, y, out: t.index_add(x, 0, t.arange(4), y, out=out),
    "gather": lambda t, x, y, out: t.gather(x, 0, t.arange(4), out=out),
    "index_select": lambda t, x, y, out: t.index_select(x, 0, t.arange(4), out=out),
    "take": lambda t, x, y, out: t.take(x, t.arange(4), out=out),
    "cat": lambda t, x, y, out: t.cat([x[:2], y[:2]], out=out),
    "special.i1": lambda t, x, y, out: t.special.i1(x, out=out),
    "special.ndtr": lambda t, x, y, out: t.special.ndtr(x, out=out),
    "special.entr": lambda t, x, y, out: t.special.entr(x, out=out),
    "lgamma": lambda t, x, y, out: t.lgamma(x, out=out),
    "igamma": lambda t, x, y, out: t.igamma(x, y, out=out),
    "softmax": lambda t, x, y, out: t.softmax(x, 0, out=out),
    "triu": lambda t, x, y, out: t.triu(x.view(2, 2), out=out.view(2, 2)),
    "mm": lambda t, x, y, out: t.mm(x.view(2, 2), y.view(2, 2), out=out.view(2, 2)),
    "addmm": lambda t, x, y, out: t.addmm(
        x.view(2, 2), y.view(2, 2), y.view(2, 2), out=out.view(2, 2)
    ),
    "linalg.inv": lambda t, x, y, out: t.linalg.inv(x.view(2, 2), out=out.view(2, 2)),
    "alias_copy": lambda t, x, y, out: t.alias_copy(x, out=out),
}  # fmt: skip


def answer(lib: Any, name: str, shift: int) -> Any:
    """The memory after a call whose `out=` lies so many elements behind the operand, or why it is refused."""
    memory = lib.tensor([0.5, 0.25, 2.0, 1.5, 3.0, 1.25, 0.75, 4.0, 5.0, 6.0])
    other = lib.tensor([1.0, 2.0, 0.5, 4.0])
    try:
        CALLS[name](lib, memory[:4], other, memory[shift : shift + 4])
    except RuntimeError as error:
        return str(error).split(" Please")[0]
    return memory.tolist()


@pytest.mark.parametrize("shift", [1, 3, 4, 6])
@pytest.mark.parametrize("name", CALLS)
def test_out_in_a_part_of_an_operand_is_refused_where_pytorch_refuses_it(name, shift):
    mine, theirs = (answer(lib, name, shift) for lib in (weft, torch))
    if isinstance(theirs, list) and shift < 4:
        assert isinstance(mine, list)  # PyTorch reads what it has written
    else:
        assert mine == (theirs if isinstance(theirs, str) else pytest.approx(theirs, rel=1e-5))


@pytest.mark.parametrize(
    "name", sorted(CALLS.keys() - {"mm"})
)  # PyTorch's mm reads what it has set to 0
def test_out_that_is_the_operand_is_written_over_or_refused(name):
    mine, theirs = (answer(lib, name, 0) for lib in (weft, torch))
    assert mine == (theirs if isinstance(theirs, str) else pytest.approx(theirs, rel=1e-5))


def test_parts_of_other_types_are_measured_in_bytes():
    for lib in (weft, torch):
        memory = lib.zeros(8)
        lib.add(memory[:4], 1, out=memory.view(lib.int32)[4:].view(lib.float32))
        with pytest.raises(RuntimeError, match="some elements of the input tensor"):
            lib.gt(memory[:4], 0, out=memory.view(lib.bool)[2:6])
