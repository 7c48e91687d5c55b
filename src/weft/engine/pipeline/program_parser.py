"""The parser of printed programs: `program_text.text(parse(lines)) == lines`.

It reads what `program_text` prints and returns a Program whose values from outside exist, filled with zeros, so that
any pass can go on from it, and the program can run. It lacks what the text does not contain: gradient edges, call
sites, positions on a tape.
"""

from __future__ import annotations

import ctypes
import math
import re
from types import SimpleNamespace
from typing import TYPE_CHECKING, Any

from weft.engine.devices.api import default_device
from weft.engine.frontend.node_factory import make_node, make_scalar, make_value
from weft.engine.ir import dtype as dtypes
from weft.engine.ir.batch import make_batch
from weft.engine.ir.primitive import ELEMENTWISE, INDEX, REDUCE, SCATTER, SOURCE
from weft.engine.ir.strides import contiguous_strides
from weft.engine.ir.tape import finish
from weft.engine.pipeline.fusion.def_use import mark_uses
from weft.engine.pipeline.program_ir import Kernel, Program
from weft.engine.pipeline.program_text import WITHOUT_MEMREFS, dtype_of_numbers
from weft.errors import ArgumentError
from weft.ops.registry import OPS

if TYPE_CHECKING:
    from weft.engine.ir.dtype import DType
    from weft.engine.ir.node import Node
    from weft.engine.ir.primitive import Primitive

_KIND = r"(?P<dtype>\w+)\[(?P<shape>[^\]]*)\]"
_MARKS = r"(?P<live> live)?(?P<kept> kept)?(?P<risky> may fail)?(?P<twin> twin)?(?: again ?(?P<again>%\d+)?)?"
_OUTSIDE = re.compile(
    rf"(?P<name>\$\d+) = value {_KIND}(?: strides (?P<strides>\(.*\)))?(?P<live> live)?"
)
_ROW = re.compile(
    rf"(?P<name>%\d+) = row (?P<row>\d+)(?: along (?P<axis>\d+))? of (?P<of>%\d+) : {_KIND}{_MARKS}"
)
_NODE = re.compile(rf"(?P<name>%\d+) = (?P<op>\w+)\((?P<rest>.*) : {_KIND}{_MARKS}")
_KERNEL = re.compile(
    r"k(?P<position>\d+) \[(?P<shape>[^\]]*)\](?: reduce\[(?P<axes>[^\]]*)\])?(?P<rows> rows)?: "
    r"(?P<nodes>.*?) ->(?P<stores>.*)"
)
_NUMBER = re.compile(r"(\w+)\((.*)\)")
_WORDS = {
    "__builtins__": {},
    "nan": math.nan,
    "inf": math.inf,
    "nanj": complex(0, math.nan),
    "infj": complex(0, math.inf),
    "weft": SimpleNamespace(**{dtype.name: dtype for dtype in dtypes.ALL}),
}


def parse(text: str) -> Program:
    """The program that a text describes. Errors: ValueError for a line that cannot be read."""
    return _Parser(text).program


def parse_nodes(text: str) -> list[Any]:
    """The nodes that a text has lines for, pending and of no program."""
    parser = _Parser(text)
    return [node for name, node in parser.named.items() if name.startswith("%")]


class _Parser:
    """Reads lines in order; a name stands for the node of its line."""

    def __init__(self, text: str) -> None:
        lines = [line.strip() for line in text.strip().splitlines()]
        self.program = Program()
        self.with_memrefs = lines[:1] != [WITHOUT_MEMREFS]
        self.named: dict[str, Any] = {}
        self.numbers: dict[str, Any] = {}
        self.views: dict[tuple[Any, str], Any] = {}
        self.again: list[tuple[str, Any]] = []
        self.positions: list[int] = []
        for line in lines[0 if self.with_memrefs else 1 :]:
            self.line(line)
        self.finish()

    def line(self, line: str) -> None:
        for form, read in (
            (_OUTSIDE, self.outside),
            (_ROW, self.row),
            (_NODE, self.node),
            (_KERNEL, self.kernel),
        ):
            match = form.fullmatch(line)
            if match is not None:
                read(match)
                return
        raise _misread(line)

    def outside(self, match: re.Match[str]) -> None:
        dtype, shape = _kind(match)
        strides = None if match["strides"] is None else _literal(match["strides"])
        node = make_value(dtype, shape, _zeros(dtype, shape, strides), 0)
        node.strides = strides
        node.external_refs = 1 if match["live"] else 0
        self.named[match["name"]] = node
        self.add_outside(node)
        if self.with_memrefs and match["live"]:
            self.program.viewed.add(node)

    def add_outside(self, node: Node) -> None:
        if self.with_memrefs:
            memref = self.program.new_value(node, node.strides or contiguous_strides(node.shape))
            self.program.add_external(memref.value)
        else:
            self.program.number(node)

    def row(self, match: re.Match[str]) -> None:
        quotient = self.named[match["of"]]
        node = self.new_node(match, OPS["view"], (quotient,), None)
        axis = int(match["axis"] or 0)
        node.quotient, node.qrow = quotient, int(match["row"])
        quotient.info = make_batch((), quotient.shape[axis], axis)
        self.program.number(node)

    def node(self, match: re.Match[str]) -> None:
        words, params = _split(match["rest"])
        op = OPS.get(match["op"])
        if op is None or (op.kind in (INDEX, SCATTER) and len(words) < 2):
            raise _misread(match[0])
        dtype, _ = _kind(match)
        named = [self.named.get(word.partition("[")[0]) for word in words]
        expected = dtype_of_numbers(named, dtype)
        operands = [self.operand(word, expected) for word in words]
        node = self.new_node(match, op, tuple(operands), params)
        program = self.program
        program.order.append(node)
        if not self.with_memrefs:
            program.number(node)
            return
        program.new_value(node, contiguous_strides(node.shape))
        if match["live"] or match["kept"]:
            program.keep(node)

    def new_node(
        self, match: re.Match[str], op: Primitive, operands: tuple[Node, ...], params: object
    ) -> Any:
        dtype, shape = _kind(match)
        node = make_node(op, operands, params, shape, dtype)
        finish(node)
        node.may_fail = match["risky"] is not None
        node.batch_seen = True
        if match["live"]:
            node.external_refs = 1
            self.program.roots.append(node)
        if match["twin"]:
            self.program.clones = {*(self.program.clones or ()), node}
        if match["again"]:
            self.again.append((match["again"], node))
        self.named[match["name"]] = node
        return node

    def operand(self, word: str, dtype: DType) -> Any:
        """The node that an operand names, or the view of it that it describes; a number has a dtype."""
        name, bracket, rest = word.partition("[")
        root = self.named.get(name) or self.number(name, dtype)
        if not bracket:
            return root
        if (root, rest) not in self.views:
            offset, shape, strides = map(_items, rest[:-1].split(";"))
            view = make_node(OPS["strided"], (root,), (offset[0], strides), shape, root.dtype)
            finish(view)
            self.program.set_memref(view, self.program.memref(root).within(*offset, strides, shape))
            self.views[root, rest] = view
        return self.views[root, rest]

    def number(self, word: str, dtype: DType) -> Any:
        given = _NUMBER.fullmatch(word)
        if given is not None:
            dtype, word = dtypes.by_name(given[1]), given[2]
        key = f"{dtype.name}({word})"
        if key not in self.numbers:
            self.numbers[key] = make_scalar(_literal(word), dtype)
            self.add_outside(self.numbers[key])
        return self.numbers[key]

    def kernel(self, match: re.Match[str]) -> None:
        nodes = [self.named[name] for name in match["nodes"].split()]
        kind = nodes[0].op.kind
        kernel = Kernel(ELEMENTWISE if kind in (REDUCE, SOURCE) else kind, _items(match["shape"]))
        kernel.nodes = nodes
        kernel.is_row_kernel = match["rows"] is not None
        if match["axes"] is not None:
            kernel.axes = _items(match["axes"])
            over = [n for n in nodes if n.op.kind == REDUCE and n.params[0] == kernel.axes]
            kernel.reduced_shape = over[0].shape
            small = [n for n in nodes if n.op.kind != REDUCE and n.shape != kernel.shape]
            kernel.extra = set(small) or None
        self.program.add_kernel(kernel)
        self.positions.append(int(match["position"]))

    def finish(self) -> None:
        program = self.program
        if not self.with_memrefs:
            return
        program.connect_all()
        for name, node in self.again:
            again = program.remat_of = program.remat_of or {}
            again[self.named[name]] = program.memref(node)
        mark_uses(program)
        for kernel, position in zip(program.kernels, self.positions, strict=True):
            kernel.position = position


def _misread(line: str) -> ArgumentError:
    return ArgumentError(
        "not a line of a program",
        expected="a line as in weft.engine.pipeline.program_text, of an operation of weft.ops.TABLE",
        got=line,
        fix="compare with what the passes print",
    )


def _kind(match: re.Match[str]) -> tuple[Any, tuple[int, ...]]:
    return dtypes.by_name(match["dtype"]), _items(match["shape"])


def _literal(text: str) -> Any:
    """A number, a dtype, or tuples of them."""
    return eval(text, _WORDS)


def _items(text: str) -> tuple[Any, ...]:
    """The values of a comma-separated list."""
    return _literal(f"({text},)") if text.strip() else ()


def _split(rest: str) -> tuple[list[str], Any]:
    """Operands up to the bracket that ends them, and the params behind it."""
    depth, start, words = 0, 0, []
    for index, letter in enumerate(rest):
        depth += (letter in "([") - (letter in ")]")
        if depth < 0 or (depth == 0 and letter == ","):
            words.append(rest[start:index].strip())
            start = index + 1
        if depth < 0:
            break
    params = rest[start:].strip()
    return [word for word in words if word], _literal(params) if params else None


def _zeros(dtype: DType, shape: tuple[int, ...], strides: tuple[int, ...] | None) -> Any:
    """Memory for a value from outside."""
    steps = strides or contiguous_strides(shape)
    last = sum((size - 1) * abs(step) for size, step in zip(shape, steps, strict=True))
    nbytes = 0 if 0 in shape else (last + 1) * dtype.itemsize
    buffer = default_device().memory.allocate(nbytes)
    ctypes.memset(buffer.address, 0, nbytes)
    return buffer
