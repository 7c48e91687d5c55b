# cython: language_level=3
"""The device protocol: small abstract classes, which each device's folder implements.

    Device    name, number, capabilities and thresholds, and where the other parts are
    Memory    allocates buffers, and copies to and from them; cells for numbers; status cells that kernels report to
    Lowerer   plans how a kernel runs for these sizes, makes launches, writes and compiles code
    Code      a compiled kernel, which nobody above can look into
    Executable, Queue   launches in order, and what runs them

A device registers itself when its module is imported, the default one (number 0) first; `weft/__init__` lists them.
The pipeline and the runtime ask the device and import none by its name, but for two modules of the budget,
`constrain` and `spill_file` (`engine.pipeline.budget`), which know the CPU's pool and its spill file. The methods
that a flush calls are C calls through a table of the class: one costs a nanosecond or two more than a direct one. A
new device derives these classes; what they leave out here has no default.
"""

import cython
from cython.cimports.libc.stdint import int64_t, uintptr_t
from cython.cimports.weft.engine.devices.tuning import Record, Tuning, need_none
from cython.cimports.weft.engine.ir.memory import OwnedMemory
from cython.cimports.weft.engine.ir.node import Node

from weft._build.compiled import require

require(__name__, cython.compiled)

DEVICES = cython.declare(list, [])  # indexed by number
several = False
bounded = False


@cython.final
@cython.cclass
class Capabilities(Record):
    """The hard limits of a device, which passes must obey; `Tuning` says what pays."""

    def __init__(self, **fields):
        take = fields.pop
        self.longest_row = take("longest_row")  # elements of one that a row kernel can keep
        # elements behind each row of partial results that a kernel may write over
        self.scratch_margin = take("scratch_margin")
        self.alignment = take("alignment")  # bytes that a value's memory is a multiple of
        # whether a kernel can be called by itself, on the calling thread, for a node
        self.calls_kernels = take("calls_kernels")
        need_none(self, fields)


@cython.cclass
class Memory:
    """The memory of a device. Buffers that the host may read have Python's buffer protocol; what others hold is
    downloaded."""

    @cython.ccall
    def allocate(self, nbytes: cython.Py_ssize_t) -> OwnedMemory:
        """A buffer of at least so many bytes, contents undefined. Errors: OutOfMemoryError."""
        raise NotImplementedError

    def allocate_arena(self, nbytes: int) -> OwnedMemory:
        """The same for what dies with the run of one program: that of the next one may be of another size."""
        return self.allocate(nbytes)

    @cython.cfunc
    def allocate_cells(self, count: cython.Py_ssize_t) -> OwnedMemory:
        """Room for so many numbers, which the host writes before kernels read them."""
        raise NotImplementedError

    @cython.cfunc
    @cython.exceptval(check=False)
    def cell(
        self, cells: OwnedMemory, index: cython.Py_ssize_t, itemsize: cython.Py_ssize_t
    ) -> uintptr_t:
        """The address at which the host writes a number, and a kernel reads it."""
        return 0

    @cython.cfunc
    @cython.exceptval(-1, check=False)
    def publish(self, cells: OwnedMemory) -> cython.int:
        """All numbers of a buffer are written: kernels that are submitted from now on see them."""
        return 0

    @cython.cfunc
    @cython.exceptval(check=False)
    def budget(self) -> cython.Py_ssize_t:
        """The number of bytes that may be live; 0 if there is no bound."""
        return 0

    @cython.cfunc
    @cython.exceptval(check=False)
    def room_left(self) -> cython.Py_ssize_t:
        """Bytes that may still be handed out under the budget."""
        return 0

    @cython.cfunc
    def allocate_status(self, count: cython.Py_ssize_t) -> OwnedMemory:
        """Room for so many words, all zero, that kernels set where an index does not hold."""
        raise NotImplementedError

    @cython.cfunc
    @cython.exceptval(-1, check=False)
    def has_failed(self, status: OwnedMemory, index: cython.Py_ssize_t) -> cython.bint:
        """True if a kernel has set a word of those."""
        raise NotImplementedError

    @cython.cfunc
    @cython.exceptval(-1, check=False)
    def write(
        self,
        target: uintptr_t,
        source: cython.pointer(cython.const[cython.void]),
        nbytes: cython.Py_ssize_t,
    ) -> cython.int:
        """Copy bytes of the host to an address within a buffer: kernels that are submitted from now on see them."""
        raise NotImplementedError

    def download(self, buffer: OwnedMemory, offset: int, nbytes: int) -> bytes:
        """A copy of what a span of a buffer holds, once it has been computed."""
        raise NotImplementedError

    def upload(self, buffer: OwnedMemory, content: bytes) -> None:
        """Let a buffer begin with these bytes."""
        source: cython.p_char = content
        self.write(buffer.address, source, len(content))

    def size(self) -> int:
        """The number of bytes of the memory."""
        raise NotImplementedError


@cython.cclass
class Code:
    """A compiled kernel: opaque to all but its device. What it belongs to lives as long."""

    @cython.cfunc
    @cython.exceptval(-1, check=False)
    def call(
        self,
        pointers: cython.pp_void,
        arguments: cython.pointer(int64_t),
        units: int64_t,
    ) -> cython.int:
        """Run it now, on the calling thread (where the device `calls_kernels`)."""
        raise NotImplementedError

    @cython.cfunc
    @cython.exceptval(-1, check=False)
    def call_final(
        self,
        pointers: cython.pp_void,
        arguments: cython.pointer(int64_t),
        units: int64_t,
    ) -> cython.int:
        """The same for its second function, which runs when the first has run for all units."""
        raise NotImplementedError


@cython.cclass
class Executable:
    """Launches over numbered slots, built once and run many times. `interrupt` is the exception of a signal handler
    that stopped the run that has just ended."""

    def take_interrupt(self) -> BaseException | None:
        """That exception, which is forgotten here: its traceback keeps the frames of its user alive."""
        raised, self.interrupt = self.interrupt, None
        return raised

    def protect(self, start: int) -> None:
        """Let signals wait behind this launch: it writes over what a run again would read."""
        raise NotImplementedError

    def need_file(self, nbytes: int) -> None:
        """Let each run have a spill file with room for so many bytes."""
        raise NotImplementedError

    @cython.cfunc
    @cython.exceptval(-1, check=False)
    def append_words(
        self,
        code: Code,
        final: cython.bint,
        words: cython.pointer(int64_t),
        pointers: cython.Py_ssize_t,
        arguments: cython.Py_ssize_t,
        units: int64_t,
        grain_size: int64_t,
        cost_ns: int64_t,
    ) -> cython.int:
        """Append a launch: pointers as pairs of words (slot, byte offset), arguments behind them."""
        raise NotImplementedError

    @cython.cfunc
    @cython.exceptval(-1, check=False)
    def join_words(
        self,
        words: cython.pointer(int64_t),
        pointers: cython.Py_ssize_t,
        arguments: cython.Py_ssize_t,
        units: int64_t,
        grain_size: int64_t,
        cost_ns: int64_t,
    ) -> cython.int:
        """Let the last launch run over these operands too."""
        raise NotImplementedError

    @cython.cfunc
    @cython.exceptval(-1, check=False)
    def run_addresses(
        self,
        slots: cython.pointer(uintptr_t),
        slot_count: cython.Py_ssize_t,
        start: cython.Py_ssize_t,
        uninterruptible: cython.bint,
    ) -> cython.Py_ssize_t:
        """Submit the launches from one on and wait; the first that has not run: all, or a signal handler raised."""
        raise NotImplementedError


@cython.cclass
class Queue:
    """The queue of a device, which runs its launches in order."""

    @cython.cfunc
    def new_executable(self) -> Executable:
        """An executable without launches."""
        raise NotImplementedError

    @cython.cfunc
    @cython.exceptval(check=False)
    def flushes_subnormals(self, salt: cython.Py_ssize_t) -> cython.bint:
        """True if kernels that are called by themselves, on this thread, would flush subnormals to zero."""
        return False


@cython.cclass
class Lowerer:
    """The lowerer of a device: kernels become launches and code."""

    @cython.cfunc
    @cython.exceptval(-1, check=True)
    def schedule(self, encoder: object) -> cython.longlong:
        """The schedule of a loop kernel for the sizes of its `KernelEncoder`, as a word >= 0 that the device reads."""
        raise NotImplementedError

    @cython.cfunc
    @cython.exceptval(-1, check=False)
    def ends(self, encoder: object) -> cython.bint:
        """True if its kernel, scheduled so, has a second function, which runs when the first has run for all units."""
        raise NotImplementedError

    @cython.cfunc
    @cython.exceptval(-1, check=False)
    def call(self, node: Node, target: uintptr_t) -> cython.bint:
        """Run a node whose operands are computed into memory of its size, now, where that is one call of a compiled
        kernel (where the device `calls_kernels`)."""
        return False

    @cython.ccall
    def lower(self, program: object, plan: object) -> object:
        """The launches of a planned program, a `Lowering`."""
        raise NotImplementedError

    @cython.ccall
    def emit(self, key: object, symbol: str) -> object:
        """The source of the kernel of a key (`kernel_decoder`) under a symbol."""
        raise NotImplementedError

    @cython.ccall
    def compile(self, specs: list) -> object:
        """Give kernels their `code`."""
        raise NotImplementedError

    @cython.ccall
    def compile_in_background(self, specs: list, seconds: cython.double) -> list:
        """Those of these kernels that are not at hand within so many seconds: they are compiled meanwhile, and this is
        asked again. A device that compiles quickly, or on no thread of its own, answers that there are none."""
        return []


@cython.cclass
class Device:
    """A device, which holds values and runs kernels. `tuning` may be replaced: what is scheduled next reads the new
    record."""

    def __init__(self, name: str, capabilities: Capabilities, tuning: Tuning, memory: Memory):
        self.name = name
        self.capabilities = capabilities
        self.number = len(DEVICES)
        self.tuning = tuning
        self.memory = memory
        memory.device = self.number
        global several
        several = self.number > 0
        DEVICES.append(self)
        note_budgets()

    def __repr__(self):
        return f"<device {self.name}>"

    @cython.cfunc
    def queue(self) -> Queue:
        """The queue that runs launches; imported when it is first asked for."""
        if self._queue is None:
            self._queue = self.load_queue()
        return self._queue

    @cython.ccall
    def lowerer(self) -> Lowerer:
        """The lowerer that makes launches; imported when it is first asked for."""
        if self._lowerer is None:
            self._lowerer = self.load_lowerer()
        return self._lowerer

    def load_queue(self) -> Queue:
        """The queue."""
        raise NotImplementedError

    def load_lowerer(self) -> Lowerer:
        """The lowerer."""
        raise NotImplementedError


@cython.ccall
def default_device() -> Device:
    """The device of values that nobody has asked to be elsewhere."""
    return cython.cast(Device, DEVICES[0])


@cython.ccall
def device_at(number: cython.int) -> Device:
    """The device of a number, which nodes and buffers have."""
    return cython.cast(Device, DEVICES[number])


@cython.cfunc
@cython.exceptval(-1, check=False)
def note_budgets() -> cython.int:
    """Note whether any device has a budget, after a device has come or a budget has changed: if none has, nothing asks
    for it."""
    global bounded
    device: Device
    bounded = False
    for device in DEVICES:
        bounded = bounded or device.memory.budget() != 0
    return 0


def withdraw(device: Device) -> None:
    """Forget the device that was registered last; nothing of it may be in use."""
    global several
    assert DEVICES[len(DEVICES) - 1] is device and device.number > 0
    DEVICES.pop()
    several = len(DEVICES) > 1
    note_budgets()


def devices() -> tuple:
    """All devices, by number."""
    return tuple(DEVICES)
