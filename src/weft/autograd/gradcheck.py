"""Gradient checks: analytic derivatives against central differences.

`gradcheck(function, inputs)` compares the whole Jacobian, column by column; `gradgradcheck` does the same for the
gradient as a function of inputs and cotangents. Complex inputs are stepped in both components.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Any

import numpy as np

from weft.autograd.backward import grad
from weft.errors import ArgumentError, WeftError
from weft.graph.tensor import Tensor


class GradcheckError(WeftError, RuntimeError):
    """A derivative that does not agree with finite differences."""


def _outputs(function: Callable[..., Any], inputs: Sequence[Any]) -> tuple[Tensor, ...]:
    result = function(*inputs)
    items = result if isinstance(result, (tuple, list)) else (result,)
    return tuple(t for t in items if isinstance(t, Tensor) and t.dtype.category >= 2)


def _numerical(
    function: Callable[..., Any], inputs: list[Any], index: int, output: int, eps: float
) -> Any:
    """d output / d input as an array (input elements, output elements), each a complex conjugate-pair step."""
    from weft.tensor.creation import tensor as make_tensor

    base = inputs[index].detach().numpy().copy()
    steps = (eps, 1j * eps) if np.iscomplexobj(base) else (eps,)
    columns = []
    for place in np.ndindex(base.shape):
        parts = []
        for step in steps:
            values = []
            for sign in (1, -1):
                moved = base.copy()
                moved[place] += sign * step
                arguments = list(inputs)
                arguments[index] = make_tensor(moved)
                values.append(_outputs(function, arguments)[output].detach().numpy().copy())
            parts.append((values[0] - values[1]) / (2 * eps))
        columns.append(parts)
    return columns


def _analytic(outputs: tuple[Tensor, ...], inputs: list[Any], index: int, output: int) -> Any:
    from weft.tensor.creation import tensor as make_tensor

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
    analytic: Any, numerical: Any, outputs: int, output: Any, atol: float, rtol: float
) -> float:
    """The largest excess over the tolerance; <= 0 is agreement. Both sides as real directional derivatives."""
    worst = -np.inf
    for row, place in enumerate(np.ndindex(*output.shape)):
        for unit, g in enumerate(analytic[row]):
            flat = np.asarray(g).reshape(-1)
            for column, parts in enumerate(numerical):
                for step, difference in enumerate(parts):
                    d = np.asarray(difference)[place]
                    expected = np.real(d) if unit == 0 else np.imag(d)
                    found = np.real(flat[column]) if step == 0 else np.imag(flat[column])
                    worst = max(worst, abs(found - expected) - atol - rtol * abs(expected))
    return float(worst)


def gradcheck(
    func: Callable[..., Any],
    inputs: Any,
    *,
    eps: float = 1e-6,
    atol: float = 1e-5,
    rtol: float = 1e-3,
    raise_exception: bool = True,
) -> bool:
    """Check the first derivative of `func` at `inputs` (float64 or complex128) against central differences.

    Errors: GradcheckError naming output and input on a mismatch (False with raise_exception=False); ValueError
    where no input requires grad.
    """
    arguments = [inputs] if isinstance(inputs, Tensor) else list(inputs)
    checked = [i for i, a in enumerate(arguments) if isinstance(a, Tensor) and a.requires_grad]
    if not checked:
        raise ArgumentError(
            "gradcheck expects at least one input tensor to require gradient, but none of the them "
            "have requires_grad=True.",
            expected="an input with requires_grad=True",
            got="none",
            fix="call requires_grad_() on the inputs",
        )
    outputs = _outputs(func, arguments)
    for output, target in enumerate(outputs):
        for index in checked:
            if not target.requires_grad:
                analytic = [
                    [np.zeros(tuple(arguments[index].shape))] for _ in np.ndindex(*target.shape)
                ]
            else:
                analytic = _analytic(outputs, arguments, index, output)
            plain = [a.detach() if isinstance(a, Tensor) else a for a in arguments]
            numerical = _numerical(func, plain, index, output, eps)
            worst = _compare(analytic, numerical, len(outputs), target, atol, rtol)
            if worst > 0 or worst != worst:
                if not raise_exception:
                    return False
                raise GradcheckError(
                    f"Jacobian mismatch for output {output} with respect to input {index}",
                    expected=f"numerical {numerical}",
                    got=f"analytical {analytic}",
                    fix="check the backward formula; use float64 inputs away from kinks",
                )
    return True


def gradgradcheck(
    func: Callable[..., Any],
    inputs: Any,
    grad_outputs: Any = None,
    *,
    eps: float = 1e-6,
    atol: float = 1e-5,
    rtol: float = 1e-3,
    raise_exception: bool = True,
) -> bool:
    """Check the second derivative of `func`: gradcheck of its gradient in inputs and cotangents."""
    from weft.tensor.creation import tensor as make_tensor

    arguments = [inputs] if isinstance(inputs, Tensor) else list(inputs)
    checked = [i for i, a in enumerate(arguments) if isinstance(a, Tensor) and a.requires_grad]
    outputs = _outputs(func, arguments)
    if grad_outputs is None:
        random = np.random.default_rng(0)
        grad_outputs = []
        for target in outputs:
            seed = random.standard_normal(tuple(target.shape))
            if target.dtype.is_complex:
                seed = seed + 1j * random.standard_normal(tuple(target.shape))
            grad_outputs.append(make_tensor(np.asarray(seed)).requires_grad_())
    count = len(arguments)

    def gradient(*values: Any) -> Any:
        ins, cotangents = values[:count], values[count:]
        ins = tuple(
            v
            if not isinstance(v, Tensor) or i not in checked or v.requires_grad
            else v.detach().requires_grad_()
            for i, v in enumerate(ins)
        )
        results = _outputs(func, ins)
        live = [(r, g) for r, g in zip(results, cotangents, strict=True) if r.requires_grad]
        return grad(
            [r for r, _ in live],
            tuple(ins[i] for i in checked),
            [g for _, g in live],
            create_graph=True,
            allow_unused=True,
            materialize_grads=True,
        )

    return gradcheck(
        gradient,
        (*arguments, *grad_outputs),
        eps=eps,
        atol=atol,
        rtol=rtol,
        raise_exception=raise_exception,
    )
