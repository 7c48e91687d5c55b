"""Where results lie in memory: strides as PyTorch reports them, of channels last and of products."""

import numpy as np
import pytest

import weft
from oracle import torch

SHAPES = [(2, 4, 5, 6), (1, 4, 5, 6), (2, 1, 4, 6), (2, 4, 3, 5, 6), (1, 4, 3, 5, 6)]


def image(lib, shape):
    """Consecutive numbers with channels last."""
    x = lib.arange(int(np.prod(shape)), dtype=lib.float32).reshape(*shape) + 1
    form = lib.channels_last if len(shape) == 4 else lib.channels_last_3d
    return x.contiguous(memory_format=form)


def strides(x):
    """Those of dimensions with more than one element."""
    return [step for step, size in zip(x.stride(), x.shape, strict=True) if size != 1]


def same(make):
    ours, theirs = make(weft), make(torch)
    assert tuple(ours.shape) == tuple(theirs.shape)
    assert strides(ours) == strides(theirs), f"{ours.stride()}, PyTorch {theirs.stride()}"
    found = ours.detach().numpy()
    steps = zip(found.strides, ours.stride(), ours.shape, strict=True)
    assert all(a == b * found.itemsize for a, b, size in steps if size > 1)


FUNCTIONS = {
    "glu": lambda lib, x: lib.nn.functional.glu(lib.cat([x, x], 1), 1),
    "glu over the first": lambda lib, x: lib.nn.functional.glu(lib.cat([x, x]), 0),
    "instance_norm": lambda lib, x: lib.nn.functional.instance_norm(x),
    "instance_norm, running": lambda lib, x: lib.nn.functional.instance_norm(
        x, lib.zeros(x.shape[1]), lib.ones(x.shape[1]), use_input_stats=False
    ),
    "layer_norm": lambda lib, x: lib.nn.functional.layer_norm(x, x.shape[-1:]),
    "batch_norm": lambda lib, x: lib.nn.functional.batch_norm(
        x, lib.zeros(x.shape[1]), lib.ones(x.shape[1])
    ),
    "masked_fill": lambda lib, x: x.masked_fill(x > 3, 0.0),
    "renorm": lambda lib, x: lib.renorm(x, 2, 1, 1.0),
    "rrelu": lambda lib, x: lib.nn.functional.rrelu(x),
    "alpha_dropout": lambda lib, x: lib.nn.functional.alpha_dropout(x, 0.5, True),
}
POOLS = {
    "avg_pool": lambda F, d: getattr(F, f"avg_pool{d}d"),
    "max_pool": lambda F, d: getattr(F, f"max_pool{d}d"),
    "lp_pool": lambda F, d: lambda x, size: getattr(F, f"lp_pool{d}d")(x, 2.0, size),
    "adaptive_avg_pool": lambda F, d: getattr(F, f"adaptive_avg_pool{d}d"),
    "adaptive_max_pool": lambda F, d: getattr(F, f"adaptive_max_pool{d}d"),
    "fractional_max_pool": lambda F, d: (
        lambda x, size: getattr(F, f"fractional_max_pool{d}d")(
            x, size, output_size=(1, 2, 2)[3 - d :]
        )
    ),
}


@pytest.mark.parametrize("shape", SHAPES, ids=str)
@pytest.mark.parametrize("name", FUNCTIONS)
def test_functions_of_channels_last(name, shape):
    same(lambda lib: FUNCTIONS[name](lib, image(lib, shape)))


@pytest.mark.parametrize("shape", SHAPES, ids=str)
@pytest.mark.parametrize("name", POOLS)
def test_pools_of_channels_last(name, shape):
    same(lambda lib: POOLS[name](lib.nn.functional, len(shape) - 2)(image(lib, shape), 2))


@pytest.mark.parametrize("shape", SHAPES, ids=str)
@pytest.mark.parametrize("dim", range(-1, 4))
def test_stacks_of_channels_last(dim, shape):
    same(lambda lib: lib.stack([image(lib, shape)] * 3, dim))


def test_a_stack_of_other_layouts_is_in_order():
    for make in (
        lambda lib: lib.stack([image(lib, SHAPES[0]), image(lib, SHAPES[0]).contiguous()], 1),
        lambda lib: lib.stack([lib.ones(3, 4).t()] * 2, 1),
    ):
        same(make)


EQUATIONS = {
    "ij->ji": ["34"],
    "bij->bji": ["234"],
    "bij->jb": ["234"],
    "ii->i": ["33"],
    "ijk->": ["234"],
    "ij,jk->ki": ["34", "45"],
    "bij,bjk->bki": ["234", "245"],
    "bij,bjk->ikb": ["234", "245"],
    "i,j->ji": ["3", "4"],
    "bij,b->ijb": ["234", "2"],
    "ij,ij->ji": ["34", "34"],
    "ij,kj->kji": ["34", "54"],
    "ij,kj->jik": ["34", "54"],
    "bi,bi->b": ["23", "23"],
    "bij,bjk,bkl->lib": ["234", "245", "256"],
    "ij,k,l->lkji": ["23", "4", "5"],
    "bqhd,bkhd->bhqk": ["2345", "2645"],
    "bhqk,bkhd->bqhd": ["2436", "2645"],
    "...ij,...jk->...ik": ["234", "245"],
    "abc,abd->dc": ["234", "235"],
    "ij,j->i": ["34", "4"],
    "i,ij,j->": ["3", "34", "4"],
    "ijk,kl->lij": ["234", "45"],
    "ab,cb->abc": ["21", "34"],
    "nc,ck->kn": ["14", "43"],
    "nchw,kc->nkhw": ["1456", "34"],
}


@pytest.mark.parametrize("turned", [False, True])
@pytest.mark.parametrize("equation", EQUATIONS)
def test_einsum(equation, turned):
    source = np.random.default_rng(3)
    arrays = [source.standard_normal([int(n) for n in shape]) for shape in EQUATIONS[equation]]

    def operands(lib):
        made = [lib.tensor(array) for array in arrays]
        made = [x.mT.contiguous().mT if turned and x.ndim > 1 else x for x in made]
        return [x.requires_grad_() for x in made]

    same(lambda lib: lib.einsum(equation, *operands(lib)).detach())
    results = []
    for lib in (weft, torch):
        given = operands(lib)
        result = lib.einsum(equation, *given)
        weights = lib.tensor(np.cos(np.arange(result.numel())).reshape(tuple(result.shape)))
        results.append([result, *lib.autograd.grad(result, given, weights)])
    for ours, theirs in zip(*results, strict=True):
        np.testing.assert_allclose(ours.detach().numpy(), theirs.detach().numpy(), atol=1e-12)


def test_einsum_of_one_operand_is_a_view():
    for lib in (weft, torch):
        x = lib.zeros(2, 3)
        lib.einsum("ij->ji", x)[2, 1] = 5
        assert x[1, 2].item() == 5.0


def test_what_an_empty_vector_is_joined_to_depends_on_it():
    empty, rows = weft.zeros(0, requires_grad=True), weft.ones(2, 3)
    for parts in ([rows, empty], [empty, rows], [empty, empty], [empty, rows, rows]):
        joined = weft.cat(parts)
        assert joined.requires_grad
        joined.sum().backward()
        assert empty.grad.shape == (0,)
