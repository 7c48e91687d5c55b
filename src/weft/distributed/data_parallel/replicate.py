"""replicate: data parallel training of a module as it is, without one around it: PyTorch's composable form of
DistributedDataParallel. In: a module. Out: the same object, of a class with two methods more."""

from __future__ import annotations

from collections.abc import Iterable
from typing import Any, NoReturn

from weft.distributed.data_parallel.ddp import DistributedDataParallel
from weft.distributed.nn.comm_hooks import Hook
from weft.errors import ArgumentTypeError, NotDefinedError
from weft.nn.module.module import Module


class ReplicatedModule:
    """The methods of a module that `replicate` has been given; it is of its own class as well."""

    __slots__ = ()
    _replicated: DistributedDataParallel

    def __deepcopy__(self, memo: object) -> NoReturn:
        raise NotDefinedError(
            "replicate does not support deepcopy. Please use state dict for serialization.",
            expected="a copy made before replicate",
            got="a replicated module",
            fix="copy first, or load one's state_dict into another",
        )

    def set_requires_gradient_sync(self, requires_gradient_sync: bool) -> None:
        """Say whether backwards from now on average gradients, or leave each rank's own.

        Args:
            requires_gradient_sync: True to average.
        """
        self._replicated.require_backward_grad_sync = requires_gradient_sync

    def register_comm_hook(self, state: object, hook: Hook) -> None:
        """Have a function average gradients, as in `DistributedDataParallel`.

        Args:
            state: what the hook is given.
            hook: called for each bucket of a backward.
        """
        self._replicated.register_comm_hook(state, hook)


_classes: dict[type[Module], type] = {}


def _class_of(cls: type[Module]) -> type:
    """The class of replicated modules of a class."""
    if cls not in _classes:
        body = {"__module__": cls.__module__, "__slots__": ()}
        _classes[cls] = type(f"DDP{cls.__name__}", (cls, ReplicatedModule), body)
    return _classes[cls]


def replicate(
    module: Module, ignored_modules: Iterable[Module] | None = None, **kwargs: object
) -> Module:
    """Have the gradients of a module averaged over the ranks at the end of each backward, as
    `DistributedDataParallel` does; states and names of parameters stay as they are.

    Args:
        module: the same on all ranks; it is changed.
        ignored_modules: those whose parameters are left alone; None: none.
        **kwargs: options of `DistributedDataParallel`, as `device_mesh`.

    Returns:
        The module.

    Raises:
        TypeError for what is no module, or has been replicated.

    Example:
        >>> import weft
        >>> import weft.distributed as dist
        >>> from weft.distributed.data_parallel.replicate import replicate
        >>> dist.init_process_group()
        >>> model = replicate(weft.nn.Linear(2, 1))
        >>> model(weft.ones(1, 2)).sum().backward()
        >>> model.weight.grad  # the mean over all ranks
        tensor([[1., 1.]])
        >>> dist.destroy_process_group()
    """
    if not isinstance(module, Module) or isinstance(module, ReplicatedModule):
        raise ArgumentTypeError(
            "replicate: the module has been replicated already"
            if isinstance(module, Module)
            else "replicate: not a module",
            expected="a module, once",
            got=type(module).__name__,
            fix="call replicate on the root of the model",
        )
    left = {id(p) for ignored in ignored_modules or () for p in ignored.parameters()}
    options: dict[str, Any] = kwargs
    parallel = DistributedDataParallel(module, **options)
    parallel.leave_alone(left)
    module.__dict__["_replicated"] = parallel  # no submodule: it holds this module
    module.register_forward_pre_hook(lambda _, arguments: parallel.begin_forward())
    module.register_forward_hook(lambda _, arguments, outputs: parallel.end_forward(outputs))
    module.__class__ = _class_of(type(module))
    return module
