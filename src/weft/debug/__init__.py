"""Views of the record: `graph_text` prints it, `draw` draws it, `stages` shows each stage of the pipeline.

Nothing here changes what is recorded or runs it. `weft.explain` (in `explanation`) tells which operations ran in which
batch, and why. Start with `stages`.
"""

from weft.debug.drawing import draw
from weft.debug.graph import Entry, collect_graph, graph_text
from weft.debug.stages import stages

__all__ = ["Entry", "collect_graph", "draw", "graph_text", "stages"]
