"""Writes the stubs (.pyi) by which type checkers and editors see what is compiled or installed at import.

    python tools/generate_stubs.py [--package FOLDER]

The build runs it on what it has compiled (`setup.py`): stubs are no part of the sources. From the sources of compiled
modules (their Python and .pxd) and from the package as it is imported it writes `weft/__init__.pyi` with what is
exported, `autograd/__init__.pyi` likewise, `engine/frontend/tensor.pyi` with every method that is installed on Tensor,
and the stubs of the compiled modules of `weft.tensor`. The rest of the engine has none: mypy reads its sources and what
their .pxd declare (`tools/mypy_cython.py`).
"""

from __future__ import annotations

import argparse
import ast
import inspect
import re
import sys
from collections.abc import Iterator
from importlib import import_module
from pathlib import Path
from types import ModuleType
from typing import Any

SOURCES = Path(__file__).resolve().parents[1] / "src"
HEADER = "# Written by tools/generate_stubs.py: do not edit.\n"
BUILTINS = {
    "bool", "bytes", "complex", "dict", "float", "int", "list", "object", "set", "str", "tuple",
    "type",
}  # fmt: skip
# What annotations may name, and where it comes from.
KNOWN = {
    "Any": "typing", "Callable": "collections.abc", "Sequence": "collections.abc",
    "Mapping": "collections.abc", "Iterator": "collections.abc", "DType": "weft.engine.ir.dtype",
    "Tensor": "weft.engine.frontend.tensor", "Size": "weft.tensor.size", "device": "weft.tensor.device",
    "Generator": "weft.functional.random.generator", "Layout": "weft.tensor.layout",
    "MemoryFormat": "weft.tensor.layout",
    "RemovableHandle": "weft.engine.backward.hooks", "Iterable": "collections.abc",
    "Shape": "weft._typing", "Dims": "weft._typing", "Scalar": "weft._typing", "TensorLike": "weft._typing",
    "DeviceLike": "weft._typing", "DTypeLike": "weft._typing", "Array": "weft._typing", "Index": "weft._typing",
    "IndexItem": "weft._typing", "EllipsisType": "types", "SupportsIndex": "typing",
}  # fmt: skip
# Names that only compiled modules have for a type.
SAME = {"TensorArgument": "Tensor"}
# C types of .pxd files and annotations, as Python sees them.
C_TYPES = {
    "bint": "bool", "int": "int", "short": "int", "long long": "int", "unsigned long long": "int",
    "size_t": "int", "Py_ssize_t": "int", "int64_t": "int", "uint64_t": "int", "uintptr_t": "int",
    "double": "float", "str": "str", "tuple": "tuple[Any, ...]", "list": "list[Any]",
    "dict": "dict[Any, Any]", "set": "set[Any]", "object": "Any", "longlong": "int",
    "ulonglong": "int", "void": "None", "p_void": "int",
}  # fmt: skip
# Methods and functions that are not annotated and yet give no tensor.
NOT_TENSORS = {
    "allclose", "aminmax", "atleast_1d", "atleast_2d", "atleast_3d", "broadcast_shapes",
    "broadcast_tensors", "cholesky_ex", "chunk", "cummax", "cummin", "dsplit", "eigh", "equal",
    "get_rng_state", "histogram", "hsplit", "initial_seed", "is_same_size", "item", "kthvalue",
    "frexp", "lstsq", "manual_seed", "max", "median", "meshgrid", "min", "mode", "nanmedian", "nonzero",
    "qr", "seed", "slogdet", "sort", "split", "split_with_sizes", "std_mean", "svd",
    "tensor_split", "topk", "triangular_solve", "unbind", "unique", "unique_consecutive",
    "var_mean", "vsplit", "lu", "lu_unpack", "geqrf", "pca_lowrank", "svd_lowrank",
}  # fmt: skip
TENSOR_PROPERTIES = {
    "shape": "Size", "dtype": "DType", "ndim": "int", "device": "device", "is_leaf": "bool",
    "requires_grad": "bool", "grad_fn": "Any", "grad": "Tensor | Any", "_version": "int",
    "_base": "Tensor | None", "data": "Tensor", "_shape": "tuple[int, ...]", "_dtype": "DType",
    "_grad": "Tensor | Any", "_storage": "Storage | Any", "T": "Tensor", "mT": "Tensor", "H": "Tensor", "mH": "Tensor",
    "real": "Tensor", "imag": "Tensor", "nbytes": "int", "itemsize": "int",
}  # fmt: skip
PLAIN_RETURNS = {
    "__len__": "int", "__bool__": "bool", "__float__": "float", "__int__": "int",
    "__complex__": "complex", "__index__": "int", "__repr__": "str", "__format__": "str",
    "__hash__": "int", "__iter__": "Iterator[Tensor]", "__contains__": "bool", "__array__": "Any",
    "__deepcopy__": "Tensor", "__reduce_ex__": "tuple[Any, ...]", "__dlpack__": "Any",
    "__dlpack_device__": "tuple[int, int]", "__setitem__": "None", "__init__": "None",
    "__cinit__": "None", "__dealloc__": "None", "__getitem__": "Tensor",
    "_forget_accumulator": "None",
}  # fmt: skip


# -- annotations ---------------------------------------------------------------------------------------------------


class Names(ast.NodeTransformer):
    """Rewrites an annotation in terms of known names; what is not known becomes Any."""

    def __init__(self, used: set[str], local: set[str], prefix: str) -> None:
        self.used, self.local, self.prefix = used, local, prefix

    def visit_Name(self, node: ast.Name) -> ast.expr:  # noqa: N802
        name = SAME.get(node.id, node.id)
        if name in self.local or name == "None":
            return ast.Name(name)
        if name in BUILTINS:
            return ast.Name(self.prefix + name)
        name = name if name in KNOWN else "Any"
        self.used.add(name)
        return ast.Name(name)

    def visit_Attribute(self, node: ast.Attribute) -> ast.expr:  # noqa: N802
        plain = (
            C_TYPES.get(node.attr)
            if isinstance(node.value, ast.Name) and node.value.id == "cython"
            else None
        )
        self.used.add("Any")
        return ast.parse(plain or "Any", mode="eval").body

    def visit_Call(self, node: ast.Call) -> ast.expr:  # noqa: N802
        self.used.add("Any")
        return ast.Name("Any")

    def visit_Constant(self, node: ast.Constant) -> ast.expr:  # noqa: N802
        if isinstance(node.value, str):
            return self.visit(ast.parse(node.value, mode="eval").body)
        return node


class Writer:
    """Collects the lines of one stub and the names that its annotations use."""

    def __init__(self, local: set[str], prefix: str = "") -> None:
        self.lines: list[str] = []
        self.used: set[str] = {"Any"}
        self.local = local
        self.prefix = prefix

    def annotation(self, text: str | None, default: str = "Any") -> str:
        """An annotation by its source text."""
        if not text:
            text = default
        text = (
            C_TYPES.get(text, text) if text in ("tuple", "list", "dict", "set", "object") else text
        )
        tree = ast.parse(text, mode="eval").body
        written = ast.unparse(Names(self.used, self.local, self.prefix).visit(tree))
        return (
            re.sub(r"\bAny( \| \w+)+\b", "Any", written) if written.startswith("Any |") else written
        )

    def text(self, extra: str = "") -> str:
        """The stub."""
        by_module: dict[str, list[str]] = {}
        for name in sorted(self.used - self.local):
            by_module.setdefault(KNOWN[name], []).append(name)
        imports = [
            f"from {module} import {', '.join(names)}"
            for module, names in sorted(by_module.items())
        ]
        return HEADER + "\n".join([*imports, extra, *self.lines]).rstrip() + "\n"


# -- stubs of compiled modules, from their sources -----------------------------------------------------------------


def declared_attributes(path: Path) -> dict[str, dict[str, str]]:
    """Per class of a .pxd, the attributes that Python sees, with their types."""
    found: dict[str, dict[str, str]] = {}
    if not path.exists():
        return found
    members: dict[str, str] = {}
    for line in path.read_text().splitlines():
        start = re.match(r"cdef class (\w+)", line)
        if start:
            members = found.setdefault(start[1], {})
        field = re.match(r"\s+cdef (?:public|readonly) (.+?) (\w+)$", line)
        if field:
            plain = C_TYPES.get(
                field[1], "Any"
            )  # an attribute of a class or container type may be None
            members[field[2]] = plain if plain in BUILTINS else "Any"
    return found


def is_private_to_c(function: ast.FunctionDef) -> bool:
    return any("cfunc" in ast.unparse(decorator) for decorator in function.decorator_list)


def parameters_of(writer: Writer, function: ast.FunctionDef) -> str:
    """A parameter list, annotated throughout."""
    arguments = function.args
    first = arguments.args[0].arg if arguments.args else ""
    for argument in (
        *arguments.posonlyargs,
        *arguments.args,
        *arguments.kwonlyargs,
        arguments.vararg,
        arguments.kwarg,
    ):
        if argument is None:
            continue
        if argument.arg == first and first in ("self", "cls") and argument.annotation is None:
            continue
        text = None if argument.annotation is None else ast.unparse(argument.annotation)
        argument.annotation = ast.parse(writer.annotation(text), mode="eval").body
    for values in (arguments.defaults, arguments.kw_defaults):
        values[:] = [value and ast.Constant(...) for value in values]
    return ast.unparse(arguments)


def write_function(
    writer: Writer, function: ast.FunctionDef, indent: str, returns: str = "Any"
) -> None:
    """One function or method of a compiled module."""
    text = ast.unparse(function.returns) if function.returns is not None else None
    kind = [
        ast.unparse(d)
        for d in function.decorator_list
        if ast.unparse(d) in ("property", "staticmethod")
        or ast.unparse(d).endswith((".setter", ".deleter"))
    ]
    writer.lines += [f"{indent}@{name}" for name in kind]
    result = (
        "None"
        if any(name.endswith((".setter", ".deleter")) for name in kind)
        else writer.annotation(text, returns)
    )
    writer.lines.append(
        f"{indent}def {function.name}({parameters_of(writer, function)}) -> {result}: ..."
    )


def class_fields(node: ast.ClassDef) -> Iterator[tuple[str, str]]:
    """Attributes declared in a class body with `visibility=`."""
    for part in node.body:
        if isinstance(part, ast.Assign) and "visibility" in ast.unparse(part.value):
            assert isinstance(part.value, ast.Call)
            kind = ast.unparse(part.value.args[0]).removeprefix("cython.")
            yield ast.unparse(part.targets[0]), C_TYPES.get(kind, kind)


def write_class(writer: Writer, node: ast.ClassDef, fields: dict[str, str]) -> None:
    """One class of a compiled module."""
    bases = [ast.unparse(base) for base in node.bases]
    bases = [base + "[Any, ...]" if base == "tuple" else base for base in bases]
    writer.lines += [
        "",
        f"class {node.name}({', '.join(bases)}):" if bases else f"class {node.name}:",
    ]
    before = len(writer.lines)
    for name, kind in {**fields, **dict(class_fields(node))}.items():
        writer.lines.append(f"    {name}: {writer.annotation(kind)}")
    for part in node.body:
        if (
            isinstance(part, ast.FunctionDef)
            and not is_private_to_c(part)
            and part.name != "__dealloc__"
        ):
            if part.name == "__cinit__":
                if any(
                    isinstance(other, ast.FunctionDef) and other.name == "__init__"
                    for other in node.body
                ):
                    continue
                part.name = "__init__"
            write_function(writer, part, "    ", "None" if part.name == "__init__" else "Any")
    if len(writer.lines) == before:
        writer.lines.append("    ...")


def local_names(tree: ast.Module) -> set[str]:
    """The classes that annotations of a module may name. What is a buffer and no Tensor stays Any: what takes one
    (NumPy) does not say so in a way that type checkers of Python 3.11 know."""
    classes = [part for part in tree.body if isinstance(part, ast.ClassDef)]
    return {
        part.name
        for part in classes
        if part.name == "Tensor" or "__getbuffer__" not in ast.unparse(part)
    }


def compiled_stub(path: Path, prefix: str = "", write_tensor: Any = None) -> str:
    """The stub of one compiled module; `write_tensor` writes the class Tensor where it is there."""
    tree = ast.parse(path.read_text())
    writer = Writer(local_names(tree), prefix)
    fields = declared_attributes(path.with_suffix(".pxd"))
    for part in tree.body:
        if isinstance(part, ast.FunctionDef) and not is_private_to_c(part):
            write_function(writer, part, "")
        elif isinstance(part, ast.ClassDef) and part.name == "Tensor" and write_tensor is not None:
            write_tensor(writer, part, fields["Tensor"])
        elif isinstance(part, ast.ClassDef):
            write_class(writer, part, fields.get(part.name, {}))
        elif isinstance(part, ast.Assign) and "cython.declare" not in ast.unparse(part.value):
            names = [name for target in part.targets for name in ast.walk(target)]
            writer.lines += [
                f"{name.id}: Any"
                for name in names
                if isinstance(name, ast.Name) and isinstance(name.ctx, ast.Store)
            ]
        elif isinstance(part, ast.AnnAssign) and not ast.unparse(part.annotation).startswith(
            "cython."
        ):
            writer.lines.append(
                f"{ast.unparse(part.target)}: {writer.annotation(ast.unparse(part.annotation))}"
            )
    return writer.text("import builtins\n" if prefix else "")


# -- Tensor and weft itself, from what is installed ----------------------------------------------------------------


def signature_text(writer: Writer, function: Any, method: bool, returns: str) -> str:
    """`(self, dim: int = ...) -> Tensor` of an installed function; `returns` where it is not annotated."""
    place = getattr(
        function, "place", None
    )  # a method that stands in for a function until it is called
    function = getattr(import_module(place[0]), place[1]) if place else function
    signature = inspect.signature(function)
    parameters = list(signature.parameters.values())
    if function.__name__.endswith("_"):  # in place: of the function that it is the variant of
        parameters = [parameter for parameter in parameters if parameter.name != "out"]
    parts = ["self"] if method else []
    for parameter in parameters[1:] if method else parameters:
        if parameter.kind is parameter.KEYWORD_ONLY and not any(
            part.startswith("*") for part in parts
        ):
            parts.append("*")
        star = {parameter.VAR_POSITIONAL: "*", parameter.VAR_KEYWORD: "**"}.get(parameter.kind, "")
        text = parameter.annotation if isinstance(parameter.annotation, str) else None
        default = "" if parameter.default is parameter.empty else " = ..."
        parts.append(f"{star}{parameter.name}: {writer.annotation(text)}{default}")
    text = signature.return_annotation
    known = isinstance(text, str) and text != "Any"
    return f"({', '.join(parts)}) -> {writer.annotation(text if known else returns)}"


def return_of(name: str, function: Any) -> str:
    """What a function that is annotated with Any gives: in the layers of mathematics a tensor, mostly."""
    mathematics = (
        import_module("weft.engine.api.api_function")
        .defined_in(function)
        .startswith(("weft.functional", "weft.random"))
    )
    return (
        "Tensor"
        if mathematics and name not in NOT_TENSORS and not name.startswith("is_")
        else "Any"
    )


def is_installed(member: Any) -> bool:
    """Whether a member is a function or property, compiled or not (and no slot or field of the compiled class)."""
    return isinstance(member, (property, staticmethod, classmethod)) or hasattr(member, "__code__")


def write_installed(writer: Writer, name: str, member: Any) -> None:
    """One member of Tensor that a layer above installs."""
    if isinstance(member, property):
        text = TENSOR_PROPERTIES.get(name, "bool" if name.startswith("is_") else "Any")
        writer.lines += ["    @property", f"    def {name}(self) -> {writer.annotation(text)}: ..."]
    elif isinstance(member, staticmethod):
        text = signature_text(writer, member.__func__, False, "Any")
        writer.lines += ["    @staticmethod", f"    def {name}{text}: ..."]
    elif isinstance(member, classmethod):
        text = signature_text(writer, member.__func__, False, return_of(name, member.__func__))
        writer.lines += ["    @classmethod", f"    def {name}{text}: ..."]
    else:
        writer.lines.append(
            f"    def {name}{signature_text(writer, member, True, return_of(name, member))}: ..."
        )


def write_own(writer: Writer, function: ast.FunctionDef, settable: set[str]) -> None:
    """One member that the compiled class itself defines."""
    name = function.name
    if name == "__getbuffer__":  # what Python calls it
        writer.lines.append("    def __buffer__(self, flags: int, /) -> memoryview: ...")
        return
    if function.decorator_list:
        kind = writer.annotation(TENSOR_PROPERTIES.get(name, "Any"))
        field = [f"    {name}: {kind}"]
        writer.lines += (
            field if name in settable else ["    @property", f"    def {name}(self) -> {kind}: ..."]
        )
        return
    function.args.args = [argument for argument in function.args.args if argument.arg != "modulo"]
    ignore = "  # type: ignore[override]" if name in ("__eq__", "__ne__") else ""
    returns = writer.annotation(PLAIN_RETURNS.get(name, "Tensor"))
    writer.lines.append(
        f"    def {name}({parameters_of(writer, function)}) -> {returns}: ...{ignore}"
    )


def tensor_stub(cls: type, source: Path) -> str:
    """The stub of `weft.engine.frontend.tensor`, of its source: and on Tensor everything that is installed."""

    def write_tensor(writer: Writer, node: ast.ClassDef, fields: dict[str, str]) -> None:
        writer.lines += ["", "class Tensor:"]
        for name, kind in fields.items():
            annotation = writer.annotation(TENSOR_PROPERTIES.get(name, kind))
            writer.lines.append(f"    {name}: {annotation}")
        members = [part for part in node.body if isinstance(part, ast.FunctionDef)]
        accessors = {
            part.name
            for part in members
            if any(ast.unparse(decorator).endswith("setter") for decorator in part.decorator_list)
        }
        own: dict[str, ast.FunctionDef] = {}
        for part in members:
            own.setdefault(part.name, part)
        for name, function in own.items():
            if name not in ("__cinit__", "__dealloc__"):
                write_own(writer, function, accessors)
        for name, member in sorted(vars(cls).items()):
            if name not in own and name not in ("__dict__", "__new__") and is_installed(member):
                write_installed(writer, name, member)

    return compiled_stub(source, "builtins.", write_tensor)


def place_of(module: ModuleType) -> str:
    """The package in which a type checker finds a module at the top: paths that grow at run time are unknown to it."""
    file = Path(module.__file__ or "")
    folder = file.parent.parent if file.name == "__init__.py" else file.parent
    return "weft.compat.torch" if folder.name == "torch" else "weft"


def package_stub(weft: ModuleType) -> str:
    """The stub of `weft` itself: what it exports, with signatures."""
    writer = Writer(set(), "builtins.")
    modules, classes = [], []
    for name in sorted(dir(weft)):
        value = getattr(weft, name)
        if (
            (name.startswith("_") and name != "__version__")
            or value is Any
            or name == "annotations"
        ):
            continue
        if isinstance(value, ModuleType):
            if value.__name__.startswith("weft."):
                modules.append(f"from {place_of(value)} import {name} as {name}")
        elif isinstance(value, type) and f"{value.__module__}.".startswith("weft."):
            classes.append(export_class(name, value))
        elif callable(value) and hasattr(value, "__code__"):
            writer.lines.append(
                f"def {name}{signature_text(writer, value, False, return_of(name, value))}: ..."
            )
        else:
            writer.lines.append(f"{name}: {constant_type(writer, value)}")
    writer.used -= {line.split(" as ")[-1] for line in classes}
    return writer.text("\n".join(["import builtins", *modules, *classes, ""]))


def exports_stub(package: ModuleType) -> str:
    """The stub of a package that imports what it exports when it is first asked for."""
    exports, base = package._EXPORTS, package.__name__
    places = {
        name: f"{base}.{exports[name]}" if name in exports else base for name in package.__all__
    }
    return HEADER + "".join(
        f"from {place} import {name} as {name}\n" for name, place in sorted(places.items())
    )


def export_class(name: str, cls: type) -> str:
    """A class under its public name; under another name it is not exported by the import alone."""
    # Tensor says that it is of `weft` itself.
    place = KNOWN.get(cls.__name__, cls.__module__)
    place = place_of(sys.modules[place]) + place.removeprefix("weft")
    if name == cls.__name__:
        return f"from {place} import {name} as {name}"
    return f"from {place} import {cls.__name__} as _{cls.__name__}\n{name} = _{cls.__name__}"


def constant_type(writer: Writer, value: Any) -> str:
    """The type of an exported constant."""
    name = type(value).__name__
    if name in BUILTINS:
        return "builtins." + name
    writer.used.add(name if name in KNOWN else "Any")
    return name if name in KNOWN else "Any"


# -- the command ---------------------------------------------------------------------------------------------------

STUBS = tuple(
    f"weft/{name}.pyi"
    for name in (
        "__init__", "autograd/__init__", "engine/frontend/tensor", "tensor/modes", "tensor/scalars", "tensor/size",
    )
)  # fmt: skip


def write_stubs(folder: Path) -> None:
    """Write the stubs of the package that lies in a folder, and is imported from there."""
    import weft

    package, autograd, tensor, *compiled = (folder / name for name in STUBS)
    package.write_text(package_stub(weft))
    autograd.write_text(exports_stub(weft.autograd))
    tensor.write_text(tensor_stub(weft.Tensor, tensor.with_suffix(".py")))
    for path in compiled:
        path.write_text(compiled_stub(path.with_suffix(".py")))


def main() -> None:
    parser = argparse.ArgumentParser(description=(__doc__ or "").partition("\n")[0])
    parser.add_argument("--package", type=Path, default=SOURCES, help="the folder that weft is in")
    folder = parser.parse_args().package.resolve()
    sys.path.insert(0, str(folder))
    write_stubs(folder)


if __name__ == "__main__":
    main()
