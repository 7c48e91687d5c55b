"""Linear algebra under PyTorch's `linalg` names. The functions themselves are in `weft.functional`."""

from __future__ import annotations

from weft.functional import LINALG

globals().update(LINALG)
__all__ = list(LINALG)  # noqa: PLE0605 - the names are those of the table
