"""Rules of modules and containers that programs lean on: in both libraries."""

import pytest


def test_a_class_may_register_buffers_in_its_own_way(lib):
    class Layer(lib.nn.Module):
        def register_buffer(self, name, value):
            super().register_buffer(name, value, True)

    layer = Layer()
    layer.table = lib.nn.Buffer(lib.ones(2))
    assert list(layer.state_dict()) == ["table"]


def test_a_buffer_takes_no_name_of_something_else(lib):
    layer = lib.nn.Module()
    layer.size = 5
    with pytest.raises(KeyError):
        layer.size = lib.nn.Buffer(lib.ones(2))
    assert layer.size == 5


def test_sequentials_are_joined_and_repeated_in_place(lib):
    one, two = lib.nn.Linear(1, 1), lib.nn.Tanh()
    model = same = lib.nn.Sequential(one)
    model += lib.nn.Sequential(two)
    model *= 2
    assert model is same
    assert list(same) == [one, two] * 2 == list(2 * lib.nn.Sequential(one, two))
    for factor, kind in (("a", TypeError), (0, ValueError)):
        with pytest.raises(kind):
            model * factor


def test_a_refused_insertion_leaves_the_modules(lib):
    model = lib.nn.Sequential(lib.nn.Tanh())
    with pytest.raises(AssertionError):
        model.insert(0, [lib.nn.Tanh()])
    assert len(model) == 1


def test_parameters_at_positions_in_tensors(lib):
    values = lib.nn.ParameterList([lib.ones(1), lib.zeros(1)])
    position = lib.tensor(1, dtype=lib.int32)
    values[position] = lib.full((1,), 7.0)
    assert values[position].item() == 7.0
    with pytest.raises(TypeError):
        values.extend(lib.nn.Parameter(lib.ones(2)))


def test_submodules_are_replaced_by_modules_and_nothing_else_is(lib):
    model = lib.nn.Module()
    model.kind, model.part = "x", lib.nn.Tanh()
    with pytest.raises(AttributeError):
        model.set_submodule("kind", lib.nn.Tanh())
    with pytest.raises(ValueError, match="is not an nn.Module"):
        model.set_submodule("part", "tanh")


@pytest.mark.parametrize("first", ["cpu", None])
def test_a_flag_is_no_dtype(lib, first):
    with pytest.raises(TypeError):
        lib.nn.Linear(1, 1).to(first, True)
    lib.nn.Linear(1, 1).to(lib.float64, True)


def test_functions_in_place_count_as_changes(lib):
    layer = lib.nn.Linear(2, 2)
    layer.weight.grad = lib.ones(2, 2)
    before = layer.weight._version
    values = layer.weight.tolist()
    layer._apply(lambda tensor: tensor.add_(1.0))
    assert layer.weight._version > before
    assert layer.weight.tolist() == (lib.tensor(values) + 1).tolist()
    assert layer.weight.grad.tolist() == [[2.0, 2.0], [2.0, 2.0]]


def test_weights_of_a_recurrent_layer_in_a_row(lib):
    layer = lib.nn.LSTM(3, 4, num_layers=2)
    assert [tuple(one.shape) for one in layer._flat_weights] == [
        tuple(one.shape) for one in layer.parameters()
    ]


def test_extra_state_that_is_only_read_is_missed(lib):
    class Layer(lib.nn.Module):
        def set_extra_state(self, state):
            pass

    with pytest.raises(RuntimeError, match="Missing key"):
        Layer().load_state_dict(Layer().state_dict())


def test_arguments_for_the_classes_behind(lib):
    class Named:
        def __init__(self, name):
            self.name = name

    class Layer(lib.nn.Module, Named):
        call_super_init = True

    assert Layer("a").name == "a"
