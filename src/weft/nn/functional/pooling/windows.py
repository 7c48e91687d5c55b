# ruff: noqa: A001, A002 - PyTorch's names
"""The windows of a pooling call, as views of the input or as tiles of it."""

from __future__ import annotations

import functools
from collections.abc import Sequence
from typing import Any

from weft.engine.frontend.tensor import Tensor
from weft.nn.functional.pooling.arguments import (
    check_elements,
    check_padding,
    check_places,
    check_rank,
    numbers,
)
from weft.ops.any_size import is_for_any_size
from weft.ops.contractions.convolution import windows
from weft.ops.primitives import pad, slice_axis
from weft.tensor.arguments import Shape, is_empty, need_tensor


class Windows:
    """The geometry of a pooling call: what does not depend on values, batch and channels."""

    def __init__(
        self,
        name: str,
        kernel: int | Sequence[int],
        stride: int | Sequence[int] | None,
        padding: int | Sequence[int],
        dilation: int | Sequence[int],
        ceil_mode: bool,
        sizes: Shape,
    ) -> None:
        self.sizes, self.spatial = sizes, len(sizes)
        self.kernel = numbers(name, kernel, self.spatial, "kernel_size")
        self.stride = (
            self.kernel
            if stride is None or is_empty(stride)
            else numbers(name, stride, self.spatial, "stride")
        )
        self.padding = numbers(name, padding, self.spatial, "padding")
        self.dilation = numbers(name, dilation, self.spatial, "dilation")
        check_padding(name, self.padding, self.kernel, self.dilation)
        self.places = tuple([self._outputs(axis, ceil_mode) for axis in range(self.spatial)])
        self._edges = [(width, self._after(axis)) for axis, width in enumerate(self.padding)]
        self._fit = self._tiles()

    def _outputs(self, axis: int, ceil_mode: bool) -> int:
        size, width, step = self.sizes[axis], self.padding[axis], self.stride[axis]
        room = size + 2 * width - self.dilation[axis] * (self.kernel[axis] - 1) - 1
        count = (-(-room // step) if ceil_mode else room // step) + 1
        if ceil_mode and (count - 1) * step >= size + width:
            count -= 1
        return count

    def _after(self, axis: int) -> int:
        """The padding behind, so that every window is whole."""
        span = self.dilation[axis] * (self.kernel[axis] - 1) + 1
        need = (
            (self.places[axis] - 1) * self.stride[axis]
            + span
            - self.sizes[axis]
            - self.padding[axis]
        )
        return max(need, 0)

    @property
    def edges(self) -> list[tuple[int, int]]:
        """The padding before and behind; behind no more than windows reach, unless that depends on sizes."""
        if not is_for_any_size():
            return self._edges
        return [(before, max(before, after)) for before, after in self._edges]

    def views(self, x: Tensor, fill: float) -> Any:
        """(N, C, *places, *kernel) windows of the padded input."""
        if max(map(max, self.edges)) > 0:
            x = pad(x, ((0, 0), (0, 0), *self.edges), fill)
        found = windows(x, self.kernel, self.stride, self.dilation)
        return _cut(found, self.places)

    @property
    def tiles(self) -> bool:
        """True if the windows are disjoint and cover the input exactly."""
        return self._fit and not is_for_any_size()

    def _tiles(self) -> bool:
        rest = [size % step for size, step in zip(self.sizes, self.kernel, strict=True)]
        return (
            self.stride == self.kernel
            and not any((*self.padding, *rest))
            and max(self.dilation) == 1
        )

    def tiled(self, shape: Shape) -> Shape:
        """(N, C, *in) split into (N, C, places, kernel, places, kernel, ...)."""
        split = [size for pair in zip(self.places, self.kernel, strict=True) for size in pair]
        return (*shape[:2], *split)

    def tile_axes(self) -> Shape:
        """The window's dimensions in the tiled shape."""
        return tuple(range(3, 3 + 2 * self.spatial, 2))

    @property
    def geometry(self) -> tuple[Shape, Shape, Shape, Shape, Shape]:
        """The geometry of the windows without their dilation: kernel, stride, padding, input and output sizes."""
        return self.kernel, self.stride, self.padding, self.sizes, self.places

    @property
    def axes(self) -> Shape:
        """The window's dimensions in `views`."""
        return tuple(range(2 + self.spatial, 2 + 2 * self.spatial))


def windows_of(
    name: str,
    input: Tensor,
    kernel: int | Sequence[int],
    stride: int | Sequence[int] | None,
    padding: int | Sequence[int],
    dilation: int | Sequence[int],
    ceil_mode: bool,
    spatial: int,
) -> Windows:
    """The geometry of a call, after its checks. Errors: ShapeError, ArgumentError."""
    need_tensor(name, input)
    check_rank(name, input, spatial)
    sizes = input._shape[-spatial:]
    made = _made(name, *map(_frozen, (kernel, stride, padding, dilation)), bool(ceil_mode), sizes)
    check_elements(name, input, spatial)
    check_places(name, input, made.places, spatial)
    return made


def _frozen(given: int | Sequence[int] | None) -> Any:
    return tuple(given) if isinstance(given, list) else given


def _made(name: str, *geometry: Any) -> Windows:
    """The windows of a geometry, made once where it consists of plain numbers."""
    for part in geometry:
        if type(part) is tuple:
            for size in part:
                if type(size) is not int:
                    return Windows(name, *geometry)
        elif part is not None and type(part) not in (int, bool):
            return Windows(name, *geometry)
    return _known(name, *geometry)


_known = functools.lru_cache(256)(Windows)


def _cut(views: Tensor, places: Shape) -> Any:
    for axis, count in enumerate(places):
        if views._shape[2 + axis] != count:
            views = slice_axis(views, 2 + axis, 0, count)
    return views
