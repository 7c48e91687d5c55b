"""How many nodes live, without what other tests left."""

from __future__ import annotations

import gc

import weft
from weft.engine.frontend.node_factory import count_live_nodes


def settled_count() -> int:
    """The number of nodes once neither collections nor runs free more. A collection may free only one layer of what
    other tests left: the collector does not see what nodes hold."""
    before = -1
    while before != count_live_nodes():
        before = count_live_nodes()
        gc.collect()
        weft.realize()
    return before
