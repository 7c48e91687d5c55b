# cython: language_level=3
"""The cost model of recomputation: what it costs to compute a value again, and what storing it would cost.

Both are counted in additions, for each element. A value costs what its operations do, and each operand that they read;
one that is read within the chain is not read, and costs no `READ`. Rough measures of vectors of float32 on
current processors. They decide between equal bits, and never between values.
"""

import cython
from cython.cimports.weft.engine.ir.node import Node

from weft._build.compiled import require

require(__name__, cython.compiled)

_SIMPLE = (
    "add sub mul neg abs square cube cast eq ne lt le gt ge where maximum minimum clamp_min clamp_max relu sign "
    "logical_and logical_or logical_not logical_xor bitwise_and bitwise_or bitwise_xor bitwise_not isnan isinf "
    "isfinite real imag conj complex clone floor ceil trunc round iota"
)
COSTS: dict = {
    **dict.fromkeys(_SIMPLE.split(), 1.0),
    "div": 8.0,
    "reciprocal": 8.0,
    "sqrt": 8.0,
    "rsqrt": 9.0,
    "exp": 12.0,
    "normal_float32": 120.0,
    "normal_float64": 240.0,
}
UNKNOWN = 30.0  # of any other
READ = 1.0  # an operand
IN_MEMORY = 7.0  # storing a value in memory and reading it: three additions in a chain cost no more, a division does
IN_CACHE = 5.0  # and in a row of local memory


@cython.ccall
def cost_of(node: Node) -> cython.double:
    """What a node costs whose operands are all read."""
    return COSTS.get(node.row.name, UNKNOWN) + READ * len(node.inputs)
