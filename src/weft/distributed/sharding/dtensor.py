"""DTensor: a tensor that lies over the ranks of a mesh, of which each rank has a part.

It is a tensor whose memory is this rank's part, and says of itself what is true of the whole. Operations on it are
answered by `__torch_function__`: a rule says what each rank does with its parts (`rules`, `propagation`), parts are
moved as it takes (`redistribute`), and the operation runs on them. What has no rule runs on whole tensors. Backward and
optimizers work on parts: cotangents lie as values do.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager
from typing import Any, NamedTuple, Self

import weft
from weft.autograd import grad as plain_grad
from weft.distributed.collectives.carrier import record
from weft.distributed.collectives.reduction import ReduceOp
from weft.distributed.device_mesh import DeviceMesh, current_mesh, mesh_of
from weft.distributed.placements import Partial, Placement, Replicate, Shard, _StridedShard
from weft.distributed.sharding.layout import (
    MeshLayout,
    Placements,
    first_of,
    need_alike,
    need_both,
    need_group,
    need_placements,
)
from weft.distributed.sharding.propagation import moved, place, place_in, result_layout
from weft.distributed.sharding.redistribute import begun, linear_map, redistribute
from weft.distributed.sharding.rules import RULES, tensors_of, whole
from weft.distributed.sharding.spec import DTensorSpec, TensorMeta
from weft.engine.dispatch.torch_function import disabled
from weft.engine.frontend.tensor import Tensor
from weft.engine.replay.conditions import add_plain_kind
from weft.errors import ArgumentError, ArgumentTypeError, NotDefinedError
from weft.io.saving import FileForm, add_form
from weft.tensor.torch_function.subclasses import as_subclass, members_of_tensor
from weft.utils._pytree import tree_flatten, tree_map, tree_unflatten

Function = Callable[..., Any]
Arguments = tuple[Any, ...]
Named = dict[str, Any]
Outputs = Any  # tensors, or lists of some
_GRAD: Any = Tensor.grad
_DATA: Any = Tensor.data


class DTensor(Tensor):
    """A tensor over a mesh. `shape` is that of the whole; `to_local()` is this rank's part.

    Args:
        part: this rank's part.
        layout: the mesh, the placements, and the shape of the whole, or a `DTensorSpec`.
        requires_grad: whether gradients are wanted. Default: False.

    Example:
        >>> import weft
        >>> import weft.distributed as dist
        >>> from weft.distributed.tensor import DTensor, Replicate, Shard
        >>> dist.init_process_group()
        >>> mesh = dist.init_device_mesh("cpu", (1,))
        >>> x = DTensor.from_local(weft.ones(2, 3), mesh, [Shard(0)])  # this rank's rows
        >>> x.redistribute(mesh, [Replicate()]).to_local().shape
        weft.Size([2, 3])
        >>> dist.destroy_process_group()
    """

    spread: MeshLayout
    gathers: MeshLayout | None = (
        None  # of a parameter that `fully_shard` has: what its ranks share out,
    )
    within: MeshLayout | None = (
        None  # and how it lies once it is gathered, where it lies over other ranks, too
    )
    _is_param = False

    def __new__(
        cls, part: Tensor, layout: MeshLayout | DTensorSpec, requires_grad: bool = False
    ) -> Self:
        made: Self = Tensor._make_subclass(cls, local(part).detach(), requires_grad)
        if isinstance(layout, DTensorSpec):
            layout = MeshLayout(layout.mesh, layout.placements, tuple(layout.shape))
        made.spread = layout
        return made

    @classmethod
    def __torch_function__(
        cls,
        func: Function,
        types: object,
        args: Arguments = (),
        kwargs: Named | None = None,
    ) -> Any:
        """The answer to an operation: by its rule, or on whole tensors."""
        return answer(func, args, kwargs or {})

    # -- what it says of itself ------------------------------------------------------------------------------------

    @property
    def shape(self) -> weft.Size:  # type: ignore[override]
        """The shape of the whole."""
        return weft.Size(self.spread.shape)

    @property
    def ndim(self) -> int:  # type: ignore[override]
        """The number of dimensions."""
        return len(self.spread.shape)

    def size(self, dim: int | None = None) -> Any:  # type: ignore[override]
        """The shape of the whole, or the size of a dimension.

        Args:
            dim: a dimension; None: all.
        """
        return self.shape if dim is None else self.shape[dim]

    def dim(self) -> int:  # type: ignore[override]
        """The number of dimensions."""
        return self.ndim

    def numel(self) -> int:  # type: ignore[override]
        """The number of elements of the whole."""
        return self.shape.numel()

    nelement = numel

    def stride(self, dim: int | None = None) -> Any:  # type: ignore[override]
        """The strides that the whole would have, dense and in row-major order.

        Args:
            dim: a dimension; None: all.
        """
        strides, step = [], 1
        for size in reversed(self.spread.shape):
            strides.append(step)
            step *= max(size, 1)
        found = tuple(reversed(strides))
        return found if dim is None else found[dim]

    def __len__(self) -> int:
        return self.spread.shape[0]

    @property
    def device_mesh(self) -> DeviceMesh:
        """The ranks that it lies over."""
        return self.spread.mesh

    @property
    def placements(self) -> Placements:
        """For each dimension of the mesh, how it holds the tensor."""
        return self.spread.placements

    @property
    def _spec(self) -> DTensorSpec:
        meta = TensorMeta(self.shape, self.stride(), self.dtype)
        return DTensorSpec(self.device_mesh, self.placements, meta)

    @property
    def _local_tensor(self) -> Tensor:
        return local(self)

    @property
    def grad(self) -> Any:  # type: ignore[override]
        """The gradient, which lies as the tensor does."""
        found = _GRAD.__get__(self)
        return None if found is None else wrap(local(found), self.spread.of_cotangents())

    @grad.setter
    def grad(self, value: Tensor | None) -> None:
        laid = None if value is None else _part_like(value, self.spread.of_cotangents())
        _GRAD.__set__(self, laid)

    @grad.deleter
    def grad(self) -> None:
        _GRAD.__delete__(self)

    @property
    def data(self) -> Any:  # type: ignore[override]
        """The tensor without its history."""
        return wrap(local(self).data, self.spread)

    @data.setter
    def data(self, value: Tensor) -> None:
        _DATA.__set__(self, _part_like(value, self.spread))

    # -- parts and wholes ------------------------------------------------------------------------------------------

    def to_local(self, *, grad_placements: Sequence[Placement] | None = None) -> Tensor:
        """This rank's part, as an ordinary tensor. Its cotangents lie as its values do, unless `grad_placements` say
        how.

        Args:
            grad_placements: how the cotangent lies; None: as the values.
        """
        part = local(self)
        if grad_placements is None:
            return part
        layout = self.spread.of_cotangents()
        given = need_placements(grad_placements, layout.mesh, len(layout.shape))
        return linear_map(  # type: ignore[no-any-return]
            part,
            lambda x: x.view_as(x),
            lambda g: redistribute(g, layout._replace(placements=given), layout.placements),
        )

    def full_tensor(self, *, grad_placements: Sequence[Placement] | None = None) -> Tensor:
        """The whole tensor, on each rank; all ranks of the mesh call it.

        Args:
            grad_placements: how the cotangent lies; None: as the values.
        """
        everywhere = [Replicate()] * self.device_mesh.ndim
        whole = self.redistribute(placements=everywhere)
        return begun(whole.to_local(grad_placements=grad_placements))

    def redistribute(
        self,
        device_mesh: DeviceMesh | None = None,
        placements: Sequence[Placement] | None = None,
        *,
        async_op: bool = False,
        forward_dtype: object = None,
        backward_dtype: object = None,
    ) -> DTensor:
        """The same tensor under other placements.

        Args:
            device_mesh: the mesh; None: the one it lies over, or that of all ranks.
            placements: for each dimension of the mesh, how the tensor lies along it; None: as
                now, or replicated.
            async_op: accepted: results are waited for where they are read. Default: False.
            forward_dtype: the dtype in which values travel; None: their own.
            backward_dtype: the dtype in which cotangents travel; None: their own.

        Raises:
            RuntimeError for another mesh.
        """
        if device_mesh is not None and device_mesh != self.device_mesh:
            raise NotDefinedError(
                "redistribute: to another mesh",
                expected=str(self.device_mesh),
                got=str(device_mesh),
                fix="take full_tensor() and distribute that",
            )
        if placements is None:
            raise ArgumentError(
                "redistribute: placements is needed to be specified",
                expected="a placement for each dimension of the mesh",
                got="None",
                fix="pass placements=[Replicate()]",
            )
        found = need_placements(placements, self.device_mesh, self.ndim)
        part = redistribute(local(self), self.spread, found)
        return wrap(part, self.spread._replace(placements=found))

    @staticmethod
    def from_local(
        local_tensor: Tensor,
        device_mesh: DeviceMesh | None = None,
        placements: Sequence[Placement] | None = None,
        *,
        run_check: bool = False,
        shape: Sequence[int] | None = None,
        stride: object = None,
        grad_placements: Sequence[Placement] | None = None,
    ) -> DTensor:
        """A tensor of which each rank gives its part; without `shape` all give as much. Cotangents of parts lie as
        values do, unless `grad_placements` say how. With `run_check` replicated parts become those of the first
        rank.

        Args:
            local_tensor: this rank's part.
            device_mesh: the mesh; None: that of the context, or of all ranks.
            placements: for each dimension of the mesh, how the tensor lies along it; None: as
                now, or replicated.
            run_check: True: ranks compare what they give, and replicated parts become those of the first rank.
                Default: False.
            shape: the shape of the whole; None: all ranks give as much.
            stride: accepted with `shape`; None: in row-major order.
            grad_placements: how the cotangent lies; None: as the values.

        Raises:
            ValueError (and RuntimeError) for a shape without strides, or the reverse; with `run_check` where ranks give
            tensors of different shapes, strides or types.
        """
        device_mesh = current_mesh() if device_mesh is None else device_mesh
        need_both(shape, stride)
        given = [Replicate()] * device_mesh.ndim if placements is None else placements
        found = need_placements(given, device_mesh, local_tensor.ndim)
        layout = MeshLayout(
            device_mesh, found, tuple(shape or _whole_shape(local_tensor, device_mesh, found))
        )
        if run_check:
            need_alike(local_tensor, layout)
            local_tensor = _of_first_ranks(local_tensor, layout)
        if grad_placements is not None:
            laid, lies = (
                layout.of_cotangents(),
                need_placements(grad_placements, device_mesh, local_tensor.ndim),
            )
            local_tensor = linear_map(
                local_tensor, lambda x: x.view_as(x), lambda g: redistribute(g, laid, lies)
            )
        return wrap(local_tensor, layout)

    def like(self, value: object) -> Any:
        """A tensor of the whole shape, or of the shape of this rank's part, that lies as this one; anything else as it
        is.

        Args:
            value: the value.
        """
        shapes = (self.spread.shape, self.spread.local_shape)
        if self.ndim == 0 or not isinstance(value, Tensor) or tuple(value.shape) not in shapes:
            return value
        return self._laid(_part_like(value, self.spread))

    def _laid(self, part: Tensor) -> DTensor:
        """A tensor that lies as this one, of another part."""
        made = DTensor(part, self.spread)
        made.gathers, made.within = self.gathers, self.within
        return made

    def over_ranks(self, value: Tensor, is_largest: bool = False) -> Any:
        """The sum, or the largest, of a value over the ranks that share this tensor out.

        Args:
            value: the value.
            is_largest: True: the largest, not the sum. Default: False.
        """
        op = ReduceOp.MAX if is_largest else ReduceOp.SUM
        for dim, placement in enumerate(self.placements):
            if placement.is_shard():
                value = record("all_reduce", value, need_group(self.spread.group(dim)), op)
        return value

    def everywhere(self, value: Tensor) -> DTensor:
        """A value that all ranks have, as a tensor over the ranks of this one.

        Args:
            value: the value.
        """
        placements = (Replicate(),) * self.device_mesh.ndim
        return wrap(value, MeshLayout(self.device_mesh, placements, tuple(value.shape)))

    @staticmethod
    def sums_of_rows(owners: Sequence[DTensor], rows: Sequence[Tensor]) -> list[Any]:
        """The sum over all rows of each of some tensors that lie alike, of a value for each row of this rank. It is
        taken in the order of rows: the same bits on any number of ranks.

        Args:
            owners: the tensors.
            rows: for each a value for each row of this rank.
        """
        spread = owners[0].spread
        padded = weft.cat([one.spread.padded(own) for one, own in zip(owners, rows, strict=True)])
        if spread.sharded is not None:
            padded = record("all_gather", padded, need_group(spread.group(spread.sharded)))
        table, first, found = padded.reshape(spread.size, -1), 0, []
        for one in owners:
            own = table[:, first : first + one.spread.most_rows].flatten()
            found.append(first_of(own, 0, one.shape[0]).sum())
            first += one.spread.most_rows
        return found

    def register_hook(self, hook: Function) -> Any:  # type: ignore[override]
        """Call a function with the gradient, which lies as the tensor does.

        Args:
            hook: a function of the gradients.
        """
        layout = self.spread.of_cotangents()

        def on_part(grad: Tensor) -> Any:
            found = hook(wrap(grad, layout))
            return None if found is None else _part_like(found, layout)

        return disabled(Tensor.register_hook, (), (self, on_part))

    @property
    def over_ranks_cotangents(self) -> Cotangents:
        """The layout of this tensor's cotangents, for functions that see them as tensors over ranks."""
        return Cotangents(self.spread.of_cotangents())

    def register_post_accumulate_grad_hook(self, hook: Function) -> Any:  # type: ignore[override]
        """Call a function with the tensor once a backward pass has added to its gradient.

        Args:
            hook: a function of the tensor.
        """

        def with_gradient(tensor: DTensor) -> None:
            """Not for parameters of `fully_shard` that no rank has used."""
            if tensor.gathers is None or tensor.grad is not None:
                hook(tensor)

        return disabled(Tensor.register_post_accumulate_grad_hook, (), (self, with_gradient))

    # -- copies ----------------------------------------------------------------------------------------------------

    def detach(self) -> DTensor:  # type: ignore[override]
        """The same tensor, without a gradient."""
        return self._laid(local(self))

    def __deepcopy__(self, memo: dict[int, DTensor]) -> DTensor:  # type: ignore[override]
        if id(self) not in memo:
            copy = DTensor(local(self).detach().clone(), self.spread, self.requires_grad)
            copy._is_param = self._is_param
            memo[id(self)] = copy
        return memo[id(self)]

    def __reduce_ex__(self, protocol: object) -> tuple[Any, ...]:
        """As in PyTorch: this rank's part, and where it belongs."""
        return _made_of, tuple(_parts_of(self))

    def __repr__(self, **options: object) -> str:
        part = repr(local(self))
        return f"DTensor(local_tensor={part}, device_mesh={self.device_mesh}, placements={self.placements})"


class Cotangents(NamedTuple):
    """Cotangents of a tensor over a mesh: as backward passes have them, and as functions of programs see them."""

    layout: MeshLayout

    def laid(self, part: Tensor) -> DTensor:
        """A cotangent over the mesh, of this rank's part."""
        return wrap(local(part), self.layout)

    def part(self, value: Tensor) -> Any:
        """This rank's part of a cotangent: over a mesh, whole, or the part itself."""
        return local(_part_like(value, self.layout))


add_plain_kind(DTensor)


# -- parts -------------------------------------------------------------------------------------------------------------


def local(tensor: Tensor) -> Any:
    """This rank's part as an ordinary tensor with the same history; other tensors as they are."""
    return as_subclass(tensor, Tensor) if isinstance(tensor, DTensor) else tensor


def wrap(part: Tensor, layout: MeshLayout) -> DTensor:
    """The tensor of which this rank has a part, with the history of the part."""
    made: DTensor = as_subclass(part, DTensor)
    made.spread = layout
    return made


def _part_like(value: Tensor, layout: MeshLayout) -> Any:
    """This rank's part of a value in a layout; of ordinary tensors of the whole shape, their part."""
    if isinstance(value, DTensor):
        return redistribute(local(value), value.spread, layout.placements)
    if tuple(value.shape) == layout.shape != layout.local_shape:
        return layout.own_part(value)
    return value


def _whole_shape(part: Tensor, mesh: DeviceMesh, placements: Placements) -> list[int]:
    shape = list(part.shape)
    for dim, placement in enumerate(placements):
        if isinstance(placement, Shard):
            shape[placement.dim] *= mesh.size(dim)
    return shape


def _of_first_ranks(part: Tensor, layout: MeshLayout) -> Any:
    for dim, placement in enumerate(layout.placements):
        if placement.is_replicate():
            part = record("broadcast", part, need_group(layout.group(dim)))
    return part


# -- operations --------------------------------------------------------------------------------------------------------

# What a part answers for the whole.
_OF_PART = (
    "is_floating_point", "is_complex", "is_contiguous", "retain_grad", "requires_grad_", "backward", "element_size",
    "__hash__", "untyped_storage", "is_pinned", "get_device", "is_shared", "data_ptr", "__dlpack_device__",
    "storage_offset", "_is_view",
)  # fmt: skip
_views = {members_of_tensor()[name]: name for name in ("T", "mT", "H", "mH", "real", "imag")}
# Drawn for the whole, so that what ranks draw does not depend on how many there are.
_RANDOM_INTO = (
    "normal_", "uniform_", "random_", "exponential_", "log_normal_", "cauchy_", "geometric_", "bernoulli_",
    # of weft.nn.init, which look at the shape of the whole
    "constant_", "ones_", "zeros_", "eye_", "dirac_", "orthogonal_", "sparse_", "trunc_normal_", "kaiming_normal_",
    "kaiming_uniform_", "xavier_normal_", "xavier_uniform_",
)  # fmt: skip
_RANDOM_LIKE = ("rand_like", "randn_like", "randint_like", "bernoulli")
_DROPOUT = ("dropout", "alpha_dropout", "feature_alpha_dropout")
_SPECIAL = ("add", "sub", "mul", "matmul", "pow", "neg", "abs", "eq", "ne", "lt", "le", "gt", "ge")
_OPERATORS = {
    **{f"__{name}__": name for name in _SPECIAL},
    "__truediv__": "div", "__mod__": "remainder", "__floordiv__": "floor_divide",
    **{f"__i{name}__": f"{name}_" for name in ("add", "sub", "mul", "pow")},
    "__itruediv__": "div_",
}  # fmt: skip


def _copied(func: Function, args: Arguments, kwargs: Named) -> Any:
    """Copy a value into a tensor: of a plain one of the whole shape, its part."""
    target, value, *rest = args
    if not isinstance(target, DTensor):
        return NotImplemented
    local(target).copy_(_part_like(value, target.spread), *rest)
    return target


def _made_like(func: Function, args: Arguments, kwargs: Named) -> Any:
    """A new tensor over the mesh of another: of its shape as it lies, of another one whole on all ranks."""
    source = args[0]
    if not isinstance(source, DTensor):
        return NotImplemented
    given = (kwargs["size"], *args[1:]) if "size" in kwargs else args[1:]
    is_listed = bool(given) and not isinstance(given[0], int)
    shape, rest = (tuple(given[0]), given[1:]) if is_listed else (given, ())
    layout = source.spread.of_cotangents()
    if shape != source.spread.shape:
        everywhere = (Replicate(),) * layout.mesh.ndim
        layout = MeshLayout(layout.mesh, everywhere, shape)
    named = {key: value for key, value in kwargs.items() if key not in ("size", "requires_grad")}
    made = wrap(func(local(source), layout.local_shape, *rest, **named), layout)
    return made.requires_grad_(bool(kwargs.get("requires_grad", False)))


def _made_with_strides(func: Function, args: Arguments, kwargs: Named) -> Any:
    """The same of `new_empty_strided`: a tensor over a mesh is dense."""
    named = {key: value for key, value in kwargs.items() if key != "stride"}
    return _made_like(_new_empty, args[:2], named)


_new_empty: Any = Tensor.new_empty


answers: dict[str, Function] = {  # before rules; NotImplemented where they are to
    "copy_": _copied,
    **dict.fromkeys(("new_empty", "new_full", "new_ones", "new_zeros"), _made_like),
    "new_empty_strided": _made_with_strides,
}


def answer(func: Function, args: Arguments, kwargs: Named) -> Any:
    """The result of an operation on tensors of which some lie over a mesh."""
    name = getattr(func, "__name__", "")
    if name in ("__get__", "__set__", "__delete__"):
        name = _views.get(func.__self__, "")  # type: ignore[attr-defined]
        if not name:
            return disabled(func, (), args, kwargs)
    name = _OPERATORS.get(name, name)
    if name in answers:
        found = answers[name](func, args, kwargs)
        if found is not NotImplemented:
            return found
    if name in _OF_PART or func is plain_grad:
        return _of_parts(func, name, args, kwargs)
    if name in _RANDOM_INTO or name in _RANDOM_LIKE or name in _DROPOUT:
        return _drawn(func, name, args, kwargs)
    writes = name.endswith("_") and not name.endswith("__")
    return _computed(func, name.rstrip("_") if writes else name, writes, args, kwargs)


def _of_parts(func: Function, name: str, args: Arguments, kwargs: Named) -> Any:
    """The answer of this rank's part, and gradients of parts."""
    if func is plain_grad:
        return _gradients(func, args, kwargs)
    if name == "backward":
        seeds = kwargs.pop("gradient", None) if len(args) < 2 else args[1]
        args = (args[0], _seeds(args[0], seeds), *args[2:])
    return disabled(func, (), args, kwargs)


def _gradients(func: Function, args: Arguments, kwargs: Named) -> Any:
    """Gradients, which lie as what they are gradients of."""
    found = disabled(func, (), args, kwargs)
    inputs = tensors_of(args[1] if len(args) > 1 else kwargs["inputs"])
    pairs = zip(found, inputs, strict=True)
    return tuple(g if g is None else _like(local(g), x) for g, x in pairs)


def _like(part: Tensor, x: Tensor) -> Tensor:
    return wrap(part, x.spread.of_cotangents()) if isinstance(x, DTensor) else part


def _seeds(outputs: Outputs, seeds: Outputs) -> Any:
    """The parts of what a backward pass begins with, as those of its outputs lie."""
    if isinstance(outputs, (list, tuple)) and isinstance(seeds, (list, tuple)):
        return [_seeds(one, seed) for one, seed in zip(outputs, seeds, strict=True)]
    if isinstance(outputs, DTensor) and isinstance(seeds, Tensor):
        return _part_like(seeds, outputs.spread.of_cotangents())
    return seeds


def _drawn(func: Function, name: str, args: Arguments, kwargs: Named) -> Any:
    """Random values: drawn for the whole on each rank, which keeps its part."""
    source: Any = args[0]
    if not isinstance(source, DTensor):
        raise _mixed(name)
    layout, part = source.spread, local(source)
    ones = weft.ones(layout.shape, dtype=part.dtype)
    if name in _RANDOM_INTO:
        func(ones, *args[1:], **kwargs)
        with weft.no_grad():
            part.copy_(layout.own_part(ones))
        return source
    if name in _RANDOM_LIKE:
        return wrap(layout.own_part(func(ones, *args[1:], **kwargs)).clone(), layout)
    source = source.redistribute(placements=layout.of_cotangents().placements)
    factors = layout.own_part(func(ones, *args[1:], **{**kwargs, "inplace": False}))
    return wrap(local(source) * factors, source.spread)


def _mixed(name: str) -> ArgumentTypeError:
    return ArgumentTypeError(
        f"{name}: got mixed Tensor and DTensor, need to convert all Tensor to DTensor before calling distributed "
        "operators!",
        expected="tensors that all lie over one mesh",
        got="a plain tensor beside a DTensor, or two meshes",
        fix="distribute_tensor(x, mesh, [Replicate()]), or to_local()",
    )


def _layouts(name: str, tensors: Sequence[Tensor]) -> list[MeshLayout]:
    """The layouts of operands; plain ones of one element are whole everywhere. Errors: TypeError for other plain ones,
    and for tensors of several meshes."""
    mesh = next(x.spread.mesh for x in tensors if isinstance(x, DTensor))
    found = []
    for x in tensors:
        if isinstance(x, DTensor):
            found.append(x.spread)
        else:
            found.append(MeshLayout(mesh, (Replicate(),) * mesh.ndim, tuple(x.shape)))
        is_plain = not isinstance(x, DTensor) and (x.numel() != 1 and not _implicit.allowed)
        if is_plain or found[-1].mesh != mesh:
            raise _mixed(name)
    return found


class _Implicit:
    """A setting: plain tensors count as replicated ones (`implicit_replication`)."""

    allowed = False


_implicit = _Implicit()


@contextmanager
def implicit_replication() -> Iterator[None]:
    """A context in which plain tensors beside distributed ones are taken to be equal on all ranks."""
    before, _implicit.allowed = _implicit.allowed, True
    try:
        yield
    finally:
        _implicit.allowed = before


def _computed(func: Function, name: str, writes: bool, args: Arguments, kwargs: Named) -> Any:
    """The result of an operation by its rule, or on whole tensors where it has none."""
    leaves, tree = tree_flatten((args, kwargs))
    places = [n for n, leaf in enumerate(leaves) if isinstance(leaf, Tensor)]
    tensors = [leaves[n] for n in places]
    layouts = _layouts(name, tensors)
    plan = RULES.get(name, whole)(*args, **kwargs)
    if len(plan.operands) != len(tensors):  # numbers are given as tensors
        plan = whole(*args, **kwargs)
    chosen, placements = place_in(plan, layouts, name) if writes else place(plan, layouts)
    parts = [
        moved(local(x), layout, wanted, placements)
        for x, layout, wanted in zip(tensors, layouts, chosen, strict=True)
    ]
    mesh = layouts[0].mesh
    if name not in RULES:  # it may read memory in order, as `as_strided` does
        parts = [
            part.contiguous() if layout.placements != wanted else part
            for part, layout, wanted in zip(parts, layouts, chosen, strict=True)
        ]
    if plan.call is not None and not writes:
        lie = [layout._replace(placements=p) for layout, p in zip(layouts, chosen, strict=True)]
        made = plan.call(parts, lie, MeshLayout(mesh, placements, plan.shape))
    else:
        for position, part in zip(places, parts, strict=True):
            leaves[position] = part
        given, named = tree_unflatten(leaves, tree)
        made = func(*given, **named)
    if writes:
        return tensors[0]

    def laid(x: object) -> Any:
        if not isinstance(x, Tensor):
            return x
        return wrap(x, result_layout(plan, layouts, placements, mesh, x.shape))

    return tree_map(laid, made)


# -- files -----------------------------------------------------------------------------------------------------------


def _parts_of(tensor: DTensor) -> list[Any]:
    """The plain values of a tensor over a mesh, and this rank's part."""
    mesh = tensor.spread.mesh
    names = None if mesh.mesh_dim_names is None else list(mesh.mesh_dim_names)
    lies = [[type(p).__name__, vars(p)] for p in tensor.placements]
    marks = [tensor.requires_grad, tensor._is_param]
    part = local(tensor).detach().clone()
    return [part, mesh.device_type, mesh.mesh.tolist(), names, lies, list(tensor.shape), *marks]


def _made_of(
    part: Tensor,
    device_type: str,
    ranks: list[int],
    names: list[str] | None,
    lies: list[tuple[str, dict[str, object]]],
    shape: list[int],
    requires_grad: bool,
    is_parameter: bool,
) -> DTensor:
    """The tensor of its parts, over the mesh of these ranks and names: one that the program has, or a new one."""
    mesh = mesh_of(device_type, ranks, names)
    placements = tuple(_PLACEMENTS[name](**options) for name, options in lies)  # type: ignore[arg-type]
    made = DTensor(part, MeshLayout(mesh, placements, tuple(shape)), requires_grad)
    made._is_param = is_parameter
    return made


_PLACEMENTS = {cls.__name__: cls for cls in (Shard, _StridedShard, Replicate, Partial)}
add_form("DTensor", FileForm(DTensor, _parts_of, _made_of))
