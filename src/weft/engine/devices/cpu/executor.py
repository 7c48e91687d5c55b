# cython: language_level=3
"""The executor: programs of instructions, and the loop that runs them.

A program is built once (`instructions.py`) and run many times: `run(slots)` takes the base address of each slot, and
arguments, units and offsets can be patched between runs, so that a cached program costs almost nothing to reuse. The
loop holds no GIL, shares large instructions out to the worker threads, and every 10 ms lets Python handle signals;
interrupted, it stops before a kernel or in the middle of a long one, and can be resumed by running that kernel again.
The caller decides what the slots hold and in which order kernels run, and reads the status cells.
"""

import cython
from cython.cimports.cpython.buffer import PyBuffer_Release, PyObject_CheckBuffer
from cython.cimports.cpython.exc import PyErr_CheckSignals
from cython.cimports.cpython.pythread import PyThread_get_thread_ident
from cython.cimports.cpython.ref import Py_DECREF, Py_INCREF
from cython.cimports.libc.stdint import int64_t, uint32_t, uintptr_t
from cython.cimports.libc.stdlib import free, malloc
from cython.cimports.libc.string import memcpy
from cython.cimports.weft.engine.capi.atomics import FE_DFL_ENV, fegetenv, fenv_t, fesetenv
from cython.cimports.weft.engine.capi.clock import now
from cython.cimports.weft.engine.devices.api import Executable, Queue
from cython.cimports.weft.engine.devices.cpu.executor import GroupedLaunch
from cython.cimports.weft.engine.devices.cpu.instructions import (
    SPLIT_ABOVE,
    Instruction,
    Instructions,
    Member,
    open_words,
)
from cython.cimports.weft.engine.devices.cpu.spill import (
    leave_file,
    spill_failure,
    take_failure,
    take_file,
)
from cython.cimports.weft.engine.devices.cpu.threads import (
    MAX_PIECES,
    Job,
    PieceLog,
    Team,
    enter,
    is_awake,
    leave,
    rouse,
    share,
    wanted_threads,
)
from cython.cimports.weft.engine.devices.trace import (
    LAUNCH,
    PIECE,
    Chunk,
    TraceEvent,
    last_chunk,
    reserve,
    tracing,
)

from weft._build.compiled import require
from weft.errors import VerificationError

require(__name__, cython.compiled)


@cython.cfunc
@cython.exceptval(check=False)
@cython.nogil
def flushes_subnormals(salt: cython.Py_ssize_t) -> cython.bint:
    """True if this thread's floating-point unit flushes subnormals (another library may have set that)."""
    bits: uint32_t = 0x00010000 + cython.cast(uint32_t, salt & 1)  # unknown to the C compiler
    tiny: cython.float
    memcpy(cython.address(tiny), cython.address(bits), 4)
    return tiny + tiny == 0


@cython.cfunc
@cython.exceptval(check=False)
@cython.nogil
def _task_count(grains: int64_t, cost_ns: int64_t, threads: int64_t) -> int64_t:
    """Into how many pieces so many grains are cut, as many for each thread wherever there is enough."""
    tasks: int64_t = threads if cost_ns < threads * ALONE_BELOW else threads * PIECES_PER_THREAD
    tasks = min(min(tasks, MAX_PIECES), min(grains, cost_ns // PIECE_WORK))
    if tasks > threads:
        tasks -= tasks % threads
    return tasks


@cython.cfunc
@cython.exceptval(check=False)
@cython.nogil
def _slice_units(launch: cython.pointer(Instruction), begin: int64_t, before: int64_t) -> int64_t:
    """Units of the slice from `begin` on: little by the estimate, or what takes as long as wanted by the pace of the
    slice before, of so many units, or of the last run; what is left is cut into equal slices."""
    left: int64_t = (launch.units - begin + launch.grain_size - 1) // launch.grain_size
    cost_ns: cython.double = (
        cython.cast(cython.double, left) * launch.grain_size / launch.units * launch.cost_ns
    )
    slices: cython.double = cost_ns / SLICE_FIRST
    if launch.pace > 0:
        slices = cost_ns * launch.pace / SLICE_WANTED
    size: int64_t = (
        max(left // (cython.cast(int64_t, min(slices, 1e15)) + 1), 1) * launch.grain_size
    )
    return min(size, before * SLICE_GROWTH) if before > 0 else size


@cython.cclass
class CpuExecutable(Instructions):
    """Instructions that can be run.

    `take_interrupt()` gives the exception that a signal handler raised when `run` stopped early. While a program is
    `running`, other threads may run it too, but nobody can change it.
    """

    def __dealloc__(self):
        free(self.resolved)

    def protect(self, index: cython.Py_ssize_t) -> None:
        """Signals wait for the end from instruction `index` on: it overwrites what a run from the start would read."""
        self.protected = index + 1

    def need_file(self, nbytes: cython.Py_ssize_t) -> None:
        """Let each run have a spill file with room for so many bytes."""
        self.spilled = nbytes

    # Running

    def run(
        self, slots: object, start: cython.Py_ssize_t = 0, uninterruptible: cython.bint = False
    ) -> int:
        """Run from instruction `start`; the index of the first one not executed.

        That is `len(program)` when finished; smaller when a signal handler raised, whose
        exception `take_interrupt()` gives: `run(slots, index)` goes on. `slots` are base addresses,
        a sequence of integers or a buffer of 8-byte ones (faster).
        """
        view: Py_buffer
        addresses: cython.pointer(uintptr_t)
        total: cython.Py_ssize_t
        if PyObject_CheckBuffer(slots):
            open_words(slots, cython.address(view))
            try:
                addresses = cython.cast(cython.pointer(uintptr_t), view.buf)
                return self.run_addresses(addresses, view.len // 8, start, uninterruptible)
            finally:
                PyBuffer_Release(cython.address(view))
        total = len(slots)
        addresses = cython.cast(cython.pointer(uintptr_t), malloc(8 * (total + 1)))
        if addresses == cython.NULL:
            raise MemoryError
        try:
            for index in range(total):
                addresses[index] = slots[index]
            return self.run_addresses(addresses, total, start, uninterruptible)
        finally:
            free(addresses)

    @cython.cfunc
    @cython.exceptval(-1, check=False)
    def run_addresses(
        self,
        slots: cython.pointer(uintptr_t),
        slot_count: cython.Py_ssize_t,
        start: cython.Py_ssize_t,
        uninterruptible: cython.bint,
    ) -> cython.Py_ssize_t:
        """`run` for compiled callers."""
        threads: cython.int = wanted_threads() if self.shared_cost_ns > 0 else 1
        resolved: cython.pp_void
        stopped: cython.Py_ssize_t
        if slot_count < self.slot_count or not 0 <= start <= self.count:
            raise VerificationError(
                "Program.run",
                expected=f"{self.slot_count} slots, start within 0..{self.count}",
                got=f"{slot_count} slots, start {start}",
            )
        has_file: cython.bint = False
        raised: cython.p_void = cython.NULL  # of this run: others may be in the program, too
        events: cython.pointer(TraceEvent) = cython.NULL
        log: PieceLog
        if tracing:
            events = _events_of(self)
            _chunk: Chunk = last_chunk()  # has the events, and lives while they are written
        log.items, log.count, log.room, log.first = cython.NULL, 0, 0, 0
        resolved = _pointer_room(self)
        self.running += 1
        try:
            if self.spilled > 0:
                take_file(self.spilled)
                has_file = True
            _resolve(self, slots, resolved)
            if self.cost_ns < RELEASE_ABOVE:
                stopped = _execute_normally(
                    self,
                    resolved,
                    start,
                    not uninterruptible,
                    1,
                    events,
                    cython.address(log),
                    cython.address(raised),
                )
            else:
                with cython.nogil:
                    stopped = _execute_normally(
                        self,
                        resolved,
                        start,
                        not uninterruptible,
                        threads,
                        events,
                        cython.address(log),
                        cython.address(raised),
                    )
            return stopped
        finally:
            _trace_pieces(cython.address(log))
            self.running -= 1
            self.interrupt = None
            if raised != cython.NULL:
                self.interrupt = cython.cast(object, raised)
                Py_DECREF(self.interrupt)
            if resolved != self.resolved:
                free(resolved)
            if has_file:
                leave_file()

    @cython.cfunc
    @cython.nogil
    @cython.exceptval(check=False)
    def _execute(
        self,
        resolved: cython.pp_void,
        start: cython.Py_ssize_t,
        poll: cython.bint,
        team: cython.pointer(Team),
        events: cython.pointer(TraceEvent),
        raised: cython.pp_void,
    ) -> cython.Py_ssize_t:
        """The loop; the index of the first instruction not executed. `raised` gets a reference to the exception that
        stopped it, `events`, where there are some, what each instruction took."""
        index: cython.Py_ssize_t
        launch: cython.pointer(Instruction)
        since_clock: int64_t = 0
        poll_at: int64_t = 0
        began: int64_t = 0 if events == cython.NULL else now()
        if self.cost_ns + self.count * CLOCK_LAUNCHES >= CLOCK_EVERY:  # else it is over before
            poll_at = now() + POLL_EVERY
        for index in range(start, self.count):
            launch = cython.address(self.code[index])
            if self.protected > 0 and index >= self.protected - 1:
                poll = False
            if events != cython.NULL and team != cython.NULL:
                team.log.launch, team.log.first = index, team.log.count
            if not _run_one(self, launch, resolved, poll, team, raised):
                return index
            if events != cython.NULL:
                began = _note(events + index, began)
            since_clock += launch.cost_ns + CLOCK_LAUNCHES
            if since_clock >= CLOCK_EVERY and poll:
                since_clock = 0
                if now() >= poll_at:
                    if _interrupted(raised):
                        return index + 1
                    poll_at = now() + POLL_EVERY
                    began = poll_at - POLL_EVERY
        return self.count

    @cython.cfunc
    @cython.nogil
    @cython.exceptval(check=False)
    def _run_slices(
        self,
        launch: cython.pointer(Instruction),
        resolved: cython.pp_void,
        team: cython.pointer(Team),
        raised: cython.pp_void,
    ) -> cython.bint:
        """Run a long instruction some milliseconds at a time; False when a signal handler raised."""
        begin: int64_t = 0
        end: int64_t
        size: int64_t = 0
        began: int64_t = now()
        poll_at: int64_t = began + POLL_EVERY
        ended: int64_t
        cost_ns: cython.double
        while begin < launch.units:
            size = _slice_units(launch, begin, size)
            end = min(begin + size, launch.units)
            cost_ns = cython.cast(cython.double, end - begin) / launch.units * launch.cost_ns
            _run_units(
                launch,
                resolved,
                self.arguments,
                self.members,
                begin,
                end,
                cython.cast(int64_t, cost_ns),
                team,
            )
            begin = end
            ended = now()
            launch.pace = (ended - began) / cost_ns
            began = ended
            if began >= poll_at:
                if _interrupted(raised):
                    return False
                poll_at = began + POLL_EVERY
        return True


@cython.cfunc
@cython.exceptval(check=False)
def _events_of(program: CpuExecutable) -> cython.pointer(TraceEvent):
    """An event for each instruction, which the loop writes without the GIL; NULL where there is no room."""
    events: cython.pointer(TraceEvent) = reserve(program.count)
    index: cython.Py_ssize_t
    thread: cython.ulong = cython.cast(cython.ulong, PyThread_get_thread_ident())
    if events != cython.NULL:
        for index in range(program.count):
            events[index].first = index
            events[index].thread = thread
    return events


@cython.cfunc
@cython.exceptval(check=False)
def _trace_pieces(log: cython.pointer(PieceLog)) -> cython.void:
    """Record what workers did, on their threads, behind the run of whose thread it was."""
    index: int64_t
    event: cython.pointer(TraceEvent)
    for index in range(log.count):
        event = reserve(1)
        if event == cython.NULL:
            break
        event.begin_ns, event.end_ns = log.items[index].begin_ns, log.items[index].end_ns
        event.first = log.items[index].launch
        event.second = cython.cast(int64_t, PyThread_get_thread_ident())
        event.thread = log.items[index].thread
        event.kind = PIECE
    free(log.items)


@cython.cfunc
@cython.inline
@cython.nogil
@cython.exceptval(check=False)
def _note(event: cython.pointer(TraceEvent), began: int64_t) -> int64_t:
    """Note that an instruction ran from `began` until now, which is returned."""
    event.begin_ns = began
    event.end_ns = now()
    event.kind = LAUNCH
    return event.end_ns


@cython.cfunc
@cython.with_gil
@cython.exceptval(check=False)
def _interrupted(raised: cython.pp_void) -> cython.bint:
    """Let Python handle pending signals; whether a handler raised."""
    try:
        PyErr_CheckSignals()
    except BaseException as error:  # noqa: B036 - handed to the caller of run
        _hand_over(error, raised)
        return True
    return False


@cython.cfunc
@cython.with_gil
@cython.exceptval(check=False)
def _spill_failed(raised: cython.pp_void) -> cython.bint:
    """Stop at an instruction that could not write to the spill file or read from it."""
    _hand_over(take_failure(), raised)
    return True


@cython.cfunc
@cython.exceptval(check=False)
def _hand_over(error: object, raised: cython.pp_void) -> cython.void:
    Py_INCREF(error)
    raised[0] = cython.cast(cython.p_void, error)


@cython.cfunc
@cython.nogil
@cython.exceptval(check=False)
def _execute_normally(
    program: CpuExecutable,
    resolved: cython.pp_void,
    start: cython.Py_ssize_t,
    poll: cython.bint,
    threads: cython.int,
    events: cython.pointer(TraceEvent),
    log: cython.pointer(PieceLog),
    raised: cython.pp_void,
) -> cython.Py_ssize_t:
    """Execute in the default floating-point environment, with the team where it is to be had. Where there are `events`,
    the log gets what workers did."""
    environment: fenv_t
    flushes: cython.bint = flushes_subnormals(start)
    team: cython.pointer(Team) = cython.NULL
    if flushes:
        fegetenv(cython.address(environment))
        fesetenv(FE_DFL_ENV)
    if threads > 1:
        team = enter(threads)
        if team != cython.NULL and events != cython.NULL:
            team.log = log
        if team != cython.NULL and program.shared_cost_ns >= ROUSE_ABOVE:
            rouse(team)
    start = program._execute(resolved, start, poll, team, events, raised)
    if team != cython.NULL:
        leave(team)
    if flushes:
        fesetenv(cython.address(environment))
    return start


@cython.cfunc
@cython.inline
@cython.nogil
@cython.exceptval(check=False)
def _run_units(
    launch: cython.pointer(Instruction),
    resolved: cython.pp_void,
    arguments: cython.pointer(int64_t),
    members: cython.pointer(Member),
    begin: int64_t,
    end: int64_t,
    cost_ns: int64_t,
    team: cython.pointer(Team),
) -> cython.void:
    """Run the units [begin, end) of an instruction, shared out where that is worth it."""
    group: GroupedLaunch
    job: Job
    job.begin = begin
    job.end = end
    if launch.members == 0:
        job.kernel = launch.kernel
        job.pointers = resolved + launch.first_pointer
        job.arguments = arguments + launch.first_argument
    else:
        group.kernel = launch.kernel
        group.resolved = resolved
        group.arguments = arguments
        group.members = members + launch.first_member
        group.count = launch.members
        job.kernel = _run_group
        job.pointers = cython.cast(cython.pp_void, cython.address(group))
        job.arguments = cython.NULL
    if team != cython.NULL and (
        cost_ns >= SPLIT_ABOVE or (cost_ns >= SPLIT_AWAKE and is_awake(team))
    ):
        _share_units(cython.address(job), launch.grain_size, cost_ns, team)
    elif begin < end:
        job.kernel(job.pointers, job.arguments, begin, end)


@cython.cfunc
@cython.nogil
@cython.exceptval(check=False)
def _run_group(
    pointers: cython.pp_void, arguments: cython.pointer(int64_t), begin: int64_t, end: int64_t
) -> cython.void:
    """A kernel over a table of members, as a kernel itself: a unit is a grain of one of them."""
    group: cython.pointer(GroupedLaunch) = cython.cast(cython.pointer(GroupedLaunch), pointers)
    low: int64_t = 0
    high: int64_t = group.count
    middle: int64_t
    stop: int64_t
    member: cython.pointer(Member)
    while high - low > 1:  # the last member that begins at or before `begin`
        middle = (low + high) // 2
        if group.members[middle].first <= begin:
            low = middle
        else:
            high = middle
    while begin < end:
        member = cython.address(group.members[low])
        low += 1
        stop = end if low == group.count else min(end, group.members[low].first)
        if begin < stop:
            group.kernel(
                group.resolved + member.first_pointer,
                group.arguments + member.first_argument,
                (begin - member.first) * member.grain_size,
                min((stop - member.first) * member.grain_size, member.units),
            )
            begin = stop


@cython.cfunc
@cython.nogil
@cython.exceptval(check=False)
def _share_units(
    job: cython.pointer(Job), grain_size: int64_t, cost_ns: int64_t, team: cython.pointer(Team)
) -> cython.void:
    """Share units out, or run them as one where there is nothing to cut."""
    job.grain_size = grain_size
    job.grains = (job.end - job.begin + grain_size - 1) // grain_size
    job.tasks = _task_count(job.grains, cost_ns, cython.cast(int64_t, team.size))
    if job.tasks > 1:
        share(team, job)
    elif job.begin < job.end:
        job.kernel(job.pointers, job.arguments, job.begin, job.end)


@cython.cfunc
@cython.exceptval(-1, check=False)
def _resolve(
    program: CpuExecutable, slots: cython.pointer(uintptr_t), resolved: cython.pp_void
) -> cython.int:
    """Every pointer of the program: base of its slot and offset."""
    index: cython.Py_ssize_t
    base: uintptr_t
    missing: cython.Py_ssize_t = -1
    for index in range(program.pointer_count):
        base = slots[program.pointers[index].slot]
        if base == 0:
            missing = index
        resolved[index] = cython.cast(cython.p_void, base + program.pointers[index].offset)
    if missing >= 0:
        raise VerificationError(
            "Program.run", got=f"no address in slot {program.pointers[missing].slot}"
        )
    return 0


@cython.cfunc
def _pointer_room(program: CpuExecutable) -> cython.pp_void:
    """The memory for a run's pointers: the program's own, or new memory if that is in use."""
    wanted: cython.Py_ssize_t = program.pointer_count + 1
    if program.running == 0 and program.resolved_room >= wanted:
        return program.resolved
    room: cython.pp_void = cython.cast(
        cython.pp_void, malloc(wanted * cython.sizeof(cython.p_void))
    )
    if room == cython.NULL:
        raise MemoryError
    if program.running == 0:
        free(program.resolved)
        program.resolved = room
        program.resolved_room = wanted
    return room


@cython.cfunc
@cython.inline
@cython.nogil
@cython.exceptval(check=False)
def _run_one(
    executable: CpuExecutable,
    launch: cython.pointer(Instruction),
    resolved: cython.pp_void,
    poll: cython.bint,
    team: cython.pointer(Team),
    raised: cython.pp_void,
) -> cython.bint:
    """Run an instruction; False when a signal handler raised, or a spill failed."""
    if launch.cost_ns >= SLICE_ABOVE and poll:
        if not executable._run_slices(launch, resolved, team, raised):
            return False
    else:
        _run_units(
            launch,
            resolved,
            executable.arguments,
            executable.members,
            0,
            launch.units,
            launch.cost_ns,
            team,
        )
    return spill_failure == 0 or not _spill_failed(raised)


@cython.final
@cython.cclass
class ThreadQueue(Queue):
    """Programs run on the calling thread, which shares large launches out to workers."""

    @cython.cfunc
    def new_executable(self) -> Executable:
        return CpuExecutable()

    @cython.cfunc
    @cython.exceptval(check=False)
    def flushes_subnormals(self, salt: cython.Py_ssize_t) -> cython.bint:
        return flushes_subnormals(salt)
