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

require(__name__, cython.compiled)


@cython.ccall
def cost_of(costs: Costs, node: Node) -> cython.double:
    """What a node costs whose operands are all read."""
    own: cython.double = costs.operations.get(node.row.name, costs.other_operation)
    return own + costs.read * len(node.inputs)
