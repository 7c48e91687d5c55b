# ruff: noqa: A001, A002 - PyTorch's names
"""Views as copies, and copies with a view replaced: `narrow_copy`, `select_scatter` and their like; splits by axis;
views that a tensor becomes itself (`unsqueeze_`).
"""

from __future__ import annotations

import inspect
from collections.abc import Callable, Sequence
from typing import TYPE_CHECKING, Any

from weft._typing import TensorLike
from weft.engine.api.api_function import publish
from weft.engine.frontend.inplace import check_in_place
from weft.engine.frontend.resolve import edge_for, set_edge
from weft.engine.frontend.tensor import Tensor
from weft.engine.frontend.views import NORMAL, replace_value
from weft.errors import DimensionError, IndexRangeError, ShapeError
from weft.functional.shape import slicing, view_transforms, views
from weft.functional.shape.strided_regions import as_strided
from weft.functional.support.variants import give_all, named, write_out
from weft.ops.primitives import elementwise as call
from weft.tensor.arguments import describe, need_rank, need_tensor, wrap_dim
from weft.tensor.layout import channels_last, channels_last_3d, contiguous_format, preserve_format

if TYPE_CHECKING:
    from weft.tensor.layout import MemoryFormat


# -- copies ------------------------------------------------------------------------------------------------------------


def _copied(x: Any) -> Any:
    made = call("clone", x)
    made.strides = None
    return made


def _copying(name: str, function: Callable[..., object]) -> Any:
    """The function of a view, with a copy of what it shows."""

    def copy(
        input: Tensor, *arguments: object, out: Tensor | None = None, **keywords: object
    ) -> Any:
        result = function(need_tensor(name, input), *arguments, **keywords)
        if isinstance(result, tuple):
            made = tuple([_copied(part) for part in result])
            return made if out is None else give_all(out, made)
        return _copied(result) if out is None else write_out(out, _copied(result))

    copy.__signature__ = _with_out(inspect.signature(function))  # type: ignore[attr-defined]
    return named(copy, name, f"`{name.removesuffix('_copy')}` as a copy.")


def _with_out(signature: inspect.Signature) -> inspect.Signature:
    out = inspect.Parameter("out", inspect.Parameter.KEYWORD_ONLY, default=None)
    return signature.replace(parameters=[*signature.parameters.values(), out])


def _slice(
    input: Tensor, dim: int = 0, start: int | None = None, end: int | None = None, step: int = 1
) -> Any:
    """The elements from start to end along a dimension, as a view."""
    need_rank("slice", input, 1)
    index: list[Any] = [slice(None)] * len(input._shape)
    index[wrap_dim(dim, len(input._shape))] = slice(start, end, step)
    return input[tuple(index)]


def _alias(input: Tensor) -> Any:
    return views.view(input, input._shape)


alias_copy = _copying("alias_copy", _alias)
as_strided_copy = _copying("as_strided_copy", as_strided)
detach_copy = _copying("detach_copy", lambda input: input.detach())
diagonal_copy = _copying("diagonal_copy", slicing.diagonal)
expand_copy = _copying(
    "expand_copy", lambda input, size, *, implicit=False: views.expand(input, size)
)


def _narrowed(input: Tensor, dim: int, start: int, length: int) -> Any:
    if length < 0:
        raise ShapeError(
            f"start ({start}) + length ({length}) exceeds dimension size ({input._shape[dim]}).",
            expected="length >= 0",
            got=str(length),
            fix="swap start and end",
        )
    try:
        return slicing.narrow(input, dim, start, length)
    except DimensionError as error:  # a RuntimeError in PyTorch, unlike that of the view
        raise IndexRangeError(
            str(error).split(", called at")[0],
            expected=f"a dimension of a tensor of rank {len(input._shape)}",
            got=str(dim),
            fix="check the tensor's rank",
        ) from None


view_as_complex_copy = _copying("view_as_complex_copy", view_transforms.view_as_complex)
view_as_real_copy = _copying("view_as_real_copy", view_transforms.view_as_real)
narrow_copy = _copying("narrow_copy", _narrowed)
permute_copy = _copying("permute_copy", views.permute)
select_copy = _copying("select_copy", slicing.select)
slice_copy = _copying("slice_copy", _slice)
split_copy = _copying("split_copy", slicing.split)
split_with_sizes_copy = _copying("split_with_sizes_copy", slicing.split)
squeeze_copy = _copying("squeeze_copy", views.squeeze)
t_copy = _copying("t_copy", views.t)
transpose_copy = _copying("transpose_copy", views.transpose)
unbind_copy = _copying("unbind_copy", slicing.unbind)
unfold_copy = _copying("unfold_copy", slicing.unfold)
unsqueeze_copy = _copying("unsqueeze_copy", views.unsqueeze)
view_copy = _copying("view_copy", views.view)


def _in_place_of(name: str, function: Callable[..., Any]) -> Any:
    """The function of a view under the name of what shares memory without saying so."""

    def shared(
        input: Tensor, *arguments: int | list[int], out: Tensor | None = None, **keywords: object
    ) -> Any:
        made = function(need_tensor(name, input), *arguments, **keywords)
        for part in made:
            part.creation = NORMAL  # each may be written, unlike one of several views
        return made if out is None else give_all(out, made)

    shared.__signature__ = _with_out(inspect.signature(function))  # type: ignore[attr-defined]
    about = f"`{name.removeprefix('unsafe_')}`; what is written into a part is seen in the whole."
    return named(shared, name, about)


unsafe_split = _in_place_of("unsafe_split", slicing.split)
unsafe_split_with_sizes = _in_place_of("unsafe_split_with_sizes", slicing.split)
unsafe_chunk = _in_place_of("unsafe_chunk", slicing.chunk)


# -- a copy with another part ------------------------------------------------------------------------------------------


def _with(
    name: str, input: Tensor, src: Tensor, view: Callable[..., Tensor], out: Tensor | None = None
) -> Any:
    """A copy of a tensor in which a view of it shows `src`. Errors: ShapeError on another shape."""
    need_tensor(name, input)
    need_tensor(name, src, "src", 2)
    made = call("clone", input)
    region = view(made)
    if region._shape != src._shape:
        raise ShapeError(
            f"expected src to have a size equal to the slice of self. src size = {list(src._shape)}, slice size = "
            f"{list(region._shape)}",
            expected=f"src of shape {list(region._shape)}",
            got=describe("src", src),
            fix="reshape or expand src",
        )
    region.copy_(src)
    return made if out is None else write_out(out, made)


def select_scatter(
    input: Tensor, src: Tensor, dim: int, index: int, *, out: Tensor | None = None
) -> Any:
    """A copy in which one index along a dimension is replaced."""
    return _with("select_scatter", input, src, lambda x: slicing.select(x, dim, index), out)


def slice_scatter(
    input: Tensor,
    src: Tensor,
    dim: int = 0,
    start: int | None = None,
    end: int | None = None,
    step: int = 1,
    *,
    out: Tensor | None = None,
) -> Any:
    """A copy in which a slice along a dimension is replaced."""
    return _with("slice_scatter", input, src, lambda x: _slice(x, dim, start, end, step), out)


def diagonal_scatter(
    input: Tensor,
    src: Tensor,
    offset: int = 0,
    dim1: int = 0,
    dim2: int = 1,
    *,
    out: Tensor | None = None,
) -> Any:
    """A copy in which a diagonal is replaced."""
    return _with(
        "diagonal_scatter", input, src, lambda x: slicing.diagonal(x, offset, dim1, dim2), out
    )


def as_strided_scatter(
    input: Tensor,
    src: Tensor,
    size: Sequence[int],
    stride: Sequence[int],
    storage_offset: int | None = None,
    *,
    out: Tensor | None = None,
) -> Any:
    """A copy in which a region of given strides is replaced."""
    return _with(
        "as_strided_scatter", input, src, lambda x: as_strided(x, size, stride, storage_offset), out
    )


# -- splits ------------------------------------------------------------------------------------------------------------


def split_with_sizes(input: Tensor, split_sizes: Sequence[int], dim: int = 0) -> Any:
    """Pieces of given sizes along a dimension, as views."""
    return slicing.split(input, list(split_sizes), dim)


def _split_along(name: str, least: int, input: Tensor, cuts: int | list[int], dim: int) -> Any:
    need_tensor(name, input)
    if len(input._shape) < least:
        raise ShapeError(
            f"torch.{name} requires a tensor with at least {least} dimension, but got a tensor with "
            f"{len(input._shape)} dimensions!",
            expected=f"at least {least} dimensions",
            got=describe("input", input),
            fix="use tensor_split with dim=",
        )
    size = input._shape[dim]
    if isinstance(cuts, int) and (cuts <= 0 or size % cuts):
        raise ShapeError(
            f"torch.{name} attempted to split along dimension {dim}, but the size of the dimension {size} is not "
            f"divisible by the split_size {cuts}!",
            expected=f"a divisor of {size}",
            got=str(cuts),
            fix="use tensor_split, which allows uneven pieces",
        )
    return slicing.tensor_split(input, cuts, dim)


def _cuts(given: tuple[int | list[int], ...], keywords: dict[str, object]) -> Any:
    """One number or sequence, under any of its names, or several numbers."""
    if keywords:
        return next(iter(keywords.values()))
    return given[0] if len(given) == 1 else given


def hsplit(input: Tensor, *indices_or_sections: int | list[int], **keywords: object) -> Any:
    """Pieces along the second dimension (the first of a vector), as views."""
    need_tensor("hsplit", input)
    dim = 1 if len(input._shape) > 1 else 0
    return _split_along("hsplit", 1, input, _cuts(indices_or_sections, keywords), dim)


def vsplit(input: Tensor, *indices_or_sections: int | list[int], **keywords: object) -> Any:
    """Pieces along the first dimension, as views."""
    return _split_along("vsplit", 2, input, _cuts(indices_or_sections, keywords), 0)


def dsplit(input: Tensor, *indices_or_sections: int | list[int], **keywords: object) -> Any:
    """Pieces along the third dimension, as views."""
    return _split_along("dsplit", 3, input, _cuts(indices_or_sections, keywords), 2)


# -- a tensor becomes a view of itself ---------------------------------------------------------------------------------


def _becoming(name: str, function: Callable[..., Tensor]) -> Any:
    """The in-place form of a view: the tensor shows its memory otherwise from now on."""

    def become(input: Tensor, *arguments: object, **keywords: object) -> Any:
        check_in_place(input)
        made = function(input, *arguments, **keywords)
        edge = edge_for(made) if made.requires_grad else None
        replace_value(input, made)
        if edge is not None:
            set_edge(input, edge)
        return input

    become.__signature__ = inspect.signature(function)  # type: ignore[attr-defined]
    return named(
        become, f"{name}_", f"`{name}`, in place: the tensor has another shape afterwards."
    )


squeeze_ = _becoming("squeeze", views.squeeze)
unsqueeze_ = _becoming("unsqueeze", views.unsqueeze)
transpose_ = _becoming("transpose", views.transpose)
swapaxes_ = _becoming("swapaxes", views.swapaxes)
swapdims_ = _becoming("swapdims", views.transpose)
t_ = _becoming("t", views.t)
as_strided_ = _becoming("as_strided", as_strided)


_FORMATS = (contiguous_format, channels_last, channels_last_3d)


def resize_as_(
    input: Tensor, the_template: Tensor, *, memory_format: MemoryFormat | None = None
) -> Any:
    """`resize_` to the shape of another tensor, laid out as it is for preserve_format."""
    if memory_format is preserve_format:
        memory_format = next(
            (form for form in _FORMATS if the_template.is_contiguous(memory_format=form)), None
        )
    return input.resize_(the_template._shape, memory_format=memory_format)


def __rdiv__(self: Tensor, other: TensorLike) -> Any:
    """other / self."""
    return Tensor.__rtruediv__(self, other)


publish(globals())
