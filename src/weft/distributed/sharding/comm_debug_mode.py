"""CommDebugMode: which collectives a part of a program takes, counted by kind and by module."""

from __future__ import annotations

from collections import defaultdict
from contextlib import ExitStack
from pathlib import Path
from types import TracebackType
from typing import Any, Self

from weft.autograd.graph import current_walk
from weft.distributed.collectives.counting import counting
from weft.distributed.collectives.operators import CollectiveOperator, operator
from weft.distributed.sharding.dtensor import DTensor
from weft.engine.frontend.tensor import Tensor
from weft.nn.module.global_hooks import (
    register_module_forward_hook,
    register_module_forward_pre_hook,
    register_module_full_backward_pre_hook,
)
from weft.nn.module.module import Module

Counts = dict[CollectiveOperator, int]
_GLOBAL = "Global"
_PHASES = ("forward", "backward")


class CommDebugMode:
    """A context that counts the collectives within it, also those of its backward passes.

    Counted is what is recorded or called, whether or not it goes to other ranks together with others. The parameters of
    a module that `fully_shard` gathers count as one.

    Example:
        >>> import weft
        >>> import weft.distributed as dist
        >>> from weft.distributed.tensor import Shard, distribute_tensor
        >>> from weft.distributed.tensor.debug import CommDebugMode
        >>> dist.init_process_group()
        >>> mesh = dist.init_device_mesh("cpu", (1,))
        >>> x = distribute_tensor(weft.ones(2, 3), mesh, [Shard(0)])
        >>> with CommDebugMode() as comm:
        ...     total = x.sum().full_tensor()
        >>> comm.get_comm_counts(), comm.get_total_counts()
        ({c10d_functional.all_reduce: 1}, 1)
        >>> dist.destroy_process_group()
    """

    def __init__(self) -> None:
        self._stack = ExitStack()
        self._forget()

    def _forget(self) -> None:
        self.comm_counts: Counts = defaultdict(int)
        self.comm_module_counts: dict[str, dict[str, Counts]] = {}
        self._parameters: dict[str, dict[str, Tensor]] = {}
        self._placements: dict[str, Any] = {}
        self._names: dict[int, str] = {}  # of modules, by their identity
        self._open: list[str] = []  # forwards that are running
        self._behind = _GLOBAL  # the module whose backward began last

    # -- the context -----------------------------------------------------------------------------------------------

    def __enter__(self) -> Self:
        self._forget()
        hooks = [
            register_module_forward_pre_hook(self._begin),
            register_module_forward_hook(self._end, always_call=True),
            register_module_full_backward_pre_hook(self._begin_backward),
        ]
        for hook in hooks:
            self._stack.callback(hook.remove)
        self._stack.enter_context(counting(self._count))
        return self

    def __exit__(
        self,
        kind: type[BaseException] | None,
        error: BaseException | None,
        traceback: TracebackType | None,
    ) -> None:
        self._stack.close()

    def _begin(self, module: Module, args: object) -> None:
        if not self._open:
            root = type(module).__name__
            for path, one in module.named_modules():
                self._names.setdefault(id(one), f"{root}.{path}" if path else root)
        name = self._names.setdefault(id(module), type(module).__name__)
        self._open.append(name)
        for key, parameter in module.named_parameters(recurse=False):
            self._parameters.setdefault(name, {})[key] = parameter.data
            if isinstance(parameter, DTensor):
                self._placements[f"{name}.{key}"] = parameter.placements

    def _end(self, module: Module, args: object, output: object) -> None:
        if self._open:
            self._open.pop()

    def _begin_backward(self, module: Module, grad_output: object) -> None:
        self._behind = self._names.get(id(module), _GLOBAL)

    def _count(self, name: str) -> None:
        kind = operator(name)
        assert kind is not None
        self.comm_counts[kind] += 1
        phase = "backward" if current_walk() else "forward"
        owners = [*self._open] if phase == "forward" else _with_parents(self._behind)
        for owner in dict.fromkeys([_GLOBAL, *owners]):
            counts = self.comm_module_counts.setdefault(
                owner, {one: defaultdict(int) for one in _PHASES}
            )
            counts[phase][kind] += 1

    # -- what was found --------------------------------------------------------------------------------------------

    def get_comm_counts(self) -> Counts:
        """The number of collectives of each kind, by PyTorch's operator (`torch.ops.c10d_functional.all_reduce`)."""
        return _Counts(self.comm_counts)

    def get_total_counts(self) -> int:
        """The number of collectives."""
        return sum(self.comm_counts.values())

    def get_parameter_info(self) -> dict[str, dict[str, Tensor]]:
        """The parameters of each module that was called."""
        return self._parameters

    def get_sharding_info(self) -> dict[str, Any]:
        """The placements of parameters that lie over a mesh, by their names."""
        return self._placements

    def generate_comm_debug_tracing_table(self, noise_level: int = 3) -> str:
        """A text with the collectives of each module, in forward and in backward.

        Args:
            noise_level: 0: counts alone; above: placements of parameters too.
        """
        lines = []
        for owner in dict.fromkeys([_GLOBAL, *self._parameters, *self.comm_module_counts]):
            depth = 0 if owner == _GLOBAL else owner.count(".") + 1
            lines.append("  " * depth + owner)
            indent = "  " * (depth + 1)
            for key in self._parameters.get(owner, {}) if noise_level else ():
                if (placed := self._placements.get(f"{owner}.{key}")) is not None:
                    lines.append(f"{indent}*{key}: {placed}")
            for phase, counts in self.comm_module_counts.get(owner, {}).items():
                lines += [f"{indent}*{phase} {kind}: {count}" for kind, count in counts.items()]
        return "\n".join(lines) + "\n"

    def log_comm_debug_tracing_table_to_file(
        self, file_name: str = "comm_mode_log.txt", noise_level: int = 3
    ) -> None:
        """Write the text to a file.

        Args:
            file_name: the file.
            noise_level: as for the text.
        """
        Path(file_name).write_text(self.generate_comm_debug_tracing_table(noise_level))


class _Counts(dict[CollectiveOperator, int]):
    """Counts, which are 0 of what has not been counted."""

    def __missing__(self, kind: CollectiveOperator) -> int:
        return 0


def _with_parents(name: str) -> list[str]:
    """A module and those that it is in."""
    words = name.split(".")
    return [".".join(words[: n + 1]) for n in range(len(words))]
