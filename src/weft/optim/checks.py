"""Options of optimizers: what is refused when one is made, each with what PyTorch's users know as its message."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

from weft import Tensor
from weft.errors import ArgumentError, ArgumentTypeError

_NOT_OPTIONS = {"self", "params", "__class__"}


def options(given: dict[str, object]) -> dict[str, Any]:
    """The options among the local names of a constructor."""
    return {name: value for name, value in given.items() if name not in _NOT_OPTIONS}


def check_number(
    label: str, value: object, condition: str, holds: Callable[[Any], bool], message: str = ""
) -> None:
    """Errors: TypeError for an option that is no number, ValueError for one out of range."""
    try:
        fits = bool(holds(value))
    except TypeError:
        raise ArgumentTypeError(
            f"{label} must be a number",
            expected=f"a number with {label} {condition}",
            got=repr(value),
            fix="convert it with float()",
        ) from None
    if not fits:
        raise ArgumentError(
            message or f"Invalid {label}: {value}",
            expected=f"{label} {condition}",
            got=repr(value),
            fix="see how the option was computed",
        )


def need_pair(label: str, value: tuple[float | None, ...]) -> None:
    """Errors: TypeError for an option that is not two values."""
    if not isinstance(value, (tuple, list)) or len(value) != 2:
        raise ArgumentTypeError(
            f"{label} must be a pair of numbers",
            expected="a tuple of two",
            got=repr(value),
            fix=f"pass {label}=(first, second)",
        )


def check_not_negative(**values: object) -> None:
    """ValueError for an option below zero; underscores in its label are spaces, two of them one underscore."""
    for label, value in values.items():
        name = label.replace("__", "\0").replace("_", " ").replace("\0", "_")
        check_number(name, value, ">= 0", lambda number: number >= 0.0)


def check_rate(lr: object, message: str = "") -> None:
    """Errors: ValueError for a learning rate below zero, or a tensor of several numbers."""
    if isinstance(lr, Tensor) and lr.numel() != 1:
        raise ArgumentError(
            "Tensor lr must be 1-element",
            expected="a number, or a tensor with one element",
            got=f"a tensor of shape {list(lr.shape)}",
            fix="give groups of parameters a rate of their own",
        )
    check_number(
        "learning rate", lr, ">= 0", lambda rate: rate >= 0.0, message and f"{message}{lr}"
    )


def check_betas(betas: tuple[float, ...]) -> None:
    """Errors: TypeError for anything but two numbers, ValueError where one is not in [0, 1)."""
    if not isinstance(betas, tuple | list) or len(betas) != 2:
        raise ArgumentTypeError(
            "betas must be two numbers",
            expected="a pair, such as (0.9, 0.999)",
            got=repr(betas),
            fix="pass betas=(beta1, beta2)",
        )
    for index, beta in enumerate(betas):
        check_number(
            f"beta parameter at index {index}", beta, "in [0, 1)", lambda b: 0.0 <= b < 1.0
        )


def check_fused(fused: bool | None, foreach: bool | None, differentiable: bool) -> None:
    """Errors: RuntimeError for ways to run that exclude each other."""
    other = "foreach" if foreach else "differentiable" if differentiable else None
    if fused and other is not None:
        raise ArgumentError(
            "`fused` and `foreach` cannot be `True` together."
            if foreach
            else "`fused` does not support `differentiable`",
            expected=f"fused or {other}",
            got=f"fused=True and {other}=True",
            fix="leave both out: every step is fused",
        )


def check_real(what: str, parameter: Tensor) -> None:
    """Errors: RuntimeError for a complex parameter, where an algorithm knows no such thing."""
    if parameter.is_complex():
        raise ArgumentError(
            f"{what} does not support complex parameters",
            expected="a real parameter",
            got=parameter.dtype.name,
            fix="optimize weft.view_as_real(parameter)",
        )
