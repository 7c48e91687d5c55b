"""grad, vjp, jvp, linearize: a transform runs the function at fresh aliases of its arguments and walks to these.

An alias hangs on the caller's graph where the argument does, so that transforms nest; where nothing of the caller's
is involved, the walk records no graph and runs batched. Gradients are on inside, whatever the caller's mode; under
the caller's no_grad the results carry no graph. The product with a Jacobian from the right is the derivative of the
product from the left by its vector, in which it is linear: what is recorded for that and not needed never runs.
"""

from __future__ import annotations

import functools
from collections.abc import Callable
from typing import Any

import weft
from weft.autograd.backward import make_roots, walk
from weft.autograd.discovery import reaches_more
from weft.autograd.functional import or_zeros, reached
from weft.autograd.tangents import transposing
from weft.errors import ArgumentError, ArgumentTypeError, GradientError, ShapeError
from weft.func.tree import leaves, map_leaves, need_function, rebuild
from weft.graph import tape as tapes
from weft.graph.edges import edge_for, value_of
from weft.graph.handles import wrap_node
from weft.graph.making import make_node
from weft.graph.tape import finish
from weft.ops import TABLE

_CLONE = TABLE["clone"]


class _level:  # noqa: N801 - used like a function
    """Inside a transform: gradients on, and `backward` and `requires_grad_` refused."""

    def __init__(self, name: str) -> None:
        self.name = name

    def __enter__(self) -> None:
        self.mode = mode = tapes.tape().mode
        self.former = (mode.extra, mode.grad)
        mode.extra = {**(mode.extra or {}), "transform": self.name}
        mode.grad = True

    def __exit__(self, *exc: object) -> None:
        self.mode.extra, self.mode.grad = self.former


class Point:
    """Where a function is differentiated: the trees of its arguments, as fresh aliases and as their records."""

    def __init__(self, primals: Any, name: str) -> None:
        self.tree, self.name = primals, name
        self.given = leaves(primals)
        for index, leaf in enumerate(self.given):
            if not isinstance(leaf, weft.Tensor):
                raise ArgumentTypeError(
                    f"{name}: Expected all inputs to be tensors, got {type(leaf).__name__}",
                    expected="tensors, or nested tuples, lists and dictionaries of them",
                    got=f"{leaf!r} as input {index}",
                    fix="choose the arguments to differentiate by with argnums",
                )
        self.tracked = weft.is_grad_enabled()
        with weft.enable_grad():
            self.fresh = [_alias(leaf) for leaf in self.given]
        self.records = [edge_for(tensor) for tensor in self.fresh]

    def arguments(self) -> Any:
        """The aliases in the structure of the arguments."""
        return rebuild(self.tree, iter(self.fresh))

    def needs_graph(self, outputs: list[Any]) -> bool:
        """Whether results have to be differentiable by something of the caller's."""
        if not self.tracked:
            return False
        if any(leaf.requires_grad for leaf in self.given):
            return True
        return reaches_more([edge_for(out) for out in outputs], self.records)

    def pull(self, outputs: list[Any], seeds: list[Any], create: bool, retain: bool) -> list[Any]:
        """The gradients by the arguments, zeros where there are none."""
        pairs = [(o, s) for o, s in zip(outputs, seeds, strict=True) if o.requires_grad]
        found: dict[Any, Any] = {}
        if pairs:
            ends = [pair[0] for pair in pairs]
            roots = make_roots(ends, [pair[1] for pair in pairs])
            found = walk(ends, roots, dict.fromkeys(self.records, True), retain, create, False)
        gradients = [found.get((record, 0)) for record in self.records]
        return [
            weft.zeros_like(leaf) if g is None else g
            for leaf, g in zip(self.given, gradients, strict=True)
        ]

    def push(self, outputs: list[Any], tangents: list[Any], create: bool) -> list[Any]:
        """The Jacobian times tangents, one per output."""
        with weft.enable_grad():
            seeds = [weft.zeros_like(o).clone() for o in outputs]
            for seed in seeds:
                seed.requires_grad = True
            with transposing():
                pulled = self.pull(outputs, seeds, True, True)
        return or_zeros(reached(pulled, seeds, tangents, create), outputs)


def _alias(leaf: Any) -> Any:
    """The same value behind a gradient record of its own, on the caller's graph where the argument has one."""
    if leaf.strides is not None:  # a copy, which lies as the argument does
        own = leaf if leaf.requires_grad else leaf.detach().requires_grad_()
        return own.clone()
    value = value_of(leaf)
    edge = edge_for(leaf) if leaf.requires_grad else None
    record = make_node(_CLONE, None, None, value.shape, value.dtype, (edge,))
    record.payload, record.considered = (tuple(value.shape),), True  # joins no batch of records
    finish(record)
    return wrap_node(value, record)


def released(values: list[Any], create: bool) -> list[Any]:
    """Results without the transform's own graph, unless the caller's is in it."""
    return [
        value.detach() if isinstance(value, weft.Tensor) and not create else value
        for value in values
    ]


def tensors_of(result: Any, name: str) -> list[Any]:
    """The leaves of a function's result. Errors: TypeError on anything but tensors."""
    found = leaves(result)
    for leaf in found:
        if not isinstance(leaf, weft.Tensor):
            raise ArgumentTypeError(
                f"{name}: Expected f(*args) to return only tensors, got {type(leaf).__name__}",
                expected="a tensor, or nested tuples, lists and dictionaries of tensors",
                got=repr(leaf),
                fix="return other results with has_aux=True",
            )
    return found


def split_aux(result: Any, has_aux: bool, name: str) -> tuple[Any, Any]:
    """(output, aux). Errors: RuntimeError where has_aux is promised and no pair comes."""
    if not has_aux:
        return result, None
    if not (isinstance(result, tuple) and len(result) == 2):
        raise GradientError(
            f"{name}(f, ..., has_aux=True): f should return a tuple (output, aux)",
            expected="(output, aux)",
            got=type(result).__name__,
            fix="return a pair, or drop has_aux",
        )
    return result


def chosen(args: tuple[Any, ...], argnums: Any, name: str) -> tuple[Any, tuple[int, ...]]:
    """The arguments to differentiate by, and their places. Errors: RuntimeError, ValueError on a wrong argnums."""
    places = argnums if isinstance(argnums, tuple) else (argnums,)
    for place in places:
        if not isinstance(place, int) or not -len(args) <= place < len(args):
            raise ArgumentError(
                f"{name}: Got argnum={place}, but only {len(args)} positional inputs",
                expected=f"-{len(args)} <= argnums < {len(args)}",
                got=repr(argnums),
                fix="pass the argument by position",
            )
    places = tuple(place % len(args) for place in places)
    picked = tuple(args[place] for place in places)
    return (picked if isinstance(argnums, tuple) else picked[0]), places


def with_arguments(
    args: tuple[Any, ...], places: tuple[int, ...], new: Any, several: bool
) -> list[Any]:
    """All arguments, with those at some places replaced."""
    full = list(args)
    for place, value in zip(places, new if several else (new,), strict=True):
        full[place] = value
    return full


# -- reverse mode ----------------------------------------------------------------------------------------------------


def grad_and_value(func: Callable[..., Any], argnums: Any = 0, has_aux: bool = False) -> Any:
    """A function that returns the gradient of `func`, and its value (with has_aux: the value and aux).

    Errors: RuntimeError where `func` does not return a scalar tensor.
    """
    need_function(func, "grad_and_value")

    @functools.wraps(func)
    def wrapper(*args: Any, **kwargs: Any) -> Any:
        picked, places = chosen(args, argnums, "grad")
        point = Point(picked, "grad")
        with _level("grad"):
            full = with_arguments(args, places, point.arguments(), isinstance(argnums, tuple))
            output, aux = split_aux(func(*full, **kwargs), has_aux, "grad")
            _check_scalar(output)
            create = point.needs_graph([output])
            found = point.pull([output], [weft.ones_like(output)], create, create)
        (value,) = released([output], create)
        aux = map_leaves(lambda leaf: released([leaf], create)[0], aux)
        gradient = rebuild(picked, iter(found))
        return gradient, ((value, aux) if has_aux else value)

    return wrapper


def _check_scalar(output: Any) -> None:
    if not isinstance(output, weft.Tensor):
        raise GradientError(
            f"grad_and_value(f)(*args): Expected f(*args) to return a Tensor, got {type(output)}",
            expected="a tensor",
            got=type(output).__name__,
            fix="return the loss alone, other results with has_aux=True",
        )
    if output.dim() != 0:
        raise ShapeError(
            "grad_and_value(f)(*args): Expected f(*args) to return a scalar Tensor, got tensor with "
            f"{output.dim()} dims. Maybe you wanted to use the vjp or jacrev APIs instead?",
            expected="a tensor of shape []",
            got=str(list(output.shape)),
            fix="reduce it with .sum() or .mean()",
        )


def grad(func: Callable[..., Any], argnums: Any = 0, has_aux: bool = False) -> Any:
    """A function that returns the gradient of `func` by its arguments `argnums` (with has_aux: gradient and aux).

    Errors: RuntimeError where `func` does not return a scalar tensor.
    """
    need_function(func, "grad")
    both = grad_and_value(func, argnums, has_aux)

    @functools.wraps(func)
    def wrapper(*args: Any, **kwargs: Any) -> Any:
        gradient, value = both(*args, **kwargs)
        return (gradient, value[1]) if has_aux else gradient

    return wrapper


def vjp(func: Callable[..., Any], *primals: Any, has_aux: bool = False) -> Any:
    """The value of `func`, and a function that multiplies cotangents with its Jacobian (with has_aux: and aux)."""
    point = Point(primals, "vjp")
    with _level("vjp"):
        output, aux = split_aux(func(*point.arguments()), has_aux, "vjp")
        outputs = tensors_of(output, "vjp")
        outer = point.needs_graph(outputs)

    def pull(*cotangents: Any, retain_graph: bool = True, create_graph: bool | None = None) -> Any:
        given = cotangents[0] if len(cotangents) == 1 else cotangents
        seeds = leaves(given)
        if len(seeds) != len(outputs):
            raise GradientError(
                "vjp: the cotangents must have the structure of the output",
                expected=f"{len(outputs)} tensors",
                got=str(len(seeds)),
                fix="pass one cotangent per output",
            )
        create = weft.is_grad_enabled() and (outer or any(seed.requires_grad for seed in seeds))
        found = point.pull(outputs, seeds, create, True)
        return rebuild(point.tree, iter(found))

    value = rebuild(output, iter(released(outputs, outer)))
    return (value, pull, aux) if has_aux else (value, pull)


# -- forward -----------------------------------------------------------------------------------------------------------


def _check_tangents(primals: list[Any], tangents: list[Any], name: str) -> None:
    if len(primals) != len(tangents) or any(
        p.shape != t.shape for p, t in zip(primals, tangents, strict=True)
    ):
        raise ShapeError(
            f"{name}: Expected primals and tangents to have the same structure and shapes",
            expected=", ".join(str(list(p.shape)) for p in primals),
            got=", ".join(str(list(t.shape)) for t in tangents),
            fix="pass one tangent per primal",
        )


def jvp(
    func: Callable[..., Any],
    primals: Any,
    tangents: Any,
    *,
    strict: bool = False,
    has_aux: bool = False,
) -> Any:
    """The value of `func`, and its Jacobian times tangents (with has_aux: and aux).

    Errors: RuntimeError on tangents of other shapes, and in strict mode where an output does not depend on an input.
    """
    _need_tuple(primals, "primals")
    _need_tuple(tangents, "tangents")
    point = Point(primals, "jvp")
    vectors = leaves(tangents)
    _check_tangents(point.given, vectors, "jvp")
    with _level("jvp"):
        output, aux = split_aux(func(*point.arguments()), has_aux, "jvp")
        outputs = tensors_of(output, "jvp")
        if strict and not all(out.requires_grad for out in outputs):
            raise GradientError(
                "jvp(f, primals, tangents, strict=True): The output of f is independent of the inputs.",
                expected="outputs that depend on the inputs",
                got="a constant",
                fix="pass strict=False to get zeros",
            )
        create = point.needs_graph(outputs) or (
            point.tracked and any(vector.requires_grad for vector in vectors)
        )
        found = point.push(outputs, vectors, create)
    value = rebuild(output, iter(released(outputs, create)))
    product = rebuild(output, iter(released(found, create)))
    return (value, product, aux) if has_aux else (value, product)


def _need_tuple(values: Any, what: str) -> None:
    if not isinstance(values, tuple) or not values:
        raise GradientError(
            f"jvp(f, primals, tangents): Expected {what} to be a tuple. E.g. it should be valid to call f(*primals).",
            expected="a tuple that is not empty",
            got=type(values).__name__,
            fix=f"write ({what},)",
        )


def linearize(func: Callable[..., Any], *primals: Any) -> Any:
    """The value of `func`, and a function that multiplies its Jacobian with tangents; `func` runs once."""
    point = Point(primals, "linearize")
    with _level("linearize"):
        output = func(*point.arguments())
        outputs = tensors_of(output, "linearize")
        create = point.needs_graph(outputs)

    def push(*tangents: Any) -> Any:
        vectors = leaves(tangents)
        _check_tangents(point.given, vectors, "linearize")
        with weft.enable_grad():
            found = point.push(outputs, vectors, create)
        return rebuild(output, iter(released(found, create)))

    return rebuild(output, iter(released(outputs, create))), push
