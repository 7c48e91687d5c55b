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


@cython.final
@cython.cclass
@cython.dataclasses.dataclass(frozen=True, kw_only=True, eq=False)
class Batching:
    """When equal operations of separate examples become one, forward and in the reverse walk."""

    row_bytes: (
        cython.longlong
    )  # of an operand: copying larger rows together takes longer than company saves
    product_bytes: cython.longlong  # the same for a product with a weight that all share
    batched_row_bytes: cython.longlong  # of an operation on rows that lie in batches already
    fewest_rows: cython.longlong  # of a batch: fewer cost more in gathering than they save
    fewest_lone_rows: cython.longlong  # of a batch of elementwise operations that reads no batch
    gathers_of_a_batch: cython.double  # which bring its operands together, as a rule
    bytes_of_a_node: cython.double  # that are read while a node is run
    nodes_of_a_spared_one: cython.longlong  # of a large graph, for which batching has to spare one
    narrow_nodes: cython.longlong  # of a graph: in smaller ones any batch will do
    fewest_nodes_of_a_step: (
        cython.longlong
    )  # of the longest way: narrower graphs bring together more than they spare
    most_terms: cython.longlong  # of a sum of rows that is added up again where it goes on
    fewest_joined_sums: cython.longlong  # of columns, that go to one gradient and become one
    joined_sum_bytes: (
        cython.longlong
    )  # of rows that one of them is over: the memory of larger ones is soon free again


@cython.final
@cython.cclass
@cython.dataclasses.dataclass(frozen=True, kw_only=True, eq=False)
class Fusion:
    """How large kernels become."""

    most_nodes: cython.int  # of a kernel; 1: nothing is fused
    most_row_nodes: cython.int  # of a row kernel, whose phases are loops of their own
    fewest_rows: cython.longlong  # of a row kernel: of fewer, each is better cut between threads
    row_memory_bytes: (
        cython.longlong
    )  # that one unit of a row kernel may keep; beyond, values are computed again
    most_siblings: (
        cython.int
    )  # latest kernels that a reduction may join although none computes what it reduces
    fewest_saved_values: (
        cython.longlong
    )  # that need not be stored where column sums join the kernel of their rows
    fewest_summed_rows: cython.longlong  # of such sums: the partial sums of fewer are as much work
    most_summed_rows: cython.longlong  # of such sums: more are several blocks
    column_sum_bytes: cython.longlong  # of such sums, for each element of a row


@cython.final
@cython.cclass
@cython.dataclasses.dataclass(frozen=True, kw_only=True, eq=False)
class Costs:
    """What computing, reading and storing an element costs, counted in additions."""

    operations: dict  # name of an operation -> additions
    other_operation: cython.double  # one that is not listed
    read: cython.double  # of an operand
    store: cython.double  # in memory, and reading it
    store_in_row: cython.double  # in a row that its kernel keeps, and reading it


@cython.final
@cython.cclass
@cython.dataclasses.dataclass(frozen=True, kw_only=True, eq=False)
class Rematerialization:
    """When a value is computed again instead of being kept."""

    peak_bytes: cython.longlong  # of a program: those that need less stay as they are
    freed_bytes: (
        cython.longlong
    )  # at the peak, that computing values of one kernel again has to free
    most_clones: cython.longlong  # of operations, for one kernel
    most_values: cython.longlong  # of one kernel that are looked at together
    cloned_bytes: cython.longlong  # of a value that is cheap enough to be computed in each reader
    most_readers: cython.longlong  # of such a value, in kernels
    negligible_ratio: (
        cython.longlong
    )  # how many times smaller than a value what is read for it counts as nothing


@cython.final
@cython.cclass
@cython.dataclasses.dataclass(frozen=True, kw_only=True, eq=False)
class Horizontal:
    """When independent kernels of one code are one launch."""

    gang_bytes: cython.longlong  # that all members leave behind for other kernels


@cython.final
@cython.cclass
@cython.dataclasses.dataclass(frozen=True, kw_only=True, eq=False)
class Tiering:
    """When a kernel is compiled, and when a flush is run node by node."""

    new_kernels_of_a_flush: cython.longlong  # fused ones that it compiles
    uses: cython.longlong  # flushes of a fused kernel, after which it is compiled
    uses_alone: (
        cython.longlong
    )  # of a kernel, after which it is compiled for a node that runs alone
    medium_elements: cython.longlong  # of all operations of a kernel: counts for half of the uses
    long_elements: (
        cython.longlong
    )  # from here on it is compiled at once: it takes longer than the compiler
    schedule_ns: cython.double  # of a node in all stages
    call_ns: cython.double  # of a node whose kernel is called, beyond the kernel
    lower_ns: cython.double  # of a node that is lowered by itself
    traffic_ns_of_a_kb: cython.double  # that a node stores, where fusion keeps it in registers
    unknown_nodes: cython.longlong  # of a flush that go through the passes one by one
    nodes_of_an_unknown_one: cython.longlong  # for so many nodes there may be one more
    nodes_of_a_miss: cython.longlong  # there should be so many nodes for each unknown one
    nodes_of_a_kernel: cython.longlong  # that are scheduled while a kernel is compiled
    free_tries: (
        cython.int
    )  # flushes in a row with too many unknown nodes, after which some are not tried
    most_tries: cython.int  # in a row that are counted


@cython.final
@cython.cclass
@cython.dataclasses.dataclass(frozen=True, kw_only=True, eq=False)
class Threads:
    """How work is cut. A chunk is the least piece that a thread takes."""

    split_ns: cython.longlong  # of work from which a launch is shared out
    chunk_elements: cython.longlong  # of a loop
    chunk_blocks: cython.longlong  # of a reduction to one element
    chunk_columns: cython.longlong  # of a reduction across rows
    chunk_added_columns: cython.longlong  # of sums beside a row kernel, as they are folded
    chunk_gathered_elements: cython.longlong  # of gathered rows


@cython.final
@cython.cclass
@cython.dataclasses.dataclass(frozen=True, kw_only=True, eq=False)
class Copies:
    """How values are moved."""

    large_bytes: cython.longlong  # of a copy: of fewer nobody asks how large caches are
    streamed_line_bytes: cython.longlong  # of a line, from which a large copy goes past the caches
    streamed_chunk_bytes: cython.longlong  # of such a copy
    fewest_parts: cython.longlong  # of a `cat` that is one gather: of fewer, each is a copy
    fewest_entry_elements: cython.longlong  # that an entry of its table is worth
    most_entries_of_a_part: cython.longlong  # in its table
    scattered_positions: cython.longlong  # in one launch: signals are answered between launches
    scattered_at_once: (
        cython.longlong
    )  # elements that are added in one launch without looking for signals
    scattered_bytes: (
        cython.longlong
    )  # of a value from outside that a scatter writes over instead of copying it


@cython.final
@cython.cclass
@cython.dataclasses.dataclass(frozen=True, kw_only=True, eq=False)
class Products:
    """How matrix products are prepared."""

    fewest_prepacked: (
        cython.longlong
    )  # products of a few rows by one matrix that pay for a copy of it
    fewest_prepacked_rows: (
        cython.longlong
    )  # of such a product: fewer have a kernel that turns the matrix in registers
    most_prepacked_rows: cython.longlong  # for more, turning it is a small part
    fewest_prepacked_columns: cython.longlong
    fewest_saved_multiplications: (
        cython.longlong
    )  # for each element, where rows are multiplied before a gather
    vector_elements: cython.longlong  # about, in the estimate of implicit products
    packed_rows: cython.longlong  # that are packed together there
    unit_columns: cython.longlong  # of a unit of work there


@cython.final
@cython.cclass
@cython.dataclasses.dataclass(frozen=True, kw_only=True, eq=False)
class Reductions:
    """Which way reductions are run."""

    narrow_columns: cython.longlong  # so few columns, of tall rows, are cut into blocks of rows
    tall_rows: cython.longlong


@cython.final
@cython.cclass
@cython.dataclasses.dataclass(frozen=True, kw_only=True, eq=False)
class Memory:
    """How much is held."""

    pending_bytes: (
        cython.longlong
    )  # recorded, or held by what is, before it runs; at most a quarter of all


@cython.final
@cython.cclass
@cython.dataclasses.dataclass(frozen=True, kw_only=True, eq=False)
class Tuning:
    """All thresholds of one device, in groups."""

    batching: Batching
    fusion: Fusion
    costs: Costs
    rematerialization: Rematerialization
    horizontal: Horizontal
    tiering: Tiering
    threads: Threads
    copies: Copies
    products: Products
    reductions: Reductions
    memory: Memory
