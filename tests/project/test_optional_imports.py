"""A file loads with what the Makefile installs for it: what it imports at module level, itself or by way of a helper,
is the standard library's, this repository's, or a package's that its extras in pyproject.toml name."""

from __future__ import annotations

import ast
import re
import sys
import tomllib
from collections.abc import Iterator
from importlib import metadata
from pathlib import Path

import pytest

ROOT = Path(__file__).resolve().parents[2]
PROJECT = tomllib.loads((ROOT / "pyproject.toml").read_text())["project"]
DEVELOPMENT = ("dev", "demo", "files")  # what `make test` installs
EXTRAS = {
    "tests": DEVELOPMENT,
    "benchmarks": DEVELOPMENT,  # rivals are imported where they are measured
    "tools": DEVELOPMENT,
    "tests/distributed/programs": (*DEVELOPMENT, "torch", "ray"),  # run by torch, `weft run` or Ray
    "tools/conformance": (*DEVELOPMENT, "torch"),
    "examples": ("examples", "ray"),
    "examples/gallery": ("examples", "plots"),
}
ABSENT = ("ImportError", "ModuleNotFoundError", "TYPE_CHECKING")
FILES = sorted({path for folder in EXTRAS for path in (ROOT / folder).rglob("*.py")})


def packages(extras: tuple[str, ...]) -> set[str]:
    """The import names of the distributions that Weft and these extras require."""
    lists = [PROJECT["dependencies"], *(PROJECT["optional-dependencies"][name] for name in extras)]
    wanted = {_plain(re.split(r"[^\w.-]", entry)[0]) for entries in lists for entry in entries}
    installed = metadata.packages_distributions()
    named = {name for name, owners in installed.items() if wanted & {_plain(o) for o in owners}}
    return named | {
        name.replace("-", "_") for name in wanted
    }  # as most are called that are not installed


def _plain(distribution: str) -> str:
    return re.sub(r"[-_.]+", "-", distribution).lower()


def imports_of(tree: ast.Module) -> Iterator[tuple[int, str]]:
    """The line and the full name of each import that loading the module runs and that has to succeed."""
    optional: set[str] = set()
    pending: list[ast.AST] = tree.body[::-1]
    while pending:
        node = pending.pop()
        optional |= set(_skipped_without(node))
        for name in _named(node):
            if name.split(".")[0] not in optional:
                yield node.lineno, name
        pending += _run_by(node)[::-1]


def _skipped_without(node: ast.AST) -> Iterator[str]:
    """The packages whose absence skips the rest of the file."""
    call = node.value if isinstance(node, (ast.Expr, ast.Assign)) else None
    if isinstance(call, ast.Call) and ast.unparse(call.func) == "pytest.importorskip":
        yield ast.literal_eval(call.args[0]).split(".")[0]


def _named(node: ast.AST) -> list[str]:
    if isinstance(node, ast.Import):
        return [alias.name for alias in node.names]
    if isinstance(node, ast.ImportFrom):
        return [f"{node.module}.{alias.name}" for alias in node.names]
    return []


def _run_by(node: ast.AST) -> list[ast.AST]:
    """The statements in a statement that run with it; not those that an absent package leaves out."""
    if isinstance(node, (ast.FunctionDef, ast.AsyncFunctionDef)):
        return []
    if isinstance(node, ast.If) and _speaks_of_absence(node.test):
        return [*node.orelse]
    if isinstance(node, ast.With) and any(_speaks_of_absence(item) for item in node.items):
        return []
    if isinstance(node, ast.Try) and any(_speaks_of_absence(h.type) for h in node.handlers):
        return [*node.handlers, *node.finalbody]
    return [part for part in ast.iter_child_nodes(node) if not isinstance(part, ast.expr)]


def _speaks_of_absence(node: ast.AST | None) -> bool:
    return node is not None and any(name in ast.dump(node) for name in ABSENT)


def local_files(path: Path, name: str, root: Path) -> list[Path]:
    """The files of this repository that an import in a file loads."""
    parts = name.split(".")
    for start in (path.parent, root / "tests" / "samples", root / "tools", root):
        ends = [start.joinpath(*parts[:count]) for count in range(1, len(parts) + 1)]
        files = [file for end in ends for file in (end.with_suffix(".py"), end / "__init__.py")]
        if any(file.is_file() for file in files):
            return [file for file in files if file.is_file()]
    return []


def unmet(path: Path, allowed: set[str], root: Path = ROOT) -> list[str]:
    """Imports of packages that are not allowed, each with the files by way of which it is reached."""
    found: list[str] = []
    pending, seen = [(path, "")], {path}
    while pending:
        file, chain = pending.pop()
        for line, name in imports_of(ast.parse(file.read_text())):
            here = f"{chain}{file.relative_to(root)}:{line} "
            helpers = local_files(file, name, root)
            pending += [(helper, f"{here}-> ") for helper in helpers if helper not in seen]
            seen.update(helpers)
            package = name.split(".")[0]
            if not helpers and package not in allowed:
                found.append(f"{here}imports {package}")
    return found


KNOWN = {
    folder: packages(extras) | sys.stdlib_module_names | {"weft"}
    for folder, extras in EXTRAS.items()
}


def test_names_of_packages_come_from_the_extras() -> None:
    """Also where a distribution is called otherwise than what it holds."""
    assert {"numpy", "pytest", "sklearn", "tqdm", "safetensors"} <= KNOWN["tests"]
    assert not {"torch", "expecttest", "pluggy"} & KNOWN["tests"]


@pytest.mark.parametrize("path", FILES, ids=lambda path: str(path.relative_to(ROOT)))
def test_a_file_loads_with_its_extras(path: Path) -> None:
    folder = max((name for name in EXTRAS if path.is_relative_to(ROOT / name)), key=len)
    missing = unmet(path, KNOWN[folder])
    hint = "write `from oracle import torch`, or pytest.importorskip for another package"
    assert not missing, f"{'; '.join(missing)}: {hint}"


@pytest.mark.parametrize(
    ("source", "expected"),
    [
        ("import torch", True),
        ("from torch.nn import functional", True),
        ("class Test:\n    if True:\n        import torch", True),
        ("with open('a') as file:\n    import torch", True),
        ("try:\n    import torch\nexcept ValueError:\n    pass", True),
        ("import torch\nimport pytest\npytest.importorskip('torch')", True),
        ("import helper", True),
        ("from helper import name", True),
        ("def test():\n    import torch", False),
        ("try:\n    import torch\nexcept ImportError:\n    torch = None", False),
        ("with suppress(ImportError):\n    import torch", False),
        ("if TYPE_CHECKING:\n    import torch", False),
        ("import pytest\npytest.importorskip('torch')\nfrom torch import nn", False),
        ("import numpy, weft.nn, xml.dom", False),
    ],
)
def test_the_check_itself(source: str, expected: bool, tmp_path: Path) -> None:
    (tmp_path / "helper.py").write_text("import torch\n")
    path = tmp_path / "test_file.py"
    path.write_text(source)
    assert bool(unmet(path, KNOWN["tests"], tmp_path)) == expected
