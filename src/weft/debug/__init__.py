"""Looking at what was recorded: `graph_text` prints it, `draw` draws it, `stages` shows what the pipeline makes of it.

In come tensors and functions; out go texts and SVG files. Nothing here changes what is recorded or runs it. What ran
in which batch, and why, says `weft.explain` (in `explanation`). Start with `stages`.
"""

from weft.debug.drawing import draw
from weft.debug.graph import Entry, collect_graph, graph_text
from weft.debug.stages import stages

__all__ = ["Entry", "collect_graph", "draw", "graph_text", "stages"]
