"""Modules around modules, with PyTorch's names: what they compute for backward is computed again there, or lies on the
host meanwhile. Parameters keep the names that they have without the wrapper, in states and in lists."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from enum import Enum, auto
from functools import partial
from typing import Any

from weft import nn
from weft.autograd.graph import save_on_cpu
from weft.engine.frontend.tensor import Tensor
from weft.errors import ArgumentError
from weft.nn.module.members import own_values
from weft.utils.checkpoint import checkpoint

_PREFIX = "_checkpoint_wrapped_module."


class CheckpointImpl(Enum):
    """The kinds of checkpointing: as a custom Function, whose arguments have to require grad, or without one.

    Example:
        >>> from weft.utils.checkpoint_wrapper import CheckpointImpl
        >>> [kind.name for kind in CheckpointImpl]
        ['REENTRANT', 'NO_REENTRANT']
    """

    REENTRANT = auto()
    NO_REENTRANT = auto()


class ActivationWrapper(nn.Module):
    """A module around another, whose attributes, items and names of parameters it has.

    Args:
        mod: the module inside.

    Example:
        >>> from weft import nn
        >>> from weft.utils.checkpoint_wrapper import offload_wrapper
        >>> wrapped = offload_wrapper(nn.Linear(2, 3))
        >>> wrapped.out_features, sorted(wrapped.state_dict())
        (3, ['bias', 'weight'])
    """

    def __init__(self, mod: nn.Module) -> None:
        super().__init__()
        self._checkpoint_wrapped_module = mod
        strip: Any = _without_prefix
        self._register_state_dict_hook(strip)
        self.register_load_state_dict_pre_hook(_with_prefix)

    def __getattr__(self, name: str) -> Any:
        try:
            return super().__getattr__(name)
        except AttributeError:
            return getattr(self._checkpoint_wrapped_module, name)

    def __getitem__(self, key: int) -> Any:
        """An item of the module inside."""
        inside: Any = self._checkpoint_wrapped_module
        return inside[key]

    def named_parameters(
        self, prefix: str = "", recurse: bool = True, remove_duplicate: bool = True
    ) -> Iterator[tuple[str, Any]]:
        """The parameters, by the names that they have in the module inside.

        Args:
            prefix: what their names begin with.
            recurse: True: those of modules inside, too. Default: True.
            remove_duplicate: True: each once. Default: True.
        """
        for name, parameter in super().named_parameters(prefix, recurse, remove_duplicate):
            yield name.replace(_PREFIX, ""), parameter


def _renamed(state: dict[str, object], old: str, new: str) -> None:
    """Have keys begin with `new` instead of `old`."""
    for key in [key for key in state if key.startswith(old)]:
        state[new + key[len(old) :]] = state.pop(key)


def _without_prefix(
    module: nn.Module, state: dict[str, object], prefix: str, *rest: object
) -> dict[str, object]:
    _renamed(state, prefix + _PREFIX, prefix)
    return state


def _with_prefix(module: nn.Module, state: dict[str, object], prefix: str, *rest: object) -> None:
    _renamed(state, prefix, prefix + _PREFIX)


class CheckpointWrapper(ActivationWrapper):
    """A module that is computed again in the backward pass. See `checkpoint_wrapper`.

    Args:
        mod: the module inside.
        checkpoint_impl: the kind of checkpointing.
        checkpoint_fn: what checkpoints a call; None: `weft.utils.checkpoint.checkpoint`.
        **checkpoint_fn_kwargs: keywords of that function.

    Example:
        >>> from weft import nn
        >>> from weft.utils.checkpoint_wrapper import CheckpointWrapper, checkpoint_wrapper
        >>> isinstance(checkpoint_wrapper(nn.Linear(2, 3)), CheckpointWrapper)
        True
    """

    def __init__(
        self,
        mod: nn.Module,
        checkpoint_impl: CheckpointImpl = CheckpointImpl.NO_REENTRANT,
        checkpoint_fn: Callable[..., object] | None = None,
        **checkpoint_fn_kwargs: object,
    ) -> None:
        super().__init__(mod)
        self.checkpoint_impl = checkpoint_impl
        is_reentrant = checkpoint_impl is CheckpointImpl.REENTRANT
        chosen = checkpoint_fn or partial(checkpoint, use_reentrant=is_reentrant)
        self.checkpoint_fn = partial(chosen, **checkpoint_fn_kwargs)

    def forward(self, *args: object, **kwargs: object) -> Any:
        """The module inside, checkpointed.

        Args:
            *args: its arguments.
            **kwargs: its keywords.
        """
        inside = self._checkpoint_wrapped_module
        if self.checkpoint_impl is CheckpointImpl.NO_REENTRANT:
            return self.checkpoint_fn(inside, *args, **kwargs)
        names, count = list(kwargs), len(args)

        def call(*every: object) -> Any:
            return inside(*every[:count], **dict(zip(names, every[count:], strict=True)))

        return self.checkpoint_fn(call, *args, *kwargs.values())


class OffloadWrapper(ActivationWrapper):
    """A module whose saved values lie in host memory until its backward pass. See `offload_wrapper`.

    Example:
        >>> from weft import nn
        >>> from weft.utils.checkpoint_wrapper import OffloadWrapper, offload_wrapper
        >>> isinstance(offload_wrapper(nn.Linear(2, 3)), OffloadWrapper)
        True
    """

    def forward(self, *args: object, **kwargs: object) -> Any:
        """The module inside.

        Args:
            *args: its arguments.
            **kwargs: its keywords.
        """
        with save_on_cpu(pin_memory=True):
            return self._checkpoint_wrapped_module(*args, **kwargs)


def checkpoint_wrapper(
    module: nn.Module,
    checkpoint_impl: CheckpointImpl = CheckpointImpl.NO_REENTRANT,
    checkpoint_fn: Callable[..., object] | None = None,
    **checkpoint_fn_kwargs: object,
) -> CheckpointWrapper:
    """A module around another that keeps only its arguments: the backward pass computes it again.

    Args:
        module: the module inside.
        checkpoint_impl: the kind of checkpointing, where `checkpoint_fn` does not say it. Default: NO_REENTRANT.
        checkpoint_fn: what checkpoints a call; None: `weft.utils.checkpoint.checkpoint`.
        **checkpoint_fn_kwargs: keywords of that function.

    Example:
        >>> import weft
        >>> from weft import nn
        >>> from weft.utils.checkpoint_wrapper import checkpoint_wrapper
        >>> layer = checkpoint_wrapper(nn.Linear(2, 2))
        >>> layer(weft.ones(1, 2)).sum().backward()
        >>> layer.weight.grad
        tensor([[1., 1.],
                [1., 1.]])
    """
    return CheckpointWrapper(module, checkpoint_impl, checkpoint_fn, **checkpoint_fn_kwargs)


def offload_wrapper(module: nn.Module) -> OffloadWrapper:
    """A module around another, whose saved values lie in host memory until its backward pass.

    Args:
        module: the module inside.

    Example:
        >>> import weft
        >>> from weft import nn
        >>> from weft.utils.checkpoint_wrapper import offload_wrapper
        >>> offload_wrapper(nn.ReLU())(weft.tensor([-1.0, 2.0]))
        tensor([0., 2.])
    """
    return OffloadWrapper(module)


def _every_module(module: nn.Module) -> bool:
    return True


def apply_activation_checkpointing(
    model: nn.Module,
    checkpoint_wrapper_fn: Callable[[nn.Module], nn.Module] = checkpoint_wrapper,
    check_fn: Callable[[nn.Module], bool] = _every_module,
    auto_wrap_policy: Callable[[nn.Module, bool, int], bool] | None = None,
) -> None:
    """Put wrappers around modules of a model, those inside of others first; not around the model itself.

    Args:
        model: the model, which is changed.
        checkpoint_wrapper_fn: gives the wrapper of a module. Default: `checkpoint_wrapper`.
        check_fn: True for the modules that get one. Default: for all.
        auto_wrap_policy: says it instead, called with the module, False, and its number of parameters; None: `check_fn`
            does.

    Example:
        >>> from weft import nn
        >>> from weft.utils.checkpoint_wrapper import apply_activation_checkpointing
        >>> model = nn.Sequential(nn.Linear(2, 2), nn.ReLU())
        >>> apply_activation_checkpointing(model, check_fn=lambda m: isinstance(m, nn.Linear))
        >>> [type(module).__name__ for module in model], sorted(model.state_dict())
        (['CheckpointWrapper', 'ReLU'], ['0.bias', '0.weight'])
    """

    def is_chosen(module: nn.Module) -> bool:
        if auto_wrap_policy is None:
            return check_fn(module)
        return auto_wrap_policy(module, False, sum(map(Tensor.numel, module.parameters())))

    wrapped: dict[int, nn.Module] = {}  # a module that is in several places has one wrapper
    owners = [module for module in model.modules() if not isinstance(module, ActivationWrapper)]
    for owner in reversed(owners):
        for name, child in list(owner.named_children()):
            if isinstance(child, ActivationWrapper):
                continue
            if id(child) not in wrapped and is_chosen(child):
                wrapped[id(child)] = checkpoint_wrapper_fn(child)
            if id(child) in wrapped:
                setattr(owner, name, wrapped[id(child)])


# -- without a module around it ----------------------------------------------------------------------------------------


class CheckpointedModule:
    """A module that `checkpoint_module` has been given; it is of its own class as well. `_inside` is the class without
    checkpoints, and `_around` makes such a class of one, for what changes the class of a module within them."""

    __slots__ = ()


_classes: dict[type[nn.Module], type] = {}


def checkpointed_class(cls: type[nn.Module]) -> type:
    """The class of checkpointed modules of a class."""
    if cls not in _classes:

        def forward(self: nn.Module, *args: object, **kwargs: object) -> Any:
            """The module's forward, computed again for backward."""
            plain = super(made, self).forward  # type: ignore[arg-type]  # a class, made below
            given: dict[str, Any] = {**kwargs, **own_values(self)["_checkpoint_options"]}
            return checkpoint(plain, *args, use_reentrant=False, **given)

        body: dict[str, object] = {
            "__module__": cls.__module__,
            "__slots__": (),
            "forward": forward,
        }
        body |= {"_inside": cls, "_around": staticmethod(checkpointed_class)}
        made = _classes[cls] = type(f"Checkpointed{cls.__name__}", (cls, CheckpointedModule), body)
    return _classes[cls]


def checkpoint_module(module: nn.Module, **options: object) -> nn.Module:
    """Have a module keep only the arguments of its calls: the backward pass computes it again. What `fully_shard` does
    for a call, before or afterwards, is done again with it.

    Args:
        module: the module, which is changed.
        **options: `context_fn`, `preserve_rng_state`, `determinism_check` and `early_stop` of
            `weft.utils.checkpoint.checkpoint`.

    Returns:
        The module.

    Raises:
        ValueError for `use_reentrant=True`, and for a module twice.

    Example:
        >>> import weft
        >>> from weft.distributed._composable import checkpoint
        >>> model = checkpoint(weft.nn.Linear(2, 1))
        >>> model(weft.ones(1, 2)).sum().backward()
        >>> model.weight.grad
        tensor([[1., 1.]])
    """
    problem = ""
    if options.pop("use_reentrant", False):
        problem = "use_reentrant=True is not supported in composable checkpoint. Please use torch.utils.checkpoint."
    elif isinstance(module, CheckpointedModule):
        problem = "checkpoint: the module has been given already"
    if problem:
        raise ArgumentError(
            problem,
            expected="a module, once, without use_reentrant=True",
            got=type(module).__name__,
            fix="checkpoint each module once",
        )
    own_values(module)["_checkpoint_options"] = options
    module.__class__ = checkpointed_class(type(module))
    return module
