"""Views, rearrangements and joins against PyTorch: values, strides, gradients, aliasing, errors."""

from __future__ import annotations

from typing import Any

import pytest

import weft
from functional_oracle import compare, make
from oracle import torch

LAYOUTS: dict[str, Any] = {
    "row-major": lambda x: x,
    "permuted": lambda x: x.permute(2, 0, 1),
    "sliced": lambda x: x[:, 1:3, ::2],
    "expanded": lambda x: x[:, :1].expand(3, 4, 5),
    "empty": lambda x: x[:, 0:0],
}
VIEWS: dict[str, Any] = {
    "view all": lambda x: x.view(-1),
    "view two": lambda x: x.view(x.shape[0], -1),
    "view join": lambda x: x.view(x.shape[0] * x.shape[1], x.shape[2]),
    "view ones": lambda x: x.view(x.shape[0], 1, x.shape[1], x.shape[2]),
    "view bad": lambda x: x.view(7, -1),
    "view two -1": lambda x: x.view(-1, -1),
    "reshape": lambda x: x.reshape(-1),
    "reshape two": lambda x: x.reshape(x.shape[0] * x.shape[1], x.shape[2]),
    "reshape_as": lambda x: x.reshape_as(x),
    "flatten": lambda x: x.flatten(),
    "flatten last": lambda x: x.flatten(1),
    "flatten bad": lambda x: x.flatten(2, 1),
    "unsqueeze": lambda x: x.unsqueeze(1),
    "unsqueeze last": lambda x: x.unsqueeze(-1),
    "unsqueeze bad": lambda x: x.unsqueeze(7),
    "squeeze": lambda x: x.unsqueeze(1).squeeze(),
    "squeeze one": lambda x: x.unsqueeze(1).squeeze(1),
    "squeeze none": lambda x: x.squeeze(1),
    "squeeze several": lambda x: x.unsqueeze(0).squeeze((0, 1)),
    "transpose": lambda x: x.transpose(0, 2),
    "transpose negative": lambda x: x.transpose(-1, -2),
    "t": lambda x: x[0].t(),
    "t of three": lambda x: x.t(),
    "T": lambda x: x[1].T,
    "mT": lambda x: x.mT,
    "permute": lambda x: x.permute(1, 0, 2),
    "permute tuple": lambda x: x.permute((2, -2, 0)),
    "permute short": lambda x: x.permute(0, 1),
    "permute twice": lambda x: x.permute(0, 0, 1),
    "movedim": lambda x: x.movedim(0, 2),
    "movedim two": lambda x: x.movedim((0, 1), (2, 0)),
    "swapaxes": lambda x: x.swapaxes(0, 1),
    "expand": lambda x: x[:, :1].expand(-1, 6, -1),
    "expand lead": lambda x: x.expand(2, *x.shape),
    "expand bad": lambda x: x.expand(9, 9, 9),
    "expand few": lambda x: x.expand(3, 4),
    "expand_as": lambda x: x[:1].expand_as(x),
    "broadcast_to": lambda x: x[:1].broadcast_to(x.shape),
    "split": lambda x: x.split(2),
    "split list": lambda x: x.split([1, 1, x.shape[0] - 2]),
    "split last": lambda x: x.split(2, dim=-1),
    "split bad": lambda x: x.split([1, 1]),
    "chunk": lambda x: x.chunk(2, 1),
    "chunk many": lambda x: x.chunk(5, 2),
    "unbind": lambda x: x.unbind(1),
    "tensor_split": lambda x: x.tensor_split(2, 2),
    "tensor_split at": lambda x: x.tensor_split((1, 2), 0),
    "narrow": lambda x: x.narrow(0, 1, 2),
    "narrow negative": lambda x: x.narrow(2, -2, 1),
    "narrow bad": lambda x: x.narrow(0, 1, 9),
    "select": lambda x: x.select(0, -1),
    "select bad": lambda x: x.select(0, 9),
    "diagonal": lambda x: x.diagonal(),
    "diagonal moved": lambda x: x.diagonal(1, -1, 0),
    "diagonal below": lambda x: x.diagonal(-1, 1, 2),
    "diagonal none": lambda x: x.diagonal(9),
    "unfold": lambda x: x.unfold(0, 2, 1),
    "unfold step": lambda x: x.unfold(2, 2, 2),
    "unfold bad": lambda x: x.unfold(0, 20, 2),
    "view_as": lambda x: x.view_as(x),
    "ravel": lambda x: x.ravel(),
    "contiguous": lambda x: x.contiguous(),
}
COPIES: dict[str, Any] = {
    "repeat": lambda x: x.repeat(2, 1, 3),
    "repeat lead": lambda x: x.repeat(2, 2, 1, 1),
    "repeat few": lambda x: x.repeat(2),
    "tile": lambda x: x.tile(2),
    "tile lead": lambda x: x.tile((2, 1, 2, 2)),
    "flip": lambda x: x.flip(0),
    "flip two": lambda x: x.flip((0, 2)),
    "fliplr": lambda x: x.fliplr(),
    "roll": lambda x: x.roll(1),
    "roll two": lambda x: x.roll((1, -2), (0, 2)),
    "tril": lambda x: x.tril(),
    "triu": lambda x: x.triu(1),
    "tril below": lambda x: x.tril(-1),
    "diag of matrix": lambda x: x[0].diag(),
    "diag_embed": lambda x: x.diag_embed(),
    "diag_embed moved": lambda x: x.diag_embed(1, 0, 2),
    "rot90": lambda x: x.rot90(),
    "rot90 back": lambda x: x.rot90(3, (1, 2)),
    "clone": lambda x: x.clone(),
    "elementwise": lambda x: (x * 2 + x).abs(),
}


@pytest.mark.parametrize("layout", LAYOUTS)
@pytest.mark.parametrize("name", {**VIEWS, **COPIES})
def test_shapes_and_strides(name: str, layout: str) -> None:
    function = {**VIEWS, **COPIES}[name]
    compare(lambda lib, x: function(LAYOUTS[layout](x)), make(3, 4, 5))


@pytest.mark.parametrize("layout", [name for name in LAYOUTS if name not in ("empty", "expanded")])
@pytest.mark.parametrize("name", VIEWS)
def test_views_alias_exactly_where_pytorch_does(name: str, layout: str) -> None:
    """Adding to the view changes the base where PyTorch's view does, and the gradient goes the same ways."""

    def change(lib: Any, x: Any) -> Any:
        base = x * 1
        part = VIEWS[name](LAYOUTS[layout](base))
        if isinstance(part, tuple):
            part = part[0].detach()
        part.add_(1)
        return base, base * part.sum().detach()

    if (
        "expand" not in name
        and "broadcast" not in name
        and name not in ("unfold", "reshape", "reshape two")
    ):
        compare(change, make(3, 4, 5, dtype="float64"))


CASES: dict[str, Any] = {
    "numbers": lambda lib, x: [
        x.sum().view(1),
        x.sum().reshape(-1),
        x.sum().unsqueeze(0),
        x.sum().squeeze(),
        x.sum().expand(3),
        x.sum().t(),
        x.sum().flatten(),
        x.sum().repeat(2),
        x.sum().flip(0),
        x.sum().squeeze(0),
        x.sum().transpose(0, 0),
    ],
    "atleast": lambda lib, x: [
        f(y) for f in (lib.atleast_1d, lib.atleast_2d, lib.atleast_3d) for y in (x.sum(), x[0], x)
    ],
    "view of transposed": lambda lib, x: x.t().view(12),
    "view of columns": lambda lib, x: x[:, :2].view(3, 2, 1),
    "as_strided": lambda lib, x: x.as_strided((2, 3), (5, 2), 1),
    "as_strided transposed": lambda lib, x: x.t().as_strided((2, 3), (4, 1), 1),
    "as_strided part": lambda lib, x: x[1:].as_strided((2, 2), (1, 2)),
    "as_strided overlap": lambda lib, x: (x * 1).t().as_strided((3, 3), (1, 1), 1),
    "as_strided outside": lambda lib, x: x.as_strided((200, 3), (5, 2), 1),
    "as_strided uneven": lambda lib, x: x.as_strided((2, 3), (5,)),
    "diag": lambda lib, x: [x[0].diag(-1), x.diag(1), lib.diagflat(x, 1), x.trace()],
    "unflatten": lambda lib, x: x.unflatten(1, (2, -1)),
    "unflatten bad": lambda lib, x: x.unflatten(1, (3, 2)),
    "strides": lambda lib, x: [
        x.t().is_contiguous(),
        x.t().stride(),
        x[1:].storage_offset(),
        x.stride(-1),
        x[:, 1:].is_contiguous(),
        x.t().t().is_contiguous(),
    ],
    "triangles in place": lambda lib, x: [(x * 1).tril_(), (x * 1).triu_(1)],
    "fill_diagonal_": lambda lib, x: (x * 1).fill_diagonal_(5),
    "contiguous is self": lambda lib, x: [x.contiguous() is x, x.t().contiguous() is x],
    "functions": lambda lib, x: [
        lib.reshape(x, (4, 3)),
        lib.permute(x, (1, 0)),
        lib.flip(x, (0,)),
        lib.squeeze(x),
        lib.narrow(x, 0, 0, 1),
        lib.select(x, 0, 1),
    ],
    "meshgrid": lambda lib, x: [
        *lib.meshgrid(x[0], x[:, 0], indexing="ij"),
        *lib.meshgrid([x[0], x[:, 0]], indexing="xy"),
    ],
    "broadcast_tensors": lambda lib, x: lib.broadcast_tensors(x[:1], x[:, :1]),
    "block_diag": lambda lib, x: lib.block_diag(x, x[0]),
    "cartesian_prod": lambda lib, x: lib.cartesian_prod(x[0], x[1]),
}


@pytest.mark.parametrize("name", CASES)
def test_cases(name: str) -> None:
    compare(CASES[name], make(3, 4, dtype="float64"))


JOINS: dict[str, tuple[Any, tuple[Any, ...]]] = {
    "cat": (lambda lib, x, y: lib.cat([x, y], 1), (make(3, 4), make(3, 2))),
    "cat promotes": (lambda lib, x, y: lib.cat((x, y), 1), (make(3, 4), make(3, 2, dtype="int64"))),
    "cat half": (
        lambda lib, x, y: lib.cat((x, y)),
        (make(3, 4, dtype="float16"), make(3, 4, dtype="float64")),
    ),
    "cat sizes": (lambda lib, x, y: lib.cat([x, y]), (make(3, 4), make(3, 2))),
    "cat nothing": (lambda lib, x, y: lib.cat([]), (make(3, 4), make(3, 2))),
    "cat dim": (lambda lib, x, y: lib.cat([x, y], 2), (make(3, 4), make(3, 4))),
    "cat empty": (lambda lib, x, y: lib.cat([x, y]), (make(3, 4), make(0))),
    "cat last": (lambda lib, x, y: lib.cat([x, y], dim=-1), (make(3, 4), make(3, 4))),
    "cat number": (lambda lib, x, y: lib.cat([x, y]), (make(), make(1))),
    "cat transposed": (lambda lib, x, y: lib.cat([x.t(), y.t()]), (make(3, 4), make(3, 2))),
    "cat one": (lambda lib, x, y: lib.cat([x]), (make(3, 4), make(1))),
    "cat a tensor": (lambda lib, x, y: lib.cat(x), (make(3, 4), make(1))),
    "stack": (lambda lib, x, y: lib.stack([x, y], 1), (make(3, 4), make(3, 4))),
    "stack last": (lambda lib, x, y: lib.stack([x, y], -1), (make(3, 4), make(3, 4))),
    "stack sizes": (lambda lib, x, y: lib.stack([x, y]), (make(3, 4), make(3, 5))),
    "stack numbers": (lambda lib, x, y: lib.stack([x, y]), (make(), make(seed=2))),
}


@pytest.mark.parametrize("name", JOINS)
def test_joins(name: str) -> None:
    function, arrays = JOINS[name]
    compare(function, *arrays)


@pytest.mark.parametrize("shape", ((3,), (3, 4), (), (2, 3, 4)))
@pytest.mark.parametrize("name", ("hstack", "vstack", "dstack", "column_stack"))
def test_stacks(name: str, shape: tuple[int, ...]) -> None:
    compare(lambda lib, x, y: getattr(lib, name)([x, y]), make(*shape), make(*shape, seed=2))


@pytest.mark.parametrize(
    ("call", "text", "fix"),
    (
        (
            lambda x: x.t().view(6),
            "view size is not compatible with input tensor's size and stride",
            r"reshape\(\.\.\.\)",
        ),
        (lambda x: x.view(5), r"shape '\[5\]' is invalid for input of size 6", "-1"),
        (
            lambda x: x.expand(4, 3),
            r"The expanded size of the tensor \(4\) must match the existing size \(2\)",
            "unsqueeze",
        ),
        (
            lambda x: weft.cat([x, x[:, :1]]),
            "Sizes of tensors must match except in dimension 0",
            "pad or narrow",
        ),
        (
            lambda x: weft.stack([x, x[0]]),
            "stack expects each tensor to be equal size",
            "pad the tensors",
        ),
        (
            lambda x: x.expand(4, 2, 3).add_(1),
            "more than one element of the written-to tensor refers to a single",
            "clone",
        ),
        (
            lambda x: x.unbind()[0].add_(1),
            "is a view and is being modified inplace",
            "index the base",
        ),
    ),
)
def test_messages(call: Any, text: str, fix: str) -> None:
    with pytest.raises(RuntimeError, match=text) as caught:
        call(weft.ones(2, 3, requires_grad=True) * 1)
    caught.match(rf"fix +.*{fix}")


EDGES = {
    "negative size": (
        lambda t: t.as_strided(t.ones(4), (2, -2), (1, 1)),
        "Storage size calculation",
    ),
    "negative size in place": (
        lambda t: t.ones(4).as_strided_((2, -2), (1, 1)),
        "multiplication overflow|Storage size calculation",
    ),
    "a complex number of a number": (
        lambda t: t.view_as_complex(t.tensor(2.0)),
        "Input tensor must have one or more dimensions",
    ),
}


@pytest.mark.parametrize("case", EDGES)
@pytest.mark.parametrize("lib", [weft, torch], ids=["weft", "torch"])
def test_edges_are_refused(lib: Any, case: str) -> None:
    call, text = EDGES[case]
    with pytest.raises(RuntimeError, match=text):
        str(call(lib))


@pytest.mark.parametrize("name", ["atleast_1d", "atleast_2d", "atleast_3d"])
def test_a_list_of_tensors_gives_a_tuple(name: str) -> None:
    def shapes(lib: Any) -> list[Any]:
        grown = getattr(lib, name)
        found = [grown((lib.ones(2),)), grown([lib.ones(2)]), grown(lib.ones(2), lib.tensor(1.0))]
        return [(type(one), [tuple(part.shape) for part in one]) for one in found]

    assert shapes(weft) == shapes(torch)
