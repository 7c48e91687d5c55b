# mypy: disable-error-code="misc,override,attr-defined,call-arg,unused-ignore,arg-type,assignment,no-any-return"
"""Lazy modules: they learn the size of their input from the first call.

A lazy module infers its sizes in a hook before its first forward, makes its parameters, and becomes the plain module
that it stands for: from then on it is one, by class and by state. A mixin uses members of the layer that it is mixed
with, which mypy cannot see.
"""

from __future__ import annotations

import weft
from weft import Tensor
from weft._typing import DeviceLike
from weft.engine.ir.dtype import DType
from weft.errors import ArgumentError, NotDefinedError, ShapeError
from weft.nn.module.members import own_values
from weft.nn.module.module import Module
from weft.nn.modules import conv, linear, normalization
from weft.nn.parameter import (
    UninitializedBuffer,
    UninitializedParameter,
    is_lazy,
)


class LazyModuleMixin(Module):
    """A module that makes its parameters at the first call and then becomes `cls_to_become`.

    Args:
        *args: those of the module.
        **kwargs: those of the module.
    """

    cls_to_become: type[Module] | None = None

    def __init__(self, *args: object, **kwargs: object) -> None:
        super().__init__(*args, **kwargs)
        # What watches for the first call and for a state that has the shapes.
        self._infer_hook = self.register_forward_pre_hook(_infer, with_kwargs=True)
        self._load_hook = self.register_load_state_dict_pre_hook(_shape_from_state)

    def has_uninitialized_params(self) -> bool:
        """True if a parameter or buffer has no shape yet."""
        own = (*self._parameters.values(), *self._buffers.values())
        return any(is_lazy(value) for value in own)

    def initialize_parameters(self, *args: object, **kwargs: object) -> None:
        """Make the parameters for these inputs; every lazy module defines it."""
        raise NotDefinedError(
            f"initialize_parameters is not implemented for {type(self).__name__}",
            expected="a method initialize_parameters(self, ...)",
            got=type(self).__name__,
            fix="define it, and materialize the parameters there",
        )


def _infer(module: Module, args: tuple[Tensor, ...], kwargs: dict[str, object]) -> None:
    """Before the first forward: make the parameters and become the plain module."""
    module.initialize_parameters(*args, **(kwargs or {}))
    if module.has_uninitialized_params():
        raise ShapeError(
            f"module {module._get_name()} has not been fully initialized",
            expected="initialize_parameters to give every parameter a shape",
            got="one without",
            fix="materialize it in initialize_parameters",
        )
    for name in ("_infer_hook", "_load_hook"):
        own_values(module).pop(name).remove()
    if module.cls_to_become is not None:
        module.__class__ = module.cls_to_become
    if not any(vars(module._own_hooks()).values()):
        own_values(module).pop("_hooks")


def _shape_from_state(module: Module, state: dict[str, object], prefix: str, *rest: object) -> None:
    """Before loading: take the shapes that the state has."""
    for name, value in (*module._parameters.items(), *module._buffers.items()):
        new = state.get(prefix + name)
        if is_lazy(value) and new is not None and not is_lazy(new):
            with weft.no_grad():
                value.materialize(new.shape)


class _LazyLayer(LazyModuleMixin):
    """The common part of lazy layers: parameters without shape in place of those that depend on the input. A class is
    derived from this one and from the layer that it becomes."""

    def __init_subclass__(cls) -> None:
        layer = cls.__bases__[-1]
        if not issubclass(layer, LazyModuleMixin):
            cls.cls_to_become = layer

    def _unmade(
        self, names: tuple[str, ...], device: DeviceLike | None, dtype: DType | None
    ) -> None:
        for name in names:
            if name in self._kinds:
                self._kinds.pop(name)
                own_values(self).pop(name, None)
            setattr(self, name, UninitializedParameter(device=device, dtype=dtype))


class LazyLinear(_LazyLayer, linear.Linear):
    """Linear with `in_features` from the first input."""

    weight: UninitializedParameter

    def __init__(
        self,
        out_features: int,
        bias: bool = True,
        device: DeviceLike | None = None,
        dtype: DType | None = None,
    ) -> None:
        super().__init__(0, 0, False, device, dtype)
        self.out_features = out_features
        self._unmade(("weight", "bias") if bias else ("weight",), device, dtype)

    def reset_parameters(self) -> None:
        """Draw new weights, where there are some."""
        if not self.has_uninitialized_params() and self.in_features != 0:
            super().reset_parameters()

    def initialize_parameters(self, input: Tensor) -> None:
        """Take the last size of the input, or that of a weight which has been loaded."""
        if not self.has_uninitialized_params():
            self.in_features = self.weight.shape[-1]
            return
        self.in_features = input.shape[-1]
        self.weight.materialize((self.out_features, self.in_features))
        if self.bias is not None:
            self.bias.materialize((self.out_features,))
        self.reset_parameters()


class _LazyConvolution(_LazyLayer):
    """The common part of lazy convolutions: `in_channels` from the first input."""

    rank: int
    in_channels: int
    out_channels: int
    groups: int
    kernel_size: tuple[int, ...]
    transposed: bool

    def reset_parameters(self) -> None:
        """Draw new weights, where there are some."""
        if not self.has_uninitialized_params() and self.in_channels != 0:
            super().reset_parameters()  # type: ignore[misc]

    def initialize_parameters(self, input: Tensor, *args: object, **kwargs: object) -> None:
        """Take the channels of the input. Errors: ShapeError on another rank."""
        if not self.has_uninitialized_params():
            return
        ranks = (self.rank + 1, self.rank + 2)
        if input.dim() not in ranks:
            raise ShapeError(
                f"Expected {ranks[0]}D (unbatched) or {ranks[1]}D (batched) input to "
                f"{type(self).__name__}, but got input of size: {list(input.shape)}",
                expected=f"{ranks[0]} or {ranks[1]} dimensions",
                got=str(list(input.shape)),
                fix="add dimensions with unsqueeze",
            )
        self.in_channels = input.shape[-self.rank - 1]
        if self.in_channels % self.groups:
            raise ArgumentError(
                "in_channels must be divisible by groups",
                expected=f"channels divisible by {self.groups}",
                got=str(self.in_channels),
                fix="choose groups that divide the channels",
            )
        pair = (self.out_channels, self.in_channels // self.groups)
        if self.transposed:
            pair = (self.in_channels, self.out_channels // self.groups)
        self.weight.materialize((*pair, *self.kernel_size))
        if self.bias is not None:
            self.bias.materialize((self.out_channels,))
        self.reset_parameters()


class _LazyConv(_LazyConvolution):
    """A plain convolution."""

    def __init__(
        self,
        out_channels: int,
        kernel_size: int | tuple[int, ...],
        stride: int | tuple[int, ...] = 1,
        padding: int | str | tuple[int, ...] = 0,
        dilation: int | tuple[int, ...] = 1,
        groups: int = 1,
        bias: bool = True,
        padding_mode: str = "zeros",
        device: DeviceLike | None = None,
        dtype: DType | None = None,
    ) -> None:
        super().__init__(0, 0, kernel_size, stride, padding, dilation, groups, False, padding_mode)
        self.out_channels = out_channels
        self._unmade(("weight", "bias") if bias else ("weight",), device, dtype)


class _LazyConvTranspose(_LazyConvolution):
    """A transposed convolution."""

    def __init__(
        self,
        out_channels: int,
        kernel_size: int | tuple[int, ...],
        stride: int | tuple[int, ...] = 1,
        padding: int | tuple[int, ...] = 0,
        output_padding: int | tuple[int, ...] = 0,
        groups: int = 1,
        bias: bool = True,
        dilation: int | tuple[int, ...] = 1,
        padding_mode: str = "zeros",
        device: DeviceLike | None = None,
        dtype: DType | None = None,
    ) -> None:
        super().__init__(
            0,
            0,
            kernel_size,
            stride,
            padding,
            output_padding,
            groups,
            False,
            dilation,
            padding_mode,
        )
        self.out_channels = out_channels
        self._unmade(("weight", "bias") if bias else ("weight",), device, dtype)


class _LazyNorm(_LazyLayer):
    """A normalisation with `num_features` from the first input."""

    num_features: int
    axis = 1

    def __init__(
        self,
        eps: float = 1e-5,
        momentum: float | None = 0.1,
        affine: bool = True,
        track_running_stats: bool = True,
        device: DeviceLike | None = None,
        dtype: DType | None = None,
        *,
        bias: bool = True,
    ) -> None:
        super().__init__(0, eps, momentum, False, False, device, dtype)
        self.affine, self.track_running_stats = affine, track_running_stats
        names = () if not affine else ("weight", "bias") if bias else ("weight",)
        for name in ("running_mean", "running_var") if track_running_stats else ():
            self.register_buffer(name, UninitializedBuffer(device=device, dtype=dtype))
        if track_running_stats:
            self.register_buffer("num_batches_tracked", weft.tensor(0, dtype=weft.int64))
        self._unmade(names, device, dtype)

    def reset_parameters(self) -> None:
        """Scale one, shift zero, nothing seen, where there are parameters."""
        if not self.has_uninitialized_params() and self.num_features != 0:
            super().reset_parameters()  # type: ignore[misc]

    def initialize_parameters(self, input: Tensor) -> None:
        """Take the channels of the input."""
        if not self.has_uninitialized_params():
            return
        self.num_features = input.shape[self.axis]
        for value in (*self._parameters.values(), *self._buffers.values()):
            if is_lazy(value):
                value.materialize((self.num_features,))
        self.reset_parameters()


class _LazyInstanceNorm(_LazyNorm):
    """A normalisation of examples."""

    def initialize_parameters(self, input: Tensor) -> None:
        """Take the channels of the input, which stand first where there is no batch."""
        self.axis = 0 if input.dim() == min(self.ranks) else 1
        super().initialize_parameters(input)
        del self.axis


class LazyConv1d(_LazyConv, conv.Conv1d):
    """Conv1d with `in_channels` from the first input."""


class LazyConvTranspose1d(_LazyConvTranspose, conv.ConvTranspose1d):
    """ConvTranspose1d with `in_channels` from the first input."""


class LazyConv2d(_LazyConv, conv.Conv2d):
    """Conv2d with `in_channels` from the first input."""


class LazyConvTranspose2d(_LazyConvTranspose, conv.ConvTranspose2d):
    """ConvTranspose2d with `in_channels` from the first input."""


class LazyConv3d(_LazyConv, conv.Conv3d):
    """Conv3d with `in_channels` from the first input."""


class LazyConvTranspose3d(_LazyConvTranspose, conv.ConvTranspose3d):
    """ConvTranspose3d with `in_channels` from the first input."""


class LazyBatchNorm1d(_LazyNorm, normalization.BatchNorm1d):
    """BatchNorm1d with `num_features` from the first input."""


class LazyInstanceNorm1d(_LazyInstanceNorm, normalization.InstanceNorm1d):
    """InstanceNorm1d with `num_features` from the first input."""


class LazyBatchNorm2d(_LazyNorm, normalization.BatchNorm2d):
    """BatchNorm2d with `num_features` from the first input."""


class LazyInstanceNorm2d(_LazyInstanceNorm, normalization.InstanceNorm2d):
    """InstanceNorm2d with `num_features` from the first input."""


class LazyBatchNorm3d(_LazyNorm, normalization.BatchNorm3d):
    """BatchNorm3d with `num_features` from the first input."""


class LazyInstanceNorm3d(_LazyInstanceNorm, normalization.InstanceNorm3d):
    """InstanceNorm3d with `num_features` from the first input."""
