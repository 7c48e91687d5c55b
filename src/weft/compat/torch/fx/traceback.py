"""Metadata that passes want noted on the nodes made meanwhile: `torch.fx.traceback`."""

from __future__ import annotations

import traceback
from collections.abc import Iterator
from contextlib import contextmanager
from contextvars import ContextVar
from typing import Any

from .node import Node

__all__ = [
    "annotate", "format_stack", "get_current_meta", "has_preserved_node_meta", "preserve_node_meta",
    "reset_grad_fn_seq_nr", "set_current_meta", "set_grad_fn_seq_nr", "set_stack_trace",
]  # fmt: skip

_current: ContextVar[dict[str, Any]] = ContextVar("weft_fx_meta", default={})  # noqa: B039 - replaced, never changed
_preserved: ContextVar[bool] = ContextVar("weft_fx_preserved", default=False)
_KEPT = ("stack_trace", "nn_module_stack", "source_fn_stack", "custom")


def note_current_meta(node: Node) -> None:
    """Give a new node what is to be noted on it."""
    if _preserved.get():
        node.meta.update(_current.get())


@contextmanager
def _set(variable: ContextVar[Any], value: object) -> Iterator[None]:
    reset = variable.set(value)
    try:
        yield
    finally:
        variable.reset(reset)


@contextmanager
def preserve_node_meta(enable: bool = True) -> Iterator[None]:
    """A context in which new nodes get the notes of the node that is run (`set_current_meta`)."""
    with _set(_preserved, enable):
        yield


def has_preserved_node_meta() -> bool:
    """True if such a context is entered."""
    return _preserved.get()


@contextmanager
def set_current_meta(node: Node, pass_name: str = "") -> Iterator[None]:
    """A context in which new nodes are made for a node, and get its notes."""
    kept = {key: node.meta[key] for key in _KEPT if key in node.meta}
    with _set(_current, {**kept, "from_node": [(node.name, node.target)]} if node.meta else {}):
        yield


def get_current_meta() -> dict[str, Any]:
    """The metadata noted on new nodes."""
    return _current.get()


@contextmanager
def annotate(annotation_dict: dict[str, object]) -> Iterator[None]:
    """A context in which new nodes get these entries in `meta["custom"]`."""
    custom = {**_current.get().get("custom", {}), **annotation_dict}
    with _set(_preserved, True), _set(_current, {**_current.get(), "custom": custom}):
        yield


def set_stack_trace(stack: list[str]) -> None:
    """Note lines of a program on new nodes."""
    _current.set({**_current.get(), "stack_trace": "".join(stack)})


def format_stack() -> list[str]:
    """The lines that are noted, or those that have led here."""
    noted = _current.get().get("stack_trace")
    return (
        [noted]
        if _preserved.get() and noted
        else traceback.format_list(traceback.extract_stack()[:-1])
    )


def set_grad_fn_seq_nr(seq_nr: int) -> None:
    """Nothing: gradients of traced programs are recorded when they run."""


def reset_grad_fn_seq_nr() -> None:
    """Nothing."""
