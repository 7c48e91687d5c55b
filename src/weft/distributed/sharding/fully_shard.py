"""fully_shard: modules whose parameters, gradients and optimizer state each rank has a part of (PyTorch's FSDP2).

Each parameter becomes a `DTensor` of this rank's rows. The module's forward runs on whole parameters, which are
gathered for it (`gathering`); the optimizer runs on rows. A module in which others are sharded keeps to the rest.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager
from typing import Any, NoReturn, cast

import weft
from weft.distributed.device_mesh import DeviceMesh, current_mesh
from weft.distributed.placements import Shard
from weft.distributed.sharding.block_reduction import BlockReduction
from weft.distributed.sharding.dtensor import DTensor
from weft.distributed.sharding.gathering import Gathering
from weft.distributed.sharding.gradient_reduction import AllReduceHook, GradientReduction
from weft.distributed.sharding.sharded_parameters import (
    CPUOffloadPolicy as CPUOffloadPolicy,
)
from weft.distributed.sharding.sharded_parameters import (
    MixedPrecisionPolicy,
    OffloadPolicy,
    ShardedParameters,
)
from weft.errors import ArgumentError, ArgumentTypeError, AssertedError, NotDefinedError
from weft.nn.module.members import own_values
from weft.nn.module.module import Module
from weft.nn.parameter import Parameter

Modules = Module | Sequence[Module]
ShardPlacement = Callable[[Parameter], Shard | None]


# -- the module ------------------------------------------------------------------------------------------------------


class UnshardHandle:
    """The handle of `unshard(async_op=True)`.

    Args:
        gathering: what is under way; None: nothing.
    """

    def __init__(self, gathering: Gathering | None = None) -> None:
        self._gathering = gathering

    def wait(self) -> None:
        """Wait until the parameters are there; whoever reads them waits anyhow."""
        if self._gathering is not None:
            weft.realize(*self._gathering.values)


class FSDPModule:
    """The methods of a module that `fully_shard` has been given; it is of its own class as well.

    Example:
        >>> import weft
        >>> import weft.distributed as dist
        >>> from weft.distributed.fsdp import FSDPModule, fully_shard
        >>> dist.init_process_group()
        >>> model = fully_shard(weft.nn.Linear(3, 2))
        >>> isinstance(model, FSDPModule)
        True
        >>> model.unshard()  # all of the weights, until reshard
        >>> model.reshard()
        >>> dist.destroy_process_group()
    """

    __slots__ = ()
    _sharded: ShardedParameters

    def __deepcopy__(self, memo: object) -> NoReturn:
        raise NotDefinedError(
            "FSDP does not support deepcopy. Please use state dict for serialization.",
            expected="a copy made before fully_shard",
            got="a sharded module",
            fix="copy first, or load one's state_dict into another",
        )

    def unshard(self, async_op: bool = False) -> UnshardHandle | None:
        """Have the parameters whole until `reshard` or the end of the next forward.

        Args:
            async_op: True: return a handle at once. Default: False.
        """
        handle = UnshardHandle(self._sharded.unshard())
        if async_op:
            return handle
        handle.wait()
        return None

    def reshard(self) -> None:
        """Have this rank's rows as parameters, and nothing whole."""
        self._sharded.reshard()
        self._sharded.kept = None

    def _all(self, recurse: bool = True) -> Iterator[ShardedParameters]:
        """The parameters that this module shards, then of those below it."""
        modules = cast(Module, self).modules() if recurse else [self]
        for module in modules:
            if isinstance(module, FSDPModule):
                yield module._sharded

    def set_requires_gradient_sync(
        self, requires_gradient_sync: bool, *, recurse: bool = True
    ) -> None:
        """Have gradients combined at the end of a backward, or kept whole on the rank for the next one's.

        Args:
            requires_gradient_sync: False: gradients stay whole on each rank.
            recurse: True: the same for modules below. Default: True.
        """
        for sharded in self._all(recurse):
            if isinstance(sharded.reduction, BlockReduction) and not requires_gradient_sync:
                raise ArgumentError(
                    "fully_shard: gradients of a block are combined at once",
                    expected="requires_gradient_sync=True, with deterministic=",
                    got="False",
                    fix="compute several blocks: each backward is of one",
                )
            sharded.reduction.is_on = requires_gradient_sync

    def set_reshard_after_forward(self, reshard_after_forward: bool, recurse: bool = True) -> None:
        """Have backward gather the parameters again, or keep them.

        Args:
            reshard_after_forward: True: gather them again in backward.
            recurse: True: the same for modules below. Default: True.
        """
        if not isinstance(reshard_after_forward, bool):
            raise ArgumentError(
                f"reshard_after_forward should be a bool, got {type(reshard_after_forward)}",
                expected="True or False",
                got=repr(reshard_after_forward),
                fix="pass True to have backward gather again",
            )
        for sharded in self._all(recurse):
            sharded.reshards = reshard_after_forward

    def set_gradient_divide_factor(self, factor: float) -> None:
        """Divide the sum of all ranks' gradients by this, and not by the number of ranks.

        Args:
            factor: the divisor.
        """
        self._sharded.reduction.divisor = factor

    def set_reduce_scatter_divide_factor(self, factor: float) -> None:
        """`set_gradient_divide_factor`, under its older name.

        Args:
            factor: the divisor.
        """
        self.set_gradient_divide_factor(factor)

    def _mean(self, what: str) -> GradientReduction:
        """The reduction at each backward. Errors: ValueError with `deterministic=`."""
        reduction = self._sharded.reduction
        if isinstance(reduction, GradientReduction):
            return reduction
        raise ArgumentError(
            f"fully_shard: {what} of gradients whose order of addition is fixed",
            expected=f"{what} of a module without deterministic=",
            got="deterministic=True",
            fix="leave one of them out",
        )

    def set_requires_all_reduce(self, requires_all_reduce: bool, *, recurse: bool = True) -> None:
        """Have gradients combined with those of the ranks that have the same rows at the end of a backward, or kept
        for the next one's, combined over the ranks that share the parameters out alone. It is for meshes of two
        dimensions.

        Args:
            requires_all_reduce: False: gradients of rows stay until a later backward.
            recurse: True: the same for modules below. Default: True.
        """
        modules = cast(Module, self).modules() if recurse else [self]
        for module in modules:
            if isinstance(module, FSDPModule):
                module._mean("set_requires_all_reduce").all_reduces = requires_all_reduce

    def set_all_reduce_hook(self, hook: AllReduceHook, *, stream: object = None) -> None:
        """Call a function with the module's combined gradients, before they become those of its parameters.

        Args:
            hook: a function of one flat tensor of this rank's part of all gradients, which it may change.
            stream: accepted: there are none.
        """
        self._mean("set_all_reduce_hook").hook = hook

    def set_force_sum_reduction_for_comms(self, enable: bool) -> None:
        """Nothing: a mean is a sum and a division in any case.

        Args:
            enable: accepted.
        """

    def set_allocate_memory_from_process_group_for_comm(self, enable: bool) -> None:
        """Nothing: results come to memory of their own.

        Args:
            enable: accepted.
        """

    def _set_unshard_async_op(self, async_op: bool) -> None:
        """Nothing: gathering is asynchronous in any case."""

    def set_post_optim_event(self, event: object) -> None:
        """Nothing: there are no streams that could wait for an event.

        Args:
            event: accepted.
        """

    def set_modules_to_forward_prefetch(self, modules: Sequence[FSDPModule]) -> None:
        """Nothing: the engine begins to gather the next module's parameters while this one's are used.

        Args:
            modules: accepted.
        """
        _need_sharded(modules)

    def set_modules_to_backward_prefetch(self, modules: Sequence[FSDPModule]) -> None:
        """Nothing: backward begins to gather those of the module before together with this one's.

        Args:
            modules: accepted.
        """
        _need_sharded(modules)

    def set_is_last_backward(self, is_last_backward: bool) -> None:
        """Nothing: there is no state between backward passes.

        Args:
            is_last_backward: accepted.
        """

    def set_reshard_after_backward(
        self, reshard_after_backward: bool, *, recurse: bool = True
    ) -> None:
        """Have whole parameters go in a backward once they have been read, or stay for the next forward, which then
        gathers nothing: for the batches of one step. After a write, as the optimizer's, they are gathered in any case.

        Args:
            reshard_after_backward: False: they stay, in the memory of each rank, until a backward after True, or
                `reshard`.
            recurse: True: the same for modules below. Default: True.
        """
        for sharded in self._all(recurse):
            sharded.reshards_after_backward = reshard_after_backward

    def set_unshard_in_backward(self, unshard_in_backward: bool) -> None:
        """Nothing: backward gathers what it reads.

        Args:
            unshard_in_backward: accepted.
        """

    def set_reduce_scatter_unused_params(self, enable: bool, *, recurse: bool = True) -> None:
        """Nothing: a parameter that some ranks have not used counts as zeros there.

        Args:
            enable: accepted.
            recurse: True: the same for modules below. Default: True.
        """

    def reset_iter_state(self) -> None:
        """Forget what a forward has left that has failed."""
        for sharded in self._all():
            sharded.reshard()
            sharded.kept = None


def _need_sharded(modules: Sequence[object]) -> None:
    for module in modules:
        if not isinstance(module, FSDPModule):
            raise ArgumentError(
                f"Expects FSDPModule but got {type(module)}: {module}",
                expected="modules that fully_shard has been given",
                got=type(module).__name__,
                fix="call fully_shard on it first",
            )


_classes: dict[type[Module], type] = {}


def _class_of(cls: type[Module]) -> type:
    """The class of sharded modules of a class; checkpoints are around what is sharded, so that calls are gathered for
    again."""
    if (inside := cls.__dict__.get("_inside")) is not None:
        return cls._around(_class_of(inside))  # type: ignore[no-any-return, attr-defined]
    if cls not in _classes:

        def forward(self: Module, *args: object, **kwargs: object) -> Any:
            """The module's forward, on whole parameters."""
            own = super(made, self).forward  # type: ignore[arg-type]  # a class, made below
            return self._sharded.call(self, own, args, kwargs)

        body = {"__module__": cls.__module__, "__slots__": (), "forward": forward}
        made = _classes[cls] = type(f"FSDP{cls.__name__}", (cls, FSDPModule), body)
    return _classes[cls]


# -- fully_shard -----------------------------------------------------------------------------------------------------


def fully_shard(
    module: Modules,
    *,
    mesh: DeviceMesh | None = None,
    reshard_after_forward: bool | int | None = None,
    shard_placement_fn: ShardPlacement | None = None,
    mp_policy: MixedPrecisionPolicy = MixedPrecisionPolicy(),  # noqa: B008 - never changed
    offload_policy: OffloadPolicy | None = None,
    ignored_params: set[Parameter] | None = None,
    dp_mesh_dims: None = None,
    deterministic: bool = False,
    block_count: int = 8,
) -> Any:
    """The module itself, changed: its parameters are this rank's rows, and its forward gathers them.

    Call it on layers first and then on the model, before the optimizer is made. All ranks begin with equal parameters
    and call sharded modules in one order; the graphs within, batch sizes and unused parameters may differ.

    Args:
        module: a module, or a list of some, whose parameters are gathered together with the first of them that is
            called.
        mesh: the ranks; of two dimensions the second one shards, and along the first one parameters are copies. By
            default all ranks. Parameters that `parallelize_module` has shared out over other dimensions of the same
            mesh have each part sharded.
        reshard_after_forward: have backward gather again; a number counts as True. By default all modules but the
            outermost do.
        shard_placement_fn: may say along which dimension a parameter is shared out, `Shard(dim)`; None: the first
            one.
        mp_policy: other types for parameters, gradients, inputs and outputs.
        offload_policy: accepted; parameters are in the memory of the CPU.
        ignored_params: parameters that stay as they are.
        dp_mesh_dims: None.
        deterministic: train with the same bits on any number of ranks that is a power of two. A global batch is cut
            into `block_count` blocks; each backward is of one, and gradients are there after this rank's last one
            (`BlockSampler` with `interleaved=True`). All sharded modules of a model alike.
        block_count: 8 by default: the same bits on 1, 2, 4 and 8 ranks.

    Errors: ValueError for what cannot be sharded: scalars, containers without a forward, a module twice, a parameter
    that a module inside of this one shares with others; RuntimeError before `init_process_group`.

    Example:
        >>> import weft
        >>> import weft.distributed as dist
        >>> from weft.distributed.fsdp import fully_shard
        >>> dist.init_process_group()
        >>> model = fully_shard(weft.nn.Linear(3, 2))  # each rank keeps its share of the weights
        >>> model(weft.ones(4, 3)).sum().backward()
        >>> model.weight.grad.full_tensor().shape
        weft.Size([2, 3])
        >>> dist.destroy_process_group()
    """
    modules = [module] if isinstance(module, Module) else list(module)
    mesh = current_mesh() if mesh is None else mesh
    if mesh.ndim > 2 or dp_mesh_dims is not None:
        raise ArgumentError(
            f"fully_shard expects a 1D or 2D DeviceMesh but got {mesh}",
            expected="a mesh of one or two dimensions, without dp_mesh_dims",
            got=str(mesh),
            fix="pass mesh['dp'], the dimensions over which data are parallel",
        )
    for one in modules:
        _check_module(one)
    reshards = None if reshard_after_forward is None else bool(reshard_after_forward)
    blocks = block_count if deterministic else 0
    places = _places(modules, ignored_params or set())
    dims = _sharded_dims(modules, places, shard_placement_fn)
    for one in modules:
        _need_same_blocks(one, blocks)
    sharded = ShardedParameters(mesh, places, dims, reshards, mp_policy, blocks, len(modules))
    for one in modules:
        own_values(one)["_sharded"] = sharded
        one.__class__ = _class_of(type(one))
    for owner in dict.fromkeys(owner for owner, _ in sharded.owners()):
        owner._register_load_state_dict_pre_hook(_lay, with_module=True)
    for parameter in places:
        parameter._is_sharded = True  # type: ignore[attr-defined]  # whoever shares it has to know
    return module


def _check_module(module: Module) -> None:
    problem = ""
    if not isinstance(module, Module):
        raise ArgumentTypeError(
            f"fully_shard: expected a module, got {type(module)}",
            expected="a module",
            got=type(module).__name__,
            fix="pass the model",
        )
    if isinstance(module, FSDPModule):
        problem = "fully_shard has already been applied to this module"
    elif type(module).forward is Module.forward:
        problem = f"fully_shard does not support containers that do not implement forward: {type(module).__name__}"
    if problem:
        raise ArgumentError(
            problem,
            expected="a module with a forward, once",
            got=type(module).__name__,
            fix="shard each of its entries, then the model",
        )


def _need_same_blocks(module: Module, blocks: int) -> None:
    """Errors: ValueError for a module in which others are sharded for another number of blocks."""
    for inner in module.modules():
        if isinstance(inner, FSDPModule):
            reduction = inner._sharded.reduction
            own = reduction.count if isinstance(reduction, BlockReduction) else 0
            if own != blocks:
                raise ArgumentError(
                    f"fully_shard: a batch of {blocks or 'no'} blocks around a module with one of {own or 'no'}",
                    expected="deterministic= and block_count= alike in all sharded modules of a model",
                    got=f"others for {type(inner).__name__}",
                    fix="pass deterministic=True to each call",
                )


def _places(
    modules: Sequence[Module], ignored: set[Parameter]
) -> dict[Parameter, list[tuple[Module, str]]]:
    """The parameters below some modules that are not sharded yet, with the modules that have them and their names
    there."""
    left_out = {id(parameter) for parameter in ignored}
    found: dict[int, tuple[Parameter, list[tuple[Module, str]]]] = {}
    owners = {id(owner): owner for module in modules for owner in _own_modules(module)}
    for owner in owners.values():
        for name, parameter in owner._parameters.items():
            is_new = parameter is not None and getattr(parameter, "gathers", None) is None
            if is_new and id(parameter) not in left_out:
                found.setdefault(id(parameter), (parameter, []))[1].append((owner, name))
    return dict(found.values())


def _own_modules(module: Module) -> Iterator[Module]:
    """A module and those below it, but for those that are sharded by themselves."""
    yield module
    for child in module._modules.values():
        if child is not None and not isinstance(child, FSDPModule):
            yield from _own_modules(child)


def _sharded_dims(
    modules: Sequence[Module],
    places: dict[Parameter, list[tuple[Module, str]]],
    placement: ShardPlacement | None,
) -> list[int]:
    """The dimension along which each parameter is shared out. Errors: ValueError for those that cannot be."""
    names = {id(owner): name for module in modules for name, owner in module.named_modules()}
    dims = []
    for parameter, sites in places.items():
        owner, own_name = sites[0]
        name = f"{names[id(owner)]}.{own_name}".lstrip(".")
        wanted = None if placement is None else placement(parameter)
        _check_parameter(parameter, name, wanted)
        dims.append(0 if wanted is None else wanted.dim % parameter.ndim)
    return dims


def _check_parameter(parameter: Parameter, name: str, wanted: Shard | None) -> None:
    """Errors: ValueError for a parameter that cannot be sharded so."""
    ndim = parameter.ndim
    dim = wanted.dim if isinstance(wanted, Shard) else 0
    problem, fix = "", ""
    if wanted is not None and not isinstance(wanted, Shard):
        problem = f"fully_shard: {name} cannot be sharded as {wanted!r}"
        fix = "return Shard(dim), or None, from shard_placement_fn"
    elif ndim == 0:
        problem = "fully_shard doesn't support scalar parameters. "
        problem += f"Change {name} to a 1D tensor with numel equal to 1."
        fix = "make it a tensor of one element"
    elif getattr(parameter, "_is_sharded", False):
        problem = f"fully_shard: {name} is shared with a module that is sharded already"
        fix = "shard only a module that has both"
    elif not -ndim <= dim < ndim:
        problem = f"Shard dim {dim} is invalid for {ndim}D tensor: {name}"
        fix = f"return Shard(dim) with dim < {ndim}, or None"
    if problem:
        raise AssertedError(
            problem,
            expected="parameters with the dimension that is shared out, each of one sharded module",
            got=f"{name} of shape {list(parameter.shape)}",
            fix=fix,
        )


def _lay(module: Module, state: dict[str, object], prefix: str, *rest: object) -> None:
    """Before a module loads: whole tensors, and rows of this rank, are to lie as the parameter does."""
    for name, parameter in module._parameters.items():
        if isinstance(parameter, DTensor) and prefix + name in state:
            state[prefix + name] = parameter.like(state[prefix + name])


def register_fsdp_forward_method(module: Module, method_name: str) -> None:
    """Have another method of a sharded module run on whole parameters, as its forward does.

    Args:
        module: a sharded module.
        method_name: the name of the method.
    """
    if not isinstance(module, FSDPModule):
        return
    if not hasattr(module, method_name):
        raise ArgumentError(
            f"{type(module)} does not have a method {method_name}",
            expected="a method of the module",
            got=repr(method_name),
            fix="name one of its methods",
        )
    method = getattr(module, method_name)

    def wrapped(*args: object, **kwargs: object) -> Any:
        return module._sharded.call(module, method, args, kwargs)

    own_values(module)[method_name] = wrapped


def share_comm_ctx(modules: Sequence[FSDPModule]) -> None:
    """Nothing: communication has no streams.

    Args:
        modules: accepted.
    """
    _need_sharded(modules)


@contextmanager
def disable_fsdp_module_new_init() -> Iterator[None]:
    """A context in which nothing is different."""
    yield
