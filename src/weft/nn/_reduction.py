"""Words for reductions of losses as PyTorch's older names for them, and as the numbers that its operators take."""

from __future__ import annotations

from warnings import warn

from weft.nn.functional.losses.regression import legacy_reduction

_NUMBERS = {"none": 0, "mean": 1, "sum": 2}


def get_enum(reduction: str) -> int:
    """The number of a reduction. Errors: ValueError on another word."""
    if reduction == "elementwise_mean":
        warn(
            "reduction='elementwise_mean' is deprecated. Please use reduction='mean' instead.",
            stacklevel=2,
        )
        return 1
    if reduction not in _NUMBERS:
        raise ValueError(f"{reduction} is not a valid value for reduction")
    return _NUMBERS[reduction]


def legacy_get_string(
    size_average: bool | None, reduce: bool | None, emit_warning: bool = True
) -> str:
    """The reduction that the two old flags mean; none is True."""
    return legacy_reduction(size_average, reduce, emit_warning)


def legacy_get_enum(
    size_average: bool | None, reduce: bool | None, emit_warning: bool = True
) -> int:
    """The number of the reduction that the two old flags mean."""
    return get_enum(legacy_get_string(size_average, reduce, emit_warning))
