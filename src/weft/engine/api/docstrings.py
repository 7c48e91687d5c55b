"""Docstrings of public functions and classes, completed when they are read.

A docstring in the source says what is its own. `completed` gives it the field's form: one sentence; Args, Shape,
Returns, Raises, Example, Source, Cost. Parameters that it does not name are named in the words of `vocabulary.txt`,
with what their defaults mean; sentences that begin "Shapes:", "Errors:", "Returns", "Cost:" become sections; where it
has no example, that in `examples.txt` follows. Where it says nothing of shapes, the vocabulary does, or the op table,
or the parameters of a reduction; errors follow from shapes and parameters, the source from what is cited.
A stand-in is described by the parameters of what it calls.

Nothing here is imported before somebody asks for a docstring.
"""

from __future__ import annotations

import functools
import importlib
import inspect
import re
import sys
import textwrap
from collections.abc import Callable
from inspect import Parameter
from pathlib import Path

from weft._build.lazy import load
from weft.engine.api.vocabulary import meaning
from weft.engine.ir.primitive import ELEMENTWISE
from weft.ops.registry import OPS

WIDTH = 88
SECTIONS = ("Args", "Shape", "Returns", "Yields", "Raises", "Example", "Source", "Cost")
_PROSE = {  # what a sentence begins with -> the section that it becomes
    "Shapes: ": "Shape",
    "Shape: ": "Shape",
    "Errors: ": "Raises",
    "Returns ": "Returns",
    "Cost: ": "Cost",
    "Source: ": "Source",
}
_SENTENCE = re.compile(
    rf"(?:(?<=[.)`] )|(?<=\A))({'|'.join(_PROSE)})(.+?[.)])(?= [A-Z`(]|\Z)", re.DOTALL
)
RESHAPING = (
    *("as_strided_", "resize_", "resize_as_", "set_", "squeeze_"),
    *("swapaxes_", "swapdims_", "t_", "transpose_", "unsqueeze_"),
)
OPERANDS = {"other", "exponent", "end", "tensor1", "tensor", "min", "max", "mask", "source", "src"}
PLACED = {"source", "src"}  # what goes to places of the tensor, one by one
IN_PLACE = "the tensor keeps its shape; other operands are broadcast to it."
IN_PLACE_ALONE = "the tensor keeps its shape."
SAME = "any -> the same."
BROADCAST = "shapes that broadcast to each other -> the broadcast shape."
REDUCED = "any -> the same without the reduced dimensions, or with size 1 there with `keepdim`."
_IN_PLACE = re.compile(
    r"`(?:weft\.)?(\w+)`, in place\.(?=\s|$)"
    r"|`input\.(\w+)_\(\.\.\.\)`: writes to `input` and returns it\.(?=\s|$)"
)
_STAND_IN = re.compile(r"`weft\.\w+` of this tensor\.(?=\s|$)")
_CITED = re.compile(r"\(([A-Z][\w ,.&-]*,? (?:19|20)\d\d)\)")  # "(Ba et al. 2016)"
_STARS = {"VAR_POSITIONAL": "*", "VAR_KEYWORD": "**"}
_NAMED = re.compile(r"\A((?:\*{0,2}\w+)(?:, \*{0,2}\w+)*)(?: \([^)]*\))?: ")


def completed(source: Callable[..., object], doc: str | None, name: str) -> str | None:
    """The docstring `doc` of a function or class with all its sections; `name` is its public name without "weft."."""
    if not doc:
        return doc
    prose, sections = _parsed(inspect.cleandoc(doc))
    prose = _with_what_it_names(source, prose)
    sections["Args"] = _args(source, sections.get("Args", ""), name)
    if not {"Shape", "Returns", "Yields"} & set(sections):
        sections["Shape"] = _shape(source, name)
    sections.setdefault("Raises", _errors(source, sections.get("Shape", "")))
    sections.setdefault("Source", _literature(prose, name))
    if "Example" not in sections:
        plain = name.removeprefix("Tensor.").removeprefix("nn.functional.")
        sections["Example"] = _example(name) or _example(plain)
    parts = [prose]
    for title in SECTIONS:
        if body := sections.get(title):
            parts.append(f"{title}:\n{textwrap.indent(body, '    ')}")
    return "\n\n".join(part for part in parts if part) + "\n"


def inherited(method: Callable[..., object]) -> str | None:
    """The docstring of the method that one without a docstring overrides, or None; of `object`, no words are taken."""
    *owners, name = method.__qualname__.split(".")
    owner: object = sys.modules[method.__module__]
    for each in owners:
        owner = getattr(owner, each, None)
    overridden = (vars(base).get(name) for base in getattr(owner, "__mro__", ())[1:-1])
    return next((doc for each in overridden if (doc := getattr(each, "__doc__", None))), None)


def _with_what_it_names(source: Callable[..., object], prose: str) -> str:
    """A stand-in in the first sentence of what it calls; behind "`exp`, in place." the first sentence of `exp`."""
    if found := _IN_PLACE.match(prose):
        name = found[1] or found[2]
        named = getattr(importlib.import_module("weft"), name, None)
        words = _first_sentence(named.__doc__ if named else None)
        words = words.removeprefix("A copy ")
        lower = words if words[1:2].isupper() else words[:1].lower() + words[1:]
        return f"`{name}`, in place: {lower}{prose[found.end() :]}" if words else prose
    found = _STAND_IN.match(prose)
    words = _first_sentence(_called(source).__doc__) if found else ""
    return words + prose[found.end() :] if found and words else prose


def _first_sentence(doc: str | None) -> str:
    """The first paragraph of a docstring in one line, without what would be sections."""
    return " ".join(_parsed(inspect.cleandoc(doc))[0].partition("\n\n")[0].split()) if doc else ""


def parameters(source: Callable[..., object]) -> dict[str, Parameter]:
    """The parameters by which a function or class is called, by name; of a stand-in, those of what it calls."""
    try:
        given = inspect.signature(_called(source)).parameters
    except (TypeError, ValueError):
        return {}
    shown = [each for each in given.values() if not each.name.startswith("_")]
    bound = hasattr(source, "place") or (len(shown) > 0 and shown[0].name == "self")
    found = {each.name: each for each in shown[1 if bound else 0 :]}
    if getattr(source, "__name__", "").endswith("_"):
        found.pop("out", None)  # in place, which nobody can ask to be written elsewhere
    return found


def _shape(source: Callable[..., object], name: str) -> str:
    """The Shape section of a function or class in the vocabulary's words, or by its row in the op table, or no text."""
    plain = name.rpartition(".")[2]
    if plain.endswith("_") and plain not in RESHAPING:
        given = set(parameters(source))
        is_alone = not OPERANDS & given or (PLACED & given and plain != "copy_")
        return _filled(IN_PLACE_ALONE if is_alone else IN_PLACE)
    if words := meaning("Shape", name):
        return _filled(words)
    op = OPS.get(plain)
    if op is not None and op.kind == ELEMENTWISE:
        alone = len(op.operands) == 1
        return _filled(SAME if alone else BROADCAST)
    if {"dim", "keepdim"} <= set(parameters(source)):
        return _filled(REDUCED)
    return ""


def _errors(source: Callable[..., object], shape: str) -> str:
    """The Raises section that follows from the parameters and the shapes of a function, or no text."""
    errors, given = [], set(parameters(source))
    if shape == _filled(BROADCAST) and "n" not in given:  # a degree is no tensor
        errors.append("ShapeError, a RuntimeError, where the shapes do not broadcast.")
    if {"input", "dim"} <= given:
        errors.append("DimensionError, an IndexError, for a `dim` that the input does not have.")
    return "\n".join(errors)


def _literature(prose: str, name: str) -> str:
    """The Source section: what the text cites, or the vocabulary, or no text."""
    cited = _CITED.search(" ".join(prose.split()))
    words = cited[1] if cited else meaning("Source", name)
    return f"{words}." if words else ""


def _example(name: str) -> str:
    """The example of a function in `examples.txt`, or no text."""
    found = examples().get(name)
    return f">>> import weft\n{found}" if found else ""


@functools.cache
def examples() -> dict[str, str]:
    """The examples of functions that have none in their docstrings, by their public names without "weft."."""
    table = Path(__file__).with_name("examples.txt").read_text(encoding="utf-8")
    found: dict[str, str] = {}
    for block in table.split("\n\n"):
        names, _, example = block.strip("\n").partition("\n")
        found |= dict.fromkeys(names.split(), example)
    return found


def named_in(doc: str) -> set[str]:
    """The parameters that the Args section of a completed docstring names."""
    body = _parsed(inspect.cleandoc(doc))[1].get("Args", "")
    return {name.lstrip("*") for name in _entries(body)}


# -- sections ------------------------------------------------------------------------------------------------------


def _parsed(doc: str) -> tuple[str, dict[str, str]]:
    """The prose of a docstring, and its sections by title."""
    prose: list[str] = []
    sections: dict[str, str] = {}
    titled = rf"^({'|'.join(SECTIONS)}|Shapes|Errors|Examples):\n(?=    )"
    pieces = re.split(titled, doc, flags=re.MULTILINE)
    for title, body in zip(pieces[1::2], pieces[2::2], strict=True):
        inside = re.match(r"(?:(?: {4}.*)?(?:\n|\Z))*", body)
        end = inside.end() if inside else 0
        known = {"Shapes": "Shape", "Errors": "Raises", "Examples": "Example"}.get(title, title)
        sections[known] = textwrap.dedent(body[:end]).strip("\n")
        pieces[0] += body[end:]
    for paragraph in pieces[0].strip().split("\n\n"):
        rest = _take_sentences(paragraph, sections)
        if rest:
            prose.append(rest)
    return "\n\n".join(prose), sections


def _take_sentences(paragraph: str, sections: dict[str, str]) -> str:
    """A paragraph without the sentences that are sections, which `sections` gets."""
    if re.search(r"^(?: |>>>|\||- )", paragraph, flags=re.MULTILINE):  # a list, a table, code
        return paragraph
    text = " ".join(paragraph.split())
    moved = False
    for found in list(_SENTENCE.finditer(text)):
        if found.start() == 0 and found[1] == "Returns ":
            continue  # the imperative of a docstring's first sentence
        title, body = _PROSE[found[1]], found[2]
        before = sections.get(title)
        sections[title] = f"{before}\n{_filled(body)}" if before else _filled(body)
        text, moved = text.replace(found[0], "", 1), True
    return textwrap.fill(" ".join(text.split()), WIDTH) if moved else paragraph


def _filled(text: str) -> str:
    return textwrap.fill(text, WIDTH - 4, break_long_words=False, break_on_hyphens=False)


# -- parameters ----------------------------------------------------------------------------------------------------


def _args(source: Callable[..., object], written: str, name: str) -> str:
    """The Args section: what is written, and the vocabulary's words for the others, in the order of the signature."""
    entries = _entries(written)
    lines = []
    for parameter in parameters(source).values():
        own = entries.get(parameter.name)
        if own is not None and own in lines:
            continue  # "device, dtype: ..."
        words = own or _described(parameter, name)
        if words:
            lines.append(words)
    return "\n".join(
        [*lines, *(text for text in dict.fromkeys(entries.values()) if text not in lines)]
    )


def _entries(written: str) -> dict[str, str]:
    """The entries of an Args section by the names of parameters."""
    found: dict[str, str] = {}
    for entry in re.split(r"\n(?=\S)", written):
        if match := _NAMED.match(entry):
            found |= {each.lstrip("*"): entry for each in match[1].split(", ")}
    return found


def _described(parameter: Parameter, name: str) -> str | None:
    """The entry of a parameter in the vocabulary's words, or None where it has none."""
    words = meaning(parameter.name, name)
    if words is None:
        return None
    text, _, of_none = words.partition(" | ")
    default = parameter.default
    if default is None and of_none:
        text = f"{text.rstrip('.')}; {of_none}"
    elif _is_plain(default):
        text = f"{text.rstrip('.')}. Default: {default!r}"
    stars = _STARS.get(parameter.kind.name, "")
    return textwrap.fill(
        f"{stars}{parameter.name}: {text.rstrip('.')}.",
        WIDTH - 4,
        subsequent_indent="    ",
        break_long_words=False,
        break_on_hyphens=False,
    )


def _is_plain(default: object) -> bool:
    if isinstance(default, tuple):
        return all(_is_plain(each) for each in default)
    return type(default) in (bool, int, float, complex, str)


def _called(source: Callable[..., object]) -> Callable[..., object]:
    """The function that a stand-in calls; others are themselves."""
    place = getattr(source, "place", None)
    if isinstance(place, tuple):
        path, name = place
        return getattr(load(path), name, source)  # type: ignore[no-any-return]
    return getattr(source, "method", source)  # type: ignore[no-any-return]
