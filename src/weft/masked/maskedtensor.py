# ruff: noqa: A002 - PyTorch's names
"""MaskedTensor: a tensor together with the mask of the elements that count.

Elementwise functions work on the elements that count; two operands must have one mask. Reductions leave the others out,
and a result to which no element counted does not count itself. Functions that move elements move both. It is a tensor
subclass: what a function means here is decided by the room that it is defined in, and what has no meaning is refused.
"""

from __future__ import annotations

import sys
from collections.abc import Callable, Iterator
from typing import Any

import weft
from weft import masked
from weft._build.lazy import join as _join
from weft._typing import Dims, TensorLike
from weft.engine.api.api_function import defined_in
from weft.engine.dispatch.torch_function import disabled
from weft.engine.frontend.tensor import Tensor
from weft.errors import ArgumentError, ArgumentTypeError, KindError

REDUCTIONS = frozenset(
    ["sum", "prod", "mean", "amax", "amin", "argmax", "argmin", "std", "var", "norm", "all"]
)
ALONG = frozenset(["softmax", "log_softmax", "softmin", "normalize", "cumsum", "cumprod"])
# Rooms of functions by what they do to a mask: keep it, or move it with the elements.
_KEEPING = (
    "weft.functional.elementwise",
    "weft.tensor.conversion",
    "weft.nn.functional.activation",
)
_MOVING = ("weft.functional.shape",)
_LIKES = "zeros_like ones_like full_like empty_like rand_like randn_like"
_KEPT = frozenset(f"clone detach to_dense where {_LIKES}".split())
_KEPT |= {"logaddexp", "logaddexp2"}
_BINARY = ["add", "sub", "mul", "truediv", "floordiv", "mod", "pow", "and", "or", "xor"]
_OTHERS = ["eq", "ne", "lt", "le", "gt", "ge", "neg", "pos", "abs", "invert"]
_OPERATORS = frozenset(
    f"__{name}__" for name in (*_BINARY, *_OTHERS, *(f"r{name}" for name in _BINARY))
)
_REFUSED = frozenset(["numpy", "tolist", "share_memory_", "to_sparse"])
_MOVED = frozenset(
    [
        "__getitem__",
        "index_select",
        "gather",
        "take_along_dim",
        "flip",
        "roll",
        "repeat",
        "tile",
        "contiguous",
    ]
)
_Arguments = tuple[object, ...]
_Keywords = dict[str, object]


def _check(data: object, mask: object) -> None:
    """Errors: TypeError for other than a dense tensor and a mask of bool; ValueError for other sizes."""
    if not isinstance(data, Tensor) or isinstance(data, MaskedTensor):
        raise ArgumentTypeError(
            "data must be a Tensor",
            expected="a plain tensor",
            got=type(data).__name__,
            fix="use get_data() of a MaskedTensor",
        )
    if not isinstance(mask, Tensor) or isinstance(mask, MaskedTensor):
        raise ArgumentTypeError(
            "mask must be a Tensor",
            expected="a plain tensor of bool",
            got=type(mask).__name__,
            fix="use get_mask() of a MaskedTensor",
        )
    if mask.dtype is not weft.bool:
        raise ArgumentTypeError(
            "mask must have dtype bool.",
            expected="a mask of bool",
            got=str(mask.dtype),
            fix="use mask.bool()",
        )
    if tuple(data.shape) != tuple(mask.shape):
        measure = "size" if data.ndim == mask.ndim else "dim"
        raise ArgumentError(
            f"data.{measure}() must equal mask.{measure}()",
            expected=f"a mask of shape {list(data.shape)}",
            got=str(list(mask.shape)),
            fix="expand the mask",
        )


class MaskedTensor(Tensor):
    """A tensor of which some elements do not count.

    Args:
        data: all elements; a copy is taken, as a leaf.
        mask: true where an element counts; of the shape of the data.
        requires_grad: whether gradients are recorded.

    Example:
        >>> import weft
        >>> weft.masked.masked_tensor(weft.tensor([1.0, 2.0]), weft.tensor([True, False])).sum()
        MaskedTensor(  1.0000, True)
    """

    _mask: Tensor

    @staticmethod
    def __new__(
        cls: type[MaskedTensor], data: Tensor, mask: Tensor, requires_grad: bool = False
    ) -> MaskedTensor:
        _check(data, mask)
        made = _wrapped(data.detach().clone(), mask)
        made.requires_grad_(requires_grad)
        return made

    def __init__(self, data: Tensor, mask: Tensor, requires_grad: bool = False) -> None:
        """Everything has been set."""

    @classmethod
    def __torch_function__(
        cls,
        func: Callable[..., object],
        types: object,
        args: _Arguments = (),
        kwargs: _Keywords | None = None,
    ) -> Any:
        """The result of a function. Errors: TypeError where it has no meaning for masks."""
        return _answer(func, args, kwargs or {})

    def get_data(self) -> Tensor:
        """All elements, also those that do not count."""
        data: Tensor = _plain(self)
        return data

    def get_mask(self) -> Tensor:
        """True where an element counts."""
        return self._mask

    def to_tensor(self, value: float) -> Tensor:
        """The elements that count, and a number in the place of the others.

        Args:
            value: that number.
        """
        filled: Tensor = weft.where(self._mask, _plain(self), value)
        return filled

    def is_sparse_coo(self) -> bool:
        """False: elements and mask are dense."""
        return False

    @property
    def grad(self) -> Any:  # type: ignore[override]
        """The gradient, with the same mask; None before there is one."""
        found = disabled(vars(Tensor)["grad"].__get__, (), (self,))
        return None if found is None else _wrapped(_plain(found), self._mask)

    T = property(lambda self: self.permute(*reversed(range(len(self.shape)))))
    mT = property(lambda self: self.transpose(-2, -1))

    def __iter__(self) -> Iterator[Any]:
        return (self[index] for index in range(self.shape[0]))

    def __repr__(self) -> str:
        return _text(self)

    def __str__(self) -> str:
        return _text(self)

    def __reduce_ex__(self, protocol: object) -> Any:
        return _wrapped, (_plain(self), self._mask)

    def __deepcopy__(self, memo: dict[int, object]) -> MaskedTensor:
        made = MaskedTensor(_plain(self), self._mask.clone(), self.requires_grad)
        memo[id(self)] = made
        return made


def masked_tensor(data: Tensor, mask: Tensor, requires_grad: bool = False) -> MaskedTensor:
    """A MaskedTensor of a copy of the data, as a leaf.

    Args:
        data: all elements.
        mask: true where an element counts; of the shape of the data.
        requires_grad: whether gradients are recorded.

    Example:
        >>> import weft
        >>> x = weft.masked.masked_tensor(weft.tensor([1.0, 2.0, 3.0]), weft.tensor([True, False, True]))
        >>> x.sum()
        MaskedTensor(  4.0000, True)
    """
    return MaskedTensor(data, mask, requires_grad)


def as_masked_tensor(data: Tensor, mask: Tensor) -> MaskedTensor:
    """A MaskedTensor of the data itself, into whose graph gradients flow.

    Args:
        data: all elements.
        mask: true where an element counts; of the shape of the data.

    Example:
        >>> import weft
        >>> x = weft.masked.as_masked_tensor(weft.tensor([1.0, 2.0]), weft.tensor([True, False]))
        >>> x.mean()
        MaskedTensor(  1.0000, True)
    """
    _check(data, mask)
    return _wrapped(data, mask)


def is_masked_tensor(obj: object, /) -> bool:
    """True for a MaskedTensor.

    Args:
        obj: anything.

    Example:
        >>> import weft
        >>> x = weft.masked.masked_tensor(weft.tensor([1.0, 2.0]), weft.tensor([True, False]))
        >>> weft.masked.is_masked_tensor(x), weft.masked.is_masked_tensor(weft.ones(2))
        (True, False)
    """
    return isinstance(obj, MaskedTensor)


def _wrapped(data: Tensor, mask: Tensor) -> MaskedTensor:
    made: MaskedTensor = data.as_subclass(MaskedTensor)
    made._mask = mask
    return made


def _plain(value: object) -> Any:
    """An argument with data in the place of masked tensors."""
    if isinstance(value, MaskedTensor):
        return disabled(Tensor.as_subclass, (), (value, Tensor))
    return type(value)(map(_plain, value)) if isinstance(value, (tuple, list)) else value


def _masks(value: object) -> Any:
    """An argument with masks in the place of masked tensors."""
    if isinstance(value, MaskedTensor):
        return value._mask
    return type(value)(map(_masks, value)) if isinstance(value, (tuple, list)) else value


def _leaves(values: _Arguments | list[object]) -> Iterator[object]:
    for value in values:
        if isinstance(value, (tuple, list)):
            yield from _leaves(value)
        else:
            yield value


_join(
    sys.modules[__name__],
    {
        "core": {"MaskedTensor": MaskedTensor, "is_masked_tensor": is_masked_tensor},
        "creation": {"as_masked_tensor": as_masked_tensor, "masked_tensor": masked_tensor},
    },
)


# -- functions -----------------------------------------------------------------------------------------------------


def _answer(func: Callable[..., object], args: _Arguments, kwargs: _Keywords) -> Any:
    name = getattr(func, "__name__", "")
    if name in ("__get__", "__set__", "as_subclass") or not callable(func):
        return disabled(func, (), args, kwargs)
    rule = _rule_of(name, _room(func))
    if rule is None:
        return disabled(func, (), args, kwargs)
    return rule(func, args, kwargs)


def _rule_of(name: str, room: str) -> Callable[..., Any] | None:
    """The function that answers for one of a name and a room; None where the data alone is asked."""
    base = name if name[:2] == "__" else name.removeprefix("function_").rstrip("_")
    if base in REDUCTIONS | ALONG:
        return _reduced
    if name in _MOVED or room.startswith(_MOVING):
        return _moved
    if name in _REFUSED:
        return _refused
    writes = name.endswith("_") and name[:2] != "__" and room.startswith("weft.functional.support")
    if name in _KEPT | _OPERATORS or writes or room.startswith(_KEEPING):
        return _entrywise
    return _refused if room.startswith(("weft.functional", "weft.nn", "weft.special")) else None


def _refused(func: Callable[..., object], args: _Arguments, kwargs: _Keywords) -> Any:
    name = getattr(func, "__name__", "")
    raise KindError(
        f"{name}: not implemented for MaskedTensor",
        expected="an elementwise function, a reduction, or one that moves elements",
        got=name,
        fix="use get_data() and get_mask(), or to_tensor(value)",
    )


def _room(func: Callable[..., object]) -> str:
    try:
        room: str = defined_in(func)
    except AttributeError:
        return ""
    return room


def _entrywise(func: Callable[..., object], args: _Arguments, kwargs: _Keywords) -> Any:
    """A function of single elements: of those that count in all operands, which have one mask."""
    given = [v for v in _leaves((*args, *kwargs.values())) if isinstance(v, MaskedTensor)]
    mask = given[0]._mask
    for other in given[1:]:
        if other._mask is not mask and not weft.equal(other._mask, mask):
            raise ArgumentError(
                "Input masks must match. If you need support for this, please open an issue on Github.",
                expected="operands with one mask",
                got="two that differ",
                fix="make new ones of get_data() and a common mask",
            )
    found = func(*_plain(args), **{key: _plain(value) for key, value in kwargs.items()})
    name = func.__name__
    if name[-1:] == "_" and name[:2] != "__":
        return args[0]
    if not isinstance(found, Tensor):
        return found
    return _wrapped(found, mask if found.shape == mask.shape else mask.expand(found.shape))


def _moved(func: Callable[..., object], args: _Arguments, kwargs: _Keywords) -> Any:
    """A function that moves elements, of data and of masks."""
    for value in _leaves(args):
        if (
            isinstance(value, Tensor)
            and not isinstance(value, MaskedTensor)
            and value.dtype.is_floating_point
        ):
            raise KindError(
                "masked and plain tensors together",
                expected="masked tensors only",
                got="a plain one among them",
                fix="use as_masked_tensor(x, weft.ones_like(x, dtype=weft.bool))",
            )
    data: Any = func(*_plain(args), **{key: _plain(value) for key, value in kwargs.items()})
    masks: Any = func(*_masks(args), **{key: _masks(value) for key, value in kwargs.items()})
    if isinstance(data, (tuple, list)):
        return type(data)(map(_wrapped, data, masks))
    return _wrapped(data, masks)


def _reduced(func: Callable[..., object], args: _Arguments, kwargs: _Keywords) -> Any:
    """A reduction, or a function along a dimension, over the elements that count."""
    name = func.__name__.removeprefix("function_")
    (input, *positional), options = args, dict(kwargs)
    assert isinstance(input, MaskedTensor)
    if name == "norm":
        options["ord"] = positional.pop(0) if positional else options.pop("p", 2.0)
    if positional:
        options["dim"] = positional.pop(0)
    dim: Any = options.setdefault("dim", None)
    if positional:
        options["unbiased" if name in ("std", "var") else "keepdim"] = positional.pop(0)
    if name == "all":
        found = weft.where(input._mask, _plain(input).bool(), True)
        found = found.all() if dim is None else found.all(dim, bool(options.get("keepdim")))
    else:
        found = getattr(masked, name)(_plain(input), mask=input._mask, **options)
    if name in ALONG:
        return _wrapped(found, input._mask)
    return _wrapped(found, _counted(input._mask, dim).reshape(found.shape))


def _counted(mask: Tensor, dim: Dims) -> Tensor:
    """True where a reduction had an element that counts."""
    counted: Tensor = mask.any() if dim is None else mask
    axes = dim if isinstance(dim, (tuple, list)) else () if dim is None else (dim,)
    for axis in axes:
        counted = counted.any(axis, keepdim=True)
    return counted


# -- text ----------------------------------------------------------------------------------------------------------


def _number(value: TensorLike, tensor: Tensor) -> str:
    if tensor.is_floating_point():
        return f"{value:8.4f}"
    return f"{value:.4f}" if tensor.is_complex() else f"{value}"


def _lines(tensor: Tensor, mask: Tensor, indent: str) -> str:
    """Nested lists of numbers, those that do not count as `--`."""
    rows = zip(tensor.unbind(), mask.unbind(), strict=True)
    if tensor.ndim > 1:
        inner = ",\n".join(_lines(one, counts, indent + "  ") for one, counts in rows)
        return f"{indent}[\n{inner}\n{indent}]"
    words = (_number(one.item(), one) if counts else "      --" for one, counts in rows)
    return f"{indent}[{', '.join(words)}]"


def _text(tensor: MaskedTensor) -> str:
    data, mask = _plain(tensor).detach(), tensor._mask
    if not data.dim():
        word = _number(data.item(), data) if mask.item() else "--"
        return f"MaskedTensor({word}, {bool(mask.item())})"
    return f"MaskedTensor(\n{_lines(data, mask, '  ')}\n)"
