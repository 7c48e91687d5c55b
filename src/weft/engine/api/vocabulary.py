"""The words for parameters: what each means, as `vocabulary.txt` says it."""

from __future__ import annotations

import functools
import re
from fnmatch import fnmatchcase
from pathlib import Path

_METHOD = re.compile(r"(?:^|\.)_?[A-Z]\w*\.\w+$")
OF_FUNCTIONS = (
    "prepend",
    "destination",
    "strict",
    "name",
    "module",
    "fn",
    "tensor",
    "requires_grad",
    "value",
    "values",
)


def meaning(parameter: str, name: str) -> str | None:
    """The words for a parameter of the function or class with this public name (without "weft."), if there are some."""
    if parameter == "input" and name.endswith("_") and not name.startswith("nn.init"):
        return "the tensor that is written to and returned"
    is_of_class = _METHOD.search(name) is not None and not name.startswith("Tensor.")
    matching = [
        ("*" not in pattern, len(pattern), words)
        for pattern, words in _sections().get(parameter, [])
        if any(fnmatchcase(each, pattern) for each in _names(name))
        if not (is_of_class and pattern == "*" and parameter in OF_FUNCTIONS)
    ]
    return max(matching, key=lambda found: found[:2])[2] if matching else None


def _names(name: str) -> set[str]:
    """A public name, and that of the function of `weft` that a method or another spelling is called like."""
    rooms = ("Tensor.", "special.", "random.", "nn.functional.")
    plain = name.rpartition(".")[2] if name.startswith(rooms) else name
    return {name, plain, plain.rstrip("_")}


@functools.cache
def _sections() -> dict[str, list[tuple[str, str]]]:
    """For each parameter, the patterns of its sections with its words there."""
    found: dict[str, list[tuple[str, str]]] = {}
    table = Path(__file__).with_name("vocabulary.txt").read_text(encoding="utf-8")
    for section in re.split(r"^\[", table, flags=re.MULTILINE)[1:]:
        patterns, _, body = section.partition("]\n")
        for entry in re.split(r"\n(?=\w)", body.strip()):
            parameter, _, words = entry.partition(": ")
            one_line = " ".join(words.split())
            found.setdefault(parameter, []).extend((each, one_line) for each in patterns.split())
    return found
