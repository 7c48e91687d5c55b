"""local_map: a function of plain tensors, applied to the parts that ranks have of distributed ones."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from functools import partial
from typing import Any

from weft.distributed.device_mesh import DeviceMesh
from weft.distributed.placements import Placement
from weft.distributed.sharding.dtensor import DTensor
from weft.errors import ArgumentError
from weft.utils._pytree import tree_flatten, tree_unflatten

Places = Sequence[Placement]
Function = Callable[..., Any]


def local_map(
    func: Function | None = None,
    out_placements: Places | Sequence[Places | None] | None = None,
    in_placements: Sequence[Places | None] | None = None,
    in_grad_placements: Sequence[Places | None] | None = None,
    device_mesh: DeviceMesh | None = None,
    *,
    redistribute_inputs: bool = False,
) -> Any:
    """A function of distributed tensors, made of one of plain tensors, which is given each rank's parts.

    Args:
        func: the function of parts; None: the result is a decorator.
        out_placements: of each result, how it lies; one sequence of placements for all of them; None in it: a result
            stays as it is.
        in_placements: of each argument, how it is to lie, None for those that are not distributed; None: as they do.
        in_grad_placements: how gradients of arguments lie; None: as the arguments.
        device_mesh: the mesh of results; None: that of the arguments.
        redistribute_inputs: True: arguments that lie otherwise are moved. Default: False, an error.

    Raises:
        ValueError for arguments that lie otherwise.

    Example:
        >>> import weft
        >>> import weft.distributed as dist
        >>> from weft.distributed.tensor import Shard, distribute_tensor
        >>> from weft.distributed.tensor.experimental import local_map
        >>> dist.init_process_group()
        >>> mesh = dist.init_device_mesh("cpu", (1,))
        >>> x = distribute_tensor(weft.ones(4, 2), mesh, [Shard(0)])
        >>> double = local_map(lambda part: part * 2, out_placements=[Shard(0)])
        >>> double(x).placements
        (Shard(dim=0),)
        >>> dist.destroy_process_group()
    """
    if func is None:
        return partial(
            local_map,
            out_placements=out_placements,
            in_placements=in_placements,
            in_grad_placements=in_grad_placements,
            device_mesh=device_mesh,
            redistribute_inputs=redistribute_inputs,
        )

    def mapped(*args: object, **kwargs: object) -> Any:
        leaves, tree = tree_flatten(args)
        meshes = [leaf.device_mesh for leaf in leaves if isinstance(leaf, DTensor)]
        mesh = device_mesh if device_mesh is not None or not meshes else meshes[0]
        wanted = [None] * len(leaves) if in_placements is None else in_placements
        of_gradients = [None] * len(leaves) if in_grad_placements is None else in_grad_placements
        parts = [
            _part(leaf, places, grads, mesh, redistribute_inputs)
            for leaf, places, grads in zip(leaves, wanted, of_gradients, strict=True)
        ]
        given = tree_unflatten(parts, tree)
        return _results(func(*given, **kwargs), mesh if meshes else None, out_placements or ())

    return mapped


def _part(
    value: object, places: Places | None, grads: Places | None, mesh: object, moves: bool
) -> Any:
    """This rank's part of an argument. Errors: ValueError for one that lies otherwise than it is to."""
    if not isinstance(value, DTensor):
        return value
    if places is not None and tuple(places) != value.placements:
        if not moves:
            raise ArgumentError(
                f"arg {value.placements} in local_map has a mismatched placements: expected {tuple(places)}",
                expected=f"an argument that lies as {tuple(places)}",
                got=str(value.placements),
                fix="pass redistribute_inputs=True, or redistribute it before",
            )
        value = value.redistribute(mesh, places)  # type: ignore[arg-type]
    return value.to_local() if grads is None else value.to_local(grad_placements=grads)


def _results(
    found: object, mesh: DeviceMesh | None, places: Places | Sequence[Places | None]
) -> Any:
    """The results over the mesh."""
    if mesh is None:
        return found
    leaves, tree = tree_flatten(found)
    is_for_all = not places or isinstance(places[0], Placement)
    lies: list[Any] = [places] * len(leaves) if is_for_all else list(places)
    made = [
        leaf if where is None else DTensor.from_local(leaf, mesh, where, run_check=False)
        for leaf, where in zip(leaves, lies, strict=True)
    ]
    return tree_unflatten(made, tree)
