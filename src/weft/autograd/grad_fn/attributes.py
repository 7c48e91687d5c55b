"""The attributes of `grad_fn`: the graph as users see it.

It gives gradient records (nodes, Functions, the accumulators of leaves) PyTorch's attributes: `name`,
`next_functions`, `metadata`, `_saved_<operand>`, `_raw_saved_<operand>`, hooks. Records know nothing of this module;
it only reads them, and users' attachments are kept in their `observers`.
"""

from __future__ import annotations

import functools
from collections.abc import Callable
from typing import Any, NamedTuple

from weft._build.lazy import later
from weft.autograd.grad_fn import classes
from weft.autograd.grad_fn.classes import as_seen, call
from weft.engine.backward.hooks import Observers, RemovableHandle, add_hook, check_replacement
from weft.engine.capi.type_slots import add_to_type
from weft.engine.frontend.resolve import value_of
from weft.engine.frontend.tensor import Tensor
from weft.engine.frontend.tensor_lifecycle import wrap_node
from weft.engine.ir.grad_edges import AccumulateGrad, GradientFunction, OutputEdge
from weft.engine.ir.node import RESULT_BIT, Node
from weft.engine.ir.primitive import SCALAR_OP
from weft.engine.ir.split_specs import MultiOutput
from weft.errors import GradientError
from weft.ops.registry import OPS

saving = later("weft.engine.backward.saved_tensor_hooks")
discovery = later("weft.engine.backward.reachability")
rules = later("weft.engine.backward.apply_vjp")
forms = later("weft.engine.pipeline.batching.batched_residuals")


def observers_of(record: Any) -> Observers:
    """The hooks of a gradient record, made on first use."""
    if record.observers is None:
        record.observers = Observers()
    found: Observers = record.observers
    return found


def next_functions(self: Any) -> tuple[tuple[Any, int], ...]:
    """The targets of the inputs' cotangents: (record or None, number of its output), one per input that the operation
    has a derivative for; an index or a condition has none."""
    edges = self.edges or ()
    types = None if isinstance(self, Node) else getattr(self, "input_types", None)
    if types is not None:  # of a custom Function: what is no tensor has no place here
        edges = [e for e, kind in zip(edges, types, strict=True) if kind is not None]
    vjps = self.op.vjps if isinstance(self, Node) else ()
    if len(vjps) == len(edges):
        edges = [e for e, vjp in zip(edges, vjps, strict=True) if vjp is not None or e is not None]
    if (
        isinstance(self, Node)
        and isinstance(self.info, tuple)
        and isinstance(self.info[0], Written)
    ):
        edges = self.info[0].edges
    return tuple((None, 0) if edge is None else shown(edge) for edge in edges)


class Written:
    """The edges that users see behind a value written through a view transform, in place of its steps: in its record's
    `info`."""

    def __init__(self, base: Any, source: Any) -> None:
        self.edges = (base, source)


def shown(edge: AccumulateGrad | Node | OutputEdge) -> tuple[Any, int]:
    """(record, output number) of an edge as users see it."""
    record, number = discovery.target_for(edge)
    if isinstance(record, Node) and is_piece(record):
        return several_outputs(record), record.info.number_of(record.params)
    return as_seen(record), number


class Output(NamedTuple):
    """One of several outputs, without its record."""

    params: Any
    shape: tuple[int, ...]
    dtype: Any


class SeveralOutputs(GradientFunction):
    """The record of an operation with several outputs, as users see it. Inside, each output has a record of its own, so
    that walks batch over them; their `info` is what they have in common. A walk goes through this one where somebody
    observes it."""

    def __init__(self, record: Any) -> None:
        discovery.note_multi_output()
        self._name, self.edges, self.where = record.name(), record.edges, record.where
        self._row, self._shapes = record.op, record.operand_shapes
        self._pieces = [
            Output(region.params, region.shape, record.dtype) for region in record.info.cut.regions
        ]
        self.outputs = len(self._pieces)
        self.seq = record.seq - record.info.number_of(record.params)
        self._heard: set[int] = set()

    def name(self) -> str:
        """The name of the operation, as `SplitBackward0`."""
        return str(self._name)

    def __repr__(self) -> str:
        return f"<{self._name} object at {id(self):#x}>"

    @property
    def output_types(self) -> list[Any]:
        """(shape, dtype) of each output."""
        return [(piece.shape, piece.dtype) for piece in self._pieces]

    def __call__(self, *gradients: Any) -> Any:
        """The gradient of the input for those of the outputs."""
        return call(self, *gradients)

    def hear(self, number: int, observers: Observers) -> None:
        """Tell the hooks on an output also where nothing arrives at it."""

        def tell(gradient: Tensor | None) -> None:
            for _, hook in list(observers.tensor_hooks.values() if gradient is None else ()):
                check_replacement(hook(None), None, hook)

        if number not in self._heard:
            self._heard.add(number)
            add_hook(observers_of(self).tensor_hooks, (number, tell))

    def edge_of(self, record: Node) -> OutputEdge:
        """The edge to this record from that of one output."""
        return OutputEdge(self, record.info.number_of(record.params))

    def known_output(self, number: int) -> Output | None:
        """One output; None if there is none of this number."""
        return self._pieces[number] if 0 <= number < self.outputs else None

    def vjp(self, cotangents: list[Tensor], create: bool) -> list[Any]:
        """The sum of what each output's cotangent is at the input."""
        total = None
        for number, cotangent in enumerate(cotangents):
            if cotangent is None:
                continue
            piece = self._pieces[number]
            (part,) = rules.vjp_for(
                self._row,
                cotangent,
                piece.params,
                self._shapes,
                piece.shape,
                [None],
                None,
                self.edges,
            )
            total = part if total is None else total + part
        return [total]


def is_piece(record: Node) -> bool:
    """True if a node is one of several outputs."""
    return isinstance(record.info, MultiOutput)


def several_outputs(record: Node) -> SeveralOutputs:
    """The record of a whole operation that users see for any of its outputs, made on the first look and kept for
    all."""
    if record.info.seen is None:
        record.info.seen = _class_of(record.name())(record)
    seen: SeveralOutputs = record.info.seen
    return seen


@functools.cache
def _class_of(name: str) -> type[SeveralOutputs]:
    """The class of the records of operations of a name."""
    return type(name, (SeveralOutputs,), {"__module__": "builtins"})


def metadata(self: Tensor) -> dict[str, Any]:
    """A dictionary for the user's own notes on this record."""
    return observers_of(self).metadata


def register_hook(self: object, hook: Callable[..., object]) -> RemovableHandle:
    """Call `hook(grad_inputs, grad_outputs)` after this record has run; a result replaces the gradients of the
    inputs.

    Args:
        hook: a function of two tuples; it returns gradients of the inputs, or None.
    """
    return add_hook(observers_of(self).posthooks, hook)


def register_prehook(self: Tensor, hook: Callable[..., object]) -> RemovableHandle:
    """Call `hook(grad_outputs)` before this record runs; a result replaces them.

    Args:
        hook: a function of a tuple; it returns another one, or None.
    """
    return add_hook(observers_of(self).prehooks, hook)


# -- saved values ----------------------------------------------------------------------------------------------------


def _bit(node: Node, name: str) -> int:
    """The number of a saved value in a node's mask. Errors: AttributeError where the node does not save it."""
    operands = node.op.operands
    index = RESULT_BIT if name == "result" else operands.index(name) if name in operands else -1
    if index < 0 or not node.residual_mask >> index & 1:
        raise AttributeError(f"{node.name()} saves no {name!r}")
    return index


def saved_value(node: Any, index: int) -> Any:
    """A saved value as a tensor on its own edge (a number where it was one); the leaf itself where it is one.

    Errors: RuntimeError after it has been freed.
    """
    if node.released:
        raise discovery.freed(node)
    edge = node if index == RESULT_BIT else node.edges[index]
    if node.observers is not None:
        again = saving.unpacked(node, index, edge)
        if again is not None:
            return again
    if index == RESULT_BIT:
        return wrap_node(forms.saved_result(node), node)
    saved = forms.saved_input(node, index)
    if saved.op is SCALAR_OP:
        return saved.params
    if isinstance(edge, AccumulateGrad) and value_of(edge.variable) is saved:
        return edge.variable
    return wrap_node(saved, edge)


class SavedTensor:
    """A value as a node keeps it for its derivative. Errors: RuntimeError where a program makes one."""

    _node: Node
    _index: int

    def __init__(self) -> None:
        raise GradientError(
            "Trying to create a SavedTensor object from Python is forbidden.",
            expected="one that a record has",
            got="SavedTensor()",
            fix="read grad_fn._raw_saved_self",
        )

    @property
    def data(self) -> Any:
        """The value. Errors: RuntimeError after it has been freed."""
        return saved_value(self._node, self._index)

    def register_hooks(
        self, pack_hook: Callable[..., Tensor], unpack_hook: Callable[..., Tensor]
    ) -> None:
        """Keep what `pack_hook` makes of the value instead, and get it back by `unpack_hook`.

        Args:
            pack_hook: is given the tensor; what it returns is kept.
            unpack_hook: is given what was kept; returns the tensor.
        """
        if self._node.released:
            raise discovery.freed(self._node)
        if self._node.observers is not None and self._index in self._node.observers.packed:
            raise GradientError(
                "Calling register_hooks on a saved tensor whose hooks have already been set. Hint: only one pair of "
                "hooks is allowed at a time.",
                expected="a saved value without hooks",
                got=f"one of {self._node.name()} with hooks",
                fix="do in one pair what both should do, or nest saved_tensors_hooks",
            )
        saving.pack_one(self._node, self._index, (pack_hook, unpack_hook))

    def __repr__(self) -> str:
        return f"<SavedTensor of {self._node.name()}>"


def _raw(node: Node, index: int) -> SavedTensor:
    """The residual `index` of a record."""
    made = SavedTensor.__new__(SavedTensor)
    made._node, made._index = node, index
    return made


def _saved(name: str) -> tuple[property, property]:
    def read(self: Any) -> Any:
        return saved_value(self, _bit(self, name))

    def raw(self: Any) -> SavedTensor:
        index = _bit(self, name)
        if self.released:
            raise discovery.freed(self)
        return _raw(self, index)

    return property(read), property(raw)


def install() -> None:
    """Put the attributes on the compiled classes; called once, by the package."""
    common: dict[str, Any] = {
        **classes.MEMBERS,
        "metadata": property(metadata),
        "register_hook": register_hook,
        "register_prehook": register_prehook,
    }
    members = {**common, "next_functions": property(next_functions)}
    saved: dict[str, Any] = {}
    for name in sorted({"result"} | {name for op in OPS.values() for name in op.operands}):
        saved[f"_saved_{name}"], saved[f"_raw_saved_{name}"] = _saved(name)
    add_to_type(Node, {**members, **saved})
    add_to_type(GradientFunction, members)
    add_to_type(AccumulateGrad, common)
