# cython: language_level=3
"""Tuning: every threshold by which passes decide on one device, in one frozen record (XLA: backend flags).

A threshold is the size from which something pays: no bit of a value depends on one. Values do depend on the order of
sums, which is no tuning (`weft.engine.kernels.reduction_order`). A device gives each field its value
(`weft.engine.devices.cpu.tuning`); passes read the record of the device that they schedule for. Tests that need
another decision replace the record (`weft.testing.tuned`).
"""

import cython

from weft._build.compiled import require

require(__name__, cython.compiled)


@cython.cclass
class Record:
    """Fields that are given by name, all of them, and then stay as they are."""

    def __repr__(self):
        inside = ", ".join([f"{name}={value!r}" for name, value in fields_of(self).items()])
        return f"{type(self).__name__}({inside})"


def fields_of(record: Record) -> dict:
    """The fields of a record by name."""
    names = [name for name in vars(type(record)) if not name.startswith("_")]
    return {name: getattr(record, name) for name in names}


def replaced(record: Record, **changes):
    """A record with some fields changed. Errors: TypeError on a name that is no field."""
    return type(record)(**(fields_of(record) | changes))


@cython.cfunc
def need_none(record: Record, left: dict) -> cython.void:
    """Errors: TypeError where a record has been given what is no field of it."""
    if left:
        raise TypeError(f"{type(record).__name__} has no fields {', '.join(left)}")


@cython.final
@cython.cclass
class Batching(Record):
    """Thresholds of batching: when equal operations of separate examples become one, forward and in backward."""

    def __init__(self, **fields):
        take = fields.pop
        # bytes of an operand's row up to which copying rows together pays
        self.row_bytes = take("row_bytes")
        # the same for a product with a weight that all share
        self.product_bytes = take("product_bytes")
        # the same bytes for an operation on rows that are in batches already
        self.batched_row_bytes = take("batched_row_bytes")
        # rows of a batch from which it saves more than packing costs
        self.fewest_rows = take("fewest_rows")
        # rows of a batch of elementwise operations that reads no batch
        self.fewest_lone_rows = take("fewest_lone_rows")
        # gathers that pack a batch's operands, in an estimate of what a batch costs
        self.gathers_of_a_batch = take("gathers_of_a_batch")
        self.bytes_of_a_node = take(
            "bytes_of_a_node"
        )  # bytes read in the time that running one node takes
        # nodes of a graph for each one that batching has to save
        self.nodes_of_a_spared_one = take("nodes_of_a_spared_one")
        # nodes of a graph below which half of the width will do
        self.narrow_nodes = take("narrow_nodes")
        # nodes per level of the longest path: narrower graphs copy more than they save
        self.fewest_nodes_of_a_step = take("fewest_nodes_of_a_step")
        # terms of a sum of rows that a longer sum adds up again
        self.most_terms = take("most_terms")
        # indices of a member up to which its table joins those of others: each is an entry of a gather
        self.most_joined_indices = take("most_joined_indices")
        # column sums that go to one gradient, from which they become one
        self.fewest_joined_sums = take("fewest_joined_sums")
        # bytes of rows that such a sum adds up: the memory of larger ones is soon free again
        self.joined_sum_bytes = take("joined_sum_bytes")
        need_none(self, fields)


@cython.final
@cython.cclass
class Fusion(Record):
    """Thresholds of fusion: the sizes of kernels."""

    def __init__(self, **fields):
        take = fields.pop
        self.most_nodes = take("most_nodes")  # nodes of a kernel; 1: nothing is fused
        # nodes of a row kernel, whose phases are loops of their own
        self.most_row_nodes = take("most_row_nodes")
        # rows of a row kernel: with fewer, each row is better divided between threads
        self.fewest_rows = take("fewest_rows")
        # bytes that one unit of a row kernel may spill; beyond, values are computed again
        self.row_memory_bytes = take("row_memory_bytes")
        # latest kernels that a reduction may join although none computes what it reduces
        self.most_siblings = take("most_siblings")
        # values that need not be stored if column sums join the kernel of their rows
        self.fewest_saved_values = take("fewest_saved_values")
        # rows of such sums: the partial sums of fewer are as much work
        self.fewest_summed_rows = take("fewest_summed_rows")
        self.most_summed_rows = take(
            "most_summed_rows"
        )  # rows of such sums: more are several blocks
        self.column_sum_bytes = take(
            "column_sum_bytes"
        )  # bytes of such sums for each element of a row
        need_none(self, fields)


@cython.final
@cython.cclass
class Costs(Record):
    """The costs of computing, reading and storing an element, in additions."""

    def __init__(self, **fields):
        take = fields.pop
        self.operations = take("operations")  # name of an operation -> additions
        self.other_operation = take("other_operation")  # one that is not listed
        self.read = take("read")  # reading an operand
        self.store = take("store")  # storing in memory, and reading it
        self.store_in_row = take(
            "store_in_row"
        )  # storing in a row that the kernel keeps, and reading it
        need_none(self, fields)


@cython.final
@cython.cclass
class Rematerialization(Record):
    """Thresholds of rematerialization: when a value is computed again instead of being kept."""

    def __init__(self, **fields):
        take = fields.pop
        self.peak_bytes = take(
            "peak_bytes"
        )  # bytes at the peak: programs that need less stay as they are
        # bytes at the peak that recomputing values of one kernel must save
        self.freed_bytes = take("freed_bytes")
        self.most_clones = take("most_clones")  # operations cloned for one kernel
        self.most_values = take("most_values")  # values of one kernel that are considered together
        # bytes of a value that is cheap enough to be computed in each reader
        self.cloned_bytes = take("cloned_bytes")
        self.most_readers = take("most_readers")  # kernels that read such a value
        # operands that are this many times smaller than the result are free to read
        self.negligible_ratio = take("negligible_ratio")
        need_none(self, fields)


@cython.final
@cython.cclass
class Horizontal(Record):
    """Thresholds of horizontal fusion: when independent kernels of one code are one launch."""

    def __init__(self, **fields):
        take = fields.pop
        self.group_bytes = take("group_bytes")  # bytes that a group may store for other kernels
        need_none(self, fields)


@cython.final
@cython.cclass
class Tiering(Record):
    """Thresholds of tiering: when a kernel is compiled, and when a flush is interpreted node by node."""

    def __init__(self, **fields):
        take = fields.pop
        self.new_kernels_of_a_flush = take("new_kernels_of_a_flush")  # fused ones that it compiles
        # for which a flush waits for kernels that are compiled in the background
        self.compiler_wait_ns = take("compiler_wait_ns")
        self.uses = take("uses")  # flushes of a fused kernel, after which it is compiled
        # uses of a kernel until it is compiled for a node that runs alone
        self.uses_alone = take("uses_alone")
        # elements of all operations of a kernel from which half the uses are enough
        self.medium_elements = take("medium_elements")
        # elements from which it is compiled at once: running its operations alone takes longer
        self.long_elements = take("long_elements")
        self.schedule_flush_ns = take("schedule_flush_ns")  # all stages, for a flush
        self.schedule_ns = take("schedule_ns")  # for each node, beside that
        self.schedule_view_ns = take("schedule_view_ns")  # for one that is a view
        self.call_ns = take("call_ns")  # calling the loop of a node, in addition to the kernel
        # calling the kernel of one that is no loop: a product, an indexed read, a join, a write
        self.direct_ns = take("direct_ns")
        self.view_ns = take("view_ns")  # of one that is a view
        self.lower_ns = take("lower_ns")  # lowering a node by itself
        self.lowered_ns = take("lowered_ns")  # running it where that is known
        self.known_ns = take("known_ns")  # running a node in a known program
        self.launch_ns = take("launch_ns")  # a launch in a known program
        # the calling thread's part in compiling a fused kernel: its IR is written there
        self.compile_ns = take("compile_ns")
        # runs of a program that comes back soon, after which its kernels are asked for
        self.most_waits = take("most_waits")
        # flushes within which what comes back is taken to go on coming
        self.soon_flushes = take("soon_flushes")
        # the part of the price of scheduling that it may lose before it is scheduled
        self.soon_part = take("soon_part")
        # storing a value and reading it again, which fusion keeps in registers
        self.traffic_ns_of_a_kb = take("traffic_ns_of_a_kb")
        # nodes of a flush that may go through the passes one by one
        self.unknown_nodes = take("unknown_nodes")
        # nodes of a flush for each further one
        self.nodes_of_an_unknown_one = take("nodes_of_an_unknown_one")
        # there should be so many nodes for each unknown one
        self.nodes_of_a_miss = take("nodes_of_a_miss")
        # nodes that are scheduled in the time in which a kernel is compiled
        self.nodes_of_a_kernel = take("nodes_of_a_kernel")
        # flushes in a row with too many unknown nodes, after which some are not tried
        self.free_tries = take("free_tries")
        self.most_tries = take("most_tries")  # failed flushes in a row that are counted
        need_none(self, fields)


@cython.final
@cython.cclass
class Threads(Record):
    """Thresholds of parallel work. A chunk is the least piece that a thread takes."""

    def __init__(self, **fields):
        take = fields.pop
        self.split_ns = take("split_ns")  # work of a launch from which it is shared out
        self.chunk_elements = take("chunk_elements")  # elements of a loop
        self.chunk_blocks = take("chunk_blocks")  # blocks of a reduction to one element
        self.chunk_columns = take("chunk_columns")  # columns of a reduction across rows
        # columns of sums in a row kernel, as they are folded
        self.chunk_added_columns = take("chunk_added_columns")
        self.chunk_gathered_elements = take("chunk_gathered_elements")  # elements of gathered rows
        need_none(self, fields)


@cython.final
@cython.cclass
class Copies(Record):
    """Thresholds of copies."""

    def __init__(self, **fields):
        take = fields.pop
        # bytes of a copy from which the sizes of caches matter
        self.large_bytes = take("large_bytes")
        # bytes of a line from which a large copy goes past the caches
        self.streamed_line_bytes = take("streamed_line_bytes")
        self.streamed_chunk_bytes = take("streamed_chunk_bytes")  # bytes of such a copy
        # parts of a `cat` that is one gather: fewer are copied one by one
        self.fewest_parts = take("fewest_parts")
        # elements of a part that are worth an entry of its table
        self.fewest_entry_elements = take("fewest_entry_elements")
        self.most_entries_of_a_part = take(
            "most_entries_of_a_part"
        )  # entries of a part in its table
        # positions in one launch: signals are answered between launches
        self.scattered_positions = take("scattered_positions")
        # elements that are added in one launch without looking for signals
        self.scattered_at_once = take("scattered_at_once")
        # bytes of a value from outside that a scatter overwrites instead of copying it
        self.scattered_bytes = take("scattered_bytes")
        need_none(self, fields)


@cython.final
@cython.cclass
class Products(Record):
    """Thresholds of matrix products."""

    def __init__(self, **fields):
        take = fields.pop
        # products of a few rows by one matrix that pay for a copy of it
        self.fewest_prepacked = take("fewest_prepacked")
        # rows of such a product: fewer have a kernel that transposes the matrix in registers
        self.fewest_prepacked_rows = take("fewest_prepacked_rows")
        # rows of such a product: with more, transposing is a small part
        self.most_prepacked_rows = take("most_prepacked_rows")
        self.fewest_prepacked_columns = take("fewest_prepacked_columns")
        # multiplications per element that commuting a gather must save
        self.fewest_saved_multiplications = take("fewest_saved_multiplications")
        # elements of a vector, in the estimate of implicit products
        self.vector_elements = take("vector_elements")
        self.packed_rows = take("packed_rows")  # rows that are packed together there
        self.unit_columns = take("unit_columns")  # columns of a unit of work there
        need_none(self, fields)


@cython.final
@cython.cclass
class Reductions(Record):
    """Thresholds of reductions."""

    def __init__(self, **fields):
        take = fields.pop
        # columns up to which a reduction of tall rows is divided into blocks of rows
        self.narrow_columns = take("narrow_columns")
        self.tall_rows = take("tall_rows")
        need_none(self, fields)


@cython.final
@cython.cclass
class MemoryTuning(Record):
    """Thresholds of memory held by pending work."""

    def __init__(self, **fields):
        take = fields.pop
        # recorded, or held by what is, before it runs; at most a quarter of all
        self.pending_bytes = take("pending_bytes")
        need_none(self, fields)


@cython.final
@cython.cclass
class Tuning(Record):
    """All thresholds of one device, in groups."""

    def __init__(self, **fields):
        take = fields.pop
        self.batching = take("batching")
        self.fusion = take("fusion")
        self.costs = take("costs")
        self.rematerialization = take("rematerialization")
        self.horizontal = take("horizontal")
        self.tiering = take("tiering")
        self.threads = take("threads")
        self.copies = take("copies")
        self.products = take("products")
        self.reductions = take("reductions")
        self.memory = take("memory")
        need_none(self, fields)
