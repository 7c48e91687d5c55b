"""Containers behave like the lists and dictionaries that they stand for."""

from __future__ import annotations

import copy
from collections import OrderedDict

import pytest

import weft
from weft import nn


def test_sequential_indexes_slices_and_changes() -> None:
    model = nn.Sequential(nn.Linear(2, 3), nn.ReLU(), nn.Linear(3, 1))
    assert len(model) == 3 and isinstance(model[-1], nn.Linear)
    head = model[:2]
    assert isinstance(head, nn.Sequential) and len(head) == 2 and head[0] is model[0]
    model[1] = nn.Tanh()
    assert isinstance(model[1], nn.Tanh) and list(model._modules) == ["0", "1", "2"]
    del model[0]
    assert list(model._modules) == ["0", "1"] and isinstance(model[0], nn.Tanh)
    model.append(nn.ReLU()).insert(0, nn.Identity())
    assert [type(m).__name__ for m in model] == ["Identity", "Tanh", "Linear", "ReLU"]
    assert isinstance(model.pop(1), nn.Tanh) and len(model) == 3
    with pytest.raises(IndexError, match="index 9 is out of range"):
        model[9]
    assert len(model + nn.Sequential(nn.ReLU())) == 4


def test_sequential_takes_names() -> None:
    model = nn.Sequential(OrderedDict([("up", nn.Linear(1, 2)), ("act", nn.ReLU())]))
    assert list(model.state_dict()) == ["up.weight", "up.bias"]
    assert model.act is model[1]
    assert model(weft.ones(1, 1)).shape == (1, 2)


def test_module_list() -> None:
    layers = nn.ModuleList(nn.Linear(2, 2) for _ in range(3))
    layers += [nn.ReLU()]
    layers.extend([nn.Tanh()])
    assert len(layers) == 5 and len(list(layers.parameters())) == 6
    assert isinstance(layers[3:], nn.ModuleList) and len(layers[3:]) == 2
    assert (
        repr(layers).splitlines()[1]
        == "  (0-2): 3 x Linear(in_features=2, out_features=2, bias=True)"
    )
    del layers[:3]
    assert [type(m).__name__ for m in layers] == ["ReLU", "Tanh"]
    with pytest.raises(NotImplementedError):
        layers(1)


def test_module_dict() -> None:
    layers = nn.ModuleDict({"a": nn.ReLU(), "b": nn.Linear(1, 1)})
    layers["c"] = nn.Tanh()
    layers.update([("d", nn.Identity())])
    assert list(layers) == list(layers.keys()) == ["a", "b", "c", "d"]
    assert "b" in layers and len(layers) == 4 and isinstance(layers.pop("c"), nn.Tanh)
    assert list(dict(layers.named_parameters())) == ["b.weight", "b.bias"]
    layers.clear()
    assert len(layers) == 0


def test_parameter_containers() -> None:
    weights = nn.ParameterList([weft.ones(2), nn.Parameter(weft.zeros(3))])
    weights.append(weft.ones(1))
    assert len(weights) == 3 and all(isinstance(p, nn.Parameter) for p in weights)
    assert list(weights.state_dict()) == ["0", "1", "2"]
    weights[0] = weft.zeros(5)
    assert weights[0].shape == (5,) and len(weights[1:]) == 2
    with pytest.raises(IndexError):
        weights[3]
    table = nn.ParameterDict({"a": weft.ones(2)})
    table["b"] = weft.ones(3)
    assert list(table.state_dict()) == ["a", "b"] and table["b"].requires_grad
    del table["a"]
    assert list(table.items())[0][0] == "b"


def test_vectors_of_parameters() -> None:
    model = nn.Linear(2, 3)
    vector = nn.utils.parameters_to_vector(model.parameters())
    assert vector.shape == (9,)
    nn.utils.vector_to_parameters(weft.arange(9.0), model.parameters())
    assert model.bias.tolist() == [6.0, 7.0, 8.0] and model.weight.is_leaf


def test_a_list_of_parameters_keeps_other_objects_as_they_are() -> None:
    given = nn.ParameterList([weft.zeros(2), 3, weft.ones(1, 2, dtype=weft.float64)])
    given[0] = weft.ones(2)
    assert given[1] == 3 and list(given.state_dict()) == ["0", "2"]
    assert repr(given) == (
        "ParameterList(\n    (0): Parameter containing: [weft.float32 of size 2]\n    (1): Object of type: int\n"
        "    (2): Parameter containing: [weft.float64 of size 1x2]\n)"
    )
    named = nn.ParameterDict({"a": given[2]})
    assert (
        repr(named) == "ParameterDict(  (a): Parameter containing: [weft.DoubleTensor of size 1x2])"
    )


def test_a_dictionary_of_parameters_keeps_other_objects_as_they_are() -> None:
    table = nn.ParameterDict({"b": weft.ones(2), "a": "text"})
    assert list(table) == ["a", "b"] and list(reversed(table)) == [
        "b",
        "a",
    ]  # by name, as in PyTorch
    assert [name for name, _ in table.named_parameters()] == list(table.state_dict()) == ["b"]
    assert table["a"] == "text" and table.setdefault("c", 3) == 3 and table.get("d", 4) == 4
    assert len(table) == 3 and "c" in table and "d" not in table
    assert repr(table) == (
        "ParameterDict(\n    (a): Object of type: str\n    (b): Parameter containing: [weft.FloatTensor of size 2]\n"
        "    (c): Object of type: int\n)"
    )
    other = copy.deepcopy(table) | nn.ParameterDict([("z", None), ("e", weft.ones(1))])
    assert list(other) == ["a", "b", "c", "z", "e"] and other["e"].requires_grad
    assert other.popitem()[0] == "e" and other.pop("a") == "text" and list(other) == ["b", "c", "z"]
    assert list(table.fromkeys("xy", 1).items()) == [("x", 1), ("y", 1)]
    other.clear()
    assert not len(other) and not list(other.parameters())
    for wrong, error in ((lambda: table["d"], AttributeError), (other.popitem, KeyError)):
        with pytest.raises(error):
            wrong()
    for wrong in (lambda: table[3], lambda: table.update(3)):
        with pytest.raises(TypeError):
            wrong()


def test_container_holds_modules_by_name_and_warns() -> None:
    with pytest.warns(FutureWarning, match="deprecated"):
        model = nn.Container(first=nn.Linear(2, 3), none=None)
    assert list(model._modules) == ["first", "none"] and len(list(model.parameters())) == 2


def test_a_cell_of_ones_own_has_weights_for_its_gates() -> None:
    class Leaky(nn.RNNCellBase):
        def __init__(self, inputs: int, width: int) -> None:
            super().__init__(inputs, width, bias=False, num_chunks=2)

    cell = Leaky(3, 5)
    assert {name: tuple(p.shape) for name, p in cell.named_parameters()} == {
        "weight_ih": (10, 3),
        "weight_hh": (10, 5),
    }
    assert isinstance(nn.LSTMCell(3, 5), nn.RNNCellBase)
