"""NestedTensor: a batch of items of different sizes, as one dense tensor of all their entries and their structure.

The entries of all items stand one after the other in `values` (entries, *uniform sizes), which carries the graph;
`rows` says which belong to which item. Operations are those of dense tensors, by the same names; what each does to
ragged tensors stands in the table of `weft.nested.dispatch`.
"""

from __future__ import annotations

import types
from collections.abc import Callable, Iterator
from typing import Any, NamedTuple

import weft
from weft._typing import Shape
from weft.engine.api.api_function import Public
from weft.engine.dispatch.torch_function import intercept
from weft.engine.frontend.tensor import Tensor
from weft.engine.ir.dtype import DType
from weft.errors import ArgumentTypeError, DimensionError, MissingError, ShapeError, rooted
from weft.nested.rows import RaggedDim, RaggedSize, indices
from weft.tensor.arguments import wrap_dim
from weft.tensor.layout import jagged


class Above(NamedTuple):
    """Modules above this one, whose functions methods call: `weft.nested` binds them, so that imports point down."""

    dispatch: Any
    indexing: Any
    making: Any


_above: Above


def bind(above: Above) -> None:
    """Called once, by the package."""
    global _above
    _above = above


class RaggedShape(tuple[Any, ...]):
    """The shape of a ragged tensor: integers, and j1, j2, ... for ragged dimensions."""

    __slots__ = ()

    def __repr__(self) -> str:
        return rooted(f"weft.Size([{', '.join(map(repr, self))}])")


@intercept
class NestedTensor:
    """A ragged tensor. Made by `weft.nested.nested_tensor` and its like, and by operations on others.

    Args:
        values: the entries of all items, one behind the other.
        rows: which of them belong to which item, by level.
        dims: the dimension that each level describes; None: the first ones after the items'.

    Shapes: dimension 0 counts the items; `dims[k]` is the dimension that `rows.levels[k]` describes; the other
    dimensions are those of `values` after its first, in order.

    Example:
        >>> import weft
        >>> x = weft.nested.nested_tensor([weft.ones(2), weft.ones(3)])
        >>> x.size(0), (x * 2).sum()
        (2, tensor(10.))
    """

    __slots__ = ("_values", "rows", "dims", "__weakref__")

    def __init__(self, values: Any, rows: RaggedDim, dims: tuple[int, ...] | None = None) -> None:
        self._values, self.rows = values, rows
        self.dims = tuple(range(1, rows.depth + 1)) if dims is None else dims
        assert values.shape[0] == rows.total
        assert len(self.dims) == rows.depth

    @classmethod
    def __torch_function__(
        cls,
        function: Callable[..., object],
        types: object,
        args: object = (),
        kwargs: object = None,
    ) -> Any:
        """The result of a dense tensor's function. Errors: NotDefinedError if it has no meaning here."""
        return _above.dispatch.answer(function, args, kwargs or {})

    # -- structure ---------------------------------------------------------------------------------

    @property
    def shape(self) -> RaggedShape:
        """The sizes; a ragged dimension as j1, j2, ..., equal where the lengths are."""
        return RaggedShape(self._size_of(dim) for dim in range(self.ndim))

    def _size_of(self, dim: int) -> Any:
        if dim == 0:
            return self.rows.batch
        if dim in self.dims:
            return self.rows.levels[self.dims.index(dim)].size
        return self._values.shape[self.axis(dim)]

    def size(self, dim: int | None = None) -> Any:
        """The shape, or one size of it.

        Args:
            dim: the dimension; None: all.
        """
        return self.shape if dim is None else self._size_of(self.dimension(dim))

    @property
    def ndim(self) -> int:
        """The number of dimensions, the batch among them."""
        return self.rows.depth + self._values.ndim

    def dim(self) -> int:
        """The number of dimensions, the batch among them."""
        return self.ndim

    def numel(self) -> int:
        """The number of existing elements."""
        return int(self._values.numel())

    def __len__(self) -> int:
        return self.rows.batch

    def dimension(self, dim: int, extra: int = 0) -> int:
        """A dimension counted from the front.

        Args:
            dim: a dimension, from the back if negative.
            extra: how many more dimensions there are, as for a new one. Default: 0.

        Raises:
            IndexError.
        """
        return wrap_dim(dim, self.ndim + extra)

    @property
    def uniform(self) -> tuple[int, ...]:
        """The dimensions that have one size, without the batch: the axes of `values` after the first."""
        return tuple(dim for dim in range(1, self.ndim) if dim not in self.dims)

    def axis(self, dim: int) -> int:
        """The axis of `values` that a uniform dimension is.

        Args:
            dim: a dimension that is not ragged.
        """
        return self.uniform.index(dim) + 1

    @property
    def packed(self) -> Any:
        """All entries, one after the other: (entries, *uniform sizes)."""
        return self._values

    def like(self, values: object) -> NestedTensor:
        """Other entries with this structure.

        Args:
            values: the entries of all rows, joined.
        """
        return NestedTensor(values, self.rows, self.dims)

    def values(self) -> Any:
        """All entries as a dense tensor; the ragged dimension holds those of all items, one after the other."""
        if self.rows.depth == 1 and self.dims[0] != 1:
            return self._values.movedim(0, self.dims[0] - 1)
        return self._values

    def offsets(self, dim: int | None = None) -> Any:
        """The start of each row of a ragged dimension (the first by default), and the end of the last.

        Args:
            dim: the ragged dimension; None: the first.
        """
        return indices(self._level(dim).offsets.copy())

    def lengths(self, dim: int | None = None) -> Any:
        """The length of each row of a ragged dimension, the first by default.

        Args:
            dim: the ragged dimension; None: the first.
        """
        return indices(self._level(dim).lengths)

    def _level(self, dim: int | None) -> RaggedDim:
        dim = self.dims[0] if dim is None else self.dimension(dim)
        if dim not in self.dims:
            raise DimensionError(
                f"dimension {dim} is not ragged",
                expected=f"one of {list(self.dims)}",
                got=str(dim),
                fix="use .size(dim)",
            )
        return self.rows.levels[self.dims.index(dim)]

    def unbind(self, dim: int = 0) -> tuple[Any, ...]:
        """The items, as dense tensors (ragged ones where their rows differ).

        Args:
            dim: 0, the only dimension along which a ragged tensor comes apart. Default: 0.
        """
        if self.dimension(dim) != 0:
            raise DimensionError(
                f"unbind(): only the batch dimension of a ragged tensor can be unbound, not {dim}",
                expected="dim=0",
                got=f"dim={dim}",
                fix="index along the dimension, or pad with to_padded_tensor(value)",
            )
        return _above.indexing.items_of(self)

    def __iter__(self) -> Iterator[Any]:
        return iter(self.unbind())

    def tolist(self) -> list[Any]:
        """The items as nested lists."""
        return [item.tolist() for item in self.unbind()]

    def item(self) -> Any:
        """The only element. Errors: RuntimeError where there are others."""
        return self._values.item()

    def to_padded_tensor(self, padding: float, output_size: Shape | None = None) -> Any:
        """A dense tensor in which short items are filled up. See `weft.nested.to_padded_tensor`.

        Args:
            padding: the number that fills.
            output_size: the sizes of the result; None: those of the longest items.
        """
        return _above.making.to_padded_tensor(self, padding, output_size)

    # -- what it shares with its values ------------------------------------------------------------

    is_nested = True
    layout = jagged

    @property
    def dtype(self) -> Any:
        """The element type."""
        return self._values.dtype

    @property
    def device(self) -> Any:
        """The device of the values."""
        return self._values.device

    @property
    def requires_grad(self) -> bool:
        """True if gradients flow to the values."""
        return bool(self._values.requires_grad)

    @requires_grad.setter
    def requires_grad(self, flag: bool) -> None:
        self._values.requires_grad = flag

    def requires_grad_(self, requires_grad: bool = True) -> NestedTensor:
        """Ask for gradients, or no longer.

        Args:
            requires_grad: whether gradients are wanted. Default: True.
        """
        self._values.requires_grad_(requires_grad)
        return self

    def detach(self) -> NestedTensor:
        """The same values without their graph."""
        return self.like(self._values.detach())

    data = property(detach)

    @property
    def is_leaf(self) -> bool:
        """True if the values are a leaf of the graph."""
        return bool(self._values.is_leaf)

    @property
    def grad_fn(self) -> Any:
        """The record of the operation that gave the values."""
        return self._values.grad_fn

    @property
    def grad(self) -> Any:
        """The gradient of the values, with this structure; None before there is one."""
        found = self._values.grad
        return None if found is None else self.like(found)

    @grad.setter
    def grad(self, gradient: Tensor) -> None:
        self._values.grad = gradient.packed if isinstance(gradient, NestedTensor) else gradient

    def retain_grad(self) -> None:
        """Keep the gradient in `.grad` although this is no leaf."""
        self._values.retain_grad()

    def register_hook(self, hook: Callable[[object], object]) -> Any:
        """Call `hook(grad)` with the ragged gradient; a result replaces it.

        Args:
            hook: a function of the gradient; it returns another one, or None.
        """

        def on_values(gradient: object) -> Any:
            result = hook(self.like(gradient))
            return result.packed if isinstance(result, NestedTensor) else result

        return self._values.register_hook(on_values)

    def backward(self, gradient: object = None, *args: Any, **kwargs: Any) -> None:
        """Gradients of the leaves.

        Args:
            gradient: the cotangent, of this structure; None: an error, since only scalars have
                a default.
            *args: `retain_graph`, `create_graph` and `inputs`, as in `weft.Tensor.backward`.
            **kwargs: the same by name.

        Raises:
            RuntimeError without a `gradient` of this structure.
        """
        if isinstance(gradient, NestedTensor):
            if gradient.shape != self.shape:
                raise ShapeError(
                    f"Mismatch in shape: grad_output has a shape of {list(gradient.shape)} and output has a "
                    f"shape of {list(self.shape)}.",
                    expected=str(list(self.shape)),
                    got=str(list(gradient.shape)),
                    fix="pass a gradient of the same structure",
                )
            gradient = gradient.packed
        self._values.backward(gradient, *args, **kwargs)

    # -- as a Python object ------------------------------------------------------------------------

    def __repr__(self) -> str:
        graph = self._values.grad_fn
        state = f", grad_fn=<{type(graph).__name__}>" if graph is not None else ""
        if not state and self.requires_grad:
            state = ", requires_grad=True"
        sizes = ", ".join(map(repr, self.shape))
        if len(self) == 1:
            sizes += ","
        return f"NestedTensor(size=({sizes}), offsets={self.offsets()!r}{state}, contiguous=True)"

    def __bool__(self) -> bool:
        return bool(self._values)

    def __hash__(self) -> int:
        return id(self)

    def __deepcopy__(self, memo: dict[int, object]) -> NestedTensor:
        from copy import deepcopy

        return self.like(deepcopy(self._values, memo))

    def __reduce__(self) -> Any:
        return (NestedTensor, (self._values, self.rows, self.dims))

    def __array__(self, dtype: DType | None = None, copy: object = None) -> Any:
        raise ArgumentTypeError(
            "a ragged tensor is no array",
            expected="a dense tensor",
            got=f"shape {list(self.shape)}",
            fix="use .values(), .unbind() or .to_padded_tensor(value)",
        )

    def __getattr__(self, name: str) -> Any:
        method = getattr(weft.Tensor, name, None)
        if not name.startswith("_") and isinstance(method, Public):
            return types.MethodType(method, self)
        raise MissingError(
            f"'NestedTensor' object has no attribute '{name}'",
            expected="a method of tensors",
            got=repr(name),
            fix="use .values() for the dense tensor of all entries",
        )

    def __getitem__(self, index: int) -> Any:
        return _above.indexing.get(self, index)

    def __setitem__(self, index: object, new: object) -> None:
        _above.indexing.put(self, index, new)


def size_text(size: int | RaggedSize) -> str:
    """A size in an error: the lengths of a ragged one."""
    return f"{size!r}={list(size.lengths)}" if isinstance(size, RaggedSize) else str(size)


def shape_text(tensor: NestedTensor | Tensor) -> str:
    """A shape in an error, with the lengths of its ragged dimensions."""
    return f"[{', '.join(size_text(size) for size in tensor.shape)}]"


def _operator(name: str, swapped: bool = False) -> Callable[..., Any]:
    def apply(self: NestedTensor, other: int | NestedTensor) -> Any:
        function = getattr(weft, name)
        return function(other, self) if swapped else function(self, other)

    return apply


def _add_operators() -> None:
    pairs = {
        "add": "add", "sub": "sub", "mul": "mul", "truediv": "div", "floordiv": "floor_divide",
        "mod": "remainder", "pow": "pow", "matmul": "matmul", "and": "bitwise_and",
        "or": "bitwise_or", "xor": "bitwise_xor", "lshift": "bitwise_left_shift",
        "rshift": "bitwise_right_shift",
    }  # fmt: skip
    for operator, name in pairs.items():
        setattr(NestedTensor, f"__{operator}__", _operator(name))
        setattr(NestedTensor, f"__r{operator}__", _operator(name, swapped=True))
        if name != "matmul":
            setattr(NestedTensor, f"__i{operator}__", _in_place(name + "_"))
    for name in ("eq", "ne", "lt", "le", "gt", "ge"):
        setattr(NestedTensor, f"__{name}__", _operator(name))
    for operator, name in {
        "neg": "neg",
        "pos": "positive",
        "abs": "abs",
        "invert": "bitwise_not",
    }.items():
        setattr(NestedTensor, f"__{operator}__", lambda self, name=name: getattr(weft, name)(self))


def _in_place(name: str) -> Callable[..., Any]:
    return lambda self, other: getattr(self, name)(other)


_add_operators()
