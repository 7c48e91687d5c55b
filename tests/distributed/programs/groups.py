"""What ranks say of groups, meshes, disagreements and messages that do not fit: `groups.py weft OUT`, on four ranks."""

from __future__ import annotations

import json
import sys
import warnings
from collections.abc import Callable
from datetime import timedelta
from pathlib import Path
from typing import Any

import numpy as np

import weft
import weft.distributed as dist
from weft.distributed import _functional_collectives as collectives
from weft.distributed.nn import functional

OUT = Path(sys.argv[2])


def message_of(function: Callable[[], object]) -> str:
    """The message of the error that a function raises."""
    try:
        function()
    except (RuntimeError, ValueError) as error:
        return str(error)
    return "no error"


def ranks_and_groups() -> dict[str, Any]:
    rank = dist.get_rank()
    reversed_group = dist.new_group([3, 1], sort_ranks=False)
    own, halves = dist.new_subgroups(2)
    local = dist.new_group([0, 2], use_local_synchronization=True) if rank % 2 == 0 else None
    total = weft.ones(1)
    if local is not None:
        dist.all_reduce(total, group=local)
    with warnings.catch_warnings(record=True) as caught:
        warnings.simplefilter("always")
        dist.all_reduce(weft.ones(1), group=halves[0])
    return {
        "reversed": [dist.get_rank(reversed_group), dist.get_world_size(reversed_group)],
        "own half": dist.get_process_group_ranks(own),
        "in half": dist.get_group_rank(own, rank),
        "first of half": dist.get_global_rank(own, 0),
        "local": total.tolist(),
        "warned": [str(warning.message).partition(" at ")[0] for warning in caught],
        "environment": dist.get_node_local_rank(),
    }


def meshes() -> dict[str, Any]:
    mesh = dist.init_device_mesh("cpu", (2, 2), mesh_dim_names=("dp", "tp"))
    x = weft.tensor([float(dist.get_rank())])
    dist.all_reduce(x, group=mesh["tp"].get_group())
    line = dist.DeviceMesh("cpu", [3, 2, 1, 0])
    return {
        "at": mesh.get_coordinate(),
        "dp": list(mesh["dp"].get_group().ranks),
        "sum over tp": x.tolist(),
        "same": mesh["dp", "tp"] == mesh,
        "swapped": mesh["tp", "dp"].mesh.tolist(),
        "backwards": line.get_local_rank(),
    }


def disagreements() -> dict[str, Any]:
    rank = dist.get_rank()
    shape = message_of(lambda: dist.all_reduce(weft.ones(2 + (rank == 2))))
    operation = message_of(
        lambda: dist.all_reduce(weft.ones(2)) if rank else dist.broadcast(weft.ones(2), 0)
    )
    parts = [1, 1, 1, 1] if rank != 3 else [2, 1, 1, 0]
    uneven = message_of(
        lambda: dist.all_to_all_single(weft.ones(4), weft.ones(4), [1, 1, 1, 1], parts)
    )
    large = message_of(lambda: dist.all_gather_into_tensor(weft.ones(4 << 16), weft.ones(1 << 16)))
    dist.barrier()
    return {"shape": shape, "operation": operation, "uneven": uneven, "large": large}


def data_beside_agreements() -> dict[str, Any]:
    """Data of more bytes than a record of the agreement has room for, and few enough to go beside it."""
    rank, count = dist.get_rank(), 20_000
    found = {
        "shape": message_of(lambda: dist.all_reduce(weft.ones(count + (rank == 2)))),
        "operation": message_of(
            lambda: dist.all_reduce(weft.ones(count)) if rank else dist.broadcast(weft.ones(900), 0)
        ),
    }
    own = np.full(count, rank + 1.0, np.float32)
    shared = weft.from_numpy(own)
    parts = weft.zeros(4, count)
    sums = []
    for turn in range(20):  # what a rank writes next is not what the others get
        dist.all_gather_into_tensor(parts, shared)
        own += 1
        dist.broadcast(shared if rank == 1 else weft.zeros(count), 1)
        sums.append([float(parts[n].sum()) / count - turn for n in range(4)])
    total = weft.ones(count)
    dist.all_reduce(total)
    return found | {"sums": sums, "total": [float(total.min()), float(total.max())]}


def messages() -> dict[str, Any]:
    rank = dist.get_rank()
    found = ""
    if rank == 0:
        dist.send(weft.ones(3), 1)
        dist.send(weft.ones(4), 1, tag=7)
        dist.send_object_list([1, {"a": weft.ones(2)}], 1)
        dist.send(weft.arange(1000.0), 2)
    if rank == 1:
        found = message_of(lambda: dist.recv(weft.ones(2), 0))
        dist.recv(weft.ones(4), 0, tag=7)
        objects = [None, None]
        dist.recv_object_list(objects, 0)
        found += f" then {objects[1]['a'].tolist()}"
    if rank == 2:
        x = weft.zeros(10, 100).t()
        source = dist.recv(x)
        found = f"{source} {x.flatten()[:3].tolist()}"
    return {"received": found}


def derivatives() -> dict[str, Any]:
    """Gradients of a sum that weights what each rank gets by its rank + 1."""
    rank, size = dist.get_rank(), dist.get_world_size()
    weight = rank + 1.0
    mine = {
        "all_reduce": lambda x: functional.all_reduce(x),
        "all_gather": lambda x: sum(
            part * (i + 1) for i, part in enumerate(functional.all_gather(x))
        ),
        "broadcast": lambda x: functional.broadcast(x, 1),
        "reduce": lambda x: functional.reduce(x, 1),
        "gather": lambda x: sum(functional.gather(x, 2)),
        "scatter": lambda x: functional.scatter([x * (i + 1) for i in range(size)], 3),
        "reduce_scatter": lambda x: functional.reduce_scatter(
            x, [x * (i + 1) for i in range(size)]
        ),
        "all_to_all_single": lambda x: functional.all_to_all_single(
            weft.empty(size), x.expand(size)
        ),
    }
    found = {}
    for name, function in mine.items():
        x = weft.tensor([2.0], requires_grad=True)
        (function(x).sum() * weight).backward()
        found[name] = x.grad.tolist()
    return found


def asynchronous() -> dict[str, Any]:
    xs = [weft.full((n,), float(dist.get_rank())) for n in (1, 1000, 50_000)]
    works = [dist.all_reduce(x, async_op=True) for x in xs]
    futures = [work.get_future().then(lambda f: f.value()[0].numel()) for work in works]
    sizes = [future.wait() for future in futures]
    many = [weft.full((n,), 1.0) for n in (2, 3)]
    dist.all_reduce_coalesced(many)
    return {
        "sizes": sizes,
        "sums": [float(x[-1]) for x in xs],
        "done": [work.is_success() for work in works],
        "coalesced": [x.tolist() for x in many],
    }


def nodes() -> dict[str, Any]:
    """Collectives as nodes: results, what goes together, what the ranks disagree on."""
    rank, size = dist.get_rank(), dist.get_world_size()
    x = weft.arange(8.0).reshape(4, 2) + 10 * rank
    found: dict[str, Any] = {
        "gathered": collectives.all_gather_tensor(x[:1], 1).tolist(),
        "scattered": collectives.reduce_scatter_tensor(x, "sum", 0).tolist(),
        "scattered columns": collectives.reduce_scatter_tensor(x.T, "max", 1).tolist(),
        "exchanged": collectives.all_to_all_single(x, None, None).tolist(),
        "broadcast": collectives.broadcast(x[0], 2).tolist(),
        "permuted": collectives.permute_tensor(x[:2], [1, 2, 3, 0]).tolist(),
    }
    parts = []
    for step in range(6):  # a rank reads here, another there: what goes together differs
        parts.append(
            collectives.all_reduce(weft.full((300 * (step + 1),), rank + 1.0 + step), "sum")
        )
        if step % (rank + 2) == 0:
            parts[-1].sum().item()
    found["sums"] = [float(part[-1]) for part in parts]
    with weft.explain() as report:
        weft.realize(*[collectives.all_reduce(weft.full((n,), 1.0).exp(), "avg") for n in (2, 3)])
    found["explained"] = str(report)
    collectives.all_reduce(weft.ones(1), "sum")  # that nobody reads is done all the same
    dist.barrier()
    same = collectives.all_reduce(weft.ones(2) * 4, "max")
    other = collectives.all_reduce(weft.ones(3 + (rank == 1)), "sum")
    beside = collectives.all_reduce(weft.ones(5) * size, "avg") * 2
    doubled = other * 2
    found["other"] = message_of(lambda: doubled.tolist())
    found["same"] = [same.tolist(), beside.tolist()]
    return found


def loops() -> dict[str, Any]:
    """One example at a time, with two collectives for each, the second of what the first gives: batches of examples
    would need the first ones of all before the second one of any."""
    weights = weft.linspace(-1, 1, 64, requires_grad=True)

    def outputs() -> tuple[list[float], list[float]]:
        sums = []
        for example in range(16):
            x = weft.arange(8.0) * (dist.get_rank() + 1) + example
            hidden = (collectives.all_reduce(x, "avg") @ weights.reshape(8, 8)).tanh()
            sums.append(collectives.all_reduce(hidden * 2, "sum").sum())
        (gradient,) = weft.autograd.grad(weft.stack(sums).sum(), weights)
        return [float(each) for each in sums], gradient.tolist()

    recorded = outputs()
    with weft.eager():
        at_once = outputs()
    return {"recorded": recorded, "at once": at_once}


def profiles() -> dict[str, Any]:
    """What a profile says of calls: PyTorch's names, shapes, and that they are under way."""
    rank, size = dist.get_rank(), dist.get_world_size()
    with weft.profiler.profile(record_shapes=True) as recorded:
        dist.all_reduce(weft.ones(2, 3, dtype=weft.complex64))
        work = dist.all_reduce(weft.ones(4), async_op=True)
        (weft.ones(50, 50) @ weft.ones(50, 50)).sum().item()
        work.wait()
        dist.isend(weft.ones(5), (rank + 1) % size)
        dist.recv(weft.empty(5), (rank - 1) % size)
        dist.isend(weft.ones(6), (rank + 1) % size)
        dist.recv(weft.empty(6))
    events = [event for event in recorded.events() if event.is_async]
    recorded.export_chrome_trace(str(OUT / f"calls{rank}.json"))
    written = json.loads((OUT / f"calls{rank}.json").read_text())["traceEvents"]
    return {
        "events": sorted([event.name, event.input_shapes] for event in events),
        "alone": [event.self_cpu_time_total for event in events],
        "nested": [event.name for event in events if event.cpu_parent or event.cpu_children],
        "tracks": sorted(e["ph"] + " " + e["name"] for e in written if e.get("cat") == "transfer"),
    }


def sparse_sums() -> dict[str, Any]:
    """Sums of sparse tensors, of which ranks have more and fewer entries, one none."""
    rank = dist.get_rank()
    places = [[0, 2, 2][:rank], [1, 0, 0][:rank]]
    found = {}
    for dtype in (weft.float32, weft.bfloat16, weft.int64):
        values = weft.ones(rank, 2, dtype=dtype) * (rank + 1)
        x = weft.sparse_coo_tensor(places, values, (3, 2, 2)) if rank else None
        x = weft.zeros(3, 2, 2, dtype=dtype).to_sparse(2) if x is None else x
        dist.all_reduce(x)
        found[dtype.name] = x.to_dense().tolist()
    work = dist.all_reduce(x, async_op=True)
    work.wait()
    found["again"] = x.to_dense().tolist()
    found["largest"] = message_of(lambda: dist.all_reduce(x, dist.ReduceOp.MAX))
    found["list"] = message_of(lambda: dist.batch_isend_irecv([1]))
    return found


def main() -> None:
    dist.init_process_group("mpi", timeout=timedelta(seconds=20))
    parts = (ranks_and_groups, meshes, disagreements, messages, derivatives, asynchronous)
    more = (data_beside_agreements, nodes, loops, profiles, sparse_sums)
    found = {part.__name__: part() for part in (*parts, *more)}
    (OUT / f"{dist.get_rank()}.json").write_text(json.dumps(found))
    dist.destroy_process_group()


if __name__ == "__main__":
    main()
