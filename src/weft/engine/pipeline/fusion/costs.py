# cython: language_level=3
"""The cost model of recomputation: what it costs to compute a value again, and what storing it would cost.

Both are counted in additions, for each element. A value costs what its operations do, and each operand that they read;
one that is read within the chain costs nothing more. The prices are the device's (`Tuning.costs`). They decide between
equal bits, and never between values.
"""

import cython
from cython.cimports.weft.engine.devices.tuning import Costs
from cython.cimports.weft.engine.ir.node import Node

from weft._build.compiled import require
from weft.ops.direct_vjps import OPERATIONS

require(__name__, cython.compiled)


@cython.ccall
def cost_of(costs: Costs, node: Node) -> cython.double:
    """What a node costs whose operands are all read."""
    return _own_cost(costs, node.op.name) + costs.read * len(node.inputs)


@cython.cfunc
def _own_cost(costs: Costs, name: str) -> cython.double:
    """What the operation of a name costs; the row of a derivative rule as much as the operations of the rule."""
    own = costs.operations.get(name)
    parts: tuple = OPERATIONS.get(name) if own is None else None
    if parts is None:
        return costs.other_operation if own is None else own
    total: cython.double = 0
    for part in parts:
        total += _own_cost(costs, part)
    return total
