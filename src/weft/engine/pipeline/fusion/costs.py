# cython: language_level=3
"""The cost model of rematerialization: computing a value again against storing it.

Both are counted in additions per element. A value costs its operations and each operand that they read; an operand
that is computed within the chain costs nothing more. The prices are the device's (`Tuning.costs`). They decide between
programs of equal bits, and never change values.
"""

import cython
from cython.cimports.weft.engine.devices.tuning import Costs
from cython.cimports.weft.engine.ir.node import Node

from weft._build.compiled import require
from weft.ops.direct_vjps import OPERATIONS

require(__name__, cython.compiled)


@cython.ccall
def cost_of(costs: Costs, node: Node) -> cython.double:
    """The cost of a node whose operands are all read from memory."""
    return _own_cost(costs, node.op.name) + costs.read * len(node.inputs)


@cython.cfunc
def _own_cost(costs: Costs, name: str) -> cython.double:
    """The cost of an operation by name; a derivative rule costs as much as the operations of which it is made."""
    own = costs.operations.get(name)
    parts: tuple = OPERATIONS.get(name) if own is None else None
    if parts is None:
        return costs.other_operation if own is None else own
    total: cython.double = 0
    for part in parts:
        total += _own_cost(costs, part)
    return total
