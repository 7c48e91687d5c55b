"""The CPU's tuning: thresholds measured on x86-64 with AVX-512, two to sixteen cores, 1 to 2 MB of second cache a
core.

`weft.engine.devices.tuning` says what each field means, and its unit.
"""

from __future__ import annotations

from weft.engine.devices import tuning

_SIMPLE = (
    "add sub mul neg abs square cube cast eq ne lt le gt ge where maximum minimum clamp_min clamp_max relu sign "
    "logical_and logical_or logical_not logical_xor bitwise_and bitwise_or bitwise_xor bitwise_not isnan isinf "
    "isfinite real imag conj complex clone floor ceil trunc round iota"
)

TUNING = tuning.Tuning(
    batching=tuning.Batching(
        row_bytes=32 << 10,
        product_bytes=128 << 10,
        batched_row_bytes=512 << 10,
        fewest_rows=3,
        fewest_lone_rows=8,
        gathers_of_a_batch=1.5,
        bytes_of_a_node=1 << 14,
        nodes_of_a_spared_one=2,
        narrow_nodes=64,
        fewest_nodes_of_a_step=8,
        most_terms=16,
        most_joined_indices=256,
        fewest_joined_sums=4,
        joined_sum_bytes=1 << 18,
    ),
    fusion=tuning.Fusion(
        most_nodes=32,
        most_row_nodes=64,
        fewest_rows=16,
        row_memory_bytes=1 << 19,
        most_siblings=4,
        fewest_saved_values=2,  # with fewer, walking the sums with each row takes as long
        fewest_summed_rows=128,  # with fewer, sixteen partial sums are as much work
        most_summed_rows=4096,
        column_sum_bytes=16,  # each call has four in local memory
    ),
    costs=tuning.Costs(  # rough measures of vectors of float32
        operations={
            **dict.fromkeys(_SIMPLE.split(), 1.0),
            "div": 8.0,
            "reciprocal": 8.0,
            "sqrt": 8.0,
            "rsqrt": 9.0,
            "exp": 12.0,
            "normal_float32": 120.0,
            "normal_float64": 240.0,
        },
        other_operation=30.0,
        read=1.0,
        store=7.0,  # three additions in a chain cost no more, a division does
        store_in_row=5.0,
    ),
    rematerialization=tuning.Rematerialization(
        peak_bytes=32 << 20,
        freed_bytes=1 << 18,
        most_clones=24,
        most_values=5,
        cloned_bytes=1 << 18,
        most_readers=4,
        negligible_ratio=16,
    ),
    horizontal=tuning.Horizontal(group_bytes=128 << 10),
    tiering=tuning.Tiering(
        new_kernels_of_a_flush=12,
        compiler_wait_ns=10_000_000,
        uses=8,
        uses_alone=2,
        medium_elements=1 << 20,  # about a millisecond
        long_elements=1 << 24,
        schedule_flush_ns=30_000,
        schedule_ns=8000,
        schedule_view_ns=500,
        call_ns=600,
        direct_ns=1500,
        view_ns=100,
        lower_ns=5000,
        lowered_ns=2000,
        known_ns=200,
        launch_ns=100,
        compile_ns=3_000_000,
        most_waits=8,
        soon_flushes=8,
        soon_part=0.25,
        traffic_ns_of_a_kb=40,
        unknown_nodes=8,
        nodes_of_an_unknown_one=16,
        nodes_of_a_miss=8,
        nodes_of_a_kernel=512,
        free_tries=3,
        most_tries=6,
    ),
    threads=tuning.Threads(
        split_ns=20000,
        chunk_elements=1024,
        chunk_blocks=4,
        chunk_columns=64,
        chunk_added_columns=256,
        chunk_gathered_elements=4096,
    ),
    copies=tuning.Copies(
        large_bytes=1 << 20,
        streamed_line_bytes=512,
        streamed_chunk_bytes=128 << 10,
        fewest_parts=4,
        fewest_entry_elements=16,
        most_entries_of_a_part=32,
        scattered_positions=1 << 21,
        scattered_at_once=1 << 20,
        scattered_bytes=16 << 10,
    ),
    products=tuning.Products(
        fewest_prepacked=16,
        fewest_prepacked_rows=9,
        most_prepacked_rows=84,
        fewest_prepacked_columns=32,
        fewest_saved_multiplications=64,
        vector_elements=16,
        packed_rows=294,
        unit_columns=256,
    ),
    reductions=tuning.Reductions(narrow_columns=128, tall_rows=1024),
    memory=tuning.MemoryTuning(pending_bytes=4 << 30),
)
