"""Python code for single nodes: a line each, and the names that the lines need.

It takes nodes, whose `repr` is the name of a variable, and the variables that nothing reads after them: those are set
to None, so that a value lives no longer than it is needed. `code_generation` writes the function around the lines.
"""

from __future__ import annotations

import enum
import math
from collections.abc import Iterable
from dataclasses import dataclass, field
from typing import Any

import weft
from weft.errors import rooted
from weft.utils import _pytree

from .. import _pytree as fx_pytree
from ..node import Node, _type_repr
from .names import BUILT_IN, Namespace, is_of_library, qualified_name

_INFIX = {
    "eq": "==", "ne": "!=", "lt": "<", "gt": ">", "le": "<=", "ge": ">=", "add": "+", "sub": "-", "mul": "*",
    "floordiv": "//", "truediv": "/", "mod": "%", "pow": "**", "lshift": "<<", "rshift": ">>", "and_": "&",
    "or_": "|", "xor": "^", "matmul": "@",
}  # fmt: skip
_COMPARISONS = ("eq", "ne", "lt", "gt", "le", "ge")
_infix = {name: f"{{}} {sign} {{}}" for name, sign in _INFIX.items()}
reflectable_magic_methods: dict[str, str] = {
    **{name: text for name, text in _infix.items() if name not in _COMPARISONS},
    "getitem": "{}[{}]",
}
magic_methods: dict[str, str] = {
    **_infix, "getitem": "{}[{}]",
    "pos": "+{}", "neg": "-{}", "invert": "~{}",
}  # fmt: skip
inplace_methods = {
    "iadd": "{} += {}", "iand": "{} &= {}", "ifloordiv": "{} //= {}", "ilshift": "{} <<= {}", "imod": "{} %= {}",
    "imul": "{} *= {}", "imatmul": "{} @= {}", "ior": "{} |= {}", "ipow": "{} **= {}", "irshift": "{} >>= {}",
    "isub": "{} -= {}", "itruediv": "{} /= {}", "ixor": "{} ^= {}", "setitem": "{}[{}] = {}",
}  # fmt: skip


def built_in_names() -> dict[str, Any]:
    """The names that generated code knows by itself, with their values."""
    values = (math.inf, math.nan, type(None), weft, weft, weft.device, fx_pytree, _pytree)
    return dict(zip(BUILT_IN, values, strict=True))


def format_target(base: str, target: str) -> str:
    """The reading of a path of attributes: `self.layers`, `getattr(self.layers, "0")`."""
    for name in target.split("."):
        base = f"{base}.{name}" if name.isidentifier() else f'getattr({base}, "{name}")'
    return base


@dataclass
class _Globals:
    """The names of functions and types that the code uses."""

    namespace: Namespace
    found: dict[str, Any] = field(default_factory=built_in_names)

    def __post_init__(self) -> None:
        self.namespace._used_names.update(self.found)

    def name_of(self, hint: str, value: object) -> str:
        """The name of a value in the code: its dotted name if it is Weft's, else a name of its own."""
        if is_of_library(value) and value is not weft.device and _leads_to(hint, value):
            return rooted(hint)
        wanted = hint.replace(".", "_")
        if self.found.get(wanted, self) is value:
            return wanted
        name = self.namespace.create_name(wanted, value)
        self.found[name] = value
        return name


def _leads_to(path: str, value: object) -> bool:
    """True if a dotted name, read from the package, is this value."""
    found: Any = weft
    for name in path.split(".")[1:]:
        found = getattr(found, name, None)
    return found is value


class NodeWriter:
    """Writes the lines of a function, node by node."""

    def __init__(self, root: str, namespace: Namespace, verbose: bool) -> None:
        self.root, self.verbose, self.names = root, verbose, _Globals(namespace)
        self.parameters: list[str] = []
        self.wrapped: dict[str, None] = {}
        self.lines: list[str] = []
        self.result: Any = None
        self.returns = ""
        self._trace: str | None = ""

    def write(self, node: Node, unused: list[Node]) -> str:
        """The lines of a node; `unused` are variables that nothing reads from here on."""
        if self.verbose:
            self.write_origin(node)
        text: str | None = getattr(self, node.op)(node)
        if text is None:
            return ""
        forgotten = "".join(f"{name} = " for name in map(repr, unused))
        return f"{text};  {forgotten}None\n" if forgotten else f"{text}\n"

    def write_origin(self, node: Node) -> None:
        """A comment with the user's line, where it is another than that of the node before."""
        if node.op in ("placeholder", "output") or node.stack_trace == self._trace:
            return
        self._trace = node.stack_trace
        self.lines.append(f"{_origin(node.stack_trace)}\n")

    def text(self, value: object) -> str:
        """A constant, a node, or a structure of them, as code."""
        if isinstance(value, tuple):
            parts = ", ".join(map(self.text, value))
            if hasattr(value, "_fields"):
                return f"{self.names.name_of(_type_repr(type(value)), type(value))}({parts})"
            return f"({parts}{',' if len(value) == 1 else ''})"
        if isinstance(value, list):
            return f"[{', '.join(map(self.text, value))}]"
        if isinstance(value, dict):
            return (
                "{" + ", ".join(f"{key!r}: {self.text(item)}" for key, item in value.items()) + "}"
            )
        if isinstance(value, slice):
            return (
                f"slice({self.text(value.start)}, {self.text(value.stop)}, {self.text(value.step)})"
            )
        if isinstance(value, enum.Enum):
            return f"{self.names.name_of(_type_repr(type(value)), type(value))}.{value.name}"
        if callable(value) and hasattr(value, "__name__") and not isinstance(value, Node):
            return self.names.name_of(qualified_name(value), value)
        return rooted(repr(value)) if isinstance(value, _WRITTEN_BY_NAME) else repr(value)

    def arguments(self, args: Iterable[object], kwargs: dict[str, object]) -> str:
        named = (f"{key} = {self.text(value)}" for key, value in kwargs.items())
        return ", ".join([*map(self.text, args), *named])

    def annotation(self, node: Node) -> str:
        return "" if node.type is None else f" : {self.type_text(node.type)}"

    def type_text(self, kind: object) -> str:
        """A type as an annotation; its names become names of the code."""
        if kind == ():
            return "()"
        name = _type_repr(kind)
        origin = getattr(kind, "__origin__", None)
        if origin is None:
            return self.names.name_of(name, kind)
        if type(origin) is not type(kind) and hasattr(kind, "__args__"):
            parts = [self.type_text(part) for part in kind.__args__ if part is not ...]
            parts += ["..."] * (... in kind.__args__)
            return f"{self.names.name_of(_type_repr(origin), origin)}[{', '.join(parts)}]"
        return self.names.name_of(name.replace("[", "_").replace("]", "_"), kind)

    # -- one method per kind of node --------------------------------------------------------------

    def placeholder(self, node: Node) -> str | None:
        default = f" = {self.text(node.args[0])}" if node.args else ""
        self.parameters.append(f"{node.target}{self.annotation(node)}{default}")
        raw = node.target.replace("*", "")
        return None if raw == repr(node) else f"{node!r} = {raw}"

    def get_attr(self, node: Node) -> str:
        return f"{node!r}{self.annotation(node)} = {format_target(self.root, node.target)}"

    def call_method(self, node: Node) -> str:
        method = format_target(self.text(node.args[0]), node.target)
        return f"{node!r}{self.annotation(node)} = {method}({self.arguments(node.args[1:], node.kwargs)})"

    def call_module(self, node: Node) -> str:
        module = format_target(self.root, node.target)
        return (
            f"{node!r}{self.annotation(node)} = {module}({self.arguments(node.args, node.kwargs)})"
        )

    def call_function(self, node: Node) -> str:
        left = f"{node!r}{self.annotation(node)} = "
        if getattr(node.target, "__module__", None) == "_operator" and not node.kwargs:
            name, operands = node.target.__name__, list(map(self.text, node.args))
            if name == "pow" and operands[0].startswith("-"):
                operands[0] = f"({operands[0]})"  # the sign is taken last
            if _takes(magic_methods, name, operands):
                return left + magic_methods[name].format(*operands)
            if _takes(inplace_methods, name, operands):
                return f"{inplace_methods[name].format(*operands)};  {left}{operands[0]}"
        if node.target is getattr and _is_plain_getattr(node):
            return left + format_target(self.text(node.args[0]), node.args[1])
        name = self.names.name_of(qualified_name(node.target), node.target)
        if node.meta.get("is_wrapped"):
            self.wrapped.setdefault(name)
        return f"{left}{name}({self.arguments(node.args, node.kwargs)})"

    def output(self, node: Node) -> str | None:
        if node.type is not None:
            self.returns = f" -> {self.type_text(node.type)}"
        self.result = node.args[0]
        return None


def _takes(table: dict[str, str], name: str, operands: list[str]) -> bool:
    return name in table and table[name].count("{}") == len(operands)


_WRITTEN_BY_NAME = (weft.dtype, weft.memory_format, weft.layout, weft.Size)


def _is_plain_getattr(node: Node) -> bool:
    args = node.args
    return len(args) == 2 and isinstance(args[0], Node) and str(args[1]).isidentifier()


def _origin(trace: str | None) -> str:
    """A comment that says where the user's program did something, from the text of a traceback."""
    lines = (trace or "").strip().split("\n")
    if not lines[0] or len(lines) < 2:
        return "# No stacktrace found for following nodes"
    head, code = lines[-2].strip(), lines[-1].strip()
    place, _, name = head.removeprefix("File ").rpartition(", in ")
    file, _, line = place.partition(", line ")
    return f"# File: {file.strip(chr(34))}:{line} in {name}, code: {code}"


def last_uses(nodes: Iterable[Node]) -> dict[Node, list[Node]]:
    """For each node the inputs that no later one uses."""
    seen: set[Node] = set()
    uses: dict[Node, list[Node]] = {}
    for user in reversed(list(nodes)):
        for used in user.all_input_nodes:
            if used not in seen:
                seen.add(used)
                uses.setdefault(user, []).append(used)
    return uses
