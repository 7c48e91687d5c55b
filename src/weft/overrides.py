"""PyTorch's `torch.overrides`: types and modes that answer calls of the library's functions.

Functions here tell, for classes with `__torch_function__` and functions, whether and by whom a call is answered, and
which functions can be. `weft.engine.dispatch.torch_function` asks; `weft.tensor.torch_function.mode_hooks` lets modes
see operators.
"""

from __future__ import annotations

import functools
import inspect
from collections.abc import Callable, Iterable
from contextlib import contextmanager, nullcontext, suppress
from types import MethodWrapperType, ModuleType
from typing import Any

import weft
from weft import Tensor
from weft.engine.api.api_function import Public
from weft.engine.dispatch.core_hooks import bind_matmul
from weft.engine.dispatch.torch_function import (
    DisableTorchFunctionSubclass,
    answering_of,
    ask,
    enter_mode,
    is_muted,
    leave_mode,
    modes_of_thread,
)
from weft.tensor.torch_function.mode_hooks import forget_operators, see_operators
from weft.tensor.torch_function.subclasses import asked_members, member, not_converted

__all__ = [
    "DisableTorchFunctionSubclass",
    "TorchFunctionMode",
    "get_default_nowrap_functions",
    "get_ignored_functions",
    "get_overridable_functions",
    "get_testing_overrides",
    "handle_torch_function",
    "has_torch_function",
    "has_torch_function_unary",
    "has_torch_function_variadic",
    "is_tensor_like",
    "is_tensor_method_or_property",
    "resolve_name",
    "wrap_torch_function",
]

# -- modes -------------------------------------------------------------------------------------------------------------


def see_products() -> None:
    """From now on `a @ b` is a call that modes see."""
    bind_matmul(_seen_product)


def _seen_product(a: object, b: object) -> Any:
    if isinstance(a, Tensor) and isinstance(b, Tensor):
        return weft.matmul(a, b)
    return NotImplemented


class TorchFunctionMode:
    """A context in which each call `func(*args, **kwargs)` is `mode.__torch_function__(func, types, args, kwargs)`.

    While it runs, the mode is off: it may call `func` itself. NotImplemented lets the call go on.

    Example:
        >>> import weft
        >>> class Names(weft.overrides.TorchFunctionMode):
        ...     def __torch_function__(self, function, types, arguments=(), options=None):
        ...         print(function.__name__)
        ...         return function(*arguments, **(options or {}))
        >>> with Names():
        ...     x = weft.ones(2).exp()
        ones
        exp
    """

    def __torch_function__(
        self,
        func: Any,
        types: Any,
        args: Any = (),
        kwargs: Any = None,
    ) -> Any:
        """Call the function; subclasses do something about it."""
        return func(*args, **(kwargs or {}))

    def __enter__(self) -> TorchFunctionMode:
        see_operators()
        enter_mode(self, forget_operators)
        return self

    def __exit__(self, *exception: object) -> None:
        # None is left where it was entered on another thread, or has ended before.
        if any(mode is self for mode in modes_of_thread()):
            leave_mode(self)
            forget_operators()


BaseTorchFunctionMode = TorchFunctionMode


def _get_current_function_mode() -> Any:
    """The mode that was entered last, or None."""
    return (modes_of_thread() or [None])[-1]


def _get_current_function_mode_stack() -> list[Any]:
    """The modes that are on, the outermost first."""
    return modes_of_thread()


@contextmanager
def _enable_torch_function() -> Any:
    """A context in which types are asked, which is how it is anyway."""
    yield


# -- types -------------------------------------------------------------------------------------------------------------


def enable_reentrant_dispatch() -> nullcontext[None]:
    """A context that changes nothing: there is no dispatch below functions to enter again."""
    return nullcontext()


def is_tensor_like(inp: object) -> bool:
    """True if an object is a tensor, or answers calls itself.

    Args:
        inp: any object.

    Example:
        >>> import weft
        >>> weft.overrides.is_tensor_like(weft.ones(2)), weft.overrides.is_tensor_like([1.0])
        (True, False)
    """
    return isinstance(inp, Tensor) or hasattr(inp, "__torch_function__")


def has_torch_function(relevant_args: Iterable[object]) -> bool:
    """True if a mode is on, or an argument is of a type that answers calls itself and is to be asked.

    Args:
        relevant_args: the arguments whose types are looked at.

    Example:
        >>> import weft
        >>> class Length:
        ...     @classmethod
        ...     def __torch_function__(cls, function, types, arguments=(), options=None):
        ...         return "asked"
        >>> weft.overrides.has_torch_function((weft.ones(2), Length()))
        True
    """
    if modes_of_thread():
        return True
    return not is_muted() and bool(answering_of(relevant_args))


def has_torch_function_unary(arg: object) -> bool:
    """`has_torch_function` of one argument.

    Args:
        arg: the argument whose type is looked at.

    Example:
        >>> import weft
        >>> weft.overrides.has_torch_function_unary(weft.ones(2))  # a plain tensor answers for itself
        False
    """
    return has_torch_function((arg,))


def has_torch_function_variadic(*args: object) -> bool:
    """`has_torch_function` of these arguments.

    Args:
        *args: the arguments whose types are looked at.

    Example:
        >>> import weft
        >>> weft.overrides.has_torch_function_variadic(weft.ones(2), 1.0)
        False
    """
    return has_torch_function(args)


def _get_overloaded_args(
    relevant_args: Iterable[object], get_type_fn: Callable[[object], type] = type
) -> list[Any]:
    """One argument of each type that answers calls, subclasses first."""
    return [] if is_muted() else answering_of(relevant_args)


def handle_torch_function(
    public_api: object, relevant_args: Iterable[object], *args: object, **kwargs: object
) -> Any:
    """The answer of the mode, or of a type among the relevant arguments, to a call.

    Args:
        public_api: the function that was called, which types are told.
        relevant_args: the arguments whose types are asked.
        *args: the positional arguments of the call.
        **kwargs: the keyword arguments of the call.

    Errors: TypeError if none answers.

    Example:
        >>> import weft
        >>> class Length:
        ...     @classmethod
        ...     def __torch_function__(cls, function, types, arguments=(), options=None):
        ...         return "asked"
        >>> weft.overrides.handle_torch_function(weft.add, (Length(),), Length(), 1)
        'asked'
    """
    return ask(public_api, tuple(relevant_args), args, kwargs)


def wrap_torch_function(dispatcher: Callable[..., Iterable[object]]) -> Callable[..., Any]:
    """A decorator: ask the types of what `dispatcher` returns for the arguments of a call, before the function runs.

    Args:
        dispatcher: takes the arguments of a call, and returns those whose types are asked.
    """

    def decorate(func: Callable[..., object]) -> Callable[..., Any]:
        @functools.wraps(func)
        def wrapped(*args: object, **kwargs: object) -> Any:
            relevant = tuple(dispatcher(*args, **kwargs))
            if has_torch_function(relevant):
                return handle_torch_function(wrapped, relevant, *args, **kwargs)
            return func(*args, **kwargs)

        return wrapped

    return decorate


# -- functions ---------------------------------------------------------------------------------------------------------


def _namespaces() -> dict[str, Any]:
    """The namespaces of functions that types can answer, by PyTorch's names; earlier names count."""
    return {
        "torch": weft,
        "torch.nn.functional": weft.nn.functional,
        "torch.nn.init": weft.nn.init,
        "torch.linalg": weft.linalg,
        "torch.fft": weft.fft,
        "torch.special": weft.special,
        "torch.Tensor": Tensor,
    }


def _members(place: object) -> dict[str, Any]:
    """The functions of a namespace that ask types: those of the border, and operators and properties of Tensor."""
    found: dict[str, Any] = {}
    for name, value in dict(vars(place)).items():
        if isinstance(value, Public) and value.asks:
            found[name] = value
    if place is Tensor:
        for name in asked_members():
            found[name] = member(name)
    return found


@functools.cache
def _names() -> dict[Any, str]:
    """Each function that types can answer, and its name."""
    names: dict[Any, str] = {}
    for prefix, place in _namespaces().items():
        for name, function in _members(place).items():
            end = ".__get__" if isinstance(function, MethodWrapperType) else ""
            names.setdefault(function, f"{prefix}.{name}{end}")
    return names


def resolve_name(f: object) -> str | None:
    """PyTorch's name of a function, such as `torch.Tensor.add`; None of one that types cannot answer.

    Args:
        f: a public function, method, or getter of a property.
    """
    return _names().get(f)


def name_of(function: Callable[..., object]) -> str:
    """The name of a function in messages."""
    try:
        known = resolve_name(function)
    except TypeError:  # it has no hash
        known = None
    module = getattr(function, "__module__", None)
    return known or f"{module}.{getattr(function, '__name__', function)}"


@functools.cache
def get_overridable_functions() -> dict[Any, list[Any]]:
    """The functions that types can answer, by the namespace in which they stand.

    Example:
        >>> import weft
        >>> weft.add in weft.overrides.get_overridable_functions()[weft]
        True
    """
    return {place: list(_members(place).values()) for place in _namespaces().values()}


@functools.cache
def get_ignored_functions() -> set[Any]:
    """The public functions that types are not asked about: those that make tensors, and those about settings.

    Example:
        >>> import weft
        >>> weft.is_tensor in weft.overrides.get_ignored_functions()
        True
    """
    places = [place for place in _namespaces().values() if isinstance(place, ModuleType)]
    values = [value for place in places for value in dict(vars(place)).values()]
    return {value for value in values if isinstance(value, Public) and not value.asks}


def get_default_nowrap_functions() -> set[Any]:
    """The functions whose results `Tensor.__torch_function__` leaves as they are."""
    return set(not_converted())


@functools.cache
def get_testing_overrides() -> dict[Any, Callable[..., Any]]:
    """For each function that types can answer, one of its signature that returns -1."""
    return {function: _stand_in(function) for function in _names()}


def _stand_in(function: Callable[..., object]) -> Callable[..., Any]:
    def override(*args: object, **kwargs: object) -> int:
        return -1

    if isinstance(function, MethodWrapperType):
        parameters = [inspect.Parameter("self", inspect.Parameter.POSITIONAL_OR_KEYWORD)]
        override.__signature__ = inspect.Signature(parameters)  # type: ignore[attr-defined]
        return override
    with suppress(TypeError, ValueError):  # it does not say what it takes
        override.__signature__ = inspect.signature(function)  # type: ignore[attr-defined]
    return override


def is_tensor_method_or_property(func: Callable[..., object]) -> bool:
    """True if a function is a method of Tensor, or the getter of one of its properties.

    Args:
        func: a public function, method, or getter of a property.
    """
    name = resolve_name(func)
    return getattr(func, "__name__", "") == "__get__" or (name or "").startswith("torch.Tensor.")
