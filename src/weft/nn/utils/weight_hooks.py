"""Weight norm and spectral norm by a hook before each forward, under their older names.

The state has `weight_g` and `weight_v`, or `weight_orig`, `weight_u` and `weight_v`, as files of older models do.
"""

from __future__ import annotations

from typing import Any

import weft
from weft import Tensor
from weft.engine.api.api_function import publish
from weft.engine.api.deprecation import deprecated
from weft.errors import ArgumentError, ArgumentTypeError
from weft.functional.linalg.norms import vector_norm
from weft.nn import functional as F
from weft.nn.module.module import Module
from weft.nn.parameter import Parameter, need_shape


def norm_except_dim(v: Tensor, pow: int = 2, dim: int = 0) -> Tensor:
    """The norm over all dimensions but one, which keeps its place; over all with dim -1."""
    if dim == -1:
        return vector_norm(v, pow)
    others = [axis for axis in range(v.dim()) if axis != dim % v.dim()]
    return vector_norm(v, pow, others, True) if others else v.abs()


class WeightNorm:
    """The hook: weight = g v / |v| (Salimans and Kingma 2016)."""

    def __init__(self, name: str, dim: int | None) -> None:
        self.name, self.dim = name, -1 if dim is None else dim

    def compute_weight(self, module: Module) -> Tensor:
        """The weight of the current magnitude and direction."""
        g, v = getattr(module, f"{self.name}_g"), getattr(module, f"{self.name}_v")
        return v * (g / norm_except_dim(v, 2, self.dim))  # type: ignore[no-any-return]

    def __call__(self, module: Module, inputs: tuple[Tensor, ...]) -> None:
        """Before a forward."""
        setattr(module, self.name, self.compute_weight(module))


class SpectralNorm:
    """The hook: weight / its largest singular value, by power iteration while training (Miyato et al. 2018)."""

    def __init__(self, name: str, n_power_iterations: int, dim: int, eps: float) -> None:
        self.name, self.n_power_iterations, self.dim, self.eps = name, n_power_iterations, dim, eps

    def matrix(self, weight: Tensor) -> Tensor:
        """The weight with one row for each index of the dimension."""
        if self.dim != 0:
            others = [axis for axis in range(weight.dim()) if axis != self.dim]
            weight = weight.permute(self.dim, *others)
        return weight.reshape(weight.shape[0], -1)

    def compute_weight(self, module: Module, do_power_iteration: bool) -> Tensor:
        """The weight, normalised."""
        weight = getattr(module, f"{self.name}_orig")
        u, v = getattr(module, f"{self.name}_u"), getattr(module, f"{self.name}_v")
        matrix = self.matrix(weight)
        if do_power_iteration:
            with weft.no_grad():
                new_u, new_v = u, v
                for _ in range(self.n_power_iterations):
                    new_v = F.normalize(matrix.T @ new_u, dim=0, eps=self.eps)
                    new_u = F.normalize(matrix @ new_v, dim=0, eps=self.eps)
                u.copy_(new_u)
                v.copy_(new_v)
        return weight / (u.clone() * (matrix @ v.clone())).sum()  # type: ignore[no-any-return]

    def __call__(self, module: Module, inputs: tuple[Tensor, ...]) -> None:
        """Before a forward."""
        setattr(module, self.name, self.compute_weight(module, module.training))


def _hooks(module: Module) -> dict[int, Any]:
    return module._own_hooks().forward_pre


def need_module(module: Module, name: str) -> None:
    """Errors: ArgumentTypeError."""
    if not isinstance(module, Module) or not isinstance(name, str):
        raise ArgumentTypeError(
            f"expected a module and a name, not {type(module).__name__} and {type(name).__name__}",
            expected="a weft.nn.Module and the name of a parameter",
            got=f"{type(module).__name__} and {type(name).__name__}",
            fix="pass the layer itself",
        )


_NAMES = {WeightNorm: "weight_norm", SpectralNorm: "spectral_norm"}


def _refuse_second(module: Module, name: str, kind: Any) -> None:
    need_module(module, name)
    for hook in _hooks(module).values():
        if isinstance(hook.function, kind) and hook.function.name == name:
            raise ArgumentError(
                f"Cannot register two {_NAMES[kind]} hooks on the same parameter {name}",
                expected="one",
                got="two",
                fix="remove the first",
            )


def _take(module: Module, name: str, kind: Any) -> Any:
    need_module(module, name)
    for number, hook in list(_hooks(module).items()):
        if isinstance(hook.function, kind) and hook.function.name == name:
            del _hooks(module)[number]
            return hook.function
    raise ArgumentError(
        f"{_NAMES[kind]} of '{name}' not found in {module}",
        expected=f"a parameter with {kind.__name__}",
        got=repr(name),
        fix="check the name",
    )


@deprecated(
    "`torch.nn.utils.weight_norm` is deprecated in favor of `torch.nn.utils.parametrizations.weight_norm`."
)
def weight_norm(module: Module, name: str = "weight", dim: int | None = 0) -> Module:
    """Split a weight into magnitude (`weight_g`) and direction (`weight_v`)."""
    _refuse_second(module, name, WeightNorm)
    hook = WeightNorm(name, dim)
    weight = getattr(module, name)
    need_shape("The module passed to `WeightNorm`", weight)
    delattr(module, name)
    magnitude = norm_except_dim(weight.detach(), 2, hook.dim)
    module.register_parameter(f"{name}_g", Parameter(magnitude))
    module.register_parameter(f"{name}_v", Parameter(weight.detach()))
    setattr(module, name, hook.compute_weight(module))
    module.register_forward_pre_hook(hook)
    return module


def remove_weight_norm(module: Module, name: str = "weight") -> Module:
    """Make the weight plain again."""
    hook = _take(module, name, WeightNorm)
    weight = hook.compute_weight(module).detach()
    for part in (name, f"{name}_g", f"{name}_v"):
        delattr(module, part)
    module.register_parameter(name, Parameter(weight))
    return module


def spectral_norm(
    module: Module,
    name: str = "weight",
    n_power_iterations: int = 1,
    eps: float = 1e-12,
    dim: int | None = None,
) -> Module:
    """Divide a weight by its largest singular value."""
    _refuse_second(module, name, SpectralNorm)
    if n_power_iterations <= 0:
        raise ArgumentError(
            "Expected n_power_iterations to be positive, but got "
            f"n_power_iterations={n_power_iterations}",
            expected="n_power_iterations > 0",
            got=str(n_power_iterations),
            fix="use 1",
        )
    if dim is None:
        dim = 1 if getattr(module, "transposed", False) else 0
    hook = SpectralNorm(name, n_power_iterations, dim, eps)
    weight = getattr(module, name)
    need_shape("The module passed to `SpectralNorm`", weight)
    rows, columns = hook.matrix(weight).shape
    delattr(module, name)
    module.register_parameter(f"{name}_orig", weight)
    for suffix, size in (("u", rows), ("v", columns)):
        start = F.normalize(weft.randn(size, dtype=weight.dtype), dim=0, eps=eps)
        module.register_buffer(f"{name}_{suffix}", start)
    setattr(module, name, weight.detach())
    module.register_forward_pre_hook(hook)
    return module


def remove_spectral_norm(module: Module, name: str = "weight") -> Module:
    """Make the weight plain again."""
    hook = _take(module, name, SpectralNorm)
    weight = hook.compute_weight(module, False).detach()
    for part in (name, f"{name}_orig", f"{name}_u", f"{name}_v"):
        delattr(module, part)
    module.register_parameter(name, Parameter(weight))
    return module


def skip_init(module_cls: type[Module], *args: object, **kwargs: object) -> Module:
    """A module that is made like any other: initialising costs little here, so nothing is skipped."""
    if not isinstance(module_cls, type) or not issubclass(module_cls, Module):
        raise ArgumentTypeError(
            f"Expected a Module; got {module_cls}",
            expected="a class of modules",
            got=type(module_cls).__name__,
            fix="pass the class, then its arguments",
        )
    return module_cls(*args, **kwargs)


publish(globals())
