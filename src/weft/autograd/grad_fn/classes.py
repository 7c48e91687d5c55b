"""Classes of `grad_fn`: records in users' hands have a class with their name, and answer PyTorch's questions.

A record that reaches a user (`grad_fn`, `next_functions`, an edge) becomes an instance of a class with its name
(`AddBackward0`), made for the first of the name. Nothing inside Weft depends on the class.
"""

from __future__ import annotations

import functools
from typing import Any, NamedTuple

from weft._build.lazy import later
from weft.engine.dispatch.core_hooks import cpu_device
from weft.engine.frontend.grad_fn_nodes import class_of_nodes, see
from weft.engine.frontend.tensor import Tensor
from weft.engine.ir import tape as tapes
from weft.engine.ir.grad_edges import AccumulateGrad, GradientFunction
from weft.engine.ir.node import RESULT_BIT, Node
from weft.errors import ArgumentTypeError

discovery = later("weft.engine.backward.reachability")
rules = later("weft.engine.backward.apply_vjp")
QUESTIONS = frozenset(
    {
        *("_input_metadata", "_sequence_nr", "metadata", "name", "next_functions"),
        *("register_hook", "register_prehook", "requires_grad"),
    }
)
NEVER = (1 << 64) - 1  # the sequence number of a record after all others


class InputMetadata(NamedTuple):
    """The facts known of one gradient that a record takes."""

    shape: list[int]
    dtype: Any
    device: Any
    is_nested_tensor: bool = False
    is_cpp_nested_tensor: bool = False


def as_seen(record: object) -> Any:
    """The record, as an instance of a class with its name."""
    if type(record) is Node:
        see(record, _class_of(record.name().rpartition("::")[2]))
    elif (see_as := getattr(type(record), "seen_as", None)) is not None:
        see_as(record)
    return record


def call(self: Any, *gradients: Tensor) -> Any:
    """The gradients of the inputs of an operation for those of its outputs: `grad_fn(gradient)`.

    Errors: TypeError on another number of gradients, RuntimeError after the saved values have been freed.
    """
    outputs = self.outputs if isinstance(self, GradientFunction) else 1
    if len(gradients) != outputs:
        raise ArgumentTypeError(
            f"{self.name()} expected {outputs} arguments, got {len(gradients)} arguments instead",
            expected=f"{outputs} gradients",
            got=str(len(gradients)),
            fix="pass one for each output of the operation",
        )
    create = tapes.tape().mode.grad
    if isinstance(self, Node):
        if self.released and self.residual_mask:
            raise discovery.freed(self)
        parts = rules.vjp_record(self, gradients[0], create)
    else:
        parts = self.vjp(list(gradients), create)
    return parts[0] if len(parts) == 1 else tuple(parts)


@functools.cache
def _class_of(name: str) -> type:
    """The class of the records of operations of a name."""
    members = {"__module__": "builtins", "__dir__": _questions, "__call__": call}
    return class_of_nodes(name, members)


def _questions(self: Any) -> list[str]:
    """The attributes of a record, among them one for each residual."""
    saved = []
    for place, name in (*enumerate(self.op.operands), (RESULT_BIT, "result")):
        if self.residual_mask >> place & 1:
            saved += [f"_saved_{name}", f"_raw_saved_{name}"]
    return sorted({*QUESTIONS, *saved, *dir(object)})


def sequence_number(self: Any) -> int:
    """The number of a record in the order in which records were made; leaves stand behind all."""
    return NEVER if isinstance(self, AccumulateGrad) else self.seq


def input_metadata(self: Any) -> tuple[InputMetadata | None, ...]:
    """Shape, dtype and device of each gradient that a record takes: of its outputs; None for one that is no tensor."""
    record = self.variable if isinstance(self, AccumulateGrad) else self
    several = isinstance(self, GradientFunction)
    types = record.output_types if several else [(record.shape, record.dtype)]
    device = cpu_device()
    return tuple([None if t is None else InputMetadata(list(t[0]), t[1], device) for t in types])


MEMBERS: dict[str, Any] = {
    "_sequence_nr": sequence_number,
    "_input_metadata": property(input_metadata),
}
