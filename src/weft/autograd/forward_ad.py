"""Forward mode: dual tensors, whose tangents go along with every operation.

`make_dual` takes primals and tangents, `unpack_dual` gives tangents. A tangent belongs to a value, that is to a node:
so it passes through views, in-place operations and no_grad without any rule for them. The rule of a node is the
transpose of its derivative rule, which is linear in the cotangent: the derivative of the pulled-back cotangents by the
cotangent. So every differentiable operation has one, and levels nest: while a level computes its tangents only the
levels around it are open. Cost: recording an operation on duals costs a small reverse walk; what it records for that
and is not needed never runs.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import TYPE_CHECKING, Any, NamedTuple

from weft._typing import Shape
from weft.autograd.backward import grad
from weft.autograd.custom.context import pushing
from weft.autograd.custom.jvp import (
    check_memory,
    checked_tangents,
    tangents_for,
    transposing,
    versions_of,
)
from weft.engine.api.api_function import publish
from weft.engine.backward.apply_vjp import vjp_for
from weft.engine.backward.saved_tensor_hooks import pack_node
from weft.engine.frontend.recorder import cast
from weft.engine.frontend.resolve import value_of
from weft.engine.frontend.tensor import Tensor
from weft.engine.frontend.tensor_lifecycle import wrap_node
from weft.engine.frontend.views import handle_of_storage, logical_strides, replace_value
from weft.engine.ir import tape as tapes
from weft.engine.ir.tape import watch_records
from weft.errors import (
    ArgumentError,
    ArgumentTypeError,
    GradientError,
    NoTensorError,
    ShapeError,
    class_name,
)
from weft.ops.primitives import elementwise, full, put

if TYPE_CHECKING:
    from weft.autograd.custom.context import FunctionCtx
    from weft.engine.ir.node import Node
    from weft.engine.ir.primitive import Primitive


class UnpackedDualTensor(NamedTuple):
    """The primal and the tangent of a dual tensor; the tangent is None if there is none.

    Args:
        primal: the value.
        tangent: its tangent, or None.
    """

    primal: Any
    tangent: Any


class Level:
    """One level of forward mode: the tangents of the values that depend on its duals."""

    def __init__(self, outer: tuple[Level, ...]) -> None:
        self.outer, self.number = outer, len(outer)
        self.tangents: dict[Any, Any] = {}

    @staticmethod
    def follow_all(node: Node | _Composite) -> None:
        """Give a new node its tangents at all open levels."""
        _follow_at(_levels(), node)

    def follow(self, node: Node | _Composite, inputs: tuple[Node, ...], tracked: bool) -> None:
        """Give a new node its tangent, with a history of its own where gradients are on."""
        tangents = [self.tangents.get(source) for source in inputs]
        if any(tangent is not None for tangent in tangents) and node.op.differentiable:
            target = node if node.result is None else node.result
            if target.dtype.category >= 2:
                self.tangents[target] = transposed(node, inputs, tangents, tracked)


_open: list[Level] = []  # of all threads


def follow_moved(node: Node) -> None:
    """Give a value that has been put into memory order the tangents of what it was made of: also at levels that are
    computing just now, and are closed to what is recorded for that."""
    _follow_at([level for level in _open if node not in level.tangents], node)


def _follow_at(levels: Sequence[Level], node: Node | _Composite) -> None:
    """Give a node its tangents at levels, the innermost first."""
    inputs = node.inputs or ()
    for level in reversed(levels):
        if any(source in level.tangents for source in inputs):
            with _Inside(level.outer) as tracked:
                level.follow(node, inputs, tracked)


class _Composite(NamedTuple):
    """A composite whose gradient nobody records, as far as its tangent needs it."""

    op: Any
    inputs: tuple[Any, ...]
    params: Any
    result: Any
    shape: tuple[int, ...]
    dtype: Any
    edges: Any = None


def follow_composite(
    op: Primitive, tensors: tuple[Tensor, ...], params: tuple[float | Shape, ...], result: Tensor
) -> None:
    """Give the result of a composite the tangent of its own rule, in place of that of its parts."""
    inputs = tuple(value_of(tensor) for tensor in tensors)
    node = _Composite(op, inputs, params, value_of(result), result._shape, result.dtype)
    Level.follow_all(node)


class _Inside:
    """Only some levels open, no hooks on saves, gradients on: where a level computes its tangents."""

    def __init__(self, levels: tuple[Level, ...]) -> None:
        self.levels = levels or None

    def __enter__(self) -> bool:
        mode = tapes.tape().mode
        self.previous = (mode.duals, mode.saved_hooks, mode.grad, mode.walk)
        mode.duals, mode.saved_hooks, mode.grad = self.levels, None, True
        mode.walk = mode.walk or -1  # walks in here are inside another, or as if
        return bool(self.previous[2])

    def __exit__(self, *exc: object) -> None:
        mode = tapes.tape().mode
        mode.duals, mode.saved_hooks, mode.grad, mode.walk = self.previous


def transposed(
    node: Any, inputs: tuple[Node, ...], tangents: list[Tensor | None], tracked: bool
) -> Any:
    """The tangent of a node: its derivative rule, transposed. What is recorded here may make the node run, which then
    forgets its inputs."""
    seed = full(tuple(node.shape), 0, node.dtype).detach()
    seed.requires_grad = True
    edges = node.edges or (None,) * len(inputs)
    saved = [wrap_node(source, edge) for source, edge in zip(inputs, edges, strict=True)]
    value = node if node.result is None else node.result
    result = wrap_node(value, node if node.edges is not None else None)
    shapes = tuple(tuple(source.shape) for source in inputs)
    shape = tuple(node.shape)
    with transposing():
        wanted = tuple(tangents)
        pulled = vjp_for(node.op, seed, node.params, shapes, shape, saved, result, wanted)
    parts = [
        None if part is None else cast(part, source.dtype)
        for part, source in zip(pulled, inputs, strict=True)
    ]
    history = node.edges is not None or any(t is not None and t.requires_grad for t in tangents)
    found = along(parts, tangents, seed, tracked and history)
    return found if tracked else found.detach()


def along(
    parts: list[Tensor | None], tangents: list[Tensor | None], seed: Tensor, create: bool
) -> Any:
    """The derivative of pulled-back cotangents by the cotangent, in the direction of tangents."""
    pairs = [
        (part, tangent)
        for part, tangent in zip(parts, tangents, strict=True)
        if part is not None and tangent is not None and part.requires_grad
    ]
    if not pairs:
        return full(seed._shape, 0, seed.dtype)
    (found,) = grad(
        [pair[0] for pair in pairs],
        (seed,),
        [pair[1] for pair in pairs],
        retain_graph=True,
        create_graph=create,
        allow_unused=True,
    )
    return full(seed._shape, 0, seed.dtype) if found is None else found


def tangents_before(arguments: tuple[object, ...]) -> list[list[Any]]:
    """The tangents of arguments at each level, before a `forward` that may change them in place."""
    return [
        [tangent_of(a, level) if isinstance(a, Tensor) else None for a in arguments]
        for level in _levels()
    ]


def push_function(
    cls: Any,
    ctx: FunctionCtx,
    arguments: tuple[object, ...],
    before: list[list[object]],
    outputs: Tensor | tuple[Tensor, ...],
) -> None:
    """Give the results of a custom Function the tangents that its `jvp` says, at each level.

    Errors: NotImplementedError where an argument is dual and there is no `jvp`.
    """
    levels = _levels()
    results = outputs if isinstance(outputs, tuple) else (outputs,)
    types = [(a._shape, a.dtype) if isinstance(a, Tensor) else None for a in arguments]
    for index, level in enumerate(levels):  # an inner tangent has the outer ones of what was saved
        tangents = before[index]
        if all(tangent is None for tangent in tangents):
            continue
        versions = versions_of(tangents)
        with _Inside(levels[:index]) as tracked, pushing(ctx):
            tapes.tape().mode.grad = tracked
            found = cls.jvp(ctx, *tangents_for(ctx, types, tangents))
        parts = list(found) if isinstance(found, (tuple, list)) else [found]
        kinds = [(r._shape, r.dtype) if isinstance(r, Tensor) else None for r in results]
        parts = checked_tangents(cls, parts, kinds)
        check_memory(ctx, arguments, tangents, versions, results, parts)
        for result, tangent in zip(results, parts, strict=True):
            if isinstance(result, Tensor):
                level.tangents.pop(value_of(result), None)
                if tangent is not None:
                    level.tangents[value_of(result)] = tangent


# -- levels ------------------------------------------------------------------------------------------------------------


def _levels() -> tuple[Level, ...]:
    return tapes.tape().mode.duals or ()


def enter_dual_level() -> int:
    """Open a level; its number. Levels nest."""
    levels = _levels()
    level = Level(levels)
    tapes.tape().mode.duals = (*levels, level)
    _open.append(level)
    watch_records(pack_node, 1)
    return len(levels)


def exit_dual_level(*, level: int | None = None) -> None:
    """Close the innermost level: its tangents go.

    Args:
        level: the level that ends, which is the innermost; None: that one.

    Raises:
        RuntimeError where another is named, or none is open.
    """
    levels = _levels()
    if not levels and level is None:
        raise GradientError(
            "Dual level must be a positive number.",
            expected="an open level",
            got="none is open",
            fix="close each level once, or write `with dual_level():`",
        )
    if not levels or (level is not None and level != levels[-1].number):
        raise GradientError(
            "Trying to exit a forward AD level that was not the last one that was created. This is not supported.",
            expected="no level" if not levels else f"level={levels[-1].number}",
            got=f"level={level}",
            fix="close the innermost level first",
        )
    levels[-1].tangents.clear()
    _open.remove(levels[-1])
    tapes.tape().mode.duals = levels[:-1] or None
    watch_records(pack_node, -1)


class dual_level:  # noqa: N801 - PyTorch's name
    """A level of forward mode, as a context."""

    def __enter__(self) -> int:
        self.level = enter_dual_level()
        return self.level

    def __exit__(self, *exc: object) -> None:
        exit_dual_level(level=self.level)


def _level_of(level: int | None, what: str) -> Level | None:
    levels = _levels()
    if not levels:
        return None
    number = levels[-1].number if level is None else level
    if not 0 <= number < len(levels):
        raise GradientError(
            f"{what}: there is no forward AD level {number}",
            expected=f"0 to {len(levels) - 1}",
            got=str(level),
            fix="enter dual_level() first",
        )
    return levels[number]


def need_inexact(what: str, given: Tensor) -> None:
    """Errors: ArgumentError for a primal or tangent of integers."""
    if given.dtype.category < 2:
        raise ArgumentError(
            f"Expected {what} to be floating point or complex, but got: {given.dtype!r}",
            expected="a floating point or complex tensor",
            got=repr(given.dtype),
            fix="convert it first",
        )


def make_dual(tensor: Tensor, tangent: Any, *, level: int | None = None) -> Any:
    """A dual tensor with the value of `tensor`, and a tangent of the same shape and dtype.

    Args:
        tangent: the tangent, of the shape and dtype of the tensor.
        level: the level that the tangent belongs to; None: the innermost.

    Raises:
        RuntimeError outside a level and on another shape, ValueError on integers.
    """
    found = _level_of(level, "make_dual")
    if found is None:
        raise GradientError(
            "Trying to create a dual Tensor for forward AD but no level exists, make sure to enter_dual_level() first.",
            expected="an open level",
            got="none",
            fix="use `with forward_ad.dual_level():`",
        )
    for what, given in (("primal", tensor), ("tangent", tangent)):
        if not isinstance(given, Tensor):
            raise NoTensorError.of(
                given,
                "is_floating_point",
                note=f"the {what} is no tensor",
                expected="a floating point or complex tensor",
                fix="convert it with weft.tensor(...)",
            )
        need_inexact(what, given)
    if tangent._shape != tensor._shape:
        raise ShapeError(
            "Trying to set a forward gradient that has a different size than that of the original Tensor, this is not "
            f"supported. Tensor is of size {list(tensor.shape)} while the given forward gradient is of size "
            f"{list(tangent.shape)}.",
            expected=str(list(tensor.shape)),
            got=str(list(tangent.shape)),
            fix="pass a tangent of the tensor's shape",
        )
    count = 0 if tensor._storage is None else tensor._storage.node.numel
    if count > tensor.numel() > 0 and tensor.is_contiguous():
        return _dual_part(tensor, tangent, count, level)
    for what, given in (
        ("Making a dual Tensor based on a Tensor", tensor),
        ("Setting a forward grad", tangent),
    ):
        if tangent_of(given, found) is not None:
            raise _dual_already(what, found.number)
    dual = elementwise("clone", tensor)
    found.tangents[value_of(dual)] = tangent
    return dual


def _dual_already(what: str, number: int) -> GradientError:
    itself = "that itself has" if what.startswith("Setting") else "that already has"
    return GradientError(
        f"{what} {itself} a forward gradient at the same level {number} is not supported.",
        expected="tensors that are not dual at this level",
        got="a dual tensor",
        fix="unpack it, or open a level inside",
    )


def _dual_part(tensor: Tensor, tangent: Tensor, count: int, level: int | None) -> Any:
    """A dual tensor that is a region of its storage, as the tensor is: the rest of the storage has the tangent 0."""
    place = tensor.offset, logical_strides(tensor)
    around = put(full((count,), 0, tangent._dtype), tangent, *place)
    whole = handle_of_storage(tensor)
    whole = make_dual(put(whole, tensor, *place), around, level=level)
    return whole.as_strided(tensor._shape, place[1], place[0])


def tangent_of(tensor: Tensor, level: Level) -> Any:
    """The tangent of a tensor at a level, or None."""
    return level.tangents.get(value_of(tensor))


def unpack_dual(tensor: object, *, level: int | None = None) -> UnpackedDualTensor:
    """The primal and the tangent at a level (the innermost unless given).

    Args:
        level: the level that is asked for; None: the innermost.
    """
    found = _level_of(level, "unpack_dual")
    if not isinstance(tensor, Tensor):
        raise ArgumentTypeError(
            f"unpack_dual(): argument 'dual' (position 1) must be Tensor, not {class_name(tensor)}",
            expected="a tensor",
            got=repr(tensor)[:60],
            fix="pass what make_dual has given",
        )
    if found is None:
        return UnpackedDualTensor(tensor, None)
    tangent = tangent_of(tensor, found)
    return UnpackedDualTensor(tensor if tangent is None else plain(tensor, found), tangent)


def plain(tensor: Tensor, level: Level | None = None) -> Any:
    """A copy of a dual's value that keeps its graph and has no tangent (at this level and those inside)."""
    levels = _levels() if level is None else _levels()[: level.number]
    mode = tapes.tape().mode
    previous, mode.duals = mode.duals, None if level is None else levels or None
    try:
        return elementwise("clone", tensor)
    finally:
        mode.duals = previous


def forget_tangents(tensor: Tensor) -> None:
    """Make a tensor that is dual an ordinary one, in place."""
    if has_tangent(tensor):
        replace_value(tensor, plain(tensor))


def has_tangent(tensor: Tensor) -> bool:
    """True if a tensor is dual at any open level."""
    return any(tangent_of(tensor, level) is not None for level in _levels())


def innermost_tangent(tensor: Tensor) -> Any:
    """The tangent at the innermost level, or None: what `repr` shows."""
    levels = _levels()
    return tangent_of(tensor, levels[-1]) if levels else None


__all__ = [
    "UnpackedDualTensor",
    "dual_level",
    "enter_dual_level",
    "exit_dual_level",
    "make_dual",
    "unpack_dual",
]


def __getattr__(name: str) -> int:
    if name == "_current_level":
        return len(_levels()) - 1
    raise AttributeError(f"module {__name__!r} has no attribute {name!r}")


publish(globals())
