# cython: language_level=3
"""The mode of a thread or a fiber: the ambient state under which operations are recorded (dynamic scope).

`Mode` has what every recorded operation asks; its `Contexts`, mostly None, has what only few contexts set. A context
puts its own `Contexts` over the surrounding ones, and restores these when it is left.
"""

import os

import cython

from weft._build.compiled import require

require(__name__, cython.compiled)

_eager_from_the_start: cython.bint = os.environ.get("WEFT_EAGER") == "1"


@cython.final
@cython.cclass
class Contexts:
    """The settings of contexts; those of `around` where none is given.

    Args:
        anomaly: True in anomaly mode.
        any_size: Who records what must not depend on sizes, since it is to hold for others too (`weft.ops.any_size`).
        checkpoint_policy: The policy of selective checkpointing; it is asked about each record.
        hooks_disabled: The reason why no hooks on saved tensors may be entered.
        mapping: The `vmap` whose function is being traced.
        randomness: The maps around, outermost first, that are told of random numbers.
        recomputation_group: The group of walks that use one recomputation.
        refuse_reads: Makes the error of reading a node's value; None where it may be read.
        transform: The name of the function transform that decides what is differentiated.
        transposing: True if the result of a rule is only transposed, into a tangent.
        note_write: Called with a storage and its new value."""

    def __init__(
        self,
        around: Contexts = None,
        *,
        anomaly=None,
        any_size=None,
        checkpoint_policy=None,
        hooks_disabled=None,
        mapping=None,
        randomness=None,
        recomputation_group=None,
        refuse_reads=None,
        transform=None,
        transposing=None,
        note_write=None,
    ):
        if around is not None:
            self._take(around)
        self.anomaly = self.anomaly if anomaly is None else anomaly
        self.any_size = self.any_size if any_size is None else any_size
        self.checkpoint_policy = (
            self.checkpoint_policy if checkpoint_policy is None else checkpoint_policy
        )
        self.hooks_disabled = self.hooks_disabled if hooks_disabled is None else hooks_disabled
        self.mapping = self.mapping if mapping is None else mapping
        self.randomness = self.randomness if randomness is None else randomness
        self.recomputation_group = (
            self.recomputation_group if recomputation_group is None else recomputation_group
        )
        self.refuse_reads = self.refuse_reads if refuse_reads is None else refuse_reads
        self.transform = self.transform if transform is None else transform
        self.transposing = self.transposing if transposing is None else transposing
        self.note_write = self.note_write if note_write is None else note_write

    @cython.cfunc
    def _take(self, around: Contexts) -> cython.void:
        self.anomaly, self.checkpoint_policy = around.anomaly, around.checkpoint_policy
        self.any_size = around.any_size
        self.hooks_disabled, self.mapping = around.hooks_disabled, around.mapping
        self.randomness, self.recomputation_group = around.randomness, around.recomputation_group
        self.refuse_reads, self.transform = around.refuse_reads, around.transform
        self.transposing, self.note_write = around.transposing, around.note_write


@cython.final
@cython.cclass
class Mode:
    """All ambient state of one line of execution: grad mode, inference mode, eager, anomaly, the number of the running
    walk and whether its targets were chosen, hooks on saved values (outermost pair first), levels of
    forward mode, what few contexts ask for, and the fiber of `weft.map` that it belongs to. `intact` is how many
    contexts of that name it is in, `scope` the call of library code that records (`engine.capi.call_site`)."""

    def __cinit__(self):
        self.grad = True
        self.inference = False
        self.eager = _eager_from_the_start
        self.anomaly = False
        self.walk = 0
        self.chosen = False
        self.intact = 0
        self.duals = None
        self.saved_hooks = None
        self.contexts = None
        self.fiber = None

    def copy(self):
        """The same state, to go on with separately."""
        mode: Mode = Mode()
        mode.grad, mode.inference, mode.eager = self.grad, self.inference, self.eager
        mode.anomaly, mode.walk, mode.chosen = self.anomaly, self.walk, self.chosen
        mode.intact = self.intact
        mode.duals, mode.saved_hooks = self.duals, self.saved_hooks
        mode.contexts, mode.fiber = self.contexts, self.fiber
        return mode

    def is_plain(self):
        """True if nothing watches or changes what is recorded: no forward mode, no hooks on saved tensors, no
        backward, no fiber, and no mode in which records differ."""
        if self.eager or self.inference or self.anomaly or self.walk != 0:
            return False
        return self.is_untransformed() and self.fiber is None and not self.saved_hooks

    def is_untransformed(self):
        """True if gradients alone follow what is computed: no forward mode, and no context."""
        return self.contexts is None and self.duals is None
