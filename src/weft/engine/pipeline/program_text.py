"""The printer of programs: a program as text, which `program_parser` reads back.

A value from outside stands at the top as `$0`, a computed one where it is computed, as `%0`, with its operands, its
params, its dtype and shape, and its properties: `live` (it is referenced from outside), `kept` (a view of it is), `may
fail` (an index is to be checked), `twin` (a clone, computed again so that less is stored; `again %0` names the
original).

    $0 = value float32[4, 3]
    %0 = exp($0) : float32[4, 3]
    %1 = sum(%0[0; 3, 4; 1, 3]) ((1,), False) : float32[3] live
    k0 [4, 3]: %0 -> %0
    k1 [3, 4] reduce[1]: %1 -> %1

An operand that is not a whole value is a region of it: offset; shape; strides, in elements. Where a stride is a tuple,
the axis has several dimensions (size, stride). A number is printed as itself, with its dtype if that differs from the
last other operand's: `int64(2)`. Before `fold_views` no value has a memory reference: then the text begins with a line
that says so, views stand in it as nodes, and a row of a batch as `%2 = row 1 of %0`. Kernels follow the nodes once
they are formed.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import TYPE_CHECKING, Any

from weft.engine.ir.node import PENDING_STATE as PENDING
from weft.engine.ir.primitive import SCALAR_OP
from weft.engine.ir.strides import contiguous_strides
from weft.engine.pipeline.program_ir import Program

if TYPE_CHECKING:
    from weft.engine.ir.dtype import DType
    from weft.engine.ir.node import Node
    from weft.engine.pipeline.program_ir import Kernel, MemRef

WITHOUT_MEMREFS = "views not folded"


# -- printing ----------------------------------------------------------------------------------------------------------


def text(program: Program) -> str:
    """One line per value from outside, one per node in order, one per kernel."""
    return "\n".join(_Printer(program).lines())


class _Printer:
    """The names of a program's values."""

    def __init__(self, program: Program) -> None:
        self.program = program
        self.with_memrefs = not program.memrefs or program.memrefs[-1] is not None
        outside = program.external if self.with_memrefs else program.numbered
        values = [n for n in outside if n.state != PENDING and n.op is not SCALAR_OP]
        self.outside = {node: f"${number}" for number, node in enumerate(values)}
        self.names = {node: f"%{number}" for number, node in enumerate(self.nodes())}
        self.held = {self.computed(node) for node in program.numbered if _is_live(node)}
        self.again: dict[Any, str] = {}
        for node, memref in (program.remat_of or {}).items():
            self.again[memref.root] = self.names.get(self.root(node), "")

    def nodes(self) -> list[Any]:
        """The nodes that have lines of their own: the order, rows of batches before they are regions, clones in
        kernels."""
        program = self.program
        if not self.with_memrefs:
            known = set(program.order)
            return [n for n in program.numbered if n in known or self.is_row(n)]
        known = set(program.order)
        if all(node in known for kernel in program.kernels for node in kernel.nodes):
            return list(program.order)
        return [node for kernel in program.kernels for node in kernel.nodes]

    @staticmethod
    def is_row(node: Node) -> bool:
        return node.quotient is not None and node.state == PENDING

    def computed(self, node: Node) -> Any:
        """The node whose line says how a node's value is computed: what stands for it, or itself."""
        while node.state == PENDING and not self.is_row(node):
            other = self.program.expanded.get(node)
            if other is None:
                break
            node = other
        return node

    def root(self, node: Node) -> Any:
        return self.program.memref(node).root

    def lines(self) -> list[str]:
        found = [] if self.with_memrefs else [WITHOUT_MEMREFS]
        found += [self.outside_line(node) for node in self.outside]
        found += [self.line(node) for node in self.names]
        return found + [self.kernel_line(kernel) for kernel in self.program.kernels]

    def outside_line(self, node: Node) -> str:
        strides = "" if node.strides is None else f" strides {node.strides}"
        live = " live" if _is_live(node) or node in self.program.viewed else ""
        return f"{self.outside[node]} = value {_kind(node)}{strides}{live}"

    def line(self, node: Node) -> str:
        marks = ""
        if _is_live(node) or (not self.with_memrefs and node in self.held):
            marks += " live"
        elif node in self.program.kept:
            marks += " kept"
        marks += " may fail" if node.may_fail else ""
        marks += " twin" if node in (self.program.clones or ()) else ""
        if node in self.again:
            marks += f" again {self.again[node]}".rstrip()
        if not self.with_memrefs and self.is_row(node):
            quotient = node.quotient
            along = f" along {quotient.info.axis}" if quotient.info.axis else ""
            batch = self.computed(quotient)  # primitives stand for a batch of macros
            row = f"row {node.qrow}{along} of {self.value(batch, batch.dtype)}"
            return f"{self.names[node]} = {row} : {_kind(node)}{marks}"
        params = "" if node.params is None else f" {node.params!r}"
        operands = ", ".join(self.operands(node))
        return f"{self.names[node]} = {node.op.name}({operands}){params} : {_kind(node)}{marks}"

    def operands(self, node: Node) -> list[str]:
        expected = dtype_of_numbers(node.inputs, node.dtype)
        if not self.with_memrefs:
            sources = [self.computed(source) for source in node.inputs]
            return [self.value(source, expected) for source in sources]
        memrefs = self.program.reads(node)
        return [self.value(memref.root, expected) + self.region(memref) for memref in memrefs]

    def value(self, node: Node, expected: DType) -> str:
        if node.op is SCALAR_OP:
            number = repr(node.params)
            return number if node.dtype is expected else f"{node.dtype.name}({number})"
        return self.names.get(node) or self.outside[node]

    @staticmethod
    def region(memref: MemRef) -> str:
        root = memref.root
        own = root.strides or contiguous_strides(root.shape)
        if memref.offset == 0 and memref.shape == root.shape and memref.strides == own:
            return ""
        return f"[{memref.offset}; {_items(memref.shape)}; {_items(memref.strides)}]"

    def kernel_line(self, kernel: Kernel) -> str:
        reduced = "" if kernel.axes is None else f" reduce{list(kernel.axes)}"
        rows = " rows" if kernel.is_row_kernel else ""
        nodes, stores = [
            " ".join([self.names[node] for node in part]) for part in (kernel.nodes, kernel.stores)
        ]
        head = f"k{kernel.position} {list(kernel.shape)}{reduced}{rows}"
        return f"{head}: {nodes} -> {stores}".rstrip()


def _is_live(node: Node) -> bool:
    """True if the flush is to hand the node's value over."""
    return node.external_refs > 0 and not node.deferred


def _kind(node: Node) -> str:
    return f"{node.dtype.name}{list(node.shape)}"


def _items(values: tuple[object, ...]) -> str:
    return ", ".join(map(str, values))


def dtype_of_numbers(operands: Sequence[Node | None], dtype: DType) -> Any:
    """The dtype that a number has among operands of a result where nothing is said of it."""
    for source in reversed(operands):
        if source is not None and source.op is not SCALAR_OP:
            return source.dtype
    return dtype
