# cython: language_level=3
"""Critical sections that no signal handler can leave half done.

Python runs signal handlers between any two lines of interpreted code, and a handler may raise: Ctrl-C between the
updates of two parameters would leave a model of which half has made a step. In a section the handlers that may raise
wait until its end; a second signal of the same kind does not wait, so that a section that hangs can be left. Compiled,
so that entering and leaving cannot be interrupted either. The pipeline runs outside of sections: it may be interrupted
at any kernel, and resumes there.
"""

import _signal  # the C functions behind `signal`, whose wrappers are interpreted

import cython

from weft._build.compiled import require

require(__name__, cython.compiled)

_WAITING = (_signal.SIGINT, _signal.SIGTERM, _signal.SIGALRM)


@cython.cclass
class _Later:
    """A handler that remembers the first signal and hands on the second."""

    number: cython.int
    previous: object
    arrived: cython.bint

    def __cinit__(self, number: cython.int, previous):
        self.number = number
        self.previous = previous

    def __call__(self, number, frame):
        if self.arrived:
            self.previous(number, frame)
        self.arrived = True


@cython.cclass
class uninterrupted:  # noqa: N801 - a context, as no_grad is
    """A context in which signal handlers wait. On other threads than the main one there are none to wait for."""

    waiting: list

    def __enter__(self):
        self.waiting = []
        try:
            for number in _WAITING:
                previous = _signal.getsignal(number)
                if callable(previous):
                    later: _Later = _Later(number, previous)
                    _signal.signal(number, later)
                    self.waiting.append(later)
        except ValueError:  # not the main thread
            return
        except BaseException:
            _restore(self.waiting)
            raise

    def __exit__(self, kind, error, traceback):
        raised = _restore(self.waiting)
        if raised is not None:
            raise raised
        later: _Later
        for later in self.waiting:
            if later.arrived:
                _signal.raise_signal(later.number)


@cython.cfunc
def _restore(waiting: list):
    """Put the former handlers back, whatever they raise on the way; what they raised, or None."""
    raised = None
    later: _Later
    for later in waiting:
        while True:
            try:
                _signal.signal(later.number, later.previous)
                break
            except BaseException as error:  # noqa: B036 - a handler put back before, called by `signal`
                raised = error
    return raised


def undisturbed(function, *operands):
    """(result, exception) of an interpreted function without side effects; a signal handler's exception is returned,
    for the caller to raise later: between a program's end and its commit, inputs may have been overwritten."""
    raised = None
    while True:
        try:
            return function(*operands), raised
        except BaseException as error:  # noqa: B036 - handed to the caller
            if raised is not None:
                raise
            raised = error
