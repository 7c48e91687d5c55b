"""Direct VJPs: derivative rules as single ops, recorded in place of the rule if nothing is differentiated again.

For each elementwise rule written in the framework's own operations there is a `DirectVjp`: the op that gives the
cotangent, and its operands. A rule of one operation has that operation's op; a rule of several has one of its own,
`tanh_vjp_self` for the rule of `self` in `tanh`, which computes in one kernel what the rule records as nodes,
operation by operation: the bits are the same. If a cotangent is differentiated again (with `create_graph`, in forward
mode) the rule itself is recorded.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import TYPE_CHECKING, Any

from weft.engine.frontend.node_factory import make_value
from weft.engine.frontend.resolve import value_of
from weft.engine.frontend.tensor_lifecycle import wrap_node
from weft.engine.ir import dtype as dtypes
from weft.engine.ir import tape as tapes
from weft.engine.ir.node import Node
from weft.engine.ir.primitive import (
    ARRIVING_COTANGENT,
    ELEMENTWISE,
    SCALAR_OP,
    DirectVjp,
    Primitive,
)
from weft.ops.registry import OPS, Rule, define, not_differentiable

if TYPE_CHECKING:
    from weft._typing import Array
    from weft.engine.devices.cpu.elementwise.emitter import Emitter
    from weft.engine.devices.cpu.llvm.simd_value import SimdValue
    from weft.engine.ir.dtype import DType


MOST_OPERATIONS = 12  # operations of a rule that becomes one op
MOST_SOURCES = 4  # operands of such an op
_AT = -2  # the code of `at` among the arguments of a rule
_DIFFERENTIATED_ELSEWHERE = not_differentiable(
    "recorded where nothing is differentiated again; elsewhere the rule itself is recorded"
)
_OF_RULE: dict[Rule, DirectVjp] = {}
OPERATIONS: dict[
    str, tuple[str, ...]
] = {}  # name of an op of a rule -> names of the rule's operations


class RuleStep:
    """One operation of a rule: a row, the dtype of its result, and its operands: the numbers of earlier steps, of what
    the rule reads (`~number`), and Python numbers with their types."""

    def __init__(self, op: Primitive, dtype: DType, operands: list[int | tuple[Any, Any]]) -> None:
        self.op, self.dtype, self.operands = op, dtype, operands


def direct_vjps(op: Primitive) -> tuple[DirectVjp | None, ...]:
    """For each operand of a row its rule as a row; None where the rule is more than that."""
    return tuple([None if rule is None else _OF_RULE.get(rule) for rule in op.vjps])


def define_all() -> None:
    """Look at the rules of all elementwise rows of floats, and define the rows that they need."""
    mode = tapes.tape().mode
    grad, mode.grad = mode.grad, False
    try:
        with tapes.intact():
            for op in list(OPS.values()):
                if op.differentiable and op.kind == ELEMENTWISE and _is_of_floats(op):
                    _define_of(op)
    finally:
        mode.grad = grad


def _is_of_floats(op: Primitive) -> bool:
    """True if an op makes floats from floats alone."""
    made = dtypes.float32 if op.dtype is None else op.dtype(None, dtypes.float32)
    return "float32" in op.dtypes and "boolean" not in op.domain and made is dtypes.float32


def _define_of(op: Primitive) -> None:
    for name, rule, saves in zip(op.operands, op.vjps, op.residuals, strict=True):
        if rule is None or rule in _OF_RULE or _AT in saves:
            continue
        found = _read(rule, saves)
        if found is not None:
            _OF_RULE[rule] = _row_for(
                f"{op.name}_vjp_{name}", op, found, (ARRIVING_COTANGENT, *saves)
            )


def _read(rule: Rule, saves: tuple[int, ...]) -> list[RuleStep] | None:
    """The operations that a rule records, in order; None where they are not all elementwise, or too many."""
    sources = [make_value(dtypes.float32, (2,), None, 0) for _ in range(1 + len(saves))]
    result = rule(*[wrap_node(source) for source in sources])
    steps: list[RuleStep] = []
    known: dict[Node, int] = {source: ~number for number, source in enumerate(sources)}
    waiting = [value_of(result)]
    while waiting:
        node = waiting[-1]
        if node in known:
            waiting.pop()
            continue
        if node.op.kind != ELEMENTWISE or node.params is not None or node.shape != (2,):
            return None
        missing = [i for i in node.inputs if i.op is not SCALAR_OP and i not in known]
        if missing:
            waiting += missing
            continue
        operands: list[Any] = [known.get(i, (i.params, i.dtype)) for i in node.inputs]
        known[node] = len(steps)
        steps.append(RuleStep(node.op, node.dtype, operands))
    return steps if len(steps) <= MOST_OPERATIONS and len(sources) <= MOST_SOURCES else None


def _row_for(
    name: str, op: Primitive, steps: list[RuleStep], sources: tuple[int, ...]
) -> DirectVjp:
    """The op that computes what a rule records, and its operands: an existing op, or a new one."""
    if not steps:
        return DirectVjp(None, sources[:1])
    only = steps[0]
    numbers = [operand for operand in only.operands if isinstance(operand, int)]
    if len(steps) == 1 and len(numbers) == len(only.operands):
        return DirectVjp(only.op, tuple([sources[~number] for number in numbers]))
    names = ["g", *["result" if n < 0 else op.operands[n] for n in sources[1:]]]
    made = define(
        name,
        kind="elementwise",
        operands=" ".join(names),
        reference=_numpy_of(steps),
        vjp=_DIFFERENTIATED_ELSEWHERE,
        domain=["real", *["positive" if n < 0 else op.domain[n] for n in sources[1:]]],
        lower=_lowering_of(steps),
        dtypes="float",
    )
    OPERATIONS[name] = tuple(step.op.name for step in steps)
    return DirectVjp(made, sources)


def _evaluated(
    steps: list[RuleStep],
    given: tuple[object, ...],
    apply: Callable[[RuleStep, list[Any]], Any],
    number: Callable[[Any, Any], Any],
) -> Any:
    """The last step's value, from those that the rule reads."""
    values: list[Any] = []
    for step in steps:
        operands = [
            number(*operand)
            if isinstance(operand, tuple)
            else values[operand]
            if operand >= 0
            else given[~operand]
            for operand in step.operands
        ]
        values.append(apply(step, operands))
    return values[-1]


def _numpy_of(steps: list[RuleStep]) -> Rule:
    """The meaning in NumPy."""

    def reference(*given: Array) -> Any:
        return _evaluated(
            steps,
            given,
            lambda step, operands: step.op.reference(*operands),
            lambda number, _: number,
        )

    return reference


def _lowering_of(steps: list[RuleStep]) -> Rule:
    """The lowering: that of each operation, in the type of the kernel where the rule's is a float."""

    def lower(emitter: Emitter, dtype: str, *given: SimdValue) -> Any:
        def name_of(found: Any) -> str:
            return dtype if found.category == 2 else str(found.name)

        return _evaluated(
            steps,
            given,
            lambda step, operands: step.op.lower(emitter, name_of(step.dtype), *operands),
            lambda number, found: emitter.constant(number, name_of(found)),
        )

    return lower
