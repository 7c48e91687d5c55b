# cython: language_level=3
"""The choice between tiers: whether a flush runs node by node or is scheduled (a JIT's tier-up policy).

In: a flush's nodes, and how its structure has come before. Out: estimates of what each tier takes (`Estimate`), how a
structure comes (`recurrence`), and what interpreting it has cost so far. The rule is that of ski rental, to rent until
the rent paid is the price: a flush is interpreted until what that has cost, beyond running it as a known program,
reaches what scheduling it costs. Whatever comes then, the two together are at most twice the least that there was. For
a structure that comes back soon a quarter of the price is enough: training steps do, and go on for long. No bit of a
value depends on any of this.

`counters` holds what was estimated and what became of it: a program whose runs have not spared yet what scheduling it
took was a misprediction, so far.
"""

import cython
from cython.cimports.weft.engine.capi.hashing import mix
from cython.cimports.weft.engine.devices.api import default_device
from cython.cimports.weft.engine.devices.tuning import Tiering
from cython.cimports.weft.engine.ir.node import PENDING, Node
from cython.cimports.weft.engine.pipeline.fingerprint import NEW, SELDOM, SOON, FlushFingerprint
from cython.cimports.weft.engine.replay.look_table import LookTable
from cython.cimports.weft.engine.runtime.commit import FlushCounters
from cython.cimports.weft.engine.runtime.tier_choice import Estimate

from weft._build.compiled import require
from weft.engine.ir.primitive import (
    CONTRACT,
    ELEMENTWISE,
    INDEX,
    REDUCE,
    REGION,
    SCATTER,
    SOURCE,
    VIEW,
)
from weft.engine.runtime import commit as outcomes

require(__name__, cython.compiled)

_elementwise = cython.declare(cython.int, ELEMENTWISE)
_reduce = cython.declare(cython.int, REDUCE)
_view = cython.declare(cython.int, VIEW)
_contract = cython.declare(cython.int, CONTRACT)
_index = cython.declare(cython.int, INDEX)
_scatter = cython.declare(cython.int, SCATTER)
_region = cython.declare(cython.int, REGION)
_source = cython.declare(cython.int, SOURCE)

# By structure: how many flushes had run when it came last, and what it has lost, in units of LOST_NS.
_arrivals = cython.declare(LookTable, LookTable(1 << 16))
_tally = cython.declare(FlushCounters, outcomes.counters)
LOST_NS = cython.declare(cython.double, 16)
_LOST_BITS = cython.declare(cython.int, 28)
_MOST_LOST = cython.declare(cython.longlong, (1 << 28) - 1)

# By look (`_look_of`): how many flushes are not tried yet, and how many in a row had too many unknown nodes.
LOOKS = cython.declare(cython.Py_ssize_t, 256)
_put_off = cython.declare(list, [0] * 256)
_in_a_row = cython.declare(list, [0] * 256)


@cython.final
@cython.cclass
class TierCounters:
    """Counts of flushes that were interpreted, of programs that were scheduled and how many of these have repaid it,
    with the estimated nanoseconds that each took, read as a mapping."""

    def __getitem__(self, name: str) -> float:
        return dict(self)[name]

    def __iter__(self):
        yield "interpreted", self.interpreted
        yield "lost_ns", self.lost_ns
        yield "scheduled", self.scheduled
        yield "scheduled_ns", self.scheduled_ns
        yield "repaid", self.repaid


_counters = cython.declare(TierCounters, TierCounters())
counters = _counters


# -- what each tier takes -------------------------------------------------------------------------------------------


@cython.cfunc
@cython.exceptval(check=False)
def begin(estimate: cython.pointer(Estimate), tuning: Tiering) -> cython.void:
    """Begin an estimate with what a flush without nodes takes."""
    estimate.first_ns = estimate.again_ns = estimate.known_ns = 0
    estimate.schedule_ns = tuning.schedule_flush_ns


@cython.cfunc
@cython.exceptval(check=False)
def weigh(estimate: cython.pointer(Estimate), node: Node, tuning: Tiering) -> cython.void:
    """Add what one node takes in each tier."""
    kind: cython.int = node.op.kind
    if kind == _view or node.quotient is not None:  # a member of a batch is a view of it
        estimate.first_ns += tuning.view_ns
        estimate.again_ns += tuning.view_ns
        estimate.schedule_ns += tuning.schedule_view_ns
        return
    traffic: cython.double = tuning.traffic_ns_of_a_kb / 1024 * bytes_kept(node)
    again_ns: cython.double = tuning.call_ns
    first_ns: cython.double = tuning.call_ns
    known_ns: cython.double = tuning.known_ns
    if kind in (_contract, _index, _scatter, _region, _source):
        parts: cython.Py_ssize_t = max(0, len(node.inputs) - 2) if kind == _region else 0
        first_ns = again_ns = tuning.direct_ns + parts * tuning.call_ns
        known_ns += parts * tuning.launch_ns
    elif not is_loop(node):
        first_ns, again_ns = tuning.lower_ns, tuning.lowered_ns
    estimate.first_ns += traffic + first_ns
    estimate.again_ns += traffic + again_ns
    estimate.schedule_ns += tuning.schedule_ns
    estimate.known_ns += known_ns


@cython.cfunc
@cython.inline
@cython.exceptval(check=False)
def is_loop(node: Node) -> cython.bint:
    """True if a node is an elementwise operation or a reduction, which may be fused with others."""
    return node.op.kind == _elementwise or node.op.kind == _reduce


@cython.cfunc
@cython.exceptval(check=False)
def bytes_kept(node: Node) -> cython.longlong:
    """The bytes of a node's operands that fusion would keep in registers."""
    total: cython.longlong = 0
    source: Node
    if is_loop(node):
        for source in node.inputs:
            if source.state == PENDING and is_loop(source):
                total += source.numel * source.dtype.itemsize
    return total


@cython.cfunc
@cython.exceptval(check=False)
def estimate_of(nodes: list) -> Estimate:
    """The time that nodes take in each tier, together."""
    estimate: Estimate
    tuning: Tiering = default_device().tuning.tiering
    begin(cython.address(estimate), tuning)
    node: Node
    for node in nodes:
        weigh(cython.address(estimate), node, tuning)
    return estimate


@cython.cfunc
@cython.exceptval(check=False)
def spared_ns(estimate: cython.pointer(Estimate)) -> cython.double:
    """The time that a run of a known program spares."""
    return max(0.0, estimate.again_ns - estimate.known_ns)


# -- how structures come --------------------------------------------------------------------------------------------


@cython.ccall
@cython.exceptval(-1, check=False)
def recurrence(fingerprint: FlushFingerprint) -> cython.int:
    """The way a structure comes, which is noted: NEW, SELDOM (it came last long ago) or SOON."""
    if not fingerprint.complete:
        return NEW
    seen: cython.longlong = _arrivals.get(fingerprint.key.hash)
    lost: cython.longlong = max(0, seen) & _MOST_LOST
    _arrivals.put(fingerprint.key.hash, _tally.flushes << _LOST_BITS | lost)
    if seen < 0:
        return NEW
    tuning: Tiering = default_device().tuning.tiering
    return SOON if _tally.flushes - (seen >> _LOST_BITS) <= tuning.soon_flushes else SELDOM


@cython.cfunc
@cython.exceptval(-1, check=True)
def lost_ns(fingerprint: FlushFingerprint) -> cython.double:
    """The time that interpreting this structure has cost beyond running it as a known program."""
    return LOST_NS * (max(0, _arrivals.get(fingerprint.key.hash)) & _MOST_LOST)


@cython.cfunc
@cython.exceptval(-1, check=False)
def note_interpreted(fingerprint: FlushFingerprint, lost: cython.double) -> cython.int:
    """Note that interpreting this structure once more has cost so many nanoseconds."""
    _counters.interpreted += 1
    _counters.lost_ns += lost
    return add_lost(fingerprint, lost)


@cython.cfunc
@cython.exceptval(-1, check=False)
def add_lost(fingerprint: FlushFingerprint, lost: cython.double) -> cython.int:
    """Add nanoseconds to what interpreting a structure has cost."""
    seen: cython.longlong = _arrivals.get(fingerprint.key.hash)
    if seen < 0:
        return 0
    most: cython.longlong = _MOST_LOST - (seen & _MOST_LOST)
    return _arrivals.put(
        fingerprint.key.hash, seen + min(most, cython.cast(cython.longlong, lost / LOST_NS))
    )


# -- how much of what comes is unknown -------------------------------------------------------------------------------


def may_know_most(nodes: list) -> bool:
    """True if a flush is worth trying to interpret: after several flushes of its look with too many unknown nodes,
    fewer and fewer are tried."""
    look: cython.Py_ssize_t = _look_of(nodes)
    left: cython.int = _put_off[look]
    if left > 0:
        _put_off[look] = left - 1
    return left == 0


def note_misses(nodes: list, missed: cython.longlong) -> None:
    """A flush had so many unknown nodes."""
    tuning: Tiering = default_device().tuning.tiering
    too_many: cython.bint = missed * tuning.nodes_of_a_miss > len(nodes)
    look: cython.Py_ssize_t = _look_of(nodes)
    tries: cython.int = min(cython.cast(cython.int, _in_a_row[look]) + 1, tuning.most_tries)
    _in_a_row[look] = tries if too_many else 0
    _put_off[look] = 1 << tries if too_many and tries > tuning.free_tries else 0


@cython.cfunc
def _look_of(nodes: list) -> cython.Py_ssize_t:
    """A hash below LOOKS that similar flushes share: the number of nodes, and the ops of the first and the last."""
    first: Node = nodes[0]
    last: Node = nodes[len(nodes) - 1]
    h: cython.ulonglong = mix(mix(len(nodes), first.op.code), last.op.code)
    return (h >> 16) % LOOKS


# -- whether scheduling has paid -----------------------------------------------------------------------------------


@cython.final
@cython.cclass
class Debt:
    """The estimated cost of scheduling a program, which its runs repay."""

    @cython.cfunc
    @cython.exceptval(check=False)
    def run(self) -> cython.void:
        """The program has run once more."""
        if self.owed_ns > 0:
            self.owed_ns -= self.spared_ns
            if self.owed_ns <= 0:
                _counters.repaid += 1


@cython.cfunc
def debt_of(nodes: list) -> Debt:
    """The debt of a program that has just been scheduled for these nodes."""
    estimate: Estimate = estimate_of(nodes)
    debt: Debt = Debt()
    debt.owed_ns = estimate.schedule_ns
    debt.spared_ns = spared_ns(cython.address(estimate))
    _counters.scheduled += 1
    _counters.scheduled_ns += estimate.schedule_ns
    return debt


def text(counts: dict) -> str:
    """One line: what the tiers have done, of a difference of counters."""
    return (
        f"tiers: {counts['interpreted']} flushes node by node, about {counts['lost_ns'] / 1e6:.1f} ms slower than "
        f"known programs; {counts['scheduled']} programs kept, scheduled in about "
        f"{counts['scheduled_ns'] / 1e6:.1f} ms, which {counts['repaid']} have spared again"
    )


def clear():
    """Forget what has come."""
    _arrivals.clear()
    _put_off[:] = _in_a_row[:] = [0] * LOOKS
