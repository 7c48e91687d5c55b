# cython: language_level=3
"""Connectionist temporal classification (CTC): sums over alignments, as logarithms in float64, example by example.

They take log probabilities (T, N, C), padded targets (N, S), and the numbers of steps and targets of each example, and
return losses (N) and their derivatives by the log probabilities (T, N, C). An alignment passes through the states of
its example, a blank before, between and after its targets: state 2 i + 1 is target i. Each step keeps a state, moves
on by one, or leaves out the blank between different targets. Source: Graves et al. (2006), sections 4.1 and 4.2.
"""

import math

import cython
import numpy as np
from cython.cimports.libc.math import exp, isinf, log1p

from weft._build.compiled import require

require(__name__, cython.compiled)

NEVER = cython.declare(cython.double, -math.inf)  # the log of a probability of 0
LOG_2 = cython.declare(cython.double, math.log(2))
UNKNOWN = cython.declare(cython.double, math.nan)


@cython.cfunc
@cython.nogil
@cython.exceptval(check=False)
def either(x: cython.double, y: cython.double) -> cython.double:
    """log(exp(x) + exp(y))."""
    if x == y:
        return x + LOG_2
    if x > y:
        return x if y == NEVER else x + log1p(exp(y - x))
    if x < y:
        return y if x == NEVER else y + log1p(exp(x - y))
    return UNKNOWN


def stranger(
    targets: cython.longlong[:, :], labels: cython.longlong[::1], classes: cython.Py_ssize_t
):
    """The first target of an example that is outside the classes 0 .. classes - 1; None if all are inside."""
    n: cython.Py_ssize_t
    i: cython.Py_ssize_t
    for n in range(labels.shape[0]):
        for i in range(labels[n]):
            if not 0 <= targets[n, i] < classes:
                return targets[n, i]
    return None


@cython.final
@cython.cclass
class Alignments:
    """The alignments of one batch, whose arrays have been checked: at most T steps and S targets of known classes."""

    logs: cython.double[:, :, ::1]  # (T, N, C)
    targets: cython.longlong[:, :]  # (N, S), anything behind an example's own
    lengths: cython.longlong[::1]  # steps of each example
    labels: cython.longlong[::1]  # targets of each example
    blank: cython.Py_ssize_t
    begun: cython.double[
        :, :, ::1
    ]  # (N, T, states): sums over what ends in a state with a step; see `losses`
    found: cython.double[::1]  # the losses

    def __init__(self, logs, targets, lengths, labels, blank):
        """Arrays that can be written: `logs` of float64, the others of int64."""
        self.logs, self.targets, self.lengths, self.labels = logs, targets, lengths, labels
        self.blank = blank

    def losses(self, keep):
        """-log of the sum over all alignments of each example: an array (N). With `keep`, `gradient` may follow."""
        steps, examples = len(self.logs), len(self.labels)
        parts, rows = (examples if keep else 1), (steps if keep else 2)
        self.begun = np.empty((parts, rows, 2 * self.targets.shape[1] + 1))
        result = np.empty(examples)
        self.found = result
        n = cython.declare(cython.Py_ssize_t)
        with cython.nogil:
            for n in range(examples):
                self.found[n] = self._loss(n)
        return result

    @cython.cfunc
    @cython.nogil
    @cython.exceptval(check=False)
    def _class_of(self, n: cython.Py_ssize_t, state: cython.Py_ssize_t) -> cython.Py_ssize_t:
        return self.targets[n, state >> 1] if state & 1 else self.blank

    @cython.cfunc
    @cython.nogil
    @cython.exceptval(check=False)
    def _skips_to(self, n: cython.Py_ssize_t, state: cython.Py_ssize_t) -> cython.bint:
        """True if the blank before a state may be left out."""
        if not state & 1 or state < 3:
            return False
        return self.targets[n, state >> 1] != self.targets[n, (state >> 1) - 1]

    @cython.cfunc
    @cython.nogil
    @cython.exceptval(check=False)
    def _loss(self, n: cython.Py_ssize_t) -> cython.double:
        """The loss of one example; fills its part of `begun`, or alternates between two rows."""
        last: cython.Py_ssize_t = 2 * self.labels[n]
        steps: cython.Py_ssize_t = self.lengths[n]
        part: cython.Py_ssize_t = n % self.begun.shape[0]
        rows: cython.Py_ssize_t = self.begun.shape[1]
        step: cython.Py_ssize_t
        if steps == 0:
            return -NEVER if last else 0.0
        self._first_step(n, cython.address(self.begun[part, 0, 0]))
        for step in range(1, steps):
            self._next_step(
                n,
                step,
                cython.address(self.begun[part, (step - 1) % rows, 0]),
                cython.address(self.begun[part, step % rows, 0]),
            )
        final: cython.p_double = cython.address(self.begun[part, (steps - 1) % rows, 0])
        return -either(final[last], final[last - 1] if last else NEVER)

    @cython.cfunc
    @cython.nogil
    @cython.exceptval(check=False)
    def _first_step(self, n: cython.Py_ssize_t, sums: cython.p_double) -> cython.void:
        state: cython.Py_ssize_t
        for state in range(2 * self.labels[n] + 1):
            sums[state] = self.logs[0, n, self._class_of(n, state)] if state < 2 else NEVER

    @cython.cfunc
    @cython.nogil
    @cython.exceptval(check=False)
    def _next_step(
        self,
        n: cython.Py_ssize_t,
        step: cython.Py_ssize_t,
        before: cython.p_double,
        sums: cython.p_double,
    ) -> cython.void:
        state: cython.Py_ssize_t
        for state in range(2 * self.labels[n] + 1):
            total: cython.double = before[state]
            if state > 0:
                total = either(total, before[state - 1])
            if self._skips_to(n, state):
                total = either(total, before[state - 2])
            sums[state] = total + self.logs[step, n, self._class_of(n, state)]

    def gradient(self, dead):
        """exp(logs) less the share of alignments that emit each class at each step: an array (T, N, C), zero behind
        the steps of an example, and `dead` in all steps of one without alignments. `losses` has kept its sums."""
        result = np.exp(self.logs)
        into: cython.double[:, :, ::1] = result
        shares: cython.double[::1] = np.empty(self.logs.shape[2])
        ends: cython.double[:, ::1] = np.empty((2, 2 * self.targets.shape[1] + 3))
        value: cython.double = dead
        n: cython.Py_ssize_t
        with cython.nogil:
            for n in range(self.logs.shape[1]):
                into[self.lengths[n] :, n] = 0
                if isinf(self.found[n]):
                    into[: self.lengths[n], n] = value
                else:
                    self._subtract(n, into, shares, ends)
        return result

    @cython.cfunc
    @cython.nogil
    @cython.exceptval(check=False)
    def _subtract(
        self,
        n: cython.Py_ssize_t,
        into: cython.double[:, :, ::1],
        shares: cython.double[::1],
        ends: cython.double[:, ::1],
    ) -> cython.void:
        """Take the shares of one example's classes from `into`. `ends` is room for two rows of sums over what begins
        in a state with a step, with two more states that nothing begins in."""
        step: cython.Py_ssize_t
        symbol: cython.Py_ssize_t
        ends[:, 2 * self.labels[n] + 1 :] = NEVER
        for step in range(self.lengths[n] - 1, -1, -1):
            shares[:] = 0
            self._share(
                n,
                step,
                cython.address(ends[(step + 1) & 1, 0]),
                cython.address(ends[step & 1, 0]),
                cython.address(shares[0]),
            )
            for symbol in range(shares.shape[0]):
                into[step, n, symbol] -= shares[symbol]

    @cython.cfunc
    @cython.nogil
    @cython.exceptval(check=False)
    def _share(
        self,
        n: cython.Py_ssize_t,
        step: cython.Py_ssize_t,
        after: cython.p_double,
        sums: cython.p_double,
        shares: cython.p_double,
    ) -> cython.void:
        """The sums over what begins in each state with a step, by those of the step after it; add what share of all
        alignments passes through a state to its class."""
        last: cython.Py_ssize_t = 2 * self.labels[n]
        is_last: cython.bint = step == self.lengths[n] - 1
        state: cython.Py_ssize_t
        for state in range(last + 1):
            symbol: cython.Py_ssize_t = self._class_of(n, state)
            emitted: cython.double = self.logs[step, n, symbol]
            if is_last:
                total: cython.double = 0.0 if state >= last - 1 else NEVER
            else:
                total = either(after[state], after[state + 1])
                if state + 2 <= last and self._skips_to(n, state + 2):
                    total = either(total, after[state + 2])
            sums[state] = total = total + emitted
            both: cython.double = self.begun[n, step, state] + total - emitted + self.found[n]
            if both == both:
                shares[symbol] += exp(both)
