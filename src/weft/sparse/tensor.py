"""SparseTensor: a tensor of which only some entries are held, by indices and values.

`places` (indexed dimensions, entries) says where, `entries` (entries, *dense sizes) what; both are ordinary tensors,
and `entries` carries the graph. The batch dimensions of a compressed tensor are indexed as its rows and columns are:
they are the first rows of `places`. A SparseTensor is a Tensor by its type, shape and element type, but its handle
shows no memory (`weft.engine.ir.view_transform.SPARSE`): what functions mean here stands in the table of
`weft.sparse.dispatch`.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Iterator
from typing import TYPE_CHECKING, Any, NamedTuple

import weft
from weft import Tensor
from weft._typing import Scalar, Shape
from weft.engine.dispatch.torch_function import intercept
from weft.engine.dispatch.type_names import TYPE_NAMES
from weft.engine.frontend.views import become
from weft.engine.ir.dtype import DType
from weft.engine.ir.view_transform import SPARSE
from weft.errors import (
    ArgumentError,
    ArgumentTypeError,
    DTypeError,
    GradientError,
    NotDefinedError,
    ShapeError,
)
from weft.functional.support import host

if TYPE_CHECKING:
    from weft.tensor.layout import Layout


_blanks: dict[Any, Tensor] = {}  # one number of each type: the memory that handles are made of


class Above(NamedTuple):
    """Modules above this one, whose functions methods call: `weft.sparse` binds them, so that imports point down."""

    compressed: Any
    dispatch: Any
    making: Any
    mixed: Any
    printing: Any
    shaping: Any


_above: Above


def bind(above: Above) -> None:
    """Called once, by the package."""
    global _above
    _above = above


@intercept
class SparseTensor(Tensor, asks=False):
    """A sparse tensor. Made by `weft.sparse_coo_tensor`, `Tensor.to_sparse` and operations on others.

    Args:
        arguments, keywords: those of the functions that make one; programs call these.

    Shapes: batch dimensions, where the layout is compressed; `sparse_dim()` dimensions; those of the values.

    Example:
        >>> import weft
        >>> x = weft.tensor([[0.0, 2.0], [3.0, 0.0]]).to_sparse()
        >>> x.indices(), x.values()
        (tensor([[0, 1],
                [1, 0]]), tensor([2., 3.]))
    """

    places: Tensor
    entries: Tensor
    coalesced: bool
    layout: Any = None
    index_dtype: Any = None  # the type in which the indices of a compressed tensor are shown
    bags: Any = None  # the entries of a matrix by row, once a product has asked for them

    @classmethod
    def __torch_function__(
        cls,
        function: Callable[..., Tensor],
        types: object,
        args: object = (),
        kwargs: object = None,
    ) -> Any:
        """The result of a dense tensor's function. Errors: NotDefinedError if it has no meaning here."""
        return _above.dispatch.answer(function, args, kwargs or {})

    # -- structure ---------------------------------------------------------------------------------

    is_sparse = property(lambda self: self.layout is weft.sparse_coo)
    is_sparse_csr = property(lambda self: self.layout is weft.sparse_csr)

    indexed_dim = property(lambda self: int(self.places.shape[0]))
    batch_dim = property(lambda self: 0 if self.is_sparse else self.indexed_dim - 2)
    entry_count = property(lambda self: int(self.places.shape[1]))

    def sparse_dim(self) -> int:
        """The number of dimensions that are indexed in each batch."""
        return self.indexed_dim - self.batch_dim  # type: ignore[no-any-return]

    def dense_dim(self) -> int:
        """The number of dimensions of the values."""
        return len(self.shape) - self.indexed_dim  # type: ignore[no-any-return]

    def _nnz(self) -> int:
        batches = math.prod(self.shape[: self.batch_dim])
        return self.entry_count // max(batches, 1)  # type: ignore[no-any-return]

    def is_coalesced(self) -> bool:
        """True if the entries are known to be in order, each position once."""
        self._need_coo("is_coalesced")
        return self.coalesced

    def coalesce(self) -> SparseTensor:
        """The entries in order of their places, those of one place added. Cost: reads the indices."""
        self._need_coo("coalesce")
        return _above.making.coalesced(self)

    def indices(self) -> Tensor:
        """The positions of the entries: (sparse dimensions, entries). Errors: RuntimeError before `coalesce()`."""
        self._need_coo("indices")
        self._need_coalesced("indices")
        return self.places

    def values(self) -> Tensor:
        """The entries: (*batch, entries, *dense sizes). Errors: RuntimeError before `coalesce()`, where by
        coordinates."""
        if self.is_sparse:
            self._need_coalesced("values")
        if not self.batch_dim:
            return self.entries.view_as(self.entries)
        return self.entries.reshape(
            *self.shape[: self.batch_dim], self._nnz(), *self.entries.shape[1:]
        )

    def _indices(self) -> Tensor:
        self._need_coo("_indices")
        return self.places

    def _values(self) -> Tensor:
        return self.entries.detach()

    def _coalesced_(self, coalesced: bool) -> SparseTensor:
        self.coalesced = coalesced
        return self

    def crow_indices(self) -> Tensor:
        """The start of each row among the entries, and the end of the last. Errors: RuntimeError unless CSR or BSR."""
        return _above.compressed.part(self, "crow_indices")

    def col_indices(self) -> Tensor:
        """The column of each entry. Errors: RuntimeError unless CSR or BSR."""
        return _above.compressed.part(self, "col_indices")

    def ccol_indices(self) -> Tensor:
        """The start of each column among the entries, and the end. Errors: RuntimeError unless CSC or BSC."""
        return _above.compressed.part(self, "ccol_indices")

    def row_indices(self) -> Tensor:
        """The row of each entry. Errors: RuntimeError unless CSC or BSC."""
        return _above.compressed.part(self, "row_indices")

    def to_dense(self, dtype: DType | None = None, *, masked_grad: bool | None = None) -> Tensor:
        """The dense tensor with zeros where there is no entry.

        Args:
            dtype: the dtype of the result; None: that of the values.
            masked_grad: whether gradients flow to the entries alone; None: True.
        """
        return _above.making.dense(self, dtype)

    def smm(self, mat: Tensor) -> SparseTensor:
        """`weft.smm(self, mat)`.

        Args:
            mat: a dense matrix, (m, k).
        """
        return _above.mixed.smm(self, mat)

    def sspaddmm(
        self, mat1: SparseTensor, mat2: Tensor, *, beta: Scalar = 1, alpha: Scalar = 1
    ) -> SparseTensor:
        """`weft.sspaddmm(self, mat1, mat2)`.

        Args:
            mat1: a sparse matrix, (n, m).
            mat2: a dense matrix, (m, k).
            beta: the factor of this tensor. Default: 1.
            alpha: the factor of the product. Default: 1.
        """
        return _above.mixed.sspaddmm(self, mat1, mat2, beta=beta, alpha=alpha)

    def to_sparse(self, *args: object, **kwargs: object) -> Any:
        """This tensor, in another layout where one is named.

        Args:
            *args: the number of sparse dimensions.
            **kwargs: `layout`, `blocksize` and `dense_dim`, as `weft.Tensor.to_sparse` takes
                them.
        """
        return _above.compressed.to_sparse(self, *args, **kwargs)

    def to_sparse_coo(self) -> SparseTensor:
        """This tensor with an index for each sparse dimension."""
        return self.to_sparse(layout=weft.sparse_coo)  # type: ignore[no-any-return]

    def to_sparse_csr(self, dense_dim: int | None = None) -> SparseTensor:
        """This matrix with compressed rows.

        Args:
            dense_dim: how many of the last dimensions are dense; None: as many as now.
        """
        return self.to_sparse(layout=weft.sparse_csr, dense_dim=dense_dim)  # type: ignore[no-any-return]

    def to_sparse_csc(self, dense_dim: int | None = None) -> SparseTensor:
        """This matrix with compressed columns.

        Args:
            dense_dim: how many of the last dimensions are dense; None: as many as now.
        """
        return self.to_sparse(layout=weft.sparse_csc, dense_dim=dense_dim)  # type: ignore[no-any-return]

    def to_sparse_bsr(self, blocksize: Shape, dense_dim: int | None = None) -> SparseTensor:
        """This matrix in blocks, with compressed rows of them.

        Args:
            blocksize: the rows and columns of a block.
            dense_dim: how many of the last dimensions are dense; None: as many as now.
        """
        return self._in_blocks(weft.sparse_bsr, blocksize, dense_dim)

    def to_sparse_bsc(self, blocksize: Shape, dense_dim: int | None = None) -> SparseTensor:
        """This matrix in blocks, with compressed columns of them.

        Args:
            blocksize: the rows and columns of a block.
            dense_dim: how many of the last dimensions are dense; None: as many as now.
        """
        return self._in_blocks(weft.sparse_bsc, blocksize, dense_dim)

    def _in_blocks(self, layout: Layout, blocksize: Shape, dense_dim: int | None) -> SparseTensor:
        return self.to_sparse(  # type: ignore[no-any-return]
            layout=layout, blocksize=blocksize, dense_dim=dense_dim
        )

    def _need_coo(self, name: str) -> None:
        if self.layout is not weft.sparse_coo:
            raise ArgumentError(
                f"{name} expected sparse coordinate tensor layout but got {layout_name(self)}",
                expected="a tensor of layout weft.sparse_coo",
                got=str(self.layout),
                fix="use crow_indices(), col_indices() and values(), or to_sparse_coo() first",
            )

    def _need_coalesced(self, name: str) -> None:
        if not self.coalesced:
            raise ArgumentError(
                f"Cannot get {name} on an uncoalesced tensor, please call .coalesce() first",
                expected="a coalesced tensor",
                got="one whose entries may be out of order or have a place twice",
                fix=f"use .coalesce().{name}(), or _{name}() for the entries as they are",
            )

    # -- the graph, which the values carry ---------------------------------------------------------

    requires_grad = property(
        lambda self: self.entries.requires_grad,
        lambda self, flag: setattr(self.entries, "requires_grad", flag),
    )
    is_leaf = property(lambda self: self.entries.is_leaf)
    grad_fn = property(lambda self: self.entries.grad_fn)
    retains_grad = property(lambda self: self.entries.retains_grad)

    @property
    def grad(self) -> Any:
        """The gradient of the values, at the same places; None before there is one."""
        found = self.entries.grad
        return None if found is None else gradient_of(self, found)

    @grad.setter
    def grad(self, gradient: Tensor) -> None:
        self.entries.grad = entries_at(self, gradient)

    @grad.deleter
    def grad(self) -> None:
        self.entries.grad = None

    def requires_grad_(self, requires_grad: bool = True) -> SparseTensor:
        """Ask for gradients of the values, or no longer.

        Args:
            requires_grad: whether gradients are wanted. Default: True.
        """
        self.entries.requires_grad_(requires_grad)
        return self

    def detach(self) -> SparseTensor:
        """The same places and values without their graph."""
        return like(self, self.entries.detach())

    data = property(detach)

    def detach_(self) -> SparseTensor:
        """Forget the history of the values."""
        self.entries = self.entries.detach()
        return self

    def retain_grad(self) -> None:
        """Keep the gradient in `.grad` although this is no leaf."""
        self.entries.retain_grad()

    def register_hook(self, hook: Callable[[Any], Any]) -> Any:
        """Call `hook(grad)` with the sparse gradient; a result replaces it.

        Args:
            hook: a function of the gradient; it returns another one, or None.
        """

        def on_values(gradient: Tensor) -> Any:
            result = hook(None if gradient is None else gradient_of(self, gradient))
            return None if result is None else entries_at(self, result)

        return self.entries.register_hook(on_values)

    def backward(self, gradient: Tensor | None = None, *args: Any, **kwargs: Any) -> None:
        """Gradients of the leaves.

        Args:
            gradient: the cotangent, of this structure; None: an error, since only scalars have
                a default.
            *args: `retain_graph`, `create_graph` and `inputs`, as in `weft.Tensor.backward`.
            **kwargs: the same by name.

        Raises:
            RuntimeError without a `gradient`.
        """
        if gradient is None:
            raise GradientError(
                "grad can be implicitly created only for scalar outputs",
                expected="a gradient of this tensor's shape",
                got="none",
                fix="sum to a number first: weft.sparse.sum(x).backward()",
            )
        self.entries.backward(entries_at(self, gradient), *args, **kwargs)

    # -- as a Python object ------------------------------------------------------------------------

    def adopt(self, other: Any) -> SparseTensor:
        """Take over places and values of another of the same shape: what operations in place do.

        Args:
            other: a sparse tensor of this shape.

        Raises:
            ShapeError for another shape; RuntimeError on a leaf that requires a gradient.
        """
        if tuple(other.shape) != tuple(self.shape):
            raise ShapeError(
                f"a sparse tensor of shape {list(self.shape)} cannot take over values of shape {list(other.shape)}",
                expected=f"shape {list(self.shape)}",
                got=str(list(other.shape)),
                fix="use the operation that returns a new tensor",
            )
        if not weft.can_cast(other.dtype, self.dtype):
            types = TYPE_NAMES[other.dtype.name], TYPE_NAMES[self.dtype.name]
            raise DTypeError(
                f"result type {types[0]} can't be cast to the desired output type {types[1]}",
                expected=f"a result of a kind that {self.dtype} holds",
                got=str(other.dtype),
                fix="use the operation that returns a new tensor",
            )
        other = other.to(self.dtype)
        if self.layout is not other.layout:
            other = other.to_sparse(layout=self.layout)
        if self.is_leaf and self.requires_grad and weft.is_grad_enabled():
            raise GradientError(
                "a leaf Variable that requires grad is being used in an in-place operation.",
                expected="a tensor without gradient, or no_grad()",
                got=f"a sparse leaf of shape {list(self.shape)}",
                fix="use the operation that returns a new tensor",
            )
        self.places, self.entries, self.coalesced = other.places, other.entries, other.coalesced
        self.index_dtype, self.bags = other.index_dtype, None
        return self

    def __repr__(self) -> str:
        return _above.printing.text(self)

    def __format__(self, spec: str) -> str:
        return format(repr(self), spec)

    def __hash__(self) -> int:
        return id(self)

    def __len__(self) -> int:
        return int(self.shape[0]) if self.shape else int(self.entries.shape[0])

    def __iter__(self) -> Iterator[Any]:
        return (self[number] for number in range(len(self)))

    def __getitem__(self, index: int) -> Any:
        return _above.shaping.get(self, index)

    def __setitem__(self, index: object, new: object) -> None:
        error = no_memory(self)
        raise ArgumentTypeError(
            "Cannot assign to a sparse tensor",
            expected=error.expected,
            got=error.got,
            fix=error.fix,
        )

    def __deepcopy__(self, memo: dict[int, object]) -> SparseTensor:
        from copy import deepcopy

        return like(self, deepcopy(self.entries, memo))

    def __reduce_ex__(self, protocol: object) -> Any:
        shape, names = tuple(self.shape), (self.layout.name, self.index_dtype.name)
        return rebuilt, (self.places, self.entries, shape, self.coalesced, *names)

    def __array__(self, dtype: DType | None = None, copy: object = None) -> Any:
        raise ArgumentTypeError(
            "can't convert Sparse layout tensor to numpy. Use Tensor.to_dense() first.",
            expected="a dense tensor",
            got=f"a sparse one of shape {list(self.shape)}",
            fix="use .to_dense(), or .values() for the entries",
        )

    def __dlpack__(self, **keywords: object) -> Any:
        return self.__array__()

    @property
    def nbytes(self) -> int:
        """Errors: RuntimeError; there is no one memory."""
        raise NotDefinedError(
            "nbytes is not defined for sparse tensors.",
            expected="a dense tensor",
            got=f"a sparse one of shape {list(self.shape)}",
            fix="add those of .indices() and .values()",
        )

    T = property(lambda self: weft.permute(self, tuple(reversed(range(len(self.shape))))))
    mT = property(lambda self: weft.transpose(self, -2, -1))
    real = property(lambda self: like(self, self.entries.real))
    imag = property(lambda self: like(self, self.entries.imag))


def layout_name(tensor: SparseTensor) -> str:
    """The layout of a tensor as PyTorch's messages spell it."""
    return layout_text(tensor.layout.name)


def layout_text(name: str) -> str:
    """A layout as PyTorch's messages spell it: Sparse, SparseCsr, Strided."""
    return "".join(word.capitalize() for word in name.removesuffix("_coo").split("_"))


def handle(shape: tuple[int, ...], dtype: DType) -> SparseTensor:
    """A handle of a shape and type that shows nothing yet."""
    blank = _blanks.get(dtype)
    if blank is None:
        blank = _blanks[dtype] = host.from_numpy(0, dtype)
    made: SparseTensor = Tensor.__new__(SparseTensor)
    become(made, blank.expand(shape))
    made.view_transform, made.strides = SPARSE, None
    return made


def make(
    places: Tensor,
    entries: Tensor,
    shape: Any,
    coalesced: bool = False,
    layout: Layout | None = None,
    index_dtype: DType | None = None,
) -> SparseTensor:
    """A sparse tensor of parts that are known to fit; with less than two entries it is coalesced.

    Shapes: (indexed dimensions, entries), (entries, *dense sizes) -> shape.
    """
    made = handle(tuple(shape), entries.dtype)
    made.places, made.entries = places, entries
    made.coalesced = coalesced or entries._shape[0] < 2
    made.layout = weft.sparse_coo if layout is None else layout
    made.index_dtype = weft.int64 if index_dtype is None else index_dtype
    return made


def like(tensor: SparseTensor, entries: Tensor, shape: Any = None) -> SparseTensor:
    """Other values at the same places."""
    shape = tensor.shape if shape is None else shape
    return make(tensor.places, entries, shape, tensor.coalesced, tensor.layout, tensor.index_dtype)


def rebuilt(
    places: Tensor,
    entries: Tensor,
    shape: tuple[int, ...],
    coalesced: bool,
    layout: str,
    index_dtype: str = "int64",
) -> SparseTensor:
    """Rebuild a sparse tensor; unpickling calls it."""
    names = getattr(weft, layout), getattr(weft, index_dtype)
    return make(places, entries, shape, coalesced, *names)


def entries_at(tensor: SparseTensor, other: Any) -> Any:
    """The values that a tensor of the same shape has at the places of this one. Errors: RuntimeError on others."""
    if isinstance(other, SparseTensor) and other.places is tensor.places:
        return other.entries
    if other is None:
        return None
    return _above.making.sparse_mask(other.to_dense(), tensor).entries


def gradient_of(tensor: SparseTensor, entries: Tensor) -> SparseTensor:
    """The gradient of a sparse tensor, from those of its entries: the entries of one place, which are added up
    wherever the tensor is used, have the gradient of that place, and it counts once."""
    if tensor.coalesced or not tensor.is_sparse:
        return like(tensor, entries)
    return _above.making.first_of_places(like(tensor, entries))  # type: ignore[no-any-return]


def no_memory(tensor: SparseTensor) -> NotDefinedError:
    """The error of writing into, or viewing, what has no memory of its own."""
    return NotDefinedError(
        "a sparse tensor has no memory that could be written to, or viewed, element by element",
        expected="a dense tensor",
        got=f"a sparse one of shape {list(tensor._shape)}",
        fix="use .to_dense(), or make a new one of changed indices and values",
    )


def shown(tensor: SparseTensor) -> Tensor:
    """The dense value of a sparse tensor, for operations below the border. Errors: NotDefinedError where that would
    lose the gradient."""
    if not isinstance(tensor, SparseTensor):
        raise no_memory(tensor)
    if tensor.entries.requires_grad and weft.is_grad_enabled():
        raise NotDefinedError(
            "this operation is not differentiable with respect to a sparse tensor",
            expected="a dense tensor, or a sparse one that needs no gradient",
            got=f"a sparse one of shape {list(tensor.shape)} that requires a gradient",
            fix="use .to_dense() first",
        )
    return tensor.to_dense()


def _operator(name: str, swapped: bool = False) -> Callable[..., Any]:
    def apply(self: SparseTensor, other: Tensor | int) -> Any:
        function = getattr(weft, name)
        return function(other, self) if swapped else function(self, other)

    return apply


def _in_place(name: str) -> Callable[..., Any]:
    return lambda self, other: self.adopt(getattr(weft, name)(self, other))


def _add_operators() -> None:
    pairs = {
        "add": "add", "sub": "sub", "mul": "mul", "truediv": "div", "floordiv": "floor_divide",
        "mod": "remainder", "pow": "pow", "matmul": "matmul", "and": "bitwise_and",
        "or": "bitwise_or", "xor": "bitwise_xor",
    }  # fmt: skip
    for operator, name in pairs.items():
        setattr(SparseTensor, f"__{operator}__", _operator(name))
        setattr(SparseTensor, f"__r{operator}__", _operator(name, swapped=True))
        setattr(SparseTensor, f"__i{operator}__", _in_place(name))
    for name in ("eq", "ne", "lt", "le", "gt", "ge"):
        setattr(SparseTensor, f"__{name}__", _operator(name))
    for operator, name in {"neg": "neg", "pos": "positive", "abs": "abs"}.items():
        setattr(SparseTensor, f"__{operator}__", lambda self, name=name: getattr(weft, name)(self))


_add_operators()
