"""Messages between stages: some tensors, each behind what it is, so that shapes may differ from one to the next."""

from __future__ import annotations

from collections.abc import Sequence

import weft
from weft.distributed.group import ProcessGroup
from weft.distributed.point_to_point import isend, recv
from weft.distributed.work import Work
from weft.engine.frontend.tensor import Tensor
from weft.errors import NotDefinedError

MOST_NUMBERS = 64  # of a header
DTYPES = (
    weft.float32, weft.float64, weft.float16, weft.bfloat16, weft.int64, weft.int32, weft.int16, weft.int8, weft.uint8,
    weft.bool, weft.complex64, weft.complex128,
)  # fmt: skip
Values = Sequence[Tensor | None]


class Post:
    """The messages of this rank's stages. What two stages of one rank send each other stays here."""

    def __init__(self, group: ProcessGroup) -> None:
        self.group = group
        self._under_way: list[Work] = []
        self._kept: dict[int, list[list[Tensor | None]]] = {}

    def send(self, values: Values, rank: int, tag: int) -> None:
        """Begin to send tensors, or None, to a rank of the group."""
        detached = [None if value is None else value.detach() for value in values]
        flags = [value is not None and value.requires_grad for value in values]
        if rank == self.group.rank():
            kept = [
                v if v is None else v.requires_grad_(f)
                for v, f in zip(detached, flags, strict=True)
            ]
            self._kept.setdefault(tag, []).append(kept)
            return
        header = _header(detached, flags)
        for tensor in (header, *(value for value in detached if value is not None)):
            work = isend(tensor, group=self.group, tag=tag, group_dst=rank)
            if work is not None:
                self._under_way.append(work)
        self._under_way = [work for work in self._under_way if not work.is_completed()]

    def receive(self, rank: int, tag: int) -> list[Tensor | None]:
        """The tensors that a rank has sent, leaves that require a gradient where those that were sent do."""
        if rank == self.group.rank():
            return self._kept[tag].pop(0)
        header = weft.zeros(MOST_NUMBERS, dtype=weft.int64)
        recv(header, group=self.group, tag=tag, group_src=rank)
        numbers = iter(header.tolist())
        found: list[Tensor | None] = []
        for _ in range(next(numbers)):
            kind, requires_grad, ndim = next(numbers), next(numbers), next(numbers)
            shape = [next(numbers) for _ in range(ndim)]
            if kind < 0:
                found.append(None)
                continue
            tensor = weft.empty(shape, dtype=DTYPES[kind])
            recv(tensor, group=self.group, tag=tag, group_src=rank)
            found.append(tensor.requires_grad_(bool(requires_grad)))
        return found

    def finish(self) -> None:
        """Wait until everything has been sent."""
        for work in self._under_way:
            work.wait()
        self._under_way = []


def _header(values: Values, flags: Sequence[bool]) -> Tensor:
    """The numbers that say what is sent. Errors: RuntimeError for more than a header holds."""
    numbers = [len(values)]
    for value, requires_grad in zip(values, flags, strict=True):
        if value is None:
            numbers += [-1, 0, 0]
        else:
            numbers += [DTYPES.index(value.dtype), int(requires_grad), value.ndim, *value.shape]
    if len(numbers) > MOST_NUMBERS:
        raise NotDefinedError(
            "pipeline: too many tensors between two stages",
            expected=f"at most {MOST_NUMBERS - 1} numbers, three and the shape for each tensor",
            got=str(len(numbers) - 1),
            fix="stack them, or cut the model elsewhere",
        )
    return weft.tensor(numbers + [0] * (MOST_NUMBERS - len(numbers)))
