"""From what is live to what is computed: what each pass of `simplify` does, and what it may not do."""

from __future__ import annotations

from pass_check import check_pass, stays


def test_what_nobody_needs_is_left_out() -> None:
    check_pass(
        "extract",
        """
        views not folded
        $0 = value float32[3] live
        %0 = exp($0) : float32[3]
        %1 = sin($0) : float32[3]
        %2 = mul(%0, 2) : float32[3] live
        """,
        """
        views not folded
        $0 = value float32[3] live
        %0 = exp($0) : float32[3]
        %1 = mul(%0, 2) : float32[3] live
        """,
    )


def test_a_batch_is_there_where_a_row_of_it_is_wanted() -> None:
    stays(
        "extract",
        """
        views not folded
        $0 = value float32[2, 3] live
        %0 = exp($0) : float32[2, 3]
        %1 = row 1 of %0 : float32[3]
        %2 = neg(%1) : float32[3] live
        """,
    )


def test_where_nothing_is_live_there_is_nothing_to_do() -> None:
    check_pass(
        "extract",
        """
        views not folded
        $0 = value float32[3] live
        %0 = exp($0) : float32[3]
        """,
        """

        """,
    )


def test_what_is_read_twice_is_there_once() -> None:
    check_pass(
        "extract",
        """
        views not folded
        $0 = value float32[3] live
        %0 = exp($0) : float32[3] live
        %1 = neg($0) : float32[3]
        %2 = sin(%0) : float32[3]
        %3 = mul(%2, %0) : float32[3] live
        """,
        """
        views not folded
        $0 = value float32[3] live
        %0 = exp($0) : float32[3] live
        %1 = sin(%0) : float32[3]
        %2 = mul(%1, %0) : float32[3] live
        """,
    )


def test_a_stack_becomes_rows_put_together() -> None:
    check_pass(
        "decompose",
        """
        views not folded
        $0 = value float32[3] live
        $1 = value float32[3] live
        %0 = stack($0, $1) (0,) : float32[2, 3]
        %1 = exp(%0) : float32[2, 3] live
        """,
        """
        views not folded
        $0 = value float32[3] live
        $1 = value float32[3] live
        %0 = view($0) (1, 3) : float32[1, 3]
        %1 = view($1) (1, 3) : float32[1, 3]
        %2 = cat(%1, %0) (0,) : float32[2, 3]
        %3 = exp(%2) : float32[2, 3] live
        """,
    )


def test_a_macro_becomes_its_primitives() -> None:
    check_pass(
        "decompose",
        """
        views not folded
        $0 = value float32[2, 3] live
        %0 = logsumexp($0) (-1,) : float32[2, 1] live
        """,
        """
        views not folded
        $0 = value float32[2, 3] live
        %0 = amax($0) ((1,), True) : float32[2, 1]
        %1 = isfinite(%0) : bool[2, 1]
        %2 = where(%1, %0, 0) : float32[2, 1]
        %3 = sub($0, %2) : float32[2, 3]
        %4 = exp(%3) : float32[2, 3]
        %5 = sum(%4) ((1,), True) : float32[2, 1]
        %6 = log(%5) : float32[2, 1]
        %7 = add(%6, %2) : float32[2, 1] live
        """,
    )


def test_a_stack_of_one_is_no_macro() -> None:
    stays(
        "decompose",
        """
        views not folded
        $0 = value float32[3] live
        %0 = stack($0) (0,) : float32[1, 3] live
        """,
    )


def test_primitives_and_views_stay() -> None:
    stays(
        "decompose",
        """
        views not folded
        $0 = value float32[3] live
        %0 = exp($0) : float32[3]
        %1 = view(%0) (1, 3) : float32[1, 3] live
        """,
    )


def test_a_table_is_multiplied_before_its_rows_are_gathered() -> None:
    check_pass(
        "gather_matmul",
        """
        views not folded
        $0 = value float32[10, 80] live
        $1 = value int64[1000] live
        $2 = value float32[80, 32] live
        %0 = take($0, $1) (0,) : float32[1000, 80]
        %1 = matmul(%0, $2) : float32[1000, 32] live
        """,
        """
        views not folded
        $0 = value int64[1000] live
        $1 = value float32[10, 80] live
        $2 = value float32[80, 32] live
        %0 = matmul($1, $2) : float32[10, 32]
        %1 = take(%0, $0) (0,) : float32[1000, 32] live
        """,
    )


def test_few_rows_are_gathered_first() -> None:
    stays(
        "gather_matmul",
        """
        views not folded
        $0 = value float32[10, 64] live
        $1 = value int64[5] live
        $2 = value float32[64, 32] live
        %0 = take($0, $1) (0,) : float32[5, 64]
        %1 = matmul(%0, $2) : float32[5, 32] live
        """,
    )


def test_rows_that_lie_across_are_gathered_first() -> None:
    stays(
        "gather_matmul",
        """
        views not folded
        $0 = value float32[10, 64] live
        $1 = value int64[64] live
        $2 = value float32[1000, 32] live
        %0 = take($0, $1) (0,) : float32[64, 64]
        %1 = permute(%0) (1, 0) : float32[64, 64]
        %2 = matmul(%1, $2) : float32[64, 32] live
        """,
    )


def test_a_view_is_a_region_and_one_without_strides_a_copy() -> None:
    check_pass(
        "fold_views",
        """
        views not folded
        $0 = value float32[4, 3] live
        %0 = exp($0) : float32[4, 3]
        %1 = permute(%0) (1, 0) : float32[3, 4]
        %2 = view(%1) (12,) : float32[12]
        %3 = mul(%2, 2) : float32[12] live
        %4 = select(%0) (0, 1) : float32[3] live
        """,
        """
        $0 = value float32[4, 3] live
        %0 = exp($0) : float32[4, 3] kept
        %1 = view(%0[0; 3, 4; 1, 3]) (12,) : float32[12]
        %2 = mul(%1, 2) : float32[12] live
        """,
    )


def test_a_row_of_a_batch_is_a_region_of_it() -> None:
    check_pass(
        "fold_views",
        """
        views not folded
        $0 = value float32[4, 3] live
        %0 = exp($0) : float32[4, 3]
        %1 = row 2 of %0 : float32[3] live
        %2 = neg(%1) : float32[3] live
        """,
        """
        $0 = value float32[4, 3] live
        %0 = exp($0) : float32[4, 3] kept
        %1 = neg(%0[6; 3; 1]) : float32[3] live
        """,
    )


def test_a_stride_over_gaps_gets_a_copy_to_read() -> None:
    check_pass(
        "fold_views",
        """
        views not folded
        $0 = value float32[3, 4] live
        %0 = permute($0) (1, 0) : float32[4, 3]
        %1 = strided(%0) (2, (1,)) : float32[5] live
        """,
        """
        $0 = value float32[3, 4] live
        %0 = clone($0[0; 4, 3; 1, 4]) : float32[4, 3] kept
        """,
    )


def test_a_sum_over_a_dimension_put_in_lies_where_its_source_does() -> None:
    check_pass(
        "fold_views",
        """
        views not folded
        $0 = value float32[3] live
        %0 = exp($0) : float32[3]
        %1 = view(%0) (1, 3) : float32[1, 3]
        %2 = sum(%1) ((0,), False) : float32[3]
        %3 = neg(%2) : float32[3] live
        """,
        """
        $0 = value float32[3] live
        %0 = exp($0) : float32[3]
        %1 = neg(%0) : float32[3] live
        """,
    )


def test_a_sum_of_elements_is_computed() -> None:
    check_pass(
        "fold_views",
        """
        views not folded
        $0 = value float32[3] live
        %0 = view($0) (1, 3) : float32[1, 3]
        %1 = view(%0) (1, 1, 3) : float32[1, 1, 3] live
        %2 = sum(%0) ((1,), False) : float32[1] live
        """,
        """
        $0 = value float32[3] live
        %0 = sum($0[0; 1, 3; 3, 1]) ((1,), False) : float32[1] live
        """,
    )


def test_equal_nodes_are_one_that_is_live_where_either_was() -> None:
    check_pass(
        "cse",
        """
        $0 = value float32[3] live
        %0 = exp($0) : float32[3]
        %1 = exp($0) : float32[3] live
        %2 = add(%0, %1) : float32[3] live
        """,
        """
        $0 = value float32[3] live
        %0 = exp($0) : float32[3] kept
        %1 = add(%0, %0) : float32[3] live
        """,
    )


def test_views_of_equal_nodes_are_equal() -> None:
    check_pass(
        "cse",
        """
        $0 = value float32[4, 3] live
        %0 = exp($0) : float32[4, 3]
        %1 = exp($0) : float32[4, 3]
        %2 = mul(%1[0; 3, 4; 1, 3], 2) : float32[3, 4] live
        %3 = mul(%0[0; 3, 4; 1, 3], 2) : float32[3, 4] live
        """,
        """
        $0 = value float32[4, 3] live
        %0 = exp($0) : float32[4, 3]
        %1 = mul(%0[0; 3, 4; 1, 3], 2) : float32[3, 4] live
        """,
    )


def test_zeros_of_two_signs_and_numbers_of_two_dtypes_are_not_equal() -> None:
    stays(
        "cse",
        """
        $0 = value float32[3] live
        %0 = mul($0, 0.0) : float32[3] live
        %1 = mul($0, -0.0) : float32[3] live
        %2 = mul($0, 2) : float32[3] live
        %3 = mul($0, float64(2)) : float32[3] live
        """,
    )


def test_other_params_and_other_regions_are_not_equal() -> None:
    stays(
        "cse",
        """
        $0 = value float32[4, 4] live
        %0 = sum($0) ((0,), False) : float32[4] live
        %1 = sum($0) ((1,), False) : float32[4] live
        %2 = sum($0[0; 4, 4; 1, 4]) ((0,), False) : float32[4] live
        %3 = exp($0[0; 2, 4; 4, 1]) : float32[2, 4] live
        %4 = exp($0[8; 2, 4; 4, 1]) : float32[2, 4] live
        """,
    )


def test_rows_below_each_other_are_equal_in_another_shape() -> None:
    check_pass(
        "cse",
        """
        $0 = value float32[2, 3] live
        %0 = cat($0, $0) (0,) : float32[4, 3] live
        %1 = cat($0[0; 1, 2, 3; 6, 3, 1], $0[0; 1, 2, 3; 6, 3, 1]) (0,) : float32[2, 2, 3]
        %2 = neg(%1) : float32[2, 2, 3] live
        """,
        """
        $0 = value float32[2, 3] live
        %0 = cat($0, $0) (0,) : float32[4, 3] live
        %1 = neg(%0[0; 2, 2, 3; 6, 3, 1]) : float32[2, 2, 3] live
        """,
    )


def test_draws_from_other_counters_are_not_equal() -> None:
    stays(
        "cse",
        """
        $0 = value float32[3] live
        %0 = exp($0) : float32[3]
        %1 = uniform_float32(1, 2, $0) : float32[3] live
        %2 = uniform_float32(1, 3, $0) : float32[3] live
        """,
    )


def test_windows_are_read_where_the_image_lies() -> None:
    check_pass(
        "implicit_gemm",
        """
        $0 = value float32[1, 40, 40] live
        $1 = value float32[9, 16] live
        %0 = view($0[0; 38, 38, 3, 3; 40, 1, 40, 1]) (1444, 9) : float32[1444, 9]
        %1 = matmul(%0, $1) : float32[1444, 16] live
        """,
        """
        $0 = value float32[1, 40, 40] live
        $1 = value float32[9, 16] live
        %0 = matmul($0[0; 1444, 9; ((38, 40), (38, 1)), ((3, 40), (3, 1))], $1) : float32[1444, 16] live
        """,
    )


def test_windows_that_something_else_reads_are_laid_out() -> None:
    stays(
        "implicit_gemm",
        """
        $0 = value float32[1, 40, 40] live
        $1 = value float32[9, 16] live
        %0 = view($0[0; 38, 38, 3, 3; 40, 1, 40, 1]) (1444, 9) : float32[1444, 9]
        %1 = matmul(%0, $1) : float32[1444, 16] live
        %2 = exp(%0) : float32[1444, 9] live
        """,
    )


def test_a_reshape_without_overlap_is_laid_out() -> None:
    stays(
        "implicit_gemm",
        """
        $0 = value float32[12, 40] live
        $1 = value float32[40, 16] live
        %0 = view($0[0; 40, 12; 1, 40]) (12, 40) : float32[12, 40]
        %1 = matmul(%0, $1) : float32[12, 16] live
        """,
    )
