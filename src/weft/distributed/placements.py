"""Placements: how the dimensions of a mesh hold a tensor, in PyTorch's words.

They describe only: programs make tables of them before they know how many processes there are, and compare them. What
they mean for a tensor of a shape says `sharding.layout`.
"""

from __future__ import annotations

from dataclasses import KW_ONLY, dataclass, replace


class Placement:
    """The way in which one dimension of a mesh holds a tensor."""

    def is_shard(self, dim: int | None = None) -> bool:
        """True if it splits a dimension of the tensor, or this one.

        Args:
            dim: a dimension; None: any.
        """
        return isinstance(self, Shard) and dim in (None, self.dim)

    def is_replicate(self) -> bool:
        """True if each rank has all of the tensor."""
        return isinstance(self, Replicate)

    def is_partial(self, reduce_op: str | None = None) -> bool:
        """True if the ranks' values are still to be combined, or to be combined so.

        Args:
            reduce_op: how they are combined; None: anyhow.
        """
        return isinstance(self, Partial) and reduce_op in (None, self.reduce_op)


@dataclass(frozen=True)
class Shard(Placement):
    """Each rank has a part of a dimension.

    Args:
        dim: the dimension of the tensor.

    Example:
        >>> from weft.distributed.tensor import Shard
        >>> Shard(0), Shard(0) == Shard(1), Shard(1).is_shard(dim=1)
        (Shard(dim=0), False, True)
    """

    dim: int

    def along(self, dim: int) -> Shard:
        """The same of another dimension.

        Args:
            dim: the dimension of the tensor.
        """
        return replace(self, dim=dim)

    def __str__(self) -> str:
        return f"S({self.dim})"


@dataclass(frozen=True)
class _StridedShard(Shard):
    """Each rank has a part of what later dimensions of the mesh, of `split_factor` ranks, left of a dimension: one of
    each of `split_factor` groups of it, seen over all of them."""

    _: KW_ONLY
    split_factor: int

    def __str__(self) -> str:
        return f"_S({self.dim}, {self.split_factor})"


@dataclass(frozen=True)
class Replicate(Placement):
    """Each rank has all of the tensor.

    Example:
        >>> from weft.distributed.tensor import Replicate
        >>> Replicate().is_replicate()
        True
    """

    def __str__(self) -> str:
        return "R"


@dataclass(frozen=True)
class Partial(Placement):
    """Each rank has a value of its own; combined, they are the tensor.

    Args:
        reduce_op: how the values are combined: "sum", "avg", "max", "min" or "product".
            Default: 'sum'.

    Example:
        >>> import weft
        >>> import weft.distributed as dist
        >>> from weft.distributed.tensor import DTensor, Partial
        >>> dist.init_process_group()
        >>> mesh = dist.init_device_mesh("cpu", (1,))
        >>> DTensor.from_local(weft.ones(2), mesh, [Partial()]).full_tensor()  # the sum over ranks
        tensor([1., 1.])
        >>> dist.destroy_process_group()
    """

    reduce_op: str = "sum"

    def __str__(self) -> str:
        return f"P({self.reduce_op})"
