"""The recording of a run: what a board hears while a program trains, and when it looks.

It hears the end of each optimizer's step and the beginning of each backward. Numbers are read after a step, a graph in
a step that was chosen before it began. Looking takes at most a given share of the time: after a dear look the next one
waits. A failure of the board's own is told once and ends the recording, never the program's step.
"""

from __future__ import annotations

import os
import sys
import threading
import time
import warnings
from collections.abc import Callable, Sequence
from types import TracebackType
from typing import Any, SupportsFloat

import weft
from weft.autograd.backward import Arrivals, before_walk
from weft.board.allowance import Allowance, Looks
from weft.board.graph import MOST_RECORDS, ObservedStep, layer_norms
from weft.board.learning import GrowingColumns, Histograms, Units, layer_numbers, unit_weights_of
from weft.board.memory import MemoryWatch
from weft.board.run import Document, Run, rounded
from weft.board.run_file import save
from weft.board.scopes import names_of
from weft.board.server import Server
from weft.board.timing import MOST_RECORDED, WATCHING, columns_of
from weft.engine.capi.call_site import without_collector
from weft.engine.frontend.tensor import Tensor
from weft.errors import ArgumentError, ExecutionError
from weft.nn import Module
from weft.optim import stepping

SECONDS_BETWEEN_PARTS = 0.5  # in which the page sees nothing new
MOST_SECONDS_BETWEEN_PARTS = 30.0  # where writing them takes more than its share


class Board:
    """A run that is watched, and its page. Made by `weft.board(...)` and `weft.board.start(...)`.

    Args:
        model: the module or modules whose parameters are followed; None: those that the program calls.
        every: watch each so-manyth step.
        share: the share of the time that looking may take; 1: look at every step, whatever it takes.
        port: where the page is served; None: 8275, or the next port that is free.
        serve: False: no page is served; `save` writes one.
        save: where a `with` block writes the run at its end, a page where it ends in `.html`; None: nowhere.
        quiet: do not print the address.
    """

    def __init__(
        self,
        model: Module | Sequence[Module] | None = None,
        *,
        every: int = 1,
        share: float = 0.05,
        port: int | None = None,
        serve: bool = True,
        save: str | os.PathLike[str] | None = None,
        quiet: bool = False,
    ) -> None:
        self.models = _models(model)
        self.every = _checked_every(every)
        self.share = _checked_share(share)
        self.run = Run(weft=weft.__version__, program=_program(), began=time.time())
        self.server: Server | None = None
        self.step_number = 0
        self._port, self._serve, self._save, self._quiet = port, serve, save, quiet
        self._rows, self._units, self._histograms = GrowingColumns(), Units(), Histograms()
        self._memory = MemoryWatch(self.run.sources)
        self._look: ObservedStep | None = None
        self._loss: Tensor | None = None
        self._started = self._next_write = 0.0
        self._row_is_new = False
        self._watching = False
        self._profiles = 0

    # -- from start to stop ------------------------------------------------------------------------

    def start(self) -> Board:
        """Begin to watch, and serve the page. Errors: RuntimeError if it is watching already, or another one is."""
        global _watching
        if _watching is not None:
            raise ExecutionError(
                "weft.board is watching already",
                expected="one board at a time",
                got="a second one",
                fix="stop the first: board.stop()",
            )
        if self._serve and self.server is None:
            self.server = Server(self.run, self._port)
            if not self._quiet:
                self._tell()
        _watching = self
        self._watching = True
        self._thread = threading.get_ident()
        halved = self.share if self.share == 1 else self.share / 2
        self._allowance, self._looks = Allowance(halved), Looks(halved)
        self._started = time.perf_counter()
        before_walk.append(self._before_walk)
        stepping.after_step.append(self._after_step)
        self._open_look()
        return self

    def stop(self) -> None:
        """Watch no longer; the page stays."""
        global _watching
        if not self._watching:
            return
        _watching, self._watching = None, False
        before_walk.remove(self._before_walk)
        stepping.after_step.remove(self._after_step)
        if self._look is not None:
            self._look.close()
            self._look.trace.discard()
            self._look = None
        self._write(finished=True)

    def close(self) -> None:
        """Stop, and take the page away."""
        self.stop()
        if self.server is not None:
            self.server.close()
            self.server = None

    def __enter__(self) -> Board:
        return self.start()

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType
    ) -> None:
        self.stop()
        if self._save is not None:
            self.save(self._save)

    @property
    def address(self) -> str:
        """The address of the page; empty where none is served."""
        return "" if self.server is None else self.server.address

    def save(self, path: str | os.PathLike[str]) -> str:
        """Write the run so far to a file and return the path: a page where it ends in `.html`, else a run file.

        Args:
            path: the file.
        """
        self._write()
        return save(self.run, path)

    def add_profile(self, profile: weft.profiler.profile, title: str = "profile") -> None:
        """Show a profile of the program's own in the view of time, beside those of the steps that were looked at.

        Args:
            profile: one that has ended.
            title: the name under which the page lists it.
        """
        self._put_time(profile.data(), title)

    def _tell(self) -> None:
        assert self.server is not None
        moved = f" (port {self._port} is in use)" if self.server.moved else ""
        print(f"weft.board: {self.address}{moved}", file=sys.stderr, flush=True)

    # -- steps -------------------------------------------------------------------------------------

    def step(self, **scalars: Tensor | SupportsFloat) -> None:
        """End a step, and note numbers of it: `board.step(loss=loss)`. After an optimizer's step they are added to that
        one's row.

        Args:
            **scalars: numbers, or tensors with one element, by name.
        """
        self._guarded(self._note_scalars, scalars)

    def _note_scalars(self, scalars: dict[str, Tensor | SupportsFloat]) -> None:
        if not self._row_is_new:
            self._end_step()
        self._row_is_new = False
        values = {name: number_of(name, value) for name, value in scalars.items()}
        if not self._rows.step or self._rows.step[-1] != self.step_number - 1:
            self._rows.add(self.step_number - 1, {})
        self._rows.set({"scalars": values})
        self._write_sometimes()

    def _before_walk(self, outputs: Sequence[object]) -> Callable[[Arrivals], object] | None:
        """Read the graph of a step that is looked at; what comes in its walk is wanted, too."""
        look, taken = self._look, self._look is not None and self._look.taken
        self._guarded(self._see_outputs, outputs)
        if look is None or taken or not look.entries:
            return None
        return lambda arrivals: self._guarded(self._hear, look, arrivals)

    def _hear(self, look: ObservedStep, arrivals: Arrivals) -> None:
        began = time.perf_counter()
        with weft.profiler.record_function(WATCHING):
            look.timed(look.hear, arrivals)
        self._looks.allowance.charge(began)

    def _see_outputs(self, outputs: Sequence[object]) -> None:
        tensors = [output for output in outputs if isinstance(output, Tensor)]
        if self._look is not None and not self._look.taken:
            began = time.perf_counter()
            with weft.profiler.record_function(WATCHING):
                self._look.timed(self._look.take, tensors, self.models)
            self._looks.allowance.charge(began)
        if len(tensors) == 1 and tensors[0].numel() == 1:
            self._loss = tensors[0].detach()

    def _after_step(self) -> None:
        self._guarded(self._end_step)

    def _guarded(self, function: Callable[..., None], *arguments: object) -> None:
        """Call a part of the board's own: what it raises ends the recording, not the program."""
        if not self._watching or threading.get_ident() != self._thread:
            return
        try:
            function(*arguments)
        except ArgumentError:
            raise  # of what the user gave to step()
        except Exception as error:
            self.stop()
            words = f"weft.board stopped watching: {type(error).__name__}: {error}"
            warnings.warn(words, RuntimeWarning, stacklevel=4)

    def _end_step(self) -> None:
        """A row for the step, its graph if it was looked at, and whether to look at the next."""
        began = time.perf_counter()
        look, self._look = self._look, None
        if look is not None:
            without_collector(self._end_look, look)
            self._looks.allowance.charge(began)
            self._looks.note_step(look.records, look.trace.events, look.trace.most)
        elif self.step_number % self.every == 0 and self._allowance.is_left():
            self._read_numbers()
            self._allowance.charge(began)
        self._loss = None
        self._row_is_new = True
        self.step_number += 1
        self._open_look()
        self._write_sometimes()

    def _end_look(self, look: ObservedStep) -> None:
        """The row, the graph and the times of a step that was looked at."""
        look.close()
        self.models = self.models or look.outermost()
        began = time.thread_time()
        time_of_step = look.trace.close(look.scopes.named(names_of(self.models)[0]))
        seconds = time.thread_time() - began
        self._read_numbers()
        if look.taken:
            self._read_graph(look)
        began = time.thread_time()
        self._put_time(time_of_step)
        self._looks.event.note(seconds + time.thread_time() - began, look.trace.events)

    def _open_look(self) -> None:
        if self.step_number % self.every == 0 and self._looks.is_due():
            self._look = ObservedStep(
                self.run.sources, *self._looks.most(MOST_RECORDS, MOST_RECORDED)
            )

    def _read_numbers(self) -> None:
        with weft.no_grad():
            groups = layer_numbers(self._parameters(), self._units, self._unit_weights())
            if self._loss is not None:
                groups["scalars"] = {"loss": number_of("loss", self._loss)}
            groups["time"] = {"seconds": rounded(time.perf_counter() - self._started)}
            self._rows.add(self.step_number, groups)
        self._memory.add(self.step_number)

    def _read_graph(self, look: ObservedStep) -> None:
        with weft.no_grad():
            document = look.timed(look.document)
            if not document["counted"]:
                self._looks.record.note(look.seconds, document["records"])
            self._histograms.add(self.step_number, self._parameters())
        self._rows.set({"activation": layer_norms(document)})
        summary = {
            "id": self.step_number,
            "step": self.step_number,
            "records": document["records"],
            "nodes": len(document["nodes"]["op"]),
            "edges": len(document["edges"]["from"]),
            "stacks": document["stacks"],
        }
        self.run.put_graph(summary, document)
        self._memory.look()

    def _put_time(self, data: Document, title: str = "") -> None:
        """Add what a profile has recorded to the run."""
        document = columns_of(data, self.run.sources)
        summary = {
            "id": self._profiles,
            "step": self.step_number,
            "title": title,
            "events": len(document["events"]["name"]),
            "duration": document["duration"],
        }
        self._profiles += 1
        self.run.put_time(summary, document)

    def _parameters(self) -> dict[str, Tensor]:
        names = names_of(self.models)[1]
        parameters = (p for model in self.models for p in model.parameters())
        return {names[id(parameter)]: parameter for parameter in parameters}

    def _unit_weights(self) -> set[str]:
        several = len(self.models) > 1
        return {
            f"{type(model).__name__}.{name}" if several else name
            for model in self.models
            for name in unit_weights_of(model)
        }

    # -- parts -------------------------------------------------------------------------------------

    def _write_sometimes(self) -> None:
        now = time.perf_counter()
        if self.server is not None and now > self._next_write:
            self._write()
            self._allowance.charge(now)
            after = time.perf_counter()
            pause = max(SECONDS_BETWEEN_PARTS, (after - now) / max(self.share, 1e-9))
            self._next_write = after + min(pause, MOST_SECONDS_BETWEEN_PARTS)

    def _write(self, finished: bool = False) -> None:
        self.run.put("steps", self._rows.document())
        self.run.put("histograms", self._histograms.document())
        self.run.put("memory", self._memory.document())
        if finished:
            self.run.facts["finished"] = True
            self.run.put_facts()


_watching: Board | None = None


def number_of(name: str, value: Tensor | SupportsFloat) -> float | str | None:
    """A scalar of a step as a number. Errors: ValueError for what is not one number."""
    try:
        return rounded(float(value.detach() if isinstance(value, Tensor) else value))
    except (TypeError, ValueError, RuntimeError):
        raise ArgumentError(
            f"weft.board: {name} is not one number",
            expected="a number, or a tensor of one element",
            got=type(value).__name__,
            fix="pass a mean or a sum of it",
        ) from None


def _models(model: Module | Sequence[Module] | None) -> list[Module]:
    several = isinstance(model, (list, tuple))
    listed: list[Any] = [] if model is None else list(model) if several else [model]  # type: ignore[arg-type]
    for one in listed:
        if not isinstance(one, Module):
            raise ArgumentError(
                "weft.board: model",
                expected="a module, or several",
                got=type(one).__name__,
                fix="pass the model, or leave it out: the modules that are called are found",
            )
    return listed


def _checked_every(every: int) -> int:
    if not isinstance(every, int) or every < 1:
        raise ArgumentError(
            "weft.board: every", expected="a number of steps from 1", got=repr(every), fix="pass 1"
        )
    return every


def _checked_share(share: float) -> float:
    if isinstance(share, bool) or not isinstance(share, (int, float)) or not 0 <= share <= 1:
        raise ArgumentError(
            "weft.board: share",
            expected="a share of the time from 0 to 1",
            got=repr(share),
            fix="pass 0.05",
        )
    return share


def _program() -> str:
    """The name of the program, as it was called."""
    return os.path.basename(sys.argv[0]) if sys.argv and sys.argv[0] not in ("", "-c") else "python"
