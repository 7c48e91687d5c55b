"""Calls whose values, types or refusals PyTorch's own tests check, by both libraries."""

import numpy as np
import pytest

import weft
from oracle import torch

NAN, INF = float("nan"), float("inf")


class _Items:
    """A sequence by its methods alone; without items it cannot be read."""

    def __init__(self, items: list | None) -> None:
        self.items = items

    def __len__(self) -> int:
        return 2

    def __getitem__(self, place: int) -> object:
        return self.items[place]


def _filled(lib, call):
    """What a call writes into a view of another shape that has as many elements."""
    whole = lib.zeros(2, 3)
    call(lib, whole.narrow(1, 1, 2))
    return whole


def _gradients(lib, function, *values: list[float]):
    leaves = [lib.tensor(each, requires_grad=True) for each in values]
    result = function(*leaves)
    result.sum().backward()
    return result.detach(), *(leaf.grad for leaf in leaves)


def _segments(kind: str, initial: float | None, *lengths: int):
    def call(lib):
        def reduced(data):
            return lib.segment_reduce(data, kind, lengths=lib.tensor(lengths), initial=initial)

        values = [1.0, NAN, 3.0, 4.0, 5.0, 5.0][: sum(lengths)]
        return _gradients(lib, reduced, values)

    return call


CALLS = {
    "arange into a view": lambda lib: _filled(lib, lambda t, out: t.arange(0, 4, out=out)),
    "linspace into a view": lambda lib: _filled(lib, lambda t, out: t.linspace(0, 3, 4, out=out)),
    "logspace into a view": lambda lib: _filled(lib, lambda t, out: t.logspace(0, 3, 4, out=out)),
    "linspace to a complex bound": lambda lib: lib.linspace(1 + 2j, 3, 4),
    "linspace of complex128": lambda lib: lib.linspace(1 + 2j, 3, 5, dtype=lib.complex128),
    "linspace of complex tensors": lambda lib: lib.linspace(lib.tensor(1j), lib.tensor(2), 3),
    "linspace of one complex number": lambda lib: lib.linspace(1j, 2, 1),
    "linspace of complex numbers as real ones": lambda lib: lib.linspace(1j, 2, 3, dtype=lib.float32),
    "logspace of complex exponents": lambda lib: lib.logspace(1 + 1j, 2, 4, 2.0),
    "nan_to_num of complex parts": lambda lib: lib.nan_to_num(
        lib.tensor([complex(NAN, 1), complex(2, NAN), complex(INF, -INF)]), nan=7
    ),
    "nan_to_num of complex parts, given": lambda lib: lib.nan_to_num(
        lib.tensor([complex(INF, 1), complex(2, -INF)]), posinf=3, neginf=4
    ),
    "copysign": lambda lib: _gradients(lib, lib.copysign, [0.0, 2.0, -3.0], [-1.0, 0.0, -0.0]),
    "fftn over nothing": lambda lib: lib.fft.fftn(lib.ones(2, 3), dim=()),
    "ifft2 over nothing": lambda lib: lib.fft.ifft2(lib.ones(2, 3, dtype=lib.complex64), dim=()),
    "rfftn of complex numbers": lambda lib: lib.fft.rfftn(lib.ones(2, dtype=lib.complex64)),
    "cat of empty vectors": lambda lib: lib.cat((lib.ones(0), lib.ones(0)), 1),
    "diff with a vector before": lambda lib: lib.diff(lib.ones(2, 2), prepend=lib.ones(1)),
    "vander of truth values": lambda lib: lib.vander(lib.tensor([True, False])),
    "vander of negative powers": lambda lib: lib.vander(lib.tensor([1.0]), -1),
    "roll by nothing": lambda lib: lib.roll(lib.arange(4), (), (0,)),
    "add of truth values": lambda lib: lib.add(lib.tensor([True, False]), lib.tensor([False, True]), alpha=0),
    "add of truth values, doubled": lambda lib: lib.add(lib.tensor([False]), lib.tensor([True]), alpha=2),
    "heaviside of complex numbers": lambda lib: lib.heaviside(lib.tensor([1j]), lib.tensor([1j])),
    "heaviside of two types": lambda lib: lib.heaviside(lib.tensor([1]), lib.tensor([1.0])),
    "polynomials of other shapes": lambda lib: lib.special.chebyshev_polynomial_t(lib.ones(2), lib.ones(3)),
    "tensor_split at floats": lambda lib: lib.tensor_split(lib.arange(4), lib.tensor([1.0])),
    "empty_strided of other lengths": lambda lib: lib.empty_strided((2,), ()),
    "a storage of a NumPy integer": lambda lib: lib.tensor(len(lib.UntypedStorage(np.int16(3)))),
    "a tensor of a user's sequence": lambda lib: lib.tensor(_Items([1, 2.5])),
    "a tensor of sequences in one": lambda lib: lib.tensor(_Items([_Items([1, 2]), _Items([3, 4])])),
    "a tensor of a sequence without items": lambda lib: lib.tensor(_Items(None)),
    "a view of the same type": lambda lib: lib.tensor(
        lib.ones(2, requires_grad=True).view(lib.float32).requires_grad
    ),
    **{
        f"segments, {kind} from {initial}, {lengths}": _segments(kind, initial, *lengths)
        for kind in ("sum", "mean", "max", "min", "prod")
        for initial in (None, 1)
        for lengths in ((0, 1, 2, 3), (0, 0))
    },
}  # fmt: skip


def _answer(lib, name: str) -> object:
    """The parts of a result as (type, shape, values), or the first line of an error."""
    try:
        found = CALLS[name](lib)
    except (RuntimeError, ValueError) as error:
        return str(error).split("\n")[0].split(", called at")[0]
    parts = found if isinstance(found, tuple) else (found,)
    return [
        (str(part.dtype).rpartition(".")[2], tuple(part.shape), part.tolist()) for part in parts
    ]


@pytest.mark.parametrize("name", CALLS)
def test_calls(name: str) -> None:
    found, wanted = _answer(weft, name), _answer(torch, name)
    if isinstance(wanted, str):
        assert found == wanted
        return
    assert [part[:2] for part in found] == [part[:2] for part in wanted]
    for mine, theirs in zip(found, wanted, strict=True):
        np.testing.assert_allclose(np.array(mine[2]), np.array(theirs[2]), rtol=1e-5, atol=1e-6)


def test_a_sequence_that_holds_itself_is_refused() -> None:
    items = _Items([1])
    items.items = [items, items]
    with pytest.raises(ValueError, match="too many dimensions"):
        weft.tensor(items)


IN_PLACE = (
    "__iadd__ __isub__ __imul__ __itruediv__ __ifloordiv__ __imod__ __ipow__ __iand__ __ior__ __ixor__ __ilshift__ "
    "__irshift__"
)


class _Unknown:
    def __radd__(self, other: object) -> str:
        return "answered"


@pytest.mark.parametrize("name", IN_PLACE.split())
def test_operators_leave_other_types_to_them(name: str) -> None:
    for lib in (weft, torch):
        x = lib.tensor([1, 2])
        assert getattr(x, name)(_Unknown()) is NotImplemented
        assert x.tolist() == [1, 2]
    x = weft.ones(2)
    x += _Unknown()
    assert x == "answered"
    y = weft.ones(2)
    with pytest.raises(TypeError, match="unsupported operand"):
        y *= object()
