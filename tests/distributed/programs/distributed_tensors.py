"""Distributed tensors in custom functions, under autocast, in files and in errors: `distributed_tensors.py LIB OUT`."""

from __future__ import annotations

import copy
import io
import pickle
from collections.abc import Callable
from typing import Any

import torch
import torch.distributed as dist
from on_ranks import RANK, WORLD, finish, numbers
from torch import nn
from torch.distributed.device_mesh import init_device_mesh
from torch.distributed.tensor import DTensor, Partial, Replicate, Shard, distribute_tensor
from torch.nn import functional as F


def described(x: Any) -> Any:
    """Placements, shape and this rank's values of a distributed tensor; the type and values of a plain one."""
    if isinstance(x, DTensor):
        placements = [str(placement) for placement in x.placements]
        return [placements, list(x.shape), x.requires_grad, x.is_leaf, described(x.to_local())]
    if isinstance(x, torch.Tensor):
        return [str(x.dtype).rpartition(".")[2], list(x.shape), x.detach().double().tolist()]
    return [described(one) for one in x] if isinstance(x, list | tuple) else x


def laid(seed: int, shape: tuple[int, ...], placement: Any, grad: bool = True) -> Any:
    return distribute_tensor(numbers(seed, *shape), MESH, [placement]).requires_grad_(grad)


# -- custom functions ------------------------------------------------------------------------------------------------


class Product(torch.autograd.Function):
    """A product that notes what it is given."""

    seen: list[Any] = []

    @staticmethod
    def forward(ctx: Any, x: Any, w: Any, factor: float) -> Any:
        Product.seen.append([isinstance(x, DTensor), isinstance(w, DTensor), list(x.shape)])
        ctx.save_for_backward(x, w)
        ctx.factor = factor
        return x @ w * factor

    @staticmethod
    def backward(ctx: Any, gradient: Any) -> Any:
        x, w = ctx.saved_tensors
        Product.seen.append([isinstance(one, DTensor) for one in (x, w, gradient)])
        return gradient @ w.t() * ctx.factor, x.t() @ gradient * ctx.factor, None


class Local(torch.autograd.Function):
    """A function of a distributed tensor whose result is this rank's part."""

    @staticmethod
    def forward(ctx: Any, x: Any) -> Any:
        ctx.lies = x.device_mesh, x.placements
        return x.to_local() * 2

    @staticmethod
    def backward(ctx: Any, gradient: Any) -> Any:
        assert not isinstance(gradient, DTensor)
        return DTensor.from_local(gradient * 2, *ctx.lies)


def functions() -> dict[str, Any]:
    """Results, gradients, and what forward and backward were given."""
    found: dict[str, Any] = {}
    for way in (Shard(0), Replicate()):
        x, w = laid(0, (8, 3), way), laid(1, (3, 2), Replicate())
        Product.seen.clear()
        y = Product.apply(x, w, 2.0)
        y.sum().backward()
        grads = [one.grad.full_tensor() for one in (x, w)]
        found[f"product {way}"] = [described(y), described(grads), list(Product.seen)]
    x = laid(2, (4, 3), Shard(0))
    y = Local.apply(x)
    y.sum().backward()
    found["local"] = [described(y), described(x.grad)]
    return found


# -- operations ------------------------------------------------------------------------------------------------------


def operations() -> dict[str, Any]:
    """Under autocast; parts of which some ranks have none; heads that are shared out, with masks."""
    x, w = laid(0, (4, 4), Shard(0), False), laid(1, (4, 4), Replicate(), False)
    with torch.autocast("cpu", dtype=torch.bfloat16):
        cast = x @ w
    found: dict[str, Any] = {"autocast": described(cast)}
    y = laid(2, (4, WORLD - 1), Shard(0), False)
    y.add_(laid(3, (4, WORLD - 1), Shard(1), False))
    found["a rank without columns"] = described(y)
    found["like"] = described([x.new_zeros((4, 4)), x.new_ones(3), x.new_full((2, 2), 5.0)])
    made = x.new_empty_strided((4, 4), (4, 1), requires_grad=True)
    made.sum().backward()
    found["with a gradient"] = described(made.grad.full_tensor())
    found["no dimension"] = described(laid(4, (1, 4), Replicate(), False).squeeze(()))
    partial = distribute_tensor(numbers(5, 2, 2), MESH, [Partial()])
    found["partial"] = [described(partial), described(partial.full_tensor())]
    return found


def moves() -> dict[str, Any]:
    """Values that change on the way from one layout over two dimensions to another: none."""
    mesh = init_device_mesh("cpu", (2, WORLD // 2))
    ways = (Shard(0), Shard(1), Replicate(), Partial())
    layouts = [[first, second] for first in ways for second in ways]
    whole_value, changed = numbers(0, 5, 3), []
    for before in layouts if IS_OURS else []:  # PyTorch refuses some, and errs in others
        x = distribute_tensor(whole_value, mesh, before)
        for after in layouts:
            moved = x.redistribute(mesh, after)
            close = torch.allclose(moved.full_tensor(), whole_value, atol=1e-6)
            if not close or list(moved.placements) != after:
                changed.append(f"{before} {after}")
    return {"changed": changed}


def attention() -> list[Any]:
    """Whole results and gradients of attention whose batches or heads are shared out, and of masks."""
    found = []
    for way in (Shard(0), Shard(1), Shard(2)):
        for batch, options in ((4, {}), (1, {}), (4, {"is_causal": True})):
            q, k, v = (numbers(seed, 4, 4, 3, 8) for seed in range(3))
            mask = None if options else numbers(3, batch, 1, 3, 3)
            if IS_OURS:  # PyTorch has no rule for the CPU: there, of plain tensors
                q, k, v = (distribute_tensor(one, MESH, [way]) for one in (q, k, v))
                mask = None if mask is None else distribute_tensor(mask, MESH, [Replicate()])
            q.requires_grad_()
            y = F.scaled_dot_product_attention(q, k, v, attn_mask=mask, **options)
            y.square().sum().backward()
            found.append([whole(y).flatten().tolist(), whole(q.grad).flatten().tolist()])
    return found


def whole(x: Any) -> Any:
    return (x.full_tensor() if isinstance(x, DTensor) else x).detach()


# -- files and errors ------------------------------------------------------------------------------------------------


def read_again() -> dict[str, Any]:
    """What comes back of a mesh and of a tensor, from pickle, from a file and from deepcopy."""
    mesh = init_device_mesh("cpu", (2, WORLD // 2), mesh_dim_names=("dp", "tp"))
    x = nn.Parameter(laid(0, (4, 3), Shard(0), False))
    file = io.BytesIO()
    torch.save({"mesh": mesh, "x": x}, file)
    file.seek(0)
    loaded = torch.load(file, weights_only=False)
    meshes = [pickle.loads(pickle.dumps(mesh)), copy.deepcopy(mesh), loaded["mesh"]]
    tensors = [pickle.loads(pickle.dumps(x)), copy.deepcopy(x), loaded["x"]]
    return {
        "meshes": [[one == mesh, list(one.shape), list(one.mesh_dim_names)] for one in meshes],
        "sums": [one.get_local_rank("tp") for one in meshes],
        "tensors": [[described(one), isinstance(one, nn.Parameter)] for one in tensors],
    }


REFUSED: dict[str, Callable[[], object]] = {
    "a shape without strides": lambda: DTensor.from_local(
        torch.ones(2), MESH, [Shard(0)], shape=torch.Size([2 * WORLD])
    ),
    "parts of several types": lambda: DTensor.from_local(
        torch.ones(2, dtype=torch.float64 if RANK == 0 else torch.float32),
        MESH,
        [Shard(0)],
        run_check=True,
    ),
    "a tensor with a history": lambda: distribute_tensor(
        numbers(0, 4).requires_grad_() * 2, MESH, [Shard(0)]
    ),
    "other placements": lambda: distribute_tensor(laid(0, (4, 4), Shard(0)), MESH, [Shard(1)]),
    "two placements": lambda: distribute_tensor(numbers(0, 4, 4), MESH, [Shard(0), Shard(1)]),
}


def refused() -> dict[str, Any]:
    """The kinds of errors, of those that both libraries may raise."""
    found: dict[str, Any] = {}
    for name, function in REFUSED.items():
        try:
            function()
        except (RuntimeError, ValueError) as error:
            kinds = (RuntimeError, ValueError)
            found[name] = [kind.__name__ for kind in kinds if isinstance(error, kind)]
    return found


def groups() -> list[Any]:
    """Subgroups of a group that has not all ranks."""
    halves = [list(range(first, WORLD, 2)) for first in range(2)]
    own, _ = dist.new_subgroups_by_enumeration(halves)
    mine, made = dist.new_subgroups(group_size=1, group=own)
    x = torch.ones(2)
    dist.all_reduce(x, group=own)
    outside = [dist.distributed_c10d._rank_not_in_group(group) for group in (mine, *made)]
    return [outside, len(made), mine.size(), dist.get_process_group_ranks(mine), x.tolist()]


if __name__ == "__main__":
    IS_OURS = hasattr(torch, "realize")
    dist.init_process_group("gloo")
    MESH = init_device_mesh("cpu", (WORLD,))
    parts = (functions, operations, moves, attention, read_again, refused, groups)
    finish({part.__name__: part() for part in parts})
