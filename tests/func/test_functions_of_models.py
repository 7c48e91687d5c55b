"""Models as functions of their state, as the package functorch has them: values and gradients are PyTorch's."""

from __future__ import annotations

import subprocess
import sys
from typing import Any

import numpy as np
import pytest

import weft
from oracle import submodule, torch

both = pytest.mark.parametrize("lib", [weft, torch], ids=["weft", "torch"])


def _model(lib: Any, seed: int = 0) -> Any:
    model = lib.nn.Sequential(lib.nn.Linear(3, 4), lib.nn.BatchNorm1d(4), lib.nn.Linear(4, 2))
    numbers = np.random.RandomState(seed)
    with lib.no_grad():
        for p in model.parameters():
            p.copy_(lib.tensor(numbers.randn(*p.shape).astype(np.float32)))
    return model.eval()


@both
def test_a_model_is_a_function_of_its_state(lib: Any) -> None:
    module = submodule(f"{lib.__name__}._functorch.make_functional")
    model, x = _model(lib), lib.ones(5, 3)
    called, params, buffers = module.make_functional_with_buffers(model)
    np.testing.assert_allclose(called(params, buffers, x).tolist(), model(x).tolist(), rtol=1e-6)
    halved = tuple(p / 2 for p in params)
    assert called(halved, buffers, x).tolist() != model(x).tolist()
    grads = lib.autograd.grad(called(params, buffers, x).sum(), params)
    model(x).sum().backward()
    for grad, p in zip(grads, model.parameters(), strict=True):
        np.testing.assert_allclose(grad.tolist(), p.grad.tolist(), rtol=1e-5, atol=1e-6)


@both
def test_without_buffers_and_without_gradients(lib: Any) -> None:
    module = submodule(f"{lib.__name__}._functorch.make_functional")
    layer = lib.nn.Linear(3, 2)
    called, params = module.make_functional(layer, disable_autograd_tracking=True)
    assert not any(p.requires_grad for p in params)
    np.testing.assert_allclose(called(params, lib.ones(3)).tolist(), layer(lib.ones(3)).tolist())


def test_the_package_of_that_name_is_wefts() -> None:
    """PyTorch's own would ask for parts of PyTorch."""
    program = (
        "from weft import as_torch; as_torch.install(); import functorch, torch;"
        "f, p = functorch.make_functional(torch.nn.Linear(2, 1));"
        "print(functorch.grad(lambda p: f(p, torch.ones(2)).sum())(p)[0].tolist(), functorch.__version__)"
    )
    done = subprocess.run([sys.executable, "-c", program], capture_output=True, text=True)
    assert done.stdout.split(" 2.")[0] == "[[1.0, 1.0]]", done.stderr


@both
def test_an_ensemble_is_mapped(lib: Any) -> None:
    module = submodule(f"{lib.__name__}._functorch.make_functional")
    models, x = [_model(lib, seed) for seed in range(3)], lib.ones(5, 3)
    called, params, buffers = module.combine_state_for_ensemble(models)
    made = lib.func.vmap(called, in_dims=(0, 0, None))(params, buffers, x)
    for row, model in zip(made, models, strict=True):
        np.testing.assert_allclose(row.tolist(), model(x).tolist(), rtol=1e-5, atol=1e-6)


def test_attributes_that_are_tensors_are_given_too(lib):
    class Shifted(lib.nn.Module):
        def __init__(self):
            super().__init__()
            self.shift = lib.ones(2)

        def forward(self, x):
            return x + self.shift + self.more

    layer = Shifted()
    given = {"shift": lib.full((2,), 3.0), "more": lib.full((2,), 4.0)}
    assert lib.func.functional_call(layer, given, lib.zeros(2)).tolist() == [7.0, 7.0]
    assert layer.shift.tolist() == [1.0, 1.0] and not hasattr(layer, "more")


def test_a_model_that_is_a_part_of_its_part(lib):
    layer = lib.nn.Module()
    layer.part = lib.nn.Linear(1, 1)
    layer.part.whole = layer
    layer.forward = lambda x: layer.part(x)
    before = layer.part.weight
    given = {"part.whole.part.weight": lib.full((1, 1), 5.0), "part.bias": lib.zeros(1)}
    call = lib.func.functional_call
    assert call(layer, given, lib.ones(1, 1), tie_weights=False).item() == 5.0
    assert layer.part.weight is before


def _tied(lib: Any) -> Any:
    """A model whose bias has two names, and that assigns to its buffer."""

    class Tied(lib.nn.Module):  # type: ignore[misc, name-defined]
        def __init__(self) -> None:
            super().__init__()
            self.l1 = lib.nn.Linear(1, 1)
            self.tied_bias = self.l1.bias
            self.register_buffer("count", lib.zeros(1))
            self.foo = 0.0

        def forward(self, x: Any) -> Any:
            self.count = self.count + 1
            return self.l1(x) + self.tied_bias + self.count

    return Tied()


@both
@pytest.mark.parametrize("call", ["func", "stateless"])
def test_what_a_model_assigns_is_left_in_the_dictionary(lib: Any, call: str) -> None:
    """Statistics that a layer assigns, and does not change in place, would be lost with its own."""
    model, given = _tied(lib), lib.tensor([2.0])
    state: dict[str, Any] = {"count": given}
    if call == "func":
        lib.func.functional_call(model, state, lib.ones(1, 1))
    else:
        with submodule(f"{lib.__name__}.nn.utils.stateless")._reparametrize_module(model, state):
            model(lib.ones(1, 1))
    assert state["count"].tolist() == [3.0]
    assert given.tolist() == [2.0]
    assert model.count.tolist() == [0.0]
    assert sorted(state) == ["count"]


@both
def test_strict_names_are_all_names_where_nothing_is_tied(lib: Any) -> None:
    model, x = _tied(lib), lib.ones(1, 1)
    state = {
        "l1.weight": lib.ones(1, 1),
        "l1.bias": lib.ones(1),
        "count": lib.zeros(1),
    }
    tied = lib.func.functional_call(model, dict(state), x, strict=True)
    assert tied.tolist() == [[4.0]]
    with pytest.raises(RuntimeError, match=r"Missing key\(s\): 'tied_bias'"):
        lib.func.functional_call(model, dict(state), x, tie_weights=False, strict=True)
    state["tied_bias"] = lib.zeros(1)
    with pytest.raises(ValueError, match=r"multiple values for keys \['l1.bias', 'tied_bias'\]"):
        lib.func.functional_call(model, state, x)


WRONG = {
    "no tensor": ({"l1.weight": "words"}, TypeError, "words is not an instance of torch.Tensor"),
    "an attribute": ({"foo": 1}, TypeError, "attribute `foo`: 0.0 is not an instance of torch.Te"),
    "a method": ({"forward": 1}, TypeError, "(?s)attribute `forward`: .* is not an instance of"),
    "no module": ({"l2.bias": 1}, AttributeError, "Tied has no attribute `l2`"),
    "below no module": ({"l1.bias.x": 1}, (AttributeError, TypeError), "bias`"),
}


@both
@pytest.mark.parametrize("case", WRONG)
def test_names_and_values_that_lead_nowhere_are_errors(lib: Any, case: str) -> None:
    """They would be left out in silence; the module is as before."""
    given, kind, words = WRONG[case]
    model = _tied(lib)
    before = dict(model.state_dict(keep_vars=True))
    state = {name: lib.ones(1) if value == 1 else value for name, value in given.items()}
    with pytest.raises(kind, match=words):
        lib.func.functional_call(model, {"count": lib.ones(1), **state}, lib.ones(1, 1))
    after = model.state_dict(keep_vars=True)
    assert all(after[name] is value for name, value in before.items())
    assert model.foo == 0.0


@both
def test_a_parameter_of_a_new_name_is_one_for_the_call(lib: Any) -> None:
    class Listing(lib.nn.Module):  # type: ignore[misc, name-defined]
        def forward(self) -> Any:
            return [name for name, _ in self.named_parameters()]

    model = Listing()
    extra = lib.nn.Parameter(lib.ones(1))
    assert lib.func.functional_call(model, {"extra": extra}) == ["extra"]
    assert list(model.parameters()) == []
    assert not hasattr(model, "extra")
