# cython: language_level=3
"""The instructions of a program: flat arrays of launches, pointers and arguments.

A launch is a kernel's address, pointers as (slot, byte offset), arguments, and its units with their grain and an
estimate of their work; or such a kernel over a table of members (a grouped launch), each with pointers, arguments and
units of its own, which run in any order. `Instructions` builds them, patches them between runs, copies and lists them.
`executor` runs them.
"""

import cython
from cython.cimports.cpython.buffer import (
    PyBUF_C_CONTIGUOUS,
    PyBuffer_Release,
    PyObject_CheckBuffer,
    PyObject_GetBuffer,
)
from cython.cimports.libc.stdint import int64_t, uintptr_t
from cython.cimports.libc.stdlib import free, realloc
from cython.cimports.libc.string import memcpy
from cython.cimports.weft.engine.devices.api import Code, Executable
from cython.cimports.weft.engine.devices.cpu.instructions import Member
from cython.cimports.weft.engine.devices.cpu.machine_code import MachineCode
from cython.cimports.weft.engine.devices.cpu.threads import Kernel

from weft._build.compiled import require
from weft.errors import ArgumentError, VerificationError

require(__name__, cython.compiled)


@cython.cclass
class Instructions(Executable):
    """Launches over numbered slots; `len()` of them.

    `held` keeps alive what the functions belong to. While a run is in progress (`running`) nothing
    can be changed.
    """

    def __cinit__(self):
        self.held = []

    def __dealloc__(self):
        free(self.code)
        free(self.pointers)
        free(self.arguments)
        free(self.members)

    def __len__(self):
        return self.count

    def __repr__(self):
        return (
            f"<program of {self.count} instructions, {self.slot_count} slots, "
            f"about {self.cost_ns / 1000:.1f} us of work>"
        )

    # Building

    def append(
        self,
        address: int,
        pointers: object,
        arguments: object,
        units: int,
        grain_size: int = 1,
        cost_ns: int = -1,
        owner: object = None,
    ) -> int:
        """Add one launch; its index.

        `pointers` are (slot, byte offset) pairs. `cost_ns` estimates the nanoseconds that all units
        take on one thread and decides whether they are shared out; by default one per unit. `owner`
        is kept alive with the program.
        """
        index = self.add(address, len(pointers), len(arguments), units, grain_size, cost_ns)
        self._fill(
            self.code[index].first_pointer, self.code[index].first_argument, pointers, arguments
        )
        if owner is not None:
            self.held.append(owner)
        return index

    def join(
        self,
        pointers: object,
        arguments: object,
        units: int,
        grain_size: int = 1,
        cost_ns: int = -1,
    ) -> None:
        """Let the last launch run its kernel on these, too: one launch over a table of members.

        Members run in any order and at the same time: none may read what another one writes.
        """
        index = self.join_member(len(pointers), len(arguments), units, grain_size, cost_ns)
        member: cython.pointer(Member) = cython.address(self.members[index])
        self._fill(member.first_pointer, member.first_argument, pointers, arguments)

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
        """`append` for compiled callers: pointers as pairs of words, arguments behind them."""
        machine: MachineCode = cython.cast(MachineCode, code)
        function: uintptr_t = machine.final_address if final else machine.address
        index: cython.Py_ssize_t = self.add(
            function, pointers, arguments, units, grain_size, cost_ns
        )
        launch: cython.pointer(Instruction) = cython.address(self.code[index])
        self.held.append(code)
        return self.copy_words(
            launch.first_pointer, launch.first_argument, words, pointers, arguments
        )

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
        """`join` for compiled callers."""
        index: cython.Py_ssize_t = self.join_member(pointers, arguments, units, grain_size, cost_ns)
        member: cython.pointer(Member) = cython.address(self.members[index])
        return self.copy_words(
            member.first_pointer, member.first_argument, words, pointers, arguments
        )

    @cython.cfunc
    @cython.exceptval(-1, check=False)
    def join_member(
        self,
        pointers: cython.Py_ssize_t,
        arguments: cython.Py_ssize_t,
        units: int64_t,
        grain_size: int64_t,
        cost_ns: int64_t,
    ) -> cython.Py_ssize_t:
        """The number of a new member of the last launch, whose pointers and arguments the caller sets."""
        if self.count == 0 or units < 0 or grain_size < 1:
            raise ArgumentError(
                "Program.join",
                expected="a launch to join, units >= 0, grain >= 1",
                got=f"{self.count} launches, units {units}, grain {grain_size}",
            )
        self._check_idle()
        launch: cython.pointer(Instruction) = cython.address(self.code[self.count - 1])
        taken: int64_t = launch.cost_ns
        self._count_work(launch, -1)
        if launch.members == 0:
            launch.first_member = self.member_count
            self.add_member(launch, 0, 0, launch.units, launch.grain_size)
        self.add_member(launch, pointers, arguments, units, grain_size)
        launch.grain_size = 1
        launch.cost_ns = taken + (units if cost_ns < 0 else cost_ns)
        self._count_work(launch, 1)
        return self.member_count - 1

    @cython.cfunc
    @cython.exceptval(-1, check=False)
    def copy_words(
        self,
        at: cython.Py_ssize_t,
        first: cython.Py_ssize_t,
        words: cython.pointer(int64_t),
        pointers: cython.Py_ssize_t,
        arguments: cython.Py_ssize_t,
    ) -> cython.int:
        """Set consecutive pointers and arguments."""
        index: cython.Py_ssize_t
        for index in range(pointers):
            self.set_pointer(at + index, words[2 * index], words[2 * index + 1])
        memcpy(self.arguments + first, words + 2 * pointers, 8 * arguments)
        return 0

    @cython.cfunc
    @cython.exceptval(-1, check=False)
    def add_member(
        self,
        launch: cython.pointer(Instruction),
        pointers: cython.Py_ssize_t,
        arguments: cython.Py_ssize_t,
        units: int64_t,
        grain_size: int64_t,
    ) -> cython.int:
        """One more entry in the table of the last launch; the first one takes over what the launch has."""
        first: cython.bint = launch.members == 0
        _reserve(self, 0, pointers, arguments)
        self.members = cython.cast(
            cython.pointer(Member),
            _enlarge(
                self.members,
                cython.address(self.member_room),
                self.member_count + 1,
                cython.sizeof(Member),
            ),
        )
        member: cython.pointer(Member) = cython.address(self.members[self.member_count])
        member.first = 0 if first else launch.units
        member.units = units
        member.grain_size = grain_size
        member.first_pointer = launch.first_pointer if first else self.pointer_count
        member.first_argument = launch.first_argument if first else self.argument_count
        self.pointer_count += pointers
        self.argument_count += arguments
        self.member_count += 1
        launch.members += 1
        launch.units = member.first + (units + grain_size - 1) // grain_size
        return 0

    def _fill(self, at: int, first: int, pointers: object, arguments: object) -> None:
        for slot, offset in pointers:
            self.set_pointer(at, slot, offset)
            at += 1
        self.set_arguments(first, arguments)

    @cython.cfunc
    @cython.exceptval(-1, check=False)
    def add(
        self,
        function: uintptr_t,
        pointers: cython.Py_ssize_t,
        arguments: cython.Py_ssize_t,
        units: int64_t,
        grain_size: int64_t,
        cost_ns: int64_t,
    ) -> cython.Py_ssize_t:
        """Add a launch with room for its pointers and arguments, which the caller then sets."""
        if function == 0 or units < 0 or grain_size < 1:
            raise ArgumentError(
                "Program.append",
                expected="a function address, units >= 0, grain >= 1",
                got=f"address {function:#x}, units {units}, grain {grain_size}",
            )
        self._check_idle()
        _reserve(self, 1, pointers, arguments)
        launch: cython.pointer(Instruction) = cython.address(self.code[self.count])
        launch.kernel = cython.cast(Kernel, function)
        launch.first_pointer = self.pointer_count
        launch.first_argument = self.argument_count
        launch.grain_size = grain_size
        launch.units = 0
        launch.cost_ns = 0
        launch.pace = 0
        launch.members = 0
        self.pointer_count += pointers
        self.argument_count += arguments
        self.count += 1
        self.patch_units(self.count - 1, units, cost_ns)
        return self.count - 1

    @cython.cfunc
    @cython.exceptval(-1, check=False)
    def _check_idle(self) -> cython.int:
        if self.running != 0:
            raise VerificationError(
                "change of a running program",
                expected="a program that is not running",
                got="one that another thread, or the run that was interrupted, is in",
                fix="build a program for each thread",
            )
        return 0

    @cython.cfunc
    @cython.exceptval(-1, check=False)
    def set_pointer(self, index: cython.Py_ssize_t, slot: int64_t, offset: int64_t) -> cython.int:
        if slot < 0 or not 0 <= index < self.pointer_count:
            raise VerificationError(f"pointer {index} into slot {slot}, of {self.pointer_count}")
        self.pointers[index].slot = slot
        self.pointers[index].offset = offset
        self.slot_count = max(self.slot_count, slot + 1)
        return 0

    # Patching

    def patch_argument(self, index: cython.Py_ssize_t, value: int64_t) -> None:
        """Set argument `index`, counted over the whole program (see `first_argument`)."""
        self._check_idle()
        if not 0 <= index < self.argument_count:
            raise VerificationError(f"argument {index} of {self.argument_count}")
        self.arguments[index] = value

    def set_arguments(self, first: cython.Py_ssize_t, values: object) -> None:
        """Set consecutive arguments from a sequence, or from a buffer of 8-byte integers."""
        view: Py_buffer
        total: cython.Py_ssize_t = len(values)
        self._check_idle()
        if first < 0 or first + total > self.argument_count:
            raise VerificationError(f"arguments {first}:{first + total} of {self.argument_count}")
        if PyObject_CheckBuffer(values):
            open_words(values, cython.address(view))
            memcpy(self.arguments + first, view.buf, view.len)
            PyBuffer_Release(cython.address(view))
            return
        for value in values:
            self.arguments[first] = value
            first += 1

    def patch_pointer(self, index: cython.Py_ssize_t, slot: int64_t, offset: int64_t) -> None:
        """Set pointer `index`, counted over the whole program (see `first_pointer`)."""
        self._check_idle()
        self.set_pointer(index, slot, offset)

    @cython.ccall
    @cython.exceptval(-1, check=False)
    def patch_units(
        self, index: cython.Py_ssize_t, units: int64_t, cost_ns: int64_t = -1
    ) -> cython.int:
        """Set the units of an instruction and the estimate of their work."""
        self._check_idle()
        if not 0 <= index < self.count or units < 0:
            raise VerificationError(f"instruction {index} of {self.count}, units {units}")
        launch: cython.pointer(Instruction) = cython.address(self.code[index])
        if launch.members > 0:
            raise VerificationError(
                f"units of instruction {index}, which has {launch.members} members"
            )
        self._count_work(launch, -1)
        launch.units = units
        launch.cost_ns = units if cost_ns < 0 else cost_ns
        self._count_work(launch, 1)
        return 0

    @cython.cfunc
    @cython.exceptval(-1, check=False)
    def _count_work(self, launch: cython.pointer(Instruction), sign: cython.int) -> cython.int:
        """Add an instruction to the sums of work, or take it away."""
        self.cost_ns += sign * (launch.cost_ns + LAUNCH_WORK)
        if launch.cost_ns >= SPLIT_ABOVE and launch.units > launch.grain_size:
            self.shared_cost_ns += sign * launch.cost_ns
        return 0

    def first_argument(self, instruction: cython.Py_ssize_t) -> int:
        """The program-wide index of an instruction's first argument."""
        self._check_index(instruction)
        return self.code[instruction].first_argument

    def first_pointer(self, instruction: cython.Py_ssize_t) -> int:
        """The program-wide index of an instruction's first pointer."""
        self._check_index(instruction)
        return self.code[instruction].first_pointer

    @cython.cfunc
    @cython.exceptval(-1, check=False)
    def _check_index(self, index: cython.Py_ssize_t) -> cython.int:
        if not 0 <= index < self.count:
            raise IndexError(f"instruction {index} of {self.count}")
        return 0

    def instructions(self) -> list:
        """The launches in order: (address, [(slot, offset)], [arguments], units, grain size, work)."""
        return [_describe(self, index) for index in range(self.count)]


@cython.cfunc
@cython.exceptval(-1, check=False)
def open_words(values: object, view: cython.pointer(Py_buffer)) -> cython.int:
    """Open a contiguous buffer of 8-byte items."""
    PyObject_GetBuffer(values, view, PyBUF_C_CONTIGUOUS)
    if view.itemsize != 8:
        itemsize = view.itemsize
        PyBuffer_Release(view)
        raise VerificationError("Program", expected="8-byte items", got=f"{itemsize}-byte items")
    return 0


@cython.cfunc
@cython.exceptval(-1, check=False)
def _reserve(
    program: Instructions,
    launches: cython.Py_ssize_t,
    pointers: cython.Py_ssize_t,
    arguments: cython.Py_ssize_t,
) -> cython.int:
    """Make room for this many more of each."""
    program.code = cython.cast(
        cython.pointer(Instruction),
        _enlarge(
            program.code,
            cython.address(program.code_room),
            program.count + launches,
            cython.sizeof(Instruction),
        ),
    )
    program.pointers = cython.cast(
        cython.pointer(Pointer),
        _enlarge(
            program.pointers,
            cython.address(program.pointer_room),
            program.pointer_count + pointers,
            cython.sizeof(Pointer),
        ),
    )
    program.arguments = cython.cast(
        cython.pointer(int64_t),
        _enlarge(
            program.arguments,
            cython.address(program.argument_room),
            program.argument_count + arguments,
            cython.sizeof(int64_t),
        ),
    )
    return 0


@cython.cfunc
def _enlarge(
    block: cython.p_void,
    room: cython.pointer(cython.Py_ssize_t),
    wanted: cython.Py_ssize_t,
    size: cython.Py_ssize_t,
) -> cython.p_void:
    """The block, enlarged if it has room for fewer than `wanted` items."""
    if wanted <= room[0] and block != cython.NULL:
        return block
    wanted = max(wanted, 2 * room[0], 16)
    larger: cython.p_void = realloc(block, wanted * size)
    if larger == cython.NULL:
        raise MemoryError
    room[0] = wanted
    return larger


def _describe(program: Instructions, index: cython.Py_ssize_t) -> tuple:
    """One instruction as plain values."""
    launch: cython.pointer(Instruction) = cython.address(program.code[index])
    last: cython.bint = index + 1 == program.count
    first: cython.Py_ssize_t
    end: cython.Py_ssize_t = (
        program.pointer_count if last else program.code[index + 1].first_pointer
    )
    first = launch.first_pointer
    pointers = [(program.pointers[i].slot, program.pointers[i].offset) for i in range(first, end)]
    first = launch.first_argument
    end = program.argument_count if last else program.code[index + 1].first_argument
    arguments = [program.arguments[i] for i in range(first, end)]
    address = cython.cast(uintptr_t, launch.kernel)
    return address, pointers, arguments, launch.units, launch.grain_size, launch.cost_ns
