# cython: language_level=3
"""Collectives as nodes: operations in which other processes take part, recorded like any other.

A flush is cut at them (`engine.pipeline.partition.segments`): as soon as their operands are there the carrier begins
them, and what reads their results waits. The carrier is what brings bytes to other processes (`weft.distributed`); the
parameters of a node say what it needs to know, and have `size`, the number of processes, and `result_shape`. Those that
nobody holds are carried out, too: the other processes wait for them.
"""

import time

import cython
from cython.cimports.libc.stdint import int64_t
from cython.cimports.weft.engine.capi.clock import now
from cython.cimports.weft.engine.devices.trace import COLLECTIVE, put_payload, tracing
from cython.cimports.weft.engine.ir.node import Node

from weft._build.compiled import require

require(__name__, cython.compiled)

used = False
recorded: dict = {}  # by identity, those that have been recorded here and have no value yet
_carrier = None
_notes: list = []  # lists of those who watch
_listeners: list = []  # functions that are told what has been recorded


class Passage:
    """Collectives that began together: what, bytes, and seconds under way and waited for. For `weft.explain`."""

    def __init__(self, nodes: list) -> None:
        self.nodes = list(nodes)
        self.what, self.where = nodes[0].params.name, nodes[0].where
        self.count = len(nodes)
        self.nbytes = sum([node.numel * node.dtype.itemsize for node in nodes])
        self.began = time.perf_counter()
        self.under_way_s = self.waited_s = 0.0


def set_carrier(carrier) -> None:
    """Say who brings bytes to other processes. `carrier.begin(nodes)` starts those that it has not started yet, in this
    order; `carrier.take(node)` waits, and gives the owner of the result's memory and where in it the result begins, or
    an error, which the node gets."""
    global _carrier
    _carrier = carrier


def watch(notes: list, change: cython.int) -> None:
    """From now on (+1) append what begins to a list of passages, or no longer (-1)."""
    if change > 0:
        _notes.append(notes)
    else:
        _notes[:] = [kept for kept in _notes if kept is not notes]


def listen(listener, change: cython.int) -> None:
    """From now on (+1) call a function with the name of each collective that is recorded, or no longer (-1)."""
    if change > 0:
        _listeners.append(listener)
    else:
        _listeners.remove(listener)


@cython.cfunc
def note(node: Node) -> cython.void:
    """A collective has been recorded."""
    global used
    used = True
    recorded[id(node)] = node
    for listener in _listeners:
        listener(node.params.name)


def begin(nodes: list) -> None:
    """Begin collectives whose operands are there."""
    away: list = [node for node in nodes if node.params.size > 1]
    if tracing:
        at: int64_t = now()
        for node in away:
            put_payload(COLLECTIVE, at, at, ("begin", node.params.name, node.seq), node.nbytes)
    if away:
        if _notes:
            passage = Passage(away)
            for notes in _notes:
                notes.append(passage)
        _carrier.begin(away)


def take(node: Node):
    """Wait for a result: the owner of its memory and where in it the result begins, or an error."""
    if tracing:
        began: int64_t = now()
        try:
            return _taken(node)
        finally:
            put_payload(COLLECTIVE, began, now(), ("wait", node.params.name, node.seq), node.nbytes)
    return _taken(node)


@cython.cfunc
def _taken(node: Node):
    if not _notes:
        return _carrier.take(node)
    before: cython.double = time.perf_counter()
    outcome = _carrier.take(node)
    after: cython.double = time.perf_counter()
    for notes in _notes:
        for passage in notes:
            if node in passage.nodes:
                passage.nodes.remove(node)
                passage.waited_s += after - before
                passage.under_way_s = after - passage.began
    return outcome


def forget(node: Node) -> None:
    """A collective has its result, or has failed."""
    recorded.pop(id(node), None)
