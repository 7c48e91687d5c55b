"""Gradient checks: analytic derivatives against central differences.

`gradcheck(function, inputs)` compares the whole Jacobian, column by column; `gradgradcheck` does the same for the
gradient as a function of inputs and cotangents. Complex inputs are stepped in both components. The options check
forward mode, batched gradients, dtypes, repeatability, and that zero cotangents give zero gradients.
"""

from __future__ import annotations

import warnings
from collections.abc import Callable, Sequence
from typing import Any

import numpy as np

from weft._typing import Scalar, Shape
from weft.autograd.backward import grad
from weft.autograd.gradient_checks import further_checks as extras
from weft.autograd.gradient_checks.finite_differences import along, differences_of, outputs_of
from weft.autograd.gradient_checks.further_checks import GradcheckError as GradcheckError
from weft.autograd.gradient_checks.jacobians import (
    _get_numerical_jacobian as _get_numerical_jacobian,
)
from weft.autograd.gradient_checks.jacobians import _iter_tensors as _iter_tensors
from weft.autograd.gradient_checks.options import GradcheckOptions, need_for, need_one
from weft.autograd.gradient_checks.sparse_inputs import by_values
from weft.engine.api.api_function import publish
from weft.engine.frontend.tensor import Tensor
from weft.errors import ArgumentError, ShapeError


def _analytic(outputs: tuple[Tensor, ...], inputs: list[Tensor], index: int, output: int) -> Any:
    from weft.tensor.creation.factories import tensor as make_tensor

    target = outputs[output]
    rows = []
    dtype = target.detach().numpy().dtype
    units = (1, 1j) if target.dtype.is_complex else (1,)
    for place in np.ndindex(*target.shape):
        parts = []
        for unit in units:
            seed = np.zeros(tuple(target.shape), dtype)
            seed[place] = unit
            (g,) = grad(
                target,
                (inputs[index],),
                make_tensor(seed),
                retain_graph=True,
                allow_unused=True,
                materialize_grads=True,
            )
            parts.append(g.detach().numpy().copy())
        rows.append(parts)
    return rows


def _compare(
    analytic: Any, numerical: Any, unit: int, output: Tensor, atol: float, rtol: float
) -> float:
    """The largest excess over the tolerance; <= 0 is agreement. Both sides as real directional derivatives of the
    real (unit 0) or imaginary part of the output."""
    worst = -np.inf
    for row, place in enumerate(np.ndindex(*output.shape)):
        flat = np.asarray(analytic[row][unit]).reshape(-1)
        for column, parts in enumerate(numerical):
            for step, difference in enumerate(parts):
                d = np.asarray(difference)[place]
                expected = np.real(d) if unit == 0 else np.imag(d)
                found = np.real(flat[column]) if step == 0 else np.imag(flat[column])
                worst = max(worst, abs(found - expected) - atol - rtol * abs(expected))
    return float(worst)


def _units(tensor: Tensor) -> tuple[int, ...]:
    """The parts of its elements, in the order of the checks: imaginary, real."""
    return (1, 0) if tensor.dtype.is_complex else (0,)


def _only(unit: int, tensor: Tensor, what: str) -> str:
    """The beginning of the text about one part of complex numbers."""
    if not tensor.dtype.is_complex:
        return ""
    part = ("real", "imaginary")[unit]
    return f"While considering the {part} part of complex {what} only, "


def gradcheck(
    func: Callable[..., Tensor],
    inputs: Tensor | Sequence[Tensor],
    *,
    eps: float = 1e-6,
    atol: float = 1e-5,
    rtol: float = 1e-3,
    raise_exception: bool = True,
    nondet_tol: float = 0.0,
    check_undefined_grad: bool = True,
    check_grad_dtypes: bool = False,
    check_batched_grad: bool = False,
    check_batched_forward_grad: bool = False,
    check_forward_ad: bool = False,
    check_backward_ad: bool = True,
    fast_mode: bool = False,
    masked: bool | None = None,
) -> bool:
    """Check the first derivative of `func` at `inputs` (float64 or complex128) against central differences.

    `fast_mode` compares one random direction instead of whole Jacobians; the other options add checks. Of sparse inputs
    the entries that are there are moved if `masked`, else all elements. Errors: GradcheckError naming output and input
    on a mismatch (False with raise_exception=False); ValueError where no input requires grad, or an output is sparse;
    RuntimeError on inputs that overlap themselves.
    """
    need_one(check_forward_ad or check_backward_ad, "check_forward_ad or check_backward_ad")
    need_for(check_batched_grad, check_backward_ad, "check_batched_grad", "check_backward_ad")
    need_for(
        check_batched_forward_grad,
        check_forward_ad,
        "check_batched_forward_grad",
        "check_forward_ad",
    )
    options = GradcheckOptions(
        eps,
        atol,
        rtol,
        nondet_tol,
        check_undefined_grad,
        check_grad_dtypes,
        check_batched_grad,
        check_batched_forward_grad,
        check_forward_ad,
        check_backward_ad,
        fast_mode,
    )
    arguments = [inputs] if isinstance(inputs, Tensor) else list(inputs)
    func, arguments = by_values(func, arguments, bool(masked))
    checked = _checked_inputs(arguments)
    try:
        _run_checks(func, arguments, checked, options)
    except GradcheckError:
        if raise_exception:
            raise
        return False
    return True


def _checked_inputs(arguments: list[Tensor]) -> list[int]:
    """The places of the inputs to check. Errors: as `gradcheck`."""
    checked = [i for i, a in enumerate(arguments) if isinstance(a, Tensor) and a.requires_grad]
    if not checked:
        raise ArgumentError(
            "gradcheck expects at least one input tensor to require gradient, but none of them have "
            "requires_grad=True.",
            expected="an input with requires_grad=True",
            got="none",
            fix="call requires_grad_() on the inputs",
        )
    for index in checked:
        tensor = arguments[index]
        if tensor.dtype.name not in ("float64", "complex128"):
            warnings.warn(
                f"Input #{index} requires gradient and is not a double precision floating point or complex. This "
                "check will likely fail if all the inputs are not of double precision floating point or complex.",
                UserWarning,
                stacklevel=3,
            )
        steps = tensor.strides or ()
        if any(step == 0 and size > 1 for step, size in zip(steps, tensor.shape, strict=False)):
            raise ShapeError(
                f"The {index}th input has a dimension with stride 0. gradcheck only supports inputs that are "
                "non-overlapping to be able to compute the numerical gradients correctly. You should call .contiguous "
                "on the input before passing it to gradcheck.",
                expected="elements with memory of their own",
                got=f"strides {list(steps)}",
                fix="call .contiguous() on it",
            )
    return checked


def _run_checks(
    func: Callable[..., Tensor],
    arguments: list[Tensor],
    checked: list[int],
    options: GradcheckOptions,
) -> None:
    outputs = outputs_of(func, arguments)
    plain = [a.detach() if isinstance(a, Tensor) else a for a in arguments]
    for output, target in enumerate(outputs):
        for index in checked:
            numerical = differences_of(func, arguments, index, outputs, output, options.eps)
            if options.check_backward_ad:
                _check_reverse(outputs, arguments, index, output, numerical, options)
            if options.check_forward_ad:
                _check_forward(func, plain, checked, index, output, numerical, options)
        if options.check_backward_ad and target.requires_grad:
            _check_cotangents(target, [arguments[i] for i in checked], output, options)
    _check_absent_and_batched(func, arguments, plain, checked, options)


def _check_cotangents(
    target: Tensor, inputs: list[Tensor], output: int, options: GradcheckOptions
) -> None:
    """The dtypes of the gradients of one output, and their values where cotangents come in a batch."""
    if options.check_grad_dtypes:
        extras.check_dtypes(target, inputs)
    if options.check_batched_grad:
        extras.check_batch(target, inputs, output)


def _check_absent_and_batched(
    func: Callable[..., Tensor],
    arguments: list[Tensor],
    plain: list[Tensor],
    checked: list[int],
    options: GradcheckOptions,
) -> None:
    """Check the function with absent cotangents, absent tangents, and a batch of tangents."""
    if options.check_backward_ad and options.check_undefined_grad:
        extras.check_undefined(func, arguments, checked)
    if options.check_forward_ad and options.check_undefined_grad:
        extras.check_undefined_forward(func, plain, checked)
    if options.check_batched_forward_grad:
        extras.check_batched_forward(func, plain, checked)


def _mismatch(
    output: int,
    index: int,
    numerical: object,
    found: float | list[list[np.ndarray]],
    how: str,
    only: str = "",
) -> GradcheckError:
    return GradcheckError(
        f"{only}Jacobian{how} mismatch for output {output} with respect to input {index}",
        expected=f"numerical {numerical}",
        got=f"analytical {found}",
        fix="check the derivative; use float64 inputs away from kinks",
    )


def _check_reverse(
    outputs: tuple[Tensor, ...],
    arguments: list[Tensor],
    index: int,
    output: int,
    numerical: Any,
    options: GradcheckOptions,
) -> None:
    target = outputs[output]
    if options.fast_mode and target.requires_grad:
        _check_direction(target, arguments[index], index, output, numerical, options)
        return
    if target.requires_grad:
        analytic = _analytic(outputs, arguments, index, output)
        again = _analytic(outputs, arguments, index, output)
        _check_repeat(_flat(analytic), _flat(again), options)
    else:
        nothing = [np.zeros(tuple(arguments[index].shape))] * 2
        analytic = [nothing for _ in np.ndindex(*target.shape)]
    for unit in _units(target):
        worst = _compare(analytic, numerical, unit, target, options.atol, options.rtol)
        if worst > 0 and not target.requires_grad:
            raise GradcheckError(
                f"Numerical gradient for function expected to be zero: output {output} does not require grad",
                expected="an output that does not depend on the inputs",
                got=f"numerical {numerical}",
                fix="compute it from the inputs without detach() and no_grad()",
            )
        if worst > 0 or worst != worst:
            only = _only(unit, target, "outputs")
            raise _mismatch(output, index, numerical, analytic, "", only)


def _check_repeat(first: np.ndarray, again: np.ndarray, options: GradcheckOptions) -> None:
    """Errors: GradcheckError where a second walk gives other gradients."""
    if not np.allclose(first, again, 0, options.nondet_tol, equal_nan=True):
        raise GradcheckError(
            "Backward is not reentrant, i.e., running backward with same input and grad_output multiple times "
            "gives different values, although analytical gradient matches numerical gradient.",
            expected=f"differences up to {options.nondet_tol}",
            got=f"{first} and {again}",
            fix="remove the randomness, or pass nondet_tol",
        )


def _flat(rows: list[list[np.ndarray]]) -> Any:
    return np.concatenate([np.ravel(part) for row in rows for part in row] or [np.zeros(0)])


def _check_direction(
    target: Tensor,
    tensor: Tensor,
    index: int,
    output: int,
    numerical: list[list[np.ndarray]],
    options: GradcheckOptions,
) -> None:
    """<u, J v> by reverse mode and by differences, for random u and v."""
    from weft.tensor.creation.factories import tensor as make_tensor

    random = np.random.default_rng(0)
    whole, v = _draw(random, target), _draw(random, tensor)
    for unit in _units(target):
        u = np.asarray(whole.real if unit == 0 else 1j * whole.imag, whole.dtype)
        pulled, again = (
            grad(
                target,
                (tensor,),
                make_tensor(u),
                retain_graph=True,
                allow_unused=True,
                materialize_grads=True,
            )[0]
            .detach()
            .numpy()
            for _ in range(2)
        )
        _check_repeat(pulled, again, options)
        found = float(np.real(np.vdot(pulled, v)))
        expected = float(np.real(np.vdot(u, along(v, numerical, u))))
        # What `atol` allows each element of the Jacobian adds up along the directions.
        atol = options.atol * float(np.abs(u).sum() * np.abs(v).sum())
        if not abs(found - expected) <= atol + options.rtol * abs(expected):
            only = _only(unit, target, "outputs")
            raise _mismatch(output, index, expected, found, "", only)


def _draw(random: Any, like: Any) -> Any:
    values = random.standard_normal(tuple(like.shape))
    if like.dtype.is_complex:
        values = values + 1j * random.standard_normal(tuple(like.shape))
    return np.asarray(values)


def _check_forward(
    func: Callable[..., Tensor],
    plain: list[Tensor],
    checked: list[int],
    index: int,
    output: int,
    numerical: Any,
    options: GradcheckOptions,
) -> None:
    """Tangents of one input's elements against differences."""
    primal = plain[index]
    columns = []
    zeros = extras.zeros_for(plain, checked)
    for place in np.ndindex(*primal.shape):
        units = (1, 1j) if primal.dtype.is_complex else (1,)
        seeds = [{**zeros, index: _seed(primal, place, unit)} for unit in units]
        columns.append([_pushed(func, plain, seed, output) for seed in seeds])
    for unit in _units(primal):
        for column, parts in zip(columns, numerical, strict=True):
            if not np.allclose(column[unit], parts[unit], options.rtol, options.atol):
                only, how = _only(unit, primal, "inputs"), " computed with forward mode"
                raise _mismatch(output, index, numerical, columns, how, only)


def _seed(primal: Tensor, place: Shape, unit: Scalar) -> Any:
    """A tangent that is one at a place."""
    from weft.tensor.creation.factories import tensor as make_tensor

    seed = np.zeros(tuple(primal.shape), primal.numpy().dtype)
    seed[place] = unit
    return make_tensor(seed)


def _pushed(func: Callable[..., Tensor], plain: list[Tensor], seeds: Any, output: int) -> Any:
    """The tangent of an output, as an array."""
    tangent = extras.tangents(func, plain, seeds)[output]
    if tangent is None:
        return np.zeros(tuple(outputs_of(func, plain)[output].shape))
    return tangent.detach().numpy().copy()


def gradgradcheck(
    func: Callable[..., object],
    inputs: Tensor | Sequence[Tensor],
    grad_outputs: Tensor | Sequence[Tensor | None] | None = None,
    *,
    eps: float = 1e-6,
    atol: float = 1e-5,
    rtol: float = 1e-3,
    gen_non_contig_grad_outputs: bool = False,
    raise_exception: bool = True,
    nondet_tol: float = 0.0,
    check_undefined_grad: bool = True,
    check_grad_dtypes: bool = False,
    check_batched_grad: bool = False,
    check_fwd_over_rev: bool = False,
    check_rev_over_rev: bool = True,
    fast_mode: bool = False,
    masked: bool = False,
) -> bool:
    """Check the second derivative of `func`: gradcheck of its gradient in inputs and cotangents.

    Errors: as `gradcheck`; AssertionError on options that ask for nothing, or need another one.
    """
    need_one(check_fwd_over_rev or check_rev_over_rev, "check_fwd_over_rev or check_rev_over_rev")
    for option, value in (
        ("check_undefined_grad", check_undefined_grad),
        ("check_batched_grad", check_batched_grad),
    ):
        need_for(value, check_rev_over_rev, option, "check_rev_over_rev")
    arguments = [inputs] if isinstance(inputs, Tensor) else list(inputs)
    func, arguments = by_values(func, arguments, masked)
    checked = _checked_inputs(arguments)
    outputs = outputs_of(func, arguments)
    if grad_outputs is None:
        grad_outputs = _cotangents(outputs, gen_non_contig_grad_outputs)
    elif isinstance(grad_outputs, Tensor):
        grad_outputs = [grad_outputs]
    if len(grad_outputs) != len(outputs):
        raise ArgumentError(
            f"got {len(outputs)} outputs and {len(grad_outputs)} gradients of them",
            expected=f"{len(outputs)} grad_outputs",
            got=str(len(grad_outputs)),
            fix="pass one per output, or leave grad_outputs out",
        )
    return gradcheck(
        _gradient_of(func, len(arguments), checked),
        (*arguments, *grad_outputs),
        eps=eps,
        atol=atol,
        rtol=rtol,
        raise_exception=raise_exception,
        nondet_tol=nondet_tol,
        check_undefined_grad=check_undefined_grad,
        check_grad_dtypes=check_grad_dtypes,
        check_batched_grad=check_batched_grad,
        check_forward_ad=check_fwd_over_rev,
        check_backward_ad=check_rev_over_rev,
        fast_mode=fast_mode,
    )


def _cotangents(outputs: Sequence[object], spaced: bool) -> list[Any]:
    """Random cotangents, every other element of larger memory where strides are wanted."""
    from weft.tensor.creation.factories import tensor as make_tensor

    random = np.random.default_rng(0)
    made = []
    for target in outputs:
        values = _draw(random, target)
        if spaced and values.ndim:
            wide = make_tensor(np.repeat(values, 2, axis=-1))
            cotangent = wide[..., ::2]
        else:
            cotangent = make_tensor(values)
        made.append(cotangent.detach().requires_grad_())
    return made


def _gradient_of(func: Callable[..., object], count: int, checked: list[int]) -> Callable[..., Any]:
    """The gradient of a function as a function of its inputs and cotangents."""

    def gradient(*values: Tensor) -> Any:
        ins, cotangents = list(values[:count]), values[count:]
        for index in checked:
            if not ins[index].requires_grad:
                ins[index] = ins[index].view_as(ins[index])
                ins[index].requires_grad = True
        results = outputs_of(func, ins)
        live = [(r, g) for r, g in zip(results, cotangents, strict=True) if r.requires_grad]
        return grad(
            [r for r, _ in live],
            tuple(ins[i] for i in checked),
            [g for _, g in live],
            create_graph=True,
            allow_unused=True,
            materialize_grads=True,
        )

    return gradient


publish(globals())
