# cython: language_level=3
"""The cache of executables: a flush whose structure and sizes have come before runs without scheduling.

A CachedExecutable holds, in flat arrays, the executor's program, the sizes of its slots, the operands from outside,
and the result of each node of the flush. It is stored when a structure comes for the second time
(`engine/replay/cache`).
"""

import cython
from cython.cimports.libc.stdint import int64_t, uintptr_t
from cython.cimports.libc.stdlib import calloc, free, malloc
from cython.cimports.weft.engine.capi.clock import now
from cython.cimports.weft.engine.devices.api import Device, Executable, Lowerer, Memory, bounded
from cython.cimports.weft.engine.devices.trace import PROGRAM, put_payload, tracing
from cython.cimports.weft.engine.devices.tuning import Tiering
from cython.cimports.weft.engine.ir.memory import OwnedMemory, describe
from cython.cimports.weft.engine.ir.node import DONE, Node, set_buffer
from cython.cimports.weft.engine.ir.primitive import Primitive
from cython.cimports.weft.engine.pipeline.budget.checkpoints import Recorded, note_staying
from cython.cimports.weft.engine.pipeline.fingerprint import SINGLE_NODE, FlushFingerprint
from cython.cimports.weft.engine.pipeline.launch_ir import KernelSpec, SegmentTable
from cython.cimports.weft.engine.replay.cache import Cache, CacheEntry
from cython.cimports.weft.engine.runtime.commit import leave
from cython.cimports.weft.engine.runtime.executable_cache import Commit
from cython.cimports.weft.engine.runtime.labels import labels_of
from cython.cimports.weft.engine.runtime.scalar_cells import store_number
from cython.cimports.weft.engine.runtime.tier_choice import debt_of

from weft._build.compiled import require
from weft.engine.ir.primitive import SCALAR_OP
from weft.engine.pipeline import horizontal_fusion
from weft.engine.pipeline.budget import spill_file
from weft.engine.pipeline.budget.constrain import bytes_taken
from weft.engine.pipeline.memory_plan import is_private
from weft.engine.replay.cache import named
from weft.engine.runtime import tier_choice
from weft.engine.runtime.blocks import ValuesByBlock
from weft.errors import ExecutionError

require(__name__, cython.compiled)

MOST_NODES = 25_000  # nodes of a flush that is cached
NODE_BYTES = cython.declare(
    cython.Py_ssize_t, 256
)  # about what a template takes for each of its nodes
BY_NAME, BY_ROWS = 1, 2  # how a fingerprint names what a program reads
STAYS = cython.declare(cython.Py_ssize_t, -2)  # in place of a slot: the node stays recorded
_scalar_op = cython.declare(Primitive, SCALAR_OP)

_cache = cython.declare(Cache, named("flushes"))
_nodes = cython.declare(Cache, named("nodes"))
counters = _cache.counters


@cython.final
@cython.cclass
class CachedExecutable(CacheEntry):
    """One stored program."""

    def __dealloc__(self):
        free(self.sources)
        free(self.sizes)
        free(self.offsets)
        free(self.hosts)
        free(self.commits)
        free(self.addresses)

    @cython.cfunc
    @cython.exceptval(-1, check=False)
    def make_room(self) -> cython.int:
        """Allocate the arrays, once their lengths are known."""
        word: cython.Py_ssize_t = cython.sizeof(uintptr_t)
        self.sources = cython.cast(
            cython.pointer(cython.Py_ssize_t), calloc(self.source_count + 1, word)
        )
        self.sizes = cython.cast(
            cython.pointer(cython.Py_ssize_t), calloc(self.size_count + 1, word)
        )
        self.offsets = cython.cast(
            cython.pointer(cython.Py_ssize_t), calloc(self.size_count + 1, word)
        )
        self.hosts = cython.cast(
            cython.pointer(cython.Py_ssize_t), calloc(self.size_count + 1, word)
        )
        self.commits = cython.cast(
            cython.pointer(Commit), calloc(self.commit_count + 1, cython.sizeof(Commit))
        )
        self.addresses = cython.cast(
            cython.pointer(uintptr_t), calloc(self.source_count + self.size_count + 1, word)
        )
        if (
            self.sources == cython.NULL
            or self.sizes == cython.NULL
            or self.offsets == cython.NULL
            or self.hosts == cython.NULL
            or self.commits == cython.NULL
            or self.addresses == cython.NULL
        ):
            raise MemoryError
        return 0


@cython.ccall
def lookup(fingerprint: FlushFingerprint) -> CachedExecutable:
    """The stored program of a signature, or None."""
    cache: Cache = _cache_of(fingerprint)
    found: CacheEntry = cache.find(fingerprint.key)
    if found is not None:
        cache.counters.hits += 1
    return cython.cast(CachedExecutable, found)


@cython.cfunc
@cython.inline
def _cache_of(fingerprint: FlushFingerprint) -> Cache:
    """The cache of flushes, or of nodes that are run alone."""
    return _cache if fingerprint.variant < SINGLE_NODE else _nodes


def worth_storing(fingerprint: FlushFingerprint):
    """True if this structure has come before and should be cached; notes it otherwise."""
    if len(fingerprint.nodes) > MOST_NODES or not fingerprint.complete:
        return False
    return _cache_of(fingerprint).admits(fingerprint.key.hash)


def has_come(fingerprint: FlushFingerprint):
    """True if `worth_storing` has noted this structure."""
    return _cache.admission.knows(fingerprint.key.hash)


def storable_as(fingerprint: FlushFingerprint, memory):
    """`BY_NAME` if the fingerprint names every value that a program reads, apart from numbers, `BY_ROWS` if it names
    some as blocks of rows; 0 if it does not, as for constants of macros, and blocks that the program writes over."""
    names: set = {_name(node) for node in fingerprint.external}
    others: list = [
        root for root in memory.external if root.op is not SCALAR_OP and _name(root) not in names
    ]
    if not others:
        return BY_NAME
    found = _blocks_of(fingerprint.external, others, memory.in_place)
    return 0 if found is None else BY_ROWS


@cython.cfunc
def _blocks_of(external: list, roots: list, written: set) -> dict:
    """The blocks of rows that values are, by value; None where one is no such block, or is written over."""
    found: dict = {}
    rows = ValuesByBlock(external) if roots else None
    for root in roots:
        block = None if root in written else rows.block_of(root)
        if block is None:
            return None
        found[id(root)] = block
    return found


def store(
    fingerprint: FlushFingerprint,
    program,
    memory,
    lowering,
    run,
    executable,
    commits: list,
    gone: list,
    recorded: Recorded | None = None,
):
    """Keep a program that has just run; `commits`, `gone` and `recorded` say what becomes of its nodes."""
    overwritten: list = [root for root in memory.in_place if root.state == DONE]
    if lowering.layout is not None:
        overwritten += [memory.external[slot] for slot in set(lowering.layout.hosts) if slot >= 0]
    positions: dict = {_name(node): index for index, node in enumerate(fingerprint.external)}
    constants: list = [
        r for r in memory.external if r.op is SCALAR_OP and _name(r) not in positions
    ]
    for index, node in enumerate(constants, len(fingerprint.external)):
        positions[_name(node)] = index
    sources: list = [positions.get(_name(root)) for root in memory.external]
    unnamed: list = [
        root for root, source in zip(memory.external, sources, strict=True) if source is None
    ]
    blocks: dict = _blocks_of(fingerprint.external, unnamed, set(overwritten))
    if blocks is None:
        return
    for index, root in enumerate(memory.external):
        if sources[index] is None:
            sources[index] = blocks[id(root)].places[0]
    template: CachedExecutable = CachedExecutable()
    template.blocks = list(blocks.values())
    template.device = program.device
    template.executable = executable
    template.constants = constants
    template.in_place = [positions[id(root)] for root in overwritten if id(root) in positions]
    template.checked = len(run.checked)
    template.tables = [launch.table for launch in lowering.launches if launch.table is not None]
    template.labels = labels_of(program, lowering)
    template.labels.first = _first_number(fingerprint)
    template.held = template.labels.specs
    template.launches = len(lowering.launches)
    template.kernels = horizontal_fusion.count(program)
    template.layout = lowering.layout
    template.narrow = fingerprint.narrow
    template.debt = debt_of(fingerprint.nodes)
    if program.awaited is not None:
        _await_kernels(template, program)
    ends: list = commits + [(node, -1, 0, None) for node in gone]
    if recorded is not None:
        ends += [(node, STAYS, 0, None) for node in recorded.staying]
    _fill(template, fingerprint, sources, [*memory.sizes, *lowering.scratch], ends)
    if recorded is not None:
        _note_checkpoints(template, fingerprint, recorded)
    _cache_of(fingerprint).keep(fingerprint.key, template, NODE_BYTES * len(fingerprint.nodes))


@cython.cfunc
def _await_kernels(template: CachedExecutable, program) -> cython.void:
    """Note which kernels a program was taken apart for. Those that have come often enough are being compiled; others
    are asked for when running their operations alone has cost what compiling them does."""
    tuning: Tiering = program.device.tuning.tiering
    template.awaited = program.awaited
    spec: KernelSpec
    for spec in program.awaited:
        if spec.uses < tuning.uses:
            template.owed_ns += tuning.compile_ns
    node: Node
    for nodes in program.split_kernels:
        for node in nodes[1:]:
            stored: cython.double = node.numel * node.dtype.itemsize
            template.apart_ns += tuning.launch_ns + tuning.traffic_ns_of_a_kb / 1024 * stored
    if program.most_waits > 0:
        template.owed_ns = min(template.owed_ns, program.most_waits * template.apart_ns)


@cython.cfunc
def _fill(
    template: CachedExecutable,
    fingerprint: FlushFingerprint,
    sources: list,
    sizes: list,
    commits: list,
) -> cython.void:
    """Write a template's arrays."""
    numbers: dict = {id(node): index for index, node in enumerate(fingerprint.nodes)}
    known: list = [commit for commit in commits if id(commit[0]) in numbers]
    template.source_count = len(sources)
    template.size_count = len(sizes)
    template.commit_count = len(known)
    template.make_room()
    index: cython.Py_ssize_t
    for index in range(template.source_count):
        template.sources[index] = sources[index]
    for index in range(template.size_count):
        template.sizes[index] = sizes[index]
    _note_layout(template)
    template.strides = []
    for index in range(template.commit_count):
        node, slot, offset, strides = known[index]
        template.commits[index].node = numbers[id(node)]
        template.commits[index].slot = slot
        template.commits[index].offset = offset
        template.strides.append(strides)


@cython.cfunc
def _note_checkpoints(
    template: CachedExecutable, fingerprint: FlushFingerprint, recorded: Recorded
) -> cython.void:
    """Note which nodes keep their inputs beside their values."""
    index: cython.Py_ssize_t
    for index in range(template.commit_count):
        node = fingerprint.nodes[template.commits[index].node]
        template.commits[index].checkpoint = recorded.is_checkpoint(node)


@cython.cfunc
def _note_layout(template: CachedExecutable) -> cython.void:
    """Note the offsets of slots in the arena, and the bytes that the executable needs under the budget."""
    index: cython.Py_ssize_t
    layout = template.layout
    for index in range(template.size_count):
        template.offsets[index] = -1 if layout is None else layout.offsets[index]
        template.hosts[index] = -1 if layout is None else layout.hosts[index]
        if template.offsets[index] < 0:
            template.need += bytes_taken(template.sizes[index])
    if layout is not None:
        template.arena = layout.arena
        template.need += layout.arena


def _name(node: Node):
    """Equal numbers are one value from outside, whichever node carries them."""
    if node.op is SCALAR_OP:
        return node.dtype.code, type(node.params), repr(node.params)
    return id(node)


@cython.ccall
@cython.exceptval(-1, check=False)
def usable(template: CachedExecutable, fingerprint: FlushFingerprint) -> cython.bint:
    """True if the executable can run: the values that it overwrites are still private, it cannot fail after
    overwriting them (it would run again from inputs that must still be there), and its memory, and a folder to spill
    to, are available; and there is no better one, whose kernels have been compiled meanwhile."""
    memory: Memory
    if template.awaited is not None and _is_outdated(template):
        return False
    if bounded:
        memory = template.device.memory
        if memory.budget() != 0 and template.need > memory.room_left():
            return False
    if template.layout is not None and template.layout.spilled and not spill_file.is_wanted():
        return False
    for block in template.blocks:
        if not _lies_so(fingerprint.external, block[0], block[1]):
            return False
    return _may_overwrite(template, fingerprint)


@cython.cfunc
@cython.exceptval(-1, check=False)
def _may_overwrite(template: CachedExecutable, fingerprint: FlushFingerprint) -> cython.bint:
    """True if the values that the program overwrites are private, and it cannot fail after that."""
    node: Node
    for position in template.in_place:
        if not is_private(fingerprint.external[position]):
            return False
    if template.checked > 0 and template.in_place:
        for node in fingerprint.nodes:
            if node.may_fail:
                return False
    return True


@cython.cfunc
@cython.exceptval(-1, check=False)
def _lies_so(external: list, places: tuple, distances: tuple) -> cython.bint:
    """True if values from outside lie in one piece of memory, so far behind the first of them."""
    first: Node = external[places[0]]
    node: Node
    index: cython.Py_ssize_t
    distance: cython.longlong
    for index in range(1, len(places)):
        node = external[places[index]]
        distance = distances[index]
        if node.buffer is not first.buffer or node.offset - first.offset != distance:
            return False
    return True


@cython.cfunc
@cython.exceptval(-1, check=True)
def _is_outdated(template: CachedExecutable) -> cython.bint:
    """True if all kernels that the program was taken apart for are compiled by now, or soon."""
    device: Device = template.device
    tuning: Tiering = device.tuning.tiering
    spec: KernelSpec
    if template.owed_ns > 0:
        template.owed_ns -= template.apart_ns
        if template.owed_ns > 0:
            return False
        for spec in template.awaited:
            spec.uses = max(spec.uses, tuning.uses)
    lowerer: Lowerer = device.lowerer()
    seconds: cython.double = tuning.compiler_wait_ns * 1e-9
    return not lowerer.compile_in_background(template.awaited, seconds)


# -- running -------------------------------------------------------------------------------------------------------


def released(node: Node):
    """The error of reading a value that nothing has kept."""
    return ExecutionError(
        "the value has been released",
        where=node.where,
        expected="a value that a tensor or a declared save keeps",
        got=repr(node),
    )


@cython.ccall
def run_cached(template: CachedExecutable, fingerprint: FlushFingerprint):
    """Bind slots, run, hand buffers to nodes. Returns the exception that a signal raised, or None; False where an
    index check failed: then nothing has been handed over, and scheduling anew finds the culprit. An interrupted
    program hands nothing over either: its nodes stay pending. Once it has begun to overwrite its inputs it could not be
    begun again: it runs to its end, and the signal is handled behind it."""
    addresses: cython.pointer(uintptr_t) = template.addresses
    own: cython.bint = not template.busy
    if not own:
        addresses = cython.cast(
            cython.pointer(uintptr_t),
            malloc((template.source_count + template.size_count + 1) * cython.sizeof(uintptr_t)),
        )
        if addresses == cython.NULL:
            raise MemoryError
    template.busy = True
    began: int64_t = now() if tracing else 0
    try:
        return _run(template, fingerprint, addresses)
    finally:
        if tracing:
            put_payload(PROGRAM, began, now(), template.labels, _first_number(fingerprint))
        if own:
            template.busy = False
        else:
            free(addresses)


@cython.cfunc
@cython.exceptval(check=False)
def _first_number(fingerprint: FlushFingerprint) -> cython.longlong:
    """The number of the first node of a flush, in order of creation."""
    return cython.cast(Node, fingerprint.nodes[0]).seq if len(fingerprint.nodes) > 0 else 0


@cython.cfunc
def _run(
    template: CachedExecutable, fingerprint: FlushFingerprint, addresses: cython.pointer(uintptr_t)
):
    buffers: list = []
    external: list = fingerprint.external
    if template.constants:
        external = external + template.constants
    cells: OwnedMemory = _bind_sources(template, external, addresses)
    slot: cython.Py_ssize_t = template.source_count
    index: cython.Py_ssize_t
    buffer: OwnedMemory
    memory: Memory = template.device.memory
    arena: OwnedMemory = _arena_of(template)
    offset: cython.Py_ssize_t
    for index in range(template.size_count):
        offset = template.offsets[index]
        buffer = _buffer_of(template, external, arena, index)
        buffers.append(buffer)
        addresses[slot] = buffer.address + max(offset, 0)
        slot += 1
    status: OwnedMemory = None
    addresses[slot] = 0
    if template.checked > 0:
        status = memory.allocate_status(template.checked)
        addresses[slot] = status.address
    for table in template.tables:
        cython.cast(SegmentTable, table).fill(
            cython.cast(cython.pointer(cython.size_t), addresses), memory
        )
    executable: Executable = template.executable
    done: cython.Py_ssize_t = executable.run_addresses(addresses, slot + 1, 0, False)
    interrupt: object = executable.interrupt  # there may be one behind the last launch, too
    if interrupt is not None:
        interrupt = executable.take_interrupt()
    if done < template.launches:
        return interrupt
    for index in range(template.checked):
        if memory.has_failed(status, index):
            return False if interrupt is None else interrupt
    template.debt.run()
    if template.layout is not None:
        template.layout.account.add_run()
    _commit(template, fingerprint, external, addresses, buffers, cells)
    return interrupt


@cython.cfunc
def _buffer_of(
    template: CachedExecutable,
    external: list,
    arena: OwnedMemory | None,
    index: cython.Py_ssize_t,
) -> OwnedMemory:
    """The memory of a slot: of its own, in the arena, or of a value from outside that it takes over."""
    node: Node
    if template.offsets[index] < 0:
        return template.device.memory.allocate(template.sizes[index])
    if template.hosts[index] < 0:
        return arena
    node = external[template.sources[template.hosts[index]]]
    return node.buffer


@cython.cfunc
def _arena_of(template: CachedExecutable) -> OwnedMemory:
    """The arena of a program that was made to fit into the budget; None for others."""
    if template.layout is None:
        return None
    return template.device.memory.allocate_arena(template.arena)


@cython.cfunc
def _bind_sources(
    template: CachedExecutable, external: list, addresses: cython.pointer(uintptr_t)
) -> OwnedMemory:
    """The addresses of values from outside; numbers are written into cells of one buffer, which is returned."""
    cells: OwnedMemory = None
    memory: Memory = template.device.memory
    node: Node
    used: cython.Py_ssize_t = 0
    index: cython.Py_ssize_t
    for index in range(template.source_count):
        node = external[template.sources[index]]
        if node.op is not _scalar_op:
            if node.buffer is None:
                raise released(node)
            addresses[index] = node.buffer.address + node.offset
            continue
        if cells is None:
            cells = memory.allocate_cells(template.source_count - index)
        addresses[index] = memory.cell(cells, used, node.dtype.itemsize)
        store_number(node.params, node.dtype, cython.cast(cython.p_char, addresses[index]))
        used += 1
    if cells is not None:
        memory.publish(cells)
    return cells


@cython.cfunc
def _commit(
    template: CachedExecutable,
    fingerprint: FlushFingerprint,
    external: list,
    addresses: cython.pointer(uintptr_t),
    buffers: list,
    cells: OwnedMemory | None,
) -> cython.void:
    """Hand buffers to the nodes that keep them and take what has run off the tape."""
    commit: cython.pointer(Commit) = template.commits
    node: Node
    source: Node
    buffer: OwnedMemory
    index: cython.Py_ssize_t
    for index in range(template.commit_count):
        commit = cython.address(template.commits[index])
        node = fingerprint.nodes[commit.node]
        if commit.slot == STAYS:
            note_staying(node)
            continue
        if commit.slot >= 0:
            if commit.slot >= template.source_count:
                buffer = buffers[commit.slot - template.source_count]
            else:
                source = external[template.sources[commit.slot]]
                buffer = cells if source.op is _scalar_op else source.buffer
            set_buffer(node, buffer)
            node.offset = addresses[commit.slot] - buffer.address + commit.offset
            node.strides = template.strides[index]
            if buffer.listed:
                describe(buffer, node.code, node.offset_in_code, node.shape, node.dtype)
        node.batch_seen = True
        leave(node, commit.checkpoint)


def clear():
    """Forget every stored program."""
    _cache.clear()
    _nodes.clear()
    tier_choice.clear()
