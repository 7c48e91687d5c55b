"""One name, one meaning: names that the field's own have replaced are not defined again, and no two public classes
share a name.

`RETIRED` are names that nothing in the source, the tests, the tools or the benchmarks may be called, and that no page
but a record of the past (the changelog, decisions) gives as a name in code; some only as a field of one class
(`FIELDS`), or as a variable of one type (`VARIABLES`), because elsewhere they are the right word: a matrix has rows, an
op is no row. To retire a name, add a line here and its new name to the glossary.

A docstring names what is returned, or says in the imperative what is done; a predicate's begins with "True if". One
that begins with a subordinate clause ("Whether", "What", `RIDDLES`) leaves out the noun by which a reader would search.
"""

import ast
import re
from collections.abc import Iterator
from functools import cache
from pathlib import Path
from typing import NamedTuple

import pytest

ROOT = Path(__file__).parents[2]
SOURCE = ROOT / "src" / "weft"
BESIDE = ("tests", "tools", "benchmarks", "examples")
PAGES = sorted({*ROOT.glob("*.md"), *ROOT.glob("docs/*.md"), *ROOT.glob("board/*.md")})

RETIRED = {  # name -> the name to use
    "OpRow": "Primitive",
    "pull": "vjp",
    "pulls": "vjps",
    "pull_saves": "residuals",
    "push_kind": "jvp_kind",
    "rowwise": "is_row_independent",
    "composite_row": "define_custom_vjp",
    "macro_row": "define_macro",
    "elementwise_row": "define_elementwise",
    "acquire_saves": "retain_residuals",
    "release_saves": "release_residuals",
    "note_idle": "mark_dead_candidate",
    "Place": "MemRef",
    "set_place": "set_memref",
    "has_place": "has_memref",
    "role_of": "operand_role",
    "alike": "is_batchable_with, or what is equal: same_codes, equal_shapes",
    "likeness": "batch_key, merge_key",
    "same_line": "same_call_site",
    "considered": "batch_seen",
    "risky": "may_fail",
    "former": "undo (of a write), previous (of a setting)",
    "formers": "undo_entries",
    "lens": "view_transform",
    "twins": "clones",
    "make_twins": "clone_into_readers",
    "gang": "group, grouped launch, horizontal fusion",
    "gangs": "groups",
    "staged": "is_row_kernel",
    "Staged": "RowKernel",
    "Staging": "RowKernelEncoder",
    "novel": "cold",
    "provisional": "is_cold",
    "Turned": "TransposedTile, Prepacked",
    "grain": "grain_size",
    "Settling": "ReadyQueue",
    "Discovery": "Reachability",
    "Outline": "WalkFingerprint",
    "Template": "CachedExecutable",
    "Terms": "SegmentIndex",
    "Joint": "MultiOutput",
    "Cut": "SplitSpec",
}
FIELDS = {  # (class, field) -> the field to use
    ("Node", "row"): "op",
    ("Node", "live"): "external_refs",
    ("Node", "saved"): "residual_mask",
    ("Node", "holds"): "has_residuals",
    ("Node", "bound"): "max_index",
    ("Primitive", "takes"): "dtypes",
    ("Primitive", "types"): "dtype_bits",
    ("Primitive", "numpy"): "reference",
    ("Primitive", "samples"): "domain",
    ("Tensor", "recipe"): "view_chain",
    ("Tensor", "seen"): "version_seen",
    ("Program", "places"): "memrefs",
    ("Program", "again"): "remat_of",
    ("Program", "apart"): "split_kernels",
    ("Launch", "work"): "cost_ns",
}
VARIABLES = {
    ("row", "Primitive"): "op",
    ("place", "MemRef"): "memref",
    ("form", "FlushFingerprint"): "fingerprint",
}
ALLOWED = {  # (name, the only file that may define it) -> why
    ("novel", "benchmarks/novel.py"): "a workload's name, on the command line and in the results",
}
SHARED = {  # names of several classes -> why
    "Above": "functions that methods call, in sparse and in ragged tensors: one idea in both",
    "AuxRequest": "PyTorch has both",
    "Batch": "a batch of the engine, and its description for users",
    "CheckpointError": "both are public: `weft.CheckpointError` of a file, PyTorch's of a recomputation",
    "Event": "PyTorch has both",
    "Identity": "PyTorch has both",
    "Node": "PyTorch has both, and both are what the engine's is: an operation of a graph",
    "PassManager": "PyTorch has both",
    "Store": "PyTorch's, of distributed programs; the loop IR's, as everywhere in compilers",
    "Stream": "PyTorch has both",
    "Transformer": "PyTorch has both",
    "device": "PyTorch has both",
    "profile": "PyTorch has both",
}
RIDDLES = {"What", "Whether", "How", "Where", "Which", "Who"}  # first words of docstrings
LEFT: dict[str, int] = {}  # room -> docstrings that still begin so; no other room has one


class Definition(NamedTuple):
    """A name as it is introduced: in which class, of which type."""

    name: str
    line: int
    owner: str = ""
    type: str = ""


def of_python(text: str) -> Iterator[Definition]:
    """Classes, functions, parameters, and names and fields that are assigned or annotated."""
    stack: list[tuple[ast.AST, str]] = [(ast.parse(text), "")]
    while stack:
        node, owner = stack.pop()
        if isinstance(node, ast.ClassDef):
            yield Definition(node.name, node.lineno, owner)
            owner = node.name
        elif isinstance(node, ast.FunctionDef | ast.AsyncFunctionDef):
            yield Definition(node.name, node.lineno, owner)
        elif isinstance(node, ast.arg):
            yield Definition(node.arg, node.lineno, "", _written(node.annotation))
        elif isinstance(node, ast.AnnAssign) and isinstance(node.target, ast.Name):
            yield Definition(node.target.id, node.lineno, owner, _written(node.annotation))
        elif isinstance(node, ast.Name) and isinstance(node.ctx, ast.Store):
            yield Definition(node.id, node.lineno)
        elif isinstance(node, ast.Attribute) and isinstance(node.ctx, ast.Store):
            mine = isinstance(node.value, ast.Name) and node.value.id == "self"
            yield Definition(node.attr, node.lineno, owner if mine else "")
        stack.extend((child, owner) for child in ast.iter_child_nodes(node))


def _written(annotation: ast.expr | None) -> str:
    return "" if annotation is None else ast.unparse(annotation)


def of_declarations(text: str) -> Iterator[Definition]:
    """Classes, structures, functions, their parameters, and fields of a `.pxd`."""
    owner = ""
    for number, line in enumerate(text.splitlines(), 1):
        bare = line.partition("#")[0].rstrip()
        if bare and not bare.startswith((" ", ")")):
            owner = ""
        if found := re.match(r"(?:cdef )?(?:class|struct) (\w+)", bare):
            owner = found[1]
            yield Definition(owner, number)
        elif "(" in bare and not bare.lstrip().startswith("("):
            yield Definition(bare.partition("(")[0].split()[-1].strip("*"), number)
            for type_, name in re.findall(r"(\w+)[ *]+(\w+)(?=[,)=])", bare.partition("(")[2]):
                yield Definition(name, number, "", type_)
        elif found := re.match(r"\s+(?:cdef )?(?:\w+ )*?(\w+)[ *]+(\w+)(?:\[.*\])?$", bare):
            yield Definition(found[2], number, owner, found[1])


def better_name(found: Definition) -> str | None:
    """The name to use in place of a retired one; None for others."""
    return (
        FIELDS.get((found.owner, found.name))
        or VARIABLES.get((found.name, found.type))
        or RETIRED.get(found.name)
    )


@cache
def definitions() -> tuple[tuple[Path, Definition], ...]:
    """All names that modules of Weft, and those beside it, define."""
    files = [*SOURCE.rglob("*.p*"), *(p for room in BESIDE for p in (ROOT / room).rglob("*.py"))]
    found: list[tuple[Path, Definition]] = []
    for path in sorted(files):
        if path.suffix == ".py" and "compat" not in path.parts:
            found += ((path, each) for each in of_python(path.read_text()))
        elif path.suffix == ".pxd":
            found += ((path, each) for each in of_declarations(path.read_text()))
    return tuple(found)


def test_no_retired_name_is_defined() -> None:
    """The first offender is named with the word to use."""
    for path, found in definitions():
        word = better_name(found)
        where = path.relative_to(ROOT).as_posix()
        if word is not None and (found.name, where) not in ALLOWED:
            pytest.fail(f"{where}:{found.line}: {found.name!r} is retired: use {word}")


def retired_in(text: str) -> list[str]:
    """The retired names that stand in a page as code."""
    return [name for name in re.findall(r"`(\w+)`", text) if name in RETIRED]


def test_no_page_names_what_is_retired() -> None:
    pages = [page for page in PAGES if page.name != "CHANGELOG.md"]
    found = {page.name: retired_in(page.read_text()) for page in pages}
    assert {name: names for name, names in found.items() if names} == {}
    assert len(pages) > 10 and retired_in("leave places by `set_place`, not `set_memref`") == [
        "set_place"
    ]


def test_each_exception_is_one() -> None:
    """What is allowed is defined there."""
    defined = {(d.name, path.relative_to(ROOT).as_posix()) for path, d in definitions()}
    assert set(ALLOWED) - defined == set()


def test_no_two_classes_share_a_name() -> None:
    """A name that stands for two things is found in the wrong place. A name with an underscore is its module's alone,
    and the demo is a program of its own."""
    homes: dict[str, set[str]] = {}
    for path in sorted(SOURCE.rglob("*.p*")):
        module = path.relative_to(SOURCE).with_suffix("").as_posix()
        if path.suffix in (".py", ".pxd") and not module.startswith("demo/"):
            for name in re.findall(
                r"^(?:cdef )?(?:class|struct) ([^\W_]\w*)", path.read_text(), re.M
            ):
                homes.setdefault(name, set()).add(module)
    shared = {name: sorted(found) for name, found in homes.items() if len(found) > 1}
    assert {name: found for name, found in shared.items() if name not in SHARED} == {}


def riddles(text: str) -> Iterator[tuple[int, str]]:
    """Line and first line of each docstring that begins with a subordinate clause."""
    for node in ast.walk(ast.parse(text)):
        if isinstance(node, ast.Module | ast.ClassDef | ast.FunctionDef | ast.AsyncFunctionDef):
            found = (ast.get_docstring(node) or "").partition("\n")[0]
            if found.partition(" ")[0] in RIDDLES:
                yield node.body[0].lineno, found


def test_no_docstring_begins_with_a_subordinate_clause() -> None:
    """Rooms have no more of them than are `LEFT`; those of a room that has more are listed."""
    rooms: dict[str, list[str]] = {}
    for path in sorted(SOURCE.rglob("*.py")):
        where = path.relative_to(SOURCE)
        room = "/".join(where.parts[: 2 if where.parts[0] == "engine" else 1])
        found = [f"{where}:{line}: {text}" for line, text in riddles(path.read_text())]
        rooms.setdefault(room, []).extend(found)
    more = {room: found for room, found in rooms.items() if len(found) > LEFT.get(room, 0)}
    assert more == {}, 'name what is returned or done; a predicate begins with "True if"'
    assert [*riddles('def f():\n    """Whether x."""')] == [(2, "Whether x.")]


def test_the_reader_of_definitions_finds_each_kind() -> None:
    """Classes, parameters, variables and fields, in modules and in declarations."""
    module = """
class Node:
    row: Primitive
    def place(self, row: Primitive, other=1):
        self.live = 1
        for twin in other: pass
"""
    found = {(each.name, each.owner, each.type) for each in of_python(module)}
    assert found >= {
        *(("Node", "", ""), ("row", "Node", "Primitive"), ("place", "Node", "")),
        *(("row", "", "Primitive"), ("live", "Node", ""), ("twin", "", "")),
    }
    declared = """
cdef class Node:
    cdef readonly Primitive row
    cdef public long long saved  # what is kept
    cdef int put(self, Node node, long long* place) except -1
cdef struct Step:
    PyObject* row
cdef Node find(Primitive row)
"""
    found = {(each.name, each.owner, each.type) for each in of_declarations(declared)}
    assert found >= {
        *(("row", "Node", "Primitive"), ("saved", "Node", "long"), ("put", "", "")),
        *(("place", "", "long"), ("row", "Step", "PyObject"), ("row", "", "Primitive")),
    }
    assert better_name(Definition("row", 1, "Node")) == "op"
    assert better_name(Definition("row", 1, "", "Primitive")) == "op"
    assert better_name(Definition("row", 1)) is None
