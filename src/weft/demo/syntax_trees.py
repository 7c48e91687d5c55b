"""Real input for the demo: the functions of the installed Python's standard library as trees.

It reads the `.py` files of ten packages that every CPython installation has. Nodes of the syntax trees have the kind
of syntax and the name in it, if there is one; the trees are split by file, in an order that is the same on every run.
The model handles numbers and learning.
"""

from __future__ import annotations

import ast
import sysconfig
import warnings
import zlib
from collections import Counter
from collections.abc import Iterable, Iterator
from dataclasses import dataclass
from pathlib import Path
from typing import NamedTuple

# The largest packages that are present even where a distribution splits the library up.
PREFERRED = (
    "asyncio", "multiprocessing", "xml", "email", "importlib",
    "unittest", "logging", "http", "urllib", "wsgiref",
)  # fmt: skip
FALLBACKS = ("concurrent", "encodings", "ctypes", "re", "zoneinfo", "curses", "json", "dbm")
SKIPPED_FOLDERS = frozenset({"test", "tests", "idle_test", "__pycache__"})
SMALLEST, LARGEST, DEEPEST = 8, 200, 60
HELD_OUT = 0.25
UNKNOWN = "<unknown>"
COMMON = 5  # a label is worth a vector of its own if this many training files have it


class Tree(NamedTuple):
    """A node of a syntax tree: the kind of syntax, and its parts in source order."""

    label: str
    children: tuple[Tree, ...] = ()

    def size(self) -> int:
        """The number of nodes."""
        return 1 + sum(child.size() for child in self.children)


@dataclass(frozen=True)
class Function:
    """One function of the library: where it stands, what it belongs to, its tree."""

    package: str
    file: str
    name: str
    tree: Tree


@dataclass(frozen=True)
class Dataset:
    """Functions for training and, from other files, for measuring."""

    packages: tuple[str, ...]
    train: tuple[Function, ...]
    held_out: tuple[Function, ...]

    def vocabulary(self) -> tuple[str, ...]:
        """The labels common in the training files and all kinds of syntax there, sorted.

        The first stands for kinds that training did not see.
        """
        pairs = {(label, f.file) for f in self.train for label in labels_of(f.tree)}
        files = Counter(label for label, _ in pairs)
        kinds = {kind_of(label) for label in files}
        common = {label for label, count in files.items() if count >= COMMON}
        return (UNKNOWN, *sorted(kinds | common))

    def majority_baseline(self) -> float:
        """The held-out accuracy of always answering the package most frequent in training."""
        packages = [function.package for function in self.train]
        answer = max(self.packages, key=packages.count)
        return sum(f.package == answer for f in self.held_out) / len(self.held_out)


def labels_of(tree: Tree) -> Iterator[str]:
    """The labels of all nodes."""
    pending = [tree]
    while pending:
        node = pending.pop()
        yield node.label
        pending.extend(node.children)


def node_label(node: ast.AST) -> str:
    """`Kind:detail`: a name where one stands there, the type of a constant, else the kind alone."""
    kind = type(node).__name__
    if isinstance(node, ast.Constant):
        return f"{kind}:{type(node.value).__name__}"
    for field in ("id", "attr", "arg"):
        name = getattr(node, field, None)
        if isinstance(name, str):
            return f"{kind}:{name}"
    return kind


def kind_of(label: str) -> str:
    """The kind of syntax without the detail."""
    return label.partition(":")[0]


def make_tree(node: ast.AST, depth: int = DEEPEST) -> Tree:
    """The tree of a syntax node, cut off below `depth` levels."""
    if depth <= 1:
        return Tree(node_label(node))
    parts = (part for part in ast.iter_child_nodes(node) if not isinstance(part, ast.expr_context))
    return Tree(node_label(node), tuple(make_tree(part, depth - 1) for part in parts))


def parse(source: str | bytes, filename: str = "<source>") -> ast.Module | None:
    """The module's syntax, or None where this Python cannot parse it."""
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")  # invalid escapes and the like are not ours to report
        try:
            return ast.parse(source, filename)
        except (SyntaxError, ValueError):
            return None


def functions_in(module: ast.Module) -> Iterator[tuple[str, Tree]]:
    """Each function of a module as (qualified name, tree), in source order."""
    pending: list[tuple[str, ast.AST]] = [("", module)]
    while pending:
        prefix, node = pending.pop()
        inner = prefix
        if isinstance(node, ast.FunctionDef | ast.AsyncFunctionDef | ast.ClassDef):
            inner = prefix + node.name + "."
            if not isinstance(node, ast.ClassDef):
                yield prefix + node.name, make_tree(node)
        pending.extend((inner, part) for part in reversed(list(ast.iter_child_nodes(node))))


def package_files(root: Path, package: str) -> list[Path]:
    """The sources of a package without its tests, sorted."""
    files = (root / package).rglob("*.py")
    return sorted(f for f in files if not SKIPPED_FOLDERS.intersection(f.relative_to(root).parts))


def package_functions(root: Path, package: str) -> list[Function]:
    """The functions of one package that have a useful size, each distinct tree once."""
    seen: set[Tree] = set()
    functions = []
    for path in package_files(root, package):
        module = parse(path.read_bytes(), str(path))
        for name, tree in functions_in(module) if module else ():
            if tree not in seen and SMALLEST <= tree.size() <= LARGEST:
                seen.add(tree)
                functions.append(Function(package, str(path.relative_to(root)), name, tree))
    return functions


def split_by_file(functions: Iterable[Function]) -> tuple[list[Function], list[Function]]:
    """Training and held-out functions of a package: whole files, about a quarter held out."""
    by_file: dict[str, list[Function]] = {}
    for function in functions:
        by_file.setdefault(function.file, []).append(function)
    room = HELD_OUT * sum(map(len, by_file.values()))
    train: list[Function] = []
    held_out: list[Function] = []
    for file in sorted(by_file, key=lambda name: zlib.crc32(name.encode())):
        members = by_file[file]
        if len(held_out) + len(members) <= room:
            held_out.extend(members)
        else:
            train.extend(members)
    return train, held_out


def standard_library() -> Path:
    """The folder of the running Python's standard library."""
    return Path(sysconfig.get_path("stdlib"))


def load_functions(
    root: Path | None = None, packages: int = 10, limit: int | None = None
) -> Dataset:
    """The data set: `packages` packages of the library at `root`, at most `limit` functions of each
    side.

    A tree that both sides contain counts for training only, so that nothing measured was seen.
    Errors: RuntimeError where the library has too few packages with source files.
    """
    root = standard_library() if root is None else root
    names: list[str] = []
    train: list[Function] = []
    held_out: list[Function] = []
    for package in PREFERRED + FALLBACKS:
        learn, measure = split_by_file(package_functions(root, package))
        if len(names) < packages and learn and measure:
            names.append(package)
            train += learn
            held_out += measure
    if len(names) < packages:
        raise RuntimeError(
            f"{root} has the sources of {len(names)} packages, {packages} are needed: "
            "install the full standard library (Debian: apt install libpython3-stdlib)"
        )
    seen = {function.tree for function in train}
    held_out = [function for function in held_out if function.tree not in seen]
    return Dataset(tuple(names), thin(train, limit), thin(held_out, limit))


def thin(functions: list[Function], limit: int | None) -> tuple[Function, ...]:
    """At most `limit` of the functions, evenly spaced, so that each package keeps its share."""
    if limit is None or limit >= len(functions):
        return tuple(functions)
    return tuple(functions[i * len(functions) // limit] for i in range(limit))


def find_function(target: str) -> Function:
    """The function that `file.py:name` names, `name` plain or qualified.

    Errors: ValueError that says what the file contains instead.
    """
    file, _, name = target.rpartition(":")
    if not file or not name:
        raise ValueError(f"expected file.py:function, got {target!r}")
    module = parse(Path(file).read_bytes(), file)
    if module is None:
        raise ValueError(f"{file} is not Python source that this Python can parse")
    found = list(functions_in(module))
    for qualified, tree in found:
        if qualified == name or qualified.endswith("." + name):
            return Function("", file, qualified, tree)
    known = ", ".join(qualified for qualified, _ in found[:10]) or "none"
    raise ValueError(f"no function {name!r} in {file}; it has: {known}")
