"""From nodes to kernels: what each pass of `fusion` does, and what it may not do."""

from __future__ import annotations

from collections.abc import Iterator

import pytest

from pass_check import check_pass, stays
from weft.testing.tuned import tuned


@pytest.fixture(autouse=True)
def little_is_much() -> Iterator[None]:
    """A peak of a kilobyte is one that values are computed again for."""
    with tuned("rematerialization", peak_bytes=1000, freed_bytes=100):
        yield


def test_a_chain_is_one_kernel() -> None:
    check_pass(
        "form_kernels",
        """
        $0 = value float32[3] live
        %0 = exp($0) : float32[3]
        %1 = mul(%0, 2) : float32[3]
        %2 = sin(%1) : float32[3] live
        """,
        """
        $0 = value float32[3] live
        %0 = exp($0) : float32[3]
        %1 = mul(%0, 2) : float32[3]
        %2 = sin(%1) : float32[3] live
        k0 [3]: %0 %1 %2 -> %2
        """,
    )


def test_rows_that_are_normalised_are_one_kernel() -> None:
    check_pass(
        "form_kernels",
        """
        $0 = value float32[20, 30] live
        %0 = exp($0) : float32[20, 30]
        %1 = sum(%0) ((1,), False) : float32[20]
        %2 = div(%0, %1[0; 20, 30; 1, 0]) : float32[20, 30] live
        """,
        """
        $0 = value float32[20, 30] live
        %0 = exp($0) : float32[20, 30]
        %1 = sum(%0) ((1,), False) : float32[20]
        %2 = div(%0, %1[0; 20, 30; 1, 0]) : float32[20, 30] live
        k0 [20, 30] reduce[1] rows: %0 %1 %2 -> %2
        """,
    )


def test_what_reads_another_region_is_another_kernel() -> None:
    check_pass(
        "form_kernels",
        """
        $0 = value float32[3, 3] live
        %0 = exp($0) : float32[3, 3]
        %1 = sin(%0[0; 3, 3; 1, 3]) : float32[3, 3] live
        """,
        """
        $0 = value float32[3, 3] live
        %0 = exp($0) : float32[3, 3]
        %1 = sin(%0[0; 3, 3; 1, 3]) : float32[3, 3] live
        k0 [3, 3]: %0 -> %0
        k1 [3, 3]: %1 -> %1
        """,
    )


def test_a_sum_of_columns_is_finished_before_it_is_read() -> None:
    check_pass(
        "form_kernels",
        """
        $0 = value float32[20, 30] live
        %0 = exp($0) : float32[20, 30]
        %1 = sum(%0) ((0,), False) : float32[30]
        %2 = div(%0, %1[0; 20, 30; 0, 1]) : float32[20, 30] live
        """,
        """
        $0 = value float32[20, 30] live
        %0 = exp($0) : float32[20, 30]
        %1 = sum(%0) ((0,), False) : float32[30]
        %2 = div(%0, %1[0; 20, 30; 0, 1]) : float32[20, 30] live
        k0 [20, 30] reduce[0]: %0 %1 -> %0 %1
        k1 [20, 30]: %2 -> %2
        """,
    )


def test_a_product_is_a_kernel_of_its_own() -> None:
    check_pass(
        "form_kernels",
        """
        $0 = value float32[3, 3] live
        %0 = exp($0) : float32[3, 3]
        %1 = matmul(%0, %0) : float32[3, 3]
        %2 = exp(%1) : float32[3, 3] live
        """,
        """
        $0 = value float32[3, 3] live
        %0 = exp($0) : float32[3, 3]
        %1 = matmul(%0, %0) : float32[3, 3]
        %2 = exp(%1) : float32[3, 3] live
        k0 [3, 3]: %0 -> %0
        k1 [3, 3]: %1 -> %1
        k2 [3, 3]: %2 -> %2
        """,
    )


def test_sums_of_other_spaces_are_other_kernels() -> None:
    check_pass(
        "form_kernels",
        """
        $0 = value float32[3] live
        $1 = value float32[5] live
        %0 = exp($0) : float32[3]
        %1 = exp($1) : float32[5]
        %2 = sum(%0) ((0,), False) : float32[] live
        %3 = sum(%1) ((0,), False) : float32[] live
        """,
        """
        $0 = value float32[3] live
        $1 = value float32[5] live
        %0 = exp($0) : float32[3]
        %1 = exp($1) : float32[5]
        %2 = sum(%0) ((0,), False) : float32[] live
        %3 = sum(%1) ((0,), False) : float32[] live
        k0 [3] reduce[0]: %0 %2 -> %2
        k1 [5] reduce[0]: %1 %3 -> %3
        """,
    )


def test_a_value_moves_into_its_only_reader() -> None:
    check_pass(
        "into_reader",
        """
        $0 = value float32[100, 12] live
        $1 = value float32[100, 12] live
        %0 = mul($0, $1) : float32[100, 12]
        %1 = exp($0) : float32[100, 12] live
        %2 = matmul(%1[0; 12, 100; 1, 12], $1) : float32[12, 12] live
        %3 = sub(%0, $0) : float32[100, 12] live
        k0 [100, 12]: %0 %1 -> %0 %1
        k1 [12, 12]: %2 -> %2
        k2 [100, 12]: %3 -> %3
        """,
        """
        $0 = value float32[100, 12] live
        $1 = value float32[100, 12] live
        %0 = mul($0, $1) : float32[100, 12]
        %1 = exp($0) : float32[100, 12] live
        %2 = matmul(%1[0; 12, 100; 1, 12], $1) : float32[12, 12] live
        %3 = sub(%0, $0) : float32[100, 12] live
        k0 [100, 12]: %1 -> %1
        k1 [12, 12]: %2 -> %2
        k2 [100, 12]: %0 %3 -> %3
        """,
    )


def test_what_is_live_stays_where_it_is() -> None:
    stays(
        "into_reader",
        """
        $0 = value float32[100, 12] live
        $1 = value float32[100, 12] live
        %0 = mul($0, $1) : float32[100, 12] live
        %1 = exp($0) : float32[100, 12] live
        %2 = matmul(%1[0; 12, 100; 1, 12], $1) : float32[12, 12] live
        %3 = sub(%0, %2[0; 100, 12; 0, 1]) : float32[100, 12] live
        k0 [100, 12]: %0 %1 -> %0 %1
        k1 [12, 12]: %2 -> %2
        k2 [100, 12]: %3 -> %3
        """,
    )


def test_what_a_product_reads_too_stays_where_it_is() -> None:
    stays(
        "into_reader",
        """
        $0 = value float32[100, 12] live
        $1 = value float32[100, 12] live
        %0 = mul($0, $1) : float32[100, 12]
        %1 = exp($0) : float32[100, 12] live
        %2 = matmul(%1[0; 12, 100; 1, 12], %0) : float32[12, 12] live
        %3 = sub(%0, %2[0; 100, 12; 0, 1]) : float32[100, 12] live
        k0 [100, 12]: %0 %1 -> %0 %1
        k1 [12, 12]: %2 -> %2
        k2 [100, 12]: %3 -> %3
        """,
    )


def test_an_idle_value_is_computed_again_behind_the_peak() -> None:
    check_pass(
        "rematerialization",
        """
        $0 = value float32[100, 100] live
        %0 = exp($0) : float32[100, 100]
        %1 = sin(%0) : float32[100, 100]
        %2 = matmul(%1, %1) : float32[100, 100]
        %3 = matmul(%2, %2) : float32[100, 100]
        %4 = mul(%3, %0) : float32[100, 100] live
        k0 [100, 100]: %0 %1 -> %0 %1
        k1 [100, 100]: %2 -> %2
        k2 [100, 100]: %3 -> %3
        k3 [100, 100]: %4 -> %4
        """,
        """
        $0 = value float32[100, 100] live
        %0 = exp($0) : float32[100, 100]
        %1 = sin(%0) : float32[100, 100]
        %2 = matmul(%1, %1) : float32[100, 100]
        %3 = matmul(%2, %2) : float32[100, 100]
        %4 = exp($0) : float32[100, 100] twin again %0
        %5 = mul(%3, %4) : float32[100, 100] kept
        k0 [100, 100]: %0 %1 -> %1
        k1 [100, 100]: %2 -> %2
        k2 [100, 100]: %3 -> %3
        k3 [100, 100]: %4 %5 -> %5
        """,
    )


def test_a_live_value_is_kept_over_the_peak() -> None:
    stays(
        "rematerialization",
        """
        $0 = value float32[100, 100] live
        %0 = exp($0) : float32[100, 100] live
        %1 = sin(%0) : float32[100, 100]
        %2 = matmul(%1, %1) : float32[100, 100]
        %3 = matmul(%2, %2) : float32[100, 100]
        %4 = mul(%3, %0) : float32[100, 100] live
        k0 [100, 100]: %0 %1 -> %0 %1
        k1 [100, 100]: %2 -> %2
        k2 [100, 100]: %3 -> %3
        k3 [100, 100]: %4 -> %4
        """,
    )


def test_a_product_is_not_computed_again() -> None:
    stays(
        "rematerialization",
        """
        $0 = value float32[100, 100] live
        %0 = matmul($0, $0) : float32[100, 100]
        %1 = matmul(%0, %0) : float32[100, 100]
        %2 = matmul(%1, %1) : float32[100, 100]
        %3 = mul(%2, %0) : float32[100, 100] live
        k0 [100, 100]: %0 -> %0
        k1 [100, 100]: %1 -> %1
        k2 [100, 100]: %2 -> %2
        k3 [100, 100]: %3 -> %3
        """,
    )


def test_sums_of_columns_join_the_kernel_that_has_the_rows() -> None:
    check_pass(
        "column_sums",
        """
        $0 = value float32[256, 64] live
        %0 = exp($0) : float32[256, 64]
        %1 = sum(%0) ((1,), False) : float32[256]
        %2 = div(%0, %1[0; 256, 64; 1, 0]) : float32[256, 64]
        %3 = mul(%2, %2) : float32[256, 64]
        %4 = sum(%2) ((0,), False) : float32[64] live
        %5 = sum(%3) ((0,), False) : float32[64] live
        k0 [256, 64] reduce[1] rows: %0 %1 %2 %3 -> %2 %3
        k1 [256, 64] reduce[0]: %4 %5 -> %4 %5
        """,
        """
        $0 = value float32[256, 64] live
        %0 = exp($0) : float32[256, 64]
        %1 = sum(%0) ((1,), False) : float32[256]
        %2 = div(%0, %1[0; 256, 64; 1, 0]) : float32[256, 64]
        %3 = mul(%2, %2) : float32[256, 64]
        %4 = sum(%2) ((0,), False) : float32[64] live
        %5 = sum(%3) ((0,), False) : float32[64] live
        k0 [256, 64] reduce[1] rows: %0 %1 %2 %3 %4 %5 -> %4 %5
        """,
    )


def test_one_value_saved_is_not_worth_it() -> None:
    stays(
        "column_sums",
        """
        $0 = value float32[256, 64] live
        %0 = exp($0) : float32[256, 64]
        %1 = sum(%0) ((1,), False) : float32[256]
        %2 = div(%0, %1[0; 256, 64; 1, 0]) : float32[256, 64]
        %3 = mul(%2, %2) : float32[256, 64] live
        %4 = sum(%2) ((0,), False) : float32[64] live
        %5 = sum(%3) ((0,), False) : float32[64] live
        k0 [256, 64] reduce[1] rows: %0 %1 %2 %3 -> %2 %3
        k1 [256, 64] reduce[0]: %4 %5 -> %4 %5
        """,
    )


def test_few_rows_are_not_worth_it() -> None:
    stays(
        "column_sums",
        """
        $0 = value float32[64, 64] live
        %0 = exp($0) : float32[64, 64]
        %1 = sum(%0) ((1,), False) : float32[64]
        %2 = div(%0, %1[0; 64, 64; 1, 0]) : float32[64, 64]
        %3 = mul(%2, %2) : float32[64, 64]
        %4 = sum(%2) ((0,), False) : float32[64] live
        %5 = sum(%3) ((0,), False) : float32[64] live
        k0 [64, 64] reduce[1] rows: %0 %1 %2 %3 -> %2 %3
        k1 [64, 64] reduce[0]: %4 %5 -> %4 %5
        """,
    )


def test_a_quick_value_is_computed_in_each_reader() -> None:
    check_pass(
        "clones",
        """
        $0 = value float32[512, 512] live
        %0 = sub($0, 2) : float32[512, 512]
        %1 = exp($0) : float32[512, 512]
        %2 = matmul(%1, %1) : float32[512, 512] live
        %3 = add(%0, %2) : float32[512, 512] live
        %4 = matmul(%3, %3) : float32[512, 512] live
        %5 = mul(%0, %4) : float32[512, 512] live
        k0 [512, 512]: %0 %1 -> %0 %1
        k1 [512, 512]: %2 -> %2
        k2 [512, 512]: %3 -> %3
        k3 [512, 512]: %4 -> %4
        k4 [512, 512]: %5 -> %5
        """,
        """
        $0 = value float32[512, 512] live
        %0 = sub($0, 2) : float32[512, 512]
        %1 = exp($0) : float32[512, 512]
        %2 = matmul(%1, %1) : float32[512, 512] live
        %3 = sub($0, 2) : float32[512, 512]
        %4 = add(%3, %2) : float32[512, 512] live
        %5 = matmul(%4, %4) : float32[512, 512] live
        %6 = sub($0, 2) : float32[512, 512] again %0
        %7 = mul(%6, %5) : float32[512, 512] live
        k0 [512, 512]: %0 %1 -> %1
        k1 [512, 512]: %2 -> %2
        k2 [512, 512]: %3 %4 -> %4
        k3 [512, 512]: %5 -> %5
        k4 [512, 512]: %6 %7 -> %7
        """,
    )


@pytest.mark.parametrize("cheap", ["relu($0)", "abs($0)", "square($0)", "maximum($0, 2)"])
def test_what_costs_less_than_memory_is_cloned(cheap: str) -> None:
    head = f"""
        $0 = value float32[512, 512] live
        %0 = {cheap} : float32[512, 512]
        %1 = exp($0) : float32[512, 512]
        %2 = matmul(%1, %1) : float32[512, 512] live
        """
    check_pass(
        "clones",
        f"""{head}%3 = add(%0, %2) : float32[512, 512] live
        k0 [512, 512]: %0 %1 -> %0 %1
        k1 [512, 512]: %2 -> %2
        k2 [512, 512]: %3 -> %3
        """,
        f"""{head}%3 = {cheap} : float32[512, 512] again %0
        %4 = add(%3, %2) : float32[512, 512] live
        k0 [512, 512]: %0 %1 -> %1
        k1 [512, 512]: %2 -> %2
        k2 [512, 512]: %3 %4 -> %4
        """,
    )


@pytest.mark.parametrize("dear", ["div($0, 3)", "sqrt($0)", "reciprocal($0)"])
def test_what_costs_more_than_memory_is_stored(dear: str) -> None:
    stays(
        "clones",
        f"""
        $0 = value float32[512, 512] live
        %0 = {dear} : float32[512, 512]
        %1 = exp($0) : float32[512, 512]
        %2 = matmul(%1, %1) : float32[512, 512] live
        %3 = add(%0, %2) : float32[512, 512] live
        k0 [512, 512]: %0 %1 -> %0 %1
        k1 [512, 512]: %2 -> %2
        k2 [512, 512]: %3 -> %3
        """,
    )


def test_an_exponential_is_not_quick() -> None:
    stays(
        "clones",
        """
        $0 = value float32[512, 512] live
        %0 = exp($0) : float32[512, 512]
        %1 = sin($0) : float32[512, 512]
        %2 = matmul(%1, %1) : float32[512, 512] live
        %3 = add(%0, %2) : float32[512, 512] live
        k0 [512, 512]: %0 %1 -> %0 %1
        k1 [512, 512]: %2 -> %2
        k2 [512, 512]: %3 -> %3
        """,
    )


def test_a_small_value_is_stored() -> None:
    stays(
        "clones",
        """
        $0 = value float32[100, 100] live
        %0 = sub($0, 2) : float32[100, 100]
        %1 = exp($0) : float32[100, 100]
        %2 = matmul(%1, %1) : float32[100, 100] live
        %3 = add(%0, %2) : float32[100, 100] live
        k0 [100, 100]: %0 %1 -> %0 %1
        k1 [100, 100]: %2 -> %2
        k2 [100, 100]: %3 -> %3
        """,
    )


def test_a_live_value_is_stored() -> None:
    stays(
        "clones",
        """
        $0 = value float32[512, 512] live
        %0 = sub($0, 2) : float32[512, 512] live
        %1 = exp($0) : float32[512, 512]
        %2 = matmul(%1, %1) : float32[512, 512] live
        %3 = add(%0, %2) : float32[512, 512] live
        k0 [512, 512]: %0 %1 -> %0 %1
        k1 [512, 512]: %2 -> %2
        k2 [512, 512]: %3 -> %3
        """,
    )


def test_kernels_that_read_the_same_are_one() -> None:
    check_pass(
        "siblings",
        """
        $0 = value float32[3] live
        $1 = value float32[3] live
        %0 = mul($0, 2) : float32[3]
        %1 = add($1, %0) : float32[3] live
        %2 = blend($0, $1, 0.5) : float32[3] live
        k0 [3]: %0 %1 -> %1
        k1 [3]: %2 -> %2
        """,
        """
        $0 = value float32[3] live
        $1 = value float32[3] live
        %0 = mul($0, 2) : float32[3]
        %1 = add($1, %0) : float32[3] live
        %2 = blend($0, $1, 0.5) : float32[3] live
        k0 [3]: %0 %1 %2 -> %1 %2
        """,
    )


@pytest.mark.parametrize(
    "second",
    [
        "%2 = exp($1) : float32[3] live",  # another value
        "%2 = exp(%1[0; 3; 0]) : float32[3] live",  # the first kernel's, not element by element
        "%2 = exp($0[1; 2; 1]) : float32[2] live",  # another space
    ],
)
def test_kernels_that_read_something_else_stay_apart(second: str) -> None:
    space = 2 if "[2]" in second else 3
    stays(
        "siblings",
        f"""
        $0 = value float32[3] live
        $1 = value float32[3] live
        %0 = mul($0, 2) : float32[3]
        %1 = sin(%0) : float32[3] live
        {second}
        k0 [3]: %0 %1 -> %1
        k1 [{space}]: %2 -> %2
        """,
    )


def test_what_is_computed_between_them_keeps_them_apart() -> None:
    """A value that is made later is in memory for a shorter time."""
    stays(
        "siblings",
        """
        $0 = value float32[3, 3] live
        %0 = exp($0) : float32[3, 3]
        %1 = matmul(%0, %0) : float32[3, 3] live
        %2 = sin($0) : float32[3, 3] live
        k0 [3, 3]: %0 -> %0
        k1 [3, 3]: %1 -> %1
        k2 [3, 3]: %2 -> %2
        """,
    )
