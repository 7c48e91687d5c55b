"""`weft.debug.watch`: stop in the debugger where a condition over a value holds, forward and backward.

Conditions are asked where the operation is recorded, so that the frame that called it is alive: of each operation whose
name fits a pattern as it is recorded, of a module as its `forward` returns, of gradients as the walk reaches them.
Asking runs what is pending, which changes no result.
"""

from __future__ import annotations

import sys
from collections.abc import Callable, Iterator
from fnmatch import fnmatchcase
from types import CodeType, FrameType
from typing import TYPE_CHECKING, Any

from weft.debug.breakpoints.frames import WATCHED, live_frame, stand_in, stop_in, user_frame
from weft.engine.backward.saved_tensor_hooks import pack_node, record_observers
from weft.engine.frontend.resolve import edge_for, value_of
from weft.engine.frontend.tensor import Tensor
from weft.engine.frontend.tensor_lifecycle import wrap_node
from weft.engine.ir import tape as tapes
from weft.engine.ir.node import Node
from weft.engine.ir.primitive import COMPOSITE
from weft.errors import ArgumentTypeError, class_name, is_internal
from weft.nn import Module
from weft.ops.registry import OPS
from weft.utils._pytree import tree_leaves

if TYPE_CHECKING:
    from types import TracebackType

Condition = Callable[[Tensor], object]


class Stop:
    """One stop: the value, in which pass, and where the user recorded it."""

    def __init__(self, name: str, value: Tensor, phase: str, record: object) -> None:
        self.name, self.value, self.phase, self.record = name, value, phase, record

    @property
    def where(self) -> str:
        """The user's line that recorded the operation."""
        return str(getattr(self.record, "where", "<unknown>"))

    def __str__(self) -> str:
        kind = f"{self.value.dtype.name}{list(self.value.shape)}"
        return f"watch: {self.phase} value of {self.name}, {kind}, recorded at {self.where}"


def in_debugger(stop: Stop, frame: FrameType | None) -> None:
    """Print a stop, and stop at its frame; where that is gone, in a view of its line, with its operands."""
    print(stop, file=sys.stderr)
    if frame is not None:
        stop_in(frame, stop.value)
        return
    node = stop.record
    if not isinstance(node, Node) or node.code is None:
        outside = user_frame()
        if outside is not None:
            stop_in(outside, stop.value)
        return
    code: CodeType = node.code
    line = int(stop.where.partition(":")[2].partition(" ")[0])
    stand_in(code.co_filename, line, {**operands_of(node), WATCHED: stop.value})


def operands_of(node: Node) -> dict[str, object]:
    """The operands of an operation that are still known, by their names in the op table."""
    names = node.op.operands
    return {
        names[min(number, len(names) - 1)]: wrap_node(source)
        for number, source in enumerate(node.inputs or ())
    }


class watch:  # noqa: N801 - a context, as no_grad is
    """Stop in the debugger when a condition over a value holds.

    Args:
        target: a module (its results), a tensor (its value now, its gradient later), or a pattern of operations' names
            (`"log*"`; those of `weft.ops.TABLE`).
        condition: is called with each value, and stops where it returns something true.
        backward: True: gradients are asked, too: of results, and of a module's parameters.
        on_stop: called with a `Stop` and the frame or None; by default it opens the debugger.

    `pdb` opens in the frame of the line that recorded the operation, or, once its function has returned, in a view of
    that line; where `sys.breakpointhook` or PYTHONBREAKPOINT names another debugger, that one. The value is `watched`
    there. It watches until `remove()`, or to the end of its `with` block.

    Cost: each value that is asked is computed at once, operation by operation; nothing while nothing is watched.

    Example:
        >>> import weft
        >>> found = []
        >>> with weft.debug.watch("exp", lambda out: out.isinf().any(), on_stop=lambda s, f: found.append(s.name)):
        ...     y = (weft.tensor([1.0, 99.0]) * 2).exp()
        >>> found
        ['exp']
    """

    def __init__(
        self,
        target: Module | Tensor | str,
        condition: Condition,
        *,
        backward: bool = True,
        on_stop: Callable[[Stop, FrameType | None], object] = in_debugger,
    ) -> None:
        if not callable(condition):
            raise ArgumentTypeError(
                f"watch: the condition is a {class_name(condition)}",
                expected="a function of a tensor",
                got=f"{condition!r:.80}",
                fix="weft.debug.watch(module, lambda out: out.abs().max() > 1e3)",
            )
        self.condition, self.backward, self.on_stop = condition, backward, on_stop
        self._undo: list[Callable[[], object]] = []
        self._busy = False
        self._last: Tensor | None = None
        if isinstance(target, Module):
            self._watch_module(target)
        elif isinstance(target, Tensor):
            self._watch_tensor(target)
        elif isinstance(target, str):
            self._watch_operations(target)
        else:
            raise ArgumentTypeError(
                f"watch: cannot watch a {class_name(target)}",
                expected="a module, a tensor, or a pattern of operations' names",
                got=f"{target!r:.80}",
                fix='weft.debug.watch("log*", condition)',
            )

    def __enter__(self) -> watch:
        return self

    def __exit__(
        self,
        kind: type[BaseException] | None,
        error: BaseException | None,
        trace: TracebackType | None,
    ) -> None:
        self.remove()

    def remove(self) -> None:
        """Watch no longer."""
        while self._undo:
            self._undo.pop()()
        self._last = None

    # -- asking ----------------------------------------------------------------------------------------------------

    def ask(
        self, name: str, value: Tensor, phase: str, record: object, frame: FrameType | None = None
    ) -> None:
        """Ask the condition of a value; stop where it holds.

        Args:
            name: the name under which the program has the value.
            value: the value.
            phase: "forward" or "backward".
            record: the operation.
            frame: the frame of the program; None: the one that made it.
        """
        if self._busy:  # the condition's own operations
            return
        self._busy = True
        mode = tapes.tape().mode
        tracked, mode.grad = mode.grad, False
        try:
            if not self.condition(value):
                return
            if frame is None and isinstance(record, Node):
                frame = live_frame(record.code, record.offset_in_code)
            self.on_stop(Stop(name, value, phase, record), frame)
        finally:
            mode.grad = tracked
            self._busy = False

    def ask_gradient(self, name: str, tensor: Tensor, record: object) -> Any:
        """Ask the condition of a tensor's gradient, when a walk reaches it.

        Args:
            name: the name of the tensor.
            tensor: the tensor.
            record: the operation that made it.
        """
        handle = tensor.register_hook(lambda grad: self.ask(name, grad, "backward", record))
        self._undo.append(handle.remove)
        return handle

    # -- what is watched -------------------------------------------------------------------------------------------

    def _watch_tensor(self, tensor: Tensor) -> None:
        record = edge_for(tensor) if not tensor.is_leaf else value_of(tensor)
        name = getattr(getattr(record, "op", None), "name", "tensor")
        self.ask(name, tensor.detach(), "forward", record, None)
        if self.backward and tensor.requires_grad:
            self.ask_gradient(name, tensor, record)

    def _watch_operations(self, pattern: str) -> None:
        names = frozenset(name for name in OPS if fnmatchcase(name, pattern))
        if not names:
            raise ArgumentTypeError(
                f"watch: no operation is called {pattern!r}",
                expected="a pattern of names of the op table",
                got=pattern,
                fix='weft.ops.TABLE has the names; "*" is any operation',
            )

        def recorded(node: Node) -> None:
            if node.op.name not in names or self._busy or node.inputs is None:
                return
            if node.op.kind == COMPOSITE or tapes.tape().mode.walk:
                return
            self._last = wrap_node(node)  # held until the recorder has wrapped it
            self.ask(node.op.name, self._last, "forward", node)
            if self.backward and node.edges is not None:
                self.ask_gradient(node.op.name, wrap_node(node, node), node)

        record_observers.append(recorded)
        tapes.watch_records(pack_node, 1)
        self._undo.append(lambda: tapes.watch_records(pack_node, -1))
        self._undo.append(lambda: record_observers.remove(recorded))

    def _watch_module(self, module: Module) -> None:
        name = type(module).__name__
        code = getattr(type(module).forward, "__code__", None)
        inside = code is not None and not is_internal(code.co_filename)
        before: list[Any] = []

        def returned(frame: FrameType, event: str, result: object) -> None:
            first = code.co_varnames[0] if code is not None and code.co_argcount else ""
            if event == "return" and frame.f_code is code and frame.f_locals.get(first) is module:
                self._ask_results(name, result, frame)

        def enter(module: Module, inputs: object) -> None:
            before.append(sys.getprofile())
            sys.setprofile(returned)

        def leave(module: Module, inputs: object, result: object) -> None:
            if inside:
                sys.setprofile(before.pop())
            else:
                self._ask_results(name, result, None)

        if inside:
            self._undo.append(module.register_forward_pre_hook(enter).remove)
        self._undo.append(module.register_forward_hook(leave, always_call=inside).remove)
        for label, parameter in module.named_parameters() if self.backward else ():
            if parameter.requires_grad:
                self.ask_gradient(f"{name}.{label}", parameter, value_of(parameter))

    def _ask_results(self, name: str, result: object, frame: FrameType | None) -> None:
        for tensor in tensors_in(result):
            record: Any = edge_for(tensor) or value_of(tensor)
            self.ask(name, tensor.detach(), "forward", record, frame)
            if self.backward and tensor.requires_grad and not self._busy:
                self.ask_gradient(name, tensor, record)


def tensors_in(result: object) -> Iterator[Tensor]:
    """The tensors of nested containers."""
    return (leaf for leaf in tree_leaves(result) if isinstance(leaf, Tensor))
