# cython: language_level=3
"""Grad mode, inference mode and eager mode: contexts and decorators that set a flag of the calling thread's mode,
which the recorder reads.

Compiled: programs enter `no_grad` at every step. A decorated generator function holds the flag only while its body
runs.
"""

import functools
import warnings

import cython
from cython.cimports.cpython.object import PyObject
from cython.cimports.weft.engine.ir.mode import Mode
from cython.cimports.weft.engine.ir.tape import current_tape
from cython.cimports.weft.tensor.modes import PyTypeObject, PyVectorcall_NARGS, vectorcallfunc

from weft._build.compiled import require
from weft._build.lazy import later
from weft.engine.frontend.recorder import note_inference
from weft.engine.ir.tape import watch_records
from weft.errors import ArgumentTypeError, class_name

require(__name__, cython.compiled)

saving = later("weft.engine.backward.saved_tensor_hooks")

GENERATOR = 0x20  # the flag of a generator function's code


@cython.cclass
class Switch:
    """A context that sets grad mode and puts the former one back. One object may be entered again while it is on: the
    former flags are kept as bits; and in other threads and fibers too, which have flags of their own."""

    def __enter__(self):
        mode: Mode = current_tape().mode
        if self.depth == 0:
            self.owner = mode
        if self.owner is mode:
            self.previous = (self.previous << 1) | mode.grad
            self.depth += 1
        else:
            self.enter_elsewhere(mode)
        mode.grad = self.grad

    def __exit__(self, kind, error, traceback):
        mode: Mode = current_tape().mode
        if self.owner is not mode:
            mode.grad = self.others[mode].pop()
            return
        mode.grad = self.previous & 1
        self.previous >>= 1
        self.depth -= 1
        if self.depth == 0:
            self.owner = None

    def enter_elsewhere(self, mode):
        """Keep the flag of another thread or fiber than the one that entered first.

        Args:
            mode: the mode object that is entered.
        """
        if self.others is None:
            self.others = {}
        self.others.setdefault(mode, []).append(cython.cast(Mode, mode).grad)

    def __call__(self, function):
        return _decorate(type(self), function)


@cython.cclass
class no_grad(Switch):
    """Operations inside record no gradients: a context, and a decorator with or without ().

    Example:
        >>> import weft
        >>> x = weft.ones(2, requires_grad=True)
        >>> with weft.no_grad():
        ...     (x * 2).requires_grad
        False
    """

    def __cinit__(self):
        self.grad = False


@cython.cclass
class enable_grad(Switch):
    """Operations inside record gradients again: a context, and a decorator with or without ().

    Example:
        >>> import weft
        >>> x = weft.tensor(2.0, requires_grad=True)
        >>> with weft.no_grad(), weft.enable_grad():
        ...     y = x * 3
        >>> y.requires_grad
        True
    """

    def __cinit__(self):
        self.grad = True


@cython.cfunc
def _call_class(
    cls: cython.pointer(PyObject),
    arguments: cython.pointer(cython.pointer(PyObject)),
    count: cython.size_t,
    names: cython.pointer(PyObject),
) -> object:
    """`no_grad()` makes a context, `no_grad(function)` decorates."""
    kind: type = cython.cast(type, cls)
    if names != cython.NULL or PyVectorcall_NARGS(count) > 1:
        raise ArgumentTypeError(
            f"{kind.__name__}() takes at most one function",
            expected=f"{kind.__name__}() or {kind.__name__}(function)",
            got=f"{PyVectorcall_NARGS(count)} positional arguments",
            fix="use it as a context without arguments",
        )
    if PyVectorcall_NARGS(count) == 0:
        return kind.__new__(kind)
    return _decorate(kind, cython.cast(object, arguments[0]))


# A compiled class has no __new__ of its own that could return a function: its call slot is set.
cython.cast(cython.pointer(PyTypeObject), no_grad).tp_vectorcall = cython.cast(
    vectorcallfunc, _call_class
)
cython.cast(cython.pointer(PyTypeObject), enable_grad).tp_vectorcall = cython.cast(
    vectorcallfunc, _call_class
)


class set_grad_enabled:
    """Set grad mode now; as a context, put the former one back at the end.

    Args:
        mode: True: operations are recorded for `backward`; False: they are not.

    Example:
        >>> import weft
        >>> with weft.set_grad_enabled(False):
        ...     weft.is_grad_enabled()
        False
    """

    def __init__(self, mode):
        if not isinstance(mode, bool):
            raise ArgumentTypeError(
                f"set_grad_enabled(): argument 'enabled' (position 1) must be bool, not {class_name(mode)}",
                expected="True or False",
                got=repr(mode),
                fix="pass a bool",
            )
        self.grad = mode
        self._undo = current_tape().mode.grad
        current_tape().mode.grad = self.grad

    def __enter__(self):
        current_tape().mode.grad = self.grad

    def __exit__(self, kind, error, traceback):
        current_tape().mode.grad = self._undo

    def __call__(self, function):
        current_tape().mode.grad = self._undo
        return _decorate(functools.partial(set_grad_enabled, self.grad), function)


class inference_mode:
    """Like `no_grad`, and what is made inside is marked: it cannot be saved for a derivative, nor be changed
    outside. `inference_mode(False)` ends it.

    Args:
        mode: False ends it within the block; a function is decorated.

    Example:
        >>> import weft
        >>> with weft.inference_mode():
        ...     weft.ones(2).is_inference()
        True
    """

    def __new__(cls, mode=True):
        if callable(mode):
            return _decorate(cls, mode)
        return object.__new__(cls)

    def __init__(self, mode=True):
        self.mode = mode
        self._former = []

    def __enter__(self):
        mode: Mode = current_tape().mode
        self._former.append((mode.grad, mode.inference))
        note_inference()
        watch_records(saving.pack_node, 1)
        mode.inference = self.mode
        mode.grad = not self.mode

    def __exit__(self, kind, error, traceback):
        mode: Mode = current_tape().mode
        mode.grad, mode.inference = self._former.pop()
        watch_records(saving.pack_node, -1)

    def __call__(self, function):
        return _decorate(functools.partial(inference_mode, self.mode), function)


class eager:
    """Every operation inside runs at its call, through the same kernels: for debugging. `eager(False)` ends it.

    Args:
        enabled: False: operations are recorded, and run when a value is read.

    Example:
        >>> import weft
        >>> with weft.eager():
        ...     x = weft.ones(2) + 1  # has run here
        >>> x
        tensor([2., 2.])
    """

    def __init__(self, enabled=True):
        self.enabled = enabled
        self._former = []

    def __enter__(self):
        mode: Mode = current_tape().mode
        self._former.append(mode.eager)
        mode.eager = self.enabled

    def __exit__(self, kind, error, traceback):
        current_tape().mode.eager = self._former.pop()

    def __call__(self, function):
        return _decorate(functools.partial(eager, self.enabled), function)


def is_grad_enabled():
    """True if operations of this thread record gradients."""
    return current_tape().mode.grad


def is_inference_mode_enabled():
    """True if this thread is inside `inference_mode`."""
    return current_tape().mode.inference


def is_eager():
    """True if operations of this thread run at their call."""
    return current_tape().mode.eager


# -- decorators ----------------------------------------------------------------------------------------------------


def _decorate(make, function):
    if isinstance(function, type):
        warnings.warn(
            "Decorating classes is deprecated: only the making of instances is decorated. Decorate the methods, or "
            "`__init__` alone.",
            FutureWarning,
            stacklevel=3,
        )
        return _decorate_class(make, function)
    code = getattr(getattr(function, "__func__", function), "__code__", None)
    if code is not None and code.co_flags & GENERATOR:
        return _decorate_generator(make, function)

    def inside(*arguments, **keywords):
        with make():
            return function(*arguments, **keywords)

    return functools.wraps(function)(inside)


def _decorate_class(make, cls):
    def made(*arguments, **keywords):
        with make():
            return cls(*arguments, **keywords)

    return functools.update_wrapper(made, cls, updated=())


def _decorate_generator(make, function):
    def inside(*arguments, **keywords):
        return _Generator(make, function(*arguments, **keywords))

    return functools.wraps(function)(inside)


class _Generator:
    """A generator each of whose steps runs inside a context; between the steps the caller's mode is in force."""

    def __init__(self, make, generator):
        self._make = make
        self._generator = generator

    def __iter__(self):
        return self

    def __next__(self):
        return self.send(None)

    def send(self, value):
        """Resume with a value."""
        with self._make():
            return self._generator.send(value)

    def throw(self, *error):
        """Resume with an exception."""
        with self._make():
            return self._generator.throw(*error)

    def close(self):
        """End the generator."""
        with self._make():
            return self._generator.close()


FUNCTIONS = {
    "no_grad": no_grad,
    "enable_grad": enable_grad,
    "set_grad_enabled": set_grad_enabled,
    "is_grad_enabled": is_grad_enabled,
    "inference_mode": inference_mode,
    "is_inference_mode_enabled": is_inference_mode_enabled,
    "eager": eager,
}
