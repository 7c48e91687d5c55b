"""`weft.board`: one page in the browser that shows a run: the graph of its steps, how it learns, where memory goes.

`with weft.board():` around a training loop, or `board = weft.board.start(model)`, watches what the program does and
serves the page on 127.0.0.1; `board.save("run.html")` writes it as one file that works by itself. `recording` says
what is heard and when; `run` is the data, `server`, `run_file` and `page` bring it to a browser. Start with
`recording`.
"""

from __future__ import annotations

import os
import sys
from collections.abc import Sequence

from weft._build.lazy import Importable
from weft.board.recording import Board
from weft.board.run_file import load
from weft.nn import Module

__all__ = ["Board", "load", "start"]


def start(
    model: Module | Sequence[Module] | None = None,
    *,
    every: int = 1,
    share: float = 0.05,
    port: int | None = None,
    serve: bool = True,
    save: str | os.PathLike[str] | None = None,
    quiet: bool = False,
) -> Board:
    """Watch what the program trains from now on, and serve the page that shows it.

    Args:
        model: the module or modules whose parameters are followed; None: those that the program calls.
        every: watch each so-manyth step.
        share: the share of the time that looking may take; 1: look at every step, whatever it takes.
        port: where the page is served; None: 8275, or the next port that is free.
        serve: False: no page is served; `save` writes one.
        save: where a `with` block writes the run at its end, a page where it ends in `.html`; None: nowhere.
        quiet: do not print the address.

    Returns:
        A `Board`: `board.step(loss=loss)` adds numbers to a step, `board.save(path)` writes the run, `board.stop()`
        ends the watching, `board.close()` takes the page away too. It is a context manager, and `weft.board(...)`
        makes one that begins where its block does.

    Raises:
        ValueError: for arguments that are none of these.
        RuntimeError: where a board is watching already.

    Example:
        >>> import weft
        >>> model = weft.nn.Linear(2, 1)
        >>> optimizer = weft.optim.SGD(model.parameters(), lr=0.1)
        >>> with weft.board(model, serve=False) as board:
        ...     for _ in range(3):
        ...         optimizer.zero_grad()
        ...         model(weft.ones(4, 2)).square().mean().backward()
        ...         optimizer.step()
        >>> board.step_number
        3

    Cost: `share` of the time, about a second at the first step; in a step that is looked at the memory of its values
    and of their gradients, up to 256 MB of each.
    """
    board = Board(model, every=every, share=share, port=port, serve=serve, save=save, quiet=quiet)
    return board.start()


class _Callable(Importable):
    """The module, which is called to make a board."""

    __call__ = staticmethod(Board)


sys.modules[__name__].__class__ = _Callable
