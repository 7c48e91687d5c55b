"""Parameters and buffers: the tensors that a Module recognises when they are assigned to it.

A parameter is a leaf that shares the given tensor's value, or one without a shape that gets it later (those of lazy
modules). `Module` decides what it does with them.
"""

from __future__ import annotations

from typing import Any, NoReturn, Self

import weft
from weft import Tensor
from weft._typing import DeviceLike, Shape
from weft.engine.dispatch.torch_function import disabled
from weft.engine.ir.dtype import DType
from weft.engine.replay.conditions import add_plain_kind
from weft.errors import ArgumentError, ShapeError
from weft.tensor.arguments import need_flag, need_tensor
from weft.tensor.torch_function.subclasses import asks


class _ParameterMeta(type):
    """The class of Parameter: a tensor of a user's subclass is a parameter if `_is_param` says so."""

    def __instancecheck__(cls, instance: object) -> bool:
        if super().__instancecheck__(instance):
            return True
        return (
            cls is Parameter
            and isinstance(instance, Tensor)
            and getattr(instance, "_is_param", False) is True
        )


class Parameter(Tensor, metaclass=_ParameterMeta):
    """A tensor that is trained: a leaf that requires a gradient, listed by `Module.parameters()`.

    Shapes: those of `data`, whose value it shares. Errors: RuntimeError where `requires_grad` is
    asked of integers. Results of operations on a subclass are plain tensors, unless it has a `__torch_function__`.
    Of a tensor of a user's own type comes a leaf of that type, for which `isinstance(it, Parameter)` holds.
    """

    __torch_function__: Any = disabled
    _is_param = True

    def __new__(cls, data: Tensor | None = None, requires_grad: bool = True) -> Self:
        need_flag("Parameter", requires_grad, "requires_grad")
        source = weft.empty(0) if data is None else need_tensor("Parameter", data, "data")
        sparse = source.layout is not weft.strided
        if sparse or (asks(type(source)) and not issubclass(cls, type(source))):
            return _of_type(source, requires_grad)
        made: Self = Tensor._make_subclass(cls, source.detach(), requires_grad)
        return made

    def __init__(self, *arguments: Tensor | int | str | None, **options: object) -> None:
        """Everything is done by `__new__`, which subclasses may have take more."""

    def __deepcopy__(self, memo: dict[int, Any]) -> Parameter:
        if id(self) not in memo:
            memo[id(self)] = type(self)(self.detach().clone(), self.requires_grad)
        copied: Parameter = memo[id(self)]
        return copied

    def __repr__(self, **options: object) -> str:
        return "Parameter containing:\n" + super().__repr__()

    def __reduce_ex__(self, protocol: object) -> tuple[Any, ...]:
        return _rebuild, (type(self), self.detach(), self.requires_grad), vars(self) or None


add_plain_kind(Parameter)


def _of_type(data: Tensor, requires_grad: bool) -> Any:
    """A parameter of a user's type. Errors: RuntimeError where its `detach` gives another."""
    made = data.detach().requires_grad_(requires_grad)
    if type(made) is not type(data):
        raise ArgumentError(
            f"Creating a Parameter from an instance of type {type(data).__name__} requires that detach() returns an "
            f"instance of the same type, but return type {type(made).__name__} was found instead.",
            expected=f"a {type(data).__name__} from detach()",
            got=type(made).__name__,
            fix="let __torch_function__ answer Tensor.detach by that type, or pass data.as_subclass(weft.Tensor)",
        )
    made._is_param = True  # type: ignore[attr-defined]
    return made


def _rebuild(cls: type[Parameter], data: Tensor, requires_grad: bool) -> Parameter:
    """Rebuild a parameter; unpickling calls it."""
    return cls(data, requires_grad)


class Buffer(Tensor):
    """A tensor that is a module's state without being trained; `persistent` ones are saved."""

    persistent: bool
    __torch_function__: Any = disabled

    def __new__(
        cls,
        data: Tensor | None = None,
        requires_grad: bool = False,
        *,
        persistent: bool = True,
    ) -> Self:
        need_flag("Buffer", requires_grad, "requires_grad")
        source = weft.empty(0) if data is None else need_tensor("Buffer", data, "data")
        made: Self = Tensor._make_subclass(cls, source.detach(), requires_grad)
        made.persistent = persistent
        return made

    def __init__(
        self,
        data: Tensor | None = None,
        requires_grad: bool = False,
        *,
        persistent: bool = True,
    ) -> None:
        """Everything is done by `__new__`."""


def _unknown(what: str) -> NoReturn:
    raise ShapeError(
        f"Can't {what} an uninitialized parameter or buffer. This error usually happens in "
        "`load_state_dict` when trying to load an uninitialized parameter into an initialized one. "
        "Call `forward` to initialize the parameters before accessing their attributes.",
        expected="a parameter with a shape",
        got="one that waits for the first call",
        fix="call the module once, or materialize(shape)",
    )


_ANSWERED = frozenset(
    {
        *(
            "__hash__",
            "__repr__",
            "__get__",
            "__set__",
            "__delete__",
            "size",
            "copy_",
            "is_complex",
            "to",
            "get_device",
        ),
        *(
            "is_floating_point",
            "half",
            "float",
            "double",
            "char",
            "short",
            "int",
            "long",
            "bfloat16",
            "cuda",
            "cpu",
        ),
    }
)


class UninitializedTensorMixin:
    """A parameter or buffer without a shape: it answers questions about itself, and takes part in nothing."""

    _made: type

    @classmethod
    def __torch_function__(
        cls,
        func: object,
        types: object,
        args: object = (),
        kwargs: object = None,
    ) -> Any:
        """Errors: ValueError for all but questions about its kind, and conversions."""
        if getattr(func, "__name__", "") not in _ANSWERED:
            name = getattr(func, "__qualname__", repr(func))
            raise ArgumentError(
                f"Attempted to use an uninitialized parameter in {name}. This error happens when you are using a "
                "`LazyModule` or explicitly manipulating `torch.nn.parameter.UninitializedParameter` objects. When "
                "using LazyModules Call `forward` with a dummy batch to initialize the parameters before calling torch "
                "functions",
                expected="a parameter with a shape",
                got=f"an {cls.__name__}",
                fix="call the module once, or materialize(shape)",
            )
        return disabled(func, types, args, kwargs)

    @property
    def shape(self) -> Any:
        """Errors: ShapeError, always."""
        return _unknown("access the shape of")

    def materialize(
        self, shape: Shape, device: DeviceLike | None = None, dtype: DType | None = None
    ) -> None:
        """Become the tensor of this shape, with any values."""
        plain: Any = self
        where = plain.device if device is None else device
        made = weft.empty(shape, device=where, dtype=plain.dtype if dtype is None else dtype)
        plain.__class__ = self._made
        plain.data = made
        plain.persistent = True

    def share_memory_(self) -> NoReturn:
        """Errors: ShapeError, always."""
        _unknown("share memory on")

    def __repr__(self, **options: object) -> str:
        return f"<{type(self).__name__}>"


class UninitializedParameter(UninitializedTensorMixin, Parameter):
    """A parameter whose shape is found at the first call."""

    _made = Parameter

    def __new__(
        cls,
        requires_grad: bool = True,
        device: DeviceLike | None = None,
        dtype: DType | None = None,
    ) -> UninitializedParameter:
        need_flag("UninitializedParameter", requires_grad, "requires_grad")
        data = weft.empty(0, device=device, dtype=dtype)
        made: UninitializedParameter = Tensor._make_subclass(cls, data, requires_grad)
        return made

    def __init__(
        self,
        requires_grad: bool = True,
        device: DeviceLike | None = None,
        dtype: DType | None = None,
    ) -> None:
        """Everything is done by `__new__`."""

    def __deepcopy__(self, memo: dict[int, Any]) -> Parameter:
        if id(self) not in memo:
            memo[id(self)] = type(self)(self.requires_grad, dtype=self.dtype)
        copied: Parameter = memo[id(self)]
        return copied

    def __reduce_ex__(self, protocol: object) -> tuple[Any, ...]:
        return type(self), (self.requires_grad, None, self.dtype)


class UninitializedBuffer(UninitializedTensorMixin, Tensor):
    """A buffer whose shape is found at the first call."""

    _made = Buffer
    persistent = True

    def __new__(
        cls,
        requires_grad: bool = False,
        device: DeviceLike | None = None,
        dtype: DType | None = None,
        persistent: bool = True,
    ) -> UninitializedBuffer:
        need_flag("UninitializedBuffer", requires_grad, "requires_grad")
        data = weft.empty(0, device=device, dtype=dtype)
        made: UninitializedBuffer = Tensor._make_subclass(cls, data, requires_grad)
        return made

    def __init__(
        self,
        requires_grad: bool = False,
        device: DeviceLike | None = None,
        dtype: DType | None = None,
        persistent: bool = True,
    ) -> None:
        """Everything is done by `__new__`."""

    def __deepcopy__(self, memo: dict[int, Any]) -> UninitializedBuffer:
        if id(self) not in memo:
            memo[id(self)] = type(self)(self.requires_grad, dtype=self.dtype)
        copied: UninitializedBuffer = memo[id(self)]
        return copied

    def __reduce_ex__(self, protocol: object) -> tuple[Any, ...]:
        return type(self), (self.requires_grad, None, self.dtype)


def is_lazy(value: Tensor) -> bool:
    """True if a parameter or buffer has no shape yet.

    Args:
        value: a parameter or buffer.
    """
    return isinstance(value, UninitializedParameter | UninitializedBuffer)


def need_shape(what: str, value: Tensor) -> None:
    """Errors: ValueError where a parameter or buffer has no shape yet."""
    if is_lazy(value):
        raise ArgumentError(
            f"{what} can't have uninitialized parameters. Make sure to run the dummy forward before applying it; "
            "an uninitialized parameter has no shape",
            expected="a parameter with a shape",
            got=repr(value),
            fix="call the lazy module once before",
        )
