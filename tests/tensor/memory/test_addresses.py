"""Addresses: tensors share one where they share a storage, and nowhere else; it stays for as long as the storage lives.

What PyTorch's address says, others rely on: safetensors finds tied weights by it, C code writes to it.
"""

from __future__ import annotations

import copy
import ctypes
import gc
import itertools
from collections.abc import Callable
from typing import Any

import pytest

import weft
from weft import nn
from weft.engine.devices.cpu import pool
from weft.engine.frontend.resolve import value_of
from weft.engine.pipeline.driver import array_of

torch = pytest.importorskip("torch")
pytestmark = pytest.mark.filterwarnings("ignore:TypedStorage is deprecated")
ADDRESSES = {
    "data_ptr": lambda x: x.data_ptr(),
    "untyped storage": lambda x: x.untyped_storage().data_ptr(),
    "storage": lambda x: x.storage().data_ptr(),
    "numpy": lambda x: x.detach().numpy().__array_interface__["data"][0],
}


def _loaded(T: Any) -> list[Any]:
    one, other = T.nn.Linear(2, 2), T.nn.Linear(2, 2)
    other.load_state_dict(one.state_dict())
    return [one.weight, other.weight, one.bias, other.bias]


def _gradients(T: Any) -> list[Any]:
    x, y = T.ones(3, requires_grad=True), T.ones(3, requires_grad=True)
    (x + y).sum().backward()
    return [x.grad, y.grad]


def _copied(T: Any) -> list[Any]:
    x, y = T.arange(3.0), T.empty(3)
    return [x, y.copy_(x), T.empty(2).copy_(x[1:])]


def _set_whole(T: Any) -> list[Any]:
    x, y = T.arange(3.0), T.zeros(3)
    y[:] = x
    return [x, y]


def _of_module(T: Any) -> list[Any]:
    module = T.nn.BatchNorm1d(2)
    state = module.state_dict()
    return [*module.parameters(), *module.buffers(), *state.values()]


def _tied(T: Any) -> list[Any]:
    one, other = T.nn.Linear(2, 2), T.nn.Linear(2, 2)
    other.weight = one.weight
    return [one.weight, other.weight, one.bias, other.bias]


VALUES: dict[str, Callable[[Any], list[Any]]] = {
    "constants": lambda T: [T.ones(3), T.ones(3), T.zeros(()), T.zeros(()), T.full((2, 2), 3)],
    "equal results": lambda T: [T.arange(3.0) * 2, T.arange(3.0) * 2],
    "the same result twice": lambda T: (lambda x: [x * 2, x * 2, x])(T.arange(3.0)),
    "clones": lambda T: (lambda x: [x, x.clone(), x.detach().clone(), x + 0])(T.arange(3.0)),
    "deep copies": lambda T: (lambda x: [x, copy.deepcopy(x), copy.copy(x)])(T.arange(3.0)),
    "copied": _copied,
    "set as a whole": _set_whole,
    "loaded": _loaded,
    "gradients": _gradients,
    "views": lambda T: (lambda x: [x, x[1:], x.view(-1), x.detach(), x.data, x.t()])(T.arange(4.0)),
    "contiguous": lambda T: (lambda x: [x, x.contiguous(), x.t().contiguous()])(T.ones(2, 3)),
    "expanded": lambda T: (lambda x: [x, x.expand(3, 2), x.expand(3, 2).contiguous()])(T.ones(2)),
    "layer norms": lambda T: list(
        T.nn.Sequential(T.nn.LayerNorm(4), T.nn.LayerNorm(4)).parameters()
    ),
    "a module and its state": _of_module,
    "tied": _tied,
}


@pytest.mark.parametrize("address", ADDRESSES)
@pytest.mark.parametrize("name", VALUES)
def test_addresses_are_equal_where_they_are_in_pytorch(name: str, address: str) -> None:
    said = []
    for T in (weft, torch):
        tensors = VALUES[name](T)
        places = [ADDRESSES[address](x) for x in tensors]
        assert places == [ADDRESSES[address](x) for x in tensors]
        said.append([a == b for a, b in itertools.combinations(places, 2)])
    assert said[0] == said[1]


def _shared_values() -> dict[str, Any]:
    x = weft.arange(4.0)
    y, z = weft.empty(4), weft.empty(2)
    kept = {"pending": x * 2, "clone": x.clone(), "copied": y.copy_(x), "part": z.copy_(x[1:3])}
    kept["deep copy"], kept["saved"] = copy.deepcopy(x), x.exp()
    return {"x": x, **kept}


@pytest.mark.parametrize("computed", [False, True])
@pytest.mark.parametrize("known", [False, True])
def test_what_is_written_to_an_address_only_the_storage_shows(known: bool, computed: bool) -> None:
    values = _shared_values()
    x = values.pop("x")
    if known:
        x.data_ptr()
        values |= {"later " + k: v for k, v in {"clone": x.clone(), "sum": x + 1}.items()}
        values["later copy"] = weft.empty(4).copy_(x)
    before = {name: value.clone() for name, value in values.items()} if computed else {}
    expected = {name: value.tolist() for name, value in before.items()}
    view = x[2:]
    ctypes.memset(x.data_ptr(), 0, 16)
    assert x.tolist() == [0, 0, 0, 0] and view.tolist() == [0, 0]
    for name, value in expected.items():
        assert values[name].tolist() == value, name
    assert values["pending"].tolist() == [0, 2, 4, 6]
    assert values["copied"].tolist() == [0, 1, 2, 3] and values["part"].tolist() == [1, 2]


def test_a_saved_value_is_not_what_is_written_to_the_address() -> None:
    w, x = weft.ones(3, requires_grad=True), weft.full((3,), 2.0)
    y = (w * x).sum()
    ctypes.memset(x.data_ptr(), 0, 12)
    y.backward()
    assert w.grad.tolist() == [2, 2, 2]


CHANGES: dict[str, Callable[[Any, Any], Any]] = {
    "add_": lambda T, x: x.add_(1),
    "zero_": lambda T, x: x.zero_(),
    "a part": lambda T, x: x[1].fill_(5),
    "copy_": lambda T, x: x.copy_(T.ones(2, 3)),
    "out=": lambda T, x: T.add(x, 1, out=x),
    "out= of others": lambda T, x: T.mul(T.ones(2, 3), 3, out=x),
    "data": lambda T, x: x.data.mul_(2),
    "numpy": lambda T, x: x.numpy().fill(3),
    "read": lambda T, x: (x * 2).sum().item(),
    "cloned": lambda T, x: x.clone().add_(1).tolist(),
    "transposed": lambda T, x: x.t_(),
    "smaller": lambda T, x: x.resize_(2),
    "storage": lambda T, x: x.untyped_storage().fill_(0),
}


@pytest.mark.parametrize("held", [False, True])
@pytest.mark.parametrize("name", CHANGES)
def test_an_address_stays(name: str, held: bool) -> None:
    """Also where somebody reads the value that was there before."""
    shown = []
    for T in (weft, torch):
        x = T.arange(6.0).reshape(2, 3).clone()
        address = x.data_ptr()
        reader = x * 2 if held else None
        CHANGES[name](T, x)
        assert x.data_ptr() == x.untyped_storage().data_ptr() == address
        CHANGES[name](T, x)
        gc.collect()
        assert x.data_ptr() == address
        count = x.numel()
        read = (ctypes.c_float * count).from_address(x.data_ptr())
        whole = x.t() if name == "transposed" and x.stride(0) != 3 else x
        assert list(read) == whole.reshape(-1).tolist()
        assert reader is None or reader.tolist() == [[0, 2, 4], [6, 8, 10]]
        shown.append(x.tolist())
    assert shown[0] == shown[1]


def test_training_keeps_addresses() -> None:
    weft.manual_seed(0)
    model = nn.Sequential(nn.Linear(4, 8), nn.BatchNorm1d(8), nn.ReLU(), nn.Linear(8, 1))
    twin = copy.deepcopy(model)
    places = {name: value.data_ptr() for name, value in model.state_dict().items()}
    for module in (model, twin):
        optimizer = weft.optim.Adam(module.parameters())
        weft.manual_seed(1)
        for _ in range(3):
            optimizer.zero_grad()
            module(weft.randn(8, 4)).square().mean().backward()
            optimizer.step()
    assert {name: value.data_ptr() for name, value in model.state_dict().items()} == places
    for one, other in zip(model.parameters(), twin.parameters(), strict=True):
        assert weft.equal(one, other)


def test_an_array_over_a_value_keeps_its_memory() -> None:
    """Whatever becomes of the tensor, whose value has gone away from there and come back."""
    x = weft.arange(5000.0) + 1
    weft.realize(x)
    x.data_ptr()
    array = array_of(value_of(x))
    for _ in range(3):
        x.add_(1)
        x.data_ptr()
    del x
    gc.collect()
    place = array.ctypes.data
    taken = [pool.allocate(array.nbytes) for _ in range(3)]
    assert all(place != buffer.address for buffer in taken)
    assert array[:2].tolist() == [4, 5]
    del array


def _allocated() -> int:
    gc.collect()
    allocated: int = pool.stats()["allocated"]
    return allocated


def test_an_address_beside_an_array_costs_one_copy() -> None:
    x = weft.arange(5000.0) + 1
    address = x.data_ptr()
    before = _allocated()
    array = array_of(value_of(x))
    x.data_ptr()
    lent = _allocated()
    assert {x.data_ptr() for _ in range(100)} == {address}
    assert _allocated() == lent
    for step in range(3):
        x.add_(1)
        assert x.data_ptr() == address == array.ctypes.data
        assert array[0] == x[0].item() == step + 2
    assert _allocated() == lent
    del array
    assert _allocated() == before


def test_what_arrays_look_at_is_freed_with_the_last_of_them() -> None:
    """Whoever read the value before has a copy only for as long as it is there, and arrays go in any order."""
    for order in itertools.permutations(range(3)):
        before = _allocated()
        x = weft.arange(5000.0) + 1
        address = x.data_ptr()
        arrays: list[Any] = []
        for _ in range(3):
            arrays.append(array_of(value_of(x)))
            for _ in range(3):
                reader = x * 2
                assert x.data_ptr() == address
                assert reader[0].item() == 2
                del reader
        assert _allocated() - before <= 4 * pool.capacity_of(x.nbytes) + (1 << 12)
        for index in order:
            assert arrays[index].ctypes.data == address and arrays[index][9] == 10
            arrays[index] = None
            assert x.data_ptr() == address
        del x
        assert _allocated() == before


def test_a_new_value_is_not_written_over_what_an_array_looks_at() -> None:
    x = weft.arange(5000.0) + 1
    x.data_ptr()
    array = array_of(value_of(x))
    x.data_ptr()
    for _ in range(3):
        x.add_(1)
        weft.realize(x)
        assert array[0] == 1
    x.data_ptr()
    assert array[0] == 4
