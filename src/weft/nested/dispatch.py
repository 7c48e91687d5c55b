"""Dispatch of dense functions on ragged tensors: which functions are defined on them, and by which rule.

It takes a public function with its arguments, of which one is ragged, and returns the answer of the rule in the table.
The rules are in the other modules of this folder, by subject.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

from weft.engine.api.api_function import defined_in
from weft.engine.api.argument_errors import type_name
from weft.engine.frontend.tensor import Tensor
from weft.errors import ArgumentTypeError, NotDefinedError, WeftError
from weft.nested import (
    attention,
    elementwise,
    indexing,
    joining,
    layers,
    losses,
    products,
    reductions,
    shaping,
)
from weft.nested.tensor import NestedTensor, shape_text

_ELEMENTWISE = (
    "abs acos acosh add addcdiv addcmul angle asin asinh atan atan2 atanh bitwise_and bitwise_left_shift bitwise_not "
    "bitwise_or bitwise_right_shift bitwise_xor ceil clamp clamp_max clamp_min conj conj_physical copysign cos cosh "
    "deg2rad digamma div eq erf erfc erfinv exp exp2 expm1 fill float_power floor floor_divide fmax fmin fmod frac ge "
    "gt heaviside hypot imag isclose isfinite isin isinf isnan isneginf isposinf isreal ldexp le lerp lgamma log log10 "
    "log1p log2 logaddexp logaddexp2 logical_and logical_not logical_or logical_xor logit lt masked_fill maximum "
    "minimum mul mvlgamma nan_to_num ne neg polar polygamma positive pow rad2deg real reciprocal relu remainder "
    "resolve_conj resolve_neg round rsqrt rsub sgn sigmoid sign signbit sin sinc sinh sqrt square sub tan "
    "tanh trunc where xlogy bernoulli clone "
    # of neural networks
    "alpha_dropout celu dropout elu gelu hardshrink hardsigmoid hardswish hardtanh leaky_relu logsigmoid mish relu6 "
    "rrelu selu silu softplus softshrink softsign tanhshrink threshold "
    # types, and new tensors of one's shape
    "to bool byte char double float half int long short bfloat16 cfloat cdouble cpu contiguous type_as detach "
    "empty_like full_like ones_like rand_like randint_like randn_like zeros_like bernoulli_ exponential_ normal_ "
    "random_ uniform_ zero_ copy_ detach_"
)
# Modules of which every other function is elementwise too.
_ELEMENTWISE_MODULES = tuple(
    f"weft.functional.{name}"
    for name in (
        "elementwise.unary",
        "elementwise.binary",
        "elementwise.limits",
        "special.special",
        "special.bessel",
    )
)
# Functions of the values alone: they say something about the type.
_OF_VALUES = (
    "is_complex is_floating_point is_signed element_size get_device is_pinned is_shared result_type"
)


def _is_tensor(function: Callable[..., object], obj: NestedTensor) -> bool:
    return True


def _of_values(function: Callable[..., object], *args: object, **kwargs: object) -> Any:
    plain = [value.packed if isinstance(value, NestedTensor) else value for value in args]
    return function(*plain, **kwargs)


RULES: dict[str, Any] = dict.fromkeys(_ELEMENTWISE.split(), elementwise.apply)
RULES.update(
    {f"{name}_": elementwise.apply for name in _ELEMENTWISE.split() if f"{name}_" not in RULES}
)
RULES.update(dict.fromkeys(_OF_VALUES.split(), _of_values))
RULES["is_tensor"] = _is_tensor
_SUBJECTS = (attention, indexing, joining, layers, losses, products, reductions, shaping)
for _subject in _SUBJECTS:
    RULES.update(_subject.RULES)  # type: ignore[attr-defined]


def _gradients(
    function: Callable[..., Tensor],
    outputs: object,
    inputs: list[NestedTensor] | None = None,
    *args: Any,
    **kwargs: Any,
) -> Any:
    """`autograd.grad` and `autograd.backward` with ragged tensors among roots, leaves and gradients."""
    given = [_values_in(one) for one in (outputs, inputs, *args)]
    found = function(*given, **{key: _values_in(one) for key, one in kwargs.items()})
    if found is None or inputs is None:
        return found
    listed = inputs if isinstance(inputs, (list, tuple)) else (inputs,)
    return tuple(
        one.like(part) if isinstance(one, NestedTensor) and part is not None else part
        for one, part in zip(listed, found, strict=True)
    )


def _values_in(value: Tensor | list[NestedTensor] | NestedTensor) -> Any:
    if isinstance(value, (list, tuple)):
        return type(value)(_values_in(one) for one in value)
    return value.packed if isinstance(value, NestedTensor) else value


def _realize(function: Callable[..., object], *tensors: Tensor) -> Any:
    return function(*map(_values_in, tensors))


# Functions of other places, by module and name.
_ELSEWHERE: dict[tuple[str, str], Any] = {
    ("weft.autograd.backward", "grad"): _gradients,
    ("weft.autograd.backward", "backward"): _gradients,
    ("weft.engine.pipeline.driver", "realize"): _realize,
}

# Where functions of tensors stand. Others (loaders, modules, transforms) take ragged tensors as any object.
_PLACES = ("weft.functional.", "weft.nn.functional", "weft.tensor.", "weft.random", "weft.special")


def defined() -> list[str]:
    """The names of the functions that are more than elementwise."""
    plain = {*_ELEMENTWISE.split(), *_OF_VALUES.split()}
    names = {name.removeprefix("function_") for name in RULES if not name.endswith("_")}
    return sorted(names - plain)


def answer(
    function: Callable[..., object], args: tuple[int | NestedTensor, ...], kwargs: dict[str, object]
) -> Any:
    """The result of a function with a ragged argument. Errors: NotDefinedError if it has no meaning."""
    name, place = function.__name__, defined_in(function)
    if not place.startswith(_PLACES):
        rule = _ELSEWHERE.get((place, name))
        return NotImplemented if rule is None else rule(function, *args, **kwargs)
    defined_here = RULES.get(name)
    if defined_here is None and place in _ELEMENTWISE_MODULES:
        defined_here = elementwise.apply
    if defined_here is not None:
        if kwargs.get("out") is not None:
            raise _undefined(f"{name} with out=", args)
        return _called(defined_here, function, args, kwargs)
    raise _undefined(name.removeprefix("function_"), args)


def _called(
    rule: Callable[..., object],
    function: Callable[..., object],
    args: tuple[int | NestedTensor, ...],
    kwargs: dict[str, object],
) -> Any:
    """The result of a rule of the table. Errors: TypeError that names the function if its arguments are wrong."""
    try:
        return rule(function, *args, **kwargs)
    except WeftError:
        raise
    except (TypeError, ValueError) as error:
        given = [*map(type_name, args), *(f"{key}={type_name(kwargs[key])}" for key in kwargs)]
        raise ArgumentTypeError(
            f"{function.__name__} of a ragged tensor: {error}",
            expected="arguments as for a dense tensor",
            got=f"{function.__name__}({', '.join(given)})",
            fix="check the types of the arguments",
        ) from error


def _undefined(
    name: str, args: tuple[Tensor | NestedTensor, ...] | tuple[object, ...]
) -> NotDefinedError:
    shapes = [shape_text(value) for value in args if isinstance(value, NestedTensor)]
    return NotDefinedError(
        f"{name} is not defined on ragged tensors",
        expected="an elementwise function, or one of " + ", ".join(defined()),
        got=f"{name} of {', '.join(shapes) or 'ragged tensors'}",
        fix="go item by item with .unbind(), on all entries with .values(), or pad with .to_padded_tensor(value)",
    )
