"""Versions that compare by their numbers: `torch.__version__ >= (2, 1)`, as programs ask before they use a name.

A version is a string that is ordered among versions, texts and tuples as PEP 440 orders them; a text that is no
version is compared as text.
"""

from __future__ import annotations

import operator
import re
from collections.abc import Callable, Iterable
from typing import Any

_FORM = re.compile(
    r"v?(?P<release>\d+(?:\.\d+)*)"
    r"(?:[-_.]?(?P<phase>dev|alpha|beta|a|b|c|rc|post)[-_.]?(?P<count>\d*))?"
    r"(?:\+(?P<local>[a-z0-9]+(?:[-_.][a-z0-9]+)*))?",
    re.IGNORECASE,
)
_PHASES = {"dev": -4, "a": -3, "alpha": -3, "b": -2, "beta": -2, "c": -1, "rc": -1, "post": 1}


class TorchVersion(str):
    """A version as text, compared by its numbers with versions, texts and tuples."""

    __hash__ = str.__hash__

    def __eq__(self, other: object) -> bool:
        return self._compare(operator.eq, other)

    def __ne__(self, other: object) -> bool:
        return not self == other

    def __lt__(self, other: object) -> bool:
        return self._compare(operator.lt, other)

    def __le__(self, other: object) -> bool:
        return self._compare(operator.le, other)

    def __gt__(self, other: object) -> bool:
        return self._compare(operator.gt, other)

    def __ge__(self, other: object) -> bool:
        return self._compare(operator.ge, other)

    def _compare(self, relation: Callable[[Any, Any], bool], other: object) -> bool:
        mine, its = _key(self), _key(other)
        if mine is None or its is None:
            return relation(str(self), str(other) if isinstance(other, str) else other)
        return relation(mine, its)


def _key(version: object) -> tuple[Any, ...] | None:
    """The sort key of a version; None for a text that is no version."""
    if isinstance(version, Iterable) and not isinstance(version, str):
        version = ".".join(str(number) for number in version)
    found = _FORM.fullmatch(str(version).strip())
    if found is None or isinstance(version, int | float):
        return None
    release = [int(number) for number in found["release"].split(".")]
    while release and release[-1] == 0:
        release.pop()
    local = re.split(r"[-_.]", found["local"].lower()) if found["local"] else []
    segments = [(1, int(part), "") if part.isdigit() else (0, 0, part) for part in local]
    phase = _PHASES[found["phase"].lower()] if found["phase"] else 0
    return release, phase, int(found["count"] or 0), segments


__version__ = TorchVersion("2.13.0")  # the PyTorch whose names and behaviour Weft follows
