"""Parametrizations to use: orthogonal matrices, weight norm and spectral norm.

Each registers itself on a parameter by `parametrize.register_parametrization`.
"""

from __future__ import annotations

import weft
from weft import Tensor
from weft.engine.api.api_function import publish
from weft.errors import ArgumentError, NotDefinedError
from weft.nn import functional as F
from weft.nn.module.module import Module
from weft.nn.utils import parametrize, weight_hooks


def _orthonormal(matrix: Tensor) -> Tensor:
    """The orthogonal factor of matrices (*, n, k), n >= k, of which the triangular one has a positive diagonal."""
    from weft.functional.linalg.householder import householder_product

    reflectors, tau = weft.geqrf(matrix)
    signs = reflectors.diagonal(dim1=-2, dim2=-1).sgn()
    return householder_product(reflectors, tau) * signs.unsqueeze(-2)  # type: ignore[no-any-return]


def _is_orthonormal(matrix: Tensor) -> bool:
    columns = matrix.shape[-1]
    unit = weft.eye(columns, dtype=matrix.dtype)
    bound = 10 * columns * weft.finfo(matrix.dtype).eps
    return bool(weft.allclose(matrix.mH @ matrix, unit, atol=bound))


class _Orthogonal(Module):
    """Matrices with orthonormal columns (or rows, where these are fewer) from free ones: by the exponential or the
    Cayley transform of a skew-symmetric matrix, or by Householder's reflections. With a `base`, what is free is the
    way from it (Lezcano-Casado 2019).
    """

    def __init__(self, weight: Tensor, orthogonal_map: str, use_trivialization: bool) -> None:
        super().__init__()
        if weight.is_complex() and orthogonal_map == "householder":
            raise ArgumentError(
                "The householder parametrization does not support complex tensors.",
                expected="'matrix_exp' or 'cayley' for a complex weight",
                got=f"'householder' for {weight.dtype}",
                fix="leave orthogonal_map out",
            )
        self.shape, self.orthogonal_map = tuple(weight.shape), orthogonal_map
        self.trivialized = use_trivialization
        if use_trivialization:
            self.register_buffer("base", None)

    def _rotation(self, free: Tensor) -> Tensor:
        """(*, n, k) with n >= k -> the first k columns of an orthogonal matrix."""
        rows, columns = free.shape[-2:]
        lower = free.tril()
        if rows != columns:
            lower = weft.cat([lower, lower.new_zeros(*lower.shape[:-1], rows - columns)], -1)
        skew = lower - lower.mH
        if self.orthogonal_map == "matrix_exp":
            return weft.matrix_exp(skew)[..., :columns]
        from weft.functional.linalg.solve import solve

        unit = weft.eye(rows, dtype=skew.dtype)
        return solve(unit - skew / 2, unit + skew / 2)[..., :columns]  # type: ignore[no-any-return]

    def _reflections(self, free: Tensor) -> Tensor:
        """(*, n, k) with n >= k -> the product of k reflections, with the signs that the diagonal gives."""
        from weft.functional.linalg.householder import householder_product

        below = free.tril(-1)
        tau = 2.0 / (1.0 + (below * below).sum(-2))
        signs = free.diagonal(dim1=-2, dim2=-1).int()
        return householder_product(below, tau) * signs.unsqueeze(-2)  # type: ignore[no-any-return]

    def forward(self, free: Tensor) -> Tensor:
        """Free matrices -> orthogonal ones."""
        wide = free.shape[-2] < free.shape[-1]
        tall = free.mT if wide else free
        made = self._reflections if self.orthogonal_map == "householder" else self._rotation
        result = made(tall)
        if self.trivialized:
            result = self.base @ result
        return result.mT if wide else result

    def right_inverse(self, value: Tensor) -> Tensor:
        """Orthogonal matrices, or the nearest ones, column by column -> free ones. Errors: ArgumentError."""
        if tuple(value.shape) != self.shape:
            raise ArgumentError(
                f"Expected a matrix or batch of matrices of shape {self.shape}. "
                f"Got a tensor of shape {tuple(value.shape)}.",
                expected=str(self.shape),
                got=str(tuple(value.shape)),
                fix="assign a matrix of the shape of the weight",
            )
        with weft.no_grad():
            wide = value.shape[-2] < value.shape[-1]
            tall = value.mT if wide else value
            if not self.trivialized:
                free = self._free(tall)
                return free.mT if wide else free
            self.base = self._whole(tall)
            start = weft.zeros_like(value)
            start.diagonal(dim1=-2, dim2=-1).fill_(-1.0)  # the identity for each of the maps
            return start

    def _whole(self, tall: Tensor) -> Tensor:
        """(*, n, k) -> orthogonal (*, n, n) that begin with it."""
        *lead, rows, columns = tall.shape
        if rows == columns:
            return tall.clone() if _is_orthonormal(tall) else _orthonormal(tall)
        more = weft.randn(*lead, rows, rows - columns, dtype=tall.dtype)
        return _orthonormal(weft.cat([tall, more], -1))

    def _free(self, tall: Tensor) -> Tensor:
        """The reflections that give a matrix. Errors: NotDefinedError for the other maps."""
        if self.orthogonal_map != "householder":
            raise NotDefinedError(
                "It is not possible to assign to the matrix exponential or the Cayley parametrizations "
                "when use_trivialization=False.",
                expected="use_trivialization=True, or orthogonal_map='householder'",
                got=f"orthogonal_map={self.orthogonal_map!r}",
                fix="register it with use_trivialization=True",
            )
        reflectors, tau = weft.geqrf(tall)
        signs = reflectors.diagonal(dim1=-2, dim2=-1).sign()
        turned = weft.where(tau == 0, -signs, signs)
        reflectors.diagonal(dim1=-2, dim2=-1).copy_(turned)
        return reflectors


def _tensor_of(module: Module, name: str) -> Tensor:
    """A module's tensor by its name. Errors: ValueError where there is none."""
    found = getattr(module, name, None)
    if not isinstance(found, Tensor):
        raise ArgumentError(
            f"Module '{module}' has no parameter or buffer with name '{name}'",
            expected="the name of a parameter or buffer",
            got=repr(name),
            fix="list them with named_parameters()",
        )
    return found


def orthogonal(
    module: Module,
    name: str = "weight",
    orthogonal_map: str | None = None,
    *,
    use_trivialization: bool = True,
) -> Module:
    """Keep a matrix, or a batch of matrices, orthogonal. `orthogonal_map` is "matrix_exp",
    "cayley" or "householder"; without it the first for square and complex matrices, else
    the last.

    Args:
        orthogonal_map: how: "matrix_exp", "cayley" or "householder"; None: the first for
            square and complex matrices, else the last.
        use_trivialization: True: what is learned is the way from the first matrix, which
            keeps rates of learning alike. Default: True.

    Raises:
        ArgumentError.
    """
    weight_hooks.need_module(module, name)
    weight = _tensor_of(module, name)
    if weight.dim() < 2:
        raise ArgumentError(
            f"Expected a matrix or batch of matrices. Got a tensor of {weight.dim()} dimensions.",
            expected="the name of a parameter or buffer of at least 2 dimensions",
            got=repr(name),
            fix="list them with named_parameters()",
        )
    if orthogonal_map is None:
        square = weight.shape[-2] == weight.shape[-1]
        orthogonal_map = "matrix_exp" if square or weight.is_complex() else "householder"
    if orthogonal_map not in ("matrix_exp", "cayley", "householder"):
        raise ArgumentError(
            'orthogonal_map has to be one of "matrix_exp", "cayley", "householder". '
            f"Got: {orthogonal_map}",
            expected="'matrix_exp', 'cayley' or 'householder'",
            got=repr(orthogonal_map)[:80],
            fix="leave orthogonal_map out",
        )
    part = _Orthogonal(weight, orthogonal_map, use_trivialization)
    return parametrize.register_parametrization(module, name, part, unsafe=True)


class _WeightNorm(Module):
    """g v / |v| (Salimans and Kingma 2016)."""

    def __init__(self, dim: int | None = 0) -> None:
        super().__init__()
        self.dim = -1 if dim is None else dim

    def forward(self, weight_g: Tensor, weight_v: Tensor) -> Tensor:
        """Magnitudes and directions -> weights."""
        return weight_v * (weight_g / weight_hooks.norm_except_dim(weight_v, 2, self.dim))

    def right_inverse(self, weight: Tensor) -> tuple[Tensor, Tensor]:
        """Weights -> magnitudes and directions."""
        return weight_hooks.norm_except_dim(weight, 2, self.dim), weight.clone()


def weight_norm(module: Module, name: str = "weight", dim: int = 0) -> Module:
    """Split a weight into magnitude (`original0`) and direction (`original1`). States of the older
    `nn.utils.weight_norm` can be loaded.
    """
    weight_hooks.need_module(module, name)
    parametrize.register_parametrization(module, name, _WeightNorm(dim), unsafe=True)

    def rename(owner: Module, state: dict[str, object], prefix: str, *rest: object) -> None:
        olds = [f"{prefix}{name}_{part}" for part in "gv"]
        if all(old in state for old in olds):
            for number, old in enumerate(olds):
                state[f"{prefix}parametrizations.{name}.original{number}"] = state.pop(old)

    module.register_load_state_dict_pre_hook(rename)
    return module


class _SpectralNorm(Module):
    """W / its largest singular value, estimated by power iteration while training (Miyato et al. 2018)."""

    def __init__(
        self, weight: Tensor, n_power_iterations: int = 1, dim: int = 0, eps: float = 1e-12
    ) -> None:
        super().__init__()
        if n_power_iterations <= 0:
            raise ArgumentError(
                "Expected n_power_iterations to be positive, but got "
                f"n_power_iterations={n_power_iterations}",
                expected="n_power_iterations > 0",
                got=str(n_power_iterations),
                fix="use 1",
            )
        self.dim = dim if dim >= 0 else dim + weight.dim()
        self.eps, self.n_power_iterations = eps, n_power_iterations
        if weight.dim() > 1:
            matrix = self._matrix(weight.detach())
            rows, columns = matrix.shape
            u = weft.randn(rows, dtype=weight.dtype)
            v = weft.randn(columns, dtype=weight.dtype)
            self.register_buffer("_u", F.normalize(u, dim=0, eps=eps))
            self.register_buffer("_v", F.normalize(v, dim=0, eps=eps))
            self._power_method(matrix, 15)

    def _matrix(self, weight: Tensor) -> Tensor:
        if self.dim != 0:
            others = [axis for axis in range(weight.dim()) if axis != self.dim]
            weight = weight.permute(self.dim, *others)
        return weight.flatten(1)

    def _power_method(self, matrix: Tensor, count: int) -> None:
        with weft.no_grad():
            u, v = self._u, self._v
            for _ in range(count):
                u = F.normalize(matrix @ v, dim=0, eps=self.eps)
                v = F.normalize(matrix.mH @ u, dim=0, eps=self.eps)
            self._u.copy_(u)
            self._v.copy_(v)

    def forward(self, weight: Tensor) -> Tensor:
        """The weight, normalised."""
        if weight.dim() == 1:
            return F.normalize(weight, dim=0, eps=self.eps)
        matrix = self._matrix(weight)
        if self.training:
            self._power_method(matrix.detach(), self.n_power_iterations)
        u, v = self._u.clone(), self._v.clone()
        return weight / weft.vdot(u, matrix @ v)

    def right_inverse(self, value: Tensor) -> Tensor:
        """Taken as it is."""
        return value


def spectral_norm(
    module: Module,
    name: str = "weight",
    n_power_iterations: int = 1,
    eps: float = 1e-12,
    dim: int | None = None,
) -> Module:
    """Divide a weight by its largest singular value."""
    weight_hooks.need_module(module, name)
    weight = _tensor_of(module, name)
    if dim is None:
        dim = 1 if getattr(module, "transposed", False) else 0
    part = _SpectralNorm(weight, n_power_iterations, dim, eps)
    return parametrize.register_parametrization(module, name, part)


publish(globals())
del publish
