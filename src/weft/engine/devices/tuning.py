# cython: language_level=3
"""Tuning: every threshold by which passes decide on one device, in one frozen record (XLA: backend flags).

A threshold says from where on something pays: no bit of a value depends on one. What values do depend on, the order of
sums, is no tuning and stands in `weft.engine.kernels.reduction_order`. A device gives each field its value
(`weft.engine.devices.cpu.tuning`); passes read the record of the device that they schedule for. Tests that need another
decision put another record in its place: `weft.testing.tuned`.
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
    """When equal operations of separate examples become one, forward and in the reverse walk."""

    def __init__(self, **fields):
        take = fields.pop
        # of an operand: copying larger rows together takes longer than company saves
        self.row_bytes = take("row_bytes")
        # the same for a product with a weight that all share
        self.product_bytes = take("product_bytes")
        # of an operation on rows that lie in batches already
        self.batched_row_bytes = take("batched_row_bytes")
        # of a batch: fewer cost more in gathering than they save
        self.fewest_rows = take("fewest_rows")
        # of a batch of elementwise operations that reads no batch
        self.fewest_lone_rows = take("fewest_lone_rows")
        # which bring its operands together, as a rule
        self.gathers_of_a_batch = take("gathers_of_a_batch")
        self.bytes_of_a_node = take("bytes_of_a_node")  # that are read while a node is run
        # of a large graph, for which batching has to spare one
        self.nodes_of_a_spared_one = take("nodes_of_a_spared_one")
        self.narrow_nodes = take("narrow_nodes")  # of a graph: in smaller ones any batch will do
        # of the longest way: narrower graphs bring together more than they spare
        self.fewest_nodes_of_a_step = take("fewest_nodes_of_a_step")
        # of a sum of rows that is added up again where it goes on
        self.most_terms = take("most_terms")
        # of columns, that go to one gradient and become one
        self.fewest_joined_sums = take("fewest_joined_sums")
        # of rows that one of them is over: the memory of larger ones is soon free again
        self.joined_sum_bytes = take("joined_sum_bytes")
        need_none(self, fields)


@cython.final
@cython.cclass
class Fusion(Record):
    """How large kernels become."""

    def __init__(self, **fields):
        take = fields.pop
        self.most_nodes = take("most_nodes")  # of a kernel; 1: nothing is fused
        # of a row kernel, whose phases are loops of their own
        self.most_row_nodes = take("most_row_nodes")
        # of a row kernel: of fewer, each is better cut between threads
        self.fewest_rows = take("fewest_rows")
        # that one unit of a row kernel may keep; beyond, values are computed again
        self.row_memory_bytes = take("row_memory_bytes")
        # latest kernels that a reduction may join although none computes what it reduces
        self.most_siblings = take("most_siblings")
        # that need not be stored where column sums join the kernel of their rows
        self.fewest_saved_values = take("fewest_saved_values")
        # of such sums: the partial sums of fewer are as much work
        self.fewest_summed_rows = take("fewest_summed_rows")
        self.most_summed_rows = take("most_summed_rows")  # of such sums: more are several blocks
        self.column_sum_bytes = take("column_sum_bytes")  # of such sums, for each element of a row
        need_none(self, fields)


@cython.final
@cython.cclass
class Costs(Record):
    """What computing, reading and storing an element costs, counted in additions."""

    def __init__(self, **fields):
        take = fields.pop
        self.operations = take("operations")  # name of an operation -> additions
        self.other_operation = take("other_operation")  # one that is not listed
        self.read = take("read")  # of an operand
        self.store = take("store")  # in memory, and reading it
        self.store_in_row = take("store_in_row")  # in a row that its kernel keeps, and reading it
        need_none(self, fields)


@cython.final
@cython.cclass
class Rematerialization(Record):
    """When a value is computed again instead of being kept."""

    def __init__(self, **fields):
        take = fields.pop
        self.peak_bytes = take("peak_bytes")  # of a program: those that need less stay as they are
        # at the peak, that computing values of one kernel again has to free
        self.freed_bytes = take("freed_bytes")
        self.most_clones = take("most_clones")  # of operations, for one kernel
        self.most_values = take("most_values")  # of one kernel that are looked at together
        # of a value that is cheap enough to be computed in each reader
        self.cloned_bytes = take("cloned_bytes")
        self.most_readers = take("most_readers")  # of such a value, in kernels
        # how many times smaller than a value what is read for it counts as nothing
        self.negligible_ratio = take("negligible_ratio")
        need_none(self, fields)


@cython.final
@cython.cclass
class Horizontal(Record):
    """When independent kernels of one code are one launch."""

    def __init__(self, **fields):
        take = fields.pop
        self.gang_bytes = take("gang_bytes")  # that all members leave behind for other kernels
        need_none(self, fields)


@cython.final
@cython.cclass
class Tiering(Record):
    """When a kernel is compiled, and when a flush is run node by node."""

    def __init__(self, **fields):
        take = fields.pop
        self.new_kernels_of_a_flush = take("new_kernels_of_a_flush")  # fused ones that it compiles
        self.uses = take("uses")  # flushes of a fused kernel, after which it is compiled
        # of a kernel, after which it is compiled for a node that runs alone
        self.uses_alone = take("uses_alone")
        # of all operations of a kernel: counts for half of the uses
        self.medium_elements = take("medium_elements")
        # from here on it is compiled at once: it takes longer than the compiler
        self.long_elements = take("long_elements")
        self.schedule_ns = take("schedule_ns")  # of a node in all stages
        self.call_ns = take("call_ns")  # of a node whose kernel is called, beyond the kernel
        self.lower_ns = take("lower_ns")  # of a node that is lowered by itself
        # that a node stores, where fusion keeps it in registers
        self.traffic_ns_of_a_kb = take("traffic_ns_of_a_kb")
        # of a flush that go through the passes one by one
        self.unknown_nodes = take("unknown_nodes")
        # for so many nodes there may be one more
        self.nodes_of_an_unknown_one = take("nodes_of_an_unknown_one")
        # there should be so many nodes for each unknown one
        self.nodes_of_a_miss = take("nodes_of_a_miss")
        # that are scheduled while a kernel is compiled
        self.nodes_of_a_kernel = take("nodes_of_a_kernel")
        # flushes in a row with too many unknown nodes, after which some are not tried
        self.free_tries = take("free_tries")
        self.most_tries = take("most_tries")  # in a row that are counted
        need_none(self, fields)


@cython.final
@cython.cclass
class Threads(Record):
    """How work is cut. A chunk is the least piece that a thread takes."""

    def __init__(self, **fields):
        take = fields.pop
        self.split_ns = take("split_ns")  # of work from which a launch is shared out
        self.chunk_elements = take("chunk_elements")  # of a loop
        self.chunk_blocks = take("chunk_blocks")  # of a reduction to one element
        self.chunk_columns = take("chunk_columns")  # of a reduction across rows
        # of sums beside a row kernel, as they are folded
        self.chunk_added_columns = take("chunk_added_columns")
        self.chunk_gathered_elements = take("chunk_gathered_elements")  # of gathered rows
        need_none(self, fields)


@cython.final
@cython.cclass
class Copies(Record):
    """How values are moved."""

    def __init__(self, **fields):
        take = fields.pop
        # of a copy: of fewer nobody asks how large caches are
        self.large_bytes = take("large_bytes")
        # of a line, from which a large copy goes past the caches
        self.streamed_line_bytes = take("streamed_line_bytes")
        self.streamed_chunk_bytes = take("streamed_chunk_bytes")  # of such a copy
        # of a `cat` that is one gather: of fewer, each is a copy
        self.fewest_parts = take("fewest_parts")
        # that an entry of its table is worth
        self.fewest_entry_elements = take("fewest_entry_elements")
        self.most_entries_of_a_part = take("most_entries_of_a_part")  # in its table
        # in one launch: signals are answered between launches
        self.scattered_positions = take("scattered_positions")
        # elements that are added in one launch without looking for signals
        self.scattered_at_once = take("scattered_at_once")
        # of a value from outside that a scatter writes over instead of copying it
        self.scattered_bytes = take("scattered_bytes")
        need_none(self, fields)


@cython.final
@cython.cclass
class Products(Record):
    """How matrix products are prepared."""

    def __init__(self, **fields):
        take = fields.pop
        # products of a few rows by one matrix that pay for a copy of it
        self.fewest_prepacked = take("fewest_prepacked")
        # of such a product: fewer have a kernel that turns the matrix in registers
        self.fewest_prepacked_rows = take("fewest_prepacked_rows")
        # for more, turning it is a small part
        self.most_prepacked_rows = take("most_prepacked_rows")
        self.fewest_prepacked_columns = take("fewest_prepacked_columns")
        # for each element, where rows are multiplied before a gather
        self.fewest_saved_multiplications = take("fewest_saved_multiplications")
        # about, in the estimate of implicit products
        self.vector_elements = take("vector_elements")
        self.packed_rows = take("packed_rows")  # that are packed together there
        self.unit_columns = take("unit_columns")  # of a unit of work there
        need_none(self, fields)


@cython.final
@cython.cclass
class Reductions(Record):
    """Which way reductions are run."""

    def __init__(self, **fields):
        take = fields.pop
        # so few columns, of tall rows, are cut into blocks of rows
        self.narrow_columns = take("narrow_columns")
        self.tall_rows = take("tall_rows")
        need_none(self, fields)


@cython.final
@cython.cclass
class MemoryTuning(Record):
    """How much is held."""

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
