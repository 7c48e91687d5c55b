"""Making distributed tensors: of a tensor that each rank has, of the parameters of a module, and filled ones."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from inspect import signature

import weft
from weft.distributed.collectives.carrier import record
from weft.distributed.device_mesh import DeviceMesh, current_mesh
from weft.distributed.placements import Placement, Replicate
from weft.distributed.sharding.dtensor import DTensor, Function
from weft.distributed.sharding.layout import (
    MeshLayout,
    Placements,
    need_group,
    need_placements,
)
from weft.engine.frontend.tensor import Tensor
from weft.errors import ArgumentError, GradientError
from weft.nn.module.module import Module
from weft.nn.parameter import Parameter


def distribute_tensor(
    tensor: Tensor,
    device_mesh: DeviceMesh | None = None,
    placements: Sequence[Placement] | None = None,
    *,
    src_data_rank: int | None = 0,
) -> DTensor:
    """A tensor laid over a mesh: each rank keeps its part of what the rank `src_data_rank` of
    each line of the mesh has, or, where that is None, of its own. Parameters become
    parameters.

    Args:
        tensor: the whole tensor.
        device_mesh: the mesh; None: that of all ranks.
        placements: for each dimension of the mesh, how the tensor lies along it; None:
            replicated.
        src_data_rank: the rank whose values count; None: each has its own. Default: 0.

    Raises:
        RuntimeError for a tensor with a history; ValueError for a DTensor that lies otherwise.

    Example:
        >>> import weft
        >>> import weft.distributed as dist
        >>> from weft.distributed.tensor import Shard, distribute_tensor
        >>> dist.init_process_group()
        >>> mesh = dist.init_device_mesh("cpu", (1,))
        >>> x = distribute_tensor(weft.arange(6.0).reshape(2, 3), mesh, [Shard(0)])
        >>> x.to_local().shape, x.sum().full_tensor()
        (weft.Size([2, 3]), tensor(15.))
        >>> dist.destroy_process_group()
    """
    mesh = current_mesh() if device_mesh is None else device_mesh
    whole_on_all = [Replicate()] * mesh.ndim
    found = need_placements(whole_on_all if placements is None else placements, mesh, tensor.ndim)
    if isinstance(tensor, DTensor):
        _need_same(tensor, mesh, found)
        return tensor
    if not tensor.is_leaf:
        raise GradientError(
            "`distribute_tensor` should be used to distribute leaf tensors! but found non-leaf tensor!",
            expected="a tensor without a history",
            got=f"the result of {tensor.grad_fn}",
            fix="call DTensor.from_local, which has a derivative, or detach()",
        )
    layout = MeshLayout(mesh, found, tuple(tensor.shape))
    with weft.no_grad():
        whole_tensor = tensor.detach()
        if src_data_rank is not None:
            for dim in range(mesh.ndim):
                group = need_group(mesh.get_group(dim))
                whole_tensor = record("broadcast", whole_tensor, group, root=src_data_rank)
        part = layout.own_part(whole_tensor).clone()
        for dim, placement in enumerate(found):
            if placement.is_partial("sum"):  # of which each rank of the line has as much
                part = part / mesh.size(dim)
        made = DTensor(part, layout, tensor.requires_grad)
    made._is_param = isinstance(tensor, Parameter)
    return made


def _need_same(tensor: DTensor, mesh: DeviceMesh, placements: Placements) -> None:
    """Errors: ValueError for a tensor that lies over another mesh, or otherwise."""
    if tensor.device_mesh != mesh:
        differs = f"device mesh {tensor.device_mesh} to a different device mesh {mesh}."
    elif tensor.placements != placements:
        differs = (
            f"placements {tensor.placements} to a different placements {list(placements)}. "
            "do you want to call `redistribute` instead?"
        )
    else:
        return
    raise ArgumentError(
        f"Cannot distribute a DTensor with {differs}",
        expected="a plain tensor",
        got="a DTensor",
        fix="call redistribute(placements=...)",
    )


def distribute_module(
    module: Module,
    device_mesh: DeviceMesh | None = None,
    partition_fn: Callable[[str, Module, DeviceMesh], None] | None = None,
    input_fn: Function | None = None,
    output_fn: Function | None = None,
) -> Module:
    """A module whose parameters and buffers lie over a mesh: as `partition_fn(name, module, mesh)` lays those of each
    module, the others replicated. `input_fn(module, inputs, mesh)` and `output_fn(module, outputs, mesh)` change what
    goes in and comes out.

    Args:
        module: the module, which is changed.
        device_mesh: the mesh; None: that of all ranks.
        partition_fn: a function (name, module, mesh) that lays a module's parameters; None:
            they are replicated.
        input_fn: a function (module, inputs, mesh); None: inputs stay.
        output_fn: a function (module, outputs, mesh); None: outputs stay.

    Example:
        >>> import weft
        >>> import weft.distributed as dist
        >>> from weft.distributed.tensor import distribute_module
        >>> dist.init_process_group()
        >>> mesh = dist.init_device_mesh("cpu", (1,))
        >>> model = distribute_module(weft.nn.Linear(3, 2), mesh)  # replicated
        >>> model.weight.placements
        (Replicate(),)
        >>> dist.destroy_process_group()
    """
    mesh = current_mesh() if device_mesh is None else device_mesh
    for name, one in module.named_modules():
        if partition_fn is not None:
            partition_fn(name, one, mesh)
        replicate_rest(one, mesh)
    if input_fn is not None:
        of_input = _with_module(input_fn)
        module.register_forward_pre_hook(lambda m, inputs: of_input(m, inputs, mesh))
    if output_fn is not None:
        of_output = _with_module(output_fn)
        module.register_forward_hook(lambda m, inputs, outputs: of_output(m, outputs, mesh))
    return module


def _with_module(function: Function) -> Function:
    """A function of a module, values and a mesh; of one that takes no module, as older programs have it, too."""
    if len(signature(function).parameters) == 2:
        return lambda module, values, mesh: function(values, mesh)
    return function


def replicate_rest(module: Module, mesh: DeviceMesh) -> None:
    """Have the parameters and buffers of a module, but not of those below it, on each rank alike, where they do not lie
    over a mesh yet."""
    everywhere = [Replicate()] * mesh.ndim
    for table in (module._parameters, module._buffers):
        for name, value in table.items():
            if value is not None and not isinstance(value, DTensor):
                table[name] = distribute_tensor(value, mesh, everywhere)


def _factory(name: str) -> Function:
    plain = getattr(weft, name)

    def make(
        *size: int | Sequence[int],
        device_mesh: DeviceMesh | None = None,
        placements: Sequence[Placement] | None = None,
        requires_grad: bool = False,
        **options: object,
    ) -> DTensor:
        mesh = current_mesh() if device_mesh is None else device_mesh
        everything = plain(*size, **options)
        given = [Replicate()] * mesh.ndim if placements is None else placements
        layout = MeshLayout(
            mesh, need_placements(given, mesh, everything.ndim), tuple(everything.shape)
        )
        return DTensor(layout.own_part(everything).clone(), layout, requires_grad)

    make.__name__, make.__qualname__ = name, name
    make.__doc__ = f"""`weft.{name}`, of which each rank keeps its part of a layout.

    Args:
        *size: the shape of the whole.
        device_mesh: the mesh; None: that of all ranks.
        placements: for each dimension of the mesh, how the tensor lies along it; None: replicated.
        requires_grad: whether gradients are wanted. Default: False.
        **options: those of `weft.{name}`.
    """
    return make


empty, full, ones, rand, randn, zeros = map(
    _factory, ("empty", "full", "ones", "rand", "randn", "zeros")
)
