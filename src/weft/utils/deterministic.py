"""`weft.utils.deterministic`: whether memory that nobody has written is filled while deterministic algorithms are asked
for. `fill_uninitialized_memory` is True at the start."""

from __future__ import annotations

import sys

from weft._build.lazy import Importable
from weft.tensor.determinism import setting


class _Switch(Importable):
    """The module, whose attribute is the setting."""

    @property
    def fill_uninitialized_memory(self) -> bool:
        """True if `empty` and its kin have nan, or the largest integer, in them."""
        return setting.fills

    @fill_uninitialized_memory.setter
    def fill_uninitialized_memory(self, mode: bool) -> None:
        setting.fills = bool(mode)


sys.modules[__name__].__class__ = _Switch
