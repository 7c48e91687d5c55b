"""What a Module does with its members, its modes, its hooks and its state."""

from __future__ import annotations

import copy
import gc
import inspect
import pickle
import weakref

import pytest

import weft
from weft import nn


class Pair(nn.Module):
    """Two layers, a parameter and two buffers."""

    def __init__(self) -> None:
        super().__init__()
        self.first = nn.Linear(3, 4)
        self.scale = nn.Parameter(weft.ones(4))
        self.second = nn.Linear(4, 2)
        self.register_buffer("seen", weft.zeros(1))
        self.register_buffer("scratch", weft.zeros(2), persistent=False)

    def forward(self, x: weft.Tensor) -> weft.Tensor:
        return self.second(self.first(x) * self.scale)


def names(pairs) -> list[str]:
    return [name for name, _ in pairs]


def test_members_are_listed_in_order_of_assignment() -> None:
    model = Pair()
    assert names(model.named_parameters()) == [
        "scale", "first.weight", "first.bias", "second.weight", "second.bias",
    ]  # fmt: skip
    assert names(model.named_buffers()) == ["seen", "scratch"]
    assert names(model.named_modules()) == ["", "first", "second"]
    assert names(model.named_children()) == ["first", "second"]
    assert names(model.named_parameters(prefix="m", recurse=False)) == ["m.scale"]
    assert list(model.state_dict()) == [
        "scale", "seen", "first.weight", "first.bias", "second.weight", "second.bias",
    ]  # fmt: skip


def test_shared_members_are_listed_once_but_saved_twice() -> None:
    model = nn.Sequential(nn.Linear(2, 2), nn.Linear(2, 2))
    model[1].weight = model[0].weight
    assert len(list(model.parameters())) == 3
    assert len(list(model.named_parameters(remove_duplicate=False))) == 4
    assert len(model.state_dict()) == 4
    twice = nn.Sequential(model[0], model[0])
    assert names(twice.named_modules()) == ["", "0"]
    assert names(twice.named_modules(remove_duplicate=False)) == ["", "0", "1"]


def test_members_may_be_replaced_and_deleted_in_the_middle_of_training() -> None:
    model = Pair()
    model(weft.ones(1, 3)).sum().backward()
    model.second = nn.Linear(4, 5)
    model.scale = nn.Parameter(weft.full((4,), 2.0))
    assert model(weft.ones(1, 3)).shape == (1, 5)
    assert names(model.named_children()) == ["first", "second"]
    del model.scale
    assert "scale" not in model.state_dict()
    with pytest.raises(AttributeError, match="'Pair' object has no attribute 'scale'"):
        model(weft.ones(1, 3))
    model.first = None
    assert names(model.named_children()) == ["second"]
    model.first = nn.Identity()
    assert names(model.named_children()) == ["first", "second"]


def test_kinds_of_members_replace_each_other() -> None:
    model = Pair()
    model.seen = nn.Parameter(weft.ones(1))
    assert "seen" in names(model.named_parameters()) and "seen" not in names(model.named_buffers())
    model.scale = nn.Linear(1, 1)
    assert "scale" in names(model.named_children())
    model.scratch = weft.ones(3)
    assert dict(model.named_buffers())["scratch"].shape == (3,)
    assert "scratch" not in model.state_dict()
    model.extra = nn.Buffer(weft.ones(2))
    assert "extra" in model.state_dict()


def test_the_dictionaries_are_live() -> None:
    model = Pair()
    model._parameters["scale"] = nn.Parameter(weft.zeros(4))
    assert model.scale.sum().item() == 0.0
    model._modules["third"] = nn.ReLU()
    assert isinstance(model.third, nn.ReLU)
    assert set(model._buffers) == {"seen", "scratch"}
    assert model._non_persistent_buffers_set == {"scratch"}
    del model._modules["third"]
    assert not hasattr(model, "third")


def assign(name: str, value):
    return lambda model: setattr(model, name, value)


@pytest.mark.parametrize(
    ("action", "error", "text"),
    [
        (assign("scale", 3), TypeError, "cannot assign 'int' as parameter 'scale'"),
        (assign("first", 3), TypeError, "cannot assign 'int' as child module 'first'"),
        (assign("seen", 3), TypeError, "cannot assign 'int' as buffer 'seen'"),
        (
            lambda m: m.register_parameter("a.b", None),
            KeyError,
            'parameter name can\'t contain "."',
        ),
        (lambda m: m.register_parameter("", None), KeyError, "can't be empty string"),
        (
            lambda m: m.register_parameter(3, None),
            TypeError,
            "parameter name should be a string. Got int",
        ),
        (
            lambda m: m.register_parameter("first", None),
            KeyError,
            "attribute 'first' already exists",
        ),
        (
            lambda m: m.register_parameter("p", 1),
            TypeError,
            "cannot assign 'int' object to parameter 'p'",
        ),
        (
            lambda m: m.register_buffer("forward", None),
            KeyError,
            "attribute 'forward' already exists",
        ),
        (
            lambda m: m.register_buffer("b", 1),
            TypeError,
            "cannot assign 'int' object to buffer 'b'",
        ),
        (lambda m: m.add_module("x", 1), TypeError, "int is not a Module subclass"),
        (lambda m: m.add_module("x.y", None), KeyError, 'module name can\'t contain ".", got: x.y'),
        (lambda m: m.get_submodule("first.x"), AttributeError, "Linear has no attribute `x`"),
        (lambda m: m.get_submodule("scale"), AttributeError, "`scale` is not an nn.Module"),
        (lambda m: m.get_parameter("seen"), AttributeError, "`seen` is not an nn.Parameter"),
        (lambda m: m.get_buffer("scale"), AttributeError, "`scale` is not a buffer"),
        (lambda m: m.train("yes"), ValueError, "training mode is expected to be boolean"),
        (lambda m: m.to(weft.int64), TypeError, "only accepts floating point or complex dtypes"),
        (lambda m: nn.Module()(1), NotImplementedError, 'missing the required "forward" function'),
        (lambda m: nn.Module(1), TypeError, "takes 1 positional argument but 2 were given"),
        (lambda m: nn.Module(a=1), TypeError, "unexpected keyword argument 'a'"),
    ],
)
def test_misuse_is_named(action, error: type[Exception], text: str) -> None:
    with pytest.raises(error) as caught:
        action(Pair())
    assert text in str(caught.value.args[0])


def test_members_before_init_are_refused() -> None:
    class Early(nn.Module):
        def __init__(self, value) -> None:
            self.value = value

    for value, what in ((nn.Parameter(weft.ones(1)), "parameters"), (nn.ReLU(), "module")):
        with pytest.raises(AttributeError, match=f"cannot assign {what} before Module.__init__"):
            Early(value)


def test_modes_reach_all_modules() -> None:
    model = nn.Sequential(nn.Dropout(), nn.Sequential(nn.Dropout()))
    assert model.eval() is model
    assert not any(module.training for module in model.modules())
    model[1].train()
    assert [module.training for module in model.modules()] == [False, False, True, True]


def test_casting_keeps_parameters_and_integers() -> None:
    model = nn.Sequential(nn.Linear(2, 2), nn.BatchNorm1d(2))
    before = list(model.parameters())
    model(weft.ones(2, 2)).sum().backward()
    assert model.double() is model
    assert all(a is b for a, b in zip(before, model.parameters(), strict=True))
    assert model[0].weight.dtype == weft.float64 and model[0].weight.grad.dtype == weft.float64
    assert model[1].running_mean.dtype == weft.float64
    assert model[1].num_batches_tracked.dtype == weft.int64
    assert model.to("cpu", weft.float32)[0].bias.dtype == weft.float32
    assert model.to(weft.ones(1, dtype=weft.float16))[0].bias.dtype == weft.float16


def test_states_from_before_batches_were_counted() -> None:
    """PyTorch's rule: a dictionary without versions, or with version 1, need not have the count."""
    layer = nn.Sequential(nn.BatchNorm1d(2))
    layer(weft.ones(3, 2))
    old = {name: value for name, value in layer.state_dict().items() if "tracked" not in name}
    assert str(layer.load_state_dict(old)) == "<All keys matched successfully>"
    assert layer[0].num_batches_tracked.item() == 1 and len(old) == 4
    new = layer.state_dict()
    del new["0.num_batches_tracked"]
    with pytest.raises(RuntimeError, match="Missing key.*num_batches_tracked"):
        layer.load_state_dict(new)
    found = layer.load_state_dict(new, strict=False)
    assert str(found) == (
        "_IncompatibleKeys(missing_keys=['0.num_batches_tracked'], unexpected_keys=[])"
    )


def test_freezing_and_clearing() -> None:
    model = Pair()
    model(weft.ones(1, 3)).sum().backward()
    kept = model.scale.grad
    model.zero_grad(set_to_none=False)
    assert model.scale.grad is kept and kept.abs().sum().item() == 0.0
    model.zero_grad()
    assert all(parameter.grad is None for parameter in model.parameters())
    assert not any(p.requires_grad for p in model.requires_grad_(False).parameters())


def test_apply_goes_bottom_up() -> None:
    order = []
    model = nn.Sequential(nn.Linear(1, 1), nn.Sequential(nn.ReLU()))
    assert model.apply(lambda module: order.append(type(module).__name__)) is model
    assert order == ["Linear", "ReLU", "Sequential", "Sequential"]


# -- state -----------------------------------------------------------------------------------------


def test_state_is_detached_but_shares_memory() -> None:
    model = Pair()
    state = model.state_dict()
    assert not state["scale"].requires_grad
    with weft.no_grad():
        model.scale.fill_(7.0)
    assert state["scale"].tolist() == [7.0] * 4
    assert model.state_dict(keep_vars=True)["scale"] is model.scale
    assert "m.scale" in model.state_dict(prefix="m.")


def test_loading_copies_in_place_and_assigning_swaps() -> None:
    model, other = Pair(), Pair()
    kept = model.first.weight
    assert str(model.load_state_dict(other.state_dict())) == "<All keys matched successfully>"
    assert model.first.weight is kept
    assert weft.equal(model.first.weight, other.first.weight)
    state = {name: value.double() for name, value in other.state_dict().items()}
    model.load_state_dict(state, assign=True)
    assert model.first.weight is not kept and model.first.weight.dtype == weft.float64
    assert isinstance(model.first.weight, nn.Parameter) and model.first.weight.requires_grad


def test_everything_that_does_not_fit_is_listed() -> None:
    model = Pair()
    state = model.state_dict()
    del state["first.bias"]
    state["third.weight"] = weft.ones(1)
    state["second.weight"] = weft.ones(2, 2)
    with pytest.raises(RuntimeError) as caught:
        model.load_state_dict(state)
    text = str(caught.value)
    assert text.startswith("Error(s) in loading state_dict for Pair:\n\t")
    assert 'Missing key(s) in state_dict: "first.bias". ' in text
    assert 'Unexpected key(s) in state_dict: "third.weight". ' in text
    assert "size mismatch for second.weight: copying a param with shape" in text
    del state["second.weight"]
    found = model.load_state_dict(state, strict=False)
    assert found.missing_keys == ["first.bias", "second.weight"]
    assert found.unexpected_keys == ["third.weight"]
    with pytest.raises(TypeError, match="Expected state_dict to be dict-like"):
        model.load_state_dict([1])


def test_extra_state_travels_along() -> None:
    class Counter(nn.Module):
        count = 0

        def get_extra_state(self) -> int:
            return self.count

        def set_extra_state(self, state: int) -> None:
            self.count = state

    model, other = nn.Sequential(Counter()), nn.Sequential(Counter())
    model[0].count = 5
    other.load_state_dict(model.state_dict())
    assert other[0].count == 5


def test_state_hooks() -> None:
    model = Pair()
    model._register_state_dict_hook(
        lambda m, state, prefix, meta: state.__delitem__(prefix + "seen")
    )
    assert "seen" not in model.state_dict()
    model.register_load_state_dict_pre_hook(
        lambda m, state, prefix, *rest: state.update({prefix + "seen": weft.ones(1)})
    )
    model.load_state_dict(model.state_dict())
    assert model.seen.item() == 1.0


def test_copies_and_pickles_are_independent() -> None:
    model = Pair()
    model(weft.ones(1, 3)).sum().backward()
    for twin in (copy.deepcopy(model), pickle.loads(pickle.dumps(model))):
        assert isinstance(twin.scale, nn.Parameter) and twin.scale.grad is None
        assert names(twin.named_parameters()) == names(model.named_parameters())
        with weft.no_grad():
            twin.scale.fill_(9.0)
        assert model.scale.tolist() == [1.0] * 4
        assert weft.equal(twin.first.weight, model.first.weight)


def test_a_module_is_freed_without_the_collector() -> None:
    for _ in range(3):  # a program that is new is scheduled and compiled, which is not the subject
        Pair()(weft.ones(1, 3)).sum().backward()
        weft.realize()
    gc.collect()
    gc.disable()
    try:
        model = Pair()
        handle = model.register_forward_hook(lambda *arguments: None)
        model(weft.ones(1, 3)).sum().backward()
        weft.realize()
        parameter, module = weakref.ref(model.scale), weakref.ref(model)
        del model, handle
        assert module() is None and parameter() is None
    finally:
        gc.enable()


# -- hooks -----------------------------------------------------------------------------------------


def test_hooks_run_in_order() -> None:
    log: list[str] = []
    model = nn.Linear(2, 2)
    model.register_full_backward_hook(lambda m, gi, go: log.append("backward"))
    model.register_full_backward_pre_hook(lambda m, go: log.append("backward_pre"))
    model.register_forward_hook(lambda m, a, o: log.append("forward"))
    model.register_forward_pre_hook(lambda m, a: log.append("forward_pre"))
    model.register_forward_pre_hook(lambda m, a: log.append("first"), prepend=True)
    model(weft.ones(1, 2, requires_grad=True)).sum().backward()
    assert log == ["first", "forward_pre", "forward", "backward_pre", "backward"]


def test_hooks_replace_arguments_results_and_gradients() -> None:
    model = nn.Identity()
    model.register_forward_pre_hook(lambda m, args: args[0] + 1)
    model.register_forward_hook(lambda m, args, out: out * 10)
    model.register_full_backward_hook(lambda m, gi, go: (gi[0] * 3,))
    x = weft.tensor([1.0, 2.0], requires_grad=True)
    out = model(x)
    assert out.tolist() == [20.0, 30.0]
    out.sum().backward()
    assert x.grad.tolist() == [30.0, 30.0]


def test_hooks_with_keywords() -> None:
    class Scaled(nn.Module):
        def forward(self, x, *, by: float):
            return x * by

    model, seen = Scaled(), []
    model.register_forward_pre_hook(lambda m, a, k: (a, {"by": k["by"] + 1}), with_kwargs=True)
    model.register_forward_hook(lambda m, a, k, out: seen.append(k["by"]), with_kwargs=True)
    assert model(weft.ones(1), by=2.0).item() == 3.0
    assert seen == [3.0]


def test_always_called_hooks_run_after_a_failure() -> None:
    class Broken(nn.Module):
        def forward(self, x):
            raise ValueError("broken")

    model, log = Broken(), []
    model.register_forward_hook(lambda *a: log.append("never"))
    model.register_forward_hook(lambda m, args, out: log.append(out), always_call=True)
    with pytest.raises(ValueError, match="broken"):
        model(1)
    assert log == [None]


def test_removed_hooks_are_gone() -> None:
    model, log = nn.Identity(), []
    handle = model.register_forward_hook(lambda *a: log.append(1))
    with model.register_forward_pre_hook(lambda *a: log.append(2)):
        model(weft.ones(1))
    handle.remove()
    handle.remove()
    model(weft.ones(1))
    assert log == [2, 1]


def test_backward_hook_without_input_gradient_warns() -> None:
    model, seen = nn.Linear(2, 2), []
    model.register_full_backward_hook(lambda m, gi, go: seen.append(gi))
    with pytest.warns(UserWarning, match="no inputs require gradients"):
        model(weft.ones(1, 2)).sum().backward()
    assert seen == [(None,)]
    assert model.weight.grad is not None


# -- parameters ------------------------------------------------------------------------------------


def test_parameters_are_leaves_that_share_their_value() -> None:
    data = weft.ones(3)
    parameter = nn.Parameter(data)
    assert parameter.is_leaf and parameter.requires_grad and isinstance(parameter, weft.Tensor)
    data.fill_(2.0)
    assert parameter.tolist() == [2.0] * 3
    assert type(parameter + 1) is weft.Tensor
    assert repr(parameter).startswith("Parameter containing:\ntensor([2., 2., 2.]")
    assert not nn.Parameter(data, requires_grad=False).requires_grad
    with pytest.raises(
        RuntimeError, match="floating point and complex dtype can require gradients"
    ):
        nn.Parameter(weft.tensor([1, 2]))
    assert nn.Parameter(weft.tensor([1, 2]), requires_grad=False).dtype == weft.int64


def test_a_computed_tensor_is_no_parameter() -> None:
    model = nn.Module()
    with pytest.raises(TypeError, match="object to parameter 'w'"):
        model.register_parameter("w", weft.ones(1, requires_grad=True) * 2)


def test_calls_find_the_forward_that_python_would() -> None:
    class Fixed(nn.Module):
        @staticmethod
        def forward(x: float, twice: bool = False) -> float:
            return x * 2 if twice else x

    class Found(nn.Module):
        def __getattribute__(self, name: str) -> object:
            return abs if name == "forward" else super().__getattribute__(name)

    class Unknown(nn.Module):
        pass

    layer, x = nn.Linear(2, 2), weft.ones(2)
    layer.forward = lambda *args, **kwargs: (args, kwargs)
    assert layer(x, 1, key=2) == ((x, 1), {"key": 2})
    assert Fixed()(3.0, twice=True) == 6.0
    assert Found()(-2) == 2
    with pytest.raises(NotImplementedError, match="forward"):
        Unknown()(1)


def test_the_call_can_be_looked_at_and_passed_on() -> None:
    class Doubled(nn.Linear):
        def __call__(self, *args: object, **kwargs: object) -> object:
            return super().__call__(*args, **kwargs) * 2

    layer, x = Doubled(2, 2), weft.ones(2)
    assert layer(x).tolist() == (layer.forward(x) * 2).tolist()
    assert nn.Module.__call__(layer, x).tolist() == layer.forward(x).tolist()
    assert (
        str(inspect.signature(nn.Module.__call__))
        == "(self, *args: 'Any', **kwargs: 'object') -> 'Any'"
    )
    with pytest.raises(TypeError):
        nn.Module.__call__()
    with pytest.raises(TypeError):
        layer(1, 2, 3)


def test_hooks_that_come_later_see_the_next_call() -> None:
    layer, seen = nn.Linear(2, 2), []
    layer(weft.ones(2))
    handle = layer.register_forward_hook(lambda module, args, result: seen.append(args))
    layer(weft.ones(2))
    handle.remove()
    layer(weft.ones(2))
    assert len(seen) == 1
