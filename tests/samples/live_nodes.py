"""How many nodes live, without what other tests left."""

from __future__ import annotations

import gc

from weft.engine.frontend.node_factory import count_live_nodes


def settled_count() -> int:
    """The number of nodes once collections free no more. Each may free only one layer of what tests before left: the
    collector does not see what nodes hold."""
    before = -1
    while before != count_live_nodes():
        before = count_live_nodes()
        gc.collect()
    return before
