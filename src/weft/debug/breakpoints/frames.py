"""Stopping in the user's frame: in `pdb`, or in the debugger that `breakpoint()` calls (an editor's).

A frame that recorded an operation is still alive where its function has not returned. Where it has, a frame of the same
file and line stands in for it, which has the operation's values as its variables.
"""

from __future__ import annotations

import bdb
import os
import pdb
import sys
from collections.abc import Mapping
from types import CodeType, FrameType, TracebackType
from typing import Any

from weft.errors import is_internal

WATCHED = "watched"  # the name that the value has in the debugger


def live_frame(code: CodeType | None, instruction: int) -> FrameType | None:
    """The frame on the stack that stands at an instruction of a code object, or else in this code; None where its
    function has returned."""
    frame: FrameType | None = sys._getframe(1)
    found = None
    while frame is not None:
        if frame.f_code is code:
            if frame.f_lasti // 2 == instruction:
                return frame
            found = found or frame
        frame = frame.f_back
    return found


def user_frame() -> FrameType | None:
    """The innermost frame outside the library."""
    frame: FrameType | None = sys._getframe(1)
    while frame is not None and is_internal(frame.f_code.co_filename):
        frame = frame.f_back
    return frame


class _Debugger(pdb.Pdb):
    """`pdb` at a frame, with one more variable."""

    watched: Any = None

    def setup(self, f: FrameType | None, tb: TracebackType | None) -> None:
        super().setup(f, tb)
        self.curframe_locals[WATCHED] = self.watched  # type: ignore[index]


def stop_in(frame: FrameType, value: object) -> None:
    """Stop at a frame; the value is `watched` there."""
    if sys.breakpointhook is not sys.__breakpointhook__ or os.environ.get("PYTHONBREAKPOINT"):
        stand_in(
            frame.f_code.co_filename, frame.f_lineno, {**frame.f_locals, WATCHED: value}, frame
        )
        return
    debugger = _Debugger()
    debugger.watched = value
    debugger.reset()
    debugger.interaction(frame, None)
    if getattr(debugger, "quitting", False):
        raise bdb.BdbQuit


def stand_in(
    filename: str, line: int, variables: Mapping[str, object], behind: FrameType | None = None
) -> None:
    """Stop in a frame made for a file's line, which has some variables."""
    names: dict[str, object] = (
        dict(behind.f_globals) if behind is not None else {"__name__": "__watched__"}
    )
    if sys.breakpointhook is not sys.__breakpointhook__ or os.environ.get("PYTHONBREAKPOINT"):
        text = "breakpoint()"
    else:
        text = "__stop_here()"
        names["__stop_here"] = lambda: stop_in(sys._getframe(1), variables.get(WATCHED))
    code = compile("\n" * (line - 1) + text, filename, "exec")
    exec(code, names, dict(variables))
