"""Batches whose members wait for each other in the reverse walk: the ready members go first, by themselves."""

from __future__ import annotations

import subprocess
import sys

import pytest

# In a process of its own: batches that read each other can neither be computed nor be freed.
PROGRAM = """
import importlib
import weft

def grouped(nodes, notes):
    kinds = [[n for n in nodes if n.op.name == name] for name in ("neg", "mul")]
    assert [len(kind) for kind in kinds] == [2 * examples, 2 * examples]
    return kinds

examples = {examples}
leaves = [weft.full((2,), float(n), requires_grad=True) for n in range(2 * examples)]
for leaf in leaves:
    leaf.tolist()  # else the first search would be for batches among these
outs = [-(leaf * 3) if n < examples else (-leaf) * 3 for n, leaf in enumerate(leaves)]
importlib.import_module("weft.engine.pipeline.batching.batch").form_groups = grouped
weft.autograd.backward(outs, [weft.full((2,), n + 1.0) for n in range(2 * examples)])
outs.clear()
weft.config.config.batch = False
print([leaf.grad.tolist() for leaf in leaves])
"""


@pytest.mark.parametrize("examples", [1, 3])
def test_groups_that_wait_for_each_other_are_split(examples: int) -> None:
    """Half of the examples negate last and the others first, yet all negations are put in one batch, all triples too:
    neither batch can be pulled as a whole."""
    command = [sys.executable, "-c", PROGRAM.replace("{examples}", str(examples))]
    done = subprocess.run(command, capture_output=True, text=True, timeout=60, check=False)
    assert done.stderr == ""
    assert done.stdout.strip() == str([[-3.0 * (n + 1)] * 2 for n in range(2 * examples)])
