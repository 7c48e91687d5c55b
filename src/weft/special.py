"""`weft.special`: special functions, by the names of PyTorch's `torch.special`.

The functions are written in `weft.functional`.
"""

from __future__ import annotations

from weft.engine.api.api_function import all_public as _all_public
from weft.functional import SPECIAL as _SPECIAL
from weft.functional.special.bessel import FUNCTIONS as _BESSEL
from weft.functional.special.incomplete_gamma import igamma as _lower
from weft.functional.special.incomplete_gamma import igammac as _upper
from weft.functional.special.orthogonal_polynomials import SPECIAL as _POLYNOMIALS

SPECIAL = {**_POLYNOMIALS, **_SPECIAL, **_BESSEL, "gammainc": _lower, "gammaincc": _upper}
globals().update(_all_public(SPECIAL))
__all__ = list(SPECIAL)  # noqa: PLE0605 - the names are those of the table
