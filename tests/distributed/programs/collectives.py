"""Collectives of random tensors, of Weft by mpiexec or of PyTorch with gloo: `collectives.py LIB OUT [RANK SIZE]`.

Each case is drawn from its own seed, the same on all ranks; the values also depend on the rank. What every tensor holds
afterwards is written to OUT/RANK.json.
"""

from __future__ import annotations

import importlib
import json
import random
import sys
import warnings
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

warnings.simplefilter("ignore")
LIBRARY, OUT = sys.argv[1], Path(sys.argv[2])
lib = importlib.import_module(LIBRARY)
dist = importlib.import_module(f"{LIBRARY}.distributed")

INTEGERS = ["int64", "int32", "int16", "int8", "uint8"]
FLOATS = ["float32", "float64", "float16", "bfloat16"]
DTYPES = [*FLOATS, *INTEGERS, "bool"]
COMPLEX = ["complex64", "complex128"]
TAKE_COMPLEX = ["all_reduce", "reduce", "broadcast", "all_gather"]  # with gloo
ARITHMETIC = ["SUM", "PRODUCT", "MIN", "MAX"]
SHAPES = [(), (1,), (4,), (2, 3), (0,), (3, 0), (40, 12), (1200,)]
REDUCTIONS = {
    "bool": ["MAX", "MIN"],
    "complex64": ["SUM"],
    "complex128": ["SUM"],
    **dict.fromkeys(INTEGERS, [*ARITHMETIC, "BAND", "BOR", "BXOR"]),
    **dict.fromkeys(FLOATS, ARITHMETIC),
}


class Case:
    """What a case draws: a dtype, a shape, a group, a root, and values."""

    def __init__(self, name: str, seed: int, groups: dict[str, Any]) -> None:
        self.random = random.Random(seed)
        self.dtype_name = self.random.choice(DTYPES + COMPLEX * (name in TAKE_COMPLEX))
        # gloo has no int16; small values are the same in int32.
        is_absent = LIBRARY == "torch" and self.dtype_name == "int16"
        self.dtype = getattr(lib, "int32" if is_absent else self.dtype_name)
        self.shape = self.random.choice(SHAPES)
        self.reduction = self.random.choice(REDUCTIONS[self.dtype_name])
        self.op = getattr(dist.ReduceOp, self.reduction)
        self.group_name = self.random.choice(sorted(groups))
        self.group = groups[self.group_name]
        self.strided = (
            self.random.random() < 0.3 and LIBRARY == "weft"
        )  # gloo wants contiguous ones
        self.rank, self.world = dist.get_rank(), dist.get_world_size()
        self.size = dist.get_world_size(self.group)
        self.is_member = self.size > 0
        members = dist.get_process_group_ranks(self.group) if self.is_member else [0]
        self.root = self.random.choice(members)
        self.values = random.Random(seed * 1000 + self.rank)

    def tensor(self, shape: tuple[int, ...] | None = None) -> Any:
        """Small values, so that sums are exact in every type; strided in some cases."""
        shape = self.shape if shape is None else shape
        count = 1
        for size in shape:
            count *= size
        low = 0 if self.dtype_name in ("uint8", "bool") else -3
        high = 1 if self.dtype_name == "bool" else 3
        flat = lib.tensor([self.values.randint(low, high) for _ in range(count)], dtype=self.dtype)
        made = flat.reshape(shape)
        if self.strided and len(shape) == 2:
            return made.t().contiguous().t()
        return made

    def empty(self, shape: tuple[int, ...] | None = None) -> Any:
        return lib.zeros(self.shape if shape is None else shape, dtype=self.dtype)

    def tensors(self) -> list[Any]:
        return [self.tensor() for _ in range(self.size)]

    def empties(self) -> list[Any]:
        return [self.empty() for _ in range(self.size)]

    def how(self) -> dict[str, Any]:
        return {"group": self.group}


def all_reduce(c: Case) -> list[Any]:
    x = c.tensor()
    dist.all_reduce(x, c.op, **c.how())
    return [x]


def all_reduce_async(c: Case) -> list[Any]:
    x, y = c.tensor(), c.tensor()
    works = [dist.all_reduce(t, c.op, async_op=True, **c.how()) for t in (x, y)]
    for work in reversed(works):
        work.wait()
    return [x, y]


def reduce(c: Case) -> list[Any]:
    x = c.tensor()
    dist.reduce(x, c.root, c.op, **c.how())
    return [x] if c.rank == c.root else []


def broadcast(c: Case) -> list[Any]:
    x = c.tensor()
    dist.broadcast(x, c.root, **c.how())
    return [x]


def all_gather(c: Case) -> list[Any]:
    found = c.empties()
    dist.all_gather(found, c.tensor(), **c.how())
    return found


def all_gather_into_tensor(c: Case) -> list[Any]:
    shape = (c.shape[0] if c.shape else 1, *c.shape[1:])
    found = c.empty((shape[0] * c.size, *shape[1:]))
    dist.all_gather_into_tensor(found, c.tensor(shape), **c.how())
    return [found]


def gather(c: Case) -> list[Any]:
    found = c.empties() if c.rank == c.root else None
    dist.gather(c.tensor(), found, c.root, **c.how())
    return found or []


def scatter(c: Case) -> list[Any]:
    x, parts = c.empty(), c.tensors()
    dist.scatter(x, parts if c.rank == c.root else None, c.root, **c.how())
    return [x]


def reduce_scatter(c: Case) -> list[Any]:
    x = c.empty()
    dist.reduce_scatter(x, c.tensors(), c.op, **c.how())
    return [x]


def reduce_scatter_tensor(c: Case) -> list[Any]:
    shape = (c.shape[0] if c.shape else 1, *c.shape[1:])
    x = c.empty(shape)
    dist.reduce_scatter_tensor(x, c.tensor((shape[0] * c.size, *shape[1:])), c.op, **c.how())
    return [x]


def all_to_all_single(c: Case) -> list[Any]:
    """Uneven parts: rank i sends (i + j) % 3 rows to rank j."""
    rank = dist.get_rank(c.group)
    sent = [(rank + other) % 3 for other in range(c.size)]
    x, found = c.tensor((sum(sent), 5)), c.empty((sum(sent), 5))
    dist.all_to_all_single(found, x, sent, sent, **c.how())
    return [found]


def messages(c: Case) -> list[Any]:
    """A ring of the group, and one message to its first member from anyone."""
    members = dist.get_process_group_ranks(c.group)
    own, size = members.index(c.rank), c.size
    if size == 1:
        return []
    x, found = c.tensor(), c.empty()
    operations = [
        dist.P2POp(dist.isend, x, members[(own + 1) % size], c.group),
        dist.P2POp(dist.irecv, found, members[(own - 1) % size], c.group),
    ]
    for work in dist.batch_isend_irecv(operations):
        work.wait()
    other = c.empty()
    if own == 1:
        dist.send(x, members[0], c.group, tag=3)
    if own == 0:
        dist.recv(other, members[1], c.group, tag=3)
    return [found, other]


def objects(c: Case) -> list[Any]:
    members = dist.get_process_group_ranks(c.group)
    mine = {"rank": c.rank, "values": [c.values.random() for _ in range(c.rank + 1)]}
    everyone = [None] * c.size
    dist.all_gather_object(everyone, mine, **c.how())
    sent = [mine, "text", None]
    dist.broadcast_object_list(sent, c.root, **c.how())
    mine_of_list: list[Any] = [None]
    parts = [(i, "part") for i in range(c.size)] if c.rank == c.root else None
    dist.scatter_object_list(mine_of_list, parts, c.root, **c.how())
    at_root = [None] * c.size if c.rank == c.root else None
    dist.gather_object(mine, at_root, c.root, **c.how())
    return [everyone, sent, list(mine_of_list[0]), at_root, len(members)]


OPERATIONS: list[Callable[[Case], list[Any]]] = [
    all_reduce, all_reduce_async, reduce, broadcast, all_gather, all_gather_into_tensor, gather, scatter,
    reduce_scatter, reduce_scatter_tensor, all_to_all_single, messages, objects,
]  # fmt: skip
CASES_OF_EACH = 12


def plain(value: Any) -> Any:
    """A tensor as what JSON has."""
    if not isinstance(value, lib.Tensor):
        return value
    listed = value.to(lib.complex128) if value.dtype.is_complex else value.to(lib.float64)
    return [list(value.shape), str(listed.tolist())]


def cases(groups: dict[str, Any]) -> Iterator[tuple[str, Any]]:
    for number, operation in enumerate(OPERATIONS):
        name = operation.__name__
        for seed in range(CASES_OF_EACH):
            case = Case(name, 1000 * number + seed, groups)
            title = f"{name} {seed} {case.dtype_name}{list(case.shape)} {case.reduction} {case.group_name}"
            if case.is_member:
                yield title, [plain(value) for value in operation(case)]


def main() -> None:
    if LIBRARY == "torch":
        rank, size = map(int, sys.argv[3:5])
        dist.init_process_group("gloo", f"file://{OUT}/meeting", rank=rank, world_size=size)
    else:
        dist.init_process_group("mpi")
    rank, size = dist.get_rank(), dist.get_world_size()
    groups = {
        "world": None,
        "last two": dist.new_group([size - 2, size - 1]),
        "first": dist.new_group([0]),
        "even": dist.new_group(list(range(0, size, 2))),
    }
    found = dict(cases(groups))
    (OUT / f"{rank}.json").write_text(json.dumps(found))
    dist.barrier()
    dist.destroy_process_group()


if __name__ == "__main__":
    main()
