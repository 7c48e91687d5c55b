from weft.engine.ir.dtype cimport DType
from weft.engine.ir.memory cimport OwnedMemory
from weft.engine.ir.primitive cimport Primitive

cdef enum:
    PENDING = 0
    DONE = 1
    FAILED = 2
    RESULT_SHIFT = 40

cdef class Node

# What few nodes have: two of a hundred where no hooks are (a name of its own, nearly always).
cdef class RareFacts:
    cdef public object observers  # what users have attached to a record
    cdef public object error  # why it failed, or which rows of it
    cdef public str grad_name  # the name of a public function that it ends, if that differs from the op's
    cdef public Node result  # the value of a record that has none itself
    cdef public unsigned char deferred  # stays recorded when its flush has run (`pipeline.budget.defer`)

cdef class Node:
    # A graph does not fit the nearest caches, and a node is three lines of 64 bytes and a word (its header is
    # before the first). The first line decides how the node runs, and has all that its readers ask.
    cdef readonly Primitive op
    cdef public tuple inputs
    cdef public tuple edges
    cdef readonly tuple shape
    cdef public Node quotient
    cdef readonly DType dtype
    # From here to `tape`: zero in a new node, 64 bytes. `qrow` is then set.
    cdef public unsigned char state
    cdef public unsigned char device  # the number of the one that it runs on (`engine.devices.api`)
    cdef public unsigned char released
    cdef public unsigned char has_residuals
    cdef public unsigned char batch_seen
    cdef public unsigned char may_fail
    cdef public int external_refs
    cdef public int saves  # those of `external_refs` that are saves of derivatives
    # The second line: where passes and walks find it.
    cdef public int qrow
    cdef int position  # its position on its tape
    cdef public long long index
    cdef public long long residual_mask
    cdef public long long walk_number  # the walk that reached it last, and its number there
    cdef public long long max_index  # one more than the largest element, if none is below 0; -1: one is; 0: unknown
    cdef void* tape
    cdef readonly RareFacts rare
    cdef public object info
    cdef public tuple operand_shapes  # for its derivative, where that cannot ask the operands
    # The third: what it was recorded with, and its value.
    cdef readonly object params
    cdef readonly long long numel
    cdef readonly object code
    cdef readonly int offset_in_code
    cdef readonly unsigned int library_site  # which operation of a library call it is; 0: user code recorded it
    cdef readonly long long seq
    cdef readonly OwnedMemory buffer  # set by `set_buffer`
    cdef public long long offset
    cdef public tuple strides

# What few nodes have, to be read: nothing where a node has no such record.
cdef inline object observers_on(Node node):
    return None if node.rare is None else node.rare.observers
cdef inline object error_of(Node node):
    return None if node.rare is None else node.rare.error
cdef inline object grad_name_of(Node node):
    return None if node.rare is None else node.rare.grad_name
cdef inline Node result_of(Node node):
    return None if node.rare is None else node.rare.result
cdef inline unsigned char deferral_of(Node node) noexcept:
    return 0 if node.rare is None else node.rare.deferred
# The record of these, to be written: made when it is first wanted.
cdef inline RareFacts rare_facts(Node node):
    if node.rare is None:
        node.rare = RareFacts.__new__(RareFacts)
    return node.rare
cdef inline void defer_no_more(Node node) noexcept:
    if node.rare is not None:
        node.rare.deferred = 0

# Make a node an owner of a span of memory that holds its value, or of none.
cdef inline void set_buffer(Node node, OwnedMemory buffer) noexcept:
    if node.buffer is not None:
        node.buffer.owners -= 1
    if buffer is not None:
        buffer.owners += 1
    node.buffer = buffer
# The address of the elements of a value that is in memory.
cdef inline void* address_of(Node node) noexcept:
    return <void*>(node.buffer.address + node.offset)
# Whether a flush is to hand a node's value over: somebody holds it, and it is not deferred.
cdef inline bint is_live(Node node) noexcept:
    return node.external_refs > 0 and deferral_of(node) == 0
# Hold a value for a derivative, or no longer.
cdef inline void save(Node node) noexcept:
    node.external_refs += 1
    node.saves += 1
cdef inline void unsave(Node node) noexcept:
    node.external_refs -= 1
    node.saves -= 1
# Whether a node brings the value of its only operand from another device.
cdef inline bint crosses(Node node) noexcept:
    return node.inputs is not None and len(node.inputs) == 1 and (<Node>node.inputs[0]).device != node.device
