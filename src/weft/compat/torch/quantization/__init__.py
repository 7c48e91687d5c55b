"""`weft.quantization`: the path that `weft.ao.quantization` had before."""

from __future__ import annotations

import sys

from weft.ao import QUANTIZATION as _QUANTIZATION
from weft.ao import QUANTIZATION_MODULES as _QUANTIZATION_MODULES

from weft._build.lazy import join as _join

vars(sys.modules[__name__]).update(_QUANTIZATION)
_join(sys.modules[__name__], _QUANTIZATION_MODULES)
