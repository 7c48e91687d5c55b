"""The first line of an error is PyTorch's, up to what it quotes of the call."""

from __future__ import annotations

from typing import Any

import pytest

import weft

torch = pytest.importorskip("torch")


def _conv(lib: Any, name: str, x: Any = (1, 2, 6, 6), w: Any = (2, 2, 3, 3), **options: Any) -> Any:
    return getattr(lib.nn.functional, name)(lib.ones(*x), lib.ones(*w), **options)


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
    "conv2d by two strides of three": lambda t: _conv(t, "conv2d", stride=(1, 1, 1)),
    "conv2d of another rank": lambda t: _conv(t, "conv2d", x=(2, 2)),
    "conv2d in groups that do not divide": lambda t: _conv(t, "conv2d", w=(3, 1, 2, 2), groups=2),
    "conv2d and a bias of another type": lambda t: _conv(t, "conv2d", bias=t.ones(2).double()),
    "conv_transpose2d in no groups": lambda t: _conv(t, "conv_transpose2d", groups=0),
    "conv_transpose2d in too many groups": lambda t: _conv(t, "conv_transpose2d", groups=3),
    "conv_transpose2d and another bias": lambda t: _conv(t, "conv_transpose2d", bias=t.ones(5)),
    "conv_transpose2d of another rank": lambda t: _conv(t, "conv_transpose2d", x=(2, 2)),
    "conv_transpose2d that pads all away": lambda t: _conv(t, "conv_transpose2d", padding=4),
    "max_pool1d by nothing": lambda t: t.nn.functional.max_pool1d(t.ones(1, 4), 2, 0),
    "max_pool2d in no window": lambda t: t.nn.functional.max_pool2d(t.ones(1, 4, 4), -1),
    "max_pool2d of two strides of three": lambda t: t.nn.functional.max_pool2d(
        t.ones(1, 4, 4), 2, (1, 1, 1)
    ),
    "avg_pool3d padded by less": lambda t: t.nn.functional.avg_pool3d(t.ones(1, 4, 4, 4), 2, 1, -1),
    "avg_pool2d without a channel": lambda t: t.nn.functional.avg_pool2d(t.ones(2, 0, 4, 4), 2),
    "ormqr": lambda t: t.ormqr(t.ones(5, 3), t.ones(2), t.ones(5, 5)),
    "index_add": lambda t: t.index_add(
        t.ones(3, 5), 0, t.zeros(2, dtype=t.int64), t.ones(3, 5)
    ),
    "slice of a number": lambda t: t.ones(())[0:1],
    "gather by another rank": lambda t: t.gather(t.ones(3, 3), 0, t.zeros(3, dtype=t.int64)),
    "index_select by floats": lambda t: t.index_select(t.ones(3), 0, t.zeros(2)),
    "gather by floats": lambda t: t.gather(t.ones(3), 0, t.zeros(3)),
    "empty of a negative size": lambda t: t.empty(2, -1),
    "zeros of a negative size": lambda t: t.zeros(2, -1),
    "full of a negative size": lambda t: t.full((-1,), 1),
    "view of a negative size": lambda t: t.ones(6).view(-2, 3),
    "permute twice": lambda t: t.ones(2, 3).permute(0, -2),
    "repeats below zero": lambda t: t.repeat_interleave(t.ones(2), t.tensor([-1, 2])),
    "product of matrices": lambda t: t.cartesian_prod(t.ones(2), t.ones(2, 2)),
    "multinomial": lambda t: t.multinomial(-t.ones(3), 1),
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
