"""Gradient clipping, and parameters as one vector.

Both take an iterable of parameters; gradients and parameters change in place, outside the graph.
"""

from __future__ import annotations

import math
import warnings
from collections.abc import Iterable
from types import GeneratorType

import weft
from weft import Tensor
from weft.engine.api.api_function import publish
from weft.engine.api.deprecation import deprecated, user_level
from weft.errors import ArgumentTypeError, GradientError

Tensors = Tensor | Iterable[Tensor]


def _gradients(parameters: Tensors) -> list[Tensor]:
    tensors = [parameters] if isinstance(parameters, Tensor) else parameters
    return [tensor.grad for tensor in tensors if tensor.grad is not None]


def get_total_norm(
    tensors: Tensors,
    norm_type: float = 2.0,
    error_if_nonfinite: bool = False,
    foreach: bool | None = None,
) -> Tensor:
    """The norm of all tensors taken together, as a 0-d tensor."""
    parts = [tensors] if isinstance(tensors, Tensor) else list(tensors)
    return _checked(
        _total_norm([(part, part) for part in parts], norm_type), norm_type, error_if_nonfinite
    )


def _total_norm(pairs: list[tuple[Tensor, Tensor]], norm_type: float) -> Tensor:
    """The norm of values, each with the parameter that it belongs to: that may be rows of a tensor of which other
    processes have the rest (`over_ranks`, and `sums_of_rows` for sums that do not depend on who has which)."""
    if not pairs:
        return weft.tensor(0.0)
    order = float(norm_type)
    lots: dict[object, tuple[list[Tensor], list[Tensor]]] = {}
    for value, owner in pairs:
        over = (id(getattr(owner, "device_mesh", None)), getattr(owner, "placements", None))
        owners, parts = lots.setdefault(over, ([], []))
        owners.append(owner)
        parts.append(value.to_local() if hasattr(value, "to_local") else value)
    with weft.no_grad():
        found = [_lot_powers(owners, parts, order) for owners, parts in lots.values()]
        total = found[0]
        if len(found) > 1:
            total = weft.stack(found).max() if math.isinf(order) else weft.stack(found).sum()
        if order == 2.0:
            total = total.sqrt()
        elif order != 0.0 and not math.isinf(order):
            total = total.pow(1.0 / order)
        return _everywhere(total, [owner for _, owner in pairs])


def _everywhere(total: Tensor, owners: list[Tensor]) -> Tensor:
    """A value that all processes have, as a tensor over the mesh that all owners lie over, if they do."""
    meshes = [getattr(owner, "device_mesh", None) for owner in owners]
    if meshes[0] is None or any(mesh != meshes[0] for mesh in meshes):
        return total
    return owners[0].everywhere(total)  # type: ignore[no-any-return, attr-defined]


def _lot_powers(owners: list[Tensor], values: list[Tensor], order: float) -> Tensor:
    """The sum of powers, or the largest one, of values whose owners lie alike over the ranks."""
    over_ranks = getattr(owners[0], "over_ranks", None)
    if over_ranks is None:
        return _powers(values, order)
    if math.isinf(order) or not owners[0].spread.is_rows:  # type: ignore[attr-defined]
        return over_ranks(_powers(values, order), math.isinf(order))  # type: ignore[no-any-return]
    rows = [_power(value, order) for value in values]
    rows = [row.flatten(1).sum(1) if row.ndim > 1 else row for row in rows]
    return weft.stack(owners[0].sums_of_rows(owners, rows)).sum()  # type: ignore[attr-defined]


def _power(value: Tensor, order: float) -> Tensor:
    return value * value if order == 2.0 else value.abs().pow(order)


def _powers(values: list[Tensor], order: float) -> Tensor:
    """The sum of powers of all elements, or the largest one."""
    if math.isinf(order):
        return weft.stack([v.abs().max() if v.numel() else v.new_zeros(()) for v in values]).max()
    if order == 0.0:  # the norm of norms: how many have an element that is not zero
        return weft.stack([value.ne(0).any().to(value.abs().dtype) for value in values]).sum()
    return weft.stack([_power(value, order).sum() for value in values]).sum()


def _checked(total: Tensor, order: float, error_if_nonfinite: bool) -> Tensor:
    """A norm. Errors: RuntimeError for one that is not finite, if asked for."""
    if error_if_nonfinite and not math.isfinite(float(total)):
        raise GradientError(
            f"The total norm of order {float(order)} for gradients from `parameters` is non-finite, so it "
            "cannot be clipped. To disable this error and scale the gradients by the non-finite "
            "norm anyway, set `error_if_nonfinite=False`",
            expected="finite gradients",
            got=f"a norm of {float(total)}",
            fix="look for the cause with weft.autograd.detect_anomaly()",
        )
    return total


def clip_grads_with_norm_(
    parameters: Tensors, max_norm: float, total_norm: Tensor, foreach: bool | None = None
) -> None:
    """Scale gradients so that a total norm above `max_norm` becomes `max_norm`."""
    with weft.no_grad():
        own = total_norm.to_local() if hasattr(total_norm, "to_local") else total_norm
        scale = (float(max_norm) / (own + 1e-6)).clamp(max=1.0)
        for gradient in _gradients(parameters):
            gradient.mul_(scale)


def clip_grad_norm_(
    parameters: Tensors,
    max_norm: float,
    norm_type: float = 2.0,
    error_if_nonfinite: bool = False,
    foreach: bool | None = None,
) -> Tensor:
    """Scale all gradients together so that their total norm is at most `max_norm`; the norm before
    that.

    Nothing is read back: the norm is a tensor, and the scaling is recorded like any other
    operation.
    """
    parts = [parameters] if isinstance(parameters, Tensor) else list(parameters)
    if isinstance(parameters, GeneratorType) and not parts:
        text = "`parameters` is an empty generator, no gradient clipping will occur."
        warnings.warn(text, UserWarning, stacklevel=user_level())
    pairs = [(part.grad, part) for part in parts if part.grad is not None]
    total = _checked(_total_norm(pairs, norm_type), norm_type, error_if_nonfinite)
    clip_grads_with_norm_(parts, max_norm, total)
    return total


@deprecated(
    "`torch.nn.utils.clip_grad_norm` is now deprecated in favor of `torch.nn.utils.clip_grad_norm_`."
)
def clip_grad_norm(
    parameters: Tensors,
    max_norm: float,
    norm_type: float = 2.0,
    error_if_nonfinite: bool = False,
    foreach: bool | None = None,
) -> Tensor:
    """`clip_grad_norm_` under its older name; warns."""
    return clip_grad_norm_(parameters, max_norm, norm_type, error_if_nonfinite, foreach)


def clip_grad_value_(parameters: Tensors, clip_value: float, foreach: bool | None = None) -> None:
    """Clamp every gradient element to +-clip_value."""
    with weft.no_grad():
        for gradient in _gradients(parameters):
            gradient.clamp_(min=-float(clip_value), max=float(clip_value))


def parameters_to_vector(parameters: Iterable[Tensor]) -> Tensor:
    """All parameters flattened into one vector, in order."""
    return weft.cat([parameter.reshape(-1) for parameter in parameters])


def vector_to_parameters(vec: Tensor, parameters: Iterable[Tensor]) -> None:
    """Give parameters the values of consecutive slices of a vector."""
    if not isinstance(vec, Tensor):
        raise ArgumentTypeError(
            f"expected weft.Tensor, but got: {type(vec)}",
            expected="a tensor",
            got=type(vec).__name__,
            fix="pass what parameters_to_vector gave",
        )
    start = 0
    for parameter in parameters:
        end = start + parameter.numel()
        parameter.data = vec[start:end].view_as(parameter).data
        start = end


publish(globals())
del publish
