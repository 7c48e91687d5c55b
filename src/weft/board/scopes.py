"""The call of a module that recorded an operation.

Hooks on all modules note the sequence numbers of the records at the beginning and the end of a call; a record belongs
to the innermost call around its number. Calls in fibers of `weft.map` interleave and are left out.
"""

from __future__ import annotations

import bisect
import threading
from collections.abc import Iterable, Mapping
from dataclasses import dataclass
from typing import Any

from weft.engine.devices import trace
from weft.engine.ir.tape import last_sequence, tape
from weft.nn import Module
from weft.nn.module.global_hooks import (
    register_module_forward_hook,
    register_module_forward_pre_hook,
)


@dataclass
class ModuleCall:
    """A call of a module: the records after `first`, up to `last`, its thread and its time; `parent` is the number of
    the call around it."""

    module: Module
    parent: int
    first: int
    thread: int
    begin_ns: int
    last: int = -1
    end_ns: int = -1


class ModuleCalls:
    """The calls of modules on one thread, while it is open."""

    def __init__(self, most: int) -> None:
        self.calls: list[ModuleCall] = []
        self.most = most
        self._open: list[int] = []
        self._thread = threading.get_ident()
        self._hooks = (
            register_module_forward_pre_hook(self._enter),
            register_module_forward_hook(self._leave, always_call=True),
        )

    def close(self) -> None:
        """Listen no longer."""
        for hook in self._hooks:
            hook.remove()

    def _listens(self) -> bool:
        return threading.get_ident() == self._thread and tape().mode.fiber is None

    def _enter(self, module: Module, arguments: object) -> None:
        if self._listens():
            if len(self.calls) < self.most:
                parent = self._open[-1] if self._open else -1
                call = ModuleCall(module, parent, last_sequence(), self._thread, trace.clock())
                self.calls.append(call)
                self._open.append(len(self.calls) - 1)
            else:
                self._open.append(self._open[-1] if self._open else -1)

    def _leave(self, module: Module, arguments: object, output: object) -> None:
        if self._listens() and self._open:
            number = self._open.pop()
            if number >= 0 and self.calls[number].module is module:
                self.calls[number].last = last_sequence()
                self.calls[number].end_ns = trace.clock()

    def of(self, sequences: Iterable[int]) -> list[int]:
        """The innermost call of each record, by its sequence number; -1 for none."""
        starts = [call.first for call in self.calls]  # in order of entering
        return [self._innermost(bisect.bisect_left(starts, seq) - 1, seq) for seq in sequences]

    def named(self, names: Mapping[Module, str]) -> list[tuple[ModuleCall, str]]:
        """The calls that have ended, with the names of their modules."""
        return [
            (call, names.get(call.module, type(call.module).__name__))
            for call in self.calls
            if call.end_ns >= 0
        ]

    def _innermost(self, number: int, sequence: int) -> int:
        while number >= 0 and not self.calls[number].first < sequence <= self.calls[number].last:
            number = self.calls[number].parent
        return number


def names_of(models: Iterable[Module]) -> tuple[dict[Any, str], dict[int, str]]:
    """The names of modules by themselves, and of parameters and buffers by their ids. Of several models, each name
    begins with its class."""
    modules: dict[Any, str] = {}
    tensors: dict[int, str] = {}
    listed = list(models)
    for model in listed:
        prefix = type(model).__name__ if len(listed) > 1 else ""
        for name, module in model.named_modules():
            modules.setdefault(module, _joined(prefix, name) or type(model).__name__)
        for found in (model.named_parameters(), model.named_buffers()):
            for name, tensor in found:
                tensors.setdefault(id(tensor), _joined(prefix, name))
    return modules, tensors


def _joined(prefix: str, name: str) -> str:
    return f"{prefix}.{name}" if prefix and name else prefix or name
