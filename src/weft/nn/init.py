"""Initialisers: fill a tensor in place, outside the graph, and return it.

They take a tensor and the parameters of a distribution. The fan rules are those of Glorot and Bengio (2010) and He et
al. (2015); the random numbers come from the framework's generator.
"""

from __future__ import annotations

import math
import warnings
from typing import TYPE_CHECKING, Any

import weft
from weft import Tensor
from weft.engine.api.api_function import publish
from weft.errors import ArgumentError

if TYPE_CHECKING:
    from weft.functional.random.generator import Generator


_FIXED_GAINS = {
    "linear": 1.0, "conv1d": 1.0, "conv2d": 1.0, "conv3d": 1.0,
    "conv_transpose1d": 1.0, "conv_transpose2d": 1.0, "conv_transpose3d": 1.0,
    "sigmoid": 1.0, "tanh": 5.0 / 3, "relu": math.sqrt(2.0), "selu": 0.75,
}  # fmt: skip


def calculate_gain(nonlinearity: str, param: float | None = None) -> float:
    """The factor by which a nonlinearity's weights are scaled to keep the variance."""
    if nonlinearity == "leaky_relu":
        if isinstance(param, bool) or not isinstance(param, int | float | None):
            raise ArgumentError(
                f"negative_slope {param} not a valid number",
                expected="a number or None",
                got=repr(param),
                fix="pass the slope of leaky_relu",
            )
        slope = 0.01 if param is None else param
        return math.sqrt(2.0 / (1 + slope**2))
    if nonlinearity not in _FIXED_GAINS:
        raise ArgumentError(
            f"Unsupported nonlinearity {nonlinearity}",
            expected=", ".join([*_FIXED_GAINS, "leaky_relu"]),
            got=repr(nonlinearity),
            fix="pass one of these names",
        )
    return _FIXED_GAINS[nonlinearity]


def _no_grad_fill_(tensor: Tensor, val: float) -> Tensor:
    with weft.no_grad():
        return tensor.fill_(val)


def _no_grad_zero_(tensor: Tensor) -> Tensor:
    return _no_grad_fill_(tensor, 0.0)


def _no_grad_uniform_(
    tensor: Tensor, a: float, b: float, generator: Generator | None = None
) -> Tensor:
    return uniform_(tensor, a, b, generator=generator)


def _no_grad_normal_(
    tensor: Tensor, mean: float, std: float, generator: Generator | None = None
) -> Tensor:
    return normal_(tensor, mean, std, generator=generator)


def _no_grad_trunc_normal_(
    tensor: Tensor, mean: float, std: float, a: float, b: float, generator: Generator | None = None
) -> Tensor:
    return trunc_normal_(tensor, mean, std, a, b, generator=generator)


def _calculate_fan_in_and_fan_out(tensor: Tensor) -> tuple[int, int]:
    """The number of inputs and outputs that one weight connects."""
    if tensor.dim() < 2:
        raise ArgumentError(
            "Fan in and fan out can not be computed for tensor with fewer than 2 dimensions",
            expected="at least 2 dimensions",
            got=str(list(tensor.shape)),
            fix="initialise biases with zeros_ or uniform_",
        )
    field = math.prod(tensor.shape[2:])
    return tensor.shape[1] * field, tensor.shape[0] * field


def _calculate_correct_fan(tensor: Tensor, mode: str) -> int:
    modes = ("fan_in", "fan_out")
    mode = mode.lower()
    if mode not in modes:
        raise ArgumentError(
            f"Mode {mode} not supported, please use one of {list(modes)}",
            expected=" or ".join(modes),
            got=repr(mode),
            fix="use mode='fan_in'",
        )
    return _calculate_fan_in_and_fan_out(tensor)[modes.index(mode)]


def uniform_(
    tensor: Tensor, a: float = 0.0, b: float = 1.0, generator: Generator | None = None
) -> Tensor:
    """Uniform between `a` and `b`."""
    with weft.no_grad():
        return tensor.uniform_(a, b, generator=generator)


def normal_(
    tensor: Tensor, mean: float = 0.0, std: float = 1.0, generator: Generator | None = None
) -> Tensor:
    """Normal with the given mean and standard deviation."""
    with weft.no_grad():
        return tensor.normal_(mean, std, generator=generator)


def trunc_normal_(
    tensor: Tensor,
    mean: float = 0.0,
    std: float = 1.0,
    a: float = -2.0,
    b: float = 2.0,
    generator: Generator | None = None,
) -> Tensor:
    """Normal, cut off at `a` and `b`, by inverting the distribution function."""
    if mean < a - 2 * std or mean > b + 2 * std:
        warnings.warn(
            "mean is more than 2 std from [a, b] in nn.init.trunc_normal_. "
            "The distribution of values may be incorrect.",
            stacklevel=2,
        )
    if tensor.is_meta:
        return tensor
    from scipy.special import erfinv

    low, high = (math.erf((bound - mean) / (std * math.sqrt(2.0))) for bound in (a, b))
    uniform = weft.empty(tensor.shape, dtype=weft.float64, device="cpu").uniform_(
        low, high, generator=generator
    )
    with weft.no_grad():
        tensor.copy_(weft.from_numpy(erfinv(uniform.numpy())))
        return tensor.mul_(std * math.sqrt(2.0)).add_(mean).clamp_(min=a, max=b)


def constant_(tensor: Tensor, val: float) -> Tensor:
    """The same number everywhere."""
    with weft.no_grad():
        return tensor.fill_(val)


def ones_(tensor: Tensor) -> Tensor:
    """Ones."""
    return constant_(tensor, 1.0)


def zeros_(tensor: Tensor) -> Tensor:
    """Zeros."""
    return constant_(tensor, 0.0)


def eye_(tensor: Tensor) -> Tensor:
    """The identity matrix."""
    if tensor.dim() != 2:
        raise ArgumentError(
            "Only tensors with 2 dimensions are supported",
            expected="2 dimensions",
            got=str(list(tensor.shape)),
            fix="initialise the matrices of a batch one by one",
        )
    with weft.no_grad():
        return tensor.copy_(weft.eye(*tensor.shape, dtype=tensor.dtype, device=tensor.device))


def xavier_uniform_(
    tensor: Tensor, gain: float = 1.0, generator: Generator | None = None
) -> Tensor:
    """Uniform, scaled by both fans (Glorot)."""
    fan_in, fan_out = _calculate_fan_in_and_fan_out(tensor)
    bound = gain * math.sqrt(6.0 / (fan_in + fan_out))
    return uniform_(tensor, -bound, bound, generator)


def xavier_normal_(tensor: Tensor, gain: float = 1.0, generator: Generator | None = None) -> Tensor:
    """Normal, scaled by both fans (Glorot)."""
    fan_in, fan_out = _calculate_fan_in_and_fan_out(tensor)
    return normal_(tensor, 0.0, gain * math.sqrt(2.0 / (fan_in + fan_out)), generator)


def _kaiming_std(tensor: Tensor, a: float, mode: str, nonlinearity: str) -> float:
    return calculate_gain(nonlinearity, a) / math.sqrt(_calculate_correct_fan(tensor, mode))


def _has_elements(tensor: Tensor) -> bool:
    if 0 in tensor.shape:
        warnings.warn("Initializing zero-element tensors is a no-op", stacklevel=3)
        return False
    return True


def kaiming_uniform_(
    tensor: Tensor,
    a: float = 0,
    mode: str = "fan_in",
    nonlinearity: str = "leaky_relu",
    generator: Generator | None = None,
) -> Tensor:
    """Uniform, scaled by one fan (He)."""
    if not _has_elements(tensor):
        return tensor
    bound = math.sqrt(3.0) * _kaiming_std(tensor, a, mode, nonlinearity)
    return uniform_(tensor, -bound, bound, generator)


def kaiming_normal_(
    tensor: Tensor,
    a: float = 0,
    mode: str = "fan_in",
    nonlinearity: str = "leaky_relu",
    generator: Generator | None = None,
) -> Tensor:
    """Normal, scaled by one fan (He)."""
    if not _has_elements(tensor):
        return tensor
    return normal_(tensor, 0.0, _kaiming_std(tensor, a, mode, nonlinearity), generator)


def orthogonal_(tensor: Tensor, gain: float = 1, generator: Generator | None = None) -> Tensor:
    """A (semi-)orthogonal matrix over the first dimension (Saxe et al. 2013)."""
    if tensor.dim() < 2:
        raise ArgumentError(
            "Only tensors with 2 or more dimensions are supported",
            expected="at least 2 dimensions",
            got=str(list(tensor.shape)),
            fix="initialise vectors with normal_ or uniform_",
        )
    if tensor.numel() == 0 or tensor.is_meta:
        return tensor
    import numpy as np

    from weft.functional.support.blas_threads import limited

    rows, columns = tensor.shape[0], math.prod(tensor.shape[1:])
    dtype = tensor.dtype if tensor.dtype is weft.float64 else weft.float32
    flat = weft.empty(max(rows, columns), min(rows, columns), dtype=dtype, device="cpu")
    flat.normal_(0, 1, generator=generator)
    q, r = limited(np.linalg.qr)(flat.numpy())
    q = q * np.sign(np.diag(r))  # makes the decomposition unique, so that the result is uniform
    with weft.no_grad():
        matrix = weft.from_numpy(np.ascontiguousarray(q if rows >= columns else q.T))
        return tensor.copy_(matrix.reshape(tensor.shape)).mul_(gain)


def dirac_(tensor: Tensor, groups: int = 1) -> Tensor:
    """Weights of a convolution that passes its channels on, in each group as many as there are.

    Shapes: (out, in, *kernel) of 3 to 5 dimensions. Errors: ValueError on others, and where groups do not divide out.
    """
    if tensor.dim() not in (3, 4, 5) or tensor.shape[0] % groups:
        raise ArgumentError(
            "dim 0 must be divisible by groups"
            if tensor.dim() in (3, 4, 5)
            else "Only tensors with 3, 4, or 5 dimensions are supported",
            expected="(out, in, *kernel) of 3 to 5 dimensions, out a multiple of groups",
            got=f"{list(tensor.shape)}, groups={groups}",
            fix="initialise the weight of a convolution",
        )
    outputs = tensor.shape[0] // groups
    middle = tuple(size // 2 for size in tensor.shape[2:])
    with weft.no_grad():
        tensor.zero_()
        for group in range(groups):
            for channel in range(min(outputs, tensor.shape[1])):
                tensor[(group * outputs + channel, channel, *middle)] = 1
    return tensor


def sparse_(
    tensor: Tensor, sparsity: float, std: float = 0.01, generator: Generator | None = None
) -> Tensor:
    """Normal numbers, and zeros in the share `sparsity` of each column (Martens 2010). Errors: ValueError."""
    if tensor.dim() != 2:
        raise ArgumentError(
            "Only tensors with 2 dimensions are supported",
            expected="2 dimensions",
            got=str(list(tensor.shape)),
            fix="initialise matrices",
        )
    if not 0 <= sparsity <= 1:
        raise ArgumentError(
            f"sparsity must be between 0 and 1, but got {sparsity}",
            expected="0 <= sparsity <= 1",
            got=str(sparsity),
            fix="pass the share of zeros",
        )
    rows, columns = tensor.shape
    zeros = math.ceil(sparsity * rows)
    with weft.no_grad():
        tensor.normal_(0, std, generator=generator)
        for column in range(columns):
            tensor[weft.randperm(rows)[:zeros], column] = 0
    return tensor


def _older(current: Any) -> Any:
    """An initialiser under the name that it had, without the underscore; each call warns."""
    name = current.__name__.removesuffix("_")

    def initialise(*args: object, **kwargs: object) -> Tensor:
        message = f"`nn.init.{name}` is now deprecated in favor of `nn.init.{name}_`."
        warnings.warn(message, FutureWarning, stacklevel=2)
        filled: Tensor = current(*args, **kwargs)
        return filled

    initialise.__name__ = initialise.__qualname__ = name
    initialise.explained_as = current  # type: ignore[attr-defined]
    initialise.__doc__ = f"`{name}_` under its older name; warns."
    return initialise


constant, dirac, eye, normal = map(_older, (constant_, dirac_, eye_, normal_))
orthogonal, sparse, uniform = map(_older, (orthogonal_, sparse_, uniform_))
kaiming_normal, kaiming_uniform = map(_older, (kaiming_normal_, kaiming_uniform_))
xavier_normal, xavier_uniform = map(_older, (xavier_normal_, xavier_uniform_))


def bias_bound(weight: Tensor) -> float:
    """The bound of the uniform distribution that layers draw their biases from."""
    fan_in, _ = _calculate_fan_in_and_fan_out(weight)
    return 1 / math.sqrt(fan_in) if fan_in > 0 else 0.0


def init_weight_and_bias(weight: Tensor, bias: Tensor | None) -> None:
    """The default initialisation of linear and convolution layers."""
    kaiming_uniform_(weight, a=math.sqrt(5))
    if bias is not None:
        bound = bias_bound(weight)
        uniform_(bias, -bound, bound)


publish(globals())
del publish
