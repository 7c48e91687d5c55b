"""The first line of an error is PyTorch's, up to what it quotes of the call."""

from __future__ import annotations

from typing import Any

import pytest

import weft

torch = pytest.importorskip("torch")

CALLS: dict[str, Any] = {
    "fliplr": lambda t: t.fliplr(t.ones(1)),
    "flipud": lambda t: t.flipud(t.ones(())),
    "narrow": lambda t: t.narrow(t.ones(()), 0, 0, 1),
    "rot90 of a vector": lambda t: t.rot90(t.ones(5)),
    "rot90 in no plane": lambda t: t.rot90(t.ones(5, 5), dims=(1, -1)),
    "roll by nothing": lambda t: t.roll(t.ones(5), ()),
    "group_norm": lambda t: t.nn.functional.group_norm(t.ones(1), 1),
    "vsplit": lambda t: t.vsplit(t.ones(5), 0),
    "dsplit": lambda t: t.dsplit(t.ones(5), 0),
    "complex of an integer": lambda t: t.complex(t.ones(2), t.ones(2, dtype=t.int32)),
    "complex of two types": lambda t: t.complex(t.ones(2), t.ones(2, dtype=t.float64)),
    "complex out": lambda t: t.complex(
        *[t.ones(2, dtype=t.float64)] * 2, out=t.ones(2, dtype=t.complex64)
    ),
    "scatter": lambda t: t.scatter(
        t.ones(3, 5, 3), 0, t.zeros(2, 2, dtype=t.int64), t.ones(2, 5)
    ),
    "fftn": lambda t: t.fft.fftn(t.ones(()), dim=(0,)),
    "irfft2": lambda t: t.fft.irfft2(t.ones(()), dim=(0,)),
    "normal_": lambda t: t.ones(3).normal_(0, -1),
}  # fmt: skip


@pytest.mark.parametrize("name", CALLS)
def test_the_first_line_is_pytorchs(name):
    said = []
    for lib in (weft, torch):
        with pytest.raises((RuntimeError, IndexError)) as caught:
            CALLS[name](lib)
        said.append(str(caught.value).partition("\n")[0])
    mine, theirs = said
    assert mine.partition(", called at")[0] == theirs.rstrip(",")
