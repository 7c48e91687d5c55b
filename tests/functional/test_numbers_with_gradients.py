"""Numbers given as tensors that require grad: where no gradient could reach them they are refused, as in PyTorch."""

from __future__ import annotations

import inspect
import warnings
from typing import Any

import numpy as np
import pytest

import weft
from oracle import torch
from weft.engine.api.operand_types import NUMBERS

# Calls with a number t that requires grad; x is a vector, m a matrix.
REFUSED = """
T.full((3,), t)
T.full_like(x, t)
x.new_full((3,), fill_value=t)
T.arange(t)
T.arange(0, t)
T.range(0, t)
T.scalar_tensor(t)
T.add(x, x, alpha=t)
x.clone().sub_(x, alpha=t)
T.rsub(x, x, alpha=t)
T.addcmul(x, x, x, value=t)
x.addcdiv(x, x, value=t)
T.addmm(m, m, m, alpha=t)
T.addmv(x, m, x, beta=t)
T.addr(m, x, x, alpha=t)
T.baddbmm(m[None], m[None], m[None], alpha=t)
T.addbmm(m, m[None], m[None], beta=t)
x.index_add(0, T.tensor([0]), x[:1], alpha=t)
T.cdist(m, m, t)
T.dist(x, x * 2, t)
F.normalize(m, p=t)
F.pairwise_distance(x, x * 2, t)
F.pdist(m, t)
T.renorm(m, t, 0, 1.0)
T.linalg.vector_norm(x, t)
T.linalg.norm(x, t)
T.norm(x, t)
x.norm(p=t)
F.group_norm(m, 1, eps=t)
F.layer_norm(x, (3,), eps=t)
F.batch_norm(m, m[0] * 0, m[0] * 0 + 1, training=True, momentum=t)
F.instance_norm(m[None], eps=t)
F.multi_margin_loss(m, T.tensor([0, 1, 2]), p=t)
F.hardshrink(x, t)
F.smooth_l1_loss(x, x * 1.5, beta=t)
F.softplus(x, t)
F.pad(x, (1, 1), value=t)
F.scaled_dot_product_attention(m[None], m[None], m[None], scale=t)
F.threshold(x, t, 1.0)
T.std(x, correction=t)
T.var_mean(x, correction=t)
T.gradient(x, spacing=t)
T.histc(x, 3, t, 4.0)
x.clone().normal_(t, 1.0)
x.clone().uniform_(t, 3.0)
x.clone().exponential_(t)
"""

# These take a tensor as a number in PyTorch only where it does not require grad; here they are differentiated.
DIFFERENTIATED = """
F.leaky_relu(-x, t)
F.elu(-x, t)
T.clamp(x, 0.0, t)
T.nan_to_num(x / 0 * 0, t)
"""

CALLS = [line for line in REFUSED.split("\n") if line]


def called(lib: Any, call: str, requires_grad: bool) -> Any:
    x = lib.tensor([1.0, 2.0, 3.0])
    m = lib.tensor([[1.0, 0.5, 0.0], [2.0, 1.0, 3.0], [0.0, 1.0, 1.0]])
    t = lib.tensor(1.0, requires_grad=requires_grad)
    return eval(call, {"T": lib, "F": lib.nn.functional, "x": x, "m": m, "t": t}), t


@pytest.mark.parametrize("call", CALLS)
def test_no_gradient_is_lost_in_silence(call: str) -> None:
    """A call that PyTorch refuses for the gradient's sake is refused, and runs with a constant."""
    if torch is not None:
        with pytest.raises(TypeError):
            called(torch, call, True)
    with pytest.raises(TypeError, match="must be (Number|float), not Tensor"):
        called(weft, call, True)
    called(weft, call, False)


@pytest.mark.parametrize("call", [line for line in DIFFERENTIATED.split("\n") if line])
def test_numbers_that_are_computed_with_are_differentiated(call: str) -> None:
    found, t = called(weft, call, True)
    found.sum().backward()
    assert t.grad is not None
    assert not weft.isnan(t.grad)


def test_every_number_of_the_table_is_one_of_its_function() -> None:
    """A name that no function has would refuse nothing."""
    public: dict[str, Any] = {}
    for home in (weft.Tensor, weft.linalg, weft.nn.functional, weft):
        for name in NUMBERS:
            found = getattr(home, name.removeprefix("linalg_"), None)
            if found is not None and found.__name__.strip("_") == name:
                public[name] = found
    for name, numbers in NUMBERS.items():
        assert public[name].numbers == numbers, name
        assert numbers <= set(inspect.signature(public[name]).parameters), name


def test_a_list_of_tensors_warns_of_the_gradient() -> None:
    for lib in (weft, torch) if torch is not None else (weft,):
        t = lib.tensor(2.0, requires_grad=True)
        with warnings.catch_warnings(record=True) as caught:
            warnings.simplefilter("always")
            lib.tensor([t.detach(), 1.0])
        assert not caught
        with warnings.catch_warnings(record=True) as caught:
            warnings.simplefilter("always")
            made = lib.tensor([t, t])
        assert not made.requires_grad
        if lib is weft:  # PyTorch warns once in a process
            assert "requires_grad=True to a scalar" in str(caught[0].message)


@pytest.mark.parametrize("dim", ["tensor(0.)", "0.0", "tensor(1.5)"])
@pytest.mark.parametrize("name", ["cumsum", "cumprod", "argmax", "argmin", "prod", "aminmax"])
def test_a_dimension_is_an_integer(name: str, dim: str) -> None:
    """A float is no dimension, a tensor of one neither; an integer of a tensor is."""
    for lib in (weft, torch) if torch is not None else (weft,):
        x = lib.ones(2, 3)
        with pytest.raises(TypeError, match="dim|invalid combination"):
            getattr(x, name)(dim=eval(dim, {"tensor": lib.tensor}))
        getattr(x, name)(dim=lib.tensor(1))


@pytest.mark.parametrize("number", ["int16", "int64", "float16", "float32", "complex64"])
@pytest.mark.parametrize("of_array", ["bool", "uint8", "int32", "float32", "float64"])
def test_an_array_beside_a_tensor_promotes_as_a_tensor(of_array: str, number: str) -> None:
    """`array + tensor` and `tensor + array` have the type and values of the sum of tensors, on either side."""
    array = np.array([1], of_array)
    for lib in (weft, torch) if torch is not None else (weft,):
        x = lib.tensor([1], dtype=getattr(lib, number))
        expected = lib.from_numpy(array) + x
        names = str(expected.dtype).rsplit(".", 1)[-1]
        mine = weft.tensor([1], dtype=getattr(weft, number))
        for found in (array + mine, mine + array):
            assert str(found.dtype).rsplit(".", 1)[-1] == names
            assert found.tolist() == expected.tolist()
