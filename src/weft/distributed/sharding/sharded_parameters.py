"""The parameters that one module shards: their layouts, the types in which they travel, and what a forward does with
them.

Each parameter becomes a `DTensor` of this rank's part. `ShardedParameters.call` runs a forward on whole ones, which are
gathered for it (`gathering`); gradients are combined by its reduction (`gradient_reduction`, `block_reduction`).
"""

from __future__ import annotations

import math
from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager
from dataclasses import dataclass
from typing import Any, NamedTuple

from weft.distributed.device_mesh import DeviceMesh
from weft.distributed.group import ProcessGroup
from weft.distributed.placements import Replicate, Shard, _StridedShard
from weft.distributed.sharding.block_reduction import BlockReduction
from weft.distributed.sharding.dtensor import DTensor, local, wrap
from weft.distributed.sharding.gathering import Gathering, calls
from weft.distributed.sharding.gradient_reduction import GradientReduction, Standing, need_gathered
from weft.distributed.sharding.layout import MeshLayout, need_group
from weft.engine.frontend.tensor import Tensor
from weft.engine.ir.dtype import DType
from weft.errors import ArgumentError
from weft.nn.module.members import own_values
from weft.nn.module.module import Module
from weft.nn.parameter import Parameter
from weft.utils._pytree import tree_map

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


# -- parameters --------------------------------------------------------------------------------------


class _Layouts(NamedTuple):
    """The layouts of a sharded parameter, as `DTensor` has them."""

    spread: MeshLayout
    gathers: MeshLayout | None
    within: MeshLayout | None


class ShardedParameters:
    """The parameters that one module shards, and what its forward does with them."""

    def __init__(
        self,
        mesh: DeviceMesh,
        places: dict[Parameter, list[tuple[Module, str]]],
        dims: Sequence[int],
        reshards: bool | None,
        policy: MixedPrecisionPolicy,
        blocks: int = 0,
        members: int = 1,
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
        self.reshards_after_backward = True
        self.kept: Standing | None = None  # what the next gathering takes
        self._members = members  # modules whose parameters go together
        self._called: set[int] = set()  # those that have been called with what is held
        self._layouts: list[_Layouts] = []
        for (parameter, sites), dim in zip(places.items(), dims, strict=True):
            sharded = self._sharded(parameter, dim)
            self._layouts.append(_Layouts(sharded.spread, sharded.gathers, sharded.within))
            self._put(sites, sharded)

    def _sharded(self, parameter: Tensor, dim: int) -> DTensor:
        """This rank's part along a dimension of a parameter, or of its part of one that lies over other ranks
        already."""
        part = local(parameter).detach()
        copied = [Replicate()] * (self._mesh.ndim - 1)
        gathers = MeshLayout(self._mesh, (*copied, Shard(dim)), tuple(part.shape))
        within = parameter.spread if isinstance(parameter, DTensor) else None
        spread = gathers if within is None else _over_both(gathers, within, dim)
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
        return [self._own(number) for number in range(len(self._places))]

    def _own(self, number: int) -> DTensor:
        """This rank's part of a parameter; one that a program has put in the place of the first one lies as that did.
        Errors: ValueError for one that does not."""
        module, name = self._places[number][0]
        value, layout = own_values(module)[name], self._layouts[number]
        if isinstance(value, DTensor) and value.spread == layout.spread:
            if value.is_meta:
                raise _without_values(module, name)
            if value.gathers is None:
                value.gathers, value.within = layout.gathers, layout.within
            return value
        raise ArgumentError(
            f"fully_shard: {type(module).__name__}.{name} has been replaced by what does not lie as it did",
            expected=f"a DTensor of shape {list(layout.spread.shape)} that lies as {layout.spread.placements}",
            got=f"{type(value).__name__} {getattr(value, 'placements', '')}".rstrip(),
            fix="assign before fully_shard, or distribute_tensor(x, p.device_mesh, p.placements)",
        )

    # -- types -----------------------------------------------------------------------------------------------------

    def operand(self, shard: DTensor) -> Tensor:
        """This rank's rows of a parameter as they are sent."""
        rows: Tensor = local(shard).detach()
        if self.policy.param_dtype is not None and shard.is_floating_point():
            rows = rows.to(self.policy.param_dtype)
        layout = need_gathered(shard)
        return layout.padded(layout.as_rows(rows))

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
        self,
        module: Module,
        forward: Callable[..., object],
        args: tuple[object, ...],
        kwargs: dict[str, object],
    ) -> Any:
        """The result of a module's forward on whole parameters."""
        if any(gathering.owner is self for gathering in calls.open):  # a module that calls itself
            return forward(*args, **kwargs)
        args, kwargs = tree_map(self._as_input, (args, kwargs))
        gathers_again = bool(calls.open) if self.reshards is None else self.reshards
        if isinstance(self.reduction, BlockReduction) and not calls.open:
            self.reduction.batch.begin()
        self.unshard()
        try:
            with self._gathering().saves(gathers_again):
                result = forward(*args, **kwargs)
        finally:
            self._end_call(module)
        return tree_map(lambda value: _cast(value, self.policy.output_dtype), result)

    def _end_call(self, module: Module) -> None:
        """Have this rank's part again once all modules that go together have been called, and of all where the
        outermost call ends."""
        self._called.add(id(module))
        if calls.open and len(self._called) < self._members:
            calls.waiting.append(self)
            return
        self.reshard()
        if not calls.open:
            waiting, calls.waiting = calls.waiting, []
            for owner in waiting:
                owner.reshard()

    @property
    def keeps_whole(self) -> bool:
        """True if whole parameters are to stay behind a forward whose backward does not gather again."""
        return self.reshards is False or not self.reshards_after_backward

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

    @contextmanager
    def standing(self, values: Callable[[], Sequence[Tensor]] | None) -> Iterator[None]:
        """A context in which the module has whole parameters: those that it has, or these values, or new ones."""
        is_whole, shards = self._held is not None, self.shards()
        if values is None:
            self.unshard()
        elif not is_whole:
            self._register(values())
        try:
            yield
        finally:
            if values is None and not is_whole:
                self.reshard()
            elif not is_whole:
                self._register(shards)

    def reshard(self) -> None:
        """Have this rank's rows in the place of parameters."""
        if self._held is not None:
            self._register(self._held.shards)
            self._held.close()
            self._held = None
        self._called.clear()


def _without_values(module: Module, name: str) -> ArgumentError:
    return ArgumentError(
        "FSDP parameters should be materialized from meta device before training, but the following were still on "
        f"meta device: {type(module).__name__}.{name}",
        expected="parameters with values",
        got="device meta",
        fix="call model.to_empty(device='cpu') and initialize, or load_state_dict(state, assign=True)",
    )


def _over_both(rows: MeshLayout, parts: MeshLayout, dim: int) -> MeshLayout:
    """The layout of a tensor whose parts lie over some ranks, and each part over others along a dimension."""
    inner = math.prod(
        n for n, p in zip(parts.mesh.shape, parts.placements, strict=True) if p.is_shard(dim)
    )
    shard = Shard(dim) if inner == 1 else _StridedShard(dim, split_factor=inner)
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
