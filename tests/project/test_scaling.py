"""The model of steps on many ranks: its limits, its fit, and its picture."""

from __future__ import annotations

import itertools
from dataclasses import replace
from pathlib import Path

import pytest
from benchmarks import scaling

NETWORK = scaling.NETWORKS[1]
STEADY = scaling.Workload("steady", 0.1, 100e6, 50, jitter=0.0)


@pytest.mark.parametrize("way", scaling.WAYS)
def test_one_rank_waits_for_nobody(way: str) -> None:
    assert scaling.WAYS[way](STEADY, 1, NETWORK) == pytest.approx(STEADY.seconds)


@pytest.mark.parametrize("way", scaling.WAYS)
@pytest.mark.parametrize("workload", scaling.WORKLOADS, ids=lambda workload: workload.name)
def test_more_ranks_are_never_more_efficient(way: str, workload: scaling.Workload) -> None:
    found = [scaling.efficiency(way, workload, ranks, NETWORK) for ranks in scaling.RANKS]
    assert all(later <= sooner + 1e-9 for sooner, later in itertools.pairwise(found))
    assert found[0] == pytest.approx(1.0, abs=0.01) and found[-1] > 0


def test_a_message_for_each_tensor_pays_its_latencies() -> None:
    """On a network that only has latency, with nothing to compute: as many all_reduces as messages."""
    slow = scaling.Network("latency alone", 1e-3, float("inf"))
    each = 2 * 1e-3 + 3 * 1e-3 + 2 * 1e-3  # the agreement, three other ranks' parts, the sums
    assert scaling.all_reduce(1e6, 4, slow) == pytest.approx(each)
    work = replace(STEADY, seconds=0.0)
    waited = scaling.averaged(work, 4, slow, 50)
    assert waited == pytest.approx(50 * each)


def test_what_is_under_way_while_a_rank_computes_costs_nothing() -> None:
    """Half a second of messages, all but the last of which come while gradients are computed."""
    work = scaling.Workload("long", 3.0, 100e6, 10, jitter=0.0)
    network = scaling.Network("", 0.0, 100e6 * (1 + 1) / 2 / 0.5)
    last = scaling.all_reduce(10e6, 2, network)
    assert scaling.averaged(work, 2, network, 10) == pytest.approx(3.0 + last)


def test_the_slowest_of_many_is_that_of_draws() -> None:
    import numpy as np

    work = scaling.Workload("jittery", 1.0, 1e6, 1, jitter=0.1)
    draws = np.exp(0.1 * np.random.default_rng(1).standard_normal((4000, 64))).max(axis=1)
    assert scaling.slowest(work, 64, draws=4000) == pytest.approx(draws.mean(), rel=0.01)


@pytest.mark.parametrize("failures", scaling.FAILURES, ids=lambda failures: failures.name)
def test_the_formula_of_useful_time_is_what_draws_give(failures: scaling.Failures) -> None:
    for ranks in (64, 1024, 10_000):
        drawn = scaling.simulated(failures, ranks)
        assert scaling.useful(failures, ranks) == pytest.approx(drawn, abs=0.01)


def test_a_fit_finds_the_network_that_it_was_measured_on() -> None:
    sizes = (64.0, 65536.0, 16777216.0)
    found = scaling.fitted({size: scaling.all_reduce(size, 2, NETWORK) for size in sizes})
    assert found.latency == pytest.approx(NETWORK.latency, rel=0.05)
    assert found.bandwidth == pytest.approx(NETWORK.bandwidth, rel=0.05)


def test_the_same_figures_give_the_same_picture(tmp_path: Path) -> None:
    pytest.importorskip("matplotlib")
    for name in ("one.svg", "other.svg"):
        scaling.draw(tmp_path / name)
    drawn = (tmp_path / "one.svg").read_bytes()
    assert drawn == (tmp_path / "other.svg").read_bytes() and b"<path" in drawn
