"""Views of the record: `graph_text` prints it, `draw` draws it, `stages` shows each stage of the pipeline; `capture`
writes it into a capsule, which another process runs again.

Nothing here changes what is recorded. `weft.explain` (in `explanation`) tells which operations ran in which batch, and
why. Start with `stages`.
"""

from weft.debug.breakpoints.watch import watch
from weft.debug.capsules.capsule import load_capsule
from weft.debug.capsules.capture import capture
from weft.debug.capsules.python_export import primitive, to_python
from weft.debug.capsules.reduction import reduce_capsule
from weft.debug.drawing import draw
from weft.debug.graph import Entry, collect_graph, graph_text
from weft.debug.stages import stages
from weft.debug.stepper import stepper
from weft.debug.why import why, why_grad

__all__ = [
    "Entry", "capture", "collect_graph", "draw", "graph_text", "load_capsule", "primitive", "reduce_capsule", "stages",
    "stepper", "to_python", "watch", "why", "why_grad",
]  # fmt: skip
