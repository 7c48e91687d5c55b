"""Users' subclasses of Tensor, as PyTorch has them: `class Image(weft.Tensor)`, with `__torch_function__` or without.

A class gets `Asking` among its bases as it is made, whose operators, properties and special methods go to
`__torch_function__`; methods and functions ask at the API boundary (`weft.engine.dispatch.torch_function`). Tensor
itself stays as it is, so that plain tensors pay nothing. Classes whose `__torch_function__` is off (Parameter, Buffer)
stay as they are, too.
"""

from __future__ import annotations

from collections.abc import Callable
from functools import cache
from typing import Any

from weft.engine.api.api_function import Public
from weft.engine.dispatch.torch_function import answering_of, ask, disabled, is_muted, search_lists
from weft.engine.frontend import views
from weft.engine.frontend.tensor import Tensor
from weft.errors import ArgumentTypeError
from weft.ops import OPS
from weft.ops.registry import named
from weft.tensor.arguments import need_tensor

_ALIAS = named(OPS["view"], "AliasBackward0")
_new = Tensor.__new__  # a handle of nothing
_PLAIN = frozenset(
    [
        "__new__",
        "__init__",
        "__hash__",
        "__doc__",
        "__dict__",
        "__getbuffer__",
        "__array_namespace__",
        "__array_priority__",
        "__torch_function__",
        "__init_subclass__",
        "_storage",
        "_shape",
        "_dtype",
        "strides",
        "base",
        "view_chain",
        "hooks",
        "counter",
        "offset",
        "version_seen",
        "creation",
        "view_transform",
        "leaf_grad",
        "retains",
        "inference",
        "_make_subclass",
    ]
)  # what a subclass has as Tensor has it: how it is made, and Weft's own fields
_REFLECTED = {
    f"__r{name}__": f"__{name}__"
    for name in [
        "add",
        "sub",
        "mul",
        "mod",
        "lshift",
        "rshift",
        "and",
        "xor",
        "or",
        "floordiv",
        "truediv",
        "matmul",
        "pow",
    ]
}
_METHOD_OF = {
    "__add__": "add",
    "__radd__": "add",
    "__iadd__": "add_",
    "__sub__": "sub",
    "__isub__": "sub_",
    "__mul__": "mul",
    "__rmul__": "mul",
    "__imul__": "mul_",
    "__truediv__": "div",
    "__itruediv__": "div_",
    "__ifloordiv__": "floor_divide_",
    "__mod__": "remainder",
    "__imod__": "remainder_",
    "__pow__": "pow",
    "__ipow__": "pow_",
    "__matmul__": "matmul",
    "__ne__": "ne",
    "__lt__": "lt",
    "__le__": "le",
    "__gt__": "gt",
    "__ge__": "ge",
    "__neg__": "neg",
    "__pos__": "positive",
    "__abs__": "abs",
}  # the methods that `__torch_function__` gets for operators, as in PyTorch
_OF_ROWS = {
    "floor_divide": "__floordiv__",
    "bitwise_and": "__and__",
    "bitwise_or": "__or__",
    "bitwise_xor": "__xor__",
    "bitwise_left_shift": "__lshift__",
    "bitwise_right_shift": "__rshift__",
}
_SWAPPED_ROWS = {
    "sub": "__rsub__",
    "div": "__rtruediv__",
    "floor_divide": "__rfloordiv__",
    "remainder": "__rmod__",
    "pow": "__rpow__",
    "matmul": "__rmatmul__",
    "bitwise_and": "bitwise_and",
    "bitwise_or": "bitwise_or",
    "bitwise_xor": "bitwise_xor",
    "bitwise_left_shift": "__rlshift__",
    "bitwise_right_shift": "__rrshift__",
}
replaced: dict[str, Any] = {}  # the members of Tensor that `seeing` has put others in the place of
_NOT_CONVERTED = ("_base", "grad", "_grad")


def members_of_tensor() -> dict[str, Any]:
    """The members of Tensor, also while modes see its operators (`seeing`)."""
    return {**Tensor.__dict__, **replaced}


def asked_members() -> dict[str, Any]:
    """The members of Tensor that do not ask by themselves, where a subclass or a mode is to be asked."""
    return {
        name: found
        for name, found in members_of_tensor().items()
        if name not in _PLAIN and not isinstance(found, (Public, str, int))
    }


def method_of(name: str) -> Any:
    """The function that is asked about for an operator: PyTorch's alias of it where there is one."""
    members = members_of_tensor()
    return members[_METHOD_OF.get(name, name)]


def is_operator(name: str) -> bool:
    """True if a special method is that of an operator."""
    return name in _METHOD_OF or name in _REFLECTED


def member(name: str) -> Any:
    """The member of Tensor under a name: a method, or the getter of a property."""
    found = members_of_tensor()[name]
    return found.__get__ if hasattr(found, "__set__") else found


@cache
def not_converted() -> frozenset[Any]:
    """The functions whose results stay what they are where those of others become instances of the subclass."""
    return frozenset(member(name) for name in _NOT_CONVERTED)


def convert(result: object, cls: type[Tensor]) -> Any:
    """A result, and the tensors in a list or tuple of results, as instances of a subclass."""
    if cls is Tensor:
        return result
    if isinstance(result, Tensor) and not isinstance(result, cls):
        return as_subclass(result, cls)
    if isinstance(result, (tuple, list)) and any(isinstance(part, Tensor) for part in result):
        parts = [convert(part, cls) for part in result]
        return type(result)(*parts) if hasattr(result, "_fields") else type(result)(parts)
    return result


def torch_function(
    cls: type[Tensor],
    func: Any,
    types: Any,
    args: object = (),
    kwargs: object = None,
) -> Any:
    """`Tensor.__torch_function__`: call the function; tensors that it returns become instances of `cls`. NotImplemented
    where a type is involved that `cls` does not come from."""
    if not all(issubclass(cls, kind) for kind in types):
        return NotImplemented
    result = disabled(func, types, args, kwargs)
    return result if _stays(func) else convert(result, cls)


def _stays(func: Callable[..., object]) -> bool:
    return getattr(func, "__name__", "") == "__get__" and func in not_converted()


def as_subclass(self: Tensor, cls: type[Tensor]) -> Any:
    """The same values as an instance of a subclass, which shares memory and history. Errors: TypeError on others."""
    if not isinstance(cls, type) or not issubclass(cls, Tensor):
        raise ArgumentTypeError(
            "as_subclass(): cls must be a subclass of Tensor",
            expected="a class that inherits from weft.Tensor",
            got=repr(cls),
            fix="pass the class itself",
        )
    need_tensor("as_subclass", self, "self")
    steps = views.logical_strides(self)
    shown = views.view(_ALIAS, self, self._shape, self._shape, steps, self.offset)
    return shown if cls is Tensor else views.moved_into(shown, cls)


def new(cls: type[Tensor], *arguments: list[float], **keywords: object) -> Any:
    """`Tensor.__new__`: a handle of nothing, or with arguments what the constructor makes of them."""
    made = _new(cls)
    if arguments or keywords:
        Tensor.__init__(made, *arguments, **keywords)
    return made


# -- what stands between a subclass and Tensor -------------------------------------------------------------------------


def _next(self: Tensor, name: str) -> Any:
    """A member as it is without `Asking`."""
    return getattr(super(asking_class(), self), name)


def _special(name: str) -> Callable[..., Any]:
    """A special method, or `detach`, that asks the subclass."""
    plain = members_of_tensor()[name]

    def call(self: Tensor, *given: object, **keywords: object) -> Any:
        if is_muted():
            return _next(self, name)(*given, **keywords)
        args = (self, *given)
        return ask(plain, args, args, keywords)

    return _called(call, name)


def _operator(name: str) -> Callable[..., Any]:
    """An operator that asks the subclass: by the method that PyTorch's is an alias of, where there is one."""
    special = _special(name)
    method = method_of(name)
    swapped = _REFLECTED.get(name)
    straight = method_of(swapped) if swapped else None

    def call(self: object, *given: Any) -> Any:
        if given and not isinstance(given[0], (Tensor, int, float, complex)):
            try:
                return special(self, *given)
            except TypeError:  # nobody answers: Python asks the other operand
                return NotImplemented
        if is_muted():
            return special(self, *given)
        if straight is not None and isinstance(given[0], Tensor):
            args = (given[0], self)
            return ask(straight, args, args, {})
        args = (self, *given)
        return ask(method, args, args, {})

    return _called(call, name)


def _called(call: Callable[..., object], name: str) -> Callable[..., Any]:
    call.__name__, call.__doc__ = name, getattr(getattr(Tensor, name), "__doc__", None)
    return call  # type: ignore[no-any-return]


def ask_operand(row: str, a: object, b: object) -> Any:
    """The answer of an operand that is no tensor to an operator with one, by its `__torch_function__`; NotImplemented
    if it has none. `row` is the name of the op that the operator would record."""
    if is_muted() or not answering_of((a, b)):
        return NotImplemented
    args = (a, b) if isinstance(a, Tensor) else (b, a)
    straight = _OF_ROWS.get(row, row)
    swapped = straight if args[0] is a else _SWAPPED_ROWS.get(row, straight)
    return ask(members_of_tensor()[swapped], args, args, {})


def ask_others(name: str, args: tuple[object, ...]) -> Any:
    """The answer of the type of another operand, of an index or of a written value to a plain tensor's operator or
    indexing (its method with these arguments); NotImplemented if it is not asked."""
    relevant = answering_of(args[1:])
    if is_muted() or not relevant:
        return NotImplemented
    return ask(method_of(name), relevant, args, {})


def _iterate(self: Tensor) -> Any:
    return iter(_next(self, "__iter__")() if is_muted() else self.unbind(0))


def _property(name: str) -> property:
    """A property that asks the subclass, to be read and to be set."""
    plain: Any = members_of_tensor()[name]

    def read(self: Tensor) -> Any:
        return plain.__get__(self) if is_muted() else ask(plain.__get__, (self,), (self,), {})

    def write(self: Tensor, value: object) -> None:
        if is_muted():
            plain.__set__(self, value)
        else:
            ask(plain.__set__, (self,), (self, value), {})

    def delete(self: Tensor) -> None:
        plain.__delete__(self)

    return property(read, write, delete, getattr(plain, "__doc__", None))


def _asking_members() -> dict[str, Any]:
    """All members of Tensor that would not ask by themselves."""
    members: dict[str, Any] = {}
    for name, found in asked_members().items():
        if hasattr(found, "__set__"):
            members[name] = _property(name)
        elif is_operator(name):
            members[name] = _operator(name)
        else:
            members[name] = _special(name)
    return {**members, "__iter__": _iterate}


@cache
def asking_class() -> Any:
    """`Asking`: the base that subclasses get, made when the first one is."""

    def init(self: Tensor, *arguments: Tensor | int | list[float], **keywords: object) -> None:
        """Everything is done by `__new__`."""

    own = {"__slots__": (), "__module__": __name__, "__init__": init, "__hash__": Tensor.__hash__}
    search_lists()
    return type("Asking", (Tensor,), {**_asking_members(), **own}, asks=False)


def init_subclass(cls: Any, /, asks: bool = True, **keywords: object) -> None:
    """Give a new subclass `Asking` in the place of Tensor among its bases, unless its `__torch_function__` is off or
    it says `asks=False`."""
    super(Tensor, cls).__init_subclass__(**keywords)
    if not asks or getattr(cls, "__torch_function__", None) is disabled:
        return
    base = asking_class()
    if base in cls.__mro__:
        return
    bases = tuple(base if one is Tensor else one for one in cls.__bases__)
    cls.__bases__ = bases if base in bases else (*bases, base)


def asks(kind: type) -> bool:
    """True if a class of tensors is a user's that asks."""
    return kind is not Tensor and asking_class() in kind.__mro__


METHODS: dict[str, Any] = {
    "as_subclass": as_subclass,
    "__torch_function__": classmethod(torch_function),
    "__init_subclass__": classmethod(init_subclass),
    "__new__": staticmethod(new),
}
