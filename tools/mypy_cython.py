"""A plugin of mypy that reads Cython's declarations, so that compiled modules are checked like others.

A compiled module is Python that runs as C; what its .pxd declares, the .py does not say: fields of classes, names of C.
Before mypy analyses such a module, the plugin adds to it what the .pxd beside it says: fields as annotations of the
class, the names that the .pxd cimports, and `__cinit__` as `__init__`. A cimport of a name that the other module's .py
defines is an import of it; structs, enums and inline functions of C stay unknown. Cython checks the C side itself.
"""

from __future__ import annotations

import ast
import re
from collections.abc import Iterator, Sequence
from functools import cache
from pathlib import Path

from mypy.errors import Errors
from mypy.nodes import (
    AssignmentStmt,
    CallExpr,
    ClassDef,
    Decorator,
    FuncDef,
    Import,
    ImportBase,
    ImportFrom,
    MemberExpr,
    MypyFile,
    NameExpr,
    Statement,
)
from mypy.options import Options
from mypy.parse import parse
from mypy.plugin import Plugin, ReportConfigContext

SOURCES = Path(__file__).resolve().parents[1] / "src"
CIMPORTS = "cython.cimports."
# C types, as Python sees their values; whole numbers are found by their pattern.
PYTHON_TYPES = {
    "bint": "bool", "double": "float", "float": "float", "str": "str", "bytes": "bytes", "type": "type",
    "bytearray": "bytearray", "dict": "dict[Any, Any]", "list": "list[Any]", "set": "set[Any]",
    "tuple": "tuple[Any, ...]",
}  # fmt: skip
WHOLE = re.compile(
    r"(unsigned |signed )?(char|short|int|long|long long)|s?size_t|Py_ssize_t|u?int\d*(ptr)?_t"
)
CIMPORT = re.compile(r"^from ([\w.]+) cimport ([^#\n]*)", re.MULTILINE)
CLASS = re.compile(r"cdef class (\w+)")
FIELD = re.compile(
    r"    cdef (?:public |readonly )?((?:unsigned )?(?:long long|[\w.]+))( |\*+ | \*+|\[\w+\] )"
    r"(\w+(?:, \w+)*)(\[.*\])?$"
)
NAME_OF_C = re.compile(
    r"(?:    )?(?:cdef |cpdef |ctypedef )?(?:[\w.\[\], *]+[ *])?(\w+)(?:\(.*|\[.*| = .*)?:?$"
)
HIGH = 10  # the priority that mypy gives to imports at the top of a module


def path_of(module: str) -> Path:
    """The source of a module of the package, which need not exist."""
    return SOURCES / (module.replace(".", "/") + ".py")


@cache
def names_in(path: Path, imports: bool = False) -> frozenset[str]:
    """What a module defines at its top, and what it imports if that is asked for; a stub beside it counts for it."""
    path = stub if (stub := path.with_suffix(".pyi")).exists() else path
    found: set[str] = set()
    for part in ast.parse(path.read_text()).body if path.exists() else ():
        if isinstance(part, (ast.FunctionDef, ast.ClassDef)):
            found.add(part.name)
        elif isinstance(part, (ast.Assign, ast.AnnAssign)):
            names = [node for node in ast.walk(part) if isinstance(node, ast.Name)]
            found |= {node.id for node in names if isinstance(node.ctx, ast.Store)}
        elif isinstance(part, (ast.Import, ast.ImportFrom)) and imports:
            found |= {alias.asname or alias.name for alias in part.names}
    return frozenset(found)


def python_type(declared: str, classes: set[str]) -> str:
    """The type of a C variable, as Python sees it."""
    if declared in PYTHON_TYPES:
        return PYTHON_TYPES[declared]
    return "int" if WHOLE.fullmatch(declared) else declared if declared in classes else "Any"


def code_lines(text: str) -> Iterator[str]:
    """The lines of a .pxd without comments, and without the C that it quotes."""
    for line in re.sub(r'""".*?"""', "", text, flags=re.DOTALL).splitlines():
        if code := line.partition("#")[0].rstrip():
            yield code


def cimported(text: str) -> Iterator[tuple[str, list[tuple[str, str]]]]:
    """The cimports of a .pxd: the module, and what is taken from it, with the name that it has here."""
    for module, names in CIMPORT.findall(text):
        pairs = [part.split(" as ") for part in re.sub(r"[() ]*\s", " ", names).split(",")]
        yield module, [(pair[0].strip(), pair[-1].strip()) for pair in pairs if pair[0].strip()]


def fields_of(text: str) -> dict[str, list[tuple[str, str]]]:
    """The fields of every class that a .pxd declares: name and C type; pointers and arrays have none."""
    found: dict[str, list[tuple[str, str]]] = {}
    name = ""
    for line in code_lines(text):
        if not line.startswith(" "):
            name = declared[1] if (declared := CLASS.match(line)) else ""
            if name:
                found[name] = []
        elif name and (field := FIELD.match(line)):
            kind = field[1] if field[2] == " " and not field[4] else "void"
            found[name] += [(part, kind) for part in field[3].split(", ")]
    return found


def names_of_c(text: str) -> Iterator[str]:
    """What a .pxd declares beside classes: functions, variables, structs, the members of enums and externs."""
    inside = False
    for line in code_lines(text):
        if not line.startswith(" "):
            inside = line.startswith(("cdef extern", "cdef enum"))
        declares = line.startswith(("cdef ", "cpdef ", "ctypedef "))
        declares = declares and not line.startswith(("cdef class", "cdef extern"))
        if (inside or declares) and (found := NAME_OF_C.match(line)):
            yield found[1]


def declarations(path: Path, module: str, compiled: bool) -> str:
    """What the .pxd beside a module says, as Python: imports, and classes with their fields. What Cython calls an
    `object` is anything, whose attributes are looked up when it runs."""
    declared = path.with_suffix(".pxd")
    text = declared.read_text() if declared.exists() else ""
    own = names_in(path, imports=True)
    lines, classes = ["import dataclasses", "from typing import Any"], set(fields_of(text))
    if compiled and not re.search(r"\bobject[.(]|, object\)", path.read_text()):
        lines.append("from typing import Any as object")
    for source, pairs in cimported(text):
        for name, alias in pairs:
            known = source.startswith("weft.") and name in names_in(path_of(source))
            if known:
                classes.add(alias)
            if alias not in own:
                lines.append(f"from {'' if known else CIMPORTS}{source} import {name} as {alias}")
    lines.append(f"from {CIMPORTS}cpython.buffer import Py_buffer")  # which Cython knows
    for name in sorted(set(names_of_c(text)) - own - classes):
        lines.append(f"from {CIMPORTS}{module} import {name} as {name}")
    for name, fields in fields_of(text).items():
        body = [f"    {field}: {python_type(kind, classes)}" for field, kind in fields]
        lines += [f"class {name}:", *(body or ["    ..."])]
    return "\n".join(lines) + "\n"


def resolve_cimports(file: MypyFile) -> Iterator[str]:
    """Let cimports of what Python modules define be imports of it; gives the modules that are then imported."""
    for node in list(file.imports):
        if not isinstance(node, ImportFrom) or not node.id.startswith(CIMPORTS + "weft."):
            continue
        module = node.id.removeprefix(CIMPORTS)
        known = names_in(path_of(module))
        pairs, node.names = node.names, [pair for pair in node.names if pair[0] not in known]
        if module == file.fullname or len(pairs) == len(node.names):
            continue
        found = ImportFrom(module, 0, [pair for pair in pairs if pair[0] in known])
        found.set_line(node)
        found.is_top_level = node.is_top_level
        add_imports(file, [found])
        yield module


def add_imports(file: MypyFile, nodes: Sequence[ImportBase]) -> None:
    """Put imports before all else in a module."""
    file.defs[0:0] = nodes
    file.imports[0:0] = nodes


def adopt_fields(own: ClassDef, declared: list[Statement]) -> None:
    """Give a class the fields that are declared for it and that its body does not say."""
    taken = {part.name for part in own.defs.body if isinstance(part, (FuncDef, Decorator))}
    for part in own.defs.body:
        if isinstance(part, AssignmentStmt):
            taken |= {lvalue.name for lvalue in part.lvalues if isinstance(lvalue, NameExpr)}
    for part in declared:
        field = part.lvalues[0] if isinstance(part, AssignmentStmt) else None
        if isinstance(field, NameExpr) and field.name not in taken:
            own.defs.body.insert(0, part)


def read_as_python(own: ClassDef) -> None:
    """Let `__cinit__` be what makes an instance, and Cython's dataclasses be dataclasses."""
    functions = [part.func if isinstance(part, Decorator) else part for part in own.defs.body]
    methods = {part.name: part for part in functions if isinstance(part, FuncDef)}
    if "__init__" not in methods and (maker := methods.get("__cinit__")) is not None:
        maker._name = "__init__"
    for decorator in own.decorators:
        callee = decorator.callee if isinstance(decorator, CallExpr) else decorator
        module = callee.expr if isinstance(callee, MemberExpr) else None
        if isinstance(module, MemberExpr) and module.name == "dataclasses":
            callee.expr = NameExpr("dataclasses")


def parsed(path: Path, module: str, text: str) -> MypyFile:
    """Python that stands for declarations, as mypy parses it."""
    options = Options()
    options.native_parser = False
    return parse(text, str(path), module, Errors(options), options)


class CythonPlugin(Plugin):
    """Adds what .pxd files declare before a module is analysed."""

    def report_config_data(self, ctx: ReportConfigContext) -> object:
        """A module is checked again where the .pxd beside it has changed."""
        declared = Path(ctx.path).with_suffix(".pxd")
        return declared.read_text() if declared.exists() else None

    def get_additional_deps(self, file: MypyFile) -> list[tuple[int, str, int]]:
        """Called with a module as parsed: it is changed here, and what it then imports is given."""
        if not file.fullname.startswith("weft."):
            return []
        modules = list(resolve_cimports(file))
        path = Path(file.path)
        compiled = path.suffix == ".py" and "\nimport cython\n" in path.read_text()
        bodies: dict[str, list[Statement]] = {}
        if path.with_suffix(".pxd").exists() or compiled:
            made = parsed(path, file.fullname, declarations(path, file.fullname, compiled))
            imports = [part for part in made.defs if isinstance(part, (Import, ImportFrom))]
            add_imports(file, imports)
            modules += [part.id for part in imports if isinstance(part, ImportFrom)]
            bodies = {part.name: part.defs.body for part in made.defs if isinstance(part, ClassDef)}
        for part in file.defs if compiled or bodies else ():
            if isinstance(part, ClassDef):
                adopt_fields(part, bodies.get(part.name, []))
                read_as_python(part)
        return [(HIGH, module, 1) for module in modules if not module.startswith(CIMPORTS)]


def plugin(version: str) -> type[Plugin]:
    """What mypy calls."""
    return CythonPlugin
