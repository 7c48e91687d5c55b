"""Randomness of mapped functions: random numbers raise, differ, or are the same from example to example."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

from weft.engine.ir import tape as tapes
from weft.engine.ir.mode import Contexts
from weft.errors import ArgumentError, GradientError

if TYPE_CHECKING:
    from weft.functional.random.generator import Generator


class Randomness:
    """Around each call of a function for one example (or one column of a Jacobian). Generators report what is drawn.

    Errors: ValueError on another kind; RuntimeError at the line that draws, where it may not.
    """

    def __init__(self, kind: str) -> None:
        if kind not in ("error", "different", "same"):
            raise ArgumentError(
                f"Only allowed values for randomness are 'error', 'different', or 'same'. Got {kind}",
                expected="'error', 'different' or 'same'",
                got=repr(kind),
                fix="pass one of them",
            )
        self.kind = kind
        self.states: dict[
            Any, tuple[int, int]
        ] = {}  # of generators, before the first number of the first call

    @property
    def drawn(self) -> bool:
        """True if numbers have been drawn."""
        return bool(self.states)

    def note(self, generator: Generator) -> None:
        """Numbers are about to be drawn."""
        if self.kind == "error":
            raise GradientError(
                "vmap: called random operation while in randomness error mode. Please either use the 'same' or "
                "'different' randomness flags on vmap or perform the randomness operation out of vmap",
                expected="no random numbers inside",
                got="randomness='error'",
                fix="pass randomness='different' or 'same'",
            )
        self.states.setdefault(generator, (generator._seed, generator._offset))

    def again(self) -> Randomness:
        """The same for another call, which may be on its way at the same time."""
        other = Randomness(self.kind)
        other.states = dict(self.states)
        return other

    def __enter__(self) -> Randomness:
        if self.kind == "same":
            for generator, state in self.states.items():
                generator._seed, generator._offset = state
        mode = tapes.tape().mode
        self._former = mode.contexts
        around = () if mode.contexts is None else mode.contexts.randomness or ()
        mode.contexts = Contexts(mode.contexts, randomness=(*around, self))
        return self

    def __exit__(self, *exc: object) -> None:
        tapes.tape().mode.contexts = self._former
