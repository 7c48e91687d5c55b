# cython: language_level=3
# cython: wraparound=True, boundscheck=True, cdivision=False, annotation_typing=False
"""vmap: a function of one example, over all examples.

The function runs on the first example, and what it has recorded is recorded once more over all examples
(`weft.func.lifting`). Where it reads a value, it runs on the other examples too, in fibers (`weft.func.fibers`) that
wait for each other where they read, and equal operations of different examples run as one: so it may decide on values.
The first example's result stands in both cases. Python side effects happen once, or once per example where values are
read.
"""

from __future__ import annotations

import functools
from collections.abc import Callable
from typing import Any

import cython

import weft
from weft._build.compiled import require
from weft.engine.frontend.recorder import record
from weft.engine.frontend.resolve import value_of
from weft.engine.ir import tape as tapes
from weft.engine.ir.mode import Contexts
from weft.engine.ir.tape import intact, last_sequence
from weft.engine.pipeline import driver
from weft.errors import ArgumentError, GradientError, KindError, MutationError
from weft.func.functions import FunctionMap
from weft.func.lifting import Lifting, Unliftable
from weft.func.randomness import Randomness
from weft.func.tree import leaves, need_function, rebuild
from weft.ops import OPS

require(__name__, cython.compiled)


_DESCRIBED = {"in_dims": "`inputs`", "out_dims": "`outputs`"}


def _spread(dims: object, tree: object, what: str) -> list[int | None]:
    """One dimension (or None) for every leaf. Errors: ValueError where the structures do not fit."""
    if dims is None or isinstance(dims, int):
        return [dims] * len(leaves(tree))
    if isinstance(dims, dict) and isinstance(tree, dict) and dims.keys() == tree.keys():
        return [d for key in tree for d in _spread(dims[key], tree[key], what)]
    if (
        isinstance(dims, (tuple, list))
        and isinstance(tree, (tuple, list))
        and len(dims) == len(tree)
    ):
        return [d for dim, part in zip(dims, tree, strict=True) for d in _spread(dim, part, what)]
    if isinstance(dims, (tuple, list, dict)):
        text = f"{what} is not compatible with the structure of {_DESCRIBED[what]}"
    elif what == "in_dims":
        text = f"Got in_dim={dims} for an input but in_dim must be either an integer dimension or None."
    else:
        text = (
            "`out_dims` must be an int, None or a python collection of ints representing where in the outputs the "
            "vmapped dimension should appear."
        )
    raise ArgumentError(
        f"vmap: {text}",
        expected="an integer, None, or the structure of the arguments",
        got=repr(dims),
        fix="pass one integer or None per argument",
    )


def _need_in_dims(in_dims: object) -> None:
    """Errors: ValueError where `in_dims` is neither a number nor a tuple for the arguments."""
    if not isinstance(in_dims, (int, tuple)):
        raise ArgumentError(
            "vmap: expected `in_dims` to be int or a (potentially nested) tuple matching the structure of inputs, got: "
            f"{type(in_dims)}.",
            expected="an integer, or a tuple with an entry for each argument",
            got=repr(in_dims),
            fix="pass a tuple",
        )


def _need_out_dims(dims: object) -> None:
    """Errors: ValueError where one of `out_dims` is no number."""
    parts = dims.values() if isinstance(dims, dict) else dims
    if isinstance(parts, (tuple, list)) or isinstance(dims, dict):
        for part in parts:
            _need_out_dims(part)
    elif dims is not None and not isinstance(dims, int):
        _spread(dims, (), "out_dims")


def _size(values: list[Any], dims: list[int | None]) -> int:
    """The size of the mapped dimension. Errors: ValueError if there is none or sizes differ."""
    sizes = []
    for value, dim in zip(values, dims, strict=True):
        if dim is None:
            continue
        if not isinstance(value, weft.Tensor):
            raise ArgumentError(
                f"vmap: Got in_dim={dim} for an input but the input is of type {type(value)}. We cannot vmap over "
                "non-Tensor arguments, please use None as the respective in_dim",
                expected="a tensor, or in_dim None",
                got=repr(value),
                fix="pass None in in_dims for it",
            )
        if not -value.dim() <= dim < value.dim():
            raise ArgumentError(
                f"vmap: Got in_dim={dim} for some input, but that input is a Tensor of dimensionality {value.dim()} "
                f"so expected in_dim to satisfy -{value.dim()} <= in_dim < {value.dim()}.",
                expected=f"-{value.dim()} <= in_dim < {value.dim()}",
                got=str(dim),
                fix="choose a dimension that the tensor has",
            )
        sizes.append(value.shape[dim])
    if not sizes:
        raise ArgumentError(
            "vmap: Expected at least one Tensor to vmap over: every in_dim is None"
            if values
            else "vmap: got no inputs. Maybe you forgot to add inputs, or you are trying to vmap over a function with "
            "no inputs. The latter is unsupported.",
            expected="an in_dim that is an integer",
            got="None for all inputs" if values else "no inputs",
            fix="call the function directly",
        )
    if len(set(sizes)) > 1:
        raise ArgumentError(
            f"vmap: Expected all tensors to have the same size in the mapped dimension, got sizes {sizes} for the "
            "mapped dimension",
            expected="one size",
            got=str(sizes),
            fix="check in_dims",
        )
    return int(sizes[0])


@cython.cclass
class _Map:
    """One call of a mapped function: its arguments, and along which dimension each is mapped."""

    func = cython.declare(object, visibility="readonly")
    args = cython.declare(tuple, visibility="readonly")
    kwargs = cython.declare(dict, visibility="readonly")
    dims = cython.declare(list, visibility="readonly")
    values = cython.declare(list, visibility="readonly")
    split = cython.declare(cython.Py_ssize_t, visibility="readonly")
    count = cython.declare(cython.Py_ssize_t, visibility="readonly")

    def __init__(
        self, func: object, args: object, kwargs: object, dims: Any, values: Any, split: int
    ) -> None:
        self.func, self.args, self.kwargs = func, args, kwargs
        self.dims, self.values, self.split = dims, values, split
        self.count = _size(values, dims)

    def call(self, example: list[object]) -> Any:
        """The function at one example."""
        args = rebuild(self.args, iter(example[: self.split]))
        if not self.kwargs:
            return self.func(*args)
        return self.func(*args, **rebuild(self.kwargs, iter(example[self.split :])))

    def example(self, index: int) -> list[Any]:
        """The arguments of one example: views."""
        return [
            value if dim is None else value.select(dim, index)
            for value, dim in zip(self.values, self.dims, strict=True)
        ]

    def part(self, start: int, count: int) -> _Map:
        """The same call for some of the examples."""
        if count == self.count:
            return self
        values = [
            value if dim is None else value.narrow(dim, start, count)
            for value, dim in zip(self.values, self.dims, strict=True)
        ]
        return _Map(self.func, self.args, self.kwargs, self.dims, values, self.split)


@cython.cfunc
def _call_of(func: object, args: object, kwargs: object, in_dims: object) -> _Map:
    """A call with the dimensions that `in_dims` says; named arguments are the same for all examples."""
    _need_in_dims(in_dims)
    values = leaves(args)
    dims = _spread(in_dims, args, "in_dims")
    split = len(values)
    if kwargs:
        named = leaves(kwargs)
        dims += [None] * len(named)
        values = values + named
    return _Map(func, args, kwargs, dims, values, split)


@cython.cclass
class _Traced:
    """The context of the run on the first example: no batches are formed; reads, and writes to tensors from outside,
    are noticed or refused."""

    mapping = cython.declare(object)
    mode = cython.declare(object)
    strict = cython.declare(object)
    previous = cython.declare(tuple)
    writes = cython.declare(object)
    flushes = cython.declare(object)
    read = cython.declare(cython.bint, visibility="readonly")
    wrote = cython.declare(cython.bint, visibility="readonly")

    def __init__(self, strict: bool, lifting: Lifting, randomness: str) -> None:
        self.mode = tapes.tape().mode
        around = self.mode.contexts
        self.mapping = FunctionMap(lifting, randomness, around)
        self.strict = strict
        self.writes = _Writes(lifting, None if around is None else around.note_write)

    def __enter__(self) -> _Traced:
        mode = self.mode
        self.previous = (mode.walk, mode.contexts)
        mode.walk = mode.walk or -1  # walks in here form no batches
        mode.contexts = Contexts(
            mode.contexts,
            note_write=self.writes.note,
            mapping=self.mapping,
            refuse_reads=_refusal if self.strict else None,
        )
        self.flushes = driver.counters["flushes"]
        return self

    def __exit__(self, *exc: object) -> None:
        mode = self.mode
        mode.walk, mode.contexts = self.previous
        self.read = driver.counters["flushes"] != self.flushes + self.mapping.flushes
        self.wrote = len(self.writes.outside) > 0


@cython.cclass
class _Writes:
    """The writes of a mapped function, as they happen: values of one example may only go to memory that each example
    has for itself.

    A value that is the same for all examples is written once. Errors: RuntimeError on any other write to a tensor from
    outside; nothing has been written then."""

    lifting = cython.declare(object)
    start = cython.declare(object)
    outer = cython.declare(object)
    outside = cython.declare(set, visibility="readonly")

    def __init__(self, lifting: Lifting, outer: object) -> None:
        self.lifting, self.outer = (
            lifting,
            outer,
        )  # `outer`: the same of a map around this one, or None
        self.start = last_sequence()
        self.outside = set()

    def note(self, storage: Any, new: Any) -> None:
        """`storage` is to get the value of `new`, or a part of it."""
        if self.outer is not None:
            self.outer(storage, new)
        made: cython.bint = storage.node.seq > self.start and storage not in self.outside
        if made or storage.node in self.lifting.values:
            return  # each example has its own
        if self.is_of_one_example(new):
            raise _write_refusal(new)
        self.outside.add(storage)

    @cython.cfunc
    def is_of_one_example(self, new: Any) -> cython.bint:
        """True if a value depends on the example, as far as that is still recorded."""
        known: dict[Any, Any] = self.lifting.values
        stack: list[Any] = [value_of(new)]
        met: set[Any] = set()
        while stack:
            node = stack.pop()
            if node in known:
                return True
            if node in met or node.seq <= self.start:
                continue
            met.add(node)
            stack.extend(node.inputs or ())
            if node.result is not None:
                stack.append(node.result)
        return False


@cython.cfunc
def _write_refusal(new: Any) -> MutationError:
    return MutationError(
        "vmap: inplace arithmetic(self, *extra_args) is not possible because there exists a Tensor `other` in "
        "extra_args that has more elements than `self`. This happened due to `other` being vmapped over but `self` "
        "not being vmapped over in a vmap: the examples would write over each other",
        expected="a write into a tensor that the function made or that is mapped over, or of a value that is the same "
        "for all examples",
        got=f"a value {list(new.shape)} of one example, for a tensor that all share",
        fix="return the value and put the examples together outside, as in total += vmap(f)(x).sum(0)",
    )


def _refusal(node: object) -> GradientError:
    return GradientError(
        "vmap: It looks like you're either (1) calling .item() on a Tensor or (2) attempting to use a Tensor in some "
        "data-dependent control flow",
        expected="a function that reads no values, as strict=True asks for",
        got="a read",
        fix="leave strict out: the function then runs on each example, in batches between reads",
    )


def vmap(
    func: Callable[..., object],
    in_dims: object = 0,
    out_dims: object = 0,
    randomness: str = "error",
    *,
    chunk_size: int | None = None,
    strict: bool = False,
) -> Any:
    """`func` over a dimension of its arguments: `in_dims` (an integer or None per argument, or one for all) names the
    dimension to map over, `out_dims` where it goes in the results. `chunk_size` examples go together. `func` may read
    values and decide on them, unless `strict`.

    Errors: ValueError on sizes that differ; RuntimeError on random numbers unless `randomness` is 'same' or
    'different', where a value of one example is written into a tensor that all share, and on a read where `strict`.
    Cost: one call; one per example where `func` reads values or draws 'different' numbers.
    """
    if chunk_size is not None and chunk_size <= 0:
        raise ArgumentError(
            f"vmap: chunk_size should be None or greater than 0. (got {chunk_size})",
            expected="a positive number or None",
            got=str(chunk_size),
            fix="leave it out",
        )
    need_function(func, "vmap")
    Randomness(randomness)

    @functools.wraps(func)
    def wrapper(*args: object, **kwargs: object) -> Any:
        mapped = _call_of(func, args, kwargs, in_dims)
        chance = Randomness(randomness)
        if not mapped.count:
            return _without_examples(mapped, chance, out_dims, strict)
        size = chunk_size or mapped.count
        parts = [
            _mapped(mapped.part(at, min(size, mapped.count - at)), chance, out_dims, strict)
            for at in range(0, mapped.count, size)
        ]
        return _joined_parts(parts, out_dims)

    return wrapper


def _mapped(mapped: _Map, chance: Randomness, out_dims: object, strict: bool) -> Any:
    """The results over some examples: lifted from the first one, or one after the other."""
    lifting = Lifting(mapped.count)
    example = [
        value if dim is None else _first(lifting, value, dim)
        for value, dim in zip(mapped.values, mapped.dims, strict=True)
    ]
    with intact():  # what is lifted has to be there, inputs and all
        with chance, _Traced(strict, lifting, chance.kind) as traced:
            first = mapped.call(example)
        changed = [
            one if dim is not None and one._version else None
            for one, dim in zip(example, mapped.dims, strict=True)
        ]
        alone = traced.read or any(one is not None for one in changed)
        if not alone and not (chance.drawn and chance.kind == "different"):
            try:
                with weft.enable_grad():
                    return _placed(lifting, first, out_dims, mapped.func)
            except Unliftable:  # there is no rule over all examples: one after the other
                pass
    for own, one in zip(mapped.example(0), changed, strict=True):
        if one is not None:  # the function has written into its argument
            own.copy_(one)
    others = _others(mapped, chance, traced.read and not traced.wrote)
    return _joined([first, *others], out_dims, mapped.func)


def _first(lifting: Any, value: Any, dim: int) -> Any:
    """The first example of an argument, as a value of its own."""
    whole = value if dim == 0 else value.movedim(dim, 0)
    one = record(OPS["select"], (whole,), (0, 0), tuple(whole.shape)[1:], whole.dtype)
    lifting.stand_in(one, whole)
    return one


def _others(mapped: _Map, chance: Randomness, together: bool) -> list[Any]:
    """The results of the function on all examples but the first: where it reads values, in fibers that wait there for
    each other."""

    def call(index: int) -> Any:
        with chance.again():
            return mapped.call(mapped.example(index))

    if not together:
        return [call(index) for index in range(1, mapped.count)]
    from weft.func.fibers import map_rest

    return map_rest(call, range(1, mapped.count), "vmap")  # type: ignore[no-any-return]


def _placed(lifting: Any, first: Any, out_dims: Any, func: Any) -> Any:
    """The lifted results with their batch dimension where it belongs."""
    found = leaves(first)
    dims = _out_dims(out_dims, first, found, func)
    lifted = iter(lifting.lift([leaf for leaf in found if isinstance(leaf, weft.Tensor)]))
    placed = []
    for leaf, dim in zip(found, dims, strict=True):
        whole = next(lifted) if isinstance(leaf, weft.Tensor) else None
        if dim is None:
            if whole is not None:
                raise _batched_without_dim(func)
            placed.append(leaf)
            continue
        if whole is None:
            whole = leaf.unsqueeze(0).expand(lifting.count, *leaf.shape)
        placed.append(whole if dim == 0 else whole.movedim(0, dim))
    return rebuild(first, iter(placed))


def _out_dims(
    out_dims: object, first: object, found: list[object], func: object
) -> list[int | None]:
    """The position of the batch dimension in each result. Errors: ValueError if the structures do not fit, and for a
    result that is no tensor but has a dimension in `out_dims`."""
    if isinstance(first, weft.Tensor) and isinstance(out_dims, tuple) and len(out_dims) == 1:
        out_dims = out_dims[0]
    _need_out_dims(out_dims)
    dims = _spread(out_dims, first, "out_dims")
    for leaf, dim in zip(found, dims, strict=True):
        if dim is not None:
            _need_tensor(leaf, func)
    return dims


def _batched_without_dim(func: object) -> ArgumentError:
    name = getattr(func, "__name__", type(func).__name__)
    return ArgumentError(
        f"vmap({name}, ...): `{name}` can not return a BatchedTensor when out_dim is None",
        expected="a result that is the same for all examples",
        got="one that depends on the example",
        fix="choose out_dim=0 for it",
    )


def _need_tensor(leaf: object, func: object) -> None:
    """Errors: ValueError (and TypeError)."""
    if not isinstance(leaf, weft.Tensor):
        name = getattr(func, "__name__", type(func).__name__)
        raise KindError(
            f"vmap({name}, ...): `{name}` must only return Tensors, got type {type(leaf)}. Did you mean to set "
            "out_dims= to None for output?",
            expected="tensors",
            got=repr(leaf)[:60],
            fix="wrap it with weft.tensor(...)",
        )


def _joined(results: list[object], out_dims: object, func: object) -> Any:
    """The results of all examples, stacked."""
    first = results[0]
    columns = list(zip(*[leaves(result) for result in results], strict=True))
    dims = _out_dims(out_dims, first, leaves(first), func)
    joined = [
        column[0] if dim is None else weft.stack(column, dim)
        for column, dim in zip(columns, dims, strict=True)
    ]
    return rebuild(first, iter(joined))


def _without_examples(mapped: _Map, chance: Randomness, out_dims: object, strict: bool) -> Any:
    """The results over no examples: empty, of the shapes and types that an example of zeros gives."""
    values = [
        value
        if dim is None
        else value.new_zeros(
            [1 if axis == dim % value.dim() else n for axis, n in enumerate(value.shape)]
        )
        for value, dim in zip(mapped.values, mapped.dims, strict=True)
    ]
    one = _Map(mapped.func, mapped.args, mapped.kwargs, mapped.dims, values, mapped.split)
    result = _mapped(one, chance, out_dims, strict)
    dims = _out_dims(out_dims, result, leaves(result), mapped.func)
    cut = [
        leaf if dim is None else leaf.narrow(dim, 0, 0)
        for leaf, dim in zip(leaves(result), dims, strict=True)
    ]
    return rebuild(result, iter(cut))


def _joined_parts(parts: list[object], out_dims: object) -> Any:
    """The results of all chunks, one behind the other."""
    if len(parts) == 1:
        return parts[0]
    if isinstance(parts[0], weft.Tensor) and isinstance(out_dims, tuple):
        (out_dims,) = out_dims
    dims = _spread(out_dims, parts[0], "out_dims")
    columns = zip(*[leaves(part) for part in parts], strict=True)
    return rebuild(
        parts[0],
        iter(
            column[0] if dim is None else weft.cat(column, dim)
            for column, dim in zip(columns, dims, strict=True)
        ),
    )
