"""Sharding rules: how the dimensions of an operation's operands and results belong together.

A rule names dimensions by labels, as an equation of `einsum` does (Shardy: factors). A dimension with a label may be
shared out among ranks: operands that have it then, too, and results keep it; where results lack it, each rank has a
part of the sum. A dimension without a label has to be whole. What has no rule is computed on whole tensors.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Any, NamedTuple

import weft
from weft.engine.frontend.tensor import Tensor
from weft.engine.ir.primitive import ELEMENTWISE
from weft.ops.registry import OPS
from weft.utils._pytree import tree_leaves

Label = object  # None: whole
Labels = list[Any]
Rule = Callable[..., Any]
Part = Any  # a tensor that a rank has, or what an argument may be
Parts = Sequence[Part]
Dims = Any  # a number of a dimension, or some


class ShardingPlan(NamedTuple):
    """The plan of one call, whose tensors are counted from left to right.

    `result` are the labels of each tensor that comes out. `linear` are operands in which alone the operation is linear,
    `added` those of which it takes the sum. `call`, if it is given, computes this rank's part of parts, and is given
    the layouts of these and of the result.
    """

    operands: list[Labels]
    result: Labels
    linear: frozenset[int] = frozenset()
    added: frozenset[int] = frozenset()
    call: Callable[..., Any] | None = None
    shape: tuple[int, ...] = ()  # of the whole result, where labels have other sizes in it


def tensors_of(*given: object) -> list[Tensor]:
    """The tensors among arguments, from left to right."""
    return [leaf for leaf in tree_leaves(given) if isinstance(leaf, Tensor)]


def _dims(ndim: int, dim: object) -> set[int]:
    """The dimensions that an argument names; all for None."""
    if dim is None or dim == ():
        return set(range(ndim))
    named = [dim] if isinstance(dim, int) else list(dim)  # type: ignore[call-overload]
    return {one % ndim for one in named} if ndim else set()


def _own_labels(x: Tensor, whole: set[int] | frozenset[int] = frozenset()) -> Labels:
    """A label for each dimension but for those that have to be whole."""
    return [None if dim in whole else dim for dim in range(len(x.shape))]


# -- elementwise -----------------------------------------------------------------------------------------------------

_LINEAR_IN_FIRST = {
    *("neg", "clone", "contiguous", "detach", "to", "float", "double", "half", "bfloat16", "type"),
    *("div", "true_divide", "__truediv__", "view_as", "zero", "zeros_like", "type_as", "positive"),
}
_LINEAR_IN_EACH = {"mul", "multiply", "__rmul__", "__mul__"}
_ADDED = {"add", "sub", "subtract", "__radd__", "__rsub__", "__add__", "__sub__", "rsub", "copy"}


def _broadcast(shapes: Sequence[Sequence[int]]) -> tuple[list[Labels], Labels]:
    """Labels of operands that are broadcast together, and of the result: its dimensions, counted from the last."""
    ndim = max(map(len, shapes))
    sizes = [1] * ndim
    for shape in shapes:
        for back, size in enumerate(reversed(shape)):
            sizes[back] = max(sizes[back], size) if size else 0
    labels = [
        [back if size == sizes[back] else None for back, size in enumerate(reversed(shape))][::-1]
        for shape in shapes
    ]
    return labels, list(range(ndim))[::-1]


def elementwise(name: str) -> Rule:
    """The rule of an elementwise operation of a name."""

    def rule(*args: object, **kwargs: object) -> ShardingPlan:
        tensors = tensors_of(args, kwargs)
        labels, result = _broadcast([x.shape for x in tensors])
        linear = {0} if name in _LINEAR_IN_FIRST else set()
        if name in _LINEAR_IN_EACH:
            linear = set(range(len(tensors)))
        only_tensors = len(tensors) == len([a for a in args if not isinstance(a, dict)])
        added = set(range(len(tensors))) if name in _ADDED and only_tensors else set()
        return ShardingPlan(labels, result, frozenset(linear), frozenset(added))

    return rule


# -- products --------------------------------------------------------------------------------------------------------


def matmul(a: Tensor, b: Tensor, **kwargs: object) -> ShardingPlan:
    """(..., m, k) @ (..., k, n) -> (..., m, n)"""
    left: Labels = ["m", "k"] if len(a.shape) > 1 else ["k"]
    right: Labels = ["k", "n"] if len(b.shape) > 1 else ["k"]
    end = [label for label in (*left, *right) if label != "k"]
    outer = [a.shape[:-2], b.shape[:-2]]
    if not any(outer):
        return ShardingPlan([left, right], end, frozenset({0, 1}))
    (first, second), batch = _broadcast(outer)
    return ShardingPlan([[*first, *left], [*second, *right]], [*batch, *end], frozenset({0, 1}))


def linear(input: Tensor, weight: Tensor, bias: Tensor | None = None) -> ShardingPlan:
    """(..., k) x (n, k) + (n) -> (..., n)"""
    batch: Labels = list(range(len(input.shape) - 1))
    operands: list[Labels] = [[*batch, "k"], ["n", "k"]]
    added = frozenset[int]()
    if bias is not None:
        operands, added = [*operands, ["n"]], frozenset({2})
    return ShardingPlan(operands, [*batch, "n"], frozenset() if added else frozenset({0, 1}), added)


def addmm(input: Tensor, mat1: Tensor, mat2: Tensor, **factors: float) -> ShardingPlan:
    """(m, n) + (m, k) @ (k, n) -> (m, n)"""
    (bias, _), _ = _broadcast([input.shape, (mat1.shape[0], mat2.shape[1])])
    names = [{0: "n", 1: "m"}.get(label) for label in bias]  # type: ignore[call-overload]
    return ShardingPlan([names, ["m", "k"], ["k", "n"]], ["m", "n"], added=frozenset({0}))


def einsum(equation: str, *operands: Part) -> ShardingPlan:
    """The labels of the equation."""
    listed = (
        operands[0] if len(operands) == 1 and isinstance(operands[0], list | tuple) else operands
    )
    terms, arrow, result = equation.replace(" ", "").partition("->")
    inputs = [list(term) for term in terms.split(",")]
    if "." in equation or any(len(set(term)) < len(term) for term in inputs) or not arrow:
        return whole(equation, *operands)
    names: list[Labels] = [list(term) for term in inputs]
    return ShardingPlan(names, list(result), frozenset(range(len(listed))))


def attention(
    query: Tensor, key: Tensor, value: Tensor, *rest: object, **kwargs: object
) -> ShardingPlan:
    """(..., L, E), (..., S, E), (..., S, V) -> (..., L, V), whole but for what comes first."""
    operands = [query, key, value, *tensors_of(rest, kwargs)]  # the last may be a mask
    inner = 3 if kwargs.get("enable_gqa") else 2  # heads of keys may serve several of queries
    labels, batch = _broadcast([x.shape[:-inner] for x in operands])
    names = [
        [*own, *[None] * (len(x.shape) - len(own))] for x, own in zip(operands, labels, strict=True)
    ]
    ndim = max(len(x.shape) for x in operands[:3])
    return ShardingPlan(names, [*batch, *[None] * (ndim - len(batch))])


# -- reductions and what goes along one dimension ----------------------------------------------------------------------


def total(
    input: Tensor, dim: object = None, keepdim: bool = False, **kwargs: object
) -> ShardingPlan:
    """Sums: a dimension that is summed may be shared out."""
    gone = _dims(len(input.shape), dim)
    kept = [None if n in gone else n for n in range(len(input.shape)) if keepdim or n not in gone]
    return ShardingPlan([_own_labels(input)], kept, frozenset({0}))


def mean(input: Tensor, dim: Dims = None, keepdim: bool = False, **kwargs: object) -> ShardingPlan:
    """Means: as sums, each part divided by the count of the whole."""
    gone = _dims(len(input.shape), dim)
    count = 1
    for one in gone:
        count *= input.shape[one]

    def call(parts: Parts, *layouts: object) -> Any:
        return parts[0].sum(sorted(gone), keepdim, **kwargs) / count

    return total(input, dim, keepdim)._replace(call=call)


def along(
    input: Tensor, dim: object = None, keepdim: bool = False, *rest: object, **kwargs: object
) -> ShardingPlan:
    """Reductions that are no sums: their dimensions are whole."""
    gone = _dims(len(input.shape), dim)
    labels = _own_labels(input, gone)
    kept = [n for n, label in enumerate(labels) if keepdim or n not in gone]
    return ShardingPlan([labels], [labels[n] for n in kept])


def keeping(input: Tensor, dim: object = -1, *rest: object, **kwargs: object) -> ShardingPlan:
    """Results of the operand's shape, along one dimension: softmax, cumsum, flip."""
    labels = _own_labels(input, _dims(len(input.shape), dim))
    return ShardingPlan([labels], labels)


def topk(input: Tensor, k: int, dim: int = -1, *rest: object, **kwargs: object) -> ShardingPlan:
    """The largest along a dimension."""
    return keeping(input, dim)


def normalization(
    input: Tensor, normalized_shape: Sequence[int], *rest: object, **kwargs: object
) -> ShardingPlan:
    """layer_norm and rms_norm: the last dimensions are whole."""
    count = len(normalized_shape)
    first = len(input.shape) - count
    labels = _own_labels(input, set(range(first, len(input.shape))))
    more = [[None] * len(x.shape) for x in tensors_of(rest, kwargs)]
    return ShardingPlan([labels, *more], labels)


def embedding(input: Tensor, weight: Tensor, *rest: Part, **kwargs: Part) -> ShardingPlan:
    """Rows of a table: where rows are shared out, each rank has some of those that are asked for, and zeros."""
    dims: Labels = [f"index {dim}" for dim in range(len(input.shape))]

    def call(parts: Parts, layouts: Parts, result: object) -> Any:
        index, table = parts
        (first, count), _ = layouts[1].bounds()
        if count == layouts[1].shape[0]:
            return weft.nn.functional.embedding(index, table, *rest, **kwargs)
        index = index - first
        outside = (index < 0) | (index >= count)
        found = weft.nn.functional.embedding(index.masked_fill(outside, 0), _some(table))
        return found.masked_fill(outside.unsqueeze(-1), 0)

    return ShardingPlan([dims, ["row", "column"]], [*dims, "column"], call=call)


def _some(table: Tensor) -> Any:
    """A table that has a row."""
    return table if table.shape[0] else table.new_zeros(1, *table.shape[1:])


# -- shapes ------------------------------------------------------------------------------------------------------------


def _moved(x: Tensor, order: Sequence[int]) -> ShardingPlan:
    return ShardingPlan([_own_labels(x)], list(order), frozenset({0}))


def transpose(input: Tensor, dim0: int = 0, dim1: int = 1) -> ShardingPlan:
    """Two dimensions change places."""
    order = list(range(len(input.shape)))
    if len(order) > 1:
        order[dim0], order[dim1] = order[dim1], order[dim0]
    return _moved(input, order)


def matrix_transpose(input: Tensor) -> ShardingPlan:
    """The last two dimensions change places."""
    return transpose(input, -2, -1)


def permute(input: Tensor, *dims: Dims) -> ShardingPlan:
    """Dimensions in another order."""
    order = dims[0] if len(dims) == 1 and not isinstance(dims[0], int) else dims
    return _moved(input, [dim % len(input.shape) for dim in order])


def unsqueeze(input: Tensor, dim: int) -> ShardingPlan:
    """One more dimension."""
    labels = _own_labels(input)
    result = [*labels]
    result.insert(dim % (len(labels) + 1), None)
    return ShardingPlan([labels], result, frozenset({0}))


def squeeze(input: Tensor, dim: Dims = None) -> ShardingPlan:
    """Without dimensions of one element."""
    named = set[int]() if dim == () else _dims(len(input.shape), dim)
    ones = {n for n in named if input.shape[n] == 1}
    labels = _own_labels(input, ones)
    kept = [n for n in range(len(labels)) if n not in ones]

    def call(parts: Parts, *layouts: object) -> Any:
        return parts[0].squeeze(tuple(sorted(ones)))

    return ShardingPlan([labels], kept, frozenset({0}), call=call)


def _sizes(given: Parts) -> list[int]:
    return list(given[0] if len(given) == 1 and not isinstance(given[0], int) else given)


def view(input: Tensor, *shape: Dims) -> ShardingPlan:
    """Another shape: of dimensions that become one, or one that becomes some, the first may be shared out."""
    if len(shape) == 1 and isinstance(shape[0], type(weft.float32)):
        return elementwise("view")(input)
    sizes = _sizes(shape)
    return _reshaped(input, _without_minus_one(sizes, input.numel()))


def view_as(input: Tensor, other: Tensor) -> ShardingPlan:
    """The shape of another tensor, whose values are not read."""
    plan = _reshaped(input, list(other.shape))
    return plan._replace(operands=[*plan.operands, plan.result])


def norm(
    input: Tensor,
    p: object = 2,
    dim: object = None,
    keepdim: bool = False,
    *rest: object,
    **kwargs: object,
) -> ShardingPlan:
    """Norms along dimensions, which are whole."""
    return along(input, dim, keepdim)


def flatten(input: Tensor, start_dim: int = 0, end_dim: int = -1) -> ShardingPlan:
    """Some dimensions become one."""
    ndim = len(input.shape)
    if ndim == 0:
        return _reshaped(input, [1])
    first, last = start_dim % ndim, end_dim % ndim
    sizes = list(input.shape)
    return _reshaped(input, [*sizes[:first], _product(sizes[first : last + 1]), *sizes[last + 1 :]])


def unflatten(input: Tensor, dim: int, sizes: Sequence[int]) -> ShardingPlan:
    """One dimension becomes some."""
    dim %= len(input.shape)
    shape = list(input.shape)
    made = _without_minus_one(list(sizes), shape[dim])
    return _reshaped(input, [*shape[:dim], *made, *shape[dim + 1 :]])


def _product(sizes: Sequence[int]) -> int:
    count = 1
    for size in sizes:
        count *= size
    return count


def _without_minus_one(sizes: list[int], count: int) -> list[int]:
    rest = _product([size for size in sizes if size != -1])
    return [count // max(rest, 1) if size == -1 else size for size in sizes]


def _reshaped(input: Tensor, shape: Sequence[int]) -> ShardingPlan:
    before, after = _groups(list(input.shape), list(shape), _ranks(input))

    def call(parts: Parts, layouts: object, result: Part) -> Any:
        return parts[0].reshape(result.local_shape)

    return ShardingPlan([before], after, frozenset({0}), call=call, shape=tuple(shape))


def _ranks(x: Tensor) -> int:
    """The number of ranks that a tensor lies over."""
    return x.device_mesh.size() if hasattr(x, "device_mesh") else 1


def _groups(old: list[int], new: list[int], ranks: int) -> tuple[Labels, Labels]:
    """Labels of both shapes: neighbours with equally many elements belong together, and the first of each may be shared
    out where ranks get equally much of it."""
    before: Labels = [None] * len(old)
    after: Labels = [None] * len(new)
    i = j = 0
    while i < len(old) and j < len(new):
        first, second = i, j
        left, right = old[i], new[j]
        i, j = i + 1, j + 1
        while left != right and (i < len(old) or j < len(new)):
            if left < right and i < len(old):
                left, i = left * old[i], i + 1
            elif j < len(new):
                right, j = right * new[j], j + 1
            else:
                left, i = left * old[i], i + 1
        is_one = i == first + 1 and j == second + 1
        if is_one or (old[first] % ranks == 0 and new[second] % ranks == 0):
            before[first] = after[second] = (first, second)
    return before, after


def expand(input: Tensor, *sizes: Dims) -> ShardingPlan:
    """Dimensions of one element become as many as are asked for."""
    wanted = _sizes(sizes)
    added = len(wanted) - len(input.shape)
    labels: Labels = [
        n if wanted[n + added] in (-1, size) else None for n, size in enumerate(input.shape)
    ]

    def call(parts: Parts, *layouts: object) -> Any:
        kept = [
            -1 if n >= added and labels[n - added] is not None else size
            for n, size in enumerate(wanted)
        ]
        return parts[0].expand(kept)

    return ShardingPlan([labels], [*[None] * added, *labels], frozenset({0}), call=call)


def cat(tensors: Sequence[Tensor], dim: int = 0) -> ShardingPlan:
    """One behind the other along a dimension that is whole."""
    ndim = len(tensors[0].shape)
    labels: Labels = [None if n == dim % ndim else n for n in range(ndim)]
    return ShardingPlan([labels] * len(tensors), labels, added=frozenset(range(len(tensors))))


def stack(tensors: Sequence[Tensor], dim: int = 0) -> ShardingPlan:
    """Along a new dimension."""
    labels = _own_labels(tensors[0])
    result = [*labels]
    result.insert(dim % (len(labels) + 1), None)
    return ShardingPlan([labels] * len(tensors), result, added=frozenset(range(len(tensors))))


def split(input: Tensor, size: object = None, dim: int = 0, **kwargs: object) -> ShardingPlan:
    """Parts along a dimension that is whole."""
    plan = keeping(input, dim)
    return plan._replace(linear=frozenset({0}))


def unbind(input: Tensor, dim: int = 0) -> ShardingPlan:
    """The entries of a dimension."""
    labels = _own_labels(input, _dims(len(input.shape), dim))
    rest = [label for n, label in enumerate(labels) if n != dim % len(labels)]
    return ShardingPlan([labels], rest, frozenset({0}))


def select(input: Tensor, dim: int, index: int) -> ShardingPlan:
    """One entry of a dimension."""
    return unbind(input, dim)


def narrow(input: Tensor, dim: int, *rest: object) -> ShardingPlan:
    """Some entries of a dimension."""
    return split(input, dim=dim)


def getitem(input: Tensor, index: Dims) -> ShardingPlan:
    """Dimensions that are taken as they are may be shared out."""
    entries = list(index) if isinstance(index, tuple) else [index]
    if not all(entry is None or isinstance(entry, (int, slice, type(...))) for entry in entries):
        return whole(input, index)
    taken = len([entry for entry in entries if entry is not None and entry is not ...])
    at = next((n for n, entry in enumerate(entries) if entry is ...), len(entries))
    entries[at : at + 1] = [slice(None)] * (len(input.shape) - taken)
    labels, dim = _own_labels(input), 0
    result: Labels = []
    for entry in entries:
        if entry is None:
            result.append(None)
            continue
        if entry != slice(None):
            labels[dim] = None
        if not isinstance(entry, int):
            result.append(labels[dim])
        dim += 1
    return ShardingPlan([labels], result, frozenset({0}))


def whole(*args: object, **kwargs: object) -> ShardingPlan:
    """All operands are whole."""
    return ShardingPlan([[None] * len(x.shape) for x in tensors_of(args, kwargs)], [])


# -- the table ---------------------------------------------------------------------------------------------------------

_BY_RULE: dict[Rule, str] = {
    matmul: "matmul mm bmm mv dot __matmul__",
    linear: "linear",
    addmm: "addmm",
    einsum: "einsum",
    attention: "scaled_dot_product_attention",
    total: "sum nansum",
    mean: "mean",
    along: "amax amin argmax argmin var std logsumexp",
    keeping: "softmax log_softmax cumsum cumprod sort argsort flip glu",
    topk: "topk",
    normalization: "layer_norm rms_norm",
    embedding: "embedding",
    transpose: "transpose swapaxes swapdims t",
    matrix_transpose: "mT adjoint T",
    permute: "permute",
    unsqueeze: "unsqueeze",
    squeeze: "squeeze",
    view: "view reshape",
    view_as: "view_as reshape_as",
    norm: "norm vector_norm",
    flatten: "flatten",
    unflatten: "unflatten",
    expand: "expand",
    cat: "cat concat",
    stack: "stack",
    split: "split chunk tensor_split",
    unbind: "unbind",
    select: "select",
    narrow: "narrow",
    getitem: "__getitem__",
}
_ELEMENTWISE = (
    "clone contiguous detach to float double half bfloat16 type type_as zeros_like ones_like full_like empty_like "
    "zero fill copy where masked_fill clamp clamp_min clamp_max clip gelu silu mish elu selu celu leaky_relu relu6 "
    "softplus hardtanh hardswish hardsigmoid logsigmoid sigmoid tanh relu add sub mul div multiply subtract divide "
    "true_divide rsub pow square sqrt rsqrt reciprocal exp log log1p expm1 sin cos abs neg negative positive addcmul "
    "addcdiv lerp maximum minimum eq ne lt le gt ge isnan isinf isfinite logical_not logical_and logical_or erf floor "
    "ceil round sign floor_divide remainder nan_to_num mse_loss_none requires_grad __radd__ __rsub__ __rmul__ "
    "__rtruediv__ __rpow__ __rfloordiv__ __rmod__ __and__ __or__ __xor__ __invert__ bitwise_and bitwise_or bitwise_not"
)
RULES: dict[str, Rule] = {name: rule for rule, names in _BY_RULE.items() for name in names.split()}
for _name, _op in OPS.items():
    if _op.kind == ELEMENTWISE:
        RULES.setdefault(_name, elementwise(_name))
for _name in _ELEMENTWISE.split():
    RULES.setdefault(_name, elementwise(_name))
