"""`weft.ao`: quantization of models in PyTorch. There are no quantized tensors; values pass as they are."""

from __future__ import annotations

import sys
from functools import partial
from typing import Any, NamedTuple, NoReturn

import weft
from weft._build.lazy import join as _join
from weft.engine.frontend.tensor import Tensor
from weft.errors import ArgumentError, NotDefinedError
from weft.nn import Identity, MaxPool2d, Module


class QuantStub(Identity):
    """Values as they are; `qconfig` is kept."""

    def __init__(self, qconfig: object = None) -> None:
        super().__init__()
        if qconfig is not None:
            self.qconfig = qconfig


class DeQuantStub(QuantStub):
    """Values as they are; `qconfig` is kept."""


class QConfig(NamedTuple):
    """Observers of the values and of the weights of a quantized layer, which are kept."""

    activation: Any
    weight: Any


class FloatFunctional(Module):
    """Arithmetic as a module, which programs write for what a quantized model would observe; values as they are."""

    def __init__(self) -> None:
        super().__init__()
        self.activation_post_process = Identity()

    def forward(self, x: Tensor) -> NoReturn:
        """Errors: RuntimeError: the methods are what a program calls."""
        raise ArgumentError(
            "FloatFunctional is not intended to use the 'forward'. Please use the corresponding operation",
            expected="one of its methods",
            got="a call",
            fix="call add, mul, cat, matmul, add_relu, add_scalar or mul_scalar",
        )

    def add(self, x: Tensor, y: Tensor) -> Tensor:
        """x + y"""
        return self._seen(x + y)

    def add_scalar(self, x: Tensor, y: float) -> Tensor:
        """x + y for a number y"""
        return x + y

    def mul(self, x: Tensor, y: Tensor) -> Tensor:
        """x * y"""
        return self._seen(x * y)

    def mul_scalar(self, x: Tensor, y: float) -> Tensor:
        """x * y for a number y"""
        return x * y

    def cat(self, x: list[Tensor], dim: int = 0) -> Tensor:
        """Tensors one after the other."""
        return self._seen(weft.cat(x, dim=dim))

    def add_relu(self, x: Tensor, y: Tensor) -> Tensor:
        """max(x + y, 0)"""
        return self._seen((x + y).relu())

    def matmul(self, x: Tensor, y: Tensor) -> Tensor:
        """x @ y"""
        return self._seen(x @ y)

    def _seen(self, x: Tensor) -> Tensor:
        seen: Tensor = self.activation_post_process(x)
        return seen


class _NoLayer(Module):
    """A layer of quantized numbers. A program may name it. Errors: NotImplementedError where one is made."""

    def __init__(self, *arguments: object, **options: object) -> None:
        raise NotDefinedError(
            f"{type(self).__name__}: there are no quantized tensors",
            expected="a model of floating-point numbers",
            got="a layer of a quantized model",
            fix="leave quantization out; weft.fake_quantize_per_tensor_affine rounds values as it would",
        )


class ObserverBase(_NoLayer):
    """The range of values that a quantized layer would have. A program may name one in a `QConfig`.

    Errors: NotImplementedError where one is made.
    """

    @classmethod
    def with_args(cls, *arguments: object, **options: object) -> partial[Any]:
        """The class with these arguments, for a `QConfig`."""
        return partial(cls, *arguments, **options)


_OBSERVERS: dict[str, Any] = {
    name: type(name, (ObserverBase,), {"__doc__": ObserverBase.__doc__})
    for name in (
        "HistogramObserver",
        "MinMaxObserver",
        "MovingAverageMinMaxObserver",
        "MovingAveragePerChannelMinMaxObserver",
        "NoopObserver",
        "PerChannelMinMaxObserver",
        "PlaceholderObserver",
        "RecordingObserver",
    )
}
_OBSERVERS["ObserverBase"] = ObserverBase
_STUBS: dict[str, Any] = {"DeQuantStub": DeQuantStub, "QuantStub": QuantStub}
QUANTIZATION = {**_STUBS, **_OBSERVERS, "QConfig": QConfig}
QUANTIZATION_MODULES = {
    "observer": _OBSERVERS,
    "qconfig": {"QConfig": QConfig},
    "stubs": _STUBS,
}
QUANTIZED_LAYERS: dict[str, Any] = {
    name: type(name, (_NoLayer,), {"__doc__": _NoLayer.__doc__})
    for name in (
        "BatchNorm2d",
        "BatchNorm3d",
        "Conv1d",
        "Conv2d",
        "Conv3d",
        "DeQuantize",
        "Embedding",
        "EmbeddingBag",
        "Linear",
        "QFunctional",
        "Quantize",
    )
}
QUANTIZED_LAYERS |= {"FloatFunctional": FloatFunctional, "MaxPool2d": MaxPool2d}
_NO_LAYERS: dict[str, Any] = {"__all__": []}
_join(
    sys.modules[__name__],
    {
        "quantization": QUANTIZATION,
        **{f"quantization.{name}": held for name, held in QUANTIZATION_MODULES.items()},
        "nn": {},
        "nn.intrinsic": _NO_LAYERS,
        "nn.intrinsic.modules": _NO_LAYERS,
        "nn.qat": {},
        "nn.qat.modules": _NO_LAYERS,
        "nn.quantizable": {},
        "nn.quantizable.modules": _NO_LAYERS,
        "nn.quantized": QUANTIZED_LAYERS,
        "nn.quantized.functional": {},
        "nn.quantized.modules": _NO_LAYERS,
    },
)
