"""Checks of a module: names, members and paths that it cannot have, and their errors."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

from weft import Tensor
from weft.errors import (
    ArgumentError,
    ArgumentTypeError,
    KindError,
    MemberNameError,
    MissingError,
    rooted,
)
from weft.nn.module.members import MODULE, PARAMETER
from weft.nn.parameter import Parameter

if TYPE_CHECKING:
    from weft.nn.module.module import Module


def typename(value: object) -> str:
    """The type as messages name it; a type or a function by its own name."""
    if isinstance(value, Tensor) and not isinstance(value, Parameter):
        return str(value.type())
    kind: Any = value if hasattr(value, "__qualname__") else type(value)
    own = kind.__module__ == "builtins"
    return kind.__qualname__ if own else rooted(f"{kind.__module__}.{kind.__qualname__}")


# -- making modules ------------------------------------------------------------------------------


def no_arguments(
    module: Module, args: tuple[int, ...], kwargs: dict[str, object]
) -> ArgumentTypeError:
    """The error of passing arguments to `Module.__init__`."""
    name = type(module).__name__
    if kwargs:
        return ArgumentTypeError(
            f"{name}.__init__() got an unexpected keyword argument '{next(iter(kwargs))}'",
            expected="no arguments",
            got=", ".join(kwargs),
            fix="take the arguments in the __init__ of the class",
        )
    return ArgumentTypeError(
        f"{name}.__init__() takes 1 positional argument but {len(args) + 1} were given",
        expected="no arguments",
        got=f"{len(args)} arguments",
        fix="take the arguments in the __init__ of the class",
    )


def before_init(what: str) -> MissingError:
    """The error of assigning a member before `super().__init__()`."""
    return MissingError(
        f"cannot assign {what} before Module.__init__() call",
        expected="super().__init__() first",
        got=f"an assignment of {what} before it",
        fix="call super().__init__() at the start of __init__",
    )


# -- members -------------------------------------------------------------------------------------


def check_name(what: str, name: str) -> None:
    """Errors: TypeError, KeyError on what cannot be the name of a member."""
    if not isinstance(name, str):
        raise ArgumentTypeError(
            f"{what} name should be a string. Got {typename(name)}",
            expected="a string",
            got=repr(name),
            fix="pass a string",
        )
    if "." in name:
        got = f", got: {name}" if what == "module" else ""
        raise MemberNameError(
            f'{what} name can\'t contain "."{got}',
            expected="a name without dots",
            got=repr(name),
            fix="set it on the submodule that the path leads to",
        )
    if name == "":
        raise MemberNameError(
            f'{what} name can\'t be empty string ""',
            expected="a name",
            got="an empty string",
            fix="pass a name",
        )


def taken(name: str) -> MemberNameError:
    """The error of a name that another attribute has."""
    return MemberNameError(
        f"attribute '{name}' already exists",
        expected="a name that is free",
        got=repr(name),
        fix="choose another name, or delete the attribute first",
    )


def check_parameter(name: str, param: Tensor) -> None:
    """Errors: TypeError on what is no Parameter, ValueError on one that was computed."""
    if not isinstance(param, Parameter):
        raise ArgumentTypeError(
            f"cannot assign '{typename(param)}' object to parameter '{name}' "
            "(weft.nn.Parameter or None required)",
            expected="weft.nn.Parameter or None",
            got=typename(param),
            fix="wrap the tensor in weft.nn.Parameter(...)",
        )
    if param.grad_fn is not None:
        raise ArgumentError(
            f"Cannot assign non-leaf Tensor to parameter '{name}'. Model parameters must be "
            f"created explicitly. To express '{name}' as a function of another Tensor, compute "
            "the value in the forward() method.",
            expected="a parameter that nothing computed",
            got=f"a result of {param.grad_fn.name()}",
            fix="compute the value in forward()",
        )


def wrong_buffer(name: str, value: object) -> ArgumentTypeError:
    """The error of registering something else as a buffer."""
    return ArgumentTypeError(
        f"cannot assign '{typename(value)}' object to buffer '{name}' "
        "(weft Tensor or None required)",
        expected="a tensor or None",
        got=typename(value),
        fix="convert it with weft.tensor(...)",
    )


def no_module(value: object) -> ArgumentTypeError:
    """The error of adding something else as a module."""
    return ArgumentTypeError(
        f"{typename(value)} is not a Module subclass",
        expected="a weft.nn.Module or None",
        got=typename(value),
        fix="pass an instance of a module",
    )


def wrong_kind(name: str, value: object, kind: str) -> ArgumentTypeError:
    """The error of giving a registered name a value of another kind."""
    what, expected = {
        PARAMETER: ("parameter", "weft.nn.Parameter or None"),
        MODULE: ("child module", "weft.nn.Module or None"),
    }.get(kind, ("buffer", "weft.nn.Buffer, weft.Tensor or None"))
    return ArgumentTypeError(
        f"cannot assign '{typename(value)}' as {what} '{name}' ({expected} expected)",
        expected=expected,
        got=typename(value),
        fix="wrap it, or delete the name first",
    )


# -- paths ---------------------------------------------------------------------------------------


def missing(
    owner: Module,
    name: str,
    what: str = "an attribute",
    listing: str = "named_modules() or state_dict()",
) -> MissingError:
    """The error of a path that leads to nothing."""
    return MissingError(
        f"{owner._get_name()} has no attribute `{name}`",
        expected=f"{what} of {owner._get_name()}",
        got=repr(name),
        fix=f"list the names with {listing}",
    )


def no_replacement(module: str) -> KindError:
    """`set_submodule` with something else: PyTorch's ValueError, and a TypeError."""
    return KindError(
        f"`module` is not an nn.Module, found {type(module)}",
        expected="a module",
        got=type(module).__name__,
        fix="pass an instance of a module",
    )


def no_module_at(name: str, value: object) -> MissingError:
    """The error of a path that leads through something else than modules."""
    return MissingError(
        f"`{name}` is not an nn.Module",
        expected="a module at each step of the path",
        got=typename(value),
        fix="list the names with named_modules()",
    )


def wrong_member(owner: Module, name: str, article: str) -> MissingError:
    """The error of a path that leads to a member of another kind."""
    return MissingError(
        f"`{name}` is not {article}",
        expected=str(article),
        got=type(getattr(owner, name)).__name__,
        fix="use getattr for other attributes",
    )
