"""visualize_sharding: a table of which ranks have which rows and columns of a distributed tensor."""

from __future__ import annotations

from itertools import product

from weft.distributed.sharding.dtensor import DTensor
from weft.errors import DeviceError

Range = tuple[int, int]  # the first index and the count


def visualize_sharding(dtensor: DTensor, header: str = "", use_rich: bool = False) -> None:
    """Print which ranks have which part of a tensor, on the first rank of its mesh.

    Args:
        dtensor: a tensor of one or two dimensions.
        header: a line before the table. Default: none.
        use_rich: accepted: the table is plain text.

    Raises:
        RuntimeError for a tensor of other dimensions.

    Example:
        >>> import weft
        >>> import weft.distributed as dist
        >>> from weft.distributed.tensor import Shard, distribute_tensor
        >>> from weft.distributed.tensor.debug import visualize_sharding
        >>> dist.init_process_group()
        >>> x = distribute_tensor(weft.ones(4, 3), dist.init_device_mesh("cpu", (1,)), [Shard(0)])
        >>> visualize_sharding(x)
                 Col 0-2
        Row 0-3  cpu:0
        >>> dist.destroy_process_group()
    """
    if dtensor.ndim not in (1, 2):
        raise DeviceError(
            "`visualize_sharding` is only implemented for 1D or 2D dtensor",
            expected="a tensor of one or two dimensions",
            got=f"shape {list(dtensor.shape)}",
            fix="reshape it, or print its placements",
        )
    coordinate = dtensor.device_mesh.get_coordinate()
    if coordinate is None or any(coordinate):
        return
    if header:
        print(header)
    print("\n".join(_lines(_owners(dtensor))))


def _owners(dtensor: DTensor) -> dict[tuple[Range, Range], list[str]]:
    """The devices that have each part, by its rows and columns; the only row of a tensor of one dimension is its
    first. Parts without an element are left out."""
    spread, found = dtensor.spread, dict[tuple[Range, Range], list[str]]()
    for coordinate in product(*map(range, spread.mesh.shape)):
        *rows, columns = spread.bounds(coordinate)
        part = (rows[0] if rows else (0, 1), columns)
        if part[0][1] and part[1][1]:
            rank = int(spread.mesh.mesh[coordinate])
            found.setdefault(part, []).append(f"{spread.mesh.device_type}:{rank}")
    return found


def _lines(owners: dict[tuple[Range, Range], list[str]]) -> list[str]:
    """The lines of the table, in columns of equal width."""
    rows, columns = (sorted({part[axis] for part in owners}) for axis in (0, 1))
    cells = [["", *(_named("Col", column) for column in columns)]]
    for row in rows:
        held = [", ".join(owners.get((row, column), [])) for column in columns]
        cells.append([_named("Row", row), *held])
    widths = [max(map(len, column)) for column in zip(*cells, strict=True)]
    return [
        "  ".join(cell.ljust(width) for cell, width in zip(line, widths, strict=True)).rstrip()
        for line in cells
    ]


def _named(axis: str, numbers: Range) -> str:
    """`Row 0-3`, of a first index and a count."""
    first, count = numbers
    return f"{axis} {first}-{first + count - 1}"
