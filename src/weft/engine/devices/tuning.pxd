cdef class Record:
    pass

cdef void need_none(Record record, dict left) except *

cdef class Batching(Record):
    cdef readonly long long row_bytes
    cdef readonly long long product_bytes
    cdef readonly long long batched_row_bytes
    cdef readonly long long fewest_rows
    cdef readonly long long fewest_lone_rows
    cdef readonly double gathers_of_a_batch
    cdef readonly double bytes_of_a_node
    cdef readonly long long nodes_of_a_spared_one
    cdef readonly long long narrow_nodes
    cdef readonly long long fewest_nodes_of_a_step
    cdef readonly long long most_terms
    cdef readonly long long most_joined_indices
    cdef readonly long long fewest_joined_sums
    cdef readonly long long joined_sum_bytes

cdef class Fusion(Record):
    cdef readonly int most_nodes
    cdef readonly int most_row_nodes
    cdef readonly long long fewest_rows
    cdef readonly long long row_memory_bytes
    cdef readonly int most_siblings
    cdef readonly long long fewest_saved_values
    cdef readonly long long fewest_summed_rows
    cdef readonly long long most_summed_rows
    cdef readonly long long column_sum_bytes

cdef class Costs(Record):
    cdef readonly dict operations
    cdef readonly double other_operation
    cdef readonly double read
    cdef readonly double store
    cdef readonly double store_in_row

cdef class Rematerialization(Record):
    cdef readonly long long peak_bytes
    cdef readonly long long freed_bytes
    cdef readonly long long most_clones
    cdef readonly long long most_values
    cdef readonly long long cloned_bytes
    cdef readonly long long most_readers
    cdef readonly long long negligible_ratio

cdef class Horizontal(Record):
    cdef readonly long long group_bytes

cdef class Tiering(Record):
    cdef readonly long long new_kernels_of_a_flush
    cdef readonly long long compiler_wait_ns
    cdef readonly long long uses
    cdef readonly long long uses_alone
    cdef readonly long long medium_elements
    cdef readonly long long long_elements
    cdef readonly double schedule_flush_ns
    cdef readonly double schedule_ns
    cdef readonly double schedule_view_ns
    cdef readonly double call_ns
    cdef readonly double direct_ns
    cdef readonly double view_ns
    cdef readonly double lower_ns
    cdef readonly double lowered_ns
    cdef readonly double known_ns
    cdef readonly double launch_ns
    cdef readonly double compile_ns
    cdef readonly long long most_waits
    cdef readonly long long soon_flushes
    cdef readonly double soon_part
    cdef readonly double traffic_ns_of_a_kb
    cdef readonly long long unknown_nodes
    cdef readonly long long nodes_of_an_unknown_one
    cdef readonly long long nodes_of_a_miss
    cdef readonly long long nodes_of_a_kernel
    cdef readonly int free_tries
    cdef readonly int most_tries

cdef class Threads(Record):
    cdef readonly long long split_ns
    cdef readonly long long chunk_elements
    cdef readonly long long chunk_blocks
    cdef readonly long long chunk_columns
    cdef readonly long long chunk_added_columns
    cdef readonly long long chunk_gathered_elements

cdef class Copies(Record):
    cdef readonly long long large_bytes
    cdef readonly long long streamed_line_bytes
    cdef readonly long long streamed_chunk_bytes
    cdef readonly long long fewest_parts
    cdef readonly long long fewest_entry_elements
    cdef readonly long long most_entries_of_a_part
    cdef readonly long long scattered_positions
    cdef readonly long long scattered_at_once
    cdef readonly long long scattered_bytes

cdef class Products(Record):
    cdef readonly long long fewest_prepacked
    cdef readonly long long fewest_prepacked_rows
    cdef readonly long long most_prepacked_rows
    cdef readonly long long fewest_prepacked_columns
    cdef readonly long long fewest_saved_multiplications
    cdef readonly long long vector_elements
    cdef readonly long long packed_rows
    cdef readonly long long unit_columns

cdef class Reductions(Record):
    cdef readonly long long narrow_columns
    cdef readonly long long tall_rows

cdef class MemoryTuning(Record):
    cdef readonly long long pending_bytes

cdef class Tuning(Record):
    cdef readonly Batching batching
    cdef readonly Fusion fusion
    cdef readonly Costs costs
    cdef readonly Rematerialization rematerialization
    cdef readonly Horizontal horizontal
    cdef readonly Tiering tiering
    cdef readonly Threads threads
    cdef readonly Copies copies
    cdef readonly Products products
    cdef readonly Reductions reductions
    cdef readonly MemoryTuning memory
