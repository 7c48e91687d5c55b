"""Writes the pages of the reference: one for each part of the public API, with an entry for each name.

Which names belong together follows from the modules that define them. The text of an entry is the name's docstring,
which Sphinx reads when it builds the page. Names that exist only because other packages look for them
(`ABSENT`) are left out: `docs/names.md` counts them.
"""

from __future__ import annotations

import argparse
import functools
import importlib
import inspect
import textwrap
from collections.abc import Iterator
from pathlib import Path
from types import GetSetDescriptorType, ModuleType

from weft.engine.api.public_names import MODULES

ABSENT = ("weft.compat", "weft.distributed.absent")


def write(folder: Path) -> None:
    """Write all pages into a folder, where those of an earlier run are left alone if they are equal, else replaced."""
    folder.mkdir(exist_ok=True)
    shown: set[object] = set()
    pages = {module: page(module, title, shown) for module, title in MODULES.items()}
    pages["weft.Tensor"] = tensor_page()
    pages["commands"] = commands_page()
    names = "\n   ".join(pages)
    pages["index"] = f"{heading('Reference', '=')}\n.. toctree::\n   :maxdepth: 1\n\n   {names}\n"
    for old in folder.glob("*.rst"):
        if old.stem not in pages:
            old.unlink()
    for name, text in pages.items():
        path = folder / f"{name}.rst"
        if not path.exists() or path.read_text() != text:
            path.write_text(text)


def page(path: str, title: str, shown: set[object]) -> str:
    """The page of a module: its functions and classes by the room of the source that defines them; classes that an
    earlier page has `shown` are left out."""
    module = importlib.import_module(path)
    rooms: dict[str, list[str]] = {}
    for name, item in public(module):
        if inspect.isclass(item):
            if item in shown:
                continue
            shown.add(item)
        rooms.setdefault(room_of(item, path), []).append(entry(path, name, item))
    lines = [heading(f"{path}: {title}", "="), f".. currentmodule:: {path}\n"]
    lines.append((inspect.getdoc(module) or "").partition("\n\n")[0].replace("`", "``") + "\n")
    for room in sorted(rooms):
        lines += [heading(room, "-"), *sorted(rooms[room])] if len(rooms) > 1 else rooms[room]
    return "\n".join(lines)


def tensor_page() -> str:
    """The page of Tensor: each method and property."""
    import weft

    lines = [heading("weft.Tensor", "="), ".. currentmodule:: weft\n"]
    for name, item in sorted(vars_of(weft.Tensor).items()):
        kind = "automethod" if callable(item) else "autoattribute"
        lines.append(f".. {kind}:: Tensor.{name}\n")
    return "\n".join(lines)


def commands_page() -> str:
    """The page of the command `weft`: the help of each of its commands."""
    from weft.demo.cli import parser

    top = parser()
    helps = {"weft": top.format_help()}
    for action in top._actions:
        if isinstance(action, argparse._SubParsersAction):
            helps |= {f"weft {name}": each.format_help() for name, each in action.choices.items()}
    lines = [heading("The command weft", "=")]
    for name, text in helps.items():
        lines += [heading(name, "-"), ".. code-block:: text\n", textwrap.indent(text, "   ")]
    return "\n".join(lines)


def vars_of(owner: type) -> dict[str, object]:
    """The public members of a class."""
    return {name: getattr(owner, name) for name in dir(owner) if not name.startswith("_")}


def public(module: ModuleType) -> Iterator[tuple[str, object]]:
    """The functions and classes of a module that are its own API."""
    names = getattr(module, "__all__", None) or dir(module)
    for name in sorted(set(names)):
        item = getattr(module, name, None)
        if name.startswith("_") or inspect.ismodule(item) or not callable(item):
            continue
        home = home_of(item)
        if home.startswith("weft") and not home.startswith(ABSENT):
            yield name, item


@functools.cache
def public_classes() -> set[type]:
    """The classes that have an entry of their own on some page."""
    modules = map(importlib.import_module, MODULES)
    return {item for module in modules for _, item in public(module) if inspect.isclass(item)}


def own_members(owner: type) -> list[tuple[str, object]]:
    """The methods and properties that a class has beyond those of its public bases, or describes anew."""
    bases = public_classes().intersection(owner.__mro__[1:])
    of_bases = {inherited for base in bases for inherited in base.__mro__}
    found: dict[str, object] = {}
    for base in owner.__mro__:
        if base not in of_bases and base.__module__.startswith("weft"):
            found = dict(filter(is_described, vars(base).items())) | found
    return sorted(found.items())


def is_described(member: tuple[str, object]) -> bool:
    """Whether a member of a class is a public method or property with a docstring of its own."""
    name, value = member
    function = getattr(value, "__func__", value)  # of a class or static method
    named = isinstance(value, property) or getattr(function, "__name__", "") == name
    own = getattr(function, "__wrapped__", value)
    return named and not name.startswith("_") and bool(getattr(own, "__doc__", None))


def home_of(item: object) -> str:
    """The module that defines a function or class."""
    return str(getattr(inspect.unwrap(item), "__module__", "") or "")  # type: ignore[arg-type]


def room_of(item: object, module: str) -> str:
    """The words under which an entry stands: what is left of the name of its module, at its end."""
    home = home_of(item)
    last = home.removeprefix(module).strip(".").rpartition(".")[2]
    name = str(getattr(item, "__name__", ""))
    return name if name.lower() == last else last.replace("_", " ").strip().capitalize() or "More"


def entry(module: str, name: str, item: object) -> str:
    """The directive that shows a docstring."""
    if inspect.isclass(item):
        kind = "autoexception" if issubclass(item, BaseException) else "autoclass"
        lines = [f".. {kind}:: {name}\n"]
        shown_elsewhere = name == "Tensor" or name != item.__name__  # on its page; under its name
        for member, value in [] if shown_elsewhere else own_members(item):
            place = "autoproperty" if isinstance(value, property) else "automethod"
            place = "autoattribute" if isinstance(value, GetSetDescriptorType) else place
            lines.append(f"   .. {place}:: {name}.{member}\n")
        return "\n".join(lines)
    return f".. autofunction:: {name}\n"


def heading(text: str, line: str) -> str:
    """A heading of reStructuredText."""
    return f"{text}\n{line * len(text)}\n"
