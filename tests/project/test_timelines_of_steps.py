"""The engine's own clock, as `python -m benchmarks.timeline` reads it."""

from __future__ import annotations

from benchmarks import kernels, timeline, training

import weft
from weft.engine.devices import trace


def test_each_launch_of_a_step_has_its_time() -> None:
    job = training.mlp_step(weft)
    measured = kernels.timing(job.run, 3)
    assert (
        sum("gemm" in launch.kernel for launch in measured.launches) >= 6
    )  # three layers, there and back
    assert all(launch.seconds >= 0 for launch in measured.launches)
    assert 0 < measured.in_kernels <= 1.001
    assert timeline.table(measured).count("\n") >= 3
    assert timeline.drawing("mlp", measured, 0.1).count("<rect") > 5


def test_nobody_looks_afterwards() -> None:
    kernels.timing(lambda: (weft.ones(3) * 2).tolist(), 2)
    assert not trace.is_on()
