# cython: language_level=3
"""The call of a single kernel: on this thread, or shared out like a launch of a program where that is worth it.

In: code, addresses, arguments, units and about what they take. When the call returns, all units have run. What takes
long lets Python handle signals, as a program does; an exception of a handler is raised, and the kernel is to be called
again from the start.
"""

import cython
from cython.cimports.libc.stdint import int64_t, uintptr_t
from cython.cimports.libc.string import memcpy
from cython.cimports.weft.engine.devices.api import Code, Executable, default_device
from cython.cimports.weft.engine.devices.kernel_call import MOST_WORDS, KernelWork
from cython.cimports.weft.engine.devices.trace import tracing

from weft._build.compiled import require

require(__name__, cython.compiled)


@cython.cfunc
@cython.exceptval(check=False)
def is_callable(cost_ns: int64_t) -> cython.bint:
    """True if so much work is called by itself: what is shared out while somebody records belongs to a program, of
    which records speak."""
    return not tracing or cost_ns < default_device().tuning.threads.split_ns


@cython.cfunc
@cython.exceptval(-1, check=False)
def call_kernel_now(
    code: Code,
    pointers: cython.pp_void,
    pointer_count: cython.Py_ssize_t,
    arguments: cython.pointer(int64_t),
    argument_count: cython.Py_ssize_t,
    work: KernelWork,
) -> cython.int:
    """Run a kernel over all units of its work; what is worth a second thread as a program of one launch, whose slots
    are the addresses."""
    if work.cost_ns < default_device().tuning.threads.split_ns:
        return code.call(pointers, arguments, work.units)
    words: int64_t[MOST_WORDS]
    index: cython.Py_ssize_t
    for index in range(pointer_count):
        words[2 * index] = index
        words[2 * index + 1] = 0
    memcpy(words + 2 * pointer_count, arguments, argument_count * cython.sizeof(int64_t))
    program: Executable = default_device().queue().new_executable()
    program.append_words(
        code,
        False,
        words,
        pointer_count,
        argument_count,
        work.units,
        work.grain_size,
        work.cost_ns,
    )
    program.run_addresses(cython.cast(cython.pointer(uintptr_t), pointers), pointer_count, 0, False)
    if program.interrupt is not None:
        raise program.take_interrupt()
    return 0
