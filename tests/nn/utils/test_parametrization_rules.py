"""What parametrizations may do, in what order they apply, what is refused: in both libraries."""

import copy

import pytest


def part(lib, forward, back=None):
    methods = {"forward": lambda self, *x: forward(*x)}
    if back is not None:
        methods["right_inverse"] = lambda self, x: back(x)
    return type("Part", (lib.nn.Module,), methods)()


def twice(lib):
    return part(lib, lambda x: 2 * x, lambda x: x / 2)


def test_the_first_keeps_the_value_and_the_second_changes_it(lib):
    parametrize = lib.nn.utils.parametrize
    layer = lib.nn.Linear(2, 2)
    before = layer.weight.detach().clone()
    parametrize.register_parametrization(layer, "weight", twice(lib))
    assert layer.weight.tolist() == before.tolist()
    parametrize.register_parametrization(layer, "weight", twice(lib))
    assert layer.weight.tolist() == (2 * before).tolist()
    layer.weight = before
    assert layer.weight.tolist() == before.tolist()


def test_parts_take_the_mode_of_the_module(lib):
    parametrize = lib.nn.utils.parametrize
    layer = lib.nn.Linear(2, 2).eval()
    parametrize.register_parametrization(layer, "weight", twice(lib))
    layer.train()
    parametrize.register_parametrization(layer, "weight", twice(lib).eval())
    assert [one.training for one in layer.parametrizations.weight] == [True, True]
    layer.eval()
    assert not layer.parametrizations.weight[0].training


FIRST = {
    "nothing": (lambda x: x, lambda x: None, "Tensor or a Sequence of"),
    "element": (lambda x, y: x, lambda x: (None, x), "of the sequence with type"),
    "type back": (lambda x: x.float(), lambda x: x.bool(), "may not change the dtype"),
    "number": (lambda x: 2, None, "must return a tensor"),
    "type": (lambda x: x.bool(), None, "may not change the dtype"),
    "shape": (lambda x: x[:-1], None, "may not change the shape"),
    "type of two": (lambda x, y: (x + y).bool(), lambda x: (x, x), "may not change the dtype"),
}


@pytest.mark.parametrize("what", FIRST)
def test_the_first_part_is_checked(lib, what):
    forward, back, text = FIRST[what]
    parametrize = lib.nn.utils.parametrize
    layer = lib.nn.Linear(3, 4)
    with pytest.raises(ValueError, match=text):
        parametrize.register_parametrization(layer, "weight", part(lib, forward, back))
    assert not parametrize.is_parametrized(layer)
    assert isinstance(layer.weight, lib.nn.Parameter)


SECOND = {
    "pair": (lambda x: (x, x), None, "must return a tensor"),
    "type": (lambda x: x.bool(), None, "may not change the dtype"),
    "shape": (lambda x: x[:-1], None, "may not change the shape"),
    "pair back": (lambda x: x, lambda x: (x, x), "right_inverse must return a tensor"),
    "type back": (lambda x: x, lambda x: x.bool(), "must have the same dtype"),
    "shape back": (lambda x: x, lambda x: x[:-1], "must have the same shape"),
}


@pytest.mark.parametrize("what", SECOND)
def test_a_further_part_is_checked(lib, what):
    forward, back, text = SECOND[what]
    parametrize = lib.nn.utils.parametrize
    layer = lib.nn.Linear(3, 4)
    parametrize.register_parametrization(layer, "weight", twice(lib))
    with pytest.raises(ValueError, match=text):
        parametrize.register_parametrization(layer, "weight", part(lib, forward, back))
    assert len(layer.parametrizations.weight) == 1


def test_a_value_without_a_way_back_is_refused(lib):
    parametrize = lib.nn.utils.parametrize
    layer = lib.nn.Linear(2, 2)
    parametrize.register_parametrization(layer, "weight", part(lib, lambda x: x + 1))
    with pytest.raises(RuntimeError, match="does not implement right_inverse"):
        layer.weight = lib.ones(2, 2)


def test_parametrizations_go_to_another_module_with_what_it_lacks(lib):
    parametrize = lib.nn.utils.parametrize
    one, other = lib.nn.Linear(2, 2), lib.nn.Linear(2, 2)
    for name in ("weight", "extra"):
        if name == "extra":
            one.extra = lib.nn.Parameter(lib.rand(3))
        parametrize.register_parametrization(one, name, part(lib, lambda x: x + 1))
        parametrize.register_parametrization(one, name, twice(lib))
    parametrize.transfer_parametrizations_and_params(one, other)
    assert other.weight.tolist() == one.weight.tolist()
    assert other.extra.tolist() == one.extra.tolist()


def test_states_of_the_older_weight_norm_load(lib):
    older = lib.nn.Linear(3, 2)
    weight = older.weight.detach()
    norm = weight.norm(dim=1, keepdim=True)
    state = {"weight_g": 2 * norm, "weight_v": weight, "bias": older.bias.detach()}
    newer = lib.nn.utils.parametrizations.weight_norm(lib.nn.Linear(3, 2))
    newer.load_state_dict(copy.deepcopy(state))
    assert lib.allclose(newer.weight, 2 * weight)


def test_the_spectral_norm_of_complex_weights(lib):
    layer = lib.nn.Linear(2, 2, dtype=lib.complex64)
    values = lib.tensor([3 + 4j, 1j])
    layer.weight = lib.nn.Parameter(lib.diag(values))
    lib.nn.utils.parametrizations.spectral_norm(layer)
    assert lib.allclose(layer.weight, lib.diag(values / 5), atol=1e-5)


def test_tables_of_hooks_hold_functions(lib):
    layer = lib.nn.utils.spectral_norm(lib.nn.Linear(2, 2))
    (hook,) = layer._forward_pre_hooks.values()
    assert type(hook).__name__ == "SpectralNorm"


def test_gradcheck_varies_what_a_module_holds(lib):
    layer = lib.nn.Linear(2, 2).double()
    x = lib.rand(3, 2, dtype=lib.float64)
    before = layer.weight.tolist()
    assert lib.autograd.gradcheck(lambda *_: layer(x).tanh(), tuple(layer.parameters()))
    assert layer.weight.tolist() == before


def test_a_parametrized_module_is_not_pickled(lib, tmp_path):
    layer = lib.nn.utils.parametrizations.weight_norm(lib.nn.Linear(2, 2))
    with pytest.raises(RuntimeError, match="state_dict"):
        lib.save(layer, tmp_path / "layer.pt")
