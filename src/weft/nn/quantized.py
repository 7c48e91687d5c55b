"""`weft.nn.quantized`: the path that `weft.ao.nn.quantized` had before. There are no quantized tensors."""

from __future__ import annotations

import importlib
import sys

_layers = importlib.import_module("weft.ao").QUANTIZED_LAYERS  # compat, a room above this one
vars(sys.modules[__name__]).update(_layers)
