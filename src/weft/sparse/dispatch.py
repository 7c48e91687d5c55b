"""Dispatch of dense functions on sparse tensors: which functions are defined on them, and by which rule.

It takes a public function with its arguments, of which one is sparse, and returns the answer of the rule in the table.
The rules are in the other modules of this folder, by subject; other functions are refused, as in PyTorch.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Any, cast

from weft.engine.api.api_function import defined_in
from weft.engine.frontend.tensor import Tensor
from weft.engine.ir.dtype import DType
from weft.errors import NotDefinedError
from weft.sparse import arithmetic, compressed, making, products, reductions, shaping
from weft.sparse.tensor import SparseTensor, entries_at, gradient_of, like
from weft.tensor.leaves import give_out, need_out_without_gradient


def _of_handle(
    function: Callable[..., object], input: SparseTensor, *args: object, **kwargs: object
) -> Any:  # noqa: A002
    """The answer of a function that treats a sparse tensor as any other: sizes."""
    return getattr(function, "__wrapped__", function)(input, *args, **kwargs)


def _is_tensor(function: Callable[..., object], obj: SparseTensor) -> bool:
    return True


def _is_nonzero(function: Callable[..., bool], input: SparseTensor) -> bool:  # noqa: A002
    return function(input.to_dense())


def _stride(function: Callable[..., object], input: SparseTensor, dim: int | None = None) -> Any:  # noqa: A002
    strides = (0,) * len(input.shape)
    return strides if dim is None else strides[dim]


def _type(
    function: Any, self: SparseTensor, dtype: DType | None = None, non_blocking: bool = False
) -> Any:
    found = function(self.entries, dtype)
    return found.replace(".", ".sparse.", 1) if dtype is None else like(self, found)


def _never(function: Callable[..., object], input: Tensor, *args: object, **kwargs: object) -> bool:  # noqa: A002
    return False


def _sparse_mask(function: Callable[..., object], self: Tensor, mask: SparseTensor) -> Any:
    return making.sparse_mask(self, mask)


def _numpy(
    function: Callable[..., object], self: SparseTensor, *args: object, **kwargs: object
) -> Any:
    return self.__array__()


OF_HANDLE = "numel dim is_same_size size"
RULES: dict[str, Any] = {
    **arithmetic.RULES,
    **products.RULES,
    **reductions.RULES,
    **shaping.RULES,
    **dict.fromkeys(OF_HANDLE.split(), _of_handle),
    "is_nonzero": _is_nonzero,
    "is_tensor": _is_tensor,
    "lobpcg": _of_handle,  # it multiplies by the matrix, and no more
    "stride": _stride,
    "is_contiguous": _never,
    "storage_offset": lambda function, self: 0,
    "type_": _type,
    "sparse_mask": _sparse_mask,
    "numpy": _numpy,
}
# Functions that take the entries as they lie, whatever the layout.
_AS_THEY_LIE = (
    "is_tensor stride is_contiguous storage_offset type_ sparse_mask numpy zeros_like empty_like cpu contiguous "
    "as_tensor share_memory_ copy_ zero_ select unbind"
)
_BY_ENTRY = f"{arithmetic.LINEAR} {arithmetic.UNARY} {arithmetic.OF_VALUES}"
ANY_LAYOUT = frozenset(
    f"{OF_HANDLE} {_BY_ENTRY} {shaping.TURNING} {_AS_THEY_LIE}".split()
    + [f"{name}_" for name in arithmetic.IN_PLACE.split()]
)
# Functions of tensors stand here. Others (loaders, modules, transforms) take sparse tensors as any object.
_PLACES = ("weft.functional.", "weft.nn.functional", "weft.tensor.", "weft.random", "weft.special")


def answer(
    function: Callable[..., Tensor], args: tuple[Any, ...], kwargs: dict[str, object]
) -> Any:
    """The result of a function with a sparse argument. Errors: NotDefinedError if it has no meaning."""
    name, place = function.__name__, defined_in(function)
    own = vars(SparseTensor).get(name) if args and isinstance(args[0], SparseTensor) else None
    if callable(own):
        return own(*args, **kwargs)
    if place == "weft.autograd.backward":
        return _gradients(function, *args, **kwargs)
    if place == "weft.engine.pipeline.driver":
        return function(*map(_entries_in, args))
    if not place.startswith(_PLACES):
        return NotImplemented
    rule = RULES.get(name.removeprefix("function_"))
    if rule is None:
        raise _undefined(name.removeprefix("function_"), args)
    name = name.removeprefix("function_")
    if kwargs.get("out") is not None:
        out, others = kwargs["out"], {key: kwargs[key] for key in kwargs if key != "out"}
        if not any(isinstance(value, SparseTensor) for value in (*args, *others.values())):
            raise _undefined(f"{name} with a sparse out=", args)
        return _written(name, _by_rule(rule, name, function, args, others), out)
    return _by_rule(rule, name, function, args, kwargs)


def _by_rule(
    rule: Callable[..., object],
    name: str,
    function: Callable[..., object],
    args: tuple[object, ...],
    kwargs: dict[str, object],
) -> Any:
    if name not in ANY_LAYOUT and any(map(compressed.is_other, args)):
        return compressed.through_rows(rule, name, function, args, kwargs)
    return rule(function, *args, **kwargs)


def _written(name: str, result: Tensor, out: object) -> Any:
    """A result in the tensor given as `out`, sparse or dense as it is itself. Errors: NotDefinedError for the other
    one, RuntimeError where a gradient would be needed."""
    if isinstance(result, SparseTensor) is not isinstance(out, SparseTensor):
        raise _undefined(f"{name} with out=", (result, out))
    if not isinstance(out, SparseTensor):
        return give_out(cast("Tensor", out), result)
    need_out_without_gradient(out, result)
    return out.adopt(result)


def _entries_in(value: Tensor | bool | list[Tensor]) -> Any:
    if isinstance(value, (list, tuple)):
        return type(value)(_entries_in(one) for one in value)
    return value.entries if isinstance(value, SparseTensor) else value


def _gradients(function: Callable[..., Tensor], outputs: Any, *args: Any, **kwargs: object) -> Any:
    """`autograd.grad` and `autograd.backward` with sparse tensors among roots, leaves and gradients."""
    given = dict(zip(_ORDER[function.__name__], args, strict=False)) | kwargs
    inputs, name = given.get("inputs"), _ORDER[function.__name__][_GRADIENTS[function.__name__]]
    gradients = _at_places(outputs, given.pop(name, None))
    others = {key: _entries_in(value) for key, value in given.items()}
    walk = function.__wrapped__  # type: ignore[attr-defined]  # leaves get sparse gradients as they are
    found = walk(_entries_in(outputs), **{name: gradients}, **others)
    if found is None or inputs is None:
        return found
    listed = inputs if isinstance(inputs, (list, tuple)) else (inputs,)
    return tuple(
        gradient_of(one, part) if isinstance(one, SparseTensor) and part is not None else part
        for one, part in zip(listed, found, strict=True)
    )


_ORDER = {
    "grad": (
        "inputs", "grad_outputs", "retain_graph", "create_graph", "only_inputs", "allow_unused",
        "is_grads_batched", "materialize_grads",
    ),
    "backward": ("grad_tensors", "retain_graph", "create_graph", "grad_variables", "inputs"),
}  # fmt: skip
_GRADIENTS = {"grad": 1, "backward": 0}


def _at_places(outputs: list[Tensor], gradients: object) -> Any:
    """The gradients of roots, those of sparse ones by their entries."""
    if gradients is None:
        return None
    several = isinstance(outputs, (list, tuple))
    roots = outputs if several else (outputs,)
    given = gradients if isinstance(gradients, (list, tuple)) else (gradients,)
    found = [
        entries_at(root, one) if isinstance(root, SparseTensor) else _for_dense(root, one)
        for root, one in zip(roots, given, strict=True)
    ]
    return found if isinstance(gradients, (list, tuple)) else found[0]


def _for_dense(root: object, gradient: object) -> Any:
    """A gradient of a dense root: a leaf accumulates sparse ones as they are, derivative rules take dense ones."""
    if isinstance(gradient, SparseTensor) and not getattr(root, "is_leaf", False):
        return gradient.to_dense()
    return gradient


_NO_POINTER = "Cannot access data pointer of Tensor that doesn't have storage"
_WORDS = {
    "reshape": "reshape is not implemented for sparse tensors",
    "storage": "Cannot access storage of SparseTensorImpl",
    **dict.fromkeys(("tolist", "data_ptr"), _NO_POINTER),
}


def _undefined(
    name: str, args: tuple[int | SparseTensor, ...] | tuple[object, ...]
) -> NotDefinedError:
    found = [f"{list(value.shape)}" for value in args if isinstance(value, SparseTensor)]
    return NotDefinedError(
        _WORDS.get(name, f"{name} is not defined on sparse tensors"),
        expected="what keeps zeros, such as mul, relu, sum or transpose, or a product of matrices",
        got=f"{name} of a sparse tensor of shape {', '.join(found)}" if found else name,
        fix="use .to_dense(), or .coalesce().values() for the entries",
    )
