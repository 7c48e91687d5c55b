"""Jacobians, Hessians and their products of functions of tensors, by reverse mode.

A function and its inputs come in (a tensor or a tuple); derivatives go out in the same structure. Inputs are aliased
first, so that nothing reaches the user's graph unless `create_graph` asks for it. Products with Jacobians from the
right come from the derivative of the product from the left, which is linear in its vector.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Any

from weft.autograd.backward import grad
from weft.engine.api.api_function import publish
from weft.engine.frontend.recorder import cast
from weft.engine.frontend.tensor import Tensor
from weft.engine.ir import tape as tapes
from weft.errors import ArgumentTypeError, AssertedError, GradientError, ShapeError
from weft.ops.primitives import concat, elementwise, iota, permute, reshape, zeros_like

Tensors = tuple[Tensor, ...]


class _Recording:
    """Gradients on, whatever the caller's mode."""

    def __enter__(self) -> None:
        mode = tapes.tape().mode
        self.previous, mode.grad = mode.grad, True

    def __exit__(self, *exc: object) -> None:
        tapes.tape().mode.grad = self.previous


def _as_tuple(values: Any, what: str, function: str) -> tuple[bool, Tensors]:
    """(True if it was a tuple, the tuple). Errors: TypeError on anything but tensors."""
    several = isinstance(values, (tuple, list))
    items = tuple(values) if several else (values,)
    for index, item in enumerate(items):
        if not isinstance(item, Tensor):
            raise ArgumentTypeError(
                f"The {what} given to {function} must be either a Tensor or a tuple of Tensors but the value at index "
                f"{index} has type {type(item)}.",
                expected="tensors",
                got=type(item).__name__,
                fix="convert it with weft.tensor(...)",
            )
    return several, items


def _fresh(inputs: Tensors, connected: bool) -> Tensors:
    """Aliases to differentiate at: on the caller's graph, or leaves of their own."""
    made = []
    for tensor in inputs:
        if connected and tensor.requires_grad:
            made.append(elementwise("clone", tensor))
        else:
            made.append(tensor.detach())
            made[-1].requires_grad = True
    return tuple(made)


def _call(func: Callable[..., Tensor], inputs: object, create: bool, name: str) -> Any:
    several, items = _as_tuple(inputs, "inputs", name)
    fresh = _fresh(items, create)
    multiple, outputs = _as_tuple(func(*fresh), "outputs of the user-provided function", name)
    return several, fresh, multiple, outputs


def _shaped(values: Sequence[Tensor], several: bool, create: bool) -> Any:
    made = tuple(value if create else value.detach() for value in values)
    return made if several else made[0]


def _independent(output: str, index: int) -> GradientError:
    return GradientError(
        f"{output} of the user-provided function is independent of input {index}. This is not allowed in strict mode.",
        expected="outputs that depend on every input",
        got=f"{output[0].lower()}{output[1:]} without input {index}",
        fix="pass strict=False to get zeros",
    )


def _check_depend(values: Sequence[Tensor], strict: bool, message: str, expected: str) -> None:
    """Errors: RuntimeError in strict mode where a value is a constant; the message names its index."""
    for index, value in enumerate(values):
        if strict and not value.requires_grad:
            raise GradientError(
                message.format(index),
                expected=expected,
                got=f"a constant at {index}",
                fix="pass strict=False to get zeros",
            )


def _check_outputs(outputs: Tensors, strict: bool) -> None:
    message = (
        "Output {} of the user-provided function does not require gradients. The outputs must be computed in a "
        "differentiable manner from the input when running in strict mode."
    )
    _check_depend(outputs, strict, message, "an output that depends on the inputs")


def _check_dependence(gradients: Sequence[Tensor], strict: bool, create: bool) -> None:
    """Errors: RuntimeError in strict mode where a derivative that is to be differentiated is a constant."""
    message = (
        "The jacobian of the user-provided function is independent of input {}. This is not allowed in strict mode "
        "when create_graph=True."
    )
    _check_depend(gradients, strict and create, message, "a derivative that depends on the inputs")


def _gradients(
    outputs: Tensors, inputs: Tensors, seeds: Tensors, create: bool, strict: bool
) -> list[Tensor]:
    """The gradients of outputs with given cotangents; zeros for inputs that they do not reach."""
    found = reached(outputs, inputs, seeds, create)
    if strict and any(output.requires_grad for output in outputs):
        for index, gradient in enumerate(found):
            if gradient is None:
                raise _independent("The output", index)
    return or_zeros(found, inputs)


def reached(
    outputs: Sequence[Tensor], inputs: Sequence[Tensor], seeds: Sequence[Tensor], create: bool
) -> tuple[Any, ...]:
    """The gradients of those outputs that have a graph, which is kept; None for an input that none of them reaches."""
    pairs = [(o, s) for o, s in zip(outputs, seeds, strict=True) if o.requires_grad]
    if not pairs:
        return (None,) * len(inputs)
    return grad(
        [pair[0] for pair in pairs],
        inputs,
        [pair[1] for pair in pairs],
        retain_graph=True,
        create_graph=create,
        allow_unused=True,
    )


def or_zeros(gradients: Sequence[Tensor | None], like: Sequence[Tensor]) -> list[Tensor]:
    """Gradients, with zeros for those that are None."""
    return [zeros_like(t) if g is None else g for t, g in zip(like, gradients, strict=True)]


def _unit(like: Tensor, place: int) -> Tensor:
    """One at a row-major place, zeros elsewhere."""
    return cast(elementwise("eq", iota(like._shape), place), like.dtype)


def stacked(rows: list[Tensor], shape: tuple[int, ...]) -> Tensor:
    """Equal tensors as the rows of one, in a shape."""
    return reshape(concat(tuple(reshape(row, (1, *row._shape)) for row in rows), 0), shape)


# -- Jacobians -------------------------------------------------------------------------------------------------------


def _jacobian_rows(
    output: int, target: Tensor, inputs: Tensors, create: bool, strict: bool
) -> list[Tensor]:
    """d target / d each input, the target's dimensions first."""
    rows: list[list[Tensor]] = [[] for _ in inputs]
    for place in range(target.numel()):
        found: Any = (None,) * len(inputs)
        if target.requires_grad:
            found = grad(
                target, inputs, _unit(target, place), True, create_graph=create, allow_unused=True
            )
        for index, gradient in enumerate(found):
            if gradient is None and strict:
                raise _independent(f"Output {output}", index)
            if gradient is not None:
                _check_dependence([gradient], strict, create)
            rows[index].append(zeros_like(inputs[index]) if gradient is None else gradient)
    return [
        stacked(row, (*target._shape, *tensor._shape))
        if row
        else reshape(zeros_like(tensor), (*target._shape, *tensor._shape))
        for row, tensor in zip(rows, inputs, strict=True)
    ]


def _jacobian_columns(target: Tensor, inputs: Tensors, create: bool) -> list[Tensor]:
    """The same, one input element after the other."""
    made = []
    for index, tensor in enumerate(inputs):
        columns = [
            _pushed((target,), inputs, _only(inputs, index, _unit(tensor, place)), create, False)[0]
            for place in range(tensor.numel())
        ]
        rows = stacked(columns, (*tensor._shape, *target._shape))
        rank, lead = len(target._shape), len(tensor._shape)
        made.append(permute(rows, (*range(lead, lead + rank), *range(lead))))
    return made


def _only(inputs: Tensors, index: int, tangent: Tensor) -> Tensors:
    return tuple(tangent if i == index else zeros_like(t) for i, t in enumerate(inputs))


def jacobian(
    func: Callable[..., Tensor],
    inputs: object,
    create_graph: bool = False,
    strict: bool = False,
    vectorize: bool = False,
    strategy: str = "reverse-mode",
) -> Any:
    """The Jacobian of `func`: for each output and each input a tensor of shape output + input, nested as they are.

    `vectorize` changes nothing: what one row records is batched with the others anyway.

    Args:
        vectorize: accepted: rows are batched anyway. Default: False.
        strategy: "reverse-mode" or "forward-mode"; the result is the same. Default:
            'reverse-mode'.

    Raises:
        RuntimeError in strict mode where an output does not depend on an input (nor, with
        `create_graph`, the derivative), and with `vectorize`; ValueError on an unknown
        strategy.
    """
    if strategy not in ("reverse-mode", "forward-mode"):
        raise AssertedError(
            f'Expected strategy to be either "forward-mode" or "reverse-mode". Got: {strategy}',
            expected="'forward-mode' or 'reverse-mode'",
            got=repr(strategy),
            fix="pass one of the two",
        )
    with _Recording():
        several, fresh, multiple, outputs = _call(func, inputs, create_graph, "jacobian")
        _check_outputs(outputs, strict)
        if strict and vectorize:
            raise GradientError(
                "torch.autograd.functional.jacobian: `strict=True` and `vectorized=True` are not supported together. "
                "Please either set `strict=False` or `vectorize=False`.",
                expected="one of the two",
                got="both",
                fix="drop vectorize: rows are batched without it",
            )
        found = []
        for number, output in enumerate(outputs):
            if strategy == "reverse-mode":
                parts = _jacobian_rows(number, output, fresh, create_graph, strict)
            else:
                parts = _jacobian_columns(output, fresh, create_graph)
            found.append(_shaped(parts, several, create_graph))
    return tuple(found) if multiple else found[0]


def hessian(
    func: Callable[..., Tensor],
    inputs: object,
    create_graph: bool = False,
    strict: bool = False,
    vectorize: bool = False,
    outer_jacobian_strategy: str = "reverse-mode",
) -> Any:
    """The Hessian of a function with one element: a tensor of shape input + input for each pair of inputs.

    Args:
        vectorize: accepted: rows are batched anyway. Default: False.
        outer_jacobian_strategy: "reverse-mode" or "forward-mode"; the result is the same.
            Default: 'reverse-mode'.

    Raises:
        RuntimeError where the function returns more than one element.
    """
    several, _ = _as_tuple(inputs, "inputs", "hessian")

    def gradient(*arguments: Tensor) -> Any:
        with _Recording():
            return _slopes(func(*arguments), arguments, strict, "hessian")

    rows = jacobian(gradient, inputs, create_graph, strict, vectorize, outer_jacobian_strategy)
    return rows if several else rows[0]


def _scalar(value: Tensor | tuple[Tensor, ...], name: str) -> Tensor:
    several, (output, *rest) = _as_tuple(value, "outputs of the user-provided function", name)
    if several or output.numel() != 1:
        raise ShapeError(
            f"The function given to {name} should return a single Tensor"
            if several
            else f"The Tensor returned by the function given to {name} should contain a single element",
            expected="one element",
            got=f"{1 + len(rest)} outputs, the first {output.dtype.name}{list(output.shape)}",
            fix="reduce it with .sum()",
        )
    return output


def _one(value: Tensor) -> Tensor:
    return zeros_like(value) + 1


# -- products --------------------------------------------------------------------------------------------------------


def _vectors(
    v: Tensor | Callable[..., Tensor] | float | None, like: Tensors, several: bool, name: str
) -> Tensors:
    """Cotangents or tangents, one per tensor. Errors: RuntimeError on another count or shape."""
    if v is None:
        if len(like) != 1 or like[0].numel() != 1:
            raise ShapeError(
                "The vector v can only be None if "
                + (
                    "the user-provided function returns a single Tensor with a single element."
                    if name == "vjp"
                    else "the input to the user-provided function is a single Tensor with a single element."
                ),
                expected="v",
                got="None",
                fix="pass v, of the same structure as what it is multiplied with",
            )
        return (_one(like[0].detach()),)
    _, items = _as_tuple(v, "v", name)
    pairs = zip(items, like, strict=False)
    wrong = next((place for place, (a, b) in enumerate(pairs) if a._shape != b._shape), -1)
    if len(items) != len(like) or wrong >= 0:
        if len(items) == len(like):
            place = f"Entry {wrong} in " if several else ""
            text = f"{place}v has invalid size: should be {like[wrong].shape} but got {items[wrong].shape}."
        elif several:
            text = f"v is a tuple of invalid length: should be {len(like)} but got {len(items)}."
        else:
            text = "The given v should contain a single Tensor."
        raise ShapeError(
            text,
            expected=", ".join(str(list(t.shape)) for t in like),
            got=", ".join(str(list(t.shape)) for t in items),
            fix="pass vectors of the same shapes",
        )
    return tuple(item.detach() if not item.requires_grad else item for item in items)


def vjp(
    func: Callable[..., Tensor],
    inputs: Tensor | Callable[..., Tensor],
    v: Any = None,
    create_graph: bool = False,
    strict: bool = False,
) -> tuple[Any, Any]:
    """The value, and `v` times the Jacobian.

    Args:
        v: the cotangents, of the shapes of the outputs; None: 1, for an output of one
            element.
    """
    with _Recording():
        several, fresh, multiple, outputs = _call(func, inputs, create_graph, "vjp")
        _check_outputs(outputs, strict)
        seeds = _vectors(v, outputs, multiple, "vjp")
        product = _gradients(outputs, fresh, seeds, create_graph, strict)
        _check_dependence(product, strict, create_graph)
    return _shaped(outputs, multiple, create_graph), _shaped(product, several, create_graph)


def _pushed(
    outputs: Tensors, inputs: Tensors, tangents: Tensors, create: bool, strict: bool
) -> list[Tensor]:
    """The Jacobian times tangents: the derivative of the pulled-back cotangents by the cotangents."""
    seeds = []
    for output in outputs:
        seeds.append(zeros_like(output.detach()) + 0)
        seeds[-1].requires_grad = True
    pulled = _gradients(outputs, inputs, tuple(seeds), True, strict)
    return or_zeros(reached(pulled, seeds, tangents, create), outputs)


def jvp(
    func: Callable[..., Tensor],
    inputs: object,
    v: Tensor | float | None = None,
    create_graph: bool = False,
    strict: bool = False,
) -> tuple[Any, Any]:
    """The value, and the Jacobian times `v`.

    Args:
        v: the tangents, of the shapes of the inputs; None: 1, for an input of one element.
    """
    with _Recording():
        several, fresh, multiple, outputs = _call(func, inputs, create_graph, "jvp")
        _check_outputs(outputs, strict)
        tangents = _vectors(v, fresh, several, "jvp")
        product = _pushed(outputs, fresh, tangents, create_graph, strict)
        _check_dependence(product, strict, create_graph)
    return _shaped(outputs, multiple, create_graph), _shaped(product, multiple, create_graph)


def _slopes(outputs: Tensor | Tensors, inputs: Tensors, strict: bool, name: str) -> Tensors:
    """The derivatives of a function with one element, to be differentiated again. Errors: RuntimeError in strict mode
    where one does not depend on the inputs."""
    value = _scalar(outputs, name)
    _check_outputs((value,), strict)
    every = strict and name != "hessian"  # whose words are those of a derivative that is constant
    slopes = tuple(_gradients((value,), inputs, (_one(value.detach()),), True, every))
    message = (
        "While computing the hessian, found that the jacobian of the user-provided function with respect to input {} "
        "is independent of the input. This is not allowed in strict mode."
    )
    _check_depend(slopes, strict, message, "a function that is not linear")
    return slopes


def hvp(
    func: Callable[..., Tensor],
    inputs: object,
    v: Any = None,
    create_graph: bool = False,
    strict: bool = False,
) -> tuple[Any, Any]:
    """The value of a function with one element, and its Hessian times `v`.

    Args:
        v: a vector of the shapes of the inputs; None: 1, for an input of one element.
    """
    with _Recording():
        several, fresh, multiple, outputs = _call(func, inputs, create_graph, "hvp")
        slopes = _slopes(outputs if multiple else outputs[0], fresh, strict, "hvp")
        tangents = _vectors(v, fresh, several, "hvp")
        product = _pushed(slopes, fresh, tangents, create_graph, strict)
    return _shaped(outputs, multiple, create_graph), _shaped(product, several, create_graph)


def vhp(
    func: Callable[..., Tensor],
    inputs: Tensor | float | tuple[Tensor, ...] | str,
    v: Any = None,
    create_graph: bool = False,
    strict: bool = False,
) -> tuple[Any, Any]:
    """The value of a function with one element, and `v` times its Hessian.

    Args:
        v: a vector of the shapes of the inputs; None: 1, for an input of one element.
    """
    with _Recording():
        several, fresh, multiple, outputs = _call(func, inputs, create_graph, "vhp")
        slopes = _slopes(outputs if multiple else outputs[0], fresh, strict, "vhp")
        seeds = _vectors(v, fresh, several, "vhp")
        product = _gradients(slopes, fresh, seeds, create_graph, strict)
    return _shaped(outputs, multiple, create_graph), _shaped(product, several, create_graph)


__all__ = ["hessian", "hvp", "jacobian", "jvp", "vhp", "vjp"]
publish(globals())
