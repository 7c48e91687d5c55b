"""Where workers run: on any of their cores but their caller's, whose own cores stay what they are."""

from __future__ import annotations

import os
import subprocess
import sys
from pathlib import Path

import pytest

FOLDER = Path(__file__).parent
SAMPLES = FOLDER.parents[2] / "samples"
START = """
import os, sys, time
sys.path[:0] = sys.argv[1:]
from test_threads import run_shared, thread_count

def others(before):
    return [os.sched_getaffinity(int(name)) for name in os.listdir("/proc/self/task") if name not in before]

def park():
    # Wait until the workers have slept for a while, however busy the machine is.
    asleep = 0
    while asleep < 10:
        time.sleep(0.02)
        states = [open(f"/proc/self/task/{name}/stat").read().rsplit(")", 1)[1].split()[0]
                  for name in os.listdir("/proc/self/task") if name not in before]
        asleep = asleep + 1 if set(states) <= {"S"} else 0

before = os.listdir("/proc/self/task")
assert run_shared(threads=3)
started = others(before)
park()
"""


def run(body: str) -> None:
    done = subprocess.run(
        [sys.executable, "-c", START + body, str(FOLDER), str(SAMPLES)],
        env=os.environ | {"OPENBLAS_NUM_THREADS": "1"},
        capture_output=True,
        text=True,
        timeout=120,
        check=False,
    )
    assert done.returncode == 0, done.stderr


@pytest.mark.skipif(len(os.sched_getaffinity(0)) < 2, reason="needs two cores")
def test_a_woken_worker_keeps_off_one_core_which_is_the_callers():
    run("""
mine = os.sched_getaffinity(0)
for _ in range(4):  # wherever the caller runs by then
    assert run_shared(threads=3)
    park()
    for cores in others(before):
        assert len(cores) == len(mine) - 1 and cores < mine, (cores, mine)
assert os.sched_getaffinity(0) == mine
""")


@pytest.mark.skipif(len(os.sched_getaffinity(0)) < 2, reason="needs two cores")
def test_workers_follow_a_caller_that_changes_its_core():
    run("""
mine = os.sched_getaffinity(0)
for core in sorted(mine)[:2] * 2:
    os.sched_setaffinity(0, {core})
    assert run_shared(threads=3)
    park()
    assert all(cores == mine - {core} for cores in others(before)), others(before)
""")


def test_a_worker_with_one_core_keeps_it():
    run("""
mine, given = os.sched_getaffinity(0), others(before)
core = min(core for core in mine if {core} not in given or len(mine) == 1)  # what was given would be no change
os.sched_setaffinity(0, {core})
for name in os.listdir("/proc/self/task"):
    os.sched_setaffinity(int(name), {core})
assert run_shared(threads=3)
park()
assert all(cores == {core} for cores in others(before)), others(before)
""")
