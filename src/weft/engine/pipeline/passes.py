"""The list of passes: what a flush goes through, in order, from the recorded graph to launches.

A pass takes a Compilation with the pending nodes, and adds to it or rewrites what the pass before has made, never the
record. `PASSES` is what runs (`driver`), what `WEFT_VERIFY=1` verifies, what `WEFT_EXPLAIN` prints and what
`weft.debug.stages` returns. A pass has the name of its module. The passes of one stage print the same kind of text: it
is shown as the last of them leaves it, and under `WEFT_EXPLAIN=passes` after each that has changed it.
"""

from __future__ import annotations

import sys
from collections.abc import Callable, Iterable
from typing import TYPE_CHECKING, Any, NamedTuple, TypeVar

from weft.config import config
from weft.engine.devices import trace
from weft.engine.devices.api import device_at
from weft.engine.ir.tape import tape_of
from weft.engine.pipeline import horizontal_fusion, memory_plan, program_text, record_text, tiering
from weft.engine.pipeline.batching import batch
from weft.engine.pipeline.budget import constrain, economy, verify_layout
from weft.engine.pipeline.fingerprint import COMES_NEW, COMES_SOON
from weft.engine.pipeline.fusion import (
    clones,
    column_sums,
    form_kernels,
    into_reader,
    rematerialization,
    siblings,
)
from weft.engine.pipeline.lowering import lower
from weft.engine.pipeline.program_ir import Program
from weft.engine.pipeline.simplify import (
    cse,
    decompose,
    extract,
    fold_views,
    gather_matmul,
    implicit_gemm,
)

if TYPE_CHECKING:
    from weft.engine.ir.node import Node

Result = TypeVar("Result")


class Compilation:
    """One flush on its way: the pending nodes, and what passes have made of them. `comes`: how its structure
    has come before; `whole`: no kernel is taken apart because it is new; `overwrites`: what its memory plan may write
    over."""

    __slots__ = (
        "apart", "comes", "lowering", "memory", "overwrites", "pending", "program", "whole",
    )  # fmt: skip

    def __init__(
        self,
        pending: list[Node],
        comes: int = COMES_NEW,
        whole: bool = False,
        overwrites: int = memory_plan.ALL,
    ) -> None:
        self.pending, self.comes, self.whole = pending, comes, whole
        self.overwrites = overwrites
        self.apart = False  # each value has a slot of its own, for `constrain`
        self.program: Any = Program(device_at(pending[0].device) if pending else None)
        self.memory: Any = None
        self.lowering: Any = None


class Pass(NamedTuple):
    """A step from the recorded graph to launches: what it does, what holds afterwards, how that is printed.

    `part` is the part of `WEFT_EXPLAIN` that its stage belongs to; none is shown under `passes` alone.
    """

    name: str
    stage: str
    run: Callable[[Compilation], object]
    verify: Callable[[Compilation], object]
    text: Callable[[Compilation], str]
    part: str = "schedule"


def _on_program(function: Callable[[Program], Result]) -> Callable[[Compilation], Result]:
    return lambda one: function(one.program)


def _simplification(
    name: str, run: Callable[[Program], object], verify: Callable[[Program], object]
) -> Pass:
    text = _on_program(program_text.text)
    return Pass(name, "collect", _on_program(run), _on_program(verify), text)


def _fusion(name: str, run: Callable[[Program], object]) -> Pass:
    stage = form_kernels
    return Pass(name, "fuse", _on_program(run), _on_program(stage.verify), _on_program(stage.text))


def _batch(one: Compilation) -> None:
    tape = tape_of(one.pending[0]) if one.pending else None
    if tape is not None and batch.group(one.pending):
        one.pending = tape.pending()


def _select(one: Compilation) -> None:
    one.whole = one.whole or constrain.is_tight(one.program)
    tiering.choose_tiers(one.program, one.comes, one.whole)


def _plan(one: Compilation) -> None:
    one.memory = memory_plan.plan(one.program, one.overwrites)
    one.apart = (
        constrain.needs_it(one.memory)
        or constrain.may_defer(one.program, one.memory)
        or (one.comes >= COMES_SOON and economy.pays(one.memory))
    )
    if one.apart:
        one.memory = memory_plan.plan(one.program, one.overwrites, share=False)


def _lower(one: Compilation) -> None:
    one.lowering = lower.lower(one.program, one.memory)


def _constrain(one: Compilation) -> None:
    if one.apart and not constrain.is_bounded():
        economy.economize(one.lowering)
    elif one.apart:
        constrain.constrain(one.lowering)


PASSES = (
    Pass(
        "record",
        "record",
        lambda one: None,
        lambda one: record_text.verify(one.pending),
        lambda one: record_text.text(one.pending),
        part="",
    ),
    Pass(
        "batch",
        "batch",
        _batch,
        lambda one: batch.verify(one.pending),
        lambda one: batch.text(one.pending),
    ),
    Pass(
        "extract",
        "collect",
        lambda one: extract.extract(one.program, one.pending),
        _on_program(extract.verify),
        _on_program(program_text.text),
    ),
    _simplification("decompose", decompose.decompose, decompose.verify),
    _simplification("gather_matmul", gather_matmul.commute_gathers, extract.verify),
    _simplification("fold_views", fold_views.fold_views, fold_views.verify),
    _simplification("cse", cse.merge_equal, fold_views.verify),
    _simplification("implicit_gemm", implicit_gemm.fold_reshapes, fold_views.verify),
    _fusion("form_kernels", form_kernels.form_kernels),
    _fusion("into_reader", into_reader.fuse_into_reader),
    _fusion("rematerialization", rematerialization.rematerialize),
    _fusion("column_sums", column_sums.take_sums),
    _fusion("clones", clones.clone_into_readers),
    _fusion("siblings", siblings.join_siblings),
    Pass(
        "tiering",
        "tier",
        _select,
        lambda one: tiering.verify(one.program, one.whole),
        _on_program(tiering.text),
    ),
    Pass(
        "horizontal_fusion",
        "group",
        _on_program(horizontal_fusion.fuse_horizontally),
        _on_program(horizontal_fusion.verify),
        _on_program(horizontal_fusion.text),
    ),
    Pass(
        "memory_plan",
        "plan",
        _plan,
        lambda one: memory_plan.verify(one.program, one.memory),
        lambda one: memory_plan.text(one.program, one.memory),
        part="memory",
    ),
    Pass(
        "lower",
        "lower",
        _lower,
        lambda one: lower.verify(one.lowering),
        lambda one: lower.text(one.lowering),
        part="kernels",
    ),
    Pass(
        "constrain",
        "budget",
        _constrain,
        lambda one: verify_layout.verify(one.lowering),
        lambda one: constrain.text(one.lowering),
        part="memory",
    ),
)
RECORDED = PASSES[:2]  # the driver looks for cached executables before and after batching
SCHEDULED = PASSES[2:]

Note = Callable[[Pass, Compilation], object]


def run_passes(one: Compilation, passes: Iterable[Pass], note: Note | None = None) -> None:
    """Run passes in order; `note` is called behind each of them."""
    began = trace.clock() if trace.is_on() else 0
    for each in passes:
        each.run(one)
        if began and each.name != "batch":  # which records itself, as others ask for it, too
            began = trace.note("stage", began, each.name)
        if config.verify:
            each.verify(one)
        if note is not None:
            note(each, one)


def run_through(last: str, one: Compilation) -> Compilation:
    """Run the passes behind batching up to a named one."""
    names = [each.name for each in SCHEDULED]
    run_passes(one, SCHEDULED[: names.index(last) + 1])
    return one


def schedule(one: Compilation) -> None:
    """Run the passes behind batching on the nodes of a flush, verified and explained as `config` says, batching too."""
    if config.verify:
        for each in RECORDED:
            each.verify(one)
    if not config.explain:
        run_passes(one, SCHEDULED)
        return
    listing = Listing()
    for each in RECORDED:
        listing.note(each, one)
    run_passes(one, SCHEDULED, listing.note)
    listing.print_stages()


MOST_LINES = 2000  # of what one stage prints of one flush


class Listing:
    """The texts that passes print of one flush, for the parts that `config.explain` names."""

    def __init__(self) -> None:
        self.stages: dict[str, tuple[str, str]] = {}  # stage -> its part, and its text so far
        self.last = ""

    def note(self, each: Pass, one: Compilation) -> None:
        """Keep the text of a pass that has run; print it where passes are shown one by one."""
        text = each.text(one)
        if "passes" in config.explain and text and text != self.last:
            print(f"-- {each.name}", _shortened(text), sep="\n", file=sys.stderr)
        self.last = text
        self.stages[each.stage] = each.part, text

    def print_stages(self) -> None:
        """Print each stage as its last pass has left it."""
        for part, text in self.stages.values():
            if text and part in config.explain:
                print(_shortened(text), file=sys.stderr)


def _shortened(text: str) -> str:
    """A text without what is in the middle of very many lines."""
    lines = text.splitlines()
    more = len(lines) - MOST_LINES
    if more <= 0:
        return text
    half = MOST_LINES // 2
    return "\n".join([*lines[:half], f"... {more:,} lines more", *lines[-half:]])
