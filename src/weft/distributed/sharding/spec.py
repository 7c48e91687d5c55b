"""DTensorSpec: what PyTorch's programs ask of a distributed tensor without its values: mesh, placements, and shape,
strides and dtype of the whole."""

from __future__ import annotations

from dataclasses import dataclass
from typing import NamedTuple

import weft
from weft.distributed.device_mesh import DeviceMesh
from weft.distributed.placements import Placement
from weft.engine.ir.dtype import DType
from weft.errors import ArgumentError


class TensorMeta(NamedTuple):
    """The shape, the strides and the dtype of a whole tensor."""

    shape: weft.Size
    stride: tuple[int, ...]
    dtype: DType


@dataclass(frozen=True)
class DTensorSpec:
    """The layout of a tensor over a mesh.

    Args:
        mesh: the ranks.
        placements: for each dimension of the mesh, how the tensor lies along it.
        tensor_meta: shape, strides and dtype of the whole; None: not known.
    """

    mesh: DeviceMesh
    placements: tuple[Placement, ...]
    tensor_meta: TensorMeta | None = None

    @property
    def device_mesh(self) -> DeviceMesh:
        """The ranks."""
        return self.mesh

    @property
    def shape(self) -> weft.Size:
        """The shape of the whole."""
        return self._meta().shape

    @property
    def stride(self) -> tuple[int, ...]:
        """The strides of the whole."""
        return self._meta().stride

    @property
    def ndim(self) -> int:
        """The number of dimensions of the tensor."""
        return len(self.shape)

    def _meta(self) -> TensorMeta:
        if self.tensor_meta is None:
            raise ArgumentError(
                "DTensorSpec: nothing is known of the whole tensor",
                expected="a spec with tensor_meta",
                got=str(self),
                fix="pass TensorMeta(shape, stride, dtype)",
            )
        return self.tensor_meta

    @property
    def num_shards(self) -> int:
        """The number of parts that the tensor is cut into."""
        count = 1
        for dim, placement in enumerate(self.placements):
            count *= self.mesh.size(dim) if placement.is_shard() else 1
        return count

    @property
    def dim_map(self) -> list[int]:
        """For each dimension of the tensor the dimension of the mesh that shares it out, or -1."""
        found = [-1] * self.ndim
        for dim, placement in enumerate(self.placements):
            for tensor_dim in range(self.ndim):
                if placement.is_shard(tensor_dim):
                    found[tensor_dim] = dim
        return found

    @property
    def sums(self) -> list[int]:
        """The dimensions of the mesh along which values are still to be combined."""
        return [dim for dim, placement in enumerate(self.placements) if placement.is_partial()]

    def is_replicated(self) -> bool:
        """True if each rank has all of the tensor."""
        return all(placement.is_replicate() for placement in self.placements)

    def is_sharded(self) -> bool:
        """True if some dimension of the mesh shares the tensor out."""
        return any(placement.is_shard() for placement in self.placements)
