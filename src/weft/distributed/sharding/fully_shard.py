"""fully_shard: modules whose parameters, gradients and optimizer state each rank has a part of (PyTorch's FSDP2).

Each parameter becomes a `DTensor` of this rank's rows. The module's forward runs on whole parameters, which are
gathered for it (`gathering`); the optimizer runs on rows. A module in which others are sharded keeps to the rest.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager
from dataclasses import dataclass
from typing import Any, NoReturn, cast

import weft
from weft.distributed.device_mesh import DeviceMesh, init_device_mesh
from weft.distributed.group import ProcessGroup
from weft.distributed.placements import Replicate, Shard, _StridedShard
from weft.distributed.ranks import get_world_size
from weft.distributed.sharding.block_reduction import BlockReduction
from weft.distributed.sharding.dtensor import DTensor, local, wrap
from weft.distributed.sharding.gathering import Gathering, calls
from weft.distributed.sharding.gradient_reduction import GradientReduction, need_gathered
from weft.distributed.sharding.layout import MeshLayout, need_group
from weft.engine.frontend.tensor import Tensor
from weft.engine.ir.dtype import DType
from weft.errors import ArgumentError, ArgumentTypeError, NotDefinedError
from weft.nn.module.members import own_values
from weft.nn.module.module import Module
from weft.nn.parameter import Parameter
from weft.utils._pytree import tree_map

Modules = Module | Sequence[Module]
ShardPlacement = Callable[[Parameter], Shard | None]


# -- policies --------------------------------------------------------------------------------------------------------


@dataclass(frozen=True)
class MixedPrecisionPolicy:
    """The types of a sharded module: those in which parameters are gathered and gradients combined, those that its
    inputs are cast to (`param_dtype`) and its outputs.

    Args:
        param_dtype: in which parameters are gathered, and to which inputs are cast; None:
            their own.
        reduce_dtype: in which gradients are combined; None: that of the parameters.
        output_dtype: to which outputs are cast; None: they stay.
        cast_forward_inputs: False: inputs stay. Default: True.

    Example:
        >>> import weft
        >>> import weft.distributed as dist
        >>> from weft.distributed.fsdp import MixedPrecisionPolicy, fully_shard
        >>> dist.init_process_group()
        >>> policy = MixedPrecisionPolicy(param_dtype=weft.bfloat16)
        >>> model = fully_shard(weft.nn.Linear(3, 2), mp_policy=policy)
        >>> model(weft.ones(4, 3)).dtype, model.weight.dtype
        (weft.bfloat16, weft.float32)
        >>> dist.destroy_process_group()
    """

    param_dtype: DType | None = None
    reduce_dtype: DType | None = None
    output_dtype: DType | None = None
    cast_forward_inputs: bool = True


@dataclass
class OffloadPolicy:
    """Sharded parameters stay where they are."""


@dataclass
class CPUOffloadPolicy(OffloadPolicy):
    """Sharded parameters are in the memory of the CPU, where they are already.

    Args:
        pin_memory: accepted: there is no other device. Default: True.
    """

    pin_memory: bool = True


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


# -- the parameters of a module --------------------------------------------------------------------------------------


class ShardedParameters:
    """The parameters that one module shards, and what its forward does with them."""

    def __init__(
        self,
        mesh: DeviceMesh,
        places: dict[Parameter, list[tuple[Module, str]]],
        reshards: bool | None,
        policy: MixedPrecisionPolicy,
        blocks: int = 0,
    ) -> None:
        dim = mesh.ndim - 1
        self._mesh = mesh
        self.group: ProcessGroup = need_group(mesh.get_group(dim))
        self.copies = mesh.get_group(0) if dim else None
        self.reshards, self.policy = reshards, policy
        self.reduction: GradientReduction | BlockReduction = GradientReduction(self)
        if blocks:
            self.reduction = BlockReduction(self, blocks, mesh.size(), _index(mesh))
        self._places = list(places.values())
        self._held: Gathering | None = None
        for parameter, sites in places.items():
            self._put(sites, self._sharded(parameter))

    def _sharded(self, parameter: Tensor) -> DTensor:
        """This rank's rows of a parameter, or of its part of one that lies over other ranks already."""
        part = local(parameter).detach()
        copied = [Replicate()] * (self._mesh.ndim - 1)
        gathers = MeshLayout(self._mesh, (*copied, Shard(0)), tuple(part.shape))
        within = parameter.spread if isinstance(parameter, DTensor) else None
        spread = gathers if within is None else _over_both(gathers, within)
        made = DTensor(gathers.own_part(part).clone(), spread, parameter.requires_grad)
        made.gathers, made.within, made._is_param = gathers, within, True
        return made

    @staticmethod
    def _put(sites: Sequence[tuple[Module, str]], value: Tensor) -> None:
        for module, name in sites:
            own_values(module)[name] = value

    def _register(self, values: Sequence[Tensor]) -> None:
        for sites, value in zip(self._places, values, strict=True):
            self._put(sites, value)

    def owners(self) -> list[tuple[Module, str]]:
        """The modules that have a parameter, and its name there."""
        return [site for sites in self._places for site in sites]

    def shards(self) -> list[DTensor]:
        """The parameters, each once."""
        if self._held is not None:
            return self._held.shards
        return [own_values(sites[0][0])[sites[0][1]] for sites in self._places]

    # -- types -----------------------------------------------------------------------------------------------------

    def operand(self, shard: DTensor) -> Tensor:
        """This rank's rows of a parameter as they are sent."""
        rows: Tensor = local(shard).detach()
        if self.policy.param_dtype is not None and shard.is_floating_point():
            rows = rows.to(self.policy.param_dtype)
        return need_gathered(shard).padded(rows)

    def whole(self, shard: DTensor, value: Tensor) -> Tensor:
        """A parameter that has been gathered, as a module sees it: one that lies over other ranks as well as a tensor
        over these."""
        return value if shard.within is None else wrap(value, shard.within)

    def dtype_of_gradients(self, shard: DTensor) -> DType:
        """The type in which gradients are combined."""
        return self.policy.reduce_dtype or self.policy.param_dtype or shard.dtype

    def _as_input(self, value: object) -> Any:
        return _cast(value, self.policy.param_dtype if self.policy.cast_forward_inputs else None)

    # -- forward ---------------------------------------------------------------------------------------------------

    def call(
        self, forward: Callable[..., object], args: tuple[object, ...], kwargs: dict[str, object]
    ) -> Any:
        """The result of a forward on whole parameters."""
        if any(gathering.owner is self for gathering in calls.open):  # a module that calls itself
            return forward(*args, **kwargs)
        args, kwargs = tree_map(self._as_input, (args, kwargs))
        gathers_again = bool(calls.open) if self.reshards is None else self.reshards
        if isinstance(self.reduction, BlockReduction) and not calls.open:
            self.reduction.batch.begin()
        self.unshard()
        try:
            with self._gathering().saves(gathers_again and weft.is_grad_enabled()):
                result = forward(*args, **kwargs)
        finally:
            self.reshard()
        return tree_map(lambda value: _cast(value, self.policy.output_dtype), result)

    def _gathering(self) -> Gathering:
        assert self._held is not None
        return self._held

    def unshard(self) -> Gathering:
        """Have the module's parameters whole."""
        if self._held is None:
            gathering = Gathering(self)
            self._held = gathering
            self._register(gathering.values)
        return self._held

    def reshard(self) -> None:
        """Have this rank's rows in the place of parameters."""
        if self._held is not None:
            self._register(self._held.shards)
            self._held.values = []
            self._held = None


def _over_both(rows: MeshLayout, parts: MeshLayout) -> MeshLayout:
    """The layout of a tensor whose parts lie over some ranks, and the rows of each part over others."""
    inner = math.prod(
        n for n, p in zip(parts.mesh.shape, parts.placements, strict=True) if p.is_shard(0)
    )
    shard = Shard(0) if inner == 1 else _StridedShard(0, split_factor=inner)
    mesh = rows.mesh.joined(parts.mesh)
    return MeshLayout(mesh, (*rows.placements[:-1], shard, *parts.placements), parts.shape)


def _index(mesh: DeviceMesh) -> int:
    """The number of this process in a mesh, in row-major order."""
    number = 0
    for size, at in zip(mesh.shape, mesh.get_coordinate() or (), strict=False):
        number = number * size + at
    return number


def _cast(value: object, dtype: DType | None) -> Any:
    is_float = isinstance(value, Tensor) and value.is_floating_point()
    return value.to(dtype) if is_float and dtype is not None else value  # type: ignore[attr-defined]


# -- the module ------------------------------------------------------------------------------------------------------


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
        """Have this rank's rows as parameters."""
        self._sharded.reshard()

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
        """Nothing: whole parameters go when the last operation has read them.

        Args:
            reshard_after_backward: accepted.
            recurse: True: the same for modules below. Default: True.
        """

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
    """The class of sharded modules of a class."""
    if cls not in _classes:

        def forward(self: Module, *args: object, **kwargs: object) -> Any:
            """The module's forward, on whole parameters."""
            plain = super(made, self).forward  # type: ignore[arg-type]  # a class, made below
            return self._sharded.call(plain, args, kwargs)

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
        module: a module, or a list of some.
        mesh: the ranks; of two dimensions the second one shards, and along the first one parameters are copies. By
            default all ranks. Parameters that `parallelize_module` has shared out over other dimensions of the same
            mesh have each part sharded.
        reshard_after_forward: have backward gather again; a number counts as True. By default all modules but the
            outermost do.
        shard_placement_fn: may say `Shard(0)` of a parameter, which is so anyhow.
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
    mesh = init_device_mesh("cpu", (get_world_size(),)) if mesh is None else mesh
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
    for one in modules:
        places = _places(one, ignored_params or set())
        _check_parameters(one, places, shard_placement_fn)
        blocks = block_count if deterministic else 0
        _need_same_blocks(one, blocks)
        sharded = ShardedParameters(mesh, places, reshards, mp_policy, blocks)
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


def _places(module: Module, ignored: set[Parameter]) -> dict[Parameter, list[tuple[Module, str]]]:
    """The parameters below a module that are not sharded yet, with the modules that have them and their names there."""
    left_out = {id(parameter) for parameter in ignored}
    found: dict[int, tuple[Parameter, list[tuple[Module, str]]]] = {}
    for owner in _own_modules(module):
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


def _check_parameters(
    module: Module,
    places: dict[Parameter, list[tuple[Module, str]]],
    placement: ShardPlacement | None,
) -> None:
    """Errors: ValueError for those that cannot be sharded."""
    for parameter, sites in places.items():
        name = f"{type(sites[0][0]).__name__}.{sites[0][1]}"
        wanted = None if placement is None else placement(parameter)
        problem, fix = "", ""
        if parameter.ndim == 0:
            problem = "fully_shard doesn't support scalar parameters. "
            problem += f"Change {name} to a 1D tensor with numel equal to 1."
            fix = "make it a tensor of one element"
        elif getattr(parameter, "_is_sharded", False):
            problem = f"fully_shard: {name} is shared with a module that is sharded already"
            fix = "shard only a module that has both"
        elif wanted not in (None, Shard(0)):
            problem, fix = f"fully_shard: {name} cannot be sharded as {wanted!r}", "return Shard(0)"
        if problem:
            raise ArgumentError(
                problem,
                expected="parameters with a dimension 0, each of one sharded module",
                got=f"{name} of shape {list(parameter.shape)} in {type(module).__name__}",
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
        return module._sharded.call(method, args, kwargs)

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
