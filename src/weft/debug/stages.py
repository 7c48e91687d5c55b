"""What each stage of the pipeline makes of a function: `stages(fn)` gives its text, stage by stage.

In: a function that records something. Out: a dictionary of texts under `record`, `batch`, `collect`, `fuse`,
`gang`, `plan`, `kernels`, `lower`, made by the stages' own printers. The kernels are those of a program that has come
before: that a novel one runs in single operations first (`weft.engine.pipeline.tiering`) is not shown. Running what was
recorded is left to the pipeline.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

from weft.engine.ir.grad_edges import AccumulateGrad, OutputEdge
from weft.engine.ir.primitive import ELEMENTWISE, SCALAR_ROW
from weft.engine.ir.tape import tape
from weft.engine.pipeline import driver, horizontal_fusion, memory_plan
from weft.engine.pipeline.batching import batch
from weft.engine.pipeline.fusion import fuse
from weft.engine.pipeline.lowering import lower
from weft.engine.pipeline.lowering.kernel_decoder import kernel_text
from weft.engine.pipeline.lowering.row_kernel import prepare
from weft.engine.pipeline.lowering.spec_table import key_of
from weft.engine.pipeline.simplify import collect


def stages(function: Callable[[], Any]) -> dict[str, str]:
    """Call a function and return the text of every stage for what is then pending; afterwards all of it is run.

    What was pending before runs first. What the function itself reads has run and is not shown.
    """
    driver.flush()
    result = function()  # held: what nobody holds is not computed
    pending = tape().pending()
    texts = {"record": record_text(pending)}
    batch.group(pending)
    grouped = tape().pending()
    texts["batch"] = batch.text(grouped)
    program = collect.collect(grouped)
    texts["collect"] = collect.text(program)
    fuse.fuse(program)
    texts["fuse"] = fuse.text(program)
    for kernel in program.kernels:
        if kernel.kind == ELEMENTWISE:
            prepare(program, kernel)
    horizontal_fusion.gang(program)
    texts["gang"] = horizontal_fusion.text(program)
    memory = memory_plan.plan(program)
    texts["plan"] = memory_plan.text(program, memory)
    lowering = lower.lower(program, memory)
    texts["kernels"] = kernels_text(lowering)
    texts["lower"] = lower.text(lowering)
    program.release()
    del program, memory, lowering
    driver.flush()
    del result
    return texts


def record_text(nodes: list[Any]) -> str:
    """One line per pending node, oldest first: its value inputs, its value, where its cotangents go."""
    names = {node: f"%{number}" for number, node in enumerate(nodes)}
    lines = []
    for node in nodes:
        operands = ", ".join(_operand(source, names) for source in node.inputs or ())
        params = "" if node.params is None else f" {node.params!r}"
        edges = "" if node.edges is None else " | " + ", ".join(_edge(e, names) for e in node.edges)
        lines.append(f"{names[node]} = {node.row.name}({operands}){params} : {_kind(node)}{edges}")
    return "\n".join(lines)


def _kind(node: Any) -> str:
    return f"{node.dtype.name}{list(node.shape)}"


def _operand(node: Any, names: dict[Any, str]) -> str:
    if node.row is SCALAR_ROW:
        return repr(node.params)
    return names.get(node) or f"value {_kind(node)}"


def _edge(edge: Any, names: dict[Any, str]) -> str:
    """A gradient edge: the record of an input, a leaf, or none."""
    if edge is None:
        return "-"
    if isinstance(edge, AccumulateGrad):
        return f"leaf{list(edge.variable.shape)}"
    if isinstance(edge, OutputEdge):
        function: Any = edge.function
        return f"{function.name()}.{edge.number}"
    return names.get(edge) or str(edge.name())


def kernels_text(lowering: Any) -> str:
    """The loop IR of every loop kernel that is launched, once each."""
    parts, seen = [], set()
    for launch in lowering.launches:
        key = key_of(launch.spec)
        if key is not None and key[0] != "indexed" and launch.spec.name not in seen:
            seen.add(launch.spec.name)
            parts.append(f"k{launch.kernel} {kernel_text(key)}")
    return "".join(parts).rstrip("\n")
