"""`weft._logging`: events that PyTorch's tests report. Nothing is reported."""

from __future__ import annotations

import sys

from weft._build.lazy import join as _join


def _unreported(**facts: object) -> None:
    """Nothing: no event is reported."""


_join(sys.modules[__name__], {"scribe": {"open_source_signpost": _unreported}})
