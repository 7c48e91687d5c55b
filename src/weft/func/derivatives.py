# cython: language_level=3
# cython: wraparound=True, boundscheck=True, cdivision=False, annotation_typing=False
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

import cython
from cython.cimports.weft.graph.edges import value
from cython.cimports.weft.graph.handles import wrap
from cython.cimports.weft.graph.making import new_node
from cython.cimports.weft.graph.node import Node
from cython.cimports.weft.graph.rows import OpRow
from cython.cimports.weft.graph.tape import finish
from cython.cimports.weft.graph.tensor import Tensor

import weft
from weft._compiled import require
from weft.autograd.backward import make_roots, walk
from weft.autograd.discovery import reaches_more
from weft.autograd.functional import or_zeros, reached
from weft.autograd.tangents import transposing
from weft.errors import ArgumentError, GradientError, KindError, ShapeError
from weft.func.tree import leaves, map_leaves, need_function, rebuild
from weft.graph import tape as tapes
from weft.graph.edges import edge_for
from weft.ops import TABLE
from weft.ops.primitives import full as constant

require(__name__, cython.compiled)

_clone_row = cython.declare(OpRow, TABLE["clone"])


@cython.cclass
class _level:  # noqa: N801 - used like a function
    """Inside a transform: gradients on, and `backward` and `requires_grad_` refused."""

    name = cython.declare(object)
    mode = cython.declare(object)
    former = cython.declare(tuple)

    def __init__(self, name: str) -> None:
        self.name = name

    def __enter__(self) -> None:
        self.mode = mode = tapes.tape().mode
        self.former = (mode.extra, mode.grad)
        mode.extra = {**(mode.extra or {}), "transform": self.name}
        mode.grad = True

    def __exit__(self, *exc: object) -> None:
        self.mode.extra, self.mode.grad = self.former


@cython.cclass
class Point:
    """Where a function is differentiated: the trees of its arguments, as fresh aliases and as their records."""

    tree = cython.declare(object, visibility="readonly")
    name = cython.declare(object)
    given = cython.declare(list, visibility="readonly")
    tracked = cython.declare(cython.bint, visibility="readonly")
    fresh = cython.declare(list)
    records = cython.declare(list, visibility="readonly")

    def __init__(self, primals: Any, name: str) -> None:
        self.tree, self.name = primals, name
        self.given = leaves(primals)
        for index, leaf in enumerate(self.given):
            if not isinstance(leaf, weft.Tensor):
                raise _no_tensor(leaf, name, index)
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


@cython.cfunc
@cython.locals(leaf=Tensor, node=Node, record=Node)
def _alias(leaf: Any) -> Any:
    """The same value behind a gradient record of its own, on the caller's graph where the argument has one."""
    if leaf.strides is not None:  # a copy, which lies as the argument does
        own = leaf
        if not leaf.requires_grad:
            own = leaf.detach()
            own.requires_grad = True
        return own.clone()
    node = value(leaf)
    edges = (edge_for(leaf),)
    record = new_node(_clone_row, None, None, node.shape, node.numel, node.dtype, edges)
    record.payload, record.considered = (node.shape,), True  # joins no batch of records
    finish(record)
    return wrap(node, record)


def _no_tensor(leaf: Any, name: str, index: int) -> KindError:
    texts = {
        "jvp": "jvp(f, primals, tangents): Expected primals to only contain Tensors, got {}",
    }
    text = texts.get(name, "Thing passed to transform API must be Tensor, got {}")
    return KindError(
        f"{name}: {text.format(type(leaf))}",
        expected="tensors, or nested tuples, lists and dictionaries of them",
        got=f"{leaf!r:.60} as input {index}",
        fix="choose the arguments to differentiate by with argnums",
    )


def released(values: list[Any], create: bool) -> list[Any]:
    """Results without the transform's own graph, unless the caller's is in it."""
    return [
        value.detach() if isinstance(value, weft.Tensor) and not create else value
        for value in values
    ]


_CALLS = {
    "vjp": "vjp(f, *primals)",
    "jacrev": "vjp(f, *primals)",
    "jvp": "jvp(f, primals, tangents)",
    "jacfwd": "jvp(f, primals, tangents)",
}


def tensors_of(result: Any, name: str) -> list[Any]:
    """The leaves of a function's result. Errors: RuntimeError (and TypeError) on anything but tensors."""
    found = leaves(result)
    for leaf in found:
        if not isinstance(leaf, weft.Tensor):
            raise KindError(
                f"{_CALLS.get(name, name)}: expected f(*primals) to return only tensors, got unsupported type "
                f"{type(leaf)}",
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
    if not all(isinstance(place, int) for place in places):
        raise _wrong_argnums(
            f"argnums must be int or Tuple[int, ...], got: {type(argnums)}", argnums
        )
    if not places:
        raise _wrong_argnums("argnums must be non-empty", argnums)
    if len(set(places)) != len(places):
        raise _wrong_argnums(f"argnums elements must be unique, got {argnums}", argnums)
    for place in places:
        if not -len(args) <= place < len(args):
            raise ArgumentError(
                f"{name}: Got argnum={place}, but only {len(args)} positional inputs",
                expected=f"-{len(args)} <= argnums < {len(args)}",
                got=repr(argnums),
                fix="pass the argument by position",
            )
    places = tuple(place % len(args) for place in places)
    picked = tuple(args[place] for place in places)
    return (picked if isinstance(argnums, tuple) else picked[0]), places


def _wrong_argnums(text: str, argnums: Any) -> KindError:
    return KindError(
        text,
        expected="the number of an argument, or a tuple of different ones",
        got=repr(argnums),
        fix="pass argnums=0, or argnums=(0, 1)",
    )


def with_arguments(
    args: tuple[Any, ...], places: tuple[int, ...], new: Any, several: bool
) -> list[Any]:
    """All arguments, with those at some places replaced."""
    full = list(args)
    for place, fresh in zip(places, new if several else (new,), strict=True):
        full[place] = fresh
    return full


# -- reverse mode ----------------------------------------------------------------------------------------------------


def grad_and_value(func: Callable[..., Any], argnums: Any = 0, has_aux: bool = False) -> Any:
    """A function that returns the gradient of `func`, and its value (with has_aux: the value and aux).

    Errors: RuntimeError where `func` does not return a scalar tensor.
    """
    need_function(func, "grad_and_value")

    @functools.wraps(func)
    def wrapper(*args: Any, **kwargs: Any) -> Any:
        return _with_value(func, argnums, has_aux, args, kwargs)

    return wrapper


@cython.cfunc
def _with_value(func: Any, argnums: Any, has_aux: Any, args: Any, kwargs: Any) -> Any:
    """The gradient, and the value (with has_aux: the value and aux)."""
    picked, places = chosen(args, argnums, "grad")
    point = Point(picked, "grad")
    with _level("grad"):
        full = with_arguments(args, places, point.arguments(), isinstance(argnums, tuple))
        result = func(*full, **kwargs) if kwargs else func(*full)
        output, aux = split_aux(result, has_aux, "grad")
        _check_scalar(output)
        create = point.needs_graph([output])
        found = point.pull([output], [constant((), 1, output.dtype)], create, create)
    (value,) = released([output], create)
    gradient = rebuild(picked, iter(found))
    if not has_aux:
        return gradient, value
    return gradient, (value, map_leaves(lambda leaf: released([leaf], create)[0], aux))


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

    @functools.wraps(func)
    def wrapper(*args: Any, **kwargs: Any) -> Any:
        gradient, value = _with_value(func, argnums, has_aux, args, kwargs)
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
    for tangent in tangents:
        if not isinstance(tangent, weft.Tensor):
            raise KindError(
                f"{_CALLS.get(name, name)}: Expected tangents to only contain Tensors, got {type(tangent)}",
                expected="tensors in the structure of the primals",
                got=repr(tangent)[:60],
                fix="convert it with weft.tensor(...)",
            )
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
