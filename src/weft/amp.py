"""Mixed precision: `autocast`, which casts the operands of matrix products, and `GradScaler`.

Inside `autocast("cpu")` products, convolutions and attention compute on bfloat16, functions that need digits (losses,
norms of distances, Fourier transforms, linear algebra) on float32, as in PyTorch's lists for the CPU; all others take
their operands as they are. There is one device: for any other, autocast is off, with PyTorch's warning.
"""

from __future__ import annotations

import enum
import functools
import sys
import warnings
from collections.abc import Callable
from contextlib import AbstractContextManager
from typing import TYPE_CHECKING, Any

import weft
from weft import Tensor
from weft._build.lazy import gather as _gather
from weft.engine.api.api_function import publish
from weft.engine.api.deprecation import user_level, warn_deprecated
from weft.engine.dispatch.torch_function import ask_types, enter_mode, leave_mode
from weft.engine.ir.dtype import DType
from weft.errors import ArgumentError
from weft.overrides import see_products

if TYPE_CHECKING:
    from weft.optim.optimizer import Optimizer


__all__ = [
    "GradScaler", "autocast", "custom_bwd", "custom_fwd", "get_autocast_dtype", "is_autocast_available",
    "is_autocast_enabled",
]  # fmt: skip

_LOWER = {
    *("conv1d", "conv2d", "conv3d", "conv_transpose1d", "conv_transpose2d", "conv_transpose3d"),
    *("bmm", "mm", "matmul", "linear", "baddbmm", "addmm", "addbmm", "prelu", "vecdot"),
    *("scaled_dot_product_attention", "chain_matmul", "multi_dot"),
    "multi_head_attention_forward",
}
_FULL = {
    *(
        "avg_pool3d",
        "binary_cross_entropy",
        "grid_sample",
        "polar",
        "prod",
        "quantile",
        "nanquantile",
    ),
    *(
        "stft",
        "cdist",
        "trace",
        "view_as_complex",
        "cholesky",
        "cholesky_inverse",
        "cholesky_solve",
    ),
    *(
        "inverse",
        "lu_solve",
        "matrix_rank",
        "orgqr",
        "ormqr",
        "pinverse",
        "max_pool3d",
        "max_unpool2d",
    ),
    *("max_unpool3d", "adaptive_avg_pool3d", "reflection_pad1d", "reflection_pad2d", "mse_loss"),
    *(
        "cosine_embedding_loss",
        "nll_loss",
        "hinge_embedding_loss",
        "poisson_nll_loss",
        "cross_entropy",
    ),
    *("smooth_l1_loss", "l1_loss", "huber_loss", "margin_ranking_loss", "soft_margin_loss"),
    *("triplet_margin_loss", "multi_margin_loss", "ctc_loss", "kl_div", "multilabel_margin_loss"),
    *(
        "binary_cross_entropy_with_logits",
        "fft",
        "ifft",
        "fft2",
        "ifft2",
        "fftn",
    ),
    *("ifftn", "rfft", "irfft", "rfft2", "irfft2", "rfftn", "irfftn", "hfft", "ihfft"),
    *("eig", "eigh", "eigvals", "eigvalsh", "lstsq", "qr", "svd", "svdvals", "solve", "tensorinv"),
    *("tensorsolve", "inv", "cond", "slogdet", "det", "ldl_factor", "householder_product"),
}
_WIDEST = {"cat", "stack", "index_copy", "concat", "concatenate"}
_modes: list[autocast] = []


def is_autocast_available(device_type: str) -> bool:
    """True if a device has mixed precision: the CPU has. Errors: RuntimeError for the name of no device."""
    _need_device(device_type)
    return device_type == "cpu"


def is_autocast_enabled(device_type: str | None = None) -> bool:
    """True if autocast is on here; asked without a device, as PyTorch asks about CUDA, the answer is no."""
    return device_type == "cpu" and bool(_modes) and _modes[-1]._enabled


def get_autocast_dtype(device_type: str) -> Any:
    """The type that autocast casts to."""
    _need_device(device_type)
    return _innermost().fast_dtype if device_type == "cpu" else weft.float16


def is_autocast_cpu_enabled() -> bool:
    """True if autocast is on here."""
    return is_autocast_enabled("cpu")


def get_autocast_cpu_dtype() -> Any:
    """The type that autocast casts to."""
    return get_autocast_dtype("cpu")


def clear_autocast_cache() -> None:
    """Nothing to do: a weight is cast where it is used, and equal casts are computed once."""


# -- PyTorch's setters, which change the innermost block, or one that lasts where there is none ------------------------

_caches, _nesting = [True], [0]


@functools.cache
def _lasting() -> autocast:
    """The mode that setters change where there is no block; it is on from setting True to setting False."""
    return autocast("cpu", weft.bfloat16, enabled=False)


def _innermost() -> autocast:
    return _modes[-1] if _modes else _lasting()


def set_autocast_enabled(device_type: object, enabled: bool | None = None) -> None:
    """Have autocast on or off on the CPU; other devices, and CUDA where none is named, are not there."""
    if enabled is None or device_type != "cpu":
        return
    mode = _innermost()
    mode._enabled = bool(enabled)
    if mode is _lasting() and mode._enabled != (mode in _modes):
        if mode._enabled:
            mode.__enter__()
        else:
            mode.__exit__()


def set_autocast_dtype(device_type: str, dtype: Any) -> None:
    """Have autocast cast to a type on the CPU."""
    if device_type == "cpu":
        _innermost().fast_dtype = dtype


def set_autocast_cpu_enabled(enabled: bool) -> None:
    """Have autocast on or off."""
    set_autocast_enabled("cpu", enabled)


def set_autocast_cpu_dtype(dtype: Any) -> None:
    """Have autocast cast to a type."""
    set_autocast_dtype("cpu", dtype)


def is_autocast_cache_enabled() -> bool:
    """The last setting of `set_autocast_cache_enabled`; equal casts are computed once anyway."""
    return _caches[0]


def set_autocast_cache_enabled(enabled: bool) -> None:
    """Remember whether casts are to be kept; equal ones are computed once anyway."""
    _caches[0] = bool(enabled)


def autocast_increment_nesting() -> int:
    """Count a block that was begun by setters. Returns: how many there are."""
    _nesting[0] += 1
    return _nesting[0]


def autocast_decrement_nesting() -> int:
    """Count a block that has ended. Returns: how many are left."""
    _nesting[0] -= 1
    return _nesting[0]


def _forget(mode: autocast) -> None:
    """A mode has ended, by its block or with its thread."""
    if mode in _modes:
        _modes.remove(mode)


_HALVES = (weft.bfloat16, weft.float16)


def _need_device(device_type: object) -> None:
    """Errors: ValueError where a device is not named by a string, RuntimeError on a name of none."""
    if not isinstance(device_type, str):
        raise ArgumentError(
            f"Expected `device_type` of type `str`, got: `{type(device_type)}`",
            expected="'cpu'",
            got=repr(device_type),
            fix="pass device.type",
        )
    if device_type != "cpu":
        weft.device(device_type)


def _unavailable(device_type: str, dtype: object) -> str | None:
    """Why there is no mixed precision of a type on a device; None where there is."""
    if device_type != "cpu":
        if device_type == "cuda":
            return "CUDA is not available or torch_xla is imported. Disabling autocast."
        return f"User provided device_type of '{device_type}', but it is not available. Disabling"
    if dtype in _HALVES:
        return None
    return (
        "In CPU autocast, but the target dtype is not supported. Disabling autocast.\n"
        "CPU Autocast only supports dtypes of torch.bfloat16, torch.float16 currently."
    )


class autocast:  # noqa: N801 - PyTorch's name
    """A context, and a decorator, in which products compute on `dtype` (bfloat16).

    On other devices, and with other types, it is off, with a warning. Errors: RuntimeError for the name of no device;
    ValueError where it is no string.

    Example:
        >>> import weft
        >>> x, w = weft.ones(2, 3), weft.ones(3, 4)
        >>> with weft.autocast("cpu", dtype=weft.bfloat16):
        ...     y = x @ w
        >>> y.dtype
        weft.bfloat16
    """

    def __init__(
        self,
        device_type: str,
        dtype: object = None,
        enabled: bool = True,
        cache_enabled: bool | None = None,
    ) -> None:
        _need_device(device_type)
        self.device, self.cache_enabled = device_type, cache_enabled
        self.fast_dtype: Any = get_autocast_dtype(device_type) if dtype is None else dtype
        why_off = _unavailable(device_type, self.fast_dtype)
        self._enabled = enabled and why_off is None
        if enabled and why_off is not None:
            warnings.warn(why_off, UserWarning, stacklevel=user_level())

    def __enter__(self) -> autocast:
        see_products()
        enter_mode(self, functools.partial(_forget, self))
        _modes.append(self)
        return self

    def __exit__(self, *exception: object) -> None:
        _forget(self)
        leave_mode(self)

    def __call__(self, function: Callable[..., object]) -> Callable[..., Any]:
        @functools.wraps(function)
        def cast(*args: object, **kwargs: object) -> Any:
            with autocast(self.device, self.fast_dtype, self._enabled, self.cache_enabled):
                return function(*args, **kwargs)

        return cast

    def __torch_function__(
        self,
        func: Any,
        types: Any,
        args: Any = (),
        kwargs: Any = None,
    ) -> Any:
        """Cast the operands of a function of the lists; NotImplemented leaves the call as it is."""
        name = getattr(func.function, "__name__", "") if self._enabled else ""
        target = _target(name, args, kwargs or {}, self.fast_dtype)
        if target is None:
            return NotImplemented
        named = {key: _cast(value, target) for key, value in (kwargs or {}).items()}
        return ask_types(func, tuple(_cast(value, target) for value in args), named)


def autocast_decorator(
    autocast_instance: AbstractContextManager[object], func: Callable[..., object]
) -> Callable[..., Any]:
    """A function that runs in a context, entered anew at each call."""

    @functools.wraps(func)
    def decorate_autocast(*args: object, **kwargs: object) -> Any:
        with autocast_instance:
            return func(*args, **kwargs)

    return decorate_autocast


def _target(name: str, args: Any, kwargs: Any, fast: object) -> Any:
    """The type that a function's operands are cast to, or None."""
    if name in _LOWER or (name in _PRODUCTS and _PRODUCTS[name](*args, **kwargs)):
        return fast
    if name in _FULL or (name == "pad" and _repeats(*args, **kwargs)):
        return weft.float32
    if name in _WIDEST:
        found = {tensor.dtype for tensor in _tensors(args)}
        return weft.float32 if len(found) > 1 and weft.float32 in found else None
    return None


def _repeats(input: Tensor, pad: object, mode: str = "constant", value: object = None) -> bool:
    """True if `pad` repeats elements of the input."""
    return mode in ("reflect", "replicate")


def _sums(equation: str) -> bool:
    """True if an equation of einsum is a product of matrices: names that several operands have are summed."""
    given, arrow, result = equation.replace(" ", "").partition("->")
    terms = given.split(",")
    shared = {name for name in given if name.isalpha() and sum(name in term for term in terms) > 1}
    return bool(shared - set(result)) if arrow else bool(shared)


# Functions that are products of matrices for some operands only.
_PRODUCTS: dict[str, Callable[..., bool]] = {
    "einsum": lambda equation, *operands: _sums(equation),
    "inner": lambda a, b, **_: a.dim() > 0 < b.dim() and a.dim() + b.dim() > 2,
    "tensordot": lambda a, b, dims=2, **_: a.dim() + b.dim() > 2 or dims == 0,
}


def _tensors(args: tuple[object, ...]) -> list[Any]:
    flat = [
        part for value in args for part in (value if isinstance(value, list | tuple) else [value])
    ]
    return [value for value in flat if isinstance(value, Tensor)]


_HALVES_AND_FLOAT = (weft.float32, weft.float16, weft.bfloat16)


def _cast(value: Any, target: Tensor | DType | None) -> Any:
    """Floating-point tensors in another type; float64 stays."""
    if isinstance(value, Tensor):
        return value.to(target) if value.dtype in _HALVES_AND_FLOAT else value
    if type(value) in (list, tuple):
        return type(value)(_cast(part, target) for part in value)
    return value


def custom_fwd(
    fwd: Any = None, *, device_type: str = "cpu", cast_inputs: DType | None = None
) -> Callable[..., Any]:
    """A decorator of a Function's forward: autocast is off inside where `cast_inputs` names a type for the inputs."""
    if fwd is None:
        return functools.partial(custom_fwd, device_type=device_type, cast_inputs=cast_inputs)

    @functools.wraps(fwd)
    def forward(*args: Any, **kwargs: Any) -> Any:
        if cast_inputs is None or not is_autocast_enabled(device_type):
            return fwd(*args, **kwargs)
        with autocast(device_type, enabled=False):
            return fwd(*(_cast(value, cast_inputs) for value in args), **kwargs)

    return forward


def custom_bwd(bwd: Any = None, *, device_type: str = "cpu") -> Callable[..., Any]:
    """A decorator of a Function's backward; derivatives follow the types of the forward pass anyway."""
    return functools.partial(custom_bwd, device_type=device_type) if bwd is None else bwd


class OptState(enum.Enum):
    """The state of an optimizer between two updates of a scaler."""

    READY, UNSCALED, STEPPED = 0, 1, 2


def _held(gradient: Tensor) -> Any:
    """The stored elements of a gradient: of a sparse one its entries."""
    return gradient._values() if gradient.is_sparse else gradient


class GradScaler:
    """Scales losses so that small gradients survive half precision, and leaves out steps that overflowed.

    On the CPU nothing needs it; it does what it says all the same. For other devices it is off, with a warning.

    Example:
        >>> import weft
        >>> model, scaler = weft.nn.Linear(3, 1), weft.GradScaler("cpu")
        >>> optimizer = weft.optim.SGD(model.parameters(), lr=0.1)
        >>> scaler.scale(model(weft.ones(2, 3)).sum()).backward()
        >>> scaler.step(optimizer)  # left out where a gradient is not finite
        >>> scaler.update()
        >>> scaler.get_scale()
        65536.0
    """

    def __init__(
        self,
        device: str = "cuda",
        init_scale: float = 2.0**16,
        growth_factor: float = 2.0,
        backoff_factor: float = 0.5,
        growth_interval: int = 2000,
        enabled: bool = True,
    ) -> None:
        if enabled and str(device) != "cpu":
            warnings.warn(
                f"torch.{device}.amp.GradScaler is enabled, but {str(device).upper()} is not available.  Disabling.",
                UserWarning,
                stacklevel=user_level(),
            )
            enabled = False
        self._device, self._enabled = device, enabled
        self._scale, self._growth_tracker = float(init_scale), 0
        self._growth, self._backoff, self._interval = growth_factor, backoff_factor, growth_interval
        self._overflows: dict[int, bool] = {}

    def is_enabled(self) -> bool:
        """True if it scales."""
        return self._enabled

    def get_scale(self) -> float:
        """The factor now."""
        return self._scale if self._enabled else 1.0

    def scale(self, outputs: Tensor) -> Any:
        """A loss, or several, times the factor."""
        if not self._enabled:
            return outputs
        if isinstance(outputs, Tensor):
            return outputs * self._scale
        return type(outputs)(self.scale(part) for part in outputs)

    def unscale_(self, optimizer: Optimizer) -> None:
        """Divide an optimizer's gradients by the factor. Errors: RuntimeError for a second time in a step."""
        if not self._enabled:
            return
        if id(optimizer) in self._overflows:
            raise ArgumentError(
                "unscale_() has already been called on this optimizer since the last update().",
                expected="one unscale_ for each step",
                got="a second one",
                fix="call update() after step()",
            )
        gradients = [
            p.grad for g in optimizer.param_groups for p in g["params"] if p.grad is not None
        ]
        with weft.no_grad():
            finite = [weft.isfinite(_held(gradient)).all() for gradient in gradients]
            for gradient in gradients:
                gradient.div_(self._scale)
            overflow = bool(finite) and not bool(weft.stack(finite).all())
        self._overflows[id(optimizer)] = overflow

    def step(self, optimizer: Optimizer, *args: Any, **kwargs: Any) -> Any:
        """`optimizer.step()`, unless a gradient is not finite."""
        if not self._enabled:
            return optimizer.step(*args, **kwargs)
        if id(optimizer) not in self._overflows:
            self.unscale_(optimizer)
        return None if self._overflows[id(optimizer)] else optimizer.step(*args, **kwargs)

    def update(self, new_scale: float | Tensor | None = None) -> None:
        """Another factor for the next step: smaller after an overflow, larger after many steps without."""
        if not self._enabled:
            return
        if new_scale is not None:
            self._scale = float(new_scale)
        elif any(self._overflows.values()):
            self._scale, self._growth_tracker = self._scale * self._backoff, 0
        else:
            self._growth_tracker += 1
            if self._growth_tracker == self._interval:
                self._scale, self._growth_tracker = self._scale * self._growth, 0
        self._overflows.clear()

    def get_growth_factor(self) -> float:
        """The number that the factor grows by."""
        return self._growth

    def set_growth_factor(self, new_factor: float) -> None:
        """Let the factor grow by another number."""
        self._growth = new_factor

    def get_backoff_factor(self) -> float:
        """The number that the factor shrinks by after an overflow."""
        return self._backoff

    def set_backoff_factor(self, new_factor: float) -> None:
        """Let the factor shrink by another number."""
        self._backoff = new_factor

    def get_growth_interval(self) -> int:
        """The number of steps without an overflow before the factor grows."""
        return self._interval

    def set_growth_interval(self, new_interval: int) -> None:
        """Let the factor grow after another number of steps."""
        self._interval = new_interval

    def state_dict(self) -> dict[str, Any]:
        """The state for `load_state_dict`; empty if the scaler is off."""
        if not self._enabled:
            return {}
        return {
            "scale": self._scale,
            "growth_factor": self._growth,
            "backoff_factor": self._backoff,
            "growth_interval": self._interval,
            "_growth_tracker": self._growth_tracker,
        }

    def load_state_dict(self, state_dict: dict[str, Any]) -> None:
        """Take over what `state_dict` gave."""
        if self._enabled:
            self._scale, self._growth_tracker = state_dict["scale"], state_dict["_growth_tracker"]
            self._growth, self._backoff = state_dict["growth_factor"], state_dict["backoff_factor"]
            self._interval = state_dict["growth_interval"]


# -- older names of the CPU's, which take no device --------------------------------------------------------------------


def _warn_of_older_name(name: str) -> None:
    warn_deprecated(
        f"`torch.cpu.amp.{name}(args...)` is deprecated. Please use `torch.amp.{name}('cpu', args...)` instead."
    )


class CPUAutocast(autocast):
    """A context, and a decorator, in which products compute on `dtype`: `weft.autocast("cpu")`."""

    def __init__(
        self, enabled: bool = True, dtype: object = None, cache_enabled: bool = True
    ) -> None:
        _warn_of_older_name("autocast")
        super().__init__("cpu", dtype, enabled, cache_enabled)


class CPUGradScaler(GradScaler):
    """Scales losses: `weft.GradScaler("cpu")`."""

    def __init__(
        self,
        init_scale: float = 2.0**16,
        growth_factor: float = 2.0,
        backoff_factor: float = 0.5,
        growth_interval: int = 2000,
        enabled: bool = True,
    ) -> None:
        _warn_of_older_name("GradScaler")
        super().__init__("cpu", init_scale, growth_factor, backoff_factor, growth_interval, enabled)


_PRECISION = "autocast autocast_decorator custom_bwd custom_fwd is_autocast_available"
_gather(
    sys.modules[__name__],
    {"autocast_mode": {"amp": _PRECISION}, "grad_scaler": {"amp": "GradScaler OptState"}},
)
publish(globals())
del publish
