"""`weft.debug.why` and `why_grad`: the shortest explanation of a value, and of a gradient that is missing or odd.

They read what was recorded, as text: lines, operations, sizes, numbers. A value that is not finite is followed to the
operation that made it so; a finite one along the operand with the largest elements. A gradient is computed at each
record between the loss and its tensor, to find where it stops, vanishes, grows or becomes nan.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING, Any, TypeAlias

import numpy as np

from weft.autograd.anomaly.nonfinite_origin import in_numbers, name_of, path_to, records_below
from weft.autograd.anomaly_mode import find_anomaly
from weft.autograd.backward import grad
from weft.autograd.graph import GradientEdge
from weft.debug.capsules.capture import CapturedRun, actual
from weft.debug.capsules.records import VALUE
from weft.debug.capsules.reduction import first_not_finite
from weft.debug.stepper import Target, stepper
from weft.engine.backward.reachability import target_for
from weft.engine.frontend.resolve import edge_for, value_of
from weft.engine.frontend.tensor import Tensor
from weft.engine.frontend.tensor_lifecycle import wrap_node
from weft.engine.ir.grad_edges import AccumulateGrad
from weft.engine.ir.node import Node
from weft.engine.ir.primitive import SCALAR_OP
from weft.engine.pipeline import driver
from weft.engine.runtime.array_pieces import is_finite, pieces, without_repeats
from weft.errors import ArgumentTypeError, class_name

if TYPE_CHECKING:
    from weft._typing import Array

Step: TypeAlias = Any  # a gradient record: a node, that of a custom Function, a leaf
MOST_STEPS = 8  # of the way back from a value
HUGE = 1e4  # a gradient element from which it is called huge
DEAD = 0.5  # share of zeros from which an activation is called dead


@dataclass(frozen=True)
class Why:
    """A sentence, the user's line that it is about, and lines that say more."""

    summary: str
    where: str = ""
    details: tuple[str, ...] = ()

    def __str__(self) -> str:
        headline = f"{self.summary}, {self.where}" if self.where else self.summary
        return "\n".join((headline, *(f"  {line}" for line in self.details)))

    __repr__ = __str__


# -- values --------------------------------------------------------------------------------------------------------


def why(target: Target) -> Why:
    """The shortest explanation of a value: of a tensor, or of the last value of a capsule.

    Ask before the value has run, or within `weft.debug.capture`: what has run has let go of what it read.

    Args:
        target: a tensor, or a capsule.

    Example:
        >>> import weft
        >>> x = weft.tensor([1.0, -1.0])
        >>> weft.debug.why(x.log()).summary
        'log made nan of finite inputs'
    """
    if isinstance(target, Tensor) and target.grad_fn is not None and not _is_pending(target):
        found = find_anomaly(target) if _active(value_of(target)) is None else None
        if found is not None:
            return Why(found.summary, found.where, tuple(n.strip() for n in found.notes()))
    at = stepper(target)
    if not is_finite(at.array(at.number)):
        return _not_finite(at)
    if at.record.op == VALUE:
        return Why(
            f"a value from outside: {at.numbers()}",
            at.record.line,
            ("its operation has run: ask before it is read, or within weft.debug.capture",),
        )
    summary, line = f"{at.record.op} gave {at.numbers()}", at.record.line
    return Why(summary, line, tuple(_way_back(at)))


def _is_pending(tensor: Tensor) -> bool:
    return value_of(tensor).inputs is not None


def _active(node: Node) -> CapturedRun | None:
    """The recording that goes on and knows a node's inputs."""
    found = [r for r in driver.run_observers if isinstance(r, CapturedRun)]
    return next((r for r in reversed(found) if node in r.snapshot.inputs), None)


def _not_finite(at: stepper) -> Why:
    end = at.number
    number = first_not_finite(at.capsule, end)
    record = at.goto(number).record
    kind = "nan" if np.isnan(at.array(number)).any() else "inf"
    lines = [f"{record.source}"] if record.source else []
    lines += [f"input     {at.numbers(source)}" for source in record.sources()]
    if record.op == VALUE:
        name = record.name or f"%{number}"
        return Why(
            f"{name} was given a value that was {kind} from the start", record.line, tuple(lines)
        )
    if number != end:
        lines.append(f"from there to {at.capsule.records[end].text(end)}")
    return Why(f"{record.op} made {kind} of finite inputs", record.line, tuple(lines))


def _way_back(at: stepper) -> list[str]:
    """Lines on the operands with the largest elements, from a value back to one from outside."""
    lines = [f"input     {at.numbers(source)}" for source in at.record.sources()]
    for _ in range(MOST_STEPS):
        sources = list(at.record.sources())
        if not sources:
            break
        at.goto(max(sources, key=lambda source: _largest(at.array(source))))
        lines.append(f"from      {at.record.text(at.number)}: {at.numbers()}")
    return lines


def _largest(array: Array) -> float:
    found = [0.0]
    for piece in pieces(without_repeats(array)):
        reals = piece.astype(np.float64) if piece.dtype.kind in "biu" else piece
        found.append(float(np.abs(reals).max(initial=0)))
    return float(np.max(found))


# -- gradients -----------------------------------------------------------------------------------------------------


def why_grad(target: Tensor, loss: Tensor | None = None) -> Why:
    """The reason why a gradient is None, zero, nan, huge or as it is: of a parameter, or of another tensor of a graph.

    Args:
        target: a parameter, or another tensor that requires a gradient.
        loss: what `backward()` was called on, or is to be; None: only what the tensor itself says is known.

    The graph must not have been freed; ask before `backward()`, or with retain_graph=True. `.grad` stays as it is.

    Example:
        >>> import weft
        >>> x = weft.tensor(2.0, requires_grad=True)
        >>> weft.debug.why_grad(x.detach() * 3).summary
        'requires_grad is False: no gradient is recorded'
    """
    for given in (target,) if loss is None else (target, loss):
        if not isinstance(given, Tensor):
            raise ArgumentTypeError(
                f"why_grad: expected a tensor, got {class_name(given)}",
                expected="a tensor or a parameter, and a loss",
                got=f"{given!r:.80}",
                fix="weft.debug.why_grad(model.weight, loss)",
            )
    if not target.requires_grad:
        return Why("requires_grad is False: no gradient is recorded", _line_of(value_of(target)))
    if loss is None:
        return _of_tensor(target)
    root = None if edge_for(loss) is None else target_for(edge_for(loss))[0]
    if root is None:
        break_at = _break(target, loss)
        return break_at or Why(
            "the loss has no graph: it was recorded in no_grad, or of detached values",
            _line_of(value_of(loss)),
        )
    wanted = target_for(edge_for(target))[0]
    if wanted not in records_below([root]):
        return _break(target, loss) or Why(
            "no path leads from the loss to it: the loss does not use it, or uses a detached copy",
            _line_of(value_of(loss)),
            (
                "of a detached copy the line is told before the loss is read, or within weft.debug.capture",
            ),
        )
    return _along(path_to([root], wanted)[::-1], target, loss)


def _line_of(node: Node) -> str:
    return "" if node.code is None or node.op.name == "value" else node.where


def _of_tensor(target: Tensor) -> Why:
    """The reason that a tensor gives by itself."""
    if not target.is_leaf and not target.retains_grad:
        line = _line_of(value_of(target))
        return Why("it is not a leaf: its .grad stays None unless retain_grad() is called", line)
    if target.grad is None:
        return Why("no backward() has reached it yet", "", ("pass the loss to be told why",))
    return Why(f"it has a {_numbers(target.grad)}")


def _numbers(value: Tensor) -> str:
    array = (value.float() if value.dtype.name == "bfloat16" else value).detach().numpy(force=True)
    return str(in_numbers(array, "gradient", value.dtype.name, tuple(value.shape)))


def _break(target: Tensor, loss: Tensor) -> Why | None:
    """The line where a value that depends on a tensor is read without a gradient edge; None where it is not known."""
    start, end = value_of(target), actual(value_of(loss))
    recording = _active(end)
    known: dict[Any, Any] = {} if recording is None else recording.snapshot.inputs
    edges: dict[Any, Any] = {} if recording is None else recording.edges
    order = _ancestors(end, known)
    if start not in order:
        return None
    connected = {start}
    for node in sorted(order, key=lambda node: int(node.seq)):
        inputs = known.get(node) or node.inputs or ()
        for number, source in enumerate(inputs):
            if actual(source) not in connected:
                continue
            targets = edges.get(node) or node.edges
            if targets is None or number >= len(targets) or targets[number] is None:
                reason = (
                    "was recorded without a gradient: in no_grad, or of a detached value"
                    if node.op.differentiable
                    else f"has no derivative ({node.op.why})"
                )
                return Why(f"{node.op.name} {reason}", node.where)
            connected.add(node)
    return None


def _ancestors(end: Node, known: dict[Node, tuple[Node, ...]]) -> set[Node]:
    found: set[Any] = set()
    waiting = [end]
    while waiting:
        node = actual(waiting.pop())
        if node in found or node.op is SCALAR_OP:
            continue
        found.add(node)
        waiting.extend(known.get(node) or node.inputs or ())
    return found


def _along(path: list[Step], target: Tensor, loss: Tensor) -> Why:
    """The fate of the gradient on the records from the loss to a tensor."""
    gradients = _gradients(path, loss)
    total = gradients[-1]
    if total is None:
        return Why(
            "the walk gives no gradient here", _where(path[-2] if len(path) > 1 else path[-1])
        )
    if not np.isfinite(total).all():
        found = find_anomaly(loss)
        if found is not None:
            return Why(found.summary, found.where, tuple(n.strip() for n in found.notes()))
    if not total.any():
        return _vanished(path, gradients)
    numbers = _sizes(path, gradients)
    if np.abs(total).max() > HUGE:
        grown = _growth(path, gradients)
        return Why(
            f"the gradient is huge (largest element {np.abs(total).max():.4g}); {grown[0]}",
            grown[1],
            numbers,
        )
    zeros = float((total == 0).mean())
    dead = _dead_on(path)
    if dead and zeros > 0:
        return Why(f"{zeros:.0%} of the gradient is 0; {dead[0]}", dead[1], numbers)
    return Why(f"the gradient has elements of up to {np.abs(total).max():.4g}", "", numbers)


def _gradients(path: list[Step], loss: Tensor) -> list[Any]:
    """The gradient at each record of a path, as arrays; None where the walk does not come."""
    wanted = [
        r.variable if isinstance(r, AccumulateGrad) else GradientEdge(r, 0, None) for r in path
    ]
    start = None if loss.numel() == 1 else wrap_node(value_of(loss)) * 0 + 1
    found = grad(loss, wanted, start, retain_graph=True, allow_unused=True)
    return [None if g is None else g.detach().double().numpy(force=True) for g in found]


def _where(record: Step) -> str:
    return str(getattr(record, "where", ""))


def _sizes(path: list[Step], gradients: list[Array | None]) -> tuple[str, ...]:
    """A line for each record: the largest element of the gradient that arrives there."""
    pairs = zip(path, gradients, strict=True)
    return tuple(
        f"{_name(record):<28} {np.abs(g).max(initial=0):.4g}  {_where(record)}".rstrip()
        for record, g in pairs
        if g is not None
    )


def _name(record: Step) -> str:
    return "leaf" if isinstance(record, AccumulateGrad) else name_of(record)


def _vanished(path: list[Step], gradients: list[Array | None]) -> Why:
    """The record at which a gradient becomes zero."""
    ends = [n for n, g in enumerate(gradients) if g is not None and g.any()]
    if not ends:
        return Why("the gradient is 0 from the loss on", _where(path[0]))
    record = path[ends[-1]]
    dead = _dead_on([record])
    if dead:
        return Why(f"the gradient is 0: {dead[0]}", dead[1], _sizes(path, gradients))
    reason = "multiplies it by 0" if "Mul" in _name(record) else "makes it 0"
    return Why(
        f"the gradient is 0: {_name(record)} {reason}", _where(record), _sizes(path, gradients)
    )


def _dead_on(path: list[Step]) -> tuple[str, str] | None:
    """The first ReLU of a path most of whose results are 0."""
    for record in path:
        if isinstance(record, Node) and record.op.name == "relu":
            with_value = wrap_node(record).detach()
            share = float((with_value <= 0).double().mean().item()) if with_value.numel() else 0.0
            if share >= DEAD:
                return f"{share:.0%} of relu's results are 0", _where(record)
    return None


def _growth(path: list[Step], gradients: list[Array | None]) -> tuple[str, str]:
    """The record that makes a gradient grow most."""
    sizes = [(n, float(np.abs(g).max(initial=0))) for n, g in enumerate(gradients) if g is not None]
    steps = [
        (after / before, n)
        for (n, before), (_, after) in zip(sizes, sizes[1:], strict=False)
        if before > 0
    ]
    factor, number = max(steps, default=(1.0, 0))
    return f"{_name(path[number])} makes it {factor:.3g} times as large", _where(path[number])
