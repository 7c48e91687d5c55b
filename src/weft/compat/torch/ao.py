"""`weft.ao`: quantization of models in PyTorch. There are no quantized tensors; values pass as they are."""

from __future__ import annotations

import sys

from weft._build.lazy import join as _join
from weft.nn import Identity


class QuantStub(Identity):
    """Values as they are; `qconfig` is kept."""

    def __init__(self, qconfig: object = None) -> None:
        super().__init__()
        if qconfig is not None:
            self.qconfig = qconfig


class DeQuantStub(QuantStub):
    """Values as they are; `qconfig` is kept."""


_join(sys.modules[__name__], {"quantization": {"DeQuantStub": DeQuantStub, "QuantStub": QuantStub}})
