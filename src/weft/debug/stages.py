"""The text of a function after each pass of the pipeline: `stages(fn)`.

It returns a dictionary of texts by the names of passes (`weft.engine.pipeline.passes`) and of stages, `record`,
`batch`, `collect`, `fuse`, `tier`, `group`, `plan`, `lower`: the text of a stage is that of its last pass. `kernels`
has the loop IR. Where collectives are pending, which cut a flush into several programs, only what is recorded and
batched is shown. The kernels are those of a program that has come often enough: that a cold one runs in single
operations first (`weft.engine.pipeline.tiering`) is not shown. The pipeline runs what was recorded.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

from weft.engine.ir.primitive import COLLECTIVE
from weft.engine.ir.tape import tape
from weft.engine.pipeline import driver
from weft.engine.pipeline.lowering.kernel_decoder import kernel_text
from weft.engine.pipeline.lowering.spec_table import key_of
from weft.engine.pipeline.passes import PASSES, RECORDED, Compilation, Pass, run_passes


def stages(function: Callable[[], object]) -> dict[str, str]:
    """Call a function and return the text of every pass and stage for what is then pending; afterwards it is all run.

    What was pending before runs first. What the function itself reads has run and is not shown.

    Args:
        function: called without arguments; what it records is shown.

    Returns:
        Texts by the names of passes and stages.

    Example:
        >>> import weft
        >>> x = weft.randn(1000)
        >>> print(weft.debug.stages(lambda: ((x - 1) * 2).relu().sum())["fuse"])
        k0 [1000] reduce[0]: sub mul relu sum -> sum[]
    """
    driver.flush()
    result = function()  # held: what nobody holds is not computed
    texts: dict[str, str] = {}

    def note(each: Pass, one: Compilation) -> None:
        texts[each.name] = texts[each.stage] = each.text(one)

    one = Compilation(tape().pending(), whole=True)
    if any(node.op.kind == COLLECTIVE for node in one.pending):
        run_passes(one, RECORDED, note)
    else:
        run_passes(one, PASSES, note)
        texts["kernels"] = kernels_text(one.lowering)
        one.program.release()
    del one
    driver.flush()
    del result
    return texts


def kernels_text(lowering: Any) -> str:
    """The loop IR of every loop kernel that is launched, once each."""
    parts, seen = [], set()
    for launch in lowering.launches:
        key = key_of(launch.spec)
        if key is not None and key[0] != "indexed" and launch.spec.name not in seen:
            seen.add(launch.spec.name)
            parts.append(f"k{launch.kernel} {kernel_text(key)}")
    return "".join(parts).rstrip("\n")
