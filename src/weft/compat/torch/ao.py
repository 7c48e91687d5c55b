"""`weft.ao`: quantization of models in PyTorch. There are no quantized tensors; values pass as they are."""

from __future__ import annotations

import sys
from typing import Any

from weft._build.lazy import join as _join
from weft.nn import Identity, MaxPool2d


class QuantStub(Identity):
    """Values as they are; `qconfig` is kept."""

    def __init__(self, qconfig: object = None) -> None:
        super().__init__()
        if qconfig is not None:
            self.qconfig = qconfig


class DeQuantStub(QuantStub):
    """Values as they are; `qconfig` is kept."""


_NO_LAYERS: dict[str, Any] = {"__all__": []}
_join(
    sys.modules[__name__],
    {
        "quantization": {"DeQuantStub": DeQuantStub, "QuantStub": QuantStub},
        "nn": {},
        "nn.qat": {},
        "nn.qat.modules": _NO_LAYERS,
        "nn.quantizable": {},
        "nn.quantizable.modules": _NO_LAYERS,
        "nn.quantized": {"MaxPool2d": MaxPool2d},
        "nn.quantized.modules": _NO_LAYERS,
    },
)
