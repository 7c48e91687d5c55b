"""The rows of the op table in ONNX: for each a function of the graph and one operation, which adds nodes to it.

`table` holds them, and the words for what has none; `elementwise`, `structure`, `reductions`, `contractions` and
`composites` fill it, as the rooms of `weft.ops` do.
"""

from weft.onnx.operators import (  # noqa: F401 - they fill the table
    composites,
    contractions,
    elementwise,
    reductions,
    structure,
)
from weft.onnx.operators.table import TABLE, RecordedOperation, is_one, refusal

__all__ = ["TABLE", "RecordedOperation", "is_one", "refusal"]
