"""Normalisation layers: over features (LayerNorm, RMSNorm), channel groups (GroupNorm), batches
(BatchNorm) and channels of one example (InstanceNorm).
"""

from __future__ import annotations

import warnings
from collections.abc import Sequence
from typing import TYPE_CHECKING, Any, Unpack

import weft
from weft import Tensor
from weft._typing import DeviceLike, Shape
from weft.engine.ir.dtype import DType
from weft.errors import ArgumentError
from weft.nn import functional as F
from weft.nn import init
from weft.nn.module.module import Module
from weft.nn.parameter import Parameter
from weft.tensor.arguments import per_dimension

if TYPE_CHECKING:
    from weft._typing import FactoryOptions


def _affine(
    module: Module, shape: Shape | int, weight: bool, bias: bool, **options: Unpack[FactoryOptions]
) -> None:
    """Register the scale and shift that a configuration has."""
    for name, present in (("weight", weight), ("bias", bias)):
        module.register_parameter(
            name, Parameter(weft.empty(shape, **options)) if present else None
        )


def _reset_affine(module: Module) -> None:
    if module.weight is not None:
        init.ones_(module.weight)
    if module.bias is not None:
        init.zeros_(module.bias)


class LayerNorm(Module):
    """Zero mean and unit variance over last dimensions, then scale and shift (Ba et al. 2016)."""

    def __init__(
        self,
        normalized_shape: int | Sequence[int],
        eps: float = 1e-5,
        elementwise_affine: bool = True,
        bias: bool = True,
        device: DeviceLike | None = None,
        dtype: DType | None = None,
    ) -> None:
        super().__init__()
        self.normalized_shape = per_dimension("normalized_shape", normalized_shape)
        self.eps, self.elementwise_affine = eps, elementwise_affine
        affine = elementwise_affine
        _affine(self, self.normalized_shape, affine, affine and bias, device=device, dtype=dtype)
        self.reset_parameters()

    def reset_parameters(self) -> None:
        """Scale one, shift zero."""
        _reset_affine(self)

    def forward(self, input: Tensor) -> Tensor:
        """The layer applied to its input.

        Args:
            input: what the layer is applied to.

        Shape:
            (*, normalized_shape) -> the same.
        """
        return F.layer_norm(input, self.normalized_shape, self.weight, self.bias, self.eps)

    def extra_repr(self) -> str:
        return (
            f"{self.normalized_shape}, eps={self.eps}, "
            f"elementwise_affine={self.elementwise_affine}, bias={self.bias is not None}"
        )


class RMSNorm(Module):
    """Unit root mean square over the last dimensions, then scale (Zhang and Sennrich 2019)."""

    def __init__(
        self,
        normalized_shape: int | Sequence[int],
        eps: float | None = None,
        elementwise_affine: bool = True,
        device: DeviceLike | None = None,
        dtype: DType | None = None,
    ) -> None:
        super().__init__()
        self.normalized_shape = per_dimension("normalized_shape", normalized_shape)
        self.eps, self.elementwise_affine = eps, elementwise_affine
        options: FactoryOptions = {"device": device, "dtype": dtype}
        scale = (
            Parameter(weft.empty(self.normalized_shape, **options)) if elementwise_affine else None
        )
        self.register_parameter("weight", scale)
        self.reset_parameters()

    def reset_parameters(self) -> None:
        """Scale one."""
        if self.weight is not None:
            init.ones_(self.weight)

    def forward(self, input: Tensor) -> Tensor:
        """The layer applied to its input.

        Args:
            input: what the layer is applied to.

        Shape:
            (*, normalized_shape) -> the same.
        """
        return F.rms_norm(input, self.normalized_shape, self.weight, self.eps)

    def extra_repr(self) -> str:
        return (
            f"{self.normalized_shape}, eps={self.eps}, elementwise_affine={self.elementwise_affine}"
        )


class GroupNorm(Module):
    """Zero mean and unit variance over groups of channels (Wu and He 2018)."""

    def __init__(
        self,
        num_groups: int,
        num_channels: int,
        eps: float = 1e-5,
        affine: bool = True,
        device: DeviceLike | None = None,
        dtype: DType | None = None,
        *,
        bias: bool = True,
    ) -> None:
        super().__init__()
        if num_channels % num_groups != 0:
            raise ArgumentError(
                f"num_channels ({num_channels}) must be divisible by num_groups ({num_groups})",
                expected="num_channels divisible by num_groups",
                got=f"{num_channels} and {num_groups}",
                fix="choose num_groups that divides num_channels",
            )
        self.num_groups, self.num_channels, self.eps, self.affine = (
            num_groups,
            num_channels,
            eps,
            affine,
        )
        _affine(self, num_channels, affine, affine and bias, device=device, dtype=dtype)
        self.reset_parameters()

    def reset_parameters(self) -> None:
        """Scale one, shift zero."""
        _reset_affine(self)

    def forward(self, input: Tensor) -> Tensor:
        """The layer applied to its input.

        Args:
            input: what the layer is applied to.

        Shape:
            (N, C, *) -> the same.
        """
        return F.group_norm(input, self.num_groups, self.weight, self.bias, self.eps)

    def extra_repr(self) -> str:
        return (
            f"{self.num_groups}, {self.num_channels}, eps={self.eps}, affine={self.affine}, "
            f"bias={self.bias is not None}"
        )


class _Tracking(Module):
    """Normalisation of channels that may keep running statistics."""

    _version = 2
    ranks: tuple[int, ...]

    def __init__(
        self,
        num_features: int,
        eps: float = 1e-5,
        momentum: float | None = 0.1,
        affine: bool = True,
        track_running_stats: bool = True,
        device: DeviceLike | None = None,
        dtype: DType | None = None,
        *,
        bias: bool = True,
    ) -> None:
        super().__init__()
        self.num_features, self.eps, self.momentum = num_features, eps, momentum
        self.affine, self.track_running_stats = affine, track_running_stats
        options: FactoryOptions = {"device": device, "dtype": dtype}
        _affine(self, num_features, affine, affine and bias, **options)
        tracked = track_running_stats
        self.register_buffer(
            "running_mean", weft.zeros(num_features, **options) if tracked else None
        )
        self.register_buffer("running_var", weft.ones(num_features, **options) if tracked else None)
        count = weft.tensor(0, dtype=weft.int64) if tracked else None
        self.register_buffer("num_batches_tracked", count)
        self.reset_parameters()

    def reset_running_stats(self) -> None:
        """Forget what was seen."""
        if self.track_running_stats:
            self.running_mean.zero_()
            self.running_var.fill_(1)
            self.num_batches_tracked.zero_()

    def reset_parameters(self) -> None:
        """Scale one, shift zero, nothing seen."""
        self.reset_running_stats()
        _reset_affine(self)

    def extra_repr(self) -> str:
        return (
            f"{self.num_features}, eps={self.eps}, momentum={self.momentum}, affine={self.affine}, "
            f"bias={self.bias is not None}, track_running_stats={self.track_running_stats}"
        )

    def _load_from_state_dict(
        self, state_dict: Any, prefix: str, local_metadata: Any, *rest: Any, **named: Any
    ) -> None:
        """As `Module` does; what was saved without a count of batches (version 1, or a plain dictionary) keeps its."""
        if (local_metadata.get("version") or 1) < 2 and self.track_running_stats:
            state_dict.setdefault(prefix + "num_batches_tracked", self.num_batches_tracked)
        super()._load_from_state_dict(state_dict, prefix, local_metadata, *rest, **named)

    def _check_input_dim(self, input: Tensor) -> None:
        if input.dim() not in self.ranks:
            expected = " or ".join(f"{rank}D" for rank in self.ranks)
            raise ArgumentError(
                f"expected {expected} input (got {input.dim()}D input)",
                expected=f"an input of {expected}",
                got=str(list(input.shape)),
                fix="reshape the input, or use the layer of the other rank",
            )


class _BatchNorm(_Tracking):
    """Zero mean and unit variance of each channel over the batch; running statistics in evaluation
    (Ioffe and Szegedy 2015)."""

    def forward(self, input: Tensor) -> Tensor:
        """The layer applied to its input.

        Args:
            input: what the layer is applied to.

        Shape:
            (N, C, *) -> the same.
        """
        self._check_input_dim(input)
        factor = 0.0 if self.momentum is None else self.momentum
        if self.training and self.track_running_stats:
            self.num_batches_tracked.add_(1)
            if self.momentum is None:  # a cumulative average instead of an exponential one
                factor = 1.0 / float(self.num_batches_tracked)
        use_batch = self.training or self.running_mean is None
        keep = not self.training or self.track_running_stats
        return F.batch_norm(
            input,
            self.running_mean if keep else None,
            self.running_var if keep else None,
            self.weight,
            self.bias,
            use_batch,
            factor,
            self.eps,
        )


class BatchNorm1d(_BatchNorm):
    """Batch normalisation of (N, C) or (N, C, L)."""

    ranks = (2, 3)


class BatchNorm2d(_BatchNorm):
    """Batch normalisation of (N, C, H, W)."""

    ranks = (4,)


class BatchNorm3d(_BatchNorm):
    """Batch normalisation of (N, C, D, H, W)."""

    ranks = (5,)


class _InstanceNorm(_Tracking):
    """Zero mean and unit variance of each channel of each example (Ulyanov et al. 2016)."""

    def __init__(
        self,
        num_features: int,
        eps: float = 1e-5,
        momentum: float | None = 0.1,
        affine: bool = False,
        track_running_stats: bool = False,
        device: DeviceLike | None = None,
        dtype: DType | None = None,
        *,
        bias: bool = True,
    ) -> None:
        super().__init__(
            num_features, eps, momentum, affine, track_running_stats, device, dtype, bias=bias
        )

    def _get_no_batch_dim(self) -> int:
        return min(self.ranks)

    def forward(self, input: Tensor) -> Tensor:
        """The layer applied to its input.

        Args:
            input: what the layer is applied to.

        Shape:
            (N, C, *) or (C, *) -> the same.
        """
        self._check_input_dim(input)
        alone = input.dim() == min(self.ranks)
        axis = 0 if alone else 1
        if input.shape[axis] != self.num_features:
            if self.affine:
                raise ArgumentError(
                    f"expected input's size at dim={axis} to match num_features "
                    f"({self.num_features}), but got: {input.shape[axis]}.",
                    expected=f"{self.num_features} channels",
                    got=str(list(input.shape)),
                    fix="pass num_features as the number of channels",
                )
            warnings.warn(
                f"input's size at dim={axis} does not match num_features. You can silence this "
                "warning by not passing in num_features, which is not used because affine=False",
                stacklevel=2,
            )
        result = F.instance_norm(
            input.unsqueeze(0) if alone else input,
            self.running_mean,
            self.running_var,
            self.weight,
            self.bias,
            self.training or not self.track_running_stats,
            0.0 if self.momentum is None else self.momentum,
            self.eps,
        )
        return result.squeeze(0) if alone else result


class InstanceNorm1d(_InstanceNorm):
    """Instance normalisation of (N, C, L) or (C, L)."""

    ranks = (2, 3)


class InstanceNorm2d(_InstanceNorm):
    """Instance normalisation of (N, C, H, W) or (C, H, W)."""

    ranks = (3, 4)


class InstanceNorm3d(_InstanceNorm):
    """Instance normalisation of (N, C, D, H, W) or (C, D, H, W)."""

    ranks = (4, 5)


class LocalResponseNorm(Module):
    """Channels divided by the size of their neighbours (Krizhevsky et al. 2012)."""

    def __init__(
        self, size: int, alpha: float = 0.0001, beta: float = 0.75, k: float = 1.0
    ) -> None:
        super().__init__()
        self.size, self.alpha, self.beta, self.k = size, alpha, beta, k

    def forward(self, input: Tensor) -> Tensor:
        """The layer applied to its input.

        Args:
            input: what the layer is applied to.

        Shape:
            (N, C, *) -> the same.
        """
        return F.local_response_norm(input, self.size, self.alpha, self.beta, self.k)

    def extra_repr(self) -> str:
        return f"{self.size}, alpha={self.alpha}, beta={self.beta}, k={self.k}"


class CrossMapLRN2d(LocalResponseNorm):
    """LocalResponseNorm of (N, C, H, W) under its older name, with k=1 by default."""

    def __init__(self, size: int, alpha: float = 0.0001, beta: float = 0.75, k: float = 1) -> None:
        super().__init__(size, alpha, beta, k)


class SyncBatchNorm(_BatchNorm):
    """Batch normalisation over the batches of all processes; with one process, BatchNorm."""

    def __init__(
        self,
        num_features: int,
        eps: float = 1e-5,
        momentum: float | None = 0.1,
        affine: bool = True,
        track_running_stats: bool = True,
        process_group: object = None,
        device: DeviceLike | None = None,
        dtype: DType | None = None,
        *,
        bias: bool = True,
    ) -> None:
        super().__init__(
            num_features, eps, momentum, affine, track_running_stats, device, dtype, bias=bias
        )
        self.process_group = process_group

    def _check_input_dim(self, input: Tensor) -> None:
        if input.dim() < 2:
            raise ArgumentError(
                f"expected at least 2D input (got {input.dim()}D input)",
                expected="(N, C, *)",
                got=str(list(input.shape)),
                fix="add the batch dimension",
            )

    @classmethod
    def convert_sync_batchnorm(cls, module: Module, process_group: object = None) -> Module:
        """A module tree with every BatchNorm in it replaced; parameters and buffers are shared.

        Args:
            module: the module, or one that has BatchNorm layers somewhere.
            process_group: the processes that share statistics; None: all.

        Example:
            >>> import weft
            >>> model = weft.nn.Sequential(weft.nn.Conv2d(3, 4, 3), weft.nn.BatchNorm2d(4))
            >>> weft.nn.SyncBatchNorm.convert_sync_batchnorm(model)[1]
            SyncBatchNorm(4, eps=1e-05, momentum=0.1, affine=True, bias=True, track_running_stats=True)
        """
        converted = module
        if isinstance(module, _BatchNorm) and not isinstance(module, cls):
            converted = cls(
                module.num_features,
                module.eps,
                module.momentum,
                module.affine,
                module.track_running_stats,
                process_group,
            )
            for name in ("weight", "bias", "running_mean", "running_var", "num_batches_tracked"):
                setattr(converted, name, getattr(module, name))
            converted.training = module.training
        for name, child in module.named_children():
            converted.add_module(name, cls.convert_sync_batchnorm(child, process_group))
        return converted
