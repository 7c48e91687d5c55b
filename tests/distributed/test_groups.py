"""Groups, meshes, messages, derivatives, and what ranks are told that do not agree."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import pytest

from ranks import needs_mpi

pytestmark = needs_mpi


@pytest.fixture
def found(results: Callable[[str, str, int], list[Any]]) -> list[Any]:
    return results("weft", "groups.py", 4)


def test_ranks_of_groups(found: list[Any]) -> None:
    told = [rank["ranks_and_groups"] for rank in found]
    assert [one["reversed"] for one in told] == [[-1, -1], [1, 2], [-1, -1], [0, 2]]
    assert [one["own half"] for one in told] == [[0, 1], [0, 1], [2, 3], [2, 3]]
    assert [one["in half"] for one in told] == [0, 1, 0, 1]
    assert [one["first of half"] for one in told] == [0, 0, 2, 2]
    assert [one["local"] for one in told] == [[2.0], [1.0], [2.0], [1.0]]
    assert [len(one["warned"]) for one in told] == [0, 0, 1, 1]
    assert sorted(one["environment"] for one in told) == [0, 1, 2, 3]


def test_meshes(found: list[Any]) -> None:
    told = [rank["meshes"] for rank in found]
    assert [one["at"] for one in told] == [[0, 0], [0, 1], [1, 0], [1, 1]]
    assert [one["dp"] for one in told] == [[0, 2], [1, 3], [0, 2], [1, 3]]
    assert [one["sum over tp"] for one in told] == [[1.0], [1.0], [5.0], [5.0]]
    assert all(one["same"] and one["swapped"] == [[0, 2], [1, 3]] for one in told)
    assert [one["backwards"] for one in told] == [3, 2, 1, 0]


def test_a_disagreement_is_an_error_on_all_ranks_that_names_all_lines(found: list[Any]) -> None:
    for rank in found:
        shape, operation = rank["disagreements"]["shape"], rank["disagreements"]["operation"]
        assert "rank 1: all_reduce sum float32[2] at groups.py:" in shape
        assert "rank 2: all_reduce sum float32[3] at groups.py:" in shape
        assert "rank 0: broadcast float32[2] from 0 at groups.py:" in operation
        assert "rank 3: all_reduce sum float32[2] at groups.py:" in operation
        assert "fix       let all ranks call the same operations in the same order" in operation
        assert (
            "sends another number of bytes than the receiver expects"
            in rank["disagreements"]["uneven"]
        )
        assert rank["disagreements"]["large"] == "no error"


def test_data_that_went_beside_an_agreement_which_failed_are_taken_out_of_the_way(
    found: list[Any],
) -> None:
    for rank in found:
        told = rank["data_beside_agreements"]
        assert "rank 2: all_reduce sum float32[20001] at groups.py:" in told["shape"]
        assert "rank 0: broadcast float32[900] from 0 at groups.py:" in told["operation"]
        assert told["sums"] == [[1.0, 2.0, 3.0, 4.0]] * 20
        assert told["total"] == [4.0, 4.0]


def test_messages_that_fit_and_one_that_does_not(found: list[Any]) -> None:
    told = [rank["messages"]["received"] for rank in found]
    assert "recv: the message of rank 0 does not fit" in told[1]
    assert "3 elements of float32, sent by rank 0 at groups.py:" in told[1]
    assert told[1].endswith("then [1.0, 1.0]")
    assert told[2] == "0 [0.0, 1.0, 2.0]"


def test_derivatives(found: list[Any]) -> None:
    """Of weights 1, 2, 3, 4 (sum 10) on ranks 0 to 3."""
    told = {
        name: [rank["derivatives"][name][0] for rank in found] for name in found[0]["derivatives"]
    }
    assert told == {
        "all_reduce": [10.0] * 4,
        "all_gather": [10.0, 20.0, 30.0, 40.0],
        "broadcast": [0.0, 10.0, 0.0, 0.0],
        "reduce": [2.0] * 4,
        "gather": [3.0] * 4,
        "scatter": [0.0, 0.0, 0.0, 30.0],
        "reduce_scatter": [30.0] * 4,
        "all_to_all_single": [10.0] * 4,
    }


def test_operations_that_are_waited_for(found: list[Any]) -> None:
    for rank in found:
        assert rank["asynchronous"] == {
            "sizes": [1, 1000, 50_000],
            "sums": [6.0, 6.0, 6.0],
            "done": [True, True, True],
            "coalesced": [[4.0, 4.0], [4.0, 4.0, 4.0]],
        }


def test_collectives_are_nodes(found: list[Any]) -> None:
    told = [rank["nodes"] for rank in found]
    assert all(one["gathered"] == [[0, 1, 10, 11, 20, 21, 30, 31]] for one in told)
    assert [one["scattered"] for one in told] == [[[60 + 8 * n, 64 + 8 * n]] for n in range(4)]
    assert [one["scattered columns"] for one in told] == [
        [[30 + 2 * n], [31 + 2 * n]] for n in range(4)
    ]
    assert [one["exchanged"][3] for one in told] == [[30 + 2 * n, 31 + 2 * n] for n in range(4)]
    assert all(one["broadcast"] == [20, 21] for one in told)
    assert [one["permuted"] for one in told] == [
        [10.0 * (n % 4) + i for i in range(4)] for n in (3, 0, 1, 2)
    ]


def test_recorded_collectives_go_together_whatever_a_rank_reads_between(found: list[Any]) -> None:
    for rank in found:
        assert rank["nodes"]["sums"] == [10.0 + 4 * step for step in range(6)]
        assert "all_reduce x 2 (20 B), groups.py:" in rank["nodes"]["explained"]


def test_a_recorded_collective_that_ranks_disagree_on_fails_and_what_reads_it(
    found: list[Any],
) -> None:
    for rank in found:
        message = rank["nodes"]["other"]
        assert "rank 0: all_reduce sum float32[3] at groups.py:" in message
        assert "rank 1: all_reduce sum float32[4] at groups.py:" in message
        assert rank["nodes"]["same"] == [[4.0, 4.0], [8.0] * 5]


def test_collectives_in_a_loop_over_examples(found: list[Any]) -> None:
    for rank in found:
        recorded, at_once = rank["loops"]["recorded"], rank["loops"]["at once"]
        assert recorded[0] == at_once[0]  # to the last bit
        assert recorded[1] == pytest.approx(at_once[1], rel=1e-5, abs=1e-4)
    assert all(rank["loops"] == found[0]["loops"] for rank in found)


def test_a_profile_has_calls_under_pytorchs_names(found: list[Any]) -> None:
    names = [
        ["mpi:all_reduce", [[2, 3, 2]]],
        ["mpi:all_reduce", [[4]]],
        ["mpi:recv", [[5]]],
        ["mpi:recvAnySource", [[6]]],
    ]
    for rank in found:
        told = rank["profiles"]
        assert [event for event in told["events"] if event[0] != "mpi:send"] == names
        assert set(told["alone"]) == {0.0}
        assert told["nested"] == []
        tracks = sorted(f"{ph} {name}" for name, _ in told["events"] for ph in "be")
        assert told["tracks"] == tracks


def test_sums_of_sparse_tensors(found: list[Any]) -> None:
    """Rank r has r entries of r + 1: places (0, 1), and twice (2, 0)."""
    total = [[[0, 0], [9, 9]], [[0, 0], [0, 0]], [[11, 11], [0, 0]]]
    for rank in found:
        told = rank["sparse_sums"]
        assert told["float32"] == told["bfloat16"] == told["int64"] == total
        assert told["again"] == [[[4 * n for n in row] for row in rows] for rows in total]
        assert "does not support ReduceOp.MAX of sparse tensors" in told["largest"]
        assert told["list"].startswith("Invalid ``p2p_op_list``")
