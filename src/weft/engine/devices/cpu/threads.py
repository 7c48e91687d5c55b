# cython: language_level=3
"""The thread pool: worker threads, parked until a program shares out an instruction.

The executor enters the team once per program, shares out the instructions that are worth it, and leaves. A job is cut
into pieces; each seat owns a contiguous range of them, so that neighbouring instructions find their data in the same
core's cache, and takes from the others' ranges when its own is done. The caller never waits for a worker that has not
begun: a sleeping or preempted one costs nothing but its help. Idle workers look for work for a millisecond, most of
which they leave to other threads that want the core, then park. After a fork the child starts a team of its own when
it needs one. The executor decides where to cut; no cut changes a bit.
"""

import os
import warnings

import cython
from cython.cimports.libc.stdint import int64_t, uint64_t
from cython.cimports.libc.stdlib import calloc, realloc
from cython.cimports.weft.engine.capi.atomics import (
    __ATOMIC_ACQUIRE,
    __ATOMIC_RELAXED,
    __ATOMIC_RELEASE,
    __ATOMIC_SEQ_CST,
    CPU_CLR,
    CPU_COUNT,
    CPU_EQUAL,
    CPU_SET,
    FE_DFL_ENV,
    SIG_SETMASK,
    atomic_add,
    atomic_compare_exchange,
    atomic_exchange,
    atomic_load,
    atomic_store,
    cpu_set_t,
    fesetenv,
    pthread_atfork,
    pthread_cond_init,
    pthread_cond_signal,
    pthread_cond_wait,
    pthread_create,
    pthread_detach,
    pthread_getaffinity_np,
    pthread_mutex_init,
    pthread_mutex_lock,
    pthread_mutex_unlock,
    pthread_setaffinity_np,
    pthread_sigmask,
    sched_getcpu,
    sched_yield,
    sigfillset,
    sigset_t,
)
from cython.cimports.weft.engine.capi.clock import now

from weft._build.compiled import require
from weft.engine.devices.cpu.hardware import usable_cores
from weft.errors import ArgumentError, ArgumentTypeError

require(__name__, cython.compiled)

_team = cython.declare(cython.pointer(Team), cython.NULL)
_in_use = cython.declare(uint64_t, 0)
_wanted = cython.declare(cython.int, 0)  # 0: not yet decided


@cython.cfunc
@cython.inline
@cython.nogil
@cython.exceptval(check=False)
def _take(seat: cython.pointer(Seat), steal: cython.bint) -> int64_t:
    """Claim a piece of a seat's range, the owner from its front, others from its back; -1: none."""
    word: uint64_t = atomic_load(cython.address(seat.range), __ATOMIC_ACQUIRE)
    first: uint64_t
    end: uint64_t
    taken: uint64_t
    while True:
        first = (word >> 16) & 0xFFFF
        end = word & 0xFFFF
        if first >= end:
            return -1
        taken = word - 1 if steal else word + 0x10000
        # The ticket is part of the word, so a claim succeeds only on the job that is in progress.
        if atomic_compare_exchange(
            cython.address(seat.range),
            cython.address(word),
            taken,
            False,
            __ATOMIC_SEQ_CST,
            __ATOMIC_ACQUIRE,
        ):
            return cython.cast(int64_t, end - 1 if steal else first)


@cython.cfunc
@cython.inline
@cython.nogil
@cython.exceptval(check=False)
def _piece_start(job: cython.pointer(Job), task: int64_t) -> int64_t:
    """The first unit of a piece; for the piece after the last one it may be past the job's end."""
    return job.begin + job.grains * task // job.tasks * job.grain_size


@cython.cfunc
@cython.nogil
@cython.exceptval(check=False)
def _help(team: cython.pointer(Team), me: cython.int) -> cython.void:
    """Run pieces, one's own first, until all are claimed."""
    size: cython.int = cython.cast(
        cython.int, atomic_load(cython.address(team.size), __ATOMIC_ACQUIRE)
    )
    done: uint64_t = 0
    began: int64_t = 0
    step: cython.int
    victim: cython.int
    task: int64_t
    for step in range(size):
        victim = (me + step) % size
        while True:
            task = _take(cython.address(team.seats[victim]), step != 0)
            if task < 0:
                break
            if done == 0 and team.log != cython.NULL:
                began = now()
            team.job.kernel(
                team.job.pointers,
                team.job.arguments,
                _piece_start(cython.address(team.job), task),
                min(_piece_start(cython.address(team.job), task + 1), team.job.end),
            )
            done += 1
    if done != 0:
        if began != 0:
            team.seats[me].begin_ns, team.seats[me].end_ns = began, now()
        atomic_add(cython.address(team.finished), done, __ATOMIC_RELEASE)


@cython.cfunc
@cython.nogil
@cython.exceptval(check=False)
def _await_ticket(seat: cython.pointer(Seat), seen: uint64_t) -> uint64_t:
    """Spin a while, let others have the core a while, then park, until the seat's ticket is another than `seen`."""
    ticket: uint64_t = atomic_load(cython.address(seat.range), __ATOMIC_ACQUIRE) >> 32
    start: int64_t = now()
    spent: int64_t = 0
    while ticket == seen and spent < PATIENCE_NS:
        if spent > SPIN_NS:
            sched_yield()
        ticket = atomic_load(cython.address(seat.range), __ATOMIC_ACQUIRE) >> 32
        spent = now() - start  # reading the clock paces the loop
    if ticket != seen:
        return ticket
    pthread_mutex_lock(cython.address(seat.mutex))
    atomic_store(cython.address(seat.asleep), 1, __ATOMIC_SEQ_CST)
    while True:
        ticket = atomic_load(cython.address(seat.range), __ATOMIC_SEQ_CST) >> 32
        if ticket != seen:
            break
        pthread_cond_wait(cython.address(seat.wake), cython.address(seat.mutex))
    atomic_store(cython.address(seat.asleep), 0, __ATOMIC_SEQ_CST)
    pthread_mutex_unlock(cython.address(seat.mutex))
    return ticket


@cython.cfunc
@cython.nogil
@cython.exceptval(check=False)
def _work(argument: cython.p_void) -> cython.p_void:
    """A worker's life."""
    seat: cython.pointer(Seat) = cython.cast(cython.pointer(Seat), argument)
    ticket: uint64_t = 0
    fesetenv(FE_DFL_ENV)  # a thread inherits flush-to-zero and the like from its maker
    while True:
        ticket = _await_ticket(seat, ticket)
        _help(seat.team, seat.number)
    return cython.NULL


@cython.cfunc
@cython.nogil
@cython.exceptval(check=False)
def _keep_apart(seat: cython.pointer(Seat)) -> cython.void:
    """Let a sleeping worker run on any of its cores but the caller's: some systems wake it there, behind the caller,
    who does all of the work before it gets its turn. Nothing is done where there is no other core; cores that others
    gave it since it was last woken are what it has."""
    cores: cpu_set_t
    core: cython.int = sched_getcpu()
    if core < 0 or core == seat.avoided - 1:
        return
    if pthread_getaffinity_np(seat.thread, cython.sizeof(cpu_set_t), cython.address(cores)) != 0:
        return
    if seat.avoided > 0 and CPU_EQUAL(cython.address(cores), cython.address(seat.cores)):
        CPU_SET(seat.avoided - 1, cython.address(cores))
    CPU_CLR(core, cython.address(cores))
    if CPU_COUNT(cython.address(cores)) == 0:
        return
    if pthread_setaffinity_np(seat.thread, cython.sizeof(cpu_set_t), cython.address(cores)) == 0:
        seat.avoided = core + 1
        seat.cores = cores


@cython.cfunc
@cython.nogil
@cython.exceptval(check=False)
def _publish(seat: cython.pointer(Seat), word: uint64_t) -> cython.void:
    atomic_store(cython.address(seat.range), word, __ATOMIC_SEQ_CST)
    if atomic_load(cython.address(seat.asleep), __ATOMIC_SEQ_CST) != 0:
        _keep_apart(seat)
        pthread_mutex_lock(cython.address(seat.mutex))
        pthread_cond_signal(cython.address(seat.wake))
        pthread_mutex_unlock(cython.address(seat.mutex))


@cython.cfunc
@cython.nogil
@cython.exceptval(check=False)
def _hand_out(team: cython.pointer(Team), tasks: uint64_t) -> cython.void:
    """Give each seat its range of the pieces under a new ticket, and wake who sleeps."""
    size: uint64_t = team.size
    seat: uint64_t
    ticket: uint64_t
    team.ticket += 1
    ticket = cython.cast(uint64_t, team.ticket) << 32
    for seat in range(size):
        _publish(
            cython.address(team.seats[seat]),
            ticket | ((tasks * seat // size) << 16) | (tasks * (seat + 1) // size),
        )


@cython.cfunc
@cython.inline
@cython.nogil
@cython.exceptval(check=False)
def is_awake(team: cython.pointer(Team)) -> cython.bint:
    """True if the first worker, and so most likely all of them, looks for work: sharing a job out then needs no system
    call."""
    return atomic_load(cython.address(team.seats[1].asleep), __ATOMIC_RELAXED) == 0


@cython.cfunc
@cython.nogil
@cython.exceptval(check=False)
def rouse(team: cython.pointer(Team)) -> cython.void:
    """Wake the workers ahead of the first job."""
    _hand_out(team, 0)


@cython.cfunc
@cython.nogil
@cython.exceptval(check=False)
def share(team: cython.pointer(Team), job: cython.pointer(Job)) -> cython.void:
    """Run a job's pieces (at most MAX_PIECES) on the team; returns when all are done."""
    tasks: uint64_t = cython.cast(uint64_t, job.tasks)
    until: int64_t
    team.job = job[0]
    if team.log != cython.NULL:
        _forget_times(team)
    atomic_store(cython.address(team.finished), 0, __ATOMIC_RELAXED)
    _hand_out(team, tasks)
    _help(team, 0)
    until = now() + SPIN_NS
    while atomic_load(cython.address(team.finished), __ATOMIC_ACQUIRE) != tasks:
        if now() > until:  # the worker that has the last piece may be waiting for this very core
            sched_yield()
    if team.log != cython.NULL:
        _log_pieces(team)


@cython.cfunc
@cython.nogil
@cython.exceptval(check=False)
def _forget_times(team: cython.pointer(Team)) -> cython.void:
    seat: uint64_t
    for seat in range(team.size):
        team.seats[seat].begin_ns = 0


@cython.cfunc
@cython.nogil
@cython.exceptval(check=False)
def _log_pieces(team: cython.pointer(Team)) -> cython.void:
    """Note what each worker did of the job that is over; of a launch that runs in slices, it is one piece. Where there
    is no memory for it, it is left out."""
    seat: uint64_t
    log: cython.pointer(PieceLog) = team.log
    piece: cython.pointer(Piece)
    for seat in range(1, team.size):
        if team.seats[seat].begin_ns == 0:
            continue
        piece = _piece_of(log, cython.cast(cython.ulong, team.seats[seat].thread))
        if piece == cython.NULL:
            return
        if piece.begin_ns == 0:
            piece.begin_ns = team.seats[seat].begin_ns
        piece.end_ns = team.seats[seat].end_ns


@cython.cfunc
@cython.nogil
@cython.exceptval(check=False)
def _piece_of(log: cython.pointer(PieceLog), thread: cython.ulong) -> cython.pointer(Piece):
    """The piece of a thread in the launch that runs, made where there is none; NULL without memory."""
    index: int64_t
    room: int64_t
    for index in range(log.first, log.count):
        if log.items[index].thread == thread:
            return log.items + index
    if log.count == log.room:
        room = 2 * log.room + 64
        grown: cython.p_void = realloc(log.items, room * cython.sizeof(Piece))
        if grown == cython.NULL:
            return cython.NULL
        log.items = cython.cast(cython.pointer(Piece), grown)
        log.room = room
    log.items[log.count].launch = log.launch
    log.items[log.count].begin_ns = 0
    log.items[log.count].thread = thread
    log.count += 1
    return log.items + (log.count - 1)


@cython.cfunc
@cython.nogil
@cython.exceptval(check=False)
def _new_team() -> cython.pointer(Team):
    team: cython.pointer(Team) = cython.cast(cython.pointer(Team), calloc(1, cython.sizeof(Team)))
    seat: cython.int
    if team == cython.NULL:
        return team
    team.started = 1
    for seat in range(MAX_THREADS):
        team.seats[seat].team = team
        team.seats[seat].number = seat
        pthread_mutex_init(cython.address(team.seats[seat].mutex), cython.NULL)
        pthread_cond_init(cython.address(team.seats[seat].wake), cython.NULL)
    return team


@cython.cfunc
@cython.nogil
@cython.exceptval(check=False)
def _start_workers(team: cython.pointer(Team), wanted: uint64_t) -> cython.void:
    """Start threads, deaf to signals, until `wanted` seats are taken or the system refuses."""
    everything: sigset_t
    before: sigset_t
    seat: cython.pointer(Seat)
    sigfillset(cython.address(everything))
    pthread_sigmask(SIG_SETMASK, cython.address(everything), cython.address(before))
    while team.started < wanted:
        # A new worker has seen ticket 0; an old range left in its seat is exhausted.
        seat = cython.address(team.seats[team.started])
        if pthread_create(cython.address(seat.thread), cython.NULL, _work, seat) != 0:
            break
        pthread_detach(seat.thread)
        team.started += 1
    pthread_sigmask(SIG_SETMASK, cython.address(before), cython.NULL)


@cython.cfunc
@cython.nogil
@cython.exceptval(check=False)
def enter(wanted: cython.int) -> cython.pointer(Team):
    """Take the team for `wanted` threads; NULL when another thread has it or it is not needed."""
    global _team
    if wanted < 2 or atomic_exchange(cython.address(_in_use), 1, __ATOMIC_SEQ_CST) != 0:
        return cython.NULL
    if _team == cython.NULL:
        _team = _new_team()
    if _team != cython.NULL:
        _team.log = cython.NULL
        if _team.started < cython.cast(uint64_t, wanted):
            _start_workers(_team, wanted)
        atomic_store(
            cython.address(_team.size),
            min(_team.started, cython.cast(uint64_t, wanted)),
            __ATOMIC_RELEASE,
        )
        if _team.size >= 2:
            return _team
    leave(_team)
    return cython.NULL


@cython.cfunc
@cython.nogil
@cython.exceptval(check=False)
def leave(team: cython.pointer(Team)) -> cython.void:
    """Let go of the team."""
    atomic_store(cython.address(_in_use), 0, __ATOMIC_SEQ_CST)


@cython.cfunc
@cython.nogil
@cython.exceptval(check=False)
def _after_fork_in_child() -> cython.void:
    """The workers exist only in the parent: forget them. Their memory is too small to matter. A program that a signal
    handler has forked in the middle goes on alone: nobody is to be woken, whose mutex a worker may have held."""
    global _team
    seat: cython.int
    if _team != cython.NULL:
        atomic_store(cython.address(_team.size), 1, __ATOMIC_SEQ_CST)
        for seat in range(MAX_THREADS):
            atomic_store(cython.address(_team.seats[seat].asleep), 0, __ATOMIC_SEQ_CST)
    _team = cython.NULL
    atomic_store(cython.address(_in_use), 0, __ATOMIC_SEQ_CST)


@cython.cfunc
@cython.exceptval(-1, check=False)
def wanted_threads() -> cython.int:
    """The number of threads a program may use, decided at the first question."""
    global _wanted
    if _wanted == 0:
        _wanted = _default_threads()
    return _wanted


def _default_threads() -> int:
    """WEFT_NUM_THREADS, else OMP_NUM_THREADS, else the physical cores."""
    for variable in ("WEFT_NUM_THREADS", "OMP_NUM_THREADS"):
        text = os.environ.get(variable, "").split(",")[0].strip()
        if text.isdigit() and int(text) > 0:
            return min(int(text), MAX_THREADS)
        if text and variable.startswith("WEFT"):
            warnings.warn(
                f"WEFT_NUM_THREADS: {text!r} ignored; it takes a positive integer",
                RuntimeWarning,
                stacklevel=2,
            )
    return min(usable_cores(), MAX_THREADS)


def worker_names() -> dict[int, str]:
    """The names of the workers that have been started, by the identifiers of their threads."""
    names: dict = {}
    seat: uint64_t
    if _team != cython.NULL:
        for seat in range(1, _team.started):
            names[cython.cast(cython.ulong, _team.seats[seat].thread)] = f"worker {seat}"
    return names


def get_num_threads() -> int:
    """The number of threads that share out large operations."""
    return wanted_threads()


def set_num_threads(threads: object) -> None:
    """Use this many threads from the next program on; results do not depend on it."""
    global _wanted
    if type(threads) is not int:
        raise ArgumentTypeError("set_num_threads", expected="an int", got=repr(threads))
    if threads < 1:
        raise ArgumentError(
            "set_num_threads expects a positive integer",
            expected="a positive integer",
            got=repr(threads),
            fix="pass 1 to run on the calling thread only",
        )
    _wanted = min(threads, MAX_THREADS)


if pthread_atfork(cython.NULL, cython.NULL, _after_fork_in_child) != 0:
    raise MemoryError("pthread_atfork")
