# cython: language_level=3
"""`weft.map`: each example's Python code runs in a fiber of its own, and reading a value makes a fiber wait.

It returns the results of a function on examples, in order. A `Hub` is one call: it runs each fiber until it reads a
value that is still pending (`wait`, called by the pipeline), and when all wait, it runs everything that they have
recorded as one batch, and resumes them in order. All ambient state goes with the fiber: its `Mode`, its random
numbers, its context variables, its requests for explanations. Fibers are greenlets; finished ones are kept for the
next call, because making one costs more than ten switches.

A hub inside a fiber lets that fiber wait when all of its own do, so that nested maps batch with their surroundings.
Compiled, so that a signal is handled in the user's code or in a flush, never between two lines of a hub.
"""

from _thread import _local as thread_local
from collections.abc import Mapping
from contextvars import copy_context
from operator import index, length_hint
from types import ModuleType

import cython
from cython.cimports.weft.engine.frontend.tensor import Tensor
from cython.cimports.weft.engine.ir.mode import Mode
from cython.cimports.weft.engine.ir.tape import current_tape
from greenlet import GreenletExit, getcurrent, greenlet

from weft._build.compiled import require
from weft._build.worker import serve
from weft._progress import shown
from weft.config import config
from weft.engine.ir.tape import last_sequence
from weft.engine.pipeline.driver import run_tape
from weft.errors import ArgumentError, ArgumentTypeError, MutationError
from weft.functional.random.generator import default_generator, stream_of_example

require(__name__, cython.compiled)

MOST_AT_ONCE = 1024
_ALL = 1 << 60
_KEPT_WORKERS = cython.declare(cython.Py_ssize_t, 256)
_thread = thread_local()


@cython.final
@cython.cclass
class Hub:
    """One call of `map`: its fibers, those that wait, and what has come of the others."""

    def __cinit__(
        self,
        function,
        iterator,
        bound: cython.Py_ssize_t,
        keep_errors: cython.bint,
        called: str = "weft.map",
        first: cython.Py_ssize_t = 0,
    ):
        self.function, self.iterator, self.called, self.first = function, iterator, called, first
        self.bound, self.keep_errors = bound, keep_errors
        self.tape = current_tape()
        self.mode = self.tape.mode
        self.outer = self.mode.fiber
        self.greenlet = getcurrent()
        self.workers = _workers_of_thread()
        self.results, self.waiting = [], []
        self.start = last_sequence()
        self.drawn = set()
        self.bases = {default_generator: tuple(default_generator.place())}

    def run(self):
        """All examples; the error that a plain loop would have met first."""
        try:
            self.fill()
            while self.waiting:
                self.compute()
                self.advance()
                self.fill()
        finally:
            self.tape.mode = self.mode
            self.close(self.waiting)
            for generator in self.drawn:
                generator.place()[1] += 1
        error, self.error = self.error, None
        if error is not None:
            raise error
        return self.results

    def fill(self):
        """Start examples until as many run as may."""
        while not self.exhausted and self.alive < self.bound:
            try:
                example = next(self.iterator)
            except StopIteration:
                self.exhausted = True
            except Exception as error:
                self.exhausted = True
                self.error = error
            else:
                fiber: Fiber = Fiber(self, len(self.results), example)
                self.results.append(None)
                self.alive += 1
                self.resume(fiber)

    def compute(self):
        """Run what is pending, now that everybody waits. An error of the run itself is raised where the first fiber
        reads."""
        if self.outer is not None and self.outer.wait():
            return
        previous = config.explain
        if self.explain is not None:
            config.explain = previous | self.explain
        try:
            run_tape(self.tape, None, "map")
        except Exception as error:
            cython.cast(Fiber, self.waiting[0]).thrown = error
        finally:
            if self.explain is not None:
                config.explain, self.explain = previous, None

    def advance(self):
        """Resume those that wait, oldest first, until each waits again or is done."""
        fibers: list = self.waiting
        self.waiting = []
        position: cython.Py_ssize_t = 0
        try:
            while position < len(fibers):
                fiber: Fiber = fibers[position]
                if fiber.index >= len(self.results):
                    break  # an earlier one has failed
                position += 1
                self.resume(fiber)
        finally:
            self.waiting.extend(fibers[position:])
        if self.error is not None:
            self.drop()

    def resume(self, fiber: Fiber):
        """Let a fiber run until it waits or ends."""
        explain = config.explain
        fiber.switch()
        self.tape.mode = self.mode
        if config.explain is not explain:
            config.explain = explain
        if fiber.done:
            self.alive -= 1
            self.settle(fiber)
        else:
            self.waiting.append(fiber)

    def settle(self, fiber: Fiber):
        """Keep the result of a fiber. Where it has failed, those of later examples end: a loop would not have come to
        them; earlier ones go on and may fail in their turn."""
        fiber.note_streams()
        error = fiber.error
        if error is None:
            self.results[fiber.index] = fiber.result
            return
        fiber.error = None
        error.add_note(f"{self.called}: raised by example {self.first + fiber.index}")
        if not isinstance(error, Exception):
            raise error
        if self.keep_errors:
            self.results[fiber.index] = error
            return
        self.error = error
        self.exhausted = True
        del self.results[fiber.index :]
        self.drop()

    def drop(self):
        """Close the waiting fibers behind the example that has failed."""
        kept: list = []
        dropped: list = []
        fiber: Fiber
        for fiber in self.waiting:
            if fiber.index < len(self.results):
                kept.append(fiber)
            else:
                dropped.append(fiber)
        self.waiting = kept
        self.close(dropped)

    def close(self, fibers: list):
        """End waiting fibers, latest first: their `finally` blocks run, and may read values."""
        urgent = None
        while fibers:
            fiber: Fiber = fibers.pop()
            fiber.direct = True
            fiber.thrown = GreenletExit()
            fiber.switch()
            self.tape.mode = self.mode
            self.alive -= 1
            error = fiber.error
            fiber.error = None
            if error is None or isinstance(error, GreenletExit):
                continue
            if not isinstance(error, Exception):
                urgent = error
            elif self.error is not None:
                number: cython.Py_ssize_t = self.first + fiber.index
                self.error.add_note(
                    f"{self.called}: example {number}, closed for this, raised {error!r}"
                )
        if urgent is not None:
            raise urgent

    def alone(self):
        """True if there is one fiber and there will be no other."""
        return self.alive == 1 and (self.exhausted or self.bound == 1)

    def base_of(self, generator):
        """Seed and offset of a generator as this call found it."""
        place = self.bases.get(generator)
        if place is None:
            own = generator.own if self.outer is None else self.outer.stream_of(generator)
            place = self.bases[generator] = tuple(own)
        return place


@cython.final
@cython.cclass
class Fiber:
    """One example on its way: where it waits, and its ambient state."""

    def __cinit__(self, hub: Hub, index: cython.Py_ssize_t, example):
        self.hub, self.index, self.example = hub, index, example
        self.mode = hub.mode.copy()
        self.mode.fiber = self
        self.direct = (
            hub.mode.walk != 0
        )  # a walk's records are in use: nobody else may run until it is over

    def switch(self):
        """Run, on the hub's side."""
        place = self.place
        if place is not None:
            self.place = None
            place.switch()
            return
        if self.hub.workers:
            place = self.hub.workers.pop()
            place.gr_context = copy_context()
            place.switch(self)
        else:
            place = greenlet(serve)
            place.gr_context = copy_context()
            place.switch(_serve, [self])

    def work(self):
        """The example, from start to end, on the fiber's side."""
        self.hub.tape.mode = self.mode
        try:
            self.result = self.hub.function(self.example)
        except BaseException as error:
            self.error = error
        self.done = True
        self.example = self.mode = None  # the mode leads back here

    def wait(self):
        """Wait until what is pending has run; False where the caller is to run it."""
        hub: Hub = self.hub
        if self.direct:
            return False
        if hub.alone():
            return hub.outer is not None and hub.outer.wait()
        mode: Mode = hub.tape.mode
        explain = config.explain
        if explain:
            hub.explain = explain if hub.explain is None else hub.explain | explain
        self.place = getcurrent()
        hub.greenlet.switch()
        hub.tape.mode = mode
        if config.explain is not explain:
            config.explain = explain
        if self.thrown is not None:
            error, self.thrown = self.thrown, None
            raise error
        return True

    # -- random numbers ------------------------------------------------------------------------------------------

    def stream_of(self, generator):
        """The place of this example in a generator's numbers: [seed, offset]."""
        if self.streams is None:
            self.streams = {}
        stream = self.streams.get(generator)
        if stream is None:
            seed, offset = self.hub.base_of(generator)
            stream = self.streams[generator] = [stream_of_example(seed, offset, self.index), 0]
        return stream

    def adopt(self, generator):
        """A generator that was made here is this example's own."""
        if self.streams is None:
            self.streams = {}
        self.streams[generator] = generator.own

    def note_streams(self):
        """Remember which of the surrounding generators this example has used."""
        if self.streams is not None:
            for generator, stream in self.streams.items():
                if stream is not generator.own:
                    seed, offset = self.hub.base_of(generator)
                    if stream != [stream_of_example(seed, offset, self.index), 0]:
                        self.hub.drawn.add(generator)

    # -- writing in place ----------------------------------------------------------------------------------------

    def check_write(self, tensor, sequence: cython.longlong):
        """Errors: MutationError where other examples can see what is written to."""
        if sequence > self.hub.start or _holds(self.example, tensor):
            return
        raise MutationError(
            f"{self.hub.called}: an example writes in place to a tensor that all examples share",
            expected="in-place operations on an example, and on what its function has made",
            got=f"a {tensor.dtype.name}{list(tensor.shape)} that was there before weft.map was called",
            fix="return the value and add it up after weft.map, or write to a clone(); "
            "layers that count, such as BatchNorm, take .eval()",
        )


def _serve(box: list) -> bool:
    """Run the fiber in the box, then wait for the next one, holding on to nothing; False where the worker is to end."""
    fiber: Fiber = box.pop()
    fiber.work()
    hub: Hub = fiber.hub
    worker = getcurrent()
    if len(hub.workers) >= _KEPT_WORKERS:
        worker.parent = hub.greenlet
        return False
    hub.workers.append(worker)
    leave = hub.greenlet.switch
    fiber = worker = hub = None
    box.append(leave())
    return True


def _workers_of_thread() -> list:
    """Idle workers of the calling thread: a greenlet cannot leave its thread."""
    workers = getattr(_thread, "workers", None)
    if workers is None:
        workers = _thread.workers = []
    return workers


def _holds(example, tensor: Tensor) -> bool:
    """True if an example is, or has as a part, a tensor that shares the memory of a tensor."""
    met: set = set()
    parts: list = [example]
    while parts:
        part = parts.pop()
        if id(part) in met:
            continue
        met.add(id(part))
        if isinstance(part, Tensor):
            if cython.cast(Tensor, part)._storage is tensor._storage:
                return True
        elif isinstance(part, Mapping):
            parts.extend(part.values())
        elif isinstance(part, (tuple, list, set, frozenset)):
            parts.extend(part)
        elif hasattr(type(part), "__dict__") and not isinstance(part, (type, ModuleType)):
            parts.extend(getattr(part, "__dict__", {}).values())
    return False


def map(function, examples, *, at_most=MOST_AT_ONCE, return_exceptions=False) -> list:  # noqa: A001
    """`[function(example) for example in examples]`, with the work of all examples in common batches although each may
    read values and decide on them.

    `function` is plain Python. Where it reads a value (`item`, `bool`, `print`, `tolist`, `numpy`, a shape that
    depends on values) it waits, and other examples go on; when all wait, everything pending runs at once, and they go
    on. At most `at_most` examples run at a time (None: all). `examples` may be a generator; it is asked for an example
    when there is room for it. Maps may be nested. Results come in order.

    Each example has grad mode, inference mode, hooks, `explaining` and context variables of its own: what it changes,
    it changes for itself. So it has random numbers: example i draws from a stream that depends on i and on the
    generator's seed and place at the call, not on how many run at a time; if any has drawn, the generator moves on by
    one. Python's own state (`random`, globals, files) is shared; examples come to it as they wait and go on.

    Errors: the exception of the first example that fails, as in a loop, with a note that says which; later examples
    are ended before, and their `finally` blocks run. With `return_exceptions`, exceptions stand among the results.
    RuntimeError for an in-place operation on a tensor that was there before: all examples share it, and their order
    would decide. TypeError where `function` is not callable or `examples` not iterable. Cost: about a microsecond for
    an example, and for a read, in addition to the work itself; an example that waits keeps about 6 kB and its values.
    Code that blocks (a sleep, a lock) blocks all; a lock that is held while a value is read blocks for good, for those
    that want it keep its holder from going on. Source: define-by-run batching as in Neubig, Goldberg and Dyer (2017),
    which ends where a value is read."""
    if not callable(function):
        raise ArgumentTypeError(
            "weft.map: function is not callable",
            expected="a function of one example",
            got=f"{type(function).__name__}",
            fix="pass the function first: weft.map(function, examples)",
        )
    try:
        iterator = iter(examples)
    except TypeError:
        if hasattr(type(examples), "__iter__"):
            raise
        raise ArgumentTypeError(
            "weft.map: examples are not iterable",
            expected="a list, a generator or another iterable of examples",
            got=f"{type(examples).__name__}",
            fix="put a single example into a list",
        ) from None
    bound: int = _bound(at_most)
    taken = iter(shown(iterator, "weft.map", length_hint(iterator) or None, "example"))
    return Hub(function, taken, bound, bool(return_exceptions)).run()


def map_rest(function, examples, called: str) -> list:
    """`map` for `called`, which has run the first example itself."""
    return Hub(function, iter(examples), MOST_AT_ONCE, False, called, 1).run()


def _bound(at_most) -> int:
    """The number of examples that may run at once. Errors: TypeError, ValueError."""
    if at_most is None:
        return _ALL
    try:
        bound = index(at_most)
    except TypeError:
        raise ArgumentTypeError(
            "weft.map: at_most must be an integer or None",
            expected="how many examples may run at a time",
            got=repr(at_most),
            fix="pass at_most=32, say",
        ) from None
    if bound < 1:
        raise ArgumentError(
            "weft.map: at_most must be at least 1",
            expected="1 or more, or None",
            got=str(bound),
            fix="leave it out",
        )
    return min(bound, _ALL)
