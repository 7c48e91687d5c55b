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
from cython.cimports.weft.engine.frontend.node_factory import new_node
from cython.cimports.weft.engine.frontend.resolve import value
from cython.cimports.weft.engine.frontend.tensor import Tensor
from cython.cimports.weft.engine.frontend.tensor_lifecycle import wrap
from cython.cimports.weft.engine.ir.node import Node
from cython.cimports.weft.engine.ir.primitive import Primitive
from cython.cimports.weft.engine.ir.tape import finish

import weft
from weft._build.compiled import require
from weft.autograd.backward import make_roots, walk
from weft.autograd.custom.jvp import transposing
from weft.autograd.functional import or_zeros, reached
from weft.engine.backward.reachability import reaches_more
from weft.engine.frontend.resolve import edge_for
from weft.engine.ir import tape as tapes
from weft.engine.ir.mode import Contexts
from weft.errors import (
    ArgumentError,
    ArgumentTypeError,
    GradientError,
    KindError,
    NoTensorError,
    ShapeError,
)
from weft.func.captured_writes import CapturedWrites
from weft.func.structure import (
    JVP,
    fitting_cotangents,
    structure_text,
    tangents_of_jvp,
    tangents_of_linearized,
)
from weft.func.tree import leaves, map_leaves, need_function, rebuild
from weft.ops import OPS
from weft.ops.primitives import full as constant

require(__name__, cython.compiled)

MISSING = object()

_clone_op = cython.declare(Primitive, OPS["clone"])


@cython.cclass
class Point:
    """The point at which a function is differentiated: the trees of its arguments, as fresh aliases and as their
    records."""

    tree = cython.declare(object, visibility="readonly")
    name = cython.declare(object, visibility="readonly")
    given = cython.declare(list, visibility="readonly")
    tracked = cython.declare(cython.bint, visibility="readonly")
    fresh = cython.declare(list, visibility="readonly")
    records = cython.declare(list, visibility="readonly")

    def __init__(self, primals: object, name: str) -> None:
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
        """True if results must be differentiable by tensors of the caller."""
        if not self.tracked:
            return False
        if any(leaf.requires_grad for leaf in self.given):
            return True
        return reaches_more([edge_for(out) for out in outputs], self.records)

    def vjp(self, outputs: list[Any], seeds: list[Any], create: bool, retain: bool) -> list[Any]:
        """The gradients by the arguments; zeros where none arrives."""
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
        """The Jacobian times tangents, one per output; zeros for outputs that are integers or truth values."""
        moving = [o for o in outputs if o.dtype.category > 1]
        found = iter(self._push(moving, tangents, create) if moving else [])
        return [next(found) if o.dtype.category > 1 else weft.zeros_like(o) for o in outputs]

    @cython.cfunc
    def _push(self, outputs: list[Any], tangents: list[Any], create: bool) -> list[Any]:
        with weft.enable_grad():
            seeds = [weft.zeros_like(o).clone() for o in outputs]
            for seed in seeds:
                seed.requires_grad = True
            with transposing():
                pulled = self.vjp(outputs, seeds, True, True)
        return or_zeros(reached(pulled, seeds, tangents, create), outputs)


@cython.cclass
class _level:  # noqa: N801 - used like a function
    """Inside a transform: gradients on; `backward`, `requires_grad_` and what `CapturedWrites` says refused."""

    name = cython.declare(object)
    point = cython.declare(Point)
    mode = cython.declare(object)
    previous = cython.declare(tuple)

    def __init__(self, point: Point) -> None:
        self.name, self.point = point.name, point

    def __enter__(self) -> None:
        self.mode = mode = tapes.tape().mode
        around = mode.contexts
        self.previous = (around, mode.grad)
        outer = None if around is None else around.note_write
        writes = CapturedWrites(self.point.fresh, self.point.records, outer)
        mode.contexts = Contexts(around, transform=self.name, note_write=writes.note)
        mode.grad = True

    def __exit__(self, *exc: object) -> None:
        self.mode.contexts, self.mode.grad = self.previous


@cython.cfunc
@cython.locals(leaf=Tensor, node=Node, record=Node)
def _alias(leaf: Any) -> Any:
    """The same value behind a gradient record of its own, on the caller's graph where the argument has one."""
    if leaf.strides is not None:  # a copy, in the memory order of the argument
        own = leaf
        if not leaf.requires_grad:
            own = leaf.detach()
            own.requires_grad = True
        return own.clone()
    node = value(leaf)
    edges = (edge_for(leaf),)
    record = new_node(_clone_op, None, None, node.shape, node.numel, node.dtype, edges)
    record.operand_shapes, record.batch_seen = (node.shape,), True  # joins no batch of records
    finish(record)
    return wrap(node, record)


# What a function misses of an argument that is no tensor, in PyTorch too.
_MISSED = {"linearize": "new_empty", "jacfwd": "numel"}


def _no_tensor(leaf: object, name: str, index: int) -> Any:
    said = {
        "expected": "tensors, or nested tuples, lists and dictionaries of them",
        "got": f"{leaf!r:.60} as input {index}",
        "fix": "choose the arguments to differentiate by with argnums",
    }
    if name in _MISSED:
        return NoTensorError.of(leaf, _MISSED[name], name, **said)
    text = f"Thing passed to transform API must be Tensor, got {type(leaf)}"
    if name == "jvp":
        text = f"{JVP}: Expected primals to only contain Tensors, got {type(leaf)}"
    return KindError(f"{name}: {text}", **said)


def released(values: list[object], create: bool) -> list[Any]:
    """Results without the transform's own graph, unless the caller's is in it."""
    return [
        value.detach() if isinstance(value, weft.Tensor) and not create else value
        for value in values
    ]


_CALLS = {
    "vjp": "vjp(f, *primals)",
    "jacrev": "vjp(f, *primals)",
    "jvp": JVP,
    "jacfwd": JVP,
}


def tensors_of(result: object, name: str) -> list[Any]:
    """The leaves of a function's result. Errors: RuntimeError (and TypeError) on anything but tensors."""
    found = leaves(result)
    if not found:
        raise KindError(
            f"{_CALLS.get(name, name)}: Expected f to be a function that has non-empty output (got output = [])",
            expected="at least one tensor",
            got=repr(result),
            fix="return a tensor",
        )
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


def chosen(args: tuple[object, ...], argnums: object, name: str) -> tuple[Any, tuple[int, ...]]:
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
                f"Got argnum={place}, but only {len(args)} positional inputs",
                expected=f"-{len(args)} <= argnums < {len(args)}",
                got=repr(argnums),
                fix="pass the argument by position",
            )
    places = tuple(place % len(args) for place in places)
    picked = tuple(args[place] for place in places)
    return (picked if isinstance(argnums, tuple) else picked[0]), places


def _wrong_argnums(text: str, argnums: object) -> KindError:
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


def grad_and_value(func: Callable[..., object], argnums: object = 0, has_aux: bool = False) -> Any:
    """A function that returns the gradient of `func`, and its value (with has_aux: the value and aux).

    Errors: RuntimeError where `func` does not return a scalar tensor.
    """
    need_function(func, "grad_and_value")

    @functools.wraps(func)
    def wrapper(*args: object, **kwargs: object) -> Any:
        return _with_value(func, argnums, has_aux, args, kwargs)

    return wrapper


@cython.cfunc
def _with_value(func: Any, argnums: Any, has_aux: Any, args: Any, kwargs: Any) -> Any:
    """The gradient, and the value (with has_aux: the value and aux)."""
    picked, places = chosen(args, argnums, "grad")
    point = Point(picked, "grad")
    with _level(point):
        full = with_arguments(args, places, point.arguments(), isinstance(argnums, tuple))
        result = func(*full, **kwargs) if kwargs else func(*full)
        output, aux = split_aux(result, has_aux, "grad")
        _check_scalar(output)
        create = point.needs_graph([output])
        found = point.vjp([output], [constant((), 1, output.dtype)], create, create)
    (value,) = released([output], create)
    gradient = rebuild(picked, iter(found))
    if not has_aux:
        return gradient, value
    return gradient, (value, map_leaves(lambda leaf: released([leaf], create)[0], aux))


def _check_scalar(output: object) -> None:
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


def grad(func: Callable[..., object], argnums: object = 0, has_aux: bool = False) -> Any:
    """A function that returns the gradient of `func` by its arguments `argnums` (with has_aux: gradient and aux).

    Errors: RuntimeError where `func` does not return a scalar tensor.
    """
    need_function(func, "grad")

    @functools.wraps(func)
    def wrapper(*args: object, **kwargs: object) -> Any:
        gradient, value = _with_value(func, argnums, has_aux, args, kwargs)
        return (gradient, value[1]) if has_aux else gradient

    return wrapper


def vjp(func: Callable[..., Any], *primals: Any, has_aux: bool = False) -> Any:
    """The value of `func`, and a function that multiplies cotangents with its Jacobian (with has_aux: and aux)."""
    point = Point(primals, "vjp")
    with _level(point):
        output, aux = split_aux(func(*point.arguments()), has_aux, "vjp")
        outputs = tensors_of(output, "vjp")
        outer = point.needs_graph(outputs)

    def vjp_function(
        cotangents: object = MISSING, retain_graph: bool = True, create_graph: bool | None = None
    ) -> Any:
        if cotangents is MISSING or isinstance(retain_graph, weft.Tensor):
            raise _no_single_argument(output, cotangents)
        seeds = fitting_cotangents(output, cotangents)
        create = create_graph
        if create is None:
            create = outer or any(seed is not None and seed.requires_grad for seed in seeds)
            create = create and weft.is_grad_enabled()
        found = point.vjp(outputs, seeds, create, retain_graph)
        return rebuild(point.tree, iter(found))

    value = rebuild(output, iter(released(outputs, outer)))
    return (value, vjp_function, aux) if has_aux else (value, vjp_function)


def _no_single_argument(output: object, cotangents: object) -> ArgumentTypeError:
    text = "is missing 1 required positional argument: 'cotangents'"
    got = "no argument"
    if cotangents is not MISSING:
        text, got = "takes the cotangents of all outputs as one argument", "several"
    return ArgumentTypeError(
        f"vjp: the function that it returns {text}",
        expected=structure_text(output),
        got=got,
        fix="pass one argument that is built as the function's result is",
    )


# -- forward -----------------------------------------------------------------------------------------------------------


def jvp(
    func: Callable[..., Any],
    primals: Any,
    tangents: Any,
    *,
    strict: bool = False,
    has_aux: bool = False,
) -> Any:
    """The value of `func`, and its Jacobian times tangents (with has_aux: and aux). A tangent is taken in the dtype of
    its primal, so that the product has that of the value.

    Errors: RuntimeError on tangents of other shapes, and in strict mode where an output does not depend on an input.
    """
    _need_tuple(primals)
    point = Point(primals, "jvp")
    vectors = tangents_of_jvp(primals, tangents)
    with _level(point):
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


def _need_tuple(primals: object) -> None:
    if not isinstance(primals, tuple) or not primals:
        raise GradientError(
            f"{JVP}: Expected primals to be a tuple. E.g. it should be valid to call f(*primals).",
            expected="a tuple that is not empty",
            got=type(primals).__name__,
            fix="write (primals,)",
        )


def linearize(func: Callable[..., Any], *primals: Any) -> Any:
    """The value of `func`, and a function that multiplies its Jacobian with tangents; `func` runs once.

    Results that are no tensors are constants of both.
    """
    point = Point(primals, "linearize")
    with _level(point):
        output = func(*point.arguments())
        parts = leaves(output)
        outputs = [part for part in parts if isinstance(part, weft.Tensor)]
        create = point.needs_graph(outputs)

    def rebuilt(tensors: list[Any]) -> Any:
        new = iter(released(tensors, create))
        whole = [next(new) if isinstance(part, weft.Tensor) else part for part in parts]
        return rebuild(output, iter(whole))

    def push(*tangents: Any) -> Any:
        vectors = tangents_of_linearized(primals, tangents)
        with weft.enable_grad():
            found = point.push(outputs, vectors, create)
        return rebuilt(found)

    return rebuilt(outputs), push
