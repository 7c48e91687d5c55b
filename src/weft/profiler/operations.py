"""The operations of launches, under PyTorch's names, with their lines, flops, bytes and shares.

A fused launch is timed as a whole. Its time is divided among its operations by the costs that the compiler decides by:
elements times the price of an operation, and of what is stored.
"""

from __future__ import annotations

import functools
import math
from dataclasses import dataclass
from types import CodeType
from typing import NamedTuple

from weft.engine.devices.api import default_device
from weft.engine.devices.trace import Label, Labels
from weft.engine.ir.dtype import DType
from weft.engine.ir.primitive import CONTRACT, REDUCE
from weft.engine.pipeline.budget.spill_file import TRANSFER
from weft.engine.pipeline.launch_ir import KernelSpec
from weft.engine.pipeline.lowering.kernel_decoder import kernel_text
from weft.engine.pipeline.lowering.spec_table import key_of

_RENAMED = {
    "linear": "mm", "linear_bias": "addmm", "cast": "_to_copy", "square": "pow", "cube": "pow", "first_power": "pow",
    "take": "index_select", "take_add": "index_add", "take_put": "index_put_", "put": "copy_", "iota": "arange",
    "convolution_bias": "convolution", "softmax": "_softmax", "log_softmax": "_log_softmax",
    "picked_log_softmax": "_log_softmax", "order": "sort", "nth_place": "kthvalue",
    "mantissa": "frexp", "exponent": "frexp", "blend": "lerp",
    "add_product": "addcmul", "add_quotient": "addcdiv", "scatter_maximum": "scatter_reduce",
    "scatter_minimum": "scatter_reduce", "scatter_product": "scatter_reduce",
    "clamp_between": "clamp", "max_all": "max", "min_all": "min",
    "power_norm": "linalg_vector_norm", "lstm_memory": "_thnn_fused_lstm_cell", "gru": "_thnn_fused_gru_cell",
    "lstm_output": "_thnn_fused_lstm_cell", "attention": "_scaled_dot_product_flash_attention_for_cpu",
    "attention_forward": "_scaled_dot_product_flash_attention_for_cpu",
    "attention_masked": "_scaled_dot_product_flash_attention_for_cpu",
    "attention_masked_forward": "_scaled_dot_product_flash_attention_for_cpu",
    "attention_backward": "_scaled_dot_product_flash_attention_for_cpu_backward",
    "attention_masked_backward": "_scaled_dot_product_flash_attention_for_cpu_backward",
    "relu_vjp_self": "threshold_backward", "uniform_float32": "uniform_", "uniform_float64": "uniform_",
    "normal_float32": "normal_", "normal_float64": "normal_", "random_bits": "random_", "random_wide": "random_",
    "random_integers": "random_",
}  # fmt: skip
_OWN = (
    "sigmoid_mul",
    "gather_rows",
    "running_place",
    "resample",
    "collective",
    "tied",
    "standardize",
)


class SourceLine(NamedTuple):
    """A line of the user's source."""

    file: str
    number: int
    function: str

    def __str__(self) -> str:
        return f"{self.file}({self.number}): {self.function}"


@functools.lru_cache(1 << 16)
def line_of(code: CodeType | None, instruction: int) -> SourceLine | None:
    """The line of an instruction, as nodes keep it; None where nobody knows."""
    if code is None or isinstance(code, str):
        return None
    number = code.co_firstlineno
    for start, end, line in code.co_lines():
        if start <= 2 * instruction < end and line is not None:
            number = line
            break
    return SourceLine(code.co_filename, number, code.co_qualname)


def name_of(label: Label) -> str:
    """The name of a node's operation in PyTorch's profiler; `weft::` for those that PyTorch does not have."""
    name = label.op.name
    if name == "matmul":
        rank = len(label.shape) - (label.members > 1)
        return "aten::" + ("bmm" if rank > 2 else "mm")
    if name in _RENAMED:
        return f"aten::{_RENAMED[name]}"
    if name.startswith(_OWN):
        return f"weft::{name}"
    return f"aten::{name.partition('_vjp_')[0]}{'_backward' if '_vjp_' in name else ''}"


def flops_of(label: Label) -> int:
    """Multiplications and additions of a product, or an operation for each element."""
    elements = math.prod(label.shape)
    if label.op.kind == CONTRACT and label.operands:
        return 2 * elements * _depth(label)
    if label.op.kind == REDUCE and label.operands:
        return math.prod(label.operands[0].shape)
    return elements if label.operands else 0


def _depth(label: Label) -> int:
    """The number of products that are added up for an element of a contraction."""
    name, shapes = label.op.name, [operand.shape for operand in label.operands]
    if name.startswith("convolution"):
        return math.prod(shapes[1][1:])
    if name.startswith("attention"):
        return 2 * int(shapes[1][-2])
    return int(shapes[0][-1]) if shapes[0] else 1


def nbytes_of(shape: tuple[int, ...], dtype: DType) -> int:
    """The bytes of a value without gaps."""
    return math.prod(shape) * int(dtype.itemsize)


def _cost(label: Label) -> float:
    costs = default_device().tuning.costs
    if label.op.kind == CONTRACT:
        return flops_of(label) / 2
    space = max([math.prod(label.shape), *(math.prod(o.shape) for o in label.operands if o.inside)])
    price = costs.operations.get(label.op.name, costs.other_operation)
    reads = costs.read * sum(math.prod(o.shape) for o in label.operands if not o.inside)
    stores = costs.store * math.prod(label.shape) if label.stored else 0.0
    return float(price * space + reads + stores)


@dataclass(slots=True)
class LaunchPart:
    """An operation in a launch. `share` of its time; `count` is 0 where an earlier launch has counted it."""

    name: str
    label: Label
    line: SourceLine | None
    share: float
    count: int
    flops: int
    stored_bytes: int


@dataclass(slots=True)
class LaunchFacts:
    """A launch of a program: its kernel, its operations, the bytes that it reads and writes by their shapes; its
    position among the program's kernels. `again`: an earlier launch has computed it, and its value was given up."""

    kernel: str
    parts: list[LaunchPart]
    read_bytes: int
    written_bytes: int
    spec: KernelSpec
    position: int
    again: bool = False

    def ir(self) -> str:
        """The loop IR of the kernel; empty for one that has none, as products of matrices."""
        key = key_of(self.spec)
        return "" if key is None or key[0] == "indexed" else kernel_text(key)


def part_of(label: Label, share: float = 1.0, first: bool = True) -> LaunchPart:
    """A node as an operation of a launch."""
    return LaunchPart(
        name_of(label),
        label,
        line_of(label.code, label.offset_in_code),
        share,
        label.members if first else 0,
        flops_of(label) if first else 0,
        nbytes_of(label.shape, label.dtype) if first and label.stored else 0,
    )


def parts_of_nodes(labels: list[Label]) -> list[LaunchPart]:
    """Nodes that the interpreter ran, with their shares of its time: calls take most of it, elements the rest."""
    tiering = default_device().tuning.tiering
    costs = [tiering.call_ns + math.prod(label.shape) / 4 for label in labels]
    return [part_of(label, cost / sum(costs)) for label, cost in zip(labels, costs, strict=True)]


def facts_of(labels: Labels) -> list[LaunchFacts]:
    """The facts of each launch of a program."""
    by_position: dict[int, list[Label]] = {}
    for label in labels.rows():
        by_position.setdefault(label.position, []).append(label)
    found: list[LaunchFacts] = []
    counted: set[int] = set()
    positions = labels.launch_positions()
    for index, ((position, _), spec) in enumerate(zip(positions, labels.specs, strict=True)):
        if spec is TRANSFER:
            found.append(LaunchFacts(spec.name, [], 0, 0, spec, position))
            continue
        first = position not in counted
        counted.add(position)
        facts = _facts(spec, by_position.get(position, []), first, position)
        facts.again = index in (labels.again or ())
        found.append(facts)
    return found


def _facts(spec: KernelSpec, own: list[Label], first: bool, position: int) -> LaunchFacts:
    costs = [_cost(label) for label in own]
    whole = sum(costs) or 1.0
    parts = [part_of(label, cost / whole, first) for label, cost in zip(own, costs, strict=True)]
    outside = [operand for label in own for operand in label.operands if not operand.inside]
    return LaunchFacts(
        spec.name,
        parts,
        sum(nbytes_of(operand.shape, operand.dtype) for operand in outside),
        sum(nbytes_of(label.shape, label.dtype) for label in own if label.stored),
        spec,
        position,
    )
