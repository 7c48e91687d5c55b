"""The options of a gradient check, and which of them need each other."""

from __future__ import annotations

from typing import NamedTuple

from weft.errors import AssertedError


class GradcheckOptions(NamedTuple):
    """The options of `gradcheck`."""

    eps: float
    atol: float
    rtol: float
    nondet_tol: float
    check_undefined_grad: bool
    check_grad_dtypes: bool
    check_batched_grad: bool
    check_batched_forward_grad: bool
    check_forward_ad: bool
    check_backward_ad: bool
    fast_mode: bool


def need_one(given: bool, names: str) -> None:
    """Errors: AssertionError where neither of two options is on."""
    if not given:
        raise AssertedError(
            f"Expected at least one of {names} to be True",
            expected=names,
            got="neither",
            fix="leave one of them on",
        )


def need_for(option: bool, other: bool, name: str, needed: str) -> None:
    """Errors: AssertionError where an option is on without what it needs."""
    if option and not other:
        raise AssertedError(
            f"Setting {name}=True requires {needed} to be True",
            expected=f"{needed}=True",
            got=f"{name}=True without it",
            fix=f"pass {name}=False, or {needed}=True",
        )
