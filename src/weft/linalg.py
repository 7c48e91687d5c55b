"""Linear algebra under PyTorch's `linalg` names. The functions themselves are in `weft.functional`."""

from __future__ import annotations

from weft.functional import LINALG
from weft.graph.public import all_public as _all_public

globals().update(_all_public(LINALG))
__all__ = list(LINALG)  # noqa: PLE0605 - the names are those of the table
