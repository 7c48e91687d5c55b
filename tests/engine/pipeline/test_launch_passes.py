"""From kernels to launches: what the last passes do, and what they may not do."""

from __future__ import annotations

from pass_check import check_pass, check_text, rounded, stays


def test_a_novel_kernel_runs_in_single_operations() -> None:
    check_pass(
        "tiering",
        """
        $0 = value float64[3] live
        %0 = exp($0) : float64[3]
        %1 = atan2(%0, $0) : float64[3]
        %2 = cos(%1) : float64[3] live
        k0 [3]: %0 %1 %2 -> %2
        """,
        """
        $0 = value float64[3] live
        %0 = exp($0) : float64[3]
        %1 = atan2(%0, $0) : float64[3]
        %2 = cos(%1) : float64[3] live
        k0 [3]: %0 -> %0
        k1 [3]: %1 -> %1
        k2 [3]: %2 -> %2
        """,
    )


def test_a_long_one_is_compiled_at_once() -> None:
    stays(
        "tiering",
        """
        $0 = value float64[4194304] live
        %0 = cos($0) : float64[4194304]
        %1 = atan2(%0, $0) : float64[4194304]
        %2 = exp(%1) : float64[4194304]
        %3 = cos(%2) : float64[4194304] live
        k0 [4194304]: %0 %1 %2 %3 -> %3
        """,
    )


def test_single_operations_and_products_stay() -> None:
    stays(
        "tiering",
        """
        $0 = value float64[3] live
        %0 = acos($0) : float64[3] live
        %1 = matmul(%0, $0) : float64[] live
        k0 [3]: %0 -> %0
        k1 []: %1 -> %1
        """,
    )


def test_equal_kernels_are_one_launch() -> None:
    check_pass(
        "horizontal_fusion",
        """
        $0 = value float32[3] live
        $1 = value float32[5] live
        %0 = exp($0) : float32[3] live
        %1 = exp($1) : float32[5] live
        k0 [3]: %0 -> %0
        k1 [5]: %1 -> %1
        """,
        """
        $0 = value float32[3] live
        $1 = value float32[5] live
        %0 = exp($0) : float32[3] live
        %1 = exp($1) : float32[5] live
        k0 [3]: %0 -> %0
        k0 [5]: %1 -> %1
        """,
    )


def test_a_kernel_does_not_join_what_it_reads() -> None:
    check_pass(
        "horizontal_fusion",
        """
        $0 = value float32[3] live
        %0 = exp($0) : float32[3] live
        %1 = exp(%0) : float32[3] live
        %2 = sin($0) : float32[3] live
        %3 = exp($0) : float32[3] live
        k0 [3]: %0 -> %0
        k1 [3]: %1 -> %1
        k2 [3]: %2 -> %2
        k3 [3]: %3 -> %3
        """,
        """
        $0 = value float32[3] live
        %0 = exp($0) : float32[3] live
        %1 = exp(%0) : float32[3] live
        %2 = sin($0) : float32[3] live
        %3 = exp($0) : float32[3] live
        k0 [3]: %0 -> %0
        k0 [3]: %3 -> %3
        k1 [3]: %1 -> %1
        k2 [3]: %2 -> %2
        """,
    )


def test_kernels_that_may_fail_stay_alone() -> None:
    stays(
        "horizontal_fusion",
        """
        $0 = value float32[10, 4] live
        $1 = value int64[6] live
        %0 = take($0, $1) (0,) : float32[6, 4] live may fail
        %1 = take($0, $1) (0,) : float32[6, 4] live may fail
        k0 [6, 4]: %0 -> %0
        k1 [6, 4]: %1 -> %1
        """,
    )


@rounded
def test_slots_are_shared_once_their_values_are_read() -> None:
    check_text(
        "memory_plan",
        """
        $0 = value float32[3] live
        %0 = exp($0) : float32[3]
        %1 = matmul(%0, %0) : float32[]
        %2 = matmul($0, $0) : float32[]
        %3 = add(%1, %2) : float32[] live
        k0 [3]: %0 -> %0
        k1 []: %1 -> %1
        k2 []: %2 -> %2
        k3 []: %3 -> %3
        """,
        """
        1 values read, 3 slots of 192 bytes for 24 bytes stored
        k0 exp[3] -> slot 1
        k1 matmul[] -> slot 2
        k2 matmul[] -> slot 1
        k3 add[] -> slot 3 kept
        """,
    )


def test_what_nobody_holds_makes_room() -> None:
    check_text(
        "memory_plan",
        """
        $0 = value float32[3]
        %0 = exp($0) : float32[3] live
        k0 [3]: %0 -> %0
        """,
        """
        1 values read, 0 slots of 0 bytes for 12 bytes stored
        k0 exp[3] -> slot 0 kept
        """,
    )


@rounded
def test_what_is_held_keeps_its_memory() -> None:
    check_text(
        "memory_plan",
        """
        $0 = value float32[3] live
        %0 = exp($0) : float32[3] live
        k0 [3]: %0 -> %0
        """,
        """
        1 values read, 1 slots of 64 bytes for 12 bytes stored
        k0 exp[3] -> slot 1 kept
        """,
    )


@rounded
def test_what_may_run_again_keeps_its_inputs() -> None:
    check_text(
        "memory_plan",
        """
        $0 = value float32[3]
        $1 = value int64[2] live
        %0 = take($0, $1) (0,) : float32[2] live may fail
        %1 = exp($0) : float32[3] live
        k0 [2]: %0 -> %0
        k1 [3]: %1 -> %1
        """,
        """
        2 values read, 2 slots of 128 bytes for 20 bytes stored
        k0 take[2] -> slot 2 kept
        k1 exp[3] -> slot 3 kept
        """,
    )


def test_a_kernel_is_a_launch_over_its_elements() -> None:
    check_text(
        "lower",
        """
        $0 = value float32[3] live
        %0 = exp($0) : float32[3] live
        k0 [3]: %0 -> %0
        """,
        """
        k0 exp (s0 s1) units 3 grain 1024
        """,
    )


def test_a_region_is_an_offset_in_bytes() -> None:
    check_text(
        "lower",
        """
        $0 = value float32[4, 3] live
        %0 = clone($0[6; 3; 1]) : float32[3] live
        k0 [3]: %0 -> %0
        """,
        """
        k0 clone (s0+24 s1) units 3 grain 1024
        """,
    )


def test_a_view_that_is_laid_out_is_a_copy() -> None:
    check_text(
        "lower",
        """
        $0 = value float32[4, 3] live
        %0 = view($0[0; 3, 4; 1, 3]) (12,) : float32[12] live
        k0 [12]: %0 -> %0
        """,
        """
        k0 copy (s0 s1) units 3 grain 256
        """,
    )


def test_an_index_check_has_a_status() -> None:
    check_text(
        "lower",
        """
        $0 = value float32[10, 4] live
        $1 = value int64[6] live
        %0 = take($0, $1) (0,) : float32[6, 4] live may fail
        k0 [6, 4]: %0 -> %0
        """,
        """
        k0 indexed (s1 s0 s2 s-1) units 6 grain 1
        """,
    )
