# cython: language_level=3
"""Known programs: a flush whose structure and sizes have come before runs without scheduling.

A Template holds the executor's program, the sizes of its slots, where outside values come in and what each node of
the flush becomes. It is stored when a structure comes for the second time, confirmed by full comparison when it
comes again, and forgotten least recently used.
"""

from collections import OrderedDict

import cython
from cython.cimports.weft.graph.node import DONE, Node, drop_inputs, finish

from weft._compiled import require
from weft.graph.node import SCALAR_ROW
from weft.runtime.launch import SCALAR_CELL, scalar_bytes
from weft.runtime.pool import allocate
from weft.schedule.rows import fill_tables
from weft.schedule.signature import Record

require(__name__, cython.compiled)

MAX_NODES = 200_000
MAX_SEEN = 100_000

_templates: OrderedDict = OrderedDict()
_seen: OrderedDict = OrderedDict()
_stored_nodes = 0
counters = {"hits": 0, "stored": 0, "seen": 0}


@cython.final
@cython.cclass
class Template:
    """One stored program."""

    record = cython.declare(object, visibility="readonly")
    executable = cython.declare(object, visibility="readonly")
    sources = cython.declare(list)
    scalars = cython.declare(list)
    sizes = cython.declare(list)
    commits = cython.declare(list)
    in_place = cython.declare(list)
    held = cython.declare(object)
    checked = cython.declare(cython.Py_ssize_t)
    tables = cython.declare(list)
    launches = cython.declare(int, visibility="readonly")
    kernels = cython.declare(int, visibility="readonly")
    size = cython.declare(int, visibility="readonly")


def lookup(signature):
    """The stored program of a signature, or None."""
    template = _templates.get(signature.hash)
    if template is None or not template.record.matches(signature):
        return None
    _templates.move_to_end(signature.hash)
    counters["hits"] += 1
    return template


def worth_storing(signature):
    """Whether this structure has come before; notes it otherwise."""
    if len(signature.nodes) > MAX_NODES // 8:
        return False
    if signature.hash in _seen:
        return True
    _seen[signature.hash] = True
    counters["seen"] += 1
    if len(_seen) > MAX_SEEN:
        _seen.popitem(last=False)
    return False


def store(signature, program, memory, lowering, run, executable, commits: list):
    """Keep a program that has just run."""
    global _stored_nodes
    if run.checked and memory.in_place:
        return  # a failed index check runs the program again, from inputs that must still be there
    template: Template = Template()
    template.record = Record(signature)
    template.executable = executable
    positions: dict = {_name(node): index for index, node in enumerate(signature.external)}
    template.sources = []
    template.scalars = []
    for root in memory.external:
        position = positions.get(_name(root))
        if position is None:
            return
        template.sources.append(position)
    template.sizes = [*memory.sizes, *lowering.scratch]
    template.in_place = [
        positions[id(root)]
        for root in memory.in_place
        if root.state == DONE and id(root) in positions
    ]
    indices: dict = {id(node): index for index, node in enumerate(signature.nodes)}
    template.commits = []
    for node, slot, offset, strides in commits:
        index = indices.get(id(node))
        if index is not None:
            template.commits.append((index, slot, offset, strides))
    template.checked = len(run.checked)
    template.tables = [launch.table for launch in lowering.launches if launch.table is not None]
    template.held = [launch.spec for launch in lowering.launches]
    template.launches = len(lowering.launches)
    template.kernels = len(program.kernels)
    template.size = len(signature.nodes)
    _templates[signature.hash] = template
    counters["stored"] += 1
    _stored_nodes += template.size
    while _stored_nodes > MAX_NODES and len(_templates) > 1:
        _, old = _templates.popitem(last=False)
        _stored_nodes -= old.size


def _name(node: Node):
    """Equal numbers are one value from outside, whichever node carries them."""
    if node.row is SCALAR_ROW:
        return node.dtype.code, type(node.params), repr(node.params)
    return id(node)


def usable(template: Template, signature):
    """Whether values that the program overwrites are still nobody else's."""
    from weft.schedule.plan import is_private

    for position in template.in_place:
        if not is_private(signature.external[position]):
            return False
    return True


def run_template(template: Template, signature):
    """Bind slots, run, hand buffers to nodes. Returns the exception that a signal raised, or None; False where an
    index check failed: then nothing has been handed over, and scheduling anew finds the culprit. An interrupted
    program hands nothing over either: its nodes stay pending. One that has begun to overwrite its inputs cannot be
    begun again, and runs to its end first."""
    buffers: list = []
    addresses: list = []
    external: list = signature.external
    cells = None
    node: Node
    used: cython.Py_ssize_t = 0
    packed: list = []
    first_cells: list = []
    position: cython.Py_ssize_t
    for position in template.sources:
        node = external[position]
        if node.row is SCALAR_ROW:
            packed.append(scalar_bytes(node.params, node.dtype).ljust(SCALAR_CELL, b"\0"))
            first_cells.append(len(addresses))
            buffers.append(None)
            addresses.append(used)
            used += SCALAR_CELL
        else:
            buffers.append(node.buffer)
            addresses.append(node.buffer.address + node.offset)
    if packed:
        cells = allocate(used)
        memoryview(cells)[:used] = b"".join(packed)
        for slot in first_cells:
            buffers[slot] = cells
            addresses[slot] += cells.address
    for size in template.sizes:
        buffer = allocate(size)
        buffers.append(buffer)
        addresses.append(buffer.address)
    status = allocate(8 * template.checked + 8)
    cells_used: cython.Py_ssize_t = 8 * template.checked
    if cells_used:
        memoryview(status)[:cells_used] = bytes(cells_used)
    addresses.append(status.address)
    fill_tables(template.tables, addresses)
    executable = template.executable
    interrupt = None
    done = executable.run(addresses)
    while done < template.launches:
        interrupt = executable.interrupt
        if not template.in_place:
            return interrupt
        done = executable.run(addresses, done, True)
    if cells_used and any(memoryview(status)[:cells_used]):
        return False
    nodes: list = signature.nodes
    for index, slot, offset, strides in template.commits:
        node = nodes[index]
        if slot >= 0:
            buffer = buffers[slot]
            node.buffer = buffer
            node.offset = addresses[slot] - buffer.address + offset
            node.strides = strides
        node.state = DONE
        finish(node)
        drop_inputs(node)
    return interrupt


def clear():
    """Forget every stored program."""
    global _stored_nodes
    _templates.clear()
    _seen.clear()
    _stored_nodes = 0
