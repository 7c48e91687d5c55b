"""The setting of deterministic algorithms, as programs make, read and restore it, and what new memory shows under it.

Every result is the same bits on every run and thread count whatever the setting says. What changes is `empty`: memory
that nobody has written shows zeros, or, under the setting, values that stand out.
"""

from __future__ import annotations

import math
from typing import Any

import numpy as np

from weft.engine.ir.dtype import DType
from weft.errors import ArgumentError, ArgumentTypeError

MODES = ("default", "warn", "error")


class Setting:
    """The setting of deterministic algorithms: on or off, warnings only, and whether fresh memory is filled."""

    enabled = False
    warn_only = False
    fills = True


setting = Setting()


def unwritten(dtype: DType) -> Any:
    """The content of memory that nobody has written: 0; under the setting nan, or the largest integer."""
    if not (setting.enabled and setting.fills):
        return 0
    if dtype.category >= 2:
        return math.nan
    return True if dtype.name == "bool" else int(np.iinfo(dtype.numpy).max)


def use_deterministic_algorithms(mode: bool, *, warn_only: bool = False) -> None:
    """Remember that results are to repeat, which they do in any case: every result is the same bits on every run and
    thread count. `empty` shows values that stand out from now on (see `weft.utils.deterministic`)."""
    setting.enabled, setting.warn_only = bool(mode), bool(warn_only)


def are_deterministic_algorithms_enabled() -> bool:
    """True if `use_deterministic_algorithms` is set; results repeat in any case."""
    return setting.enabled


def is_deterministic_algorithms_warn_only_enabled() -> bool:
    """True if it is set with `warn_only`."""
    return setting.warn_only


def get_deterministic_debug_mode() -> int:
    """The same setting as a number: 0 default, 1 warn, 2 error."""
    if not setting.enabled:
        return 0
    return 1 if setting.warn_only else 2


def set_deterministic_debug_mode(debug_mode: int | str) -> None:
    """Make the setting by a number, or by 'default', 'warn', 'error'. Errors: RuntimeError on another, TypeError."""
    if not isinstance(debug_mode, (int, str)):
        raise ArgumentTypeError(
            f"debug_mode must be str or int, but got {type(debug_mode)}",
            expected="0, 1, 2, or `default`, `warn`, `error`",
            got=repr(debug_mode),
            fix="pass one of these",
        )
    number = MODES.index(debug_mode) if debug_mode in MODES else debug_mode
    if number not in (0, 1, 2):
        listed = "`default`, `warn`, `error`" if isinstance(debug_mode, str) else "0, 1, 2"
        raise ArgumentError(
            f"invalid value of debug_mode, expected one of {listed}",
            expected=listed,
            got=repr(debug_mode),
            fix="pass one of these",
        )
    use_deterministic_algorithms(number != 0, warn_only=number == 1)


FUNCTIONS: dict[str, Any] = {
    function.__name__: function
    for function in (
        use_deterministic_algorithms,
        are_deterministic_algorithms_enabled,
        is_deterministic_algorithms_warn_only_enabled,
        get_deterministic_debug_mode,
        set_deterministic_debug_mode,
    )
}
