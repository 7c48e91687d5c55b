"""Gradient checks beyond derivatives: missing cotangents and tangents, dtypes, batches.

They take a function, its inputs, and the options; an error says what is wrong. `gradcheck` compares the derivatives
themselves.
"""

from __future__ import annotations

import warnings
from collections.abc import Callable, Sequence
from typing import TYPE_CHECKING, Any

import numpy as np

from weft.autograd.backward import grad
from weft.autograd.forward_ad import dual_level, make_dual, unpack_dual
from weft.autograd.function import Function
from weft.autograd.functional import stacked
from weft.autograd.gradient_checks.finite_differences import outputs_of
from weft.engine.dispatch.core_hooks import vmap_function
from weft.engine.frontend.tensor import Tensor
from weft.engine.frontend.views import alias_of
from weft.errors import WeftError

if TYPE_CHECKING:
    from weft.autograd.custom.context import FunctionCtx


class GradcheckError(WeftError, RuntimeError):
    """A derivative that does not agree with finite differences."""


class _Undefined(Function):
    """The tensor, to which no gradient comes."""

    @staticmethod
    def forward(ctx: Any, tensor: Tensor) -> Any:
        """An alias."""
        return alias_of(tensor)

    @staticmethod
    def backward(ctx: FunctionCtx, cotangent: Tensor) -> None:
        """Nothing."""


# -- reverse mode ------------------------------------------------------------------------------------------------------


def check_undefined(
    func: Callable[..., object], arguments: list[Tensor], checked: list[int]
) -> None:
    """Errors: GradcheckError where a gradient that does not come is not taken for zeros: of all outputs, of each."""
    outputs = [o for o in outputs_of(func, arguments) if o.requires_grad]
    everything = range(len(outputs))
    for missing in [everything, *([place] for place in everything if len(outputs) > 1)]:
        fresh = [o for o in outputs_of(func, arguments) if o.requires_grad]
        roots = [_Undefined.apply(o) if i in missing else o for i, o in enumerate(fresh)]
        _check_zeros(roots, [arguments[i] for i in checked])


def _check_zeros(outputs: Sequence[Tensor], inputs: Sequence[Tensor]) -> None:
    """Errors: GradcheckError where cotangents of zeros, some of which do not arrive, give gradients or fail."""
    if not outputs:
        return
    seeds = [output.detach() * 0 for output in outputs]
    try:
        found = grad(outputs, inputs, seeds, allow_unused=True)
    except RuntimeError as error:
        warnings.warn(
            "Backwards compatibility: New undefined gradient support checking feature is enabled by default, but it "
            "may break existing callers of this function. If this is true for you, you can call this function with "
            '"check_undefined_grad=False" to disable the feature',
            UserWarning,
            stacklevel=2,
        )
        raise GradcheckError(
            "Expected backward function to handle undefined output grads. Please look at the notes about undefined "
            "output gradients in the documentation of autograd.Function",
            expected="a backward, and hooks, that take None for no gradient",
            got=f"{type(error).__name__}: {str(error).splitlines()[0]}",
            fix="test for None, or leave set_materialize_grads on",
        ) from error
    for gradient in found:
        if gradient is not None and np.any(gradient.detach().numpy() != 0):
            raise GradcheckError(
                "Expected all input grads to be undefined or zero when all output grads are undefined or zero. Please "
                "check your backward formula.",
                expected="zeros",
                got=str(gradient.tolist()),
                fix="make backward linear in its cotangents",
            )


def check_dtypes(target: Tensor, inputs: Sequence[Tensor]) -> None:
    """Errors: GradcheckError where a gradient has not the dtype of its input."""
    found = grad(target, inputs, target.detach() * 0, retain_graph=True, allow_unused=True)
    for index, gradient in enumerate(found):
        if gradient is not None and gradient.dtype is not inputs[index].dtype:
            raise GradcheckError(
                f"Backward gives a gradient of dtype {gradient.dtype.name} for input {index}",
                expected=inputs[index].dtype.name,
                got=gradient.dtype.name,
                fix="convert the gradient",
            )


def check_batch(target: Tensor, inputs: Sequence[Tensor], output: int) -> None:
    """Errors: GradcheckError where gradients of a batch of cotangents are not those of each."""
    seeds = [target.detach() * 0 + 1, target.detach() * 0 + 2]
    batched = grad(
        target, inputs, _batch(seeds), True, False, allow_unused=True, is_grads_batched=True
    )
    for row, seed in enumerate(seeds):
        single = grad(target, inputs, seed, retain_graph=True, allow_unused=True)
        for index, (one, many) in enumerate(zip(single, batched, strict=True)):
            if one is not None:
                found, wanted = many.detach().numpy()[row], one.detach().numpy()
                _need_equal(found, wanted, output, index, "gradients")


def _batch(rows: list[Tensor]) -> Any:
    return stacked(rows, (len(rows), *rows[0]._shape))


def _need_equal(found: np.ndarray, wanted: np.ndarray, output: int, index: int, what: str) -> None:
    if not np.allclose(found, wanted):
        raise GradcheckError(
            f"Jacobian of batched {what} mismatch for output {output} with respect to input {index}",
            expected=f"{wanted}, as alone",
            got=str(found),
            fix="check the rule for vmap",
        )


# -- forward mode ------------------------------------------------------------------------------------------------------


def tangents(
    func: Callable[..., Tensor], plain: Sequence[Tensor], directions: dict[int, object]
) -> list[Any]:
    """The tangents of the outputs for those of some inputs; None where an output has none."""
    with dual_level():
        arguments = list(plain)
        for index, direction in directions.items():
            arguments[index] = make_dual(plain[index], direction)
        return [unpack_dual(output).tangent for output in outputs_of(func, arguments)]


def zeros_for(plain: Sequence[Tensor], places: Sequence[int]) -> dict[int, Any]:
    """Tangents of zeros."""
    return {index: plain[index] * 0 for index in places}


def check_undefined_forward(
    func: Callable[..., Tensor], plain: list[Any], checked: list[int]
) -> None:
    """Errors: GradcheckError where an input without a tangent is not taken for one with a tangent of zeros."""
    for index in checked:
        others = {i: plain[i] * 0 + 1 for i in checked if i != index}
        absent = tangents(func, plain, others) if others else None
        given = tangents(func, plain, {**others, **zeros_for(plain, [index])})
        for output, found in enumerate(given):
            wanted = None if absent is None else absent[output]
            if not _are_equal(wanted, found):
                raise GradcheckError(
                    "Expected the tangents of outputs to be the same for an undefined tangent of an input and for one "
                    f"of zeros, but output {output} differs for input {index}. Please check your jvp formula.",
                    expected=_shown(wanted),
                    got=_shown(found),
                    fix="take None for zeros in jvp",
                )


def _are_equal(first: Tensor | None, second: Tensor) -> bool:
    """True if two tangents are equal; None stands for zeros."""
    if first is None or second is None:
        return not any(np.any(t.detach().numpy() != 0) for t in (first, second) if t is not None)
    return bool(np.allclose(first.detach().numpy(), second.detach().numpy(), equal_nan=True))


def _shown(tangent: Any) -> str:
    return "none, which stands for zeros" if tangent is None else str(tangent.tolist())


def check_batched_forward(
    func: Callable[..., Tensor], plain: list[Tensor], checked: list[int]
) -> None:
    """Errors: GradcheckError where tangents for a batch of tangents, by vmap, are not those for each."""
    vmap = vmap_function()
    for index in checked:
        directions = [plain[index] * 0 + 1, plain[index] * 0 + 2]

        def push(direction: Tensor, index: int = index) -> Any:
            found = tangents(func, plain, {index: direction})
            return tuple(t for t in found if t is not None)

        many = vmap(push)(_batch(directions))
        for row, direction in enumerate(directions):
            for output, (found, wanted) in enumerate(zip(many, push(direction), strict=True)):
                pair = found.detach().numpy()[row], wanted.detach().numpy()
                _need_equal(*pair, output, index, "forward gradients")
